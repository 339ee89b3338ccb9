#include "tests/support/bench/bench_rows.h"

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

#include "bench/record/bench_statistics.h"
#include "tests/support/test_program.h"
#include "tests/support/test_tree.h"

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

enum {
    DEALT = 10, /* samples that those of visits are dealt to */
    MOST_SAMPLES = 100
};

/* The shortest of the batches of an object, by samples; of one without batches its raw_s. Returns how many batches there are. */
static int shortest_of_batches(const cJSON *object, int samples, double *shortest) {
    const cJSON *list = cJSON_GetObjectItemCaseSensitive(object, "batches");
    const double unit = list == NULL ? 1 : json_number(object, "batch_unit_s");
    const cJSON *batch = NULL;
    int count = 0;
    list = list != NULL ? list : json_member(object, "raw_s");
    assert_in_range(samples, 1, MOST_SAMPLES);
    assert_true(cJSON_GetArraySize(list) >= samples);
    cJSON_ArrayForEach(batch, list) {
        const double seconds = batch->valuedouble * unit;
        double *const place = &shortest[count % samples];
        *place = count < samples ? seconds : fmin(*place, seconds);
        count++;
    }
    return count;
}

/* The same of the samples of all visits, which are dealt in turn. */
static int shortest_of_visits(const cJSON *visits, int samples, double *shortest) {
    const cJSON *visit = NULL;
    int dealt = 0;
    int batches = 0;
    cJSON_ArrayForEach(visit, visits) {
        double own[MOST_SAMPLES];
        const int count = (int)json_number(visit, "samples");
        json_member(visit, "batches");
        batches += shortest_of_batches(visit, count, own);
        for (int i = 0; i < count; i++, dealt++) {
            double *const place = &shortest[dealt % DEALT];
            *place = dealt < DEALT ? own[i] : fmin(*place, own[i]);
        }
    }
    assert_int_equal(samples, dealt < DEALT ? dealt : DEALT);
    return batches;
}

/* To four significant digits. */
static void expect_rounded(double rounded, double exact) {
    if (!(fabs(rounded - exact) <= 5.01e-4 * exact))
        fail_msg("the batches give %.10g instead of %.10g", rounded, exact);
}

int bench_expect_batches(const cJSON *row) {
    const cJSON *const visits = cJSON_GetObjectItemCaseSensitive(row, "visits");
    const int samples = (int)json_number(row, "samples");
    double shortest[MOST_SAMPLES];
    const int batches = visits == NULL ? shortest_of_batches(row, samples, shortest)
                                       : shortest_of_visits(visits, samples, shortest);
    for (int i = 0; i < samples; i++)
        expect_rounded(shortest[i], cJSON_GetArrayItem(json_member(row, "raw_s"), i)->valuedouble);
    const sample_summary summary = summarize_samples(shortest, (size_t)samples);
    expect_rounded(summary.median, json_number(row, "median_s"));
    expect_rounded(summary.p5, json_number(row, "p5_s"));
    expect_rounded(summary.p95, json_number(row, "p95_s"));
    return batches;
}

int bench_peer_is_built(const char *peer) {
    char path[4096];
    snprintf(path, sizeof path, "%s/tandem-peer-%s", bench_peer_folder, peer);
    return access(path, X_OK) == 0;
}
