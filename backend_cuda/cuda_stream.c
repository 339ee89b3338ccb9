/*
 * Streams.
 *
 * The driver tells of work that failed after it was enqueued with whatever is called next, and not which work it was. So the
 * names of what was enqueued since the last wait are kept: where they are all the same, that is the operation.
 */
#include <stdio.h>
#include <string.h>

#include "backend_cuda/cuda_internal.h"

/* A wait that fails for another reason than the device's end is tried again this often: the caller will free what is in use. */
#define WAIT_TRIES 2

tdm_status tdm_cuda_stream_create(tdm_bk_device *device, tdm_bk_stream **stream) {
    tdm_bk_stream *const created = tdm_host_calloc(1, sizeof *created);
    if (!created)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "stream: no host memory");
    created->device = device;
    tdm_status status = tdm_cuda_enter(device, "stream");
    if (status == TDM_OK) {
        // The legacy default stream, which others may use, must hold nobody up.
        const CUresult code =
            CUDA_CALL(device->api, cuStreamCreate, &created->stream, CU_STREAM_NON_BLOCKING);
        tdm_cuda_leave(device);
        if (code != CUDA_SUCCESS)
            status = tdm_cuda_fail(code, "stream", "cuStreamCreate");
    }
    if (status != TDM_OK) {
        tdm_host_free(created);
        return status;
    }
    *stream = created;
    return TDM_OK;
}

/* Nothing of the stream touches memory after it, unless the device is lost, when nothing can. */
static CUresult wait_for_all(tdm_bk_stream *stream) {
    CUresult first = CUDA_SUCCESS;
    for (int i = 0; i < WAIT_TRIES; i++) {
        const CUresult code = CUDA_CALL(stream->device->api, cuStreamSynchronize, stream->stream);
        if (first == CUDA_SUCCESS)
            first = code;
        if (code == CUDA_SUCCESS || tdm_cuda_status(code) == TDM_DEVICE_LOST)
            break;
    }
    return first;
}

void tdm_cuda_stream_destroy(tdm_bk_stream *stream) {
    tdm_cuda_enter_always(stream->device);
    (void)wait_for_all(stream);
    CUDA_RELEASE(stream->device->api, cuStreamDestroy, stream->stream);
    tdm_cuda_leave(stream->device);
    tdm_host_free(stream);
}

/* The driver hands over at once. */
tdm_status tdm_cuda_stream_flush(tdm_bk_stream *stream) {
    (void)stream;
    return TDM_OK;
}

void tdm_cuda_stream_note(tdm_bk_stream *stream, const char *operation) {
    for (int i = stream->name_count - 1; i >= 0; i--)
        if (stream->names[i] == operation)
            return;
    if (stream->name_count < CUDA_NAMES)
        stream->names[stream->name_count++] = operation;
    else
        stream->more_names = true;
}

/* "NAME (code), in one of: gemm, fill" with the names that are not the only one. */
static tdm_status work_failure(const tdm_bk_stream *stream, CUresult code) {
    char names[256] = "";
    size_t used = 0;
    for (int i = 0; stream->name_count > 1 && i < stream->name_count && used < sizeof names; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s",
                                 i == 0 ? ", in one of: " : ", ", stream->names[i]);
    return tdm_fail(tdm_cuda_status(code), "cuStreamSynchronize: %s (%u)%s%s",
                    tdm_cuda_error_name(code), code, names, stream->more_names ? ", ..." : "");
}

tdm_status tdm_cuda_stream_wait(tdm_bk_stream *stream, const char **failed_operation) {
    *failed_operation = NULL;
    tdm_cuda_enter_always(stream->device);
    const CUresult code = wait_for_all(stream);
    tdm_cuda_leave(stream->device);
    tdm_status status = TDM_OK;
    if (code != CUDA_SUCCESS) {
        status = work_failure(stream, code);
        if (stream->name_count == 1)
            *failed_operation = stream->names[0];
    }
    stream->name_count = 0;
    stream->more_names = false;
    return status;
}

tdm_status tdm_cuda_host_task(tdm_bk_stream *stream, const char *operation,
                              void (*function)(void *user), void *user) {
    const tdm_status status = tdm_cuda_enter(stream->device, operation);
    if (status != TDM_OK)
        return status;
    const CUresult code =
        CUDA_CALL(stream->device->api, cuLaunchHostFunc, stream->stream, function, user);
    tdm_cuda_leave(stream->device);
    if (code != CUDA_SUCCESS)
        return tdm_cuda_fail(code, operation, "cuLaunchHostFunc");
    tdm_cuda_stream_note(stream, operation);
    return TDM_OK;
}
