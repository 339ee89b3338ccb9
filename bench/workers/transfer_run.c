#include "bench/workers/transfer_run.h"

#include <stdlib.h>
#include <string.h>

static int goes_up(const memory_case *item) {
    return item->operation == MEMORY_UPLOAD || item->operation == MEMORY_BOTH;
}

static int goes_down(const memory_case *item) {
    return item->operation == MEMORY_DOWNLOAD || item->operation == MEMORY_BOTH;
}

/* The two blocks of the host; pinned ones get their content from the others, which are then of no use. */
static tdm_status create_host(tdm_device *device, const memory_case *item, transfer_run *run) {
    run->pageable_source = memory_case_source(item);
    run->pageable_target = memory_case_target(item);
    run->host_source = run->pageable_source;
    run->host_target = run->pageable_target;
    if (run->pageable_source == NULL || run->pageable_target == NULL)
        return TDM_OUT_OF_HOST_MEMORY;
    if (!item->pinned)
        return TDM_OK;
    tdm_status status = tdm_host_buffer_create(device, item->bytes, &run->pinned_source);
    if (status == TDM_OK)
        status = tdm_host_buffer_create(device, item->bytes, &run->pinned_target);
    if (status != TDM_OK)
        return status;
    memcpy(tdm_host_buffer_address(run->pinned_source), run->pageable_source, item->bytes);
    memcpy(tdm_host_buffer_address(run->pinned_target), run->pageable_target, item->bytes);
    run->host_source = tdm_host_buffer_address(run->pinned_source);
    run->host_target = tdm_host_buffer_address(run->pinned_target);
    return TDM_OK;
}

/* A device buffer with this content, there before anything is timed. */
static tdm_status create_buffer(tdm_device *device, tdm_stream *stream, const void *content,
                                size_t bytes, tdm_buffer **buffer) {
    tdm_status status = tdm_buffer_create(device, bytes, buffer);
    if (status == TDM_OK)
        status = tdm_buffer_write(stream, *buffer, 0, content, bytes);
    const tdm_status waited = tdm_stream_synchronize(stream);
    return status == TDM_OK ? waited : status;
}

tdm_status transfer_run_create(tdm_device *device, tdm_stream *stream, const memory_case *item,
                               transfer_run *run) {
    memset(run, 0, sizeof *run);
    tdm_status status = create_host(device, item, run);
    if (status == TDM_OK && item->operation != MEMORY_UPLOAD)
        status = create_buffer(device, stream, run->host_source, item->bytes, &run->source);
    if (status == TDM_OK && item->operation != MEMORY_DOWNLOAD)
        status = create_buffer(device, stream, run->host_target, item->bytes, &run->target);
    if (status == TDM_OK && item->operation == MEMORY_BOTH)
        status = tdm_stream_create(device, &run->second);
    return status;
}

void transfer_run_release(transfer_run *run) {
    if (run->second != NULL)
        tdm_stream_synchronize(run->second);
    tdm_stream_destroy(run->second);
    tdm_buffer_destroy(run->source);
    tdm_buffer_destroy(run->target);
    tdm_host_buffer_destroy(run->pinned_source);
    tdm_host_buffer_destroy(run->pinned_target);
    free(run->pageable_source);
    free(run->pageable_target);
    memset(run, 0, sizeof *run);
}

tdm_status transfer_run_enqueue(const transfer_run *run, const memory_case *item,
                                tdm_stream *stream) {
    const size_t bytes = item->bytes;
    tdm_status status = TDM_OK;
    if (item->operation == MEMORY_BUFFER)
        return tdm_buffer_copy(stream, run->target, 0, run->source, 0, bytes);
    if (goes_up(item))
        status = tdm_buffer_write(stream, run->target, 0, run->host_source, bytes);
    if (status == TDM_OK && goes_down(item))
        status = tdm_buffer_read(run->second != NULL ? run->second : stream, run->source, 0,
                                 run->host_target, bytes);
    return status;
}

tdm_status transfer_run_wait(const transfer_run *run, tdm_stream *stream) {
    const tdm_status status = tdm_stream_synchronize(stream);
    const tdm_status second = run->second == NULL ? TDM_OK : tdm_stream_synchronize(run->second);
    return status == TDM_OK ? second : status;
}

size_t transfer_run_output_bytes(const memory_case *item) {
    return item->operation == MEMORY_BOTH ? 2 * item->bytes : item->bytes;
}

tdm_status transfer_run_output(const transfer_run *run, const memory_case *item, tdm_stream *stream,
                               void *bytes) {
    char *at = bytes;
    if (goes_down(item)) {
        memcpy(at, run->host_target, item->bytes);
        at += item->bytes;
    }
    if (run->target == NULL)
        return TDM_OK;
    const tdm_status status = tdm_buffer_read(stream, run->target, 0, at, item->bytes);
    const tdm_status waited = tdm_stream_synchronize(stream);
    return status == TDM_OK ? waited : status;
}
