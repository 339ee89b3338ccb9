// The OpenCL backend through its row of functions: building and launching kernels.
// ctest: device opencl threads
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "api/device/core.h"
#include "backend_opencl/opencl_api.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/drivers/backend_rig.h"
#include "tests/support/test_case.h"

/* A memory checker reports what these cases do on purpose. */
static bool is_checker(const test_device *device) {
    return !(device->info.capabilities & TDM_CAP_SLABS);
}

static const char arguments_text[] =
    "typedef struct { int v[32]; } blob;\n"
    "__kernel void TDM_ENTRY(__global int *y, long y0, int s, uint u, long l, float f, blob b,\n"
    "                        __local int *scratch, __global const int *x, long x0) {\n"
    "    scratch[get_local_id(0)] = x[x0];\n"
    "    barrier(CLK_LOCAL_MEM_FENCE);\n"
    "    if (get_global_id(0) == 0) {\n"
    "        y[y0] = s; y[y0 + 1] = (int)u; y[y0 + 2] = (int)(l >> 32); y[y0 + 3] = (int)l;\n"
    "        y[y0 + 4] = (int)(f * 8.0f); y[y0 + 5] = b.v[0]; y[y0 + 6] = b.v[31];\n"
    "        y[y0 + 7] = scratch[get_local_size(0) - 1]; y[y0 + 8] = VALUE;\n"
    "    }\n"
    "}\n";

DEVICE_TEST(arguments) {
    backend_rig r = rig_open(device);
    int32_t words[RIG_WORDS] = {[3] = 77}, blob[32] = {[0] = -5, [31] = 123456};
    tdm_bk_kernel *kernel;
    TEST_OK(rig_build(&r, "arguments_entry", arguments_text, "-DVALUE=4711", &kernel));
    TEST_OK(r.api->write(r.stream, "write", r.memory, 0, words, sizeof words));
    const tdm_arg args[] = {
        rig_buffer_arg(r.memory, 100),
        {.kind = TDM_ARG_S32, .value.s32 = -42},
        {.kind = TDM_ARG_U32, .value.u32 = 0xfffffff0u},
        {.kind = TDM_ARG_S64, .value.s64 = (INT64_C(7) << 32) | 9},
        {.kind = TDM_ARG_F32, .value.f32 = 1.625f},
        {.kind = TDM_ARG_BLOB, .bytes = sizeof blob, .value.blob = blob},
        {.kind = TDM_ARG_LOCAL, .bytes = 8 * sizeof(int32_t)},
        rig_buffer_arg(r.memory, 3),
    };
    const tdm_launch launch = {
        .args = args, .arg_count = 8, .groups = {2, 1, 1}, .group = {8, 1, 1}};
    TEST_OK(r.api->launch(r.stream, "arguments", kernel, &launch));
    memset(blob, 0, sizeof blob); // read during the call only
    rig_fetch(&r, words);
    const int32_t expected[9] = {-42, -16, 7, 9, 13, -5, 123456, 77, 4711};
    assert_memory_equal(words + 100, expected, sizeof expected);
    r.api->kernel_release(kernel);
    rig_close(&r);
}

static const char ids_text[] =
    "__kernel void TDM_ENTRY(__global int *y, long y0) {\n"
    "    const int x = (int)get_global_id(0), z = (int)get_global_id(2);\n"
    "    const int width = (int)get_global_size(0), height = (int)get_global_size(1);\n"
    "    y[y0 + (z * height + (int)get_global_id(1)) * width + x] =\n"
    "        (int)(get_group_id(0) + 10 * get_group_id(1) + 100 * get_group_id(2) +\n"
    "              1000 * get_local_id(0) + 10000 * get_local_id(1) + 100000 * get_local_id(2));\n"
    "}\n";

DEVICE_TEST(grids) {
    static const tdm_launch rows[] = {
        {.groups = {1, 1, 1}, .group = {1, 1, 1}}, {.groups = {5, 1, 1}, .group = {3, 1, 1}},
        {.groups = {1, 2, 1}, .group = {1, 1, 1}}, {.groups = {1, 1, 1}, .group = {1, 1, 2}},
        {.groups = {1, 7, 1}, .group = {1, 2, 1}}, {.groups = {3, 2, 2}, .group = {4, 2, 2}},
        {.groups = {1, 1, 9}, .group = {1, 1, 1}}, {.groups = {2, 1, 3}, .group = {2, 4, 1}},
    };
    backend_rig r = rig_open(device);
    tdm_bk_kernel *kernel;
    TEST_OK(rig_build(&r, "ids_entry", ids_text, "", &kernel));
    const tdm_arg arg = rig_buffer_arg(r.memory, 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tdm_launch launch = rows[i];
        launch.args = &arg;
        launch.arg_count = 1;
        const int32_t poison = -1;
        TEST_OK(r.api->fill(r.stream, "fill", r.memory, 0, RIG_WORDS * 4, &poison, 4));
        TEST_OK(r.api->launch(r.stream, "ids", kernel, &launch));
        int32_t words[RIG_WORDS];
        rig_fetch(&r, words);
        const uint32_t size[3] = {launch.groups[0] * launch.group[0],
                                  launch.groups[1] * launch.group[1],
                                  launch.groups[2] * launch.group[2]};
        for (uint32_t at = 0; at < RIG_WORDS; at++) {
            const uint32_t id[3] = {at % size[0], at / size[0] % size[1], at / size[0] / size[1]};
            int32_t expected = -1;
            if (id[2] < size[2]) {
                expected = 0;
                for (int d = 2; d >= 0; d--)
                    expected = 10 * expected + (int32_t)(id[d] % launch.group[d]);
                for (int d = 2; d >= 0; d--)
                    expected = 10 * expected + (int32_t)(id[d] / launch.group[d]);
            }
            if (words[at] != expected)
                test_case_fail("grid %zu, word %u: %d, not %d", i, at, words[at], expected);
        }
    }
    r.api->kernel_release(kernel);
    rig_close(&r);
}

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
    // One argument too many: named, and the next launch is none the worse.
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

DEVICE_TEST(limits) {
    backend_rig r = rig_open(device);
    tdm_bk_kernel *kernel;
    tdm_kernel_limits found = {0};
    TEST_OK(rig_build(&r, "local_entry",
                      "__kernel __attribute__((reqd_work_group_size(16, 1, 1)))\n"
                      "void TDM_ENTRY(__global int *y, long y0) {\n"
                      "    __local int words[256];\n"
                      "    for (int i = (int)get_local_id(0); i < 256; i += 16) words[i] = i;\n"
                      "    barrier(CLK_LOCAL_MEM_FENCE);\n"
                      "    y[y0 + get_local_id(0)] = words[255 - get_local_id(0)];\n"
                      "}\n",
                      "", &kernel));
    TEST_OK(r.api->kernel_limits(kernel, &found));
    assert_true(found.max_group_items >= 16);
    assert_true(found.preferred_multiple >= 1);
    assert_true(found.local_bytes <= device->info.local_bytes);
    const tdm_arg arg = rig_buffer_arg(r.memory, 0);
    const tdm_launch launch = {
        .args = &arg, .arg_count = 1, .groups = {1, 1, 1}, .group = {16, 1, 1}};
    TEST_OK(r.api->launch(r.stream, "local", kernel, &launch));
    int32_t words[RIG_WORDS];
    rig_fetch(&r, words);
    for (int i = 0; i < 16; i++)
        assert_int_equal(words[i], 255 - i);
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
 * Adds on a stream of its own; a kernel object shared with another thread would mix up the
 * arguments.
 */
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
