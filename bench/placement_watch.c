#include "bench/placement_watch.h"

#include <math.h>

double clock_record_best(const clock_record *record) {
    const size_t count = record->count < CLOCK_TURNS ? record->count : CLOCK_TURNS;
    return summarize_samples(record->chains, count).p5;
}

/* Whether the clock was slow beside that of the turns before. */
static int note_clock(clock_record *record, double chain_ns) {
    if (record == NULL || isnan(chain_ns))
        return 0;
    const int is_slow = processor_clock_is_slow(chain_ns, clock_record_best(record));
    record->chains[record->count++ % CLOCK_TURNS] = chain_ns;
    return is_slow;
}

static void add_known(sample_series *series, double figure) {
    if (!isnan(figure))
        series_add(series, figure, 0); /* one less, where memory is short */
}

static void note_turn(placement_watch *watch, processor_state now) {
    add_known(&watch->work, now.work_ns);
    add_known(&watch->chains, now.chain_ns);
}

void placement_watch_begin(placement_watch *watch, processor_state now) {
    note_clock(watch->record, now.chain_ns);
    watch->placement = now;
    note_turn(watch, now);
}

static void restart(placement_watch *watch, processor_state now) {
    watch->restarts++;
    watch->work.count = watch->chains.count = 0;
    watch->placement = now;
    note_turn(watch, now);
}

turn_verdict placement_watch_note(placement_watch *watch, processor_state now, int can_restart) {
    const int is_slow = note_clock(watch->record, now.chain_ns);
    const int moved = processor_placements_differ(watch->placement, now);
    if (moved && (!can_restart || watch->restarts == PLACEMENT_RESTARTS))
        watch->is_mixed = 1;
    if (moved && !watch->is_mixed) {
        restart(watch, now);
        return SAMPLES_AGAIN;
    }
    if (isnan(watch->placement.handover_ns))
        watch->placement = now;
    if (is_slow && can_restart && watch->slow_turns < SLOW_TURNS) {
        watch->slow_turns++;
        return TURN_AGAIN;
    }
    note_turn(watch, now);
    return TURN_COUNTS;
}

static double release_median(sample_series *series) {
    const double median = summarize_samples(series->values, series->count).median;
    series_release(series);
    return median;
}

processor_state placement_watch_end(placement_watch *watch) {
    const double handover = watch->is_mixed ? NAN : watch->placement.handover_ns;
    const double work = release_median(&watch->work);
    return (processor_state){handover, work, release_median(&watch->chains)};
}
