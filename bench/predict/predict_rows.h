/* Rows of a results file as observations of the model. For predict_profile.c. */
#ifndef TANDEM_BENCH_PREDICT_PREDICT_ROWS_H
#define TANDEM_BENCH_PREDICT_PREDICT_ROWS_H

#include <stdint.h>

#include "bench/predict/predict_profile.h"

typedef struct predict_observation {
    const results_row *row;
    predict_work work;
    double seconds;
    uint32_t hash; /* of its name */
    int elsewhere; /* the processors stood elsewhere beside it than beside most, or were not as fast */
    int left_out; /* for that */
    int fold;
} predict_observation;

typedef struct predict_observations {
    const results_file *file;
    predict_observation *items;
    size_t count;
    size_t elsewhere; /* rows left out for that */
} predict_observations;

/*
 * Rows of Tandem that are ok, pipelined and of an operation that the model has, without those that were measured elsewhere than most
 * where their class has rows enough besides. 0, or -1 when memory is short.
 */
int predict_observe(const results_file *file, predict_observations *list);

/* A size that the file's device has; NaN where there is none or it is null. 0, or -1 with the reason: it is no positive number. */
int predict_device_bytes(const results_file *file, const char *key, double *bytes,
                         file_error *error);

/* Median of the pipelined launches; 0 where none was measured. */
double predict_launch(const results_file *file);

/*
 * Median speed of copies from the host: from pinned memory, or where none was measured from pageable; *memory is which. NaN and NULL
 * where neither was.
 */
double predict_link(const results_file *file, const char **memory);

#endif
