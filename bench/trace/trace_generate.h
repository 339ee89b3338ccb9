/* Traces of what a transformer allocates. The same settings give the same trace everywhere. */
#ifndef TANDEM_BENCH_TRACE_TRACE_GENERATE_H
#define TANDEM_BENCH_TRACE_TRACE_GENERATE_H

#include "bench/trace/trace_data.h"

typedef struct trace_settings {
    int64_t layers, hidden, heads, kv_heads, inner, vocabulary;
    int64_t batch, sequence;
    int64_t steps; /* inference: tokens after the prompt; training: steps */
    int64_t element_bytes;
    int64_t streams; /* 1: one; 2: communication has one; 3: copies from and to the host too */
    int no_weights;  /* The model's weights are no part of the trace. */
} trace_settings;

#define TRACE_SETTINGS_INIT                                                                        \
    {                                                                                              \
        .layers = 16, .hidden = 2048, .heads = 32, .kv_heads = 8, .inner = 8192,                   \
        .vocabulary = 32000, .batch = 4, .sequence = 512, .steps = 4, .element_bytes = 2,          \
        .streams = 1                                                                               \
    }

typedef struct trace_model {
    const char *name;
    void (*build)(const trace_settings *settings, trace_data *trace);
} trace_model;

/* "inference" and "training". */
extern const trace_model trace_models[];
extern const int trace_model_count;

/* NULL where no model has that name. */
const trace_model *trace_model_find(const char *name);

/* The reason why the settings make no sense, or NULL. */
const char *trace_settings_fault(const trace_settings *settings);

/* Build the trace, with its comment. 0, or -1 when memory is short. */
int trace_generate(const trace_model *model, const trace_settings *settings, trace_data *trace);

#endif
