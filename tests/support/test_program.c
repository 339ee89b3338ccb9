#include "tests/support/test_program.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/unit.h"

enum {
    MAX_WORDS = 64,
    MAX_ARGUMENTS_TEXT = 4096,
    MAX_TIME_FACTOR = 1000
};

static void become(const char *program, char *words, const char *const *variables, int output,
                   int errors) {
    char *arguments[MAX_WORDS + 2] = {(char *)program};
    int count = 1;
    char *rest = NULL;
    for (char *word = strtok_r(words, " ", &rest); word != NULL && count <= MAX_WORDS;
         word = strtok_r(NULL, " ", &rest))
        arguments[count++] = word;
    for (; variables != NULL && *variables != NULL; variables++)
        putenv((char *)*variables);
    if (freopen("/dev/null", "r", stdin) == NULL || dup2(errors, STDERR_FILENO) < 0)
        _exit(126);
    if ((output < 0 ? close(STDOUT_FILENO) : dup2(output, STDOUT_FILENO)) < 0)
        _exit(126);
    execv(program, arguments);
    _exit(127);
}

int test_time_factor(void) {
    const char *const text = getenv("TANDEM_TEST_TIME_FACTOR");
    const long factor = text != NULL ? strtol(text, NULL, 10) : 1;
    return factor < 1 ? 1 : factor > MAX_TIME_FACTOR ? MAX_TIME_FACTOR : (int)factor;
}

/* Returns the exit code; -1 after a signal or a timeout. */
static int wait_for(pid_t process, int seconds) {
    const struct timespec pause = {.tv_nsec = 5000000};
    const time_t deadline = time(NULL) + (time_t)seconds * test_time_factor() + 1;
    int status = 0;
    while (waitpid(process, &status, WNOHANG) == 0) {
        if (time(NULL) >= deadline) {
            kill(process, SIGKILL);
            waitpid(process, &status, 0);
            return -1;
        }
        nanosleep(&pause, NULL);
    }
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* Reads a whole file into memory and closes it. Returns "" for no file. */
static char *read_all(int descriptor) {
    if (descriptor < 0)
        return calloc(1, 1);
    const off_t size = lseek(descriptor, 0, SEEK_END);
    assert_true(size >= 0);
    char *const text = malloc((size_t)size + 1);
    assert_non_null(text);
    assert_int_equal(pread(descriptor, text, (size_t)size, 0), size);
    text[size] = '\0';
    close(descriptor);
    return text;
}

/* `output` is -1 for a closed standard output. The output's content is not read here. */
static test_program_result run_with(int output, const char *program, const char *arguments,
                                    const char *const *variables, int seconds) {
    char words[MAX_ARGUMENTS_TEXT];
    test_program_result result = {.output = NULL};
    const int errors = memfd_create("errors", MFD_CLOEXEC);
    assert_true(errors >= 0);
    assert_true(snprintf(words, sizeof words, "%s", arguments) < (int)sizeof words);
    fflush(NULL);
    const pid_t process = fork();
    assert_true(process >= 0);
    if (process == 0)
        become(program, words, variables, output, errors);
    result.exit_code = wait_for(process, seconds);
    result.errors = read_all(errors);
    assert_int_not_equal(result.exit_code, 127);
    return result;
}

test_program_result test_program_run(const char *program, const char *arguments,
                                     const char *const *variables, int seconds) {
    const int output = memfd_create("output", MFD_CLOEXEC);
    assert_true(output >= 0);
    test_program_result result = run_with(output, program, arguments, variables, seconds);
    result.output = read_all(output);
    return result;
}

test_program_result test_program_run_into(const char *output, const char *program,
                                          const char *arguments, const char *const *variables,
                                          int seconds) {
    const int descriptor = output == NULL ? -1 : open(output, O_WRONLY | O_CLOEXEC);
    assert_true(output == NULL || descriptor >= 0);
    test_program_result result = run_with(descriptor, program, arguments, variables, seconds);
    result.output = read_all(-1);
    if (descriptor >= 0)
        close(descriptor);
    return result;
}

void test_program_release(test_program_result *result) {
    free(result->output);
    free(result->errors);
}
