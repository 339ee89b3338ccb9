/* These functions cut dimensions into pieces at block boundaries. In each piece every parameter is
 * a strided operand of a plain loop. */
#include "api/quantize/quantize_loop.h"

#include <stdio.h>
#include <string.h>

/* ---- pieces ---------------------------------------------------------------------------------- */

typedef struct piece {
    tdm_dim_list list;
    int64_t offset[TDM_LOOP_OPERANDS]; /* elements from each operand's start */
} piece;

static int64_t block_of(const tdm_quant_call *call, int operand, int dimension) {
    const int64_t *const block = call->operand[operand].block;
    const int64_t size = call->operand[0].tensor->layout.shape[dimension];
    if (!block)
        return 1;
    return block[dimension] == 0 || block[dimension] > size ? size : block[dimension];
}

/*
 * Returns the length of the next piece of a dimension, from `position`. *block is the block size if
 * the piece consists of whole blocks that the operands share. Otherwise *block is 0, and only
 * operands with one entry per element change their entry inside the piece.
 */
static int64_t next_cut(const tdm_quant_call *call, int dimension, int64_t position,
                        int64_t *block) {
    const int64_t left = call->operand[0].tensor->layout.shape[dimension] - position;
    int64_t nearest = left;
    bool aligned = true;
    *block = 0;
    for (int o = 0; o < call->operands; o++) {
        const int64_t own = block_of(call, o, dimension);
        const int64_t room = own - position % own;
        if (own == 1 || room >= left)
            continue;
        nearest = room < nearest ? room : nearest;
        aligned = aligned && room == own && (*block == 0 || *block == own);
        *block = own;
    }
    if (*block != 0 && aligned)
        return left / *block * *block;
    *block = 0;
    return nearest;
}

/* Adds elements position … position + length - 1 of a dimension to the piece. They become two
 * dimensions if the piece consists of blocks. */
static void add_cut(const tdm_quant_call *call, int dimension, int64_t position, int64_t length,
                    int64_t block, piece *p) {
    int64_t across[TDM_LOOP_OPERANDS] = {0}, within[TDM_LOOP_OPERANDS] = {0};
    for (int o = 0; o < call->operands; o++) {
        const int64_t own = block_of(call, o, dimension);
        const int64_t stride = call->operand[o].tensor->layout.strides[dimension];
        p->offset[o] += position / own * stride;
        if (own == 1) {
            within[o] = stride;
            across[o] = stride * block;
        } else if (own == block) {
            across[o] = stride;
        }
    }
    if (block != 0)
        tdm_dim_list_add(&p->list, length / block, across);
    tdm_dim_list_add(&p->list, block != 0 ? block : length, within);
}

static bool is_odd_stride(const tdm_dim_list *list, int operand) {
    for (int d = 0; d + 1 < list->rank; d++)
        if (list->strides[operand][d] % 2 != 0)
            return true;
    return false;
}

tdm_status tdm_quant_run_list(const tdm_quant_call *call, const tdm_dim_list *list,
                              const int64_t offset[TDM_LOOP_OPERANDS]) {
    tdm_loop loop;
    tdm_kernel *kernel;
    tdm_arg buffers[TDM_LOOP_OPERANDS];
    tdm_loop_of_list(&loop, list);
    for (int o = 0; o < call->operands; o++) {
        const tdm_tensor *const tensor = call->operand[o].tensor;
        buffers[o == 0 ? call->operands - 1 : o - 1] = tdm_arg_elements(tensor, offset[o]);
        if (tensor->layout.dtype == TDM_S4 && o <= 1)
            loop.narrow = loop.narrow || offset[o] % 2 != 0 || is_odd_stride(list, o);
    }
    if (call->operand[0].tensor->layout.dtype == TDM_S4)
        loop.unit = 2;
    TDM_TRY(
        tdm_loop_kernel(call->stream, call->op, call->operation, call->storage, &loop, &kernel));
    const tdm_arg arg = tdm_arg_blob(&call->arg, sizeof call->arg);
    return tdm_loop_enqueue(call->stream, call->operation, kernel, &loop, buffers, call->operands,
                            &arg);
}

/* Loops over dimensions that exceed the kernels' limit. */
static tdm_status run_piece(const tdm_quant_call *call, const piece *p) {
    if (p->list.rank <= TDM_MAX_RANK + 1)
        return tdm_quant_run_list(call, &p->list, p->offset);
    piece part = *p;
    part.list.rank--;
    memmove(part.list.shape, p->list.shape + 1, (size_t)part.list.rank * sizeof p->list.shape[0]);
    for (int o = 0; o < call->operands; o++)
        memmove(part.list.strides[o], p->list.strides[o] + 1,
                (size_t)part.list.rank * sizeof p->list.shape[0]);
    for (int64_t i = 0; i < p->list.shape[0]; i++) {
        TDM_TRY(run_piece(call, &part));
        for (int o = 0; o < call->operands; o++)
            part.offset[o] += p->list.strides[o][0];
    }
    return TDM_OK;
}

static tdm_status cut_dimension(const tdm_quant_call *call, int dimension, const piece *p) {
    const tdm_layout *const layout = &call->operand[0].tensor->layout;
    if (dimension == layout->rank) {
        piece whole = *p;
        tdm_dim_list_sort(&whole.list, 0);
        tdm_dim_list_merge(&whole.list);
        return run_piece(call, &whole);
    }
    for (int64_t position = 0; position < layout->shape[dimension];) {
        piece next = *p;
        int64_t block;
        const int64_t length = next_cut(call, dimension, position, &block);
        add_cut(call, dimension, position, length, block, &next);
        TDM_TRY(cut_dimension(call, dimension + 1, &next));
        position += length;
    }
    return TDM_OK;
}

tdm_status tdm_quant_run(const tdm_quant_call *call) {
    if (tdm_layout_elements(&call->operand[0].tensor->layout) == 0)
        return TDM_OK;
    const piece empty = {.list = {.operands = call->operands}};
    return cut_dimension(call, 0, &empty);
}

/* ---- helpers that the operations share ------------------------------------------------------- */

void tdm_quant_code_range(tdm_dtype dtype, int *low, int *high) {
    *low = dtype == TDM_S8 ? INT8_MIN : dtype == TDM_U8 ? 0 : dtype == TDM_S4 ? -8 : INT32_MIN;
    *high = dtype == TDM_S8   ? INT8_MAX
            : dtype == TDM_U8 ? UINT8_MAX
            : dtype == TDM_S4 ? 7
                              : INT32_MAX;
}

tdm_quant_side tdm_quant_side_of(const tdm_tensor *tensor) {
    tdm_quant_side side = {.scale_type = (int)tensor->scale->layout.dtype};
    side.zero_type = tensor->zero_point ? (int)tensor->zero_point->layout.dtype : 0;
    tdm_quant_code_range(tensor->layout.dtype, &side.low, &side.high);
    return side;
}

void tdm_quant_add_parameters(tdm_quant_call *call, const tdm_tensor *carrier) {
    const tdm_tensor *const zero = carrier->zero_point ? carrier->zero_point : carrier->scale;
    call->operand[call->operands++] = (tdm_quant_operand){carrier->scale, carrier->block};
    call->operand[call->operands++] = (tdm_quant_operand){zero, carrier->block};
}

tdm_status tdm_quant_check_carrier(const char *operation, const char *argument,
                                   const tdm_tensor *tensor, const tdm_dtype *dtypes) {
    char names[64] = "";
    for (const tdm_dtype *d = dtypes; *d != TDM_DTYPE_NONE; d++) {
        const size_t used = strlen(names);
        if (*d == tensor->layout.dtype)
            names[0] = '\0';
        if (*d == tensor->layout.dtype)
            break;
        snprintf(names + used, sizeof names - used, "%s%s", used ? ", " : "", tdm_dtype_name(*d));
    }
    if (names[0])
        return tdm_fail(TDM_UNSUPPORTED, "%s: %s is %s, must be one of %s", operation, argument,
                        tdm_dtype_name(tensor->layout.dtype), names);
    if (!tensor->scale)
        return tdm_fail(TDM_BAD_ARGUMENT,
                        "%s: %s has no quantization parameters; tdm_tensor_quantized adds them",
                        operation, argument);
    if (tensor->layout.dtype == TDM_S32 && tensor->zero_point)
        return tdm_fail(TDM_UNSUPPORTED, "%s: %s is s32 with zero points, must have scales only",
                        operation, argument);
    return TDM_OK;
}

tdm_status tdm_quant_check_real(const char *operation, const char *argument,
                                const tdm_tensor *tensor) {
    const tdm_dtype dtype = tensor->layout.dtype;
    if (dtype == TDM_F32 || dtype == TDM_F16 || dtype == TDM_BF16)
        return TDM_OK;
    return tdm_fail(TDM_UNSUPPORTED, "%s: %s is %s, must be one of f32, f16, bf16", operation,
                    argument, tdm_dtype_name(dtype));
}

tdm_status tdm_quant_check_shape(const char *operation, const tdm_tensor *source, const char *name,
                                 const tdm_tensor *other) {
    if (tdm_layout_same_shape(&source->layout, &other->layout))
        return TDM_OK;
    char from[TDM_SHAPE_TEXT], to[TDM_SHAPE_TEXT];
    return tdm_fail(TDM_BAD_SHAPE, "%s: source has shape %s but %s %s", operation,
                    tdm_layout_text(&source->layout, from), name,
                    tdm_layout_text(&other->layout, to));
}

static tdm_status check_no_overlap(const char *operation, const tdm_tensor *target,
                                   const char *name, const tdm_tensor *input) {
    return input ? tdm_check_overlap(operation, "target", target, name, input, false) : TDM_OK;
}

tdm_status tdm_quant_check_overlap(const char *operation, const tdm_tensor *target,
                                   const tdm_tensor *source, const tdm_tensor *carrier,
                                   bool same_view_allowed) {
    TDM_TRY(tdm_check_overlap(operation, "target", target, "source", source, same_view_allowed));
    TDM_TRY(check_no_overlap(operation, target, "the scales", carrier->scale));
    return check_no_overlap(operation, target, "the zero points", carrier->zero_point);
}

tdm_status tdm_quant_check_packing(const char *operation, const tdm_tensor *target,
                                   const int64_t *block) {
    const tdm_layout *const layout = &target->layout;
    for (int d = 0; layout->dtype == TDM_S4 && d < layout->rank; d++)
        if (layout->strides[d] == 1 && block[d] % 2 != 0 && block[d] > 1 &&
            block[d] < layout->shape[d])
            return tdm_fail(TDM_UNSUPPORTED,
                            "%s: blocks of %lld along dimension %d of target split the two s4 "
                            "elements of a byte",
                            operation, (long long)block[d], d);
    return TDM_OK;
}

int tdm_quant_streams(const tdm_tensor *target, const tdm_tensor *source) {
    return tdm_exceed_caches((const tdm_tensor *const[]){target, source}, 2);
}
