/* y = the ends of CHAINS independent chains of steps: as much arithmetic of a kind as the device can do.
 *
 * Every work-item takes the same `steps` steps from the same starts, CHAINS vectors of N words in x, and
 * stores the sum of its chains, N words, at its own place of y. The starts come from memory, so that no
 * compiler finds lanes or chains that are alike, and no step's result is known before it was taken.
 *
 * Defines: N vector width; CHAINS a power of two up to 16: enough to fill the pipelines, few enough for the
 * registers; the kind of step, see probe_steps.h. */
#include "kernels/dialect/dialect.h"
#include "probe_steps.h"

#define START(C) VECTOR x##C = TAKE(starts, C * N);
#define STEP_OF(C) x##C = STEP(x##C);
#define ADD_UP(C) sum = ADD(sum, x##C);

FUNCTION void take_steps(FROM starts, CONSTANTS, int steps, TO y) {
    HOLD
    TDM_REPEAT(CHAINS, START)
    STEPS for (int step = 0; step < steps; step++) {
        TDM_REPEAT(CHAINS, STEP_OF)
    }
    VECTOR sum = ZERO;
    TDM_REPEAT(CHAINS, ADD_UP)
    GIVE(sum, y, 0);
}

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const WORD *starts, long starts_offset, TDM_GLOBAL WORD *y, long y_offset, CONSTANTS, int steps) {
    TDM_ITEM_BEGIN;
    take_steps(POINTER(FROM, starts + starts_offset), CONSTANT_VALUES, steps,
               POINTER(TO, y + y_offset + tdm_global_x() * N));
}
