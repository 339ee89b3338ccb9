#include "bench/harness/bench_report.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "common/command/cli_options.h"

static const bench_roofs no_roofs = {.count = 0};

/* The names under which a roof appears in results. bench_roof.h explains roofs. */
typedef struct roof_words {
    const char *rate;    /* metric of the roof's own rate */
    const char *share;   /* metric of a row's share of that rate */
    const char *heading; /* column of the table */
} roof_words;

static roof_words words_of(const bench_roof *roof) {
    if (roof->computes)
        return (roof_words){"peak_gflops", "of_peak", "of peak"};
    return (roof_words){"read_gbs", "of_read", "of read"};
}

int bench_report_open(bench_report *report, const char *rate_name, const bench_roofs *roofs,
                      const tdm_device_info *device) {
    worker_text headings = {.length = 0};
    worker_text_add(&headings, "case|mode|packing|impl|>%s|>median|>p5|>p95|>tandem is", rate_name);
    for (int i = 0; roofs != NULL && i < roofs->count; i++)
        worker_text_add(&headings, "|>%s", words_of(&roofs->roof[i]).heading);
    worker_text_add(&headings, "|>max error|variant");
    *report = (bench_report){
        .document = results_create(),
        .table = table_create(headings.text),
        .rate_name = rate_name,
        .roofs = roofs != NULL ? roofs : &no_roofs,
        .used = machine_use_now(),
    };
    results_add_device(report->document, device);
    return report->document == NULL || report->table == NULL ? -1 : 0;
}

/* Adds the worker's description of itself to the environment record. */
static void add_identity(bench_report *report, const bench_contender *contender) {
    static const char *const keys[] = {"version", "core", "isa", "threads"};
    worker_text identity = {.length = 0};
    char value[256];
    for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++) {
        if (worker_field(contender->greeting.text, keys[i], value, sizeof value))
            worker_text_add(&identity, "%s%s %s", identity.length == 0 ? "" : ", ", keys[i], value);
    }
    if (identity.length > 0)
        results_add_environment(report->document, contender->impl, identity.text);
}

/* The time of a row relative to Tandem's time, and its rate relative to the roofs. */
typedef struct row_ratios {
    double tandem;           /* time of the row divided by Tandem's time */
    double roofs[MAX_ROOFS]; /* rate of the row divided by the roof's rate */
} row_ratios;

/*
 * Adds the cell with the rate. If the rate is not in the column's unit, the cell also shows its
 * unit. Rows without flops and bytes show calls per second.
 */
static void add_rate(const bench_report *report, const bench_result *row, double median) {
    const int by_bytes = strcmp(report->rate_name, "GB/s") == 0;
    const double flops = row->flops / median * 1e-9;
    const double bytes = row->bytes / median * 1e-9;
    if (row->flops <= 0 && row->bytes <= 0)
        table_number(report->table, 1 / median);
    else if (by_bytes ? row->bytes > 0 : row->flops > 0)
        table_number(report->table, by_bytes ? bytes : flops);
    else if (row->flops > 0)
        table_cell(report->table, "%.1f GFLOP/s", flops);
    else
        table_cell(report->table, "%.1f GB/s", bytes);
}

static void add_table_row(const bench_report *report, const bench_result *row, double median,
                          const row_ratios *ratios) {
    const sample_summary summary = summarize_samples(row->raw_s, row->samples);
    text_table *const table = report->table;
    table_cell(table, "%s", row->case_name);
    table_cell(table, "%s", row->mode);
    table_cell(table, "%s", row->packing);
    table_cell(table, "%s", row->impl);
    if (row->status != RESULT_OK) {
        table_cell(table, "%s", row->status == RESULT_SKIPPED ? "skipped" : "FAILED");
        for (int empty = 0; empty < 5 + report->roofs->count; empty++)
            table_cell(table, "%s", "");
        table_cell(table, "%s", row->reason);
        return;
    }
    add_rate(report, row, median);
    table_duration(table, median);
    table_duration(table, summary.p5);
    table_duration(table, summary.p95);
    if (isfinite(ratios->tandem))
        table_cell(table, "%.2fx", ratios->tandem);
    else
        table_cell(table, "-");
    for (int i = 0; i < report->roofs->count; i++) {
        if (isfinite(ratios->roofs[i]))
            table_cell(table, "%.1f %%", 100 * ratios->roofs[i]);
        else
            table_cell(table, "-");
    }
    table_number(table, row->max_error);
    const char *const note = row->note == NULL ? "" : row->note;
    table_cell(table, "%s%s%s", row->variant, note[0] == '\0' ? "" : " ", note);
}

double bench_contender_median(const bench_contender *contender) {
    return contender->status == RESULT_OK
               ? summarize_samples(contender->series.values, contender->series.count).median
               : NAN;
}

static void add_metric(bench_result *row, const char *key, double value) {
    int place = 0;
    while (place < RESULT_MAX_NUMBERS && row->metrics[place].key != NULL)
        place++;
    if (place < RESULT_MAX_NUMBERS && isfinite(value))
        row->metrics[place] = (result_number){key, value};
}

/*
 * Returns the work of a row that a roof limits, in flops or bytes, or 0 if there is none. A
 * contender with a row of its own uses another type, which an arithmetic roof does not limit.
 */
static double amount_of(const bench_roof *roof, const bench_contender *contender,
                        const bench_result *row) {
    if (!roof->computes)
        return row->bytes;
    return contender->row == NULL ? row->flops : 0;
}

/*
 * Stores the row's share of each roof. Adds each roof's rate and this share to the row's metrics.
 * Both are null in the file if the roof has no result.
 */
static void take_roofs(const bench_report *report, const bench_contender *roofs,
                       const bench_contender *contender, bench_result *row, double median,
                       row_ratios *ratios) {
    result_number *metric = row->metrics;
    while (metric->key != NULL)
        metric++;
    for (int i = 0; i < report->roofs->count; i++) {
        const bench_roof *const roof = &report->roofs->roof[i];
        const double amount = amount_of(roof, contender, row);
        const double rate = amount > 0 ? bench_roof_rate(&roofs[i]) : NAN;
        ratios->roofs[i] = amount / median / rate;
        *metric++ = (result_number){words_of(roof).rate, rate * 1e-9};
        *metric++ = (result_number){words_of(roof).share, ratios->roofs[i]};
    }
}

/* Adds the energy of a call, also per byte and per operation, and the other sensor readings. */
static void add_energy(const bench_energy *energy, bench_result *row) {
    const double joules = energy->calls > 0 ? energy->joules / energy->calls : NAN;
    add_metric(row, "joules", joules);
    add_metric(row, "pj_per_byte", row->bytes > 0 ? 1e12 * joules / row->bytes : NAN);
    add_metric(row, "pj_per_flop", row->flops > 0 ? 1e12 * joules / row->flops : NAN);
    add_metric(row, "power_w", energy->power_w);
    add_metric(row, "temperature_c", energy->temperature_c);
    add_metric(row, "clock_mhz", energy->clock_mhz);
    add_metric(row, "throttled", energy->throttled);
}

/* Marks a row as noisy if its samples vary too much. Rows with too few samples are not marked. */
static void mark_noise(bench_result *row) {
    const sample_summary summary = summarize_samples(row->raw_s, row->samples);
    if (row->samples >= NOISY_MIN_SAMPLES && summary.middle > noisy_middle)
        add_metric(row, "noisy", summary.middle);
}

static void add_row(bench_report *report, const bench_result *row, const bench_contender *contender,
                    const row_ratios *ratios) {
    bench_result each = *row;
    each.impl = contender->impl;
    each.variant = contender->variant;
    each.raw_s = contender->series.values;
    each.samples = contender->status == RESULT_OK ? contender->series.count : 0;
    each.check = contender->check;
    each.max_error = contender->max_error;
    each.status = contender->status;
    each.reason = contender->reason.text;
    if (each.status == RESULT_OK) {
        add_energy(&contender->energy, &each);
        mark_noise(&each);
    }
    results_add(report->document, &each);
    add_table_row(report, &each, bench_contender_median(contender), ratios);
    add_identity(report, contender);
}

void bench_report_case(bench_report *report, const bench_result *row, bench_contender *contenders,
                       int count) {
    const double tandem = bench_contender_median(&contenders[0]);
    row_ratios ratios = {.tandem = NAN};
    for (int i = 0; i < count; i++) {
        bench_contender *const contender = &contenders[i];
        const double median = bench_contender_median(contender);
        bench_result each = contender->row != NULL ? *contender->row : *row;
        ratios.tandem = i == 0 ? NAN : median / tandem;
        add_metric(&each, "tandem_is", ratios.tandem);
        take_roofs(report, contenders + count, contender, &each, median, &ratios);
        add_row(report, &each, contender, &ratios);
    }
    ratios = (row_ratios){.tandem = NAN, .roofs = {NAN, NAN}};
    for (int i = 0; i < report->roofs->count; i++) {
        char name[MAX_ROOF_NAME];
        const bench_contender *const contender = &contenders[count + i];
        const bench_result each = bench_roof_row(&report->roofs->roof[i], contender->work, name);
        add_row(report, &each, contender, &ratios);
    }
    report->tandem_rows += contenders[0].status == RESULT_OK;
}

int bench_report_close(bench_report *report, const char *command, const char *path) {
    const int to_stdout = path != NULL && strcmp(path, "-") == 0;
    int failed = results_failures(report->document) > 0;
    const machine_use used = machine_use_now();
    const double busy = machine_busy_share(&report->used, &used);
    results_add_environment_number(report->document, "others_of_run", busy);
    if (!to_stdout)
        table_print(report->table, stdout);
    if (!to_stdout && busy > machine_busy_much)
        printf("the machine was busy: other processes used %.0f %% of the CPU time\n", 100 * busy);
    if (path != NULL && results_write(report->document, command, path) != 0)
        failed = 1;
    if (report->tandem_rows == 0) {
        fprintf(stderr, "%s: no row of Tandem was measured\n", command);
        failed = 1;
    }
    table_destroy(report->table);
    results_destroy(report->document);
    return failed ? CLI_EXIT_FAILED : CLI_EXIT_OK;
}
