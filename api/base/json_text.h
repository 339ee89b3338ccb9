/* JSON that grows item by item. */
#ifndef TANDEM_API_BASE_JSON_TEXT_H
#define TANDEM_API_BASE_JSON_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A JSON text that grows; without host memory it stays broken and finish gives NULL. */
typedef struct tdm_json {
    char *text;
    size_t bytes, capacity;
    bool broken, separated; /* separated: no comma is due before the next item */
} tdm_json;

/* `name` NULL: an item of a list, or the whole. */
void tdm_json_open(tdm_json *json, const char *name, char bracket);
void tdm_json_close(tdm_json *json, char bracket);
void tdm_json_number(tdm_json *json, const char *name, uint64_t value);
void tdm_json_fraction(tdm_json *json, const char *name, double value);
/* Bytes that are no UTF-8 become U+FFFD, one by one; NULL becomes null. */
void tdm_json_string(tdm_json *json, const char *name, const char *value);
/* The text, in host memory of the caller's; NULL where it is broken. */
char *tdm_json_finish(tdm_json *json, size_t *bytes);

#endif
