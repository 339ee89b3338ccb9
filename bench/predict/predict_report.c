#include "bench/predict/predict_report.h"

#include <math.h>

#include <cjson/cJSON.h>

#include "bench/predict/predict_memory.h"
#include "bench/record/results_json.h"
#include "common/plural.h"
#include "common/table_print.h"

void predict_source_text(const predict_profile *profile, char *text, size_t size) {
    if (profile->sheet != NULL && profile->launch_s > 0)
        snprintf(
            text, size,
            "datasheet, nothing was measured: the least time that its figures allow, with %.3g "
            "us a launch, as --launch says",
            1e6 * profile->launch_s);
    else if (profile->sheet != NULL)
        snprintf(text, size,
                 "datasheet, nothing was measured: the least time that its figures allow");
    else if (isnan(profile->error))
        snprintf(text, size, "measured, too few rows to know the error");
    else
        snprintf(text, size, "measured, mean error %.1f %% on %zu row%s kept out of the fit",
                 100 * profile->error, profile->held_out, plural_s(profile->held_out));
}

/* ---- for people ------------------------------------------------------------------------------------ */

static void print_errors(const predict_profile *profile, FILE *file) {
    for (size_t i = 0; i < profile->class_count; i++) {
        const predict_class *const each = &profile->classes[i];
        if (!isnan(each->error))
            fprintf(
                file,
                "    %s: %zu rows, mean error %.1f %%, at most %.1f %%, with its sign %+.1f %%\n",
                each->key, each->rows, 100 * each->error, 100 * each->worst, 100 * each->leaning);
    }
    if (profile->elsewhere > 0)
        fprintf(file,
                "    left out: %zu row%s, beside which the processors stood elsewhere or were not "
                "as fast as beside most\n",
                profile->elsewhere, plural_s(profile->elsewhere));
}

/* Which rows of reading were not taken, if any. */
static const char *left_out_text(const predict_profile *profile) {
    size_t elsewhere = 0;
    for (int i = 0; i < EVIDENCE_READINGS; i++)
        elsewhere += profile->evidence.groups[i].elsewhere;
    if (profile->main_elsewhere)
        return ", all of them with the processors elsewhere";
    return elsewhere > 0 ? ", without those with the processors elsewhere" : "";
}

/* Where the rows say more than one thing of main memory: what, and which of it was taken. */
static void print_contradiction(const predict_profile *profile, FILE *file) {
    char text[EVIDENCE_TEXT];
    memory_evidence_text(&profile->evidence, text, sizeof text);
    if (text[0] != '\0')
        fprintf(file,
                "  contradicts itself: %s. The prediction takes %.3g GB/s, the median of %zu row%s "
                "that only read%s\n",
                text, profile->main_bytes_per_s * 1e-9, profile->main_rows,
                plural_s(profile->main_rows), left_out_text(profile));
}

static void print_operations(const predict_run *run, FILE *file) {
    text_table *const table =
        table_create("operation|class|>count|>a call|>all|>compute|>memory|limited by|>turns at");
    for (size_t i = 0; i < run->workload->operation_count; i++) {
        const workload_operation *const source = &run->workload->operations[i];
        const predicted_operation *const item = &run->operations[i];
        table_cell(table, "%s", source->name);
        table_cell(table, "%s", item->call.key != NULL ? item->call.key : source->work.key);
        table_cell(table, "%.0f", source->count);
        if (item->refusal != NULL) {
            table_cell(table, "refused");
            table_end_row(table);
            continue;
        }
        table_duration(table, item->call.seconds);
        table_duration(table, item->seconds);
        table_duration(table, item->call.compute_s);
        table_duration(table, item->call.memory_s);
        table_cell(table, "%s",
                   predict_limiter_level(run->profile, item->limiter, item->call.level).text);
        if (isnan(item->turn))
            table_cell(table, "-");
        else
            table_cell(table, "%.2fx", item->turn);
    }
    table_print(table, file);
    table_destroy(table);
}

static void print_refusals(const predict_run *run, FILE *file) {
    for (size_t i = 0; i < run->workload->operation_count; i++) {
        if (run->operations[i].refusal != NULL)
            fprintf(file, "refused: %s: %s\n", run->workload->operations[i].name,
                    run->operations[i].refusal);
    }
}

static void print_capacity(const predict_run *run, FILE *file) {
    const double usable = run->usable_bytes / 1e9;
    const char *const by =
        run->profile->capacity_of_sheet ? "by its datasheet" : "by what the device told";
    fprintf(file, "memory: %.2f GB needed", run->needed_bytes / 1e9);
    if (isnan(run->usable_bytes))
        fprintf(file, ", how much there is is not known\n");
    else if (run->needed_bytes <= run->usable_bytes)
        fprintf(file, " of %.2f GB usable %s: it fits\n", usable, by);
    else if (isnan(run->spill_s))
        fprintf(file, " of %.2f GB usable %s: it does not fit; --host-link says at what cost\n",
                usable, by);
    else
        fprintf(
            file,
            " of %.2f GB usable %s: it does not fit, %.3g s of every pass bring the rest, %s%s\n",
            usable, by, run->spill_s,
            run->profile->link_memory == NULL ? "as --host-link says"
                                              : "as measured from memory that is ",
            run->profile->link_memory == NULL ? "" : run->profile->link_memory);
}

static void print_if_known(FILE *file, const char *format, double value) {
    if (isfinite(value))
        fprintf(file, format, value); // NOLINT(clang-diagnostic-format-nonliteral)
}

/* "19.69 ms", "15.68 s", "4.878 us" */
static void pass_text(double seconds, char *text, size_t size) {
    static const char *const units[] = {"s", "ms", "us", "ns"};
    double value = seconds;
    int unit = 0;
    for (; unit < 3 && value < 1; unit++)
        value *= 1000;
    snprintf(text, size, "%.4g %s", value, units[unit]);
}

/* ": L2 10 %, L3 30 %" behind the share of all caches, where the profile tells one from another. */
static void print_levels(const predict_run *run, double all, FILE *file) {
    const char *before = ":";
    for (int level = 1; level < PREDICT_LEVELS && run->profile->has_levels; level++) {
        if (!(run->cache_s[level] > 0))
            continue;
        fprintf(file, "%s L%d %.0f %%", before, level, 100 * run->cache_s[level] / all);
        before = " +";
    }
}

/* Of a sum that is known. */
static void print_time(const predict_run *run, FILE *file) {
    double all = 0;
    char pass[32];
    for (int i = 0; i < PREDICT_LIMITERS; i++)
        all += run->shares[i];
    pass_text(run->seconds, pass, sizeof pass);
    fprintf(file, "time of a pass: %s%s, limited by %s (", pass,
            run->profile->sheet != NULL ? " at least" : "", predict_limiter_name(run->limiter));
    for (int i = 0; i < PREDICT_LIMITERS; i++) {
        fprintf(file, "%s%s %.0f %%", i == 0 ? "" : ", ", predict_limiter_name((predict_limiter)i),
                100 * run->shares[i] / all);
        if (i == LIMIT_CACHE)
            print_levels(run, all, file);
    }
    fprintf(file, ")\n");
    if (isnan(run->turn))
        fprintf(file, "the limiter stays the same from 1/64 to 64 times the bandwidth\n");
    else
        fprintf(file, "the limiter changes at %.2f times the bandwidth of main memory\n",
                run->turn);
    if (run->profile->bandwidth_scale != 1)
        fprintf(file,
                "bandwidth scaled by %.3g: 1 / ((1 - f) + f / k) gives %.3f times the speed\n",
                run->profile->bandwidth_scale, run->what_if);
}

/* What a pass takes, and a token of those that it makes, if any. */
static void print_prices(const predict_run *run, FILE *file) {
    if (isfinite(run->joules)) {
        fprintf(file, "energy: %.4g J a pass", run->joules);
        print_if_known(file, ", %.3g J a token", run->joules / run->workload->tokens);
        fprintf(file, ", at %.4g W\n", run->joules / run->seconds);
    }
    if (isfinite(run->cost)) {
        fprintf(file, "cost: %.4g a pass", run->cost);
        print_if_known(file, ", %.3g a million tokens", 1e6 * run->cost / run->workload->tokens);
        fputc('\n', file);
    }
}

static void print_totals(const predict_run *run, FILE *file) {
    if (isfinite(run->seconds))
        print_time(run, file);
    else
        fprintf(file, "time of a pass: not known, as is what the rest takes that does not fit\n");
    print_if_known(file,
                   run->profile->sheet != NULL ? "tokens: at most %.1f per second\n"
                                               : "tokens: %.1f per second\n",
                   run->tokens_per_s);
    print_if_known(file, "bound of memory: %.1f tokens per second\n", run->decode_bound);
    print_if_known(file, "compute-bound from a batch of %.1f on\n", run->turning_batch);
    print_prices(run, file);
}

static void print_run(const predict_run *run, FILE *file) {
    char source[128];
    predict_source_text(run->profile, source, sizeof source);
    fprintf(file, "%s on %s%s\n  %s\n", run->workload->name,
            run->profile->sheet != NULL ? "the datasheet of " : "", run->profile->name, source);
    if (run->profile->above_sheet > 0)
        fprintf(file,
                "  %zu of its rows %s above the device's datasheet: the sheet, the clock or the "
                "measurement is wrong\n",
                run->profile->above_sheet, plural_are(run->profile->above_sheet));
    print_contradiction(run->profile, file);
    print_errors(run->profile, file);
    print_operations(run, file);
    print_refusals(run, file);
    print_capacity(run, file);
    if (run->refused == 0)
        print_totals(run, file);
    fprintf(file, "\n");
}

static int is_bound(const predict_run *run) {
    return run->profile->sheet != NULL;
}

/* What has no time is not compared, and a bound not with what was measured: it would always be the better choice. */
static int is_pareto(const predict_run *runs, size_t count, size_t index) {
    double seconds[16];
    double costs[16];
    size_t compared = 0;
    size_t own = 0;
    if (!isfinite(runs[index].seconds))
        return 0;
    for (size_t i = 0; i < count && compared < 16; i++) {
        if (is_bound(&runs[i]) != is_bound(&runs[index]))
            continue;
        own = i == index ? compared : own;
        seconds[compared] = runs[i].seconds;
        costs[compared++] = runs[i].cost;
    }
    return predict_is_pareto(seconds, costs, compared, own);
}

static const char *choice_text(const predict_run *runs, size_t count, size_t index) {
    const int has_cost = isfinite(runs[index].cost);
    if (!is_pareto(runs, count, index))
        return "";
    if (is_bound(&runs[index]))
        return has_cost ? "no datasheet is faster and cheaper" : "no datasheet is faster";
    return has_cost ? "nothing measured is faster and cheaper" : "nothing measured is faster";
}

/* How many times as fast as the first; a bound beside what was measured is the most that it may be, and the other way round. */
static void add_speed(text_table *table, const predict_run *first, const predict_run *run) {
    const double speed = first->seconds / run->seconds;
    if (is_bound(first) == is_bound(run) || !isfinite(speed))
        table_number(table, speed);
    else
        table_cell(table, "%s %.3g", is_bound(run) ? "at most" : "at least", speed);
}

static void add_pass(text_table *table, const predict_run *run) {
    char pass[32];
    if (!is_bound(run) || !isfinite(run->seconds)) {
        table_duration(table, run->seconds);
        return;
    }
    table_duration_text(run->seconds, pass, sizeof pass);
    table_cell(table, "at least %s", pass);
}

void predict_print(const predict_run *runs, size_t count, FILE *file) {
    for (size_t i = 0; i < count; i++)
        print_run(&runs[i], file);
    if (count < 2)
        return;
    text_table *const table = table_create("profile|known from|>a pass|>speed|>cost|best choice");
    for (size_t i = 0; i < count; i++) {
        const predict_run *const run = &runs[i];
        table_cell(table, "%s", run->profile->name);
        table_cell(table, "%s", is_bound(run) ? "datasheet" : "measured");
        add_pass(table, run);
        add_speed(table, &runs[0], run);
        if (isnan(run->cost))
            table_cell(table, "-");
        else
            table_cell(table, "%.3g", run->cost);
        table_cell(table, "%s", choice_text(runs, count, i));
    }
    table_print(table, file);
    table_destroy(table);
}

/* ---- for programs ---------------------------------------------------------------------------------- */

/* What the rows say of main memory, and what was taken. */
static cJSON *memory_json(const predict_profile *profile) {
    const memory_evidence *const evidence = &profile->evidence;
    const int contradicts = memory_evidence_contradicts(evidence);
    char text[EVIDENCE_TEXT];
    cJSON *const json = cJSON_CreateObject();
    memory_evidence_text(evidence, text, sizeof text);
    results_put_number(json, "taken_gbs", profile->main_bytes_per_s * 1e-9);
    cJSON_AddNumberToObject(json, "rows", (double)profile->main_rows);
    cJSON_AddBoolToObject(json, "rows_elsewhere", profile->main_elsewhere);
    results_put_number(json, "apart", evidence->apart);
    results_put_number(json, "apart_at_most", EVIDENCE_APART);
    cJSON_AddBoolToObject(json, "contradicts_itself", contradicts);
    results_put_text(json, "contradiction", contradicts ? text : NULL);
    cJSON *const kinds = cJSON_AddArrayToObject(json, "kinds");
    for (int i = 0; i < EVIDENCE_KINDS; i++) {
        const evidence_group *const group = &evidence->groups[i];
        if (group->rows == 0)
            continue;
        cJSON *const item = cJSON_CreateObject();
        results_put_text(item, "kind", memory_evidence_name((evidence_kind)i));
        results_put_number(item, "gbs", group->gbs);
        cJSON_AddNumberToObject(item, "rows", (double)group->rows);
        cJSON_AddNumberToObject(item, "rows_elsewhere", (double)group->elsewhere);
        cJSON_AddItemToArray(kinds, item);
    }
    return json;
}

static cJSON *profile_json(const predict_profile *profile) {
    cJSON *const json = cJSON_CreateObject();
    results_put_text(json, "name", profile->name);
    results_put_text(json, "known_from", profile->sheet != NULL ? "datasheet" : "measured");
    results_put_number(json, "launch_s", profile->launch_s);
    results_put_number(json, "read_gbs", predict_read_speed(profile, INFINITY) * 1e-9);
    results_put_number(json, "bandwidth_scale", profile->bandwidth_scale);
    results_put_number(json, "host_link_gbs", profile->link_bytes_per_s * 1e-9);
    results_put_text(json, "host_link_memory", profile->link_memory);
    results_put_number(json, "watts", profile->watts);
    results_put_number(json, "error", profile->error);
    cJSON_AddNumberToObject(json, "held_out", (double)profile->held_out);
    cJSON_AddNumberToObject(json, "rows_elsewhere", (double)profile->elsewhere);
    cJSON_AddNumberToObject(json, "rows_above_datasheet", (double)profile->above_sheet);
    if (profile->sheet == NULL)
        cJSON_AddItemToObject(json, "main_memory", memory_json(profile));
    cJSON *const classes = cJSON_AddArrayToObject(json, "classes");
    for (size_t i = 0; i < profile->class_count; i++) {
        const predict_class *const each = &profile->classes[i];
        cJSON *const item = cJSON_CreateObject();
        results_put_text(item, "class", each->key);
        cJSON_AddNumberToObject(item, "rows", (double)each->rows);
        results_put_number(item, "error", each->error);
        results_put_number(item, "worst", each->worst);
        results_put_number(item, "leaning", each->leaning);
        cJSON_AddItemToArray(classes, item);
    }
    return json;
}

static cJSON *operation_json(const predict_run *run, size_t index) {
    const workload_operation *const source = &run->workload->operations[index];
    const predicted_operation *const item = &run->operations[index];
    cJSON *const json = cJSON_CreateObject();
    results_put_text(json, "name", source->name);
    results_put_text(json, "class", source->work.key);
    results_put_text(json, "fitted_class", item->call.key);
    results_put_number(json, "count", source->count);
    results_put_number(json, "flops", source->work.flops);
    results_put_number(json, "bytes", source->work.read_bytes + source->work.write_bytes);
    results_put_number(json, "seconds", item->seconds);
    results_put_text(json, "refusal", item->refusal);
    if (item->refusal != NULL)
        return json;
    results_put_number(json, "call_s", item->call.seconds);
    results_put_number(json, "compute_s", item->call.compute_s);
    results_put_number(json, "memory_s", item->call.memory_s);
    results_put_number(json, "launch_s", item->call.launch_s);
    results_put_number(json, "memory_level", item->call.level);
    results_put_text(json, "limited_by",
                     predict_limiter_level(run->profile, item->limiter, item->call.level).text);
    results_put_text(json, "limiter", predict_limiter_name(item->limiter));
    results_put_number(json, "turning_bandwidth", item->turn);
    return json;
}

static cJSON *run_json(const predict_run *runs, size_t count, size_t index) {
    const predict_run *const run = &runs[index];
    cJSON *const json = cJSON_CreateObject();
    cJSON_AddItemToObject(json, "profile", profile_json(run->profile));
    cJSON *const operations = cJSON_AddArrayToObject(json, "operations");
    for (size_t i = 0; i < run->workload->operation_count; i++)
        cJSON_AddItemToArray(operations, operation_json(run, i));
    cJSON *const shares = cJSON_AddObjectToObject(json, "seconds_by_limiter");
    for (int i = 0; i < PREDICT_LIMITERS; i++)
        results_put_number(shares, predict_limiter_name((predict_limiter)i), run->shares[i]);
    results_put_number(json, "needed_bytes", run->needed_bytes);
    results_put_number(json, "usable_bytes", run->usable_bytes);
    const char *const by = run->profile->capacity_of_sheet ? "datasheet" : "device";
    results_put_text(json, "usable_by", isnan(run->usable_bytes) ? NULL : by);
    results_put_number(json, "spill_s", run->spill_s);
    results_put_number(json, "seconds", run->seconds);
    results_put_text(json, "limiter",
                     isfinite(run->seconds) ? predict_limiter_name(run->limiter) : NULL);
    results_put_number(json, "turning_bandwidth", isfinite(run->seconds) ? run->turn : NAN);
    results_put_number(json, "what_if_speedup", run->what_if);
    results_put_number(json, "tokens_per_s", run->tokens_per_s);
    results_put_number(json, "decode_bound_tokens_per_s", run->decode_bound);
    results_put_number(json, "turning_batch", run->turning_batch);
    results_put_number(json, "joules", run->joules);
    results_put_number(json, "joules_per_token", run->joules / run->workload->tokens);
    results_put_number(json, "cost", run->cost);
    results_put_number(json, "cost_per_million_tokens", 1e6 * run->cost / run->workload->tokens);
    cJSON_AddBoolToObject(json, "pareto", is_pareto(runs, count, index));
    return json;
}

cJSON *predict_json(const predict_run *runs, size_t count) {
    cJSON *const root = cJSON_CreateObject();
    results_put_text(root, "schema", "tandem-predict/1");
    cJSON_AddItemToObject(root, "library", results_library_json());
    results_put_text(root, "workload", runs[0].workload->name);
    results_put_text(root, "weights", runs[0].workload->weights);
    results_put_number(root, "batch", runs[0].workload->batch);
    results_put_number(root, "context", runs[0].workload->context);
    cJSON *const list = cJSON_AddArrayToObject(root, "predictions");
    for (size_t i = 0; i < count; i++)
        cJSON_AddItemToArray(list, run_json(runs, count, i));
    return root;
}
