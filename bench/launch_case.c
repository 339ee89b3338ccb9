#include "bench/launch_case.h"

#include <string.h>

static const char *const way_names[] = {"kernel", "plan", "call"};

void launch_case_write(const launch_case *item, worker_text *line) {
    worker_field_add(line, "way", way_names[item->way]);
    if (item->way == LAUNCH_KERNEL)
        probe_case_write(&item->probe, line);
    else
        gemm_case_write(&item->gemm, line);
}

int launch_case_read(const char *line, launch_case *item) {
    char way[16];
    worker_field(line, "way", way, sizeof way);
    for (int i = LAUNCH_KERNEL; i <= LAUNCH_CALL; i++) {
        if (strcmp(way, way_names[i]) != 0)
            continue;
        item->way = (launch_way)i;
        return item->way == LAUNCH_KERNEL ? probe_case_read(line, &item->probe)
                                          : gemm_case_read(line, &item->gemm);
    }
    return -1;
}
