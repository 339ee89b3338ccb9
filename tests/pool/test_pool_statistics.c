// Statistics and the event ring, against a model that sees every operation.
// ctest: threads
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "api/device/core.h"
#include "api/pool/observation.h"
#include "tests/support/drivers/simulated_memory.h"
#include "tests/support/test_case.h"
#include "tests/support/test_data.h"

#define KIB 1024
#define TAG_NAMES 5
#define BLOCKS 200

/*
 * These are the expected counters. They are computed independently, as sums over the live objects.
 */
typedef struct model {
    tdm_memory_report expected;
    struct {
        uint64_t bytes, peak, blocks, blocks_peak, allocations;
    } tags[TAG_NAMES];
} model;

static const char *const tag_names[TAG_NAMES] = {"", "weights", "cache", "layer 3/attention", "x"};

static void counter_to(tdm_memory_counter *counter, uint64_t now) {
    if (now > counter->current)
        counter->allocated += now - counter->current;
    else
        counter->freed += counter->current - now;
    counter->current = now;
    if (now > counter->peak)
        counter->peak = now;
}

static void expect_counter(const char *name, const tdm_memory_counter *is,
                           const tdm_memory_counter *expected) {
    if (memcmp(is, expected, sizeof *is) != 0)
        fail_msg("%s: current %llu, peak %llu, allocated %llu, freed %llu; expected %llu, %llu, "
                 "%llu, %llu",
                 name, (unsigned long long)is->current, (unsigned long long)is->peak,
                 (unsigned long long)is->allocated, (unsigned long long)is->freed,
                 (unsigned long long)expected->current, (unsigned long long)expected->peak,
                 (unsigned long long)expected->allocated, (unsigned long long)expected->freed);
}

static void expect_report(const tdm_observation *observation, const tdm_memory_report *expected) {
    tdm_memory_report is = {.struct_size = sizeof is};
    tdm_observation_report(observation, &is);
#define EXPECT(name) expect_counter(#name, &is.name, &expected->name);
    TDM_COUNTER_LIST(EXPECT)
#undef EXPECT
    assert_int_equal(is.retries, expected->retries);
    assert_int_equal(is.ooms, expected->ooms);
}

static void expect_tags(const tdm_observation *observation, const model *m) {
    tdm_memory_tag_usage usage[TAG_NAMES + 1];
    const int count = tdm_observation_tags(observation, usage, TAG_NAMES + 1);
    int seen = 0;
    for (int i = 0; i < TAG_NAMES; i++) {
        int at = 0;
        while (at < count && strcmp(usage[at].tag, tag_names[i]) != 0)
            at++;
        if (at == count) {
            assert_int_equal(m->tags[i].allocations, 0);
            continue;
        }
        seen++;
        assert_int_equal(usage[at].bytes, m->tags[i].bytes);
        assert_int_equal(usage[at].bytes_peak, m->tags[i].peak);
        assert_int_equal(usage[at].blocks, m->tags[i].blocks);
        assert_int_equal(usage[at].blocks_peak, m->tags[i].blocks_peak);
        assert_int_equal(usage[at].allocations, m->tags[i].allocations);
    }
    assert_int_equal(seen, count);
}

/* ---- with a pool ----------------------------------------------------------------------------- */

typedef struct live_block {
    tdm_block *block;
    size_t requested;
    int tag;
} live_block;

static void model_block(model *m, const live_block *block, bool arrives) {
    const uint64_t sign = arrives ? 1 : UINT64_MAX;
    const uint64_t size = block->block->size;
    tdm_memory_report *const expected = &m->expected;
    counter_to(&expected->requested, expected->requested.current + sign * block->requested);
    counter_to(&expected->allocated, expected->allocated.current + sign * size);
    counter_to(&expected->active, expected->allocated.current);
    counter_to(&expected->blocks, expected->blocks.current + sign);
    simulated_native_of(block->block)->live += sign * size;
    m->tags[block->tag].bytes += sign * size;
    m->tags[block->tag].blocks += sign;
    m->tags[block->tag].allocations += arrives;
    if (m->tags[block->tag].bytes > m->tags[block->tag].peak)
        m->tags[block->tag].peak = m->tags[block->tag].bytes;
    if (m->tags[block->tag].blocks > m->tags[block->tag].blocks_peak)
        m->tags[block->tag].blocks_peak = m->tags[block->tag].blocks;
}

static void allocate_one(simulated_memory *memory, model *m, live_block *slot, size_t bytes,
                         int tag) {
    slot->tag = tag;
    slot->requested = bytes;
    if (tag)
        assert_int_equal(tdm_memory_tag_push(tag_names[tag]), TDM_OK);
    assert_int_equal(tdm_pool_alloc(memory->pool, bytes, 0, &slot->block), TDM_OK);
    if (tag)
        assert_int_equal(tdm_memory_tag_pop(), TDM_OK);
    model_block(m, slot, true);
}

static void free_one(model *m, live_block *slot) {
    model_block(m, slot, false);
    tdm_block_release(slot->block);
    slot->block = NULL;
}

static size_t random_bytes(test_random *random) {
    const int64_t magnitude = test_random_int(random, 0, 21);
    return (size_t)test_random_int(random, 0, INT64_C(1) << magnitude);
}

static uint64_t split_bytes(const simulated_memory *memory) {
    uint64_t bytes = 0;
    for (const simulated_native *each = memory->natives; each; each = each->next)
        bytes += each->live ? each->bytes - each->live : 0;
    return bytes;
}

static void reset_model(simulated_memory *memory, model *m) {
    counter_to(&m->expected.inactive_split, split_bytes(memory));
#define RESET(name) m->expected.name.peak = m->expected.name.current;
    TDM_COUNTER_LIST(RESET)
#undef RESET
    memory->bytes.peak = memory->bytes.current;
    memory->count.peak = memory->count.current;
    for (int i = 0; i < TAG_NAMES; i++) {
        m->tags[i].peak = m->tags[i].bytes;
        m->tags[i].blocks_peak = m->tags[i].blocks;
    }
}

static void expect_model(const simulated_memory *memory, const tdm_observation *observation,
                         model *m) {
    m->expected.reserved = memory->bytes;
    m->expected.slabs = memory->count;
    counter_to(&m->expected.inactive_split, split_bytes(memory));
    expect_report(observation, &m->expected);
    expect_tags(observation, m);
}

TEST(counters_follow_every_operation) {
    simulated_memory memory;
    model m = {0};
    live_block blocks[BLOCKS] = {0};
    test_random random = {71};
    simulated_open(&memory);
    tdm_observation *observation;
    assert_int_equal(tdm_observation_open(memory.pool, "pool", &observation), TDM_OK);
    for (int step = 0; step < 20000; step++) {
        live_block *const slot = &blocks[test_random_int(&random, 0, BLOCKS - 1)];
        if (slot->block)
            free_one(&m, slot);
        else
            allocate_one(&memory, &m, slot, random_bytes(&random),
                         (int)test_random_int(&random, 0, TAG_NAMES - 1));
        if (step % 1000 == 999)
            tdm_pool_trim(memory.pool);
        if (step % 1700 == 1699) {
            tdm_pool_statistics_reset_peaks(observation->statistics);
            reset_model(&memory, &m);
        }
        expect_model(&memory, observation, &m);
    }
    for (int i = 0; i < BLOCKS; i++)
        if (blocks[i].block) {
            free_one(&m, &blocks[i]);
            expect_model(&memory, observation, &m);
        }
    assert_int_equal(m.expected.allocated.current, 0);
    tdm_observation_close(observation);
    simulated_close(&memory);
}

TEST(refusals_and_retries_are_counted) {
    simulated_memory memory = {0};
    tdm_pool_upstream upstream = simulated_upstream(&memory);
    upstream.budget = 64 * KIB;
    assert_int_equal(tdm_pool_create(&upstream, &memory.pool), TDM_OK);
    tdm_observation *observation;
    assert_int_equal(tdm_observation_open(memory.pool, "pool", &observation), TDM_OK);
    tdm_block *block;
    assert_int_equal(tdm_pool_alloc(memory.pool, 65 * KIB, 0, &block), TDM_OVER_BUDGET);
    // Cached memory must be trimmed before the whole budget is free again.
    assert_int_equal(tdm_pool_alloc(memory.pool, 100, 0, &block), TDM_OK);
    tdm_block_release(block);
    assert_int_equal(tdm_pool_alloc(memory.pool, 64 * KIB, 0, &block), TDM_OK);
    tdm_memory_stats stats;
    tdm_memory_report is = {.struct_size = sizeof is};
    tdm_pool_stats(memory.pool, &stats);
    tdm_observation_report(observation, &is);
    assert_int_equal(is.ooms, 1);
    assert_int_equal(is.retries, stats.retries);
    assert_int_equal(is.budget, 64 * KIB);
    tdm_block_release(block);
    tdm_observation_close(observation);
    simulated_close(&memory);
}

/* ---- with events made by the test ------------------------------------------------------------ */

#define SLABS 6
#define PIECES 8
#define PIECE 512

/* Slabs of eight pieces; a piece is live, pending or free. */
typedef struct slab_world {
    enum {
        FREE,
        LIVE,
        PENDING
    } pieces[SLABS][PIECES];
} slab_world;

static uint64_t count_pieces(const slab_world *world, int slab, int what) {
    uint64_t count = 0;
    for (int i = 0; i < PIECES; i++)
        count += (int)world->pieces[slab][i] == what;
    return count;
}

static void model_slabs(const slab_world *world, tdm_memory_report *expected) {
    uint64_t live = 0, pending = 0, split = 0;
    for (int slab = 0; slab < SLABS; slab++) {
        const uint64_t here = count_pieces(world, slab, LIVE);
        live += here;
        pending += count_pieces(world, slab, PENDING);
        split += here ? PIECES - here : 0;
    }
    counter_to(&expected->allocated, live * PIECE);
    counter_to(&expected->requested, live * (PIECE - 3));
    counter_to(&expected->blocks, live);
    counter_to(&expected->active, (live + pending) * PIECE);
    counter_to(&expected->inactive_split, split * PIECE);
}

TEST(split_and_active_bytes_follow_the_slabs) {
    slab_world world = {0};
    tdm_memory_report expected = {0};
    test_random random = {72};
    tdm_pool_statistics *statistics;
    assert_int_equal(tdm_pool_statistics_open(NULL, NULL, &statistics), TDM_OK);
    const tdm_observation observation = {.statistics = statistics};
    for (int step = 0; step < 20000; step++) {
        const int slab = (int)test_random_int(&random, 0, SLABS - 1);
        const int piece = (int)test_random_int(&random, 0, PIECES - 1);
        const bool frees = world.pieces[slab][piece] == LIVE;
        world.pieces[slab][piece] = !frees ? LIVE : test_random_int(&random, 0, 1) ? PENDING : FREE;
        model_slabs(&world, &expected);
        tdm_pool_statistics_event(
            statistics,
            &(tdm_pool_event){.kind = frees ? TDM_POOL_EVENT_FREE : TDM_POOL_EVENT_ALLOC,
                              .generation = 1,
                              .requested = PIECE - 3,
                              .bytes = PIECE,
                              .slab_bytes = PIECES * PIECE,
                              .slab_live = PIECE * count_pieces(&world, slab, LIVE),
                              .pending = expected.active.current - expected.allocated.current});
        expect_report(&observation, &expected);
    }
    tdm_pool_statistics_close(statistics);
}

/*
 * Events of all kinds and several tags are delivered one by one to one listener and in batches to
 * another.
 */
TEST(events_at_once_count_as_one_by_one) {
    static const tdm_pool_event_kind kinds[] = {TDM_POOL_EVENT_ALLOC,      TDM_POOL_EVENT_ALLOC,
                                                TDM_POOL_EVENT_FREE,       TDM_POOL_EVENT_RETRY,
                                                TDM_POOL_EVENT_SLAB_ALLOC, TDM_POOL_EVENT_FAILURE};
    simulated_memory memory[2];
    tdm_pool_statistics *statistics[2];
    tdm_pool_event events[40];
    test_random random = {77};
    for (int i = 0; i < 2; i++) {
        simulated_open(&memory[i]);
        assert_int_equal(tdm_pool_statistics_open(memory[i].pool, NULL, &statistics[i]), TDM_OK);
    }
    for (int round = 0; round < 200; round++) {
        const int count = (int)test_random_int(&random, 1, 40);
        for (int i = 0; i < count; i++) {
            const uint64_t bytes = (uint64_t)test_random_int(&random, 1, 9) * 256;
            events[i] = (tdm_pool_event){.kind = kinds[test_random_int(&random, 0, 5)],
                                         .requested = bytes - 1,
                                         .bytes = bytes,
                                         .tag = tag_names[test_random_int(&random, 1, 2)],
                                         .slab_bytes = 1024 * KIB,
                                         .slab_live = 100 * KIB,
                                         .pending = (uint64_t)round};
            tdm_pool_statistics_event(statistics[0], &events[i]);
        }
        statistics[1]->listener.events(statistics[1]->listener.user, events, count);
        tdm_statistic_values values[2];
        tdm_memory_tag_usage usage[2];
        for (int i = 0; i < 2; i++)
            assert_true(tdm_statistic_read(statistics[i]->shared, 1, &values[i]));
        assert_memory_equal(&values[0], &values[1], sizeof values[0]);
        for (int tag = 0; tag < 2 && round > 10; tag++) {
            for (int i = 0; i < 2; i++)
                assert_true(tdm_statistic_read_tag(statistics[i]->shared, tag, 1, &usage[i]));
            assert_memory_equal(&usage[0], &usage[1], sizeof usage[0]);
        }
    }
    for (int i = 0; i < 2; i++) {
        tdm_pool_statistics_close(statistics[i]);
        simulated_close(&memory[i]);
    }
}

TEST(late_tags_count_together) {
    static char names[2 * TDM_STATISTIC_TAGS][16];
    tdm_memory_tag_usage usage[TDM_STATISTIC_TAGS + 1];
    tdm_pool_statistics *statistics;
    assert_int_equal(tdm_pool_statistics_open(NULL, NULL, &statistics), TDM_OK);
    const tdm_observation observation = {.statistics = statistics};
    for (int pass = 0; pass < 2; pass++)
        for (int i = 0; i < 2 * TDM_STATISTIC_TAGS; i++) {
            snprintf(names[i], sizeof names[i], "t%d", i);
            tdm_pool_statistics_event(statistics, &(tdm_pool_event){.kind = TDM_POOL_EVENT_ALLOC,
                                                                    .bytes = (uint64_t)i + 1,
                                                                    .tag = names[i]});
        }
    const int count = tdm_observation_tags(&observation, usage, TDM_STATISTIC_TAGS + 1);
    assert_int_equal(count, TDM_STATISTIC_TAGS);
    uint64_t rest = 0;
    for (int i = 0; i < 2 * TDM_STATISTIC_TAGS; i++)
        if (i < TDM_STATISTIC_TAGS - 1) {
            assert_string_equal(usage[i].tag, names[i]);
            assert_int_equal(usage[i].bytes, 2 * (i + 1));
            assert_int_equal(usage[i].allocations, 2);
        } else {
            rest += 2 * ((uint64_t)i + 1);
        }
    assert_string_equal(usage[TDM_STATISTIC_TAGS - 1].tag, "(other tags)");
    assert_int_equal(usage[TDM_STATISTIC_TAGS - 1].bytes, rest);
    tdm_pool_statistics_close(statistics);
}

typedef struct reading {
    tdm_pool_statistics *statistics;
    atomic_bool ended;
    atomic_long copies;
} reading;

/* One event changes several words; a copy must contain all of the changes or none. */
static void *read_on(void *user) {
    reading *const r = user;
    tdm_statistic_values values;
    while (!atomic_load(&r->ended)) {
        assert_true(tdm_statistic_read(r->statistics->shared, 1000000, &values));
        const uint64_t bytes = tdm_statistic_current(&values, TDM_COUNTER_allocated);
        assert_int_equal(tdm_statistic_current(&values, TDM_COUNTER_requested), bytes);
        assert_int_equal(tdm_statistic_current(&values, TDM_COUNTER_active), bytes);
        assert_int_equal(tdm_statistic_current(&values, TDM_COUNTER_blocks) * 256, bytes);
        atomic_fetch_add(&r->copies, 1);
    }
    return NULL;
}

TEST(copies_are_of_one_moment) {
    reading r = {0};
    pthread_t thread;
    assert_int_equal(tdm_pool_statistics_open(NULL, NULL, &r.statistics), TDM_OK);
    assert_int_equal(pthread_create(&thread, NULL, read_on, &r), 0);
    // On a busy machine the thread may start late.
    for (long i = 0; i < 400000 || atomic_load(&r.copies) < 100; i++)
        tdm_pool_statistics_event(
            r.statistics,
            &(tdm_pool_event){.kind = i % 4 < 2 ? TDM_POOL_EVENT_ALLOC : TDM_POOL_EVENT_FREE,
                              .requested = 256,
                              .bytes = 256});
    atomic_store(&r.ended, true);
    pthread_join(thread, NULL);
    tdm_pool_statistics_close(r.statistics);
}

/* ---- the ring -------------------------------------------------------------------------------- */

TEST(the_ring_keeps_the_last_events) {
    simulated_memory memory;
    tdm_pool_ring ring;
    tdm_memory_event events[16];
    simulated_open(&memory);
    tdm_pool_ring_init(&ring, memory.pool);
    tdm_block *block;
    assert_int_equal(tdm_pool_alloc(memory.pool, 100, 0, &block), TDM_OK);
    assert_int_equal(tdm_pool_ring_copy(&ring, events, 16), 0);
    assert_int_equal(tdm_pool_ring_resize(&ring, 7), TDM_OK);
    uint64_t number = 0;
    for (int i = 0; i < 40; i++) {
        tdm_block_release(block);
        assert_int_equal(tdm_memory_tag_push(i % 2 ? "odd" : "even"), TDM_OK);
        assert_int_equal(tdm_pool_alloc(memory.pool, 100 + (size_t)i, 3, &block), TDM_OK);
        assert_int_equal(tdm_memory_tag_pop(), TDM_OK);
        simulated_use(block, 2, (uint64_t)i + 1);
        number += 3;
        const uint64_t count = tdm_pool_ring_copy(&ring, events, 16);
        assert_int_equal(count, number < 7 ? number : 7);
        for (uint64_t j = 0; j < count; j++) {
            assert_int_equal(events[j].number, number - count + j + 1);
            assert_true(j == 0 || events[j].time_ns >= events[j - 1].time_ns);
        }
        const tdm_memory_event *const use = &events[count - 1], *const alloc = &events[count - 2];
        assert_int_equal(use->kind, TDM_MEMORY_USE);
        assert_int_equal(use->stream, 2);
        assert_int_equal(use->block, block->generation);
        assert_int_equal(alloc->kind, TDM_MEMORY_ALLOC);
        assert_int_equal(alloc->stream, 3);
        assert_int_equal(alloc->requested, 100 + i);
        assert_int_equal(alloc->bytes, block->size);
        assert_string_equal(alloc->tag, i % 2 ? "odd" : "even");
        assert_int_equal(events[count - 3].kind, TDM_MEMORY_FREE);
    }
    // A small buffer gets the newest events; a ring that is switched off gives none.
    assert_int_equal(tdm_pool_ring_copy(&ring, events, 1), 1);
    assert_int_equal(events[0].number, number);
    assert_int_equal(tdm_pool_ring_resize(&ring, 0), TDM_OK);
    tdm_block_release(block);
    assert_int_equal(tdm_pool_ring_copy(&ring, events, 16), 0);
    tdm_pool_ring_finish(&ring);
    simulated_close(&memory);
}

TEST_MAIN(NULL, NULL)
