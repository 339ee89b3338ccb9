/* A case in a request line: one row of a table for each number of its struct, by which it is written, read and kept in range. */
#ifndef TANDEM_BENCH_CASES_CASE_FIELDS_H
#define TANDEM_BENCH_CASES_CASE_FIELDS_H

#include <stddef.h>
#include <stdint.h>

#include "bench/protocol/worker_protocol.h"

typedef struct case_field {
    const char *key;
    size_t offset, size; /* of a whole number of four or eight bytes, such as an enum */
    int64_t least, most;
} case_field;

#define CASE_FIELD(type, member, least, most)                                                      \
    { #member, offsetof(type, member), sizeof(((type *)NULL)->member), least, most }

/* Add a case to a request line; read one: -1 where a field is missing or out of range. */
void case_fields_write(const case_field *fields, size_t count, const void *item, worker_text *line);
int case_fields_read(const case_field *fields, size_t count, const char *line, void *item);

/* A name's place among `count` of them, -1 when it is none: names of an enum in its order. */
int case_name_find(const char *const *names, int count, const char *name);

/* A verifier's failure: sets the reason and is -1. */
#define CASE_WRONG(reason, ...) (worker_text_set(reason, __VA_ARGS__), -1)

#endif
