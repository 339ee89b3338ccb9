#include "bench/predict/predict_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define FURTHEST_RATIO 64.0
#define SECONDS_PER_YEAR (365.25 * 24 * 3600)
#define JOULES_PER_KWH 3.6e6

const char *predict_limiter_name(predict_limiter limiter) {
    static const char *const names[] = {"launch", "compute", "main memory", "cache", "capacity"};
    return names[limiter];
}

double predict_cost_per_second(const predict_prices *prices) {
    const double energy = prices->watts * prices->pue * prices->tariff / JOULES_PER_KWH;
    const double device = prices->price / (prices->life_years * SECONDS_PER_YEAR * prices->use);
    if (isnan(device) || isnan(energy))
        return isnan(device) ? energy : device;
    return device + energy;
}

static predict_limiter memory_of(const predict_estimate *call) {
    return call->is_cached ? LIMIT_CACHE : LIMIT_MEMORY;
}

static predict_limiter limiter_of(const predict_estimate *call) {
    if (call->launch_s >= call->compute_s && call->launch_s >= call->memory_s)
        return LIMIT_LAUNCH;
    return call->compute_s >= call->memory_s ? LIMIT_COMPUTE : memory_of(call);
}

/* The times with main memory k times as fast. On a datasheet the lesser of two times hides behind the other. */
static void add_shares(const predict_run *run, double k, double seconds[PREDICT_LIMITERS]) {
    const int adds = run->profile->sheet == NULL;
    memset(seconds, 0, PREDICT_LIMITERS * sizeof *seconds);
    for (size_t i = 0; i < run->workload->operation_count; i++) {
        const predict_estimate *const call = &run->operations[i].call;
        const double count = run->workload->operations[i].count;
        const double memory_s = call->is_cached ? call->memory_s : call->memory_s / k;
        if (run->operations[i].refusal != NULL)
            continue;
        seconds[LIMIT_LAUNCH] += count * call->launch_s;
        if (adds || call->compute_s >= memory_s)
            seconds[LIMIT_COMPUTE] += count * call->compute_s;
        if (adds || call->compute_s < memory_s)
            seconds[memory_of(call)] += count * memory_s;
    }
    seconds[LIMIT_CAPACITY] = run->spill_s;
}

static predict_limiter greatest(const double seconds[PREDICT_LIMITERS]) {
    predict_limiter most = LIMIT_LAUNCH;
    for (int i = 1; i < PREDICT_LIMITERS; i++)
        most = seconds[i] > seconds[most] ? (predict_limiter)i : most;
    return most;
}

/* Where the greatest share passes from or to main memory, by halving the logarithm of the ratio. */
static double find_turn(const predict_run *run) {
    double seconds[PREDICT_LIMITERS];
    const int memory_first = run->limiter == LIMIT_MEMORY;
    double same = 1;
    double other = memory_first ? FURTHEST_RATIO : 1 / FURTHEST_RATIO;
    add_shares(run, other, seconds);
    if ((greatest(seconds) == LIMIT_MEMORY) == memory_first)
        return NAN;
    for (int step = 0; step < 60; step++) {
        const double middle = sqrt(same * other);
        add_shares(run, middle, seconds);
        if ((greatest(seconds) == LIMIT_MEMORY) == memory_first)
            same = middle;
        else
            other = middle;
    }
    return other;
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

static void fill_capacity(predict_run *run, double link_bytes_per_s) {
    const predict_profile *const profile = run->profile;
    const double link =
        isnan(profile->link_bytes_per_s) ? link_bytes_per_s : profile->link_bytes_per_s;
    double most = 0; /* of what the calls have beside their weights */
    for (size_t i = 0; i < run->workload->operation_count; i++) {
        const workload_operation *const each = &run->workload->operations[i];
        const double bytes = each->work.read_bytes + each->work.write_bytes - each->weight_bytes;
        most = fmax(most, bytes);
    }
    run->needed_bytes = run->workload->weight_bytes + run->workload->resident_bytes + most;
    run->usable_bytes = PREDICT_USABLE * profile->capacity_bytes;
    if (run->needed_bytes > run->usable_bytes)
        run->spill_s = (run->needed_bytes - run->usable_bytes) / link;
}

static void fill_bounds(predict_run *run) {
    const predict_workload *const workload = run->workload;
    const double speed = predict_read_speed(run->profile, INFINITY);
    const double peak = predict_peak(run->profile, workload->weights);
    double elements = 0;
    run->tokens_per_s = workload->tokens / run->seconds;
    run->decode_bound = run->turning_batch = NAN;
    for (size_t i = 0; i < workload->operation_count; i++) {
        const workload_operation *const each = &workload->operations[i];
        elements += each->weight_bytes > 0 ? each->count * each->work.n * each->work.k : 0;
    }
    if (!(elements > 0))
        return;
    /* Where P operations for each of two numbers take as long as the bytes of a weight. */
    run->turning_batch = peak * (workload->weight_bytes / elements) / (2 * speed);
    if (workload->tokens == workload->batch)
        run->decode_bound = workload->batch * speed / (workload->weight_bytes + workload->kv_bytes);
}

void predict_run_fill(predict_run *run, const predict_profile *profile,
                      const predict_workload *workload, double link_bytes_per_s,
                      const predict_prices *prices) {
    predict_prices paid = *prices;
    *run = (predict_run){.profile = profile, .workload = workload};
    fill_capacity(run, link_bytes_per_s);
    fill_operations(run);
    add_shares(run, 1, run->shares);
    run->limiter = greatest(run->shares);
    run->turn = find_turn(run);
    run->seconds = run->refused > 0 ? NAN : run->seconds + run->spill_s;
    fill_bounds(run);
    if (isnan(paid.watts))
        paid.watts = profile->watts;
    run->joules = paid.watts * run->seconds;
    run->cost = predict_cost_per_second(&paid) * run->seconds;
}
