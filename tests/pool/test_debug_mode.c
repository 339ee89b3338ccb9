// Debug mode on devices reports writes outside a tensor by kernels and copies, use of destroyed
// handles, and leaks.
// ctest: device
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/device/device_internal.h"
#include "api/tensor/tensor_internal.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/test_case.h"

#define ELEMENTS 1000

static struct {
    int errors, warnings;
    char errors_text[4096], warnings_text[4096];
} logged;

static void append(char *text, size_t bytes, const char *message) {
    const size_t used = strlen(text);
    snprintf(text + used, bytes - used, "%s\n", message);
}

static void hear(void *user, tdm_log_level level, const char *topic, const char *message) {
    (void)user;
    if (strcmp(topic, "pool") != 0 || !strstr(message, "debug: "))
        return;
    logged.errors += level == TDM_LOG_ERROR;
    logged.warnings += level == TDM_LOG_WARNING;
    if (level == TDM_LOG_ERROR)
        append(logged.errors_text, sizeof logged.errors_text, message);
    else
        append(logged.warnings_text, sizeof logged.warnings_text, message);
}

/* The device under test, opened again in a context in debug mode. */
typedef struct debug_fixture {
    tdm_context *context;
    tdm_device *device;
    tdm_stream *stream;
} debug_fixture;

static debug_fixture open_fixture(const test_device *device) {
    const tdm_context_options options = {.struct_size = sizeof options, .debug_pool = 1};
    debug_fixture rig;
    int index;
    memset(&logged, 0, sizeof logged);
    tdm_set_log(hear, NULL);
    TEST_OK(tdm_context_create(&options, &rig.context));
    TEST_OK(tdm_context_find_device(rig.context, device->info.selector, &index));
    TEST_OK(tdm_device_get(rig.context, index, &rig.device));
    TEST_OK(tdm_stream_create(rig.device, &rig.stream));
    return rig;
}

static void close_fixture(debug_fixture *rig) {
    tdm_stream_destroy(rig->stream);
    tdm_device_release(rig->device);
    tdm_context_destroy(rig->context);
    tdm_set_log(NULL, NULL);
}

static tdm_tensor *vector(const debug_fixture *rig) {
    tdm_tensor *tensor;
    TEST_OK(tdm_tensor_create(rig->device, TDM_F32, 1, (const int64_t[]){ELEMENTS}, &tensor));
    return tensor;
}

static void expect_error(const char *part) {
    if (logged.errors != 1 || !strstr(logged.errors_text, part))
        test_case_fail("%d errors, expected one with '%s': %s", logged.errors, part,
                       logged.errors_text);
    logged.errors = 0;
    logged.errors_text[0] = '\0';
}

DEVICE_TEST(work_inside_its_tensors_is_not_reported) {
    debug_fixture rig = open_fixture(device);
    tdm_tensor *const x = vector(&rig), *const y = vector(&rig);
    float values[ELEMENTS];
    uint64_t reports;
    TEST_OK(tdm_tensor_fill(rig.stream, -3, x));
    TEST_OK(tdm_unary_op(rig.stream, TDM_ABS, x, y));
    TEST_OK(tdm_tensor_read(rig.stream, y, values, sizeof values, NULL));
    for (int i = 0; i < ELEMENTS; i++)
        assert_true(values[i] == 3);
    TEST_OK(tdm_device_check_memory(rig.device, &reports));
    assert_int_equal(reports, 0);
    tdm_tensor_destroy(x);
    tdm_tensor_destroy(y);
    close_fixture(&rig);
    assert_int_equal(logged.errors, 0);
    assert_int_equal(logged.warnings, 0);
}

DEVICE_TEST(memory_that_was_never_written_reads_nan) {
    debug_fixture rig = open_fixture(device);
    tdm_tensor *const x = vector(&rig);
    float values[ELEMENTS];
    TEST_OK(tdm_tensor_read(rig.stream, x, values, sizeof values, NULL));
    for (int i = 0; i < ELEMENTS; i++)
        assert_true(values[i] != values[i]);
    tdm_tensor_destroy(x);
    close_fixture(&rig);
}

DEVICE_TEST(the_report_of_a_kernel_names_tag_and_place) {
    debug_fixture rig = open_fixture(device);
    uint64_t reports;
    TEST_OK(tdm_memory_tag_push("victim"));
    tdm_tensor *const y = vector(&rig);
    TEST_OK(tdm_memory_tag_pop());
    y->offset += 7;
    TEST_OK(tdm_unary_op(rig.stream, TDM_NEG, y, y));
    TEST_OK(tdm_device_check_memory(rig.device, &reports));
    assert_int_equal(reports, 1);
    // A change of sign changes one byte of each element.
    assert_non_null(strstr(logged.errors_text, "7 bytes were written"));
    assert_non_null(strstr(logged.errors_text, "tag victim"));
    assert_non_null(strstr(logged.errors_text, "(4000 bytes"));
    assert_non_null(strstr(logged.errors_text, "allocated at test_debug_mode("));
    expect_error("the first 3 bytes after its end");
    // The check repaired the guard zone, so destroying the tensor reports nothing more.
    tdm_tensor_destroy(y);
    close_fixture(&rig);
    assert_int_equal(logged.errors, 0);
}

DEVICE_TEST(copies_outside_a_block_are_reported) {
    debug_fixture rig = open_fixture(device);
    tdm_buffer *buffer;
    const uint32_t word = 0;
    TEST_OK(tdm_buffer_create(rig.device, 1001, &buffer));
    TEST_OK(tdm_enqueue_write(rig.stream, "test", buffer->block, 1001 + 5, &word, 4));
    TEST_OK(tdm_stream_synchronize(rig.stream));
    tdm_buffer_destroy(buffer);
    expect_error("the first 5 bytes after its end");
    TEST_OK(tdm_buffer_create(rig.device, 1001, &buffer));
    TEST_OK(tdm_enqueue_write(rig.stream, "test", buffer->block, (uint64_t)-12, &word, 4));
    TEST_OK(tdm_stream_synchronize(rig.stream));
    tdm_buffer_destroy(buffer);
    expect_error("the first 12 bytes before its start");
    close_fixture(&rig);
    assert_int_equal(logged.errors, 0);
}

DEVICE_TEST(a_tensor_that_was_destroyed_is_refused) {
    debug_fixture rig = open_fixture(device);
    tdm_tensor *const x = vector(&rig), *const gone = vector(&rig);
    tdm_tensor *view;
    tdm_tensor_destroy(gone);
    TEST_REFUSED(tdm_tensor_fill(rig.stream, 1, gone), TDM_BAD_ARGUMENT,
                 "is a tensor that was destroyed");
    TEST_REFUSED(tdm_unary_op(rig.stream, TDM_ABS, x, gone), TDM_BAD_ARGUMENT,
                 "y is a tensor that was destroyed");
    TEST_REFUSED(tdm_tensor_transpose(gone, NULL, &view), TDM_BAD_ARGUMENT, "destroyed");
    assert_null(view);
    assert_int_equal(logged.errors, 0);
    assert_int_equal(tdm_tensor_rank(gone), 0);
    expect_error("tensor_rank: this is a tensor that was destroyed");
    tdm_tensor_destroy(gone);
    expect_error("tensor_destroy: this is a tensor that was destroyed");
    tdm_tensor_destroy(x);
    close_fixture(&rig);
}

DEVICE_TEST(a_buffer_is_given_back_once) {
    debug_fixture rig = open_fixture(device);
    tdm_buffer *buffer;
    tdm_tensor *tensor;
    tdm_layout layout;
    char byte;
    TEST_OK(tdm_buffer_create(rig.device, 64, &buffer));
    TEST_OK(tdm_layout_contiguous(TDM_U8, 1, (const int64_t[]){64}, &layout));
    TEST_OK(tdm_tensor_on_buffer(buffer, 0, &layout, &tensor));
    tdm_buffer_destroy(buffer);
    assert_int_equal(logged.errors, 0);
    // The tensor keeps the buffer alive, but the caller has no reference left to release.
    tdm_buffer_destroy(buffer);
    expect_error("buffer_destroy: this is a buffer that was destroyed");
    assert_int_equal(tdm_buffer_size(tdm_tensor_buffer(tensor)), 64);
    tdm_tensor_destroy(tensor);
    assert_int_equal(tdm_buffer_size(buffer), 0);
    expect_error("buffer_size: this is a buffer that was destroyed");
    TEST_REFUSED(tdm_buffer_read(rig.stream, buffer, 0, &byte, 1), TDM_BAD_ARGUMENT,
                 "buffer_read: buffer is a buffer that was destroyed");
    close_fixture(&rig);
}

DEVICE_TEST(what_is_no_handle_is_recognized) {
    debug_fixture rig = open_fixture(device);
    tdm_tensor *const x = vector(&rig);
    TEST_REFUSED(tdm_tensor_fill(rig.stream, 1, (tdm_tensor *)tdm_tensor_buffer(x)),
                 TDM_BAD_ARGUMENT, "is a buffer, not a tensor");
    tdm_buffer_destroy((tdm_buffer *)x);
    expect_error("buffer_destroy: this is a tensor, not a buffer");
    tdm_tensor_destroy(x);
    close_fixture(&rig);
}

/* Optional operands are checked too, and none is read before its check. */
DEVICE_TEST(a_product_refuses_operands_that_are_none) {
    debug_fixture rig = open_fixture(device);
    tdm_tensor *x, *gone;
    TEST_OK(tdm_tensor_create(rig.device, TDM_F32, 2, (const int64_t[]){8, 8}, &x));
    TEST_OK(tdm_tensor_create(rig.device, TDM_F32, 3, (const int64_t[]){2, 3, 5}, &gone));
    tdm_tensor_destroy(gone);
    const tdm_tensor *const wrong[2] = {gone, (const tdm_tensor *)tdm_tensor_buffer(x)};
    const char *const what[2] = {"a tensor that was destroyed", "a buffer, not a tensor"};
    for (int i = 0; i < 2; i++) {
        char text[64];
        const tdm_gemm_epilogue bias = {.struct_size = sizeof bias, .bias = wrong[i]};
        const tdm_gemm_epilogue residual = {.struct_size = sizeof residual, .residual = wrong[i]};
        snprintf(text, sizeof text, "gemm: C is %s", what[i]);
        TEST_REFUSED(tdm_gemm(rig.stream, 1, x, x, 1, wrong[i], x, NULL), TDM_BAD_ARGUMENT, text);
        snprintf(text, sizeof text, "gemm: bias is %s", what[i]);
        TEST_REFUSED(tdm_gemm(rig.stream, 1, x, x, 0, NULL, x, &bias), TDM_BAD_ARGUMENT, text);
        snprintf(text, sizeof text, "gemm: residual is %s", what[i]);
        TEST_REFUSED(tdm_gemm(rig.stream, 1, x, x, 0, NULL, x, &residual), TDM_BAD_ARGUMENT, text);
    }
    assert_int_equal(logged.errors, 0);
    tdm_tensor_destroy(x);
    close_fixture(&rig);
}

DEVICE_TEST(leaks_are_listed_with_tag_and_site) {
    debug_fixture rig = open_fixture(device);
    tdm_buffer *buffer;
    TEST_OK(tdm_memory_tag_push("forgotten"));
    tdm_tensor *const tensor = vector(&rig);
    TEST_OK(tdm_buffer_create(rig.device, 12345, &buffer));
    TEST_OK(tdm_memory_tag_pop());
    close_fixture(&rig);
    assert_int_equal(logged.warnings, 3);
    assert_non_null(strstr(logged.warnings_text, "a tensor of 4000 bytes"));
    assert_non_null(strstr(logged.warnings_text, "a buffer of 12345 bytes"));
    assert_non_null(strstr(logged.warnings_text, "tag forgotten), created at test_debug_mode("));
    assert_non_null(
        strstr(logged.warnings_text, "but 2 buffers and tensors of 16345 bytes are still alive"));
    tdm_tensor_destroy(tensor);
    tdm_buffer_destroy(buffer);
}

/* Checks the debug settings that a context reads from the words of TANDEM_POOL. */
DEVICE_TEST(the_environment_asks_for_reports_that_end_the_process) {
    static const struct {
        const char *words;
        bool debug, aborts;
    } cases[] = {{"debug", true, false},
                 {"debug,abort", true, true},
                 {"abort,debug", true, true},
                 {"abort", false, false},
                 {"debugger,abort", false, false}};
    char before[64] = "";
    const char *const given = getenv("TANDEM_POOL");
    (void)device;
    snprintf(before, sizeof before, "%s", given ? given : "");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tdm_context *context;
        setenv("TANDEM_POOL", cases[i].words, 1);
        TEST_OK(tdm_context_create(NULL, &context));
        if (context->debug_pool != cases[i].debug || context->debug_aborts != cases[i].aborts)
            test_case_fail("TANDEM_POOL=%s is taken for something else", cases[i].words);
        tdm_context_destroy(context);
    }
    if (given)
        setenv("TANDEM_POOL", before, 1);
    else
        unsetenv("TANDEM_POOL");
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
