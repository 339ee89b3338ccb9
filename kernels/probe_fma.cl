/* y = the ends of CHAINS independent chains x ← x·a + b: as many multiply-adds as the device can do.
 *
 * Every work-item takes the same `steps` steps from the same starts, CHAINS vectors of N elements in x, and
 * stores the sum of its chains, N elements, at its own place of y. The starts come from memory, so that no
 * compiler finds lanes or chains that are alike.
 *
 * Defines: N vector width; CHAINS a power of two up to 16: enough to fill the pipelines, few enough for the
 * registers; MULTIPLY_ADD the dialect's word for it that the device does fast. */
#include "dialect.h"

#define VECTOR TDM_F32(N)
#define START(C) VECTOR x##C = TDM_LOADV(N, f32, starts, starts_offset + C * N);
#define STEP(C) x##C = MULTIPLY_ADD(x##C, a_vec, b_vec);
#define ADD(C) sum = sum + x##C;

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const tdm_f32 *starts, long starts_offset, TDM_GLOBAL tdm_f32 *y, long y_offset, float a,
 float b, int steps) {
    const VECTOR a_vec = TDM_SPLAT(N, a), b_vec = TDM_SPLAT(N, b);
    TDM_REPEAT(CHAINS, START)
    TDM_NO_UNROLL for (int step = 0; step < steps; step++) {
        TDM_REPEAT(CHAINS, STEP)
    }
    VECTOR sum = TDM_SPLAT(N, 0.0f);
    TDM_REPEAT(CHAINS, ADD)
    TDM_STOREV(N, f32, sum, y, y_offset + tdm_global_x() * N);
}
