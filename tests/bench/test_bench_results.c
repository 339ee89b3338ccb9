/*
 * Tests the results file: its schema tandem-bench/1, its statistics, and that unknown or infinite
 * numbers become null.
 */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "bench/harness/bench_report.h"
#include "bench/record/environment_record.h"
#include "common/command/cli_options.h"
#include "formats/utf8_text.h"
#include "tests/support/bench/bench_rows.h"
#include "tests/support/test_case.h"
#include "tests/support/test_folder.h"

/* Writes the document to a file and returns the text of the file. */
static char *written(const results_document *document) {
    static char text[1 << 16];
    char path[TEST_PATH];
    size_t size = 0;
    assert_int_equal(results_write(document, "tandem try", test_folder_path(path, "try.json")), 0);
    unsigned char *const bytes = test_file_read(path, &size);
    assert_in_range(size, 1, sizeof text - 1);
    memcpy(text, bytes, size + 1);
    free(bytes);
    assert_int_equal(unlink(path), 0);
    return text;
}

static void is_number(const cJSON *object, const char *key, double expected) {
    const cJSON *const item = json_member(object, key);
    assert_true(cJSON_IsNumber(item));
    if (!(fabs(item->valuedouble - expected) <= 1e-12 * (1 + fabs(expected))))
        fail_msg("%s is %.17g, expected %.17g", key, item->valuedouble, expected);
}

static void is_text(const cJSON *object, const char *key, const char *expected) {
    const cJSON *const item = json_member(object, key);
    assert_true(cJSON_IsString(item));
    assert_string_equal(item->valuestring, expected);
}

static void is_null(const cJSON *object, const char *key) {
    if (!cJSON_IsNull(json_member(object, key)))
        fail_msg("'%s' is not null", key);
}

static tdm_device_info some_device(const char *name) {
    tdm_device_info info = {.struct_size = sizeof info, .type = TDM_DEVICE_CPU, .compute_units = 2};
    snprintf(info.backend, sizeof info.backend, "opencl");
    snprintf(info.name, sizeof info.name, "%s", name);
    snprintf(info.selector, sizeof info.selector, "opencl/some/%s", name);
    info.global_bytes = (uint64_t)3 << 40;
    info.capabilities = TDM_CAP_PROFILING | TDM_CAP_FP64;
    return info;
}

TEST(a_row_has_the_members_of_the_schema) {
    const double samples[] = {0.5, 0.25, 1.0};
    const tdm_device_info info = some_device("one");
    results_document *const document = results_create();
    const bench_result row = {
        .suite = "gemm",
        .case_name = "gemm f32 2x3x4 nn",
        .impl = "tandem",
        .variant = "gemm_x",
        .dtype = "f32",
        .mode = "waited",
        .packing = "inside",
        .shape = {{"m", 2}, {"n", 3}, {"k", 4}},
        .raw_s = samples,
        .samples = 3,
        .flops = 48,
        .bytes = 100,
        .check = RESULT_VERIFIED,
        .max_error = 1e-8,
    };
    results_add_device(document, &info);
    results_add_environment(document, "peer", "version 1");
    results_add(document, &row);
    assert_int_equal(results_failures(document), 0);
    cJSON *const root = cJSON_Parse(written(document));
    assert_non_null(root);
    is_text(root, "schema", "tandem-bench/1");
    is_text(json_member(root, "library"), "version", tdm_version_text());
    json_member(json_member(root, "library"), "commit");
    assert_int_equal(strlen(json_member(root, "created")->valuestring),
                     strlen("2026-01-01T00:00:00Z"));
    assert_true(json_member(json_member(root, "host"), "cores")->valuedouble >= 1);
    assert_true(json_member(json_member(root, "host"), "ram_bytes")->valuedouble > 0);
    json_member(json_member(root, "host"), "cpu");
    json_member(json_member(root, "host"), "os");
    is_text(json_member(root, "environment"), "peer", "version 1");
    assert_true(cJSON_IsObject(json_member(json_member(root, "environment"), "variables")));
    const cJSON *const device = json_member(root, "device");
    is_text(device, "name", "one");
    is_number(device, "global_bytes", 3.0 * pow(2, 40));
    is_null(device, "clock_mhz"); /* unknown, not 0 */
    is_null(device, "memory_type");
    assert_int_equal(cJSON_GetArraySize(json_member(device, "capabilities")), 2);
    const cJSON *const first = cJSON_GetArrayItem(json_member(root, "results"), 0);
    static const char *const texts[][2] = {{"suite", "gemm"},  {"case", "gemm f32 2x3x4 nn"},
                                           {"impl", "tandem"}, {"variant", "gemm_x"},
                                           {"dtype", "f32"},   {"mode", "waited"},
                                           {"status", "ok"},   {"packing", "inside"}};
    static const struct {
        const char *key;
        double value;
    } numbers[] = {{"samples", 3},  {"median_s", 0.5},  {"min_s", 0.25}, {"p5_s", 0.275},
                   {"p95_s", 0.95}, {"flops", 48},      {"bytes", 100},  {"gflops", 96e-9},
                   {"gbs", 200e-9}, {"max_error", 1e-8}};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        is_text(first, texts[i][0], texts[i][1]);
    for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
        is_number(first, numbers[i].key, numbers[i].value);
    is_number(json_member(first, "shape"), "k", 4);
    assert_int_equal(cJSON_GetArraySize(json_member(first, "raw_s")), 3);
    assert_true(cJSON_IsTrue(json_member(first, "verified")));
    is_null(first, "reason");
    is_null(first, "note");
    assert_null(cJSON_GetObjectItemCaseSensitive(first, "metrics"));
    assert_null(cJSON_GetObjectItemCaseSensitive(root, "devices"));
    cJSON_Delete(root);
    results_destroy(document);
}

/* The list does not reveal the program's folder. Bytes that a reader of the file would refuse are
 * replaced. */
TEST(the_command_line_is_a_list_of_words) {
    static char *const words[] = {"/home/anyone/bin/tandem", "bench", "\xc3\xa4", "", "a\xff\nb",
                                  "--json=../x.json"};
    static const char *const expected[] = {"tandem", "bench", "\xc3\xa4",
                                           "",       "a??b",  "--json=../x.json"};
    for (int count = 0; count <= 6; count += 6) {
        command_line_keep(count, words);
        results_document *const document = results_create();
        cJSON *const root = cJSON_Parse(written(document));
        const cJSON *const list = json_member(root, "command");
        assert_int_equal(cJSON_IsArray(list), count > 0);
        assert_int_equal(cJSON_GetArraySize(list), count);
        for (int i = 0; i < count; i++)
            assert_string_equal(cJSON_GetArrayItem(list, i)->valuestring, expected[i]);
        cJSON_Delete(root);
        results_destroy(document);
    }
    command_line_keep(0, NULL);
}

/* Paths and device names may have any bytes, but JSON must be UTF-8. */
TEST(invalid_bytes_are_replaced) {
#define R "\xef\xbf\xbd"
    static const struct {
        const char *text, *expected;
    } rows[] = {
        {"", ""},
        {"plain \xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80",
         "plain \xc3\xa4 \xe2\x82\xac \xf0\x9f\x98\x80"},
        {"a\xff"
         "b",
         "a" R "b"},
        {"\x80\xbf", R R},             /* continuation bytes without a first byte */
        {"\xc0\xaf", R R},             /* '/' encoded in two bytes */
        {"\xe0\x80\xaf", R R R},       /* '/' encoded in three bytes */
        {"\xed\xa0\x80", R R R},       /* a surrogate */
        {"\xf4\x90\x80\x80", R R R R}, /* above U+10FFFF */
        {"x\xe2\x82", "x" R R},        /* truncated by the end of the text */
        {"\xe2\x82\"", R R "\""},      /* truncated by another character */
        {"\xf0\x9f\x98", R R R},
    };
#undef R
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char *const replaced = utf8_replace_invalid(rows[i].text);
        assert_string_equal(replaced, rows[i].expected);
        free(replaced);
    }
}

TEST(what_is_not_known_is_null) {
    const double samples[] = {NAN, INFINITY};
    results_document *const document = results_create();
    const bench_result empty = {.suite = "gemm",
                                .max_error = 3,
                                .status = RESULT_FAILED,
                                .reason = "wrong result",
                                .metrics = {{"share", NAN}, {"images", 7}}};
    bench_result broken = empty;
    broken.raw_s = samples;
    broken.samples = 2;
    broken.flops = 1;
    broken.check = RESULT_WRONG;
    broken.max_error = INFINITY;
    results_add(document, &empty);
    results_add(document, &broken);
    assert_int_equal(results_failures(document), 2);
    const char *const text = written(document);
    assert_null(strstr(text, "nan"));
    assert_null(strstr(text, "inf"));
    cJSON *const root = cJSON_Parse(text);
    assert_non_null(root);
    is_null(root, "device");
    const cJSON *row = cJSON_GetArrayItem(json_member(root, "results"), 0);
    static const char *const unknown[] = {
        "case", "impl",  "variant", "dtype", "mode",   "packing", "median_s", "min_s",
        "p5_s", "p95_s", "flops",   "bytes", "gflops", "gbs",     "verified", "max_error"};
    for (size_t i = 0; i < sizeof unknown / sizeof unknown[0]; i++)
        is_null(row, unknown[i]);
    is_number(row, "samples", 0);
    is_text(row, "status", "failed");
    is_text(row, "reason", "wrong result");
    is_null(json_member(row, "metrics"), "share");
    is_number(json_member(row, "metrics"), "images", 7);
    row = cJSON_GetArrayItem(json_member(root, "results"), 1);
    assert_true(cJSON_IsNull(cJSON_GetArrayItem(json_member(row, "raw_s"), 0)));
    assert_true(cJSON_IsNull(cJSON_GetArrayItem(json_member(row, "raw_s"), 1)));
    assert_true(cJSON_IsFalse(json_member(row, "verified")));
    is_null(row, "max_error");
    is_null(row, "gflops");
    cJSON_Delete(root);
    results_destroy(document);
}

TEST(several_devices_are_all_listed) {
    const tdm_device_info one = some_device("one");
    const tdm_device_info two = some_device("two");
    results_document *const document = results_create();
    const bench_result row = {.suite = "infer", .device = two.selector};
    results_add_device(document, &one);
    results_add_device(document, &two);
    results_add(document, &row);
    cJSON *const root = cJSON_Parse(written(document));
    assert_non_null(root);
    is_text(json_member(root, "device"), "name", "one");
    assert_int_equal(cJSON_GetArraySize(json_member(root, "devices")), 2);
    is_text(cJSON_GetArrayItem(json_member(root, "devices"), 1), "name", "two");
    is_text(cJSON_GetArrayItem(json_member(root, "results"), 0), "device", "opencl/some/two");
    cJSON_Delete(root);
    results_destroy(document);
}

/* A results file is published, so it must not reveal the machine's name or paths on it. */
TEST(no_names_and_no_paths_are_recorded) {
    char host[256] = "";
    setenv("TANDEM_OPENCL_LIBRARY", "/home/somebody/drivers/libthing.so", 1);
    results_document *const document = results_create();
    char *const text = written(document);
    assert_null(strstr(text, "somebody"));
    assert_non_null(strstr(text, "libthing.so"));
    assert_int_equal(gethostname(host, sizeof host - 1), 0);
    char quoted[300];
    snprintf(quoted, sizeof quoted, "\"%s\"", host);
    assert_null(strstr(text, quoted));
    unsetenv("TANDEM_OPENCL_LIBRARY");
    results_destroy(document);
}

/*
 * The case has four rows: Tandem, a slower peer, a peer that failed half-way, and a skipped peer.
 */
TEST(a_case_becomes_rows) {
    double steady[] = {1, 1, 1};
    double slower[] = {1.2, 1.2, 1.2};
    static bench_contender contenders[4];
    contenders[0] = (bench_contender){
        .impl = "tandem", .check = RESULT_VERIFIED, .series = {.values = steady, .count = 3}};
    contenders[1] = (bench_contender){
        .impl = "clblast", .check = RESULT_VERIFIED, .series = {.values = slower, .count = 3}};
    contenders[2] = (bench_contender){.impl = "openblas",
                                      .status = RESULT_FAILED,
                                      .max_error = NAN,
                                      .check = RESULT_VERIFIED,
                                      .series = {.values = steady, .count = 2}};
    contenders[3] = (bench_contender){.impl = "onednn", .status = RESULT_SKIPPED, .max_error = NAN};
    worker_text_set(&contenders[2].reason, "it died");
    worker_text_set(&contenders[2].greeting, "impl=openblas version=0%%20x threads=2");
    const bench_result row = {.suite = "gemm", .case_name = "f32", .flops = 1e9};
    const tdm_device_info info = some_device("one");
    bench_report report;
    assert_int_equal(bench_report_open(&report, "GFLOP/s", NULL, &info), 0);
    bench_report_case(&report, &row, contenders, 4);
    cJSON *const root = cJSON_Parse(written(report.document));
    assert_non_null(root);
    const cJSON *const rows = json_member(root, "results");
    assert_int_equal(cJSON_GetArraySize(rows), 4);
    is_number(cJSON_GetArrayItem(rows, 0), "gflops", 1);
    is_null(cJSON_GetArrayItem(rows, 0), "reason");
    is_text(cJSON_GetArrayItem(rows, 1), "status", "ok");
    is_null(cJSON_GetArrayItem(rows, 1), "reason");
    is_number(json_member(cJSON_GetArrayItem(rows, 1), "metrics"), "tandem_is", 1.2);
    is_null(cJSON_GetArrayItem(rows, 0), "note");
    is_null(cJSON_GetArrayItem(rows, 2), "note");
    is_text(cJSON_GetArrayItem(rows, 2), "status", "failed");
    is_text(cJSON_GetArrayItem(rows, 2), "reason", "it died");
    is_number(cJSON_GetArrayItem(rows, 2), "samples", 0);
    is_null(cJSON_GetArrayItem(rows, 2), "median_s");
    is_text(cJSON_GetArrayItem(rows, 3), "status", "skipped");
    is_text(json_member(root, "environment"), "openblas", "version 0 x, threads 2");
    cJSON_Delete(root);
    table_destroy(report.table);
    results_destroy(report.document);
}

/*
 * Each row has its share of a measured peak, here 4 GFLOP/s. The share of a peak that could not be
 * measured is null.
 */
TEST(rows_say_what_they_reach_of_a_roof) {
    double steady[] = {1, 1, 1};
    static bench_roofs roofs;
    static bench_contender contenders[4];
    bench_roofs_choose(&roofs, "memory,compute", 0);
    assert_int_equal(roofs.count, 2);
    contenders[0] = (bench_contender){.impl = "tandem", .series = {.values = steady, .count = 3}};
    contenders[1] = (bench_contender){.impl = "onednn", .status = RESULT_SKIPPED, .max_error = NAN};
    contenders[2] =
        (bench_contender){.impl = "tandem", .work = 4e9, .series = {.values = steady, .count = 3}};
    contenders[3] = (bench_contender){.impl = "tandem", .status = RESULT_FAILED, .max_error = NAN};
    const bench_result row = {.suite = "gemm", .case_name = "f32", .flops = 1e9, .bytes = 1e9};
    const tdm_device_info info = some_device("one");
    bench_report report;
    assert_int_equal(bench_report_open(&report, "GFLOP/s", &roofs, &info), 0);
    bench_report_case(&report, &row, contenders, 2);
    cJSON *const root = cJSON_Parse(written(report.document));
    assert_non_null(root);
    const cJSON *const rows = json_member(root, "results");
    assert_int_equal(cJSON_GetArraySize(rows), 4);
    const cJSON *const metrics = json_member(cJSON_GetArrayItem(rows, 0), "metrics");
    is_number(metrics, "peak_gflops", 4);
    is_number(metrics, "of_peak", 0.25);
    is_null(metrics, "read_gbs");
    is_null(metrics, "of_read");
    is_null(json_member(cJSON_GetArrayItem(rows, 1), "metrics"), "of_peak");
    is_text(cJSON_GetArrayItem(rows, 2), "suite", "compute");
    is_number(cJSON_GetArrayItem(rows, 2), "gflops", 4);
    is_text(cJSON_GetArrayItem(rows, 3), "suite", "memory");
    is_text(cJSON_GetArrayItem(rows, 3), "status", "failed");
    cJSON_Delete(root);
    table_destroy(report.table);
    results_destroy(report.document);
    bench_roofs_choose(&roofs, "compute,none", 0);
    assert_int_equal(roofs.count, 0);
}

TEST(an_unwritable_file_is_an_error) {
    results_document *const document = results_create();
    assert_int_equal(results_write(document, "tandem try", "/nonexistent/folder/file.json"), -1);
    assert_int_equal(results_write(document, "tandem try", "/dev/full"), -1);
    results_destroy(document);
}

static void expect_start(const char *path, const char *start) {
    size_t size = 0;
    unsigned char *const bytes = test_file_read(path, &size);
    assert_true(size >= strlen(start));
    assert_memory_equal(bytes, start, strlen(start));
    free(bytes);
}

/* A disk that is full while results are written must not destroy the earlier results. */
TEST(results_are_written_whole_or_not_at_all) {
    static const char old[] = "what was there";
    char path[TEST_PATH];
    struct rlimit limit;
    results_document *const document = results_create();
    test_folder_path(path, "results.json");
    test_text_write(path, old, 0644);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
    const struct rlimit small = {.rlim_cur = 100, .rlim_max = limit.rlim_max};
    signal(SIGXFSZ, SIG_IGN); /* the limit also holds for standard error if it is a file */
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    const int result = results_write(document, "tandem try", path);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
    assert_int_equal(result, -1);
    expect_start(path, old);
    assert_int_equal(test_folder_count(test_folder()), 1);
    assert_int_equal(results_write(document, "tandem try", path), 0);
    expect_start(path, "{");
    assert_int_equal(test_folder_count(test_folder()), 1);
    assert_int_equal(unlink(path), 0);
    results_destroy(document);
}

/* A symbolic link stays a link, and the results are written to its target. */
TEST(a_link_is_written_through) {
    char path[TEST_PATH];
    char goal[TEST_PATH];
    struct stat file;
    results_document *const document = results_create();
    assert_int_equal(symlink("goal.json", test_folder_path(path, "link.json")), 0);
    assert_int_equal(results_write(document, "tandem try", path), 0);
    assert_int_equal(lstat(path, &file), 0);
    assert_true(S_ISLNK(file.st_mode));
    expect_start(test_folder_path(goal, "goal.json"), "{");
    assert_int_equal(unlink(path), 0);
    assert_int_equal(unlink(goal), 0);
    results_destroy(document);
}

/*
 * There are 100 ticks between the two readings: 60 are busy and 10 are stolen by other virtual
 * machines. This process used 55 of these 70, so others used 15.
 */
TEST(the_share_of_others_is_of_what_passed) {
    char path[TEST_PATH];
    test_text_write(test_folder_path(path, "stat"), "cpu  1000 10 200 5000 20 0 30 40 7 7\n", 0600);
    const machine_use before = machine_use_in(path, 500);
    test_text_write(path, "cpu  1050 10 205 5025 25 1 34 50 7 7\n", 0600);
    const machine_use after = machine_use_in(path, 555);
    assert_true(fabs(machine_busy_share(&before, &after) - 0.15) < 1e-12);
    const machine_use more = machine_use_in(path, 900);
    assert_true(machine_busy_share(&before, &more) == 0);
    assert_true(isnan(machine_busy_share(&before, &before)));
    test_text_write(path, "cpu  1 2 3 4\n", 0600);
    const machine_use none = machine_use_in(path, 0);
    assert_true(isnan(machine_busy_share(&before, &none)));
    const machine_use now = machine_use_now();
    assert_true(isnan(now.all) || (now.busy <= now.all && now.own > 0));
    unlink(path);
}

TEST_MAIN(test_folder_make, test_folder_remove_empty)
