// The pool over a simulated upstream: a virtual clock per stream, host memory instead of a device.
// ctest: threads
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/core.h"
#include "tests/support/test_data.h"

#define STREAMS 4
#define MIB (UINT64_C(1) << 20)

/* Native allocations are numbered; streams pass commands only when a test says so, or when the pool waits. */
typedef struct world {
    tdm_pool *pool;
    uint64_t passed[STREAMS + 1];
    uint32_t oldest; // streams below are gone
    long waits;
    long live_native;
    uint64_t native_bytes;
    long fail_from; // native allocations fail from this one on; 0: never
    long asked;
} world;

static tdm_status native_allocate(void *user, size_t bytes, tdm_bk_memory **memory) {
    world *const w = user;
    if (w->fail_from && ++w->asked >= w->fail_from)
        return tdm_fail(TDM_OUT_OF_DEVICE_MEMORY, "simulated: %zu bytes refused", bytes);
    size_t *const block = malloc(bytes + sizeof(size_t));
    assert_non_null(block);
    *block = bytes;
    w->live_native++;
    w->native_bytes += bytes;
    *memory = (tdm_bk_memory *)block;
    return TDM_OK;
}

static void native_release(void *user, tdm_bk_memory *memory) {
    world *const w = user;
    w->live_native--;
    w->native_bytes -= *(size_t *)memory;
    free(memory);
}

static bool has_passed(void *user, tdm_use use) {
    return ((world *)user)->passed[use.stream] >= use.sequence;
}

static bool is_gone(void *user, uint32_t stream) {
    return stream < ((world *)user)->oldest;
}

static void poll_nothing(void *user) {
    (void)user;
}

static void wait_for(void *user, tdm_use use) {
    world *const w = user;
    if (w->passed[use.stream] >= use.sequence)
        return;
    w->waits++;
    w->passed[use.stream] = use.sequence;
}

static void world_open_with(world *w, uint64_t budget, uint64_t max_allocation, bool direct) {
    *w = (world){0};
    const tdm_pool_upstream upstream = {.user = w,
                                        .allocate = native_allocate,
                                        .release = native_release,
                                        .passed = has_passed,
                                        .gone = is_gone,
                                        .poll = poll_nothing,
                                        .wait = wait_for,
                                        .max_allocation = max_allocation,
                                        .alignment = 128,
                                        .budget = budget,
                                        .direct = direct};
    assert_int_equal(tdm_pool_create(&upstream, &w->pool), TDM_OK);
}

static void world_open(world *w) {
    world_open_with(w, 1024 * MIB, 256 * MIB, false);
}

static void world_close(world *w) {
    tdm_memory_stats stats;
    tdm_pool_stats(w->pool, &stats);
    assert_int_equal(stats.live_blocks, 0);
    assert_int_equal(stats.requested, 0);
    assert_int_equal(stats.allocated, 0);
    assert_int_equal(stats.reserved, w->native_bytes);
    tdm_pool_destroy(w->pool);
    assert_int_equal(w->live_native, 0);
}

static tdm_block *allocate(world *w, size_t bytes, uint32_t stream) {
    tdm_block *block;
    assert_int_equal(tdm_pool_alloc(w->pool, bytes, stream, &block), TDM_OK);
    assert_true(block->size >= bytes);
    return block;
}

/* A command of `stream` uses the block; returns the edges it had to wait for. */
static int use(tdm_block *block, uint32_t stream, uint64_t sequence, tdm_use *edges) {
    tdm_use found[8];
    const int count = tdm_pool_prepare(&block, 1, stream, edges ? edges : found, 8);
    assert_true(count >= 0);
    tdm_pool_mark(&block, 1, (tdm_use){stream, sequence});
    return count;
}

static void blocks_are_aligned_and_apart(void **state) {
    (void)state;
    world w;
    world_open(&w);
    tdm_block *blocks[300];
    for (int i = 0; i < 300; i++) {
        blocks[i] = allocate(&w, (size_t)i * 7, 0);
        assert_int_equal(blocks[i]->offset % 256, 0);
        for (int j = 0; j < i; j++)
            assert_true(blocks[i]->memory != blocks[j]->memory ||
                        blocks[i]->offset + blocks[i]->size <= blocks[j]->offset ||
                        blocks[j]->offset + blocks[j]->size <= blocks[i]->offset);
    }
    for (int i = 0; i < 300; i++)
        tdm_block_release(blocks[i]);
    world_close(&w);
}

static void statistics_are_exact(void **state) {
    (void)state;
    world w;
    world_open(&w);
    tdm_memory_stats stats;
    tdm_block *const a = allocate(&w, 1000, 0);
    tdm_block *const b = allocate(&w, 3 * MIB, 0);
    tdm_pool_stats(w.pool, &stats);
    assert_int_equal(stats.requested, 1000 + 3 * MIB);
    assert_int_equal(stats.allocated, a->size + b->size);
    assert_int_equal(stats.reserved, w.native_bytes);
    assert_int_equal(stats.live_blocks, 2);
    assert_int_equal(stats.native_allocations, 2);
    assert_int_equal(stats.reuses, 0);
    const uint64_t allocated = stats.allocated;
    tdm_block_release(b);
    tdm_block *const c = allocate(&w, 3 * MIB - 5, 0);
    tdm_pool_stats(w.pool, &stats);
    assert_ptr_equal(c, b);
    assert_int_equal(stats.reuses, 1);
    assert_int_equal(stats.native_allocations, 2);
    assert_int_equal(stats.allocated_peak, allocated);
    assert_int_equal(stats.requested, 1000 + 3 * MIB - 5);
    tdm_block_release(a);
    tdm_block_release(c);
    tdm_pool_reset_peaks(w.pool);
    tdm_pool_stats(w.pool, &stats);
    assert_int_equal(stats.allocated_peak, 0);
    assert_int_equal(stats.requested_peak, 0);
    assert_int_equal(stats.reserved_peak, w.native_bytes);
    assert_int_equal(stats.allocations, 3);
    assert_int_equal(stats.frees, 3);
    tdm_pool_trim(w.pool);
    assert_int_equal(w.native_bytes, 0);
    world_close(&w);
}

static void same_stream_reuses_at_once(void **state) {
    (void)state;
    world w;
    world_open(&w);
    tdm_block *const a = allocate(&w, 2 * MIB, 1);
    assert_int_equal(use(a, 1, 7, NULL), 0);
    tdm_block_release(a);
    tdm_memory_stats stats;
    tdm_pool_stats(w.pool, &stats);
    assert_int_equal(stats.pending, a->size);
    tdm_block *const b = allocate(&w, 2 * MIB, 1);
    assert_ptr_equal(a, b);
    // In-order on the same stream: nothing to wait for.
    assert_int_equal(use(b, 1, 8, NULL), 0);
    assert_int_equal(w.waits, 0);
    tdm_block_release(b);
    world_close(&w);
}

static void other_stream_gets_an_edge(void **state) {
    (void)state;
    world w;
    // The budget has room for one block only, so the pending one must be reused.
    world_open_with(&w, 3 * MIB, 256 * MIB, false);
    tdm_block *const a = allocate(&w, 2 * MIB, 1);
    use(a, 1, 7, NULL);
    tdm_block_release(a);
    tdm_block *const b = allocate(&w, 2 * MIB, 2);
    assert_ptr_equal(a, b);
    tdm_use edges[8];
    assert_int_equal(use(b, 2, 1, edges), 1);
    assert_int_equal(edges[0].stream, 1);
    assert_int_equal(edges[0].sequence, 7);
    // The second command of stream 2 is behind the first: the edge is not asked for again.
    assert_int_equal(use(b, 2, 2, NULL), 0);
    // A third stream has not waited yet.
    assert_int_equal(use(b, 3, 1, NULL), 1);
    // Stream 4 comes after stream 1 has passed.
    w.passed[1] = 7;
    assert_int_equal(use(b, 4, 1, NULL), 0);
    tdm_block_release(b);
    world_close(&w);
}

static void edge_outlives_an_unused_life(void **state) {
    (void)state;
    world w;
    world_open_with(&w, 3 * MIB, 256 * MIB, false);
    tdm_block *block = allocate(&w, 2 * MIB, 1);
    use(block, 1, 7, NULL);
    tdm_block_release(block);
    // A life in which nobody used the block must not forget the work before it.
    block = allocate(&w, 2 * MIB, 2);
    tdm_block_release(block);
    block = allocate(&w, 2 * MIB, 2);
    assert_int_equal(use(block, 2, 1, NULL), 1);
    tdm_block_release(block);
    world_close(&w);
}

static void ready_blocks_come_first(void **state) {
    (void)state;
    world w;
    world_open(&w);
    tdm_block *const ready = allocate(&w, 2 * MIB, 0);
    tdm_block *const pending = allocate(&w, 2 * MIB, 0);
    use(pending, 1, 5, NULL);
    tdm_block_release(ready);
    tdm_block_release(pending); // the last one freed, but not ready for stream 2
    assert_ptr_equal(allocate(&w, 2 * MIB, 2), ready);
    // With room to grow, waiting is avoided altogether.
    tdm_block *const fresh = allocate(&w, 2 * MIB, 2);
    assert_ptr_not_equal(fresh, pending);
    w.passed[1] = 5;
    assert_ptr_equal(allocate(&w, 2 * MIB, 2), pending);
    tdm_block_release(ready);
    tdm_block_release(fresh);
    tdm_block_release(pending);
    world_close(&w);
}

static void budget_is_kept_to_the_byte(void **state) {
    (void)state;
    world w;
    world_open_with(&w, 4 * MIB, 256 * MIB, false);
    tdm_block *const a = allocate(&w, 4 * MIB, 0);
    tdm_block *b;
    assert_int_equal(tdm_pool_alloc(w.pool, 1, 0, &b), TDM_OVER_BUDGET);
    assert_null(b);
    assert_non_null(strstr(tdm_last_detail(), "4194304"));
    tdm_memory_stats stats;
    tdm_pool_stats(w.pool, &stats);
    assert_int_equal(stats.failures, 1);
    assert_int_equal(stats.live_blocks, 1);
    assert_int_equal(stats.reserved, 4 * MIB);
    tdm_block_release(a);
    // Cached memory gives way to a request of another arena.
    b = allocate(&w, 100, 0);
    tdm_pool_stats(w.pool, &stats);
    assert_int_equal(stats.native_frees, 1);
    assert_in_range(stats.reserved, 1, 4 * MIB);
    tdm_block_release(b);
    tdm_pool_set_budget(w.pool, 256);
    assert_in_range(w.native_bytes, 0, 256);
    world_close(&w);
}

static void largest_allocation_is_respected(void **state) {
    (void)state;
    world w;
    world_open_with(&w, 1024 * MIB, 9 * MIB + 256, false);
    // The class above would be too large for the device; the exact size is not.
    tdm_block *const a = allocate(&w, 9 * MIB + 256, 0);
    assert_int_equal(a->size, 9 * MIB + 256);
    tdm_block *b;
    assert_int_equal(tdm_pool_alloc(w.pool, 9 * MIB + 257, 0, &b), TDM_OUT_OF_DEVICE_MEMORY);
    assert_int_equal(tdm_pool_alloc(w.pool, SIZE_MAX, 0, &b), TDM_OUT_OF_DEVICE_MEMORY);
    tdm_block_release(a);
    // Again from the cache, though not of its own class's size.
    tdm_block *const c = allocate(&w, 9 * MIB, 0);
    assert_ptr_equal(c, a);
    tdm_block_release(c);
    world_close(&w);
}

static void native_failure_waits_trims_and_retries(void **state) {
    (void)state;
    world w;
    world_open(&w);
    tdm_block *const a = allocate(&w, 8 * MIB, 1);
    use(a, 1, 3, NULL);
    tdm_block_release(a);
    w.fail_from = 1;
    tdm_block *b;
    assert_int_equal(tdm_pool_alloc(w.pool, 64 * MIB, 1, &b), TDM_OUT_OF_DEVICE_MEMORY);
    // The trim gave the pending block back, and waited for its work before it did.
    assert_int_equal(w.waits, 1);
    assert_int_equal(w.live_native, 0);
    w.fail_from = 0;
    b = allocate(&w, 64 * MIB, 1);
    tdm_block_release(b);
    world_close(&w);
}

static void a_second_holder_keeps_the_block(void **state) {
    (void)state;
    world w;
    world_open(&w);
    tdm_block *const a = allocate(&w, 2 * MIB, 0);
    tdm_block_retain(a);
    tdm_block_release(a);
    tdm_block *const b = allocate(&w, 2 * MIB, 0);
    assert_ptr_not_equal(a, b);
    tdm_block_release(a);
    tdm_block_release(b);
    world_close(&w);
}

static void adopted_memory_does_not_count(void **state) {
    (void)state;
    world w;
    world_open_with(&w, 4 * MIB, 256 * MIB, false);
    tdm_bk_memory *memory = NULL;
    tdm_block *adopted;
    assert_int_equal(native_allocate(&w, 16 * MIB, &memory), TDM_OK);
    assert_int_equal(tdm_pool_adopt(w.pool, memory, 16 * MIB, &adopted), TDM_OK);
    tdm_memory_stats stats;
    tdm_pool_stats(w.pool, &stats);
    assert_int_equal(stats.reserved + stats.allocated + stats.requested + stats.live_blocks, 0);
    tdm_block *const block = allocate(&w, 3 * MIB, 0);
    tdm_block_release(adopted);
    tdm_pool_stats(w.pool, &stats);
    assert_int_equal(stats.native_frees, 0);
    assert_int_equal(stats.frees, 0);
    tdm_block_release(block);
    world_close(&w);
}

static void gone_streams_are_forgotten(void **state) {
    (void)state;
    world w;
    world_open(&w);
    tdm_block *const block = allocate(&w, 100, 0);
    for (uint32_t stream = 1; stream <= 1000; stream++) {
        w.oldest = stream > 3 ? stream - 3 : 1;
        assert_int_equal(tdm_pool_prepare(&block, 1, stream, NULL, 0), 0);
        tdm_pool_mark(&block, 1, (tdm_use){stream, 1});
    }
    assert_in_range(block->use_count, 3, 8);
    for (int i = 0; i < block->use_count; i++)
        block->uses[i].stream = 1; // the simulated streams end at STREAMS
    w.passed[1] = 1;
    tdm_block_release(block);
    world_close(&w);
}

static void direct_mode_caches_nothing(void **state) {
    (void)state;
    world w;
    world_open_with(&w, 1024 * MIB, 256 * MIB, true);
    tdm_block *const a = allocate(&w, 1000, 0);
    tdm_block *const b = allocate(&w, 1000, 0);
    assert_ptr_not_equal(a->memory, b->memory);
    assert_int_equal(a->offset, 0);
    use(a, 1, 1, NULL);
    tdm_block_release(a);
    assert_int_equal(w.waits, 1); // native memory is never given back under running work
    assert_int_equal(w.live_native, 1);
    tdm_block_release(b);
    world_close(&w);
}

/* Random traffic against a model that knows, for every byte of native memory, which command used it last. */
static void random_traffic_keeps_order(void **state) {
    (void)state;
    enum {
        LIVE = 200,
        STEPS = 60000
    };
    world w;
    world_open_with(&w, 64 * MIB, 256 * MIB, false);
    test_random random = {42};
    tdm_block *live[LIVE] = {0};
    uint64_t sequence[STREAMS + 1] = {0};
    uint64_t requested = 0;
    long refused = 0;
    for (int step = 0; step < STEPS; step++) {
        const int slot = (int)test_random_int(&random, 0, LIVE - 1);
        const uint32_t stream = (uint32_t)test_random_int(&random, 1, STREAMS);
        if (!live[slot]) {
            const size_t bytes = (size_t)test_random_int(&random, 0, 8)
                                 << test_random_int(&random, 0, 18);
            if (tdm_pool_alloc(w.pool, bytes, stream, &live[slot]) != TDM_OK) {
                refused++;
                continue;
            }
            requested += bytes;
            for (int i = 0; i < LIVE; i++)
                assert_true(i == slot || live[i] != live[slot]);
        } else if (test_random_int(&random, 0, 2) > 0) {
            // Every unfinished use of another stream's former life must come back as an edge.
            tdm_use edges[STREAMS];
            const int count = tdm_pool_prepare(&live[slot], 1, stream, edges, STREAMS);
            assert_in_range(count, 0, STREAMS - 1);
            for (int i = 0; i < count; i++) {
                assert_int_not_equal(edges[i].stream, stream);
                assert_false(has_passed(&w, edges[i]));
            }
            tdm_pool_mark(&live[slot], 1, (tdm_use){stream, ++sequence[stream]});
        } else {
            requested -= live[slot]->requested;
            tdm_block_release(live[slot]);
            live[slot] = NULL;
        }
        if (step % 16 == 0)
            w.passed[stream] = sequence[stream] - sequence[stream] / 8;
        if (step % 64 == 0) {
            tdm_memory_stats stats;
            tdm_pool_stats(w.pool, &stats);
            assert_int_equal(stats.requested, requested);
            assert_int_equal(stats.reserved, w.native_bytes);
            assert_in_range(stats.reserved, stats.allocated, stats.budget);
        }
    }
    assert_in_range(refused, 0, STEPS / 4);
    for (int i = 0; i < LIVE; i++)
        tdm_block_release(live[i]);
    world_close(&w);
}

static void *traffic(void *user) {
    tdm_pool *const pool = user;
    tdm_block *blocks[16] = {0};
    for (int i = 0; i < 4000; i++) {
        tdm_block **const slot = &blocks[i * 7 % 16];
        tdm_block_release(*slot);
        if (tdm_pool_alloc(pool, (size_t)(i % 50) * 1000, 1, slot) != TDM_OK)
            *slot = NULL;
        else if (tdm_pool_prepare(slot, 1, 1, NULL, 0) >= 0)
            tdm_pool_mark(slot, 1, (tdm_use){1, 1});
        if (i % 1000 == 999)
            tdm_pool_trim(pool);
    }
    for (int i = 0; i < 16; i++)
        tdm_block_release(blocks[i]);
    return NULL;
}

static void threads_share_a_pool(void **state) {
    (void)state;
    world w;
    world_open(&w);
    w.passed[1] = 1;
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, traffic, w.pool), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    world_close(&w);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(blocks_are_aligned_and_apart),
        cmocka_unit_test(statistics_are_exact),
        cmocka_unit_test(same_stream_reuses_at_once),
        cmocka_unit_test(other_stream_gets_an_edge),
        cmocka_unit_test(edge_outlives_an_unused_life),
        cmocka_unit_test(ready_blocks_come_first),
        cmocka_unit_test(budget_is_kept_to_the_byte),
        cmocka_unit_test(largest_allocation_is_respected),
        cmocka_unit_test(native_failure_waits_trims_and_retries),
        cmocka_unit_test(a_second_holder_keeps_the_block),
        cmocka_unit_test(adopted_memory_does_not_count),
        cmocka_unit_test(gone_streams_are_forgotten),
        cmocka_unit_test(direct_mode_caches_nothing),
        cmocka_unit_test(random_traffic_keeps_order),
        cmocka_unit_test(threads_share_a_pool),
    };
    return cmocka_run_group_tests_name("pool", tests, NULL, NULL);
}
