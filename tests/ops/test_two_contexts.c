// Objects of two contexts in one process: they live side by side and refuse each other, by name.
// ctest: device
#include <stdio.h>
#include <string.h>

#include "tests/support/devices/device_cases.h"

typedef struct twin {
    tdm_context *context;
    tdm_device *device;
    tdm_stream *stream;
    tdm_tensor *tensor;
} twin;

#define SHAPE ((const int64_t[]){4, 4})

/* The same physical device, opened by a context of its own. */
static void open_twin(const test_device *device, twin *other) {
    int index;
    TEST_OK(tdm_context_create(NULL, &other->context));
    TEST_OK(tdm_context_find_device(other->context, device->info.selector, &index));
    TEST_OK(tdm_device_get(other->context, index, &other->device));
    TEST_OK(tdm_stream_create(other->device, &other->stream));
    TEST_OK(tdm_tensor_create(other->device, TDM_F32, 2, SHAPE, &other->tensor));
    TEST_OK(tdm_tensor_fill(other->stream, 2, other->tensor));
}

static void close_twin(twin *other) {
    tdm_tensor_destroy(other->tensor);
    tdm_stream_destroy(other->stream);
    tdm_device_release(other->device);
    tdm_context_destroy(other->context);
}

/* The devices have one selector, so the words must tell them apart. */
static void expect_foreign(const test_device *device, tdm_status status, const char *what) {
    char text[512];
    snprintf(text, sizeof text, ": %s is on device %s of another context than the stream", what,
             device->info.selector);
    TEST_REFUSED(status, TDM_BAD_ARGUMENT, text);
}

DEVICE_TEST(mixed_devices_are_refused_by_name) {
    twin other;
    open_twin(device, &other);
    tdm_tensor *ours;
    tdm_event *event;
    tdm_graph *graph;
    float host[16] = {0};
    tdm_stream *const stream = device->stream;
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 2, SHAPE, &ours));
    TEST_OK(tdm_tensor_fill(stream, 1, ours));
    expect_foreign(device, tdm_tensor_fill(stream, 1, other.tensor), "target");
    expect_foreign(device, tdm_tensor_copy(stream, other.tensor, ours), "source");
    expect_foreign(device, tdm_tensor_copy(stream, ours, other.tensor), "target");
    expect_foreign(device, tdm_tensor_convert(stream, other.tensor, ours), "source");
    expect_foreign(device, tdm_tensor_read(stream, other.tensor, host, sizeof host, NULL),
                   "source");
    expect_foreign(device, tdm_tensor_write(stream, host, sizeof host, NULL, other.tensor),
                   "target");
    expect_foreign(device, tdm_unary_op(stream, TDM_RELU, other.tensor, ours), "x");
    expect_foreign(device, tdm_binary_op(stream, TDM_ADD, ours, other.tensor, ours), "b");
    expect_foreign(device, tdm_reduce(stream, TDM_REDUCE_SUM, other.tensor, NULL, 0, ours), "x");
    expect_foreign(device, tdm_softmax(stream, other.tensor, 1, ours), "x");
    expect_foreign(device, tdm_gemm(stream, 1, ours, other.tensor, 0, NULL, ours, NULL), "B");
    TEST_OK(tdm_event_record(other.stream, &event));
    expect_foreign(device, tdm_stream_wait_event(stream, event), "the event");
    tdm_event_destroy(event);
    TEST_OK(tdm_stream_begin_recording(other.stream));
    TEST_OK(tdm_stream_end_recording(other.stream, &graph));
    expect_foreign(device, tdm_graph_launch(graph, stream), "the graph");
    tdm_graph_destroy(graph);
    // Nothing of it changed anything.
    TEST_OK(tdm_tensor_read(stream, ours, host, sizeof host, NULL));
    for (int i = 0; i < 16; i++)
        assert_true(host[i] == 1);
    TEST_OK(tdm_tensor_read(other.stream, other.tensor, host, sizeof host, NULL));
    for (int i = 0; i < 16; i++)
        assert_true(host[i] == 2);
    tdm_tensor_destroy(ours);
    close_twin(&other);
}

DEVICE_TEST(children_keep_their_parents_alive) {
    twin other;
    open_twin(device, &other);
    tdm_context_destroy(other.context);
    tdm_device_release(other.device);
    float host[16] = {0};
    TEST_OK(tdm_tensor_read(other.stream, other.tensor, host, sizeof host, NULL));
    assert_true(host[15] == 2);
    tdm_event *event;
    TEST_OK(tdm_event_record(other.stream, &event));
    tdm_stream_destroy(other.stream);
    tdm_tensor_destroy(other.tensor);
    TEST_OK(tdm_event_wait(event));
    tdm_event_destroy(event);
}

DEVICE_TEST(a_device_opens_again_after_its_last_release) {
    twin other;
    open_twin(device, &other);
    tdm_tensor_destroy(other.tensor);
    tdm_stream_destroy(other.stream);
    tdm_device_release(other.device);
    int index;
    TEST_OK(tdm_context_find_device(other.context, device->info.selector, &index));
    TEST_OK(tdm_device_get(other.context, index, &other.device));
    tdm_memory_stats stats = {.struct_size = sizeof stats};
    TEST_OK(tdm_device_memory_stats(other.device, &stats));
    assert_int_equal(stats.reserved, 0);
    tdm_device_release(other.device);
    tdm_context_destroy(other.context);
}

/* A device that was just opened has built nothing yet. */
DEVICE_TEST(no_kernel_is_built_while_recording) {
    twin other;
    tdm_graph *graph;
    open_twin(device, &other);
    TEST_OK(tdm_stream_begin_recording(other.stream));
    TEST_REFUSED(tdm_softmax(other.stream, other.tensor, 1, other.tensor), TDM_BAD_STATE,
                 "not built yet");
    TEST_REFUSED(tdm_unary_op(other.stream, TDM_EXP, other.tensor, other.tensor), TDM_BAD_STATE,
                 "exp: ");
    TEST_OK(tdm_stream_end_recording(other.stream, &graph));
    assert_int_equal(tdm_graph_command_count(graph), 0);
    tdm_graph_destroy(graph);
    TEST_OK(tdm_softmax(other.stream, other.tensor, 1, other.tensor));
    TEST_OK(tdm_stream_begin_recording(other.stream));
    TEST_OK(tdm_softmax(other.stream, other.tensor, 1, other.tensor));
    TEST_OK(tdm_stream_end_recording(other.stream, &graph));
    assert_int_equal(tdm_graph_command_count(graph), 1);
    tdm_graph_destroy(graph);
    close_twin(&other);
}

/* Where there are devices, the backends that have none are nobody's question. */
DEVICE_TEST(a_device_that_is_not_there_is_told_by_number_or_name) {
    tdm_context *context;
    tdm_device *none;
    char text[512];
    int index;
    TEST_OK(tdm_context_create(NULL, &context));
    const int count = tdm_context_device_count(context);
    snprintf(text, sizeof text, "device_get: index is %d, there %s %d device%s", count,
             count == 1 ? "is" : "are", count, count == 1 ? "" : "s");
    assert_int_equal(tdm_device_get(context, count, &none), TDM_NO_DEVICE);
    assert_string_equal(tdm_last_detail(), text);
    assert_int_equal(tdm_device_get(context, -1, &none), TDM_NO_DEVICE);
    assert_int_equal(tdm_context_find_device(context, "no such", &index), TDM_NO_DEVICE);
    assert_non_null(strstr(tdm_last_detail(), "devices: 0="));
    assert_non_null(strstr(tdm_last_detail(), device->info.selector));
    for (int i = 0; i < tdm_context_note_count(context); i++)
        assert_null(strstr(tdm_last_detail(), tdm_context_note(context, i)));
    tdm_context_destroy(context);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(mixed_devices_are_refused_by_name),
        cmocka_unit_test(children_keep_their_parents_alive),
        cmocka_unit_test(a_device_opens_again_after_its_last_release),
        cmocka_unit_test(no_kernel_is_built_while_recording),
        cmocka_unit_test(a_device_that_is_not_there_is_told_by_number_or_name),
    };
    return cmocka_run_group_tests_name("two contexts", tests, test_devices_setup,
                                       test_devices_teardown);
}
