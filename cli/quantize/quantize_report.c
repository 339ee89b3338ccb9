#include "cli/quantize/quantize_report.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include <cjson/cJSON.h>

#include "bench/record/results_json.h"
#include "common/table_print.h"

struct quantize_report {
    const quantize_settings *settings;
    cJSON *json;
    cJSON *tensors;
    text_table *table;
    uint64_t bytes_before;
    uint64_t bytes_after;
    int quantized;
    int copied;
};

quantize_report *quantize_report_create(const quantize_settings *settings) {
    quantize_report *const report = calloc(1, sizeof *report);
    if (!report)
        return NULL;
    report->settings = settings;
    report->json = cJSON_CreateObject();
    report->table =
        table_create("tensor|shape|from|to|>SQNR dB|>max error|>bytes before|>after|note");
    results_put_text(report->json, "schema", "tandem-quantize/1");
    cJSON_AddItemToObject(report->json, "library", results_library_json());
    results_put_text(report->json, "input", settings->input);
    results_put_text(report->json, "output", settings->output);
    results_put_text(report->json, "scheme", settings->choice.scheme->name);
    results_put_text(report->json, "calibration", settings->calibrate);
    report->tensors = cJSON_AddArrayToObject(report->json, "tensors");
    return report;
}

static const char *target_name(const quantize_item *item) {
    return item->scheme ? item->scheme->name : "copied";
}

static void add_json(const quantize_report *report, const quantize_result *result) {
    const quantize_item *const item = result->item;
    const quantize_tensor *const tensor = item->tensor;
    cJSON *const json = cJSON_CreateObject();
    results_put_text(json, "name", tensor->name);
    cJSON *const shape = cJSON_AddArrayToObject(json, "shape");
    for (int i = 0; i < tensor->rank; i++)
        cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)tensor->shape[i]));
    results_put_text(json, "from", quantize_storage_name(tensor));
    results_put_text(json, "to", target_name(item));
    results_put_number(json, "bytes_before", (double)tensor->bytes);
    results_put_number(json, "bytes_after", (double)result->bytes_after);
    results_put_text(json, "note", item->note);
    if (item->scheme) {
        results_put_number(json, "sqnr_db", tdm_quant_error_sqnr(&result->outcome.errors));
        results_put_number(json, "max_error", result->outcome.errors.max_error);
        results_put_number(json, "saturated", (double)result->outcome.saturated);
    }
    if (item->input_scale != QUANTIZE_NO_ENTRY) {
        cJSON *const input = cJSON_AddObjectToObject(json, "input");
        results_put_number(input, "scale", (double)result->input.scale);
        results_put_number(input, "zero_point", result->input.zero_point);
    }
    cJSON_AddItemToArray(report->tensors, json);
}

static void add_shape(text_table *table, const quantize_tensor *tensor) {
    char text[SAFETENSORS_MAX_RANK * 21 + 1] = "";
    size_t length = 0;
    for (int i = 0; i < tensor->rank; i++)
        length += (size_t)snprintf(text + length, sizeof text - length, "%s%" PRId64,
                                   i > 0 ? "x" : "", tensor->shape[i]);
    table_cell(table, "%s", text);
}

static void add_row(const quantize_report *report, const quantize_result *result) {
    const quantize_item *const item = result->item;
    const quantize_tensor *const tensor = item->tensor;
    const tdm_quant_error *const errors = &result->outcome.errors;
    text_table *const table = report->table;
    table_cell(table, "%s", file_printable(tensor->name).text);
    add_shape(table, tensor);
    table_cell(table, "%s", quantize_storage_name(tensor));
    table_cell(table, "%s", target_name(item));
    if (!item->scheme)
        table_cell(table, "%s", "");
    else if (errors->noise == 0)
        table_cell(table, "exact"); /* the SQNR is infinite */
    else
        table_cell(table, "%.2f", tdm_quant_error_sqnr(errors));
    if (item->scheme)
        table_cell(table, "%.3g", errors->max_error);
    else
        table_cell(table, "%s", "");
    table_cell(table, "%zu", tensor->bytes);
    table_cell(table, "%" PRIu64, result->bytes_after);
    if (item->scheme && result->outcome.saturated > 0)
        table_cell(table, "%" PRIu64 " values limited to the largest finite one",
                   result->outcome.saturated);
    else
        table_cell(table, "%s", item->note ? item->note : "");
}

void quantize_report_add(quantize_report *report, const quantize_result *result) {
    report->bytes_before += result->item->tensor->bytes;
    report->bytes_after += result->bytes_after;
    report->quantized += result->item->scheme != NULL;
    report->copied += result->item->scheme == NULL;
    add_json(report, result);
    /* Copies without a note are only counted. */
    if (result->item->scheme || result->item->note)
        add_row(report, result);
}

static void print_table(const quantize_report *report, size_t left_out) {
    if (report->quantized > 0)
        table_print(report->table, stdout);
    printf("%s%s: %d tensors quantized, %d copied; %" PRIu64 " bytes before, %" PRIu64
           " after (%.3fx)\n",
           report->quantized > 0 ? "\n" : "", report->settings->output, report->quantized,
           report->copied, report->bytes_before, report->bytes_after,
           report->bytes_before > 0 ? (double)report->bytes_after / (double)report->bytes_before
                                    : 1.0);
    if (left_out > 0)
        printf("values of the GGUF header that are not text and were left out: %zu\n", left_out);
}

int quantize_report_write(const quantize_report *report, size_t left_out) {
    const char *const path = report->settings->json;
    cJSON *const totals = cJSON_AddObjectToObject(report->json, "totals");
    results_put_number(totals, "quantized", report->quantized);
    results_put_number(totals, "copied", report->copied);
    results_put_number(totals, "bytes_before", (double)report->bytes_before);
    results_put_number(totals, "bytes_after", (double)report->bytes_after);
    if (!results_is_stdout(path))
        print_table(report, left_out);
    return path ? results_write_json(report->json, quantize_command_name, path) : 0;
}

void quantize_report_destroy(quantize_report *report) {
    if (!report)
        return;
    cJSON_Delete(report->json);
    table_destroy(report->table);
    free(report);
}
