/* Runs a program as a user would and keeps what came out; how long tests wait for one. */
#ifndef TANDEM_TESTS_SUPPORT_TEST_PROGRAM_H
#define TANDEM_TESTS_SUPPORT_TEST_PROGRAM_H

typedef struct test_program_result {
    int exit_code; /* -1: it died of a signal or did not end in time */
    char *output;  /* standard output; never NULL */
    char *errors;  /* standard error; never NULL */
} test_program_result;

/*
 * How many times longer than on a quiet machine something may take before a test gives it up: at least 1. It is what
 * tests/set_time_limits.cmake has measured, or the variable TANDEM_TEST_TIME_FACTOR.
 */
int test_time_factor(void);

/*
 * Run `program` with the blank-separated words of `arguments`, standard input empty. `variables`
 * are "NAME=value" texts set on top of the environment, NULL-terminated, or NULL. It is killed
 * after `seconds` times test_time_factor(). Fails the running case if it cannot be started.
 */
test_program_result test_program_run(const char *program, const char *arguments,
                                     const char *const *variables, int seconds);

/*
 * The same with standard output going to the file `output`, or closed where that is NULL; then
 * result.output is empty.
 */
test_program_result test_program_run_into(const char *output, const char *program,
                                          const char *arguments, const char *const *variables,
                                          int seconds);

void test_program_release(test_program_result *result);

#endif
