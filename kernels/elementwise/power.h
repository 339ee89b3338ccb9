/* tdm_pow(x, y) is the pow of OpenCL C or C++, within 16 ulps. A kernel source includes this after
 * dialect.h. */
#ifndef TDM_POWER_H
#define TDM_POWER_H

#ifdef TDM_DIALECT_CXX
TDM_DEVICE float tdm_pow(float x, float y) {
    return powf(x, y);
}
TDM_DEVICE f32x4 tdm_pow(f32x4 x, f32x4 y) {
    return {tdm_pow(x.s0, y.s0), tdm_pow(x.s1, y.s1), tdm_pow(x.s2, y.s2), tdm_pow(x.s3, y.s3)};
}
template <class T> TDM_DEVICE T tdm_pow(T x, T y) {
    return {tdm_pow(x.lo, y.lo), tdm_pow(x.hi, y.hi)};
}
#else
#define tdm_pow(x, y) pow(x, y)
#endif

#endif
