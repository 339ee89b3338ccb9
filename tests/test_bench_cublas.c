/*
 * The workers of cuBLAS and cuBLASLt, on stand-ins of both libraries over host memory (tests/fake_cublas). What real ones give is not
 * shown here.
 */
// ctest: device cuda timeout=120
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/bench_rows.h"
#include "tests/support/test_folder.h"

#define FAKE TANDEM_BINARY_DIR "/lib/libtandem_fake_cublas.so"

/* The stand-ins are built where the workers are. */
static int is_built(void) {
    return bench_peer_is_built("cublas") && bench_peer_is_built("cublaslt") &&
           access(FAKE, R_OK) == 0;
}

/* A run with the stand-ins, whose GPU has this name (NULL: that of the device of this run). */
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
    const char *const variables[] = {"LD_PRELOAD=" FAKE, gpu, log_file, NULL};
    return bench_run_json(command, variables, 0);
}

/* Every type, layout and batch, right; of cuBLASLt the fastest algorithm, whose results alone are right. */
static void both_libraries_are_measured(void **state) {
    (void)state;
    if (!is_built())
        return;
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
            assert_string_equal(json_text(row, "variant"), "heuristic 4 of 4");
        measured += strncmp(impl, "cublas", 6) == 0;
    }
    assert_int_equal(measured, 4 * 3 * 2 * 2);
    cJSON_Delete(root);
}

/* Calls take copies of the weights in turn, those that try algorithms too. */
static void weights_are_taken_in_turn(void **state) {
    (void)state;
    char log[TEST_PATH];
    size_t size = 0;
    if (!is_built())
        return;
    cJSON_Delete(run("bench gemm --quick --samples 1 --shapes 5x16x32 --dtype f16 --rotate 5000 "
                     "--vs cublas,cublaslt --roof none",
                     NULL, test_folder_path(log, "log")));
    char *const text = (char *)test_file_read(log, &size);
    assert_non_null(strstr(text, "cublas 5\n"));
    assert_non_null(strstr(text, "cublaslt 5\n"));
    free(text);
}

/* Beside a device that is no GPU of the runtime's, and what the libraries have no product for. */
static void what_they_lack_is_skipped(void **state) {
    (void)state;
    if (!is_built())
        return;
    cJSON *root = run("bench gemm --quick --samples 1 --shapes 8x8x8 --vs cublaslt --roof none",
                      "another GPU", "/dev/null");
    assert_non_null(
        strstr(json_text(bench_row(root, "cublaslt", NULL), "reason"), "no CUDA device '"));
    cJSON_Delete(root);
    root = run("bench gemm --quick --samples 1 --shapes 8x8x8 --dtype w8 --vs cublas --roof none",
               NULL, "/dev/null");
    assert_string_equal(json_text(bench_row(root, "cublas", NULL), "reason"),
                        "there is no product in w8");
    cJSON_Delete(root);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(both_libraries_are_measured),
        cmocka_unit_test(weights_are_taken_in_turn),
        cmocka_unit_test(what_they_lack_is_skipped),
    };
    return cmocka_run_group_tests_name("bench cublas", tests, test_folder_make, test_folder_remove);
}
