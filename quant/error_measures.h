/*
 * These functions measure the error between quantized data and the original. Sums are added in
 * double precision, in the order of the elements. Merging sums of parts differs from one pass by
 * rounding only.
 *
 * The functions are not thread-safe. Use one set of sums per thread, and merge them.
 */
#ifndef TANDEM_QUANT_ERROR_MEASURES_H
#define TANDEM_QUANT_ERROR_MEASURES_H

#include <stddef.h>
#include <stdint.h>

/* These are sums over pairs of x, the reference, and y, the approximation. All are 0 if there are
 * no pairs yet. */
typedef struct tdm_quant_error {
    uint64_t pairs;     /* finite on both sides */
    uint64_t nonfinite; /* pairs with NaN or an infinity, left out of everything else */
    double signal;      /* sum of x^2 */
    double actual;      /* sum of y^2 */
    double product;     /* sum of x * y */
    double noise;       /* sum of (y - x)^2 */
    double max_error;   /* largest |y - x| */
} tdm_quant_error;

/* Adds pairs. */
void tdm_quant_error_add(tdm_quant_error *error, const float *reference, const float *approximation,
                         size_t count);

/* Adds pairs with a reference in f64. Squares beyond the range of a double make sums infinite. */
void tdm_quant_error_add_f64(tdm_quant_error *error, const double *reference,
                             const float *approximation, size_t count);

/* Adds the sums of another part. */
void tdm_quant_error_merge(tdm_quant_error *into, const tdm_quant_error *from);

/* Returns noise / signal; 0 if there is no noise, infinity for noise without a signal. */
double tdm_quant_error_nmse(const tdm_quant_error *error);

/* Returns the signal-to-quantization-noise ratio, 10 log10(signal / noise), in dB. It is infinity
 * if there is no noise, and -infinity for noise without a signal. */
double tdm_quant_error_sqnr(const tdm_quant_error *error);

/* Returns the cosine of the angle between reference and approximation; 1 if both are 0, 0 if one
 * is. */
double tdm_quant_error_cosine(const tdm_quant_error *error);

/* Returns the root of the mean squared error; 0 without pairs. */
double tdm_quant_error_rms(const tdm_quant_error *error);

#endif
