#include "bench/trace/trace_models.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bench/trace/trace_transformer.h"

const trace_model trace_models[] = {
    {"prefill", "prompts through a transformer, each with its cache", trace_build_prefill, 1.15},
    {"decode", "tokens one by one, the cache of every layer copied into a larger one each time",
     trace_build_decode, 1.15},
    {"growing", "prompts in batches, each one sequence larger than the last", trace_build_growing,
     1.15},
    {"training", "steps of training that recompute a layer's activations in its backward pass",
     trace_build_training, 1.15},
    {"random", "blocks of random sizes that come and go", trace_build_random, 1.3},
};

const int trace_model_count = (int)(sizeof trace_models / sizeof trace_models[0]);

const trace_model *trace_model_find(const char *name) {
    for (int i = 0; i < trace_model_count; i++)
        if (strcmp(trace_models[i].name, name) == 0)
            return &trace_models[i];
    return NULL;
}

const char *trace_settings_fault(const trace_settings *s) {
    if (s->hidden % s->heads != 0)
        return "the hidden size is no multiple of the heads";
    if (s->heads % s->kv_heads != 0)
        return "the heads are no multiple of the heads of keys and values";
    /* Every size is a product of some of these: none overflows, and none is beyond any device. */
    const double tokens = (double)(s->batch + s->steps) * (double)(s->sequence + s->steps);
    const double widest = (double)(s->inner > s->vocabulary ? s->inner : s->vocabulary) +
                          (double)s->hidden +
                          (s->materialize ? (double)s->heads * (double)s->sequence : 0);
    if (8 * (tokens + (double)s->hidden) * widest > 1e14)
        return "a tensor would have more than 100 TB";
    if ((double)s->layers * (double)s->steps > 1e6)
        return "the trace would have more than ten million events";
    return NULL;
}

static void describe(const trace_model *model, const trace_settings *s, trace_data *trace) {
    if (model->build == trace_build_random)
        snprintf(trace->comment, sizeof trace->comment,
                 "generated: %s, sizes %s, operations %" PRId64 ", live %" PRId64
                 ", streams %" PRId64 ", seed %" PRId64,
                 model->name, s->sizes, s->operations, s->live, s->streams, s->seed);
    else
        snprintf(trace->comment, sizeof trace->comment,
                 "generated: %s, layers %" PRId64 ", hidden %" PRId64 ", heads %" PRId64 "/%" PRId64
                 ", inner %" PRId64 ", vocabulary %" PRId64 ", batch %" PRId64 ", sequence %" PRId64
                 ", steps %" PRId64 ", bytes %" PRId64 "%s%s, streams %" PRId64,
                 model->name, s->layers, s->hidden, s->heads, s->kv_heads, s->inner, s->vocabulary,
                 s->batch, s->sequence, s->steps, s->element_bytes,
                 s->materialize ? ", scores" : "", s->no_weights ? ", no weights" : "", s->streams);
}

int trace_generate(const trace_model *model, const trace_settings *settings, trace_data *trace) {
    *trace = (trace_data){.events = NULL};
    describe(model, settings, trace);
    model->build(settings, trace);
    if (!trace->short_of_memory)
        return 0;
    trace_release(trace);
    return -1;
}
