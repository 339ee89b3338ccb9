/*
 * Reads JSON from untrusted files: makes the checks that the parser does not, and gives an error
 * message for each. Every message begins with the file's name.
 */
#ifndef TANDEM_FORMATS_JSON_FILE_H
#define TANDEM_FORMATS_JSON_FILE_H

#include <stddef.h>

#include "formats/file_error.h"

struct cJSON;

enum {
    JSON_MAX_BYTES = 64 << 20, /* a parsed file takes up to some 30 times its size */
    JSON_MAX_DEPTH = 16,
    JSON_MAX_MEMBERS = 256 /* per object */
};

/*
 * Parse a file, or a text whose `name` is used in messages. The text must be UTF-8 without NUL (nor
 * \u0000) and consist of one object. Objects must not be nested deeper than JSON_MAX_DEPTH or have
 * duplicate members, and numbers must be finite. Both return NULL and the reason on failure.
 * Release the result with cJSON_Delete.
 */
struct cJSON *json_file_read(const char *path, file_error *error);
struct cJSON *json_text_read(const char *name, const char *text, size_t length, file_error *error);

/* Parses an object whose `name` is used in messages. Only the bytes and the depth are checked. */
struct cJSON *json_object_parse(const char *name, const char *text, size_t length, int most_depth,
                                file_error *error);

/* The location of a member: the file, and a part such as "row 3 (copy 1024)", or NULL. */
typedef struct json_place {
    const char *file;
    const char *part;
} json_place;

/* Writes "file: part: message" and returns -1. */
int json_fail(const json_place *place, file_error *error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Reads a text member of an object. It must have at least one byte and no control characters, and
 * belongs to the JSON. Returns 0, or -1 and the reason.
 */
int json_get_text(const struct cJSON *object, const char *key, const json_place *place,
                  const char **text, file_error *error);

#endif
