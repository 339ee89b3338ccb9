/* Rows of a results file as observations of the model. */
#ifndef TANDEM_BENCH_PREDICT_PREDICT_ROWS_H
#define TANDEM_BENCH_PREDICT_PREDICT_ROWS_H

#include "bench/record/results_read.h"

enum {
    PREDICT_MAX_KEY = 64,
    PREDICT_FEW_ROWS = 16 /* or columns: the products that read each weight about once */
};

/* One call of an operation. */
typedef struct predict_work {
    char key[PREDICT_MAX_KEY]; /* of its class, e.g. "gemm f32 inside", "stream" */
    const char *dtype;
    double m, n, k; /* NaN: it is no product */
    double flops;   /* NaN: it is no product */
    double read_bytes;
    double write_bytes;
    double working_set; /* bytes that are touched before these are touched again */
} predict_work;

typedef struct predict_observation {
    const results_row *row;
    predict_work work;
    double seconds;
} predict_observation;

typedef struct predict_observations {
    predict_observation *items;
    size_t count;
} predict_observations;

/* Rows of Tandem that are ok, pipelined and of an operation that the model has. 0, or -1 when memory is short. */
int predict_observe(const results_file *file, predict_observations *list);

/* The class of a product: few rows or columns are "gemv", others "gemm". */
void predict_product_key(char key[PREDICT_MAX_KEY], double m, double n, const char *dtype,
                         const char *packing);

/* The working set of a row that only reads memory, with the device's defaults; NaN for any other row. */
double predict_reading_set(const results_row *row);

/* Median of the pipelined launches; 0 where none was measured. */
double predict_launch(const results_file *file);

/* Median of the measured power; NaN where none was. */
double predict_watts(const results_file *file);

#endif
