#include "bench/record/stolen_time.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STOLEN =
        7, /* user nice system idle iowait irq softirq steal: the two behind are parts of the first two */
    COUNTS
};

processor_time processor_time_in(const char *path) {
    processor_time time = {0, NAN};
    char line[512] = "";
    FILE *const file = fopen(path, "r");
    const int known = file != NULL && fgets(line, sizeof line, file) != NULL;
    if (file != NULL)
        fclose(file);
    if (!known || strncmp(line, "cpu ", 4) != 0)
        return (processor_time){NAN, NAN};
    const char *at = line + 4;
    for (int i = 0; i < COUNTS; i++) {
        char *end = NULL;
        const double count = strtod(at, &end);
        if (end == at)
            return (processor_time){NAN, NAN};
        time.all += count;
        if (i == STOLEN)
            time.stolen = count;
        at = end;
    }
    return time;
}

processor_time processor_time_now(void) {
    return processor_time_in("/proc/stat");
}

double stolen_share(const processor_time *before, const processor_time *after) {
    const double all = after->all - before->all;
    return all > 0 ? (after->stolen - before->stolen) / all : NAN;
}
