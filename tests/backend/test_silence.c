// The library and the compilers that it calls must print nothing, in a process with empty caches.
// Oclgrind is excluded, because it ignores -w and prints anyway.
// ctest: device opencl compiled timeout=300 cost=15
#include <stdio.h>
#include <string.h>

#include "api/device/core.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/drivers/backend_rig.h"
#include "tests/support/test_case.h"
#include "tests/support/test_folder.h"
#include "tests/support/test_program.h"

enum {
    SIDE = 64
};

static const int64_t square[2] = {SIDE, SIDE};
static float values[SIDE * SIDE];

static tdm_tensor *tensor(const test_device *device, tdm_dtype dtype) {
    tdm_tensor *made;
    TEST_OK(tdm_tensor_create(device->device, dtype, 2, square, &made));
    return made;
}

static tdm_tensor *quantized(const test_device *device) {
    const int64_t block[2] = {1, 0};
    tdm_tensor *made;
    TEST_OK(tdm_tensor_create_quantized(device->device, TDM_S8, 2, square, block, TDM_F32,
                                        TDM_DTYPE_NONE, &made));
    return made;
}

static void multiply(const test_device *device, tdm_dtype a, tdm_dtype b, tdm_dtype d) {
    tdm_tensor *const operands[] = {tensor(device, a), tensor(device, b), tensor(device, d)};
    TEST_OK(
        tdm_gemm(device->stream, 1.0f, operands[0], operands[1], 0.0f, NULL, operands[2], NULL));
    for (int i = 0; i < 3; i++)
        tdm_tensor_destroy(operands[i]);
}

static void compute(const test_device *device) {
    tdm_tensor *const x = tensor(device, TDM_F32), *const y = tensor(device, TDM_F32),
                      *const codes = quantized(device);
    TEST_OK(tdm_tensor_write(device->stream, values, sizeof values, NULL, x));
    TEST_OK(tdm_binary_op(device->stream, TDM_ADD, x, x, y));
    TEST_OK(tdm_softmax(device->stream, x, 1, y));
    TEST_OK(tdm_tensor_quantize_minmax(device->stream, y, codes));
    TEST_OK(tdm_tensor_dequantize(device->stream, codes, y));
    multiply(device, TDM_F32, TDM_F32, TDM_F32);
    multiply(device, TDM_F16, TDM_F16, TDM_F16);
    multiply(device, TDM_S8, TDM_S8, TDM_S32);
    TEST_OK(tdm_stream_synchronize(device->stream));
    tdm_tensor_destroy(x);
    tdm_tensor_destroy(y);
    tdm_tensor_destroy(codes);
}

/* Compilers warn about this source: a constant changes its value, and a statement has no effect. */
static const char warned_text[] = "__kernel void TDM_ENTRY(__global int *y, long y0) {\n"
                                  "    int x = 1e30f;\n"
                                  "    y[y0] == x;\n"
                                  "    y[y0] = 7;\n"
                                  "}\n";

static void build_with_warnings(const test_device *device) {
    backend_rig r = rig_open(device);
    tdm_bk_kernel *kernel;
    TEST_OK(rig_build(&r, "warned_entry", warned_text, "", &kernel));
    r.api->kernel_release(kernel);
    rig_close(&r);
}

/* The watched process runs this function, which prints only if something fails. */
static int work_on(const char *selector) {
    tdm_context *context;
    test_device device = {.index = 0};
    int index;
    TEST_OK(tdm_context_create(NULL, &context));
    TEST_OK(tdm_context_find_device(context, selector, &index));
    TEST_OK(tdm_device_get(context, index, &device.device));
    TEST_OK(tdm_stream_create(device.device, &device.stream));
    compute(&device);
    build_with_warnings(&device);
    tdm_stream_destroy(device.stream);
    tdm_device_release(device.device);
    tdm_context_destroy(context);
    return 0;
}

/* Removes Mesa's messages about its own lowering of kernels: no build option turns them off. */
static void remove_lines_of_mesa(char *text) {
    static const char begin[] = "MESA: warning: ";
    char *line;
    while ((line = strstr(text, begin)) != NULL) {
        const char *const end = strchr(line, '\n');
        const char *const next = end != NULL ? end + 1 : line + strlen(line);
        memmove(line, next, strlen(next) + 1);
    }
}

DEVICE_TEST(nothing_is_printed_with_empty_caches) {
    char own[TEST_PATH + 32], driver[TEST_PATH + 32], mesa[TEST_PATH + 32];
    snprintf(own, sizeof own, "TANDEM_CACHE_DIR=%s/own", test_folder());
    snprintf(driver, sizeof driver, "POCL_CACHE_DIR=%s/pocl", test_folder());
    snprintf(mesa, sizeof mesa, "MESA_SHADER_CACHE_DIR=%s/mesa", test_folder());
    const char *const variables[] = {own, driver, mesa, NULL};
    test_program_result result =
        test_program_run("/proc/self/exe", device->info.selector, variables, 240);
    remove_lines_of_mesa(result.errors);
    assert_string_equal(result.errors, "");
    assert_string_equal(result.output, "");
    assert_int_equal(result.exit_code, 0);
    test_program_release(&result);
}

static int setup(void **state) {
    return test_folder_make(state) != 0 || test_devices_setup(state) != 0;
}

static int teardown(void **state) {
    const int devices = test_devices_teardown(state);
    return test_folder_remove(state) != 0 || devices != 0;
}

int main(int argc, char **argv) {
    return argc > 1 ? work_on(argv[1]) : test_run_all(setup, teardown);
}
