#include "bench/report/report_suite.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "bench/harness/bench_runner.h"

enum {
    ADDED_WORDS = 12, /* program, device, patience, budget, file, the end */
    MAX_NUMBER_TEXT = 32,
    NOT_STARTED = 127 /* as a shell says it */
};

/*
 * Seconds for which a row of longer calls is sampled, of --patience. Less than the default: a report has some 330 rows, and
 * is to take a few minutes.
 */
static const char patience[] = "0.15";

/* What a child prints. A report of any suite has a hundredth of the bound. */
static const off_t largest_document = (off_t)1 << 28;

static void write_command(const char *const *words, char *text, size_t size) {
    size_t length = (size_t)snprintf(text, size, "tandem");
    for (const char *const *word = words + 1; *word != NULL && length < size; word++)
        length += (size_t)snprintf(text + length, size - length, " %s", *word);
}

/* The whole of a file with a NUL behind it; the caller frees it. NULL when it is empty, too large or memory is short. */
static char *read_all(int file) {
    struct stat status;
    if (fstat(file, &status) != 0 || status.st_size == 0 || status.st_size > largest_document)
        return NULL;
    char *const text = malloc((size_t)status.st_size + 1);
    const ssize_t bytes = text == NULL ? -1 : pread(file, text, (size_t)status.st_size, 0);
    if (bytes != status.st_size) {
        free(text);
        return NULL;
    }
    text[bytes] = '\0';
    return text;
}

static void keep_last_line(int file, char *line, size_t size) {
    char *const text = read_all(file);
    line[0] = '\0';
    if (text == NULL)
        return;
    char *end = text + strlen(text);
    while (end > text && (end[-1] == '\n' || end[-1] == '\r'))
        *--end = '\0';
    const char *const last = strrchr(text, '\n');
    snprintf(line, size, "%s", last == NULL ? text : last + 1);
    free(text);
}

/* Put `words` in the place of this process, which fork has just made. Nothing here but what a signal handler may call. */
static void become(const char *const *words, int output, int messages, pid_t parent) {
    const int nothing = open("/dev/null", O_RDONLY);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent && dup2(nothing, STDIN_FILENO) >= 0 &&
        dup2(output, STDOUT_FILENO) >= 0 && dup2(messages, STDERR_FILENO) >= 0) {
        if (nothing > STDERR_FILENO)
            close(nothing);
        /* execv takes non-const pointers for historical reasons and does not write to them. */
        execv("/proc/self/exe", (char *const *)words);
    }
    _exit(NOT_STARTED);
}

/* Wait for the end of a process, and stop what is far beyond its budget. *stopped says whether it was. */
static int wait_for(pid_t process, double patience_s, int *stopped) {
    int status = 0;
    int events = 1;
    struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, process, 0), .events = POLLIN};
    while (end.fd >= 0 && (events = poll(&end, 1, (int)(1000 * fmax(0, patience_s)))) < 0 &&
           errno == EINTR) {
    }
    *stopped = events == 0 && kill(process, SIGKILL) == 0;
    if (end.fd >= 0)
        close(end.fd);
    while (waitpid(process, &status, 0) < 0 && errno == EINTR) {
    }
    return status;
}

/*
 * Returns the exit code, or -1 with the reason in the message. fork, because posix_spawn cannot ask for a signal when the parent
 * dies: no suite must go on measuring for a report that was interrupted.
 */
static int run_child(const char *const *words, int output, int messages, const suite_task *task,
                     suite_outcome *outcome) {
    const double start = bench_now();
    const pid_t parent = getpid();
    const pid_t process = fork();
    int stopped = 0;
    if (process == 0)
        become(words, output, messages, parent);
    if (process < 0) {
        snprintf(outcome->message, sizeof outcome->message, "cannot start: %s", strerror(errno));
        return -1;
    }
    const int status = wait_for(process, task->budget_s + task->grace_s, &stopped);
    keep_last_line(messages, outcome->message, sizeof outcome->message);
    if (WIFEXITED(status))
        return WEXITSTATUS(status);
    if (stopped)
        snprintf(outcome->message, sizeof outcome->message,
                 "stopped: it had %.0f s and did not end in %.0f", task->budget_s,
                 bench_now() - start);
    else
        snprintf(outcome->message, sizeof outcome->message, "died of signal %d (%s)",
                 WTERMSIG(status), strsignal(WTERMSIG(status)));
    return -1;
}

static cJSON *parse_document(int output) {
    char *const text = read_all(output);
    cJSON *const document = text == NULL ? NULL : cJSON_Parse(text);
    free(text);
    return document;
}

void report_suite_run(const report_suite *suite, const suite_task *task, suite_outcome *outcome) {
    const char *words[REPORT_MAX_WORDS + ADDED_WORDS] = {"tandem"};
    const char *const *const given = task->quick ? suite->quick : suite->words;
    char index[MAX_NUMBER_TEXT];
    char budget[MAX_NUMBER_TEXT];
    size_t count = 1;
    const double start = bench_now();
    *outcome = (suite_outcome){.exit_code = -1};
    for (size_t i = 0; i < REPORT_MAX_WORDS && given[i] != NULL; i++)
        words[count++] = given[i];
    snprintf(index, sizeof index, "%d", task->device);
    snprintf(budget, sizeof budget, "%.3f", task->budget_s);
    words[count++] = "--device";
    words[count++] = index;
    if (!task->quick) {
        words[count++] = "--patience";
        words[count++] = patience;
    }
    write_command(words, outcome->command, sizeof outcome->command);
    words[count++] = "--seconds";
    words[count++] = budget;
    words[count++] = "--json";
    words[count] = "-";
    const int output = memfd_create("tandem-results", MFD_CLOEXEC);
    const int messages = memfd_create("tandem-messages", MFD_CLOEXEC);
    if (output >= 0 && messages >= 0) {
        outcome->exit_code = run_child(words, output, messages, task, outcome);
        outcome->document = parse_document(output);
        if (outcome->document == NULL && outcome->exit_code == 0) {
            outcome->exit_code = -1;
            snprintf(outcome->message, sizeof outcome->message, "it printed no results");
        }
    } else {
        snprintf(outcome->message, sizeof outcome->message, "no file in memory: %s",
                 strerror(errno));
    }
    if (output >= 0)
        close(output);
    if (messages >= 0)
        close(messages);
    outcome->seconds = bench_now() - start;
}

void report_suite_release(suite_outcome *outcome) {
    cJSON_Delete(outcome->document);
    outcome->document = NULL;
}
