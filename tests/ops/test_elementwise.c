/* Unary and binary operations: every variant on every device, against the oracle.
 * ctest: device timeout=240 */
#include <string.h>

#include "api/device/core.h"
#include "api/tensor/strided_loop.h"
#include "common/op_elementwise.h"
#include "kernels/dialect/op_codes.h"
#include "quant/number_formats.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/variant_cases.h"
#include "tests/support/oracle.h"
#include "tests/support/test_array.h"
#include "tests/support/test_case.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

/* Kernels use the values of the public enums. */
_Static_assert(TDM_CODE_NEG == TDM_NEG && TDM_CODE_ABS == TDM_ABS && TDM_CODE_RELU == TDM_RELU &&
                   TDM_CODE_GELU == TDM_GELU && TDM_CODE_GELU_TANH == TDM_GELU_TANH &&
                   TDM_CODE_SILU == TDM_SILU && TDM_CODE_SIGMOID == TDM_SIGMOID &&
                   TDM_CODE_TANH == TDM_TANH && TDM_CODE_EXP == TDM_EXP &&
                   TDM_CODE_SQRT == TDM_SQRT && TDM_CODE_RSQRT == TDM_RSQRT &&
                   TDM_CODE_LOG == TDM_LOG && TDM_CODE_ERF == TDM_ERF &&
                   TDM_CODE_FLOOR == TDM_FLOOR && TDM_CODE_ROUND == TDM_ROUND &&
                   TDM_CODE_SIN == TDM_SIN && TDM_CODE_COS == TDM_COS,
               "unary codes");
_Static_assert(TDM_CODE_ADD == TDM_ADD && TDM_CODE_SUB == TDM_SUB && TDM_CODE_MUL == TDM_MUL &&
                   TDM_CODE_DIV == TDM_DIV && TDM_CODE_MIN == TDM_MIN && TDM_CODE_MAX == TDM_MAX &&
                   TDM_CODE_POW == TDM_POW,
               "binary codes");
_Static_assert(TDM_CODE_F32 == TDM_F32 && TDM_CODE_F16 == TDM_F16 && TDM_CODE_BF16 == TDM_BF16 &&
                   TDM_CODE_S32 == TDM_S32 && TDM_CODE_S8 == TDM_S8 && TDM_CODE_U8 == TDM_U8 &&
                   TDM_CODE_S64 == TDM_S64 && TDM_CODE_BOOL == TDM_BOOL,
               "dtype codes");

/* This is how an input's shape differs from the output's. */
typedef enum broadcast {
    FULL,
    ONE_ROW,    /* the first dimension is 1 */
    ONE_COLUMN, /* the last dimension is 1 */
    NO_LEADING, /* the first dimension is missing */
    SCALAR,     /* rank 0 */
    BROADCASTS
} broadcast;

static const char *const broadcast_names[BROADCASTS] = {"full", "one row", "one column",
                                                        "no leading", "scalar"};

static const char *const unary_names[] = {"?",
#define NAME(name, value, text, formula) text,
                                          TDM_UNARY_LIST(NAME)
#undef NAME
                                              "clamp"};
static const char *const binary_names[] = {"?",
#define NAME(name, value, text, formula) text,
                                           TDM_BINARY_LIST(NAME)
#undef NAME
};
enum {
    UNARY_OPS = sizeof unary_names / sizeof unary_names[0] - 1,
    CLAMP = UNARY_OPS, /* tdm_clamp, which runs the kernels of unary operations */
    BINARY_OPS = sizeof binary_names / sizeof binary_names[0] - 1
};

static op_shape shape_of_input(const op_shape *output, broadcast kind) {
    op_shape shape = *output;
    if (kind == SCALAR || shape.rank == 0)
        return (op_shape){0};
    switch (kind) {
    case ONE_ROW:
        shape.shape[0] = 1;
        break;
    case ONE_COLUMN:
        shape.shape[shape.rank - 1] = 1;
        break;
    case NO_LEADING:
        shape.rank--;
        for (int d = 0; d < shape.rank; d++)
            shape.shape[d] = shape.shape[d + 1];
        break;
    default:
        break;
    }
    return shape;
}

/* Returns the index of the input element that output element `index` uses. */
static int64_t index_under(const op_shape *input, const op_shape *output, int64_t index) {
    int64_t place = 0;
    int64_t step = 1;
    for (int d = output->rank - 1; d >= 0; d--) {
        const int64_t coordinate = index % output->shape[d];
        const int own = d - (output->rank - input->rank);
        index /= output->shape[d];
        if (own >= 0) {
            place += (input->shape[own] == 1 ? 0 : coordinate) * step;
            step *= input->shape[own];
        }
    }
    return place;
}

/* Numbers that a device may read as zero are set to zero. */
static void fill_input(test_array *array, test_data_kind kind, uint64_t seed) {
    test_array_fill(array, kind, seed);
    for (int64_t i = 0; i < test_array_count(array); i++)
        if (oracle_may_flush(array->layout.dtype, test_array_get(array, i)))
            test_array_put(array, i, 0.0);
    test_array_send(array);
}

typedef struct input {
    op_shape shape;
    broadcast kind;
    test_array array;
} input;

typedef struct problem {
    const op_shape *shape;
    tdm_dtype dtype;
    int op;
    int inputs;
    input in[2];
    test_placement placement;
    test_data_kind data;
    test_array y;
} problem;

static void create_input(input *in, const test_device *device, const problem *p, broadcast kind,
                         test_placement placement, uint64_t seed) {
    in->kind = kind;
    in->shape = shape_of_input(p->shape, kind);
    test_array_create(&in->array, device, p->dtype, in->shape.rank, in->shape.shape, placement);
    fill_input(&in->array, p->data, seed);
}

static const float clamp_low = -0.7f, clamp_high = 1.3f;

static double unary_value(int op, double x) {
    if (op == CLAMP)
        return x < (double)clamp_low    ? (double)clamp_low
               : x > (double)clamp_high ? (double)clamp_high
                                        : x;
    return oracle_unary((tdm_unary)op, x);
}

static tdm_status run(const test_device *device, problem *p) {
    if (p->inputs == 1 && p->op == CLAMP)
        return tdm_clamp(device->stream, p->in[0].array.tensor, clamp_low, clamp_high, p->y.tensor);
    return p->inputs == 1
               ? tdm_unary_op(device->stream, (tdm_unary)p->op, p->in[0].array.tensor, p->y.tensor)
               : tdm_binary_op(device->stream, (tdm_binary)p->op, p->in[0].array.tensor,
                               p->in[1].array.tensor, p->y.tensor);
}

static double expected_of(const problem *p, const double x[2]) {
    return p->inputs == 1 ? unary_value(p->op, x[0])
                          : oracle_binary((tdm_binary)p->op, p->dtype, x[0], x[1]);
}

static double bound_of(const problem *p, double x, double expected) {
    if (p->inputs == 1)
        return p->op == TDM_SQRT ? oracle_divide_bound(p->dtype, expected)
               : p->op == CLAMP  ? 0
                                 : oracle_unary_bound((tdm_unary)p->op, x, expected);
    return p->op == TDM_DIV   ? oracle_divide_bound(p->dtype, expected)
           : p->op == TDM_POW ? op_pow_bound(expected)
                              : 0;
}

static void check_element(const problem *p, int64_t i) {
    double x[2] = {0, 0};
    for (int n = 0; n < p->inputs; n++)
        x[n] = test_array_get(&p->in[n].array, index_under(&p->in[n].shape, p->shape, i));
    const bool unary = p->inputs == 1;
    const double expected = expected_of(p, x);
    const double bound = bound_of(p, x[0], expected);
    const double actual = test_array_fetched(&p->y, i);
    if (!oracle_matches(p->dtype, actual, expected, bound))
        test_case_fail("element %lld: of %.9g%s%.9g came %.9g, expected %.9g within %.3g",
                       (long long)i, x[0], unary ? ", unused " : " and ", x[1], actual, expected,
                       bound);
}

/* Variants with vectors need an output without gaps, and inputs without gaps or with one repeated
 * element. These placements guarantee that. In rows of one element, however, padding may separate
 * all elements. */
static bool must_accept(const tdm_variant *variant, const problem *p, const test_placement in[2]) {
    bool dense = !test_has_gaps(p->shape->rank, p->shape->shape, p->placement);
    for (int n = 0; n < p->inputs; n++)
        dense = dense && in[n] != TEST_TRANSPOSED && in[n] != TEST_SPREAD;
    return variant->parameters[1] == 1 || dense;
}

static void run_and_check(const test_device *device, const tdm_variant *variant, problem *p,
                          const test_placement in[2]) {
    test_array_create(&p->y, device, p->dtype, p->shape->rank, p->shape->shape, p->placement);
    test_array_send(&p->y);
    tdm_force_variant(variant->name);
    test_pass_caches(device, p->data == TEST_DATA_ANY_BITS);
    const tdm_status status = run(device, p);
    test_pass_caches(device, false);
    tdm_force_variant(NULL);
    if (status != TDM_UNSUPPORTED || must_accept(variant, p, in)) {
        TEST_OK(status);
        test_array_fetch(&p->y);
        for (int64_t i = 0; i < test_array_count(&p->y); i++)
            check_element(p, i);
        if (test_array_count(&p->y) > 0)
            test_case_end();
    }
    test_array_destroy(&p->y);
}

enum {
    F_OP,
    F_SHAPE,
    F_Y,
    F_IN_A,
    F_CAST_A,
    F_DATA,
    F_IN_B, /* the factors from here on are only for two inputs */
    F_CAST_B,
    FACTORS
};

static void one_case(const test_device *device, const tdm_variant *variant, const int row[]) {
    static const test_data_kind kinds[] = {TEST_DATA_WIDE, TEST_DATA_UNIT, TEST_DATA_ANY_BITS};
    const int inputs = variant->op == TDM_OP_UNARY ? 1 : 2;
    problem p = {.shape = &op_elementwise_shapes[row[F_SHAPE]],
                 .dtype = (tdm_dtype)variant->parameters[0],
                 .op = row[F_OP] + 1,
                 .inputs = inputs,
                 .placement = (test_placement)row[F_Y],
                 .data = kinds[row[F_DATA]]};
    const bool integer = tdm_number_roundoff(p.dtype) == 0;
    if (inputs == 2 && integer && (p.op == TDM_DIV || p.op == TDM_POW))
        return;
    const test_placement in[2] = {(test_placement)row[F_IN_A], (test_placement)row[F_IN_B]};
    const broadcast cast[2] = {(broadcast)row[F_CAST_A], (broadcast)row[F_CAST_B]};
    char text[128];
    const char *const shape = test_shape_text(p.shape->rank, p.shape->shape, text);
    const bool wanted =
        inputs == 1
            ? test_case_begin(device, variant->name, "%s y%s %s x %s %s data %d", unary_names[p.op],
                              shape, test_placement_name(p.placement), broadcast_names[cast[0]],
                              test_placement_name(in[0]), row[F_DATA])
            : test_case_begin(device, variant->name, "%s y%s %s a %s %s b %s %s data %d",
                              binary_names[p.op], shape, test_placement_name(p.placement),
                              broadcast_names[cast[0]], test_placement_name(in[0]),
                              broadcast_names[cast[1]], test_placement_name(in[1]), row[F_DATA]);
    if (!wanted)
        return;
    for (int n = 0; n < inputs; n++)
        create_input(&p.in[n], device, &p, cast[n], in[n], 17 + (uint64_t)n);
    run_and_check(device, variant, &p, in);
    for (int n = 0; n < inputs; n++)
        test_array_destroy(&p.in[n].array);
}

static void every_variant(tdm_op op, int factors, int ops) {
    const int shapes = test_is_small() ? OP_ELEMENTWISE_SMALL_SHAPES : OP_ELEMENTWISE_SHAPES;
    const int levels[FACTORS] = {ops,        shapes, TEST_PLACEMENTS, TEST_PLACEMENTS,
                                 BROADCASTS, 3,      TEST_PLACEMENTS, BROADCASTS};
    test_every_variant(op, factors, levels, one_case);
}

TEST(test_unary) {
    every_variant(TDM_OP_UNARY, F_IN_B, UNARY_OPS);
}

TEST(test_binary) {
    every_variant(TDM_OP_BINARY, FACTORS, BINARY_OPS);
}

/* ---- every exponent ---- */

enum {
    SAMPLED_BITS = 1 << 18, /* patterns of 32 bits, evenly spaced: all signs and exponents */
    SAMPLED_LINE =
        1 << 14, /* numbers from -110 to 110: exponentials underflow there, results saturate */
    SAMPLED_NEAR_ONE = 1 << 10, /* neighbours of 1, whose logarithm is small */
    SAMPLED_QUARTERS =
        1 << 14 /* f32 next to multiples of a quarter turn: sine or cosine is small */
};

/* Returns one of three neighbouring f32 near a multiple of π/2. The multiples spread up to 2^24. */
static float near_quarter(int64_t i) {
    const int64_t k = i < SAMPLED_QUARTERS / 2 ? i / 3 : i * i / 26 % 10680000;
    const float x = (float)((double)(i % 2 ? k : -k) * (acos(-1.0) / 2));
    return nextafterf(x, i % 3 == 0 ? -HUGE_VALF : i % 3 == 1 ? x : HUGE_VALF);
}

/* On a slow implementation only every `step`-th number of the sample is used. */
static int64_t sample_numbers(float *numbers, int64_t step) {
    int64_t count = 0;
    for (int64_t i = 0; i < SAMPLED_BITS; i += step) {
        const uint32_t bits = (uint32_t)i * (uint32_t)((1LL << 32) / SAMPLED_BITS) + (uint32_t)i;
        memcpy(&numbers[count], &bits, sizeof bits);
        if (isnan(numbers[count]) || oracle_may_flush(TDM_F32, (double)numbers[count]))
            numbers[count] = 0;
        count++;
    }
    for (int64_t i = 0; i < SAMPLED_LINE; i += step)
        numbers[count++] = 220.0f * (float)i / SAMPLED_LINE - 110.0f;
    for (int64_t i = 0; i < SAMPLED_NEAR_ONE; i++) /* from 1 - 2^-12 on */
        numbers[count++] = 1 - 0x1p-12f + (float)i * 0x1p-21f;
    for (int64_t i = 0; i < SAMPLED_QUARTERS; i += (step + 7) / 8)
        numbers[count++] = near_quarter(i);
    numbers[count++] = INFINITY;
    numbers[count++] = -INFINITY;
    numbers[count++] = NAN;
    return count;
}

static void check_numbers(const test_device *device, const tdm_variant *variant, int op,
                          const float *numbers, int64_t count) {
    const op_shape line = {1, {count}};
    const test_placement dense[2] = {TEST_DENSE, TEST_DENSE};
    problem p = {.shape = &line, .dtype = TDM_F32, .op = op, .inputs = 1};
    if (!test_case_begin(device, variant->name, "%s of every exponent", unary_names[op]))
        return;
    p.in[0].shape = line;
    test_array_create(&p.in[0].array, device, TDM_F32, 1, line.shape, TEST_DENSE);
    for (int64_t i = 0; i < count; i++)
        test_array_put(&p.in[0].array, i, (double)numbers[i]);
    test_array_send(&p.in[0].array);
    run_and_check(device, variant, &p, dense);
    test_array_destroy(&p.in[0].array);
}

TEST(unary_operations_keep_their_bounds_everywhere) {
    static float numbers[SAMPLED_BITS + SAMPLED_LINE + SAMPLED_NEAR_ONE + SAMPLED_QUARTERS + 3];
    const int64_t count = sample_numbers(numbers, test_is_small() ? 64 : 1);
    for (int d = 0; d < test_device_count(); d++)
        for (int v = 0; v < tdm_variant_count; v++)
            if (tdm_variants[v].op == TDM_OP_UNARY && tdm_variants[v].parameters[0] == TDM_F32 &&
                test_can_run(test_device_at(d), &tdm_variants[v]))
                for (int op = 1; op <= UNARY_OPS; op++)
                    check_numbers(test_device_at(d), &tdm_variants[v], op, numbers, count);
}

/* ---- special powers and bounds ---- */

static const float special_bases[] = {0.0f,   -0.0f,    1.0f,      -1.0f, 2.0f,  -2.0f,
                                      0.5f,   -0.5f,    -3.0f,     0.99f, 1e30f, -1e30f,
                                      1e-30f, INFINITY, -INFINITY, NAN,   10.0f, 1.0000001f};
static const float special_exponents[] = {
    0.0f,  -0.0f,  1.0f,       -1.0f,  2.0f,     -2.0f,     3.0f,        -3.0f,
    0.5f,  -0.5f,  2.5f,       33.0f,  64.0f,    1e7f,      16777215.0f, 16777216.0f,
    1e30f, -1e30f, 8388607.5f, 1e-30f, INFINITY, -INFINITY, NAN};

enum {
    SPECIAL_BASES = sizeof special_bases / sizeof special_bases[0],
    SPECIAL_EXPONENTS = sizeof special_exponents / sizeof special_exponents[0],
    SPECIAL_POWERS = SPECIAL_BASES * SPECIAL_EXPONENTS
};

/* Checks a power against C's, and the sign of a zero too. */
static void check_power(tdm_dtype dtype, double base, double exponent, double actual) {
    const double expected = pow(base, exponent);
    const bool right = oracle_matches(dtype, actual, expected, op_pow_bound(expected));
    if (!right || (expected == 0 && signbit(expected) != signbit(actual)))
        test_case_fail("pow(%.9g, %.9g) is %.9g, not %.9g", base, exponent, actual, expected);
}

static void special_powers(const test_device *device, const tdm_variant *variant) {
    const tdm_dtype dtype = (tdm_dtype)variant->parameters[0];
    test_array arrays[3];
    if (!test_case_begin(device, variant->name, "special powers"))
        return;
    for (int n = 0; n < 3; n++)
        test_array_create(&arrays[n], device, dtype, 1, DIMS(SPECIAL_POWERS), TEST_DENSE);
    for (int i = 0; i < SPECIAL_POWERS; i++) {
        test_array_put(&arrays[0], i, (double)special_bases[i % SPECIAL_BASES]);
        test_array_put(&arrays[1], i, (double)special_exponents[i / SPECIAL_BASES]);
    }
    for (int n = 0; n < 3; n++)
        test_array_send(&arrays[n]);
    tdm_force_variant(variant->name);
    TEST_OK(tdm_binary_op(device->stream, TDM_POW, arrays[0].tensor, arrays[1].tensor,
                          arrays[2].tensor));
    tdm_force_variant(NULL);
    test_array_fetch(&arrays[2]);
    for (int i = 0; i < SPECIAL_POWERS; i++)
        check_power(dtype, test_array_get(&arrays[0], i), test_array_get(&arrays[1], i),
                    test_array_fetched(&arrays[2], i));
    for (int n = 0; n < 3; n++)
        test_array_destroy(&arrays[n]);
    test_case_end();
}

static bool is_of_floats(const tdm_variant *variant) {
    return tdm_number_roundoff((tdm_dtype)variant->parameters[0]) > 0;
}

TEST(powers_of_special_numbers) {
    test_each_variant(TDM_OP_BINARY, is_of_floats, special_powers);
}

/* An infinite bound is none, and a NaN stays a NaN. */
DEVICE_TEST(clamp_to_special_bounds) {
    static const float x[] = {NAN, -INFINITY, -2.0f, 0.0f, 3.0f, INFINITY};
    static const float bounds[][2] = {
        {-INFINITY, INFINITY}, {-INFINITY, 1}, {-1, INFINITY}, {2, 2}, {INFINITY, INFINITY}};
    const int64_t count = sizeof x / sizeof x[0];
    test_array a, y;
    test_array_create(&a, device, TDM_F32, 1, &count, TEST_DENSE);
    test_array_create(&y, device, TDM_F32, 1, &count, TEST_DENSE);
    for (int64_t i = 0; i < count; i++)
        test_array_put(&a, i, (double)x[i]);
    test_array_send(&a);
    test_array_send(&y);
    for (size_t b = 0; b < sizeof bounds / sizeof bounds[0]; b++) {
        TEST_OK(tdm_clamp(device->stream, a.tensor, bounds[b][0], bounds[b][1], y.tensor));
        test_array_fetch(&y);
        for (int64_t i = 0; i < count; i++) {
            const float expected = x[i] < bounds[b][0]   ? bounds[b][0]
                                   : x[i] > bounds[b][1] ? bounds[b][1]
                                                         : x[i];
            assert_true(oracle_matches(TDM_F32, test_array_fetched(&y, i), (double)expected, 0));
        }
    }
    test_array_destroy(&a);
    test_array_destroy(&y);
}

/* ---- in place, misuse ---- */

DEVICE_TEST(in_place) {
    static const int64_t shape[] = {5, 37};
    for (int placement = 0; placement < TEST_PLACEMENTS; placement++) {
        test_array x, y;
        test_array_create(&x, device, TDM_F32, 2, shape, (test_placement)placement);
        test_array_create(&y, device, TDM_F32, 2, shape, TEST_DENSE);
        test_array_fill(&x, TEST_DATA_UNIT, 1);
        test_array_fill(&y, TEST_DATA_UNIT, 2);
        test_pass_caches(device, true);
        const tdm_status negated = tdm_unary_op(device->stream, TDM_NEG, x.tensor, x.tensor);
        const tdm_status taken =
            tdm_binary_op(device->stream, TDM_SUB, y.tensor, x.tensor, x.tensor);
        test_pass_caches(device, false);
        TEST_OK(negated);
        TEST_OK(taken);
        test_array_fetch(&x);
        for (int64_t i = 0; i < test_array_count(&x); i++) {
            const float sum = (float)test_array_get(&y, i) + (float)test_array_get(&x, i);
            assert_true(test_array_fetched(&x, i) == (double)sum);
        }
        test_array_destroy(&x);
        test_array_destroy(&y);
    }
}

/* Each shape is given as two digits: 43 means [4, 3]. */
static const struct {
    int op;
    tdm_dtype a, b, y;
    int a_shape, b_shape, y_shape;
    tdm_status status;
    const char *part;
} misuses[] = {
    {TDM_ADD, TDM_F32, TDM_F32, TDM_F32, 23, 43, 43, TDM_BAD_SHAPE,
     "add: a of shape [2, 3] does not broadcast to y of shape [4, 3]"},
    {TDM_SUB, TDM_F32, TDM_F32, TDM_F32, 43, 42, 43, TDM_BAD_SHAPE, "sub: b of shape [4, 2]"},
    {TDM_ADD, TDM_F32, TDM_F32, TDM_F32, 43, 43, 13, TDM_BAD_SHAPE, "add: a of shape [4, 3]"},
    {TDM_MUL, TDM_F32, TDM_F16, TDM_F32, 43, 43, 43, TDM_BAD_DTYPE, "mul: b is f16 but y is f32"},
    {TDM_MUL, TDM_F16, TDM_F16, TDM_F32, 43, 43, 43, TDM_BAD_DTYPE, "mul: a is f16 but y is f32"},
    {TDM_DIV, TDM_S32, TDM_S32, TDM_S32, 43, 43, 43, TDM_UNSUPPORTED,
     "integer division is not supported (s32)"},
    {TDM_POW, TDM_S8, TDM_S8, TDM_S8, 43, 43, 43, TDM_UNSUPPORTED, "pow: no kernel for s8"},
    {TDM_MAX, TDM_F64, TDM_F64, TDM_F64, 43, 43, 43, TDM_UNSUPPORTED, "max: no kernel for f64"},
    {99, TDM_F32, TDM_F32, TDM_F32, 43, 43, 43, TDM_BAD_ARGUMENT, "operation 99 is unknown"},
};

DEVICE_TEST(misuse_is_refused) {
    for (size_t i = 0; i < sizeof misuses / sizeof misuses[0]; i++) {
        const int shapes[3] = {misuses[i].a_shape, misuses[i].b_shape, misuses[i].y_shape};
        const tdm_dtype dtypes[3] = {misuses[i].a, misuses[i].b, misuses[i].y};
        test_array arrays[3];
        for (int n = 0; n < 3; n++) {
            test_array_create(&arrays[n], device, dtypes[n], 2,
                              DIMS(shapes[n] / 10, shapes[n] % 10), TEST_DENSE);
            test_array_send(&arrays[n]);
        }
        TEST_REFUSED(tdm_binary_op(device->stream, (tdm_binary)misuses[i].op, arrays[0].tensor,
                                   arrays[1].tensor, arrays[2].tensor),
                     misuses[i].status, misuses[i].part);
        test_array_expect_unchanged(&arrays[2]);
        for (int n = 0; n < 3; n++)
            test_array_destroy(&arrays[n]);
    }
}

DEVICE_TEST(null_overlap_and_unknown_are_refused) {
    test_array x, integers;
    test_array_create(&x, device, TDM_F32, 2, DIMS(6, 6), TEST_DENSE);
    test_array_create(&integers, device, TDM_S8, 2, DIMS(6, 6), TEST_DENSE);
    test_array_send(&x);
    test_array_send(&integers);
    tdm_tensor *turned, *repeated, *row;
    tdm_stream *const s = device->stream;
    TEST_OK(tdm_tensor_transpose(x.tensor, NULL, &turned));
    TEST_OK(tdm_tensor_view(x.tensor, 2, DIMS(6, 6), DIMS(0, 1), 0, &repeated));
    TEST_OK(tdm_tensor_view(x.tensor, 2, DIMS(1, 6), DIMS(6, 1), 6, &row));
    TEST_REFUSED(tdm_unary_op(s, TDM_EXP, x.tensor, turned), TDM_BAD_ARGUMENT, "y overlaps x");
    TEST_REFUSED(tdm_unary_op(s, TDM_EXP, x.tensor, repeated), TDM_BAD_ARGUMENT,
                 "y overlap in memory");
    TEST_REFUSED(tdm_binary_op(s, TDM_ADD, x.tensor, row, x.tensor), TDM_BAD_ARGUMENT,
                 "add: the output y overlaps b");
    TEST_REFUSED(tdm_binary_op(s, TDM_ADD, turned, x.tensor, x.tensor), TDM_BAD_ARGUMENT,
                 "add: the output y overlaps a");
    TEST_REFUSED(tdm_unary_op(s, TDM_RELU, integers.tensor, integers.tensor), TDM_UNSUPPORTED,
                 "relu: no kernel for s8");
    TEST_REFUSED(tdm_clamp(s, integers.tensor, 0, 1, integers.tensor), TDM_UNSUPPORTED,
                 "clamp: no kernel for s8");
    TEST_REFUSED(tdm_clamp(s, x.tensor, 2, 1.5f, x.tensor), TDM_BAD_ARGUMENT,
                 "clamp: low is 2 and high is 1.5");
    TEST_REFUSED(tdm_clamp(s, x.tensor, NAN, 1, x.tensor), TDM_BAD_ARGUMENT, "low is nan");
    TEST_REFUSED(tdm_clamp(s, x.tensor, 0, NAN, x.tensor), TDM_BAD_ARGUMENT, "high is nan");
    TEST_REFUSED(tdm_clamp(s, x.tensor, 0, 1, turned), TDM_BAD_ARGUMENT, "clamp: the output y");
    TEST_REFUSED(tdm_unary_op(s, (tdm_unary)0, x.tensor, x.tensor), TDM_BAD_ARGUMENT, "is unknown");
    TEST_REFUSED(tdm_unary_op(s, TDM_ABS, NULL, x.tensor), TDM_BAD_ARGUMENT, "abs: x is NULL");
    TEST_REFUSED(tdm_unary_op(s, TDM_ABS, x.tensor, NULL), TDM_BAD_ARGUMENT, "abs: y is NULL");
    TEST_REFUSED(tdm_unary_op(NULL, TDM_ABS, x.tensor, x.tensor), TDM_BAD_ARGUMENT, "abs: stream");
    TEST_REFUSED(tdm_binary_op(s, TDM_MIN, x.tensor, NULL, x.tensor), TDM_BAD_ARGUMENT,
                 "min: b is NULL");
    test_array_expect_unchanged(&x);
    test_array_expect_unchanged(&integers);
    tdm_tensor_destroy(turned);
    tdm_tensor_destroy(repeated);
    tdm_tensor_destroy(row);
    test_array_destroy(&x);
    test_array_destroy(&integers);
}

TEST(caches_in_reach_of_a_few_cores) {
    const double mebibyte = 1 << 20;
    tdm_device device = {.info = {.cache_bytes = 480 << 20, .compute_units = 2}};
    assert_false(tdm_exceeds_caches(&device, 480 * mebibyte));
    assert_true(tdm_exceeds_caches(&device, 481 * mebibyte));
    device.info.capabilities = TDM_CAP_CPU_CORES;
    assert_false(tdm_exceeds_caches(&device, 32 * mebibyte));
    assert_true(tdm_exceeds_caches(&device, 33 * mebibyte));
    device.info.compute_units = 64;
    assert_false(tdm_exceeds_caches(&device, 480 * mebibyte));
    assert_true(tdm_exceeds_caches(&device, 481 * mebibyte));
    device.info.cache_bytes = 0;
    assert_false(tdm_exceeds_caches(&device, 481 * mebibyte));
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
