/* A JSON text that is written item by item. */
#ifndef TANDEM_API_BASE_JSON_TEXT_H
#define TANDEM_API_BASE_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A JSON text that grows. If host memory runs out, it becomes broken and tdm_json_finish returns
 * NULL. */
typedef struct tdm_json {
    char *text;
    size_t bytes, capacity;
    bool broken, separated; /* separated: the next item needs no comma before it */
} tdm_json;

/* `name` is NULL for an item of a list and for the outermost value. */
void tdm_json_open(tdm_json *json, const char *name, char bracket);
void tdm_json_close(tdm_json *json, char bracket);
void tdm_json_number(tdm_json *json, const char *name, uint64_t value);
void tdm_json_fraction(tdm_json *json, const char *name, double value);
/* Each byte that is not valid UTF-8 becomes U+FFFD. NULL becomes null. */
void tdm_json_string(tdm_json *json, const char *name, const char *value);
/* Returns the text in host memory, which the caller frees; NULL if it is broken. */
char *tdm_json_finish(tdm_json *json, size_t *bytes);

#endif
