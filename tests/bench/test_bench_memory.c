/* `tandem bench memory` on the device of this run. */
// ctest: device rusticl_in_ci compiled timeout=300 cost=10
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/bench/bench_rows.h"
#include "tests/support/test_folder.h"
#include "tests/support/test_program.h"

/* The peers' rows are measured where the peer was built. */
static void memory_moves_bytes(void **state) {
    (void)state;
    cJSON *const root = bench_run_json("bench memory --quick --samples 2 --bytes 10001 --operation "
                                       "triad,buffer,upload,download,both --host pinned",
                                       NULL, 0);
    const cJSON *row;
    cJSON_ArrayForEach(row, json_member(root, "results")) {
        if (strcmp(json_text(row, "impl"), "stream") == 0 && !bench_peer_is_built("stream"))
            continue;
        bench_expect_measured(row);
        assert_string_equal(json_text(row, "suite"), "memory");
        assert_true(cJSON_IsNull(json_member(row, "flops")));
    }
    assert_true(json_number(bench_row(root, "tandem", "buffer 10001"), "bytes") == 20002);
    assert_true(json_number(bench_row(root, "memcpy", "download 10001, pinned"), "bytes") == 10001);
    assert_true(cJSON_IsNull(json_member(bench_row(root, "tandem", "buffer 10001"), "dtype")));
    row = bench_row(root, "tandem", "upload and download 10001, both ways, pinned");
    assert_true(json_number(row, "bytes") == 20002);
    assert_true(json_number(bench_row(root, "tandem", "triad 10001"), "bytes") == 30003);
    assert_string_equal(json_text(bench_row(root, "tandem", "triad 10001"), "dtype"), "f32");
    cJSON_Delete(root);
}

/* Each kernel with settings has one row of the default one and one of the fastest; one may be both. */
static void memory_tells_settings_apart(void **state) {
    (void)state;
    static const char *const operations[] = {"copy 4000",
                                             "read 4000",
                                             "write 4000",
                                             "strided 4000, stride 2",
                                             "strided 4000, stride 8",
                                             "strided 4000, stride 32",
                                             "gather 4000"};
    cJSON *const root = bench_run_json("bench memory --quick --samples 2 --bytes 4000 --operation "
                                       "copy,read,write,strided,gather",
                                       NULL, 0);
    for (size_t i = 0; i < sizeof operations / sizeof operations[0]; i++) {
        const cJSON *row;
        int best = 0;
        int plain = 0;
        cJSON_ArrayForEach(row, json_member(root, "results")) {
            const cJSON *const metrics = cJSON_GetObjectItemCaseSensitive(row, "metrics");
            if (strcmp(json_text(row, "case"), operations[i]) != 0 ||
                strcmp(json_text(row, "impl"), "tandem") != 0)
                continue;
            assert_true(json_number(row, "bytes") > 0);
            best += cJSON_HasObjectItem(metrics, "setting_best");
            plain += cJSON_HasObjectItem(metrics, "setting_default");
            assert_true(json_number(json_member(row, "shape"), "width") >= 1);
            assert_true(json_number(json_member(row, "shape"), "unroll") >= 1);
            assert_true(json_number(json_member(row, "shape"), "items") >= 1);
        }
        if (best != 1 || plain != 1)
            fail_msg("%s: %d rows of the fastest setting, %d of the default one", operations[i],
                     best, plain);
    }
    cJSON_Delete(root);
}

/* Without the search for a faster setting: one row and no peer. */
static void memory_takes_the_default_setting_alone(void **state) {
    (void)state;
    cJSON *const root = bench_run_json(
        "bench memory --quick --operation triad --setting default --bytes 64K", NULL, 0);
    const cJSON *const rows = json_member(root, "results");
    assert_int_equal(cJSON_GetArraySize(rows), 1);
    for (const cJSON *row = rows->child; row != NULL; row = row->next) {
        const cJSON *const metrics = json_member(row, "metrics");
        assert_string_equal(json_text(row, "case"), "triad 65536");
        assert_string_equal(json_text(row, "status"), "ok");
        assert_true(cJSON_HasObjectItem(metrics, "setting_default"));
        assert_false(cJSON_HasObjectItem(metrics, "setting_best"));
    }
    cJSON_Delete(root);
}

/* A word is a load. */
static void expect_latency_of_row(const cJSON *row) {
    const double loads = json_number(row, "bytes") / 4;
    const double latency = json_number(json_member(row, "metrics"), "latency_ns");
    assert_true(loads > 0);
    assert_true(fabs(latency * loads / (1e9 * json_number(row, "median_s")) - 1) < 1e-9);
}

static void memory_finds_latencies_and_caches(void **state) {
    (void)state;
    cJSON *const root = bench_run_json("bench memory --quick --samples 2 --bytes 32K --operation "
                                       "strided,gather,chase,sweep",
                                       NULL, 0);
    const cJSON *row;
    cJSON_ArrayForEach(row, json_member(root, "results")) {
        if (strcmp(json_text(row, "impl"), "stream") == 0 && !bench_peer_is_built("stream"))
            continue;
        bench_expect_measured(row);
        assert_true(json_number(row, "gbs") > 0);
        const int has_levels =
            cJSON_HasObjectItem(json_member(root, "environment"), "cache_levels");
        if (strncmp(json_text(row, "case"), "chase", 5) == 0)
            expect_latency_of_row(row);
        if (strncmp(json_text(row, "case"), "sweep", 5) == 0)
            assert_int_equal(cJSON_HasObjectItem(row, "metrics"), has_levels);
    }
    assert_true(
        json_number(json_member(bench_row(root, "tandem", "strided 32768, stride 8"), "shape"),
                    "stride") == 8);
    bench_row(root, "tandem", "gather 32768");
    bench_row(root, "tandem", "chase 16384");
    bench_row(root, "tandem", "sweep read 32768");
    cJSON_Delete(root);
}

/* How files of which the second was made from the first compare; `pattern` NULL: the second has none. */
static void expect_compared(cJSON *root, const char *pattern, int exit_code) {
    char first[TEST_PATH];
    char second[TEST_PATH];
    char arguments[2 * TEST_PATH + 16];
    cJSON *const environment = cJSON_GetObjectItemCaseSensitive(root, "environment");
    char *text = cJSON_PrintUnformatted(root);
    test_file_write(test_folder_path(first, "a.json"), text, strlen(text));
    cJSON_free(text);
    cJSON_DeleteItemFromObjectCaseSensitive(environment, "data_pattern");
    if (pattern != NULL)
        cJSON_AddStringToObject(environment, "data_pattern", pattern);
    text = cJSON_PrintUnformatted(root);
    test_file_write(test_folder_path(second, "b.json"), text, strlen(text));
    cJSON_free(text);
    snprintf(arguments, sizeof arguments, "compare %s %s", first, second);
    test_program_result result = test_program_run(bench_program, arguments, NULL, BENCH_PATIENCE_S);
    if (result.exit_code != exit_code)
        fail_msg("tandem %s gave %d\n%s", arguments, result.exit_code, result.errors);
    if (exit_code != 0)
        assert_non_null(strstr(result.errors, "environment data_pattern 'random'"));
    test_program_release(&result);
}

static void other_data_are_not_compared(void **state) {
    static const struct {
        const char *pattern;
        int exit_code;
    } rows[] = {{"random", 0}, {"zeros", 1}, {NULL, 0}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        cJSON *const root = bench_run_json("bench memory --quick --samples 2 --bytes 32K --seed 7 "
                                           "--operation write --setting default",
                                           NULL, 0);
        if (i == 0)
            assert_true(json_number(json_member(root, "environment"), "data_seed") == 7);
        expect_compared(root, rows[i].pattern, rows[i].exit_code);
        cJSON_Delete(root);
    }
    (void)state;
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_moves_bytes),
        cmocka_unit_test(memory_tells_settings_apart),
        cmocka_unit_test(memory_takes_the_default_setting_alone),
        cmocka_unit_test(memory_finds_latencies_and_caches),
        cmocka_unit_test(other_data_are_not_compared),
    };
    return cmocka_run_group_tests_name("bench memory", tests, test_folder_make, test_folder_remove);
}
