/*
 * Replays a trace on a pool of the library, with simulated memory and streams. The same trace and
 * settings give the same decisions on every machine.
 *
 * A virtual clock follows the trace's clock. A use is a command that takes command_ns. It starts
 * when the previous command of its stream and its pending dependencies are done. A block's last use
 * on a stream is assumed to be the stream's last command before the block was freed. If the pool
 * waits for a command, the clock advances to the end of that command. The rest of the trace is
 * delayed by as much.
 */
#ifndef TANDEM_BENCH_TRACE_TRACE_REPLAY_H
#define TANDEM_BENCH_TRACE_TRACE_REPLAY_H

#include <stdatomic.h>

#include "api/pool/pool.h"
#include "bench/trace/trace_data.h"

/*
 * An upstream for a pool without a device. Each native allocation is only a number, and every
 * command counts as completed.
 */
typedef struct counted_memory {
    atomic_ullong allocations; /* so far */
} counted_memory;

/* Returns an upstream without any limit, with alignment 128. */
tdm_pool_upstream counted_upstream(counted_memory *memory);

/* Returns the number of the allocation, from 1. */
unsigned long long counted_number(const tdm_bk_memory *memory);

typedef struct replay_settings {
    uint64_t budget; /* 0: none */
    uint64_t command_ns;
    uint32_t throttle; /* see tdm_pool_set_throttle; 0: none */
} replay_settings;

#define REPLAY_SETTINGS_INIT                                                                       \
    { .command_ns = 3000 }

/* The placement of one allocation of the trace. */
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
    uint64_t orders;            /* commands that had to wait for another stream's command */
    uint64_t first_failure;     /* first event that was refused, from 1; 0: none */
    uint64_t operations;        /* events that were replayed */
    double idle_seconds;        /* virtual time for which the host waited */
    replay_decision *decisions; /* of the trace's blocks, in order */
    size_t decision_count;
} replay_result;

/* Returns 0, or -1 and the reason. The caller releases the result in either case. */
int replay_run(const trace_data *trace, const replay_settings *settings, replay_result *result,
               file_error *error);

void replay_release(replay_result *result);

/* Returns a hash of all decisions. Two replays with the same decisions have the same hash. */
uint64_t replay_hash(const replay_result *result);

/* Returns the peak of reserved bytes over the lower bound, or NaN if nothing was allocated. */
double replay_ratio(const replay_result *result);

#endif
