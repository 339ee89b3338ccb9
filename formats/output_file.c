#include "formats/output_file.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    NAME_ROOM = 48, /* for the suffix of the temporary name */
    MAX_NAMES = 1000
};

struct output_file {
    int descriptor;
    char *path;
    char *temporary;
    output_file *_Atomic next; /* the next unfinished file */
};

/* ---- signals ---- */

/*
 * These signals end a process and come from outside or from a limit. SIGBUS is raised if another
 * process truncates a mapped input.
 */
static const int guarded_signals[] = {SIGHUP,  SIGINT,  SIGQUIT, SIGTERM, SIGPIPE,   SIGALRM,
                                      SIGUSR1, SIGUSR2, SIGXCPU, SIGPROF, SIGVTALRM, SIGBUS};

enum {
    GUARDED_SIGNALS = sizeof guarded_signals / sizeof *guarded_signals
};

/* The list of unfinished files. The signal handler reads it. */
static output_file *_Atomic unfinished;
static atomic_int is_ending;
static struct sigaction former_actions[GUARDED_SIGNALS];
static struct sigaction former_size_action;

/*
 * Removes the unfinished files. The signal is then raised again, so that it ends the process as it
 * otherwise would. The default action of a signal does not end the first process of a container.
 * That process then exits with the status that a shell would give. Other threads that fault at the
 * same time wait here, so that they do not end the process before the files are removed. This
 * happens when an input that several threads read is truncated.
 */
static void remove_unfinished(int number) {
    sigset_t raised;
    while (atomic_exchange(&is_ending, 1) != 0)
        pause();
    for (const output_file *file = unfinished; file != NULL; file = file->next)
        unlink(file->temporary);
    signal(number, SIG_DFL);
    sigemptyset(&raised);
    sigaddset(&raised, number);
    pthread_sigmask(SIG_UNBLOCK, &raised, NULL);
    raise(number);
    _exit(128 + number);
}

/*
 * Returns 1 if the handler is installed for a signal. Signals that are ignored (as under nohup) or
 * have other handlers keep their action. SIGBUS loses an earlier handler.
 */
static int is_guarded(int number, const struct sigaction *former) {
    return former->sa_handler != SIG_IGN && (former->sa_handler == SIG_DFL || number == SIGBUS);
}

/* SIGXFSZ is ignored, so that exceeding the file-size limit becomes a write error. */
static void guard_process(void) {
    struct sigaction action = {.sa_handler = remove_unfinished};
    const struct sigaction ignore = {.sa_handler = SIG_IGN};
    /* A second signal in the same thread is blocked: it would wait for the first forever. */
    sigfillset(&action.sa_mask);
    sigaction(SIGXFSZ, &ignore, &former_size_action);
    for (int i = 0; i < GUARDED_SIGNALS; i++) {
        sigaction(guarded_signals[i], NULL, &former_actions[i]);
        if (is_guarded(guarded_signals[i], &former_actions[i]))
            sigaction(guarded_signals[i], &action, NULL);
    }
}

static void unguard_process(void) {
    for (int i = 0; i < GUARDED_SIGNALS; i++)
        sigaction(guarded_signals[i], &former_actions[i], NULL);
    sigaction(SIGXFSZ, &former_size_action, NULL);
}

static void guard(output_file *file) {
    if (unfinished == NULL)
        guard_process();
    file->next = unfinished;
    unfinished = file;
}

/*
 * Removes a file from the list. If another thread is in the handler, which reads the list, this
 * thread waits until the process ends.
 */
static void unguard(output_file *file) {
    output_file *_Atomic *place = &unfinished;
    while (*place != NULL && *place != file)
        place = &(*place)->next;
    if (*place == NULL)
        return;
    *place = file->next;
    while (is_ending)
        pause();
    if (unfinished == NULL)
        unguard_process();
}

/* ---- the file ---- */

static void destroy(output_file *file) {
    unguard(file);
    if (file->descriptor >= 0)
        close(file->descriptor);
    free(file->temporary);
    free(file->path);
    free(file);
}

/*
 * Refuses a target that is not a regular file, because rename() would replace a device or a pipe.
 */
static int check_goal(const char *path, file_error *error) {
    struct stat status;
    if (path[0] == '\0')
        return file_fail(error, "the name of the output file is empty");
    if (stat(path, &status) != 0)
        return errno == ENOENT
                   ? 0
                   : file_fail(error, "%s cannot be written: %s", path, strerror(errno));
    if (!S_ISREG(status.st_mode))
        return file_fail(error, "%s cannot be written: it is %s", path,
                         S_ISDIR(status.st_mode) ? "a directory" : "not a regular file");
    return 0;
}

static output_file *make(const char *path) {
    output_file *const file = calloc(1, sizeof *file);
    if (file == NULL)
        return NULL;
    file->descriptor = -1;
    file->path = strdup(path);
    file->temporary = malloc(strlen(path) + NAME_ROOM);
    if (file->path != NULL && file->temporary != NULL)
        return file;
    destroy(file);
    return NULL;
}

/*
 * Creates a file next to the target. A killed process with the same process id may have left one.
 */
static int open_temporary(output_file *file) {
    const size_t size = strlen(file->path) + NAME_ROOM;
    for (int i = 0; i < MAX_NAMES; i++) {
        char number[16] = "";
        if (i > 0)
            snprintf(number, sizeof number, "-%d", i);
        snprintf(file->temporary, size, "%s.%ld%s.partial", file->path, (long)getpid(), number);
        file->descriptor = open(file->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
        if (file->descriptor >= 0 || errno != EEXIST)
            break;
    }
    return file->descriptor >= 0 ? 0 : -1;
}

/*
 * Signals are blocked until the new file is guarded. If it were guarded before it exists, another
 * process's file might be removed.
 */
static int begin(output_file *file) {
    sigset_t all;
    sigset_t former;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &former);
    const int result = open_temporary(file);
    const int reason = errno;
    if (result == 0)
        guard(file);
    pthread_sigmask(SIG_SETMASK, &former, NULL);
    errno = reason;
    return result;
}

int output_file_create(const char *path, output_file **file, file_error *error) {
    *file = NULL;
    if (check_goal(path, error) != 0)
        return -1;
    output_file *const made = make(path);
    if (made == NULL)
        return file_fail(error, "out of memory");
    if (begin(made) != 0) {
        file_error_set(error, "%s cannot be created: %s", made->temporary, strerror(errno));
        destroy(made);
        return -1;
    }
    *file = made;
    return 0;
}

int output_file_put(output_file *file, uint64_t place, const void *bytes, size_t size,
                    file_error *error) {
    const char *next = bytes;
    while (size > 0) {
        const ssize_t written = pwrite(file->descriptor, next, size, (off_t)place);
        if (written < 0 && errno == EINTR)
            continue;
        if (written <= 0)
            return file_fail(error, "%s cannot be written: %s", file->path,
                             written < 0 ? strerror(errno) : "no more bytes are accepted");
        next += written;
        size -= (size_t)written;
        place += (uint64_t)written;
    }
    return 0;
}

int output_file_extend(output_file *file, uint64_t size, file_error *error) {
    if (ftruncate(file->descriptor, (off_t)size) != 0)
        return file_fail(error, "%s cannot be written: %s", file->path, strerror(errno));
    return 0;
}

static int settle(output_file *file, file_error *error) {
    const int unsynchronized = fsync(file->descriptor);
    const int sync_error = errno;
    const int unclosed = close(file->descriptor);
    const int reason = unsynchronized != 0 ? sync_error : unclosed != 0 ? errno : 0;
    file->descriptor = -1;
    return reason == 0 ? 0
                       : file_fail(error, "%s cannot be written: %s", file->path, strerror(reason));
}

int output_file_finish(output_file *file, file_error *error) {
    int result = settle(file, error);
    if (result == 0 && rename(file->temporary, file->path) != 0)
        result = file_fail(error, "%s cannot be written: %s", file->path, strerror(errno));
    if (result != 0)
        unlink(file->temporary);
    destroy(file);
    return result;
}

void output_file_abandon(output_file *file) {
    if (file == NULL)
        return;
    unlink(file->temporary);
    destroy(file);
}

int output_file_write(const char *path, const void *bytes, size_t size, file_error *error) {
    output_file *file = NULL;
    if (output_file_create(path, &file, error) != 0)
        return -1;
    if (output_file_put(file, 0, bytes, size, error) == 0)
        return output_file_finish(file, error);
    output_file_abandon(file);
    return -1;
}

int output_file_replaces(const char *path) {
    struct stat status;
    char folder[PATH_MAX];
    const char *const slash = strrchr(path, '/');
    const size_t length = slash == NULL ? 0 : (size_t)(slash - path);
    if (lstat(path, &status) != 0 ? errno != ENOENT
                                  : !S_ISREG(status.st_mode) || status.st_nlink != 1)
        return 0;
    if (length >= sizeof folder)
        return 0;
    snprintf(folder, sizeof folder, "%.*s%s", (int)length, path,
             length > 0      ? ""
             : slash == NULL ? "."
                             : "/");
    return access(folder, W_OK | X_OK) == 0;
}

/* ---- comparing paths ------------------------------------------------------------------------- */

/* Returns the last part of a path, or NULL if its folder does not exist. */
static const char *place_of(const char *path, struct stat *folder) {
    const char *const slash = strrchr(path, '/');
    char *const text = slash == NULL ? strdup(".") : strndup(path, (size_t)(slash - path) + 1);
    const int known = text != NULL && stat(text, folder) == 0;
    free(text);
    if (!known)
        return NULL;
    return slash == NULL ? path : slash + 1;
}

static int is_one(const struct stat *left, const struct stat *right) {
    return left->st_dev == right->st_dev && left->st_ino == right->st_ino;
}

int output_would_be(const char *left, const char *right) {
    struct stat a;
    struct stat b;
    if (stat(left, &a) == 0 && stat(right, &b) == 0)
        return is_one(&a, &b);
    const char *const one = place_of(left, &a);
    const char *const other = place_of(right, &b);
    return one != NULL && other != NULL && strcmp(one, other) == 0 && is_one(&a, &b);
}
