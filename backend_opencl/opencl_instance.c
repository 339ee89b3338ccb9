/* The backend's instance: every platform and device, and notes on those that are skipped. */
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "backend_opencl/opencl_internal.h"

/* No driver lists this many entries. The limit bounds allocations if a reported count is wrong. */
#define MAX_IDS 1024

static void record_free(tdm_opencl_record *record) {
    tdm_host_free(record->extensions);
    record->extensions = NULL;
}

static tdm_status add_record(tdm_bk_instance *instance, const tdm_opencl_record *record) {
    const size_t size = (size_t)instance->record_count * sizeof *record;
    tdm_opencl_record *const records =
        tdm_host_realloc(instance->records, size, size + sizeof *record);
    if (!records)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "no host memory for the device list");
    instance->records = records;
    records[instance->record_count++] = *record;
    return TDM_OK;
}

/*
 * Lists one device. A failure of the device becomes a note, even if its driver runs out of host
 * memory. The function fails only if an allocation of the library fails.
 */
static tdm_status list_device(tdm_bk_instance *instance, tdm_opencl_record *record) {
    record->extensions = tdm_opencl_device_extensions(&instance->api, record->id);
    if (!record->extensions)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "no host memory for a device's extensions");
    // Describing a device allocates no memory of the library, so every failure is the device's.
    if (tdm_opencl_describe(&instance->api, record) != TDM_OK) {
        tdm_notes_add(&instance->notes, "device \"%s\" of platform \"%s\" is skipped: %s",
                      record->info.name, record->platform_name, tdm_last_detail());
        record_free(record);
        return TDM_OK;
    }
    const tdm_status status = add_record(instance, record);
    if (status != TDM_OK)
        record_free(record);
    return status;
}

static void note_no_devices(tdm_bk_instance *instance, const tdm_opencl_record *platform) {
    const char *const hint = platform->family->no_device_hint;
    tdm_notes_add(&instance->notes, "platform \"%s\" has no devices%s%s", platform->platform_name,
                  hint ? "; " : "", hint ? hint : "");
}

/*
 * Fills in what all devices of a platform share. The driver family depends on the name, vendor and
 * version, so all three are required.
 */
static cl_int describe_platform(const tdm_opencl_api *api, tdm_opencl_record *platform) {
    char vendor[OPENCL_TEXT];
    cl_int code = tdm_opencl_platform_text(api, platform->platform, CL_PLATFORM_NAME,
                                           platform->platform_name, sizeof platform->platform_name);
    if (code == CL_SUCCESS)
        code =
            tdm_opencl_platform_text(api, platform->platform, CL_PLATFORM_VERSION,
                                     platform->platform_version, sizeof platform->platform_version);
    if (code == CL_SUCCESS)
        code = tdm_opencl_platform_text(api, platform->platform, CL_PLATFORM_VENDOR, vendor,
                                        sizeof vendor);
    if (code == CL_SUCCESS)
        platform->family =
            tdm_opencl_family_find(platform->platform_name, vendor, platform->platform_version);
    return code;
}

static tdm_status list_platform(tdm_bk_instance *instance, cl_platform_id id) {
    const tdm_opencl_api *const api = &instance->api;
    tdm_opencl_record platform = {.platform = id};
    cl_int code = describe_platform(api, &platform);
    if (code == CL_SUCCESS && platform.family->runs_in_calls)
        instance->api.serial = true;
    if (code != CL_SUCCESS) {
        tdm_notes_add(&instance->notes, "platform \"%s\" is skipped: clGetPlatformInfo: %s (%d)",
                      platform.platform_name, tdm_opencl_error_name(code), code);
        return TDM_OK;
    }
    cl_uint count = 0;
    code = OPENCL_CALL(api, clGetDeviceIDs, id, CL_DEVICE_TYPE_ALL, 0, NULL, &count);
    if (code == CL_DEVICE_NOT_FOUND || (code == CL_SUCCESS && count == 0)) {
        note_no_devices(instance, &platform);
        return TDM_OK;
    }
    cl_device_id *devices = NULL;
    if (code == CL_SUCCESS && count <= MAX_IDS) {
        devices = tdm_host_calloc(count, sizeof *devices);
        if (!devices)
            return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "no host memory for %u devices", count);
        code = OPENCL_CALL(api, clGetDeviceIDs, id, CL_DEVICE_TYPE_ALL, count, devices, NULL);
    }
    tdm_status status = TDM_OK;
    if (code != CL_SUCCESS || !devices)
        tdm_notes_add(&instance->notes,
                      "platform \"%s\" is skipped: clGetDeviceIDs: %s (%d), %u devices",
                      platform.platform_name, tdm_opencl_error_name(code), code, count);
    else
        for (cl_uint i = 0; status == TDM_OK && i < count; i++) {
            tdm_opencl_record record = platform;
            record.id = devices[i];
            status = list_device(instance, &record);
        }
    tdm_host_free(devices);
    return status;
}

static tdm_status list_all(tdm_bk_instance *instance) {
    const tdm_opencl_api *const api = &instance->api;
    cl_uint count = 0;
    cl_int code = OPENCL_CALL(api, clGetPlatformIDs, 0, NULL, &count);
    if (code == CL_PLATFORM_NOT_FOUND_KHR || (code == CL_SUCCESS && count == 0)) {
        tdm_notes_add(&instance->notes,
                      "the loader finds no platform; install a driver (pocl-opencl-icd runs on "
                      "the CPU)");
        return TDM_OK;
    }
    cl_platform_id *platforms = NULL;
    if (code == CL_SUCCESS && count <= MAX_IDS) {
        platforms = tdm_host_calloc(count, sizeof *platforms);
        if (!platforms)
            return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "no host memory for %u platforms", count);
        code = OPENCL_CALL(api, clGetPlatformIDs, count, platforms, NULL);
    }
    tdm_status status = TDM_OK;
    if (code != CL_SUCCESS || !platforms)
        tdm_notes_add(&instance->notes, "clGetPlatformIDs: %s (%d), %u platforms",
                      tdm_opencl_error_name(code), code, count);
    else
        for (cl_uint i = 0; status == TDM_OK && i < count; i++)
            status = list_platform(instance, platforms[i]);
    tdm_host_free(platforms);
    return status;
}

tdm_status tdm_opencl_open(tdm_bk_instance **instance) {
    tdm_bk_instance *const created = tdm_host_calloc(1, sizeof *created);
    if (!created)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "no host memory");
    // PoCL 3.1 crashes when two threads list its devices for the first time.
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    tdm_status status = tdm_opencl_load(&created->api, &created->notes);
    if (status == TDM_OK)
        status = list_all(created);
    pthread_mutex_unlock(&lock);
    if (status != TDM_OK) {
        tdm_opencl_close(created);
        return status;
    }
    created->cache_path = tdm_program_cache_path();
    *instance = created;
    return TDM_OK;
}

void tdm_opencl_close(tdm_bk_instance *instance) {
    for (int i = 0; i < instance->record_count; i++)
        record_free(&instance->records[i]);
    tdm_host_free(instance->records);
    tdm_notes_free(&instance->notes);
    tdm_host_free(instance->cache_path);
    tdm_opencl_unload(&instance->api);
    tdm_host_free(instance);
}

int tdm_opencl_device_count(const tdm_bk_instance *instance) {
    return instance->record_count;
}

const char *tdm_opencl_note(const tdm_bk_instance *instance, int index) {
    return tdm_notes_at(&instance->notes, index);
}

tdm_status tdm_opencl_device_info(const tdm_bk_instance *instance, int index,
                                  tdm_device_info *info) {
    *info = instance->records[index].info;
    return TDM_OK;
}
