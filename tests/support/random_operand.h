/*
 * A random operand is a matrix operand of a batched GEMM. Drawn at random are the order of its
 * dimensions in memory, gaps, the offset, shared batch entries, scales and zero points. Elements
 * are read by entry, row and column.
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
    test_array data, scale, zero; /* scale, zero: only if the operand has them */
    int64_t block[TDM_MAX_RANK];
    random_batch batch;
    tdm_tensor *tensor; /* has the quantization parameters, or is data.tensor */
} random_operand;

/*
 * The quantization parameters have scales that are powers of two: by row, by column or one for all.
 */
typedef struct random_parameters {
    int vary;      /* dimension counted from the end: 2 by row, 1 by column */
    int64_t group; /* group size along the other dimension; 0: none */
    tdm_dtype zero;
    int64_t zero_low, zero_high;
    bool by_entry;             /* batch entries may have their own parameters */
    int scale_low, scale_high; /* exponents */
} random_parameters;

/* Returns true in `percent` of 100 calls. */
bool random_chance(test_random *random, int percent);
int64_t random_of(test_random *random, const int64_t *choices, size_t count);
#define RANDOM_OF(random, choices)                                                                 \
    random_of((random), (choices), sizeof(choices) / sizeof *(choices))

/* The data is poison until it is filled and sent. */
void random_operand_create(random_operand *o, const test_device *device, test_random *random,
                           const random_batch *batch, tdm_dtype dtype, const int64_t matrix[2],
                           bool may_share);
void random_operand_quantize(random_operand *o, test_random *random, const random_parameters *p);
void random_operand_destroy(random_operand *o);

/* Fills the array with random integers and sends it. */
void random_array_fill(test_array *array, test_random *random, int64_t low, int64_t high);

/*
 * Returns the index of an element of an entry. Entries are counted in row-major order over the
 * batch.
 */
int64_t random_operand_index(const random_operand *o, int64_t entry, int64_t row, int64_t column);
double random_operand_get(const random_operand *o, int64_t entry, int64_t row, int64_t column);
/* These return 1 and 0 for an operand without parameters. */
double random_operand_scale(const random_operand *o, int64_t entry, int64_t row, int64_t column);
double random_operand_zero(const random_operand *o, int64_t entry, int64_t row, int64_t column);

/* Writes "s8[2:640,5:1,128:5]+3": shape:stride of each dimension, and the offset. */
int random_operand_text(const random_operand *o, char *text, size_t size);

#endif
