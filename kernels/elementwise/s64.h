/* These functions convert integers of 64 bits, which the dialect has no words for. A kernel source
 * whose DT may be s64 includes this after dialect.h. */
#ifndef TDM_S64_H
#define TDM_S64_H

#define TDM_LONG_MOST 0x7fffffffffffffffL

typedef long tdm_s64;
#define tdm_int_s64(p, i) ((p)[i])

/* Returns the nearest integer, ties to even, limited to the type's range; NaN gives 0. */
TDM_DEVICE long tdm_long_rte(float x) {
    const float nearest = tdm_rint(x);
    if (nearest >= 0x1p63f)
        return TDM_LONG_MOST;
    if (nearest < -0x1p63f)
        return -TDM_LONG_MOST - 1;
    return nearest == nearest ? (long)nearest : 0;
}

/* Returns an integer within ±2^30 whose product with *scale is v, rounded to odd: if bits are lost,
 * the last kept one is 1. Rounding the result to a float of at most 24 bits then gives the float
 * that is nearest to v. */
TDM_DEVICE int tdm_long_scaled(long v, float *scale) {
    *scale = 1.0f;
    while (v >= 1L << 30 || v < -(1L << 30)) {
        v = (v >> 4) | ((v & 15) != 0 ? 1 : 0);
        *scale *= 16.0f;
    }
    return (int)v;
}

/* The first returns v rounded to f32. The second returns a float that narrows to the f16 or bf16
 * nearest to v. */
TDM_DEVICE float tdm_float_of_long(long v) {
    float scale;
    const int kept = tdm_long_scaled(v, &scale);
    return tdm_float(kept) * scale;
}
TDM_DEVICE float tdm_float_of_long_odd(long v) {
    float scale;
    const int kept = tdm_long_scaled(v, &scale);
    return f32x1_from_s32_odd(kept) * scale;
}

TDM_DEVICE int tdm_int_of_long(long v) {
    return (int)(v > 0x7fffffffL ? 0x7fffffffL : v < -0x80000000L ? -0x80000000L : v);
}

#endif
