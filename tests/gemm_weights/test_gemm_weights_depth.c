/*
 * Tests GEMM with quantized weights for long K. K exceeds the part of A that a work-item keeps, or
 * that fits the L1 cache, by one or two elements or by far. The cases have one or several rows of
 * A. They have whole and partial tiles of rows of Bᵀ, and one or several tiles per work-item.
 * Comments note where pieces and blocks of K (gemm_weights_order.h) start or end within a group.
 *
 * Every GEMM_WEIGHTS variant that reads rows of Bᵀ, or packs quantized values into panels, is
 * forced. The library's own choice is tested too. Errors must be within the bound of
 * docs/numerics.md.
 */
// ctest: device timeout=240 cost=10
#include "api/gemm/gemm_internal.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/variant_cases.h"
#include "tests/support/gemm/weights_trial.h"
#include "tests/support/test_case.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

typedef struct depth_trial {
    int64_t m, n, k, group; /* group: steps of K per scale; 0: one scale per column */
    tdm_dtype a_type, scale, zero;
    bool packed, small; /* packed B is K×N, else B is N×K; slow implementations run small cases */
} depth_trial;

/* K must be even for s4 if rows of Bᵀ are read in place, and N must be even if they are packed. */
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
    {16, 21, 8190, 512, TDM_BF16, TDM_F16, TDM_S8, false, false}, /* pieces start within groups */
    {1, 10, 16386, 64, TDM_F32, TDM_F16, TDM_S8, true, false},
    {16, 5, 16514, 512, TDM_F32, TDM_F16, TDM_S8, false, false}, /* pieces, blocks within groups */
    {13, 6, 20164, 0, TDM_F32, TDM_F32, TDM_S8, false, false},
    {1, 600, 390, 0, TDM_F32, TDM_F32, TDM_S8, true, false}, /* several tiles per work-item */
    {3, 600, 260, 32, TDM_F32, TDM_F16, TDM_S8, false, false},
    {21, 37, 2150, 96, TDM_F32, TDM_F16, TDM_S8, false, true}, /* blocks end within groups */
    {40, 70, 3073, 64, TDM_F16, TDM_F32, TDM_DTYPE_NONE, true, false},
    {29, 33, 2048, 0, TDM_F32, TDM_F32, TDM_S8, false, false},
};

/* In these cases all terms of a sum are equal, so all rounding errors have the same sign. */
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

static weights_trial trial_of(const test_device *device, const depth_trial *t, tdm_dtype b_type,
                              weights_data data) {
    return (weights_trial){.device = device,
                           .m = t->m,
                           .n = t->n,
                           .k = t->k,
                           .group = t->group,
                           .a_type = t->a_type,
                           .b_type = b_type,
                           .d_type = TDM_F32,
                           .scale_type = t->scale,
                           .zero_type = t->zero,
                           .transpose_b = !t->packed,
                           .packed = t->packed,
                           .data = data,
                           .seed = (uint64_t)t->k};
}

static bool reads_lines(const tdm_variant *row) {
    const int32_t *const p = row->parameters;
    return p[TDM_GEMM_P_FAMILY] == TDM_GEMM_SMALL_M ||
           (p[TDM_GEMM_P_FAMILY] == TDM_GEMM_PANEL && p[TDM_GEMM_P_A_TYPE] == TDM_GEMM_QUANTIZED_A);
}

static void run_row(const test_device *device, const tdm_variant *row) {
    for (int t = 0; t < COUNT(trials); t++) {
        weights_trial trial = trial_of(device, &trials[t], TDM_S8, WEIGHTS_RANDOM);
        trial.variant = row->name;
        trial.b_type = (tdm_dtype)row->parameters[TDM_GEMM_P_B_TYPE];
        trial.quantize_a = row->parameters[TDM_GEMM_P_A_TYPE] == TDM_GEMM_QUANTIZED_A;
        if (trials[t].small || !test_is_small())
            weights_trial_run(trial);
    }
}

/*
 * Tensor cores need not round sums to nearest. docs/numerics.md therefore excludes them from the
 * test on equal terms. Slow implementations skip the tiled family, which takes minutes for long
 * sums.
 */
static bool is_bounded(const tdm_variant *row) {
    const int32_t family = row->parameters[TDM_GEMM_P_FAMILY];
    return family < TDM_GEMM_TENSOR && (!test_is_small() || family != TDM_GEMM_TILED);
}

static void equal_terms_of(const test_device *device, const tdm_variant *row) {
    for (int t = 0; t < COUNT(equal_trials); t++) {
        weights_trial trial =
            trial_of(device, &equal_trials[t], row ? TDM_S4 : TDM_S8, WEIGHTS_EQUAL);
        if (row) {
            trial.variant = row->name;
            weights_trial_suit(&trial, row);
        }
        if (equal_trials[t].small || !test_is_small())
            weights_trial_run(trial);
    }
}

TEST(equal_terms_are_within_the_bound) {
    test_each_variant(TDM_OP_GEMM_WEIGHTS, is_bounded, equal_terms_of);
    for (int d = 0; d < test_device_count(); d++)
        equal_terms_of(test_device_at(d), NULL);
}

TEST(long_lines_are_multiplied_to_their_ends) {
    test_each_variant(TDM_OP_GEMM_WEIGHTS, reads_lines, run_row);
}

DEVICE_TEST(the_library_multiplies_long_lines) {
    for (int x = 0; x < 4; x++)
        for (int t = 0; t < COUNT(trials); t += test_is_small() ? COUNT(trials) : 1) {
            weights_trial trial =
                trial_of(device, &trials[t], x & 1 ? TDM_S4 : TDM_S8, WEIGHTS_RANDOM);
            trial.quantize_a = x >> 1;
            weights_trial_run(trial);
        }
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
