/* Every variant of the normalization of rows is compared with the oracle on every device.
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

typedef struct norm_shape {
    int rank;
    int64_t shape[TDM_MAX_RANK];
} norm_shape;

/* Slow implementations use only the first ones. */
static const norm_shape shapes[] = {
    {1, {17}},     {2, {3, 33}},    {2, {5, 3}},     {3, {2, 5, 18}},  {3, {4, 3, 0}},
    {2, {3, 1}},   {1, {300}},      {2, {5, 16}},    {3, {3, 5, 256}}, {4, {2, 3, 2, 70}},
    {2, {600, 7}}, {2, {3, 20011}}, {3, {0, 3, 20}}, {2, {4, 4096}},
};

enum {
    SHAPES = sizeof shapes / sizeof shapes[0],
    SMALL_SHAPES = 6
};

typedef enum content {
    USUAL,   /* in [-1, 1) */
    SHIFTED, /* in [99, 101): the variance is much smaller than the mean square */
    WIDE,    /* up to ±4096 */
    SPOILT,  /* a NaN, an infinity or only zeros, in some rows */
    CONTENTS
} content;

static const char *const content_names[CONTENTS] = {"usual", "shifted", "wide", "spoilt"};

/* This says which optional operands there are. */
typedef enum operand_set {
    NOTHING,
    SUM,
    SCALE,
    SCALE_BIAS,
    RESIDUAL,
    ALL,
    OPERAND_SETS
} operand_set;

static const char *const set_names[OPERAND_SETS] = {"none",       "sum",          "scale",
                                                    "scale+bias", "residual+sum", "all"};

static bool has_scale(operand_set set) {
    return set == SCALE || set == SCALE_BIAS || set == ALL;
}
static bool has_bias(operand_set set) {
    return set == SCALE_BIAS || set == ALL;
}
static bool has_sum(operand_set set) {
    return set == SUM || set == RESIDUAL || set == ALL;
}
static bool has_residual(operand_set set) {
    return set == RESIDUAL || set == ALL;
}

/* This says where y and sum are written. */
typedef enum aliasing {
    OWN,             /* to tensors of their own */
    Y_ON_X,          /* y replaces x */
    SUM_ON_RESIDUAL, /* sum replaces residual, if there is one */
    ALIASINGS
} aliasing;

static const char *const aliasing_names[ALIASINGS] = {"", " y on x", " sum on residual"};

static const tdm_dtype vector_types[] = {TDM_F32, TDM_F16, TDM_BF16};

typedef struct problem {
    const norm_shape *shape;
    tdm_norm_kind kind;
    tdm_dtype dtype, vector_dtype;
    content content;
    operand_set set;
    aliasing aliasing;
    float epsilon;
    test_array x, residual, sum, y, scale, bias;
} problem;

static int64_t row_length(const problem *p) {
    return p->shape->shape[p->shape->rank - 1];
}

static void fill(problem *p) {
    test_array_fill(&p->x, p->content == WIDE ? TEST_DATA_WIDE : TEST_DATA_UNIT, 7);
    test_array_fill(&p->residual, TEST_DATA_UNIT, 8);
    test_array_fill(&p->scale, TEST_DATA_UNIT, 9);
    test_array_fill(&p->bias, TEST_DATA_UNIT, 10);
    const int64_t count = test_array_count(&p->x), length = row_length(p);
    for (int64_t i = 0; i < count && p->content == SHIFTED; i++)
        test_array_put(&p->x, i, 100 + test_array_get(&p->x, i));
    for (int64_t i = 0; i < count && p->content == SPOILT; i++) {
        const int64_t row = i / length, k = i % length;
        if (row % 4 == 1)
            test_array_put(&p->x, i, 0.0);
        else if (row % 4 == 2 && k == length - 1)
            test_array_put(&p->x, i, (double)NAN);
        else if (row % 4 == 3 && k == length / 2)
            test_array_put(&p->x, i, HUGE_VAL);
    }
    test_array_send(&p->x);
    test_array_send(&p->residual);
    test_array_send(&p->scale);
    test_array_send(&p->bias);
    test_array_send(&p->sum);
    test_array_send(&p->y);
}

/* Returns the exact sum of x and residual, which the kernel rounds to f32. */
static double exact_h(const problem *p, int64_t i) {
    const double x = test_array_get(&p->x, i);
    return has_residual(p->set) ? x + test_array_get(&p->residual, i) : x;
}

/*
 * u = 2^-24. Sums of TDM_BLOCK = 16 terms, of up to 16 lanes and of up to 256 work-items have an
 * error of at most 30 u of the sum of magnitudes. The mean thus has an error of 32 u times the mean
 * magnitude, and h of 1 u. Both shift each difference h - m, and the same shift of all differences
 * shifts the root of their mean square by no more than itself. The rest, relative to y: the squares
 * and their sum 34 u / 2, their division, the root and its reciprocal 8 u, four roundings.
 */
static void check_row(const problem *p, const test_array *y, int64_t first) {
    const int64_t length = row_length(p);
    const double u = 0x1p-24;
    double mean = 0, squares = 0, magnitude = 0, largest = 0;
    for (int64_t k = 0; k < length; k++) {
        mean += exact_h(p, first + k) / (double)length;
        magnitude += fabs(exact_h(p, first + k)) / (double)length;
        largest = fmax(largest, fabs(exact_h(p, first + k)));
    }
    if (p->kind == TDM_NORM_RMS)
        mean = 0;
    for (int64_t k = 0; k < length; k++)
        squares += pow(exact_h(p, first + k) - mean, 2) / (double)length;
    const double root = sqrt(squares + (double)p->epsilon);
    const double shift = u * ((p->kind == TDM_NORM_LAYER ? 33 * magnitude : 0) + largest);
    for (int64_t k = 0; k < length; k++) {
        const double scale = has_scale(p->set) ? test_array_get(&p->scale, k) : 1;
        const double bias = has_bias(p->set) ? test_array_get(&p->bias, k) : 0;
        const double normal = (exact_h(p, first + k) - mean) / root;
        const double expected = normal * scale + bias;
        const double relative = fmin(shift / root, 1);
        const double error = (fabs(normal) * (relative + 32 * u) + 2 * shift / root) * fabs(scale) +
                             u * fabs(expected) + 0x1p-126;
        const double actual = test_array_fetched(y, first + k);
        if (!oracle_matches(p->dtype, actual, expected, isfinite(error) ? error : 0))
            test_case_fail("element %lld of the row from %lld is %.9g, expected %.9g within %.3g",
                           (long long)k, (long long)first, actual, expected, error);
    }
}

/* A row with an infinity has NaN where the infinity was, and its other elements are 0 or NaN. */
static bool row_is_finite(const problem *p, int64_t first) {
    for (int64_t k = 0; k < row_length(p); k++)
        if (!isfinite(exact_h(p, first + k)))
            return false;
    return true;
}

static void check_spoilt_row(const problem *p, const test_array *y, int64_t first) {
    bool found = false;
    for (int64_t k = 0; k < row_length(p); k++)
        found = found || isnan(test_array_fetched(y, first + k));
    if (!found)
        test_case_fail("the row from %lld has an element that is not finite, but y has no NaN",
                       (long long)first);
}

static void check(const problem *p, const test_array *y, const test_array *sum) {
    for (int64_t i = 0; i < test_array_count(y); i++) {
        if (i % row_length(p) == 0) {
            if (row_is_finite(p, i))
                check_row(p, y, i);
            else
                check_spoilt_row(p, y, i);
        }
        const float h = (float)exact_h(p, i);
        if (sum && !test_array_is_rounded(sum, i, h))
            test_case_fail("sum %lld is %.9g, expected %.9g", (long long)i,
                           test_array_fetched(sum, i), (double)h);
    }
}

static void run_norm(const test_device *device, const tdm_variant *variant, problem *p,
                     bool must_accept) {
    const bool with_residual = has_residual(p->set);
    test_array *const y = p->aliasing == Y_ON_X ? &p->x : &p->y;
    test_array *const sum = !has_sum(p->set)                                  ? NULL
                            : p->aliasing == SUM_ON_RESIDUAL && with_residual ? &p->residual
                                                                              : &p->sum;
    tdm_norm_operands operands = TDM_NORM_OPERANDS_INIT;
    operands.scale = has_scale(p->set) ? p->scale.tensor : NULL;
    operands.bias = has_bias(p->set) ? p->bias.tensor : NULL;
    operands.residual = with_residual ? p->residual.tensor : NULL;
    operands.sum = sum ? sum->tensor : NULL;
    tdm_force_variant(variant->name);
    const tdm_status status =
        tdm_norm(device->stream, p->kind, p->x.tensor, p->epsilon, &operands, y->tensor);
    tdm_force_variant(NULL);
    if (status == TDM_UNSUPPORTED && !must_accept)
        return;
    TEST_OK(status);
    test_array_fetch(y);
    if (sum)
        test_array_fetch(sum);
    check(p, y, sum);
    if (test_array_count(y) > 0)
        test_case_end();
}

enum {
    F_SHAPE,
    F_KIND,
    F_INPUTS,  /* placement of x and residual */
    F_OUTPUTS, /* placement of y and sum */
    F_VECTORS, /* placement of scale and bias */
    F_VECTOR_TYPE,
    F_CONTENT,
    F_SET,
    F_ALIASING,
    FACTORS
};

static void one_case(const test_device *device, const tdm_variant *variant, const int row[]) {
    problem p = {.shape = &shapes[row[F_SHAPE]],
                 .kind = row[F_KIND] ? TDM_NORM_LAYER : TDM_NORM_RMS,
                 .dtype = (tdm_dtype)variant->parameters[0],
                 .vector_dtype = vector_types[row[F_VECTOR_TYPE]],
                 .content = (content)row[F_CONTENT],
                 .set = (operand_set)row[F_SET],
                 .aliasing = (aliasing)row[F_ALIASING],
                 .epsilon = 1e-5f};
    const test_placement inputs = (test_placement)row[F_INPUTS];
    const test_placement outputs = (test_placement)row[F_OUTPUTS];
    const test_placement vectors = (test_placement)row[F_VECTORS];
    char text[128];
    if (!test_case_begin(device, variant->name, "%s %s in %s out %s vectors %s %s %s %s%s",
                         p.kind == TDM_NORM_RMS ? "rms" : "layer",
                         test_shape_text(p.shape->rank, p.shape->shape, text),
                         test_placement_name(inputs), test_placement_name(outputs),
                         tdm_dtype_name(p.vector_dtype), test_placement_name(vectors),
                         set_names[p.set], content_names[p.content], aliasing_names[p.aliasing]))
        return;
    const int rank = p.shape->rank;
    test_array_create(&p.x, device, p.dtype, rank, p.shape->shape, inputs);
    test_array_create(&p.residual, device, p.dtype, rank, p.shape->shape, inputs);
    test_array_create(&p.sum, device, p.dtype, rank, p.shape->shape, outputs);
    test_array_create(&p.y, device, p.dtype, rank, p.shape->shape, outputs);
    test_array_create(&p.scale, device, p.vector_dtype, 1, &p.shape->shape[rank - 1], vectors);
    test_array_create(&p.bias, device, p.vector_dtype, 1, &p.shape->shape[rank - 1], vectors);
    fill(&p);
    run_norm(device, variant, &p,
             variant->parameters[1] == 1 ||
                 (inputs == TEST_DENSE && outputs == TEST_DENSE && vectors == TEST_DENSE));
    test_array_destroy(&p.x);
    test_array_destroy(&p.residual);
    test_array_destroy(&p.sum);
    test_array_destroy(&p.y);
    test_array_destroy(&p.scale);
    test_array_destroy(&p.bias);
}

TEST(every_variant) {
    const int levels[FACTORS] = {test_is_small() ? SMALL_SHAPES : SHAPES,
                                 2,
                                 TEST_PLACEMENTS,
                                 TEST_PLACEMENTS,
                                 TEST_PLACEMENTS,
                                 sizeof vector_types / sizeof vector_types[0],
                                 CONTENTS,
                                 OPERAND_SETS,
                                 ALIASINGS};
    test_every_variant(TDM_OP_NORM, FACTORS, levels, one_case);
}

DEVICE_TEST(misuse_is_refused) {
    test_array x, y, other, integers, wrong;
    test_array_create(&x, device, TDM_F32, 2, DIMS(4, 6), TEST_DENSE);
    test_array_create(&y, device, TDM_F32, 2, DIMS(4, 6), TEST_DENSE);
    test_array_create(&other, device, TDM_F16, 2, DIMS(4, 6), TEST_DENSE);
    test_array_create(&integers, device, TDM_S32, 1, DIMS(6), TEST_DENSE);
    test_array_create(&wrong, device, TDM_F32, 1, DIMS(5), TEST_DENSE);
    test_array_send(&x);
    test_array_send(&y);
    tdm_tensor *scalar, *row;
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 0, NULL, &scalar));
    TEST_OK(tdm_tensor_view(y.tensor, 1, DIMS(6), DIMS(1), 0, &row));
    tdm_stream *const s = device->stream;
    const tdm_norm_kind rms = TDM_NORM_RMS;
    TEST_REFUSED(tdm_norm(s, (tdm_norm_kind)7, x.tensor, 0, NULL, y.tensor), TDM_BAD_ARGUMENT,
                 "norm: kind 7 is unknown");
    TEST_REFUSED(tdm_norm(s, rms, NULL, 0, NULL, y.tensor), TDM_BAD_ARGUMENT, "x is NULL");
    TEST_REFUSED(tdm_norm(s, rms, x.tensor, 0, NULL, NULL), TDM_BAD_ARGUMENT, "y is NULL");
    TEST_REFUSED(tdm_norm(s, rms, x.tensor, -1, NULL, y.tensor), TDM_BAD_ARGUMENT,
                 "epsilon is -1, must be finite");
    TEST_REFUSED(tdm_norm(s, rms, x.tensor, NAN, NULL, y.tensor), TDM_BAD_ARGUMENT, "epsilon is");
    TEST_REFUSED(tdm_norm(s, rms, scalar, 0, NULL, scalar), TDM_BAD_SHAPE, "x has rank 0");
    TEST_REFUSED(tdm_norm(s, rms, x.tensor, 0, NULL, row), TDM_BAD_SHAPE,
                 "x has shape [4, 6] but y [6]");
    TEST_REFUSED(tdm_norm(s, rms, x.tensor, 0, NULL, other.tensor), TDM_BAD_DTYPE,
                 "x is f32 but y is f16");
    TEST_REFUSED(tdm_norm(s, rms, integers.tensor, 0, NULL, integers.tensor), TDM_UNSUPPORTED,
                 "rms_norm: no kernel for s32");
    tdm_norm_operands operands = TDM_NORM_OPERANDS_INIT;
    operands.scale = wrong.tensor;
    TEST_REFUSED(tdm_norm(s, TDM_NORM_LAYER, x.tensor, 0, &operands, y.tensor), TDM_BAD_SHAPE,
                 "layer_norm: scale has shape [5], must be [6]");
    operands.scale = integers.tensor;
    TEST_REFUSED(tdm_norm(s, rms, x.tensor, 0, &operands, y.tensor), TDM_BAD_DTYPE, "scale is s32");
    operands.scale = row;
    TEST_REFUSED(tdm_norm(s, rms, x.tensor, 0, &operands, y.tensor), TDM_BAD_ARGUMENT,
                 "the output y overlaps scale");
    operands.scale = NULL;
    operands.sum = y.tensor;
    TEST_REFUSED(tdm_norm(s, rms, x.tensor, 0, &operands, y.tensor), TDM_BAD_ARGUMENT,
                 "the output sum overlaps y");
    operands.sum = NULL;
    operands.residual = other.tensor;
    TEST_REFUSED(tdm_norm(s, rms, x.tensor, 0, &operands, y.tensor), TDM_BAD_DTYPE,
                 "x is f32 but residual is f16");
    operands.struct_size = 3;
    TEST_REFUSED(tdm_norm(s, rms, x.tensor, 0, &operands, y.tensor), TDM_BAD_ARGUMENT,
                 "struct_size of operands is 3");
    test_array_expect_unchanged(&y);
    test_array_expect_unchanged(&x);
    tdm_tensor_destroy(scalar);
    tdm_tensor_destroy(row);
    test_array_destroy(&x);
    test_array_destroy(&y);
    test_array_destroy(&other);
    test_array_destroy(&integers);
    test_array_destroy(&wrong);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
