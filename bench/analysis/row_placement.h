/* Where the processors stood in the machine beside a row of a results file, by what the file says of them. */
#ifndef TANDEM_BENCH_ANALYSIS_ROW_PLACEMENT_H
#define TANDEM_BENCH_ANALYSIS_ROW_PLACEMENT_H

#include "bench/record/processor_probe.h"
#include "bench/record/results_read.h"

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
