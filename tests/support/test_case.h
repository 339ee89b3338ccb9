/*
 * These macros make up a test program. TEST(name) { ... } defines a cmocka test. It also adds the
 * test to the program's list, which has the order of the file. TEST_MAIN(setup, teardown), at the
 * end of the file, defines a main function that runs the list.
 */
#ifndef TANDEM_TESTS_SUPPORT_TEST_CASE_H
#define TANDEM_TESTS_SUPPORT_TEST_CASE_H

#include "tests/support/unit.h"

#ifdef __cplusplus
extern "C" {
#endif
/* Adds a test to the list. */
void test_add(struct CMUnitTest test);
/*
 * Runs the tests of the list, after `setup` and before `teardown`. Each of these two may be NULL.
 * Returns the exit status of the program. An empty list is a failure.
 */
int test_run_all(int (*setup)(void **state), int (*teardown)(void **state));
#ifdef __cplusplus
}
#endif

#define TEST_ADD(name, setup, teardown)                                                            \
    __attribute__((constructor)) static void name##_add(void) {                                    \
        const struct CMUnitTest test = cmocka_unit_test_setup_teardown(name, setup, teardown);     \
        test_add(test);                                                                            \
    }

#define TEST(name) TEST_WITH(name, NULL, NULL)

/* Defines a test that has a setup and a teardown function of its own. */
#define TEST_WITH(name, setup, teardown)                                                           \
    static void name(void **state);                                                                \
    TEST_ADD(name, setup, teardown)                                                                \
    static void name(void **state __attribute__((unused)))

#define TEST_MAIN(setup, teardown)                                                                 \
    int main(void) {                                                                               \
        return test_run_all(setup, teardown);                                                      \
    }

#endif
