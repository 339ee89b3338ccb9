// The pool runs over a simulated upstream. The tests check blocks, statistics, streams and pending
// dependencies. test_pool_model.c tests it at random, test_pool_limits.c at its limits,
// test_pool_threads.c with threads.
#include "tests/support/drivers/pool_world.h"
#include "tests/support/test_case.h"

WORLD_TEST(statistics_are_exact, 1024 * MIB) {
    tdm_memory_stats stats;
    tdm_block *const a = world_alloc(w, 1000, 0);
    tdm_block *const b = world_alloc(w, 3 * MIB, 0);
    tdm_pool_stats(w->pool, &stats);
    assert_int_equal(stats.requested, 1000 + 3 * MIB);
    assert_int_equal(stats.allocated, a->size + b->size);
    assert_int_equal(stats.reserved, w->native_bytes);
    assert_int_equal(stats.live_blocks, 2);
    assert_int_equal(stats.native_allocations, 2);
    assert_int_equal(stats.reuses, 0);
    const uint64_t allocated = stats.allocated;
    tdm_block_release(b);
    tdm_block *const c = world_alloc(w, 3 * MIB - 5, 0);
    tdm_pool_stats(w->pool, &stats);
    assert_ptr_equal(c, b);
    assert_int_equal(stats.reuses, 1);
    assert_int_equal(stats.native_allocations, 2);
    assert_int_equal(stats.allocated_peak, allocated);
    assert_int_equal(stats.requested, 1000 + 3 * MIB - 5);
    tdm_block_release(a);
    tdm_block_release(c);
    tdm_pool_reset_peaks(w->pool);
    tdm_pool_stats(w->pool, &stats);
    assert_int_equal(stats.allocated_peak, 0);
    assert_int_equal(stats.requested_peak, 0);
    assert_int_equal(stats.reserved_peak, w->native_bytes);
    assert_int_equal(stats.allocations, 3);
    assert_int_equal(stats.frees, 3);
    tdm_pool_trim(w->pool);
    assert_int_equal(w->native_bytes, 0);
}

WORLD_TEST(same_stream_reuses_at_once, 1024 * MIB) {
    tdm_block *const a = world_alloc(w, 2 * MIB, 1);
    assert_int_equal(world_use(a, 1, 7, NULL), 0);
    tdm_block_release(a);
    tdm_memory_stats stats;
    tdm_pool_stats(w->pool, &stats);
    assert_int_equal(stats.pending, a->size);
    tdm_block *const b = world_alloc(w, 2 * MIB, 1);
    assert_ptr_equal(a, b);
    // Commands of one stream run in order, so there is nothing to wait for.
    assert_int_equal(world_use(b, 1, 8, NULL), 0);
    assert_int_equal(w->waits, 0);
    tdm_block_release(b);
}

WORLD_TEST(another_stream_gets_a_dependency, 3 * MIB) {
    // The budget has room for one block only, so the pending one must be reused.
    tdm_block *const a = world_alloc(w, 2 * MIB, 1);
    world_use(a, 1, 7, NULL);
    tdm_block_release(a);
    tdm_block *const b = world_alloc(w, 2 * MIB, 2);
    assert_ptr_equal(a, b);
    tdm_use dependencies[8];
    assert_int_equal(world_use(b, 2, 1, dependencies), 1);
    assert_int_equal(dependencies[0].stream, 1);
    assert_int_equal(dependencies[0].sequence, 7);
    // The second command of stream 2 runs after the first: the dependency is not reported again.
    assert_int_equal(world_use(b, 2, 2, NULL), 0);
    // A third stream has not waited yet.
    assert_int_equal(world_use(b, 3, 1, NULL), 1);
    // Stream 4 is used only after the work of stream 1 has finished.
    w->passed[1] = 7;
    assert_int_equal(world_use(b, 4, 1, NULL), 0);
    tdm_block_release(b);
}

TEST(ready_blocks_come_first) {
    for (uint32_t other = 1; other <= WORLD_STREAMS; other += WORLD_STREAMS - 1) {
        const uint32_t stream = other == 1 ? 2 : 1; // stream 1 shares a lane with the last stream
        pool_world w;
        world_open(&w);
        tdm_block *const ready = world_alloc(&w, 2 * MIB, 0);
        tdm_block *const pending = world_alloc(&w, 2 * MIB, 0);
        world_use(pending, other, 5, NULL);
        tdm_block_release(ready);
        tdm_block_release(pending); // freed last, but not yet ready for the stream
        assert_ptr_equal(world_alloc(&w, 2 * MIB, stream), ready);
        // With room to grow, the pool avoids waiting.
        tdm_block *const fresh = world_alloc(&w, 2 * MIB, stream);
        assert_ptr_not_equal(fresh, pending);
        w.passed[other] = 5;
        assert_ptr_equal(world_alloc(&w, 2 * MIB, stream), pending);
        tdm_block_release(ready);
        tdm_block_release(fresh);
        tdm_block_release(pending);
        world_close(&w);
    }
}

WORLD_TEST(a_second_holder_keeps_the_block, 1024 * MIB) {
    tdm_block *const a = world_alloc(w, 2 * MIB, 0);
    tdm_block_retain(a);
    tdm_block_release(a);
    tdm_block *const b = world_alloc(w, 2 * MIB, 0);
    assert_ptr_not_equal(a, b);
    tdm_block_release(a);
    tdm_block_release(b);
}

WORLD_TEST(adopted_memory_does_not_count, 4 * MIB) {
    const tdm_pool_upstream upstream = world_upstream(w);
    tdm_bk_memory *memory = NULL;
    tdm_block *adopted;
    assert_int_equal(upstream.allocate(w, 16 * MIB, &memory), TDM_OK);
    assert_int_equal(tdm_pool_adopt(w->pool, memory, 16 * MIB, &adopted), TDM_OK);
    tdm_memory_stats stats;
    tdm_pool_stats(w->pool, &stats);
    assert_int_equal(stats.reserved + stats.allocated + stats.requested + stats.live_blocks, 0);
    tdm_block *const block = world_alloc(w, 3 * MIB, 0);
    tdm_block_release(adopted);
    tdm_pool_stats(w->pool, &stats);
    assert_int_equal(stats.native_frees, 0);
    assert_int_equal(stats.frees, 0);
    tdm_block_release(block);
}

WORLD_TEST(gone_streams_are_forgotten, 1024 * MIB) {
    tdm_block *const block = world_alloc(w, 100, 0);
    for (uint32_t stream = 1; stream <= 1000; stream++) {
        w->oldest = stream > 3 ? stream - 3 : 1;
        assert_int_equal(tdm_pool_prepare(&block, 1, stream, NULL, 0), 0);
        tdm_pool_record_use(&block, 1, (tdm_use){stream, 1});
    }
    assert_in_range(block->use_count, 3, 8);
    for (int i = 0; i < block->use_count; i++)
        block->uses[i].stream = 1; // the simulated streams end at STREAMS
    w->passed[1] = 1;
    tdm_block_release(block);
}

TEST(direct_mode_caches_nothing) {
    pool_world w;
    world_open_with(&w, 1024 * MIB, 256 * MIB, true);
    tdm_block *const a = world_alloc(&w, 1000, 0);
    tdm_block *const b = world_alloc(&w, 1000, 0);
    assert_ptr_not_equal(a->memory, b->memory);
    assert_int_equal(a->offset, 0);
    world_use(a, 1, 1, NULL);
    tdm_block_release(a);
    assert_int_equal(w.waits, 1); // native memory is never released while work uses it
    assert_int_equal(w.live_native, 1);
    tdm_block_release(b);
    world_close(&w);
}

/*
 * When more memory is pending than live, the pool makes one stream wait for another instead of
 * growing with the queue depth.
 */
WORLD_TEST(deep_queues_do_not_make_the_pool_grow, 1024 * MIB) {
    for (uint64_t i = 1; i <= 100; i++) {
        tdm_block *const block = world_alloc(w, 20 * MIB, (uint32_t)(i % 5) + 1);
        world_use(block, (uint32_t)(i % 5) + 1, i, NULL);
        tdm_block_release(block);
    }
    assert_in_range(world_stats(w).reserved_peak, 60 * MIB, 90 * MIB);
    assert_int_equal(w->waits, 0);
}

/* A visit reports every range in order, with the tag and size of its block. */
static void count_range(void *user, const tdm_slab_view *slab, const tdm_range_view *range) {
    uint64_t *const seen = user;
    assert_int_equal(range->offset, seen[0] % slab->bytes);
    seen[0] += range->bytes;
    seen[1] += range->state == TDM_RANGE_LIVE;
    seen[2] += range->state == TDM_RANGE_PENDING;
    if (range->state == TDM_RANGE_LIVE) {
        assert_string_equal(range->tag, "walked");
        assert_int_equal(range->requested, 1000);
        assert_int_equal(range->block->generation, range->generation);
    }
    if (range->state == TDM_RANGE_PENDING)
        assert_int_equal(range->stream, 2);
}

WORLD_TEST(a_traversal_sees_every_range, 1024 * MIB) {
    assert_int_equal(tdm_memory_tag_push("walked"), TDM_OK);
    tdm_block *const a = world_alloc(w, 1000, 0), *const b = world_alloc(w, 1000, 0);
    tdm_block *const c = world_alloc(w, 1000, 0);
    assert_int_equal(tdm_memory_tag_pop(), TDM_OK);
    world_use(b, 2, 3, NULL);
    tdm_block_release(b);
    uint64_t seen[3] = {0};
    tdm_pool_visit(w->pool, &(tdm_pool_visitor){.range = count_range, .user = seen});
    assert_int_equal(seen[0], w->native_bytes);
    assert_int_equal(seen[1], 2);
    assert_int_equal(seen[2], 1);
    char text[200];
    tdm_pool_holders(w->pool, text, sizeof text);
    assert_string_equal(text, "walked 2000 in 2 blocks");
    tdm_block_release(a);
    tdm_block_release(c);
}

TEST_MAIN(NULL, NULL)
