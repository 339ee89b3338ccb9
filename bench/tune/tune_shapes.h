/* The problems of `tandem tune` and `tandem choices`: of sets, of a list, of a log. */
#ifndef TANDEM_BENCH_TUNE_TUNE_SHAPES_H
#define TANDEM_BENCH_TUNE_TUNE_SHAPES_H

#include "bench/cases/gemm_case.h"

enum {
    TUNE_MAX_CASES = 1024
};

typedef struct tune_cases {
    gemm_case *items;
    int count;
    int left_out; /* of a log: what cannot be tuned as a case by itself */
} tune_cases;

/* What is tuned where nobody says: squares, tails, transformer layers, few rows, a batch. */
extern const char tune_default_shapes[];

/* For the option table: combinations that tuning data tells apart, separated by '|'. */
extern const char tune_dtype_choices[];

/*
 * The shapes of the sets "squares,bert" or "all", or where `sets` is NULL of "MxNxK,BATCH*MxNxK,...", in every dtype of
 * "f32,..." and every layout of "nn,...". `layouts` NULL: a set's own, nn for others. 0, or the exit code after a refusal.
 */
int tune_cases_add(const char *command, const char *sets, const char *shapes, const char *dtypes,
                   const char *layouts, tune_cases *cases);

/*
 * The problems an application ran: its TANDEM_LOG=dispatch output, lines with "gemm: problem m=.. n=.. k=.. batch=.. a=f32 b=f32
 * ...". Other lines are passed over. "-" is standard input. 0, or the exit code after a refusal.
 */
int tune_cases_read_log(const char *command, const char *path, tune_cases *cases);

void tune_cases_release(tune_cases *cases);

#endif
