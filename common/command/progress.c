#include "common/command/progress.h"

#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

static int line_shown;

void progress_show(int done, int total, const char *format, ...) {
    char text[160];
    if (!isatty(STDERR_FILENO))
        return;
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    /* Cut at 100 columns: a wrapped line could not be rewritten in place. */
    if (total > 0)
        fprintf(stderr, "\r\033[K[%d/%d] %.88s", done, total, text);
    else
        fprintf(stderr, "\r\033[K%.100s", text);
    fflush(stderr);
    line_shown = 1;
}

void progress_clear(void) {
    if (!line_shown)
        return;
    fputs("\r\033[K", stderr);
    fflush(stderr);
    line_shown = 0;
}
