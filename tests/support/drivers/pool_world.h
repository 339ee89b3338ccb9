/*
 * This header provides a pool over a simulated upstream allocator. Native allocations have sizes
 * but no memory behind them. Streams complete commands when a test says so, or when the pool waits.
 * An optional model of the native memory records the live block of every unit and its last uses.
 */
#ifndef TANDEM_TESTS_SUPPORT_DRIVERS_POOL_WORLD_H
#define TANDEM_TESTS_SUPPORT_DRIVERS_POOL_WORLD_H

#include "api/pool/pool_internal.h"
#include "tests/support/test_case.h"

/* The first and the last stream share one lane of the index. */
#define WORLD_STREAMS (TDM_LANE_STREAMS + 1)
#define WORLD_UNIT 256
#define MIB (UINT64_C(1) << 20)

/* This is the state of one unit of memory in the model. */
typedef struct world_unit {
    uint64_t generation;              /* allocation generation of the block there, 0: free */
    uint64_t used[WORLD_STREAMS + 1]; /* last command of each stream that touched it */
} world_unit;

/* A native allocation; the pool's handle is its address. */
typedef struct world_native {
    struct world_native *next;
    uint64_t bytes;
    world_unit *units; /* NULL without a model */
} world_native;

typedef struct pool_world {
    tdm_pool *pool;
    world_native *natives;
    uint64_t passed[WORLD_STREAMS + 1];
    uint64_t polled[WORLD_STREAMS + 1]; /* last completed command by the next poll */
    uint32_t oldest;                    /* streams with smaller numbers are destroyed */
    bool modelled;
    pthread_mutex_t lock; /* protects all members above and below */
    bool stuck;           /* bounded waits for commands time out */
    long waits, vain_waits, live_native;
    uint64_t native_bytes;
    long fail_from; /* native allocations fail from this one on; 0: never */
    long asked;
    bool (*relieve)(struct pool_world *world, uint64_t bytes, int attempt); /* may be NULL */
    void *relief;                                                           /* owned by the test */
    atomic_long reliefs;
} pool_world;

/* Fills everything but `pool`: 1 GiB of budget, allocations of at most 256 MiB, alignment 128. */
tdm_pool_upstream world_upstream(pool_world *world);
void world_open_on(pool_world *world, const tdm_pool_upstream *upstream);
void world_open_with(pool_world *world, uint64_t budget, uint64_t max_allocation, bool direct);
void world_open(pool_world *world);
/* Checks that no block is live and that no native allocation is left. */
void world_close(pool_world *world);

/*
 * WORLD_TEST(name, budget) { ... } defines a cmocka test on a world `w` of that budget and closes
 * it at the end.
 */
#define WORLD_TEST(name, budget)                                                                   \
    static void name##_in(pool_world *w);                                                          \
    TEST(name) {                                                                                   \
        pool_world world;                                                                          \
        world_open_with(&world, budget, 256 * MIB, false);                                         \
        name##_in(&world);                                                                         \
        world_close(&world);                                                                       \
    }                                                                                              \
    static void name##_in(pool_world *w)

tdm_block *world_alloc(pool_world *world, size_t bytes, uint32_t stream);
/*
 * Records that a command of `stream` uses the block. Returns the number of its pending
 * dependencies. `dependencies` has room for 8, or is NULL.
 */
int world_use(tdm_block *block, uint32_t stream, uint64_t sequence, tdm_use *dependencies);
tdm_memory_stats world_stats(pool_world *world);

/*
 * Checks the pool's consistency. Ranges must cover their slabs without gaps, with valid sizes and
 * alignment. Adjacent free ranges that can be merged must be merged. Counters and free lists must
 * agree with the ranges. Returns NULL, or a description of the error.
 */
const char *world_check(pool_world *world);

#endif
