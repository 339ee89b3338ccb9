#include "bench/predict/predict_run.h"

#include <math.h>
#include <stdio.h>

const char *predict_limiter_name(predict_limiter limiter) {
    static const char *const names[] = {"launch", "compute", "main memory", "cache"};
    return names[limiter];
}

static predict_limiter memory_of(const predict_estimate *call) {
    return call->is_cached ? LIMIT_CACHE : LIMIT_MEMORY;
}

static predict_limiter limiter_of(const predict_estimate *call) {
    if (call->launch_s >= call->compute_s && call->launch_s >= call->memory_s)
        return LIMIT_LAUNCH;
    return call->compute_s >= call->memory_s ? LIMIT_COMPUTE : memory_of(call);
}

/*
 * Adds the times of all operations to the shares of the limiters. For a measured profile, compute
 * and memory times add up. With a datasheet, the shorter of the two overlaps with the longer one,
 * and only the longer one counts.
 */
static void add_shares(predict_run *run) {
    const int adds = run->profile->sheet == NULL;
    for (size_t i = 0; i < run->workload->operation_count; i++) {
        const predict_estimate *const call = &run->operations[i].call;
        const double count = run->workload->operations[i].count;
        if (run->operations[i].refusal != NULL)
            continue;
        run->shares[LIMIT_LAUNCH] += count * call->launch_s;
        if (adds || call->compute_s >= call->memory_s)
            run->shares[LIMIT_COMPUTE] += count * call->compute_s;
        if (adds || call->compute_s < call->memory_s)
            run->shares[memory_of(call)] += count * call->memory_s;
    }
}

static predict_limiter greatest(const double seconds[PREDICT_LIMITERS]) {
    predict_limiter most = LIMIT_LAUNCH;
    for (int i = 1; i < PREDICT_LIMITERS; i++)
        most = seconds[i] > seconds[most] ? (predict_limiter)i : most;
    return most;
}

static void fill_operations(predict_run *run) {
    for (size_t i = 0; i < run->workload->operation_count; i++) {
        predicted_operation *const item = &run->operations[i];
        const workload_operation *const source = &run->workload->operations[i];
        *item = (predicted_operation){.seconds = NAN};
        if (predict_time(run->profile, &source->work, &item->call, &run->refusals[i]) != 0) {
            item->refusal = run->refusals[i].text;
            run->refused++;
            continue;
        }
        item->seconds = source->count * item->call.seconds;
        item->limiter = limiter_of(&item->call);
        run->seconds += item->seconds;
    }
}

static void fill_capacity(predict_run *run) {
    double most = 0; /* most bytes of a call besides its weights */
    for (size_t i = 0; i < run->workload->operation_count; i++) {
        const workload_operation *const each = &run->workload->operations[i];
        const double bytes = each->work.read_bytes + each->work.write_bytes - each->weight_bytes;
        most = fmax(most, bytes);
    }
    run->needed_bytes = run->workload->weight_bytes + run->workload->resident_bytes + most;
    run->usable_bytes = PREDICT_USABLE * run->profile->capacity_bytes;
}

/*
 * Returns the tokens per second that main memory allows for decoding, or NaN for other workloads. A
 * step reads all weights, and the keys and values of all sequences.
 */
static double decode_bound(const predict_run *run) {
    const predict_workload *const workload = run->workload;
    if (!(workload->weight_bytes > 0) || workload->tokens != workload->batch)
        return NAN;
    return workload->batch * predict_read_speed(run->profile, INFINITY) /
           (workload->weight_bytes + workload->kv_bytes);
}

void predict_run_fill(predict_run *run, const predict_profile *profile,
                      const predict_workload *workload) {
    *run = (predict_run){.profile = profile, .workload = workload};
    fill_capacity(run);
    fill_operations(run);
    add_shares(run);
    run->limiter = greatest(run->shares);
    run->seconds = run->refused > 0 ? NAN : run->seconds;
    run->tokens_per_s = workload->tokens / run->seconds;
    run->decode_bound = decode_bound(run);
    run->joules = profile->watts * run->seconds;
}
