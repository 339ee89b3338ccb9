/* Shows the pools of a process as bars and as JSON. */
#include "cli/monitor/monitor.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

enum {
    CELL_BYTES = 32,
    MIN_BAR = 10,
    MAX_BAR = 60,
    BAR_MARGIN = 34
};

static const char *const counter_names[] = {
#define NAME(name) #name,
    TDM_COUNTER_LIST(NAME)
#undef NAME
};

/* Writes a size such as "12.3 MiB" into `text`, and returns `text`. */
static const char *bytes_text(uint64_t bytes, char text[CELL_BYTES]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    int unit = 0;
    for (; value >= 1024 && unit < 4; unit++)
        value /= 1024;
    snprintf(text, CELL_BYTES, "%.*f %s", value < 100 && unit > 0 ? 1 : 0, value, units[unit]);
    return text;
}

static uint64_t current_of(const monitor_pool *pool, tdm_counter counter) {
    return pool->values.words[4 * counter];
}

static uint64_t peak_of(const monitor_pool *pool, tdm_counter counter) {
    return pool->values.words[4 * counter + 1];
}

static uint64_t tally_of(const monitor_pool *pool, tdm_tally tally) {
    return pool->values.words[4 * TDM_COUNTERS + (int)tally];
}

/* ---- the picture ----------------------------------------------------------------------------- */

static int share_of(uint64_t part, uint64_t whole, int width) {
    const double share = whole == 0 ? 0 : (double)part / (double)whole;
    return share >= 1 ? width : (int)(share * width + 0.5);
}

/* Draws '#' for allocated bytes, '=' for the rest of the reserved bytes, and '.' up to `whole`. */
static void draw_bar(FILE *file, uint64_t allocated, uint64_t reserved, uint64_t whole, int width) {
    const int live = share_of(allocated, whole, width);
    const int held = share_of(reserved, whole, width);
    fputc('[', file);
    for (int i = 0; i < width; i++)
        fputc(i < live ? '#' : i < held ? '=' : '.', file);
    fputc(']', file);
}

static int bar_width(int wide) {
    const int width = wide - BAR_MARGIN;
    return width < MIN_BAR ? MIN_BAR : width > MAX_BAR ? MAX_BAR : width;
}

static int by_bytes(const void *a, const void *b) {
    const uint64_t left = ((const tdm_memory_tag_usage *)a)->bytes;
    const uint64_t right = ((const tdm_memory_tag_usage *)b)->bytes;
    return (left < right) - (left > right);
}

static void draw_tags(FILE *file, const monitor_pool *pool, int wide, int limit) {
    tdm_memory_tag_usage sorted[TDM_STATISTIC_TAGS];
    const uint64_t whole = current_of(pool, TDM_COUNTER_allocated);
    char text[CELL_BYTES];
    memcpy(sorted, pool->tags, (size_t)pool->tag_count * sizeof *sorted);
    qsort(sorted, (size_t)pool->tag_count, sizeof *sorted, by_bytes);
    for (int i = 0; i < pool->tag_count && i < limit && sorted[i].bytes > 0; i++) {
        const uint64_t bytes = sorted[i].bytes;
        fputs("    ", file);
        draw_bar(file, bytes, bytes, whole, bar_width(wide) / 2);
        fprintf(file, " %10s  %" PRIu64 " blocks  %s\n", bytes_text(bytes, text), sorted[i].blocks,
                sorted[i].tag[0] != '\0' ? sorted[i].tag : "(no tag)");
    }
}

static void draw_pool(FILE *file, const monitor_pool *pool, int wide, int tags) {
    char now[CELL_BYTES];
    char most[CELL_BYTES];
    const uint64_t allocated = current_of(pool, TDM_COUNTER_allocated);
    const uint64_t reserved = current_of(pool, TDM_COUNTER_reserved);
    const uint64_t budget = tally_of(pool, TDM_TALLY_budget);
    fprintf(file, "  %s\n  ", pool->name);
    draw_bar(file, allocated, reserved, reserved > budget ? reserved : budget, bar_width(wide));
    fprintf(file, " budget %s\n", bytes_text(budget, now));
    for (int counter = TDM_COUNTER_requested; counter <= TDM_COUNTER_inactive_split; counter++)
        fprintf(file, "    %-14s %10s  peak %10s\n", counter_names[counter],
                bytes_text(current_of(pool, (tdm_counter)counter), now),
                bytes_text(peak_of(pool, (tdm_counter)counter), most));
    fprintf(file,
            "    %" PRIu64 " blocks in %" PRIu64 " slabs, %" PRIu64 " allocations, %" PRIu64
            " retries, %" PRIu64 " ooms\n",
            current_of(pool, TDM_COUNTER_blocks), current_of(pool, TDM_COUNTER_slabs),
            pool->values.words[4 * TDM_COUNTER_blocks + 2], tally_of(pool, TDM_TALLY_retries),
            tally_of(pool, TDM_TALLY_failures));
    draw_tags(file, pool, wide, tags);
}

void monitor_draw(FILE *file, const monitor_process *process, int wide, int tags) {
    fprintf(file, "%s, process %" PRIu64 ", Tandem %s\n", process->program, process->process,
            process->library);
    for (int i = 0; i < process->pool_count; i++)
        draw_pool(file, &process->pools[i], wide, tags);
}

/* ---- JSON ------------------------------------------------------------------------------------ */

static void put(cJSON *object, const char *name, uint64_t value) {
    cJSON_AddNumberToObject(object, name, (double)value);
}

static cJSON *tag_json(const tdm_memory_tag_usage *tag) {
    cJSON *const object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "tag", tag->tag);
    put(object, "bytes", tag->bytes);
    put(object, "bytes_peak", tag->bytes_peak);
    put(object, "blocks", tag->blocks);
    put(object, "blocks_peak", tag->blocks_peak);
    put(object, "allocations", tag->allocations);
    return object;
}

static cJSON *pool_json(const monitor_pool *pool) {
    cJSON *const object = cJSON_CreateObject();
    cJSON_AddStringToObject(object, "name", pool->name);
    cJSON *const statistics = cJSON_AddObjectToObject(object, "statistics");
    for (int counter = 0; counter < TDM_COUNTERS; counter++) {
        const uint64_t *const words = &pool->values.words[(size_t)4 * (size_t)counter];
        cJSON *const of = cJSON_AddObjectToObject(statistics, counter_names[counter]);
        put(of, "current", words[0]);
        put(of, "peak", words[1]);
        put(of, "allocated", words[2]);
        put(of, "freed", words[3]);
    }
    put(statistics, "retries", tally_of(pool, TDM_TALLY_retries));
    put(statistics, "ooms", tally_of(pool, TDM_TALLY_failures));
    put(statistics, "budget", tally_of(pool, TDM_TALLY_budget));
    cJSON *const tags = cJSON_AddArrayToObject(object, "tags");
    for (int i = 0; i < pool->tag_count; i++)
        cJSON_AddItemToArray(tags, tag_json(&pool->tags[i]));
    return object;
}

cJSON *monitor_json(const monitor_process *process) {
    cJSON *const object = cJSON_CreateObject();
    put(object, "process", process->process);
    cJSON_AddStringToObject(object, "program", process->program);
    cJSON_AddStringToObject(object, "library", process->library);
    cJSON *const pools = cJSON_AddArrayToObject(object, "pools");
    for (int i = 0; i < process->pool_count; i++)
        cJSON_AddItemToArray(pools, pool_json(&process->pools[i]));
    return object;
}
