/* Plans of integers and of quantized weights follow tuning data, and the candidates that the tuner
 * may try are right. */
// ctest: device timeout=300
#include <stdio.h>
#include <string.h>

#include <tandem/outofcore.h>

#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/tuned_device.h"
#include "tests/support/devices/variant_cases.h"
#include "tests/support/gemm/gemm_int_trial.h"
#include "tests/support/gemm/gemm_table.h"
#include "tests/support/test_case.h"

/* ---- descriptions ---------------------------------------------------------------------------- */

/* Describes A of f32 times N×K weights with a scale for each column and group of K. */
static tdm_gemm_desc weights_desc(tdm_dtype b, int64_t group, int64_t m, int64_t n, int64_t k) {
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    TEST_OK(tdm_layout_contiguous(TDM_F32, 2, (const int64_t[]){m, k}, &desc.a));
    TEST_OK(tdm_layout_contiguous(b, 2, (const int64_t[]){n, k}, &desc.b));
    TEST_OK(tdm_layout_contiguous(TDM_F32, 2, (const int64_t[]){m, n}, &desc.d));
    gemm_int_arrange(&desc.b_quant, &desc.b, 1, group, TDM_DTYPE_NONE);
    desc.transpose_b = 1;
    return desc;
}

/* Returns the plan's variant and report when the user's file has this row. */
static tuned_plan plan_with(const test_device *device, const tdm_gemm_desc *desc, const char *row) {
    char text[512];
    snprintf(text, sizeof text, TUNING_HEADER "%s\n", row);
    tuned_device own = tuned_device_open(device, text);
    const tuned_plan said = tuned_device_plan(&own, desc);
    tuned_device_close(&own);
    return said;
}

static bool has_cores(const test_device *device) {
    return (device->info.capabilities & TDM_CAP_CPU_CORES) != 0;
}

/* ---- integers -------------------------------------------------------------------------------- */

DEVICE_TEST(a_plan_of_integers_follows_the_file) {
    static const char row[] = "any gemm-int u8 s8 any 40x40x40 gemm_int_any_reference measured=9";
    tdm_gemm_desc desc = gemm_int_desc(TDM_U8, TDM_S32, 40, 41, 42);
    tuned_plan said = plan_with(device, &desc, row);
    assert_string_equal(said.variant, "gemm_int_any_reference");
    assert_string_equal(said.tuning, "gemm_int_any_reference: line 2 of the user's file, "
                                     "40x40x40x1 any, measured 9e-06 ms");
    assert_non_null(strstr(tuned_device_log(), "gemm: problem m=40 n=41 k=42 batch=1 a=u8 b=s8 "
                                               "d=s32 ta=0 tb=0\n"));
    desc = gemm_int_desc(TDM_S8, TDM_S32, 40, 41, 42);
    said = plan_with(device, &desc, row);
    assert_null(strstr(said.tuning, "user"));
    desc = gemm_int_desc(TDM_U8, TDM_S32, 81, 41, 42);
    said = plan_with(device, &desc, row);
    assert_null(strstr(said.tuning, "user"));
}

/* Rows of one operation do not affect another, even for the same types. */
DEVICE_TEST(a_row_of_another_operation_changes_nothing) {
    static const char *const rows[] = {
        "any gemm u8 s8 any *x*x* gemm_any_reference measured=1",
        "any gemm-int u8 s8 any *x*x* gemm_any_reference measured=1",
        "any gemm-weights u8 s8 any *x*x* gemm_weights_any_reference measured=1",
        "any gemm-weights f32 s8 any *x*x* gemm_weights_any_reference measured=1",
    };
    tdm_gemm_desc desc = gemm_int_desc(TDM_U8, TDM_S32, 40, 40, 40);
    const tuned_plan without = plan_with(device, &desc, "");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const tuned_plan said = plan_with(device, &desc, rows[i]);
        assert_string_equal(said.variant, without.variant);
        assert_string_equal(said.tuning, without.tuning);
    }
    /* Such a row does not affect packed integers either. */
    desc.packed_b = 1;
    const tuned_plan packed = plan_with(device, &desc, "");
    const tuned_plan said =
        plan_with(device, &desc, "cpu gemm-int u8 s8 any *x*x* gemm_int_any_reference measured=1");
    if (has_cores(device))
        assert_string_equal(said.variant, packed.variant);
}

/* Runs work partitions of the panel variants that the cost estimate would never choose. */
static void run_divisions(const test_device *device, const tdm_variant *row) {
    static const char *const parameters[] = {
        "row_items=1,col_items=1,pack_b=1", "row_items=3,col_items=1,pack_b=2",
        "row_items=2,col_items=3,pack_b=1", "row_items=4096,col_items=4096,pack_b=2"};
    static const int64_t sizes[][3] = {{1, 1, 1}, {13, 33, 17}, {64, 1, 40}, {50, 197, 131}};
    for (int i = 0; i < 16; i++) {
        char variant[TDM_CHOICE_TEXT];
        const int64_t *const size = sizes[i % 4];
        // The rows of a work-item lie in local memory.
        const int64_t rows = device->info.local_bytes > 32768 || size[0] < 16 ? size[0] : 16;
        snprintf(variant, sizeof variant, "%s:%s", row->name, parameters[i / 4]);
        const gemm_int_trial trial = {.m = rows,
                                      .n = size[1],
                                      .k = size[2],
                                      .a = i % 2 ? TDM_U8 : TDM_S8,
                                      .d = TDM_S32,
                                      .b_quant = GEMM_INT_EACH,
                                      .transpose_b = i % 3 == 0,
                                      .alpha = 1,
                                      .variant = variant,
                                      .seed = 99 + (uint64_t)i};
        gemm_int_trial_case(device, trial);
    }
}

static bool takes_divisions(const tdm_variant *row) {
    return tdm_gemm_takes(row, TDM_TUNE_ROW_ITEMS);
}

TEST(every_division_of_integers_is_right) {
    test_each_variant(TDM_OP_GEMM_INT, takes_divisions, run_divisions);
}

/* ---- quantized weights ----------------------------------------------------------------------- */

/* With few rows of A on CPU cores, the weights are multiplied in place by the variant that the file
 * names. */
DEVICE_TEST(weights_in_place_follow_the_file) {
    static const char row[] =
        "any gemm-weights f32 s8 nt *x*x* gemm_weights_any_reference measured=5";
    tdm_gemm_desc desc = weights_desc(TDM_S8, 0, 4, 30, 64);
    for (int packed = 0; packed < 2 && has_cores(device); packed++) {
        desc.packed_b = packed;
        const tuned_plan said = plan_with(device, &desc, row);
        assert_string_equal(said.variant, "gemm_weights_any_reference");
        assert_non_null(strstr(said.tuning, "line 2 of the user's file"));
    }
    desc = weights_desc(TDM_S4, 32, 4, 30, 64);
    assert_null(strstr(plan_with(device, &desc, row).tuning, "user"));
    assert_non_null(strstr(tuned_device_log(), "a=f32 b=s4 d=f32 ta=0 tb=1 group=32 qa=0\n"));
}

/* A measured row takes precedence over the general rules for tiles: few rows, CPU cores, copies
 * that overlap arithmetic. */
DEVICE_TEST(tiles_that_were_measured_are_taken) {
    static const char row[] = "any gemm-weights f32 s8 any *x*x* gemm_f32s8_tiled_32x32 measured=5";
    static const int64_t rows_of_a[] = {4, 40};
    if (!test_can_run(device, tdm_variant_find("gemm_f32s8_tiled_32x32")))
        return;
    for (int i = 0; i < 4; i++) {
        tdm_gemm_desc desc = weights_desc(TDM_S8, 0, rows_of_a[i % 2], 30, 64);
        desc.packed_b = i / 2;
        assert_string_equal(plan_with(device, &desc, row).variant, "gemm_f32s8_tiled_32x32");
    }
    /* A variant that is forced for all plans takes precedence over the file. */
    const tdm_gemm_desc desc = weights_desc(TDM_S8, 0, 40, 30, 64);
    tdm_force_variant("gemm_f32_tiled_32x32");
    const tuned_plan said = plan_with(device, &desc, row);
    tdm_force_variant(NULL);
    assert_string_equal(said.variant, "gemm_f32_tiled_32x32");
}

/*
 * A GEMM that quantizes the rows of A is a problem of its own, with its own rows in the tuning
 * table.
 */
DEVICE_TEST(quantized_rows_of_a_have_rows_of_their_own) {
    static const char plain[] = "any gemm-weights f32 s8 any *x*x* gemm_any_reference measured=5";
    static const char dynamic[] =
        "any gemm-weights-a8 f32 s8 any *x*x* gemm_int_any_reference measured=5";
    tdm_gemm_desc desc = weights_desc(TDM_S8, 0, 40, 30, 64);
    for (int quantize = 0; quantize < 2; quantize++) {
        desc.quantize_a = quantize;
        const tuned_plan by_plain = plan_with(device, &desc, plain);
        const tuned_plan by_dynamic = plan_with(device, &desc, dynamic);
        assert_int_equal(strstr(by_plain.tuning, "user") != NULL, !quantize);
        assert_int_equal(strstr(by_dynamic.tuning, "user") != NULL, quantize);
        assert_string_equal(quantize ? by_dynamic.variant : by_plain.variant,
                            quantize ? "gemm_int_any_reference" : "gemm_any_reference");
    }
    assert_non_null(strstr(tuned_device_log(), " group=64 qa=1\n"));
}

/* Weights that are unpacked first are multiplied by the variant that the file names, even with few
 * rows of A. */
DEVICE_TEST(unpacked_weights_follow_the_file) {
    static const char row[] = "any gemm-weights f32 s4 any *x*x* gemm_any_reference measured=5";
    for (int64_t m = 4; m <= 40; m += 36) {
        tdm_gemm_desc desc = weights_desc(TDM_S4, 32, m, 30, 64);
        const tuned_plan said = plan_with(device, &desc, row);
        assert_string_equal(said.variant, "gemm_any_reference");
        assert_string_equal(said.tuning, "gemm_any_reference: line 2 of the user's file, "
                                         "*x*x*x1 any, measured 5e-06 ms");
        desc.variant = "gemm_f32_tiled_32x32";
        assert_string_equal(plan_with(device, &desc, row).variant, "gemm_f32_tiled_32x32");
    }
}

/* A is quantized, and a row of the file unpacks the weights. The two steps are nested, in core and
 * out of core. */
DEVICE_TEST(stages_within_stages_are_cut_into_tiles) {
    static const char text[] =
        TUNING_HEADER "any gemm-weights f32 s4 any *x*x* gemm_any_reference measured=5\n";
    tuned_device own = tuned_device_open(device, text);
    tdm_outofcore_desc desc = TDM_OUTOFCORE_DESC_INIT;
    tdm_outofcore_plan *plan = NULL;
    tdm_outofcore_info info = {.struct_size = sizeof info};
    // No panel of quantized values takes these groups.
    desc.gemm = weights_desc(TDM_S4, 16, 40, 30, 64);
    desc.gemm.quantize_a = 1;
    desc.budget_bytes = 1 << 20;
    desc.rates = (tdm_outofcore_rates){1e9, 1e9, 1e9, 1e-6, -1};
    TEST_OK(tdm_outofcore_plan_create(own.device, &desc, &plan));
    TEST_OK(tdm_outofcore_plan_describe(plan, &info));
    if (has_cores(device)) // other devices unpack at once and read no row of the file
        assert_string_equal(info.variant, "gemm_any_reference");
    tdm_outofcore_plan_destroy(plan);
    tuned_device_close(&own);
}

/* A row changes nothing if its variant needs other operands or a missing capability, or if it
 * cannot do the GEMM. */
DEVICE_TEST(a_preference_for_weights_that_cannot_be_is_passed_over) {
    static const char *const rows[] = {
        "any gemm-weights f32 s8 any *x*x* gemm_f16_tiled_32x32 measured=5",
        "any gemm-weights f32 s8 any *x*x* gemm_int_any_reference measured=5",
        "any gemm-weights f32 s8 any *x*x* gemm_pack_f32_w8 measured=5",
        "any gemm-weights f32 s8 any *x*x* gemm_s4_lines_8 measured=5",
    };
    for (int64_t m = 4; m <= 40; m += 36) {
        const tdm_gemm_desc desc = weights_desc(TDM_S8, 0, m, 30, 64);
        const tuned_plan without = plan_with(device, &desc, "");
        for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
            const tuned_plan said = plan_with(device, &desc, rows[i]);
            assert_string_equal(said.variant, without.variant);
            assert_string_equal(said.tuning, without.tuning);
            /* These two variants multiply unpacked weights. No preference for the weights
             * themselves is reported then. Devices without CPU cores check such rows at any M. */
            if (i < 2 && has_cores(device))
                assert_null(strstr(tuned_device_log(), "tuning prefers"));
        }
    }
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
