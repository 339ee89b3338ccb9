#include "bench/cache_served.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/report_parts.h"
#include "bench/sheet_share.h"

double cache_served_bytes(const results_file *results) {
    const results_facts *const device = &results->devices[0];
    const datasheet *const sheet = sheet_of(results, 0);
    const char *const type = results_fact_text(device, "type");
    double most = results_fact_number(device, "cache_bytes");
    if (type != NULL && strcmp(type, "cpu") == 0)
        most = fmax(most, results_fact_number(&results->environment, "cpu_cache_bytes"));
    if (sheet != NULL)
        most = fmax(most, 1e6 * sheet->values[DATASHEET_CACHE_MB].value);
    return most > 0 ? most : NAN;
}

void cache_served_words(double bytes, double cache, char *text, size_t size) {
    char amount[32];
    text[0] = '\0';
    if (!(bytes > 0 && bytes < CACHE_OUTGROWN * cache))
        return;
    report_print_size(amount, sizeof amount, cache);
    snprintf(text, size, "a cache of %s may serve it", amount);
}

static int is_kernel(const results_row *row) {
    static const char *const kernels[] = {"copy", "scale", "add",     "triad",  "read",
                                          "scan", "write", "strided", "gather", "buffer"};
    for (size_t i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (report_case_begins(row, kernels[i]))
            return strcmp(row->suite, "memory") == 0;
    return 0;
}

void cache_served_note(const results_file *results, const results_row *row, char *text,
                       size_t size) {
    text[0] = '\0';
    if (is_kernel(row))
        cache_served_words(results_figure_value(&row->shape, "bytes"), cache_served_bytes(results),
                           text, size);
}
