// Weights stream within a budget of device memory. The tests check content in any order of use,
// edge cases, statistics and failures.
// ctest: device timeout=300
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/device/memory/staging_ring.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/drivers/driver_faults.h"
#include "tests/support/test_case.h"
#include "tests/support/test_data.h"

enum {
    ITEMS = 12,
    MAX_FLOATS = 4096
};

typedef struct weights {
    const test_device *device;
    float *memory[ITEMS];
    tdm_weight_stream_item items[ITEMS];
    uint64_t bytes;
} weights;

/* Makes items of different sizes. Element e of item i is i plus a fraction that grows with e. */
static weights make_weights(const test_device *device, int same_size) {
    weights w = {.device = device};
    for (int i = 0; i < ITEMS; i++) {
        const int64_t count = same_size ? MAX_FLOATS : MAX_FLOATS / (1 + i % 4) / 32 * 32;
        const int64_t shape[2] = {count / 32, 32};
        w.memory[i] = malloc((size_t)count * sizeof(float));
        for (int64_t e = 0; e < count; e++)
            w.memory[i][e] = (float)i + (float)e / MAX_FLOATS;
        TEST_OK(tdm_layout_contiguous(TDM_F32, 2, shape, &w.items[i].layout));
        w.items[i].memory = w.memory[i];
        w.items[i].bytes = (size_t)count * sizeof(float);
        w.bytes += w.items[i].bytes;
    }
    return w;
}

static void free_weights(weights *w) {
    for (int i = 0; i < ITEMS; i++)
        free(w->memory[i]);
}

static tdm_weight_stream_options options_for(uint64_t budget, int depth) {
    return (tdm_weight_stream_options){.struct_size = sizeof(tdm_weight_stream_options),
                                       .budget_bytes = budget,
                                       .depth = depth,
                                       .in_bytes_per_s = 1e9,
                                       .use_s = 1e-5};
}

static tdm_weight_stream_stats statistics(tdm_weight_stream *weight_stream) {
    tdm_weight_stream_stats stats = {.struct_size = sizeof stats};
    TEST_OK(tdm_weight_stream_statistics(weight_stream, &stats));
    return stats;
}

static void dawdle(void *user) {
    const struct timespec pause = {.tv_nsec = 3000000};
    (void)user;
    nanosleep(&pause, NULL);
}

/*
 * A user copies each item that it uses, on its own stream. If `slow`, a host task delays the copy.
 */
typedef struct user {
    tdm_stream *stream;
    tdm_tensor *copies[ITEMS];
    int slow;
} user;

static user make_user(const weights *w, tdm_stream *stream, int slow) {
    user u = {.stream = stream, .slow = slow};
    for (int i = 0; i < ITEMS; i++)
        TEST_OK(tdm_tensor_create(w->device->device, TDM_F32, 2, w->items[i].layout.shape,
                                  &u.copies[i]));
    return u;
}

static void free_user(user *u) {
    for (int i = 0; i < ITEMS; i++)
        tdm_tensor_destroy(u->copies[i]);
}

static tdm_status use_item(const user *u, tdm_weight_stream *weight_stream, int index) {
    const tdm_tensor *tensor;
    TDM_TRY(tdm_weight_stream_acquire(weight_stream, index, u->stream, &tensor));
    tdm_status status = TDM_OK;
    if (u->slow)
        status = tdm_stream_host_task(u->stream, dawdle, NULL);
    if (status == TDM_OK)
        status = tdm_tensor_copy(u->stream, tensor, u->copies[index]);
    const tdm_status released = tdm_weight_stream_release(weight_stream, index, u->stream);
    return status != TDM_OK ? status : released;
}

static void check_copy(const weights *w, const user *u, int index) {
    float *const got = malloc(w->items[index].bytes);
    TEST_OK(tdm_tensor_read(u->stream, u->copies[index], got, w->items[index].bytes, NULL));
    if (memcmp(got, w->memory[index], w->items[index].bytes) != 0)
        test_case_fail("item %d is not what was used: it begins with %g and ends with %g", index,
                       (double)got[0], (double)got[w->items[index].bytes / sizeof(float) - 1]);
    free(got);
    TEST_OK(tdm_tensor_fill(u->stream, -1, u->copies[index]));
}

/* ---- content --------------------------------------------------------------------------------- */

static void run_order(const weights *w, const user *u, tdm_weight_stream *weight_stream,
                      const int *order, int count) {
    for (int i = 0; i < count; i++)
        TEST_OK(use_item(u, weight_stream, order[i]));
    TEST_OK(tdm_stream_synchronize(u->stream));
    for (int i = 0; i < ITEMS; i++)
        check_copy(w, u, i);
}

DEVICE_TEST(any_order_and_budget) {
    static const double shares[] = {0.15, 0.25, 0.5, 0.8, 1.0, 2.0};
    weights w = make_weights(device, 0);
    test_random random = {99};
    user u = make_user(&w, device->stream, 0);
    for (size_t s = 0; s < sizeof shares / sizeof shares[0]; s++)
        for (int depth = 0; depth <= 2; depth++) {
            int order[3 * ITEMS];
            tdm_weight_stream *weight_stream = NULL;
            uint64_t budget = (uint64_t)(shares[s] * (double)w.bytes);
            const uint64_t least = (uint64_t)(depth + 1) * MAX_FLOATS * sizeof(float);
            if (budget < least)
                budget = least;
            const tdm_weight_stream_options options = options_for(budget, depth);
            TEST_OK(
                tdm_weight_stream_create(device->device, w.items, ITEMS, &options, &weight_stream));
            assert_true(statistics(weight_stream).device_bytes <= budget);
            for (int i = 0; i < 3 * ITEMS; i++)
                order[i] = i % ITEMS;
            run_order(&w, &u, weight_stream, order, 2 * ITEMS);
            for (int i = ITEMS - 1; i >= 0; i--)
                order[ITEMS - 1 - i] = i;
            run_order(&w, &u, weight_stream, order, ITEMS);
            for (int i = ITEMS; i < 3 * ITEMS; i++)
                order[i] = (int)test_random_int(&random, 0, ITEMS - 1);
            run_order(&w, &u, weight_stream, order, 3 * ITEMS);
            const tdm_weight_stream_stats stats = statistics(weight_stream);
            assert_true(stats.acquires == 6 * ITEMS);
            assert_true(stats.hits + stats.misses == stats.acquires);
            tdm_weight_stream_destroy(weight_stream);
        }
    free_user(&u);
    free_weights(&w);
}

/* The copies of the user are late, so an item's slot must wait for them before it is reused. */
static void use_late(const test_device *device) {
    weights w = make_weights(device, 1);
    const tdm_weight_stream_options options = options_for(3 * MAX_FLOATS * sizeof(float), 1);
    tdm_stream *second = NULL;
    tdm_weight_stream *weight_stream = NULL;
    TEST_OK(tdm_stream_create(device->device, &second));
    user users[2] = {make_user(&w, device->stream, 1), make_user(&w, second, 1)};
    TEST_OK(tdm_weight_stream_create(device->device, w.items, ITEMS, &options, &weight_stream));
    for (int i = 0; i < ITEMS; i++)
        TEST_OK(use_item(&users[i % 2], weight_stream, i));
    for (int i = 0; i < ITEMS; i++)
        TEST_OK(use_item(&users[1 - i % 2], weight_stream, i));
    for (int n = 0; n < 2; n++) {
        TEST_OK(tdm_stream_synchronize(users[n].stream));
        for (int i = 0; i < ITEMS; i++)
            check_copy(&w, &users[n], i);
        free_user(&users[n]);
    }
    tdm_weight_stream_destroy(weight_stream);
    tdm_stream_destroy(second);
    free_weights(&w);
}

DEVICE_TEST(late_users) {
    use_late(device);
}

/* The item is larger than one pinned piece, with a remainder. */
static void pass_large_item(const test_device *device) {
    const int64_t count = (int64_t)(TDM_STAGING_PIECE_BYTES / sizeof(float)) + 333;
    const size_t bytes = (size_t)count * sizeof(float);
    float *const memory = malloc(bytes), *const found = calloc(1, bytes);
    tdm_weight_stream_item item = {.memory = memory, .bytes = bytes};
    tdm_weight_stream *weight_stream;
    const tdm_tensor *tensor;
    for (int64_t i = 0; i < count; i++)
        memory[i] = (float)(i * 7 % 100003);
    TEST_OK(tdm_layout_contiguous(TDM_F32, 1, &count, &item.layout));
    const tdm_weight_stream_options options = options_for(2 * bytes, 0);
    TEST_OK(tdm_weight_stream_create(device->device, &item, 1, &options, &weight_stream));
    TEST_OK(tdm_weight_stream_acquire(weight_stream, 0, device->stream, &tensor));
    TEST_OK(tdm_tensor_read(device->stream, tensor, found, bytes, NULL));
    assert_memory_equal(found, memory, bytes);
    TEST_OK(tdm_weight_stream_release(weight_stream, 0, device->stream));
    tdm_weight_stream_destroy(weight_stream);
    free(memory);
    free(found);
}

/* The device is treated as one with memory of its own. */
DEVICE_TEST(pageable_weights_are_staged) {
    tdm_memory_stats before = {.struct_size = sizeof before}, after = before;
    const bool given = device->device->stages_copies;
    TEST_OK(tdm_device_host_memory_stats(device->device, &before));
    device->device->stages_copies = true;
    use_late(device);
    pass_large_item(device);
    device->device->stages_copies = given;
    TEST_OK(tdm_device_host_memory_stats(device->device, &after));
    const bool tasks = device->info.capabilities & TDM_CAP_HOST_TASK; // otherwise the driver copies
    assert_int_equal(after.allocations >= before.allocations + 4, tasks);
    assert_int_equal(after.live_blocks, before.live_blocks);
}

/* ---- statistics ------------------------------------------------------------------------------ */

DEVICE_TEST(cycles_hit_and_residents_stay) {
    weights w = make_weights(device, 1);
    const uint64_t item = MAX_FLOATS * sizeof(float);
    const tdm_weight_stream_options options = options_for(6 * item, 1);
    user u = make_user(&w, device->stream, 0);
    tdm_weight_stream *weight_stream = NULL;
    TEST_OK(tdm_weight_stream_create(device->device, w.items, ITEMS, &options, &weight_stream));
    tdm_weight_stream_stats stats = statistics(weight_stream);
    assert_int_equal(stats.depth, 1);
    assert_int_equal(stats.resident_items, 4); // the ring has the other two
    for (int i = 0; i < 2 * ITEMS; i++)
        TEST_OK(use_item(&u, weight_stream, i % ITEMS));
    const tdm_weight_stream_stats before = statistics(weight_stream);
    assert_true(before.misses <= 2); // the first, and one that the ring had no room to prefetch
    for (int i = 0; i < ITEMS; i++)
        TEST_OK(use_item(&u, weight_stream, i));
    stats = statistics(weight_stream);
    assert_true(stats.misses == before.misses);
    assert_true(stats.bytes_moved - before.bytes_moved == (ITEMS - 4) * item);
    // The reverse order is learned in one pass.
    for (int pass = 0; pass < 2; pass++)
        for (int i = ITEMS - 1; i >= 0; i--)
            TEST_OK(use_item(&u, weight_stream, i));
    const tdm_weight_stream_stats learned = statistics(weight_stream);
    for (int i = ITEMS - 1; i >= 0; i--)
        TEST_OK(use_item(&u, weight_stream, i));
    assert_true(statistics(weight_stream).misses == learned.misses);
    TEST_OK(tdm_stream_synchronize(device->stream));
    tdm_weight_stream_destroy(weight_stream);
    free_user(&u);
    free_weights(&w);
}

DEVICE_TEST(everything_fits) {
    weights w = make_weights(device, 0);
    const tdm_weight_stream_options options = options_for(2 * w.bytes, 0);
    user u = make_user(&w, device->stream, 0);
    tdm_weight_stream *weight_stream = NULL;
    TEST_OK(tdm_weight_stream_create(device->device, w.items, ITEMS, &options, &weight_stream));
    for (int i = 0; i < 3 * ITEMS; i++)
        TEST_OK(use_item(&u, weight_stream, i % ITEMS));
    const tdm_weight_stream_stats stats = statistics(weight_stream);
    assert_true(stats.bytes_moved == w.bytes && stats.evictions == 0);
    assert_int_equal(stats.resident_items, ITEMS);
    TEST_OK(tdm_stream_synchronize(device->stream));
    tdm_weight_stream_destroy(weight_stream);
    free_user(&u);
    free_weights(&w);
}

/* ---- refusals -------------------------------------------------------------------------------- */

DEVICE_TEST(refusals) {
    weights w = make_weights(device, 1);
    const uint64_t item = MAX_FLOATS * sizeof(float);
    tdm_weight_stream_options options = options_for(item - 1, 0);
    tdm_weight_stream *weight_stream = NULL;
    const tdm_tensor *tensor, *held[2];
    TEST_REFUSED(tdm_weight_stream_create(device->device, w.items, ITEMS, &options, &weight_stream),
                 TDM_OVER_BUDGET, "16384");
    options.budget_bytes = 2 * item;
    w.items[3].bytes--;
    TEST_REFUSED(tdm_weight_stream_create(device->device, w.items, ITEMS, &options, &weight_stream),
                 TDM_BAD_SHAPE, "item 3");
    w.items[3].bytes++;
    const tdm_layout layout = w.items[5].layout;
    TEST_OK(tdm_layout_contiguous(TDM_S4, 2, (const int64_t[]){4, 3}, &w.items[5].layout));
    TEST_REFUSED(tdm_weight_stream_create(device->device, w.items, ITEMS, &options, &weight_stream),
                 TDM_UNSUPPORTED, "item 5: stride 0 is 3, which splits a storage unit");
    w.items[5].layout = layout;
    options.depth = 1;
    TEST_OK(tdm_weight_stream_create(device->device, w.items, ITEMS, &options, &weight_stream));
    TEST_REFUSED(tdm_weight_stream_release(weight_stream, 0, device->stream), TDM_BAD_STATE,
                 "not acquired");
    TEST_REFUSED(tdm_weight_stream_acquire(weight_stream, ITEMS, device->stream, &tensor),
                 TDM_BAD_ARGUMENT, "index");
    TEST_OK(tdm_weight_stream_acquire(weight_stream, 4, device->stream, &held[0]));
    TEST_OK(tdm_weight_stream_acquire(weight_stream, 9, device->stream, &held[1]));
    TEST_REFUSED(tdm_weight_stream_acquire(weight_stream, 0, device->stream, &tensor),
                 TDM_OVER_BUDGET, "acquired");
    TEST_OK(tdm_weight_stream_acquire(weight_stream, 4, device->stream, &tensor));
    assert_ptr_equal(tensor, held[0]);
    TEST_OK(tdm_weight_stream_release(weight_stream, 4, device->stream));
    TEST_REFUSED(tdm_weight_stream_acquire(weight_stream, 0, device->stream, &tensor),
                 TDM_OVER_BUDGET, "acquired");
    TEST_OK(tdm_weight_stream_release(weight_stream, 4, device->stream));
    TEST_OK(tdm_weight_stream_acquire(weight_stream, 0, device->stream, &tensor));
    tdm_weight_stream_destroy(weight_stream);
    free_weights(&w);
}

/* ---- failures -------------------------------------------------------------------------------- */

/*
 * If the driver reports that a copy failed, the next acquire repeats the copy, once nobody holds
 * the item.
 */
DEVICE_TEST(failed_copies_are_made_again) {
    if (test_runs_on_cuda())
        return; // CUDA events never report the failure of a single command
    weights w = make_weights(device, 0);
    const tdm_weight_stream_options options = options_for(2 * w.bytes, 0);
    user u = make_user(&w, device->stream, 0);
    tdm_weight_stream *weight_stream = NULL;
    TEST_OK(tdm_weight_stream_create(device->device, w.items, ITEMS, &options, &weight_stream));
    for (int i = 0; i < 2 * ITEMS; i++)
        TEST_OK(use_item(&u, weight_stream, i % ITEMS));
    TEST_OK(tdm_stream_synchronize(device->stream));
    const tdm_weight_stream_stats before = statistics(weight_stream);
    tdm_fault_plant("clGetEventInfo", 1, -5, false);
    const tdm_status status = use_item(&u, weight_stream, 3);
    assert_true(tdm_fault_clear() > 0);
    TEST_OK(status);
    const tdm_weight_stream_stats after = statistics(weight_stream);
    assert_true(after.misses == before.misses + 1 && after.bytes_moved > before.bytes_moved);
    TEST_OK(tdm_stream_synchronize(device->stream));
    check_copy(&w, &u, 3);
    tdm_weight_stream_destroy(weight_stream);
    free_user(&u);
    free_weights(&w);
}

/*
 * Runs a cycle whose nth driver call fails, then one without faults. Every item that was used must
 * be right.
 */
static long cycle_with_fault(const weights *w, const user *u, long nth, long *noticed) {
    const tdm_weight_stream_options options = options_for(3 * MAX_FLOATS * sizeof(float), 1);
    tdm_weight_stream *weight_stream = NULL;
    tdm_fault_plant(NULL, nth, -5, false);
    tdm_status status =
        tdm_weight_stream_create(w->device->device, w->items, ITEMS, &options, &weight_stream);
    for (int i = 0; i < ITEMS && status == TDM_OK; i++)
        status = use_item(u, weight_stream, i);
    const long calls = tdm_fault_clear();
    *noticed += status != TDM_OK;
    tdm_stream_synchronize(u->stream);
    tdm_stream_clear_failure(u->stream);
    if (!weight_stream)
        TEST_OK(
            tdm_weight_stream_create(w->device->device, w->items, ITEMS, &options, &weight_stream));
    for (int i = 0; i < ITEMS; i++) {
        status = use_item(u, weight_stream, i);
        // This item was acquired by the call that failed.
        if (status != TDM_OK && strstr(tdm_last_detail(), "acquired"))
            TEST_OK(tdm_weight_stream_release(weight_stream, i, u->stream));
        else
            TEST_OK(status);
    }
    TEST_OK(tdm_stream_synchronize(u->stream));
    for (int i = 0; i < ITEMS; i++)
        check_copy(w, u, i);
    tdm_weight_stream_destroy(weight_stream);
    return calls;
}

DEVICE_TEST(every_driver_call_fails_once) {
    weights w = make_weights(device, 1);
    user u = make_user(&w, device->stream, 0);
    tdm_memory_stats before = {.struct_size = sizeof before}, after = before;
    long noticed = 0;
    const long calls = cycle_with_fault(&w, &u, -1, &noticed);
    assert_true(calls > 30 && noticed == 0);
    TEST_OK(tdm_device_memory_stats(device->device, &before));
    for (long nth = 1; nth <= calls;
         nth += test_is_small() || !(device->info.capabilities & TDM_CAP_CPU_CORES) ? 17 : 1)
        cycle_with_fault(&w, &u, nth, &noticed);
    TEST_OK(tdm_device_memory_stats(device->device, &after));
    assert_true(after.requested == before.requested && after.live_blocks == before.live_blocks);
    assert_true(noticed > 0);
    free_user(&u);
    free_weights(&w);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
