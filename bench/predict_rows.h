/* Rows of a results file as observations of the model. For predict_profile.c. */
#ifndef BENCH_PREDICT_ROWS_H
#define BENCH_PREDICT_ROWS_H

#include <stdint.h>

#include "bench/predict_profile.h"

typedef struct predict_observation {
    predict_work work;
    double seconds;
    uint32_t hash; /* of its name */
    int fold;
} predict_observation;

typedef struct predict_observations {
    predict_observation *items;
    size_t count;
    size_t elsewhere; /* rows left out: the processors were faster or slower beside them */
} predict_observations;

/* What the time of the processors' fixed work may be of its median, or the median of it: else they ran elsewhere, or as other ones. */
#define PREDICT_ELSEWHERE 1.2

/*
 * Rows of Tandem that are ok, pipelined and of an operation that the model has, without those beside which the processors were not as
 * fast as beside most. 0, or -1 when memory is short.
 */
int predict_observe(const results_file *file, predict_observations *list);

/* A size that the file's device has; NaN where there is none or it is null. 0, or -1 with the reason: it is no positive number. */
int predict_device_bytes(const results_file *file, const char *key, double *bytes,
                         file_error *error);

/* The sweep, or rows of reading where there is none, in the order of the working sets. 0, or -1 with the reason. */
int predict_read_points(const results_file *file, double launch_s, predict_profile *profile,
                        file_error *error);

/* Median of the pipelined launches; 0 where none was measured. */
double predict_launch(const results_file *file);

/*
 * Median speed of copies from the host: from pinned memory, or where none was measured from pageable; *memory is which. NaN and NULL
 * where neither was.
 */
double predict_link(const results_file *file, const char **memory);

#endif
