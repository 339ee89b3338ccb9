#include "bench/predict/predict_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/analysis/row_placement.h"
#include "bench/cases/gemm_types.h"
#include "bench/record/bench_statistics.h"

static int is_usable(const results_row *row, const char *suite) {
    return row->status == RESULT_OK && strcmp(row->impl, "tandem") == 0 &&
           strcmp(row->suite, suite) == 0 && row->mode != NULL &&
           strcmp(row->mode, "pipelined") == 0;
}

static int begins(const char *text, const char *start) {
    return strncmp(text, start, strlen(start)) == 0;
}

/* FNV-1a of the case's name: the same on every machine. */
static uint32_t hash_of(const results_row *row) {
    uint32_t hash = 2166136261U;
    for (const char *c = row->case_name; *c != '\0'; c++)
        hash = (hash ^ (unsigned char)*c) * 16777619U;
    return hash ^ hash >> 16;
}

/* Deal the rows of each class to the folds in the order of their hashes: each leaves out as many, and the rest still tells the class. */
static void deal_folds(predict_observations *list) {
    for (size_t i = 0; i < list->count; i++) {
        predict_observation *const item = &list->items[i];
        size_t before = 0;
        for (size_t j = 0; j < list->count; j++) {
            const predict_observation *const other = &list->items[j];
            before += (other->hash < item->hash || (other->hash == item->hash && j < i)) &&
                      strcmp(other->work.key, item->work.key) == 0;
        }
        item->fold = (int)(before % PREDICT_FOLDS);
    }
}

static size_t count_of_class(const predict_observations *list, const char *key) {
    size_t count = 0;
    for (size_t i = 0; i < list->count; i++)
        count += !list->items[i].elsewhere && strcmp(list->items[i].work.key, key) == 0;
    return count;
}

/* Leave out what was measured elsewhere, of classes that have rows enough without it. */
static void leave_out_elsewhere(predict_observations *list) {
    for (size_t i = 0; i < list->count; i++) {
        predict_observation *const item = &list->items[i];
        item->left_out =
            item->elsewhere && count_of_class(list, item->work.key) >= PREDICT_LEAST_ROWS;
    }
    size_t kept = 0;
    for (size_t i = 0; i < list->count; i++) {
        if (!list->items[i].left_out)
            list->items[kept++] = list->items[i];
    }
    list->elsewhere = list->count - kept;
    list->count = kept;
}

void predict_product_key(char key[PREDICT_MAX_KEY], double m, double n, const char *dtype,
                         const char *packing) {
    snprintf(key, PREDICT_MAX_KEY, "%s %s %s", fmin(m, n) <= PREDICT_FEW_ROWS ? "gemv" : "gemm",
             dtype, packing);
}

/* Of those copies of B that a call does not touch, but the calls around it. In doubles: a file may say any number. */
static double bytes_of_other_copies(const results_row *row, const predict_work *work) {
    const double copies = results_figure_value(&row->shape, "copies_of_b");
    const double batch = results_figure_value(&row->shape, "batch");
    const gemm_types types = gemm_types_find(row->dtype);
    if (!(copies > 1) || types == GEMM_NO_TYPES)
        return 0;
    const tdm_dtype_traits *const dtype = tdm_dtype_info(gemm_types_dtype(types, OP_GEMM_B));
    const double element_bytes = (double)dtype->unit_bytes / dtype->elements_per_unit;
    return (copies - 1) * fmax(batch, 1) * work->k * work->n * element_bytes;
}

static int observe_product(const results_row *row, predict_work *work) {
    if (row->dtype == NULL || row->packing == NULL || isnan(row->flops) || isnan(row->bytes))
        return 0;
    work->m = results_figure_value(&row->shape, "m");
    work->n = results_figure_value(&row->shape, "n");
    work->k = results_figure_value(&row->shape, "k");
    if (!(work->m >= 1 && work->n >= 1 && work->k >= 1))
        return 0;
    work->flops = row->flops;
    work->read_bytes = row->bytes;
    work->working_set = row->bytes + bytes_of_other_copies(row, work);
    predict_product_key(work->key, work->m, work->n, row->dtype, row->packing);
    return 1;
}

/* Arrays that the loops of the memory suite read and write. */
static int observe_stream(const results_row *row, predict_work *work) {
    static const struct {
        const char *name;
        int reads;
        int writes;
    } loops[] = {
        {"copy ", 1, 1},  {"scale ", 1, 1}, {"add ", 2, 1},
        {"triad ", 2, 1}, {"read ", 1, 0},  {"write ", 0, 1},
    };
    const int tuned = !isnan(results_figure_value(&row->metrics, "setting_best"));
    const int plain = !isnan(results_figure_value(&row->metrics, "setting_default"));
    if (isnan(row->bytes) || row->dtype == NULL || (tuned && !plain))
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

static int ends(const char *text, const char *end) {
    const size_t length = strlen(text);
    return length >= strlen(end) && strcmp(text + length - strlen(end), end) == 0;
}

/* Scales of a whole tensor or of columns are found in one pass and used in a second one: what is read is touched twice. */
static double bytes_read_again(const results_row *row, const char *key, double bytes) {
    const double elements =
        results_figure_value(&row->shape, "rows") * results_figure_value(&row->shape, "columns");
    if (!begins(key, "dynamic ") || !(ends(key, " tensor") || ends(key, " column")) ||
        !(elements > 0))
        return 0;
    /* Of 9 bytes of an element 4 and 4 are read and 1 is written. */
    return elements * floor(bytes / elements / 2);
}

/* "quantize f32 s8 row 8192x4096" is of the class "quantize f32 s8 row", "add f32 65536" of "add f32". */
static int observe_passes(const results_row *row, predict_work *work) {
    const char *const blank = strrchr(row->case_name, ' ');
    if (isnan(row->bytes) || blank == NULL || (size_t)(blank - row->case_name) >= PREDICT_MAX_KEY)
        return 0;
    snprintf(work->key, sizeof work->key, "%.*s", (int)(blank - row->case_name), row->case_name);
    work->read_bytes = row->bytes;
    work->working_set = row->bytes - bytes_read_again(row, work->key, row->bytes);
    return 1;
}

static int observe(const results_row *row, predict_work *work) {
    *work = (predict_work){.dtype = row->dtype, .m = NAN, .n = NAN, .k = NAN, .flops = NAN};
    if (is_usable(row, "gemm") || is_usable(row, "gemv"))
        return observe_product(row, work);
    if (is_usable(row, "memory"))
        return observe_stream(row, work);
    return (is_usable(row, "quant") || is_usable(row, "elementwise")) && observe_passes(row, work);
}

int predict_observe(const results_file *file, predict_observations *list) {
    const processor_state usual = row_usual_placement(file);
    list->file = file;
    list->count = 0;
    list->items = malloc((file->row_count + 1) * sizeof *list->items);
    if (list->items == NULL)
        return -1;
    for (size_t i = 0; i < file->row_count; i++) {
        predict_observation *const item = &list->items[list->count];
        if (!observe(&file->rows[i], &item->work))
            continue;
        item->elsewhere = row_is_elsewhere(&file->rows[i], usual);
        item->row = &file->rows[i];
        item->seconds = file->rows[i].median_s;
        item->hash = hash_of(&file->rows[i]);
        list->count++;
    }
    leave_out_elsewhere(list);
    deal_folds(list);
    return 0;
}

double predict_launch(const results_file *file) {
    double values[PREDICT_MAX_POINTS];
    size_t count = 0;
    for (size_t i = 0; i < file->row_count && count < PREDICT_MAX_POINTS; i++) {
        const results_row *const row = &file->rows[i];
        if (is_usable(row, "launch") && begins(row->case_name, "kernel"))
            values[count++] = row->median_s;
    }
    return count == 0 ? 0 : summarize_samples(values, count).median;
}

/* "upload 67108864, pinned", and not what goes both ways. */
static int is_upload_of(const results_row *row, const char *memory) {
    return is_usable(row, "memory") && begins(row->case_name, "upload ") &&
           !begins(row->case_name, "upload and ") && strstr(row->case_name, memory) != NULL &&
           !isnan(row->gbs);
}

double predict_link(const results_file *file, const char **memory) {
    static const char *const memories[] = {"pinned", "pageable"};
    for (size_t m = 0; m < sizeof memories / sizeof *memories; m++) {
        double values[PREDICT_MAX_POINTS];
        size_t count = 0;
        for (size_t i = 0; i < file->row_count && count < PREDICT_MAX_POINTS; i++) {
            if (is_upload_of(&file->rows[i], memories[m]))
                values[count++] = 1e9 * file->rows[i].gbs;
        }
        *memory = memories[m];
        if (count > 0)
            return summarize_samples(values, count).median;
    }
    *memory = NULL;
    return NAN;
}

/* Whether a fact is an object: its members are facts of their own then. */
static int has_members(const results_facts *facts, const char *key) {
    const size_t length = strlen(key);
    for (size_t i = 0; i < facts->count; i++)
        if (strncmp(facts->items[i].key, key, length) == 0 && facts->items[i].key[length] == '.')
            return 1;
    return 0;
}

int predict_device_bytes(const results_file *file, const char *key, double *bytes,
                         file_error *error) {
    const results_facts *const device = &file->devices[0];
    char inner[64];
    snprintf(inner, sizeof inner, "%s.value", key); /* of {"value": …, "unit": "bytes"} */
    const char *const plain = results_fact_text(device, key);
    const char *const text = plain != NULL ? plain : results_fact_text(device, inner);
    *bytes = results_fact_number(device, plain != NULL ? key : inner);
    if (text != NULL && *bytes > 0)
        return 0;
    if (text == NULL && !has_members(device, key))
        return 0;
    if (text == NULL)
        return file_fail(error, "%s: device: member \"%s\" is an object without a \"value\"",
                         file_printable(file->name).text, key);
    return file_fail(error, "%s: device: member \"%s\" is '%s', not a positive number of bytes",
                     file_printable(file->name).text, key, file_printable(text).text);
}
