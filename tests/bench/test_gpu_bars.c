/* `tandem _bars`: what is made of the results of a run of bench/gpu_suite. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cjson/cJSON.h>
#include <cmocka.h>

#include "bench/bench_commands.h"
#include "tests/support/bench/bench_rows.h"
#include "tests/support/test_folder.h"

static void write_file(const char *name, const char *text) {
    char path[TEST_PATH];
    test_file_write(test_folder_path(path, name), text, strlen(text));
}

/* Results whose rows are these, without the commas at their ends. */
static void write_rows(const char *name, const char *rows) {
    char text[4096];
    snprintf(text, sizeof text,
             "{\"schema\":\"tandem-bench/1\",\"created\":\"then\",\"device\":{\"name\":\"a "
             "GPU\",\"driver\":"
             "\"7\"},\"results\":[%s]}",
             rows);
    write_file(name, text);
}

#define ROW(suite, name, impl, m, median, more)                                                    \
    "{\"suite\":\"" suite "\",\"case\":\"" name "\",\"impl\":\"" impl                              \
    "\",\"mode\":\"pipelined\",\"packing\":\"none\",\"status\":\"ok\",\"verified\":true,"          \
    "\"shape\":{\"m\":" m ",\"n\":1,\"k\":1},\"median_s\":" median more "}"

static cJSON *judge(void) {
    char path[TEST_PATH];
    char *argv[] = {(char *)"_bars", (char *)(uintptr_t)test_folder()};
    size_t size = 0;
    assert_int_equal(gpu_bars_command(2, argv), 0);
    char *const text = (char *)test_file_read(test_folder_path(path, "bars.json"), &size);
    cJSON *const root = cJSON_Parse(text);
    free(text);
    assert_non_null(root);
    return root;
}

/* The bar whose text begins so says this; "" is nothing. */
static void expect(const cJSON *root, const char *begins, const char *measured, const char *met,
                   const char *note) {
    const cJSON *bar;
    cJSON_ArrayForEach(bar, json_member(root, "bars")) {
        if (strncmp(json_text(bar, "bar"), begins, strlen(begins)) != 0)
            continue;
        assert_string_equal(json_text(bar, "measured"), measured);
        assert_string_equal(json_text(bar, "met"), met);
        if (strstr(json_text(bar, "note"), note) == NULL)
            fail_msg("'%s': the note is '%s'", begins, json_text(bar, "note"));
        return;
    }
    fail_msg("there is no bar '%s'", begins);
}

static const char summary[] =
    "ok          3  tests_cuda               70 of 70 programs passed, 9 cases\n"
    "FAILED      4  memcheck                 exit 1: test_copy: exit 9\n"
    "ok          1  racecheck                refused by this machine: no\n"
    "ok          1  gemm_f32                 a line\n"
    "ok          1  gemm_f16                 a line\n"
    "ok          1  gemm_layers              a line\n"
    "TIMEOUT     1  gemm_s8                  a line\n"
    "ok          1  gemm_few                 a line\n"
    "ok          1  gemm_epilogue            a line\n"
    "ok          1  gemm_mma                 a line\n"
    "ok          1  quant                    a line\n"
    "ok          1  elementwise              a line\n"
    "ok          1  launch                   a line\n"
    "ok          1  memory                   a line\n"
    "skipped     0  opencl_gemm_f32          no device matches opencl/nvidia\n";

/* The worst of all cases decides, of the mean their product; what was not right does not count. */
static void the_worst_case_decides(void **state) {
    (void)state;
    write_file("summary.txt", summary);
    write_rows("gemm_f32.json",
               ROW("gemm", "f32 one", "tandem", "1", "1.0", "") "," ROW(
                   "gemm", "f32 one", "cublas", "1", "0.95",
                   "") "," ROW("gemm", "f32 two", "tandem", "2", "2.0",
                               "") "," ROW("gemm", "f32 two", "cublas", "2", "1.7", ""));
    write_rows("gemm_f16.json",
               ROW("gemm", "bf16 small", "tandem", "4", "9",
                   "") "," ROW("gemm", "bf16 big", "tandem", "8", "3.2",
                               "") "," ROW("gemm", "bf16 big", "cublaslt", "8", "3.2",
                                           "") "," ROW("gemm", "f16 big", "tandem", "8", "3.0",
                                                       "") ","
                                                           "{\"suite\":\"gemm\",\"case\":\"f16 "
                                                           "big\",\"impl\":\"cublaslt\",\"mode\":"
                                                           "\"pipelined\",\"packing\":"
                                                           "\"none\",\"status\":\"skipped\","
                                                           "\"reason\":\"no such library\"}");
    write_rows("gemm_s8.json", ROW("gemm", "s8 big", "tandem", "8", "1.6",
                                   "") "," ROW("gemm", "s8 big", "cublaslt", "8", "1.5", ""));
    write_rows("gemm_layers.json",
               ROW("gemm", "f16 a", "tandem", "1", "1.0", "") "," ROW(
                   "gemm", "f16 a", "cublaslt", "1", "0.81",
                   "") "," ROW("gemm", "f16 b", "tandem", "2", "1.0",
                               "") "," ROW("gemm", "f16 b", "cublaslt", "2", "1.21", ""));
    write_rows("gemm_mma.json",
               ROW("gemm", "bf16 big", "tandem", "8", "2.0", ",\"gflops\":460000"));
    cJSON *const root = judge();
    assert_string_equal(json_text(root, "measured_on"), "a GPU, driver 7, then");
    expect(root, "the whole suite passes on the CUDA device", "ok", "yes", "70 of 70");
    expect(root, "the whole suite passes on the same", "", "", "it was not asked for");
    expect(root, "compute-sanitizer memcheck", "FAILED", "no", "exit 9");
    expect(root, "compute-sanitizer racecheck", "", "", "refused by this machine");
    expect(root, "f32 without TF32", "0.85 x", "no", "2 cases, worst f32 two");
    expect(root, "f16, 4096", "", "", "cublaslt f16 big: no such library");
    expect(root, "bf16, 4096", "1 x", "in part", "1 case, worst bf16 big; 1 have no figure");
    expect(root, "mma.sync", "460 TFLOP/s", "yes", "");
    expect(root, "layers of language models", "0.99 x", "yes", "mean of 2");
    expect(root, "the same: none below", "0.81 x", "yes", "worst f16 a");
    expect(root, "s8, 8192 cubed: at least 1.6", "2 x", "yes", "the step did not end well");
    expect(root, "s8, 8192 cubed: at least cuBLASLt", "0.938 x", "no", "");
    expect(root, "f32 by OpenCL", "", "", "no device matches");
    cJSON_Delete(root);
}

/* Metrics of rows; a wrong result is none. */
static void metrics_are_read(void **state) {
    (void)state;
    write_file("summary.txt", summary);
    write_rows(
        "gemm_few.json",
        ROW("gemm", "f16w8 1", "tandem", "1", "1", ",\"metrics\":{\"of_read\":0.95}") "," ROW(
            "gemm", "f16w8 2", "tandem", "1", "1",
            ",\"metrics\":{\"of_read\":0.91}") ","
                                               "{\"suite\":\"gemm\",\"case\":\"f16w4 "
                                               "1\",\"impl\":\"tandem\",\"mode\":\"pipelined\","
                                               "\"status\":"
                                               "\"failed\",\"verified\":false,\"median_s\":1,"
                                               "\"metrics\":{\"of_read\":0.99},\"reason\":\"it is "
                                               "wrong\"}");
    write_rows("gemm_epilogue.json",
               ROW("gemm", "f16 +bias", "tandem-fused", "1", "1",
                   ",\"metrics\":{\"epilogue_cost\":0.029}") "," ROW("gemm", "bf16 +bias",
                                                                     "tandem-fused", "1", "1",
                                                                     ",\"metrics\":{\"epilogue_"
                                                                     "cost\":0.04}"));
    write_rows("launch.json",
               ROW("launch", "kernel", "tandem", "1", "1", ",\"metrics\":{\"extra_s\":9e-7}"));
    write_rows(
        "elementwise.json",
        ROW("elementwise", "relu f32", "tandem", "1", "1", ",\"metrics\":{\"of_copy\":0.97}") "," ROW(
            "elementwise", "relu f16", "tandem", "1", "1",
            ",\"metrics\":{\"of_copy\":0.88}") "," ROW("elementwise", "relu f32", "tandem-copy",
                                                       "1", "1",
                                                       ",\"gbs\":3000") "," ROW("elementwise",
                                                                                "relu f16",
                                                                                "tandem-copy", "1",
                                                                                "1",
                                                                                ",\"gbs\":3600"));
    write_rows("memory.json", ROW("memory", "copy 8", "tandem", "1", "1", ",\"gbs\":3900") "," ROW(
                                  "memory", "copy 8", "tandem", "1", "1",
                                  ",\"gbs\":4000") "," ROW("memory", "buffer 8", "tandem", "1", "1",
                                                           ",\"gbs\":9000"));
    cJSON *const root = judge();
    expect(root, "weights of 8 bits", "0.91 x", "yes", "2 cases, worst f16w8 2");
    expect(root, "weights of 4 bits", "", "", "it is wrong");
    expect(root, "f16 with bias", "2.9 %", "yes", "");
    expect(root, "bf16 with bias", "4 %", "no", "");
    expect(root, "s8 requantized", "", "", "it was not asked for");
    expect(root, "a launch", "0.9 us", "yes", "");
    expect(root, "relu", "0.88 x", "no", "worst relu f16");
    expect(root, "copy", "0.9 x", "yes", "best relu f16");
    expect(root, "gelu", "", "", "a line");
    cJSON_Delete(root);
}

/* What is enough as far as there was time is not all; that of small shapes, or of an earlier run, is nothing. */
static void what_is_missing_is_told(void **state) {
    (void)state;
    write_file(
        "summary.txt",
        "ok          1  memcheck   memcheck reports nothing in 3 of 12 programs, 9 had no time\n"
        "ok          1  racecheck  racecheck reports nothing in 12 of 12 programs, 0 had no time\n"
        "ok          1  gemm_few   a line\n"
        "ok          1  gemm_mma   a line (--quick)\n"
        "skipped     0  launch     no time is left\n");
    write_rows(
        "gemm_few.json",
        ROW("gemm", "f16w8 1", "tandem", "1", "1",
            ",\"metrics\":{\"of_read\":0.95}") ","
                                               "{\"suite\":\"gemm\",\"case\":\"f16w8 "
                                               "8\",\"impl\":\"tandem\",\"mode\":\"pipelined\","
                                               "\"status\":\"skipped\",\"reason\":\"the time is "
                                               "over\"}," ROW("gemm", "f16w4 1", "tandem", "1", "1",
                                                              ",\"metrics\":{\"of_read\":0.8}"));
    write_rows("gemm_mma.json", ROW("gemm", "bf16 64", "tandem", "8", "2", ",\"gflops\":460000"));
    write_rows("launch.json",
               ROW("launch", "kernel", "tandem", "1", "1", ",\"metrics\":{\"extra_s\":9e-7}"));
    cJSON *root = judge();
    expect(root, "compute-sanitizer memcheck", "ok", "in part", "9 had no time");
    expect(root, "compute-sanitizer racecheck", "ok", "yes", "0 had no time");
    expect(root, "weights of 8 bits", "0.95 x", "in part",
           "1 case, worst f16w8 1; 1 have no figure: tandem f16w8 8: the time is over");
    expect(root, "weights of 4 bits", "0.8 x", "no", "1 case");
    expect(root, "mma.sync", "460 TFLOP/s", "", "1 case, worst bf16 64; small shapes (--quick)");
    expect(root, "a launch", "", "", "no time is left");
    cJSON_Delete(root);
    write_file("summary.txt", "TIMEOUT    25  racecheck  none of 12 programs ended in time\n");
    root = judge();
    expect(root, "compute-sanitizer racecheck", "", "", "none of 12");
    cJSON_Delete(root);
}

/* A folder in which nothing ran has all bars, empty. */
static void nothing_is_no_figure(void **state) {
    (void)state;
    cJSON *const root = judge();
    const cJSON *bar;
    int count = 0;
    assert_string_equal(json_text(root, "measured_on"), "no step left results");
    cJSON_ArrayForEach(bar, json_member(root, "bars")) {
        assert_string_equal(json_text(bar, "measured"), "");
        assert_string_equal(json_text(bar, "met"), "");
        assert_non_null(strstr(json_text(bar, "note"), "it was not asked for"));
        count++;
    }
    assert_true(count >= 27);
    cJSON_Delete(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(the_worst_case_decides, test_folder_make,
                                        test_folder_remove),
        cmocka_unit_test_setup_teardown(metrics_are_read, test_folder_make, test_folder_remove),
        cmocka_unit_test_setup_teardown(what_is_missing_is_told, test_folder_make,
                                        test_folder_remove),
        cmocka_unit_test_setup_teardown(nothing_is_no_figure, test_folder_make, test_folder_remove),
    };
    return cmocka_run_group_tests_name("bars of a GPU", tests, NULL, NULL);
}
