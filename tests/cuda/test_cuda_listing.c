// Tests CUDA driver files that are missing, broken, old or unusual. The context is then valid and
// lists no device, and a note gives the reason. Other tests check the properties of a device.
#include <stdlib.h>
#include <string.h>

#include "api/device/core.h"
#include "backend_cuda/cuda_internal.h"
#include "tests/support/drivers/fake_driver.h"
#include "tests/support/test_case.h"
#include "tests/support/test_folder.h"

#include <tandem/device.h>

static int setup(void **state) {
    if (test_folder_make(state) != 0)
        return -1;
    fake_driver_compile("complete.so", "fake_cuda.c fake_cuda_stubs.c");
    fake_driver_compile("queries.so", "fake_cuda.c");
    fake_driver_compile("nothing.so", "-x c /dev/null");
    return 0;
}

static tdm_context *context_on(const char *library) {
    return fake_driver_context("cuda", library);
}

static void expect_note(const char *library, const char *part) {
    fake_driver_expect_note("cuda", library, part);
}

/* ---- files ----------------------------------------------------------------------------------- */

TEST(test_files) {
    char path[TEST_PATH];
    test_text_write(test_folder_path(path, "empty.so"), "", 0600);
    expect_note("absent.so", "TANDEM_CUDA_LIBRARY=");
    expect_note("absent.so", "absent.so: cannot open shared object file");
    expect_note("empty.so", "file too short");
    expect_note("nothing.so", "is not a CUDA driver: it lacks cuInit");
    expect_note("queries.so", "offers CUDA 13.0 but lacks cuDevicePrimaryCtxRetain");
}

TEST(test_old_driver) {
    setenv("FAKE_VERSION", "10020", 1);
    expect_note("complete.so",
                "the driver is too old: it offers CUDA 10.2, 11.0 is needed (driver 450 or newer)");
    expect_note("queries.so", "the driver is too old: it offers CUDA 10.2");
    unsetenv("FAKE_VERSION");
}

/* ---- answers --------------------------------------------------------------------------------- */

TEST(test_odd_answers) {
    static const struct {
        const char *variable, *value, *note;
    } rows[] = {
        {"FAKE_INIT", "100", "cuInit: CUDA_ERROR_NO_DEVICE (100); it finds no GPU"},
        {"FAKE_INIT", "34", "CUDA_ERROR_STUB_LIBRARY (34); the file is the CUDA toolkit's stub"},
        {"FAKE_INIT", "802", "CUDA_ERROR_SYSTEM_NOT_READY (802); a service that the GPUs need"},
        {"FAKE_INIT", "806", "cuInit: CUDA_ERROR_MPS_RPC_FAILURE (806)"},
        {"FAKE_INIT", "803",
         "CUDA_ERROR_SYSTEM_DRIVER_MISMATCH (803); the driver library and the kernel"},
        {"FAKE_INIT", "999", "CUDA_ERROR_UNKNOWN (999); the nvidia kernel module does not answer"},
        {"FAKE_INIT", "3", "cuInit: CUDA_ERROR_NOT_INITIALIZED (3)"},
        {"FAKE_INIT", "7777", "unknown CUDA error (7777)"},
        {"FAKE_COUNT", "0", "the driver finds no GPU"},
        {"FAKE_COUNT", "-1", "cuDeviceGetCount: CUDA_SUCCESS (0), -1 devices"},
        {"FAKE_COUNT", "2000000000", "2000000000 devices"},
        {"FAKE_COUNT_CODE", "304", "cuDeviceGetCount: CUDA_ERROR_OPERATING_SYSTEM (304)"},
        {"FAKE_DEVICE_CODE", "101", "device 0 is skipped: cuDeviceGet: CUDA_ERROR_INVALID_DEV"},
        {"FAKE_NAME_CODE", "999", "its name: cuDeviceGetName: CUDA_ERROR_UNKNOWN (999)"},
        {"FAKE_MAJOR", "6", "it has compute capability 6.0, 7.5 is needed"},
        {"FAKE_MODE", "2", "its compute mode prohibits contexts"},
        {"FAKE_UNIFIED", "0", "it has no unified addressing of host and device memory"},
        {"FAKE_UNITS", "0", "reports no valid memory size (1073741824 bytes), compute units (0)"},
        {"FAKE_MEMORY", "0", "reports no valid memory size (0 bytes)"},
        {"FAKE_UNKNOWN_ATTRIBUTE", "16", "cuDeviceGetAttribute: CUDA_ERROR_INVALID_VALUE (1)"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        setenv(rows[i].variable, rows[i].value, 1);
        expect_note("complete.so", rows[i].note);
        unsetenv(rows[i].variable);
    }
}

/* A newer driver supplies the names of error codes that the library's own list lacks. */
TEST(test_codes_of_tomorrow) {
    setenv("FAKE_INIT", "7777", 1);
    setenv("FAKE_ERROR_NAME", "CUDA_ERROR_OF_TOMORROW", 1);
    expect_note("complete.so", "cuInit: CUDA_ERROR_OF_TOMORROW (7777)");
    setenv("FAKE_INIT", "999", 1);
    expect_note("complete.so", "cuInit: CUDA_ERROR_UNKNOWN (999)");
    unsetenv("FAKE_ERROR_NAME");
    unsetenv("FAKE_INIT");
}

/*
 * A device that is named like a real GPU needs kernels in this build. Only the simulator accepts
 * the substitute images.
 */
TEST(test_build_without_kernels) {
    setenv("FAKE_NAME", "NVIDIA H200", 1);
    if (tdm_prebuilt_architectures()[0] == '\0') {
        expect_note("complete.so",
                    "\"NVIDIA H200\", is skipped: this build of the library contains no CUDA");
    } else {
        tdm_context *const context = context_on("complete.so");
        assert_int_equal(tdm_context_device_count(context), 1);
        tdm_context_destroy(context);
        setenv("FAKE_VERSION", "11080", 1); // older than every toolkit that builds kernels
        expect_note("complete.so", "\"NVIDIA H200\", is skipped: the driver supports CUDA 11.8");
        unsetenv("FAKE_VERSION");
    }
    unsetenv("FAKE_NAME");
}

static tdm_device_info info_of_fake(void) {
    tdm_context *const context = context_on("complete.so");
    assert_int_equal(tdm_context_device_count(context), 1);
    tdm_device_info info = {.struct_size = sizeof info};
    assert_int_equal(tdm_context_device_info(context, 0, &info), TDM_OK);
    tdm_context_destroy(context);
    return info;
}

TEST(test_description) {
    tdm_device_info info = info_of_fake();
    assert_string_equal(info.selector, "cuda/simulator/Tandem simulator, a fake");
    assert_string_equal(info.api_version, "CUDA 13.0");
    assert_string_equal(info.kernel_language, "compute capability 9.0");
    assert_int_equal(info.type, TDM_DEVICE_GPU);
    assert_int_equal(info.architecture, 90);
    assert_int_equal(info.compute_units, 132);
    assert_int_equal(info.clock_mhz, 1980);
    assert_int_equal(info.memory_clock_mhz, 3201);
    assert_int_equal(info.memory_bus_bits, 6144);
    assert_int_equal(info.cache_bytes, 50 << 20);
    assert_int_equal(info.global_bytes, 1 << 30);
    assert_int_equal(info.error_correction, 2);
    assert_string_equal(info.pci_address, "0000:3b:00.0");
    assert_true(info.capabilities & TDM_CAP_CUDA);
    assert_true(info.capabilities & TDM_CAP_ASYNC_COPY);
    assert_true(info.capabilities & TDM_CAP_TENSOR_CORES);
    assert_true(info.capabilities & TDM_CAP_WGMMA);
    assert_false(info.capabilities & (TDM_CAP_UNIFIED_MEMORY | TDM_CAP_CPU_CORES));
    setenv("FAKE_MAJOR", "7", 1);
    setenv("FAKE_MINOR", "5", 1);
    setenv("FAKE_ECC", "0", 1);
    setenv("FAKE_PCI_CODE", "801", 1);
    setenv("FAKE_INTEGRATED", "1", 1);
    // An old driver does not know the attribute for the size of the L2 cache.
    setenv("FAKE_UNKNOWN_ATTRIBUTE", "38", 1);
    info = info_of_fake();
    assert_int_equal(info.architecture, 75);
    assert_int_equal(info.error_correction, 1);
    assert_string_equal(info.pci_address, "");
    assert_int_equal(info.cache_bytes, 0);
    assert_false(info.capabilities & TDM_CAP_ASYNC_COPY);
    assert_true(info.capabilities & TDM_CAP_TENSOR_CORES);
    assert_false(info.capabilities & TDM_CAP_WGMMA);
    assert_true(info.capabilities & TDM_CAP_UNIFIED_MEMORY);
    unsetenv("FAKE_MAJOR");
    unsetenv("FAKE_MINOR");
    unsetenv("FAKE_ECC");
    unsetenv("FAKE_PCI_CODE");
    unsetenv("FAKE_INTEGRATED");
    unsetenv("FAKE_UNKNOWN_ATTRIBUTE");
}

/*
 * `reached` is true if the device can run an image that was compiled for 8.0 or newer. Without
 * images, the device itself must be 8.0 or newer.
 */
TEST(test_images_reach) {
    static const struct {
        const char *images;
        int device;
        bool reached;
    } rows[] = {
        {"", 80, true},
        {"", 75, false},
        {"75;80;86;89;90;90a;75-ptx", 75, false},
        {"75;80;86;89;90;90a;75-ptx", 80, true},
        {"75;80;86;89;90;90a;75-ptx", 88, true},
        {"75;80;86;89;90;90a;75-ptx", 87, false}, // Orin runs only code for 8.7
        {"80;87;75-ptx", 87, true},
        {"80;80-ptx", 87, true},
        {"87", 89, false},
        {"100;75-ptx", 101, false}, // Thor runs only code for 10.1
        {"110;75-ptx", 110, true},
        {"80;90a;75-ptx", 90, true},
        {"80;90a;75-ptx", 100, false},
        {"80;90a;75-ptx", 120, false},
        {"80;75-ptx", 90, false},
        {"86;75-ptx", 80, false},
        {"75;80-ptx", 120, true},
        {"75;90-ptx", 89, false},
        {"90a-ptx", 100, false},
        {"90a-ptx", 90, true},
        {"100;75-ptx", 103, true},
        {"100f;75-ptx", 103, true},
        {"100;75-ptx", 120, false},
        {"75-ptx", 90, false},
        {"75", 75, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const tdm_cuda_images images = {rows[i].images, 13000};
        if (tdm_cuda_images_reach(&images, 13000, rows[i].device, 80) != rows[i].reached)
            fail_msg("\"%s\" on %d: not %d", rows[i].images, rows[i].device, rows[i].reached);
    }
}

/*
 * Each row compares the driver's CUDA version with the version of the toolkit that built the
 * images. If `detail` is NULL, the device can be used.
 */
TEST(test_images_newer_than_the_driver) {
    static const char both[] = "80;90a;75-ptx";
    static const struct {
        const char *images;
        int version, driver, device;
        const char *detail;
        bool lacks_ptx;
    } rows[] = {
        {both, 13000, 13000, 90, NULL, false},
        {both, 13000, 14020, 120, NULL, false},
        {both, 12090, 13000, 100, NULL, false},
        {both, 13010, 13000, 90, NULL, true},
        {both, 13010, 13000, 86, NULL, true},
        {"80;90a", 13010, 13000, 86, NULL, false},
        {both, 13010, 13000, 100,
         "the driver supports CUDA 13.0, the library's kernels were built with 13.1: only their "
         "machine code can be loaded, and 80;90a;75-ptx contains none for compute capability 10.0; "
         "a driver that supports CUDA 13.1 can compile their PTX",
         true},
        {both, 13000, 12040, 80,
         "the driver supports CUDA 12.4, the library's kernels were built with 13.0: a driver that "
         "supports CUDA 13.0 or newer is needed",
         false},
        {both, 12000, 11080, 75, "supports CUDA 11.8, the library's kernels were built with 12.0",
         false},
        {"80;90a", 13000, 13000, 120, "kernels are for 80;90a, none for compute capability 12.0",
         false},
        {"80;86;90a", 13000, 13000, 87, "none for compute capability 8.7", false},
        {"", 0, 11000, 75, NULL, false},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const tdm_cuda_images images = {rows[i].images, rows[i].version};
        const tdm_status status = tdm_cuda_images_check(&images, rows[i].driver, rows[i].device);
        if (status != (rows[i].detail ? TDM_UNSUPPORTED : TDM_OK) ||
            (rows[i].detail && !strstr(tdm_last_detail(), rows[i].detail)))
            fail_msg("row %zu: %s: %s", i, tdm_status_text(status), tdm_last_detail());
        assert_int_equal(tdm_cuda_images_lack_ptx(&images, rows[i].driver), rows[i].lacks_ptx);
        // A device that is refused runs no image, so it gets no capability.
        if (rows[i].detail)
            assert_false(tdm_cuda_images_reach(&images, rows[i].driver, rows[i].device, 0));
    }
}

/* If a listed device cannot be opened, the error detail gives the reason. */
TEST(test_no_context) {
    tdm_context *const context = context_on("complete.so");
    tdm_device *device;
    assert_int_equal(tdm_device_get(context, 0, &device), TDM_UNSUPPORTED);
    assert_non_null(strstr(tdm_last_detail(), "cuDevicePrimaryCtxRetain: CUDA_ERROR_NOT_SUPP"));
    tdm_fault_plant("cuDevicePrimaryCtxRetain", 1, CUDA_ERROR_DEVICE_UNAVAILABLE, false);
    assert_int_equal(tdm_device_get(context, 0, &device), TDM_NO_DEVICE);
    tdm_fault_clear();
    assert_non_null(
        strstr(tdm_last_detail(), "_UNAVAILABLE (46); another process uses it exclusively"));
    tdm_context_destroy(context);
}

TEST_MAIN(setup, test_folder_remove)
