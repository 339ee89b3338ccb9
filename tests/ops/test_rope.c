/* Every variant of the rotary embedding is compared with the oracle on every device, and the
 * frequencies of each scaling with formulas of their own.
 * ctest: device timeout=240 */
#include <math.h>

#include <tandem/nn.h>

#include "api/device/core.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/variant_cases.h"
#include "tests/support/oracle.h"
#include "tests/support/test_array.h"
#include "tests/support/test_case.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

static const double pi = 3.14159265358979323846;

/* Slow implementations use only the first shapes. The positions have the shape of x without its
 * last dimension, but dimension `shared` is 1 (-1: none is). */
typedef struct rope_shape {
    int rank;
    int64_t shape[TDM_MAX_RANK];
    int64_t pairs;
    int shared;
} rope_shape;

static const rope_shape shapes[] = {
    {2, {3, 16}, 8, -1},      {3, {5, 2, 32}, 16, 1},
    {3, {2, 5, 18}, 9, 0},    {1, {7}, 2, -1},
    {3, {4, 0, 6}, 3, -1},    {4, {2, 3, 2, 40}, 16, 2},
    {3, {33, 4, 64}, 32, 1},  {2, {9, 80}, 40, -1},
    {3, {6, 3, 128}, 32, 1},  {5, {2, 1, 3, 2, 6}, 3, 3},
    {3, {1, 8, 256}, 128, 1},
};

enum {
    SHAPES = sizeof shapes / sizeof shapes[0],
    SMALL_SHAPES = 5
};

/* Positions start at 0, reach 2^24, or have both signs. */
typedef enum position_set {
    FEW,
    FAR,
    SIGNED,
    POSITION_SETS
} position_set;

static const char *const position_names[POSITION_SETS] = {"few", "far", "signed"};

static int32_t position_at(position_set set, int64_t i) {
    const int32_t few = (int32_t)(i % 4096);
    if (set == FAR)
        return (1 << 24) - 977 * few;
    return set == SIGNED && i % 2 ? -131071 + few : few;
}

typedef struct problem {
    const rope_shape *shape;
    tdm_rope_pairs pairs;
    tdm_dtype dtype;
    position_set set;
    bool in_place;
    test_array x, y, positions;
    tdm_tensor *frequencies;
} problem;

static const double magnitude = 1.25;

static void make_frequencies(const test_device *device, problem *p) {
    tdm_rope_desc desc = TDM_ROPE_DESC_INIT;
    desc.magnitude = magnitude;
    TEST_OK(
        tdm_tensor_create(device->device, TDM_F32, 2, DIMS(3, p->shape->pairs), &p->frequencies));
    TEST_OK(tdm_rope_frequencies(device->stream, &desc, p->frequencies));
}

/* Returns the position of a row of x, by the row's row-major index. */
static double position_of(const problem *p, int64_t row) {
    const rope_shape *const s = p->shape;
    int64_t index = 0, stride = 1;
    for (int d = s->rank - 2; d >= 0; d--) {
        if (d != s->shared) {
            index += row % s->shape[d] * stride;
            stride *= s->shape[d];
        }
        row /= s->shape[d];
    }
    return test_array_get(&p->positions, index);
}

/*
 * u = 2^-24. The angle has an error of at most 4 u radians: the rounding of a half turn, 3.2 u, and
 * smaller ones of the frequency. Sine and cosine have 3 u more, and three roundings follow.
 */
static void check_pair(const problem *p, const test_array *y, int64_t row, int64_t i) {
    const int64_t width = p->shape->shape[p->shape->rank - 1];
    const bool halves = p->pairs == TDM_ROPE_HALVES;
    const int64_t first = row * width + (halves ? i : 2 * i);
    const int64_t second = row * width + (halves ? i + p->shape->pairs : 2 * i + 1);
    const double a = test_array_get(&p->x, first), b = test_array_get(&p->x, second);
    const double angle = position_of(p, row) * pow(10000, -(double)i / (double)p->shape->pairs);
    const double results[2] = {(a * cos(angle) - b * sin(angle)) * magnitude,
                               (b * cos(angle) + a * sin(angle)) * magnitude};
    const double bound = 12 * 0x1p-24 * (fabs(a) + fabs(b)) * magnitude + 0x1p-126;
    for (int k = 0; k < 2; k++) {
        const double actual = test_array_fetched(y, k ? second : first);
        if (!oracle_matches(p->dtype, actual, results[k], bound))
            test_case_fail("pair %lld of row %lld, element %d is %.9g, expected %.9g within %.3g",
                           (long long)i, (long long)row, k, actual, results[k], bound);
    }
}

static void check(const problem *p, const test_array *y) {
    const int64_t width = p->shape->shape[p->shape->rank - 1];
    for (int64_t row = 0; width > 0 && row < test_array_count(y) / width; row++) {
        for (int64_t i = 0; i < p->shape->pairs; i++)
            check_pair(p, y, row, i);
        for (int64_t k = 2 * p->shape->pairs; k < width; k++)
            if (test_array_fetched(y, row * width + k) != test_array_get(&p->x, row * width + k))
                test_case_fail("element %lld of row %lld is not copied", (long long)k,
                               (long long)row);
    }
}

static void run_rope(const test_device *device, const tdm_variant *variant, problem *p,
                     bool must_accept) {
    test_array *const y = p->in_place ? &p->x : &p->y;
    tdm_force_variant(variant->name);
    const tdm_status status = tdm_rope(device->stream, p->pairs, p->x.tensor, p->positions.tensor,
                                       p->frequencies, y->tensor);
    tdm_force_variant(NULL);
    if (status == TDM_UNSUPPORTED && !must_accept)
        return;
    TEST_OK(status);
    test_array_fetch(y);
    check(p, y);
    if (test_array_count(y) > 0)
        test_case_end();
}

enum {
    F_SHAPE,
    F_PAIRS,
    F_X,
    F_Y,
    F_POSITIONS, /* placement */
    F_SET,
    F_IN_PLACE,
    FACTORS
};

static void one_case(const test_device *device, const tdm_variant *variant, const int row[]) {
    problem p = {.shape = &shapes[row[F_SHAPE]],
                 .pairs = row[F_PAIRS] ? TDM_ROPE_HALVES : TDM_ROPE_INTERLEAVED,
                 .dtype = (tdm_dtype)variant->parameters[0],
                 .set = (position_set)row[F_SET],
                 .in_place = row[F_IN_PLACE] != 0};
    const rope_shape *const s = p.shape;
    const test_placement x = (test_placement)row[F_X], y = (test_placement)row[F_Y];
    const test_placement positions = (test_placement)row[F_POSITIONS];
    char text[128];
    if (!test_case_begin(device, variant->name, "%s %lld %s x %s y %s positions %s %s%s",
                         test_shape_text(s->rank, s->shape, text), (long long)s->pairs,
                         p.pairs == TDM_ROPE_HALVES ? "halves" : "interleaved",
                         test_placement_name(x), test_placement_name(y), position_names[p.set],
                         test_placement_name(positions), p.in_place ? " in place" : ""))
        return;
    int64_t shape[TDM_MAX_RANK] = {0};
    for (int d = 0; d < s->rank - 1; d++)
        shape[d] = d == s->shared ? 1 : s->shape[d];
    test_array_create(&p.x, device, p.dtype, s->rank, s->shape, x);
    test_array_create(&p.y, device, p.dtype, s->rank, s->shape, y);
    test_array_create(&p.positions, device, TDM_S32, s->rank - 1, shape, positions);
    make_frequencies(device, &p);
    test_array_fill(&p.x, TEST_DATA_UNIT, 7);
    for (int64_t i = 0; i < test_array_count(&p.positions); i++)
        test_array_put(&p.positions, i, position_at(p.set, i));
    test_array_send(&p.x);
    test_array_send(&p.y);
    test_array_send(&p.positions);
    run_rope(device, variant, &p,
             variant->parameters[1] == 1 ||
                 (x == TEST_DENSE && y == TEST_DENSE && s->pairs % 8 == 0));
    tdm_tensor_destroy(p.frequencies);
    test_array_destroy(&p.x);
    test_array_destroy(&p.y);
    test_array_destroy(&p.positions);
}

TEST(every_variant) {
    const int levels[FACTORS] = {test_is_small() ? SMALL_SHAPES : SHAPES,
                                 2,
                                 TEST_PLACEMENTS,
                                 TEST_PLACEMENTS,
                                 TEST_PLACEMENTS,
                                 POSITION_SETS,
                                 2};
    test_every_variant(TDM_OP_ROPE, FACTORS, levels, one_case);
}

/* ---- frequencies ----------------------------------------------------------------------------- */

enum {
    PAIRS = 64
};

/* Fails unless the frequencies are `radians`, to the precision of two f32, and the magnitude is
 * right. */
static void expect_frequencies(const test_device *device, const tdm_rope_desc *desc,
                               const double *radians, double expected_magnitude) {
    tdm_tensor *tensor;
    float rows[3][PAIRS];
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 2, DIMS(3, PAIRS), &tensor));
    TEST_OK(tdm_rope_frequencies(device->stream, desc, tensor));
    TEST_OK(tdm_tensor_read(device->stream, tensor, rows, sizeof rows, NULL));
    for (int i = 0; i < PAIRS; i++) {
        const double seen = ((double)rows[0][i] + (double)rows[1][i]) * 2 * pi;
        if (!(fabs(seen - radians[i]) <= 1e-13 * radians[i]))
            test_case_fail("frequency %d is %.15g, expected %.15g", i, seen, radians[i]);
        if (fabs((double)rows[2][i] - expected_magnitude) > 1e-6)
            test_case_fail("magnitude %d is %g, expected %g", i, (double)rows[2][i],
                           expected_magnitude);
    }
    tdm_tensor_destroy(tensor);
}

DEVICE_TEST(scalings_follow_their_formulas) {
    double radians[PAIRS], unscaled[PAIRS];
    tdm_rope_desc desc = TDM_ROPE_DESC_INIT;
    desc.base = 500000;
    for (int i = 0; i < PAIRS; i++)
        unscaled[i] = exp(-log(500000) * i / PAIRS);
    expect_frequencies(device, &desc, unscaled, 1);

    desc.scaling = TDM_ROPE_SCALING_LINEAR;
    desc.factor = 4;
    for (int i = 0; i < PAIRS; i++)
        radians[i] = unscaled[i] / 4;
    expect_frequencies(device, &desc, radians, 1);

    // The formula uses wavelengths, as Llama 3.1's configuration does.
    desc.scaling = TDM_ROPE_SCALING_LLAMA3;
    desc.factor = 8;
    desc.original_context = 8192;
    for (int i = 0; i < PAIRS; i++) {
        const double length = 2 * pi / unscaled[i];
        const double smooth = (8192 / length - 1) / (4 - 1);
        radians[i] = length < 8192.0 / 4   ? unscaled[i]
                     : length > 8192.0 / 1 ? unscaled[i] / 8
                                           : (1 - smooth) * unscaled[i] / 8 + smooth * unscaled[i];
    }
    expect_frequencies(device, &desc, radians, 1);

    // The pairs that turn 32 times and once are 64·ln(4096/(2π·32))/ln(10^4) = 20.9 and 45.0.
    desc = (tdm_rope_desc)TDM_ROPE_DESC_INIT;
    desc.scaling = TDM_ROPE_SCALING_YARN;
    desc.factor = 16;
    desc.original_context = 4096;
    for (int i = 0; i < PAIRS; i++) {
        const double theta = exp(-log(10000) * i / PAIRS);
        const double ramp = i <= 20 ? 0 : i >= 46 ? 1 : (i - 20) / 26.0;
        radians[i] = theta * (1 - ramp) + theta / 16 * ramp;
    }
    expect_frequencies(device, &desc, radians, 1 + 0.1 * log(16));

    float divisors[PAIRS];
    desc = (tdm_rope_desc)TDM_ROPE_DESC_INIT;
    desc.divisors = divisors;
    desc.magnitude = 2;
    for (int i = 0; i < PAIRS; i++) {
        divisors[i] = 1 + (float)i / 2;
        radians[i] = exp(-log(10000) * i / PAIRS) / (1 + i / 2.0);
    }
    expect_frequencies(device, &desc, radians, 2);
}

DEVICE_TEST(misuse_of_frequencies_is_refused) {
    tdm_stream *const s = device->stream;
    tdm_tensor *good, *wrong, *other, *turned;
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 2, DIMS(3, 4), &good));
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 2, DIMS(2, 4), &wrong));
    TEST_OK(tdm_tensor_create(device->device, TDM_F16, 2, DIMS(3, 4), &other));
    TEST_OK(tdm_tensor_view(good, 2, DIMS(3, 4), DIMS(1, 3), 0, &turned));
    const float bad[4] = {1, 0, 1, 1};
#define REFUSED_WITH(field, value, status, text)                                                   \
    do {                                                                                           \
        tdm_rope_desc desc = TDM_ROPE_DESC_INIT;                                                   \
        desc.scaling = TDM_ROPE_SCALING_YARN;                                                      \
        desc.factor = 2;                                                                           \
        desc.original_context = 100;                                                               \
        desc.field = value;                                                                        \
        TEST_REFUSED(tdm_rope_frequencies(s, &desc, good), status, text);                          \
    } while (0)
    REFUSED_WITH(base, 1, TDM_BAD_ARGUMENT, "base is 1, must be above 1");
    REFUSED_WITH(base, (double)NAN, TDM_BAD_ARGUMENT, "base is");
    REFUSED_WITH(factor, 0.5, TDM_BAD_ARGUMENT, "factor is 0.5");
    REFUSED_WITH(original_context, 0, TDM_BAD_ARGUMENT, "original_context is 0");
    REFUSED_WITH(beta_fast, 1, TDM_BAD_ARGUMENT, "beta_fast is 1, must be above beta_slow");
    REFUSED_WITH(beta_slow, 0, TDM_BAD_ARGUMENT, "beta_slow is 0");
    REFUSED_WITH(magnitude, -1, TDM_BAD_ARGUMENT, "magnitude is -1");
    REFUSED_WITH(divisors, bad, TDM_BAD_ARGUMENT, "divisor 1 is 0");
    REFUSED_WITH(scaling, (tdm_rope_scaling)9, TDM_BAD_ARGUMENT, "scaling 9 is unknown");
    REFUSED_WITH(struct_size, 3, TDM_BAD_ARGUMENT, "struct_size of desc is 3");
    const tdm_rope_desc desc = TDM_ROPE_DESC_INIT;
    TEST_REFUSED(tdm_rope_frequencies(s, NULL, good), TDM_BAD_ARGUMENT, "desc is NULL");
    TEST_REFUSED(tdm_rope_frequencies(s, &desc, NULL), TDM_BAD_ARGUMENT, "frequencies is NULL");
    TEST_REFUSED(tdm_rope_frequencies(s, &desc, wrong), TDM_BAD_SHAPE, "must be [3, pairs]");
    TEST_REFUSED(tdm_rope_frequencies(s, &desc, other), TDM_BAD_DTYPE, "frequencies is f16");
    TEST_REFUSED(tdm_rope_frequencies(s, &desc, turned), TDM_UNSUPPORTED, "must be contiguous");
    tdm_tensor_destroy(good);
    tdm_tensor_destroy(wrong);
    tdm_tensor_destroy(other);
    tdm_tensor_destroy(turned);
}

DEVICE_TEST(misuse_is_refused) {
    test_array x, y, other, positions;
    test_array_create(&x, device, TDM_F32, 2, DIMS(4, 6), TEST_DENSE);
    test_array_create(&y, device, TDM_F32, 2, DIMS(4, 6), TEST_DENSE);
    test_array_create(&other, device, TDM_F16, 2, DIMS(4, 6), TEST_DENSE);
    test_array_create(&positions, device, TDM_S32, 1, DIMS(4), TEST_DENSE);
    test_array_send(&x);
    test_array_send(&y);
    tdm_stream *const s = device->stream;
    const tdm_rope_pairs halves = TDM_ROPE_HALVES;
    const tdm_tensor *const p = positions.tensor;
    tdm_tensor *three, *four, *part, *few, *integers;
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 2, DIMS(3, 3), &three));
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 2, DIMS(3, 4), &four));
    TEST_OK(tdm_tensor_create(device->device, TDM_S32, 2, DIMS(4, 6), &integers));
    TEST_OK(tdm_tensor_slice(y.tensor, 1, 0, 5, 1, &part));
    TEST_OK(tdm_tensor_slice(p, 0, 0, 3, 1, &few));
    TEST_REFUSED(tdm_rope(s, (tdm_rope_pairs)0, x.tensor, p, three, y.tensor), TDM_BAD_ARGUMENT,
                 "pairs 0 is unknown");
    TEST_REFUSED(tdm_rope(s, halves, NULL, p, three, y.tensor), TDM_BAD_ARGUMENT, "x is NULL");
    TEST_REFUSED(tdm_rope(s, halves, x.tensor, NULL, three, y.tensor), TDM_BAD_ARGUMENT,
                 "positions is NULL");
    TEST_REFUSED(tdm_rope(s, halves, x.tensor, p, NULL, y.tensor), TDM_BAD_ARGUMENT,
                 "frequencies is NULL");
    TEST_REFUSED(tdm_rope(s, halves, x.tensor, p, three, NULL), TDM_BAD_ARGUMENT, "y is NULL");
    TEST_REFUSED(tdm_rope(s, halves, x.tensor, p, four, y.tensor), TDM_BAD_SHAPE,
                 "frequencies has 4 pairs, rows of x have 3");
    TEST_REFUSED(tdm_rope(s, halves, x.tensor, p, three, part), TDM_BAD_SHAPE,
                 "x has shape [4, 6] but y [4, 5]");
    TEST_REFUSED(tdm_rope(s, halves, x.tensor, p, three, other.tensor), TDM_BAD_DTYPE,
                 "x is f32 but y is f16");
    TEST_REFUSED(tdm_rope(s, halves, integers, p, three, integers), TDM_UNSUPPORTED,
                 "no kernel for s32");
    TEST_REFUSED(tdm_rope(s, halves, x.tensor, few, three, y.tensor), TDM_BAD_SHAPE,
                 "positions of shape [3] does not broadcast to the rows of x, [4]");
    TEST_REFUSED(tdm_rope(s, halves, x.tensor, x.tensor, three, y.tensor), TDM_BAD_DTYPE,
                 "positions is f32");
    test_array_expect_unchanged(&y);
    tdm_tensor *const made[] = {three, four, part, few, integers};
    for (size_t i = 0; i < sizeof made / sizeof *made; i++)
        tdm_tensor_destroy(made[i]);
    test_array_destroy(&x);
    test_array_destroy(&y);
    test_array_destroy(&other);
    test_array_destroy(&positions);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
