#include "bench/placement_watch.h"

#include <math.h>

int placement_watch_note(placement_watch *watch, processor_state now, int can_restart) {
    const int moved = processor_placements_differ(watch->handover_ns, now.handover_ns);
    if (!isnan(now.work_ns))
        series_add(&watch->work, now.work_ns, 0); /* one less, where memory is short */
    if (isnan(watch->handover_ns) || (moved && !watch->is_mixed))
        watch->handover_ns = now.handover_ns;
    if (moved && (!can_restart || watch->restarts == PLACEMENT_RESTARTS))
        watch->is_mixed = 1;
    if (!moved || watch->is_mixed)
        return 0;
    watch->restarts++;
    return 1;
}

processor_state placement_watch_end(placement_watch *watch) {
    const double work = summarize_samples(watch->work.values, watch->work.count).median;
    series_release(&watch->work);
    return (processor_state){watch->is_mixed ? NAN : watch->handover_ns, work};
}
