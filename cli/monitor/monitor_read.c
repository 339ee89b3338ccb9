/*
 * Pages are read with pread and never mapped. If a file is truncated meanwhile, a read is short,
 * but no signal is raised. To follow a sequence lock, the reader reads the sequence, the words, and
 * the sequence again.
 */
#include "cli/monitor/monitor.h"

#include <dirent.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
    ATTEMPTS = 200
};

static int read_at(int file, void *target, size_t bytes, size_t offset) {
    return pread(file, target, bytes, (off_t)offset) == (ssize_t)bytes;
}

/* Reads a consistent copy of the words that follow the sequence at `offset`. */
static int read_locked(int file, size_t offset, uint64_t *words, size_t count) {
    for (int attempt = 0; attempt < ATTEMPTS; attempt++) {
        uint64_t before = 0;
        uint64_t after = 0;
        if (!read_at(file, &before, sizeof before, offset) ||
            !read_at(file, words, count * sizeof *words, offset + sizeof before) ||
            !read_at(file, &after, sizeof after, offset))
            return 0;
        if (before == after && before % 2 == 0)
            return 1;
    }
    return 0;
}

/* Copies at most `bytes` - 1 characters, and makes them printable. */
static void copy_text(char *target, const void *source, size_t bytes) {
    memcpy(target, source, bytes);
    target[bytes - 1] = '\0';
    for (char *text = target; *text != '\0'; text++)
        if (*text < 0x20 || *text > 0x7E)
            *text = '?';
}

static void read_tags(int file, size_t statistics, monitor_pool *pool) {
    uint64_t count = 0;
    pool->tag_count = 0;
    if (!read_at(file, &count, sizeof count, statistics + offsetof(tdm_statistic_words, tag_count)))
        return;
    for (uint64_t i = 0; i < count && i < TDM_STATISTIC_TAGS; i++) {
        uint64_t words[TDM_TAG_WORDS];
        tdm_memory_tag_usage *const tag = &pool->tags[pool->tag_count];
        const size_t at =
            statistics + offsetof(tdm_statistic_words, tags) + (size_t)i * sizeof(tdm_tag_words);
        if (!read_locked(file, at, words, TDM_TAG_WORDS))
            continue;
        *tag = (tdm_memory_tag_usage){.bytes = words[TDM_TAG_BYTES],
                                      .bytes_peak = words[TDM_TAG_BYTES_PEAK],
                                      .blocks = words[TDM_TAG_BLOCKS],
                                      .blocks_peak = words[TDM_TAG_BLOCKS_PEAK],
                                      .allocations = words[TDM_TAG_ALLOCATIONS]};
        copy_text(tag->tag, &words[TDM_TAG_TEXT], sizeof tag->tag);
        pool->tag_count++;
    }
}

static int read_section(int file, int index, monitor_pool *pool) {
    const size_t section =
        offsetof(tdm_monitor_page, sections) + (size_t)index * sizeof(tdm_monitor_section);
    const size_t statistics = section + offsetof(tdm_monitor_section, statistics);
    uint64_t head[1 + TDM_MONITOR_NAME_BYTES / 8];
    if (!read_at(file, head, sizeof head, section) || head[0] != 1)
        return 0;
    copy_text(pool->name, &head[1], sizeof pool->name);
    if (!read_locked(file, statistics, pool->values.words, TDM_STATISTIC_WORDS))
        return 0;
    read_tags(file, statistics, pool);
    return 1;
}

/* The fields before the sections, as they are laid out in the file. */
typedef struct page_header {
    uint64_t magic, version, page_bytes, process, start_time;
    char program[64];
    char library[32];
} page_header;

_Static_assert(sizeof(page_header) == offsetof(tdm_monitor_page, sections), "one layout");

static const char *check_file(int file) {
    struct stat status;
    if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode))
        return "its page is not a regular file";
    if (status.st_uid != geteuid())
        return "its page belongs to another user";
    if ((status.st_mode & (S_IWGRP | S_IWOTH)) != 0)
        return "other users may write to its page";
    return NULL;
}

static const char *check_header(const page_header *header, uint64_t process) {
    if (header->magic != TDM_MONITOR_MAGIC)
        return "its page was not written by Tandem or is not complete yet";
    if (header->version != TDM_MONITOR_VERSION || header->page_bytes != sizeof(tdm_monitor_page))
        return "its page was written by another version of Tandem";
    if (header->process != process)
        return "its page belongs to another process";
    if (tdm_monitor_start_time(process) != header->start_time)
        return "the process has ended";
    return NULL;
}

static const char *read_file(int file, uint64_t process, monitor_process *copy) {
    page_header header;
    struct stat status;
    const char *refusal = check_file(file);
    if (refusal != NULL)
        return refusal;
    if (!read_at(file, &header, sizeof header, 0))
        return "its page is truncated";
    refusal = check_header(&header, process);
    if (refusal != NULL)
        return refusal;
    if (fstat(file, &status) != 0 || status.st_size != (off_t)sizeof(tdm_monitor_page))
        return "its page is truncated";
    copy->process = process;
    copy_text(copy->program, header.program, sizeof copy->program);
    copy_text(copy->library, header.library, sizeof copy->library);
    copy->pool_count = 0;
    for (int i = 0; i < TDM_MONITOR_SECTIONS; i++)
        copy->pool_count += read_section(file, i, &copy->pools[copy->pool_count]);
    return NULL;
}

int monitor_open_folder(const char *path) {
    return open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
}

const char *monitor_read(int folder, uint64_t process, monitor_process *copy) {
    char name[64];
    snprintf(name, sizeof name, TDM_MONITOR_PREFIX "%llu", (unsigned long long)process);
    const int file = openat(folder, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    if (file < 0)
        return "it has no page; was it started with TANDEM_MONITOR?";
    const char *const refusal = read_file(file, process, copy);
    close(file);
    return refusal;
}

static int by_number(const void *a, const void *b) {
    const uint64_t left = *(const uint64_t *)a;
    const uint64_t right = *(const uint64_t *)b;
    return (left > right) - (left < right);
}

int monitor_list(int folder, uint64_t *processes, int capacity) {
    const int copy = openat(folder, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *const entries = copy < 0 ? NULL : fdopendir(copy);
    int count = 0;
    if (entries == NULL) {
        if (copy >= 0)
            close(copy);
        return 0;
    }
    for (struct dirent *entry = readdir(entries); entry != NULL && count < capacity;
         entry = readdir(entries)) {
        processes[count] = tdm_monitor_process_of(entry->d_name);
        count += processes[count] != 0;
    }
    closedir(entries);
    qsort(processes, (size_t)count, sizeof *processes, by_number);
    return count;
}
