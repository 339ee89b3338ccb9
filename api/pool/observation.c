/* Observation of a pool: opened with it, queried by the functions of the device. */
#include <limits.h>
#include <string.h>

#include "api/base/base.h"
#include "api/pool/monitor_page.h"
#include "api/pool/observation.h"
#include "api/pool/pool.h"

void tdm_observation_refresh(tdm_observation *observation) {
    tdm_memory_stats stats;
    tdm_pool_stats(observation->pool, &stats);
    tdm_pool_statistics_set_budget(observation->statistics, stats.budget);
}

tdm_status tdm_observation_open(tdm_pool *pool, const char *name, tdm_observation **observation) {
    *observation = NULL;
    tdm_observation *const opened = tdm_host_calloc(1, sizeof *opened);
    if (!opened)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "pool: no host memory for its statistics");
    opened->pool = pool;
    opened->section = tdm_monitor_section_open(name);
    const tdm_status status = tdm_pool_statistics_open(pool, opened->section, &opened->statistics);
    if (status != TDM_OK) {
        if (opened->section)
            tdm_monitor_section_close(opened->section);
        tdm_host_free(opened);
        return status;
    }
    tdm_observation_refresh(opened);
    tdm_pool_ring_init(&opened->ring, pool);
    *observation = opened;
    return TDM_OK;
}

void tdm_observation_close(tdm_observation *observation) {
    if (!observation)
        return;
    tdm_pool_ring_finish(&observation->ring);
    tdm_pool_statistics_close(observation->statistics);
    if (observation->section)
        tdm_monitor_section_close(observation->section);
    tdm_host_free(observation);
}

static tdm_memory_counter counter_of(const tdm_statistic_values *values, tdm_counter counter) {
    const uint64_t *const of = &values->words[4 * counter];
    return (tdm_memory_counter){
        .current = of[0], .peak = of[1], .allocated = of[2], .freed = of[3]};
}

static void count_free(void *user, const tdm_slab_view *slab, const tdm_range_view *range) {
    tdm_memory_report *const report = user;
    if (slab->adopted || range->state == TDM_RANGE_LIVE)
        return;
    report->free += range->bytes;
    if (range->bytes > report->largest_free)
        report->largest_free = range->bytes;
}

/* Brings the counters up to date. With several per-thread caches they lag behind. */
static void catch_up(const tdm_observation *observation) {
    if (observation->pool)
        tdm_pool_catch_up(observation->pool);
}

void tdm_observation_report(const tdm_observation *observation, tdm_memory_report *report) {
    tdm_statistic_values values;
    const uint64_t *const tallies = &values.words[(size_t)4 * TDM_COUNTERS];
    catch_up(observation);
    tdm_statistic_read(observation->statistics->shared, LONG_MAX, &values);
#define REPORT(name) report->name = counter_of(&values, TDM_COUNTER_##name);
    TDM_COUNTER_LIST(REPORT)
#undef REPORT
    report->retries = tallies[TDM_TALLY_retries];
    report->ooms = tallies[TDM_TALLY_failures];
    report->budget = tallies[TDM_TALLY_budget];
    const tdm_pool_visitor visitor = {.range = count_free, .user = report};
    report->free = report->largest_free = 0;
    if (observation->pool)
        tdm_pool_visit(observation->pool, &visitor);
    report->fragmentation =
        report->free ? 1.0 - (double)report->largest_free / (double)report->free : 0;
}

int tdm_observation_tags(const tdm_observation *observation, tdm_memory_tag_usage *usage,
                         int capacity) {
    tdm_memory_tag_usage one;
    int count = 0;
    catch_up(observation);
    while (tdm_statistic_read_tag(observation->statistics->shared, count, LONG_MAX, &one)) {
        if (count < capacity)
            usage[count] = one;
        count++;
    }
    return count;
}
