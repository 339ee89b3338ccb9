#include "bench/compare/compare_rooflines.h"

#include <math.h>
#include <string.h>

#include "bench/analysis/main_memory.h"
#include "common/chart_data.h"

#define LEFT_INTENSITY (1.0 / 16)
#define RIGHT_INTENSITY 1024.0

enum {
    ROOF_NAME = 96,
    TEXT = 160
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

/* What a device's rows reach at most: GB/s of reading its memory, arithmetic in 10^9/s. 0: not measured. */
typedef struct device_roof {
    char name[ROOF_NAME];
    char sheet_name[ROOF_NAME];
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

static int counts(const compare_column *column, const results_row *row) {
    return row->status == RESULT_OK && row->device == column->device &&
           strcmp(row->impl, "tandem") == 0;
}

double compare_memory_speed(const compare_column *column, const char *cases) {
    const results_row *const row = main_memory_fastest(column->file, column->device, cases);
    return row == NULL ? 0 : row->gbs;
}

static device_roof find_roof(const compare_column *column, const precision *kind) {
    device_roof roof = {.gbs = compare_memory_speed(column, NULL)};
    snprintf(roof.name, sizeof roof.name, "%c, %s measured", column->label, kind->name);
    snprintf(roof.sheet_name, sizeof roof.sheet_name, "%c, %s of the datasheet", column->label,
             kind->name);
    for (size_t i = 0; i < column->file->row_count; i++) {
        const results_row *const row = &column->file->rows[i];
        if (!counts(column, row))
            continue;
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

static int add_products(chart_data *data, const compare_column *column, const precision *kind,
                        const char *name, int style) {
    int points = 0;
    chart_data_series(data, name, CHART_POINTS, style);
    for (size_t i = 0; i < column->file->row_count; i++) {
        const results_row *const row = &column->file->rows[i];
        if (!counts(column, row) || !computes(kind, row) || !(row->flops > 0 && row->bytes > 0))
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

/* All devices in one chart; `shared`: what they reach of their datasheets, in so many hundredths. Nothing where none measured it. */
static int write_rooflines(FILE *file, const compare_table *table, const precision *kind,
                           int shared) {
    device_roof roofs[COMPARE_MAX_COLUMNS]; /* the chart keeps their names */
    chart_data data = {.series_count = 0};
    int measured = 0;
    char title[TEXT];
    char description[2 * TEXT];
    snprintf(title, sizeof title, "Rooflines of %s%s", kind->name,
             shared ? ", as shares of the datasheets" : "");
    snprintf(description, sizeof description,
             "Slopes are main memory, level lines arithmetic of %s. Solid lines and points were "
             "measured, dashed lines are what datasheets promise.",
             kind->name);
    chart_plot chart = {
        .title = title,
        .description = description,
        .x_label = "operations for each byte",
        .y_label = shared ? "% of the datasheet's arithmetic" : kind->unit,
    };
    for (size_t c = 0; c < table->column_count; c++) {
        const compare_column *const column = &table->columns[c];
        const device_roof *const roof = &roofs[c];
        roofs[c] = find_roof(column, kind);
        const double peak = datasheet_peak_gflops(column->sheet, kind->name);
        const double sheet_gbs =
            column->sheet == NULL ? NAN : column->sheet->values[DATASHEET_DRAM_GBS].value;
        const double scale = shared ? 100 / peak : 1;
        measured += roof->gflops > 0 && scale > 0;
        add_roof(&data, roof->name, CHART_LINE, (int)c, scale * roof->gbs, scale * roof->gflops);
        add_roof(&data, roof->sheet_name, CHART_DASHED, (int)c, scale * sheet_gbs, scale * peak);
        if (!shared)
            measured += add_products(&data, column, kind, roof->name, (int)c);
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

int compare_rooflines_write(FILE *file, const compare_table *table) {
    for (size_t i = 0; i < sizeof precisions / sizeof *precisions; i++)
        for (int shared = 0; shared < 2; shared++)
            if (write_rooflines(file, table, &precisions[i], shared) != 0)
                return -1;
    return 0;
}
