/* A table for each suite: what was measured, how fast, and how that compares with who else ran. */
#include <math.h>
#include <string.h>

#include "bench/report/report_parts.h"
#include "common/html_text.h"

enum {
    MAX_PEERS = 8
};

typedef enum table_rate {
    RATE_FLOPS, /* gflops, else gbs */
    RATE_BYTES,
    RATE_CALL /* time alone */
} table_rate;

typedef struct report_table {
    const char *suite;
    const char *title;
    const char *text;
    table_rate rate;
} report_table;

/* The columns that a table has besides. */
typedef struct table_columns {
    const char *peers[MAX_PEERS];
    size_t count;
    int roof;   /* some row has its share of one */
    int energy; /* a sensor gave some row's */
} table_columns;

static int same_text(const char *left, const char *right) {
    return left == NULL || right == NULL ? left == right : strcmp(left, right) == 0;
}

static int same_case(const results_row *left, const results_row *right) {
    return left->device == right->device && same_text(left->suite, right->suite) &&
           same_text(left->case_name, right->case_name) && same_text(left->mode, right->mode) &&
           same_text(left->packing, right->packing);
}

static double metric(const results_row *row, const char *key) {
    return results_figure_value(&row->metrics, key);
}

static int has_setting(const results_row *row) {
    return metric(row, "setting_default") > 0 || metric(row, "setting_best") > 0;
}

/* The chart has the sweeps; other forms of a kernel than the default and the best are in the results file alone. */
static int is_shown(const results_row *row, const report_table *table) {
    const int swept = !isnan(results_figure_value(&row->shape, "width"));
    return report_row_counts(row) && same_text(row->suite, table->suite) &&
           !report_case_begins(row, "sweep") && !report_case_begins(row, "scan") &&
           (!swept || has_setting(row));
}

/* The share of the limit that was measured beside the row. */
static double share_of_roof(const results_row *row) {
    const double of_peak = metric(row, "of_peak");
    return of_peak > 0 ? of_peak : metric(row, "of_read");
}

static int has_energy(const results_row *row) {
    return metric(row, "pj_per_byte") > 0 || metric(row, "pj_per_flop") > 0 ||
           metric(row, "power_w") > 0;
}

/* Whom the rows of a suite were measured beside; a second run of Tandem in older files is no peer. */
static void find_columns(const results_file *results, const report_table *table,
                         table_columns *columns) {
    for (size_t i = 0; i < results->row_count; i++) {
        const results_row *const row = &results->rows[i];
        int known = row->impl == NULL || strcmp(row->impl, "tandem") == 0 ||
                    strcmp(row->impl, "tandem-again") == 0 ||
                    !same_text(row->suite, table->suite) || row->status != RESULT_OK;
        for (size_t p = 0; p < columns->count && !known; p++)
            known = strcmp(columns->peers[p], row->impl) == 0;
        if (!known && columns->count < MAX_PEERS)
            columns->peers[columns->count++] = row->impl;
        columns->roof |= is_shown(row, table) && share_of_roof(row) > 0;
        columns->energy |= is_shown(row, table) && has_energy(row);
    }
}

static const results_row *find_peer_row(const results_file *results, const results_row *row,
                                        const char *impl) {
    for (size_t i = 0; i < results->row_count; i++) {
        const results_row *const other = &results->rows[i];
        if (same_text(other->impl, impl) && other->status == RESULT_OK && same_case(row, other))
            return other;
    }
    return NULL;
}

static void write_time(FILE *file, double seconds) {
    static const struct {
        double least;
        double factor;
        const char *unit;
    } units[] = {{1, 1, "s"}, {1e-3, 1e3, "ms"}, {1e-6, 1e6, "µs"}, {0, 1e9, "ns"}};
    size_t unit = 0;
    while (seconds < units[unit].least)
        unit++;
    fprintf(file, "<td class=\"number\">%.4g %s</td>", seconds * units[unit].factor,
            units[unit].unit);
}

static void write_number(FILE *file, double value, const char *unit) {
    if (value > 0 && isfinite(value))
        fprintf(file, "<td class=\"number\">%.4g%s</td>", value, unit);
    else
        fputs("<td class=\"number\">–</td>", file);
}

/* "0.0043", "1.06", "200" */
static void write_ratio(FILE *file, double ratio) {
    fputs("<td class=\"number\">", file);
    if (!(ratio > 0 && isfinite(ratio)))
        fputs("–", file);
    else if (ratio < 0.095)
        fprintf(file, "%.2g ×", ratio);
    else
        fprintf(file, "%.*f ×", ratio < 10 ? 2 : 0, ratio);
    fputs("</td>", file);
}

static void write_rate(FILE *file, const results_row *row, table_rate rate) {
    if (metric(row, "latency_ns") > 0)
        write_number(file, metric(row, "latency_ns"), " ns a load");
    else if (rate == RATE_FLOPS && row->gflops > 0)
        write_number(file, row->gflops, " GFLOP/s");
    else
        write_number(file, row->gbs, " GB/s");
}

static void write_energy(FILE *file, const results_row *row) {
    static const struct {
        const char *key;
        const char *unit;
    } figures[] = {{"pj_per_flop", " pJ an operation"}, {"pj_per_byte", " pJ a byte"}};
    for (size_t i = 0; i < sizeof figures / sizeof *figures; i++) {
        if (!(metric(row, figures[i].key) > 0))
            continue;
        write_number(file, metric(row, figures[i].key), figures[i].unit);
        return;
    }
    write_number(file, metric(row, "power_w"), " W");
}

/* How many times as fast as a peer a row is: as measured in turn with it, or where the file does not say that, by the medians of both. */
static double times_as_fast(const results_row *row, const results_row *peer) {
    const double in_turn = metric(peer, "tandem_is");
    return in_turn > 0 ? in_turn : peer->median_s / row->median_s;
}

static void write_name(FILE *file, const results_row *row) {
    const int best = metric(row, "setting_best") > 0;
    report_write_case(file, row);
    if (has_setting(row))
        html_format(file, " (%s)", best ? "best form" : "default form");
    html_format(file, "%s%s", same_text(row->packing, "prepacked") ? ", prepacked" : "",
                same_text(row->mode, "waited") ? ", waited for" : "");
}

/* The note, and what replayed traces and sustained cases are about. */
static void write_last(FILE *file, const results_file *results, const results_row *row) {
    const double reserved = metric(row, "reserved_over_bound");
    const double sustained = metric(row, "sustained_of_burst");
    report_write_note(file, results, row);
    if (reserved > 0)
        html_format(file, " reserved at most: %.3f of the least that must be", reserved);
    if (sustained > 0)
        html_format(file, " in the last third: %.3f of the rate at first%s%s", sustained,
                    row->throttle_reasons == NULL ? "" : ", clocks held down: ",
                    row->throttle_reasons == NULL ? "" : row->throttle_reasons);
}

static void write_row(FILE *file, const results_file *results, const report_table *table,
                      const table_columns *columns, const results_row *row) {
    fputs("<tr><td>", file);
    write_name(file, row);
    fputs("</td>", file);
    write_time(file, row->median_s);
    if (table->rate != RATE_CALL)
        write_rate(file, row, table->rate);
    if (columns->roof)
        write_number(file, share_of_roof(row), "");
    for (size_t p = 0; p < columns->count; p++) {
        const results_row *const peer = find_peer_row(results, row, columns->peers[p]);
        write_ratio(file, peer == NULL ? NAN : times_as_fast(row, peer));
    }
    if (columns->energy)
        write_energy(file, row);
    fputs("<td>", file);
    html_text(file, row->variant);
    fputs("</td><td>", file);
    write_last(file, results, row);
    fputs("</td></tr>\n", file);
}

static void write_table_head(FILE *file, const report_table *table, const table_columns *columns) {
    fputs("<section>\n<h2>", file);
    html_text(file, table->title);
    fputs("</h2>\n<p class=\"small\">", file);
    html_text(file, table->text);
    if (columns->count > 0)
        fputs(" Against another: Tandem's speed as a multiple of its speed, above 1 Tandem is "
              "faster.",
              file);
    fputs("</p>\n<div class=\"wide\"><table>\n<thead><tr><th>what</th>"
          "<th class=\"number\">time of one</th>",
          file);
    fputs(table->rate != RATE_CALL ? "<th class=\"number\">rate</th>" : "", file);
    fputs(columns->roof ? "<th class=\"number\">of the roof</th>" : "", file);
    for (size_t p = 0; p < columns->count; p++) {
        fputs("<th class=\"number\">against ", file);
        html_text(file, columns->peers[p]);
        fputs("</th>", file);
    }
    fputs(columns->energy ? "<th class=\"number\">energy</th>" : "", file);
    fputs("<th>kernel</th><th></th></tr></thead>\n<tbody>\n", file);
}

/* A limit that several suites measured beside their rows is shown once: as it was first measured. */
static int is_repeated(const results_file *results, const report_table *table, size_t at) {
    const results_row *const row = &results->rows[at];
    for (size_t i = 0; i < at; i++)
        if (is_shown(&results->rows[i], table) && same_case(&results->rows[i], row) &&
            same_text(results->rows[i].dtype, row->dtype) &&
            (metric(&results->rows[i], "setting_best") > 0) == (metric(row, "setting_best") > 0))
            return 1;
    return 0;
}

static void write_table(FILE *file, const results_file *results, const report_table *table) {
    table_columns columns = {.count = 0};
    size_t rows = 0;
    find_columns(results, table, &columns);
    for (size_t i = 0; i < results->row_count; i++) {
        const results_row *const row = &results->rows[i];
        if (!is_shown(row, table) || is_repeated(results, table, i))
            continue;
        if (rows++ == 0)
            write_table_head(file, table, &columns);
        write_row(file, results, table, &columns, row);
    }
    if (rows > 0)
        fputs("</tbody></table></div>\n</section>\n", file);
}

void report_write_tables(FILE *file, const results_file *results) {
    static const report_table tables[] = {
        {"memory", "Memory", "By kernel, to the host and back; best is the fastest of all forms.",
         RATE_BYTES},
        {"gemm", "Matrix products", "The rate of what is needed, whatever the kernel does besides.",
         RATE_FLOPS},
        {"gemv", "A vector times a matrix",
         "Bound by memory: the rate is that of the bytes which must be read and written.",
         RATE_BYTES},
        {"quant", "Quantization",
         "Bytes count once for each tensor that is read or written; the copy beside moves as many.",
         RATE_BYTES},
        {"elementwise", "Elementwise operations",
         "Bytes count once for each operand; beside a copy, and reads and writes in the same mix.",
         RATE_BYTES},
        {"compute", "Arithmetic", "Multiply-adds without memory, and at intensities between.",
         RATE_FLOPS},
        {"launch", "What a call costs", "Beside a bare launch of the driver.", RATE_CALL},
        {"pool", "Allocating", "One allocation and one release.", RATE_CALL},
        {"outofcore", "Products larger than the device's memory",
         "With a budget below the operands.", RATE_FLOPS},
        {"sustained", "Sustained for seconds", "The same call again and again.", RATE_FLOPS},
    };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        write_table(file, results, &tables[i]);
}
