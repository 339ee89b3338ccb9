#include "bench/trace/trace_data.h"

#include <stdlib.h>
#include <string.h>

/* Makes room for one more item of a growing array. Returns 0 if memory is short. */
static int make_room(void **items, size_t *capacity, size_t count, size_t item_bytes) {
    if (count < *capacity)
        return 1;
    const size_t larger = *capacity == 0 ? 256 : 2 * *capacity;
    void *const moved = realloc(*items, larger * item_bytes);
    if (moved == NULL)
        return 0;
    *items = moved;
    *capacity = larger;
    return 1;
}

uint32_t trace_tag_add(trace_data *trace, const char *text) {
    if (!make_room((void **)&trace->tags, &trace->tag_capacity, trace->tag_count,
                   sizeof *trace->tags)) {
        trace->short_of_memory = 1;
        return 0;
    }
    char *const kept = trace->tags[trace->tag_count];
    size_t length = 0;
    for (; length < TRACE_MAX_TAG - 1 && text[length] != '\0'; length++)
        kept[length] = text[length];
    kept[length] = '\0';
    return (uint32_t)++trace->tag_count;
}

uint32_t trace_tag(trace_data *trace, const char *text) {
    for (size_t i = trace->tag_count; i > 0; i--)
        if (strncmp(trace->tags[i - 1], text, TRACE_MAX_TAG - 1) == 0)
            return (uint32_t)i;
    return trace_tag_add(trace, text);
}

static void add_event(trace_data *trace, trace_kind kind, uint32_t block, uint32_t stream) {
    if (trace->short_of_memory || !make_room((void **)&trace->events, &trace->event_capacity,
                                             trace->event_count, sizeof *trace->events)) {
        trace->short_of_memory = 1;
        return;
    }
    if (stream > trace->streams)
        trace->streams = stream;
    trace->events[trace->event_count++] =
        (trace_event){.time_ns = trace->time_ns, .block = block, .stream = stream, .kind = kind};
}

uint32_t trace_alloc(trace_data *trace, uint64_t bytes, uint32_t stream, uint32_t tag) {
    const uint32_t block = (uint32_t)trace->block_count;
    if (trace->short_of_memory || trace->block_count == UINT32_MAX ||
        !make_room((void **)&trace->blocks, &trace->block_capacity, trace->block_count,
                   sizeof *trace->blocks)) {
        trace->short_of_memory = 1;
        return 0;
    }
    trace->blocks[trace->block_count++] = (trace_block){.bytes = bytes, .tag = tag, .live = 1};
    add_event(trace, TRACE_ALLOC, block, stream);
    return block;
}

void trace_use(trace_data *trace, uint32_t block, uint32_t stream) {
    add_event(trace, TRACE_USE, block, stream);
}

void trace_free(trace_data *trace, uint32_t block) {
    add_event(trace, TRACE_FREE, block, 0);
    if (!trace->short_of_memory)
        trace->blocks[block].live = 0;
}

static uint64_t rounded(uint64_t bytes) {
    const uint64_t units = bytes / TRACE_UNIT + (bytes % TRACE_UNIT != 0);
    return (units == 0 ? 1 : units) * TRACE_UNIT;
}

trace_figures trace_summarize(const trace_data *trace) {
    trace_figures figures = {.allocs = 0};
    uint64_t requested = 0;
    uint64_t needed = 0;
    for (size_t i = 0; i < trace->event_count; i++) {
        const trace_event *const event = &trace->events[i];
        const uint64_t bytes = trace->blocks[event->block].bytes;
        if (event->kind == TRACE_ALLOC) {
            figures.allocs++;
            figures.live_at_end++;
            requested += bytes;
            needed += rounded(bytes);
        } else if (event->kind == TRACE_FREE) {
            figures.live_at_end--;
            requested -= bytes;
            needed -= rounded(bytes);
        }
        if (figures.live_at_end > figures.live_peak)
            figures.live_peak = figures.live_at_end;
        if (requested > figures.requested_peak)
            figures.requested_peak = requested;
        if (needed > figures.lower_bound)
            figures.lower_bound = needed;
    }
    if (trace->event_count > 0)
        figures.seconds = 1e-9 * (double)(trace->events[trace->event_count - 1].time_ns -
                                          trace->events[0].time_ns);
    return figures;
}

void trace_release(trace_data *trace) {
    free(trace->events);
    free(trace->blocks);
    free(trace->tags);
    *trace = (trace_data){.events = NULL};
}
