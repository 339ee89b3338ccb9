/* Tests the GEMM calls: the choice of a kernel, empty outputs, recording, the one-shot call. */
// ctest: device
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/device/core.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/gemm/gemm_table.h"
#include "tests/support/test_case.h"

typedef struct logged {
    char text[8192];
} logged;

static void listen(void *user, tdm_log_level level, const char *topic, const char *message) {
    logged *const h = user;
    (void)level;
    const size_t used = strlen(h->text);
    if (strcmp(topic, "dispatch") == 0)
        snprintf(h->text + used, sizeof h->text - used, "%s\n", message);
}

DEVICE_TEST(the_log_and_the_plan_say_why_candidates_were_refused) {
    static logged h;
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    tdm_gemm_plan *plan;
    // These sizes are too large for the variants for a small M or N, which come first in the list.
    const int64_t shape[] = {70, 70};
    h.text[0] = '\0';
    TEST_OK(tdm_layout_contiguous(TDM_F16, 2, shape, &desc.a)); // no tiled variant takes f16·f32
    TEST_OK(tdm_layout_contiguous(TDM_F32, 2, shape, &desc.b));
    TEST_OK(tdm_layout_contiguous(TDM_F32, 2, shape, &desc.d));
    tdm_set_log(listen, &h);
    const tdm_status status = tdm_gemm_plan_create(device->device, &desc, &plan);
    tdm_set_log(NULL, NULL);
    TEST_OK(status);
    char line[128];
    snprintf(line, sizeof line, "gemm: %s chosen\n", tdm_gemm_plan_variant(plan));
    assert_non_null(strstr(h.text, line));
    if (!(device->info.capabilities & TDM_CAP_HOST_AVX512)) {
        const char *const reason =
            device->info.capabilities & TDM_CAP_CPU_CORES
                ? "gemm_f32_panel_12x32__avx512: the device lacks avx512\n"
                : "gemm_f32_panel_12x32__avx512: the device lacks cpu-cores\n";
        assert_non_null(strstr(tdm_gemm_plan_refusals(plan), reason));
        assert_non_null(
            strstr(h.text, "gemm: gemm_f32_panel_12x32__avx512 refused: the device lacks"));
    }
    if (!(device->info.capabilities & TDM_CAP_CPU_CORES)) {
        assert_string_equal(tdm_gemm_plan_variant(plan), "gemm_any_reference");
        assert_non_null(
            strstr(tdm_gemm_plan_refusals(plan), "gemm_f32_tiled_32x32: A is f16 and B is f32\n"));
    }
    tdm_gemm_plan_destroy(plan);
}

DEVICE_TEST(an_empty_output_is_left_alone) {
    static const struct {
        int rank; /* of A and D */
        int64_t a[3], b[2], d[3];
    } shapes[] = {{2, {0, 6}, {6, 5}, {0, 5}},
                  {2, {4, 6}, {6, 0}, {4, 0}},
                  {2, {0, 0}, {0, 0}, {0, 0}},
                  {3, {0, 2, 3}, {3, 4}, {0, 2, 4}}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        tdm_tensor *a = NULL, *b = NULL, *d = NULL;
        TEST_OK(tdm_tensor_create(device->device, TDM_F32, shapes[s].rank, shapes[s].a, &a));
        TEST_OK(tdm_tensor_create(device->device, TDM_F32, 2, shapes[s].b, &b));
        TEST_OK(tdm_tensor_create(device->device, TDM_F32, shapes[s].rank, shapes[s].d, &d));
        TEST_OK(tdm_gemm(device->stream, 1, a, b, 0, NULL, d, NULL));
        TEST_OK(tdm_stream_synchronize(device->stream));
        tdm_tensor_destroy(a);
        tdm_tensor_destroy(b);
        tdm_tensor_destroy(d);
    }
}

DEVICE_TEST(a_recorded_run_gives_the_same_bits) {
    const tdm_gemm_desc desc = gemm_small_desc();
    gemm_table t;
    tdm_graph *graph = NULL;
    tdm_packed *packed = NULL;
    gemm_table_lay(&t, device, &desc);
    test_array_fill(&t.a, TEST_DATA_UNIT, 3);
    test_array_fill(&t.b, TEST_DATA_UNIT, 4);
    TEST_OK(tdm_gemm_plan_run(t.plan, device->stream, &t.args));
    test_array_fetch(&t.d);
    unsigned char *const live = malloc(t.d.bytes);
    memcpy(live, t.d.fetched, t.d.bytes);
    test_array_send(&t.d);
    TEST_OK(tdm_stream_begin_recording(device->stream));
    const tdm_status recorded = tdm_gemm_plan_run(t.plan, device->stream, &t.args);
    const tdm_status shot =
        tdm_gemm(device->stream, 1, t.a.tensor, t.b.tensor, 0, NULL, t.d.tensor, NULL);
    const bool reported = strstr(tdm_last_detail(), "gemm: the stream is recording: use a plan");
    const tdm_status packing = tdm_gemm_pack_b(t.plan, device->stream, t.b.tensor, &packed);
    TEST_OK(tdm_stream_end_recording(device->stream, &graph));
    TEST_OK(recorded);
    assert_int_equal(shot, TDM_BAD_STATE);
    assert_true(reported);
    assert_int_equal(packing, TDM_BAD_STATE);
    test_array_expect_unchanged(&t.d);
    for (int replay = 0; replay < 2; replay++) {
        test_array_send(&t.d);
        TEST_OK(tdm_graph_launch(graph, device->stream));
        test_array_fetch(&t.d);
        assert_memory_equal(live, t.d.fetched, t.d.bytes);
    }
    free(live);
    tdm_graph_destroy(graph);
    gemm_table_clear(&t);
}

DEVICE_TEST(one_shot_calls_take_views_and_outlive_the_plan_cache) {
    // The shapes exceed the plan cache and are run twice, so plans are evicted and made again.
    const int shapes = test_is_small() ? 3 : 70;
    for (int round = 0; round < 2; round++)
        for (int s = 1; s <= shapes; s++) {
            gemm_table t;
            tdm_gemm_desc desc = gemm_small_desc();
            desc.a.shape[0] = desc.d.shape[0] = s;
            gemm_table_lay(&t, device, &desc);
            TEST_OK(tdm_gemm(device->stream, 1, t.a.tensor, t.b.tensor, 0, NULL, t.d.tensor, NULL));
            gemm_table_expect_product(&t);
            gemm_table_clear(&t);
        }
}

/* Calls that differ only in a scalar or the activation must not share a plan. */
DEVICE_TEST(one_shot_calls_tell_scalars_and_activations_apart) {
    static const struct {
        float alpha, beta;
        tdm_activation activation;
        double expected; /* for a = 3, b = 2, c = 5 */
    } calls[] = {{1, 1, TDM_ACT_NONE, 11}, {1, -4, TDM_ACT_NONE, -14}, {-1, 1, TDM_ACT_NONE, -1},
                 {1, -4, TDM_ACT_RELU, 0}, {1, 0, TDM_ACT_NONE, 6},    {1, 1, TDM_ACT_NONE, 11}};
    const int64_t one[2] = {1, 1};
    test_array arrays[4];
    for (int i = 0; i < 4; i++) {
        test_array_create(&arrays[i], device, TDM_F32, 2, one, TEST_DENSE);
        test_array_put(&arrays[i], 0, (const double[]){3, 2, 5, NAN}[i]);
        test_array_send(&arrays[i]);
    }
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        const tdm_gemm_epilogue epilogue = {.struct_size = sizeof epilogue,
                                            .activation = calls[i].activation};
        TEST_OK(tdm_gemm(device->stream, calls[i].alpha, arrays[0].tensor, arrays[1].tensor,
                         calls[i].beta, arrays[2].tensor, arrays[3].tensor, &epilogue));
        test_array_fetch(&arrays[3]);
        if (test_array_fetched(&arrays[3], 0) != calls[i].expected)
            test_case_fail("call %d gives %g, must give %g", (int)i,
                           test_array_fetched(&arrays[3], 0), calls[i].expected);
    }
    for (int i = 0; i < 4; i++)
        test_array_destroy(&arrays[i]);
}

/* A has a stride of 0 inside the matrix, not only in the batch: each row repeats one element. */
DEVICE_TEST(inputs_may_repeat_elements) {
    test_array one, b, d;
    tdm_tensor *repeated = NULL;
    const int64_t shape[2] = {5, 9};
    test_array_create(&one, device, TDM_F32, 2, (const int64_t[]){5, 1}, TEST_DENSE);
    test_array_create(&b, device, TDM_F32, 2, (const int64_t[]){9, 3}, TEST_DENSE);
    test_array_create(&d, device, TDM_F32, 2, (const int64_t[]){5, 3}, TEST_DENSE);
    test_array_fill(&one, TEST_DATA_SMALL_INTEGER, 1);
    test_array_fill(&b, TEST_DATA_SMALL_INTEGER, 2);
    test_array_send(&d);
    TEST_OK(tdm_tensor_broadcast(one.tensor, 2, shape, &repeated));
    TEST_OK(tdm_gemm(device->stream, 1, repeated, b.tensor, 0, NULL, d.tensor, NULL));
    test_array_fetch(&d);
    for (int64_t i = 0; i < 5; i++)
        for (int64_t j = 0; j < 3; j++) {
            double sum = 0;
            for (int64_t p = 0; p < 9; p++)
                sum += test_array_get(&one, i) * test_array_get(&b, p * 3 + j);
            assert_true(test_array_fetched(&d, i * 3 + j) == sum);
        }
    tdm_tensor_destroy(repeated);
    test_array_destroy(&one);
    test_array_destroy(&b);
    test_array_destroy(&d);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
