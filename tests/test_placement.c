/* Where a machine's processors are: what samples are kept to. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "bench/placement_watch.h"

static processor_state at(double handover_ns, double work_ns) {
    return (processor_state){handover_ns, work_ns};
}

static void samples_are_of_one_placement_of_the_processors(void **state) {
    (void)state;
    placement_watch watch = PLACEMENT_WATCH_INIT;
    assert_int_equal(placement_watch_note(&watch, at(NAN, NAN), 1), 0); /* nobody answered */
    assert_int_equal(placement_watch_note(&watch, at(100, 10), 1), 0);
    assert_int_equal(placement_watch_note(&watch, at(140, 14), 1), 0);
    assert_int_equal(placement_watch_note(&watch, at(NAN, 11), 1), 0);
    assert_int_equal(placement_watch_note(&watch, at(500, 12), 1), 1); /* the samples begin anew */
    assert_int_equal(placement_watch_note(&watch, at(480, 13), 1), 0);
    assert_int_equal(watch.restarts, 1);
    assert_int_equal(placement_watch_note(&watch, at(480, 22), 1), 1); /* and half as fast */
    assert_int_equal(placement_watch_note(&watch, at(480, 12), 1), 1);
    const processor_state far = placement_watch_end(&watch);
    assert_true(far.handover_ns == 480 && far.work_ns == 12);
}

static void samples_that_cannot_be_taken_again_are_of_no_placement(void **state) {
    (void)state;
    placement_watch late = PLACEMENT_WATCH_INIT;
    placement_watch_note(&late, at(100, 10), 1);
    assert_int_equal(placement_watch_note(&late, at(500, 10), 0), 0);
    assert_int_equal(placement_watch_note(&late, at(100, 10), 1), 0);
    assert_true(isnan(placement_watch_end(&late).handover_ns));
    placement_watch restless = PLACEMENT_WATCH_INIT;
    placement_watch_note(&restless, at(100, 10), 1);
    for (int i = 0; i < PLACEMENT_RESTARTS; i++)
        assert_int_equal(placement_watch_note(&restless, at(i % 2 ? 100 : 500, 10), 1), 1);
    assert_int_equal(placement_watch_note(&restless, at(100, 10), 1), 0);
    assert_int_equal(placement_watch_note(&restless, at(100, 10), 1), 0);
    const processor_state none = placement_watch_end(&restless);
    assert_true(isnan(none.handover_ns) && none.work_ns == 10);
}

/* What it says is the machine's; that it says it, or that it does not know, and ends, is ours. */
static void the_probe_answers_or_does_not_know(void **state) {
    (void)state;
    processor_probe *const probe = processor_probe_open();
    for (int i = 0; i < 50; i++) {
        const processor_state now = processor_probe_read(probe);
        assert_true(isnan(now.handover_ns) || now.handover_ns > 0);
        assert_true(isnan(now.work_ns) || now.work_ns > 0);
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
        cmocka_unit_test(the_probe_answers_or_does_not_know),
    };
    return cmocka_run_group_tests_name("placement", tests, NULL, NULL);
}
