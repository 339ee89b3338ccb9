/*
 * Scales that are infinite: D is infinite where the products of their groups are not zero, whatever a kernel fills up its tiles, lanes and
 * chunks with behind the last step of K. Codes less zero points and A are positive, so that no sum of a part of a group is zero.
 */
// ctest: device timeout=60
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/gemm_internal.h"
#include "tests/support/test_array.h"
#include "tests/support/variant_cases.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

enum {
    ROWS = 5,
    COLUMNS = 9
};

typedef struct infinite_trial {
    int64_t k, group;
    tdm_dtype scale, zero;
} infinite_trial;

/* Last groups of few steps, of a step, of more than a tile and of none missing; one group for all of K. */
static const infinite_trial trials[] = {
    {70, 32, TDM_F32, TDM_DTYPE_NONE}, {70, 64, TDM_F16, TDM_S8},
    {129, 64, TDM_F32, TDM_S8},        {1100, 128, TDM_BF16, TDM_DTYPE_NONE},
    {424, 32, TDM_F32, TDM_S32},       {256, 64, TDM_F16, TDM_DTYPE_NONE},
    {77, 0, TDM_F32, TDM_S8},
};

typedef struct infinite_case {
    const test_device *device;
    const tdm_variant *row;
    const infinite_trial *t;
    test_array a, codes, scale, zero, d;
    tdm_tensor *b;
} infinite_case;

static int64_t groups_of(const infinite_trial *t) {
    return t->group == 0 ? 1 : tdm_ceil_div(t->k, t->group);
}

static int code_at(const infinite_case *c, int64_t j, int64_t p) {
    return c->t->zero == TDM_DTYPE_NONE ? 1 + (int)((j + p) % 7) : (int)((j + p) % 5);
}
static int zero_of(const infinite_case *c) {
    return c->t->zero == TDM_DTYPE_NONE ? 0 : -3;
}

/* Of every second column the last group's is infinite. */
static bool is_infinite(const infinite_case *c, int64_t j, int64_t g) {
    return j % 2 != 0 && g == groups_of(c->t) - 1;
}

static void create(infinite_case *c) {
    const infinite_trial *const t = c->t;
    const int64_t a[2] = {ROWS, t->k}, b[2] = {COLUMNS, t->k}, d[2] = {ROWS, COLUMNS},
                  parameters[2] = {COLUMNS, groups_of(t)};
    const int32_t *const row = c->row->parameters;
    const tdm_dtype a_type =
        row[TDM_GEMM_P_A_TYPE] > 0 ? (tdm_dtype)row[TDM_GEMM_P_A_TYPE] : TDM_F32;
    const tdm_dtype b_type =
        row[TDM_GEMM_P_B_TYPE] > 0 ? (tdm_dtype)row[TDM_GEMM_P_B_TYPE] : TDM_S4;
    tdm_quantization q = TDM_QUANTIZATION_INIT;
    q.block[0] = 1;
    q.block[1] = t->group;
    test_array_create(&c->a, c->device, a_type, 2, a, TEST_DENSE);
    test_array_create(&c->codes, c->device, b_type, 2, b, TEST_DENSE);
    test_array_create(&c->scale, c->device, t->scale, 2, parameters, TEST_DENSE);
    test_array_create(&c->d, c->device, TDM_F32, 2, d, TEST_DENSE);
    for (int64_t i = 0; i < ROWS * t->k; i++)
        test_array_put(&c->a, i, 1.0);
    for (int64_t i = 0; i < COLUMNS * t->k; i++)
        test_array_put(&c->codes, i, code_at(c, i / t->k, i % t->k));
    for (int64_t i = 0; i < COLUMNS * groups_of(t); i++)
        test_array_put(&c->scale, i,
                       is_infinite(c, i / groups_of(t), i % groups_of(t)) ? INFINITY : 0.5);
    q.scale = c->scale.tensor;
    if (t->zero != TDM_DTYPE_NONE) {
        test_array_create(&c->zero, c->device, t->zero, 2, parameters, TEST_DENSE);
        for (int64_t i = 0; i < COLUMNS * groups_of(t); i++)
            test_array_put(&c->zero, i, zero_of(c));
        test_array_send(&c->zero);
        q.zero_point = c->zero.tensor;
    }
    test_array_send(&c->a);
    test_array_send(&c->codes);
    test_array_send(&c->scale);
    test_array_send(&c->d);
    TEST_OK(tdm_tensor_quantized(c->codes.tensor, &q, &c->b));
}

static void multiply(infinite_case *c) {
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    tdm_gemm_args args = TDM_GEMM_ARGS_INIT;
    tdm_gemm_plan *plan;
    size_t bytes;
    desc.a = c->a.layout;
    desc.b = c->codes.layout;
    desc.d = c->d.layout;
    TEST_OK(tdm_tensor_quant_layout(c->b, &desc.b_quant));
    desc.transpose_b = 1;
    desc.quantize_a = c->row->parameters[TDM_GEMM_P_A_TYPE] == TDM_GEMM_QUANTIZED_A;
    desc.variant = c->row->name;
    TEST_OK(tdm_gemm_plan_create(c->device->device, &desc, &plan));
    TEST_OK(tdm_gemm_plan_workspace_size(plan, &bytes));
    if (bytes > 0)
        TEST_OK(tdm_buffer_create(c->device->device, bytes, &args.workspace));
    args.a = c->a.tensor;
    args.b = c->b;
    args.d = c->d.tensor;
    TEST_OK(tdm_gemm_plan_run(plan, c->device->stream, &args));
    test_array_fetch(&c->d);
    tdm_buffer_destroy(args.workspace);
    tdm_gemm_plan_destroy(plan);
}

static void check(const infinite_case *c) {
    for (int64_t i = 0; i < ROWS * COLUMNS; i++) {
        const int64_t j = i % COLUMNS;
        double sum = 0.0;
        for (int64_t p = 0; p < c->t->k; p++)
            sum += 0.5 * (code_at(c, j, p) - zero_of(c));
        const double actual = test_array_fetched(&c->d, i);
        const bool right =
            j % 2 != 0 ? actual == INFINITY : fabs(actual - sum) <= 1e-5 * sum; /* A in codes */
        if (!right)
            test_case_fail("D[%d, %d] is %g, must be %g", (int)(i / COLUMNS), (int)j, actual,
                           j % 2 != 0 ? INFINITY : sum);
    }
}

static void run_trial(const test_device *device, const tdm_variant *row, const infinite_trial *t) {
    infinite_case c = {.device = device, .row = row, .t = t};
    if (!test_case_begin(device, row->name, "k %d, groups of %d, scales %s, zero points %s",
                         (int)t->k, (int)t->group, tdm_dtype_name(t->scale),
                         t->zero != TDM_DTYPE_NONE ? tdm_dtype_name(t->zero) : "none"))
        return;
    create(&c);
    multiply(&c);
    check(&c);
    test_case_end();
    tdm_tensor_destroy(c.b);
    test_array_destroy(&c.a);
    test_array_destroy(&c.codes);
    test_array_destroy(&c.scale);
    test_array_destroy(&c.zero);
    test_array_destroy(&c.d);
}

static void infinite_scales_multiply_the_steps_of_k_alone(void **state) {
    (void)state;
    for (int d = 0; d < test_device_count(); d++)
        for (int v = 0; v < tdm_variant_count; v++) {
            const test_device *const device = test_device_at(d);
            const tdm_variant *const row = &tdm_variants[v];
            if (row->op != TDM_OP_GEMM_WEIGHTS || !test_can_run(device, row))
                continue;
            for (int t = 0; t < COUNT(trials); t++)
                if (test_part_is_due(device, row, t))
                    run_trial(device, row, &trials[t]);
        }
    test_require_all_variants(TDM_OP_GEMM_WEIGHTS);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(infinite_scales_multiply_the_steps_of_k_alone)};
    return cmocka_run_group_tests(tests, test_devices_setup, test_devices_teardown);
}
