/*
 * Rooflines of one device or of several: what arithmetic and memory allow at each intensity, with the products that were measured below. A
 * chart for each precision that was measured. A device alone has slopes for its caches, too.
 */
#ifndef TANDEM_BENCH_REPORT_ROOFLINES_H
#define TANDEM_BENCH_REPORT_ROOFLINES_H

#include <stdio.h>

#include "bench/report/report_device.h"

/* Failures of writing stand in the stream (ferror). 0, or -1 when memory is short. */
int rooflines_write(FILE *file, const report_device *devices, size_t count);

#endif
