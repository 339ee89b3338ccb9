/* A memory trace: blocks, and what happens to them, in order. */
#ifndef TANDEM_BENCH_TRACE_TRACE_DATA_H
#define TANDEM_BENCH_TRACE_TRACE_DATA_H

#include <stddef.h>
#include <stdint.h>

#include "formats/file_error.h"

typedef enum trace_kind {
    TRACE_ALLOC,
    TRACE_USE, /* first use by the stream */
    TRACE_FREE
} trace_kind;

typedef struct trace_event {
    uint64_t time_ns; /* never decreases */
    uint32_t block;
    uint32_t stream; /* use: its stream; alloc: the probable first stream, 0 if unknown */
    trace_kind kind;
} trace_event;

typedef struct trace_block {
    uint64_t bytes; /* as requested */
    uint32_t tag;   /* index of the tag plus 1; 0: none */
    int live;       /* 1: not freed so far, or never freed once the trace is complete */
    uint8_t seen;   /* bit mask of streams that use it, for the generator */
} trace_block;

enum {
    TRACE_UNIT = 256, /* the pool rounds sizes up to multiples of it */
    TRACE_MAX_TAG = 64,
    TRACE_MAX_COMMENT = 200
};

/* Start from {.events = NULL}. Streams are numbered 1 … streams. */
typedef struct trace_data {
    trace_event *events;
    size_t event_count, event_capacity;
    trace_block *blocks;
    size_t block_count, block_capacity;
    char (*tags)[TRACE_MAX_TAG];
    size_t tag_count, tag_capacity;
    uint32_t streams;
    uint64_t time_ns; /* of the next event */
    int short_of_memory;
    char comment[TRACE_MAX_COMMENT]; /* describes the trace */
} trace_data;

/*
 * Return the index plus 1 of the tag with that text. trace_tag adds the tag if it is new;
 * trace_tag_add always adds it. Both return 0 if memory is short.
 */
uint32_t trace_tag(trace_data *trace, const char *text);
uint32_t trace_tag_add(trace_data *trace, const char *text);

/* These add an event at time_ns. If memory is short, they set short_of_memory and add nothing. */
uint32_t trace_alloc(trace_data *trace, uint64_t bytes, uint32_t stream, uint32_t tag);
void trace_use(trace_data *trace, uint32_t block, uint32_t stream);
void trace_free(trace_data *trace, uint32_t block);

typedef struct trace_figures {
    size_t allocs, live_at_end;
    size_t live_peak;        /* in blocks */
    uint64_t requested_peak; /* in bytes */
    /*
     * The least that any allocator needs: the largest sum of live sizes, each rounded up to a
     * multiple of TRACE_UNIT. A size of 0 counts as one unit.
     */
    uint64_t lower_bound;
    double seconds; /* from the first event to the last */
} trace_figures;

trace_figures trace_summarize(const trace_data *trace);

/*
 * Reads a trace from the bytes of a file (format: api/device/memory/memory_trace_text.h). Returns
 * 0, or -1 with the line and the error. With `unfinished`, a file without an end line is read up to
 * its last whole line.
 */
int trace_parse(const void *bytes, size_t size, int unfinished, trace_data *trace,
                file_error *error);

/* Reads a trace from a file in the same way. */
int trace_load(const char *path, int unfinished, trace_data *trace, file_error *error);

void trace_release(trace_data *trace);

/*
 * Settings of a generated trace: the allocations of a transformer for inference, on three streams.
 * The same settings give the same trace on every machine.
 */

typedef struct trace_settings {
    int64_t layers, hidden, inner, vocabulary;
    int64_t shared; /* columns of keys and values */
    int64_t batch, sequence;
    int64_t steps;  /* tokens after the prompt */
    int no_weights; /* 1: the trace has no weights */
} trace_settings;

#define TRACE_SETTINGS_INIT                                                                        \
    {                                                                                              \
        .layers = 16, .hidden = 2048, .inner = 8192, .vocabulary = 32000, .shared = 512,           \
        .batch = 4, .sequence = 512, .steps = 4                                                    \
    }

enum {
    TRACE_MAX_LAYERS = 200
};

/* Builds the trace, with its comment. Returns 0, or -1 if memory is short. */
int trace_generate(const trace_settings *settings, trace_data *trace);

#endif
