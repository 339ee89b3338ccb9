/*
 * Tests that plans follow tuning data: the user's file, the shipped rows, a forced variant with
 * parameters.
 */
// ctest: device timeout=300 kernels=gemm cost=10
#include <stdio.h>
#include <string.h>

#include "api/device/core.h"
#include "api/gemm/gemm_internal.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/tuned_device.h"
#include "tests/support/devices/variant_cases.h"
#include "tests/support/gemm/gemm_table.h"
#include "tests/support/gemm/gemm_trial.h"
#include "tests/support/test_case.h"

static tdm_gemm_desc desc_of(int64_t m, int64_t n, int64_t k) {
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    const int64_t a[] = {m, k}, b[] = {k, n}, d[] = {m, n};
    TEST_OK(tdm_layout_contiguous(TDM_F32, 2, a, &desc.a));
    TEST_OK(tdm_layout_contiguous(TDM_F32, 2, b, &desc.b));
    TEST_OK(tdm_layout_contiguous(TDM_F32, 2, d, &desc.d));
    return desc;
}

/* The rows name the reference kernel, because only a row of the file would choose it. */
DEVICE_TEST(a_plan_follows_the_users_file_and_says_so) {
    tuned_device own = tuned_device_open(
        device, TUNING_HEADER "*/* gemm f32 f32 any 40x40x40 gemm_any_reference measured=1000\n"
                              "*/* gemm f32 f32 any 900x9x9 gemm_any_reference not-measured\n");
    tuned_plan said;
    tdm_gemm_desc desc = desc_of(40, 41, 42);
    said = tuned_device_plan(&own, &desc);
    assert_string_equal(said.variant, "gemm_any_reference");
    assert_string_equal(said.tuning,
                        "gemm_any_reference: line 2 of the user's file, 40x40x40x1 any, "
                        "measured 0.001 ms");
    assert_non_null(strstr(tuned_device_log(),
                           "dispatch: gemm: problem m=40 n=41 k=42 batch=1 a=f32 b=f32 "
                           "d=f32 ta=0 tb=0\n"));
    assert_non_null(
        strstr(tuned_device_log(), "dispatch: gemm: tuning prefers gemm_any_reference: line 2"));
    assert_non_null(strstr(tuned_device_log(), "dispatch: gemm: gemm_any_reference chosen\n"));
    desc = desc_of(80, 80, 80);
    said = tuned_device_plan(&own, &desc);
    assert_string_equal(said.variant, "gemm_any_reference");
    desc = desc_of(81, 80, 80);
    said = tuned_device_plan(&own, &desc);
    assert_string_not_equal(said.variant, "gemm_any_reference");
    assert_null(strstr(said.tuning, "user"));
    desc = desc_of(900, 9, 9);
    said = tuned_device_plan(&own, &desc);
    assert_string_equal(said.variant, "gemm_any_reference");
    assert_non_null(strstr(said.tuning, "line 3 of the user's file, 900x9x9x1 any, not measured"));
    tuned_device_close(&own);
}

DEVICE_TEST(a_forced_variant_stands_above_the_file) {
    tuned_device own = tuned_device_open(
        device, TUNING_HEADER "any gemm f32 f32 any *x*x* gemm_any_reference measured=1000\n");
    tuned_plan said;
    tdm_gemm_desc desc = desc_of(40, 40, 40);
    desc.variant = "gemm_f32_tiled_32x32";
    said = tuned_device_plan(&own, &desc);
    assert_string_equal(said.variant, "gemm_f32_tiled_32x32");
    assert_string_equal(said.tuning, "");
    desc.variant = NULL;
    tdm_force_variant("gemm_f32_tiled_32x32");
    said = tuned_device_plan(&own, &desc);
    assert_string_equal(said.variant, "gemm_f32_tiled_32x32");
    tdm_force_variant("softmax_f32_rows_x1"); /* of another operation */
    said = tuned_device_plan(&own, &desc);
    assert_string_equal(said.variant, "gemm_any_reference");
    tdm_force_variant(NULL);
    tuned_device_close(&own);
}

/*
 * The rules on tile sizes override a row that was not measured, but not a measured row. Neither row
 * can select a variant that cannot run the problem.
 */
DEVICE_TEST(a_preference_that_cannot_be_is_passed_over) {
    tuned_plan said, without;
    tdm_gemm_desc desc = desc_of(20, 20, 20);
    tuned_device own = tuned_device_open(device, TUNING_HEADER);
    without = tuned_device_plan(&own, &desc);
    tuned_device_close(&own);

    own = tuned_device_open(device, TUNING_HEADER
                            "any gemm f32 f32 any *x*x* gemm_f16_tiled_32x32 measured=1\n");
    said = tuned_device_plan(&own, &desc);
    assert_string_equal(said.variant, without.variant);
    assert_string_equal(said.tuning, "");
    assert_non_null(strstr(tuned_device_log(), "tuning prefers gemm_f16_tiled_32x32"));
    assert_non_null(
        strstr(tuned_device_log(), "gemm_f16_tiled_32x32 refused: A is f32 and B is f32\n"));
    tuned_device_close(&own);

    own = tuned_device_open(device, TUNING_HEADER
                            "any gemm f32 f32 any *x*x* gemm_f32_tiled_64x64 not-measured\n");
    said = tuned_device_plan(&own, &desc);
    assert_string_equal(said.variant, without.variant);
    assert_non_null(
        strstr(tuned_device_log(), "gemm_f32_tiled_64x64 refused: the matrix is smaller"));
    tuned_device_close(&own);

    own = tuned_device_open(device, TUNING_HEADER
                            "any gemm f32 f32 any *x*x* gemm_f32_tiled_64x64 measured=1\n");
    said = tuned_device_plan(&own, &desc);
    if (device->info.max_group_items >= 256)
        assert_string_equal(said.variant, "gemm_f32_tiled_64x64");
    tuned_device_close(&own);
}

/* Weights are packed once for plans of any M. A row for one M must therefore not change their
 * layout. */
DEVICE_TEST(packed_weights_do_not_depend_on_the_file) {
    char text[TDM_PACKED_LAYOUT_TEXT];
    for (int with = 0; with < 2; with++) {
        tuned_device own = tuned_device_open(
            device, with ? TUNING_HEADER "cpu gemm f32 f32 any *x*x* gemm_any_reference "
                                         "measured=1\n"
                         : TUNING_HEADER);
        tdm_gemm_desc desc = desc_of(100, 100, 100);
        tdm_gemm_plan *plan;
        desc.packed_b = 1;
        TEST_OK(tdm_gemm_plan_create(own.device, &desc, &plan));
        if (with)
            assert_string_equal(plan->packed_layout, text);
        snprintf(text, sizeof text, "%s", plan->packed_layout);
        tdm_gemm_plan_destroy(plan);
        tuned_device_close(&own);
    }
}

DEVICE_TEST(a_transposed_operand_asks_for_its_own_rows) {
    tuned_device own = tuned_device_open(
        device, TUNING_HEADER "any gemm f32 f32 nt 50x60x70 gemm_any_reference measured=1\n");
    for (int transposed = 0; transposed < 2; transposed++) {
        const int64_t b[] = {60, 70};
        tuned_plan said;
        tdm_gemm_desc desc = desc_of(50, 60, 70);
        desc.transpose_b = transposed;
        if (transposed)
            TEST_OK(tdm_layout_contiguous(TDM_F32, 2, b, &desc.b));
        said = tuned_device_plan(&own, &desc);
        assert_int_equal(strcmp(said.variant, "gemm_any_reference") == 0, transposed);
    }
    tuned_device_close(&own);
}

/* ---- parameters ---- */

static bool takes_parameters(const test_device *device, const tdm_variant *row) {
    return row->op == TDM_OP_GEMM && tdm_gemm_takes(row, TDM_TUNE_ROW_ITEMS) &&
           test_can_run(device, row);
}

/* The launch uses the given parameters, limited to the number of tiles. */
DEVICE_TEST(given_parameters_divide_the_launch) {
    for (int i = 0; i < tdm_variant_count; i++) {
        const tdm_variant *const row = &tdm_variants[i];
        if (!takes_parameters(device, row) || row->parameters[TDM_GEMM_P_B_TYPE] != TDM_F32)
            continue;
        char variant[128];
        tdm_gemm_plan *plan;
        tdm_gemm_desc desc = desc_of(row->parameters[TDM_GEMM_P_ROWS] * 5, 200, 30);
        snprintf(variant, sizeof variant, "%s:row_items=3,col_items=2,pack_b=2", row->name);
        desc.variant = variant;
        TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
        assert_string_equal(tdm_gemm_plan_variant(plan), row->name);
        assert_int_equal(plan->partition.row_items, 3);
        assert_int_equal(plan->partition.column_items, 2);
        assert_true(plan->partition.packs_inside);
        tdm_gemm_plan_destroy(plan);
        snprintf(variant, sizeof variant, "%s:row_items=4096,pack_b=1", row->name);
        TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
        assert_int_equal(plan->partition.row_items, 5);
        assert_false(plan->partition.packs_inside);
        tdm_gemm_plan_destroy(plan);
    }
}

/* Returns a variant of the panel family that the device can run, or NULL. */
static const tdm_variant *find_panel(const test_device *device) {
    for (int i = 0; i < tdm_variant_count; i++)
        if (takes_parameters(device, &tdm_variants[i]) &&
            tdm_variants[i].parameters[TDM_GEMM_P_B_TYPE] == TDM_F32)
            return &tdm_variants[i];
    return NULL;
}

/*
 * A row for about this size also provides its parameters. A row for another size provides only the
 * variant.
 */
DEVICE_TEST(parameters_go_with_the_size) {
    const tdm_variant *const row = find_panel(device);
    if (!row)
        return;
    char text[256], with[128];
    const int64_t m = (int64_t)row->parameters[TDM_GEMM_P_ROWS] * 3;
    snprintf(with, sizeof with, "%s:row_items=3,col_items=1", row->name);
    snprintf(text, sizeof text, TUNING_HEADER "any gemm f32 f32 any %lldx200x200 %s measured=5\n",
             (long long)m, with);
    tuned_device own = tuned_device_open(device, text);
    for (int64_t size = 160; size <= 400; size += 30) {
        tdm_gemm_plan *plan;
        const tdm_gemm_desc desc = desc_of(m, size, 200);
        const bool is_near = size <= 250;
        TEST_OK(tdm_gemm_plan_create(own.device, &desc, &plan));
        assert_string_equal(tdm_gemm_plan_variant(plan), row->name);
        assert_int_equal(strncmp(tdm_gemm_plan_tuning(plan), with, strlen(with)) == 0, is_near);
        if (is_near) {
            assert_int_equal(plan->partition.row_items, 3);
            assert_int_equal(plan->partition.column_items, 1);
        }
        tdm_gemm_plan_destroy(plan);
    }
    tuned_device_close(&own);
}

/*
 * One work-item gets more rows than local memory holds. A forced variant is then refused.
 * Parameters from a file are ignored.
 */
DEVICE_TEST(parameters_that_do_not_fit_are_dropped) {
    const tdm_variant *const row = find_panel(device);
    if (!row)
        return;
    const int32_t *const p = row->parameters;
    const uint64_t strip =
        (uint64_t)p[TDM_GEMM_P_ROWS] * (uint64_t)p[TDM_GEMM_P_DEPTH] * sizeof(float);
    const int64_t m = p[TDM_GEMM_P_ROWS] * (int64_t)(device->info.local_bytes / strip + 2);
    char text[256], variant[128];
    tuned_plan said;
    tdm_gemm_plan *plan;
    tdm_gemm_desc desc = desc_of(m, 8, 8);
    snprintf(variant, sizeof variant, "%s:row_items=1", row->name);
    desc.variant = variant;
    TEST_REFUSED(tdm_gemm_plan_create(device->device, &desc, &plan), TDM_UNSUPPORTED,
                 "needs more local memory");
    desc.variant = NULL;
    snprintf(text, sizeof text, TUNING_HEADER "any gemm f32 f32 any *x*x* %s measured=5\n",
             variant);
    tuned_device own = tuned_device_open(device, text);
    said = tuned_device_plan(&own, &desc);
    assert_string_equal(said.variant, row->name);
    assert_non_null(
        strstr(said.tuning, "without the tuned parameters, which need too much local memory"));
    tuned_device_close(&own);
}

/* ---- results ---- */

/* These sizes are around a tile, and around multiples of tiles for several work-items. */
static const int64_t sizes[][3] = {{1, 1, 1},   {7, 5, 3},    {13, 33, 17}, {12, 32, 64},
                                   {64, 1, 40}, {1, 100, 70}, {50, 97, 31}, {100, 130, 600}};

/* Returns false if the device has too little local memory. The error must say so. */
static bool fits(const test_device *device, const gemm_trial *trial) {
    const op_gemm_case *const item = &trial->item;
    tdm_gemm_plan *plan;
    tdm_gemm_desc desc = desc_of(item->m, item->n, item->k);
    desc.a.dtype = item->dtype[OP_GEMM_A];
    desc.b.dtype = item->dtype[OP_GEMM_B];
    desc.variant = trial->variant;
    const tdm_status status = tdm_gemm_plan_create(device->device, &desc, &plan);
    if (status != TDM_OK && !strstr(tdm_last_detail(), "needs more local memory"))
        TEST_OK(status);
    tdm_gemm_plan_destroy(plan);
    return status == TDM_OK;
}

/* `number` is the index of the choice among those of its variant. */
static void run_choice(const test_device *device, const tdm_variant *variant, int number,
                       const char *choice, tdm_dtype a, tdm_dtype b) {
    const size_t count = sizeof sizes / sizeof sizes[0];
    for (size_t i = 0; i < (test_is_small() ? count - 1 : count); i++) {
        char text[512];
        if (!test_part_is_due(device, variant, number + (int)i))
            continue;
        gemm_trial trial = {.variant = choice};
        trial.item = (op_gemm_case){.m = sizes[i][0],
                                    .n = sizes[i][1],
                                    .k = sizes[i][2],
                                    .transpose_b = i % 2,
                                    .alpha = 1,
                                    .seed = 77 + i};
        trial.item.dtype[OP_GEMM_A] = a;
        trial.item.dtype[OP_GEMM_B] = b;
        trial.item.dtype[OP_GEMM_D] = TDM_F32;
        if (!fits(device, &trial) ||
            !test_case_begin(device, variant->name, "%s %s", choice, gemm_trial_text(&trial, text)))
            continue;
        gemm_trial_run(device, &trial);
        test_case_end();
    }
}

/* Runs every shipped row whose variant the device can run, whatever device it is meant for. */
TEST(every_shipped_row_is_right) {
    for (int d = 0; d < test_device_count(); d++)
        for (int i = 0; i < tdm_shipped_tuning_count; i++) {
            const tdm_shipped_tuning *const shipped = &tdm_shipped_tunings[i];
            const test_device *const device = test_device_at(d);
            char reason[TDM_TUNING_REASON];
            tdm_tuning_row row;
            assert_int_equal(tdm_tuning_shipped_read(shipped, &row, reason), TDM_TUNING_OK);
            if (test_can_run(device, row.choice.variant))
                run_choice(device, row.choice.variant, i, shipped->choice, row.a, row.b);
        }
}

/* Returns true if the variant accepts every parameter that this text names. */
static bool takes_all(const tdm_variant *row, const char *parameters) {
    for (int i = 0; i < TDM_TUNE_PARAMETERS; i++)
        if (strstr(parameters, tdm_tune_parameter_text((tdm_tune_parameter)i)) &&
            !tdm_gemm_takes(row, (tdm_tune_parameter)i))
            return false;
    return true;
}

static void run_partitions(const test_device *device, const tdm_variant *row) {
    static const char *const parameters[] = {"row_items=1,col_items=1,pack_b=1",
                                             "row_items=1,col_items=1,pack_b=2",
                                             "row_items=3,col_items=1,pack_b=2",
                                             "row_items=2,col_items=3,pack_b=1",
                                             "row_items=4096,col_items=4096,pack_b=2",
                                             "col_items=1",
                                             "col_items=3",
                                             "col_items=4096"};
    const tdm_dtype b = (tdm_dtype)row->parameters[TDM_GEMM_P_B_TYPE];
    for (size_t p = 0; p < sizeof parameters / sizeof parameters[0]; p++) {
        char choice[TDM_CHOICE_TEXT];
        snprintf(choice, sizeof choice, "%s:%s", row->name, parameters[p]);
        if (takes_all(row, parameters[p]))
            run_choice(device, row, (int)p, choice, b, b);
    }
}

/* Work partitions that no cost estimate would choose must give correct results too. */
TEST(every_partition_is_right) {
    for (int d = 0; d < test_device_count(); d++)
        for (int i = 0; i < tdm_variant_count; i++)
            if (tdm_variants[i].op == TDM_OP_GEMM &&
                test_can_run(test_device_at(d), &tdm_variants[i]))
                run_partitions(test_device_at(d), &tdm_variants[i]);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
