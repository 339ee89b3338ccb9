#include "bench/report/best_lines.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/analysis/main_memory.h"

static int begins(const char *text, const char *start) {
    return strncmp(text, start, strlen(start)) == 0;
}

static int is_of(const report_device *device, const results_row *row, const char *suite) {
    return row->status == RESULT_OK && row->device == device->device &&
           strcmp(row->impl, "tandem") == 0 && strcmp(row->suite, suite) == 0;
}

static double most_arithmetic(const report_device *device, const char *suite, const char *dtype) {
    double most = NAN;
    for (size_t i = 0; i < device->file->row_count; i++) {
        const results_row *const row = &device->file->rows[i];
        if (is_of(device, row, suite) && row->dtype != NULL && strcmp(row->dtype, dtype) == 0 &&
            row->gflops > 0)
            most = fmax(most, row->gflops);
    }
    return most;
}

/* Nanoseconds of a load from the largest list, which the last cache holds least of; NaN where it may hold much of that. */
static double memory_latency(const report_device *device) {
    double largest = main_memory_from(device->file, device->device);
    double latency = NAN;
    for (size_t i = 0; i < device->file->row_count; i++) {
        const results_row *const row = &device->file->rows[i];
        const double own = results_figure_value(&row->metrics, "latency_ns");
        if (!is_of(device, row, "memory") || !begins(row->case_name, "chase ") || !(own > 0) ||
            !(main_memory_set(row) >= largest))
            continue;
        largest = main_memory_set(row);
        latency = own;
    }
    return latency;
}

static double least_launch(const report_device *device) {
    double least = NAN;
    for (size_t i = 0; i < device->file->row_count; i++) {
        const results_row *const row = &device->file->rows[i];
        if (is_of(device, row, "launch") && strcmp(row->case_name, "kernel") == 0 &&
            row->mode != NULL && strcmp(row->mode, "pipelined") == 0)
            least = fmin(least, row->median_s * 1e6);
    }
    return least;
}

static double host_link(const report_device *device) {
    double most = NAN;
    for (size_t i = 0; i < device->file->row_count; i++) {
        const results_row *const row = &device->file->rows[i];
        if (is_of(device, row, "memory") && begins(row->case_name, "upload ") &&
            strstr(row->case_name, "pinned") != NULL)
            most = fmax(most, row->gbs);
    }
    return most;
}

/* The lines that were found for so many devices. */
typedef struct line_list {
    const report_device *devices;
    size_t devices_count;
    best_line *lines;
    size_t count;
} line_list;

static best_line *begin_line(line_list *list, const char *what, const char *dtype,
                             const char *unit) {
    best_line *const line = &list->lines[list->count];
    *line = (best_line){.unit = unit};
    snprintf(line->what, sizeof line->what, "%s%s%s", what, dtype == NULL ? "" : ", ",
             dtype == NULL ? "" : dtype);
    for (size_t d = 0; d < REPORT_MAX_DEVICES; d++)
        line->values[d] = line->of_sheet[d] = NAN;
    return line;
}

/* Keep the line if some device has a value. */
static void end_line(line_list *list) {
    for (size_t d = 0; d < list->devices_count; d++) {
        if (!isnan(list->lines[list->count].values[d])) {
            list->count++;
            return;
        }
    }
}

static void add_memory(line_list *list) {
    static const char *const rows[][2] = {{"main memory, reading", NULL},
                                          {"main memory, writing", "write "},
                                          {"main memory, triad", "triad "}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        best_line *const line = begin_line(list, rows[i][0], NULL, "GB/s");
        for (size_t d = 0; d < list->devices_count; d++) {
            const report_device *const device = &list->devices[d];
            const results_row *const row =
                main_memory_fastest(device->file, device->device, rows[i][1]);
            if (row == NULL)
                continue;
            line->values[d] = row->gbs;
            if (device->sheet != NULL)
                line->of_sheet[d] = row->gbs / device->sheet->values[DATASHEET_DRAM_GBS];
        }
        end_line(list);
    }
}

static void add_arithmetic(line_list *list, const char *suite, const char *what) {
    static const struct {
        const char *dtype;
        const char *unit;
    } types[] = {{"f32", "GFLOP/s"}, {"f16", "GFLOP/s"}, {"bf16", "GFLOP/s"}, {"s8", "GOP/s"},
                 {"u8s8", "GOP/s"},  {"w8", "GFLOP/s"},  {"w4", "GFLOP/s"}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        best_line *const line = begin_line(list, what, types[i].dtype, types[i].unit);
        for (size_t d = 0; d < list->devices_count; d++) {
            const report_device *const device = &list->devices[d];
            line->values[d] = most_arithmetic(device, suite, types[i].dtype);
            line->of_sheet[d] =
                line->values[d] / datasheet_peak_gflops(device->sheet, types[i].dtype);
        }
        end_line(list);
    }
}

static void add_figure(line_list *list, const char *what, const char *unit, int less_is_better,
                       double (*find)(const report_device *device)) {
    best_line *const line = begin_line(list, what, NULL, unit);
    line->less_is_better = less_is_better;
    for (size_t d = 0; d < list->devices_count; d++)
        line->values[d] = find(&list->devices[d]);
    end_line(list);
}

size_t best_lines_find(const report_device *devices, size_t count,
                       best_line lines[BEST_MAX_LINES]) {
    line_list list = {.devices = devices, .devices_count = count, .lines = lines};
    add_memory(&list);
    add_figure(&list, "main memory, latency", "ns", 1, memory_latency);
    add_arithmetic(&list, "compute", "arithmetic");
    add_arithmetic(&list, "gemm", "products");
    add_figure(&list, "launch, pipelined", "us", 1, least_launch);
    add_figure(&list, "from the host, pinned", "GB/s", 0, host_link);
    return list.count;
}

double best_line_ratio(const best_line *line, size_t device) {
    const double ratio = line->values[device] / line->values[0];
    return line->less_is_better ? 1 / ratio : ratio;
}
