/* Redrawing on a terminal with the few control sequences that every one understands. */
#include "cli/monitor/monitor_terminal.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <termios.h>
#include <time.h>
#include <unistd.h>

static struct {
    struct termios before;
    int has_keys; /* standard input is a terminal, its mode is in `before` */
} terminal;

static volatile sig_atomic_t ended;

static void end(int number) {
    (void)number;
    ended = 1;
}

/* Writing goes on after a signal, or output that a terminal is slow to take would be lost; poll() ends all the same. */
void monitor_terminal_signals(void) {
    struct sigaction action = {.sa_handler = end, .sa_flags = SA_RESTART};
    sigemptyset(&action.sa_mask);
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}

int monitor_terminal_take(void) {
    if (!isatty(STDOUT_FILENO))
        return -1;
    monitor_terminal_signals();
    terminal.has_keys = isatty(STDIN_FILENO) && tcgetattr(STDIN_FILENO, &terminal.before) == 0;
    if (terminal.has_keys) {
        struct termios keys = terminal.before;
        keys.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        keys.c_cc[VMIN] = 0;
        keys.c_cc[VTIME] = 0;
        tcsetattr(STDIN_FILENO, TCSANOW, &keys);
    }
    fputs("\033[?1049h\033[H", stdout);
    fflush(stdout);
    return 0;
}

void monitor_terminal_give_back(void) {
    fputs("\033[?1049l", stdout);
    fflush(stdout);
    if (terminal.has_keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &terminal.before);
    terminal.has_keys = 0;
}

void monitor_terminal_size(int *rows, int *columns) {
    struct winsize size = {0};
    const int known = ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0;
    *rows = known && size.ws_row > 0 ? size.ws_row : 24;
    *columns = known && size.ws_col > 0 ? size.ws_col : 80;
}

void monitor_terminal_show(const char *text) {
    int rows = 0;
    int columns = 0;
    monitor_terminal_size(&rows, &columns);
    fputs("\033[H", stdout);
    for (int row = 1; row < rows && *text != '\0'; row++) {
        const int length = (int)strcspn(text, "\n");
        printf("%.*s\033[K\n", length < columns ? length : columns, text);
        text += length + (text[length] == '\n');
    }
    fputs("\033[J", stdout);
    fflush(stdout);
}

static long long now_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

int monitor_terminal_wait(int milliseconds, int keys) {
    const long long until = now_ms() + milliseconds;
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    const int listens = keys && terminal.has_keys;
    while (!ended) {
        const long long left = until - now_ms();
        if (left <= 0)
            return 1;
        if (poll(&input, listens ? 1 : 0, (int)left) <= 0)
            continue;
        char key = 0;
        if (read(STDIN_FILENO, &key, 1) <= 0 || key == 'q' || key == 'Q')
            return 0;
    }
    return 0;
}
