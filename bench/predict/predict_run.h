/*
 * `tandem predict` estimates the time of a workload on a device. This header declares profiles of
 * devices, workloads, and runs of a workload on a profile.
 */
#ifndef TANDEM_BENCH_PREDICT_PREDICT_RUN_H
#define TANDEM_BENCH_PREDICT_PREDICT_RUN_H

#include <stdio.h>

#include "bench/record/device_database.h"
#include "bench/record/results_read.h"

/*
 * A profile describes a device by its results file or its datasheet. The time of one operation is:
 *
 *   t = t_launch + r · (F / P + V / B(set))      from a results file
 *   t = t_launch + max(F / P, V / B)             from a datasheet: a lower bound
 *
 *   t_launch  time of a pipelined launch of an empty kernel, or of the file's fastest call if that
 *             is less
 *   F, P      number of operations, and the highest rate of the dtype
 *   V, B      number of bytes, and the speed of reading a working set of this size. The sweep of
 *             `tandem bench memory` measures that speed.
 *   r         measured time of similar rows, without t_launch, divided by F / P + V / B
 *
 * r is a weighted geometric mean. It covers the three rows of the same class with the nearest
 * shapes and working sets. Nearer rows have more weight. No parameter is fitted.
 *
 * Streaming loops are one class. For each dtype, GEMMs with few rows or columns are a class, and
 * all other GEMMs are another. To find the error of a class, each of its rows is predicted from its
 * rows of other cases.
 */

/* ---- rows of a results file as observations (predict_rows.c) --------------------------------- */

enum {
    PREDICT_MAX_KEY = 64,
    PREDICT_FEW_ROWS = 16 /* most rows or columns of a GEMM that reads each weight about once */
};

/* One call of an operation. */
typedef struct predict_work {
    char key[PREDICT_MAX_KEY]; /* name of its class, e.g. "gemm f32", "stream" */
    const char *dtype;
    double m, n, k; /* NaN: not a GEMM */
    double flops;   /* NaN: not a GEMM */
    double read_bytes;
    double write_bytes;
    double working_set; /* bytes that are touched before the same bytes are touched again */
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

/*
 * Collects the rows of Tandem that are ok and pipelined and whose operation is known. Returns 0, or
 * -1 if memory is short.
 */
int predict_observe(const results_file *file, predict_observations *list);

/* Writes the key of a GEMM's class: "gemv" for few rows or columns, otherwise "gemm", and dtype. */
void predict_product_key(char key[PREDICT_MAX_KEY], double m, double n, const char *dtype);

/* Returns the working set if the row only reads memory, with default settings. Otherwise NaN. */
double predict_reading_set(const results_row *row);

/* Returns the median time of a pipelined launch in seconds, or 0 if none was measured. */
double predict_launch(const results_file *file);

/* Returns the median of the measured power, or NaN if none was measured. */
double predict_watts(const results_file *file);

/* ---- the profile ---- */

enum {
    PREDICT_MAX_POINTS = 128,
    PREDICT_MAX_CLASSES = 48,
    PREDICT_NEAREST = 3, /* rows that a prediction uses */
    PREDICT_MIN_ROWS = 4 /* classes with fewer rows are refused */
};

/*
 * Predictions are refused for more than PREDICT_UPWARD times the largest measured work, and for
 * less than PREDICT_DOWNWARD times the smallest.
 */
#define PREDICT_UPWARD 8.0
#define PREDICT_DOWNWARD 0.5

/* The measured speed of reading a working set repeatedly. */
typedef struct predict_point {
    double working_set;
    double bytes_per_s;
    int is_cached;
} predict_point;

typedef struct predict_class {
    char key[PREDICT_MAX_KEY];
    size_t rows;
    double least_work; /* in flops, or in bytes if it is not a GEMM */
    double most_work;
    double least_side; /* of m, n and k */
    double error;      /* mean absolute relative error; NaN: too few rows */
} predict_class;

typedef struct predict_profile {
    const char *name;
    const datasheet *sheet; /* not NULL: gives bounds from this datasheet; NULL: measurements */
    predict_point points[PREDICT_MAX_POINTS]; /* ordered by working set; the last is main memory */
    size_t point_count;
    double launch_s;
    double capacity_bytes; /* NaN: unknown */
    double watts;          /* NaN: unknown */
    predict_observations rows;
    predict_class classes[PREDICT_MAX_CLASSES];
    size_t class_count;
    double error;           /* mean over all rows of classes with enough rows; NaN: unknown */
    size_t compared;        /* number of rows in that mean */
    double bandwidth_scale; /* factor for main memory; 1: unchanged */
} predict_profile;

typedef struct predict_estimate {
    /* The sum of the following times. For a datasheet: launch_s plus the larger of the others. */
    double seconds;
    double compute_s;
    double memory_s;
    double launch_s;
    int is_cached;                 /* a cache serves the working set */
    const predict_class *measured; /* the class that was used; NULL: a datasheet */
} predict_estimate;

/*
 * Makes a profile from the rows of a file, which must stay open. Returns 0, or -1 and the reason.
 * After a failure there is nothing to release.
 */
int predict_profile_read(const results_file *file, predict_profile *profile, file_error *error);

/* Makes a profile of bounds from a datasheet. */
void predict_profile_from_sheet(const datasheet *sheet, predict_profile *profile);

void predict_profile_release(predict_profile *profile);

/*
 * Predicts the time of one call. Returns 0, or -1 and the reason, for example that no similar
 * operation was measured.
 */
int predict_time(const predict_profile *profile, const predict_work *work,
                 predict_estimate *estimate, file_error *error);

/* Returns the highest arithmetic rate of a dtype, or NaN if it is unknown. */
double predict_peak(const predict_profile *profile, const char *dtype);

/* Returns the speed of reading a working set of this size, including bandwidth_scale. */
double predict_read_speed(const predict_profile *profile, double working_set);

/*
 * A workload is a list of operations with shapes and counts (predict_workload.c). Every pass reads
 * all weights again from main memory.
 */

enum {
    WORKLOAD_MAX_OPERATIONS = 16,
    WORKLOAD_MAX_NAME = 64
};

typedef struct workload_operation {
    char name[WORKLOAD_MAX_NAME];
    double count;
    predict_work work;
    double weight_bytes; /* per call; 0: no weights */
    int resident;        /* 1: reads data that stays in memory; each call reads a different part */
} workload_operation;

typedef struct predict_workload {
    char name[WORKLOAD_MAX_NAME];
    double tokens; /* per pass */
    double batch;
    double context;
    double weight_bytes;
    double resident_bytes; /* besides weights: keys and values, embeddings */
    double kv_bytes;       /* part of resident_bytes: keys and values */
    workload_operation operations[WORKLOAD_MAX_OPERATIONS];
    size_t operation_count;
} predict_workload;

/* Settings of the user. 0 or NULL means the default of the workload. */
typedef struct workload_settings {
    int64_t batch;
    int64_t context;
    const char *weights;
} workload_settings;

/* Makes the workload of this name. Returns 0, or -1 and the reason. */
int predict_workload_make(const char *name, const workload_settings *settings,
                          predict_workload *workload, file_error *error);

/* A run is a workload on a profile. It holds the predicted time, the limiter and the memory. */

typedef enum predict_limiter {
    LIMIT_LAUNCH,
    LIMIT_COMPUTE,
    LIMIT_MEMORY, /* main memory */
    LIMIT_CACHE,
    PREDICT_LIMITERS
} predict_limiter;

/* Returns a name such as "compute". */
const char *predict_limiter_name(predict_limiter limiter);

typedef struct predicted_operation {
    predict_estimate call; /* one call */
    double seconds;        /* all calls */
    predict_limiter limiter;
    const char *refusal; /* points into `refusals` of the run; NULL: `call` is an estimate */
} predicted_operation;

typedef struct predict_run {
    const predict_profile *profile;
    const predict_workload *workload;
    predicted_operation operations[WORKLOAD_MAX_OPERATIONS];
    file_error refusals[WORKLOAD_MAX_OPERATIONS];
    size_t refused;
    double needed_bytes;
    double usable_bytes; /* NaN: unknown */
    double seconds;      /* per pass; NaN: an operation was refused */
    double shares[PREDICT_LIMITERS];
    predict_limiter limiter;
    double tokens_per_s; /* NaN: an operation was refused */
    double decode_bound; /* tokens/s that main memory allows; NaN: not one token per sequence */
    double joules;       /* NaN: the power or the time is unknown */
} predict_run;

/* The fraction of the device's memory that is usable. */
#define PREDICT_USABLE 0.95

void predict_run_fill(predict_run *run, const predict_profile *profile,
                      const predict_workload *workload);

/* ---- the report ---- */

struct cJSON;

void predict_print(const predict_run *runs, size_t count, FILE *file);

/* Makes JSON of the schema tandem-predict/1. Returns NULL if memory is short. */
struct cJSON *predict_json(const predict_run *runs, size_t count);

#endif
