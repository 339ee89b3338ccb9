/* Takes 16·passes steps place ← x[place], which measures the latency of dependent loads. y[0] is
 * the index where the last call ended and this one begins, so that calls traverse all of x. y[1]
 * counts the calls. One work-item does everything. */
#include "kernels/dialect/dialect.h"

#define STEP(V) place = x[x_offset + place];

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const tdm_s32 *x, long x_offset, TDM_GLOBAL tdm_s32 *y, long y_offset, int passes) {
    TDM_ITEM_BEGIN;
    if (tdm_global_x() == 0) {
        int place = y[y_offset];
        TDM_NO_UNROLL for (int pass = 0; pass < passes; pass++){TDM_REPEAT(16, STEP)} y[y_offset] =
            place;
        y[y_offset + 1] += 1;
    }
}
