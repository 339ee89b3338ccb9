/* How elementwise kernels traverse tensors of any strides.
 *
 * The host sorts and merges the dimensions and splits off the last one, the row:
 *
 *      outer dimensions shape.v[0 … rank-1]     the row
 *      rows = their product                     inner elements, `step` apart
 *
 * Work-item (x, y) does elements x·span … (x+1)·span-1 of rows y, y + Y, y + 2Y, …, where Y is the
 * number of work-items along y. Kernels that write less than they read take neighbouring rows
 * instead (TDM_ROW_SHARE), so that work-items do not share cache lines of the output. N is the
 * vector width of the kernel source. With N > 1 the output's step is 1, and an input's step is 1 or
 * 0 (its one element is repeated). With N = 1 every step is allowed. */
#ifndef TDM_STRIDED_ROWS_H
#define TDM_STRIDED_ROWS_H

/* Returns a / b for a ≥ 0, b > 0. A 64-bit division is a slow subroutine on most GPUs, and rarely
 * needed. */
TDM_DEVICE long tdm_quotient(long a, long b) {
    return (a | b) <= 0x7fffffffL ? (long)((int)a / (int)b) : a / b;
}

/* Computes a row's index along each outer dimension from its index among all rows. It is unrolled
 * by hand because arrays in argument structs may be indexed by constants only. rusticl 22.3 crashes
 * on other indices; elsewhere they cost a copy per work-item. */
TDM_DEVICE void tdm_row_along(tdm_dims *along, long row, int rank, const tdm_dims *shape) {
#define TDM_ROW_DIMENSION(d)                                                                       \
    along->v[d] = 0;                                                                               \
    if (rank > d) {                                                                                \
        const long next = tdm_quotient(row, shape->v[d]);                                          \
        along->v[d] = row - next * shape->v[d];                                                    \
        row = next;                                                                                \
    }
    TDM_ROW_DIMENSION(7)
    TDM_ROW_DIMENSION(6)
    TDM_ROW_DIMENSION(5)
    TDM_ROW_DIMENSION(4)
    TDM_ROW_DIMENSION(3)
    TDM_ROW_DIMENSION(2)
    TDM_ROW_DIMENSION(1)
#undef TDM_ROW_DIMENSION
    along->v[0] = row;
}

/* Returns the offset of the element with index along->v[d] along each dimension d. */
TDM_DEVICE long tdm_offset_along(const tdm_dims *along, int rank, const tdm_dims *strides) {
    const long offset = along->v[0] * strides->v[0];
    if (rank <= 1)
        return offset;
    return offset + along->v[1] * strides->v[1] + along->v[2] * strides->v[2] +
           along->v[3] * strides->v[3] + along->v[4] * strides->v[4] + along->v[5] * strides->v[5] +
           along->v[6] * strides->v[6] + along->v[7] * strides->v[7];
}

/* Returns the offset of a row, by its index among the outer dimensions. */
TDM_DEVICE long tdm_row_offset(long row, int rank, const tdm_dims *shape, const tdm_dims *strides) {
    tdm_dims along;
    tdm_row_along(&along, row, rank, shape);
    return tdm_offset_along(&along, rank, strides);
}

/* Sets `first` and `last` to the rows of work-item y: an equal number of neighbouring rows for
 * each. */
#define TDM_ROW_SHARE(rows, first, last)                                                           \
    const long first##_share = tdm_quotient(rows + tdm_global_size_y() - 1, tdm_global_size_y());  \
    const long first = tdm_global_y() * first##_share;                                             \
    const long last = first + first##_share < rows ? first + first##_share : rows

/* These load and store the end of a row, `count` < N elements one by one through a private array.
 * Absent lanes hold `filler`. */
#define TDM_PART_FUNCTIONS(DT)                                                                     \
    TDM_DEVICE TDM_F32(N)                                                                          \
        tdm_load_part_##DT(TDM_GLOBAL const tdm_##DT *p, long i, int count, float filler) {        \
        float part[N];                                                                             \
        TDM_FEW_PASSES for (int lane = 0; lane < N; lane++) part[lane] =                           \
            lane < count ? tdm_load_##DT(p, i + lane) : filler;                                    \
        return TDM_LOADV(N, f32, part, 0);                                                         \
    }                                                                                              \
    TDM_DEVICE void tdm_store_part_##DT(TDM_F32(N) x, TDM_GLOBAL tdm_##DT *p, long i, int count) { \
        float part[N];                                                                             \
        TDM_STOREV(N, f32, x, part, 0);                                                            \
        TDM_FEW_PASSES for (int lane = 0; lane < count; lane++)                                    \
            tdm_store_##DT(part[lane], p, i + lane);                                               \
    }

#define TDM_INT_PART_FUNCTIONS(DT)                                                                 \
    TDM_DEVICE TDM_S32(N)                                                                          \
        tdm_load_part_##DT(TDM_GLOBAL const tdm_##DT *p, long i, int count, int filler) {          \
        int part[N];                                                                               \
        TDM_FEW_PASSES for (int lane = 0; lane < N; lane++) part[lane] =                           \
            lane < count ? tdm_int_##DT(p, i + lane) : filler;                                     \
        return TDM_INT_LOADV(N, s32, part, 0);                                                     \
    }                                                                                              \
    TDM_DEVICE void tdm_store_part_##DT(TDM_S32(N) v, TDM_GLOBAL tdm_##DT *p, long i, int count) { \
        int part[N];                                                                               \
        TDM_INT_STOREV(N, s32, v, part, 0);                                                        \
        TDM_FEW_PASSES for (int lane = 0; lane < count; lane++)                                    \
            tdm_store_int_##DT(part[lane], p, i + lane);                                           \
    }

/* Each output type `to`, a launch argument, has its own loop over the whole vectors of a row, from
 * element i on. `value` is the vector at i, y the output and `at` the row's offset in it. One loop
 * with the switch inside takes twice as long. */
#define TDM_WHOLE_VECTORS(code, to, STOREV, value, y, at, i, stop)                                 \
    case code:                                                                                     \
        TDM_FEW_PASSES for (; i + N <= stop; i += N)                                               \
            STOREV(N, to, value, (TDM_GLOBAL tdm_##to *)(y), (at) + i);                            \
        break;
#define TDM_WHOLE_CODES(type, value, y, at, i, stop)                                               \
    switch (type) {                                                                                \
        TDM_WHOLE_VECTORS(TDM_CODE_S8, s8, TDM_INT_STOREV_GLOBAL, value, y, at, i, stop)           \
        TDM_WHOLE_VECTORS(TDM_CODE_U8, u8, TDM_INT_STOREV_GLOBAL, value, y, at, i, stop)           \
        TDM_WHOLE_VECTORS(TDM_CODE_S4, s4, TDM_INT_STOREV_GLOBAL, value, y, at, i, stop)           \
    }

#define TDM_LOAD_PART(DT, p, i, count, filler) TDM_CAT2(tdm_load_part_, DT)(p, i, count, filler)
#define TDM_STORE_PART(DT, x, p, i, count) TDM_CAT2(tdm_store_part_, DT)(x, p, i, count)

#endif
