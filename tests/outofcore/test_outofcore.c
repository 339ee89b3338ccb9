// Tests that GEMM of operands in host memory, within a budget of device memory, gives the same bits
// as GEMM in device memory.
// ctest: device timeout=300
#include <string.h>

#include "api/device/core.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/own_device.h"
#include "tests/support/gemm/gemm_table.h"
#include "tests/support/gemm/outofcore_trial.h"
#include "tests/support/pairwise.h"
#include "tests/support/test_case.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

/*
 * Returns 1 if the device runs this case. Small test runs use one case of 6. Devices without CPU
 * cores use one of 24, because they may be simulated on CPU cores.
 */
static int is_due(const test_device *device) {
    static int cases[TEST_MAX_DEVICES];
    const int step = test_is_small() ? 6 : device->info.capabilities & TDM_CAP_CPU_CORES ? 1 : 24;
    return cases[device->index]++ % step == 0;
}

/* Limits the number of tiles where is_due skips cases. Small budgets make thousands of tiles. */
static outofcore_trial scaled(const test_device *device, const outofcore_trial *trial) {
    outofcore_trial t = *trial;
    if (device->info.capabilities & TDM_CAP_CPU_CORES && !test_is_small())
        return t;
    if (t.budget < 0.7)
        t.budget = 0.7;
    if (t.tile_rows > 0 && t.tile_rows < 30)
        t.tile_rows = 30;
    if (t.tile_columns > 0 && t.tile_columns < 30)
        t.tile_columns = 30;
    return t;
}

static void run_trial(const test_device *device, const char *name, const outofcore_trial *given) {
    char text[512];
    const outofcore_trial trial = scaled(device, given);
    if (!is_due(device))
        return;
    if (!test_case_begin(device, NULL, "%s %s", name, outofcore_trial_text(&trial, text)))
        return;
    outofcore_trial_run(device, &trial);
    test_case_end();
}

static void on_each_device(const char *name, const outofcore_trial *trial) {
    for (int d = 0; d < test_device_count(); d++)
        run_trial(test_device_at(d), name, trial);
}

static outofcore_trial plain(int64_t m, int64_t n, int64_t k, double budget) {
    return (outofcore_trial){.m = m,
                             .n = n,
                             .k = k,
                             .a = TDM_F32,
                             .b = TDM_F32,
                             .d = TDM_F32,
                             .alpha = 1,
                             .budget = budget,
                             .seed = 5};
}

/* ---- budgets --------------------------------------------------------------------------------- */

/* Budgets range from the smallest accepted one to more than all operands need. */
TEST(every_budget) {
    static const double shares[] = {0, 0.05, 0.1, 0.2, 0.25, 0.4, 0.6, 0.8, 1.0, 1.3, 2.0, 8.0};
    for (int i = 0; i < COUNT(shares); i++) {
        const double share = shares[i] > 0 ? shares[i] + 0.05 : 0;
        outofcore_trial trial =
            test_is_small() ? plain(97, 101, 35, share) : plain(197, 211, 67, share);
        on_each_device("budget", &trial);
        trial.c = TDM_F32;
        trial.beta = 0.5f;
        trial.residual = TDM_F16;
        trial.bias = TDM_F32;
        on_each_device("budget", &trial);
    }
}

TEST(given_tiles_and_buffers) {
    static const int64_t tiles[][2] = {{1, 40}, {40, 1}, {7, 13}, {64, 64}, {65, 66}, {500, 500}};
    for (int i = 0; i < COUNT(tiles); i++)
        for (int buffers = 1; buffers <= 3; buffers++) {
            outofcore_trial trial = plain(65, 66, 31, 40);
            trial.tile_rows = tiles[i][0];
            trial.tile_columns = tiles[i][1];
            trial.buffers = buffers;
            trial.measure = buffers == 2;
            on_each_device("tile", &trial);
        }
}

/* ---- shapes, types, placements --------------------------------------------------------------- */

/* Types of the operands and their quantization parameters. */
typedef struct type_row {
    tdm_dtype a, b, d;
    outofcore_spread a_quant, b_quant, d_quant;
    int zero_points, quantize_a, group;
} type_row;

static const type_row type_rows[] = {
    {TDM_F32, TDM_F32, TDM_F32, 0, 0, 0, 0, 0, 0},
    {TDM_F16, TDM_F16, TDM_F16, 0, 0, 0, 0, 0, 0},
    {TDM_BF16, TDM_F32, TDM_F32, 0, 0, 0, 0, 0, 0},
    {TDM_F32, TDM_F16, TDM_BF16, 0, 0, 0, 0, 0, 0},
    {TDM_S8, TDM_S8, TDM_S32, 0, 0, 0, 0, 0, 0},
    {TDM_U8, TDM_S8, TDM_S8, OUTOFCORE_ONE, OUTOFCORE_EACH, OUTOFCORE_EACH, 1, 0, 0},
    {TDM_S8, TDM_S8, TDM_U8, OUTOFCORE_EACH, OUTOFCORE_EACH, OUTOFCORE_ONE, 1, 0, 0},
    {TDM_S8, TDM_S8, TDM_F32, OUTOFCORE_EACH, OUTOFCORE_ONE, 0, 0, 0, 0},
    {TDM_F32, TDM_S8, TDM_F32, 0, OUTOFCORE_EACH, 0, 0, 0, 0},
    {TDM_F32, TDM_S8, TDM_F16, 0, OUTOFCORE_GROUPS, 0, 1, 0, 32},
    {TDM_F16, TDM_S4, TDM_F32, 0, OUTOFCORE_GROUPS, 0, 1, 0, 32},
    {TDM_F32, TDM_S8, TDM_F32, 0, OUTOFCORE_EACH, 0, 0, 1, 0},
    {TDM_F32, TDM_S4, TDM_F32, 0, OUTOFCORE_GROUPS, 0, 0, 1, 64},
};

static const struct batch_row {
    int rank;
    int64_t batch[2];
    unsigned shared[OUTOFCORE_MATRICES];
} batch_rows[] = {
    {0, {0}, {0}},
    {1, {3}, {0}},
    {1, {3}, {0, 1, 1, 0, 0}},
    {1, {2}, {1, 0, 0, 1, 0}},
    {2, {2, 2}, {1, 2, 0, 3, 0}},
};

static const int64_t extents[] = {1, 13, 64, 97, 150};
static const int64_t depths[] = {0, 1, 64, 131};
static const double budgets[] = {0, 0.3, 0.5, 0.9, 1.5};
static const unsigned devices[] = {0,
                                   TDM_OUTOFCORE_A,
                                   TDM_OUTOFCORE_B | TDM_OUTOFCORE_BIAS,
                                   TDM_OUTOFCORE_D,
                                   TDM_OUTOFCORE_C | TDM_OUTOFCORE_RESIDUAL,
                                   63};
static const float alphas[] = {1, -0.5f};
static const float betas[] = {0, -0.75f};

enum {
    F_TYPES,
    F_M,
    F_N,
    F_K,
    F_TRANSPOSE,
    F_A_PLACE,
    F_B_PLACE,
    F_C_PLACE,
    F_D_PLACE,
    F_ALPHA,
    F_BETA,
    F_C,
    F_RESIDUAL,
    F_BIAS,
    F_ACTIVATION,
    F_BATCH,
    F_BUDGET,
    F_DEVICE,
    FACTORS
};

/* Tensors of s4 are dense or padded. Both layouts begin rows at whole bytes. */
static test_placement placement_for(tdm_dtype dtype, int level) {
    if (dtype == TDM_S4)
        return level % 2 ? TEST_PADDED : TEST_DENSE;
    return (test_placement)level;
}

static outofcore_trial trial_of(const int level[FACTORS], uint64_t seed) {
    const type_row *const types = &type_rows[level[F_TYPES]];
    const struct batch_row *const batch = &batch_rows[level[F_BATCH]];
    const int integer_d = types->d == TDM_S32 || types->d == TDM_S8 || types->d == TDM_U8;
    outofcore_trial t = {.m = extents[level[F_M]],
                         .n = extents[level[F_N]],
                         .k = depths[level[F_K]],
                         .a = types->a,
                         .b = types->b,
                         .d = types->d,
                         .transpose_a = level[F_TRANSPOSE] & 1,
                         .transpose_b = level[F_TRANSPOSE] >> 1,
                         .alpha = integer_d ? 1 : alphas[level[F_ALPHA]],
                         .beta = integer_d ? 0 : betas[level[F_BETA]],
                         .activation =
                             integer_d ? TDM_ACT_NONE : (tdm_activation)level[F_ACTIVATION],
                         .a_quant = types->a_quant,
                         .b_quant = types->b_quant,
                         .d_quant = types->d_quant,
                         .zero_points = types->zero_points,
                         .quantize_a = types->quantize_a,
                         .group = types->group,
                         .batch_rank = batch->rank,
                         .on_device = devices[level[F_DEVICE]],
                         .budget = budgets[level[F_BUDGET]],
                         .seed = seed};
    // One row of K whose elements of s4 each begin at a byte is refused.
    if (t.b == TDM_S4 && t.k == 1)
        t.transpose_b = 0;
    memcpy(t.batch, batch->batch, sizeof t.batch);
    memcpy(t.shared, batch->shared, sizeof t.shared);
    if (!integer_d) {
        t.c_is_d = level[F_C] == 2 && t.shared[4] == 0;
        t.c = level[F_C] == 1 || t.beta != 0 ? TDM_F32 : TDM_DTYPE_NONE;
        t.residual = level[F_RESIDUAL] ? TDM_F16 : TDM_DTYPE_NONE;
        t.gated = level[F_RESIDUAL] == 2;
    }
    t.bias = !level[F_BIAS] ? TDM_DTYPE_NONE : integer_d ? TDM_S32 : TDM_F32;
    if (t.c_is_d)
        t.on_device = t.on_device & TDM_OUTOFCORE_D ? t.on_device | TDM_OUTOFCORE_C
                                                    : t.on_device & ~(unsigned)TDM_OUTOFCORE_C;
    t.place[0] = placement_for(t.a, level[F_A_PLACE]);
    t.place[1] = placement_for(t.b, level[F_B_PLACE]);
    t.place[2] = (test_placement)level[F_C_PLACE];
    t.place[3] = (test_placement)((level[F_C_PLACE] + level[F_D_PLACE]) % TEST_PLACEMENTS);
    t.place[4] = (test_placement)level[F_D_PLACE];
    return t;
}

TEST(sampled) {
    const int levels[FACTORS] = {COUNT(type_rows),
                                 COUNT(extents),
                                 COUNT(extents),
                                 COUNT(depths),
                                 4,
                                 TEST_PLACEMENTS,
                                 TEST_PLACEMENTS,
                                 TEST_PLACEMENTS,
                                 TEST_PLACEMENTS,
                                 COUNT(alphas),
                                 COUNT(betas),
                                 3,
                                 3,
                                 2,
                                 5,
                                 COUNT(batch_rows),
                                 COUNT(budgets),
                                 COUNT(devices)};
    static pairwise sample;
    int level[PAIRWISE_MAX_FACTORS];
    uint64_t seed = 77;
    pairwise_start(&sample, FACTORS, levels, seed);
    for (int cases = 0; pairwise_next(&sample, level); cases++) {
        const outofcore_trial trial = trial_of(level, seed++);
        if (test_is_small() && cases % 8 != 0)
            continue;
        on_each_device("sampled", &trial);
    }
}

/*
 * The shapes are matrix-vector products and similar ones, a long K that is split, and very narrow
 * edge tiles.
 */
TEST(thin_and_long) {
    static const int64_t shapes[][3] = {{1, 300, 200},   {300, 1, 200},  {8, 401, 129},
                                        {401, 8, 129},   {16, 16, 9000}, {3, 5, 20000},
                                        {130, 65, 1025}, {40, 60, 9000}};
    for (int i = 0; i < COUNT(shapes); i++)
        for (int transpose = 0; transpose < 4; transpose++) {
            outofcore_trial trial =
                plain(shapes[i][0], shapes[i][1], shapes[i][2], transpose % 2 ? 0.8 : 0);
            trial.transpose_a = transpose & 1;
            trial.transpose_b = transpose >> 1;
            if (test_is_small() && shapes[i][2] > 1000)
                continue;
            on_each_device("thin", &trial);
        }
}

/*
 * Kernels convert A and the weights to f32. The first two cases have few columns, so the library
 * computes the transposed GEMM. The last case has few rows.
 */
DEVICE_TEST(thin_products_with_weights) {
    char text[512];
    outofcore_trial trial = plain(34, 15, 96, 0.5);
    trial.a = TDM_F16;
    trial.b = TDM_S4;
    trial.b_quant = OUTOFCORE_GROUPS;
    trial.group = 16;
    trial.place[1] = TEST_TRANSPOSED;
    for (int i = 0; i < 3; i++) {
        trial.transpose_b = i > 0;
        if (i == 2) {
            trial.m = 2, trial.n = 69, trial.k = 57, trial.budget = 1.2;
            trial.a = TDM_BF16;
            trial.transpose_a = trial.zero_points = 1;
            trial.on_device = TDM_OUTOFCORE_A | TDM_OUTOFCORE_B;
            trial.place[0] = TEST_TRANSPOSED;
            trial.place[1] = TEST_DENSE;
            trial.seed = 5093;
        }
        if (!test_case_begin(device, NULL, "thin %s", outofcore_trial_text(&trial, text)))
            continue;
        outofcore_trial_run(device, &trial);
        test_case_end();
    }
}

TEST(empty) {
    outofcore_trial trial = plain(0, 5, 7, 4);
    on_each_device("empty", &trial);
    trial = plain(5, 0, 7, 4);
    on_each_device("empty", &trial);
    trial = plain(5, 6, 0, 4);
    trial.bias = TDM_F32;
    on_each_device("empty", &trial);
}

/* ---- pageable memory of discrete devices ----------------------------------------------------- */

/*
 * Runs the trial as on a device with its own memory. Copies then go through pinned buffers, which
 * the statistics of pinned memory count.
 */
static void run_staged(const test_device *device, const outofcore_trial *trial) {
    tdm_memory_stats before = {.struct_size = sizeof before}, after = before;
    const bool given = device->device->stages_copies;
    TEST_OK(tdm_device_host_memory_stats(device->device, &before));
    device->device->stages_copies = true;
    outofcore_trial_run(device, trial);
    device->device->stages_copies = given;
    TEST_OK(tdm_device_host_memory_stats(device->device, &after));
    const bool tasks = device->info.capabilities & TDM_CAP_HOST_TASK; // otherwise the driver copies
    assert_int_equal(after.allocations > before.allocations, tasks);
    assert_int_equal(after.live_blocks, before.live_blocks);
}

/*
 * The cases cover types, layouts whose rows are gathered, C in the memory of D, several tiles, and
 * matrices larger than one pinned buffer.
 */
DEVICE_TEST(pageable_memory_is_staged) {
    const bool slow = !(device->info.capabilities & TDM_CAP_HOST_TASK);
    for (int place = 0; place < (slow ? 1 : TEST_PLACEMENTS); place++) {
        outofcore_trial trial = plain(97, 130, slow ? 8 : 64, place % 2 ? 0.5 : 0.3);
        for (int i = 0; i < OUTOFCORE_MATRICES; i++)
            trial.place[i] = (test_placement)place;
        trial.residual = TDM_F16;
        trial.c_is_d = place % 2;
        trial.beta = -0.75f;
        trial.c = TDM_F32;
        run_staged(device, &trial);
        trial.transpose_a = trial.transpose_b = 1;
        run_staged(device, &trial);
    }
    outofcore_trial quantized = plain(70, 96, 64, 0.5);
    quantized.b = TDM_S4;
    quantized.b_quant = OUTOFCORE_EACH;
    run_staged(device, &quantized);
    outofcore_trial large = plain(1200, 1100, 1000, 1.5);
    if (!test_is_small())
        run_staged(device, &large);
}

/* Runs of one plan share its tile buffers, whatever streams they use. */
static void run_on_two_streams(const test_device *device, int rounds) {
    const outofcore_trial one =
        test_is_small() ? plain(90, 80, 70, 0.5) : plain(150, 140, 130, 0.5);
    outofcore_trial trials[2] = {one, one};
    outofcore_operands *operands[2];
    tdm_outofcore_args args[2];
    tdm_outofcore_desc desc;
    tdm_outofcore_plan *plan = NULL;
    tdm_stream *second = NULL;
    trials[1].seed = 6;
    TEST_OK(tdm_stream_create(device->device, &second));
    for (int i = 0; i < 2; i++) {
        operands[i] = outofcore_operands_create(device, &trials[i]);
        outofcore_operands_args(operands[i], &args[i]);
    }
    outofcore_operands_describe(operands[0], &desc);
    TEST_OK(tdm_outofcore_plan_create(device->device, &desc, &plan));
    for (int round = 0; round < rounds; round++)
        TEST_OK(
            tdm_outofcore_plan_run(plan, round % 2 ? second : device->stream, &args[round % 2]));
    TEST_OK(tdm_stream_synchronize(second));
    for (int i = 0; i < 2; i++) {
        outofcore_operands_check(operands[i]);
        outofcore_operands_destroy(operands[i]);
    }
    tdm_outofcore_plan_destroy(plan);
    tdm_stream_destroy(second);
}

DEVICE_TEST(runs_on_two_streams) {
    const bool given = device->device->stages_copies;
    const bool tasks = device->info.capabilities & TDM_CAP_HOST_TASK;
    for (int staged = 0; staged < 1 + tasks; staged++) {
        device->device->stages_copies = staged != 0;
        run_on_two_streams(device, staged || test_is_small() ? 4 : 10);
    }
    device->device->stages_copies = given;
}

/* ---- the budget ------------------------------------------------------------------------------ */

static tdm_outofcore_desc square(int64_t extent, int64_t depth, uint64_t budget) {
    tdm_outofcore_desc desc = TDM_OUTOFCORE_DESC_INIT;
    desc.gemm = gemm_dense_desc(TDM_F32, TDM_F32, TDM_F32, extent, extent, depth);
    desc.budget_bytes = budget;
    return desc;
}

/* Rates are measured on pieces that fit the budget, so the memory in use never exceeds it. */
DEVICE_TEST(measuring_keeps_to_the_budget) {
    const uint64_t bounds[] = {60000, 1 << 20, 3 << 20};
    const int64_t extent = test_is_small() ? 40 : 400;
    for (size_t i = 0; i < sizeof bounds / sizeof bounds[0]; i++) {
        own_device own = own_device_open(device, 0);
        const tdm_outofcore_desc desc = square(extent, extent, bounds[i]);
        tdm_outofcore_info info = {.struct_size = sizeof info};
        tdm_memory_stats stats = {.struct_size = sizeof stats};
        tdm_outofcore_plan *plan = NULL;
        TEST_OK(tdm_outofcore_plan_create(own.device, &desc, &plan));
        TEST_OK(tdm_outofcore_plan_describe(plan, &info));
        TEST_OK(tdm_device_memory_stats(own.device, &stats));
        if (stats.requested_peak > bounds[i])
            test_case_fail("%llu bytes were in use, the budget is %llu",
                           (unsigned long long)stats.requested_peak, (unsigned long long)bounds[i]);
        // An assumed rate has exactly one of these values; a measured rate does not.
        assert_true(info.rates.operations_per_s > 0 && info.rates.operations_per_s != 2e10);
        assert_int_equal(info.rates.in_bytes_per_s == 5e9, bounds[i] < 64 << 10);
        tdm_outofcore_plan_destroy(plan);
        own_device_close(&own);
    }
}

/*
 * If K must stay whole and is too long for the budget, the refusal states K and the bytes needed. A
 * plan with that budget succeeds.
 */
DEVICE_TEST(a_long_k_is_refused_with_its_numbers) {
    tdm_outofcore_desc desc = square(64, 3000, 4096);
    tdm_outofcore_plan *plan = NULL;
    desc.whole_k = 1;
    desc.rates = outofcore_trial_rates;
    TEST_REFUSED(tdm_outofcore_plan_create(device->device, &desc, &plan), TDM_OVER_BUDGET,
                 "all of K = 3000");
    desc.budget_bytes = outofcore_least_budget(device, desc);
    assert_true(desc.budget_bytes > 4096);
    TEST_OK(tdm_outofcore_plan_create(device->device, &desc, &plan));
    tdm_outofcore_plan_destroy(plan);
}

/* ---- refusals -------------------------------------------------------------------------------- */

/* Expects a refusal with these words, or a plan if `words` is NULL. */
static void expect_plan(const test_device *device, tdm_outofcore_desc *desc, const char *words) {
    tdm_outofcore_plan *plan = NULL;
    desc->rates = outofcore_trial_rates;
    desc->budget_bytes = 1 << 20;
    if (words)
        TEST_REFUSED(tdm_outofcore_plan_create(device->device, desc, &plan), TDM_UNSUPPORTED,
                     words);
    else
        TEST_OK(tdm_outofcore_plan_create(device->device, desc, &plan));
    tdm_outofcore_plan_destroy(plan);
}

/*
 * Plans s4 weights in host memory with these strides. Expects a refusal with these words, or a plan
 * if `words` is NULL.
 */
static void plan_s4(const test_device *device, const int64_t shape[2], const int64_t strides[2],
                    int transposed, const char *words) {
    const int64_t k = shape[transposed], n = shape[1 - transposed];
    const int64_t ones[2] = {1, 1};
    tdm_outofcore_desc desc = TDM_OUTOFCORE_DESC_INIT;
    desc.gemm = gemm_dense_desc(TDM_F32, TDM_S4, TDM_F32, 4, n, k);
    memcpy(desc.gemm.b.shape, shape, 2 * sizeof *shape);
    memcpy(desc.gemm.b.strides, strides, 2 * sizeof *strides);
    TEST_OK(tdm_layout_contiguous(TDM_F32, 2, ones, &desc.gemm.b_quant.scale));
    desc.gemm.b_quant.block[0] = shape[0];
    desc.gemm.b_quant.block[1] = shape[1];
    desc.gemm.transpose_b = transposed;
    expect_plan(device, &desc, words);
}

DEVICE_TEST(lines_that_split_a_byte_are_refused) {
    plan_s4(device, (const int64_t[]){64, 33}, (const int64_t[]){33, 1}, 0, "splits a storage");
    plan_s4(device, (const int64_t[]){64, 33}, (const int64_t[]){34, 1}, 0, NULL);
    plan_s4(device, (const int64_t[]){1, 33}, (const int64_t[]){33, 1}, 0, NULL);
    plan_s4(device, (const int64_t[]){512, 1}, (const int64_t[]){2, 1}, 1, "neither dimension");
    plan_s4(device, (const int64_t[]){512, 1}, (const int64_t[]){1, 1}, 1, NULL);
    plan_s4(device, (const int64_t[]){64, 64}, (const int64_t[]){128, 2}, 0, "neither dimension");
    plan_s4(device, (const int64_t[]){64, 64}, (const int64_t[]){1, 1}, 0,
            "do not begin at a byte");
}

/* Plans a batch of two. B is on the device, and its two matrices are `apart` elements apart. */
static void plan_s4_batch(const test_device *device, int64_t apart, int64_t pitch,
                          const char *words) {
    const int64_t whole[3] = {1, 1, 1};
    tdm_outofcore_desc desc = TDM_OUTOFCORE_DESC_INIT;
    TEST_OK(tdm_layout_contiguous(TDM_F32, 3, (const int64_t[]){2, 4, 6}, &desc.gemm.a));
    TEST_OK(tdm_layout_contiguous(TDM_S4, 3, (const int64_t[]){2, 6, 8}, &desc.gemm.b));
    TEST_OK(tdm_layout_contiguous(TDM_F32, 3, (const int64_t[]){2, 4, 8}, &desc.gemm.d));
    TEST_OK(tdm_layout_contiguous(TDM_F32, 3, whole, &desc.gemm.b_quant.scale));
    desc.gemm.b.strides[0] = apart;
    desc.gemm.b.strides[1] = apart == 1 ? 2 : 8;
    desc.gemm.b.strides[2] = pitch;
    desc.on_device = TDM_OUTOFCORE_B;
    expect_plan(device, &desc, words);
}

DEVICE_TEST(batches_that_split_a_byte_are_refused) {
    plan_s4_batch(device, 1, 12, "1 elements apart, which splits a byte");
    plan_s4_batch(device, 48, 1, NULL);
}

/*
 * A tile size is refused if the kernel of the last tile would be another one, which sums in another
 * order. The message states the tile size.
 */
DEVICE_TEST(tiles_with_other_sums_are_refused) {
    tdm_outofcore_desc desc = TDM_OUTOFCORE_DESC_INIT;
    tdm_outofcore_plan *plan = NULL;
    desc.gemm = gemm_dense_desc(TDM_F32, TDM_F32, TDM_F32, 8, 401, 129);
    desc.rates = outofcore_trial_rates;
    desc.budget_bytes = 1 << 20;
    desc.tile_columns = 200;
    if (device->info.capabilities & TDM_CAP_CPU_CORES)
        TEST_REFUSED(tdm_outofcore_plan_create(device->device, &desc, &plan), TDM_UNSUPPORTED,
                     "200");
    desc.tile_columns = 201;
    TEST_OK(tdm_outofcore_plan_create(device->device, &desc, &plan));
    tdm_outofcore_plan_destroy(plan);
}

/* The layout of the parameters is checked even if K is 0. */
DEVICE_TEST(parameters_of_another_rank_are_refused) {
    const int64_t one = 1;
    tdm_outofcore_desc desc = TDM_OUTOFCORE_DESC_INIT;
    tdm_outofcore_plan *plan = NULL;
    desc.gemm = gemm_dense_desc(TDM_F32, TDM_S8, TDM_F32, 4, 8, 0);
    TEST_OK(tdm_layout_contiguous(TDM_F32, 1, &one, &desc.gemm.b_quant.scale));
    desc.rates = outofcore_trial_rates;
    desc.budget_bytes = 1 << 20;
    TEST_REFUSED(tdm_outofcore_plan_create(device->device, &desc, &plan), TDM_BAD_SHAPE,
                 "has 1 dimensions");
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
