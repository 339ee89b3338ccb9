#include "common/command/progress.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <unistd.h>

enum {
    BAR_CELLS = 30
};

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

static void write_time_left(double seconds, char *text, size_t size) {
    if (!isfinite(seconds))
        text[0] = '\0';
    else if (seconds < 90)
        snprintf(text, size, ", about %.0f s left", fmax(1, seconds));
    else
        snprintf(text, size, ", about %.0f min left", ceil(seconds / 60));
}

void progress_bar(double share, double seconds_left, const char *text) {
    static const char full[] = "##############################";
    char left[48];
    if (!isatty(STDERR_FILENO))
        return;
    const double part = fmin(fmax(share, 0), 1); /* fmax passes over NaN */
    const int cells = (int)(part * BAR_CELLS);
    write_time_left(seconds_left, left, sizeof left);
    fprintf(stderr, "\r\033[K[%-*.*s] %3.0f %% %.30s%s", BAR_CELLS, cells, full, 100 * part, text,
            left);
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
