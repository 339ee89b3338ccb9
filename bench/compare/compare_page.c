#include "bench/compare/compare_page.h"

#include <math.h>
#include <string.h>

#include "bench/compare/compare_best.h"
#include "bench/compare/compare_bound.h"
#include "bench/compare/compare_energy.h"
#include "bench/compare/compare_rooflines.h"
#include "bench/report/report_parts.h"
#include "common/chart.h"
#include "common/html_text.h"

/* ---- texts ----------------------------------------------------------------------------------------- */

static void write_head(FILE *file) {
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
          "<title>Tandem: devices compared</title>\n<style>\n"
          ":root{color-scheme:light dark}\n"
          "body{font:16px/1.45 system-ui,sans-serif;margin:0 auto;max-width:70rem;padding:1rem}\n"
          "table{border-collapse:collapse;font-size:.875rem}\n"
          "th,td{text-align:left;padding:.2rem .6rem;border-bottom:1px solid #8886}\n"
          "td.number,th.number{text-align:right;font-variant-numeric:tabular-nums;white-space:"
          "nowrap}\n"
          "td{vertical-align:top}td:first-child,td:last-child{min-width:13rem}"
          ".best td:first-child,.best td:last-child{min-width:0}"
          ".wide{overflow-x:auto}figure{margin:.6rem 0}\n"
          "@media(max-width:32rem){body{padding:.6rem}h1{font-size:1.4rem}table{font-size:.8rem}\n"
          "ul{padding-left:1.1rem}li{overflow-wrap:anywhere}\n"
          "th,td{padding:.2rem .35rem}td:first-child,td:last-child{min-width:8rem}}\n"
          "@media print{:root{color-scheme:light}body{max-width:none;font-size:10pt;padding:0}\n"
          "table{font-size:7.5pt}th,td{padding:.1rem .3rem}"
          "td:first-child,td:last-child{min-width:7rem}details{display:none}figure,tr{break-inside:"
          "avoid}"
          "h2{break-after:avoid}.wide{overflow:visible}}\n",
          file);
    chart_write_style(file);
    fputs("</style>\n</head>\n<body>\n<h1>Devices compared</h1>\n", file);
}

static void write_devices(FILE *file, const compare_report *report) {
    fputs("<ul>\n", file);
    for (size_t c = 0; c < report->table->column_count; c++) {
        const compare_column *const column = &report->table->columns[c];
        const char *const created = column->file->created;
        fputs("<li>", file);
        html_format(file, "%c: %s, measured %s (%s)", column->label, compare_device_name(column),
                    created == NULL ? "at an unknown time" : created, column->file->name);
        if (column->sheet != NULL)
            html_format(file, "; datasheet %s, %s, %.4g GB/s", column->sheet->name,
                        column->sheet->memory_type,
                        column->sheet->values[DATASHEET_DRAM_GBS].value);
        fputs("</li>\n", file);
    }
    fputs("</ul>\n", file);
}

static void write_differences(FILE *file, const compare_report *report) {
    if (report->differences->count == 0)
        return;
    fputs("<h2>Unlike environments</h2>\n<ul>\n", file);
    for (size_t i = 0; i < report->differences->count; i++) {
        const compare_difference *const item = &report->differences->items[i];
        fputs("<li>", file);
        html_format(file, "%s %s: A %s, %c %s%s", item->place, item->key,
                    item->base == NULL ? "unknown" : item->base,
                    report->table->columns[item->column].label,
                    item->other == NULL ? "unknown" : item->other,
                    item->refused ? " (compared by force)" : "");
        fputs("</li>\n", file);
    }
    fputs("</ul>\n", file);
}

static void write_cell(FILE *file, const compare_cell *cell, int is_base) {
    char text[64] = "-";
    char ratio[COMPARE_RATIO_TEXT];
    if (cell->repeats > 0)
        compare_rate_text(cell, text, sizeof text);
    fputs("<td class=\"number\">", file);
    html_text(file, text);
    if (!isnan(compare_share(cell)))
        html_format(file, " (%.0f %%%s)", 100 * compare_share(cell),
                    compare_above_sheet(cell) ? "!" : "");
    fputs("</td>", file);
    if (is_base)
        return;
    compare_ratio_text(&cell->ratio, 2, ratio, sizeof ratio);
    fputs("<td class=\"number\">", file);
    if (isnan(cell->ratio.ratio))
        fputs("-", file);
    else
        html_format(file, "%s %s", ratio, ratio_verdict_name(cell->ratio.verdict));
    fputs("</td>", file);
}

static void write_notes(FILE *file, const compare_report *report, size_t index) {
    int written = 0;
    fputs("<td>", file);
    for (size_t c = 0; c < report->table->column_count; c++) {
        char note[256];
        compare_note_text(report, index, c, note, sizeof note);
        if (note[0] != '\0')
            html_format(file, "%s%c: %s", written++ == 0 ? "" : "; ",
                        report->table->columns[c].label, note);
    }
    fputs("</td>", file);
}

static int is_compared(const compare_case *item) {
    int have = 0;
    for (size_t c = 0; c < COMPARE_MAX_COLUMNS; c++)
        have += item->cells[c].repeats > 0;
    return have > 1;
}

static void write_cases_head(FILE *file, const compare_table *table) {
    fputs("<div class=\"wide\">\n<table>\n<thead><tr><th>case</th><th>impl</th><th>how</th>", file);
    for (size_t c = 0; c < table->column_count; c++)
        fprintf(file,
                c == 0 ? "<th class=\"number\">%c</th>"
                       : "<th class=\"number\">%c</th><th class=\"number\">to A</th>",
                table->columns[c].label);
    fputs("<th>note</th></tr></thead>\n<tbody>\n", file);
}

void compare_page_case(FILE *file, const compare_case *item) {
    char how[64];
    fputs("<td>", file);
    html_format(file, "%s: ", item->row->suite);
    if (item->name == NULL)
        report_write_case(file, item->row);
    else
        html_text(file, item->name);
    html_text(file, compare_setting_text(item->setting));
    fputs("</td><td>", file);
    html_text(file, item->row->impl);
    fputs("</td><td>", file);
    compare_how_text(item->row, how, sizeof how);
    html_text(file, how);
    fputs("</td>", file);
}

static void write_case(FILE *file, const compare_report *report, size_t index) {
    const compare_case *const item = &report->table->cases[index];
    fputs("<tr>", file);
    compare_page_case(file, item);
    for (size_t c = 0; c < report->table->column_count; c++)
        write_cell(file, &item->cells[c], c == 0);
    write_notes(file, report, index);
    fputs("</tr>\n", file);
}

/* Those that several devices have; what one alone has is folded away, and not printed. */
static void write_cases(FILE *file, const compare_report *report, int compared) {
    size_t rows = 0;
    for (size_t i = 0; i < report->table->case_count; i++) {
        if (is_compared(&report->table->cases[i]) != compared ||
            !compare_was_tried(&report->table->cases[i]))
            continue;
        if (rows++ == 0) {
            fputs(compared ? "<h2>Cases</h2>\n"
                           : "<details><summary>Cases that one device alone has</summary>\n",
                  file);
            write_cases_head(file, report->table);
        }
        write_case(file, report, i);
    }
    if (rows > 0)
        fputs(compared ? "</tbody></table>\n</div>\n" : "</tbody></table>\n</div>\n</details>\n",
              file);
}

static void write_means(FILE *file, const compare_report *report) {
    char unbound[COMPARE_MEAN_NAME];
    fputs("<h2>Geometric means</h2>\n<ul>\n", file);
    for (size_t i = 0; i < report->table->mean_count; i++) {
        const compare_mean *const mean = &report->table->means[i];
        char ratio[COMPARE_RATIO_TEXT];
        char name[COMPARE_MEAN_NAME];
        if (mean->cases == 0)
            continue;
        compare_mean_name(mean, name, sizeof name);
        compare_ratio_text(&mean->mean, 3, ratio, sizeof ratio);
        fputs("<li>", file);
        html_format(file, "%s: %c is %s as fast as A over %zu case%s: %s", name,
                    report->table->columns[mean->column].label, ratio, mean->cases,
                    mean->cases == 1 ? "" : "s", ratio_verdict_name(mean->mean.verdict));
        fputs("</li>\n", file);
    }
    fputs("</ul>\n", file);
    compare_unbound_text(report->table, unbound, sizeof unbound);
    if (unbound[0] != '\0') {
        fputs("<p>", file);
        html_format(file, "%s.", unbound);
        fputs("</p>\n", file);
    }
}

static void write_line(void *user, const char *text) {
    FILE *const file = user;
    fputs("<li>", file);
    html_text(file, text);
    fputs("</li>\n", file);
}

static void write_agreement(FILE *file, const compare_report *report) {
    fputs("<h2>Noise and agreement</h2>\n<ul>\n", file);
    compare_tell_agreement(report, write_line, file);
    fputs("</ul>\n", file);
}

int compare_page_write(FILE *file, const compare_report *report) {
    char left_out[80];
    write_head(file);
    write_devices(file, report);
    compare_best_write(file, report->table);
    const int status = compare_rooflines_write(file, report->table);
    write_means(file, report);
    compare_energy_write(file, report->table);
    write_agreement(file, report);
    write_differences(file, report);
    write_cases(file, report, 1);
    write_cases(file, report, 0);
    compare_left_out_text(report->table, left_out, sizeof left_out);
    if (left_out[0] != '\0') {
        fputs("<p>", file);
        html_format(file, "Left out: %s.", left_out);
        fputs("</p>\n", file);
    }
    fputs("<p>", file);
    html_format(file,
                "Ratios are median over median, with 95 %% intervals of %d bootstrap resamples; "
                "speeds within %.3g %% are the same. A share behind a rate is that of the device's "
                "datasheet, with ! where it is above it.",
                RATIO_RESAMPLES, 100 * report->margin);
    fputs("</p>\n</body>\n</html>\n", file);
    return status;
}
