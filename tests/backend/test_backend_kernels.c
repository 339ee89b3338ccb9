// Tests the OpenCL backend through its function table: kernels are built and launched.
// ctest: device opencl threads
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "api/device/core.h"
#include "backend_opencl/opencl_api.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/drivers/backend_rig.h"
#include "tests/support/test_case.h"

/* True for a memory checker, which would report the deliberate errors of these cases. */
static bool is_checker(const test_device *device) {
    return !(device->info.capabilities & TDM_CAP_SLABS);
}

static const char ids_text[] =
    "__kernel void TDM_ENTRY(__global int *y, long y0) { y[y0 + get_global_id(0)] = 1; }\n";

typedef struct log_note {
    atomic_int lines;
    atomic_bool multi_line;
} log_note;

static void note_log(void *user, tdm_log_level level, const char *topic, const char *message) {
    log_note *const note = user;
    (void)level;
    if (strcmp(topic, "driver") == 0 && strstr(message, "broken_entry"))
        atomic_fetch_add(&note->lines, 1);
    if (strchr(message, '\n'))
        atomic_store(&note->multi_line, true);
}

DEVICE_TEST(build_failures) {
    if (is_checker(device))
        return;
    backend_rig r = rig_open(device);
    tdm_bk_kernel *kernel = (tdm_bk_kernel *)&r;
    log_note note = {0};
    tdm_set_log(note_log, &note);
    const tdm_status status = rig_build(
        &r, "broken_entry",
        "__kernel void TDM_ENTRY(__global int *y, long y0) {\n y[y0] = undeclared_name;\n}\n", "",
        &kernel);
    tdm_set_log(NULL, NULL);
    assert_int_equal(status, TDM_BUILD_FAILED);
    assert_ptr_equal(kernel, (tdm_bk_kernel *)&r);
    assert_non_null(strstr(tdm_last_detail(), "broken_entry"));
    assert_non_null(strstr(tdm_last_detail(), "undeclared_name"));
    assert_true(atomic_load(&note.lines) > 0);
    assert_false(atomic_load(&note.multi_line));
    TEST_REFUSED(rig_build(&r, "absent_entry",
                           "__kernel void other_name(__global int *y) { y[0] = 1; }\n", "",
                           &kernel),
                 TDM_BUILD_FAILED, "absent_entry");
    rig_close(&r);
}

DEVICE_TEST(launch_failures) {
    if (is_checker(device))
        return;
    backend_rig r = rig_open(device);
    tdm_bk_kernel *kernel;
    TEST_OK(rig_build(&r, "ids_entry", ids_text, "", &kernel));
    const tdm_arg args[2] = {rig_buffer_arg(r.memory, 0), {.kind = TDM_ARG_S32}};
    tdm_launch launch = {.args = args, .arg_count = 2, .groups = {1, 1, 1}, .group = {1, 1, 1}};
    // The message names the surplus argument, and the next launch works.
    TEST_REFUSED(r.api->launch(r.stream, "surplus", kernel, &launch), TDM_INTERNAL,
                 "surplus: argument 1 of kernel ids_entry");
    launch.arg_count = 1;
    TEST_OK(r.api->launch(r.stream, "ids", kernel, &launch));
    tdm_fault_plant("clEnqueueNDRangeKernel", 1, CL_OUT_OF_RESOURCES, false);
    TEST_REFUSED(r.api->launch(r.stream, "starved", kernel, &launch), TDM_INTERNAL,
                 "starved: kernel ids_entry");
    tdm_fault_clear();
    TEST_OK(r.api->launch(r.stream, "ids", kernel, &launch));
    r.api->kernel_release(kernel);
    rig_close(&r);
}

/* ---- one kernel, several threads ------------------------------------------------------------- */

static const char add_text[] = "__kernel void TDM_ENTRY(__global int *y, long y0, int value) {\n"
                               "    y[y0 + get_global_id(0)] += value;\n"
                               "}\n";

typedef struct adder {
    const test_device *device;
    tdm_bk_kernel *kernel;
    int number;
    bool right;
} adder;

/*
 * Adds on a stream of its own. A kernel object that is shared with another thread would mix up the
 * arguments. */
static void *add_often(void *user) {
    adder *const self = user;
    const int rounds = test_is_small() ? 40 : 400;
    backend_rig r = rig_open(self->device);
    const int32_t zero = 0;
    TEST_OK(r.api->fill(r.stream, "fill", r.memory, 0, RIG_WORDS * 4, &zero, 4));
    for (int i = 0; i < rounds; i++) {
        const tdm_arg args[2] = {rig_buffer_arg(r.memory, i % 16),
                                 {.kind = TDM_ARG_S32, .value.s32 = self->number}};
        const tdm_launch launch = {
            .args = args, .arg_count = 2, .groups = {4, 1, 1}, .group = {4, 1, 1}};
        TEST_OK(r.api->launch(r.stream, "add", self->kernel, &launch));
    }
    int32_t words[RIG_WORDS], expected[RIG_WORDS] = {0};
    rig_fetch(&r, words);
    for (int i = 0; i < rounds; i++)
        for (int j = 0; j < 16; j++)
            expected[i % 16 + j] += self->number;
    self->right = memcmp(words, expected, sizeof expected) == 0;
    rig_close(&r);
    return NULL;
}

DEVICE_TEST(threads_share_a_kernel) {
    backend_rig r = rig_open(device);
    tdm_bk_kernel *kernel;
    TEST_OK(rig_build(&r, "add_entry", add_text, "", &kernel));
    pthread_t threads[4];
    adder adders[4];
    for (int i = 0; i < 4; i++) {
        adders[i] = (adder){.device = device, .kernel = kernel, .number = 1000 + i};
        assert_int_equal(pthread_create(&threads[i], NULL, add_often, &adders[i]), 0);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 4; i++)
        assert_true(adders[i].right);
    r.api->kernel_release(kernel);
    rig_close(&r);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
