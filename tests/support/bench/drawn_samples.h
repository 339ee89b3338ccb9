/* This header generates time samples with known median and spread. */
#ifndef TANDEM_TESTS_SUPPORT_BENCH_DRAWN_SAMPLES_H
#define TANDEM_TESTS_SUPPORT_BENCH_DRAWN_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

/*
 * Generates `count` durations in seconds with median `seconds`. `spread` is the standard deviation
 * of their logarithms. Equal seeds give equal samples.
 */
void drawn_samples(double *samples, size_t count, double seconds, double spread, uint64_t seed);

#endif
