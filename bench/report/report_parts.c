#include "bench/report/report_parts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/analysis/main_memory.h"
#include "common/html_text.h"

int report_row_counts(const results_row *row) {
    return row->status == RESULT_OK && row->device == 0 && row->median_s > 0 &&
           strcmp(row->impl == NULL ? "" : row->impl, "tandem") == 0;
}

int report_case_begins(const results_row *row, const char *word) {
    const size_t length = strlen(word);
    return row->case_name != NULL && strncmp(row->case_name, word, length) == 0 &&
           (row->case_name[length] == ' ' || row->case_name[length] == '\0');
}

void report_print_size(char *text, size_t size, double bytes) {
    if (bytes >= 1 << 30)
        snprintf(text, size, "%.4g GiB", bytes / (1 << 30));
    else if (bytes >= 1 << 20)
        snprintf(text, size, "%.4g MiB", bytes / (1 << 20));
    else
        snprintf(text, size, "%.4g KiB", bytes / 1024);
}

void report_write_case(FILE *file, const results_row *row) {
    char digits[32];
    char size[32];
    const double bytes = results_figure_value(&row->shape, "bytes");
    snprintf(digits, sizeof digits, "%.0f", bytes);
    const char *const at =
        bytes >= 1024 && row->case_name != NULL ? strstr(row->case_name, digits) : NULL;
    if (at == NULL) {
        html_text(file, row->case_name);
        return;
    }
    static const char unit[] = " bytes";
    const char *rest = at + strlen(digits);
    if (strncmp(rest, unit, strlen(unit)) == 0)
        rest += strlen(unit);
    report_print_size(size, sizeof size, bytes);
    html_format(file, "%.*s%s%s", (int)(at - row->case_name), row->case_name, size, rest);
}

void report_write_note(FILE *file, const results_file *results, const results_row *row) {
    const datasheet *const sheet = main_memory_sheet(results, row->device);
    const sheet_share share =
        sheet_share_find(row, row->gflops, row->gbs, sheet, main_memory_from(results, row->device));
    int written = row->note != NULL && row->note[0] != '\0';
    if (written)
        html_text(file, row->note);
    if (results_row_is_noisy(row) && !(written && strstr(row->note, "noisy") != NULL))
        fputs(written++ ? ", noisy" : "noisy", file);
    if (sheet_share_is_above(&share))
        html_format(file, "%sabove the datasheet: %.0f %%", written == 0 ? "" : ", ",
                    100 * fmax(share.of_bandwidth, share.of_peak));
}

static void write_facts(FILE *file, const results_facts *facts) {
    for (size_t i = 0; i < facts->count; i++) {
        fputs("<tr><td>", file);
        html_text(file, facts->items[i].key);
        fputs("</td><td>", file);
        html_text(file, facts->items[i].text);
        fputs("</td></tr>\n", file);
    }
}

void report_write_environment(FILE *file, const results_file *results) {
    if (results->host.count + results->environment.count == 0)
        return;
    fputs("<section>\n<h2>What the figures were taken under</h2>\n"
          "<p class=\"small\">– is what the system does not tell.</p>\n"
          "<div class=\"wide\"><table>\n<tbody>\n",
          file);
    write_facts(file, &results->host);
    write_facts(file, &results->environment);
    fputs("</tbody></table></div>\n</section>\n", file);
}
