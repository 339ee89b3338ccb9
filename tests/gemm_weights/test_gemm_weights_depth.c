/*
 * GEMM with quantized weights where K is long: beyond what an item keeps of A, and what stays in the innermost cache, by an element or two
 * and by much, for one row and for several, with tiles of lines that are whole and not, one for an item and several. Each row of op GEMM_WEIGHTS that reads
 * lines, or makes panels of codes of them, is forced, and the library chooses, within the bound of docs/numerics.md.
 */
// ctest: device timeout=240 cost=10
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/gemm/gemm_internal.h"
#include "common/op_gemm.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/variant_cases.h"
#include "tests/support/test_array.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

typedef struct depth_trial {
    int64_t m, n, k, group; /* 0: one scale for a column */
    tdm_dtype a_type, scale, zero;
    bool packed, small; /* B is K×N and packed, else N×K; small: slow implementations have it */
} depth_trial;

/* Lines of s4 need an even K where they are read as they come, an even N where they are packed. */
static const depth_trial trials[] = {
    {1, 11, 4130, 32, TDM_F32, TDM_F16, TDM_S8, false, true},
    {16, 1, 3970, 64, TDM_BF16, TDM_F32, TDM_DTYPE_NONE, false, true},
    {1, 18, 8193, 0, TDM_F32, TDM_F32, TDM_DTYPE_NONE, true, false},
    {1, 9, 8194, 128, TDM_F16, TDM_F16, TDM_DTYPE_NONE, false, false},
    {1, 4, 65409, 0, TDM_BF16, TDM_F32, TDM_S8, true, false},
    {1, 5, 131202, 32, TDM_F32, TDM_F16, TDM_S32, false, false},
    {2, 18, 32641, 256, TDM_F32, TDM_F32, TDM_S8, true, false},
    {3, 17, 11010, 24, TDM_F16, TDM_BF16, TDM_DTYPE_NONE, false, false},
    {7, 33, 9346, 0, TDM_F32, TDM_F16, TDM_DTYPE_NONE, false, false},
    {8, 20, 8065, 32, TDM_F32, TDM_F16, TDM_S8, true, false},
    {16, 21, 8190, 512, TDM_BF16, TDM_F16, TDM_S8, false, false}, /* pieces begin within groups */
    {1, 10, 16386, 64, TDM_F32, TDM_F16, TDM_S8, true, false},
    {16, 5, 16514, 512, TDM_F32, TDM_F16, TDM_S8, false, false}, /* pieces, and blocks, likewise */
    {13, 6, 20164, 0, TDM_F32, TDM_F32, TDM_S8, false, false},
    {1, 600, 390, 0, TDM_F32, TDM_F32, TDM_S8, true, false}, /* several tiles for an item */
    {3, 600, 260, 32, TDM_F32, TDM_F16, TDM_S8, false, false},
    {21, 37, 2150, 96, TDM_F32, TDM_F16, TDM_S8, false, true}, /* blocks end within groups */
    {40, 70, 3073, 64, TDM_F16, TDM_F32, TDM_DTYPE_NONE, true, false},
    {29, 33, 2048, 0, TDM_F32, TDM_F32, TDM_S8, false, false},
};

/* Equal terms, whose rounding errors all have one sign. */
static const depth_trial equal_trials[] = {
    {1, 9, 16384, 0, TDM_F32, TDM_F32, TDM_DTYPE_NONE, false, false},
    {3, 9, 4096, 0, TDM_F32, TDM_F32, TDM_DTYPE_NONE, false, true},
    {3, 17, 65536, 32, TDM_F32, TDM_F32, TDM_DTYPE_NONE, false, false},
    {1, 5, 16384, 8, TDM_F32, TDM_F32, TDM_DTYPE_NONE, false, false},
    {1, 5, 16384, 1, TDM_F32, TDM_F32, TDM_DTYPE_NONE, false, false},
    {1, 12, 16384, 0, TDM_F32, TDM_F32, TDM_DTYPE_NONE, true, false},
    {16, 12, 16384, 64, TDM_F32, TDM_F32, TDM_DTYPE_NONE, false, false},
    {20, 40, 16384, 64, TDM_F32, TDM_F32, TDM_DTYPE_NONE, true, false},
};

typedef struct depth_case {
    const test_device *device;
    const tdm_variant *row; /* or NULL */
    const depth_trial *t;
    tdm_dtype b_type;
    bool quantize_a;
    bool equal; /* A is 0.1, scales are 0.011, codes are the greatest */
    test_array a, codes, scale, zero, d;
    tdm_tensor *b;
} depth_case;

/* ---- operands ----------------------------------------------------------------------------------------- */

static int64_t groups_of(const depth_trial *t) {
    return t->group == 0 ? 1 : tdm_ceil_div(t->k, t->group);
}

/* The place of a column's code, or of its group's parameters. */
static int64_t place_in_b(const depth_trial *t, int64_t steps, int64_t p, int64_t j) {
    return t->packed ? p * t->n + j : j * steps + p;
}

static void create_of_b(const depth_case *c, test_array *array, tdm_dtype dtype, int64_t steps,
                        double low, double high) {
    const depth_trial *const t = c->t;
    const int64_t shape[2] = {t->packed ? steps : t->n, t->packed ? t->n : steps};
    test_random random = {(uint64_t)(t->k + (int64_t)dtype)};
    test_array_create(array, c->device, dtype, 2, shape, TEST_DENSE);
    for (int64_t i = 0; i < test_array_count(array); i++)
        test_array_put(array, i,
                       c->equal   ? (high < 1 ? 0.011 : high)
                       : high < 1 ? test_random_uniform(&random, low, high)
                                  : (double)test_random_int(&random, (int)low, (int)high));
    test_array_send(array);
}

static void create(depth_case *c) {
    const depth_trial *const t = c->t;
    const int64_t a[2] = {t->m, t->k}, d[2] = {t->m, t->n};
    const double low = c->b_type == TDM_S4 ? -8 : -128, high = c->b_type == TDM_S4 ? 7 : 127;
    tdm_quantization q = TDM_QUANTIZATION_INIT;
    test_array_create(&c->a, c->device, t->a_type, 2, a, TEST_DENSE);
    test_array_fill(&c->a, TEST_DATA_UNIT, 5);
    for (int64_t i = 0; c->equal && i < test_array_count(&c->a); i++)
        test_array_put(&c->a, i, 0.1);
    test_array_send(&c->a);
    create_of_b(c, &c->codes, c->b_type, t->k, low, high);
    create_of_b(c, &c->scale, t->scale, groups_of(t), 0.001, 0.01);
    q.scale = c->scale.tensor;
    if (t->zero != TDM_DTYPE_NONE) {
        create_of_b(c, &c->zero, t->zero, groups_of(t), low, high);
        q.zero_point = c->zero.tensor;
    }
    q.block[0] = t->packed ? t->group : 1;
    q.block[1] = t->packed ? 1 : t->group;
    TEST_OK(tdm_tensor_quantized(c->codes.tensor, &q, &c->b));
    test_array_create(&c->d, c->device, TDM_F32, 2, d, TEST_DENSE);
    test_array_send(&c->d);
}

static void destroy(depth_case *c) {
    tdm_tensor_destroy(c->b);
    test_array_destroy(&c->a);
    test_array_destroy(&c->codes);
    test_array_destroy(&c->scale);
    test_array_destroy(&c->zero);
    test_array_destroy(&c->d);
}

/* True unless the forced row does not take the problem. */
static bool multiply(depth_case *c) {
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    tdm_gemm_args args = TDM_GEMM_ARGS_INIT;
    tdm_gemm_plan *plan;
    tdm_packed *packed = NULL;
    size_t bytes;
    desc.a = c->a.layout;
    desc.b = c->codes.layout;
    desc.d = c->d.layout;
    TEST_OK(tdm_tensor_quant_layout(c->b, &desc.b_quant));
    desc.transpose_b = !c->t->packed;
    desc.packed_b = c->t->packed;
    desc.quantize_a = c->quantize_a;
    desc.variant = c->row ? c->row->name : NULL;
    const tdm_status made = tdm_gemm_plan_create(c->device->device, &desc, &plan);
    if (c->row && made == TDM_UNSUPPORTED)
        return false;
    TEST_OK(made);
    TEST_OK(tdm_gemm_plan_workspace_size(plan, &bytes));
    if (bytes > 0)
        TEST_OK(tdm_buffer_create(c->device->device, bytes, &args.workspace));
    if (c->t->packed)
        TEST_OK(tdm_gemm_pack_b(plan, c->device->stream, c->b, &packed));
    args.a = c->a.tensor;
    args.b = packed ? NULL : c->b;
    args.packed_b = packed;
    args.d = c->d.tensor;
    TEST_OK(tdm_gemm_plan_run(plan, c->device->stream, &args));
    test_array_fetch(&c->d);
    tdm_packed_destroy(packed);
    tdm_buffer_destroy(args.workspace);
    tdm_gemm_plan_destroy(plan);
    return true;
}

/* ---- the oracle --------------------------------------------------------------------------------------- */

/* A row of A, or what its codes stand for. */
static void real_row(const depth_case *c, int64_t i, double *x) {
    const int64_t k = c->t->k;
    float most = 0;
    for (int64_t p = 0; p < k; p++) {
        x[p] = test_array_get(&c->a, i * k + p);
        most = fmaxf(most, fabsf((float)x[p]));
    }
    const float scale = most / 127.0f;
    for (int64_t p = 0; p < k && c->quantize_a; p++)
        x[p] = (double)scale * (double)rintf((float)x[p] / scale);
}

static void real_column(const depth_case *c, int64_t j, double *b) {
    const depth_trial *const t = c->t;
    for (int64_t p = 0; p < t->k; p++) {
        const int64_t group = place_in_b(t, groups_of(t), t->group == 0 ? 0 : p / t->group, j);
        const double zero = t->zero == TDM_DTYPE_NONE ? 0 : test_array_get(&c->zero, group);
        b[p] = test_array_get(&c->scale, group) *
               (test_array_get(&c->codes, place_in_b(t, t->k, p, j)) - zero);
    }
}

static void check(const depth_case *c) {
    const int64_t m = c->t->m, n = c->t->n, k = c->t->k;
    op_gemm_case item = {.m = m, .n = n, .k = k};
    item.dtype[OP_GEMM_D] = TDM_F32;
    double *const x = malloc((size_t)(m * k + k) * sizeof *x);
    if (!x)
        test_case_fail("no host memory");
    double *const b = x + m * k;
    for (int64_t i = 0; i < m; i++)
        real_row(c, i, x + i * k);
    for (int64_t j = 0; j < n; j++) {
        real_column(c, j, b);
        for (int64_t i = 0; i < m; i++) {
            double sum = 0, size = 0;
            for (int64_t p = 0; p < k; p++) {
                sum += x[i * k + p] * b[p];
                size += fabs(x[i * k + p] * b[p]);
            }
            const double actual = test_array_fetched(&c->d, i * n + j);
            const double bound = op_gemm_bound(&item, sum, size);
            if (!(fabs(actual - sum) <= bound))
                test_case_fail("D[%d, %d] is %.9g, not %.9g +- %.3g", (int)i, (int)j, actual, sum,
                               bound);
        }
    }
    free(x);
}

/* ---- the runs ----------------------------------------------------------------------------------------- */

static void run_trial(depth_case c) {
    const depth_trial *const t = c.t;
    if (!test_case_begin(c.device, c.row ? c.row->name : NULL,
                         "%s m%d n%d k%d groups of %d, A %s%s, scales %s, zero points %s%s%s",
                         tdm_dtype_name(c.b_type), (int)t->m, (int)t->n, (int)t->k, (int)t->group,
                         tdm_dtype_name(t->a_type), c.quantize_a ? " quantized" : "",
                         tdm_dtype_name(t->scale),
                         t->zero != TDM_DTYPE_NONE ? tdm_dtype_name(t->zero) : "none",
                         t->packed ? ", packed" : "", c.equal ? ", equal terms" : ""))
        return;
    create(&c);
    if (multiply(&c)) {
        check(&c);
        test_case_end();
    }
    destroy(&c);
}

static bool reads_lines(const tdm_variant *row) {
    const int32_t *const p = row->parameters;
    return row->op == TDM_OP_GEMM_WEIGHTS && (p[TDM_GEMM_P_FAMILY] == TDM_GEMM_SKINNY ||
                                              (p[TDM_GEMM_P_FAMILY] == TDM_GEMM_PANEL &&
                                               p[TDM_GEMM_P_A_TYPE] == TDM_GEMM_QUANTIZED_A));
}

static void run_row(const test_device *device, const tdm_variant *row) {
    depth_case c = {.device = device, .row = row};
    c.b_type = (tdm_dtype)row->parameters[TDM_GEMM_P_B_TYPE];
    c.quantize_a = row->parameters[TDM_GEMM_P_A_TYPE] == TDM_GEMM_QUANTIZED_A;
    for (int t = 0; t < COUNT(trials); t++) {
        c.t = &trials[t];
        if (trials[t].small || !test_is_small())
            run_trial(c);
    }
}

/*
 * Tensor cores do not round sums to nearest: docs/numerics.md states no bound for them here. Slow
 * implementations take minutes for long sums of a large tile.
 */
static bool is_bounded(const tdm_variant *row) {
    const int32_t family = row->parameters[TDM_GEMM_P_FAMILY];
    return row->op == TDM_OP_GEMM_WEIGHTS && family < TDM_GEMM_TENSOR &&
           (!test_is_small() || family != TDM_GEMM_TILED);
}

static void run_equal_terms(const test_device *device) {
    for (int v = 0; v <= tdm_variant_count; v++) {
        const tdm_variant *const row = v < tdm_variant_count ? &tdm_variants[v] : NULL;
        if (row && !(is_bounded(row) && test_can_run(device, row)))
            continue;
        for (int t = 0; t < COUNT(equal_trials); t++) {
            depth_trial trial = equal_trials[t];
            depth_case c = {
                .device = device, .row = row, .t = &trial, .equal = true, .b_type = TDM_S8};
            if (row) {
                const int32_t *const p = row->parameters;
                c.b_type = p[TDM_GEMM_P_B_TYPE] ? (tdm_dtype)p[TDM_GEMM_P_B_TYPE] : TDM_S4;
                c.quantize_a = p[TDM_GEMM_P_A_TYPE] == TDM_GEMM_QUANTIZED_A;
                if (p[TDM_GEMM_P_A_TYPE] > 0)
                    trial.a_type = (tdm_dtype)p[TDM_GEMM_P_A_TYPE];
            }
            if (trial.small || !test_is_small())
                run_trial(c);
        }
    }
}

static void equal_terms_are_within_the_bound(void **state) {
    (void)state;
    for (int d = 0; d < test_device_count(); d++)
        run_equal_terms(test_device_at(d));
}

DEVICE_TEST(long_lines_are_multiplied_to_their_ends) {
    for (int v = 0; v < tdm_variant_count; v++)
        if (reads_lines(&tdm_variants[v]) && test_can_run(device, &tdm_variants[v]))
            run_row(device, &tdm_variants[v]);
}

DEVICE_TEST(the_library_multiplies_long_lines) {
    for (int x = 0; x < 4; x++)
        for (int t = 0; t < COUNT(trials); t += test_is_small() ? COUNT(trials) : 1) {
            const depth_case c = {.device = device,
                                  .t = &trials[t],
                                  .b_type = x & 1 ? TDM_S4 : TDM_S8,
                                  .quantize_a = x >> 1};
            run_trial(c);
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(equal_terms_are_within_the_bound),
                                       cmocka_unit_test(long_lines_are_multiplied_to_their_ends),
                                       cmocka_unit_test(the_library_multiplies_long_lines)};
    return cmocka_run_group_tests(tests, test_devices_setup, test_devices_teardown);
}
