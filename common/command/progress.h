/*
 * One line of progress on standard error, rewritten in place; silent when that is no terminal, so
 * logs and pipes stay clean.
 */
#ifndef TANDEM_COMMON_COMMAND_PROGRESS_H
#define TANDEM_COMMON_COMMAND_PROGRESS_H

/* Show "[done/total] text"; total 0 shows the text alone. */
void progress_show(int done, int total, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Wipe the line. Call before printing anything else. */
void progress_clear(void);

#endif
