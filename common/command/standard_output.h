/* Standard output as the program's result: what did not get through must not look like success. */
#ifndef TANDEM_COMMON_COMMAND_STANDARD_OUTPUT_H
#define TANDEM_COMMON_COMMAND_STANDARD_OUTPUT_H

#include <stdio.h>

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
