/* The chart of a report: speed by working set. */
#include <math.h>
#include <string.h>

#include "bench/report/report_parts.h"
#include "common/chart_data.h"

enum {
    MAX_LEVELS = 8
};

typedef struct level_marks {
    chart_mark marks[MAX_LEVELS];
    char names[MAX_LEVELS][32];
    size_t count;
} level_marks;

/* "sweep read 4096" is a sweep of reading. */
static int is_sweep(const results_row *row, const char *operation) {
    const size_t length = strlen(operation);
    return report_row_counts(row) && strcmp(row->suite, "memory") == 0 &&
           report_case_begins(row, "sweep") &&
           strncmp(row->case_name + 6, operation, length) == 0 && row->case_name[6 + length] == ' ';
}

static chart_point speed_point(const results_row *row) {
    return (chart_point){
        .x = results_figure_value(&row->shape, "bytes"),
        .y = row->gbs,
        .low = row->bytes / row->p95_s * 1e-9,
        .high = row->bytes / row->p5_s * 1e-9,
        .label = row->case_name,
    };
}

/* A level ends at the largest working set of it. Main memory is level 0 and has no end. */
static void find_levels(const results_file *results, level_marks *levels) {
    for (size_t i = 0; i < results->row_count; i++) {
        const results_row *const row = &results->rows[i];
        const double level = results_figure_value(&row->metrics, "level");
        if (!is_sweep(row, "read") || !(level >= 1) || level > MAX_LEVELS)
            continue;
        const size_t at = (size_t)level - 1;
        levels->marks[at].x = fmax(levels->marks[at].x, results_figure_value(&row->shape, "bytes"));
        levels->count = at + 1 > levels->count ? at + 1 : levels->count;
    }
    for (size_t i = 0; i < levels->count; i++) {
        snprintf(levels->names[i], sizeof levels->names[i], "level %zu", i + 1);
        levels->marks[i].label = levels->names[i];
    }
}

int report_write_memory(FILE *file, const results_file *results) {
    static const char *const operations[] = {"read", "write", "copy", "triad"};
    level_marks levels = {.count = 0};
    chart_data data = {.series_count = 0};
    chart_plot chart = {
        .title = "Speed by working set",
        .description =
            "How fast the device works through a block again and again, by the size of the block. "
            "Each fall is a cache that the block has outgrown, by the sizes of all compute units "
            "together; the band holds nine tenths of the samples.",
        .x_label = "bytes of the working set",
        .y_label = "GB/s",
        .x_unit = CHART_BYTES,
        .marks = levels.marks,
    };
    for (size_t o = 0; o < sizeof operations / sizeof *operations; o++) {
        chart_data_series(&data, operations[o], CHART_LINE, (int)o);
        for (size_t i = 0; i < results->row_count; i++)
            if (is_sweep(&results->rows[i], operations[o]))
                chart_data_point(&data, speed_point(&results->rows[i]));
    }
    find_levels(results, &levels);
    chart.mark_count = levels.count;
    chart_data_finish(&data, &chart);
    fputs("<section>\n<h2>Memory by working set</h2>\n", file);
    chart_write(file, &chart);
    fputs("</section>\n", file);
    const int failed = data.short_of_memory;
    chart_data_release(&data);
    return failed ? -1 : 0;
}
