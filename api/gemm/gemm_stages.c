/*
 * These stages convert quantized weights that no kernel multiplies in place. An inner plan
 * multiplies the result.
 *
 * - B's quantized values are copied to columns along K if a kernel reads those.
 * - Otherwise B is dequantized to f32 in the workspace. A is converted too if no kernel takes f16
 *   or bf16 by f32.
 * - Rows of A are quantized to s8 if B is s8 with one scale per column.
 */
#include <string.h>

#include "api/gemm/gemm_internal.h"
#include "api/tensor/strided_loop.h"
#include "kernels/gemm_weights/gemm_weights_args.h"

/* A work-item of gemm_weights_unpack.cl processes this many elements. */
#define UNPACK_CHUNK 1024
#define ROW_GROUP 16
#define STAGE_ALIGNMENT 256
/* A work-item of gemm_quantize_rows.cl can process rows of this length in 65535 loop iterations. It
 * needs up to 11 iterations per 8 elements. */
#define SHORT_LOOP_ROW (TDM_SHORT_LOOP_ELEMENTS / 3)

/* ---- planning -------------------------------------------------------------------------------- */

/* Variants of these operations differ only in their device requirements. */
static const char *supports(const void *context, const tdm_variant *variant,
                            const tdm_device *device, char reason[TDM_REASON_TEXT]) {
    (void)context;
    (void)variant;
    (void)device;
    (void)reason;
    return NULL;
}

static tdm_status build_stage(tdm_device *device, tdm_op op, const char *operation,
                              tdm_kernel **kernel) {
    const tdm_variant *variant;
    TDM_TRY(tdm_select_variant(device, op, operation, NULL, supports, NULL, NULL, 0, &variant));
    return tdm_device_kernel(device, variant, kernel);
}

/* Computes the dense layout of an operand after op(): the batch dimensions of its layout, then
 * rows and columns. */
static tdm_status dense_layout(const tdm_layout *layout, tdm_dtype dtype, int64_t rows,
                               int64_t columns, tdm_layout *dense) {
    int64_t shape[TDM_MAX_RANK];
    memcpy(shape, layout->shape, sizeof shape);
    shape[layout->rank - 2] = rows;
    shape[layout->rank - 1] = columns;
    return tdm_layout_contiguous(dtype, layout->rank, shape, dense);
}

/* Computes the layout of B's own dimensions with columns along K, as packed weights have it. */
static tdm_status line_layout(const tdm_gemm_plan *plan, tdm_layout *layout) {
    const tdm_gemm_problem *const p = &plan->problem;
    const int rank = plan->desc.b.rank, column = rank - (plan->desc.transpose_b ? 2 : 1),
              row = rank - (plan->desc.transpose_b ? 1 : 2);
    *layout = plan->desc.b;
    layout->strides[row] = 1;
    layout->strides[column] = plan->pack_b.z_elements / (p->n > 0 ? p->n : 1);
    int64_t stride = plan->pack_b.z_elements;
    for (int i = rank - 3; i >= 0; i--) {
        const bool shared = layout->shape[i] == 1 || plan->desc.b.strides[i] == 0;
        layout->strides[i] = shared ? 0 : stride;
        stride *= shared ? 1 : layout->shape[i];
    }
    return TDM_OK;
}

/* True if B in f32 is contiguous along K, which is the direction in which its quantized values are
 * contiguous. */
static bool unpacks_along_k(const tdm_gemm_plan *plan) {
    return plan->problem.packed_b || plan->problem.b.row == 1;
}

/* True if kernels for quantized weights can multiply A after its rows were quantized and
 * dequantized to f32. */
static bool keeps_codes(const tdm_gemm_plan *plan) {
    char reason[TDM_REASON_TEXT];
    tdm_gemm_problem inner = plan->problem;
    inner.quantize_a = false;
    return plan->problem.quantize_a && !tdm_forced_variant(TDM_OP_GEMM) &&
           (!tdm_gemm_weights_refuse(&inner, plan->device, TDM_GEMM_PANEL, reason) ||
            !tdm_gemm_weights_refuse(&inner, plan->device, TDM_GEMM_TILED, reason) ||
            !tdm_gemm_weights_refuse(&inner, plan->device, TDM_GEMM_SMALL_M, reason));
}

static tdm_status keep_codes(const tdm_gemm_plan *plan, tdm_gemm_desc *desc) {
    if (!plan->desc.packed_b)
        return TDM_OK;
    TDM_TRY(line_layout(plan, &desc->b));
    return tdm_quant_layout_dense(&plan->desc.b_quant, &desc->b_quant);
}

static bool on_cores(const tdm_gemm_plan *plan) {
    return (plan->device->info.capabilities & TDM_CAP_CPU_CORES) != 0;
}

/* True if the inner plan reads packed weights. Integer kernels for CPU cores have a packed form of
 * their own. All other kernels read columns along K. */
static bool gives_packed(const tdm_gemm_plan *plan) {
    return plan->desc.packed_b && tdm_gemm_becomes_integer(&plan->problem) && on_cores(plan);
}

/* Returns the problem after B's quantized values were copied to columns along K. */
static tdm_gemm_problem in_lines(const tdm_gemm_problem *p) {
    tdm_gemm_problem inner = *p;
    if (inner.quantize_a)
        inner.a = (tdm_gemm_matrix){.dtype = TDM_F32, .row = inner.k, .col = 1};
    inner.quantize_a = false;
    inner.packed_b = true;
    return inner;
}

bool tdm_gemm_needs_lines(const tdm_gemm_plan *plan, const tdm_variant *row) {
    char reason[TDM_REASON_TEXT];
    const tdm_gemm_problem inner = in_lines(&plan->problem);
    const int32_t family = row->parameters[TDM_GEMM_P_FAMILY];
    return !plan->desc.packed_b && !on_cores(plan) && row->op == TDM_OP_GEMM_WEIGHTS &&
           family != TDM_GEMM_REFERENCE &&
           tdm_gemm_weights_refuse(&plan->problem, plan->device, family, reason) &&
           !tdm_gemm_weights_refuse(&inner, plan->device, family, reason);
}

/* True if variants for quantized weights take B once its columns are copied along K. Variants for
 * CPU cores pack panels from any B and need no copy. */
static bool lines_serve(const tdm_gemm_plan *plan) {
    char reason[TDM_REASON_TEXT];
    const tdm_gemm_problem inner = in_lines(&plan->problem);
    if (plan->desc.packed_b || on_cores(plan) || tdm_forced_variant(TDM_OP_GEMM))
        return false;
    return !tdm_gemm_weights_refuse(&inner, plan->device, TDM_GEMM_SMALL_M, reason) ||
           tdm_gemm_suits_modelled(&inner, plan->device);
}

/* True if a small-M variant has A as its second operand. On CPU cores it does so if it computes the
 * transposed GEMM. On GPUs the result is always true, so that sums are the same as without a wanted
 * variant. */
static bool takes_a_as_b(const tdm_gemm_plan *plan, const tdm_variant *row) {
    tdm_gemm_problem inner = plan->problem;
    inner.packed_b = false;
    return row->op == TDM_OP_GEMM && row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_SMALL_M &&
           (!on_cores(plan) || tdm_gemm_small_m_swaps(&inner));
}

/* True if A is converted to f32. For a B of f32, only CPU cores, small M and the reference have
 * variants with a 16-bit A. */
static bool widens_a(const tdm_gemm_plan *plan, const tdm_variant *wanted) {
    if (plan->problem.quantize_a || plan->problem.a.dtype == TDM_F32)
        return false;
    if (!wanted)
        return !on_cores(plan);
    return wanted->parameters[takes_a_as_b(plan, wanted) ? TDM_GEMM_P_B_TYPE : TDM_GEMM_P_A_TYPE] ==
           (int32_t)TDM_F32;
}

/* True for tiles that read weights of any strides. */
static bool is_tile_of_weights(const tdm_variant *row) {
    return row->op == TDM_OP_GEMM_WEIGHTS && row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_TILED;
}

/* Describes the inner plan. `wanted` is a forced or tuned variant, or NULL. It reads no quantized
 * values, or reads them only in another layout than B's. */
static tdm_status describe_inner(const tdm_gemm_plan *plan, const tdm_variant *wanted,
                                 tdm_gemm_desc *desc) {
    const tdm_gemm_problem *const p = &plan->problem;
    *desc = plan->desc;
    desc->packed_b = gives_packed(plan);
    desc->quantize_a = 0;
    desc->allow_3xtf32 = 0;
    if (tdm_gemm_becomes_integer(p)) {
        TDM_TRY(dense_layout(&plan->desc.a, TDM_S8, p->m, p->k, &desc->a));
        TDM_TRY(dense_layout(&plan->desc.a, TDM_F32, p->m, 1, &desc->a_quant.scale));
        for (int i = 0; i < desc->a.rank - 1; i++)
            desc->a_quant.block[i] = 1;
        desc->transpose_a = 0;
        return desc->packed_b ? TDM_OK : keep_codes(plan, desc);
    }
    if (p->quantize_a) {
        TDM_TRY(dense_layout(&plan->desc.a, TDM_F32, p->m, p->k, &desc->a));
        desc->transpose_a = 0;
    }
    if (wanted ? is_tile_of_weights(wanted) : keeps_codes(plan))
        return keep_codes(plan, desc);
    if (wanted ? wanted->op == TDM_OP_GEMM_WEIGHTS : lines_serve(plan))
        return line_layout(plan, &desc->b);
    if (widens_a(plan, wanted))
        TDM_TRY(tdm_layout_contiguous(TDM_F32, desc->a.rank, plan->desc.a.shape, &desc->a));
    TDM_TRY(dense_layout(&plan->desc.b, TDM_F32, p->k, p->n, &desc->b));
    if (unpacks_along_k(plan)) {
        desc->b.strides[desc->b.rank - 2] = 1;
        desc->b.strides[desc->b.rank - 1] = p->k;
    }
    desc->transpose_b = 0;
    memset(&desc->b_quant, 0, sizeof desc->b_quant);
    return TDM_OK;
}

/* Reserves a region of the workspace. */
static tdm_status reserve_bytes(uint64_t *workspace, uint64_t bytes, uint64_t *at) {
    *at = (*workspace + STAGE_ALIGNMENT - 1) / STAGE_ALIGNMENT * STAGE_ALIGNMENT;
    // Even an empty operand gets a valid offset.
    if (__builtin_add_overflow(*at, bytes + 1, workspace) || *workspace > INT64_MAX / 4)
        return tdm_fail(TDM_BAD_SHAPE, "gemm: the workspace would exceed 2^61 bytes");
    return TDM_OK;
}

/* Reserves a region for a layout. */
static tdm_status reserve(uint64_t *workspace, const tdm_layout *layout, uint64_t *at) {
    size_t bytes;
    TDM_TRY(tdm_dtype_bytes(layout->dtype, tdm_layout_elements(layout), &bytes));
    return reserve_bytes(workspace, bytes, at);
}

/* Returns the tuning entry if it prefers converted weights, or NULL. */
static const tdm_tuning_row *tuned_row(const tdm_gemm_plan *plan, tdm_choice *choice) {
    const tdm_tuning_row *const row = tdm_gemm_tuned(plan, choice);
    return row && choice->variant->op != plan->problem.op &&
                   !tdm_forced_variant(choice->variant->op)
               ? row
               : NULL;
}

/* Builds an inner plan that follows the tuning entry. Returns false if its variant refuses the
 * converted operands. */
static bool build_tuned(tdm_gemm_plan *plan, const tdm_gemm_desc *unpacked,
                        const tdm_tuning_row *row, const tdm_choice *choice) {
    char text[TDM_CHOICE_TEXT];
    tdm_gemm_desc desc = *unpacked;
    if (unpacked->packed_b) // the packed layout must not depend on tuning for one M
        return false;
    desc.variant = tdm_choice_write(choice, text);
    if (tdm_gemm_plan_build(plan->device, &desc, false, &plan->stages.inner) != TDM_OK) {
        tdm_log(TDM_LOG_DEBUG, "dispatch", "gemm: %s refused: %s", text, tdm_last_detail());
        return false;
    }
    tdm_gemm_note_tuning(plan->stages.inner, row, choice);
    return true;
}

static tdm_status check_rows_to_quantize(const tdm_gemm_plan *plan) {
    if ((plan->device->info.capabilities & TDM_CAP_UNLIMITED_LOOPS) ||
        plan->problem.k <= SHORT_LOOP_ROW)
        return TDM_OK;
    return tdm_fail(TDM_UNSUPPORTED,
                    "gemm: quantizing A: the device ends loops after 65535 passes, K of %lld is "
                    "too long for one work-item, which takes up to %d",
                    (long long)plan->problem.k, SHORT_LOOP_ROW);
}

/* Prepares the kernels and workspace regions of the stages before the inner plan. */
static tdm_status plan_before_a(tdm_gemm_plan *plan, const tdm_gemm_desc *inner) {
    tdm_gemm_stages *const stages = &plan->stages;
    if (plan->problem.quantize_a) {
        TDM_TRY(check_rows_to_quantize(plan));
        TDM_TRY(build_stage(plan->device, TDM_OP_GEMM_QUANTIZE_ROWS, "gemm: quantizing A",
                            &stages->quantize_a));
        TDM_TRY(reserve(&plan->workspace_bytes, &inner->a, &stages->a_at));
        return tdm_gemm_becomes_integer(&plan->problem)
                   ? reserve(&plan->workspace_bytes, &inner->a_quant.scale, &stages->a_scale_at)
                   : TDM_OK;
    }
    stages->widens_a = inner->a.dtype != plan->problem.a.dtype;
    if (!stages->widens_a)
        return TDM_OK;
    TDM_TRY(tdm_convert_prepare(plan->device, &inner->a, &plan->desc.a));
    return reserve(&plan->workspace_bytes, &inner->a, &stages->a_at);
}

/* Returns the layout without repeated batch entries. Dimensions along which `like` has stride 0 get
 * size 1. */
static tdm_layout own_entries(const tdm_layout *layout, const tdm_layout *like) {
    tdm_layout own = *layout;
    for (int i = 0; i < layout->rank - 2; i++)
        own.shape[i] = like->strides[i] == 0 ? 1 : like->shape[i];
    return own;
}

static tdm_status plan_before_b(tdm_gemm_plan *plan, const tdm_gemm_desc *inner) {
    tdm_gemm_stages *const stages = &plan->stages;
    if (inner->b.dtype != plan->problem.b.dtype) {
        TDM_TRY(build_stage(plan->device, TDM_OP_GEMM_WEIGHTS_UNPACK, "gemm: unpacking B",
                            &stages->unpack_b));
        return reserve(&plan->workspace_bytes, &inner->b, &stages->b_at);
    }
    stages->lines_b = !plan->desc.packed_b && !tdm_layout_equal(&inner->b, &plan->desc.b);
    if (!stages->lines_b) // the inner plan reads the quantized values
        return TDM_OK;
    int64_t bytes;
    const tdm_layout target = own_entries(&inner->b, &inner->b),
                     source = own_entries(&plan->desc.b, &inner->b);
    TDM_TRY(tdm_copy_prepare(plan->device, &target, &source));
    TDM_TRY(tdm_gemm_packed_bytes(plan, &bytes));
    return reserve_bytes(&plan->workspace_bytes, (uint64_t)bytes, &stages->b_at);
}

static tdm_status plan_before(tdm_gemm_plan *plan, const tdm_gemm_desc *inner) {
    plan->workspace_bytes = plan->stages.inner->workspace_bytes;
    TDM_TRY(plan_before_a(plan, inner));
    return plan_before_b(plan, inner);
}

tdm_status tdm_gemm_plan_tuned_stages(tdm_gemm_plan *plan, bool *staged) {
    tdm_gemm_desc desc;
    tdm_choice choice;
    const tdm_tuning_row *const row = tuned_row(plan, &choice);
    *staged = false;
    if (!row)
        return TDM_OK;
    TDM_TRY(describe_inner(plan, choice.variant, &desc));
    *staged = build_tuned(plan, &desc, row, &choice);
    return *staged ? plan_before(plan, &desc) : TDM_OK;
}

tdm_status tdm_gemm_plan_stages(tdm_gemm_plan *plan, const char *forced) {
    bool staged = false;
    tdm_gemm_desc desc;
    if (!forced)
        TDM_TRY(tdm_gemm_plan_tuned_stages(plan, &staged));
    if (staged)
        return TDM_OK;
    TDM_TRY(describe_inner(plan, forced ? tdm_gemm_named_variant(forced) : NULL, &desc));
    desc.variant = forced;
    TDM_TRY(tdm_gemm_plan_build(plan->device, &desc, false, &plan->stages.inner));
    return plan_before(plan, &desc);
}

/* ---- running --------------------------------------------------------------------------------- */

typedef struct staging {
    const tdm_gemm_plan *plan;
    tdm_stream *stream;
    const tdm_gemm_args *args;
} staging;

/* These return the number of matrices of an operand, and the offset of one matrix. `like` has the
 * batch dimensions over which entries are counted. */
static int64_t count_entries(const tdm_layout *layout) {
    int64_t count = 1;
    for (int i = 0; i < layout->rank - 2; i++)
        count *= layout->shape[i];
    return count;
}

static int64_t entry_offset(const tdm_layout *layout, const tdm_layout *like, int64_t entry) {
    int64_t offset = 0;
    for (int i = like->rank - 3; i >= 0; i--) {
        if (layout->shape[i] > 1)
            offset += entry % like->shape[i] * layout->strides[i];
        entry /= like->shape[i];
    }
    return offset;
}

/* Returns a buffer argument whose offset counts elements. These kernels expect that for s4 too. */
static tdm_arg place_elements(const tdm_tensor *tensor, int64_t offset) {
    tdm_arg arg = tdm_arg_tensor(tensor);
    arg.value.buffer.offset *= tdm_dtype_info(tensor->layout.dtype)->elements_per_unit;
    arg.value.buffer.offset += offset;
    return arg;
}

static tdm_arg place_region(const staging *s, uint64_t at, int unit_bytes) {
    return tdm_arg_block(s->args->workspace->block, (int64_t)at, unit_bytes);
}

static tdm_status quantize_entry(const staging *s, int64_t entry) {
    const tdm_gemm_plan *const plan = s->plan;
    const tdm_gemm_problem *const p = &plan->problem;
    const bool codes = tdm_gemm_becomes_integer(p);
    const tdm_gemm_shape_arg shape = {
        .m = p->m, .k = p->k, .a_row = p->a.row, .a_col = p->a.col, .a_type = (int)p->a.dtype};
    tdm_arg target = place_region(s, plan->stages.a_at, codes ? 1 : (int)sizeof(float));
    tdm_arg scales =
        place_region(s, codes ? plan->stages.a_scale_at : plan->stages.a_at, (int)sizeof(float));
    target.value.buffer.offset += entry * p->m * p->k;
    if (codes)
        scales.value.buffer.offset += entry * p->m;
    const uint32_t limit = plan->stages.quantize_a->limits.max_group_items;
    const uint32_t group = limit < ROW_GROUP ? limit : ROW_GROUP;
    const uint32_t items = on_cores(plan) ? 1 : group;
    const tdm_arg args[] = {
        place_elements(s->args->a, entry_offset(&plan->desc.a, &plan->desc.a, entry)),
        target,
        scales,
        codes ? scales : target,
        tdm_arg_blob(&shape, sizeof shape),
        tdm_arg_s32(codes)};
    const tdm_launch launch = {.args = args,
                               .arg_count = sizeof args / sizeof args[0],
                               .groups = {(uint32_t)tdm_ceil_div(p->m, items), 1, 1},
                               .group = {items, 1, 1}};
    return tdm_enqueue_launch(s->stream, "gemm: quantizing A", plan->stages.quantize_a, &launch);
}

/* Makes a tensor of B that owns nothing. It is the given tensor, or a view of the packed weights in
 * their layout. */
static tdm_status view_weights(const staging *s, tdm_tensor *view) {
    const tdm_packed *const packed = s->args->packed_b;
    memset(view, 0, sizeof *view);
    if (!packed) {
        *view = *s->args->b;
        return TDM_OK;
    }
    TDM_TRY(line_layout(s->plan, &view->layout));
    view->buffer = packed->buffer;
    view->scale = packed->scale;
    view->zero_point = packed->zero_point;
    return TDM_OK;
}

/* Returns the shape of B with columns along the direction in which it is contiguous. */
static tdm_gemm_shape_arg lines_of(const tdm_gemm_plan *plan, const tdm_layout *layout) {
    const tdm_gemm_problem *const p = &plan->problem;
    const int last = layout->rank - 1;
    const int row = plan->desc.transpose_b ? last : last - 1, col = 2 * last - 1 - row;
    const bool along_k = unpacks_along_k(plan);
    return (tdm_gemm_shape_arg){.n = along_k ? p->n : p->k,
                                .k = along_k ? p->k : p->n,
                                .b_row = layout->strides[along_k ? row : col],
                                .b_col = layout->strides[along_k ? col : row],
                                .b_type = (int)p->b.dtype};
}

static tdm_status unpack_entry(const staging *s, const tdm_tensor *b, int64_t entry) {
    const tdm_gemm_plan *const plan = s->plan;
    const tdm_gemm_problem *const p = &plan->problem;
    const tdm_tensor *const zero = b->zero_point;
    const tdm_gemm_shape_arg shape = lines_of(plan, &b->layout);
    const tdm_gemm_weights_arg weights = {.scale_row = p->b_scale.row,
                                          .scale_col = p->b_scale.col,
                                          .zero_row = p->b_zero.row,
                                          .zero_col = p->b_zero.col,
                                          .group = p->group,
                                          .scale_type = (int)p->b_scale.dtype,
                                          .zero_type = (int)p->b_zero.dtype};
    const int64_t items = shape.n * tdm_ceil_div(shape.k, UNPACK_CHUNK);
    if (items > INT32_MAX)
        return tdm_fail(TDM_UNSUPPORTED, "gemm: B of %lld by %lld elements is too large to unpack",
                        (long long)p->k, (long long)p->n);
    tdm_arg target = place_region(s, plan->stages.b_at, (int)sizeof(float));
    target.value.buffer.offset += entry * p->k * p->n;
    const tdm_arg args[] = {
        place_elements(b, entry_offset(&b->layout, &b->layout, entry)),
        place_elements(b->scale, entry_offset(&b->scale->layout, &b->layout, entry)),
        zero ? place_elements(zero, entry_offset(&zero->layout, &b->layout, entry)) : target,
        target,
        tdm_arg_blob(&shape, sizeof shape),
        tdm_arg_blob(&weights, sizeof weights),
        tdm_arg_s32(unpacks_along_k(plan))};
    const tdm_launch launch = {.args = args,
                               .arg_count = sizeof args / sizeof args[0],
                               .groups = {(uint32_t)items, 1, 1},
                               .group = {1, 1, 1}};
    return tdm_enqueue_launch(s->stream, "gemm: unpacking B", plan->stages.unpack_b, &launch);
}

/* Copies B's quantized values to columns along K, in one copy. */
static tdm_status copy_lines(const staging *s, const tdm_tensor *lines) {
    const tdm_tensor *const b = s->args->b;
    tdm_tensor to = {.buffer = lines->buffer, .offset = lines->offset},
               from = {.buffer = b->buffer, .offset = b->offset};
    to.layout = own_entries(&lines->layout, &lines->layout);
    from.layout = own_entries(&b->layout, &lines->layout);
    return tdm_tensor_copy(s->stream, &from, &to);
}

/* Converts bytes to elements from the workspace's start. */
static int64_t elements_at(uint64_t bytes, const tdm_layout *layout) {
    const tdm_dtype_traits *const traits = tdm_dtype_info(layout->dtype);
    return (int64_t)bytes / traits->unit_bytes * traits->elements_per_unit;
}

static tdm_status stage_a(const staging *s, tdm_tensor *a) {
    if (s->plan->stages.widens_a)
        return tdm_tensor_convert(s->stream, s->args->a, a);
    for (int64_t entry = 0; s->plan->problem.k > 0 && entry < count_entries(&s->plan->desc.a);
         entry++)
        TDM_TRY(quantize_entry(s, entry));
    return TDM_OK;
}

static tdm_status stage_b(const staging *s, tdm_tensor *b) {
    tdm_tensor codes;
    if (s->plan->stages.lines_b)
        return copy_lines(s, b);
    TDM_TRY(view_weights(s, &codes));
    for (int64_t entry = 0; s->plan->problem.k > 0 && entry < count_entries(&s->plan->desc.b);
         entry++)
        TDM_TRY(unpack_entry(s, &codes, entry));
    return TDM_OK;
}

/* The tensors on the workspace, and those of packed weights, exist only during this call. */
tdm_status tdm_gemm_run_stages(const tdm_gemm_plan *plan, tdm_stream *stream,
                               const tdm_gemm_args *args) {
    const tdm_gemm_stages *const stages = &plan->stages;
    const tdm_gemm_plan *const inner = stages->inner;
    const staging s = {plan, stream, args};
    tdm_gemm_args own = *args;
    if (tdm_gemm_z_count(&plan->problem) == 0)
        return TDM_OK;
    tdm_tensor a_scale = {.buffer = args->workspace,
                          .layout = inner->desc.a_quant.scale,
                          .offset = (int64_t)(stages->a_scale_at / sizeof(float))};
    tdm_tensor a = {.buffer = args->workspace, .layout = inner->desc.a};
    tdm_tensor b = {.buffer = args->workspace, .layout = inner->desc.b};
    a.offset = elements_at(stages->a_at, &a.layout);
    a.scale = inner->problem.op == TDM_OP_GEMM_INT ? &a_scale : NULL;
    b.offset = elements_at(stages->b_at, &b.layout);
    if (stages->quantize_a || stages->widens_a) {
        own.a = &a;
        TDM_TRY(stage_a(&s, &a));
    }
    if (!inner->desc.packed_b) {
        own.packed_b = NULL;
        own.b = &b;
        if (stages->unpack_b || stages->lines_b)
            TDM_TRY(stage_b(&s, &b));
        else
            TDM_TRY(view_weights(&s, &b));
    }
    if (stages->lines_b) {
        b.scale = args->b->scale;
        b.zero_point = args->b->zero_point;
    }
    return tdm_gemm_run_checked(inner, stream, &own);
}
