// ctest: threads serial timeout=300
/*
 * Tests `tandem quantize` as a process: on a full disk, under signals, and within its memory limit.
 */
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/quant/test_checkpoint.h"
#include "tests/support/test_case.h"
#include "tests/support/test_program.h"

static const char program[] = TANDEM_BINARY_DIR "/bin/tandem";

/* Executes the command. Options may follow the scheme. */
static _Noreturn void become(const char *input, const char *output, const char *scheme,
                             rlim_t file_limit) {
    char words[96];
    char *arguments[12] = {"tandem", "quantize", (char *)(uintptr_t)input,
                           (char *)(uintptr_t)output, "--scheme"};
    snprintf(words, sizeof words, "%s", scheme);
    for (int i = 5; i < 11; i++)
        arguments[i] = i > 5 && !arguments[i - 1] ? NULL : strtok(i > 5 ? NULL : words, " ");
    const struct rlimit limit = {file_limit, file_limit};
    const struct rlimit no_core = {0, 0};
    if (freopen("/dev/null", "w", stdout) == NULL || freopen("/dev/null", "w", stderr) == NULL ||
        setrlimit(RLIMIT_CORE, &no_core) != 0 ||
        (file_limit != RLIM_INFINITY && setrlimit(RLIMIT_FSIZE, &limit) != 0))
        _exit(126);
    execv(program, arguments);
    _exit(127);
}

static pid_t start(const char *input, const char *output, const char *scheme, rlim_t file_limit) {
    fflush(NULL);
    const pid_t process = fork();
    assert_true(process >= 0);
    if (process == 0)
        become(input, output, scheme, file_limit);
    return process;
}

/*
 * The test cannot fill the system's disk. A limit on the size of files makes the same writes fail.
 */
TEST_WITH(a_full_disk_leaves_nothing, test_checkpoint_enter, test_checkpoint_leave) {
    test_checkpoint_write_good("in.safetensors");
    test_file_write("out.safetensors", "old", 3);
    for (rlim_t limit = 0; limit < 4096; limit += 600) {
        int status;
        size_t size;
        const pid_t process =
            start("in.safetensors", "out.safetensors", "s8-channel", limit > 0 ? limit : 1);
        assert_int_equal(waitpid(process, &status, 0), process);
        if (!WIFEXITED(status) || WEXITSTATUS(status) != 1)
            fail_msg("limit %ld: status %x", (long)limit, status);
        assert_int_equal(test_checkpoint_files(), 2);
        unsigned char *const old = test_file_read("out.safetensors", &size);
        assert_int_equal(size, 3);
        assert_memory_equal(old, "old", 3);
        free(old);
    }
}

/* Writes a sparse file of zeros: `count` tensors of rows x columns f32. */
static void write_zeros(const char *name, int count, int64_t rows, int64_t columns) {
    char header[1024] = "{";
    size_t length = 1;
    const long long bytes = (long long)rows * columns * 4;
    for (int i = 0; i < count; i++)
        length += (size_t)snprintf(header + length, sizeof header - length,
                                   "%s\"t%d\":{\"dtype\":\"F32\",\"shape\":[%lld,%lld],"
                                   "\"data_offsets\":[%lld,%lld]}",
                                   i > 0 ? "," : "", i, (long long)rows, (long long)columns,
                                   i * bytes, (i + 1) * bytes);
    header[length++] = '}';
    const uint64_t size = length;
    FILE *const file = fopen(name, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(&size, sizeof size, 1, file), 1);
    assert_int_equal(fwrite(header, length, 1, file), 1);
    assert_int_equal(fflush(file), 0);
    assert_int_equal(ftruncate(fileno(file), (off_t)sizeof size + (off_t)length + count * bytes),
                     0);
    fclose(file);
}

static int has_partial_file(void) {
    DIR *const entries = opendir(".");
    int found = 0;
    for (struct dirent *entry = readdir(entries); entry != NULL; entry = readdir(entries))
        found += strstr(entry->d_name, ".partial") != NULL;
    closedir(entries);
    return found;
}

static void await_partial_file(void) {
    const struct timespec pause = {.tv_nsec = 1000000};
    for (int waited = 0; waited < 20000 * test_time_factor() && !has_partial_file(); waited++)
        nanosleep(&pause, NULL);
}

TEST_WITH(signals_remove_the_unfinished_file, test_checkpoint_enter, test_checkpoint_leave) {
    static const int signals[] = {SIGINT,  SIGTERM, SIGHUP,  SIGQUIT, SIGPIPE,   SIGALRM,
                                  SIGUSR1, SIGUSR2, SIGXCPU, SIGPROF, SIGVTALRM, SIGBUS};
    write_zeros("in.safetensors", 8, 64 << 10, 1024); /* 2 GiB: seconds of work */
    for (size_t i = 0; i < sizeof signals / sizeof *signals; i++) {
        int status = 0;
        const pid_t process =
            start("in.safetensors", "out.safetensors", "s8-channel", RLIM_INFINITY);
        await_partial_file();
        assert_true(has_partial_file());
        if (signals[i] == SIGBUS)
            assert_int_equal(truncate("in.safetensors", 4096), 0);
        else
            kill(process, signals[i]);
        assert_int_equal(waitpid(process, &status, 0), process);
        if (!WIFSIGNALED(status) || WTERMSIG(status) != signals[i])
            fail_msg("signal %d: status %x", signals[i], status);
        if (test_checkpoint_files() != 1)
            fail_msg("signal %d: something is left behind", signals[i]);
    }
}

/*
 * Waits until the process ends or a signal stops it, for at most 60 s on a quiet machine. `number`
 * gets the signal, or 0 at the end. Returns the status.
 */
static int await_stop(pid_t process, int *number) {
    const struct timespec rest = {.tv_nsec = 1000000};
    int status = 0;
    pid_t found = 0;
    for (int waited = 0; waited < 60000 * test_time_factor() && found == 0; waited++) {
        found = waitpid(process, &status, WNOHANG);
        nanosleep(&rest, NULL);
    }
    if (found != process)
        kill(process, SIGKILL);
    assert_int_equal(found, process);
    *number = WIFSTOPPED(status) ? WSTOPSIG(status) : 0;
    return status;
}

/*
 * The kernel drops a signal without a handler for the first process of a container. The handler
 * raises the signal again, which therefore does not end that process. A tracer here drops this
 * second signal.
 */
TEST_WITH(signals_end_the_first_process_of_a_container, test_checkpoint_enter,
          test_checkpoint_leave) {
    int number = 0;
    int status;
    int terms = 0;
    write_zeros("in.safetensors", 8, 64 << 10, 1024);
    fflush(NULL);
    const pid_t process = fork();
    assert_true(process >= 0);
    if (process == 0) {
        if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0)
            _exit(125);
        become("in.safetensors", "out.safetensors", "s8-channel", RLIM_INFINITY);
    }
    await_stop(process, &number);
    assert_int_equal(number, SIGTRAP); /* the program has been executed */
    assert_int_equal(ptrace(PTRACE_CONT, process, NULL, NULL), 0);
    await_partial_file();
    assert_true(has_partial_file());
    /*
     * The signal goes to the first thread, which is traced. Otherwise another thread takes it while
     * the first one has signals blocked.
     */
    assert_int_equal(syscall(SYS_tgkill, process, process, SIGTERM), 0);
    for (status = await_stop(process, &number); number != 0;
         status = await_stop(process, &number)) {
        terms += number == SIGTERM;
        const int passed_on = number == SIGTERM && terms > 1 ? 0 : number;
        assert_int_equal(ptrace(PTRACE_CONT, process, NULL, (void *)(intptr_t)passed_on), 0);
    }
    assert_int_equal(terms, 2);
    assert_int_equal(test_checkpoint_files(), 1);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 128 + SIGTERM);
}

/*
 * A killed process with the same process ID may have left a file; each container starts again with
 * ID 1. The file stays and does no harm.
 */
TEST_WITH(a_left_over_file_is_in_nobodys_way, test_checkpoint_enter, test_checkpoint_leave) {
    int status = 0;
    char name[64];
    test_checkpoint_write_good("in.safetensors");
    fflush(NULL);
    const pid_t process = fork();
    assert_true(process >= 0);
    if (process == 0) {
        snprintf(name, sizeof name, "out.safetensors.%ld.partial", (long)getpid());
        test_file_write(name, "left", 4);
        become("in.safetensors", "out.safetensors", "s8-channel", RLIM_INFINITY);
    }
    assert_int_equal(waitpid(process, &status, 0), process);
    assert_int_equal(status, 0);
    snprintf(name, sizeof name, "out.safetensors.%ld.partial", (long)process);
}

/*
 * Returns the largest resident set of a process so far in KiB. Returns 0 before the process
 * executes the program. wait4 is not used, because its value includes the memory of the process
 * that forked.
 */
static long resident_peak(pid_t process) {
    char path[64];
    char line[256];
    long peak = 0;
    int is_program = 0;
    snprintf(path, sizeof path, "/proc/%ld/status", (long)process);
    FILE *const file = fopen(path, "r");
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        is_program |= strcmp(line, "Name:\ttandem\n") == 0;
        if (strncmp(line, "VmHWM:", 6) == 0)
            peak = strtol(line + 6, NULL, 10);
    }
    if (file != NULL)
        fclose(file);
    return is_program ? peak : 0;
}

static long peak_of(const char *input, const char *output, const char *scheme) {
    const struct timespec pause = {.tv_nsec = 500000};
    long peak = 0;
    int status;
    const pid_t process = start(input, output, scheme, RLIM_INFINITY);
    while (waitpid(process, &status, WNOHANG) == 0) {
        const long now = resident_peak(process);
        peak = now > peak ? now : peak;
        nanosleep(&pause, NULL);
    }
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("%s gave status %x", scheme, status);
    return peak; /* 0 if the run ended before the first look */
}

/* A sanitizer's shadow memory counts too; that of ThreadSanitizer is several times as large. */
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
enum {
    PEAKS_COUNT = 0,
    SHARE = 8 /* divides sizes: only the program's results are checked */
};
#else
enum {
    PEAKS_COUNT = 1,
    SHARE = 1
};
#endif

/* Checks the growth between the peaks of a small and a large input. */
static void expect_growth(const char *scheme, const char *input, const long peaks[2],
                          long largest_kib) {
    const long growth = peaks[1] - peaks[0];
    print_message("%s of %s: %ld KiB more for tensors of %ld KiB\n", scheme, input, growth,
                  largest_kib);
    assert_true(peaks[1] > 0);
    if (PEAKS_COUNT && growth >= 2 * largest_kib)
        fail_msg("%s took %ld KiB more for tensors of %ld KiB", scheme, growth, largest_kib);
}

static void expect_peak(const char *small_input, const char *large_input, const char *scheme,
                        long largest_kib) {
    const long peaks[] = {peak_of(small_input, "out.safetensors", scheme),
                          peak_of(large_input, "out.safetensors", scheme)};
    expect_growth(scheme, large_input, peaks, largest_kib);
}

/*
 * Compares four tensors of 32 MiB with four of 256 KiB, also when dequantizing 32 MiB. The limit is
 * twice the largest tensor; slabs use far less.
 */
TEST_WITH(memory_stays_below_twice_the_largest_tensor, test_checkpoint_enter,
          test_checkpoint_leave) {
    static const char *const schemes[] = {"s8-tensor", "s4-group-zero", "q4_0", "keep"};
    enum {
        ROWS = (8 << 10) / SHARE,
        LARGEST_KIB = ROWS * 1024 / 256 /* 4-byte elements */
    };
    write_zeros("small.safetensors", 4, 64, 1024);
    write_zeros("large.safetensors", 4, ROWS, 1024);
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        expect_peak("small.safetensors", "large.safetensors", schemes[i], LARGEST_KIB);
    peak_of("small.safetensors", "small-codes.safetensors", "s8-group");
    peak_of("large.safetensors", "large-codes.safetensors", "s8-group");
    expect_peak("small-codes.safetensors", "large-codes.safetensors", "f32", LARGEST_KIB);
}

/* Compares one row of 32 MiB, whose last group is shorter, with one of 256 KiB. */
TEST_WITH(long_rows_are_cut, test_checkpoint_enter, test_checkpoint_leave) {
    static const char *const schemes[] = {"s8-tensor", "s8-channel", "s4-group-zero"};
    enum {
        COLUMNS = (8 << 20) / SHARE + 2,
        LARGEST_KIB = COLUMNS / 256
    };
    write_zeros("small.safetensors", 1, 2, 1 << 15);
    write_zeros("large.safetensors", 1, 1, COLUMNS);
    for (size_t i = 0; i < sizeof schemes / sizeof *schemes; i++)
        expect_peak("small.safetensors", "large.safetensors", schemes[i], LARGEST_KIB);
}

/* Uses a layer of 32 MiB, and a batch of activations that is larger. */
TEST_WITH(calibration_stays_below_twice_the_largest_tensor, test_checkpoint_enter,
          test_checkpoint_leave) {
    enum {
        ROWS = (8 << 10) / SHARE,
        LARGEST_KIB = ROWS * 4
    };
    long peaks[2];
    for (int large = 0; large < 2; large++) {
        write_zeros("in.safetensors", 1, large ? ROWS : 64, 1024);
        write_zeros("x.safetensors", 1, large ? (20 << 10) / SHARE : 1, 1024);
        peaks[large] = peak_of("in.safetensors", "out.safetensors",
                               "s8-channel --calibrate x.safetensors --observer moving-average");
    }
    expect_growth("s8-channel", "a layer", peaks, LARGEST_KIB);
}

TEST_MAIN(NULL, NULL)
