/*
 * Runs every variant of the operation GEMM on every device that meets its requirements. A seeded
 * pairwise sample covers shapes (relative to the variant's tile), types, transposes, memory layouts
 * ("placements"), alpha, beta, epilogues and batches.
 */
// ctest: device rusticl_in_ci timeout=420 kernels=gemm cost=75
#include <stdlib.h>
#include <string.h>

#include "api/gemm/gemm_internal.h"
#include "tests/support/devices/variant_cases.h"
#include "tests/support/gemm/gemm_trial.h"
#include "tests/support/test_case.h"

/* The factors of the pairwise sample. */
enum {
    F_M,
    F_N,
    F_K,
    F_A_TYPE,
    F_B_TYPE,
    F_D_TYPE,
    F_C_TYPE,
    F_RESIDUAL_TYPE,
    F_BIAS_TYPE,
    F_TRANSPOSE,
    F_A_PLACE,
    F_B_PLACE,
    F_C_PLACE,
    F_D_PLACE,
    F_BIAS_PLACE,
    F_ALPHA,
    F_BETA,
    F_ACTIVATION,
    F_GATED,
    F_BATCH,
    F_EXACT,
    F_PACKED,
    FACTORS
};

static const tdm_dtype types[] = {TDM_F32, TDM_F16, TDM_BF16};
static const tdm_dtype optional_types[] = {TDM_DTYPE_NONE, TDM_F32, TDM_F16, TDM_BF16};
/* An alpha of 0 runs no kernel; test_gemm_alpha.c tests it. */
static const float alphas[] = {1.0f, -0.5f, 2.0f};
static const float betas[] = {0.0f, 1.0f, -0.75f};
/*
 * For the longest K, 16-bit outputs must round exact sums, and some of these are ties. These K are
 * also close to multiples of a K block.
 */
static const int64_t depths[] = {0, 1, 7, 15, 16, 17, 67, 401, 512, 1025};
static const int64_t small_depths[] = {0, 1, 7, 17};

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

/*
 * A row has batch dimensions and a mask for each operand. If bit i of the mask is set, the operand
 * has size 1 in dimension i, and all batch entries along it share a matrix.
 */
typedef struct batch_row {
    int rank;
    int64_t shape[OP_GEMM_MAX_BATCH];
    unsigned a, b, c, residual;
} batch_row;
static const batch_row batches[] =
    {
        {0, {0}, 0, 0, 0, 0},
        {1, {3}, 0, 0, 0, 0},
        {1, {3}, 0, 1, 1, 0}, /* shared weights */
        {1, {2}, 1, 0, 0, 1}, /* shared A */
        {2, {2, 3}, 0, 0, 0, 0},
        {2, {3, 2}, 0, 1, 2, 3},    /* not mergeable: B varies along the second dimension only */
        {3, {2, 1, 2}, 2, 5, 0, 0}, /* a dimension of 1 */
        {2, {2, 2}, 1, 2, 0, 0},    /* A varies along one dimension, B along the other */
        {3, {2, 3, 2}, 2, 1, 0, 4}, /* no two of the three dimensions can be merged */
};

/* Returns a size to test for a tile of `tile` rows or columns. */
static int64_t size_near(int64_t tile, int level) {
    const int64_t sizes[] = {1, tile > 1 ? tile - 1 : 2, tile, tile + 1, 2 * tile + 3, 13};
    return sizes[level];
}
enum {
    SIZE_LEVELS = 6,
    SMALL_SIZE_LEVELS = 4
};

/*
 * Returns the number of types that a variant accepts for an operand. Its parameter is the type; 0
 * means all types.
 */
static int type_levels(int32_t parameter) {
    return parameter == 0 ? COUNT(types) : 1;
}
static tdm_dtype type_of(int32_t parameter, int level) {
    return parameter == 0 ? types[level] : (tdm_dtype)parameter;
}

static void count_levels(const tdm_variant *row, int levels[FACTORS]) {
    const int sizes = test_is_small() ? SMALL_SIZE_LEVELS : SIZE_LEVELS;
    const int all[FACTORS] = {[F_M] = sizes,
                              [F_N] = sizes,
                              [F_K] = test_is_small() ? COUNT(small_depths) : COUNT(depths),
                              [F_A_TYPE] = type_levels(row->parameters[TDM_GEMM_P_A_TYPE]),
                              [F_B_TYPE] = type_levels(row->parameters[TDM_GEMM_P_B_TYPE]),
                              [F_D_TYPE] = COUNT(types),
                              [F_C_TYPE] = COUNT(optional_types) + 1,
                              [F_RESIDUAL_TYPE] = COUNT(optional_types) + 1,
                              [F_BIAS_TYPE] = COUNT(optional_types),
                              [F_TRANSPOSE] = 4,
                              [F_A_PLACE] = TEST_PLACEMENTS,
                              [F_B_PLACE] = TEST_PLACEMENTS,
                              [F_C_PLACE] = TEST_PLACEMENTS,
                              [F_D_PLACE] = TEST_PLACEMENTS,
                              [F_BIAS_PLACE] = 2,
                              [F_ALPHA] = COUNT(alphas),
                              [F_BETA] = COUNT(betas),
                              [F_ACTIVATION] = 5,
                              [F_GATED] = 2,
                              [F_BATCH] = COUNT(batches),
                              [F_EXACT] = 2,
                              [F_PACKED] = 2};
    memcpy(levels, all, sizeof all);
}

/*
 * Makes C or the residual what the level says: absent, a tensor of some type, or the same view as
 * D.
 */
static void choose_addend(gemm_trial *trial, op_gemm_operand operand, int level,
                          gemm_source *source) {
    if (level < COUNT(optional_types)) {
        trial->item.dtype[operand] = optional_types[level];
        return;
    }
    trial->item.dtype[operand] = trial->item.dtype[OP_GEMM_D];
    trial->item.shared[operand] = 0;
    *source = GEMM_SAME;
}

static void choose_batch(op_gemm_case *item, const batch_row *row) {
    item->batch_rank = row->rank;
    memcpy(item->batch, row->shape, sizeof item->batch);
    item->shared[OP_GEMM_A] = row->a;
    item->shared[OP_GEMM_B] = row->b;
    item->shared[OP_GEMM_C] = row->c;
    item->shared[OP_GEMM_RESIDUAL] = row->residual;
}

/*
 * Changes the trial for tensor maps, which need offsets and row pitches that are multiples of eight
 * elements. A packed B always has such pitches.
 */
static void keep_whole_units(gemm_trial *trial) {
    op_gemm_case *const item = &trial->item;
    trial->placement[OP_GEMM_A] = TEST_DENSE;
    if (!trial->packed_b)
        trial->placement[OP_GEMM_B] = TEST_DENSE;
    if (!item->transpose_a || (item->transpose_b && !trial->packed_b))
        item->k = (item->k + 8) / 8 * 8;
    item->k += item->k == 0;
    if (item->transpose_a)
        item->m = (item->m + 7) / 8 * 8;
    if (!item->transpose_b && !trial->packed_b)
        item->n = (item->n + 7) / 8 * 8;
}

static gemm_trial trial_of(const tdm_variant *row, const int level[FACTORS], uint64_t seed) {
    const int32_t *const p = row->parameters;
    const int64_t *const k = test_is_small() ? small_depths : depths;
    /*
     * The reference variant has no tile, so sizes near 8 are used. Small-M variants repeat their
     * tile for up to 16 rows.
     */
    const bool small_m = p[TDM_GEMM_P_FAMILY] == TDM_GEMM_SMALL_M;
    const int64_t tile_m = small_m ? 16 : p[TDM_GEMM_P_ROWS] > 1 ? p[TDM_GEMM_P_ROWS] : 8;
    const int64_t tile_n = p[TDM_GEMM_P_COLUMNS] > 1 ? p[TDM_GEMM_P_COLUMNS] : 8;
    gemm_trial trial = {.variant = row->name, .packed_b = level[F_PACKED]};
    op_gemm_case *const item = &trial.item;
    *item = (op_gemm_case){.m = size_near(tile_m, level[F_M]),
                           .n = size_near(tile_n, level[F_N]),
                           .k = k[level[F_K]],
                           .transpose_a = level[F_TRANSPOSE] & 1,
                           .transpose_b = level[F_TRANSPOSE] >> 1,
                           .alpha = alphas[level[F_ALPHA]],
                           .beta = betas[level[F_BETA]],
                           .activation = (tdm_activation)level[F_ACTIVATION],
                           .exact = level[F_EXACT],
                           .allow_3xtf32 = tdm_gemm_is_3xtf32(row),
                           .seed = seed};
    choose_batch(item, &batches[level[F_BATCH]]);
    /* If N is at most 32 and smaller than M, a small-M variant swaps the operands. */
    const bool swaps = small_m && !trial.packed_b && item->n <= 32 && item->n < item->m;
    item->dtype[swaps ? OP_GEMM_B : OP_GEMM_A] = type_of(p[TDM_GEMM_P_A_TYPE], level[F_A_TYPE]);
    item->dtype[swaps ? OP_GEMM_A : OP_GEMM_B] = type_of(p[TDM_GEMM_P_B_TYPE], level[F_B_TYPE]);
    item->dtype[OP_GEMM_D] = types[level[F_D_TYPE]];
    item->dtype[OP_GEMM_BIAS] = optional_types[level[F_BIAS_TYPE]];
    choose_addend(&trial, OP_GEMM_C, level[F_C_TYPE], &trial.c_source);
    choose_addend(&trial, OP_GEMM_RESIDUAL, level[F_RESIDUAL_TYPE], &trial.residual_source);
    item->gated = level[F_GATED] && item->dtype[OP_GEMM_RESIDUAL] != TDM_DTYPE_NONE;
    if (item->dtype[OP_GEMM_C] == TDM_DTYPE_NONE)
        item->beta = 0;
    trial.placement[OP_GEMM_A] = (test_placement)level[F_A_PLACE];
    trial.placement[OP_GEMM_B] = (test_placement)level[F_B_PLACE];
    trial.placement[OP_GEMM_C] = (test_placement)level[F_C_PLACE];
    trial.placement[OP_GEMM_D] = (test_placement)level[F_D_PLACE];
    trial.placement[OP_GEMM_RESIDUAL] =
        (test_placement)((level[F_C_PLACE] + level[F_D_PLACE]) % TEST_PLACEMENTS);
    trial.placement[OP_GEMM_BIAS] = level[F_BIAS_PLACE] ? TEST_SPREAD : TEST_DENSE;
    if (p[TDM_GEMM_P_FAMILY] == TDM_GEMM_WGMMA)
        keep_whole_units(&trial);
    return trial;
}

/*
 * Runs dense operands and long exact sums for each type of D. Some of these sums are ties between
 * two 16-bit numbers. Vector stores must round them, and the sample has few of them.
 */
static void run_ties(const test_device *device, const tdm_variant *row) {
    for (int type = 0; type < COUNT(types); type++) {
        int level[FACTORS] = {[F_M] = 4,         [F_N] = 4,     [F_K] = COUNT(depths) - 1,
                              [F_D_TYPE] = type, [F_ALPHA] = 1, [F_EXACT] = 1};
        const gemm_trial trial = trial_of(row, level, 77);
        gemm_trial_case(device, &trial);
    }
}

/*
 * Runs a GEMM whose sums have `k` equal terms. If `row` is NULL, the library chooses the variant.
 */
static void run_equal_terms(const test_device *device, const tdm_variant *row, tdm_dtype a_type,
                            tdm_dtype b_type, int64_t m, int64_t n, int64_t k, int transpose_b,
                            int packed) {
    gemm_trial trial = {.variant = row ? row->name : NULL, .equal_terms = 1, .packed_b = packed};
    trial.item = (op_gemm_case){.m = m,
                                .n = n,
                                .k = k,
                                .transpose_b = transpose_b,
                                .alpha = 1,
                                .allow_3xtf32 = row && tdm_gemm_is_3xtf32(row)};
    trial.item.dtype[OP_GEMM_A] = a_type;
    trial.item.dtype[OP_GEMM_B] = b_type;
    trial.item.dtype[OP_GEMM_D] = TDM_F32;
    gemm_trial_case(device, &trial);
}

/*
 * Returns true if a variant runs on equal terms. Tensor cores do not round sums to nearest, so
 * equal terms can exceed the bound there, except with 3xTF32 (docs/numerics.md). Slow OpenCL
 * implementations take minutes for long sums of a large tile. There the only tiled variants that
 * run are those for CUDA.
 */
static bool is_bounded(const tdm_variant *row) {
    const int32_t family = row->parameters[TDM_GEMM_P_FAMILY];
    if (family >= TDM_GEMM_TENSOR)
        return tdm_gemm_is_3xtf32(row);
    return !test_is_small() || family != TDM_GEMM_TILED || (row->requires & TDM_CAP_CUDA) != 0;
}

/*
 * Tests a variant on sums of equal terms, whose rounding errors all have one sign. The error must
 * stay within the bound. B is contiguous along N, contiguous along K, or packed. The row counts
 * differ, and the columns are whole vectors and a remainder.
 */
static void run_row_of_equal_terms(const test_device *device, const tdm_variant *row) {
    static const int64_t few[] = {1, 2, 3, 16}, many[] = {13}, small[] = {3};
    const bool small_m = row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_SMALL_M;
    const int64_t *const rows = test_is_small() ? small : small_m ? few : many;
    const int count = test_is_small() ? 1 : small_m ? COUNT(few) : COUNT(many);
    const int32_t *const p = row->parameters;
    const tdm_dtype b_type = type_of(p[TDM_GEMM_P_B_TYPE], 0);
    const tdm_dtype a_type = p[TDM_GEMM_P_A_TYPE] ? (tdm_dtype)p[TDM_GEMM_P_A_TYPE] : b_type;
    for (int i = 0; i < count; i++)
        for (int layout = 0; layout < (test_is_small() ? 2 : 3); layout++)
            run_equal_terms(device, row, a_type, b_type, rows[i], test_is_small() ? 5 : 83,
                            test_is_small() ? 4096 : 16384, layout == 1, layout == 2);
}

TEST(equal_terms) {
    static const int64_t rows[] = {1, 2, 3, 4, 8, 16, 64}, depths_of_equal[] = {256, 16384, 65536};
    test_each_variant(TDM_OP_GEMM, is_bounded, run_row_of_equal_terms);
    for (int d = 0; d < test_device_count() && !test_is_small(); d++)
        for (int i = 0; i < COUNT(rows) * COUNT(depths_of_equal) * COUNT(types); i++)
            run_equal_terms(test_device_at(d), NULL, types[i % COUNT(types)],
                            types[i % COUNT(types)], rows[i / COUNT(types) % COUNT(rows)], 7,
                            depths_of_equal[i / COUNT(types) / COUNT(rows)], i % 2, 0);
}

/* Returns the value of a define such as "-DTM=" of a variant, or 0 if it is missing. */
static long define_of(const tdm_variant *row, const char *name) {
    const char *const found = strstr(row->defines, name);
    return found ? strtol(found + strlen(name), NULL, 10) : 0;
}

/*
 * The variant's parameters, which selection uses, must agree with the values that the kernel source
 * derives from the defines.
 */
static void check_tiled_row(const test_device *device, const tdm_variant *row) {
    if (strcmp(row->source, "gemm_tiled.cl") != 0 ||
        !test_case_begin(device, row->name, "parameters"))
        return;
    const long tm = define_of(row, "-DTM="), tn = define_of(row, "-DTN="),
               x = tn / define_of(row, "-DRN="), y = tm / define_of(row, "-DRM="),
               bytes = define_of(row, "-DBUFFERS=") * define_of(row, "-DTK=") *
                       (tm + tn + 2 * define_of(row, "-DPAD=")) * (long)sizeof(float);
    const long expected[] = {tm, tn, x * y, bytes, x};
    const int places[] = {TDM_GEMM_P_ROWS, TDM_GEMM_P_COLUMNS, TDM_GEMM_P_ITEMS,
                          TDM_GEMM_P_LOCAL_BYTES, TDM_GEMM_P_GROUP_X};
    for (int i = 0; i < COUNT(places); i++)
        if (row->parameters[places[i]] != expected[i])
            test_case_fail("p%d is %d, the defines make it %ld", places[i],
                           (int)row->parameters[places[i]], expected[i]);
    test_case_end();
}

static void run_trial(const test_device *device, const tdm_variant *row, const int level[],
                      uint64_t seed) {
    const gemm_trial trial = trial_of(row, level, seed);
    gemm_trial_case(device, &trial);
}

static void run_row(const test_device *device, const tdm_variant *row) {
    int levels[FACTORS];
    count_levels(row, levels);
    test_sample_of_variant(device, row, FACTORS, levels, 20240607, run_trial);
    if (!test_is_small())
        run_ties(device, row);
    check_tiled_row(device, row);
}

TEST(every_variant) {
    test_each_variant(TDM_OP_GEMM, NULL, run_row);
    test_require_all_variants(TDM_OP_GEMM);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
