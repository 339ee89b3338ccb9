/*
 * These functions divide the budget of a weight stream between a ring and resident items. A deeper
 * ring evens out items of different sizes, and more resident items save copies. A virtual clock
 * predicts every depth. The depth with the fastest cycle is chosen, or the smallest of nearly equal
 * ones.
 */
#include "api/outofcore/weight_stream_internal.h"

/* The virtual clock simulates this many cycles over the list. The last one counts. */
#define CYCLES 3
/* A deeper ring must reduce the predicted time to this share. */
#define GAIN 0.99

static uint64_t largest_room(const tdm_weight_stream *o) {
    uint64_t largest = 0;
    for (int i = 0; i < o->count; i++)
        if (!o->entries[i].resident && o->entries[i].room > largest)
            largest = o->entries[i].room;
    return largest;
}

/* Chooses resident items that are evenly spread over the list and fit in the bytes that the ring
 * leaves of the budget. */
static void spread_residents(tdm_weight_stream *o, uint64_t bytes) {
    double total = 0.0, credit = 0.0;
    uint64_t used = 0;
    for (int i = 0; i < o->count; i++)
        total += (double)o->entries[i].room;
    for (int i = 0; i < o->count; i++) {
        tdm_weight_stream_entry *const entry = &o->entries[i];
        credit += total > 0.0 ? (double)bytes / total * (double)entry->room : 0.0;
        entry->resident = credit >= (double)entry->room && entry->room <= bytes - used;
        if (!entry->resident)
            continue;
        credit -= (double)entry->room;
        entry->offset = used;
        used += entry->room;
    }
    o->ring_at = used;
}

/* Divides the budget for a depth. Returns false if the budget has no room for a
 * ring of that depth. */
static bool divide_for(tdm_weight_stream *o, uint64_t budget, int depth) {
    uint64_t total = 0;
    for (int i = 0; i < o->count; i++) {
        o->entries[i].resident = false;
        total += o->entries[i].room;
    }
    if (total <= budget) {
        spread_residents(o, total);
        o->ring_bytes = 0;
        return true;
    }
    const uint64_t largest = largest_room(o);
    if (largest > budget / (uint64_t)(depth + 1))
        return false;
    o->ring_bytes = (uint64_t)(depth + 1) * largest;
    spread_residents(o, budget - o->ring_bytes);
    return true;
}

/* Returns the seconds of one cycle over the list in the steady state. */
static double cycle_time(const tdm_weight_stream *o, int depth, double rate, double use_s) {
    double loaded = 0.0, used = 0.0, start = 0.0;
    double freed[TDM_WEIGHT_STREAM_MAX_DEPTH + 1] = {0}; // when each slot of the ring was released
    int slot = 0;
    for (int cycle = 0; cycle < CYCLES; cycle++) {
        start = used;
        for (int i = 0; i < o->count; i++) {
            const tdm_weight_stream_entry *const entry = &o->entries[i];
            if (entry->resident) {
                used += use_s;
                continue;
            }
            loaded = (loaded > freed[slot] ? loaded : freed[slot]) + (double)entry->bytes / rate;
            used = (used > loaded ? used : loaded) + use_s;
            freed[slot] = used;
            slot = (slot + 1) % (depth + 1);
        }
    }
    return used - start;
}

static double mean_load(const tdm_weight_stream *o, double rate) {
    double bytes = 0.0;
    for (int i = 0; i < o->count; i++)
        bytes += (double)o->entries[i].bytes;
    return o->count > 0 ? bytes / rate / (double)o->count : 0.0;
}

tdm_status tdm_weight_stream_divide(tdm_weight_stream *o, const tdm_weight_stream_options *options,
                                    double rate) {
    const double use_s = options->use_s > 0.0 ? options->use_s : mean_load(o, rate);
    const int first = options->depth > 0 ? options->depth : 0,
              last = options->depth > 0 ? options->depth : TDM_WEIGHT_STREAM_MAX_DEPTH;
    int best = -1;
    for (int depth = first; depth <= last; depth++) {
        if (!divide_for(o, options->budget_bytes, depth))
            break;
        const double seconds = cycle_time(o, depth, rate, use_s);
        if (best >= 0 && seconds >= GAIN * o->stats.predicted_cycle_s)
            continue;
        best = depth;
        o->stats.predicted_cycle_s = seconds;
    }
    if (best < 0) {
        for (int i = 0; i < o->count; i++)
            o->entries[i].resident = false;
        return tdm_fail(TDM_OVER_BUDGET,
                        "weight_stream: the largest item needs %llu bytes with %d items "
                        "prefetched, budget_bytes is %llu",
                        (unsigned long long)largest_room(o), first,
                        (unsigned long long)options->budget_bytes);
    }
    divide_for(o, options->budget_bytes, best);
    o->stats.depth = best;
    o->stats.device_bytes = o->ring_at + o->ring_bytes;
    for (int i = 0; i < o->count; i++)
        o->stats.resident_items += o->entries[i].resident;
    return TDM_OK;
}
