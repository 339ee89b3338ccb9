/* Tables for people: widths, sides, numbers and times. */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

#include "common/table_print.h"

static void expect(const text_table *table, const char *expected) {
    char *text = NULL;
    size_t size = 0;
    FILE *const file = open_memstream(&text, &size);
    assert_non_null(file);
    table_print(table, file);
    fclose(file);
    assert_string_equal(text, expected);
    free(text);
}

static void columns_are_as_wide_as_their_widest_cell(void **state) {
    (void)state;
    text_table *const table = table_create("name|>rate|note");
    table_cell(table, "a long name");
    table_cell(table, "%d", 7);
    table_end_row(table);
    table_cell(table, "µ·√"); /* three columns, seven bytes */
    table_cell(table, "1234567");
    table_cell(table, "here");
    table_cell(table, "cut off: a row that is not full is not printed");
    expect(table, "name            rate  note\n"
                  "a long name        7  \n"
                  "µ·√          1234567  here\n");
    table_destroy(table);
}

static void numbers_and_times_keep_three_digits(void **state) {
    (void)state;
    static const double numbers[] = {1234.4, 99.96, 5.555, 0.0126, 0.00012, 0, NAN, 1e300, -1e300};
    static const double times[] = {12.5, 1, 0.0048811, 2.5e-5, 9.7e-10, 0, INFINITY, 1e-300, 1e300};
    text_table *const table = table_create(">number|>time");
    for (int i = 0; i < 9; i++) {
        table_number(table, numbers[i]);
        table_duration(table, times[i]);
    }
    expect(table, "   number      time\n"
                  "     1234    12.5 s\n"
                  "    100.0    1.00 s\n"
                  "     5.55   4.88 ms\n"
                  "    0.013   25.0 us\n"
                  "  1.2e-04   0.97 ns\n"
                  "    0.000    0.00 s\n"
                  "        -         -\n"
                  " 1.0e+300  1.0e-300\n"
                  "-1.0e+300  1.0e+300\n");
    table_destroy(table);
}

static void no_table_is_accepted(void **state) {
    (void)state;
    table_cell(NULL, "x");
    table_number(NULL, 1);
    table_duration(NULL, 1);
    table_end_row(NULL);
    table_print(NULL, stdout);
    table_destroy(NULL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(columns_are_as_wide_as_their_widest_cell),
        cmocka_unit_test(numbers_and_times_keep_three_digits),
        cmocka_unit_test(no_table_is_accepted),
    };
    return cmocka_run_group_tests_name("bench table", tests, NULL, NULL);
}
