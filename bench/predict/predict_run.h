/* `tandem predict`: profiles of devices, workloads, a workload on a profile. */
#ifndef TANDEM_BENCH_PREDICT_PREDICT_RUN_H
#define TANDEM_BENCH_PREDICT_PREDICT_RUN_H

#include <stdio.h>

#include "bench/record/device_database.h"
#include "bench/record/results_read.h"

/*
 * What `tandem predict` knows of a device, from its results file or its datasheet, and the time of one operation:
 *
 *   t = t_launch + r · (F / P + V / B(set))      of a results file
 *   t = t_launch + max(F / P, V / B)             of a datasheet: a bound
 *
 * t_launch  the pipelined launch of an empty kernel, or the fastest call of the file where that is less
 * F, P      operations, and the greatest measured rate of the dtype
 * V, B      bytes, and the speed of reading a working set of this size, by the sweep of `tandem bench memory`
 * r         how many times longer than F / P + V / B the measured rows of the operation's class took: the mean over the three
 *           rows that are nearest in their shapes and working sets, weighted by their distances. Nothing is fitted.
 *
 * A class is a kind of operation, its dtype, few or many rows. The stated error is that of
 * predicting each row of a class from the class's rows of other cases.
 */

/* ---- rows of a results file as observations of the model (predict_rows.c) ---- */

enum {
    PREDICT_MAX_KEY = 64,
    PREDICT_FEW_ROWS = 16 /* or columns: the products that read each weight about once */
};

/* One call of an operation. */
typedef struct predict_work {
    char key[PREDICT_MAX_KEY]; /* of its class, e.g. "gemm f32", "stream" */
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
void predict_product_key(char key[PREDICT_MAX_KEY], double m, double n, const char *dtype);

/* The working set of a row that only reads memory, with the device's defaults; NaN for any other row. */
double predict_reading_set(const results_row *row);

/* Median of the pipelined launches; 0 where none was measured. */
double predict_launch(const results_file *file);

/* Median of the measured power; NaN where none was. */
double predict_watts(const results_file *file);

/* ---- the profile ---- */

enum {
    PREDICT_MAX_POINTS = 128,
    PREDICT_MAX_CLASSES = 48,
    PREDICT_NEAREST = 3,   /* rows that a prediction uses */
    PREDICT_LEAST_ROWS = 4 /* of a class: fewer are refused */
};

/* Predictions go up to so many times the largest measured work, and down to this share of the smallest. */
#define PREDICT_UPWARD 8.0
#define PREDICT_DOWNWARD 0.5

/* The speed of reading a working set again and again. */
typedef struct predict_point {
    double working_set;
    double bytes_per_s;
    int is_cached;
} predict_point;

typedef struct predict_class {
    char key[PREDICT_MAX_KEY];
    size_t rows;
    double least_work; /* of flops, or of bytes where it is no product */
    double most_work;
    double least_side; /* of m, n and k */
    double error;      /* mean absolute relative error; NaN: too few rows */
} predict_class;

typedef struct predict_profile {
    const char *name;
    const datasheet *sheet; /* not NULL: a bound from a datasheet instead of measurements */
    predict_point points[PREDICT_MAX_POINTS]; /* by their working sets; the last is main memory's */
    size_t point_count;
    double launch_s;
    double capacity_bytes; /* NaN: not known */
    double watts;          /* NaN: not known */
    predict_observations rows;
    predict_class classes[PREDICT_MAX_CLASSES];
    size_t class_count;
    double error;           /* mean over all rows of classes with enough of them; NaN: not known */
    size_t compared;        /* rows of which that is the mean */
    double bandwidth_scale; /* of main memory; 1: as it is */
} predict_profile;

typedef struct predict_estimate {
    /* The sum of what follows; of a datasheet launch_s and the greater of the others. */
    double seconds;
    double compute_s;
    double memory_s;
    double launch_s;
    int is_cached;                 /* A cache serves the working set. */
    const predict_class *measured; /* the class that was used; NULL: a datasheet */
} predict_estimate;

/* Read a profile from the rows of a file, which must stay. 0, or -1 with the reason and nothing to release. */
int predict_profile_read(const results_file *file, predict_profile *profile, file_error *error);

/* Bounds from a datasheet. */
void predict_profile_from_sheet(const datasheet *sheet, predict_profile *profile);

void predict_profile_release(predict_profile *profile);

/* The time of one call. 0, or -1 with the reason: nothing like it was measured. */
int predict_time(const predict_profile *profile, const predict_work *work,
                 predict_estimate *estimate, file_error *error);

/* The greatest arithmetic rate of a dtype; NaN where it is not known. */
double predict_peak(const predict_profile *profile, const char *dtype);

/* The speed of reading with this working set, the scale included. */
double predict_read_speed(const predict_profile *profile, double working_set);

/* Workloads of `tandem predict`: operations with shapes and counts, as predict_workload.c has them. Weights are read anew in every
 * pass: main memory holds them. */

enum {
    WORKLOAD_MAX_OPERATIONS = 16,
    WORKLOAD_MAX_NAME = 64
};

typedef struct workload_operation {
    char name[WORKLOAD_MAX_NAME];
    double count;
    predict_work work;
    double weight_bytes; /* of one call; 0: no weights */
    int resident;        /* a stream of what stays in memory, of which each call has another part */
} workload_operation;

typedef struct predict_workload {
    char name[WORKLOAD_MAX_NAME];
    double tokens; /* of a pass */
    double batch;
    double context;
    double weight_bytes;
    double resident_bytes; /* besides weights: keys and values, embeddings */
    double kv_bytes;       /* keys and values of these */
    workload_operation operations[WORKLOAD_MAX_OPERATIONS];
    size_t operation_count;
} predict_workload;

/* What the user sets in place of the workload's own; 0 or NULL: that. */
typedef struct workload_settings {
    int64_t batch;
    int64_t context;
    const char *weights;
} workload_settings;

/* By its name. 0, or -1 with the reason. */
int predict_workload_make(const char *name, const workload_settings *settings,
                          predict_workload *workload, file_error *error);

/* A workload on a profile: its time, what limits it, whether it fits; and the report of it. */

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
    double tokens_per_s; /* NaN: the workload makes none */
    double decode_bound; /* tokens per second that main memory allows; NaN: it reads no weights */
    double joules;       /* NaN: power is not known */
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
