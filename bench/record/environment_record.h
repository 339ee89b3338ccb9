/*
 * What is recorded of the machine a measurement ran on: enough to judge a figure and to repeat it,
 * nothing that names the machine or its user (no host name, no user, no paths).
 */
#ifndef TANDEM_BENCH_RECORD_ENVIRONMENT_RECORD_H
#define TANDEM_BENCH_RECORD_ENVIRONMENT_RECORD_H

#include <stddef.h>

struct cJSON;

/* {cpu, cores, ram_bytes, os}. NULL when memory is short. */
struct cJSON *environment_host(void);

/* {kernel, governor, transparent_hugepage, microcode, cpu_mhz_now, threads, icd_files, variables:{…}, …}. NULL when memory is short. */
struct cJSON *environment_settings(void);

/* First line of a file of the system, without its newline; 0 when it cannot be read. */
int environment_read_line(const char *path, char *line, size_t size);

/* Processors this process may run on, at least 1. */
int environment_processors(void);

/* Bytes of the largest CPU cache, 0 when the system does not tell. */
long long environment_cache_bytes(void);

/*
 * Bytes of the CPU's data caches, as many of each as so many processors have together, the smallest first; returns how many there
 * are, at most `most`, 0 when the system does not tell.
 */
int environment_caches(int processors, double *bytes, int most);

/* Bytes of memory that processes can take without swapping, 0 when the system does not tell. */
long long environment_available_bytes(void);

#endif
