/* A device of a results file, as pages show it. */
#ifndef TANDEM_BENCH_REPORT_REPORT_DEVICE_H
#define TANDEM_BENCH_REPORT_REPORT_DEVICE_H

#include "bench/record/device_database.h"
#include "bench/record/results_read.h"

enum {
    REPORT_MAX_DEVICES = 10 /* side by side */
};

typedef struct report_device {
    char label; /* 'A', 'B', …; 0: it is shown alone */
    const results_file *file;
    size_t device;          /* of the file */
    const datasheet *sheet; /* NULL: not known */
} report_device;

#endif
