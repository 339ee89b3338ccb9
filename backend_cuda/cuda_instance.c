/* The backend's instance: the devices of the driver, and notes on those that were passed over. */
#include <stdarg.h>
#include <stdio.h>

#include "backend_cuda/cuda_internal.h"

/* More than any machine holds, so that a lying count cannot make us ask without bound. */
#define MOST_DEVICES 256

static void add_note(tdm_bk_instance *instance, const char *format, ...) TDM_PRINTF(2, 3);

/* A note that finds no memory is lost, which harms nothing. */
static void add_note(tdm_bk_instance *instance, const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    const size_t size = (size_t)instance->note_count * sizeof(char *);
    char **const notes = tdm_host_realloc((void *)instance->notes, size, size + sizeof(char *));
    if (!notes)
        return;
    instance->notes = notes;
    notes[instance->note_count] = tdm_host_strdup(text);
    if (notes[instance->note_count])
        instance->note_count++;
}

/* What is wrong with a device becomes a note. */
static void list_device(tdm_bk_instance *instance, int ordinal) {
    const tdm_cuda_api *const api = &instance->api;
    tdm_cuda_record *const record = &instance->records[instance->record_count];
    *record = (tdm_cuda_record){.ordinal = ordinal};
    const CUresult code = CUDA_CALL(api, cuDeviceGet, &record->id, ordinal);
    if (code != CUDA_SUCCESS)
        add_note(instance, "device %d is passed over: cuDeviceGet: %s (%u)", ordinal,
                 tdm_cuda_error_name(code), code);
    else if (tdm_cuda_describe(api, record) != TDM_OK)
        add_note(instance, "device %d, \"%s\", is passed over: %s", ordinal, record->info.name,
                 tdm_last_detail());
    else
        instance->record_count++;
}

static tdm_status list_all(tdm_bk_instance *instance) {
    const tdm_cuda_api *const api = &instance->api;
    int count = 0;
    const CUresult code = CUDA_CALL(api, cuDeviceGetCount, &count);
    if (code != CUDA_SUCCESS || count < 0 || count > MOST_DEVICES) {
        add_note(instance, "cuDeviceGetCount: %s (%u), %d devices", tdm_cuda_error_name(code), code,
                 count);
        return TDM_OK;
    }
    if (count == 0) {
        add_note(instance, "the driver finds no GPU");
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
    for (int i = 0; i < instance->note_count; i++)
        tdm_host_free(instance->notes[i]);
    tdm_host_free(instance->records);
    tdm_host_free((void *)instance->notes);
    tdm_cuda_unload(&instance->api);
    tdm_host_free(instance);
}

int tdm_cuda_device_count(const tdm_bk_instance *instance) {
    return instance->record_count;
}

const char *tdm_cuda_note(const tdm_bk_instance *instance, int index) {
    return index >= 0 && index < instance->note_count ? instance->notes[index] : NULL;
}

tdm_status tdm_cuda_device_info(const tdm_bk_instance *instance, int index, tdm_device_info *info) {
    *info = instance->records[index].info;
    return TDM_OK;
}
