/*
 * Writes the output of `tandem predict`: tables for people, JSON (tandem-predict/1) for programs.
 */
#include <math.h>

#include <cjson/cJSON.h>

#include "bench/predict/predict_run.h"
#include "bench/record/results_json.h"
#include "common/table_print.h"

static int is_bound(const predict_run *run) {
    return run->profile->sheet != NULL;
}

/* ---- for people ------------------------------------------------------------------------------ */

/* Prints the source of the profile and its error. */
static void print_source(const predict_profile *profile, FILE *file) {
    if (profile->sheet != NULL)
        fprintf(file,
                "  datasheet, not measured: lower bound of the time from its peak rates, with %.3g "
                "us per launch\n",
                1e6 * profile->launch_s);
    else
        fprintf(file,
                "  measured, mean error %.1f %% over %zu rows, each predicted from the others\n",
                100 * profile->error, profile->compared);
}

/* Returns the class that a prediction uses, or would use if it were not refused. */
static const char *class_of(const predict_run *run, size_t index) {
    const predict_class *const measured = run->operations[index].call.measured;
    return measured != NULL ? measured->key : run->workload->operations[index].work.key;
}

static void print_operations(const predict_run *run, FILE *file) {
    text_table *const table =
        table_create("operation|class|>error|>count|>per call|>total|>compute|>memory|limited by");
    for (size_t i = 0; i < run->workload->operation_count; i++) {
        const workload_operation *const source = &run->workload->operations[i];
        const predicted_operation *const item = &run->operations[i];
        table_cell(table, "%s", source->name);
        table_cell(table, "%s", class_of(run, i));
        if (item->call.measured == NULL)
            table_cell(table, "-");
        else
            table_cell(table, "%.1f %%", 100 * item->call.measured->error);
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
        table_cell(table, "%s", predict_limiter_name(item->limiter));
    }
    table_print(table, file);
    table_destroy(table);
    for (size_t i = 0; i < run->workload->operation_count; i++) {
        if (run->operations[i].refusal != NULL)
            fprintf(file, "refused: %s: %s\n", run->workload->operations[i].name,
                    run->operations[i].refusal);
    }
}

static void print_capacity(const predict_run *run, FILE *file) {
    fprintf(file, "memory: %.2f GB needed", run->needed_bytes / 1e9);
    if (isnan(run->usable_bytes))
        fprintf(file, ", the device's memory is not known\n");
    else
        fprintf(file, " of %.2f GB usable: it %s\n", run->usable_bytes / 1e9,
                run->needed_bytes <= run->usable_bytes
                    ? "fits"
                    : "does not fit; the time assumes a device with enough memory");
}

static void print_if_known(FILE *file, const char *format, double value) {
    if (isfinite(value))
        fprintf(file, format, value); // NOLINT(clang-diagnostic-format-nonliteral)
}

static void print_time(const predict_run *run, FILE *file) {
    double all = 0;
    char pass[32];
    for (int i = 0; i < PREDICT_LIMITERS; i++)
        all += run->shares[i];
    table_duration_text(run->seconds, pass, sizeof pass);
    fprintf(file, "time per pass: %s%s, limited by %s (", pass, is_bound(run) ? " at least" : "",
            predict_limiter_name(run->limiter));
    for (int i = 0; i < PREDICT_LIMITERS; i++)
        fprintf(file, "%s%s %.0f %%", i == 0 ? "" : ", ", predict_limiter_name((predict_limiter)i),
                100 * run->shares[i] / all);
    fprintf(file, ")\n");
}

static void print_totals(const predict_run *run, FILE *file) {
    print_time(run, file);
    print_if_known(
        file, is_bound(run) ? "tokens: at most %.1f per second\n" : "tokens: %.1f per second\n",
        run->tokens_per_s);
    print_if_known(file, "limit by memory bandwidth: %.1f tokens per second\n", run->decode_bound);
    if (isfinite(run->joules)) {
        fprintf(file, "energy: %.4g J per pass", run->joules);
        print_if_known(file, ", %.3g J per token", run->joules / run->workload->tokens);
        fprintf(file, ", at %.4g W\n", run->joules / run->seconds);
    }
}

static void print_run(const predict_run *run, FILE *file) {
    fprintf(file, "%s on %s%s\n", run->workload->name, is_bound(run) ? "the datasheet of " : "",
            run->profile->name);
    print_source(run->profile, file);
    print_operations(run, file);
    print_capacity(run, file);
    if (run->refused == 0)
        print_totals(run, file);
    fprintf(file, "\n");
}

void predict_print(const predict_run *runs, size_t count, FILE *file) {
    for (size_t i = 0; i < count; i++)
        print_run(&runs[i], file);
    if (count < 2)
        return;
    text_table *const table = table_create("profile|source|>per pass|>speed");
    for (size_t i = 0; i < count; i++) {
        table_cell(table, "%s", runs[i].profile->name);
        table_cell(table, "%s", is_bound(&runs[i]) ? "datasheet" : "measured");
        table_duration(table, runs[i].seconds);
        table_number(table, runs[0].seconds / runs[i].seconds);
    }
    table_print(table, file);
    table_destroy(table);
}

/* ---- for programs ---------------------------------------------------------------------------- */

static cJSON *operation_json(const predict_run *run, size_t index) {
    const workload_operation *const source = &run->workload->operations[index];
    const predicted_operation *const item = &run->operations[index];
    cJSON *const json = cJSON_CreateObject();
    results_put_text(json, "name", source->name);
    results_put_text(json, "class", class_of(run, index));
    results_put_number(json, "seconds", item->seconds);
    results_put_text(json, "refusal", item->refusal);
    if (item->refusal == NULL)
        results_put_text(json, "limiter", predict_limiter_name(item->limiter));
    return json;
}

static cJSON *run_json(const predict_run *run) {
    cJSON *const json = cJSON_CreateObject();
    results_put_text(json, "profile", run->profile->name);
    results_put_text(json, "known_from", is_bound(run) ? "datasheet" : "measured");
    results_put_number(json, "error", run->profile->error);
    cJSON *const operations = cJSON_AddArrayToObject(json, "operations");
    for (size_t i = 0; i < run->workload->operation_count; i++)
        cJSON_AddItemToArray(operations, operation_json(run, i));
    results_put_number(json, "needed_bytes", run->needed_bytes);
    results_put_number(json, "usable_bytes", run->usable_bytes);
    results_put_number(json, "seconds", run->seconds);
    results_put_text(json, "limiter",
                     isfinite(run->seconds) ? predict_limiter_name(run->limiter) : NULL);
    results_put_number(json, "tokens_per_s", run->tokens_per_s);
    results_put_number(json, "joules", run->joules);
    return json;
}

cJSON *predict_json(const predict_run *runs, size_t count) {
    cJSON *const root = cJSON_CreateObject();
    results_put_text(root, "schema", "tandem-predict/1");
    results_put_text(root, "workload", runs[0].workload->name);
    cJSON *const list = cJSON_AddArrayToObject(root, "predictions");
    for (size_t i = 0; i < count; i++)
        cJSON_AddItemToArray(list, run_json(&runs[i]));
    return root;
}
