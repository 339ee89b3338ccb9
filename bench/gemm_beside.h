/*
 * Tandem's own f32 beside other types: an entrant that multiplies matrices of the same shape in f32, in turn with
 * the rest, so that one run tells how much faster the other types are.
 */
#ifndef BENCH_GEMM_BESIDE_H
#define BENCH_GEMM_BESIDE_H

#include "bench/bench_runner.h"
#include "bench/gemm_case.h"

/* Its name among the peers of `bench gemm`, and of its rows. */
#define GEMM_BESIDE_NAME "tandem-f32"

enum {
    MAX_GEMM_CASE_NAME = 96
};

/* What the entrant points to while it is measured. Zero-initialised: there is none. */
typedef struct gemm_beside {
    bench_entrant *entrant;
    gemm_case item;
    gemm_oracle oracle;
    worker_text request;
    bench_task task;
    bench_result row;
    char name[MAX_GEMM_CASE_NAME];
} gemm_beside;

/* Make `entrant` Tandem's f32. */
void gemm_beside_enter(gemm_beside *beside, bench_entrant *entrant);

/* What it does beside the next case. `device`: the fields of a request that name the device. -1 when memory is short. */
int gemm_beside_prepare(gemm_beside *beside, const char *suite, const gemm_case *item,
                        const worker_text *device);

void gemm_beside_release(gemm_beside *beside);

/* What the rows of a case say of it; `name` receives the case's name. */
bench_result gemm_case_row(const gemm_case *item, const char *suite, char name[MAX_GEMM_CASE_NAME]);

#endif
