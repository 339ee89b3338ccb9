/* Programs: from the disk cache if it has them, otherwise from the driver's compiler. */
#include <stdio.h>
#include <string.h>

#include "backend_opencl/opencl_internal.h"

/* The largest number of bytes of a build log in a detail text. */
#define SHORT_LOG 1200
/* A larger binary is not cached. */
#define MAX_BINARY_BYTES (64u << 20)

/*
 * Returns the build options. None may relax arithmetic (no fast-relaxed-math, no mad-enable), and
 * kernels/dialect turns contraction off. Division and square root are correctly rounded only with
 * an option.
 */
static char *build_options(const tdm_bk_device *device, const tdm_kernel_source *source) {
    const char *const defines = source->defines ? source->defines : "";
    const char *const divide = device->record->info.capabilities & TDM_CAP_CORRECT_DIVIDE
                                   ? "-cl-fp32-correctly-rounded-divide-sqrt "
                                   : "";
    const char *const dot_standard = device->record->dot_standard;
    const char *const standard =
        dot_standard && strstr(defines, "-DTDM_DOT4_KHR") ? dot_standard : TDM_OPENCL_STANDARD;
    const size_t bytes = 128 + strlen(source->entry) + strlen(defines);
    char *const options = tdm_host_alloc(bytes);
    if (options)
        snprintf(options, bytes, "%s -w %s-DTDM_ENTRY=%s %s", standard, divide, source->entry,
                 defines);
    return options;
}

/* ---- the driver's compiler ------------------------------------------------------------------- */

/* Returns the build log, or NULL if there is none. */
static char *build_log(const tdm_bk_device *device, cl_program program) {
    const cl_device_id id = device->record->id;
    size_t bytes = 0;
    if (OPENCL_CALL(device->api, clGetProgramBuildInfo, program, id, CL_PROGRAM_BUILD_LOG, 0, NULL,
                    &bytes) != CL_SUCCESS ||
        bytes < 2)
        return NULL;
    char *const log = tdm_host_calloc(bytes + 1, 1);
    if (log && OPENCL_CALL(device->api, clGetProgramBuildInfo, program, id, CL_PROGRAM_BUILD_LOG,
                           bytes, log, NULL) != CL_SUCCESS)
        log[0] = '\0';
    return log;
}

/* Returns the log from the line of its first error on, or all of it. */
static const char *first_error(const char *log) {
    const char *const error = strstr(log, "error");
    const char *line = error ? error : log;
    while (line > log && line[-1] != '\n')
        line--;
    return line;
}

static cl_int compile(const tdm_bk_device *device, const char *entry, cl_program program,
                      const char *options) {
    const cl_int code = OPENCL_CALL(device->api, clBuildProgram, program, 1, &device->record->id,
                                    options, NULL, NULL);
    const tdm_log_level level = code == CL_SUCCESS ? TDM_LOG_DEBUG : TDM_LOG_WARNING;
    char *const log =
        code != CL_SUCCESS || tdm_log_wanted(level, "driver") ? build_log(device, program) : NULL;
    if (log)
        tdm_opencl_log_lines(level, entry, log);
    if (code != CL_SUCCESS)
        tdm_set_detail("%s: clBuildProgram: %s (%d) with \"%s\": %.*s", entry,
                       tdm_opencl_error_name(code), code, options, SHORT_LOG,
                       log ? first_error(log) : "no log");
    tdm_host_free(log);
    return code;
}

static tdm_status status_of_build(cl_int code) {
    if (code == CL_SUCCESS)
        return TDM_OK;
    const tdm_status status = tdm_opencl_status(code);
    return status == TDM_OUT_OF_HOST_MEMORY || status == TDM_DEVICE_LOST ? status
                                                                         : TDM_BUILD_FAILED;
}

/* ---- programs that the compiler rejected ----------------------------------------------------- */

typedef struct tdm_opencl_refused {
    struct tdm_opencl_refused *next;
    char *entry, *reason;
} tdm_opencl_refused;

static void refused_free(tdm_opencl_refused *one) {
    tdm_host_free(one->entry);
    tdm_host_free(one->reason);
    tdm_host_free(one);
}

void tdm_opencl_refused_free(tdm_bk_device *device) {
    while (device->refused) {
        tdm_opencl_refused *const one = device->refused;
        device->refused = one->next;
        refused_free(one);
    }
}

/* Returns TDM_BUILD_FAILED with the first reason if the compiler rejected this entry before. */
static tdm_status check_refused(tdm_bk_device *device, const char *entry) {
    tdm_status status = TDM_OK;
    pthread_mutex_lock(&device->refused_lock);
    for (const tdm_opencl_refused *one = device->refused; one && status == TDM_OK; one = one->next)
        if (strcmp(one->entry, entry) == 0)
            status = tdm_fail(TDM_BUILD_FAILED, "%s", one->reason);
    pthread_mutex_unlock(&device->refused_lock);
    return status;
}

/*
 * Remembers a rejection, but only one that compiling again would not change. It is not remembered
 * if there is no memory.
 */
static void remember_refused(tdm_bk_device *device, const char *entry, cl_int code) {
    if (code != CL_BUILD_PROGRAM_FAILURE && code != CL_INVALID_BUILD_OPTIONS)
        return;
    tdm_opencl_refused *const one = tdm_host_calloc(1, sizeof *one);
    if (!one)
        return;
    one->entry = tdm_host_strdup(entry);
    one->reason = tdm_host_strdup(tdm_last_detail());
    if (!one->entry || !one->reason) {
        refused_free(one);
        return;
    }
    pthread_mutex_lock(&device->refused_lock);
    one->next = device->refused;
    device->refused = one;
    pthread_mutex_unlock(&device->refused_lock);
}

/* ---- building -------------------------------------------------------------------------------- */

static tdm_status build_from_source(tdm_bk_device *device, const tdm_kernel_source *source,
                                    const char *options, cl_program *program) {
    cl_int code;
    const cl_program created =
        OPENCL_CREATE(device->api, &code, clCreateProgramWithSource, device->context, 1,
                      (const char **)&source->text, &source->text_bytes);
    if (!created)
        return tdm_opencl_fail(code, source->entry, "clCreateProgramWithSource");
    code = compile(device, source->entry, created, options);
    if (code == CL_SUCCESS) {
        *program = created;
        return TDM_OK;
    }
    remember_refused(device, source->entry, code);
    OPENCL_RELEASE(device->api, clReleaseProgram, created);
    return status_of_build(code);
}

/* ---- the cache ------------------------------------------------------------------------------- */

/* The key holds everything that the binary depends on. */
static tdm_program_key cache_key(const tdm_bk_device *device, const tdm_kernel_source *source,
                                 const char *options) {
    const tdm_opencl_record *const record = device->record;
    const uint32_t one = 1; // gives the byte order; the next item gives the pointer size
    const uint32_t pointer_bytes = sizeof(void *);
    tdm_program_key_builder builder;
    tdm_program_key_begin(&builder);
    tdm_program_key_add_text(&builder, tdm_version_text());
    tdm_program_key_add(&builder, source->text, source->text_bytes);
    tdm_program_key_add_text(&builder, options);
    tdm_program_key_add_text(&builder, record->platform_name);
    tdm_program_key_add_text(&builder, record->platform_version);
    tdm_program_key_add_text(&builder, record->info.name);
    tdm_program_key_add_text(&builder, record->info.vendor);
    tdm_program_key_add_text(&builder, record->info.api_version);
    tdm_program_key_add_text(&builder, record->info.driver_version);
    tdm_program_key_add(&builder, &one, sizeof one);
    tdm_program_key_add(&builder, &pointer_bytes, sizeof pointer_bytes);
    return tdm_program_key_end(&builder);
}

/* True if the driver lacked memory or another resource, which says nothing about the binary. */
static bool is_shortage(cl_int code) {
    const tdm_status status = tdm_opencl_status(code);
    return code == CL_OUT_OF_RESOURCES || status == TDM_OUT_OF_HOST_MEMORY ||
           status == TDM_OUT_OF_DEVICE_MEMORY || status == TDM_DEVICE_LOST;
}

/*
 * Builds a program from a cached binary, or returns NULL. A binary that the driver rejects is
 * deleted.
 */
static cl_program build_from_cache(const tdm_bk_device *device, const tdm_program_key *key,
                                   const char *entry, const char *options) {
    unsigned char *binary;
    size_t bytes;
    if (!tdm_program_cache_load(device->cache, key, &binary, &bytes))
        return NULL;
    cl_int code, binary_code = CL_SUCCESS;
    cl_program program =
        OPENCL_CREATE(device->api, &code, clCreateProgramWithBinary, device->context, 1,
                      &device->record->id, &bytes, (const unsigned char **)&binary, &binary_code);
    tdm_host_free(binary);
    if (program) {
        code = binary_code != CL_SUCCESS ? binary_code : compile(device, entry, program, options);
        if (code == CL_SUCCESS)
            return program;
        OPENCL_RELEASE(device->api, clReleaseProgram, program);
    }
    const bool keep = is_shortage(code);
    tdm_log(TDM_LOG_WARNING, "cache", "%s: the driver %s the cached binary, %s (%d); rebuilding",
            entry, keep ? "cannot load" : "refuses", tdm_opencl_error_name(code), code);
    if (!keep)
        tdm_program_cache_remove(device->cache, key);
    return NULL;
}

static void store_in_cache(const tdm_bk_device *device, const tdm_program_key *key,
                           cl_program program) {
    size_t bytes = 0;
    if (OPENCL_CALL(device->api, clGetProgramInfo, program, CL_PROGRAM_BINARY_SIZES, sizeof bytes,
                    &bytes, NULL) != CL_SUCCESS ||
        bytes == 0 || bytes > MAX_BINARY_BYTES)
        return;
    unsigned char *binary = tdm_host_alloc(bytes);
    if (binary && OPENCL_CALL(device->api, clGetProgramInfo, program, CL_PROGRAM_BINARIES,
                              sizeof(unsigned char *), (void *)&binary, NULL) == CL_SUCCESS)
        tdm_program_cache_store(device->cache, key, binary, bytes);
    tdm_host_free(binary);
}

tdm_status tdm_opencl_program_build(tdm_bk_device *device, const tdm_kernel_source *source,
                                    cl_program *program) {
    tdm_status status = check_refused(device, source->entry);
    if (status != TDM_OK)
        return status;
    char *const options = build_options(device, source);
    if (!options)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "%s: no host memory", source->entry);
    if (device->cache) {
        const tdm_program_key key = cache_key(device, source, options);
        *program = build_from_cache(device, &key, source->entry, options);
        if (!*program) {
            status = build_from_source(device, source, options, program);
            if (status == TDM_OK)
                store_in_cache(device, &key, *program);
        }
    } else {
        status = build_from_source(device, source, options, program);
    }
    tdm_host_free(options);
    return status;
}
