#include "cli/quantize/quantize_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "bench/record/results_json.h"
#include "common/table_print.h"

struct quantize_report {
    const quantize_run *run;
    cJSON *json;
    cJSON *tensors;
    text_table *table;
    uint64_t bytes_before;
    uint64_t bytes_after;
    size_t left_out;
    int quantized;
    int copied;
};

static void add_choice(cJSON *json, const quantize_choice *choice) {
    results_put_text(json, "scheme", choice->scheme->name);
    cJSON *const exceptions = cJSON_AddArrayToObject(json, "exceptions");
    for (size_t i = 0; i < choice->exception_count; i++) {
        cJSON *const exception = cJSON_CreateObject();
        results_put_text(exception, "names", choice->exceptions[i].text);
        results_put_text(exception, "scheme", choice->exceptions[i].scheme->name);
        cJSON_AddItemToArray(exceptions, exception);
    }
    results_put_number(json, "axis", choice->axis);
}

quantize_report *quantize_report_create(const quantize_run *run) {
    quantize_report *const report = calloc(1, sizeof *report);
    if (!report)
        return NULL;
    report->run = run;
    report->json = cJSON_CreateObject();
    report->table = table_create("tensor|shape|from|to|>SQNR dB|>cosine|>max error|>bytes before|"
                                 ">after|note");
    results_put_text(report->json, "schema", "tandem-quantize/1");
    cJSON_AddItemToObject(report->json, "library", results_library_json());
    results_put_text(report->json, "input", run->input);
    results_put_text(report->json, "output", run->output);
    add_choice(report->json, run->choice);
    results_put_number(report->json, "group", run->group > 0 ? (double)run->group : NAN);
    results_put_text(report->json, "scales", run->scales);
    results_put_text(report->json, "calibration", run->calibration);
    results_put_text(report->json, "observer", run->calibration ? run->observer : NULL);
    cJSON_AddBoolToObject(report->json, "dry_run", run->is_dry);
    report->tensors = cJSON_AddArrayToObject(report->json, "tensors");
    return report;
}

static const char *target_name(const quantize_item *item) {
    return item->scheme ? item->scheme->name : "copied";
}

/* ---- JSON ---- */

static void add_errors(cJSON *json, const tdm_quant_error *error) {
    results_put_number(json, "sqnr_db", tdm_quant_error_sqnr(error));
    results_put_number(json, "nmse", tdm_quant_error_nmse(error));
    results_put_number(json, "cosine", tdm_quant_error_cosine(error));
    results_put_number(json, "max_error", error->max_error);
}

static void add_input(cJSON *json, const quantize_input *input) {
    cJSON *const object = cJSON_AddObjectToObject(json, "input");
    results_put_number(object, "scale", (double)input->parameters.scale);
    results_put_number(object, "zero_point", input->parameters.zero_point);
    results_put_number(object, "batches", (double)input->batch_count);
}

static void add_numbers(cJSON *json, const char *name, const int64_t *numbers, int count) {
    cJSON *const array = cJSON_AddArrayToObject(json, name);
    for (int i = 0; i < count; i++)
        cJSON_AddItemToArray(array, cJSON_CreateNumber((double)numbers[i]));
}

/* Of 8-bit floats: what they were multiplied by. */
static void add_scaling(cJSON *json, const quantize_scaling *scaling) {
    cJSON *const object = cJSON_AddObjectToObject(json, "scaled_by");
    results_put_text(object, "name", scaling->scales->name);
    add_numbers(object, "shape", scaling->scales->shape, scaling->scales->rank);
    add_numbers(object, "block", scaling->block, scaling->rank);
}

static void add_json(const quantize_report *report, const quantize_result *result) {
    const quantize_tensor *const tensor = result->item->tensor;
    cJSON *const json = cJSON_CreateObject();
    results_put_text(json, "name", tensor->name);
    add_numbers(json, "shape", tensor->shape, tensor->rank);
    results_put_text(json, "from", quantize_storage_name(tensor));
    results_put_text(json, "to", target_name(result->item));
    results_put_number(json, "bytes_before", (double)tensor->bytes);
    results_put_number(json, "bytes_after", (double)result->bytes_after);
    results_put_text(json, "note", result->item->note);
    if (tensor->scaling)
        add_scaling(json, tensor->scaling);
    if (result->outcome) {
        add_errors(json, &result->outcome->errors);
        results_put_number(json, "saturated", (double)result->outcome->saturated);
        results_put_number(json, "zeroed", (double)result->outcome->zeroed);
    }
    if (result->input)
        add_input(json, result->input);
    cJSON_AddItemToArray(report->tensors, json);
}

/* ---- table ---- */

/* No noise at all is no number of decibels. */
static void add_decibels(text_table *table, const tdm_quant_error *error) {
    if (!error)
        table_cell(table, "%s", "");
    else if (error->noise == 0)
        table_cell(table, "exact");
    else if (!isfinite(error->signal) || !isfinite(error->noise))
        table_cell(table, "unknown"); /* squares of F64 beyond the range of sums */
    else
        table_cell(table, "%.2f", tdm_quant_error_sqnr(error));
}

static void add_measures(text_table *table, const tdm_quant_error *error) {
    if (!error) {
        table_cell(table, "%s", "");
        table_cell(table, "%s", "");
        return;
    }
    if (isfinite(error->signal) && isfinite(error->actual))
        table_cell(table, "%.6f", tdm_quant_error_cosine(error));
    else
        table_cell(table, "unknown");
    table_cell(table, "%.3g", error->max_error);
}

static void add_shape(text_table *table, const quantize_tensor *tensor) {
    char text[SAFETENSORS_MAX_RANK * 21 + 1] = "";
    size_t length = 0;
    for (int i = 0; i < tensor->rank; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "%s%" PRId64,
                                   i > 0 ? "x" : "", tensor->shape[i]);
    table_cell(table, "%s", text);
}

/* What is too small or too large for the format, or for the scales' type. */
static const char *format_of(const quantize_report *report, const quantize_item *item) {
    static const char *const names[] = {"scales in f32", "scales in f16", "scales in bf16"};
    if (item->scheme->kind == QUANTIZE_FLOATS)
        return item->scheme->name;
    if (item->scheme->kind == QUANTIZE_BLOCKS || !strcmp(report->run->scales, "f16"))
        return names[1];
    return names[strcmp(report->run->scales, "bf16") == 0 ? 2 : 0];
}

static void add_note(const quantize_report *report, const quantize_result *result) {
    char text[500] = "";
    size_t length = 0;
    const quantize_scaling *const scaling = result->item->tensor->scaling;
    const quantize_item *const item = result->item;
    const quantize_outcome *const outcome = item->scheme ? result->outcome : NULL;
    const int is_float = item->scheme && item->scheme->kind == QUANTIZE_FLOATS;
    if (outcome && outcome->saturated > 0)
        length += (size_t)snprintf(text, sizeof text, "%" PRIu64 " numbers limited%s%s; ",
                                   outcome->saturated,
                                   is_float ? " to the largest finite one" : ": too large for ",
                                   is_float ? "" : format_of(report, item));
    if (outcome && outcome->zeroed > 0)
        length += (size_t)snprintf(text + length, sizeof text - length,
                                   "%" PRIu64 " numbers became 0: too small for %s; ",
                                   outcome->zeroed, format_of(report, item));
    if (scaling)
        length += (size_t)snprintf(text + length, sizeof text - length, "times %s; ",
                                   file_printable(scaling->scales->name).text);
    if (item->note)
        length += (size_t)snprintf(text + length, sizeof text - length, "%s; ", item->note);
    if (length > 0)
        text[length - 2] = '\0';
    table_cell(report->table, "%s", text);
}

static void add_row(const quantize_report *report, const quantize_result *result) {
    const quantize_tensor *const tensor = result->item->tensor;
    const tdm_quant_error *const errors = result->outcome ? &result->outcome->errors : NULL;
    text_table *const table = report->table;
    table_cell(table, "%s", file_printable(tensor->name).text);
    add_shape(table, tensor);
    table_cell(table, "%s", quantize_storage_name(tensor));
    table_cell(table, "%s", target_name(result->item));
    add_decibels(table, errors);
    add_measures(table, errors);
    table_cell(table, "%zu", tensor->bytes);
    table_cell(table, "%" PRIu64, result->bytes_after);
    add_note(report, result);
}

void quantize_report_add(quantize_report *report, const quantize_result *result) {
    report->bytes_before += result->item->tensor->bytes;
    report->bytes_after += result->bytes_after;
    report->quantized += result->item->scheme != NULL;
    report->copied += result->item->scheme == NULL;
    add_json(report, result);
    /* Copies that nobody asked about are only counted. */
    if (result->item->scheme || result->item->note)
        add_row(report, result);
}

int quantize_report_write(quantize_report *report, const char *command, const char *path,
                          size_t left_out) {
    cJSON *const totals = cJSON_AddObjectToObject(report->json, "totals");
    report->left_out = left_out;
    results_put_number(totals, "quantized", report->quantized);
    results_put_number(totals, "copied", report->copied);
    results_put_number(totals, "bytes_before", (double)report->bytes_before);
    results_put_number(totals, "bytes_after", (double)report->bytes_after);
    results_put_number(totals, "metadata_left_out", (double)left_out);
    results_put_number(totals, "activations_unused",
                       report->run->calibration ? (double)report->run->unused_activations : NAN);
    return path && !results_is_stdout(path) ? results_write_json(report->json, command, path) : 0;
}

static void print_table(const quantize_report *report) {
    if (report->quantized > 0)
        table_print(report->table, stdout);
    printf("%s%s%s: %d tensors quantized, %d copied; %" PRIu64 " bytes before, %" PRIu64
           " after (%.3fx)\n",
           report->quantized > 0 ? "\n" : "", report->run->output,
           report->run->is_dry ? " (not written)" : "", report->quantized, report->copied,
           report->bytes_before, report->bytes_after,
           report->bytes_before > 0 ? (double)report->bytes_after / (double)report->bytes_before
                                    : 1.0);
    if (report->left_out > 0)
        printf("values of the GGUF header that have no place in a safetensors file, such as "
               "arrays, and were left out: %zu\n",
               report->left_out);
    if (report->run->unused_activations > 0)
        printf("activations that belong to no layer that is quantized: %zu, the first \"%s\"\n",
               report->run->unused_activations,
               file_printable(report->run->unused_activation).text);
}

int quantize_report_print(const quantize_report *report, const char *command, const char *path) {
    if (results_is_stdout(path))
        return results_write_json(report->json, command, path);
    print_table(report);
    return 0;
}

void quantize_report_destroy(quantize_report *report) {
    if (!report)
        return;
    cJSON_Delete(report->json);
    table_destroy(report->table);
    free(report);
}
