/*
 * Rows for tensor cores beyond what every row is tried with: K of several tiles and their ends, so that all stages of local memory
 * are used and used again; operands that are copied by 16 bytes, turned, by words and by elements.
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(long_sums_of_floats),
        cmocka_unit_test(long_sums_of_integers),
    };
    return cmocka_run_group_tests(tests, test_devices_setup, test_devices_teardown);
}
