/* A guard's access to a device's memory through its own native queue. */
#include "api/device/core.h"
#include "api/device/device_internal.h"
#include "api/pool/guard.h"

#define ZONE 256

/* Returns the guard's queue, which the first use creates. */
static tdm_status stream_of(tdm_device *device, tdm_bk_stream **stream) {
    if (!device->guard_stream)
        TDM_TRY(device->api->stream_create(device->native, &device->guard_stream));
    *stream = device->guard_stream;
    return TDM_OK;
}

static tdm_status finish(const tdm_device *device) {
    const char *failed;
    return device->api->stream_wait(device->guard_stream, &failed);
}

static tdm_status read_device(void *user, tdm_bk_memory *memory, uint64_t offset, void *host,
                              size_t bytes) {
    tdm_device *const device = user;
    tdm_bk_stream *stream;
    TDM_TRY(stream_of(device, &stream));
    TDM_TRY(device->api->read(stream, "debug_check", memory, offset, host, bytes));
    return finish(device);
}

static tdm_status write_device(void *user, tdm_bk_memory *memory, uint64_t offset, const void *host,
                               size_t bytes) {
    tdm_device *const device = user;
    tdm_bk_stream *stream;
    TDM_TRY(stream_of(device, &stream));
    TDM_TRY(device->api->write(stream, "debug_fill", memory, offset, host, bytes));
    return finish(device);
}

static tdm_status fill_device(void *user, tdm_bk_memory *memory, uint64_t offset, size_t bytes,
                              const void *pattern) {
    tdm_device *const device = user;
    tdm_bk_stream *stream;
    TDM_TRY(stream_of(device, &stream));
    TDM_TRY(device->api->fill(stream, "debug_fill", memory, offset, bytes, pattern, 8));
    return finish(device);
}

tdm_status tdm_guard_create_for(tdm_device *device, tdm_guard **guard) {
    const tdm_guard_access access = {
        .user = device, .read = read_device, .write = write_device, .fill = fill_device};
    const uint64_t unit = device->info.alignment_bytes;
    TDM_TRY(tdm_guard_create(&access, unit > ZONE ? unit : ZONE, guard));
    if (device->context->debug_aborts)
        tdm_guard_abort_on_report(*guard);
    return TDM_OK;
}

tdm_status tdm_device_check_memory(tdm_device *device, uint64_t *reports) {
    if (!reports)
        return tdm_fail(TDM_BAD_ARGUMENT, "device_check_memory: reports is NULL");
    *reports = 0;
    if (!device)
        return tdm_fail(TDM_BAD_ARGUMENT, "device_check_memory: device is NULL");
    if (!device->guard)
        return TDM_OK;
    TDM_TRY(tdm_device_synchronize(device));
    *reports = tdm_guard_check(device->guard);
    return TDM_OK;
}
