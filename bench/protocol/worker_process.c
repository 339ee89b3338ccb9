#include "bench/protocol/worker_process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "common/command/standard_streams.h"

extern char **environ;

/* Drivers may be slow to shut down, and memory checkers even slower. */
static const double quit_patience_s = 10;

struct worker_process {
    pid_t process; /* 0 once it has ended and was reaped */
    int requests;  /* our end of the worker's standard input */
    int replies;   /* our end of the worker's standard output */
    int output;    /* shared file, descriptor 3 of the worker */
    int messages;  /* shared file, standard error of the worker */
    int show_messages;
    off_t shown; /* bytes of `messages` repeated so far */
    void *map;   /* mapping of `output`; NULL: not mapped */
    size_t map_bytes;
    char line[WORKER_MAX_LINE];
    size_t line_length; /* bytes read so far of the current reply */
    worker_text cause;  /* reason why it ended */
    int late;           /* it ended because an answer did not come in time */
};

static double now_seconds(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

/*
 * Moves a descriptor above those that a child gets, so that none is overwritten while they are set
 * up.
 */
static int raise_descriptor(int descriptor) {
    const int raised = descriptor < 0 ? -1 : fcntl(descriptor, F_DUPFD_CLOEXEC, 10);
    if (descriptor >= 0)
        close(descriptor);
    return raised;
}

static int open_pipe(int ends[2]) {
    if (pipe2(ends, O_CLOEXEC) != 0)
        return -1;
    ends[0] = raise_descriptor(ends[0]);
    ends[1] = raise_descriptor(ends[1]);
    return ends[0] < 0 || ends[1] < 0 ? -1 : 0;
}

static void close_descriptor(int *descriptor) {
    if (*descriptor >= 0)
        close(*descriptor);
    *descriptor = -1;
}

static const char **build_arguments(const worker_launch *launch) {
    size_t count = 0;
    while (launch->arguments != NULL && launch->arguments[count] != NULL)
        count++;
    const char **const arguments = calloc(count + 2, sizeof *arguments);
    if (arguments == NULL)
        return NULL;
    arguments[0] = launch->program;
    for (size_t i = 0; i < count; i++)
        arguments[i + 1] = launch->arguments[i];
    return arguments;
}

/* Starts the program with its four descriptors. Returns an errno value. */
static int spawn(worker_process *worker, const worker_launch *launch, int input, int output) {
    const char **const arguments = build_arguments(launch);
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    if (arguments == NULL || posix_spawn_file_actions_init(&actions) != 0) {
        free(arguments);
        return ENOMEM;
    }
    /*
     * The worker gets a process group of its own, so that processes which it starts are stopped
     * with it.
     */
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
    posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&actions, worker->messages, STDERR_FILENO);
    posix_spawn_file_actions_adddup2(&actions, worker->output, WORKER_OUTPUT_DESCRIPTOR);
    /* posix_spawn takes non-const pointers for historical reasons and does not write to them. */
    const int error = posix_spawn(&worker->process, launch->program, &actions, &attributes,
                                  (char *const *)arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attributes);
    free(arguments);
    if (error != 0)
        worker->process = 0;
    return error;
}

static int connect_and_spawn(worker_process *worker, const worker_launch *launch) {
    int input[2] = {-1, -1};
    int output[2] = {-1, -1};
    int error = EMFILE;
    worker->output = raise_descriptor(memfd_create("tandem-output", MFD_CLOEXEC));
    worker->messages = raise_descriptor(memfd_create("tandem-messages", MFD_CLOEXEC));
    if (worker->output >= 0 && worker->messages >= 0 && open_pipe(input) == 0 &&
        open_pipe(output) == 0)
        error = spawn(worker, launch, input[0], output[1]);
    close_descriptor(&input[0]);
    close_descriptor(&output[1]);
    worker->requests = input[1];
    worker->replies = output[0];
    return error;
}

/* Writes the last line of the worker's standard error, or "" if there is none. */
static void last_message(const worker_process *worker, char *text, size_t size) {
    char tail[512];
    struct stat file;
    text[0] = '\0';
    if (fstat(worker->messages, &file) != 0 || file.st_size == 0)
        return;
    const off_t start =
        file.st_size > (off_t)sizeof tail - 1 ? file.st_size - (off_t)sizeof tail + 1 : 0;
    const ssize_t bytes = pread(worker->messages, tail, sizeof tail - 1, start);
    if (bytes <= 0)
        return;
    tail[bytes] = '\0';
    char *end = tail + bytes;
    while (end > tail && (end[-1] == '\n' || end[-1] == '\r'))
        *--end = '\0';
    const char *const line = strrchr(tail, '\n');
    snprintf(text, size, "%s", line == NULL ? tail : line + 1);
}

static void note_cause(worker_process *worker, int status, const char *complaint) {
    char message[512];
    last_message(worker, message, sizeof message);
    if (complaint != NULL)
        worker_text_set(&worker->cause, "%s", complaint);
    else if (WIFSIGNALED(status))
        worker_text_set(&worker->cause, "the worker died of signal %d (%s)", WTERMSIG(status),
                        strsignal(WTERMSIG(status)));
    else
        worker_text_set(&worker->cause, "the worker ended with exit code %d", WEXITSTATUS(status));
    if (message[0] != '\0')
        worker_text_add(&worker->cause, ": %s", message);
}

/*
 * Repeats the worker's messages. The worker does not get our descriptor itself, because its last
 * message becomes the cause of a failure.
 */
static void show_messages(worker_process *worker) {
    char text[4096];
    if (!worker->show_messages)
        return;
    ssize_t bytes;
    while ((bytes = pread(worker->messages, text, sizeof text, worker->shown)) > 0) {
        progress_clear();
        fwrite(text, 1, (size_t)bytes, stderr);
        worker->shown += bytes;
    }
}

/* Waits for the end of the process for at most `seconds`, then kills it. */
static int reap(worker_process *worker, double seconds) {
    int status = 0;
    const double deadline = now_seconds() + seconds;
    const struct timespec pause = {.tv_nsec = 2000000};
    while (waitpid(worker->process, &status, WNOHANG) == 0) {
        if (now_seconds() > deadline) {
            kill(-worker->process, SIGKILL);
            waitpid(worker->process, &status, 0);
            break;
        }
        nanosleep(&pause, NULL);
    }
    worker->process = 0;
    show_messages(worker);
    return status;
}

/* Stops the worker, which is unusable, and keeps the cause for every later request. */
static worker_answer give_up(worker_process *worker, const char *complaint, worker_text *reply) {
    if (worker->process != 0) {
        if (complaint != NULL)
            kill(-worker->process, SIGKILL);
        note_cause(worker, reap(worker, 1.0), complaint);
    }
    worker_text_set(reply, "%s", worker->cause.text);
    return WORKER_FAIL;
}

/* Reads one line into worker->line. Returns 0, or -1 after give_up. */
static int read_reply(worker_process *worker, double timeout_s, worker_text *reply) {
    const double deadline = now_seconds() + timeout_s;
    char complaint[80];
    worker->line_length = 0;
    for (;;) {
        struct pollfd wait = {.fd = worker->replies, .events = POLLIN};
        const double left = deadline - now_seconds();
        const int ready = left <= 0 ? 0 : poll(&wait, 1, 1 + (int)(left < 1e6 ? 1e3 * left : 1e9));
        if (ready == 0 || (ready < 0 && errno != EINTR)) {
            snprintf(complaint, sizeof complaint, "no answer within %.3g s, stopped", timeout_s);
            worker->late = 1;
            return give_up(worker, complaint, reply), -1;
        }
        const size_t room = sizeof worker->line - worker->line_length;
        const ssize_t bytes =
            ready < 0 ? 0 : read(worker->replies, worker->line + worker->line_length, room);
        if (ready > 0 && bytes <= 0)
            return give_up(worker, NULL, reply), -1;
        worker->line_length += (size_t)bytes;
        if (worker->line_length > 0 && worker->line[worker->line_length - 1] == '\n')
            break;
        if (worker->line_length == sizeof worker->line)
            return give_up(worker, "the reply exceeds the maximum line length", reply), -1;
    }
    worker->line[worker->line_length - 1] = '\0';
    show_messages(worker);
    return 0;
}

static int send_request(worker_process *worker, const char *request, worker_text *reply) {
    char line[WORKER_MAX_TEXT + 1];
    const int length = snprintf(line, sizeof line, "%s\n", request);
    if (worker->process == 0 || write(worker->requests, line, (size_t)length) != length)
        return give_up(worker, NULL, reply), -1;
    return 0;
}

/* Sends a request and parses the answer. The rest of the line stays in worker->line. */
static worker_answer ask(worker_process *worker, const char *request, double timeout_s,
                         const char **rest, worker_text *reply) {
    static const char *const words[] = {"ok", "skip", "fail"};
    if (send_request(worker, request, reply) != 0 || read_reply(worker, timeout_s, reply) != 0)
        return WORKER_FAIL;
    for (int answer = WORKER_OK; answer <= WORKER_FAIL; answer++) {
        const size_t length = strlen(words[answer]);
        if (strncmp(worker->line, words[answer], length) != 0 ||
            (worker->line[length] != ' ' && worker->line[length] != '\0'))
            continue;
        *rest = worker->line + length + (worker->line[length] == ' ');
        worker_text_set(reply, "%s", *rest);
        return (worker_answer)answer;
    }
    return give_up(worker, "the worker's reply does not follow the protocol", reply);
}

static int check_greeting(worker_process *worker, double timeout_s, worker_text *greeting) {
    if (read_reply(worker, timeout_s, greeting) != 0)
        return -1;
    if (strncmp(worker->line, "ready ", 6) != 0 ||
        worker_field_integer(worker->line, "protocol", -1) != WORKER_PROTOCOL) {
        give_up(worker, "the program is not a worker of this version", greeting);
        return -1;
    }
    worker_text_set(greeting, "%s", worker->line + 6);
    return 0;
}

worker_process *worker_start(const worker_launch *launch, double timeout_s, worker_text *greeting) {
    worker_process *const worker = calloc(1, sizeof *worker);
    if (worker == NULL) {
        worker_text_set(greeting, "out of memory");
        return NULL;
    }
    worker->requests = worker->replies = worker->output = worker->messages = -1;
    worker->show_messages = launch->show_messages;
    /* SIGPIPE must not end this process: write reports a worker that ended. */
    signal(SIGPIPE, SIG_IGN);
    const int error = connect_and_spawn(worker, launch);
    if (error != 0)
        worker_text_set(greeting, "cannot start: %s", strerror(error));
    if (error == 0 && check_greeting(worker, timeout_s, greeting) == 0)
        return worker;
    worker_stop(worker);
    return NULL;
}

worker_answer worker_describe(worker_process *worker, const char *fields, double timeout_s,
                              worker_text *reply) {
    worker_text request = {.length = 0};
    const char *rest = NULL;
    worker_text_set(&request, "describe %s", fields);
    return ask(worker, request.text, timeout_s, &rest, reply);
}

static int parse_seconds(const char *text, int64_t count, double *seconds) {
    for (int64_t i = 0; i < count; i++) {
        char *end = NULL;
        seconds[i] = strtod(text, &end);
        if (end == text || !(seconds[i] >= 0))
            return -1;
        text = end;
    }
    return text[strspn(text, " ")] == '\0' ? 0 : -1;
}

worker_answer worker_run(worker_process *worker, int64_t samples, int64_t calls, int wait_each,
                         double timeout_s, double *seconds, worker_text *reply) {
    worker_text request = {.length = 0};
    const char *rest = NULL;
    worker_text_set(&request, "run");
    worker_field_add_integer(&request, "samples", samples);
    worker_field_add_integer(&request, "calls", calls);
    worker_field_add(&request, "wait", wait_each ? "each" : "last");
    const worker_answer answer = ask(worker, request.text, timeout_s, &rest, reply);
    if (answer == WORKER_OK && parse_seconds(rest, samples, seconds) != 0)
        return give_up(worker, "the worker did not return the requested number of valid times",
                       reply);
    return answer;
}

static void unmap_output(worker_process *worker) {
    if (worker->map != NULL)
        munmap(worker->map, worker->map_bytes);
    worker->map = NULL;
}

worker_answer worker_result(worker_process *worker, double timeout_s, const void **bytes,
                            size_t *size, worker_text *reply) {
    const char *rest = NULL;
    struct stat file;
    *bytes = NULL;
    *size = 0;
    const worker_answer answer = ask(worker, "result", timeout_s, &rest, reply);
    if (answer != WORKER_OK)
        return answer;
    const int64_t length = worker_field_integer(rest, "bytes", -1);
    /*
     * A read beyond the end of the mapped file would kill this process, so the file's real size is
     * checked.
     */
    if (length < 0 || fstat(worker->output, &file) != 0 || file.st_size < length)
        return give_up(worker, "the shared file is shorter than the worker reported", reply);
    unmap_output(worker);
    if (length == 0)
        return WORKER_OK;
    void *const map = mmap(NULL, (size_t)length, PROT_READ, MAP_SHARED, worker->output, 0);
    if (map == MAP_FAILED)
        return give_up(worker, "the shared file cannot be mapped", reply);
    worker->map = map;
    worker->map_bytes = (size_t)length;
    *bytes = map;
    *size = (size_t)length;
    return WORKER_OK;
}

int worker_is_alive(const worker_process *worker) {
    return worker != NULL && worker->process != 0;
}

int worker_was_late(const worker_process *worker) {
    return worker != NULL && worker->late;
}

worker_answer worker_quit(worker_process *worker, worker_text *reply) {
    worker_text_set(reply, "%s", worker->cause.text);
    if (worker->process == 0)
        return WORKER_FAIL;
    const ssize_t sent = write(worker->requests, "quit\n", 5);
    close_descriptor(&worker->requests); /* end of input also means quit */
    const int status = reap(worker, sent == 5 ? quit_patience_s : 0.0);
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return WORKER_OK;
    note_cause(worker, status, NULL);
    worker_text_set(reply, "%s", worker->cause.text);
    return WORKER_FAIL;
}

void worker_stop(worker_process *worker) {
    worker_text ignored;
    if (worker == NULL)
        return;
    if (worker->process != 0)
        worker_quit(worker, &ignored);
    unmap_output(worker);
    close_descriptor(&worker->requests);
    close_descriptor(&worker->replies);
    close_descriptor(&worker->output);
    close_descriptor(&worker->messages);
    free(worker);
}
