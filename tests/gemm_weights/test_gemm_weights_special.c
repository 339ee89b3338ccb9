/*
 * With infinite scales, D is infinite where the products of their groups are not zero. The values
 * with which a kernel pads tiles, lanes and chunks beyond the last step of K must not change that.
 *
 * Special rows of A are all zeros, contain a NaN, an infinity or denormals, or are so small that
 * their scale would be denormal. One channel then has a scale of 0.
 *
 * In rows of the largest numbers, products with quantized values overflow, but products with scaled
 * values do not. Quantized values minus zero points are positive, so that no partial sum of a group
 * is zero by chance.
 */
// ctest: device rusticl_in_ci timeout=60
#include <float.h>
#include <math.h>

#include "api/gemm/gemm_internal.h"
#include "tests/support/devices/variant_cases.h"
#include "tests/support/gemm/weights_trial.h"
#include "tests/support/test_case.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

enum {
    ROWS = 7,
    COLUMNS = 9,
    ZERO_COLUMN = 4
};

/* Special rows of A. */
enum {
    ROW_ZEROS,
    ROW_NAN,
    ROW_INFINITY,
    ROW_DENORMALS,
    ROW_TINY, /* the elements are normal numbers, but a 127th of them is not */
    ROW_MIN,  /* gives the smallest nonzero scale and exact quantized values */
    ROW_PLAIN
};

/* Large rows of A. */
enum {
    ROW_LARGEST,
    ROW_ONE_LARGEST,
    ROW_SIGNS, /* partial sums are infinities of both signs */
    ROW_NEGATIVE,
    ROW_LARGE,
    ROW_LARGE_INFINITY
};

typedef enum special_data {
    INFINITE_SCALES,
    SPECIAL_ROWS,
    LARGE_ROWS
} special_data;
static const char *const data_names[] = {"infinite scales", "special rows of A", "large rows of A"};

enum {
    SMALL_K = 296 /* for slow implementations, which take seconds for a large tile's long K */
};

typedef struct special_trial {
    int64_t k, group;
    tdm_dtype scale, zero;
    special_data data;
} special_trial;

/*
 * The last group has few steps, one step, more steps than a tile, or as many as the other groups.
 * In some trials one group spans all of K.
 */
static const special_trial trials[] = {
    {70, 32, TDM_F32, TDM_DTYPE_NONE, INFINITE_SCALES},
    {70, 64, TDM_F16, TDM_S8, INFINITE_SCALES},
    {129, 64, TDM_F32, TDM_S8, INFINITE_SCALES},
    {1100, 128, TDM_BF16, TDM_DTYPE_NONE, INFINITE_SCALES},
    {424, 32, TDM_F32, TDM_S32, INFINITE_SCALES},
    {256, 64, TDM_F16, TDM_DTYPE_NONE, INFINITE_SCALES},
    {77, 0, TDM_F32, TDM_S8, INFINITE_SCALES},
    {70, 32, TDM_F32, TDM_DTYPE_NONE, SPECIAL_ROWS},
    {129, 64, TDM_BF16, TDM_S8, SPECIAL_ROWS},
    {256, 0, TDM_F32, TDM_DTYPE_NONE, SPECIAL_ROWS},
    {70, 32, TDM_F32, TDM_DTYPE_NONE, LARGE_ROWS},
    {129, 64, TDM_F16, TDM_S8, LARGE_ROWS},
    {1100, 0, TDM_F32, TDM_DTYPE_NONE, LARGE_ROWS},
    {296, 128, TDM_BF16, TDM_S8, LARGE_ROWS},
};

typedef struct special_case {
    weights_trial w;
    special_data data;
} special_case;

static int code_at(const special_case *c, int64_t j, int64_t p) {
    return c->w.zero_type == TDM_DTYPE_NONE ? 1 + (int)((j + p) % 7) : (int)((j + p) % 5);
}
static int zero_of(const special_case *c) {
    return c->w.zero_type == TDM_DTYPE_NONE ? 0 : -3;
}

/*
 * In every second column the last group's scale is infinite. With special or large rows of A one
 * channel's scale is 0.
 */
static double scale_at(const special_case *c, int64_t j, int64_t g, int64_t groups) {
    if (c->data != INFINITE_SCALES)
        return j == ZERO_COLUMN ? 0.0 : c->data == LARGE_ROWS ? 0x1p-14 : 0x1p20;
    return j % 2 != 0 && g == groups - 1 ? INFINITY : 0.5;
}

static double large_a_at(const special_case *c, int64_t i, int64_t p) {
    const tdm_dtype type = c->w.a.layout.dtype;
    const double largest = type == TDM_F16 ? 65504.0 : type == TDM_BF16 ? 0x1.fep127 : FLT_MAX;
    switch (i) {
    case ROW_LARGEST:
        return largest;
    case ROW_ONE_LARGEST:
        return p == 3 ? largest : 1.0;
    case ROW_SIGNS:
        return p % 2 ? largest : -largest / 2;
    case ROW_NEGATIVE:
        return -largest;
    case ROW_LARGE:
        return largest / 4;
    case ROW_LARGE_INFINITY:
        return p == 3 ? INFINITY : largest;
    default:
        return (double)(1 + p % 5);
    }
}

static double a_at(const special_case *c, int64_t i, int64_t p) {
    const double plain = (double)(1 + p % 5);
    if (c->data == INFINITE_SCALES)
        return 1.0;
    if (c->data == LARGE_ROWS)
        return large_a_at(c, i, p);
    switch (i) {
    case ROW_ZEROS:
        return 0.0;
    case ROW_NAN:
        return p == 3 ? NAN : plain;
    case ROW_INFINITY:
        return p == 3 ? INFINITY : plain;
    case ROW_DENORMALS:
        return plain * 0x1p-130;
    case ROW_TINY:
        return (double)(1 + p % 3) * 0x1p-121;
    case ROW_MIN:
        return (p == 0 ? 127.0 : (double)(1 + p % 100)) * 0x1p-126;
    default:
        return plain;
    }
}

/* Returns the scale of a row of A by the formula of docs/numerics.md. */
static float row_scale(const special_case *c, int64_t i) {
    float most = 0.0f;
    for (int64_t p = 0; p < c->w.k; p++) {
        const float size = fabsf((float)test_array_get(&c->w.a, i * c->w.k + p));
        most = size < INFINITY && size > most ? size : most;
    }
    const float scale = fminf(most / 127.0f, 0x1.020406p121f); /* 127 times this limit is finite */
    return scale < 0x1p-126f ? 0.0f : scale;
}

static double a_real(const special_case *c, float scale, int64_t i, int64_t p) {
    const float x = (float)test_array_get(&c->w.a, i * c->w.k + p);
    if (!c->w.quantize_a)
        return x;
    const float code = isnan(x) || scale == 0.0f ? 0.0f : rintf(x / scale);
    return (double)scale * fmax(fmin(code, 127.0), -127.0);
}

static void fill(special_case *c) {
    weights_trial *const t = &c->w;
    const int64_t groups = test_array_count(&t->scale) / COLUMNS;
    for (int64_t i = 0; i < ROWS * t->k; i++)
        test_array_put(&t->a, i, a_at(c, i / t->k, i % t->k));
    for (int64_t i = 0; i < COLUMNS * t->k; i++)
        test_array_put(&t->codes, i, code_at(c, i / t->k, i % t->k));
    for (int64_t i = 0; i < COLUMNS * groups; i++) {
        test_array_put(&t->scale, i, scale_at(c, i / groups, i % groups, groups));
        if (t->zero_type != TDM_DTYPE_NONE)
            test_array_put(&t->zero, i, zero_of(c));
    }
    test_array_send(&t->a);
    test_array_send(&t->codes);
    test_array_send(&t->scale);
    if (t->zero_type != TDM_DTYPE_NONE)
        test_array_send(&t->zero);
}

/*
 * Devices may flush terms near the smallest normal number to zero. The error must not exceed the
 * sum of K such terms.
 */
static bool is_right(const special_case *c, double actual, double expected, double size) {
    if (isnan(expected))
        return isnan(actual);
    if (isinf(expected))
        return actual == expected;
    const double flushed = c->w.quantize_a ? 0.0 : (double)c->w.k * 16 * 0x1p-106;
    return fabs(actual - expected) <= 1e-5 * size + flushed; /* A may be quantized */
}

static void check(const special_case *c) {
    const int64_t groups = test_array_count(&c->w.scale) / COLUMNS;
    for (int64_t i = 0; i < ROWS; i++) {
        const float scale = row_scale(c, i);
        for (int64_t j = 0; j < COLUMNS; j++) {
            double sum = 0.0, size = 0.0;
            for (int64_t p = 0; p < c->w.k; p++) {
                const int64_t g = c->w.group == 0 ? 0 : p / c->w.group;
                const double term = a_real(c, scale, i, p) * (code_at(c, j, p) - zero_of(c)) *
                                    scale_at(c, j, g, groups);
                sum += term;
                size += fabs(term);
            }
            const double actual = test_array_fetched(&c->w.d, i * COLUMNS + j);
            if (!is_right(c, actual, sum, size))
                test_case_fail("D[%d, %d] is %g, must be %g", (int)i, (int)j, actual, sum);
        }
    }
}

static void run_case(const special_trial *s, weights_trial t) {
    char text[256];
    t.m = ROWS;
    t.n = COLUMNS;
    t.k = test_is_small() && s->k > SMALL_K ? SMALL_K : s->k;
    t.group = s->group;
    t.d_type = TDM_F32;
    t.scale_type = s->scale;
    t.zero_type = s->zero;
    t.transpose_b = 1;
    special_case c = {.w = t, .data = s->data};
    if (!test_case_begin(t.device, t.variant, "%s, %s", data_names[s->data],
                         weights_trial_text(&t, text)))
        return;
    weights_trial_create(&c.w);
    fill(&c);
    if (!weights_trial_multiply(&c.w))
        test_case_fail("%s refuses it", t.variant);
    check(&c);
    test_case_end();
    weights_trial_destroy(&c.w);
}

/* If no kernel does both, separate steps quantize A and dequantize the weights. */
static void run_stages(const test_device *device, const special_trial *t) {
    static const tdm_dtype codes[] = {TDM_S8, TDM_S4}, dequantized[] = {TDM_F32, TDM_BF16};
    for (int x = 0; x < 16; x++) {
        /* Two quantized operands are multiplied as integers. */
        const bool integers = x >> 3 && codes[x >> 2 & 1] == TDM_S8 && t->group == 0;
        const char *const variants[] = {NULL, integers ? NULL : "gemm_any_reference"};
        run_case(t, (weights_trial){.device = device,
                                    .variant = variants[x & 1],
                                    .a_type = dequantized[x >> 1 & 1],
                                    .b_type = codes[x >> 2 & 1],
                                    .quantize_a = x >> 3});
    }
}

TEST(stages_follow_the_formula) {
    for (int d = 0; d < test_device_count(); d++)
        for (int t = test_is_small() ? COUNT(trials) - 5 : 0; t < COUNT(trials); t++)
            run_stages(test_device_at(d), &trials[t]);
}

static void run_row(const test_device *device, const tdm_variant *row) {
    weights_trial forced = {
        .device = device, .variant = row->name, .a_type = TDM_F32, .b_type = TDM_S4};
    weights_trial_suit(&forced, row);
    for (int t = 0; t < COUNT(trials); t++)
        if (test_part_is_due(device, row, t))
            run_case(&trials[t], forced);
}

TEST(special_scales_and_rows_follow_the_formula) {
    test_each_variant(TDM_OP_GEMM_WEIGHTS, NULL, run_row);
    test_require_all_variants(TDM_OP_GEMM_WEIGHTS);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
