/*
 * The caching pool over native allocations: backend-neutral, stream-ordered, constant time.
 *
 * The pool cuts native allocations (slabs) into ranges; a block is the header of a range. Free
 * ranges are found by a two-level index (pool_index.h), split on allocation and joined with their
 * free neighbours when freed. Freeing a block never waits: the range remembers which enqueued work
 * (stream, sequence) touched it last, and its next user is ordered behind that work by the edges of
 * tdm_pool_prepare, which the enqueue path turns into event waits where the streams differ.
 *
 * Thread-safe throughout. Lock order: pool, then the leaf lock of the marks. With the pool locked it
 * calls the upstream's allocate, passed, gone and poll, and the listeners; with nothing locked its
 * release (but where host memory ends between allocate and it), waits and relieve, and the debug hooks.
 * Threads that work it at the same time get a branch each (pool_internal.h) for requests up to
 * TDM_POOL_SMALL_LIMIT, which then meet no lock of others.
 */
#ifndef TANDEM_API_POOL_POOL_H
#define TANDEM_API_POOL_POOL_H

#include <stdatomic.h>

#include "api/backend.h"
#include "api/pool/pool_debug.h"
#include "api/pool/pool_events.h"

#include <tandem/memory.h>

/* One use of a block: `sequence` is the number of the stream's command. */
typedef struct tdm_use {
    uint32_t stream;
    uint64_t sequence;
} tdm_use;

#define TDM_INLINE_USES 2

typedef enum tdm_range_state {
    TDM_RANGE_SPARE = 0, /* a header that stands for no range */
    TDM_RANGE_LIVE,
    TDM_RANGE_READY,  /* free, nothing enqueued can touch it */
    TDM_RANGE_PENDING /* free, but its edges are not known to have passed */
} tdm_range_state;

/*
 * A range of a slab. Holders of a live one read memory, offset, size, requested, life, tag and
 * debug; the rest is the pool's. Headers begin with a cache line, and what finding and joining free
 * ranges needs is in it; also all that a thread needs that gives back what another one took.
 */
typedef struct tdm_block {
    atomic_int references;
    uint8_t state; /* a tdm_range_state */
    uint8_t lane;  /* of the index, while free */
    uint16_t edge_count, edge_capacity, use_count, use_capacity;
    struct tdm_slab *slab;
    uint64_t size;                    /* usable bytes, a multiple of the pool's unit */
    struct tdm_block *before, *after; /* neighbours in the slab */
    struct tdm_block *next;           /* of the index's list, while free */
    union {
        struct tdm_block *previous; /* of that list */
        void *debug;                /* of the debug hooks, while live */
    };

    tdm_pool *pool;
    tdm_bk_memory *memory;
    uint64_t offset; /* bytes into the native allocation */
    uint64_t requested;
    uint64_t life;   /* number of this life in the pool, from 1 */
    const char *tag; /* of this life, or NULL */
    tdm_use *edges;  /* unfinished uses of former lives; constant while live */
    tdm_use *uses;   /* of this life: one entry per stream that used it */

    tdm_use inline_edges[TDM_INLINE_USES];
    union {
        tdm_use inline_uses[TDM_INLINE_USES];
        struct {
            struct tdm_block *older, *newer; /* of the pending ranges */
        } queue;
    } as;
} tdm_block;

/*
 * Native bytes that several pools of one device hold together, and their bound. Thread-safe, no
 * lock. Zero-initialise, then set the bound.
 */
typedef struct tdm_memory_account {
    _Atomic uint64_t reserved, bound;
} tdm_memory_account;

/* Where the pool gets memory from and how it asks about streams. */
typedef struct tdm_pool_upstream {
    void *user;
    tdm_status (*allocate)(void *user, size_t bytes, tdm_bk_memory **memory);
    void (*release)(void *user, tdm_bk_memory *memory);
    /* Has the stream passed that command, as far as is known? A stream that is gone has. Must not
     * block or take a stream's lock. Optional: without it and `wait`, every command has run when its use is marked. */
    bool (*passed)(void *user, tdm_use use);
    /* Is the stream gone for good? As `passed`, but true for no stream that can still be used. Optional: none ever is. */
    bool (*gone)(void *user, uint32_t stream);
    /* Find out how far the streams are, without blocking. Optional: `passed` knows. */
    void (*poll)(void *user);
    /* Wait until it has, but not longer than `patience_ns`; true: it has. Optional: the pool is never throttled without. */
    bool (*wait_briefly)(void *user, tdm_use use, uint64_t patience_ns);
    /* Wait until it has; afterwards `passed` says so. Failures of the work do not matter here. Goes with `passed`. */
    void (*wait)(void *user, tdm_use use);
    /*
     * Memory for `bytes` is short, and the pool has done what it can alone: make room elsewhere.
     * `attempt` counts from 0 within one allocation. True when trying again makes sense. Called with
     * nothing locked; may use this pool. Optional.
     */
    bool (*relieve)(void *user, uint64_t bytes, int attempt);
    uint64_t max_allocation;           /* largest native allocation */
    uint64_t alignment;                /* of a block's offset; a power of two */
    uint64_t budget;                   /* bound of reserved bytes */
    tdm_memory_account *account;       /* shared with other pools, borrowed; or NULL */
    const tdm_pool_debug_hooks *debug; /* borrowed; or NULL */
    bool direct;                       /* one native allocation per block, nothing cached */
} tdm_pool_upstream;

tdm_status tdm_pool_create(const tdm_pool_upstream *upstream, tdm_pool **pool);

/* Every block must have been freed. Waits for what is pending, releases everything. */
void tdm_pool_destroy(tdm_pool *pool);

/*
 * Allocate ≥ max(bytes, 1). `stream` is the stream that will probably use it first (0: unknown):
 * ranges whose pending work is on it alone are as good as ready ones. Where nothing fits, the pool
 * polls, grows, takes a range that other streams have pending work on, waits for pending frees and
 * joins them, gives idle slabs back, and asks upstream.relieve, in this order; then it fails with
 * the numbers, and is as before.
 */
tdm_status tdm_pool_alloc(tdm_pool *pool, size_t bytes, uint32_t stream, tdm_block **block);

/* Adopt a native allocation as a block; it is released, not cached, when freed. It counts neither in
 * the statistics nor against the budget. */
tdm_status tdm_pool_adopt(tdm_pool *pool, tdm_bk_memory *memory, size_t bytes, tdm_block **block);

/* One more holder of a live block (a graph keeps the blocks it uses). */
void tdm_block_retain(tdm_block *block);

/* Give a reference back; the last one returns the block to the pool. NULL is accepted. May wait
 * only for blocks that are not cached (direct mode, adopted memory), in debug mode, and where host
 * memory is too short to remember more than TDM_INLINE_USES unfinished uses. */
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

/* Bound the reserved bytes; 0: what the upstream said. Waits for pending frees where more is
 * reserved than that, and gives idle slabs back until it is not, or none is left. */
void tdm_pool_set_budget(tdm_pool *pool, uint64_t bytes);

/*
 * Throttle a host that is far ahead of its streams: while more than 8 MiB, and a `share`-th of the live bytes, are pending, an
 * allocation that nothing is ready for takes a range that other streams' work still uses, behind edges, and where there is none
 * waits for that work rather than grow the pool. A wait that lasts `patience_ns` is the last one until its command has passed.
 * Each branch counts, and remembers such a wait, for itself. 0: no throttle, as in the beginning.
 */
void tdm_pool_set_throttle(tdm_pool *pool, uint32_t share, uint64_t patience_ns);

/* Wait for pending frees, join what is free, give every slab without live blocks back. Returns the
 * bytes that went back. */
uint64_t tdm_pool_trim(tdm_pool *pool);

/* ---- looking at a pool ------------------------------------------------------------------------- */

typedef struct tdm_slab_view {
    uint64_t number; /* of the slab in the pool, from 1; never used twice */
    uint64_t bytes;
    uint64_t live_blocks;
    bool small;   /* for requests up to TDM_POOL_SMALL_LIMIT */
    bool adopted; /* the user's memory */
    bool single;  /* one block, goes back with it: direct mode, adopted memory */
} tdm_slab_view;

typedef struct tdm_range_view {
    tdm_range_state state;
    uint64_t offset, bytes; /* within the slab, red zones included */
    uint64_t requested;     /* live: bytes asked for, the life's number, its tag (or NULL) */
    uint64_t life;
    const char *tag;
    uint32_t stream; /* live: first stream that used it; pending: the first unfinished; 0: none */
    const tdm_block *block; /* live: the block; not to be kept */
} tdm_range_view;

/* Callbacks run with the pool locked: they must not call it, and should be short. Either may be NULL. */
typedef struct tdm_pool_visitor {
    void (*slab)(void *user, const tdm_slab_view *slab);
    void (*range)(void *user, const tdm_slab_view *slab, const tdm_range_view *range);
    void *user;
} tdm_pool_visitor;

/* Every slab, the newest of a branch first, each followed by its ranges in the order of their addresses, without gaps. */
void tdm_pool_visit(tdm_pool *pool, const tdm_pool_visitor *visitor);

/* Write the tags that hold most of the pool's live bytes into `text`: "weights 1048576 in 3 blocks, ...". */
void tdm_pool_holders(tdm_pool *pool, char *text, size_t text_bytes);

/* ---- accounts ---------------------------------------------------------------------------------- */

/* Count bytes in, unless the bound would be exceeded: false then, and nothing changes. */
bool tdm_memory_account_take(tdm_memory_account *account, uint64_t bytes);
void tdm_memory_account_give(tdm_memory_account *account, uint64_t bytes);

#endif
