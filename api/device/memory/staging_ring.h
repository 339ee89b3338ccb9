/*
 * Copies between pageable host memory and a discrete device that wait for nothing: the host's part, into and out of pinned
 * pieces, runs as tasks on a stream of the ring's own. One thread at a time; one direction for each ring.
 */
#ifndef TANDEM_API_DEVICE_MEMORY_STAGING_RING_H
#define TANDEM_API_DEVICE_MEMORY_STAGING_RING_H

#include "api/device/memory/staging.h"

/* Large against the cost of a command and a task. */
#define TDM_STAGING_PIECE_BYTES ((size_t)4 << 20)

/* Lines of host memory, each of `units` pieces that lie `step` bytes apart. */
typedef struct tdm_host_lines {
    unsigned char *first; /* not written to by copies in */
    size_t count, pitch;  /* lines, and bytes from one to the next */
    size_t units, unit_bytes, step;
} tdm_host_lines;

/* Where they are on the device: dense lines `pitch` bytes apart. */
typedef struct tdm_device_lines {
    tdm_block *block;
    uint64_t offset;
    size_t pitch;
} tdm_device_lines;

typedef struct tdm_staging_ring tdm_staging_ring;

/* Is the memory one whose copies go better through a ring? Not where host tasks would make the caller wait. */
bool tdm_staging_ring_wanted(const tdm_device *device, const void *host, size_t bytes);

/* Statuses: as tdm_staging_alloc and tdm_stream_create. */
tdm_status tdm_staging_ring_open(tdm_device *device, size_t piece_bytes, tdm_staging_ring **ring);
/* Waits for the ring's stream; the streams that it copied on must have been waited for. NULL is accepted. */
void tdm_staging_ring_close(tdm_staging_ring *ring);

/* The stream of the host's part. It has to wait for what wrote the memory that is copied in; and who reads the memory
 * that was copied out has to wait for it. */
tdm_stream *tdm_staging_ring_stream(const tdm_staging_ring *ring);
size_t tdm_staging_ring_piece(const tdm_staging_ring *ring);

/*
 * Enqueue the copy on the stream. A line must fit a piece. After a failure both streams have to be waited for and the ring be
 * closed.
 */
tdm_status tdm_staging_ring_in(tdm_staging_ring *ring, tdm_stream *stream, const char *operation,
                               const tdm_device_lines *target, const tdm_host_lines *lines);
tdm_status tdm_staging_ring_out(tdm_staging_ring *ring, tdm_stream *stream, const char *operation,
                                const tdm_device_lines *source, const tdm_host_lines *lines);
/* The same for bytes in a row. */
tdm_status tdm_staging_ring_in_bytes(tdm_staging_ring *ring, tdm_stream *stream,
                                     const char *operation, tdm_block *target, uint64_t offset,
                                     const void *host, size_t bytes);

#endif
