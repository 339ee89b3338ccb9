/*
 * Copies the statistics files of processes (api/pool/monitor_page.h), without trusting their
 * contents, and shows the copies.
 */
#ifndef TANDEM_CLI_MONITOR_MONITOR_H
#define TANDEM_CLI_MONITOR_MONITOR_H

#include <stdio.h>

#include "api/pool/monitor_page.h"

struct cJSON;

enum {
    MONITOR_MAX_PROCESSES = 256
};

typedef struct monitor_pool {
    char name[TDM_MONITOR_NAME_BYTES];
    tdm_statistic_values values;
    int tag_count;
    tdm_memory_tag_usage tags[TDM_STATISTIC_TAGS];
} monitor_pool;

/* The strings are printable: control characters and non-ASCII bytes are replaced with '?'. */
typedef struct monitor_process {
    uint64_t process;
    char program[64];
    char library[32];
    int pool_count;
    monitor_pool pools[TDM_MONITOR_SECTIONS];
} monitor_process;

/* Returns the folder's descriptor, or -1 and errno. */
int monitor_open_folder(const char *path);

/* Lists at most `capacity` processes with a page in the folder, sorted. Returns how many. */
int monitor_list(int folder, uint64_t *processes, int capacity);

/* Copies one process's page. Returns NULL, or why the page cannot be shown. */
const char *monitor_read(int folder, uint64_t process, monitor_process *copy);

/* Draws each pool's bars, counters and `tags` largest tags on a terminal of `wide` columns. */
void monitor_draw(FILE *file, const monitor_process *process, int wide, int tags);

struct cJSON *monitor_json(const monitor_process *process);

#endif
