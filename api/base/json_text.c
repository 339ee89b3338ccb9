/* JSON writer: numbers, strings, objects and lists. */
#include <stdio.h>
#include <string.h>

#include "api/base/base.h"
#include "api/base/json_text.h"

static void append(tdm_json *json, const char *text, size_t bytes) {
    if (json->broken)
        return;
    if (json->capacity - json->bytes < bytes + 1) {
        const size_t capacity = 2 * json->capacity + bytes + 1024;
        char *const bigger = tdm_host_realloc(json->text, json->bytes, capacity);
        json->broken = !bigger;
        if (!bigger)
            return;
        json->text = bigger;
        json->capacity = capacity;
    }
    memcpy(json->text + json->bytes, text, bytes);
    json->bytes += bytes;
}

/* Returns the length of the valid UTF-8 sequence that begins here; 0: there is none. */
static size_t sequence_length(const unsigned char *text) {
    const unsigned char first = text[0];
    const size_t length = first < 0x80                    ? 1
                          : first >= 0xC2 && first < 0xE0 ? 2
                          : first >= 0xE0 && first < 0xF0 ? 3
                          : first >= 0xF0 && first < 0xF5 ? 4
                                                          : 0;
    for (size_t i = 1; i < length; i++)
        if ((text[i] & 0xC0) != 0x80)
            return 0;
    const bool overlong = (first == 0xE0 && text[1] < 0xA0) || (first == 0xF0 && text[1] < 0x90);
    const bool beyond = (first == 0xED && text[1] > 0x9F) || (first == 0xF4 && text[1] > 0x8F);
    return overlong || beyond ? 0 : length;
}

static void append_quoted(tdm_json *json, const char *value) {
    append(json, "\"", 1);
    for (const unsigned char *text = (const unsigned char *)value; *text;) {
        char escaped[8];
        const size_t length = sequence_length(text);
        if (length == 0)
            append(json, "\\ufffd", 6);
        else if (length == 1 && (*text < 0x20 || *text == 0x7F))
            append(json, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\u%04x", *text));
        else if (*text == '"' || *text == '\\')
            append(json, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\%c", *text));
        else
            append(json, (const char *)text, length);
        text += length ? length : 1;
    }
    append(json, "\"", 1);
}

/* Writes the text before a value: a comma after the previous item, and the name. */
static void begin(tdm_json *json, const char *name) {
    if (json->bytes && !json->separated)
        append(json, ",", 1);
    json->separated = false;
    if (name) {
        append_quoted(json, name);
        append(json, ":", 1);
    }
}

void tdm_json_open(tdm_json *json, const char *name, char bracket) {
    begin(json, name);
    append(json, &bracket, 1);
    json->separated = true;
}

void tdm_json_close(tdm_json *json, char bracket) {
    append(json, &bracket, 1);
    json->separated = false;
}

void tdm_json_number(tdm_json *json, const char *name, uint64_t value) {
    char text[32];
    begin(json, name);
    append(json, text, (size_t)snprintf(text, sizeof text, "%llu", (unsigned long long)value));
}

void tdm_json_fraction(tdm_json *json, const char *name, double value) {
    // Printed as integer millionths, because printf's decimal point depends on the locale.
    const unsigned long long millionths = value <= 0 ? 0 : (unsigned long long)(value * 1e6 + 0.5);
    char text[40];
    begin(json, name);
    append(json, text,
           (size_t)snprintf(text, sizeof text, "%llu.%06llu", millionths / 1000000,
                            millionths % 1000000));
}

void tdm_json_string(tdm_json *json, const char *name, const char *value) {
    begin(json, name);
    if (value)
        append_quoted(json, value);
    else
        append(json, "null", 4);
}

char *tdm_json_finish(tdm_json *json, size_t *bytes) {
    append(json, "", 1);
    if (json->broken) {
        tdm_host_free(json->text);
        return NULL;
    }
    *bytes = json->bytes - 1;
    return json->text;
}
