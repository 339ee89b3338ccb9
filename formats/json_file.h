/*
 * JSON from files that somebody else wrote: the checks that the parser leaves out, and members with sentences for what is wrong
 * with them. Every sentence begins with the file's name.
 */
#ifndef TANDEM_FORMATS_JSON_FILE_H
#define TANDEM_FORMATS_JSON_FILE_H

#include <stddef.h>

#include "formats/file_error.h"

struct cJSON;

enum {
    JSON_MAX_BYTES = 64 << 20, /* parsed, a file takes up to some 30 times its size */
    JSON_MAX_DEPTH = 16,
    JSON_MAX_MEMBERS = 256 /* of one object */
};

/*
 * Parse a file, or a text whose `name` stands in the sentences. UTF-8 without NUL (also not as \u0000), nothing behind the value,
 * an object, no deeper than JSON_MAX_DEPTH, no member twice, numbers finite. NULL with the reason; release with cJSON_Delete.
 */
struct cJSON *json_file_read(const char *path, file_error *error);
struct cJSON *json_text_read(const char *name, const char *text, size_t length, file_error *error);

/* Parse an object whose `name` stands in the sentences, with the checks of bytes and depth alone. */
struct cJSON *json_object_parse(const char *name, const char *text, size_t length, int most_depth,
                                file_error *error);

/* Where a member stands: the file, and what of it, e.g. "row 3 (copy 1024)"; NULL for the whole. */
typedef struct json_place {
    const char *file;
    const char *part;
} json_place;

/* Write "file: part: sentence" and return -1. */
int json_fail(const json_place *place, file_error *error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * A member of an object: a text of at least one byte without control characters, which belongs to the JSON. 0, or -1 with the reason.
 */
int json_get_text(const struct cJSON *object, const char *key, const json_place *place,
                  const char **text, file_error *error);

#endif
