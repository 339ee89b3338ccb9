#include "tests/support/drivers/driver_faults.h"

#include <stdlib.h>
#include <string.h>

#include "api/device/core.h"
#include "tests/support/unit.h"

static const struct {
    const char *opencl, *cuda;
} calls[] = {
    {"clCreateBuffer", "cuMemAlloc"},
    {"clEnqueueCopyBuffer", "cuMemcpyDtoDAsync"},
    {"clEnqueueMarkerWithWaitList", "cuEventRecord"},
    {"clEnqueueNDRangeKernel", "cuLaunchKernel"},
    {"clEnqueueReadBuffer", "cuMemcpyDtoHAsync"},
    {"clEnqueueWriteBuffer", "cuMemcpyHtoDAsync"},
    {"clFinish", "cuStreamSynchronize"},
};

/* The first row is an unspecific failure, the second a lack of memory. */
static const struct {
    int opencl, cuda;
    const char *opencl_name, *cuda_name;
} codes[] = {
    {-5, 999, "CL_OUT_OF_RESOURCES", "CUDA_ERROR_UNKNOWN"},
    {-4, 2, "CL_MEM_OBJECT_ALLOCATION_FAILURE", "CUDA_ERROR_OUT_OF_MEMORY"},
};

bool test_runs_on_cuda(void) {
    const char *const devices = getenv("TANDEM_TEST_DEVICES");
    return devices != NULL && strncmp(devices, "cuda", strlen("cuda")) == 0;
}

static int row_of(int opencl_code) {
    const int count = (int)(sizeof codes / sizeof codes[0]);
    for (int i = 0; i < count; i++)
        if (codes[i].opencl == opencl_code)
            return i;
    fail_msg("no code of CUDA stands for %d", opencl_code);
    abort();
}

const char *test_code_name(int opencl_code) {
    const int row = row_of(opencl_code);
    return test_runs_on_cuda() ? codes[row].cuda_name : codes[row].opencl_name;
}

void test_fault_plant(const char *opencl_call, long nth, int opencl_code, bool sticky) {
    if (!test_runs_on_cuda()) {
        tdm_fault_plant(opencl_call, nth, opencl_code, sticky);
        return;
    }
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (strcmp(calls[i].opencl, opencl_call) == 0) {
            tdm_fault_plant(calls[i].cuda, nth, codes[row_of(opencl_code)].cuda, sticky);
            return;
        }
    }
    fail_msg("no call of CUDA stands for %s", opencl_call);
}
