/*
 * Several threads use one plan and the one-shot call at once, each with its own stream, operands
 * and workspace.
 */
// ctest: device threads
#include <pthread.h>

#include "tests/support/devices/device_cases.h"
#include "tests/support/gemm/gemm_table.h"
#include "tests/support/test_array.h"
#include "tests/support/test_case.h"

enum {
    THREADS = 4,
    ROUNDS = 20
};

typedef struct worker {
    const test_device *device;
    const tdm_gemm_plan *plan;
    int number;
    tdm_status status;
    float got; /* the first wrong element */
} worker;

/*
 * A is filled with `value` and B with ones. Each element of the 3×5 D is 7 · value, because K is 7.
 */
static tdm_status multiply(const worker *w, tdm_stream *stream, tdm_tensor *const t[3],
                           tdm_buffer *workspace, double value, float d[15]) {
    tdm_gemm_args args = TDM_GEMM_ARGS_INIT;
    args.a = t[0];
    args.b = t[1];
    args.d = t[2];
    args.workspace = workspace;
    tdm_status status = tdm_tensor_fill(stream, value, t[0]);
    if (status == TDM_OK)
        status = tdm_tensor_fill(stream, 1, t[1]);
    if (status == TDM_OK)
        status = w->number % 2 ? tdm_gemm(stream, 1, t[0], t[1], 0, NULL, t[2], NULL)
                               : tdm_gemm_plan_run(w->plan, stream, &args);
    if (status == TDM_OK)
        status = tdm_tensor_read(stream, t[2], d, 15 * sizeof *d, NULL);
    return status;
}

static void *work(void *user) {
    worker *const w = user;
    tdm_stream *stream = NULL;
    tdm_tensor *t[3] = {NULL, NULL, NULL};
    tdm_buffer *workspace = NULL;
    size_t bytes = 0;
    const int64_t shapes[3][2] = {{3, 7}, {7, 5}, {3, 5}};
    w->status = tdm_stream_create(w->device->device, &stream);
    for (int i = 0; i < 3 && w->status == TDM_OK; i++)
        w->status = tdm_tensor_create(w->device->device, TDM_F32, 2, shapes[i], &t[i]);
    if (w->status == TDM_OK)
        w->status = tdm_gemm_plan_workspace_size(w->plan, &bytes);
    if (w->status == TDM_OK)
        w->status = tdm_buffer_create(w->device->device, bytes, &workspace);
    for (int round = 0; round < (test_is_small() ? 2 : ROUNDS) && w->status == TDM_OK; round++) {
        float d[15];
        const float value = (float)(w->number * 100 + round), expected = 7 * value;
        w->status = multiply(w, stream, t, workspace, (double)value, d);
        for (int i = 0; i < 15 && w->status == TDM_OK; i++)
            if (d[i] != expected)
                w->status = TDM_CORRUPT_DATA, w->got = d[i];
    }
    tdm_buffer_destroy(workspace);
    for (int i = 0; i < 3; i++)
        tdm_tensor_destroy(t[i]);
    tdm_stream_destroy(stream);
    return NULL;
}

DEVICE_TEST(threads_share_a_plan) {
    tdm_gemm_desc desc = gemm_dense_desc(TDM_F32, TDM_F32, TDM_F32, 3, 5, 7);
    tdm_gemm_plan *plan = NULL;
    pthread_t threads[THREADS];
    worker workers[THREADS];
    TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.device = device, .plan = plan, .number = i};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < THREADS; i++)
        if (workers[i].status != TDM_OK)
            test_case_fail("thread %d: %s (element %g)", i, tdm_status_text(workers[i].status),
                           (double)workers[i].got);
    tdm_gemm_plan_destroy(plan);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
