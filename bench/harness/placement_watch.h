/*
 * Keeps the samples of a case to one placement of the processors (processor_probe.h), to their best clock and to times when each had a core to
 * itself, and notes how fast they were.
 */
#ifndef TANDEM_BENCH_HARNESS_PLACEMENT_WATCH_H
#define TANDEM_BENCH_HARNESS_PLACEMENT_WATCH_H

#include "bench/record/bench_statistics.h"
#include "bench/record/processor_probe.h"

enum {
    PLACEMENT_RESTARTS = 3, /* of a case whose processors are moved */
    SLOW_TURNS = 3,         /* of a case that are taken again */
    PACE_TURNS = 512
};

/* What slowed the run's last turns; zero-initialised, and kept from case to case. */
typedef struct pace_record {
    double chains[PACE_TURNS];   /* ns */
    double crowding[PACE_TURNS]; /* NaN: not known */
    size_t count;                /* so far, also beyond PACE_TURNS */
} pace_record;

/* The fastest twentieth of them, and the least crowded: the very best may have been the one turn before the chip grew warm. NaN: not known. */
double pace_record_chain(const pace_record *record);
double pace_record_crowding(const pace_record *record);

/* Zero-initialised but for the placement, which is not known, and the record. */
typedef struct placement_watch {
    processor_state placement; /* of the samples so far */
    pace_record *record;       /* NULL: every turn will do */
    int restarts;
    int slow_turns;
    int is_mixed; /* the samples are of more than one placement */
    sample_series work;
    sample_series chains; /* before the first turn and after those that count */
} placement_watch;

#define PLACEMENT_WATCH_INIT                                                                       \
    {                                                                                              \
        .placement = { NAN, NAN, NAN }                                                             \
    }

typedef enum turn_verdict {
    TURN_COUNTS,
    TURN_AGAIN,   /* the clock was slow or a core shared: its samples are left out */
    SAMPLES_AGAIN /* the processors have been moved: the case is to be sampled anew */
} turn_verdict;

/* What the probe said before the first turn. */
void placement_watch_begin(placement_watch *watch, processor_state now);

/*
 * What it said after a turn. A turn counts where nothing is known against it; also where samples cannot be taken again, for lack of
 * time or after too many times.
 */
turn_verdict placement_watch_note(placement_watch *watch, processor_state now, int can_restart);

/* Where the processors were, NaN when that is not known or changed, and medians of how fast. Releases what the watch took. */
processor_state placement_watch_end(placement_watch *watch);

#endif
