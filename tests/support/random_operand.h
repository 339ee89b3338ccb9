/*
 * A matrix of a batched problem, drawn at random: how its dimensions follow one another in memory, gaps between them, where it
 * begins, which of the batch's entries it shares, its scales and zero points. What it holds is asked for by entry, row and column.
 */
#ifndef TANDEM_TESTS_SUPPORT_RANDOM_OPERAND_H
#define TANDEM_TESTS_SUPPORT_RANDOM_OPERAND_H

#include "tests/support/test_array.h"

enum {
    RANDOM_BATCH_RANK = 3
};

typedef struct random_batch {
    int rank;
    int64_t shape[RANDOM_BATCH_RANK];
} random_batch;

typedef struct random_operand {
    test_array data, scale, zero; /* the last two only where it carries them */
    int64_t block[TDM_MAX_RANK];
    random_batch batch;
    tdm_tensor *tensor; /* carries the parameters, or is that of the data */
} random_operand;

/* Parameters of powers of two, along the rows or the columns or for all of them. */
typedef struct random_parameters {
    int vary;      /* from the end: 2 by row, 1 by column */
    int64_t group; /* along the other dimension; 0: none */
    tdm_dtype zero;
    int64_t zero_low, zero_high;
    bool by_entry;             /* entries may have their own */
    int scale_low, scale_high; /* exponents */
} random_parameters;

/* True this often of a hundred times. */
bool random_chance(test_random *random, int percent);
int64_t random_of(test_random *random, const int64_t *choices, size_t count);
#define RANDOM_OF(random, choices)                                                                 \
    random_of((random), (choices), sizeof(choices) / sizeof *(choices))

/* Poison, until it is filled and sent. */
void random_operand_create(random_operand *o, const test_device *device, test_random *random,
                           const random_batch *batch, tdm_dtype dtype, const int64_t matrix[2],
                           bool may_share);
void random_operand_quantize(random_operand *o, test_random *random, const random_parameters *p);
void random_operand_destroy(random_operand *o);

/* Integers, sent. */
void random_array_fill(test_array *array, test_random *random, int64_t low, int64_t high);

/* Element of an entry, counted row by row over the batch. */
int64_t random_operand_index(const random_operand *o, int64_t entry, int64_t row, int64_t column);
double random_operand_get(const random_operand *o, int64_t entry, int64_t row, int64_t column);
/* 1 and 0 without parameters. */
double random_operand_scale(const random_operand *o, int64_t entry, int64_t row, int64_t column);
double random_operand_zero(const random_operand *o, int64_t entry, int64_t row, int64_t column);

/* "s8[2:640,5:1,128:5]+3": shape:stride of each dimension, and the offset. */
int random_operand_text(const random_operand *o, char *text, size_t size);

#endif
