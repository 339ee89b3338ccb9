/* These functions choose kernels and grids for operations that traverse rows along one axis. */
#include "api/ops/scan_rows.h"

enum {
    P_STORAGE = 0
};
enum {
    WIDEST_GROUP = 256
};

tdm_status tdm_scan_check_axis(const char *operation, const tdm_tensor *x, int axis) {
    if (axis >= 0 && axis < x->layout.rank)
        return TDM_OK;
    return tdm_fail(TDM_BAD_ARGUMENT, "%s: axis %d is outside the rank of x, %d", operation, axis,
                    x->layout.rank);
}

void tdm_scan_rows_make(scan_rows *rows, const char *operation, const tdm_tensor *const *operands,
                        int count, int axis) {
    const tdm_layout *const x = &operands[0]->layout;
    tdm_dim_list outer = {.operands = count};
    *rows = (scan_rows){.operation = operation, .storage = (int)x->dtype, .count = x->shape[axis]};
    for (int d = 0; d < x->rank; d++) {
        int64_t strides[TDM_LOOP_OPERANDS] = {0};
        for (int i = 0; i < count; i++)
            strides[i] = operands[i]->layout.strides[d];
        if (d != axis)
            tdm_dim_list_add(&outer, x->shape[d], strides);
    }
    tdm_dim_list_merge(&outer);
    rows->shape = tdm_dim_list_shape(&outer);
    rows->rank = outer.rank;
    rows->rows = tdm_dim_list_elements(&outer);
    for (int i = 0; i < count; i++) {
        rows->step[i] = operands[i]->layout.strides[axis];
        rows->strides[i] = tdm_dim_list_strides(&outer, i);
    }
}

/* A CPU core runs work-items one after another, so a group has one, unless its loops would be too
 * long for the device. */
static uint32_t widest_group(const tdm_device *device) {
    const unsigned lone = TDM_CAP_CPU_CORES | TDM_CAP_UNLIMITED_LOOPS;
    return (device->info.capabilities & lone) == lone ? 1 : WIDEST_GROUP;
}

/* An iteration of these kernels processes one element, and TDM_SHORT_LOOP_ELEMENTS counts two. */
static const char *scan_supports(const void *given, const tdm_variant *variant,
                                 const tdm_device *device, char reason[TDM_REASON_TEXT]) {
    const scan_rows *const rows = given;
    const int64_t most = (int64_t)device->info.max_group[0];
    if (variant->parameters[P_STORAGE] != rows->storage)
        return "the variant is for another storage type";
    return tdm_refuse_long_loop(
        device, 2 * rows->iterations / (most < WIDEST_GROUP ? most : WIDEST_GROUP), reason);
}

tdm_status tdm_scan_rows_enqueue(tdm_stream *stream, const scan_rows *rows, tdm_op op,
                                 const tdm_arg *args, int arg_count) {
    const tdm_variant *variant;
    tdm_kernel *kernel;
    TDM_TRY(tdm_select_variant(stream->device, op, rows->operation, NULL, scan_supports, rows, NULL,
                               0, &variant));
    TDM_TRY(tdm_stream_kernel(stream, rows->operation, variant, &kernel));
    tdm_launch launch = {.args = args, .arg_count = arg_count};
    tdm_grid_items(stream->device, kernel, 1, 1, &launch);
    const uint32_t most = tdm_group_size(stream->device, kernel, widest_group(stream->device));
    launch.group[0] = 1;
    while (launch.group[0] < most && (int64_t)launch.group[0] < rows->count)
        launch.group[0] *= 2;
    launch.groups[0] = (uint32_t)(rows->rows < INT32_MAX ? rows->rows : INT32_MAX);
    return tdm_enqueue_launch(stream, rows->operation, kernel, &launch);
}
