#include "formats/gguf_cursor.h"

#include <stdlib.h>
#include <string.h>

static const size_t value_bytes[GGUF_VALUE_TYPES] = {
#define GGUF_VALUE_ROW(name, number, bytes) [name] = bytes,
    GGUF_VALUE_LIST(GGUF_VALUE_ROW)
#undef GGUF_VALUE_ROW
};

int gguf_take(gguf_cursor *cursor, void *target, size_t size) {
    const void *const bytes = gguf_skip(cursor, size);
    if (!bytes)
        return -1;
    memcpy(target, bytes, size);
    return 0;
}

const void *gguf_skip(gguf_cursor *cursor, uint64_t size) {
    if (size > (uint64_t)(cursor->end - cursor->next))
        return NULL;
    const void *const bytes = cursor->next;
    cursor->next += size;
    return bytes;
}

char *gguf_copy_text(const void *bytes, size_t length) {
    char *const text = malloc(length + 1);
    if (text) {
        memcpy(text, bytes, length);
        text[length] = '\0';
    }
    return text;
}

static int skip_array(gguf_cursor *cursor, int depth, const char *key, file_error *error) {
    uint32_t type;
    uint64_t count;
    if (depth == 0)
        return file_fail(error, "value \"%s\" has arrays in arrays beyond depth %d", key,
                         GGUF_MAX_ARRAY_DEPTH);
    if (gguf_take(cursor, &type, sizeof type) || gguf_take(cursor, &count, sizeof count))
        return file_fail(error, "the file is truncated in value \"%s\"", key);
    if (type >= GGUF_VALUE_TYPES)
        return file_fail(error, "the elements of value \"%s\" are of the unknown type %u", key,
                         type);
    /* Every element takes a byte or more, so the file bounds the steps. */
    if (count > (uint64_t)(cursor->end - cursor->next))
        return file_fail(error, "value \"%s\" claims %llu elements, more than the file has bytes",
                         key, (unsigned long long)count);
    for (uint64_t i = 0; i < count; i++)
        if (gguf_skip_value(cursor, type, depth - 1, key, error))
            return -1;
    return 0;
}

static int skip_bool(gguf_cursor *cursor, const char *key, file_error *error) {
    unsigned char value;
    if (gguf_take(cursor, &value, sizeof value))
        return file_fail(error, "the file is truncated in value \"%s\"", key);
    return value <= 1 ? 0 : file_fail(error, "value \"%s\" is a bool of %u", key, value);
}

int gguf_skip_value(gguf_cursor *cursor, uint32_t type, int depth, const char *key,
                    file_error *error) {
    if (type >= GGUF_VALUE_TYPES)
        return file_fail(error, "value \"%s\" is of the unknown type %u", key, type);
    if (type == GGUF_VALUE_ARRAY)
        return skip_array(cursor, depth, key, error);
    if (type == GGUF_VALUE_BOOL)
        return skip_bool(cursor, key, error);
    uint64_t bytes = value_bytes[type];
    if ((type == GGUF_VALUE_STRING && gguf_take(cursor, &bytes, sizeof bytes)) ||
        !gguf_skip(cursor, bytes))
        return file_fail(error, "the file is truncated in value \"%s\"", key);
    return 0;
}

uint64_t gguf_align(uint64_t place, uint64_t alignment) {
    return (place + alignment - 1) / alignment * alignment;
}
