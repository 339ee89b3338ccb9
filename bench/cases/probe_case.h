/*
 * The probes: kernels that do one thing as fast as the device can. Benchmarks use their rates as
 * limits.
 */
#ifndef TANDEM_BENCH_CASES_PROBE_CASE_H
#define TANDEM_BENCH_CASES_PROBE_CASE_H

#include <stddef.h>
#include <stdint.h>

#include <tandem/dtype.h>

#include "bench/protocol/worker_protocol.h"

typedef enum probe_kind {
    PROBE_FMA,   /* multiply-adds from registers; for s8, products of bytes added to words */
    PROBE_LAUNCH /* a kernel that only writes one word */
} probe_kind;

typedef struct probe_case {
    probe_kind kind;
    tdm_dtype dtype; /* PROBE_FMA: f32, f16, bf16 or s8 */
    int64_t steps;   /* PROBE_FMA: steps of each chain */
    int commands;    /* PROBE_LAUNCH: launches of the list that a call replays; 0: one launch */
    uint64_t seed;
} probe_case;

/* Returns "fma" or "launch". */
const char *probe_kind_name(probe_kind kind);

/*
 * Return the usual name of a dtype's arithmetic, "fma" or "dot", and the operations of one step on
 * a word.
 */
const char *probe_arithmetic_name(tdm_dtype dtype);
int probe_word_operations(tdm_dtype dtype);

void probe_case_write(const probe_case *item, worker_text *line);
int probe_case_read(const char *line, probe_case *item);

enum {
    PROBE_TILE_ROWS = 16, /* tile registers: an s8 PROBE_FMA has 16 rows of 16 words */
    PROBE_TILE_WORDS = 256,
    /*
     * The period is a prime. With a power of two, strided indices would meet the same word again,
     * and every sum would be rounded in the same way.
     */
    PROBE_PERIOD = 4093,
    PROBE_HEAD_WORDS = 2, /* output header: the vector width and the number of chains */
    PROBE_CONSTANTS = 2
};

/*
 * A step is x ← x·a + b on the numbers of a word: one f32, or two f16 or bf16, which stay within
 * [-1, 1.5]. For s8 it is x ← x + Σ of the products of x's bytes and a's, modulo 2^32. Sets the
 * kernel's constants a and b, and returns their number.
 */
int probe_constants(const probe_case *item, uint32_t constants[PROBE_CONSTANTS]);

/* Returns start word `index`: random, repeating after PROBE_PERIOD words. */
uint32_t probe_word(const probe_case *item, uint64_t index);

/* Returns the value that PROBE_LAUNCH writes. */
int32_t probe_launch_value(const probe_case *item);

/*
 * Checks an output; it is a bench_verifier (bench_runner.h), and `user` is the case. The output is
 * the vector width and the number of chains, then the sums of each work-item over its chains. f32
 * sums are checked with a tolerance, because their steps may round once or twice. All other sums
 * must match bit for bit. For PROBE_LAUNCH, the header is 1 and 0, and one word follows.
 */
int probe_case_check(const void *user, const void *output, size_t bytes, double *max_error,
                     worker_text *reason);

#endif
