/* The probes: kernels that do one thing as fast as the device can, which benchmarks take for the limit of what they measure. */
#ifndef TANDEM_BENCH_CASES_PROBE_CASE_H
#define TANDEM_BENCH_CASES_PROBE_CASE_H

#include <stddef.h>
#include <stdint.h>

#include <tandem/dtype.h>

#include "bench/protocol/worker_protocol.h"

typedef enum probe_kind {
    PROBE_FMA,   /* multiply-adds from registers; of s8 products of bytes added to words */
    PROBE_LAUNCH /* nothing: one word is written */
} probe_kind;

typedef struct probe_case {
    probe_kind kind;
    tdm_dtype dtype; /* PROBE_FMA: f32, f16, bf16 or s8 */
    int64_t steps;   /* PROBE_FMA: of each chain */
    int commands;    /* PROBE_LAUNCH: a call replays a list of so many; 0: it is one launch */
    uint64_t seed;
} probe_case;

/* "fma", "launch". */
const char *probe_kind_name(probe_kind kind);

/* What people call the arithmetic of a dtype: "fma" or "dot"; its operations in a step on a word. */
const char *probe_arithmetic_name(tdm_dtype dtype);
int probe_word_operations(tdm_dtype dtype);

void probe_case_write(const probe_case *item, worker_text *line);
int probe_case_read(const char *line, probe_case *item);

enum {
    PROBE_TILE_ROWS =
        16, /* the width of a PROBE_FMA of s8 in tile registers is 16 rows of 16 words */
    PROBE_TILE_WORDS = 256,
    /* A prime: strides of powers of two would meet the same word again, and round each sum the same way. */
    PROBE_PERIOD = 4093,
    PROBE_HEAD_WORDS = 2, /* of an output, before the values: the vector width and what follows */
    PROBE_CONSTANTS = 2
};

/*
 * A step is x ← x·a + b on the numbers of a word, one of f32 or two of f16 or bf16, which stay within [-1, 1.5]; or, of s8,
 * x ← x + Σ of the products of x's bytes and a's, modulo 2^32. Sets what a kernel takes for a and b, and returns how many.
 */
int probe_constants(const probe_case *item, uint32_t constants[PROBE_CONSTANTS]);

/* Word `index` that steps are taken from: random, the same again after PROBE_PERIOD of them. */
uint32_t probe_word(const probe_case *item, uint64_t index);

/* What PROBE_LAUNCH writes. */
int32_t probe_launch_value(const probe_case *item);

/*
 * For bench_runner.h; `user` is the case. The output is the vector width and the chains, then every item's sums of its
 * chains' ends, to the bit but for sums of f32, whose steps may round once or twice. (launch: the head is 1 and 0, the value one word.)
 */
int probe_case_check(const void *user, const void *output, size_t bytes, double *max_error,
                     worker_text *reason);

#endif
