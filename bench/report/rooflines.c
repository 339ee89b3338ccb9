#include "bench/report/rooflines.h"

#include <math.h>
#include <string.h>

#include "bench/analysis/cache_levels.h"
#include "bench/analysis/main_memory.h"
#include "common/chart_data.h"

#define LEFT_INTENSITY (1.0 / 16)
#define RIGHT_INTENSITY 1024.0

enum {
    ROOF_NAME = 96,
    TEXT = 256
};

/* Types whose products are computed by one kind of arithmetic. */
typedef struct precision {
    const char *name;   /* of the arithmetic, for datasheets, too */
    const char *dtypes; /* of the rows that it computes, each with a space on both sides */
    const char *unit;
} precision;

static const precision precisions[] = {
    {"f32", " f32 ", "GFLOP/s"},
    {"f16", " f16 f16w8 f16w4 ", "GFLOP/s"},
    {"bf16", " bf16 ", "GFLOP/s"},
    {"s8", " s8 u8s8 s8s8s8 u8s8f32 u8s8u8 w8a8 w4a8 ", "GOP/s"},
};

/* The most that a device's rows reach: GB/s of reading, arithmetic in 10^9/s. 0: not measured. The chart keeps the names. */
typedef struct device_roof {
    char name[ROOF_NAME];
    char sheet_name[ROOF_NAME];
    char cache_names[CACHE_MAX_LEVELS][ROOF_NAME];
    double cache_gbs[CACHE_MAX_LEVELS];
    double gbs;
    double gflops;
} device_roof;

static int computes(const precision *kind, const results_row *row) {
    char word[TEXT];
    if (row->dtype == NULL ||
        (size_t)snprintf(word, sizeof word, " %s ", row->dtype) >= sizeof word)
        return 0;
    return strstr(kind->dtypes, word) != NULL;
}

static int counts(const report_device *device, const results_row *row) {
    return row->status == RESULT_OK && row->device == device->device &&
           strcmp(row->impl, "tandem") == 0;
}

/* A sweep's point names the level of memory that it found itself in: from 1 for caches, 0 for main memory. */
static void take_level(device_roof *roof, const results_row *row) {
    const double level = results_figure_value(&row->metrics, "level");
    if (strcmp(row->suite, "memory") != 0 || strncmp(row->case_name, "sweep read ", 11) != 0 ||
        !(level >= 1 && level <= CACHE_MAX_LEVELS))
        return;
    double *const gbs = &roof->cache_gbs[(int)level - 1];
    *gbs = fmax(*gbs, row->gbs);
}

static device_roof find_roof(const report_device *device, const precision *kind) {
    const results_row *const read = main_memory_fastest(device->file, device->device, NULL);
    device_roof roof = {.gbs = read == NULL ? 0 : read->gbs};
    const char label[] = {device->label, device->label == 0 ? '\0' : ',', ' ', '\0'};
    const char *const begin = device->label == 0 ? "" : label;
    snprintf(roof.name, sizeof roof.name, "%s%s measured", begin, kind->name);
    snprintf(roof.sheet_name, sizeof roof.sheet_name, "%s%s of the datasheet", begin, kind->name);
    for (size_t i = 0; i < device->file->row_count; i++) {
        const results_row *const row = &device->file->rows[i];
        if (!counts(device, row))
            continue;
        take_level(&roof, row);
        if (computes(kind, row) && row->gflops > roof.gflops)
            roof.gflops = row->gflops;
    }
    return roof;
}

/* A slope up to the ridge, a level line behind it. */
static void add_roof(chart_data *data, const char *name, chart_form form, int style, double gbs,
                     double gflops) {
    if (!(gbs > 0 && gflops > 0))
        return;
    const double ridge = gflops / gbs;
    const double places[] = {LEFT_INTENSITY, ridge, fmax(RIGHT_INTENSITY, 2 * ridge)};
    chart_data_series(data, name, form, style);
    for (int i = 0; i < 3; i++)
        chart_data_point(
            data, (chart_point){
                      .x = places[i], .y = fmin(gflops, gbs * places[i]), .low = NAN, .high = NAN});
}

/* The caches of a device alone. */
static void add_caches(chart_data *data, device_roof *roof) {
    for (int l = 0; l < CACHE_MAX_LEVELS; l++) {
        snprintf(roof->cache_names[l], ROOF_NAME, "cache level %d, reading", l + 1);
        add_roof(data, roof->cache_names[l], CHART_LINE, CHART_QUIET_STYLES + l, roof->cache_gbs[l],
                 roof->gflops);
    }
}

static int add_products(chart_data *data, const report_device *device, const precision *kind,
                        const char *name, int style) {
    int points = 0;
    chart_data_series(data, name, CHART_POINTS, style);
    for (size_t i = 0; i < device->file->row_count; i++) {
        const results_row *const row = &device->file->rows[i];
        if (!counts(device, row) || !computes(kind, row) || !(row->flops > 0 && row->bytes > 0))
            continue;
        chart_data_point(data, (chart_point){.x = row->flops / row->bytes,
                                             .y = row->gflops,
                                             .low = NAN,
                                             .high = NAN,
                                             .label = row->case_name});
        points++;
    }
    return points;
}

/* All devices in one chart; nothing where none measured this arithmetic. */
static int write_chart(FILE *file, const report_device *devices, size_t count,
                       const precision *kind) {
    device_roof roofs[REPORT_MAX_DEVICES];
    chart_data data = {.series_count = 0};
    int measured = 0;
    char title[TEXT];
    char description[TEXT];
    snprintf(title, sizeof title, "Roofline of %s", kind->name);
    snprintf(description, sizeof description,
             "Slopes are memory, level lines arithmetic of %s. Solid lines and points were "
             "measured, dashed lines are what datasheets promise.",
             kind->name);
    chart_plot chart = {
        .title = title,
        .description = description,
        .x_label = "operations for each byte",
        .y_label = kind->unit,
    };
    for (size_t d = 0; d < count; d++) {
        device_roof *const roof = &roofs[d];
        *roof = find_roof(&devices[d], kind);
        const datasheet *const sheet = devices[d].sheet;
        const double sheet_gbs = sheet == NULL ? NAN : sheet->values[DATASHEET_DRAM_GBS];
        add_roof(&data, roof->name, CHART_LINE, (int)d, roof->gbs, roof->gflops);
        if (devices[d].label == 0)
            add_caches(&data, roof);
        add_roof(&data, roof->sheet_name, CHART_DASHED, (int)d, sheet_gbs,
                 datasheet_peak_gflops(sheet, kind->name));
        measured += roof->gflops > 0;
        measured += add_products(&data, &devices[d], kind, roof->name, (int)d);
    }
    chart_data_finish(&data, &chart);
    if (chart.series_count > 0 && measured > 0) {
        fprintf(file, "<h2>%s</h2>\n", title);
        chart_write(file, &chart);
    }
    const int failed = data.short_of_memory;
    chart_data_release(&data);
    return failed ? -1 : 0;
}

int rooflines_write(FILE *file, const report_device *devices, size_t count) {
    for (size_t i = 0; i < sizeof precisions / sizeof *precisions; i++)
        if (write_chart(file, devices, count, &precisions[i]) != 0)
            return -1;
    return 0;
}
