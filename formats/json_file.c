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

/* ---- the text -------------------------------------------------------------------------------------- */

static size_t line_of(const char *text, size_t place) {
    size_t line = 1;
    for (size_t i = 0; i < place; i++)
        line += text[i] == '\n';
    return line;
}

static int check_bytes(const json_place *place, const char *text, size_t length,
                       file_error *error) {
    for (size_t i = 0; i < length;) {
        const size_t step = utf8_sequence((const unsigned char *)text + i, length - i);
        if (step == 0)
            return json_fail(place, error, "line %zu is no UTF-8 text", line_of(text, i));
        if ((unsigned char)text[i] < ' ' && (text[i] == '\0' || !strchr("\t\n\r", text[i])))
            return json_fail(place, error, "line %zu has a control character", line_of(text, i));
        if (text[i] != '\\') {
            i += step;
            continue;
        }
        if (length - i > 5 && memcmp(text + i, "\\u0000", 6) == 0)
            return json_fail(place, error, "line %zu has the character NUL in a text",
                             line_of(text, i));
        i += length - i > 1 ? 2 : 1;
    }
    return 0;
}

/* ---- the tree -------------------------------------------------------------------------------------- */

static int check_members(const json_place *place, const cJSON *object, file_error *error) {
    const char *names[JSON_MAX_MEMBERS];
    size_t count = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, object) {
        if (count == JSON_MAX_MEMBERS)
            return json_fail(place, error, "an object has more than %d members", JSON_MAX_MEMBERS);
        for (size_t i = 0; i < count; i++) {
            if (strcmp(names[i], item->string) == 0)
                return json_fail(place, error, "member \"%s\" stands twice in an object",
                                 file_printable(item->string).text);
        }
        names[count++] = item->string;
    }
    return 0;
}

/* Goes down and comes back by a stack of its own: `depth` levels at most. */
static int check_tree(const json_place *place, const cJSON *root, file_error *error) {
    const cJSON *parents[JSON_MAX_DEPTH];
    int depth = 0;
    for (const cJSON *item = root; item != NULL;) {
        if (cJSON_IsNumber(item) && !isfinite(item->valuedouble))
            return json_fail(place, error, "a number is larger than any that can be held");
        if (cJSON_IsObject(item) && check_members(place, item, error) != 0)
            return -1;
        if (item->child != NULL) {
            if (depth == JSON_MAX_DEPTH)
                return json_fail(place, error, "it nests deeper than %d levels", JSON_MAX_DEPTH);
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

static const char *skip_blanks(const char *text, const char *end) {
    while (text < end && strchr(" \t\r\n", *text) != NULL)
        text++;
    return text;
}

cJSON *json_text_read(const char *name, const char *text, size_t length, file_error *error) {
    const json_place place = {name, NULL};
    const char *end = text;
    if (check_bytes(&place, text, length, error) != 0)
        return NULL;
    cJSON *const root = cJSON_ParseWithLengthOpts(text, length, &end, 0);
    const size_t parsed = end >= text && end <= text + length ? (size_t)(end - text) : 0;
    int status = 0;
    if (root == NULL)
        status = json_fail(&place, error, "it is no JSON: line %zu, byte %zu",
                           line_of(text, parsed), parsed);
    else if (skip_blanks(text + parsed, text + length) != text + length)
        status = json_fail(&place, error, "something follows the end of the JSON in line %zu",
                           line_of(text, parsed));
    else
        status = check_tree(&place, root, error);
    if (status == 0)
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

/* ---- members --------------------------------------------------------------------------------------- */

static const cJSON *find(const cJSON *object, const char *key) {
    const cJSON *const item = cJSON_GetObjectItemCaseSensitive(object, key);
    return cJSON_IsNull(item) ? NULL : item;
}

static int missing(const cJSON *object, const char *key, const json_place *place,
                   file_error *error) {
    return json_fail(place, error, "member \"%s\" is %s", key,
                     cJSON_HasObjectItem(object, key) ? "null" : "missing");
}

int json_get_text(const cJSON *object, const char *key, int may_be_null, const json_place *place,
                  const char **text, file_error *error) {
    const cJSON *const item = find(object, key);
    *text = NULL;
    if (item == NULL)
        return may_be_null ? 0 : missing(object, key, place, error);
    if (!cJSON_IsString(item))
        return json_fail(place, error, "member \"%s\" is no text", key);
    if (item->valuestring[0] == '\0' ||
        !utf8_is_plain(item->valuestring, strlen(item->valuestring)))
        return json_fail(place, error, "member \"%s\" is empty or has a control character", key);
    *text = item->valuestring;
    return 0;
}

int json_get_number(const cJSON *object, const char *key, int may_be_null, const json_place *place,
                    double *number, file_error *error) {
    const cJSON *const item = find(object, key);
    *number = NAN;
    if (item == NULL)
        return may_be_null ? 0 : missing(object, key, place, error);
    if (!cJSON_IsNumber(item))
        return json_fail(place, error, "member \"%s\" is no number", key);
    *number = item->valuedouble;
    return 0;
}
