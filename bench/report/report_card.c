/* The device's card: what it is, what was measured of it at best, and what its vendor promises. */
#include <math.h>
#include <string.h>

#include "bench/analysis/cache_served.h"
#include "bench/analysis/sheet_share.h"
#include "bench/record/device_database.h"
#include "bench/report/report_parts.h"
#include "common/html_text.h"

/* ---- facts ----------------------------------------------------------------------------------------- */

/* A list that begins with its first fact: one without any is no HTML. */
typedef struct fact_list {
    FILE *file;
    int count;
} fact_list;

static void write_fact(fact_list *list, const char *name, const char *text) {
    FILE *const file = list->file;
    if (text == NULL || text[0] == '\0')
        return;
    fputs(list->count++ == 0 ? "<dl>\n<dt>" : "<dt>", file);
    html_text(file, name);
    fputs("</dt><dd>", file);
    html_text(file, text);
    fputs("</dd>\n", file);
}

static void write_device(fact_list *list, const results_facts *device) {
    static const struct {
        const char *key;
        const char *name;
        enum {
            CARD_TEXT,
            CARD_SIZE
        } kind;
        const char *unit;
    } rows[] = {
        {"selector", "device", CARD_TEXT, ""},
        {"board_name", "board", CARD_TEXT, ""},
        {"vendor", "vendor", CARD_TEXT, ""},
        {"driver", "driver", CARD_TEXT, ""},
        {"api_version", "API", CARD_TEXT, ""},
        {"compute_capability", "compute capability", CARD_TEXT, ""},
        {"compute_units", "compute units", CARD_TEXT, ""},
        {"clock_mhz", "clock", CARD_TEXT, " MHz"},
        {"global_bytes", "memory", CARD_SIZE, ""},
        {"memory_type", "memory type", CARD_TEXT, ""},
        {"memory_clock_mhz", "memory clock", CARD_TEXT, " MHz"},
        {"memory_bus_bits", "memory bus", CARD_TEXT, " bit"},
        {"cache_bytes", "last cache", CARD_SIZE, ""},
        {"local_bytes", "local memory", CARD_SIZE, ""},
        {"error_correction", "error correction", CARD_TEXT, ""},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char text[256];
        const char *const known = results_fact_text(device, rows[i].key);
        const double number = results_fact_number(device, rows[i].key);
        if (known == NULL)
            continue;
        if (rows[i].kind == CARD_SIZE && number > 0)
            report_print_size(text, sizeof text, number);
        else
            snprintf(text, sizeof text, "%s%s", known, rows[i].unit);
        write_fact(list, rows[i].name, text);
    }
}

/* Link and limit of power, with what they could be where that is more. */
static void write_limits(fact_list *list, const results_facts *environment) {
    const double generation = results_fact_number(environment, "pcie_generation");
    const double width = results_fact_number(environment, "pcie_width");
    const double most_generation = results_fact_number(environment, "pcie_generation_most");
    const double most_width = results_fact_number(environment, "pcie_width_most");
    const double limit = results_fact_number(environment, "power_limit_w");
    const double usual = results_fact_number(environment, "power_limit_default_w");
    char link[96] = "";
    char power[64] = "";
    char beside[48] = "";
    if (most_generation > generation || most_width > width)
        snprintf(beside, sizeof beside, " (of PCIe %.4g x%.4g)", fmax(most_generation, generation),
                 fmax(most_width, width));
    if (generation > 0 && width > 0)
        snprintf(link, sizeof link, "PCIe %.4g x%.4g%s", generation, width, beside);
    write_fact(list, "link", link);
    beside[0] = '\0';
    if (usual > 0 && usual != limit)
        snprintf(beside, sizeof beside, " (%.4g W by default)", usual);
    if (limit > 0)
        snprintf(power, sizeof power, "%.4g W%s", limit, beside);
    write_fact(list, "power limit", power);
}

/* ---- what was measured at best --------------------------------------------------------------------- */

typedef struct headline {
    const char *name;
    double measured; /* NaN: nothing */
    const char *unit;
    const datasheet_value *promised; /* NULL: nothing */
    char note[64];
} headline;

typedef struct headline_table {
    FILE *file;
    const datasheet *sheet; /* NULL: not known */
    int count;              /* of lines; the table begins with the first */
} headline_table;

static int is_of(const results_row *row, const char *suite, const char *dtype) {
    return report_row_counts(row) && strcmp(row->suite, suite) == 0 &&
           (dtype == NULL || (row->dtype != NULL && strcmp(row->dtype, dtype) == 0));
}

/* Of the largest arrays that a kernel worked on the fastest row; NULL: there is none. */
static const results_row *fastest_kernel(const results_file *results, const char *name) {
    const results_row *best = NULL;
    double most = 0;
    for (size_t i = 0; i < results->row_count; i++) {
        const results_row *const row = &results->rows[i];
        const double bytes = results_figure_value(&row->shape, "bytes");
        if (!is_of(row, "memory", NULL) || !report_case_begins(row, name) || !(row->gbs > 0) ||
            !(bytes > 0 && bytes >= most))
            continue;
        if (best == NULL || bytes > most || row->gbs > best->gbs)
            best = row;
        most = bytes;
    }
    return best;
}

static double fastest_arithmetic(const results_file *results, const char *suite,
                                 const char *dtype) {
    double best = NAN;
    for (size_t i = 0; i < results->row_count; i++) {
        const results_row *const row = &results->rows[i];
        if (is_of(row, suite, dtype) && row->gflops > 0)
            best = fmax(best, row->gflops);
    }
    return best;
}

/* With the unit where nothing stands beside it that has one: four columns are to fit on a telephone. */
static void write_sheet_value(FILE *file, const headline *line) {
    fputs("<td class=\"number\">", file);
    if (line->promised == NULL)
        fputs("–", file);
    else
        html_format(file, "%.4g%s%s (%c)", line->promised->value, isnan(line->measured) ? " " : "",
                    isnan(line->measured) ? line->unit : "", line->promised->confidence);
    fputs("</td>", file);
}

static void begin_line(headline_table *table) {
    if (table->count++ > 0)
        return;
    fputs("<h3>At best</h3>\n<div class=\"wide\"><table>\n<thead><tr><th>what</th><th "
          "class=\"number\">here</th>",
          table->file);
    if (table->sheet != NULL)
        fputs("<th class=\"number\">datasheet</th><th class=\"number\">share</th>", table->file);
    fputs("</tr></thead>\n<tbody>\n", table->file);
}

static void write_headline(headline_table *table, const headline *line) {
    FILE *const file = table->file;
    begin_line(table);
    /* What a cache gave is no share of the memory. */
    const int has_share = line->promised != NULL && line->note[0] == '\0';
    const double share = has_share ? line->measured / line->promised->value : NAN;
    fputs("<tr><td>", file);
    html_text(file, line->name);
    if (line->note[0] != '\0') {
        fputs("<div class=\"small\">", file);
        html_text(file, line->note);
        fputs("</div>", file);
    }
    fputs("</td><td class=\"number\">", file);
    if (isnan(line->measured))
        fputs("–", file);
    else
        html_format(file, "%.*g %s", line->measured >= 1000 ? 4 : 3, line->measured, line->unit);
    fputs("</td>", file);
    if (table->sheet != NULL) {
        write_sheet_value(file, line);
        fputs(share > 1 ? "<td class=\"number bad\">" : "<td class=\"number\">", file);
        if (isnan(share))
            fputs("–", file);
        else
            fprintf(file, "%.0f %%", 100 * share);
        fputs("</td>", file);
    }
    fputs("</tr>\n", file);
}

static void write_memory_lines(headline_table *table, const results_file *results) {
    static const char *const kernels[][2] = {
        {"read", "memory, reading"}, {"write", "memory, writing"}, {"triad", "memory, triad"}};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++) {
        const results_row *const row = fastest_kernel(results, kernels[i][0]);
        headline line = {.name = kernels[i][1], .measured = NAN, .unit = "GB/s"};
        if (row == NULL)
            continue;
        line.measured = row->gbs;
        line.promised = table->sheet == NULL ? NULL : &table->sheet->values[DATASHEET_DRAM_GBS];
        cache_served_note(results, row, line.note, sizeof line.note);
        write_headline(table, &line);
    }
}

/* Arithmetic from registers, and products, by precision. */
static void write_arithmetic_lines(headline_table *table, const results_file *results,
                                   const char *suite, const char *what) {
    static const struct {
        const char *dtype;
        int is_integer;
    } types[] = {{"f32", 0}, {"f16", 0}, {"bf16", 0}, {"w8", 0}, {"w4", 0}, {"s8", 1}, {"u8s8", 1}};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        char name[48];
        const double gflops = fastest_arithmetic(results, suite, types[i].dtype);
        headline line = {.name = name,
                         .measured = gflops / 1000,
                         .unit = types[i].is_integer ? "TOP/s" : "TFLOP/s",
                         .promised = datasheet_peak(table->sheet, types[i].dtype)};
        if (isnan(gflops))
            continue;
        snprintf(name, sizeof name, "%s, %s", what, types[i].dtype);
        write_headline(table, &line);
    }
}

/* What the sheet promises besides; what the driver tells of it stands among the facts. */
static void write_other_lines(headline_table *table) {
    static const struct {
        datasheet_field field;
        const char *name;
    } rows[] = {{DATASHEET_CAPACITY_GB, "capacity"},
                {DATASHEET_BUS_BITS, "memory bus"},
                {DATASHEET_CACHE_MB, "last cache"},
                {DATASHEET_BOARD_WATTS, "power of the board"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const headline line = {.name = rows[i].name,
                               .measured = NAN,
                               .unit = datasheet_field_unit(rows[i].field),
                               .promised = &table->sheet->values[rows[i].field]};
        if (line.promised->source != NULL)
            write_headline(table, &line);
    }
}

static int is_first_of_source(const datasheet *sheet, int field) {
    for (int i = 0; i < field; i++)
        if (sheet->values[i].source == sheet->values[field].source)
            return 0;
    return sheet->values[field].source != NULL;
}

/* Each source once, with the fields that are from it. */
static void write_sources(FILE *file, const datasheet *sheet) {
    static const char *const names[DATASHEET_FIELDS] = {
        [DATASHEET_DRAM_GBS] = "bandwidth", [DATASHEET_CAPACITY_GB] = "capacity",
        [DATASHEET_BUS_BITS] = "bus",       [DATASHEET_FP32_TFLOPS] = "f32",
        [DATASHEET_FP16_TFLOPS] = "f16",    [DATASHEET_INT8_TOPS] = "integers",
        [DATASHEET_CACHE_MB] = "cache",     [DATASHEET_BOARD_WATTS] = "power"};
    fputs("<ul class=\"small\">\n", file);
    for (int i = 0; i < DATASHEET_FIELDS; i++) {
        const datasheet_source *const source = sheet->values[i].source;
        if (!is_first_of_source(sheet, i))
            continue;
        fputs("<li>", file);
        for (int other = i; other < DATASHEET_FIELDS; other++)
            if (sheet->values[other].source == source)
                html_format(file, "%s%s", other == i ? "" : ", ", names[other]);
        html_format(file, ": %s, read %s", source->title, source->date);
        fputs("</li>\n", file);
    }
    fputs("</ul>\n", file);
}

static void write_headlines(FILE *file, const results_file *results) {
    headline_table table = {.file = file, .sheet = sheet_of(results, 0)};
    write_memory_lines(&table, results);
    write_arithmetic_lines(&table, results, "compute", "arithmetic");
    write_arithmetic_lines(&table, results, "gemm", "products");
    if (table.sheet != NULL)
        write_other_lines(&table);
    if (table.count == 0)
        return;
    fputs("</tbody></table></div>\n<p class=\"small\">", file);
    if (table.sheet == NULL) {
        html_text(file, "What its vendor promises is not known here.");
        fputs("</p>\n", file);
        return;
    }
    html_format(file,
                "Datasheet: %s, %s; dense, promised and not measured. A: the source that was read "
                "gives the same figure, B: in another form, C: nobody has checked it.",
                table.sheet->name, table.sheet->memory_type);
    fputs("</p>\n", file);
    write_sources(file, table.sheet);
}

void report_write_card(FILE *file, const results_file *results) {
    fact_list facts = {.file = file};
    fputs("<section>\n<h2>The device</h2>\n", file);
    write_device(&facts, &results->devices[0]);
    write_limits(&facts, &results->environment);
    write_fact(&facts, "host processor", results_fact_text(&results->host, "cpu"));
    write_fact(&facts, "system", results_fact_text(&results->host, "os"));
    fputs(facts.count > 0 ? "</dl>\n" : "", file);
    write_headlines(file, results);
    fputs("</section>\n", file);
}
