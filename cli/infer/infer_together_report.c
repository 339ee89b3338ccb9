/* What `tandem infer --together` shows. */
#include <math.h>
#include <stdio.h>

#include "cli/infer/infer_report.h"
#include "cli/infer/infer_together.h"

static double megabytes(uint64_t bytes) {
    return 1e-6 * (double)bytes;
}

static int64_t timed_images(const infer_together *together) {
    int64_t images = 0;
    for (int i = 0; i < together->party_count; i++)
        images += together->parties[i].images;
    return images;
}

static double share_of(const infer_together *together, const infer_party *party) {
    const int64_t images = timed_images(together);
    return images > 0 ? (double)party->images / (double)images : NAN;
}

/* Images per second of all; a pass is over all samples. */
static double rate_of(const infer_case *given, const infer_together *together) {
    return (double)given->samples->count / infer_median(&together->all.waited);
}

/* A device by what it was compared in; all of them by the accuracy too. */
static int is_right(const infer_party *party, const infer_together *together) {
    if (!party)
        return together->all.passed;
    return party->result.agreement.rows > 0 && party->result.agreement.max_share <= 1.0;
}

static void add_line(text_table *table, const char *name, const infer_result *result, double share,
                     double rate, const char *verdict) {
    table_cell(table, "%s", name);
    table_cell(table, "%.1f %%", 100.0 * share);
    table_number(table, rate);
    table_cell(table, "%.2f MB", megabytes(result->weight_bytes));
    table_cell(table, "%.2f MB", megabytes(result->memory.allocated_peak));
    table_cell(table, "%.2f MB", megabytes(result->memory.reserved_peak));
    table_cell(table, "%.2f", result->agreement.max_share);
    table_cell(table, "%s", verdict);
}

static void print_table(const infer_case *given, const infer_together *together, FILE *out) {
    text_table *const table =
        table_create("device|>share|>images/s|>weights|>peak memory|>reserved|>of bound|check");
    const double rate = rate_of(given, together);
    for (int i = 0; i < together->party_count; i++) {
        const infer_party *const party = &together->parties[i];
        const double share = share_of(together, party);
        add_line(table, party->info.selector, &party->result, share, share * rate,
                 party->result.status != TDM_OK ? "FAILED"
                 : is_right(party, together)    ? "ok"
                                                : "WRONG");
    }
    add_line(table, "all", &together->all, 1.0, rate, together->all.passed ? "ok" : "WRONG");
    fprintf(out, "together  %s %s batch %lld", given->model->name, infer_precision(given).text,
            (long long)given->batch);
    if (!isnan(together->all.accuracy))
        fprintf(out, ", accuracy %.2f %%", 100.0 * together->all.accuracy);
    fputc('\n', out);
    table_print(table, out);
    fputc('\n', out);
    table_destroy(table);
}

static void add_row(results_document *document, const infer_case *given,
                    const infer_together *together, const infer_party *party, const char *reason) {
    const infer_result *const result = party ? &party->result : &together->all;
    const double share = party ? share_of(together, party) : 1.0;
    char name[160];
    snprintf(name, sizeof name, "%s %s batch %lld together", given->model->name,
             infer_precision(given).text, (long long)given->batch);
    const bench_result row = {
        .suite = "infer",
        .case_name = name,
        .impl = "tandem",
        .variant = party ? result->variants : NULL,
        .dtype = given->precision->name,
        .mode = "waited",
        .packing = "prepacked",
        .device = party ? party->info.selector : "all",
        .shape = {{"batch", (double)given->batch}, {"devices", (double)together->party_count}},
        .metrics = {{"images_per_s", share * rate_of(given, together)},
                    {"share", share},
                    {"accuracy", result->accuracy},
                    {"oracle_rows", (double)result->agreement.rows},
                    {"share_of_bound", result->agreement.max_share},
                    {"weight_bytes", (double)result->weight_bytes},
                    {"peak_allocated_bytes", (double)result->memory.allocated_peak},
                    {"peak_reserved_bytes", (double)result->memory.reserved_peak}},
        .raw_s = party ? NULL : result->waited.values,
        .samples = party ? 0 : result->waited.count,
        .check = result->status != TDM_OK    ? RESULT_UNCHECKED
                 : is_right(party, together) ? RESULT_VERIFIED
                                             : RESULT_WRONG,
        .max_error = result->agreement.max_abs,
        .status = reason[0] ? RESULT_FAILED : RESULT_OK,
        .reason = reason[0] ? reason : NULL,
    };
    results_add(document, &row);
}

int infer_together_report(const infer_case *given, const infer_together *together,
                          results_document *document, const char *command, FILE *out) {
    char reason[600];
    infer_verdict(given, &together->all, reason, sizeof reason);
    print_table(given, together, out);
    for (int i = 0; i < together->party_count; i++)
        add_row(document, given, together, &together->parties[i],
                together->parties[i].result.reason);
    add_row(document, given, together, NULL, reason);
    if (reason[0])
        fprintf(stderr, "%s: all devices together: %s %s batch %lld: %s\n", command,
                given->model->name, infer_precision(given).text, (long long)given->batch, reason);
    return reason[0] != '\0';
}
