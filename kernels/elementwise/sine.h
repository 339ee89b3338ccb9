/* This is one sine and cosine for all devices, because some drivers reduce large angles
 * inaccurately. A kernel source includes this after dialect.h. It first defines N, the vector type
 * V and K, which makes a vector of a constant. */
#ifndef TDM_SINE_H
#define TDM_SINE_H

/* π/2 is the sum of these three numbers and less than 2⁻⁷⁵. */
#define TDM_QUARTER_1 1.57079637050628662109375f
#define TDM_QUARTER_2 -4.37113900018624283e-8f
#define TDM_QUARTER_3 -1.71512451000588187e-15f
#define TDM_QUARTERS_PER_RADIAN 0.636619772367581f

/* Returns sin(x + quarters · π/2) for quarters 0 and 1, NaN for |x| above 2^24. The nearest whole
 * number k of quarter turns is subtracted in three parts. The first fma is exact, and the others
 * round the small remainder once each. The first k of a large x may be wrong by one, so the
 * remainder corrects it. The polynomials are those of Cephes for |r| ≤ π/4. */
TDM_DEVICE V tdm_sine(V x, V quarters) {
    const V part_1 = K(TDM_QUARTER_1), part_2 = K(TDM_QUARTER_2), part_3 = K(TDM_QUARTER_3);
    const V per_radian = K(TDM_QUARTERS_PER_RADIAN);
    const V first = tdm_rint(x * per_radian);
    const V left = tdm_fma(-first, part_2, tdm_fma(-first, part_1, x));
    const V k = first + tdm_rint(left * per_radian);
    const V r = tdm_fma(-k, part_3, tdm_fma(-k, part_2, tdm_fma(-k, part_1, x)));
    const V square = r * r;
    V s = K(-1.9515295891e-4f), c = K(2.443315711809948e-5f);
    s = s * square + K(8.3321608736e-3f);
    s = s * square + K(-1.6666654611e-1f);
    s = s * square * r + r;
    c = c * square + K(-1.388731625493765e-3f);
    c = c * square + K(4.166664568298827e-2f);
    c = c * square * square + (K(1.0f) - K(0.5f) * square);
    /* An odd number of quarter turns exchanges the two, and half a turn negates them. */
    const V turned = k + quarters;
    const V quarter = turned - K(4.0f) * tdm_rint(turned * K(0.25f)); /* -2 … 2 */
    const V odd = tdm_abs(tdm_abs(quarter) - K(1.0f));                /* 0 if it is odd, else 1 */
    const V value = TDM_SELECT_LT(N, odd, K(0.5f), c, s);
    const V below = TDM_SELECT_LT(N, quarter, K(-0.5f), -value, value);
    const V result = TDM_SELECT_LT(N, K(1.5f), quarter, -value, below);
    return TDM_SELECT_LT(N, K(0x1p24f), tdm_abs(x), K(NAN), result);
}

#endif
