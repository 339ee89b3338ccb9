/* c = a (copy), scale·a (scale), a + b (add), a + scale·b (triad) or scale (write). READ sums the
 * words of a modulo 2^32; GATHER sums the words of b at the indices in a. These measure the
 * bandwidth of memory or of a cache. If chunk, item and gap are multiplied by a factor, a read of
 * single words accesses every factor-th word.
 *
 * An array is divided into chunks. A work-item has `unroll` vectors of N elements in a chunk, `gap`
 * apart:
 *
 *     chunk c:  | item 0, vector 0 | item 1, vector 0 | … | item 0, vector 1 | item 1, vector 1 | …
 *                <---- item ----->                         <- gap from vector 0 to vector 1
 *
 * A group takes chunks group·first_chunk + p·next_chunk, p < passes. This is a contiguous range
 * (first_chunk = passes, next_chunk = 1), or chunks strided by the number of groups. All of that is
 * done `rounds` times. The sums of a work-item, N words, go to its own offset in c.
 *
 * Vectors of up to four elements are aligned to their size.
 *
 * Defines: COPY, SCALE, ADD, TRIAD, WRITE, READ or GATHER; N vector width, 1 or 4 for GATHER; EIGHT
 * if a work-item may have eight vectors in a chunk; NONTEMPORAL for non-temporal stores; AHEAD if
 * loads may be prefetched. */
#include "kernels/dialect/dialect.h"
#include "probe_stream_args.h"

#if N > 4
#define LOAD(P, I) TDM_LOADV(N, f32, P, I)
#define STORE(X, I) TDM_STOREV(N, f32, X, c, I)
#else
#define LOAD(P, I) TDM_LOADV_ALIGNED(N, f32, P, I)
/* The index is written as a multiple of N: nvcc splits stores of four if it cannot see the
 * alignment. */
#define STORE(X, I) *(TDM_GLOBAL TDM_F32(N) *)(c + ((I) & -(long)N)) = X
#endif
#ifdef NONTEMPORAL
#undef STORE
#define STORE(X, I) TDM_STREAMV(N, X, c, I)
#endif

/* These handle vector V of a chunk, V·gap elements after the first. */
#define PLACE(V) at + V *traversal.gap
#define TAKE_A(V) const TDM_F32(N) a##V = LOAD(a, a_offset + PLACE(V));
#define TAKE_B(V) const TDM_F32(N) b##V = LOAD(b, b_offset + PLACE(V));
#define GIVE(V) STORE(RESULT(V), c_offset + PLACE(V));
#define PREFETCH_A(V)                                                                              \
    tdm_prefetch_far((TDM_GLOBAL const char *)(a + a_offset + PLACE(V)) + traversal.ahead);
#define PREFETCH_B(V)                                                                              \
    tdm_prefetch_far((TDM_GLOBAL const char *)(b + b_offset + PLACE(V)) + traversal.ahead);
#define NONE(V)

/* These load the words of b at the indices in a vector of a. */
#define WORD(I) b[b_offset + TDM_LANE(N, places, I)]
#if N == 4
#define WORDS s32x4_of(WORD(0), WORD(1), WORD(2), WORD(3))
#define PREFETCH_WORDS PREFETCH_WORD(0) PREFETCH_WORD(1) PREFETCH_WORD(2) PREFETCH_WORD(3)
#else
#define WORDS WORD(0)
#define PREFETCH_WORDS PREFETCH_WORD(0)
#endif
#define PREFETCH_WORD(I) tdm_prefetch(&WORD(I));
#define FIND(V)                                                                                    \
    TDM_S32(N) b##V;                                                                               \
    {                                                                                              \
        const TDM_S32(N) places = TDM_BITS(N, a##V);                                               \
        b##V = WORDS;                                                                              \
    }
#define PREFETCH_FOUND(V)                                                                          \
    {                                                                                              \
        const TDM_S32(N) places = TDM_BITS(N, LOAD(a, a_offset + PLACE(V) + traversal.ahead / 4)); \
        PREFETCH_WORDS                                                                             \
    }

#if defined(COPY)
#define RESULT(V) a##V
#elif defined(SCALE)
#define RESULT(V) scale *a##V
#elif defined(ADD) || defined(TRIAD)
#define FROM_B TAKE_B
#define BEFORE_B PREFETCH_B
#ifdef ADD
#define RESULT(V) a##V + b##V
#else
#define RESULT(V) a##V + scale *b##V
#endif
#elif defined(WRITE)
#define FROM_A NONE
#define RESULT(V) scale
#elif defined(READ)
#define TERM(V) TDM_BITS(N, a##V)
#elif defined(GATHER)
#define FROM_B FIND
#define BEFORE_A PREFETCH_FOUND
#define TERM(V) b##V
#endif

#ifdef TERM
#define OUTPUT tdm_s32
#define TO_C(V) sum##V = tdm_add_wrap(N, sum##V, TERM(V));
#else
#define OUTPUT tdm_f32
#define TO_C GIVE
#endif
#ifndef FROM_A
#define FROM_A TAKE_A
#endif
#ifndef FROM_B
#define FROM_B NONE
#endif
#ifndef BEFORE_A
#define BEFORE_A PREFETCH_A
#endif
#ifndef BEFORE_B
#define BEFORE_B NONE
#endif
#ifdef AHEAD
#define PREFETCH(COUNT)                                                                            \
    if (traversal.ahead > 0) {                                                                     \
        TDM_REPEAT(COUNT, BEFORE_A) TDM_REPEAT(COUNT, BEFORE_B)                                    \
    }
#else
#define PREFETCH(COUNT)
#endif

/* Processes all chunks of the group, COUNT vectors in each. */
#define PASSES(COUNT)                                                                              \
    TDM_NO_UNROLL for (int round = 0; round < traversal.rounds; round++) {                         \
        long chunk = tdm_group_x() * traversal.first_chunk;                                        \
        long at = chunk * traversal.chunk + tdm_item_x() * traversal.item;                         \
        TDM_NO_UNROLL for (int pass = 0; pass < traversal.passes && chunk < traversal.chunks;      \
                           pass++) {                                                               \
            PREFETCH(COUNT)                                                                        \
            TDM_REPEAT(COUNT, FROM_A)                                                              \
            TDM_REPEAT(COUNT, FROM_B)                                                              \
            TDM_REPEAT(COUNT, TO_C)                                                                \
            chunk += traversal.next_chunk;                                                         \
            at += step;                                                                            \
        }                                                                                          \
    }

#define START(V) TDM_S32(N) sum##V = TDM_INT_SPLAT(N, 0);
#define JOIN(V) sum = tdm_add_wrap(N, sum, sum##V);

/* A driver may refuse an argument that the kernel does not use. */
#if defined(WRITE)
#define INPUTS
#elif defined(ADD) || defined(TRIAD)
#define INPUTS                                                                                     \
    TDM_GLOBAL const tdm_f32 *a, long a_offset, TDM_GLOBAL const tdm_f32 *b, long b_offset,
#elif defined(GATHER)
#define INPUTS                                                                                     \
    TDM_GLOBAL const tdm_f32 *a, long a_offset, TDM_GLOBAL const tdm_s32 *b, long b_offset,
#else
#define INPUTS TDM_GLOBAL const tdm_f32 *a, long a_offset,
#endif

TDM_KERNEL(TDM_ENTRY)(INPUTS TDM_GLOBAL OUTPUT *c, long c_offset, tdm_stream_arg traversal) {
    TDM_ITEM_BEGIN;
#ifdef TERM
    TDM_S32(N) sum = TDM_INT_SPLAT(N, 0);
    TDM_REPEAT(8, START)
#elif !defined(COPY) && !defined(ADD)
    const TDM_F32(N) scale = TDM_SPLAT(N, traversal.scale);
#endif
    const long step = traversal.next_chunk * traversal.chunk;
    if (traversal.unroll == 1) {
        PASSES(1)
#ifdef EIGHT
    } else if (traversal.unroll == 8) {
        PASSES(8)
#endif
    } else {
        PASSES(4)
    }
#ifdef TERM
    TDM_REPEAT(8, JOIN)
    TDM_INT_STOREV(N, s32, sum, c, c_offset + tdm_global_x() * N);
#endif
#ifdef NONTEMPORAL
    tdm_stream_end();
#endif
}
