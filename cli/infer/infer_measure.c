#include "cli/infer/infer_measure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

/* The check stops once the batches after the first have taken this many seconds. */
static const double longest_check = 10.0;

#define TRY(expression)                                                                            \
    do {                                                                                           \
        const tdm_status try_status = (expression);                                                \
        if (try_status != TDM_OK)                                                                  \
            return try_status;                                                                     \
    } while (0)

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

void infer_case_name(const infer_case *given, char *name, size_t size) {
    const char *const scheme = given->precision->stored ? given->model->scheme : "";
    snprintf(name, size, "%s %s%s%s batch %lld", given->model->name, given->precision->name,
             scheme[0] ? " " : "", scheme, (long long)given->batch);
}

double infer_flops(const infer_case *given) {
    return 2.0 * (double)given->batch * (double)mlp_model_parameters(given->model);
}

double infer_median(const sample_series *series) {
    return series->count > 0 ? summarize_samples(series->values, series->count).median : NAN;
}

double infer_images_per_second(const infer_case *given, const infer_result *result) {
    const sample_series *const series =
        result->pipelined.count > 0 ? &result->pipelined : &result->waited;
    return (double)given->batch / infer_median(series);
}

/* ---- correctness ----------------------------------------------------------------------------- */

/* Runs one batch, from upload to logits. */
static tdm_status run_batch(mlp_network *network) {
    TRY(mlp_network_upload(network));
    TRY(mlp_network_forward(network));
    return mlp_network_read(network);
}

/* Runs and times one batch. The first batch is not a sample, because it may build kernels. */
static tdm_status time_batch(mlp_network *network, infer_result *result) {
    const double start = seconds_now();
    TRY(run_batch(network));
    const double seconds = seconds_now() - start;
    if (result->first_seconds == 0.0) {
        result->first_seconds = seconds;
        return TDM_OK;
    }
    return series_add(&result->waited, seconds, seconds) ? TDM_OUT_OF_HOST_MEMORY : TDM_OK;
}

/* Counts of correct answers: on all images, and on those that were not used for calibration. */
typedef struct right_answers {
    int64_t all;
    int64_t unseen;
    int64_t exact; /* correct answers of the exact model on the unseen images */
} right_answers;

static void count_answer(const infer_case *given, int64_t row, int64_t answer, infer_result *result,
                         right_answers *right) {
    const int32_t label = given->samples->labels[row];
    result->images++;
    right->all += answer == label;
    if (row < given->calibration)
        return;
    result->unseen++;
    right->unseen += answer == label;
    right->exact += mlp_reference_class(given->exact, row) == label;
}

/* Runs samples [begin, begin + rows) as one batch, and compares those that the reference has. */
static tdm_status check_batch(mlp_network *network, const infer_case *given, int64_t begin,
                              int64_t rows, right_answers *right, infer_result *result) {
    const mlp_samples *const samples = given->samples;
    const mlp_reference *const reference = given->reference;
    mlp_network_stage(network, samples->inputs + begin * samples->width, rows);
    TRY(time_batch(network, result));
    const float *const logits = mlp_network_logits(network);
    for (int64_t row = 0; row < rows; row++) {
        const float *const own = logits + row * reference->outputs;
        const int64_t index = result->agreement.rows;
        if (index < reference->row_count && reference->rows[index] == begin + row)
            mlp_agreement_add(&result->agreement, reference, index, own);
        if (samples->labels)
            count_answer(given, begin + row, mlp_argmax(own, reference->outputs), result, right);
    }
    return TDM_OK;
}

/*
 * Returns 1 if a batch is run: the samples have labels, or the reference contains one of the batch.
 */
static int is_worth_a_run(const infer_case *given, int64_t end, int64_t compared) {
    return given->samples->labels ||
           (compared < given->reference->row_count && given->reference->rows[compared] < end);
}

static tdm_status check(mlp_network *network, const infer_case *given, infer_result *result) {
    const int64_t count = given->samples->count;
    right_answers right = {0};
    for (int64_t begin = 0; begin < count; begin += given->batch) {
        const int64_t rows = count - begin < given->batch ? count - begin : given->batch;
        if (!is_worth_a_run(given, begin + rows, result->agreement.rows))
            continue;
        TRY(check_batch(network, given, begin, rows, &right, result));
        if (result->waited.seconds > longest_check)
            break;
    }
    if (result->images > 0)
        result->accuracy = (double)right.all / (double)result->images;
    if (result->unseen > 0)
        result->difference = (double)(right.unseen - right.exact) / (double)result->unseen;
    return result->waited.count == 0 ? time_batch(network, result) : TDM_OK;
}

/* ---- timing ---------------------------------------------------------------------------------- */

static tdm_status run_passes(tdm_stream *stream, mlp_network *network, int64_t passes,
                             double *seconds) {
    const double start = seconds_now();
    for (int64_t i = 0; i < passes; i++)
        TRY(mlp_network_forward(network));
    TRY(tdm_stream_synchronize(stream));
    *seconds = seconds_now() - start;
    return TDM_OK;
}

static stopping_rule rule_of(double seconds) {
    return (stopping_rule){.samples = 1000, .seconds = seconds};
}

/*
 * Returns 1 if a batch of the check took longer than the time for all samples. The check's batches,
 * which were waited for, then serve as samples. Running batches back to back would gain nothing.
 */
static int is_slow(const infer_case *given, const infer_result *result) {
    return infer_median(&result->waited) >= given->seconds;
}

/* Each sample takes at least 5 ms, so that its single wait is negligible. */
static tdm_status time_pipelined(tdm_stream *stream, mlp_network *network, const infer_case *given,
                                 infer_result *result) {
    const stopping_rule rule = rule_of(given->seconds);
    int64_t passes = 1;
    double seconds;
    if (is_slow(given, result))
        return TDM_OK;
    TRY(run_passes(stream, network, passes, &seconds));
    while (seconds < 0.005 && passes < 4096) {
        passes *= 2;
        TRY(run_passes(stream, network, passes, &seconds));
    }
    do {
        TRY(run_passes(stream, network, passes, &seconds));
        if (series_add(&result->pipelined, seconds / (double)passes, seconds))
            return TDM_OUT_OF_HOST_MEMORY;
    } while (!series_done(&result->pipelined, &rule));
    return TDM_OK;
}

static tdm_status time_waited(mlp_network *network, const infer_case *given, infer_result *result) {
    const stopping_rule rule = rule_of(given->seconds);
    if (is_slow(given, result))
        return TDM_OK;
    series_release(&result->waited);
    do {
        TRY(time_batch(network, result));
    } while (!series_done(&result->waited, &rule));
    return TDM_OK;
}

/* ---- one measurement ---- */

/* Returns 1 if the accuracy is close to that of f32. */
static int keeps_answers(const infer_case *given, const infer_result *result) {
    const double slack = given->precision->accuracy_slack + 1e-9;
    return !given->quantized || isnan(result->difference) || result->difference >= -slack;
}

/*
 * Returns 1 if the accuracy is close to the recorded one. Models that are quantized here have no
 * recorded accuracy.
 */
static int keeps_record(const infer_case *given, const infer_result *result) {
    const double recorded = given->model->recorded_accuracy;
    const double stored = mlp_stored_slack(given->model);
    const double slack = (stored > 0.0 ? stored : given->precision->accuracy_slack) + 1e-9;
    return (given->quantized && stored == 0.0) || isnan(recorded) || isnan(result->accuracy) ||
           result->accuracy >= recorded - slack;
}

static int has_passed(const infer_case *given, const infer_result *result) {
    if (result->agreement.rows == 0 || result->agreement.max_error_ratio > 1.0)
        return 0;
    if (!given->all_samples || result->images != given->samples->count)
        return 1;
    return keeps_answers(given, result) && keeps_record(given, result);
}

static tdm_status measure_on(tdm_device *device, tdm_stream *stream, const infer_case *given,
                             mlp_network **network, infer_result *result) {
    TRY(mlp_network_create(device, stream, given->model, given->precision, given->quantized,
                           given->batch, network));
    result->weight_bytes = mlp_network_weight_bytes(*network);
    snprintf(result->variants, sizeof result->variants, "%s", mlp_network_variants(*network));
    TRY(check(*network, given, result));
    result->passed = has_passed(given, result);
    if (!result->passed)
        return TDM_OK;
    TRY(time_pipelined(stream, *network, given, result));
    return time_waited(*network, given, result);
}

void infer_measure(tdm_device *device, const infer_case *given, infer_result *result) {
    memset(result, 0, sizeof *result);
    result->accuracy = NAN;
    result->difference = NAN;
    result->memory.struct_size = sizeof result->memory;
    tdm_stream *stream = NULL;
    mlp_network *network = NULL;
    result->status = tdm_device_reset_peaks(device);
    if (result->status == TDM_OK)
        result->status = tdm_stream_create(device, &stream);
    if (result->status == TDM_OK)
        result->status = measure_on(device, stream, given, &network, result);
    if (result->status == TDM_OK)
        result->status = tdm_device_memory_stats(device, &result->memory);
    if (result->status != TDM_OK)
        snprintf(result->reason, sizeof result->reason, "%s: %s", tdm_status_text(result->status),
                 tdm_last_detail());
    mlp_network_destroy(network);
    tdm_stream_destroy(stream);
}

void infer_skip(infer_result *result, const char *reason) {
    memset(result, 0, sizeof *result);
    result->accuracy = NAN;
    result->difference = NAN;
    result->skipped = 1;
    snprintf(result->reason, sizeof result->reason, "skipped, as %s", reason);
}

void infer_result_release(infer_result *result) {
    series_release(&result->pipelined);
    series_release(&result->waited);
}
