/* A memory trace: blocks, and what happens to them, in order. */
#ifndef TANDEM_BENCH_TRACE_TRACE_DATA_H
#define TANDEM_BENCH_TRACE_TRACE_DATA_H

#include <stddef.h>
#include <stdint.h>

#include "formats/file_error.h"

/* A memory trace: blocks, and what happens to them, in order. */

typedef enum trace_kind {
    TRACE_ALLOC,
    TRACE_USE, /* the first by the stream */
    TRACE_FREE
} trace_kind;

typedef struct trace_event {
    uint64_t time_ns; /* never falls */
    uint32_t block;
    uint32_t stream; /* of the use; of the alloc: who will probably use it first, 0 not known */
    trace_kind kind;
} trace_event;

typedef struct trace_block {
    uint64_t bytes; /* as requested */
    uint32_t tag;   /* index of the tags plus 1; 0: none */
    int live;       /* while the trace is built; afterwards: never freed in the trace */
    uint8_t seen;   /* streams that use it, as bits, for the generator */
} trace_block;

enum {
    TRACE_UNIT = 256, /* The pool rounds sizes up to multiples of it. */
    TRACE_MAX_TAG = 64,
    TRACE_MAX_COMMENT = 200
};

/* Start from {.events = NULL}. Streams are 1 … streams. */
typedef struct trace_data {
    trace_event *events;
    size_t event_count, event_capacity;
    trace_block *blocks;
    size_t block_count, block_capacity;
    char (*tags)[TRACE_MAX_TAG];
    size_t tag_count, tag_capacity;
    uint32_t streams;
    uint64_t time_ns; /* of what is added next */
    int short_of_memory;
    char comment[TRACE_MAX_COMMENT]; /* what it is a trace of */
} trace_data;

/* Index plus 1 of the tag with that text, added where it is new; trace_tag_add adds it in any case. 0 without memory. */
uint32_t trace_tag(trace_data *trace, const char *text);
uint32_t trace_tag_add(trace_data *trace, const char *text);

/* Add an event at time_ns. Where memory is short, short_of_memory is set and nothing more is added. */
uint32_t trace_alloc(trace_data *trace, uint64_t bytes, uint32_t stream, uint32_t tag);
void trace_use(trace_data *trace, uint32_t block, uint32_t stream);
void trace_free(trace_data *trace, uint32_t block);

typedef struct trace_figures {
    size_t allocs, live_at_end;
    size_t live_peak;        /* blocks */
    uint64_t requested_peak; /* bytes */
    /* The least that any allocator needs: the most live at a time, sizes rounded up to TRACE_UNIT, 0 to one unit. */
    uint64_t lower_bound;
    double seconds; /* from the first event to the last */
} trace_figures;

trace_figures trace_summarize(const trace_data *trace);

/*
 * Read a trace from the bytes of a file (api/device/memory/memory_trace_text.h has the format). 0, or -1 with the line and what
 * is wrong there. With `unfinished`, a file whose end is missing is taken up to its last whole line.
 */
int trace_parse(const void *bytes, size_t size, int unfinished, trace_data *trace,
                file_error *error);

/* The same from a file. */
int trace_load(const char *path, int unfinished, trace_data *trace, file_error *error);

void trace_release(trace_data *trace);

/* A trace of what a transformer allocates for inference, on three streams. The same settings give the same trace everywhere. */

typedef struct trace_settings {
    int64_t layers, hidden, inner, vocabulary;
    int64_t shared; /* columns of keys and values */
    int64_t batch, sequence;
    int64_t steps;  /* tokens after the prompt */
    int no_weights; /* The model's weights are no part of the trace. */
} trace_settings;

#define TRACE_SETTINGS_INIT                                                                        \
    {                                                                                              \
        .layers = 16, .hidden = 2048, .inner = 8192, .vocabulary = 32000, .shared = 512,           \
        .batch = 4, .sequence = 512, .steps = 4                                                    \
    }

enum {
    TRACE_MAX_LAYERS = 200
};

/* Build the trace, with its comment. 0, or -1 when memory is short. */
int trace_generate(const trace_settings *settings, trace_data *trace);

#endif
