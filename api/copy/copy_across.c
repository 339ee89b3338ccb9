/*
 * These functions copy between tensors of two devices, which may have different backends. The data
 * passes through pinned host memory in pieces, so that one device reads while the other writes. No
 * backend can wait for another's events, so the calling thread waits.
 */
#include <string.h>

#include "api/device/device_internal.h"
#include "api/device/memory/staging.h"
#include "api/tensor/tensor_internal.h"

static const char operation[] = "copy_across";

/* A piece is large compared with the cost of a command and a wait (about 20 us). It is small
 * compared with the host's caches. */
#define PIECE_BYTES ((size_t)4 << 20)
#define PIECES 2

/*
 * This is a copy in progress:
 *
 *   source --read--> in[i] --memcpy--> out[i] --write--> target
 *
 * `out` is pinned for the target's device. If the source device reads pageable memory at full
 * speed, it has no `in` and reads into `out`.
 */
typedef struct crossing {
    tdm_stream *from, *to;
    tdm_block *source, *target;
    uint64_t source_offset, target_offset;
    size_t bytes;
    tdm_staging *in[PIECES], *out[PIECES];
    /* This is the fence after the last command on each piece, or NULL. */
    tdm_fence *read[PIECES], *written[PIECES];
} crossing;

/* ---- pieces ---------------------------------------------------------------------------------- */

static void close_pieces(crossing *way) {
    for (int i = 0; i < PIECES; i++) {
        tdm_fence_release(way->read[i]);
        tdm_fence_release(way->written[i]);
        tdm_staging_release(way->in[i]);
        tdm_staging_release(way->out[i]);
    }
}

static tdm_status open_pieces(crossing *way) {
    const size_t each = way->bytes < PIECE_BYTES ? way->bytes : PIECE_BYTES;
    const int count = way->bytes > each ? PIECES : 1;
    tdm_status status = TDM_OK;
    for (int i = 0; i < count && status == TDM_OK; i++) {
        status = tdm_staging_alloc(way->to->device, each, &way->out[i]);
        if (status == TDM_OK && way->from->device->stages_copies)
            status = tdm_staging_alloc(way->from->device, each, &way->in[i]);
    }
    return status == TDM_OK ? TDM_OK : tdm_fail_prefix(status, operation);
}

static tdm_status fence(tdm_stream *stream, tdm_fence **made) {
    pthread_mutex_lock(&stream->lock);
    const tdm_status status = tdm_stream_fence_locked(stream, stream->sequence, made);
    pthread_mutex_unlock(&stream->lock);
    return status;
}

static tdm_status wait_for(const tdm_stream *stream, tdm_fence **awaited) {
    if (!*awaited)
        return TDM_OK;
    const tdm_status status = stream->device->api->event_wait((*awaited)->native);
    tdm_fence_release(*awaited);
    *awaited = NULL;
    return status;
}

static size_t piece_bytes(const crossing *way, size_t place) {
    return way->bytes - place < PIECE_BYTES ? way->bytes - place : PIECE_BYTES;
}

/* ---- one piece after the other --------------------------------------------------------------- */

static tdm_status begin_read(crossing *way, size_t place) {
    const int i = (int)(place / PIECE_BYTES % PIECES);
    const size_t count = piece_bytes(way, place);
    const uint64_t offset = way->source_offset + place;
    if (way->in[i]) {
        TDM_TRY(tdm_enqueue_read_staged(way->from, operation, way->source, offset, way->in[i], 0,
                                        count));
    } else {
        TDM_TRY(wait_for(way->to, &way->written[i]));
        TDM_TRY(tdm_enqueue_read(way->from, operation, way->source, offset,
                                 tdm_staging_address(way->out[i]), count));
    }
    return fence(way->from, &way->read[i]);
}

static tdm_status begin_write(crossing *way, size_t place) {
    const int i = (int)(place / PIECE_BYTES % PIECES);
    const size_t count = piece_bytes(way, place);
    TDM_TRY(wait_for(way->from, &way->read[i]));
    if (way->in[i]) {
        TDM_TRY(wait_for(way->to, &way->written[i]));
        memcpy(tdm_staging_address(way->out[i]), tdm_staging_address(way->in[i]), count);
    }
    TDM_TRY(tdm_enqueue_write_staged(way->to, operation, way->target, way->target_offset + place,
                                     way->out[i], 0, count));
    return fence(way->to, &way->written[i]);
}

static tdm_status move_pieces(crossing *way) {
    size_t asked = 0;
    for (size_t place = 0; place < way->bytes; place += PIECE_BYTES) {
        for (; asked < way->bytes && asked < place + PIECES * PIECE_BYTES; asked += PIECE_BYTES)
            TDM_TRY(begin_read(way, asked));
        TDM_TRY(begin_write(way, place));
    }
    return TDM_OK;
}

static uint64_t byte_offset(const tdm_tensor *tensor) {
    return (uint64_t)tensor->offset * (uint64_t)tdm_dtype_info(tensor->layout.dtype)->bits / 8;
}

/* Copies between two dense tensors. It waits until the source has been read, so it returns the
 * failures of the source's stream. */
static tdm_status cross(tdm_stream *to, const tdm_tensor *target, tdm_stream *from,
                        const tdm_tensor *source, size_t bytes) {
    crossing way = {.from = from,
                    .to = to,
                    .source = source->buffer->block,
                    .target = target->buffer->block,
                    .source_offset = byte_offset(source),
                    .target_offset = byte_offset(target),
                    .bytes = bytes};
    tdm_status status = open_pieces(&way);
    if (status == TDM_OK)
        status = move_pieces(&way);
    status = status == TDM_OK ? tdm_stream_wait_always(from) : tdm_fail_after_wait(from, status);
    close_pieces(&way);
    return status;
}

/* ---- strides --------------------------------------------------------------------------------- */

/* Creates a dense tensor of the same shape. *made is NULL if the tensor itself is dense. */
static tdm_status dense_for(const tdm_tensor *tensor, tdm_tensor **made) {
    const tdm_layout *const layout = &tensor->layout;
    *made = NULL;
    if (tdm_layout_is_contiguous(layout))
        return TDM_OK;
    return tdm_tensor_create(tensor->buffer->device, layout->dtype, layout->rank, layout->shape,
                             made);
}

static tdm_status cross_packed(tdm_stream *to, tdm_tensor *target, tdm_stream *from,
                               const tdm_tensor *source, size_t bytes) {
    tdm_tensor *packed = NULL, *arrived = NULL;
    tdm_status status = TDM_OK;
    TDM_TRY_GOTO(dense_for(source, &packed));
    TDM_TRY_GOTO(dense_for(target, &arrived));
    if (packed)
        TDM_TRY_GOTO(tdm_tensor_copy(from, source, packed));
    TDM_TRY_GOTO(cross(to, arrived ? arrived : target, from, packed ? packed : source, bytes));
    if (arrived)
        TDM_TRY_GOTO(tdm_tensor_copy(to, arrived, target));

cleanup:
    tdm_tensor_destroy(packed);
    tdm_tensor_destroy(arrived);
    return status;
}

/* ---- the call -------------------------------------------------------------------------------- */

static tdm_status follow(tdm_stream *stream, tdm_stream *other) {
    tdm_event *event;
    TDM_TRY(tdm_event_record(other, &event));
    const tdm_status status = tdm_stream_wait_event(stream, event);
    tdm_event_destroy(event);
    return status;
}

/* Copies within one device. Later work on the source's stream waits until the source has been
 * read. */
static tdm_status copy_within(tdm_stream *to, tdm_tensor *target, tdm_stream *from,
                              const tdm_tensor *source) {
    if (to == from)
        return tdm_tensor_copy(to, source, target);
    TDM_TRY(follow(to, from));
    TDM_TRY(tdm_tensor_copy(to, source, target));
    return follow(from, to);
}

static tdm_status check(tdm_stream *to, const tdm_tensor *target, tdm_stream *from,
                        const tdm_tensor *source) {
    if (!to || !from)
        return tdm_fail(TDM_BAD_ARGUMENT, "%s: %s is NULL", operation,
                        to ? "source_stream" : "target_stream");
    TDM_TRY(tdm_check_output(operation, "target", to, target));
    TDM_TRY(tdm_check_last_unit(operation, "target", target));
    TDM_TRY(tdm_check_tensor(operation, "source", from, source));
    TDM_TRY(tdm_check_same_elements(operation, target, source));
    TDM_TRY(tdm_refuse_recording(to, operation));
    return tdm_refuse_recording(from, operation);
}

tdm_status tdm_tensor_copy_across(tdm_stream *source_stream, const tdm_tensor *source,
                                  tdm_stream *target_stream, tdm_tensor *target) {
    TDM_TRY(check(target_stream, target, source_stream, source));
    size_t bytes;
    TDM_TRY(tdm_dtype_bytes(target->layout.dtype, tdm_layout_elements(&target->layout), &bytes));
    if (bytes == 0)
        return TDM_OK;
    if (target_stream->device == source_stream->device)
        return copy_within(target_stream, target, source_stream, source);
    return cross_packed(target_stream, target, source_stream, source, bytes);
}
