/* Runs a program as a user would and keeps what came out. */
#ifndef TANDEM_TESTS_TEST_PROGRAM_H
#define TANDEM_TESTS_TEST_PROGRAM_H

typedef struct test_program_result {
    int exit_code; /* -1: it died of a signal or did not end in time */
    char *output;  /* standard output; never NULL */
    char *errors;  /* standard error; never NULL */
} test_program_result;

/*
 * Run `program` with the blank-separated words of `arguments`, standard input empty. `variables`
 * are "NAME=value" texts set on top of the environment, NULL-terminated, or NULL. It is killed
 * after `seconds`. Fails the running case if it cannot be started.
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
