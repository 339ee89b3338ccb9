/* Where the processors stood in the machine beside a row of a results file, by what the file says of them. */
#ifndef TANDEM_BENCH_ANALYSIS_ROW_PLACEMENT_H
#define TANDEM_BENCH_ANALYSIS_ROW_PLACEMENT_H

#include "bench/record/results_read.h"

typedef struct processor_state {
    double handover_ns, work_ns, chain_ns;
} processor_state;

int processor_placements_differ(processor_state left, processor_state right);
double processor_crowding(processor_state state);
int processor_is_crowded(double crowding, double than);
int processor_clock_is_slow(double chain_ns, double best_ns);

/*
 * What the time of the processors' fixed work, and that of a word from one to the other, may be of its median, or the median of it:
 * else they stood elsewhere in the machine, where memory is faster or slower too.
 */
#define PLACEMENT_WORK 1.2
#define PLACEMENT_HANDOVER 1.5

/* Where the processors of most rows were, by the medians of their figures; NaN where none has them. */
processor_state row_usual_placement(const results_file *file);

/* Whether the processors stood elsewhere beside this row than beside most, or were not as fast. */
int row_is_elsewhere(const results_row *row, processor_state usual);

#endif
