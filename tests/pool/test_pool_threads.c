// Many threads use a pool. They free blocks that others allocated, trim and visit the pool at once,
// and run out of memory.
// ctest: threads
#include <stdlib.h>
#include <string.h>

#include "api/pool/pool_dry_run.h"
#include "tests/support/drivers/pool_world.h"
#include "tests/support/test_case.h"
#include "tests/support/test_data.h"

#define THREADS 8
#define MAILBOXES 64

typedef struct crowd {
    pool_world world;
    _Atomic(tdm_block *) mailboxes[MAILBOXES]; // live blocks, freed by any thread
    atomic_uint_fast64_t sequence[WORLD_STREAMS + 1];
    atomic_long refused, taken, traversed, dry_runs;
    bool rebudgets; // the budget keeps changing
    atomic_bool stop;
} crowd;

typedef struct worker {
    crowd *crowd;
    uint64_t seed;
    int rounds;
    bool wrong;
} worker;

static int rounds(void) {
    const char *const scale = getenv("TANDEM_TEST_SCALE");
    return scale && strcmp(scale, "small") == 0 ? 2000 : 40000;
}

static void use_by_several(crowd *c, tdm_block *block, uint32_t first) {
    for (uint32_t i = 0; i < 3; i++) {
        const uint32_t stream = (first + i) % WORLD_STREAMS + 1;
        if (tdm_pool_prepare(&block, 1, stream, NULL, 0) >= 0)
            tdm_pool_record_use(&block, 1,
                                (tdm_use){stream, atomic_fetch_add(&c->sequence[stream], 1) + 1});
    }
}

/*
 * Each thread stores a pointer in the block's header. This detects a block that two threads have at
 * once.
 */
static void *exchange(void *user) {
    worker *const own = user;
    crowd *const c = own->crowd;
    test_random random = {own->seed};
    for (int i = 0; i < own->rounds; i++) {
        const uint32_t stream = (uint32_t)test_random_int(&random, 1, WORLD_STREAMS);
        tdm_block *block = NULL;
        const size_t bytes = (size_t)test_random_int(&random, 0, 100000);
        if (tdm_pool_alloc(c->world.pool, bytes, stream, &block) != TDM_OK) {
            atomic_fetch_add(&c->refused, 1);
        } else {
            own->wrong |= block->debug != NULL || block->requested != bytes;
            block->debug = own;
            atomic_fetch_add(&c->taken, 1);
            use_by_several(c, block, stream);
            own->wrong |= block->debug != own;
        }
        // This is usually a block of another thread.
        _Atomic(tdm_block *) *const box = &c->mailboxes[test_random_int(&random, 0, MAILBOXES - 1)];
        tdm_block_release(atomic_exchange(box, block));
    }
    return NULL;
}

static void *disturb(void *user) {
    crowd *const c = user;
    for (uint64_t i = 0; i == 0 || !atomic_load(&c->stop); i++) {
        const uint32_t stream = (uint32_t)(i % WORLD_STREAMS) + 1;
        pthread_mutex_lock(&c->world.lock);
        c->world.polled[stream] = atomic_load(&c->sequence[stream]);
        pthread_mutex_unlock(&c->world.lock);
        tdm_memory_stats stats;
        uint64_t seen[2] = {0};
        if (c->rebudgets)
            tdm_pool_set_budget(c->world.pool, 1 + i % 5 * MIB);
        if (i % 3 == 0)
            tdm_pool_trim(c->world.pool);
        else
            tdm_pool_stats(c->world.pool, &stats);
        tdm_pool_visit(c->world.pool, &(tdm_pool_visitor){.user = seen});
        tdm_pool_dry_run *dry_run;
        const tdm_dry_run_limits limits = {.native_free = UINT64_MAX};
        if (tdm_dry_run_begin(c->world.pool, &limits, &dry_run) == TDM_OK)
            atomic_fetch_add(&c->dry_runs, 1);
        tdm_dry_run_end(dry_run);
        atomic_fetch_add(&c->traversed, 1);
    }
    return NULL;
}

static void work_together(uint64_t budget, bool disturbed, bool rebudgets) {
    crowd *const c = calloc(1, sizeof *c);
    assert_non_null(c);
    c->rebudgets = rebudgets;
    tdm_pool_upstream upstream = world_upstream(&c->world);
    upstream.budget = budget;
    world_open_on(&c->world, &upstream);
    worker workers[THREADS];
    pthread_t threads[THREADS], disturber;
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.crowd = c, .seed = 7 + (uint64_t)i, .rounds = rounds() / THREADS};
        assert_int_equal(pthread_create(&threads[i], NULL, exchange, &workers[i]), 0);
    }
    if (disturbed)
        assert_int_equal(pthread_create(&disturber, NULL, disturb, c), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    atomic_store(&c->stop, true);
    if (disturbed)
        pthread_join(disturber, NULL);
    for (int i = 0; i < THREADS; i++)
        assert_false(workers[i].wrong);
    assert_null(world_check(&c->world));
    for (int i = 0; i < MAILBOXES; i++)
        tdm_block_release(atomic_load(&c->mailboxes[i]));
    const tdm_memory_stats stats = world_stats(&c->world);
    assert_int_equal(stats.allocations, atomic_load(&c->taken));
    assert_int_equal(stats.frees, atomic_load(&c->taken));
    assert_int_equal(stats.failures, atomic_load(&c->refused));
    assert_true(stats.allocations > 0);
    assert_int_equal(disturbed, atomic_load(&c->traversed) > 0);
    assert_int_equal(disturbed, atomic_load(&c->dry_runs) > 0);
    if (!rebudgets)
        assert_int_equal(budget<4 * MIB, stats.failures> 0);
    world_close(&c->world);
    free(c);
}

TEST(blocks_are_freed_by_others) {
    work_together(1024 * MIB, false, false);
}

TEST(trims_and_traversals_go_on_meanwhile) {
    work_together(1024 * MIB, true, false);
}

/*
 * Budgets go from one byte, where every allocation fails, to several MiB. A refused allocation
 * leaves nothing behind.
 */
TEST(budgets_change_meanwhile) {
    work_together(1024 * MIB, true, true);
}

/*
 * 64 blocks of 50000 bytes on average do not fit: threads wait for each other's memory and are
 * refused.
 */
TEST(memory_runs_out_for_all) {
    work_together(2 * MIB, false, false);
    work_together(2 * MIB, true, false);
}

/*
 * There is one more reference than there are releases: no thread may free the block early or twice.
 */
static void *retain_and_release(void *user) {
    tdm_block *const block = user;
    for (int i = 0; i < 2000; i++) {
        tdm_block_retain(block);
        tdm_block_release(block);
    }
    tdm_block_release(block);
    return NULL;
}

WORLD_TEST(holders_count_across_threads, 1024 * MIB) {
    tdm_block *const block = world_alloc(w, 1000, 0);
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++) {
        tdm_block_retain(block);
        assert_int_equal(pthread_create(&threads[i], NULL, retain_and_release, block), 0);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(world_stats(w).live_blocks, 1);
    tdm_block_release(block);
}

TEST_MAIN(NULL, NULL)
