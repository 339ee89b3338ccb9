/*
 * Tries drivers in the helper process: starts it, waits for its answer, and classifies how it
 * ended.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "backend_opencl/drivers/driver_check.h"
#include "backend_opencl/drivers/helper/driver_answer.h"

/* The linked helper program, helper/driver_helper.c, embedded as bytes. */
__asm__(".pushsection .rodata,\"a\"\n"
        ".hidden tdm_driver_helper\n"
        ".globl tdm_driver_helper\n"
        "tdm_driver_helper:\n"
        ".incbin \"" TANDEM_DRIVER_HELPER "\"\n"
        ".hidden tdm_driver_helper_end\n"
        ".globl tdm_driver_helper_end\n"
        "tdm_driver_helper_end:\n"
        ".byte 0\n"
        ".popsection\n");
extern const char tdm_driver_helper[] __attribute__((visibility("hidden")));
extern const char tdm_driver_helper_end[] __attribute__((visibility("hidden")));

/* Descriptors from here on are neither standard ones nor DRIVER_ANSWER. */
#define MIN_DESCRIPTOR 10
/* The longest wait for an ended or killed process to disappear. */
#define END_MS 2000

#ifndef MFD_EXEC
#define MFD_EXEC 0x0010U
#endif

int tdm_driver_limit_ms = 10000;

/* ---- starting -------------------------------------------------------------------------------- */

/* Moves a descriptor out of the range of the standard ones. */
static int move_up(int descriptor) {
    const int moved = descriptor < 0 ? -1 : fcntl(descriptor, F_DUPFD_CLOEXEC, MIN_DESCRIPTOR);
    if (descriptor >= 0)
        close(descriptor);
    return moved;
}

/* Returns the helper program as a file in memory, or -1. */
static int open_program(void) {
    // Linux before 6.3 rejects MFD_EXEC, and makes every such file executable.
    int file = memfd_create("tandem-driver-helper", MFD_CLOEXEC | MFD_EXEC);
    if (file < 0 && errno == EINVAL)
        file = memfd_create("tandem-driver-helper", MFD_CLOEXEC);
    file = move_up(file);
    const char *next = tdm_driver_helper;
    while (file >= 0 && next < tdm_driver_helper_end) {
        const ssize_t put = write(file, next, (size_t)(tdm_driver_helper_end - next));
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0) {
            close(file);
            return -1;
        }
        next += put;
    }
    return file;
}

/*
 * Sets up the start: a process group of its own, so that a kill also ends a driver's children, and
 * default signal handling.
 */
static bool describe_start(posix_spawn_file_actions_t *actions, posix_spawnattr_t *attributes,
                           int answer) {
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    return posix_spawn_file_actions_addopen(actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0) == 0 &&
           posix_spawn_file_actions_addopen(actions, STDOUT_FILENO, "/dev/null", O_WRONLY, 0) ==
               0 &&
           posix_spawn_file_actions_addopen(actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0) ==
               0 &&
           posix_spawn_file_actions_adddup2(actions, answer, DRIVER_ANSWER) == 0 &&
           posix_spawnattr_setsigmask(attributes, &none) == 0 &&
           posix_spawnattr_setsigdefault(attributes, &all) == 0 &&
           posix_spawnattr_setpgroup(attributes, 0) == 0 &&
           posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF |
                                                    POSIX_SPAWN_SETPGROUP) == 0;
}

/*
 * Starts the helper and returns its process, or -1. posix_spawn copies no memory and runs no fork
 * handlers.
 */
static pid_t start(const char *library, tdm_driver_depth depth, char *const *environment,
                   int program, int answer) {
    char path[64];
    snprintf(path, sizeof path, "/proc/self/fd/%d", program);
    // posix_spawn takes non-const pointers for historical reasons and does not write to them.
    char *const words[] = {(char *)"tandem-driver-helper", (char *)library,
                           (char *)(depth == TDM_DRIVER_PLATFORMS ? "platforms" : "load"), NULL};
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    if (posix_spawn_file_actions_init(&actions) != 0)
        return -1;
    if (posix_spawnattr_init(&attributes) != 0) {
        posix_spawn_file_actions_destroy(&actions);
        return -1;
    }
    pid_t process = -1;
    if (!describe_start(&actions, &attributes, answer) ||
        posix_spawn(&process, path, &actions, &attributes, words, environment) != 0)
        process = -1;
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    return process;
}

/* ---- waiting --------------------------------------------------------------------------------- */

static int64_t now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

typedef struct helper_answer {
    bool started, late;
    char letter; /* the last letter; zero: none */
} helper_answer;

static helper_answer read_answer(int pipe, int limit_ms) {
    helper_answer answer = {0};
    const int64_t deadline = now_ms() + limit_ms;
    while (!answer.letter) {
        struct pollfd input = {.fd = pipe, .events = POLLIN};
        const int64_t left = deadline - now_ms();
        answer.late = left <= 0;
        if (answer.late)
            break;
        char letter;
        if (poll(&input, 1, (int)left) <= 0)
            continue;
        const ssize_t got = read(pipe, &letter, 1);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            break;
        if (letter == DRIVER_STARTED)
            answer.started = true;
        else
            answer.letter = letter;
    }
    return answer;
}

/*
 * Waits for the process to end, but only for a limited time. Even SIGKILL may have no effect while
 * a driver call blocks in the operating system. Returns false if there is no status. The status is
 * lost if the host program ignores SIGCHLD or waits for all its children.
 */
static bool reap(pid_t process, int *status) {
    const struct timespec pause = {.tv_nsec = 500000};
    const int64_t deadline = now_ms() + END_MS;
    for (;;) {
        const pid_t ended = waitpid(process, status, WNOHANG);
        if (ended == process)
            return true;
        if ((ended < 0 && errno != EINTR) || now_ms() >= deadline)
            return false;
        nanosleep(&pause, NULL);
    }
}

/* True if the process has not ended. It is not reaped, so nobody else can get its process id. */
static bool is_running(pid_t process) {
    siginfo_t info = {0};
    return waitid(P_PID, (id_t)process, &info, WEXITED | WNOHANG | WNOWAIT) == 0 &&
           info.si_pid == 0;
}

static tdm_driver_outcome outcome_of(const helper_answer *answer, bool has_status, int status) {
    switch (answer->letter) {
    case DRIVER_FINE:
        return (tdm_driver_outcome){.kind = TDM_DRIVER_FINE};
    case DRIVER_PRINTED:
        return (tdm_driver_outcome){.kind = TDM_DRIVER_PRINTS};
    case DRIVER_CLOSED_INPUT:
    case DRIVER_CLOSED_OUTPUT:
    case DRIVER_CLOSED_ERROR:
        return (tdm_driver_outcome){.kind = TDM_DRIVER_CLOSES,
                                    .number = (uint8_t)(answer->letter - DRIVER_CLOSED_INPUT)};
    default:
        break;
    }
    if (!answer->started)
        return (tdm_driver_outcome){.kind = TDM_DRIVER_UNTRIED};
    if (answer->late)
        return (tdm_driver_outcome){.kind = TDM_DRIVER_HANG};
    if (has_status && WIFSIGNALED(status))
        return (tdm_driver_outcome){.kind = TDM_DRIVER_SIGNAL, .number = (uint8_t)WTERMSIG(status)};
    if (has_status && WIFEXITED(status))
        return (tdm_driver_outcome){.kind = TDM_DRIVER_EXIT,
                                    .number = (uint8_t)WEXITSTATUS(status)};
    return (tdm_driver_outcome){.kind = TDM_DRIVER_ENDED};
}

static tdm_driver_outcome wait_for(pid_t process, int pipe) {
    helper_answer answer = read_answer(pipe, tdm_driver_limit_ms);
    // A child of the helper, or a fork of this process, may hold the pipe open after the helper's
    // end.
    answer.late = answer.late && is_running(process);
    if (answer.late)
        kill(-process, SIGKILL);
    int status = 0;
    const bool has_status = reap(process, &status);
    return outcome_of(&answer, has_status, status);
}

/* ---- one trial ------------------------------------------------------------------------------- */

tdm_driver_outcome tdm_driver_try(const char *library, tdm_driver_depth depth,
                                  char *const *environment) {
    tdm_driver_outcome outcome = {.kind = TDM_DRIVER_UNTRIED};
    int ends[2] = {-1, -1};
    const int program = open_program();
    if (program >= 0 && pipe2(ends, O_CLOEXEC) == 0) {
        ends[0] = move_up(ends[0]);
        ends[1] = move_up(ends[1]);
    }
    if (ends[0] >= 0 && ends[1] >= 0) {
        const pid_t process = start(library, depth, environment, program, ends[1]);
        // Only the helper may keep the write end open, so that reads return when the helper ends.
        close(ends[1]);
        ends[1] = -1;
        if (process > 0)
            outcome = wait_for(process, ends[0]);
    }
    const int files[] = {program, ends[0], ends[1]};
    for (int i = 0; i < 3; i++)
        if (files[i] >= 0)
            close(files[i]);
    char text[64];
    tdm_log(TDM_LOG_DEBUG, "driver", "opencl: %s in a helper process: %s", library,
            tdm_driver_outcome_text(outcome, text, sizeof text));
    return outcome;
}

bool tdm_driver_is_usable(tdm_driver_outcome outcome) {
    return outcome.kind == TDM_DRIVER_FINE || outcome.kind == TDM_DRIVER_UNTRIED;
}

const char *tdm_driver_outcome_text(tdm_driver_outcome outcome, char *text, size_t bytes) {
    static const char *const streams[] = {"input", "output", "error"};
    switch ((tdm_driver_outcome_kind)outcome.kind) {
    case TDM_DRIVER_FINE:
        snprintf(text, bytes, "it works");
        break;
    case TDM_DRIVER_UNTRIED:
        snprintf(text, bytes, "no helper process could be started");
        break;
    case TDM_DRIVER_SIGNAL:
        snprintf(text, bytes, "it crashed (signal %d)", outcome.number);
        break;
    case TDM_DRIVER_EXIT:
        snprintf(text, bytes, "it ended the process (exit status %d)", outcome.number);
        break;
    case TDM_DRIVER_ENDED:
        snprintf(text, bytes, "it ended the process");
        break;
    case TDM_DRIVER_HANG:
        snprintf(text, bytes, "it did not return within %d s", tdm_driver_limit_ms / 1000);
        break;
    case TDM_DRIVER_PRINTS:
        snprintf(text, bytes, "it wrote to standard output");
        break;
    case TDM_DRIVER_CLOSES:
        snprintf(text, bytes, "it closed standard %s", streams[outcome.number % 3]);
        break;
    }
    return text;
}
