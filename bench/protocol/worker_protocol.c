#include "bench/protocol/worker_protocol.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void add_values(worker_text *text, const char *format, va_list values) {
    const size_t room = sizeof text->text - text->length;
    const int written = vsnprintf(text->text + text->length, room, format, values);
    if (written > 0)
        text->length += (size_t)written < room ? (size_t)written : room - 1;
}

void worker_text_add(worker_text *text, const char *format, ...) {
    va_list values;
    va_start(values, format);
    add_values(text, format, values);
    va_end(values);
}

void worker_text_set(worker_text *text, const char *format, ...) {
    va_list values;
    va_start(values, format);
    text->length = 0;
    add_values(text, format, values);
    va_end(values);
}

void worker_field_add(worker_text *line, const char *key, const char *value) {
    worker_text_add(line, " %s=", key);
    for (; *value != '\0'; value++) {
        const unsigned char letter = (unsigned char)*value;
        if (letter <= ' ' || letter == '%' || letter == 127)
            worker_text_add(line, "%%%02X", letter);
        else
            worker_text_add(line, "%c", letter);
    }
}

void worker_field_add_integer(worker_text *line, const char *key, int64_t value) {
    worker_text_add(line, " %s=%" PRId64, key, value);
}

/* Returns the start of the value of `key`, which stands after a blank or at the line's start. */
static const char *find_field(const char *line, const char *key) {
    const size_t length = strlen(key);
    while (line != NULL) {
        if (strncmp(line, key, length) == 0 && line[length] == '=')
            return line + length + 1;
        line = strchr(line, ' ');
        line = line == NULL ? NULL : line + 1;
    }
    return NULL;
}

static int hex_digit(char letter) {
    static const char digits[] = "0123456789ABCDEF";
    const char *const at = letter == '\0' ? NULL : strchr(digits, letter);
    return at == NULL ? -1 : (int)(at - digits);
}

int worker_field(const char *line, const char *key, char *value, size_t size) {
    const char *at = find_field(line, key);
    size_t used = 0;
    value[0] = '\0';
    if (at == NULL)
        return 0;
    while (*at != '\0' && *at != ' ' && used + 1 < size) {
        const int encoded = at[0] == '%' && hex_digit(at[1]) >= 0 && hex_digit(at[2]) >= 0;
        value[used++] = encoded ? (char)(16 * hex_digit(at[1]) + hex_digit(at[2])) : *at;
        at += encoded ? 3 : 1;
    }
    value[used] = '\0';
    return 1;
}

int64_t worker_field_integer(const char *line, const char *key, int64_t fallback) {
    char text[32];
    char *end = NULL;
    if (!worker_field(line, key, text, sizeof text))
        return fallback;
    errno = 0;
    const long long value = strtoll(text, &end, 10);
    return errno != 0 || end == text || *end != '\0' ? fallback : value;
}
