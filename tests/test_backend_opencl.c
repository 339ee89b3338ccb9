// The OpenCL backend through its row of functions, on every device of the run.
// ctest: device threads
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/core.h"
#include "backend_opencl/opencl_api.h"
#include "tests/support/test_devices.h"

#include <tandem/opencl.h>

#define WORDS 1024
/* More than the backend's ring of commands in flight holds at first. */
#define MANY 700

/* A device of the run, with a native stream and memory of a test's own. */
typedef struct rig {
    const test_device *device;
    const tdm_backend *api;
    tdm_bk_device *native;
    tdm_bk_stream *stream;
    tdm_bk_memory *memory; /* WORDS 32-bit words */
} rig;

/* A memory checker reports what these cases do on purpose. */
static bool is_checker(const test_device *device) {
    return !(device->info.capabilities & TDM_CAP_SLABS);
}

static rig rig_open(const test_device *device) {
    rig r = {.device = device, .api = device->device->api, .native = device->device->native};
    TEST_OK(r.api->stream_create(r.native, &r.stream));
    TEST_OK(r.api->memory_alloc(r.native, TDM_MEMORY_DEVICE, WORDS * sizeof(int32_t), &r.memory));
    return r;
}

static tdm_status rig_wait(const rig *r) {
    const char *failed;
    return r->api->stream_wait(r->stream, &failed);
}

static void rig_close(rig *r) {
    TEST_OK(rig_wait(r));
    r->api->memory_free(r->native, r->memory);
    r->api->stream_destroy(r->stream);
}

static void rig_fetch(const rig *r, int32_t words[WORDS]) {
    TEST_OK(r->api->read(r->stream, "fetch", r->memory, 0, words, WORDS * sizeof(int32_t)));
    TEST_OK(rig_wait(r));
}

static tdm_status build(const rig *r, const char *entry, const char *text, const char *defines,
                        tdm_bk_kernel **kernel) {
    const tdm_kernel_source source = {
        .entry = entry, .text = text, .text_bytes = strlen(text), .defines = defines};
    return r->api->kernel_build(r->native, &source, kernel);
}

static tdm_arg buffer_arg(tdm_bk_memory *memory, int64_t offset) {
    return (tdm_arg){.kind = TDM_ARG_BUFFER, .value.buffer = {.memory = memory, .offset = offset}};
}

/* Runs `body` as a case on every device. */
static void on_every_device(const char *name, void (*body)(const test_device *device)) {
    for (int i = 0; i < test_device_count(); i++) {
        const test_device *const device = test_device_at(i);
        if (!test_case_begin(device, NULL, "%s", name))
            continue;
        body(device);
        test_case_end();
    }
}

/* ---- what is known of drivers ---------------------------------------------------------------- */

/* Cases below pass over what a device does not claim, so the tested drivers must claim it. */
static void capabilities(const test_device *device) {
    static const struct {
        const char *family;
        uint32_t claimed, refused;
    } rows[] = {
        {"pocl",
         TDM_CAP_CPU_CORES | TDM_CAP_UNIFIED_MEMORY | TDM_CAP_PROFILING | TDM_CAP_HOST_TASK |
             TDM_CAP_SLABS,
         TDM_CAP_LOCAL_MEMORY},
        {"rusticl", TDM_CAP_SLABS, TDM_CAP_CPU_CORES | TDM_CAP_HOST_AVX2},
        {"oclgrind", TDM_CAP_CPU_CORES | TDM_CAP_LOCAL_MEMORY,
         TDM_CAP_SLABS | TDM_CAP_HOST_TASK | TDM_CAP_HOST_AVX2},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (strcmp(device->info.driver_family, rows[i].family) == 0) {
            assert_int_equal(device->info.capabilities & rows[i].claimed, rows[i].claimed);
            assert_int_equal(device->info.capabilities & rows[i].refused, 0);
        }
    assert_true(device->info.alignment_bytes >= 64);
    assert_int_equal(device->info.alignment_bytes & (device->info.alignment_bytes - 1), 0);
    assert_true(device->info.max_group[0] >= 1 && device->info.compute_units >= 1);
}

/* ---- copies and fills ------------------------------------------------------------------------ */

static void copies(const test_device *device) {
    rig r = rig_open(device);
    uint8_t host[4096], expected[4096], found[4096];
    for (size_t i = 0; i < sizeof host; i++)
        host[i] = (uint8_t)(i * 31 + i / 256);
    memcpy(expected, host, sizeof expected);
    TEST_OK(r.api->write(r.stream, "write", r.memory, 0, host, sizeof host));
    TEST_OK(r.api->write(r.stream, "write", r.memory, 17, host + 1000, 333));
    memcpy(expected + 17, host + 1000, 333);
    TEST_OK(r.api->copy(r.stream, "copy", r.memory, 2001, r.memory, 3, 997));
    memmove(expected + 2001, expected + 3, 997);
    TEST_OK(r.api->read(r.stream, "read", r.memory, 0, found, sizeof found));
    TEST_OK(rig_wait(&r));
    assert_memory_equal(found, expected, sizeof found);
    memset(found, 0, sizeof found);
    TEST_OK(r.api->read(r.stream, "read", r.memory, 4095, found, 1));
    TEST_OK(rig_wait(&r));
    assert_int_equal(found[0], expected[4095]);
    rig_close(&r);
}

static void fills(const test_device *device) {
    rig r = rig_open(device);
    uint8_t expected[4096], found[4096];
    memset(expected, 0xee, sizeof expected);
    TEST_OK(r.api->write(r.stream, "write", r.memory, 0, expected, sizeof expected));
    uint64_t offset = 64;
    for (size_t bytes = 1; bytes <= 8; bytes *= 2, offset += 512) {
        uint8_t pattern[8] = {1, 2, 3, 4, 5, 6, 7, 8};
        TEST_OK(r.api->fill(r.stream, "fill", r.memory, offset, 40 * bytes, pattern, bytes));
        for (size_t i = 0; i < 40 * bytes; i++)
            expected[offset + i] = pattern[i % bytes];
        // The pattern is read during the call only.
        memset(pattern, 0xff, sizeof pattern);
    }
    TEST_OK(r.api->read(r.stream, "read", r.memory, 0, found, sizeof found));
    TEST_OK(rig_wait(&r));
    assert_memory_equal(found, expected, sizeof found);
    rig_close(&r);
}

static void pinned_memory(const test_device *device) {
    rig r = rig_open(device);
    tdm_bk_memory *pinned;
    void *address, *again;
    TEST_OK(r.api->memory_alloc(r.native, TDM_MEMORY_PINNED, 4096, &pinned));
    TEST_OK(r.api->memory_host_address(r.stream, pinned, &address));
    TEST_OK(r.api->memory_host_address(r.stream, pinned, &again));
    assert_ptr_equal(address, again);
    memset(address, 0x5a, 2048);
    TEST_OK(r.api->write(r.stream, "write", r.memory, 0, address, 2048));
    TEST_OK(r.api->read(r.stream, "read", r.memory, 0, (uint8_t *)address + 2048, 2048));
    TEST_OK(rig_wait(&r));
    assert_memory_equal(address, (uint8_t *)address + 2048, 2048);
    r.api->memory_free(r.native, pinned);
    rig_close(&r);
}

static void oversized_memory(const test_device *device) {
    rig r = rig_open(device);
    tdm_bk_memory *memory = r.memory;
    TEST_REFUSED(r.api->memory_alloc(r.native, TDM_MEMORY_DEVICE,
                                     (size_t)device->info.max_alloc_bytes + 1, &memory),
                 TDM_UNSUPPORTED, "largest single allocation");
    assert_ptr_equal(memory, r.memory);
    rig_close(&r);
}

/* A native code becomes the status that the core's out-of-memory ladder understands. */
static void memory_codes(const test_device *device) {
    static const struct {
        int code;
        tdm_status status;
    } rows[] = {
        {CL_MEM_OBJECT_ALLOCATION_FAILURE, TDM_OUT_OF_DEVICE_MEMORY},
        {CL_OUT_OF_RESOURCES, TDM_OUT_OF_DEVICE_MEMORY},
        {CL_OUT_OF_HOST_MEMORY, TDM_OUT_OF_HOST_MEMORY},
        {CL_INVALID_BUFFER_SIZE, TDM_UNSUPPORTED},
        {CL_INVALID_CONTEXT, TDM_DEVICE_LOST},
    };
    rig r = rig_open(device);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tdm_bk_memory *memory;
        tdm_fault_plant("clCreateBuffer", 1, rows[i].code, false);
        TEST_REFUSED(r.api->memory_alloc(r.native, TDM_MEMORY_DEVICE, 4096, &memory),
                     rows[i].status, tdm_opencl_error_name(rows[i].code));
        tdm_fault_clear();
    }
    rig_close(&r);
}

/* ---- kernels --------------------------------------------------------------------------------- */

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

static void arguments(const test_device *device) {
    rig r = rig_open(device);
    int32_t words[WORDS] = {[3] = 77}, blob[32] = {[0] = -5, [31] = 123456};
    tdm_bk_kernel *kernel;
    TEST_OK(build(&r, "arguments_entry", arguments_text, "-DVALUE=4711", &kernel));
    TEST_OK(r.api->write(r.stream, "write", r.memory, 0, words, sizeof words));
    const tdm_arg args[] = {
        buffer_arg(r.memory, 100),
        {.kind = TDM_ARG_S32, .value.s32 = -42},
        {.kind = TDM_ARG_U32, .value.u32 = 0xfffffff0u},
        {.kind = TDM_ARG_S64, .value.s64 = (INT64_C(7) << 32) | 9},
        {.kind = TDM_ARG_F32, .value.f32 = 1.625f},
        {.kind = TDM_ARG_BLOB, .bytes = sizeof blob, .value.blob = blob},
        {.kind = TDM_ARG_LOCAL, .bytes = 8 * sizeof(int32_t)},
        buffer_arg(r.memory, 3),
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

static void grids(const test_device *device) {
    static const tdm_launch rows[] = {
        {.groups = {1, 1, 1}, .group = {1, 1, 1}}, {.groups = {5, 1, 1}, .group = {3, 1, 1}},
        {.groups = {1, 2, 1}, .group = {1, 1, 1}}, {.groups = {1, 1, 1}, .group = {1, 1, 2}},
        {.groups = {1, 7, 1}, .group = {1, 2, 1}}, {.groups = {3, 2, 2}, .group = {4, 2, 2}},
        {.groups = {1, 1, 9}, .group = {1, 1, 1}}, {.groups = {2, 1, 3}, .group = {2, 4, 1}},
    };
    rig r = rig_open(device);
    tdm_bk_kernel *kernel;
    TEST_OK(build(&r, "ids_entry", ids_text, "", &kernel));
    const tdm_arg arg = buffer_arg(r.memory, 0);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tdm_launch launch = rows[i];
        launch.args = &arg;
        launch.arg_count = 1;
        const int32_t poison = -1;
        TEST_OK(r.api->fill(r.stream, "fill", r.memory, 0, WORDS * 4, &poison, 4));
        TEST_OK(r.api->launch(r.stream, "ids", kernel, &launch));
        int32_t words[WORDS];
        rig_fetch(&r, words);
        const uint32_t size[3] = {launch.groups[0] * launch.group[0],
                                  launch.groups[1] * launch.group[1],
                                  launch.groups[2] * launch.group[2]};
        for (uint32_t at = 0; at < WORDS; at++) {
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

static void build_failures(const test_device *device) {
    if (is_checker(device))
        return;
    rig r = rig_open(device);
    tdm_bk_kernel *kernel = (tdm_bk_kernel *)&r;
    log_note note = {0};
    tdm_set_log(note_log, &note);
    const tdm_status status =
        build(&r, "broken_entry",
              "__kernel void TDM_ENTRY(__global int *y, long y0) {\n y[y0] = undeclared_name;\n}\n",
              "", &kernel);
    tdm_set_log(NULL, NULL);
    assert_int_equal(status, TDM_BUILD_FAILED);
    assert_ptr_equal(kernel, (tdm_bk_kernel *)&r);
    assert_non_null(strstr(tdm_last_detail(), "broken_entry"));
    assert_non_null(strstr(tdm_last_detail(), "undeclared_name"));
    assert_true(atomic_load(&note.lines) > 0);
    assert_false(atomic_load(&note.multi_line));
    TEST_REFUSED(build(&r, "absent_entry",
                       "__kernel void other_name(__global int *y) { y[0] = 1; }\n", "", &kernel),
                 TDM_BUILD_FAILED, "absent_entry");
    rig_close(&r);
}

static void launch_failures(const test_device *device) {
    if (is_checker(device))
        return;
    rig r = rig_open(device);
    tdm_bk_kernel *kernel;
    TEST_OK(build(&r, "ids_entry", ids_text, "", &kernel));
    const tdm_arg args[2] = {buffer_arg(r.memory, 0), {.kind = TDM_ARG_S32}};
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

static void limits(const test_device *device) {
    rig r = rig_open(device);
    tdm_bk_kernel *kernel;
    tdm_kernel_limits found = {0};
    TEST_OK(build(&r, "local_entry",
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
    const tdm_arg arg = buffer_arg(r.memory, 0);
    const tdm_launch launch = {
        .args = &arg, .arg_count = 1, .groups = {1, 1, 1}, .group = {16, 1, 1}};
    TEST_OK(r.api->launch(r.stream, "local", kernel, &launch));
    int32_t words[WORDS];
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
    rig r = rig_open(self->device);
    const int32_t zero = 0;
    TEST_OK(r.api->fill(r.stream, "fill", r.memory, 0, WORDS * 4, &zero, 4));
    for (int i = 0; i < rounds; i++) {
        const tdm_arg args[2] = {buffer_arg(r.memory, i % 16),
                                 {.kind = TDM_ARG_S32, .value.s32 = self->number}};
        const tdm_launch launch = {
            .args = args, .arg_count = 2, .groups = {4, 1, 1}, .group = {4, 1, 1}};
        TEST_OK(r.api->launch(r.stream, "add", self->kernel, &launch));
    }
    int32_t words[WORDS], expected[WORDS] = {0};
    rig_fetch(&r, words);
    for (int i = 0; i < rounds; i++)
        for (int j = 0; j < 16; j++)
            expected[i % 16 + j] += self->number;
    self->right = memcmp(words, expected, sizeof expected) == 0;
    rig_close(&r);
    return NULL;
}

static void threads_share_a_kernel(const test_device *device) {
    rig r = rig_open(device);
    tdm_bk_kernel *kernel;
    TEST_OK(build(&r, "add_entry", add_text, "", &kernel));
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

/* ---- order ----------------------------------------------------------------------------------- */

static void sleep_ms(long milliseconds) {
    const struct timespec pause = {.tv_nsec = milliseconds * 1000000};
    nanosleep(&pause, NULL);
}

typedef struct task_note {
    int32_t source, target; /* host words that commands before and after the task write and read */
    int32_t seen;
    atomic_int calls;
} task_note;

/* Sees what the read before it fetched, and changes what the write after it will take. */
static void run_note(void *user) {
    task_note *const note = user;
    sleep_ms(5);
    note->seen = note->target;
    note->source = 222;
    atomic_fetch_add(&note->calls, 1);
}

static void host_tasks(const test_device *device) {
    if (!(device->info.capabilities & TDM_CAP_HOST_TASK))
        return;
    rig r = rig_open(device);
    task_note note = {.source = 111};
    for (int round = 0; round < 5; round++) {
        note = (task_note){.source = 111};
        TEST_OK(r.api->write(r.stream, "write", r.memory, 0, &note.source, 4));
        TEST_OK(r.api->read(r.stream, "read", r.memory, 0, &note.target, 4));
        TEST_OK(r.api->host_task(r.stream, "task", run_note, &note));
        TEST_OK(r.api->write(r.stream, "write", r.memory, 4, &note.source, 4));
        TEST_OK(r.api->host_task(r.stream, "task", run_note, &note));
        TEST_OK(rig_wait(&r));
        assert_int_equal(note.seen, 111);
        assert_int_equal(atomic_load(&note.calls), 2);
        int32_t words[WORDS];
        rig_fetch(&r, words);
        assert_int_equal(words[0], 111);
        assert_int_equal(words[1], 222);
    }
    rig_close(&r);
}

static void open_gate(void *user) {
    while (!atomic_load((atomic_bool *)user))
        sleep_ms(1);
}

/* Far more commands in flight than the ring first holds, while a host task stops the stream. */
static void many_in_flight(const test_device *device) {
    rig r = rig_open(device);
    const bool gated = (device->info.capabilities & TDM_CAP_HOST_TASK) != 0;
    atomic_bool gate = false;
    int32_t values[MANY], words[WORDS];
    if (gated)
        TEST_OK(r.api->host_task(r.stream, "gate", open_gate, &gate));
    for (int i = 0; i < MANY; i++) {
        values[i] = i * i;
        TEST_OK(r.api->write(r.stream, "write", r.memory, (uint64_t)i * 4, &values[i], 4));
    }
    atomic_store(&gate, true);
    rig_fetch(&r, words);
    assert_memory_equal(words, values, sizeof values);
    rig_close(&r);
}

static void events(const test_device *device) {
    rig r = rig_open(device);
    tdm_bk_stream *other;
    tdm_bk_event *event, *second;
    bool done = false;
    TEST_OK(r.api->stream_create(r.native, &other));
    int32_t one = 1, found = 0;
    TEST_OK(r.api->write(r.stream, "write", r.memory, 0, &one, 4));
    TEST_OK(r.api->event_record(r.stream, &event));
    TEST_OK(r.api->stream_wait_event(other, event));
    TEST_OK(r.api->read(other, "read", r.memory, 0, &found, 4));
    TEST_OK(r.api->event_record(other, &second));
    TEST_OK(r.api->event_wait(second));
    assert_int_equal(found, 1);
    TEST_OK(r.api->event_query(event, &done));
    assert_true(done);
    if (device->info.capabilities & TDM_CAP_PROFILING) {
        uint64_t first_time, second_time;
        tdm_bk_event *third;
        sleep_ms(2);
        TEST_OK(r.api->event_record(r.stream, &third));
        TEST_OK(r.api->event_wait(third));
        TEST_OK(r.api->event_time(second, &first_time));
        TEST_OK(r.api->event_time(third, &second_time));
        assert_true(second_time - first_time >= 1000000 && second_time - first_time < 2000000000);
        r.api->event_destroy(third);
    }
    r.api->event_destroy(event);
    r.api->event_destroy(second);
    const char *failed;
    TEST_OK(r.api->stream_wait(other, &failed));
    r.api->stream_destroy(other);
    rig_close(&r);
}

/* An event that is recorded behind a closed gate is not done, and then it is. */
static void events_are_not_done_early(const test_device *device) {
    if (!(device->info.capabilities & TDM_CAP_HOST_TASK))
        return;
    rig r = rig_open(device);
    atomic_bool gate = false;
    bool done = true;
    tdm_bk_event *event;
    TEST_OK(r.api->host_task(r.stream, "gate", open_gate, &gate));
    TEST_OK(r.api->event_record(r.stream, &event));
    TEST_OK(r.api->event_query(event, &done));
    assert_false(done);
    atomic_store(&gate, true);
    TEST_OK(r.api->event_wait(event));
    TEST_OK(r.api->event_query(event, &done));
    assert_true(done);
    r.api->event_destroy(event);
    rig_close(&r);
}

/* Waiting right after a flush must still wait: rusticl's clFinish does not. */
static void wait_after_flush(const test_device *device) {
    const size_t words = test_is_small() ? 1u << 16 : 1u << 21;
    rig r = rig_open(device);
    tdm_bk_memory *large;
    int32_t *const host = calloc(words, sizeof *host);
    assert_non_null(host);
    const int32_t pattern = 0x12345678;
    TEST_OK(r.api->memory_alloc(r.native, TDM_MEMORY_DEVICE, words * sizeof *host, &large));
    TEST_OK(r.api->fill(r.stream, "fill", large, 0, words * sizeof *host, &pattern, 4));
    TEST_OK(r.api->read(r.stream, "read", large, 0, host, words * sizeof *host));
    TEST_OK(r.api->stream_flush(r.stream));
    TEST_OK(rig_wait(&r));
    assert_int_equal(host[words - 1], pattern);
    free(host);
    r.api->memory_free(r.native, large);
    rig_close(&r);
}

/* ---- failures after enqueue ------------------------------------------------------------------ */

/* The driver tells of a failed command only through its event: the second of three fails. */
static void failure_is_named(const test_device *device) {
    rig r = rig_open(device);
    int32_t word = 5;
    TEST_OK(r.api->write(r.stream, "first_write", r.memory, 0, &word, 4));
    TEST_OK(r.api->write(r.stream, "second_write", r.memory, 0, &word, 4));
    TEST_OK(r.api->write(r.stream, "third_write", r.memory, 0, &word, 4));
    const char *failed = NULL;
    tdm_fault_plant("clGetEventInfo", 2, CL_OUT_OF_RESOURCES, true);
    const tdm_status status = r.api->stream_wait(r.stream, &failed);
    tdm_fault_clear();
    assert_int_equal(status, TDM_INTERNAL);
    assert_string_equal(failed, "second_write");
    assert_non_null(strstr(tdm_last_detail(), "CL_OUT_OF_RESOURCES"));
    // Told once; the stream works on.
    failed = "something";
    TEST_OK(r.api->stream_wait(r.stream, &failed));
    assert_null(failed);
    rig_close(&r);
}

/* A flush that fails by itself is told by the wait too. */
static void failed_flush_is_named(const test_device *device) {
    rig r = rig_open(device);
    int32_t word = 5;
    const char *failed = NULL;
    tdm_fault_plant("clFlush", 1, CL_OUT_OF_HOST_MEMORY, false);
    for (int i = 0; i < 100; i++)
        TEST_OK(r.api->write(r.stream, "write", r.memory, 0, &word, 4));
    const tdm_status status = r.api->stream_wait(r.stream, &failed);
    assert_true(tdm_fault_clear() >= 2); // a long run is flushed on the way
    assert_int_equal(status, TDM_OUT_OF_HOST_MEMORY);
    assert_string_equal(failed, "write");
    rig_close(&r);
}

/* ---- the core's view: sticky failures -------------------------------------------------------- */

static void failed_wait_is_sticky(const test_device *device) {
    tdm_stream *stream;
    tdm_buffer *buffer;
    int32_t word = 1;
    TEST_OK(tdm_stream_create(device->device, &stream));
    TEST_OK(tdm_buffer_create(device->device, 4, &buffer));
    TEST_OK(tdm_buffer_write(stream, buffer, 0, &word, 4));
    tdm_fault_plant("clFinish", 1, CL_OUT_OF_RESOURCES, false);
    TEST_REFUSED(tdm_stream_synchronize(stream), TDM_INTERNAL, "CL_OUT_OF_RESOURCES");
    tdm_fault_clear();
    TEST_REFUSED(tdm_buffer_write(stream, buffer, 0, &word, 4), TDM_INTERNAL,
                 "CL_OUT_OF_RESOURCES");
    TEST_OK(tdm_stream_clear_failure(stream));
    TEST_OK(tdm_buffer_write(stream, buffer, 0, &word, 4));
    TEST_OK(tdm_stream_synchronize(stream));
    tdm_buffer_destroy(buffer);
    tdm_stream_destroy(stream);
}

typedef struct slow_task {
    atomic_bool begun;
    int32_t *memory; /* the caller's, who frees it after the wait */
} slow_task;

static void write_slowly(void *user) {
    slow_task *const task = user;
    atomic_store(&task->begun, true);
    for (int32_t i = 0; i < 10; i++) {
        sleep_ms(10);
        task->memory[i] = i + 1;
    }
}

/* A wait that fails must not leave a host task that writes into the caller's memory. */
static void failed_wait_waits_for_host_tasks(const test_device *device) {
    if (!(device->info.capabilities & TDM_CAP_HOST_TASK))
        return;
    rig r = rig_open(device);
    int32_t word = 5;
    for (int behind = 0; behind < 2; behind++) {
        slow_task task = {.memory = calloc(10, sizeof *task.memory)};
        assert_non_null(task.memory);
        TEST_OK(r.api->write(r.stream, "write", r.memory, 0, &word, 4));
        TEST_OK(r.api->host_task(r.stream, "task", write_slowly, &task));
        if (behind)
            TEST_OK(r.api->write(r.stream, "write", r.memory, 0, &word, 4));
        while (!atomic_load(&task.begun))
            sleep_ms(1);
        tdm_fault_plant("clFinish", 1, CL_OUT_OF_RESOURCES, false);
        const tdm_status status = rig_wait(&r);
        tdm_fault_clear();
        const int32_t last = task.memory[9];
        if (last == 10)
            free(task.memory);
        assert_int_equal(status, TDM_INTERNAL);
        assert_int_equal(last, 10);
    }
    rig_close(&r);
}

/* ---- native handles -------------------------------------------------------------------------- */

static void native_handles(const test_device *device) {
    tdm_opencl_api cl;
    TEST_OK(tdm_opencl_load(&cl));
    cl_platform_id platform;
    cl_device_id id;
    cl_context context;
    cl_command_queue queue;
    TEST_OK(tdm_opencl_handles_of_device(device->device, &platform, &id, &context));
    TEST_OK(tdm_opencl_handles_of_device(device->device, NULL, NULL, NULL));
    TEST_OK(tdm_opencl_queue_of_stream(device->stream, &queue));
    char name[256] = "";
    assert_int_equal(cl.clGetDeviceInfo(id, CL_DEVICE_NAME, sizeof name, name, NULL), CL_SUCCESS);
    assert_non_null(strstr(name, device->info.name));

    cl_int code;
    const cl_mem memory = cl.clCreateBuffer(context, CL_MEM_READ_WRITE, 64, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    tdm_buffer *buffer, *own;
    TEST_REFUSED(tdm_buffer_from_opencl(device->device, memory, 65, &buffer), TDM_BAD_ARGUMENT,
                 "64 bytes, not 65");
    assert_null(buffer);
    TEST_REFUSED(tdm_buffer_from_opencl(device->device, NULL, 64, &buffer), TDM_BAD_ARGUMENT,
                 "memory is NULL");
    TEST_REFUSED(tdm_buffer_from_opencl(device->device, memory, 0, &buffer), TDM_BAD_ARGUMENT,
                 "bytes is 0");
    TEST_OK(tdm_buffer_from_opencl(device->device, memory, 64, &buffer));
    cl_uint held = 0, left = 0;
    uint32_t written[16], read[16] = {0};
    for (uint32_t i = 0; i < 16; i++)
        written[i] = 3 * i + 1;
    TEST_OK(tdm_buffer_write(device->stream, buffer, 0, written, 64));
    // The stream's own queue keeps the order.
    assert_int_equal(cl.clEnqueueReadBuffer(queue, memory, CL_TRUE, 0, 64, read, 0, NULL, NULL),
                     CL_SUCCESS);
    assert_memory_equal(read, written, sizeof read);
    cl.clGetMemObjectInfo(memory, CL_MEM_REFERENCE_COUNT, sizeof held, &held, NULL);
    tdm_buffer_destroy(buffer);
    cl.clGetMemObjectInfo(memory, CL_MEM_REFERENCE_COUNT, sizeof left, &left, NULL);
    assert_true(left < held); // drivers hold some of their own for a while

    TEST_OK(tdm_buffer_create(device->device, 64, &own));
    cl_mem own_memory;
    size_t offset;
    TEST_OK(tdm_opencl_memory_of_buffer(own, &own_memory, &offset));
    TEST_OK(tdm_buffer_write(device->stream, own, 0, written, 64));
    memset(read, 0, sizeof read);
    assert_int_equal(
        cl.clEnqueueReadBuffer(queue, own_memory, CL_TRUE, offset, 64, read, 0, NULL, NULL),
        CL_SUCCESS);
    assert_memory_equal(read, written, sizeof read);
    tdm_buffer_destroy(own);
    cl.clReleaseMemObject(memory);
    tdm_opencl_unload(&cl);
}

/*
 * A stream whose queue was handed out is waited for also when nothing of ours is on it: what was
 * enqueued and flushed on the queue itself is done.
 */
static void queue_that_was_handed_out(const test_device *device) {
    const size_t bytes = test_is_small() ? 1u << 18 : 1u << 24;
    tdm_opencl_api cl;
    TEST_OK(tdm_opencl_load(&cl));
    tdm_stream *stream;
    cl_context context;
    cl_command_queue queue;
    TEST_OK(tdm_stream_create(device->device, &stream));
    TEST_OK(tdm_opencl_handles_of_device(device->device, NULL, NULL, &context));
    TEST_OK(tdm_opencl_queue_of_stream(stream, &queue));
    cl_int code;
    const cl_mem memory = cl.clCreateBuffer(context, CL_MEM_READ_WRITE, bytes, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    const int32_t pattern = 0x12345678;
    for (int round = 0; round < 3; round++) {
        TEST_OK(tdm_stream_synchronize(stream));
        cl_event event;
        for (int i = 0; i < 4; i++)
            assert_int_equal(cl.clEnqueueFillBuffer(queue, memory, &pattern, sizeof pattern, 0,
                                                    bytes, 0, NULL, i == 3 ? &event : NULL),
                             CL_SUCCESS);
        assert_int_equal(cl.clFlush(queue), CL_SUCCESS);
        tdm_fault_plant("clEnqueueMarkerWithWaitList", -1, 0, false);
        TEST_OK(tdm_stream_synchronize(stream));
        assert_true(tdm_fault_clear() >= 1);
        cl_int state = CL_QUEUED;
        assert_int_equal(
            cl.clGetEventInfo(event, CL_EVENT_COMMAND_EXECUTION_STATUS, sizeof state, &state, NULL),
            CL_SUCCESS);
        cl.clReleaseEvent(event);
        assert_int_equal(state, CL_COMPLETE);
    }
    tdm_stream_destroy(stream);
    cl.clReleaseMemObject(memory);
    tdm_opencl_unload(&cl);
}

static void foreign_context(const test_device *device) {
    tdm_opencl_api cl;
    TEST_OK(tdm_opencl_load(&cl));
    cl_device_id id;
    cl_int code;
    TEST_OK(tdm_opencl_handles_of_device(device->device, NULL, &id, NULL));
    const cl_context context = cl.clCreateContext(NULL, 1, &id, NULL, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    const cl_mem memory = cl.clCreateBuffer(context, CL_MEM_READ_WRITE, 64, NULL, &code);
    assert_int_equal(code, CL_SUCCESS);
    tdm_buffer *buffer;
    TEST_REFUSED(tdm_buffer_from_opencl(device->device, memory, 64, &buffer), TDM_BAD_ARGUMENT,
                 "another cl_context");
    cl.clReleaseMemObject(memory);
    cl.clReleaseContext(context);
    tdm_opencl_unload(&cl);
}

/* ---- cmocka ---------------------------------------------------------------------------------- */

#define CASES(X)                                                                                   \
    X(capabilities)                                                                                \
    X(copies)                                                                                      \
    X(fills)                                                                                       \
    X(pinned_memory)                                                                               \
    X(oversized_memory)                                                                            \
    X(memory_codes)                                                                                \
    X(arguments)                                                                                   \
    X(grids)                                                                                       \
    X(build_failures)                                                                              \
    X(launch_failures)                                                                             \
    X(limits)                                                                                      \
    X(threads_share_a_kernel)                                                                      \
    X(host_tasks)                                                                                  \
    X(many_in_flight)                                                                              \
    X(events)                                                                                      \
    X(events_are_not_done_early)                                                                   \
    X(wait_after_flush)                                                                            \
    X(failure_is_named)                                                                            \
    X(failed_flush_is_named)                                                                       \
    X(failed_wait_is_sticky)                                                                       \
    X(failed_wait_waits_for_host_tasks)                                                            \
    X(native_handles)                                                                              \
    X(queue_that_was_handed_out)                                                                   \
    X(foreign_context)

#define DEFINE_TEST(name)                                                                          \
    static void test_##name(void **state) {                                                        \
        (void)state;                                                                               \
        on_every_device(#name, name);                                                              \
    }
CASES(DEFINE_TEST)

int main(void) {
    const struct CMUnitTest tests[] = {
#define ROW(name) cmocka_unit_test(test_##name),
        CASES(ROW)
#undef ROW
    };
    return cmocka_run_group_tests(tests, test_devices_setup, test_devices_teardown);
}
