// Tests programs from the disk cache: a second context compiles nothing, and bad files are rebuilt.
// ctest: device opencl
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/device/core.h"
#include "backend_opencl/cache/program_cache.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/own_device.h"
#include "tests/support/test_case.h"
#include "tests/support/test_folder.h"

#define ELEMENTS 64

static int setup(void **state) {
    if (test_folder_make(state) != 0)
        return -1;
    setenv("TANDEM_CACHE_DIR", test_folder(), 1);
    setenv("TANDEM_CACHE_FORCE", "1", 1); // also for drivers with a cache of their own
    return test_devices_setup(state);
}

static int teardown(void **state) {
    const int removed = test_folder_remove(state);
    return test_devices_teardown(state) != 0 || removed != 0;
}

/* Writes the path of the next cache file to `path`. Returns false after the last file. */
static bool next_file(DIR *files, char *path, size_t bytes) {
    const struct dirent *entry;
    while ((entry = readdir(files)) != NULL)
        if (strstr(entry->d_name, ".tdmprog")) {
            snprintf(path, bytes, "%s/%s", test_folder(), entry->d_name);
            return true;
        }
    return false;
}

static int file_count(void) {
    char path[512];
    int count = 0;
    DIR *const files = opendir(test_folder());
    assert_non_null(files);
    while (next_file(files, path, sizeof path))
        count++;
    closedir(files);
    return count;
}

static void remove_files(void) {
    char path[512];
    DIR *const files = opendir(test_folder());
    assert_non_null(files);
    while (next_file(files, path, sizeof path))
        unlink(path);
    closedir(files);
}

/*
 * Computes x = x + x on the device in a context of its own. `call` and `code` make the driver's nth
 * call fail, or every call from then on. Returns how often the function was called. If the function
 * fails permanently, the operation must fail too. */
static long run_with(const test_device *device, const char *call, long nth, int code,
                     bool for_good) {
    const int64_t shape[1] = {ELEMENTS};
    float values[ELEMENTS];
    own_device own = own_device_open(device, 0);
    tdm_tensor *x;
    TEST_OK(tdm_tensor_create(own.device, TDM_F32, 1, shape, &x));
    for (int i = 0; i < ELEMENTS; i++)
        values[i] = (float)i;
    TEST_OK(tdm_tensor_write(own.stream, values, sizeof values, NULL, x));
    tdm_fault_plant(call, nth, code, for_good);
    const tdm_status status = tdm_binary_op(own.stream, TDM_ADD, x, x, x);
    const long calls = tdm_fault_clear();
    assert_int_equal(status != TDM_OK, for_good);
    tdm_stream_clear_failure(own.stream);
    TEST_OK(tdm_tensor_read(own.stream, x, values, sizeof values, NULL));
    for (int i = 0; i < ELEMENTS && !for_good; i++)
        assert_true(values[i] == (float)(2 * i));
    tdm_tensor_destroy(x);
    own_device_close(&own);
    return calls;
}

static long run(const test_device *device, const char *call, long nth, int code) {
    return run_with(device, call, nth, code, false);
}

static long compiled(const test_device *device) {
    return run(device, "clCreateProgramWithSource", -1, 0);
}

DEVICE_TEST(second_context_compiles_nothing) {
    remove_files();
    const long all = compiled(device);
    assert_true(all > 0);
    assert_int_equal(file_count(), all);
    assert_int_equal(compiled(device), 0);
    assert_int_equal(run(device, "clCreateProgramWithBinary", -1, 0), all);
}

DEVICE_TEST(bad_files_are_rebuilt) {
    remove_files();
    const long all = compiled(device);
    char path[512];
    DIR *const files = opendir(test_folder());
    assert_non_null(files);
    while (next_file(files, path, sizeof path))
        assert_int_equal(truncate(path, 200), 0);
    closedir(files);
    assert_int_equal(compiled(device), all);
    assert_int_equal(compiled(device), 0);
    assert_int_equal(file_count(), all);
}

/* The file is good, but the driver rejects it. For example, another driver of the same version may
 * have written it. */
DEVICE_TEST(refused_binaries_are_rebuilt) {
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

/* Counts the binaries that are rejected as bad. */
static void count_refusals(void *user, tdm_log_level level, const char *topic,
                           const char *message) {
    (void)user;
    (void)level;
    refusals += strcmp(topic, "cache") == 0 && strstr(message, "refuses the cached binary") != NULL;
}

/* The driver lacks memory for the binary and for the kernel source. The file stays in the cache. */
DEVICE_TEST(binaries_outlive_a_shortage) {
    static const int codes[] = {-4, -5, -6}; // no device memory, no resources, no host memory
    remove_files();
    const long all = compiled(device);
    refusals = 0;
    tdm_set_log(count_refusals, NULL);
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        assert_true(run_with(device, "clBuildProgram", 1, codes[i], true) >= 2); // and from source
        assert_int_equal(file_count(), all);
        assert_int_equal(compiled(device), 0);
        run(device, "clCreateProgramWithBinary", 1, codes[i]); // the source is compiled instead
        assert_int_equal(refusals, 0);
        assert_int_equal(compiled(device), 0);
    }
    run(device, "clCreateProgramWithBinary", 1, -42);
    assert_int_equal(refusals, 1);
    tdm_set_log(NULL, NULL);
}

/* A binary that the driver does not return is not cached, and nothing else fails. */
DEVICE_TEST(binaries_may_be_missing) {
    remove_files();
    run(device, "clGetProgramInfo", 1, -5);
    const long all = compiled(device);
    assert_true(all > 0);
    assert_int_equal(compiled(device), 0);
}

DEVICE_TEST(cache_off) {
    remove_files();
    setenv("TANDEM_CACHE_DIR", "off", 1);
    const long all = compiled(device);
    assert_true(all > 0);
    assert_int_equal(compiled(device), all);
    setenv("TANDEM_CACHE_DIR", test_folder(), 1);
    assert_int_equal(file_count(), 0);
}

TEST_MAIN(setup, teardown)
