/*
 * The caching pool over native allocations: backend-neutral, stream-ordered, constant time.
 *
 * The pool cuts native allocations (slabs) into ranges; a block is the header of a range. Free
 * ranges are found by a two-level index (pool_index.h). They are split on allocation and joined
 * with their free neighbours when freed.
 *
 * Freeing a block never waits. The range remembers which enqueued work (stream, sequence) used it
 * last: its pending dependencies, `dependencies` in names. tdm_pool_prepare returns them to the
 * next user, and the enqueue path turns those of other streams into event waits.
 *
 * All functions are thread-safe. Lock order: the pool's lock, then the leaf lock of the use lists.
 * The pool may call the upstream's allocate, passed, gone and poll, and the listeners, with one of
 * these locks held. It calls the upstream's waits and relieve, and the debug hooks, with no lock
 * held. This is also true of release, except when host memory runs out just after allocate.
 *
 * Threads that contend for the pool get a per-thread cache each (`thread_cache` in names,
 * pool_internal.h). It serves requests up to TDM_POOL_SMALL_LIMIT without taking a lock of another
 * thread.
 */
#ifndef TANDEM_API_POOL_POOL_H
#define TANDEM_API_POOL_POOL_H

#include <stdatomic.h>

#include "api/backend.h"
#include "api/pool/pool_debug.h"
#include "api/pool/pool_events.h"

#include <tandem/memory.h>

/* One use of a block. `sequence` is the number of the stream's command. */
typedef struct tdm_use {
    uint32_t stream;
    uint64_t sequence;
} tdm_use;

#define TDM_INLINE_USES 2

typedef enum tdm_range_state {
    TDM_RANGE_SPARE = 0, /* an unused header, without a range */
    TDM_RANGE_LIVE,
    TDM_RANGE_READY,  /* free; no enqueued work can touch it */
    TDM_RANGE_PENDING /* free; some dependency is not known to have completed */
} tdm_range_state;

/*
 * A range of a slab. Holders of a live block read memory, offset, size, requested, generation, tag
 * and debug. The other members are private to the pool.
 *
 * Headers are aligned to cache lines. The first line holds all that finding and joining free ranges
 * needs. It also holds all that a thread needs to free a block that another thread allocated.
 */
typedef struct tdm_block {
    atomic_int references;
    uint8_t state; /* a tdm_range_state */
    uint8_t lane;  /* index lane, while free */
    uint16_t dependency_count, dependency_capacity, use_count, use_capacity;
    struct tdm_slab *slab;
    uint64_t size;                    /* usable bytes, a multiple of the pool's unit */
    struct tdm_block *before, *after; /* neighbours in the slab */
    struct tdm_block *next;           /* in a list of the index, while free */
    union {
        struct tdm_block *previous; /* in the same list */
        void *debug;                /* belongs to the debug hooks, while live */
    };

    tdm_pool *pool;
    tdm_bk_memory *memory;
    uint64_t offset; /* bytes into the native allocation */
    uint64_t requested;
    uint64_t generation; /* allocation generation: number of this allocation in the pool, from 1 */
    const char *tag;     /* of this generation, or NULL */
    tdm_use *dependencies; /* unfinished uses of earlier generations; constant while live */
    tdm_use *uses;         /* uses of this generation: one entry per stream that used it */

    tdm_use inline_dependencies[TDM_INLINE_USES];
    union {
        tdm_use inline_uses[TDM_INLINE_USES];
        struct {
            struct tdm_block *older, *newer; /* links of the queue of pending ranges */
        } queue;
    } as;
} tdm_block;

/* The native bytes that several pools of one device hold together, and their bound. Its functions
 * are thread-safe and take no lock. Zero-initialise it, then set the bound. */
typedef struct tdm_memory_account {
    _Atomic uint64_t reserved, bound;
} tdm_memory_account;

/* The pool's source of native memory and of the progress of streams. */
typedef struct tdm_pool_upstream {
    void *user;
    tdm_status (*allocate)(void *user, size_t bytes, tdm_bk_memory **memory);
    void (*release)(void *user, tdm_bk_memory *memory);
    /* Returns true if the stream is known to have completed that command, or no longer exists. It
     * must not block or take a stream's lock. Optional: without it and `wait`, every command counts
     * as complete when its use is recorded. */
    bool (*passed)(void *user, tdm_use use);
    /* Returns true if the stream no longer exists. It must return false for every stream that can
     * still be used. Optional: the default returns false. */
    bool (*gone)(void *user, uint32_t stream);
    /* Updates the known progress of all streams without blocking. Optional: not needed where
     * `passed` is always current. */
    void (*poll)(void *user);
    /* Waits for the command, at most `patience_ns`. Returns true if it completed. Optional: without
     * it a throttled allocation never waits. */
    bool (*wait_briefly)(void *user, tdm_use use, uint64_t patience_ns);
    /* Waits for the command; afterwards `passed` returns true for it. Failures of the work do not
     * matter here. It is set if and only if `passed` is. */
    void (*wait)(void *user, tdm_use use);
    /*
     * Frees memory outside the pool, after the pool itself failed to find `bytes`. `attempt` counts
     * from 0 within one allocation. Returns true if another attempt makes sense. It is called with
     * no lock held and may use this pool. Optional.
     */
    bool (*relieve)(void *user, uint64_t bytes, int attempt);
    uint64_t max_allocation;           /* largest native allocation */
    uint64_t alignment;                /* alignment of a block's offset; a power of two */
    uint64_t budget;                   /* bound of the reserved bytes */
    tdm_memory_account *account;       /* borrowed, shared with other pools; or NULL */
    const tdm_pool_debug_hooks *debug; /* borrowed; or NULL */
    bool direct;                       /* one native allocation per block, nothing cached */
} tdm_pool_upstream;

tdm_status tdm_pool_create(const tdm_pool_upstream *upstream, tdm_pool **pool);

/* Every block must have been freed. Waits for pending frees, then releases all memory. */
void tdm_pool_destroy(tdm_pool *pool);

/*
 * Allocates at least max(bytes, 1) bytes. `stream` is the stream that will probably use them first
 * (0: unknown). Ranges with pending work on that stream only are as good as ready ranges.
 *
 * If no such range fits, the pool tries these steps in order:
 * - poll the streams and grow;
 * - take a range that has pending work on other streams;
 * - wait for pending frees and join the freed ranges;
 * - release idle slabs;
 * - call upstream.relieve.
 *
 * If all steps fail, the error detail gives the sizes, and no block is allocated.
 */
tdm_status tdm_pool_alloc(tdm_pool *pool, size_t bytes, uint32_t stream, tdm_block **block);

/* Adopts a native allocation as a block. It is released, not cached, when freed. It counts neither
 * in the statistics nor against the budget. */
tdm_status tdm_pool_adopt(tdm_pool *pool, tdm_bk_memory *memory, size_t bytes, tdm_block **block);

/* Adds a reference to a live block (a graph keeps the blocks it uses). */
void tdm_block_retain(tdm_block *block);

/*
 * Drops a reference; the last one returns the block to the pool. NULL is accepted. It waits for
 * enqueued work only in direct mode, in debug mode, for adopted memory, and if host memory is
 * short. The last case needs more than TDM_INLINE_USES unfinished uses.
 */
void tdm_block_release(tdm_block *block);

/*
 * Call it before a command is enqueued on `stream`. It reserves an entry for the use of each block
 * and collects the dependencies that the command must wait for. These are unfinished uses of
 * earlier generations of the blocks on other streams.
 *
 * Returns their number; `dependencies` receives the first `capacity` of them. Returns -1 if host
 * memory is short. Entries reserved before that stay, without a use.
 */
int tdm_pool_prepare(tdm_block *const *blocks, int count, uint32_t stream, tdm_use *dependencies,
                     int capacity);

/* Records the use after the command was enqueued. It cannot fail after tdm_pool_prepare for the
 * same blocks and stream. */
void tdm_pool_record_use(tdm_block *const *blocks, int count, tdm_use use);

void tdm_pool_stats(tdm_pool *pool, tdm_memory_stats *stats);
void tdm_pool_reset_peaks(tdm_pool *pool);

/* Sets the bound of the reserved bytes; 0 restores the upstream's. If more is reserved, it waits
 * for pending frees and releases idle slabs until the bound holds or none is left. */
void tdm_pool_set_budget(tdm_pool *pool, uint64_t bytes);

/*
 * Throttles a host that is far ahead of its streams. The throttle acts while more than 8 MiB, and
 * more than live bytes / `share`, are pending.
 *
 * An allocation without a ready range then takes a range that other streams' work still uses, with
 * dependencies. If there is none, it waits for that work instead of growing the pool. After a wait
 * that reaches `patience_ns`, no allocation waits again until that command has completed.
 *
 * Each per-thread cache counts for itself and remembers such a wait for itself. `share` 0 turns the
 * throttle off, which is the default.
 */
void tdm_pool_set_throttle(tdm_pool *pool, uint32_t share, uint64_t patience_ns);

/* Waits for pending frees, joins free ranges and releases every slab without live blocks. Returns
 * the number of bytes released. */
uint64_t tdm_pool_trim(tdm_pool *pool);

/* ---- inspection ------------------------------------------------------------------------------ */

typedef struct tdm_slab_view {
    uint64_t number; /* number of the slab in the pool, from 1; never reused */
    uint64_t bytes;
    uint64_t live_blocks;
    bool small;   /* for requests up to TDM_POOL_SMALL_LIMIT */
    bool adopted; /* the user's memory */
    bool single;  /* one block, released with it: direct mode, adopted memory */
} tdm_slab_view;

typedef struct tdm_range_view {
    tdm_range_state state;
    uint64_t offset, bytes; /* within the slab, red zones included */
    uint64_t requested;     /* live: bytes requested, allocation generation, tag (or NULL) */
    uint64_t generation;
    const char *tag;
    uint32_t stream; /* live: first stream that used it; pending: the first unfinished; 0: none */
    const tdm_block *block; /* live: the block, valid only during the callback */
} tdm_range_view;

/* Callbacks of a visit. They run with the pool locked, must not call the pool and should be short.
 * Either may be NULL. */
typedef struct tdm_pool_visitor {
    void (*slab)(void *user, const tdm_slab_view *slab);
    void (*range)(void *user, const tdm_slab_view *slab, const tdm_range_view *range);
    void *user;
} tdm_pool_visitor;

/* Visits every slab, cache by cache, the newest slab of a cache first. Each slab is followed by all
 * of its ranges in the order of their addresses. */
void tdm_pool_visit(tdm_pool *pool, const tdm_pool_visitor *visitor);

/* Writes the tags that hold most of the pool's live bytes into `text`: "weights 1048576 in 3
 * blocks, ...". */
void tdm_pool_holders(tdm_pool *pool, char *text, size_t text_bytes);

/* ---- accounts -------------------------------------------------------------------------------- */

/* Adds bytes to the account. Returns false and changes nothing if that would exceed the bound. */
bool tdm_memory_account_take(tdm_memory_account *account, uint64_t bytes);
void tdm_memory_account_give(tdm_memory_account *account, uint64_t bytes);

#endif
