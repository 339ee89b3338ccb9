/*
 * Declarations shared by the files of the pool.
 *
 *     pool.c               allocation and release, create and destroy
 *     pool_find.c          search for memory: free ranges, other caches, fallback steps
 *     pool_thread_cache.c  locks, per-thread caches, their remote-free lists, calls of listeners
 *     pool_slab.c          headers, slabs, ranges: split, join, free
 *     pool_grow.c          sizes of native allocations and their release: budgets, trims
 *     pool_uses.c          uses of live blocks, dependencies of free ranges, waiting
 *     pool_index.c         free ranges by size
 *     pool_visit.c         traversal of a pool, holders, the text of a failure, statistics
 *
 * Functions that take ranges or slabs need the pool's lock.
 *
 * Per-thread caches are called `thread_cache` in names. A cache is a tdm_pool with its own lock,
 * index and slabs for small requests. Each thread that contended for the pool gets one. The pool
 * itself, the root, is the first of them.
 *
 * A slab belongs to one cache and may move to another, with all its blocks. A thread allocates from
 * its cache without contention. If it frees a block of another cache's slab, it puts the block on
 * that cache's remote-free list (`remote_frees` or `returns` in names).
 *
 * All caches count in the root's `group`, whose bound is the budget. A thread that holds the lock
 * of one cache may only try the lock of another. tdm_pool_lock_all locks all of them in the order
 * of their numbers.
 */
#ifndef TANDEM_API_POOL_POOL_INTERNAL_H
#define TANDEM_API_POOL_POOL_INTERNAL_H

#include "api/base/base.h"
#include "api/pool/pool_index.h"

#define TDM_POOL_LARGEST (UINT64_C(1) << 48)
/* Requests up to each of these limits have slabs of their own, so that they do not fragment the
 * memory for larger requests. */
#define TDM_POOL_SMALL_LIMIT (UINT64_C(1) << 20)
#define TDM_POOL_MEDIUM_LIMIT (UINT64_C(16) << 20)

/* The index of a size class has lanes. They hold ready ranges, ranges with one dependency (by
 * stream), and ranges with several dependencies. */
#define TDM_LANE_READY 0
#define TDM_LANE_STREAMS 4
#define TDM_LANE_SEVERAL (1 + TDM_LANE_STREAMS)
#define TDM_LANES (2 + TDM_LANE_STREAMS)

typedef enum tdm_size_class {
    TDM_SIZE_CLASS_SMALL,
    TDM_SIZE_CLASS_MEDIUM,
    TDM_SIZE_CLASS_LARGE,
    TDM_SIZE_CLASSES
} tdm_size_class;

static inline tdm_size_class tdm_size_class_of(uint64_t bytes) {
    return bytes <= TDM_POOL_SMALL_LIMIT    ? TDM_SIZE_CLASS_SMALL
           : bytes <= TDM_POOL_MEDIUM_LIMIT ? TDM_SIZE_CLASS_MEDIUM
                                            : TDM_SIZE_CLASS_LARGE;
}

#define TDM_STREAM_SEVERAL UINT32_MAX

/* A native allocation. Threads that free blocks of other caches' slabs read the first members.
 * Padding separates these from the members that change with each operation. */
typedef struct tdm_slab {
    _Atomic(tdm_pool *)
        thread_cache; /* the cache that owns the slab; changes with both caches locked */
    tdm_bk_memory *memory;
    uint64_t bytes;
    uint64_t number;
    tdm_block *first;
    tdm_size_class size_class;
    bool single;  /* one block, never cached */
    bool adopted; /* user memory, not counted in the pool */
    char apart[64];

    uint64_t live_blocks, live_bytes, live_requested, pending_ranges;
    /* the only stream that its pending ranges wait for; 0: none is pending; or
     * TDM_STREAM_SEVERAL */
    uint32_t stream;
    struct tdm_slab *next, *previous; /* list of all slabs, newest first */
    /* list of slabs without live blocks, longest idle first */
    struct tdm_slab *idle_next, *idle_previous;
    char also_apart[64]; /* padding from what follows in host memory */
} tdm_slab;

/* Bytes and counts of one size class, always exact. Adopted memory is not counted. */
typedef struct tdm_size_class_counters {
    /* live blocks; allocated: rounded, red zones included */
    uint64_t requested, allocated, live_blocks;
    uint64_t reserved, slabs;
    uint64_t pending, pending_ranges; /* free, with dependencies not known to have completed */
    uint64_t ready, ready_ranges;     /* free, without dependencies */
    uint64_t idle;                    /* part of reserved: slabs without live blocks */
} tdm_size_class_counters;

/* Totals since the pool was created. */
typedef struct tdm_pool_totals {
    /* requested and allocated so far; freed so far (rounded) */
    uint64_t requested_bytes, allocated_bytes, freed_bytes;
    uint64_t splits, joins;
    uint64_t operations;  /* allocations and frees that did not wait, trim or call relieve */
    uint64_t visited;     /* ranges that these operations looked at */
    uint64_t visited_max; /* most ranges that one of them looked at */
} tdm_pool_totals;

#define TDM_POOL_THREAD_CACHES 8
/* Events that a cache buffers before it passes them to the listeners. */
#define TDM_POOL_NOTES 64

/* Sums over all caches, in the order of the reports. The statistics' peaks come from them. */
typedef struct tdm_pool_levels {
    uint64_t requested, requested_peak;
    uint64_t allocated, allocated_peak;
    uint64_t pending;
} tdm_pool_levels;

/* Changes in a cache since it last updated the sums. They are negative if more was freed. */
typedef struct tdm_pool_rise {
    int64_t requested, requested_peak;
    int64_t allocated, allocated_peak;
} tdm_pool_rise;

#define TDM_POOL_REMOTE_FREE_SLOTS 64

/*
 * Remote-free list: blocks that threads of other caches freed. The holder of the cache's lock
 * completes their release. They stand in an array of slots, so that the holder can prefetch all
 * headers before it needs the first. If no slot is free, a block goes on a list linked by `next`.
 */
typedef struct tdm_pool_returns {
    atomic_uint brought, taken; /* blocks added and removed so far */
    _Atomic(tdm_block *) first;
    char apart[112];
    _Atomic(tdm_block *) slots[TDM_POOL_REMOTE_FREE_SLOTS];
    char also_apart[64]; /* padding from the next cache's list */
} tdm_pool_returns;

/* Members that only a root has. Members that all operations read are rarely written; padding
 * separates them from those that are often written. */
typedef struct tdm_pool_shared {
    _Atomic(tdm_pool *)
        thread_caches[TDM_POOL_THREAD_CACHES]; /* root first; NULL: not created yet */
    atomic_bool has_thread_caches;             /* caches other than the root exist */
    atomic_int timed;                          /* number of listeners that record times */
    /* changed with the locks of all caches and both locks below held, so any one of them protects
     * readers */
    tdm_pool_listener *listeners;
    tdm_memory_account group; /* bytes reserved by all caches; the budget */
    /* bytes reserved by all caches; memory that is being released counts only in `group` */
    _Atomic uint64_t reserved;
    _Atomic uint32_t throttle; /* set by tdm_pool_set_throttle; 0: off */
    _Atomic uint64_t patience_ns;
    _Atomic uint64_t reserved_high; /* most ever reserved */
    _Atomic uint64_t reserved_peak; /* most since tdm_pool_reset_peaks */
    char apart[128];

    _Atomic uint64_t generations, slab_numbers;
    pthread_mutex_t fences_lock; /* leaf lock: uses of live blocks */
    /* leaf lock, if there are per-thread caches: the levels and the calls of listeners */
    pthread_mutex_t notify_lock;
    tdm_pool_levels levels;
    pthread_mutex_t release_lock; /* leaf lock: the members below */
    pthread_cond_t released;
    int releasing;     /* threads that are releasing slabs */
    uint64_t releases; /* releases completed */
    char also_apart[128];

    tdm_pool_returns remote_frees[TDM_POOL_THREAD_CACHES];
} tdm_pool_shared;

struct tdm_pool {
    tdm_pool *root;          /* itself, if it is the root */
    tdm_pool_shared *shared; /* shared state, owned by the root */
    tdm_pool_upstream upstream;
    uint64_t unit; /* sizes are multiples of it */
    unsigned unit_bits;
    uint64_t zone_before, zone_after; /* red zones of each block, in debug mode */
    tdm_pool_returns *remote_frees;   /* points into shared->remote_frees */
    char apart[64];                   /* padding from what the lock's holder writes */

    pthread_mutex_t lock;
    atomic_int lock_contention; /* not 0: threads contended for the lock recently */
    unsigned turns;             /* operations; `remote_frees` is checked at intervals */
    int note_count;
    uint64_t pending_is_known; /* value of `pending` in the buffered events so far */
    tdm_pool_index free[TDM_SIZE_CLASSES][TDM_LANES];
    tdm_slab *slabs;
    tdm_slab *leaving; /* slabs given up by the holder of the lock; NULL while it is free */
    tdm_slab *idle_oldest, *idle_newest;
    tdm_block *pending_oldest, *pending_newest; /* queue of all pending ranges */
    tdm_block *spare_headers;
    struct tdm_header_chunk *chunks; /* newest first; headers are taken from it one by one */
    uint64_t headers_used;
    uint64_t visited; /* ranges visited by the current operation */
    /* Counts of this cache. Only their sums over all caches are meaningful, and their peaks are not
     * used if there are several. */
    tdm_memory_stats stats;
    tdm_size_class_counters counters[TDM_SIZE_CLASSES];
    tdm_pool_totals totals;
    tdm_pool_rise rise;
    /* the command for which a throttled allocation last timed out; sequence 0: none */
    tdm_use stuck;
    uint64_t generation, generations_end; /* range of numbers reserved for the next generations */
    tdm_pool_event notes[TDM_POOL_NOTES];
};

static inline uint64_t tdm_pool_budget(const tdm_pool *pool) {
    return atomic_load_explicit(&pool->shared->group.bound, memory_order_relaxed);
}

/* Returns the free bytes of a cache that wait for streams. */
static inline uint64_t tdm_pool_pending(const tdm_pool *pool) {
    uint64_t bytes = 0;
    for (int i = 0; i < TDM_SIZE_CLASSES; i++)
        bytes += pool->counters[i].pending;
    return bytes;
}

/* Bytes reserved by all caches. */
static inline uint64_t tdm_pool_reserved(const tdm_pool *pool) {
    return atomic_load_explicit(&pool->shared->reserved, memory_order_relaxed);
}

/* Bytes reserved by all caches, including those that are being released. */
static inline uint64_t tdm_pool_held(const tdm_pool *pool) {
    return atomic_load_explicit(&pool->shared->group.reserved, memory_order_relaxed);
}

static inline uint64_t tdm_pool_leaving(const tdm_pool *pool) {
    const uint64_t reserved = tdm_pool_reserved(pool), held = tdm_pool_held(pool);
    return held > reserved ? held - reserved : 0;
}

static inline bool tdm_pool_has_thread_caches(const tdm_pool *pool) {
    return atomic_load_explicit(&pool->shared->has_thread_caches, memory_order_relaxed);
}

/* ---- pool_thread_cache.c --------------------------------------------------------------------- */

/* Unlocking releases the slabs that were given up meanwhile. Waiters spin at growing intervals
 * before they sleep, because critical sections are shorter than a thread switch. */
void tdm_pool_lock(tdm_pool *pool);
bool tdm_pool_trylock(tdm_pool *pool);
void tdm_pool_unlock(tdm_pool *pool);

/* Returns the cache that the calling thread allocates from, locked. A thread that contends too
 * often moves to the next cache. */
tdm_pool *tdm_pool_lock_home(tdm_pool *root, tdm_size_class size_class);
/* Returns the cache that owns the slab of a freed block, locked. NULL: the block was put on that
 * cache's remote-free list. */
tdm_pool *tdm_pool_lock_for(tdm_block *block);

/* Makes the calling thread allocate from the next cache, which is created if needed. The caller
 * holds no lock. */
tdm_pool *tdm_pool_next_home(tdm_pool *root);

/* Returns the cache with that number, or NULL. */
tdm_pool *tdm_pool_thread_cache(const tdm_pool *root, int number);
/* Locks all caches, frees the blocks on their remote-free lists and reports their buffered events.
 * Values read afterwards are exact. */
void tdm_pool_lock_all(tdm_pool *root);
void tdm_pool_unlock_all(tdm_pool *root);
/* Frees the memory of all caches except the root. No block is live. */
void tdm_pool_thread_caches_free(tdm_pool *root);

/* Reports an event to the listeners. With per-thread caches it may be buffered until the buffer is
 * full. The pool is locked. */
void tdm_pool_notify(tdm_pool *pool, tdm_pool_event event);
/* Reports an event in two steps, without a copy. The first returns the place to write it to, the
 * second reports it. */
static inline tdm_pool_event *tdm_pool_event_place(tdm_pool *pool, tdm_pool_event *local) {
    return tdm_pool_has_thread_caches(pool) ? &pool->notes[pool->note_count] : local;
}
void tdm_pool_notify_event(tdm_pool *pool, tdm_pool_event *event);
/* Reports the buffered events and updates the sums. */
void tdm_pool_notify_notes(tdm_pool *pool);
/* Reports a use, with the use lists locked. */
void tdm_pool_notify_use(const tdm_pool *pool, tdm_pool_event event);
/* True if the pool has listeners. The pool is locked. */
static inline bool tdm_pool_has_listeners(const tdm_pool *pool) {
    return pool->shared->listeners != NULL;
}
/* Counts an event without listeners. Per-thread caches then update the sums at intervals. */
static inline void tdm_pool_notify_nobody(tdm_pool *pool) {
    if (tdm_pool_has_thread_caches(pool) && ++pool->note_count == TDM_POOL_NOTES)
        tdm_pool_notify_notes(pool);
}

/* ---- pool.c ---------------------------------------------------------------------------------- */

/* Frees a block whose dependencies are set, in its slab's cache, which is locked. */
void tdm_pool_free(tdm_pool *pool, tdm_block *block);
/* Returns an event of a block that is or was just live; the caller reports it. */
tdm_pool_event tdm_block_event(const tdm_block *block, tdm_pool_event_kind kind, uint32_t stream);

/* ---- pool_thread_cache.c, remote-free lists -------------------------------------------------- */

/* Returns the approximate number of blocks on the list. */
static inline unsigned tdm_pool_returned(const tdm_pool_returns *remote_frees) {
    return atomic_load_explicit(&remote_frees->brought, memory_order_relaxed) -
           atomic_load_explicit(&remote_frees->taken, memory_order_relaxed);
}
/* Puts a block on the remote-free list of the cache that owns its slab. */
void tdm_pool_put_back(tdm_block *block);
/* Frees the blocks on the cache's remote-free list. The cache is locked. */
void tdm_pool_take_back(tdm_pool *pool);

/* ---- pool_find.c ----------------------------------------------------------------------------- */

/* State of one allocation. */
typedef struct tdm_pool_request {
    tdm_pool *pool; /* the cache it is served from, locked */
    uint64_t bytes, units;
    uint32_t stream;
    tdm_size_class size_class;
    bool slow; /* it waited, trimmed or called relieve */
} tdm_pool_request;

/* Finds a free range of at least `bytes` in any cache, and sets `pool` to that cache. `pool` is
 * locked on return, also after a failure. */
tdm_status tdm_pool_find_memory(tdm_pool_request *request, tdm_block **range);

/* ---- pool_slab.c ----------------------------------------------------------------------------- */

/* Creates a slab of one range and links it to the pool. The range is ready and indexed, or in no
 * list for a `single` slab. Returns NULL if host memory is short. */
tdm_slab *tdm_slab_new(tdm_pool *pool, const tdm_slab *form);
/* Gives up a slab without live blocks and pending ranges. Unlocking the pool releases it. */
void tdm_slab_release(tdm_pool *pool, tdm_slab *slab);
/* Moves a slab with all its ranges to another cache. Both are locked. */
void tdm_slab_move(tdm_slab *slab, tdm_pool *to);
static inline tdm_pool *tdm_slab_thread_cache(const tdm_slab *slab) {
    return atomic_load_explicit(&slab->thread_cache, memory_order_acquire);
}
/* Same result as block->pool->root. It avoids the header's second cache line, which another thread
 * may have written. */
static inline tdm_pool *tdm_block_root(const tdm_block *block) {
    return tdm_slab_thread_cache(block->slab)->root;
}

/* Takes a free range out of the lists and cuts it to `bytes`. Returns false and changes nothing if
 * host memory is short. */
bool tdm_range_take(tdm_pool *pool, tdm_block *range, uint64_t bytes);
/* Makes a range free, whose dependencies are set, and joins it with free neighbours. */
void tdm_range_free(tdm_pool *pool, tdm_block *range);
/*
 * Drops the completed dependencies of a pending range; `waited` (may be NULL) counts as completed.
 * A range that became ready joins its neighbours. Returns false if it is still pending. After true,
 * the header may no longer exist.
 */
bool tdm_range_settle(tdm_pool *pool, tdm_block *range, const tdm_use *waited);

/* Moves the oldest pending range to the end of the queue. */
void tdm_pool_postpone_oldest(tdm_pool *pool);

/* Frees the memory of all headers. None is in use. */
void tdm_headers_free(tdm_pool *pool);

/* ---- pool_grow.c ----------------------------------------------------------------------------- */

/* Allocates native memory and indexes it. *range is a ready range of at least `bytes`. */
tdm_status tdm_pool_grow(tdm_pool *pool, uint64_t bytes, tdm_block **range);
/* Allocates native memory for one block. */
tdm_status tdm_pool_grow_single(tdm_pool *pool, uint64_t bytes, tdm_block **range);
/* Releases idle slabs without pending ranges, longest idle first, while more than `keep` bytes are
 * reserved. Returns the number of bytes released. */
uint64_t tdm_pool_release_idle(tdm_pool *pool, uint64_t keep);
/* Releases idle slabs of this cache and of all caches whose lock is free. */
void tdm_pool_release_idle_nearby(tdm_pool *pool, uint64_t keep);
/* Returns the number of bytes that may stay reserved if `bytes` more are to fit the budget and the
 * account. */
uint64_t tdm_pool_room_for(const tdm_pool *pool, uint64_t bytes);

/* ---- pool_grow.c, releases ------------------------------------------------------------------- */

void tdm_pool_retire(tdm_pool *pool, tdm_slab *slab);
/* Lets this cache release the slabs that were given up in another one, when it is unlocked. Both
 * are locked. */
void tdm_pool_retire_with(tdm_pool *pool, tdm_pool *other);
/* Releases the given-up slabs with the pool unlocked. No other cache may be locked. */
void tdm_pool_let_go(tdm_pool *pool);
/* Returns the number of releases completed so far. */
uint64_t tdm_pool_releases(const tdm_pool *pool);
/* Waits until there are more than *seen releases, and updates *seen. The pool is unlocked
 * meanwhile. Returns false if no release ended and none is in progress. */
bool tdm_pool_await_release(tdm_pool *pool, uint64_t *seen);
/* Waits for the releases that are now in progress in any thread. The caller holds no lock. */
void tdm_pool_await_releases(tdm_pool *pool);

/* ---- pool_uses.c ----------------------------------------------------------------------------- */

/* Turns a block's uses into the dependencies of its range. It waits only if host memory is short.
 * The pool is not locked. */
void tdm_uses_end(tdm_block *block);
/* Waits for a block's dependencies and drops them. The pool is not locked. */
void tdm_dependencies_wait(tdm_block *block);
/* Makes room for `capacity` dependencies. */
bool tdm_dependencies_reserve(tdm_block *range, int capacity);
void tdm_dependencies_drop(tdm_block *range);
/* True if the dependencies of both name the same streams. */
bool tdm_dependencies_agree(const tdm_block *a, const tdm_block *b);
/* Adds the dependencies of `other`. Both name the same streams, or one of them has none. */
void tdm_dependencies_merge(tdm_block *range, tdm_block *other);
bool tdm_dependencies_passed(const tdm_pool *pool, const tdm_block *range);
/* Drops the completed dependencies, and those that `waited` covers. */
void tdm_dependencies_prune(tdm_pool *pool, tdm_block *range, const tdm_use *waited);

/* Checks whether up to `count` pending ranges have become ready, oldest first. */
void tdm_pool_settle(tdm_pool *pool, uint64_t count);
/* Waits for one dependency of the oldest pending range. The pool is unlocked meanwhile. Returns
 * false if no range is pending. */
bool tdm_pool_wait_once(tdm_pool *pool);
/* The throttled variant of tdm_pool_wait_once, with a timeout. It also returns false on a timeout,
 * and while the command of an earlier timeout has not completed. */
bool tdm_pool_wait_briefly(tdm_pool *pool);
/* Returns the number of dependencies of all pending ranges. It bounds the number of waits, unless
 * more are added. */
uint64_t tdm_pool_pending_dependencies(const tdm_pool *pool);
/* Waits for all ranges that are pending now. */
void tdm_pool_wait_all(tdm_pool *pool);

/* ---- pool_visit.c ---------------------------------------------------------------------------- */

/* Sets the detail of a refused allocation: the sizes, the holders and the previous detail. The
 * caller holds no lock. */
tdm_status tdm_pool_refuse(tdm_pool *root, tdm_status status, uint64_t bytes);
/* Returns the totals, summed over all caches. */
tdm_pool_totals tdm_pool_totals_now(tdm_pool *root);

#endif
