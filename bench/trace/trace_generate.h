/* Traces of what a transformer allocates, on three streams. The same settings give the same trace everywhere. */
#ifndef TANDEM_BENCH_TRACE_TRACE_GENERATE_H
#define TANDEM_BENCH_TRACE_TRACE_GENERATE_H

#include "bench/trace/trace_data.h"

typedef struct trace_settings {
    int64_t layers, hidden, inner, vocabulary;
    int64_t shared; /* columns of keys and values */
    int64_t batch, sequence;
    int64_t steps;  /* inference: tokens after the prompt; training: steps */
    int no_weights; /* The model's weights are no part of the trace. */
} trace_settings;

#define TRACE_SETTINGS_INIT                                                                        \
    {                                                                                              \
        .layers = 16, .hidden = 2048, .inner = 8192, .vocabulary = 32000, .shared = 512,           \
        .batch = 4, .sequence = 512, .steps = 4                                                    \
    }

typedef struct trace_model {
    const char *name;
} trace_model;

enum {
    TRACE_MODELS = 2,
    TRACE_MAX_LAYERS = 200
};

/* "inference" and "training". */
extern const trace_model trace_models[TRACE_MODELS];

/* NULL where no model has that name. */
const trace_model *trace_model_find(const char *name);

/* Build the trace, with its comment. 0, or -1 when memory is short. */
int trace_generate(const trace_model *model, const trace_settings *settings, trace_data *trace);

#endif
