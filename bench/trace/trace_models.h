/*
 * Traces of what programs allocate: transformers op by op, and random mixes. The same settings give the same trace
 * everywhere.
 */
#ifndef TANDEM_BENCH_TRACE_TRACE_MODELS_H
#define TANDEM_BENCH_TRACE_TRACE_MODELS_H

#include "bench/trace/trace_data.h"

typedef struct trace_settings {
    /* Transformers. */
    int64_t layers, hidden, heads, kv_heads, inner, vocabulary;
    int64_t batch, sequence;
    int64_t
        steps; /* decode: tokens; training: steps; growing: batches, each one larger than the last */
    int64_t element_bytes;
    int materialize; /* attention scores are a tensor of sequence x sequence */
    int no_weights;  /* the model's weights are no part of the trace: only what comes and goes */
    /* Random mixes. */
    const char *sizes; /* a name of trace_size_names */
    int64_t operations, live;
    /* All. */
    int64_t streams; /* 1: one; 2: what is communicated has one; 3: what is copied has one too */
    int64_t seed;
} trace_settings;

#define TRACE_SETTINGS_INIT                                                                        \
    {                                                                                              \
        .layers = 16, .hidden = 2048, .heads = 32, .kv_heads = 8, .inner = 8192,                   \
        .vocabulary = 32000, .batch = 4, .sequence = 512, .steps = 4, .element_bytes = 2,          \
        .sizes = "log", .operations = 20000, .live = 1000, .streams = 1, .seed = 1                 \
    }

/* "log|uniform|powers|two|pareto" */
extern const char trace_size_names[];

typedef struct trace_model {
    const char *name, *summary;
    void (*build)(const trace_settings *settings, trace_data *trace);
    double bar; /* peak reserved over the lower bound that the pool must not exceed */
} trace_model;

extern const trace_model trace_models[];
extern const int trace_model_count;

/* NULL where there is none of that name. */
const trace_model *trace_model_find(const char *name);

/* Why the settings make no sense, or NULL. */
const char *trace_settings_fault(const trace_settings *settings);

/* Build the trace, with its comment. 0, or -1 when memory is short. */
int trace_generate(const trace_model *model, const trace_settings *settings, trace_data *trace);

/* A random mix, see trace_random.c. */
void trace_build_random(const trace_settings *settings, trace_data *trace);

#endif
