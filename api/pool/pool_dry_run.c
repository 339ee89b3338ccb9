/* A copy of a pool's bookkeeping for a dry run; pool_dry_run.h describes it. */
#include <stdlib.h>
#include <string.h>

#include "api/pool/pool_dry_run.h"
#include "api/pool/pool_internal.h"

/* An object of the pool and its copy. */
typedef struct copied_object {
    const void *original;
    void *copy;
} copied_object;

struct tdm_pool_dry_run {
    /* copy of the root; free ranges of per-thread caches in slabs with live blocks are left out */
    tdm_pool *pool;
    tdm_pool_shared shared;
    tdm_pool_upstream original;
    tdm_memory_account account;
    tdm_dry_run_limits limits;
    tdm_block *headers;
    copied_object *copies; /* copies of the ranges and slabs, by address of the original */
    size_t copy_count;
    uint64_t reserved_before, native;
    tdm_use *waited; /* one per stream */
    int waited_count, waited_capacity;
    bool all_waited; /* no host memory for the list: every wait covers all commands */
};

/* ---- the upstream of the copy ---------------------------------------------------------------- */

static tdm_status count_native(void *user, size_t bytes, tdm_bk_memory **memory) {
    tdm_pool_dry_run *const r = user;
    const uint64_t now = r->pool->stats.reserved + bytes;
    if (now > r->reserved_before && now - r->reserved_before > r->limits.native_free)
        return tdm_fail(TDM_OUT_OF_DEVICE_MEMORY, "more than the device's free memory");
    r->native += bytes;
    *memory = (tdm_bk_memory *)(void *)r;
    return TDM_OK;
}

static void count_release(void *user, tdm_bk_memory *memory) {
    (void)user;
    (void)memory;
}

static bool has_passed(void *user, tdm_use use) {
    const tdm_pool_dry_run *const r = user;
    for (int i = 0; i < r->waited_count; i++)
        if (r->waited[i].stream == use.stream && r->waited[i].sequence >= use.sequence)
            return true;
    return r->all_waited || r->original.passed(r->original.user, use);
}

static bool is_gone(void *user, uint32_t stream) {
    const tdm_pool_dry_run *const r = user;
    return r->original.gone(r->original.user, stream);
}

static void poll_nothing(void *user) {
    (void)user;
}

/* A wait in the real pool would end, so here it ends at once. */
static void note_wait(void *user, tdm_use use) {
    tdm_pool_dry_run *const r = user;
    int i = 0;
    while (i < r->waited_count && r->waited[i].stream != use.stream)
        i++;
    if (i == r->waited_capacity) {
        const int capacity = i ? 2 * i : 8;
        tdm_use *const larger = tdm_host_realloc(r->waited, (size_t)i * sizeof *larger,
                                                 (size_t)capacity * sizeof *larger);
        if (!larger) {
            r->all_waited = true;
            return;
        }
        r->waited = larger;
        r->waited_capacity = capacity;
    }
    if (i == r->waited_count)
        r->waited[r->waited_count++] = use;
    else if (r->waited[i].sequence < use.sequence)
        r->waited[i].sequence = use.sequence;
}

static bool take_relief(void *user, uint64_t bytes, int attempt) {
    (void)bytes;
    tdm_pool_dry_run *const r = user;
    const uint64_t relief = r->limits.relief;
    if (attempt > 0 || relief == 0)
        return false;
    r->limits.relief = 0;
    tdm_memory_account_give(&r->account, relief);
    if (r->limits.native_free < UINT64_MAX - relief)
        r->limits.native_free += relief;
    return true;
}

/* ---- copy ------------------------------------------------------------------------------------ */

static int by_address(const void *a, const void *b) {
    const uintptr_t x = (uintptr_t)((const copied_object *)a)->original;
    const uintptr_t y = (uintptr_t)((const copied_object *)b)->original;
    return x < y ? -1 : x > y;
}

static void *copy_of(const tdm_pool_dry_run *r, const void *original) {
    const copied_object key = {.original = original};
    const copied_object *const found =
        original ? bsearch(&key, r->copies, r->copy_count, sizeof key, by_address) : NULL;
    return found ? found->copy : NULL;
}

static void note_copy(tdm_pool_dry_run *r, const void *original, void *copy) {
    r->copies[r->copy_count++] = (copied_object){original, copy};
}

static bool copy_dependencies(const tdm_block *from, tdm_block *to) {
    to->dependencies = to->inline_dependencies;
    to->dependency_capacity = TDM_INLINE_USES;
    to->dependency_count = 0;
    if (!tdm_dependencies_reserve(to, from->dependency_count))
        return false;
    memcpy(to->dependencies, from->dependencies, from->dependency_count * sizeof *to->dependencies);
    to->dependency_count = from->dependency_count;
    return true;
}

/* Holders of a live block change its uses and dependencies without the pool's lock. */
static void copy_live(const tdm_block *from, tdm_block *to) {
    to->state = TDM_RANGE_LIVE;
    to->memory = from->memory;
    to->offset = from->offset;
    to->size = from->size;
    to->requested = from->requested;
    to->generation = from->generation;
    to->tag = from->tag;
    to->dependencies = to->inline_dependencies;
    to->dependency_capacity = TDM_INLINE_USES;
}

static bool copy_range(const tdm_block *from, tdm_block *to) {
    if (from->state == TDM_RANGE_LIVE) {
        copy_live(from, to);
        return true;
    }
    *to = *from;
    return copy_dependencies(from, to);
}

static void drop_slab(tdm_slab *slab) {
    for (tdm_block *range = slab->first; range; range = range->after)
        tdm_dependencies_drop(range);
    tdm_host_free(slab);
}

/* Copies the slab, its ranges and their links. List links still point to the originals. */
static tdm_slab *copy_slab(tdm_pool_dry_run *r, const tdm_slab *from, size_t *used) {
    tdm_slab *const slab = tdm_host_alloc(sizeof *slab);
    if (!slab)
        return NULL;
    *slab = *from;
    atomic_store(&slab->thread_cache, r->pool);
    slab->first = NULL;
    slab->next = slab->previous = NULL;
    note_copy(r, from, slab);
    tdm_block *before = NULL;
    for (const tdm_block *range = from->first; range; range = range->after) {
        tdm_block *const copy = &r->headers[(*used)++];
        const bool copied = copy_range(range, copy);
        copy->pool = r->pool;
        copy->slab = slab;
        copy->before = before;
        copy->after = NULL;
        *(before ? &before->after : &slab->first) = copy;
        before = copy;
        note_copy(r, range, copy);
        if (!copied) {
            drop_slab(slab);
            return NULL;
        }
    }
    return slab;
}

static bool copy_slabs(tdm_pool_dry_run *r, const tdm_pool *from) {
    tdm_slab *last = NULL;
    size_t used = 0;
    for (const tdm_slab *each = from->slabs; each; each = each->next) {
        if (each->adopted)
            continue;
        tdm_slab *const slab = copy_slab(r, each, &used);
        if (!slab)
            return false;
        slab->previous = last;
        *(last ? &last->next : &r->pool->slabs) = slab;
        last = slab;
    }
    return true;
}

static void relink_slab(const tdm_pool_dry_run *r, tdm_slab *slab) {
    slab->idle_next = slab->live_blocks ? NULL : copy_of(r, slab->idle_next);
    slab->idle_previous = slab->live_blocks ? NULL : copy_of(r, slab->idle_previous);
    for (tdm_block *range = slab->first; range; range = range->after) {
        if (range->state == TDM_RANGE_LIVE)
            continue;
        range->next = copy_of(r, range->next);
        range->previous = copy_of(r, range->previous);
        if (range->state == TDM_RANGE_PENDING) {
            range->as.queue.older = copy_of(r, range->as.queue.older);
            range->as.queue.newer = copy_of(r, range->as.queue.newer);
        }
    }
}

static void relink_index(const tdm_pool_dry_run *r, tdm_pool_index *index) {
    for (int octave = 0; octave < TDM_INDEX_OCTAVES; octave++)
        for (int step = 0; index->steps[octave] && step < TDM_INDEX_STEPS; step++)
            index->heads[octave][step] = copy_of(r, index->heads[octave][step]);
}

static void relink(const tdm_pool_dry_run *r, const tdm_pool *from) {
    tdm_pool *const pool = r->pool;
    for (tdm_slab *slab = pool->slabs; slab; slab = slab->next)
        relink_slab(r, slab);
    for (int i = 0; i < TDM_SIZE_CLASSES * TDM_LANES; i++)
        relink_index(r, &pool->free[i / TDM_LANES][i % TDM_LANES]);
    pool->idle_oldest = copy_of(r, from->idle_oldest);
    pool->idle_newest = copy_of(r, from->idle_newest);
    pool->pending_oldest = copy_of(r, from->pending_oldest);
    pool->pending_newest = copy_of(r, from->pending_newest);
}

static void set_upstream(tdm_pool_dry_run *r, const tdm_pool *from) {
    tdm_pool_upstream *const upstream = &r->pool->upstream;
    r->original = from->upstream;
    upstream->user = r;
    upstream->allocate = count_native;
    upstream->release = count_release;
    upstream->passed = has_passed;
    upstream->gone = is_gone;
    upstream->poll = poll_nothing;
    upstream->wait = note_wait;
    upstream->wait_briefly = NULL;
    upstream->relieve = take_relief;
    upstream->debug = NULL;
    if (!upstream->account)
        return;
    atomic_store(&r->account.reserved,
                 atomic_load(&from->upstream.account->reserved) - tdm_pool_leaving(from));
    atomic_store(&r->account.bound, atomic_load(&from->upstream.account->bound));
    upstream->account = &r->account;
    // Other pools may have shrunk since the limits were read.
    const uint64_t reserved = atomic_load(&r->account.reserved);
    const uint64_t others = reserved > r->reserved_before ? reserved - r->reserved_before : 0;
    if (r->limits.relief > others)
        r->limits.relief = others;
}

/* The pool is locked. */
static bool copy_pool(tdm_pool_dry_run *r, const tdm_pool *from) {
    size_t slabs = 0, ranges = 1;
    for (const tdm_slab *slab = from->slabs; slab; slab = slab->next, slabs++)
        for (const tdm_block *range = slab->first; range; range = range->after)
            ranges++;
    r->pool = tdm_host_alloc(sizeof *r->pool);
    r->headers = tdm_host_calloc(ranges, sizeof *r->headers);
    r->copies = tdm_host_calloc(ranges + slabs, sizeof *r->copies);
    if (!r->pool)
        return false;
    *r->pool = *from;
    pthread_mutex_init(&r->pool->lock, NULL);
    pthread_mutex_init(&r->shared.fences_lock, NULL);
    pthread_mutex_init(&r->shared.notify_lock, NULL);
    pthread_mutex_init(&r->shared.release_lock, NULL);
    pthread_cond_init(&r->shared.released, NULL);
    r->pool->root = r->pool;
    r->pool->shared = &r->shared;
    r->pool->remote_frees = r->shared.remote_frees;
    atomic_store(&r->shared.thread_caches[0], r->pool);
    atomic_store(&r->shared.reserved, tdm_pool_reserved(from));
    atomic_store(&r->shared.group.reserved, tdm_pool_reserved(from));
    atomic_store(&r->shared.group.bound, tdm_pool_budget(from));
    atomic_store(&r->shared.reserved_high, atomic_load(&from->shared->reserved_high));
    r->pool->slabs = NULL;
    r->pool->spare_headers = NULL;
    r->pool->chunks = NULL;
    r->reserved_before = tdm_pool_reserved(from);
    r->pool->stats.reserved = r->reserved_before;
    for (int i = 1; i < TDM_POOL_THREAD_CACHES; i++)
        if (tdm_pool_thread_cache(from, i))
            r->pool->stats.allocated += tdm_pool_thread_cache(from, i)->stats.allocated;
    if (!r->headers || !r->copies || !copy_slabs(r, from))
        return false;
    qsort(r->copies, r->copy_count, sizeof *r->copies, by_address);
    relink(r, from);
    set_upstream(r, from);
    return true;
}

/* Moves idle slabs of the per-thread caches to the root. All are locked. */
static void take_idle_slabs(tdm_pool *root) {
    for (int i = 1; i < TDM_POOL_THREAD_CACHES; i++) {
        tdm_pool *const thread_cache = tdm_pool_thread_cache(root, i);
        for (tdm_slab *slab = thread_cache ? thread_cache->idle_oldest : NULL, *next; slab;
             slab = next) {
            next = slab->idle_next;
            if (slab->pending_ranges == 0)
                tdm_slab_move(slab, root);
        }
    }
}

tdm_status tdm_dry_run_begin(tdm_pool *pool, const tdm_dry_run_limits *limits,
                             tdm_pool_dry_run **dry_run) {
    *dry_run = NULL;
    tdm_pool_dry_run *const r = tdm_host_calloc(1, sizeof *r);
    if (!r)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "no host memory for a dry run");
    r->limits = *limits;
    tdm_pool_lock_all(pool);
    pool->upstream.poll(pool->upstream.user);
    take_idle_slabs(pool);
    const bool copied = copy_pool(r, pool);
    tdm_pool_unlock_all(pool);
    if (!copied) {
        tdm_dry_run_end(r);
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "no host memory for a dry run");
    }
    *dry_run = r;
    return TDM_OK;
}

void tdm_dry_run_end(tdm_pool_dry_run *dry_run) {
    if (!dry_run)
        return;
    tdm_pool *const pool = dry_run->pool;
    for (tdm_slab *slab = pool ? pool->slabs : NULL, *next; slab; slab = next) {
        next = slab->next;
        for (tdm_block *range = slab->first; range; range = range->after)
            tdm_dependencies_drop(range);
        tdm_host_free(slab);
    }
    if (pool) {
        tdm_headers_free(pool);
        pthread_mutex_destroy(&pool->lock);
        pthread_mutex_destroy(&dry_run->shared.fences_lock);
        pthread_mutex_destroy(&dry_run->shared.notify_lock);
        pthread_mutex_destroy(&dry_run->shared.release_lock);
        pthread_cond_destroy(&dry_run->shared.released);
    }
    tdm_host_free(pool);
    tdm_host_free(dry_run->headers);
    tdm_host_free(dry_run->copies);
    tdm_host_free(dry_run->waited);
    tdm_host_free(dry_run);
}

/* ---- queries --------------------------------------------------------------------------------- */

tdm_status tdm_dry_run_alloc(tdm_pool_dry_run *dry_run, size_t bytes, uint32_t stream,
                             uint64_t *rounded, uint64_t *grown) {
    tdm_pool *const pool = dry_run->pool;
    const uint64_t native = dry_run->native;
    tdm_block *block;
    const tdm_status status = tdm_pool_alloc(pool, bytes, stream, &block);
    const uint64_t wanted = (bytes ? bytes : 1) + pool->zone_before + pool->zone_after;
    *rounded = bytes > TDM_POOL_LARGEST ? bytes : (wanted + pool->unit - 1) & ~(pool->unit - 1);
    *grown = status == TDM_OK && dry_run->native != native ? *rounded : 0;
    return status;
}

uint64_t tdm_dry_run_native(const tdm_pool_dry_run *dry_run) {
    return dry_run->native;
}

uint64_t tdm_dry_run_room(const tdm_pool_dry_run *dry_run) {
    const tdm_pool *const pool = dry_run->pool;
    const uint64_t reserved = pool->stats.reserved, allocated = pool->stats.allocated;
    uint64_t most = tdm_pool_budget(pool);
    if (pool->upstream.account) {
        const uint64_t others = atomic_load(&dry_run->account.reserved) - reserved;
        const uint64_t left = others > dry_run->limits.relief ? others - dry_run->limits.relief : 0;
        const uint64_t bound = atomic_load(&dry_run->account.bound);
        const uint64_t shared = bound > left ? bound - left : 0;
        most = most < shared ? most : shared;
    }
    const uint64_t native = dry_run->limits.native_free;
    if (native < UINT64_MAX - reserved - dry_run->limits.relief &&
        most > reserved + native + dry_run->limits.relief)
        most = reserved + native + dry_run->limits.relief;
    return most > allocated ? most - allocated : 0;
}
