/* Recording what happens in a pool as a trace; the public part is in tandem/memory.h. */
#ifndef TANDEM_API_DEVICE_MEMORY_MEMORY_TRACE_H
#define TANDEM_API_DEVICE_MEMORY_MEMORY_TRACE_H

#include "api/device/core.h"

/*
 * Record a pool that stays until the trace was stopped. `comment` may be NULL. tdm_memory_trace_stop ends it. The status of
 * tdm_memory_trace_start.
 */
tdm_status tdm_pool_trace_start(tdm_pool *pool, const tdm_memory_trace_options *options,
                                const char *comment, tdm_memory_trace **trace);

/*
 * Record the device's pool where TANDEM_MEMORY_TRACE says so: NULL where it does not, or where the file cannot be
 * written, which is logged. _close ends it before the pool goes, and logs what failed.
 */
tdm_memory_trace *tdm_memory_trace_open_named(tdm_device *device);
void tdm_memory_trace_close_named(tdm_memory_trace *trace);

#endif
