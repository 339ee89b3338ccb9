/* These functions use given parameters: quantize, dequantize, requantize, fake-quantize. */
#include "api/quantize/quantize_loop.h"

static const tdm_dtype code_dtypes[] = {TDM_S8, TDM_U8, TDM_S4, TDM_DTYPE_NONE};
static const tdm_dtype source_dtypes[] = {TDM_S8, TDM_U8, TDM_S4, TDM_S32, TDM_DTYPE_NONE};

static tdm_quant_call start_call(tdm_stream *stream, const char *operation, tdm_op op,
                                 const tdm_tensor *target, const tdm_tensor *source) {
    return (tdm_quant_call){
        .stream = stream,
        .operation = operation,
        .op = op,
        .storage = (int)source->layout.dtype,
        .operands = 2,
        .operand = {{target, NULL}, {source, NULL}},
        .arg = {.target_type = (int)target->layout.dtype,
                .streams = tdm_quant_streams(target, source)},
    };
}

tdm_status tdm_tensor_quantize(tdm_stream *stream, const tdm_tensor *source, tdm_tensor *target) {
    static const char operation[] = "quantize";
    TDM_TRY(tdm_check_output(operation, "target", stream, target));
    TDM_TRY(tdm_check_tensor(operation, "source", stream, source));
    TDM_TRY(tdm_quant_check_shape(operation, source, "target", target));
    TDM_TRY(tdm_quant_check_carrier(operation, "target", target, code_dtypes));
    TDM_TRY(tdm_quant_check_real(operation, "source", source));
    TDM_TRY(tdm_quant_check_overlap(operation, target, source, target, false));
    TDM_TRY(tdm_quant_check_packing(operation, target, target->block));
    tdm_quant_call call = start_call(stream, operation, TDM_OP_QUANTIZE, target, source);
    tdm_quant_add_parameters(&call, target);
    call.arg.target = tdm_quant_side_of(target);
    return tdm_quant_run(&call);
}

tdm_status tdm_tensor_dequantize(tdm_stream *stream, const tdm_tensor *source, tdm_tensor *target) {
    static const char operation[] = "dequantize";
    TDM_TRY(tdm_check_output(operation, "target", stream, target));
    TDM_TRY(tdm_check_tensor(operation, "source", stream, source));
    TDM_TRY(tdm_quant_check_shape(operation, source, "target", target));
    TDM_TRY(tdm_quant_check_carrier(operation, "source", source, source_dtypes));
    TDM_TRY(tdm_quant_check_real(operation, "target", target));
    TDM_TRY(tdm_quant_check_overlap(operation, target, source, source, false));
    tdm_quant_call call = start_call(stream, operation, TDM_OP_DEQUANTIZE, target, source);
    tdm_quant_add_parameters(&call, source);
    call.arg.source = tdm_quant_side_of(source);
    return tdm_quant_run(&call);
}

tdm_status tdm_tensor_requantize(tdm_stream *stream, const tdm_tensor *source, tdm_tensor *target) {
    static const char operation[] = "requantize";
    TDM_TRY(tdm_check_output(operation, "target", stream, target));
    TDM_TRY(tdm_check_tensor(operation, "source", stream, source));
    TDM_TRY(tdm_quant_check_shape(operation, source, "target", target));
    TDM_TRY(tdm_quant_check_carrier(operation, "target", target, code_dtypes));
    TDM_TRY(tdm_quant_check_carrier(operation, "source", source, source_dtypes));
    TDM_TRY(tdm_quant_check_overlap(operation, target, source, source, false));
    TDM_TRY(tdm_quant_check_overlap(operation, target, source, target, false));
    TDM_TRY(tdm_quant_check_packing(operation, target, target->block));
    TDM_TRY(tdm_quant_check_packing(operation, target, source->block));
    tdm_quant_call call = start_call(stream, operation, TDM_OP_REQUANTIZE, target, source);
    tdm_quant_add_parameters(&call, source);
    tdm_quant_add_parameters(&call, target);
    call.arg.source = tdm_quant_side_of(source);
    call.arg.target = tdm_quant_side_of(target);
    return tdm_quant_run(&call);
}

static tdm_status check_mask(const char *operation, const tdm_stream *stream,
                             const tdm_tensor *mask, const tdm_tensor *target,
                             const tdm_tensor *source, const tdm_tensor *like) {
    TDM_TRY(tdm_check_output(operation, "mask", stream, mask));
    TDM_TRY(tdm_quant_check_shape(operation, source, "mask", mask));
    if (mask->layout.dtype != TDM_U8)
        return tdm_fail(TDM_BAD_DTYPE, "%s: mask is %s, must be u8", operation,
                        tdm_dtype_name(mask->layout.dtype));
    TDM_TRY(tdm_check_overlap(operation, "mask", mask, "target", target, false));
    TDM_TRY(tdm_check_overlap(operation, "mask", mask, "source", source, false));
    TDM_TRY(tdm_check_overlap(operation, "mask", mask, "the scales", like->scale, false));
    return like->zero_point ? tdm_check_overlap(operation, "mask", mask, "the zero points",
                                                like->zero_point, false)
                            : TDM_OK;
}

tdm_status tdm_tensor_fake_quantize(tdm_stream *stream, const tdm_tensor *source,
                                    const tdm_tensor *like, tdm_tensor *target, tdm_tensor *mask) {
    static const char operation[] = "fake_quantize";
    TDM_TRY(tdm_check_output(operation, "target", stream, target));
    TDM_TRY(tdm_check_tensor(operation, "source", stream, source));
    TDM_TRY(tdm_check_tensor(operation, "like", stream, like));
    TDM_TRY(tdm_quant_check_shape(operation, source, "target", target));
    TDM_TRY(tdm_quant_check_shape(operation, source, "like", like));
    TDM_TRY(tdm_quant_check_carrier(operation, "like", like, code_dtypes));
    TDM_TRY(tdm_quant_check_real(operation, "source", source));
    TDM_TRY(tdm_quant_check_real(operation, "target", target));
    TDM_TRY(tdm_quant_check_overlap(operation, target, source, like, true));
    if (mask)
        TDM_TRY(check_mask(operation, stream, mask, target, source, like));
    tdm_quant_call call = start_call(stream, operation, TDM_OP_FAKE_QUANTIZE, target, source);
    tdm_quant_add_parameters(&call, like);
    call.operand[call.operands++] = (tdm_quant_operand){mask ? mask : target, NULL};
    call.arg.target = tdm_quant_side_of(like);
    call.arg.masks = mask != NULL;
    return tdm_quant_run(&call);
}
