// Tests drivers that crash, hang, end the process, print or close descriptors, next to a driver
// that works. The broken ones are skipped and named, and nothing else changes. A forked child
// cannot create a context.
// ctest: device opencl compiled rusticl_in_ci timeout=240
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend_opencl/drivers/driver_check.h"
#include "tests/support/drivers/fake_driver.h"
#include "tests/support/test_case.h"
#include "tests/support/test_folder.h"
#include "tests/support/test_program.h"
#include "tests/support/test_tree.h"

#include <tandem/device.h>

/* This is the time limit of a helper process in these tests. A working driver needs a fraction of a
 * second. */
#define LIMIT_MS 4000
/* Without a cached verdict, the program would wait for two time limits of the library. This limit
 * is shorter. */
#define PROGRAM_S 15

typedef struct broken_mode {
    const char *word;
    const char *reason;
} broken_mode;

static const broken_mode modes[] = {
    {"hang", "it did not return within"},
    {"spin", "it did not return within"},
    {"load-hang", "it did not return within"},
    {"crash", "it crashed (signal 11)"},
    {"abort", "it crashed (signal 6)"},
    {"exit", "it ended the process (exit status 0)"},
    {"print", "it wrote to standard output"},
    {"close", "it closed standard output"},
    {"load-crash", "it crashed (signal 11)"},
    {"load-exit", "it ended the process (exit status 0)"},
    {"load-print", "it wrote to standard output"},
};
#define MODES (sizeof modes / sizeof modes[0])

static char vendors[TEST_PATH], alone[TEST_PATH], broken[TEST_PATH], output[TEST_PATH];
/* This is the first device that run_on.sh requires. */
static char expected[64];

static void run(const char *format, const char *a, const char *b) {
    char command[1024];
    snprintf(command, sizeof command, format, a, b);
    assert_int_equal(system(command), 0);
}

static void use_vendors(const char *folder) {
    setenv("OCL_ICD_VENDORS", folder, 1);
    setenv("OPENCL_VENDOR_PATH", folder, 1);
}

/* Makes two folders. One has the driver of this job and the broken driver; the other has only the
 * broken driver. */
static int setup(void **state) {
    char path[TEST_PATH];
    const char *const job = getenv("OCL_ICD_VENDORS"), *const devices =
                                                           getenv("TANDEM_TEST_DEVICES");
    if (!job || !devices || test_folder_make(state) != 0)
        return -1;
    snprintf(expected, sizeof expected, "%.*s", (int)strcspn(devices, ","), devices);
    fake_driver_compile("broken.so", "broken_driver.c fake_stubs.c");
    test_folder_path(vendors, "vendors");
    test_folder_path(alone, "alone");
    test_folder_path(broken, "vendors/broken.icd");
    test_folder_path(output, "output");
    assert_int_equal(mkdir(vendors, 0700), 0);
    assert_int_equal(mkdir(alone, 0700), 0);
    run("cp '%s'/*.icd '%s'", job, vendors);
    test_text_write(broken, test_folder_path(path, "broken.so"), 0600);
    run("cp '%s' '%s'", broken, alone);
    use_vendors(vendors);
    // A verdict holds for one environment, so all children and programs inherit these values.
    setenv("POCL_AFFINITY", "0", 1);
    setenv("OMP_PROC_BIND", "false", 1);
    tdm_driver_limit_ms = LIMIT_MS;
    return 0;
}

/* ---- in a process of its own ----------------------------------------------------------------- */

/* Each mode has its own cache. If two processes write to one cache at once, one verdict is lost. */
static void use_mode(const char *word) {
    char name[64], path[TEST_PATH];
    snprintf(name, sizeof name, "cache-%s", word);
    setenv("TANDEM_CACHE_DIR", test_folder_path(path, name), 1);
    setenv("BROKEN_DRIVER", word, 1);
}

/* Each test runs in child processes, because a process that forks must not have opened a driver. */
static pid_t start(void (*body)(const broken_mode *), const broken_mode *mode) {
    fflush(NULL);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child > 0)
        return child;
    const int file = open(output, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
    if (file < 0 || dup2(file, STDOUT_FILENO) < 0)
        _exit(100);
    use_mode(mode ? mode->word : "none");
    alarm(60);
    body(mode);
    fflush(NULL);
    _exit(0);
}

static void expect_success(pid_t child) {
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    if (status != 0)
        fail_msg("a child ended with status 0x%x", status);
}

/* Checks that nothing was written to standard output. */
static void expect_silence(void) {
    struct stat status;
    assert_int_equal(stat(output, &status), 0);
    assert_int_equal(status.st_size, 0);
    assert_int_equal(unlink(output), 0);
}

static void demand(bool condition, const tdm_context *context, const char *what) {
    if (condition)
        return;
    fprintf(stderr, "%s: %s; BROKEN_DRIVER=%s\n", what, tdm_last_detail(), getenv("BROKEN_DRIVER"));
    for (int i = 0; i < tdm_context_note_count(context); i++)
        fprintf(stderr, "    %s\n", tdm_context_note(context, i));
    _exit(1);
}

static tdm_context *make_context(void) {
    tdm_context *context = NULL;
    const tdm_context_options options = {.struct_size = sizeof options, .backends = "opencl"};
    demand(tdm_context_create(&options, &context) == TDM_OK, NULL, "context_create");
    return context;
}

static const char *note_with(const tdm_context *context, const char *part) {
    for (int i = 0; i < tdm_context_note_count(context); i++)
        if (strstr(tdm_context_note(context, i), part))
            return tdm_context_note(context, i);
    return NULL;
}

/* ---- next to a driver that works ------------------------------------------------------------- */

static void expect_named(const tdm_context *context, const char *reason) {
    const char *const note = note_with(context, broken);
    demand(note != NULL, context, "no note names the file");
    demand(strstr(note, "broken.so") != NULL, context, "the note does not name the library");
    demand(strstr(note, reason) != NULL, context, reason);
}

static void open_beside(const broken_mode *mode) {
    int index;
    // The second context uses the verdict of the first one, without a trial in a helper process.
    for (int i = 0; i < 2; i++) {
        tdm_context *const context = make_context();
        demand(tdm_context_find_device(context, expected, &index) == TDM_OK, context,
               "find_device");
        expect_named(context, mode->reason);
        tdm_context_destroy(context);
    }
}

TEST(test_library) {
    pid_t children[3];
    // These children run at the same time, because they mostly wait.
    for (size_t i = 0; i < 3; i++)
        children[i] = start(open_beside, &modes[i]);
    for (size_t i = 0; i < 3; i++)
        expect_success(children[i]);
    for (size_t i = 3; i < MODES; i++)
        expect_success(start(open_beside, &modes[i]));
    expect_silence();
}

/* The verdicts of the previous test are reused, so that no time limit has to elapse. */
TEST(test_program) {
    char program[TEST_TREE_PATH];
    test_tree_build(program, "bin/tandem");
    for (size_t i = 0; i < MODES; i++) {
        use_mode(modes[i].word);
        test_program_result result = test_program_run(program, "devices", NULL, PROGRAM_S);
        if (result.exit_code != 0 || !strstr(result.output, expected) ||
            !strstr(result.output, broken) || !strstr(result.output, modes[i].reason) ||
            strstr(result.output, "noise"))
            fail_msg("BROKEN_DRIVER=%s tandem devices gave %d: %s%s", modes[i].word,
                     result.exit_code, result.output, result.errors);
        test_program_release(&result);
    }
    unsetenv("BROKEN_DRIVER");
    char verdicts[2 * TEST_PATH];
    snprintf(verdicts, sizeof verdicts, "%s/driver-verdicts", getenv("TANDEM_CACHE_DIR"));
    assert_int_equal(unlink(verdicts), 0);
}

static void open_without_harm(const broken_mode *mode) {
    (void)mode;
    int index;
    tdm_context *const context = make_context();
    demand(tdm_context_find_device(context, expected, &index) == TDM_OK, context, "find_device");
    demand(note_with(context, "broken") == NULL, context, "a driver that works is named");
    tdm_context_destroy(context);
}

TEST(test_no_harm) {
    expect_success(start(open_without_harm, NULL));
    expect_silence();
}

static void open_with_ignored_children(const broken_mode *mode) {
    const broken_mode without_status = {mode->word, "it ended the process"};
    setenv("TANDEM_CACHE_DIR", "off", 1);
    signal(SIGCHLD, SIG_IGN);
    close(STDIN_FILENO);
    open_beside(&without_status);
    demand(getenv("OCL_ICD_VENDORS") && strcmp(getenv("OCL_ICD_VENDORS"), vendors) == 0, NULL,
           "the environment has changed");
}

/* The host process ignores the end of its children, and has no standard input and no cache. */
TEST(test_host_that_ignores_children) {
    static const broken_mode mode = {"exit", ""};
    expect_success(start(open_with_ignored_children, &mode));
    expect_silence();
}

static void open_untried(const broken_mode *mode) {
    (void)mode;
    setenv("TANDEM_DRIVER_PROBE", "off", 1);
    tdm_context_destroy(make_context());
}

/* Without the helper process, the driver's output reaches standard output. */
TEST(test_probe_off) {
    static const broken_mode mode = {"print", ""};
    struct stat status;
    expect_success(start(open_untried, &mode));
    assert_int_equal(stat(output, &status), 0);
    assert_int_not_equal(status.st_size, 0);
    assert_int_equal(unlink(output), 0);
}

/* A library that has changed is tried again, whatever the earlier verdict was. */
TEST(test_repair) {
    static const broken_mode mode = {"crash", "it crashed"};
    char library[TEST_PATH], kept[TEST_PATH];
    test_folder_path(library, "broken.so");
    test_folder_path(kept, "kept.so");
    expect_success(start(open_beside, &mode));
    assert_int_equal(rename(library, kept), 0);
    fake_driver_compile("broken.so", "-DHARMLESS broken_driver.c fake_stubs.c");
    expect_success(start(open_without_harm, &mode));
    assert_int_equal(rename(kept, library), 0);
    expect_silence();
}

/* ---- threads --------------------------------------------------------------------------------- */

static sem_t opened;

/* The thread does not end before its process, because AddressSanitizer and PoCL both set its signal
 * stack. */
static void *open_in_thread(void *mode) {
    open_beside(mode);
    sem_post(&opened);
    pause();
    return NULL;
}

static void open_in_threads(const broken_mode *mode) {
    pthread_t thread;
    sem_init(&opened, 0, 0);
    for (int i = 0; i < 4; i++)
        demand(pthread_create(&thread, NULL, open_in_thread, (void *)mode) == 0, NULL, "thread");
    for (int i = 0; i < 4; i++)
        sem_wait(&opened);
}

/* Several threads create the first contexts of a process at the same time. */
TEST(test_threads) {
    static const broken_mode mode = {"crash", "it crashed"};
    for (int i = 0; i < 5; i++)
        expect_success(start(open_in_threads, &mode));
    expect_silence();
}

/* ---- no driver that works -------------------------------------------------------------------- */

static void expect_no_device(tdm_context *context, const char *part, const char *reason) {
    tdm_device *device = NULL;
    demand(tdm_context_device_count(context) == 0, context, "a device is listed");
    demand(tdm_device_get(context, 0, &device) == TDM_NO_DEVICE, context, "device_get");
    demand(strstr(tdm_last_detail(), part) && strstr(tdm_last_detail(), reason), context,
           "the detail does not name the driver");
    tdm_context_destroy(context);
}

static void open_alone(const broken_mode *mode) {
    use_vendors(alone);
    expect_no_device(make_context(), "alone/broken.icd", mode->reason);
}

static void open_named(const broken_mode *mode) {
    char library[TEST_PATH];
    setenv("TANDEM_OPENCL_LIBRARY", test_folder_path(library, "broken.so"), 1);
    expect_no_device(make_context(), library, mode->reason);
}

TEST(test_no_driver_left) {
    for (size_t i = 3; i < MODES; i++) {
        expect_success(start(open_alone, &modes[i]));
        expect_success(start(open_named, &modes[i]));
    }
    expect_silence();
}

/* ---- fork ------------------------------------------------------------------------------------ */

static void demand_refusal_in_child(void) {
    const pid_t child = fork();
    if (child == 0) {
        tdm_context *context = NULL;
        alarm(20);
        demand(tdm_context_create(NULL, &context) == TDM_BAD_STATE, context, "context_create");
        demand(!context && strstr(tdm_last_detail(), "is a fork of process"), NULL, "the detail");
        _exit(0);
    }
    int status = -1;
    demand(child > 0 && waitpid(child, &status, 0) == child && status == 0, NULL, "the child");
}

static void refuse_in_child(const broken_mode *mode) {
    (void)mode;
    int index;
    tdm_device *device;
    tdm_context_destroy(make_context());
    demand_refusal_in_child();
    // The parent can still create contexts. Children are refused even if the parent has opened a
    // device.
    tdm_context *const context = make_context();
    demand(tdm_context_find_device(context, expected, &index) == TDM_OK, context, "find_device");
    demand(tdm_device_get(context, index, &device) == TDM_OK, context, "device_get");
    demand_refusal_in_child();
    tdm_device_release(device);
    tdm_context_destroy(context);
}

TEST(test_fork) {
    expect_success(start(refuse_in_child, NULL));
    expect_silence();
}

TEST_MAIN(setup, test_folder_remove)
