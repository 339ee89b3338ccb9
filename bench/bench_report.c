#include "bench/bench_report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/bench_peers.h"
#include "bench/cli_options.h"

int bench_report_open(bench_report *report, const char *rate_name, const tdm_device_info *device) {
    char headings[256];
    snprintf(headings, sizeof headings,
             "case|mode|packing|impl|>%s|>median|>p5|>p95|>tandem is|>max error|variant",
             rate_name);
    *report = (bench_report){
        .document = results_create(),
        .table = table_create(headings),
        .rate_name = rate_name,
    };
    results_add_device(report->document, device);
    return report->document == NULL || report->table == NULL ? -1 : 0;
}

/* What the worker said of itself, for the environment record. */
static void add_identity(bench_report *report, const bench_entrant *entrant) {
    static const char *const keys[] = {"version", "core", "isa", "threads"};
    worker_text identity = {.length = 0};
    char value[256];
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (worker_field(entrant->greeting.text, keys[i], value, sizeof value))
            worker_text_add(&identity, "%s%s %s", identity.length == 0 ? "" : ", ", keys[i], value);
    }
    if (identity.length > 0)
        results_add_environment(report->document, entrant->impl, identity.text);
}

/* The twin runs the same kernel: where it differs, so may every other ratio of this run. */
static void note_twin(const bench_entrant *entrant, double ratio, worker_text *note) {
    worker_text_set(note, "%s", "");
    if (strcmp(entrant->impl, BENCH_TWIN_NAME) != 0 || !isfinite(ratio))
        return;
    if (fabs(ratio - 1) <= bench_twin_tolerance)
        return;
    worker_text_set(note, "noisy: two runs of tandem differ by %.1f %%", 100 * fabs(ratio - 1));
}

static void add_table_row(const bench_report *report, const bench_result *row, double median,
                          double ratio) {
    const sample_summary summary = summarize_samples(row->raw_s, row->samples);
    const double amount = row->flops > 0 ? row->flops : row->bytes;
    text_table *const table = report->table;
    table_cell(table, "%s", row->case_name);
    table_cell(table, "%s", row->mode);
    table_cell(table, "%s", row->packing);
    table_cell(table, "%s", row->impl);
    if (row->status != RESULT_OK) {
        table_cell(table, "%s", row->status == RESULT_SKIPPED ? "skipped" : "FAILED");
        for (int empty = 0; empty < 5; empty++)
            table_cell(table, "%s", "");
        table_cell(table, "%s", row->reason);
        return;
    }
    table_number(table, amount / median * 1e-9);
    table_duration(table, median);
    table_duration(table, summary.p5);
    table_duration(table, summary.p95);
    if (isfinite(ratio))
        table_cell(table, "%.2fx", ratio);
    else
        table_cell(table, "-");
    table_number(table, row->max_error);
    table_cell(table, "%s%s%s", row->variant, row->note[0] == '\0' ? "" : " ", row->note);
}

static double median_of(const bench_entrant *entrant) {
    return entrant->status == RESULT_OK
               ? summarize_samples(entrant->series.values, entrant->series.count).median
               : NAN;
}

void bench_report_case(bench_report *report, const bench_result *row, bench_entrant *entrants,
                       int count) {
    const double tandem = median_of(&entrants[0]);
    for (int i = 0; i < count; i++) {
        bench_entrant *const entrant = &entrants[i];
        const double median = median_of(entrant);
        const double ratio = i == 0 ? NAN : median / tandem;
        worker_text note;
        note_twin(entrant, ratio, &note);
        bench_result each = *row;
        each.impl = entrant->impl;
        each.variant = entrant->variant;
        each.raw_s = entrant->series.values;
        each.samples = entrant->status == RESULT_OK ? entrant->series.count : 0;
        each.check = entrant->check;
        each.max_error = entrant->max_error;
        each.status = entrant->status;
        each.reason = entrant->reason.text;
        each.note = note.text;
        results_add(report->document, &each);
        add_table_row(report, &each, median, ratio);
        add_identity(report, entrant);
    }
    report->tandem_rows += entrants[0].status == RESULT_OK;
}

int bench_report_close(bench_report *report, const char *command, const char *path) {
    const int to_stdout = path != NULL && strcmp(path, "-") == 0;
    int failed = results_failures(report->document) > 0;
    if (!to_stdout)
        table_print(report->table, stdout);
    if (path != NULL && results_write(report->document, command, path) != 0)
        failed = 1;
    if (report->tandem_rows == 0) {
        fprintf(stderr, "%s: nothing of Tandem was measured\n", command);
        failed = 1;
    }
    table_destroy(report->table);
    results_destroy(report->document);
    return failed ? CLI_EXIT_FAILED : CLI_EXIT_OK;
}
