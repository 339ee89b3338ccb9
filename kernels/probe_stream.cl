/* c = a (copy), scale·a (scale), a + b (add), a + scale·b (triad), scale (write), or the sums of a's words modulo 2^32 (read):
 * as fast as memory or a cache gives and takes them.
 *
 * An array is cut into chunks; in one an item has `unroll` vectors of N elements, `gap` apart:
 *
 *     chunk c:  | item 0, vector 0 | item 1, vector 0 | … | item 0, vector 1 | item 1, vector 1 | …
 *                <---- item ----->                         <- gap from vector 0 to vector 1
 *
 * A group takes chunks group·first_chunk + p·next_chunk, p < passes: a run of its own (first_chunk = passes, next_chunk = 1), or
 * every so many as there are groups. All of that `rounds` times. Sums of an item, N words, go to its place of c.
 *
 * Vectors of up to four elements lie at multiples of their size.
 *
 * Defines: COPY, SCALE, ADD, TRIAD, WRITE or READ; N vector width; PAST_CACHES where stores go past the caches; AHEAD where
 * loads may be prefetched. */
#include "dialect.h"
#include "probe_stream_args.h"

#if N > 4
#define LOAD(P, I) TDM_LOADV(N, f32, P, I)
#define STORE(X, I) TDM_STOREV(N, f32, X, c, I)
#else
#define LOAD(P, I) TDM_LOADV_ALIGNED(N, f32, P, I)
/* The place is written as the multiple of N that it is: nvcc takes stores of four apart where it cannot see that. */
#define STORE(X, I) *(TDM_GLOBAL TDM_F32(N) *)(c + ((I) & -(long)N)) = X
#endif
#ifdef PAST_CACHES
#undef STORE
#define STORE(X, I) TDM_STREAMV(N, X, c, I)
#endif

/* A vector's elements V·gap on from those of the pass. */
#define PLACE(V) at + V *walk.gap
#define TAKE_A(V) const TDM_F32(N) a##V = LOAD(a, a_offset + PLACE(V));
#define TAKE_B(V) const TDM_F32(N) b##V = LOAD(b, b_offset + PLACE(V));
#define GIVE(V) STORE(RESULT(V), c_offset + PLACE(V));
#define ASK_A(V) tdm_prefetch_far((TDM_GLOBAL const char *)(a + a_offset + PLACE(V)) + walk.ahead);
#define ASK_B(V) tdm_prefetch_far((TDM_GLOBAL const char *)(b + b_offset + PLACE(V)) + walk.ahead);
#define NONE(V)

#define FROM_A TAKE_A
#define FROM_B NONE
#define TO_C GIVE
#define OUTPUT tdm_f32
#if defined(COPY)
#define RESULT(V) a##V
#elif defined(SCALE)
#define RESULT(V) scale *a##V
#elif defined(ADD)
#define RESULT(V) a##V + b##V
#elif defined(TRIAD)
#define RESULT(V) a##V + scale *b##V
#elif defined(WRITE)
#undef FROM_A
#define FROM_A NONE
#define RESULT(V) scale
#elif defined(READ)
#undef TO_C
#undef OUTPUT
#define OUTPUT tdm_s32
#define TO_C(V) sum##V = tdm_add_wrap(N, sum##V, TDM_BITS(N, a##V));
#endif
#if defined(ADD) || defined(TRIAD)
#undef FROM_B
#define FROM_B TAKE_B
#endif

#if defined(AHEAD) && (defined(ADD) || defined(TRIAD))
#define ASK(COUNT)                                                                                 \
    if (walk.ahead > 0) {                                                                          \
        TDM_REPEAT(COUNT, ASK_A) TDM_REPEAT(COUNT, ASK_B)                                          \
    }
#elif defined(AHEAD)
#define ASK(COUNT)                                                                                 \
    if (walk.ahead > 0) {                                                                          \
        TDM_REPEAT(COUNT, ASK_A)                                                                   \
    }
#else
#define ASK(COUNT)
#endif

/* All chunks of the group, COUNT vectors in each. */
#define PASSES(COUNT)                                                                              \
    TDM_NO_UNROLL for (int round = 0; round < walk.rounds; round++) {                              \
        long chunk = tdm_group_x() * walk.first_chunk;                                             \
        TDM_NO_UNROLL for (int pass = 0; pass < walk.passes && chunk < walk.chunks; pass++) {      \
            const long at = chunk * walk.chunk + tdm_item_x() * walk.item;                         \
            ASK(COUNT)                                                                             \
            TDM_REPEAT(COUNT, FROM_A)                                                              \
            TDM_REPEAT(COUNT, FROM_B)                                                              \
            TDM_REPEAT(COUNT, TO_C)                                                                \
            chunk += walk.next_chunk;                                                              \
        }                                                                                          \
    }

/* A driver may refuse an argument that the kernel does not use. */
#if defined(WRITE)
#define INPUTS
#elif defined(ADD) || defined(TRIAD)
#define INPUTS                                                                                     \
    TDM_GLOBAL const tdm_f32 *a, long a_offset, TDM_GLOBAL const tdm_f32 *b, long b_offset,
#else
#define INPUTS TDM_GLOBAL const tdm_f32 *a, long a_offset,
#endif

TDM_KERNEL(TDM_ENTRY)(INPUTS TDM_GLOBAL OUTPUT *c, long c_offset, tdm_stream_arg walk) {
#ifdef READ
    const TDM_S32(N) zero = TDM_INT_SPLAT(N, 0);
    TDM_S32(N) sum0 = zero, sum1 = zero, sum2 = zero, sum3 = zero;
#elif !defined(COPY) && !defined(ADD)
    const TDM_F32(N) scale = TDM_SPLAT(N, walk.scale);
#endif
    if (walk.unroll == 1) {
        PASSES(1)
    } else {
        PASSES(4)
    }
#ifdef READ
    const TDM_S32(N) sum =
        tdm_add_wrap(N, tdm_add_wrap(N, sum0, sum1), tdm_add_wrap(N, sum2, sum3));
    TDM_INT_STOREV(N, s32, sum, c, c_offset + tdm_global_x() * N);
#endif
#ifdef PAST_CACHES
    tdm_stream_end();
#endif
}
