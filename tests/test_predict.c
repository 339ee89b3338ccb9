/* `tandem predict`: its formulas by hand, a device that is made from the model and found again, what a profile refuses. */
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

#include "bench/predict_fit.h"
#include "bench/predict_memory.h"
#include "bench/predict_rows.h"
#include "bench/predict_run.h"
#include "tests/support/made_device.h"
#include "tests/support/test_folder.h"
#include "tests/support/test_near.h"

/* ---- formulas -------------------------------------------------------------------------------------- */

static void formulas_by_hand(void **state) {
    predict_prices prices = {1000, 1, 1, 360, 1, 0.1};
    (void)state;
    test_is_near(predict_bandwidth(1e6, 1e-6, 1e12), 5e11, 1e-12);
    test_is_near(predict_kv_bytes(32, 8, 128, 2), 131072, 0);
    test_is_near(predict_decode_bound(4, 1e12, 16e9, 0.5e9), 4e12 / 18e9, 1e-12);
    test_is_near(predict_what_if(0.8, 2), 1 / 0.6, 1e-12);
    test_is_near(predict_what_if(1, 0.5), 0.5, 1e-12);
    test_is_near(predict_turning_batch(1e15, 2, 2e12), 500, 1e-12);
    test_is_near(predict_spill_s(30e9, 24e9, 25e9), 0.24, 1e-12);
    assert_true(predict_spill_s(24e9, 24e9, NAN) == 0);
    test_is_near(predict_cost_per_second(&prices), 1000 / 31557600.0 + 1e-5, 1e-12);
    test_is_near(predict_break_even_price(&prices, 2, 2 * (1000 / 31557600.0 + 1e-5)), 1000, 1e-9);
    assert_true(isnan(predict_break_even_price(&prices, 2, 1.9e-5)));
    prices.use = 0.5;
    prices.pue = 1.5;
    test_is_near(predict_cost_per_second(&prices), 2000 / 31557600.0 + 1.5e-5, 1e-12);
    prices.price = NAN;
    test_is_near(predict_cost_per_second(&prices), 1.5e-5, 1e-12);
    prices.tariff = NAN;
    assert_true(isnan(predict_cost_per_second(&prices)));
}

static void the_pareto_front(void **state) {
    const double seconds[] = {1, 2, 3, 2};
    const double costs[] = {9, 5, 6, 5};
    const double unknown[] = {NAN, NAN, NAN, NAN};
    (void)state;
    assert_true(predict_is_pareto(seconds, costs, 4, 0));
    assert_true(predict_is_pareto(seconds, costs, 4, 1));
    assert_false(predict_is_pareto(seconds, costs, 4, 2));
    assert_true(predict_is_pareto(seconds, costs, 4, 3));
    assert_false(predict_is_pareto((const double[]){2, 2}, (const double[]){5, 4}, 2, 0));
    assert_true(predict_is_pareto((const double[]){2, 2}, (const double[]){5, 4}, 2, 1));
    assert_true(predict_is_pareto(seconds, unknown, 4, 0));
    assert_false(predict_is_pareto(seconds, unknown, 4, 1));
}

static void a_fit_finds_its_factors_beside_a_disturbed_row(void **state) {
    fit_equation equations[20];
    double factors[FIT_MAX_TERMS];
    (void)state;
    for (int i = 0; i < 20; i++) {
        const double x = 1 + i;
        equations[i] = (fit_equation){{x, 1 / x, x * x}, 0.5, 0.5 + 2 * x + 3 / x};
    }
    equations[7].target *= 3;
    fit_factors(equations, 20, 3, factors);
    test_is_near(factors[0], 2, 0.01);
    test_is_near(factors[1], 3, 0.03);
    assert_true(factors[2] >= 0 && factors[2] < 0.01);
}

/* ---- the made device --------------------------------------------------------------------------------- */

static const predict_class *class_of(const predict_profile *profile, const char *key) {
    for (size_t i = 0; i < profile->class_count; i++) {
        if (strcmp(profile->classes[i].key, key) == 0)
            return &profile->classes[i];
    }
    fail_msg("there is no class '%s'", key);
    return NULL;
}

static void a_device_of_the_model_is_found_again(void **state) {
    static predict_profile profile;
    results_file file;
    file_error error;
    (void)state;
    made_device_read(&file, NULL);
    assert_int_equal(predict_profile_fit(&file, &profile, &error), 0);
    test_is_near(profile.launch_s, MADE_LAUNCH, 1e-9);
    test_is_near(predict_read_speed(&profile, 3e5), 400e9, 1e-6);
    assert_int_equal(predict_level(&profile, 3e5), 1);
    test_is_near(predict_read_speed(&profile, 8e6), 100e9, 1e-6);
    assert_int_equal(predict_level(&profile, 8e6), 2);
    test_is_near(predict_read_speed(&profile, 5e9), 40e9, 1e-6);
    assert_int_equal(predict_level(&profile, 5e9), 0);
    assert_true(predict_main_share(&profile, 8e6) == 0);
    test_is_near(predict_main_share(&profile, 5e9), 1, 1e-9);
    test_is_near(predict_main_share(&profile, 32e6), made_main_share(32e6), 0.03);
    const predict_class *const products = class_of(&profile, "gemm f32 inside");
    static const double terms[] = {1, 8};
    for (int t = 0; t < 2; t++)
        test_is_near(products->terms[t] * MADE_RATE / products->peak, terms[t], 0.05);
    test_is_near(products->terms[2] + products->adds * products->moves[REGIME_OUTER][0], 3e-6,
                 0.05);
    const predict_class *const streams = class_of(&profile, "stream");
    static const double moves[] = {2e-6, 1 / 80e9, 1 / 50e9, 1 / 40e9, 1 / 20e9};
    for (int t = 0; t < 5; t++)
        test_is_near(streams->moves[REGIME_OUTER][t], moves[t], t == 0 ? 0.05 : 0.01);
    assert_true(profile.held_out >= 40 && profile.error < 0.01);
    assert_true(profile.error > 0); /* nobody predicts rounding */
    test_is_near(profile.capacity_bytes, 1e9, 0);
    results_file_release(&file);
}

/* A larger set is never read faster: where a sweep says so, something disturbed the smaller one. */
static void a_disturbed_point_of_the_sweep_is_passed_over(void **state) {
    static predict_profile profile;
    results_file file;
    file_error error;
    (void)state;
    cJSON *const root = made_device_json();
    cJSON *const row = made_add_row(cJSON_GetObjectItem(root, "results"), "memory",
                                    "sweep read 9000000", "f32", MADE_LAUNCH + 9e6 / 50e9, 0, 9e6);
    cJSON_AddNumberToObject(cJSON_AddObjectToObject(row, "shape"), "bytes", 9e6);
    cJSON_AddNumberToObject(cJSON_AddObjectToObject(row, "metrics"), "level", 2);
    char *const text = cJSON_PrintUnformatted(root);
    assert_int_equal(results_read_text("dip", text, strlen(text), &file, &error), 0);
    assert_int_equal(predict_profile_fit(&file, &profile, &error), 0);
    test_is_near(predict_read_speed(&profile, 9e6), 100e9, 1e-6);
    results_file_release(&file);
    free(text);
    cJSON_Delete(root);
}

/* One row alone tells what writing costs: fitted with it, nothing is missed; without it, all of its time. */
static void the_error_is_of_rows_outside_the_fit(void **state) {
    static predict_profile profile;
    results_file file;
    file_error error;
    (void)state;
    cJSON *const root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schema", "tandem-bench/1");
    cJSON *const rows = cJSON_AddArrayToObject(root, "results");
    for (int i = 0; i < 25; i++)
        made_add_sweep(rows, 1e4 * pow(1.5, i));
    for (int i = 0; i < 5; i++)
        made_add_stream(rows, "read", 2.5e7 * (i + 1), 1, 0);
    made_add_stream(rows, "write", 5e7, 0, 1);
    char *const text = cJSON_PrintUnformatted(root);
    assert_int_equal(results_read_text("few", text, strlen(text), &file, &error), 0);
    assert_int_equal(predict_profile_fit(&file, &profile, &error), 0);
    const predict_class *const streams = class_of(&profile, "stream");
    assert_true(streams->worst > 0.8 && streams->error > 0.13);
    /* Too little of them comes from the cache to tell its cost: that follows from the sweep. */
    test_is_near(streams->moves[REGIME_OUTER][3] / streams->moves[REGIME_OUTER][1],
                 profile.cache_bytes_per_s / profile.main_bytes_per_s, 1e-9);
    results_file_release(&file);
    free(text);
    cJSON_Delete(root);
}

/* Five rows that are wrong by up to a sixth say nothing of sides: a fit through each of them would. */
static void few_rows_are_not_fitted_through(void **state) {
    static predict_profile profile;
    static const double shapes[][4] = {{512, 512, 512, 1.15},
                                       {1024, 1024, 1024, 0.9},
                                       {2048, 2048, 2048, 1.15},
                                       {128, 768, 3072, 0.9},
                                       {128, 3072, 768, 1.1}};
    results_file file;
    file_error error;
    predict_estimate estimate;
    (void)state;
    cJSON *const root = made_device_json();
    cJSON *const rows = cJSON_GetObjectItem(root, "results");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const double *const at = shapes[i];
        const double seconds = 2 * at[0] * at[1] * at[2] / MADE_RATE * at[3];
        made_add_product_of(rows, "bf16", at[0], at[1], at[2], seconds);
    }
    char *const text = cJSON_PrintUnformatted(root);
    assert_int_equal(results_read_text("few", text, strlen(text), &file, &error), 0);
    assert_int_equal(predict_profile_fit(&file, &profile, &error), 0);
    const predict_class *const few = class_of(&profile, "gemm bf16 inside");
    assert_true(few->terms[1] == 0);
    assert_true(few->error < 0.3);
    predict_work work = {.dtype = "bf16", .m = 64, .n = 4096, .k = 4096, .flops = 2147483648.0};
    work.read_bytes = work.working_set = 4 * 17301504.0;
    snprintf(work.key, sizeof work.key, "gemm bf16 inside");
    assert_int_equal(predict_time(&profile, &work, &estimate, &error), 0);
    test_is_near(estimate.seconds, work.flops / MADE_RATE, 0.2);
    results_file_release(&file);
    free(text);
    cJSON_Delete(root);
}

static predict_work product(double m, double n, double k, const char *dtype, const char *packing) {
    predict_work work = {.dtype = dtype, .m = m, .n = n, .k = k, .flops = 2 * m * n * k};
    work.read_bytes = work.working_set = 4 * (m * k + k * n + m * n);
    predict_product_key(work.key, m, n, dtype, packing);
    return work;
}

/* Of few rows, with weights from main memory, which takes as long as the arithmetic of ten rows. */
static void fit_few_rows(int adds, predict_profile *profile) {
    static const double shapes[][3] = {{1, 4096, 4096}, {1, 8192, 4096},  {2, 4096, 4096},
                                       {4, 8192, 4096}, {4, 4096, 8192},  {8, 4096, 4096},
                                       {8, 4096, 8192}, {16, 4096, 4096}, {16, 8192, 4096}};
    results_file file;
    file_error error;
    cJSON *const root = made_device_json();
    cJSON *const rows = cJSON_GetObjectItem(root, "results");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const double *const at = shapes[i];
        const double arithmetic = 2 * at[0] * at[1] * at[2] / MADE_RATE;
        const double memory = 4 * (at[0] * at[1] + at[0] * at[2] + at[1] * at[2]) / 40e9;
        made_add_product_of(rows, "f16", at[0], at[1], at[2],
                            MADE_LAUNCH + (adds ? arithmetic + memory : fmax(arithmetic, memory)));
    }
    char *const text = cJSON_PrintUnformatted(root);
    assert_int_equal(results_read_text("few", text, strlen(text), &file, &error), 0);
    assert_int_equal(predict_profile_fit(&file, profile, &error), 0);
    results_file_release(&file);
    free(text);
    cJSON_Delete(root);
}

/* A product of m rows: whether its time and the shares of it are what they are made of. */
static void shares_are_whole(const predict_profile *profile, int adds, double m) {
    static predict_workload workload;
    static predict_run run;
    const predict_prices prices = {NAN, 4, 0.5, NAN, 1, NAN};
    workload = (predict_workload){.tokens = NAN, .batch = 1, .operation_count = 1};
    workload_operation *const only = &workload.operations[0];
    only->count = 3;
    only->work = product(m, 4096, 6000, "f16", "inside");
    only->work.working_set = only->work.read_bytes = 4 * (m * 4096 + m * 6000 + 4096 * 6000.0);
    const double arithmetic = only->work.flops / MADE_RATE;
    const double memory = only->work.read_bytes / 40e9;
    predict_run_fill(&run, profile, &workload, NAN, &prices);
    test_is_near(run.seconds,
                 3 * (MADE_LAUNCH + (adds ? arithmetic + memory : fmax(arithmetic, memory))), 0.02);
    double all = 0;
    for (int i = 0; i < PREDICT_LIMITERS; i++)
        all += run.shares[i];
    test_is_near(all, run.seconds, 1e-9);
    const int by_compute = arithmetic > memory;
    test_is_near(run.shares[LIMIT_COMPUTE], adds || by_compute ? 3 * arithmetic : 0, 0.05);
    test_is_near(run.shares[LIMIT_MEMORY], adds || !by_compute ? 3 * memory : 0, 0.05);
    assert_int_equal(run.limiter, by_compute ? LIMIT_COMPUTE : LIMIT_MEMORY);
}

/* Rows of 8192 weights and more come at half the speed, as those of w8 do on some processors. */
static void long_rows_of_weights_may_come_slower(void **state) {
    static const double shapes[][3] = {{1, 4096, 4096},  {1, 8192, 4096},  {1, 4096, 8192},
                                       {1, 2048, 14336}, {1, 4096, 11008}, {2, 4096, 4096},
                                       {1, 11008, 4096}, {4, 8192, 2048}};
    static predict_profile profile;
    results_file file;
    file_error error;
    (void)state;
    cJSON *const root = made_device_json();
    cJSON *const rows = cJSON_GetObjectItem(root, "results");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const double *const at = shapes[i];
        const double bytes = 4 * (at[0] * at[1] + at[0] * at[2] + at[1] * at[2]);
        made_add_product_of(rows, "f16", at[0], at[1], at[2],
                            MADE_LAUNCH + bytes / (at[2] > 7500 ? 20e9 : 40e9));
    }
    char *const text = cJSON_PrintUnformatted(root);
    assert_int_equal(results_read_text("long", text, strlen(text), &file, &error), 0);
    assert_int_equal(predict_profile_fit(&file, &profile, &error), 0);
    assert_true(class_of(&profile, "gemv f16 inside")->error < 0.02);
    results_file_release(&file);
    free(text);
    cJSON_Delete(root);
}

/* Some devices do arithmetic while they wait for memory, others one after the other: the rows say which. */
static void arithmetic_adds_to_memory_or_hides_behind_it(void **state) {
    static predict_profile profile;
    (void)state;
    for (int adds = 0; adds < 2; adds++) {
        fit_few_rows(adds, &profile);
        const predict_class *const few = class_of(&profile, "gemv f16 inside");
        assert_int_equal(few->adds, adds);
        assert_true(few->error < 0.02 && fabs(few->leaning) <= few->error);
        shares_are_whole(&profile, adds, 6);
        shares_are_whole(&profile, adds, 14);
    }
}

static void add_row_beside(cJSON *rows, const char *name, double handover_ns, double work_ns) {
    cJSON *const row = made_add_row(rows, "memory", name, "f32", 1e-3, 0, 1e6);
    cJSON *const metrics = cJSON_AddObjectToObject(row, "metrics");
    cJSON_AddNumberToObject(metrics, "handover_ns", handover_ns);
    cJSON_AddNumberToObject(metrics, "work_ns", work_ns);
}

/* Beside some rows the processors were slower, or further apart: those are of another machine, so to say. */
static void rows_of_processors_elsewhere_are_left_out(void **state) {
    static const double states[][2] = {{120, 9700}, {130, 9800}, {115, 13700}, {390, 9900},
                                       {120, 9600}, {125, 7000}, {110, 11500}, {60, 9700}};
    results_file file;
    file_error error;
    predict_observations list;
    (void)state;
    cJSON *const root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schema", "tandem-bench/1");
    cJSON *const rows = cJSON_AddArrayToObject(root, "results");
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        add_row_beside(rows, "read 1000000", states[i][0], states[i][1]);
    made_add_row(rows, "memory", "read 2000000", "f32", 2e-3, 0, 2e6); /* it says nothing */
    char *const text = cJSON_PrintUnformatted(root);
    assert_int_equal(results_read_text("slow", text, strlen(text), &file, &error), 0);
    assert_int_equal(predict_observe(&file, &list), 0);
    assert_int_equal(list.count, 5);
    assert_int_equal(list.elsewhere, 4);
    free(list.items);
    results_file_release(&file);
    free(text);
    cJSON_Delete(root);
}

/* But not where a class had less than four rows then. */
static void a_class_keeps_its_rows_from_elsewhere_where_it_has_no_others(void **state) {
    results_file file;
    file_error error;
    predict_observations list;
    (void)state;
    cJSON *const root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schema", "tandem-bench/1");
    cJSON *const rows = cJSON_AddArrayToObject(root, "results");
    for (int i = 0; i < 6; i++)
        add_row_beside(rows, "read 1000000", i < 3 ? 120 : 390, 9700);
    for (int i = 0; i < 3; i++)
        add_row_beside(rows, "gather 1000000", 120, 9700);
    char *const text = cJSON_PrintUnformatted(root);
    assert_int_equal(results_read_text("few", text, strlen(text), &file, &error), 0);
    assert_int_equal(predict_observe(&file, &list), 0);
    assert_int_equal(list.count, 6);
    assert_int_equal(list.elsewhere, 0);
    free(list.items);
    results_file_release(&file);
    free(text);
    cJSON_Delete(root);
}

/* A fifth of every class is left out at a time, not of all rows: a class of nine would lose five of them at once by chance. */
static void each_fold_has_as_many_of_a_class(void **state) {
    results_file file;
    predict_observations list;
    int folds[2][PREDICT_FOLDS] = {{0}};
    (void)state;
    made_device_read(&file, NULL);
    assert_int_equal(predict_observe(&file, &list), 0);
    size_t count[2] = {0};
    for (size_t i = 0; i < list.count; i++) {
        const int is_stream = strcmp(list.items[i].work.key, "stream") == 0;
        folds[is_stream][list.items[i].fold]++;
        count[is_stream]++;
    }
    for (int c = 0; c < 2; c++) {
        for (int f = 0; f < PREDICT_FOLDS; f++)
            assert_true(folds[c][f] == (int)(count[c] / PREDICT_FOLDS) ||
                        folds[c][f] == (int)((count[c] + PREDICT_FOLDS - 1) / PREDICT_FOLDS));
    }
    free(list.items);
    results_file_release(&file);
}

/* Where a tensor is read for its scale and then again, it is in the working set once. */
static void what_is_read_twice_is_in_the_working_set_once(void **state) {
    static const char *const names[] = {"dynamic f32 s8 tensor 100x50", "dynamic f32 s8 row 100x50",
                                        "dynamic f16 s8 column 100x50",
                                        "quantize f32 s8 tensor 100x50"};
    static const double bytes[] = {9 * 5000 + 4, 5 * 5000 + 400, 5 * 5000 + 200, 5 * 5000 + 4};
    static const double sets[] = {5 * 5000 + 4, 5 * 5000 + 400, 3 * 5000 + 200, 5 * 5000 + 4};
    results_file file;
    file_error error;
    predict_observations list;
    (void)state;
    cJSON *const root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schema", "tandem-bench/1");
    cJSON *const rows = cJSON_AddArrayToObject(root, "results");
    for (int i = 0; i < 4; i++) {
        cJSON *const row = made_add_row(rows, "quant", names[i], "f32s8", 1e-3, 0, bytes[i]);
        cJSON *const shape = cJSON_AddObjectToObject(row, "shape");
        cJSON_AddNumberToObject(shape, "rows", 100);
        cJSON_AddNumberToObject(shape, "columns", 50);
    }
    char *const text = cJSON_PrintUnformatted(root);
    assert_int_equal(results_read_text("twice", text, strlen(text), &file, &error), 0);
    assert_int_equal(predict_observe(&file, &list), 0);
    assert_int_equal(list.count, 4);
    for (int i = 0; i < 4; i++) {
        test_is_near(list.items[i].work.read_bytes, bytes[i], 0);
        test_is_near(list.items[i].work.working_set, sets[i], 0);
    }
    free(list.items);
    results_file_release(&file);
    free(text);
    cJSON_Delete(root);
}

/* Of elementwise operations each with its types is a class, as those of quant are; what runs beside them is none. */
static void elementwise_rows_are_of_their_operation(void **state) {
    static const char *const names[] = {"gelu f32 65536", "gelu f32 1048576", "add bf16 65536",
                                        "convert f32 f16 65536"};
    static const char *const keys[] = {"gelu f32", "gelu f32", "add bf16", "convert f32 f16"};
    static const double bytes[] = {8 * 65536, 8 * 1048576, 6 * 65536, 6 * 65536};
    results_file file;
    file_error error;
    predict_observations list;
    (void)state;
    cJSON *const root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schema", "tandem-bench/1");
    cJSON *const rows = cJSON_AddArrayToObject(root, "results");
    for (int i = 0; i < 4; i++)
        made_add_row(rows, "elementwise", names[i], "f32", 1e-3 * (i + 1), 0, bytes[i]);
    cJSON *const beside = made_add_row(rows, "elementwise", names[0], "f32", 1e-3, 0, bytes[0]);
    cJSON_SetValuestring(cJSON_GetObjectItem(beside, "impl"), "tandem-stream");
    char *const text = cJSON_PrintUnformatted(root);
    assert_int_equal(results_read_text("elementwise", text, strlen(text), &file, &error), 0);
    assert_int_equal(predict_observe(&file, &list), 0);
    assert_int_equal(list.count, 4);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(list.items[i].work.key, keys[i]);
        test_is_near(list.items[i].seconds, 1e-3 * (i + 1), 1e-12);
        test_is_near(list.items[i].work.read_bytes, bytes[i], 0);
        test_is_near(list.items[i].work.working_set, bytes[i], 0);
    }
    free(list.items);
    results_file_release(&file);
    free(text);
    cJSON_Delete(root);
}

/* Copies of B that calls take in turn are touched before the first comes again. */
static void copies_of_b_are_in_the_working_set(void **state) {
    results_file file;
    file_error error;
    predict_observations list;
    (void)state;
    cJSON *const root = cJSON_CreateObject();
    cJSON_AddStringToObject(root, "schema", "tandem-bench/1");
    cJSON *const rows = cJSON_AddArrayToObject(root, "results");
    made_add_product_of(rows, "f32", 1, 256, 512, 1e-3);
    cJSON_AddNumberToObject(made_add_product_of(rows, "f32", 1, 256, 512, 1e-3), "copies_of_b", 5);
    cJSON_AddNumberToObject(made_add_product_of(rows, "f32", 1, 1e12, 1e12, 1e-3), "copies_of_b",
                            3);
    char *const text = cJSON_PrintUnformatted(root);
    assert_int_equal(results_read_text("rotating", text, strlen(text), &file, &error), 0);
    assert_int_equal(predict_observe(&file, &list), 0);
    assert_int_equal(list.count, 3);
    test_is_near(list.items[2].work.working_set, 3 * 4e24, 1e-9);
    test_is_near(list.items[0].work.working_set, 4 * (512 + 256 * 512 + 256), 0);
    test_is_near(list.items[1].work.working_set, 4 * (512 + 5 * 256 * 512 + 256), 0);
    test_is_near(list.items[1].work.read_bytes, list.items[0].work.read_bytes, 0);
    free(list.items);
    results_file_release(&file);
    free(text);
    cJSON_Delete(root);
}

static void what_was_not_measured_is_refused(void **state) {
    static predict_profile profile;
    results_file file;
    file_error error;
    predict_estimate estimate;
    (void)state;
    made_device_read(&file, NULL);
    assert_int_equal(predict_profile_fit(&file, &profile, &error), 0);
    predict_work work = product(300, 700, 900, "f32", "inside");
    assert_int_equal(predict_time(&profile, &work, &estimate, &error), 0);
    test_is_near(estimate.seconds, made_product_s(300, 700, 900), 0.01);
    work = product(300, 700, 900, "f32", "prepacked"); /* by the rows with B packed inside */
    assert_int_equal(predict_time(&profile, &work, &estimate, &error), 0);
    assert_string_equal(estimate.key, "gemm f32 inside");
    work = product(300, 700, 900, "bf16", "inside");
    assert_int_equal(predict_time(&profile, &work, &estimate, &error), -1);
    assert_string_equal(error.text, "made has 0 rows of 'gemm bf16 inside', and 4 are needed");
    work = product(1, 700, 900, "f32", "inside");
    assert_int_equal(predict_time(&profile, &work, &estimate, &error), -1);
    assert_non_null(strstr(error.text, "gemv f32 inside"));
    work = product(20000, 20000, 20000, "f32", "inside");
    assert_int_equal(predict_time(&profile, &work, &estimate, &error), -1);
    assert_non_null(strstr(error.text, "were not tested"));
    work = product(2048, 2048, 17, "f32", "inside");
    assert_int_equal(predict_time(&profile, &work, &estimate, &error), -1);
    assert_non_null(strstr(error.text, "a side of 17 was not tested"));
    results_file_release(&file);
}

static void the_bandwidth_scale_is_of_main_memory(void **state) {
    static predict_profile profile;
    results_file file;
    file_error error;
    predict_estimate estimate;
    (void)state;
    made_device_read(&file, NULL);
    assert_int_equal(predict_profile_fit(&file, &profile, &error), 0);
    profile.bandwidth_scale = 2;
    predict_work work = {.m = NAN, .n = NAN, .k = NAN, .flops = NAN, .read_bytes = 8e7};
    snprintf(work.key, sizeof work.key, "stream");
    work.working_set = 8e7;
    assert_int_equal(predict_time(&profile, &work, &estimate, &error), 0);
    test_is_near(estimate.seconds, MADE_LAUNCH + 2e-6 + 8e7 / 80e9, 0.01);
    work.read_bytes = work.working_set = 8e6;
    assert_int_equal(predict_time(&profile, &work, &estimate, &error), 0);
    test_is_near(estimate.seconds, MADE_LAUNCH + 2e-6 + 8e6 / 80e9, 0.01);
    /* Of a set that both serve, the part of main memory alone is faster. */
    test_is_near(predict_read_speed(&profile, 32e6), 1 / (0.5 / 100e9 + 0.25 / 40e9), 0.02);
    work.read_bytes = work.working_set = 32e6;
    assert_int_equal(predict_time(&profile, &work, &estimate, &error), 0);
    test_is_near(estimate.seconds, MADE_LAUNCH + 2e-6 + 16e6 / 80e9 + 16e6 / 80e9, 0.02);
    results_file_release(&file);
}

static workload_operation reading(double bytes) {
    workload_operation operation = {.count = 1};
    operation.work = (predict_work){.m = NAN, .n = NAN, .k = NAN, .flops = NAN};
    operation.work.read_bytes = operation.work.working_set = bytes;
    snprintf(operation.work.key, sizeof operation.work.key, "stream");
    return operation;
}

/* What the caches serve of a set stays as it is where main memory becomes faster. */
static void half_of_a_set_may_come_from_a_cache(void **state) {
    static predict_profile profile;
    static predict_workload workload;
    static predict_run run;
    static const predict_prices none = {NAN, NAN, NAN, NAN, NAN, NAN};
    static const double sets[] = {22e6, 32e6, 8e7, 8e6};
    results_file file;
    file_error error;
    (void)state;
    made_device_read(&file, NULL);
    assert_int_equal(predict_profile_fit(&file, &profile, &error), 0);
    for (size_t i = 0; i < 4; i++)
        workload.operations[i] = reading(sets[i]);
    workload.operation_count = 4;
    predict_run_fill(&run, &profile, &workload, NAN, &none);
    const predicted_operation *const found = run.operations;
    test_is_near(found[1].call.main_s, 16e6 / 40e9, 0.03);
    assert_int_equal(found[0].call.level, 2);
    assert_int_equal(found[1].call.level, 0);
    assert_true(found[0].limiter == LIMIT_CACHE && found[1].limiter == LIMIT_MEMORY);
    assert_string_equal(predict_limiter_level(&profile, found[0].limiter, found[0].call.level).text,
                        "L2");
    assert_string_equal(predict_limiter_level(&profile, found[1].limiter, found[1].call.level).text,
                        "main memory");
    assert_true(run.cache_s[0] == 0 && run.cache_s[1] == 0);
    test_is_near(run.cache_s[2], run.shares[LIMIT_CACHE], 1e-12);
    profile.has_levels = 0;
    assert_string_equal(predict_limiter_level(&profile, found[0].limiter, found[0].call.level).text,
                        "cache");
    profile.has_levels = 1;
    /* At no bandwidth does the launch take longer than what the cache serves; it does where that is two microseconds. */
    assert_true(isnan(found[1].turn));
    test_is_near(found[2].turn, 8e7 / 40e9 / (MADE_LAUNCH - 2e-6), 0.05);
    workload.operations[0] = reading(8e6);
    workload.operations[2] = reading(8e6);
    profile.bandwidth_scale = 2;
    predict_run_fill(&run, &profile, &workload, NAN, &none);
    const double all_s = 4 * (MADE_LAUNCH + 2e-6) + 16e6 / 80e9 + 16e6 / 40e9 + 3 * 8e6 / 80e9;
    const double share = 16e6 / 40e9 / all_s;
    test_is_near(run.what_if, 1 / (1 - share / 2), 0.01);
    results_file_release(&file);
}

static void a_file_without_memory_rows_is_no_profile(void **state) {
    static const char text[] = "{\"schema\":\"tandem-bench/1\",\"results\":[]}";
    static predict_profile profile;
    results_file file;
    file_error error;
    (void)state;
    assert_int_equal(results_read_text("bare", text, sizeof text - 1, &file, &error), 0);
    assert_int_equal(predict_profile_fit(&file, &profile, &error), -1);
    assert_non_null(strstr(error.text, "bare has no rows of reading memory"));
    results_file_release(&file);
}

/* A device of 1e9 bytes, or as `value` has it. NULL: it is a profile, else what is said of it. */
static void capacity_is(const char *key, cJSON *value, const char *sentence, double capacity) {
    static predict_profile profile;
    results_file file;
    file_error error;
    cJSON *const root = made_device_json();
    cJSON *const device = cJSON_GetObjectItem(root, "device");
    cJSON_DeleteItemFromObject(device, key);
    if (value != NULL)
        cJSON_AddItemToObject(device, key, value);
    char *const text = cJSON_PrintUnformatted(root);
    cJSON_Delete(root);
    assert_int_equal(results_read_text("made", text, strlen(text), &file, &error), 0);
    if (predict_profile_fit(&file, &profile, &error) == 0) {
        if (sentence != NULL)
            fail_msg("taken, without: %s", sentence);
        assert_true(profile.capacity_bytes == capacity ||
                    (isnan(profile.capacity_bytes) && isnan(capacity)));
    } else if (sentence == NULL || strcmp(error.text, sentence) != 0) {
        fail_msg("refused with: %s", error.text);
    }
    results_file_release(&file);
    free(text);
}

static void a_size_that_is_none_is_no_capacity(void **state) {
    (void)state;
    capacity_is("global_bytes", cJSON_CreateNumber(5e9), NULL, 5e9);
    capacity_is("global_bytes", cJSON_CreateNull(), NULL, NAN);
    capacity_is("global_bytes", NULL, NULL, NAN);
    capacity_is("global_bytes", cJSON_CreateNumber(0),
                "made: device: member \"global_bytes\" is '0', not a positive number of bytes", 0);
    capacity_is("global_bytes", cJSON_CreateNumber(-5),
                "made: device: member \"global_bytes\" is '-5', not a positive number of bytes", 0);
    capacity_is("global_bytes", cJSON_CreateString("24 GB"),
                "made: device: member \"global_bytes\" is '24 GB', not a positive number of bytes",
                0);
    cJSON *const size = cJSON_CreateObject();
    cJSON_AddNumberToObject(size, "value", 7e9);
    cJSON_AddStringToObject(size, "unit", "bytes");
    capacity_is("global_bytes", size, NULL, 7e9);
    cJSON *const other = cJSON_CreateObject();
    cJSON_AddNumberToObject(other, "gb", 7);
    capacity_is("global_bytes", other,
                "made: device: member \"global_bytes\" is an object without a \"value\"", 0);
    capacity_is("cache_bytes", cJSON_CreateNull(), NULL, 1e9);
    capacity_is("cache_bytes", cJSON_CreateString("32M"),
                "made: device: member \"cache_bytes\" is '32M', not a positive number of bytes", 0);
}

/* The sheet of an L4 has 300 GB/s; of another device nothing is known. */
static void rows_above_the_sheet_are_counted(void **state) {
    static predict_profile profile;
    (void)state;
    for (int known = 0; known < 2; known++) {
        results_file file;
        file_error error;
        cJSON *const root = made_device_json();
        cJSON *const device = cJSON_GetObjectItem(root, "device");
        cJSON_DeleteItemFromObject(device, "name");
        made_add_row(cJSON_GetObjectItem(root, "results"), "memory", "copy 1000000000", "f32", 1e-3,
                     0, 1e9);
        cJSON_AddStringToObject(device, "name", known ? "NVIDIA L4" : "A device");
        char *const text = cJSON_PrintUnformatted(root);
        cJSON_Delete(root);
        assert_int_equal(results_read_text("made", text, strlen(text), &file, &error), 0);
        assert_int_equal(predict_profile_fit(&file, &profile, &error), 0);
        assert_int_equal(profile.above_sheet, known ? 1 : 0);
        results_file_release(&file);
        free(text);
    }
}

/* One upload for each speed in GB/s, and a row of each power. */
static void add_uploads(cJSON *rows, const char *memory, const double *speeds, int count) {
    char name[64];
    snprintf(name, sizeof name, "upload 1000000%s", memory);
    for (int i = 0; i < count; i++)
        made_add_row(rows, "memory", name, "f32", 1e6 / (1e9 * speeds[i]), 0, 1e6);
}

static void fit_rows(const cJSON *root, predict_profile *profile) {
    results_file file;
    file_error error;
    char *const text = cJSON_PrintUnformatted(root);
    assert_int_equal(results_read_text("made", text, strlen(text), &file, &error), 0);
    assert_int_equal(predict_profile_fit(&file, profile, &error), 0);
    results_file_release(&file);
    free(text);
}

static void the_link_is_that_of_pinned_memory_where_it_was_measured(void **state) {
    static predict_profile profile;
    (void)state;
    cJSON *const root = made_device_json();
    cJSON *const rows = cJSON_GetObjectItem(root, "results");
    add_uploads(rows, ", pageable", (const double[]){4, 5, 6, 5, 5}, 5);
    made_add_row(rows, "memory", "upload and download 1000000, both ways, pinned", "f32", 1e-6, 0,
                 1e6);
    fit_rows(root, &profile);
    test_is_near(profile.link_bytes_per_s, 5e9, 1e-9);
    assert_string_equal(profile.link_memory, "pageable");
    add_uploads(rows, ", pinned", (const double[]){24, 25, 26}, 3);
    fit_rows(root, &profile);
    test_is_near(profile.link_bytes_per_s, 25e9, 1e-9);
    assert_string_equal(profile.link_memory, "pinned");
    cJSON_Delete(root);
}

static void the_power_is_the_median_of_the_rows(void **state) {
    static const double watts[] = {40, 90, 95, 100, 900};
    static predict_profile profile;
    (void)state;
    cJSON *const root = made_device_json();
    cJSON *const rows = cJSON_GetObjectItem(root, "results");
    fit_rows(root, &profile);
    assert_true(isnan(profile.watts));
    for (int i = 0; i < 5; i++) {
        cJSON *const row = made_add_row(rows, "pool", "malloc", "f32", 1e-6, 0, 0);
        cJSON_AddNumberToObject(cJSON_AddObjectToObject(row, "metrics"), "power_w", watts[i]);
    }
    fit_rows(root, &profile);
    test_is_near(profile.watts, 95, 1e-12);
    cJSON_Delete(root);
}

/* ---- runs ------------------------------------------------------------------------------------------ */

/* 100 bytes a token on the sheet of the L4 (300 GB/s): by hand. */
static void a_datasheet_gives_the_bound(void **state) {
    static predict_workload workload;
    static predict_profile profile;
    static predict_run run;
    const workload_settings plain = {0, 0, NULL};
    const predict_prices prices = {NAN, 4, 0.5, NAN, 1, NAN};
    file_error error;
    (void)state;
    predict_profile_from_sheet(datasheet_find("L4"), &profile);
    assert_int_equal(predict_workload_read("llama-3-8b-decode", &plain, &workload, &error), 0);
    predict_run_fill(&run, &profile, &workload, NAN, &prices);
    assert_int_equal(run.refused, 0);
    assert_int_equal(run.limiter, LIMIT_MEMORY);
    test_is_near(run.decode_bound, 300e9 / (workload.weight_bytes + workload.kv_bytes), 1e-9);
    assert_true(run.tokens_per_s < run.decode_bound && run.tokens_per_s > 0.99 * run.decode_bound);
    test_is_near(run.turning_batch, 121e12 * 2 / (2 * 300e9), 1e-9);
    test_is_near(run.joules, 72 * run.seconds, 1e-12);
    assert_true(run.spill_s == 0 && isnan(run.cost));
    /* Twice the bandwidth, half the time; what the formula says too, as all is bound by memory. */
    const double seconds = run.seconds;
    profile.bandwidth_scale = 2;
    predict_run_fill(&run, &profile, &workload, NAN, &prices);
    test_is_near(run.seconds, seconds / 2, 1e-9);
    test_is_near(run.what_if, 2, 1e-9);
    /* 64 times as many sequences: their keys and values do not fit. */
    const workload_settings many = {64, 8192, NULL};
    profile.bandwidth_scale = 1;
    assert_int_equal(predict_workload_read("llama-3-8b-decode", &many, &workload, &error), 0);
    predict_run_fill(&run, &profile, &workload, 25e9, &prices);
    test_is_near(run.spill_s, (run.needed_bytes - 0.95 * 24e9) / 25e9, 1e-9);
    assert_int_equal(run.limiter, LIMIT_CAPACITY);
}

/* "1,625" */
static void add_whole(char *row, size_t size, double number) {
    const long whole = lround(number);
    const size_t length = strlen(row);
    if (whole >= 1000)
        snprintf(row + length, size - length, " %ld,%03ld |", whole / 1000, whole % 1000);
    else
        snprintf(row + length, size - length, " %ld |", whole);
}

/* Llama 3 8B, 1,024 tokens of context. */
static void run_decode(predict_run *run, const char *device, const char *weights, double batch) {
    static predict_workload workload;
    static predict_profile profile;
    const workload_settings settings = {batch, 1024, weights};
    const predict_prices prices = {NAN, 4, 0.5, NAN, 1, NAN};
    file_error error;
    predict_profile_from_sheet(datasheet_find(device), &profile);
    assert_int_equal(predict_workload_read("llama-3-8b-decode", &settings, &workload, &error), 0);
    predict_run_fill(run, &profile, &workload, NAN, &prices);
}

static void the_table_of_the_document_is_what_is_predicted(void **state) {
    static const char *const devices[] = {"RTX 4090",    "RTX 5090", "L40S",
                                          "A100-80 SXM", "H100 SXM", "H200"};
    static predict_run run;
    size_t size = 0;
    char *const document = (char *)test_file_read(TANDEM_SOURCE_DIR "/docs/hbm-vs-gddr.md", &size);
    (void)state;
    assert_non_null(document);
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        char row[200];
        snprintf(row, sizeof row, "\n| %s |", devices[i]);
        run_decode(&run, devices[i], "f16", 1);
        add_whole(row, sizeof row, run.tokens_per_s);
        run_decode(&run, devices[i], "f16", 32);
        add_whole(row, sizeof row, run.tokens_per_s);
        const double joules = run.joules / 32;
        run_decode(&run, devices[i], "w4", 1);
        add_whole(row, sizeof row, run.tokens_per_s);
        run_decode(&run, devices[i], "w4", 32);
        add_whole(row, sizeof row, run.tokens_per_s);
        const size_t length = strlen(row);
        snprintf(row + length, sizeof row - length, " %.2fx | %.3f |\n", run.turn, joules);
        if (strstr(document, row) == NULL)
            fail_msg("docs/hbm-vs-gddr.md has no row%s", row);
    }
    free(document);
}

/* Two products and a stream, where memory takes three times as long as arithmetic at the start. */
static void the_limiter_turns_where_it_should(void **state) {
    static predict_workload workload;
    static predict_profile profile;
    static predict_run run;
    const predict_prices prices = {NAN, 4, 0.5, NAN, 1, NAN};
    (void)state;
    predict_profile_from_sheet(datasheet_find("L4"), &profile);
    workload = (predict_workload){.tokens = NAN, .batch = 1, .operation_count = 1};
    workload_operation *const only = &workload.operations[0];
    only->count = 5;
    only->work = product(1000, 1000, 1000, "f32", "inside");
    only->work.read_bytes = 3 * 300e9 * (2e9 / 30.3e12); /* three times the arithmetic */
    predict_run_fill(&run, &profile, &workload, NAN, &prices);
    assert_int_equal(run.limiter, LIMIT_MEMORY);
    test_is_near(run.operations[0].turn, 3, 1e-9);
    test_is_near(run.turn, 3, 1e-6);
    test_is_near(run.seconds, 15 * 2e9 / 30.3e12, 1e-9);
    /* Four times the bandwidth: the formula of shares knows nothing of the turn at three. */
    const double seconds = run.seconds;
    profile.bandwidth_scale = 4;
    predict_run_fill(&run, &profile, &workload, NAN, &prices);
    test_is_near(run.what_if, 4, 1e-9);
    test_is_near(seconds / run.seconds, 3, 1e-9);
    profile.bandwidth_scale = 1;
    only->work.read_bytes /= 6;
    predict_run_fill(&run, &profile, &workload, NAN, &prices);
    assert_int_equal(run.limiter, LIMIT_COMPUTE);
    test_is_near(run.turn, 0.5, 1e-6);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formulas_by_hand),
        cmocka_unit_test(the_link_is_that_of_pinned_memory_where_it_was_measured),
        cmocka_unit_test(the_power_is_the_median_of_the_rows),
        cmocka_unit_test(the_pareto_front),
        cmocka_unit_test(a_fit_finds_its_factors_beside_a_disturbed_row),
        cmocka_unit_test(a_device_of_the_model_is_found_again),
        cmocka_unit_test(a_disturbed_point_of_the_sweep_is_passed_over),
        cmocka_unit_test(the_error_is_of_rows_outside_the_fit),
        cmocka_unit_test(few_rows_are_not_fitted_through),
        cmocka_unit_test(long_rows_of_weights_may_come_slower),
        cmocka_unit_test(arithmetic_adds_to_memory_or_hides_behind_it),
        cmocka_unit_test(rows_of_processors_elsewhere_are_left_out),
        cmocka_unit_test(a_class_keeps_its_rows_from_elsewhere_where_it_has_no_others),
        cmocka_unit_test(each_fold_has_as_many_of_a_class),
        cmocka_unit_test(copies_of_b_are_in_the_working_set),
        cmocka_unit_test(what_is_read_twice_is_in_the_working_set_once),
        cmocka_unit_test(elementwise_rows_are_of_their_operation),
        cmocka_unit_test(what_was_not_measured_is_refused),
        cmocka_unit_test(the_bandwidth_scale_is_of_main_memory),
        cmocka_unit_test(half_of_a_set_may_come_from_a_cache),
        cmocka_unit_test(a_file_without_memory_rows_is_no_profile),
        cmocka_unit_test(a_size_that_is_none_is_no_capacity),
        cmocka_unit_test(rows_above_the_sheet_are_counted),
        cmocka_unit_test(a_datasheet_gives_the_bound),
        cmocka_unit_test(the_limiter_turns_where_it_should),
        cmocka_unit_test(the_table_of_the_document_is_what_is_predicted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
