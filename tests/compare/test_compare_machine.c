/* `tandem compare`: what is the machine's doing: noisy rows, cases that moved with others, whether a machine was quiet. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "bench/compare/compare_agree.h"
#include "bench/compare/compare_table.h"

static void noisy_rows_are_those_that_say_so(void **state) {
    (void)state;
    results_figure figures[] = {{"throttled", 0}, {"noisy", 0.07}};
    const results_row rows[] = {
        {.note = NULL},
        {.note = "0.9 of the first shape's rate", .metrics = {figures, 1}},
        {.note = "noisy: two runs of tandem differ by 4.0 %"},
        {.metrics = {figures, 2}},
    };
    for (int i = 0; i < 4; i++)
        assert_int_equal(results_row_is_noisy(&rows[i]), i >= 2);
}

/* A case of "read" or so by somebody, so many times as fast in the second column. */
typedef struct moved_case {
    const char *name;
    const char *impl;
    double ratio;
    const char *with; /* what moved alike */
} moved_case;

static void cases_that_the_machine_moved_are_told_apart(void **state) {
    (void)state;
    static const moved_case moved[] = {
        {"read", "tandem", 1.5, "stream"},  {"read", "stream", 1.4, "tandem"},
        {"write", "tandem", 0.5, NULL},     {"write", "stream", 1.02, NULL},
        {"copy", "tandem", 0.8, NULL},      {"copy", "memcpy", 1.25, NULL},
        {"triad", "tandem", 1.6, NULL},     {"triad", "stream", 1.1, "other"},
        {"triad", "other", 1.08, "stream"}, {"alone", "tandem", 1.2, NULL},
    };
    enum {
        CASES = sizeof moved / sizeof *moved
    };
    static results_row rows[CASES];
    static compare_case cases[CASES];
    results_figure apart[] = {{"apart", 0.01}, {"apart", 0.04}};
    for (int i = 0; i < CASES; i++) {
        rows[i] = (results_row){.suite = "memory", .case_name = moved[i].name};
        rows[i].impl = moved[i].impl;
        rows[i].metrics = (results_figures){&apart[i % 2], i < 6 ? 1 : 0};
        cases[i].row = &rows[i];
        cases[i].cells[1].ratio.ratio = moved[i].ratio;
    }
    const results_file file = {.rows = rows, .row_count = CASES};
    compare_table table = {.cases = cases, .case_count = CASES, .column_count = 2};
    table.columns[1] = (compare_column){.file = &file};
    for (int i = 0; i < CASES; i++) {
        int others = 0;
        const char *const with = compare_moved_with(&table, (size_t)i, 1, 0.03, &others);
        assert_int_equal(with == NULL, moved[i].with == NULL);
        if (with != NULL)
            assert_string_equal(with, moved[i].with);
        assert_int_equal(others, i != 3 && i != CASES - 1);
    }
    const compare_agreement own = compare_agree(&table, 1, 0.03);
    assert_true(own.cases == CASES && own.within == 1);
    assert_true(own.alike == 4 && own.unlike == 4 && own.unjudged == 1);
    assert_true(own.visited == 6 && own.moved == 3);
}

/* A column whose environment says so much of a run, and so many of whose twenty rows met the processors elsewhere. */
static int was_quiet(double others, double stolen, int strays) {
    enum {
        ROWS = 20
    };
    results_fact facts[] = {{(char *)"others_of_run", NULL, others},
                            {(char *)"stolen_of_run", NULL, stolen}};
    results_figure placed[] = {{"handover_ns", 110}, {"handover_ns", 500}};
    results_row rows[ROWS];
    for (int i = 0; i < ROWS; i++) {
        rows[i] = (results_row){.suite = "memory", .case_name = "read", .impl = "tandem"};
        rows[i].metrics = (results_figures){&placed[i < strays], 1};
    }
    const results_file file = {
        .rows = rows, .row_count = ROWS, .environment = {facts, isnan(others) ? 0 : 2}};
    compare_table table = {.column_count = 1};
    table.columns[0] = (compare_column){.file = &file};
    const compare_agreement own = compare_agree(&table, 0, 0.03);
    assert_true(own.placed == ROWS && own.strays == (size_t)strays);
    return compare_was_quiet(&own);
}

static void whether_a_machine_was_quiet_is_told(void **state) {
    (void)state;
    assert_int_equal(was_quiet(0.01, 0.005, 1), 1);
    assert_int_equal(was_quiet(0.01, NAN, 0), 1); /* no virtual machine */
    assert_int_equal(was_quiet(0.03, 0.005, 0), 0);
    assert_int_equal(was_quiet(0.01, 0.02, 0), 0);
    assert_int_equal(was_quiet(0.01, 0.005, 2), 0);
    assert_int_equal(was_quiet(NAN, NAN, 0), -1); /* a file of an earlier version */
}

static void cases_whose_processors_were_placed_differently_are_counted(void **state) {
    (void)state;
    static const double ratios[] = {1.5, 1.01, 0.7};
    results_figure placed[] = {{"handover_ns", 110}, {"handover_ns", 130}, {"handover_ns", 500}};
    results_row rows[2][3];
    compare_case cases[3];
    memset(cases, 0, sizeof cases);
    for (int i = 0; i < 3; i++) {
        for (int c = 0; c < 2; c++) {
            rows[c][i] = (results_row){.suite = "memory", .case_name = "read", .impl = "tandem"};
            rows[c][i].metrics = (results_figures){&placed[c == 0 ? 0 : 2 - i / 2], 1};
            cases[i].cells[c].row = &rows[c][i];
        }
        cases[i].row = &rows[0][i];
        cases[i].cells[1].ratio.ratio = ratios[i];
    }
    const results_file file = {.rows = rows[1], .row_count = 3};
    compare_table table = {.cases = cases, .case_count = 3, .column_count = 2};
    table.columns[1] = (compare_column){.file = &file};
    const compare_agreement own = compare_agree(&table, 1, 0.03);
    assert_true(own.within == 1 && own.displaced == 1);
}

/* Another of Tandem's own rows says nothing of the machine; what is not Tandem's does, of those rows, too. */
static void own_rows_are_no_witness(void **state) {
    (void)state;
    static const char *const own[] = {"tandem-plan",  "tandem-f32",   "tandem-copy",
                                      "alone",        "in-core",      "in-core-copied",
                                      "tandem-fused", "tandem-stream"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++) {
        static compare_case cases[3];
        results_row rows[3];
        const char *const impls[] = {"tandem", own[i], "opencl"};
        compare_table table = {.cases = cases, .case_count = 2, .column_count = 2};
        int others = 0;
        for (int r = 0; r < 3; r++) {
            rows[r] = (results_row){.suite = "launch", .case_name = "kernel", .impl = impls[r]};
            cases[r].row = &rows[r];
            cases[r].cells[1].ratio.ratio = 1.5;
        }
        if (compare_moved_with(&table, 0, 1, 0.03, &others) != NULL || others)
            fail_msg("%s is a witness", own[i]);
        assert_null(compare_moved_with(&table, 1, 1, 0.03, &others));
        table.case_count = 3;
        assert_string_equal(compare_moved_with(&table, 0, 1, 0.03, &others), "opencl");
        assert_string_equal(compare_moved_with(&table, 1, 1, 0.03, &others), "opencl");
        assert_string_equal(compare_moved_with(&table, 2, 1, 0.03, &others), "tandem");
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(noisy_rows_are_those_that_say_so),
        cmocka_unit_test(cases_that_the_machine_moved_are_told_apart),
        cmocka_unit_test(whether_a_machine_was_quiet_is_told),
        cmocka_unit_test(cases_whose_processors_were_placed_differently_are_counted),
        cmocka_unit_test(own_rows_are_no_witness),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
