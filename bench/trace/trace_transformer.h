/* A transformer as it allocates: the ops of a layer, with their tensors' sizes and lives. */
#ifndef TANDEM_BENCH_TRACE_TRACE_TRANSFORMER_H
#define TANDEM_BENCH_TRACE_TRACE_TRANSFORMER_H

#include "bench/trace/trace_models.h"

void trace_build_prefill(const trace_settings *settings, trace_data *trace);
void trace_build_decode(const trace_settings *settings, trace_data *trace);
void trace_build_growing(const trace_settings *settings, trace_data *trace);
void trace_build_training(const trace_settings *settings, trace_data *trace);

#endif
