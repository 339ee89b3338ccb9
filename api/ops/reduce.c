/* These functions run reductions. Dimensions are divided into kept and reduced ones, and a kernel
 * form is chosen for their shape. Two launches are used if one would not occupy the whole
 * device. */
#include "api/device/memory/memory_pool.h"
#include "api/tensor/strided_loop.h"

/* These are the parameters of the reduce and argmax variants. */
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

enum {
    IN_X = 0, /* operands of the dimension lists */
    IN_Y = 1
};

enum {
    COLUMNS_PER_ITEM = 64, // WIDE·N in reduce_columns.cl
    WIDEST_GROUP = 256,
    ELEMENTS_PER_PART = 16384,   /* smaller parts cost more than they save */
    ENOUGH_ITEMS_PER_UNIT = 256, /* work-items that keep a compute unit busy */
    MAX_PARTS = 1024
};

typedef struct reduce_problem {
    const char *operation;
    tdm_reduction op;
    int storage;          /* dtype of x */
    tdm_dim_list kept;    /* strides in x and y */
    tdm_dim_list reduced; /* strides in x */
    int64_t outputs, count;
    int64_t parts; /* parts that are reduced in parallel and then joined; rows and group forms */
    bool apply_preferences;
} reduce_problem;

static bool gives_index(tdm_reduction op) {
    return op == TDM_REDUCE_ARGMAX || op == TDM_REDUCE_ARGMIN;
}

static const char *reduction_name(tdm_reduction op) {
    switch (op) {
#define NAME(name, value, text, meaning)                                                           \
    case name:                                                                                     \
        return text;
        TDM_REDUCE_LIST(NAME)
#undef NAME
    }
    return NULL;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static tdm_status read_axes(const char *operation, const tdm_tensor *x, const int *axes,
                            int axis_count, bool reduced[TDM_MAX_RANK]) {
    const int rank = x->layout.rank;
    if (axis_count < 0 || (axis_count > 0 && !axes))
        return tdm_fail(TDM_BAD_ARGUMENT, "%s: axis_count is %d but axes is %s", operation,
                        axis_count, axes ? "given" : "NULL");
    for (int d = 0; d < TDM_MAX_RANK; d++)
        reduced[d] = axis_count == 0 && d < rank;
    for (int i = 0; i < axis_count; i++) {
        if (axes[i] < 0 || axes[i] >= rank)
            return tdm_fail(TDM_BAD_ARGUMENT, "%s: axis %d is outside the rank of x, %d", operation,
                            axes[i], rank);
        if (reduced[axes[i]])
            return tdm_fail(TDM_BAD_ARGUMENT, "%s: axis %d is given twice", operation, axes[i]);
        reduced[axes[i]] = true;
    }
    return TDM_OK;
}

static tdm_status check_dtypes(const char *operation, tdm_reduction op, tdm_dtype x, tdm_dtype y) {
    if (x != TDM_F32 && x != TDM_F16 && x != TDM_BF16 && x != TDM_S32)
        return tdm_fail(TDM_UNSUPPORTED, "%s: no kernel for %s, only for f32, f16, bf16 and s32",
                        operation, tdm_dtype_name(x));
    if (op == TDM_REDUCE_MEAN && x == TDM_S32)
        return tdm_fail(
            TDM_UNSUPPORTED,
            "%s: the mean of s32 is not supported: its rounding is not defined; convert to f32",
            operation);
    const tdm_dtype wanted = gives_index(op) ? TDM_S32 : x;
    if (y != wanted)
        return tdm_fail(TDM_BAD_DTYPE, "%s: y is %s, must be %s for x of %s", operation,
                        tdm_dtype_name(y), tdm_dtype_name(wanted), tdm_dtype_name(x));
    return TDM_OK;
}

/* Gets y's dimension for each dimension of x, or -1 if it was dropped. Returns false if the shapes
 * do not match. */
static bool match_shapes(const tdm_layout *x, const tdm_layout *y, const bool reduced[TDM_MAX_RANK],
                         int place[TDM_MAX_RANK]) {
    const bool kept_as_one = y->rank == x->rank;
    int next = 0;
    for (int d = 0; d < x->rank; d++) {
        place[d] = reduced[d] && !kept_as_one ? -1 : next++;
        if (place[d] < 0)
            continue;
        const int64_t wanted = reduced[d] ? 1 : x->shape[d];
        if (place[d] >= y->rank || y->shape[place[d]] != wanted)
            return false;
    }
    return next == y->rank;
}

static tdm_status fail_shape(const char *operation, const tdm_layout *x, const tdm_layout *y) {
    char from[TDM_SHAPE_TEXT], to[TDM_SHAPE_TEXT];
    return tdm_fail(TDM_BAD_SHAPE,
                    "%s: y of shape %s must be x's shape %s without the reduced dimensions, or "
                    "with them set to 1",
                    operation, tdm_layout_text(y, to), tdm_layout_text(x, from));
}

/* ---- the problem ----------------------------------------------------------------------------- */

/* For argmax and argmin, the reduced elements keep their row-major order, because the result is an
 * index. Other operations traverse memory in address order. */
static tdm_status make_problem(reduce_problem *problem, const tdm_tensor *x, const tdm_tensor *y,
                               const bool reduced[TDM_MAX_RANK]) {
    int place[TDM_MAX_RANK];
    const tdm_layout *const from = &x->layout;
    if (!match_shapes(from, &y->layout, reduced, place))
        return fail_shape(problem->operation, from, &y->layout);
    problem->kept = (tdm_dim_list){.operands = 2};
    problem->reduced = (tdm_dim_list){.operands = 1};
    for (int d = 0; d < from->rank; d++) {
        const int64_t strides[TDM_LOOP_OPERANDS] = {from->strides[d],
                                                    place[d] < 0 ? 0 : y->layout.strides[place[d]]};
        tdm_dim_list_add(reduced[d] ? &problem->reduced : &problem->kept, from->shape[d], strides);
    }
    tdm_dim_list_sort(&problem->kept, IN_X);
    if (!gives_index(problem->op))
        tdm_dim_list_sort(&problem->reduced, IN_X);
    tdm_dim_list_merge(&problem->kept);
    tdm_dim_list_merge(&problem->reduced);
    problem->outputs = tdm_dim_list_elements(&problem->kept);
    problem->count = tdm_dim_list_elements(&problem->reduced);
    return TDM_OK;
}

/* ---- choice of the kernel -------------------------------------------------------------------- */

static int64_t last_stride(const tdm_dim_list *list, int operand) {
    return list->rank == 0 ? 1 : list->strides[operand][list->rank - 1];
}

static int64_t last_size(const tdm_dim_list *list) {
    return list->rank == 0 ? 1 : list->shape[list->rank - 1];
}

static bool fills_with_items(const tdm_device *device, int64_t outputs) {
    return outputs >= (int64_t)ENOUGH_ITEMS_PER_UNIT * device->info.compute_units;
}

static const char *refuse_by_preference(const reduce_problem *problem, int form, int width,
                                        const tdm_device *device) {
    const bool cores = (device->info.capabilities & TDM_CAP_CPU_CORES) != 0;
    if (form == FORM_GROUP && cores)
        return "work-groups that share a row are not for CPU cores";
    if (form == FORM_GROUP && last_stride(&problem->kept, IN_X) == 1 &&
        fills_with_items(device, problem->outputs))
        return "one work-item per output fills the device and reads contiguously";
    if (form == FORM_COLUMNS && last_size(&problem->kept) < width)
        return "the output rows are shorter than the variant's vector";
    if (form != FORM_COLUMNS && last_size(&problem->reduced) < width)
        return "the reduced rows are shorter than the variant's vector";
    return NULL;
}

static int64_t at_most(int64_t value, int64_t bound) {
    return value < bound ? value : bound;
}

/*
 * Returns the number of parts, enough to occupy the device if x is large enough. It is 1 for
 * argmax and argmin, and while recording, because parts need memory. The size of a part is rounded
 * up, so the last parts may be empty and give the neutral element.
 */
static int64_t choose_parts(tdm_stream *stream, const reduce_problem *problem) {
    if (gives_index(problem->op) || tdm_stream_is_recording(stream))
        return 1;
    const int64_t workers = tdm_worker_count(stream->device, INT64_MAX, 1);
    const int64_t wanted = tdm_ceil_div(workers, problem->outputs);
    return at_most(at_most(wanted, MAX_PARTS), problem->count / ELEMENTS_PER_PART + 1);
}

/* Returns an upper bound of the elements per work-item. A group shares a part among at least 32
 * work-items. */
static int64_t most_per_item(const reduce_problem *problem, int form) {
    const int64_t parts = form == FORM_COLUMNS ? 1 : problem->parts;
    return tdm_dim_list_elements(&problem->reduced) / parts / (form == FORM_GROUP ? 32 : 1);
}

static const char *reduce_supports(const void *given, const tdm_variant *variant,
                                   const tdm_device *device, char reason[TDM_REASON_TEXT]) {
    const reduce_problem *const problem = given;
    const int form = variant->parameters[P_FORM];
    const int width = variant->parameters[P_WIDTH];
    if (variant->parameters[P_STORAGE] != problem->storage)
        return "the variant is for another storage type";
    if (form == FORM_COLUMNS &&
        (last_stride(&problem->kept, IN_X) != 1 || last_stride(&problem->kept, IN_Y) != 1))
        return "the output rows are not contiguous in x or y";
    if (form != FORM_COLUMNS && width > 1 && last_stride(&problem->reduced, IN_X) != 1)
        return "the reduced rows are not contiguous";
    if (form == FORM_GROUP && width > 1 && problem->reduced.rank > 1)
        return "there are several reduced rows for each output";
    const char *const too_long = tdm_refuse_long_loop(device, most_per_item(problem, form), reason);
    if (too_long)
        return too_long;
    if (width == 1 && form == FORM_ROWS)
        return NULL;
    return problem->apply_preferences ? refuse_by_preference(problem, form, width, device) : NULL;
}

static tdm_status select_kernel(tdm_stream *stream, reduce_problem *problem, tdm_op op,
                                tdm_kernel **kernel) {
    const tdm_variant *variant;
    TDM_TRY(tdm_select_preferred(stream->device, op, problem->operation, reduce_supports, problem,
                                 &problem->apply_preferences, &variant));
    return tdm_stream_kernel(stream, problem->operation, variant, kernel);
}

/* Selects the kernel that joins partial results. If the forced variant cannot read them, the
 * scalar rows variant is used. */
static tdm_status select_joiner(tdm_stream *stream, reduce_problem *problem, tdm_kernel **kernel) {
    const tdm_status status = select_kernel(stream, problem, TDM_OP_REDUCE, kernel);
    if (status != TDM_UNSUPPORTED)
        return status;
    const char *const name =
        problem->storage == TDM_S32 ? "reduce_s32_rows_x1" : "reduce_f32_rows_x1";
    return tdm_stream_kernel(stream, problem->operation, tdm_variant_find(name), kernel);
}

/* ---- launches -------------------------------------------------------------------------------- */

/* These are the values of one launch's arguments. `args` points to them. */
typedef struct reduce_call {
    tdm_loop_dims out_shape, out_strides, y_strides, red_shape, red_strides;
    tdm_arg args[TDM_MAX_ARGS];
    tdm_launch launch;
} reduce_call;

static void push(reduce_call *call, tdm_arg arg) {
    call->args[call->launch.arg_count++] = arg;
}

static void push_dims(reduce_call *call, tdm_loop_dims *kept, tdm_loop_dims dims) {
    *kept = dims;
    push(call, tdm_arg_blob(kept, sizeof *kept));
}

static void push_outputs(reduce_call *call, const tdm_dim_list *kept, int64_t outputs) {
    push_dims(call, &call->out_shape, tdm_dim_list_shape(kept));
    push_dims(call, &call->out_strides, tdm_dim_list_strides(kept, IN_X));
    push_dims(call, &call->y_strides, tdm_dim_list_strides(kept, IN_Y));
    push(call, tdm_arg_s32(kept->rank));
    push(call, tdm_arg_s64(outputs));
}

/* Pushes the reduced dimensions. The last one is the run, the others count as rows. */
static void push_reduced(reduce_call *call, const tdm_dim_list *reduced, int64_t *rows,
                         int64_t *run) {
    tdm_dim_list outer = *reduced;
    int64_t steps[TDM_LOOP_OPERANDS];
    *run = tdm_dim_list_pop(&outer, steps);
    *rows = tdm_dim_list_elements(&outer);
    push_dims(call, &call->red_shape, tdm_dim_list_shape(&outer));
    push_dims(call, &call->red_strides, tdm_dim_list_strides(&outer, IN_X));
    push(call, tdm_arg_s32(outer.rank));
    push(call, tdm_arg_s64(*rows));
    push(call, tdm_arg_s64(*run));
    push(call, tdm_arg_s64(steps[IN_X]));
}

static void push_operation(reduce_call *call, const reduce_problem *problem, tdm_reduction op) {
    push(call, tdm_arg_f32((float)problem->count));
    push(call, tdm_arg_s32((int32_t)op));
}

static tdm_status enqueue_columns(tdm_stream *stream, const reduce_problem *problem,
                                  tdm_kernel *kernel, tdm_arg x, tdm_arg y) {
    reduce_call call = {.launch = {.args = call.args}};
    tdm_dim_list outer = problem->kept;
    int64_t steps[TDM_LOOP_OPERANDS], rows, run;
    const int64_t inner = tdm_dim_list_pop(&outer, steps);
    const int64_t out_rows = tdm_dim_list_elements(&outer);
    push(&call, x);
    push(&call, y);
    push_outputs(&call, &outer, out_rows);
    push(&call, tdm_arg_s64(inner));
    push_reduced(&call, &problem->reduced, &rows, &run);
    push_operation(&call, problem, problem->op);

    const int64_t column_groups = tdm_ceil_div(inner, COLUMNS_PER_ITEM);
    tdm_grid_items(stream->device, kernel, column_groups, WIDEST_GROUP, &call.launch);
    const int64_t rows_of_groups =
        tdm_worker_count(stream->device, column_groups * out_rows, 1) / call.launch.groups[0];
    call.launch.groups[1] = (uint32_t)at_most(out_rows, rows_of_groups > 1 ? rows_of_groups : 1);
    return tdm_enqueue_launch(stream, problem->operation, kernel, &call.launch);
}

/* Sets a grid with one work-item, or one work-group, per output. */
static void outputs_grid(const tdm_device *device, const tdm_kernel *kernel, int64_t outputs,
                         reduce_call *call) {
    if (kernel->variant->parameters[P_FORM] != FORM_GROUP) {
        tdm_grid_items(device, kernel, outputs, WIDEST_GROUP, &call->launch);
        return;
    }
    const uint32_t size = tdm_group_size(device, kernel, WIDEST_GROUP);
    tdm_grid_items(device, kernel, 1, 1, &call->launch);
    call->launch.group[0] = size;
    call->launch.groups[0] = (uint32_t)at_most(outputs, INT32_MAX);
}

/* Enqueues one launch of the rows or group form. Part p of output o is written at o's offset in y
 * plus p. */
static tdm_status enqueue_outputs(tdm_stream *stream, const reduce_problem *problem,
                                  tdm_kernel *kernel, tdm_reduction op, tdm_arg x, tdm_arg y,
                                  tdm_dtype y_type, int64_t parts) {
    reduce_call call = {.launch = {.args = call.args}};
    int64_t rows, run;
    push(&call, x);
    push(&call, y);
    push(&call, tdm_arg_s32((int32_t)y_type));
    push_outputs(&call, &problem->kept, problem->outputs);
    push_reduced(&call, &problem->reduced, &rows, &run);
    if (kernel->variant->parameters[P_FORM] == FORM_GROUP) {
        const int64_t cells = rows * (run / kernel->variant->parameters[P_WIDTH]);
        push(&call, tdm_arg_s64(tdm_ceil_div(cells, parts)));
    } else {
        // Parts are made of whole rows if there are enough rows, else of pieces of the run.
        const bool by_rows = rows >= parts;
        push(&call, tdm_arg_s64(by_rows ? tdm_ceil_div(rows, parts) : rows));
        push(&call, tdm_arg_s64(by_rows ? run : tdm_ceil_div(run, parts)));
    }
    push(&call, tdm_arg_s64(1));
    push_operation(&call, problem, op);
    outputs_grid(stream->device, kernel, problem->outputs, &call);
    call.launch.groups[1] = (uint32_t)parts;
    return tdm_enqueue_launch(stream, problem->operation, kernel, &call.launch);
}

/* Reduces every part to a value, and then the values of each output to y. */
static tdm_status enqueue_in_parts(tdm_stream *stream, const reduce_problem *problem,
                                   tdm_kernel *kernel, const tdm_tensor *x, const tdm_tensor *y,
                                   int64_t parts) {
    const tdm_dtype value_type = problem->storage == TDM_S32 ? TDM_S32 : TDM_F32;
    const bool mean = problem->op == TDM_REDUCE_MEAN;
    reduce_problem first = *problem, second = *problem;
    // The value of part p of output o is at o·parts + p. This gives y's strides in the first
    // launch and x's strides in the second one.
    int64_t stride = parts;
    for (int d = problem->kept.rank - 1; d >= 0; d--) {
        first.kept.strides[IN_Y][d] = stride;
        second.kept.strides[IN_X][d] = stride;
        stride *= problem->kept.shape[d];
    }
    second.storage = (int)value_type;
    second.reduced = (tdm_dim_list){.operands = 1, .rank = 1, .shape = {parts}, .strides = {{1}}};
    second.parts = 1;

    tdm_kernel *joiner;
    tdm_block *values;
    TDM_TRY(select_joiner(stream, &second, &joiner));
    TDM_TRY(tdm_device_alloc(stream->device, tdm_memory_pool_current(stream->device),
                             (size_t)stride * sizeof(float), stream->id, &values));
    const tdm_arg middle = tdm_arg_block(values, 0, sizeof(float));
    tdm_status status = enqueue_outputs(stream, &first, kernel, mean ? TDM_REDUCE_SUM : problem->op,
                                        tdm_arg_tensor(x), middle, value_type, parts);
    if (status == TDM_OK)
        status = enqueue_outputs(stream, &second, joiner, problem->op, middle, tdm_arg_tensor(y),
                                 y->layout.dtype, 1);
    tdm_block_release(values);
    return status;
}

static tdm_status enqueue_index(tdm_stream *stream, const reduce_problem *problem,
                                tdm_kernel *kernel, const tdm_tensor *x, const tdm_tensor *y) {
    reduce_call call = {.launch = {.args = call.args}};
    int64_t rows, run;
    push(&call, tdm_arg_tensor(x));
    push(&call, tdm_arg_tensor(y));
    push_outputs(&call, &problem->kept, problem->outputs);
    push_reduced(&call, &problem->reduced, &rows, &run);
    push(&call, tdm_arg_s32(problem->op == TDM_REDUCE_ARGMAX ? (int32_t)TDM_REDUCE_MAX
                                                             : (int32_t)TDM_REDUCE_MIN));
    outputs_grid(stream->device, kernel, problem->outputs, &call);
    return tdm_enqueue_launch(stream, problem->operation, kernel, &call.launch);
}

/* ---- the call -------------------------------------------------------------------------------- */

static tdm_status reduce_nothing(tdm_stream *stream, const reduce_problem *problem, tdm_tensor *y) {
    if (problem->op == TDM_REDUCE_SUM)
        return tdm_tensor_fill(stream, 0.0, y);
    if (problem->op == TDM_REDUCE_MEAN)
        return tdm_tensor_fill(stream, (double)__builtin_nanf(""), y);
    return tdm_fail(TDM_BAD_SHAPE, "%s: x has no elements along the reduced axes",
                    problem->operation);
}

static tdm_status check_index(const reduce_problem *problem, int rank, int axis_count) {
    if (axis_count > 1 && axis_count < rank)
        return tdm_fail(TDM_UNSUPPORTED, "%s: axis_count is %d of %d axes, must be one or all",
                        problem->operation, axis_count, rank);
    if (problem->count > INT32_MAX)
        return tdm_fail(TDM_UNSUPPORTED, "%s: an index among %lld elements does not fit s32",
                        problem->operation, (long long)problem->count);
    return TDM_OK;
}

static tdm_status enqueue_reduce(tdm_stream *stream, reduce_problem *problem, const tdm_tensor *x,
                                 const tdm_tensor *y) {
    tdm_kernel *kernel;
    const bool index = gives_index(problem->op);
    problem->parts = choose_parts(stream, problem);
    TDM_TRY(select_kernel(stream, problem, index ? TDM_OP_ARGMAX : TDM_OP_REDUCE, &kernel));
    if (index)
        return enqueue_index(stream, problem, kernel, x, y);
    if (kernel->variant->parameters[P_FORM] == FORM_COLUMNS)
        return enqueue_columns(stream, problem, kernel, tdm_arg_tensor(x), tdm_arg_tensor(y));
    if (problem->parts > 1)
        return enqueue_in_parts(stream, problem, kernel, x, y, problem->parts);
    return enqueue_outputs(stream, problem, kernel, problem->op, tdm_arg_tensor(x),
                           tdm_arg_tensor(y), y->layout.dtype, 1);
}

tdm_status tdm_reduce(tdm_stream *stream, tdm_reduction op, const tdm_tensor *x, const int *axes,
                      int axis_count, tdm_tensor *y) {
    const char *const operation = reduction_name(op);
    if (!operation)
        return tdm_fail(TDM_BAD_ARGUMENT, "reduce: operation %d is unknown", (int)op);
    bool reduced[TDM_MAX_RANK];
    TDM_TRY(tdm_check_tensor(operation, "x", stream, x));
    TDM_TRY(tdm_check_output(operation, "y", stream, y));
    TDM_TRY(read_axes(operation, x, axes, axis_count, reduced));
    TDM_TRY(check_dtypes(operation, op, x->layout.dtype, y->layout.dtype));
    reduce_problem problem = {.operation = operation, .op = op, .storage = (int)x->layout.dtype};
    TDM_TRY(make_problem(&problem, x, y, reduced));
    if (gives_index(op))
        TDM_TRY(check_index(&problem, x->layout.rank, axis_count));
    TDM_TRY(tdm_check_overlap(operation, "y", y, "x", x, true));
    if (problem.outputs == 0)
        return TDM_OK;
    if (problem.count == 0)
        return reduce_nothing(stream, &problem, y);
    return enqueue_reduce(stream, &problem, x, y);
}
