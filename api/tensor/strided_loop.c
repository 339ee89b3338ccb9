/* Sorts, merges and splits dimensions, and selects kernels and grids for elementwise loops. */
#include "api/tensor/strided_loop.h"

#include <string.h>

#include "kernels/dialect/op_codes.h"

/* These are the parameters of the variants of unary, binary, convert, copy and fill. */
enum {
    P_STORAGE = 0,
    P_WIDTH = 1
};

/* ---- dimension lists ------------------------------------------------------------------------- */

void tdm_dim_list_add(tdm_dim_list *list, int64_t size, const int64_t strides[TDM_LOOP_OPERANDS]) {
    if (size == 1)
        return;
    list->shape[list->rank] = size;
    for (int o = 0; o < list->operands; o++)
        list->strides[o][list->rank] = strides[o];
    list->rank++;
}

static void swap(int64_t *a, int64_t *b) {
    const int64_t kept = *a;
    *a = *b;
    *b = kept;
}

/* This is an insertion sort, so that dimensions of equal stride keep their order. */
void tdm_dim_list_sort(tdm_dim_list *list, int by) {
    for (int i = 1; i < list->rank; i++)
        for (int j = i; j > 0 && list->strides[by][j - 1] < list->strides[by][j]; j--) {
            swap(&list->shape[j - 1], &list->shape[j]);
            for (int o = 0; o < list->operands; o++)
                swap(&list->strides[o][j - 1], &list->strides[o][j]);
        }
}

/* Returns true if every operand can traverse dimensions d and d + 1 as one dimension. */
static bool mergeable(const tdm_dim_list *list, int d) {
    for (int o = 0; o < list->operands; o++) {
        int64_t whole;
        if (tdm_mul_overflows(list->strides[o][d + 1], list->shape[d + 1], &whole) ||
            list->strides[o][d] != whole)
            return false;
    }
    return true;
}

void tdm_dim_list_merge(tdm_dim_list *list) {
    int last = 0;
    for (int d = 1; d < list->rank; d++) {
        // Dimension d is moved to last + 1, next to the dimension that it may be merged with.
        list->shape[last + 1] = list->shape[d];
        for (int o = 0; o < list->operands; o++)
            list->strides[o][last + 1] = list->strides[o][d];
        if (!mergeable(list, last)) {
            last++;
            continue;
        }
        list->shape[last] *= list->shape[last + 1];
        for (int o = 0; o < list->operands; o++)
            list->strides[o][last] = list->strides[o][last + 1];
    }
    if (list->rank > 0)
        list->rank = last + 1;
}

int64_t tdm_dim_list_elements(const tdm_dim_list *list) {
    int64_t elements = 1;
    for (int d = 0; d < list->rank; d++)
        elements *= list->shape[d];
    return elements;
}

int64_t tdm_dim_list_pop(tdm_dim_list *list, int64_t steps[TDM_LOOP_OPERANDS]) {
    const int last = list->rank - 1;
    for (int o = 0; o < TDM_LOOP_OPERANDS; o++)
        steps[o] = last < 0 || o >= list->operands ? 1 : list->strides[o][last];
    if (last < 0)
        return 1;
    list->rank--;
    return list->shape[last];
}

tdm_loop_dims tdm_dim_list_shape(const tdm_dim_list *list) {
    tdm_loop_dims dims;
    for (int d = 0; d < TDM_MAX_RANK; d++)
        dims.v[d] = d < list->rank ? list->shape[d] : 1;
    return dims;
}

tdm_loop_dims tdm_dim_list_strides(const tdm_dim_list *list, int operand) {
    tdm_loop_dims dims;
    for (int d = 0; d < TDM_MAX_RANK; d++)
        dims.v[d] = d < list->rank ? list->strides[operand][d] : 0;
    return dims;
}

/* ---- loops ----------------------------------------------------------------------------------- */

bool tdm_broadcast_strides(const tdm_layout *from, const tdm_layout *to,
                           int64_t strides[TDM_MAX_RANK]) {
    memset(strides, 0, TDM_MAX_RANK * sizeof strides[0]);
    const int missing = to->rank - from->rank;
    if (missing < 0)
        return false;
    for (int d = 0; d < from->rank; d++) {
        if (from->shape[d] == to->shape[missing + d])
            strides[missing + d] = from->strides[d];
        else if (from->shape[d] != 1)
            return false;
    }
    return true;
}

void tdm_loop_make(tdm_loop *loop, const tdm_layout *output, const tdm_layout *const *inputs,
                   int input_count) {
    int64_t traversed[TDM_LOOP_OPERANDS][TDM_MAX_RANK];
    memcpy(traversed[0], output->strides, sizeof traversed[0]);
    for (int i = 0; i < input_count; i++)
        tdm_broadcast_strides(inputs[i], output, traversed[i + 1]);

    tdm_dim_list list = {.operands = input_count + 1};
    for (int d = 0; d < output->rank; d++) {
        int64_t strides[TDM_LOOP_OPERANDS] = {0};
        for (int o = 0; o < list.operands; o++)
            strides[o] = traversed[o][d];
        tdm_dim_list_add(&list, output->shape[d], strides);
    }
    tdm_dim_list_sort(&list, 0);
    tdm_dim_list_merge(&list);
    tdm_loop_of_list(loop, &list);
}

void tdm_loop_of_list(tdm_loop *loop, const tdm_dim_list *list) {
    tdm_dim_list outer = *list;
    *loop = (tdm_loop){.operands = list->operands, .unit = 1};
    loop->inner = tdm_dim_list_pop(&outer, loop->step);
    loop->rank = outer.rank;
    loop->rows = tdm_dim_list_elements(&outer);
    loop->shape = tdm_dim_list_shape(&outer);
    for (int o = 0; o < list->operands; o++)
        loop->strides[o] = tdm_dim_list_strides(&outer, o);
}

/* ---- choice of the kernel -------------------------------------------------------------------- */

typedef struct loop_problem {
    const tdm_loop *loop;
    int storage;
    bool preferences; /* refuses variants that work but do not suit the device or the row length */
} loop_problem;

static const char *refuse_by_preference(const tdm_loop *loop, int width, const tdm_device *device) {
    const bool cores = (device->info.capabilities & TDM_CAP_CPU_CORES) != 0;
    if (width == 4 && cores)
        return "vectors of four are not for CPU cores";
    return loop->inner < width ? "the rows are shorter than the variant's vector" : NULL;
}

static const char *loop_supports(const void *given, const tdm_variant *variant,
                                 const tdm_device *device, char reason[TDM_REASON_TEXT]) {
    (void)reason;
    const loop_problem *const problem = given;
    const int width = variant->parameters[P_WIDTH];
    if (variant->parameters[P_STORAGE] != problem->storage)
        return "the variant is for another storage type";
    if (width > 1 && problem->loop->step[0] != 1)
        return "the output rows are not contiguous";
    if (width > 1 && problem->loop->narrow)
        return "the variant's vectors would begin inside a storage unit";
    for (int o = 1; width > 1 && o < problem->loop->operands; o++)
        if (problem->loop->step[o] > 1)
            return "the rows of an input are not contiguous";
    return width > 1 && problem->preferences ? refuse_by_preference(problem->loop, width, device)
                                             : NULL;
}

static tdm_status select_row(tdm_device *device, tdm_op op, const char *operation, int storage,
                             const tdm_loop *loop, const tdm_variant **variant) {
    loop_problem problem = {.loop = loop, .storage = storage};
    return tdm_select_preferred(device, op, operation, loop_supports, &problem,
                                &problem.preferences, variant);
}

tdm_status tdm_loop_kernel(tdm_stream *stream, tdm_op op, const char *operation, int storage,
                           const tdm_loop *loop, tdm_kernel **kernel) {
    const tdm_variant *variant;
    TDM_TRY(select_row(stream->device, op, operation, storage, loop, &variant));
    return tdm_stream_kernel(stream, operation, variant, kernel);
}

tdm_status tdm_loop_prepare(tdm_device *device, tdm_op op, const char *operation, int storage,
                            const tdm_loop *loop) {
    const tdm_variant *variant;
    tdm_kernel *kernel;
    TDM_TRY(select_row(device, op, operation, storage, loop, &variant));
    return tdm_device_kernel(device, variant, &kernel);
}

/* ---- grids ----------------------------------------------------------------------------------- */

enum {
    WORKERS_PER_CORE = 4,       /* more than one, because some cores are slower or busy */
    ELEMENTS_PER_WORKER = 8192, /* a launch of fewer elements costs more than its work */
    WIDEST_GROUP = 256,
    MAX_GROUPS_Y = 65535,    /* CUDA's limit for y and z */
    CACHE_OF_CORE = 16 << 20 /* most bytes of a shared cache that count per core */
};

static int64_t at_most(int64_t value, int64_t bound) {
    return value < bound ? value : bound;
}

static int64_t at_least(int64_t value, int64_t bound) {
    return value > bound ? value : bound;
}

int64_t tdm_worker_count(const tdm_device *device, int64_t work, int64_t grain) {
    const int64_t cores = at_least(device->info.compute_units, 1);
    return at_least(at_most(work / grain, cores * WORKERS_PER_CORE), 1);
}

uint32_t tdm_group_size(const tdm_device *device, const tdm_kernel *kernel, uint32_t widest) {
    uint32_t size = 1;
    while (size * 2 <= widest && size * 2 <= kernel->limits.max_group_items &&
           size * 2 <= device->info.max_group[0])
        size *= 2;
    return size;
}

double tdm_cache_in_reach(const tdm_device *device) {
    const double reported = (double)device->info.cache_bytes;
    const double cores = (double)CACHE_OF_CORE * (double)at_least(device->info.compute_units, 1);
    const bool shared = (device->info.capabilities & TDM_CAP_CPU_CORES) != 0 && cores < reported;
    return shared ? cores : reported;
}

bool tdm_exceeds_caches(const tdm_device *device, double bytes) {
    return device->info.cache_bytes > 0 && bytes > tdm_cache_in_reach(device);
}

bool tdm_exceed_caches(const tdm_tensor *const *tensors, int count) {
    double bytes = 0;
    for (int i = 0; i < count; i++) {
        const tdm_dtype_traits *const traits = tdm_dtype_info(tensors[i]->layout.dtype);
        bytes += (double)tdm_layout_elements(&tensors[i]->layout) * traits->unit_bytes /
                 traits->elements_per_unit;
    }
    return tdm_exceeds_caches(tensors[0]->buffer->device, bytes);
}

tdm_arg tdm_arg_code(int code, const tdm_tensor *const *tensors, int count) {
    const int past = tdm_exceed_caches(tensors, count) ? TDM_CODE_NONTEMPORAL : 0;
    return tdm_arg_s32((int32_t)(code + past));
}

static void grid_clear(tdm_launch *launch) {
    for (int i = 0; i < 3; i++) {
        launch->groups[i] = 1;
        launch->group[i] = 1;
    }
}

void tdm_grid_items(const tdm_device *device, const tdm_kernel *kernel, int64_t items,
                    uint32_t widest, tdm_launch *launch) {
    grid_clear(launch);
    if (device->info.capabilities & TDM_CAP_CPU_CORES) {
        launch->groups[0] = (uint32_t)tdm_worker_count(device, items, 1);
        return;
    }
    const uint32_t size = tdm_group_size(device, kernel, widest);
    launch->group[0] = size;
    launch->groups[0] = (uint32_t)at_most(tdm_ceil_div(items, size), INT32_MAX);
}

/* Sets a grid of few work-items. Each has a long piece of a row, or many rows. */
static void grid_of_cores(const tdm_device *device, const tdm_loop *loop, int width,
                          tdm_launch *launch, int64_t *span) {
    const int64_t workers = tdm_worker_count(device, loop->rows * loop->inner, ELEMENTS_PER_WORKER);
    const int64_t pieces = tdm_ceil_div(workers, at_most(loop->rows, workers));
    *span = tdm_ceil_div(tdm_ceil_div(loop->inner, pieces), width) * width;
    launch->groups[0] = (uint32_t)tdm_ceil_div(loop->inner, *span);
    launch->groups[1] = (uint32_t)at_most(loop->rows, workers);
}

/* Sets a grid with one vector per work-item. Groups are as wide as the row, and as high as the
 * group size allows. */
static void grid_of_items(const tdm_device *device, const tdm_kernel *kernel, const tdm_loop *loop,
                          int width, tdm_launch *launch, int64_t *span) {
    const uint32_t size = tdm_group_size(device, kernel, WIDEST_GROUP);
    *span = width;
    while (tdm_ceil_div(loop->inner, *span) / size >= INT32_MAX)
        *span *= 2;
    const int64_t items = tdm_ceil_div(loop->inner, *span);
    while (launch->group[0] < size && launch->group[0] < items)
        launch->group[0] *= 2;
    while (launch->group[0] * launch->group[1] < size && launch->group[1] < loop->rows &&
           launch->group[1] * 2 <= device->info.max_group[1])
        launch->group[1] *= 2;
    launch->groups[0] = (uint32_t)tdm_ceil_div(items, launch->group[0]);
    launch->groups[1] = (uint32_t)at_most(tdm_ceil_div(loop->rows, launch->group[1]), MAX_GROUPS_Y);
}

void tdm_loop_grid(const tdm_device *device, const tdm_kernel *kernel, const tdm_loop *loop,
                   tdm_launch *launch, int64_t *span) {
    const int vector = kernel->variant->parameters[P_WIDTH];
    const int width = vector > loop->unit ? vector : loop->unit;
    grid_clear(launch);
    if (device->info.capabilities & TDM_CAP_CPU_CORES)
        grid_of_cores(device, loop, width, launch, span);
    else
        grid_of_items(device, kernel, loop, width, launch, span);
}

tdm_arg tdm_arg_elements(const tdm_tensor *tensor, int64_t offset) {
    tdm_arg arg = tdm_arg_tensor(tensor);
    arg.value.buffer.offset *= tdm_dtype_info(tensor->layout.dtype)->elements_per_unit;
    arg.value.buffer.offset += offset;
    return arg;
}

tdm_status tdm_loop_enqueue(tdm_stream *stream, const char *operation, tdm_kernel *kernel,
                            const tdm_loop *loop, const tdm_arg *buffers, int buffer_count,
                            const tdm_arg *extra) {
    tdm_arg args[TDM_MAX_ARGS];
    int count = 0;
    tdm_launch launch = {.args = args};
    int64_t span;
    tdm_loop_grid(stream->device, kernel, loop, &launch, &span);
    for (int i = 0; i < buffer_count; i++)
        args[count++] = buffers[i];
    args[count++] = tdm_arg_blob(&loop->shape, sizeof loop->shape);
    for (int o = 1; o < loop->operands; o++)
        args[count++] = tdm_arg_blob(&loop->strides[o], sizeof loop->strides[o]);
    args[count++] = tdm_arg_blob(&loop->strides[0], sizeof loop->strides[0]);
    args[count++] = tdm_arg_s32(loop->rank);
    args[count++] = tdm_arg_s64(loop->rows);
    args[count++] = tdm_arg_s64(loop->inner);
    for (int o = 1; o < loop->operands; o++)
        args[count++] = tdm_arg_s64(loop->step[o]);
    args[count++] = tdm_arg_s64(loop->step[0]);
    args[count++] = tdm_arg_s64(span);
    if (extra)
        args[count++] = *extra;
    launch.arg_count = count;
    return tdm_enqueue_launch(stream, operation, kernel, &launch);
}
