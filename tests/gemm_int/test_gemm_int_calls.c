/*
 * Tests the calls around integer GEMM: packed weights, recording, views of quantized tensors, the
 * one-shot call and its plans.
 */
// ctest: device
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/gemm/gemm_internal.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/gemm/gemm_table.h"
#include "tests/support/test_case.h"

static void put_pattern(test_array *array, int factor, int modulus, int least) {
    for (int64_t i = 0; i < test_array_count(array); i++)
        test_array_put(array, i, (double)(i * factor % modulus + least));
    test_array_send(array);
}

/* Gives every operand and parameter different values. */
static void fill(gemm_int_table *t) {
    put_pattern(&t->a.data, 37, 101, 0);
    put_pattern(&t->b.data, 53, 251, -125);
    const gemm_int_operand *const operands[] = {&t->a, &t->b, &t->d};
    for (int i = 0; i < 3; i++) {
        test_array scale = operands[i]->scale, zero = operands[i]->zero;
        for (int64_t j = 0; scale.tensor && j < test_array_count(&scale); j++)
            test_array_put(&scale, j, 0.25 * (double)(1 + (j + i) % 4) * (i == 2 ? 400 : 1));
        if (scale.tensor)
            test_array_send(&scale);
        if (zero.tensor)
            put_pattern(&zero, 7, 11, 1);
    }
    if (t->bias.tensor)
        put_pattern(&t->bias, 1001, 3000, -1500);
}

static double parameter(const test_array *array, int64_t index, double otherwise) {
    if (!array->tensor)
        return otherwise;
    return test_array_get(array, test_array_count(array) == 1 ? 0 : index);
}

/*
 * Checks D, which is s32 or f32. Scales are powers of two or three times a power of two, so floats
 * are exact.
 */
static void expect_product(const gemm_int_table *t) {
    const int64_t m = t->d.data.layout.shape[0], n = t->d.data.layout.shape[1],
                  k = t->a.data.layout.shape[1];
    double *const expected = malloc((size_t)(m * n) * sizeof *expected);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = t->bias.tensor ? test_array_get(&t->bias, j) : 0;
            for (int64_t p = 0; p < k; p++)
                sum += (test_array_get(&t->a.data, i * k + p) - parameter(&t->a.zero, i, 0)) *
                       (test_array_get(&t->b.data, p * n + j) - parameter(&t->b.zero, j, 0));
            expected[i * n + j] =
                t->d.data.layout.dtype == TDM_S32
                    ? sum
                    : sum * parameter(&t->a.scale, i, 1) * parameter(&t->b.scale, j, 1);
        }
    gemm_int_table_expect(t, expected);
    free(expected);
}

/* ---- packed weights -------------------------------------------------------------------------- */

DEVICE_TEST(packed_weights_serve_any_m_and_any_parameters_of_a) {
    static const struct {
        int64_t m;
        tdm_dtype a, d, zero;
        int scales; /* 0: none, 1: one, 2: one for each row */
    } plans[] = {{4, TDM_U8, TDM_S32, TDM_S32, 1},
                 {1, TDM_S8, TDM_F32, TDM_DTYPE_NONE, 0},
                 {9, TDM_S8, TDM_F32, TDM_S8, 2},
                 {33, TDM_U8, TDM_F32, TDM_U8, 1},
                 {2, TDM_U8, TDM_S32, TDM_DTYPE_NONE, 0}};
    tdm_packed *packed = NULL;
    for (size_t i = 0; i < sizeof plans / sizeof *plans; i++) {
        gemm_int_table t;
        tdm_gemm_desc desc = gemm_int_desc(plans[i].a, plans[i].d, plans[i].m, 21, 35);
        if (plans[i].scales)
            gemm_int_arrange(&desc.a_quant, &desc.a, plans[i].scales == 2, 0, plans[i].zero);
        gemm_int_arrange(&desc.b_quant, &desc.b, 0, 1, TDM_S8);
        // Packing makes dense copies of the parameters, whatever their strides were.
        desc.b_quant.scale.strides[1] = i % 2 ? 1 : 3;
        desc.b_quant.zero_point.strides[1] = i % 2 ? 1 : 2;
        desc.packed_b = 1;
        gemm_int_table_lay(&t, device, &desc);
        fill(&t);
        if (!packed) {
            TEST_OK(tdm_gemm_pack_b(t.plan, device->stream, t.b.tensor, &packed));
            // Packed weights no longer depend on their source or its parameters.
            TEST_OK(tdm_tensor_fill(device->stream, 99, t.b.data.tensor));
            TEST_OK(tdm_tensor_fill(device->stream, NAN, t.b.scale.tensor));
            TEST_OK(tdm_tensor_fill(device->stream, 99, t.b.zero.tensor));
        }
        t.args.packed_b = packed;
        gemm_int_table_run(&t);
        expect_product(&t);
        gemm_int_table_clear(&t);
    }
    assert_true(tdm_packed_bytes(packed) >= 35 * 21 + 21 * (sizeof(float) + 1));
    tdm_packed_destroy(packed);
}

/*
 * Fills blocks of the sizes of small packed weights with a pattern and frees them, so that later
 * allocations are not zero.
 */
static void dirty_the_pool(const test_device *device) {
    static const size_t sizes[] = {64, 256, 512, 1024, 4096, 16384};
    tdm_buffer *buffers[6];
    unsigned char bytes[16384];
    memset(bytes, 0x6b, sizeof bytes);
    for (int i = 0; i < 6; i++) {
        TEST_OK(tdm_buffer_create(device->device, sizes[i], &buffers[i]));
        TEST_OK(tdm_buffer_write(device->stream, buffers[i], 0, bytes, sizes[i]));
    }
    TEST_OK(tdm_stream_synchronize(device->stream));
    for (int i = 0; i < 6; i++)
        tdm_buffer_destroy(buffers[i]);
}

/* With K = 0 the column sums of B are 0 too, packed or not, for every variant. */
static void without_k(const test_device *device, const char *variant, int packed) {
    gemm_int_table t;
    tdm_gemm_desc desc = gemm_int_desc(TDM_U8, TDM_S32, 3, 21, 0);
    double expected[3 * 21];
    gemm_int_arrange(&desc.a_quant, &desc.a, 1, 0, TDM_U8);
    gemm_int_arrange(&desc.b_quant, &desc.b, 0, 1, TDM_S8);
    TEST_OK(tdm_layout_contiguous(TDM_S32, 1, (const int64_t[]){21}, &desc.bias));
    desc.packed_b = packed;
    desc.variant = variant;
    gemm_int_table_lay(&t, device, &desc);
    fill(&t);
    for (int i = 0; i < 3 * 21; i++)
        expected[i] = test_array_get(&t.bias, i % 21);
    dirty_the_pool(device);
    gemm_int_table_run(&t);
    gemm_int_table_expect(&t, expected);
    gemm_int_table_clear(&t);
}

DEVICE_TEST(without_k_d_is_the_bias) {
    int rows = 0;
    for (int i = 0; i < tdm_variant_count; i++) {
        const tdm_variant *const row = &tdm_variants[i];
        char packs_first[128];
        if (row->op != TDM_OP_GEMM_INT || !test_can_run(device, row) ||
            row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_WGMMA) // no tensor map has a K of 0
            continue;
        rows++;
        without_k(device, row->name, 0);
        without_k(device, row->name, 1);
        snprintf(packs_first, sizeof packs_first, "%s:pack_b=1", row->name);
        if (row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_PANEL)
            without_k(device, packs_first, 0);
    }
    assert_true(rows > 0);
}

/* A large batch needs several launches. The entries of every launch get their own parameters. */
DEVICE_TEST(parameters_follow_batches_of_several_launches) {
    const int64_t entries = test_is_small() ? 5 : 65535 + 5;
    const int64_t shape[3] = {entries, 1, 1};
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    gemm_int_table t;
    TEST_OK(tdm_layout_contiguous(TDM_U8, 3, shape, &desc.a));
    TEST_OK(tdm_layout_contiguous(TDM_S8, 3, shape, &desc.b));
    TEST_OK(tdm_layout_contiguous(TDM_F32, 3, shape, &desc.d));
    desc.a_quant.block[0] = desc.b_quant.block[0] = 1;
    TEST_OK(tdm_layout_contiguous(TDM_F32, 3, shape, &desc.a_quant.scale));
    TEST_OK(tdm_layout_contiguous(TDM_S32, 3, shape, &desc.a_quant.zero_point));
    TEST_OK(tdm_layout_contiguous(TDM_F32, 3, shape, &desc.b_quant.scale));
    TEST_OK(tdm_layout_contiguous(TDM_S8, 3, shape, &desc.b_quant.zero_point));
    gemm_int_table_lay(&t, device, &desc);
    fill(&t);
    put_pattern(&t.a.scale, 1, 1000, 1);
    put_pattern(&t.b.scale, 1, 77, 1);
    gemm_int_table_run(&t);
    for (int64_t e = 0; e < entries; e++) {
        const double expected = (test_array_get(&t.a.data, e) - test_array_get(&t.a.zero, e)) *
                                (test_array_get(&t.b.data, e) - test_array_get(&t.b.zero, e)) *
                                (test_array_get(&t.a.scale, e) * test_array_get(&t.b.scale, e));
        if (test_array_fetched(&t.d.data, e) != (double)(float)expected)
            test_case_fail("entry %lld is %.9g, must be %.9g", (long long)e,
                           test_array_fetched(&t.d.data, e), expected);
    }
    gemm_int_table_clear(&t);
}

/* ---- parameters whose values change ---------------------------------------------------------- */

DEVICE_TEST(plans_and_graphs_read_parameters_when_they_run) {
    tdm_gemm_desc desc = gemm_int_desc(TDM_U8, TDM_U8, 2, 3, 2);
    gemm_int_table t;
    tdm_graph *graph;
    gemm_int_arrange(&desc.a_quant, &desc.a, 0, 0, TDM_S32);
    gemm_int_arrange(&desc.b_quant, &desc.b, 0, 1, TDM_S8);
    gemm_int_arrange(&desc.d_quant, &desc.d, 0, 0, TDM_S32);
    gemm_int_table_lay(&t, device, &desc);
    gemm_int_table_run(&t); // each sum is 2
    gemm_int_table_expect(&t, (const double[]){2, 2, 2, 2, 2, 2});
    TEST_OK(tdm_stream_begin_recording(device->stream));
    const tdm_status recorded = tdm_gemm_plan_run(t.plan, device->stream, &t.args);
    TEST_OK(tdm_stream_end_recording(device->stream, &graph));
    TEST_OK(recorded);
    static const struct {
        double a_scale, a_zero, b_scale[3], b_zero[3], d_scale, d_zero, expected[3];
    } steps[] = {
        {3, 0, {1, 1, 1}, {0, 0, 0}, 1, 0, {6, 6, 6}},
        {3, 0, {1, 2, 0.5}, {0, 0, 0}, 1, 0, {6, 12, 3}},
        {3, 2, {1, 2, 0.5}, {0, 0, 0}, 1, 100, {94, 88, 97}},
        {3, 2, {1, 2, 0.5}, {0, -1, 5}, 1, 100, {94, 76, 112}},
        {3, 2, {1, 2, 0.5}, {0, -1, 5}, 4, 9, {7, 3, 12}},
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        double expected[6];
        gemm_int_put(&t.a.scale, &steps[i].a_scale, 1);
        gemm_int_put(&t.a.zero, &steps[i].a_zero, 1);
        gemm_int_put(&t.b.scale, steps[i].b_scale, 3);
        gemm_int_put(&t.b.zero, steps[i].b_zero, 3);
        gemm_int_put(&t.d.scale, &steps[i].d_scale, 1);
        gemm_int_put(&t.d.zero, &steps[i].d_zero, 1);
        for (int j = 0; j < 6; j++)
            expected[j] = steps[i].expected[j % 3];
        test_array_send(&t.d.data);
        TEST_OK(tdm_graph_launch(graph, device->stream));
        test_array_fetch(&t.d.data);
        gemm_int_table_expect(&t, expected);
        gemm_int_table_run(&t);
        gemm_int_table_expect(&t, expected);
    }
    tdm_graph_destroy(graph);
    gemm_int_table_clear(&t);
}

/* ---- the one-shot call ----------------------------------------------------------------------- */

static int plans_made;

static void count_plans(void *user, tdm_log_level level, const char *topic, const char *message) {
    (void)user;
    (void)level;
    plans_made += strcmp(topic, "dispatch") == 0 && strncmp(message, "gemm: problem", 13) == 0;
}

/*
 * Makes one call with the parameter layout of `desc`. Returns the number of plans that the call
 * created.
 */
static int plans_of_call(const test_device *device, const tdm_gemm_desc *desc) {
    gemm_int_table t;
    gemm_int_table_lay(&t, device, desc);
    fill(&t);
    test_array_send(&t.d.data);
    plans_made = 0;
    tdm_set_log(count_plans, NULL);
    const tdm_status status =
        tdm_gemm(device->stream, 1, t.a.tensor, t.b.tensor, 0, NULL, t.d.tensor, NULL);
    tdm_set_log(NULL, NULL);
    TEST_OK(status);
    test_array_fetch(&t.d.data);
    if (desc->d.dtype != TDM_S8)
        expect_product(&t);
    gemm_int_table_clear(&t);
    return plans_made;
}

/* No other test here uses these shapes, so the cache has no plans for them yet. */
DEVICE_TEST(calls_share_plans_where_the_arrangement_is_the_same) {
    tdm_gemm_desc base = gemm_int_desc(TDM_U8, TDM_F32, 3, 17, 11);
    tdm_gemm_desc calls[8];
    for (int i = 0; i < 8; i++)
        calls[i] = base;
    gemm_int_arrange(&calls[1].a_quant, &base.a, 0, 0, TDM_S32);
    gemm_int_arrange(&calls[2].a_quant, &base.a, 0, 0, TDM_U8);
    gemm_int_arrange(&calls[3].a_quant, &base.a, 1, 0, TDM_S32);
    gemm_int_arrange(&calls[4].b_quant, &base.b, 0, 1, TDM_DTYPE_NONE);
    gemm_int_arrange(&calls[5].b_quant, &base.b, 0, 0, TDM_DTYPE_NONE);
    calls[6].d.dtype = calls[7].d.dtype = TDM_S8;
    gemm_int_arrange(&calls[6].d_quant, &base.d, 0, 0, TDM_S32);
    gemm_int_arrange(&calls[7].d_quant, &base.d, 0, 1, TDM_S32);
    for (int round = 0; round < 2; round++)
        for (int i = 0; i < 8; i++)
            if (plans_of_call(device, &calls[i]) != !round)
                test_case_fail("call %d of round %d made %d plans", i, round, plans_made);
    // This is another way to state the layout of call 1.
    gemm_int_arrange(&base.a_quant, &base.a, 3, 50, TDM_S32);
    assert_int_equal(plans_of_call(device, &base), 0);
}

/* The weights are N×K with a scale for each N, and the activations are a slice of rows. */
DEVICE_TEST(views_bring_their_parameters) {
    gemm_int_table t;
    tdm_tensor *weights, *rows, *part;
    tdm_gemm_desc desc = gemm_int_desc(TDM_S8, TDM_F32, 6, 5, 4);
    gemm_int_operand stored;
    tdm_layout layout;
    tdm_quant_layout quant;
    gemm_int_arrange(&desc.a_quant, &desc.a, 1, 0, TDM_S8);
    gemm_int_arrange(&desc.b_quant, &desc.b, 0, 1, TDM_DTYPE_NONE);
    gemm_int_table_lay(&t, device, &desc);
    fill(&t);
    TEST_OK(tdm_layout_contiguous(TDM_S8, 2, (const int64_t[]){5, 4}, &layout));
    gemm_int_arrange(&quant, &layout, 1, 0, TDM_DTYPE_NONE);
    gemm_int_operand_create(&stored, device, &layout, &quant);
    for (int j = 0; j < 5; j++) {
        test_array_put(&stored.scale, j, test_array_get(&t.b.scale, j));
        for (int p = 0; p < 4; p++)
            test_array_put(&stored.data, j * 4 + p, test_array_get(&t.b.data, p * 5 + j));
    }
    test_array_send(&stored.scale);
    test_array_send(&stored.data);
    test_array_send(&t.d.data);
    TEST_OK(tdm_tensor_transpose(stored.tensor, NULL, &weights));
    for (int first = 0; first < 6; first += 3) {
        TEST_OK(tdm_tensor_slice(t.a.tensor, 0, first, first + 3, 1, &rows));
        TEST_OK(tdm_tensor_slice(t.d.tensor, 0, first, first + 3, 1, &part));
        TEST_OK(tdm_gemm(device->stream, 1, rows, weights, 0, NULL, part, NULL));
        tdm_tensor_destroy(rows);
        tdm_tensor_destroy(part);
    }
    test_array_fetch(&t.d.data);
    expect_product(&t);
    tdm_tensor_destroy(weights);
    gemm_int_operand_destroy(&stored);
    gemm_int_table_clear(&t);
}

/*
 * The call runs twice with quantize_a and twice without. Each of the two settings has its own plan.
 */
DEVICE_TEST(one_call_quantizes_rows_of_a) {
    const int64_t columns = 2;
    const double rows[] = {127, 0.4, -63.6, 254, 1, 0}; // becomes 127 0 -64 / 127 0 0, scales 1, 2
    test_array a, codes, scale, d;
    tdm_tensor *weights;
    tdm_quantization q = TDM_QUANTIZATION_INIT;
    test_array_create(&a, device, TDM_F32, 2, (const int64_t[]){2, 3}, TEST_PADDED);
    test_array_create(&codes, device, TDM_S8, 2, (const int64_t[]){3, columns}, TEST_DENSE);
    test_array_create(&scale, device, TDM_F32, 2, (const int64_t[]){1, columns}, TEST_DENSE);
    test_array_create(&d, device, TDM_F32, 2, (const int64_t[]){2, columns}, TEST_DENSE);
    gemm_int_put(&a, rows, 6);
    gemm_int_put(&codes, (const double[]){1, 2, 3, 4, 5, 6}, 6);
    gemm_int_put(&scale, (const double[]){1, 0.5}, 2);
    q.scale = scale.tensor;
    q.block[0] = 0;
    q.block[1] = 1;
    TEST_OK(tdm_tensor_quantized(codes.tensor, &q, &weights));
    const double quantized[] = {127 - 5 * 64, 127 - 3 * 64, 254, 254};
    const double plain[] = {127 + 3 * 0.4 - 5 * 63.6, 127 + 2 * 0.4 - 3 * 63.6, 257, 256};
    for (int i = 0; i < 4; i++) {
        tdm_gemm_epilogue epilogue = {.struct_size = sizeof epilogue};
        epilogue.quantize_a = i % 2;
        const double *const expected = i % 2 ? quantized : plain;
        test_array_send(&d);
        TEST_OK(tdm_gemm(device->stream, 1, a.tensor, weights, 0, NULL, d.tensor, &epilogue));
        test_array_fetch(&d);
        for (int j = 0; j < 4; j++)
            if (!(fabs(test_array_fetched(&d, j) - expected[j]) < 1e-4))
                test_case_fail("call %d: D[%d] is %.9g, not %.9g", i, j, test_array_fetched(&d, j),
                               expected[j]);
    }
    tdm_tensor_destroy(weights);
    test_array_destroy(&a);
    test_array_destroy(&codes);
    test_array_destroy(&scale);
    test_array_destroy(&d);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
