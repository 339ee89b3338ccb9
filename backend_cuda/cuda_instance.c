/* The backend's instance: the devices of the driver, and notes on devices that are skipped. */
#include <stdio.h>

#include "backend_cuda/cuda_internal.h"

/* More than any machine holds. It bounds the loop if the driver reports a wrong count. */
#define MAX_DEVICES 256

static void accept_device(tdm_bk_instance *instance, const tdm_cuda_record *record) {
    const int driver = instance->api.version, version = tdm_prebuilt_version();
    if (record->lacks_ptx)
        tdm_notes_add(&instance->notes,
                      "device %d, \"%s\": the kernels' PTX is ignored, only their machine code is "
                      "loaded: the driver supports CUDA %d.%d, they were built with %d.%d",
                      record->ordinal, record->info.name, driver / 1000, driver % 1000 / 10,
                      version / 1000, version % 1000 / 10);
    instance->record_count++;
}

/* Lists one device. A device that cannot be used becomes a note. */
static void list_device(tdm_bk_instance *instance, int ordinal) {
    const tdm_cuda_api *const api = &instance->api;
    tdm_cuda_record *const record = &instance->records[instance->record_count];
    *record = (tdm_cuda_record){.ordinal = ordinal};
    const CUresult code = CUDA_CALL(api, cuDeviceGet, &record->id, ordinal);
    if (code != CUDA_SUCCESS)
        tdm_notes_add(&instance->notes, "device %d is skipped: cuDeviceGet: %s (%u)", ordinal,
                      tdm_cuda_error_name(code), code);
    else if (tdm_cuda_describe(api, record) != TDM_OK)
        tdm_notes_add(&instance->notes, "device %d, \"%s\", is skipped: %s", ordinal,
                      record->info.name, tdm_last_detail());
    else
        accept_device(instance, record);
}

static tdm_status list_all(tdm_bk_instance *instance) {
    const tdm_cuda_api *const api = &instance->api;
    int count = 0;
    const CUresult code = CUDA_CALL(api, cuDeviceGetCount, &count);
    if (code != CUDA_SUCCESS || count < 0 || count > MAX_DEVICES) {
        tdm_notes_add(&instance->notes, "cuDeviceGetCount: %s (%u), %d devices",
                      tdm_cuda_error_name(code), code, count);
        return TDM_OK;
    }
    if (count == 0) {
        tdm_notes_add(&instance->notes, "the driver finds no GPU");
        return TDM_OK;
    }
    instance->records = tdm_host_calloc((size_t)count, sizeof *instance->records);
    if (!instance->records)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "no host memory for %d devices", count);
    for (int i = 0; i < count; i++)
        list_device(instance, i);
    return TDM_OK;
}

tdm_status tdm_cuda_open(tdm_bk_instance **instance) {
    tdm_bk_instance *const created = tdm_host_calloc(1, sizeof *created);
    if (!created)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "no host memory");
    tdm_status status = tdm_cuda_load(&created->api);
    if (status == TDM_OK)
        status = list_all(created);
    if (status != TDM_OK) {
        tdm_cuda_close(created);
        return status;
    }
    *instance = created;
    return TDM_OK;
}

void tdm_cuda_close(tdm_bk_instance *instance) {
    tdm_host_free(instance->records);
    tdm_notes_free(&instance->notes);
    tdm_cuda_unload(&instance->api);
    tdm_host_free(instance);
}

int tdm_cuda_device_count(const tdm_bk_instance *instance) {
    return instance->record_count;
}

const char *tdm_cuda_note(const tdm_bk_instance *instance, int index) {
    return tdm_notes_at(&instance->notes, index);
}

tdm_status tdm_cuda_device_info(const tdm_bk_instance *instance, int index, tdm_device_info *info) {
    *info = instance->records[index].info;
    return TDM_OK;
}
