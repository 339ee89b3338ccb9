/* `tandem predict`: a profile is fitted to rows, and a device that is made from the model is found again. */
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

#include "bench/predict/predict_fit.h"
#include "bench/predict/predict_memory.h"
#include "bench/predict/predict_run.h"
#include "tests/support/made_device.h"
#include "tests/support/test_near.h"

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
    only->work = made_product_work(m, 4096, 6000, "f16", "inside");
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

/*
 * Five rows that the last cache of 100 GB/s serves. Main memory gives 40: what computes at 25 from the cache does so from there, what copies at
 * 90 takes as long as memory does, and neither 2.5 times as long.
 */
static void what_takes_longer_than_memory_takes_no_longer_there(void **state) {
    static const double gbs[][2] = {{25, 25}, {90, 40}};
    static predict_profile profile;
    results_file file;
    file_error error;
    predict_estimate estimate;
    (void)state;
    for (int c = 0; c < 2; c++) {
        cJSON *const root = made_device_json();
        for (int i = 0; i < 5; i++) {
            char name[32];
            const double bytes = 8 * 2.5e5 * (1 + i);
            snprintf(name, sizeof name, "gelu f32 %.0f", bytes / 8);
            made_add_row(cJSON_GetObjectItem(root, "results"), "elementwise", name, "f32",
                         MADE_LAUNCH + bytes / (1e9 * gbs[c][0]), 0, bytes);
        }
        made_file_read(root, "cached", &file);
        assert_int_equal(predict_profile_fit(&file, &profile, &error), 0);
        assert_true(class_of(&profile, "gelu f32")->error < 0.05);
        predict_work work = {.m = NAN, .n = NAN, .k = NAN, .flops = NAN, .read_bytes = 7e7};
        work.working_set = 7e7;
        snprintf(work.key, sizeof work.key, "gelu f32");
        assert_int_equal(predict_time(&profile, &work, &estimate, &error), 0);
        test_is_near(estimate.seconds, MADE_LAUNCH + 7e7 / (1e9 * gbs[c][1]), 0.02);
        results_file_release(&file);
    }
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

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_fit_finds_its_factors_beside_a_disturbed_row),
        cmocka_unit_test(a_device_of_the_model_is_found_again),
        cmocka_unit_test(a_disturbed_point_of_the_sweep_is_passed_over),
        cmocka_unit_test(the_error_is_of_rows_outside_the_fit),
        cmocka_unit_test(few_rows_are_not_fitted_through),
        cmocka_unit_test(long_rows_of_weights_may_come_slower),
        cmocka_unit_test(what_takes_longer_than_memory_takes_no_longer_there),
        cmocka_unit_test(arithmetic_adds_to_memory_or_hides_behind_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
