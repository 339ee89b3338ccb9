/*
 * A model chooses tiles and parts of K on CUDA devices. Here it runs for devices that are known
 * only from datasheets. The tests compare its terms with results by hand, and its choices for
 * shapes whose tiles fill a device badly or well. Some properties must hold whatever its constants
 * are.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/gemm/gemm_internal.h"
#include "bench/cases/gemm_sets.h"
#include "bench/record/device_database.h"
#include "bench/tune/device_model.h"
#include "common/command/cli_options.h"
#include "tests/support/test_case.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

static const char *const device_names[] = {"H200", "A100-80", "RTX-4090", "L4"};

/* ---- terms, by hand ---- */

/* Returns a dense f16 problem with B as N×K, with every field that the model reads. */
static tdm_gemm_problem product(int64_t m, int64_t n, int64_t k) {
    return (tdm_gemm_problem){.op = TDM_OP_GEMM,
                              .m = m,
                              .n = n,
                              .k = k,
                              .a = {.dtype = TDM_F16, .row = k, .col = 1},
                              .b = {.dtype = TDM_F16, .row = 1, .col = k},
                              .d = {.dtype = TDM_F16, .row = n, .col = 1},
                              .alpha = 1.0f};
}

/*
 * This device has ten compute units at 1 GHz of compute capability 8.0. Each unit holds two
 * work-groups of the tile, and memory is never the limit.
 */
static const tdm_device_info ten_units = {.compute_units = 10,
                                          .clock_mhz = 1000,
                                          .local_bytes = 166912,
                                          .cache_bytes = 1 << 30,
                                          .architecture = 80,
                                          .memory_clock_mhz = 1000000,
                                          .memory_bus_bits = 100000};

static tdm_gemm_waves predict(const char *row, const tdm_gemm_problem *p,
                              const tdm_device_info *info, int64_t parts) {
    tdm_gemm_waves waves;
    tdm_gemm_waves_of(p, tdm_variant_find(row), info, parts, &waves);
    return waves;
}

static void assert_near(double is, double expected) {
    if (!(fabs(is - expected) <= expected * 1e-3))
        fail_msg("%.17g in place of %.17g", is, expected);
}

/*
 * Rows of 1028 bytes are read element by element, and a GeForce accumulates in f32 at half the
 * rate. Each row of warps dequantizes the weights. A remainder of K needs a launch of its own.
 */
TEST(some_products_take_longer) {
    static const char row[] = "gemm_f16_mma_128x128__tensor";
    const tdm_gemm_problem copied = product(128, 128, 512), whole = product(128, 128, 4096),
                           rest = product(128, 128, 4104);
    const double ns = predict(row, &copied, &ten_units, 1).ns;
    tdm_gemm_problem read = copied, codes = copied;
    tdm_device_info geforce = ten_units;
    read.a.row = read.b.col = 514;
    assert_near(predict(row, &read, &ten_units, 1).ns, ns + 512 * 256 / 8.0);
    snprintf(geforce.name, sizeof geforce.name, "NVIDIA GeForce X");
    assert_near(predict(row, &copied, &geforce, 1).ns, ns + 512 * 128 * 128 / (1024 * 0.85 / 2));
    codes.op = TDM_OP_GEMM_WEIGHTS;
    codes.b.dtype = TDM_S8;
    assert_near(predict("gemm_f16s8_mma_128x128__tensor", &codes, &ten_units, 1).ns,
                3000 + 512 * (128 * 128 / (1024 * 0.85 * 0.85) + 2) + 128 * 128 / 16.0);
    assert_true(predict(row, &rest, &ten_units, 8).ns >
                predict(row, &whole, &ten_units, 8).ns + 3000);
}

/*
 * The number of groups on a compute unit depends on the registers of the compiled kernel and on
 * shared memory.
 */
TEST(residency_is_what_fits) {
    static const struct {
        const char *row;
        uint64_t local_bytes;
        int64_t resident;
    } cases[] = {{"gemm_f16_mma_128x256__tensor", 166912, 1},
                 {"gemm_f16_mma_64x64__tensor", 166912, 4},
                 {"gemm_f16_mma_64x64__tensor", 101376, 3},
                 {"gemm_f16_mma_64x64_s3__tensor", 101376, 4},
                 {"gemm_f16_mma_64x64_s3__tensor", 65536, 2},
                 {"gemm_f16_mma_64x64_s2__tensor", 65536, 4},
                 {"gemm_f16_mma_128x128__tensor", 101376, 1},
                 {"gemm_f16_wgmma_128x128__sm90a", 232448, 1},
                 {"gemm_f32_simt_128x64__async", 166912, 3},
                 {"gemm_f16s8_decode_16x32__tensor", 232448, 2},
                 {"gemm_f16s8_decode_16x32__tensor", 166912, 1}};
    const tdm_gemm_problem p = product(1024, 1024, 512);
    for (int i = 0; i < COUNT(cases); i++) {
        tdm_device_info info = ten_units;
        info.local_bytes = cases[i].local_bytes;
        const tdm_gemm_waves w = predict(cases[i].row, &p, &info, 1);
        if (w.resident != cases[i].resident)
            fail_msg("%s in %d bytes: %d groups", cases[i].row, (int)cases[i].local_bytes,
                     (int)w.resident);
    }
}

/*
 * A memory-bound GEMM takes the time to move its bytes. An operand that all batch entries share is
 * read once.
 */
TEST(memory_is_a_floor) {
    static const char row[] = "gemm_f16_mma_64x64__tensor";
    tdm_device_info slow = ten_units;
    slow.memory_clock_mhz = 100;
    slow.memory_bus_bits = 80; /* 2 bytes per nanosecond */
    tdm_gemm_problem p = product(64, 64, 65536);
    const double bytes = 2.0 * (2 * 64 * 65536 + 64 * 64);
    tdm_gemm_waves w = predict(row, &p, &slow, 1);
    assert_true(w.memory_bound);
    assert_true(w.ns >= 2000 + bytes / 1.8 && w.ns <= 2000 + 1.1 * bytes / 1.8);
    assert_near(tdm_gemm_stream_ns(&p, &slow), 2000 + bytes / 1.8);
    p.batch_rank = 1;
    p.batch_shape[0] = 4;
    p.a.batch[0] = 64 * 65536;
    p.d.batch[0] = 64 * 64;
    assert_near(tdm_gemm_stream_ns(&p, &slow), 2000 + 2.0 * (5 * 64 * 65536 + 4 * 64 * 64) / 1.8);
    assert_int_equal(predict(row, &p, &slow, 1).tiles, 4);
}

/* ---- what is chosen ---- */

typedef struct choice_row {
    const char *device;
    gemm_types types;
    int64_t m, n, k;
    const char *variant; /* part of the variant's name */
    int64_t parts;
} choice_row;

static const choice_row choices[] = {
    /*
     * 256 cluster tiles take four waves of 66. 512 tiles of 128×256 also take four waves, of 132.
     * 1024 tiles of half that size take eight.
     */
    {"H200", GEMM_F16, 4096, 4096, 4096, "f16_wgmma_256x256", 1},
    {"H200", GEMM_BF16, 8192, 8192, 8192, "bf16_wgmma_256x256", 1},
    {"H200", GEMM_S8, 8192, 8192, 8192, "int_wgmma_256x256", 1},
    /* Five rows of 26 single tiles fill one wave; three rows of 26 cluster tiles would need two. */
    {"H200", GEMM_F16, 640, 6656, 4096, "f16_wgmma_128x256", 1},
    /*
     * 288 wide tiles take three waves, and the last is a sixth full. 576 narrow tiles take five,
     * and the last is a third full.
     */
    {"H200", GEMM_F16, 3072, 3072, 3072, "f16_wgmma_128x128", 1},
    /* There are 32 wide tiles, 64 narrow ones, or 256 small ones in one wave of 528. */
    {"H200", GEMM_F16, 1000, 1000, 1000, "f16_mma_64x64", 1},
    /* Odd strides exclude tensor maps. */
    {"H200", GEMM_F16, 4095, 4095, 4095, "f16_mma_", 1},
    /* These have few tiles and a long K. */
    {"H200", GEMM_F16, 128, 576, 7168, "f16_mma_64x64", 14},
    {"H200", GEMM_F16, 128, 4096, 14336, "f16_wgmma_128x128", 4},
    /*
     * 80 tiles leave units idle; four times as many are three waves, and the last is nearly half
     * full.
     */
    {"H200", GEMM_F16, 2048, 576, 7168, "f16_wgmma_128x128", 4},
    {"H200", GEMM_F16, 16, 4096, 4096, "f16_small_m_group", 1},
    {"H200", GEMM_F16, 32, 4096, 4096, "f16_mma_64x64", 2},
    {"H200", GEMM_F32, 4096, 4096, 4096, "f32_simt_128x128", 1},
    /*
     * Three tf32 products take less time than one f32 product where tensor cores add f32 at full
     * rate.
     */
    {"H200", GEMM_3XTF32, 4096, 4096, 4096, "f32_3xtf32_", 1},
    {"A100-80", GEMM_3XTF32, 4096, 4096, 4096, "f32_3xtf32_", 1},
    {"RTX-4090", GEMM_3XTF32, 4096, 4096, 4096, "f32_simt_", 1},
    {"H200", GEMM_S8, 1, 4096, 4096, "int_small_m_8x4", 1},
    {"A100-80", GEMM_S8, 8, 4096, 4096, "int_small_m_8x4", 1},
    {"H200", GEMM_S8, 9, 4096, 4096, "int_mma_64x64", 4},
    /*
     * Weights use variants for few rows of A, 32 columns wide where 64 leave units idle, or else
     * tiles.
     */
    {"H200", GEMM_F16W4, 1, 4096, 4096, "f16s4_decode_16x32", 1},
    {"H200", GEMM_F16W8, 16, 28672, 4096, "f16s8_decode_16x64", 1},
    {"H200", GEMM_F16W4, 64, 4096, 14336, "f16s4_mma_64x64", 4},
    {"H200", GEMM_F16W8, 4096, 4096, 4096, "f16s8_mma_128x128", 1},
    {"A100-80", GEMM_F16, 4096, 4096, 4096, "f16_mma_128x256", 1},
    {"A100-80", GEMM_F16, 128, 576, 7168, "f16_mma_64x64", 14},
    {"A100-80", GEMM_S8, 4096, 4096, 4096, "int_mma_", 1},
    {"L4", GEMM_F16, 4096, 4096, 4096, "f16_mma_", 1},
    /*
     * With fewer stages a unit holds four groups instead of three or two. If one wave is enough,
     * all stages are kept.
     */
    {"L4", GEMM_F16, 768, 3072, 768, "f16_mma_64x64_s3", 1},
    {"A10", GEMM_BF16, 1024, 1024, 1024, "bf16_mma_64x64_s3", 1},
    {"T4", GEMM_F16, 1024, 1024, 1024, "f16_mma_64x64_s2", 1},
    {"L4", GEMM_F16, 64, 4096, 4096, "f16_mma_64x64__", 1},
    {"A100-80", GEMM_F16, 1024, 1024, 1024, "f16_mma_64x64__", 1},
    {"T4", GEMM_BF16, 4096, 4096, 4096, "bf16_tiled_128x128", 1},
    {"T4", GEMM_F32, 4096, 4096, 4096, "f32_tiled_128x128", 1}};

static gemm_case case_of(const choice_row *c) {
    return (gemm_case){.types = c->types, .m = c->m, .n = c->n, .k = c->k, .transpose_b = 1};
}

TEST(rows_are_chosen_by_shape) {
    int wrong = 0;
    for (int i = 0; i < COUNT(choices); i++) {
        const choice_row *const c = &choices[i];
        const gemm_case item = case_of(c);
        device_model *const device = device_model_create(c->device);
        modelled_choice choice;
        assert_non_null(device);
        if (device_model_choose(device, &item, &choice) != 0)
            fail_msg("%s: %s", c->device, tdm_last_detail());
        if (strstr(choice.variant, c->variant) == NULL || choice.parts != c->parts) {
            print_error("%s %s %dx%dx%d: %s in %d parts\n", c->device, gemm_types_name(c->types),
                        (int)c->m, (int)c->n, (int)c->k, choice.variant, (int)choice.parts);
            wrong++;
        }
        device_model_destroy(device);
    }
    assert_int_equal(wrong, 0);
}

/* ---- properties that hold whatever the constants are ---- */

/* The test covers every variant that the model knows, on every device that can run it. */
TEST(more_work_takes_no_less_time) {
    static const int64_t sides[] = {16, 64, 65, 128, 192, 256, 257, 1024, 1088, 4096};
    int rows = 0;
    for (int d = 0; d < COUNT(device_names); d++) {
        device_model *const device = device_model_create(device_names[d]);
        assert_non_null(device);
        const tdm_device_info *const info = device_model_info(device);
        for (int v = 0; v < tdm_variant_count; v++) {
            const tdm_variant *const row = &tdm_variants[v];
            if (row->op != TDM_OP_GEMM || !tdm_gemm_has_wave_model(row) ||
                (row->requires & ~info->capabilities))
                continue;
            rows++;
            for (int i = 1; i < COUNT(sides); i++) {
                /*
                 * All strides are whole 16-byte chunks, because others change how operands are
                 * read.
                 */
                const tdm_gemm_problem base = product(sides[i - 1], 256, 1024),
                                       longer = product(sides[i], 256, 1024),
                                       wide = product(256, sides[i - 1], 1024),
                                       wider = product(256, sides[i], 1024),
                                       flat = product(256, 256, sides[i - 1] * 8),
                                       deeper = product(256, 256, sides[i] * 8);
                assert_true(predict(row->name, &longer, info, 1).ns >=
                            predict(row->name, &base, info, 1).ns);
                assert_true(predict(row->name, &wider, info, 1).ns >=
                            predict(row->name, &wide, info, 1).ns);
                assert_true(predict(row->name, &deeper, info, 1).ns >
                            predict(row->name, &flat, info, 1).ns);
            }
        }
        device_model_destroy(device);
    }
    assert_true(rows > 20);
}

/*
 * The chosen variant takes no longer than any other, and a split takes no longer than no split. No
 * device exceeds its own peak.
 */
TEST(no_choice_is_slower_than_another) {
    int chosen = 0;
    for (int d = 0; d < COUNT(device_names); d++) {
        device_model *const device = device_model_create(device_names[d]);
        assert_non_null(device);
        const tdm_device_info *const info = device_model_info(device);
        for (int s = 0; s < gemm_set_count; s++)
            for (int i = 0; i < gemm_set_size(&gemm_sets[s]); i++) {
                gemm_case item = {.types = GEMM_F16, .transpose_b = 1};
                modelled_choice choice;
                gemm_set_shape(&gemm_sets[s], i, &item);
                assert_int_equal(device_model_choose(device, &item, &choice), 0);
                if (choice.waves == 0 || gemm_case_batch(&item) > 1)
                    continue;
                chosen++;
                const tdm_gemm_problem p = product(item.m, item.n, item.k);
                tdm_gemm_waves own;
                tdm_gemm_waves_best(&p, tdm_variant_find(choice.variant), info, &own);
                assert_near(choice.seconds * 1e9, own.ns);
                for (int v = 0; v < tdm_variant_count; v++) {
                    const tdm_variant *const row = &tdm_variants[v];
                    tdm_gemm_waves other;
                    if (row->op != TDM_OP_GEMM || row->parameters[TDM_GEMM_P_A_TYPE] != TDM_F16 ||
                        !tdm_gemm_has_wave_model(row) || (row->requires & ~info->capabilities) ||
                        (uint64_t)row->parameters[TDM_GEMM_P_LOCAL_BYTES] > info->local_bytes ||
                        (row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_WGMMA && item.k % 8 != 0))
                        continue;
                    tdm_gemm_waves_best(&p, row, info, &other);
                    assert_true(own.ns <= other.ns);
                    tdm_gemm_waves_of(&p, row, info, 1, &other);
                    assert_true(own.ns <= other.ns);
                }
                assert_true(own.ns >= tdm_gemm_stream_ns(&p, info) - 1e-3 * own.ns);
            }
        device_model_destroy(device);
    }
    assert_true(chosen > 100);
}

static int without_a_users_file(void **state) {
    (void)state;
    return setenv("TANDEM_TUNING_FILE", "off", 1);
}

TEST_MAIN(without_a_users_file, NULL)
