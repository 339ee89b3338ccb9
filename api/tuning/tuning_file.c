/* These functions find the user's tuning file, check its permissions and read its lines. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/tuning/tuning.h"

/* ---- path ------------------------------------------------------------------------------------ */

char *tdm_tuning_path(bool *named) {
    const char *const own = tdm_environment("TANDEM_TUNING_FILE", true);
    *named = own && *own;
    return tdm_user_path("TANDEM_TUNING_FILE", "XDG_CONFIG_HOME", "/.config", "/tandem/tuning.txt");
}

/* ---- content --------------------------------------------------------------------------------- */

/* Returns why a file is not trusted, or NULL. Rows of another user could make this user's programs
 * slow. A file of root is trusted. */
static const char *distrust(const struct stat *status) {
    if (!S_ISREG(status->st_mode))
        return "not a regular file";
    if (status->st_uid != geteuid() && status->st_uid != 0)
        return "the file belongs to another user";
    if (status->st_mode & (S_IWGRP | S_IWOTH))
        return "other users may write to the file";
    if (status->st_size > TDM_TUNING_MAX_BYTES)
        return "the file is larger than 1 MiB";
    return NULL;
}

/* Reads up to `room` bytes. Returns their number, or -1. */
static ssize_t read_bytes(int descriptor, char *bytes, size_t room) {
    size_t used = 0;
    while (used < room) {
        const ssize_t got = read(descriptor, bytes + used, room - used);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return -1;
        if (got == 0)
            break;
        used += (size_t)got;
    }
    return (ssize_t)used;
}

static tdm_tuning_file_state refuse(tdm_tuning_file *file, const char *path, const char *reason) {
    snprintf(file->message, sizeof file->message, "%.200s: %s", path, reason);
    return TDM_TUNING_FILE_REFUSED;
}

/* Reads the whole file into file->text, followed by a zero. One byte more than the size is read, to
 * detect a file that grew. */
static tdm_tuning_file_state load(const char *path, int descriptor, tdm_tuning_file *file,
                                  size_t *bytes) {
    struct stat status;
    if (fstat(descriptor, &status) != 0)
        return refuse(file, path, strerror(errno));
    const char *const reason = distrust(&status);
    if (reason)
        return refuse(file, path, reason);
    const size_t room = (size_t)status.st_size + 1;
    file->text = tdm_host_alloc(room + 1);
    if (!file->text)
        return refuse(file, path, "no host memory");
    const ssize_t got = read_bytes(descriptor, file->text, room);
    if (got < 0)
        return refuse(file, path, strerror(errno));
    if ((size_t)got == room)
        return refuse(file, path, "the file changed while it was read");
    file->text[got] = '\0';
    *bytes = (size_t)got;
    return TDM_TUNING_FILE_READ;
}

/* ---- lines ----------------------------------------------------------------------------------- */

static tdm_tuning_file_state refuse_line(tdm_tuning_file *file, const char *path, int line,
                                         const char *reason) {
    snprintf(file->message, sizeof file->message, "%.200s: line %d: %s", path, line, reason);
    return TDM_TUNING_FILE_REFUSED;
}

static const char *bad_bytes(const char *line, size_t length) {
    if (length >= TDM_TUNING_LINE)
        return "the line is too long";
    for (size_t i = 0; i < length; i++)
        if ((unsigned char)line[i] < ' ' || line[i] == 127)
            return "the line contains a control character";
    return NULL;
}

static const char *bad_header(const char *line) {
    static const char word[] = TDM_TUNING_HEADER " ";
    char version[16];
    snprintf(version, sizeof version, "%d", TDM_TUNING_VERSION);
    if (strncmp(line, word, sizeof word - 1) != 0)
        return "the first line is not '" TDM_TUNING_HEADER " <version>'";
    if (strcmp(line + sizeof word - 1, version) != 0)
        return "the file has a format version that this library does not read; run tandem tune "
               "again";
    return NULL;
}

/* Allocates as many rows as the text has lines, but at most TDM_TUNING_MAX_ROWS. */
static tdm_tuning_row *allocate_rows(const char *text, size_t bytes) {
    size_t lines = 1;
    for (const char *c = text; (c = memchr(c, '\n', (size_t)(text + bytes - c))) != NULL; c++)
        lines++;
    return tdm_host_calloc(lines < TDM_TUNING_MAX_ROWS ? lines : TDM_TUNING_MAX_ROWS,
                           sizeof(tdm_tuning_row));
}

static tdm_tuning_file_state take_row(tdm_tuning_file *file, const char *path, char *text,
                                      int line) {
    char reason[TDM_TUNING_REASON];
    tdm_tuning_row row;
    switch (tdm_tuning_row_read(text, &row, reason)) {
    case TDM_TUNING_CORRUPT:
        return refuse_line(file, path, line, reason);
    case TDM_TUNING_STALE:
        if (file->stale++ == 0)
            refuse_line(file, path, line, reason);
        return TDM_TUNING_FILE_READ;
    case TDM_TUNING_OK:
        break;
    }
    if (!row.device)
        return TDM_TUNING_FILE_READ;
    if (file->count == TDM_TUNING_MAX_ROWS)
        return refuse_line(file, path, line, "the file has too many rows");
    row.line = line;
    file->rows[file->count++] = row;
    return TDM_TUNING_FILE_READ;
}

static tdm_tuning_file_state read_lines(tdm_tuning_file *file, const char *path, size_t bytes) {
    if (memchr(file->text, '\0', bytes))
        return refuse(file, path, "the file contains zero bytes, it is not text");
    file->rows = allocate_rows(file->text, bytes);
    if (!file->rows)
        return refuse(file, path, "no host memory");
    const char *const end = file->text + bytes;
    int number = 0;
    for (char *line = file->text, *next; line; line = next) {
        next = memchr(line, '\n', (size_t)(end - line));
        const size_t length = (size_t)((next ? next : end) - line);
        if (next)
            *next++ = '\0';
        const char *reason = bad_bytes(line, length);
        if (++number == 1 && !reason)
            reason = bad_header(line);
        if (reason)
            return refuse_line(file, path, number, reason);
        const tdm_tuning_file_state state =
            number == 1 ? TDM_TUNING_FILE_READ : take_row(file, path, line, number);
        if (state != TDM_TUNING_FILE_READ)
            return state;
    }
    return TDM_TUNING_FILE_READ;
}

tdm_tuning_file_state tdm_tuning_file_read(const char *path, tdm_tuning_file *file) {
    *file = (tdm_tuning_file){.text = NULL};
    if (path[0] == '\0')
        return TDM_TUNING_FILE_ABSENT;
    // Without O_NONBLOCK, opening a FIFO would wait for a writer. Opening a device could have any
    // effect.
    const int descriptor = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0)
        return errno == ENOENT || errno == ENOTDIR ? TDM_TUNING_FILE_ABSENT
                                                   : refuse(file, path, strerror(errno));
    size_t bytes = 0;
    tdm_tuning_file_state state = load(path, descriptor, file, &bytes);
    close(descriptor);
    if (state == TDM_TUNING_FILE_READ)
        state = read_lines(file, path, bytes);
    if (state != TDM_TUNING_FILE_READ) {
        tdm_host_free(file->text);
        tdm_host_free(file->rows);
        file->text = NULL;
        file->rows = NULL;
        file->count = 0;
    }
    return state;
}

void tdm_tuning_file_release(tdm_tuning_file *file) {
    tdm_host_free(file->text);
    tdm_host_free(file->rows);
    *file = (tdm_tuning_file){.text = NULL};
}
