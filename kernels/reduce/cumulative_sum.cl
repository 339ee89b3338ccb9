/* y = sums of x from the beginning of each row to each element. With reverse, from its end; with
 * exclusive, without the element itself.
 *
 * There is one work-group per row of `count` elements, x_step and y_step apart. Each work-item adds
 * a piece of the row. The sums of the pieces before its own are where it begins to write sums. A
 * group of one work-item writes at once. y may be x, because an item reads an element before it
 * writes it.
 *
 * The group size is a launch-time power of two up to 256. Defines: DT storage type, N = 1,
 * TDM_INTEGER for s32. */
#include "kernels/dialect/dialect.h"
#include "kernels/elementwise/strided_rows.h"
#include "reduce_steps.h"

#define MAX_GROUP 256

#ifdef TDM_INTEGER
#define STORE_VALUE(v, y, i) tdm_store_int_s32(v, y, i)
#else
#define STORE_VALUE(v, y, i) TDM_STORE(DT, v, y, i)
#endif
#define ADD(a, b) tdm_step_one(a, b, TDM_CODE_REDUCE_SUM)

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const TDM_TYPE(DT) * x, long x_offset, TDM_GLOBAL TDM_TYPE(DT) * y, long y_offset,
 tdm_dims outer, tdm_dims x_strides, tdm_dims y_strides, int rank, long rows, long count,
 long x_step, long y_step, int exclusive, int reverse) {
    TDM_LOCAL_ARRAY(tdm_value, sums, MAX_GROUP);
    const int item = tdm_item_x(), items = tdm_group_size_x();
    const long piece = (count + items - 1) / items;
    const long begin = item * piece < count ? item * piece : count;
    const long end = begin + piece < count ? begin + piece : count;
    for (long row = tdm_group_x(); row < rows; row += tdm_groups_x()) {
        tdm_dims along;
        tdm_row_along(&along, row, rank, &outer);
        const long from = x_offset + tdm_offset_along(&along, rank, &x_strides);
        const long to = y_offset + tdm_offset_along(&along, rank, &y_strides);
        tdm_value sum = 0;
        for (long i = begin; i < end && items > 1; i++)
            sum = ADD(sum, VALUE_LOAD(x, from + (reverse ? count - 1 - i : i) * x_step));
        sums[item] = sum;
        tdm_barrier();
        if (item == 0) {
            tdm_value before = 0;
            for (int i = 0; i < items; i++) {
                const tdm_value own = sums[i];
                sums[i] = before;
                before = ADD(before, own);
            }
        }
        tdm_barrier();
        tdm_value running = sums[item];
        for (long i = begin; i < end; i++) {
            const long at = reverse ? count - 1 - i : i;
            const tdm_value before = running;
            running = ADD(running, VALUE_LOAD(x, from + at * x_step));
            STORE_VALUE(exclusive ? before : running, y, to + at * y_step);
        }
        tdm_barrier();
    }
}
