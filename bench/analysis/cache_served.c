#include "bench/analysis/cache_served.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/analysis/sheet_share.h"
#include "bench/record/environment_record.h"
#include "bench/report/report_parts.h"

/* What the driver tells and the system, which counts for a CPU alone, and the datasheet (NULL: not known). */
static double largest(double of_driver, double of_system, int is_cpu, const datasheet *sheet) {
    double most = of_driver;
    if (is_cpu)
        most = fmax(most, of_system);
    if (sheet != NULL)
        most = fmax(most, 1e6 * sheet->values[DATASHEET_CACHE_MB].value);
    return most > 0 ? most : NAN;
}

double cache_served_by(const results_file *results, size_t index) {
    const results_facts *const device = &results->devices[index];
    const char *const type = results_fact_text(device, "type");
    return largest(results_fact_number(device, "cache_bytes"),
                   results_fact_number(&results->environment, "cpu_cache_bytes"),
                   type != NULL && strcmp(type, "cpu") == 0, sheet_of(results, index));
}

double cache_served_bytes(const results_file *results) {
    return cache_served_by(results, 0);
}

double cache_served_here(const tdm_device_info *info) {
    return largest((double)info->cache_bytes, (double)environment_cache_bytes(),
                   info->type == TDM_DEVICE_CPU, datasheet_of_board(info->board_name, info->name));
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
