/* Sums modulo 2^32 of the words x[index[i]]: the speed of reading at random places.
 *
 * Item i of `items` takes indices i + p·items, four in a pass, `passes` passes; what it added goes to its place of y. */
#include "dialect.h"

#define FIND(V) const int place##V = index[index_offset + at + V * items];
#define ADD(V) sum = tdm_add_wrap(1, sum, x[x_offset + place##V]);

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const tdm_s32 *x, long x_offset, TDM_GLOBAL const tdm_s32 *index, long index_offset,
 TDM_GLOBAL tdm_s32 *y, long y_offset, long items, int passes) {
    int sum = 0;
    long at = tdm_global_x();
    TDM_NO_UNROLL for (int pass = 0; pass < passes; pass++) {
        TDM_REPEAT(4, FIND)
        TDM_REPEAT(4, ADD)
        at += 4 * items;
    }
    y[y_offset + tdm_global_x()] = sum;
}
