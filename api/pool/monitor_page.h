/*
 * The page that `tandem monitor` looks at: one file per process, owner-only, that holds the counters themselves.
 *
 * With TANDEM_MONITOR set the statistics of each pool are counted in a section of this file, mapped and shared, instead of
 * in host memory: publishing costs nothing beyond counting. A section's counters are guarded by their sequence lock
 * (pool_statistics.h). Who reads must believe nothing: the file may be of another version, cut short, or made up.
 */
#ifndef TANDEM_API_POOL_MONITOR_PAGE_H
#define TANDEM_API_POOL_MONITOR_PAGE_H

#include "api/pool/pool_statistics.h"

/* The file is called this, and the number of the process. */
#define TDM_MONITOR_PREFIX "tandem-monitor-"
#define TDM_MONITOR_MAGIC UINT64_C(0x31304E4F4D4D4454)
/* Of this layout, the words of tdm_statistic_words included. */
#define TDM_MONITOR_VERSION 1
/* Pools of one process that have a section; others are not seen. */
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
    uint64_t start_time; /* of the process, in clock ticks since the machine started */
    char program[64];
    char library[32];
    tdm_monitor_section sections[TDM_MONITOR_SECTIONS];
} tdm_monitor_page;

/*
 * A context begins or ends: the first one of the process makes the file, where TANDEM_MONITOR asks for it, and the last
 * one removes it. What hinders it goes to the log, topic "pool"; nothing fails.
 */
void tdm_monitor_retain(void);
void tdm_monitor_release(void);

/* A free section's words, all zero; NULL where there is no page, or no free section. */
tdm_statistic_words *tdm_monitor_section_open(const char *name);
void tdm_monitor_section_close(tdm_statistic_words *words);

/* ---- for readers too ------------------------------------------------------------------------------ */

/* Where the files are: what TANDEM_MONITOR names, else XDG_RUNTIME_DIR; false where there is no such place. */
bool tdm_monitor_folder(char *folder, size_t bytes);

/* When a process started, from /proc; 0: there is no such process. */
uint64_t tdm_monitor_start_time(uint64_t process);

/* The process of a file's name, 0 where it is no name of ours. */
uint64_t tdm_monitor_process_of(const char *file_name);

#endif
