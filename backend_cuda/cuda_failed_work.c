/*
 * Finds out which work failed.
 *
 * The driver reports a failure of enqueued work at whatever call comes next, and does not name the
 * work. Each stream therefore keeps the names of the operations that were enqueued since its last
 * wait. If there is only one name, and no other stream of the device has work, that operation
 * failed.
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

/* True if another stream of the device has work that no wait has confirmed yet. */
static bool others_have_work(const tdm_bk_stream *stream) {
    return atomic_load(&stream->device->streams_with_work) > (stream->has_work ? 1 : 0);
}

/* Writes the names as "gemm, fill, ...". */
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

/* True if the code reports failed work rather than an unusable context. */
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
        return tdm_fail(
            TDM_DEVICE_LOST,
            "%s: %s (%u), reported at %s; failed work: none of this stream since its last wait",
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
