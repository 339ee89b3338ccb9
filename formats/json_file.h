/*
 * Reads JSON from untrusted files. It makes the checks that the parser (cJSON) does not make, and
 * each failed check has a message. Every message begins with the file's name.
 */
#ifndef TANDEM_FORMATS_JSON_FILE_H
#define TANDEM_FORMATS_JSON_FILE_H

#include <stddef.h>

#include "formats/file_error.h"

struct cJSON;

enum {
    JSON_MAX_BYTES = 64 << 20, /* the parsed form takes up to some 30 times as much memory */
    JSON_MAX_DEPTH = 16,
    JSON_MAX_MEMBERS = 256 /* per object */
};

/*
 * Both functions parse one JSON object, from a file or from a text. Messages call the text `name`.
 * The text must be UTF-8 and have no NUL, not even as \u0000. Objects must not be nested deeper
 * than JSON_MAX_DEPTH or have duplicate members. Numbers must be finite. On failure the functions
 * return NULL and set the reason. Release the result with cJSON_Delete.
 */
struct cJSON *json_file_read(const char *path, file_error *error);
struct cJSON *json_text_read(const char *name, const char *text, size_t length, file_error *error);

/*
 * Parses one JSON object, which messages call `name`. Checks the bytes and the depth of the
 * nesting, but neither members nor numbers.
 */
struct cJSON *json_object_parse(const char *name, const char *text, size_t length, int most_depth,
                                file_error *error);

/*
 * The location that a message names. `part` is a part of the file, such as "row 3 (copy 1024)", or
 * NULL for the whole file.
 */
typedef struct json_place {
    const char *file;
    const char *part;
} json_place;

/* Writes "file: part: message" and returns -1. */
int json_fail(const json_place *place, file_error *error, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Reads a text member of an object. The text must have at least one byte and no control characters.
 * The object owns it. Returns 0, or -1 and the reason.
 */
int json_get_text(const struct cJSON *object, const char *key, const json_place *place,
                  const char **text, file_error *error);

#endif
