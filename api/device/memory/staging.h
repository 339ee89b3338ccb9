/*
 * Pinned host memory of a device: what it copies from and to at full speed. Pieces come from a pool
 * of their own, with a budget of its own, over native pinned allocations that stay mapped.
 */
#ifndef TANDEM_API_DEVICE_MEMORY_STAGING_H
#define TANDEM_API_DEVICE_MEMORY_STAGING_H

#include "api/device/core.h"

#include <tandem/memory_control.h>

/* One piece; it keeps its device alive. The public name is what users hold. */
typedef tdm_host_buffer tdm_staging;

/* The device's pool of pinned memory; part of opening and closing a device. */
tdm_status tdm_staging_open(tdm_device *device);
void tdm_staging_close(tdm_device *device);

/*
 * At least `bytes` (0 counts as 1), aligned to 16 bytes at least. The host may touch it at once: the
 * call waits for enqueued work that still uses the place. Statuses: TDM_OUT_OF_HOST_MEMORY,
 * TDM_OUT_OF_DEVICE_MEMORY (the driver pins no more), TDM_OVER_BUDGET.
 */
tdm_status tdm_staging_alloc(tdm_device *device, size_t bytes, tdm_staging **staging);

/* Constant for the life of the piece. */
void *tdm_staging_address(const tdm_staging *staging);
size_t tdm_staging_bytes(const tdm_staging *staging);

/*
 * Give it back; NULL is accepted. Legal while work that was enqueued by the two functions below
 * still uses it; work that was given the bare address must have passed.
 */
void tdm_staging_release(tdm_staging *staging);

/* As tdm_enqueue_write and _read with `staging_offset` bytes into the piece as host side. */
tdm_status tdm_enqueue_write_staged(tdm_stream *stream, const char *operation, tdm_block *target,
                                    uint64_t offset, const tdm_staging *staging,
                                    size_t staging_offset, size_t bytes);
tdm_status tdm_enqueue_read_staged(tdm_stream *stream, const char *operation, tdm_block *source,
                                   uint64_t offset, tdm_staging *staging, size_t staging_offset,
                                   size_t bytes);

/* Do the bytes lie in pinned memory of the device? */
bool tdm_staging_holds(const tdm_device *device, const void *host, size_t bytes);

void tdm_staging_trim(tdm_device *device);

/*
 * Blocking copies of pageable memory, where tdm_copy_wants_staging: as tdm_enqueue_write and _read,
 * but in pieces by way of pinned memory, as far as there is some. The caller waits for the stream.
 */
bool tdm_copy_wants_staging(const tdm_device *device, const void *host, size_t bytes);
tdm_status tdm_copy_staged_in(tdm_stream *stream, const char *operation, tdm_block *target,
                              uint64_t offset, const unsigned char *host, size_t bytes);
tdm_status tdm_copy_staged_out(tdm_stream *stream, const char *operation, tdm_block *source,
                               uint64_t offset, unsigned char *host, size_t bytes);

#endif
