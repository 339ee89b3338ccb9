/*
 * A file that appears under its name complete or not at all: it is written beside its goal under a name of
 * this process, synchronized, and renamed at the end.
 *
 * What is unfinished is removed when the writer gives up, and when a signal ends the process: SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE,
 * SIGALRM, SIGUSR1, SIGUSR2, SIGXCPU, SIGPROF, SIGVTALRM or SIGBUS. Not thread-safe.
 */
#ifndef TANDEM_FORMATS_OUTPUT_FILE_H
#define TANDEM_FORMATS_OUTPUT_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "formats/file_error.h"

typedef struct output_file output_file;

/*
 * Begin a file. A goal that is there is replaced at the end; it must be a regular file. 0, or -1 with
 * *file NULL and the reason in *error.
 */
int output_file_create(const char *path, output_file **file, file_error *error);

/*
 * Write bytes to a place of the file; what lies before and was never written is zero. 0, or -1 with the reason:
 * then only output_file_abandon remains.
 */
int output_file_put(output_file *file, uint64_t place, const void *bytes, size_t size,
                    file_error *error);

/* Give the file its length, with zeros behind what was written. As above. */
int output_file_extend(output_file *file, uint64_t size, file_error *error);

/* Synchronize, rename, and destroy `file` either way. 0, or -1 with the reason and nothing left behind. */
int output_file_finish(output_file *file, file_error *error);

/* Remove what was written and destroy `file`. NULL is accepted. */
void output_file_abandon(output_file *file);

/* All of that with a file of these bytes. 0, or -1 with the reason and nothing left behind. */
int output_file_write(const char *path, const void *bytes, size_t size, file_error *error);

/*
 * Whether a new file may take the place of what is at `path`: nothing or a regular file of this one name, in a folder that
 * takes new files. A pipe, a device or a link has to be written into.
 */
int output_file_replaces(const char *path);

/* Whether two paths are of one file, be it there yet or not. */
int output_would_be(const char *left, const char *right);

#endif
