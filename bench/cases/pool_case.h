/* One case of the pool suite, as parent and workers see it. */
#ifndef TANDEM_BENCH_CASES_POOL_CASE_H
#define TANDEM_BENCH_CASES_POOL_CASE_H

#include <stddef.h>
#include <stdint.h>

#include "bench/protocol/worker_protocol.h"
#include "bench/trace/trace_data.h"

/* What is asked for memory. */
typedef enum pool_way {
    POOL_TANDEM, /* the library's pool over counted memory */
    POOL_MALLOC,
    POOL_NATIVE, /* the driver, as in direct mode: a native allocation for each block */
    POOL_REPLAY  /* the library's pool, replaying a generated trace */
} pool_way;

typedef enum pool_order {
    POOL_LIFO,
    POOL_RANDOM,
    POOL_HANDOVER /* all threads go round the same blocks, apart: each frees what another took */
} pool_order;

extern const char pool_order_names[]; /* "lifo|random|handover" */

/* The transformer traces of the suite also come without weights, where what comes and goes is all there is. */
extern const char pool_trace_names[];

typedef struct pool_case {
    pool_way way;
    pool_order order;
    int64_t live;    /* blocks, of all threads together */
    int64_t threads; /* that share the pool, each with its part of the blocks */
    int64_t pairs;   /* at least so many allocations and frees in a call */
    uint64_t seed;
    char trace[24]; /* POOL_REPLAY: a name of pool_trace_names */
    int small;      /* POOL_REPLAY: a small instance */
} pool_case;

enum {
    POOL_MAX_LIVE = 10000000,
    POOL_MAX_NATIVE = 20000, /* more buffers at a time are not asked of a driver */
    POOL_MAX_THREADS = 64
};

/* What a worker found after a call. */
typedef struct pool_output {
    uint64_t operations; /* of a call */
    uint64_t live;       /* blocks */
    uint64_t visited;    /* ranges that the pool looked at, of `counted` operations */
    uint64_t visited_most, counted;
    uint64_t peak_reserved, lower_bound, failures;
} pool_output;

/* -1 when the name is none. */
int pool_order_parse(const char *name, pool_order *order);

/* "lifo 1000 live, 2 threads", "trace inference" */
void pool_case_name(const pool_case *item, char *name, size_t size);

void pool_case_write(const pool_case *item, worker_text *line);
int pool_case_read(const char *line, pool_case *item);

/* Blocks of a thread, frees and allocations in a row, operations in a call. */
int64_t pool_case_live(const pool_case *item, int64_t thread);
int64_t pool_case_row(const pool_case *item, int64_t live);
uint64_t pool_case_operations(const pool_case *item);

/* Size of the block that a thread asks for with its index-th allocation. */
size_t pool_case_size(const pool_case *item, int64_t thread, uint64_t index);

/* A pool must not reserve more than so much over the least that the trace needs. */
#define POOL_TRACE_BAR 1.15

/* The trace of a name, generated. 0, or -1 for another name or without memory. */
int pool_case_trace(const pool_case *item, trace_data *trace);

#endif
