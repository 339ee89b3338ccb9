/* Division that is correctly rounded in f32 on every device.
 *
 * A kernel source first defines TDM_DIVIDE_VECTOR (1, 4, 8 or 16), its vector width. It also
 * defines TDM_BUILT_IN_DIVIDE if the built-in division suffices: it is correctly rounded there, or
 * its result is narrowed. */
#ifndef TDM_DIVIDE_H
#define TDM_DIVIDE_H

#define TDM_DIVIDE_F32 TDM_F32(TDM_DIVIDE_VECTOR)
#define TDM_DIVIDE_K(constant) TDM_SPLAT(TDM_DIVIDE_VECTOR, constant)
#define TDM_DIVIDE_SELECT_LT(a, b, x, y) TDM_SELECT_LT(TDM_DIVIDE_VECTOR, a, b, x, y)

/* If the driver does not promise correct rounding, the quotient is corrected by its exact
 * remainder. With a zero, infinite or NaN operand, or an overflow, there is no usable remainder,
 * and the plain quotient is the result. The operands are scaled by powers of two, so that the
 * remainder and the correction term do not underflow. Wherever a / b is normal, the quotient of the
 * scaled operands is normal too, with digits to spare. The factor that undoes the scaling is exact.
 * If a / b is below the normal numbers, it is rounded a second time. */
TDM_DEVICE TDM_DIVIDE_F32 tdm_divide(TDM_DIVIDE_F32 a, TDM_DIVIDE_F32 b) {
#ifdef TDM_BUILT_IN_DIVIDE
    return a / b;
#else
    const TDM_DIVIDE_F32 one = TDM_DIVIDE_K(1.0f), up = TDM_DIVIDE_K(0x1p63f),
                         down = TDM_DIVIDE_K(0x1p-63f);
    const TDM_DIVIDE_F32 size_a = tdm_abs(a), size_b = tdm_abs(b);
    const TDM_DIVIDE_F32 up_a = TDM_DIVIDE_SELECT_LT(size_a, TDM_DIVIDE_K(0x1p-36f), up, one);
    const TDM_DIVIDE_F32 undo_a = TDM_DIVIDE_SELECT_LT(size_a, TDM_DIVIDE_K(0x1p-36f), down, one);
    const TDM_DIVIDE_F32 down_b = TDM_DIVIDE_SELECT_LT(size_a, TDM_DIVIDE_K(0x1p60f), down, one);
    const TDM_DIVIDE_F32 large_b = TDM_DIVIDE_SELECT_LT(TDM_DIVIDE_K(0x1p37f), size_b, down_b, one);
    const TDM_DIVIDE_F32 scale_b =
        TDM_DIVIDE_SELECT_LT(size_b, TDM_DIVIDE_K(0x1p-60f), up, large_b);
    const TDM_DIVIDE_F32 n = a * up_a, d = b * scale_b;
    const TDM_DIVIDE_F32 quotient = n / d;
    const TDM_DIVIDE_F32 remainder = tdm_fma(-quotient, d, n);
    const TDM_DIVIDE_F32 better = quotient + remainder / d;
    const TDM_DIVIDE_F32 usable =
        TDM_DIVIDE_SELECT_LT(TDM_DIVIDE_K(0.0f), tdm_abs(remainder), better, quotient);
    const TDM_DIVIDE_F32 result =
        TDM_DIVIDE_SELECT_LT(tdm_abs(remainder), TDM_DIVIDE_K(INFINITY), usable, quotient);
    return result * (undo_a * scale_b);
#endif
}

#endif
