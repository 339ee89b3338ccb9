#include "formats/json_file.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "formats/file_mapping.h"
#include "formats/utf8_text.h"

int json_fail(const json_place *place, file_error *error, const char *format, ...) {
    char sentence[256];
    va_list values;
    va_start(values, format);
    vsnprintf(sentence, sizeof sentence, format, values);
    va_end(values);
    const file_name file = file_printable(place->file);
    if (place->part == NULL)
        file_error_set(error, "%s: %s", file.text, sentence);
    else
        file_error_set(error, "%s: %s: %s", file.text, place->part, sentence);
    return -1;
}

/* ---- the text -------------------------------------------------------------------------------- */

/* Returns the index after the string that begins at `start`, or `length` if it does not end. */
static size_t skip_string(const char *text, size_t start, size_t length, int *has_nul) {
    size_t i = start + 1;
    while (i < length && text[i] != '"') {
        if (text[i] == '\\' && length - i > 5 && !memcmp(text + i, "\\u0000", 6))
            *has_nul = 1;
        i += text[i] == '\\' ? 2 : 1;
    }
    return i < length ? i + 1 : length;
}

static int check_bytes(const json_place *place, const char *text, size_t length,
                       file_error *error) {
    for (size_t i = 0; i < length;) {
        const size_t step = utf8_sequence((const unsigned char *)text + i, length - i);
        if (step == 0)
            return json_fail(place, error, "it is not UTF-8 text (byte %zu)", i);
        if ((unsigned char)text[i] < ' ' && (text[i] == '\0' || !strchr("\t\n\r", text[i])))
            return json_fail(place, error, "it contains a control character (byte %zu)", i);
        i += step;
    }
    return 0;
}

/* Limits the nesting, because the parser recurses for each level. */
static int check_depth(const json_place *place, const char *text, size_t length, int most_depth,
                       file_error *error) {
    int depth = 0;
    int has_nul = 0;
    for (size_t i = 0; i < length;) {
        if (text[i] == '"') {
            i = skip_string(text, i, length, &has_nul);
            continue;
        }
        depth += text[i] == '{' || text[i] == '[';
        depth -= text[i] == '}' || text[i] == ']';
        if (depth > most_depth)
            return json_fail(place, error, "it nests deeper than %d levels (byte %zu)", most_depth,
                             i);
        i++;
    }
    return has_nul ? json_fail(place, error, "a string contains the character NUL") : 0;
}

static const char *skip_blanks(const char *text, const char *end) {
    while (text < end && *text != '\0' && strchr(" \t\r\n", *text))
        text++;
    return text;
}

cJSON *json_object_parse(const char *name, const char *text, size_t length, int most_depth,
                         file_error *error) {
    const json_place place = {name, NULL};
    const char *const begin = skip_blanks(text, text + length);
    const char *end = text;
    if (check_bytes(&place, text, length, error) ||
        check_depth(&place, text, length, most_depth, error))
        return NULL;
    cJSON *const root = begin < text + length && *begin == '{'
                            ? cJSON_ParseWithLengthOpts(text, length, &end, 0)
                            : NULL;
    if (root && skip_blanks(end, text + length) == text + length)
        return root;
    if (root)
        json_fail(&place, error, "there is data after the end of the JSON object");
    else
        json_fail(&place, error, "it is not a JSON object (byte %zu)", (size_t)(end - text));
    cJSON_Delete(root);
    return NULL;
}

/* ---- the tree -------------------------------------------------------------------------------- */

static int check_members(const json_place *place, const cJSON *object, file_error *error) {
    const char *names[JSON_MAX_MEMBERS];
    size_t count = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, object) {
        if (count == JSON_MAX_MEMBERS)
            return json_fail(place, error, "an object has more than %d members", JSON_MAX_MEMBERS);
        for (size_t i = 0; i < count; i++) {
            if (strcmp(names[i], item->string) == 0)
                return json_fail(place, error, "member \"%s\" appears twice in an object",
                                 file_printable(item->string).text);
        }
        names[count++] = item->string;
    }
    return 0;
}

/* Traverses the tree with an explicit stack. */
static int check_tree(const json_place *place, const cJSON *root, file_error *error) {
    const cJSON *parents[JSON_MAX_DEPTH];
    int depth = 0;
    for (const cJSON *item = root; item != NULL;) {
        if (cJSON_IsNumber(item) && !isfinite(item->valuedouble))
            return json_fail(place, error, "a number is out of range");
        if (cJSON_IsObject(item) && check_members(place, item, error) != 0)
            return -1;
        if (item->child != NULL) {
            parents[depth++] = item;
            item = item->child;
            continue;
        }
        while (depth > 0 && item->next == NULL)
            item = parents[--depth];
        item = depth > 0 ? item->next : NULL;
    }
    return 0;
}

cJSON *json_text_read(const char *name, const char *text, size_t length, file_error *error) {
    const json_place place = {name, NULL};
    cJSON *const root = json_object_parse(name, text, length, JSON_MAX_DEPTH, error);
    if (!root || check_tree(&place, root, error) == 0)
        return root;
    cJSON_Delete(root);
    return NULL;
}

cJSON *json_file_read(const char *path, file_error *error) {
    file_mapping mapping;
    cJSON *root = NULL;
    const json_place place = {path, NULL};
    if (file_map(path, 1, &mapping, error) != 0)
        return NULL;
    if (mapping.size > JSON_MAX_BYTES)
        json_fail(&place, error, "it is larger than %d MiB", JSON_MAX_BYTES >> 20);
    else
        root = json_text_read(path, mapping.bytes, mapping.size, error);
    file_unmap(&mapping);
    return root;
}

/* ---- members --------------------------------------------------------------------------------- */

int json_get_text(const cJSON *object, const char *key, const json_place *place, const char **text,
                  file_error *error) {
    const cJSON *const item = cJSON_GetObjectItemCaseSensitive(object, key);
    *text = NULL;
    if (item == NULL)
        return json_fail(place, error, "member \"%s\" is missing", key);
    if (!cJSON_IsString(item))
        return json_fail(place, error, "member \"%s\" is not a string", key);
    if (item->valuestring[0] == '\0' ||
        !utf8_is_plain(item->valuestring, strlen(item->valuestring)))
        return json_fail(place, error, "member \"%s\" is empty or contains a control character",
                         key);
    *text = item->valuestring;
    return 0;
}
