/* y = sums of x after so many steps on each word: arithmetic for each byte that is read.
 *
 * Work-item i takes `passes` passes. Pass p reads CHAINS vectors of N words, `gap` words apart, the first at word
 * i·first + p·step, takes `steps` steps with each and adds them up. With no steps, `part` of the vectors take one. The item's sums,
 * N words, go to its place of y.
 *
 * Defines: N vector width; CHAINS a power of two up to 16; the kind of step, see probe_steps.h. */
#include "kernels/dialect/dialect.h"
#include "probe_steps.h"

#define READ(C) VECTOR x##C = TAKE(x, at + C * gap);
#define STEP_OF(C) x##C = STEP(x##C);
#define STEP_OF_PART(C)                                                                            \
    if (C < part)                                                                                  \
        x##C = STEP(x##C);
#define ADD_UP(C) sum = ADD(sum, x##C);

FUNCTION void take_passes(FROM x, CONSTANTS, long step, long gap, int passes, int steps, int part, TO y) {
    HOLD
    VECTOR sum = ZERO;
    long at = 0;
    TDM_NO_UNROLL for (int pass = 0; pass < passes; pass++) {
        TDM_REPEAT(CHAINS, READ)
        if (steps == 0) {
            TDM_REPEAT(CHAINS, STEP_OF_PART)
        }
        STEPS for (int taken = 0; taken < steps; taken++) {
            TDM_REPEAT(CHAINS, STEP_OF)
        }
        TDM_REPEAT(CHAINS, ADD_UP)
        at += step;
    }
    GIVE(sum, y, 0);
}

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const WORD *x, long x_offset, TDM_GLOBAL WORD *y, long y_offset, CONSTANTS, long first, long step, long gap,
 int passes, int steps, int part) {
    TDM_ITEM_BEGIN;
    take_passes(POINTER(FROM, x + x_offset + tdm_global_x() * first), CONSTANT_VALUES, step, gap, passes, steps, part,
                POINTER(TO, y + y_offset + tdm_global_x() * N));
}
