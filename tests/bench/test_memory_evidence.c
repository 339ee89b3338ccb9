/* What the rows of a file say of main memory: files that contradict themselves, and what `tandem predict` takes of them. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "bench/analysis/memory_evidence.h"
#include "bench/predict/predict_memory.h"
#include "bench/predict/predict_report.h"
#include "tests/support/bench/report_page_of.h"
#include "tests/support/made_device.h"
#include "tests/support/test_near.h"

/* ---- rows ------------------------------------------------------------------------------------------ */

static cJSON *figures_of(cJSON *row, const char *key) {
    cJSON *const known = cJSON_GetObjectItem(row, key);
    return known != NULL ? known : cJSON_AddObjectToObject(row, key);
}

/* A row of memory that moves a set of so many bytes once; a scan's name may be of any length. */
static cJSON *add_memory(cJSON *rows, const char *name, double bytes, double gbs) {
    cJSON *const row =
        made_add_row(rows, "memory", name, "f32", MADE_LAUNCH + bytes / (1e9 * gbs), 0, bytes);
    cJSON_AddNumberToObject(figures_of(row, "shape"), "bytes", bytes);
    return row;
}

static void put_placement(cJSON *row, double handover_ns) {
    cJSON_AddNumberToObject(figures_of(row, "metrics"), "handover_ns", handover_ns);
}

static void set_seconds(cJSON *row, double seconds) {
    cJSON_SetNumberValue(cJSON_GetObjectItem(row, "median_s"), seconds);
    cJSON_SetNumberValue(cJSON_GetArrayItem(cJSON_GetObjectItem(row, "raw_s"), 0), seconds);
}

/* Whether it is a point of the sweep with a set of so many bytes or more. */
static int is_swept_from(const cJSON *row, double bytes) {
    const char *const name = cJSON_GetStringValue(cJSON_GetObjectItem(row, "case"));
    return strncmp(name, "sweep ", 6) == 0 && strtod(name + strlen("sweep read "), NULL) >= bytes;
}

/* The made device, and scans of 40 GB/s beside its rows as a report has them. */
static cJSON *made_report_json(void) {
    cJSON *const root = made_device_json();
    cJSON *const rows = cJSON_GetObjectItem(root, "results");
    for (int i = 0; i < 6; i++)
        add_memory(rows, "scan 150000000 bytes", 150e6, 40);
    return root;
}

/*
 * Its sweep from 9 MB on met other caches and another way to memory, twice as fast. Where `told`, the rows say that the processors
 * were further apart then.
 */
static cJSON *made_moved_json(int told) {
    cJSON *const root = made_report_json();
    cJSON *row = NULL;
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(root, "results")) {
        const int moved = is_swept_from(row, 9e6);
        const double seconds = cJSON_GetObjectItem(row, "median_s")->valuedouble;
        if (told)
            put_placement(row, moved ? 390 : 120);
        if (moved)
            set_seconds(row, MADE_LAUNCH + (seconds - MADE_LAUNCH) / 2);
    }
    return root;
}

/* ---- what is said ---------------------------------------------------------------------------------- */

/* What rows of this root, which is deleted, say. */
static memory_evidence evidence_of(cJSON *root) {
    memory_evidence evidence;
    results_file file;
    made_file_read(root, "made", &file);
    assert_int_equal(memory_evidence_find(&file, &evidence), 0);
    results_file_release(&file);
    return evidence;
}

static void honest_rows_do_not_contradict_each_other(void **state) {
    char text[EVIDENCE_TEXT] = "before";
    (void)state;
    const memory_evidence evidence = evidence_of(made_report_json());
    assert_false(memory_evidence_contradicts(&evidence));
    test_is_near(evidence.groups[EVIDENCE_SCAN].gbs, 40, 0.01);
    assert_int_equal(evidence.groups[EVIDENCE_SCAN].rows, 6);
    /* Of sets from 4 times 14.8 MB on, the largest that the sweep has in a cache. */
    assert_int_equal(evidence.groups[EVIDENCE_SWEEP].rows, 3);
    assert_int_equal(evidence.groups[EVIDENCE_READ].rows, 1);
    test_is_near(evidence.groups[EVIDENCE_COPY].gbs, 2 / (1 / 40.0 + 1 / 20.0), 0.01);
    memory_evidence_text(&evidence, text, sizeof text);
    assert_string_equal(text, "");
}

static void what_contradicts_is_told_with_its_figures(void **state) {
    char text[EVIDENCE_TEXT];
    (void)state;
    for (int told = 0; told < 2; told++) {
        const memory_evidence evidence = evidence_of(made_moved_json(told));
        assert_true(memory_evidence_contradicts(&evidence));
        test_is_near(evidence.apart, 2, 0.01);
        assert_int_equal(evidence.fast, EVIDENCE_SWEEP);
        memory_evidence_text(&evidence, text, sizeof text);
        assert_non_null(strstr(text, "and 79.8 to sweep, "));
        assert_non_null(strstr(text, "measure again"));
        assert_non_null(strstr(text, told ? "sweep 79.8 (3 rows, 3 with the processors elsewhere), "
                                          : "sweep 79.8 (3 rows), "));
        assert_non_null(strstr(text, "scan 40 (6 rows)"));
    }
}

/* The made device beside one row of another kind. */
static void others_may_be_slower_but_not_faster(void **state) {
    static const struct {
        const char *suite;
        const char *name;
        double gbs;
        double apart;
    } cases[] = {
        {"gemv", "f32 1x5000x5000", 10, 1}, /* its kernel may take that long */
        {"gemv", "f32 1x5000x5000", 56, 1.4},
        {"gemv", "f32 1x5000x5000", 72, 1.8},
        {"quant", "quantize f32 s8 row 5000x5000", 68, 1.7},
        {"elementwise", "relu f32 12500000", 9, 1},
        {"elementwise", "relu f32 12500000", 64, 1.6},
        {"memory", "copy 50000000", 80, 2},
        {"memory", "copy 50000000", 20, 4 / 3.0}, /* what it writes may be read before */
        {"memory", "triad 50000000", 15, 2},
        {"memory", "write 100000000", 20, 1},
        {"memory", "write 100000000", 10, 2},
        {"memory", "gather 100000000", 400, 1},
    };
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        cJSON *rows = NULL;
        cJSON *const root = made_file_json(&rows);
        for (int k = 0; k < 3; k++)
            add_memory(rows, "read 100000000", 100e6, 40);
        made_add_row(rows, cases[i].suite, cases[i].name, "f32", 100e6 / (1e9 * cases[i].gbs), 0,
                     100e6);
        const memory_evidence evidence = evidence_of(root);
        if (fabs(evidence.apart / cases[i].apart - 1) > 0.01)
            fail_msg("%s at %g GB/s: %g", cases[i].name, cases[i].gbs, evidence.apart);
        assert_int_equal(memory_evidence_contradicts(&evidence), cases[i].apart > EVIDENCE_APART);
    }
}

/* A plain kernel may have too few bytes in flight: a copy is compared with the fastest form of reading, a sweep is plain itself. */
static void the_fastest_form_of_reading_counts_beside_other_kernels(void **state) {
    cJSON *rows = NULL;
    cJSON *const root = made_file_json(&rows);
    (void)state;
    cJSON *const best = add_memory(rows, "read 100000000", 100e6, 75);
    cJSON_AddNumberToObject(figures_of(best, "metrics"), "setting_best", 1);
    cJSON *const plain = add_memory(rows, "read 100000000", 100e6, 40);
    cJSON_AddNumberToObject(figures_of(plain, "metrics"), "setting_default", 1);
    add_memory(rows, "sweep read 100000000", 100e6, 41);
    made_add_row(rows, "memory", "copy 50000000", "f32", 100e6 / 80e9, 0, 100e6);
    const memory_evidence evidence = evidence_of(root);
    test_is_near(evidence.groups[EVIDENCE_READ].gbs, 40, 0.01);
    assert_int_equal(evidence.groups[EVIDENCE_READ].rows, 1);
    test_is_near(evidence.apart, 80 / 75.0, 0.01);
}

/* What a cache still serves is no evidence: 60 MB are of the last cache's 32 MB, four times as much is of main memory. */
static void sets_that_a_cache_may_serve_are_no_evidence(void **state) {
    cJSON *rows = NULL;
    cJSON *const root = made_file_json(&rows);
    (void)state;
    cJSON_AddNumberToObject(cJSON_AddObjectToObject(root, "device"), "cache_bytes", 32e6);
    add_memory(rows, "sweep read 60000000", 60e6, 90);
    add_memory(rows, "read 127000000", 127e6, 60);
    add_memory(rows, "read 128000000", 128e6, 46);
    for (int copies = 7; copies <= 8; copies++) {
        cJSON_AddNumberToObject(made_add_product_of(rows, "f32", 1, 2048, 2048, 17e6 / 45e9),
                                "copies_of_b", copies);
        cJSON *const row = cJSON_GetArrayItem(rows, cJSON_GetArraySize(rows) - 1);
        cJSON_SetValuestring(cJSON_GetObjectItem(row, "suite"), "gemv");
    }
    add_memory(rows, "scan 256000000 bytes", 256e6, 45);
    const memory_evidence evidence = evidence_of(root);
    assert_int_equal(evidence.groups[EVIDENCE_SWEEP].rows, 0);
    assert_int_equal(evidence.groups[EVIDENCE_READ].rows, 1);
    assert_int_equal(evidence.groups[EVIDENCE_GEMV].rows, 1);
    test_is_near(evidence.apart, 46 / 45.0, 0.01);
}

/* ---- what is taken --------------------------------------------------------------------------------- */

static void fit(cJSON *root, predict_profile *profile) {
    results_file file;
    file_error error;
    made_file_read(root, "made", &file);
    if (predict_profile_fit(&file, profile, &error) != 0)
        fail_msg("%s", error.text);
    results_file_release(&file);
}

/* The curve ends in a cache where the sweep is left out from there on: what else was read is main memory's. */
static void the_prediction_takes_what_most_rows_met(void **state) {
    static predict_profile profile;
    (void)state;
    for (int told = 0; told < 2; told++) {
        fit(made_moved_json(told), &profile);
        test_is_near(profile.main_bytes_per_s, 40e9, 0.01);
        test_is_near(predict_read_speed(&profile, INFINITY), 40e9, 0.01);
        assert_int_equal(predict_level(&profile, 5e9), 0);
        test_is_near(predict_main_share(&profile, 5e9), 1, 1e-9);
        assert_true(profile.main_rows == (told ? 7 : 10) && !profile.main_elsewhere);
        assert_true(profile.error < 0.05);
    }
}

/* Between 9 and 59 MB one scan stands for what the sweep was left out of; where the sweep has its points, it is not asked. */
static void what_else_was_read_continues_the_sweep(void **state) {
    static predict_profile profile;
    (void)state;
    for (int moved = 0; moved < 2; moved++) {
        cJSON *const root = moved ? made_moved_json(1) : made_report_json();
        cJSON *const scan =
            add_memory(cJSON_GetObjectItem(root, "results"), "scan 30000000 bytes", 30e6, 75);
        put_placement(scan, 120);
        fit(root, &profile);
        const double swept = 1 / ((1 - made_main_share(30e6)) / 100 + made_main_share(30e6) / 40);
        test_is_near(predict_read_speed(&profile, 30e6), 1e9 * (moved ? 75 : swept), 0.03);
    }
}

/* Where all rows of reading were elsewhere, they are better than a cache's speed, and that is told. */
static void rows_from_elsewhere_are_taken_where_there_are_no_others(void **state) {
    static predict_profile profile;
    cJSON *row = NULL;
    cJSON *const root = made_device_json();
    (void)state;
    cJSON_ArrayForEach(row, cJSON_GetObjectItem(root, "results")) {
        const char *const name = cJSON_GetStringValue(cJSON_GetObjectItem(row, "case"));
        put_placement(row, is_swept_from(row, 9e6) || strncmp(name, "read ", 5) == 0 ? 390 : 120);
    }
    fit(root, &profile);
    test_is_near(profile.main_bytes_per_s, 40e9, 0.01);
    assert_true(profile.main_elsewhere && profile.main_rows == 4);
}

/* Three rows of reading, each of another speed: what is held out is not among those that the speed is of. */
static void rows_that_are_held_out_tell_nothing(void **state) {
    static predict_profile profile;
    predict_observations list;
    results_file file;
    file_error error;
    cJSON *rows = NULL;
    cJSON *const root = made_file_json(&rows);
    (void)state;
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "read %d", 100000000 + i);
        add_memory(rows, name, 1e8 + i, 40 + 10 * i);
    }
    made_file_read(root, "made", &file);
    assert_int_equal(predict_observe(&file, &list), 0);
    for (size_t i = 0; i < 3; i++) {
        profile = (predict_profile){.bandwidth_scale = 1};
        profile.launch_s = MADE_LAUNCH;
        assert_int_equal(predict_read_memory(&list, list.items[i].fold, &profile, &error), 0);
        const double others = 150e9 - 40e9 - 10e9 * (double)i;
        test_is_near(profile.main_bytes_per_s, others / 2, 1e-6);
        assert_int_equal(profile.main_rows, 2);
    }
    free(list.items);
    results_file_release(&file);
}

/* Nothing is known of the caches then. */
static void scans_alone_are_no_profile(void **state) {
    static predict_profile profile;
    results_file file;
    file_error error;
    cJSON *rows = NULL;
    cJSON *const root = made_file_json(&rows);
    (void)state;
    for (int i = 0; i < 3; i++)
        add_memory(rows, "scan 100000000 bytes", 1e8, 40);
    made_file_read(root, "made", &file);
    assert_int_equal(predict_profile_fit(&file, &profile, &error), -1);
    assert_non_null(strstr(error.text, "made has no rows of reading memory"));
    results_file_release(&file);
}

/* The fastest call of all tells what a launch takes at most: not where that very call is to be predicted. */
static void the_error_of_the_fastest_call_is_without_it(void **state) {
    static predict_profile profile;
    cJSON *rows = NULL;
    cJSON *const root = made_file_json(&rows);
    (void)state;
    made_add_row(rows, "launch", "kernel", "f32", 1e-3, 0, 0);
    for (int i = 0; i < 5; i++) {
        char name[32];
        snprintf(name, sizeof name, "read %d", 100000000 + i);
        add_memory(rows, name, 1e8 + i, 40);
    }
    cJSON *const fastest = add_memory(rows, "read 100000", 1e5, 40);
    set_seconds(fastest, 1e-5);
    fit(root, &profile);
    test_is_near(profile.launch_s, 1e-5, 1e-9);
    assert_true(profile.classes[0].worst > 50);
}

/* ---- where it stands ------------------------------------------------------------------------------- */

/* What `tandem predict` prints of reading 5 GB; the caller frees it. */
static char *printed(const predict_profile *profile, cJSON **json) {
    static predict_workload workload;
    static predict_run run;
    static const predict_prices none = {NAN, NAN, NAN, NAN, NAN, NAN};
    char *text = NULL;
    size_t size = 0;
    workload = (predict_workload){.name = "w", .tokens = NAN, .batch = 1, .operation_count = 1};
    workload.operations[0] = (workload_operation){.count = 1};
    predict_work *const work = &workload.operations[0].work;
    *work = (predict_work){.m = NAN, .n = NAN, .k = NAN, .flops = NAN, .read_bytes = 4e8};
    work->working_set = 4e8;
    snprintf(work->key, sizeof work->key, "stream");
    predict_run_fill(&run, profile, &workload, NAN, &none);
    assert_int_equal(run.refused, 0);
    test_is_near(run.seconds, 4e8 / 40e9, 0.03);
    FILE *const file = open_memstream(&text, &size);
    assert_non_null(file);
    predict_print(&run, 1, file);
    fclose(file);
    *json = predict_json(&run, 1);
    return text;
}

static void the_table_and_the_file_tell(void **state) {
    static predict_profile profile;
    (void)state;
    for (int moved = 0; moved < 2; moved++) {
        cJSON *json = NULL;
        fit(moved ? made_moved_json(1) : made_report_json(), &profile);
        profile.name = "made";
        char *const text = printed(&profile, &json);
        const cJSON *const prediction =
            cJSON_GetArrayItem(cJSON_GetObjectItem(json, "predictions"), 0);
        const cJSON *const memory =
            cJSON_GetObjectItem(cJSON_GetObjectItem(prediction, "profile"), "main_memory");
        const cJSON *const sentence = cJSON_GetObjectItem(memory, "contradiction");
        assert_int_equal(cJSON_IsTrue(cJSON_GetObjectItem(memory, "contradicts_itself")), moved);
        test_is_near(cJSON_GetObjectItem(memory, "taken_gbs")->valuedouble, 40, 0.01);
        assert_int_equal(strstr(text, "contradicts itself") != NULL, moved);
        assert_int_equal(cJSON_IsString(sentence), moved);
        if (moved) {
            assert_non_null(strstr(text, cJSON_GetStringValue(sentence)));
            assert_non_null(strstr(text, "The prediction takes 40 GB/s, the median of 7 rows that "
                                         "only read, without those with the processors elsewhere"));
            const cJSON *const swept =
                cJSON_GetArrayItem(cJSON_GetObjectItem(memory, "kinds"), EVIDENCE_SWEEP);
            test_is_near(cJSON_GetObjectItem(swept, "gbs")->valuedouble, 80, 0.01);
            assert_true(cJSON_GetObjectItem(swept, "rows_elsewhere")->valuedouble == 3);
        }
        cJSON_Delete(json);
        free(text);
    }
}

static void the_page_of_a_report_tells(void **state) {
    (void)state;
    for (int moved = 0; moved < 2; moved++) {
        cJSON *const root = moved ? made_moved_json(1) : made_report_json();
        char *const text = cJSON_PrintUnformatted(root);
        char *const page = report_page_of(text, 0);
        assert_int_equal(strstr(page, "This file contradicts itself:") != NULL, moved);
        assert_int_equal(strstr(page, "and 79.8 to sweep, ") != NULL, moved);
        free(page);
        free(text);
        cJSON_Delete(root);
    }
}

/* ---- files of this tree ------------------------------------------------------------------------------ */

/* The mean error that is asked for of PoCL's reports, and which of them were measured on a machine that changed. */
static void committed_reports_are_predicted(void **state) {
    static const struct {
        const char *name;
        int contradicts;
    } reports[] = {
        {"2026-11-22-amd-epyc-zen4-2c-pocl-3.1-report", 1},
        {"2026-11-22-amd-epyc-zen4-2c-pocl-3.1-report-5min", 0},
        {"2026-11-22-amd-epyc-zen4-2c-pocl-3.1-report-visits", 0},
        {"2026-11-23-amd-epyc-zen5-2c-pocl-3.1-report", 0},
        {"2026-11-23-amd-epyc-zen5-2c-pocl-3.1-report-first", 0},
        {"2026-11-23-amd-epyc-zen5-2c-pocl-3.1-report-later", 0},
        {"2026-11-23-amd-epyc-zen5-2c-pocl-3.1-report-later-first", 1},
        {"2026-11-23-amd-epyc-zen5-2c-pocl-3.1-report-morning", 0},
        {"2026-11-23-amd-epyc-zen5-2c-pocl-3.1-report-morning-first", 0},
    };
    static predict_profile profile;
    (void)state;
    for (size_t i = 0; i < sizeof reports / sizeof *reports; i++) {
        char path[512];
        results_file file;
        file_error error;
        snprintf(path, sizeof path, "%s/bench/results/%s.json", TANDEM_SOURCE_DIR, reports[i].name);
        if (results_read(path, &file, &error) != 0 ||
            predict_profile_fit(&file, &profile, &error) != 0)
            fail_msg("%s", error.text);
        if (!(profile.error <= 0.15) || profile.held_out < 130)
            fail_msg("%s: %.3f of %zu rows", path, profile.error, profile.held_out);
        if (memory_evidence_contradicts(&profile.evidence) != reports[i].contradicts)
            fail_msg("%s: %.3f times apart", path, profile.evidence.apart);
        results_file_release(&file);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(honest_rows_do_not_contradict_each_other),
        cmocka_unit_test(what_contradicts_is_told_with_its_figures),
        cmocka_unit_test(others_may_be_slower_but_not_faster),
        cmocka_unit_test(the_fastest_form_of_reading_counts_beside_other_kernels),
        cmocka_unit_test(sets_that_a_cache_may_serve_are_no_evidence),
        cmocka_unit_test(the_prediction_takes_what_most_rows_met),
        cmocka_unit_test(rows_from_elsewhere_are_taken_where_there_are_no_others),
        cmocka_unit_test(what_else_was_read_continues_the_sweep),
        cmocka_unit_test(rows_that_are_held_out_tell_nothing),
        cmocka_unit_test(scans_alone_are_no_profile),
        cmocka_unit_test(the_error_of_the_fastest_call_is_without_it),
        cmocka_unit_test(the_table_and_the_file_tell),
        cmocka_unit_test(the_page_of_a_report_tells),
        cmocka_unit_test(committed_reports_are_predicted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
