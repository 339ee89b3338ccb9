#include "common/html_text.h"

#include <stdarg.h>
#include <string.h>

#include "formats/utf8_text.h"

static const char *entity_of(unsigned char byte) {
    switch (byte) {
    case '&':
        return "&amp;";
    case '<':
        return "&lt;";
    case '>':
        return "&gt;";
    case '"':
        return "&quot;";
    case '\'':
        return "&#39;";
    case '\n':
    case '\t':
        return " ";
    default:
        return byte < 0x20 || byte == 0x7f ? "\xef\xbf\xbd" : NULL;
    }
}

void html_text(FILE *file, const char *text) {
    const unsigned char *at = (const unsigned char *)(text == NULL ? "–" : text);
    size_t left = strlen((const char *)at);
    while (left > 0) {
        const char *const entity = entity_of(*at);
        const size_t length = utf8_sequence(at, left);
        const size_t step = length == 0 ? 1 : length;
        if (entity != NULL)
            fputs(entity, file);
        else if (length == 0)
            fputs("\xef\xbf\xbd", file);
        else
            fwrite(at, 1, length, file);
        at += step;
        left -= step;
    }
}

void html_format(FILE *file, const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    html_text(file, text);
}
