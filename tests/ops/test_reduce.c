/* Reductions: every variant on every device, against the oracle.
 * ctest: device timeout=240 */
#include <math.h>
#include <stdlib.h>

#include "api/device/core.h"
#include "common/op_reduce.h"
#include "kernels/dialect/op_codes.h"
#include "quant/number_formats.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/variant_cases.h"
#include "tests/support/oracle.h"
#include "tests/support/test_array.h"
#include "tests/support/test_case.h"

_Static_assert(TDM_CODE_REDUCE_SUM == TDM_REDUCE_SUM && TDM_CODE_REDUCE_MEAN == TDM_REDUCE_MEAN &&
                   TDM_CODE_REDUCE_MAX == TDM_REDUCE_MAX && TDM_CODE_REDUCE_MIN == TDM_REDUCE_MIN,
               "reduction codes");

static const char *const reduction_names[] = {"?",
#define NAME(name, value, text, meaning) text,
                                              TDM_REDUCE_LIST(NAME)
#undef NAME
};

static bool gives_index(tdm_reduction op) {
    return op == TDM_REDUCE_ARGMAX || op == TDM_REDUCE_ARGMIN;
}

typedef struct problem {
    const op_reduce_case *shape;
    tdm_dtype dtype;
    tdm_reduction op;
    test_data_kind data;
    test_array x, y;
    int axes[TDM_MAX_RANK];
    int axis_count;
    bool equal; /* every element is 0.1: rounding errors of a long sum add up */
} problem;

/* The oracle's totals for one output. */
typedef struct gathered {
    double sum, magnitude, largest, smallest;
    int64_t count, first_largest, first_smallest;
    bool nan;
} gathered;

/* ---- shapes ---- */

static void output_shape(const op_reduce_case *c, int *rank, int64_t shape[TDM_MAX_RANK]) {
    *rank = 0;
    for (int d = 0; d < c->rank; d++)
        if ((c->axes >> d & 1) == 0)
            shape[(*rank)++] = c->shape[d];
        else if (c->keep)
            shape[(*rank)++] = 1;
}

/* Splits a row-major index of x into the index of the output and the index among the elements
 * reduced to it. */
static void split_index(const op_reduce_case *c, int64_t index, int64_t *output, int64_t *reduced) {
    int64_t output_step = 1;
    int64_t reduced_step = 1;
    *output = 0;
    *reduced = 0;
    for (int d = c->rank - 1; d >= 0; d--) {
        const int64_t coordinate = index % c->shape[d];
        index /= c->shape[d];
        if ((c->axes >> d & 1) != 0) {
            *reduced += coordinate * reduced_step;
            reduced_step *= c->shape[d];
        } else {
            *output += coordinate * output_step;
            output_step *= c->shape[d];
        }
    }
}

/* ---- the oracle ---- */

static void gather(gathered *g, double x, int64_t index) {
    const bool first = g->count++ == 0;
    g->sum += x;
    g->magnitude += fabs(x);
    if (isnan(x)) {
        g->first_largest = g->nan ? g->first_largest : index;
        g->first_smallest = g->nan ? g->first_smallest : index;
        g->nan = true;
    } else if (!g->nan) {
        g->first_largest = first || x > g->largest ? index : g->first_largest;
        g->first_smallest = first || x < g->smallest ? index : g->first_smallest;
    }
    g->largest = first || x > g->largest ? x : g->largest;
    g->smallest = first || x < g->smallest ? x : g->smallest;
}

static double wrapped(double sum) {
    return (double)(int32_t)(uint32_t)(uint64_t)(int64_t)sum;
}

static void expected_of(const problem *p, const gathered *g, double *expected, double *bound) {
    const double roundings = OP_SUM_ROUNDINGS * 0x1p-24 * g->magnitude;
    *expected = (double)NAN;
    *bound = 0;
    switch (p->op) {
    case TDM_REDUCE_SUM:
        *expected = p->dtype == TDM_S32 ? wrapped(g->sum) : g->sum;
        *bound = p->dtype == TDM_S32 || !isfinite(g->sum) ? 0 : roundings;
        break;
    case TDM_REDUCE_MEAN:
        *expected = g->sum / (double)g->count;
        *bound = isfinite(g->sum) ? roundings / (double)g->count + 0x1p-22 * fabs(*expected) : 0;
        break;
    case TDM_REDUCE_MAX:
        *expected = g->nan ? (double)NAN : g->largest;
        break;
    case TDM_REDUCE_MIN:
        *expected = g->nan ? (double)NAN : g->smallest;
        break;
    case TDM_REDUCE_ARGMAX:
        *expected = (double)g->first_largest;
        break;
    case TDM_REDUCE_ARGMIN:
        *expected = (double)g->first_smallest;
        break;
    }
    /* Sums of small integers are exact in any order. */
    if (p->data == TEST_DATA_SMALL_INTEGER && p->op == TDM_REDUCE_SUM)
        *bound = 0;
}

static void check(const problem *p) {
    const int64_t outputs = test_array_count(&p->y);
    gathered *const all = calloc((size_t)outputs + 1, sizeof *all);
    assert_non_null(all);
    for (int64_t i = 0; i < test_array_count(&p->x); i++) {
        int64_t output, reduced;
        split_index(p->shape, i, &output, &reduced);
        gather(&all[output], test_array_get(&p->x, i), reduced);
    }
    for (int64_t o = 0; o < outputs; o++) {
        double expected, bound;
        expected_of(p, &all[o], &expected, &bound);
        const double actual = test_array_fetched(&p->y, o);
        if (!oracle_matches(p->y.layout.dtype, actual, expected, bound)) {
            free(all);
            test_case_fail("output %lld is %.9g, expected %.9g within %.3g", (long long)o, actual,
                           expected, bound);
        }
    }
    free(all);
}

/* ---- cases ---- */

/* Puts NaNs and infinities in some positions, but nothing that a device may flush. */
static void fill(problem *p, uint64_t seed) {
    const bool is_float = tdm_number_roundoff(p->dtype) != 0;
    test_array_fill(&p->x, p->data == TEST_DATA_ANY_BITS && is_float ? TEST_DATA_UNIT : p->data,
                    seed);
    test_random random = {seed};
    const int64_t count = test_array_count(&p->x);
    for (int64_t i = 0; i < count && p->equal; i++)
        test_array_put(&p->x, i, 0.1);
    for (int n = 0; n < 3 && p->data == TEST_DATA_ANY_BITS && is_float && count > 0; n++) {
        static const double specials[] = {NAN, HUGE_VAL, -HUGE_VAL};
        test_array_put(&p->x, test_random_int(&random, 0, count - 1), specials[n]);
    }
    test_array_send(&p->x);
}

static tdm_status run(const test_device *device, problem *p) {
    p->axis_count = 0;
    /* The axes are in reverse order, because their order must not matter. */
    for (int d = p->shape->rank - 1; d >= 0; d--)
        if ((p->shape->axes >> d & 1) != 0)
            p->axes[p->axis_count++] = d;
    return tdm_reduce(device->stream, p->op, p->x.tensor, p->axis_count > 0 ? p->axes : NULL,
                      p->axis_count, p->y.tensor);
}

/* Returns true if a variant must accept a problem. Variants with one lane accept every layout.
 * Variants with more lanes accept x and y without gaps; those with work-groups accept one
 * contiguous run of elements. */
static bool must_accept(const tdm_variant *variant, const problem *p, test_placement x,
                        test_placement y) {
    const bool dense = x == TEST_DENSE && y == TEST_DENSE;
    const unsigned last = p->shape->rank > 0 ? 1u << (p->shape->rank - 1) : 0;
    const bool last_is_reduced = p->shape->rank == 0 || (p->shape->axes & last) != 0;
    if (variant->parameters[1] == 1)
        return true;
    if (variant->op == TDM_OP_REDUCE && variant->parameters[2] == 2)
        return dense && !last_is_reduced;
    const bool in_a_group = variant->parameters[2] == 3;
    const unsigned all = (1u << p->shape->rank) - 1;
    return dense && last_is_reduced &&
           (!in_a_group || p->shape->axes == last || p->shape->axes == all);
}

enum {
    F_OP,
    F_CASE,
    F_X,
    F_Y,
    F_DATA,
    FACTORS
};

static void run_case(const test_device *device, const tdm_variant *variant, problem *p,
                     test_placement x, test_placement y) {
    int rank;
    int64_t shape[TDM_MAX_RANK];
    output_shape(p->shape, &rank, shape);
    test_array_create(&p->x, device, p->dtype, p->shape->rank, p->shape->shape, x);
    test_array_create(&p->y, device, gives_index(p->op) ? TDM_S32 : p->dtype, rank, shape, y);
    fill(p, 5);
    test_array_send(&p->y);
    tdm_force_variant(variant->name);
    const tdm_status status = run(device, p);
    tdm_force_variant(NULL);
    if (status != TDM_UNSUPPORTED || must_accept(variant, p, x, y)) {
        TEST_OK(status);
        test_array_fetch(&p->y);
        check(p);
        test_case_end();
    }
    test_array_destroy(&p->x);
    test_array_destroy(&p->y);
}

static bool is_possible(const problem *p) {
    int axes = 0;
    for (int d = 0; d < p->shape->rank; d++)
        axes += (int)(p->shape->axes >> d & 1);
    const bool some_axes = axes > 1 && axes < p->shape->rank;
    return !(p->op == TDM_REDUCE_MEAN && p->dtype == TDM_S32) && !(gives_index(p->op) && some_axes);
}

static void one_case(const test_device *device, const tdm_variant *variant, const int row[]) {
    static const test_data_kind kinds[] = {TEST_DATA_UNIT, TEST_DATA_SMALL_INTEGER,
                                           TEST_DATA_ANY_BITS};
    problem p = {.shape = &op_reduce_cases[row[F_CASE]],
                 .dtype = (tdm_dtype)variant->parameters[0],
                 .op = variant->op == TDM_OP_ARGMAX ? (tdm_reduction)(TDM_REDUCE_ARGMAX + row[F_OP])
                                                    : (tdm_reduction)(row[F_OP] + 1),
                 .data = kinds[row[F_DATA]]};
    const test_placement x = (test_placement)row[F_X];
    const test_placement y = (test_placement)row[F_Y];
    char text[128];
    if (is_possible(&p) &&
        test_case_begin(device, variant->name, "%s x%s axes 0x%x keep %d x %s y %s data %d",
                        reduction_names[p.op], test_shape_text(p.shape->rank, p.shape->shape, text),
                        p.shape->axes, p.shape->keep, test_placement_name(x),
                        test_placement_name(y), row[F_DATA]))
        run_case(device, variant, &p, x, y);
}

static void every_variant(tdm_op op, int ops) {
    const int cases = test_is_small() ? OP_REDUCE_SMALL_CASES : OP_REDUCE_CASES;
    const int levels[FACTORS] = {ops, cases, TEST_PLACEMENTS, TEST_PLACEMENTS, 3};
    test_every_variant(op, FACTORS, levels, one_case);
}

TEST(test_reduce) {
    every_variant(TDM_OP_REDUCE, 4);
}

TEST(test_argmax_and_argmin) {
    every_variant(TDM_OP_ARGMAX, 2);
}

static bool adds_floats(const tdm_variant *row) {
    return row->parameters[0] != TDM_S32;
}

static void add_equal_terms(const test_device *device, const tdm_variant *row) {
    static const op_reduce_case long_cases[] = {{2, {3, 65537}, 2, 0},
                                                {2, {40009, 3}, 1, 0},
                                                {3, {40, 2, 1009}, 5, 0},
                                                {1, {1 << 20}, 1, 0}},
                                small_cases[] = {{2, {3, 4099}, 2, 0}, {2, {4099, 3}, 1, 0}};
    const op_reduce_case *const some = test_is_small() ? small_cases : long_cases;
    for (int i = 0; i < (test_is_small() ? 4 : 8); i++) {
        problem p = {.shape = &some[i / 2],
                     .dtype = (tdm_dtype)row->parameters[0],
                     .op = i % 2 == 0 ? TDM_REDUCE_SUM : TDM_REDUCE_MEAN,
                     .data = TEST_DATA_UNIT,
                     .equal = true};
        char text[128];
        if (test_case_begin(device, row->name, "%s x%s of equal terms", reduction_names[p.op],
                            test_shape_text(p.shape->rank, p.shape->shape, text)))
            run_case(device, row, &p, TEST_DENSE, TEST_DENSE);
    }
}

/* Reduces rows, columns, parts and the whole tensor. */
TEST(equal_terms) {
    test_each_variant(TDM_OP_REDUCE, adds_floats, add_equal_terms);
}

/* ---- properties ---- */

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

DEVICE_TEST(the_same_bits_on_every_run) {
    test_array x, y;
    test_array_create(&x, device, TDM_F32, 2, DIMS(5, 40009), TEST_DENSE);
    test_array_create(&y, device, TDM_F32, 1, DIMS(5), TEST_DENSE);
    test_array_fill(&x, TEST_DATA_WIDE, 3);
    uint32_t first[5] = {0};
    for (int run_index = 0; run_index < 3; run_index++) {
        test_array_send(&y);
        TEST_OK(
            tdm_reduce(device->stream, TDM_REDUCE_SUM, x.tensor, (const int[]){1}, 1, y.tensor));
        test_array_fetch(&y);
        for (int i = 0; i < 5; i++) {
            const uint32_t bits = *(const uint32_t *)test_array_fetched_bits(&y, i);
            first[i] = run_index == 0 ? bits : first[i];
            assert_int_equal(bits, first[i]);
        }
    }
    test_array_destroy(&x);
    test_array_destroy(&y);
}

/* The call is recorded, because a recording gets no memory for partial results. Every work-item
 * then covers a block and more. */
static double in_one_launch(const test_device *device, tdm_reduction op, const test_array *x) {
    tdm_graph *graph;
    test_array y;
    test_array_create(&y, device, gives_index(op) ? TDM_S32 : x->layout.dtype, 0, NULL, TEST_DENSE);
    test_array_send(&y);
    TEST_OK(tdm_reduce(device->stream, op, x->tensor, NULL, 0, y.tensor)); // builds the kernel
    TEST_OK(tdm_stream_begin_recording(device->stream));
    TEST_OK(tdm_reduce(device->stream, op, x->tensor, NULL, 0, y.tensor));
    TEST_OK(tdm_stream_end_recording(device->stream, &graph));
    TEST_OK(tdm_graph_launch(graph, device->stream));
    test_array_fetch(&y);
    const double result = test_array_fetched(&y, 0);
    tdm_graph_destroy(graph);
    test_array_destroy(&y);
    return result;
}

static void check_long_row(const test_device *device, tdm_dtype dtype, test_placement place) {
    const bool traversals = (device->info.capabilities & TDM_CAP_CUDA) || !test_is_small();
    const int64_t count = traversals ? 65539 : 1031, first = count / 2 + 1 - count / 2 % 2;
    test_array x;
    test_array_create(&x, device, dtype, 1, DIMS(count), place);
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        test_array_put(&x, i, i >= first && i % 2 == 1 ? 7 : (double)(i % 5) - 2);
        sum += test_array_get(&x, i);
    }
    test_array_send(&x);
    assert_true(in_one_launch(device, TDM_REDUCE_ARGMAX, &x) == (double)first);
    assert_true(in_one_launch(device, TDM_REDUCE_MAX, &x) == 7);
    assert_true(in_one_launch(device, TDM_REDUCE_ARGMIN, &x) == 0);
    if (dtype == TDM_F32 || dtype == TDM_S32)
        assert_true(in_one_launch(device, TDM_REDUCE_SUM, &x) == sum);
    test_array_destroy(&x);
}

DEVICE_TEST(long_rows_in_one_launch) {
    const tdm_dtype types[] = {TDM_F32, TDM_F16, TDM_BF16, TDM_S32};
    for (int i = 0; i < 4; i++) {
        check_long_row(device, types[i], TEST_DENSE);
        check_long_row(device, types[i], TEST_OFFSET);
    }
}

DEVICE_TEST(over_nothing) {
    test_array x, y;
    test_array_create(&x, device, TDM_F32, 2, DIMS(0, 3), TEST_DENSE);
    test_array_create(&y, device, TDM_F32, 1, DIMS(3), TEST_DENSE);
    const int axis[] = {0};
    test_array_send(&y);
    TEST_REFUSED(tdm_reduce(device->stream, TDM_REDUCE_MAX, x.tensor, axis, 1, y.tensor),
                 TDM_BAD_SHAPE, "max: x has no elements along the reduced axes");
    TEST_REFUSED(tdm_reduce(device->stream, TDM_REDUCE_MIN, x.tensor, axis, 1, y.tensor),
                 TDM_BAD_SHAPE, "min: x has no elements");
    test_array_expect_unchanged(&y);
    TEST_OK(tdm_reduce(device->stream, TDM_REDUCE_SUM, x.tensor, axis, 1, y.tensor));
    test_array_fetch(&y);
    assert_true(test_array_fetched(&y, 0) == 0 && test_array_fetched(&y, 2) == 0);
    TEST_OK(tdm_reduce(device->stream, TDM_REDUCE_MEAN, x.tensor, axis, 1, y.tensor));
    test_array_fetch(&y);
    assert_true(isnan(test_array_fetched(&y, 0)) && isnan(test_array_fetched(&y, 2)));
    test_array_destroy(&x);
    test_array_destroy(&y);
}

/* ---- misuse ---- */

/* x is [4, 6, 5]. The shape of y is given as digits: 45 means [4, 5]. */
static const struct {
    tdm_dtype x, y;
    int y_shape, axis_count, axes[2], op;
    tdm_status status;
    const char *part;
} misuses[] = {
    {TDM_F32, TDM_F32, 45, 1, {3}, TDM_REDUCE_SUM, TDM_BAD_ARGUMENT, "axis 3 is outside the rank"},
    {TDM_F32, TDM_F32, 45, 1, {-1}, TDM_REDUCE_SUM, TDM_BAD_ARGUMENT, "sum: axis -1 is outside"},
    {TDM_F32, TDM_F32, 4, 2, {1, 1}, TDM_REDUCE_MAX, TDM_BAD_ARGUMENT, "axis 1 is given twice"},
    {TDM_F32, TDM_F32, 45, -1, {1}, TDM_REDUCE_SUM, TDM_BAD_ARGUMENT, "axis_count is -1"},
    {TDM_F32, TDM_F32, 46, 1, {1}, TDM_REDUCE_SUM, TDM_BAD_SHAPE, "[4, 6] must be x's shape [4, 6"},
    {TDM_F32, TDM_F32, 425, 1, {1}, TDM_REDUCE_SUM, TDM_BAD_SHAPE, "y of shape [4, 2, 5]"},
    {TDM_F32, TDM_F32, 4, 1, {1}, TDM_REDUCE_SUM, TDM_BAD_SHAPE, "y of shape [4]"},
    {TDM_F32, TDM_F32, 35, 1, {1}, TDM_REDUCE_SUM, TDM_BAD_SHAPE, "y of shape [3, 5]"},
    {TDM_F32, TDM_F32, 55, 1, {1}, TDM_REDUCE_SUM, TDM_BAD_SHAPE, "y of shape [5, 5]"},
    {TDM_F32, TDM_F32, 465, 1, {0}, TDM_REDUCE_SUM, TDM_BAD_SHAPE, "y of shape [4, 6, 5]"},
    {TDM_F32, TDM_F16, 45, 1, {1}, TDM_REDUCE_SUM, TDM_BAD_DTYPE, "sum: y is f16, must be f32"},
    {TDM_F32, TDM_F32, 45, 1, {1}, TDM_REDUCE_ARGMAX, TDM_BAD_DTYPE, "y is f32, must be s32"},
    {TDM_S8, TDM_S8, 45, 1, {1}, TDM_REDUCE_SUM, TDM_UNSUPPORTED, "sum: no kernel for s8"},
    {TDM_F64, TDM_F64, 45, 1, {1}, TDM_REDUCE_MAX, TDM_UNSUPPORTED, "max: no kernel for f64"},
    {TDM_S32,
     TDM_S32,
     45,
     1,
     {1},
     TDM_REDUCE_MEAN,
     TDM_UNSUPPORTED,
     "mean: the mean of s32 is not"},
    {TDM_F32,
     TDM_S32,
     4,
     2,
     {1, 2},
     TDM_REDUCE_ARGMAX,
     TDM_UNSUPPORTED,
     "argmax: axis_count is 2 of 3 axes"},
    {TDM_F32, TDM_F32, 45, 1, {1}, 77, TDM_BAD_ARGUMENT, "reduce: operation 77 is unknown"},
};

DEVICE_TEST(misuse_is_refused) {
    for (size_t i = 0; i < sizeof misuses / sizeof misuses[0]; i++) {
        const int digits = misuses[i].y_shape, rank = digits > 99 ? 3 : digits > 9 ? 2 : 1;
        const int64_t shape[3] = {digits / 100, digits / 10 % 10, digits % 10};
        test_array x, y;
        test_array_create(&x, device, misuses[i].x, 3, DIMS(4, 6, 5), TEST_DENSE);
        test_array_create(&y, device, misuses[i].y, rank, shape + 3 - rank, TEST_DENSE);
        test_array_send(&y);
        TEST_REFUSED(tdm_reduce(device->stream, (tdm_reduction)misuses[i].op, x.tensor,
                                misuses[i].axes, misuses[i].axis_count, y.tensor),
                     misuses[i].status, misuses[i].part);
        test_array_expect_unchanged(&y);
        test_array_destroy(&x);
        test_array_destroy(&y);
    }
}

DEVICE_TEST(null_and_overlap_are_refused) {
    test_array x;
    test_array_create(&x, device, TDM_F32, 2, DIMS(4, 6), TEST_DENSE);
    test_array_send(&x);
    tdm_tensor *inside, *repeated;
    TEST_OK(tdm_tensor_view(x.tensor, 1, DIMS(4), DIMS(1), 2, &inside));
    TEST_OK(tdm_tensor_view(x.tensor, 1, DIMS(4), DIMS(0), 0, &repeated));
    static const int axis[] = {1};
    const struct {
        tdm_stream *stream;
        const tdm_tensor *x;
        const int *axes;
        tdm_tensor *y;
        const char *part;
    } rows[] = {
        {device->stream, x.tensor, axis, inside, "sum: the output y overlaps x"},
        {device->stream, x.tensor, axis, repeated, "of the output y overlap in memory"},
        {device->stream, NULL, axis, inside, "sum: x is NULL"},
        {device->stream, x.tensor, axis, NULL, "sum: y is NULL"},
        {NULL, x.tensor, axis, inside, "sum: stream is NULL"},
        {device->stream, x.tensor, NULL, inside, "axes is NULL"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        TEST_REFUSED(
            tdm_reduce(rows[i].stream, TDM_REDUCE_SUM, rows[i].x, rows[i].axes, 1, rows[i].y),
            TDM_BAD_ARGUMENT, rows[i].part);
    test_array_expect_unchanged(&x);
    tdm_tensor_destroy(inside);
    tdm_tensor_destroy(repeated);
    test_array_destroy(&x);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
