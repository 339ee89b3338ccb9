/*
 * Rows for tensor cores beyond what every row is tried with: K of several tiles and their ends, so that all stages of local memory
 * are used and used again; operands that are copied by 16 bytes, turned, by words and by elements; and which row is chosen.
 */
// ctest: device cuda timeout=120
#include <stdio.h>
#include <string.h>

#include "api/gemm/gemm_internal.h"
#include "tests/support/devices/variant_cases.h"
#include "tests/support/gemm/gemm_int_trial.h"
#include "tests/support/gemm/gemm_trial.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

static bool is_tensor_row(const tdm_variant *row, tdm_op op) {
    return row->op == op && row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_TENSOR;
}

typedef void row_test(const test_device *device, const tdm_variant *row);

/* On every tensor row that a device can run; a device with tensor cores runs some. */
static void on_tensor_rows(tdm_op op, row_test *test) {
    for (int d = 0; d < test_device_count(); d++) {
        const test_device *const device = test_device_at(d);
        int rows = 0;
        for (int i = 0; i < tdm_variant_count; i++)
            if (is_tensor_row(&tdm_variants[i], op) && test_can_run(device, &tdm_variants[i])) {
                test(device, &tdm_variants[i]);
                rows++;
            }
        if (rows == 0 && (device->info.capabilities & TDM_CAP_TENSOR_CORES) &&
            test_case_begin(device, NULL, "tensor rows of op %d", (int)op)) {
            test_case_fail("no row of op %d can be run", (int)op);
            test_case_end();
        }
    }
}

/* ---- floats ---- */

typedef struct layout_row {
    int transpose_a, transpose_b;
    test_placement a, b;
} layout_row;

/* Dense operands of sides that are multiples of eight are copied by 16 bytes. */
static const layout_row layouts[] = {
    {0, 1, TEST_DENSE, TEST_DENSE},  {0, 0, TEST_DENSE, TEST_DENSE},
    {1, 0, TEST_DENSE, TEST_DENSE},  {1, 1, TEST_DENSE, TEST_DENSE},
    {0, 1, TEST_OFFSET, TEST_DENSE}, {0, 0, TEST_DENSE, TEST_OFFSET},
    {1, 0, TEST_SPREAD, TEST_PADDED}};

/* One tile of K, its neighbours, and more tiles than there are stages, twice over. */
static const int64_t depths[] = {8, 32, 40, 128, 296};

/* `tiles` of D one below the other, two side by side. */
static void run_floats(const test_device *device, const tdm_variant *row, const layout_row *layout,
                       int64_t tiles, int64_t k, int exact) {
    char text[512];
    const int32_t *const p = row->parameters;
    gemm_trial trial = {.variant = row->name};
    trial.item = (op_gemm_case){.m = tiles * p[TDM_GEMM_P_ROWS] - 8,
                                .n = p[TDM_GEMM_P_COLUMNS] + 8,
                                .k = k,
                                .transpose_a = layout->transpose_a,
                                .transpose_b = layout->transpose_b,
                                .alpha = 1.0f,
                                .exact = exact,
                                .allow_3xtf32 = tdm_gemm_is_3xtf32(row),
                                .seed = (uint64_t)k + 99};
    trial.item.dtype[OP_GEMM_A] = (tdm_dtype)p[TDM_GEMM_P_A_TYPE];
    trial.item.dtype[OP_GEMM_B] = (tdm_dtype)p[TDM_GEMM_P_B_TYPE];
    trial.item.dtype[OP_GEMM_D] = exact ? TDM_F32 : (tdm_dtype)p[TDM_GEMM_P_A_TYPE];
    trial.placement[OP_GEMM_A] = layout->a;
    trial.placement[OP_GEMM_B] = layout->b;
    if (!test_case_begin(device, row->name, "%s", gemm_trial_text(&trial, text)))
        return;
    gemm_trial_run(device, &trial);
    test_case_end();
}

/* Every layout with the longest K; every other K with one of them. Under a slow implementation rows of one text share them. */
static void floats_on(const test_device *device, const tdm_variant *row) {
    const int longest = COUNT(depths) - 1;
    for (int l = 0; l < COUNT(layouts); l++)
        if (test_part_is_due(device, row, l))
            run_floats(device, row, &layouts[l], 1, depths[longest], 1);
    for (int d = 0; d < longest; d++)
        if (test_part_is_due(device, row, d))
            run_floats(device, row, &layouts[d % 4], 1, depths[d], 0);
    /* Groups go through D in squares, the last of which is lower. */
    if (row->parameters[TDM_GEMM_P_ROWS] == 64)
        run_floats(device, row, &layouts[0], 19, 8, 1);
}

static void long_sums_of_floats(void **state) {
    (void)state;
    on_tensor_rows(TDM_OP_GEMM, floats_on);
}

/* ---- integers ---- */

static void run_integers(const test_device *device, const tdm_variant *row, gemm_int_trial trial) {
    char text[512];
    trial.variant = row->name;
    trial.alpha = 1.0f;
    trial.m = row->parameters[TDM_GEMM_P_ROWS] - 3;
    trial.n = row->parameters[TDM_GEMM_P_COLUMNS] + 16;
    trial.seed = (uint64_t)trial.k;
    if (!test_case_begin(device, row->name, "%s", gemm_int_trial_text(&trial, text)))
        return;
    gemm_int_trial_run(device, &trial);
    test_case_end();
}

static void integers_on(const test_device *device, const tdm_variant *row) {
    const gemm_int_spread none = GEMM_INT_NONE, one = GEMM_INT_ONE, each = GEMM_INT_EACH;
    const gemm_int_trial trials[] = {
        /* By chunks, by words, by elements; sums of lines of A, of B, of both, of neither. */
        {.k = 592, .a = TDM_S8, .d = TDM_S32, .a_quant = none, .transpose_b = 1},
        {.k = 592, .a = TDM_U8, .d = TDM_S32, .a_quant = none},
        {.k = 600,
         .a = TDM_U8,
         .d = TDM_S8,
         .a_quant = each,
         .b_quant = one,
         .d_quant = one,
         .a_zero = 1,
         .d_zero = 1,
         .transpose_a = 1,
         .transpose_b = 1},
        {.k = 601,
         .a = TDM_U8,
         .d = TDM_U8,
         .a_quant = one,
         .b_quant = each,
         .d_quant = each,
         .a_zero = 1,
         .b_zero = 1,
         .d_zero = 1,
         .a_place = TEST_OFFSET},
        {.k = 130,
         .a = TDM_S8,
         .d = TDM_F16,
         .a_quant = one,
         .b_quant = each,
         .b_zero = 1,
         .transpose_b = 1,
         .b_place = TEST_SPREAD},
        {.k = 64,
         .a = TDM_U8,
         .d = TDM_S32,
         .a_quant = one,
         .a_zero = 1,
         .b_quant = one,
         .b_zero = 1,
         .transpose_b = 1,
         .data = GEMM_INT_EXTREME}};
    for (int i = 0; i < COUNT(trials); i++)
        if (test_part_is_due(device, row, i))
            run_integers(device, row, trials[i]);
}

static void long_sums_of_integers(void **state) {
    (void)state;
    on_tensor_rows(TDM_OP_GEMM_INT, integers_on);
}

/* ---- the choice ---- */

typedef struct choice_row {
    int64_t m, n, k;
} choice_row;

/* The first row whose time docs/decisions/occupancy-and-waves.md puts lowest; NULL for floats where a matrix is no wider than a fragment. */
static const char *least_time(const test_device *device, const tdm_gemm_plan *plan) {
    const tdm_gemm_problem *const p = tdm_gemm_whole(plan);
    const tdm_variant *best = NULL;
    double least = 0;
    if (p->op == TDM_OP_GEMM && (p->m <= 8 || p->n <= 8))
        return NULL;
    for (int i = 0; i < tdm_variant_count; i++) {
        const tdm_variant *const row = &tdm_variants[i];
        const int32_t family = row->parameters[TDM_GEMM_P_FAMILY],
                      a = row->parameters[TDM_GEMM_P_A_TYPE];
        tdm_gemm_waves waves;
        if (row->op != p->op || !test_can_run(device, row) ||
            (family != TDM_GEMM_TENSOR && family != TDM_GEMM_WGMMA) ||
            (row->op == TDM_OP_GEMM && a != (int32_t)p->a.dtype) ||
            (row->op == TDM_OP_GEMM_INT && family == TDM_GEMM_WGMMA && p->b.row != 1))
            continue;
        tdm_gemm_waves_best(p, row, &device->info, &waves);
        if (best && waves.ns >= least)
            continue;
        best = row;
        least = waves.ns;
    }
    return best ? best->name : NULL;
}

static void check_choice(const test_device *device, const choice_row *choice, tdm_dtype type) {
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    tdm_gemm_plan *plan;
    TEST_OK(tdm_layout_contiguous(type, 2, (const int64_t[]){choice->m, choice->k}, &desc.a));
    TEST_OK(tdm_layout_contiguous(type, 2, (const int64_t[]){choice->k, choice->n}, &desc.b));
    TEST_OK(tdm_layout_contiguous(type == TDM_S8 ? TDM_S32 : type, 2,
                                  (const int64_t[]){choice->m, choice->n}, &desc.d));
    TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
    const char *const chosen = tdm_gemm_plan_variant(plan), *const best = least_time(device, plan);
    const bool is_tensor = strstr(chosen, "__tensor") || strstr(chosen, "_wgmma_");
    if (best ? strcmp(chosen, best) != 0 : is_tensor)
        test_case_fail("%lld by %lld by %lld is given to %s, %s takes less time",
                       (long long)choice->m, (long long)choice->n, (long long)choice->k, chosen,
                       best ? best : "any other");
    tdm_gemm_plan_destroy(plan);
}

static bool has_all_tensor_rows(const test_device *device) {
    for (int i = 0; i < tdm_variant_count; i++)
        if ((is_tensor_row(&tdm_variants[i], TDM_OP_GEMM) ||
             is_tensor_row(&tdm_variants[i], TDM_OP_GEMM_INT)) &&
            !test_can_run(device, &tdm_variants[i]))
            return false;
    return true;
}

static void tiles_follow_the_model(void **state) {
    (void)state;
    for (int d = 0; d < test_device_count(); d++) {
        const test_device *const device = test_device_at(d);
        const int64_t units = device->info.compute_units;
        if (!has_all_tensor_rows(device) || !test_case_begin(device, NULL, "choice of tiles"))
            continue;
        /* As many large tiles as there are units, as many of the next, of the least; K to be split; no tile at all. */
        const choice_row choices[] = {{128 * units, 256, 512}, {128 * units, 128, 512},
                                      {64 * units, 64, 512},   {64, 128, 8192},
                                      {1000, 1000, 1000},      {8, 4096, 64}};
        const tdm_dtype types[] = {TDM_F16, TDM_BF16, TDM_S8};
        for (int t = 0; t < COUNT(types); t++)
            for (int c = 0; c < COUNT(choices); c++)
                check_choice(device, &choices[c], types[t]);
        test_case_end();
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(long_sums_of_floats),
                                       cmocka_unit_test(long_sums_of_integers),
                                       cmocka_unit_test(tiles_follow_the_model)};
    return cmocka_run_group_tests(tests, test_devices_setup, test_devices_teardown);
}
