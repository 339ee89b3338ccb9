/* `tandem predict`: its formulas by hand, what a profile refuses, and what runs take. */
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

#include "bench/predict/predict_memory.h"
#include "bench/predict/predict_report.h"
#include "bench/predict/predict_run.h"
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

/* ---- the made device --------------------------------------------------------------------------------- */

static void what_was_not_measured_is_refused(void **state) {
    static predict_profile profile;
    results_file file;
    file_error error;
    predict_estimate estimate;
    (void)state;
    made_device_read(&file, NULL);
    assert_int_equal(predict_profile_fit(&file, &profile, &error), 0);
    predict_work work = made_product_work(300, 700, 900, "f32", "inside");
    assert_int_equal(predict_time(&profile, &work, &estimate, &error), 0);
    test_is_near(estimate.seconds, made_product_s(300, 700, 900), 0.01);
    work =
        made_product_work(300, 700, 900, "f32", "prepacked"); /* by the rows with B packed inside */
    assert_int_equal(predict_time(&profile, &work, &estimate, &error), 0);
    assert_string_equal(estimate.key, "gemm f32 inside");
    work = made_product_work(300, 700, 900, "bf16", "inside");
    assert_int_equal(predict_time(&profile, &work, &estimate, &error), -1);
    assert_string_equal(error.text, "made has 0 rows of 'gemm bf16 inside', and 4 are needed");
    work = made_product_work(1, 700, 900, "f32", "inside");
    assert_int_equal(predict_time(&profile, &work, &estimate, &error), -1);
    assert_non_null(strstr(error.text, "gemv f32 inside"));
    work = made_product_work(20000, 20000, 20000, "f32", "inside");
    assert_int_equal(predict_time(&profile, &work, &estimate, &error), -1);
    assert_non_null(strstr(error.text, "were not tested"));
    work = made_product_work(2048, 2048, 17, "f32", "inside");
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

static void one_row_is_no_plural(void **state) {
    static predict_workload workload;
    static predict_profile profile;
    static predict_run run;
    static const predict_prices none = {NAN, NAN, NAN, NAN, NAN, NAN};
    static const char *const words[] = {"% on 1 row kept out of the fit",
                                        "1 of its rows is above the device's datasheet",
                                        "left out: 1 row, beside which"};
    results_file made;
    file_error error;
    char *text = NULL;
    size_t size = 0;
    (void)state;
    made_device_read(&made, NULL);
    assert_int_equal(predict_profile_fit(&made, &profile, &error), 0);
    profile.held_out = profile.above_sheet = profile.elsewhere = 1;
    workload.operations[0] = reading(22e6);
    workload.operation_count = 1;
    predict_run_fill(&run, &profile, &workload, NAN, &none);
    FILE *const file = open_memstream(&text, &size);
    predict_print(&run, 1, file);
    assert_int_equal(fclose(file), 0);
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (strstr(text, words[i]) == NULL)
            fail_msg("there is no '%s' in\n%s", words[i], text);
    free(text);
    results_file_release(&made);
}

/* Where a small set's capacity is from, in words and in the file. */
static void usable_is_told(const predict_profile *profile, const char *words, const char *member) {
    static predict_workload workload;
    static predict_run run;
    static const predict_prices none = {NAN, NAN, NAN, NAN, NAN, NAN};
    char *text = NULL;
    size_t size = 0;
    workload.operations[0] = reading(22e6);
    workload.operation_count = 1;
    predict_run_fill(&run, profile, &workload, NAN, &none);
    FILE *const file = open_memstream(&text, &size);
    predict_print(&run, 1, file);
    assert_int_equal(fclose(file), 0);
    if (strstr(text, words) == NULL)
        fail_msg("there is no '%s' in\n%s", words, text);
    free(text);
    cJSON *const root = predict_json(&run, 1);
    const cJSON *const first = cJSON_GetArrayItem(cJSON_GetObjectItem(root, "predictions"), 0);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(first, "usable_by")), member);
    cJSON_Delete(root);
}

/* An L4 has 24 GB, of which its driver tells less. */
static void a_device_tells_its_capacity_else_its_sheet_does(void **state) {
    static predict_profile profile;
    static const double told[] = {23.6e9, NAN};
    file_error error;
    (void)state;
    for (int i = 0; i < 2; i++) {
        results_file file;
        cJSON *const root = made_device_json();
        cJSON *const device = cJSON_GetObjectItem(root, "device");
        cJSON_ReplaceItemInObject(device, "name", cJSON_CreateString("NVIDIA L4"));
        cJSON_ReplaceItemInObject(device, "global_bytes",
                                  isnan(told[i]) ? cJSON_CreateNull()
                                                 : cJSON_CreateNumber(told[i]));
        char *const text = cJSON_PrintUnformatted(root);
        cJSON_Delete(root);
        assert_int_equal(results_read_text("made", text, strlen(text), &file, &error), 0);
        assert_int_equal(predict_profile_fit(&file, &profile, &error), 0);
        assert_true(profile.capacity_bytes == (i == 0 ? 23.6e9 : 24e9));
        assert_int_equal(profile.capacity_of_sheet, i);
        usable_is_told(&profile,
                       i == 0 ? "of 22.42 GB usable by what the device told: it fits"
                              : "of 22.80 GB usable by its datasheet: it fits",
                       i == 0 ? "device" : "datasheet");
        results_file_release(&file);
        free(text);
    }
    predict_profile_from_sheet(datasheet_find("L4"), &profile);
    assert_true(profile.capacity_bytes == 24e9);
    usable_is_told(&profile, "of 22.80 GB usable by its datasheet: it fits", "datasheet");
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
static void run_decode_launched(predict_run *run, const char *device, const char *weights,
                                double batch, double launch_s) {
    static predict_workload workload;
    static predict_profile profile;
    const workload_settings settings = {batch, 1024, weights};
    const predict_prices prices = {NAN, 4, 0.5, NAN, 1, NAN};
    file_error error;
    predict_profile_from_sheet(datasheet_find(device), &profile);
    profile.launch_s = launch_s;
    assert_int_equal(predict_workload_read("llama-3-8b-decode", &settings, &workload, &error), 0);
    predict_run_fill(run, &profile, &workload, NAN, &prices);
}

static void run_decode(predict_run *run, const char *device, const char *weights, double batch) {
    run_decode_launched(run, device, weights, batch, 0);
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
    for (int us = 0; us <= 10; us += 5) {
        char row[200];
        snprintf(row, sizeof row, "\n| %d µs |", us);
        for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
            run_decode_launched(&run, devices[i], "w4", 1, 1e-6 * us);
            add_whole(row, sizeof row, run.tokens_per_s);
        }
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
    only->work = made_product_work(1000, 1000, 1000, "f32", "inside");
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
        cmocka_unit_test(what_was_not_measured_is_refused),
        cmocka_unit_test(the_bandwidth_scale_is_of_main_memory),
        cmocka_unit_test(half_of_a_set_may_come_from_a_cache),
        cmocka_unit_test(a_file_without_memory_rows_is_no_profile),
        cmocka_unit_test(a_size_that_is_none_is_no_capacity),
        cmocka_unit_test(one_row_is_no_plural),
        cmocka_unit_test(a_device_tells_its_capacity_else_its_sheet_does),
        cmocka_unit_test(rows_above_the_sheet_are_counted),
        cmocka_unit_test(a_datasheet_gives_the_bound),
        cmocka_unit_test(the_limiter_turns_where_it_should),
        cmocka_unit_test(the_table_of_the_document_is_what_is_predicted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
