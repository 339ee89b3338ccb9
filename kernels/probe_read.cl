/* y = sums modulo 2^32 of the words of x, each read once: the speed of reading.
 *
 * Work-item i takes `passes` passes. Pass p reads four vectors of N words, `gap` words apart, the first at
 * word i·first + p·step. A device of few cores gives each item a run of its own (gap = N), one of many items
 * lets neighbours read neighbouring vectors (first = N). The item's sums, N words, go to its place of y.
 *
 * Vectors lie at multiples of their size. Defines: N vector width. */
#include "dialect.h"

#define VECTOR TDM_S32(N)
#if N > 4
#define TAKE(I) TDM_INT_LOADV(N, s32, x, I)
#else
#define TAKE(I) TDM_BITS(N, TDM_LOADV_ALIGNED(N, f32, (TDM_GLOBAL const tdm_f32 *)x, I))
#endif
#define TAKEN(V) const VECTOR taken##V = TAKE(at + V * gap);
#define ADDED(V) sum##V = tdm_add_wrap(N, sum##V, taken##V);

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const tdm_s32 *x, long x_offset, TDM_GLOBAL tdm_s32 *y, long y_offset, long first,
 long step, long gap, int passes) {
    const VECTOR zero = TDM_INT_SPLAT(N, 0);
    VECTOR sum0 = zero, sum1 = zero, sum2 = zero, sum3 = zero;
    long at = x_offset + tdm_global_x() * first;
    TDM_NO_UNROLL for (int pass = 0; pass < passes; pass++) {
        TDM_REPEAT(4, TAKEN)
        TDM_REPEAT(4, ADDED)
        at += step;
    }
    const VECTOR sum = tdm_add_wrap(N, tdm_add_wrap(N, sum0, sum1), tdm_add_wrap(N, sum2, sum3));
    TDM_INT_STOREV(N, s32, sum, y, y_offset + tdm_global_x() * N);
}
