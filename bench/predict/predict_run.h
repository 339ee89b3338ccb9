/* A workload on a profile: its time, what limits it, whether it fits; and the report of it. */
#ifndef TANDEM_BENCH_PREDICT_PREDICT_RUN_H
#define TANDEM_BENCH_PREDICT_PREDICT_RUN_H

#include <stdio.h>

#include "bench/predict/predict_profile.h"
#include "bench/predict/predict_workload.h"

typedef enum predict_limiter {
    LIMIT_LAUNCH,
    LIMIT_COMPUTE,
    LIMIT_MEMORY, /* main memory */
    LIMIT_CACHE,
    PREDICT_LIMITERS
} predict_limiter;

/* "compute" … */
const char *predict_limiter_name(predict_limiter limiter);

typedef struct predicted_operation {
    predict_estimate call; /* one call */
    double seconds;        /* all calls */
    predict_limiter limiter;
    const char *refusal; /* why there is no estimate, in the run's texts; NULL: there is one */
} predicted_operation;

typedef struct predict_run {
    const predict_profile *profile;
    const predict_workload *workload;
    predicted_operation operations[WORKLOAD_MAX_OPERATIONS];
    file_error refusals[WORKLOAD_MAX_OPERATIONS];
    size_t refused;
    double needed_bytes;
    double usable_bytes; /* NaN: not known */
    double seconds;      /* of a pass; NaN: an operation was refused */
    double shares[PREDICT_LIMITERS];
    predict_limiter limiter;
    double tokens_per_s;  /* NaN: the workload makes none */
    double decode_bound;  /* tokens per second that main memory allows; NaN: it reads no weights */
    double turning_batch; /* from which on reading weights takes less time than multiplying */
    double joules;        /* NaN: power is not known */
} predict_run;

/* The share of its size that the device's memory can hold. */
#define PREDICT_USABLE 0.95

void predict_run_fill(predict_run *run, const predict_profile *profile,
                      const predict_workload *workload);

/* ---- the report ---- */

struct cJSON;

void predict_print(const predict_run *runs, size_t count, FILE *file);

/* Schema tandem-predict/1; NULL when memory is short. */
struct cJSON *predict_json(const predict_run *runs, size_t count);

#endif
