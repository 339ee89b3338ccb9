/* Charts of devices for the pages of report and compare. Each returns 0, or -1 when memory is short. */
#ifndef TANDEM_BENCH_REPORT_DEVICE_CHARTS_H
#define TANDEM_BENCH_REPORT_DEVICE_CHARTS_H

#include "bench/report/report_parts.h"

/* The speed of a device by working set. */
int charts_write_memory(FILE *file, const report_device *device);

/*
 * Rooflines: what arithmetic and memory allow at each intensity, with the measured products. A chart for each precision that was
 * measured. A device alone has slopes for its caches, too.
 */
int charts_write_rooflines(FILE *file, const report_device *devices, size_t count);

#endif
