/* 16-bit floats, f16 and bf16, of the dialect as OpenCL C. Part of dialect_opencl.h. */
#ifndef TDM_DIALECT_OPENCL_HALVES_H
#define TDM_DIALECT_OPENCL_HALVES_H

/* bf16 is the upper half of an f32, so widening is a shift. Narrowing adds half an ulp, minus one
 * if the kept part is even. A NaN keeps its upper bits with the quiet bit set. */
TDM_DEVICE ushort tdm_bf16_from_f32(float x) {
    const uint bits = as_uint(x);
    const uint rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return (ushort)((bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16) | 0x40u : rounded);
}
#define TDM_OPENCL_BF16_NARROW_(N)                                                                 \
    TDM_DEVICE ushort##N tdm_bf16x##N##_from_f32(float##N x) {                                     \
        const uint##N bits = as_uint##N(x);                                                        \
        const uint##N rounded =                                                                    \
            (bits + (uint##N)(0x7fffu) + ((bits >> 16) & (uint##N)(1u))) >> 16;                    \
        const int##N nan = (bits & (uint##N)(0x7fffffffu)) > (uint##N)(0x7f800000u);               \
        return convert_ushort##N(select(rounded, (bits >> 16) | (uint##N)(0x40u), nan));           \
    }
TDM_OPENCL_BF16_NARROW_(4)
TDM_OPENCL_BF16_NARROW_(8)
TDM_OPENCL_BF16_NARROW_(16)

/* Loads and stores of N f16 at any element-aligned address. PoCL 3.1 assumes 16-byte alignment in
 * its vload_halfN and vstore_halfN, which faults on AVX2 without AVX-512. On PoCL the bits
 * therefore move as integers of lower alignment, and only private vectors are converted. Elsewhere
 * the built-ins are used. */
#ifdef TDM_OPENCL_WIDE_
#if defined(__F16C__)
TDM_DEVICE float4 tdm_opencl_halves_4(ushort4 bits) {
    return __builtin_ia32_vcvtph2ps(as_short8((ushort8)(bits, (ushort4)(0))));
}
TDM_DEVICE float8 tdm_opencl_halves_8(ushort8 bits) {
    return __builtin_ia32_vcvtph2ps256(as_short8(bits));
}
TDM_DEVICE ushort4 tdm_opencl_half_bits_4(float4 x) {
    return as_ushort8(__builtin_ia32_vcvtps2ph(x, 0)).lo;
}
TDM_DEVICE ushort8 tdm_opencl_half_bits_8(float8 x) {
    return as_ushort8(__builtin_ia32_vcvtps2ph256(x, 0));
}
#else
#define TDM_OPENCL_CONVERT_HALVES_(N)                                                              \
    TDM_DEVICE float##N tdm_opencl_halves_##N(ushort##N bits) {                                    \
        return vload_half##N(0, (const __private half *)&bits);                                    \
    }                                                                                              \
    TDM_DEVICE ushort##N tdm_opencl_half_bits_##N(float##N x) {                                    \
        ushort##N bits;                                                                            \
        vstore_half##N##_rte(x, 0, (__private half *)&bits);                                       \
        return bits;                                                                               \
    }
TDM_OPENCL_CONVERT_HALVES_(4)
TDM_OPENCL_CONVERT_HALVES_(8)
#endif
#if !defined(__AVX512F__)
TDM_DEVICE float16 tdm_opencl_halves_16(ushort16 bits) {
    return (float16)(tdm_opencl_halves_8(bits.lo), tdm_opencl_halves_8(bits.hi));
}
TDM_DEVICE ushort16 tdm_opencl_half_bits_16(float16 x) {
    return (ushort16)(tdm_opencl_half_bits_8(x.lo), tdm_opencl_half_bits_8(x.hi));
}
#else
/* PoCL 3.1 converts sixteen values in two halves and joins them. Without the asm, Clang would see
 * the source of the floats and compare the f16 values one by one. */
TDM_DEVICE float16 tdm_opencl_halves_16(ushort16 bits) {
    float16 x =
        __builtin_ia32_vcvtph2ps512_mask(as_short16(bits), (float16)(0.0f), (ushort)0xffff, 4);
    __asm__("" : "+v"(x));
    return x;
}
TDM_DEVICE ushort16 tdm_opencl_half_bits_16(float16 x) {
    return as_ushort16(__builtin_ia32_vcvtps2ph512_mask(x, 0, (short16)(0), (ushort)0xffff));
}
#endif
#define TDM_OPENCL_HALVES_(N, SPACE)                                                               \
    static inline float##N __attribute__((overloadable, always_inline))                            \
    tdm_opencl_load_half_##N(const SPACE half *p) {                                                \
        return tdm_opencl_halves_##N(tdm_opencl_load_##N((const SPACE ushort *)p));                \
    }                                                                                              \
    static inline void __attribute__((overloadable, always_inline))                                \
    tdm_opencl_store_half_##N(float##N x, SPACE half *p) {                                         \
        tdm_opencl_store_##N(tdm_opencl_half_bits_##N(x), (SPACE ushort *)p);                      \
    }
#define TDM_OPENCL_HALF_SPACES_(N)                                                                 \
    TDM_OPENCL_HALVES_(N, __global)                                                                \
    TDM_OPENCL_HALVES_(N, __local)                                                                 \
    TDM_OPENCL_HALVES_(N, __private)
TDM_OPENCL_HALF_SPACES_(4)
TDM_OPENCL_HALF_SPACES_(8)
TDM_OPENCL_HALF_SPACES_(16)
#else
#define tdm_opencl_load_half_4(p) vload_half4(0, p)
#define tdm_opencl_load_half_8(p) vload_half8(0, p)
#define tdm_opencl_load_half_16(p) vload_half16(0, p)
#define tdm_opencl_store_half_4(x, p) vstore_half4_rte(x, 0, p)
#define tdm_opencl_store_half_8(x, p) vstore_half8_rte(x, 0, p)
#define tdm_opencl_store_half_16(x, p) vstore_half16_rte(x, 0, p)
TDM_DEVICE float16 tdm_opencl_halves_16(ushort16 bits) {
    return vload_half16(0, (const __private half *)&bits);
}
#endif

#if defined(__AVX512F__)
#define f32x16_stream_f16(x, p, i)                                                                 \
    __builtin_nontemporal_store(tdm_opencl_half_bits_16(x), (__global ushort16 *)((p) + (i)))
/* If Clang sees both the narrowing and the store, it uses one instruction for both, which is not
 * non-temporal. */
TDM_INLINE ushort16 tdm_opencl_kept_words(ushort16 v) {
    __asm__("" : "+x"(v));
    return v;
}
#define f32x16_stream_bf16(x, p, i)                                                                \
    __builtin_nontemporal_store(tdm_opencl_kept_words(tdm_bf16x16_from_f32(x)),                    \
                                (__global ushort16 *)((p) + (i)))
#endif

/* TDM_DEQUANTIZED_STORE_LINE stores two vectors as f16 or bf16, 64 bytes in all. `past` selects a
 * non-temporal store, whose address must be a multiple of 64 bytes. The conversion to bf16 rounds a
 * NaN like a number, so only upper bits of a NaN may be set. Vectors with NaNs must therefore come
 * from f32x16_short_nans, or be products with such a vector. */
#if defined(__AVX512BW__)
#define TDM_DEQUANTIZED_STORE_LINE(DT, x, p, past) TDM_CAT2(tdm_opencl_line_, DT)(x, p, past)
TDM_INLINE float16 f32x16_short_nans(float16 x) {
    const uint16 nan = (as_uint16(x) | (uint16)(0x400000u)) & (uint16)(0xffff0000u);
    return select(as_float16(nan), x, x == x);
}
/* The upper and the lower halves of the 32-bit values form one vector each. The upper half is
 * incremented if the lower half is above the tie, or is the tie and the upper half is odd. */
TDM_INLINE tdm_ushort32 tdm_opencl_bf16_words(float16 a, float16 b) {
    const tdm_ushort32 x = __builtin_astype(a, tdm_ushort32), y = __builtin_astype(b, tdm_ushort32);
    const tdm_ushort32 upper = (tdm_ushort32)(x.odd, y.odd), one = (tdm_ushort32)((ushort)1);
    const tdm_ushort32 lower = (tdm_ushort32)(x.even, y.even) | (upper & one);
    return lower > (tdm_ushort32)((ushort)0x8000) ? upper + one : upper;
}
TDM_INLINE void tdm_opencl_store_words(tdm_ushort32 v, __global void *p, int past) {
    if (past)
        __builtin_nontemporal_store(v, (__global tdm_ushort32 *)p);
    else
        *(__global tdm_any_ushort32 *)p = v;
}
TDM_INLINE void tdm_opencl_line_bf16(const float16 x[2], __global tdm_bf16 *p, int past) {
    tdm_opencl_store_words(tdm_opencl_bf16_words(x[0], x[1]), p, past);
}
TDM_INLINE void tdm_opencl_line_f16(const float16 x[2], __global tdm_f16 *p, int past) {
    const ushort16 first = tdm_opencl_half_bits_16(x[0]), second = tdm_opencl_half_bits_16(x[1]);
    tdm_opencl_store_words((tdm_ushort32)(first, second), p, past);
}
#endif

#endif
