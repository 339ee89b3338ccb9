/* Finds the range of contiguous elements by comparing their bit patterns. Kernels do this if
 * quantize_finite.h computes the quantized values. Infinities appear in the range, and NaNs appear
 * as infinities. For a symmetric range only the largest magnitude is recorded, and the low end is
 * its negative. */
#ifndef TDM_QUANTIZE_BITS_H
#define TDM_QUANTIZE_BITS_H

#include "kernels/dialect/prefetch.h"
#include "quantize_finite.h"

/* BITS_VECTOR elements are processed at once. tdm_range_of(b, symmetric) returns one range for each
 * of N lanes. For 16-bit types a lane covers pairs of neighbouring elements. */
#if TDM_FINITE_CODES
#if TDM_HALF_PRODUCTS
#define BITS_VECTOR HALVES
#define BITS_HIGH tdm_short32
#define BITS_LOW tdm_ushort32
typedef tdm_half_bits tdm_bits;
#define tdm_bits_start() tdm_half_bits_start()
#define tdm_bits_add(b, x, i, symmetric) tdm_half_bits_add(b, x, i, symmetric)
#define tdm_bits_join(a, b) tdm_half_bits_join(a, b)
#define tdm_range_of(b, symmetric) tdm_range_of_bits(b, symmetric)
#else
#define BITS_VECTOR N
#define BITS_HIGH int16
#define BITS_LOW uint16
typedef tdm_word_bits tdm_bits;
#define tdm_bits_start() tdm_word_bits_start()
#define tdm_bits_add(b, x, i, symmetric)                                                           \
    tdm_word_bits_add(b, TDM_LOADV_GLOBAL(N, DT, x, i), symmetric)
#define tdm_bits_join(a, b) tdm_word_bits_join(a, b)
#define tdm_range_of(b, symmetric) tdm_range_of_words(b, symmetric)
#endif

/* Returns b extended by the `count` elements from x[i] on. `count` is a constant multiple of
 * BITS_VECTOR. The function prefetches PREFETCH_BYTES bytes ahead. */
TDM_INLINE tdm_bits tdm_bits_pass(tdm_bits b, TDM_GLOBAL const TDM_TYPE(DT) * x, long i, int count,
                                  int symmetric) {
    TDM_UNROLL for (int at = 0; at < count; at += BITS_VECTOR) {
        if (at * (int)sizeof *x % 64 == 0)
            tdm_prefetch_far(x + i + at + PREFETCH_BYTES / (int)sizeof *x);
        b = tdm_bits_add(b, x, i + at, symmetric);
    }
    return b;
}
#endif

#endif
