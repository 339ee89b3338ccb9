/*
 * What `tandem predict` knows of a device, from its results file or its datasheet, and what follows for one operation:
 *
 *   t = t_launch + max(T, V / B(V)), or t_launch + T + V / B(V)
 *   B(V) = V / (a + V · ((1 - h) / b_cache + h / b_main))     T = F / P · (c + s · S)
 *
 * t_launch  the pipelined launch of an empty kernel, or the fastest call of all where that is less
 * max or +  whether the device does arithmetic while it waits for memory: of a class of products, what explains its rows better
 * h         the share of V that main memory serves. A set somewhat larger than the last cache is still met there in part: h is what
 *           makes the sweep's speed at this working set one between those of the last cache and of main memory. Where a cache
 *           before the last serves V, its bytes count as fewer by what the sweep says.
 * a, b      of the operation's class, in main memory with the last cache and in the caches before: fitted to its rows that memory
 *           binds, or to all where times add. Streams have a b for what they read and one for what they write. Where a class has no
 *           such rows, B is the sweep's. Where it has them almost all from main memory, the caches' b follows by the sweep; almost all
 *           from the caches, b in main memory is what reading takes there, or b in the caches where that is longer.
 *           Of few rows or columns, weights in rows of more than 7000 have a b_main of their own.
 * P         the dtype's greatest rate; c, s, and a fixed time where T is alone, are fitted to the rows that arithmetic binds, or to all
 *           where times add. S is 1 / m, what each element of B costs once; of few rows or columns memory tells that, and s is 0.
 *
 * A class is a kind of operation, its dtype, few or many rows, B packed in the call or before.
 *
 * Fits are of least absolute relative error, so that a disturbed row moves them little. The speed of main memory is the median of all rows
 * that only read, wherever in the file they stand (predict_memory.h). The error that is told comes from leaving out a fifth of each class's
 * rows at a time (dealt by a hash of their names) and predicting those from the rest: speeds, rates and launches, too, are without them.
 */
#ifndef TANDEM_BENCH_PREDICT_PREDICT_PROFILE_H
#define TANDEM_BENCH_PREDICT_PREDICT_PROFILE_H

#include "bench/analysis/memory_evidence.h"
#include "bench/record/device_database.h"
#include "bench/record/results_read.h"

enum {
    PREDICT_MAX_POINTS = 128,
    PREDICT_MAX_CLASSES = 48,
    PREDICT_MAX_KEY = 64,
    PREDICT_FOLDS = 5,
    PREDICT_LEVELS = 10,    /* main memory and caches */
    PREDICT_FEW_ROWS = 16,  /* or columns: the products that read each weight about once */
    PREDICT_LEAST_ROWS = 4, /* of a class: fewer are no fit */
    PREDICT_TERMS = 3,      /* operations, what the shape costs, and a fixed time */
    PREDICT_MOVES =
        6 /* a fixed time, a byte read and written in caches, in main memory; more in long rows */
};

/* What serves a working set. */
typedef enum predict_regime {
    REGIME_OUTER, /* main memory, the last cache, or both */
    REGIME_INNER_CACHES,
    PREDICT_REGIMES
} predict_regime;

/* What is measured, and what has been tried: up to so many times the largest work, down to this share of the smallest. */
#define PREDICT_UPWARD 8.0
#define PREDICT_DOWNWARD 0.5

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

typedef struct predict_point {
    double working_set;
    double bytes_per_s;
    int level; /* 0: main memory; else a cache */
} predict_point;

typedef struct predict_class {
    char key[PREDICT_MAX_KEY];
    size_t rows;
    double peak;                 /* operations per second, of the dtype; 0: a stream */
    double terms[PREDICT_TERMS]; /* of products */
    int adds;                    /* the times of arithmetic and of memory add up */
    int one_cache;               /* too few rows to tell the caches apart: all count as the last */
    size_t moving[PREDICT_REGIMES]; /* rows that memory binds */
    double moves[PREDICT_REGIMES][PREDICT_MOVES];
    double least_work; /* of flops, or of bytes where it is a stream */
    double most_work;
    double least_side; /* of m, n and k */
    double error; /* mean absolute relative error of rows left out of the fit; NaN: too few rows */
    double worst;
    double leaning; /* the mean with its sign: above 0 the predictions are too long */
} predict_class;

typedef struct predict_profile {
    const char *name;
    const datasheet *sheet; /* a bound from a datasheet instead of measurements */
    predict_point points[PREDICT_MAX_POINTS];
    size_t point_count;
    double main_bytes_per_s;  /* of reading, the scale not included */
    size_t main_rows;         /* of which that is the median */
    int main_elsewhere;       /* they were all measured elsewhere in the machine than most rows */
    memory_evidence evidence; /* what all rows say of main memory */
    double cache_bytes_per_s; /* of the last cache; as main memory where there is none */
    int last_cache;           /* its level; 0: none */
    int has_levels;           /* the sweep tells one cache from another: 1 is L1 */
    double launch_s;
    double capacity_bytes;   /* NaN: not known */
    int capacity_of_sheet;   /* it is the datasheet's, not what the driver told */
    double link_bytes_per_s; /* from the host; NaN: not known */
    const char *link_memory; /* of the host, which that is: "pinned", "pageable"; NULL: not known */
    double watts;            /* NaN: not known */
    predict_class classes[PREDICT_MAX_CLASSES];
    size_t class_count;
    double error; /* over the held-out rows of all classes */
    size_t held_out;
    size_t elsewhere;       /* rows that were left out, as predict_rows.h says */
    size_t above_sheet;     /* measured rows that are above what the device's datasheet promises */
    double bandwidth_scale; /* 1: as it is */
} predict_profile;

typedef struct predict_estimate {
    double seconds;
    double compute_s;
    double memory_s;
    double main_s; /* of memory_s, what main memory takes */
    double launch_s;
    int adds;  /* compute_s is beside memory_s; else the longer of the two is the time */
    int level; /* of memory: what takes most of memory_s */
    const char *
        key; /* of the class that was used: one with B packed otherwise stands in for one without rows; NULL: a datasheet */
} predict_estimate;

/* Fit a profile to the rows of a file. 0, or -1 with the reason. The file must stay. */
int predict_profile_fit(const results_file *file, predict_profile *profile, file_error *error);

/* Bounds from a datasheet. */
void predict_profile_from_sheet(const datasheet *sheet, predict_profile *profile);

/* The time of one call. 0, or -1 with the reason: nothing like it was measured. */
int predict_time(const predict_profile *profile, const predict_work *work,
                 predict_estimate *estimate, file_error *error);

/* The greatest arithmetic rate of a dtype, for many rows or for few; NaN where it is not known. */
double predict_peak(const predict_profile *profile, const char *dtype);

/* The class of a product: few rows or columns are "gemv", others "gemm". */
void predict_product_key(char key[PREDICT_MAX_KEY], double m, double n, const char *dtype,
                         const char *packing);

#endif
