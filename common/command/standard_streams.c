#include "common/command/standard_streams.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "common/command/cli_options.h"

static int line_shown;

void progress_show(int done, int total, const char *format, ...) {
    char text[160];
    if (!isatty(STDERR_FILENO))
        return;
    va_list values;
    va_start(values, format);
    vsnprintf(text, sizeof text, format, values);
    va_end(values);
    /* The text is cut at 100 columns, because a wrapped line could not be rewritten in place. */
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

void standard_descriptors_occupy(void) {
    for (int descriptor = 0; descriptor <= 2; descriptor++) {
        if (fcntl(descriptor, F_GETFD) >= 0)
            continue;
        /*
         * open() returns the lowest free number, which is this one. The wrong access mode makes
         * every use fail.
         */
        if (open("/dev/null", descriptor == 0 ? O_WRONLY : O_RDONLY) < 0)
            return;
    }
}

/*
 * Returns 1 if the reader of a pipe has gone away. errno cannot tell: other calls may have set it
 * since the failed write.
 */
static int is_reader_gone(FILE *stream) {
    struct pollfd state = {.fd = fileno(stream)};
    return poll(&state, 1, 0) > 0 && (state.revents & (POLLERR | POLLHUP)) != 0;
}

int standard_output_finish(FILE *stream, int exit_code) {
    const int lost_before = ferror(stream);
    const int flush_error = fflush(stream) == 0 ? 0 : errno;
    if ((!lost_before && flush_error == 0) || is_reader_gone(stream))
        return exit_code;
    fprintf(stderr, "tandem: cannot write standard output: %s\n",
            flush_error != 0 ? strerror(flush_error) : "a part of it was lost");
    return exit_code != CLI_EXIT_OK ? exit_code : CLI_EXIT_FAILED;
}
