// Tests the program cache on disk: the files that it keeps and refuses, and interference by other
// threads and processes.
// ctest: threads
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend_opencl/cache/program_cache.h"
#include "tests/support/drivers/counted_host.h"
#include "tests/support/test_case.h"
#include "tests/support/test_folder.h"

#define PAYLOAD_BYTES 5000
/* The bytes of a file's header are: magic 8, format 4, header size 4, key 32, payload size 8,
 * checksum 32. */
#define HEADER_BYTES 88

static const char *folder;
static unsigned char payload[PAYLOAD_BYTES];

static tdm_program_key key_of(const char *text) {
    tdm_program_key_builder builder;
    tdm_program_key_begin(&builder);
    tdm_program_key_add_text(&builder, text);
    return tdm_program_key_end(&builder);
}

/* Returns the path of a key's file. It remains valid until the second call after this one. */
static const char *path_of(const tdm_program_key *key) {
    static char paths[2][512];
    static int calls;
    char *const path = paths[calls++ % 2];
    int used = snprintf(path, sizeof paths[0], "%s/", folder);
    for (size_t i = 0; i < sizeof key->bytes; i++)
        used += snprintf(path + used, sizeof paths[0] - (size_t)used, "%02x", key->bytes[i]);
    snprintf(path + used, sizeof paths[0] - (size_t)used, ".tdmprog");
    return path;
}

/* Opens a cache in an empty folder of its own. */
static int setup(void **state) {
    for (size_t i = 0; i < sizeof payload; i++)
        payload[i] = (unsigned char)(i * 7 + i / 251);
    assert_int_equal(test_folder_make(state), 0);
    folder = test_folder();
    *state = tdm_program_cache_open(folder);
    assert_non_null(*state);
    return 0;
}

static int teardown(void **state) {
    tdm_program_cache_close(*state);
    return test_folder_remove(state);
}

static void expect_absent(tdm_program_cache *cache, const tdm_program_key *key) {
    unsigned char *loaded = NULL;
    size_t bytes = 0;
    assert_false(tdm_program_cache_load(cache, key, &loaded, &bytes));
    assert_null(loaded);
}

static void expect_present(tdm_program_cache *cache, const tdm_program_key *key) {
    unsigned char *loaded = NULL;
    size_t bytes = 0;
    assert_true(tdm_program_cache_load(cache, key, &loaded, &bytes));
    assert_int_equal(bytes, sizeof payload);
    assert_memory_equal(loaded, payload, sizeof payload);
    tdm_host_free(loaded);
}

static void store(tdm_program_cache *cache, const tdm_program_key *key) {
    assert_true(tdm_program_cache_store(cache, key, payload, sizeof payload));
}

static bool exists(const char *path) {
    struct stat status;
    return lstat(path, &status) == 0;
}

/* Checks that the bad file is refused and deleted, and that the cache works again for that key. */
static void expect_healed(tdm_program_cache *cache, const tdm_program_key *key) {
    const char *const path = path_of(key);
    expect_absent(cache, key);
    assert_false(exists(path));
    store(cache, key);
    expect_present(cache, key);
}

TEST_WITH(test_round_trip, setup, teardown) {
    const tdm_program_key key = key_of("one"), other = key_of("two");
    struct stat status;
    expect_absent(*state, &key);
    store(*state, &key);
    expect_present(*state, &key);
    expect_absent(*state, &other);
    const char *const path = path_of(&key);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0600);
    assert_int_equal(status.st_size, HEADER_BYTES + PAYLOAD_BYTES);
    tdm_program_cache *const again = tdm_program_cache_open(folder);
    assert_non_null(again);
    expect_present(again, &key);
    tdm_program_cache_close(again);
    tdm_program_cache_remove(*state, &key);
    expect_absent(*state, &key);
}

TEST_WITH(test_key_separates_items, setup, teardown) {
    tdm_program_key_builder builder;
    tdm_program_key_begin(&builder);
    tdm_program_key_add_text(&builder, "ab");
    tdm_program_key_add_text(&builder, "c");
    const tdm_program_key first = tdm_program_key_end(&builder);
    tdm_program_key_begin(&builder);
    tdm_program_key_add_text(&builder, "a");
    tdm_program_key_add_text(&builder, "bc");
    const tdm_program_key second = tdm_program_key_end(&builder);
    assert_memory_not_equal(&first, &second, sizeof first);
}

/* ---- good files that cannot be read at the moment -------------------------------------------- */

TEST_WITH(test_no_descriptors_or_memory, setup, teardown) {
    const tdm_program_key key = key_of("one");
    struct rlimit former, none;
    store(*state, &key);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &former), 0);
    none = former;
    none.rlim_cur = 0;
    unsigned char *loaded = NULL;
    size_t bytes = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const bool without_descriptors = tdm_program_cache_load(*state, &key, &loaded, &bytes);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &former), 0);
    counted_host_fail_from(1);
    const bool without_memory = tdm_program_cache_load(*state, &key, &loaded, &bytes);
    assert_true(counted_host_recover());
    assert_false(without_descriptors || without_memory);
    assert_null(loaded);
    expect_present(*state, &key);
}

/* ---- bad files ------------------------------------------------------------------------------- */

/* Files that are shorter or longer than their header says. */
TEST_WITH(test_wrong_length, setup, teardown) {
    const tdm_program_key key = key_of("one");
    const int full = HEADER_BYTES + PAYLOAD_BYTES;
    const char *const path = path_of(&key);
    for (int length = 0; length <= full + 1; length += length <= HEADER_BYTES ? 1 : 833) {
        store(*state, &key);
        assert_int_equal(truncate(path, length), 0);
        expect_healed(*state, &key);
    }
    for (int off = -1; off <= 1; off += 2) {
        store(*state, &key);
        assert_int_equal(truncate(path, full + off), 0);
        expect_healed(*state, &key);
    }
}

/* Any flipped byte, in the header or in the payload, must be detected. */
TEST_WITH(test_flipped_byte, setup, teardown) {
    const tdm_program_key key = key_of("one");
    const char *const path = path_of(&key);
    for (int at = 0; at < HEADER_BYTES + PAYLOAD_BYTES; at += at < HEADER_BYTES + 8 ? 1 : 499) {
        store(*state, &key);
        const int file = open(path, O_RDWR);
        assert_true(file >= 0);
        unsigned char byte;
        assert_int_equal(pread(file, &byte, 1, at), 1);
        byte ^= 0x10;
        assert_int_equal(pwrite(file, &byte, 1, at), 1);
        close(file);
        expect_healed(*state, &key);
    }
}

TEST_WITH(test_wrong_key, setup, teardown) {
    const tdm_program_key key = key_of("one"), other = key_of("two");
    store(*state, &key);
    assert_int_equal(rename(path_of(&key), path_of(&other)), 0);
    expect_healed(*state, &other);
}

TEST_WITH(test_symlink, setup, teardown) {
    const tdm_program_key key = key_of("one"), other = key_of("two");
    char aside[512];
    const char *const path = path_of(&key);
    snprintf(aside, sizeof aside, "%s/aside", folder);
    store(*state, &key);
    assert_int_equal(rename(path, aside), 0);
    assert_int_equal(symlink(aside, path), 0);
    expect_healed(*state, &key);
    assert_true(exists(aside)); // the target of the link is kept
    // Writing replaces a link and does not follow it.
    assert_int_equal(symlink("/tmp/tandem-cache-test-nowhere", path_of(&other)), 0);
    store(*state, &other);
    expect_present(*state, &other);
    assert_false(exists("/tmp/tandem-cache-test-nowhere"));
}

TEST_WITH(test_pipe_does_not_block, setup, teardown) {
    const tdm_program_key key = key_of("one");
    const char *const path = path_of(&key);
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_healed(*state, &key);
}

TEST_WITH(test_directory_in_the_way, setup, teardown) {
    const tdm_program_key key = key_of("one");
    const char *const path = path_of(&key);
    assert_int_equal(mkdir(path, 0700), 0);
    expect_absent(*state, &key);
    assert_false(tdm_program_cache_store(*state, &key, payload, sizeof payload));
    assert_int_equal(rmdir(path), 0);
    store(*state, &key);
    expect_present(*state, &key);
}

/* Other users may own or write to a file. Only root can change an owner, so other users skip that
 * part. */
TEST_WITH(test_others_own_or_write, setup, teardown) {
    const tdm_program_key key = key_of("one");
    const char *const path = path_of(&key);
    const mode_t modes[] = {0620, 0602};
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        store(*state, &key);
        assert_int_equal(chmod(path, modes[i]), 0);
        expect_healed(*state, &key);
    }
    if (geteuid() != 0)
        return;
    store(*state, &key);
    assert_int_equal(chown(path, 12345, 12345), 0);
    expect_healed(*state, &key);
    assert_int_equal(chown(folder, 12345, 12345), 0);
    assert_null(tdm_program_cache_open(folder));
    assert_int_equal(chown(folder, 0, 0), 0);
}

/* ---- bad folders ----------------------------------------------------------------------------- */

TEST_WITH(test_shared_directory_is_refused, setup, teardown) {
    assert_int_equal(chmod(folder, 0770), 0);
    assert_null(tdm_program_cache_open(folder));
    assert_int_equal(chmod(folder, 0702), 0);
    assert_null(tdm_program_cache_open(folder));
    assert_int_equal(chmod(folder, 0755), 0);
    tdm_program_cache *const cache = tdm_program_cache_open(folder);
    assert_non_null(cache);
    tdm_program_cache_close(cache);
}

TEST_WITH(test_folders_are_created, setup, teardown) {
    char path[512];
    struct stat status;
    snprintf(path, sizeof path, "%s/a/b/c", folder);
    tdm_program_cache *const cache = tdm_program_cache_open(path);
    assert_non_null(cache);
    assert_int_equal(stat(path, &status), 0);
    assert_int_equal(status.st_mode & 0777, 0700);
    tdm_program_cache_close(cache);
    snprintf(path, sizeof path, "%s/file", folder);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    assert_null(tdm_program_cache_open(path));
    snprintf(path, sizeof path, "%s/file/below", folder);
    assert_null(tdm_program_cache_open(path));
}

/*
 * The folder of an open cache is deleted: calls fail without damage. A read-only folder would not
 * stop root. */
TEST_WITH(test_deleted_directory, setup, teardown) {
    const tdm_program_key key = key_of("one");
    tdm_program_cache_totals totals;
    assert_int_equal(rmdir(folder), 0);
    assert_false(tdm_program_cache_store(*state, &key, payload, sizeof payload));
    expect_absent(*state, &key);
    if (tdm_program_cache_measure(*state, &totals))
        assert_int_equal(totals.files, 0);
    assert_int_equal(mkdir(folder, 0700), 0);
}

/* Runs `prepare` in a child and checks that storing then fails without damage. */
static void expect_store_fails(void **state, bool (*prepare)(void)) {
    const tdm_program_key key = key_of("one"), kept = key_of("kept");
    store(*state, &kept);
    const pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        _exit(!prepare()                                                       ? 2
              : tdm_program_cache_store(*state, &key, payload, sizeof payload) ? 1
                                                                               : 0);
    int result;
    assert_int_equal(waitpid(child, &result, 0), child);
    assert_int_equal(result, 0);
    chmod(folder, 0700);
    expect_absent(*state, &key);
    expect_present(*state, &kept);
    // No partly written file stays behind.
    char command[512];
    snprintf(command, sizeof command, "test $(ls -A '%s' | wc -l) -eq 1", folder);
    assert_int_equal(system(command), 0);
}

/* Drops root's rights and makes the folder read-only after it was opened. */
static bool make_read_only(void) {
    return (geteuid() != 0 || (chown(folder, 12345, 12345) == 0 && setuid(12345) == 0)) &&
           chmod(folder, 0500) == 0;
}

TEST_WITH(test_read_only_directory, setup, teardown) {
    expect_store_fails(state, make_read_only);
}

/* A limit on the file size makes write() fail as on a full disk. */
static bool fill_disk(void) {
    const struct rlimit limit = {.rlim_cur = 1000, .rlim_max = 1000};
    signal(SIGXFSZ, SIG_IGN);
    return setrlimit(RLIMIT_FSIZE, &limit) == 0;
}

TEST_WITH(test_disk_full, setup, teardown) {
    expect_store_fails(state, fill_disk);
}

TEST_WITH(test_environment, setup, teardown) {
    static const struct {
        const char *own, *xdg, *home, *expected;
    } rows[] = {
        {"/a/b", "/x", "/h", "/a/b"},
        {"off", "/x", "/h", NULL},
        {NULL, "/x", "/h", "/x/tandem"},
        {"", "/x", "/h", "/x/tandem"},
        {NULL, "relative", "/h", "/h/.cache/tandem"},
        {NULL, NULL, "/h", "/h/.cache/tandem"},
        {NULL, NULL, "relative", NULL},
        {NULL, NULL, NULL, NULL},
    };
    const char *const names[3] = {"TANDEM_CACHE_DIR", "XDG_CACHE_HOME", "HOME"};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        const char *const values[3] = {rows[i].own, rows[i].xdg, rows[i].home};
        for (int j = 0; j < 3; j++)
            assert_int_equal(values[j] ? setenv(names[j], values[j], 1) : unsetenv(names[j]), 0);
        char *const path = tdm_program_cache_path();
        if (rows[i].expected)
            assert_string_equal(path, rows[i].expected);
        else
            assert_null(path);
        tdm_host_free(path);
    }
}

/* ---- limit on the total size ----------------------------------------------------------------- */

static void set_age(const tdm_program_key *key, time_t seconds) {
    const char *const path = path_of(key);
    const struct timespec times[2] = {{.tv_sec = seconds}, {.tv_sec = seconds}};
    assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static tdm_program_cache *open_limited(const char *limit) {
    setenv("TANDEM_CACHE_LIMIT", limit, 1);
    tdm_program_cache *const cache = tdm_program_cache_open(folder);
    unsetenv("TANDEM_CACHE_LIMIT");
    assert_non_null(cache);
    return cache;
}

TEST_WITH(test_limit_evicts_the_unused, setup, teardown) {
    const tdm_program_key keys[4] = {key_of("a"), key_of("b"), key_of("c"), key_of("d")};
    tdm_program_cache *const cache = open_limited("16000"); // three files of 5088 bytes
    tdm_program_cache *const narrow = open_limited("5087");
    assert_false(tdm_program_cache_store(narrow, &keys[0], payload, sizeof payload));
    tdm_program_cache_close(narrow);
    for (int i = 0; i < 3; i++) {
        store(cache, &keys[i]);
        set_age(&keys[i], 1000 * (i + 1));
    }
    expect_present(cache, &keys[0]); // used most recently, so the second is the oldest
    store(cache, &keys[3]);
    expect_absent(cache, &keys[1]);
    for (int i = 0; i < 4; i++)
        if (i != 1)
            expect_present(cache, &keys[i]);
    tdm_program_cache_totals totals;
    assert_true(tdm_program_cache_measure(cache, &totals));
    assert_int_equal(totals.files, 3);
    assert_int_equal(totals.bytes, 3 * (HEADER_BYTES + PAYLOAD_BYTES));
    assert_int_equal(totals.limit, 16000);
    tdm_program_cache_trim(cache, 0);
    assert_true(tdm_program_cache_measure(cache, &totals));
    assert_int_equal(totals.files, 0);
    tdm_program_cache_close(cache);
}

TEST_WITH(test_foreign_files_are_left_alone, setup, teardown) {
    char path[512], stale[512], fresh[512];
    snprintf(path, sizeof path, "%s/notes.txt", folder);
    snprintf(stale, sizeof stale, "%s/.tandem-new-1-1", folder);
    snprintf(fresh, sizeof fresh, "%s/.tandem-new-1-2", folder);
    close(open(path, O_CREAT | O_WRONLY, 0600));
    close(open(stale, O_CREAT | O_WRONLY, 0600));
    close(open(fresh, O_CREAT | O_WRONLY, 0600));
    const struct timespec old[2] = {{.tv_sec = 1000}, {.tv_sec = 1000}};
    assert_int_equal(utimensat(AT_FDCWD, stale, old, 0), 0);
    tdm_program_cache_trim(*state, 0);
    assert_true(exists(path));
    assert_false(exists(stale)); // left by a crashed writer
    assert_true(exists(fresh));  // may belong to an active writer
}

/* ---- several threads and processes at once --------------------------------------------------- */

#define ROUNDS 60

typedef struct worker {
    tdm_program_cache *cache;
    int broken; /* reads that returned other bytes than were stored */
} worker;

/* Readers, writers and deleters of the same keys compete; every file that is found must be
 * complete. */
static void *compete(void *user) {
    worker *const self = user;
    for (int i = 0; i < ROUNDS; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i % 5);
        const tdm_program_key key = key_of(name);
        unsigned char *loaded;
        size_t bytes;
        tdm_program_cache_store(self->cache, &key, payload, sizeof payload);
        if (tdm_program_cache_load(self->cache, &key, &loaded, &bytes)) {
            self->broken += bytes != sizeof payload || memcmp(loaded, payload, bytes) != 0;
            tdm_host_free(loaded);
        }
        if (i % 7 == 0)
            tdm_program_cache_remove(self->cache, &key);
        if (i % 11 == 0)
            tdm_program_cache_trim(self->cache, 2 * (HEADER_BYTES + PAYLOAD_BYTES));
    }
    return NULL;
}

TEST_WITH(test_threads, setup, teardown) {
    pthread_t threads[4];
    worker workers[4];
    for (int i = 0; i < 4; i++) {
        workers[i] = (worker){.cache = *state};
        assert_int_equal(pthread_create(&threads[i], NULL, compete, &workers[i]), 0);
    }
    for (int i = 0; i < 4; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(workers[i].broken, 0);
    }
    const tdm_program_key key = key_of("0");
    store(*state, &key);
    expect_present(*state, &key);
}

TEST_WITH(test_processes, setup, teardown) {
    pid_t children[4];
    for (int i = 0; i < 4; i++) {
        children[i] = fork();
        assert_true(children[i] >= 0);
        if (children[i] == 0) {
            worker self = {.cache = tdm_program_cache_open(folder)};
            if (!self.cache)
                _exit(2);
            compete(&self);
            _exit(self.broken != 0);
        }
    }
    for (int i = 0; i < 4; i++) {
        int result;
        assert_int_equal(waitpid(children[i], &result, 0), children[i]);
        assert_int_equal(result, 0);
    }
    // No writer may have left a temporary file.
    char command[512];
    snprintf(command, sizeof command, "test -z \"$(ls -A '%s' | grep tandem-new)\"", folder);
    assert_int_equal(system(command), 0);
}

int main(void) {
    if (!counted_host_install())
        return 1;
    return test_run_all(NULL, NULL);
}
