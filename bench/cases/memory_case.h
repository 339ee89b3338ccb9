/* One case of the memory suite, for parent and workers. */
#ifndef TANDEM_BENCH_CASES_MEMORY_CASE_H
#define TANDEM_BENCH_CASES_MEMORY_CASE_H

#include <stddef.h>
#include <stdint.h>

#include "bench/protocol/worker_protocol.h"

/*
 * The operations up to sweep are kernels on arrays of f32, where s is memory_scale:
 *   copy c = a; scale c = s·a; add c = a + b; triad c = a + s·b; write c = s
 *   read: the sum of a's words; gather: the sum of a's words at random indices
 *   chase: loads, each of which depends on the one before
 *   sweep: repeated reads, from a cache if the array fits into one
 * The others are copies:
 *   buffer: inside the device, by its driver; upload, download: between host and device
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

/* Lists the operations for option tables: "copy|scale|…". */
#define MEMORY_OPERATION_CHOICE(name, text) "|" text
#define MEMORY_OPERATION_CHOICES (&("" MEMORY_OPERATION_LIST(MEMORY_OPERATION_CHOICE))[1])

typedef struct memory_case {
    memory_operation operation;
    size_t bytes; /* size of each array, or of a copy */
    uint64_t seed;
    int threads;    /* the peers' threads */
    int pinned;     /* upload, download: the host memory is pinned */
    int64_t amount; /* sweep: least bytes of a call; chase: steps of a call; 0: default */
} memory_case;

const char *memory_operation_name(memory_operation operation);
/* Returns -1 for an unknown name. */
int memory_operation_parse(const char *name, memory_operation *operation);

/*
 * Return whether the operation is a kernel on arrays of f32, and whether the host peer has a loop
 * for it.
 */
int memory_operation_is_kernel(memory_operation operation);
int memory_operation_is_stream(memory_operation operation);
/* True if the output is sums of the words that were read. */
int memory_operation_sums(memory_operation operation);

enum {
    MEMORY_MAX_NAME = 96
};

/* Writes the case's name: "triad 134217728", "sweep read 65536", "upload 67108864, pinned". */
void memory_case_name(const memory_case *item, char name[MEMORY_MAX_NAME]);

void memory_case_write(const memory_case *item, worker_text *line);
int memory_case_read(const char *line, memory_case *item);

/*
 * Returns the bytes that a call moves. Each array counts once per read or write. Returns 0 if the
 * worker reports the bytes in its field "work".
 */
double memory_case_traffic(const memory_case *item);

/* ---- data of the kernels ---- */

extern const float memory_scale; /* the factor s of scale, triad and write */

/* Return the elements of a and b. */
float memory_a(const memory_case *item, size_t i);
float memory_b(const memory_case *item, size_t i);

enum {
    MEMORY_GATHER_SHARE = 8 /* gather: one index per this many words */
};

/* Return, for gather, the i-th index that is read, and the number of indices. */
uint32_t memory_index(const memory_case *item, size_t i);
size_t memory_index_count(const memory_case *item);

/*
 * memory_chase_steps returns the steps of a call; a call continues where the last one ended.
 * memory_chase_fill makes words that lead in one cycle through all 64-byte lines.
 */
int memory_chase_steps(const memory_case *item);
/* Returns -1 if memory is short. */
int memory_chase_fill(const memory_case *item, int32_t *words);

/* ---- data of copies ---- */

/*
 * Return the source of a copy, and a target of the same size. Every page of the target has been
 * written. Both return NULL if memory is short; release with free.
 */
void *memory_case_source(const memory_case *item);
void *memory_case_target(const memory_case *item);

enum {
    MEMORY_HEAD_WORDS = 4 /* header of sums: words read (low, high half), rounds, 0 */
};

/*
 * Checks an output; it is a bench_verifier (bench_runner.h). The check depends on the operation:
 *   stream kernels: every element of c; a triad may round once or twice
 *   sums: the header, then words whose sum modulo 2^32 must match that of the words read
 *   chase: the last index, and the number of calls that led there
 *   copies: every byte
 */
int memory_case_check(const void *user, const void *output, size_t bytes, double *max_error,
                      worker_text *reason);

#endif
