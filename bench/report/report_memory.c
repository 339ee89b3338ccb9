/* What the memory does: by working set, by kernel, to the host and back. */
#include <math.h>
#include <string.h>

#include "bench/report/report_parts.h"
#include "common/chart_data.h"
#include "common/html_text.h"

enum {
    MAX_LEVELS = 8
};

typedef struct cache_levels {
    chart_mark marks[MAX_LEVELS];
    char names[MAX_LEVELS][32];
    size_t count;
} cache_levels;

static int is_sweep(const results_row *row) {
    return report_row_counts(row) && row->suite != NULL && strcmp(row->suite, "memory") == 0 &&
           report_case_begins(row, "sweep");
}

/* The operation of a sweep: "read" of "sweep read 4096". */
static int sweeps(const results_row *row, const char *operation) {
    const size_t length = strlen(operation);
    return is_sweep(row) && strncmp(row->case_name + 6, operation, length) == 0 &&
           row->case_name[6 + length] == ' ';
}

static chart_point speed_point(const results_row *row, double x) {
    return (chart_point){
        .x = x,
        .y = row->gbs,
        .low = row->bytes / row->p95_s * 1e-9,
        .high = row->bytes / row->p5_s * 1e-9,
        .label = row->case_name,
    };
}

/* Where a level ends: the largest working set of it. Main memory is level 0 and has no end. */
static void find_levels(const results_file *results, cache_levels *levels) {
    for (size_t i = 0; i < results->row_count; i++) {
        const results_row *const row = &results->rows[i];
        const double level = results_figure_value(&row->metrics, "level");
        if (!sweeps(row, "read") || !(level >= 1) || level > MAX_LEVELS)
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

static int write_sweep(FILE *file, const results_file *results) {
    static const char *const operations[] = {"read", "write", "copy", "triad"};
    cache_levels levels = {.count = 0};
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
            if (sweeps(&results->rows[i], operations[o]))
                chart_data_point(
                    &data, speed_point(&results->rows[i],
                                       results_figure_value(&results->rows[i].shape, "bytes")));
    }
    find_levels(results, &levels);
    chart.mark_count = levels.count;
    chart_data_finish(&data, &chart);
    chart_write(file, &chart);
    const int failed = data.short_of_memory;
    chart_data_release(&data);
    return failed ? -1 : 0;
}

static const char *setting_of(const results_row *row) {
    const int best = results_figure_value(&row->metrics, "setting_best") == 1;
    const int plain = results_figure_value(&row->metrics, "setting_default") == 1;
    if (best)
        return plain ? "default, best" : "best";
    return plain ? "default" : "";
}

/* Whom Tandem was measured beside, in turn; a row of the default form is not what the other was measured beside where there is a best. */
static const results_row *find_peer(const results_file *results, const results_row *row) {
    if (strcmp(setting_of(row), "default") == 0)
        return NULL;
    for (size_t i = 0; i < results->row_count; i++) {
        const results_row *const other = &results->rows[i];
        if (other->status == RESULT_OK && other->device == row->device && other->impl != NULL &&
            strcmp(other->suite, row->suite) == 0 && strncmp(other->impl, "tandem", 6) != 0 &&
            strcmp(other->case_name, row->case_name) == 0 &&
            results_figure_value(&other->metrics, "tandem_is") > 0)
            return other;
    }
    return NULL;
}

static void write_peer(FILE *file, const results_file *results, const results_row *row) {
    const results_row *const peer = find_peer(results, row);
    fputs("<td class=\"number\">", file);
    if (peer == NULL) {
        fputs("–", file);
    } else {
        fprintf(file, "%.2f ×<div>", results_figure_value(&peer->metrics, "tandem_is"));
        html_text(file, peer->impl);
        fputs("</div>", file);
    }
    fputs("</td>", file);
}

static void write_row(FILE *file, const results_file *results, const results_row *row) {
    const double latency = results_figure_value(&row->metrics, "latency_ns");
    fputs("<tr><td>", file);
    report_write_case(file, row);
    fputs("</td><td>", file);
    html_text(file, setting_of(row));
    if (latency > 0)
        fprintf(file, "</td><td class=\"number\">%.3g ns", latency);
    else if (row->gbs > 0)
        fprintf(file, "</td><td class=\"number\">%.4g GB/s", row->gbs);
    else
        fputs("</td><td class=\"number\">–", file);
    fputs("</td>", file);
    write_peer(file, results, row);
    if (row->bytes > 0 && !(latency > 0))
        fprintf(file, "<td class=\"number\">%.4g … %.4g", row->bytes / row->p95_s * 1e-9,
                row->bytes / row->p5_s * 1e-9);
    else
        fputs("<td class=\"number\">–", file);
    fputs("</td><td>", file);
    html_text(file, row->variant);
    fputs("</td><td>", file);
    report_write_note(file, results, row);
    fputs("</td></tr>\n", file);
}

/* Rows of a swept setting that is neither the default nor the best are in the results file only. */
static int is_shown(const results_row *row) {
    const int swept = !isnan(results_figure_value(&row->shape, "width"));
    return report_row_counts(row) && strcmp(row->suite, "memory") == 0 && !is_sweep(row) &&
           (!swept || setting_of(row)[0] != '\0');
}

/* The most bytes that a kernel with settings worked on: those that show memory, not a cache. */
static double most_bytes(const results_file *results) {
    double most = 0;
    for (size_t i = 0; i < results->row_count; i++) {
        const results_row *const row = &results->rows[i];
        if (is_shown(row) && setting_of(row)[0] != '\0')
            most = fmax(most, results_figure_value(&row->shape, "bytes"));
    }
    return most;
}

/* What other sections are measured by: kernels at smaller sizes, and readings as long as weights are. */
static int is_detail(const results_row *row, double most) {
    return report_case_begins(row, "scan") ||
           (setting_of(row)[0] != '\0' && results_figure_value(&row->shape, "bytes") < most);
}

static void write_rows(FILE *file, const results_file *results, int details, double most) {
    size_t rows = 0;
    for (size_t i = 0; i < results->row_count; i++) {
        const results_row *const row = &results->rows[i];
        if (!is_shown(row) || is_detail(row, most) != details)
            continue;
        if (rows++ == 0) {
            fputs(details ? "<details><summary>Smaller sizes, and readings as long as weights "
                            "are (scan)</summary>\n"
                          : "",
                  file);
            fputs("<div "
                  "class=\"wide\"><table>\n<thead><tr><th>what</th><th>setting</th>"
                  "<th class=\"number\">median</th><th class=\"number\">against</th><th "
                  "class=\"number\">p5 … "
                  "p95</th><th>kernel</th><th></th></tr></thead>\n<tbody>\n",
                  file);
        }
        write_row(file, results, row);
    }
    if (rows > 0)
        fputs(details ? "</tbody></table></div></details>\n" : "</tbody></table></div>\n", file);
}

static void explain_peers(FILE *file, const results_file *results) {
    int found = 0;
    for (size_t i = 0; i < results->row_count && !found; i++)
        found = is_shown(&results->rows[i]) && find_peer(results, &results->rows[i]) != NULL;
    if (found)
        fputs("<p class=\"small\">Against another program: Tandem's speed as a multiple of its "
              "speed, measured in turn, the median of the visits.</p>\n",
              file);
}

static void explain_settings(FILE *file, const results_file *results) {
    int found = 0;
    for (size_t i = 0; i < results->row_count; i++)
        found |= is_shown(&results->rows[i]) &&
                 results_figure_value(&results->rows[i].metrics, "setting_best") == 1;
    if (found)
        fputs("<p class=\"small\">Best is the fastest of all forms of a kernel: width of vectors, "
              "how many at a time, work-items, prefetches, stores past the caches. The first visit "
              "looks for it, the others measure what was found. Default is one vector at a time, "
              "with nothing looked for.</p>\n",
              file);
}

int report_write_memory(FILE *file, const results_file *results) {
    const double most = most_bytes(results);
    fputs("<section>\n<h2>Memory</h2>\n", file);
    const int failed = write_sweep(file, results);
    write_rows(file, results, 0, most);
    explain_peers(file, results);
    explain_settings(file, results);
    write_rows(file, results, 1, most);
    fputs("</section>\n", file);
    return failed;
}
