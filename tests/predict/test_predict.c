/*
 * Tests `tandem predict`: the rows that it uses, the predictions and refusals of a profile, run
 * times, workloads.
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>

#include "bench/predict/predict_run.h"
#include "tests/support/devices/made_device.h"
#include "tests/support/test_case.h"
#include "tests/support/test_folder.h"
#include "tests/support/test_near.h"
#include "tests/support/test_program.h"

/* ---- rows ---- */

/* If calls use copies of B in turn, the working set includes all copies. */
TEST(copies_of_b_are_in_the_working_set) {
    results_file file;
    predict_observations list;
    cJSON *rows = NULL;
    cJSON *const root = made_file_json(&rows);
    made_add_product_of(rows, "f32", 1, 256, 512, 1e-3);
    cJSON_AddNumberToObject(made_add_product_of(rows, "f32", 1, 256, 512, 1e-3), "copies_of_b", 5);
    cJSON_AddNumberToObject(made_add_product_of(rows, "f32", 1, 1e12, 1e12, 1e-3), "copies_of_b",
                            3);
    made_file_read(root, "rotating", &file);
    assert_int_equal(predict_observe(&file, &list), 0);
    assert_int_equal(list.count, 3);
    const double bytes = 4 * (512 + 256 * 512 + 256);
    test_is_near(list.items[2].work.working_set, 3 * 4e24, 1e-9);
    test_is_near(list.items[0].work.working_set, bytes, 0);
    test_is_near(list.items[1].work.working_set, 5 * bytes, 0);
    test_is_near(list.items[1].work.read_bytes, list.items[0].work.read_bytes, 0);
    free(list.items);
    results_file_release(&file);
}

/* ---- the made-up device ---- */

static void read_profile(predict_profile *profile, results_file *file) {
    file_error error;
    made_device_read(file, NULL);
    if (predict_profile_read(file, profile, &error) != 0)
        fail_msg("%s", error.text);
}

static void release(predict_profile *profile, results_file *file) {
    predict_profile_release(profile);
    results_file_release(file);
}

/* Reads a profile from the rows and releases the rows. Only the figures that the profile itself
 * holds are valid afterwards. */
static void take_rows(const cJSON *root, predict_profile *profile) {
    results_file file;
    file_error error;
    char *const text = cJSON_PrintUnformatted(root);
    assert_int_equal(results_read_text("made", text, strlen(text), &file, &error), 0);
    assert_int_equal(predict_profile_read(&file, profile, &error), 0);
    predict_profile_release(profile);
    results_file_release(&file);
    free(text);
}

static const predict_class *class_of(const predict_profile *profile, const char *key) {
    for (size_t i = 0; i < profile->class_count; i++) {
        if (strcmp(profile->classes[i].key, key) == 0)
            return &profile->classes[i];
    }
    fail_msg("there is no class '%s'", key);
    return NULL;
}

TEST(a_device_is_found_again) {
    static predict_profile profile;
    results_file file;
    file_error error;
    predict_estimate estimate;
    read_profile(&profile, &file);
    test_is_near(profile.launch_s, MADE_LAUNCH, 1e-9);
    test_is_near(predict_read_speed(&profile, 3e5), 400e9, 1e-6);
    test_is_near(predict_read_speed(&profile, 8e6), 100e9, 1e-6);
    test_is_near(predict_read_speed(&profile, 5e9), 40e9, 1e-6);
    test_is_near(predict_peak(&profile, "f32"), MADE_RATE, 0.02);
    assert_true(isnan(predict_peak(&profile, "s8")));
    test_is_near(profile.capacity_bytes, 1e9, 0);
    assert_true(profile.compared >= 60 && profile.error > 0 && profile.error < 0.08);
    /* The shapes lie between the measured ones. */
    static const double shapes[][3] = {{300, 700, 900}, {2000, 1500, 300}, {128, 3072, 768}};
    for (int i = 0; i < 3; i++) {
        const double *const at = shapes[i];
        const predict_work work = made_product_work(at[0], at[1], at[2], "f32");
        assert_int_equal(predict_time(&profile, &work, &estimate, &error), 0);
        test_is_near(estimate.seconds, made_product_s(at[0], at[1], at[2]), 0.05);
        test_is_near(estimate.launch_s + estimate.compute_s + estimate.memory_s, estimate.seconds,
                     1e-12);
    }
    release(&profile, &file);
}

/* A larger set cannot be read faster. If a sweep shows that, something disturbed the run of the
 * smaller set. */
TEST(a_disturbed_point_of_the_sweep_is_passed_over) {
    static predict_profile profile;
    cJSON *const root = made_device_json();
    cJSON *const row = made_add_row(cJSON_GetObjectItem(root, "results"), "memory",
                                    "sweep read 9000000", "f32", MADE_LAUNCH + 9e6 / 50e9, 0, 9e6);
    cJSON_AddNumberToObject(cJSON_AddObjectToObject(row, "shape"), "bytes", 9e6);
    take_rows(root, &profile);
    test_is_near(predict_read_speed(&profile, 9e6), 100e9, 1e-6);
    cJSON_Delete(root);
}

/*
 * Five GEMM rows agree, and one takes ten times as long. The outlier's error is that of a
 * prediction from the other rows.
 */
TEST(the_error_is_that_of_other_rows) {
    static predict_profile profile;
    cJSON *const root = made_device_json();
    for (int i = 0; i < 6; i++)
        made_add_product_of(cJSON_GetObjectItem(root, "results"), "bf16", 512, 512, 512 + 64 * i,
                            i == 3 ? 1e-1 : 1e-2);
    take_rows(root, &profile);
    const predict_class *const found = class_of(&profile, "gemm bf16");
    assert_int_equal(found->rows, 6);
    /* The outlier spoils the predictions of its neighbours too. */
    assert_true(found->error > 0.5);
    cJSON_Delete(root);
}

TEST(what_was_not_measured_is_refused) {
    static predict_profile profile;
    results_file file;
    file_error error;
    predict_estimate estimate;
    read_profile(&profile, &file);
    predict_work work = made_product_work(300, 700, 900, "f32");
    assert_int_equal(predict_time(&profile, &work, &estimate, &error), 0);
    assert_string_equal(estimate.measured->key, "gemm f32");
    work = made_product_work(300, 700, 900, "bf16");
    assert_int_equal(predict_time(&profile, &work, &estimate, &error), -1);
    assert_string_equal(error.text, "made has 0 rows of 'gemm bf16', but 4 are needed");
    work = made_product_work(1, 700, 900, "f32");
    assert_int_equal(predict_time(&profile, &work, &estimate, &error), -1);
    assert_non_null(strstr(error.text, "gemv f32"));
    work = made_product_work(20000, 20000, 20000, "f32");
    assert_int_equal(predict_time(&profile, &work, &estimate, &error), -1);
    assert_non_null(strstr(error.text, "are outside the measured range"));
    work = made_product_work(2048, 2048, 17, "f32");
    assert_int_equal(predict_time(&profile, &work, &estimate, &error), -1);
    assert_non_null(strstr(error.text, "a side of 17 is outside the measured range"));
    release(&profile, &file);
}

static workload_operation reading(double bytes) {
    workload_operation operation = {.count = 1};
    operation.work = (predict_work){.m = NAN, .n = NAN, .k = NAN, .flops = NAN};
    operation.work.read_bytes = operation.work.working_set = bytes;
    snprintf(operation.work.key, sizeof operation.work.key, "stream");
    return operation;
}

/* The bandwidth scale applies to main memory only. The shares of a run add up to its time. */
TEST(the_bandwidth_scale_is_of_main_memory) {
    static predict_profile profile;
    static predict_workload workload;
    static predict_run run;
    results_file file;
    read_profile(&profile, &file);
    workload.operations[0] = reading(8e7);
    workload.operations[1] = reading(8e6);
    workload.operation_count = 2;
    for (int scale = 1; scale <= 2; scale++) {
        profile.bandwidth_scale = scale;
        predict_run_fill(&run, &profile, &workload);
        const predicted_operation *const found = run.operations;
        double all = 0;
        test_is_near(found[0].call.seconds, MADE_LAUNCH + 2e-6 + 8e7 / (scale * 40e9), 0.02);
        test_is_near(found[1].call.seconds, MADE_LAUNCH + 2e-6 + 8e6 / 80e9, 0.05);
        assert_true(found[0].limiter == LIMIT_MEMORY && found[1].limiter == LIMIT_CACHE);
        for (int i = 0; i < PREDICT_LIMITERS; i++)
            all += run.shares[i];
        test_is_near(all, run.seconds, 1e-12);
        test_is_near(run.shares[LIMIT_MEMORY], found[0].call.memory_s, 1e-12);
    }
    release(&profile, &file);
}

TEST(a_file_without_memory_rows_is_no_profile) {
    static const char text[] = "{\"schema\":\"tandem-bench/1\",\"results\":[]}";
    static predict_profile profile;
    results_file file;
    file_error error;
    assert_int_equal(results_read_text("bare", text, sizeof text - 1, &file, &error), 0);
    assert_int_equal(predict_profile_read(&file, &profile, &error), -1);
    assert_non_null(strstr(error.text, "bare has no rows for reading memory"));
    results_file_release(&file);
}

/* An L4 has 24 GB, and its driver reports less. */
TEST(a_device_tells_its_capacity_else_its_sheet_does) {
    static const double reported[] = {23.6e9, 0};
    static predict_profile profile;
    for (int i = 0; i < 2; i++) {
        cJSON *const root = made_device_json();
        cJSON *const device = cJSON_GetObjectItem(root, "device");
        cJSON_ReplaceItemInObject(device, "name", cJSON_CreateString("NVIDIA L4"));
        cJSON_ReplaceItemInObject(device, "global_bytes", cJSON_CreateNumber(reported[i]));
        take_rows(root, &profile);
        assert_true(profile.capacity_bytes == (i == 0 ? 23.6e9 : 24e9));
        cJSON_Delete(root);
    }
    predict_profile_from_sheet(datasheet_find("L4"), &profile);
    assert_true(profile.capacity_bytes == 24e9);
}

TEST(the_power_is_the_median_of_the_rows) {
    static const double watts[] = {40, 90, 95, 100, 900};
    static predict_profile profile;
    cJSON *const root = made_device_json();
    cJSON *const rows = cJSON_GetObjectItem(root, "results");
    take_rows(root, &profile);
    assert_true(isnan(profile.watts));
    for (int i = 0; i < 5; i++) {
        cJSON *const row = made_add_row(rows, "pool", "malloc", "f32", 1e-6, 0, 0);
        cJSON_AddNumberToObject(cJSON_AddObjectToObject(row, "metrics"), "power_w", watts[i]);
    }
    take_rows(root, &profile);
    test_is_near(profile.watts, 95, 1e-12);
    cJSON_Delete(root);
}

/* ---- runs ---- */

/* The bound for decoding is the L4's bandwidth (300 GB/s) divided by the bytes that a token reads:
 * weights and KV cache. */
TEST(a_datasheet_gives_the_bound) {
    static predict_workload workload;
    static predict_profile profile;
    static predict_run run;
    const workload_settings plain = {0, 0, NULL};
    file_error error;
    predict_profile_from_sheet(datasheet_find("L4"), &profile);
    assert_int_equal(predict_workload_make("llama-3-8b-decode", &plain, &workload, &error), 0);
    predict_run_fill(&run, &profile, &workload);
    assert_int_equal(run.refused, 0);
    assert_int_equal(run.limiter, LIMIT_MEMORY);
    test_is_near(run.decode_bound, 300e9 / (workload.weight_bytes + workload.kv_bytes), 1e-9);
    assert_true(run.tokens_per_s < run.decode_bound && run.tokens_per_s > 0.99 * run.decode_bound);
    test_is_near(run.joules, 72 * run.seconds, 1e-12);
    /* Twice the bandwidth halves the time, because memory limits all operations. */
    const double seconds = run.seconds;
    profile.bandwidth_scale = 2;
    predict_run_fill(&run, &profile, &workload);
    test_is_near(run.seconds, seconds / 2, 1e-9);
    /* The KV cache of 64 sequences of 8192 tokens does not fit. */
    const workload_settings many = {64, 8192, NULL};
    profile.bandwidth_scale = 1;
    assert_int_equal(predict_workload_make("llama-3-8b-decode", &many, &workload, &error), 0);
    predict_run_fill(&run, &profile, &workload);
    assert_true(run.needed_bytes > run.usable_bytes && run.usable_bytes == 0.95 * 24e9);
}

/* Appends a whole number as "1,625". */
static void add_whole(char *row, size_t size, double number) {
    const long whole = lround(number);
    const size_t length = strlen(row);
    if (whole >= 1000)
        snprintf(row + length, size - length, " %ld,%03ld |", whole / 1000, whole % 1000);
    else
        snprintf(row + length, size - length, " %ld |", whole);
}

/* Predicts decoding by Llama 3 8B with 1,024 tokens of context. */
static void run_decode(predict_run *run, const char *device, const char *weights, int64_t batch,
                       double launch_s) {
    static predict_workload workload;
    static predict_profile profile;
    const workload_settings settings = {batch, 1024, weights};
    file_error error;
    predict_profile_from_sheet(datasheet_find(device), &profile);
    profile.launch_s = launch_s;
    assert_int_equal(predict_workload_make("llama-3-8b-decode", &settings, &workload, &error), 0);
    predict_run_fill(run, &profile, &workload);
}

TEST(the_table_of_the_document_is_what_is_predicted) {
    static const char *const devices[] = {"RTX 4090",    "RTX 5090", "L40S",
                                          "A100-80 SXM", "H100 SXM", "H200"};
    static predict_run run;
    size_t size = 0;
    char *const document = (char *)test_file_read(TANDEM_SOURCE_DIR "/docs/hbm-vs-gddr.md", &size);
    assert_non_null(document);
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        char row[200];
        snprintf(row, sizeof row, "\n| %s |", devices[i]);
        run_decode(&run, devices[i], "f16", 1, 0);
        add_whole(row, sizeof row, run.tokens_per_s);
        run_decode(&run, devices[i], "f16", 32, 0);
        add_whole(row, sizeof row, run.tokens_per_s);
        const double joules = run.joules / 32;
        run_decode(&run, devices[i], "w4", 1, 0);
        add_whole(row, sizeof row, run.tokens_per_s);
        run_decode(&run, devices[i], "w4", 32, 0);
        add_whole(row, sizeof row, run.tokens_per_s);
        const size_t length = strlen(row);
        snprintf(row + length, sizeof row - length, " %.3f |\n", joules);
        if (strstr(document, row) == NULL)
            fail_msg("docs/hbm-vs-gddr.md has no row%s", row);
    }
    for (int us = 0; us <= 10; us += 5) {
        char row[200];
        snprintf(row, sizeof row, "\n| %d µs |", us);
        for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
            run_decode(&run, devices[i], "w4", 1, 1e-6 * us);
            add_whole(row, sizeof row, run.tokens_per_s);
        }
        if (strstr(document, row) == NULL)
            fail_msg("docs/hbm-vs-gddr.md has no row%s", row);
    }
    free(document);
}

/* ---- workloads ---- */

TEST(built_in_workloads_have_their_weights) {
    static predict_workload workload;
    const workload_settings plain = {0, 0, NULL};
    const workload_settings small = {4, 100, "w4"};
    file_error error;
    assert_int_equal(predict_workload_make("llama-3-8b-decode", &plain, &workload, &error), 0);
    /*
     * The weights are 32 · 4096 · (6144 + 4096 + 28672 + 14336) numbers and the vocabulary: 7.505e9
     * numbers of two bytes.
     */
    test_is_near(workload.weight_bytes, 2.0 * (32.0 * 4096 * 53248 + 128256.0 * 4096), 1e-12);
    test_is_near(workload.kv_bytes, 131072.0 * 1024, 1e-12);
    /*
     * The keys and values of a layer come from main memory, however few they are. All weights are
     * read before any of them is read again.
     */
    assert_true(workload.operations[5].work.working_set >
                workload.weight_bytes + workload.kv_bytes);
    test_is_near(workload.operations[6].work.working_set, 3 * 4096 * 4, 1e-12);
    assert_true(workload.tokens == 1);
    assert_int_equal(predict_workload_make("llama-3-8b-decode", &small, &workload, &error), 0);
    test_is_near(workload.weight_bytes, (0.5 + 2.0 / 32) * (32.0 * 4096 * 53248 + 128256.0 * 4096),
                 1e-12);
    test_is_near(workload.kv_bytes, 131072.0 * 400, 1e-12);
    assert_true(workload.tokens == 4);
    assert_string_equal(workload.operations[0].work.key, "gemv w4");
    assert_int_equal(predict_workload_make("llama-3-8b-prefill", &plain, &workload, &error), 0);
    assert_true(workload.tokens == 512);
    test_is_near(workload.operations[1].work.flops, 32 * 2.0 * 512 * 512 * 128, 1e-12);
    assert_int_equal(predict_workload_make("bert-base", &plain, &workload, &error), 0);
    test_is_near(workload.weight_bytes, 4 * 12 * 768.0 * (2304 + 768 + 3072 + 3072), 1e-12);
    assert_int_equal(predict_workload_make("digits", &plain, &workload, &error), 0);
    test_is_near(workload.weight_bytes, 4.0 * (64 * 256 + 256 * 256 + 256 * 10), 1e-12);
    /*
     * Predictions must cover half of the smallest measured sizes, which are 2 * 256^3, 2 * 1024 *
     * 4096 and 128 KB.
     */
    assert_true(workload.operations[0].work.flops >= 16777216);
    assert_true(workload.operations[2].work.flops >= 4194304);
    assert_true(workload.operations[3].work.read_bytes + workload.operations[3].work.write_bytes >=
                65536);
}

/* ---- the program ---- */

static test_program_result run_program(const char *arguments, int exit_code) {
    test_program_result result =
        test_program_run(TANDEM_BINARY_DIR "/bin/tandem", arguments, NULL, 60);
    if (result.exit_code != exit_code)
        fail_msg("tandem %s gave %d\n%s%s", arguments, result.exit_code, result.output,
                 result.errors);
    return result;
}

/* Writes the profile of the made-up device into the test's folder, as made.json. */
static void write_made_device(char path[TEST_PATH]) {
    results_file file;
    char *text = NULL;
    made_device_read(&file, &text);
    test_file_write(test_folder_path(path, "made.json"), text, strlen(text));
    results_file_release(&file);
}

TEST(the_program_keeps_measured_and_promised_apart) {
    char path[TEST_PATH];
    char words[600];
    write_made_device(path);
    snprintf(words, sizeof words,
             "predict --workload digits --weights f32 --profiles %s,datasheet:RTX-4090", path);
    /* The output layer has ten columns, and no such GEMM was measured. */
    test_program_result result = run_program(words, 1);
    assert_non_null(strstr(result.output, "made.json"));
    assert_non_null(strstr(result.output, "each predicted from the others"));
    assert_non_null(strstr(result.output, "datasheet, not measured"));
    assert_non_null(strstr(result.output, "refused: output layer"));
    test_program_release(&result);
    snprintf(words, sizeof words, "predict --workload bert-base --json - --profiles %s", path);
    result = run_program(words, 0);
    cJSON *const root = cJSON_Parse(result.output);
    const cJSON *const first = cJSON_GetArrayItem(cJSON_GetObjectItem(root, "predictions"), 0);
    const cJSON *const up = cJSON_GetArrayItem(cJSON_GetObjectItem(first, "operations"), 4);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(up, "name")), "up");
    test_is_near(cJSON_GetObjectItem(up, "seconds")->valuedouble,
                 12 * made_product_s(128, 3072, 768), 0.05);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(up, "limiter")), "compute");
    cJSON_Delete(root);
    test_program_release(&result);
}

TEST(wrong_words) {
    static const struct {
        const char *words;
        int exit_code;
        const char *sentence;
    } rows[] = {
        {"predict", 2, "--workload and --profiles are needed"},
        {"predict --workload digits --profiles datasheet:Voodoo", 1, "no datasheet of 'Voodoo'"},
        {"predict --workload digits --profiles datasheet:A100", 1, "A100-40 SXM, A100-80 SXM,"},
        {"predict --workload llama --profiles datasheet:L4", 2, "llama"},
        {"predict --workload digits --profiles /nowhere.json", 1, "/nowhere.json"},
        {"predict --workload digits --profiles datasheet:L4,", 2, "empty or too long"},
        {"predict --workload digits --profiles datasheet:L4 --weights q8", 2, "q8"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        test_program_result result = run_program(rows[i].words, rows[i].exit_code);
        if (strstr(result.errors, rows[i].sentence) == NULL)
            fail_msg("tandem %s said: %s", rows[i].words, result.errors);
        test_program_release(&result);
    }
}

/* An input must not be overwritten: its measurements could not be recovered. */
TEST(an_input_is_not_written_over) {
    char path[TEST_PATH];
    char words[1600];
    write_made_device(path);
    snprintf(words, sizeof words,
             "predict --workload bert-base --profiles datasheet:L4,%s --json %s", path, path);
    test_program_result refused = run_program(words, 2);
    assert_non_null(strstr(refused.errors, "it is an input"));
    test_program_release(&refused);
    snprintf(words, sizeof words, "predict --workload bert-base --profiles %s", path);
    test_program_result result = run_program(words, 0);
    test_program_release(&result);
}

TEST_MAIN(test_folder_make, test_folder_remove)
