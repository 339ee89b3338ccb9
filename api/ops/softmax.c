/* These functions compute softmax along one dimension. */
#include "api/tensor/strided_loop.h"

/* These are the parameters of the softmax variants. */
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
    IN_X = 0,
    IN_Y = 1
};
enum {
    COLUMNS_PER_VECTOR = 16,
    WIDEST_GROUP = 256,
    ENOUGH_ITEMS_PER_UNIT = 256
};

typedef struct softmax_problem {
    int storage;
    int64_t count;      /* elements along the dimension */
    int64_t step[2];    /* its strides in x and y */
    tdm_dim_list outer; /* the other dimensions */
    int64_t rows;       /* number of elements in `outer` */
    bool apply_preferences;
} softmax_problem;

static void make_problem(softmax_problem *problem, const tdm_tensor *x, const tdm_tensor *y,
                         int axis) {
    problem->storage = (int)x->layout.dtype;
    problem->count = x->layout.shape[axis];
    // The stride of a dimension of one element has no meaning. With a stride of 1, every form is
    // possible.
    problem->step[IN_X] = problem->count == 1 ? 1 : x->layout.strides[axis];
    problem->step[IN_Y] = problem->count == 1 ? 1 : y->layout.strides[axis];
    problem->outer = (tdm_dim_list){.operands = 2};
    for (int d = 0; d < x->layout.rank; d++) {
        const int64_t strides[TDM_LOOP_OPERANDS] = {x->layout.strides[d], y->layout.strides[d]};
        if (d != axis)
            tdm_dim_list_add(&problem->outer, x->layout.shape[d], strides);
    }
    tdm_dim_list_sort(&problem->outer, IN_Y);
    tdm_dim_list_merge(&problem->outer);
    problem->rows = tdm_dim_list_elements(&problem->outer);
}

/* ---- choice of the kernel -------------------------------------------------------------------- */

static bool outer_is_dense(const tdm_dim_list *outer) {
    const int last = outer->rank - 1;
    return last < 0 || (outer->strides[IN_X][last] == 1 && outer->strides[IN_Y][last] == 1);
}

static const char *refuse_by_preference(const softmax_problem *problem, int form, int width,
                                        const tdm_device *device) {
    const bool cores = (device->info.capabilities & TDM_CAP_CPU_CORES) != 0;
    const tdm_dim_list *const outer = &problem->outer;
    if (form == FORM_GROUP && cores)
        return "work-groups that share a row are not for CPU cores";
    if (form == FORM_GROUP && outer->rank > 0 && outer_is_dense(outer) &&
        problem->rows >= (int64_t)ENOUGH_ITEMS_PER_UNIT * device->info.compute_units)
        return "one work-item per row fills the device and reads contiguously";
    if (form == FORM_COLUMNS && (outer->rank == 0 || outer->shape[outer->rank - 1] < width))
        return "there are fewer columns than vector lanes";
    if (form != FORM_COLUMNS && problem->count < width)
        return "the rows are shorter than the variant's vector";
    return NULL;
}

static const char *softmax_supports(const void *given, const tdm_variant *variant,
                                    const tdm_device *device, char reason[TDM_REASON_TEXT]) {
    const softmax_problem *const problem = given;
    const int form = variant->parameters[P_FORM];
    const int width = variant->parameters[P_WIDTH];
    if (variant->parameters[P_STORAGE] != problem->storage)
        return "the variant is for another storage type";
    if (form == FORM_COLUMNS && !outer_is_dense(&problem->outer))
        return "the columns are not contiguous";
    if (form != FORM_COLUMNS && width > 1 && (problem->step[IN_X] != 1 || problem->step[IN_Y] != 1))
        return "the rows are not contiguous";
    // With at least 32 work-items per row, each processes at most count / 32 elements. The larger
    // count / 4 is safe even if an iteration processes one element.
    const char *const too_long = tdm_refuse_long_loop(
        device, form == FORM_GROUP ? problem->count / 4 : problem->count, reason);
    if (too_long)
        return too_long;
    if (form == FORM_ROWS && width == 1)
        return NULL;
    return problem->apply_preferences ? refuse_by_preference(problem, form, width, device) : NULL;
}

static tdm_status select_kernel(tdm_stream *stream, softmax_problem *problem, tdm_kernel **kernel) {
    const tdm_variant *variant;
    TDM_TRY(tdm_select_preferred(stream->device, TDM_OP_SOFTMAX, "softmax", softmax_supports,
                                 problem, &problem->apply_preferences, &variant));
    return tdm_stream_kernel(stream, "softmax", variant, kernel);
}

/* ---- the launch ------------------------------------------------------------------------------ */

static int64_t at_most(int64_t value, int64_t bound) {
    return value < bound ? value : bound;
}

static void choose_grid(const tdm_device *device, const tdm_kernel *kernel, int64_t rows,
                        int64_t inner, tdm_launch *launch) {
    const int form = kernel->variant->parameters[P_FORM];
    if (form == FORM_GROUP) {
        tdm_grid_items(device, kernel, 1, 1, launch);
        launch->group[0] = tdm_group_size(device, kernel, WIDEST_GROUP);
        launch->groups[0] = (uint32_t)at_most(rows, INT32_MAX);
    } else if (form == FORM_ROWS) {
        tdm_grid_items(device, kernel, rows, WIDEST_GROUP, launch);
    } else {
        const int64_t column_groups = tdm_ceil_div(inner, COLUMNS_PER_VECTOR);
        tdm_grid_items(device, kernel, column_groups, WIDEST_GROUP, launch);
        const int64_t rows_of_groups =
            tdm_worker_count(device, column_groups * rows, 1) / launch->groups[0];
        launch->groups[1] = (uint32_t)at_most(rows, rows_of_groups > 1 ? rows_of_groups : 1);
    }
}

static tdm_status enqueue_softmax(tdm_stream *stream, const softmax_problem *problem,
                                  tdm_kernel *kernel, const tdm_tensor *x, const tdm_tensor *y) {
    tdm_dim_list outer = problem->outer;
    int64_t inner = 1, steps[TDM_LOOP_OPERANDS];
    if (kernel->variant->parameters[P_FORM] == FORM_COLUMNS)
        inner = tdm_dim_list_pop(&outer, steps);
    const int64_t rows = tdm_dim_list_elements(&outer);
    const tdm_loop_dims shape = tdm_dim_list_shape(&outer);
    const tdm_loop_dims x_strides = tdm_dim_list_strides(&outer, IN_X);
    const tdm_loop_dims y_strides = tdm_dim_list_strides(&outer, IN_Y);
    const tdm_arg args[] = {tdm_arg_tensor(x),
                            tdm_arg_tensor(y),
                            tdm_arg_blob(&shape, sizeof shape),
                            tdm_arg_blob(&x_strides, sizeof x_strides),
                            tdm_arg_blob(&y_strides, sizeof y_strides),
                            tdm_arg_s32(outer.rank),
                            tdm_arg_s64(rows),
                            tdm_arg_s64(inner),
                            tdm_arg_s64(problem->count),
                            tdm_arg_s64(problem->step[IN_X]),
                            tdm_arg_s64(problem->step[IN_Y])};
    tdm_launch launch = {.args = args, .arg_count = sizeof args / sizeof args[0]};
    choose_grid(stream->device, kernel, rows, inner, &launch);
    return tdm_enqueue_launch(stream, "softmax", kernel, &launch);
}

/* ---- the call -------------------------------------------------------------------------------- */

static tdm_status check_softmax(const tdm_stream *stream, const tdm_tensor *x, int axis,
                                const tdm_tensor *y) {
    TDM_TRY(tdm_check_tensor("softmax", "x", stream, x));
    TDM_TRY(tdm_check_output("softmax", "y", stream, y));
    if (axis < 0 || axis >= x->layout.rank)
        return tdm_fail(TDM_BAD_ARGUMENT, "softmax: axis %d is outside the rank of x, %d", axis,
                        x->layout.rank);
    if (!tdm_layout_same_shape(&x->layout, &y->layout)) {
        char from[TDM_SHAPE_TEXT], to[TDM_SHAPE_TEXT];
        return tdm_fail(TDM_BAD_SHAPE, "softmax: x has shape %s but y %s",
                        tdm_layout_text(&x->layout, from), tdm_layout_text(&y->layout, to));
    }
    if (x->layout.dtype != y->layout.dtype)
        return tdm_fail(TDM_BAD_DTYPE, "softmax: x is %s but y is %s",
                        tdm_dtype_name(x->layout.dtype), tdm_dtype_name(y->layout.dtype));
    if (x->layout.dtype != TDM_F32 && x->layout.dtype != TDM_F16 && x->layout.dtype != TDM_BF16)
        return tdm_fail(TDM_UNSUPPORTED, "softmax: no kernel for %s, only for f32, f16 and bf16",
                        tdm_dtype_name(x->layout.dtype));
    return tdm_check_overlap("softmax", "y", y, "x", x, true);
}

tdm_status tdm_softmax(tdm_stream *stream, const tdm_tensor *x, int axis, tdm_tensor *y) {
    TDM_TRY(check_softmax(stream, x, axis, y));
    if (tdm_layout_elements(&y->layout) == 0)
        return TDM_OK;
    softmax_problem problem;
    tdm_kernel *kernel;
    make_problem(&problem, x, y, axis);
    TDM_TRY(select_kernel(stream, &problem, &kernel));
    return enqueue_softmax(stream, &problem, kernel, x, y);
}
