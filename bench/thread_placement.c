#include "bench/thread_placement.h"

#include <sched.h>
#include <stdlib.h>
#include <unistd.h>

void thread_placement_ask(void) {
    cpu_set_t allowed;
    CPU_ZERO(&allowed);
    if (sched_getaffinity(0, sizeof allowed, &allowed) != 0 ||
        CPU_COUNT(&allowed) != sysconf(_SC_NPROCESSORS_CONF))
        return;
    setenv("POCL_AFFINITY", "1", 0);
    setenv("OMP_PROC_BIND", "true", 0);
}
