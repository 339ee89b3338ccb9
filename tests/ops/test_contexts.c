// Objects of two contexts in one process coexist, and their refusals name the devices. Structs of
// other library versions are tested too.
// ctest: device
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/own_device.h"
#include "tests/support/gemm/gemm_table.h"
#include "tests/support/test_case.h"

#define SHAPE ((const int64_t[]){4, 4})

/* Opens the same physical device in a context of its own. */
static own_device open_twin(const test_device *device, tdm_tensor **tensor) {
    const own_device other = own_device_open(device, 0);
    TEST_OK(tdm_tensor_create(other.device, TDM_F32, 2, SHAPE, tensor));
    TEST_OK(tdm_tensor_fill(other.stream, 2, *tensor));
    return other;
}

static void close_twin(own_device *other, tdm_tensor *tensor) {
    tdm_tensor_destroy(tensor);
    own_device_close(other);
}

/* The devices have the same selector, so the message must distinguish them in another way. */
static void expect_foreign(const test_device *device, tdm_status status, const char *what) {
    char text[512];
    snprintf(text, sizeof text, ": %s is on device %s of another context than the stream", what,
             device->info.selector);
    TEST_REFUSED(status, TDM_BAD_ARGUMENT, text);
}

DEVICE_TEST(mixed_devices_are_refused_by_name) {
    tdm_tensor *theirs;
    own_device other = open_twin(device, &theirs);
    tdm_tensor *ours;
    tdm_event *event;
    tdm_graph *graph;
    float host[16] = {0};
    tdm_stream *const stream = device->stream;
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 2, SHAPE, &ours));
    TEST_OK(tdm_tensor_fill(stream, 1, ours));
    expect_foreign(device, tdm_tensor_fill(stream, 1, theirs), "target");
    expect_foreign(device, tdm_tensor_copy(stream, theirs, ours), "source");
    expect_foreign(device, tdm_tensor_copy(stream, ours, theirs), "target");
    expect_foreign(device, tdm_tensor_convert(stream, theirs, ours), "source");
    expect_foreign(device, tdm_tensor_read(stream, theirs, host, sizeof host, NULL), "source");
    expect_foreign(device, tdm_tensor_write(stream, host, sizeof host, NULL, theirs), "target");
    expect_foreign(device, tdm_unary_op(stream, TDM_RELU, theirs, ours), "x");
    expect_foreign(device, tdm_binary_op(stream, TDM_ADD, ours, theirs, ours), "b");
    expect_foreign(device, tdm_reduce(stream, TDM_REDUCE_SUM, theirs, NULL, 0, ours), "x");
    expect_foreign(device, tdm_softmax(stream, theirs, 1, ours), "x");
    expect_foreign(device, tdm_gemm(stream, 1, ours, theirs, 0, NULL, ours, NULL), "B");
    TEST_OK(tdm_event_record(other.stream, &event));
    expect_foreign(device, tdm_stream_wait_event(stream, event), "the event");
    tdm_event_destroy(event);
    TEST_OK(tdm_stream_begin_recording(other.stream));
    TEST_OK(tdm_stream_end_recording(other.stream, &graph));
    expect_foreign(device, tdm_graph_launch(graph, stream), "the graph");
    tdm_graph_destroy(graph);
    // None of these calls changed anything.
    TEST_OK(tdm_tensor_read(stream, ours, host, sizeof host, NULL));
    for (int i = 0; i < 16; i++)
        assert_true(host[i] == 1);
    TEST_OK(tdm_tensor_read(other.stream, theirs, host, sizeof host, NULL));
    for (int i = 0; i < 16; i++)
        assert_true(host[i] == 2);
    tdm_tensor_destroy(ours);
    close_twin(&other, theirs);
}

DEVICE_TEST(children_keep_their_parents_alive) {
    tdm_tensor *theirs;
    own_device other = open_twin(device, &theirs);
    tdm_context_destroy(other.context);
    tdm_device_release(other.device);
    float host[16] = {0};
    TEST_OK(tdm_tensor_read(other.stream, theirs, host, sizeof host, NULL));
    assert_true(host[15] == 2);
    tdm_event *event;
    TEST_OK(tdm_event_record(other.stream, &event));
    tdm_stream_destroy(other.stream);
    tdm_tensor_destroy(theirs);
    TEST_OK(tdm_event_wait(event));
    tdm_event_destroy(event);
}

DEVICE_TEST(a_device_opens_again_after_its_last_release) {
    tdm_tensor *theirs;
    own_device other = open_twin(device, &theirs);
    tdm_tensor_destroy(theirs);
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

/* A device that was just opened has built no kernel yet. */
DEVICE_TEST(no_kernel_is_built_while_recording) {
    tdm_tensor *theirs;
    tdm_graph *graph;
    own_device other = open_twin(device, &theirs);
    TEST_OK(tdm_stream_begin_recording(other.stream));
    TEST_REFUSED(tdm_softmax(other.stream, theirs, 1, theirs), TDM_BAD_STATE, "not built yet");
    TEST_REFUSED(tdm_unary_op(other.stream, TDM_EXP, theirs, theirs), TDM_BAD_STATE, "exp: ");
    TEST_OK(tdm_stream_end_recording(other.stream, &graph));
    assert_int_equal(tdm_graph_command_count(graph), 0);
    tdm_graph_destroy(graph);
    TEST_OK(tdm_softmax(other.stream, theirs, 1, theirs));
    TEST_OK(tdm_stream_begin_recording(other.stream));
    TEST_OK(tdm_softmax(other.stream, theirs, 1, theirs));
    TEST_OK(tdm_stream_end_recording(other.stream, &graph));
    assert_int_equal(tdm_graph_command_count(graph), 1);
    tdm_graph_destroy(graph);
    close_twin(&other, theirs);
}

/* If there are devices, the message omits the backends that have none. */
DEVICE_TEST(a_device_that_is_not_there_is_reported_by_number_or_name) {
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

/* ---- structs of other versions of the library: shorter and longer ones ---- */

/* This is a struct of a later version: it has the members that this version knows, and more. */
typedef union later {
    char bytes[8192];
    size_t struct_size;
    tdm_gemm_desc gemm;
    tdm_outofcore_desc outofcore;
    tdm_memory_stats stats;
    tdm_device_info info;
    tdm_context_options options;
} later;

static void plan_is_made(const test_device *device, const tdm_gemm_desc *desc) {
    tdm_gemm_plan *plan = NULL;
    TEST_OK(tdm_gemm_plan_create(device->device, desc, &plan));
    tdm_gemm_plan_destroy(plan);
}

DEVICE_TEST(longer_descriptions_are_read_where_the_rest_is_zero) {
    later given = {.gemm = gemm_small_desc()};
    tdm_gemm_plan *plan = NULL;
    given.struct_size = sizeof given.gemm + 64;
    plan_is_made(device, &given.gemm);
    given.bytes[sizeof given.gemm + 17] = 1;
    TEST_REFUSED(tdm_gemm_plan_create(device->device, &given.gemm, &plan), TDM_BAD_ARGUMENT,
                 "of desc is not 0");
    assert_null(plan);
    given.struct_size = sizeof given.gemm + 16;
    plan_is_made(device, &given.gemm); // the non-zero bytes lie behind the known members
}

/* The descriptor ends at the end of a block of malloc, so that sanitizers detect a read beyond
 * it. */
DEVICE_TEST(shorter_descriptions_are_filled_with_zeros) {
    const tdm_gemm_desc whole = gemm_small_desc();
    const size_t size = offsetof(tdm_gemm_desc, activation) / sizeof(size_t) * sizeof(size_t);
    void *volatile block = malloc(size); // volatile: compilers warn about structs without their end
    tdm_gemm_desc *const shorter = block;
    assert_non_null(shorter);
    memcpy(shorter, &whole, size);
    shorter->struct_size = size;
    plan_is_made(device, shorter);
    free(shorter);
}

DEVICE_TEST(sizes_that_no_version_has_are_refused) {
    static const size_t sizes[] = {0,
                                   1,
                                   7,
                                   sizeof(tdm_gemm_desc) - 1,
                                   sizeof(tdm_gemm_desc) + 1,
                                   (size_t)1 << 20,
                                   SIZE_MAX,
                                   SIZE_MAX - 7};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        tdm_gemm_desc desc = gemm_small_desc();
        tdm_gemm_plan *plan = NULL;
        desc.struct_size = sizes[i];
        TEST_REFUSED(tdm_gemm_plan_create(device->device, &desc, &plan), TDM_BAD_ARGUMENT,
                     "struct_size of desc");
        tdm_memory_stats stats = {.struct_size = sizes[i] == sizeof desc + 1 ? 3 : sizes[i]};
        if (stats.struct_size != sizeof desc - 1)
            TEST_REFUSED(tdm_device_memory_stats(device->device, &stats), TDM_BAD_ARGUMENT,
                         "struct_size of stats");
    }
}

DEVICE_TEST(a_description_within_another_may_grow_at_its_end) {
    later given = {.outofcore = TDM_OUTOFCORE_DESC_INIT};
    tdm_outofcore_plan *plan = NULL;
    given.outofcore.gemm = gemm_small_desc();
    given.outofcore.budget_bytes = 1 << 20;
    given.outofcore.struct_size += 32;
    given.outofcore.gemm.struct_size += 32;
    TEST_OK(tdm_outofcore_plan_create(device->device, &given.outofcore, &plan));
    tdm_outofcore_plan_destroy(plan);
    given.bytes[sizeof given.outofcore + 5] = 1;
    TEST_REFUSED(tdm_outofcore_plan_create(device->device, &given.outofcore, &plan),
                 TDM_BAD_ARGUMENT, "of desc is not 0");
    given.outofcore.struct_size = sizeof given.outofcore;
    TEST_REFUSED(tdm_outofcore_plan_create(device->device, &given.outofcore, &plan),
                 TDM_BAD_ARGUMENT, "struct_size of desc.gemm");
}

DEVICE_TEST(structs_to_be_filled_end_where_the_caller_says) {
    later got;
    memset(&got, 0x5A, sizeof got);
    got.struct_size = sizeof got.info + 24;
    TEST_OK(tdm_device_describe(device->device, &got.info));
    assert_int_equal(got.struct_size, sizeof got.info + 24);
    assert_int_equal(got.info.compute_units, device->info.compute_units);
    for (size_t i = sizeof got.info; i < sizeof got; i++)
        assert_int_equal(got.bytes[i], i < sizeof got.info + 24 ? 0 : 0x5A);
    memset(&got, 0x5A, sizeof got);
    got.struct_size = 2 * sizeof(size_t);
    TEST_OK(tdm_device_memory_stats(device->device, &got.stats));
    for (size_t i = 2 * sizeof(size_t); i < sizeof got; i++)
        assert_int_equal(got.bytes[i], 0x5A);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
