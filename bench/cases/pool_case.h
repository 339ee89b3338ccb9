/* One case of the pool suite, for parent and workers. */
#ifndef TANDEM_BENCH_CASES_POOL_CASE_H
#define TANDEM_BENCH_CASES_POOL_CASE_H

#include <stddef.h>
#include <stdint.h>

#include "bench/protocol/worker_protocol.h"
#include "bench/trace/trace_data.h"

/* The allocator that is measured. */
typedef enum pool_way {
    POOL_TANDEM, /* the library's pool; its native allocations are only counted, not made */
    POOL_MALLOC,
    POOL_NATIVE, /* the driver, as in direct mode: one native allocation per block */
    POOL_REPLAY  /* the library's pool, replaying a generated trace */
} pool_way;

typedef enum pool_order {
    POOL_LIFO,
    POOL_RANDOM,
    POOL_HANDOVER /* threads cycle through the same blocks: each frees what another allocated */
} pool_order;

extern const char pool_order_names[]; /* "lifo|random|handover" */

/*
 * The transformer traces of the suite. "bare" ones have no weights, so that only temporary blocks
 * remain.
 */
extern const char pool_trace_names[];

typedef struct pool_case {
    pool_way way;
    pool_order order;
    int64_t live;    /* live blocks of all threads together */
    int64_t threads; /* threads that share the pool; each owns a part of the blocks */
    int64_t pairs;   /* least number of allocations, each with a free, per thread and call */
    uint64_t seed;
    char trace[24]; /* POOL_REPLAY: a name of pool_trace_names */
    int small;      /* POOL_REPLAY: 1: few layers and steps */
} pool_case;

enum {
    POOL_MAX_LIVE = 10000000,
    POOL_MAX_NATIVE = 20000, /* most live blocks of POOL_NATIVE */
    POOL_MAX_THREADS = 64
};

/* A worker's findings after a call. */
typedef struct pool_output {
    uint64_t operations; /* operations in a call */
    uint64_t live;       /* live blocks */
    uint64_t visited;    /* ranges that the pool examined in `counted` operations */
    uint64_t visited_most, counted;
    uint64_t peak_reserved, lower_bound, failures;
} pool_output;

/* Returns -1 for an unknown name. */
int pool_order_parse(const char *name, pool_order *order);

/* Writes the case's name: "lifo 1000 live, 2 threads", "trace inference". */
void pool_case_name(const pool_case *item, char *name, size_t size);

void pool_case_write(const pool_case *item, worker_text *line);
int pool_case_read(const char *line, pool_case *item);

/*
 * Return the number of a thread's live blocks, and the allocations (each with a free) of one round.
 * pool_case_operations returns the allocations and frees of all threads in a call.
 */
int64_t pool_case_live(const pool_case *item, int64_t thread);
int64_t pool_case_row(const pool_case *item, int64_t live);
uint64_t pool_case_operations(const pool_case *item);

/* Returns the size of a thread's index-th allocation. */
size_t pool_case_size(const pool_case *item, int64_t thread, uint64_t index);

/* The pool must not reserve more than this multiple of a trace's lower bound. */
#define POOL_TRACE_BAR 1.15

/* Generates the trace that the case names. Returns -1 if the name is unknown or memory is short. */
int pool_case_trace(const pool_case *item, trace_data *trace);

#endif
