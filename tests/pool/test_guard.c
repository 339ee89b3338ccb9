// Guard zones, poison and handles of debug mode, on simulated memory: a write outside a block is
// found and located.
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "api/device/core.h"
#include "api/pool/guard.h"
#include "tests/support/drivers/simulated_memory.h"
#include "tests/support/test_case.h"
#include "tests/support/test_data.h"

#define BLOCKS 40
#define ZONE 256

static struct {
    int count;
    char last[1024];
} logged;

static void hear(void *user, tdm_log_level level, const char *topic, const char *message) {
    (void)user;
    if (level != TDM_LOG_ERROR || strcmp(topic, "pool") != 0)
        return;
    logged.count++;
    snprintf(logged.last, sizeof logged.last, "%s", message);
}

static tdm_status read_native(void *user, tdm_bk_memory *memory, uint64_t offset, void *host,
                              size_t bytes) {
    (void)user;
    const simulated_native *const native = (simulated_native *)memory;
    assert_true(offset + bytes <= native->bytes);
    memcpy(host, native->data + offset, bytes);
    return TDM_OK;
}

static tdm_status write_native(void *user, tdm_bk_memory *memory, uint64_t offset, const void *host,
                               size_t bytes) {
    (void)user;
    const simulated_native *const native = (simulated_native *)memory;
    assert_true(offset + bytes <= native->bytes);
    memcpy(native->data + offset, host, bytes);
    return TDM_OK;
}

static tdm_status fill_native(void *user, tdm_bk_memory *memory, uint64_t offset, size_t bytes,
                              const void *pattern) {
    assert_true(offset % 8 == 0 && bytes % 8 == 0);
    for (size_t i = 0; i < bytes; i += 8)
        write_native(user, memory, offset + i, pattern, 8);
    return TDM_OK;
}

typedef struct world {
    simulated_memory memory;
    tdm_guard *guard;
    tdm_status (*plain_allocate)(void *user, size_t bytes, tdm_bk_memory **memory);
} world;

static world *current;

static tdm_status allocate_filled(void *user, size_t bytes, tdm_bk_memory **memory) {
    const tdm_status status = current->plain_allocate(user, bytes, memory);
    if (status == TDM_OK)
        tdm_guard_fill_native(current->guard, *memory, bytes);
    return status;
}

static void open_world(world *w) {
    const tdm_guard_access access = {
        .read = read_native, .write = write_native, .fill = fill_native};
    *w = (world){0};
    current = w;
    logged.count = 0;
    tdm_set_log(hear, NULL);
    assert_int_equal(tdm_guard_create(&access, ZONE, &w->guard), TDM_OK);
    tdm_pool_upstream upstream = simulated_upstream(&w->memory);
    w->plain_allocate = upstream.allocate;
    upstream.allocate = allocate_filled;
    upstream.debug = tdm_guard_hooks(w->guard);
    assert_int_equal(tdm_pool_create(&upstream, &w->memory.pool), TDM_OK);
}

static void close_world(world *w) {
    simulated_close(&w->memory);
    tdm_guard_destroy(w->guard);
    tdm_set_log(NULL, NULL);
}

static tdm_block *allocate(world *w, size_t bytes) {
    tdm_block *block;
    assert_int_equal(tdm_pool_alloc(w->memory.pool, bytes, 0, &block), TDM_OK);
    return block;
}

static unsigned char *bytes_of(const tdm_block *block) {
    return simulated_native_of(block)->data + block->offset;
}

static void expect_heard(const char *part) {
    if (logged.count != 1 || !strstr(logged.last, part))
        fail_msg("%d reports, the last: %s; expected one with: %s", logged.count, logged.last,
                 part);
    logged.count = 0;
}

#define GUARD_TEST(name)                                                                           \
    static void name##_in(world *w);                                                               \
    TEST(name) {                                                                                   \
        world own;                                                                                 \
        open_world(&own);                                                                          \
        name##_in(&own);                                                                           \
        close_world(&own);                                                                         \
    }                                                                                              \
    static void name##_in(world *w)

GUARD_TEST(fresh_memory_is_poisoned) {
    for (size_t bytes = 0; bytes < 1000; bytes += 13) {
        tdm_block *const block = allocate(w, bytes);
        for (size_t i = 0; i < bytes; i++)
            assert_int_equal(bytes_of(block)[i], 0xFF);
        memset(bytes_of(block), 7, bytes);
        tdm_block_release(block);
    }
    assert_int_equal(logged.count, 0);
}

/* Writes one byte on either side of a block, at every distance that a guard zone covers. */
GUARD_TEST(every_byte_around_a_block_is_watched) {
    for (size_t bytes = 250; bytes < 270; bytes++)
        for (int64_t at = -ZONE; at < (int64_t)bytes + ZONE; at++) {
            char place[64];
            assert_int_equal(tdm_memory_tag_push("victim"), TDM_OK);
            tdm_block *const block = allocate(w, bytes);
            assert_int_equal(tdm_memory_tag_pop(), TDM_OK);
            bytes_of(block)[at] ^= 0x40;
            tdm_block_release(block);
            if (at >= 0 && at < (int64_t)bytes) {
                assert_int_equal(logged.count, 0);
                continue;
            }
            if (at < 0)
                snprintf(place, sizeof place, "first %lld bytes before its start", (long long)-at);
            else
                snprintf(place, sizeof place, "first %lld bytes after its end",
                         (long long)at - (long long)bytes);
            assert_non_null(strstr(logged.last, "tag victim"));
            assert_non_null(strstr(logged.last, "1 bytes were written"));
            expect_heard(place);
        }
}

GUARD_TEST(a_zone_of_another_block_does_not_pass) {
    tdm_block *const a = allocate(w, 512), *const b = allocate(w, 512);
    memcpy(bytes_of(b) + 512, bytes_of(a) + 512, 64);
    tdm_block_release(a);
    assert_int_equal(logged.count, 0);
    tdm_block_release(b);
    expect_heard("after its end");
}

GUARD_TEST(a_check_on_demand_reports_once) {
    tdm_block *const a = allocate(w, 100), *const b = allocate(w, 3000);
    assert_int_equal(tdm_guard_check(w->guard), 0);
    bytes_of(a)[100] = 1;
    bytes_of(b)[-1] = 1;
    assert_int_equal(tdm_guard_check(w->guard), 2);
    assert_int_equal(logged.count, 2);
    assert_int_equal(tdm_guard_check(w->guard), 0);
    tdm_block_release(a);
    tdm_block_release(b);
    assert_int_equal(logged.count, 2);
    assert_int_equal(tdm_guard_reports(w->guard), 2);
}

GUARD_TEST(writing_freed_memory_is_seen_at_the_next_generation) {
    tdm_block *const keeper = allocate(w, 100);
    tdm_block *const block = allocate(w, 4096);
    unsigned char *const bytes = bytes_of(block);
    tdm_block_release(block);
    bytes[1234] = 0;
    tdm_block *const next = allocate(w, 4096);
    assert_ptr_equal(bytes_of(next), bytes);
    expect_heard("written in freed memory");
    tdm_block_release(next);
    tdm_block_release(keeper);
    assert_int_equal(logged.count, 0);
}

/*
 * Allocates and frees blocks at random. One free in eight follows a bad write, and only those are
 * reported.
 */
GUARD_TEST(random_generations_are_told_apart) {
    tdm_block *blocks[BLOCKS] = {0};
    bool damaged[BLOCKS] = {0};
    test_random random = {81};
    int expected = 0;
    for (int step = 0; step < 6000; step++) {
        const int i = (int)test_random_int(&random, 0, BLOCKS - 1);
        if (!blocks[i]) {
            blocks[i] = allocate(w, (size_t)test_random_int(&random, 0, 20000));
            memset(bytes_of(blocks[i]), step & 255, blocks[i]->requested);
            continue;
        }
        damaged[i] = test_random_int(&random, 0, 7) == 0;
        if (damaged[i])
            bytes_of(
                blocks[i])[(int64_t)blocks[i]->requested + test_random_int(&random, 0, ZONE - 1)] ^=
                0x5A;
        tdm_block_release(blocks[i]);
        blocks[i] = NULL;
        expected += damaged[i];
        assert_int_equal(logged.count, expected);
    }
    assert_true(expected > 100);
    for (int i = 0; i < BLOCKS; i++)
        tdm_block_release(blocks[i]);
    assert_int_equal(logged.count, expected);
}

/* The statistics count the guard zones as allocated bytes, as the events do. */
GUARD_TEST(zones_count_as_allocated) {
    tdm_memory_stats stats;
    tdm_block *const block = allocate(w, 1000);
    tdm_pool_stats(w->memory.pool, &stats);
    assert_int_equal(stats.allocated, block->size + 2 * ZONE);
    assert_int_equal(stats.requested, 1000);
    tdm_block_release(block);
}

/* The child writes behind a block in a guard that ends the process. Its output goes to `pipe`. */
static void write_behind_a_block(world *w, int pipe) {
    dup2(pipe, STDERR_FILENO);
    tdm_guard_abort_on_report(w->guard);
    tdm_block *const block = allocate(w, 100);
    bytes_of(block)[100] ^= 1;
    tdm_block_release(block);
    _exit(0);
}

GUARD_TEST(a_report_can_end_the_process) {
    int ends[2], status;
    char text[512] = "";
    assert_int_equal(pipe(ends), 0);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        write_behind_a_block(w, ends[1]);
    close(ends[1]);
    for (size_t used = 0; used < sizeof text - 1;) {
        const ssize_t got = read(ends[0], text + used, sizeof text - 1 - used);
        if (got <= 0)
            break;
        used += (size_t)got;
    }
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT);
    assert_non_null(strstr(text, "tandem: 1 bytes were written outside block"));
}

TEST_MAIN(NULL, NULL)
