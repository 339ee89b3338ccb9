#include "tests/support/bench/bench_rows.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/test_program.h"
#include "tests/support/test_tree.h"
#include "tests/support/unit.h"

char bench_program[TEST_TREE_PATH];
char bench_peer_folder[TEST_TREE_PATH];

__attribute__((constructor)) static void find_programs(void) {
    test_tree_build(bench_program, "bin/tandem");
    test_tree_build(bench_peer_folder, "libexec/tandem");
}

const char *bench_selector(void) {
    static char name[128];
    const char *const wanted = getenv("TANDEM_TEST_DEVICES");
    snprintf(name, sizeof name, "%s", wanted == NULL || wanted[0] == '\0' ? "0" : wanted);
    name[strcspn(name, ",")] = '\0';
    return name;
}

cJSON *bench_run_json(const char *command, const char *const *variables, int exit_code) {
    char arguments[512];
    snprintf(arguments, sizeof arguments, "%s --device %s --json -", command, bench_selector());
    test_program_result result =
        test_program_run(bench_program, arguments, variables, BENCH_PATIENCE_S);
    cJSON *const root = cJSON_Parse(result.output);
    if (result.exit_code != exit_code || root == NULL)
        fail_msg("'%s' gave %d\n-- output:\n%s\n-- errors:\n%s", arguments, result.exit_code,
                 result.output, result.errors);
    test_program_release(&result);
    return root;
}

const cJSON *json_member(const cJSON *object, const char *key) {
    const cJSON *const item = cJSON_GetObjectItemCaseSensitive(object, key);
    if (item == NULL)
        fail_msg("there is no '%s'", key);
    return item;
}

const char *json_text(const cJSON *object, const char *key) {
    const cJSON *const item = json_member(object, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

double json_number(const cJSON *object, const char *key) {
    const cJSON *const item = json_member(object, key);
    return cJSON_IsNumber(item) ? item->valuedouble : NAN;
}

const cJSON *bench_row(const cJSON *root, const char *impl, const char *case_name) {
    const cJSON *row;
    cJSON_ArrayForEach(row, json_member(root, "results")) {
        if (strcmp(json_text(row, "impl"), impl) == 0 &&
            (case_name == NULL || strcmp(json_text(row, "case"), case_name) == 0))
            return row;
    }
    fail_msg("there is no row of %s", impl);
    return NULL;
}

void bench_expect_measured(const cJSON *row) {
    if (strcmp(json_text(row, "status"), "ok") != 0)
        fail_msg("%s %s: %s, %s", json_text(row, "impl"), json_text(row, "case"),
                 json_text(row, "status"), json_text(row, "reason"));
    assert_true(cJSON_IsTrue(json_member(row, "verified")));
    assert_true(json_number(row, "max_error") >= 0);
    assert_true(json_number(row, "samples") >= 1);
    assert_int_equal(cJSON_GetArraySize(json_member(row, "raw_s")),
                     (int)json_number(row, "samples"));
    assert_true(json_number(row, "median_s") > 0);
    assert_true(json_number(row, "min_s") <= json_number(row, "median_s"));
    assert_true(json_number(row, "gbs") > 0);
}

int bench_peer_is_built(const char *peer) {
    char path[4096];
    snprintf(path, sizeof path, "%s/tandem-peer-%s", bench_peer_folder, peer);
    return access(path, X_OK) == 0;
}
