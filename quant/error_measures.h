/*
 * How far quantized data is from what it stands for. Sums are in double precision over the elements
 * in order; merging sums of parts differs from one pass by rounding only.
 *
 * Not thread-safe: one set of sums per thread, then merge.
 */
#ifndef TANDEM_QUANT_ERROR_MEASURES_H
#define TANDEM_QUANT_ERROR_MEASURES_H

#include <stddef.h>
#include <stdint.h>

/* Sums over pairs (x: reference, y: approximation); all zero: nothing seen yet. */
typedef struct tdm_quant_error {
    uint64_t pairs;     /* finite on both sides */
    uint64_t nonfinite; /* pairs with NaN or an infinity, left out of everything else */
    double signal;      /* sum of x^2 */
    double actual;      /* sum of y^2 */
    double product;     /* sum of x * y */
    double noise;       /* sum of (y - x)^2 */
    double max_error;   /* greatest |y - x| */
} tdm_quant_error;

/* Add pairs. */
void tdm_quant_error_add(tdm_quant_error *error, const float *reference, const float *approximation,
                         size_t count);

/* The same with a reference that f32 has no room for. Squares beyond the range of a double make sums infinite. */
void tdm_quant_error_add_f64(tdm_quant_error *error, const double *reference,
                             const float *approximation, size_t count);

/* Add the sums of another part. */
void tdm_quant_error_merge(tdm_quant_error *into, const tdm_quant_error *from);

/* noise / signal; 0 when there is no noise, infinity for noise without a signal. */
double tdm_quant_error_nmse(const tdm_quant_error *error);

/* Signal to quantization noise ratio, 10 log10(signal / noise), in dB; infinity when there is no
 * noise, -infinity for noise without a signal. */
double tdm_quant_error_sqnr(const tdm_quant_error *error);

/* Cosine of the angle between reference and approximation; 1 when both are 0, 0 when one is. */
double tdm_quant_error_cosine(const tdm_quant_error *error);

/* Root of the mean squared error; 0 when nothing was seen. */
double tdm_quant_error_rms(const tdm_quant_error *error);

#endif
