/* These functions quantize dynamically. They derive the parameters of each block from the block
 * itself, and then its quantized values. */
#include "api/device/memory/memory_pool.h"
#include "api/quantize/quantize_loop.h"

static const char operation[] = "quantize_minmax";

/* These are the parameters of the quantize_dynamic variants. */
enum {
    P_STORAGE = 0,
    P_WIDTH,
    P_FORM
};
enum {
    FORM_ROWS = 1,
    FORM_COLUMNS = 2,
    FORM_GROUP = 3
};
/* These are the operands of the dimension lists. */
enum {
    IN_Y,
    IN_X,
    IN_SCALE,
    IN_ZERO,
    OPERANDS
};
enum {
    WIDEST_GROUP = 256,
    SHORTEST_SHARED_GROUP = 64, /* least elements of a group that a work-group shares */
    SHARED_VECTORS = 16,        /* least vectors of such a group, with vector kernels */
    MIN_ITEMS = 32,             /* work-items of a work-group that shares vectors, at least */
    /* largest tensor that is one group; three launches would cost more */
    ONE_ITEM_ELEMENTS = 16384,
    RANGE_ELEMENTS = 8192, /* least elements of a work-item */
    MAX_RANGES = 4096,
    RANGE_GROUPS = 8, /* work-groups per compute unit, which holds that many of the largest */
    RANGE_CELLS = 4   /* vectors per work-item at a time, in quantize_range_group.cl */
};

/* This is a set of groups along one dimension. Each has `count` elements. */
typedef struct dynamic_problem {
    tdm_stream *stream;
    const tdm_tensor *target, *source;
    int64_t offset[OPERANDS];
    int64_t count;
    int64_t step[OPERANDS]; /* stride along the group, in y and x */
    tdm_dim_list outer;     /* other dimensions, including the one over groups */
    tdm_quant_arg arg;
    bool preferences;
} dynamic_problem;

/* ---- choice of the kernel -------------------------------------------------------------------- */

static int64_t last_size(const tdm_dim_list *list) {
    return list->rank == 0 ? 1 : list->shape[list->rank - 1];
}

static int64_t last_stride(const tdm_dim_list *list, int operand) {
    return list->rank == 0 ? 0 : list->strides[operand][list->rank - 1];
}

static const char *refuse_by_preference(const dynamic_problem *p, int form, int width,
                                        const tdm_device *device) {
    const bool cores = (device->info.capabilities & TDM_CAP_CPU_CORES) != 0;
    const int shortest = width == 1 ? SHORTEST_SHARED_GROUP : SHARED_VECTORS * width;
    if (form == FORM_GROUP && (cores || p->count < shortest))
        return "the variant is for long groups and not for CPU cores";
    if (form == FORM_COLUMNS && last_size(&p->outer) < width)
        return "there are fewer columns than vector lanes";
    if (form == FORM_ROWS && p->count < width)
        return "the groups are shorter than the variant's vector";
    return NULL;
}

/* True if neighbouring groups share bytes. Two work-items must not write the same byte. */
static bool groups_share_bytes(const dynamic_problem *p) {
    return p->target->layout.dtype == TDM_S4 && last_stride(&p->outer, IN_Y) == 1;
}

static const char *refuse_groups(const dynamic_problem *p, int form, int width) {
    if (form != FORM_COLUMNS && groups_share_bytes(p))
        return "neighbouring groups share a byte of s4";
    if (form == FORM_COLUMNS && last_stride(&p->outer, IN_Y) != 1)
        return "no dimension other than the group's is contiguous in the target";
    if (form != FORM_COLUMNS && width > 1 && (p->step[IN_X] != 1 || p->step[IN_Y] != 1))
        return "the groups are not contiguous";
    return NULL;
}

/*
 * Returns twice the iterations of a work-item's loops, because tdm_refuse_long_loop assumes two
 * elements per iteration. A work-item reads its elements twice, one vector at a time. With few
 * columns, each lane is read separately. A work-group shares a group among at least 32 work-items.
 */
static int64_t loop_elements(const dynamic_problem *p, int form, int width) {
    return form == FORM_COLUMNS ? 32 * p->count : 4 * p->count / (form == FORM_GROUP ? 32 : width);
}

static const char *dynamic_supports(const void *given, const tdm_variant *variant,
                                    const tdm_device *device, char reason[TDM_REASON_TEXT]) {
    const dynamic_problem *const p = given;
    const int form = variant->parameters[P_FORM], width = variant->parameters[P_WIDTH];
    if (variant->parameters[P_STORAGE] != (int)p->source->layout.dtype)
        return "the variant is for another storage type";
    const char *const refusal = refuse_groups(p, form, width);
    if (refusal)
        return refusal;
    const char *const too_long =
        tdm_refuse_long_loop(device, loop_elements(p, form, width), reason);
    if (too_long)
        return too_long;
    return p->preferences ? refuse_by_preference(p, form, width, device) : NULL;
}

static tdm_status select_kernel(dynamic_problem *p, tdm_kernel **kernel) {
    const tdm_variant *variant;
    TDM_TRY(tdm_select_preferred(p->stream->device, TDM_OP_QUANTIZE_DYNAMIC, operation,
                                 dynamic_supports, p, &p->preferences, &variant));
    return tdm_stream_kernel(p->stream, operation, variant, kernel);
}

/* ---- groups, in one launch ------------------------------------------------------------------- */

static const tdm_tensor *zero_or_scale(const tdm_tensor *target) {
    return target->zero_point ? target->zero_point : target->scale;
}

static int64_t at_most(int64_t value, int64_t bound) {
    return value < bound ? value : bound;
}

enum {
    MAX_GROUPS_Y = 65535
};

/* Returns the work-items for `cells` vectors, as a power of two. */
static uint32_t items_for(const tdm_device *device, const tdm_kernel *kernel, int64_t cells) {
    uint32_t size = tdm_group_size(device, kernel, WIDEST_GROUP);
    while (size > MIN_ITEMS && size / 2 >= cells)
        size /= 2;
    return size;
}

static void groups_grid(const tdm_device *device, const tdm_kernel *kernel, int64_t rows,
                        int64_t inner, int64_t count, tdm_launch *launch) {
    const int form = kernel->variant->parameters[P_FORM];
    const int width = kernel->variant->parameters[P_WIDTH];
    const int64_t column_groups = tdm_ceil_div(inner, width);
    if (form == FORM_GROUP) {
        tdm_grid_items(device, kernel, 1, 1, launch);
        launch->group[0] = width == 1 ? tdm_group_size(device, kernel, WIDEST_GROUP)
                                      : items_for(device, kernel, tdm_ceil_div(count, width));
        launch->groups[0] = (uint32_t)at_most(rows, INT32_MAX);
        return;
    }
    tdm_grid_items(device, kernel, form == FORM_COLUMNS ? column_groups : 1,
                   form == FORM_COLUMNS ? WIDEST_GROUP : 1, launch);
    if (device->info.capabilities & TDM_CAP_CPU_CORES) {
        // Each worker gets whole rows, if there are enough rows.
        const int64_t workers = tdm_worker_count(device, rows * column_groups, 1);
        launch->groups[1] = (uint32_t)at_most(rows, workers);
        launch->groups[0] = (uint32_t)at_most(launch->groups[0], tdm_ceil_div(workers, rows));
        return;
    }
    const uint32_t size = tdm_group_size(device, kernel, WIDEST_GROUP);
    while (launch->group[0] * launch->group[1] < size && launch->group[1] < rows &&
           launch->group[1] * 2 <= device->info.max_group[1])
        launch->group[1] *= 2;
    launch->groups[1] = (uint32_t)at_most(tdm_ceil_div(rows, launch->group[1]), MAX_GROUPS_Y);
}

static tdm_status enqueue_groups(dynamic_problem *p) {
    tdm_kernel *kernel;
    TDM_TRY(select_kernel(p, &kernel));
    tdm_dim_list outer = p->outer;
    int64_t inner = 1, column[TDM_LOOP_OPERANDS] = {0};
    if (kernel->variant->parameters[P_FORM] == FORM_COLUMNS)
        inner = tdm_dim_list_pop(&outer, column);
    const int64_t rows = tdm_dim_list_elements(&outer);
    const tdm_loop_dims shape = tdm_dim_list_shape(&outer);
    tdm_loop_dims strides[OPERANDS];
    for (int o = 0; o < OPERANDS; o++)
        strides[o] = tdm_dim_list_strides(&outer, o);
    const tdm_arg args[] = {tdm_arg_elements(p->source, p->offset[IN_X]),
                            tdm_arg_elements(p->target->scale, p->offset[IN_SCALE]),
                            tdm_arg_elements(zero_or_scale(p->target), p->offset[IN_ZERO]),
                            tdm_arg_elements(p->target, p->offset[IN_Y]),
                            tdm_arg_blob(&shape, sizeof shape),
                            tdm_arg_blob(&strides[IN_X], sizeof shape),
                            tdm_arg_blob(&strides[IN_SCALE], sizeof shape),
                            tdm_arg_blob(&strides[IN_ZERO], sizeof shape),
                            tdm_arg_blob(&strides[IN_Y], sizeof shape),
                            tdm_arg_s32(outer.rank),
                            tdm_arg_s64(rows),
                            tdm_arg_s64(inner),
                            tdm_arg_s64(p->count),
                            tdm_arg_s64(p->step[IN_X]),
                            tdm_arg_s64(p->step[IN_Y]),
                            tdm_arg_s64(column[IN_X]),
                            tdm_arg_s64(column[IN_SCALE]),
                            tdm_arg_s64(column[IN_ZERO]),
                            tdm_arg_blob(&p->arg, sizeof p->arg)};
    tdm_launch launch = {.args = args, .arg_count = sizeof args / sizeof args[0]};
    groups_grid(p->stream->device, kernel, rows, inner, p->count, &launch);
    return tdm_enqueue_launch(p->stream, operation, kernel, &launch);
}

/* ---- the groups of a block ------------------------------------------------------------------- */

/* Returns the elements of dimension `axis` that share parameters. */
static int64_t group_size(const tdm_tensor *target, int axis) {
    const int64_t size = target->layout.shape[axis], block = target->block[axis];
    return block == 0 || block > size ? size : block;
}

static void strides_of(const dynamic_problem *p, int dimension, int64_t strides[OPERANDS]) {
    strides[IN_Y] = p->target->layout.strides[dimension];
    strides[IN_X] = p->source->layout.strides[dimension];
    strides[IN_SCALE] = p->target->scale->layout.strides[dimension];
    strides[IN_ZERO] = zero_or_scale(p->target)->layout.strides[dimension];
}

/* Runs groups first … first + groups - 1 of dimension `axis`, of `count` elements each. With axis
 * -1, each element is a group. */
static tdm_status run_groups(const dynamic_problem *base, int axis, int64_t first, int64_t groups,
                             int64_t count) {
    dynamic_problem p = *base;
    p.outer = (tdm_dim_list){.operands = OPERANDS};
    p.count = count;
    p.step[IN_X] = p.step[IN_Y] = 1;
    for (int d = 0; d < p.target->layout.rank; d++) {
        int64_t strides[TDM_LOOP_OPERANDS] = {0};
        strides_of(&p, d, strides);
        if (d != axis) {
            tdm_dim_list_add(&p.outer, p.target->layout.shape[d], strides);
            continue;
        }
        const int64_t size = group_size(p.target, axis);
        // The stride of a group of one element has no meaning. With a stride of 1, every form is
        // possible.
        p.step[IN_X] = count == 1 ? 1 : strides[IN_X];
        p.step[IN_Y] = count == 1 ? 1 : strides[IN_Y];
        strides[IN_X] *= size;
        strides[IN_Y] *= size;
        for (int o = 0; o < OPERANDS; o++)
            p.offset[o] = first * strides[o];
        tdm_dim_list_add(&p.outer, groups, strides);
    }
    tdm_dim_list_sort(&p.outer, IN_Y);
    tdm_dim_list_merge(&p.outer);
    return enqueue_groups(&p);
}

static tdm_status run_axis(const dynamic_problem *p, int axis) {
    if (axis < 0)
        return run_groups(p, axis, 0, 1, 1);
    const int64_t elements = p->target->layout.shape[axis], size = group_size(p->target, axis);
    TDM_TRY(run_groups(p, axis, 0, elements / size, size));
    return elements % size == 0 ? TDM_OK : run_groups(p, axis, elements / size, 1, elements % size);
}

/* ---- whole tensors --------------------------------------------------------------------------- */

/* Sets the work-groups of the first launch if their work-items share a piece of a row. Each group
 * writes one range. */
static void range_groups(const tdm_device *device, const tdm_kernel *kernel, const tdm_loop *loop,
                         tdm_launch *launch, int64_t *span) {
    const int width = kernel->variant->parameters[P_WIDTH];
    const int64_t cells = tdm_ceil_div(loop->inner, width);
    const int64_t held = at_most(RANGE_GROUPS * (int64_t)device->info.compute_units, MAX_RANGES);
    tdm_grid_items(device, kernel, 1, 1, launch);
    launch->group[0] = items_for(device, kernel, cells);
    const int64_t pass = launch->group[0] * RANGE_CELLS, strips = tdm_ceil_div(cells, pass);
    const int64_t high = at_most(loop->rows, held);
    const int64_t across = at_most(strips, tdm_ceil_div(held, high));
    *span = tdm_ceil_div(cells, across) * width;
    launch->groups[0] = (uint32_t)tdm_ceil_div(loop->inner, *span);
    launch->groups[1] = (uint32_t)high;
}

/* Sets the work-items of the first launch. Each writes one range. */
static void range_grid(const dynamic_problem *p, const tdm_kernel *kernel, const tdm_loop *loop,
                       tdm_launch *launch, int64_t *span) {
    const tdm_device *const device = p->stream->device;
    const int width = kernel->variant->parameters[P_WIDTH];
    const bool cores = (device->info.capabilities & TDM_CAP_CPU_CORES) != 0;
    if (kernel->variant->parameters[P_FORM] == FORM_GROUP) {
        range_groups(device, kernel, loop, launch, span);
        return;
    }
    const int64_t elements = loop->rows * loop->inner;
    const int64_t wanted = cores ? tdm_worker_count(device, elements, RANGE_ELEMENTS)
                                 : at_most(tdm_ceil_div(elements, 64), MAX_RANGES);
    const int64_t high = at_most(loop->rows, wanted);
    *span = tdm_ceil_div(tdm_ceil_div(loop->inner, tdm_ceil_div(wanted, high)), width) * width;
    tdm_grid_items(device, kernel, 1, 1, launch);
    launch->groups[0] = (uint32_t)tdm_ceil_div(loop->inner, *span);
    launch->groups[1] = (uint32_t)high;
}

static tdm_status enqueue_ranges(const dynamic_problem *p, const tdm_loop *loop, tdm_block **ranges,
                                 int64_t *count) {
    tdm_kernel *kernel;
    TDM_TRY(tdm_loop_kernel(p->stream, TDM_OP_QUANTIZE_RANGE, operation,
                            (int)p->source->layout.dtype, loop, &kernel));
    int64_t span;
    tdm_launch launch = {0};
    range_grid(p, kernel, loop, &launch, &span);
    *count = (int64_t)launch.groups[0] * launch.groups[1];
    TDM_TRY(tdm_device_alloc(p->stream->device, tdm_memory_pool_current(p->stream->device),
                             (size_t)*count * 2 * sizeof(float), p->stream->id, ranges));
    const tdm_arg args[] = {tdm_arg_tensor(p->source),
                            tdm_arg_block(*ranges, 0, sizeof(float)),
                            tdm_arg_blob(&loop->shape, sizeof loop->shape),
                            tdm_arg_blob(&loop->strides[1], sizeof loop->strides[1]),
                            tdm_arg_s32(loop->rank),
                            tdm_arg_s64(loop->rows),
                            tdm_arg_s64(loop->inner),
                            tdm_arg_s64(loop->step[1]),
                            tdm_arg_s64(span)};
    launch.args = args;
    launch.arg_count = sizeof args / sizeof args[0];
    return tdm_enqueue_launch(p->stream, operation, kernel, &launch);
}

static const char *joins_all(const void *given, const tdm_variant *variant,
                             const tdm_device *device, char reason[TDM_REASON_TEXT]) {
    (void)given;
    (void)variant;
    (void)device;
    (void)reason;
    return NULL;
}

static tdm_status enqueue_join(const dynamic_problem *p, tdm_block *ranges, int64_t count) {
    const tdm_variant *variant;
    tdm_kernel *kernel;
    TDM_TRY(tdm_select_variant(p->stream->device, TDM_OP_QUANTIZE_JOIN, operation, NULL, joins_all,
                               NULL, NULL, 0, &variant));
    TDM_TRY(tdm_stream_kernel(p->stream, operation, variant, &kernel));
    const tdm_arg args[] = {tdm_arg_block(ranges, 0, sizeof(float)),
                            tdm_arg_tensor(p->target->scale),
                            tdm_arg_tensor(zero_or_scale(p->target)), tdm_arg_s64(count),
                            tdm_arg_blob(&p->arg, sizeof p->arg)};
    tdm_launch launch = {.args = args, .arg_count = sizeof args / sizeof args[0]};
    tdm_grid_items(p->stream->device, kernel, 1, 1, &launch);
    if (variant->parameters[P_FORM] == FORM_GROUP)
        launch.group[0] = items_for(p->stream->device, kernel, count);
    return tdm_enqueue_launch(p->stream, operation, kernel, &launch);
}

/* Makes the call that quantizes with the parameters, after they were computed. */
static tdm_quant_call codes_call(const dynamic_problem *p) {
    tdm_quant_call call = {.stream = p->stream,
                           .operation = operation,
                           .op = TDM_OP_QUANTIZE,
                           .storage = (int)p->source->layout.dtype,
                           .operands = 2,
                           .operand = {{p->target, NULL}, {p->source, NULL}},
                           .arg = p->arg};
    tdm_quant_add_parameters(&call, p->target);
    return call;
}

static tdm_status run_tensor(const dynamic_problem *p) {
    TDM_TRY(tdm_refuse_recording(p->stream, operation));
    tdm_loop loop;
    tdm_block *ranges = NULL;
    int64_t count;
    tdm_loop_make(&loop, &p->source->layout, (const tdm_layout *const[]){&p->source->layout}, 1);
    tdm_status status = enqueue_ranges(p, &loop, &ranges, &count);
    if (status == TDM_OK)
        status = enqueue_join(p, ranges, count);
    const tdm_quant_call codes = codes_call(p);
    if (status == TDM_OK)
        status = tdm_quant_run(&codes);
    if (ranges)
        tdm_block_release(ranges);
    return status;
}

/* ---- the call -------------------------------------------------------------------------------- */

/* True if zero points of the first dtype can hold every quantized value of the second. */
static bool holds_codes(tdm_dtype zero, tdm_dtype codes) {
    return zero == TDM_S32 || zero == codes || (zero == TDM_S8 && codes == TDM_S4);
}

static tdm_status check_parameter(const char *name, const tdm_tensor *parameter,
                                  const tdm_tensor *source, const tdm_tensor *target) {
    if (tdm_layout_self_overlaps(&parameter->layout))
        return tdm_fail(TDM_BAD_ARGUMENT, "%s: elements of %s overlap in memory", operation, name);
    TDM_TRY(tdm_check_overlap(operation, name, parameter, "source", source, false));
    return tdm_check_overlap(operation, name, parameter, "target", target, false);
}

static tdm_status check_parameters(const tdm_tensor *target, const tdm_tensor *source) {
    const tdm_tensor *const zero = target->zero_point;
    TDM_TRY(check_parameter("target's scale", target->scale, source, target));
    if (!zero && target->layout.dtype == TDM_U8)
        return tdm_fail(TDM_UNSUPPORTED, "%s: target is u8 without zero points", operation);
    if (!zero)
        return TDM_OK;
    if (!holds_codes(zero->layout.dtype, target->layout.dtype))
        return tdm_fail(TDM_UNSUPPORTED, "%s: zero points of type %s cannot hold every value of %s",
                        operation, tdm_dtype_name(zero->layout.dtype),
                        tdm_dtype_name(target->layout.dtype));
    TDM_TRY(check_parameter("target's zero_point", zero, source, target));
    return tdm_check_overlap(operation, "target's zero_point", zero, "target's scale",
                             target->scale, false);
}

/* Finds the dimension along which elements share parameters, or -1. Fails if there are several such
 * dimensions, unless a block is the whole tensor. */
static tdm_status find_axis(const tdm_tensor *target, int *axis, bool *whole) {
    int shared = 0;
    *axis = -1;
    *whole = true;
    for (int d = 0; d < target->layout.rank; d++) {
        *whole = *whole && group_size(target, d) == target->layout.shape[d];
        if (group_size(target, d) == 1)
            continue;
        shared++;
        *axis = d;
    }
    if (shared <= 1 || *whole)
        return TDM_OK;
    return tdm_fail(
        TDM_UNSUPPORTED,
        "%s: blocks span %d dimensions of target, must span one dimension or the whole tensor",
        operation, shared);
}

static tdm_status enqueue_dynamic(const dynamic_problem *p) {
    int axis;
    bool whole;
    const tdm_layout *const layout = &p->target->layout;
    TDM_TRY(find_axis(p->target, &axis, &whole));
    const int64_t elements = tdm_layout_elements(layout);
    const bool one_dimension = axis < 0 || layout->shape[axis] == elements;
    const bool small = elements <= ONE_ITEM_ELEMENTS || tdm_stream_is_recording(p->stream);
    const bool one_launch = small || tdm_forced_variant(TDM_OP_QUANTIZE_DYNAMIC);
    if (whole && !(one_dimension && one_launch))
        return run_tensor(p);
    const tdm_quant_call codes = codes_call(p);
    if (axis >= 0 && group_size(p->target, axis) == layout->shape[axis] &&
        !tdm_forced_variant(TDM_OP_QUANTIZE_DYNAMIC) && tdm_quant_columns_pay(&codes, axis))
        return tdm_quant_run_columns(&codes, axis);
    return run_axis(p, axis);
}

/* Fills the parameters of blocks without elements like those of a block of zeros. */
static tdm_status fill_parameters(tdm_stream *stream, const tdm_tensor *target) {
    TDM_TRY(tdm_tensor_fill(stream, 0.0, target->scale));
    return target->zero_point ? tdm_tensor_fill(stream, 0.0, target->zero_point) : TDM_OK;
}

tdm_status tdm_tensor_quantize_minmax(tdm_stream *stream, const tdm_tensor *source,
                                      tdm_tensor *target) {
    static const tdm_dtype codes[] = {TDM_S8, TDM_U8, TDM_S4, TDM_DTYPE_NONE};
    TDM_TRY(tdm_check_output(operation, "target", stream, target));
    TDM_TRY(tdm_check_tensor(operation, "source", stream, source));
    TDM_TRY(tdm_quant_check_shape(operation, source, "target", target));
    TDM_TRY(tdm_quant_check_carrier(operation, "target", target, codes));
    TDM_TRY(tdm_quant_check_real(operation, "source", source));
    TDM_TRY(tdm_quant_check_overlap(operation, target, source, target, false));
    TDM_TRY(tdm_quant_check_packing(operation, target, target->block));
    TDM_TRY(check_parameters(target, source));
    if (tdm_layout_elements(&target->layout) == 0)
        return fill_parameters(stream, target);
    dynamic_problem p = {.stream = stream, .target = target, .source = source};
    p.arg.target_type = (int)target->layout.dtype;
    p.arg.target = tdm_quant_side_of(target);
    p.arg.streams = tdm_quant_streams(target, source);
    if (!target->zero_point)
        p.arg.target.low = -p.arg.target.high;
    return enqueue_dynamic(&p);
}
