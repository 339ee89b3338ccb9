/* Rooflines: what arithmetic and memory allow at each intensity, and the products that were measured below it. */
#include <math.h>
#include <string.h>

#include "bench/analysis/main_memory.h"
#include "bench/analysis/sheet_share.h"
#include "bench/record/device_database.h"
#include "bench/report/report_parts.h"
#include "common/chart_data.h"
#include "common/html_text.h"

enum {
    MAX_ROOFS = 8,
    ROOF_NAME = 64
};

/* Arithmetic that reaches less of what it should is a lower bound. */
#define LEAST_OF_PEAK 0.95

typedef struct roof_limit {
    char name[ROOF_NAME];
    const char *dtype; /* of arithmetic */
    double rate;       /* GB/s, or GFLOP/s */
    double low;
    double high;
    chart_form form;
} roof_limit;

typedef struct roof_limits {
    roof_limit memory[MAX_ROOFS];
    size_t memory_count;
    roof_limit arithmetic[MAX_ROOFS];
    size_t arithmetic_count;
} roof_limits;

static int is_integer(const char *dtype) {
    return dtype != NULL && (strstr(dtype, "s8") != NULL || strstr(dtype, "a8") != NULL);
}

/* One colour for each precision, of its ceilings and of its points, on either chart. */
static int style_of(const char *dtype) {
    static const char *const places[][2] = {
        {"f32", "s8"},  {"f16", "u8s8"},      {"bf16", "s8s8s8"},  {"w8", "w8a8"},
        {"w4", "w4a8"}, {"f16w8", "u8s8f32"}, {"f16w4", "u8s8u8"}, {"3xtf32", ""},
    };
    const int count = (int)(sizeof places / sizeof *places);
    int style = dtype == NULL ? count : 0;
    while (style < count && strcmp(places[style][0], dtype) != 0 &&
           strcmp(places[style][1], dtype) != 0)
        style++;
    return style < count ? style : count - 1;
}

static int is_suite(const results_row *row, const char *suite) {
    return report_row_counts(row) && row->suite != NULL && strcmp(row->suite, suite) == 0;
}

/* Keep the fastest of a name. */
static void offer_roof(roof_limit *list, size_t *count, const roof_limit *offered) {
    size_t at = 0;
    while (at < *count && strcmp(list[at].name, offered->name) != 0)
        at++;
    if (at == MAX_ROOFS || (at < *count && list[at].rate >= offered->rate))
        return;
    list[at] = *offered;
    *count += at == *count;
}

/* Which limit of memory a row tells: its name, or none. `fastest_read` is the row of main memory. */
static int name_memory(const results_row *row, const results_row *fastest_read,
                       char name[ROOF_NAME]) {
    const double level = results_figure_value(&row->metrics, "level");
    if (report_case_begins(row, "sweep") && level >= 1)
        snprintf(name, ROOF_NAME, "cache level %.0f, reading", level);
    else if (row == fastest_read)
        snprintf(name, ROOF_NAME, "memory, reading");
    else if (report_case_begins(row, "upload") && strstr(row->case_name, "pageable") == NULL)
        snprintf(name, ROOF_NAME, "from the host");
    else
        return 0;
    return 1;
}

static void add_memory(roof_limits *roofs, const results_row *row,
                       const results_row *fastest_read) {
    roof_limit offered = {
        .rate = row->gbs,
        .low = row->bytes / row->p95_s * 1e-9,
        .high = row->bytes / row->p5_s * 1e-9,
    };
    if (row->gbs > 0 && name_memory(row, fastest_read, offered.name))
        offer_roof(roofs->memory, &roofs->memory_count, &offered);
}

static void add_arithmetic(roof_limits *roofs, const results_row *row, int integers) {
    roof_limit offered = {
        .dtype = row->dtype,
        .rate = row->gflops,
        .low = row->flops / row->p95_s * 1e-9,
        .high = row->flops / row->p5_s * 1e-9,
    };
    if (!(row->gflops > 0) || is_integer(row->dtype) != integers)
        return;
    snprintf(offered.name, ROOF_NAME, "arithmetic, %s", row->dtype == NULL ? "?" : row->dtype);
    offer_roof(roofs->arithmetic, &roofs->arithmetic_count, &offered);
}

/* What the ladder's best step reaches of the arithmetic from registers that was measured beside it; NaN: there is no ladder. */
static double reached_of_peak(const results_file *results, const char *dtype) {
    double most = NAN;
    for (size_t i = 0; i < results->row_count; i++) {
        const results_row *const row = &results->rows[i];
        if (is_suite(row, "compute") && row->dtype != NULL && strcmp(row->dtype, dtype) == 0 &&
            results_figure_value(&row->shape, "intensity") > 0)
            most = fmax(most, results_figure_value(&row->metrics, "of_peak"));
    }
    return most;
}

/* A level line that the device surely goes beyond: neither a ladder nor a datasheet comes out where it was measured. */
static void mark_lower_bounds(const results_file *results, roof_limits *roofs) {
    const datasheet *const sheet = sheet_of(results, 0);
    for (size_t i = 0; i < roofs->arithmetic_count; i++) {
        roof_limit *const roof = &roofs->arithmetic[i];
        const char *const dtype = roof->dtype == NULL ? "" : roof->dtype;
        const double promised = datasheet_peak_gflops(sheet, dtype);
        if (reached_of_peak(results, dtype) < LEAST_OF_PEAK ||
            roof->rate < LEAST_OF_PEAK * promised)
            snprintf(roof->name, ROOF_NAME, "arithmetic, %s (lower bound)", dtype);
    }
}

static void find_roofs(const results_file *results, int integers, roof_limits *roofs) {
    const results_row *const fastest_read = main_memory_fastest(results, 0, NULL);
    for (size_t i = 0; i < results->row_count; i++) {
        if (is_suite(&results->rows[i], "memory"))
            add_memory(roofs, &results->rows[i], fastest_read);
        if (is_suite(&results->rows[i], "compute"))
            add_arithmetic(roofs, &results->rows[i], integers);
    }
    mark_lower_bounds(results, roofs);
}

/* What the vendor promises, where the device is known. */
static void add_sheet(const results_file *results, int integers, roof_limits *roofs) {
    const datasheet *const sheet = sheet_of(results, 0);
    const char *const dtypes[] = {integers ? "s8" : "f32", integers ? NULL : "f16"};
    if (sheet == NULL)
        return;
    roof_limit memory = {.name = "datasheet, memory",
                         .rate = sheet->values[DATASHEET_DRAM_GBS].value,
                         .low = NAN,
                         .high = NAN,
                         .form = CHART_DASHED};
    if (memory.rate > 0)
        offer_roof(roofs->memory, &roofs->memory_count, &memory);
    for (size_t i = 0; i < 2 && dtypes[i] != NULL; i++) {
        roof_limit peak = {.dtype = dtypes[i],
                           .rate = datasheet_peak_gflops(sheet, dtypes[i]),
                           .low = NAN,
                           .high = NAN,
                           .form = CHART_DASHED};
        snprintf(peak.name, ROOF_NAME, "datasheet, %s", dtypes[i]);
        if (peak.rate > 0)
            offer_roof(roofs->arithmetic, &roofs->arithmetic_count, &peak);
    }
}

/* The fastest measured one, or where none was measured the fastest of the sheet. */
static double fastest(const roof_limit *list, size_t count, chart_form form) {
    double rate = 0;
    double other = 0;
    for (size_t i = 0; i < count; i++) {
        double *const kept = list[i].form == form ? &rate : &other;
        *kept = fmax(*kept, list[i].rate);
    }
    return rate > 0 ? rate : other;
}

static chart_point roof_point(const roof_limit *roof, double intensity, double factor) {
    return (chart_point){
        .x = intensity,
        .y = roof->rate * factor,
        .low = roof->low * factor,
        .high = roof->high * factor,
        .label = roof->name,
    };
}

/* A slope from the left edge to the highest ceiling, a ceiling from the steepest slope to the right edge: measured ones to measured ones. */
static void add_roofs(chart_data *data, const roof_limits *roofs, double left, double right) {
    int level = 0;
    for (size_t i = 0; i < roofs->memory_count; i++) {
        const roof_limit *const roof = &roofs->memory[i];
        const double peak = fastest(roofs->arithmetic, roofs->arithmetic_count, roof->form);
        const double end = peak > 0 ? peak / roof->rate : right;
        const int main_memory = strstr(roof->name, "memory") != NULL;
        chart_data_series(data, roof->name, roof->form,
                          CHART_QUIET_STYLES + (main_memory ? 0 : ++level));
        chart_data_point(data, roof_point(roof, left, left));
        if (end > left)
            chart_data_point(data, roof_point(roof, end, end));
    }
    for (size_t i = 0; i < roofs->arithmetic_count; i++) {
        const roof_limit *const roof = &roofs->arithmetic[i];
        const double speed = fastest(roofs->memory, roofs->memory_count, roof->form);
        const double start = speed > 0 ? roof->rate / speed : left;
        chart_data_series(data, roof->name, roof->form, style_of(roof->dtype));
        chart_data_point(data, roof_point(roof, start, 1));
        chart_data_point(data, roof_point(roof, fmax(right, 2 * start), 1));
    }
}

static int is_product(const results_row *row, int integers) {
    return (is_suite(row, "gemm") || is_suite(row, "gemv")) && row->flops > 0 && row->bytes > 0 &&
           row->dtype != NULL && is_integer(row->dtype) == integers;
}

/* One series of points for each dtype, in the order of the rows. */
static void add_products(chart_data *data, const results_file *results, int integers) {
    for (size_t first = 0; first < results->row_count; first++) {
        const results_row *const head = &results->rows[first];
        int seen = !is_product(head, integers);
        for (size_t i = 0; i < first && !seen; i++)
            seen = is_product(&results->rows[i], integers) &&
                   strcmp(results->rows[i].dtype, head->dtype) == 0;
        if (seen)
            continue;
        chart_data_series(data, head->dtype, CHART_POINTS, style_of(head->dtype));
        for (size_t i = first; i < results->row_count; i++) {
            const results_row *const row = &results->rows[i];
            if (is_product(row, integers) && strcmp(row->dtype, head->dtype) == 0)
                chart_data_point(data, (chart_point){.x = row->flops / row->bytes,
                                                     .y = row->gflops,
                                                     .low = NAN,
                                                     .high = NAN,
                                                     .label = row->case_name});
        }
    }
}

/* Operations of f32 for each byte that a loop moves at least; 0: it computes nothing, or nobody counts what it does. */
static double loop_intensity(const results_row *row) {
    static const struct {
        const char *suite;
        const char *word;
        double operations; /* of each element */
        double bytes;      /* 0: as the row says */
    } loops[] = {
        {"memory", "scale", 1, 8},     {"memory", "add", 1, 12},      {"memory", "triad", 2, 12},
        {"quant", "quantize", 2, 0},   {"quant", "dequantize", 2, 0}, {"quant", "fake", 4, 0},
        {"quant", "requantize", 2, 0},
    };
    const double elements =
        results_figure_value(&row->shape, "rows") * results_figure_value(&row->shape, "columns");
    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++)
        if (is_suite(row, loops[i].suite) && report_case_begins(row, loops[i].word))
            return loops[i].operations /
                   (loops[i].bytes > 0 ? loops[i].bytes : row->bytes / elements);
    return 0;
}

/* Of a loop of one size there are many rows: the fastest form, and none that a cache may have served. */
static int is_loop(const results_row *row, double least) {
    if (!(row->gbs > 0 && loop_intensity(row) > 0))
        return 0;
    return !is_suite(row, "memory") || (results_figure_value(&row->metrics, "setting_best") > 0 &&
                                        results_figure_value(&row->shape, "bytes") >= least);
}

static void add_loops(chart_data *data, const results_file *results, const char *suite,
                      const char *name, int style) {
    const double least = main_memory_from(results, 0);
    chart_data_series(data, name, CHART_POINTS, style);
    for (size_t i = 0; i < results->row_count; i++) {
        const results_row *const row = &results->rows[i];
        if (is_suite(row, suite) && is_loop(row, least))
            chart_data_point(data, (chart_point){.x = loop_intensity(row),
                                                 .y = row->gbs * loop_intensity(row),
                                                 .low = NAN,
                                                 .high = NAN,
                                                 .label = row->case_name});
    }
}

typedef struct ridge_list {
    chart_mark marks[MAX_ROOFS];
    char names[MAX_ROOFS][ROOF_NAME];
    size_t count;
} ridge_list;

/* Where the measured memory meets the measured arithmetic of each precision. */
static void find_ridges(const roof_limits *roofs, ridge_list *ridges) {
    double speed = 0;
    for (size_t i = 0; i < roofs->memory_count; i++)
        if (strcmp(roofs->memory[i].name, "memory, reading") == 0)
            speed = roofs->memory[i].rate;
    for (size_t i = 0; i < roofs->arithmetic_count && speed > 0; i++) {
        const roof_limit *const roof = &roofs->arithmetic[i];
        if (roof->form != CHART_LINE)
            continue;
        char *const name = ridges->names[ridges->count];
        snprintf(name, ROOF_NAME, "ridge, %s", roof->dtype == NULL ? "?" : roof->dtype);
        ridges->marks[ridges->count++] = (chart_mark){roof->rate / speed, name};
    }
}

static int write_roofline(FILE *file, const results_file *results, int integers) {
    roof_limits roofs = {.memory_count = 0};
    chart_data data = {.series_count = 0};
    ridge_list ridges = {.count = 0};
    chart_plot chart = {
        .title = integers ? "Roofline of integer products" : "Roofline of floating-point products",
        .description =
            "What can be reached at each ratio of arithmetic to bytes moved: slopes are memories, "
            "level lines arithmetic, a ridge where the measured ones meet; points were measured, "
            "by "
            "the bytes that each must move at least. A level line is a lower bound where less than "
            "95 % of what registers allow, or the vendor promises, was reached.",
        .x_label =
            integers ? "operations for each byte" : "floating-point operations for each byte",
        .y_label = integers ? "GOP/s" : "GFLOP/s",
        .marks = ridges.marks,
    };
    find_roofs(results, integers, &roofs);
    add_sheet(results, integers, &roofs);
    if (roofs.arithmetic_count > 0)
        add_roofs(&data, &roofs, 1.0 / 16, 1024);
    add_products(&data, results, integers);
    if (!integers) {
        add_loops(&data, results, "memory", "loops of f32", style_of("f32"));
        add_loops(&data, results, "quant", "quantization", CHART_STYLES - 1);
    }
    find_ridges(&roofs, &ridges);
    chart.mark_count = ridges.count;
    chart_data_finish(&data, &chart);
    if (chart.series_count > 0) {
        fputs(integers ? "<h3>Integers</h3>\n" : "<h3>Floating point</h3>\n", file);
        chart_write(file, &chart);
    }
    const int failed = data.short_of_memory;
    chart_data_release(&data);
    return failed ? -1 : 0;
}

int report_write_rooflines(FILE *file, const results_file *results) {
    fputs("<section>\n<h2>Rooflines</h2>\n", file);
    const int failed =
        write_roofline(file, results, 0) != 0 || write_roofline(file, results, 1) != 0;
    fputs("</section>\n", file);
    return failed ? -1 : 0;
}
