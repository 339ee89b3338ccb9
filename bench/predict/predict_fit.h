/* Fits of factors that cannot be negative, of least absolute relative error. */
#ifndef TANDEM_BENCH_PREDICT_PREDICT_FIT_H
#define TANDEM_BENCH_PREDICT_PREDICT_FIT_H

#include <stddef.h>

enum {
    FIT_MAX_TERMS = 8
};

/* One equation: `fixed` and the factors times `terms` should come to `target`. */
typedef struct fit_equation {
    double terms[FIT_MAX_TERMS];
    double fixed;
    double target; /* positive */
} fit_equation;

/*
 * Factors >= 0 that make the sum of |fixed + terms · factors - target| / target small. Terms that no equation has get 0. Needs one equation.
 */
void fit_factors(const fit_equation *equations, size_t count, int terms,
                 double factors[FIT_MAX_TERMS]);

#endif
