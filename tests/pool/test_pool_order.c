// Tests the pool's search cost: first the index of free ranges alone, then the ranges that one
// operation visits. Their number has a bound, whatever the order and number of blocks are.
#include <stdlib.h>
#include <string.h>

#include "tests/support/drivers/counted_host.h"
#include "tests/support/drivers/pool_world.h"
#include "tests/support/test_case.h"
#include "tests/support/test_data.h"

/* ---- the index ------------------------------------------------------------------------------- */

TEST(classes_follow_sizes) {
    unsigned before = 0;
    for (uint64_t units = 1; units < UINT64_C(1) << 42; units += 1 + units / 70) {
        const unsigned class = tdm_index_class(units);
        assert_in_range(class, before, TDM_INDEX_OCTAVES * TDM_INDEX_STEPS - 1);
        assert_in_range(tdm_index_class(units + units / 8 + 1), class + 1, UINT32_MAX);
        before = class;
    }
    for (uint64_t units = 1; units < 32; units++)
        assert_int_equal(tdm_index_class(units), units);
    assert_int_equal(tdm_index_class(32), tdm_index_class(33));
    assert_int_not_equal(tdm_index_class(33), tdm_index_class(34));
}

/*
 * The index finds a range for every request if any class above the request's has one. It never
 * returns a range that is too small.
 */
TEST(the_index_finds_what_fits) {
    enum {
        RANGES = 400
    };
    static tdm_pool_index index;
    static tdm_block ranges[RANGES];
    static bool inside[RANGES];
    test_random random = {77};
    for (int i = 0; i < RANGES; i++)
        ranges[i].size =
            (uint64_t)test_random_int(&random, 1, 1 << test_random_int(&random, 0, 20));
    for (int step = 0; step < 60000; step++) {
        const int which = (int)test_random_int(&random, 0, RANGES - 1);
        if (inside[which])
            tdm_index_remove(&index, &ranges[which], ranges[which].size);
        else
            tdm_index_insert(&index, &ranges[which], ranges[which].size);
        inside[which] = !inside[which];
        const uint64_t wanted =
            (uint64_t)test_random_int(&random, 1, 1 << test_random_int(&random, 0, 21));
        uint64_t visited = 0, largest = 0;
        const tdm_block *const found = tdm_index_find(&index, wanted, wanted, 0, &visited);
        bool above = false;
        const tdm_block *tightest = NULL;
        for (int i = 0; i < RANGES; i++) {
            if (!inside[i])
                continue;
            above |= tdm_index_class(ranges[i].size) > tdm_index_class(wanted);
            largest = ranges[i].size > largest ? ranges[i].size : largest;
            if (ranges[i].size >= wanted && (!tightest || ranges[i].size < tightest->size))
                tightest = &ranges[i];
        }
        assert_in_range(visited, 0, 9);
        assert_int_equal(tdm_index_largest(&index), largest);
        if (!found) {
            assert_false(above);
            continue;
        }
        assert_true(found->size >= wanted);
        assert_true(inside[found - ranges]);
        // The result is in the best-fitting class, unless that is the request's own class, which is
        // searched only in part.
        if (tdm_index_class(found->size) != tdm_index_class(tightest->size))
            assert_int_equal(tdm_index_class(tightest->size), tdm_index_class(wanted));
    }
}

/* The search soon gives up on a class full of ranges that are one unit too small. */
TEST(a_search_gives_up_soon) {
    static tdm_pool_index index;
    static tdm_block ranges[500];
    for (int i = 0; i < 500; i++) {
        ranges[i].size = 32;
        tdm_index_insert(&index, &ranges[i], 32);
    }
    uint64_t visited = 0;
    assert_null(tdm_index_find(&index, 33, 33, 0, &visited));
    assert_in_range(visited, 1, 8);
}

/* ---- visits ---------------------------------------------------------------------------------- */

/*
 * One search visits at most 14 ranges. An allocation searches two lanes, checks 16 pending ranges
 * and their neighbours, searches again, and may search all lanes. With one stream it finds a range
 * at once or grows.
 */
#define SEARCH_LIMIT 14
#define VISIT_LIMIT (4 * SEARCH_LIMIT + 16 * 9 + TDM_LANES * SEARCH_LIMIT)
#define VISIT_LIMIT_ONE_STREAM (2 * SEARCH_LIMIT)

typedef enum order {
    LIFO,
    FIFO,
    RANDOM,
    ORDERS
} order;

static size_t some_size(test_random *random) {
    return (size_t)test_random_int(random, 1, 256) << test_random_int(random, 0, 7);
}

static int next_victim(order how, int step, int count, test_random *random) {
    switch (how) {
    case LIFO:
        return count - 1 - step % count;
    case FIFO:
        return step % count;
    default:
        return (int)test_random_int(random, 0, count - 1);
    }
}

static void traffic(pool_world *w, order how, int count, uint32_t streams) {
    tdm_block **const blocks = calloc((size_t)count, sizeof(tdm_block *));
    assert_non_null(blocks);
    test_random random = {3};
    uint64_t sequence = 0;
    for (int i = 0; i < count; i++)
        blocks[i] = world_alloc(w, some_size(&random), 1);
    for (int i = 0; i < 2 * count; i++) {
        const int victim = next_victim(how, i, count, &random);
        const uint32_t stream = (uint32_t)test_random_int(&random, 1, streams);
        if (streams > 1)
            world_use(blocks[victim], stream, ++sequence, NULL);
        if (i % 64 == 0)
            w->passed[stream] = sequence;
        tdm_block_release(blocks[victim]);
        blocks[victim] = world_alloc(w, some_size(&random), stream);
    }
    for (int i = 0; i < count; i++)
        tdm_block_release(blocks[i]);
    free((void *)blocks);
}

TEST(visits_are_bounded) {
    const char *const scale = getenv("TANDEM_TEST_SCALE");
    const int most = scale && strcmp(scale, "small") == 0 ? 1000 : 100000;
    double mean_at_first[ORDERS] = {0};
    for (int how = 0; how < ORDERS; how++)
        for (int count = 100; count <= most; count *= 10)
            for (uint32_t streams = 1; streams <= WORLD_STREAMS; streams += 4) {
                pool_world w;
                world_open_with(&w, UINT64_C(1) << 40, UINT64_C(1) << 32, false);
                traffic(&w, (order)how, count, streams);
                const tdm_pool_totals totals = tdm_pool_totals_now(w.pool);
                assert_in_range(totals.operations, 6 * (uint64_t)count, 7 * (uint64_t)count);
                assert_in_range(totals.visited_max, 1,
                                streams == 1 ? VISIT_LIMIT_ONE_STREAM : VISIT_LIMIT);
                const double mean = (double)totals.visited / (double)totals.operations;
                // The mean does not grow with the number of blocks.
                if (count == 100 && streams == 1)
                    mean_at_first[how] = mean;
                assert_true(mean < 8.0 && mean < (streams == 1 ? 2 : 8) * mean_at_first[how] + 1);
                assert_null(world_check(&w));
                world_close(&w);
            }
}

/* Headers are allocated in chunks, so an allocation needs no host memory of its own. */
TEST(blocks_cost_no_host_allocation) {
    assert_true(counted_host_install());
    pool_world w;
    world_open(&w);
    long before = counted_host_calls();
    enum {
        BLOCKS = 10000
    };
    static tdm_block *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = world_alloc(&w, 300, 1);
    // The calls are for slabs and for chunks of up to 1024 headers.
    assert_in_range(counted_host_calls() - before, 1, 100);
    before = counted_host_calls();
    for (int i = 0; i < BLOCKS; i++) {
        world_use(blocks[i], 1, (uint64_t)i + 1, NULL);
        tdm_block_release(blocks[i]);
        blocks[i] = world_alloc(&w, 300, 1);
    }
    for (int i = 0; i < 10 * BLOCKS; i++) {
        tdm_block **const pair = &blocks[i % (BLOCKS / 2) * 2];
        tdm_block_release(pair[0]);
        tdm_block_release(pair[1]);
        pair[0] = world_alloc(&w, 500, 1);
        pair[1] = world_alloc(&w, 500, 1);
    }
    assert_int_equal(counted_host_calls(), before);
    for (int i = 0; i < BLOCKS; i++)
        tdm_block_release(blocks[i]);
    world_close(&w);
    assert_int_equal(tdm_set_host_allocator(NULL), TDM_OK);
}

TEST_MAIN(NULL, NULL)
