/* This function normalizes rows. */
#include <math.h>

#include <tandem/nn.h>

#include "api/tensor/strided_loop.h"
#include "kernels/reduce/norm_args.h"

/* These are the parameters of the norm variants. */
enum {
    P_STORAGE = 0,
    P_WIDTH,
    P_FORM
};
enum {
    FORM_ROWS = 1,
    FORM_GROUP = 3
};
/* These are the operands that have the shape of x. */
enum {
    IN_Y = 0,
    IN_X,
    IN_RESIDUAL,
    IN_SUM,
    SHAPED
};
enum {
    WIDEST_GROUP = 256,
    ENOUGH_ITEMS_PER_UNIT = 256
};

typedef struct norm_problem {
    const char *operation;
    tdm_norm_kind kind;
    float epsilon;
    const tdm_tensor *shaped[SHAPED]; /* NULL: absent */
    const tdm_tensor *scale, *bias;   /* NULL: absent */
    int64_t count;                    /* elements of a row */
    int64_t step[SHAPED];             /* strides within a row, 1 if absent */
    int64_t scale_step, bias_step;    /* 1 if absent */
    tdm_dim_list outer;               /* the other dimensions */
    int64_t rows;                     /* number of elements in `outer` */
    bool apply_preferences;
} norm_problem;

/* ---- checks ---------------------------------------------------------------------------------- */

static const char *const shaped_names[SHAPED] = {"y", "x", "residual", "sum"};

/* Checks that an operand has the shape and dtype of x. */
static tdm_status check_like_x(const norm_problem *p, int operand) {
    const tdm_layout *const x = &p->shaped[IN_X]->layout;
    const tdm_layout *const other = &p->shaped[operand]->layout;
    if (!tdm_layout_same_shape(x, other)) {
        char a[TDM_SHAPE_TEXT], b[TDM_SHAPE_TEXT];
        return tdm_fail(TDM_BAD_SHAPE, "%s: x has shape %s but %s %s", p->operation,
                        tdm_layout_text(x, a), shaped_names[operand], tdm_layout_text(other, b));
    }
    if (x->dtype != other->dtype)
        return tdm_fail(TDM_BAD_DTYPE, "%s: x is %s but %s is %s", p->operation,
                        tdm_dtype_name(x->dtype), shaped_names[operand],
                        tdm_dtype_name(other->dtype));
    return TDM_OK;
}

/* Checks scale or bias: one element per element of a row. */
static tdm_status check_vector(const norm_problem *p, const char *name, const tdm_stream *stream,
                               const tdm_tensor *vector) {
    TDM_TRY(tdm_check_tensor(p->operation, name, stream, vector));
    const int64_t count = p->shaped[IN_X]->layout.shape[p->shaped[IN_X]->layout.rank - 1];
    if (vector->layout.rank != 1 || vector->layout.shape[0] != count) {
        char text[TDM_SHAPE_TEXT];
        return tdm_fail(TDM_BAD_SHAPE, "%s: %s has shape %s, must be [%lld] like a row of x",
                        p->operation, name, tdm_layout_text(&vector->layout, text),
                        (long long)count);
    }
    if (!tdm_is_kernel_float(vector->layout.dtype))
        return tdm_fail(TDM_BAD_DTYPE, "%s: %s is %s, must be f32, f16 or bf16", p->operation, name,
                        tdm_dtype_name(vector->layout.dtype));
    return TDM_OK;
}

/* Checks one of the outputs y and sum against every input. */
static tdm_status check_overlaps(const norm_problem *p, int output) {
    const char *const name = shaped_names[output];
    const tdm_tensor *const target = p->shaped[output];
    TDM_TRY(tdm_check_overlap(p->operation, name, target, "x", p->shaped[IN_X], true));
    if (p->shaped[IN_RESIDUAL])
        TDM_TRY(tdm_check_overlap(p->operation, name, target, "residual", p->shaped[IN_RESIDUAL],
                                  true));
    if (p->scale)
        TDM_TRY(tdm_check_overlap(p->operation, name, target, "scale", p->scale, false));
    if (p->bias)
        TDM_TRY(tdm_check_overlap(p->operation, name, target, "bias", p->bias, false));
    return TDM_OK;
}

static tdm_status check_norm(const norm_problem *p, const tdm_stream *stream) {
    TDM_TRY(tdm_check_tensor(p->operation, "x", stream, p->shaped[IN_X]));
    TDM_TRY(tdm_check_output(p->operation, "y", stream, p->shaped[IN_Y]));
    if (!(p->epsilon >= 0) || isinf(p->epsilon))
        return tdm_fail(TDM_BAD_ARGUMENT, "%s: epsilon is %g, must be finite and not negative",
                        p->operation, (double)p->epsilon);
    const tdm_layout *const x = &p->shaped[IN_X]->layout;
    if (x->rank == 0)
        return tdm_fail(TDM_BAD_SHAPE, "%s: x has rank 0, its last dimension is normalized",
                        p->operation);
    if (!tdm_is_kernel_float(x->dtype))
        return tdm_fail(TDM_UNSUPPORTED, "%s: no kernel for %s, only for f32, f16 and bf16",
                        p->operation, tdm_dtype_name(x->dtype));
    if (p->shaped[IN_RESIDUAL])
        TDM_TRY(tdm_check_tensor(p->operation, "residual", stream, p->shaped[IN_RESIDUAL]));
    if (p->shaped[IN_SUM])
        TDM_TRY(tdm_check_output(p->operation, "sum", stream, p->shaped[IN_SUM]));
    for (int operand = 0; operand < SHAPED; operand++)
        if (p->shaped[operand])
            TDM_TRY(check_like_x(p, operand));
    if (p->scale)
        TDM_TRY(check_vector(p, "scale", stream, p->scale));
    if (p->bias)
        TDM_TRY(check_vector(p, "bias", stream, p->bias));
    TDM_TRY(check_overlaps(p, IN_Y));
    if (!p->shaped[IN_SUM])
        return TDM_OK;
    TDM_TRY(check_overlaps(p, IN_SUM));
    return tdm_check_overlap(p->operation, "sum", p->shaped[IN_SUM], "y", p->shaped[IN_Y], false);
}

/* ---- choice of the kernel -------------------------------------------------------------------- */

/* Splits the shape into rows. The stride of a dimension of one element has no meaning; with a
 * stride of 1, every form is possible. */
static void split_rows(norm_problem *p) {
    const tdm_layout *const x = &p->shaped[IN_X]->layout;
    const int last = x->rank - 1;
    p->count = x->shape[last];
    p->outer = (tdm_dim_list){.operands = SHAPED};
    for (int d = 0; d < last; d++) {
        int64_t strides[TDM_LOOP_OPERANDS] = {0};
        for (int operand = 0; operand < SHAPED; operand++)
            strides[operand] =
                p->shaped[operand] ? p->shaped[operand]->layout.strides[d] : x->strides[d];
        tdm_dim_list_add(&p->outer, x->shape[d], strides);
    }
    for (int operand = 0; operand < SHAPED; operand++)
        p->step[operand] =
            p->shaped[operand] && p->count > 1 ? p->shaped[operand]->layout.strides[last] : 1;
    p->scale_step = p->scale && p->count > 1 ? p->scale->layout.strides[0] : 1;
    p->bias_step = p->bias && p->count > 1 ? p->bias->layout.strides[0] : 1;
    tdm_dim_list_sort(&p->outer, IN_Y);
    tdm_dim_list_merge(&p->outer);
    p->rows = tdm_dim_list_elements(&p->outer);
}

static bool rows_are_contiguous(const norm_problem *p) {
    bool contiguous = p->scale_step == 1 && p->bias_step == 1;
    for (int operand = 0; operand < SHAPED; operand++)
        contiguous = contiguous && p->step[operand] == 1;
    return contiguous;
}

static const char *norm_supports(const void *given, const tdm_variant *variant,
                                 const tdm_device *device, char reason[TDM_REASON_TEXT]) {
    const norm_problem *const p = given;
    const int form = variant->parameters[P_FORM];
    const int width = variant->parameters[P_WIDTH];
    if (variant->parameters[P_STORAGE] != (int)p->shaped[IN_X]->layout.dtype)
        return "the variant is for another storage type";
    if (width > 1 && !rows_are_contiguous(p))
        return "the rows, scale or bias are not contiguous";
    // With at least 32 work-items per row, each processes at most count / 32 elements. The larger
    // count / 4 is safe even if an iteration processes one element.
    const char *const too_long =
        tdm_refuse_long_loop(device, form == FORM_GROUP ? p->count / 4 : p->count, reason);
    if (too_long || !p->apply_preferences || (form == FORM_ROWS && width == 1))
        return too_long;
    if (form == FORM_GROUP && (device->info.capabilities & TDM_CAP_CPU_CORES))
        return "work-groups that share a row are not for CPU cores";
    return p->count < width ? "the rows are shorter than the variant's vector" : NULL;
}

static tdm_status select_kernel(tdm_stream *stream, norm_problem *p, tdm_kernel **kernel) {
    const tdm_variant *variant;
    TDM_TRY(tdm_select_preferred(stream->device, TDM_OP_NORM, p->operation, norm_supports, p,
                                 &p->apply_preferences, &variant));
    return tdm_stream_kernel(stream, p->operation, variant, kernel);
}

/* ---- the launch ------------------------------------------------------------------------------ */

static int32_t norm_flags(const norm_problem *p) {
    const tdm_tensor *present[SHAPED];
    int count = 0;
    for (int operand = 0; operand < SHAPED; operand++)
        if (p->shaped[operand])
            present[count++] = p->shaped[operand];
    return (p->shaped[IN_RESIDUAL] ? TDM_NORM_HAS_RESIDUAL : 0) |
           (p->shaped[IN_SUM] ? TDM_NORM_HAS_SUM : 0) |
           (p->kind == TDM_NORM_LAYER ? TDM_NORM_SUBTRACTS_MEAN : 0) |
           (tdm_exceed_caches(present, count) ? TDM_NORM_NONTEMPORAL : 0);
}

/* An absent operand is passed as x, which the kernel then does not access for it. */
static tdm_arg present_or(const tdm_tensor *operand, const tdm_tensor *x) {
    return tdm_arg_tensor(operand ? operand : x);
}

static int32_t type_of(const tdm_tensor *vector) {
    return vector ? (int32_t)vector->layout.dtype : 0;
}

static tdm_status enqueue_norm(tdm_stream *stream, const norm_problem *p, tdm_kernel *kernel) {
    const tdm_tensor *const x = p->shaped[IN_X];
    const tdm_loop_dims shape = tdm_dim_list_shape(&p->outer);
    tdm_loop_dims strides[SHAPED];
    for (int operand = 0; operand < SHAPED; operand++)
        strides[operand] = tdm_dim_list_strides(&p->outer, operand);
    const tdm_arg args[] = {tdm_arg_tensor(x),
                            present_or(p->shaped[IN_RESIDUAL], x),
                            present_or(p->scale, x),
                            present_or(p->bias, x),
                            present_or(p->shaped[IN_SUM], x),
                            tdm_arg_tensor(p->shaped[IN_Y]),
                            tdm_arg_blob(&shape, sizeof shape),
                            tdm_arg_blob(&strides[IN_X], sizeof strides[0]),
                            tdm_arg_blob(&strides[IN_RESIDUAL], sizeof strides[0]),
                            tdm_arg_blob(&strides[IN_SUM], sizeof strides[0]),
                            tdm_arg_blob(&strides[IN_Y], sizeof strides[0]),
                            tdm_arg_s32(p->outer.rank),
                            tdm_arg_s64(p->rows),
                            tdm_arg_s64(p->count),
                            tdm_arg_s64(p->step[IN_X]),
                            tdm_arg_s64(p->step[IN_RESIDUAL]),
                            tdm_arg_s64(p->step[IN_SUM]),
                            tdm_arg_s64(p->step[IN_Y]),
                            tdm_arg_s64(p->scale_step),
                            tdm_arg_s64(p->bias_step),
                            tdm_arg_s32(type_of(p->scale)),
                            tdm_arg_s32(type_of(p->bias)),
                            tdm_arg_s32(norm_flags(p)),
                            tdm_arg_f32(p->epsilon)};
    tdm_launch launch = {.args = args, .arg_count = sizeof args / sizeof args[0]};
    if (kernel->variant->parameters[P_FORM] == FORM_GROUP) {
        tdm_grid_items(stream->device, kernel, 1, 1, &launch);
        launch.group[0] = tdm_group_size(stream->device, kernel, WIDEST_GROUP);
        launch.groups[0] = (uint32_t)(p->rows < INT32_MAX ? p->rows : INT32_MAX);
    } else {
        tdm_grid_items(stream->device, kernel, p->rows, WIDEST_GROUP, &launch);
    }
    return tdm_enqueue_launch(stream, p->operation, kernel, &launch);
}

/* ---- the call -------------------------------------------------------------------------------- */

static const char *norm_name(tdm_norm_kind kind) {
    switch (kind) {
    case TDM_NORM_RMS:
        return "rms_norm";
    case TDM_NORM_LAYER:
        return "layer_norm";
    }
    return NULL;
}

tdm_status tdm_norm(tdm_stream *stream, tdm_norm_kind kind, const tdm_tensor *x, float epsilon,
                    const tdm_norm_operands *given, tdm_tensor *y) {
    norm_problem problem = {.operation = norm_name(kind), .kind = kind, .epsilon = epsilon};
    if (!problem.operation)
        return tdm_fail(TDM_BAD_ARGUMENT, "norm: kind %d is unknown", (int)kind);
    tdm_norm_operands room = TDM_NORM_OPERANDS_INIT;
    const tdm_norm_operands *const operands =
        given ? tdm_struct_read(problem.operation, "operands", given, sizeof room, &room) : &room;
    if (!operands)
        return TDM_BAD_ARGUMENT;
    problem.shaped[IN_X] = x;
    problem.shaped[IN_Y] = y;
    problem.shaped[IN_RESIDUAL] = operands->residual;
    problem.shaped[IN_SUM] = operands->sum;
    problem.scale = operands->scale;
    problem.bias = operands->bias;
    TDM_TRY(check_norm(&problem, stream));
    if (tdm_layout_elements(&x->layout) == 0)
        return TDM_OK;
    tdm_kernel *kernel;
    split_rows(&problem);
    TDM_TRY(select_kernel(stream, &problem, &kernel));
    return enqueue_norm(stream, &problem, kernel);
}
