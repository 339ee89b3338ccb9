#include "bench/harness/bench_roof.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <tandem/dtype.h>

#include "bench/harness/bench_peers.h"
#include "common/command/cli_options.h"

enum {
    FMA_STEPS = 4096,
    QUICK_FMA_STEPS = 16 /* a memory checker takes a second for this many */
};

void bench_roofs_choose(bench_roofs *roofs, const char *list, int quick) {
    *roofs = (bench_roofs){.quick = quick};
    if (cli_list_has(list, "none"))
        return;
    if (cli_list_has(list, "compute"))
        roofs->roof[roofs->count++].computes = 1;
    if (cli_list_has(list, "memory"))
        roofs->count++;
}

void bench_roofs_enter(const bench_roofs *roofs, bench_contender *contenders) {
    for (int i = 0; i < roofs->count; i++) {
        bench_contender_self(&contenders[i], "tandem",
                             roofs->roof[i].computes ? "probe" : "memory");
        contenders[i].keeps_task = 1;
    }
}

bench_task bench_probe_task(const probe_case *item, const bench_device *device,
                            worker_text *request) {
    worker_text_set(request, "%s", "");
    probe_case_write(item, request);
    bench_device_write(device, request);
    return (bench_task){.request = request->text, .verify = probe_case_check, .user = item};
}

static bench_task reading_task(const memory_case *item, const bench_device *device,
                               worker_text *request) {
    worker_text_set(request, "%s", "");
    memory_case_write(item, request);
    bench_device_write(device, request);
    return (bench_task){.request = request->text, .verify = memory_case_check, .user = item};
}

void bench_roofs_prepare(bench_roofs *roofs, bench_contender *contenders, tdm_dtype arithmetic,
                         int64_t read_bytes, const bench_device *device) {
    for (int i = 0; i < roofs->count; i++) {
        bench_roof *const roof = &roofs->roof[i];
        roof->probe = (probe_case){.kind = PROBE_FMA,
                                   .dtype = arithmetic,
                                   .steps = roofs->quick ? QUICK_FMA_STEPS : FMA_STEPS,
                                   .seed = 1};
        roof->reading = (memory_case){
            .operation = MEMORY_READ, .bytes = (size_t)read_bytes, .threads = 1, .seed = 1};
        roof->task = roof->computes ? bench_probe_task(&roof->probe, device, &roof->request)
                                    : reading_task(&roof->reading, device, &roof->request);
        contenders[i].task = &roof->task;
    }
}

double bench_roof_rate(const bench_contender *contender) {
    const sample_series *const series = &contender->series;
    if (contender->status != RESULT_OK || !(contender->work > 0))
        return NAN;
    return contender->work / summarize_samples(series->values, series->count).median;
}

bench_result bench_probe_row(const probe_case *item, double work, char name[MAX_ROOF_NAME]) {
    const char *const dtype = tdm_dtype_name(item->dtype);
    snprintf(name, MAX_ROOF_NAME, "%s %s %lld steps", probe_arithmetic_name(item->dtype), dtype,
             (long long)item->steps);
    return (bench_result){
        .suite = "compute",
        .case_name = name,
        .dtype = dtype,
        .shape = {{"steps", (double)item->steps}},
        .mode = "pipelined",
        .packing = "none",
        .flops = work,
    };
}

bench_result bench_roof_row(const bench_roof *roof, double work, char name[MAX_ROOF_NAME]) {
    if (roof->computes)
        return bench_probe_row(&roof->probe, work, name);
    snprintf(name, MAX_ROOF_NAME, "scan %zu bytes", roof->reading.bytes);
    return (bench_result){
        .suite = "memory",
        .case_name = name,
        .shape = {{"bytes", (double)roof->reading.bytes}},
        .mode = "pipelined",
        .packing = "none",
        .bytes = work,
    };
}
