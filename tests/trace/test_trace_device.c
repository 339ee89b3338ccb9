/* Tests traces of devices, which the public API or the environment requests. */
// ctest: device
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bench/trace/trace_data.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/test_case.h"

static char path[64];

static int make_path(void **state) {
    snprintf(path, sizeof path, "/tmp/tandem_trace_XXXXXX");
    const int file = mkstemp(path);
    return file < 0 || close(file) != 0 ? -1 : test_devices_setup(state);
}

static int remove_path(void **state) {
    unlink(path);
    return test_devices_teardown(state);
}

static void load(const char *from, trace_data *trace) {
    file_error error;
    if (trace_load(from, 0, trace, &error) != 0)
        test_case_fail("%s", error.text);
}

/* Allocates a buffer of an odd size under a tag and uses it on the stream. */
static void work(tdm_device *device, tdm_stream *stream, const char *tag) {
    static const char bytes[1234];
    tdm_buffer *buffer;
    TEST_OK(tdm_memory_tag_push(tag));
    TEST_OK(tdm_buffer_create(device, sizeof bytes, &buffer));
    TEST_OK(tdm_memory_tag_pop());
    TEST_OK(tdm_buffer_write(stream, buffer, 0, bytes, sizeof bytes));
    TEST_OK(tdm_stream_synchronize(stream));
    tdm_buffer_destroy(buffer);
}

static void expect_work(const trace_data *trace, const char *selector, const char *tag) {
    assert_string_equal(trace->comment, selector);
    for (size_t i = 0; i < trace->block_count; i++) {
        const trace_block *const block = &trace->blocks[i];
        if (block->bytes != 1234 || block->tag == 0 ||
            strcmp(trace->tags[block->tag - 1], tag) != 0)
            continue;
        int seen[3] = {0};
        for (size_t j = 0; j < trace->event_count; j++)
            if (trace->events[j].block == i)
                seen[trace->events[j].kind]++;
        assert_int_equal(seen[TRACE_ALLOC], 1);
        assert_int_equal(seen[TRACE_USE], 1);
        assert_int_equal(seen[TRACE_FREE], 1);
        return;
    }
    test_case_fail("the block is not in the trace of %zu blocks", trace->block_count);
}

DEVICE_TEST(a_device_is_recorded) {
    tdm_memory_trace *recorder;
    trace_data trace;
    tdm_memory_trace_options options = TDM_MEMORY_TRACE_OPTIONS_INIT;
    options.path = path;
    TEST_OK(tdm_memory_trace_start(device->device, &options, &recorder));
    work(device->device, device->stream, "recorded");
    TEST_OK(tdm_memory_trace_stop(recorder));
    work(device->device, device->stream, "too late");
    load(path, &trace);
    expect_work(&trace, device->info.selector, "recorded");
    for (size_t i = 0; i < trace.tag_count; i++)
        assert_string_not_equal(trace.tags[i], "too late");
    trace_release(&trace);
}

/* Opens the device in a context of its own, like a program that knows nothing about traces. */
static void run_program(const test_device *device, const char *tag) {
    tdm_context *context;
    tdm_device *own;
    tdm_stream *stream;
    int index;
    TEST_OK(tdm_context_create(NULL, &context));
    TEST_OK(tdm_context_find_device(context, device->info.selector, &index));
    TEST_OK(tdm_device_get(context, index, &own));
    TEST_OK(tdm_stream_create(own, &stream));
    work(own, stream, tag);
    tdm_stream_destroy(stream);
    tdm_device_release(own);
    tdm_context_destroy(context);
}

/*
 * The first device of a process writes to the path itself. Each later one appends a number to the
 * path.
 */
DEVICE_TEST(the_environment_asks_for_a_trace) {
    static int opened;
    char numbered[80];
    trace_data trace;
    setenv("TANDEM_MEMORY_TRACE", path, 1);
    for (int i = 0; i < 2; i++) {
        opened++;
        run_program(device, "by the environment");
        if (opened == 1)
            snprintf(numbered, sizeof numbered, "%s", path);
        else
            snprintf(numbered, sizeof numbered, "%s.%d", path, opened);
        load(numbered, &trace);
        expect_work(&trace, device->info.selector, "by the environment");
        trace_release(&trace);
        if (opened > 1)
            unlink(numbered);
    }
    char named[80];
    snprintf(named, sizeof named, "%s-%%p-x", path);
    setenv("TANDEM_MEMORY_TRACE", named, 1);
    opened++;
    run_program(device, "with its process");
    snprintf(named, sizeof named, "%s-%ld-x.%d", path, (long)getpid(), opened);
    load(named, &trace);
    expect_work(&trace, device->info.selector, "with its process");
    trace_release(&trace);
    unlink(named);
    setenv("TANDEM_MEMORY_TRACE", "/nonexistent/trace", 1);
    opened++;
    run_program(device, "undisturbed");
    setenv("TANDEM_MEMORY_TRACE", "", 1);
    run_program(device, "undisturbed");
    unsetenv("TANDEM_MEMORY_TRACE");
}

TEST_MAIN(make_path, remove_path)
