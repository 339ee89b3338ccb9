// Tests a device's backend through its function table: capabilities, memory, copies and fills.
// ctest: device
#include <string.h>

#include "api/device/core.h"
#include "backend_opencl/opencl_api.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/drivers/backend_rig.h"
#include "tests/support/drivers/driver_faults.h"
#include "tests/support/test_case.h"

/* ---- known properties of drivers ------------------------------------------------------------- */

/* Other tests skip work if the device does not report the capability for it. This test therefore
 * checks the capabilities of known drivers. */
DEVICE_TEST(capabilities) {
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

DEVICE_TEST(fills) {
    backend_rig r = rig_open(device);
    uint8_t expected[4096], found[4096];
    memset(expected, 0xee, sizeof expected);
    TEST_OK(r.api->write(r.stream, "write", r.memory, 0, expected, sizeof expected));
    uint64_t offset = 64;
    for (size_t bytes = 1; bytes <= 8; bytes *= 2, offset += 512) {
        uint8_t pattern[8] = {1, 2, 3, 4, 5, 6, 7, 8};
        TEST_OK(r.api->fill(r.stream, "fill", r.memory, offset, 40 * bytes, pattern, bytes));
        for (size_t i = 0; i < 40 * bytes; i++)
            expected[offset + i] = pattern[i % bytes];
        // The backend reads the pattern only during the call.
        memset(pattern, 0xff, sizeof pattern);
    }
    TEST_OK(r.api->read(r.stream, "read", r.memory, 0, found, sizeof found));
    TEST_OK(rig_wait(&r));
    assert_memory_equal(found, expected, sizeof found);
    rig_close(&r);
}

DEVICE_TEST(oversized_memory) {
    backend_rig r = rig_open(device);
    tdm_bk_memory *memory = r.memory;
    TEST_REFUSED(r.api->memory_alloc(r.native, TDM_MEMORY_DEVICE,
                                     (size_t)device->info.max_alloc_bytes + 1, &memory),
                 test_runs_on_cuda() ? TDM_OUT_OF_DEVICE_MEMORY : TDM_UNSUPPORTED,
                 test_runs_on_cuda() ? "bytes of device memory" : "largest single allocation");
    assert_ptr_equal(memory, r.memory);
    rig_close(&r);
}

/* Each native error code becomes the status that the core expects when an allocation fails. */
DEVICE_TEST(memory_codes) {
    if (test_runs_on_cuda())
        return; // test_cuda_backend tests CUDA's codes
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
    backend_rig r = rig_open(device);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        tdm_bk_memory *memory;
        tdm_fault_plant("clCreateBuffer", 1, rows[i].code, false);
        TEST_REFUSED(r.api->memory_alloc(r.native, TDM_MEMORY_DEVICE, 4096, &memory),
                     rows[i].status, tdm_opencl_error_name(rows[i].code));
        tdm_fault_clear();
    }
    rig_close(&r);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
