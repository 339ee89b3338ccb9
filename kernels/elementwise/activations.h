/* Activations that use an exponential, for vectors of N floats: tdm_gelu_N, tdm_gelu_tanh_N,
 * tdm_silu_N and tdm_sigmoid_times_N. No intermediate is denormal if the result is normal. Results
 * thus keep their digits, and devices that flush denormal numbers give equal results. A source
 * includes this after dialect.h and defines the functions by TDM_DEFINE_ACTIVATIONS(N), where N is
 * a number or a macro. */
#ifndef TDM_ACTIVATIONS_H
#define TDM_ACTIVATIONS_H

/* tdm_sigmoid_times: factor / (1 + exp(-x)). exp(-|x|) does not overflow. Beyond FAR it is the
 * product of exp(FAR - |x|), whose argument is exact, and exp(-FAR). Computed directly it would be
 * denormal from 87.4 on, where factor · exp(-|x|) may still be normal.
 *
 * tdm_gelu: x·Φ(x), with Φ from the upper tail h = erfc(|x|/√2)/2. Large negative x thus keep their
 * relative accuracy, where 1 + erf would cancel. With t = |x|/√2 and s = 1/(1 + t/2), erfc(t) =
 * exp(-t²)·s·Q(s). Q is a minimax-like polynomial fitted in the project. Its relative error is
 * 1.7·10⁻⁷ with f32 coefficients for t ≤ 14, beyond which exp(-t²) is 0. The built-in erfc of a CPU
 * implementation works lane by lane, ten times slower.
 *
 * tdm_gelu_tanh: the tanh form equals x·sigmoid(2u), which does not cancel. */
#define TDM_ACTIVATION_FAR 64.0f
#define TDM_EXP_OF_MINUS_FAR 1.6038108905e-28f

#define TDM_DEFINE_ACTIVATIONS(N) TDM_DEFINE_ACTIVATIONS_(N)
#define TDM_DEFINE_ACTIVATIONS_(N)                                                                 \
    TDM_DEVICE TDM_F32(N) tdm_sigmoid_times_##N(TDM_F32(N) factor, TDM_F32(N) x) {                 \
        const TDM_F32(N) size = tdm_abs(x), far = TDM_SPLAT(N, TDM_ACTIVATION_FAR);                \
        const TDM_F32(N) one = TDM_SPLAT(N, 1.0f);                                                 \
        const TDM_F32(N) e = tdm_exp(TDM_SELECT_LT(N, far, size, far - size, -size));              \
        const TDM_F32(N) rest =                                                                    \
            TDM_SELECT_LT(N, far, size, TDM_SPLAT(N, TDM_EXP_OF_MINUS_FAR), one);                  \
        const TDM_F32(N) above =                                                                   \
            TDM_SELECT_LT(N, x, TDM_SPLAT(N, 0.0f), factor * e * rest, factor);                    \
        return above / (one + e * rest);                                                           \
    }                                                                                              \
    TDM_DEVICE TDM_F32(N) tdm_gelu_##N(TDM_F32(N) x) {                                             \
        const TDM_F32(N) one = TDM_SPLAT(N, 1.0f), middle = TDM_SPLAT(N, 0.5f);                    \
        const TDM_F32(N) s = one / (one + TDM_SPLAT(N, 0.35355339059327376f) * tdm_abs(x));        \
        const TDM_F32(N) u = s - middle;                                                           \
        TDM_F32(N) q = TDM_SPLAT(N, -0.05979175120592117f);                                        \
        q = q * u + TDM_SPLAT(N, 0.048827413469552994f);                                           \
        q = q * u + TDM_SPLAT(N, 0.095402292907238007f);                                           \
        q = q * u + TDM_SPLAT(N, -0.10309868305921555f);                                           \
        q = q * u + TDM_SPLAT(N, -0.1718667596578598f);                                            \
        q = q * u + TDM_SPLAT(N, 0.14574649930000305f);                                            \
        q = q * u + TDM_SPLAT(N, 0.5589390397071838f);                                             \
        q = q * u + TDM_SPLAT(N, 0.6871609091758728f);                                             \
        q = q * u + TDM_SPLAT(N, 0.5107913613319397f);                                             \
        const TDM_F32(N) share = s * q, e = middle * tdm_exp(-middle * x * x);                     \
        return TDM_SELECT_LT(N, x, TDM_SPLAT(N, 0.0f), x * share * e, x * (one - share * e));      \
    }                                                                                              \
    TDM_DEVICE TDM_F32(N) tdm_gelu_tanh_##N(TDM_F32(N) x) {                                        \
        const TDM_F32(N) cube = TDM_SPLAT(N, 1.0f) + TDM_SPLAT(N, 0.044715f) * x * x;              \
        return tdm_sigmoid_times_##N(x, TDM_SPLAT(N, 1.5957691216057308f) * x * cube);             \
    }                                                                                              \
    TDM_DEVICE TDM_F32(N) tdm_silu_##N(TDM_F32(N) x) {                                             \
        return tdm_sigmoid_times_##N(x, x);                                                        \
    }

#endif
