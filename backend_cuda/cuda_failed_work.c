/*
 * Which work failed.
 *
 * The driver tells of work that failed after it was enqueued with whatever is called next, and not which work it was. So the
 * names of what was enqueued since the last wait are kept: where they are all the same, and no other stream of the device has
 * work, that is the operation.
 */
#include <stdio.h>

#include "backend_cuda/cuda_internal.h"

static void add_name(tdm_cuda_names *names, const char *name) {
    for (int i = names->count - 1; i >= 0; i--)
        if (names->list[i] == name)
            return;
    if (names->count < CUDA_NAMES)
        names->list[names->count++] = name;
    else
        names->more = true;
}

void tdm_cuda_stream_note(tdm_bk_stream *stream, const char *operation) {
    if (!stream->has_work) {
        stream->has_work = true;
        atomic_fetch_add(&stream->device->streams_with_work, 1);
    }
    add_name(&stream->names, operation);
}

void tdm_cuda_stream_note_all(tdm_bk_stream *stream, const tdm_cuda_names *names) {
    for (int i = 0; i < names->count; i++)
        tdm_cuda_stream_note(stream, names->list[i]);
    stream->names.more = stream->names.more || names->more;
}

/* Does another stream of the device have work that no wait has told of yet? */
static bool others_have_work(const tdm_bk_stream *stream) {
    return atomic_load(&stream->device->streams_with_work) > (stream->has_work ? 1 : 0);
}

/* "gemm, fill, ..." */
static const char *list_names(const tdm_bk_stream *stream, char *text, size_t bytes) {
    size_t used = 0;
    text[0] = '\0';
    for (int i = 0; i < stream->names.count && used < bytes; i++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%s", i == 0 ? "" : ", ",
                                 stream->names.list[i]);
    if (stream->names.more && used < bytes)
        snprintf(text + used, bytes - used, ", ...");
    return text;
}

/* Does the code tell of work, rather than of the context it would have run in? */
static bool is_of_work(CUresult code) {
    return tdm_cuda_status(code) == TDM_DEVICE_LOST && code != CUDA_ERROR_DEINITIALIZED &&
           code != CUDA_ERROR_INVALID_CONTEXT && code != CUDA_ERROR_CONTEXT_IS_DESTROYED;
}

tdm_status tdm_cuda_enqueue_fail(const tdm_bk_stream *stream, CUresult code, const char *operation,
                                 const char *call) {
    char names[256];
    if (!is_of_work(code))
        return tdm_cuda_fail(code, operation, call);
    if (stream->names.count == 0)
        return tdm_fail(TDM_DEVICE_LOST,
                        "%s: %s (%u), reported at %s; failed work: not of this stream since its "
                        "last wait",
                        call, tdm_cuda_error_name(code), code, operation);
    return tdm_fail(TDM_DEVICE_LOST, "%s: %s (%u), reported at %s; failed work: one of %s%s", call,
                    tdm_cuda_error_name(code), code, operation,
                    list_names(stream, names, sizeof names),
                    others_have_work(stream) ? "; on this stream or another one" : "");
}

tdm_status tdm_cuda_work_failure(const tdm_bk_stream *stream, CUresult code,
                                 const char **failed_operation) {
    char names[256];
    const bool others = others_have_work(stream);
    const bool certain = stream->names.count == 1 && !others;
    const bool listed = stream->names.count > 0 && !certain;
    if (certain)
        *failed_operation = stream->names.list[0];
    return tdm_fail(tdm_cuda_status(code), "cuStreamSynchronize: %s (%u)%s%s%s",
                    tdm_cuda_error_name(code), code, listed ? ", in one of: " : "",
                    listed ? list_names(stream, names, sizeof names) : "",
                    others ? "; on this stream or another one" : "");
}
