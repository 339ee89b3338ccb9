/* Every variant of softmax is compared with the oracle on every device.
 * ctest: device timeout=240 */
#include <math.h>

#include "api/device/core.h"
#include "quant/number_formats.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/variant_cases.h"
#include "tests/support/oracle.h"
#include "tests/support/test_array.h"
#include "tests/support/test_case.h"

#define DIMS(...) ((const int64_t[]){__VA_ARGS__})

/*
 * The f32 result is within this many units of 2^-24·y. Two calls of exp have 3 ulps (6 units) each,
 * and the rounding of x - max has as many. The sum has 32 roundings, and the division has 5 units.
 * A difference x - max adds its magnitude in units, see check_line.
 */
enum {
    UNITS = 64
};

typedef struct softmax_case {
    int rank;
    int64_t shape[TDM_MAX_RANK];
    int axis;
} softmax_case;

/* Slow implementations use only the first ones. */
static const softmax_case cases[] = {
    {1, {17}, 0},          {2, {3, 33}, 1},    {2, {33, 3}, 0},
    {3, {2, 5, 18}, 1},    {3, {4, 0, 3}, 2},  {8, {2, 1, 3, 1, 2, 1, 1, 5}, 2},
    {1, {1}, 0},           {1, {300}, 0},      {2, {5, 16}, 1},
    {2, {5, 16}, 0},       {3, {3, 5, 19}, 0}, {3, {3, 5, 19}, 2},
    {4, {2, 1, 3, 20}, 1}, {2, {3, 20011}, 1}, {2, {600, 37}, 0},
    {3, {2, 1009, 40}, 1},
};

enum {
    CASES = sizeof cases / sizeof cases[0],
    SMALL_CASES = 6
};

typedef enum content {
    USUAL,  /* in [-1, 1) */
    HUGE,   /* up to ±4096: exp would overflow without subtraction of the maximum */
    MASKED, /* some -inf in every row */
    SPOILT, /* a NaN, a +inf and a row of -inf only, in some positions */
    EQUAL,  /* all elements but one are equal: rounding errors of the sum add up */
    CONTENTS
} content;

static const char *const content_names[CONTENTS] = {"usual", "huge", "masked", "spoilt", "equal"};

typedef struct problem {
    const softmax_case *shape;
    tdm_dtype dtype;
    content content;
    test_array x, y;
    bool in_place;
} problem;

/* Returns the distance between neighbours along the axis, in row-major elements. */
static int64_t axis_stride(const softmax_case *c) {
    int64_t stride = 1;
    for (int d = c->axis + 1; d < c->rank; d++)
        stride *= c->shape[d];
    return stride;
}

static void fill(problem *p, uint64_t seed) {
    test_array_fill(&p->x, p->content == HUGE ? TEST_DATA_WIDE : TEST_DATA_UNIT, seed);
    const int64_t count = test_array_count(&p->x);
    const int64_t stride = axis_stride(p->shape);
    const int64_t length = p->shape->shape[p->shape->axis];
    for (int64_t i = 0; i < count && p->content == MASKED; i++) {
        const int64_t k = i / stride % length;
        if (k % 3 == 1)
            test_array_put(&p->x, i, -HUGE_VAL);
    }
    for (int64_t i = 0; i < count && p->content == EQUAL; i++)
        test_array_put(&p->x, i, i / stride % length == length / 2 ? 1.0 : 0.0);
    for (int64_t i = 0; i < count && p->content == SPOILT; i++) {
        const int64_t line = i / (stride * length) * stride + i % stride;
        const int64_t k = i / stride % length;
        if (line % 5 == 1)
            test_array_put(&p->x, i, -HUGE_VAL);
        else if (line % 5 == 2 && k == length - 1)
            test_array_put(&p->x, i, (double)NAN);
        else if (line % 5 == 3 && k == length / 2)
            test_array_put(&p->x, i, HUGE_VAL);
    }
    test_array_send(&p->x);
}

static void check_line(const problem *p, const test_array *y, int64_t first) {
    const int64_t stride = axis_stride(p->shape);
    const int64_t length = p->shape->shape[p->shape->axis];
    double largest = -HUGE_VAL;
    double sum = 0;
    for (int64_t k = 0; k < length; k++) {
        const double x = test_array_get(&p->x, first + k * stride);
        largest = isnan(x) || x > largest ? x : largest;
    }
    for (int64_t k = 0; k < length; k++)
        sum += exp(test_array_get(&p->x, first + k * stride) - largest);
    for (int64_t k = 0; k < length; k++) {
        const double x = test_array_get(&p->x, first + k * stride);
        const double expected = exp(x - largest) / sum;
        const double actual = test_array_fetched(y, first + k * stride);
        const double units = expected > 0 ? UNITS + fabs(x - largest) : 0;
        const double bound = isfinite(expected) ? units * 0x1p-24 * expected + 0x1p-126 : 0;
        if (!oracle_matches(p->dtype, actual, expected, bound))
            test_case_fail("element %lld of the line from %lld is %.9g, expected %.9g within %.3g",
                           (long long)k, (long long)first, actual, expected, bound);
    }
}

static void check(const problem *p, const test_array *y) {
    const int64_t stride = axis_stride(p->shape);
    const int64_t length = p->shape->shape[p->shape->axis];
    for (int64_t i = 0; i < test_array_count(y); i++)
        if (i / stride % length == 0)
            check_line(p, y, i);
}

/* Variants with one lane accept every layout, those with more lanes only dense ones. */
static bool must_accept(const tdm_variant *variant, const problem *p, test_placement x,
                        test_placement y) {
    const bool last = p->shape->axis == p->shape->rank - 1;
    return variant->parameters[1] == 1 ||
           (x == TEST_DENSE && y == TEST_DENSE && last == (variant->parameters[2] != 2));
}

static void run_case(const test_device *device, const tdm_variant *variant, problem *p,
                     test_placement x, test_placement y) {
    const softmax_case *const c = p->shape;
    test_array_create(&p->x, device, p->dtype, c->rank, c->shape, x);
    test_array_create(&p->y, device, p->dtype, c->rank, c->shape, y);
    fill(p, 7);
    test_array_send(&p->y);
    test_array *const output = p->in_place ? &p->x : &p->y;
    tdm_force_variant(variant->name);
    const tdm_status status = tdm_softmax(device->stream, p->x.tensor, c->axis, output->tensor);
    tdm_force_variant(NULL);
    if (status != TDM_UNSUPPORTED || must_accept(variant, p, x, p->in_place ? x : y)) {
        TEST_OK(status);
        test_array_fetch(output);
        check(p, output);
        if (test_array_count(output) > 0)
            test_case_end();
    }
    test_array_destroy(&p->x);
    test_array_destroy(&p->y);
}

enum {
    F_CASE,
    F_X,
    F_Y,
    F_CONTENT,
    F_IN_PLACE,
    FACTORS
};

static void one_case(const test_device *device, const tdm_variant *variant, const int row[]) {
    problem p = {.shape = &cases[row[F_CASE]],
                 .dtype = (tdm_dtype)variant->parameters[0],
                 .content = (content)row[F_CONTENT],
                 .in_place = row[F_IN_PLACE] != 0};
    const test_placement x = (test_placement)row[F_X];
    const test_placement y = (test_placement)row[F_Y];
    char text[128];
    if (test_case_begin(device, variant->name, "x%s axis %d x %s y %s %s%s",
                        test_shape_text(p.shape->rank, p.shape->shape, text), p.shape->axis,
                        test_placement_name(x), test_placement_name(y), content_names[p.content],
                        p.in_place ? " in place" : ""))
        run_case(device, variant, &p, x, y);
}

TEST(every_variant) {
    const int levels[FACTORS] = {test_is_small() ? SMALL_CASES : CASES, TEST_PLACEMENTS,
                                 TEST_PLACEMENTS, CONTENTS, 2};
    test_every_variant(TDM_OP_SOFTMAX, FACTORS, levels, one_case);
}

DEVICE_TEST(misuse_is_refused) {
    test_array x, y, other, integers;
    test_array_create(&x, device, TDM_F32, 2, DIMS(4, 6), TEST_DENSE);
    test_array_create(&y, device, TDM_F32, 2, DIMS(4, 6), TEST_DENSE);
    test_array_create(&other, device, TDM_F16, 2, DIMS(4, 6), TEST_DENSE);
    test_array_create(&integers, device, TDM_S32, 2, DIMS(4, 6), TEST_DENSE);
    test_array_send(&x);
    test_array_send(&y);
    tdm_tensor *part, *shifted;
    TEST_OK(tdm_tensor_slice(y.tensor, 1, 0, 5, 1, &part));
    TEST_OK(tdm_tensor_view(x.tensor, 2, DIMS(4, 6), DIMS(6, 1), 1, &shifted));
    tdm_stream *const s = device->stream;
    TEST_REFUSED(tdm_softmax(s, x.tensor, 2, y.tensor), TDM_BAD_ARGUMENT, "the rank of x, 2");
    TEST_REFUSED(tdm_softmax(s, x.tensor, -1, y.tensor), TDM_BAD_ARGUMENT, "axis -1");
    TEST_REFUSED(tdm_softmax(s, x.tensor, 0, part), TDM_BAD_SHAPE, "has shape [4, 6] but y [4, 5]");
    TEST_REFUSED(tdm_softmax(s, x.tensor, 0, other.tensor), TDM_BAD_DTYPE, "x is f32 but y is f16");
    TEST_REFUSED(tdm_softmax(s, integers.tensor, 0, integers.tensor), TDM_UNSUPPORTED,
                 "softmax: no kernel for s32");
    TEST_REFUSED(tdm_softmax(s, x.tensor, 0, shifted), TDM_BAD_ARGUMENT, "the output y overlaps x");
    TEST_REFUSED(tdm_softmax(s, NULL, 0, y.tensor), TDM_BAD_ARGUMENT, "softmax: x is NULL");
    TEST_REFUSED(tdm_softmax(s, x.tensor, 0, NULL), TDM_BAD_ARGUMENT, "softmax: y is NULL");
    TEST_REFUSED(tdm_softmax(NULL, x.tensor, 0, y.tensor), TDM_BAD_ARGUMENT, "stream is NULL");
    test_array_expect_unchanged(&y);
    test_array_expect_unchanged(&x);
    tdm_tensor_destroy(part);
    tdm_tensor_destroy(shifted);
    test_array_destroy(&x);
    test_array_destroy(&y);
    test_array_destroy(&other);
    test_array_destroy(&integers);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
