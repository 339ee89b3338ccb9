#include "bench/harness/bench_settings.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tandem/tandem.h>

#include "bench/harness/bench_peers.h"
#include "common/command/device_pick.h"

/* The sensors of the measured device, for the life of the process. */
static sensors *device_sensors;

/* The time at which the suite's budget ends; 0: no budget. */
static double suite_deadline_s;

/* The sampling time of a row, divided into as many turns as samples. */
static const double usual_patience_s = 0.2, quick_patience_s = 0.003;

/* Slow calls end the sampling after this many times the patience, even without all samples. */
static const double longest_patience = 15;

static double patience_of(const bench_settings *settings) {
    return settings->patience_s > 0 ? settings->patience_s
           : settings->quick        ? quick_patience_s
                                    : usual_patience_s;
}

/* Returns the stopping rule: a number of samples, and a time limit for slow calls. */
static stopping_rule rule_of(const bench_settings *settings) {
    const size_t samples = settings->samples > 0 ? (size_t)settings->samples
                           : settings->quick     ? 3
                                                 : 10;
    const double most = settings->quick ? 0.2 : longest_patience * patience_of(settings);
    return (stopping_rule){.samples = samples, .seconds = most};
}

static void record_conditions(const bench_settings *settings, results_document *document) {
    char sampling[128];
    const char *const tunables = getenv("GLIBC_TUNABLES"); /* ours if an earlier suite ran */
    snprintf(sampling, sizeof sampling, "%s, up to %zu samples, patience %g s",
             settings->quick ? "quick" : "full", rule_of(settings).samples, patience_of(settings));
    results_add_environment(document, "sampling", sampling);
    results_add_environment(document, "data_pattern", "random"); /* no suite has another pattern */
    results_add_environment_number(document, "data_seed", (double)settings->seed);
    results_add_environment(document, "sample", bench_sampling);
    results_add_environment(document, "malloc",
                            tunables == NULL || strcmp(tunables, bench_malloc_tunables) == 0
                                ? bench_malloc_tunables
                                : "as GLIBC_TUNABLES says");
    results_add_environment_number(document, "power_limit_w",
                                   sensors_power_limit_w(device_sensors));
}

int bench_suite_open(bench_suite *suite, const char *rate_name, const bench_roofs *roofs) {
    const bench_settings *const settings = suite->settings;
    bench_device *const device = &suite->device;
    tdm_context *context = NULL;
    suite_deadline_s = settings->budget_s > 0 ? bench_now() + settings->budget_s : 0;
    if (results_check_path(suite->command, settings->json) != 0)
        return CLI_EXIT_FAILED;
    const int code =
        device_pick(suite->command, settings->device, &context, &device->index, &device->info);
    if (code != CLI_EXIT_OK)
        return code;
    tdm_context_destroy(context);
    const int failed = bench_report_open(&suite->report, rate_name, roofs, &device->info);
    if (device_sensors == NULL)
        device_sensors = sensors_open(SENSORS_NVML, &device->info);
    record_conditions(settings, suite->report.document);
    return failed == 0 ? CLI_EXIT_OK : CLI_EXIT_FAILED;
}

void bench_suite_run(const bench_suite *suite, const bench_task *task, const char *label,
                     bench_contender *contenders, int count) {
    bench_plan plan = bench_settings_plan(suite->settings);
    plan.task = *task;
    plan.label = label;
    bench_run_case(&plan, contenders, count);
}

int bench_suite_close(bench_suite *suite, bench_contender *contenders, int count) {
    bench_contenders_release(contenders, count);
    return bench_report_close(&suite->report, suite->command, suite->settings->json);
}

bench_plan bench_settings_plan(const bench_settings *settings) {
    return (bench_plan){
        .rule = rule_of(settings),
        .turn_seconds = patience_of(settings) / (double)rule_of(settings).samples,
        .sensors = device_sensors,
        .timeout_s = settings->timeout_s,
        .deadline_s = suite_deadline_s,
    };
}
