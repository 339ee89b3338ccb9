/* Time samples with known median and spread. */
#ifndef TANDEM_TESTS_SUPPORT_BENCH_DRAWN_SAMPLES_H
#define TANDEM_TESTS_SUPPORT_BENCH_DRAWN_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

/*
 * Draws `count` times around `seconds`. Their logarithms deviate by `spread`. Equal seeds give
 * equal samples.
 */
void drawn_samples(double *samples, size_t count, double seconds, double spread, uint64_t seed);

#endif
