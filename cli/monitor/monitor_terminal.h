/* A terminal that a picture is redrawn on, given back as it was. */
#ifndef TANDEM_CLI_MONITOR_MONITOR_TERMINAL_H
#define TANDEM_CLI_MONITOR_MONITOR_TERMINAL_H

/* Take the terminal: another screen, keys at once. From here on SIGINT, SIGTERM and SIGHUP only end the wait. 0, or -1 where
 * standard output is none. */
int monitor_terminal_take(void);
void monitor_terminal_give_back(void);

/* The signals alone, for output that is no terminal. */
void monitor_terminal_signals(void);

/* Rows and columns, 24 and 80 where they are not known. */
void monitor_terminal_size(int *rows, int *columns);

/* Show the text from the top, no more of it than fits. */
void monitor_terminal_show(const char *text);

/* Wait so long, or until q is pressed or a signal comes: 0 then, 1 otherwise. `keys`: whether the terminal was taken. */
int monitor_terminal_wait(int milliseconds, int keys);

#endif
