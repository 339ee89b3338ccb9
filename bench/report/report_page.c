#include "bench/report/report_page.h"

#include <math.h>
#include <string.h>

#include "bench/analysis/main_memory.h"
#include "bench/harness/bench_runner.h"
#include "bench/record/machine_busy.h"
#include "bench/report/best_lines.h"
#include "bench/report/device_charts.h"
#include "common/html_text.h"

enum {
    MAX_PEERS = 8,
    MAX_TEXT = 512
};

/* ---- the head -------------------------------------------------------------------------------------- */

static const char *known(const char *text) {
    return text == NULL ? "unknown" : text;
}

static void write_head(FILE *file, const results_file *results) {
    char title[256];
    const char *const name = results_device_name(&results->devices[0]);
    snprintf(title, sizeof title, "Tandem report: %s", name == NULL ? "unnamed device" : name);
    report_write_head(file, title);
    fputs("<h1>", file);
    html_text(file, name == NULL ? "unnamed device" : name);
    fputs("</h1>\n<p>", file);
    html_format(file, "Measured by Tandem %s (commit %s), %s.",
                known(results_fact_text(&results->library, "version")),
                known(results_fact_text(&results->library, "commit")), known(results->created));
    if (results->device_count > 1)
        html_format(file, " The file has %zu devices: --device chooses one.",
                    results->device_count);
    fputs("</p>\n", file);
}

static int had_no_time(const results_row *row) {
    return row->status == RESULT_SKIPPED && row->reason != NULL &&
           strncmp(row->reason, bench_time_is_over, strlen(bench_time_is_over)) == 0;
}

static void write_counts(FILE *file, const results_file *results) {
    size_t rows = 0;
    size_t verified = 0;
    size_t noisy = 0;
    size_t late = 0;
    size_t failed = 0;
    for (size_t i = 0; i < results->row_count; i++) {
        const results_row *const row = &results->rows[i];
        if (row->device != 0)
            continue;
        rows++;
        verified += row->verified == 1;
        noisy += results_row_is_noisy(row) != 0;
        late += had_no_time(row) != 0;
        failed += row->status == RESULT_FAILED;
    }
    const double others = results_fact_number(&results->environment, "others_of_run");
    fputs("<p>", file);
    html_format(file, "Rows: %zu, verified: %zu, noisy: %zu, without time: %zu, failed: %zu.", rows,
                verified, noisy, late, failed);
    if (others > machine_busy_much)
        html_format(file, " The machine was busy: others took %.0f %% of the processors' time.",
                    100 * others);
    fputs("</p>\n", file);
}

static void write_failures(FILE *file, const results_file *results) {
    for (size_t i = 0; i < results->row_count; i++) {
        const results_row *const row = &results->rows[i];
        if (row->device != 0 || row->status != RESULT_FAILED)
            continue;
        fputs("<p class=\"bad\">", file);
        html_format(file, "failed: %s, %s, %s: %s", row->suite, row->case_name, row->impl,
                    known(row->reason));
        fputs("</p>\n", file);
    }
}

/* A table with a heading; nothing where it has no rows. The table is destroyed. */
static void write_section(FILE *file, const char *heading, text_table *table) {
    if (table_row_count(table) > 0) {
        fputs("<h2>", file);
        html_text(file, heading);
        fputs("</h2>\n", file);
        table_write_html(table, file);
    }
    table_destroy(table);
}

static void write_best(FILE *file, const report_device *device) {
    const datasheet *const sheet = device->sheet;
    write_section(file, "At best", best_lines_table(device, 1));
    if (sheet == NULL)
        return;
    fputs("<p>", file);
    html_format(file, "Shares are of the datasheet: %s, %s, %.4g GB/s (%s).", sheet->name,
                sheet->memory_type, sheet->values[DATASHEET_DRAM_GBS], sheet->source);
    fputs("</p>\n", file);
}

/* ---- a table for each suite ------------------------------------------------------------------------ */

static int same_text(const char *left, const char *right) {
    return left == NULL || right == NULL ? left == right : strcmp(left, right) == 0;
}

static int same_case(const results_row *left, const results_row *right) {
    return left->device == right->device && same_text(left->suite, right->suite) &&
           same_text(left->case_name, right->case_name) && same_text(left->dtype, right->dtype) &&
           same_text(left->mode, right->mode) && same_text(left->packing, right->packing);
}

static double metric(const results_row *row, const char *key) {
    return results_figure_value(&row->metrics, key);
}

/* The chart has the sweeps; other forms of a kernel than the default and the best are in the results file alone. */
static int is_shown(const report_device *device, const results_row *row, const char *suite) {
    const int has_form = !isnan(results_figure_value(&row->shape, "width"));
    return report_row_counts(device, row) && strcmp(row->suite, suite) == 0 &&
           strncmp(row->case_name, "sweep ", 6) != 0 && strncmp(row->case_name, "scan ", 5) != 0 &&
           (!has_form || metric(row, "setting_default") > 0 || metric(row, "setting_best") > 0);
}

/* A limit that several suites measured beside their rows is shown once. */
static int is_repeated(const report_device *device, const char *suite, size_t at) {
    const results_row *const row = &device->file->rows[at];
    for (size_t i = 0; i < at; i++) {
        const results_row *const other = &device->file->rows[i];
        if (is_shown(device, other, suite) && same_case(other, row) &&
            (metric(other, "setting_best") > 0) == (metric(row, "setting_best") > 0))
            return 1;
    }
    return 0;
}

/* Whom the rows of a suite were measured beside; a second run of Tandem in older files is no peer. */
static size_t find_peers(const results_file *results, const char *suite,
                         const char *peers[MAX_PEERS]) {
    size_t count = 0;
    for (size_t i = 0; i < results->row_count; i++) {
        const results_row *const row = &results->rows[i];
        int is_known = strcmp(row->impl, "tandem") == 0 || strcmp(row->impl, "tandem-again") == 0 ||
                       strcmp(row->suite, suite) != 0 || row->status != RESULT_OK ||
                       row->device != 0;
        for (size_t p = 0; p < count && !is_known; p++)
            is_known = strcmp(peers[p], row->impl) == 0;
        if (!is_known && count < MAX_PEERS)
            peers[count++] = row->impl;
    }
    return count;
}

/* How many times as fast as a peer a row is: as measured in turn with it, or where the file does not say that, by the medians of both. */
static double times_as_fast(const results_file *results, const results_row *row, const char *peer) {
    for (size_t i = 0; i < results->row_count; i++) {
        const results_row *const other = &results->rows[i];
        const double in_turn = metric(other, "tandem_is");
        if (strcmp(other->impl, peer) == 0 && other->status == RESULT_OK && same_case(row, other))
            return in_turn > 0 ? in_turn : other->median_s / row->median_s;
    }
    return NAN;
}

static void name_text(const results_row *row, char text[MAX_TEXT]) {
    report_case_text(row, text, MAX_TEXT);
    const size_t used = strlen(text);
    const char *const form = metric(row, "setting_best") > 0      ? " (best form)"
                             : metric(row, "setting_default") > 0 ? " (default form)"
                                                                  : "";
    snprintf(text + used, MAX_TEXT - used, "%s%s%s", form,
             same_text(row->packing, "prepacked") ? ", prepacked" : "",
             same_text(row->mode, "waited") ? ", waited for" : "");
}

/* The note, with what replayed traces and sustained cases are about. */
static void note_text(const results_row *row, double share, char text[MAX_TEXT]) {
    static const char *const keys[] = {"of_peak", "of_read", "reserved_over_bound",
                                       "sustained_of_burst"};
    static const char *const names[] = {"of the measured peak", "of reading",
                                        "of the least memory reserved", "of the rate at first"};
    report_note_text(row, share, text, MAX_TEXT);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        const size_t used = strlen(text);
        if (metric(row, keys[i]) > 0)
            snprintf(text + used, MAX_TEXT - used, "%s%.3f %s", used == 0 ? "" : ", ",
                     metric(row, keys[i]), names[i]);
    }
    const size_t used = strlen(text);
    if (row->throttle_reasons != NULL)
        snprintf(text + used, MAX_TEXT - used, "%sclocks held down: %s", used == 0 ? "" : ", ",
                 row->throttle_reasons);
}

static void add_row(text_table *table, const report_device *device, const results_row *row,
                    const char *const *peers, size_t peer_count) {
    char text[MAX_TEXT];
    const double share = report_share(device, row, row->median_s);
    name_text(row, text);
    table_cell(table, "%s", text);
    table_duration(table, row->median_s);
    report_rate_text(row, row->median_s, share, text, sizeof text);
    table_cell(table, "%s", text);
    for (size_t p = 0; p < peer_count; p++) {
        report_times_text(times_as_fast(device->file, row, peers[p]), 2, text, sizeof text);
        table_cell(table, "%s", text);
    }
    table_cell(table, "%s", row->variant == NULL ? "" : row->variant);
    note_text(row, share, text);
    table_cell(table, "%s", text);
}

static void write_suite(FILE *file, const report_device *device, const char *suite) {
    const results_file *const results = device->file;
    const char *peers[MAX_PEERS];
    char headings[MAX_TEXT] = "case|>time|>rate";
    const size_t peer_count = find_peers(results, suite, peers);
    for (size_t p = 0; p < peer_count; p++) {
        const size_t used = strlen(headings);
        snprintf(headings + used, sizeof headings - used, "|>to %s", peers[p]);
    }
    const size_t used = strlen(headings);
    snprintf(headings + used, sizeof headings - used, "|kernel|note");
    text_table *const table = table_create(headings);
    for (size_t i = 0; i < results->row_count; i++)
        if (is_shown(device, &results->rows[i], suite) && !is_repeated(device, suite, i))
            add_row(table, device, &results->rows[i], peers, peer_count);
    write_section(file, suite, table);
}

static void write_suites(FILE *file, const report_device *device) {
    const results_row *const rows = device->file->rows;
    for (size_t i = 0; i < device->file->row_count; i++) {
        int is_first = is_shown(device, &rows[i], rows[i].suite);
        for (size_t before = 0; before < i && is_first; before++)
            is_first = strcmp(rows[before].suite, rows[i].suite) != 0 ||
                       !is_shown(device, &rows[before], rows[i].suite);
        if (is_first)
            write_suite(file, device, rows[i].suite);
    }
}

/* ---- the machine ----------------------------------------------------------------------------------- */

static void add_facts(text_table *table, const results_facts *facts) {
    static const char bytes_end[] = "_bytes";
    for (size_t i = 0; i < facts->count; i++) {
        const results_fact *const fact = &facts->items[i];
        const size_t length = strlen(fact->key);
        const size_t end = sizeof bytes_end - 1;
        char size[32];
        table_bytes_text(fact->number, size, sizeof size);
        const int is_size =
            fact->number > 0 && length > end && strcmp(fact->key + length - end, bytes_end) == 0;
        table_cell(table, "%s", fact->key);
        table_cell(table, "%s", is_size ? size : fact->text == NULL ? "–" : fact->text);
    }
}

static void write_facts(FILE *file, const results_file *results) {
    text_table *const table = table_create("fact|value");
    add_facts(table, &results->devices[0]);
    add_facts(table, &results->host);
    add_facts(table, &results->environment);
    write_section(file, "Device and machine", table);
}

int report_page_write(FILE *file, const void *data) {
    const results_file *const results = data;
    const report_device device = {.file = results, .sheet = main_memory_sheet(results, 0)};
    write_head(file, results);
    write_counts(file, results);
    write_failures(file, results);
    write_best(file, &device);
    const int failed =
        charts_write_memory(file, &device) != 0 || charts_write_rooflines(file, &device, 1) != 0;
    write_suites(file, &device);
    write_facts(file, results);
    fputs("<p>Figures are medians. \"to\" is Tandem's speed as a multiple of another's.</p>\n"
          "</body>\n</html>\n",
          file);
    return failed ? -1 : 0;
}
