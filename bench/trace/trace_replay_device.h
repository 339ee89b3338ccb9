/* Replay of a trace on the pool of a device, with real streams: what it needs there, not the same every time. */
#ifndef TANDEM_BENCH_TRACE_TRACE_REPLAY_DEVICE_H
#define TANDEM_BENCH_TRACE_TRACE_REPLAY_DEVICE_H

#include <tandem/tandem.h>

#include "bench/trace/trace_replay.h"

/*
 * As replay_run, of whose settings budget and progress count; a use writes the first bytes of the block. Nothing else may be
 * allocated on the device. 0, or -1 with the reason: an allocation that is refused is none.
 */
int replay_on_device(const trace_data *trace, tdm_device *device, const replay_settings *settings,
                     replay_result *result, file_error *error);

#endif
