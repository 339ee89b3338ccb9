/* The device's card: what it is, and the best that was measured of it, as shares of its datasheet. */
#include <math.h>
#include <string.h>

#include "bench/report/best_lines.h"
#include "bench/report/page_texts.h"
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

static void write_line(FILE *file, const best_line *line) {
    char text[80];
    page_share_text(line->values[0], line->unit, line->of_sheet[0], text, sizeof text);
    fputs("<tr><td>", file);
    html_text(file, line->what);
    fputs(line->of_sheet[0] > 1 ? "</td><td class=\"number bad\">" : "</td><td class=\"number\">",
          file);
    html_text(file, text);
    fputs("</td></tr>\n", file);
}

static void write_best(FILE *file, const report_device *device) {
    best_line lines[BEST_MAX_LINES];
    const size_t count = best_lines_find(device, 1, lines);
    if (count == 0)
        return;
    fputs("<h3>At best</h3>\n<div class=\"wide\"><table>\n<tbody>\n", file);
    for (size_t i = 0; i < count; i++)
        write_line(file, &lines[i]);
    fputs("</tbody></table></div>\n<p class=\"small\">", file);
    const datasheet *const sheet = device->sheet;
    if (sheet == NULL)
        fputs("No datasheet of this device is known here.", file);
    else
        html_format(file, "Shares are of the datasheet: %s, %s, %.4g GB/s (%s).", sheet->name,
                    sheet->memory_type, sheet->values[DATASHEET_DRAM_GBS], sheet->source);
    fputs("</p>\n", file);
}

void report_write_card(FILE *file, const report_device *device) {
    const results_file *const results = device->file;
    fact_list facts = {.file = file};
    fputs("<section>\n<h2>The device</h2>\n", file);
    write_device(&facts, &results->devices[0]);
    write_limits(&facts, &results->environment);
    write_fact(&facts, "host processor", results_fact_text(&results->host, "cpu"));
    write_fact(&facts, "system", results_fact_text(&results->host, "os"));
    fputs(facts.count > 0 ? "</dl>\n" : "", file);
    write_best(file, device);
    fputs("</section>\n", file);
}
