#include "bench/trace/trace_data.h"

#include <stdlib.h>
#include <string.h>

/* Room for one more item of a growing array; 0 when there is none. */
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

uint64_t trace_lower_bound(const trace_data *trace) {
    uint64_t live = 0;
    uint64_t most = 0;
    for (size_t i = 0; i < trace->event_count; i++) {
        const trace_event *const event = &trace->events[i];
        const uint64_t bytes = rounded(trace->blocks[event->block].bytes);
        if (event->kind == TRACE_ALLOC)
            live += bytes;
        else if (event->kind == TRACE_FREE)
            live -= bytes;
        if (live > most)
            most = live;
    }
    return most;
}

trace_figures trace_summarize(const trace_data *trace) {
    trace_figures figures = {.smallest = UINT64_MAX};
    uint64_t requested = 0;
    for (size_t i = 0; i < trace->event_count; i++) {
        const trace_event *const event = &trace->events[i];
        const uint64_t bytes = trace->blocks[event->block].bytes;
        figures.uses += event->kind == TRACE_USE;
        if (event->kind == TRACE_ALLOC) {
            figures.allocs++;
            requested += bytes;
            if (bytes < figures.smallest)
                figures.smallest = bytes;
            if (bytes > figures.largest)
                figures.largest = bytes;
        } else if (event->kind == TRACE_FREE) {
            figures.frees++;
            requested -= bytes;
        }
        if (figures.allocs - figures.frees > figures.live_peak)
            figures.live_peak = figures.allocs - figures.frees;
        if (requested > figures.requested_peak)
            figures.requested_peak = requested;
    }
    if (figures.allocs == 0)
        figures.smallest = 0;
    figures.live_at_end = figures.allocs - figures.frees;
    if (trace->event_count > 0)
        figures.seconds = 1e-9 * (double)(trace->events[trace->event_count - 1].time_ns -
                                          trace->events[0].time_ns);
    return figures;
}

int trace_tag_uses(const trace_data *trace, trace_tag_use *uses) {
    const size_t count = trace->tag_count + 1;
    const uint64_t most = trace_summarize(trace).requested_peak;
    uint64_t *const live = calloc(count, sizeof *live);
    uint64_t sum = 0;
    int seen = 0;
    if (live == NULL)
        return -1;
    memset(uses, 0, count * sizeof *uses);
    for (size_t i = 0; i < trace->event_count; i++) {
        const trace_event *const event = &trace->events[i];
        const trace_block *const block = &trace->blocks[event->block];
        if (event->kind == TRACE_ALLOC) {
            uses[block->tag].allocs++;
            sum += block->bytes;
            live[block->tag] += block->bytes;
        } else if (event->kind == TRACE_FREE) {
            sum -= block->bytes;
            live[block->tag] -= block->bytes;
        }
        if (sum == most && !seen) {
            seen = 1;
            for (size_t tag = 0; tag < count; tag++)
                uses[tag].bytes_at_peak = live[tag];
        }
    }
    free(live);
    return 0;
}

void trace_release(trace_data *trace) {
    free(trace->events);
    free(trace->blocks);
    free(trace->tags);
    *trace = (trace_data){.events = NULL};
}
