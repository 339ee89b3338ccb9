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

/* {kernel, governor, threads, variables: {…}, …}. NULL when memory is short. */
struct cJSON *environment_settings(void);

/* Processors this process may run on, at least 1. */
int environment_processors(void);

/* Bytes of the largest CPU cache, 0 when the system does not tell. */
long long environment_cache_bytes(void);

/* Bytes of memory that processes can take without swapping, 0 when the system does not tell. */
long long environment_available_bytes(void);

/* ---- others on the machine -------------------------------------------------------------------------- */

/* Figures of a run on a machine that was busy for more than this share are worth little. */
extern const double machine_busy_much;

typedef struct machine_use {
    double all;  /* ticks of all processors since the start of the system; NaN: not known */
    double busy; /* of these, not idle; what a host gave to other guests counts as busy */
    double own;  /* ticks of this process and of its children that have ended */
} machine_use;

/* From a file like /proc/stat, with own ticks that are known; tests give theirs. */
machine_use machine_use_in(const char *path, double own);
machine_use machine_use_now(void);

/*
 * The share of all processors' time, 0 to 1, that neither this process nor those of its children
 * that ended in between took. NaN where the system does not tell. In a container /proc/stat is
 * often that of the whole machine.
 */
double machine_busy_share(const machine_use *before, const machine_use *after);

#endif
