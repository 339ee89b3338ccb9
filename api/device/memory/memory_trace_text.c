#include "api/device/memory/memory_trace_text.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "api/device/core.h"

/* All lines are shorter. A tag has at most 63 bytes, each as %XX. The comment is cut to fit. */
#define LINE_BYTES 256

uint64_t tdm_trace_hash(uint64_t hash, const void *bytes, size_t size) {
    const unsigned char *const each = bytes;
    for (size_t i = 0; i < size; i++)
        hash = (hash ^ each[i]) * UINT64_C(1099511628211);
    return hash;
}

void tdm_trace_text_flush(tdm_trace_text *text) {
    if (text->status == TDM_OK && text->used > 0)
        text->status = text->put(text->user, text->buffer, text->used);
    text->used = 0;
}

/* Makes room for a line of any kind. */
static char *begin_line(tdm_trace_text *text) {
    if (sizeof text->buffer - text->used < LINE_BYTES)
        tdm_trace_text_flush(text);
    return text->buffer + text->used;
}

static void end_line(tdm_trace_text *text, size_t length) {
    text->checksum = tdm_trace_hash(text->checksum, text->buffer + text->used, length);
    text->used += length;
}

static void put_line(tdm_trace_text *text, const char *format, ...) TDM_PRINTF(2, 3);

static void put_line(tdm_trace_text *text, const char *format, ...) {
    char *const line = begin_line(text);
    va_list values;
    va_start(values, format);
    const int length = vsnprintf(line, LINE_BYTES, format, values);
    va_end(values);
    end_line(text, length < LINE_BYTES ? (size_t)length : LINE_BYTES - 1);
}

/* Writes a blank and the number; returns the end. Events are many, and this takes a tenth of
 * printf's time. */
static char *put_number(char *place, uint64_t number) {
    char digits[20];
    int count = 0;
    do
        digits[count++] = (char)('0' + number % 10);
    while ((number /= 10) > 0);
    *place++ = ' ';
    while (count > 0)
        *place++ = digits[--count];
    return place;
}

/* Replaces control characters and % by %XX, so that a line stays a line. */
static void escape(const char *source, char *target, size_t size) {
    size_t used = 0;
    for (; *source && used + 4 < size; source++) {
        const unsigned char each = (unsigned char)*source;
        if (each < ' ' || each == 127 || each == '%')
            used += (size_t)snprintf(target + used, size - used, "%%%02x", each);
        else
            target[used++] = *source;
    }
    target[used] = '\0';
}

void tdm_trace_text_begin(tdm_trace_text *text,
                          tdm_status (*put)(void *user, const void *bytes, size_t size), void *user,
                          const char *comment) {
    *text = (tdm_trace_text){.put = put, .user = user, .checksum = TDM_TRACE_HASH_START};
    put_line(text, "%s", TDM_TRACE_MAGIC);
    if (comment) {
        char kept[LINE_BYTES - 8];
        escape(comment, kept, sizeof kept);
        put_line(text, "# %s\n", kept);
    }
}

/* Returns the number of a known tag; 0: it is new. */
static int find_tag(const tdm_trace_text *text, const char *tag) {
    for (int i = text->tag_count - 1; i >= 0; i--)
        if (text->tags[i] == tag)
            return i + 1;
    return 0;
}

/* Gives the tag a number and writes its line. Returns 0 if host memory is short. */
static int add_tag(tdm_trace_text *text, const char *tag) {
    if (text->tag_count == text->tag_capacity) {
        const int capacity = text->tag_capacity ? 2 * text->tag_capacity : 64;
        const char **const tags =
            tdm_host_realloc((void *)text->tags, (size_t)text->tag_capacity * sizeof *tags,
                             (size_t)capacity * sizeof *tags);
        if (!tags)
            return 0;
        text->tags = tags;
        text->tag_capacity = capacity;
    }
    text->tags[text->tag_count++] = tag;
    char kept[3 * TDM_MEMORY_TAG_BYTES + 4];
    escape(tag, kept, sizeof kept);
    put_line(text, "t %d %s\n", text->tag_count, kept);
    return text->tag_count;
}

/* Returns the number of a tag; 0: no tag. */
static int number_of(tdm_trace_text *text, const char *tag) {
    if (!tag)
        return 0;
    const size_t place = (uintptr_t)tag / 64 % (sizeof text->recent / sizeof text->recent[0]);
    if (text->recent[place].tag != tag) {
        const int found = find_tag(text, tag);
        text->recent[place].number = found ? found : add_tag(text, tag);
        text->recent[place].tag = tag;
    }
    return text->recent[place].number;
}

void tdm_trace_text_add(tdm_trace_text *text, const tdm_trace_event *event) {
    const int tag = event->kind == TDM_POOL_EVENT_ALLOC ? number_of(text, event->tag) : 0;
    // Threads read the clock before they get the lock, so a step back counts as 0.
    const uint64_t step =
        text->begun && event->time_ns > text->last_time ? event->time_ns - text->last_time : 0;
    if (step > 0 || !text->begun)
        text->last_time = event->time_ns;
    text->begun = true;
    text->events++;
    char *const line = begin_line(text);
    char *place = line;
    *place++ = event->kind == TDM_POOL_EVENT_ALLOC ? 'a'
               : event->kind == TDM_POOL_EVENT_USE ? 'u'
                                                   : 'f';
    place = put_number(place, step);
    place = put_number(place, event->generation);
    if (event->kind == TDM_POOL_EVENT_ALLOC)
        place = put_number(place, event->bytes);
    if (event->kind != TDM_POOL_EVENT_FREE)
        place = put_number(place, event->stream);
    if (event->kind == TDM_POOL_EVENT_ALLOC)
        place = put_number(place, (uint64_t)tag);
    *place++ = '\n';
    end_line(text, (size_t)(place - line));
}

tdm_status tdm_trace_text_end(tdm_trace_text *text) {
    put_line(text, "e %" PRIu64 " %016" PRIx64 "\n", text->events, text->checksum);
    tdm_trace_text_flush(text);
    tdm_host_free((void *)text->tags);
    text->tags = NULL;
    text->tag_count = text->tag_capacity = 0;
    return text->status;
}
