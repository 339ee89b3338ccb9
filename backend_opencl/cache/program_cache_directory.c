/* The program cache's directory: its path, its permissions and its size. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "backend_opencl/cache/program_cache_internal.h"

#define DEFAULT_LIMIT (256ull << 20)
/* A temporary file that is older than this was left behind. */
#define TEMPORARY_SECONDS 3600

bool tdm_program_cache_is_private(const struct stat *file) {
    return file->st_uid == geteuid() && (file->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* ---- the path -------------------------------------------------------------------------------- */

char *tdm_program_cache_path(void) {
    return tdm_user_path("TANDEM_CACHE_DIR", "XDG_CACHE_HOME", "/.cache", "/tandem");
}

/* ---- opening --------------------------------------------------------------------------------- */

/*
 * Creates the missing directories of the path. A failure becomes visible when the directory is
 * opened.
 */
static void make_directories(const char *path) {
    char part[PATH_MAX];
    if (snprintf(part, sizeof part, "%s", path) >= (int)sizeof part)
        return;
    for (char *slash = part; (slash = strchr(slash + 1, '/')) != NULL; *slash = '/') {
        *slash = '\0';
        (void)mkdir(part, 0700);
    }
    (void)mkdir(part, 0700);
}

static uint64_t limit_by_environment(void) {
    const char *const text = tdm_environment("TANDEM_CACHE_LIMIT", true);
    char *end;
    const unsigned long long limit = text ? strtoull(text, &end, 10) : 0;
    return text && end != text && *end == '\0' && *text != '-' ? limit : DEFAULT_LIMIT;
}

tdm_program_cache *tdm_program_cache_open(const char *path) {
    make_directories(path);
    const int directory = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (directory < 0) {
        tdm_log(TDM_LOG_INFO, "cache", "no program cache: %s: %s", path, strerror(errno));
        return NULL;
    }
    struct stat status;
    if (fstat(directory, &status) != 0 || !tdm_program_cache_is_private(&status)) {
        tdm_log(TDM_LOG_WARNING, "cache",
                "no program cache: %s belongs to another user, or others may write to it", path);
        close(directory);
        return NULL;
    }
    tdm_program_cache *const cache = tdm_host_calloc(1, sizeof *cache);
    char *const copy = tdm_host_strdup(path);
    if (!cache || !copy) {
        tdm_host_free(cache);
        tdm_host_free(copy);
        close(directory);
        return NULL;
    }
    *cache =
        (tdm_program_cache){.directory = directory, .limit = limit_by_environment(), .path = copy};
    return cache;
}

void tdm_program_cache_close(tdm_program_cache *cache) {
    if (!cache)
        return;
    close(cache->directory);
    tdm_host_free(cache->path);
    tdm_host_free(cache);
}

/* ---- the size -------------------------------------------------------------------------------- */

typedef struct listed_file {
    char name[CACHE_NAME_BYTES];
    uint64_t bytes;
    struct timespec used;
} listed_file;

typedef struct listing {
    listed_file *files;
    size_t count, capacity;
    uint64_t bytes;
} listing;

static bool ends_with(const char *name, const char *suffix) {
    const size_t length = strlen(name), tail = strlen(suffix);
    return length >= tail && strcmp(name + length - tail, suffix) == 0;
}

static bool append(listing *list, const char *name, const struct stat *status) {
    if (list->count == list->capacity) {
        const size_t capacity = list->capacity ? 2 * list->capacity : 64;
        listed_file *const files =
            tdm_host_realloc(list->files, list->count * sizeof *files, capacity * sizeof *files);
        if (!files)
            return false;
        list->files = files;
        list->capacity = capacity;
    }
    listed_file *const file = &list->files[list->count++];
    const size_t length = strnlen(name, sizeof file->name - 1);
    memcpy(file->name, name, length);
    file->name[length] = '\0';
    file->bytes = (uint64_t)status->st_size;
    file->used = status->st_mtim;
    list->bytes += file->bytes;
    return true;
}

/* Deletes a temporary file that a crashed writer left behind. */
static void remove_stale(const tdm_program_cache *cache, const char *name,
                         const struct stat *status) {
    if (time(NULL) - status->st_mtime > TEMPORARY_SECONDS)
        unlinkat(cache->directory, name, 0);
}

static bool list_files(const tdm_program_cache *cache, listing *list) {
    // The scan opens its own descriptor, because closedir closes it and two threads must not share
    // a position.
    const int directory = openat(cache->directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *const stream = directory < 0 ? NULL : fdopendir(directory);
    if (!stream) {
        if (directory >= 0)
            close(directory);
        return false;
    }
    bool complete = true;
    const struct dirent *entry;
    while (complete && (entry = readdir(stream)) != NULL) {
        struct stat status;
        const bool temporary =
            strncmp(entry->d_name, CACHE_TEMPORARY, sizeof CACHE_TEMPORARY - 1) == 0;
        const bool program =
            ends_with(entry->d_name, CACHE_SUFFIX) && strlen(entry->d_name) == CACHE_NAME_BYTES - 1;
        if ((!temporary && !program) ||
            fstatat(cache->directory, entry->d_name, &status, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        if (temporary)
            remove_stale(cache, entry->d_name, &status);
        else
            complete = append(list, entry->d_name, &status);
    }
    closedir(stream);
    return complete;
}

bool tdm_program_cache_measure(tdm_program_cache *cache, tdm_program_cache_totals *totals) {
    listing list = {0};
    const bool listed = list_files(cache, &list);
    if (listed)
        *totals = (tdm_program_cache_totals){
            .files = list.count, .bytes = list.bytes, .limit = cache->limit};
    tdm_host_free(list.files);
    return listed;
}

static int by_age(const void *left, const void *right) {
    const struct timespec *const a = &((const listed_file *)left)->used;
    const struct timespec *const b = &((const listed_file *)right)->used;
    if (a->tv_sec != b->tv_sec)
        return a->tv_sec < b->tv_sec ? -1 : 1;
    return (a->tv_nsec > b->tv_nsec) - (a->tv_nsec < b->tv_nsec);
}

void tdm_program_cache_trim(tdm_program_cache *cache, uint64_t bytes) {
    listing list = {0};
    if (list_files(cache, &list) && list.bytes > bytes) {
        qsort(list.files, list.count, sizeof *list.files, by_age);
        for (size_t i = 0; i < list.count && list.bytes > bytes; i++) {
            if (unlinkat(cache->directory, list.files[i].name, 0) == 0)
                tdm_log(TDM_LOG_DEBUG, "cache", "%s/%s: evicted", cache->path, list.files[i].name);
            list.bytes -= list.files[i].bytes;
        }
    }
    tdm_host_free(list.files);
}
