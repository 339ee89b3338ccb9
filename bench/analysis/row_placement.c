#include "bench/analysis/row_placement.h"

#include <math.h>
#include <stdlib.h>

#include "bench/record/bench_statistics.h"

static double usual_figure(const results_file *file, const char *key) {
    double *const values = malloc((file->row_count + 1) * sizeof *values);
    size_t count = 0;
    for (size_t i = 0; values != NULL && i < file->row_count; i++) {
        const double value = results_figure_value(&file->rows[i].metrics, key);
        if (value > 0)
            values[count++] = value;
    }
    const double median = count > 0 ? summarize_samples(values, count).median : NAN;
    free(values);
    return median;
}

processor_state row_usual_placement(const results_file *file) {
    return (processor_state){.handover_ns = usual_figure(file, "handover_ns"),
                             .work_ns = usual_figure(file, "work_ns")};
}

int row_is_elsewhere(const results_row *row, processor_state usual) {
    const double handover = results_figure_value(&row->metrics, "handover_ns");
    const double work = results_figure_value(&row->metrics, "work_ns");
    return handover > PLACEMENT_HANDOVER * usual.handover_ns ||
           PLACEMENT_HANDOVER * handover < usual.handover_ns ||
           work > PLACEMENT_WORK * usual.work_ns || PLACEMENT_WORK * work < usual.work_ns;
}

static int are_apart(double left, double right) {
    return fmax(left, right) > PLACEMENT_HANDOVER * fmin(left, right) && !isnan(left) &&
           !isnan(right);
}

int processor_placements_differ(processor_state left, processor_state right) {
    return are_apart(left.handover_ns, right.handover_ns) || are_apart(left.work_ns, right.work_ns);
}

double processor_crowding(processor_state state) {
    return (state.work_ns - state.handover_ns) / state.chain_ns;
}

int processor_is_crowded(double crowding, double than) {
    return crowding > 1.055 * than;
}

int processor_clock_is_slow(double chain_ns, double best_ns) {
    return chain_ns > 1.02 * best_ns;
}
