/* Recording of a pool's events as a trace. The public part is in tandem/memory.h. */
#ifndef TANDEM_API_DEVICE_MEMORY_MEMORY_TRACE_H
#define TANDEM_API_DEVICE_MEMORY_MEMORY_TRACE_H

#include "api/device/core.h"

/*
 * Starts to record a pool, which must exist until tdm_memory_trace_stop. `comment` may be NULL. The
 * statuses are those of tdm_memory_trace_start.
 */
tdm_status tdm_pool_trace_start(tdm_pool *pool, const tdm_memory_trace_options *options,
                                const char *comment, tdm_memory_trace **trace);

/*
 * Records the device's pool if TANDEM_MEMORY_TRACE requests it. Returns NULL if it does not, or if
 * the file cannot be written, which is logged. _close ends it before the pool is destroyed and logs
 * failures.
 */
tdm_memory_trace *tdm_memory_trace_open_named(tdm_device *device);
void tdm_memory_trace_close_named(tdm_memory_trace *trace);

#endif
