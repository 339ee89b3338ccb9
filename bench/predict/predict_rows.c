/* Converts rows of a results file to observations, and reads properties of the device from the
 * rows. */

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/predict/predict_run.h"
#include "bench/record/bench_statistics.h"

static int is_usable(const results_row *row, const char *suite) {
    return row->status == RESULT_OK && strcmp(row->impl, "tandem") == 0 &&
           strcmp(row->suite, suite) == 0 && row->mode != NULL &&
           strcmp(row->mode, "pipelined") == 0;
}

static int begins(const char *text, const char *start) {
    return strncmp(text, start, strlen(start)) == 0;
}

void predict_product_key(char key[PREDICT_MAX_KEY], double m, double n, const char *dtype) {
    snprintf(key, PREDICT_MAX_KEY, "%s %s", fmin(m, n) <= PREDICT_FEW_ROWS ? "gemv" : "gemm",
             dtype);
}

static int observe_product(const results_row *row, predict_work *work) {
    if (row->dtype == NULL || isnan(row->flops) || isnan(row->bytes))
        return 0;
    work->m = results_get_number(row->shape, "m");
    work->n = results_get_number(row->shape, "n");
    work->k = results_get_number(row->shape, "k");
    if (!(work->m >= 1 && work->n >= 1 && work->k >= 1))
        return 0;
    /* If the calls use several copies of B in turn, the working set includes all copies. Most bytes
     * of a call are those of B, so all bytes are scaled. */
    const double copies = results_get_number(row->shape, "copies_of_b");
    work->flops = row->flops;
    work->read_bytes = row->bytes;
    work->working_set = row->bytes * (copies > 1 ? copies : 1);
    predict_product_key(work->key, work->m, work->n, row->dtype);
    return 1;
}

/* False for a row of the best setting, unless that is also the default setting. The default setting
 * has a row of its own. */
static int has_default_setting(const results_row *row) {
    return isnan(results_get_number(row->metrics, "setting_best")) ||
           !isnan(results_get_number(row->metrics, "setting_default"));
}

/* Divides the bytes of a row of the memory suite into bytes read and bytes written. The row's loop
 * determines how many arrays it reads and writes. */
static int observe_stream(const results_row *row, predict_work *work) {
    static const struct {
        const char *name;
        int reads;
        int writes;
    } loops[] = {
        {"copy ", 1, 1},  {"scale ", 1, 1}, {"add ", 2, 1},
        {"triad ", 2, 1}, {"read ", 1, 0},  {"write ", 0, 1},
    };
    if (isnan(row->bytes) || row->dtype == NULL || !has_default_setting(row))
        return 0;
    for (size_t i = 0; i < sizeof loops / sizeof *loops; i++) {
        if (!begins(row->case_name, loops[i].name))
            continue;
        const double arrays = loops[i].reads + loops[i].writes;
        work->read_bytes = row->bytes * loops[i].reads / arrays;
        work->write_bytes = row->bytes * loops[i].writes / arrays;
        work->working_set = row->bytes;
        snprintf(work->key, sizeof work->key, "stream");
        return 1;
    }
    return 0;
}

static int observe(const results_row *row, predict_work *work) {
    *work = (predict_work){.dtype = row->dtype, .m = NAN, .n = NAN, .k = NAN, .flops = NAN};
    if (is_usable(row, "gemm") || is_usable(row, "gemv"))
        return observe_product(row, work);
    return is_usable(row, "memory") && observe_stream(row, work);
}

int predict_observe(const results_file *file, predict_observations *list) {
    list->count = 0;
    list->items = malloc((file->row_count + 1) * sizeof *list->items);
    if (list->items == NULL)
        return -1;
    for (size_t i = 0; i < file->row_count; i++) {
        predict_observation *const item = &list->items[list->count];
        if (!observe(&file->rows[i], &item->work))
            continue;
        item->row = &file->rows[i];
        item->seconds = file->rows[i].median_s;
        list->count++;
    }
    return 0;
}

double predict_reading_set(const results_row *row) {
    const int reads = begins(row->case_name, "sweep read ") || begins(row->case_name, "read ") ||
                      begins(row->case_name, "scan ");
    const int is_reading =
        reads && is_usable(row, "memory") && row->bytes > 0 && has_default_setting(row);
    return is_reading ? results_get_number(row->shape, "bytes") : NAN;
}

/* ---- the device ------------------------------------------------------------------------------ */

enum {
    MAX_VALUES = 512
};

/* Returns the median of the positive values that `value_of` finds in the rows, or NaN if there is
 * none. */
static double median_of_rows(const results_file *file, double (*value_of)(const results_row *row)) {
    double values[MAX_VALUES];
    size_t count = 0;
    for (size_t i = 0; i < file->row_count && count < MAX_VALUES; i++) {
        const double value = value_of(&file->rows[i]);
        if (value > 0)
            values[count++] = value;
    }
    return count == 0 ? NAN : summarize_samples(values, count).median;
}

static double launch_of(const results_row *row) {
    return is_usable(row, "launch") && begins(row->case_name, "kernel") ? row->median_s : NAN;
}

double predict_launch(const results_file *file) {
    const double median = median_of_rows(file, launch_of);
    return isnan(median) ? 0 : median;
}

static double watts_of(const results_row *row) {
    return results_get_number(row->metrics, "power_w");
}

double predict_watts(const results_file *file) {
    return median_of_rows(file, watts_of);
}
