#include "bench/analysis/sheet_share.h"

#include <math.h>
#include <string.h>

/* A working set this many times the last cache cannot be served from it. */
#define BEYOND_CACHE 2.0
#define LARGEST_CACHE 256e6 /* where the sheet does not tell */

/* Rows whose bytes do not come from the device's memory alone, or one after the other. */
static int is_of_memory(const results_row *row) {
    static const char *const others[] = {"upload", "download", "chase"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        if (strncmp(row->case_name, others[i], strlen(others[i])) == 0)
            return 0;
    }
    return 1;
}

sheet_share sheet_share_find(const results_row *row, double gflops, double gbs,
                             const datasheet *sheet) {
    sheet_share share = {NAN, NAN, 0, NAN};
    if (sheet == NULL)
        return share;
    const double known = 1e6 * sheet->values[DATASHEET_CACHE_MB].value;
    const double cache = isnan(known) ? LARGEST_CACHE : known;
    const double set = results_figure_value(&row->shape, "bytes");
    const double bytes = isnan(set) ? row->bytes : set;
    const double of_bandwidth = gbs / sheet->values[DATASHEET_DRAM_GBS].value;
    share.cache_mb = sheet->values[DATASHEET_CACHE_MB].value;
    if (is_of_memory(row) && bytes > BEYOND_CACHE * cache)
        share.of_bandwidth = of_bandwidth;
    else if (is_of_memory(row))
        share.above_memory = of_bandwidth > 1;
    share.of_peak = gflops / datasheet_peak_gflops(sheet, row->dtype);
    return share;
}

int sheet_share_is_above(const sheet_share *share) {
    return share->of_bandwidth > 1 || share->of_peak > 1;
}

const datasheet *sheet_of(const results_file *file, size_t device) {
    const results_facts *const facts = &file->devices[device];
    return datasheet_of_board(results_fact_text(facts, "board_name"),
                              results_fact_text(facts, "name"));
}

size_t sheet_share_count(const results_file *file, size_t device) {
    const datasheet *const sheet = sheet_of(file, device);
    size_t count = 0;
    for (size_t i = 0; sheet != NULL && i < file->row_count; i++) {
        const results_row *const row = &file->rows[i];
        const sheet_share share = sheet_share_find(row, row->gflops, row->gbs, sheet);
        count += row->status == RESULT_OK && row->device == device && sheet_share_is_above(&share);
    }
    return count;
}
