#include "formats/safetensors_text.h"

#include <string.h>

#include "formats/utf8_text.h"

enum {
    MAX_DEPTH = 127 /* of the reference reader; the parser behind this recurses */
};

static int check_utf8(const char *text, size_t length, const char *what, safetensors_error *error) {
    for (size_t i = 0; i < length;) {
        const size_t step = utf8_sequence((const unsigned char *)text + i, length - i);
        if (step == 0)
            return file_fail(error, "%s is no UTF-8 text (byte %zu)", what, i);
        if ((unsigned char)text[i] < ' ' && !strchr("\t\n\r", text[i] ? text[i] : 1))
            return file_fail(error, "%s has a control character (byte %zu)", what, i);
        i += step;
    }
    return 0;
}

/* Index behind the string whose opening quote stands at `start`; `length` when it does not end. */
static size_t skip_string(const char *text, size_t start, size_t length, int *has_nul) {
    size_t i = start + 1;
    while (i < length && text[i] != '"') {
        if (text[i] == '\\' && length - i > 5 && !memcmp(text + i, "\\u0000", 6))
            *has_nul = 1;
        i += text[i] == '\\' ? 2 : 1;
    }
    return i < length ? i + 1 : length;
}

int safetensors_check_text(const char *text, size_t length, const char *what,
                           safetensors_error *error) {
    size_t first = 0;
    while (first < length && text[first] != '\0' && strchr(" \t\r\n", text[first]))
        first++;
    if (first == length || text[first] != '{')
        return file_fail(error, "%s does not begin with '{'", what);
    if (check_utf8(text, length, what, error))
        return -1;
    int depth = 0;
    int has_nul = 0;
    for (size_t i = 0; i < length;) {
        if (text[i] == '"') {
            i = skip_string(text, i, length, &has_nul);
            continue;
        }
        if (text[i] == '{' || text[i] == '[')
            depth++;
        else if (text[i] == '}' || text[i] == ']')
            depth--;
        if (depth > MAX_DEPTH)
            return file_fail(error, "%s nests deeper than %d levels (byte %zu)", what, MAX_DEPTH,
                             i);
        i++;
    }
    if (has_nul)
        return file_fail(error, "a text of %s has the character NUL", what);
    return 0;
}
