/* The range of contiguous elements as they pass, by their bits, where codes are made as quantize_finite.h says: infinities show in it, and NaN as
 * infinities. Where both ends are to be as far, symmetric, the low end stays as it is. */
#ifndef TDM_QUANTIZE_BITS_H
#define TDM_QUANTIZE_BITS_H

#include "kernels/dialect/memory_ahead.h"
#include "quantize_finite.h"

/* BITS_VECTOR elements are looked at together. tdm_range_of(b, symmetric) is the range in each of N lanes, of neighbours together. */
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

/* Widened by the `count` elements at i, BITS_VECTOR or several times as many, which stands in the text; asks for what is BYTES_AHEAD of them. */
TDM_INLINE tdm_bits tdm_bits_pass(tdm_bits b, TDM_GLOBAL const TDM_TYPE(DT) * x, long i, int count,
                                  int symmetric) {
    TDM_UNROLL for (int at = 0; at < count; at += BITS_VECTOR) {
        if (at * (int)sizeof *x % 64 == 0)
            tdm_prefetch_far(x + i + at + BYTES_AHEAD / (int)sizeof *x);
        b = tdm_bits_add(b, x, i + at, symmetric);
    }
    return b;
}
#endif

#endif
