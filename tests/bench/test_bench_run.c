/*
 * Tests `tandem devices` and `tandem bench` on the device of this run, with the peers that are
 * built and with fake ones. */
// ctest: device compiled rusticl_in_ci timeout=300 cost=60
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "bench/cases/gemm_case.h"
#include "bench/cases/memory_case.h"
#include "bench/protocol/worker_process.h"
#include "kernels/kernel_index.h"
#include "tests/support/bench/bench_rows.h"
#include "tests/support/test_case.h"
#include "tests/support/test_folder.h"
#include "tests/support/test_program.h"
#include "tests/support/test_tree.h"

TEST(devices_lists_the_device_of_this_run) {
    cJSON *const root = bench_run_json("devices", NULL, 0);
    assert_string_equal(json_text(root, "schema"), "tandem-devices/1");
    const cJSON *const device = cJSON_GetArrayItem(json_member(root, "devices"), 0);
    assert_non_null(device);
    assert_string_not_equal(json_text(device, "name"), "");
    assert_true(json_number(device, "compute_units") >= 1);
    assert_true(json_number(device, "global_bytes") > 0);
    assert_true(cJSON_IsArray(json_member(device, "capabilities")));
    /* A missing backend is reported with the reason. */
    const cJSON *note;
    int about_cuda = 0;
    cJSON_ArrayForEach(note, json_member(root, "notes")) {
        about_cuda += strncmp(note->valuestring, "cuda", 4) == 0;
    }
    assert_true(about_cuda >= 1 || strncmp(json_text(device, "backend"), "cuda", 4) == 0);
    test_program_result table = test_program_run(bench_program, "devices", NULL, BENCH_PATIENCE_S);
    assert_int_equal(table.exit_code, 0);
    assert_non_null(strstr(table.output, json_text(device, "selector")));
    assert_non_null(strstr(table.output, "cuda"));
    test_program_release(&table);
    cJSON_Delete(root);
}

static void expect_no_line_twice(const char *text) {
    for (const char *line = text; strchr(line, '\n') != NULL; line = strchr(line, '\n') + 1) {
        char whole[512];
        snprintf(whole, sizeof whole, "\n%.*s\n", (int)strcspn(line, "\n"), line);
        if (strstr(line, whole) != NULL)
            fail_msg("a line stands twice in: %s", text);
    }
}

TEST(a_device_that_nothing_matches_has_its_own_exit_code) {
    static const char *const commands[] = {"devices --device no-such-device",
                                           "bench gemm --device no-such-device",
                                           "bench memory --device 999"};
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++) {
        test_program_result result =
            test_program_run(bench_program, commands[i], NULL, BENCH_PATIENCE_S);
        assert_int_equal(result.exit_code, 3);
        assert_string_equal(result.output, "");
        assert_non_null(strstr(result.errors, "no device matches '"));
        assert_non_null(strstr(result.errors, "  0  ")); /* available devices */
        expect_no_line_twice(result.errors);             /* missing backends are listed once */
        test_program_release(&result);
    }
}

TEST(gemm_runs_beside_every_peer) {
    cJSON *const root = bench_run_json("bench gemm --quick --shapes 33x17x29 --layout nn,tt --vs "
                                       "openblas,onednn,clblast",
                                       NULL, 0);
    assert_string_equal(json_text(root, "schema"), "tandem-bench/1");
    const cJSON *const words = json_member(root, "command");
    assert_int_equal(cJSON_GetArraySize(words), 14);
    assert_string_equal(cJSON_GetArrayItem(words, 0)->valuestring, "tandem");
    assert_string_equal(cJSON_GetArrayItem(words, 9)->valuestring, "openblas,onednn,clblast");
    assert_int_equal(cJSON_GetArraySize(json_member(root, "results")), 10); /* 2 are peak rates */
    static const char *const cases[] = {"f32 33x17x29 nn", "f32 33x17x29 tt"};
    int roofs = 0;
    const cJSON *each;
    cJSON_ArrayForEach(each, json_member(root, "results")) { /* rows of peak rates */
        if (strncmp(json_text(each, "case"), "fma ", 4) != 0)
            continue;
        assert_string_equal(json_text(each, "status"), "ok");
        assert_true(cJSON_IsTrue(json_member(each, "verified")));
        assert_string_not_equal(json_text(each, "variant"), "");
        assert_true(json_number(each, "flops") > 0);
        roofs++;
    }
    assert_int_equal(roofs, 2);
    for (int i = 0; i < 2; i++) {
        const cJSON *const row = bench_row(root, "tandem", cases[i]);
        bench_expect_measured(row);
        assert_string_equal(json_text(row, "suite"), "gemm");
        assert_string_equal(json_text(row, "dtype"), "f32");
        assert_string_equal(json_text(row, "mode"), "pipelined");
        assert_string_equal(json_text(row, "packing"), "inside");
        assert_string_not_equal(json_text(row, "variant"), "");
        assert_true(json_number(json_member(row, "shape"), "n") == 17);
        assert_true(json_number(row, "flops") == 2.0 * 33 * 17 * 29);
        const cJSON *const metrics = json_member(row, "metrics");
        assert_true(json_number(metrics, "peak_gflops") > 0);
        assert_true(json_number(metrics, "of_peak") > 0);
        if (bench_peer_is_built("openblas"))
            bench_expect_measured(bench_row(root, "openblas", cases[i]));
        if (bench_peer_is_built("onednn"))
            bench_expect_measured(bench_row(root, "onednn", cases[i]));
        /* CLBlast sees only devices of the OpenCL ICD loader, not the one that Oclgrind adds. */
        const cJSON *const clblast = bench_row(root, "clblast", cases[i]);
        if (strcmp(json_text(clblast, "status"), "skipped") != 0)
            bench_expect_measured(clblast);
        else
            assert_string_not_equal(json_text(clblast, "reason"), "");
    }
    cJSON_Delete(root);
}

/* The last GEMM variant of the table is the reference kernel. It is never chosen if another one can
 * run. */
TEST(a_forced_variant_is_the_one_that_runs) {
    const char *last = NULL;
    char command[256];
    for (int i = 0; i < tdm_variant_count; i++) {
        if (tdm_variants[i].op == TDM_OP_GEMM)
            last = tdm_variants[i].name;
    }
    assert_non_null(last);
    cJSON *root = bench_run_json("bench gemm --quick --shapes 16x16x16", NULL, 0);
    assert_string_not_equal(json_text(bench_row(root, "tandem", NULL), "variant"), last);
    cJSON_Delete(root);
    snprintf(command, sizeof command, "bench gemm --quick --shapes 16x16x16 --variant %s", last);
    root = bench_run_json(command, NULL, 0);
    assert_string_equal(json_text(bench_row(root, "tandem", NULL), "variant"), last);
    bench_expect_measured(bench_row(root, "tandem", NULL));
    cJSON_Delete(root);
}

/* Compares integer GEMMs with Tandem's own f32 GEMM, whose rows are labelled as f32. */
TEST(gemm_multiplies_integers) {
    cJSON *const root =
        bench_run_json("bench gemm --quick --dtype u8s8,s8,u8s8f32,u8s8u8 --shapes 33x17x29 "
                       "--packing inside,prepacked --roof none --vs tandem-f32",
                       NULL, 0);
    const cJSON *row;
    int exact = 0;
    assert_int_equal(cJSON_GetArraySize(json_member(root, "results")), 16);
    cJSON_ArrayForEach(row, json_member(root, "results")) {
        bench_expect_measured(row);
        const int is_f32 = strcmp(json_text(row, "impl"), "tandem-f32") == 0;
        assert_int_equal(strcmp(json_text(row, "dtype"), "f32") == 0, is_f32);
        assert_int_equal(strncmp(json_text(row, "case"), json_text(row, "dtype"),
                                 strlen(json_text(row, "dtype"))),
                         0);
        assert_true(json_number(row, "flops") == 2.0 * 33 * 17 * 29);
        exact += json_number(row, "max_error") == 0;
    }
    assert_int_equal(exact, 6); /* rows with integer outputs */
    row = bench_row(root, "tandem", "u8s8 33x17x29 nn");
    assert_true(json_number(row, "bytes") == 33 * 29 + 29 * 17 + 4 * 33 * 17);
    assert_non_null(strstr(json_text(row, "variant"), "gemm_int_"));
    row = bench_row(root, "tandem-f32", "f32 33x17x29 nn");
    assert_true(json_number(row, "bytes") == 4 * (33 * 29 + 29 * 17 + 33 * 17));
    cJSON_Delete(root);
}

/* Runs f16, bf16, and weights of 8 and 4 bits in every packing. */
TEST(gemm_runs_in_every_dtype_and_packing) {
    cJSON *const root =
        bench_run_json("bench gemm --quick --samples 1 --dtype f16,bf16,w8,f16w4,w4a8 "
                       "--shapes 18x34x70 --layout nt --packing inside,prepacked "
                       "--roof none",
                       NULL, 0);
    const cJSON *row;
    int prepacked = 0;
    assert_int_equal(cJSON_GetArraySize(json_member(root, "results")), 10);
    cJSON_ArrayForEach(row, json_member(root, "results")) {
        bench_expect_measured(row);
        prepacked += strcmp(json_text(row, "packing"), "prepacked") == 0;
    }
    assert_int_equal(prepacked, 5);
    cJSON_Delete(root);
}

/*
 * On processors without VNNI, oneDNN adds pairs of products in 16 bits, which may saturate. A row
 * must therefore be right, or fail with "wrong result". */
TEST(onednn_multiplies_integers_or_is_seen_to_fail) {
    char arguments[512];
    int measured = 0;
    if (!bench_peer_is_built("onednn"))
        return;
    snprintf(arguments, sizeof arguments,
             "bench gemm --quick --samples 1 --dtype u8s8,s8,u8s8f32,u8s8u8 --shapes 2*33x17x29 "
             "--layout nn,tt "
             "--roof none --vs onednn --device %s --json -",
             bench_selector());
    test_program_result result = test_program_run(bench_program, arguments, NULL, BENCH_PATIENCE_S);
    cJSON *const root = cJSON_Parse(result.output);
    assert_non_null(root);
    const cJSON *row;
    cJSON_ArrayForEach(row, json_member(root, "results")) {
        if (strcmp(json_text(row, "impl"), "onednn") != 0)
            continue;
        measured++;
        if (strcmp(json_text(row, "status"), "ok") == 0)
            bench_expect_measured(row);
        else if (strstr(json_text(row, "reason"), "wrong result: ") == NULL)
            fail_msg("%s: %s", json_text(row, "case"), json_text(row, "reason"));
    }
    assert_int_equal(measured, 8);
    cJSON_Delete(root);
    test_program_release(&result);
}

/* These peers are built only with a CUDA toolkit. A skipped row must name the reason: the peer was
 * not built, or there is no GPU. */
TEST(peers_of_cuda_are_measured_or_say_why) {
    cJSON *const root = bench_run_json(
        "bench gemm --quick --shapes 32x32x32 --roof none --vs cublas,cublaslt", NULL, 0);
    static const char *const peers[] = {"cublas", "cublaslt"};
    for (int i = 0; i < 2; i++) {
        const cJSON *const row = bench_row(root, peers[i], "f32 32x32x32 nn");
        if (strcmp(json_text(row, "status"), "skipped") != 0) {
            bench_expect_measured(row);
            continue;
        }
        const char *const reason =
            bench_peer_is_built(peers[i]) ? "no CUDA device" : "no worker program";
        if (!strstr(json_text(row, "reason"), reason))
            fail_msg("%s: '%s'", peers[i], json_text(row, "reason"));
    }
    cJSON_Delete(root);
}

/* Writes a script that acts as a peer. A script in TANDEM_PEER_DIR takes precedence over the peer
 * that was built. */
static void write_peer(const char *folder, const char *peer, const char *script) {
    char path[256];
    snprintf(path, sizeof path, "%s/tandem-peer-%s", folder, peer);
    FILE *const file = fopen(path, "w");
    assert_non_null(file);
    fprintf(file, "#!/bin/sh\n%s", script);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, 0700), 0);
}

static void remove_peer(const char *folder, const char *peer) {
    char path[256];
    snprintf(path, sizeof path, "%s/tandem-peer-%s", folder, peer);
    assert_int_equal(unlink(path), 0);
}

TEST(peers_that_fail_do_not_end_the_run) {
    char folder[] = "/tmp/tandem-test-XXXXXX";
    char variable[64];
    assert_non_null(mkdtemp(folder));
    snprintf(variable, sizeof variable, "TANDEM_PEER_DIR=%s", folder);
    const char *const variables[] = {variable, NULL};
    write_peer(folder, "openblas", "echo 'illegal instruction, it says' >&2\nkill -ILL $$\n");
    write_peer(folder, "onednn", "sleep 100\n");
    write_peer(folder, "clblast",
               "echo 'ready protocol=1 impl=clblast'\nread -r l; echo ok; read -r l; echo 'ok 1'\n"
               "read -r l; head -c 256 /dev/zero >/dev/fd/3; echo 'ok bytes=256'; read -r l\n");
    char arguments[128];
    snprintf(arguments, sizeof arguments,
             "bench gemm --quick --shapes 8x8x8,8x9x7 --timeout %d --vs openblas,onednn,clblast",
             4 * test_time_factor());
    cJSON *root = bench_run_json(arguments, variables, 1);
    static const char *const cases[] = {"f32 8x8x8 nn", "f32 8x9x7 nn"};
    static const char *const wrong[] = {"wrong result: D[",
                                        "wrong result: the output has 256 bytes"};
    for (int i = 0; i < 2; i++) {
        bench_expect_measured(bench_row(root, "tandem", cases[i]));
        const cJSON *row = bench_row(root, "openblas", cases[i]);
        assert_string_equal(json_text(row, "status"), "failed");
        assert_non_null(strstr(json_text(row, "reason"), "died of signal 4"));
        assert_non_null(strstr(json_text(row, "reason"), "illegal instruction, it says"));
        row = bench_row(root, "onednn", cases[i]);
        assert_string_equal(json_text(row, "status"), "failed");
        assert_non_null(strstr(json_text(row, "reason"), "no answer within"));
        row = bench_row(root, "clblast", cases[i]);
        assert_string_equal(json_text(row, "status"), "failed");
        assert_non_null(strstr(json_text(row, "reason"), wrong[i]));
        assert_true(cJSON_IsFalse(json_member(row, "verified")));
        assert_true(cJSON_IsNull(json_member(row, "median_s")));
    }
    cJSON_Delete(root);
    /* This peer writes zeros, which are wrong for an integer GEMM, too. */
    write_peer(folder, "onednn", "exec \"$(dirname \"$0\")/tandem-peer-clblast\"\n");
    root = bench_run_json("bench gemm --quick --shapes 8x8x8 --dtype u8s8 --roof none --vs onednn",
                          variables, 1);
    assert_non_null(
        strstr(json_text(bench_row(root, "onednn", NULL), "reason"), "wrong result: D["));
    bench_expect_measured(bench_row(root, "tandem", NULL));
    cJSON_Delete(root);
    remove_peer(folder, "openblas");
    remove_peer(folder, "onednn");
    remove_peer(folder, "clblast");
    assert_int_equal(rmdir(folder), 0);
}

/* Parent and worker each list the devices. An index must mean the same device to both. */
TEST(a_worker_refuses_a_device_that_is_another_one) {
    const gemm_case product = {.types = GEMM_F32, .m = 8, .n = 8, .k = 8};
    const memory_case copy = {.operation = MEMORY_COPY, .bytes = 64, .threads = 1};
    static const char *const workers[] = {"gemm", "memory"};
    for (int i = 0; i < 2; i++) {
        const char *const arguments[] = {"_worker", workers[i], NULL};
        const worker_launch launch = {.program = bench_program, .arguments = arguments};
        worker_text text = {.length = 0}, request = {.length = 0};
        const double patience_s = BENCH_PATIENCE_S * test_time_factor();
        worker_process *const worker = worker_start(&launch, patience_s, &text);
        assert_non_null(worker);
        worker_field_add(&request, "index", "0");
        worker_field_add(&request, "selector", "another/one");
        if (i == 0)
            gemm_case_write(&product, &request);
        else
            memory_case_write(&copy, &request);
        assert_int_equal(worker_describe(worker, request.text, patience_s, &text), WORKER_FAIL);
        assert_non_null(strstr(text.text, "not another/one"));
        assert_int_equal(worker_quit(worker, &text), WORKER_OK);
        worker_stop(worker);
    }
}

/* The worker chooses the kernel, and its log is shown once. */
TEST(the_log_of_the_worker_is_shown) {
    static const char *const logged[] = {"TANDEM_LOG=dispatch", NULL};
    char arguments[256];
    snprintf(arguments, sizeof arguments, "bench gemm --quick --shapes 16x16x16 --device %s",
             bench_selector());
    test_program_result result =
        test_program_run(bench_program, arguments, logged, BENCH_PATIENCE_S);
    assert_int_equal(result.exit_code, 0);
    assert_non_null(strstr(result.output, "GFLOP/s"));
    assert_non_null(strstr(result.output, "f32 16x16x16 nn"));
    const char *const chosen = strstr(result.errors, "dispatch: gemm: gemm_");
    if (chosen == NULL || strstr(result.errors, " chosen\n") == NULL)
        fail_msg("the log lacks the kernel of GEMM: %s", result.errors);
    char line[256];
    snprintf(line, sizeof line, "%.*s", (int)strcspn(chosen, "\n"), chosen);
    assert_null(strstr(chosen + 1, line));
    test_program_release(&result);
}

/* Drivers open files, which must not get the file descriptor of the closed standard output. */
TEST(output_that_cannot_be_written_is_a_failure) {
    static const char *const outputs[] = {"/dev/full", NULL};
    char digits[TEST_TREE_PATH], infer[TEST_TREE_PATH + 100], arguments[TEST_TREE_PATH + 300];
    const char *const commands[] = {"devices", infer};
    snprintf(infer, sizeof infer, "infer %s --images 2 --batch 1 --precision f32 --seconds 0",
             test_tree_source(digits, "examples/digits"));
    for (int i = 0; i < 4; i++) {
        snprintf(arguments, sizeof arguments, "%s --device %s", commands[i / 2], bench_selector());
        test_program_result result =
            test_program_run_into(outputs[i % 2], bench_program, arguments, NULL, BENCH_PATIENCE_S);
        if (result.exit_code != 1 ||
            strstr(result.errors, "tandem: cannot write standard output: ") == NULL)
            fail_msg("'%s' gave %d: %s", arguments, result.exit_code, result.errors);
        test_program_release(&result);
    }
}

TEST_MAIN(NULL, NULL)
