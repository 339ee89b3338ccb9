/* One case of the memory suite, as parent and workers see it. */
#ifndef TANDEM_BENCH_CASES_MEMORY_CASE_H
#define TANDEM_BENCH_CASES_MEMORY_CASE_H

#include <stddef.h>
#include <stdint.h>

#include "bench/protocol/worker_protocol.h"

/*
 * Kernels of the device on arrays of f32. copy: c = a; scale: c = s·a; add: c = a + b; triad: c = a + s·b; read: the sum of a's words;
 * write: c = s; gather: the sum of words at random places; chase: loads that wait for the load
 * before; sweep: read, often, from a cache where the array fits into one. Copies: buffer, within the device by its driver; upload;
 * download.
 */
#define MEMORY_OPERATION_LIST(X)                                                                   \
    X(COPY, "copy")                                                                                \
    X(SCALE, "scale")                                                                              \
    X(ADD, "add")                                                                                  \
    X(TRIAD, "triad")                                                                              \
    X(READ, "read")                                                                                \
    X(WRITE, "write")                                                                              \
    X(GATHER, "gather")                                                                            \
    X(CHASE, "chase")                                                                              \
    X(SWEEP, "sweep")                                                                              \
    X(BUFFER, "buffer")                                                                            \
    X(UPLOAD, "upload")                                                                            \
    X(DOWNLOAD, "download")

typedef enum memory_operation {
#define MEMORY_OPERATION_ENUM(name, text) MEMORY_##name,
    MEMORY_OPERATION_LIST(MEMORY_OPERATION_ENUM)
#undef MEMORY_OPERATION_ENUM
} memory_operation;

/* "copy|scale|…", for option tables. */
#define MEMORY_OPERATION_CHOICE(name, text) "|" text
#define MEMORY_OPERATION_CHOICES (&("" MEMORY_OPERATION_LIST(MEMORY_OPERATION_CHOICE))[1])

typedef struct memory_case {
    memory_operation operation;
    size_t bytes; /* of each array, of a copy */
    uint64_t seed;
    int threads;    /* of the peers */
    int pinned;     /* upload, download: the host's memory */
    int64_t amount; /* sweep: least bytes that a call reads; chase: its steps; 0: by the bytes */
} memory_case;

const char *memory_operation_name(memory_operation operation);
/* -1 when the name is none. */
int memory_operation_parse(const char *name, memory_operation *operation);

/* Whether it is a kernel on arrays of f32; one that is a loop of the peer. */
int memory_operation_is_kernel(memory_operation operation);
int memory_operation_is_stream(memory_operation operation);
/* Whether its output is sums of what it read. */
int memory_operation_sums(memory_operation operation);

enum {
    MEMORY_MAX_NAME = 96
};

/* "triad 134217728", "sweep read 65536", "upload 67108864, pinned". */
void memory_case_name(const memory_case *item, char name[MEMORY_MAX_NAME]);

void memory_case_write(const memory_case *item, worker_text *line);
int memory_case_read(const char *line, memory_case *item);

/* Bytes that a call moves, each array counted once for being read or written; 0 where the worker's field "work" tells. */
double memory_case_traffic(const memory_case *item);

/* ---- data of the kernels ---- */

extern const float memory_scale; /* of scale, triad and write */

/* Elements of a and b. */
float memory_a(const memory_case *item, size_t i);
float memory_b(const memory_case *item, size_t i);

enum {
    MEMORY_GATHER_SHARE = 8 /* gather: one place for so many words */
};

/* gather: place `i` that is read, and how many are. */
uint32_t memory_index(const memory_case *item, size_t i);
size_t memory_index_count(const memory_case *item);

/* chase: steps of a call, which goes on where the last one ended; and words that lead in one circle through all lines of 64 bytes. */
int memory_chase_steps(const memory_case *item);
/* -1 when memory is short. */
int memory_chase_fill(const memory_case *item, int32_t *words);

/* ---- data of copies ---- */

/* The source's bytes, and a block of that size whose every page was written; NULL when memory is short; release with free. */
void *memory_case_source(const memory_case *item);
void *memory_case_target(const memory_case *item);

enum {
    MEMORY_HEAD_WORDS = 4 /* before an output of sums: words read, low and high half, rounds, 0 */
};

/*
 * For bench_runner.h. Elements of c, of which a triad may round once or twice; the head, then words whose sum modulo 2^32 is that of
 * what was to be read; of a chase the last place and how many calls led there; every byte of copies.
 */
int memory_case_check(const void *user, const void *output, size_t bytes, double *max_error,
                      worker_text *reason);

#endif
