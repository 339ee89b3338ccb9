/* These functions are blocking copies of pageable memory to and from a discrete device. They use a
 * ring of pinned pieces, so that the host fills or empties one while the device copies another. */
#include <string.h>

#include "api/device/device_internal.h"
#include "api/device/memory/staging.h"

/* A piece is large compared with the cost of a command (10 us at most). It is small compared with
 * the host's caches. */
#define PIECE_BYTES ((size_t)4 << 20)
#define PIECES 2
/* Below this size the driver's own copy is as good, because there is nothing to overlap. */
#define MIN_BYTES ((size_t)1 << 20)

typedef struct piece_ring {
    tdm_stream *stream;
    tdm_staging *pieces[PIECES];
    tdm_fence *fences[PIECES]; /* fence after the last command on the piece */
} piece_ring;

bool tdm_copy_wants_staging(const tdm_device *device, const void *host, size_t bytes) {
    return device->stages_copies && bytes >= MIN_BYTES && !tdm_staging_holds(device, host, bytes);
}

static void ring_close(piece_ring *ring) {
    for (int i = 0; i < PIECES; i++) {
        tdm_fence_release(ring->fences[i]);
        tdm_staging_release(ring->pieces[i]);
    }
}

/* Opens the ring. Returns false if there is no pinned memory. The driver then copies directly,
 * which is slower. */
static bool ring_open(piece_ring *ring, tdm_stream *stream, size_t bytes) {
    *ring = (piece_ring){.stream = stream};
    const size_t each = bytes < PIECE_BYTES ? bytes : PIECE_BYTES;
    for (int i = 0; i < PIECES; i++)
        if (tdm_staging_alloc(stream->device, each, &ring->pieces[i]) != TDM_OK) {
            ring_close(ring);
            return false;
        }
    return true;
}

static tdm_status ring_fence(piece_ring *ring, int piece) {
    pthread_mutex_lock(&ring->stream->lock);
    const tdm_status status =
        tdm_stream_fence_locked(ring->stream, ring->stream->sequence, &ring->fences[piece]);
    pthread_mutex_unlock(&ring->stream->lock);
    return status;
}

/* Waits until the last command on the piece is done. */
static tdm_status ring_wait(piece_ring *ring, int piece) {
    if (!ring->fences[piece])
        return TDM_OK;
    const tdm_status status = ring->stream->device->api->event_wait(ring->fences[piece]->native);
    tdm_fence_release(ring->fences[piece]);
    ring->fences[piece] = NULL;
    return status;
}

static size_t piece_bytes(size_t done, size_t bytes) {
    return bytes - done < PIECE_BYTES ? bytes - done : PIECE_BYTES;
}

tdm_status tdm_copy_staged_in(tdm_stream *stream, const char *operation, tdm_block *target,
                              uint64_t offset, const unsigned char *host, size_t bytes) {
    piece_ring ring;
    tdm_status status = TDM_OK;
    if (!ring_open(&ring, stream, bytes))
        return tdm_enqueue_write(stream, operation, target, offset, host, bytes);
    int piece = 0;
    for (size_t done = 0; done < bytes; piece = (piece + 1) % PIECES) {
        const size_t count = piece_bytes(done, bytes);
        TDM_TRY_GOTO(ring_wait(&ring, piece));
        memcpy(tdm_staging_address(ring.pieces[piece]), host + done, count);
        TDM_TRY_GOTO(tdm_enqueue_write_staged(stream, operation, target, offset + done,
                                              ring.pieces[piece], 0, count));
        TDM_TRY_GOTO(ring_fence(&ring, piece));
        done += count;
    }

cleanup:
    ring_close(&ring);
    return status;
}

/* Waits for a piece and copies it to host memory. */
static tdm_status empty_piece(piece_ring *ring, int piece, unsigned char *host, size_t bytes) {
    TDM_TRY(ring_wait(ring, piece));
    memcpy(host, tdm_staging_address(ring->pieces[piece]), bytes);
    return TDM_OK;
}

tdm_status tdm_copy_staged_out(tdm_stream *stream, const char *operation, tdm_block *source,
                               uint64_t offset, unsigned char *host, size_t bytes) {
    piece_ring ring;
    tdm_status status = TDM_OK;
    if (!ring_open(&ring, stream, bytes))
        return tdm_enqueue_read(stream, operation, source, offset, host, bytes);
    size_t asked = 0, done = 0;
    int next = 0, oldest = 0;
    while (done < bytes) {
        for (; asked < bytes && asked - done < PIECES * PIECE_BYTES; next = (next + 1) % PIECES) {
            const size_t count = piece_bytes(asked, bytes);
            TDM_TRY_GOTO(tdm_enqueue_read_staged(stream, operation, source, offset + asked,
                                                 ring.pieces[next], 0, count));
            TDM_TRY_GOTO(ring_fence(&ring, next));
            asked += count;
        }
        const size_t count = piece_bytes(done, bytes);
        TDM_TRY_GOTO(empty_piece(&ring, oldest, host + done, count));
        oldest = (oldest + 1) % PIECES;
        done += count;
    }

cleanup:
    ring_close(&ring);
    return status;
}
