/*
 * The caching pool over native allocations: backend-neutral, stream-ordered.
 *
 * A block is a piece of a native allocation. Freeing a block never waits: the pool remembers which
 * enqueued work (stream, sequence) last touched it. A block may be handed out again at once; its
 * next user is ordered behind that work by the edges of tdm_pool_prepare, which the enqueue path
 * turns into event waits where the streams differ.
 *
 * First version: size classes (8 per power of two), slabs of equal blocks for classes up to 1 MiB,
 * a native allocation per block above, cached by class. Thread-safe throughout. Lock order: pool,
 * then the leaf lock of the marks; the upstream's functions are called with the pool locked.
 */
#ifndef TANDEM_API_POOL_H
#define TANDEM_API_POOL_H

#include <stdatomic.h>

#include "api/backend.h"
#include "api/pool_events.h"

#include <tandem/memory.h>

/* One use of a block: `sequence` is the number of the stream's command. */
typedef struct tdm_use {
    uint32_t stream;
    uint64_t sequence;
} tdm_use;

/* A block. Readers use memory, offset and size; the rest is the pool's. */
typedef struct tdm_block {
    atomic_int references;
    tdm_bk_memory *memory;
    uint64_t offset; /* bytes into the native allocation */
    uint64_t size;   /* usable bytes (its size class) */
    uint64_t requested;
    uint64_t life;   /* number of this life in the pool, from 1 */
    const char *tag; /* of this life, or NULL */
    tdm_pool *pool;
    struct tdm_slab *slab;
    struct tdm_block *next; /* free list */
    struct tdm_block *previous;
    tdm_use *uses; /* of this life: one entry per stream that used it */
    int use_count, use_capacity;
    tdm_use inline_uses[2];
    tdm_use *edges; /* unfinished uses of its former life */
    int edge_count, edge_capacity;
    bool live;
} tdm_block;

/* Where the pool gets memory from and how it asks about streams. */
typedef struct tdm_pool_upstream {
    void *user;
    tdm_status (*allocate)(void *user, size_t bytes, tdm_bk_memory **memory);
    void (*release)(void *user, tdm_bk_memory *memory);
    /* Has the stream passed that command, as far as is known? A stream that is gone has. Must not
     * block or take a stream's lock. */
    bool (*passed)(void *user, tdm_use use);
    /* Is the stream gone for good? As `passed`, but true for no stream that can still be used. */
    bool (*gone)(void *user, uint32_t stream);
    /* Find out how far the streams are, without blocking. */
    void (*poll)(void *user);
    /* Wait until it has. Failures of the work do not matter here. */
    void (*wait)(void *user, tdm_use use);
    uint64_t max_allocation; /* largest native allocation */
    uint64_t alignment;      /* of a block's offset */
    uint64_t budget;         /* bound of reserved bytes */
    bool direct;             /* one native allocation per block, nothing cached */
} tdm_pool_upstream;

tdm_status tdm_pool_create(const tdm_pool_upstream *upstream, tdm_pool **pool);

/* Every block must have been freed. Waits for what is pending, releases everything. */
void tdm_pool_destroy(tdm_pool *pool);

/*
 * Allocate ≥ max(bytes, 1). `stream` is the stream that will probably use it first (0: unknown): a
 * block whose pending work is on it is preferred. Out of memory or over budget: waits for pending
 * frees, trims, retries, then fails with the numbers; the pool is as before.
 */
tdm_status tdm_pool_alloc(tdm_pool *pool, size_t bytes, uint32_t stream, tdm_block **block);

/* Adopt a native allocation as a block; it is released, not cached, when freed. It counts neither in the statistics nor
 * against the budget. */
tdm_status tdm_pool_adopt(tdm_pool *pool, tdm_bk_memory *memory, size_t bytes, tdm_block **block);

/* One more holder of a live block (a graph keeps the blocks it uses). */
void tdm_block_retain(tdm_block *block);

/* Give a reference back; the last one returns the block to the pool. NULL is accepted. May wait
 * only for blocks that are not cached (direct mode, adopted memory). */
void tdm_block_release(tdm_block *block);

/*
 * Before a command is enqueued on `stream`: make room to note the use of these blocks, and collect
 * the edges the command must wait for first, the unfinished uses of the blocks' former lives on
 * other streams. Returns their number; `edges` received the first `capacity` of them. -1 without
 * host memory (nothing was changed).
 */
int tdm_pool_prepare(tdm_block *const *blocks, int count, uint32_t stream, tdm_use *edges,
                     int capacity);

/* After it was enqueued: note the use. Cannot fail after tdm_pool_prepare for the same blocks and
 * stream. */
void tdm_pool_mark(tdm_block *const *blocks, int count, tdm_use use);

void tdm_pool_stats(tdm_pool *pool, tdm_memory_stats *stats);
void tdm_pool_reset_peaks(tdm_pool *pool);
void tdm_pool_set_budget(tdm_pool *pool, uint64_t bytes);
void tdm_pool_trim(tdm_pool *pool);

#endif
