#include "bench/report/report_parts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/analysis/main_memory.h"
#include "bench/record/results_json.h"
#include "common/chart.h"
#include "common/command/cli_options.h"
#include "common/html_text.h"
#include "formats/utf8_text.h"

int report_row_counts(const report_device *device, const results_row *row) {
    return row->status == RESULT_OK && row->device == device->device &&
           strcmp(row->impl, "tandem") == 0;
}

double report_share(const report_device *device, const results_row *row, double median_s) {
    return sheet_share(row, median_s, device->sheet,
                       main_memory_from(device->file, device->device));
}

/* ---- texts ----------------------------------------------------------------------------------- */

/*
 * Returns 1 if a value needs an exponent: it is too small for two decimals, or larger than any
 * device reaches.
 */
static int needs_exponent(double value) {
    return value >= 1e9 || (value > 0 && value < 0.005);
}

void report_amount_text(double value, const char *unit, double share, char *text, size_t size) {
    if (isnan(value))
        snprintf(text, size, "-");
    else if (needs_exponent(value))
        snprintf(text, size, "%.2e %s", value, unit);
    else if (value >= 1e4 && unit[0] == 'G')
        snprintf(text, size, "%.*f T%s", value >= 1e5 ? 0 : 1, value / 1000, unit + 1);
    else
        snprintf(text, size, "%.*f %s", value >= 100 ? 0 : value >= 10 ? 1 : 2, value, unit);
    const size_t used = strlen(text);
    if (!isnan(value) && !isnan(share))
        snprintf(text + used, size - used, " (%.0f %%%s)", 100 * share, share > 1 ? "!" : "");
}

void report_times_text(double ratio, char *text, size_t size) {
    if (isnan(ratio))
        snprintf(text, size, "-");
    else if (needs_exponent(ratio))
        snprintf(text, size, "%.2ex", ratio);
    else
        snprintf(text, size, "%.*fx", ratio < 0.1 ? 3 : 2, ratio);
}

void report_rate_text(const results_row *row, double median_s, double share, char *text,
                      size_t size) {
    const double gflops = row->flops / median_s * 1e-9;
    const double gbs = row->bytes / median_s * 1e-9;
    const double latency = results_get_number(row->metrics, "latency_ns");
    const int is_integer = row->dtype != NULL &&
                           (strstr(row->dtype, "s8") != NULL || strstr(row->dtype, "a8") != NULL);
    const int streams = strcmp(row->suite, "gemv") == 0 && gbs > 0;
    if (latency > 0) /* a pointer chase measures latency; its byte rate is meaningless */
        report_amount_text(latency * median_s / row->median_s, "ns", NAN, text, size);
    else if (gflops > 0 && !streams)
        report_amount_text(gflops, is_integer ? "GOP/s" : "GFLOP/s", share, text, size);
    else if (gbs > 0)
        report_amount_text(gbs, "GB/s", share, text, size);
    else
        table_duration_text(median_s, text, size);
}

void report_case_text(const results_row *row, char *text, size_t size) {
    char digits[32];
    const double bytes = results_get_number(row->shape, "bytes");
    snprintf(digits, sizeof digits, "%.0f", bytes);
    const char *const at = bytes >= 1024 ? strstr(row->case_name, digits) : NULL;
    snprintf(text, size, "%s", row->case_name);
    if (at == NULL || (size_t)(at - row->case_name) >= size)
        return;
    char amount[32];
    table_bytes_text(bytes, amount, sizeof amount);
    const size_t used = (size_t)(at - row->case_name);
    snprintf(text + used, size - used, "%s%s", amount, at + strlen(digits));
}

void report_note_text(const results_row *row, double share, char *text, size_t size) {
    text[0] = '\0';
    if (share > 1)
        text_append(text, size, ", ", "%s", "above the datasheet peak");
    if (results_row_is_noisy(row))
        text_append(text, size, ", ", "%s", "noisy");
    if (row->note != NULL && strstr(row->note, "noisy") == NULL)
        text_append(text, size, ", ", "%s", row->note);
    utf8_trim(text);
}

/* ---- tables and pages ------------------------------------------------------------------------ */

text_table *report_table_create(const char *first, const report_device *devices, size_t count,
                                const char *last) {
    char headings[512];
    snprintf(headings, sizeof headings, "%s", first);
    for (size_t d = 0; d < count; d++) {
        const char label = devices[d].label == 0 ? ' ' : devices[d].label;
        text_append(headings, sizeof headings, "|", ">%c", label);
        if (d > 0)
            text_append(headings, sizeof headings, "|", ">%c is", label);
    }
    text_append(headings, sizeof headings, "", "%s", last);
    return table_create(headings);
}

static const char style[] =
    "<style>\n"
    ":root{color-scheme:light dark}\n"
    "body{font:16px/1.45 system-ui,sans-serif;margin:0 auto;max-width:70rem;padding:1rem}\n"
    "h1{font-size:1.5rem;margin:.2rem 0}h2{font-size:1.2rem;margin:1.8rem 0 .4rem}\n"
    "table{border-collapse:collapse;font-size:.875rem}\n"
    "th,td{text-align:left;padding:.2rem .6rem;border-bottom:1px solid "
    "#8886;vertical-align:top}\n"
    "td{overflow-wrap:anywhere}\n"
    "td.number,th.number{text-align:right;font-variant-numeric:tabular-nums;white-space:nowrap}\n"
    "td:first-child{min-width:7.5rem}.wide{overflow-x:auto}figure{margin:.6rem 0}\n"
    ".bad{color:#d32f2f;font-weight:600}\n"
    "@media(max-width:32rem){body{padding:.6rem}table{font-size:.8rem}th,td{padding:.2rem "
    ".35rem}}\n"
    "@media print{:root{color-scheme:light}body{max-width:none;font-size:10pt;padding:0}\n"
    "table{font-size:7.5pt}figure,tr{break-inside:avoid}\n"
    "h2{break-after:avoid}.wide{overflow:visible}}\n";

void report_write_head(FILE *file, const char *title) {
    fputs("<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>",
          file);
    html_text(file, title);
    fprintf(file, "</title>\n%s", style);
    chart_write_style(file);
    fputs("</style>\n</head>\n<body>\n", file);
}

int report_check_outputs(const char *command, const char *json, const char *html,
                         const char *const *inputs, size_t count) {
    const char *const outputs[] = {json, html};
    if (results_is_stdout(json) && results_is_stdout(html))
        return cli_refuse(command, "--json and --html are both '-': stdout can take only one");
    if (json != NULL && html != NULL && results_would_replace(json, html))
        return cli_refuse(command, "--json and --html name the same file, '%s'", json);
    for (int o = 0; o < 2; o++) {
        for (size_t i = 0; outputs[o] != NULL && i < count; i++)
            if (results_would_replace(outputs[o], inputs[i]))
                return cli_refuse(command, "'%s' is an input and is not overwritten", outputs[o]);
        if (results_check_path(command, outputs[o]) != 0)
            return CLI_EXIT_FAILED;
    }
    return CLI_EXIT_OK;
}

int report_save_page(const char *command, const char *path,
                     int (*write)(FILE *file, const void *data), const void *data) {
    char *text = NULL;
    size_t length = 0;
    int code = CLI_EXIT_FAILED;
    FILE *const page = open_memstream(&text, &length);
    int failed = page == NULL || write(page, data) != 0 || ferror(page);
    failed |= page != NULL && fclose(page) != 0;
    if (failed)
        fprintf(stderr, "%s: out of memory\n", command);
    else if (results_write_text(command, path, text, length) == 0)
        code = CLI_EXIT_OK;
    free(text);
    return code;
}
