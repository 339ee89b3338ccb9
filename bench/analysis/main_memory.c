#include "bench/analysis/main_memory.h"

#include <math.h>
#include <string.h>

#include "bench/analysis/cache_served.h"
#include "bench/analysis/row_placement.h"

#define MAIN_MEMORY_SETS 4.0 /* of the last cache, which holds a quarter of them at most */

static int begins(const char *text, const char *start) {
    return strncmp(text, start, strlen(start)) == 0;
}

static double bytes_of(const results_row *row) {
    return results_figure_value(&row->shape, "bytes");
}

/* A sweep's point that a cache serves names its level. */
static int only_reads(const results_row *row) {
    return begins(row->case_name, "read ") || begins(row->case_name, "scan ") ||
           (begins(row->case_name, "sweep read ") &&
            results_figure_value(&row->metrics, "level") == 0);
}

static int is_kernel(const results_row *row, size_t device, const char *cases) {
    if (row->status != RESULT_OK || row->device != device || row->impl == NULL ||
        strcmp(row->impl, "tandem") != 0 || strcmp(row->suite, "memory") != 0)
        return 0;
    return cases == NULL ? only_reads(row) : begins(row->case_name, cases);
}

double main_memory_from(const results_file *file, size_t device) {
    const double cache = cache_served_by(file, device);
    double largest = 0;
    for (size_t i = 0; i < file->row_count; i++) {
        if (is_kernel(&file->rows[i], device, NULL))
            largest = fmax(largest, bytes_of(&file->rows[i])); /* a NaN is not */
    }
    if (isnan(cache))
        return largest > 0 ? largest / 2 : INFINITY;
    return (MAIN_MEMORY_SETS * cache <= largest ? MAIN_MEMORY_SETS : CACHE_OUTGROWN) * cache;
}

static const results_row *faster(const results_row *kept, const results_row *row) {
    return kept == NULL || row->gbs > kept->gbs ? row : kept;
}

const results_row *main_memory_fastest(const results_file *file, size_t device, const char *cases) {
    const double least = main_memory_from(file, device);
    const processor_state usual = row_usual_placement(file);
    const results_row *of_all = NULL;
    const results_row *of_usual = NULL;
    for (size_t i = 0; i < file->row_count; i++) {
        const results_row *const row = &file->rows[i];
        if (!is_kernel(row, device, cases) || !(row->gbs > 0) || !(bytes_of(row) >= least))
            continue;
        of_all = faster(of_all, row);
        if (!row_is_elsewhere(row, usual))
            of_usual = faster(of_usual, row);
    }
    return of_usual != NULL ? of_usual : of_all;
}
