#include "formats/utf8_text.h"

#include <stdlib.h>
#include <string.h>

size_t utf8_sequence(const unsigned char *text, size_t left) {
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

int utf8_is_plain(const char *text, size_t length) {
    for (size_t i = 0; i < length;) {
        const size_t step = utf8_sequence((const unsigned char *)text + i, length - i);
        if (step == 0 || (unsigned char)text[i] < ' ')
            return 0;
        i += step;
    }
    return 1;
}

char *utf8_replace_invalid(const char *text) {
    static const char replacement[] = "\xef\xbf\xbd";
    enum {
        REPLACEMENT_BYTES = sizeof replacement - 1
    };
    size_t left = strlen(text);
    char *const copy = malloc(left * REPLACEMENT_BYTES + 1);
    char *next = copy;
    while (copy && left > 0) {
        const size_t length = utf8_sequence((const unsigned char *)text, left);
        const size_t step = length == 0 ? 1 : length;
        memcpy(next, length == 0 ? replacement : text, length == 0 ? REPLACEMENT_BYTES : step);
        next += length == 0 ? REPLACEMENT_BYTES : step;
        text += step;
        left -= step;
    }
    if (copy)
        *next = '\0';
    return copy;
}

void utf8_trim(char *text) {
    size_t last = strlen(text);
    const size_t length = last;
    while (last > 0 && length - last < 3 && ((unsigned char)text[last - 1] & 0xc0) == 0x80)
        last--;
    if (last > 0 && (unsigned char)text[last - 1] >= 0xc0 &&
        utf8_sequence((const unsigned char *)text + last - 1, length - last + 1) == 0)
        text[last - 1] = '\0';
}
