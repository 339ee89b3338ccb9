/* These functions run unary and binary operations with broadcasting. */
#include "api/tensor/strided_loop.h"

static const char *unary_name(tdm_unary op) {
    switch (op) {
#define NAME(name, value, text, formula)                                                           \
    case name:                                                                                     \
        return text;
        TDM_UNARY_LIST(NAME)
#undef NAME
    }
    return NULL;
}

static const char *binary_name(tdm_binary op) {
    switch (op) {
#define NAME(name, value, text, formula)                                                           \
    case name:                                                                                     \
        return text;
        TDM_BINARY_LIST(NAME)
#undef NAME
    }
    return NULL;
}

static bool is_float(tdm_dtype dtype) {
    return dtype == TDM_F32 || dtype == TDM_F16 || dtype == TDM_BF16;
}

static bool is_integer(tdm_dtype dtype) {
    return dtype == TDM_S32 || dtype == TDM_S8 || dtype == TDM_U8;
}

/* Checks an input: it has the output's dtype, its shape broadcasts to the output's, and it is the
 * same view or does not overlap. */
static tdm_status check_input(const char *operation, const char *argument, const tdm_stream *stream,
                              const tdm_tensor *input, const tdm_tensor *output) {
    TDM_TRY(tdm_check_tensor(operation, argument, stream, input));
    if (input->layout.dtype != output->layout.dtype)
        return tdm_fail(TDM_BAD_DTYPE, "%s: %s is %s but y is %s", operation, argument,
                        tdm_dtype_name(input->layout.dtype), tdm_dtype_name(output->layout.dtype));
    int64_t strides[TDM_MAX_RANK];
    if (!tdm_broadcast_strides(&input->layout, &output->layout, strides)) {
        char from[TDM_SHAPE_TEXT], to[TDM_SHAPE_TEXT];
        return tdm_fail(TDM_BAD_SHAPE, "%s: %s of shape %s does not broadcast to y of shape %s",
                        operation, argument, tdm_layout_text(&input->layout, from),
                        tdm_layout_text(&output->layout, to));
    }
    return tdm_check_overlap(operation, "y", output, argument, input, true);
}

tdm_status tdm_unary_op(tdm_stream *stream, tdm_unary op, const tdm_tensor *x, tdm_tensor *y) {
    const char *const operation = unary_name(op);
    if (!operation)
        return tdm_fail(TDM_BAD_ARGUMENT, "unary_op: operation %d is unknown", (int)op);
    TDM_TRY(tdm_check_output(operation, "y", stream, y));
    TDM_TRY(check_input(operation, "x", stream, x, y));
    if (!is_float(y->layout.dtype))
        return tdm_fail(TDM_UNSUPPORTED, "%s: no kernel for %s, only for f32, f16 and bf16",
                        operation, tdm_dtype_name(y->layout.dtype));
    if (tdm_layout_elements(&y->layout) == 0)
        return TDM_OK;

    tdm_loop loop;
    tdm_kernel *kernel;
    tdm_loop_make(&loop, &y->layout, (const tdm_layout *const[]){&x->layout}, 1);
    TDM_TRY(tdm_loop_kernel(stream, TDM_OP_UNARY, operation, (int)y->layout.dtype, &loop, &kernel));
    const tdm_arg buffers[] = {tdm_arg_tensor(x), tdm_arg_tensor(y)};
    const tdm_arg code = tdm_arg_code((int)op, (const tdm_tensor *const[]){y, x}, 2);
    return tdm_loop_enqueue(stream, operation, kernel, &loop, buffers, 2, &code);
}

static tdm_status check_binary_dtype(const char *operation, tdm_binary op, tdm_dtype dtype) {
    if (!is_float(dtype) && !is_integer(dtype))
        return tdm_fail(TDM_UNSUPPORTED,
                        "%s: no kernel for %s, only for f32, f16, bf16, s32, s8 and u8", operation,
                        tdm_dtype_name(dtype));
    if (op == TDM_DIV && is_integer(dtype))
        return tdm_fail(TDM_UNSUPPORTED,
                        "%s: integer division is not supported (%s): its rounding is not defined; "
                        "convert to f32",
                        operation, tdm_dtype_name(dtype));
    return TDM_OK;
}

tdm_status tdm_binary_op(tdm_stream *stream, tdm_binary op, const tdm_tensor *a,
                         const tdm_tensor *b, tdm_tensor *y) {
    const char *const operation = binary_name(op);
    if (!operation)
        return tdm_fail(TDM_BAD_ARGUMENT, "binary_op: operation %d is unknown", (int)op);
    TDM_TRY(tdm_check_output(operation, "y", stream, y));
    TDM_TRY(check_input(operation, "a", stream, a, y));
    TDM_TRY(check_input(operation, "b", stream, b, y));
    TDM_TRY(check_binary_dtype(operation, op, y->layout.dtype));
    if (tdm_layout_elements(&y->layout) == 0)
        return TDM_OK;

    tdm_loop loop;
    tdm_kernel *kernel;
    tdm_loop_make(&loop, &y->layout, (const tdm_layout *const[]){&a->layout, &b->layout}, 2);
    TDM_TRY(
        tdm_loop_kernel(stream, TDM_OP_BINARY, operation, (int)y->layout.dtype, &loop, &kernel));
    const tdm_arg buffers[] = {tdm_arg_tensor(a), tdm_arg_tensor(b), tdm_arg_tensor(y)};
    const tdm_arg code = tdm_arg_code((int)op, (const tdm_tensor *const[]){y, a, b}, 3);
    return tdm_loop_enqueue(stream, operation, kernel, &loop, buffers, 3, &code);
}
