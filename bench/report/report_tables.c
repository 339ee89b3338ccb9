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

/* What a table has columns for besides. */
typedef struct table_columns {
    const char *peers[MAX_PEERS];
    size_t count;
    int roof; /* any row knows its share of one */
} table_columns;

static int same_text(const char *left, const char *right) {
    return left == NULL || right == NULL ? left == right : strcmp(left, right) == 0;
}

static int same_case(const results_row *left, const results_row *right) {
    return left->device == right->device && same_text(left->suite, right->suite) &&
           same_text(left->case_name, right->case_name) && same_text(left->mode, right->mode) &&
           same_text(left->packing, right->packing);
}

/* The share of the limit that was measured beside the row. */
static double share_of_roof(const results_row *row) {
    const double of_peak = results_figure_value(&row->metrics, "of_peak");
    return of_peak > 0 ? of_peak : results_figure_value(&row->metrics, "of_read");
}

/* Whom the rows of a suite were measured beside, Tandem's own second run is no peer; and whether beside a roof. */
static void find_columns(const results_file *results, const char *suite, table_columns *columns) {
    for (size_t i = 0; i < results->row_count; i++) {
        const results_row *const row = &results->rows[i];
        int known = row->impl == NULL || strcmp(row->impl, "tandem") == 0 ||
                    strcmp(row->impl, "tandem-again") == 0 || !same_text(row->suite, suite) ||
                    row->status != RESULT_OK;
        for (size_t p = 0; p < columns->count && !known; p++)
            known = strcmp(columns->peers[p], row->impl) == 0;
        if (!known && columns->count < MAX_PEERS)
            columns->peers[columns->count++] = row->impl;
        columns->roof |=
            report_row_counts(row) && same_text(row->suite, suite) && share_of_roof(row) > 0;
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
    if (rate == RATE_FLOPS && row->gflops > 0)
        write_number(file, row->gflops, " GFLOP/s");
    else
        write_number(file, row->gbs, " GB/s");
}

/*
 * How many times as fast as a peer a row is: as measured in turn with it, of several visits the median; where the file does not say
 * that, by the medians of both.
 */
static double times_as_fast(const results_row *row, const results_row *peer) {
    const double in_turn = results_figure_value(&peer->metrics, "tandem_is");
    return in_turn > 0 ? in_turn : peer->median_s / row->median_s;
}

static void write_row(FILE *file, const results_file *results, const report_table *table,
                      const table_columns *columns, const results_row *row) {
    fputs("<tr><td>", file);
    html_text(file, row->case_name);
    html_format(file, "%s%s", same_text(row->packing, "prepacked") ? ", prepacked" : "",
                same_text(row->mode, "waited") ? ", waited for" : "");
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
    fputs("<td>", file);
    html_text(file, row->variant);
    fputs("</td><td>", file);
    report_write_note(file, results, row);
    fputs("</td></tr>\n", file);
}

static void write_table_head(FILE *file, const report_table *table, const table_columns *columns) {
    fputs("<section>\n<h2>", file);
    html_text(file, table->title);
    fputs("</h2>\n<p class=\"small\">", file);
    html_text(file, table->text);
    if (columns->count > 0)
        fputs(" Against another: Tandem's speed as a multiple of its speed, above 1 Tandem is "
              "faster; measured in turn, the median of the visits.",
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
    fputs("<th>kernel</th><th></th></tr></thead>\n<tbody>\n", file);
}

/* A limit that several suites measured beside their rows is shown once: as it was first measured. */
static int is_repeated(const results_file *results, size_t at) {
    const results_row *const row = &results->rows[at];
    for (size_t i = 0; i < at; i++)
        if (report_row_counts(&results->rows[i]) && same_case(&results->rows[i], row) &&
            same_text(results->rows[i].dtype, row->dtype))
            return 1;
    return 0;
}

/* What a replayed trace is about is not its time. */
static int is_trace(const results_row *row) {
    return results_figure_value(&row->metrics, "reserved_over_bound") > 0;
}

static void write_size(FILE *file, double bytes) {
    char text[32] = "–";
    if (bytes > 0 && isfinite(bytes))
        report_print_size(text, sizeof text, bytes);
    fprintf(file, "<td class=\"number\">%s</td>", text);
}

static void write_traces(FILE *file, const results_file *results) {
    size_t rows = 0;
    for (size_t i = 0; i < results->row_count; i++) {
        const results_row *const row = &results->rows[i];
        if (!report_row_counts(row) || !is_trace(row))
            continue;
        if (rows++ == 0)
            fputs("<section>\n<h2>Memory that programs' traces reserve</h2>\n"
                  "<p class=\"small\">What the pool reserved at most, over the least that must be "
                  "reserved: 1 would be perfect.</p>\n"
                  "<div class=\"wide\"><table>\n<thead><tr><th>what</th>"
                  "<th class=\"number\">reserved</th><th class=\"number\">least</th>"
                  "<th class=\"number\">reserved / least</th><th class=\"number\">time of one</th>"
                  "<th></th></tr></thead>\n<tbody>\n",
                  file);
        fputs("<tr><td>", file);
        html_text(file, row->case_name);
        fputs("</td>", file);
        write_size(file, results_figure_value(&row->metrics, "peak_reserved"));
        write_size(file, results_figure_value(&row->metrics, "lower_bound"));
        fprintf(file, "<td class=\"number\">%.3f</td>",
                results_figure_value(&row->metrics, "reserved_over_bound"));
        write_time(file, row->median_s);
        fputs("<td>", file);
        report_write_note(file, results, row);
        fputs("</td></tr>\n", file);
    }
    fputs(rows > 0 ? "</tbody></table></div>\n</section>\n" : "", file);
}

static void write_table(FILE *file, const results_file *results, const report_table *table) {
    table_columns columns = {.count = 0};
    size_t rows = 0;
    find_columns(results, table->suite, &columns);
    for (size_t i = 0; i < results->row_count; i++) {
        const results_row *const row = &results->rows[i];
        if (!report_row_counts(row) || !same_text(row->suite, table->suite) || is_trace(row) ||
            is_repeated(results, i))
            continue;
        if (rows++ == 0)
            write_table_head(file, table, &columns);
        write_row(file, results, table, &columns, row);
    }
    if (rows > 0)
        fputs("</tbody></table></div>\n</section>\n", file);
}

static int has_energy(const results_row *row) {
    return report_row_counts(row) && (results_figure_value(&row->metrics, "joules") > 0 ||
                                      results_figure_value(&row->metrics, "power_w") > 0);
}

static void write_energy_row(FILE *file, const results_row *row) {
    static const struct {
        const char *key;
        const char *unit;
    } columns[] = {
        {"power_w", " W"},      {"temperature_c", " °C"}, {"clock_mhz", " MHz"},
        {"pj_per_byte", " pJ"}, {"pj_per_flop", " pJ"},
    };
    fputs("<tr><td>", file);
    html_format(file, "%s, %s", row->suite, row->case_name);
    fputs("</td>", file);
    for (size_t i = 0; i < sizeof columns / sizeof *columns; i++)
        write_number(file, results_figure_value(&row->metrics, columns[i].key), columns[i].unit);
    fprintf(file, "<td>%s</td></tr>\n",
            results_figure_value(&row->metrics, "throttled") > 0 ? "throttled" : "");
}

static void write_energy(FILE *file, const results_file *results) {
    size_t rows = 0;
    fputs("<section>\n<h2>Energy</h2>\n", file);
    for (size_t i = 0; i < results->row_count; i++) {
        if (!has_energy(&results->rows[i]))
            continue;
        if (rows++ == 0)
            fputs("<div class=\"wide\"><table>\n<thead><tr><th>what</th><th "
                  "class=\"number\">power</th>"
                  "<th class=\"number\">temperature</th><th class=\"number\">clock</th>"
                  "<th class=\"number\">for each byte</th>"
                  "<th class=\"number\">for each operation</th><th></th></tr></thead>\n<tbody>\n",
                  file);
        write_energy_row(file, &results->rows[i]);
    }
    fputs(rows > 0
              ? "</tbody></table></div>\n"
              : "<p class=\"absent\">This machine lets no program read its power or energy.</p>\n",
          file);
    fputs("</section>\n", file);
}

/* Of a row of suite "sustained": the rate of a call that takes so long. */
static void write_rate_of(FILE *file, const results_row *row, const char *seconds) {
    const double amount = row->flops > 0 ? row->flops : row->bytes;
    write_number(file, amount / results_figure_value(&row->metrics, seconds) * 1e-9,
                 row->flops > 0 ? " GFLOP/s" : " GB/s");
}

static void write_sustained(FILE *file, const results_file *results) {
    size_t rows = 0;
    for (size_t i = 0; i < results->row_count; i++) {
        const results_row *const row = &results->rows[i];
        if (!report_row_counts(row) || !same_text(row->suite, "sustained"))
            continue;
        if (rows++ == 0)
            fputs(
                "<section>\n<h2>Burst and sustained</h2>\n<p>The same call for some seconds: what "
                "it gave at first, for two seconds or the first third, and in the last third.</p>\n"
                "<div class=\"wide\"><table>\n<thead><tr><th>what</th><th "
                "class=\"number\">seconds</th><th class=\"number\">at first</th><th "
                "class=\"number\">last third</th><th class=\"number\">share</th><th>clocks held "
                "down</th></tr></thead>\n<tbody>\n",
                file);
        fputs("<tr><td>", file);
        html_text(file, row->case_name);
        fputs("</td>", file);
        write_number(file, results_figure_value(&row->shape, "seconds"), "");
        write_rate_of(file, row, "burst_s");
        write_rate_of(file, row, "sustained_s");
        write_number(file, results_figure_value(&row->metrics, "sustained_of_burst"), "");
        fputs("<td>", file);
        html_text(file, row->throttle_reasons == NULL ? "not at all, or not told"
                                                      : row->throttle_reasons);
        fputs("</td></tr>\n", file);
    }
    fputs(rows > 0 ? "</tbody></table></div>\n</section>\n" : "", file);
}

void report_write_tables(FILE *file, const results_file *results) {
    static const report_table tables[] = {
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
    };
    for (size_t i = 0; i < sizeof tables / sizeof *tables; i++)
        write_table(file, results, &tables[i]);
    write_traces(file, results);
    write_sustained(file, results);
    write_energy(file, results);
}
