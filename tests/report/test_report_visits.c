/* Visits of a suite taken together: rows whose samples and figures are known. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "bench/report/batch_times.h"
#include "bench/record/results_json.h"
#include "bench/report/report_visits.h"
#include "tests/support/bench/bench_rows.h"

enum {
    TEN = 10
};

typedef struct planted_row {
    const char *name;
    const char *impl;
    const char *status;
    double
        first; /* seconds of the first sample; each other is a hundredth longer than the one before */
    int count;
} planted_row;

static void add_row(cJSON *rows, const planted_row *planted) {
    const int middle = planted->count / 2;
    const double median =
        planted->first * (1 + 0.01 * (planted->count % 2 ? middle : middle - 0.5));
    cJSON *const row = cJSON_CreateObject();
    results_put_text(row, "suite", "memory");
    results_put_text(row, "case", planted->name);
    results_put_text(row, "impl", planted->impl);
    results_put_text(row, "mode", "pipelined");
    cJSON_AddNumberToObject(cJSON_AddObjectToObject(row, "shape"), "bytes", 1e9);
    cJSON_AddNumberToObject(row, "samples", planted->count);
    cJSON *const raw = cJSON_AddArrayToObject(row, "raw_s");
    for (int i = 0; i < planted->count; i++)
        cJSON_AddItemToArray(raw, cJSON_CreateNumber(planted->first * (1 + 0.01 * i)));
    results_put_number(row, "median_s", planted->count > 0 ? median : NAN);
    cJSON_AddNumberToObject(row, "bytes", 1e9);
    cJSON_AddNullToObject(row, "flops");
    results_put_number(row, "gbs", 1 / median);
    results_put_text(row, "status", planted->status);
    cJSON *const metrics = cJSON_AddObjectToObject(row, "metrics");
    cJSON_AddNumberToObject(metrics, "disturbed", 1.5);
    cJSON_AddNumberToObject(metrics, "stolen", 0.25 * planted->first);
    cJSON_AddNumberToObject(metrics, "latency_ns", 1e9 * median);
    cJSON_AddNumberToObject(metrics, "read_gbs", 2 / planted->first);
    cJSON_AddNumberToObject(metrics, "of_read", 0.5);
    cJSON_AddNumberToObject(metrics, "beside", planted->first);
    cJSON_AddItemToArray(rows, row);
}

static cJSON *one_row(const char *status, double first, int count) {
    cJSON *const rows = cJSON_CreateArray();
    add_row(rows, &(planted_row){"read 1", "tandem", status, first, count});
    return rows;
}

static double number(const cJSON *object, const char *key) {
    const cJSON *const item = cJSON_GetObjectItemCaseSensitive(object, key);
    assert_true(cJSON_IsNumber(item));
    return item->valuedouble;
}

static double metric(const cJSON *row, const char *key) {
    return number(cJSON_GetObjectItemCaseSensitive(row, "metrics"), key);
}

static double sample(const cJSON *row, int i) {
    return cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(row, "raw_s"), i)->valuedouble;
}

static int near(double value, double expected) {
    return fabs(value - expected) <= 1e-12 * fabs(expected);
}

static void visit(cJSON *rows, cJSON *later, double shorter) {
    const double share = report_visits_merge(rows, later);
    assert_true(near(share + 1, shorter + 1));
    assert_int_equal(cJSON_GetArraySize(later), 0);
    cJSON_Delete(later);
}

static void the_shorter_of_two_samples_stays(void **state) {
    (void)state;
    cJSON *const rows = one_row("ok", 1, TEN);
    visit(rows, one_row("ok", 1.04, TEN), 0);
    const cJSON *const row = rows->child;
    for (int i = 0; i < TEN; i++)
        assert_true(near(sample(row, i), 1 + 0.01 * i));
    visit(rows, one_row("ok", 0.5, TEN), 1);
    assert_int_equal(cJSON_GetArraySize(rows), 1);
    for (int i = 0; i < TEN; i++)
        assert_true(near(sample(row, i), 0.5 * (1 + 0.01 * i)));
    assert_true(number(row, "samples") == TEN);
    assert_true(near(number(row, "median_s"), 0.5225));
    assert_true(near(number(row, "min_s"), 0.5) && number(row, "p95_s") < 0.545);
    assert_true(near(number(row, "gbs"), 1 / 0.5225));
    cJSON_Delete(rows);
}

static void samples_are_dealt_until_there_are_ten(void **state) {
    (void)state;
    cJSON *const rows = one_row("ok", 4, 4);
    visit(rows, one_row("ok", 2, 4), 1);
    const cJSON *const row = rows->child;
    assert_true(number(row, "samples") == 8);
    assert_true(sample(row, 0) == 4 && sample(row, 4) == 2);
    visit(rows, one_row("ok", 1, 4), 1);
    assert_true(number(row, "samples") == TEN);
    assert_true(sample(row, 8) == 1 && near(sample(row, 9), 1.01));
    assert_true(near(sample(row, 0), 1.02) && near(sample(row, 1), 1.03));
    assert_true(near(sample(row, 2), 4.08));
    assert_true(near(metric(row, "latency_ns"), 1e9 * number(row, "median_s")));
    cJSON_Delete(rows);
}

static void figures_follow_the_samples(void **state) {
    (void)state;
    cJSON *const rows = one_row("ok", 2, TEN);
    visit(rows, one_row("ok", 1, TEN), 1);
    visit(rows, one_row("ok", 4, TEN), 0);
    const cJSON *const row = rows->child;
    const cJSON *const visits = cJSON_GetObjectItemCaseSensitive(row, "visits");
    assert_int_equal(cJSON_GetArraySize(visits), 3);
    assert_true(near(number(cJSON_GetArrayItem(visits, 0), "median_s"), 2.09));
    assert_true(near(number(cJSON_GetArrayItem(visits, 2), "median_s"), 4.18));
    assert_true(metric(row, "visits") == 3);
    assert_true(near(metric(row, "apart"), 3));
    assert_true(near(metric(row, "stolen"), 0.25 * 7 / 3));
    assert_true(near(metric(row, "disturbed"), 1.5 * 2)); /* the second visit's batches */
    assert_true(near(metric(row, "latency_ns"), 1.045e9));
    assert_true(metric(row, "read_gbs") == 2);
    assert_true(near(metric(row, "of_read"), 1 / 1.045 / 2));
    assert_true(metric(row, "beside") == 1); /* of the fastest visit */
    assert_false(cJSON_HasObjectItem(cJSON_GetObjectItemCaseSensitive(row, "metrics"), "noisy"));
    double first = 0;
    double last = 0;
    assert_int_equal(report_visits_reference(row, &first, &last), -1);
    cJSON_ReplaceItemInObjectCaseSensitive(rows->child, "impl", cJSON_CreateString("stream"));
    assert_int_equal(report_visits_reference(row, &first, &last), 0);
    assert_true(near(first, 1 / 2.09) && near(last, 1 / 4.18));
    cJSON_Delete(rows);
}

/* As many batches of each sample as wanted, the first of them the sample itself and each other a tenth longer. */
static cJSON *row_of_batches(double first, int samples, int passes) {
    cJSON *const rows = one_row("ok", first, samples);
    double times[1000];
    for (int i = 0; i < samples * passes; i++)
        times[i] = first * (1 + 0.01 * (i % samples)) * (i < samples ? 1 : 1.1);
    if (passes > 1)
        batch_times_put(rows->child, times, (size_t)samples * (size_t)passes);
    const sample_summary summary = summarize_samples(times, (size_t)samples);
    cJSON_ReplaceItemInObjectCaseSensitive(rows->child, "median_s",
                                           cJSON_CreateNumber(summary.median));
    return rows;
}

static const cJSON *visit_of(const cJSON *row, int number) {
    return cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(row, "visits"), number);
}

static void visit_of_batches(cJSON *rows, double first, int samples, int passes) {
    cJSON *const later = row_of_batches(first, samples, passes);
    report_visits_merge(rows, later);
    cJSON_Delete(later);
}

/* Each visit keeps its own, one batch for each sample too; beyond what a row keeps the shortest stay, and the rule holds. */
static void samples_follow_from_the_batches_of_all_visits(void **state) {
    (void)state;
    cJSON *const rows = row_of_batches(1.5, 7, 30);
    const cJSON *const row = rows->child;
    visit_of_batches(rows, 1.2, TEN, 1);
    assert_int_equal(bench_expect_batches(row), 210 + 10);
    assert_false(cJSON_HasObjectItem(row, "batches"));
    assert_false(cJSON_HasObjectItem(row, "batch_unit_s"));
    visit_of_batches(rows, 1.1, TEN, 42);
    assert_int_equal(bench_expect_batches(row), 640);
    visit_of_batches(rows, 1, TEN, 2);
    assert_int_equal(bench_expect_batches(row), 650);
    assert_true(number(visit_of(row, 3), "batches_taken") == 20);
    assert_false(cJSON_HasObjectItem(visit_of(row, 2), "batches_taken"));
    assert_true(near(number(row, "min_s"), 1));
    visit_of_batches(rows, 3, 5, 1);
    assert_int_equal(bench_expect_batches(row), 655);
    assert_false(cJSON_HasObjectItem(visit_of(row, 4), "batches_taken"));
    cJSON_Delete(rows);
}

/* However many visits there are, each counts; what one of them does not tell is that of the others. */
static void all_visits_count(void **state) {
    (void)state;
    cJSON *const rows = one_row("ok", 2, TEN);
    const cJSON *const row = rows->child;
    for (int i = 1; i < 12; i++) {
        cJSON *const later = one_row("ok", 2, TEN);
        cJSON *const metrics = cJSON_GetObjectItemCaseSensitive(later->child, "metrics");
        cJSON_DeleteItemFromObjectCaseSensitive(metrics, "disturbed");
        cJSON_DeleteItemFromObjectCaseSensitive(metrics, "stolen");
        visit(rows, later, 0);
    }
    assert_true(metric(row, "visits") == 12);
    assert_true(near(metric(row, "stolen"), 0.5));
    assert_true(near(metric(row, "disturbed"), 1.5));
    visit(rows, one_row("ok", 4, TEN), 0);
    assert_true(near(metric(row, "stolen"), 0.75));
    assert_true(near(metric(row, "disturbed"), 3));
    cJSON_Delete(rows);
}

static void noise_is_that_of_the_samples_together(void **state) {
    (void)state;
    cJSON *const rows = cJSON_CreateArray();
    add_row(rows, &(planted_row){"read 1", "tandem", "ok", 1, 5});
    cJSON *const later = one_row("ok", 2, 5);
    cJSON_AddNumberToObject(cJSON_GetObjectItemCaseSensitive(rows->child, "metrics"), "noisy", 9);
    visit(rows, later, 0);
    assert_true(metric(rows->child, "noisy") > 0.5 && metric(rows->child, "noisy") < 1);
    cJSON_Delete(rows);
}

static const char *status_after(const char *first, const char *second) {
    static char text[16];
    cJSON *const rows = one_row(first, 1, first[0] == 'o' ? TEN : 0);
    cJSON *const later = one_row(second, 0.5, second[0] == 'o' ? TEN : 0);
    report_visits_merge(rows, later);
    cJSON_Delete(later);
    assert_int_equal(cJSON_GetArraySize(rows), 1);
    snprintf(text, sizeof text, "%s",
             cJSON_GetObjectItemCaseSensitive(rows->child, "status")->valuestring);
    cJSON_Delete(rows);
    return text;
}

static void a_failure_counts_whenever_it_came(void **state) {
    (void)state;
    assert_string_equal(status_after("ok", "failed"), "failed");
    assert_string_equal(status_after("failed", "ok"), "failed");
    assert_string_equal(status_after("skipped", "failed"), "failed");
    assert_string_equal(status_after("skipped", "ok"), "ok");
    assert_string_equal(status_after("ok", "skipped"), "ok");
    assert_string_equal(status_after("skipped", "skipped"), "skipped");
}

/* A probe stands beside each of several products under one name. */
static void rows_of_one_name_are_matched_in_order(void **state) {
    (void)state;
    cJSON *const rows = cJSON_CreateArray();
    cJSON *const later = cJSON_CreateArray();
    add_row(rows, &(planted_row){"probe", "tandem", "ok", 2, TEN});
    add_row(rows, &(planted_row){"only at first", "tandem", "ok", 2, TEN});
    add_row(rows, &(planted_row){"probe", "tandem", "ok", 3, TEN});
    add_row(later, &(planted_row){"probe", "tandem", "ok", 1, TEN});
    add_row(later, &(planted_row){"probe", "tandem", "ok", 2.5, TEN});
    add_row(later, &(planted_row){"only later", "tandem", "ok", 2, TEN});
    visit(rows, later, 1);
    assert_int_equal(cJSON_GetArraySize(rows), 4);
    assert_true(sample(cJSON_GetArrayItem(rows, 0), 0) == 1);
    assert_true(sample(cJSON_GetArrayItem(rows, 1), 0) == 2);
    assert_true(sample(cJSON_GetArrayItem(rows, 2), 0) == 2.5);
    cJSON_Delete(rows);
}

static void add_setting(cJSON *rows, const char *variant, double seconds, int is_default) {
    add_row(rows, &(planted_row){"read 1", "tandem", "ok", seconds, TEN});
    cJSON *const row = cJSON_GetArrayItem(rows, cJSON_GetArraySize(rows) - 1);
    cJSON *const shape = cJSON_GetObjectItemCaseSensitive(row, "shape");
    cJSON *const metrics = cJSON_GetObjectItemCaseSensitive(row, "metrics");
    results_put_text(row, "variant", variant);
    cJSON_AddNumberToObject(shape, "unroll", is_default ? 1 : 4);
    cJSON_AddNumberToObject(shape, "occupancy", 3);
    cJSON_AddNumberToObject(shape, "ahead", 8192);
    if (is_default)
        cJSON_AddNumberToObject(metrics, "setting_default", 1);
}

static void the_fastest_setting_is_that_of_all_visits(void **state) {
    (void)state;
    char forms[128];
    cJSON *const rows = cJSON_CreateArray();
    add_setting(rows, "found_row:unroll=4", 1, 0);
    add_setting(rows, "plain_row:unroll=1", 0.5, 1);
    cJSON_AddNumberToObject(cJSON_GetObjectItemCaseSensitive(rows->child, "metrics"),
                            "setting_best", 1);
    report_visits_forms(rows, forms, sizeof forms);
    assert_string_equal(forms, "read=found_row:4:3:8192");
    report_visits_forms(rows, forms, 8);
    assert_string_equal(forms, "");
    report_visits_finish(rows);
    assert_true(metric(rows->child->next, "setting_best") == 1);
    assert_false(cJSON_HasObjectItem(cJSON_GetObjectItemCaseSensitive(rows->child, "metrics"),
                                     "setting_best"));
    cJSON_Delete(rows);
    cJSON *const alone = cJSON_CreateArray();
    add_setting(alone, "plain_row:unroll=1", 0.5, 1);
    report_visits_forms(alone, forms, sizeof forms);
    assert_string_equal(forms, "read=plain_row:1:3:8192");
    cJSON_Delete(alone);
}

/* ---- where the processors were ---------------------------------------------------------------------------- */

enum {
    NEAR = 100, /* nanoseconds of a handover */
    FAR = 500
};

static cJSON *placed_row(double first, double handover) {
    cJSON *const rows = one_row("ok", first, TEN);
    results_put_number(cJSON_GetObjectItemCaseSensitive(rows->child, "metrics"), "handover_ns",
                       handover);
    return rows;
}

static double placement_of(const cJSON *rows) {
    sample_series handovers = {.count = 0};
    sample_series works = {.count = 0};
    report_visits_placements(rows, &handovers, &works);
    const double median = summarize_samples(handovers.values, handovers.count).median;
    assert_int_equal(works.count, 0);
    series_release(&handovers);
    return median;
}

static processor_state with_handover(double handover_ns) {
    return (processor_state){handover_ns, NAN, NAN};
}

static void samples_of_two_placements_stay_apart(void **state) {
    (void)state;
    cJSON *const rows = placed_row(1, FAR);
    visit(rows, placed_row(2, NEAR), 0);
    visit(rows, placed_row(1.9, 1.2 * NEAR), 0);
    assert_true(near(number(rows->child, "median_s"), 1.045));
    assert_false(cJSON_HasObjectItem(rows->child, "visits"));
    assert_true(placement_of(rows) == 1.2 * NEAR); /* two visits of three */
    assert_true(report_visits_misplaced(rows, with_handover(NEAR)) == 0);
    report_visits_place(rows, with_handover(NEAR));
    const cJSON *const row = rows->child;
    assert_int_equal(cJSON_GetArraySize(rows), 1);
    assert_true(near(sample(row, 0), 1.9) && number(row, "samples") == TEN);
    assert_true(metric(row, "visits") == 2 && metric(row, "handover_ns") == 1.2 * NEAR);
    const cJSON *const others = cJSON_GetObjectItemCaseSensitive(row, "elsewhere");
    assert_int_equal(cJSON_GetArraySize(others), 1);
    assert_true(number(others->child, "handover_ns") == FAR);
    assert_true(near(number(others->child, "median_s"), 1.045));
    assert_true(near(sample(others->child, 9), 1.09));
    assert_int_equal(bench_expect_batches(row), 2 * TEN);
    assert_false(cJSON_HasObjectItem(others->child, "case"));
    cJSON_Delete(rows);
}

/* What was met elsewhere has its visits, with their batches, and its own batches where it was one visit. */
static void batches_of_another_placement_stay(void **state) {
    (void)state;
    cJSON *const rows = placed_row(1, FAR);
    batch_times_put(rows->child, (const double[]){1, 2, 3}, 3);
    visit(rows, placed_row(2, NEAR), 0);
    visit(rows, placed_row(1.9, NEAR), 0);
    report_visits_place(rows, with_handover(NEAR));
    const cJSON *others = cJSON_GetObjectItemCaseSensitive(rows->child, "elsewhere");
    assert_true(number(others->child, "batch_unit_s") == 1e-3);
    assert_true(cJSON_HasObjectItem(others->child, "batches"));
    cJSON_Delete(rows);
    cJSON *const again = placed_row(2, NEAR);
    visit(again, placed_row(1.9, NEAR), 1);
    visit(again, placed_row(1, FAR), 0);
    report_visits_place(again, with_handover(FAR));
    others = cJSON_GetObjectItemCaseSensitive(again->child, "elsewhere");
    const cJSON *const visits = cJSON_GetObjectItemCaseSensitive(others->child, "visits");
    assert_int_equal(cJSON_GetArraySize(visits), 2);
    assert_true(cJSON_HasObjectItem(visits->child, "batches"));
    cJSON_Delete(again);
}

/* Two processors on one core hand over as fast as two side by side. */
static void processors_on_one_core_are_another_placement(void **state) {
    (void)state;
    sample_series handovers = {.count = 0};
    sample_series works = {.count = 0};
    static const double work[] = {13, 7, 7.2};
    cJSON *rows = NULL;
    for (int i = 0; i < 3; i++) {
        cJSON *const later = placed_row(i == 0 ? 1 : 2, NEAR);
        results_put_number(cJSON_GetObjectItemCaseSensitive(later->child, "metrics"), "work_ns",
                           work[i]);
        if (rows == NULL)
            rows = later;
        else
            visit(rows, later, 0);
    }
    report_visits_placements(rows, &handovers, &works);
    assert_int_equal(works.count, 3);
    series_release(&handovers);
    series_release(&works);
    report_visits_place(rows, (processor_state){NEAR, 7, NAN});
    assert_true(sample(rows->child, 0) == 2 && metric(rows->child, "visits") == 2);
    const cJSON *const others = cJSON_GetObjectItemCaseSensitive(rows->child, "elsewhere");
    assert_true(number(others->child, "work_ns") == 13);
    cJSON_Delete(rows);
}

/* Two rows, of which the second's clock was the given one in this visit. */
static cJSON *clocked_rows(double seconds, double chain_ns) {
    cJSON *const rows = cJSON_CreateArray();
    add_row(rows, &(planted_row){"read 1", "tandem", "ok", seconds, TEN});
    add_row(rows, &(planted_row){"read 2", "tandem", "ok", seconds, TEN});
    results_put_number(cJSON_GetObjectItemCaseSensitive(rows->child->next, "metrics"), "chain_ns",
                       chain_ns);
    return rows;
}

static double slowed(const cJSON *rows, double chain_ns, double crowding) {
    return report_visits_slowed(rows, (report_pace){chain_ns, crowding});
}

/* The shorter samples stay whatever the clock was; a row that never met a good one is known. */
static void rows_that_met_a_slow_clock_only_are_counted(void **state) {
    (void)state;
    sample_series chains = {.count = 0};
    sample_series crowding = {.count = 0};
    cJSON *const rows = clocked_rows(2, 1050);
    assert_true(slowed(rows, 1000, 1.5) == 0.5);
    assert_true(slowed(rows, 1040, 1.5) == 0);
    assert_true(slowed(rows, NAN, NAN) == 0);
    visit(rows, clocked_rows(1, 1045), 1);
    assert_true(slowed(rows, 1000, 1.5) == 0.5);
    visit(rows, clocked_rows(1.5, 1005), 0);
    assert_true(slowed(rows, 1000, 1.5) == 0);
    report_visits_paces(rows, &chains, &crowding);
    assert_true(chains.count == 3 && crowding.count == 0);
    assert_true(chains.values[0] == 1050 && chains.values[2] == 1005);
    series_release(&chains);
    const cJSON *const row = rows->child->next;
    assert_true(metric(row, "chain_ns") == 1045); /* of the fastest visit, as its samples */
    assert_true(near(sample(row, 0), 1));
    const cJSON *const visits = cJSON_GetObjectItemCaseSensitive(row, "visits");
    assert_true(number(cJSON_GetArrayItem(visits, 0), "chain_ns") == 1050);
    cJSON_Delete(rows);
}

/* A visit with a good clock and a shared core, one with a slow clock and cores apart: neither was undisturbed. */
static void rows_that_shared_a_core_are_counted(void **state) {
    (void)state;
    static const double crowding[] = {1.8, 1.5, 1.52};
    static const double chain[] = {1000, 1050, 1010};
    cJSON *rows = NULL;
    for (int i = 0; i < 3; i++) {
        cJSON *const later = clocked_rows(1 + 0.1 * i, chain[i]);
        results_put_number(cJSON_GetObjectItemCaseSensitive(later->child->next, "metrics"),
                           "crowding", crowding[i]);
        if (rows == NULL)
            rows = later;
        else
            visit(rows, later, 0);
        assert_true(slowed(rows, 1000, 1.5) == (i < 2 ? 0.5 : 0));
    }
    const cJSON *const visits = cJSON_GetObjectItemCaseSensitive(rows->child->next, "visits");
    assert_true(number(cJSON_GetArrayItem(visits, 2), "crowding") == 1.52);
    cJSON_Delete(rows);
}

static void what_was_met_in_one_placement_only_stays(void **state) {
    (void)state;
    cJSON *const rows = placed_row(1, FAR);
    visit(rows, one_row("ok", 0.5, TEN), 1); /* not known where: it may be the same */
    assert_true(metric(rows->child, "handover_ns") == FAR);
    assert_true(report_visits_misplaced(rows, with_handover(NEAR)) == 1);
    assert_true(report_visits_misplaced(rows, with_handover(NAN)) == 0);
    report_visits_place(rows, with_handover(NEAR));
    assert_true(sample(rows->child, 0) == 0.5);
    assert_false(cJSON_HasObjectItem(rows->child, "elsewhere"));
    cJSON_Delete(rows);
}

static void ratios_are_of_rows_measured_in_turn(void **state) {
    (void)state;
    static const double ratios[] = {1.5, 0.9, 1.1};
    cJSON *rows = NULL;
    for (size_t i = 0; i < sizeof ratios / sizeof *ratios; i++) {
        cJSON *const later = one_row("ok", 1 + 0.1 * (double)i, TEN);
        results_put_number(cJSON_GetObjectItemCaseSensitive(later->child, "metrics"), "tandem_is",
                           ratios[i]);
        if (rows == NULL)
            rows = later;
        else
            visit(rows, later, 0);
    }
    assert_true(metric(rows->child, "tandem_is") == 1.1);
    const cJSON *const visits = cJSON_GetObjectItemCaseSensitive(rows->child, "visits");
    assert_true(number(cJSON_GetArrayItem(visits, 1), "tandem_is") == 0.9);
    cJSON_Delete(rows);
}

static void add_rung(cJSON *rows, const char *name, const char *dtype, double gflops, int is_peak) {
    add_row(rows, &(planted_row){name, "tandem", "ok", 1, TEN});
    cJSON *const row = cJSON_GetArrayItem(rows, cJSON_GetArraySize(rows) - 1);
    cJSON_ReplaceItemInObjectCaseSensitive(row, "suite", cJSON_CreateString("compute"));
    results_put_text(row, "dtype", dtype);
    cJSON_AddNumberToObject(row, "gflops", gflops);
    if (is_peak)
        cJSON_AddNumberToObject(cJSON_GetObjectItemCaseSensitive(row, "metrics"), "peak", 1);
}

static void a_ladder_has_one_top(void **state) {
    (void)state;
    static const int expected[] = {0, 1, 0, 1};
    cJSON *const rows = cJSON_CreateArray();
    add_rung(rows, "fma f32 intensity 8", "f32", 200, 1);
    add_rung(rows, "fma f32 intensity 16", "f32", 230, 1);
    add_rung(rows, "fma f32", "f32", 240, 0);
    add_rung(rows, "dot s8 intensity 16", "s8", 900, 0);
    report_visits_finish(rows);
    for (int i = 0; i < 4; i++)
        assert_int_equal(
            cJSON_HasObjectItem(
                cJSON_GetObjectItemCaseSensitive(cJSON_GetArrayItem(rows, i), "metrics"), "peak"),
            expected[i]);
    cJSON_Delete(rows);
}

/* Ten points of each visit: the later one read 1.5 times as fast within the cache. */
static void levels_are_those_of_all_visits(void **state) {
    (void)state;
    static const cache_hints hints = {.bytes = {64e3}, .count = 1, .complete = 1};
    char text[128] = "";
    cJSON *const rows = cJSON_CreateArray();
    cJSON *const later = cJSON_CreateArray();
    report_visits_levels(rows, &hints, text, sizeof text);
    assert_string_equal(text, "");
    for (int i = 0; i < 10; i++) {
        char name[32];
        const double set = 1000.0 * (1 << i);
        snprintf(name, sizeof name, "sweep read %.0f", set);
        add_row(rows, &(planted_row){name, "tandem", "ok", set <= 64e3 ? 0.015 : 0.1, TEN});
        add_row(later, &(planted_row){name, "tandem", "ok", set <= 64e3 ? 0.01 : 0.1, TEN});
        cJSON *const row = cJSON_GetArrayItem(rows, i);
        cJSON_SetNumberValue(cJSON_GetObjectItem(cJSON_GetObjectItem(row, "shape"), "bytes"), set);
        cJSON_SetNumberValue(
            cJSON_GetObjectItem(cJSON_GetObjectItem(cJSON_GetArrayItem(later, i), "shape"),
                                "bytes"),
            set);
    }
    visit(rows, later, 0.7);
    report_visits_levels(rows, &hints, text, sizeof text);
    assert_non_null(strstr(text, "L1 "));
    assert_non_null(strstr(text, " 99.6 GB/s")); /* the fastest twentieth of 10 ms and more */
    assert_non_null(strstr(text, "memory 9.96 GB/s"));
    assert_true(metric(rows->child, "level") == 1);
    assert_true(metric(cJSON_GetArrayItem(rows, 9), "level") == 0);
    cJSON_Delete(rows);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_shorter_of_two_samples_stays),
        cmocka_unit_test(samples_are_dealt_until_there_are_ten),
        cmocka_unit_test(samples_follow_from_the_batches_of_all_visits),
        cmocka_unit_test(figures_follow_the_samples),
        cmocka_unit_test(all_visits_count),
        cmocka_unit_test(noise_is_that_of_the_samples_together),
        cmocka_unit_test(a_failure_counts_whenever_it_came),
        cmocka_unit_test(rows_of_one_name_are_matched_in_order),
        cmocka_unit_test(the_fastest_setting_is_that_of_all_visits),
        cmocka_unit_test(samples_of_two_placements_stay_apart),
        cmocka_unit_test(batches_of_another_placement_stay),
        cmocka_unit_test(processors_on_one_core_are_another_placement),
        cmocka_unit_test(rows_that_met_a_slow_clock_only_are_counted),
        cmocka_unit_test(rows_that_shared_a_core_are_counted),
        cmocka_unit_test(what_was_met_in_one_placement_only_stays),
        cmocka_unit_test(ratios_are_of_rows_measured_in_turn),
        cmocka_unit_test(a_ladder_has_one_top),
        cmocka_unit_test(levels_are_those_of_all_visits),
    };
    return cmocka_run_group_tests_name("report visits", tests, NULL, NULL);
}
