/* One case of the memory suite, as parent and workers see it. */
#ifndef TANDEM_BENCH_CASES_MEMORY_CASE_H
#define TANDEM_BENCH_CASES_MEMORY_CASE_H

#include <stddef.h>
#include <stdint.h>

#include "bench/protocol/worker_protocol.h"

/*
 * copy: c = a; scale: c = s·a; add: c = a + b; triad: c = a + s·b; read: the sum of a's words; write: c = s; strided: the sum of
 * every so many of a's words; gather: of those at random places; chase: loads that wait for the load before; sweep: read, often,
 * from a cache where the array fits into one: kernels of the device on arrays of f32. buffer: a copy within the device by its
 * driver; upload: from host to device; download: from device to host; both: those two at a time.
 */
#define MEMORY_OPERATION_LIST(X)                                                                   \
    X(COPY, "copy")                                                                                \
    X(SCALE, "scale")                                                                              \
    X(ADD, "add")                                                                                  \
    X(TRIAD, "triad")                                                                              \
    X(READ, "read")                                                                                \
    X(WRITE, "write")                                                                              \
    X(STRIDED, "strided")                                                                          \
    X(GATHER, "gather")                                                                            \
    X(CHASE, "chase")                                                                              \
    X(SWEEP, "sweep")                                                                              \
    X(BUFFER, "buffer")                                                                            \
    X(UPLOAD, "upload")                                                                            \
    X(DOWNLOAD, "download")                                                                        \
    X(BOTH, "both")

typedef enum memory_operation {
#define MEMORY_OPERATION_ENUM(name, text) MEMORY_##name,
    MEMORY_OPERATION_LIST(MEMORY_OPERATION_ENUM)
#undef MEMORY_OPERATION_ENUM
} memory_operation;

/* "copy|scale|…", for option tables. */
#define MEMORY_OPERATION_CHOICE(name, text) "|" text
#define MEMORY_OPERATION_CHOICES (&("" MEMORY_OPERATION_LIST(MEMORY_OPERATION_CHOICE))[1])

/* How a kernel goes about it. All zero: as one would write it without further thought. */
typedef struct memory_setting {
    char row
        [64]; /* of kernels/variants.def; "": the first that the device can run; "best": the worker tries what there is */
    int unroll;    /* vectors of an item at a time: 0 as 1, 1, 4 or 8 */
    int occupancy; /* 0 as 2, 1 few items at a time, 2, 3 many */
    int ahead;     /* bytes by which prefetches are ahead, of gather in its places; 0: none */
} memory_setting;

typedef struct memory_case {
    memory_operation operation;
    size_t bytes; /* of each array, of a copy */
    uint64_t seed;
    int threads; /* of the memcpy peer */
    int stride;  /* strided: words from one to the next */
    int pinned;  /* upload, download, both: the host's memory */
    int64_t
        amount; /* sweep: bytes that a call reads at least; chase: its steps, a multiple of 16; 0: by the bytes */
    memory_setting setting;
} memory_case;

/* "copy", …; and -1 when the name is none. */
const char *memory_operation_name(memory_operation operation);
int memory_operation_parse(const char *name, memory_operation *operation);

/* Whether it is a kernel on arrays of f32; one that has settings, and is a loop of the peer. */
int memory_operation_is_kernel(memory_operation operation);
int memory_operation_is_stream(memory_operation operation);

/*
 * The setting that a list like "read=probe_read_f32_x16:4:3:8192,triad=…" (row, unroll, occupancy, ahead) has for case `number` of an
 * operation, from 0 on: strided has several, and a word for each. 0, or -1 where it has none; NULL is an empty list.
 */
int memory_setting_given(const char *forms, memory_operation operation, int number,
                         memory_setting *setting);

/* What cannot be read in such a list, or NULL. */
const char *memory_forms_wrong(const char *forms);

enum {
    MEMORY_MAX_NAME = 96
};

/* "triad 134217728", "strided 134217728, stride 8", "sweep read 65536", "upload 67108864, pinned". */
void memory_case_name(const memory_case *item, char name[MEMORY_MAX_NAME]);

void memory_case_write(const memory_case *item, worker_text *line);
int memory_case_read(const char *line, memory_case *item);

/*
 * Bytes that a call moves, each array counted once for being read or written (copy: twice `bytes`; triad: three times). 0 where
 * the worker tells in its field "work": gather counts index and word, sweep all rounds.
 */
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

/*
 * chase: steps of a call, which goes on where the last one ended; the lines of 64 bytes; and the words that lead in one circle through
 * all of them. 0, or -1 when memory is short.
 */
int memory_chase_steps(const memory_case *item);
size_t memory_chase_lines(const memory_case *item);
int memory_chase_fill(const memory_case *item, int32_t *words);

/* ---- data of copies ---- */

/* The source's bytes; NULL when memory is short; release with free. */
void *memory_case_source(const memory_case *item);

/* A block of the case's size whose every page has been written. */
void *memory_case_target(const memory_case *item);

enum {
    MEMORY_HEAD_WORDS =
        4 /* of an output of sums, before them: words read, low and high half, rounds, 0 */
};

/*
 * For bench_runner.h. copy, scale, add, triad and write: every element of c; a triad may round once or twice. Sums: the head,
 * then words whose sum modulo 2^32 must be that of what was to be read. chase: the last place, and how many calls led there. Copies: every byte, of both
 * twice.
 */
int memory_case_check(const void *user, const void *output, size_t bytes, double *max_error,
                      worker_text *reason);

#endif
