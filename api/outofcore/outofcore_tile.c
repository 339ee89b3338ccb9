/* These functions make the GEMM of one tile of D: its description, and its operands as tensors for
 * one call. */
#include <string.h>

#include "api/base/handles.h"
#include "api/outofcore/outofcore_internal.h"

/* ---- descriptions ---------------------------------------------------------------------------- */

/* Returns the layout of a tile as a matrix of its own. Its dimensions are in the order of the
 * operand's. */
static tdm_layout tile_layout(const tdm_ooc_operand *o, bool in_slots, int64_t rows,
                              int64_t columns) {
    const bool slot = in_slots || !o->on_device;
    const int row = o->transposed ? 1 : 0, column = 1 - row;
    tdm_layout layout = {.dtype = o->whole.dtype, .rank = 2};
    layout.shape[row] = rows;
    layout.shape[column] = columns;
    layout.strides[row] = slot ? o->slot_row : o->row;
    layout.strides[column] = slot ? o->slot_column : o->column;
    return layout;
}

/* Returns the entries of a parameter along one dimension of a tile: one, or the number of
 * blocks. */
static int64_t entries_along(const tdm_layout *parameter, int dimension, int64_t block,
                             int64_t extent) {
    if (parameter->shape[dimension] == 1)
        return 1;
    return block > 1 ? tdm_ceil_div(extent, block) : extent;
}

static tdm_layout parameter_layout(const tdm_quant_layout *quant, const tdm_layout *parameter,
                                   const tdm_layout *tile) {
    tdm_layout layout = {.dtype = parameter->dtype, .rank = 2};
    for (int i = 0; i < 2; i++) {
        const int own = parameter->rank - 2 + i;
        layout.shape[i] = entries_along(parameter, own, quant->block[own], tile->shape[i]);
        layout.strides[i] = parameter->strides[own];
    }
    return layout;
}

static tdm_quant_layout tile_quant(const tdm_quant_layout *quant, const tdm_layout *tile) {
    tdm_quant_layout result;
    memset(&result, 0, sizeof result);
    if (quant->scale.dtype == TDM_DTYPE_NONE)
        return result;
    for (int i = 0; i < 2; i++)
        result.block[i] = quant->block[quant->scale.rank - 2 + i];
    result.scale = parameter_layout(quant, &quant->scale, tile);
    if (quant->zero_point.dtype != TDM_DTYPE_NONE)
        result.zero_point = parameter_layout(quant, &quant->zero_point, tile);
    return result;
}

tdm_status tdm_ooc_tile_desc(const tdm_ooc_problem *p, int64_t rows, int64_t columns, int64_t depth,
                             bool in_slots, tdm_gemm_desc *desc) {
    const tdm_ooc_operand *const o = p->operands;
    *desc = p->desc;
    desc->a = tile_layout(&o[TDM_OOC_A], in_slots, rows, depth);
    desc->b = tile_layout(&o[TDM_OOC_B], in_slots, depth, columns);
    desc->d = tile_layout(&o[TDM_OOC_D], in_slots, rows, columns);
    if (o[TDM_OOC_C].present)
        desc->c = tile_layout(&o[TDM_OOC_C], in_slots, rows, columns);
    if (o[TDM_OOC_RESIDUAL].present)
        desc->residual = tile_layout(&o[TDM_OOC_RESIDUAL], in_slots, rows, columns);
    desc->a_quant = tile_quant(&o[TDM_OOC_A].quant, &desc->a);
    desc->b_quant = tile_quant(&o[TDM_OOC_B].quant, &desc->b);
    desc->d_quant = tile_quant(&o[TDM_OOC_D].quant, &desc->d);
    if (p->desc.bias.dtype != TDM_DTYPE_NONE)
        desc->bias.shape[0] = columns;
    desc->variant = p->variant[0] ? p->variant : NULL;
    return TDM_OK;
}

/* ---- steps of K ------------------------------------------------------------------------------ */

/* Steps of K are at least this long. They are also even, because two s4 elements share a byte. */
#define MIN_UNIT 64

int64_t tdm_ooc_k_unit(const tdm_ooc_problem *p) {
    const tdm_ooc_operand *const b = &p->operands[TDM_OOC_B];
    const tdm_layout *const scale = &b->quant.scale;
    if (p->desc.quantize_a) // rows of A are quantized as a whole
        return 0;
    if (scale->dtype == TDM_DTYPE_NONE)
        return MIN_UNIT;
    const int row = scale->rank - (b->transposed ? 1 : 2);
    const int64_t group = scale->shape[row] > 1 ? b->quant.block[row] : 1;
    int64_t unit = group;
    while (unit % 2 != 0 || unit < MIN_UNIT)
        unit += group;
    return unit;
}

bool tdm_ooc_gives_integers(const tdm_ooc_problem *p) {
    const tdm_dtype d = p->desc.d.dtype;
    return d == TDM_S32 || d == TDM_S8 || d == TDM_U8;
}

static tdm_layout partial_layout(const tdm_ooc_problem *p, int64_t rows, int64_t columns) {
    return (tdm_layout){.dtype = tdm_ooc_gives_integers(p) ? TDM_S32 : TDM_F32,
                        .rank = 2,
                        .shape = {rows, columns},
                        .strides = {columns, 1}};
}

tdm_status tdm_ooc_part_desc(const tdm_ooc_problem *p, int64_t rows, int64_t columns, int64_t depth,
                             tdm_ooc_part part, tdm_gemm_desc *desc) {
    static const tdm_layout none = {.dtype = TDM_DTYPE_NONE};
    TDM_TRY(tdm_ooc_tile_desc(p, rows, columns, depth, false, desc));
    if (!p->forced)
        desc->variant = NULL;
    if (part != TDM_OOC_FIRST) {
        desc->c = partial_layout(p, rows, columns);
        desc->beta = 1.0f;
        desc->bias = none;
    }
    if (part != TDM_OOC_LAST) {
        desc->d = partial_layout(p, rows, columns);
        memset(&desc->d_quant, 0, sizeof desc->d_quant);
        desc->residual = none;
        desc->activation = TDM_ACT_NONE;
        desc->gated = 0;
    }
    return TDM_OK;
}

/* ---- parameters ------------------------------------------------------------------------------ */

static int64_t index_along(const tdm_quant_layout *quant, int dimension, int64_t element) {
    return quant->block[dimension] > 1 ? element / quant->block[dimension] : element;
}

/* Returns the element offset of a parameter for a tile that begins at `row` and `column` of the
 * operand. */
static int64_t parameter_offset(const tdm_ooc_problem *p, const tdm_ooc_operand *o,
                                const tdm_layout *parameter, int64_t entry, int64_t row,
                                int64_t column) {
    const int last = parameter->rank - 1;
    const int row_dimension = o->transposed ? last : last - 1,
              column_dimension = o->transposed ? last - 1 : last;
    int64_t offset = tdm_ooc_matrix_offset(p, parameter, entry);
    if (parameter->shape[row_dimension] > 1)
        offset += index_along(&o->quant, row_dimension, row) * parameter->strides[row_dimension];
    if (parameter->shape[column_dimension] > 1)
        offset +=
            index_along(&o->quant, column_dimension, column) * parameter->strides[column_dimension];
    return offset;
}

int64_t tdm_ooc_constant_offset(const tdm_ooc_problem *p, tdm_ooc_constant_name name,
                                const tdm_ooc_step *step) {
    const int64_t entry = step->entry, row = step->row, column = step->column;
    const tdm_layout *const layout = &p->constants[name].layout;
    if (layout->dtype == TDM_DTYPE_NONE)
        return 0;
    switch (name) {
    case TDM_OOC_A_SCALE:
    case TDM_OOC_A_ZERO:
        return parameter_offset(p, &p->operands[TDM_OOC_A], layout, entry, row, step->k);
    case TDM_OOC_B_SCALE:
    case TDM_OOC_B_ZERO:
        return parameter_offset(p, &p->operands[TDM_OOC_B], layout, entry, step->k, column);
    case TDM_OOC_D_SCALE:
    case TDM_OOC_D_ZERO:
        return parameter_offset(p, &p->operands[TDM_OOC_D], layout, entry, row, column);
    default:
        return column * layout->strides[0];
    }
}

/* ---- the call -------------------------------------------------------------------------------- */

/* Makes a tensor for one call. It owns nothing. */
static void borrow(tdm_tensor *tensor, const tdm_layout *layout, tdm_buffer *buffer,
                   int64_t offset) {
    *tensor = (tdm_tensor){.buffer = buffer, .layout = *layout, .offset = offset};
}

static void carry(tdm_tensor *tensor, const tdm_quant_layout *quant, const tdm_ooc_places *places,
                  tdm_ooc_constant_name scale, tdm_tensor parameters[2]) {
    if (quant->scale.dtype == TDM_DTYPE_NONE)
        return;
    borrow(&parameters[0], &quant->scale, places->constant[scale], places->constant_offset[scale]);
    tensor->scale = &parameters[0];
    memcpy(tensor->block, quant->block, sizeof tensor->block);
    if (quant->zero_point.dtype == TDM_DTYPE_NONE)
        return;
    borrow(&parameters[1], &quant->zero_point, places->constant[scale + 1],
           places->constant_offset[scale + 1]);
    tensor->zero_point = &parameters[1];
}

tdm_status tdm_ooc_multiply(const tdm_gemm_plan *plan, tdm_stream *stream,
                            const tdm_ooc_places *places) {
    const tdm_gemm_desc *const desc = &plan->desc;
    const tdm_layout *const layouts[TDM_OOC_MATRICES] = {[TDM_OOC_A] = &desc->a,
                                                         [TDM_OOC_B] = &desc->b,
                                                         [TDM_OOC_C] = &desc->c,
                                                         [TDM_OOC_RESIDUAL] = &desc->residual,
                                                         [TDM_OOC_D] = &desc->d};
    tdm_tensor matrices[TDM_OOC_MATRICES], parameters[3][2], bias;
    for (int i = 0; i < TDM_OOC_MATRICES; i++)
        borrow(&matrices[i], layouts[i], places->matrix[i], places->matrix_offset[i]);
    carry(&matrices[TDM_OOC_A], &desc->a_quant, places, TDM_OOC_A_SCALE, parameters[0]);
    carry(&matrices[TDM_OOC_B], &desc->b_quant, places, TDM_OOC_B_SCALE, parameters[1]);
    carry(&matrices[TDM_OOC_D], &desc->d_quant, places, TDM_OOC_D_SCALE, parameters[2]);
    borrow(&bias, &desc->bias, places->constant[TDM_OOC_BIAS],
           places->constant_offset[TDM_OOC_BIAS]);
    const tdm_gemm_args args = {
        .struct_size = sizeof args,
        .a = &matrices[TDM_OOC_A],
        .b = &matrices[TDM_OOC_B],
        .c = places->matrix[TDM_OOC_C] ? &matrices[TDM_OOC_C] : NULL,
        .residual = places->matrix[TDM_OOC_RESIDUAL] ? &matrices[TDM_OOC_RESIDUAL] : NULL,
        .bias = places->constant[TDM_OOC_BIAS] ? &bias : NULL,
        .d = &matrices[TDM_OOC_D],
        .workspace = places->workspace};
    tdm_handles_own(1);
    const tdm_status status = tdm_gemm_plan_run(plan, stream, &args);
    tdm_handles_own(-1);
    return status;
}
