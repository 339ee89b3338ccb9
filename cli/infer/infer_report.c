#include "cli/infer/infer_measure.h"

#include <math.h>
#include <stdio.h>

text_table *infer_table_create(void) {
    return table_create(
        "model|precision|>batch|>accuracy|>vs f32|>images/s|>latency|>weights|>peak memory|>max "
        "error|>error/tolerance|>same class|check");
}

static void bytes_cell(text_table *table, uint64_t bytes) {
    static const char *const units[] = {"B", "KB", "MB", "GB"};
    double value = (double)bytes;
    size_t unit = 0;
    while (value >= 999.5 && unit < 3) {
        value /= 1000.0;
        unit++;
    }
    table_cell(table, value < 9.995 && unit > 0 ? "%.2f %s" : "%.0f %s", value, units[unit]);
}

/* Writes a fraction as percent or percentage points. */
static void number_cell(text_table *table, double share, const char *format) {
    char text[32];
    snprintf(text, sizeof text, format, 100.0 * share);
    table_cell(table, "%s", isnan(share) ? "-" : text);
}

static double same_class(const mlp_agreement *agreement) {
    return agreement->rows > 0 ? (double)agreement->same_class / (double)agreement->rows : NAN;
}

static int was_run(const infer_result *result) {
    return !result->skipped && result->status == TDM_OK;
}

void infer_verdict(const infer_case *given, const infer_result *result, char *text, size_t size) {
    text[0] = '\0';
    if (result->skipped || result->status != TDM_OK)
        snprintf(text, size, "%s", result->reason);
    else if (result->agreement.rows == 0)
        snprintf(text, size, "no sample was compared with the reference");
    else if (result->agreement.max_error_ratio > 1.0)
        snprintf(text, size, "the error of a logit is %.3g times its tolerance",
                 result->agreement.max_error_ratio);
    else if (!result->passed && given->quantized &&
             -result->difference > given->precision->accuracy_slack)
        snprintf(text, size, "the accuracy is %.2f points below f32's, %.1f are allowed",
                 -100.0 * result->difference, 100.0 * given->precision->accuracy_slack);
    else if (!result->passed)
        snprintf(text, size, "the accuracy is %.4f, but the recorded accuracy is %.4f",
                 result->accuracy, given->model->recorded_accuracy);
}

void infer_table_add(text_table *table, const infer_case *given, const infer_result *result) {
    table_cell(table, "%s", given->model->name);
    table_cell(table, "%s%s%s", given->precision->name, given->precision->stored ? " " : "",
               given->precision->stored ? given->model->scheme : "");
    table_cell(table, "%lld", (long long)given->batch);
    if (!was_run(result)) {
        for (int i = 0; i < 9; i++)
            table_cell(table, "-");
        table_cell(table, "%s", result->skipped ? "skipped" : "FAILED");
        return;
    }
    number_cell(table, result->accuracy, "%.2f %%");
    number_cell(table, result->difference, "%+.2f");
    table_number(table, infer_images_per_second(given, result));
    table_duration(table, infer_median(&result->waited));
    bytes_cell(table, result->weight_bytes);
    bytes_cell(table, result->memory.allocated_peak);
    table_cell(table, "%.1e", result->agreement.max_abs);
    table_cell(table, "%.2f", result->agreement.max_error_ratio);
    number_cell(table, same_class(&result->agreement), "%.1f %%");
    table_cell(table, "%s", result->passed ? "ok" : "WRONG");
}

/*
 * Returns the bytes of weights, layer inputs and layer outputs, each counted once. Values between
 * calibrated layers are integers.
 */
static double traffic(const infer_case *given, const infer_result *result) {
    const mlp_model *const model = given->model;
    const size_t real = given->precision->dtype == TDM_F32 ? 4 : 2;
    const size_t between = given->precision->inputs == MLP_INPUTS_CALIBRATED ? 1 : real;
    double bytes = 0.0; /* per sample */
    for (int i = 0; i < model->layer_count; i++) {
        const int last = i + 1 == model->layer_count;
        bytes += (double)model->layers[i].inputs * (double)between;
        bytes += (double)model->layers[i].outputs * (double)(last ? real : between);
    }
    return (double)result->weight_bytes + bytes * (double)given->batch;
}

static void fill_numbers(const infer_case *given, const infer_result *result, double seconds,
                         bench_result *row) {
    const mlp_agreement *const agreement = &result->agreement;
    const result_number shape[] = {
        {"batch", (double)given->batch},
        {"parameters", (double)mlp_model_parameters(given->model)},
    };
    const result_number metrics[] = {
        {"images_per_s", (double)given->batch / seconds},
        {"first_batch_s", result->first_seconds},
        {"images", (double)result->images},
        {"accuracy", result->accuracy},
        {"recorded_accuracy", given->model->recorded_accuracy},
        {"unseen_images", (double)result->unseen},
        {"difference_to_f32", result->difference},
        {"oracle_rows", (double)agreement->rows},
        {"same_class", same_class(agreement)},
        {"max_relative_error", agreement->max_rel},
        {"error_to_tolerance", agreement->max_error_ratio},
        {"weight_bytes", (double)result->weight_bytes},
        {"peak_allocated_bytes", (double)result->memory.allocated_peak},
        {"peak_reserved_bytes", (double)result->memory.reserved_peak},
    };
    for (size_t i = 0; i < sizeof shape / sizeof *shape; i++)
        row->shape[i] = shape[i];
    for (size_t i = 0; was_run(result) && i < sizeof metrics / sizeof *metrics; i++)
        row->metrics[i] = metrics[i];
}

static void add_row(results_document *document, const tdm_device_info *info,
                    const infer_case *given, const infer_result *result, const char *mode,
                    const sample_series *series) {
    char name[128];
    char reason[600];
    infer_verdict(given, result, reason, sizeof reason);
    infer_case_name(given, name, sizeof name);
    bench_result row = {
        .suite = "infer",
        .case_name = name,
        .impl = "tandem",
        .variant = result->variants,
        .dtype = given->precision->name,
        .mode = mode,
        .packing = "prepacked",
        .device = info->selector,
        .raw_s = series->values,
        .samples = series->count,
        .flops = infer_flops(given),
        .bytes = was_run(result) ? traffic(given, result) : 0.0,
        .check = !was_run(result) ? RESULT_UNCHECKED
                 : result->passed ? RESULT_VERIFIED
                                  : RESULT_WRONG,
        .max_error = was_run(result) ? result->agreement.max_abs : NAN,
        .status = result->skipped ? RESULT_SKIPPED
                  : reason[0]     ? RESULT_FAILED
                                  : RESULT_OK,
        .reason = reason[0] ? reason : NULL,
    };
    fill_numbers(given, result, infer_median(series), &row);
    results_add(document, &row);
}

void infer_results_add(results_document *document, const tdm_device_info *info,
                       const infer_case *given, const infer_result *result) {
    if (result->pipelined.count > 0 || result->waited.count == 0)
        add_row(document, info, given, result, "pipelined", &result->pipelined);
    if (result->waited.count > 0)
        add_row(document, info, given, result, "waited", &result->waited);
}

void infer_results_add_failure(results_document *document, const tdm_device_info *info,
                               const char *reason) {
    const bench_result row = {
        .suite = "infer",
        .case_name = "open the device",
        .impl = "tandem",
        .device = info->selector,
        .max_error = NAN,
        .status = RESULT_FAILED,
        .reason = reason,
    };
    results_add(document, &row);
}
