/* These functions run unary and binary operations, comparisons and selection, with broadcasting. */
#include "api/tensor/strided_loop.h"
#include "kernels/dialect/op_codes.h"
#include "kernels/elementwise/unary_args.h"

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

static const char *comparison_name(tdm_comparison op) {
    switch (op) {
#define NAME(name, value, text, formula)                                                           \
    case name:                                                                                     \
        return text;
        TDM_COMPARISON_LIST(NAME)
#undef NAME
    }
    return NULL;
}

static bool is_integer(tdm_dtype dtype) {
    return dtype == TDM_S32 || dtype == TDM_S8 || dtype == TDM_U8;
}

/* A bool is stored as 0 or 1, so kernels for u8 compute with it. */
static int storage_of(tdm_dtype dtype) {
    return (int)(dtype == TDM_BOOL ? TDM_U8 : dtype);
}

static tdm_status check_dtype(const char *operation, const char *argument, const tdm_tensor *tensor,
                              tdm_dtype dtype) {
    if (tensor->layout.dtype == dtype)
        return TDM_OK;
    return tdm_fail(TDM_BAD_DTYPE, "%s: %s is %s, must be %s", operation, argument,
                    tdm_dtype_name(tensor->layout.dtype), tdm_dtype_name(dtype));
}

/* Checks that an input's shape broadcasts to the output's, and that the input is the same view or
 * does not overlap. */
static tdm_status check_shape(const char *operation, const char *argument, const tdm_tensor *input,
                              const tdm_tensor *output) {
    int64_t strides[TDM_MAX_RANK];
    if (!tdm_broadcast_strides(&input->layout, &output->layout, strides)) {
        char from[TDM_SHAPE_TEXT], to[TDM_SHAPE_TEXT];
        return tdm_fail(TDM_BAD_SHAPE, "%s: %s of shape %s does not broadcast to y of shape %s",
                        operation, argument, tdm_layout_text(&input->layout, from),
                        tdm_layout_text(&output->layout, to));
    }
    return tdm_check_overlap(operation, "y", output, argument, input, true);
}

/* Checks an input of the output's dtype. */
static tdm_status check_input(const char *operation, const char *argument, const tdm_stream *stream,
                              const tdm_tensor *input, const tdm_tensor *output) {
    TDM_TRY(tdm_check_tensor(operation, argument, stream, input));
    if (input->layout.dtype != output->layout.dtype)
        return tdm_fail(TDM_BAD_DTYPE, "%s: %s is %s but y is %s", operation, argument,
                        tdm_dtype_name(input->layout.dtype), tdm_dtype_name(output->layout.dtype));
    return check_shape(operation, argument, input, output);
}

/* Runs a kernel of one input after the checks that unary operations share. arg.op is the code. */
static tdm_status run_unary(tdm_stream *stream, const char *operation, tdm_unary_arg arg,
                            const tdm_tensor *x, tdm_tensor *y) {
    TDM_TRY(tdm_check_output(operation, "y", stream, y));
    TDM_TRY(check_input(operation, "x", stream, x, y));
    if (!tdm_is_kernel_float(y->layout.dtype))
        return tdm_fail(TDM_UNSUPPORTED, "%s: no kernel for %s, only for f32, f16 and bf16",
                        operation, tdm_dtype_name(y->layout.dtype));
    if (tdm_layout_elements(&y->layout) == 0)
        return TDM_OK;

    tdm_loop loop;
    tdm_kernel *kernel;
    tdm_loop_make(&loop, &y->layout, (const tdm_layout *const[]){&x->layout}, 1);
    TDM_TRY(tdm_loop_kernel(stream, TDM_OP_UNARY, operation, (int)y->layout.dtype, &loop, &kernel));
    const tdm_arg buffers[] = {tdm_arg_tensor(x), tdm_arg_tensor(y)};
    if (tdm_exceed_caches((const tdm_tensor *const[]){y, x}, 2))
        arg.op += TDM_CODE_NONTEMPORAL;
    const tdm_arg extra = tdm_arg_blob(&arg, sizeof arg);
    return tdm_loop_enqueue(stream, operation, kernel, &loop, buffers, 2, &extra);
}

tdm_status tdm_unary_op(tdm_stream *stream, tdm_unary op, const tdm_tensor *x, tdm_tensor *y) {
    const char *const operation = unary_name(op);
    if (!operation)
        return tdm_fail(TDM_BAD_ARGUMENT, "unary_op: operation %d is unknown", (int)op);
    return run_unary(stream, operation, (tdm_unary_arg){.op = (int)op}, x, y);
}

tdm_status tdm_clamp(tdm_stream *stream, const tdm_tensor *x, float low, float high,
                     tdm_tensor *y) {
    // The comparison is false if a bound is a NaN.
    if (!(low <= high))
        return tdm_fail(TDM_BAD_ARGUMENT,
                        "clamp: low is %g and high is %g; low must be at most "
                        "high",
                        (double)low, (double)high);
    return run_unary(stream, "clamp",
                     (tdm_unary_arg){.op = TDM_CODE_CLAMP, .low = low, .high = high}, x, y);
}

static tdm_status check_binary_dtype(const char *operation, tdm_binary op, tdm_dtype dtype) {
    if (dtype == TDM_BOOL && (op == TDM_MIN || op == TDM_MAX))
        return TDM_OK;
    if (!tdm_is_kernel_float(dtype) && !is_integer(dtype))
        return tdm_fail(TDM_UNSUPPORTED,
                        "%s: no kernel for %s, only for f32, f16, bf16, s32, s8 and u8", operation,
                        tdm_dtype_name(dtype));
    if (op == TDM_POW && is_integer(dtype))
        return tdm_fail(TDM_UNSUPPORTED, "%s: no kernel for %s, only for f32, f16 and bf16",
                        operation, tdm_dtype_name(dtype));
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
    TDM_TRY(tdm_loop_kernel(stream, TDM_OP_BINARY, operation, storage_of(y->layout.dtype), &loop,
                            &kernel));
    const tdm_arg buffers[] = {tdm_arg_tensor(a), tdm_arg_tensor(b), tdm_arg_tensor(y)};
    const tdm_arg code = tdm_arg_code((int)op, (const tdm_tensor *const[]){y, a, b}, 3);
    return tdm_loop_enqueue(stream, operation, kernel, &loop, buffers, 3, &code);
}

static tdm_status check_comparison(const char *operation, const tdm_stream *stream,
                                   const tdm_tensor *a, const tdm_tensor *b, const tdm_tensor *y) {
    TDM_TRY(tdm_check_output(operation, "y", stream, y));
    TDM_TRY(tdm_check_tensor(operation, "a", stream, a));
    TDM_TRY(tdm_check_tensor(operation, "b", stream, b));
    TDM_TRY(check_dtype(operation, "y", y, TDM_BOOL));
    const tdm_dtype dtype = a->layout.dtype;
    if (b->layout.dtype != dtype)
        return tdm_fail(TDM_BAD_DTYPE, "%s: a is %s but b is %s", operation, tdm_dtype_name(dtype),
                        tdm_dtype_name(b->layout.dtype));
    TDM_TRY(check_shape(operation, "a", a, y));
    TDM_TRY(check_shape(operation, "b", b, y));
    if (tdm_is_kernel_float(dtype) || is_integer(dtype) || dtype == TDM_S64 || dtype == TDM_BOOL)
        return TDM_OK;
    return tdm_fail(TDM_UNSUPPORTED,
                    "%s: no kernel for %s, only for f32, f16, bf16, s32, s64, s8, u8 and bool",
                    operation, tdm_dtype_name(dtype));
}

tdm_status tdm_compare(tdm_stream *stream, tdm_comparison op, const tdm_tensor *a,
                       const tdm_tensor *b, tdm_tensor *y) {
    const char *const operation = comparison_name(op);
    if (!operation)
        return tdm_fail(TDM_BAD_ARGUMENT, "compare: operation %d is unknown", (int)op);
    TDM_TRY(check_comparison(operation, stream, a, b, y));
    if (tdm_layout_elements(&y->layout) == 0)
        return TDM_OK;

    tdm_loop loop;
    tdm_kernel *kernel;
    tdm_loop_make(&loop, &y->layout, (const tdm_layout *const[]){&a->layout, &b->layout}, 2);
    TDM_TRY(tdm_loop_kernel(stream, TDM_OP_COMPARE, operation, storage_of(a->layout.dtype), &loop,
                            &kernel));
    const tdm_arg buffers[] = {tdm_arg_tensor(a), tdm_arg_tensor(b), tdm_arg_tensor(y)};
    const tdm_arg code = tdm_arg_s32((int32_t)op);
    return tdm_loop_enqueue(stream, operation, kernel, &loop, buffers, 3, &code);
}

tdm_status tdm_where(tdm_stream *stream, const tdm_tensor *condition, const tdm_tensor *a,
                     const tdm_tensor *b, tdm_tensor *y) {
    TDM_TRY(tdm_check_output("where", "y", stream, y));
    TDM_TRY(tdm_check_tensor("where", "condition", stream, condition));
    TDM_TRY(check_dtype("where", "condition", condition, TDM_BOOL));
    TDM_TRY(check_shape("where", "condition", condition, y));
    TDM_TRY(check_input("where", "a", stream, a, y));
    TDM_TRY(check_input("where", "b", stream, b, y));
    const tdm_dtype_traits *const traits = tdm_dtype_info(y->layout.dtype);
    if (traits->elements_per_unit > 1)
        return tdm_fail(TDM_UNSUPPORTED, "where: no kernel writes %s, whose elements share bytes",
                        traits->name);
    if (tdm_layout_elements(&y->layout) == 0)
        return TDM_OK;

    tdm_loop loop;
    tdm_kernel *kernel;
    tdm_loop_make(&loop, &y->layout,
                  (const tdm_layout *const[]){&condition->layout, &a->layout, &b->layout}, 3);
    TDM_TRY(tdm_loop_kernel(stream, TDM_OP_WHERE, "where", traits->unit_bytes, &loop, &kernel));
    const tdm_arg buffers[] = {tdm_arg_tensor(condition), tdm_arg_tensor(a), tdm_arg_tensor(b),
                               tdm_arg_tensor(y)};
    return tdm_loop_enqueue(stream, "where", kernel, &loop, buffers, 4, NULL);
}
