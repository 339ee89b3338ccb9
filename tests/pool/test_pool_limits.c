// Tests limits of a pool: budgets to the byte, the largest allocation, shared accounts, relief
// callbacks and refusals. Host memory also runs out at any point.
#include <string.h>

#include "tests/support/drivers/counted_host.h"
#include "tests/support/drivers/pool_world.h"
#include "tests/support/test_case.h"

static void expect_refused(pool_world *w, size_t bytes, tdm_status expected) {
    const tdm_memory_stats before = world_stats(w);
    tdm_block *block = (tdm_block *)w;
    assert_int_equal(tdm_pool_alloc(w->pool, bytes, 0, &block), expected);
    assert_null(block);
    const tdm_memory_stats after = world_stats(w);
    assert_int_equal(after.failures, before.failures + 1);
    assert_int_equal(after.live_blocks, before.live_blocks);
    assert_int_equal(after.allocated, before.allocated);
    assert_null(world_check(w));
}

WORLD_TEST(budget_is_kept_to_the_byte, 4 * MIB) {
    tdm_block *const a = world_alloc(w, 4 * MIB - WORLD_UNIT, 0);
    expect_refused(w, WORLD_UNIT + 1, TDM_OVER_BUDGET);
    tdm_block *const b = world_alloc(w, WORLD_UNIT, 0);
    assert_int_equal(world_stats(w).reserved, 4 * MIB);
    expect_refused(w, 1, TDM_OVER_BUDGET);
    expect_refused(w, 0, TDM_OVER_BUDGET);
    tdm_block_release(a);
    tdm_block_release(b);
    expect_refused(w, 4 * MIB + 1, TDM_OVER_BUDGET);
    tdm_block *const all = world_alloc(w, 4 * MIB, 0);
    tdm_block_release(all);
    tdm_pool_set_budget(w->pool, 256);
    assert_in_range(w->native_bytes, 0, 256);
    tdm_block *const unit = world_alloc(w, 1, 0);
    expect_refused(w, 1, TDM_OVER_BUDGET);
    tdm_block_release(unit);
}

TEST(largest_allocation_is_respected) {
    pool_world w;
    world_open_with(&w, 1024 * MIB, 9 * MIB + 256, false);
    tdm_block *const a = world_alloc(&w, 9 * MIB + 256, 0);
    assert_int_equal(a->size, 9 * MIB + 256);
    expect_refused(&w, 9 * MIB + 257, TDM_OUT_OF_DEVICE_MEMORY);
    tdm_block_release(a);
    tdm_block *const b = world_alloc(&w, 9 * MIB, 0);
    assert_int_equal(world_stats(&w).reuses, 1);
    tdm_block_release(b);
    // Slabs for many blocks stay below the limit too.
    tdm_block *blocks[40];
    for (int i = 0; i < 40; i++)
        blocks[i] = world_alloc(&w, 5 * MIB, 0);
    for (int i = 0; i < 40; i++)
        tdm_block_release(blocks[i]);
    world_close(&w);
}

WORLD_TEST(sizes_that_overflow_are_refused, 1024 * MIB) {
    static const size_t sizes[] = {
        SIZE_MAX,         SIZE_MAX - 1,    SIZE_MAX - 255,       SIZE_MAX - 256,
        SIZE_MAX / 2 + 1, (size_t)1 << 48, ((size_t)1 << 48) + 1};
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        tdm_block *block = (tdm_block *)w;
        assert_int_equal(tdm_pool_alloc(w->pool, sizes[i], 0, &block), TDM_OUT_OF_DEVICE_MEMORY);
        assert_null(block);
    }
    assert_int_equal(w->live_native, 0);
}

WORLD_TEST(zero_bytes_are_a_block, 1024 * MIB) {
    tdm_block *const a = world_alloc(w, 0, 0), *const b = world_alloc(w, 0, 0);
    assert_int_equal(a->requested, 0);
    assert_int_equal(a->size, WORLD_UNIT);
    assert_true(a->memory != b->memory || a->offset != b->offset);
    assert_int_equal(world_stats(w).requested, 0);
    assert_int_equal(world_stats(w).allocated, 2 * WORLD_UNIT);
    tdm_block_release(a);
    tdm_block_release(b);
}

WORLD_TEST(native_failure_waits_trims_and_retries, 1024 * MIB) {
    tdm_block *const a = world_alloc(w, 8 * MIB, 1);
    world_use(a, 1, 3, NULL);
    tdm_block_release(a);
    w->fail_from = 1;
    tdm_block *b;
    assert_int_equal(tdm_pool_alloc(w->pool, 64 * MIB, 1, &b), TDM_OUT_OF_DEVICE_MEMORY);
    assert_non_null(strstr(tdm_last_detail(), "refused"));
    // The trim waited for the work on the pending block, then released the block.
    assert_int_equal(w->waits, 1);
    assert_int_equal(w->live_native, 0);
    w->fail_from = 0;
    b = world_alloc(w, 64 * MIB, 1);
    tdm_block_release(b);
}

/* Adjacent pending blocks of two streams serve a large request once both streams are done. */
WORLD_TEST(short_memory_waits_and_joins, 2 * MIB) {
    tdm_block *blocks[2] = {world_alloc(w, MIB, 0), NULL};
    tdm_block_release(blocks[0]);
    tdm_pool_trim(w->pool);
    tdm_block *const whole = world_alloc(w, 2 * MIB, 0);
    tdm_block_release(whole);
    for (uint32_t i = 0; i < 2; i++)
        blocks[i] = world_alloc(w, MIB, i + 1);
    for (uint32_t i = 0; i < 2; i++) {
        world_use(blocks[i], i + 1, 7, NULL);
        tdm_block_release(blocks[i]);
    }
    tdm_block *const both = world_alloc(w, 2 * MIB, 3);
    assert_int_equal(w->waits, 2);
    assert_int_equal(world_stats(w).retries, 1);
    assert_int_equal(world_use(both, 3, 1, NULL), 0);
    tdm_block_release(both);
}

/* ---- refusals report the numbers ------------------------------------------------------------- */

WORLD_TEST(refusals_tell_who_holds_the_memory, 8 * MIB) {
    tdm_block *blocks[4];
    static const char *const tags[] = {"weights", "cache", "weights", NULL};
    static const size_t sizes[] = {3 * MIB, MIB, 2 * MIB, 2 * MIB};
    for (int i = 0; i < 4; i++) {
        if (tags[i])
            assert_int_equal(tdm_memory_tag_push(tags[i]), TDM_OK);
        blocks[i] = world_alloc(w, sizes[i], 0);
        if (tags[i])
            assert_int_equal(tdm_memory_tag_pop(), TDM_OK);
    }
    tdm_block_release(blocks[1]);
    expect_refused(w, 5000000, TDM_OVER_BUDGET);
    const char *const text = tdm_last_detail();
    static const char *const parts[] = {"5000000 bytes requested", "budget of 8388608",
                                        "weights 5242880 in 2 blocks",
                                        "untagged 2097152 in 1 block"};
    for (int i = 0; i < 4; i++)
        if (!strstr(text, parts[i]))
            fail_msg("\"%s\" is not in \"%s\"", parts[i], text);
    assert_null(strstr(text, "cache"));
    tdm_block_release(blocks[0]);
    tdm_block_release(blocks[2]);
    tdm_block_release(blocks[3]);
}

/* ---- relief and accounts --------------------------------------------------------------------- */

static bool free_a_block(pool_world *w, uint64_t bytes, int attempt) {
    tdm_block **const victim = w->relief;
    assert_int_equal(bytes, 3 * MIB);
    assert_int_equal(attempt, w->reliefs - 1);
    if (attempt == 0)
        return true; // nothing was freed: called again
    // The pool is not locked, so the callback can use it.
    tdm_block_release(victim[attempt - 1]);
    return attempt <= 2;
}

WORLD_TEST(relief_is_asked_for_with_the_pool_unlocked, 4 * MIB) {
    tdm_block *victims[] = {world_alloc(w, 2 * MIB, 0), world_alloc(w, 2 * MIB, 0)};
    w->relieve = free_a_block;
    w->relief = victims;
    tdm_block *const block = world_alloc(w, 3 * MIB, 0);
    assert_int_equal(w->reliefs, 3);
    assert_int_equal(world_stats(w).retries, 1);
    w->relieve = NULL;
    expect_refused(w, 2 * MIB, TDM_OVER_BUDGET);
    assert_int_equal(w->reliefs, 4);
    // Relief is not called for a request that it cannot satisfy.
    expect_refused(w, 257 * MIB, TDM_OUT_OF_DEVICE_MEMORY);
    assert_int_equal(w->reliefs, 4);
    tdm_block_release(block);
}

TEST(pools_share_an_account) {
    tdm_memory_account account = {.bound = 6 * MIB};
    pool_world w[2];
    for (int i = 0; i < 2; i++) {
        w[i] = (pool_world){.pool = NULL};
        tdm_pool_upstream upstream = world_upstream(&w[i]);
        upstream.account = &account;
        world_open_on(&w[i], &upstream);
    }
    tdm_block *const a = world_alloc(&w[0], 4 * MIB, 0);
    assert_int_equal(atomic_load(&account.reserved), 4 * MIB);
    tdm_block *const b = world_alloc(&w[1], 2 * MIB, 0);
    expect_refused(&w[1], 1, TDM_OVER_BUDGET);
    assert_non_null(strstr(tdm_last_detail(), "6291456"));
    tdm_block_release(a);
    // Memory that another pool caches is not available to this one.
    expect_refused(&w[1], 2 * MIB, TDM_OVER_BUDGET);
    assert_int_equal(tdm_pool_trim(w[0].pool), 4 * MIB);
    tdm_block *const c = world_alloc(&w[1], 4 * MIB, 0);
    assert_int_equal(atomic_load(&account.reserved), 6 * MIB);
    // A failed native allocation is not counted.
    tdm_block_release(c);
    w[1].fail_from = 1;
    expect_refused(&w[1], 5 * MIB, TDM_OVER_BUDGET);
    tdm_pool_trim(w[1].pool);
    expect_refused(&w[1], 3 * MIB, TDM_OUT_OF_DEVICE_MEMORY);
    assert_int_equal(atomic_load(&account.reserved), w[1].native_bytes);
    w[1].fail_from = 0;
    tdm_block_release(b);
    world_close(&w[0]);
    world_close(&w[1]);
    assert_int_equal(atomic_load(&account.reserved), 0);
}

TEST(an_idle_slab_gives_way_to_a_shared_bound) {
    tdm_memory_account account = {.bound = 8 * MIB};
    pool_world w = {.pool = NULL};
    tdm_pool_upstream upstream = world_upstream(&w);
    upstream.account = &account;
    world_open_on(&w, &upstream);
    tdm_block *const small = world_alloc(&w, 5 * MIB, 1);
    world_use(small, 1, 1, NULL);
    tdm_block_release(small);
    tdm_block *const large = world_alloc(&w, 8 * MIB, 2);
    assert_int_equal(w.waits, 1);
    assert_int_equal(world_stats(&w).retries, 1);
    tdm_block_release(large);
    world_close(&w);
}

/* A per-thread cache counts memory that it takes first in the pool, then in the account. */
TEST(memory_on_its_way_leaves_room) {
    tdm_memory_account account = {.bound = 8 * MIB};
    pool_world w = {.pool = NULL};
    tdm_pool_upstream upstream = world_upstream(&w);
    upstream.account = &account;
    world_open_on(&w, &upstream);
    assert_int_equal(tdm_pool_room_for(w.pool, MIB), 7 * MIB);
    assert_true(tdm_memory_account_take(&w.pool->shared->group, MIB));
    assert_int_equal(tdm_pool_room_for(w.pool, MIB), 7 * MIB);
    tdm_memory_account_give(&w.pool->shared->group, MIB);
    world_close(&w);
}

/* ---- host memory ----------------------------------------------------------------------------- */

/*
 * Runs traffic that needs host memory for slabs, headers, uses and dependencies. Returns the number
 * of refusals.
 */
static long hungry_traffic(pool_world *w) {
    enum {
        BLOCKS = 120
    };
    tdm_block *blocks[BLOCKS] = {NULL};
    long refused = 0;
    for (int i = 0; i < 3 * BLOCKS; i++) {
        tdm_block **const slot = &blocks[i * 7 % BLOCKS];
        tdm_block_release(*slot);
        const tdm_status status =
            tdm_pool_alloc(w->pool, (size_t)(i % 9 + 1) * 40000, (uint32_t)(i % 4) + 1, slot);
        if (status != TDM_OK) {
            assert_int_equal(status, TDM_OUT_OF_HOST_MEMORY);
            assert_null(*slot);
            refused++;
            continue;
        }
        for (uint32_t stream = 1; stream <= 1 + (uint32_t)i % 4; stream++)
            if (tdm_pool_prepare(slot, 1, stream, NULL, 0) >= 0)
                tdm_pool_record_use(slot, 1, (tdm_use){stream, (uint64_t)i + 1});
            else
                refused++;
        if (i % 40 == 0)
            assert_null(world_check(w));
    }
    for (int i = 0; i < BLOCKS; i++)
        tdm_block_release(blocks[i]);
    assert_null(world_check(w));
    return refused;
}

TEST(host_memory_may_end_anywhere) {
    assert_true(counted_host_install());
    long refused = 1, runs = 0;
    for (long allowed = 1; refused; allowed++, runs++) {
        pool_world w;
        world_open(&w);
        counted_host_fail_from(allowed + 1);
        refused = hungry_traffic(&w);
        counted_host_recover();
        // Everything works again.
        assert_int_equal(hungry_traffic(&w), 0);
        world_close(&w);
        assert_int_equal(counted_host_live(), 0);
    }
    assert_in_range(runs, 10, 10000);
    assert_int_equal(tdm_set_host_allocator(NULL), TDM_OK);
}

/*
 * All streams of a use list may be destroyed. Its allocation is kept and is freed with the block.
 */
TEST(a_list_of_gone_streams_goes_back) {
    assert_true(counted_host_install());
    pool_world w;
    world_open(&w);
    tdm_block *const block = world_alloc(&w, 1000, 0);
    const long before = counted_host_live();
    for (uint32_t stream = 1; stream <= 4; stream++)
        assert_int_equal(tdm_pool_prepare(&block, 1, stream, NULL, 0), 0);
    assert_int_equal(counted_host_live(), before + 1);
    w.oldest = WORLD_STREAMS;
    assert_int_equal(tdm_pool_prepare(&block, 1, WORLD_STREAMS, NULL, 0), 0);
    assert_int_equal(block->use_count, 1);
    assert_int_equal(counted_host_live(), before + 1);
    tdm_block_release(block);
    assert_int_equal(counted_host_live(), before);
    world_close(&w);
    assert_int_equal(counted_host_live(), 0);
    assert_int_equal(tdm_set_host_allocator(NULL), TDM_OK);
}

/* ---- the throttle ---------------------------------------------------------------------------- */

#define AHEAD 64

/*
 * The host enqueues a command for each block of 4 MiB and frees the block; no command finishes by
 * itself. The commands run on a different stream, so a freed range is never ready. Returns the peak
 * of reserved bytes.
 */
static uint64_t run_ahead(pool_world *w, tdm_block *kept) {
    for (uint64_t i = 1; i <= AHEAD; i++) {
        tdm_block *const block = world_alloc(w, 4 * MIB, 1);
        world_use(block, 2, i, NULL);
        tdm_block_release(block);
    }
    tdm_block_release(kept);
    return world_stats(w).reserved_peak;
}

/*
 * A sixteenth of the 16 MiB that are live is only 1 MiB, so the throttle's minimum of 8 MiB may be
 * pending. The next allocation waits or is ordered behind another stream.
 */
TEST(a_throttled_pool_stays_small) {
    uint64_t reserved[2];
    for (int throttled = 0; throttled < 2; throttled++) {
        pool_world w;
        world_open(&w);
        tdm_pool_set_throttle(w.pool, throttled ? 16 : 0, 1);
        reserved[throttled] = run_ahead(&w, world_alloc(&w, 16 * MIB, 0));
        assert_int_equal(w.waits, 0);
        world_close(&w);
    }
    assert_true(reserved[0] > 16 * MIB + 48 * MIB);
    assert_true(reserved[1] <= 16 * MIB + 5 * 4 * MIB);
}

/* Each free range is too small for the next block; waiting lets the ranges merge. */
static uint64_t grow_blocks(pool_world *w, long *waits) {
    for (uint64_t i = 1; i <= 12; i++) {
        tdm_block *const block = world_alloc(w, (16 + 2 * i) * MIB, 1);
        world_use(block, 2, i, NULL);
        tdm_block_release(block);
    }
    *waits = w->waits;
    return world_stats(w).reserved_peak;
}

TEST(a_throttled_allocation_waits_for_room) {
    uint64_t reserved[2];
    long waits[2];
    for (int throttled = 0; throttled < 2; throttled++) {
        pool_world w;
        world_open(&w);
        tdm_pool_set_throttle(w.pool, throttled ? 16 : 0, 1);
        reserved[throttled] = grow_blocks(&w, &waits[throttled]);
        world_close(&w);
    }
    assert_int_equal(waits[0], 0);
    assert_true(waits[1] > 0);
    assert_true(reserved[1] < reserved[0] / 2);
}

/*
 * A command that never ends is waited for only once. Then the pool grows until the command has
 * ended after all.
 */
WORLD_TEST(a_stuck_stream_is_waited_for_once, 1024 * MIB) {
    long waits;
    w->stuck = true;
    tdm_pool_set_throttle(w->pool, 16, 1);
    grow_blocks(w, &waits);
    assert_int_equal(waits, 0);
    assert_int_equal(w->vain_waits, 1);
    w->polled[2] = 12;
    assert_int_equal(world_stats(w).pending, 0);
    w->stuck = false;
    tdm_block *const block = world_alloc(w, 60 * MIB, 1);
    world_use(block, 2, 13, NULL);
    tdm_block_release(block);
    tdm_block_release(world_alloc(w, 100 * MIB, 1));
    assert_int_equal(w->vain_waits, 1);
    assert_true(w->waits > 0);
}

static const tdm_use waited_in_vain = {.stream = 3, .sequence = 9};

/* While this wait succeeds, another thread records a wait that timed out. */
static bool wait_while_another_does(void *user, tdm_use use, uint64_t patience_ns) {
    pool_world *const w = user;
    (void)patience_ns;
    w->pool->stuck = waited_in_vain;
    w->passed[use.stream] = use.sequence;
    return true;
}

TEST(a_wait_in_vain_is_remembered_beside_others) {
    pool_world w = {.pool = NULL};
    long waits;
    tdm_pool_upstream upstream = world_upstream(&w);
    upstream.wait_briefly = wait_while_another_does;
    world_open_on(&w, &upstream);
    tdm_pool_set_throttle(w.pool, 16, 1);
    grow_blocks(&w, &waits);
    assert_int_equal(w.pool->stuck.sequence, waited_in_vain.sequence);
    world_close(&w);
}

TEST_MAIN(NULL, NULL)
