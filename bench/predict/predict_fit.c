#include "bench/predict/predict_fit.h"

#include <math.h>

enum {
    REWEIGHTINGS = 30,
    DESCENTS = 1000
};

/* Factors that change by less than this share are found. */
#define SETTLED 1e-9

/* A residual below this share counts as one of it: no equation may take all the weight. */
#define LEAST_RESIDUAL 0.005

static double residual(const fit_equation *equation, int terms, const double *factors) {
    double sum = equation->fixed - equation->target;
    for (int t = 0; t < terms; t++)
        sum += equation->terms[t] * factors[t];
    return sum / equation->target;
}

/* The normal equations of the weighted squares of relative residuals. */
static void accumulate(const fit_equation *equations, size_t count, int terms,
                       const double *factors, int first, double (*matrix)[FIT_MAX_TERMS],
                       double *vector) {
    for (int a = 0; a < terms; a++) {
        vector[a] = 0;
        for (int b = 0; b < terms; b++)
            matrix[a][b] = 0;
    }
    for (size_t i = 0; i < count; i++) {
        const fit_equation *const each = &equations[i];
        const double size = fabs(residual(each, terms, factors));
        const double weight = first ? 1 : 1 / fmax(size, LEAST_RESIDUAL);
        for (int a = 0; a < terms; a++) {
            const double scaled = weight * each->terms[a] / each->target;
            vector[a] += scaled * (1 - each->fixed / each->target);
            for (int b = 0; b < terms; b++)
                matrix[a][b] += scaled * each->terms[b] / each->target;
        }
    }
}

/* Coordinate descent: each factor in turn takes its best value that is not negative. */
static void descend(int terms, double (*matrix)[FIT_MAX_TERMS], const double *vector,
                    double *factors) {
    int moved = 1;
    for (int step = 0; step < DESCENTS && moved; step++) {
        moved = 0;
        for (int a = 0; a < terms; a++) {
            const double before = factors[a];
            double left = vector[a];
            for (int b = 0; b < terms; b++)
                left -= b == a ? 0 : matrix[a][b] * factors[b];
            factors[a] = matrix[a][a] > 0 ? fmax(0, left / matrix[a][a]) : 0;
            moved |= fabs(factors[a] - before) > SETTLED * factors[a];
        }
    }
}

void fit_factors(const fit_equation *equations, size_t count, int terms,
                 double factors[FIT_MAX_TERMS]) {
    double matrix[FIT_MAX_TERMS][FIT_MAX_TERMS];
    double vector[FIT_MAX_TERMS];
    for (int t = 0; t < FIT_MAX_TERMS; t++)
        factors[t] = 0;
    for (int round = 0; round < REWEIGHTINGS; round++) {
        accumulate(equations, count, terms, factors, round == 0, matrix, vector);
        descend(terms, matrix, vector, factors);
    }
}
