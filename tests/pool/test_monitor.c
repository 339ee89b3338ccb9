// Tests the file (page) that a process publishes for `tandem monitor`: who may access it, how a
// reader handles malformed pages, and the command itself.
// ctest: timeout=180
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cjson/cJSON.h>

#include "api/device/core.h"
#include "api/pool/monitor_page.h"
#include "api/pool/observation.h"
#include "cli/monitor/monitor.h"
#include "common/table_print.h"
#include "tests/support/drivers/simulated_memory.h"
#include "tests/support/test_case.h"
#include "tests/support/test_data.h"
#include "tests/support/test_program.h"

#define PATIENCE_S 10
#define KIB 1024

static const char program[] = TANDEM_BINARY_DIR "/bin/tandem";

/* A rig is a new folder, which TANDEM_MONITOR names, and a pool whose statistics this process
 * publishes there. */
typedef struct rig {
    char folder[64];
    char file[128];
    simulated_memory memory;
    tdm_observation *observation;
    tdm_block *block;
} rig;

static void make_folder(rig *r) {
    snprintf(r->folder, sizeof r->folder, "/tmp/tandem-test-XXXXXX");
    assert_non_null(mkdtemp(r->folder));
    snprintf(r->file, sizeof r->file, "%s/" TDM_MONITOR_PREFIX "%d", r->folder, (int)getpid());
    assert_int_equal(setenv("TANDEM_MONITOR", r->folder, 1), 0);
}

static void remove_folder(rig *r) {
    unsetenv("TANDEM_MONITOR");
    assert_int_equal(rmdir(r->folder), 0);
}

static void open_fixture(rig *r) {
    *r = (rig){0};
    make_folder(r);
    tdm_monitor_retain();
    simulated_open(&r->memory);
    assert_int_equal(tdm_observation_open(r->memory.pool, "opencl/test/a device", &r->observation),
                     TDM_OK);
    assert_int_equal(tdm_memory_tag_push("weights"), TDM_OK);
    assert_int_equal(tdm_pool_alloc(r->memory.pool, 100 * KIB, 0, &r->block), TDM_OK);
    assert_int_equal(tdm_memory_tag_pop(), TDM_OK);
}

static void close_fixture(rig *r) {
    tdm_block_release(r->block);
    tdm_observation_close(r->observation);
    simulated_close(&r->memory);
    tdm_monitor_release();
    remove_folder(r);
}

/* Returns the copy that a reader makes of the page of `process`. The caller frees it. */
static monitor_process *read_page(const rig *r, uint64_t process, const char **refusal) {
    monitor_process *const copy = calloc(1, sizeof *copy);
    assert_non_null(copy);
    const int folder = monitor_open_folder(r->folder);
    assert_true(folder >= 0);
    *refusal = monitor_read(folder, process, copy);
    close(folder);
    return copy;
}

static bool there_is(const char *path) {
    struct stat status;
    return lstat(path, &status) == 0;
}

TEST(a_page_shows_the_counters) {
    rig r;
    const char *refusal;
    open_fixture(&r);
    struct stat status;
    assert_int_equal(lstat(r.file, &status), 0);
    assert_int_equal(status.st_mode, S_IFREG | 0600);
    for (int step = 0; step < 50; step++) {
        tdm_block *more;
        assert_int_equal(tdm_pool_alloc(r.memory.pool, (size_t)step * 777, 0, &more), TDM_OK);
        monitor_process *const copy = read_page(&r, (uint64_t)getpid(), &refusal);
        assert_null(refusal);
        assert_int_equal(copy->process, getpid());
        assert_string_equal(copy->library, tdm_version_text());
        assert_int_equal(copy->pool_count, 1);
        assert_string_equal(copy->pools[0].name, "opencl/test/a device");
        tdm_statistic_values values;
        assert_true(tdm_statistic_read(r.observation->statistics->shared, 10, &values));
        assert_memory_equal(&copy->pools[0].values, &values, sizeof values);
        assert_int_equal(tdm_statistic_current(&values, TDM_COUNTER_requested),
                         100 * KIB + step * 777);
        assert_int_equal(copy->pools[0].tag_count, 2);
        assert_string_equal(copy->pools[0].tags[0].tag, "weights");
        free(copy);
        tdm_block_release(more);
    }
    close_fixture(&r);
    assert_false(there_is(r.file));
}

TEST(a_section_is_given_back) {
    rig r;
    const char *refusal;
    open_fixture(&r);
    tdm_statistic_words *words[TDM_MONITOR_SECTIONS];
    for (int i = 1; i < TDM_MONITOR_SECTIONS; i++) {
        words[i] = tdm_monitor_section_open("more");
        assert_non_null(words[i]);
        atomic_store(&words[i]->words[0], 99);
    }
    assert_null(tdm_monitor_section_open("too many"));
    monitor_process *copy = read_page(&r, (uint64_t)getpid(), &refusal);
    assert_int_equal(copy->pool_count, TDM_MONITOR_SECTIONS);
    free(copy);
    tdm_monitor_section_close(words[3]);
    tdm_statistic_words *const again = tdm_monitor_section_open("again");
    assert_ptr_equal(again, words[3]);
    assert_int_equal(atomic_load(&again->words[0]), 0);
    for (int i = 1; i < TDM_MONITOR_SECTIONS; i++)
        tdm_monitor_section_close(words[i]);
    copy = read_page(&r, (uint64_t)getpid(), &refusal);
    assert_int_equal(copy->pool_count, 1);
    free(copy);
    close_fixture(&r);
}

TEST(the_last_context_removes_the_page) {
    rig r = {0};
    make_folder(&r);
    tdm_context *contexts[2];
    const tdm_context_options options = {.struct_size = sizeof options, .backends = "none"};
    for (int i = 0; i < 2; i++)
        assert_int_equal(tdm_context_create(&options, &contexts[i]), TDM_OK);
    assert_true(there_is(r.file));
    tdm_context_destroy(contexts[0]);
    assert_true(there_is(r.file));
    tdm_context_destroy(contexts[1]);
    assert_false(there_is(r.file));
    remove_folder(&r);
}

TEST(nothing_is_published_unasked) {
    static const char *const values[] = {NULL, "", "0", "off"};
    rig r = {0};
    make_folder(&r);
    assert_int_equal(setenv("XDG_RUNTIME_DIR", r.folder, 1), 0);
    for (size_t i = 0; i < 4; i++) {
        if (values[i])
            setenv("TANDEM_MONITOR", values[i], 1);
        else
            unsetenv("TANDEM_MONITOR");
        tdm_monitor_retain();
        assert_false(there_is(r.file));
        assert_null(tdm_monitor_section_open("pool"));
        tdm_monitor_release();
    }
    setenv("TANDEM_MONITOR", "1", 1);
    tdm_monitor_retain();
    assert_true(there_is(r.file));
    tdm_monitor_release();
    unsetenv("XDG_RUNTIME_DIR");
    remove_folder(&r);
}

TEST(a_folder_of_others_is_not_used) {
    static const struct {
        mode_t mode;
        uid_t owner; /* 0: this user */
        bool used;
    } rows[] = {
        {0700, 0, true}, {0755, 0, true}, {0770, 0, false}, {0702, 0, false}, {0700, 1, false}};
    rig r = {0};
    make_folder(&r);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].owner != 0 && geteuid() != 0)
            continue; /* only root can change the owner */
        assert_int_equal(chmod(r.folder, rows[i].mode), 0);
        assert_true(rows[i].owner == 0 || chown(r.folder, rows[i].owner, (gid_t)-1) == 0);
        tdm_monitor_retain();
        assert_int_equal(there_is(r.file), rows[i].used);
        tdm_monitor_release();
        assert_false(there_is(r.file));
    }
    remove_folder(&r);
}

/* A symbolic link to a victim file stands where the page would be. The victim must not be
 * overwritten. */
TEST(a_link_is_not_followed) {
    rig r = {0};
    char victim[128];
    struct stat status;
    make_folder(&r);
    snprintf(victim, sizeof victim, "%s/victim", r.folder);
    const int file = open(victim, O_CREAT | O_WRONLY, 0600);
    assert_int_equal(write(file, "precious", 8), 8);
    close(file);
    assert_int_equal(symlink(victim, r.file), 0);
    const char *refusal;
    free(read_page(&r, (uint64_t)getpid(), &refusal));
    assert_non_null(refusal);
    tdm_monitor_retain();
    assert_int_equal(lstat(r.file, &status), 0);
    assert_true(S_ISREG(status.st_mode));
    assert_int_equal(lstat(victim, &status), 0);
    assert_int_equal(status.st_size, 8);
    // A link to a valid page is not followed either.
    assert_int_equal(unlink(victim), 0);
    assert_int_equal(rename(r.file, victim), 0);
    assert_int_equal(symlink(victim, r.file), 0);
    free(read_page(&r, (uint64_t)getpid(), &refusal));
    assert_non_null(refusal);
    assert_non_null(strstr(refusal, "it has no page"));
    tdm_monitor_release();
    assert_int_equal(unlink(victim), 0);
    remove_folder(&r);
}

/* ---- malformed pages ------------------------------------------------------------------------- */

static void put_file(const char *path, const void *bytes, size_t count) {
    const int file = open(path, O_CREAT | O_WRONLY | O_TRUNC, 0600);
    assert_true(file >= 0);
    assert_int_equal(write(file, bytes, count), (ssize_t)count);
    close(file);
}

static tdm_monitor_page *take_page(const char *path) {
    tdm_monitor_page *const page = malloc(sizeof *page);
    const int file = open(path, O_RDONLY);
    assert_non_null(page);
    assert_int_equal(read(file, page, sizeof *page), (ssize_t)sizeof *page);
    close(file);
    return page;
}

/* Reads the page and formats all of it. Returns NULL, or the reason why the page was refused. */
static const char *digest(const rig *r) {
    const char *refusal;
    monitor_process *const copy = read_page(r, (uint64_t)getpid(), &refusal);
    if (!refusal) {
        FILE *const sink = fopen("/dev/null", "w");
        monitor_draw(sink, copy, 80, 100);
        cJSON *const json = monitor_json(copy);
        char *const text = cJSON_PrintUnformatted(json);
        assert_non_null(text);
        for (const char *each = text; *each; each++)
            assert_in_range((unsigned char)*each, 0x20, 0x7E);
        free(text);
        cJSON_Delete(json);
        fclose(sink);
    }
    free(copy);
    return refusal;
}

/* Checks that the page is refused with a message that contains `expected`, or accepted if that is
 * NULL. */
static void expect_digest(const rig *r, const char *expected) {
    const char *const refusal = digest(r);
    if (!refusal != !expected || (expected && !strstr(refusal, expected)))
        fail_msg("refused with '%s', expected '%s'", refusal ? refusal : "nothing",
                 expected ? expected : "nothing");
}

TEST(a_page_of_another_kind_is_refused) {
    rig r;
    open_fixture(&r);
    tdm_monitor_page *const page = take_page(r.file);
    const tdm_monitor_page good = *page;
#define WITH(change, expected)                                                                     \
    do {                                                                                           \
        *page = good;                                                                              \
        change;                                                                                    \
        put_file(r.file, page, sizeof *page);                                                      \
        expect_digest(&r, expected);                                                               \
    } while (0)
    WITH((void)0, NULL);
    WITH(page->magic ^= 1, "not written by Tandem");
    WITH(page->version++, "another version");
    WITH(page->page_bytes += 8, "another version");
    WITH(page->process++, "another process");
    WITH(page->start_time++, "has ended");
    WITH(memset(page->program, 0x1B, sizeof page->program), NULL);
    WITH(memset((void *)page->sections[0].name, 0xFF, TDM_MONITOR_NAME_BYTES), NULL);
    WITH(page->sections[0].statistics.tag_count = UINT64_MAX, NULL);
    WITH(page->sections[0].statistics.sequence |= 1, NULL);
    WITH(page->sections[7].live = 1, NULL);
#undef WITH
    for (size_t bytes = 0; bytes < sizeof good; bytes = bytes * 3 / 2 + 1) {
        put_file(r.file, &good, bytes);
        assert_non_null(digest(&r));
    }
    free(page);
    put_file(r.file, &good, sizeof good);
    close_fixture(&r);
}

TEST(random_pages_do_no_harm) {
    rig r;
    test_random random = {91};
    open_fixture(&r);
    tdm_monitor_page *const good = take_page(r.file);
    unsigned char *const bytes = (unsigned char *)take_page(r.file);
    int shown = 0;
    for (int round = 0; round < 300; round++) {
        memcpy(bytes, good, sizeof *good);
        for (int i = 0; i < 200; i++) {
            // Most changes are in the header and the first section, where they have an effect.
            const int64_t limit = i % 4 ? 2048 : (int64_t)sizeof *good - 1;
            const int64_t at = test_random_int(&random, round % 2 ? 40 : 0, limit);
            bytes[at] = (unsigned char)test_random_int(&random, 0, 255);
        }
        put_file(r.file, bytes, sizeof *good);
        shown += digest(&r) == NULL;
    }
    assert_true(shown > 100);
    put_file(r.file, good, sizeof *good);
    free(bytes);
    free(good);
    close_fixture(&r);
}

TEST(pages_of_dead_processes_are_swept) {
    rig r = {0};
    char dead[128], junk[128], other[128];
    make_folder(&r);
    const pid_t child = fork();
    if (child == 0) {
        tdm_monitor_retain();
        _exit(0);
    }
    assert_int_equal(waitpid(child, NULL, 0), child);
    snprintf(dead, sizeof dead, "%s/" TDM_MONITOR_PREFIX "%d", r.folder, (int)child);
    snprintf(junk, sizeof junk, "%s/" TDM_MONITOR_PREFIX "%d", r.folder, 999999999);
    snprintf(other, sizeof other, "%s/" TDM_MONITOR_PREFIX "x", r.folder);
    assert_true(there_is(dead));
    const char *refusal;
    free(read_page(&r, (uint64_t)child, &refusal));
    assert_string_equal(refusal, "the process has ended");
    static const char text[] =
        "a letter to my aunt, who writes about monitors of all kinds and tandems";
    put_file(junk, text, sizeof text);
    put_file(other, text, sizeof text);
    tdm_monitor_retain();
    assert_false(there_is(dead));
    assert_true(there_is(junk) && there_is(other) && there_is(r.file));
    tdm_monitor_release();
    assert_int_equal(unlink(junk), 0);
    assert_int_equal(unlink(other), 0);
    remove_folder(&r);
}

/* ---- the command ----------------------------------------------------------------------------- */

static void expect(const char *arguments, int exit_code, const char *output, const char *errors) {
    test_program_result result = test_program_run(program, arguments, NULL, PATIENCE_S);
    if (result.exit_code != exit_code || (output && !strstr(result.output, output)) ||
        (errors && !strstr(result.errors, errors)))
        fail_msg("'tandem %s' gave %d: %s%s", arguments, result.exit_code, result.output,
                 result.errors);
    test_program_release(&result);
}

TEST(the_command_shows_pools) {
    rig r;
    char arguments[64];
    open_fixture(&r);
    expect("monitor --once", 0, "opencl/test/a device", NULL);
    expect("monitor --once", 0, "100 KiB", NULL);
    snprintf(arguments, sizeof arguments, "monitor %d --once", (int)getpid());
    expect(arguments, 0, "weights", NULL);
    expect(arguments, 0, "inactive_split", NULL);
    expect("monitor 999999999 --once", 1, NULL, "process 999999999: it has no page");
    expect("monitor 12x --once", 2, NULL, "'12x' is not a process id");
    expect("monitor --interval 1", 2, NULL, "--interval does not take '1'");
    snprintf(arguments, sizeof arguments, "monitor %d --json -", (int)getpid());
    test_program_result result = test_program_run(program, arguments, NULL, PATIENCE_S);
    assert_int_equal(result.exit_code, 0);
    cJSON *const root = cJSON_Parse(result.output);
    assert_non_null(root);
    const cJSON *const process =
        cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(root, "processes"), 0);
    const cJSON *const pool =
        cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(process, "pools"), 0);
    const cJSON *const requested = cJSON_GetObjectItemCaseSensitive(
        cJSON_GetObjectItemCaseSensitive(cJSON_GetObjectItemCaseSensitive(pool, "statistics"),
                                         "requested"),
        "current");
    assert_int_equal((int)requested->valuedouble, 100 * KIB);
    cJSON_Delete(root);
    test_program_release(&result);
    close_fixture(&r);
    setenv("TANDEM_MONITOR", "/nonexistent/folder", 1);
    expect("monitor --once", 1, NULL, "cannot read '/nonexistent/folder'");
    unsetenv("TANDEM_MONITOR");
    unsetenv("XDG_RUNTIME_DIR");
    expect("monitor --once", 1, NULL, "XDG_RUNTIME_DIR is not set");
}

TEST_MAIN(NULL, NULL)
