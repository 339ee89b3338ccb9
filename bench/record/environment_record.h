/*
 * The recorded properties of the machine that ran a measurement. They are enough to judge a figure
 * and to repeat it. They do not identify the machine or its user (no host name, no user, no paths).
 */
#ifndef TANDEM_BENCH_RECORD_ENVIRONMENT_RECORD_H
#define TANDEM_BENCH_RECORD_ENVIRONMENT_RECORD_H

#include <stddef.h>

struct cJSON;

/* Returns {cpu, cores, ram_bytes, os}, or NULL if memory is short. */
struct cJSON *environment_host(void);

/* Returns {kernel, governor, threads, variables: {…}, …}, or NULL if memory is short. */
struct cJSON *environment_settings(void);

/* Returns the number of processors that this process may run on, at least 1. */
int environment_processors(void);

/* Returns the bytes of the largest CPU cache, or 0 if the system does not report it. */
long long environment_cache_bytes(void);

/* Returns the bytes of memory that are available without swapping, or 0 if unknown. */
long long environment_available_bytes(void);

/* ---- other processes on the machine ---------------------------------------------------------- */

/* If other processes used more than this part of the machine, the figures are unreliable. */
extern const double machine_busy_much;

typedef struct machine_use {
    double all;  /* ticks of all processors since the system started; NaN: unknown */
    double busy; /* those that were not idle; time stolen by other guests counts as busy */
    double own;  /* ticks of this process and of its ended children */
} machine_use;

/* Reads a file like /proc/stat, with known own ticks. Tests pass their own file. */
machine_use machine_use_in(const char *path, double own);
machine_use machine_use_now(void);

/*
 * Returns the fraction, 0 to 1, of all processors' time that other processes used. The time of this
 * process, and of its children that ended in between, is excluded. Returns NaN if the system does
 * not report it. In a container, /proc/stat often covers the whole machine.
 */
double machine_busy_share(const machine_use *before, const machine_use *after);

#endif
