/*
 * Every variant of op GEMM_INT is forced on every device that meets its requirements. A seeded
 * pairwise sample covers shapes (relative to the variant's tile), types, zero points, scales,
 * transposes, placements and batches. Integer results must equal the exact sums bit for bit; float
 * results keep the bound of docs/numerics.md.
 */
// ctest: device rusticl_in_ci timeout=300 cost=30
#include <stdio.h>
#include <string.h>

#include "api/gemm/gemm_internal.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/variant_cases.h"
#include "tests/support/gemm/gemm_int_trial.h"
#include "tests/support/test_case.h"

/* Factors of the sample. */
enum {
    F_M,
    F_N,
    F_K,
    F_A_TYPE,
    F_D_TYPE,
    F_A_QUANT,
    F_A_ZERO,
    F_B_QUANT,
    F_B_ZERO,
    F_D_QUANT,
    F_D_ZERO,
    F_SCALE_TYPE,
    F_C,
    F_BIAS,
    F_TRANSPOSE,
    F_A_PLACE,
    F_B_PLACE,
    F_D_PLACE,
    F_ACTIVATION,
    F_BATCH,
    F_DATA,
    F_PACKED,
    FACTORS
};

static const tdm_dtype scale_types[] = {TDM_F32, TDM_F16, TDM_BF16};
static const tdm_dtype d_types[] = {TDM_S32, TDM_S8, TDM_U8, TDM_F32, TDM_F16, TDM_BF16};
static const int64_t depths[] = {0, 1, 2, 3, 4, 7, 64, 67, 401, 2051};
static const int64_t small_depths[] = {0, 1, 7, 17};

/*
 * This is enough local memory for three micro-panels of A, a panel of B and the kept sums of any
 * variant.
 */
#define ROOM_FOR_BLOCKS ((uint64_t)512 << 10)

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

static int64_t size_near(int64_t tile, int level) {
    const int64_t sizes[] = {
        1, tile > 1 ? tile - 1 : 2, tile, tile + 1, 2 * tile + 3, 13, tile + 2, 2 * tile + 4};
    return sizes[level];
}
enum {
    SIZE_LEVELS = 8,
    SMALL_SIZE_LEVELS = 4
};

static void count_levels(int levels[FACTORS]) {
    const int sizes = test_is_small() ? SMALL_SIZE_LEVELS : SIZE_LEVELS;
    const int all[FACTORS] = {[F_M] = sizes,
                              [F_N] = sizes,
                              [F_K] = test_is_small() ? COUNT(small_depths) : COUNT(depths),
                              [F_A_TYPE] = 2,
                              [F_D_TYPE] = COUNT(d_types),
                              [F_A_QUANT] = GEMM_INT_SPREADS,
                              [F_A_ZERO] = 2,
                              [F_B_QUANT] = GEMM_INT_SPREADS,
                              [F_B_ZERO] = 2,
                              [F_D_QUANT] = 2,
                              [F_D_ZERO] = 2,
                              [F_SCALE_TYPE] = 3,
                              [F_C] = 2,
                              [F_BIAS] = 3,
                              [F_TRANSPOSE] = 4,
                              [F_A_PLACE] = TEST_PLACEMENTS,
                              [F_B_PLACE] = TEST_PLACEMENTS,
                              [F_D_PLACE] = TEST_PLACEMENTS,
                              [F_ACTIVATION] = 5,
                              [F_BATCH] = 4,
                              [F_DATA] = GEMM_INT_DATA_KINDS,
                              [F_PACKED] = 2};
    memcpy(levels, all, sizeof all);
}

static bool is_float(tdm_dtype dtype) {
    return tdm_dtype_info(dtype)->kind == TDM_CLASS_FLOAT;
}

static tdm_dtype bias_of(int level, tdm_dtype d) {
    return level == 0 ? TDM_DTYPE_NONE : level == 1 || !is_float(d) ? TDM_S32 : TDM_F32;
}

/*
 * Tensor maps need offsets and row pitches along K in multiples of 16 elements. Packing gives any B
 * such pitches.
 */
static void keep_whole_units(gemm_int_trial *trial) {
    trial->transpose_a = 0;
    trial->a_place = TEST_DENSE;
    trial->k = (trial->k + 16) / 16 * 16;
    if (trial->packed_b)
        return;
    trial->transpose_b = 1;
    trial->b_place = TEST_DENSE;
}

/* Integer outputs take relu or no activation; s32 takes none. */
static tdm_activation activation_of(int level, tdm_dtype d) {
    if (is_float(d))
        return (tdm_activation)level;
    return level != 0 && d != TDM_S32 ? TDM_ACT_RELU : TDM_ACT_NONE;
}

static gemm_int_trial trial_of(const tdm_variant *row, const int level[FACTORS], uint64_t seed) {
    const int64_t *const k = test_is_small() ? small_depths : depths;
    const int32_t *const p = row->parameters;
    const tdm_dtype d = d_types[level[F_D_TYPE]];
    gemm_int_trial trial = {
        .m = size_near(p[TDM_GEMM_P_ROWS] > 1 ? p[TDM_GEMM_P_ROWS] : 8, level[F_M]),
        .n = size_near(p[TDM_GEMM_P_COLUMNS] > 1 ? p[TDM_GEMM_P_COLUMNS] : 8, level[F_N]),
        .k = k[level[F_K]],
        .a = level[F_A_TYPE] ? TDM_U8 : TDM_S8,
        .d = d,
        .a_quant = (gemm_int_spread)level[F_A_QUANT],
        .a_zero = level[F_A_ZERO],
        .b_quant = (gemm_int_spread)level[F_B_QUANT],
        .b_zero = level[F_B_ZERO],
        .d_quant = level[F_D_QUANT] ? GEMM_INT_EACH : GEMM_INT_ONE,
        .d_zero = level[F_D_ZERO],
        .scale = scale_types[level[F_SCALE_TYPE]],
        .alpha = is_float(d) && level[F_C] ? -0.5f : 1.0f,
        .has_c = level[F_C],
        .bias = bias_of(level[F_BIAS], d),
        .transpose_a = level[F_TRANSPOSE] & 1,
        .transpose_b = level[F_TRANSPOSE] >> 1,
        .a_place = (test_placement)level[F_A_PLACE],
        .b_place = (test_placement)level[F_B_PLACE],
        .d_place = (test_placement)level[F_D_PLACE],
        .activation = activation_of(level[F_ACTIVATION], d),
        .batch = level[F_BATCH] == 0   ? 0
                 : level[F_BATCH] == 1 ? 1
                                       : 3,
        .shares_b = level[F_BATCH] == 3,
        .data = (gemm_int_data)level[F_DATA],
        .packed_b = level[F_PACKED],
        .variant = row->name,
        .seed = seed};
    if (p[TDM_GEMM_P_FAMILY] == TDM_GEMM_WGMMA)
        keep_whole_units(&trial);
    return trial;
}

static void run_trial(const test_device *device, const tdm_variant *row, const int level[],
                      uint64_t seed) {
    gemm_int_trial_case(device, trial_of(row, level, seed));
}

static void run_row(const test_device *device, const tdm_variant *row) {
    int levels[FACTORS];
    count_levels(levels);
    test_sample_of_variant(device, row, FACTORS, levels, 20241101, run_trial);
}

TEST(every_variant) {
    test_each_variant(TDM_OP_GEMM_INT, NULL, run_row);
    test_require_all_variants(TDM_OP_GEMM_INT);
}

/* These cases have the longest K that is allowed. */
static const char *const longest[] = {
    "2x3x131071 s8>s32 A:one B:each", "2x3x131071 s8>s32 A:one B:each tb",
    "2x3x65793 u8>s32 A:one B:each", "2x3x65793 s8>s32 A:one+zero B:each",
    "2x3x33025 u8>s32 A:one+zero B:each+zero tb"};

/* The data make the largest possible sums. No intermediate result may overflow or saturate. */
static void longest_k(const test_device *device, const tdm_variant *row, const char *text,
                      uint64_t seed) {
    gemm_int_trial trial = gemm_int_trial_read(text);
    const int64_t most = trial.k;
    /*
     * K exceeds two steps of a tile. If one work-item computes a tile alone, K exceeds a block of
     * K.
     */
    if (test_is_small())
        trial.k = row->parameters[TDM_GEMM_P_ITEMS] > 1 ? 137 : 1009;
    trial.data = GEMM_INT_EXTREME;
    trial.variant = row->name;
    trial.seed = seed;
    if (row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_WGMMA) {
        keep_whole_units(&trial);
        trial.k -= trial.k > most ? 16 : 0;
    }
    gemm_int_trial_case(device, trial);
}

static void longest_of_row(const test_device *device, const tdm_variant *row) {
    for (int i = 0; i < 2 * COUNT(longest); i++) // both ends of the ranges
        if (test_part_is_due(device, row, i))
            longest_k(device, row, longest[i % COUNT(longest)], (uint64_t)(i / COUNT(longest)));
}

TEST(the_longest_k_is_exact) {
    test_each_variant(TDM_OP_GEMM_INT, NULL, longest_of_row);
}

/*
 * Returns a K that is a multiple of the instruction's step, but of no other step. The step is 64
 * for a tile register and four for a quad.
 */
static int64_t whole_steps(const tdm_variant *row) {
    return row->requires & TDM_CAP_HOST_AMX_INT8 ? 128 : 68;
}

/*
 * Lets work-items pack B themselves; they may read A in place. The last micro-panel of A extends
 * beyond the matrix and has only `rows` rows in it. If `rows` is even, D is treated as larger than
 * the caches.
 */
static void rows_in_place(const test_device *device, const tdm_variant *row, tdm_dtype a,
                          int row_items, int column_items, int64_t strips, int64_t rows) {
    char forced[128];
    gemm_int_trial trial = gemm_int_trial_read("0x0x0 u8>s32 A:one+zero bias:s32");
    snprintf(forced, sizeof forced, "%s:row_items=%d,col_items=%d,pack_b=2", row->name, row_items,
             column_items);
    const bool exceeds = rows % 2 == 0;
    const uint64_t own_caches = device->device->info.cache_bytes;
    trial.m = row->parameters[TDM_GEMM_P_ROWS] * strips + rows;
    trial.n = (int64_t)row->parameters[TDM_GEMM_P_COLUMNS] * 3 + (exceeds ? 16 : 5);
    trial.k = whole_steps(row);
    trial.a = a;
    trial.variant = forced;
    trial.seed = (uint64_t)rows;
    device->device->info.cache_bytes = exceeds ? 1 : own_caches;
    gemm_int_trial_case(device, trial);
    device->device->info.cache_bytes = own_caches;
}

/*
 * First, one work-item multiplies all rows of A with some columns of B. With u8 the rows are
 * sometimes too many for a copy of A. With s8 they never are, because some processors copy s8. Then
 * several work-items along M get equal shares. If they read A in place, the first half of them gets
 * more.
 */
static void rows_of_items(const test_device *device, const tdm_variant *row) {
    const int32_t *const p = row->parameters;
    const int64_t copied =
        (int64_t)device->info.local_bytes / ((int64_t)p[TDM_GEMM_P_ROWS] * p[TDM_GEMM_P_DEPTH]);
    for (int64_t rows = 0; rows < p[TDM_GEMM_P_ROWS]; rows++) {
        rows_in_place(device, row, TDM_U8, 1, 2, rows % 4 == 1 ? copied + 1 : 3, rows);
        rows_in_place(device, row, TDM_S8, 1, 2, 3, rows);
    }
    for (int items = 2; items < 8; items++)
        rows_in_place(device, row, items & 1 ? TDM_U8 : TDM_S8, items, 1, 2 * items + 5, 1);
}

/*
 * One work-item computes several tiles below one another. It keeps their sums across three blocks
 * of K and then writes D.
 */
static void blocks_of_an_item(const test_device *device, const tdm_variant *row, tdm_dtype a) {
    const int32_t *const p = row->parameters;
    char forced[128];
    gemm_int_trial trial = gemm_int_trial_read("0x0x0 u8>s32 A:one+zero bias:s32");
    snprintf(forced, sizeof forced, "%s:row_items=1,col_items=1", row->name);
    trial.m = (int64_t)p[TDM_GEMM_P_ROWS] * 2 + 1;
    trial.n = (int64_t)p[TDM_GEMM_P_COLUMNS] + 3;
    trial.k = (int64_t)p[TDM_GEMM_P_DEPTH] * 2 + 70;
    trial.a = a;
    trial.variant = forced;
    trial.seed = (uint64_t)a;
    gemm_int_trial_case(device, trial);
}

static bool has_panels(const tdm_variant *row) {
    return row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_PANEL;
}

static void items_of_row(const test_device *device, const tdm_variant *row) {
    if (row->parameters[TDM_GEMM_P_UNIT] == 1)
        rows_of_items(device, row);
    if (device->info.local_bytes < ROOM_FOR_BLOCKS)
        return;
    blocks_of_an_item(device, row, TDM_U8);
    blocks_of_an_item(device, row, TDM_S8);
}

TEST(items_of_many_rows_are_exact) {
    test_each_variant(TDM_OP_GEMM_INT, has_panels, items_of_row);
}

/*
 * Devices without CPU cores use tiles in local memory, except for thin matrices. Tensor cores may
 * take thin matrices too.
 */
static void check_choice(const test_device *device, int64_t m, int64_t n, bool thin) {
    const int64_t a_shape[] = {m, 64}, b_shape[] = {64, n}, d_shape[] = {m, n};
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    tdm_gemm_plan *plan;
    TEST_OK(tdm_layout_contiguous(TDM_U8, 2, a_shape, &desc.a));
    TEST_OK(tdm_layout_contiguous(TDM_S8, 2, b_shape, &desc.b));
    TEST_OK(tdm_layout_contiguous(TDM_S32, 2, d_shape, &desc.d));
    TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
    const char *const chosen = tdm_gemm_plan_variant(plan);
    const bool tiled = strstr(chosen, "_tiled_") || (!thin && strstr(chosen, "_mma_"));
    const bool cores = (device->info.capabilities & TDM_CAP_CPU_CORES) != 0;
    if (tiled != (!cores && !thin))
        test_case_fail("%lld by %lld is given to %s", (long long)m, (long long)n, chosen);
    tdm_gemm_plan_destroy(plan);
}

DEVICE_TEST(tiles_are_for_what_fills_them) {
    check_choice(device, 300, 300, false);
    check_choice(device, 9, 9, false);
    check_choice(device, 8, 300, true);
    check_choice(device, 300, 1, true);
}

/*
 * Variants with tile registers run on cores that have them, if A has enough rows to make up for
 * packing B. Packed weights have one form, so they use these variants for any number of rows.
 */
static void check_registers(const test_device *device, int64_t m, int64_t n, bool packed,
                            bool expected) {
    const int64_t a_shape[] = {m, 64}, b_shape[] = {64, n}, d_shape[] = {m, n};
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    tdm_gemm_plan *plan;
    TEST_OK(tdm_layout_contiguous(TDM_U8, 2, a_shape, &desc.a));
    TEST_OK(tdm_layout_contiguous(TDM_S8, 2, b_shape, &desc.b));
    TEST_OK(tdm_layout_contiguous(TDM_S32, 2, d_shape, &desc.d));
    desc.packed_b = packed;
    TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
    const char *const chosen = tdm_gemm_plan_variant(plan);
    if ((strstr(chosen, "__amx") != NULL) != expected)
        test_case_fail("%lld by %lld is given to %s", (long long)m, (long long)n, chosen);
    tdm_gemm_plan_destroy(plan);
}

DEVICE_TEST(tile_registers_are_for_many_rows) {
    const bool has = (device->info.capabilities & TDM_CAP_HOST_AMX_INT8) != 0;
    check_registers(device, 8, 300, false, false);
    check_registers(device, 9, 300, false, has);
    check_registers(device, 47, 4096, false, false);
    check_registers(device, 48, 4096, false, has);
    check_registers(device, 1, 4096, true, has);
    check_registers(device, 48, 4096, true, has);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
