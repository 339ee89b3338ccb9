/* The part of `tandem bench memory` that finds the caches: reading working sets of all sizes. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/analysis/cache_levels.h"
#include "bench/record/environment_record.h"
#include "bench/suites/bench_memory.h"

enum {
    LEAST_OF_UNIT = 4 << 10, /* bytes for each compute unit */
    CALL_OF_UNIT = 32 << 20, /* bytes that a call reads for each */
    LEAST_CALL = 256 << 20,
    QUICK_SHARE = 256 /* a quick run reads so much less */
};

typedef struct sweep_point {
    memory_case item;
    bench_entrant entrant; /* as the case left it; the worker is another's */
    double rate; /* GB/s of the fastest twentieth of samples: what disturbs only slows; 0: none */
} sweep_point;

static double units_in(const tdm_device_info *info) {
    return info->compute_units > 0 ? info->compute_units : 1;
}

static double units_of(const memory_run *run) {
    return units_in(&run->suite.device.info);
}

static int64_t amount_of(const memory_run *run) {
    const int64_t wanted = (int64_t)(CALL_OF_UNIT * units_of(run));
    const int64_t amount = wanted < LEAST_CALL ? LEAST_CALL : wanted;
    return run->options->settings.quick ? amount / QUICK_SHARE : amount;
}

/* Two points an octave: powers of two, and half as many again. */
static int choose_points(const memory_run *run, const memory_case *item, sweep_point *points) {
    int count = 0;
    size_t power = 4096;
    while ((double)power < LEAST_OF_UNIT * units_of(run))
        power *= 2;
    for (; power < item->bytes && count < CACHE_MAX_POINTS - 2; power *= 2) {
        const size_t sizes[] = {power, power + power / 2};
        for (int i = 0; i < 2 && sizes[i] < item->bytes; i++) {
            points[count].item = *item;
            points[count++].item.bytes = sizes[i];
        }
    }
    points[count].item = *item;
    return count + 1;
}

static void measure(memory_run *run, int waited, sweep_point *point) {
    char name[MEMORY_MAX_NAME];
    worker_text request = {.length = 0};
    bench_task task;
    bench_entrant *const entrant = &run->entrants[0];
    point->item.amount = amount_of(run);
    memory_case_name(&point->item, name);
    memory_task(run, &point->item, waited, &request, &task);
    bench_suite_run(&run->suite, &task, name, entrant, 1);
    if (entrant->status == RESULT_OK)
        point->rate = entrant->work * 1e-9 /
                      summarize_samples(entrant->series.values, entrant->series.count).p5;
    point->entrant = bench_entrant_hand_over(entrant);
}

/* All caches of a CPU that the system tells of; of other devices the last one, L2, at most. */
static cache_hints cache_hints_of(const tdm_device_info *info) {
    const int is_cpu = info->type == TDM_DEVICE_CPU;
    cache_hints hints = {.first = is_cpu ? 1 : 2};
    if (is_cpu)
        hints.count = environment_caches((int)units_in(info), hints.bytes, CACHE_MAX_LEVELS - 1);
    else if (info->cache_bytes > 0)
        hints.bytes[hints.count++] = (double)info->cache_bytes;
    return hints;
}

static void report_points(memory_run *run, int waited, sweep_point *points, int count,
                          const cache_level *levels, int level_count) {
    for (int i = 0; i < count; i++) {
        char name[MEMORY_MAX_NAME];
        bench_result row = memory_row(&points[i].item, waited, name);
        const int level = cache_level_of(levels, level_count, i);
        row.bytes = points[i].entrant.work;
        if (level_count > 0)
            row.metrics[0] = (result_number){"level", levels[level].number};
        bench_report_case(&run->suite.report, &row, &points[i].entrant, 1);
        bench_entrant_forget(&points[i].entrant);
    }
}

void memory_sweep(memory_run *run, const memory_case *item, int waited) {
    cache_point curve[CACHE_MAX_POINTS] = {{0, 0}};
    cache_level levels[CACHE_MAX_LEVELS];
    char text[256];
    sweep_point *const points = calloc(CACHE_MAX_POINTS, sizeof *points);
    if (points == NULL)
        return;
    const int count = choose_points(run, item, points);
    for (int i = 0; i < count; i++) {
        measure(run, waited, &points[i]);
        curve[i] = (cache_point){(double)points[i].item.bytes, points[i].rate};
    }
    const cache_hints hints = cache_hints_of(&run->suite.device.info);
    const int level_count = cache_levels_find(curve, count, &hints, levels);
    report_points(run, waited, points, count, levels, level_count);
    cache_levels_describe(levels, level_count, text, sizeof text);
    if (level_count > 0)
        results_add_environment(run->suite.report.document, "cache_levels", text);
    free(points);
}

void memory_task(const memory_run *run, const memory_case *item, int waited, worker_text *request,
                 bench_task *task) {
    worker_text_set(request, "%s", "");
    memory_case_write(item, request);
    bench_device_write(&run->suite.device, request);
    *task = (bench_task){
        .request = request->text,
        .verify = memory_case_check,
        .user = item,
        .waited = waited,
    };
}

bench_result memory_row(const memory_case *item, int waited, char name[MEMORY_MAX_NAME]) {
    memory_case_name(item, name);
    return (bench_result){
        .suite = "memory",
        .case_name = name,
        .dtype = memory_operation_is_kernel(item->operation) ? "f32" : NULL,
        .shape = {{"bytes", (double)item->bytes}},
        .mode = waited ? "waited" : "pipelined",
        .packing = "none",
        .bytes = memory_case_traffic(item),
    };
}
