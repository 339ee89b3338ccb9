#include "formats/file_error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

void file_error_set(file_error *error, const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error->text, sizeof error->text, format, arguments);
    va_end(arguments);
}

file_name file_printable(const char *name) {
    file_name result;
    size_t i = 0;
    for (; name[i] && i < sizeof result.text - 4; i++)
        result.text[i] = (name[i] >= ' ' && name[i] <= '~') ? name[i] : '?';
    memcpy(result.text + i, name[i] ? "..." : "", name[i] ? 4 : 1);
    return result;
}
