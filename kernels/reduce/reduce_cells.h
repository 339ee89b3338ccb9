/* How the items of a group share what one output is made of: cells of N elements, what they load at a time.
 *
 *   │ cell 0 │ cell 1 │ cell 2 │ … │ cells - 1 │ tail          Item i has cells first + i, first + i + items, …
 *
 * With N = 1 a cell is an element, of runs whose elements are any step apart. With N > 1 there is one run of neighbours, whose
 * tail of fewer than N elements is left to as many items, one each.
 *
 * TDM_CELL(k) is cell k where x, base and what describes the reduced dimensions have the names that they have in the kernels. A run that
 * begins at a multiple of 16 bytes is read through TDM_FROM_16(x + base), of which the compiler is told that it does: loads of cells are then
 * one access each, without a look at the address. Rows with N > 1 are for CUDA alone. */
#ifndef TDM_REDUCE_CELLS_H
#define TDM_REDUCE_CELLS_H

#if N > 1
#define TDM_IS_FROM_16(p) (tdm_address(p) % 16 == 0)
#define TDM_FROM_16(p) ((TDM_TYPE(DT) *)__builtin_assume_aligned(p, 16))
#else
#define TDM_IS_FROM_16(p) 0
#define TDM_FROM_16(p) (p)
#endif

#if N == 1
/* Element k of the reduced ones, in row-major order. */
TDM_DEVICE long tdm_element_at(int red_rank, const tdm_dims *red_shape, const tdm_dims *red_strides,
                               long inner, long x_step, long k) {
    if (red_rank == 0)
        return k * x_step;
    const long row = tdm_quotient(k, inner);
    return tdm_row_offset(row, red_rank, red_shape, red_strides) + (k - row * inner) * x_step;
}
#define TDM_CELL(k)                                                                                \
    VALUE_LOAD(x, base + tdm_element_at(red_rank, red_shape, red_strides, inner, x_step, k))
#elif defined(TDM_INTEGER)
#define TDM_CELL(k) TDM_INT_LOADV_GLOBAL(N, s32, x, base + (k)*N)
#else
#define TDM_CELL(k) TDM_LOADV_GLOBAL(N, DT, x, base + (k)*N)
#endif

#endif
