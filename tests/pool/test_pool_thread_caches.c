// Tests the per-thread caches of a pool: when they are created, and that no block or event is lost
// between them. Contention between threads creates the caches. Most tests switch between caches in
// a single thread, so that they are deterministic.
// ctest: threads
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "tests/support/drivers/pool_world.h"
#include "tests/support/test_case.h"
#include "tests/support/test_data.h"
#include "tests/support/test_program.h"

#define KIB 1024
#define BLOCKS 60
#define THREADS 8
#define MAX_ROUNDS 10000

static void open_has_thread_caches(pool_world *w, uint64_t budget) {
    world_open_with(w, budget, 256 * MIB, false);
    while (!tdm_pool_has_thread_caches(w->pool))
        tdm_pool_next_home(w->pool);
}

#define HAS_THREAD_CACHES_TEST(name, budget)                                                       \
    static void name##_has_thread_caches(pool_world *w);                                           \
    WORLD_TEST(name, budget) {                                                                     \
        while (!tdm_pool_has_thread_caches(w->pool))                                               \
            tdm_pool_next_home(w->pool);                                                           \
        name##_has_thread_caches(w);                                                               \
    }                                                                                              \
    static void name##_has_thread_caches(pool_world *w)

static void take_all(pool_world *w, tdm_block **blocks, size_t bytes) {
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = world_alloc(w, bytes, 0);
}

/* Allocates blocks of 1 MiB until the budget is reached; the rest of the list is NULL. */
static void fill_up(pool_world *w, tdm_block **blocks) {
    for (int i = 0; i < BLOCKS; i++)
        tdm_pool_alloc(w->pool, MIB, 0, &blocks[i]);
    assert_non_null(blocks[BLOCKS / 2]);
    assert_null(blocks[BLOCKS - 1]);
}

static void give_all(tdm_block **blocks) {
    for (int i = 0; i < BLOCKS; i++)
        tdm_block_release(blocks[i]);
}

static int thread_caches_of(const tdm_pool *pool) {
    int count = 0;
    for (int i = 0; i < TDM_POOL_THREAD_CACHES; i++)
        count += tdm_pool_thread_cache(pool, i) != NULL;
    return count;
}

typedef struct crowd {
    pool_world world;
    atomic_bool dispersed;
} crowd;

static void *work(void *user) {
    crowd *const own = user;
    tdm_block *blocks[BLOCKS];
    while (!atomic_load(&own->dispersed)) {
        take_all(&own->world, blocks, KIB);
        give_all(blocks);
    }
    return NULL;
}

/*
 * The main thread takes the root's lock again and again until a second cache exists. It sleeps
 * while it holds the lock, so each thread reaches the lock meanwhile, even on few cores.
 */
TEST(threads_that_meet_get_thread_caches) {
    const struct timespec pause = {.tv_nsec = 1000000};
    crowd own = {.dispersed = false};
    tdm_pool *pool;
    world_open(&own.world);
    pool = own.world.pool;
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, work, &own), 0);
    for (int i = 0; i < MAX_ROUNDS * test_time_factor() && thread_caches_of(pool) < 2; i++) {
        pthread_mutex_lock(&pool->lock);
        nanosleep(&pause, NULL);
        pthread_mutex_unlock(&pool->lock);
    }
    atomic_store(&own.dispersed, true);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_true(thread_caches_of(pool) > 1);
    assert_null(world_check(&own.world));
    world_close(&own.world);
}

/* Without contention the root stays the only cache. */
WORLD_TEST(alone_there_is_none, 1024 * MIB) {
    tdm_block *blocks[BLOCKS];
    for (int i = 0; i < 1000; i++) {
        take_all(w, blocks, KIB);
        give_all(blocks);
    }
    assert_int_equal(thread_caches_of(w->pool), 1);
}

/*
 * If a thread of another cache releases blocks, they wait on the owner's remote-free list. Reading
 * the statistics frees them, and so does an allocation that is short of memory.
 */
HAS_THREAD_CACHES_TEST(foreign_frees_count_when_read, 64 * MIB) {
    tdm_block *blocks[BLOCKS];
    take_all(w, blocks, 1000);
    tdm_pool *const owner = tdm_slab_thread_cache(blocks[0]->slab);
    tdm_pool_next_home(w->pool);
    give_all(blocks);
    assert_int_equal(owner->stats.live_blocks, BLOCKS);
    const tdm_memory_stats stats = world_stats(w);
    assert_int_equal(owner->stats.live_blocks, 0);
    assert_int_equal(stats.live_blocks, 0);
    assert_int_equal(stats.frees, BLOCKS);
    assert_int_equal(stats.allocated_peak, BLOCKS * 1024);
    assert_int_equal(stats.requested_peak, BLOCKS * 1000);
    assert_int_equal(tdm_pool_trim(w->pool), stats.reserved);
}

/*
 * A remote free does not wait for a locked cache while the remote-free list is short. A block that
 * finds no free slot goes to an overflow list.
 */
HAS_THREAD_CACHES_TEST(foreign_frees_need_no_lock, 64 * MIB) {
    enum {
        MANY = 2 * TDM_POOL_REMOTE_FREE_SLOTS + 5
    };
    tdm_block *blocks[MANY];
    for (int i = 0; i < MANY; i++)
        blocks[i] = world_alloc(w, 1000, 0);
    tdm_pool *const owner = tdm_slab_thread_cache(blocks[0]->slab);
    tdm_pool_next_home(w->pool);
    tdm_pool_lock(owner);
    for (int i = 0; i < MANY; i++)
        tdm_block_release(blocks[i]);
    assert_int_equal(tdm_pool_returned(owner->remote_frees), MANY);
    assert_non_null(atomic_load(&owner->remote_frees->first));
    assert_int_equal(owner->stats.live_blocks, MANY);
    tdm_pool_take_back(owner);
    assert_int_equal(tdm_pool_returned(owner->remote_frees), 0);
    assert_int_equal(owner->stats.live_blocks, 0);
    tdm_pool_unlock(owner);
    assert_null(world_check(w));
}

HAS_THREAD_CACHES_TEST(foreign_frees_are_found_when_memory_is_short, 50 * MIB) {
    tdm_block *blocks[BLOCKS], *large;
    fill_up(w, blocks);
    const long natives = w->live_native;
    tdm_pool_next_home(w->pool);
    assert_int_equal(tdm_pool_alloc(w->pool, MIB, 0, &large), TDM_OVER_BUDGET);
    give_all(blocks);
    // The current cache gets the memory of the other one without a new native allocation.
    tdm_block *const one = world_alloc(w, MIB, 0);
    assert_int_equal(w->live_native, natives);
    tdm_block_release(one);
}

/*
 * For a large block, the root releases idle slabs of the other caches. This holds even if the
 * reserved bytes stay below their earlier maximum.
 */
HAS_THREAD_CACHES_TEST(foreign_frees_make_room_for_large_blocks, 250 * MIB) {
    tdm_block *blocks[BLOCKS], *large = world_alloc(w, 200 * MIB, 0);
    tdm_block_release(large);
    tdm_pool_trim(w->pool);
    tdm_pool_set_budget(w->pool, 50 * MIB);
    fill_up(w, blocks);
    tdm_pool_next_home(w->pool);
    give_all(blocks);
    large = world_alloc(w, 50 * MIB, 0);
    assert_int_equal(w->live_native, 1);
    tdm_block_release(large);
}

/*
 * A slab may move to another cache while a block of it is still on the old cache's remote-free
 * list.
 */
HAS_THREAD_CACHES_TEST(late_frees_follow_their_slab, 64 * MIB) {
    while (!tdm_pool_thread_cache(w->pool, TDM_POOL_THREAD_CACHES - 1))
        tdm_pool_next_home(w->pool);
    tdm_pool_next_home(w->pool);
    tdm_block *const block = world_alloc(w, 1000, 0);
    tdm_pool *const wrong = tdm_pool_thread_cache(w->pool, TDM_POOL_THREAD_CACHES - 1);
    assert_ptr_equal(tdm_slab_thread_cache(block->slab), w->pool);
    atomic_store(&block->references, 0);
    block->next = NULL;
    atomic_store(&wrong->remote_frees->first, block);
    atomic_fetch_add(&wrong->remote_frees->brought, 1);
    assert_int_equal(world_stats(w).live_blocks, 0);
    assert_null(world_check(w));
}

/* An allocation waits for memory that is pending in another cache before it is refused. */
HAS_THREAD_CACHES_TEST(pending_memory_of_others_is_waited_for, 50 * MIB) {
    tdm_block *blocks[BLOCKS];
    fill_up(w, blocks);
    for (int i = 0; blocks[i]; i++)
        world_use(blocks[i], 1, (uint64_t)i + 1, NULL);
    give_all(blocks);
    tdm_pool_next_home(w->pool);
    tdm_block *const block = world_alloc(w, MIB, 2);
    assert_true(w->waits > 0);
    assert_true(world_stats(w).reserved <= 50 * MIB);
    tdm_block_release(block);
}

/* A cache with spare memory gives a slab to another cache, together with its live blocks. */
HAS_THREAD_CACHES_TEST(slabs_move_to_who_needs_them, 1024 * MIB) {
    tdm_block *blocks[BLOCKS];
    take_all(w, blocks, 64 * KIB);
    for (int i = 0; i < BLOCKS; i++)
        if (i % 2)
            tdm_block_release(blocks[i]);
    tdm_pool *const first = tdm_slab_thread_cache(blocks[0]->slab);
    tdm_pool *const second = tdm_pool_next_home(w->pool);
    const uint64_t reserved = world_stats(w).reserved;
    tdm_block *const block = world_alloc(w, 60 * KIB, 0);
    assert_ptr_equal(tdm_slab_thread_cache(block->slab), second);
    assert_ptr_not_equal(first, second);
    assert_int_equal(world_stats(w).reserved, reserved);
    assert_null(world_check(w));
    tdm_block_release(block);
    for (int i = 0; i < BLOCKS; i += 2)
        tdm_block_release(blocks[i]);
    assert_null(world_check(w));
}

static uint64_t spare_headers(const tdm_pool *pool) {
    uint64_t count = 0;
    for (const tdm_block *each = pool->spare_headers; each; each = each->next)
        count++;
    return count;
}

static void go_home(const pool_world *w, const tdm_pool *thread_cache) {
    while (tdm_pool_next_home(w->pool) != thread_cache) {
    }
}

/*
 * Slabs move to another cache with live blocks and return without them. The blocks' headers must
 * not accumulate in one cache.
 */
HAS_THREAD_CACHES_TEST(headers_are_exchanged_for_those_that_move, 1024 * MIB) {
    tdm_pool *const second = tdm_pool_next_home(w->pool);
    go_home(w, w->pool);
    tdm_block *blocks[BLOCKS];
    for (int i = 0; i < 200; i++) {
        take_all(w, blocks, 64 * KIB);
        for (int j = 1; j < BLOCKS; j += 2)
            tdm_block_release(blocks[j]);
        go_home(w, second);
        tdm_block *more[BLOCKS];
        take_all(w, more, 60 * KIB);
        give_all(more);
        for (int j = 0; j < BLOCKS; j += 2)
            tdm_block_release(blocks[j]);
        go_home(w, w->pool);
    }
    uint64_t spare = 0;
    for (int i = 0; i < TDM_POOL_THREAD_CACHES; i++)
        spare += tdm_pool_thread_cache(w->pool, i)
                     ? spare_headers(tdm_pool_thread_cache(w->pool, i))
                     : 0;
    assert_true(spare < 4 * BLOCKS);
}

/* ---- listeners ------------------------------------------------------------------------------- */

typedef struct witness {
    tdm_pool_listener listener;
    int64_t kinds[TDM_POOL_EVENT_FAILURE + 1];
    int64_t allocated, requested, reserved, slab_live;
    uint64_t pending;
    uint8_t generations[1 << 16]; /* by allocation generation; 1: allocated, 2: freed */
    int late;                     /* operations that returned before their event arrived */
    bool wrong;
} witness;

static void note(void *user, const tdm_pool_event *event) {
    witness *const own = user;
    own->kinds[event->kind]++;
    const int64_t sign = event->kind == TDM_POOL_EVENT_ALLOC  ? 1
                         : event->kind == TDM_POOL_EVENT_FREE ? -1
                                                              : 0;
    own->allocated += sign * (int64_t)event->bytes;
    own->requested += sign * (int64_t)event->requested;
    if (sign)
        own->pending = event->pending;
    if (sign > 0)
        own->wrong |= event->generation >= sizeof own->generations ||
                      own->generations[event->generation]++ != 0;
    if (sign < 0)
        own->wrong |= event->generation >= sizeof own->generations ||
                      own->generations[event->generation]++ != 1;
    if (event->kind == TDM_POOL_EVENT_SLAB_ALLOC)
        own->reserved += (int64_t)event->bytes;
    if (event->kind == TDM_POOL_EVENT_SLAB_FREE)
        own->reserved -= (int64_t)event->bytes;
    own->wrong |= own->allocated < 0 || own->requested < 0 || own->reserved < 0;
}

static void note_some(void *user, const tdm_pool_event *events, int count) {
    for (int i = 0; i < count; i++)
        note(user, &events[i]);
}

static void expect_all_told(pool_world *w, const witness *own) {
    const tdm_memory_stats stats = world_stats(w);
    assert_false(own->wrong);
    assert_int_equal(own->kinds[TDM_POOL_EVENT_ALLOC], stats.allocations);
    assert_int_equal(own->kinds[TDM_POOL_EVENT_FREE], stats.frees);
    assert_int_equal(own->kinds[TDM_POOL_EVENT_SLAB_ALLOC], stats.native_allocations);
    assert_int_equal(own->kinds[TDM_POOL_EVENT_SLAB_FREE], stats.native_frees);
    assert_int_equal(own->kinds[TDM_POOL_EVENT_FAILURE], stats.failures);
    assert_int_equal(own->allocated, stats.allocated);
    assert_int_equal(own->requested, stats.requested);
    assert_int_equal(own->reserved, stats.reserved);
}

/* Allocates, uses and frees blocks at random, and switches between caches. `timed` may be NULL. */
static void wander(pool_world *w, tdm_block **blocks, int rounds, witness *timed) {
    test_random random = {5};
    uint64_t sequence = 0;
    for (int i = 0; i < rounds; i++) {
        if (i % 17 == 0)
            tdm_pool_next_home(w->pool);
        tdm_block **const slot = &blocks[test_random_int(&random, 0, BLOCKS - 1)];
        if (*slot && i % 5 == 0)
            world_use(*slot, 1 + (uint32_t)(i % 3), ++sequence, NULL);
        tdm_block_release(*slot);
        *slot = i % 3 ? world_alloc(w, (size_t)test_random_int(&random, 1, 100000), 1) : NULL;
        const int64_t reported = timed ? timed->kinds[TDM_POOL_EVENT_ALLOC] : 0;
        if (timed && *slot && reported != (int64_t)(i - i / 3))
            timed->late++;
    }
}

HAS_THREAD_CACHES_TEST(listeners_are_told_of_everything, 1024 * MIB) {
    witness own = {.listener = {.event = note, .user = &own}};
    witness other = {.listener = {.event = note, .events = note_some, .user = &other}};
    tdm_block *blocks[BLOCKS] = {NULL};
    tdm_pool_listen(w->pool, &own.listener);
    tdm_pool_listen(w->pool, &other.listener);
    wander(w, blocks, 20000, NULL);
    expect_all_told(w, &own);
    give_all(blocks);
    expect_all_told(w, &own);
    expect_all_told(w, &other);
    tdm_pool_unlisten(w->pool, &own.listener);
    tdm_pool_unlisten(w->pool, &other.listener);
}

/*
 * A slab may move while its old cache still buffers events of its blocks. These are delivered
 * before the events of the new cache.
 */
HAS_THREAD_CACHES_TEST(slabs_move_with_what_was_noted, 1024 * MIB) {
    witness own = {.listener = {.event = note, .user = &own}};
    tdm_pool_listen(w->pool, &own.listener);
    tdm_block *blocks[4];
    for (int i = 0; i < 4; i++)
        blocks[i] = world_alloc(w, MIB, 0);
    for (int i = 0; i < 4; i++)
        tdm_block_release(blocks[i]);
    tdm_pool_catch_up(w->pool);
    for (int i = 0; i < 4; i++)
        blocks[i] = world_alloc(w, 600 * KIB, 0);
    const tdm_pool *const second = tdm_pool_next_home(w->pool);
    tdm_block_release(world_alloc(w, 400 * KIB, 0));
    int moved = 0;
    for (int i = 0; i < 4; i++) {
        moved += tdm_slab_thread_cache(blocks[i]->slab) == second;
        tdm_block_release(blocks[i]);
    }
    assert_true(moved > 0);
    for (int i = 0; i < TDM_POOL_NOTES; i++)
        tdm_block_release(world_alloc(w, KIB, 0));
    expect_all_told(w, &own);
    assert_int_equal(world_stats(w).allocated_peak, 4 * MIB);
    tdm_pool_unlisten(w->pool, &own.listener);
}

static uint64_t pending_of_all(const tdm_pool *pool) {
    uint64_t pending = 0;
    for (int i = 0; i < TDM_POOL_THREAD_CACHES; i++)
        if (tdm_pool_thread_cache(pool, i))
            pending += tdm_pool_pending(tdm_pool_thread_cache(pool, i));
    return pending;
}

/*
 * Pending bytes are summed over all caches. They include bytes that were pending before the
 * listener was added.
 */
HAS_THREAD_CACHES_TEST(pending_bytes_add_up, 1024 * MIB) {
    tdm_block *kept[6];
    witness own = {.listener = {.event = note, .user = &own}};
    for (uint32_t i = 1; i <= 3; i++) {
        tdm_block *blocks[4];
        if (i == 2)
            tdm_pool_listen(w->pool, &own.listener);
        for (int j = 0; j < 4; j++) {
            blocks[j] = world_alloc(w, (size_t)1024 << i, i);
            if (j % 2)
                world_use(blocks[j], i, (uint64_t)j + 1, NULL);
        }
        for (int j = 1; j < 4; j += 2)
            tdm_block_release(blocks[j]);
        kept[2 * i - 2] = blocks[0];
        kept[2 * i - 1] = blocks[2];
        tdm_pool_next_home(w->pool);
    }
    tdm_pool_catch_up(w->pool);
    const uint64_t pending = pending_of_all(w->pool);
    assert_true(pending >= 2 * 14 * 1024);
    assert_int_equal(own.pending, pending);
    for (int i = 0; i < 6; i++)
        tdm_block_release(kept[i]);
    tdm_pool_unlisten(w->pool, &own.listener);
}

/*
 * A slab moves with pending bytes. They count once, even if its new cache delivers events before
 * its old cache does.
 */
HAS_THREAD_CACHES_TEST(pending_bytes_move_with_their_slab, 1024 * MIB) {
    witness own = {.listener = {.event = note, .user = &own}};
    tdm_pool_listen(w->pool, &own.listener);
    tdm_block *const kept = world_alloc(w, KIB, 1), *const used = world_alloc(w, 100 * KIB, 1);
    world_use(used, 1, 1, NULL);
    tdm_block_release(used);
    tdm_pool *const second = tdm_pool_next_home(w->pool);
    tdm_pool *const first = tdm_slab_thread_cache(kept->slab);
    assert_ptr_not_equal(first, second);
    tdm_pool_lock(first);
    assert_true(tdm_pool_trylock(second));
    tdm_slab_move(kept->slab, second);
    tdm_pool_unlock(second);
    tdm_pool_unlock(first);
    tdm_block_release(world_alloc(w, KIB, 0));
    tdm_pool_lock(second);
    tdm_pool_notify_notes(second);
    tdm_pool_unlock(second);
    assert_true(own.pending >= 100 * KIB);
    assert_int_equal(own.pending, pending_of_all(w->pool));
    tdm_block_release(kept);
    tdm_pool_unlisten(w->pool, &own.listener);
}

/* A timed listener receives each event before the operation returns. */
HAS_THREAD_CACHES_TEST(timed_listeners_are_told_at_once, 1024 * MIB) {
    witness own = {.listener = {.event = note, .user = &own, .timed = true}};
    tdm_block *blocks[BLOCKS] = {NULL};
    tdm_pool_listen(w->pool, &own.listener);
    wander(w, blocks, 3000, &own);
    assert_int_equal(own.late, 0);
    give_all(blocks);
    expect_all_told(w, &own);
    tdm_pool_unlisten(w->pool, &own.listener);
}

/*
 * Peaks are exact while a single thread uses the pool, whatever happened before. When several
 * caches allocate and free, a peak is wrong by at most the buffered events of one cache.
 */
HAS_THREAD_CACHES_TEST(peaks_are_exact_within_a_thread_cache, 1024 * MIB) {
    tdm_block *blocks[BLOCKS];
    uint64_t live = 0, peak = 0;
    test_random random = {11};
    memset((void *)blocks, 0, sizeof blocks);
    for (int i = 0; i < 5000; i++) {
        tdm_block **const slot = &blocks[test_random_int(&random, 0, BLOCKS - 1)];
        live -= *slot ? (*slot)->size : 0;
        tdm_block_release(*slot);
        *slot = i % 4 ? world_alloc(w, (size_t)test_random_int(&random, 1, 100000), 1) : NULL;
        live += *slot ? (*slot)->size : 0;
        peak = live > peak ? live : peak;
        if (i % 100 == 0)
            assert_int_equal(world_stats(w).allocated_peak, peak);
        if (i % 1000 == 999) {
            tdm_pool_reset_peaks(w->pool);
            peak = live;
        }
    }
    give_all(blocks);
}

/* ---- threads --------------------------------------------------------------------------------- */

typedef struct pipe {
    pool_world *world;
    _Atomic(tdm_block *) slots[256];
    atomic_long passed;
} pipe;

static void *take_and_pass(void *user) {
    pipe *const own = user;
    test_random random = {1};
    for (int i = 0; i < 100000; i++) {
        tdm_block *block;
        if (tdm_pool_alloc(own->world->pool, (size_t)test_random_int(&random, 1, 60000), 0,
                           &block) != TDM_OK)
            continue;
        atomic_fetch_add(&own->passed, 1);
        tdm_block_release(atomic_exchange(&own->slots[i % 256], block));
    }
    return NULL;
}

static void *receive_and_give(void *user) {
    pipe *const own = user;
    for (int i = 0; i < 100000; i++)
        tdm_block_release(atomic_exchange(&own->slots[i % 256], NULL));
    return NULL;
}

/* Blocks that some threads allocate and others free must not make the pool grow without bound. */
TEST(passing_blocks_on_keeps_the_pool_small) {
    pool_world w;
    open_has_thread_caches(&w, 256 * MIB);
    pipe *const own = calloc(1, sizeof *own);
    assert_non_null(own);
    own->world = &w;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(
            pthread_create(&threads[i], NULL, i % 2 ? receive_and_give : take_and_pass, own), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    for (int i = 0; i < 256; i++)
        tdm_block_release(atomic_load(&own->slots[i]));
    assert_null(world_check(&w));
    const tdm_memory_stats stats = world_stats(&w);
    assert_int_equal(stats.allocations, atomic_load(&own->passed));
    assert_int_equal(stats.live_blocks, 0);
    // At most 256 blocks, of 30 KB on average, are in the slots. Each remote-free list holds up to
    // 256 more.
    assert_true(stats.reserved_peak < 128 * MIB);
    world_close(&w);
    free(own);
}

TEST_MAIN(NULL, NULL)
