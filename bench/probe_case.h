/*
 * The probes: kernels that do one thing as fast as the device can, which the benchmarks measure beside
 * what they are about and take for its limit.
 */
#ifndef BENCH_PROBE_CASE_H
#define BENCH_PROBE_CASE_H

#include <stddef.h>
#include <stdint.h>

#include "bench/worker_protocol.h"

typedef enum probe_kind {
    PROBE_FMA,    /* f32 multiply-adds from registers */
    PROBE_DOT,    /* products of bytes added to words, from registers */
    PROBE_LADDER, /* f32 multiply-adds on what is read */
    PROBE_READ,   /* words read once, from memory that was written before */
    PROBE_LAUNCH  /* nothing: one word is written */
} probe_kind;

typedef struct probe_case {
    probe_kind kind;
    int64_t bytes; /* PROBE_READ, PROBE_LADDER: at least so many; the device's grid may round up */
    int64_t steps; /* PROBE_FMA, PROBE_DOT, PROBE_LADDER: of each chain */
    int64_t
        share; /* PROBE_LADDER without steps: one chain of so many takes one, a power of two up to 8 */
    uint64_t seed;
} probe_case;

/* "fma", "dot", "read", "launch"; and -1 when the name is none. */
const char *probe_kind_name(probe_kind kind);
int probe_kind_parse(const char *name, probe_kind *kind);

/* Whether it is about chains of steps: arithmetic, not memory. */
int probe_kind_computes(probe_kind kind);

void probe_case_write(const probe_case *item, worker_text *line);
int probe_case_read(const char *line, probe_case *item);

enum {
    PROBE_MAX_WIDTH = 16,
    PROBE_MAX_CHAINS = 16,
    /* A prime: strides of powers of two would meet the same element again, and round each sum the same way. */
    PROBE_LADDER_PERIOD = 4093,
    /* words before a ladder's values: its walk as probe_ladder.cl names it, and how many of its chains take steps */
    PROBE_WALK_FIRST = 0,
    PROBE_WALK_STEP = 1,
    PROBE_WALK_GAP = 2,
    PROBE_WALK_PASSES = 3,
    PROBE_WALK_CHAINS = 4,
    PROBE_WALK_STEPPED = 5,
    PROBE_WALK_WORDS = 6,
    PROBE_HEAD_WORDS = 2 /* of an output, before the values: the vector width and what follows */
};

/* x ← x·probe_fma_a + probe_fma_b: stays within [-1, 1], and a step too few is far from the end. */
extern const float probe_fma_a;
extern const float probe_fma_b;
/* Start of chain `chain` in lane `lane`, of `width` lanes. */
float probe_fma_start(const probe_case *item, int width, int chain, int lane);

/*
 * PROBE_DOT: x ← x + Σ b·f modulo 2^32, b the four bytes of x without a sign, f those of the lane's factor with one.
 * The start of a chain in a lane, and the factor.
 */
uint32_t probe_dot_start(const probe_case *item, int width, int chain, int lane);
uint32_t probe_dot_factor(const probe_case *item, int lane);

/* What PROBE_LAUNCH writes. */
int32_t probe_launch_value(const probe_case *item);

/* Element `index` of what PROBE_LADDER reads: random, the same again after PROBE_LADDER_PERIOD of them. */
float probe_ladder_element(const probe_case *item, uint64_t index);

/* Multiplications and additions of PROBE_LADDER for each byte that it reads. */
double probe_ladder_intensity(const probe_case *item);

/* Word `index` of what PROBE_READ reads. */
uint32_t probe_read_word(const probe_case *item, uint64_t index);

/*
 * For bench_runner.h; `user` is the case. The output is PROBE_HEAD_WORDS words, the vector width and
 * the chains (fma, dot) or the words read (ladder, read), then every item's N values. Each item's ends of chains
 * must be those that the same steps give here; the sums must be those of all words; of a ladder, whose values stand behind its walk, those of its items. (launch: the head
 * is 1 and 1, the value one word.)
 */
int probe_case_check(const void *user, const void *output, size_t bytes, double *max_error,
                     worker_text *reason);

#endif
