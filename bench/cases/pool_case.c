#include "bench/cases/pool_case.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "bench/cases/case_fields.h"
#include "common/random_fill.h"

const char pool_order_names[] = "lifo|random|handover";
const char pool_trace_names[] = "inference|bare-inference";

static const char *const order_names[] = {"lifo", "random", "handover"};

static const case_field fields[] = {
    CASE_FIELD(pool_case, way, POOL_TANDEM, POOL_REPLAY),
    CASE_FIELD(pool_case, order, POOL_LIFO, POOL_HANDOVER),
    CASE_FIELD(pool_case, live, 1, POOL_MAX_LIVE),
    CASE_FIELD(pool_case, threads, 1, POOL_MAX_THREADS),
    CASE_FIELD(pool_case, pairs, 1, INT64_MAX),
    CASE_FIELD(pool_case, seed, INT64_MIN, INT64_MAX),
    CASE_FIELD(pool_case, small, 0, 1),
};

int pool_order_parse(const char *name, pool_order *order) {
    const int found = case_name_find(order_names, POOL_HANDOVER + 1, name);
    *order = (pool_order)(found < 0 ? 0 : found);
    return found < 0 ? -1 : 0;
}

void pool_case_name(const pool_case *item, char *name, size_t size) {
    if (item->way == POOL_REPLAY)
        snprintf(name, size, "trace %s", item->trace);
    else
        snprintf(name, size, "%s %" PRId64 " live, %" PRId64 " thread%s", order_names[item->order],
                 item->live, item->threads, item->threads == 1 ? "" : "s");
}

void pool_case_write(const pool_case *item, worker_text *line) {
    case_fields_write(fields, sizeof fields / sizeof *fields, item, line);
    worker_field_add(line, "trace", item->trace);
}

int pool_case_read(const char *line, pool_case *item) {
    worker_field(line, "trace", item->trace, sizeof item->trace);
    return case_fields_read(fields, sizeof fields / sizeof *fields, line, item) != 0 ||
                   item->live < item->threads
               ? -1
               : 0;
}

int64_t pool_case_live(const pool_case *item, int64_t thread) {
    return item->live / item->threads + (thread < item->live % item->threads);
}

int64_t pool_case_row(const pool_case *item, int64_t live) {
    if (item->order != POOL_LIFO)
        return item->pairs;
    const int64_t half = live / 2 > 0 ? live / 2 : 1;
    return half < item->pairs ? half : item->pairs;
}

uint64_t pool_case_operations(const pool_case *item) {
    uint64_t sum = 0;
    for (int64_t thread = 0; thread < item->threads; thread++) {
        const int64_t row = pool_case_row(item, pool_case_live(item, thread));
        sum += (uint64_t)(2 * row * ((item->pairs + row - 1) / row));
    }
    return sum;
}

/* Sizes run from 256 bytes to 64 KiB. Each octave between powers of two is equally likely. */
size_t pool_case_size(const pool_case *item, int64_t thread, uint64_t index) {
    const uint64_t bits = random_bits(item->seed + (uint64_t)thread, index);
    const size_t octave = (size_t)256 << (bits & 7);
    return octave + (size_t)((bits >> 8) % octave);
}

/* Chooses the settings of the suite's traces; docs/benchmarks.md lists them. */
int pool_case_trace(const pool_case *item, trace_data *trace) {
    trace_settings settings = TRACE_SETTINGS_INIT;
    settings.no_weights = strcmp(item->trace, "bare-inference") == 0;
    settings.steps = 64;
    if (!settings.no_weights && strcmp(item->trace, "inference") != 0)
        return -1;
    if (item->small) {
        settings.layers = 2;
        settings.steps = 2;
    }
    return trace_generate(&settings, trace);
}
