/* y = index of the first largest or smallest element of x over one dimension or all, in row-major
 * order of the reduced elements. The first NaN counts as this element. There is one work-group per
 * output. Work-items stride through the cells of the reduced elements (reduce_cells.h), and each
 * keeps the first of its best. A tree in local memory joins them; among equal values the earlier
 * wins.
 *
 * The arguments are those of argmax.cl. The group size is a launch-time power of two up to 256.
 * Defines: DT storage type, N elements of a cell, TDM_INTEGER for s32. */
#include "kernels/dialect/dialect.h"
#include "kernels/elementwise/strided_rows.h"
#include "reduce_steps.h"
#include "reduce_cells.h"

#define MAX_GROUP 256
/* Nothing was found, because all elements equal the neutral element of op. */
#define NOWHERE 0x7fffffff

/* Cells per iteration; the number of iterations may be limited (see the dialect). */
#define CELLS_OF_PASS 4

/* True if x is to be preferred to the best so far. */
#ifdef TDM_INTEGER
#define IS_BETTER(x, best, op) ((op) == TDM_CODE_REDUCE_MAX ? (x) > (best) : (x) < (best))
#else
#define IS_BETTER(x, best, op)                                                                     \
    (((op) == TDM_CODE_REDUCE_MAX ? (x) > (best) : (x) < (best)) ||                                \
     (tdm_is_nan(x) && !tdm_is_nan(best)))
#endif

typedef struct {
    tdm_value value;
    int place; /* index of the first element of that value */
} tdm_best;

/* Updates `best` with an element that comes after all elements seen so far. It takes a pointer
 * because Oclgrind cannot inline functions that return such a struct. */
TDM_DEVICE void tdm_see(tdm_best *best, tdm_value seen, long place, int op) {
    if (IS_BETTER(seen, best->value, op)) {
        best->value = seen;
        best->place = (int)place;
    }
}

TDM_DEVICE void tdm_see_cell(tdm_best *best, V cell, long place, int op) {
    tdm_value lanes[N];
    VALUE_STORE_LANES(cell, lanes);
    TDM_UNROLL for (int lane = 0; lane < N; lane++) tdm_see(best, lanes[lane], place + lane, op);
}

TDM_DEVICE void tdm_see_cells(tdm_best *best, TDM_GLOBAL const TDM_TYPE(DT) * x, long base,
                              int red_rank, const tdm_dims *red_shape, const tdm_dims *red_strides,
                              long inner, long x_step, long count, int op) {
    const int items = tdm_group_size_x();
    long k = tdm_item_x();
    for (; k + (CELLS_OF_PASS - 1) * (long)items < count; k += CELLS_OF_PASS * (long)items) {
        V cells[CELLS_OF_PASS];
        TDM_UNROLL for (int n = 0; n < CELLS_OF_PASS; n++) cells[n] = TDM_CELL(k + n * (long)items);
        TDM_UNROLL for (int n = 0; n < CELLS_OF_PASS; n++)
            tdm_see_cell(best, cells[n], (k + n * (long)items) * N, op);
    }
    for (; k < count; k += items)
        tdm_see_cell(best, TDM_CELL(k), k * N, op);
}

#define SEE_CELLS(x, base)                                                                         \
    tdm_see_cells(&best, x, base, red_rank, &red_shape, &red_strides, inner, x_step, count, op)

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const TDM_TYPE(DT) * x, long x_offset, TDM_GLOBAL tdm_s32 *y, long y_offset,
 tdm_dims out_shape, tdm_dims out_strides, tdm_dims y_strides, int out_rank, long outputs,
 tdm_dims red_shape, tdm_dims red_strides, int red_rank, long red_rows, long inner, long x_step,
 int op) {
    TDM_LOCAL_ARRAY(tdm_value, values, MAX_GROUP);
    TDM_LOCAL_ARRAY(int, places, MAX_GROUP);
    const int item = tdm_item_x(), items = tdm_group_size_x();
    const long cells = inner / N, count = red_rows * cells;
    const int tail = (int)(inner - cells * N);
    for (long o = tdm_group_x(); o < outputs; o += tdm_groups_x()) {
        const long base = x_offset + tdm_row_offset(o, out_rank, &out_shape, &out_strides);
        tdm_best best;
        best.value = tdm_neutral(op);
        best.place = NOWHERE;
        if (TDM_IS_FROM_16(x + base))
            SEE_CELLS(TDM_FROM_16(x + base), 0);
        else
            SEE_CELLS(x, base);
        if (item < tail)
            tdm_see(&best, VALUE_LOAD(x, base + cells * N + item), cells * N + item, op);
        values[item] = best.value;
        places[item] = best.place;
        tdm_barrier();
        for (int width = items / 2; width > 0; width /= 2) {
            if (item < width) {
                const tdm_value other = values[item + width], own = values[item];
                const int later = VALUE_MATCHES(other, own) && places[item + width] < places[item];
                if (IS_BETTER(other, own, op) || later) {
                    values[item] = other;
                    places[item] = places[item + width];
                }
            }
            tdm_barrier();
        }
        if (item == 0)
            y[y_offset + tdm_row_offset(o, out_rank, &out_shape, &y_strides)] =
                places[0] == NOWHERE ? 0 : places[0];
        tdm_barrier();
    }
}
