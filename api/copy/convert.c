/* Conversion between dtypes. */
#include "api/tensor/strided_loop.h"

static bool is_convertible(tdm_dtype dtype) {
    switch (dtype) {
    case TDM_F32:
    case TDM_F16:
    case TDM_BF16:
    case TDM_S32:
    case TDM_S8:
    case TDM_U8:
    case TDM_S4:
        return true;
    default:
        return false;
    }
}

static tdm_status check_dtype(const char *argument, tdm_dtype dtype) {
    if (is_convertible(dtype))
        return TDM_OK;
    return tdm_fail(TDM_UNSUPPORTED,
                    "convert: %s is %s, only f32, f16, bf16, s32, s8, u8 and s4 are converted",
                    argument, tdm_dtype_name(dtype));
}

static bool is_odd_stride(const tdm_loop *loop, int operand) {
    for (int d = 0; d < loop->rank; d++)
        if (loop->strides[operand].v[d] % 2 != 0)
            return true;
    return false;
}

static void make_loop(tdm_loop *loop, const tdm_layout *target, const tdm_layout *source) {
    tdm_loop_make(loop, target, &source, 1);
    if (target->dtype == TDM_S4)
        loop->unit = 2;
    loop->narrow = source->dtype == TDM_S4 && is_odd_stride(loop, 1);
}

tdm_status tdm_convert_prepare(tdm_device *device, const tdm_layout *target,
                               const tdm_layout *source) {
    tdm_loop loop;
    make_loop(&loop, target, source);
    return tdm_loop_prepare(device, TDM_OP_CONVERT, "convert", (int)source->dtype, &loop);
}

tdm_status tdm_convert_elements(tdm_stream *stream, const char *operation, const tdm_tensor *target,
                                const tdm_tensor *source) {
    tdm_loop loop;
    tdm_kernel *kernel;
    make_loop(&loop, &target->layout, &source->layout);
    TDM_TRY(tdm_loop_kernel(stream, TDM_OP_CONVERT, operation, (int)source->layout.dtype, &loop,
                            &kernel));
    const tdm_arg buffers[] = {tdm_arg_elements(source, 0), tdm_arg_elements(target, 0)};
    const tdm_arg type =
        tdm_arg_code((int)target->layout.dtype, (const tdm_tensor *const[]){target, source}, 2);
    return tdm_loop_enqueue(stream, operation, kernel, &loop, buffers, 2, &type);
}

tdm_status tdm_convert(tdm_stream *stream, tdm_tensor *target, const tdm_tensor *source) {
    TDM_TRY(tdm_check_output("convert", "target", stream, target));
    TDM_TRY(tdm_check_tensor("convert", "source", stream, source));
    if (!tdm_layout_same_shape(&target->layout, &source->layout)) {
        char from[TDM_SHAPE_TEXT], to[TDM_SHAPE_TEXT];
        return tdm_fail(TDM_BAD_SHAPE, "convert: source has shape %s but target %s",
                        tdm_layout_text(&source->layout, from),
                        tdm_layout_text(&target->layout, to));
    }
    TDM_TRY(check_dtype("source", source->layout.dtype));
    TDM_TRY(check_dtype("target", target->layout.dtype));
    if (source->layout.dtype == target->layout.dtype)
        return tdm_copy(stream, target, source);
    TDM_TRY(tdm_check_overlap("convert", "target", target, "source", source, false));
    if (tdm_layout_elements(&target->layout) == 0)
        return TDM_OK;

    return tdm_convert_elements(stream, "convert", target, source);
}
