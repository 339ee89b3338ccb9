/* The dialect's words for arithmetic on 16-bit floats. A kernel source that uses them includes this
 * file.
 *
 * A word is a pair: one number in its low half, one in its high half.
 *
 * tdm_pair_fma_f16(a, b, c)     a·b + c of both numbers, each rounded once to nearest even; the
 *                               variant requires TDM_CAP_FP16_ARITHMETIC
 * tdm_pair_fma_bf16(a, b, c)    likewise; only on CUDA, from compute capability 8.0 on: the variant
 *                               requires TDM_CAP_ASYNC_COPY */
#ifndef TDM_DIALECT_HALF_H
#define TDM_DIALECT_HALF_H

#ifndef TDM_DIALECT_CXX

#ifdef cl_khr_fp16
#pragma OPENCL EXTENSION cl_khr_fp16 : enable
#define tdm_pair_fma_f16(a, b, c) as_int(fma(as_half2(a), as_half2(b), as_half2(c)))
#endif

#elif defined(__CUDACC__)

TDM_DEVICE int tdm_pair_fma_f16(int a, int b, int c) {
    int sum;
    asm("fma.rn.f16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
    return sum;
}
#if __CUDA_ARCH__ >= 800
TDM_DEVICE int tdm_pair_fma_bf16(int a, int b, int c) {
    int sum;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(b), "r"(c));
    return sum;
}
#endif

#else /* the simulator */

/* The product has at most 22 bits, so it is exact. An inexact sum keeps a set low bit (round to
 * odd), so that narrowing it gives the correctly rounded value. */
TDM_DEVICE float tdm_half_product_sum(float a, float b, float c) {
    const double exact = (double)(a * b) + (double)c;
    const float rounded = (float)exact;
    uint bits = tdm_float_bits(rounded);
    if ((double)rounded == exact || exact != exact)
        return rounded;
    if ((rounded < 0 ? -(double)rounded : (double)rounded) > (exact < 0 ? -exact : exact))
        bits--;
    return tdm_bits_float(bits | 1u);
}
TDM_DEVICE int tdm_pair_fma_f16(int a, int b, int c) {
    uint pair = 0;
    for (int at = 0; at < 32; at += 16)
        pair |= (uint)tdm_cxx_f16_narrow(
                    tdm_half_product_sum(tdm_cxx_f16_widen((ushort)((uint)a >> at)),
                                         tdm_cxx_f16_widen((ushort)((uint)b >> at)),
                                         tdm_cxx_f16_widen((ushort)((uint)c >> at))))
                << at;
    return (int)pair;
}
TDM_DEVICE int tdm_pair_fma_bf16(int a, int b, int c) {
    uint pair = 0;
    for (int at = 0; at < 32; at += 16)
        pair |= (uint)tdm_cxx_bf16_narrow(tdm_half_product_sum(tdm_bits_float((uint)a >> at << 16),
                                                               tdm_bits_float((uint)b >> at << 16),
                                                               tdm_bits_float((uint)c >> at << 16)))
                << at;
    return (int)pair;
}

#endif

#endif
