/*
 * The shapes are long in one direction or large overall: K far beyond any block, batches beyond one
 * launch. Freivalds' method checks large matrices. The library chooses the variant, or each one is
 * run by name.
 */
// ctest: device rusticl_in_ci timeout=300 kernels=gemm cost=70
#include "api/gemm/gemm_internal.h"
#include "tests/support/gemm/gemm_trial.h"
#include "tests/support/test_case.h"

typedef struct large_row {
    int64_t m, n, k;
    tdm_dtype ab, d;
    int transpose_a, transpose_b;
    int64_t batch;
} large_row;

static const large_row rows[] = {
    {257, 511, 1023, TDM_F32, TDM_F32, 0, 0, 0}, {384, 384, 384, TDM_F32, TDM_F32, 1, 1, 0},
    {300, 520, 700, TDM_F16, TDM_F32, 0, 1, 0},  {300, 520, 700, TDM_BF16, TDM_BF16, 1, 0, 0},
    {3, 5, 100003, TDM_F32, TDM_F32, 0, 0, 0},   {1, 1, 65537, TDM_F16, TDM_F32, 0, 0, 0},
    {1, 4099, 257, TDM_F32, TDM_F32, 0, 0, 0},   {4099, 1, 257, TDM_F32, TDM_F32, 0, 0, 0},
    {70001, 3, 5, TDM_F32, TDM_F32, 0, 0, 0},    {2, 3, 2, TDM_F32, TDM_F32, 0, 0, 65537 + 70},
};

static const large_row small_rows[] = {
    {33, 35, 37, TDM_F32, TDM_F32, 0, 1, 0},
    {1, 2, 1031, TDM_F16, TDM_F32, 0, 0, 0},
};

static gemm_trial trial_of(const large_row *row, const char *variant, uint64_t seed) {
    const tdm_variant *const forced = variant ? tdm_variant_find(variant) : NULL;
    gemm_trial trial = {.variant = variant, .large = row->batch == 0};
    trial.item = (op_gemm_case){.m = row->m,
                                .n = row->n,
                                .k = row->k,
                                .transpose_a = row->transpose_a,
                                .transpose_b = row->transpose_b,
                                .alpha = 1,
                                .batch_rank = row->batch > 0,
                                .batch = {row->batch},
                                .allow_3xtf32 = forced && tdm_gemm_is_3xtf32(forced),
                                .seed = seed};
    trial.item.dtype[OP_GEMM_A] = trial.item.dtype[OP_GEMM_B] = row->ab;
    trial.item.dtype[OP_GEMM_D] = row->d;
    return trial;
}

/* Runs one shape with one variant. If `variant` is NULL, the library chooses. */
static void run(const test_device *device, const large_row *row, const char *variant,
                uint64_t seed) {
    const gemm_trial trial = trial_of(row, variant, seed);
    gemm_trial_case(device, &trial);
}

static int takes(const test_device *device, const tdm_variant *variant, const large_row *row) {
    const int32_t *const p = variant->parameters;
    return variant->op == TDM_OP_GEMM && test_can_run(device, variant) &&
           (p[TDM_GEMM_P_A_TYPE] == 0 || p[TDM_GEMM_P_A_TYPE] == (int32_t)row->ab) &&
           (p[TDM_GEMM_P_B_TYPE] == 0 || p[TDM_GEMM_P_B_TYPE] == (int32_t)row->ab);
}

TEST(long_and_large_shapes) {
    const large_row *const list = test_is_small() ? small_rows : rows;
    const int count = (int)(test_is_small() ? sizeof small_rows / sizeof *small_rows
                                            : sizeof rows / sizeof *rows);
    for (int d = 0; d < test_device_count(); d++)
        for (int i = 0; i < count; i++)
            run(test_device_at(d), &list[i], NULL, 100 + (uint64_t)i);
}

/* A K of thousands needs many passes, and no variant may leave one out. */
TEST(long_k_in_every_variant) {
    const tdm_dtype types[] = {TDM_F32, TDM_F16, TDM_BF16};
    for (int d = 0; d < test_device_count(); d++)
        for (int i = 0; i < tdm_variant_count; i++)
            for (int t = 0; t < 3; t++) {
                /* Tensor maps need rows in multiples of 16 bytes. */
                const int boxes = tdm_variants[i].op == TDM_OP_GEMM &&
                                  tdm_variants[i].parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_WGMMA;
                const int n = boxes ? 24 : 17;
                const int k = (test_is_small() ? 67 : 5003) + (boxes ? 5 : 0);
                const large_row row = {9, n, k, types[t], TDM_F32, 0, 0, 0};
                if (takes(test_device_at(d), &tdm_variants[i], &row))
                    run(test_device_at(d), &row, tdm_variants[i].name, 200 + (uint64_t)t);
            }
}

/*
 * A D larger than the last-level cache, here set small, is written with non-temporal stores if its
 * rows are aligned. K is ragged, like D.
 */
TEST(d_beyond_the_cache) {
    for (int d = 0; d < test_device_count() && !test_is_small(); d++) {
        const test_device *const device = test_device_at(d);
        const uint64_t own_caches = device->device->info.cache_bytes, cache = (uint64_t)1 << 20;
        const int64_t columns[] = {3072, 3001};
        device->device->info.cache_bytes = cache;
        // Aligned and ragged rows alternate, because these variants share one kernel source.
        for (int i = 0, c = 0; i < tdm_variant_count; i++) {
            const int64_t rows_of_d = (int64_t)(cache / sizeof(float)) / columns[c] + 13;
            const large_row row = {rows_of_d, columns[c], 5, TDM_F32, TDM_F32, 0, 0, 0};
            if (!takes(device, &tdm_variants[i], &row) ||
                tdm_variants[i].parameters[TDM_GEMM_P_FAMILY] != TDM_GEMM_PANEL)
                continue;
            run(device, &row, tdm_variants[i].name, 300 + (uint64_t)c);
            c = 1 - c;
        }
        device->device->info.cache_bytes = own_caches;
    }
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
