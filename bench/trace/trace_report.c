#include "bench/trace/trace_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "bench/record/results_json.h"
#include "common/command/cli_options.h"
#include "common/table_print.h"

enum {
    TAGS_SHOWN = 16,
    TRACE_FACTS = 8,
    REPLAY_FACTS = 9
};

/* One fact, for both forms; NaN where there is none. */
typedef struct trace_fact {
    const char *key, *name, *unit;
    double value;
} trace_fact;

static void trace_facts(const trace_data *trace, trace_fact *facts) {
    const trace_figures figures = trace_summarize(trace);
    const trace_fact filled[TRACE_FACTS] = {
        {"events", "events", "", (double)trace->event_count},
        {"allocations", "allocations", "", (double)figures.allocs},
        {"live_at_end", "never freed", "", (double)figures.live_at_end},
        {"streams", "streams", "", trace->streams},
        {"seconds", "time", "s", figures.seconds},
        {"live_blocks_peak", "live blocks at most", "", (double)figures.live_peak},
        {"requested_peak", "requested at most", "B", (double)figures.requested_peak},
        {"lower_bound", "lower bound", "B", (double)trace_lower_bound(trace)},
    };
    memcpy(facts, filled, sizeof filled);
}

static void replay_facts(const replay_result *replay, trace_fact *facts) {
    const trace_fact filled[REPLAY_FACTS] = {
        {"peak_reserved", "reserved at most", "B", (double)replay->peak_reserved},
        {"reserved_over_bound", "reserved / lower bound", "", replay_ratio(replay)},
        {"native_allocations", "native allocations", "", (double)replay->native_allocations},
        {"failures", "refused", "", (double)replay->failures},
        {"first_failure", "first refused event", "",
         replay->first_failure > 0 ? (double)replay->first_failure : NAN},
        {"host_waits", "waits of the host", "", (double)replay->waits},
        {"stream_waits", "waits of a stream for another", "", (double)replay->orders},
        {"idle_s", "time the host waited", "s", replay->idle_seconds},
        {"ns_per_operation", "time of an operation", "ns",
         replay->operations > 0 ? 1e9 * replay->seconds / (double)replay->operations : NAN},
    };
    memcpy(facts, filled, sizeof filled);
}

/* ---- text --------------------------------------------------------------------------------------------- */

static void print_facts(const trace_fact *facts, int count) {
    for (int i = 0; i < count; i++) {
        const int is_bytes = strcmp(facts[i].unit, "B") == 0;
        if (!isfinite(facts[i].value))
            continue;
        if (is_bytes)
            printf("  %-30s %.1f KiB\n", facts[i].name, facts[i].value / 1024);
        else
            printf("  %-30s %.10g %s\n", facts[i].name, facts[i].value, facts[i].unit);
    }
}

typedef struct named_use {
    const char *name;
    trace_tag_use use;
} named_use;

static int by_bytes(const void *a, const void *b) {
    const named_use *const left = a;
    const named_use *const right = b;
    if (left->use.bytes_at_peak != right->use.bytes_at_peak)
        return left->use.bytes_at_peak < right->use.bytes_at_peak ? 1 : -1;
    return strcmp(left->name, right->name);
}

/* Tags that allocated something, those with most at the peak first. NULL when memory is short. */
static named_use *tags_by_size(const trace_data *trace, size_t *count) {
    trace_tag_use *const uses = calloc(trace->tag_count + 1, sizeof *uses);
    named_use *const named = calloc(trace->tag_count + 1, sizeof *named);
    *count = 0;
    if (uses == NULL || named == NULL || trace_tag_uses(trace, uses) != 0) {
        free(uses);
        free(named);
        return NULL;
    }
    for (size_t i = 0; i <= trace->tag_count; i++)
        if (uses[i].allocs > 0)
            named[(*count)++] =
                (named_use){.name = i == 0 ? "(no tag)" : trace->tags[i - 1], .use = uses[i]};
    free(uses);
    qsort(named, *count, sizeof *named, by_bytes);
    return named;
}

static void print_tags(const named_use *tags, size_t count) {
    text_table *const table = table_create("tag|>allocations|>KiB at the peak of all");
    for (size_t i = 0; i < count && i < TAGS_SHOWN; i++) {
        table_cell(table, "%s", file_printable(tags[i].name).text);
        table_cell(table, "%zu", tags[i].use.allocs);
        table_cell(table, "%.1f", (double)tags[i].use.bytes_at_peak / 1024);
    }
    table_print(table, stdout);
    table_destroy(table);
    if (count > TAGS_SHOWN)
        printf("and %zu more tags\n", count - TAGS_SHOWN);
}

/* ---- JSON ---------------------------------------------------------------------------------------------- */

static void add_facts(cJSON *object, const trace_fact *facts, int count) {
    for (int i = 0; i < count; i++)
        results_put_number(object, facts[i].key, facts[i].value);
}

static cJSON *trace_json(const trace_data *trace, const trace_fact *facts, const named_use *tags,
                         size_t tag_count) {
    cJSON *const object = cJSON_CreateObject();
    results_put_text(object, "comment", trace->comment);
    add_facts(object, facts, TRACE_FACTS);
    cJSON *const list = cJSON_AddArrayToObject(object, "tags");
    for (size_t i = 0; i < tag_count; i++) {
        cJSON *const item = cJSON_CreateObject();
        results_put_text(item, "tag", file_printable(tags[i].name).text);
        results_put_number(item, "allocations", (double)tags[i].use.allocs);
        results_put_number(item, "bytes_at_peak", (double)tags[i].use.bytes_at_peak);
        cJSON_AddItemToArray(list, item);
    }
    return object;
}

int trace_report(const char *command, const trace_data *trace, const replay_result *replay,
                 const char *path) {
    trace_fact of_trace[TRACE_FACTS];
    trace_fact of_replay[REPLAY_FACTS];
    char hash[17] = "";
    size_t tag_count = 0;
    named_use *const tags = tags_by_size(trace, &tag_count);
    if (tags == NULL) {
        fprintf(stderr, "%s: out of memory\n", command);
        return CLI_EXIT_FAILED;
    }
    cJSON *const root = cJSON_CreateObject();
    results_put_text(root, "schema", "tandem-trace/1");
    cJSON_AddItemToObject(root, "library", results_library_json());
    trace_facts(trace, of_trace);
    cJSON_AddItemToObject(root, "trace", trace_json(trace, of_trace, tags, tag_count));
    if (replay != NULL) {
        cJSON *const replayed = cJSON_AddObjectToObject(root, "replay");
        replay_facts(replay, of_replay);
        add_facts(replayed, of_replay, REPLAY_FACTS);
        snprintf(hash, sizeof hash, "%016" PRIx64, replay_hash(replay));
        results_put_text(replayed, "decisions", hash);
    }
    if (path == NULL || strcmp(path, "-") != 0) {
        if (trace->comment[0] != '\0')
            puts(trace->comment);
        print_facts(of_trace, TRACE_FACTS);
        if (replay == NULL)
            print_tags(tags, tag_count);
        else {
            puts("replayed");
            print_facts(of_replay, REPLAY_FACTS);
            printf("  %-30s %s\n", "decisions", hash);
        }
    }
    const int failed = path != NULL && results_write_json(root, command, path) != 0;
    cJSON_Delete(root);
    free(tags);
    return failed ? CLI_EXIT_FAILED : CLI_EXIT_OK;
}
