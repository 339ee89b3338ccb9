/* Ranges of f16 and bf16 by their bits, 32 at a time, if quant_steps.h quantizes them by
 * multiplications. Positive numbers are ordered like signed integers, negative ones like unsigned
 * integers. Two comparisons of whole vectors replace widening 32 numbers to f32 and comparing
 * those. */
#ifndef TDM_QUANTIZE_HALVES_H
#define TDM_QUANTIZE_HALVES_H

#include "quantize_derive.h"

#if TDM_HALF_PRODUCTS
#define HALVES 32 /* per vector */
#define INFINITY_f16 0x7c00
#define INFINITY_bf16 0x7f80

/* The largest bit patterns, compared as signed and as unsigned integers. These belong to the
 * largest positive and to the smallest negative number; negative numbers start at -0. */
typedef struct {
    tdm_short32 high;
    tdm_ushort32 low;
} tdm_half_bits;

TDM_INLINE tdm_half_bits tdm_half_bits_start(void) {
    tdm_half_bits b;
    b.high = (tdm_short32)((short)0);
    b.low = (tdm_ushort32)((ushort)0x8000);
    return b;
}

TDM_INLINE tdm_short32 tdm_greater_short(tdm_short32 a, tdm_short32 b) {
    return a > b ? a : b;
}

TDM_INLINE tdm_ushort32 tdm_greater_ushort(tdm_ushort32 a, tdm_ushort32 b) {
    return a > b ? a : b;
}

/* Returns b widened by the HALVES numbers at i. For a symmetric range the low end is left
 * unchanged. */
TDM_INLINE tdm_half_bits tdm_half_bits_add(tdm_half_bits b, TDM_GLOBAL const TDM_TYPE(DT) * x,
                                           long i, int symmetric) {
    const tdm_ushort32 v = *(TDM_GLOBAL const tdm_any_ushort32 *)(x + i);
    if (symmetric) {
        const tdm_ushort32 size = v & (tdm_ushort32)((ushort)0x7fff);
        b.high = tdm_greater_short(b.high, __builtin_astype(size, tdm_short32));
    } else {
        b.high = tdm_greater_short(b.high, __builtin_astype(v, tdm_short32));
        b.low = tdm_greater_ushort(b.low, v);
    }
    return b;
}

TDM_INLINE tdm_half_bits tdm_half_bits_join(tdm_half_bits a, tdm_half_bits b) {
    a.high = tdm_greater_short(a.high, b.high);
    a.low = tdm_greater_ushort(a.low, b.low);
    return a;
}

/* Returns the range of the pair in each of N lanes. A NaN appears in it as an infinity. */
TDM_INLINE tdm_range tdm_range_of_bits(tdm_half_bits b, int symmetric) {
    const I most = TDM_INT_SPLAT(N, TDM_CAT2(INFINITY_, DT));
    const I least = most | TDM_INT_SPLAT(N, 0x8000), word = TDM_INT_SPLAT(N, 0xffff);
    const I highs = __builtin_astype(b.high, I), lows = __builtin_astype(b.low, I);
    const I high = tdm_int_max((highs << 16) >> 16, highs >> 16);
    const I low = tdm_int_max(lows & word, (lows >> 16) & word);
    tdm_range r;
    r.high = TDM_CAT4(f32x, N, _of_bits_, DT)(tdm_int_min(high, most));
    r.low =
        symmetric ? K(0.0f) - r.high : TDM_CAT4(f32x, N, _of_bits_, DT)(tdm_int_min(low, least));
    return r;
}
#endif

#endif
