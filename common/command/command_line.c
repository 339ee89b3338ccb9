#include "common/command/cli_options.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "formats/utf8_text.h"

static int word_count;
static char *const *words;

void command_line_keep(int argc, char *const *argv) {
    word_count = argc;
    words = argv;
}

/* An argument may contain any bytes. JSON with such bytes could not be read again. */
static cJSON *text_json(const char *word) {
    const size_t length = strlen(word);
    if (utf8_is_plain(word, length))
        return cJSON_CreateString(word);
    char *const text = calloc(length + 1, 1);
    for (size_t i = 0; text != NULL && i < length; i++)
        text[i] = word[i] >= ' ' && word[i] <= '~' ? word[i] : '?';
    cJSON *const json = cJSON_CreateString(text == NULL ? "?" : text);
    free(text);
    return json;
}

cJSON *command_line_json(void) {
    if (word_count == 0)
        return cJSON_CreateNull();
    cJSON *const list = cJSON_CreateArray();
    const char *const slash = strrchr(words[0], '/');
    cJSON_AddItemToArray(list, text_json(slash == NULL ? words[0] : slash + 1));
    for (int i = 1; i < word_count; i++)
        cJSON_AddItemToArray(list, text_json(words[i]));
    return list;
}

int cli_refuse(const char *command, const char *format, ...) {
    va_list values;
    va_start(values, format);
    fprintf(stderr, "%s: ", command);
    vfprintf(stderr, format, values);
    fprintf(stderr, "\nTry '%s --help'.\n", command);
    va_end(values);
    return CLI_EXIT_USAGE;
}
