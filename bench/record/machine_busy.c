#include "bench/record/machine_busy.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

const double machine_busy_much = 0.1;

machine_use machine_use_in(const char *path, double own) {
    /* user nice system idle iowait irq softirq steal */
    static const int is_busy[] = {1, 1, 1, 0, 0, 1, 1, 1};
    const machine_use unknown = {NAN, NAN, NAN};
    machine_use use = {0, 0, own};
    char line[512] = "";
    FILE *const file = fopen(path, "r");
    const int known = file != NULL && fgets(line, sizeof line, file) != NULL;
    if (file != NULL)
        fclose(file);
    if (!known || strncmp(line, "cpu ", 4) != 0)
        return unknown;
    char *at = line + 4;
    for (size_t i = 0; i < sizeof is_busy / sizeof *is_busy; i++) {
        char *end = NULL;
        const double ticks = strtod(at, &end);
        if (end == at)
            return unknown;
        use.all += ticks;
        use.busy += is_busy[i] ? ticks : 0;
        at = end;
    }
    return use;
}

static double seconds_of(int who) {
    struct rusage usage;
    if (getrusage(who, &usage) != 0)
        return NAN;
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) +
           1e-6 * (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec);
}

machine_use machine_use_now(void) {
    const double own = seconds_of(RUSAGE_SELF) + seconds_of(RUSAGE_CHILDREN);
    return machine_use_in("/proc/stat", own * (double)sysconf(_SC_CLK_TCK));
}

double machine_busy_share(const machine_use *before, const machine_use *after) {
    const double all = after->all - before->all;
    const double others = after->busy - before->busy - (after->own - before->own);
    if (!(all > 0) || isnan(others))
        return NAN;
    return fmax(0, others / all); /* ticks are rounded */
}
