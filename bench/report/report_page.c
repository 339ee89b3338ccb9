#include "bench/report/report_parts.h"

#include <math.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "bench/harness/bench_runner.h"
#include "bench/record/environment_record.h"
#include "common/html_text.h"

enum {
    MAX_PEERS = 8,
    MAX_TEXT = 512
};

/* ---- the head -------------------------------------------------------------------------------- */

static const char *known(const char *text) {
    return text == NULL ? "unknown" : text;
}

static void write_head(FILE *file, const report_device *device) {
    const results_file *const results = device->file;
    char title[256];
    const char *const name = results_device_name(results->devices[device->device]);
    snprintf(title, sizeof title, "Tandem report: %s", name == NULL ? "unnamed device" : name);
    report_write_head(file, title);
    fputs("<h1>", file);
    html_text(file, name == NULL ? "unnamed device" : name);
    fputs("</h1>\n<p>", file);
    html_format(file, "Measured by Tandem %s (commit %s), %s.",
                known(results_get_text(results->library, "version")),
                known(results_get_text(results->library, "commit")), known(results->created));
    if (results->device_count > 1)
        html_format(file, " The file has %zu devices: --device selects one.",
                    results->device_count);
    fputs("</p>\n", file);
}

static int had_no_time(const results_row *row) {
    return row->status == RESULT_SKIPPED && row->reason != NULL &&
           strncmp(row->reason, bench_time_is_over, strlen(bench_time_is_over)) == 0;
}

/* Writes the failed rows with their reasons, and counts of the rows by kind. */
static void write_counts(FILE *file, const report_device *device) {
    const results_file *const results = device->file;
    size_t rows = 0;
    size_t verified = 0;
    size_t noisy = 0;
    size_t late = 0;
    size_t failed = 0;
    for (size_t i = 0; i < results->row_count; i++) {
        const results_row *const row = &results->rows[i];
        if (row->device != device->device)
            continue;
        rows++;
        verified += row->verified != 0;
        noisy += results_row_is_noisy(row) != 0;
        late += had_no_time(row) != 0;
        if (row->status != RESULT_FAILED)
            continue;
        failed++;
        fputs("<p class=\"bad\">", file);
        html_format(file, "failed: %s, %s, %s: %s", row->suite, row->case_name, row->impl,
                    known(row->reason));
        fputs("</p>\n", file);
    }
    const double others = results_get_number(results->environment, "others_of_run");
    fputs("<p>", file);
    html_format(file,
                "Rows: %zu, verified: %zu, noisy: %zu, skipped for lack of time: %zu, failed: %zu.",
                rows, verified, noisy, late, failed);
    if (others > machine_busy_much)
        html_format(file, " The machine was busy: other processes used %.0f %% of the CPU time.",
                    100 * others);
    fputs("</p>\n", file);
}

/* Writes a table with a heading, or nothing if it has no rows. The table is destroyed. */
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
    write_section(file, "Measured peaks", best_lines_table(device, 1));
    if (sheet == NULL)
        return;
    fputs("<p>", file);
    html_format(file, "Percentages are of the datasheet: %s, %s, %.4g GB/s (%s).", sheet->name,
                sheet->memory_type, sheet->values[DATASHEET_DRAM_GBS], sheet->source);
    fputs("</p>\n", file);
}

/* ---- a table for each suite ------------------------------------------------------------------ */

static int same_text(const char *left, const char *right) {
    return left == NULL || right == NULL ? left == right : strcmp(left, right) == 0;
}

static int same_case(const results_row *left, const results_row *right) {
    return left->device == right->device && same_text(left->suite, right->suite) &&
           same_text(left->case_name, right->case_name) && same_text(left->dtype, right->dtype) &&
           same_text(left->mode, right->mode) && same_text(left->packing, right->packing);
}

static double metric(const results_row *row, const char *key) {
    return results_get_number(row->metrics, key);
}

/* Sweeps are in the chart, and scans are read limits of other suites. Neither is in the tables. */
static int is_shown(const report_device *device, const results_row *row, const char *suite) {
    return report_row_counts(device, row) && strcmp(row->suite, suite) == 0 &&
           strncmp(row->case_name, "sweep ", 6) != 0 && strncmp(row->case_name, "scan ", 5) != 0;
}

/*
 * True if an earlier row shows the same case. A limit that several suites measured is thus shown
 * once, and so is a case with several kernel variants.
 */
static int is_repeated(const report_device *device, const char *suite, size_t at) {
    const results_row *const row = &device->file->rows[at];
    for (size_t i = 0; i < at; i++) {
        if (is_shown(device, &device->file->rows[i], suite) &&
            same_case(&device->file->rows[i], row))
            return 1;
    }
    return 0;
}

/* Finds the peers measured with a suite. Second runs of Tandem in older files are not peers. */
static size_t find_peers(const report_device *device, const char *suite,
                         const char *peers[MAX_PEERS]) {
    size_t count = 0;
    for (size_t i = 0; i < device->file->row_count; i++) {
        const results_row *const row = &device->file->rows[i];
        int is_known = strcmp(row->impl, "tandem") == 0 || strcmp(row->impl, "tandem-again") == 0 ||
                       strcmp(row->suite, suite) != 0 || row->status != RESULT_OK ||
                       row->device != device->device;
        for (size_t p = 0; p < count && !is_known; p++)
            is_known = strcmp(peers[p], row->impl) == 0;
        if (!is_known && count < MAX_PEERS)
            peers[count++] = row->impl;
    }
    return count;
}

/*
 * Returns how many times as fast as a peer a row is. The ratio of alternating measurements is used
 * if the file has it, otherwise the ratio of the medians.
 */
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
    if (same_text(row->packing, "prepacked"))
        text_append(text, MAX_TEXT, ", ", "prepacked");
    if (same_text(row->mode, "waited"))
        text_append(text, MAX_TEXT, ", ", "waited");
}

/* Writes the row's note, and those of its metrics that are ratios to a limit. */
static void note_text(const results_row *row, double share, char text[MAX_TEXT]) {
    static const char *const keys[] = {"of_peak", "of_read", "reserved_over_bound"};
    static const char *const names[] = {"of the measured peak", "of the read rate",
                                        "times the lower bound of reserved memory"};
    report_note_text(row, share, text, MAX_TEXT);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (metric(row, keys[i]) > 0)
            text_append(text, MAX_TEXT, ", ", "%.3f %s", metric(row, keys[i]), names[i]);
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
        report_times_text(times_as_fast(device->file, row, peers[p]), text, sizeof text);
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
    const size_t peer_count = find_peers(device, suite, peers);
    for (size_t p = 0; p < peer_count; p++)
        text_append(headings, sizeof headings, "|", ">vs. %s", peers[p]);
    text_append(headings, sizeof headings, "|", "kernel|note");
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

/* ---- the machine ----------------------------------------------------------------------------- */

/* Adds the members of an object, and of the objects in it. */
static void add_facts(text_table *table, const cJSON *facts) {
    static const char bytes_end[] = "_bytes";
    const cJSON *fact;
    cJSON_ArrayForEach(fact, facts) {
        char text[MAX_TEXT];
        const size_t length = strlen(fact->string);
        const size_t end = sizeof bytes_end - 1;
        if (cJSON_IsObject(fact)) {
            add_facts(table, fact);
            continue;
        }
        results_value_text(fact, text, sizeof text);
        if (cJSON_IsNumber(fact) && length > end &&
            strcmp(fact->string + length - end, bytes_end) == 0)
            table_bytes_text(fact->valuedouble, text, sizeof text);
        table_cell(table, "%s", fact->string);
        table_cell(table, "%s", text[0] == '\0' ? "–" : text);
    }
}

static void write_facts(FILE *file, const report_device *device) {
    text_table *const table = table_create("fact|value");
    add_facts(table, device->file->devices[device->device]);
    add_facts(table, device->file->host);
    add_facts(table, device->file->environment);
    write_section(file, "Device and machine", table);
}

int report_page_write(FILE *file, const void *data) {
    const report_device *const device = data;
    write_head(file, device);
    write_counts(file, device);
    write_best(file, device);
    const int failed =
        charts_write_memory(file, device) != 0 || charts_write_rooflines(file, device, 1) != 0;
    write_suites(file, device);
    write_facts(file, device);
    fputs("<p>Figures are medians. \"vs.\" is Tandem's speed as a multiple of another "
          "library's.</p>\n"
          "</body>\n"
          "</html>\n",
          file);
    return failed ? -1 : 0;
}
