#include "bench/harness/placement_watch.h"

#include <math.h>

/* The least but a twentieth of those that are known. */
static double best_of(const double *figures, size_t turns) {
    double known[PACE_TURNS];
    size_t count = 0;
    for (size_t i = 0; i < turns && i < PACE_TURNS; i++)
        if (!isnan(figures[i]))
            known[count++] = figures[i];
    return summarize_samples(known, count).p5;
}

double pace_record_chain(const pace_record *record) {
    return best_of(record->chains, record->count);
}

double pace_record_crowding(const pace_record *record) {
    return best_of(record->crowding, record->count);
}

/* Whether it was slow beside the turns before. */
static int note_pace(pace_record *record, processor_state now) {
    if (record == NULL)
        return 0;
    const double crowding = processor_crowding(now);
    const int is_slow = processor_clock_is_slow(now.chain_ns, pace_record_chain(record)) ||
                        processor_is_crowded(crowding, pace_record_crowding(record));
    const size_t place = record->count++ % PACE_TURNS;
    record->chains[place] = now.chain_ns;
    record->crowding[place] = crowding;
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
    note_pace(watch->record, now);
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
    const int is_slow = note_pace(watch->record, now);
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
