/* Samples of times whose median and spread are known. */
#ifndef TANDEM_TESTS_SUPPORT_BENCH_DRAWN_SAMPLES_H
#define TANDEM_TESTS_SUPPORT_BENCH_DRAWN_SAMPLES_H

#include <stddef.h>
#include <stdint.h>

/* `count` times around `seconds`, whose logarithms deviate by `spread`; the same seed gives the same ones. */
void drawn_samples(double *samples, size_t count, double seconds, double spread, uint64_t seed);

#endif
