#include "bench/cases/launch_case.h"

#include <string.h>

static const char *const way_names[] = {"kernel", "list", "plan", "call"};

int launch_way_is_kernel(launch_way way) {
    return way == LAUNCH_KERNEL || way == LAUNCH_LIST;
}

void launch_case_write(const launch_case *item, worker_text *line) {
    worker_field_add(line, "way", way_names[item->way]);
    if (launch_way_is_kernel(item->way))
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
        return launch_way_is_kernel(item->way) ? probe_case_read(line, &item->probe)
                                               : gemm_case_read(line, &item->gemm);
    }
    return -1;
}
