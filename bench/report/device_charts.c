#include "bench/report/report_parts.h"

#include <math.h>
#include <string.h>

#include "bench/analysis/main_memory.h"
#include "common/chart.h"

#define LEFT_INTENSITY (1.0 / 16)
#define RIGHT_INTENSITY 1024.0

static int finish(FILE *file, chart_plot *chart, int is_wanted) {
    if (is_wanted && chart->point_count > 0) {
        fprintf(file, "<h2>%s</h2>\n", chart->title);
        chart_write(file, chart);
    }
    chart_release(chart);
    return chart->short_of_memory ? -1 : 0;
}

/* ---- speed by working set -------------------------------------------------------------------- */

int charts_write_memory(FILE *file, const report_device *device) {
    static const char sweep[] = "sweep read ";
    chart_plot chart = {
        .title = "Speed by working set",
        .description = "Bandwidth of repeated passes over a block, by the size of the block. At "
                       "each drop the block no longer fits in a cache.",
        .x_label = "working set in bytes",
        .y_label = "GB/s",
        .x_is_bytes = 1,
    };
    chart_begin_series(&chart, sweep, CHART_LINE, 0);
    for (size_t i = 0; i < device->file->row_count; i++) {
        const results_row *const row = &device->file->rows[i];
        if (report_row_counts(device, row) && strcmp(row->suite, "memory") == 0 &&
            strncmp(row->case_name, sweep, strlen(sweep)) == 0)
            chart_add(&chart, results_get_number(row->shape, "bytes"), row->gbs, NULL);
    }
    return finish(file, &chart, 1);
}

/* ---- rooflines ------------------------------------------------------------------------------- */

/* Types whose GEMMs use the same kind of arithmetic. */
typedef struct precision {
    const char *name;   /* of the arithmetic; datasheets use it too */
    const char *dtypes; /* dtypes of the rows, each with a space on both sides */
    const char *title;
    const char *unit;
} precision;

static const precision precisions[] = {
    {"f32", " f32 ", "Roofline of f32", "GFLOP/s"},
    {"f16", " f16 f16w8 f16w4 ", "Roofline of f16", "GFLOP/s"},
    {"bf16", " bf16 ", "Roofline of bf16", "GFLOP/s"},
    {"s8", " s8 u8s8 s8s8s8 u8s8f32 u8s8u8 w8a8 w4a8 ", "Roofline of s8", "GOP/s"},
};

/* The highest rates of a device's rows. 0: not measured. */
typedef struct device_roof {
    double gbs;
    double gflops;
} device_roof;

static int computes(const precision *kind, const results_row *row) {
    char word[32];
    if (row->dtype == NULL ||
        (size_t)snprintf(word, sizeof word, " %s ", row->dtype) >= sizeof word)
        return 0;
    return strstr(kind->dtypes, word) != NULL;
}

static device_roof find_roof(const report_device *device, const precision *kind) {
    const results_row *const read = main_memory_fastest(device->file, device->device, NULL);
    device_roof roof = {.gbs = read == NULL ? 0 : read->gbs};
    for (size_t i = 0; i < device->file->row_count; i++) {
        const results_row *const row = &device->file->rows[i];
        if (report_row_counts(device, row) && computes(kind, row) && row->gflops > roof.gflops)
            roof.gflops = row->gflops;
    }
    return roof;
}

/* Draws a slope up to the ridge, and a level line after it. */
static void add_roof(chart_plot *chart, const char *name, chart_form form, int style, double gbs,
                     double gflops) {
    if (!(gbs > 0 && gflops > 0))
        return;
    const double ridge = gflops / gbs;
    const double right = fmax(RIGHT_INTENSITY, 2 * ridge);
    chart_begin_series(chart, name, form, style);
    chart_add(chart, LEFT_INTENSITY, fmin(gflops, gbs * LEFT_INTENSITY), NULL);
    chart_add(chart, ridge, gflops, NULL);
    chart_add(chart, right, gflops, NULL);
}

static void add_products(chart_plot *chart, const report_device *device, const precision *kind,
                         const char *name, int style) {
    chart_begin_series(chart, name, CHART_POINTS, style);
    for (size_t i = 0; i < device->file->row_count; i++) {
        const results_row *const row = &device->file->rows[i];
        if (report_row_counts(device, row) && computes(kind, row))
            chart_add(chart, row->flops / row->bytes, row->gflops, row->case_name);
    }
}

static void add_device(chart_plot *chart, const report_device *device, const precision *kind,
                       const device_roof *roof, int style) {
    char name[64];
    const char label[] = {device->label, device->label == 0 ? '\0' : ' ', '\0'};
    const double sheet_gbs =
        device->sheet == NULL ? NAN : device->sheet->values[DATASHEET_DRAM_GBS];
    snprintf(name, sizeof name, "%s%s datasheet", label, kind->name);
    add_roof(chart, name, CHART_DASHED, style, sheet_gbs,
             datasheet_peak_gflops(device->sheet, kind->name));
    snprintf(name, sizeof name, "%s%s measured", label, kind->name);
    add_roof(chart, name, CHART_LINE, style, roof->gbs, roof->gflops);
    add_products(chart, device, kind, name, style);
}

/* Draws all devices in one chart, or nothing if none measured this arithmetic. */
static int write_roofline(FILE *file, const report_device *devices, size_t count,
                          const precision *kind) {
    int is_measured = 0;
    chart_plot chart = {
        .title = kind->title,
        .description = "Slopes show memory bandwidth, level lines peak arithmetic. Solid lines and "
                       "points are measured, dashed lines are from datasheets.",
        .x_label = "operations per byte",
        .y_label = kind->unit,
    };
    for (size_t d = 0; d < count; d++) {
        const device_roof roof = find_roof(&devices[d], kind);
        add_device(&chart, &devices[d], kind, &roof, (int)d);
        is_measured |= roof.gflops > 0;
    }
    return finish(file, &chart, is_measured);
}

int charts_write_rooflines(FILE *file, const report_device *devices, size_t count) {
    for (size_t i = 0; i < sizeof precisions / sizeof *precisions; i++)
        if (write_roofline(file, devices, count, &precisions[i]) != 0)
            return -1;
    return 0;
}
