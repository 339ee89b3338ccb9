/*
 * Tests replays of memory traces. They are deterministic and in order. They stay within budgets and
 * near the smallest possible reservation.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/cases/pool_case.h"
#include "bench/trace/trace_data.h"
#include "bench/trace/trace_replay.h"
#include "tests/support/bench/trace_samples.h"
#include "tests/support/test_case.h"
#include "tests/support/test_data.h"

#define KIB UINT64_C(1024)

static void run(const trace_data *trace, const replay_settings *settings, replay_result *result) {
    file_error error;
    if (replay_run(trace, settings, result, &error) != 0)
        fail_msg("%s", error.text);
}

/*
 * Allocates and frees blocks of random sizes from 256 bytes to 16 MiB in random order, on three
 * streams.
 */
static void make_random_mix(trace_data *trace) {
    enum {
        LIVE = 200,
        OPERATIONS = 6000
    };
    test_random random = {.state = 3};
    uint32_t live[LIVE];
    int count = 0;
    *trace = (trace_data){.events = NULL};
    const uint32_t tag = trace_tag(trace, "x");
    for (int i = 0; i < OPERATIONS; i++) {
        trace->time_ns += (uint64_t)test_random_int(&random, 500, 4500);
        if (count == 0 || (count < LIVE && test_random_int(&random, 0, 1) == 0)) {
            const uint64_t octave = UINT64_C(256) << test_random_int(&random, 0, 15);
            const uint32_t stream = (uint32_t)test_random_int(&random, 1, 3);
            const uint64_t more = (uint64_t)test_random_int(&random, 0, (int64_t)octave - 1);
            live[count] = trace_alloc(trace, octave + more, stream, tag);
            trace_use(trace, live[count++], stream);
            continue;
        }
        const int gone = (int)test_random_int(&random, 0, count - 1);
        trace_free(trace, live[gone]);
        live[gone] = live[--count];
    }
    assert_false(trace->short_of_memory);
}

static void make_small(trace_data *trace) {
    const trace_settings settings = small_settings();
    generate(&settings, trace);
}

static void expect_same_decisions(const replay_result *a, const replay_result *b) {
    assert_int_equal(a->decision_count, b->decision_count);
    assert_memory_equal(a->decisions, b->decisions, a->decision_count * sizeof *a->decisions);
    assert_true(a->waits == b->waits && a->orders == b->orders);
    assert_true(a->idle_seconds == b->idle_seconds);
}

TEST(a_replay_is_the_same_every_time) {
    uint64_t waits = 0;
    uint64_t orders = 0;
    for (int i = 0; i < 2; i++)
        for (int tight = 0; tight < 2; tight++) {
            trace_data trace;
            replay_result results[2];
            if (i == 0)
                make_small(&trace);
            else
                make_random_mix(&trace);
            replay_settings how = REPLAY_SETTINGS_INIT;
            how.command_ns = 40000;
            if (tight)
                how.budget = trace_summarize(&trace).lower_bound * 5 / 4;
            run(&trace, &how, &results[0]);
            run(&trace, &how, &results[1]);
            expect_same_decisions(&results[0], &results[1]);
            waits += results[0].waits;
            orders += results[0].orders;
            for (int j = 0; j < 2; j++)
                replay_release(&results[j]);
            trace_release(&trace);
        }
    /* The replays must have waited for streams. */
    assert_true(waits > 0);
    assert_true(orders > 0);
}

/* Blocks that are live at the same time never share a byte. */
TEST(live_blocks_are_apart) {
    trace_data trace;
    replay_result result;
    make_small(&trace);
    run(&trace, &(replay_settings)REPLAY_SETTINGS_INIT, &result);
    size_t *const born = calloc(2 * trace.block_count, sizeof *born);
    assert_non_null(born);
    size_t *const dead = born + trace.block_count;
    find_generations(&trace, born, dead);
    for (size_t a = 0; a < trace.block_count; a++)
        for (size_t b = 0; b < a; b++) {
            const replay_decision *const x = &result.decisions[a];
            const replay_decision *const y = &result.decisions[b];
            assert_true(x->native != y->native || born[a] > dead[b] || born[b] > dead[a] ||
                        x->offset + x->size <= y->offset || y->offset + y->size <= x->offset);
        }
    assert_true(result.peak_reserved >= result.lower_bound);
    assert_int_equal(result.failures, 0);
    free(born);
    replay_release(&result);
    trace_release(&trace);
}

/*
 * The memory holds one block. A second block on another stream must wait, on the host or in its own
 * stream, until the command of the first stream is done.
 */
TEST(a_stream_that_is_behind_is_waited_for) {
    for (int same = 0; same < 2; same++)
        for (int early = 0; early < 2; early++) {
            trace_data trace = {.events = NULL};
            replay_result result;
            const uint32_t tag = trace_tag(&trace, "x");
            const uint32_t first = trace_alloc(&trace, 4096 * KIB, 1, tag);
            trace_use(&trace, first, 1);
            trace.time_ns += 10;
            trace_free(&trace, first);
            trace.time_ns += early ? 10 : 100000;
            const uint32_t second = trace_alloc(&trace, 4096 * KIB, same ? 1 : 2, tag);
            trace_use(&trace, second, same ? 1 : 2);
            trace_free(&trace, second);
            const replay_settings how = {.command_ns = 5000, .budget = 4096 * KIB};
            run(&trace, &how, &result);
            assert_int_equal(result.failures, 0);
            assert_int_equal(result.waits + result.orders > 0, !same && early);
            assert_int_equal(result.decisions[0].native, result.decisions[1].native);
            replay_release(&result);
            trace_release(&trace);
        }
}

/* The last use of a block by a stream is the stream's last command before the block is freed. */
TEST(a_use_lasts_until_the_block_is_freed) {
    trace_data trace = {.events = NULL};
    replay_result result;
    const uint32_t tag = trace_tag(&trace, "x");
    const uint32_t first = trace_alloc(&trace, 4096 * KIB, 1, tag);
    const uint32_t other = trace_alloc(&trace, 64, 1, tag);
    trace_use(&trace, first, 1);
    trace.time_ns += 20000; /* the first command has completed */
    trace_use(&trace, other, 1);
    trace_free(&trace, first);
    trace_free(&trace, other);
    const uint32_t second = trace_alloc(&trace, 4096 * KIB, 2, tag);
    trace_use(&trace, second, 2);
    const replay_settings how = {.command_ns = 5000, .budget = 7 * 1024 * KIB};
    run(&trace, &how, &result);
    assert_int_equal(result.failures, 0);
    assert_true(result.waits + result.orders > 0);
    replay_release(&result);
    trace_release(&trace);
}

/* Two freed ranges wait for different streams. Both must be ready before they become one block, so
 * the host waits. */
TEST(a_wait_of_the_host_moves_the_clock) {
    trace_data trace = {.events = NULL};
    replay_result result;
    const uint32_t tag = trace_tag(&trace, "x");
    uint32_t halves[2];
    for (uint32_t i = 0; i < 2; i++) {
        halves[i] = trace_alloc(&trace, 4096 * KIB, 1 + i, tag);
        trace_use(&trace, halves[i], 1 + i);
    }
    for (uint32_t i = 0; i < 2; i++)
        trace_free(&trace, halves[i]);
    const uint32_t whole = trace_alloc(&trace, 8192 * KIB, 3, tag);
    trace_free(&trace, whole);
    const replay_settings how = {.command_ns = 7000, .budget = 8192 * KIB};
    run(&trace, &how, &result);
    assert_int_equal(result.failures, 0);
    assert_true(result.waits > 0);
    assert_int_equal((int)(1e9 * result.idle_seconds + 0.5), 7000);
    replay_release(&result);
    trace_release(&trace);
}

TEST(a_budget_is_kept) {
    trace_data trace;
    replay_result free_result;
    replay_result result;
    replay_settings how = REPLAY_SETTINGS_INIT;
    make_random_mix(&trace);
    run(&trace, &how, &free_result);
    assert_int_equal(free_result.failures, 0);
    assert_int_equal(free_result.first_failure, 0);
    how.budget = free_result.peak_reserved;
    run(&trace, &how, &result);
    assert_int_equal(result.failures, 0);
    replay_release(&result);
    how.budget = free_result.lower_bound / 2;
    run(&trace, &how, &result);
    assert_true(result.failures > 0);
    assert_true(result.peak_reserved <= how.budget);
    assert_in_range(result.first_failure, 1, trace.event_count);
    const trace_event *const refused = &trace.events[result.first_failure - 1];
    assert_int_equal(refused->kind, TRACE_ALLOC);
    assert_int_equal(result.decisions[refused->block].native, 0);
    uint64_t refusals = 0;
    for (size_t i = 0; i < result.decision_count; i++)
        refusals += result.decisions[i].native == 0;
    assert_int_equal(refusals, result.failures);
    replay_release(&result);
    replay_release(&free_result);
    trace_release(&trace);
}

/* Replays a trace that `tandem bench pool` knows by name, or a random mix. Returns its ratio. */
static double ratio_of(const char *name, const replay_settings *how) {
    pool_case item = {.seed = 1};
    trace_data trace;
    replay_result result;
    snprintf(item.trace, sizeof item.trace, "%s", name);
    if (strcmp(name, "random") == 0)
        make_random_mix(&trace);
    else
        assert_int_equal(pool_case_trace(&item, &trace), 0);
    run(&trace, how, &result);
    const double ratio = replay_ratio(&result);
    replay_release(&result);
    trace_release(&trace);
    return ratio;
}

static const char *const names[] = {"inference", "bare-inference", "random"};
enum {
    NAMES = sizeof names / sizeof names[0]
};

static double bar_of(const char *name) {
    return strcmp(name, "random") == 0 ? 1.3 : POOL_TRACE_BAR;
}

TEST(little_more_is_reserved_than_must_be) {
    for (int i = 0; i < NAMES; i++) {
        const double ratio = ratio_of(names[i], &(replay_settings)REPLAY_SETTINGS_INIT);
        if (!(ratio <= bar_of(names[i])))
            fail_msg("%s: %.3f of the lower bound", names[i], ratio);
    }
}

/*
 * A throttled pool keeps the limits, however far the host runs ahead. Without a throttle, its size
 * grows with the depth of the queues.
 */
TEST(a_throttle_keeps_the_bars) {
    double worst = 0;
    for (int i = 0; i < 2 * NAMES; i++) {
        replay_settings how = REPLAY_SETTINGS_INIT;
        how.command_ns = i % 2 ? 3000000 : 30000;
        const double free_run = ratio_of(names[i / 2], &how);
        worst = worst > free_run ? worst : free_run;
        how.throttle = 16;
        const double throttled = ratio_of(names[i / 2], &how);
        if (!(throttled <= bar_of(names[i / 2])))
            fail_msg("%s: %.3f of the lower bound", names[i / 2], throttled);
    }
    assert_true(worst > 1.5);
}

TEST_MAIN(NULL, NULL)
