/* What `tandem tune` may try for a problem on a device: variant rows and values of their parameters. */
#ifndef TANDEM_BENCH_TUNE_TUNE_SPACE_H
#define TANDEM_BENCH_TUNE_TUNE_SPACE_H

#include "api/tuning/tuning.h"
#include "bench/cases/gemm_case.h"

enum {
    TUNE_MAX_ROWS = 64,
    TUNE_MAX_VALUES = 28 /* of a parameter, "left to the plan" included */
};

/* A row that the device and the problem do not rule out, and the values worth trying, ascending from 0. */
typedef struct tune_row {
    const tdm_variant *variant;
    int32_t values[TDM_TUNE_PARAMETERS][TUNE_MAX_VALUES];
    int value_count[TDM_TUNE_PARAMETERS]; /* 1 where the row does not take the parameter */
} tune_row;

typedef struct tune_space {
    tune_row rows[TUNE_MAX_ROWS];
    int row_count;
} tune_space;

/*
 * Rows in the table's order, the reference last. Of quantized weights first those that multiply them in place, then those for
 * what they become when they are unpacked.
 */
void tune_space_fill(tune_space *space, const tdm_device_info *device, const gemm_case *item);

/* Number of different choices. */
int64_t tune_space_size(const tune_space *space);

int tune_choice_equal(const tdm_choice *a, const tdm_choice *b);

/* A choice by chance; `random` has 64 random bits. With rows that have parameters it prefers them. */
tdm_choice tune_space_random(const tune_space *space, uint64_t random);

/*
 * Choices that differ from `choice` by one step of one parameter, or by the row alone. Returns how many were written.
 */
int tune_space_neighbours(const tune_space *space, const tdm_choice *choice, tdm_choice *neighbours,
                          int room);

#endif
