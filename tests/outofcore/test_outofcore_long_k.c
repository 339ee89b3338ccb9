// K of an out-of-core GEMM may not fit the budget. Then integers stay exact, floats keep their
// bound, and the epilogue runs once.
// ctest: device rusticl_in_ci timeout=300
#include <math.h>
#include <string.h>

#include "tests/support/devices/device_cases.h"
#include "tests/support/gemm/gemm_table.h"
#include "tests/support/gemm/outofcore_trial.h"
#include "tests/support/test_case.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

static bool is_slow(const test_device *device) {
    return test_is_small() || !(device->info.capabilities & TDM_CAP_CPU_CORES);
}

/* Slow implementations run one case of several. */
static int is_due(const test_device *device) {
    static int cases[TEST_MAX_DEVICES];
    return cases[device->index]++ % (is_slow(device) ? 7 : 1) == 0;
}

/* ---- against the in-core GEMM ---------------------------------------------------------------- */

static void run_with(const test_device *device, outofcore_operands *operands,
                     const tdm_outofcore_desc *desc, tdm_outofcore_info *info) {
    tdm_outofcore_args args;
    tdm_outofcore_plan *plan = NULL;
    tdm_memory_stats before = {.struct_size = sizeof before}, after = before;
    outofcore_operands_args(operands, &args);
    outofcore_operands_reset(operands);
    TEST_OK(tdm_device_memory_stats(device->device, &before));
    TEST_OK(tdm_outofcore_plan_create(device->device, desc, &plan));
    TEST_OK(tdm_device_memory_stats(device->device, &after));
    if (after.requested - before.requested > desc->budget_bytes)
        test_case_fail("%llu bytes are allocated of a budget of %llu",
                       (unsigned long long)(after.requested - before.requested),
                       (unsigned long long)desc->budget_bytes);
    TEST_OK(tdm_outofcore_plan_describe(plan, info));
    assert_true(info->device_bytes <= desc->budget_bytes);
    TEST_OK(tdm_outofcore_plan_run(plan, device->stream, &args));
    outofcore_operands_check(operands);
    tdm_outofcore_plan_destroy(plan);
}

/*
 * K stays whole if the budget is at least what all of K needs. With less it is cut, down to a
 * minimum; a smaller budget is refused.
 */
static void run_trial(const test_device *device, const outofcore_trial *trial) {
    outofcore_operands *const operands = outofcore_operands_create(device, trial);
    const bool exact = trial->d == TDM_S32 || trial->d == TDM_S8 || trial->d == TDM_U8;
    tdm_outofcore_info info = {.struct_size = sizeof info};
    tdm_outofcore_desc desc, whole;
    tdm_outofcore_plan *plan = NULL;
    outofcore_operands_describe(operands, &desc);
    whole = desc;
    whole.whole_k = 1;
    whole.budget_bytes = outofcore_least_budget(device, whole);
    const uint64_t least = outofcore_least_budget(device, desc);
    if (least >= whole.budget_bytes)
        test_case_fail("cut, K needs %llu bytes, and whole %llu", (unsigned long long)least,
                       (unsigned long long)whole.budget_bytes);
    const uint64_t budgets[] = {least, (least + whole.budget_bytes) / 2, whole.budget_bytes - 1};
    for (int i = 0; i < (is_slow(device) ? 1 : COUNT(budgets)); i++) {
        desc.budget_bytes = budgets[i];
        run_with(device, operands, &desc, &info);
        assert_true(info.k_steps > 1 && info.k_step < trial->k);
        assert_int_equal(info.k_steps, (trial->k + info.k_step - 1) / info.k_step);
        assert_int_equal(trial->group > 0 ? info.k_step % trial->group : 0, 0);
        assert_int_equal(info.same_bits, exact);
    }
    run_with(device, operands, &whole, &info);
    assert_true(info.k_steps == 1 && info.k_step == trial->k && info.same_bits);
    desc.budget_bytes = 64;
    TEST_REFUSED(tdm_outofcore_plan_create(device->device, &desc, &plan), TDM_OVER_BUDGET,
                 "of K = ");
    outofcore_operands_destroy(operands);
}

static void on_each_device(const outofcore_trial *trial) {
    char text[512];
    for (int d = 0; d < test_device_count(); d++) {
        const test_device *const device = test_device_at(d);
        if (!is_due(device) ||
            !test_case_begin(device, NULL, "%s", outofcore_trial_text(trial, text)))
            continue;
        run_trial(device, trial);
        test_case_end();
    }
}

static outofcore_trial of_types(tdm_dtype a, tdm_dtype b, tdm_dtype d, uint64_t seed) {
    return (outofcore_trial){
        .m = 13, .n = 17, .k = 600, .a = a, .b = b, .d = d, .alpha = 1, .cuts_k = 1, .seed = seed};
}

enum {
    ALL_ORDERS = 15
};

/*
 * Runs those of four cases that the bits of `orders` select. They cover all transposes of A and B,
 * a K that is no multiple of the steps, and a batch that shares B.
 */
static void in_orders(outofcore_trial trial, unsigned orders) {
    static const int64_t depths[] = {600, 640, 449, 65};
    for (int i = 0; i < 4; i++) {
        trial.transpose_a = i & 1;
        trial.transpose_b = i >> 1;
        trial.k = trial.group > 0 && depths[i] == 65 ? 130 : depths[i];
        trial.batch_rank = i == 1;
        trial.batch[0] = 2;
        trial.shared[1] = 1;
        if (orders >> i & 1)
            on_each_device(&trial);
        trial.seed++;
    }
}

TEST(integers) {
    outofcore_trial trial = of_types(TDM_S8, TDM_S8, TDM_S32, 100);
    in_orders(trial, 8);
    trial.bias = TDM_S32;
    trial.a = TDM_U8;
    trial.c = TDM_S32;
    trial.beta = 1;
    in_orders(trial, 2);
    trial = of_types(TDM_U8, TDM_S8, TDM_S8, 200);
    trial.bias = TDM_S32;
    trial.a_quant = OUTOFCORE_ONE;
    trial.b_quant = trial.d_quant = OUTOFCORE_EACH;
    trial.zero_points = 1;
    in_orders(trial, ALL_ORDERS);
    trial.a = TDM_S8;
    trial.d = TDM_U8;
    trial.a_quant = OUTOFCORE_EACH;
    trial.d_quant = OUTOFCORE_ONE;
    trial.activation = TDM_ACT_RELU;
    in_orders(trial, 4);
}

TEST(floats) {
    static const tdm_dtype types[] = {TDM_F32, TDM_F16, TDM_BF16};
    for (int i = 0; i < 3; i++) {
        outofcore_trial trial = of_types(types[i], types[i], types[i], 300 + 10 * (uint64_t)i);
        in_orders(trial, 8);
        trial.alpha = -0.5f;
        trial.beta = -0.75f;
        trial.c = TDM_F32;
        trial.bias = TDM_F32;
        trial.residual = TDM_F16;
        trial.gated = i == 0;
        trial.activation = TDM_ACT_RELU;
        in_orders(trial, i == 0 ? ALL_ORDERS : 1u << i);
        trial.c_is_d = 1;
        trial.on_device = i == 0 ? 0 : 63;
        trial.on_device &= ~(unsigned)(TDM_OUTOFCORE_A | TDM_OUTOFCORE_B);
        on_each_device(&trial);
    }
}

TEST(quantized) {
    outofcore_trial trial = of_types(TDM_S8, TDM_S8, TDM_F32, 400);
    trial.a_quant = OUTOFCORE_EACH;
    trial.b_quant = OUTOFCORE_EACH;
    trial.zero_points = 1;
    trial.bias = TDM_F32;
    in_orders(trial, 1);
    trial.bias = TDM_S32;
    in_orders(trial, 4);
    trial = of_types(TDM_F32, TDM_S8, TDM_F16, 420);
    trial.b_quant = OUTOFCORE_GROUPS;
    trial.group = 32;
    trial.zero_points = 1;
    in_orders(trial, 9);
    trial.b = TDM_S4;
    trial.n = 18;
    trial.k = 640;
    trial.bias = TDM_F32;
    on_each_device(&trial);
    trial.transpose_b = 1;
    on_each_device(&trial);
}

/* ---- against exact sums ---------------------------------------------------------------------- */

enum {
    M = 40,
    N = 36,
    K = 777
};

/* A and B are s8 with one scale, and D is f32. The two halves of K nearly cancel. */
typedef struct cancelling {
    int8_t a[M * K], b[K * N];
    float scale, d[M * N];
} cancelling;

static void fill_cancelling(cancelling *c) {
    test_random random = {78};
    c->scale = 0.1f;
    for (int k = 0; k < K; k++)
        for (int i = 0; i < M; i++)
            c->a[i * K + k] = (int8_t)(k <= K / 2 ? test_random_int(&random, 100, 127)
                                                  : -c->a[i * K + k - K / 2]);
    for (int k = 0; k < K; k++)
        for (int j = 0; j < N; j++)
            c->b[k * N + j] = (int8_t)(k <= K / 2 ? test_random_int(&random, 100, 127)
                                                  : c->b[(k - K / 2) * N + j]);
}

/* Returns the sum over the steps of K from `first` up to, but not including, `past`. */
static double sum_of(const cancelling *c, int i, int j, int64_t first, int64_t past) {
    int64_t sum = 0;
    for (int64_t k = first; k < past && k < K; k++)
        sum += c->a[i * K + k] * c->b[k * N + j];
    return (double)sum;
}

static void check_cancelling(const cancelling *c, const tdm_outofcore_info *info) {
    const double scale = (double)c->scale, roundings = 8.0 + (double)info->k_steps;
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            const double expected = scale * sum_of(c, i, j, 0, K);
            const double got = (double)c->d[i * N + j];
            double sums = 0;
            for (int64_t k = 0; k < K; k += info->k_step)
                sums += fabs(sum_of(c, i, j, k, k + info->k_step));
            const double size = info->k_steps > 1 ? roundings * scale * sums : 8 * fabs(expected);
            if (!(fabs(got - expected) <= 0x1p-24 * (fabs(expected) + size)))
                test_case_fail("D[%d, %d] is %.9g, not %.9g, in %lld steps", i, j, got, expected,
                               (long long)info->k_steps);
        }
}

/* The in-core sum is exact; out of core each step of K is rounded on its own. */
DEVICE_TEST(steps_that_cancel_are_within_their_bound) {
    static cancelling c;
    tdm_outofcore_desc desc = TDM_OUTOFCORE_DESC_INIT;
    tdm_outofcore_args args = TDM_OUTOFCORE_ARGS_INIT;
    fill_cancelling(&c);
    desc.gemm = gemm_dense_desc(TDM_S8, TDM_S8, TDM_F32, M, N, K);
    gemm_int_arrange(&desc.gemm.a_quant, &desc.gemm.a, 0, 0, TDM_DTYPE_NONE);
    desc.rates = outofcore_trial_rates;
    desc.tile_rows = 20;
    desc.tile_columns = 18;
    args.a = (tdm_outofcore_source){
        .memory = c.a, .bytes = sizeof c.a, .scale = &c.scale, .scale_bytes = sizeof c.scale};
    args.b = (tdm_outofcore_source){.memory = c.b, .bytes = sizeof c.b};
    args.d_memory = c.d;
    args.d_bytes = sizeof c.d;
    for (desc.whole_k = 0; desc.whole_k < 2; desc.whole_k++) {
        tdm_outofcore_info info = {.struct_size = sizeof info};
        tdm_outofcore_plan *plan = NULL;
        desc.budget_bytes = outofcore_least_budget(device, desc);
        TEST_OK(tdm_outofcore_plan_create(device->device, &desc, &plan));
        TEST_OK(tdm_outofcore_plan_describe(plan, &info));
        assert_true(info.k_steps > 1 || desc.whole_k);
        memset(c.d, 0xff, sizeof c.d);
        TEST_OK(tdm_outofcore_plan_run(plan, device->stream, &args));
        TEST_OK(tdm_stream_synchronize(device->stream));
        check_cancelling(&c, &info);
        tdm_outofcore_plan_destroy(plan);
    }
}

/* ---- predictions ----------------------------------------------------------------------------- */

static tdm_outofcore_info planned(const test_device *device, tdm_outofcore_desc desc,
                                  uint64_t budget) {
    tdm_outofcore_info info = {.struct_size = sizeof info};
    tdm_outofcore_plan *plan = NULL;
    desc.budget_bytes = budget;
    TEST_OK(tdm_outofcore_plan_create(device->device, &desc, &plan));
    TEST_OK(tdm_outofcore_plan_describe(plan, &info));
    tdm_outofcore_plan_destroy(plan);
    return info;
}

/*
 * Every tile reads all of its rows and columns. The prediction counts those bytes and their time.
 */
DEVICE_TEST(added_traffic_is_expected) {
    const int64_t extent = 128, depth = 2048;
    tdm_outofcore_desc desc = TDM_OUTOFCORE_DESC_INIT;
    desc.gemm = gemm_dense_desc(TDM_F32, TDM_F32, TDM_F32, extent, extent, depth);
    desc.rates = outofcore_trial_rates;
    desc.tile_rows = desc.tile_columns = 32;
    desc.whole_k = 1;
    const uint64_t whole = outofcore_least_budget(device, desc);
    const tdm_outofcore_info uncut = planned(device, desc, whole);
    desc.whole_k = 0;
    const tdm_outofcore_info cut = planned(device, desc, whole / 4);
    const uint64_t tiles = 16, bytes = tiles * 2 * 32 * (uint64_t)depth * 4;
    assert_int_equal(cut.tiles, tiles);
    assert_int_equal(cut.bytes_in, bytes);
    assert_true(uncut.bytes_in < bytes);
    assert_true(cut.predicted.in_s >= (double)bytes / 1e9);
    assert_true(cut.predicted.in_s > uncut.predicted.in_s);
    assert_true(cut.predicted.total_s >= cut.predicted.in_s);
}

/* Rows of A that are quantized as a whole need all of K. */
DEVICE_TEST(dynamic_quantization_keeps_k_whole) {
    tdm_outofcore_desc desc = TDM_OUTOFCORE_DESC_INIT;
    tdm_outofcore_plan *plan = NULL;
    desc.gemm = gemm_dense_desc(TDM_F32, TDM_S8, TDM_F32, 8, 64, 4096);
    gemm_int_arrange(&desc.gemm.b_quant, &desc.gemm.b, 4096, 1, TDM_DTYPE_NONE);
    desc.gemm.quantize_a = 1;
    desc.rates = outofcore_trial_rates;
    desc.budget_bytes = 8192;
    TEST_REFUSED(tdm_outofcore_plan_create(device->device, &desc, &plan), TDM_OVER_BUDGET,
                 "all of K = 4096");
}

/*
 * Three buffers for a step can need more than one buffer for all of K. The refusal states the
 * smaller budget.
 */
TEST(refusals_tell_the_smaller_need) {
    outofcore_trial trial = of_types(TDM_S8, TDM_S8, TDM_S32, 500);
    trial.k = 114;
    trial.buffers = 3;
    trial.on_device = TDM_OUTOFCORE_A;
    char text[512];
    for (int d = 0; d < test_device_count(); d++) {
        const test_device *const device = test_device_at(d);
        if (!test_case_begin(device, NULL, "%s", outofcore_trial_text(&trial, text)))
            continue;
        outofcore_operands *const operands = outofcore_operands_create(device, &trial);
        tdm_outofcore_desc desc;
        outofcore_operands_describe(operands, &desc);
        const uint64_t least = outofcore_least_budget(device, desc);
        desc.whole_k = 1;
        assert_int_equal(least, outofcore_least_budget(device, desc));
        outofcore_operands_destroy(operands);
        test_case_end();
    }
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
