/* Workloads of `tandem predict`: those that it knows, by hand, and files that are none. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "bench/predict/predict_run.h"
#include "tests/support/test_folder.h"
#include "tests/support/test_near.h"

static void built_in_workloads_have_their_weights(void **state) {
    static predict_workload workload;
    const workload_settings plain = {0, 0, NULL};
    const workload_settings small = {4, 100, "w4"};
    file_error error;
    (void)state;
    assert_int_equal(predict_workload_read("llama-3-8b-decode", &plain, &workload, &error), 0);
    /* 32 · 4096 · (6144 + 4096 + 28672 + 14336) and the vocabulary: 7.505e9 numbers of two bytes. */
    test_is_near(workload.weight_bytes, 2.0 * (32.0 * 4096 * 53248 + 128256.0 * 4096), 1e-12);
    test_is_near(workload.kv_bytes, 131072.0 * 1024, 1e-12);
    /* Keys and values of a layer come from main memory, however few: all weights are read before they are read again. */
    assert_true(workload.operations[5].work.working_set >
                workload.weight_bytes + workload.kv_bytes);
    test_is_near(workload.operations[6].work.working_set, 3 * 4096 * 4, 1e-12);
    assert_true(workload.tokens == 1);
    assert_int_equal(predict_workload_read("llama-3-8b-decode", &small, &workload, &error), 0);
    test_is_near(workload.weight_bytes, (0.5 + 2.0 / 32) * (32.0 * 4096 * 53248 + 128256.0 * 4096),
                 1e-12);
    test_is_near(workload.kv_bytes, 131072.0 * 400, 1e-12);
    assert_true(workload.tokens == 4);
    assert_string_equal(workload.operations[0].work.key, "gemv w4 prepacked");
    assert_int_equal(predict_workload_read("llama-3-8b-prefill", &plain, &workload, &error), 0);
    assert_true(workload.tokens == 512);
    test_is_near(workload.operations[1].work.flops, 32 * 2.0 * 512 * 512 * 128, 1e-12);
    assert_int_equal(predict_workload_read("bert-base", &plain, &workload, &error), 0);
    test_is_near(workload.weight_bytes, 4 * 12 * 768.0 * (2304 + 768 + 3072 + 3072), 1e-12);
    assert_int_equal(predict_workload_read("digits", &plain, &workload, &error), 0);
    test_is_near(workload.weight_bytes, 4.0 * (64 * 256 + 256 * 256 + 256 * 10), 1e-12);
    /* Half of the least that a report measures (2 * 256^3, 2 * 1024 * 4096, 128 KB) is in the range that it predicts. */
    assert_true(workload.operations[0].work.flops >= 16777216);
    assert_true(workload.operations[2].work.flops >= 4194304);
    assert_true(workload.operations[3].work.read_bytes + workload.operations[3].work.write_bytes >=
                65536);
}

static void workload_refused(const char *from, const char *to, const char *sentence) {
    static const char valid[] =
        "{\"schema\":\"tandem-workload/1\",\"name\":\"w\",\"tokens\":\"batch\",\"operations\":["
        "{\"op\":\"gemm\",\"name\":\"g\",\"m\":\"2*batch\",\"n\":64,\"k\":64,\"dtype\":\"f32\"},"
        "{\"op\":\"stream\",\"name\":\"s\",\"reads\":\"context*4\",\"writes\":4}]}";
    static predict_workload workload;
    const workload_settings plain = {0, 0, NULL};
    char text[1024];
    char path[TEST_PATH];
    file_error error;
    const char *const place = strstr(valid, from);
    assert_non_null(place);
    snprintf(text, sizeof text, "%.*s%s%s", (int)(place - valid), valid, to, place + strlen(from));
    test_file_write(test_folder_path(path, "w.json"), text, strlen(text));
    const int status = predict_workload_read(path, &plain, &workload, &error);
    if (sentence == NULL)
        assert_int_equal(status, 0);
    else if (status == 0 || strstr(error.text, sentence) == NULL)
        fail_msg("'%s' for '%s' gave: %s", to, from, status == 0 ? "nothing" : error.text);
}

static void workloads_that_are_none(void **state) {
    (void)state;
    workload_refused("\"w\"", "\"w\"", NULL);
    workload_refused("workload/1", "workload/2", "its schema is 'tandem-workload/2'");
    workload_refused("\"2*batch\"", "\"2*bunch\"", "operation 1: member \"m\" is no size");
    workload_refused("\"2*batch\"", "\"2**batch\"", "member \"m\" is no size");
    workload_refused("\"2*batch\"", "-1", "member \"m\" is no size");
    workload_refused("\"2*batch\"", "0", "member \"m\" is 0, not a whole number");
    workload_refused("\"2*batch\"", "1.5", "member \"m\" is 1.5, not a whole number");
    workload_refused("\"n\":64,", "", "member \"n\" is missing");
    workload_refused("\"k\":64,", "\"k\":64,\"count\":2,", NULL);
    workload_refused("\"k\":64,", "\"k\":64,\"count\":0,",
                     "operation 1: member \"count\" is 0, which is no number of calls");
    workload_refused("\"k\":64,", "\"k\":64,\"count\":\"0*batch\",", "\"count\" is 0, which is no");
    workload_refused("\"k\":64,", "\"k\":64,\"count\":-1,", "member \"count\" is no size");
    workload_refused("\"f32\"", "\"f33\"", "the dtype 'f33' is none of f32|");
    workload_refused("\"writes\":4", "\"writes\":4,\"resident\":false", NULL);
    workload_refused("\"writes\":4", "\"writes\":4,\"resident\":1",
                     "operation 2: member \"resident\" is neither true nor false");
    workload_refused("\"op\":\"stream\"", "\"op\":\"sort\"",
                     "operation 2: the op 'sort' is neither");
    workload_refused("\"reads\":\"context*4\",\"writes\":4", "\"reads\":0,\"writes\":0",
                     "it neither reads nor writes");
    workload_refused("\"operations\"", "\"operation\"", "\"operations\" is no list");
    workload_refused("}]}", "}", "it is no JSON");
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(built_in_workloads_have_their_weights),
        cmocka_unit_test(workloads_that_are_none),
    };
    return cmocka_run_group_tests(tests, test_folder_make, test_folder_remove);
}
