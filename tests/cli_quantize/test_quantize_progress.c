// ctest: threads
/* The bar that `tandem quantize` draws on a terminal, and on nothing else. */
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/support/quant/test_checkpoint.h"
#include "tests/support/test_program.h"

enum {
    PATIENCE_MS = 60000,
    TENSORS = 600,
    BAR_CELLS = 30
};

static const char program[] = TANDEM_BINARY_DIR "/bin/tandem";
static const char wipe[] = "\r\033[K";

static double now_s(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* All that the terminal is sent until the other end is closed. */
static size_t read_terminal(int master, char *seen, size_t bytes) {
    size_t used = 0;
    while (used + 1 < bytes) {
        struct pollfd output = {.fd = master, .events = POLLIN};
        assert_int_equal(poll(&output, 1, PATIENCE_MS * test_time_factor()), 1);
        const ssize_t count = read(master, seen + used, bytes - 1 - used);
        if (count <= 0)
            break;
        used += (size_t)count;
    }
    seen[used] = '\0';
    return used;
}

/* The command with its errors on a terminal of their own; what came there is in `seen`. The seconds that it took. */
static double run_on_terminal(const char *output, char *seen, size_t bytes) {
    const int master = posix_openpt(O_RDWR | O_NOCTTY);
    assert_true(master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0);
    const int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
    assert_true(slave >= 0);
    const double begun = now_s();
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        const int null = open("/dev/null", O_WRONLY);
        dup2(null, STDOUT_FILENO);
        dup2(slave, STDERR_FILENO);
        close(slave);
        close(master);
        execl(program, program, "quantize", "in.safetensors", output, "--scheme", "s8-channel",
              (char *)NULL);
        _exit(127);
    }
    close(slave);
    const size_t used = read_terminal(master, seen, bytes);
    int status = 0;
    assert_int_equal(waitpid(child, &status, 0), child);
    close(master);
    assert_true(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    assert_true(used + 1 < bytes);
    return now_s() - begun;
}

/* Cells that are full of the bar that begins here, or -1 where none does. */
static int cells_of(const char *text) {
    if (text[0] != '[')
        return -1;
    const int full = (int)strspn(text + 1, "#");
    const int blank = (int)strspn(text + 1 + full, " ");
    return full + blank == BAR_CELLS && text[1 + BAR_CELLS] == ']' ? full : -1;
}

/* How many bars there are; each is at least as full as the one before, as its percents say. */
static int count_bars(const char *seen) {
    int bars = 0, before = 0;
    for (const char *at = strstr(seen, wipe); at != NULL; at = strstr(at, wipe)) {
        at += strlen(wipe);
        const int cells = cells_of(at);
        if (cells < 0)
            continue;
        const long percent = strtol(at + BAR_CELLS + 2, NULL, 10);
        assert_in_range(cells, before, BAR_CELLS);
        assert_in_range(percent, 100 * cells / BAR_CELLS, 100 * (cells + 1) / BAR_CELLS + 1);
        before = cells;
        bars++;
    }
    return bars;
}

static void write_tensors(void) {
    static char names[TENSORS][64];
    safetensors_tensor tensors[TENSORS];
    safetensors_tensor weight = test_tensor_make("w", SAFETENSORS_F32, 1, 32, 64, 0);
    for (int i = 0; i < TENSORS; i++) {
        snprintf(names[i], sizeof names[i], "a.model.of.many.layers.one.of.them.is.%d.weight", i);
        tensors[i] = weight;
        tensors[i].name = names[i];
    }
    test_checkpoint_write("in.safetensors", tensors, TENSORS);
    test_tensor_release(&weight);
}

/* Thousands of pieces, but ten bars a second at most. */
static void a_terminal_has_a_bar(void **state) {
    (void)state;
    static char seen[1 << 20];
    write_tensors();
    const double taken = run_on_terminal("out.safetensors", seen, sizeof seen);
    const int bars = count_bars(seen);
    assert_in_range(bars, 1, (int)(10 * taken) + 2);
    assert_non_null(strstr(seen, "ayers.one.of.them.is.0.weight"));
    assert_non_null(strstr(seen, "writing out.safetensors to the disk"));
    const char *const end = seen + strlen(seen) - strlen(wipe);
    assert_string_equal(end, wipe);
    test_checkpoint_remove("in.safetensors");
    test_checkpoint_remove("out.safetensors");
}

static void a_pipe_has_none(void **state) {
    (void)state;
    write_tensors();
    test_program_result result = test_program_run(
        program, "quantize in.safetensors out.safetensors --scheme s8-channel", NULL, 60);
    assert_int_equal(result.exit_code, 0);
    assert_string_equal(result.errors, "");
    test_program_release(&result);
    test_checkpoint_remove("in.safetensors");
    test_checkpoint_remove("out.safetensors");
}

int main(void) {
#define CASE(name)                                                                                 \
    cmocka_unit_test_setup_teardown(name, test_checkpoint_enter, test_checkpoint_leave)
    const struct CMUnitTest tests[] = {CASE(a_terminal_has_a_bar), CASE(a_pipe_has_none)};
#undef CASE
    return cmocka_run_group_tests_name("quantize progress", tests, NULL, NULL);
}
