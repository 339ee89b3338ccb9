/* Queries strings and numbers that a driver reports for platforms and devices. */
#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "backend_opencl/opencl_internal.h"

/* Removes white space at both ends, because some drivers pad names to a fixed width. */
static void trim(char *text) {
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        text[--length] = '\0';
    const size_t leading = strspn(text, " \t\r\n");
    memmove(text, text + leading, length - leading + 1);
}

/*
 * Copies a string of the driver to `text`, and trims it. It is cut if it has `bytes` characters or
 * more.
 */
static void take_text(const char *answer, size_t answer_bytes, char *text, size_t bytes) {
    const size_t length = strnlen(answer, answer_bytes);
    snprintf(text, bytes, "%.*s", (int)(length < bytes ? length : bytes), answer);
    trim(text);
}

static _Thread_local cl_int first_refusal;

void tdm_opencl_queries_begin(void) {
    first_refusal = CL_SUCCESS;
}

cl_int tdm_opencl_query_refusal(void) {
    return first_refusal;
}

cl_int tdm_opencl_query_device(const tdm_opencl_api *api, cl_device_id device, cl_device_info what,
                               size_t bytes, void *answer, size_t *size) {
    const cl_int code = OPENCL_CALL(api, clGetDeviceInfo, device, what, bytes, answer, size);
    if (first_refusal == CL_SUCCESS)
        first_refusal = code;
    return code;
}

cl_int tdm_opencl_platform_text(const tdm_opencl_api *api, cl_platform_id platform,
                                cl_platform_info what, char *text, size_t bytes) {
    char answer[2048];
    size_t size = 0;
    const cl_int code =
        OPENCL_CALL(api, clGetPlatformInfo, platform, what, sizeof answer, answer, &size);
    take_text(answer, code == CL_SUCCESS ? size : 0, text, bytes);
    return code;
}

cl_int tdm_opencl_device_text(const tdm_opencl_api *api, cl_device_id device, cl_device_info what,
                              char *text, size_t bytes) {
    char answer[2048];
    size_t size = 0;
    const cl_int code = tdm_opencl_query_device(api, device, what, sizeof answer, answer, &size);
    take_text(answer, code == CL_SUCCESS ? size : 0, text, bytes);
    return code;
}

cl_uint tdm_opencl_device_uint(const tdm_opencl_api *api, cl_device_id device,
                               cl_device_info what) {
    cl_uint value = 0;
    const cl_int code = tdm_opencl_query_device(api, device, what, sizeof value, &value, NULL);
    return code == CL_SUCCESS ? value : 0;
}

cl_ulong tdm_opencl_device_ulong(const tdm_opencl_api *api, cl_device_id device,
                                 cl_device_info what) {
    cl_ulong value = 0;
    const cl_int code = tdm_opencl_query_device(api, device, what, sizeof value, &value, NULL);
    return code == CL_SUCCESS ? value : 0;
}

size_t tdm_opencl_device_size(const tdm_opencl_api *api, cl_device_id device, cl_device_info what) {
    size_t value = 0;
    const cl_int code = tdm_opencl_query_device(api, device, what, sizeof value, &value, NULL);
    return code == CL_SUCCESS ? value : 0;
}

/*
 * Queries CL_DEVICE_EXTENSIONS_WITH_VERSION, which OpenCL 3.0 introduced. Returns the names of the
 * extensions, each followed by a space. Returns NULL on failure, or if the list is empty.
 */
static char *extensions_with_version(const tdm_opencl_api *api, cl_device_id device) {
    size_t size = 0;
    if (OPENCL_CALL(api, clGetDeviceInfo, device, CL_DEVICE_EXTENSIONS_WITH_VERSION, 0, NULL,
                    &size) != CL_SUCCESS ||
        size < sizeof(cl_name_version))
        return NULL;
    cl_name_version *const list = tdm_host_alloc(size);
    const size_t count = size / sizeof *list;
    char *const text = tdm_host_calloc(count, CL_NAME_VERSION_MAX_NAME_SIZE + 1);
    char *end = text;
    const cl_int code = list && text
                            ? OPENCL_CALL(api, clGetDeviceInfo, device,
                                          CL_DEVICE_EXTENSIONS_WITH_VERSION, size, list, NULL)
                            : CL_OUT_OF_HOST_MEMORY;
    for (size_t i = 0; code == CL_SUCCESS && i < count; i++) {
        const size_t length = strnlen(list[i].name, sizeof list[i].name);
        memcpy(end, list[i].name, length);
        end[length] = ' ';
        end += length + 1;
    }
    tdm_host_free(list);
    if (code != CL_SUCCESS) {
        tdm_host_free(text);
        return NULL;
    }
    return text;
}

char *tdm_opencl_device_extensions(const tdm_opencl_api *api, cl_device_id device) {
    char *const listed = extensions_with_version(api, device);
    if (listed)
        return listed;
    size_t size = 0;
    if (OPENCL_CALL(api, clGetDeviceInfo, device, CL_DEVICE_EXTENSIONS, 0, NULL, &size) !=
        CL_SUCCESS)
        size = 0;
    char *const text = tdm_host_calloc(size + 1, 1);
    if (text && size > 0 &&
        OPENCL_CALL(api, clGetDeviceInfo, device, CL_DEVICE_EXTENSIONS, size, text, NULL) !=
            CL_SUCCESS)
        text[0] = '\0';
    return text;
}

bool tdm_opencl_has_token(const char *tokens, const char *name) {
    const size_t length = strlen(name);
    while (*tokens) {
        tokens += strspn(tokens, " ");
        const size_t token = strcspn(tokens, " ");
        if (token == length && memcmp(tokens, name, length) == 0)
            return true;
        tokens += token;
    }
    return false;
}

int tdm_opencl_version_number(const char *version_text) {
    static const char prefix[] = "OpenCL ";
    const char *const number = version_text + sizeof prefix - 1;
    if (strncmp(version_text, prefix, sizeof prefix - 1) != 0 ||
        !isdigit((unsigned char)number[0]) || number[1] != '.' ||
        !isdigit((unsigned char)number[2]))
        return 0;
    return (number[0] - '0') * 10 + (number[2] - '0');
}
