/*
 * This is an OpenCL driver that only lists one platform with one device. Each answer comes from an
 * environment variable (FAKE_...), or is the default below. Contexts cannot be created.
 */
#include <stdlib.h>
#include <string.h>

#define CL_TARGET_OPENCL_VERSION 300
#include <CL/cl.h>

#ifndef CL_DEVICE_BOARD_NAME_AMD
#define CL_DEVICE_BOARD_NAME_AMD 0x4038
#endif

static long number(const char *name, long otherwise) {
    const char *const text = getenv(name);
    return text ? strtol(text, NULL, 0) : otherwise;
}

static const char *text(const char *name, const char *otherwise) {
    const char *const found = getenv(name);
    return found ? found : otherwise;
}

static cl_int answer(const void *value, size_t value_bytes, size_t bytes, void *target,
                     size_t *size) {
    if (size)
        *size = value_bytes;
    if (target && bytes < value_bytes)
        return CL_INVALID_VALUE;
    if (target)
        memcpy(target, value, value_bytes);
    return CL_SUCCESS;
}

static cl_int answer_text(const char *value, size_t bytes, void *target, size_t *size) {
    return answer(value, strlen(value) + 1, bytes, target, size);
}

CL_API_ENTRY cl_int CL_API_CALL clGetPlatformIDs(cl_uint count, cl_platform_id *platforms,
                                                 cl_uint *found) {
    const cl_int code = (cl_int)number("FAKE_PLATFORM_CODE", CL_SUCCESS);
    if (found)
        *found = (cl_uint)number("FAKE_PLATFORM_COUNT", 1);
    for (cl_uint i = 0; platforms && i < count; i++)
        platforms[i] = (cl_platform_id)(size_t)(i + 1);
    return code;
}

CL_API_ENTRY cl_int CL_API_CALL clGetPlatformInfo(cl_platform_id platform, cl_platform_info what,
                                                  size_t bytes, void *target, size_t *size) {
    (void)platform;
    switch (what) {
    case CL_PLATFORM_NAME:
        return answer_text(text("FAKE_PLATFORM_NAME", "Fake (TM) Platform"), bytes, target, size);
    case CL_PLATFORM_VERSION:
        return answer_text(text("FAKE_PLATFORM_VERSION", "OpenCL 1.2 fake"), bytes, target, size);
    case CL_PLATFORM_VENDOR:
        return answer_text("Nobody", bytes, target, size);
    default:
        return CL_INVALID_VALUE;
    }
}

CL_API_ENTRY cl_int CL_API_CALL clGetDeviceIDs(cl_platform_id platform, cl_device_type type,
                                               cl_uint count, cl_device_id *devices,
                                               cl_uint *found) {
    (void)platform;
    (void)type;
    if (found)
        *found = (cl_uint)number("FAKE_DEVICE_COUNT", 1);
    for (cl_uint i = 0; devices && i < count; i++)
        devices[i] = (cl_device_id)(size_t)(i + 1);
    return (cl_int)number("FAKE_DEVICE_CODE", CL_SUCCESS);
}

CL_API_ENTRY cl_int CL_API_CALL clGetDeviceInfo(cl_device_id device, cl_device_info what,
                                                size_t bytes, void *target, size_t *size) {
    (void)device;
    const cl_ulong memory = (cl_ulong)number("FAKE_MEMORY", 1 << 30);
    const cl_device_type type = (cl_device_type)number("FAKE_TYPE", CL_DEVICE_TYPE_GPU);
    const size_t items[3] = {64, 64, 64}, group = 64;
    const cl_uint at[4] = {1, 0x3b, 0x1f, 2}, slot = 0x1f << 3 | 2;
    cl_bool yes = CL_TRUE;
    switch (what) {
    case CL_DEVICE_NAME:
        return answer_text("  Padded Name  ", bytes, target, size);
    case 0x410F: /* CL_DEVICE_PCI_BUS_INFO_KHR */
        return answer(at, sizeof at, bytes, target, size);
    case 0x4008: /* CL_DEVICE_PCI_BUS_ID_NV, then the slot and the domain */
        return answer(&at[1], sizeof at[1], bytes, target, size);
    case 0x4009:
        return answer(&slot, sizeof slot, bytes, target, size);
    case 0x400A:
        return answer(&at[0], sizeof at[0], bytes, target, size);
    case CL_DEVICE_BOARD_NAME_AMD:
        return answer_text(text("FAKE_BOARD_NAME", ""), bytes, target, size);
    case CL_DEVICE_VERSION:
        return answer_text(text("FAKE_DEVICE_VERSION", "OpenCL 1.2 fake"), bytes, target, size);
    case CL_DEVICE_PROFILE:
        return answer_text(text("FAKE_PROFILE", "FULL_PROFILE"), bytes, target, size);
    case CL_DEVICE_EXTENSIONS:
        return answer_text(text("FAKE_EXTENSIONS", "cl_khr_fp16_not"), bytes, target, size);
    case CL_DEVICE_TYPE:
        return answer(&type, sizeof type, bytes, target, size);
    case CL_DEVICE_AVAILABLE:
        yes = (cl_bool)number("FAKE_AVAILABLE", 1);
        return answer(&yes, sizeof yes, bytes, target, size);
    case CL_DEVICE_COMPILER_AVAILABLE:
        yes = (cl_bool)number("FAKE_COMPILER", 1);
        return answer(&yes, sizeof yes, bytes, target, size);
    case CL_DEVICE_ENDIAN_LITTLE:
        yes = (cl_bool)number("FAKE_LITTLE", 1);
        return answer(&yes, sizeof yes, bytes, target, size);
    case CL_DEVICE_MAX_WORK_ITEM_SIZES:
        return answer(items, sizeof items, bytes, target, size);
    case CL_DEVICE_MAX_WORK_GROUP_SIZE:
        return answer(&group, sizeof group, bytes, target, size);
    case CL_DEVICE_GLOBAL_MEM_SIZE:
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE:
        return answer(&memory, sizeof memory, bytes, target, size);
    default:
        return CL_INVALID_VALUE;
    }
}

CL_API_ENTRY cl_context CL_API_CALL
clCreateContext(const cl_context_properties *properties, cl_uint count, const cl_device_id *devices,
                void(CL_CALLBACK *notify)(const char *, const void *, size_t, void *), void *user,
                cl_int *code) {
    (void)properties;
    (void)count;
    (void)devices;
    (void)notify;
    (void)user;
    if (number("FAKE_CONTEXT_CODE", 1))
        *code = CL_OUT_OF_RESOURCES;
    return NULL; // FAKE_CONTEXT_CODE=0: no context and no error code, like a broken driver
}
