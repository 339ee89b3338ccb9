/*
 * The page that `tandem monitor` reads: one file per process, readable by the owner only, that
 * holds the counters themselves.
 *
 * With TANDEM_MONITOR set, the statistics of each pool are counted in a section of this file,
 * mapped and shared, not in host memory. Publishing therefore costs nothing beyond counting. The
 * sequence lock of a section protects its counters (pool_statistics.h).
 *
 * A reader must trust nothing: the file may have another version, be truncated or be forged.
 */
#ifndef TANDEM_API_POOL_MONITOR_PAGE_H
#define TANDEM_API_POOL_MONITOR_PAGE_H

#include "api/pool/pool_statistics.h"

/* Prefix of the file name; the process number follows. */
#define TDM_MONITOR_PREFIX "tandem-monitor-"
#define TDM_MONITOR_MAGIC UINT64_C(0x31304E4F4D4D4454)
/* Version of this layout, including tdm_statistic_words. */
#define TDM_MONITOR_VERSION 1
/* Largest number of pools that have a section; `tandem monitor` does not show other pools. */
#define TDM_MONITOR_SECTIONS 16
#define TDM_MONITOR_NAME_BYTES 192

typedef struct tdm_monitor_section {
    tdm_word live; /* 0: free */
    tdm_word name[TDM_MONITOR_NAME_BYTES / 8];
    tdm_statistic_words statistics;
} tdm_monitor_section;

typedef struct tdm_monitor_page {
    tdm_word magic; /* written last */
    uint64_t version;
    uint64_t page_bytes;
    uint64_t process;
    uint64_t start_time; /* start of the process, in clock ticks since boot */
    char program[64];
    char library[32];
    tdm_monitor_section sections[TDM_MONITOR_SECTIONS];
} tdm_monitor_page;

/* Counts the contexts of the process. The first one creates the file if TANDEM_MONITOR is set, and
 * the last one removes it. Problems are only logged, under the topic "pool". */
void tdm_monitor_retain(void);
void tdm_monitor_release(void);

/* Returns the words of a free section, all zero. NULL if there is no page or no free section. */
tdm_statistic_words *tdm_monitor_section_open(const char *name);
void tdm_monitor_section_close(tdm_statistic_words *words);

/* ---- also for readers ------------------------------------------------------------------------ */

/* Writes the folder of the files: the value of TANDEM_MONITOR, else XDG_RUNTIME_DIR. Returns false
 * if neither is set to a folder. */
bool tdm_monitor_folder(char *folder, size_t bytes);

/* Returns the start time of a process from /proc, or 0 if there is no such process. */
uint64_t tdm_monitor_start_time(uint64_t process);

/* Returns the process number in a file name, or 0 if it is not the name of a page. */
uint64_t tdm_monitor_process_of(const char *file_name);

#endif
