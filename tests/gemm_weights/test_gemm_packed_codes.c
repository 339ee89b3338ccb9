/*
 * s8 weights with one scale per column are packed once. They are multiplied by rows of A that the
 * call quantizes. Results have the bits of weights packed in every call, which are exact here. The
 * tests also check the packed layout and which plans refuse it.
 */
// ctest: device kernels=gemm cost=3
#include <math.h>
#include <string.h>

#include "api/gemm/gemm_internal.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/gemm/weights_trial.h"
#include "tests/support/test_case.h"

enum {
    FEW = 8 /* most rows of A for which packed rows of Bᵀ are read as they are */
};

static weights_trial trial_of(const test_device *device, int64_t m, int64_t n, int64_t k,
                              tdm_dtype zero_type) {
    return (weights_trial){.device = device,
                           .m = m,
                           .n = n,
                           .k = k,
                           .a_type = TDM_F32,
                           .b_type = TDM_S8,
                           .d_type = TDM_F32,
                           .scale_type = TDM_F32,
                           .zero_type = zero_type,
                           .quantize_a = 1,
                           .data = WEIGHTS_EXACT,
                           .seed = 40 + (uint64_t)k};
}

static tdm_gemm_plan *plan_of(weights_trial *t, int packed) {
    tdm_gemm_plan *plan;
    t->packed = packed;
    const tdm_gemm_desc desc = weights_trial_describe(t);
    TEST_OK(tdm_gemm_plan_create(t->device->device, &desc, &plan));
    return plan;
}

/* Overwrites B and its parameters, because packed weights must no longer depend on them. */
static void spoil_b(weights_trial *t) {
    tdm_stream *const stream = t->device->stream;
    TEST_OK(tdm_tensor_fill(stream, 99, t->codes.tensor));
    TEST_OK(tdm_tensor_fill(stream, NAN, t->scale.tensor));
    if (t->zero_type != TDM_DTYPE_NONE)
        TEST_OK(tdm_tensor_fill(stream, 99, t->zero.tensor));
}

static void check_both_ways(weights_trial t) {
    tdm_packed *packed;
    weights_trial_create(&t);
    tdm_gemm_plan *const plain = plan_of(&t, 0), *const ahead = plan_of(&t, 1);
    TEST_OK(weights_trial_launch(&t, plain, NULL));
    weights_trial_check(&t);
    TEST_OK(tdm_gemm_pack_b(ahead, t.device->stream, t.b, &packed));
    spoil_b(&t);
    for (int again = 0; again < 2; again++) {
        TEST_OK(weights_trial_launch(&t, ahead, packed));
        weights_trial_check(&t);
    }
    if (t.m > FEW)
        assert_string_equal(tdm_gemm_plan_variant(plain), tdm_gemm_plan_variant(ahead));
    tdm_packed_destroy(packed);
    tdm_gemm_plan_destroy(plain);
    tdm_gemm_plan_destroy(ahead);
    weights_trial_destroy(&t);
}

DEVICE_TEST(weights_packed_before_have_the_exact_product) {
    static const struct {
        int64_t m, n, k;
        tdm_dtype a_type, zero_type;
        int transpose_b;
        int64_t batch;
        int shares_b;
    } rows[] = {
        {33, 70, 130, TDM_F32, TDM_DTYPE_NONE, 0, 0, 0}, {9, 21, 35, TDM_F16, TDM_S8, 0, 0, 0},
        {17, 64, 64, TDM_BF16, TDM_S32, 1, 0, 0},        {FEW, 21, 35, TDM_F32, TDM_S8, 0, 0, 0},
        {12, 5, 1, TDM_F32, TDM_S32, 0, 0, 0},           {10, 19, 37, TDM_F32, TDM_S8, 0, 3, 0},
        {10, 19, 37, TDM_F32, TDM_DTYPE_NONE, 0, 2, 1},  {11, 30, 520, TDM_F16, TDM_S8, 1, 2, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        weights_trial t = trial_of(device, rows[i].m, rows[i].n, rows[i].k, rows[i].zero_type);
        t.a_type = rows[i].a_type;
        t.transpose_b = rows[i].transpose_b;
        t.batch = rows[i].batch;
        t.shares_b = rows[i].shares_b;
        check_both_ways(t);
    }
}

/*
 * Integer kernels of CPU cores have a packed layout of their own, for many rows of A. Plans that
 * read it serve any number of rows above FEW.
 */
DEVICE_TEST(weights_packed_for_many_rows_serve_others_and_not_few) {
    static const int64_t rows[] = {40, 9, 130, FEW};
    const bool cores = (device->info.capabilities & TDM_CAP_CPU_CORES) != 0;
    tdm_packed *packed = NULL;
    for (int i = 0; i < 4; i++) {
        weights_trial t = trial_of(device, rows[i], 48, 96, TDM_S8);
        weights_trial_create(&t);
        tdm_gemm_plan *const plan = plan_of(&t, 1);
        if (!packed)
            TEST_OK(tdm_gemm_pack_b(plan, device->stream, t.b, &packed));
        if (cores && rows[i] == FEW) {
            TEST_REFUSED(weights_trial_launch(&t, plan, packed), TDM_BAD_ARGUMENT,
                         "gemm: packed_b has layout ");
            test_array_expect_unchanged(&t.d);
        } else {
            TEST_OK(weights_trial_launch(&t, plan, packed));
            weights_trial_check(&t);
        }
        tdm_gemm_plan_destroy(plan);
        weights_trial_destroy(&t);
    }
    const bool in_lines = strncmp(tdm_packed_layout(packed), "lines-s8/", 9) == 0;
    assert_int_equal(in_lines, !cores);
    tdm_packed_destroy(packed);
}

/*
 * Plans for few rows of A pack rows of Bᵀ. Plans that read another layout, or that have other
 * parameters or types, refuse the packed weights.
 */
DEVICE_TEST(weights_of_another_form_are_refused) {
    const bool cores = (device->info.capabilities & TDM_CAP_CPU_CORES) != 0;
    weights_trial few = trial_of(device, 4, 48, 96, TDM_S8);
    weights_trial many = trial_of(device, 40, 48, 96, TDM_S8);
    weights_trial bare = trial_of(device, 4, 48, 96, TDM_DTYPE_NONE);
    weights_trial s4 = trial_of(device, 40, 48, 96, TDM_DTYPE_NONE);
    tdm_packed *lines, *without;
    s4.b_type = TDM_S4;
    weights_trial_create(&few);
    weights_trial_create(&many);
    weights_trial_create(&bare);
    weights_trial_create(&s4);
    tdm_gemm_plan *const packs_lines = plan_of(&few, 1), *const plan = plan_of(&many, 1),
                         *const has_none = plan_of(&bare, 1), *const of_s4 = plan_of(&s4, 1);
    TEST_OK(tdm_gemm_pack_b(packs_lines, device->stream, few.b, &lines));
    TEST_OK(tdm_gemm_pack_b(has_none, device->stream, bare.b, &without));
    if (cores)
        TEST_REFUSED(weights_trial_launch(&many, plan, lines), TDM_BAD_ARGUMENT,
                     "gemm: packed_b has layout lines-s8/1 but gemm_int");
    else
        TEST_OK(weights_trial_launch(&many, plan, lines));
    TEST_REFUSED(
        weights_trial_launch(&few, packs_lines, without), TDM_BAD_ARGUMENT,
        "gemm: the quantization parameters of packed_b differ from those of B in the plan");
    TEST_REFUSED(weights_trial_launch(&s4, of_s4, without), TDM_BAD_ARGUMENT, " reads lines-s4/1");
    tdm_packed_destroy(lines);
    tdm_packed_destroy(without);
    tdm_gemm_plan_destroy(packs_lines);
    tdm_gemm_plan_destroy(plan);
    tdm_gemm_plan_destroy(has_none);
    tdm_gemm_plan_destroy(of_s4);
    weights_trial_destroy(&few);
    weights_trial_destroy(&many);
    weights_trial_destroy(&bare);
    weights_trial_destroy(&s4);
}

/*
 * If weights are packed in advance, the workspace reserves no room for them. Their size is known
 * before packing.
 */
DEVICE_TEST(packed_weights_leave_the_workspace) {
    weights_trial t = trial_of(device, 64, 512, 256, TDM_DTYPE_NONE);
    size_t inside, ahead;
    tdm_packed *packed;
    int64_t bytes;
    weights_trial_create(&t);
    tdm_gemm_plan *const plain = plan_of(&t, 0), *const plan = plan_of(&t, 1);
    TEST_OK(tdm_gemm_plan_workspace_size(plain, &inside));
    TEST_OK(tdm_gemm_plan_workspace_size(plan, &ahead));
    TEST_OK(tdm_gemm_pack_b(plan, device->stream, t.b, &packed));
    TEST_OK(tdm_gemm_packed_bytes(plan, &bytes));
    assert_int_equal(bytes + t.n * (int64_t)sizeof(float), tdm_packed_bytes(packed));
    assert_true(ahead <= inside);
    assert_true(ahead < (size_t)(t.m * (t.k + 4)) + 1024);
    assert_true(tdm_packed_bytes(packed) >= (size_t)(t.n * t.k) + (size_t)t.n * sizeof(float));
    tdm_packed_destroy(packed);
    tdm_gemm_plan_destroy(plain);
    tdm_gemm_plan_destroy(plan);
    weights_trial_destroy(&t);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
