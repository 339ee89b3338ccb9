// Native memory is released to a slow driver. Other threads are served meanwhile, those that need
// the memory wait for it, and no bound is ever exceeded.
// ctest: threads
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#include "bench/trace/trace_replay.h"
#include "tests/support/test_case.h"

#define MIB (UINT64_C(1) << 20)
#define BUDGET (4 * MIB)
#define PLENTY (UINT64_C(1) << 40)

/* ---- a driver whose releases wait at a gate -------------------------------------------------- */

typedef struct slow_driver {
    tdm_pool *pool;
    pthread_mutex_t lock;
    pthread_cond_t change;
    bool shut;         /* releases wait */
    int waiting;       /* number of waiting releases */
    uint64_t bytes;    /* held by the driver, including bytes being released */
    uint64_t peak;     /* peak of `bytes` */
    uint64_t capacity; /* the driver refuses allocations beyond this */
    bool tardy;        /* releases take 1 ms */
    bool slow_to_take; /* allocations take 50 ms */
    atomic_long asked, released;
    atomic_bool stop;
    tdm_memory_account account;
} slow_driver;

typedef struct native {
    uint64_t bytes;
} native;

static tdm_status slow_allocate(void *user, size_t bytes, tdm_bk_memory **memory) {
    slow_driver *const d = user;
    native *const made = malloc(sizeof *made);
    assert_non_null(made);
    made->bytes = bytes;
    atomic_fetch_add(&d->asked, 1);
    if (d->slow_to_take)
        nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    pthread_mutex_lock(&d->lock);
    const bool fits = d->bytes + bytes <= d->capacity;
    d->bytes += fits ? bytes : 0;
    d->peak = d->bytes > d->peak ? d->bytes : d->peak;
    pthread_mutex_unlock(&d->lock);
    if (!fits) {
        free(made);
        return tdm_fail(TDM_OUT_OF_DEVICE_MEMORY, "the driver is full");
    }
    *memory = (tdm_bk_memory *)made;
    return TDM_OK;
}

static void slow_release(void *user, tdm_bk_memory *memory) {
    slow_driver *const d = user;
    native *const gone = (native *)memory;
    pthread_mutex_lock(&d->lock);
    d->waiting++;
    pthread_cond_broadcast(&d->change);
    while (d->shut)
        pthread_cond_wait(&d->change, &d->lock);
    pthread_mutex_unlock(&d->lock);
    if (d->tardy)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    pthread_mutex_lock(&d->lock);
    atomic_fetch_add(&d->released, 1);
    d->waiting--;
    d->bytes -= gone->bytes;
    pthread_cond_broadcast(&d->change);
    pthread_mutex_unlock(&d->lock);
    free(gone);
}

static void slow_open(slow_driver *d, uint64_t budget, uint64_t bound, bool direct) {
    *d = (slow_driver){.capacity = UINT64_MAX};
    pthread_mutex_init(&d->lock, NULL);
    pthread_cond_init(&d->change, NULL);
    atomic_store(&d->account.bound, bound);
    tdm_pool_upstream upstream = counted_upstream(NULL);
    upstream.user = d;
    upstream.allocate = slow_allocate;
    upstream.release = slow_release;
    upstream.budget = budget;
    upstream.account = &d->account;
    upstream.direct = direct;
    assert_int_equal(tdm_pool_create(&upstream, &d->pool), TDM_OK);
}

static void slow_close(slow_driver *d) {
    assert_int_equal(d->bytes, 0);
    assert_int_equal(atomic_load(&d->account.reserved), 0);
    pthread_cond_destroy(&d->change);
    pthread_mutex_destroy(&d->lock);
}

/* Defines a cmocka test with a pool on a driver of its own, `d`. */
#define SLOW_TEST(name, budget, bound, direct)                                                     \
    static void name##_with(slow_driver *d);                                                       \
    TEST(name) {                                                                                   \
        slow_driver driver;                                                                        \
        slow_open(&driver, budget, bound, direct);                                                 \
        name##_with(&driver);                                                                      \
        tdm_pool_destroy(driver.pool);                                                             \
        slow_close(&driver);                                                                       \
    }                                                                                              \
    static void name##_with(slow_driver *d)

static void set_gate(slow_driver *d, bool shut) {
    pthread_mutex_lock(&d->lock);
    d->shut = shut;
    pthread_cond_broadcast(&d->change);
    pthread_mutex_unlock(&d->lock);
}

static void await_release(slow_driver *d) {
    pthread_mutex_lock(&d->lock);
    while (d->waiting == 0)
        pthread_cond_wait(&d->change, &d->lock);
    pthread_mutex_unlock(&d->lock);
}

static tdm_block *take(const slow_driver *d, uint64_t bytes) {
    tdm_block *block;
    assert_int_equal(tdm_pool_alloc(d->pool, bytes, 0, &block), TDM_OK);
    return block;
}

/* ---- other threads --------------------------------------------------------------------------- */

typedef struct helper {
    slow_driver *driver;
    pthread_t thread;
    tdm_block *block;
    uint64_t bytes;
    tdm_status status;
    atomic_bool begun, done;
} helper;

static void start(helper *h, void *(*run)(void *)) {
    atomic_store(&h->done, false);
    assert_int_equal(pthread_create(&h->thread, NULL, run, h), 0);
}

static void *run_trim(void *user) {
    helper *const h = user;
    atomic_store(&h->begun, true);
    h->bytes = tdm_pool_trim(h->driver->pool);
    atomic_store(&h->done, true);
    return NULL;
}

static void *run_free(void *user) {
    helper *const h = user;
    tdm_block_release(h->block);
    atomic_store(&h->done, true);
    return NULL;
}

static void *run_alloc(void *user) {
    helper *const h = user;
    h->status = tdm_pool_alloc(h->driver->pool, h->bytes, 0, &h->block);
    atomic_store(&h->done, true);
    return NULL;
}

static void *run_destroy(void *user) {
    helper *const h = user;
    tdm_pool_destroy(h->driver->pool);
    atomic_store(&h->done, true);
    return NULL;
}

/* Returns true if the helper ends within about 50 ms, that is, without waiting. */
static bool ends_soon(const helper *h) {
    for (int i = 0; i < 50 && !atomic_load(&h->done); i++)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    return atomic_load(&h->done);
}

/* ---- tests ----------------------------------------------------------------------------------- */

/*
 * While a slab is being released, cached memory is allocated, freed and counted, and native memory
 * is allocated if there is room.
 */
SLOW_TEST(others_are_served, BUDGET, BUDGET, false) {
    tdm_block *const kept = take(d, 1000), *const large = take(d, 2 * MIB);
    tdm_block_release(large); // idle
    set_gate(d, true);
    helper trim = {.driver = d};
    start(&trim, run_trim);
    await_release(d);
    tdm_memory_stats stats = {.struct_size = sizeof stats};
    tdm_pool_stats(d->pool, &stats);
    assert_int_equal(stats.live_blocks, 1);
    tdm_block *const cached = take(d, 5000), *const fresh = take(d, MIB + 1);
    tdm_block_release(cached);
    assert_false(atomic_load(&trim.done));
    set_gate(d, false);
    pthread_join(trim.thread, NULL);
    assert_int_equal(trim.bytes, 2 * MIB);
    tdm_block_release(fresh);
    tdm_block_release(kept);
}

/*
 * Bytes being released still count. An allocation that needs their room waits, whether the budget,
 * the account or the driver is the limit.
 */
TEST(who_needs_the_room_waits) {
    static const struct {
        uint64_t budget, bound, capacity;
    } rows[] = {{BUDGET, PLENTY, PLENTY}, {PLENTY, BUDGET, PLENTY}, {PLENTY, PLENTY, BUDGET}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        slow_driver d;
        slow_open(&d, rows[i].budget, rows[i].bound, false);
        d.capacity = rows[i].capacity;
        tdm_block *const small = take(&d, 1000);
        tdm_block_release(take(&d, 3 * MIB));
        set_gate(&d, true);
        helper trim = {.driver = &d}, need = {.driver = &d, .bytes = 2 * MIB};
        start(&trim, run_trim);
        await_release(&d);
        start(&need, run_alloc);
        assert_false(ends_soon(&need));
        set_gate(&d, false);
        pthread_join(trim.thread, NULL);
        pthread_join(need.thread, NULL);
        assert_int_equal(need.status, TDM_OK);
        assert_true(d.peak <= BUDGET);
        tdm_block_release(need.block);
        tdm_block_release(small);
        tdm_pool_destroy(d.pool);
        slow_close(&d);
    }
}

/* An allocation that releases idle memory to make room does so before it takes more. */
SLOW_TEST(room_is_made_first, PLENTY, PLENTY, false) {
    tdm_block_release(take(d, MIB / 2)); // too small for the next allocation
    tdm_block *const other = take(d, 3 * MIB);
    assert_int_equal(d->peak, 3 * MIB);
    tdm_block_release(other);
}

/* A pool is destroyed only after its last memory is released, whichever thread does that. */
TEST(the_pool_outlives_releases) {
    slow_driver d;
    slow_open(&d, BUDGET, BUDGET, true);
    helper release = {.driver = &d, .block = take(&d, MIB)}, destroy = {.driver = &d};
    set_gate(&d, true);
    start(&release, run_free);
    await_release(&d);
    start(&destroy, run_destroy);
    assert_false(ends_soon(&destroy));
    set_gate(&d, false);
    pthread_join(release.thread, NULL);
    pthread_join(destroy.thread, NULL);
    slow_close(&d);
}

static void *run_traffic(void *user) {
    const helper *const h = user;
    while (!atomic_load(&h->driver->stop))
        tdm_block_release(take(h->driver, MIB));
    return NULL;
}

/* A trim waits for releases in progress, but not for those that other threads start later. */
SLOW_TEST(a_trim_ends_while_others_release, PLENTY, PLENTY, true) {
    d->tardy = true;
    helper traffic[4], trim = {.driver = d};
    for (int i = 0; i < 4; i++) {
        traffic[i] = (helper){.driver = d};
        start(&traffic[i], run_traffic);
    }
    await_release(d);
    start(&trim, run_trim);
    while (!atomic_load(&trim.begun))
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    const long before = atomic_load(&d->released);
    while (!atomic_load(&trim.done) && atomic_load(&d->released) < before + 4000)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    const bool done = atomic_load(&trim.done);
    atomic_store(&d->stop, true);
    for (int i = 0; i < 4; i++)
        pthread_join(traffic[i].thread, NULL);
    pthread_join(trim.thread, NULL);
    assert_true(done);
}

/* Native memory that is being allocated does not count as trimmed. */
SLOW_TEST(what_is_being_taken_does_not_count_as_trimmed, PLENTY, PLENTY, false) {
    d->slow_to_take = true;
    helper need = {.driver = d, .bytes = MIB};
    start(&need, run_alloc);
    while (atomic_load(&d->asked) == 0)
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    assert_int_equal(tdm_pool_trim(d->pool), 0);
    pthread_join(need.thread, NULL);
    assert_int_equal(need.status, TDM_OK);
    tdm_block_release(need.block);
}

TEST_MAIN(NULL, NULL)
