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
