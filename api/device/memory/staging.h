/*
 * Pinned host memory of a device, for copies at full speed. Pieces come from a separate pool, with
 * its own budget, over native pinned allocations that stay mapped.
 */
#ifndef TANDEM_API_DEVICE_MEMORY_STAGING_H
#define TANDEM_API_DEVICE_MEMORY_STAGING_H

#include "api/device/core.h"

#include <tandem/memory_control.h>

/* One piece of pinned memory. It holds a reference to its device. Users see the public name. */
typedef tdm_host_buffer tdm_staging;

/* Create and destroy the device's pool of pinned memory when a device is opened and closed. */
tdm_status tdm_staging_open(tdm_device *device);
void tdm_staging_close(tdm_device *device);

/*
 * Allocates at least `bytes` (0 counts as 1), aligned to at least 16 bytes. The call waits for
 * enqueued work that still uses the memory, so the host may touch it at once. Statuses:
 * TDM_OUT_OF_HOST_MEMORY, TDM_OUT_OF_DEVICE_MEMORY (the driver pins no more), TDM_OVER_BUDGET.
 */
tdm_status tdm_staging_alloc(tdm_device *device, size_t bytes, tdm_staging **staging);

/* Constant for the lifetime of the piece. */
void *tdm_staging_address(const tdm_staging *staging);
size_t tdm_staging_bytes(const tdm_staging *staging);

/*
 * Frees the piece. NULL is accepted. Work enqueued by the two functions below may still use it.
 * Work that was given the bare address must have completed.
 */
void tdm_staging_release(tdm_staging *staging);

/* Like tdm_enqueue_write and _read. The host side is the piece from `staging_offset` on. */
tdm_status tdm_enqueue_write_staged(tdm_stream *stream, const char *operation, tdm_block *target,
                                    uint64_t offset, const tdm_staging *staging,
                                    size_t staging_offset, size_t bytes);
tdm_status tdm_enqueue_read_staged(tdm_stream *stream, const char *operation, tdm_block *source,
                                   uint64_t offset, tdm_staging *staging, size_t staging_offset,
                                   size_t bytes);

/* True if the bytes lie in pinned memory of the device. */
bool tdm_staging_holds(const tdm_device *device, const void *host, size_t bytes);

void tdm_staging_trim(tdm_device *device);

/*
 * Blocking copies of pageable memory, if tdm_copy_wants_staging returns true. They work like
 * tdm_enqueue_write and tdm_enqueue_read, but copy in pieces through the pinned memory that is
 * available. The caller waits for the stream.
 */
bool tdm_copy_wants_staging(const tdm_device *device, const void *host, size_t bytes);
tdm_status tdm_copy_staged_in(tdm_stream *stream, const char *operation, tdm_block *target,
                              uint64_t offset, const unsigned char *host, size_t bytes);
tdm_status tdm_copy_staged_out(tdm_stream *stream, const char *operation, tdm_block *source,
                               uint64_t offset, unsigned char *host, size_t bytes);

#endif
