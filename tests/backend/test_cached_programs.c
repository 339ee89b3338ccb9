// Programs from the disk cache: what a second context compiles, and what it does with bad files.
// ctest: device opencl
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/device/core.h"
#include "backend_opencl/cache/program_cache.h"
#include "tests/support/devices/test_devices.h"

#define ELEMENTS 64

static char folder[64];

static int setup(void **state) {
    snprintf(folder, sizeof folder, "/tmp/tandem-programs-test-XXXXXX");
    if (!mkdtemp(folder))
        return -1;
    setenv("TANDEM_CACHE_DIR", folder, 1);
    setenv("TANDEM_CACHE_FORCE", "1", 1); // also for drivers that cache by themselves
    return test_devices_setup(state);
}

static int teardown(void **state) {
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", folder);
    const int removed = system(command);
    return test_devices_teardown(state) != 0 || removed != 0;
}

/* The path of the cache's files, one after the other; false after the last. */
static bool next_file(DIR *files, char *path, size_t bytes) {
    const struct dirent *entry;
    while ((entry = readdir(files)) != NULL)
        if (strstr(entry->d_name, ".tdmprog")) {
            snprintf(path, bytes, "%s/%s", folder, entry->d_name);
            return true;
        }
    return false;
}

static int file_count(void) {
    char path[512];
    int count = 0;
    DIR *const files = opendir(folder);
    assert_non_null(files);
    while (next_file(files, path, sizeof path))
        count++;
    closedir(files);
    return count;
}

static void remove_files(void) {
    char path[512];
    DIR *const files = opendir(folder);
    assert_non_null(files);
    while (next_file(files, path, sizeof path))
        unlink(path);
    closedir(files);
}

/*
 * In a context of its own: y = x + x on the device. Returns how often the driver function `call`
 * was called.
 */
static long run(const test_device *device, const char *call, long failing, int code) {
    const int64_t shape[1] = {ELEMENTS};
    float values[ELEMENTS];
    tdm_context *context;
    tdm_device *opened;
    tdm_stream *stream;
    tdm_tensor *x, *y;
    int index;
    TEST_OK(tdm_context_create(NULL, &context));
    TEST_OK(tdm_context_find_device(context, device->info.selector, &index));
    // The probes of the context build programs that no cache keeps.
    tdm_fault_plant(call, failing, code, false);
    TEST_OK(tdm_device_get(context, index, &opened));
    TEST_OK(tdm_stream_create(opened, &stream));
    TEST_OK(tdm_tensor_create(opened, TDM_F32, 1, shape, &x));
    TEST_OK(tdm_tensor_create(opened, TDM_F32, 1, shape, &y));
    for (int i = 0; i < ELEMENTS; i++)
        values[i] = (float)i;
    TEST_OK(tdm_tensor_write(stream, values, sizeof values, NULL, x));
    TEST_OK(tdm_binary_op(stream, TDM_ADD, x, x, y));
    TEST_OK(tdm_tensor_read(stream, y, values, sizeof values, NULL));
    for (int i = 0; i < ELEMENTS; i++)
        assert_true(values[i] == (float)(2 * i));
    tdm_tensor_destroy(x);
    tdm_tensor_destroy(y);
    tdm_stream_destroy(stream);
    tdm_device_release(opened);
    tdm_context_destroy(context);
    return tdm_fault_clear();
}

static long compiled(const test_device *device) {
    return run(device, "clCreateProgramWithSource", -1, 0);
}

static void expect_rebuilt_once(const test_device *device, long all) {
    assert_int_equal(compiled(device), all);
    assert_int_equal(compiled(device), 0);
}

static void second_context_compiles_nothing(const test_device *device) {
    remove_files();
    const long all = compiled(device);
    assert_true(all > 0);
    assert_int_equal(file_count(), all);
    assert_int_equal(compiled(device), 0);
    assert_int_equal(run(device, "clCreateProgramWithBinary", -1, 0), all);
}

static void bad_files_are_rebuilt(const test_device *device) {
    remove_files();
    const long all = compiled(device);
    char path[512];
    DIR *const files = opendir(folder);
    assert_non_null(files);
    while (next_file(files, path, sizeof path))
        assert_int_equal(truncate(path, 200), 0);
    closedir(files);
    expect_rebuilt_once(device, all);
    assert_int_equal(file_count(), all);
}

/* The file is good, but the driver does not take it: another driver of the same version, say. */
static void refused_binaries_are_rebuilt(const test_device *device) {
    remove_files();
    const long all = compiled(device);
    run(device, "clCreateProgramWithBinary", 1, -42); // CL_INVALID_BINARY
    assert_int_equal(file_count(), all);
    assert_int_equal(compiled(device), 0);
    run(device, "clBuildProgram", 1, -11);
    assert_int_equal(file_count(), all);
    assert_int_equal(compiled(device), 0);
}

static int refusals;

/* Counts the binaries that are given up as bad. */
static void count_refusals(void *user, tdm_log_level level, const char *topic,
                           const char *message) {
    (void)user;
    (void)level;
    refusals += strcmp(topic, "cache") == 0 && strstr(message, "refuses the cached binary") != NULL;
}

/* In a context of its own: y = x + x, where the driver builds nothing, from binary or from text. */
static void fail_to_build(const test_device *device, int code) {
    const int64_t shape[1] = {ELEMENTS};
    tdm_context *context;
    tdm_device *opened;
    tdm_stream *stream;
    tdm_tensor *x;
    int index;
    TEST_OK(tdm_context_create(NULL, &context));
    TEST_OK(tdm_context_find_device(context, device->info.selector, &index));
    TEST_OK(tdm_device_get(context, index, &opened));
    TEST_OK(tdm_stream_create(opened, &stream));
    TEST_OK(tdm_tensor_create(opened, TDM_F32, 1, shape, &x));
    tdm_fault_plant("clBuildProgram", 1, code, true);
    assert_int_not_equal(tdm_binary_op(stream, TDM_ADD, x, x, x), TDM_OK);
    assert_true(tdm_fault_clear() >= 2);
    tdm_tensor_destroy(x);
    tdm_stream_destroy(stream);
    tdm_device_release(opened);
    tdm_context_destroy(context);
}

/* A driver without memory, for the binary and for the text: the file is there for the next time. */
static void binaries_outlive_a_shortage(const test_device *device) {
    static const int codes[] = {-4, -5, -6}; // no device memory, no resources, no host memory
    remove_files();
    const long all = compiled(device);
    refusals = 0;
    tdm_set_log(count_refusals, NULL);
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        fail_to_build(device, codes[i]);
        assert_int_equal(file_count(), all);
        assert_int_equal(compiled(device), 0);
        run(device, "clCreateProgramWithBinary", 1, codes[i]); // the text is compiled instead
        assert_int_equal(refusals, 0);
        assert_int_equal(compiled(device), 0);
    }
    run(device, "clCreateProgramWithBinary", 1, -42);
    assert_int_equal(refusals, 1);
    tdm_set_log(NULL, NULL);
}

/* What the driver will not give is not cached, and that is all. */
static void binaries_may_be_missing(const test_device *device) {
    remove_files();
    run(device, "clGetProgramInfo", 1, -5);
    const long all = compiled(device);
    assert_true(all > 0);
    assert_int_equal(compiled(device), 0);
}

static void cache_off(const test_device *device) {
    remove_files();
    setenv("TANDEM_CACHE_DIR", "off", 1);
    const long all = compiled(device);
    assert_true(all > 0);
    assert_int_equal(compiled(device), all);
    setenv("TANDEM_CACHE_DIR", folder, 1);
    assert_int_equal(file_count(), 0);
}

#define CASES(X)                                                                                   \
    X(second_context_compiles_nothing)                                                             \
    X(bad_files_are_rebuilt)                                                                       \
    X(refused_binaries_are_rebuilt)                                                                \
    X(binaries_outlive_a_shortage)                                                                 \
    X(binaries_may_be_missing)                                                                     \
    X(cache_off)

#define DEFINE_TEST(name)                                                                          \
    static void test_##name(void **state) {                                                        \
        (void)state;                                                                               \
        for (int i = 0; i < test_device_count(); i++)                                              \
            if (test_case_begin(test_device_at(i), NULL, #name)) {                                 \
                name(test_device_at(i));                                                           \
                test_case_end();                                                                   \
            }                                                                                      \
    }
CASES(DEFINE_TEST)

int main(void) {
    const struct CMUnitTest tests[] = {
#define ROW(name) cmocka_unit_test(test_##name),
        CASES(ROW)
#undef ROW
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
