#include "formats/gguf_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char number_key[] = "split.no"; /* from 0 */
static const char count_key[] = "split.count";
static const char tensors_key[] = "split.tensors.count";

enum {
    MAX_PARTS = 99999, /* names have five digits */
    EXTENSION_BYTES = sizeof ".gguf" - 1,
    SUFFIX_BYTES = sizeof "-00001-of-00002.gguf" - 1,
    SUFFIX_ROOM = 64 /* for any size_t, as the compiler sees it */
};

int gguf_parts_is_key(const char *key) {
    return !strcmp(key, number_key) || !strcmp(key, count_key) || !strcmp(key, tensors_key);
}

/* ---- values ---- */

/* Read a whole number of any type, `missing` where no value has that key. 0, or -1 with the
 * reason. */
static int read_number(const gguf_file *file, const char *key, uint64_t missing, uint64_t *number,
                       file_error *error) {
    const gguf_value *const value = gguf_value_find(file, key);
    *number = missing;
    if (!value)
        return 0;
    switch (value->type) {
    case GGUF_VALUE_I8:
    case GGUF_VALUE_I16:
    case GGUF_VALUE_I32:
    case GGUF_VALUE_I64:
        if (((const signed char *)value->data)[value->bytes - 1] < 0)
            return file_fail(error, "%s is negative", key);
        break;
    case GGUF_VALUE_U8:
    case GGUF_VALUE_U16:
    case GGUF_VALUE_U32:
    case GGUF_VALUE_U64:
        break;
    default:
        return file_fail(error, "%s is of type %s, not a whole number", key,
                         gguf_value_type_name(value->type));
    }
    *number = 0;
    memcpy(number, value->data, value->bytes);
    return 0;
}

/* Read the number of a part, from 0, and how many there are: 0 of 1 for a model that is not
 * split. */
static int read_split(const gguf_file *file, uint64_t *number, uint64_t *count, file_error *error) {
    if (read_number(file, count_key, 1, count, error) ||
        read_number(file, number_key, UINT64_MAX, number, error))
        return -1;
    if (*count <= 1) {
        *count = 1;
        *number = 0;
        return 0;
    }
    if (*count > MAX_PARTS)
        return file_fail(error, "%s is %llu, above the limit of %d", count_key,
                         (unsigned long long)*count, MAX_PARTS);
    if (*number == UINT64_MAX)
        return file_fail(error, "%s is %llu, but there is no %s", count_key,
                         (unsigned long long)*count, number_key);
    if (*number >= *count)
        return file_fail(error, "%s is %llu, not below %s, which is %llu", number_key,
                         (unsigned long long)*number, count_key, (unsigned long long)*count);
    return 0;
}

/* ---- names ---- */

/* Five digits; SIZE_MAX for anything else. */
static size_t parse_digits(const char *text) {
    size_t number = 0;
    for (int i = 0; i < 5; i++) {
        if (text[i] < '0' || text[i] > '9')
            return SIZE_MAX;
        number = 10 * number + (size_t)(text[i] - '0');
    }
    return number;
}

/* Return 1 where a path ends in "-00001-of-00002.gguf" or the like, with part and count. */
static int parse_suffix(const char *path, size_t *part, size_t *count) {
    const size_t length = strlen(path);
    if (length < SUFFIX_BYTES)
        return 0;
    const char *const suffix = path + length - SUFFIX_BYTES;
    if (suffix[0] != '-' || strncmp(suffix + 6, "-of-", 4) != 0 ||
        strcmp(suffix + 15, ".gguf") != 0)
        return 0;
    *part = parse_digits(suffix + 1);
    *count = parse_digits(suffix + 10);
    return *part != SIZE_MAX && *count != SIZE_MAX;
}

/* Make the path of every part. A file that is not named as a part may have been renamed: the
 * others then have its stem in their names. */
static int name_parts(const char *path, size_t number, gguf_parts *parts, file_error *error) {
    size_t part = 0;
    size_t count = 0;
    const int has_suffix = parse_suffix(path, &part, &count);
    if (has_suffix && (part != number + 1 || count != parts->count))
        return file_fail(error, "%s: the file is part %zu of %zu by its values, not by its name",
                         path, number + 1, parts->count);
    const size_t prefix = strlen(path) - (has_suffix ? SUFFIX_BYTES : EXTENSION_BYTES);
    const size_t room = prefix + SUFFIX_ROOM;
    for (size_t i = 0; i < parts->count; i++) {
        char *const name = malloc(room);
        if (!name)
            return file_fail(error, "out of memory for a name");
        snprintf(name, room, "%.*s-%05zu-of-%05zu.gguf", (int)prefix, path, i + 1, parts->count);
        parts->paths[i] = name;
    }
    return 0;
}

/* ---- parts ---- */

static int open_part(gguf_parts *parts, size_t part, file_error *error) {
    const char *const path = parts->paths[part];
    file_error inner;
    uint64_t number;
    uint64_t count;
    if (gguf_open(path, &parts->files[part], &inner))
        return file_fail(error, "part %zu of %zu cannot be read: %s", part + 1, parts->count,
                         inner.text);
    if (read_split(parts->files[part], &number, &count, &inner))
        return file_fail(error, "%s: %s", path, inner.text);
    if (number != part || count != parts->count)
        return file_fail(error, "%s: the file is part %llu of %llu by its values, not %zu of %zu",
                         path, (unsigned long long)number + 1, (unsigned long long)count, part + 1,
                         parts->count);
    return 0;
}

static int open_others(const char *path, gguf_file *file, size_t number, gguf_parts *parts,
                       file_error *error) {
    parts->files[number] = file;
    if (parts->count == 1) {
        parts->paths[0] = strdup(path);
        return parts->paths[0] ? 0 : file_fail(error, "out of memory for a name");
    }
    if (name_parts(path, number, parts, error))
        return -1;
    free(parts->paths[number]);
    parts->paths[number] = strdup(path);
    if (!parts->paths[number])
        return file_fail(error, "out of memory for a name");
    for (size_t i = 0; i < parts->count; i++)
        if (i != number && open_part(parts, i, error))
            return -1;
    return 0;
}

static int compare_texts(const void *left, const void *right) {
    const char *const *a = left;
    const char *const *b = right;
    return strcmp(*a, *b);
}

/* Every part says how many tensors all of them have together, and no two have the same one. */
static int check_tensors(const gguf_parts *parts, file_error *error) {
    size_t total = 0;
    size_t next = 0;
    for (size_t i = 0; i < parts->count; i++)
        total += gguf_count(parts->files[i]);
    for (size_t i = 0; i < parts->count; i++) {
        file_error inner;
        uint64_t claimed;
        if (read_number(parts->files[i], tensors_key, total, &claimed, &inner))
            return file_fail(error, "%s: %s", parts->paths[i], inner.text);
        if (claimed != total)
            return file_fail(error, "%s: %s is %llu, but the %zu parts have %zu tensors",
                             parts->paths[i], tensors_key, (unsigned long long)claimed,
                             parts->count, total);
    }
    const char **const names = malloc((total + 1) * sizeof *names);
    if (!names)
        return file_fail(error, "out of memory for the names of %zu tensors", total);
    for (size_t i = 0; i < parts->count; i++)
        for (size_t j = 0; j < gguf_count(parts->files[i]); j++)
            names[next++] = gguf_at(parts->files[i], j)->name;
    qsort(names, total, sizeof *names, compare_texts);
    int result = 0;
    for (size_t i = 1; i < total && result == 0; i++)
        if (!strcmp(names[i - 1], names[i]))
            result = file_fail(error, "%s: tensor \"%s\" is in two parts of the model",
                               parts->paths[0], file_printable(names[i]).text);
    free(names);
    return result;
}

int gguf_parts_open(const char *path, gguf_parts *parts, file_error *error) {
    gguf_file *file;
    file_error inner;
    uint64_t number;
    uint64_t count;
    *parts = (gguf_parts){NULL, NULL, 0};
    if (gguf_open(path, &file, error))
        return -1;
    if (read_split(file, &number, &count, &inner)) {
        gguf_close(file);
        return file_fail(error, "%s: %s", path, inner.text);
    }
    gguf_parts made = {calloc(count, sizeof *made.files), calloc(count, sizeof *made.paths),
                       (size_t)count};
    if (!made.files || !made.paths) {
        gguf_close(file);
        free(made.files);
        free(made.paths);
        return file_fail(error, "out of memory for %zu parts", made.count);
    }
    if (open_others(path, file, (size_t)number, &made, error) ||
        (made.count > 1 && check_tensors(&made, error))) {
        gguf_parts_close(&made);
        return -1;
    }
    *parts = made;
    return 0;
}

void gguf_parts_close(gguf_parts *parts) {
    for (size_t i = 0; i < parts->count; i++) {
        gguf_close(parts->files[i]);
        free(parts->paths[i]);
    }
    free(parts->files);
    free(parts->paths);
    *parts = (gguf_parts){NULL, NULL, 0};
}
