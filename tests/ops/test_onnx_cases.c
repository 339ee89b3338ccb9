/* The node cases of the ONNX backend tests whose operators Tandem's public operations cover, on
 * every device. tests/vectors/make_onnx_cases.py writes the cases.
 * ctest: device compiled debug rusticl_in_ci timeout=240 cost=60 */
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "quant/number_formats.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/onnx/onnx_cases.h"

enum {
    OWNED = 64, /* most tensors of a case */
    REASONS = 32
};

/* One case on one device. */
typedef struct run {
    const onnx_case *c;
    tdm_device *device;
    tdm_stream *stream;
    int parameter; /* of the operator's row */
    tdm_tensor *owned[OWNED];
    int owned_count;
    tdm_tensor *y[ONNX_OPERANDS]; /* results; NULL if Tandem does not give this output */
    bool failed;
    char text[512]; /* why the case failed */
} run;

/* Returns NULL if the case has run, or the reason why it has not. */
typedef const char *operation(run *r);

static const char *refused(run *r, tdm_status status, const char *call) {
    if (status == TDM_UNSUPPORTED)
        return "no kernel for these dtypes";
    r->failed = true;
    snprintf(r->text, sizeof r->text, "%.100s: %s: %s", call, tdm_status_text(status),
             tdm_last_detail());
    return r->text;
}

#define TRY(call)                                                                                  \
    do {                                                                                           \
        const tdm_status status_of_call = (call);                                                  \
        if (status_of_call != TDM_OK)                                                              \
            return refused(r, status_of_call, #call);                                              \
    } while (0)

/* Runs an operation of this file. */
#define PASS_ON(call)                                                                              \
    do {                                                                                           \
        const char *const reason_of_call = (call);                                                 \
        if (reason_of_call != NULL)                                                                \
            return reason_of_call;                                                                 \
    } while (0)

/* ---- tensors of a case ---- */

/* Keeps the tensor until the end of the case. */
static tdm_tensor *keep(run *r, tdm_tensor *tensor) {
    assert_true(r->owned_count < OWNED);
    r->owned[r->owned_count++] = tensor;
    return tensor;
}

static const onnx_tensor *input(const run *r, int i) {
    static const onnx_tensor absent = {.dtype = TDM_DTYPE_NONE};
    return i < r->c->input_count ? &r->c->inputs[i] : &absent;
}

static bool has_input(const run *r, int i) {
    return onnx_is_present(input(r, i));
}

static tdm_tensor *send(run *r, tdm_dtype dtype, int rank, const int64_t *shape, const void *data) {
    tdm_tensor *tensor;
    TEST_OK(tdm_tensor_from_host(r->stream, dtype, rank, shape, data, &tensor));
    return keep(r, tensor);
}

/* Sends input i, or returns NULL if it is absent. */
static tdm_tensor *in(run *r, int i) {
    const onnx_tensor *const t = input(r, i);
    return onnx_is_present(t) ? send(r, t->dtype, t->rank, t->shape, t->data) : NULL;
}

/* Creates a tensor whose bytes are all 0xa5. */
static tdm_tensor *create(run *r, tdm_dtype dtype, int rank, const int64_t *shape) {
    int64_t elements = 1;
    for (int d = 0; d < rank; d++)
        elements *= shape[d];
    size_t bytes;
    TEST_OK(tdm_dtype_bytes(dtype, elements, &bytes));
    void *const poison = malloc(bytes + 1);
    assert_non_null(poison);
    memset(poison, dtype == TDM_BOOL ? 1 : 0xa5, bytes);
    tdm_tensor *const tensor = send(r, dtype, rank, shape, poison);
    free(poison);
    return tensor;
}

/* Creates the result of output i. */
static tdm_tensor *out(run *r, int i) {
    const onnx_tensor *const t = &r->c->outputs[i];
    return r->y[i] = create(r, t->dtype, t->rank, t->shape);
}

static tdm_tensor *scalar(run *r, tdm_dtype dtype, double value) {
    tdm_tensor *const tensor = create(r, dtype, 0, NULL);
    TEST_OK(tdm_tensor_fill(r->stream, value, tensor));
    return tensor;
}

static tdm_tensor *reshape(run *r, const tdm_tensor *tensor, int rank, const int64_t *shape) {
    tdm_tensor *view;
    TEST_OK(tdm_tensor_reshape(tensor, rank, shape, &view));
    return keep(r, view);
}

static tdm_tensor *slice(run *r, const tdm_tensor *tensor, int dimension, int64_t start,
                         int64_t stop, int64_t step) {
    tdm_tensor *view;
    TEST_OK(tdm_tensor_slice(tensor, dimension, start, stop, step, &view));
    return keep(r, view);
}

static tdm_tensor *transpose(run *r, const tdm_tensor *tensor, const int *order) {
    tdm_tensor *view;
    TEST_OK(tdm_tensor_transpose(tensor, order, &view));
    return keep(r, view);
}

/* Returns a view without dimension 0, at one index of it. */
static tdm_tensor *entry(run *r, const tdm_tensor *tensor, int64_t index) {
    int64_t shape[TDM_MAX_RANK], strides[TDM_MAX_RANK];
    const int rank = tdm_tensor_rank(tensor) - 1;
    for (int d = 0; d < rank; d++) {
        shape[d] = tdm_tensor_dim(tensor, d + 1);
        strides[d] = tdm_tensor_stride(tensor, d + 1);
    }
    tdm_tensor *view;
    TEST_OK(
        tdm_tensor_view(tensor, rank, shape, strides, index * tdm_tensor_stride(tensor, 0), &view));
    return keep(r, view);
}

/* Returns the attribute `axis` as an index from 0. */
static int axis_of(const run *r, int otherwise, int rank) {
    const int axis = onnx_int(r->c, "axis", otherwise);
    return axis < 0 ? axis + rank : axis;
}

static int64_t product(const int64_t *shape, int first, int end) {
    int64_t elements = 1;
    for (int d = first; d < end; d++)
        elements *= shape[d];
    return elements;
}

static bool has_text(const run *r, const char *attribute, const char *text) {
    const onnx_attribute *const a = onnx_attribute_find(r->c, attribute);
    return a != NULL && strcmp(a->text, text) == 0;
}

/* ---- elementwise operations ---- */

static const char *run_unary(run *r) {
    tdm_tensor *const x = in(r, 0);
    TRY(tdm_unary_op(r->stream, (tdm_unary)r->parameter, x, out(r, 0)));
    return NULL;
}

static const char *run_gelu(run *r) {
    r->parameter = has_text(r, "approximate", "tanh") ? TDM_GELU_TANH : TDM_GELU;
    return run_unary(r);
}

static const char *run_swish(run *r) {
    if (onnx_number(r->c, "alpha", 1) != 1)
        return "Swish with another alpha";
    return run_unary(r);
}

static const char *run_reciprocal(run *r) {
    tdm_tensor *const x = in(r, 0);
    tdm_tensor *const one = scalar(r, tdm_tensor_dtype(x), 1);
    TRY(tdm_binary_op(r->stream, TDM_DIV, one, x, out(r, 0)));
    return NULL;
}

/* Any number of inputs; one input is copied. */
static const char *run_binary(run *r) {
    tdm_tensor *const y = out(r, 0);
    tdm_tensor *const first = in(r, 0);
    if (r->c->input_count == 1)
        TRY(tdm_tensor_copy(r->stream, first, y));
    for (int i = 1; i < r->c->input_count; i++)
        TRY(tdm_binary_op(r->stream, (tdm_binary)r->parameter, i == 1 ? first : y, in(r, i), y));
    return NULL;
}

/* The exponent is converted to the dtype of the base. */
static const char *run_pow(run *r) {
    tdm_tensor *const base = in(r, 0);
    tdm_tensor *exponent = in(r, 1);
    if (tdm_tensor_dtype(exponent) != tdm_tensor_dtype(base)) {
        const onnx_tensor *const t = input(r, 1);
        tdm_tensor *const converted = create(r, tdm_tensor_dtype(base), t->rank, t->shape);
        TRY(tdm_tensor_convert(r->stream, exponent, converted));
        exponent = converted;
    }
    TRY(tdm_binary_op(r->stream, TDM_POW, base, exponent, out(r, 0)));
    return NULL;
}

static const char *run_compare(run *r) {
    tdm_tensor *const a = in(r, 0), *const b = in(r, 1);
    TRY(tdm_compare(r->stream, (tdm_comparison)r->parameter, a, b, out(r, 0)));
    return NULL;
}

static const char *run_not(run *r) {
    tdm_tensor *const x = in(r, 0), *const zero = scalar(r, TDM_BOOL, 0);
    TRY(tdm_compare(r->stream, TDM_EQUAL, x, zero, out(r, 0)));
    return NULL;
}

static const char *run_where(run *r) {
    tdm_tensor *const condition = in(r, 0), *const a = in(r, 1), *const b = in(r, 2);
    TRY(tdm_where(r->stream, condition, a, b, out(r, 0)));
    return NULL;
}

/* Integers, and bounds in the wrong order, need max and min. */
static const char *run_clip(run *r) {
    tdm_tensor *const x = in(r, 0), *const y = out(r, 0);
    const double low = has_input(r, 1) ? onnx_element(input(r, 1), 0) : -HUGE_VAL;
    const double high = has_input(r, 2) ? onnx_element(input(r, 2), 0) : HUGE_VAL;
    if (tdm_dtype_info(tdm_tensor_dtype(x))->kind == TDM_CLASS_FLOAT && low <= high) {
        TRY(tdm_clamp(r->stream, x, (float)low, (float)high, y));
        return NULL;
    }
    TRY(tdm_tensor_copy(r->stream, x, y));
    if (has_input(r, 1))
        TRY(tdm_binary_op(r->stream, TDM_MAX, y, in(r, 1), y));
    if (has_input(r, 2))
        TRY(tdm_binary_op(r->stream, TDM_MIN, y, in(r, 2), y));
    return NULL;
}

static const char *run_cast(run *r) {
    tdm_tensor *const x = in(r, 0);
    TRY(tdm_tensor_convert(r->stream, x, out(r, 0)));
    return NULL;
}

/* ---- views and copies ---- */

static const char *run_identity(run *r) {
    tdm_tensor *const x = in(r, 0);
    TRY(tdm_tensor_copy(r->stream, x, out(r, 0)));
    return NULL;
}

/* Reshape, Flatten, Squeeze, Unsqueeze: ONNX's rules for the shape are not Tandem's, so the shape
 * is that of the expected output. */
static const char *run_reshape(run *r) {
    const onnx_tensor *const y = &r->c->outputs[0];
    r->y[0] = reshape(r, in(r, 0), y->rank, y->shape);
    return NULL;
}

static const char *run_expand(run *r) {
    const onnx_tensor *const y = &r->c->outputs[0];
    TRY(tdm_tensor_broadcast(in(r, 0), y->rank, y->shape, &r->y[0]));
    keep(r, r->y[0]);
    return NULL;
}

static const char *run_transpose(run *r) {
    const onnx_attribute *const perm = onnx_attribute_find(r->c, "perm");
    int order[TDM_MAX_RANK];
    for (int d = 0; perm != NULL && d < perm->count; d++)
        order[d] = (int)perm->numbers[d];
    r->y[0] = transpose(r, in(r, 0), perm != NULL ? order : NULL);
    return NULL;
}

/* Returns an index that may count from the end, limited to 0 … size. */
static int64_t position(double index, int64_t size) {
    const double from_start = index < 0 ? index + (double)size : index;
    return from_start < 0 ? 0 : from_start > (double)size ? size : (int64_t)from_start;
}

static const char *run_slice(run *r) {
    const onnx_tensor *const starts = input(r, 1), *const ends = input(r, 2);
    tdm_tensor *y = in(r, 0);
    for (int64_t i = 0; i < onnx_elements(starts); i++) {
        int axis = has_input(r, 3) ? (int)onnx_element(input(r, 3), i) : (int)i;
        axis += axis < 0 ? input(r, 0)->rank : 0;
        const int64_t size = tdm_tensor_dim(y, axis);
        const double step = has_input(r, 4) ? onnx_element(input(r, 4), i) : 1;
        if (step < 0)
            return "Slice with a negative step";
        const int64_t start = position(onnx_element(starts, i), size);
        const int64_t stop = position(onnx_element(ends, i), size);
        y = slice(r, y, axis, start, stop < start ? start : stop, (int64_t)step);
    }
    r->y[0] = y;
    return NULL;
}

static const char *run_split(run *r) {
    tdm_tensor *const x = in(r, 0);
    const int axis = axis_of(r, 0, tdm_tensor_rank(x));
    int64_t start = 0;
    for (int i = 0; i < r->c->output_count; i++) {
        const int64_t stop = start + r->c->outputs[i].shape[axis];
        r->y[i] = slice(r, x, axis, start, stop, 1);
        start = stop;
    }
    return NULL;
}

static const char *run_concat(run *r) {
    const tdm_tensor *parts[ONNX_OPERANDS];
    for (int i = 0; i < r->c->input_count; i++)
        parts[i] = in(r, i);
    TRY(tdm_concat(r->stream, parts, r->c->input_count, axis_of(r, 0, input(r, 0)->rank),
                   out(r, 0)));
    return NULL;
}

/* ---- gather and scatter ---- */

static const char *run_gather(run *r) {
    tdm_tensor *const table = in(r, 0), *const indices = in(r, 1);
    TRY(tdm_gather(r->stream, table, axis_of(r, 0, tdm_tensor_rank(table)), indices, out(r, 0)));
    return NULL;
}

/*
 * The last dimension of `indices` indexes the first dimensions of a tensor of this shape. *linear
 * becomes the indices of those dimensions joined to one. Indices count from the start.
 */
static const char *join_indices(run *r, const tdm_tensor *indices, const int64_t *shape,
                                tdm_tensor **linear) {
    int64_t dims[TDM_MAX_RANK];
    const int rank = tdm_tensor_rank(indices);
    for (int d = 0; d < rank; d++)
        dims[d] = tdm_tensor_dim(indices, d);
    const int count = (int)dims[rank - 1], last = rank - 1;
    int32_t strides[TDM_MAX_RANK];
    for (int k = 0; k < count; k++)
        strides[k] = (int32_t)product(shape, k + 1, count);
    tdm_tensor *const factors = send(r, TDM_S32, 1, dims + last, strides);
    tdm_tensor *const narrow = create(r, TDM_S32, rank, dims);
    TRY(tdm_tensor_convert(r->stream, indices, narrow));
    TRY(tdm_binary_op(r->stream, TDM_MUL, narrow, factors, narrow));
    *linear = create(r, TDM_S32, last, dims);
    TRY(tdm_reduce(r->stream, TDM_REDUCE_SUM, narrow, &last, 1, *linear));
    return NULL;
}

/* Returns a view with the first `count` dimensions joined. */
static tdm_tensor *join_first(run *r, const tdm_tensor *tensor, int count) {
    int64_t shape[TDM_MAX_RANK] = {1};
    const int rank = tdm_tensor_rank(tensor);
    for (int d = 0; d < rank; d++)
        if (d < count)
            shape[0] *= tdm_tensor_dim(tensor, d);
        else
            shape[d - count + 1] = tdm_tensor_dim(tensor, d);
    return reshape(r, tensor, rank - count + 1, shape);
}

static const char *gather_nd(run *r, const tdm_tensor *data, const tdm_tensor *indices,
                             const int64_t *shape, tdm_tensor *y) {
    const int count = (int)tdm_tensor_dim(indices, tdm_tensor_rank(indices) - 1);
    tdm_tensor *linear;
    PASS_ON(join_indices(r, indices, shape, &linear));
    TRY(tdm_gather(r->stream, join_first(r, data, count), 0, linear, y));
    return NULL;
}

static const char *run_gather_nd(run *r) {
    tdm_tensor *const data = in(r, 0), *const indices = in(r, 1), *const y = out(r, 0);
    const int64_t *const shape = input(r, 0)->shape;
    const int batch_dims = onnx_int(r->c, "batch_dims", 0);
    if (batch_dims == 0)
        return gather_nd(r, data, indices, shape, y);
    if (batch_dims > 1)
        return "GatherND with several batch dimensions";
    for (int64_t b = 0; b < shape[0]; b++)
        PASS_ON(gather_nd(r, entry(r, data, b), entry(r, indices, b), shape + 1, entry(r, y, b)));
    return NULL;
}

static bool has_reduction(const run *r) {
    const onnx_attribute *const reduction = onnx_attribute_find(r->c, "reduction");
    return reduction != NULL && strcmp(reduction->text, "none") != 0;
}

static const char *run_scatter_nd(run *r) {
    if (has_reduction(r))
        return "scatter with a reduction";
    tdm_tensor *const data = in(r, 0), *const indices = in(r, 1), *const updates = in(r, 2);
    const onnx_tensor *const at = input(r, 1);
    tdm_tensor *linear, *const y = out(r, 0);
    TRY(tdm_tensor_copy(r->stream, data, y));
    PASS_ON(join_indices(r, indices, input(r, 0)->shape, &linear));
    TRY(tdm_scatter(r->stream, updates, 0, linear, join_first(r, y, (int)at->shape[at->rank - 1])));
    return NULL;
}

static const char *run_scatter_elements(run *r) {
    if (has_reduction(r))
        return "scatter with a reduction";
    tdm_tensor *const data = in(r, 0), *const indices = in(r, 1), *const updates = in(r, 2);
    const onnx_tensor *const t = input(r, 0);
    const int axis = axis_of(r, 0, t->rank);
    if (product(t->shape, 0, t->rank) != t->shape[axis])
        return "ScatterElements in several dimensions";
    tdm_tensor *const y = out(r, 0);
    TRY(tdm_tensor_copy(r->stream, data, y));
    const int64_t count = onnx_elements(input(r, 1));
    TRY(tdm_scatter(r->stream, updates, axis, reshape(r, indices, 1, &count), y));
    return NULL;
}

/* ---- reductions and softmax ---- */

/* Sets the axes to those of input 1, or to none if it is absent or empty. */
static int axes_of(const run *r, int axes[TDM_MAX_RANK]) {
    const onnx_tensor *const from = input(r, 1);
    const int count = onnx_is_present(from) ? (int)onnx_elements(from) : 0;
    for (int i = 0; i < count; i++) {
        axes[i] = (int)onnx_element(from, i);
        axes[i] += axes[i] < 0 ? input(r, 0)->rank : 0;
    }
    return count;
}

static const char *run_reduce(run *r) {
    int axes[TDM_MAX_RANK];
    const int count = axes_of(r, axes);
    if (count == 0 && onnx_int(r->c, "noop_with_empty_axes", 0) != 0)
        return run_identity(r);
    if (onnx_elements(input(r, 0)) == 0 && onnx_elements(&r->c->outputs[0]) > 0 &&
        (r->parameter == TDM_REDUCE_MAX || r->parameter == TDM_REDUCE_MIN))
        return "least or greatest of no elements";
    tdm_tensor *const x = in(r, 0);
    TRY(tdm_reduce(r->stream, (tdm_reduction)r->parameter, x, count > 0 ? axes : NULL, count,
                   out(r, 0)));
    return NULL;
}

/* The index is s32, and ONNX's is s64. */
static const char *run_arg(run *r) {
    if (onnx_int(r->c, "select_last_index", 0) != 0)
        return "the last of equal elements";
    tdm_tensor *const x = in(r, 0), *const y = out(r, 0);
    const int axis = axis_of(r, 0, tdm_tensor_rank(x));
    const onnx_tensor *const t = &r->c->outputs[0];
    tdm_tensor *const indices = create(r, TDM_S32, t->rank, t->shape);
    TRY(tdm_reduce(r->stream, (tdm_reduction)r->parameter, x, &axis, 1, indices));
    TRY(tdm_tensor_convert(r->stream, indices, y));
    return NULL;
}

static const char *run_cumulative_sum(run *r) {
    tdm_tensor *const x = in(r, 0);
    const int given = (int)onnx_element(input(r, 1), 0), rank = tdm_tensor_rank(x);
    TRY(tdm_cumulative_sum(r->stream, x, given < 0 ? given + rank : given,
                           onnx_int(r->c, "exclusive", 0), onnx_int(r->c, "reverse", 0),
                           out(r, 0)));
    return NULL;
}

static const char *run_top_k(run *r) {
    tdm_tensor *const x = in(r, 0), *const values = out(r, 0), *const y = out(r, 1);
    const onnx_tensor *const t = &r->c->outputs[1];
    tdm_tensor *const indices = create(r, TDM_S32, t->rank, t->shape);
    if (onnx_int(r->c, "sorted", 1) == 0)
        return "results in any order";
    TRY(tdm_top_k(r->stream, x, axis_of(r, -1, tdm_tensor_rank(x)), onnx_int(r->c, "largest", 1),
                  values, indices));
    TRY(tdm_tensor_convert(r->stream, indices, y));
    return NULL;
}

static const char *run_softmax(run *r) {
    tdm_tensor *const x = in(r, 0);
    TRY(tdm_softmax(r->stream, x, axis_of(r, -1, tdm_tensor_rank(x)), out(r, 0)));
    return NULL;
}

/* ---- matrices ---- */

/* A vector becomes a matrix of one row (A) or of one column (B). */
static tdm_tensor *as_matrix(run *r, tdm_tensor *tensor, bool is_column) {
    if (tdm_tensor_rank(tensor) != 1)
        return tensor;
    const int64_t size = tdm_tensor_dim(tensor, 0);
    return reshape(r, tensor, 2,
                   is_column ? (const int64_t[]){size, 1} : (const int64_t[]){1, size});
}

static const char *run_matmul(run *r) {
    tdm_tensor *const a = as_matrix(r, in(r, 0), false), *const b = as_matrix(r, in(r, 1), true);
    const onnx_tensor *const t = &r->c->outputs[0];
    int64_t shape[TDM_MAX_RANK];
    int rank = t->rank;
    memcpy(shape, t->shape, sizeof shape);
    if (input(r, 0)->rank == 1) { /* the dimension before the last one */
        shape[rank] = rank > 0 && input(r, 1)->rank > 1 ? shape[rank - 1] : 1;
        if (input(r, 1)->rank > 1)
            shape[rank - 1] = 1;
        rank++;
    }
    if (input(r, 1)->rank == 1)
        shape[rank++] = 1;
    TRY(tdm_gemm(r->stream, 1, a, b, 0, NULL, reshape(r, out(r, 0), rank, shape), NULL));
    return NULL;
}

static const char *run_gemm(run *r) {
    tdm_tensor *a = in(r, 0), *b = in(r, 1), *c = in(r, 2), *const y = out(r, 0);
    if (onnx_int(r->c, "transA", 0) != 0)
        a = transpose(r, a, NULL);
    if (onnx_int(r->c, "transB", 0) != 0)
        b = transpose(r, b, NULL);
    if (c != NULL) {
        TRY(tdm_tensor_broadcast(c, 2, r->c->outputs[0].shape, &c));
        keep(r, c);
    }
    TRY(tdm_gemm(r->stream, (float)onnx_number(r->c, "alpha", 1), a, b,
                 c != NULL ? (float)onnx_number(r->c, "beta", 1) : 0, c, y, NULL));
    return NULL;
}

/* ---- quantization ---- */

/* *zero becomes the zero point in a dtype that quantization parameters may have. */
static const char *zero_point(run *r, int i, tdm_tensor **zero) {
    *zero = in(r, i);
    if (*zero == NULL || tdm_tensor_dtype(*zero) != TDM_S4)
        return NULL;
    tdm_tensor *const wide = create(r, TDM_S8, input(r, i)->rank, input(r, i)->shape);
    TRY(tdm_tensor_convert(r->stream, *zero, wide));
    *zero = wide;
    return NULL;
}

/*
 * *quantized becomes the tensor with the parameters of inputs `scale` and, if present, `zero`: one
 * for all, one for each index of the attribute `axis`, or one for each block along it.
 */
static const char *quantized_by(run *r, const tdm_tensor *tensor, int scale, int zero,
                                tdm_tensor **quantized) {
    const onnx_tensor *const t = input(r, scale);
    const int rank = tdm_tensor_rank(tensor), axis = axis_of(r, 1, rank);
    const int64_t block_size = onnx_int(r->c, "block_size", 0);
    tdm_quantization q = TDM_QUANTIZATION_INIT;
    int64_t shape[TDM_MAX_RANK];
    for (int d = 0; d < rank; d++) {
        shape[d] = block_size > 0 ? t->shape[d] : d == axis ? onnx_elements(t) : 1;
        q.block[d] = block_size > 0 ? d == axis ? block_size : 1 : 0;
    }
    if (block_size == 0 && onnx_elements(t) > 1)
        q.block[axis] = 1;
    tdm_tensor *zero_points;
    PASS_ON(zero_point(r, zero, &zero_points));
    q.scale = reshape(r, in(r, scale), rank, shape);
    q.zero_point = zero_points != NULL ? reshape(r, zero_points, rank, shape) : NULL;
    TRY(tdm_tensor_quantized(tensor, &q, quantized));
    keep(r, *quantized);
    return NULL;
}

static const char *run_quantize(run *r) {
    tdm_tensor *const x = in(r, 0);
    tdm_tensor *y;
    PASS_ON(quantized_by(r, out(r, 0), 1, 2, &y));
    TRY(tdm_tensor_quantize(r->stream, x, y));
    return NULL;
}

static const char *run_dequantize(run *r) {
    tdm_tensor *x;
    PASS_ON(quantized_by(r, in(r, 0), 1, 2, &x));
    TRY(tdm_tensor_dequantize(r->stream, x, out(r, 0)));
    return NULL;
}

static const char *run_dynamic_quantize(run *r) {
    const onnx_tensor *const t = input(r, 0);
    tdm_tensor *const x = in(r, 0);
    TRY(tdm_tensor_create_quantized(r->device, TDM_U8, t->rank, t->shape, NULL, TDM_F32, TDM_U8,
                                    &r->y[0]));
    keep(r, r->y[0]);
    TRY(tdm_tensor_quantize_minmax(r->stream, x, r->y[0]));
    tdm_quantization q = TDM_QUANTIZATION_INIT;
    TRY(tdm_tensor_quantization(r->y[0], &q));
    r->y[1] = reshape(r, q.scale, 0, NULL);
    r->y[2] = reshape(r, q.zero_point, 0, NULL);
    return NULL;
}

/* Inputs: A, scale, zero point, B, scale, zero point, scale and zero point of Y. */
static const char *run_qlinear_matmul(run *r) {
    tdm_tensor *a, *b, *y;
    PASS_ON(quantized_by(r, in(r, 0), 1, 2, &a));
    PASS_ON(quantized_by(r, in(r, 3), 4, 5, &b));
    PASS_ON(quantized_by(r, out(r, 0), 6, 7, &y));
    if (tdm_tensor_dtype(b) == TDM_U8)
        return "integer matrix B of u8";
    TRY(tdm_gemm(r->stream, 1, a, b, 0, NULL, y, NULL));
    return NULL;
}

static const char *run_matmul_integer(run *r) {
    if (input(r, 1)->dtype == TDM_U8)
        return "integer matrix B of u8";
    tdm_tensor *const one = scalar(r, TDM_F32, 1), *const y = out(r, 0);
    tdm_tensor *operands[2];
    for (int i = 0; i < 2; i++) {
        operands[i] = in(r, i);
        if (!has_input(r, 2 + i))
            continue;
        if (onnx_elements(input(r, 2 + i)) != 1)
            return "zero points of rows or columns";
        tdm_quantization q = TDM_QUANTIZATION_INIT;
        static const int64_t ones[TDM_MAX_RANK] = {1, 1, 1, 1, 1, 1, 1, 1};
        const int rank = input(r, i)->rank;
        q.scale = reshape(r, one, rank, ones);
        q.zero_point = reshape(r, in(r, 2 + i), rank, ones);
        TRY(tdm_tensor_quantized(operands[i], &q, &operands[i]));
        keep(r, operands[i]);
    }
    TRY(tdm_gemm(r->stream, 1, operands[0], operands[1], 0, NULL, y, NULL));
    return NULL;
}

/* ---- neural networks ---- */

/* The dimensions from the attribute `axis` on are one row. A reduction gives ONNX's second output,
 * the mean. No operation gives the third one, the inverse of the standard deviation. */
static const char *run_norm(run *r) {
    const onnx_tensor *const t = input(r, 0);
    const int axis = axis_of(r, -1, t->rank);
    const int64_t shape[] = {product(t->shape, 0, axis), product(t->shape, axis, t->rank)};
    tdm_norm_operands operands = TDM_NORM_OPERANDS_INIT;
    operands.scale = reshape(r, in(r, 1), 1, &shape[1]);
    if (has_input(r, 2))
        operands.bias = reshape(r, in(r, 2), 1, &shape[1]);
    tdm_tensor *const x = reshape(r, in(r, 0), 2, shape);
    tdm_tensor *const y = reshape(r, out(r, 0), 2, shape);
    TRY(tdm_norm(r->stream, (tdm_norm_kind)r->parameter, x,
                 (float)onnx_number(r->c, "epsilon", 1e-5), &operands, y));
    if (r->c->output_count > 1) {
        const int columns = 1;
        tdm_tensor *const mean = reshape(r, out(r, 1), 1, &shape[0]);
        TRY(tdm_reduce(r->stream, TDM_REDUCE_MEAN, x, &columns, 1, mean));
    }
    return NULL;
}

/* Returns [batch][heads][tokens][width] of a tensor of that shape, or a view of that shape on one
 * of [batch][tokens][heads · width]. */
static tdm_tensor *by_heads(run *r, tdm_tensor *tensor, const char *heads_attribute) {
    if (tdm_tensor_rank(tensor) == 4)
        return tensor;
    const int64_t heads = onnx_int(r->c, heads_attribute, 1);
    const int64_t shape[] = {tdm_tensor_dim(tensor, 0), tdm_tensor_dim(tensor, 1), heads,
                             tdm_tensor_dim(tensor, 2) / heads};
    return transpose(r, reshape(r, tensor, 4, shape), (const int[]){0, 2, 1, 3});
}

/*
 * Returns frequencies with which position 1 turns each pair by the cosine and sine at `row` of the
 * caches. The cases' caches are random numbers, so every pair has a magnitude of its own, which
 * tdm_rope_frequencies would not make.
 */
static tdm_tensor *frequencies_of(run *r, int64_t row, int64_t pairs) {
    static const double turn = 6.283185307179586476925286766559;
    float values[3 * 64];
    assert_true(pairs <= 64);
    for (int64_t i = 0; i < pairs; i++) {
        const double cosine = onnx_element(input(r, 1), row * pairs + i);
        const double sine = onnx_element(input(r, 2), row * pairs + i);
        const double turns = atan2(sine, cosine) / turn;
        values[i] = (float)turns;
        values[pairs + i] = (float)(turns - (double)values[i]);
        values[2 * pairs + i] = (float)hypot(cosine, sine);
    }
    return send(r, TDM_F32, 2, (const int64_t[]){3, pairs}, values);
}

/* One call for each token, because ONNX's caches are not functions of the position. */
static const char *run_rope(run *r) {
    tdm_tensor *const x = by_heads(r, in(r, 0), "num_heads");
    tdm_tensor *const y = by_heads(r, out(r, 0), "num_heads");
    const onnx_tensor *const cache = input(r, 1);
    const int64_t tokens = tdm_tensor_dim(x, 2), pairs = cache->shape[cache->rank - 1];
    const tdm_rope_pairs kind =
        onnx_int(r->c, "interleaved", 0) != 0 ? TDM_ROPE_INTERLEAVED : TDM_ROPE_HALVES;
    tdm_tensor *const position_1 = scalar(r, TDM_S32, 1);
    for (int64_t token = 0; token < tdm_tensor_dim(x, 0) * tokens; token++) {
        const int64_t b = token / tokens, i = token % tokens;
        const int64_t row = has_input(r, 3) ? (int64_t)onnx_element(input(r, 3), token) : token;
        tdm_tensor *const frequencies = frequencies_of(r, row, pairs);
        TRY(tdm_rope(r->stream, kind, slice(r, entry(r, x, b), 1, i, i + 1, 1), position_1,
                     frequencies, slice(r, entry(r, y, b), 1, i, i + 1, 1)));
    }
    return NULL;
}

/* *mask becomes what is added to the scores: 0 and -infinity for a mask of bool. Keys beyond those
 * of the mask get -infinity. */
static const char *mask_of(run *r, int64_t keys, tdm_tensor **mask) {
    *mask = in(r, 3);
    if (*mask == NULL)
        return NULL;
    const onnx_tensor *const t = input(r, 3);
    if (t->dtype == TDM_BOOL) {
        tdm_tensor *const added = create(r, TDM_F32, t->rank, t->shape);
        tdm_tensor *const zero = scalar(r, TDM_F32, 0), *const never =
                                                            scalar(r, TDM_F32, -HUGE_VAL);
        TRY(tdm_where(r->stream, *mask, zero, never, added));
        *mask = added;
    }
    int64_t shape[TDM_MAX_RANK];
    memcpy(shape, t->shape, sizeof shape);
    const int last = t->rank - 1;
    if (shape[last] >= keys)
        return NULL;
    shape[last] = keys;
    tdm_tensor *const padded = create(r, tdm_tensor_dtype(*mask), t->rank, shape);
    TRY(tdm_tensor_fill(r->stream, -HUGE_VAL, padded));
    TRY(tdm_tensor_copy(r->stream, *mask, slice(r, padded, last, 0, t->shape[last], 1)));
    *mask = padded;
    return NULL;
}

/* *cache becomes the tensor joined to input `past`, which is the output `present`. */
static const char *append_to_past(run *r, int past, int present, tdm_tensor **cache) {
    if (!has_input(r, past))
        return NULL;
    const tdm_tensor *const parts[] = {in(r, past), *cache};
    *cache = out(r, present);
    TRY(tdm_concat(r->stream, parts, 2, 2, *cache));
    return NULL;
}

/* *window becomes the window of Tandem, which is symmetric. */
static const char *window_of(const run *r, int64_t *window) {
    const int left = onnx_int(r->c, "left_window_size", -1);
    const int right = onnx_int(r->c, "right_window_size", -1);
    const bool is_causal = onnx_int(r->c, "is_causal", 0) != 0;
    *window = left + 1;
    return left == right || (left >= 0 && is_causal) ? NULL : "window of two sizes";
}

/* Inputs: Q, K, V, mask, past K, past V, lengths. No operation gives the fourth output, the
 * scores. */
static const char *run_attention(run *r) {
    tdm_tensor *const q = by_heads(r, in(r, 0), "q_num_heads");
    tdm_tensor *k = by_heads(r, in(r, 1), "kv_num_heads");
    tdm_tensor *v = by_heads(r, in(r, 2), "kv_num_heads");
    tdm_tensor *const y = by_heads(r, out(r, 0), "q_num_heads");
    tdm_attention_options options = TDM_ATTENTION_OPTIONS_INIT;
    PASS_ON(window_of(r, &options.window));
    PASS_ON(append_to_past(r, 4, 1, &k));
    PASS_ON(append_to_past(r, 5, 2, &v));
    tdm_tensor *mask;
    PASS_ON(mask_of(r, tdm_tensor_dim(k, 2), &mask));
    options.mask = mask;
    options.causal = onnx_int(r->c, "is_causal", 0);
    options.scale = onnx_number(r->c, "scale", 0);
    options.soft_cap = onnx_number(r->c, "softcap", 0);
    if (has_input(r, 6)) {
        tdm_tensor *const lengths = create(r, TDM_S32, 1, input(r, 6)->shape);
        TRY(tdm_tensor_convert(r->stream, in(r, 6), lengths));
        options.lengths = lengths;
    } else {
        options.first_query = has_input(r, 4) ? input(r, 4)->shape[2] : 0;
    }
    TRY(tdm_attention(r->stream, q, k, v, &options, y));
    return NULL;
}

/* ---- the table ---- */

/* `ran` is the number of cases that run. An operator without a function is not run yet; its
 * cases are in the file. */
typedef struct onnx_operator {
    const char *name;
    operation *function;
    int parameter;
    int ran;
} onnx_operator;

static const onnx_operator operators[] = {
    {"Abs", run_unary, TDM_ABS, 1},
    {"Add", run_binary, TDM_ADD, 4},
    {"And", run_binary, TDM_MIN, 8},
    {"ArgMax", run_arg, TDM_REDUCE_ARGMAX, 8},
    {"ArgMin", run_arg, TDM_REDUCE_ARGMIN, 8},
    {"Attention", run_attention, 0, 92},
    {"Cast", run_cast, 0, 4},
    {"CastLike", run_cast, 0, 4},
    {"Clip", run_clip, 0, 12},
    {"Concat", run_concat, 0, 12},
    {"Cos", run_unary, TDM_COS, 2},
    {"CumSum", run_cumulative_sum, 0, 2},
    {"DequantizeLinear", run_dequantize, 0, 4},
    {"Div", run_binary, TDM_DIV, 3},
    {"DynamicQuantizeLinear", run_dynamic_quantize, 0, 3},
    {"Equal", run_compare, TDM_EQUAL, 4},
    {"Erf", run_unary, TDM_ERF, 1},
    {"Exp", run_unary, TDM_EXP, 2},
    {"Expand", run_expand, 0, 2},
    {"Flatten", run_reshape, 0, 9},
    {"Floor", run_unary, TDM_FLOOR, 2},
    {"Gather", run_gather, 0, 4},
    {"GatherND", run_gather_nd, 0, 3},
    {"Gelu", run_gelu, 0, 4},
    {"Gemm", run_gemm, 0, 11},
    {"Greater", run_compare, TDM_GREATER, 4},
    {"GreaterOrEqual", run_compare, TDM_GREATER_EQUAL, 4},
    {"Identity", run_identity, 0, 1},
    {"LayerNormalization", run_norm, TDM_NORM_LAYER, 19},
    {"Less", run_compare, TDM_LESS, 4},
    {"LessOrEqual", run_compare, TDM_LESS_EQUAL, 4},
    {"Log", run_unary, TDM_LOG, 2},
    {"MatMul", run_matmul, 0, 7},
    {"MatMulInteger", run_matmul_integer, 0, 0},
    {"Max", run_binary, TDM_MAX, 8},
    {"Min", run_binary, TDM_MIN, 8},
    {"Mul", run_binary, TDM_MUL, 5},
    {"Neg", run_unary, TDM_NEG, 2},
    {"Not", run_not, 0, 3},
    {"Or", run_binary, TDM_MAX, 8},
    {"Pow", run_pow, 0, 6},
    {"QLinearMatMul", run_qlinear_matmul, 0, 4},
    {"QuantizeLinear", run_quantize, 0, 4},
    {"RMSNormalization", run_norm, TDM_NORM_RMS, 19},
    {"Reciprocal", run_reciprocal, 0, 2},
    {"ReduceMax", run_reduce, TDM_REDUCE_MAX, 8},
    {"ReduceMean", run_reduce, TDM_REDUCE_MEAN, 8},
    {"ReduceMin", run_reduce, TDM_REDUCE_MIN, 8},
    {"ReduceSum", run_reduce, TDM_REDUCE_SUM, 12},
    {"Relu", run_unary, TDM_RELU, 1},
    {"Reshape", run_reshape, 0, 10},
    {"RotaryEmbedding", run_rope, 0, 8},
    {"Round", run_unary, TDM_ROUND, 1},
    {"ScatterElements", run_scatter_elements, 0, 2},
    {"ScatterND", run_scatter_nd, 0, 1},
    {"Sigmoid", run_unary, TDM_SIGMOID, 2},
    {"Sin", run_unary, TDM_SIN, 2},
    {"Slice", run_slice, 0, 7},
    {"Softmax", run_softmax, 0, 7},
    {"Split", run_split, 0, 16},
    {"Sqrt", run_unary, TDM_SQRT, 2},
    {"Squeeze", run_reshape, 0, 2},
    {"Sub", run_binary, TDM_SUB, 5},
    {"Sum", run_binary, TDM_ADD, 3},
    {"Swish", run_swish, TDM_SILU, 1},
    {"Tanh", run_unary, TDM_TANH, 2},
    {"TopK", run_top_k, 0, 3},
    {"Transpose", run_transpose, 0, 7},
    {"Unsqueeze", run_reshape, 0, 7},
    {"Where", run_where, 0, 2},
    {"Xor", run_compare, TDM_NOT_EQUAL, 8},
};

enum {
    OPERATORS = sizeof operators / sizeof operators[0]
};

static int operator_of(const onnx_case *c) {
    for (int i = 0; i < OPERATORS; i++)
        if (strcmp(operators[i].name, c->op) == 0)
            return i;
    fail_msg("%s: no row for the operator %s", c->name, c->op);
    return -1;
}

/* ---- the comparison ---- */

/*
 * Integers and booleans are exact. ONNX's own runner allows floats 1e-7 and a thousandth; here f32
 * has a hundredth of that thousandth. The expected values of f16 and bf16 were computed in that
 * type, with a rounding after every step, so they may differ by two units in the last place, or by
 * the unit of numbers from 1/8 to 1/4 if they are smaller than that.
 */
static double tolerance(tdm_dtype dtype, double expected) {
    if (tdm_dtype_info(dtype)->kind != TDM_CLASS_FLOAT)
        return 0;
    if (dtype == TDM_F32)
        return 1e-6 + 1e-5 * fabs(expected);
    return 4 * tdm_number_roundoff(dtype) * (fabs(expected) + 0.125);
}

static bool is_near(tdm_dtype dtype, double actual, double expected) {
    if (isnan(expected))
        return isnan(actual);
    return actual == expected || fabs(actual - expected) <= tolerance(dtype, expected);
}

/* Fails the case if an output differs from the expected one. */
static void check_output(run *r, int i) {
    const onnx_tensor *const t = &r->c->outputs[i];
    const tdm_tensor *const y = r->y[i];
    bool same = tdm_tensor_dtype(y) == t->dtype && tdm_tensor_rank(y) == t->rank;
    for (int d = 0; d < t->rank; d++)
        same = same && tdm_tensor_dim(y, d) == t->shape[d];
    void *const actual = malloc(t->bytes + 1);
    assert_non_null(actual);
    if (!same) {
        r->failed = true;
        snprintf(r->text, sizeof r->text, "output %d has another shape or dtype", i);
    } else if (t->bytes > 0) {
        TEST_OK(tdm_tensor_read(r->stream, y, actual, t->bytes, NULL));
    }
    if (t->dtype == TDM_S4 && memcmp(actual, t->data, t->bytes) != 0) {
        r->failed = true;
        snprintf(r->text, sizeof r->text, "output %d differs", i);
    }
    for (int64_t e = 0; !r->failed && t->dtype != TDM_S4 && e < onnx_elements(t); e++) {
        const double got = tdm_number_get(t->dtype, actual, (size_t)e);
        if (!is_near(t->dtype, got, onnx_element(t, e))) {
            r->failed = true;
            snprintf(r->text, sizeof r->text, "output %d: element %lld is %.9g, not %.9g", i,
                     (long long)e, got, onnx_element(t, e));
        }
    }
    free(actual);
}

/* ---- the run over all cases ---- */

typedef struct tally {
    int ran[OPERATORS];
    int total, partly, failed;
    bool is_filtered;
    struct {
        char text[ONNX_TEXT];
        int count;
    } reasons[REASONS];
} tally;

static void leave_out(tally *t, const char *reason) {
    for (int i = 0; i < REASONS; i++) {
        if (t->reasons[i].count == 0)
            snprintf(t->reasons[i].text, ONNX_TEXT, "%s", reason);
        if (strcmp(t->reasons[i].text, reason) == 0) {
            t->reasons[i].count++;
            return;
        }
    }
    fail_msg("more than %d reasons", REASONS);
}

/* Tandem has no tensors of s4 with several rows of an odd number of elements. */
static bool has_odd_rows(const onnx_tensor *t) {
    return t->dtype == TDM_S4 && t->rank > 1 && t->shape[t->rank - 1] % 2 != 0;
}

static const char *run_case(run *r, int row) {
    for (int i = 0; i < ONNX_OPERANDS; i++)
        if (has_odd_rows(&r->c->inputs[i]) || has_odd_rows(&r->c->outputs[i]))
            return "s4 in rows of an odd number";
    return operators[row].function(r);
}

static void check_case(run *r, tally *t, int row) {
    const char *const reason = run_case(r, row);
    bool partly = false;
    for (int i = 0; reason == NULL && !r->failed && i < r->c->output_count; i++) {
        if (!onnx_is_present(&r->c->outputs[i]))
            continue;
        if (r->y[i] != NULL)
            check_output(r, i);
        else
            partly = true;
    }
    if (r->failed) {
        t->failed++;
        print_error("%s (%s): %s\n", r->c->name, r->c->op, r->text);
    } else if (reason != NULL) {
        leave_out(t, reason);
    } else {
        t->ran[row]++;
        t->total++;
        t->partly += partly;
        test_case_end();
    }
}

static void visit_case(const test_device *device, const onnx_case *c, tally *t) {
    const int row = operator_of(c);
    if (c->reason[0] != '\0' || operators[row].function == NULL) {
        leave_out(t, c->reason[0] != '\0' ? c->reason : "operator not run yet");
        return;
    }
    if (!test_case_begin(device, NULL, "%s", c->name)) {
        t->is_filtered = true;
        return;
    }
    run r = {.c = c,
             .device = device->device,
             .stream = device->stream,
             .parameter = operators[row].parameter};
    check_case(&r, t, row);
    for (int i = 0; i < r.owned_count; i++)
        tdm_tensor_destroy(r.owned[i]);
}

static void report(const onnx_file *file, const tally *t) {
    print_message("onnx %s: %d node cases, %d of one node, %d of covered operators\n",
                  file->version, file->package_cases, file->single_cases, file->count);
    print_message("%d ran, %d of them without an output that Tandem does not give\n", t->total,
                  t->partly);
    for (int i = 0; i < REASONS && t->reasons[i].count > 0; i++)
        print_message("%4d left out: %s\n", t->reasons[i].count, t->reasons[i].text);
}

TEST(onnx_node_cases) {
    onnx_file file;
    onnx_file_read(&file);
    int bad = 0;
    for (int d = 0; d < test_device_count(); d++) {
        tally t = {0};
        for (int i = 0; i < file.count; i++)
            visit_case(test_device_at(d), &file.cases[i], &t);
        report(&file, &t);
        bad += t.failed;
        for (int i = 0; !t.is_filtered && i < OPERATORS; i++)
            if (t.ran[i] != operators[i].ran) {
                print_error("%s: %d cases ran, not %d\n", operators[i].name, t.ran[i],
                            operators[i].ran);
                bad++;
            }
    }
    onnx_file_release(&file);
    assert_int_equal(bad, 0);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
