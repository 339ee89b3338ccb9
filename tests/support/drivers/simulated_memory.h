/*
 * This is device memory for a pool without a device. Native allocations are host memory. Streams
 * complete commands when a test says so, or when a wait needs it.
 */
#ifndef TANDEM_TESTS_SUPPORT_DRIVERS_SIMULATED_MEMORY_H
#define TANDEM_TESTS_SUPPORT_DRIVERS_SIMULATED_MEMORY_H

#include "api/pool/pool.h"

#define SIMULATED_STREAMS 4

/* This is one native allocation. The pool's handle is its address. */
typedef struct simulated_native {
    struct simulated_native *next;
    uint64_t bytes;
    uint64_t live; /* for the test's model */
    unsigned char *data;
} simulated_native;

typedef struct simulated_memory {
    tdm_pool *pool;
    simulated_native *natives;
    uint64_t passed[SIMULATED_STREAMS + 1];
    bool unfinished; /* streams complete no command by themselves */
    long waits;
    tdm_memory_counter bytes, count; /* of native allocations */
} simulated_memory;

/*
 * Fills everything but budget and debug: 256 MiB allocations, 128-byte alignment, a budget of
 * 1 GiB.
 */
tdm_pool_upstream simulated_upstream(simulated_memory *memory);

/* These open a pool on the plain upstream, and close it and check that nothing is left. */
void simulated_open(simulated_memory *memory);
void simulated_close(simulated_memory *memory);

simulated_native *simulated_native_of(const tdm_block *block);

/* Records that a command of the stream uses the block. */
void simulated_use(tdm_block *block, uint32_t stream, uint64_t sequence);

#endif
