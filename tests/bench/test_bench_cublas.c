/*
 * Tests the workers of cuBLAS and cuBLASLt with stand-ins of both libraries in host memory
 * (tests/fake_cublas). The test shows nothing about results of the real libraries. */
// ctest: device cuda timeout=120
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "tests/support/bench/bench_rows.h"
#include "tests/support/test_folder.h"
#include "tests/support/test_tree.h"

static char fake[TEST_TREE_PATH]; /* set by main */

/* The stand-ins are built together with the workers. Both need the headers of a CUDA toolkit. */
static int workers_are_built(void) {
    return bench_peer_is_built("cublas") && bench_peer_is_built("cublaslt");
}

/* Runs a command with the stand-ins. `name` is the name of their GPU; NULL: that of the device of
 * this run. */
static cJSON *run(const char *command, const char *name, const char *log) {
    static char own_name[160];
    char gpu[200], log_file[4200];
    if (own_name[0] == '\0') {
        cJSON *const root = bench_run_json(
            "bench launch --quick --samples 1 --operation kernel --mode pipelined", NULL, 0);
        snprintf(own_name, sizeof own_name, "%s", json_text(json_member(root, "device"), "name"));
        cJSON_Delete(root);
    }
    snprintf(gpu, sizeof gpu, "FAKE_CUDA_NAME=%s", name != NULL ? name : own_name);
    snprintf(log_file, sizeof log_file, "FAKE_CUBLAS_LOG=%s", log);
    char files[3][TEST_TREE_PATH + 40];
    static const char *const libraries[] = {"CUBLAS", "CUBLASLT", "CUDART"};
    for (int i = 0; i < 3; i++)
        snprintf(files[i], sizeof files[i], "TANDEM_%s_LIBRARY=%s", libraries[i], fake);
    const char *const variables[] = {files[0], files[1], files[2], gpu, log_file, NULL};
    return bench_run_json(command, variables, 0);
}

/* All types, layouts and batches give right results. With cuBLASLt, only the fastest algorithm
 * does. */
static void both_libraries_are_measured(void **state) {
    (void)state;
    cJSON *const root =
        run("bench gemm --quick --samples 1 --shapes 33x17x29,2*9x8x16 "
            "--dtype f32,f16,bf16,s8 --layout nn,nt,tn --vs cublas,cublaslt --roof none",
            NULL, "/dev/null");
    const cJSON *row;
    int measured = 0;
    cJSON_ArrayForEach(row, json_member(root, "results")) {
        const char *const impl = json_text(row, "impl");
        bench_expect_measured(row);
        if (strcmp(impl, "cublaslt") == 0)
            assert_string_equal(json_text(row, "variant"), "heuristic 4 of 5");
        measured += strncmp(impl, "cublas", 6) == 0;
    }
    assert_int_equal(measured, 4 * 3 * 2 * 2);
    cJSON_Delete(root);
}

/* Calls use copies of the weights in turn, even while algorithms are tried. A much slower algorithm
 * is tried only three times. */
static void weights_are_taken_in_turn(void **state) {
    (void)state;
    char log[TEST_PATH];
    size_t size = 0;
    cJSON_Delete(run("bench gemm --quick --samples 1 --shapes 5x16x32 --dtype f16 --rotate 5000 "
                     "--vs cublas,cublaslt --roof none",
                     NULL, test_folder_path(log, "log")));
    char *const text = (char *)test_file_read(log, &size);
    assert_non_null(strstr(text, "cublas 5, "));
    assert_non_null(strstr(text, "cublaslt 5, "));
    assert_non_null(strstr(text, "cublaslt 5, 3 calls of the last algorithm\n"));
    free(text);
}

/* A device that the CUDA runtime does not list is skipped. A GEMM that the libraries lack is
 * skipped, too. */
static void what_they_lack_is_skipped(void **state) {
    (void)state;
    cJSON *root = run("bench gemm --quick --samples 1 --shapes 8x8x8 --vs cublaslt --roof none",
                      "another GPU", "/dev/null");
    assert_non_null(
        strstr(json_text(bench_row(root, "cublaslt", NULL), "reason"), "no CUDA device '"));
    cJSON_Delete(root);
    root = run("bench gemm --quick --samples 1 --shapes 8x8x8 --dtype w8 --vs cublas --roof none",
               NULL, "/dev/null");
    assert_string_equal(json_text(bench_row(root, "cublas", NULL), "reason"),
                        "there is no GEMM in w8");
    cJSON_Delete(root);
}

/* A worker that cannot load its library names the file, and the variable that may name another. */
static void a_missing_library_is_reported(void **state) {
    static const char *const variables[] = {"TANDEM_CUBLAS_LIBRARY=/nowhere/libcublas.so", NULL};
    (void)state;
    cJSON *const root = bench_run_json(
        "bench gemm --quick --samples 1 --shapes 8x8x8 --vs cublas --roof none", variables, 0);
    const cJSON *const row = bench_row(root, "cublas", NULL);
    assert_string_equal(json_text(row, "status"), "skipped");
    assert_non_null(strstr(json_text(row, "reason"), "TANDEM_CUBLAS_LIBRARY: /nowhere/libcublas"));
    cJSON_Delete(root);
}

/* A build without these headers has no workers. Each missing worker is reported. */
static void missing_workers_are_told(void **state) {
    (void)state;
    static const char *const peers[] = {"cublas", "cublaslt"};
    cJSON *const root = bench_run_json("bench gemm --quick --samples 1 --shapes 8x8x8 "
                                       "--vs cublas,cublaslt --roof none",
                                       NULL, 0);
    int missing = 0;
    for (int i = 0; i < 2; i++) {
        if (bench_peer_is_built(peers[i]))
            continue;
        const cJSON *const row = bench_row(root, peers[i], NULL);
        assert_string_equal(json_text(row, "status"), "skipped");
        assert_non_null(strstr(json_text(row, "reason"), "no worker program"));
        missing++;
    }
    assert_true(missing > 0);
    cJSON_Delete(root);
}

int main(void) {
    test_tree_build(fake, "lib/libtandem_fake_cublas.so");
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_libraries_are_measured),
        cmocka_unit_test(weights_are_taken_in_turn),
        cmocka_unit_test(what_they_lack_is_skipped),
        cmocka_unit_test(a_missing_library_is_reported),
    };
    const struct CMUnitTest without[] = {cmocka_unit_test(missing_workers_are_told)};
    if (workers_are_built())
        return cmocka_run_group_tests_name("bench cublas", tests, test_folder_make,
                                           test_folder_remove);
    return cmocka_run_group_tests_name("bench without cublas", without, NULL, NULL);
}
