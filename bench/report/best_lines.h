/* The best that each device gave, in a few lines: main memory, arithmetic, products, a launch, the way from the host. */
#ifndef TANDEM_BENCH_REPORT_BEST_LINES_H
#define TANDEM_BENCH_REPORT_BEST_LINES_H

#include "bench/report/report_parts.h"

enum {
    BEST_MAX_LINES = 24
};

typedef struct best_line {
    const char *what;
    const char *unit;
    int less_is_better;
    double values[REPORT_MAX_DEVICES];   /* of each device; NaN: not measured */
    double of_sheet[REPORT_MAX_DEVICES]; /* share of the datasheet; NaN: not known */
} best_line;

/* The lines of which some device has a value; returns how many. */
size_t best_lines_find(const report_device *devices, size_t count, best_line lines[BEST_MAX_LINES]);

/* How many times as fast as the first device; NaN where one was not measured. */
double best_line_ratio(const best_line *line, size_t device);

/* The lines as a table, which the caller destroys. */
text_table *best_lines_table(const report_device *devices, size_t count);

#endif
