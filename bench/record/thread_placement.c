#include "bench/record/thread_placement.h"

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

/* PoCL ends the program where it is to keep a thread on a processor that there is not. */
static int fits_pocl(long processors) {
    const char *const threads = getenv("POCL_MAX_PTHREAD_COUNT");
    return threads == NULL || strtol(threads, NULL, 10) <= processors;
}

void thread_placement_ask(void) {
    const long processors = sysconf(_SC_NPROCESSORS_CONF);
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 || CPU_COUNT(&allowed) != processors)
        return;
    if (fits_pocl(processors))
        setenv("POCL_AFFINITY", "1", 0);
    setenv("OMP_PROC_BIND", "true", 0);
}
