/* These functions quantize the columns of a large matrix dynamically on CPU cores. They find ranges
 * row by row, then the parameters, then the quantized values. */
#include "api/device/memory/memory_pool.h"
#include "api/quantize/quantize_loop.h"

static const char operation[] = "quantize_minmax";

enum {
    IN_Y,
    IN_X,
    IN_SCALE,
    IN_ZERO,
    OPERANDS
};
enum {
    SHORTEST_COLUMN = 64, /* shorter columns are read fast enough one by one */
    ROWS_OF_ITEM = 32,    /* least rows of a work-item, which writes two numbers per column */
    MIN_ELEMENTS = 1 << 16
};

typedef struct matrix {
    const tdm_quant_call *call;
    int64_t rows, columns;
    int64_t row[TDM_LOOP_OPERANDS], column[TDM_LOOP_OPERANDS]; /* strides */
} matrix;

/* True if the dimensions other than `axis` merge into one that is contiguous in source and
 * target. */
static bool as_matrix(const tdm_quant_call *call, int axis, matrix *m) {
    const tdm_layout *const layout = &call->operand[IN_Y].tensor->layout;
    tdm_dim_list others = {.operands = OPERANDS};
    *m = (matrix){.call = call, .rows = layout->shape[axis]};
    for (int d = 0; d < layout->rank; d++) {
        int64_t strides[TDM_LOOP_OPERANDS] = {0};
        for (int o = 0; o < OPERANDS; o++)
            strides[o] = call->operand[o].tensor->layout.strides[d];
        if (d != axis)
            tdm_dim_list_add(&others, layout->shape[d], strides);
        else
            for (int o = 0; o <= IN_X; o++)
                m->row[o] = strides[o];
    }
    tdm_dim_list_sort(&others, IN_Y);
    tdm_dim_list_merge(&others);
    if (others.rank != 1 || others.strides[IN_Y][0] != 1 || others.strides[IN_X][0] != 1)
        return false;
    m->columns = tdm_dim_list_pop(&others, m->column);
    return true;
}

bool tdm_quant_columns_pay(const tdm_quant_call *call, int axis) {
    matrix m;
    const uint32_t needed = TDM_CAP_CPU_CORES | TDM_CAP_UNLIMITED_LOOPS;
    return (call->stream->device->info.capabilities & needed) == needed &&
           !tdm_stream_is_recording(call->stream) && as_matrix(call, axis, &m) &&
           m.rows >= SHORTEST_COLUMN && m.rows * m.columns >= MIN_ELEMENTS;
}

static const char *range_supports(const void *given, const tdm_variant *variant,
                                  const tdm_device *device, char reason[TDM_REASON_TEXT]) {
    (void)device;
    (void)reason;
    const matrix *const m = given;
    return variant->parameters[0] == m->call->storage ? NULL
                                                      : "the variant is for another storage type";
}

static tdm_status enqueue_ranges(const matrix *m, int64_t parts, tdm_block *ranges) {
    tdm_stream *const stream = m->call->stream;
    const tdm_variant *variant;
    tdm_kernel *kernel;
    TDM_TRY(tdm_select_variant(stream->device, TDM_OP_QUANTIZE_RANGE_COLUMNS, operation, NULL,
                               range_supports, m, NULL, 0, &variant));
    TDM_TRY(tdm_stream_kernel(stream, operation, variant, &kernel));
    const tdm_arg args[] = {tdm_arg_elements(m->call->operand[IN_X].tensor, 0),
                            tdm_arg_block(ranges, 0, sizeof(float)), tdm_arg_s64(m->rows),
                            tdm_arg_s64(m->columns), tdm_arg_s64(m->row[IN_X])};
    tdm_launch launch = {.args = args, .arg_count = sizeof args / sizeof args[0]};
    tdm_grid_items(stream->device, kernel, 1, 1, &launch);
    launch.groups[1] = (uint32_t)parts;
    return tdm_enqueue_launch(stream, operation, kernel, &launch);
}

static tdm_status enqueue_join(const matrix *m, int64_t parts, tdm_block *ranges) {
    tdm_stream *const stream = m->call->stream;
    const tdm_quant_operand *const operand = m->call->operand;
    const tdm_variant *const variant = tdm_variant_find("quantize_join_columns_x16");
    tdm_kernel *kernel;
    TDM_TRY(tdm_stream_kernel(stream, operation, variant, &kernel));
    const tdm_arg args[] = {tdm_arg_block(ranges, 0, sizeof(float)),
                            tdm_arg_elements(operand[IN_SCALE].tensor, 0),
                            tdm_arg_elements(operand[IN_ZERO].tensor, 0),
                            tdm_arg_s64(parts),
                            tdm_arg_s64(m->columns),
                            tdm_arg_s64(m->column[IN_SCALE]),
                            tdm_arg_s64(m->column[IN_ZERO]),
                            tdm_arg_blob(&m->call->arg, sizeof m->call->arg)};
    tdm_launch launch = {.args = args, .arg_count = sizeof args / sizeof args[0]};
    tdm_grid_items(stream->device, kernel, tdm_ceil_div(m->columns, variant->parameters[1]), 1,
                   &launch);
    return tdm_enqueue_launch(stream, operation, kernel, &launch);
}

static tdm_status enqueue_codes(const matrix *m) {
    tdm_dim_list list = {.operands = OPERANDS};
    const int64_t offset[TDM_LOOP_OPERANDS] = {0};
    tdm_dim_list_add(&list, m->rows, m->row);
    tdm_dim_list_add(&list, m->columns, m->column);
    return tdm_quant_run_list(m->call, &list, offset);
}

static tdm_status run_matrix(const matrix *m, int64_t parts, tdm_block *ranges) {
    TDM_TRY(enqueue_ranges(m, parts, ranges));
    TDM_TRY(enqueue_join(m, parts, ranges));
    return enqueue_codes(m);
}

tdm_status tdm_quant_run_columns(const tdm_quant_call *call, int axis) {
    matrix m;
    if (!as_matrix(call, axis, &m))
        return tdm_fail(TDM_INTERNAL, "%s: the columns do not form a matrix", operation);
    const int64_t parts = tdm_worker_count(call->stream->device, m.rows, ROWS_OF_ITEM);
    tdm_block *ranges;
    tdm_device *const device = call->stream->device;
    TDM_TRY(tdm_device_alloc(device, tdm_memory_pool_current(device),
                             (size_t)(parts * m.columns) * 2 * sizeof(float), call->stream->id,
                             &ranges));
    const tdm_status status = run_matrix(&m, parts, ranges);
    tdm_block_release(ranges);
    return status;
}
