#include "bench/placement_watch.h"

#include <math.h>

int placement_watch_note(placement_watch *watch, processor_state now, int can_restart) {
    const int moved = processor_placements_differ(watch->placement, now);
    if (moved && (!can_restart || watch->restarts == PLACEMENT_RESTARTS))
        watch->is_mixed = 1;
    const int restarts = moved && !watch->is_mixed;
    if (restarts) {
        watch->restarts++;
        watch->work.count = 0;
    }
    if (restarts || isnan(watch->placement.handover_ns))
        watch->placement = now;
    if (!isnan(now.work_ns))
        series_add(&watch->work, now.work_ns, 0); /* one less, where memory is short */
    return restarts;
}

processor_state placement_watch_end(placement_watch *watch) {
    const double work = summarize_samples(watch->work.values, watch->work.count).median;
    series_release(&watch->work);
    return (processor_state){watch->is_mixed ? NAN : watch->placement.handover_ns, work};
}
