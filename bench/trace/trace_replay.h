/*
 * Replay of a trace on a pool of the library, over memory and streams that are only counted: the same trace and settings give the same
 * decisions, on every machine. A virtual clock follows the trace's. A use is a command; it starts when the one before it on its stream
 * is done and those that the pool makes it wait for, and takes command_ns. A block's last use on a stream is taken to be the stream's
 * last command before the block was freed. Where the pool waits for a command, the clock, and with it the rest of the trace, goes on to
 * the command's end.
 */
#ifndef TANDEM_BENCH_TRACE_TRACE_REPLAY_H
#define TANDEM_BENCH_TRACE_TRACE_REPLAY_H

#include <stdatomic.h>

#include "api/pool/pool.h"
#include "bench/trace/trace_data.h"

/* A device for a pool without a device: native allocations are numbers, and every command has passed. */
typedef struct counted_memory {
    atomic_ullong allocations; /* so far */
} counted_memory;

/* Without any bound; alignment 128. */
tdm_pool_upstream counted_upstream(counted_memory *memory);

/* Which allocation it was, from 1. */
unsigned long long counted_number(const tdm_bk_memory *memory);

typedef struct replay_settings {
    uint64_t budget; /* 0: none */
    uint64_t command_ns;
    uint32_t throttle; /* tdm_pool_set_throttle; 0: none */
} replay_settings;

#define REPLAY_SETTINGS_INIT                                                                       \
    { .command_ns = 3000 }

/* Where an allocation of the trace went. */
typedef struct replay_decision {
    uint64_t native; /* number of the native allocation, from 1; 0: refused */
    uint64_t offset;
    uint64_t size;
} replay_decision;

typedef struct replay_result {
    uint64_t lower_bound;
    uint64_t peak_reserved;
    uint64_t native_allocations;
    uint64_t failures;
    uint64_t waits;             /* of the host for a command */
    uint64_t orders;            /* commands that had to wait for another stream's */
    uint64_t first_failure;     /* event that was refused first, from 1; 0: none */
    uint64_t operations;        /* events that were replayed */
    double idle_seconds;        /* virtual time for which the host waited */
    replay_decision *decisions; /* of the trace's blocks, in order */
    size_t decision_count;
} replay_result;

/* 0, or -1 with the reason. The result is released in either case. */
int replay_run(const trace_data *trace, const replay_settings *settings, replay_result *result,
               file_error *error);

void replay_release(replay_result *result);

/* One number for all decisions: two replays that decided alike have the same. */
uint64_t replay_hash(const replay_result *result);

/* Peak reserved over the lower bound; NaN where nothing was allocated. */
double replay_ratio(const replay_result *result);

#endif
