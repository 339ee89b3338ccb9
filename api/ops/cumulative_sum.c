/* This function adds elements along one axis and keeps every partial sum. */
#include "api/ops/scan_rows.h"

enum {
    IN_X = 0,
    IN_Y,
    OPERANDS
};

static const char operation[] = "cumulative_sum";

static tdm_status check(const tdm_stream *stream, const tdm_tensor *x, int axis, int exclusive,
                        int reverse, const tdm_tensor *y) {
    TDM_TRY(tdm_check_tensor(operation, "x", stream, x));
    TDM_TRY(tdm_check_output(operation, "y", stream, y));
    TDM_TRY(tdm_scan_check_axis(operation, x, axis));
    if (exclusive != 0 && exclusive != 1)
        return tdm_fail(TDM_BAD_ARGUMENT, "%s: exclusive is %d, must be 0 or 1", operation,
                        exclusive);
    if (reverse != 0 && reverse != 1)
        return tdm_fail(TDM_BAD_ARGUMENT, "%s: reverse is %d, must be 0 or 1", operation, reverse);
    if (!tdm_layout_same_shape(&x->layout, &y->layout)) {
        char from[TDM_SHAPE_TEXT], to[TDM_SHAPE_TEXT];
        return tdm_fail(TDM_BAD_SHAPE, "%s: x has shape %s but y %s", operation,
                        tdm_layout_text(&x->layout, from), tdm_layout_text(&y->layout, to));
    }
    if (x->layout.dtype != y->layout.dtype)
        return tdm_fail(TDM_BAD_DTYPE, "%s: x is %s but y is %s", operation,
                        tdm_dtype_name(x->layout.dtype), tdm_dtype_name(y->layout.dtype));
    if (!tdm_is_kernel_float(x->layout.dtype) && x->layout.dtype != TDM_S32)
        return tdm_fail(TDM_UNSUPPORTED, "%s: no kernel for %s, only for f32, f16, bf16 and s32",
                        operation, tdm_dtype_name(x->layout.dtype));
    return tdm_check_overlap(operation, "y", y, "x", x, true);
}

tdm_status tdm_cumulative_sum(tdm_stream *stream, const tdm_tensor *x, int axis, int exclusive,
                              int reverse, tdm_tensor *y) {
    TDM_TRY(check(stream, x, axis, exclusive, reverse, y));
    if (tdm_layout_elements(&y->layout) == 0)
        return TDM_OK;
    const tdm_tensor *const operands[OPERANDS] = {x, y};
    scan_rows rows;
    tdm_scan_rows_make(&rows, operation, operands, OPERANDS, axis);
    rows.iterations = 2 * rows.count;
    const tdm_arg args[] = {tdm_arg_tensor(x),
                            tdm_arg_tensor(y),
                            tdm_arg_blob(&rows.shape, sizeof rows.shape),
                            tdm_arg_blob(&rows.strides[IN_X], sizeof rows.strides[0]),
                            tdm_arg_blob(&rows.strides[IN_Y], sizeof rows.strides[0]),
                            tdm_arg_s32(rows.rank),
                            tdm_arg_s64(rows.rows),
                            tdm_arg_s64(rows.count),
                            tdm_arg_s64(rows.step[IN_X]),
                            tdm_arg_s64(rows.step[IN_Y]),
                            tdm_arg_s32(exclusive),
                            tdm_arg_s32(reverse)};
    return tdm_scan_rows_enqueue(stream, &rows, TDM_OP_CUMULATIVE_SUM, args,
                                 sizeof args / sizeof args[0]);
}
