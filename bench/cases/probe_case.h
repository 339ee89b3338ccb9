/* The probes: kernels that do one thing as fast as the device can, which benchmarks take for the limit of what they measure. */
#ifndef TANDEM_BENCH_CASES_PROBE_CASE_H
#define TANDEM_BENCH_CASES_PROBE_CASE_H

#include <stddef.h>
#include <stdint.h>

#include <tandem/dtype.h>

#include "bench/protocol/worker_protocol.h"

typedef enum probe_kind {
    PROBE_FMA,    /* multiply-adds from registers; of s8 products of bytes added to words */
    PROBE_LADDER, /* the same on what is read */
    PROBE_READ,   /* words read once, from memory that was written before */
    PROBE_LAUNCH  /* nothing: one word is written */
} probe_kind;

typedef struct probe_case {
    probe_kind kind;
    tdm_dtype dtype; /* PROBE_FMA, PROBE_LADDER: f32, f16, bf16 or s8 */
    int64_t bytes; /* PROBE_READ, PROBE_LADDER: at least so many; the device's grid may round up */
    int64_t steps; /* PROBE_FMA, PROBE_LADDER: of each chain */
    int64_t share; /* PROBE_LADDER without steps: one chain of so many takes one; 2, 4 or 8 */
    int commands;  /* PROBE_LAUNCH: a call replays a list of so many; 0: it is one launch */
    uint64_t seed;
} probe_case;

/* "fma", "ladder", "read", "launch". */
const char *probe_kind_name(probe_kind kind);

/* Whether it is about chains of steps: arithmetic, not memory. */
int probe_kind_computes(probe_kind kind);

/* What people call the arithmetic of a dtype: "fma" or "dot"; its operations in a step on a word. */
const char *probe_arithmetic_name(tdm_dtype dtype);
int probe_word_operations(tdm_dtype dtype);

/* Operations of PROBE_LADDER for each byte that it reads. */
double probe_ladder_intensity(const probe_case *item);

void probe_case_write(const probe_case *item, worker_text *line);
int probe_case_read(const char *line, probe_case *item);

enum {
    PROBE_TILE_ROWS =
        16, /* the width of a PROBE_FMA of s8 in tile registers is 16 rows of 16 words */
    PROBE_TILE_WORDS = 256,
    /* A prime: strides of powers of two would meet the same word again, and round each sum the same way. */
    PROBE_PERIOD = 4093,
    /* Words before a ladder's values: its walk as probe_ladder.cl names it, and how many of its chains take steps. */
    PROBE_WALK_FIRST = 0,
    PROBE_WALK_STEP = 1,
    PROBE_WALK_GAP = 2,
    PROBE_WALK_PASSES = 3,
    PROBE_WALK_CHAINS = 4,
    PROBE_WALK_STEPPED = 5,
    PROBE_WALK_WORDS = 6,
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

/* Word `index` of what PROBE_READ reads; and what PROBE_LAUNCH writes. */
uint32_t probe_read_word(const probe_case *item, uint64_t index);
int32_t probe_launch_value(const probe_case *item);

/*
 * For bench_runner.h; `user` is the case. The output is the vector width and the chains (fma) or the words read (ladder, read), of a
 * ladder its walk, then every item's sums: those of its chains' ends or words, to the bit but for sums of f32, whose steps may round
 * once or twice. (launch: the head is 1 and 0, the value one word.)
 */
int probe_case_check(const void *user, const void *output, size_t bytes, double *max_error,
                     worker_text *reason);

#endif
