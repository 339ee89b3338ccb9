/* Keeps the samples of a case to one placement of the processors (processor_probe.h), and notes how fast they were meanwhile. */
#ifndef BENCH_PLACEMENT_WATCH_H
#define BENCH_PLACEMENT_WATCH_H

#include "bench/bench_statistics.h"
#include "bench/processor_probe.h"

enum {
    PLACEMENT_RESTARTS = 3 /* of a case whose processors are moved */
};

/* Zero-initialised but for the placement, which is not known. */
typedef struct placement_watch {
    processor_state placement; /* of the samples so far */
    int restarts;
    int is_mixed; /* the samples are of more than one placement */
    sample_series work;
} placement_watch;

#define PLACEMENT_WATCH_INIT                                                                       \
    {                                                                                              \
        .placement = { NAN, NAN }                                                                  \
    }

/*
 * What the probe said, before the first samples and after each turn. 1: the processors have been moved, and the case is to be sampled anew. 0
 * where they were not, or not known to be; also where samples cannot be taken again, for lack of time or after too many times.
 */
int placement_watch_note(placement_watch *watch, processor_state now, int can_restart);

/* Where the processors were, NaN when that is not known or changed, and the median of how fast. Releases what the watch took. */
processor_state placement_watch_end(placement_watch *watch);

#endif
