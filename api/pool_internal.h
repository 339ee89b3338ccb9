/*
 * What the files of the pool share.
 *
 *     pool.c          allocation and its ladder, release, statistics, create and destroy
 *     pool_slab.c     headers, slabs, ranges: split, join, free
 *     pool_grow.c     how much native memory to take, and when to give it back
 *     pool_release.c  native memory on its way back
 *     pool_uses.c     uses of live blocks, edges of free ranges, waiting
 *     pool_index.c    free ranges by size
 *     pool_visit.c    walking a pool, holders, the sentence of a failure
 *
 * Functions named *_locked and everything that takes ranges or slabs need the pool's lock.
 */
#ifndef TANDEM_API_POOL_INTERNAL_H
#define TANDEM_API_POOL_INTERNAL_H

#include "api/core.h"
#include "api/pool_index.h"

#define TDM_POOL_UNIT 256u
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

typedef struct tdm_slab {
    tdm_bk_memory *memory;
    uint64_t bytes;
    uint64_t number;
    tdm_block *first;
    uint64_t live_blocks, live_bytes, pending_ranges;
    uint32_t
        stream; /* that all its pending ranges wait for; 0: none is pending; or TDM_STREAM_SEVERAL */
    tdm_arena arena;
    bool single;  /* one block, never cached */
    bool adopted; /* the memory is the user's: it does not count as the pool's */
    struct tdm_slab *next, *previous;           /* all slabs, the newest first */
    struct tdm_slab *idle_next, *idle_previous; /* without live blocks, the longest idle first */
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

struct tdm_pool {
    pthread_mutex_t lock;
    atomic_int crowd;           /* not 0: threads have met at the lock lately */
    pthread_mutex_t marks_lock; /* leaf: uses of live blocks */
    tdm_pool_upstream upstream;
    uint64_t budget;
    uint64_t unit; /* sizes are multiples of it */
    unsigned unit_bits;
    uint64_t zone_before, zone_after; /* of each block, in debug mode */
    tdm_pool_index free[TDM_ARENAS][TDM_LANES];
    tdm_slab *slabs;
    tdm_slab *leaving;      /* given up by the thread that has the lock; NULL while nobody has */
    uint64_t leaving_bytes; /* not reserved any more, and not back yet */
    int releasing;          /* threads that give slabs back, unlocked */
    pthread_cond_t released;
    tdm_slab *idle_oldest, *idle_newest;
    tdm_block *pending_oldest, *pending_newest; /* all pending ranges */
    tdm_block *spare_headers;
    struct tdm_header_chunk *chunks; /* the newest first; headers of it are taken one by one */
    uint64_t headers_used;
    uint64_t reserved_high; /* most that was ever reserved */
    uint64_t visited;       /* by the operation under way */
    tdm_memory_stats stats; /* what the counters below do not say */
    tdm_arena_counters counters[TDM_ARENAS];
    tdm_pool_totals totals;
    uint64_t lives, slab_numbers;
    tdm_pool_listener *listeners; /* changed under both locks, so that either guards reading */
};

/* Unlocking gives the slabs back that were given up meanwhile. Waiters spin, at growing distances, before they sleep: sections are shorter than a switch of threads. */
void tdm_pool_lock(tdm_pool *pool);
void tdm_pool_unlock(tdm_pool *pool);

void tdm_pool_tell(const tdm_pool *pool, tdm_pool_event event);
/* An event of a block that lives or did until now; the caller tells it. */
tdm_pool_event tdm_block_event(const tdm_block *block, tdm_pool_event_kind kind, uint32_t stream);

/* ---- pool_slab.c ------------------------------------------------------------------------------- */

/* A slab of one range, linked to the pool: ready and on offer, or in no list for a `single` slab. NULL without host
 * memory. */
tdm_slab *tdm_slab_new(tdm_pool *pool, const tdm_slab *form);
/* Give a slab up that has no live blocks and no pending ranges: it goes back when the pool is unlocked. */
void tdm_slab_release(tdm_pool *pool, tdm_slab *slab);

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
/* What may stay reserved for `bytes` more to fit the budget and the account. */
uint64_t tdm_pool_room_for(const tdm_pool *pool, uint64_t bytes);

/* ---- pool_release.c ---------------------------------------------------------------------------- */

void tdm_pool_retire(tdm_pool *pool, tdm_slab *slab);
/* Give back what was given up, unlocking the pool meanwhile. */
void tdm_pool_let_go(tdm_pool *pool);
/* Wait until more has gone back, unlocking the pool meanwhile; false when nothing is on its way. */
bool tdm_pool_await_release(tdm_pool *pool);

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
/* The edges of all pending ranges: so often there is something to wait for, unless more comes. */
uint64_t tdm_pool_pending_edges(const tdm_pool *pool);
/* Wait for what is pending now. */
void tdm_pool_wait_all(tdm_pool *pool);

/* ---- pool_visit.c ------------------------------------------------------------------------------ */

/* Set the detail of a refused allocation: the numbers, the holders, and what was said before. */
tdm_status tdm_pool_refuse(tdm_pool *pool, tdm_status status, uint64_t bytes);

#endif
