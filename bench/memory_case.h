/* One case of the memory suite, as parent and workers see it. */
#ifndef BENCH_MEMORY_CASE_H
#define BENCH_MEMORY_CASE_H

#include <stddef.h>
#include <stdint.h>

#include "bench/worker_protocol.h"

typedef enum memory_operation {
    MEMORY_COPY,  /* device to device; counts as one read and one write */
    MEMORY_WRITE, /* host to device; counts once */
    MEMORY_READ   /* device to host; counts once */
} memory_operation;

typedef struct memory_case {
    memory_operation operation;
    size_t bytes;
    uint64_t seed;
    int threads; /* of the memcpy peer */
} memory_case;

/* "copy", "write", "read" */
const char *memory_operation_name(memory_operation operation);

/* -1 when the name is none. */
int memory_operation_parse(const char *name, memory_operation *operation);

void memory_case_write(const memory_case *item, worker_text *line);
int memory_case_read(const char *line, memory_case *item);

/* Bytes that a call moves, by the convention above. */
double memory_case_traffic(const memory_case *item);

/* The source's bytes; NULL when memory is short; release with free. */
void *memory_case_source(const memory_case *item);

/* A block of the case's size whose every page has been written. */
void *memory_case_target(const memory_case *item);

/* For bench_runner.h: every byte of the target must be the source's. */
int memory_case_check(const void *user, const void *output, size_t bytes, double *max_error,
                      worker_text *reason);

#endif
