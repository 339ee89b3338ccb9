#include "tests/support/test_case.h"

#include <stdio.h>

enum {
    MAX_TESTS = 128
};

static struct CMUnitTest tests[MAX_TESTS];
static size_t count;

void test_add(struct CMUnitTest test) {
    if (count < MAX_TESTS)
        tests[count] = test;
    count++;
}

int test_run_all(int (*setup)(void **state), int (*teardown)(void **state)) {
    if (count == 0 || count > MAX_TESTS) {
        fprintf(stderr, "the program has %zu tests: it may have 1 to %d\n", count, MAX_TESTS);
        return 1;
    }
    return _cmocka_run_group_tests("tests", tests, count, setup, teardown);
}
