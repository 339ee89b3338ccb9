#include "bench/tune/tune_run.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "formats/output_file.h"

struct tune_file {
    const char *command;
    char path[PATH_MAX];
    char folder[PATH_MAX];
    char *text; /* the whole file, or "" if there is none */
};

static int complain(const tune_file *file, const char *what, const char *reason) {
    fprintf(stderr, "%s: %s '%s': %s\n", file->command, what, file->path, reason);
    return -1;
}

/* ---- reading --------------------------------------------------------------------------------- */

/* Reads the bytes of a file that the library has already checked. */
static char *read_text(const char *path) {
    FILE *const stream = fopen(path, "re");
    char *const text = calloc(1, TDM_TUNING_MAX_BYTES + 1);
    if (stream != NULL && text != NULL)
        text[fread(text, 1, TDM_TUNING_MAX_BYTES, stream)] = '\0';
    if (stream != NULL)
        fclose(stream);
    return text;
}

/* Reads the file again, after the library's own reader has checked it. */
static int load(tune_file *file) {
    tdm_tuning_file checked;
    const tdm_tuning_file_state state = tdm_tuning_file_read(file->path, &checked);
    if (state == TDM_TUNING_FILE_REFUSED)
        fprintf(stderr, "%s: %s\n%s: move it away, or name another file with --output\n",
                file->command, checked.message, file->command);
    tdm_tuning_file_release(&checked);
    if (state == TDM_TUNING_FILE_REFUSED)
        return -1;
    free(file->text);
    file->text = state == TDM_TUNING_FILE_READ ? read_text(file->path) : calloc(1, 1);
    return file->text == NULL ? complain(file, "cannot read", "out of memory") : 0;
}

/* Copies the next line without its newline. Returns 0 at the end. `load` refused longer lines. */
static int next_line(const char **text, char line[TDM_TUNING_LINE]) {
    if (**text == '\0')
        return 0;
    const size_t length = strcspn(*text, "\n");
    snprintf(line, TDM_TUNING_LINE, "%.*s", (int)length, *text);
    *text += length + ((*text)[length] == '\n');
    return 1;
}

/*
 * Returns 1 if the line is a row for the same device, operation, types and shape. Its choice may
 * come from another version of the library. With `only_measured`, this version must accept the row,
 * and the row must have a time.
 */
static int repeats(const char *line, const tdm_tuning_row *row, int only_measured) {
    char copy[TDM_TUNING_LINE];
    char reason[TDM_TUNING_REASON];
    tdm_tuning_row other;
    snprintf(copy, sizeof copy, "%s", line);
    const tdm_tuning_outcome outcome = tdm_tuning_row_read(copy, &other, reason);
    if (outcome == TDM_TUNING_CORRUPT || other.device == NULL ||
        (only_measured && (outcome != TDM_TUNING_OK || other.ns == 0)))
        return 0;
    return strcmp(other.device, row->device) == 0 && other.op == row->op &&
           other.quantize_a == row->quantize_a && other.allows_3xtf32 == row->allows_3xtf32 &&
           other.a == row->a && other.b == row->b && other.layout == row->layout &&
           memcmp(other.shape, row->shape, sizeof row->shape) == 0;
}

int tune_file_has(const tune_file *file, const tdm_tuning_row *row) {
    char line[TDM_TUNING_LINE];
    const char *text = file->text;
    while (next_line(&text, line)) {
        if (repeats(line, row, 1))
            return 1;
    }
    return 0;
}

/* ---- opening --------------------------------------------------------------------------------- */

/* Finds the file's folder, and creates missing folders. Failures appear on writing. */
static void make_folder(tune_file *file) {
    snprintf(file->folder, sizeof file->folder, "%s", file->path);
    for (char *slash = file->folder; (slash = strchr(slash + 1, '/')) != NULL; *slash = '/') {
        *slash = '\0';
        (void)mkdir(file->folder, 0700);
    }
    char *const last = strrchr(file->folder, '/');
    if (last == NULL)
        snprintf(file->folder, sizeof file->folder, ".");
    else
        last[last == file->folder] = '\0';
}

tune_file *tune_file_open(const char *command, const char *path) {
    tune_file *const file = calloc(1, sizeof *file);
    /* If the path is a link, it stays one, and the file that it points to is written. */
    char *const real = realpath(path, NULL);
    const char *const name = real == NULL ? path : real;
    const bool fits = file != NULL && name[0] != '\0' && strlen(name) < sizeof file->path;
    if (fits) {
        file->command = command;
        snprintf(file->path, sizeof file->path, "%s", name);
        make_folder(file);
    }
    free(real);
    if (!fits)
        fprintf(stderr, "%s: cannot use '%s' as tuning file\n", command, path);
    int status = fits ? load(file) : -1;
    if (status == 0 && access(file->folder, W_OK | X_OK) != 0)
        status = complain(file, "cannot write", strerror(errno));
    if (status == 0)
        return file;
    tune_file_close(file);
    return NULL;
}

void tune_file_close(tune_file *file) {
    if (file == NULL)
        return;
    free(file->text);
    free(file);
}

/* ---- writing --------------------------------------------------------------------------------- */

/* Returns the old text without the rows that the new row replaces, followed by the new row. */
static char *merge(const tune_file *file, const tdm_tuning_row *row) {
    static const char header[] = TDM_TUNING_HEADER;
    char line[TDM_TUNING_LINE];
    char *text = NULL;
    size_t size = 0;
    FILE *const stream = open_memstream(&text, &size);
    if (stream == NULL)
        return NULL;
    if (file->text[0] == '\0')
        fprintf(stream,
                "%s %d\n# device operation A B layout MxNxKxBATCH variant:parameters time (ns); "
                "written by tandem tune\n",
                header, TDM_TUNING_VERSION);
    const char *rest = file->text;
    while (next_line(&rest, line)) {
        if (!repeats(line, row, 0))
            fprintf(stream, "%s\n", line);
    }
    const int fits = tdm_tuning_row_write(row, line);
    fprintf(stream, "%s\n", line);
    if (fclose(stream) == 0 && fits)
        return text;
    free(text);
    return NULL;
}

int tune_file_put(tune_file *file, const tdm_tuning_row *row) {
    file_error error;
    const int folder = open(file->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (folder < 0)
        return complain(file, "cannot write", strerror(errno));
    /* Two runs on two devices must not lose each other's rows. Closing the folder unlocks it. */
    (void)flock(folder, LOCK_EX);
    int status = load(file);
    char *const text = status == 0 ? merge(file, row) : NULL;
    if (status == 0 && text == NULL)
        status = complain(file, "cannot write", "out of memory");
    if (status == 0 && strlen(text) > TDM_TUNING_MAX_BYTES)
        status = complain(file, "cannot write", "it would be larger than a tuning file may be");
    if (status == 0 && output_file_write(file->path, text, strlen(text), &error) != 0)
        status = complain(file, "cannot write", error.text);
    close(folder);
    if (status == 0) {
        free(file->text);
        file->text = text;
    } else {
        free(text);
    }
    return status;
}
