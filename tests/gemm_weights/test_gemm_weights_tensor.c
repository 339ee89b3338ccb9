/*
 * Tensor-core variants for quantized weights are tested beyond the common sample. K spans several
 * tiles and their ends, so that all stages of local memory are used and reused. The cases cover
 * every kind of scale and zero point, operands copied by 16 bytes and by elements, and K in parts.
 * If a variant has no room, the next one is chosen. Data are small integers and scales are powers
 * of two, so sums are exact in any order.
 */
// ctest: device cuda timeout=120 cost=10
#include <stdio.h>
#include <string.h>

#include "api/gemm/gemm_internal.h"
#include "tests/support/devices/variant_cases.h"
#include "tests/support/gemm/weights_trial.h"
#include "tests/support/test_case.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

typedef struct tensor_trial {
    int64_t less_rows; /* number of rows by which M is smaller than the tile */
    int64_t k, group;
    tdm_dtype scale, zero;
    int packed, split, transpose_a, epilogue;
    int64_t batch;
    test_placement a, b, parameters;
} tensor_trial;

static const tensor_trial trials[] = {
    /*
     * K is one block, one tile and a block, or many tiles, or it ends inside a block. Groups are
     * one, two or four blocks, or all of K.
     */
    {.less_rows = 3, .k = 32, .scale = TDM_F32},
    {.k = 1184, .group = 32, .scale = TDM_F16, .zero = TDM_S8},
    {.less_rows = 8, .k = 1184, .group = 32, .scale = TDM_F32, .parameters = TEST_TRANSPOSED},
    {.less_rows = 9, .k = 2336, .scale = TDM_F16, .zero = TDM_S32},
    {.k = 2336, .group = 128, .scale = TDM_F32, .zero = TDM_S8, .parameters = TEST_TRANSPOSED},
    {.less_rows = 1, .k = 288, .group = 96, .scale = TDM_F16, .zero = TDM_S32},
    {.k = 1100, .group = 64, .scale = TDM_F32, .zero = TDM_S8},
    /* A, B or both are copied by elements. */
    {.less_rows = 5, .k = 320, .group = 64, .scale = TDM_F32, .zero = TDM_S8, .a = TEST_OFFSET},
    {.k = 320, .group = 32, .scale = TDM_F16, .zero = TDM_S8, .b = TEST_PADDED},
    {.less_rows = 8, .k = 320, .scale = TDM_F32, .zero = TDM_S32, .transpose_a = 1},
    {.k = 70, .scale = TDM_F32, .a = TEST_SPREAD, .b = TEST_OFFSET},
    /* These have packed weights, batch entries, and an epilogue. */
    {.k = 576, .group = 32, .scale = TDM_F16, .zero = TDM_S8, .packed = 1, .batch = 2},
    {.less_rows = 2, .k = 544, .scale = TDM_F32, .packed = 1, .epilogue = 1},
    /* With s8 or s4 these are q8_0 or q4_0: an f16 scale for 32 steps, packed and in place. */
    {.k = 1184, .group = 32, .scale = TDM_F16},
    {.less_rows = 1, .k = 352, .group = 32, .scale = TDM_F16, .packed = 1, .epilogue = 1},
    /* K is split into whole tiles, or has a shorter last part. */
    {.k = 1024, .group = 32, .scale = TDM_F32, .zero = TDM_S8, .split = 2, .epilogue = 1},
    {.less_rows = 8, .k = 1120, .group = 128, .scale = TDM_F16, .split = 5, .batch = 2}};

static bool is_tensor_row(const tdm_variant *row) {
    return row->op == TDM_OP_GEMM_WEIGHTS && row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_TENSOR;
}

static bool has_room(const test_device *device, const tdm_variant *row) {
    return (uint64_t)row->parameters[TDM_GEMM_P_LOCAL_BYTES] <= device->info.local_bytes;
}

static void run_trial(const test_device *device, const tdm_variant *row, const tensor_trial *t) {
    char variant[96];
    snprintf(variant, sizeof variant, "%s:split_k=%d", row->name, t->split ? t->split : 1);
    weights_trial trial = {.device = device,
                           .variant = variant,
                           .m = row->parameters[TDM_GEMM_P_ROWS] - t->less_rows,
                           .n = row->parameters[TDM_GEMM_P_COLUMNS] + 8,
                           .k = t->k,
                           .group = t->group,
                           .b_type = TDM_S8,
                           .d_type = TDM_F32,
                           .scale_type = t->scale,
                           .zero_type = t->zero,
                           .transpose_a = t->transpose_a,
                           .transpose_b = 1,
                           .packed = t->packed,
                           .epilogue = t->epilogue ? 1 + TDM_ACT_RELU : 0,
                           .batch = t->batch,
                           .a_place = t->a,
                           .b_place = t->b,
                           .parameters = t->parameters,
                           .data = WEIGHTS_EXACT,
                           .seed = (uint64_t)t->k + 7};
    weights_trial_suit(&trial, row);
    weights_trial_run(trial);
}

TEST(exact_sums) {
    for (int d = 0; d < test_device_count(); d++) {
        const test_device *const device = test_device_at(d);
        int rows = 0;
        for (int i = 0; i < tdm_variant_count; i++) {
            const tdm_variant *const row = &tdm_variants[i];
            if (!is_tensor_row(row) || !test_can_run(device, row) || !has_room(device, row))
                continue;
            rows++;
            for (int t = 0; t < COUNT(trials); t++)
                if (test_part_is_due(device, row, t))
                    run_trial(device, row, &trials[t]);
        }
        const uint32_t needed = TDM_CAP_TENSOR_CORES | TDM_CAP_ASYNC_COPY;
        if (rows == 0 && (device->info.capabilities & needed) == needed &&
            test_case_begin(device, NULL, "rows for quantized weights")) {
            test_case_fail("no row for quantized weights can be run");
            test_case_end();
        }
    }
}

/* ---- the choice ------------------------------------------------------------------------------ */

/*
 * The expected choices are those of docs/decisions/occupancy-and-waves.md. `part` is a part of
 * the variant's name or of the path to it.
 */
typedef struct choice_row {
    int64_t m, n, k;
    tdm_dtype a;
    int transpose_a;
    const char *part;
    bool splits; /* K is split */
} choice_row;

static void check_choice(const test_device *device, const choice_row *choice, tdm_dtype weights) {
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    tdm_gemm_plan *plan;
    size_t bytes;
    const int64_t m = choice->m, n = choice->n, k = choice->k;
    const int64_t a[2] = {choice->transpose_a ? k : m, choice->transpose_a ? m : k};
    TEST_OK(tdm_layout_contiguous(choice->a, 2, a, &desc.a));
    TEST_OK(tdm_layout_contiguous(weights, 2, (const int64_t[]){n, k}, &desc.b));
    TEST_OK(tdm_layout_contiguous(TDM_F16, 2, (const int64_t[]){n, k / 32}, &desc.b_quant.scale));
    TEST_OK(tdm_layout_contiguous(TDM_F16, 2, (const int64_t[]){m, n}, &desc.d));
    desc.b_quant.block[0] = 1;
    desc.b_quant.block[1] = 32;
    desc.transpose_a = choice->transpose_a;
    desc.transpose_b = 1;
    TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
    TEST_OK(tdm_gemm_plan_workspace_size(plan, &bytes));
    if (!strstr(tdm_gemm_plan_variant(plan), choice->part) || (bytes > 0) != choice->splits)
        test_case_fail("%lld by %lld of %s is given to %s with %zu bytes", (long long)m,
                       (long long)n, tdm_dtype_name(choice->a), tdm_gemm_plan_variant(plan), bytes);
    tdm_gemm_plan_destroy(plan);
}

/*
 * If the best tile has no room, the best remaining tile is chosen, not the fallback for having
 * none.
 */
TEST(a_tile_without_room_leaves_the_next) {
    static const struct {
        const char *best;
        choice_row left; /* its n is per compute unit */
    } tiles[] = {
        {"gemm_f16s8_mma_128x128__tensor", {1024, 128, 4096, TDM_F16, 0, "_mma_64x64", false}},
        {"gemm_f16s8_decode_16x64__tensor", {1, 128, 4096, TDM_F16, 0, "_decode_16x32", false}}};
    for (int d = 0; d < test_device_count(); d++)
        for (int i = 0; i < COUNT(tiles); i++) {
            const test_device *const device = test_device_at(d);
            const tdm_variant *const best = tdm_variant_find(tiles[i].best);
            choice_row left = tiles[i].left;
            tdm_kernel *kernel;
            if (!test_can_run(device, best) || !has_room(device, best) ||
                !test_case_begin(device, NULL, "no room for %s", best->name))
                continue;
            left.n *= device->info.compute_units;
            TEST_OK(tdm_device_kernel(device->device, best, &kernel));
            const uint32_t allowed = kernel->limits.max_group_items;
            kernel->limits.max_group_items = 1;
            check_choice(device, &left, TDM_S8);
            kernel->limits.max_group_items = allowed;
            test_case_end();
        }
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
