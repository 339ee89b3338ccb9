/* Measures the memory bandwidth for traffic that mixes reads and writes. `reads` bytes are read for
 * each `writes` bytes written. Step s reads `reads` lines of a and writes `writes` lines of c:
 *
 *   c(s·writes + w) = w + Σ_{r < reads} a(s·reads + r)     for w < writes, modulo 2^32
 *
 * A line has N 32-bit words for each work-item of a group. In pass p < passes, a group computes
 * step group·first_step + p·next_step. With first_step = passes and next_step = 1, its steps are a
 * contiguous range. With first_step = 1 and next_step = number of groups, they are strided.
 *
 * Parameters:
 *   N   words in a vector, e.g. 16 */
#include "kernels/dialect/dialect.h"
#include "probe_mix_args.h"

#define V TDM_S32(N)

TDM_INLINE V tdm_mix_read(TDM_GLOBAL const tdm_s32 *a, long at, long line, int reads, long ahead) {
    V sum = TDM_INT_SPLAT(N, 0);
    for (int r = 0; r < reads; r++) {
        if (N == 16 && ahead > 0)
            tdm_prefetch_far((TDM_GLOBAL const char *)(a + at) + ahead);
        sum = tdm_add_wrap(N, sum, TDM_INT_LOADV_GLOBAL(N, s32, a, at));
        at += line;
    }
    return sum;
}

TDM_INLINE void tdm_mix_write(TDM_GLOBAL tdm_s32 *c, long at, long line, int writes, V sum,
                              int streams) {
    const V one = TDM_INT_SPLAT(N, 1);
    for (int w = 0; w < writes; w++) {
        if (streams)
            TDM_STREAMV(N, TDM_CAT4(s32x, N, _, float)(sum), (TDM_GLOBAL tdm_f32 *)c, at);
        else
            TDM_INT_STOREV_GLOBAL(N, s32, sum, c, at);
        sum = tdm_add_wrap(N, sum, one);
        at += line;
    }
}

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const tdm_s32 *a, long a_offset, TDM_GLOBAL tdm_s32 *c, long c_offset,
 tdm_mix_arg traversal) {
    TDM_ITEM_BEGIN;
    const long line = (long)tdm_group_size_x() * N;
    const long item = (long)tdm_item_x() * N;
    long step = tdm_group_x() * traversal.first_step;
    for (int pass = 0; pass < traversal.passes && step < traversal.steps; pass++) {
        const V sum = tdm_mix_read(a, a_offset + step * traversal.reads * line + item, line,
                                   traversal.reads, traversal.ahead);
        tdm_mix_write(c, c_offset + step * traversal.writes * line + item, line, traversal.writes,
                      sum, traversal.streams);
        step += traversal.next_step;
    }
    if (traversal.streams)
        tdm_stream_end();
}
