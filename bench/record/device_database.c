#include "bench/record/device_database.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    MAX_WORDS = 16,
    MAX_WORD = 24
};

static const datasheet sheets[] = {
#define DATASHEET(name, memory, names, source, ...) {name, memory, names, source, {__VA_ARGS__}},
#include "bench/record/devices.def"
#undef DATASHEET
};

enum {
    SHEETS = sizeof sheets / sizeof sheets[0]
};

const datasheet *datasheet_at(size_t index) {
    return index < SHEETS ? &sheets[index] : NULL;
}

/* ---- names ----------------------------------------------------------------------------------- */

typedef struct word_list {
    char words[MAX_WORDS][MAX_WORD];
    int count;
} word_list;

/* Splits a text up to `end` into lower-case words of letters and digits, within the limits. */
static void split(const char *text, const char *end, word_list *list) {
    list->count = 0;
    while (text < end && list->count < MAX_WORDS) {
        size_t length = 0;
        while (text < end && !isalnum((unsigned char)*text))
            text++;
        for (; text < end && isalnum((unsigned char)*text); text++) {
            if (length + 1 < MAX_WORD)
                list->words[list->count][length++] = (char)tolower((unsigned char)*text);
        }
        list->words[list->count][length] = '\0';
        list->count += length > 0;
    }
}

static void split_all(const char *text, word_list *list) {
    split(text, text + strlen(text), list);
}

/* Returns 1 for words that turn the preceding name into another device. */
static int changes_device(const char *word) {
    static const char *const others[] = {"ti", "super", "laptop", "mobile", "d", "max", "nvl"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (strcmp(word, others[i]) == 0)
            return 1;
    }
    return 0;
}

/* Returns the index of the first occurrence of `part` in `all`, word by word, or -1. */
static int place_of(const word_list *all, const word_list *part) {
    for (int start = 0; part->count > 0 && start + part->count <= all->count; start++) {
        int same = 0;
        while (same < part->count && strcmp(all->words[start + same], part->words[same]) == 0)
            same++;
        if (same == part->count)
            return start;
    }
    return -1;
}

/*
 * Returns 1 if a word from index `behind` on makes the name that of another device. A partition
 * ("H200 MIG 1g.18gb") counts as another device.
 */
static int is_changed(const word_list *all, int behind) {
    for (int i = behind; i < all->count; i++) {
        if (strcmp(all->words[i], "mig") == 0)
            return 1;
    }
    return behind < all->count && changes_device(all->words[behind]);
}

static int contains(const word_list *all, const word_list *part) {
    const int start = place_of(all, part);
    return start >= 0 && !is_changed(all, start + part->count);
}

/* Returns the word count of the datasheet's longest name that the device's name contains, or 0. */
static int match(const datasheet *sheet, const word_list *device) {
    int best = 0;
    for (const char *name = sheet->names; *name != '\0';) {
        const char *const end = name + strcspn(name, "|");
        word_list words;
        split(name, end, &words);
        if (words.count > best && contains(device, &words))
            best = words.count;
        name = *end == '|' ? end + 1 : end;
    }
    return best;
}

const datasheet *datasheet_find(const char *device_name) {
    word_list device;
    const datasheet *found = NULL;
    int best = 0;
    if (device_name == NULL)
        return NULL;
    split_all(device_name, &device);
    for (int i = 0; i < SHEETS; i++) {
        const int words = match(&sheets[i], &device);
        if (words == 0 || words < best)
            continue;
        found = words > best ? &sheets[i] : NULL; /* two that match equally well: neither */
        best = words;
    }
    return found;
}

const datasheet *datasheet_of_board(const char *board_name, const char *device_name) {
    const datasheet *const found = datasheet_find(board_name);
    return found != NULL ? found : datasheet_find(device_name);
}

double datasheet_peak_gflops(const datasheet *sheet, const char *dtype) {
    static const struct {
        const char *dtypes;
        datasheet_field field;
    } rows[] = {{"|f32|", DATASHEET_FP32_TFLOPS},
                {"|f16|bf16|w8|w4|f16w8|f16w4|", DATASHEET_FP16_TFLOPS},
                {"|s8|u8s8|u8s8f32|u8s8u8|s8s8s8|w8a8|w4a8|", DATASHEET_INT8_TOPS}};
    char word[MAX_WORD];
    snprintf(word, sizeof word, "|%s|", dtype == NULL ? "" : dtype);
    for (size_t i = 0; sheet != NULL && i < sizeof rows / sizeof *rows; i++) {
        if (strstr(rows[i].dtypes, word) != NULL)
            return 1000 * sheet->values[rows[i].field];
    }
    return NAN;
}
