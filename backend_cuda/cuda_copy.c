/*
 * Enqueued copies and fills.
 *
 * The driver fulfils the contract of api/backend.h for host memory. Copies between pinned memory
 * and the device are asynchronous. Pageable memory is read during the call, into the driver's
 * staging memory, and is written before the call returns.
 */
#include <string.h>

#include "backend_cuda/cuda_internal.h"

/* Enqueues one command in the device's context. */
#define ENQUEUE(stream, operation, name, ...)                                                      \
    do {                                                                                           \
        const tdm_status entered_ = tdm_cuda_enter((stream)->device, operation);                   \
        if (entered_ != TDM_OK)                                                                    \
            return entered_;                                                                       \
        const CUresult code_ =                                                                     \
            CUDA_CALL((stream)->device->api, name, __VA_ARGS__, (stream)->stream);                 \
        tdm_cuda_leave((stream)->device);                                                          \
        if (code_ != CUDA_SUCCESS)                                                                 \
            return tdm_cuda_enqueue_fail(stream, code_, operation, #name);                         \
        tdm_cuda_stream_note(stream, operation);                                                   \
    } while (0)

tdm_status tdm_cuda_write(tdm_bk_stream *stream, const char *operation, tdm_bk_memory *target,
                          uint64_t offset, const void *host, size_t bytes) {
    ENQUEUE(stream, operation, cuMemcpyHtoDAsync, target->address + offset, host, bytes);
    return TDM_OK;
}

tdm_status tdm_cuda_read(tdm_bk_stream *stream, const char *operation, tdm_bk_memory *source,
                         uint64_t offset, void *host, size_t bytes) {
    ENQUEUE(stream, operation, cuMemcpyDtoHAsync, host, source->address + offset, bytes);
    return TDM_OK;
}

/*
 * True if one 2D copy can transfer the rows. A pitch above the driver's limit needs one copy per
 * row.
 */
static bool is_rectangle(const tdm_bk_stream *stream, const tdm_bk_rows *rows) {
    const uint64_t most = stream->device->record->most_pitch;
    return rows->pitch <= most && rows->host_pitch <= most;
}

tdm_status tdm_cuda_write_rows(tdm_bk_stream *stream, const char *operation, tdm_bk_memory *target,
                               const tdm_bk_rows *rows, const void *host) {
    for (size_t i = 0; !is_rectangle(stream, rows) && i < rows->rows; i++) {
        const tdm_status status =
            tdm_cuda_write(stream, operation, target, rows->offset + i * rows->pitch,
                           (const unsigned char *)host + i * rows->host_pitch, rows->bytes);
        if (status != TDM_OK || i + 1 == rows->rows)
            return status;
    }
    const CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                                .srcHost = host,
                                .srcPitch = rows->host_pitch,
                                .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                                .dstDevice = target->address + rows->offset,
                                .dstPitch = rows->pitch,
                                .WidthInBytes = rows->bytes,
                                .Height = rows->rows};
    ENQUEUE(stream, operation, cuMemcpy2DAsync, &copy);
    return TDM_OK;
}

tdm_status tdm_cuda_read_rows(tdm_bk_stream *stream, const char *operation, tdm_bk_memory *source,
                              const tdm_bk_rows *rows, void *host) {
    for (size_t i = 0; !is_rectangle(stream, rows) && i < rows->rows; i++) {
        const tdm_status status =
            tdm_cuda_read(stream, operation, source, rows->offset + i * rows->pitch,
                          (unsigned char *)host + i * rows->host_pitch, rows->bytes);
        if (status != TDM_OK || i + 1 == rows->rows)
            return status;
    }
    const CUDA_MEMCPY2D copy = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                                .srcDevice = source->address + rows->offset,
                                .srcPitch = rows->pitch,
                                .dstMemoryType = CU_MEMORYTYPE_HOST,
                                .dstHost = host,
                                .dstPitch = rows->host_pitch,
                                .WidthInBytes = rows->bytes,
                                .Height = rows->rows};
    ENQUEUE(stream, operation, cuMemcpy2DAsync, &copy);
    return TDM_OK;
}

tdm_status tdm_cuda_copy(tdm_bk_stream *stream, const char *operation, tdm_bk_memory *target,
                         uint64_t target_offset, tdm_bk_memory *source, uint64_t source_offset,
                         size_t bytes) {
    ENQUEUE(stream, operation, cuMemcpyDtoDAsync, target->address + target_offset,
            source->address + source_offset, bytes);
    return TDM_OK;
}

/* Fills with an 8-byte pattern as two interleaved columns of 32-bit words. */
static tdm_status fill_pairs(tdm_bk_stream *stream, const char *operation, CUdeviceptr target,
                             size_t count, const void *pattern) {
    uint32_t words[2];
    memcpy(words, pattern, sizeof words);
    ENQUEUE(stream, operation, cuMemsetD2D32Async, target, sizeof words, words[0], 1, count);
    ENQUEUE(stream, operation, cuMemsetD2D32Async, target + sizeof words[0], sizeof words, words[1],
            1, count);
    return TDM_OK;
}

tdm_status tdm_cuda_fill(tdm_bk_stream *stream, const char *operation, tdm_bk_memory *target,
                         uint64_t offset, size_t bytes, const void *pattern, size_t pattern_bytes) {
    const CUdeviceptr address = target->address + offset;
    const size_t count = bytes / pattern_bytes;
    if (pattern_bytes == sizeof(uint64_t))
        return fill_pairs(stream, operation, address, count, pattern);
    uint32_t word = 0;
    memcpy(&word, pattern, pattern_bytes);
    if (pattern_bytes == sizeof(uint32_t))
        ENQUEUE(stream, operation, cuMemsetD32Async, address, word, count);
    else if (pattern_bytes == sizeof(uint16_t))
        ENQUEUE(stream, operation, cuMemsetD16Async, address, (unsigned short)word, count);
    else
        ENQUEUE(stream, operation, cuMemsetD8Async, address, (unsigned char)word, count);
    return TDM_OK;
}
