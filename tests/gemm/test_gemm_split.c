/*
 * GEMM can split K into parts. Every variant multiplies the parts correctly, and every epilogue
 * joins them correctly. The plan chooses the split and logs it. One plan gives the same bits in
 * every run.
 */
// ctest: device rusticl_in_ci timeout=300 kernels=gemm cost=20
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/gemm/gemm_internal.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/variant_cases.h"
#include "tests/support/gemm/gemm_table.h"
#include "tests/support/gemm/gemm_trial.h"
#include "tests/support/test_case.h"

/* ---- results --------------------------------------------------------------------------------- */

typedef struct split_row {
    int64_t m, n, k;
    int parts;
    int transpose_a, transpose_b;
    tdm_dtype d, c, bias, residual;
    float alpha, beta;
    tdm_activation activation;
    int batch_rank;
    int64_t batch[3];
    unsigned shared_b;
    int exact;
} split_row;

#define NONE TDM_DTYPE_NONE
static const split_row split_rows[] = {
    /* K has a remainder, none, fewer steps than parts, and parts of one step. */
    {5, 7, 67, 3, 0, 0, TDM_F32, NONE, NONE, NONE, 1, 0, TDM_ACT_NONE, 0, {0}, 0, 1},
    {13, 33, 96, 3, 0, 1, TDM_F32, NONE, NONE, NONE, 1, 0, TDM_ACT_NONE, 0, {0}, 0, 0},
    {4, 6, 2, 7, 0, 0, TDM_F32, NONE, NONE, NONE, 1, 0, TDM_ACT_NONE, 0, {0}, 0, 1},
    {35, 18, 7, 7, 1, 1, TDM_F32, NONE, NONE, NONE, 1, 0, TDM_ACT_NONE, 0, {0}, 0, 0},
    /* The remainder is longer than a part. */
    {3, 40, 127, 4, 0, 0, TDM_F32, NONE, NONE, NONE, 1, 0, TDM_ACT_NONE, 0, {0}, 0, 1},
    /* The epilogue has all of its operands. */
    {14,
     37,
     101,
     4,
     0,
     1,
     TDM_F16,
     TDM_F32,
     TDM_F32,
     TDM_BF16,
     -0.5f,
     0.75f,
     TDM_ACT_GELU,
     0,
     {0},
     0,
     0},
    {37, 5, 101, 4, 1, 0, TDM_BF16, TDM_F16, TDM_BF16, TDM_F32, 2, 1, TDM_ACT_RELU, 0, {0}, 0, 1},
    {70, 3, 53, 2, 0, 0, TDM_F32, NONE, TDM_F32, NONE, 1, 0, TDM_ACT_SILU, 0, {0}, 0, 0},
    /* In these batches all entries, some or none share B. */
    {6, 9, 67, 3, 0, 0, TDM_F32, NONE, TDM_F32, NONE, 1, 0, TDM_ACT_NONE, 1, {3}, 1, 1},
    {6, 9, 67, 3, 0, 1, TDM_F32, TDM_F32, NONE, NONE, 1, 1, TDM_ACT_NONE, 2, {2, 3}, 2, 0},
    {19, 34, 40, 2, 1, 0, TDM_F32, NONE, NONE, TDM_F32, 1, 0, TDM_ACT_NONE, 3, {2, 3, 2}, 1, 0},
};

static tdm_dtype type_or_f32(const tdm_variant *row, int parameter) {
    return row->parameters[parameter] != 0 ? (tdm_dtype)row->parameters[parameter] : TDM_F32;
}

static gemm_trial trial_of(const tdm_variant *row, const split_row *split, const char *variant) {
    gemm_trial trial = {.variant = variant};
    trial.item = (op_gemm_case){.m = split->m,
                                .n = split->n,
                                .k = split->k,
                                .transpose_a = split->transpose_a,
                                .transpose_b = split->transpose_b,
                                .alpha = split->alpha,
                                .beta = split->beta,
                                .activation = split->activation,
                                .batch_rank = split->batch_rank,
                                .exact = split->exact,
                                .allow_3xtf32 = tdm_gemm_is_3xtf32(row),
                                .seed = 500 + (uint64_t)split->k};
    memcpy(trial.item.batch, split->batch, sizeof split->batch);
    trial.item.shared[OP_GEMM_B] = split->shared_b;
    /* A and B have one type where a skinny variant may swap them. */
    trial.item.dtype[OP_GEMM_B] = type_or_f32(row, TDM_GEMM_P_B_TYPE);
    trial.item.dtype[OP_GEMM_A] = row->parameters[TDM_GEMM_P_A_TYPE] != 0
                                      ? (tdm_dtype)row->parameters[TDM_GEMM_P_A_TYPE]
                                      : trial.item.dtype[OP_GEMM_B];
    trial.item.dtype[OP_GEMM_D] = split->d;
    trial.item.dtype[OP_GEMM_C] = split->c;
    trial.item.dtype[OP_GEMM_BIAS] = split->bias;
    trial.item.dtype[OP_GEMM_RESIDUAL] = split->residual;
    if (row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_WGMMA) { /* 16-byte units for tensor maps */
        trial.item.m = (trial.item.m + 7) / 8 * 8;
        trial.item.n = (trial.item.n + 7) / 8 * 8;
        trial.item.k = (trial.item.k + 7) / 8 * 8;
    }
    return trial;
}

static void run_row(const test_device *device, const tdm_variant *row) {
    const int count = (int)(sizeof split_rows / sizeof *split_rows);
    for (int i = 0; i < 2 * count; i++) {
        char variant[128];
        const split_row *const split = &split_rows[i % count];
        const tdm_gemm_problem packed = {.op = TDM_OP_GEMM, .packed_b = true};
        if (!test_part_is_due(device, row, i) ||
            (i >= count && tdm_gemm_reads_panels(&packed, row)))
            continue;
        snprintf(variant, sizeof variant, "%s:split_k=%d", row->name, split->parts);
        gemm_trial trial = trial_of(row, split, variant);
        trial.packed_b = i >= count;
        gemm_trial_case(device, &trial);
    }
}

TEST(every_row_multiplies_parts) {
    test_each_variant(TDM_OP_GEMM, NULL, run_row);
}

/* The library chooses the variant. Sums are exact, so a lost or doubled step of K shows. */
TEST(a_long_k_is_summed_exactly) {
    static const split_row rows[] = {
        {16, 16, 200003, 0, 0, 0, TDM_F32, NONE, NONE, NONE, 1, 0, TDM_ACT_NONE, 0, {0}, 0, 1},
        {1, 1, 1000003, 0, 0, 0, TDM_F32, NONE, NONE, NONE, 1, 0, TDM_ACT_NONE, 0, {0}, 0, 1},
        {3, 2, 265536, 0, 1, 1, TDM_F32, NONE, TDM_F32, NONE, 1, 0, TDM_ACT_RELU, 1, {2}, 0, 1},
    };
    for (int d = 0; d < test_device_count() && !test_is_small(); d++)
        for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
            const tdm_variant any = {.name = NULL};
            const gemm_trial trial = trial_of(&any, &rows[i], NULL);
            gemm_trial_case(test_device_at(d), &trial);
        }
}

/* ---- the choice ------------------------------------------------------------------------------ */

static tdm_gemm_desc describe(int64_t m, int64_t n, int64_t k) {
    return gemm_dense_desc(TDM_F32, TDM_F32, TDM_F32, m, n, k);
}

static char logged[8192];
static void hear(void *user, tdm_log_level level, const char *topic, const char *message) {
    (void)user;
    (void)level;
    const size_t used = strlen(logged);
    if (strcmp(topic, "dispatch") == 0)
        snprintf(logged + used, sizeof logged - used, "%s\n", message);
}

/* Returns the number of parts in the plan for a description; 0: not split. */
static int64_t parts_of(const test_device *device, const tdm_gemm_desc *desc) {
    tdm_gemm_plan *plan;
    logged[0] = '\0';
    tdm_set_log(hear, NULL);
    TEST_OK(tdm_gemm_plan_create(device->device, desc, &plan));
    tdm_set_log(NULL, NULL);
    const int64_t parts = plan->split.parts;
    if ((parts > 0) != (strstr(logged, " split into ") != NULL))
        test_case_fail("%lld parts, but the log says: %s", (long long)parts, logged);
    tdm_gemm_plan_destroy(plan);
    return parts;
}

DEVICE_TEST(few_tiles_and_a_long_k_are_split) {
    const bool several = device->info.compute_units > 1;
    tdm_gemm_desc desc = describe(4, 4, 200000);
    if (several && parts_of(device, &desc) < 2)
        test_case_fail("4x4x200000 is not split for %u compute units", device->info.compute_units);
    desc = describe(4, 4, 1000);
    assert_int_equal(parts_of(device, &desc), 0);
    desc = describe(2000, 2000, 60000);
    assert_int_equal(parts_of(device, &desc), 0);
    desc = describe(0, 4, 60000);
    assert_int_equal(parts_of(device, &desc), 0);
}

/*
 * If the backend reports how many work-groups a compute unit runs at once, one tile is split into
 * enough parts for all units.
 */
DEVICE_TEST(parts_fill_the_device) {
    enum {
        DEPTH = 1 << 20
    };
    const tdm_gemm_desc desc = describe(4, 4, DEPTH);
    tdm_gemm_plan *plan;
    logged[0] = '\0';
    tdm_set_log(hear, NULL);
    TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
    tdm_set_log(NULL, NULL);
    const uint32_t items = (uint32_t)plan->kernel->variant->parameters[TDM_GEMM_P_ITEMS];
    const uint32_t held = tdm_kernel_resident_groups(device->device, plan->kernel, items);
    assert_int_equal(held != 0, device->device->api->kernel_occupancy != NULL);
    if (held != 0) {
        char reported[64];
        const int64_t wanted = (int64_t)device->info.compute_units * held + 1;
        assert_true(held <= device->info.unit_items / items);
        assert_int_equal(plan->split.asked, wanted < 256 ? wanted : 256);
        snprintf(reported, sizeof reported, "each of which runs %u groups at once\n", held);
        assert_non_null(strstr(logged, reported));
    }
    tdm_gemm_plan_destroy(plan);
}

DEVICE_TEST(parts_can_be_forced_or_forbidden) {
    tdm_gemm_desc desc = describe(4, 4, 60000);
    desc.variant = "gemm_any_reference:split_k=1";
    assert_int_equal(parts_of(device, &desc), 0);
    desc.variant = "gemm_any_reference:split_k=6";
    assert_int_equal(parts_of(device, &desc), 6);
    assert_non_null(
        strstr(logged, "gemm: K of 60000 split into 6 parts of 10000 and a remainder of 0\n"));
    desc = describe(4, 4, 3);
    desc.variant = "gemm_any_reference:split_k=6";
    assert_int_equal(parts_of(device, &desc), 3);
    desc = describe(4, 4, 0);
    desc.variant = "gemm_any_reference:split_k=6";
    assert_int_equal(parts_of(device, &desc), 0);
}

/* Panels are packed over the whole of K, so such a plan is not split. */
DEVICE_TEST(packed_weights_are_split_unless_they_lie_in_panels) {
    tdm_gemm_plan *plan = NULL;
    tdm_gemm_desc desc = describe(4, 4, 60000);
    desc.packed_b = 1;
    desc.variant = "gemm_any_reference:split_k=6";
    assert_int_equal(parts_of(device, &desc), 6);
    for (int v = 0; v < tdm_variant_count; v++) {
        char variant[128];
        const tdm_gemm_problem packed = {.op = TDM_OP_GEMM, .packed_b = true};
        const tdm_variant *const row = &tdm_variants[v];
        if (row->op != TDM_OP_GEMM || !tdm_gemm_reads_panels(&packed, row) ||
            row->parameters[TDM_GEMM_P_B_TYPE] != TDM_F32 || !test_can_run(device, row))
            continue;
        snprintf(variant, sizeof variant, "%s:split_k=2", row->name);
        desc.variant = variant;
        TEST_REFUSED(
            tdm_gemm_plan_create(device->device, &desc, &plan), TDM_UNSUPPORTED,
            "split_k is 2: the weights are packed in panels, which cannot be split along K");
        desc.variant = row->name;
        assert_int_equal(parts_of(device, &desc), 0);
    }
}

DEVICE_TEST(the_workspace_holds_the_parts) {
    tdm_gemm_plan *plan;
    size_t bytes = 0;
    tdm_gemm_desc desc = describe(5, 7, 100);
    desc.variant = "gemm_any_reference:split_k=3";
    TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
    TEST_OK(tdm_gemm_plan_workspace_size(plan, &bytes));
    // The workspace holds three parts of 32 steps and a remainder of 4.
    assert_true(bytes >= 4 * 5 * 7 * sizeof(float));
    assert_true(bytes <= 4 * 5 * 7 * sizeof(float) + 256);
    tdm_gemm_plan_destroy(plan);
}

/* The data are random, so a different order of summation would change bits. */
DEVICE_TEST(every_run_gives_the_same_bits) {
    gemm_table t;
    tdm_gemm_desc desc = describe(4, 5, test_is_small() ? 200 : 40000);
    desc.variant = "gemm_any_reference:split_k=7";
    gemm_table_lay(&t, device, &desc);
    test_array_fill(&t.a, TEST_DATA_UNIT, 11);
    test_array_fill(&t.b, TEST_DATA_UNIT, 12);
    unsigned char *first = NULL;
    for (int run = 0; run < 5; run++) {
        test_array_send(&t.d);
        TEST_OK(tdm_gemm_plan_run(t.plan, device->stream, &t.args));
        test_array_fetch(&t.d);
        if (!first) {
            first = malloc(t.d.bytes);
            assert_non_null(first);
            memcpy(first, t.d.fetched, t.d.bytes);
        }
        assert_memory_equal(first, t.d.fetched, t.d.bytes);
    }
    free(first);
    gemm_table_clear(&t);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
