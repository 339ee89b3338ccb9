/*
 * What quantization loses in theory, as NMSE (noise over signal): docs/numerics.md, "Expected error".
 */
#ifndef TANDEM_TESTS_SUPPORT_QUANT_QUANT_THEORY_H
#define TANDEM_TESTS_SUPPORT_QUANT_QUANT_THEORY_H

#include <math.h>

#include "tests/support/test_data.h"

typedef enum quant_distribution {
    QUANT_GAUSSIAN, /* mean 0, variance 1 */
    QUANT_UNIFORM   /* from -1 to 1: variance 1/3 */
} quant_distribution;

static inline double quant_draw(test_random *random, quant_distribution kind) {
    if (kind == QUANT_UNIFORM) {
        return test_random_uniform(random, -1.0, 1.0);
    }
    const double u = 1.0 - test_random_uniform(random, 0.0, 1.0);
    const double v = test_random_uniform(random, 0.0, 1.0);
    return sqrt(-2.0 * log(u)) * cos(6.283185307179586 * v);
}

/* Mean of the greatest of `count` squares, in variances: the integral of 2 t P(amax > t). */
static inline double quant_amax_squared(quant_distribution kind, int count) {
    if (kind == QUANT_UNIFORM) {
        return 3.0 * count / (count + 2.0);
    }
    const double step = 1e-3;
    double sum = 0.0;
    for (int i = 0; i < 10000; i++) {
        const double t = (i + 0.5) * step;
        sum += 2 * t * (1.0 - pow(erf(t * 0.7071067811865476), count)) * step;
    }
    return sum;
}

/* Rounding to steps of amax / levels, with errors spread evenly over a step. */
static inline double quant_theory_of_steps(quant_distribution kind, int count, int levels) {
    return quant_amax_squared(kind, count) / (12.0 * levels * levels);
}

/* Rounding to f16: steps of 2^(e-10) for numbers from 2^e to 2^(e+1). */
static inline double quant_theory_of_f16(quant_distribution kind) {
    double sum = 0.0;
    for (int e = -14; e < 4; e++) {
        const double low = ldexp(1.0, e), high = ldexp(2.0, e);
        const double inside = kind == QUANT_GAUSSIAN
                                  ? erf(high * 0.7071067811865476) - erf(low * 0.7071067811865476)
                                  : fmin(high, 1.0) - fmin(low, 1.0);
        sum += inside * ldexp(1.0, 2 * (e - 10)) / 12.0;
    }
    return kind == QUANT_GAUSSIAN ? sum : 3.0 * sum;
}

#endif
