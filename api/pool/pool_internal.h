/*
 * What the files of the pool share.
 *
 *     pool.c          allocation and release, create and destroy
 *     pool_find.c     where an allocation finds its memory: free ranges, other branches, the ladder
 *     pool_branch.c   locks, branches for threads that meet and the blocks they give each other back, telling listeners
 *     pool_slab.c     headers, slabs, ranges: split, join, free
 *     pool_grow.c     how much native memory to take, and when to give it back: budgets, trims, releases
 *     pool_uses.c     uses of live blocks, edges of free ranges, waiting
 *     pool_index.c    free ranges by size
 *     pool_visit.c    walking a pool, holders, the sentence of a failure, statistics
 *
 * Functions named *_locked and everything that takes ranges or slabs need the pool's lock.
 *
 * Branches. A pool that several threads work at the same time gets branches: pools with a lock, an index and slabs for small
 * requests of their own, one per thread that met others. The pool itself, the root, is the first of them. A slab belongs to one
 * branch and may move to another, with all its blocks; so a thread allocates without meeting others, and what it frees of others'
 * slabs it puts on their list. All branches count in the root's `group`, whose bound is the budget. Whoever holds a branch's
 * lock may only try another's; all of them are locked in the order of their numbers (tdm_pool_lock_all).
 */
#ifndef TANDEM_API_POOL_POOL_INTERNAL_H
#define TANDEM_API_POOL_POOL_INTERNAL_H

#include "api/base/base.h"
#include "api/pool/pool_index.h"

#define TDM_POOL_LARGEST (UINT64_C(1) << 48)
/* Requests up to these limits are served by slabs of their own, so that they do not cut up what larger ones need. */
#define TDM_POOL_SMALL_LIMIT (UINT64_C(1) << 20)
#define TDM_POOL_MEDIUM_LIMIT (UINT64_C(16) << 20)

/* Lanes of an arena's index: ready ranges; ranges with one edge, by stream; ranges with several. */
#define TDM_LANE_READY 0
#define TDM_LANE_STREAMS 4
#define TDM_LANE_SEVERAL (1 + TDM_LANE_STREAMS)
#define TDM_LANES (2 + TDM_LANE_STREAMS)

typedef enum tdm_arena {
    TDM_ARENA_SMALL,
    TDM_ARENA_MEDIUM,
    TDM_ARENA_LARGE,
    TDM_ARENAS
} tdm_arena;

static inline tdm_arena tdm_arena_of(uint64_t bytes) {
    return bytes <= TDM_POOL_SMALL_LIMIT    ? TDM_ARENA_SMALL
           : bytes <= TDM_POOL_MEDIUM_LIMIT ? TDM_ARENA_MEDIUM
                                            : TDM_ARENA_LARGE;
}

#define TDM_STREAM_SEVERAL UINT32_MAX

/* What threads read that give back blocks of others' slabs lies apart from what changes with each operation. */
typedef struct tdm_slab {
    _Atomic(tdm_pool *) branch; /* that has it; changes with the locks of both held */
    tdm_bk_memory *memory;
    uint64_t bytes;
    uint64_t number;
    tdm_block *first;
    tdm_arena arena;
    bool single;  /* one block, never cached */
    bool adopted; /* the memory is the user's: it does not count as the pool's */
    char apart[64];

    uint64_t live_blocks, live_bytes, live_requested, pending_ranges;
    uint32_t
        stream; /* that all its pending ranges wait for; 0: none is pending; or TDM_STREAM_SEVERAL */
    struct tdm_slab *next, *previous;           /* all slabs, the newest first */
    struct tdm_slab *idle_next, *idle_previous; /* without live blocks, the longest idle first */
    char also_apart[64];                        /* from what lies behind it in host memory */
} tdm_slab;

/* What one arena holds, in bytes and in numbers, exact after every operation. Adopted memory is not counted. */
typedef struct tdm_arena_counters {
    uint64_t requested, allocated,
        live_blocks; /* live blocks; allocated: rounded, red zones included */
    uint64_t reserved, slabs;
    uint64_t pending, pending_ranges; /* free, with edges that are not known to have passed */
    uint64_t ready, ready_ranges;     /* free, without */
    uint64_t idle;                    /* of reserved: slabs without live blocks */
} tdm_arena_counters;

/* What happened so far. */
typedef struct tdm_pool_totals {
    uint64_t requested_bytes, allocated_bytes,
        freed_bytes; /* handed out; and given back, rounded */
    uint64_t splits, joins;
    uint64_t
        operations;   /* allocations and frees that did not have to wait, trim or ask for relief */
    uint64_t visited; /* ranges that these looked at */
    uint64_t visited_max; /* by one of them */
} tdm_pool_totals;

#define TDM_POOL_BRANCHES 8
/* Events that a branch keeps before it tells them. */
#define TDM_POOL_NOTES 64

/* Sums over all branches, in the order in which they were told: what the peaks of the statistics are of. */
typedef struct tdm_pool_levels {
    uint64_t requested, requested_peak;
    uint64_t allocated, allocated_peak;
    uint64_t pending;
} tdm_pool_levels;

/* What changed in a branch since it added that to the sums; less than 0 where more was freed. */
typedef struct tdm_pool_rise {
    int64_t requested, requested_peak;
    int64_t allocated, allocated_peak;
} tdm_pool_rise;

#define TDM_POOL_RETURNS 64

/*
 * Blocks that threads of other branches gave back: to be freed by whoever has the lock. They stand side by side, so that he can
 * fetch the headers of all before he needs the first, and where no place is free in a list linked by `next`.
 */
typedef struct tdm_pool_returns {
    atomic_uint brought, taken; /* so many blocks so far */
    _Atomic(tdm_block *) first;
    char apart[112];
    _Atomic(tdm_block *) slots[TDM_POOL_RETURNS];
    char also_apart[64]; /* from those of the next branch */
} tdm_pool_returns;

/* What only a root has. What all operations read is seldom written, and apart from what is. */
typedef struct tdm_pool_shared {
    _Atomic(tdm_pool *) branches[TDM_POOL_BRANCHES]; /* the root first; NULL: not made yet */
    atomic_bool branched;                            /* there are others than the root */
    atomic_int timed;                                /* listeners that note times */
    tdm_pool_listener
        *listeners; /* changed under the root's lock and both below, so that any guards reading */
    tdm_memory_account group; /* bytes reserved by all; the budget */
    _Atomic uint64_t
        reserved; /* by all, without what is on its way back, which counts in the group */
    _Atomic uint32_t throttle; /* tdm_pool_set_throttle; 0: off */
    _Atomic uint64_t patience_ns;
    _Atomic uint64_t reserved_high; /* most that was ever reserved */
    _Atomic uint64_t reserved_peak; /* most since tdm_pool_reset_peaks */
    char apart[128];

    _Atomic uint64_t lives, slab_numbers;
    pthread_mutex_t marks_lock; /* leaf: uses of live blocks */
    pthread_mutex_t
        tell_lock; /* leaf: where there are branches, the levels and calls of listeners */
    tdm_pool_levels levels;
    pthread_mutex_t release_lock; /* leaf: what follows */
    pthread_cond_t released;
    int releasing;     /* threads that give slabs back */
    uint64_t releases; /* that ended */
    char also_apart[128];

    tdm_pool_returns returns[TDM_POOL_BRANCHES];
} tdm_pool_shared;

struct tdm_pool {
    tdm_pool *root;          /* itself, where it is no branch */
    tdm_pool_shared *shared; /* of the root */
    tdm_pool_upstream upstream;
    uint64_t unit; /* sizes are multiples of it */
    unsigned unit_bits;
    uint64_t zone_before, zone_after; /* of each block, in debug mode */
    tdm_pool_returns *returns;        /* of the shared ones */
    char apart[64];                   /* from what the lock's holder writes */

    pthread_mutex_t lock;
    atomic_int crowd; /* not 0: threads have met at the lock lately */
    unsigned turns;   /* operations, to look at `returns` now and then */
    int note_count;
    uint64_t pending_told; /* of `pending` below, in the notes so far */
    tdm_pool_index free[TDM_ARENAS][TDM_LANES];
    tdm_slab *slabs;
    tdm_slab *leaving; /* given up by the thread that has the lock; NULL while nobody has */
    tdm_slab *idle_oldest, *idle_newest;
    tdm_block *pending_oldest, *pending_newest; /* all pending ranges */
    tdm_block *spare_headers;
    struct tdm_header_chunk *chunks; /* the newest first; headers of it are taken one by one */
    uint64_t headers_used;
    uint64_t visited; /* by the operation under way */
    /* What was counted here; of branches only sums over all say something, of their peaks nothing. */
    tdm_memory_stats stats;
    tdm_arena_counters counters[TDM_ARENAS];
    tdm_pool_totals totals;
    tdm_pool_rise rise;
    tdm_use stuck;            /* that a throttled allocation waited for in vain; sequence 0: none */
    uint64_t life, lives_end; /* numbers for the next lives */
    tdm_pool_event notes[TDM_POOL_NOTES];
};

static inline uint64_t tdm_pool_budget(const tdm_pool *pool) {
    return atomic_load_explicit(&pool->shared->group.bound, memory_order_relaxed);
}

/* Bytes of a branch that wait for streams. */
static inline uint64_t tdm_pool_pending(const tdm_pool *pool) {
    uint64_t bytes = 0;
    for (int i = 0; i < TDM_ARENAS; i++)
        bytes += pool->counters[i].pending;
    return bytes;
}

/* Of all branches. */
static inline uint64_t tdm_pool_reserved(const tdm_pool *pool) {
    return atomic_load_explicit(&pool->shared->reserved, memory_order_relaxed);
}

/* The same with what is on its way back. */
static inline uint64_t tdm_pool_held(const tdm_pool *pool) {
    return atomic_load_explicit(&pool->shared->group.reserved, memory_order_relaxed);
}

static inline uint64_t tdm_pool_leaving(const tdm_pool *pool) {
    const uint64_t reserved = tdm_pool_reserved(pool), held = tdm_pool_held(pool);
    return held > reserved ? held - reserved : 0;
}

static inline bool tdm_pool_branched(const tdm_pool *pool) {
    return atomic_load_explicit(&pool->shared->branched, memory_order_relaxed);
}

/* ---- pool_branch.c ----------------------------------------------------------------------------- */

/* Unlocking gives the slabs back that were given up meanwhile. Waiters spin, at growing distances, before they sleep: sections
 * are shorter than a switch of threads. */
void tdm_pool_lock(tdm_pool *pool);
bool tdm_pool_trylock(tdm_pool *pool);
void tdm_pool_unlock(tdm_pool *pool);

/* The branch that the calling thread allocates from, locked. Where it meets others too often it moves on, to a new branch. */
tdm_pool *tdm_pool_lock_home(tdm_pool *root, tdm_arena arena);
/* The branch that has the slab of a block that is given back, locked; NULL: the block was put on that branch's list. */
tdm_pool *tdm_pool_lock_for(tdm_block *block);

/* From now on the calling thread allocates from the next branch, which is made where there is none. Nothing is locked. */
tdm_pool *tdm_pool_next_home(tdm_pool *root);

/* The branch of a number, or NULL. */
tdm_pool *tdm_pool_branch(const tdm_pool *root, int number);
/* Lock all branches, free what was given back to them, tell what they noted: what is read then is exact. */
void tdm_pool_lock_all(tdm_pool *root);
void tdm_pool_unlock_all(tdm_pool *root);
/* Give the memory of all branches but the root back. Nothing lives. */
void tdm_pool_branches_free(tdm_pool *root);

/* Tell listeners, in time: with branches, after as many events as a branch can note. The pool is locked. */
void tdm_pool_tell(tdm_pool *pool, tdm_pool_event event);
/* The same in two steps, without copies: where to write the event, and that it is written. */
static inline tdm_pool_event *tdm_pool_event_place(tdm_pool *pool, tdm_pool_event *local) {
    return tdm_pool_branched(pool) ? &pool->notes[pool->note_count] : local;
}
void tdm_pool_tell_event(tdm_pool *pool, tdm_pool_event *event);
/* Tell what is noted, and add it to the sums. */
void tdm_pool_tell_notes(tdm_pool *pool);
/* Tell a use, with the marks locked. */
void tdm_pool_tell_use(const tdm_pool *pool, tdm_pool_event event);
/* Does anybody want to know? The pool is locked. */
static inline bool tdm_pool_told(const tdm_pool *pool) {
    return pool->shared->listeners != NULL;
}
/* An event that nobody wants to know of: with branches it is time for the sums now and then. */
static inline void tdm_pool_tell_nobody(tdm_pool *pool) {
    if (tdm_pool_branched(pool) && ++pool->note_count == TDM_POOL_NOTES)
        tdm_pool_tell_notes(pool);
}

/* ---- pool.c ------------------------------------------------------------------------------------ */

/* Free a block that is given back, its edges set, in the branch that has its slab, and is locked. */
void tdm_pool_free(tdm_pool *pool, tdm_block *block);
/* An event of a block that lives or did until now; the caller tells it. */
tdm_pool_event tdm_block_event(const tdm_block *block, tdm_pool_event_kind kind, uint32_t stream);

/* ---- pool_branch.c, blocks that come back ------------------------------------------------------- */

/* How many there are, about. */
static inline unsigned tdm_pool_returned(const tdm_pool_returns *returns) {
    return atomic_load_explicit(&returns->brought, memory_order_relaxed) -
           atomic_load_explicit(&returns->taken, memory_order_relaxed);
}
/* Leave a block to the branch that has its slab. */
void tdm_pool_put_back(tdm_block *block);
/* Free the blocks that threads of other branches gave back. The pool is locked. */
void tdm_pool_take_back(tdm_pool *pool);

/* ---- pool_find.c ------------------------------------------------------------------------------- */

/* An allocation under way. */
typedef struct tdm_pool_request {
    tdm_pool *pool; /* the branch it asks, locked */
    uint64_t bytes, units;
    uint32_t stream;
    tdm_arena arena;
    bool slow; /* it waited, trimmed or asked for relief */
} tdm_pool_request;

/* A free range of enough bytes, of whichever branch: `pool` is it then, and is locked, as `pool` is on failure too. */
tdm_status tdm_pool_find_memory(tdm_pool_request *request, tdm_block **range);

/* ---- pool_slab.c ------------------------------------------------------------------------------- */

/* A slab of one range, linked to the pool: ready and on offer, or in no list for a `single` slab. NULL without host
 * memory. */
tdm_slab *tdm_slab_new(tdm_pool *pool, const tdm_slab *form);
/* Give a slab up that has no live blocks and no pending ranges: it goes back when the pool is unlocked. */
void tdm_slab_release(tdm_pool *pool, tdm_slab *slab);
/* Hand a slab to another branch, with all that is in it; both are locked. */
void tdm_slab_move(tdm_slab *slab, tdm_pool *to);
static inline tdm_pool *tdm_slab_branch(const tdm_slab *slab) {
    return atomic_load_explicit(&slab->branch, memory_order_acquire);
}
/* As its `pool`, without a look at the header's second cache line, which another thread may have written. */
static inline tdm_pool *tdm_block_root(const tdm_block *block) {
    return tdm_slab_branch(block->slab)->root;
}

/* Take a free range out of the lists and cut it to `bytes`. False without host memory: nothing changed. */
bool tdm_range_take(tdm_pool *pool, tdm_block *range, uint64_t bytes);
/* The range's life has ended (its edges are set): offer it, joined with its free neighbours. */
void tdm_range_free(tdm_pool *pool, tdm_block *range);
/* Forget the edges of a pending range that have passed, `waited` (may be NULL) among them; what is ready then joins
 * its neighbours. False when it is pending still; when true, the header may be gone. */
bool tdm_range_settle(tdm_pool *pool, tdm_block *range, const tdm_use *waited);

/* The longest pending range becomes the one that was put there last. */
void tdm_pool_postpone_oldest(tdm_pool *pool);

/* Give the memory of all headers back: none is in use. */
void tdm_headers_free(tdm_pool *pool);

/* ---- pool_grow.c ------------------------------------------------------------------------------- */

/* New native memory with a ready range of ≥ `bytes`, on offer. */
tdm_status tdm_pool_grow(tdm_pool *pool, uint64_t bytes, tdm_block **range);
/* New native memory of one block. */
tdm_status tdm_pool_grow_single(tdm_pool *pool, uint64_t bytes, tdm_block **range);
/* Give idle slabs without pending ranges back, the longest idle first, while more than `keep` bytes are reserved.
 * Returns the bytes that went back. */
uint64_t tdm_pool_release_idle(tdm_pool *pool, uint64_t keep);
/* Also those of branches that nobody has locked. */
void tdm_pool_release_idle_nearby(tdm_pool *pool, uint64_t keep);
/* What may stay reserved for `bytes` more to fit the budget and the account. */
uint64_t tdm_pool_room_for(const tdm_pool *pool, uint64_t bytes);

/* ---- pool_grow.c, releases ---------------------------------------------------------------------- */

void tdm_pool_retire(tdm_pool *pool, tdm_slab *slab);
/* What was given up in another branch goes back when this one is unlocked. Both are locked. */
void tdm_pool_retire_with(tdm_pool *pool, tdm_pool *other);
/* Give back what was given up, unlocking the pool meanwhile, and no other branch locked. */
void tdm_pool_let_go(tdm_pool *pool);
/* How often memory went back. */
uint64_t tdm_pool_releases(const tdm_pool *pool);
/* Wait until it did more often than *seen, which is brought up to date, unlocking the pool meanwhile; false when nothing is on
 * its way. */
bool tdm_pool_await_release(tdm_pool *pool, uint64_t *seen);
/* Wait until memory went back as often as it is on its way now, by whomever. Nothing is locked. */
void tdm_pool_await_releases(tdm_pool *pool);

/* ---- pool_uses.c ------------------------------------------------------------------------------- */

/* A block's uses become the edges of its range. Waits only without host memory. The pool is not locked. */
void tdm_uses_end(tdm_block *block);
/* Wait for a block's edges and forget them. The pool is not locked. */
void tdm_edges_wait(tdm_block *block);
/* Make room for `capacity` edges. */
bool tdm_edges_reserve(tdm_block *range, int capacity);
void tdm_edges_drop(tdm_block *range);
/* Do the edges of both name the same streams? */
bool tdm_edges_agree(const tdm_block *a, const tdm_block *b);
/* Take the edges of `other` over; both agree, or one has none, or both have one of the same stream. */
void tdm_edges_merge(tdm_block *range, tdm_block *other);
bool tdm_edges_passed(const tdm_pool *pool, const tdm_block *range);
/* Forget the edges that have passed, and `waited`. */
void tdm_edges_prune(tdm_pool *pool, tdm_block *range, const tdm_use *waited);

/* Look at up to `count` pending ranges, the longest pending first, whether they are ready. */
void tdm_pool_settle(tdm_pool *pool, uint64_t count);
/* Wait for an edge of the longest pending range, unlocking the pool meanwhile; false when none is pending. */
bool tdm_pool_wait_once(tdm_pool *pool);
/* As above for a throttled allocation: false too where the wait was in vain, or an earlier one was and its command has not
 * passed yet. */
bool tdm_pool_wait_briefly(tdm_pool *pool);
/* The edges of all pending ranges: so often there is something to wait for, unless more comes. */
uint64_t tdm_pool_pending_edges(const tdm_pool *pool);
/* Wait for what is pending now. */
void tdm_pool_wait_all(tdm_pool *pool);

/* ---- pool_visit.c ------------------------------------------------------------------------------ */

/* Set the detail of a refused allocation: the numbers, the holders, and what was said before. Nothing is locked. */
tdm_status tdm_pool_refuse(tdm_pool *root, tdm_status status, uint64_t bytes);
/* Sums over the branches. */
tdm_pool_totals tdm_pool_totals_now(tdm_pool *root);

#endif
