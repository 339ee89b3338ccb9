/* Creates and removes the page of counters that `tandem monitor` reads. The first context creates
 * it, and the last one removes it. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "api/base/base.h"
#include "api/pool/monitor_page.h"

#define FOLDER_BYTES 4096
/* At most this many entries of a folder are searched for pages of dead processes. */
#define SWEEP_LIMIT 4096

static struct {
    pthread_mutex_t lock;
    int contexts;
    pid_t process; /* the process that created the page; in a child of fork, its parent */
    int directory;
    tdm_monitor_page *page;
} monitor = {.lock = PTHREAD_MUTEX_INITIALIZER, .directory = -1};

/* ---- names and processes --------------------------------------------------------------------- */

bool tdm_monitor_folder(char *folder, size_t bytes) {
    const char *const named = tdm_environment("TANDEM_MONITOR", true);
    const char *const runtime = tdm_environment("XDG_RUNTIME_DIR", true);
    const char *const chosen = named && *named == '/' ? named : runtime;
    if (!chosen || *chosen != '/')
        return false;
    return snprintf(folder, bytes, "%s", chosen) < (int)bytes;
}

/* The start time is the 22nd field of /proc/PID/stat. The second field is the program's name in
 * parentheses, which may contain any character. Fields are therefore counted from the last
 * parenthesis. */
uint64_t tdm_monitor_start_time(uint64_t process) {
    char path[64], text[1024];
    snprintf(path, sizeof path, "/proc/%llu/stat", (unsigned long long)process);
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return 0;
    const ssize_t bytes = read(file, text, sizeof text - 1);
    close(file);
    if (bytes <= 0)
        return 0;
    text[bytes] = '\0';
    const char *field = strrchr(text, ')');
    for (int i = 2; field && i < 22; i++)
        field = strchr(field + 1, ' ');
    return field ? strtoull(field + 1, NULL, 10) : 0;
}

uint64_t tdm_monitor_process_of(const char *file_name) {
    const size_t prefix = strlen(TDM_MONITOR_PREFIX);
    if (strncmp(file_name, TDM_MONITOR_PREFIX, prefix) != 0)
        return 0;
    const char *const digits = file_name + prefix;
    const size_t length = strspn(digits, "0123456789");
    if (length == 0 || length > 18 || digits[length] != '\0' || digits[0] == '0')
        return 0;
    return strtoull(digits, NULL, 10);
}

static void name_of(uint64_t process, char *name, size_t bytes) {
    snprintf(name, bytes, TDM_MONITOR_PREFIX "%llu", (unsigned long long)process);
}

/* ---- the file -------------------------------------------------------------------------------- */

/* Opens the folder if only this user may write to it. Otherwise returns -1 and logs the reason. */
static int open_folder(void) {
    char folder[FOLDER_BYTES];
    struct stat status;
    if (!tdm_monitor_folder(folder, sizeof folder)) {
        tdm_log(TDM_LOG_WARNING, "pool",
                "no monitor page: TANDEM_MONITOR names no folder and XDG_RUNTIME_DIR is not set");
        return -1;
    }
    const int directory = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) {
        tdm_log(TDM_LOG_WARNING, "pool", "no monitor page: %s: %s", folder, strerror(errno));
        return -1;
    }
    if (fstat(directory, &status) != 0 || status.st_uid != geteuid() ||
        (status.st_mode & (S_IWGRP | S_IWOTH)) != 0) {
        tdm_log(TDM_LOG_WARNING, "pool",
                "no monitor page: %s belongs to another user, or others may write to it", folder);
        close(directory);
        return -1;
    }
    return directory;
}

/* True if the file is the page of a process that no longer exists. A file that cannot be read
 * counts as not stale. */
static bool is_stale(int directory, const char *name, uint64_t process) {
    uint64_t words[5];
    const int file = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        return false;
    const bool complete = pread(file, words, sizeof words, 0) == (ssize_t)sizeof words;
    close(file);
    return complete && words[0] == TDM_MONITOR_MAGIC && words[3] == process &&
           tdm_monitor_start_time(process) != words[4];
}

static void sweep(int directory) {
    const int copy = openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *const folder = copy >= 0 ? fdopendir(copy) : NULL;
    if (!folder) {
        if (copy >= 0)
            close(copy);
        return;
    }
    const struct dirent *entry;
    for (int i = 0; i < SWEEP_LIMIT && (entry = readdir(folder)) != NULL; i++) {
        const uint64_t process = tdm_monitor_process_of(entry->d_name);
        if (process != 0 && is_stale(directory, entry->d_name, process))
            unlinkat(directory, entry->d_name, 0);
    }
    closedir(folder);
}

/* Creates an empty file. It replaces an existing file, which was left by an earlier process with
 * the same number. */
static int create_file(int directory, const char *name) {
    const int flags = O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int file = openat(directory, name, flags, 0600);
    if (file < 0 && errno == EEXIST && unlinkat(directory, name, 0) == 0)
        file = openat(directory, name, flags, 0600);
    return file;
}

static tdm_monitor_page *map_file(int file) {
    // If the space were not allocated here, a full disk would later cause SIGBUS, not an error.
    const int full = posix_fallocate(file, 0, (off_t)sizeof(tdm_monitor_page));
    if (full != 0) {
        errno = full;
        return NULL;
    }
    void *const page =
        mmap(NULL, sizeof(tdm_monitor_page), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    return page == MAP_FAILED ? NULL : page;
}

static void write_header(tdm_monitor_page *page, uint64_t process) {
    page->version = TDM_MONITOR_VERSION;
    page->page_bytes = sizeof *page;
    page->process = process;
    page->start_time = tdm_monitor_start_time(process);
    snprintf(page->library, sizeof page->library, "%s", tdm_version_text());
    const int file = open("/proc/self/comm", O_RDONLY | O_CLOEXEC);
    const ssize_t bytes = file < 0 ? 0 : read(file, page->program, sizeof page->program - 1);
    if (file >= 0)
        close(file);
    page->program[bytes > 0 ? strcspn(page->program, "\n") : 0] = '\0';
    atomic_store(&page->magic, TDM_MONITOR_MAGIC);
}

static void open_page(void) {
    char name[64];
    const int directory = open_folder();
    if (directory < 0)
        return;
    const uint64_t process = (uint64_t)getpid();
    name_of(process, name, sizeof name);
    sweep(directory);
    const int file = create_file(directory, name);
    tdm_monitor_page *const page = file < 0 ? NULL : map_file(file);
    if (!page)
        tdm_log(TDM_LOG_WARNING, "pool", "no monitor page: %s: %s", name, strerror(errno));
    if (file >= 0)
        close(file);
    if (!page) {
        if (file >= 0)
            unlinkat(directory, name, 0);
        close(directory);
        return;
    }
    write_header(page, process);
    monitor.page = page;
    monitor.directory = directory;
    monitor.process = getpid();
}

static void close_page(void) {
    char name[64];
    if (!monitor.page)
        return;
    name_of((uint64_t)monitor.process, name, sizeof name);
    unlinkat(monitor.directory, name, 0);
    close(monitor.directory);
    munmap(monitor.page, sizeof *monitor.page);
    monitor.page = NULL;
    monitor.directory = -1;
}

static bool is_wanted(void) {
    const char *const value = tdm_environment("TANDEM_MONITOR", true);
    return value && *value && strcmp(value, "0") != 0 && strcmp(value, "off") != 0;
}

/* Makes a child of fork forget the page of its parent. The child may then create its own page. */
static void forget_parents_page(void) {
    if (!monitor.page || monitor.process == getpid())
        return;
    close(monitor.directory);
    monitor.page = NULL;
    monitor.directory = -1;
    monitor.contexts = 0;
}

void tdm_monitor_retain(void) {
    pthread_mutex_lock(&monitor.lock);
    forget_parents_page();
    if (monitor.contexts++ == 0 && is_wanted())
        open_page();
    pthread_mutex_unlock(&monitor.lock);
}

void tdm_monitor_release(void) {
    pthread_mutex_lock(&monitor.lock);
    if (--monitor.contexts == 0)
        close_page();
    pthread_mutex_unlock(&monitor.lock);
}

/* ---- sections -------------------------------------------------------------------------------- */

static void clear_words(tdm_word *words, size_t count) {
    for (size_t i = 0; i < count; i++)
        atomic_store_explicit(&words[i], 0, memory_order_relaxed);
}

static void write_name(tdm_monitor_section *section, const char *name) {
    uint64_t copy[TDM_MONITOR_NAME_BYTES / 8] = {0};
    memcpy(copy, name, strnlen(name, TDM_MONITOR_NAME_BYTES - 1));
    for (size_t i = 0; i < TDM_MONITOR_NAME_BYTES / 8; i++)
        atomic_store_explicit(&section->name[i], copy[i], memory_order_relaxed);
}

tdm_statistic_words *tdm_monitor_section_open(const char *name) {
    tdm_monitor_section *found = NULL;
    pthread_mutex_lock(&monitor.lock);
    for (int i = 0; monitor.page && !found && i < TDM_MONITOR_SECTIONS; i++)
        if (atomic_load(&monitor.page->sections[i].live) == 0)
            found = &monitor.page->sections[i];
    if (found) {
        clear_words((tdm_word *)&found->statistics, sizeof found->statistics / sizeof(tdm_word));
        write_name(found, name);
        atomic_store(&found->live, 1);
    }
    pthread_mutex_unlock(&monitor.lock);
    return found ? &found->statistics : NULL;
}

void tdm_monitor_section_close(tdm_statistic_words *words) {
    char *const section = (char *)words - offsetof(tdm_monitor_section, statistics);
    pthread_mutex_lock(&monitor.lock);
    atomic_store(&((tdm_monitor_section *)section)->live, 0);
    pthread_mutex_unlock(&monitor.lock);
}
