/*
 * This is a fake CUDA driver. It only lists devices, by default one. Environment variables
 * (FAKE_...) replace many of its answers. Contexts cannot be created.
 */
#include <stdio.h>
#include <stdlib.h>

#include "backend_cuda/cuda_api.h"

#define CUDA_FUNCTION(name, symbol, need, since, parameters) CUresult symbol parameters;
#include "backend_cuda/cuda_functions.def"
#undef CUDA_FUNCTION

static int number(const char *name, int otherwise) {
    const char *const text = getenv(name);
    return text ? (int)strtol(text, NULL, 0) : otherwise;
}

CUresult cuInit(unsigned int flags) {
    (void)flags;
    return (CUresult)number("FAKE_INIT", CUDA_SUCCESS);
}

CUresult cuDriverGetVersion(int *version) {
    *version = number("FAKE_VERSION", 13000);
    return CUDA_SUCCESS;
}

CUresult cuGetErrorName(CUresult code, const char **name) {
    (void)code;
    *name = getenv("FAKE_ERROR_NAME");
    return *name ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuDeviceGetCount(int *count) {
    *count = number("FAKE_COUNT", 1);
    return (CUresult)number("FAKE_COUNT_CODE", CUDA_SUCCESS);
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
    *device = ordinal;
    return (CUresult)number("FAKE_DEVICE_CODE", CUDA_SUCCESS);
}

CUresult cuDeviceGetName(char *name, int bytes, CUdevice device) {
    (void)device;
    const char *const chosen = getenv("FAKE_NAME");
    snprintf(name, (size_t)bytes, "%s", chosen ? chosen : "Tandem simulator, a fake");
    return (CUresult)number("FAKE_NAME_CODE", CUDA_SUCCESS);
}

CUresult cuDeviceGetPCIBusId(char *text, int bytes, CUdevice device) {
    (void)device;
    snprintf(text, (size_t)bytes, "0000:3B:00.0");
    return (CUresult)number("FAKE_PCI_CODE", CUDA_SUCCESS);
}

CUresult cuDeviceTotalMem_v2(size_t *bytes, CUdevice device) {
    (void)device;
    *bytes = (size_t)number("FAKE_MEMORY", 1 << 30);
    return CUDA_SUCCESS;
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attribute, CUdevice device) {
    (void)device;
    if ((int)attribute == number("FAKE_UNKNOWN_ATTRIBUTE", -1))
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
        *value = number("FAKE_MAJOR", 9);
        break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
        *value = number("FAKE_MINOR", 0);
        break;
    case CU_DEVICE_ATTRIBUTE_COMPUTE_MODE:
        *value = number("FAKE_MODE", CU_COMPUTEMODE_DEFAULT);
        break;
    case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
        *value = number("FAKE_UNIFIED", 1);
        break;
    case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
        *value = number("FAKE_UNITS", 132);
        break;
    case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
        *value = 1980000;
        break;
    case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
        *value = 3201000;
        break;
    case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
        *value = 6144;
        break;
    case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
        *value = 50 << 20;
        break;
    case CU_DEVICE_ATTRIBUTE_ECC_ENABLED:
        *value = number("FAKE_ECC", 1);
        break;
    case CU_DEVICE_ATTRIBUTE_INTEGRATED:
        *value = number("FAKE_INTEGRATED", 0);
        break;
    default:
        *value = 1024;
    }
    return CUDA_SUCCESS;
}
