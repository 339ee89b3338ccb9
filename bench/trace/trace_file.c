#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/device/memory/memory_trace_text.h"
#include "bench/trace/trace_data.h"
#include "formats/file_mapping.h"

/*
 * Larger values are refused; no device has them. No sum of accepted values overflows, nor does ten
 * times a number.
 */
static const uint64_t largest_block = UINT64_C(1) << 48;
static const uint64_t largest_sum = UINT64_C(1) << 62;
static const uint64_t largest_number = UINT64_C(1) << 60;

/*
 * The identifiers of a file (of blocks or streams) in their order of appearance, and a hash table
 * of their indices.
 */
typedef struct id_table {
    uint64_t *ids;
    uint32_t *slots; /* index in `ids` plus 1; 0: free */
    size_t count, slot_count;
} id_table;

typedef struct trace_reader {
    const char *place, *end; /* rest of the current line, and its end */
    const char *next;        /* the next line */
    size_t number;           /* of the current line, from 1 */
    uint64_t checksum;       /* of the lines before it */
    uint64_t live_bytes;
    id_table lives;   /* allocation generations of the trace's blocks, in order */
    id_table streams; /* the trace's stream i + 1 is at index i */
    int ended;
    trace_data *trace;
    file_error *error;
} trace_reader;

static int refuse(const trace_reader *reader, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Writes the line number and the error. Returns -1. */
static int refuse(const trace_reader *reader, const char *format, ...) {
    char reason[240];
    va_list values;
    va_start(values, format);
    vsnprintf(reason, sizeof reason, format, values);
    va_end(values);
    return file_fail(reader->error, "line %zu: %s", reader->number, reason);
}

static int out_of_memory(const trace_reader *reader) {
    return refuse(reader, "out of memory after %zu events", reader->trace->event_count);
}

/* Reads the next `count` numbers of the line. A space or the end of the line follows each. */
static int take_numbers(trace_reader *reader, int count, uint64_t *numbers) {
    for (int i = 0; i < count; i++) {
        const char *const start = reader->place;
        numbers[i] = 0;
        while (reader->place < reader->end && *reader->place >= '0' && *reader->place <= '9' &&
               numbers[i] <= largest_number)
            numbers[i] = 10 * numbers[i] + (uint64_t)(*reader->place++ - '0');
        if (reader->place == start || numbers[i] > largest_number ||
            (reader->place < reader->end && *reader->place++ != ' '))
            return refuse(reader, "number %d of the line is missing, too large or not a number",
                          i + 1);
    }
    return 0;
}

/* Reads all numbers of an event's line. The first is the time since the previous line. */
static int take_event(trace_reader *reader, int count, uint64_t *numbers) {
    if (take_numbers(reader, count, numbers) != 0)
        return -1;
    if (reader->place != reader->end || reader->end[-1] == ' ')
        return refuse(reader, "the line has too many fields");
    if (numbers[0] > largest_sum - reader->trace->time_ns)
        return refuse(reader, "the sum of the times overflows");
    reader->trace->time_ns += numbers[0];
    return 0;
}

static uint32_t *id_slot(const id_table *table, uint64_t id) {
    size_t slot = (size_t)(id * UINT64_C(0x9E3779B97F4A7C15) >> 20) & (table->slot_count - 1);
    while (table->slots[slot] != 0 && table->ids[table->slots[slot] - 1] != id)
        slot = (slot + 1) & (table->slot_count - 1);
    return &table->slots[slot];
}

/* Returns the index of the identifier plus 1, or 0 if it has not appeared. */
static uint32_t find_id(const id_table *table, uint64_t id) {
    return table->count == 0 ? 0 : *id_slot(table, id);
}

/* Doubles the room, so that the table is never over half full. Returns -1 if memory is short. */
static int grow_ids(id_table *table) {
    const size_t slot_count = table->slot_count == 0 ? 512 : 2 * table->slot_count;
    uint64_t *const ids = realloc(table->ids, slot_count / 2 * sizeof *ids);
    if (ids == NULL)
        return -1;
    table->ids = ids;
    uint32_t *const slots = calloc(slot_count, sizeof *slots);
    if (slots == NULL)
        return -1;
    free(table->slots);
    table->slots = slots;
    table->slot_count = slot_count;
    for (size_t i = 0; i < table->count; i++)
        *id_slot(table, ids[i]) = (uint32_t)i + 1;
    return 0;
}

/* Adds an identifier that has not appeared. Returns 0, or -1 and the reason. */
static int add_id(const trace_reader *reader, id_table *table, uint64_t id) {
    if (table->count >= table->slot_count / 2 && grow_ids(table) != 0)
        return out_of_memory(reader);
    table->ids[table->count++] = id;
    *id_slot(table, id) = (uint32_t)table->count;
    return 0;
}

/*
 * Converts a stream's identifier in the file to its number in the trace. A new stream is added. 0
 * stays 0.
 */
static int number_stream(trace_reader *reader, uint64_t id, uint32_t *stream) {
    *stream = 0;
    if (id == 0)
        return 0;
    if (find_id(&reader->streams, id) == 0 && add_id(reader, &reader->streams, id) != 0)
        return -1;
    *stream = find_id(&reader->streams, id);
    return 0;
}

static int find_live(const trace_reader *reader, uint64_t generation, uint32_t *block) {
    const uint32_t known = find_id(&reader->lives, generation);
    if (known == 0 || !reader->trace->blocks[known - 1].live)
        return refuse(reader, "block %" PRIu64 " %s", generation,
                      known == 0 ? "was never allocated" : "is already freed");
    *block = known - 1;
    return 0;
}

/* Fields: time, allocation generation, size, stream, tag. */
static int read_alloc(trace_reader *reader) {
    uint64_t numbers[5];
    uint32_t stream;
    if (take_event(reader, 5, numbers) != 0 || number_stream(reader, numbers[3], &stream) != 0)
        return -1;
    const uint64_t generation = numbers[1];
    const uint64_t bytes = numbers[2];
    if (numbers[4] > reader->trace->tag_count)
        return refuse(reader, "tag %" PRIu64 " is not defined yet", numbers[4]);
    if (bytes > largest_block || bytes > largest_sum - reader->live_bytes)
        return refuse(reader, "more bytes are live than any device can have");
    if (generation == 0 || find_id(&reader->lives, generation) != 0)
        return refuse(reader, "block %" PRIu64 " is 0 or was allocated before", generation);
    if (add_id(reader, &reader->lives, generation) != 0)
        return -1;
    reader->live_bytes += bytes;
    trace_alloc(reader->trace, bytes, stream, (uint32_t)numbers[4]);
    return 0;
}

/* Fields: time, allocation generation, stream. */
static int read_use(trace_reader *reader) {
    uint64_t numbers[3];
    uint32_t block;
    uint32_t stream;
    if (take_event(reader, 3, numbers) != 0 || find_live(reader, numbers[1], &block) != 0 ||
        number_stream(reader, numbers[2], &stream) != 0)
        return -1;
    if (stream == 0)
        return refuse(reader, "stream 0 cannot use a block");
    trace_use(reader->trace, block, stream);
    return 0;
}

/* Fields: time, allocation generation. */
static int read_free(trace_reader *reader) {
    uint64_t numbers[2];
    uint32_t block;
    if (take_event(reader, 2, numbers) != 0 || find_live(reader, numbers[1], &block) != 0)
        return -1;
    reader->live_bytes -= reader->trace->blocks[block].bytes;
    trace_free(reader->trace, block);
    return 0;
}

static int hex_digit(char each) {
    if (each >= '0' && each <= '9')
        return each - '0';
    return each >= 'a' && each <= 'f' ? each - 'a' + 10 : -1;
}

/*
 * Reads the rest of the line, with %XX decoded to bytes. A text that does not fit is an error for
 * tags, and is truncated for comments.
 */
static int take_text(const trace_reader *reader, char *text, size_t size, int cut) {
    size_t length = 0;
    for (const char *each = reader->place; each < reader->end; each++) {
        char value = *each;
        if (value == '%') {
            const int high = reader->end - each > 2 ? hex_digit(each[1]) : -1;
            const int low = high >= 0 ? hex_digit(each[2]) : -1;
            if (low < 0 || high + low == 0)
                return refuse(reader, "%% is not followed by two hexadecimal digits of a byte");
            value = (char)(16 * high + low);
            each += 2;
        } else if ((unsigned char)value < ' ' || value == 127) {
            return refuse(reader, "the text contains a control character");
        }
        if (length + 1 == size) {
            if (cut)
                break;
            return refuse(reader, "the text has more than %zu bytes", size - 1);
        }
        text[length++] = value;
    }
    text[length] = '\0';
    return 0;
}

static int read_tag(trace_reader *reader) {
    uint64_t number;
    char text[TRACE_MAX_TAG];
    if (take_numbers(reader, 1, &number) != 0)
        return -1;
    if (number != reader->trace->tag_count + 1)
        return refuse(reader, "tag %" PRIu64 " is out of order, expected %zu", number,
                      reader->trace->tag_count + 1);
    if (take_text(reader, text, sizeof text, 0) != 0)
        return -1;
    trace_tag_add(reader->trace, text);
    return 0;
}

static int read_end(trace_reader *reader) {
    uint64_t events;
    char checksum[17];
    if (take_numbers(reader, 1, &events) != 0)
        return -1;
    if (events != reader->trace->event_count)
        return refuse(reader, "the end line says %" PRIu64 " events, but there are %zu", events,
                      reader->trace->event_count);
    snprintf(checksum, sizeof checksum, "%016" PRIx64, reader->checksum);
    if (reader->end - reader->place != 16 || memcmp(reader->place, checksum, 16) != 0)
        return refuse(reader, "the checksum is wrong: the file was changed");
    reader->ended = 1;
    return 0;
}

/* Reads one line without its newline. */
static int read_line(trace_reader *reader) {
    const size_t length = (size_t)(reader->end - reader->place);
    if (reader->number == 1) {
        const size_t magic = sizeof TDM_TRACE_MAGIC - 2;
        return length == magic && memcmp(reader->place, TDM_TRACE_MAGIC, magic) == 0
                   ? 0
                   : refuse(reader, "not a memory trace of version 1");
    }
    if (reader->ended)
        return refuse(reader, "there is data after the end line");
    if (length < 2 || reader->place[1] != ' ')
        return refuse(reader, "unknown kind of line");
    const char kind = reader->place[0];
    reader->place += 2;
    switch (kind) {
    case '#':
        return reader->number == 2 ? take_text(reader, reader->trace->comment, TRACE_MAX_COMMENT, 1)
                                   : 0;
    case 't':
        return read_tag(reader);
    case 'a':
        return read_alloc(reader);
    case 'u':
        return read_use(reader);
    case 'f':
        return read_free(reader);
    case 'e':
        return read_end(reader);
    default:
        return refuse(reader, "unknown kind of line");
    }
}

static int read_lines(trace_reader *reader, const char *end, int unfinished) {
    while (reader->next < end) {
        const char *const start = reader->next;
        const char *const line_end = memchr(start, '\n', (size_t)(end - start));
        reader->number++;
        if (line_end == NULL) {
            if (unfinished && reader->number > 1)
                return 0;
            return refuse(reader, "the file ends in the middle of the line");
        }
        reader->place = start;
        reader->end = line_end;
        reader->next = line_end + 1;
        if (read_line(reader) != 0)
            return -1;
        if (reader->trace->short_of_memory)
            return out_of_memory(reader);
        reader->checksum = tdm_trace_hash(reader->checksum, start, (size_t)(reader->next - start));
    }
    if (reader->number++ == 0)
        return refuse(reader, "the file is empty");
    if (!reader->ended && !unfinished)
        return refuse(reader, "the file has no end line");
    return 0;
}

int trace_parse(const void *bytes, size_t size, int unfinished, trace_data *trace,
                file_error *error) {
    *trace = (trace_data){.events = NULL};
    trace_reader reader = {
        .next = bytes, .checksum = TDM_TRACE_HASH_START, .trace = trace, .error = error};
    const int failed = read_lines(&reader, (const char *)bytes + size, unfinished);
    free(reader.lives.ids);
    free(reader.lives.slots);
    free(reader.streams.ids);
    free(reader.streams.slots);
    if (failed)
        trace_release(trace);
    return failed;
}

int trace_load(const char *path, int unfinished, trace_data *trace, file_error *error) {
    file_mapping mapping;
    file_error reason;
    *trace = (trace_data){.events = NULL};
    if (file_map(path, 1, &mapping, error) != 0)
        return -1;
    const int failed = trace_parse(mapping.bytes, mapping.size, unfinished, trace, &reason);
    file_unmap(&mapping);
    return failed ? file_fail(error, "%s: %s", path, reason.text) : 0;
}
