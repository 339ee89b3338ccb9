/*
 * The text of a memory trace, version 1: one line per event, in the order of the events.
 *
 *   tandem-memory-trace 1
 *   # what was recorded                         any number of such lines
 *   t 1 layer 3/attention                       tag 1 from here on; control characters and % as %XX
 *   a 1200 17 4096 2 1                          1200 ns after the line before: life 17, 4096 bytes, for
 *                                               stream 2 (0: not known), tag 1 (0: none)
 *   u 350 17 3                                  life 17 is used by stream 3 for the first time
 *   f 90 17                                     life 17 ends; enqueued work may go on
 *   e 3 29c0d3ab5f0e1d77                        the end: events, checksum of every byte before this line
 *
 * Lives rise from line to line of kind a; blocks that are live at the end have no line f. The checksum is 64-bit
 * FNV-1a.
 */
#ifndef TANDEM_API_DEVICE_MEMORY_MEMORY_TRACE_TEXT_H
#define TANDEM_API_DEVICE_MEMORY_MEMORY_TRACE_TEXT_H

#include <stdbool.h>

#include "api/pool/pool_events.h"

#include <tandem/status.h>

#define TDM_TRACE_MAGIC "tandem-memory-trace 1\n"
#define TDM_TRACE_HASH_START UINT64_C(14695981039346656037)

/* One event of the three kinds that a trace has: ALLOC, USE, FREE. */
typedef struct tdm_trace_event {
    tdm_pool_event_kind kind;
    uint32_t stream;
    uint64_t time_ns; /* of any clock */
    uint64_t life;
    uint64_t bytes;  /* ALLOC: as requested */
    const char *tag; /* ALLOC: a pointer that names the same text throughout, or NULL */
} tdm_trace_event;

typedef struct tdm_trace_text {
    tdm_status (*put)(void *user, const void *bytes, size_t size);
    void *user;
    tdm_status status; /* the first failure; nothing is put after it */
    bool begun;        /* the clock of the first event was taken */
    uint64_t last_time;
    uint64_t checksum;
    uint64_t events;
    const char **tags; /* the pointer of tag i + 1 */
    int tag_count, tag_capacity;
    struct {
        const char *tag;
        int number;
    } recent[256]; /* tags by their pointer, found without a search */
    size_t used;
    char buffer[16384];
} tdm_trace_text;

/* Begin with the version and the comment, which may be NULL; `put` is called with larger pieces from time to time. */
void tdm_trace_text_begin(tdm_trace_text *text,
                          tdm_status (*put)(void *user, const void *bytes, size_t size), void *user,
                          const char *comment);
void tdm_trace_text_add(tdm_trace_text *text, const tdm_trace_event *event);
/* Hand out what was gathered so far. */
void tdm_trace_text_flush(tdm_trace_text *text);
/* With the line of the end, where nothing failed before. Releases what the text holds; returns its status. */
tdm_status tdm_trace_text_end(tdm_trace_text *text);

uint64_t tdm_trace_hash(uint64_t hash, const void *bytes, size_t size);

#endif
