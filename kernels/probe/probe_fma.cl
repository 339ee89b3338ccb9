/* This kernel measures the device's peak rate for one kind of arithmetic. It applies the same step
 * again and again to CHAINS independent vectors, the chains (probe_steps.h).
 *
 * `starts` contains the initial values, CHAINS vectors of N words. All work-items use the same ones
 * and take `steps` steps. Each stores the sum of its chains, N words, at its own offset in y. The
 * initial values come from memory. A compiler therefore cannot compute a step in advance, nor
 * detect that lanes or chains are equal.
 *
 * Defines: N vector width; CHAINS a power of two up to 16; the kind of step, see probe_steps.h.
 * CHAINS is large enough to fill the pipelines and small enough for the registers. */
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
(TDM_GLOBAL const WORD *starts, long starts_offset, TDM_GLOBAL WORD *y, long y_offset, CONSTANTS,
 int steps) {
    TDM_ITEM_BEGIN;
    take_steps(POINTER(FROM, starts + starts_offset), CONSTANT_VALUES, steps,
               POINTER(TO, y + y_offset + tdm_global_x() * N));
}
