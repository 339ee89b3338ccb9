/* y[0] = the place that 16·passes steps place ← x[place] lead to from place 0: what one load takes that waits for the load
 * before. One item does it all. */
#include "dialect.h"

#define STEP(V) place = x[x_offset + place];

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const tdm_s32 *x, long x_offset, TDM_GLOBAL tdm_s32 *y, long y_offset, int passes) {
    int place = 0;
    if (tdm_global_x() == 0) {
        TDM_NO_UNROLL for (int pass = 0; pass < passes; pass++){TDM_REPEAT(16, STEP)} y[y_offset] =
            place;
    }
}
