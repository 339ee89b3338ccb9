/*
 * `tandem report` where the time of a suite ends too soon: what goes on, where, and when that ends. The suites are this program itself,
 * which tells of rows that nobody measured.
 */
// ctest: device
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <cjson/cJSON.h>

#include "bench/report/report_run.h"
#include "tests/support/bench/bench_rows.h"

enum {
    CASES = 6,
    AT_ONCE = 2, /* cases that a run of `launch` has time for */
    OF_TWO_ROWS = 2
};

static const char measured[] = "\"status\":\"ok\",\"reason\":null,\"samples\":1,\"raw_s\":[1],"
                               "\"median_s\":1,\"metrics\":{}";
static const char not_begun[] =
    "\"status\":\"skipped\",\"reason\":\"the suite's time is over, it was not begun\"";

static void print_row(int number, const char *impl, const char *rest) {
    printf("%s{\"suite\":\"launch\",\"case\":\"case %d\",\"impl\":\"%s\",\"mode\":\"waited\","
           "\"shape\":{},%s}",
           impl[0] == 'p' ? "," : "", number, impl, rest);
}

/* Cases from `begin` to before `end` are measured, and of case `end` only what is behind its first row is not. */
static void print_suite(int begin, int end) {
    int rows = 0;
    printf("{\"schema\":\"tandem-bench/1\",\"command\":[],\"environment\":{},\"results\":[");
    for (int i = begin; i < CASES; i++) {
        printf("%s", i > begin ? "," : "");
        print_row(i, "tandem", i < end || (i == end && i == OF_TWO_ROWS) ? measured : not_begun);
        if (i == OF_TWO_ROWS)
            print_row(i, "peer", i < end ? measured : not_begun);
        rows += i < end ? 1 + (i == OF_TWO_ROWS) : 0;
    }
    printf("]");
    if (end < CASES)
        printf(",\"unfinished\":{\"case\":%d,\"row\":%d}", end, rows);
    printf("}");
}

/* `launch` comes two cases further each time, `pool` never ends its first. */
static int play_suite(int argc, char **argv) {
    int begin = 0;
    for (int i = 1; i + 1 < argc; i++)
        if (strcmp(argv[i], "--begin") == 0)
            begin = (int)strtol(argv[i + 1], NULL, 10);
    print_suite(begin, strcmp(argv[2], "pool") == 0 ? 0 : begin + AT_ONCE);
    return 0;
}

static cJSON *measure(const char *suites, int visits) {
    const report_request request = {
        .device = bench_selector(), .suites = suites, .budget_s = 90, .visits = visits};
    report_result result;
    assert_int_equal(report_measure(&request, &result), 0);
    assert_int_equal(result.failures, 0);
    return result.root;
}

/* The number behind --begin in the command of a step, or 0. */
static int begin_of(const cJSON *step) {
    const char *const option = strstr(json_text(step, "command"), " --begin ");
    return option == NULL ? 0 : (int)strtol(option + 9, NULL, 10);
}

/* Each row once, in order. */
static void expect_all_measured(const cJSON *rows) {
    const cJSON *row = rows->child;
    assert_int_equal(cJSON_GetArraySize(rows), CASES + 1);
    for (int i = 0; i < CASES; i++) {
        for (int each = 0; each <= (i == OF_TWO_ROWS); each++, row = row->next) {
            char name[32];
            snprintf(name, sizeof name, "case %d", i);
            assert_string_equal(json_text(row, "case"), name);
            assert_string_equal(json_text(row, "impl"), each == 0 ? "tandem" : "peer");
            assert_string_equal(json_text(row, "status"), "ok");
        }
    }
}

static void a_suite_goes_on_where_its_time_ended(void **state) {
    (void)state;
    static const int visits[] = {1, 1, 1, 2}, begins[] = {0, 2, 4, 0};
    for (int most = 1; most <= 2; most++) {
        cJSON *const root = measure("launch", most);
        const cJSON *const steps = json_member(root, "suites");
        assert_int_equal(cJSON_GetArraySize(steps), most == 1 ? 3 : 4);
        for (int i = 0; i < cJSON_GetArraySize(steps); i++) {
            const cJSON *const step = cJSON_GetArrayItem(steps, i);
            assert_true(json_number(step, "visit") == visits[i]);
            assert_int_equal(begin_of(step), begins[i]);
        }
        expect_all_measured(json_member(root, "results"));
        assert_false(cJSON_HasObjectItem(root, "unfinished"));
        cJSON_Delete(root);
    }
}

/* A case that takes all the time there is does not keep others from it, and is left in the end. */
static void a_case_without_end_is_left(void **state) {
    (void)state;
    cJSON *const root = measure("launch,pool", 1);
    const cJSON *const steps = json_member(root, "suites");
    const cJSON *step = NULL;
    double budget = 0;
    int of_pool = 0;
    cJSON_ArrayForEach(step, steps) {
        if (strcmp(json_text(step, "suite"), "pool") != 0)
            continue;
        if (of_pool++ > 1)
            assert_true(json_number(step, "budget_s") >= 2 * budget);
        budget = json_number(step, "budget_s");
    }
    assert_int_equal(cJSON_GetArraySize(steps) - of_pool, 3);
    assert_in_range(of_pool, 2, 7);
    assert_int_equal(cJSON_GetArraySize(json_member(root, "results")), 2 * (CASES + 1));
    cJSON_Delete(root);
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_suite_goes_on_where_its_time_ended),
        cmocka_unit_test(a_case_without_end_is_left),
    };
    if (argc > 2 && strcmp(argv[1], "bench") == 0)
        return play_suite(argc, argv);
    return cmocka_run_group_tests_name("report continued", tests, NULL, NULL);
}
