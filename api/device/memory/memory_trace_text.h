/*
 * The text of a memory trace, version 1: one line per event, in the order of the events.
 *
 *   tandem-memory-trace 1
 *   # description of the recording              any number of such lines
 *   t 1 layer 3/attention                       tag 1 from here on; control characters, % as %XX
 *   a 1200 17 4096 2 1                          1200 ns after the line before: generation 17, 4096
 *                                               bytes, for stream 2 (0: unknown), tag 1 (0: none)
 *   u 350 17 3                                  stream 3 uses generation 17 for the first time
 *   f 90 17                                     generation 17 ends; enqueued work may still run
 *   e 3 29c0d3ab5f0e1d77                        end: events, checksum of all bytes before this line
 *
 * A generation is one allocation of a block. Its number increases from one line of kind a to the
 * next. Blocks that are live at the end have no line f. The checksum is 64-bit FNV-1a.
 */
#ifndef TANDEM_API_DEVICE_MEMORY_MEMORY_TRACE_TEXT_H
#define TANDEM_API_DEVICE_MEMORY_MEMORY_TRACE_TEXT_H

#include <stdbool.h>

#include "api/pool/pool_events.h"

#include <tandem/status.h>

#define TDM_TRACE_MAGIC "tandem-memory-trace 1\n"
#define TDM_TRACE_HASH_START UINT64_C(14695981039346656037)

/* One event of the three kinds in a trace: ALLOC, USE, FREE. */
typedef struct tdm_trace_event {
    tdm_pool_event_kind kind;
    uint32_t stream;
    uint64_t time_ns; /* from any clock */
    uint64_t generation;
    uint64_t bytes; /* ALLOC: bytes requested */
    /* ALLOC: a pointer that always names the same text, or NULL */
    const char *tag;
} tdm_trace_event;

typedef struct tdm_trace_text {
    tdm_status (*put)(void *user, const void *bytes, size_t size);
    void *user;
    tdm_status status; /* first failure; no output follows it */
    bool begun;        /* the time of the first event is known */
    uint64_t last_time;
    uint64_t checksum;
    uint64_t events;
    const char **tags; /* pointer of tag i + 1 */
    int tag_count, tag_capacity;
    struct {
        const char *tag;
        int number;
    } recent[256]; /* cache of tags by pointer, found without a search */
    size_t used;
    char buffer[16384];
} tdm_trace_text;

/* Writes the version and the comment (may be NULL). `put` receives the text in larger pieces. */
void tdm_trace_text_begin(tdm_trace_text *text,
                          tdm_status (*put)(void *user, const void *bytes, size_t size), void *user,
                          const char *comment);
void tdm_trace_text_add(tdm_trace_text *text, const tdm_trace_event *event);
/* Passes the buffered text to `put`. */
void tdm_trace_text_flush(tdm_trace_text *text);
/* Writes the end line unless something failed. Frees the text's memory, returns its status. */
tdm_status tdm_trace_text_end(tdm_trace_text *text);

uint64_t tdm_trace_hash(uint64_t hash, const void *bytes, size_t size);

#endif
