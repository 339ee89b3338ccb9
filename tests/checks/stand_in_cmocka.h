/* Replaces cmocka when check_aarch64.sh cross-compiles the simulator's tests. It has only the names
 * that these use. */
#ifndef TANDEM_TESTS_CHECKS_STAND_IN_CMOCKA_H
#define TANDEM_TESTS_CHECKS_STAND_IN_CMOCKA_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct CMUnitTest {
    const char *name;
    void (*test)(void **state);
    int (*setup)(void **state);
    int (*teardown)(void **state);
};
#define cmocka_unit_test_setup_teardown(test, setup, teardown)                                     \
    { #test, test, setup, teardown }

static inline void stand_in_assert(int holds, const char *what, const char *file, int line) {
    if (!holds) {
        printf("[  FAILED  ] %s:%d: %s\n", file, line, what);
        exit(1);
    }
}
#define fail_msg(...)                                                                              \
    do {                                                                                           \
        printf(__VA_ARGS__);                                                                       \
        stand_in_assert(0, "fail_msg", __FILE__, __LINE__);                                        \
    } while (0)
#define assert_true(x) stand_in_assert(!!(x), #x, __FILE__, __LINE__)
#define assert_false(x) assert_true(!(x))
#define assert_null(x) assert_true((x) == NULL)
#define assert_non_null(x) assert_true((x) != NULL)
#define assert_int_equal(a, b) assert_true((long long)(a) == (long long)(b))
#define assert_int_not_equal(a, b) assert_true((long long)(a) != (long long)(b))
#define assert_memory_equal(a, b, bytes) assert_true(memcmp(a, b, bytes) == 0)
#define assert_in_range(x, low, high)                                                              \
    assert_true((long long)(x) >= (long long)(low) && (long long)(x) <= (long long)(high))

static inline int _cmocka_run_group_tests(const char *name, const struct CMUnitTest *tests,
                                          size_t count, int (*setup)(void **),
                                          int (*teardown)(void **)) {
    void *group = NULL;
    (void)name;
    if (setup && setup(&group) != 0)
        return 1;
    for (size_t i = 0; i < count; i++) {
        void *state = NULL;
        tests[i].test(&state);
    }
    if (teardown && teardown(&group) != 0)
        return 1;
    printf("[  PASSED  ] %zu test(s).\n", count);
    return count == 0;
}
#endif
