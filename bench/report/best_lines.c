#include "bench/report/report_parts.h"

#include <math.h>
#include <string.h>

#include "bench/analysis/main_memory.h"

static int begins(const char *text, const char *start) {
    return strncmp(text, start, strlen(start)) == 0;
}

/* Returns the value of a row for a line, or NaN. `key` is the line's key. */
typedef double (*value_of_row)(const report_device *device, const results_row *row,
                               const char *key);

static double rate_of(const report_device *device, const results_row *row, const char *dtype) {
    (void)device;
    return row->dtype != NULL && strcmp(row->dtype, dtype) == 0 ? row->gflops : NAN;
}

/* A pointer chain that fits into a cache does not measure the latency of main memory. */
static double latency_of(const report_device *device, const results_row *row, const char *key) {
    const double from = main_memory_from(device->file, device->device);
    return begins(row->case_name, key) && main_memory_set(row) >= from
               ? results_get_number(row->metrics, "latency_ns")
               : NAN;
}

static double launch_of(const report_device *device, const results_row *row, const char *key) {
    (void)device;
    return strcmp(row->case_name, key) == 0 && row->mode != NULL &&
                   strcmp(row->mode, "pipelined") == 0
               ? row->median_s * 1e6
               : NAN;
}

static double link_of(const report_device *device, const results_row *row, const char *key) {
    (void)device;
    return begins(row->case_name, key) && strstr(row->case_name, "pinned") != NULL ? row->gbs : NAN;
}

static const struct line_kind {
    const char *what;
    const char *suite;
    const char *key;
    const char *unit;
    int less_is_better;
    value_of_row value; /* NULL: the fastest rows of main memory */
} kinds[] = {
    {"main memory, reading", "memory", NULL, "GB/s", 0, NULL},
    {"main memory, writing", "memory", "write ", "GB/s", 0, NULL},
    {"main memory, triad", "memory", "triad ", "GB/s", 0, NULL},
    {"main memory, latency", "memory", "chase ", "ns", 1, latency_of},
    {"arithmetic, f32", "compute", "f32", "GFLOP/s", 0, rate_of},
    {"arithmetic, f16", "compute", "f16", "GFLOP/s", 0, rate_of},
    {"arithmetic, bf16", "compute", "bf16", "GFLOP/s", 0, rate_of},
    {"arithmetic, s8", "compute", "s8", "GOP/s", 0, rate_of},
    {"GEMM, f32", "gemm", "f32", "GFLOP/s", 0, rate_of},
    {"GEMM, f16", "gemm", "f16", "GFLOP/s", 0, rate_of},
    {"GEMM, bf16", "gemm", "bf16", "GFLOP/s", 0, rate_of},
    {"GEMM, s8", "gemm", "s8", "GOP/s", 0, rate_of},
    {"GEMM, u8s8", "gemm", "u8s8", "GOP/s", 0, rate_of},
    {"GEMM, w8", "gemm", "w8", "GFLOP/s", 0, rate_of},
    {"GEMM, w4", "gemm", "w4", "GFLOP/s", 0, rate_of},
    {"launch, pipelined", "launch", "kernel", "us", 1, launch_of},
    {"from the host, pinned", "memory", "upload ", "GB/s", 0, link_of},
};

_Static_assert(sizeof kinds / sizeof *kinds <= BEST_MAX_LINES, "BEST_MAX_LINES is too small");

static double best_value(const report_device *device, const struct line_kind *kind) {
    double best = NAN;
    if (kind->value == NULL) {
        const results_row *const row = main_memory_fastest(device->file, device->device, kind->key);
        return row == NULL ? NAN : row->gbs;
    }
    for (size_t i = 0; i < device->file->row_count; i++) {
        const results_row *const row = &device->file->rows[i];
        if (!report_row_counts(device, row) || strcmp(row->suite, kind->suite) != 0)
            continue;
        const double value = kind->value(device, row, kind->key);
        /* The longest latency belongs to the largest pointer chain, which is cached least. */
        best = kind->value == launch_of ? fmin(best, value) : fmax(best, value);
    }
    return best;
}

static double sheet_value(const datasheet *sheet, const struct line_kind *kind) {
    if (kind->value == rate_of)
        return datasheet_peak_gflops(sheet, kind->key);
    return kind->value == NULL && sheet != NULL ? sheet->values[DATASHEET_DRAM_GBS] : NAN;
}

size_t best_lines_find(const report_device *devices, size_t count,
                       best_line lines[BEST_MAX_LINES]) {
    size_t found = 0;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
        best_line *const line = &lines[found];
        int is_measured = 0;
        *line = (best_line){.what = kinds[i].what,
                            .unit = kinds[i].unit,
                            .less_is_better = kinds[i].less_is_better};
        for (size_t d = 0; d < count; d++) {
            line->values[d] = best_value(&devices[d], &kinds[i]);
            line->of_sheet[d] = line->values[d] / sheet_value(devices[d].sheet, &kinds[i]);
            is_measured |= !isnan(line->values[d]);
        }
        found += is_measured;
    }
    return found;
}

double best_line_ratio(const best_line *line, size_t device) {
    const double ratio = line->values[device] / line->values[0];
    return line->less_is_better ? 1 / ratio : ratio;
}

text_table *best_lines_table(const report_device *devices, size_t count) {
    best_line lines[BEST_MAX_LINES];
    const size_t found = best_lines_find(devices, count, lines);
    text_table *const table = report_table_create("measured peak", devices, count, "");
    char text[80];
    for (size_t i = 0; i < found; i++) {
        table_cell(table, "%s", lines[i].what);
        for (size_t d = 0; d < count; d++) {
            report_amount_text(lines[i].values[d], lines[i].unit, lines[i].of_sheet[d], text,
                               sizeof text);
            table_cell(table, "%s", text);
            if (d == 0)
                continue;
            report_times_text(best_line_ratio(&lines[i], d), text, sizeof text);
            table_cell(table, "%s", text);
        }
    }
    return table;
}
