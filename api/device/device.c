/* Open devices: native context, pool, kernels. */
#include <string.h>

#include "api/device/core.h"
#include "api/device/device_internal.h"
#include "api/device/memory/memory_pool.h"
#include "api/device/memory/memory_trace.h"
#include "api/device/memory/staging.h"
#include "api/pool/guard.h"
#include "api/pool/observation.h"

const char *tdm_capability_name(uint32_t bit) {
    switch (bit) {
#define NAME(name, position, text, meaning)                                                        \
    case name:                                                                                     \
        return text;
        TDM_CAPABILITY_LIST(NAME)
#undef NAME
    default:
        return NULL;
    }
}

static void device_free(tdm_device *device) {
    if (device->plans_destroy)
        device->plans_destroy(device->plans);
    for (int i = 0; device->kernels && i < tdm_variant_count; i++) {
        tdm_kernel *const kernel = atomic_load(&device->kernels[i]);
        if (kernel)
            device->api->kernel_release(kernel->native);
        tdm_host_free(kernel);
    }
    tdm_host_free((void *)device->kernels);
    tdm_host_free(device->outofcore);
    tdm_tuning_close(device->tuning);
    tdm_memory_trace_close_named(device->memory_trace);
    tdm_observation_close(device->observation);
    tdm_device_pools_close(device);
    tdm_pool_destroy(device->pool);
    tdm_staging_close(device);
    if (device->guard_stream)
        device->api->stream_destroy(device->guard_stream);
    tdm_guard_destroy(device->guard);
    if (device->native)
        device->api->device_close(device->native);
    pthread_mutex_destroy(&device->kernels_lock);
    pthread_mutex_destroy(&device->streams_lock);
    pthread_mutex_destroy(&device->plans_lock);
    pthread_mutex_destroy(&device->pools_lock);
    pthread_mutex_destroy(&device->callbacks_lock);
    pthread_cond_destroy(&device->callbacks_change);
    tdm_host_free(device);
}

static tdm_status device_open(tdm_context *context, tdm_device_slot *slot, tdm_device **device) {
    tdm_status status = TDM_OK;
    const tdm_loaded_backend *const backend = &context->backends[slot->backend];
    tdm_device *const opened = tdm_host_calloc(1, sizeof *opened);
    if (!opened)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "device_get: no host memory");
    opened->references = 1;
    opened->destroy = device_free;
    opened->context = context;
    opened->slot = slot;
    opened->api = backend->api;
    opened->info = slot->info;
    opened->next_stream_id = 1;
    pthread_mutex_init(&opened->kernels_lock, NULL);
    pthread_mutex_init(&opened->streams_lock, NULL);
    pthread_mutex_init(&opened->plans_lock, NULL);
    pthread_mutex_init(&opened->pools_lock, NULL);
    pthread_mutex_init(&opened->callbacks_lock, NULL);
    pthread_cond_init(&opened->callbacks_change, NULL);
    opened->kernels = tdm_host_calloc((size_t)tdm_variant_count, sizeof *opened->kernels);
    if (!opened->kernels) {
        status =
            tdm_fail(TDM_OUT_OF_HOST_MEMORY, "device_get: no host memory for the kernel table");
        goto cleanup;
    }
    opened->tuning = tdm_tuning_open(&opened->info);
    TDM_TRY_GOTO(opened->api->device_open(backend->instance, slot->index, &opened->native));
    if (context->debug_pool)
        TDM_TRY_GOTO(tdm_guard_create_for(opened, &opened->guard));
    TDM_TRY_GOTO(tdm_device_pool_create(opened));
    opened->memory_trace = tdm_memory_trace_open_named(opened);
    TDM_TRY_GOTO(tdm_observation_open(opened->pool, opened->info.selector, &opened->observation));
    TDM_TRY_GOTO(tdm_staging_open(opened));
    opened->stages_copies = !(opened->info.capabilities & TDM_CAP_UNIFIED_MEMORY);
    *device = opened;
    return TDM_OK;

cleanup:
    device_free(opened);
    return status;
}

tdm_status tdm_device_get(tdm_context *context, int index, tdm_device **device) {
    if (!device)
        return tdm_fail(TDM_BAD_ARGUMENT, "device_get: device is NULL");
    *device = NULL;
    if (!context)
        return tdm_fail(TDM_BAD_ARGUMENT, "device_get: context is NULL");
    if (index < 0 || index >= context->device_count)
        return tdm_context_no_device(context, "device_get", index);
    tdm_device_slot *const slot = &context->devices[index];
    tdm_status status = TDM_OK;
    pthread_mutex_lock(&context->lock);
    if (slot->open)
        slot->open->references++;
    else
        status = device_open(context, slot, &slot->open);
    if (status == TDM_OK) {
        tdm_context_retain(context);
        *device = slot->open;
    }
    pthread_mutex_unlock(&context->lock);
    return status;
}

tdm_status tdm_context_open_devices(tdm_context *context, tdm_device ***devices, int *count) {
    tdm_device **const list =
        tdm_host_calloc((size_t)context->device_count + 1, sizeof(tdm_device *));
    if (!list)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "context: no host memory for a list of %d devices",
                        context->device_count);
    *devices = list;
    *count = 0;
    pthread_mutex_lock(&context->lock);
    for (int i = 0; i < context->device_count; i++) {
        tdm_device *const device = context->devices[i].open;
        if (!device)
            continue;
        device->references++;
        tdm_context_retain(context);
        list[(*count)++] = device;
    }
    pthread_mutex_unlock(&context->lock);
    return TDM_OK;
}

tdm_status tdm_device_describe(const tdm_device *device, tdm_device_info *info) {
    if (!device || !info)
        return tdm_fail(TDM_BAD_ARGUMENT, "device_describe: %s is NULL",
                        device ? "info" : "device");
    return tdm_device_info_copy(&device->info, info);
}

tdm_status tdm_device_memory_stats(const tdm_device *device, tdm_memory_stats *stats) {
    if (!device)
        return tdm_fail(TDM_BAD_ARGUMENT, "device_memory_stats: device is NULL");
    return tdm_pool_stats_copy("device_memory_stats", device->pool, stats);
}

tdm_status tdm_device_reset_peaks(tdm_device *device) {
    if (!device)
        return tdm_fail(TDM_BAD_ARGUMENT, "device_reset_peaks: device is NULL");
    tdm_pool_reset_peaks(device->pool);
    tdm_pool_statistics_reset_peaks(device->observation->statistics);
    return TDM_OK;
}

tdm_status tdm_device_set_memory_budget(tdm_device *device, uint64_t bytes) {
    if (!device)
        return tdm_fail(TDM_BAD_ARGUMENT, "device_set_memory_budget: device is NULL");
    atomic_store(&device->account.bound, bytes ? bytes : tdm_device_upstream(device).budget);
    tdm_pool_set_budget(device->pool, bytes);
    if (atomic_load(&device->account.reserved) > atomic_load(&device->account.bound))
        tdm_device_trim_pools(device);
    tdm_observation_refresh(device->observation);
    return TDM_OK;
}

tdm_status tdm_device_set_memory_throttle(tdm_device *device, uint32_t share,
                                          uint32_t patience_ms) {
    if (!device)
        return tdm_fail(TDM_BAD_ARGUMENT, "device_set_memory_throttle: device is NULL");
    if (share > 0 && patience_ms == 0)
        return tdm_fail(TDM_BAD_ARGUMENT, "device_set_memory_throttle: patience_ms is 0");
    tdm_pool_set_throttle(device->pool, share, patience_ms * UINT64_C(1000000));
    return TDM_OK;
}

tdm_status tdm_device_trim(tdm_device *device) {
    if (!device)
        return tdm_fail(TDM_BAD_ARGUMENT, "device_trim: device is NULL");
    tdm_device_trim_pools(device);
    tdm_staging_trim(device);
    return TDM_OK;
}
