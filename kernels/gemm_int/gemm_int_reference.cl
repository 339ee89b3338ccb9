/* Integer GEMM, reference kernel: one work-item per element of D, any strides. It is slow, short
 * and correct. It is the last variant of the list, used if no other can run. The grid is (elements
 * of D, 1, batch). */
#define TDM_EPILOGUE_VECTOR 4
#define TDM_INT_COLUMNS 4
#include "kernels/dialect/dialect.h"
#include "gemm_int_args.h"
#include "gemm_int_epilogue.h"

/* Steps of K per loop iteration. With one step, devices whose loops have at most 65535 iterations
 * would limit K to 65535. */
#define UNROLL 16

#define STEP(P)                                                                                    \
    {                                                                                              \
        const int x = tdm_int_any(a, s.a_type, a0 + (P)*s.a_col);                                  \
        const int y = tdm_int_s8((TDM_GLOBAL const tdm_s8 *)b, b0 + (P)*s.b_row);                  \
        sum = tdm_add_wrap(1, sum, x * y);                                                         \
        row_sum += x;                                                                              \
        column_sum += y;                                                                           \
    }

#define STEP_OF_PASS(U) STEP(p + (U))

TDM_KERNEL(TDM_ENTRY)(TDM_INT_ARGUMENTS) {
    TDM_ITEM_BEGIN;
    const long i = tdm_global_x() / s.n, j = tdm_global_x() % s.n, z = tdm_global_z();
    if (i < s.m) {
        const long a0 = a_offset + z * s.a_batch + i * s.a_row;
        const long b0 = b_offset + z * s.b_batch + j * s.b_col;
        int sum = 0, row_sum = 0, column_sum = 0;
        long p = 0;
        for (; p + UNROLL <= s.k; p += UNROLL) {
            TDM_REPEAT(UNROLL, STEP_OF_PASS)
        }
        for (; p < s.k; p++)
            STEP(p)
        TDM_INT_IO(io, z);
        const int raw[TDM_INT_COLUMNS] = {sum, 0, 0, 0};
        tdm_int_columns columns;
        tdm_int_columns_begin(&columns, &io, s, e, q, &column_sum, 0, j, 1);
        tdm_int_row(raw, row_sum, &columns, &io, e, q, 0, i, j, 1);
    }
}
