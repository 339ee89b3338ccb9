/* values and indices = the k best elements of each row of x, from the best to the worst. Among
 * equal elements the lower index is first, and a NaN counts as the largest.
 *
 * There is one work-group per row of `count` elements, x_step apart. Elements become keys: unsigned
 * integers in the order of the elements, complemented if the smallest elements are wanted.
 *
 *   1. The threshold, a key, is found bit by bit: the largest one that at least k keys reach.
 *      Each bit counts keys. The search ends early if exactly k keys reach a threshold.
 *   2. Each work-item looks through a piece of the row, and writes the indices of the keys above
 *      the threshold, then as many of those equal to it as are missing, the lowest first.
 *   3. A bitonic network sorts the indices by key and index, in the indices tensor itself.
 *   4. The values are copied.
 *
 * A group of one work-item works, too. The group size is a launch-time power of two up to 256.
 * Defines: DT storage type, N = 1, TDM_INTEGER for s32. */
#include "kernels/dialect/dialect.h"
#include "kernels/elementwise/strided_rows.h"
#include "reduce_steps.h"

#define MAX_GROUP 256

#ifdef TDM_INTEGER
#define COPY_VALUE(x, from, y, to) tdm_store_int_s32(tdm_int_s32(x, from), y, to)
#else
#define COPY_VALUE(x, from, y, to) TDM_STORE(DT, TDM_LOAD(DT, x, from), y, to)
#endif

TDM_DEVICE uint tdm_key(TDM_GLOBAL const TDM_TYPE(DT) * x, long at, int largest) {
    const tdm_value v = VALUE_LOAD(x, at);
#ifdef TDM_INTEGER
    const uint key = (uint)v ^ 0x80000000u;
#else
    const uint bits = tdm_float_bits(v);
    const uint magnitude = bits & 0x7fffffffu;
    const uint key = magnitude > 0x7f800000u               ? 0xffffffffu
                     : magnitude == 0 || bits == magnitude ? magnitude | 0x80000000u
                                                           : ~bits;
#endif
    return largest ? key : ~key;
}

/* Returns how many keys of this work-item's elements are at least `least`. */
TDM_DEVICE int tdm_count_from(TDM_GLOBAL const TDM_TYPE(DT) * x, long from, long count, long x_step,
                              uint least, int largest) {
    int found = 0;
    for (long i = tdm_item_x(); i < count; i += tdm_group_size_x())
        found += tdm_key(x, from + i * x_step, largest) >= least ? 1 : 0;
    return found;
}

/* Exchanges two indices if the second one belongs before the first one. */
TDM_DEVICE void tdm_order(TDM_GLOBAL const TDM_TYPE(DT) * x, long from, long x_step,
                          TDM_GLOBAL tdm_s32 *indices, long first, long second, int largest) {
    const int a = indices[first], b = indices[second];
    const uint a_key = tdm_key(x, from + a * x_step, largest);
    const uint b_key = tdm_key(x, from + b * x_step, largest);
    if (b_key > a_key || (b_key == a_key && b < a)) {
        indices[first] = b;
        indices[second] = a;
    }
}

/* Adds the integers of all work-items into joined[0]. It is a macro for the reason that
 * join_items.h gives. */
#define JOIN_COUNTS(joined, mine)                                                                  \
    do {                                                                                           \
        joined[item] = mine;                                                                       \
        tdm_barrier();                                                                             \
        for (int width = items / 2; width > 0; width /= 2) {                                       \
            if (item < width)                                                                      \
                joined[item] += joined[item + width];                                              \
            tdm_barrier();                                                                         \
        }                                                                                          \
    } while (0)

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const TDM_TYPE(DT) * x, long x_offset, TDM_GLOBAL TDM_TYPE(DT) * values,
 long values_offset, TDM_GLOBAL tdm_s32 *indices, long indices_offset, tdm_dims outer,
 tdm_dims x_strides, tdm_dims values_strides, tdm_dims indices_strides, int rank, long rows,
 long count, long k, long x_step, long values_step, long indices_step, int largest) {
    TDM_LOCAL_ARRAY(int, above, MAX_GROUP);
    TDM_LOCAL_ARRAY(int, equal, MAX_GROUP);
    const int item = tdm_item_x(), items = tdm_group_size_x();
    const long piece = (count + items - 1) / items;
    const long begin = item * piece < count ? item * piece : count;
    const long end = begin + piece < count ? begin + piece : count;
    for (long row = tdm_group_x(); row < rows; row += tdm_groups_x()) {
        tdm_dims along;
        tdm_row_along(&along, row, rank, &outer);
        const long from = x_offset + tdm_offset_along(&along, rank, &x_strides);
        const long to = values_offset + tdm_offset_along(&along, rank, &values_strides);
        const long list = indices_offset + tdm_offset_along(&along, rank, &indices_strides);

        uint threshold = 0;
        long reached = count;
        for (uint bit = 0x80000000u; bit != 0 && reached != k; bit >>= 1) {
            const int mine = tdm_count_from(x, from, count, x_step, threshold | bit, largest);
            JOIN_COUNTS(above, mine);
            const long total = above[0];
            tdm_barrier();
            if (total >= k) {
                threshold |= bit;
                reached = total;
            }
        }

        int my_above = 0, my_equal = 0;
        for (long i = begin; i < end; i++) {
            const uint key = tdm_key(x, from + i * x_step, largest);
            my_above += key > threshold ? 1 : 0;
            my_equal += key == threshold ? 1 : 0;
        }
        above[item] = my_above;
        equal[item] = my_equal;
        tdm_barrier();
        if (item == 0) {
            int all_above = 0;
            for (int i = 0; i < items; i++)
                all_above += above[i];
            int next_above = 0, next_equal = all_above;
            for (int i = 0; i < items; i++) {
                const int more_above = above[i], more_equal = equal[i];
                above[i] = next_above;
                equal[i] = next_equal;
                next_above += more_above;
                next_equal += more_equal;
            }
        }
        tdm_barrier();
        long at_above = above[item], at_equal = equal[item];
        for (long i = begin; i < end; i++) {
            const uint key = tdm_key(x, from + i * x_step, largest);
            if (key > threshold)
                indices[list + at_above++ * indices_step] = (int)i;
            else if (key == threshold && at_equal < k)
                indices[list + at_equal++ * indices_step] = (int)i;
        }
        tdm_barrier();

        /* Elements from k on are absent. They would stay where they are, because every exchange
         * moves the worse element to the higher place. */
        for (long span = 1; span < k; span *= 2) {
            for (long pair = item; pair < k; pair += items) {
                const long inside = pair & (span - 1);
                const long first = 2 * pair - inside;
                const long second = first - inside + 2 * span - 1 - inside;
                if (second < k)
                    tdm_order(x, from, x_step, indices + list, first * indices_step,
                              second * indices_step, largest);
            }
            tdm_barrier();
            for (long distance = span / 2; distance > 0; distance /= 2) {
                for (long pair = item; pair < k; pair += items) {
                    const long first = 2 * pair - (pair & (distance - 1));
                    if (first + distance < k)
                        tdm_order(x, from, x_step, indices + list, first * indices_step,
                                  (first + distance) * indices_step, largest);
                }
                tdm_barrier();
            }
        }
        for (long j = item; j < k; j += items) {
            const long at = from + indices[list + j * indices_step] * x_step;
            COPY_VALUE(x, at, values, to + j * values_step);
        }
        tdm_barrier();
    }
}
