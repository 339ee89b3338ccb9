/* y = the ends of CHAINS independent chains x ← x + Σ b·f: as many products of bytes as x86 cores with VNNI can do. b are
 * the four bytes of x itself, without a sign, and f those of a factor, with one: one instruction a step, whose result no
 * compiler can know beforehand. Sums are modulo 2^32.
 *
 * Every work-item takes the same `steps` steps from the same starts, CHAINS vectors of 16 words in x, with the 16 factors
 * behind them, and stores the sum of its chains, 16 words, at its own place of y.
 *
 * Defines: CHAINS a power of two up to 16. As in gemm_int_panel_x86.cl, the loop is a function of its own with the
 * instruction's target, and gets plain pointers. */
#include "dialect.h"

#define TARGET __attribute__((noinline, target("avx512vnni,avx512f,avx512bw,avx512dq,avx512vl")))
#define VECTOR TDM_S32(16)
typedef VECTOR vector_anywhere __attribute__((aligned(4)));

#define START(C) VECTOR x##C = *(const vector_anywhere *)(starts + 16 * C);
#define STEP(C) x##C = __builtin_ia32_vpdpbusd512(x##C, x##C, factors);
#define ADD(C) sum = tdm_add_wrap(16, sum, x##C);

TARGET void take_steps(const int *starts, int steps, int *to) {
    const VECTOR factors = *(const vector_anywhere *)(starts + 16 * CHAINS);
    TDM_REPEAT(CHAINS, START)
    TDM_NO_UNROLL for (int step = 0; step < steps; step++) {
        TDM_REPEAT(CHAINS, STEP)
    }
    VECTOR sum = (VECTOR)(0);
    TDM_REPEAT(CHAINS, ADD)
    *(vector_anywhere *)to = sum;
}

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const tdm_s32 *starts, long starts_offset, TDM_GLOBAL tdm_s32 *y, long y_offset, int steps) {
    take_steps((const int *)(size_t)(starts + starts_offset), steps,
               (int *)(size_t)(y + y_offset + tdm_global_x() * 16));
}
