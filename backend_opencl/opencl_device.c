/* Contexts, queues and open devices. */
#include "backend_opencl/opencl_internal.h"

/*
 * Logs a driver's message about a context. The driver may call it at any time and from any thread.
 */
static void CL_CALLBACK log_message(const char *message, const void *data, size_t bytes,
                                    void *user) {
    (void)data;
    (void)bytes;
    (void)user;
    tdm_opencl_log_lines(TDM_LOG_WARNING, "driver says", message);
}

tdm_status tdm_opencl_context_create(const tdm_opencl_api *api, const tdm_opencl_record *record,
                                     const char *what, cl_context *context) {
    const cl_context_properties properties[] = {CL_CONTEXT_PLATFORM,
                                                (cl_context_properties)record->platform, 0};
    cl_int code;
    *context =
        OPENCL_CREATE(api, &code, clCreateContext, properties, 1, &record->id, log_message, NULL);
    return *context ? TDM_OK : tdm_opencl_fail(code, what, "clCreateContext");
}

tdm_status tdm_opencl_queue_create(const tdm_opencl_api *api, const tdm_opencl_record *record,
                                   cl_context context, const char *what, cl_command_queue *queue) {
    cl_int code;
    *queue = OPENCL_CREATE(api, &code, clCreateCommandQueue, context, record->id,
                           record->queue_properties);
    return *queue ? TDM_OK : tdm_opencl_fail(code, what, "clCreateCommandQueue");
}

static void open_cache(tdm_bk_device *device) {
    const char *const path = device->instance->cache_path;
    const char *const force = tdm_environment("TANDEM_CACHE_FORCE", true);
    const bool forced = force && *force && !(force[0] == '0' && force[1] == '\0');
    if (path && (forced || !device->record->family->keeps_programs))
        device->cache = tdm_program_cache_open(path);
}

tdm_status tdm_opencl_device_open(tdm_bk_instance *instance, int index, tdm_bk_device **device) {
    const tdm_opencl_record *const record = &instance->records[index];
    tdm_bk_device *const opened = tdm_host_calloc(1, sizeof *opened);
    if (!opened)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "%s: no host memory", record->info.name);
    opened->instance = instance;
    opened->api = &instance->api;
    opened->record = record;
    pthread_mutex_init(&opened->service_lock, NULL);
    pthread_mutex_init(&opened->refused_lock, NULL);
    tdm_status status =
        tdm_opencl_context_create(opened->api, record, record->info.name, &opened->context);
    if (status == TDM_OK)
        status = tdm_opencl_queue_create(opened->api, record, opened->context, record->info.name,
                                         &opened->service_queue);
    if (status != TDM_OK) {
        tdm_opencl_device_close(opened);
        return status;
    }
    open_cache(opened);
    *device = opened;
    return TDM_OK;
}

void tdm_opencl_device_close(tdm_bk_device *device) {
    tdm_program_cache_close(device->cache);
    if (device->service_queue)
        OPENCL_RELEASE(device->api, clReleaseCommandQueue, device->service_queue);
    if (device->context)
        OPENCL_RELEASE(device->api, clReleaseContext, device->context);
    pthread_mutex_destroy(&device->service_lock);
    pthread_mutex_destroy(&device->refused_lock);
    tdm_opencl_refused_free(device);
    tdm_host_free(device);
}

void *tdm_opencl_native(tdm_bk_device *device, tdm_native_kind kind, void *object) {
    switch (kind) {
    case TDM_NATIVE_PLATFORM:
        return device->record->platform;
    case TDM_NATIVE_DEVICE:
        return device->record->id;
    case TDM_NATIVE_CONTEXT:
        return device->context;
    case TDM_NATIVE_STREAM:
        atomic_store(&((tdm_bk_stream *)object)->handed_out, true);
        return ((const tdm_bk_stream *)object)->queue;
    case TDM_NATIVE_MEMORY:
        return ((const tdm_bk_memory *)object)->object;
    }
    return NULL;
}
