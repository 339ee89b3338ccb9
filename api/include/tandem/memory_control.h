/*
 * Memory under the user's control: pinned host memory for fast copies.
 */
#ifndef TANDEM_MEMORY_CONTROL_H
#define TANDEM_MEMORY_CONTROL_H

#include <tandem/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- pinned host memory ------------------------------------------------------------------------ */

/* Host memory that the device copies from and to at full speed. */
typedef struct tdm_host_buffer tdm_host_buffer;

/*
 * Allocate `bytes` of pinned host memory; the content is undefined. Zero bytes is legal. It comes
 * from a pool of the device's with a bound of its own (tdm_context_options.staging_budget_bytes),
 * so that pinning, which is slow, is paid once. Statuses: TDM_BAD_ARGUMENT, TDM_OUT_OF_HOST_MEMORY,
 * TDM_OUT_OF_DEVICE_MEMORY (the driver pins no more), TDM_OVER_BUDGET. May block. Thread-safe.
 * Since 0.1.
 */
TDM_API tdm_status tdm_host_buffer_create(tdm_device *device, size_t bytes,
                                          tdm_host_buffer **buffer);

/*
 * Release it; NULL is accepted. As with any host memory that was lent to a copy: not before the
 * stream has passed. Thread-safe. Since 0.1.
 */
TDM_API void tdm_host_buffer_destroy(tdm_host_buffer *buffer);

/*
 * Its first byte, constant for its life and aligned to tdm_device_info.alignment_bytes; NULL for
 * NULL. Give it to tdm_buffer_write, tdm_copy_from_host_async and their kin. Thread-safe. Since 0.1.
 */
TDM_API void *tdm_host_buffer_address(const tdm_host_buffer *buffer);

/* Size in bytes as requested; 0 for NULL. Thread-safe. Since 0.1. */
TDM_API size_t tdm_host_buffer_size(const tdm_host_buffer *buffer);

/*
 * Statistics of the device's pinned memory, as tdm_device_memory_stats gives those of its own
 * memory. Statuses: TDM_BAD_ARGUMENT. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_device_host_memory_stats(const tdm_device *device, tdm_memory_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
