/*
 * The standard streams of a command: progress on standard error, and standard output as the program's result, of which nothing may be
 * lost unnoticed.
 */
#ifndef TANDEM_COMMON_COMMAND_STANDARD_STREAMS_H
#define TANDEM_COMMON_COMMAND_STANDARD_STREAMS_H

#include <stdio.h>

/*
 * Show "[done/total] text" on one line of standard error that is rewritten in place; total 0 shows the text alone. Silent where that is
 * no terminal, so that logs and pipes stay clean.
 */
void progress_show(int done, int total, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Wipe the line. Call before printing anything else. */
void progress_clear(void);

/*
 * Occupy descriptors 0 to 2 where the caller closed them, so that no file opened later, by a driver
 * say, gets what is printed. What is printed to such a descriptor is refused by the system. To be
 * called before any file is opened.
 */
void standard_descriptors_occupy(void);

/*
 * Flush the stream and say on stderr if anything printed to it since its start was lost. Returns
 * exit_code, or CLI_EXIT_FAILED in place of CLI_EXIT_OK for a loss. A reader of a pipe who went
 * away wanted no more: that is no loss.
 */
int standard_output_finish(FILE *stream, int exit_code);

#endif
