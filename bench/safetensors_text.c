#include "bench/safetensors_text.h"

#include <string.h>

enum {
    MAX_DEPTH = 3
};

/* Length of the UTF-8 sequence at `text`, 0 when it is none (RFC 3629: no overlong form, no surrogate). */
static size_t utf8_sequence(const unsigned char *text, size_t left) {
    static const struct {
        unsigned char first_low, first_high, second_low, second_high;
        size_t length;
    } rows[] = {
        {0x00, 0x7f, 0x00, 0x00, 1}, {0xc2, 0xdf, 0x80, 0xbf, 2}, {0xe0, 0xe0, 0xa0, 0xbf, 3},
        {0xe1, 0xec, 0x80, 0xbf, 3}, {0xed, 0xed, 0x80, 0x9f, 3}, {0xee, 0xef, 0x80, 0xbf, 3},
        {0xf0, 0xf0, 0x90, 0xbf, 4}, {0xf1, 0xf3, 0x80, 0xbf, 4}, {0xf4, 0xf4, 0x80, 0x8f, 4},
    };
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        const size_t length = rows[r].length;
        if (text[0] < rows[r].first_low || text[0] > rows[r].first_high)
            continue;
        if (length > left ||
            (length > 1 && (text[1] < rows[r].second_low || text[1] > rows[r].second_high)))
            return 0;
        for (size_t i = 2; i < length; i++)
            if ((text[i] & 0xc0) != 0x80)
                return 0;
        return length;
    }
    return 0;
}

static int check_utf8(const char *text, size_t length, safetensors_error *error) {
    for (size_t i = 0; i < length;) {
        const size_t step = utf8_sequence((const unsigned char *)text + i, length - i);
        if (step == 0)
            return file_fail(error, "the header is no UTF-8 text (byte %zu)", i);
        if ((unsigned char)text[i] < ' ' && !strchr("\t\n\r", text[i] ? text[i] : 1))
            return file_fail(error, "the header has a control character (byte %zu)", i);
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

int safetensors_check_text(const char *text, size_t length, safetensors_error *error) {
    if (length == 0 || text[0] != '{')
        return file_fail(error, "the header does not begin with '{'");
    if (check_utf8(text, length, error))
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
            return file_fail(error, "the header nests deeper than %d levels (byte %zu)", MAX_DEPTH,
                             i);
        i++;
    }
    if (has_nul)
        return file_fail(error, "a text of the header has the character NUL");
    return 0;
}
