#include "bench/harness/bench_roof.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include <tandem/dtype.h>

#include "bench/harness/bench_peers.h"
#include "common/command/cli_options.h"

enum {
    FMA_STEPS = 4096,
    QUICK_FMA_STEPS = 16 /* a checker takes a second for so many */
};

void bench_roofs_choose(bench_roofs *roofs, const char *list, int quick) {
    *roofs = (bench_roofs){.quick = quick};
    if (cli_list_has(list, "none"))
        return;
    if (cli_list_has(list, "compute"))
        roofs->roof[roofs->count++].item.kind = PROBE_FMA;
    if (cli_list_has(list, "memory"))
        roofs->roof[roofs->count++].item.kind = PROBE_READ;
}

void bench_roofs_enter(const bench_roofs *roofs, bench_entrant *entrants) {
    for (int i = 0; i < roofs->count; i++) {
        bench_entrant_self(&entrants[i], "tandem", "probe");
        entrants[i].keeps_task = 1;
    }
}

bench_task bench_probe_task(const probe_case *item, const bench_device *device,
                            worker_text *request) {
    worker_text_set(request, "%s", "");
    probe_case_write(item, request);
    bench_device_write(device, request);
    return (bench_task){.request = request->text, .verify = probe_case_check, .user = item};
}

void bench_roofs_prepare(bench_roofs *roofs, bench_entrant *entrants, tdm_dtype arithmetic,
                         int64_t read_bytes, const bench_device *device) {
    for (int i = 0; i < roofs->count; i++) {
        bench_roof *const roof = &roofs->roof[i];
        roof->item.dtype = arithmetic;
        roof->item.steps = roofs->quick ? QUICK_FMA_STEPS : FMA_STEPS;
        roof->item.bytes = read_bytes;
        roof->item.seed = 1;
        roof->task = bench_probe_task(&roof->item, device, &roof->request);
        entrants[i].task = &roof->task;
    }
}

double bench_roof_rate(const bench_entrant *entrant) {
    const sample_series *const series = &entrant->series;
    if (entrant->status != RESULT_OK || !(entrant->work > 0))
        return NAN;
    return entrant->work / summarize_samples(series->values, series->count).median;
}

bench_result bench_probe_row(const probe_case *item, double work, char name[MAX_PROBE_NAME]) {
    const int computes = probe_kind_computes(item->kind);
    const char *const dtype = tdm_dtype_name(item->dtype);
    bench_result row = {
        .suite = computes ? "compute" : "memory",
        .dtype = computes ? dtype : NULL,
        .mode = "pipelined",
        .packing = "none",
    };
    if (computes)
        snprintf(name, MAX_PROBE_NAME, "%s %s %lld steps", probe_arithmetic_name(item->dtype),
                 dtype, (long long)item->steps);
    else
        snprintf(name, MAX_PROBE_NAME, "scan %lld bytes", (long long)item->bytes);
    row.case_name = name;
    row.shape[0] = (result_number){computes ? "steps" : "bytes",
                                   (double)(computes ? item->steps : item->bytes)};
    row.flops = computes ? work : 0;
    row.bytes = computes ? 0 : work;
    return row;
}
