#include "bench/other_programs.h"

#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

processor_use processor_use_in(const char *path, double own) {
    /* user nice system idle iowait irq softirq steal */
    static const int is_busy[] = {1, 1, 1, 0, 0, 1, 1, 0};
    double ticks[8];
    processor_use use = {0, 0, own};
    FILE *const file = fopen(path, "r");
    const int count =
        file == NULL ? 0
                     : fscanf(file, "cpu %lf %lf %lf %lf %lf %lf %lf %lf", &ticks[0], &ticks[1],
                              &ticks[2], &ticks[3], &ticks[4], &ticks[5], &ticks[6], &ticks[7]);
    if (file != NULL)
        fclose(file);
    if (count != 8)
        return (processor_use){NAN, NAN, NAN};
    for (int i = 0; i < 8; i++) {
        use.all += ticks[i];
        use.busy += is_busy[i] ? ticks[i] : 0;
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

processor_use processor_use_now(void) {
    const double own = seconds_of(RUSAGE_SELF) + seconds_of(RUSAGE_CHILDREN);
    return processor_use_in("/proc/stat", own * (double)sysconf(_SC_CLK_TCK));
}

double others_share(const processor_use *before, const processor_use *after) {
    const double all = after->all - before->all;
    const double others = after->busy - before->busy - (after->own - before->own);
    if (!(all > 0) || isnan(others))
        return NAN;
    return fmax(0, others / all); /* ticks are rounded */
}
