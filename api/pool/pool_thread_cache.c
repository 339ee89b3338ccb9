/*
 * Locks of a pool, per-thread caches (`thread_cache` in names), and calls of listeners.
 *
 * With several caches an operation writes nothing that another cache reads, not even the sums that
 * peaks are taken from. It buffers its event if there are listeners.
 *
 * Every few dozen operations the cache adds its changes to the sums and notifies the listeners,
 * under one lock for all caches. Therefore events of one cache, and so of one block, arrive in the
 * order in which they happened.
 */
#include "api/pool/pool_internal.h"

/* ---- locks ----------------------------------------------------------------------------------- */

static inline void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* Pause instructions between two attempts to take a lock: the first interval, the first interval
 * under frequent contention, and the last interval before the thread sleeps. */
#define SHORT_WAIT 16
#define LONG_WAIT 512
#define LONGEST_WAIT 16384
/* One contention counts as CONTENTION_STEP, and each operation without contention subtracts one.
 * MAX_LOCK_CONTENTION is the largest sum. From CONTENDED on, contention is frequent. */
#define CONTENTION_STEP 400
#define MAX_LOCK_CONTENTION 1600
#define CONTENDED 1000

bool tdm_pool_trylock(tdm_pool *pool) {
    if (pthread_mutex_trylock(&pool->lock) != 0)
        return false;
    const int lock_contention = atomic_load_explicit(&pool->lock_contention, memory_order_relaxed);
    if (lock_contention)
        atomic_store_explicit(&pool->lock_contention, lock_contention - 1, memory_order_relaxed);
    return true;
}

static bool is_contended(const tdm_pool *pool) {
    return atomic_load_explicit(&pool->lock_contention, memory_order_relaxed) >= CONTENDED;
}

/* Records that the calling thread contended for the lock, which it now holds. */
static void note_meeting(tdm_pool *pool) {
    const int lock_contention =
        atomic_load_explicit(&pool->lock_contention, memory_order_relaxed) + CONTENTION_STEP;
    atomic_store_explicit(&pool->lock_contention,
                          lock_contention < MAX_LOCK_CONTENTION ? lock_contention
                                                                : MAX_LOCK_CONTENTION,
                          memory_order_relaxed);
}

/*
 * Passing the lock to another core costs as much as tens of operations, because the pool's cache
 * lines move with it. Under frequent contention each thread should do many operations in a row.
 * Therefore waits are long then, and the lock is not polled during a wait.
 */
static void wait_for_lock(tdm_pool *pool) {
    for (int wait = is_contended(pool) ? LONG_WAIT : SHORT_WAIT; wait <= LONGEST_WAIT; wait *= 4) {
        for (int i = 0; i < wait; i++)
            relax();
        if (pthread_mutex_trylock(&pool->lock) == 0) {
            note_meeting(pool);
            return;
        }
    }
    pthread_mutex_lock(&pool->lock);
    note_meeting(pool);
}

void tdm_pool_lock(tdm_pool *pool) {
    if (!tdm_pool_trylock(pool))
        wait_for_lock(pool);
}

void tdm_pool_unlock(tdm_pool *pool) {
    tdm_pool_let_go(pool);
    pthread_mutex_unlock(&pool->lock);
}

/* ---- per-thread caches ----------------------------------------------------------------------- */

/* Limits of a remote-free list. From SHORT_LIST blocks on, a thread that adds one frees the list if
 * it gets the lock. From LONG_LIST on, it waits for the lock. */
#define SHORT_LIST TDM_POOL_REMOTE_FREE_SLOTS
#define LONG_LIST 256
/* Operations between two checks of the remote-free list. */
#define TURNS 32

/* The cache number of this thread in every pool. A pool without that cache uses its root. */
static _Thread_local int home_number;

tdm_pool *tdm_pool_thread_cache(const tdm_pool *root, int number) {
    return atomic_load_explicit(&root->shared->thread_caches[number], memory_order_acquire);
}

static tdm_pool *home_of(tdm_pool *root) {
    if (!tdm_pool_has_thread_caches(root))
        return root;
    tdm_pool *const home = tdm_pool_thread_cache(root, home_number);
    return home ? home : root;
}

static tdm_pool *new_thread_cache(tdm_pool *root, int number) {
    tdm_pool *const thread_cache = tdm_host_calloc(1, sizeof *thread_cache);
    if (!thread_cache)
        return NULL;
    thread_cache->root = root;
    thread_cache->shared = root->shared;
    thread_cache->remote_frees = &root->shared->remote_frees[number];
    thread_cache->upstream = root->upstream;
    thread_cache->unit = root->unit;
    thread_cache->unit_bits = root->unit_bits;
    pthread_mutex_init(&thread_cache->lock, NULL);
    return thread_cache;
}

/* Returns or creates the cache with that number. Returns the root if host memory is short. */
static tdm_pool *make_thread_cache(tdm_pool *root, int number) {
    tdm_pool_lock(root);
    tdm_pool *thread_cache = tdm_pool_thread_cache(root, number);
    if (!thread_cache && (thread_cache = new_thread_cache(root, number)) != NULL) {
        atomic_store_explicit(&root->shared->thread_caches[number], thread_cache,
                              memory_order_release);
        atomic_store(&root->shared->has_thread_caches, true);
    }
    tdm_pool_unlock(root);
    return thread_cache ? thread_cache : root;
}

/* True if the calling thread, which contended for its cache, should move to another one. */
static bool moves_on(const tdm_pool *pool) {
    return is_contended(pool) && !pool->upstream.direct && !pool->upstream.debug;
}

tdm_pool *tdm_pool_next_home(tdm_pool *root) {
    home_number = (home_number + 1) % TDM_POOL_THREAD_CACHES;
    return make_thread_cache(root, home_number);
}

static void take_turn(tdm_pool *pool) {
    if (++pool->turns % TURNS == 0)
        tdm_pool_take_back(pool);
}

tdm_pool *tdm_pool_lock_home(tdm_pool *root, tdm_size_class size_class) {
    tdm_pool *pool = size_class == TDM_SIZE_CLASS_SMALL ? home_of(root) : root;
    if (!tdm_pool_trylock(pool)) {
        const bool moves = size_class == TDM_SIZE_CLASS_SMALL && moves_on(pool);
        if (moves)
            pool = tdm_pool_next_home(root);
        if (!moves || !tdm_pool_trylock(pool))
            wait_for_lock(pool);
    }
    take_turn(pool);
    return pool;
}

/*
 * True if the block may go on the list of another thread's cache. False if the list has
 * LONG_LIST blocks, or SHORT_LIST and the cache's lock was free. The cache is then locked when
 * this returns.
 */
static bool goes_on_list(tdm_pool *thread_cache) {
    const unsigned count = tdm_pool_returned(thread_cache->remote_frees);
    if (count >= LONG_LIST)
        tdm_pool_lock(thread_cache);
    else if (count < SHORT_LIST || !tdm_pool_trylock(thread_cache))
        return true;
    tdm_pool_take_back(thread_cache);
    return false;
}

static void lock_own(tdm_pool *root, tdm_pool *thread_cache, bool small) {
    if (tdm_pool_trylock(thread_cache)) {
        take_turn(thread_cache);
        return;
    }
    if (small && home_of(root) == thread_cache && moves_on(thread_cache))
        tdm_pool_next_home(root);
    wait_for_lock(thread_cache);
    take_turn(thread_cache);
}

tdm_pool *tdm_pool_lock_for(tdm_block *block) {
    tdm_pool *const root = tdm_block_root(block);
    const bool small = block->slab->size_class == TDM_SIZE_CLASS_SMALL;
    for (;;) {
        tdm_pool *const thread_cache = tdm_slab_thread_cache(block->slab);
        const bool others = small && tdm_pool_has_thread_caches(root) &&
                            home_of(root) != thread_cache &&
                            atomic_load_explicit(&root->shared->timed, memory_order_relaxed) == 0;
        if (!others) {
            lock_own(root, thread_cache, small);
        } else if (goes_on_list(thread_cache)) {
            tdm_pool_put_back(block);
            return NULL;
        }
        if (tdm_slab_thread_cache(block->slab) == thread_cache)
            return thread_cache;
        tdm_pool_unlock(thread_cache);
    }
}

/* Empties the remote-free lists of all caches, which are locked. A block whose slab moved goes to
 * the list of the new owner, where the second round finds it. */
static void take_back_all(const tdm_pool *root) {
    for (int i = 0; i < 2 * TDM_POOL_THREAD_CACHES; i++)
        if (tdm_pool_thread_cache(root, i % TDM_POOL_THREAD_CACHES))
            tdm_pool_take_back(tdm_pool_thread_cache(root, i % TDM_POOL_THREAD_CACHES));
}

void tdm_pool_lock_all(tdm_pool *root) {
    tdm_pool_lock(root);
    // No cache is created while the root is locked.
    for (int i = 1; i < TDM_POOL_THREAD_CACHES; i++)
        if (tdm_pool_thread_cache(root, i))
            tdm_pool_lock(tdm_pool_thread_cache(root, i));
    take_back_all(root);
    for (int i = 0; i < TDM_POOL_THREAD_CACHES; i++)
        if (tdm_pool_thread_cache(root, i))
            tdm_pool_notify_notes(tdm_pool_thread_cache(root, i));
}

void tdm_pool_unlock_all(tdm_pool *root) {
    for (int i = TDM_POOL_THREAD_CACHES - 1; i >= 0; i--)
        if (tdm_pool_thread_cache(root, i))
            tdm_pool_unlock(tdm_pool_thread_cache(root, i));
}

void tdm_pool_thread_caches_free(tdm_pool *root) {
    for (int i = 1; i < TDM_POOL_THREAD_CACHES; i++) {
        tdm_pool *const thread_cache = tdm_pool_thread_cache(root, i);
        if (!thread_cache)
            continue;
        tdm_headers_free(thread_cache);
        pthread_mutex_destroy(&thread_cache->lock);
        tdm_host_free(thread_cache);
    }
}

void tdm_pool_catch_up(tdm_pool *pool) {
    if (!tdm_pool_has_thread_caches(pool))
        return;
    tdm_pool_lock_all(pool);
    tdm_pool_unlock_all(pool);
}

/* ---- listeners ------------------------------------------------------------------------------- */

/* Takes all locks that protect the list of listeners. */
static void lock_listeners(tdm_pool *root) {
    tdm_pool_lock_all(root);
    pthread_mutex_lock(&root->shared->notify_lock);
    pthread_mutex_lock(&root->shared->fences_lock);
}

static void unlock_listeners(tdm_pool *root) {
    pthread_mutex_unlock(&root->shared->fences_lock);
    pthread_mutex_unlock(&root->shared->notify_lock);
    tdm_pool_unlock_all(root);
}

void tdm_pool_listen(tdm_pool *pool, tdm_pool_listener *listener) {
    lock_listeners(pool);
    listener->next = pool->shared->listeners;
    pool->shared->listeners = listener;
    atomic_fetch_add(&pool->shared->timed, listener->timed);
    unlock_listeners(pool);
}

void tdm_pool_unlisten(tdm_pool *pool, tdm_pool_listener *listener) {
    lock_listeners(pool);
    tdm_pool_listener **link = &pool->shared->listeners;
    while (*link && *link != listener)
        link = &(*link)->next;
    if (*link) {
        *link = listener->next;
        atomic_fetch_sub(&pool->shared->timed, listener->timed);
    }
    unlock_listeners(pool);
}

/* From this many events on, a cache reports them if the lock is free. */
#define SOME_NOTES (TDM_POOL_NOTES * 3 / 4)

static void notify_now(const tdm_pool *pool, const tdm_pool_event *event) {
    for (const tdm_pool_listener *each = pool->shared->listeners; each; each = each->next)
        each->event(each->user, event);
}

void tdm_pool_notify_use(const tdm_pool *pool, tdm_pool_event event) {
    notify_now(pool, &event);
}

/* Reports all buffered events. Their `pending` is the change in this cache, and becomes the sum
 * over all caches. `notify_lock` is locked. */
static void tell_each_note(tdm_pool *pool) {
    uint64_t *const pending = &pool->shared->levels.pending;
    for (int i = 0; i < pool->note_count; i++) {
        *pending += pool->notes[i].pending;
        pool->notes[i].pending = *pending;
    }
    for (const tdm_pool_listener *each = pool->shared->listeners; each; each = each->next) {
        if (each->events)
            each->events(each->user, pool->notes, pool->note_count);
        for (int i = 0; !each->events && i < pool->note_count; i++)
            each->event(each->user, &pool->notes[i]);
    }
}

static void add_level(uint64_t *level, uint64_t *peak, int64_t *change, int64_t *highest) {
    const uint64_t high = *level + (uint64_t)*highest;
    *peak = high > *peak ? high : *peak;
    *level += (uint64_t)*change;
    *change = *highest = 0;
}

/* `notify_lock` is locked. */
static void sum_up(tdm_pool *pool) {
    tdm_pool_levels *const levels = &pool->shared->levels;
    tdm_pool_rise *const rise = &pool->rise;
    const uint64_t pending = tdm_pool_pending(pool);
    add_level(&levels->requested, &levels->requested_peak, &rise->requested, &rise->requested_peak);
    add_level(&levels->allocated, &levels->allocated_peak, &rise->allocated, &rise->allocated_peak);
    levels->pending += pending - pool->pending_is_known;
    pool->pending_is_known = pending;
}

/* `notify_lock` is locked on entry and unlocked on return. */
static void notify_and_unlock(tdm_pool *pool) {
    if (tdm_pool_has_listeners(pool))
        tell_each_note(pool);
    pool->note_count = 0;
    sum_up(pool);
    pthread_mutex_unlock(&pool->shared->notify_lock);
}

void tdm_pool_notify_notes(tdm_pool *pool) {
    pthread_mutex_lock(&pool->shared->notify_lock);
    notify_and_unlock(pool);
}

void tdm_pool_notify(tdm_pool *pool, tdm_pool_event event) {
    if (!tdm_pool_has_listeners(pool))
        return;
    tdm_pool_event local, *const place = tdm_pool_event_place(pool, &local);
    *place = event;
    tdm_pool_notify_event(pool, place);
}

void tdm_pool_notify_event(tdm_pool *pool, tdm_pool_event *event) {
    tdm_pool_shared *const shared = pool->shared;
    if (!tdm_pool_has_thread_caches(pool)) {
        notify_now(pool, event);
        return;
    }
    const bool waits = event->kind == TDM_POOL_EVENT_ALLOC || event->kind == TDM_POOL_EVENT_FREE;
    if (waits) {
        const uint64_t pending = event->pending;
        event->pending -= pool->pending_is_known;
        pool->pending_is_known = pending;
    }
    pool->note_count++;
    if (pool->note_count == TDM_POOL_NOTES || !waits ||
        atomic_load_explicit(&shared->timed, memory_order_relaxed))
        tdm_pool_notify_notes(pool);
    else if (pool->note_count >= SOME_NOTES && pthread_mutex_trylock(&shared->notify_lock) == 0)
        notify_and_unlock(pool);
}

/* ---- remote-free lists ----------------------------------------------------------------------- */

/* A remote-free list holds blocks whose slab belongs to the cache of a thread other than the one
 * that freed them. */

/* Number of slots that are tried for a block. */
#define TRIES 4

static bool fill_slot(tdm_pool_returns *remote_frees, unsigned place, tdm_block *block) {
    for (unsigned i = 0; i < TRIES; i++) {
        tdm_block *none = NULL;
        if (atomic_compare_exchange_strong_explicit(
                &remote_frees->slots[(place + i) % TDM_POOL_REMOTE_FREE_SLOTS], &none, block,
                memory_order_release, memory_order_relaxed))
            return true;
    }
    return false;
}

void tdm_pool_put_back(tdm_block *block) {
    tdm_pool_returns *const remote_frees = tdm_slab_thread_cache(block->slab)->remote_frees;
    const unsigned place =
        atomic_fetch_add_explicit(&remote_frees->brought, 1, memory_order_relaxed);
    if (fill_slot(remote_frees, place, block))
        return;
    tdm_block *first = atomic_load_explicit(&remote_frees->first, memory_order_relaxed);
    do {
        block->next = first;
    } while (!atomic_compare_exchange_weak_explicit(&remote_frees->first, &first, block,
                                                    memory_order_release, memory_order_relaxed));
}

static void fetch(const tdm_block *block) {
    __builtin_prefetch(block, 1);
    __builtin_prefetch(&block->pool, 1);
}

/* Empties up to `count` slots in the order of filling. Returns the number of blocks found. */
static unsigned empty_slots(tdm_pool_returns *remote_frees, unsigned count, tdm_block **blocks) {
    const unsigned place = atomic_load_explicit(&remote_frees->taken, memory_order_relaxed);
    unsigned found = 0;
    for (unsigned i = 0; i < TDM_POOL_REMOTE_FREE_SLOTS && found < count; i++) {
        _Atomic(tdm_block *) *const slot =
            &remote_frees->slots[(place + i) % TDM_POOL_REMOTE_FREE_SLOTS];
        blocks[found] = atomic_load_explicit(slot, memory_order_acquire);
        if (!blocks[found])
            continue;
        atomic_store_explicit(slot, NULL, memory_order_relaxed);
        fetch(blocks[found++]);
    }
    return found;
}

/* The slab may have moved to another cache meanwhile. */
static void free_or_pass_on(tdm_pool *pool, tdm_block *block) {
    if (tdm_slab_thread_cache(block->slab) == pool)
        tdm_pool_free(pool, block);
    else
        tdm_pool_put_back(block);
}

void tdm_pool_take_back(tdm_pool *pool) {
    tdm_pool_returns *const remote_frees = pool->remote_frees;
    const unsigned count = tdm_pool_returned(remote_frees);
    if (count == 0)
        return;
    const uint64_t visited = pool->visited;
    tdm_block *blocks[TDM_POOL_REMOTE_FREE_SLOTS], *listed = NULL;
    unsigned taken = empty_slots(remote_frees, count, blocks);
    for (unsigned i = 0; i < taken; i++)
        free_or_pass_on(pool, blocks[i]);
    if (taken < count)
        listed = atomic_exchange_explicit(&remote_frees->first, NULL, memory_order_acquire);
    for (tdm_block *next; listed; listed = next, taken++) {
        next = listed->next;
        free_or_pass_on(pool, listed);
    }
    atomic_fetch_add_explicit(&remote_frees->taken, taken, memory_order_relaxed);
    pool->visited = visited;
}
