#include "bench/predict/predict_run.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "bench/predict/predict_memory.h"

#define FURTHEST_RATIO 64.0

const char *predict_limiter_name(predict_limiter limiter) {
    static const char *const names[] = {"launch", "compute", "main memory", "cache", "capacity"};
    return names[limiter];
}

predict_level_name predict_limiter_level(const predict_profile *profile, predict_limiter limiter,
                                         int level) {
    predict_level_name name;
    if (limiter == LIMIT_CACHE && profile->has_levels && level > 0)
        snprintf(name.text, sizeof name.text, "L%d", level);
    else
        snprintf(name.text, sizeof name.text, "%s", predict_limiter_name(limiter));
    return name;
}

static predict_limiter limiter_of(const predict_estimate *call) {
    if (call->launch_s >= call->compute_s && call->launch_s >= call->memory_s)
        return LIMIT_LAUNCH;
    if (call->compute_s >= call->memory_s)
        return LIMIT_COMPUTE;
    return call->level == 0 ? LIMIT_MEMORY : LIMIT_CACHE;
}

/*
 * One operation: where main memory takes twice as long as arithmetic, main memory twice as fast is the turn; what the caches take
 * meanwhile stays.
 */
static double turn_of(const predict_estimate *call) {
    const double left = fmax(call->compute_s, call->launch_s) - (call->memory_s - call->main_s);
    const double ratio = call->main_s / left;
    return call->level == 0 && isfinite(ratio) && ratio > 0 ? ratio : NAN;
}

/* The times with main memory k times as fast; what it takes of a set that a cache serves too is its own. */
static void add_shares(const predict_run *run, double k, double seconds[PREDICT_LIMITERS]) {
    memset(seconds, 0, PREDICT_LIMITERS * sizeof *seconds);
    for (size_t i = 0; i < run->workload->operation_count; i++) {
        predict_estimate call = run->operations[i].call;
        if (run->operations[i].refusal != NULL)
            continue;
        call.memory_s += call.main_s / k - call.main_s;
        const double count = run->workload->operations[i].count;
        seconds[LIMIT_LAUNCH] += count * call.launch_s;
        if (call.adds || call.compute_s >= call.memory_s)
            seconds[LIMIT_COMPUTE] += count * call.compute_s;
        if (call.adds || call.compute_s < call.memory_s) {
            seconds[LIMIT_MEMORY] += count * call.main_s / k;
            seconds[LIMIT_CACHE] += count * (call.memory_s - call.main_s / k);
        }
    }
    seconds[LIMIT_CAPACITY] = run->spill_s;
}

/* Which caches take what the caches take: of a set that main memory serves, too, the last one. */
static void fill_cache_levels(predict_run *run) {
    for (size_t i = 0; i < run->workload->operation_count; i++) {
        const predict_estimate *const call = &run->operations[i].call;
        if (run->operations[i].refusal != NULL ||
            (!call->adds && call->compute_s >= call->memory_s))
            continue;
        run->cache_s[call->level > 0 ? call->level : run->profile->last_cache] +=
            run->workload->operations[i].count * (call->memory_s - call->main_s);
    }
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
        *item = (predicted_operation){.seconds = NAN, .turn = NAN};
        if (predict_time(run->profile, &source->work, &item->call, &run->refusals[i]) != 0) {
            item->refusal = run->refusals[i].text;
            run->refused++;
            continue;
        }
        item->seconds = source->count * item->call.seconds;
        item->limiter = limiter_of(&item->call);
        item->turn = turn_of(&item->call);
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
    run->spill_s =
        isnan(run->usable_bytes) ? 0 : predict_spill_s(run->needed_bytes, run->usable_bytes, link);
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
    run->turning_batch = predict_turning_batch(peak, workload->weight_bytes / elements, speed);
    if (workload->tokens == workload->batch)
        run->decode_bound = predict_decode_bound(workload->batch, speed, workload->weight_bytes,
                                                 workload->kv_bytes / workload->batch);
}

void predict_run_fill(predict_run *run, const predict_profile *profile,
                      const predict_workload *workload, double link_bytes_per_s,
                      const predict_prices *prices) {
    predict_prices paid = *prices;
    double before[PREDICT_LIMITERS];
    double all = 0;
    *run = (predict_run){.profile = profile, .workload = workload};
    fill_capacity(run, link_bytes_per_s);
    fill_operations(run);
    add_shares(run, 1, run->shares);
    fill_cache_levels(run);
    run->limiter = greatest(run->shares);
    run->turn = find_turn(run);
    run->seconds = run->refused > 0 ? NAN : run->seconds + run->spill_s;
    /* The share that main memory had before the scale. */
    add_shares(run, 1 / profile->bandwidth_scale, before);
    for (int i = 0; i < PREDICT_LIMITERS; i++)
        all += before[i];
    run->what_if = predict_what_if(before[LIMIT_MEMORY] / all, profile->bandwidth_scale);
    fill_bounds(run);
    if (isnan(paid.watts))
        paid.watts = profile->watts;
    run->joules = paid.watts * run->seconds;
    run->cost = predict_cost_per_second(&paid) * run->seconds;
}
