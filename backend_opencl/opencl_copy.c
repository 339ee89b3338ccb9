/* Enqueued copies and fills. */
#include "backend_opencl/opencl_internal.h"

/*
 * Enqueues one command: reserves an entry in the stream's ring, calls the function with the event
 * as last argument, and fills the entry.
 */
#define ENQUEUE(stream, operation, name, ...)                                                      \
    do {                                                                                           \
        const tdm_status reserved_ = tdm_opencl_stream_reserve(stream, operation);                 \
        if (reserved_ != TDM_OK)                                                                   \
            return reserved_;                                                                      \
        cl_event event_;                                                                           \
        OPENCL_TRY(operation, (stream)->device->api, name, __VA_ARGS__, 0, NULL, &event_);         \
        tdm_opencl_stream_push(stream, operation, event_);                                         \
    } while (0)

tdm_status tdm_opencl_write(tdm_bk_stream *stream, const char *operation, tdm_bk_memory *target,
                            uint64_t offset, const void *host, size_t bytes) {
    ENQUEUE(stream, operation, clEnqueueWriteBuffer, stream->queue, target->object, CL_FALSE,
            (size_t)offset, bytes, host);
    return TDM_OK;
}

tdm_status tdm_opencl_read(tdm_bk_stream *stream, const char *operation, tdm_bk_memory *source,
                           uint64_t offset, void *host, size_t bytes) {
    ENQUEUE(stream, operation, clEnqueueReadBuffer, stream->queue, source->object, CL_FALSE,
            (size_t)offset, bytes, host);
    return TDM_OK;
}

/* Converts the byte offset into the rectangle's origin: a row, and an offset in that row. */
static void origin_of(const tdm_bk_rows *rows, size_t origin[3]) {
    const size_t pitch = rows->pitch;
    origin[0] = (size_t)(rows->offset % pitch);
    origin[1] = (size_t)(rows->offset / pitch);
    origin[2] = 0;
}

tdm_status tdm_opencl_write_rows(tdm_bk_stream *stream, const char *operation,
                                 tdm_bk_memory *target, const tdm_bk_rows *rows, const void *host) {
    const size_t host_origin[3] = {0, 0, 0}, region[3] = {rows->bytes, rows->rows, 1};
    size_t origin[3];
    origin_of(rows, origin);
    ENQUEUE(stream, operation, clEnqueueWriteBufferRect, stream->queue, target->object, CL_FALSE,
            origin, host_origin, region, rows->pitch, 0, rows->host_pitch, 0, host);
    return TDM_OK;
}

tdm_status tdm_opencl_read_rows(tdm_bk_stream *stream, const char *operation, tdm_bk_memory *source,
                                const tdm_bk_rows *rows, void *host) {
    const size_t host_origin[3] = {0, 0, 0}, region[3] = {rows->bytes, rows->rows, 1};
    size_t origin[3];
    origin_of(rows, origin);
    ENQUEUE(stream, operation, clEnqueueReadBufferRect, stream->queue, source->object, CL_FALSE,
            origin, host_origin, region, rows->pitch, 0, rows->host_pitch, 0, host);
    return TDM_OK;
}

tdm_status tdm_opencl_copy(tdm_bk_stream *stream, const char *operation, tdm_bk_memory *target,
                           uint64_t target_offset, tdm_bk_memory *source, uint64_t source_offset,
                           size_t bytes) {
    ENQUEUE(stream, operation, clEnqueueCopyBuffer, stream->queue, source->object, target->object,
            (size_t)source_offset, (size_t)target_offset, bytes);
    return TDM_OK;
}

tdm_status tdm_opencl_fill(tdm_bk_stream *stream, const char *operation, tdm_bk_memory *target,
                           uint64_t offset, size_t bytes, const void *pattern,
                           size_t pattern_bytes) {
    ENQUEUE(stream, operation, clEnqueueFillBuffer, stream->queue, target->object, pattern,
            pattern_bytes, (size_t)offset, bytes);
    return TDM_OK;
}
