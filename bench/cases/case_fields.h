/*
 * Writes a case to a request line, and reads it back. A table has one row for each number of the
 * case's struct: its key, its offset and its range.
 */
#ifndef TANDEM_BENCH_CASES_CASE_FIELDS_H
#define TANDEM_BENCH_CASES_CASE_FIELDS_H

#include <stddef.h>
#include <stdint.h>

#include "bench/protocol/worker_protocol.h"

typedef struct case_field {
    const char *key;
    size_t offset, size; /* the member: an integer of 4 or 8 bytes, or an enum */
    int64_t least, most;
} case_field;

#define CASE_FIELD(type, member, least, most)                                                      \
    { #member, offsetof(type, member), sizeof(((type *)NULL)->member), least, most }

/*
 * Writes a case's fields to a request line, or reads them. Reading returns -1 if a field is missing
 * or out of range.
 */
void case_fields_write(const case_field *fields, size_t count, const void *item, worker_text *line);
int case_fields_read(const case_field *fields, size_t count, const char *line, void *item);

/*
 * Returns a name's index among `count` names, e.g. those of an enum in its order, or -1 if it is
 * not among them.
 */
int case_name_find(const char *const *names, int count, const char *name);

/* Used by verifiers that fail: sets the reason and evaluates to -1. */
#define CASE_WRONG(reason, ...) (worker_text_set(reason, __VA_ARGS__), -1)

#endif
