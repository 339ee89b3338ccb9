/* Runs a program as a user would and keeps its output. Also defines how long tests wait for one. */
#ifndef TANDEM_TESTS_SUPPORT_TEST_PROGRAM_H
#define TANDEM_TESTS_SUPPORT_TEST_PROGRAM_H

typedef struct test_program_result {
    int exit_code; /* -1: it died of a signal or timed out */
    char *output;  /* standard output; never NULL */
    char *errors;  /* standard error; never NULL */
} test_program_result;

/*
 * Returns the factor, at least 1, by which tests extend their time limits over those of a quiet
 * machine. It is measured by tests/set_time_limits.cmake, or set by the variable
 * TANDEM_TEST_TIME_FACTOR.
 */
int test_time_factor(void);

/*
 * Runs `program` with the blank-separated words of `arguments` and empty standard input.
 * `variables` is a NULL-terminated list of "NAME=value" strings added to the environment, or NULL.
 * The program is killed after `seconds` times test_time_factor(). Fails the running case if it
 * cannot be started.
 */
test_program_result test_program_run(const char *program, const char *arguments,
                                     const char *const *variables, int seconds);

/*
 * Like test_program_run, with standard output written to the file `output`, or closed if `output`
 * is NULL. Then result.output is empty.
 */
test_program_result test_program_run_into(const char *output, const char *program,
                                          const char *arguments, const char *const *variables,
                                          int seconds);

void test_program_release(test_program_result *result);

#endif
