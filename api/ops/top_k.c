/* This function finds the k best elements along one axis. */
#include "api/ops/scan_rows.h"

enum {
    IN_X = 0,
    IN_VALUES,
    IN_INDICES,
    OPERANDS
};

static const char operation[] = "top_k";

/* Checks that values and indices have the shape of x, but for a size along the axis that is at
 * most that of x. */
static tdm_status check_shapes(const tdm_layout *x, int axis, const tdm_layout *values,
                               const tdm_layout *indices) {
    char from[TDM_SHAPE_TEXT], to[TDM_SHAPE_TEXT];
    bool fits = values->rank == x->rank;
    for (int d = 0; d < x->rank && fits; d++)
        fits = d == axis ? values->shape[d] <= x->shape[d] : values->shape[d] == x->shape[d];
    if (!fits)
        return tdm_fail(TDM_BAD_SHAPE,
                        "%s: values has shape %s, must be x's shape %s with at most %lld along "
                        "axis %d",
                        operation, tdm_layout_text(values, to), tdm_layout_text(x, from),
                        (long long)x->shape[axis], axis);
    if (!tdm_layout_same_shape(values, indices))
        return tdm_fail(TDM_BAD_SHAPE, "%s: values has shape %s but indices %s", operation,
                        tdm_layout_text(values, from), tdm_layout_text(indices, to));
    return TDM_OK;
}

static tdm_status check_dtypes(tdm_dtype x, tdm_dtype values, tdm_dtype indices) {
    if (!tdm_is_kernel_float(x) && x != TDM_S32)
        return tdm_fail(TDM_UNSUPPORTED, "%s: no kernel for %s, only for f32, f16, bf16 and s32",
                        operation, tdm_dtype_name(x));
    if (x != values)
        return tdm_fail(TDM_BAD_DTYPE, "%s: x is %s but values is %s", operation, tdm_dtype_name(x),
                        tdm_dtype_name(values));
    if (indices != TDM_S32)
        return tdm_fail(TDM_BAD_DTYPE, "%s: indices is %s, must be s32", operation,
                        tdm_dtype_name(indices));
    return TDM_OK;
}

static tdm_status check(const tdm_stream *stream, const tdm_tensor *x, int axis, int largest,
                        const tdm_tensor *values, const tdm_tensor *indices) {
    TDM_TRY(tdm_check_tensor(operation, "x", stream, x));
    TDM_TRY(tdm_check_output(operation, "values", stream, values));
    TDM_TRY(tdm_check_output(operation, "indices", stream, indices));
    TDM_TRY(tdm_scan_check_axis(operation, x, axis));
    if (largest != 0 && largest != 1)
        return tdm_fail(TDM_BAD_ARGUMENT, "%s: largest is %d, must be 0 or 1", operation, largest);
    TDM_TRY(check_shapes(&x->layout, axis, &values->layout, &indices->layout));
    TDM_TRY(check_dtypes(x->layout.dtype, values->layout.dtype, indices->layout.dtype));
    if (x->layout.shape[axis] > INT32_MAX)
        return tdm_fail(TDM_UNSUPPORTED, "%s: an index among %lld elements does not fit s32",
                        operation, (long long)x->layout.shape[axis]);
    TDM_TRY(tdm_check_overlap(operation, "values", values, "x", x, false));
    TDM_TRY(tdm_check_overlap(operation, "indices", indices, "x", x, false));
    return tdm_check_overlap(operation, "indices", indices, "values", values, false);
}

/* Returns roughly the iterations of all loops: one pass over the row for each bit of a key, two to
 * collect, and the steps of the bitonic network. */
static int64_t iterations(int64_t count, int64_t k) {
    int64_t levels = 0;
    for (int64_t size = 1; size < k; size *= 2)
        levels++;
    return 34 * count + k * (levels * (levels + 1) / 2 + 1);
}

tdm_status tdm_top_k(tdm_stream *stream, const tdm_tensor *x, int axis, int largest,
                     tdm_tensor *values, tdm_tensor *indices) {
    TDM_TRY(check(stream, x, axis, largest, values, indices));
    if (tdm_layout_elements(&values->layout) == 0)
        return TDM_OK;
    const tdm_tensor *const operands[OPERANDS] = {x, values, indices};
    const int64_t k = values->layout.shape[axis];
    scan_rows rows;
    tdm_scan_rows_make(&rows, operation, operands, OPERANDS, axis);
    rows.iterations = iterations(rows.count, k);
    const tdm_arg args[] = {tdm_arg_tensor(x),
                            tdm_arg_tensor(values),
                            tdm_arg_tensor(indices),
                            tdm_arg_blob(&rows.shape, sizeof rows.shape),
                            tdm_arg_blob(&rows.strides[IN_X], sizeof rows.strides[0]),
                            tdm_arg_blob(&rows.strides[IN_VALUES], sizeof rows.strides[0]),
                            tdm_arg_blob(&rows.strides[IN_INDICES], sizeof rows.strides[0]),
                            tdm_arg_s32(rows.rank),
                            tdm_arg_s64(rows.rows),
                            tdm_arg_s64(rows.count),
                            tdm_arg_s64(k),
                            tdm_arg_s64(rows.step[IN_X]),
                            tdm_arg_s64(rows.step[IN_VALUES]),
                            tdm_arg_s64(rows.step[IN_INDICES]),
                            tdm_arg_s32(largest)};
    return tdm_scan_rows_enqueue(stream, &rows, TDM_OP_TOP_K, args, sizeof args / sizeof args[0]);
}
