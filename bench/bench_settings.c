#include "bench/bench_settings.h"

#include <tandem/tandem.h>

#include "bench/device_pick.h"

int bench_settings_open(const char *command, const bench_settings *settings, const char *rate_name,
                        const bench_roofs *roofs, bench_device *device, bench_report *report) {
    tdm_context *context = NULL;
    if (results_check_path(command, settings->json) != 0)
        return CLI_EXIT_FAILED;
    const int code =
        device_pick(command, settings->device, &context, &device->index, &device->info);
    if (code != CLI_EXIT_OK)
        return code;
    tdm_context_destroy(context);
    const int failed = bench_report_open(report, rate_name, roofs, &device->info);
    return failed == 0 ? CLI_EXIT_OK : CLI_EXIT_FAILED;
}

void bench_device_write(const bench_device *device, worker_text *request) {
    worker_field_add_integer(request, "index", device->index);
    worker_field_add(request, "selector", device->info.selector);
}

bench_plan bench_settings_plan(const bench_settings *settings) {
    return (bench_plan){
        .rule = settings->quick ? &stopping_rule_quick : &stopping_rule_full,
        .max_samples = (size_t)settings->samples,
        .sample_seconds = settings->quick ? 0.001 : 0.02,
        .timeout_s = settings->timeout_s,
    };
}
