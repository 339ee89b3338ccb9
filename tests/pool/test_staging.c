// Tests pinned host memory: users' buffers, pieces for copies, and the ring that blocking copies
// use.
// ctest: device threads
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/device/memory/staging.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/own_device.h"
#include "tests/support/drivers/driver_faults.h"
#include "tests/support/test_case.h"
#include "tests/support/test_data.h"

#define MIB ((size_t)1 << 20)
#define THREADS 8

static tdm_memory_stats stats_of(const tdm_device *device) {
    tdm_memory_stats stats = {.struct_size = sizeof stats};
    TEST_OK(tdm_device_host_memory_stats(device, &stats));
    return stats;
}

static void fill_bytes(unsigned char *bytes, size_t count, uint32_t seed) {
    for (size_t i = 0; i < count; i++) {
        seed = seed * 1664525u + 1013904223u;
        bytes[i] = (unsigned char)(seed >> 24);
    }
}

/* ---- public buffers -------------------------------------------------------------------------- */

DEVICE_TEST(buffers_of_users) {
    tdm_host_buffer *a, *b, *none;
    const uint64_t before = stats_of(device->device).live_blocks;
    const uint64_t requested_before = stats_of(device->device).requested;
    TEST_OK(tdm_host_buffer_create(device->device, 100001, &a));
    TEST_OK(tdm_host_buffer_create(device->device, 100001, &b));
    TEST_OK(tdm_host_buffer_create(device->device, 0, &none));
    unsigned char *const x = tdm_host_buffer_address(a), *const y = tdm_host_buffer_address(b);
    assert_int_equal((uintptr_t)x % 16, 0);
    assert_int_equal((uintptr_t)y % 16, 0);
    assert_true(x + 100001 <= y || y + 100001 <= x);
    assert_non_null(tdm_host_buffer_address(none));
    assert_int_equal(tdm_host_buffer_size(a), 100001);
    assert_int_equal(tdm_host_buffer_size(none), 0);
    assert_int_equal(stats_of(device->device).live_blocks, before + 3);
    tdm_buffer *buffer;
    TEST_OK(tdm_buffer_create(device->device, 100001, &buffer));
    fill_bytes(x, 100001, 7);
    memset(y, 0, 100001);
    TEST_OK(tdm_buffer_write(device->stream, buffer, 0, x, 100001));
    TEST_OK(tdm_buffer_read(device->stream, buffer, 0, y, 100001));
    TEST_OK(tdm_stream_synchronize(device->stream));
    assert_memory_equal(x, y, 100001);
    tdm_buffer_destroy(buffer);
    tdm_host_buffer_destroy(a);
    tdm_host_buffer_destroy(b);
    tdm_host_buffer_destroy(none);
    tdm_host_buffer_destroy(NULL);
    assert_int_equal(stats_of(device->device).live_blocks, before);
    assert_int_equal(stats_of(device->device).requested, requested_before);
}

DEVICE_TEST(wrong_arguments) {
    tdm_host_buffer *buffer = (tdm_host_buffer *)&buffer;
    tdm_memory_stats stats = {.struct_size = sizeof stats + 1};
    TEST_REFUSED(tdm_host_buffer_create(device->device, 1, NULL), TDM_BAD_ARGUMENT, "buffer");
    TEST_REFUSED(tdm_host_buffer_create(NULL, 1, &buffer), TDM_BAD_ARGUMENT, "device");
    assert_null(buffer);
    assert_null(tdm_host_buffer_address(NULL));
    assert_int_equal(tdm_host_buffer_size(NULL), 0);
    TEST_REFUSED(tdm_device_host_memory_stats(NULL, &stats), TDM_BAD_ARGUMENT, "device");
    TEST_REFUSED(tdm_device_host_memory_stats(device->device, NULL), TDM_BAD_ARGUMENT, "stats");
    TEST_REFUSED(tdm_device_host_memory_stats(device->device, &stats), TDM_BAD_ARGUMENT,
                 "struct_size");
}

/*
 * Pinned memory has a budget of its own, tested at the exact size and one byte above it. The
 * device's pool is not affected.
 */
DEVICE_TEST(budget) {
    own_device own = own_device_open_staging(device, 2 * MIB);
    tdm_host_buffer *buffer, *more;
    TEST_REFUSED(tdm_host_buffer_create(own.device, 2 * MIB + 1, &buffer), TDM_OVER_BUDGET,
                 "pinned memory");
    assert_null(buffer);
    TEST_OK(tdm_host_buffer_create(own.device, 2 * MIB, &buffer));
    assert_int_equal(stats_of(own.device).reserved, 2 * MIB);
    TEST_REFUSED(tdm_host_buffer_create(own.device, 1, &more), TDM_OVER_BUDGET, "pinned memory");
    tdm_buffer *other;
    TEST_OK(tdm_buffer_create(own.device, 8 * MIB, &other));
    tdm_buffer_destroy(other);
    tdm_host_buffer_destroy(buffer);
    TEST_OK(tdm_host_buffer_create(own.device, 1, &more));
    tdm_host_buffer_destroy(more);
    TEST_OK(tdm_device_trim(own.device));
    assert_int_equal(stats_of(own.device).reserved, 0);
    own_device_close(&own);
}

/* ---- pieces ---------------------------------------------------------------------------------- */

static void sleep_a_while(void *user) {
    const struct timespec *const time = user;
    nanosleep(time, NULL);
}

/*
 * A piece is released before a copy from it has started. Its memory must not be reused until then.
 */
DEVICE_TEST(early_release_waits) {
    own_device own = own_device_open_staging(device, MIB);
    struct timespec time = {.tv_nsec = 60 * 1000 * 1000};
    tdm_buffer *buffer;
    tdm_staging *piece;
    unsigned char *const found = malloc(MIB), *const expected = malloc(MIB);
    TEST_OK(tdm_buffer_create(own.device, MIB, &buffer));
    TEST_OK(tdm_staging_alloc(own.device, MIB, &piece));
    assert_int_equal(tdm_staging_bytes(piece), MIB);
    unsigned char *const place = tdm_staging_address(piece);
    fill_bytes(expected, MIB, 11);
    memcpy(place, expected, MIB);
    tdm_block *const block = buffer->block;
    TEST_OK(tdm_stream_host_task(own.stream, sleep_a_while, &time));
    TEST_OK(tdm_enqueue_write_staged(own.stream, "test", block, 0, piece, 0, MIB));
    tdm_staging_release(piece);
    TEST_OK(tdm_staging_alloc(own.device, MIB, &piece));
    assert_ptr_equal(tdm_staging_address(piece), place);
    memset(place, 0xee, MIB);
    TEST_OK(tdm_enqueue_read_staged(own.stream, "test", block, 0, piece, 0, MIB));
    TEST_OK(tdm_stream_synchronize(own.stream));
    assert_memory_equal(place, expected, MIB);
    assert_true(tdm_staging_holds(own.device, place, MIB));
    assert_false(tdm_staging_holds(own.device, place, MIB + 1));
    assert_false(tdm_staging_holds(own.device, found, 1));
    tdm_staging_release(piece);
    tdm_buffer_destroy(buffer);
    free(found);
    free(expected);
    own_device_close(&own);
}

/* ---- blocking copies ------------------------------------------------------------------------- */

/*
 * Writes and reads back a tensor that starts inside its buffer. If `staged`, the copies must have
 * used pieces.
 */
static void copy_there_and_back(own_device *own, size_t bytes, bool staged) {
    const int64_t shape[1] = {(int64_t)bytes + 7};
    tdm_tensor *whole, *part;
    unsigned char *const host = malloc(bytes), *const back = malloc(bytes + 2);
    assert_true(host && back);
    TEST_OK(tdm_tensor_create(own->device, TDM_U8, 1, shape, &whole));
    TEST_OK(tdm_tensor_slice(whole, 0, 7, (int64_t)bytes + 7, 1, &part));
    fill_bytes(host, bytes, (uint32_t)bytes);
    memset(back, 0x5a, bytes + 2);
    const uint64_t before = stats_of(own->device).allocations;
    TEST_OK(tdm_tensor_write(own->stream, host, bytes, NULL, part));
    TEST_OK(tdm_tensor_read(own->stream, part, back + 1, bytes, NULL));
    if ((stats_of(own->device).allocations > before) != staged)
        test_case_fail("%zu bytes: %s", bytes, staged ? "no piece was used" : "pieces were used");
    if (memcmp(host, back + 1, bytes) != 0)
        test_case_fail("%zu bytes came back changed", bytes);
    assert_int_equal(back[0], 0x5a);
    assert_int_equal(back[bytes + 1], 0x5a);
    assert_int_equal(stats_of(own->device).live_blocks, 0);
    tdm_tensor_destroy(part);
    tdm_tensor_destroy(whole);
    free(host);
    free(back);
}

DEVICE_TEST(staged_copies) {
    static const size_t sizes[] = {MIB,     MIB + 1,      4 * MIB - 1, 4 * MIB,      4 * MIB + 1,
                                   8 * MIB, 8 * MIB + 13, 12 * MIB,    12 * MIB + 1, 21 * MIB + 5};
    own_device own = own_device_open_staging(device, 0);
    own.device->stages_copies = true;
    copy_there_and_back(&own, MIB - 1, false);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i += test_is_small() ? 4 : 1)
        copy_there_and_back(&own, sizes[i], true);
    own.device->stages_copies = false;
    copy_there_and_back(&own, 8 * MIB, false);
    own_device_close(&own);
}

/*
 * Copies of memory that is already pinned use no pieces, and neither do copies that find no pinned
 * memory.
 */
DEVICE_TEST(copies_without_pieces) {
    own_device own = own_device_open_staging(device, 6 * MIB);
    own.device->stages_copies = true;
    tdm_host_buffer *buffer;
    tdm_tensor *tensor;
    const int64_t shape[1] = {2 * (int64_t)MIB};
    TEST_OK(tdm_host_buffer_create(own.device, 2 * MIB, &buffer));
    TEST_OK(tdm_tensor_create(own.device, TDM_U8, 1, shape, &tensor));
    fill_bytes(tdm_host_buffer_address(buffer), 2 * MIB, 3);
    const uint64_t before = stats_of(own.device).allocations;
    TEST_OK(tdm_tensor_write(own.stream, tdm_host_buffer_address(buffer), 2 * MIB, NULL, tensor));
    assert_int_equal(stats_of(own.device).allocations, before);
    tdm_host_buffer_destroy(buffer);
    TEST_OK(tdm_device_trim(own.device));
    copy_there_and_back(&own, 9 * MIB, true); // one piece finds room, the second does not
    assert_true(stats_of(own.device).failures > 0);
    tdm_tensor_destroy(tensor);
    own_device_close(&own);
}

/* After a copy that fails midway, no piece leaks and the next copy is complete. */
DEVICE_TEST(failed_copies) {
    static const char *const calls[] = {"clEnqueueWriteBuffer", "clEnqueueReadBuffer",
                                        "clEnqueueMarkerWithWaitList"};
    /* Three pieces and a remainder, or at small scale the fewest pieces with reuse. */
    const size_t bytes = (test_is_small() ? 9 : 14) * MIB;
    own_device own = own_device_open_staging(device, 0);
    own.device->stages_copies = true;
    const int64_t shape[1] = {(int64_t)bytes};
    tdm_tensor *tensor;
    unsigned char *const host = malloc(bytes);
    assert_non_null(host);
    memset(host, 1, bytes);
    TEST_OK(tdm_tensor_create(own.device, TDM_U8, 1, shape, &tensor));
    copy_there_and_back(&own, bytes, true);
    for (size_t c = 0; c < sizeof calls / sizeof calls[0]; c++)
        for (int nth = 1; nth <= 4; nth += test_is_small() ? 2 : 1) {
            test_fault_plant(calls[c], nth, -5, false);
            tdm_tensor_write(own.stream, host, bytes, NULL, tensor);
            tdm_tensor_read(own.stream, tensor, host, bytes, NULL);
            tdm_fault_clear();
            TEST_OK(tdm_stream_clear_failure(own.stream));
            copy_there_and_back(&own, bytes, true);
        }
    tdm_tensor_destroy(tensor);
    free(host);
    own_device_close(&own);
}

/* ---- threads --------------------------------------------------------------------------------- */

typedef struct worker {
    pthread_t thread;
    tdm_device *device;
    int number;
    tdm_status status;
} worker;

static tdm_status work(const worker *w) {
    tdm_stream *stream;
    tdm_tensor *tensor;
    const size_t bytes = 2 * MIB + (size_t)w->number;
    const int64_t shape[1] = {(int64_t)bytes};
    tdm_status status = TDM_OK;
    TDM_TRY(tdm_stream_create(w->device, &stream));
    TDM_TRY(tdm_tensor_create(w->device, TDM_U8, 1, shape, &tensor));
    unsigned char *const host = malloc(2 * bytes);
    if (!host)
        TDM_TRY_GOTO(TDM_OUT_OF_HOST_MEMORY);
    for (int round = 0; round < (test_is_small() ? 2 : 3) && status == TDM_OK; round++) {
        tdm_host_buffer *kept = NULL;
        fill_bytes(host, bytes, (uint32_t)(100 * w->number + round));
        TDM_TRY_GOTO(tdm_host_buffer_create(w->device, 1000, &kept));
        memset(tdm_host_buffer_address(kept), w->number, 1000);
        TDM_TRY_GOTO(tdm_tensor_write(stream, host, bytes, NULL, tensor));
        TDM_TRY_GOTO(tdm_tensor_read(stream, tensor, host + bytes, bytes, NULL));
        const bool same = memcmp(host, host + bytes, bytes) == 0 &&
                          *(unsigned char *)tdm_host_buffer_address(kept) == w->number;
        tdm_host_buffer_destroy(kept);
        if (!same)
            status = TDM_CORRUPT_DATA;
    }

cleanup:
    tdm_tensor_destroy(tensor);
    tdm_stream_destroy(stream);
    free(host);
    return status;
}

static void *run_worker(void *user) {
    worker *const w = user;
    w->status = work(w);
    return NULL;
}

DEVICE_TEST(threads) {
    own_device own = own_device_open_staging(device, 0);
    own.device->stages_copies = true;
    worker workers[THREADS];
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.device = own.device, .number = i};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, run_worker, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(workers[i].thread, NULL);
        if (workers[i].status != TDM_OK)
            test_case_fail("thread %d: %s", i, tdm_status_text(workers[i].status));
    }
    assert_int_equal(stats_of(own.device).live_blocks, 0);
    own_device_close(&own);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
