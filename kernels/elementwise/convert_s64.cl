/* y = x in another dtype, where x is s64 or y is s64 or bool. The rules are those of convert.cl. A
 * bool is x != 0.
 *
 * Defines: DT the source's type, TDM_INTEGER for an integer DT, FROM_S64 for s64. strided_rows.h
 * describes the rows. The target's type is the launch-time code `type`. Each one has its own
 * loop. */
#include "kernels/dialect/dialect.h"
#include "kernels/dialect/op_codes.h"
#include "s64.h"
#include "strided_rows.h"

#ifdef TDM_INTEGER
#define LOAD(i) TDM_CAT2(tdm_int_, DT)(x, i)
#define TO_LONG(v) (v)
#define IS_NOT_ZERO(v) ((v) != 0)
#else
#define LOAD(i) TDM_LOAD(DT, x, i)
#define TO_LONG(v) tdm_long_rte(v)
#define IS_NOT_ZERO(v) (tdm_float_bits(v) << 1 != 0) /* true for a NaN */
#endif

#define ROW(code, to_type, STORE, value)                                                           \
    case code:                                                                                     \
        TDM_FEW_PASSES for (long i = start; i < stop; i++)                                         \
            STORE(value(LOAD(from + i * x_step)), (TDM_GLOBAL tdm_##to_type *)y, to + i * y_step); \
        break;
#define STORE_LONG(v, p, i) ((p)[i] = (v))
#define STORE_BOOL(v, p, i) ((p)[i] = (v) ? 1 : 0)

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const TDM_TYPE(DT) *x, long x_offset, TDM_GLOBAL void *y, long y_offset, tdm_dims shape,
 tdm_dims x_strides, tdm_dims y_strides, int rank, long rows, long inner, long x_step, long y_step,
 long span, int type) {
    TDM_ITEM_BEGIN;
    const long start = tdm_global_x() * span;
    const long stop = start + span < inner ? start + span : inner;
    TDM_FEW_PASSES for (long row = tdm_global_y(); row < rows; row += tdm_global_size_y()) {
        tdm_dims along;
        tdm_row_along(&along, row, rank, &shape);
        const long from = x_offset + tdm_offset_along(&along, rank, &x_strides);
        const long to = y_offset + tdm_offset_along(&along, rank, &y_strides);
        switch (type) {
#ifdef FROM_S64
            ROW(TDM_CODE_F32, f32, tdm_store_f32, tdm_float_of_long)
            ROW(TDM_CODE_F16, f16, tdm_store_f16, tdm_float_of_long_odd)
            ROW(TDM_CODE_BF16, bf16, tdm_store_bf16, tdm_float_of_long_odd)
            ROW(TDM_CODE_S32, s32, tdm_store_int_s32, tdm_int_of_long)
            ROW(TDM_CODE_S8, s8, tdm_store_int_s8, tdm_int_of_long)
            ROW(TDM_CODE_U8, u8, tdm_store_int_u8, tdm_int_of_long)
#else
            ROW(TDM_CODE_S64, s64, STORE_LONG, TO_LONG)
#endif
            ROW(TDM_CODE_BOOL, u8, STORE_BOOL, IS_NOT_ZERO)
        }
    }
}
