/* Where a machine's processors are: what samples are kept to. */
#include <math.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bench/harness/placement_watch.h"

static processor_state at(double handover_ns, double work_ns) {
    return (processor_state){handover_ns, work_ns, NAN};
}

static processor_state with_chain(double chain_ns) {
    return (processor_state){NAN, NAN, chain_ns};
}

static void samples_are_of_one_placement_of_the_processors(void **state) {
    (void)state;
    placement_watch watch = PLACEMENT_WATCH_INIT;
    placement_watch_begin(&watch, at(NAN, NAN)); /* nobody answered */
    assert_int_equal(placement_watch_note(&watch, at(100, 10), 1), TURN_COUNTS);
    assert_int_equal(placement_watch_note(&watch, at(140, 14), 1), TURN_COUNTS);
    assert_int_equal(placement_watch_note(&watch, at(NAN, 11), 1), TURN_COUNTS);
    assert_int_equal(placement_watch_note(&watch, at(500, 12), 1),
                     SAMPLES_AGAIN); /* the samples begin anew */
    assert_int_equal(placement_watch_note(&watch, at(480, 13), 1), TURN_COUNTS);
    assert_int_equal(watch.restarts, 1);
    assert_int_equal(placement_watch_note(&watch, at(480, 22), 1),
                     SAMPLES_AGAIN); /* and half as fast */
    assert_int_equal(placement_watch_note(&watch, at(480, 12), 1), SAMPLES_AGAIN);
    const processor_state far = placement_watch_end(&watch);
    assert_true(far.handover_ns == 480 && far.work_ns == 12);
}

static void samples_that_cannot_be_taken_again_are_of_no_placement(void **state) {
    (void)state;
    placement_watch late = PLACEMENT_WATCH_INIT;
    placement_watch_begin(&late, at(100, 10));
    assert_int_equal(placement_watch_note(&late, at(500, 10), 0), TURN_COUNTS);
    assert_int_equal(placement_watch_note(&late, at(100, 10), 1), TURN_COUNTS);
    assert_true(isnan(placement_watch_end(&late).handover_ns));
    placement_watch restless = PLACEMENT_WATCH_INIT;
    placement_watch_begin(&restless, at(100, 10));
    for (int i = 0; i < PLACEMENT_RESTARTS; i++)
        assert_int_equal(placement_watch_note(&restless, at(i % 2 ? 100 : 500, 10), 1),
                         SAMPLES_AGAIN);
    assert_int_equal(placement_watch_note(&restless, at(100, 10), 1), TURN_COUNTS);
    assert_int_equal(placement_watch_note(&restless, at(100, 10), 1), TURN_COUNTS);
    const processor_state none = placement_watch_end(&restless);
    assert_true(isnan(none.handover_ns) && none.work_ns == 10);
}

static void turns_with_a_slow_clock_are_taken_again(void **state) {
    (void)state;
    pace_record record = {.count = 0};
    placement_watch watch = PLACEMENT_WATCH_INIT;
    watch.record = &record;
    assert_true(isnan(pace_record_chain(&record)));
    placement_watch_begin(&watch, with_chain(1030)); /* no turn was before it */
    assert_int_equal(placement_watch_note(&watch, with_chain(1000), 1), TURN_COUNTS);
    assert_int_equal(placement_watch_note(&watch, with_chain(1015), 1), TURN_COUNTS);
    assert_int_equal(placement_watch_note(&watch, with_chain(NAN), 1), TURN_COUNTS);
    assert_int_equal(placement_watch_note(&watch, with_chain(1050), 0), TURN_COUNTS); /* too late */
    for (int i = 0; i < SLOW_TURNS; i++)
        assert_int_equal(placement_watch_note(&watch, with_chain(1200), 1), TURN_AGAIN);
    assert_int_equal(placement_watch_note(&watch, with_chain(1050), 1), TURN_COUNTS);
    assert_int_equal(watch.restarts, 0);
    const processor_state met = placement_watch_end(&watch);
    assert_true(met.chain_ns == 1030 &&
                isnan(met.handover_ns)); /* of 1000, 1015, 1030, 1050, 1050 */
    placement_watch next = PLACEMENT_WATCH_INIT;
    next.record = &record;
    placement_watch_begin(&next, with_chain(1100));
    assert_int_equal(placement_watch_note(&next, with_chain(1100), 1), TURN_AGAIN);
    assert_true(placement_watch_end(&next).chain_ns == 1100);
}

/* Arithmetic on both at a time took 1.5 times as long as a chain on one; now it takes longer, on any clock. */
static void turns_on_a_shared_core_are_taken_again(void **state) {
    (void)state;
    pace_record record = {.count = 0};
    placement_watch watch = PLACEMENT_WATCH_INIT;
    watch.record = &record;
    placement_watch_begin(&watch, (processor_state){100, 7600, 5000});
    assert_true(pace_record_crowding(&record) == 1.5);
    assert_int_equal(placement_watch_note(&watch, (processor_state){100, 7620, 5000}, 1),
                     TURN_COUNTS);
    assert_int_equal(placement_watch_note(&watch, (processor_state){120, 7692, 5048}, 1),
                     TURN_COUNTS); /* the clock was slower */
    assert_int_equal(placement_watch_note(&watch, (processor_state){110, 8610, 5000}, 1),
                     TURN_AGAIN); /* 1.7, for part of the time */
    assert_int_equal(placement_watch_note(&watch, (processor_state){110, 13860, 5000}, 1),
                     SAMPLES_AGAIN); /* 2.75: another placement */
    assert_int_equal(watch.slow_turns, 1);
    assert_true(processor_crowding(placement_watch_end(&watch)) == 2.75);
    assert_true(isnan(processor_crowding(with_chain(5000))));
    assert_true(processor_is_crowded(1.65, 1.5) && !processor_is_crowded(1.57, 1.5));
    assert_false(processor_is_crowded(NAN, 1.5) || processor_is_crowded(1.5, NAN));
}

/* One fast turn does not make all others slow, and what was long ago does not either. */
static void the_best_clock_is_that_of_a_twentieth_of_the_last_turns(void **state) {
    (void)state;
    pace_record record = {.count = 0};
    for (int i = 0; i < PACE_TURNS; i++) {
        placement_watch watch = PLACEMENT_WATCH_INIT;
        watch.record = &record;
        placement_watch_begin(&watch, with_chain(i == 0 ? 900 : 1000));
        placement_watch_end(&watch);
    }
    assert_true(pace_record_chain(&record) == 1000);
    for (int i = 0; i < PACE_TURNS; i++) {
        placement_watch watch = PLACEMENT_WATCH_INIT;
        watch.record = &record;
        placement_watch_begin(&watch, with_chain(1100));
        placement_watch_end(&watch);
    }
    assert_true(pace_record_chain(&record) == 1100 && isnan(pace_record_crowding(&record)));
}

static void one_processor_has_a_chain_alone(void **state) {
    (void)state;
    cpu_set_t before;
    cpu_set_t one;
    int first = 0;
    assert_int_equal(sched_getaffinity(0, sizeof before, &before), 0);
    while (!CPU_ISSET(first, &before))
        first++;
    CPU_ZERO(&one);
    CPU_SET(first, &one);
    assert_int_equal(sched_setaffinity(0, sizeof one, &one), 0);
    processor_probe *const probe = processor_probe_open();
    const processor_state now = processor_probe_read(probe);
    processor_probe_close(probe);
    sched_setaffinity(0, sizeof before, &before);
    assert_non_null(probe);
    assert_true(isnan(now.handover_ns) && isnan(now.work_ns));
    assert_true(now.chain_ns > 100); /* 5000 dependent steps: more than 50 GHz there is not */
    assert_true(processor_clock_is_slow(1030, 1000) && !processor_clock_is_slow(1010, 1000));
    assert_false(processor_clock_is_slow(NAN, 1000) || processor_clock_is_slow(1000, NAN));
}

/* What it says is the machine's; that it says it, or that it does not know, and ends, is ours. */
static void the_probe_answers_or_does_not_know(void **state) {
    (void)state;
    processor_probe *const probe = processor_probe_open();
    for (int i = 0; i < 50; i++) {
        const processor_state now = processor_probe_read(probe);
        assert_true(isnan(now.handover_ns) || now.handover_ns > 0);
        assert_true(isnan(now.work_ns) || now.work_ns > 0);
        assert_true(now.chain_ns > 100);
    }
    processor_probe_close(probe);
    assert_true(isnan(processor_probe_read(NULL).handover_ns));
    processor_probe_close(NULL);
    assert_false(processor_placements_differ(at(NAN, 10), at(500, 10)));
    assert_false(processor_placements_differ(at(100, NAN), at(140, 10)));
    assert_false(processor_placements_differ(at(140, 10), at(100, 14)));
    assert_true(processor_placements_differ(at(100, 10), at(500, 10)));
    assert_true(processor_placements_differ(at(500, NAN), at(100, 10)));
    assert_true(processor_placements_differ(at(100, 18), at(100, 10))); /* on one core */
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(samples_are_of_one_placement_of_the_processors),
        cmocka_unit_test(samples_that_cannot_be_taken_again_are_of_no_placement),
        cmocka_unit_test(turns_with_a_slow_clock_are_taken_again),
        cmocka_unit_test(turns_on_a_shared_core_are_taken_again),
        cmocka_unit_test(the_best_clock_is_that_of_a_twentieth_of_the_last_turns),
        cmocka_unit_test(one_processor_has_a_chain_alone),
        cmocka_unit_test(the_probe_answers_or_does_not_know),
    };
    return cmocka_run_group_tests_name("placement", tests, NULL, NULL);
}
