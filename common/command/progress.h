/*
 * One line of progress on standard error, rewritten in place; silent when that is no terminal, so
 * logs and pipes stay clean.
 */
#ifndef TANDEM_COMMON_COMMAND_PROGRESS_H
#define TANDEM_COMMON_COMMAND_PROGRESS_H

/* Show "[done/total] text"; total 0 shows the text alone. */
void progress_show(int done, int total, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/*
 * Show a bar filled to `share` (0 to 1), what is going on, and about how many seconds are left (NaN: nobody knows).
 */
void progress_bar(double share, double seconds_left, const char *text);

/* Wipe the line. Call before printing anything else. */
void progress_clear(void);

#endif
