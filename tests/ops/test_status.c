// Tests everything that needs no device: status codes, detail texts, dtypes, log, host allocator.
// ctest: threads
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/device/core.h"
#include "tests/support/test_case.h"

TEST(codes_are_pinned) {
    assert_int_equal(TDM_OK, 0);
    assert_int_equal(TDM_BAD_ARGUMENT, 10);
    assert_int_equal(TDM_UNSUPPORTED, 20);
    assert_int_equal(TDM_OUT_OF_DEVICE_MEMORY, 42);
    assert_int_equal(TDM_INTERNAL, 90);
    assert_string_equal(tdm_status_text(TDM_OVER_BUDGET), "over the memory budget");
    assert_string_equal(tdm_status_text((tdm_status)11), "unknown status");
}

TEST(version_agrees) {
    char text[32];
    snprintf(text, sizeof text, "%d.%d.%d", TDM_VERSION_MAJOR, TDM_VERSION_MINOR,
             TDM_VERSION_PATCH);
    assert_string_equal(tdm_version_text(), text);
    assert_int_equal(tdm_version(), TDM_VERSION_NUMBER);
}

static void *fail_elsewhere(void *user) {
    (void)user;
    tdm_set_detail("of another thread");
    return NULL;
}

TEST(detail_is_the_threads_own) {
    assert_int_equal(tdm_fail(TDM_BAD_SHAPE, "K of A is %d", 512), TDM_BAD_SHAPE);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, fail_elsewhere, NULL), 0);
    pthread_join(thread, NULL);
    assert_string_equal(tdm_last_detail(), "K of A is 512");
    assert_int_equal(tdm_fail_prefix(TDM_BAD_SHAPE, "gemm"), TDM_BAD_SHAPE);
    assert_string_equal(tdm_last_detail(), "gemm: K of A is 512");
}

TEST(a_long_detail_is_cut) {
    char text[8192];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = '\0';
    tdm_set_detail("%s", text);
    assert_in_range(strlen(tdm_last_detail()), 1000, 2047);
    for (int i = 0; i < 5; i++)
        tdm_fail_prefix(TDM_INTERNAL, "%s", text);
    assert_in_range(strlen(tdm_last_detail()), 1000, 2047);
}

TEST(dtypes_are_rows) {
    static const tdm_dtype all[] = {
#define DTYPE(name, value, text, bits, per_unit, unit_bytes, kind) name,
        TDM_DTYPE_LIST(DTYPE)
#undef DTYPE
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        const tdm_dtype_traits *const traits = tdm_dtype_info(all[i]);
        assert_non_null(traits);
        assert_int_equal(traits->bits * traits->elements_per_unit, 8 * traits->unit_bytes);
        assert_int_equal(tdm_dtype_from_name(traits->name), all[i]);
    }
    assert_null(tdm_dtype_info(TDM_DTYPE_NONE));
    assert_null(tdm_dtype_info((tdm_dtype)77));
    assert_string_equal(tdm_dtype_name((tdm_dtype)77), "unknown");
    assert_int_equal(tdm_dtype_from_name(NULL), TDM_DTYPE_NONE);
    assert_int_equal(tdm_dtype_from_name("float"), TDM_DTYPE_NONE);
}

TEST(dtype_bytes_round_up_and_refuse) {
    size_t bytes = 1;
    assert_int_equal(tdm_dtype_bytes(TDM_S4, 5, &bytes), TDM_OK);
    assert_int_equal(bytes, 3);
    assert_int_equal(tdm_dtype_bytes(TDM_F32, 0, &bytes), TDM_OK);
    assert_int_equal(bytes, 0);
    assert_int_equal(tdm_dtype_bytes(TDM_F32, -1, &bytes), TDM_BAD_ARGUMENT);
    assert_int_equal(tdm_dtype_bytes(TDM_F64, INT64_MAX / 4, &bytes), TDM_BAD_SHAPE);
    assert_int_equal(bytes, 0);
    assert_int_equal(tdm_dtype_bytes(TDM_DTYPE_NONE, 1, &bytes), TDM_BAD_DTYPE);
    assert_int_equal(tdm_dtype_bytes(TDM_F32, 1, NULL), TDM_BAD_ARGUMENT);
}

typedef struct log_seen {
    int messages;
    tdm_log_level level;
    char topic[32], text[256];
} log_seen;

static void note_message(void *user, tdm_log_level level, const char *topic, const char *message) {
    log_seen *const seen = user;
    seen->messages++;
    seen->level = level;
    snprintf(seen->topic, sizeof seen->topic, "%s", topic);
    snprintf(seen->text, sizeof seen->text, "%s", message);
}

TEST(log_goes_to_the_callback) {
    log_seen seen = {0};
    tdm_set_log(note_message, &seen);
    assert_true(tdm_log_wanted(TDM_LOG_DEBUG, "dispatch"));
    tdm_log(TDM_LOG_WARNING, "cache", "%d files", 3);
    tdm_set_log(NULL, NULL);
    tdm_log(TDM_LOG_WARNING, "cache", "unheard");
    assert_int_equal(seen.messages, 1);
    assert_int_equal(seen.level, TDM_LOG_WARNING);
    assert_string_equal(seen.topic, "cache");
    assert_string_equal(seen.text, "3 files");
}

TEST(environment_filters_the_default_log) {
    unsetenv("TANDEM_LOG");
    assert_false(tdm_log_wanted(TDM_LOG_ERROR, "driver"));
    setenv("TANDEM_LOG", "warning,dispatch", 1);
    assert_true(tdm_log_wanted(TDM_LOG_ERROR, "driver"));
    assert_true(tdm_log_wanted(TDM_LOG_WARNING, "driver"));
    assert_false(tdm_log_wanted(TDM_LOG_INFO, "driver"));
    assert_true(tdm_log_wanted(TDM_LOG_DEBUG, "dispatch"));
    setenv("TANDEM_LOG", "dispatcher,dis", 1);
    assert_false(tdm_log_wanted(TDM_LOG_DEBUG, "dispatch"));
    setenv("TANDEM_LOG", "all", 1);
    assert_true(tdm_log_wanted(TDM_LOG_DEBUG, "pool"));
    unsetenv("TANDEM_LOG");
}

static long hooked;

static void *hook_allocate(void *user, size_t bytes) {
    hooked++;
    (void)user;
    return malloc(bytes);
}

static void hook_release(void *user, void *pointer) {
    hooked -= pointer != NULL;
    (void)user;
    free(pointer);
}

static void *hook_refuse(void *user, size_t bytes) {
    (void)user;
    (void)bytes;
    return NULL;
}

TEST(host_memory_goes_through_the_hooks) {
    tdm_host_allocator hooks = {.struct_size = sizeof hooks};
    assert_int_equal(tdm_set_host_allocator(&hooks), TDM_BAD_ARGUMENT);
    hooks.allocate = hook_allocate;
    assert_int_equal(tdm_set_host_allocator(&hooks), TDM_BAD_ARGUMENT);
    assert_string_equal(tdm_last_detail(), "set_host_allocator: release is NULL");
    hooks.release = hook_release;
    assert_int_equal(tdm_set_host_allocator(&hooks), TDM_OK);
    tdm_context *context;
    const tdm_context_options none = {.struct_size = sizeof none, .backends = "none"};
    assert_int_equal(tdm_context_create(&none, &context), TDM_OK);
    assert_true(hooked > 0);
    // A block must be freed through the hook that allocated it.
    assert_int_equal(tdm_set_host_allocator(NULL), TDM_BAD_STATE);
    tdm_context_destroy(context);
    assert_int_equal(hooked, 0);
    hooks.allocate = hook_refuse;
    assert_int_equal(tdm_set_host_allocator(&hooks), TDM_OK);
    assert_int_equal(tdm_context_create(&none, &context), TDM_OUT_OF_HOST_MEMORY);
    assert_null(context);
    assert_int_equal(tdm_set_host_allocator(NULL), TDM_OK);
    assert_null(tdm_host_calloc(SIZE_MAX / 2, 3));
}

TEST(contexts_refuse_and_find_nothing) {
    assert_int_equal(tdm_context_create(NULL, NULL), TDM_BAD_ARGUMENT);
    tdm_context_options options = {.struct_size = 3};
    tdm_context *context = (tdm_context *)&options;
    assert_int_equal(tdm_context_create(&options, &context), TDM_BAD_ARGUMENT);
    assert_null(context);
    options = (tdm_context_options){.struct_size = sizeof options, .backends = "none,nor this"};
    assert_int_equal(tdm_context_create(&options, &context), TDM_OK);
    assert_int_equal(tdm_context_device_count(context), 0);
    assert_string_equal(tdm_context_note(context, 0),
                        "\"none\": no such backend; the backends are cuda and opencl");
    assert_string_equal(tdm_context_note(context, 1),
                        "\"nor this\": no such backend; the backends are cuda and opencl");
    assert_null(tdm_context_note(context, 2));
    int found;
    assert_int_equal(tdm_context_find_device(context, "3", &found), TDM_NO_DEVICE);
    tdm_device *device;
    assert_int_equal(tdm_device_get(context, 0, &device), TDM_NO_DEVICE);
    assert_null(device);
    assert_string_equal(
        tdm_last_detail(),
        "device_get: index is 0, there are no devices: \"none\": no such backend; the backends are "
        "cuda and opencl; \"nor this\": no such backend; the backends are cuda and opencl");
    tdm_device_info info = {.struct_size = sizeof info};
    assert_int_equal(tdm_context_device_info(context, 7, &info), TDM_NO_DEVICE);
    assert_non_null(
        strstr(tdm_last_detail(),
               "context_device_info: index is 7, there are no devices: \"none\": no such"));
    int index = 7;
    assert_int_equal(tdm_context_find_device(context, "pocl", &index), TDM_NO_DEVICE);
    assert_non_null(
        strstr(tdm_last_detail(), "matches \"pocl\"; devices: none: \"none\": no such"));
    assert_int_equal(index, -1);
    tdm_context_destroy(context);
    tdm_context_destroy(NULL);
    assert_int_equal(tdm_context_device_count(NULL), 0);
}

TEST(missing_backends_are_noted) {
    tdm_context *context;
    const tdm_context_options options = {.struct_size = sizeof options, .backends = "cuda"};
    assert_int_equal(tdm_context_create(&options, &context), TDM_OK);
    // With a driver there is a device; without one, a note gives the reason.
    assert_int_equal(tdm_context_device_count(context) > 0 || tdm_context_note_count(context) > 0,
                     1);
    if (tdm_context_note_count(context) > 0)
        assert_int_equal(strncmp(tdm_context_note(context, 0), "cuda: ", 6), 0);
    tdm_context_destroy(context);
}

TEST_MAIN(NULL, NULL)
