/*
 * Tests packed weights in the K-major layout that tensor cores copy, and integer GEMM with a split
 * K. Every variant gives the bits of the exact sums: in one part or several, packed or not, with
 * every zero point and epilogue.
 */
// ctest: device timeout=300 kernels=gemm_int cost=10
#include <stdio.h>
#include <string.h>

#include "api/gemm/gemm_internal.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/variant_cases.h"
#include "tests/support/gemm/gemm_int_trial.h"
#include "tests/support/gemm/gemm_table.h"
#include "tests/support/gemm/gemm_trial.h"
#include "tests/support/test_case.h"

#define NONE TDM_DTYPE_NONE

static int32_t family_of(const tdm_variant *row) {
    return row->parameters[TDM_GEMM_P_FAMILY];
}

/* ---- integer GEMM with K in parts ------------------------------------------------------------ */

typedef struct part_case {
    int parts;
    const char *trial;
} part_case;

/*
 * K has a remainder or none, fewer steps than parts, or parts of one step. The cases cover every
 * epilogue. Batch entries have a B each or share one.
 */
static const part_case part_cases[] = {
    {3, "5x7x67 s8>s32 A:each+zero B:each+zero"},
    {3, "13x33x96 u8>s8 A:one+zero B:each D:each+zero bias:s32 tb relu packed"},
    {7, "4x6x2 s8>s32 B:one+zero"},
    {4, "9x70x203 u8>f16 A:each B:each+zero bias:f32 scale:bf16 C alpha:-0.5 packed"},
    {3, "6x9x67 s8>s32 A:one+zero bias:s32 C batch:3 shared"},
    {4, "19x34x150 s8>u8 A:each+zero B:each+zero D:one+zero scale:f16 batch:3 packed"},
    {5, "3x5x129 u8>s8 A:one B:one D:one ties"},
    {9, "2x3x33025 u8>s32 A:one+zero B:each+zero extreme"},
    {3, "4x9x50 s8>s32 A:each+zero B:each+zero outer:2 batch:2"},
};
#define PART_CASES ((int)(sizeof part_cases / sizeof *part_cases))

/* Adapts a case to tensor maps: K is a multiple of 16, and an unpacked B is contiguous along K. */
static void suit(gemm_int_trial *trial, const tdm_variant *row) {
    if (family_of(row) != TDM_GEMM_WGMMA)
        return;
    trial->k = trial->k > 16 ? trial->k / 16 * 16 : 16;
    trial->transpose_b = trial->transpose_b || !trial->packed_b;
}

static void run_parts(const test_device *device, const tdm_variant *row, int index) {
    const part_case *const c = &part_cases[index];
    const tdm_gemm_problem packed = {.op = TDM_OP_GEMM_INT, .packed_b = true};
    char split[128], whole[128];
    gemm_int_trial trial = gemm_int_trial_read(c->trial);
    snprintf(split, sizeof split, "%s:split_k=%d", row->name, c->parts);
    snprintf(whole, sizeof whole, "%s:split_k=1", row->name);
    trial.variant = split;
    // The oracle gives the exact bits of integer results.
    trial.same_bits_as =
        !test_is_small() || tdm_dtype_info(trial.d)->kind == TDM_CLASS_FLOAT ? whole : NULL;
    trial.seed = 900 + (uint64_t)index;
    trial.packed_b = trial.packed_b && !tdm_gemm_reads_panels(&packed, row);
    if (test_is_small() && trial.k > 1000)
        trial.k = 200;
    suit(&trial, row);
    gemm_int_trial_case(device, trial);
}

static void run_due_parts(const test_device *device, const tdm_variant *row) {
    for (int i = 0; i < PART_CASES; i++)
        if (test_part_is_due(device, row, i))
            run_parts(device, row, i);
}

TEST(parts_of_integers_make_the_whole_sum) {
    test_each_variant(TDM_OP_GEMM_INT, NULL, run_due_parts);
}

/* ---- the choice ------------------------------------------------------------------------------ */

static tdm_gemm_desc describe(tdm_dtype a, tdm_dtype b, int64_t m, int64_t n, int64_t k) {
    const tdm_dtype d = a == TDM_S8 || a == TDM_U8 ? TDM_S32 : TDM_F32;
    return gemm_dense_desc(a, b, d, m, n, k);
}

static int64_t parts_of(const test_device *device, const tdm_gemm_desc *desc) {
    tdm_gemm_plan *plan;
    TEST_OK(tdm_gemm_plan_create(device->device, desc, &plan));
    const int64_t parts = plan->split.parts;
    tdm_gemm_plan_destroy(plan);
    return parts;
}

/* D has eight rows and thus only one row of tiles, too few for any GPU that has tensor cores. */
DEVICE_TEST(few_tiles_of_tensor_cores_are_split) {
    static const tdm_dtype types[] = {TDM_S8, TDM_F16, TDM_BF16};
    for (int v = 0; v < tdm_variant_count; v++) {
        const tdm_variant *const row = &tdm_variants[v];
        if (row->op == TDM_OP_GEMM_WEIGHTS || !test_can_run(device, row) ||
            (family_of(row) != TDM_GEMM_TENSOR && family_of(row) != TDM_GEMM_WGMMA))
            continue;
        for (size_t t = 0; t < sizeof types / sizeof *types; t++) {
            tdm_gemm_desc desc = describe(types[t], types[t], 8, 64, 16384);
            const bool is_integer = types[t] == TDM_S8;
            if (is_integer != (row->op == TDM_OP_GEMM_INT) ||
                (!is_integer && row->parameters[TDM_GEMM_P_B_TYPE] != (int32_t)types[t]))
                continue;
            desc.variant = row->name;
            desc.packed_b = 1;
            if (parts_of(device, &desc) < 2)
                test_case_fail("%s does not split 8x64x16384", row->name);
            desc = describe(types[t], types[t], 8, 64, 64);
            desc.variant = row->name;
            desc.packed_b = 1;
            assert_int_equal(parts_of(device, &desc), 0);
        }
    }
}

/* ---- packed weights -------------------------------------------------------------------------- */

typedef struct lying {
    tdm_dtype b;
    const char *units, *panels; /* layouts: with tensor cores, on CPU cores */
    int64_t bytes;              /* with tensor cores: size of a 19×37 B */
} lying;

static const lying lyings[] = {
    {TDM_S8, "lines16-s8/1", "quads", 37 * 32},
    {TDM_F16, "lines16-f16/1", "panel", 37 * 24 * 2},
    {TDM_BF16, "lines16-bf16/1", "panel", 37 * 24 * 2},
    {TDM_F32, "rows16-f32/1", "panel", 19 * 40 * 4},
};

static void expect_layout(const test_device *device, const lying *l, const tdm_packed *packed) {
    const uint64_t capabilities = device->device->info.capabilities;
    const char *const layout = tdm_packed_layout(packed);
    char plain[TDM_PACKED_LAYOUT_TEXT];
    snprintf(plain, sizeof plain, "plain-%s/1", tdm_dtype_name(l->b));
    if (capabilities & TDM_CAP_CPU_CORES) {
        assert_int_equal(strncmp(layout, l->panels, strlen(l->panels)), 0);
        return;
    }
    if (!(capabilities & TDM_CAP_TENSOR_CORES)) {
        assert_string_equal(layout, plain);
        return;
    }
    assert_string_equal(layout, l->units);
    assert_int_equal(tdm_packed_bytes(packed), l->bytes);
}

/* A plan for one row packs B; plans for any number of rows use it. */
DEVICE_TEST(packed_weights_lie_alike_for_any_m) {
    static const int64_t rows[] = {1, 9, 70};
    const bool few = test_is_small() && !(device->device->info.capabilities & TDM_CAP_TENSOR_CORES);
    for (size_t i = 0; i < sizeof lyings / sizeof *lyings; i++)
        for (size_t m = few ? i % 2 : 0; m < (few ? i % 2 + 1 : sizeof rows / sizeof *rows); m++) {
            tdm_gemm_desc one = describe(lyings[i].b, lyings[i].b, 1, 37, 19);
            tdm_gemm_desc desc = describe(lyings[i].b, lyings[i].b, rows[m], 37, 19);
            tdm_gemm_plan *plan = NULL;
            tdm_packed *packed = NULL;
            gemm_table t;
            one.packed_b = desc.packed_b = 1;
            TEST_OK(tdm_gemm_plan_create(device->device, &one, &plan));
            gemm_table_lay(&t, device, &desc);
            TEST_OK(tdm_gemm_pack_b(plan, device->stream, t.b.tensor, &packed));
            expect_layout(device, &lyings[i], packed);
            TEST_OK(tdm_tensor_fill(device->stream, 77, t.b.tensor));
            t.args.b = NULL;
            t.args.packed_b = packed;
            TEST_OK(tdm_gemm_plan_run(t.plan, device->stream, &t.args));
            gemm_table_expect_product(&t);
            tdm_packed_destroy(packed);
            tdm_gemm_plan_destroy(plan);
            gemm_table_clear(&t);
        }
}

/* N and K are odd. K may be odd because A is transposed, so that its rows do not run along K. */
static void multiply_floats(const test_device *device, const tdm_variant *row, int transpose_b) {
    gemm_trial trial = {.variant = row->name, .packed_b = 1};
    trial.item = (op_gemm_case){.m = 72,
                                .n = 37,
                                .k = 45,
                                .transpose_a = 1,
                                .transpose_b = transpose_b,
                                .alpha = 1,
                                .exact = 1,
                                .allow_3xtf32 = tdm_gemm_is_3xtf32(row),
                                .batch_rank = 1,
                                .batch = {2},
                                .seed = 77};
    for (int o = 0; o < 2; o++)
        trial.item.dtype[o == 0 ? OP_GEMM_A : OP_GEMM_B] =
            (tdm_dtype)row->parameters[TDM_GEMM_P_B_TYPE];
    trial.item.dtype[OP_GEMM_D] = TDM_F32;
    gemm_trial_case(device, &trial);
}

static void multiply_integers(const test_device *device, const tdm_variant *row, int transpose_b) {
    gemm_int_trial trial =
        gemm_int_trial_read("72x37x45 u8>s32 A:each+zero B:each+zero batch:2 packed");
    trial.k = family_of(row) == TDM_GEMM_WGMMA ? 48 : 45;
    trial.transpose_b = transpose_b;
    trial.variant = row->name;
    trial.seed = 78;
    gemm_int_trial_case(device, trial);
}

/*
 * Packing on tensor-core devices pads rows to whole 16-byte units. Elsewhere packed weights are
 * dense, as in other tests.
 */
TEST(rows_take_packed_weights_of_any_n) {
    for (int d = 0; d < test_device_count(); d++)
        for (int v = 0; v < tdm_variant_count; v++) {
            const test_device *const device = test_device_at(d);
            const tdm_variant *const row = &tdm_variants[v];
            const bool is_integer = row->op == TDM_OP_GEMM_INT;
            const int32_t a = row->parameters[TDM_GEMM_P_A_TYPE],
                          b = row->parameters[TDM_GEMM_P_B_TYPE];
            if ((row->op != TDM_OP_GEMM && !is_integer) || b == 0 ||
                (!is_integer && a != 0 && a != b) || !test_can_run(device, row) ||
                !(device->device->info.capabilities & TDM_CAP_TENSOR_CORES))
                continue;
            (is_integer ? multiply_integers : multiply_floats)(device, row, v % 2);
        }
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
