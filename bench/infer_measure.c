#include "bench/infer_measure.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

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

double infer_flops(const infer_case *given) {
    return 2.0 * (double)given->batch * (double)mlp_model_parameters(given->model);
}

/* ---- right answers ---- */

/* One batch from upload to logits. */
static tdm_status run_batch(mlp_network *network) {
    TRY(mlp_network_upload(network));
    TRY(mlp_network_forward(network));
    return mlp_network_read(network);
}

/* Samples [begin, begin + rows) as one batch; compares those that the reference has. */
static tdm_status check_batch(mlp_network *network, const infer_case *given, int64_t begin,
                              int64_t rows, int64_t *next_reference, int64_t *right,
                              mlp_agreement *agreement) {
    const mlp_samples *const samples = given->samples;
    const mlp_reference *const reference = given->reference;
    mlp_network_stage(network, samples->inputs + begin * samples->width, rows);
    TRY(run_batch(network));
    const float *const logits = mlp_network_logits(network);
    for (int64_t row = 0; row < rows; row++) {
        const float *const own = logits + row * reference->outputs;
        const int64_t index = *next_reference;
        if (index < reference->row_count && reference->rows[index] == begin + row) {
            mlp_agreement_add(agreement, reference, index, own);
            ++*next_reference;
        }
        if (samples->labels)
            *right += mlp_argmax(own, reference->outputs) == samples->labels[begin + row];
    }
    return TDM_OK;
}

/* Without labels only samples that the reference has are worth a run. */
static int worth_a_run(const infer_case *given, int64_t begin, int64_t rows, int64_t reference) {
    if (given->samples->labels)
        return 1;
    return reference < given->reference->row_count &&
           given->reference->rows[reference] < begin + rows;
}

static tdm_status check(mlp_network *network, const infer_case *given, infer_result *result) {
    const int64_t count = given->samples->count;
    int64_t next_reference = 0;
    int64_t right = 0;
    for (int64_t begin = 0; begin < count; begin += given->batch) {
        const int64_t rows = count - begin < given->batch ? count - begin : given->batch;
        if (worth_a_run(given, begin, rows, next_reference))
            TRY(check_batch(network, given, begin, rows, &next_reference, &right,
                            &result->agreement));
    }
    result->accuracy = given->samples->labels ? (double)right / (double)count : NAN;
    return TDM_OK;
}

/* ---- times ---- */

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
    return (stopping_rule){.minimum_samples = 5,
                           .maximum_samples = 1000,
                           .minimum_seconds = 0.5 * seconds,
                           .maximum_seconds = seconds,
                           .small_spread = 0.02};
}

/* Samples of at least 5 ms, so that the one wait in each hardly counts. */
static tdm_status time_pipelined(tdm_stream *stream, mlp_network *network, const infer_case *given,
                                 infer_result *result) {
    const stopping_rule rule = rule_of(given->seconds);
    int64_t passes = 1;
    double seconds;
    TRY(run_passes(stream, network, passes, &seconds));
    while (seconds < 0.005 && passes < 4096) {
        passes *= 2;
        TRY(run_passes(stream, network, passes, &seconds));
    }
    do {
        /* A device so slow that one pass fills the time has been timed already. */
        if (seconds < rule.maximum_seconds || result->pipelined.count > 0)
            TRY(run_passes(stream, network, passes, &seconds));
        if (series_add(&result->pipelined, seconds / (double)passes, seconds))
            return TDM_OUT_OF_HOST_MEMORY;
    } while (!series_done(&result->pipelined, &rule));
    return TDM_OK;
}

static tdm_status time_waited(mlp_network *network, const infer_case *given, infer_result *result) {
    const stopping_rule rule = rule_of(given->seconds);
    do {
        const double start = seconds_now();
        TRY(run_batch(network));
        const double seconds = seconds_now() - start;
        if (series_add(&result->waited, seconds, seconds))
            return TDM_OUT_OF_HOST_MEMORY;
    } while (!series_done(&result->waited, &rule));
    return TDM_OK;
}

/* ---- one measurement ---- */

static int passes(const infer_case *given, const infer_result *result) {
    const double recorded = given->model->recorded_accuracy;
    if (result->agreement.rows == 0 || result->agreement.max_share > 1.0)
        return 0;
    return !given->all_samples || isnan(recorded) || isnan(result->accuracy) ||
           result->accuracy >= recorded - INFER_ACCURACY_SLACK - 1e-9;
}

static tdm_status measure_on(tdm_device *device, tdm_stream *stream, const infer_case *given,
                             mlp_network **network, infer_result *result) {
    TRY(mlp_network_create(device, stream, given->model, given->dtype, given->batch, network));
    result->weight_bytes = mlp_network_weight_bytes(*network);
    snprintf(result->variants, sizeof result->variants, "%s", mlp_network_variants(*network));
    TRY(check(*network, given, result));
    result->passed = passes(given, result);
    if (!result->passed)
        return TDM_OK;
    TRY(time_pipelined(stream, *network, given, result));
    return time_waited(*network, given, result);
}

void infer_measure(tdm_device *device, const infer_case *given, infer_result *result) {
    memset(result, 0, sizeof *result);
    result->accuracy = NAN;
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

void infer_result_release(infer_result *result) {
    series_release(&result->pipelined);
    series_release(&result->waited);
}
