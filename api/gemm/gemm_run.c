/* Runs a plan: checks the operands, then enqueues the launches. A run never allocates device
 * memory, builds a kernel or waits. */
#include <string.h>

#include "api/gemm/gemm_internal.h"
#include "api/tensor/strided_loop.h"
#include "kernels/gemm_int/gemm_int_args.h"
#include "kernels/gemm_weights/gemm_weights_args.h"

// Kernel sources include no library header. Their TDM_CODE_ constants therefore repeat the values
// of the public enums.
_Static_assert(TDM_CODE_F32 == (int)TDM_F32 && TDM_CODE_F16 == (int)TDM_F16 &&
                   TDM_CODE_BF16 == (int)TDM_BF16 && TDM_CODE_ABSENT == (int)TDM_DTYPE_NONE &&
                   TDM_CODE_S32 == (int)TDM_S32 && TDM_CODE_S8 == (int)TDM_S8 &&
                   TDM_CODE_U8 == (int)TDM_U8 && TDM_CODE_S4 == (int)TDM_S4,
               "dtype numbers of the kernels");
_Static_assert(TDM_CODE_ACT_NONE == (int)TDM_ACT_NONE && TDM_CODE_ACT_RELU == (int)TDM_ACT_RELU &&
                   TDM_CODE_ACT_GELU == (int)TDM_ACT_GELU &&
                   TDM_CODE_ACT_GELU_TANH == (int)TDM_ACT_GELU_TANH &&
                   TDM_CODE_ACT_SILU == (int)TDM_ACT_SILU,
               "activation numbers of the kernels");
_Static_assert(sizeof(tdm_gemm_shape_arg) <= TDM_BLOB_BYTES &&
                   sizeof(tdm_gemm_epilogue_arg) <= TDM_BLOB_BYTES &&
                   sizeof(tdm_gemm_quant_arg) <= TDM_BLOB_BYTES &&
                   sizeof(tdm_gemm_weights_arg) <= TDM_BLOB_BYTES &&
                   sizeof(tdm_pack_arg) <= TDM_BLOB_BYTES,
               "blobs");

#define REFERENCE_GROUP 64
#define MAX_ARGUMENTS 16

/* ---- checks ---------------------------------------------------------------------------------- */

static tdm_status check_operand(const tdm_stream *stream, const char *name,
                                const tdm_tensor *tensor, const tdm_layout *expected) {
    if (expected->dtype == TDM_DTYPE_NONE) {
        if (tensor)
            return tdm_fail(TDM_BAD_ARGUMENT, "gemm: %s is given but the plan was made without it",
                            name);
        return TDM_OK;
    }
    TDM_TRY(tdm_check_tensor("gemm", name, stream, tensor));
    // NOLINTNEXTLINE(clang-analyzer-core.NullDereference): tdm_check_tensor refuses NULL
    if (tensor->layout.dtype != expected->dtype)
        return tdm_fail(TDM_BAD_DTYPE, "gemm: %s is %s but the plan was made for %s", name,
                        tdm_dtype_name(tensor->layout.dtype), tdm_dtype_name(expected->dtype));
    if (tdm_layout_equal(&tensor->layout, expected))
        return TDM_OK;
    char shape[TDM_SHAPE_TEXT], planned[TDM_SHAPE_TEXT];
    const bool same_shape = tdm_layout_same_shape(&tensor->layout, expected);
    return tdm_fail(TDM_BAD_SHAPE, "gemm: %s is %s but the plan was made for %s%s", name,
                    tdm_layout_text(&tensor->layout, shape), tdm_layout_text(expected, planned),
                    same_shape ? " with other strides" : "");
}

static tdm_status check_b(const tdm_gemm_plan *plan, const tdm_stream *stream,
                          const tdm_gemm_args *args) {
    if (!plan->desc.packed_b) {
        if (args->packed_b)
            return tdm_fail(TDM_BAD_ARGUMENT,
                            "gemm: packed_b is given but the plan was made without it");
        return check_operand(stream, "B", args->b, &plan->desc.b);
    }
    if (args->b)
        return tdm_fail(TDM_BAD_ARGUMENT, "gemm: B is given but the plan was made for packed_b");
    if (!args->packed_b)
        return tdm_fail(TDM_BAD_ARGUMENT, "gemm: packed_b is NULL");
    return tdm_packed_check(plan, args->packed_b);
}

/* Checks that D does not overlap the scale and the zero point of an operand. */
static tdm_status check_parameters_apart(const tdm_tensor *d, const char *scale,
                                         const char *zero_point, const tdm_tensor *operand) {
    if (operand->scale)
        TDM_TRY(tdm_check_overlap("gemm", "D", d, scale, operand->scale, false));
    if (operand->zero_point)
        TDM_TRY(tdm_check_overlap("gemm", "D", d, zero_point, operand->zero_point, false));
    return TDM_OK;
}

static tdm_status check_all_parameters_apart(const tdm_gemm_args *args) {
    TDM_TRY(check_parameters_apart(args->d, "the scale of A", "the zero point of A", args->a));
    if (args->b)
        TDM_TRY(check_parameters_apart(args->d, "the scale of B", "the zero point of B", args->b));
    return check_parameters_apart(args->d, "the scale of D", "the zero point of D", args->d);
}

static tdm_status check_operands(const tdm_gemm_plan *plan, const tdm_stream *stream,
                                 const tdm_gemm_args *args) {
    const tdm_gemm_desc *const desc = &plan->desc;
    const tdm_gemm_problem *const whole = tdm_gemm_whole(plan);
    TDM_TRY(check_operand(stream, "A", args->a, &desc->a));
    TDM_TRY(tdm_gemm_check_quantization("A", args->a, &desc->a_quant));
    TDM_TRY(check_b(plan, stream, args));
    if (args->b)
        TDM_TRY(tdm_gemm_check_quantization("B", args->b, &desc->b_quant));
    if (args->c || whole->c.dtype != TDM_DTYPE_NONE)
        TDM_TRY(check_operand(stream, "C", args->c, &desc->c));
    TDM_TRY(check_operand(stream, "bias", args->bias, &desc->bias));
    TDM_TRY(check_operand(stream, "residual", args->residual, &desc->residual));
    TDM_TRY(check_operand(stream, "D", args->d, &desc->d));
    TDM_TRY(tdm_gemm_check_quantization("D", args->d, &desc->d_quant));
    TDM_TRY(tdm_check_overlap("gemm", "D", args->d, "A", args->a, false));
    if (args->b)
        TDM_TRY(tdm_check_overlap("gemm", "D", args->d, "B", args->b, false));
    if (args->c && whole->c.dtype != TDM_DTYPE_NONE)
        TDM_TRY(tdm_check_overlap("gemm", "D", args->d, "C", args->c, true));
    if (args->bias)
        TDM_TRY(tdm_check_overlap("gemm", "D", args->d, "bias", args->bias, false));
    if (args->residual)
        TDM_TRY(tdm_check_overlap("gemm", "D", args->d, "residual", args->residual, true));
    return plan->problem.op != TDM_OP_GEMM ? check_all_parameters_apart(args) : TDM_OK;
}

static bool is_workspace(const tdm_buffer *workspace, const tdm_tensor *tensor) {
    return tensor &&
           (tensor->buffer->block == workspace->block || is_workspace(workspace, tensor->scale) ||
            is_workspace(workspace, tensor->zero_point));
}

static tdm_status check_workspace(const tdm_gemm_plan *plan, const tdm_gemm_args *args) {
    const tdm_buffer *const workspace = args->workspace;
    if (plan->workspace_bytes == 0)
        return TDM_OK;
    if (!workspace)
        return tdm_fail(TDM_BAD_ARGUMENT, "gemm: workspace is NULL but the plan needs %llu bytes",
                        (unsigned long long)plan->workspace_bytes);
    TDM_TRY(tdm_check_device("gemm", "the workspace", workspace->device, "the plan", plan->device));
    if (workspace->bytes < plan->workspace_bytes)
        return tdm_fail(TDM_BAD_ARGUMENT,
                        "gemm: the workspace has %zu bytes but the plan needs %llu",
                        workspace->bytes, (unsigned long long)plan->workspace_bytes);
    const tdm_tensor *const operands[] = {args->a,    args->b,        args->c,
                                          args->bias, args->residual, args->d};
    for (size_t i = 0; i < sizeof operands / sizeof operands[0]; i++)
        if (is_workspace(workspace, operands[i]))
            return tdm_fail(TDM_BAD_ARGUMENT,
                            "gemm: the workspace is also the buffer of an operand");
    return TDM_OK;
}

static tdm_status check_run(const tdm_gemm_plan *plan, const tdm_stream *stream,
                            const tdm_gemm_args *args) {
    if (!plan || !stream || !args)
        return tdm_fail(TDM_BAD_ARGUMENT, "gemm: %s is NULL",
                        !plan     ? "plan"
                        : !stream ? "stream"
                                  : "args");
    TDM_TRY(tdm_check_device("gemm", "the plan", plan->device, "the stream", stream->device));
    TDM_TRY(check_operands(plan, stream, args));
    return check_workspace(plan, args);
}

/* ---- launches -------------------------------------------------------------------------------- */

/* A run of a plan. It launches the entries of the outer batch dimensions one after the other. */
typedef struct run {
    const tdm_gemm_plan *plan;
    tdm_stream *stream;
    const tdm_gemm_args *args;
    int64_t outer; /* the outer entry that is being launched */
    tdm_gemm_shape_arg shape;
    tdm_gemm_epilogue_arg epilogue;
    tdm_arg a, b;          /* arguments for A and B at z = 0 */
    int64_t packed_b_from; /* offset in B of the panels that the workspace holds, -1: none */
    tdm_bk_tensor_map tensor_maps[3]; /* tensor-map descriptors of A, B and D */
} run;

static tdm_gemm_epilogue_arg epilogue_of(const tdm_gemm_plan *plan, const tdm_gemm_problem *p) {
    return (tdm_gemm_epilogue_arg){.c_row = p->c.row,
                                   .c_col = p->c.col,
                                   .c_batch = tdm_gemm_z_stride(p, &p->c),
                                   .d_row = p->d.row,
                                   .d_col = p->d.col,
                                   .d_batch = tdm_gemm_z_stride(p, &p->d),
                                   .r_row = p->residual.row,
                                   .r_col = p->residual.col,
                                   .r_batch = tdm_gemm_z_stride(p, &p->residual),
                                   .bias_row = p->bias_row,
                                   .bias_col = p->bias_col,
                                   .alpha = p->alpha,
                                   .beta = p->beta,
                                   .activation = (int)p->activation,
                                   .gated = p->gated,
                                   .c_type = (int)p->c.dtype,
                                   .bias_type = (int)p->bias,
                                   .r_type = (int)p->residual.dtype,
                                   .d_type = (int)p->d.dtype,
                                   .streams_d = plan->streams_d};
}

static void take_shape(run *r) {
    const tdm_gemm_problem *const p = &r->plan->problem;
    const int32_t *const row = r->plan->kernel->variant->parameters;
    r->shape = (tdm_gemm_shape_arg){.m = p->m,
                                    .n = p->n,
                                    .k = p->k,
                                    .a_row = p->a.row,
                                    .a_col = p->a.col,
                                    .a_batch = tdm_gemm_z_stride(p, &p->a),
                                    .b_row = p->b.row,
                                    .b_col = p->b.col,
                                    .b_batch = tdm_gemm_z_stride(p, &p->b),
                                    .row_tiles = tdm_ceil_div(p->m, row[TDM_GEMM_P_ROWS]),
                                    .column_tiles = tdm_ceil_div(p->n, row[TDM_GEMM_P_COLUMNS]),
                                    .a_type = (int)p->a.dtype,
                                    .b_type = (int)p->b.dtype};
    const tdm_gemm_partition *const partition = &r->plan->partition;
    if (tdm_gemm_small_m_groups_integers(r->plan->kernel->variant)) {
        tdm_gemm_small_m_tiles(p, r->plan->kernel->variant, &r->shape.row_tiles,
                               &r->shape.column_tiles);
    } else if (row[TDM_GEMM_P_FAMILY] == TDM_GEMM_SMALL_M && p->op != TDM_OP_GEMM_INT) {
        r->shape.row_tiles = 1;
        r->shape.column_tiles = partition->column_items;
        r->shape.b_packed = p->packed_b && tdm_gemm_small_m_on_cores(r->plan->kernel->variant);
    } else if (row[TDM_GEMM_P_FAMILY] == TDM_GEMM_PANEL) {
        r->shape.row_tiles = partition->row_items;
        r->shape.column_tiles = partition->column_items;
        r->shape.b_packed = !partition->packs_inside;
    }
    r->epilogue = epilogue_of(r->plan, p);
}

static void read_packed_b(run *r) {
    const tdm_gemm_problem *const p = &r->plan->problem;
    r->b = tdm_arg_block(r->args->packed_b->buffer->block, 0, r->plan->pack_b.unit_bytes);
    r->b.value.buffer.offset *= tdm_dtype_info(p->b.dtype)->elements_per_unit;
    r->b.value.buffer.offset += tdm_gemm_outer_offset(p, &p->b, r->outer);
}

static tdm_status prepare_b(run *r) {
    const tdm_gemm_problem *const p = &r->plan->problem;
    const tdm_gemm_packing *const packing = &r->plan->pack_b;
    if (r->plan->desc.packed_b) {
        read_packed_b(r);
        return TDM_OK;
    }
    const int64_t offset = tdm_gemm_outer_offset(p, &p->b, r->outer);
    r->b = tdm_arg_elements(p->swapped ? r->args->a : r->args->b, offset);
    if (!packing->kernel)
        return TDM_OK;
    tdm_block *const workspace = r->args->workspace->block;
    const tdm_gemm_pack_job job = {.packing = packing,
                                   .source = p->swapped ? r->args->a : r->args->b,
                                   .source_offset = offset,
                                   .depth = p->k,
                                   .depth_stride = p->b.row,
                                   .line_stride = p->b.col,
                                   .z_stride = tdm_gemm_z_stride(p, &p->b),
                                   .target = workspace};
    if (r->packed_b_from != offset)
        TDM_TRY(tdm_gemm_enqueue_pack(r->stream, &job));
    r->packed_b_from = offset;
    r->b = tdm_arg_block(workspace, 0, packing->unit_bytes);
    r->shape.b_batch = packing->z_count > 1 ? packing->z_elements : 0;
    return TDM_OK;
}

/* Returns the argument for an M×N matrix or a quantization parameter of problem p at batch entry z.
 * If it is absent, D is passed in its place. */
static tdm_arg place_matrix(const run *r, const tdm_gemm_problem *p, const tdm_tensor *tensor,
                            const tdm_gemm_matrix *matrix, int64_t z) {
    if (matrix->dtype == TDM_DTYPE_NONE)
        return tdm_arg_tensor(r->args->d);
    return tdm_arg_elements(tensor, tdm_gemm_outer_offset(p, matrix, r->outer) +
                                        z * tdm_gemm_z_stride(p, matrix));
}

/* Returns the argument for the result of a launch: D, or the parts of a split K in the
 * workspace. */
static tdm_arg place_result(const run *r, int64_t z) {
    const tdm_gemm_problem *const p = &r->plan->problem;
    if (!r->plan->split.parts)
        return place_matrix(r, p, r->args->d, &p->d, z);
    tdm_arg parts = tdm_arg_block(r->args->workspace->block,
                                  (int64_t)r->plan->split.workspace_offset, sizeof(float));
    parts.value.buffer.offset +=
        tdm_gemm_outer_offset(p, &p->d, r->outer) + z * tdm_gemm_z_stride(p, &p->d);
    return parts;
}

/* The arguments of a launch, in the order that kernels of all families use. */
typedef struct argument_list {
    tdm_arg args[MAX_ARGUMENTS];
    uint32_t count;
} argument_list;

static void add(argument_list *list, tdm_arg arg) {
    list->args[list->count++] = arg;
}

/* Adds the quantization parameters of A, if this is an integer GEMM, and then those of B, at batch
 * entry z. D is passed in place of an absent parameter. */
static void add_parameters(argument_list *list, const run *r, const tdm_gemm_problem *p,
                           int64_t z) {
    const tdm_gemm_args *const given = r->args;
    const tdm_tensor *const scale = given->b ? given->b->scale : given->packed_b->scale,
                            *const zero =
                                given->b ? given->b->zero_point : given->packed_b->zero_point;
    if (p->op == TDM_OP_GEMM_INT) {
        add(list, place_matrix(r, p, given->a->scale, &p->a_scale, z));
        add(list, place_matrix(r, p, given->a->zero_point, &p->a_zero, z));
    }
    add(list, place_matrix(r, p, scale, &p->b_scale, z));
    add(list, place_matrix(r, p, zero, &p->b_zero, z));
}

static void add_inputs(argument_list *list, const run *r, int64_t z) {
    const tdm_gemm_problem *const p = &r->plan->problem;
    tdm_arg a = r->a, b = r->b;
    a.value.buffer.offset += z * r->shape.a_batch;
    b.value.buffer.offset += z * r->shape.b_batch;
    add(list, a);
    add(list, b);
    if (p->op != TDM_OP_GEMM)
        add_parameters(list, r, p, z);
}

static tdm_gemm_quant_arg quant_of(const run *r, const tdm_gemm_problem *p) {
    return (tdm_gemm_quant_arg){.a_scale_row = p->a_scale.row,
                                .a_scale_batch = tdm_gemm_z_stride(p, &p->a_scale),
                                .a_zero_row = p->a_zero.row,
                                .a_zero_batch = tdm_gemm_z_stride(p, &p->a_zero),
                                .b_scale_col = p->b_scale.col,
                                .b_scale_batch = tdm_gemm_z_stride(p, &p->b_scale),
                                .b_zero_col = p->b_zero.col,
                                .b_zero_batch = tdm_gemm_z_stride(p, &p->b_zero),
                                .d_scale_col = p->d_scale.col,
                                .d_zero_col = p->d_zero.col,
                                .sums_at = r->plan->pack_b.sums_at,
                                .a_stays = r->plan->partition.a_stays,
                                .a_scale_type = (int)p->a_scale.dtype,
                                .b_scale_type = (int)p->b_scale.dtype,
                                .d_scale_type = (int)p->d_scale.dtype,
                                .a_zero_type = (int)p->a_zero.dtype,
                                .b_zero_type = (int)p->b_zero.dtype,
                                .d_zero_type = (int)p->d_zero.dtype,
                                .low = p->d.dtype == TDM_U8 ? 0 : INT8_MIN,
                                .high = p->d.dtype == TDM_U8 ? UINT8_MAX : INT8_MAX};
}

static tdm_gemm_weights_arg weights_of(const tdm_gemm_problem *p) {
    return (tdm_gemm_weights_arg){.scale_row = p->b_scale.row,
                                  .scale_col = p->b_scale.col,
                                  .scale_batch = tdm_gemm_z_stride(p, &p->b_scale),
                                  .zero_row = p->b_zero.row,
                                  .zero_col = p->b_zero.col,
                                  .zero_batch = tdm_gemm_z_stride(p, &p->b_zero),
                                  .group = p->group,
                                  .scale_type = (int)p->b_scale.dtype,
                                  .zero_type = (int)p->b_zero.dtype,
                                  .quantize_a = p->quantize_a};
}

static void divide_groups(const run *r, tdm_launch *launch) {
    const int32_t *const row = r->plan->kernel->variant->parameters;
    const int64_t tiles = r->shape.row_tiles * r->shape.column_tiles;
    launch->groups[0] = (uint32_t)tiles;
    if (row[TDM_GEMM_P_FAMILY] == TDM_GEMM_REFERENCE) {
        const uint32_t limit = r->plan->kernel->limits.max_group_items;
        launch->group[0] = limit < REFERENCE_GROUP ? limit : REFERENCE_GROUP;
        launch->groups[0] = (uint32_t)tdm_ceil_div(tiles, launch->group[0]);
    } else if (row[TDM_GEMM_P_FAMILY] == TDM_GEMM_WGMMA) {
        launch->group[0] = (uint32_t)row[TDM_GEMM_P_ITEMS];
        launch->groups[0] = (uint32_t)tdm_gemm_wgmma_groups(r->plan, tiles, launch->groups[2]);
        if (row[TDM_GEMM_P_CLUSTER] > 1) {
            launch->cluster[0] = (uint32_t)row[TDM_GEMM_P_CLUSTER];
            launch->cluster[1] = launch->cluster[2] = 1;
        }
    } else if (row[TDM_GEMM_P_FAMILY] == TDM_GEMM_SMALL_M ||
               row[TDM_GEMM_P_FAMILY] == TDM_GEMM_TENSOR) {
        launch->group[0] = (uint32_t)row[TDM_GEMM_P_ITEMS];
        // For quantized weights, one launch computes all parts of a split K. They are numbered
        // along y.
        if (r->plan->problem.op == TDM_OP_GEMM_WEIGHTS && r->plan->split.parts)
            launch->groups[1] = (uint32_t)r->plan->split.parts;
    } else if (row[TDM_GEMM_P_FAMILY] == TDM_GEMM_TILED) {
        launch->group[0] = (uint32_t)row[TDM_GEMM_P_GROUP_X];
        launch->group[1] = (uint32_t)(row[TDM_GEMM_P_ITEMS] / row[TDM_GEMM_P_GROUP_X]);
    }
}

/* Returns the bytes of the local-memory argument, or 0 if the kernel has none. */
static uint32_t argument_local_bytes(const tdm_gemm_plan *plan) {
    const int32_t *const row = plan->kernel->variant->parameters;
    switch (row[TDM_GEMM_P_FAMILY]) {
    case TDM_GEMM_PANEL:
        return plan->partition.local_bytes;
    case TDM_GEMM_TENSOR:
    case TDM_GEMM_WGMMA:
        return (uint32_t)row[TDM_GEMM_P_LOCAL_BYTES];
    default:
        return 0;
    }
}

static bool copies_tensor_maps(const tdm_gemm_plan *plan) {
    return plan->kernel->variant->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_WGMMA;
}

static void make_map(tdm_arg *arg, int unit_bytes, const tdm_bk_tensor_map *tensor_map) {
    arg->kind = TDM_ARG_TENSOR_MAP;
    arg->value.buffer.offset *= unit_bytes;
    arg->value.buffer.tensor_map = tensor_map;
}

/* Adds a tensor map of D if one can describe D. Otherwise the map of A is passed in its place, and
 * the work-items store D without a map. */
static void add_tensor_map_of_d(run *r, argument_list *list, int64_t z, int64_t count) {
    tdm_arg d = place_result(r, z);
    const bool described =
        tdm_gemm_tensor_map_of_d(&r->shape, &r->epilogue, count, &r->tensor_maps[2]);
    if (described)
        make_map(&d, tdm_dtype_info((tdm_dtype)r->epilogue.d_type)->unit_bytes, &r->tensor_maps[2]);
    const bool stores = described && d.value.buffer.offset % TDM_GEMM_TENSOR_MAP_ALIGNMENT == 0;
    r->shape.turned |= stores ? TDM_GEMM_TENSOR_MAP_D : 0;
    add(list, stores ? d : list->args[0]);
}

/* Converts the arguments of A and B to tensor maps, which count offsets in bytes. Fails if an
 * offset is not aligned. */
static tdm_status describe_tensor_maps(run *r, argument_list *list, int64_t count) {
    const int bytes = tdm_dtype_info(r->plan->problem.a.dtype)->unit_bytes;
    r->shape.turned = tdm_gemm_tensor_maps_turned(&r->shape);
    tdm_gemm_tensor_maps(&r->shape, r->plan->kernel->variant, count, &r->tensor_maps[0],
                         &r->tensor_maps[1]);
    for (int i = 0; i < 2; i++) {
        tdm_arg *const arg = &list->args[i];
        make_map(arg, bytes, &r->tensor_maps[i]);
        if (arg->value.buffer.offset % TDM_GEMM_TENSOR_MAP_ALIGNMENT != 0)
            return tdm_fail(TDM_UNSUPPORTED,
                            "gemm: %s begins %lld bytes into its allocation, but %s needs offsets "
                            "that are multiples of %d",
                            (i == 0) != r->plan->problem.swapped ? "A" : "B",
                            (long long)arg->value.buffer.offset, r->plan->kernel->variant->name,
                            TDM_GEMM_TENSOR_MAP_ALIGNMENT);
    }
    return TDM_OK;
}

/* Adds C, the bias, the residual and D. An integer GEMM also gets D's quantization parameters. */
static void add_outputs(argument_list *list, const run *r, const tdm_gemm_problem *p, tdm_arg d,
                        int64_t z) {
    const tdm_gemm_args *const given = r->args;
    add(list, place_matrix(r, p, given->c, &p->c, z));
    add(list, tdm_arg_tensor(given->bias ? given->bias : given->d));
    add(list, place_matrix(r, p, given->residual, &p->residual, z));
    add(list, d);
    if (p->op == TDM_OP_GEMM_INT) {
        add(list, place_matrix(r, p, given->d->scale, &p->d_scale, z));
        add(list, place_matrix(r, p, given->d->zero_point, &p->d_zero, z));
    }
}

static tdm_status launch_piece(run *r, int64_t z, int64_t count) {
    const tdm_gemm_problem *const p = &r->plan->problem;
    tdm_gemm_quant_arg quant;
    tdm_gemm_weights_arg weights;
    argument_list list = {.count = 0};
    add_inputs(&list, r, z);
    if (copies_tensor_maps(r->plan))
        TDM_TRY(describe_tensor_maps(r, &list, count));
    if (copies_tensor_maps(r->plan) && p->op == TDM_OP_GEMM)
        add_tensor_map_of_d(r, &list, z, count);
    add_outputs(&list, r, p, place_result(r, z), z);
    add(&list, tdm_arg_blob(&r->shape, sizeof r->shape));
    add(&list, tdm_arg_blob(&r->epilogue, sizeof r->epilogue));
    if (p->op == TDM_OP_GEMM_INT) {
        quant = quant_of(r, p);
        add(&list, tdm_arg_blob(&quant, sizeof quant));
    } else if (p->op == TDM_OP_GEMM_WEIGHTS) {
        weights = weights_of(p);
        weights.depth = r->plan->split.parts ? r->plan->split.depth : p->k;
        add(&list, tdm_arg_blob(&weights, sizeof weights));
    }
    const uint32_t local_bytes = argument_local_bytes(r->plan);
    if (local_bytes > 0)
        add(&list, (tdm_arg){.kind = TDM_ARG_LOCAL, .bytes = local_bytes});
    tdm_launch launch = {.args = list.args,
                         .arg_count = list.count,
                         .groups = {0, 1, (uint32_t)count},
                         .group = {1, 1, 1}};
    divide_groups(r, &launch);
    return tdm_enqueue_launch(r->stream, "gemm", r->plan->kernel, &launch);
}

/* Launches one additional part: the steps of K that remain after the parts of equal depth. */
static tdm_status launch_rest(run *r) {
    const tdm_gemm_problem *const p = &r->plan->problem;
    const tdm_gemm_split *const split = &r->plan->split;
    tdm_gemm_packing packing = r->plan->pack_b;
    r->shape.k = split->rest;
    if (packing.kernel) {
        const int64_t offset = tdm_gemm_outer_offset(p, &p->b, r->outer);
        packing.z_count = 1;
        const tdm_gemm_pack_job job = {.packing = &packing,
                                       .source = p->swapped ? r->args->a : r->args->b,
                                       .source_offset = offset + split->parts * p->b.row * p->k,
                                       .depth = split->rest,
                                       .depth_stride = p->b.row,
                                       .line_stride = p->b.col,
                                       .z_stride = 0,
                                       .target = r->args->workspace->block};
        TDM_TRY(tdm_gemm_enqueue_pack(r->stream, &job));
        r->packed_b_from = -1;
        r->shape.b_batch = 0;
    }
    return launch_piece(r, split->parts, 1);
}

static tdm_status launch_outer(run *r) {
    const int64_t z_count = tdm_gemm_z_count(&r->plan->problem);
    take_shape(r);
    const tdm_gemm_problem *const p = &r->plan->problem;
    r->a = tdm_arg_elements(p->swapped ? r->args->b : r->args->a,
                            tdm_gemm_outer_offset(p, &p->a, r->outer));
    TDM_TRY(prepare_b(r));
    for (int64_t z = 0; z < z_count; z += TDM_GEMM_MAX_Z)
        TDM_TRY(launch_piece(r, z, z_count - z < TDM_GEMM_MAX_Z ? z_count - z : TDM_GEMM_MAX_Z));
    return r->plan->split.rest ? launch_rest(r) : TDM_OK;
}

/* Launches the kernel that adds the parts of K, for batch entries z … z + count - 1. This kernel
 * also computes the epilogue. If there are no parts, D is passed in their place. */
static tdm_status launch_reduce(const run *r, int64_t z, int64_t count) {
    const tdm_gemm_split *const split = &r->plan->split;
    const tdm_gemm_problem *const p = &split->whole;
    const tdm_gemm_epilogue_arg epilogue = epilogue_of(r->plan, p);
    tdm_gemm_reduce_launch size;
    tdm_gemm_reduce_shape(r->plan, &size);
    const int64_t entry = size.part * split->slots;
    const tdm_gemm_shape_arg shape = {.m = p->m,
                                      .n = p->n,
                                      .k = split->slots,
                                      .a_row = p->n,
                                      .a_col = size.part,
                                      .a_batch = entry};
    argument_list list = {.count = 0};
    tdm_gemm_quant_arg quant = quant_of(r, p);
    quant.a_zero_type = quant.b_zero_type = TDM_CODE_ABSENT; // the parts include the zero points
    tdm_arg parts = tdm_arg_tensor(r->args->d);
    if (split->parts) {
        parts = tdm_arg_block(r->args->workspace->block, (int64_t)split->workspace_offset,
                              sizeof(float));
        parts.value.buffer.offset += (r->outer * tdm_gemm_z_count(p) + z) * entry;
    }
    add(&list, parts);
    if (p->op == TDM_OP_GEMM_INT)
        add_parameters(&list, r, p, z);
    add_outputs(&list, r, p, place_matrix(r, p, r->args->d, &p->d, z), z);
    add(&list, tdm_arg_blob(&shape, sizeof shape));
    add(&list, tdm_arg_blob(&epilogue, sizeof epilogue));
    if (p->op == TDM_OP_GEMM_INT)
        add(&list, tdm_arg_blob(&quant, sizeof quant));
    const tdm_launch launch = {.args = list.args,
                               .arg_count = list.count,
                               .groups = {size.groups, 1, (uint32_t)count},
                               .group = {size.group, 1, 1}};
    return tdm_enqueue_launch(r->stream, "gemm: adding the partial sums of K", split->reduce,
                              &launch);
}

static tdm_status join_parts(run *r) {
    const tdm_gemm_problem *const p = &r->plan->split.whole;
    const int64_t outer_count = tdm_gemm_outer_count(p), z_count = tdm_gemm_z_count(p);
    for (r->outer = 0; r->outer < outer_count; r->outer++)
        for (int64_t z = 0; z < z_count; z += TDM_GEMM_MAX_Z)
            TDM_TRY(
                launch_reduce(r, z, z_count - z < TDM_GEMM_MAX_Z ? z_count - z : TDM_GEMM_MAX_Z));
    return TDM_OK;
}

tdm_status tdm_gemm_plan_run(const tdm_gemm_plan *plan, tdm_stream *stream,
                             const tdm_gemm_args *args) {
    tdm_gemm_args room;
    if (args) {
        args = tdm_struct_read("gemm", "args", args, sizeof room, &room);
        if (!args)
            return TDM_BAD_ARGUMENT;
    }
    TDM_TRY(check_run(plan, stream, args));
    return tdm_gemm_run_checked(plan, stream, args);
}

/* True if an operand begins at an address that a tensor map accepts. All batch entries then have
 * this alignment too. */
static bool begins_aligned(const tdm_tensor *tensor) {
    const tdm_arg arg = tdm_arg_tensor(tensor);
    return arg.value.buffer.offset * tdm_dtype_info(tensor->layout.dtype)->unit_bytes %
               TDM_GEMM_TENSOR_MAP_ALIGNMENT ==
           0;
}

tdm_status tdm_gemm_run_checked(const tdm_gemm_plan *plan, tdm_stream *stream,
                                const tdm_gemm_args *args) {
    run r = {.plan = plan, .stream = stream, .args = args, .packed_b_from = -1};
    if (plan->desc.alpha == 0.0f)
        return join_parts(&r);
    if (plan->stages.inner)
        return tdm_gemm_run_stages(plan, stream, args);
    if (plan->unaligned && !(begins_aligned(args->a) && (!args->b || begins_aligned(args->b))))
        return tdm_gemm_run_checked(plan->unaligned, stream, args);
    const int64_t outer_count = tdm_gemm_outer_count(&plan->problem);
    for (r.outer = 0; r.outer < outer_count; r.outer++)
        TDM_TRY(launch_outer(&r));
    return plan->split.parts ? join_parts(&r) : TDM_OK;
}
