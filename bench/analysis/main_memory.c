#include "bench/analysis/main_memory.h"

#include <math.h>
#include <string.h>

#include "bench/record/environment_record.h"

static int begins(const char *text, const char *start) {
    return strncmp(text, start, strlen(start)) == 0;
}

/*
 * Returns the largest known size. The cache size that the operating system reports counts only for
 * a CPU.
 */
static double largest(double of_driver, double of_system, int is_cpu, const datasheet *sheet) {
    double most = of_driver;
    if (is_cpu)
        most = fmax(most, of_system);
    if (sheet != NULL)
        most = fmax(most, 1e6 * sheet->values[DATASHEET_CACHE_MB]);
    return most > 0 ? most : NAN;
}

const datasheet *main_memory_sheet(const results_file *file, size_t device) {
    return datasheet_of_board(results_get_text(file->devices[device], "board_name"),
                              results_get_text(file->devices[device], "name"));
}

double main_memory_cache(const results_file *file, size_t device) {
    const char *const type = results_get_text(file->devices[device], "type");
    const double known =
        largest(results_get_number(file->devices[device], "cache_bytes"),
                results_get_number(file->environment, "cpu_cache_bytes"),
                type != NULL && strcmp(type, "cpu") == 0, main_memory_sheet(file, device));
    return isnan(known) ? MAIN_MEMORY_UNKNOWN_CACHE : known;
}

double main_memory_cache_here(const tdm_device_info *info) {
    return largest((double)info->cache_bytes, (double)environment_cache_bytes(),
                   info->type == TDM_DEVICE_CPU, datasheet_of_board(info->board_name, info->name));
}

double main_memory_from(const results_file *file, size_t device) {
    return MAIN_MEMORY_SETS * main_memory_cache(file, device);
}

double main_memory_set(const results_row *row) {
    const double array = results_get_number(row->shape, "bytes");
    const double copies = results_get_number(row->shape, "copies_of_b");
    return array > 0 ? array : row->bytes * (copies > 1 ? copies : 1);
}

static int only_reads(const results_row *row) {
    return begins(row->case_name, "read ") || begins(row->case_name, "scan ") ||
           begins(row->case_name, "sweep read ");
}

const results_row *main_memory_fastest(const results_file *file, size_t device, const char *cases) {
    const double from = main_memory_from(file, device);
    const results_row *fastest = NULL;
    for (size_t i = 0; i < file->row_count; i++) {
        const results_row *const row = &file->rows[i];
        if (row->status != RESULT_OK || row->device != device || !(row->gbs > 0) ||
            strcmp(row->impl, "tandem") != 0 || strcmp(row->suite, "memory") != 0 ||
            !(main_memory_set(row) >= from) ||
            !(cases == NULL ? only_reads(row) : begins(row->case_name, cases)))
            continue;
        if (fastest == NULL || row->gbs > fastest->gbs)
            fastest = row;
    }
    return fastest;
}

/* True if the case accesses only the device's memory, and no access depends on the one before. */
static int is_of_memory(const results_row *row) {
    static const char *const others[] = {"upload", "download", "chase"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (begins(row->case_name, others[i]))
            return 0;
    return 1;
}

double sheet_share(const results_row *row, double median_s, const datasheet *sheet, double from) {
    if (sheet == NULL)
        return NAN;
    const int is_known = is_of_memory(row) && main_memory_set(row) >= from;
    const double gbs = is_known ? row->bytes / median_s * 1e-9 : NAN;
    return fmax(gbs / sheet->values[DATASHEET_DRAM_GBS],
                row->flops / median_s * 1e-9 / datasheet_peak_gflops(sheet, row->dtype));
}
