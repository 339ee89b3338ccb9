/* y = sums of x after so many steps x ← x·a + b on each element: arithmetic for each byte that is read.
 *
 * Work-item i takes `passes` passes. Pass p reads CHAINS vectors of N elements, `gap` elements apart, the first at element
 * i·first + p·step, takes `steps` steps with each and adds them up. With no steps, `part` of the vectors take one. The item's sums,
 * N elements, go to its place of y.
 *
 * Defines: N vector width; CHAINS a power of two up to 16; MULTIPLY_ADD the dialect's word that the device does fast. */
#include "dialect.h"

#define VECTOR TDM_F32(N)
#define TAKE(C) VECTOR x##C = TDM_LOADV(N, f32, x, at + C * gap);
#define STEP(C) x##C = MULTIPLY_ADD(x##C, a_vec, b_vec);
#define STEP_OF_PART(C)                                                                            \
    if (C < part)                                                                                  \
        x##C = MULTIPLY_ADD(x##C, a_vec, b_vec);
#define ADD(C) sum = sum + x##C;

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const tdm_f32 *x, long x_offset, TDM_GLOBAL tdm_f32 *y, long y_offset, float a, float b,
 long first, long step, long gap, int passes, int steps, int part) {
    const VECTOR a_vec = TDM_SPLAT(N, a), b_vec = TDM_SPLAT(N, b);
    VECTOR sum = TDM_SPLAT(N, 0.0f);
    long at = x_offset + tdm_global_x() * first;
    TDM_NO_UNROLL for (int pass = 0; pass < passes; pass++) {
        TDM_REPEAT(CHAINS, TAKE)
        if (steps == 0) {
            TDM_REPEAT(CHAINS, STEP_OF_PART)
        }
        TDM_NO_UNROLL for (int taken = 0; taken < steps; taken++) {
            TDM_REPEAT(CHAINS, STEP)
        }
        TDM_REPEAT(CHAINS, ADD)
        at += step;
    }
    TDM_STOREV(N, f32, sum, y, y_offset + tdm_global_x() * N);
}
