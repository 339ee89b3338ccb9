/*
 * f32 variants on tensor cores compute three tf32 products. Their results keep the error bound on
 * hard data, which a single tf32 product exceeds, and non-finite numbers are right. No such variant
 * may run unless the description permits it. test_gemm_tensor and test_gemm_variants cover layouts,
 * tails, batches and epilogues.
 */
// ctest: device cuda timeout=60
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/gemm/gemm_internal.h"
#include "common/op_gemm.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/tuned_device.h"
#include "tests/support/devices/variant_cases.h"
#include "tests/support/gemm/gemm_table.h"
#include "tests/support/test_array.h"
#include "tests/support/test_case.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

/* A number below 2^-113 also loses the bits of its small part that lie below 2^-136. */
#define TINY_LOSS 0x1p-136

/* ---- a product ---- */

typedef struct product {
    int64_t m, n, k;
    test_array a, b, d;
} product;

typedef double value_of(test_random *random, op_gemm_operand operand, int64_t row, int64_t column);

static void product_create(product *p, const test_device *device, value_of *value, uint64_t seed) {
    test_random random = {seed};
    test_array_create(&p->a, device, TDM_F32, 2, (const int64_t[]){p->m, p->k}, TEST_DENSE);
    test_array_create(&p->b, device, TDM_F32, 2, (const int64_t[]){p->k, p->n}, TEST_DENSE);
    test_array_create(&p->d, device, TDM_F32, 2, (const int64_t[]){p->m, p->n}, TEST_DENSE);
    for (int64_t i = 0; i < p->m * p->k; i++)
        test_array_put(&p->a, i, value(&random, OP_GEMM_A, i / p->k, i % p->k));
    for (int64_t i = 0; i < p->k * p->n; i++)
        test_array_put(&p->b, i, value(&random, OP_GEMM_B, i / p->n, i % p->n));
    test_array_send(&p->a);
    test_array_send(&p->b);
    test_array_send(&p->d);
}

static void product_destroy(product *p) {
    test_array_destroy(&p->a);
    test_array_destroy(&p->b);
    test_array_destroy(&p->d);
}

static tdm_gemm_desc desc_of(int64_t m, int64_t n, int64_t k) {
    tdm_gemm_desc desc = gemm_dense_desc(TDM_F32, TDM_F32, TDM_F32, m, n, k);
    desc.allow_3xtf32 = 1;
    return desc;
}

static void product_run(product *p, const test_device *device, const char *variant) {
    tdm_gemm_desc desc = desc_of(p->m, p->n, p->k);
    tdm_gemm_args args = TDM_GEMM_ARGS_INIT;
    tdm_gemm_plan *plan;
    desc.variant = variant;
    TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
    args.a = p->a.tensor;
    args.b = p->b.tensor;
    args.d = p->d.tensor;
    TEST_OK(tdm_gemm_plan_run(plan, device->stream, &args));
    tdm_gemm_plan_destroy(plan);
    test_array_fetch(&p->d);
}

/* Rounds to the nearest tf32 number. */
static double tf32_of(double x) {
    const float narrow = (float)x;
    uint32_t bits;
    float rounded;
    memcpy(&bits, &narrow, sizeof bits);
    bits = (bits + 0x1000u) & 0xffffe000u;
    memcpy(&rounded, &bits, sizeof rounded);
    return (double)rounded;
}

/*
 * This is one element of D in double precision, with the sums that form its bound and the result of
 * a single tf32 product.
 */
typedef struct element {
    double value, size, operands, tf32;
} element;

static element element_of(const product *p, int64_t i, int64_t j) {
    element sum = {0, 0, 0, 0};
    for (int64_t x = 0; x < p->k; x++) {
        const double a = test_array_get(&p->a, i * p->k + x),
                     b = test_array_get(&p->b, x * p->n + j);
        sum.value += a * b;
        sum.size += fabs(a * b);
        sum.operands += fabs(a) + fabs(b);
        sum.tf32 += tf32_of(a) * tf32_of(b);
    }
    return sum;
}

static double bound_of(const product *p, const element *e) {
    const op_gemm_case item = {
        .m = p->m, .n = p->n, .k = p->k, .dtype = {[OP_GEMM_D] = TDM_F32}, .allow_3xtf32 = 1};
    return op_gemm_bound(&item, e->value, e->size) + TINY_LOSS * e->operands;
}

/* ---- the bound ---- */

static double sign_of(test_random *random) {
    return test_random_bits(random) & 1 ? -1 : 1;
}

/* The remainder that one tf32 number cannot hold is as large as possible and has one sign. */
static double far_from_tf32(test_random *random, op_gemm_operand operand, int64_t row,
                            int64_t column) {
    (void)operand, (void)row, (void)column;
    return 1 + (double)(test_random_bits(random) % 32) * 0x1p-10 + 0xfff * 0x1p-23;
}
/* Products range from 2^-120 to 2^120. */
static double of_any_size(test_random *random, op_gemm_operand operand, int64_t row,
                          int64_t column) {
    (void)operand, (void)row, (void)column;
    return sign_of(random) *
           ldexp(test_random_uniform(random, 1, 2), (int)test_random_int(random, -60, 60));
}
/*
 * Products of two neighbouring steps of K are v·w and -v·w. Each factor is also scaled by a number
 * of its row or column. The products cancel except for rounding.
 */
static double cancelling(test_random *random, op_gemm_operand operand, int64_t row,
                         int64_t column) {
    const int64_t step = operand == OP_GEMM_A ? column : row,
                  line = operand == OP_GEMM_A ? row : 1000 + column;
    const bool second = (step % 2 != 0) != (operand == OP_GEMM_B);
    test_random of_step = {(uint64_t)(5 + step / 2 * 2 + second)},
                of_line = {(uint64_t)(100000 + line)};
    (void)random;
    return (operand == OP_GEMM_A && step % 2 ? -1 : 1) * test_random_uniform(&of_step, 0.5, 1) *
           test_random_uniform(&of_line, 0.5, 1);
}
/*
 * Elements of A are so small that splitting them may lose bits; some are denormal. B scales the
 * products back.
 */
static double tiny(test_random *random, op_gemm_operand operand, int64_t row, int64_t column) {
    (void)row, (void)column;
    const int exponent = (int)(operand == OP_GEMM_A ? test_random_int(random, -135, -108)
                                                    : test_random_int(random, 60, 100));
    return sign_of(random) * ldexp(test_random_uniform(random, 1, 2), exponent);
}

static const struct hard_data {
    const char *name;
    value_of *value;
    bool needs_parts; /* a single tf32 product exceeds the bound */
} hard_data[] = {{"far from tf32", far_from_tf32, true},
                 {"any size", of_any_size, true},
                 {"cancelling", cancelling, true},
                 {"tiny", tiny, false}};

static void check_bound(const product *p, bool needs_parts) {
    int beyond = 0;
    for (int64_t i = 0; i < p->m; i++)
        for (int64_t j = 0; j < p->n; j++) {
            const element e = element_of(p, i, j);
            const double bound = bound_of(p, &e), got = test_array_fetched(&p->d, i * p->n + j);
            if (!(fabs(got - e.value) <= bound))
                test_case_fail("D[%lld][%lld] is %.9g, should be %.9g within %.3g", (long long)i,
                               (long long)j, got, e.value, bound);
            beyond += fabs(e.tf32 - e.value) > bound;
        }
    if (needs_parts && beyond < p->m * p->n / 2)
        test_case_fail("the bound is wide enough for products of tf32: of %lld only %d exceed it",
                       (long long)p->m * (long long)p->n, beyond);
}

static void keeps_the_bound(const test_device *device, const tdm_variant *row) {
    static const int64_t depths[] = {1, 7, 24, 67};
    for (int i = 0; i < COUNT(hard_data) * COUNT(depths); i++) {
        const struct hard_data *const data = &hard_data[i % COUNT(hard_data)];
        product p = {.m = 37, .n = 29, .k = depths[i / COUNT(hard_data)]};
        if (data->value == cancelling && p.k % 2)
            p.k++;
        if (!test_part_is_due(device, row, i / COUNT(hard_data) + i) ||
            !test_case_begin(device, row->name, "%s, K %lld", data->name, (long long)p.k))
            continue;
        product_create(&p, device, data->value, 11 + (uint64_t)i);
        product_run(&p, device, row->name);
        check_bound(&p, data->needs_parts);
        product_destroy(&p);
        test_case_end();
    }
}

TEST(data_that_is_hard_to_split) {
    test_each_variant(TDM_OP_GEMM, tdm_gemm_is_3xtf32, keeps_the_bound);
}

/* ---- non-finite numbers ---- */

enum {
    SPECIAL_STEP = 5,
    SPECIAL_ROWS = 66 /* in another tile for some variants, at the end of the tile for others */
};

/* These values are at one step of K, in the first rows of A and the first columns of B. */
static const double specials[] = {INFINITY, -INFINITY, NAN, 0, -1, FLT_MAX, -0x1.ffep127, 0x1p-20};

static double with_specials(test_random *random, op_gemm_operand operand, int64_t row,
                            int64_t column) {
    const int64_t step = operand == OP_GEMM_A ? column : row,
                  line = operand == OP_GEMM_A ? row : column;
    if (step == SPECIAL_STEP && line < COUNT(specials)) /* products of two of them overflow f32 */
        return specials[line] * (operand == OP_GEMM_B && fabs(specials[line]) > 1 ? 0x1p-3 : 1);
    if (step == SPECIAL_STEP + 3 && operand == OP_GEMM_A && row == SPECIAL_ROWS)
        return -INFINITY;
    return (double)test_random_int(random, 1, 4) / 16;
}

/* Only a later warp of the work-group reads the infinity, not the first one. */
static double late_infinity(test_random *random, op_gemm_operand operand, int64_t row,
                            int64_t column) {
    if (operand == OP_GEMM_A && row == 40 && column == SPECIAL_STEP)
        return INFINITY;
    return (double)test_random_int(random, 1, 4) / 16;
}

static bool is_as_expected(const product *p, int64_t i, int64_t j) {
    const element e = element_of(p, i, j);
    const double got = test_array_fetched(&p->d, i * p->n + j);
    if (isnan(e.value))
        return isnan(got);
    if (isinf(e.value))
        return got == e.value;
    if (fabs(e.value) > (double)FLT_MAX)
        return !isfinite(got);
    return fabs(got - e.value) <= bound_of(p, &e);
}

static void check_not_finite(const test_device *device, const tdm_variant *row, const char *name,
                             value_of *value) {
    product p = {.m = SPECIAL_ROWS + 1, .n = 19, .k = 21};
    if (!test_case_begin(device, row->name, "not finite: %s", name))
        return;
    product_create(&p, device, value, 3);
    product_run(&p, device, row->name);
    for (int64_t i = 0; i < p.m; i++)
        for (int64_t j = 0; j < p.n; j++)
            if (!is_as_expected(&p, i, j))
                test_case_fail("D[%lld][%lld] is %.9g, should be %.9g", (long long)i, (long long)j,
                               test_array_fetched(&p.d, i * p.n + j), element_of(&p, i, j).value);
    product_destroy(&p);
    test_case_end();
}

static void keeps_what_is_not_finite(const test_device *device, const tdm_variant *row) {
    check_not_finite(device, row, "specials", with_specials);
    check_not_finite(device, row, "a late one", late_infinity);
}

TEST(infinities_and_nans_as_in_f32) {
    test_each_variant(TDM_OP_GEMM, tdm_gemm_is_3xtf32, keeps_what_is_not_finite);
}

/* ---- the permission ---- */

#define REFUSAL "multiplies f32 as three tf32 products, which the description does not allow"

static void refuses_without(const test_device *device, const tdm_variant *row) {
    tdm_gemm_desc desc = desc_of(64, 64, 64);
    tdm_gemm_plan *plan = NULL;
    char text[128];
    if (!test_case_begin(device, row->name, "no permission"))
        return;
    desc.allow_3xtf32 = 0;
    desc.variant = row->name;
    TEST_REFUSED(tdm_gemm_plan_create(device->device, &desc, &plan), TDM_UNSUPPORTED, REFUSAL);
    snprintf(text, sizeof text, "%s:split_k=2", row->name);
    desc.variant = text;
    TEST_REFUSED(tdm_gemm_plan_create(device->device, &desc, &plan), TDM_UNSUPPORTED, REFUSAL);
    desc.variant = NULL;
    tdm_force_variant(row->name);
    TEST_REFUSED(tdm_gemm_plan_create(device->device, &desc, &plan), TDM_UNSUPPORTED, REFUSAL);
    tdm_force_variant(NULL);
    test_case_end();
}

TEST(a_name_is_no_permission) {
    test_each_variant(TDM_OP_GEMM, tdm_gemm_is_3xtf32, refuses_without);
}

/* Expects the name of the chosen variant to contain `part`, or not to contain it. */
static void expect_variant(tdm_device *device, const tdm_gemm_desc *desc, const char *part,
                           bool expected) {
    tdm_gemm_plan *plan;
    TEST_OK(tdm_gemm_plan_create(device, desc, &plan));
    if ((strstr(tdm_gemm_plan_variant(plan), part) != NULL) != expected)
        test_case_fail("%s is taken where %s is%s expected", tdm_gemm_plan_variant(plan), part,
                       expected ? "" : " not");
    tdm_gemm_plan_destroy(plan);
}

static bool has_rows(const test_device *device) {
    const uint32_t needed = TDM_CAP_TENSOR_CORES | TDM_CAP_ASYNC_COPY;
    return (device->info.capabilities & needed) == needed;
}

/* Returns the f32 variant with the least predicted time on this device. */
static const char *least_time(const test_device *device, int64_t m, int64_t n, int64_t k) {
    const tdm_gemm_desc desc = desc_of(m, n, k);
    tdm_gemm_problem problem;
    const tdm_variant *best = NULL;
    double least = 0;
    TEST_OK(tdm_gemm_problem_from(&desc, &problem));
    for (int i = 0; i < tdm_variant_count; i++) {
        tdm_gemm_waves waves;
        if (tdm_variants[i].op != TDM_OP_GEMM || !tdm_gemm_has_wave_model(&tdm_variants[i]) ||
            tdm_variants[i].parameters[TDM_GEMM_P_A_TYPE] != (int32_t)TDM_F32 ||
            !test_can_run(device, &tdm_variants[i]))
            continue;
        tdm_gemm_waves_best(&problem, &tdm_variants[i], &device->device->info, &waves);
        if (best && waves.ns >= least)
            continue;
        best = &tdm_variants[i];
        least = waves.ns;
    }
    return best ? best->name : "";
}

DEVICE_TEST(the_model_chooses_where_it_is_allowed) {
    static const uint32_t fast[] = {80, 90, 100}, slow[] = {86, 89, 120};
    static const int64_t sizes[][3] = {{4096, 4096, 4096}, {1000, 1000, 1000}, {128, 512, 2048}};
    const uint32_t architecture = device->device->info.architecture;
    tdm_gemm_desc desc;
    if (!has_rows(device))
        return;
    for (int a = 0; a < COUNT(fast); a++)
        for (int i = 0; i < COUNT(sizes); i++) {
            device->device->info.architecture = fast[a];
            desc = desc_of(sizes[i][0], sizes[i][1], sizes[i][2]);
            expect_variant(device->device, &desc, "_3xtf32_", true);
            expect_variant(device->device, &desc,
                           least_time(device, sizes[i][0], sizes[i][1], sizes[i][2]), true);
            desc.allow_3xtf32 = 0;
            expect_variant(device->device, &desc, "_3xtf32_", false);
            device->device->info.architecture = slow[a];
            desc.allow_3xtf32 = 1;
            expect_variant(device->device, &desc, "_3xtf32_", false);
        }
    device->device->info.architecture = 90;
    desc = desc_of(8, 4096, 64);
    expect_variant(device->device, &desc, "_3xtf32_", false);
    desc = desc_of(1024, 1024, 1024);
    desc.a.dtype = desc.b.dtype = TDM_F16;
    expect_variant(device->device, &desc, "gemm_f16_", true);
    device->device->info.architecture = architecture;
}

DEVICE_TEST(tuning_data_is_kept_apart) {
    if (!has_rows(device))
        return;
    tdm_gemm_desc allowed = desc_of(128 * (int64_t)device->info.compute_units, 64, 512),
                  thin = desc_of(8, 4096, 64), plain = allowed;
    plain.allow_3xtf32 = 0;
    tuned_device own =
        tuned_device_open(device, TUNING_HEADER "any gemm-3xtf32 f32 f32 any *x*x* "
                                                "gemm_f32_3xtf32_64x64__tensor measured=1\n");
    expect_variant(own.device, &allowed, "_3xtf32_64x64__", true);
    assert_non_null(strstr(tuned_device_log(), " ta=0 tb=0 3xtf32=1\n"));
    assert_string_equal(tuned_device_plan(&own, &thin).variant, "gemm_f32_3xtf32_64x64__tensor");
    expect_variant(own.device, &plain, "_3xtf32_", false);
    tuned_device_close(&own);

    /*
     * A tuning line for all plans cannot select such a variant. For a plan that permits the
     * variant, the model can still choose it.
     */
    own = tuned_device_open(device, TUNING_HEADER
                            "any gemm f32 f32 any *x*x* gemm_f32_3xtf32_64x64__tensor "
                            "measured=1\n");
    expect_variant(own.device, &plain, "_3xtf32_", false);
    assert_non_null(strstr(tuned_device_log(), REFUSAL));
    tuned_device_close(&own);
    own = tuned_device_open(device, TUNING_HEADER
                            "any gemm f32 f32 any *x*x* gemm_any_reference measured=1\n");
    own.device->info.architecture = 90;
    expect_variant(own.device, &allowed, "_3xtf32_", true);
    expect_variant(own.device, &thin, "gemm_any_reference", true);
    tuned_device_close(&own);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
