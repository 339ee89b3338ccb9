/*
 * The standard streams of a command. Standard error shows progress. Standard output is the
 * program's result, so a lost write must not go unnoticed.
 */
#ifndef TANDEM_COMMON_COMMAND_STANDARD_STREAMS_H
#define TANDEM_COMMON_COMMAND_STANDARD_STREAMS_H

#include <stdio.h>

/*
 * Shows "[done/total] text" on one line of standard error that is rewritten in place. A total of 0
 * shows only the text. Prints nothing if standard error is not a terminal, so that logs and pipes
 * stay clean.
 */
void progress_show(int done, int total, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Clears the line. Call it before printing anything else. */
void progress_clear(void);

/*
 * Opens descriptors 0 to 2 if the caller closed them. Otherwise a file that is opened later, for
 * example by a driver, would receive what is printed. Printing to such a descriptor fails. Call
 * this before any file is opened.
 */
void standard_descriptors_occupy(void);

/*
 * Flushes the stream, and prints on stderr if any output since the start was lost. Returns
 * exit_code, or CLI_EXIT_FAILED in place of CLI_EXIT_OK if output was lost. If the reader of a pipe
 * has gone away, that is not a loss.
 */
int standard_output_finish(FILE *stream, int exit_code);

#endif
