/* These are small traces for tests. */
#ifndef TANDEM_TESTS_SUPPORT_BENCH_TRACE_SAMPLES_H
#define TANDEM_TESTS_SUPPORT_BENCH_TRACE_SAMPLES_H

#include "bench/trace/trace_data.h"
#include "tests/support/unit.h"

static inline trace_settings small_settings(void) {
    trace_settings settings = TRACE_SETTINGS_INIT;
    settings.layers = 3;
    settings.hidden = 96;
    settings.shared = 32;
    settings.inner = 250;
    settings.vocabulary = 777;
    settings.batch = 2;
    settings.sequence = 17;
    settings.steps = 7;
    return settings;
}

static inline void generate(const trace_settings *settings, trace_data *trace) {
    assert_int_equal(trace_generate(settings, trace), 0);
    assert_true(trace->event_count > 0);
}

/*
 * Finds the events that allocate and free each block. An index is the event count if no such event
 * exists.
 */
static inline void find_generations(const trace_data *trace, size_t *born, size_t *dead) {
    for (size_t i = 0; i < trace->block_count; i++)
        born[i] = dead[i] = trace->event_count;
    for (size_t i = 0; i < trace->event_count; i++) {
        const trace_event *const event = &trace->events[i];
        assert_in_range(event->block, 0, trace->block_count - 1);
        if (i > 0)
            assert_true(event->time_ns >= trace->events[i - 1].time_ns);
        if (event->kind == TRACE_ALLOC) {
            assert_int_equal(born[event->block], trace->event_count);
            born[event->block] = i;
            continue;
        }
        assert_in_range(born[event->block], 0, i);
        assert_int_equal(dead[event->block], trace->event_count);
        if (event->kind == TRACE_FREE)
            dead[event->block] = i;
        else
            assert_in_range(event->stream, 1, trace->streams);
    }
}

#endif
