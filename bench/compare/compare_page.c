#include "bench/compare/compare_page.h"

#include <math.h>

#include "bench/report/page_head.h"
#include "bench/report/page_texts.h"
#include "bench/report/report_parts.h"
#include "bench/report/rooflines.h"
#include "common/html_text.h"

static void write_item(FILE *file, const char *text) {
    fputs("<li>", file);
    html_text(file, text);
    fputs("</li>\n", file);
}

static void write_number(FILE *file, const char *text) {
    fputs("<td class=\"number\">", file);
    html_text(file, text);
    fputs("</td>", file);
}

static void write_devices(FILE *file, const compare_report *report) {
    char text[1024];
    fputs("<ul>\n", file);
    for (size_t c = 0; c < report->table->column_count; c++) {
        compare_column_text(&report->table->columns[c], text, sizeof text);
        write_item(file, text);
    }
    for (size_t i = 0; i < report->differences->count; i++) {
        compare_difference_text(report, &report->differences->items[i], text, sizeof text);
        write_item(file, text);
    }
    fputs("</ul>\n", file);
}

/* A column of each device, and of all but the first one what it is beside that. */
static void write_table_head(FILE *file, const compare_table *table, const char *first,
                             int has_energy, const char *last) {
    fprintf(file, "<thead><tr>%s", first);
    for (size_t c = 0; c < table->column_count; c++) {
        fprintf(file, "<th class=\"number\">%c</th>", table->columns[c].label);
        if (c > 0)
            fprintf(file, "<th class=\"number\">to A</th>%s",
                    has_energy ? "<th class=\"number\">energy to A</th>" : "");
    }
    fprintf(file, "%s</tr></thead>\n<tbody>\n", last);
}

static void write_best(FILE *file, const compare_table *table) {
    best_line lines[BEST_MAX_LINES];
    const size_t count = best_lines_find(table->columns, table->column_count, lines);
    char text[80];
    if (count == 0)
        return;
    fputs("<h2>At best</h2>\n<div class=\"wide\">\n<table class=\"best\">\n", file);
    write_table_head(file, table, "<th>what</th>", 0, "");
    for (size_t i = 0; i < count; i++) {
        fputs("<tr><td>", file);
        html_text(file, lines[i].what);
        fputs("</td>", file);
        for (size_t c = 0; c < table->column_count; c++) {
            page_share_text(lines[i].values[c], lines[i].unit, lines[i].of_sheet[c], text,
                            sizeof text);
            write_number(file, text);
            if (c == 0)
                continue;
            compare_best_ratio_text(&lines[i], c, text, sizeof text);
            write_number(file, text);
        }
        fputs("</tr>\n", file);
    }
    fputs("</tbody></table>\n</div>\n", file);
}

static void write_case(FILE *file, const compare_table *table, const compare_case *item,
                       int has_energy) {
    char text[256];
    fputs("<tr><td>", file);
    html_format(file, "%s: ", item->row->suite);
    report_write_case(file, item->row);
    html_text(file, compare_setting_text(item->setting));
    fputs("</td><td>", file);
    html_text(file, item->row->impl);
    fputs("</td><td>", file);
    compare_how_text(item->row, text, sizeof text);
    html_text(file, text);
    fputs("</td>", file);
    for (size_t c = 0; c < table->column_count; c++) {
        compare_rate_text(&item->cells[c], text, sizeof text);
        write_number(file, text);
        if (c == 0)
            continue;
        compare_ratio_text(&item->cells[c].ratio, 2, text, sizeof text);
        write_number(file, text);
        compare_energy_text(&item->cells[c], text, sizeof text);
        if (has_energy)
            write_number(file, text);
    }
    fputs("<td>", file);
    compare_notes_text(table, item, text, sizeof text);
    html_text(file, text);
    fputs("</td></tr>\n", file);
}

static int is_compared(const compare_case *item) {
    int have = 0;
    for (size_t c = 0; c < COMPARE_MAX_COLUMNS; c++)
        have += item->cells[c].repeats > 0;
    return have > 1;
}

/* Cases that one device alone has are folded away, and not printed on paper. */
static void write_cases(FILE *file, const compare_table *table, int compared) {
    const int has_energy = compare_has_energy(table);
    size_t rows = 0;
    for (size_t i = 0; i < table->case_count; i++) {
        const compare_case *const item = &table->cases[i];
        if (is_compared(item) != compared || !compare_was_tried(item))
            continue;
        if (rows++ == 0) {
            fputs(compared ? "<h2>Cases</h2>\n"
                           : "<details><summary>Cases that one device alone has</summary>\n",
                  file);
            fputs("<div class=\"wide\">\n<table>\n", file);
            write_table_head(file, table, "<th>case</th><th>impl</th><th>how</th>", has_energy,
                             "<th>note</th>");
        }
        write_case(file, table, item, has_energy);
    }
    if (rows > 0)
        fputs(compared ? "</tbody></table>\n</div>\n" : "</tbody></table>\n</div>\n</details>\n",
              file);
}

static void write_means(FILE *file, const compare_report *report) {
    char text[1024];
    size_t written = 0;
    for (size_t i = 0; i < report->table->mean_count; i++) {
        if (report->table->means[i].cases == 0)
            continue;
        fputs(written++ == 0 ? "<h2>Geometric means</h2>\n<ul>\n" : "", file);
        compare_mean_text(report, &report->table->means[i], text, sizeof text);
        write_item(file, text);
    }
    fputs(written > 0 ? "</ul>\n" : "", file);
}

int compare_page_write(FILE *file, const compare_report *report) {
    const compare_table *const table = report->table;
    page_write_head(file, "Tandem: devices compared");
    fputs("<h1>Devices compared</h1>\n", file);
    write_devices(file, report);
    write_best(file, table);
    const int status = rooflines_write(file, table->columns, table->column_count);
    write_means(file, report);
    write_cases(file, table, 1);
    write_cases(file, table, 0);
    fputs("<p>", file);
    html_format(file,
                "Ratios are median over median, with 95 %% intervals of %d bootstrap resamples; "
                "speeds within %.3g %% are the same. A share behind a rate is that of the device's "
                "datasheet, with ! where it is above it.",
                RATIO_RESAMPLES, 100 * report->margin);
    fputs("</p>\n</body>\n</html>\n", file);
    return status;
}
