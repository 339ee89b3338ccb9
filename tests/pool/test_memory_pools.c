// Tests private pools, the bound that they share, and the device's behaviour when memory is short.
// ctest: device threads debug
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "api/device/core.h"
#include "api/pool/pool_internal.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/own_device.h"
#include "tests/support/drivers/driver_faults.h"
#include "tests/support/test_case.h"
#include "tests/support/test_program.h"

#define MIB ((size_t)1 << 20)
#define THREADS 8
#define LONGEST_WAIT_MS 20000

/* Closes the device and checks that none of its memory is still reserved. */
static void close_empty(own_device *own) {
    assert_null(own->device->pools);
    TEST_OK(tdm_device_synchronize(own->device));
    TEST_OK(tdm_device_trim(own->device));
    assert_int_equal(atomic_load(&own->device->account.reserved), 0);
    own_device_close(own);
}

static tdm_memory_pool *make_pool(const own_device *own, uint64_t budget) {
    tdm_memory_pool *pool;
    const tdm_memory_pool_options options = {
        .struct_size = sizeof options, .name = "test", .budget_bytes = budget};
    TEST_OK(tdm_memory_pool_create(own->device, &options, &pool));
    return pool;
}

static tdm_buffer *make_buffer(const own_device *own, size_t bytes) {
    tdm_buffer *buffer;
    TEST_OK(tdm_buffer_create(own->device, bytes, &buffer));
    return buffer;
}

static tdm_buffer *make_in(tdm_memory_pool *pool, size_t bytes) {
    tdm_buffer *buffer;
    TEST_OK(tdm_buffer_create_in(pool, bytes, &buffer));
    return buffer;
}

static tdm_memory_stats stats_of(const tdm_memory_pool *pool) {
    tdm_memory_stats stats = {.struct_size = sizeof stats};
    TEST_OK(tdm_memory_pool_stats(pool, &stats));
    return stats;
}

static tdm_memory_stats device_stats(const own_device *own) {
    tdm_memory_stats stats = {.struct_size = sizeof stats};
    TEST_OK(tdm_device_memory_stats(own->device, &stats));
    return stats;
}

static void sleep_a_while(void *user) {
    (void)user;
    const struct timespec time = {.tv_nsec = 40 * 1000 * 1000};
    nanosleep(&time, NULL);
}

/* ---- pools ----------------------------------------------------------------------------------- */

DEVICE_TEST(wrong_arguments) {
    tdm_memory_pool *pool = (tdm_memory_pool *)&pool;
    tdm_buffer *buffer = (tdm_buffer *)&buffer;
    char name[TDM_MEMORY_TAG_BYTES + 1];
    memset(name, 'x', sizeof name);
    name[sizeof name - 1] = '\0';
    const tdm_memory_pool_options small = {.struct_size = 1};
    const tdm_memory_pool_options named = {.struct_size = sizeof named, .name = name};
    tdm_memory_stats stats = {.struct_size = sizeof stats};
    TEST_REFUSED(tdm_memory_pool_create(device->device, NULL, NULL), TDM_BAD_ARGUMENT, "pool");
    TEST_REFUSED(tdm_memory_pool_create(NULL, NULL, &pool), TDM_BAD_ARGUMENT, "device");
    assert_null(pool);
    TEST_REFUSED(tdm_memory_pool_create(device->device, &small, &pool), TDM_BAD_ARGUMENT,
                 "is 1, but this library's struct");
    TEST_REFUSED(tdm_memory_pool_create(device->device, &named, &pool), TDM_BAD_ARGUMENT,
                 "the name has 64 bytes");
    TEST_REFUSED(tdm_buffer_create_in(NULL, 1, &buffer), TDM_BAD_ARGUMENT, "pool");
    assert_null(buffer);
    TEST_REFUSED(tdm_memory_pool_enter(NULL), TDM_BAD_ARGUMENT, "pool");
    TEST_REFUSED(tdm_memory_pool_leave(), TDM_BAD_STATE, "no pool is entered");
    TEST_REFUSED(tdm_memory_pool_stats(NULL, &stats), TDM_BAD_ARGUMENT, "pool");
    TEST_REFUSED(tdm_memory_pool_set_budget(NULL, 0), TDM_BAD_ARGUMENT, "pool");
    TEST_REFUSED(tdm_memory_pool_trim(NULL), TDM_BAD_ARGUMENT, "pool");
    tdm_memory_pool_destroy(NULL);
}

DEVICE_TEST(budgets_apart) {
    own_device own = own_device_open(device, 0);
    const size_t zones = own_device_zones(&own);
    tdm_memory_pool *const pool = make_pool(&own, 4 * MIB);
    tdm_buffer *const other = make_buffer(&own, 6 * MIB - zones);
    tdm_buffer *more = NULL;
    char held[48];
    snprintf(held, sizeof held, "%zu in 1 block", 4 * MIB - zones);
    TEST_REFUSED(tdm_buffer_create_in(pool, 4 * MIB - zones + 1, &more), TDM_OVER_BUDGET,
                 "budget of 4194304");
    assert_null(more);
    tdm_buffer *const buffer = make_in(pool, 4 * MIB - zones);
    assert_true(buffer->block->memory != other->block->memory);
    assert_int_equal(stats_of(pool).reserved, 4 * MIB);
    assert_int_equal(stats_of(pool).live_blocks, 1);
    assert_int_equal(device_stats(&own).live_blocks, 1);
    TEST_REFUSED(tdm_buffer_create_in(pool, 1, &more), TDM_OVER_BUDGET, held);
    assert_int_equal(stats_of(pool).failures, 2);
    TEST_OK(tdm_memory_pool_set_budget(pool, 9 * MIB));
    tdm_buffer *const second = make_in(pool, 3 * MIB - zones);
    tdm_buffer_destroy(second);
    tdm_buffer_destroy(buffer);
    TEST_OK(tdm_memory_pool_trim(pool));
    assert_int_equal(stats_of(pool).reserved, 0);
    tdm_memory_pool_destroy(pool);
    tdm_buffer_destroy(other);
    close_empty(&own);
}

/* Tensors and workspaces of operations are allocated from the thread's innermost entered pool. */
DEVICE_TEST(entered_pools) {
    own_device own = own_device_open(device, 0);
    tdm_memory_pool *const outer = make_pool(&own, 0), *const inner = make_pool(&own, 0);
    const int64_t shape[1] = {test_is_small() ? 3000 : 1 << 20};
    const int64_t reduced[1] = {1};
    tdm_tensor *a, *b, *c;
    TEST_OK(tdm_memory_pool_enter(outer));
    TEST_OK(tdm_tensor_create(own.device, TDM_F32, 1, shape, &a));
    TEST_OK(tdm_memory_pool_enter(inner));
    TEST_OK(tdm_tensor_create(own.device, TDM_F32, 1, reduced, &b));
    const uint64_t before = stats_of(inner).allocations;
    TEST_OK(tdm_tensor_fill(own.stream, 2.0, a));
    TEST_OK(tdm_reduce(own.stream, TDM_REDUCE_SUM, a, NULL, 0, b));
    TEST_OK(tdm_memory_pool_leave());
    TEST_OK(tdm_tensor_create(own.device, TDM_F32, 1, reduced, &c));
    TEST_OK(tdm_memory_pool_leave());
    TEST_REFUSED(tdm_memory_pool_leave(), TDM_BAD_STATE, "no pool");
    assert_int_equal(stats_of(outer).live_blocks, 2);
    assert_int_equal(stats_of(inner).live_blocks, 1);
    // The sum is computed in parts, which lie in the operation's workspace.
    assert_true(stats_of(inner).allocations > before || test_is_small());
    assert_int_equal(device_stats(&own).allocations, 0);
    TEST_OK(tdm_stream_synchronize(own.stream));
    for (int i = 0; i < 32; i++)
        TEST_OK(tdm_memory_pool_enter(inner));
    TEST_REFUSED(tdm_memory_pool_enter(outer), TDM_BAD_STATE, "32 pools");
    for (int i = 0; i < 32; i++)
        TEST_OK(tdm_memory_pool_leave());
    tdm_tensor_destroy(a);
    tdm_tensor_destroy(b);
    tdm_tensor_destroy(c);
    tdm_memory_pool_destroy(outer);
    tdm_memory_pool_destroy(inner);
    close_empty(&own);
}

/*
 * The handle is destroyed first. Buffers, a thread that has entered it, and work in flight keep the
 * pool alive.
 */
DEVICE_TEST(late_blocks_keep_the_pool) {
    own_device own = own_device_open(device, 0);
    tdm_memory_pool *const pool = make_pool(&own, 0);
    tdm_buffer *const buffer = make_in(pool, MIB);
    TEST_OK(tdm_memory_pool_enter(pool));
    tdm_memory_pool_destroy(pool);
    tdm_buffer *const other = make_buffer(&own, MIB);
    assert_ptr_equal(other->block->pool, buffer->block->pool);
    TEST_OK(tdm_memory_pool_leave());
    TEST_OK(tdm_stream_host_task(own.stream, sleep_a_while, NULL));
    TEST_OK(tdm_buffer_copy(own.stream, buffer, 0, other, 0, MIB));
    tdm_buffer_destroy(other);
    assert_non_null(own.device->pools);
    tdm_buffer_destroy(buffer);
    TEST_OK(tdm_stream_synchronize(own.stream));
    TEST_OK(tdm_device_trim(own.device));
    close_empty(&own);
}

/* A graph keeps the blocks that it was recorded with, and the blocks keep their pool. */
DEVICE_TEST(graphs_keep_the_pool) {
    own_device own = own_device_open(device, 0);
    tdm_memory_pool *const pool = make_pool(&own, 0);
    tdm_buffer *const x = make_in(pool, 4096), *const y = make_in(pool, 4096);
    tdm_buffer *const out = make_buffer(&own, 4096);
    unsigned char host[4096], found[4096];
    for (int i = 0; i < 4096; i++)
        host[i] = (unsigned char)(i * 7);
    TEST_OK(tdm_buffer_write(own.stream, x, 0, host, 4096));
    TEST_OK(tdm_stream_synchronize(own.stream));
    tdm_graph *graph;
    TEST_OK(tdm_stream_begin_recording(own.stream));
    TEST_OK(tdm_buffer_copy(own.stream, y, 0, x, 0, 4096));
    TEST_OK(tdm_buffer_copy(own.stream, out, 0, y, 0, 4096));
    TEST_OK(tdm_stream_end_recording(own.stream, &graph));
    tdm_buffer_destroy(x);
    tdm_buffer_destroy(y);
    // No other allocation may get the memory now, although no buffer holds it.
    tdm_buffer *const greedy = make_in(pool, 4096);
    TEST_OK(tdm_buffer_write(own.stream, greedy, 0, found, 4096));
    TEST_OK(tdm_stream_synchronize(own.stream));
    tdm_buffer_destroy(greedy);
    tdm_memory_pool_destroy(pool);
    assert_non_null(own.device->pools);
    for (int round = 0; round < 2; round++) {
        memset(found, 0, sizeof found);
        TEST_OK(tdm_graph_launch(graph, own.stream));
        TEST_OK(tdm_buffer_read(own.stream, out, 0, found, 4096));
        TEST_OK(tdm_stream_synchronize(own.stream));
        assert_memory_equal(found, host, 4096);
    }
    tdm_graph_destroy(graph);
    tdm_buffer_destroy(out);
    close_empty(&own);
}

/* ---- the bound of the device ----------------------------------------------------------------- */

DEVICE_TEST(the_device_bounds_the_sum) {
    own_device own = own_device_open(device, 8 * MIB);
    const size_t zones = own_device_zones(&own);
    tdm_memory_pool *const a = make_pool(&own, 0), *const b = make_pool(&own, 0);
    tdm_buffer *const first = make_in(a, 4 * MIB - zones), *const second =
                                                               make_in(b, 2 * MIB - zones);
    tdm_buffer *refused;
    TEST_REFUSED(tdm_buffer_create(own.device, 2 * MIB - zones + 1, &refused), TDM_OVER_BUDGET,
                 "over the device's memory budget of 8388608");
    tdm_buffer *const third = make_buffer(&own, 2 * MIB - zones);
    assert_int_equal(atomic_load(&own.device->account.reserved), 8 * MIB);
    tdm_buffer_destroy(second);
    tdm_buffer_destroy(third);
    TEST_OK(tdm_device_set_memory_budget(own.device, 5 * MIB));
    assert_int_equal(atomic_load(&own.device->account.reserved), 4 * MIB);
    TEST_REFUSED(tdm_buffer_create_in(b, 2 * MIB - zones, &refused), TDM_OVER_BUDGET, "5242880");
    TEST_OK(tdm_device_set_memory_budget(own.device, 0));
    tdm_buffer *const again = make_in(b, 4 * MIB - zones);
    tdm_buffer_destroy(again);
    tdm_buffer_destroy(first);
    tdm_memory_pool_destroy(a);
    tdm_memory_pool_destroy(b);
    close_empty(&own);
}

/* Another pool can take the cached memory of a pool, and also memory whose free is pending. */
DEVICE_TEST(other_pools_give_way) {
    own_device own = own_device_open(device, 8 * MIB);
    const size_t zones = own_device_zones(&own);
    tdm_memory_pool *const a = make_pool(&own, 0), *const b = make_pool(&own, 0);
    tdm_buffer_destroy(make_in(a, 6 * MIB - zones));
    // Without slabs, no memory is ever idle.
    const bool caches = device->info.capabilities & TDM_CAP_SLABS;
    assert_int_equal(stats_of(a).reserved, caches ? 6 * MIB : 0);
    tdm_buffer *busy = make_in(b, 7 * MIB - zones);
    assert_int_equal(stats_of(a).reserved, 0);
    assert_int_equal(stats_of(b).retries, caches);
    // Work that has not started yet still uses the memory when it is freed.
    TEST_OK(tdm_stream_host_task(own.stream, sleep_a_while, NULL));
    TEST_OK(tdm_buffer_copy(own.stream, busy, 0, busy, MIB, MIB));
    tdm_buffer_destroy(busy);
    tdm_buffer *const waited = make_in(a, 8 * MIB - zones);
    assert_int_equal(stats_of(b).reserved, 0);
    assert_int_equal(stats_of(a).retries, caches);
    tdm_buffer_destroy(waited);
    // The device's default pool takes memory from other pools too.
    tdm_buffer *const last = make_buffer(&own, 8 * MIB - zones);
    assert_int_equal(stats_of(a).reserved, 0);
    tdm_buffer_destroy(last);
    tdm_memory_pool_destroy(a);
    tdm_memory_pool_destroy(b);
    close_empty(&own);
}

/*
 * The driver reports out of memory only when a command is enqueued. Idle memory is released and the
 * command repeated; without idle memory the call fails with that status.
 */
DEVICE_TEST(no_memory_at_enqueue) {
    own_device own = own_device_open(device, 0);
    tdm_memory_pool *const pool = make_pool(&own, 0);
    tdm_buffer *const a = make_buffer(&own, 4096), *const b = make_buffer(&own, 4096);
    tdm_buffer_destroy(make_in(pool, MIB));
    const bool caches = device->info.capabilities & TDM_CAP_SLABS;
    assert_int_equal(stats_of(pool).reserved > 0, caches);
    test_fault_plant("clEnqueueCopyBuffer", 1, -4, false);
    const tdm_status status = tdm_buffer_copy(own.stream, a, 0, b, 0, 4096);
    tdm_fault_clear();
    assert_int_equal(status, caches ? TDM_OK : TDM_OUT_OF_DEVICE_MEMORY);
    assert_int_equal(stats_of(pool).reserved, 0);
    test_fault_plant("clEnqueueCopyBuffer", 1, -4, false);
    const tdm_status refused = tdm_buffer_copy(own.stream, a, 0, b, 0, 4096);
    tdm_fault_clear();
    TEST_REFUSED(refused, TDM_OUT_OF_DEVICE_MEMORY, test_code_name(-4));
    TEST_OK(tdm_buffer_copy(own.stream, a, 0, b, 0, 4096));
    TEST_OK(tdm_stream_synchronize(own.stream));
    tdm_buffer_destroy(a);
    tdm_buffer_destroy(b);
    tdm_memory_pool_destroy(pool);
    close_empty(&own);
}

/* ---- callbacks ------------------------------------------------------------------------------- */

typedef struct holder {
    const own_device *own;
    tdm_buffer *kept[4];
    int count, asked;
    uint64_t needed;
    int *order, place; // records the order of the calls
    bool allocates;
} holder;

static int free_one(void *user, uint64_t needed) {
    holder *const h = user;
    h->asked++;
    h->needed = needed;
    if (h->order)
        h->order[h->place] = ++h->order[3];
    if (h->allocates) {
        // The library holds no lock here, and a callback's own allocation does not call it again.
        tdm_buffer *small;
        const int asked = h->asked;
        if (tdm_buffer_create(h->own->device, 64 * MIB, &small) == TDM_OK)
            tdm_buffer_destroy(small);
        assert_int_equal(h->asked, asked);
        assert_int_equal(tdm_device_trim(h->own->device), TDM_OK);
    }
    if (h->count == 0)
        return 0;
    tdm_buffer_destroy(h->kept[--h->count]);
    return 1;
}

DEVICE_TEST(callbacks_make_room) {
    own_device own = own_device_open(device, 8 * MIB);
    const size_t zones = own_device_zones(&own);
    tdm_memory_pool *const pool = make_pool(&own, 0);
    char requested[48], held[64];
    snprintf(requested, sizeof requested, "%zu bytes requested", 4 * MIB - zones);
    snprintf(held, sizeof held, "held by: untagged %zu in 1 block", 2 * MIB - zones);
    holder h = {.own = &own, .count = 4, .allocates = true};
    h.kept[0] = make_buffer(&own, 2 * MIB - zones);
    h.kept[1] = make_in(pool, 2 * MIB - zones);
    h.kept[2] = make_buffer(&own, 2 * MIB - zones);
    h.kept[3] = make_in(pool, 2 * MIB - zones);
    TEST_OK(tdm_device_add_memory_callback(own.device, free_one, &h));
    tdm_buffer *buffer = make_buffer(&own, 2 * MIB - zones);
    assert_int_equal(h.asked, 1);
    assert_int_equal(h.needed, 2 * MIB);
    assert_int_equal(device_stats(&own).retries, 1);
    tdm_buffer_destroy(buffer);
    // The library repeats the callback until enough memory is free.
    buffer = make_in(pool, 6 * MIB - zones);
    assert_true(h.asked >= 3 && h.count == 1);
    const tdm_memory_stats before = device_stats(&own), pool_before = stats_of(pool);
    tdm_buffer *refused = (tdm_buffer *)&refused;
    h.count = 0;
    TEST_REFUSED(tdm_buffer_create(own.device, 4 * MIB - zones, &refused), TDM_OVER_BUDGET,
                 requested);
    assert_null(refused);
    assert_non_null(strstr(tdm_last_detail(), "largest free range"));
    assert_non_null(strstr(tdm_last_detail(), held));
    const tdm_memory_stats after = device_stats(&own), pool_after = stats_of(pool);
    assert_int_equal(after.live_blocks, before.live_blocks);
    assert_int_equal(after.allocated, before.allocated);
    assert_int_equal(pool_after.live_blocks, pool_before.live_blocks);
    assert_int_equal(pool_after.reserved, pool_before.reserved);
    TEST_OK(tdm_device_remove_memory_callback(own.device, free_one, &h));
    const int asked = h.asked;
    TEST_REFUSED(tdm_buffer_create(own.device, 4 * MIB - zones, &refused), TDM_OVER_BUDGET,
                 "requested");
    assert_int_equal(h.asked, asked);
    tdm_buffer_destroy(h.kept[0]);
    tdm_buffer_destroy(buffer);
    tdm_memory_pool_destroy(pool);
    close_empty(&own);
}

DEVICE_TEST(callbacks_in_order) {
    own_device own = own_device_open(device, 4 * MIB);
    const size_t zones = own_device_zones(&own);
    int order[4] = {0};
    holder h[3];
    for (int i = 0; i < 3; i++)
        h[i] = (holder){.own = &own, .order = order, .place = i};
    h[1].kept[0] = make_buffer(&own, 4 * MIB - zones);
    h[1].count = 1;
    for (int i = 0; i < 3; i++)
        TEST_OK(tdm_device_add_memory_callback(own.device, free_one, &h[i]));
    tdm_buffer_destroy(make_buffer(&own, 3 * MIB - zones));
    // The first callback has nothing to free, the second frees enough, and the third is not called.
    assert_true(order[0] == 1 && order[1] == 2 && order[2] == 0);
    TEST_REFUSED(tdm_device_add_memory_callback(own.device, NULL, NULL), TDM_BAD_ARGUMENT,
                 "function");
    TEST_REFUSED(tdm_device_add_memory_callback(NULL, free_one, NULL), TDM_BAD_ARGUMENT, "device");
    TEST_REFUSED(tdm_device_remove_memory_callback(own.device, free_one, &own), TDM_BAD_STATE,
                 "the callback is not registered");
    for (int i = 0; i < 3; i++)
        TEST_OK(tdm_device_remove_memory_callback(own.device, free_one, &h[i]));
    TEST_REFUSED(tdm_device_remove_memory_callback(own.device, free_one, &h[0]), TDM_BAD_STATE,
                 "the callback is not registered");
    // A callback that is not removed is dropped with the device.
    TEST_OK(tdm_device_add_memory_callback(own.device, free_one, &h[0]));
    close_empty(&own);
}

/* ---- threads --------------------------------------------------------------------------------- */

typedef struct worker {
    pthread_t thread;
    const own_device *own;
    tdm_memory_pool *shared;
    int number;
    tdm_status status;
} worker;

static atomic_int times_asked;

static int note_only(void *user, uint64_t needed) {
    (void)needed;
    atomic_fetch_add(&times_asked, 1);
    return *(const int *)user;
}

static tdm_status use_pool(const worker *w, tdm_stream *stream, int round) {
    const size_t bytes = (size_t)(16 + 4 * ((w->number + round) % 5)) << 10;
    unsigned char in[64], out[64] = {0};
    tdm_buffer *a = NULL, *b = NULL;
    memset(in, w->number * 16 + round % 16, sizeof in);
    tdm_status status = tdm_buffer_create(w->own->device, bytes, &a);
    if (status == TDM_OK)
        status = tdm_buffer_create_in(w->shared, bytes, &b);
    if (status == TDM_OK)
        status = tdm_buffer_write(stream, a, bytes - 64, in, 64);
    if (status == TDM_OK)
        status = tdm_buffer_copy(stream, b, 0, a, bytes - 64, 64);
    if (status == TDM_OK)
        status = tdm_buffer_read(stream, b, 0, out, 64);
    const tdm_status waited = tdm_stream_synchronize(stream);
    tdm_buffer_destroy(a);
    tdm_buffer_destroy(b);
    // A refusal on a full device is no failure of this test; wrong bytes are.
    if (status == TDM_OVER_BUDGET)
        return TDM_OK;
    if (status == TDM_OK && memcmp(in, out, 64) != 0)
        return TDM_CORRUPT_DATA;
    return status != TDM_OK ? status : waited;
}

static tdm_status work(const worker *w) {
    tdm_stream *stream;
    TDM_TRY(tdm_stream_create(w->own->device, &stream));
    tdm_status status = TDM_OK;
    for (int round = 0; round < 12 && status == TDM_OK; round++) {
        int answer = 0;
        tdm_memory_pool *pool;
        TDM_TRY_GOTO(tdm_memory_pool_create(w->own->device, NULL, &pool));
        TDM_TRY_GOTO(tdm_device_add_memory_callback(w->own->device, note_only, &answer));
        TDM_TRY_GOTO(tdm_memory_pool_enter(pool));
        tdm_memory_pool_destroy(pool);
        const tdm_status used = use_pool(w, stream, round);
        TDM_TRY_GOTO(tdm_memory_pool_leave());
        TDM_TRY_GOTO(tdm_device_remove_memory_callback(w->own->device, note_only, &answer));
        TDM_TRY_GOTO(used);
    }

cleanup:
    tdm_stream_destroy(stream);
    return status;
}

static void *run_worker(void *user) {
    worker *const w = user;
    w->status = work(w);
    return NULL;
}

/*
 * The bound has room for five private slabs and the shared one, so threads keep evicting each
 * other's caches.
 */
DEVICE_TEST(threads) {
    own_device own = own_device_open(device, 12 * MIB);
    tdm_memory_pool *const shared = make_pool(&own, 2 * MIB);
    worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.own = &own, .shared = shared, .number = i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        if (workers[i].status != TDM_OK)
            test_case_fail("thread %d: %s", i, tdm_status_text(workers[i].status));
    }
    tdm_memory_pool_destroy(shared);
    TEST_OK(tdm_device_trim(own.device));
    close_empty(&own);
}

/* ---- the throttle: an allocation waits for another stream's work, but not forever ---- */

/*
 * This host task blocks its stream until the test ends it, or for a quarter of a second. The time
 * limit is for callers that may wait for the stream themselves.
 */
typedef struct sleeper {
    bool until_told;
    atomic_bool reported, awake;
} sleeper;

static void sleep_long(void *user) {
    sleeper *const own = user;
    const int most_ms = own->until_told ? LONGEST_WAIT_MS * test_time_factor() : 250;
    for (int i = 0; i < most_ms && !atomic_load(&own->reported); i++)
        usleep(1000);
    atomic_store(&own->awake, true);
}

static tdm_tensor *words(const test_device *device, int64_t bytes) {
    tdm_tensor *tensor;
    TEST_OK(tdm_tensor_create(device->device, TDM_S32, 1, (const int64_t[]){bytes / 4}, &tensor));
    return tensor;
}

/* Frees 12 MiB while a blocked stream still has to write to them. */
static void leave_pending(const test_device *device, sleeper *own) {
    tdm_tensor *const tensor = words(device, 12 * MIB), *part;
    TEST_OK(tdm_tensor_slice(tensor, 0, 0, 64, 1, &part));
    TEST_OK(tdm_stream_host_task(device->stream, sleep_long, own));
    TEST_OK(tdm_tensor_fill(device->stream, 1, part));
    TEST_OK(tdm_stream_flush(device->stream));
    tdm_tensor_destroy(part);
    tdm_tensor_destroy(tensor);
}

/*
 * Returns true if the larger block was allocated while the stream was still blocked. If
 * `patience_ms` is long enough, the allocation waits for the stream instead.
 */
static bool slept_on(const test_device *device, uint32_t share, uint32_t patience_ms,
                     bool until_told) {
    sleeper own = {.until_told = until_told};
    TEST_OK(tdm_stream_synchronize(device->stream));
    TEST_OK(tdm_device_trim(device->device));
    TEST_OK(tdm_device_set_memory_throttle(device->device, share, patience_ms));
    leave_pending(device, &own);
    tdm_tensor *const larger = words(device, 30 * MIB);
    const bool asleep = !atomic_load(&own.awake);
    atomic_store(&own.reported, true);
    TEST_OK(tdm_stream_synchronize(device->stream));
    tdm_tensor_destroy(larger);
    TEST_OK(tdm_device_set_memory_throttle(device->device, 0, 0));
    return asleep;
}

DEVICE_TEST(a_throttled_allocation_waits_within_its_patience) {
    // In debug mode, and on devices without slabs, each free waits for the device.
    if (!(device->info.capabilities & TDM_CAP_SLABS) || device->device->pool->zone_before > 0) {
        slept_on(device, 16, 20, false);
        return;
    }
    // Some devices run host tasks inside the call.
    const bool tasks_apart = (device->info.capabilities & TDM_CAP_HOST_TASK) != 0;
    const bool ahead = slept_on(device, 0, 0, tasks_apart);
    assert_int_equal(slept_on(device, 16, 20, tasks_apart), ahead);
    assert_false(slept_on(device, 16, 20000, false));
}

DEVICE_TEST(patience_is_asked_for) {
    TEST_REFUSED(tdm_device_set_memory_throttle(device->device, 16, 0), TDM_BAD_ARGUMENT,
                 "patience_ms is 0");
    TEST_REFUSED(tdm_device_set_memory_throttle(NULL, 16, 1), TDM_BAD_ARGUMENT, "device is NULL");
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
