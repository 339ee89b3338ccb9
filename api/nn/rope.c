/* These functions make the frequencies of rotary position embeddings and turn rows by them. */
#include <math.h>

#include <tandem/nn.h>

#include "api/tensor/strided_loop.h"
#include "kernels/nn/rope_args.h"

static const double turn = 6.283185307179586; /* radians */

/* ---- frequencies ----------------------------------------------------------------------------- */

/* Checks that a number is finite and at least `least`. A NaN is not. */
static tdm_status check_number(const char *name, double value, double least) {
    if (value >= least && isfinite(value))
        return TDM_OK;
    return tdm_fail(TDM_BAD_ARGUMENT, "rope_frequencies: %s is %g, must be finite and at least %g",
                    name, value, least);
}

static tdm_status check_scaling(const tdm_rope_desc *desc) {
    const tdm_rope_scaling scaling = desc->scaling;
    switch (scaling) {
    case TDM_ROPE_SCALING_NONE:
        return TDM_OK;
    case TDM_ROPE_SCALING_LINEAR:
        return check_number("factor", desc->factor, 1);
    case TDM_ROPE_SCALING_LLAMA3:
    case TDM_ROPE_SCALING_YARN:
        break;
    default:
        return tdm_fail(TDM_BAD_ARGUMENT, "rope_frequencies: scaling %d is unknown", (int)scaling);
    }
    const bool yarn = scaling == TDM_ROPE_SCALING_YARN;
    const double few = yarn ? desc->beta_slow : desc->low_frequency;
    const double many = yarn ? desc->beta_fast : desc->high_frequency;
    TDM_TRY(check_number("factor", desc->factor, 1));
    TDM_TRY(check_number("original_context", desc->original_context, 1));
    TDM_TRY(check_number(yarn ? "beta_slow" : "low_frequency", few, 1e-6));
    TDM_TRY(check_number(yarn ? "beta_fast" : "high_frequency", many, 1e-6));
    if (few < many)
        return TDM_OK;
    return tdm_fail(TDM_BAD_ARGUMENT, "rope_frequencies: %s is %g, must be above %s, which is %g",
                    yarn ? "beta_fast" : "high_frequency", many,
                    yarn ? "beta_slow" : "low_frequency", few);
}

static tdm_status check_desc(const tdm_rope_desc *desc, int64_t pairs) {
    TDM_TRY(check_number("magnitude", desc->magnitude, 0));
    TDM_TRY(check_number("base", desc->base, 1));
    if (desc->base <= 1)
        return tdm_fail(TDM_BAD_ARGUMENT, "rope_frequencies: base is %g, must be above 1",
                        desc->base);
    TDM_TRY(check_scaling(desc));
    for (int64_t i = 0; desc->divisors && i < pairs; i++)
        if (!(desc->divisors[i] > 0) || isinf(desc->divisors[i]))
            return tdm_fail(TDM_BAD_ARGUMENT,
                            "rope_frequencies: divisor %lld is %g, must be finite and above 0",
                            (long long)i, (double)desc->divisors[i]);
    return TDM_OK;
}

static double within(double value, double least, double most) {
    return value < least ? least : value > most ? most : value;
}

/* Returns the index of the pair that turns `turns` times within the original context. */
static double pair_of(const tdm_rope_desc *desc, double turns, int64_t pairs) {
    return (double)pairs * log(desc->original_context / (turn * turns)) / log(desc->base);
}

/* Returns the share of the unscaled frequency; the rest is of the frequency divided by `factor`. */
static double unscaled_share(const tdm_rope_desc *desc, int64_t i, int64_t pairs, double radians) {
    switch (desc->scaling) {
    case TDM_ROPE_SCALING_NONE:
        return 1;
    case TDM_ROPE_SCALING_LINEAR:
        return 0;
    case TDM_ROPE_SCALING_LLAMA3:
        return within((desc->original_context * radians / turn - desc->low_frequency) /
                          (desc->high_frequency - desc->low_frequency),
                      0, 1);
    case TDM_ROPE_SCALING_YARN:
        break;
    }
    const double most = (double)(2 * pairs - 1);
    const double first = within(floor(pair_of(desc, desc->beta_fast, pairs)), 0, most);
    const double last = within(ceil(pair_of(desc, desc->beta_slow, pairs)), 0, most);
    // If both ends are equal, pairs up to that one keep their frequency.
    const double width = last > first ? last - first : 0.001;
    return 1 - within(((double)i - first) / width, 0, 1);
}

static double magnitude_of(const tdm_rope_desc *desc) {
    if (desc->magnitude > 0)
        return desc->magnitude;
    return desc->scaling == TDM_ROPE_SCALING_YARN ? 1 + 0.1 * log(desc->factor) : 1;
}

static void compute_frequencies(const tdm_rope_desc *desc, int64_t pairs, float *rows) {
    for (int64_t i = 0; i < pairs; i++) {
        const double divisor = desc->divisors ? (double)desc->divisors[i] : 1;
        const double radians = pow(desc->base, -(double)i / (double)pairs) / divisor;
        const double share = unscaled_share(desc, i, pairs, radians);
        const double scaled =
            share < 1 ? share * radians + (1 - share) * radians / desc->factor : radians;
        rows[i] = (float)(scaled / turn);
        rows[pairs + i] = (float)(scaled / turn - (double)rows[i]);
        rows[2 * pairs + i] = (float)magnitude_of(desc);
    }
}

/* Checks the tensor of frequencies: [3][pairs], f32, contiguous. */
static tdm_status check_frequencies(const char *operation, const tdm_tensor *frequencies) {
    const tdm_layout *const layout = &frequencies->layout;
    if (layout->rank != 2 || layout->shape[0] != 3 || layout->shape[1] < 1) {
        char text[TDM_SHAPE_TEXT];
        return tdm_fail(TDM_BAD_SHAPE, "%s: frequencies has shape %s, must be [3, pairs]",
                        operation, tdm_layout_text(layout, text));
    }
    if (layout->dtype != TDM_F32)
        return tdm_fail(TDM_BAD_DTYPE, "%s: frequencies is %s, must be f32", operation,
                        tdm_dtype_name(layout->dtype));
    if (!tdm_tensor_is_contiguous(frequencies))
        return tdm_fail(TDM_UNSUPPORTED, "%s: frequencies must be contiguous", operation);
    return TDM_OK;
}

tdm_status tdm_rope_frequencies(tdm_stream *stream, const tdm_rope_desc *given,
                                tdm_tensor *frequencies) {
    if (!given)
        return tdm_fail(TDM_BAD_ARGUMENT, "rope_frequencies: desc is NULL");
    tdm_rope_desc room;
    const tdm_rope_desc *const desc =
        tdm_struct_read("rope_frequencies", "desc", given, sizeof room, &room);
    if (!desc)
        return TDM_BAD_ARGUMENT;
    TDM_TRY(tdm_check_output("rope_frequencies", "frequencies", stream, frequencies));
    TDM_TRY(check_frequencies("rope_frequencies", frequencies));
    const int64_t pairs = frequencies->layout.shape[1];
    TDM_TRY(check_desc(desc, pairs));
    const size_t bytes = 3 * (size_t)pairs * sizeof(float);
    float *const rows = tdm_host_calloc(3 * (size_t)pairs, sizeof *rows);
    if (!rows)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "rope_frequencies: no host memory for %lld pairs",
                        (long long)pairs);
    compute_frequencies(desc, pairs, rows);
    const tdm_status status = tdm_tensor_write(stream, rows, bytes, NULL, frequencies);
    tdm_host_free(rows);
    return status;
}

/* ---- the loop -------------------------------------------------------------------------------- */

/* These are the parameters of the rope variants. */
enum {
    P_STORAGE = 0,
    P_WIDTH
};
enum {
    OF_Y = 0,
    OF_X,
    OF_POSITIONS,
    OPERANDS
};

typedef struct rope_problem {
    tdm_loop loop;
    int storage;
} rope_problem;

/* Makes a loop over the pairs of all rows. The steps are those between elements of a row. */
static void make_problem(rope_problem *problem, const tdm_layout *x, const tdm_layout *y,
                         const int64_t *position_strides, int64_t pairs) {
    const int last = x->rank - 1;
    tdm_dim_list outer = {.operands = OPERANDS};
    for (int d = 0; d < last; d++)
        tdm_dim_list_add(&outer, x->shape[d],
                         (const int64_t[TDM_LOOP_OPERANDS]){
                             [OF_Y] = y->strides[d],
                             [OF_X] = x->strides[d],
                             [OF_POSITIONS] = position_strides[d],
                         });
    tdm_dim_list_sort(&outer, OF_Y);
    tdm_dim_list_merge(&outer);
    *problem = (rope_problem){.storage = (int)x->dtype};
    tdm_loop *const loop = &problem->loop;
    *loop = (tdm_loop){.operands = OPERANDS,
                       .rank = outer.rank,
                       .shape = tdm_dim_list_shape(&outer),
                       .rows = tdm_dim_list_elements(&outer),
                       .inner = pairs,
                       .step = {[OF_Y] = y->strides[last], [OF_X] = x->strides[last]},
                       .unit = 1};
    for (int operand = 0; operand < OPERANDS; operand++)
        loop->strides[operand] = tdm_dim_list_strides(&outer, operand);
}

static const char *rope_supports(const void *given, const tdm_variant *variant,
                                 const tdm_device *device, char reason[TDM_REASON_TEXT]) {
    (void)device;
    (void)reason;
    const rope_problem *const problem = given;
    const int width = variant->parameters[P_WIDTH];
    if (variant->parameters[P_STORAGE] != problem->storage)
        return "the variant is for another storage type";
    if (width > 1 && (problem->loop.step[OF_X] != 1 || problem->loop.step[OF_Y] != 1))
        return "the rows are not contiguous";
    if (problem->loop.inner % width != 0)
        return "the number of pairs is not a multiple of the variant's vector";
    return NULL;
}

/* ---- the call -------------------------------------------------------------------------------- */

static tdm_status check_rows(const tdm_layout *x, const tdm_layout *y) {
    if (x->rank == 0)
        return tdm_fail(TDM_BAD_SHAPE, "rope: x has rank 0, its last dimension is turned");
    if (!tdm_layout_same_shape(x, y)) {
        char a[TDM_SHAPE_TEXT], b[TDM_SHAPE_TEXT];
        return tdm_fail(TDM_BAD_SHAPE, "rope: x has shape %s but y %s", tdm_layout_text(x, a),
                        tdm_layout_text(y, b));
    }
    if (x->dtype != y->dtype)
        return tdm_fail(TDM_BAD_DTYPE, "rope: x is %s but y is %s", tdm_dtype_name(x->dtype),
                        tdm_dtype_name(y->dtype));
    if (!tdm_is_kernel_float(x->dtype))
        return tdm_fail(TDM_UNSUPPORTED, "rope: no kernel for %s, only for f32, f16 and bf16",
                        tdm_dtype_name(x->dtype));
    return TDM_OK;
}

/* Gets the strides of positions along the dimensions of x but the last. */
static tdm_status spread_positions(const tdm_layout *positions, const tdm_layout *x,
                                   int64_t strides[TDM_MAX_RANK]) {
    tdm_layout rows = *x;
    rows.rank--;
    if (positions->dtype != TDM_S32)
        return tdm_fail(TDM_BAD_DTYPE, "rope: positions is %s, must be s32",
                        tdm_dtype_name(positions->dtype));
    if (tdm_broadcast_strides(positions, &rows, strides))
        return TDM_OK;
    char from[TDM_SHAPE_TEXT], to[TDM_SHAPE_TEXT];
    return tdm_fail(TDM_BAD_SHAPE,
                    "rope: positions of shape %s does not broadcast to the rows of x, %s",
                    tdm_layout_text(positions, from), tdm_layout_text(&rows, to));
}

static tdm_status check_rope(const tdm_stream *stream, tdm_rope_pairs pairs, const tdm_tensor *x,
                             const tdm_tensor *positions, const tdm_tensor *frequencies,
                             const tdm_tensor *y) {
    if (pairs != TDM_ROPE_INTERLEAVED && pairs != TDM_ROPE_HALVES)
        return tdm_fail(TDM_BAD_ARGUMENT, "rope: pairs %d is unknown", (int)pairs);
    TDM_TRY(tdm_check_tensor("rope", "x", stream, x));
    TDM_TRY(tdm_check_tensor("rope", "positions", stream, positions));
    TDM_TRY(tdm_check_tensor("rope", "frequencies", stream, frequencies));
    TDM_TRY(tdm_check_output("rope", "y", stream, y));
    TDM_TRY(check_rows(&x->layout, &y->layout));
    TDM_TRY(check_frequencies("rope", frequencies));
    const int64_t count = frequencies->layout.shape[1];
    const int64_t width = x->layout.shape[x->layout.rank - 1];
    if (count > width / 2)
        return tdm_fail(TDM_BAD_SHAPE, "rope: frequencies has %lld pairs, rows of x have %lld",
                        (long long)count, (long long)(width / 2));
    TDM_TRY(tdm_check_overlap("rope", "y", y, "x", x, true));
    TDM_TRY(tdm_check_overlap("rope", "y", y, "positions", positions, false));
    return tdm_check_overlap("rope", "y", y, "frequencies", frequencies, false);
}

tdm_status tdm_rope(tdm_stream *stream, tdm_rope_pairs pairs, const tdm_tensor *x,
                    const tdm_tensor *positions, const tdm_tensor *frequencies, tdm_tensor *y) {
    int64_t strides[TDM_MAX_RANK];
    TDM_TRY(check_rope(stream, pairs, x, positions, frequencies, y));
    TDM_TRY(spread_positions(&positions->layout, &x->layout, strides));
    if (tdm_layout_elements(&x->layout) == 0)
        return TDM_OK;
    rope_problem problem;
    const tdm_variant *variant;
    tdm_kernel *kernel;
    make_problem(&problem, &x->layout, &y->layout, strides, frequencies->layout.shape[1]);
    TDM_TRY(tdm_select_variant(stream->device, TDM_OP_ROPE, "rope", NULL, rope_supports, &problem,
                               NULL, 0, &variant));
    TDM_TRY(tdm_stream_kernel(stream, "rope", variant, &kernel));
    const tdm_rope_arg arg = {.width = x->layout.shape[x->layout.rank - 1],
                              .interleaved = pairs == TDM_ROPE_INTERLEAVED};
    const tdm_arg buffers[] = {tdm_arg_tensor(x), tdm_arg_tensor(positions),
                               tdm_arg_tensor(frequencies), tdm_arg_tensor(y)};
    const tdm_arg extra = tdm_arg_blob(&arg, sizeof arg);
    return tdm_loop_enqueue(stream, "rope", kernel, &problem.loop, buffers,
                            sizeof buffers / sizeof buffers[0], &extra);
}
