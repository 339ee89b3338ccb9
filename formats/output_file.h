/*
 * A file that appears under its name complete or not at all. It is written next to its target under
 * a temporary name of this process, synchronized, and renamed at the end.
 *
 * An unfinished file is removed when the writer gives up, or when one of these signals ends the
 * process: SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGPIPE, SIGALRM, SIGUSR1, SIGUSR2, SIGXCPU, SIGPROF,
 * SIGVTALRM or SIGBUS. These functions are not thread-safe.
 */
#ifndef TANDEM_FORMATS_OUTPUT_FILE_H
#define TANDEM_FORMATS_OUTPUT_FILE_H

#include <stddef.h>
#include <stdint.h>

#include "formats/file_error.h"

typedef struct output_file output_file;

/*
 * Begins a file. An existing target is replaced at the end; it must be a regular file. Returns 0,
 * or -1 with *file NULL and the reason in *error.
 */
int output_file_create(const char *path, output_file **file, file_error *error);

/*
 * Writes bytes at an offset of the file. Bytes before the offset that were never written are zero.
 * Returns 0, or -1 and the reason; after that, only output_file_abandon may be called.
 */
int output_file_put(output_file *file, uint64_t place, const void *bytes, size_t size,
                    file_error *error);

/* Extends the file to its final length with zeros. Returns the same values as output_file_put. */
int output_file_extend(output_file *file, uint64_t size, file_error *error);

/*
 * Synchronizes and renames the file, and destroys `file` in either case. Returns 0, or -1 and the
 * reason; no file is then left behind.
 */
int output_file_finish(output_file *file, file_error *error);

/* Removes what was written and destroys `file`. NULL is accepted. */
void output_file_abandon(output_file *file);

/* Creates, writes and finishes a file. Returns 0, or -1 and the reason; no file is then left. */
int output_file_write(const char *path, const void *bytes, size_t size, file_error *error);

/*
 * Returns 1 if a new file can replace what is at `path`: nothing, or a regular file with a single
 * link, in a folder that is writable. A pipe, a device or a link must be written to directly.
 */
int output_file_replaces(const char *path);

/* Returns 1 if two paths name the same file, even if it does not exist yet. */
int output_would_be(const char *left, const char *right);

#endif
