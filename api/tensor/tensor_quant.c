/* These functions attach quantization parameters to tensors and to their views. */
#include <string.h>

#include "api/base/handles.h"
#include "api/tensor/tensor_internal.h"
#include "quant/float_chunks.h"

void tdm_tensor_carry(tdm_tensor *tensor, const int64_t *block, tdm_tensor *scale,
                      tdm_tensor *zero_point) {
    memcpy(tensor->block, block, sizeof tensor->block);
    tensor->scale = scale;
    tensor->zero_point = zero_point;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static tdm_status check_dtypes(const char *operation, tdm_dtype dtype, tdm_dtype scale,
                               tdm_dtype zero_point) {
    if (dtype != TDM_S8 && dtype != TDM_U8 && dtype != TDM_S4 && dtype != TDM_S32)
        return tdm_fail(TDM_BAD_DTYPE,
                        "%s: tensor is %s; s8, u8, s4 and s32 can have quantization parameters",
                        operation, tdm_dtype_name(dtype));
    if (!tdm_quant_is_float(scale))
        return tdm_fail(TDM_BAD_DTYPE, "%s: scale is %s; f32, f16 and bf16 are supported",
                        operation, tdm_dtype_name(scale));
    if (zero_point != TDM_DTYPE_NONE && zero_point != TDM_S32 && zero_point != TDM_S8 &&
        zero_point != TDM_U8)
        return tdm_fail(TDM_BAD_DTYPE, "%s: zero_point is %s; s32, s8 and u8 are supported",
                        operation, tdm_dtype_name(zero_point));
    return TDM_OK;
}

static tdm_status check_block(const char *operation, int rank, const int64_t *block) {
    for (int i = 0; i < rank; i++)
        if (block[i] < 0)
            return tdm_fail(TDM_BAD_ARGUMENT, "%s: block[%d] is %lld", operation, i,
                            (long long)block[i]);
    return TDM_OK;
}

/* Returns the number of parameters along a dimension. */
static int64_t entries(int64_t dimension, int64_t block) {
    return block == 0 ? 1 : tdm_ceil_div(dimension, block);
}

static tdm_status check_parameter(const tdm_tensor *tensor, const int64_t *block, const char *name,
                                  const tdm_tensor *parameter) {
    TDM_TRY(tdm_check_device("tensor_quantized", name, parameter->buffer->device, "tensor",
                             tensor->buffer->device));
    tdm_layout expected = tensor->layout;
    for (int i = 0; i < expected.rank; i++)
        expected.shape[i] = entries(tensor->layout.shape[i], block[i]);
    if (tdm_layout_same_shape(&parameter->layout, &expected))
        return TDM_OK;
    char text[TDM_SHAPE_TEXT], expected_text[TDM_SHAPE_TEXT];
    return tdm_fail(TDM_BAD_SHAPE, "tensor_quantized: %s is %s, these blocks need %s", name,
                    tdm_layout_text(&parameter->layout, text),
                    tdm_layout_text(&expected, expected_text));
}

/* ---- creation -------------------------------------------------------------------------------- */

/* Creates another handle on the same view. */
static tdm_status again(const tdm_tensor *tensor, tdm_tensor **handle) {
    *handle = NULL;
    return tensor ? tdm_tensor_on_buffer(tensor->buffer, tensor->offset, &tensor->layout, handle)
                  : TDM_OK;
}

tdm_status tdm_tensor_quantized(const tdm_tensor *tensor, const tdm_quantization *quantization,
                                tdm_tensor **quantized) {
    tdm_status status = TDM_OK;
    if (!quantized)
        return tdm_fail(TDM_BAD_ARGUMENT, "tensor_quantized: quantized is NULL");
    *quantized = NULL;
    if (!tensor || !quantization)
        return tdm_fail(TDM_BAD_ARGUMENT, "tensor_quantized: %s is NULL",
                        tensor ? "quantization" : "tensor");
    tdm_quantization room;
    quantization =
        tdm_struct_read("tensor_quantized", "quantization", quantization, sizeof room, &room);
    if (!quantization)
        return TDM_BAD_ARGUMENT;
    TDM_TRY(tdm_handle_check(TDM_HANDLE_TENSOR, tensor, "tensor_quantized", "tensor"));
    const tdm_tensor *const scale = quantization->scale, *const zero = quantization->zero_point;
    TDM_TRY(tdm_handle_check(TDM_HANDLE_TENSOR, scale, "tensor_quantized", "scale"));
    TDM_TRY(tdm_handle_check(TDM_HANDLE_TENSOR, zero, "tensor_quantized", "zero_point"));
    if (!scale)
        return tdm_fail(TDM_BAD_ARGUMENT, "tensor_quantized: scale is NULL");
    TDM_TRY(check_dtypes("tensor_quantized", tensor->layout.dtype, scale->layout.dtype,
                         zero ? zero->layout.dtype : TDM_DTYPE_NONE));
    TDM_TRY(check_block("tensor_quantized", tensor->layout.rank, quantization->block));
    TDM_TRY(check_parameter(tensor, quantization->block, "scale", scale));
    if (zero)
        TDM_TRY(check_parameter(tensor, quantization->block, "zero_point", zero));
    tdm_tensor *made = NULL, *own_scale = NULL, *own_zero = NULL;
    TDM_TRY_GOTO(again(tensor, &made));
    TDM_TRY_GOTO(again(scale, &own_scale));
    TDM_TRY_GOTO(again(zero, &own_zero));
    tdm_tensor_carry(made, quantization->block, own_scale, own_zero);
    *quantized = made;
    return TDM_OK;

cleanup:
    tdm_tensor_destroy(made);
    tdm_tensor_destroy(own_scale);
    tdm_tensor_destroy(own_zero);
    return status;
}

tdm_status tdm_tensor_create_quantized(tdm_device *device, tdm_dtype dtype, int rank,
                                       const int64_t *shape, const int64_t *block, tdm_dtype scale,
                                       tdm_dtype zero_point, tdm_tensor **tensor) {
    static const int64_t whole[TDM_MAX_RANK] = {0};
    tdm_status status = TDM_OK;
    if (!tensor)
        return tdm_fail(TDM_BAD_ARGUMENT, "tensor_create_quantized: tensor is NULL");
    *tensor = NULL;
    TDM_TRY(check_dtypes("tensor_create_quantized", dtype, scale, zero_point));
    tdm_tensor *made = NULL, *own_scale = NULL, *own_zero = NULL;
    int64_t counts[TDM_MAX_RANK], blocks[TDM_MAX_RANK] = {0};
    TDM_TRY_GOTO(tdm_tensor_create(device, dtype, rank, shape, &made)); // checks rank and shape
    TDM_TRY_GOTO(check_block("tensor_create_quantized", rank, block ? block : whole));
    for (int i = 0; i < rank; i++) {
        blocks[i] = block ? block[i] : 0;
        counts[i] = entries(shape[i], blocks[i]);
    }
    TDM_TRY_GOTO(tdm_tensor_create(device, scale, rank, counts, &own_scale));
    if (zero_point != TDM_DTYPE_NONE)
        TDM_TRY_GOTO(tdm_tensor_create(device, zero_point, rank, counts, &own_zero));
    tdm_tensor_carry(made, blocks, own_scale, own_zero);
    *tensor = made;
    return TDM_OK;

cleanup:
    tdm_tensor_destroy(made);
    tdm_tensor_destroy(own_scale);
    tdm_tensor_destroy(own_zero);
    return status;
}

tdm_status tdm_tensor_quantization(const tdm_tensor *tensor, tdm_quantization *quantization) {
    if (!tensor || !quantization)
        return tdm_fail(TDM_BAD_ARGUMENT, "tensor_quantization: %s is NULL",
                        tensor ? "quantization" : "tensor");
    TDM_TRY(tdm_handle_check(TDM_HANDLE_TENSOR, tensor, "tensor_quantization", "tensor"));
    TDM_TRY(tdm_struct_check_output("tensor_quantization", "quantization", quantization,
                                    sizeof *quantization));
    tdm_quantization now = {.scale = tensor->scale, .zero_point = tensor->zero_point};
    memcpy(now.block, tensor->block, sizeof now.block);
    tdm_struct_write(&now, sizeof now, quantization);
    return TDM_OK;
}

tdm_status tdm_tensor_quant_layout(const tdm_tensor *tensor, tdm_quant_layout *layout) {
    if (!tensor || !layout)
        return tdm_fail(TDM_BAD_ARGUMENT, "tensor_quant_layout: %s is NULL",
                        tensor ? "layout" : "tensor");
    memset(layout, 0, sizeof *layout);
    TDM_TRY(tdm_handle_check(TDM_HANDLE_TENSOR, tensor, "tensor_quant_layout", "tensor"));
    if (!tensor->scale)
        return TDM_OK;
    memcpy(layout->block, tensor->block, sizeof layout->block);
    layout->scale = tensor->scale->layout;
    if (tensor->zero_point)
        layout->zero_point = tensor->zero_point->layout;
    return TDM_OK;
}

/* ---- views ----------------------------------------------------------------------------------- */

/* Attaches the parameters to the view, or destroys it on failure. */
static tdm_status finish(tdm_status status, const int64_t *block, tdm_tensor *scale,
                         tdm_tensor *zero, tdm_tensor **view) {
    if (status == TDM_OK) {
        tdm_tensor_carry(*view, block, scale, zero);
        return TDM_OK;
    }
    tdm_tensor_destroy(scale);
    tdm_tensor_destroy(zero);
    tdm_tensor_destroy(*view);
    *view = NULL;
    return status;
}

tdm_status tdm_view_carry_whole(const char *operation, const tdm_tensor *tensor,
                                tdm_tensor **view) {
    static const int64_t whole[TDM_MAX_RANK] = {0};
    tdm_status status = TDM_OK;
    tdm_tensor *scale = NULL, *zero = NULL;
    const tdm_layout *const layout = &(*view)->layout;
    if (!tensor->scale)
        return TDM_OK;
    for (int i = 0; i < tensor->layout.rank; i++)
        if (tensor->scale->layout.shape[i] != 1)
            TDM_TRY_GOTO(
                tdm_fail(TDM_UNSUPPORTED,
                         "%s: there are %lld quantization parameters along dimension %d; make a "
                         "view of the elements and add parameters with tdm_tensor_quantized",
                         operation, (long long)tensor->scale->layout.shape[i], i));
    int64_t ones[TDM_MAX_RANK];
    for (int i = 0; i < layout->rank; i++)
        ones[i] = 1;
    const int64_t strides[TDM_MAX_RANK] = {0};
    TDM_TRY_GOTO(tdm_tensor_view(tensor->scale, layout->rank, ones, strides, 0, &scale));
    if (tensor->zero_point)
        TDM_TRY_GOTO(tdm_tensor_view(tensor->zero_point, layout->rank, ones, strides, 0, &zero));

cleanup:
    return finish(status, whole, scale, zero, view);
}

tdm_status tdm_view_carry_transposed(const tdm_tensor *tensor, const int *order,
                                     tdm_tensor **view) {
    tdm_status status = TDM_OK;
    tdm_tensor *scale = NULL, *zero = NULL;
    int64_t block[TDM_MAX_RANK] = {0};
    const int rank = tensor->layout.rank;
    if (!tensor->scale)
        return TDM_OK;
    for (int i = 0; i < rank; i++)
        block[i] = tensor->block[order ? order[i] : rank - 1 - i];
    TDM_TRY_GOTO(tdm_tensor_transpose(tensor->scale, order, &scale));
    if (tensor->zero_point)
        TDM_TRY_GOTO(tdm_tensor_transpose(tensor->zero_point, order, &zero));

cleanup:
    return finish(status, block, scale, zero, view);
}

/* Gets the slice of the parameters, and the new block size, for a slice of the elements. */
static tdm_status slice_block(const tdm_tensor *tensor, const tdm_view_slice *s,
                              tdm_view_slice *parameters, int64_t *block) {
    const int64_t size = tensor->layout.shape[s->dimension];
    *parameters = (tdm_view_slice){.dimension = s->dimension, .stop = 1, .step = 1};
    if (*block == 1) {
        *parameters = *s;
    } else if (*block != 0 && s->start == s->stop) {
        parameters->stop = 0;
    } else if (*block != 0) {
        if (s->step != 1 || s->start % *block != 0 || (s->stop % *block != 0 && s->stop != size))
            return tdm_fail(TDM_UNSUPPORTED,
                            "tensor_slice: %lld to %lld by %lld splits blocks of %lld elements",
                            (long long)s->start, (long long)s->stop, (long long)s->step,
                            (long long)*block);
        parameters->start = s->start / *block;
        parameters->stop = tdm_ceil_div(s->stop, *block);
    }
    return TDM_OK;
}

tdm_status tdm_view_carry_slice(const tdm_tensor *tensor, const tdm_view_slice *s,
                                tdm_tensor **view) {
    tdm_status status = TDM_OK;
    tdm_tensor *scale = NULL, *zero = NULL;
    tdm_view_slice part;
    if (!tensor->scale)
        return TDM_OK;
    int64_t block[TDM_MAX_RANK];
    memcpy(block, tensor->block, sizeof block);
    TDM_TRY_GOTO(slice_block(tensor, s, &part, &block[s->dimension]));
    TDM_TRY_GOTO(
        tdm_tensor_slice(tensor->scale, part.dimension, part.start, part.stop, part.step, &scale));
    if (tensor->zero_point)
        TDM_TRY_GOTO(tdm_tensor_slice(tensor->zero_point, part.dimension, part.start, part.stop,
                                      part.step, &zero));

cleanup:
    return finish(status, block, scale, zero, view);
}
