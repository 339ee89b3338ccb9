/* How the work-items of a group share the elements of one output. They load cells of N elements.
 *
 *   │ cell 0 │ cell 1 │ cell 2 │ … │ cells - 1 │ tail
 *
 * Work-item i has cells first + i, first + i + items, …
 *
 * With N = 1 a cell is one element, and the elements of a run may be any step apart. With N > 1
 * there is one contiguous run. Its tail of fewer than N elements goes to as many work-items, one
 * each.
 *
 * TDM_CELL(k) is cell k. It needs x, base and the variables of the reduced dimensions under the
 * names that they have in the kernels. A run that begins at a multiple of 16 bytes is read through
 * TDM_FROM_16(x + base), which tells the compiler about the alignment. Loads of cells are then one
 * access each, without an alignment check. Only CUDA has variants with N > 1. */
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
/* Returns the offset of reduced element k, in row-major order. */
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
