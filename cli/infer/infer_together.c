#include "cli/infer/infer_together.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define TRY(expression)                                                                            \
    do {                                                                                           \
        const tdm_status try_status = (expression);                                                \
        if (try_status != TDM_OK)                                                                  \
            return try_status;                                                                     \
    } while (0)

/* What the threads of one pass share. */
typedef struct shared_pass {
    const infer_case *given;
    atomic_llong next; /* first sample that nobody has taken */
    int64_t end;       /* samples of all passes, one after the other */
    int64_t *answers;  /* by sample, -1: none; NULL: a pass that is timed alone */
} shared_pass;

typedef struct party_thread {
    infer_party *party;
    shared_pass *pass;
    tdm_stream *stream;
    mlp_network *network;
    pthread_t thread;
    int started;
} party_thread;

static double seconds_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

static void note_failure(infer_result *result) {
    if (result->status != TDM_OK)
        snprintf(result->reason, sizeof result->reason, "%s: %s", tdm_status_text(result->status),
                 tdm_last_detail());
}

/* ---- one device ---------------------------------------------------------------------------------- */

/* The reference's row of a sample, -1 where it has none; its rows ascend. */
static int64_t reference_row(const mlp_reference *reference, int64_t sample) {
    int64_t low = 0, high = reference->row_count;
    while (low < high) {
        const int64_t middle = low + (high - low) / 2;
        if (reference->rows[middle] < sample)
            low = middle + 1;
        else
            high = middle;
    }
    return low < reference->row_count && reference->rows[low] == sample ? low : -1;
}

static void compare(party_thread *own, int64_t begin, int64_t rows) {
    const mlp_reference *const reference = own->pass->given->reference;
    const float *const logits = mlp_network_logits(own->network);
    for (int64_t i = 0; i < rows; i++) {
        const float *const row = logits + i * reference->outputs;
        const int64_t index = reference_row(reference, begin + i);
        own->pass->answers[begin + i] = mlp_argmax(row, reference->outputs);
        if (index >= 0)
            mlp_agreement_add(&own->party->result.agreement, reference, index, row);
    }
}

static int64_t batches_of(const infer_case *given) {
    return (given->samples->count + given->batch - 1) / given->batch;
}

static tdm_status run_batch(party_thread *own, int64_t number) {
    const infer_case *const given = own->pass->given;
    const int64_t begin = number * given->batch, left = given->samples->count - begin;
    const int64_t rows = left < given->batch ? left : given->batch;
    mlp_network_stage(own->network, given->samples->inputs + begin * given->samples->width, rows);
    TRY(mlp_network_upload(own->network));
    TRY(mlp_network_forward(own->network));
    TRY(mlp_network_read(own->network));
    own->party->images += rows;
    if (own->pass->answers)
        compare(own, begin, rows);
    return TDM_OK;
}

/* The next batch that nobody has; *took is 0 when there is none left. */
static tdm_status take_batch(party_thread *own, int *took) {
    const int64_t turn = atomic_fetch_add(&own->pass->next, 1);
    *took = turn < own->pass->end;
    return *took ? run_batch(own, turn % batches_of(own->pass->given)) : TDM_OK;
}

static void *run_party(void *argument) {
    party_thread *const own = argument;
    infer_result *const result = &own->party->result;
    int took = 1;
    while (result->status == TDM_OK && took)
        result->status = take_batch(own, &took);
    note_failure(result);
    return NULL;
}

static void open_party(const infer_case *given, party_thread *own) {
    infer_result *const result = &own->party->result;
    memset(result, 0, sizeof *result);
    own->party->images = 0;
    result->accuracy = result->difference = NAN;
    result->memory.struct_size = sizeof result->memory;
    result->status = tdm_device_reset_peaks(own->party->device);
    if (result->status == TDM_OK)
        result->status = tdm_stream_create(own->party->device, &own->stream);
    if (result->status == TDM_OK)
        result->status =
            mlp_network_create(own->party->device, own->stream, given->model, given->precision,
                               given->quantized, given->batch, &own->network);
    note_failure(result);
    if (result->status != TDM_OK)
        return;
    result->weight_bytes = mlp_network_weight_bytes(own->network);
    snprintf(result->variants, sizeof result->variants, "%s", mlp_network_variants(own->network));
}

static void close_party(infer_party *party, const party_thread *own) {
    infer_result *const result = &party->result;
    if (result->status == TDM_OK) {
        result->status = tdm_device_memory_stats(party->device, &result->memory);
        note_failure(result);
    }
    mlp_network_destroy(own->network);
    tdm_stream_destroy(own->stream);
}

/* ---- all of them ----------------------------------------------------------------------------------- */

/* Whoever takes which batch later: every device is compared in one. */
static void check_each(const infer_case *given, infer_together *together, party_thread *threads,
                       int64_t *answers) {
    shared_pass pass = {.given = given, .answers = answers};
    for (int i = 0; i < together->party_count; i++) {
        infer_result *const result = &together->parties[i].result;
        threads[i].pass = &pass;
        result->status = run_batch(&threads[i], i % batches_of(given));
        note_failure(result);
        threads[i].pass = NULL;
    }
}

/* `passes` over the samples by all devices; its seconds. */
static double run_passes(const infer_case *given, party_thread *threads, int count, int64_t passes,
                         int64_t *answers) {
    shared_pass pass = {.given = given, .end = passes * batches_of(given), .answers = answers};
    const double begin = seconds_now();
    for (int i = 0; i < count; i++) {
        infer_party *const party = threads[i].party;
        threads[i].pass = &pass;
        party->images = 0;
        threads[i].started = pthread_create(&threads[i].thread, NULL, run_party, &threads[i]) == 0;
        if (!threads[i].started) {
            party->result.status = TDM_OUT_OF_HOST_MEMORY;
            snprintf(party->result.reason, sizeof party->result.reason, "it has no thread");
        }
    }
    for (int i = 0; i < count; i++) {
        if (threads[i].started)
            pthread_join(threads[i].thread, NULL);
        threads[i].pass = NULL;
    }
    return seconds_now() - begin;
}

static void add_agreement(mlp_agreement *sum, const mlp_agreement *own) {
    sum->rows += own->rows;
    sum->same_class += own->same_class;
    sum->max_abs = fmax(sum->max_abs, own->max_abs);
    sum->max_rel = fmax(sum->max_rel, own->max_rel);
    sum->max_share = fmax(sum->max_share, own->max_share);
}

/* The first device that failed speaks for all; else what they agree on and hold together. */
static void gather(infer_together *together) {
    infer_result *const all = &together->all;
    for (int i = 0; i < together->party_count; i++) {
        const infer_result *const own = &together->parties[i].result;
        if (own->status != TDM_OK && all->status == TDM_OK) {
            all->status = own->status;
            snprintf(all->reason, sizeof all->reason, "%s", own->reason);
        }
        add_agreement(&all->agreement, &own->agreement);
        all->weight_bytes += own->weight_bytes;
        all->memory.allocated_peak += own->memory.allocated_peak;
        all->memory.reserved_peak += own->memory.reserved_peak;
    }
}

static int any_failed(const infer_together *together) {
    int failed = 0;
    for (int i = 0; i < together->party_count; i++)
        failed |= together->parties[i].result.status != TDM_OK;
    return failed;
}

static int64_t passes_for(double seconds, double one_pass) {
    const double wanted = ceil(seconds / fmax(one_pass, 1e-6));
    return wanted < 1.0 ? 1 : wanted > 1000.0 ? 1000 : (int64_t)wanted;
}

static void measure_with(const infer_case *given, infer_together *together, party_thread *threads,
                         int64_t *answers) {
    const int count = together->party_count;
    check_each(given, together, threads, answers);
    if (any_failed(together))
        return;
    const double first = run_passes(given, threads, count, 1, answers);
    if (any_failed(together))
        return;
    infer_count_answers(given, answers, &together->all);
    const int64_t passes = passes_for(given->seconds, first);
    const double seconds = run_passes(given, threads, count, passes, NULL);
    if (!any_failed(together) &&
        series_add(&together->all.waited, seconds / (double)passes, seconds))
        together->all.status = TDM_OUT_OF_HOST_MEMORY;
}

void infer_together_measure(const infer_case *given, infer_together *together) {
    party_thread threads[INFER_MAX_PARTIES] = {{0}};
    const size_t samples = (size_t)given->samples->count;
    int64_t *const answers = malloc(samples * sizeof *answers);
    memset(&together->all, 0, sizeof together->all);
    together->all.accuracy = together->all.difference = NAN;
    if (!answers) {
        together->all.status = TDM_OUT_OF_HOST_MEMORY;
        return;
    }
    memset(answers, 0xff, samples * sizeof *answers);
    for (int i = 0; i < together->party_count; i++) {
        threads[i].party = &together->parties[i];
        open_party(given, &threads[i]);
    }
    if (!any_failed(together))
        measure_with(given, together, threads, answers);
    for (int i = 0; i < together->party_count; i++)
        close_party(&together->parties[i], &threads[i]);
    gather(together);
    together->all.passed = together->all.status == TDM_OK && infer_passes(given, &together->all);
    free(answers);
}

void infer_together_release(infer_together *together) {
    infer_result_release(&together->all);
    for (int i = 0; i < together->party_count; i++)
        infer_result_release(&together->parties[i].result);
}
