/*
 * Non-blocking copies between pageable host memory and a discrete device. The host's part, into and
 * out of pinned pieces, runs as tasks on the ring's own stream. A ring serves one thread at a time
 * and one direction.
 */
#ifndef TANDEM_API_DEVICE_MEMORY_STAGING_RING_H
#define TANDEM_API_DEVICE_MEMORY_STAGING_RING_H

#include "api/device/memory/staging.h"

/* Large compared with the cost of a command and a task. */
#define TDM_STAGING_PIECE_BYTES ((size_t)4 << 20)

/* Rows of host memory (`lines` in names). Each has `units` elements of `unit_bytes`, `step` bytes
 * apart. */
typedef struct tdm_host_lines {
    unsigned char *first; /* read-only for copies in */
    size_t count, pitch;  /* number of rows, and bytes from one to the next */
    size_t units, unit_bytes, step;
} tdm_host_lines;

/* Rows on the device: dense, `pitch` bytes apart. */
typedef struct tdm_device_lines {
    tdm_block *block;
    uint64_t offset;
    size_t pitch;
} tdm_device_lines;

typedef struct tdm_staging_ring tdm_staging_ring;

/* True if a ring suits copies of this memory; false if host tasks would block the caller. */
bool tdm_staging_ring_wanted(const tdm_device *device, const void *host, size_t bytes);

/* Statuses: those of tdm_staging_alloc and tdm_stream_create. */
tdm_status tdm_staging_ring_open(tdm_device *device, size_t piece_bytes, tdm_staging_ring **ring);
/* Waits for the ring's stream. The caller has waited for the streams that it copied on. NULL is
 * accepted. */
void tdm_staging_ring_close(tdm_staging_ring *ring);

/* Returns the stream of the host's part. It must wait for the work that writes the memory that is
 * copied in. Readers of the memory that was copied out must wait for it. */
tdm_stream *tdm_staging_ring_stream(const tdm_staging_ring *ring);
size_t tdm_staging_ring_piece(const tdm_staging_ring *ring);

/*
 * Enqueue the copy on the stream. A row must fit a piece. After a failure the caller waits for both
 * streams and closes the ring.
 */
tdm_status tdm_staging_ring_in(tdm_staging_ring *ring, tdm_stream *stream, const char *operation,
                               const tdm_device_lines *target, const tdm_host_lines *lines);
tdm_status tdm_staging_ring_out(tdm_staging_ring *ring, tdm_stream *stream, const char *operation,
                                const tdm_device_lines *source, const tdm_host_lines *lines);
/* Enqueues a copy of contiguous bytes to the device. */
tdm_status tdm_staging_ring_in_bytes(tdm_staging_ring *ring, tdm_stream *stream,
                                     const char *operation, tdm_block *target, uint64_t offset,
                                     const void *host, size_t bytes);

#endif
