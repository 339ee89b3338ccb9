/*
 * Other products of Tandem's beside those of a case, each an entrant that runs in turn with the rest: f32 beside other types, so that
 * one run tells how much faster those are; and the same product with an epilogue, so that it tells what that costs.
 */
#ifndef TANDEM_BENCH_SUITES_GEMM_BESIDE_H
#define TANDEM_BENCH_SUITES_GEMM_BESIDE_H

#include "bench/cases/gemm_case.h"
#include "bench/harness/bench_runner.h"

/* f32's name among the peers of `bench gemm` and of its rows, and that of rows with an epilogue. */
#define GEMM_BESIDE_NAME "tandem-f32"
#define GEMM_FUSED_NAME "tandem-fused"

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

/* Make `entrant` Tandem, under that name. */
void gemm_beside_enter(gemm_beside *beside, const char *name, bench_entrant *entrant);

/* What f32 is beside a case, and what it is with an epilogue: where sums are the output, they are requantized. */
gemm_case gemm_beside_f32(const gemm_case *item);
gemm_case gemm_beside_fused(const gemm_case *item, const gemm_case_epilogue *epilogue);

/* Why there is no such case beside this one, or NULL. */
const char *gemm_beside_f32_missing(const gemm_case *item);
const char *gemm_beside_fused_missing(const gemm_case *fused);

/*
 * What it does beside the next case, `item` of its own. `fields`: those of a request that do not belong to the case. -1 when memory
 * is short.
 */
int gemm_beside_prepare(gemm_beside *beside, const char *suite, const gemm_case *item,
                        const char *missing, const worker_text *fields);

/* After the case: what the epilogue costs, as a share of the plain product's time. Into its row's metrics; NaN where either has no time. */
double gemm_beside_note_cost(gemm_beside *fused, const bench_entrant *plain);

void gemm_beside_release(gemm_beside *beside);

/* "bias,residual,gelu": of each at most once, and one activation. -1 where it is something else. */
int gemm_epilogue_parse(const char *list, gemm_case_epilogue *epilogue);
extern const char gemm_epilogue_choices[]; /* for the option table */

/* What the rows of a case say of it; `name` receives the case's name. */
bench_result gemm_case_row(const gemm_case *item, const char *suite, char name[MAX_GEMM_CASE_NAME]);

#endif
