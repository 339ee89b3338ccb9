#include "bench/trace/trace_replay_device.h"

#include <stdlib.h>
#include <time.h>

#include "api/device/core.h"

enum {
    MAX_DEVICE_STREAMS = 64,
    TOUCHED_BYTES = 64,
    PROGRESS_STEP = 1 << 12
};

static const uint64_t pool_unit = 256;

typedef struct device_replay {
    const trace_data *trace;
    tdm_device *device;
    tdm_stream *streams[MAX_DEVICE_STREAMS + 1]; /* of stream s: [s] */
    tdm_buffer **buffers;
    replay_result *result;
} device_replay;

static tdm_status touch(const device_replay *own, const trace_event *event) {
    static const uint32_t pattern = 0x7E7E7E7E;
    const tdm_buffer *const buffer = own->buffers[event->block];
    const uint64_t bytes = buffer == NULL ? 0 : buffer->bytes / sizeof pattern * sizeof pattern;
    if (bytes == 0)
        return TDM_OK;
    return tdm_enqueue_fill(own->streams[event->stream], "trace replay", buffer->block, 0,
                            bytes < TOUCHED_BYTES ? bytes : TOUCHED_BYTES, &pattern,
                            sizeof pattern);
}

static tdm_status replay_event(device_replay *own, size_t index) {
    const trace_event *const event = &own->trace->events[index];
    tdm_buffer **const buffer = &own->buffers[event->block];
    if (event->kind == TRACE_USE)
        return touch(own, event);
    if (event->kind == TRACE_FREE) {
        tdm_buffer_destroy(*buffer);
        *buffer = NULL;
        return TDM_OK;
    }
    const uint32_t stream = event->stream == 0 ? 0 : own->streams[event->stream]->id;
    const tdm_status status =
        tdm_buffer_create_for(own->device, stream, own->trace->blocks[event->block].bytes, buffer);
    if (status != TDM_OK && own->result->first_failure == 0)
        own->result->first_failure = index + 1;
    return status == TDM_OUT_OF_DEVICE_MEMORY || status == TDM_OVER_BUDGET ? TDM_OK : status;
}

static tdm_status replay_events(device_replay *own, const replay_settings *settings) {
    for (size_t i = 0; i < own->trace->event_count; i++) {
        TDM_TRY(replay_event(own, i));
        if (settings->progress != NULL && i % PROGRESS_STEP == 0)
            settings->progress(i, own->trace->event_count);
    }
    for (uint32_t i = 1; i <= own->trace->streams; i++)
        TDM_TRY(tdm_stream_synchronize(own->streams[i]));
    return TDM_OK;
}

static tdm_status open_streams(device_replay *own) {
    for (uint32_t i = 1; i <= own->trace->streams; i++)
        TDM_TRY(tdm_stream_create(own->device, &own->streams[i]));
    return TDM_OK;
}

static void finish(device_replay *own) {
    for (size_t i = 0; own->buffers != NULL && i < own->trace->block_count; i++)
        tdm_buffer_destroy(own->buffers[i]);
    for (uint32_t i = 1; i <= own->trace->streams && i <= MAX_DEVICE_STREAMS; i++)
        tdm_stream_destroy(own->streams[i]);
    free((void *)own->buffers);
    tdm_device_set_memory_budget(own->device, 0);
}

static void take_figures(const device_replay *own, const tdm_memory_stats *before) {
    replay_result *const result = own->result;
    tdm_memory_stats stats = {.struct_size = sizeof stats};
    tdm_device_memory_stats(own->device, &stats);
    result->peak_reserved = stats.reserved_peak;
    result->peak_allocated = stats.allocated_peak;
    result->peak_requested = stats.requested_peak;
    result->native_allocations = stats.native_allocations - before->native_allocations;
    result->native_frees = stats.native_frees - before->native_frees;
    result->retries = stats.retries - before->retries;
    result->failures = stats.failures - before->failures;
    result->operations = own->trace->event_count;
}

static double now_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

int replay_on_device(const trace_data *trace, tdm_device *device, const replay_settings *settings,
                     replay_result *result, file_error *error) {
    device_replay own = {.trace = trace, .device = device, .result = result};
    tdm_memory_stats before = {.struct_size = sizeof before};
    const uint64_t alignment = device->info.alignment_bytes;
    *result = (replay_result){.unit = alignment > pool_unit ? alignment : pool_unit};
    if (trace->streams > MAX_DEVICE_STREAMS)
        return file_fail(error, "the trace has %u streams; on a device at most %d are replayed",
                         trace->streams, MAX_DEVICE_STREAMS);
    result->lower_bound = trace_lower_bound(trace, result->unit);
    own.buffers = calloc(trace->block_count + 1, sizeof(tdm_buffer *));
    tdm_status status = own.buffers == NULL ? TDM_OUT_OF_HOST_MEMORY : open_streams(&own);
    tdm_device_trim(device);
    tdm_device_set_memory_budget(device, settings->budget);
    tdm_device_set_memory_throttle(device, settings->throttle, 1000);
    tdm_device_reset_peaks(device);
    tdm_device_memory_stats(device, &before);
    const double start = now_seconds();
    if (status == TDM_OK)
        status = replay_events(&own, settings);
    result->seconds = now_seconds() - start;
    take_figures(&own, &before);
    finish(&own);
    if (status == TDM_OK)
        return 0;
    return file_fail(error, "%s: %s", tdm_status_text(status), tdm_last_detail());
}
