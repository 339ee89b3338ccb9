/* Tests the message and the exit code if standard output did not accept everything. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "common/command/standard_streams.h"
#include "tests/support/test_case.h"

static char reported[512];

/* Calls standard_output_finish with a stale errno. Its message is stored in `reported`. */
static int finish(FILE *stream, int exit_code, int stale_errno) {
    fflush(stderr);
    FILE *const file = tmpfile();
    const int saved = dup(STDERR_FILENO);
    assert_true(file != NULL && saved >= 0);
    dup2(fileno(file), STDERR_FILENO);
    errno = stale_errno;
    const int code = standard_output_finish(stream, exit_code);
    dup2(saved, STDERR_FILENO);
    close(saved);
    rewind(file);
    reported[fread(reported, 1, sizeof reported - 1, file)] = '\0';
    fclose(file);
    return code;
}

/* Returns a stream whose first write has already failed, so that flushing it again succeeds. */
static FILE *stream_with_a_loss(void) {
    FILE *const stream = fopen("/dev/full", "w");
    assert_non_null(stream);
    fputs("lost", stream);
    assert_int_not_equal(fflush(stream), 0);
    assert_int_equal(fflush(stream), 0);
    assert_int_not_equal(ferror(stream), 0);
    return stream;
}

TEST(all_that_was_written_is_well) {
    FILE *const stream = fopen("/dev/null", "w");
    assert_non_null(stream);
    fputs("text", stream);
    assert_int_equal(finish(stream, 0, ENOSPC), 0);
    assert_string_equal(reported, "");
    fputs("text", stream);
    assert_int_equal(finish(stream, 3, EPIPE), 3);
    assert_string_equal(reported, "");
    fclose(stream);
}

/* errno may hold EPIPE from the pipe of a worker that died. That says nothing about standard
 * output. */
TEST(an_earlier_loss_is_reported_whatever_errno_says) {
    static const int values[] = {EPIPE, 0, ENOENT};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++) {
        FILE *const stream = stream_with_a_loss();
        assert_int_equal(finish(stream, 0, values[i]), 1);
        assert_string_equal(reported,
                            "tandem: cannot write standard output: a part of it was lost\n");
        fclose(stream);
    }
}

TEST(the_last_flush_names_its_reason) {
    FILE *const stream = fopen("/dev/full", "w");
    assert_non_null(stream);
    fputs("text", stream);
    assert_int_equal(finish(stream, 2, EPIPE), 2);
    assert_string_equal(reported,
                        "tandem: cannot write standard output: No space left on device\n");
    fclose(stream);
}

/* It is no error if the reader closed the pipe, neither at the last flush nor earlier. */
TEST(a_reader_who_went_away_lost_nothing) {
    int ends[2];
    signal(SIGPIPE, SIG_IGN);
    assert_int_equal(pipe(ends), 0);
    FILE *const stream = fdopen(ends[1], "w");
    assert_non_null(stream);
    close(ends[0]);
    fputs("text", stream);
    assert_int_equal(finish(stream, 0, 0), 0);
    assert_string_equal(reported, "");
    assert_int_not_equal(ferror(stream), 0);
    assert_int_equal(finish(stream, 0, ENOSPC), 0);
    assert_string_equal(reported, "");
    fclose(stream);
}

/* Returns the descriptor that the next opened file gets in a child that closed `descriptor`. */
static int number_of_the_next_file(int descriptor, int occupy) {
    const pid_t child = fork();
    if (child == 0) {
        close(descriptor);
        if (occupy)
            standard_descriptors_occupy();
        if (occupy && (write(descriptor, "x", 1) >= 0 && read(descriptor, reported, 1) >= 0))
            _exit(99);
        _exit(open("/dev/null", O_RDWR));
    }
    int status = 0;
    assert_true(child > 0 && waitpid(child, &status, 0) == child && WIFEXITED(status));
    return WEXITSTATUS(status);
}

TEST(no_other_file_takes_the_place_of_a_closed_one) {
    for (int descriptor = 0; descriptor <= 2; descriptor++) {
        assert_int_equal(number_of_the_next_file(descriptor, 0), descriptor);
        assert_in_range(number_of_the_next_file(descriptor, 1), 3, 98);
    }
}

TEST_MAIN(NULL, NULL)
