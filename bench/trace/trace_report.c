#include "bench/trace/trace_report.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "bench/record/results_json.h"
#include "common/cli_options.h"
#include "common/table_print.h"

/* The unit of the library's pool, where no replay says another. */
static const uint64_t usual_unit = 256;

enum {
    TAGS_SHOWN = 16
};

/* One fact of either kind, for both forms. */
typedef struct trace_fact {
    const char *key, *name, *unit;
    double value;
} trace_fact;

enum {
    TRACE_FACTS = 10,
    REPLAY_FACTS = 14
};

static void trace_facts(const trace_data *trace, uint64_t unit, trace_fact *facts) {
    const trace_figures figures = trace_summarize(trace);
    const trace_fact filled[TRACE_FACTS] = {
        {"events", "events", "", (double)trace->event_count},
        {"allocations", "allocations", "", (double)figures.allocs},
        {"live_at_end", "never freed", "", (double)figures.live_at_end},
        {"streams", "streams", "", trace->streams},
        {"seconds", "time", "s", figures.seconds},
        {"live_blocks_peak", "live blocks at most", "", (double)figures.live_peak},
        {"smallest", "smallest block", "B", (double)figures.smallest},
        {"largest", "largest block", "B", (double)figures.largest},
        {"requested_peak", "requested at most", "B", (double)figures.requested_peak},
        {"lower_bound", "lower bound", "B", (double)trace_lower_bound(trace, unit)},
    };
    memcpy(facts, filled, sizeof filled);
}

static void replay_facts(const replay_result *replay, trace_fact *facts) {
    const double ratio = replay_ratio(replay);
    const trace_fact filled[REPLAY_FACTS] = {
        {"unit", "unit of sizes", "B", (double)replay->unit},
        {"peak_reserved", "reserved at most", "B", (double)replay->peak_reserved},
        {"peak_allocated", "in blocks at most", "B", (double)replay->peak_allocated},
        {"reserved_over_bound", "reserved / lower bound", "x", ratio},
        {"fragmentation", "lost at the peak", "%", replay->failures > 0 ? NAN : 1 - 1 / ratio},
        {"native_allocations", "native allocations", "", (double)replay->native_allocations},
        {"native_frees", "native frees", "", (double)replay->native_frees},
        {"failures", "refused", "", (double)replay->failures},
        {"first_failure", "first refused event", "",
         replay->first_failure > 0 ? (double)replay->first_failure : NAN},
        {"retries", "retries", "", (double)replay->retries},
        {"host_waits", "waits of the host", "", (double)replay->waits},
        {"stream_waits", "waits of a stream for another", "", (double)replay->orders},
        {"idle_s", "time the host waited", "s", replay->idle_seconds},
        {"ns_per_operation", "time of an operation", "ns",
         replay->operations > 0 ? 1e9 * replay->seconds / (double)replay->operations : NAN},
    };
    memcpy(facts, filled, sizeof filled);
}

/* ---- text --------------------------------------------------------------------------------------------- */

static void print_bytes(double bytes, char *text, size_t size) {
    if (bytes < 10 * 1024)
        snprintf(text, size, "%.0f B", bytes);
    else if (bytes < 10 * 1024.0 * 1024)
        snprintf(text, size, "%.1f KiB", bytes / 1024);
    else
        snprintf(text, size, "%.1f MiB", bytes / (1024 * 1024));
}

static void print_fact(const trace_fact *fact) {
    char text[64];
    if (!isfinite(fact->value))
        return;
    if (strcmp(fact->unit, "B") == 0)
        print_bytes(fact->value, text, sizeof text);
    else if (strcmp(fact->unit, "%") == 0)
        snprintf(text, sizeof text, "%.1f %%", 100 * fact->value);
    else if (strcmp(fact->unit, "x") == 0)
        snprintf(text, sizeof text, "%.3f", fact->value);
    else if (strcmp(fact->unit, "s") == 0)
        snprintf(text, sizeof text, "%.6f s", fact->value);
    else
        snprintf(text, sizeof text, "%.0f%s%s", fact->value, fact->unit[0] == '\0' ? "" : " ",
                 fact->unit);
    printf("  %-30s %s\n", fact->name, text);
}

typedef struct named_use {
    const char *name;
    trace_tag_use use;
} named_use;

static int by_bytes_then(const void *a, const void *b) {
    const named_use *const left = a;
    const named_use *const right = b;
    if (left->use.bytes_then != right->use.bytes_then)
        return left->use.bytes_then < right->use.bytes_then ? 1 : -1;
    if (left->use.bytes_peak != right->use.bytes_peak)
        return left->use.bytes_peak < right->use.bytes_peak ? 1 : -1;
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
    qsort(named, *count, sizeof *named, by_bytes_then);
    return named;
}

static void print_tags(const named_use *tags, size_t count) {
    text_table *const table = table_create("tag|>allocations|>at most|>at the peak of all");
    char text[64];
    for (size_t i = 0; i < count && i < TAGS_SHOWN; i++) {
        table_cell(table, "%s", file_printable(tags[i].name).text);
        table_cell(table, "%zu", tags[i].use.allocs);
        print_bytes((double)tags[i].use.bytes_peak, text, sizeof text);
        table_cell(table, "%s", text);
        print_bytes((double)tags[i].use.bytes_then, text, sizeof text);
        table_cell(table, "%s", text);
    }
    table_print(table, stdout);
    table_destroy(table);
    if (count > TAGS_SHOWN)
        printf("and %zu more tags\n", count - TAGS_SHOWN);
}

static void print_text(const trace_data *trace, const replay_result *replay, const char *where,
                       const trace_fact *of_trace, const trace_fact *of_replay,
                       const named_use *tags, size_t tag_count) {
    if (trace->comment[0] != '\0')
        puts(trace->comment);
    for (int i = 0; i < TRACE_FACTS; i++)
        print_fact(&of_trace[i]);
    if (replay == NULL) {
        print_tags(tags, tag_count);
        return;
    }
    printf("replayed on %s\n", where);
    for (int i = 0; i < REPLAY_FACTS; i++)
        print_fact(&of_replay[i]);
    if (replay->decisions != NULL)
        printf("  %-30s %016" PRIx64 "\n", "decisions", replay_hash(replay));
}

/* ---- JSON ---------------------------------------------------------------------------------------------- */

static void add_facts(cJSON *object, const trace_fact *facts, int count) {
    for (int i = 0; i < count; i++)
        results_put_number(object, facts[i].key, facts[i].value);
}

static int write_json(const char *command, const trace_data *trace, const replay_result *replay,
                      const char *where, const trace_fact *of_trace, const trace_fact *of_replay,
                      const named_use *tags, size_t tag_count, const char *path) {
    cJSON *const root = cJSON_CreateObject();
    results_put_text(root, "schema", "tandem-trace/1");
    cJSON_AddItemToObject(root, "library", results_library_json());
    cJSON *const object = cJSON_AddObjectToObject(root, "trace");
    results_put_text(object, "comment", trace->comment);
    add_facts(object, of_trace, TRACE_FACTS);
    cJSON *const list = cJSON_AddArrayToObject(object, "tags");
    for (size_t i = 0; i < tag_count; i++) {
        cJSON *const item = cJSON_CreateObject();
        results_put_text(item, "tag", file_printable(tags[i].name).text);
        results_put_number(item, "allocations", (double)tags[i].use.allocs);
        results_put_number(item, "bytes_peak", (double)tags[i].use.bytes_peak);
        results_put_number(item, "bytes_at_peak", (double)tags[i].use.bytes_then);
        cJSON_AddItemToArray(list, item);
    }
    if (replay != NULL) {
        char hash[17];
        cJSON *const replayed = cJSON_AddObjectToObject(root, "replay");
        results_put_text(replayed, "on", where);
        add_facts(replayed, of_replay, REPLAY_FACTS);
        snprintf(hash, sizeof hash, "%016" PRIx64, replay_hash(replay));
        results_put_text(replayed, "decisions", replay->decisions != NULL ? hash : NULL);
    }
    const int failed = results_write_json(root, command, path);
    cJSON_Delete(root);
    return failed;
}

int trace_report(const char *command, const trace_data *trace, const replay_result *replay,
                 const char *where, const char *path) {
    trace_fact of_trace[TRACE_FACTS];
    trace_fact of_replay[REPLAY_FACTS] = {{.key = NULL}};
    size_t tag_count = 0;
    named_use *const tags = tags_by_size(trace, &tag_count);
    int failed = 0;
    if (tags == NULL) {
        fprintf(stderr, "%s: out of memory\n", command);
        return CLI_EXIT_FAILED;
    }
    trace_facts(trace, replay != NULL ? replay->unit : usual_unit, of_trace);
    if (replay != NULL)
        replay_facts(replay, of_replay);
    if (path == NULL || strcmp(path, "-") != 0)
        print_text(trace, replay, where, of_trace, of_replay, tags, tag_count);
    if (path != NULL)
        failed =
            write_json(command, trace, replay, where, of_trace, of_replay, tags, tag_count, path);
    free(tags);
    return failed ? CLI_EXIT_FAILED : CLI_EXIT_OK;
}
