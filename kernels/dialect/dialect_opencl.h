/* The dialect as OpenCL C 1.2. No extension is used: f16 goes through vload_half and vstore_half.
 * Loads and stores are macros because OpenCL 1.2 has no generic address space: the built-ins below
 * are overloaded for global, local and private pointers. dialect.h says what each word means. */
#ifndef TDM_DIALECT_OPENCL_H
#define TDM_DIALECT_OPENCL_H

#pragma OPENCL FP_CONTRACT OFF

#define TDM_KERNEL(name) __kernel void name
#define TDM_KERNEL_GROUP(name, x, y, z)                                                            \
    __kernel __attribute__((reqd_work_group_size(x, y, z))) void name
#define TDM_KERNEL_GROUPS(name, x, y, z, groups) TDM_KERNEL_GROUP(name, x, y, z)
#define TDM_DEVICE static inline
/* SPIR compilers inline everything. Oclgrind does not support what the attribute leaves in the
 * code. */
#if defined(__clang__) && !defined(__SPIR__)
#define TDM_INLINE static inline __attribute__((always_inline))
#else
#define TDM_INLINE static inline
#endif
#define TDM_GLOBAL __global
#define TDM_LOCAL __local
#define TDM_LOCAL_ARRAY(type, name, count) __local type name[count]
#define TDM_LOCAL_ARGUMENT(type, name) __local type *name
#define TDM_RESTRICT restrict
#define TDM_UNROLL _Pragma("unroll")
#define TDM_UNROLL_PASSES TDM_UNROLL
#define TDM_NO_UNROLL _Pragma("nounroll")
#define TDM_FEW_PASSES

#define tdm_group_x() ((long)get_group_id(0))
#define tdm_group_y() ((long)get_group_id(1))
#define tdm_group_z() ((long)get_group_id(2))
#define tdm_groups_x() ((long)get_num_groups(0))
#define tdm_groups_y() ((long)get_num_groups(1))
#define tdm_groups_z() ((long)get_num_groups(2))
#define tdm_item_x() ((int)get_local_id(0))
#define tdm_item_y() ((int)get_local_id(1))
#define tdm_item_z() ((int)get_local_id(2))
#define tdm_group_size_x() ((int)get_local_size(0))
#define tdm_group_size_y() ((int)get_local_size(1))
#define tdm_group_size_z() ((int)get_local_size(2))
#define tdm_global_x() ((long)get_global_id(0))
#define tdm_global_y() ((long)get_global_id(1))
#define tdm_global_z() ((long)get_global_id(2))
#define tdm_global_size_x() ((long)get_global_size(0))
#define tdm_global_size_y() ((long)get_global_size(1))
#define tdm_global_size_z() ((long)get_global_size(2))

#define tdm_address(p) ((ulong)(p))

#if defined(__clang__) && (defined(__x86_64__) || defined(__aarch64__))
#define TDM_ITEM_BEGIN                                                                             \
    if (get_local_id(0) >= get_local_size(0))                                                      \
    return
#else
#define TDM_ITEM_BEGIN ((void)0)
#endif
#define tdm_barrier() barrier(CLK_LOCAL_MEM_FENCE | CLK_GLOBAL_MEM_FENCE)

typedef float tdm_f32;
typedef half tdm_f16;
typedef ushort tdm_bf16;
typedef int tdm_s32;
typedef char tdm_s8;
typedef uchar tdm_u8;
typedef uchar tdm_s4; /* two elements */

typedef float4 f32x4;
typedef float8 f32x8;
typedef float16 f32x16;
typedef int4 s32x4;
typedef int8 s32x8;
typedef int16 s32x16;

/* Math: the built-ins are overloaded for float and its vectors. */
#define tdm_fma(a, b, c) fma(a, b, c)
#define tdm_mad(a, b, c) mad(a, b, c)
#define tdm_min(a, b) fmin(a, b)
#define tdm_max(a, b) fmax(a, b)
/* The outer select returns a NaN in b. A NaN in a makes the comparison false, so that the inner
 * select returns a. */
#define tdm_min_nan(a, b) select(select(a, b, (b) < (a)), b, isnan(b))
#define tdm_max_nan(a, b) select(select(a, b, (b) > (a)), b, isnan(b))
#if defined(__FMA__) || (defined(__clang__) && defined(__aarch64__))
#define TDM_FAST_FMA 1
#endif
#define tdm_abs(x) fabs(x)
#define tdm_exp(x) exp(x)
#define tdm_log(x) log(x)
#define tdm_tanh(x) tanh(x)
#define tdm_erf(x) erf(x)
#define tdm_erfc(x) erfc(x)
#define tdm_sqrt(x) sqrt(x)
#define tdm_rsqrt(x) rsqrt(x)
#define tdm_rint(x) rint(x)
#define tdm_floor(x) floor(x)
#define tdm_copysign(x, sign) copysign(x, sign)

#define tdm_int_min(v, w) min(v, w)
#define tdm_int_max(v, w) max(v, w)
/* Unsigned arithmetic wraps; signed overflow would be undefined. */
#define TDM_OPENCL_U32_1_(v) as_uint(v)
#define TDM_OPENCL_U32_4_(v) as_uint4(v)
#define TDM_OPENCL_U32_8_(v) as_uint8(v)
#define TDM_OPENCL_U32_16_(v) as_uint16(v)
#define TDM_OPENCL_S32_1_(u) as_int(u)
#define TDM_OPENCL_S32_4_(u) as_int4(u)
#define TDM_OPENCL_S32_8_(u) as_int8(u)
#define TDM_OPENCL_S32_16_(u) as_int16(u)
#define TDM_OPENCL_WRAP_(N, v, op, w)                                                              \
    TDM_CAT4(TDM_OPENCL_S32_, N, _, )                                                              \
    (TDM_CAT4(TDM_OPENCL_U32_, N, _, )(v) op TDM_CAT4(TDM_OPENCL_U32_, N, _, )(w))
#define tdm_add_wrap(N, v, w) TDM_OPENCL_WRAP_(N, v, +, w)
#define tdm_sub_wrap(N, v, w) TDM_OPENCL_WRAP_(N, v, -, w)
#define tdm_mul_wrap(N, v, w) TDM_OPENCL_WRAP_(N, v, *, w)
#define TDM_OPENCL_BYTE_(N, v) ((v)&TDM_INT_SPLAT(N, 0xff))
#define tdm_quad(N, v0, v1, v2, v3)                                                                \
    (TDM_OPENCL_BYTE_(N, v0) | (TDM_OPENCL_BYTE_(N, v1) << 8) | (TDM_OPENCL_BYTE_(N, v2) << 16) |  \
     ((v3) << 24))
#define tdm_quad_byte(N, q, k) (((q) << (24 - 8 * (k))) >> 24)
#define tdm_load_quad(p, i) as_int(tdm_opencl_load_4((p) + (i)))
#define s32x8_load_quads(p, i)                                                                     \
    ((int8)(as_int4(tdm_opencl_load_16((p) + (i))), as_int4(tdm_opencl_load_16((p) + (i) + 16))))

/* A compiler that does not know an extension can still check the source. */
#if defined(TDM_DOT4_KHR)
#ifdef cl_khr_integer_dot_product
#pragma OPENCL EXTENSION cl_khr_integer_dot_product : enable
#else
int __attribute__((overloadable)) dot_4x8packed_ss_int(uint a, uint b);
#endif
#define TDM_OPENCL_DOT4_(a, b, c) tdm_add_wrap(1, dot_4x8packed_ss_int(as_uint(a), as_uint(b)), c)
#elif defined(TDM_DOT4_ARM)
#ifdef cl_arm_integer_dot_product_accumulate_int8
#pragma OPENCL EXTENSION cl_arm_integer_dot_product_accumulate_int8 : enable
#else
int __attribute__((overloadable)) arm_dot_acc(char4 a, char4 b, int c);
#endif
#define TDM_OPENCL_DOT4_(a, b, c) arm_dot_acc(as_char4(a), as_char4(b), c)
#elif defined(TDM_DOT4_QCOM)
#ifdef cl_qcom_dot_product8
#pragma OPENCL EXTENSION cl_qcom_dot_product8 : enable
#else
int __attribute__((overloadable)) qcom_dot8_acc(uint signed_bytes, uint unsigned_bytes, int c);
#endif
#define TDM_DOT4_UNSIGNED 1
#define TDM_OPENCL_DOT4_(a, b, c) qcom_dot8_acc(as_uint(b), as_uint(a), c)
#endif
#ifndef TDM_DOT4_UNSIGNED
#define TDM_DOT4_UNSIGNED 0
#endif
#ifdef TDM_OPENCL_DOT4_
#define TDM_OPENCL_DOT4_1_(a, b, c) TDM_OPENCL_DOT4_(a, b, c)
TDM_DEVICE int4 TDM_OPENCL_DOT4_4_(int a, int4 b, int4 c) {
    return (int4)(TDM_OPENCL_DOT4_(a, b.s0, c.s0), TDM_OPENCL_DOT4_(a, b.s1, c.s1),
                  TDM_OPENCL_DOT4_(a, b.s2, c.s2), TDM_OPENCL_DOT4_(a, b.s3, c.s3));
}
#else
#define TDM_OPENCL_DOT4_EMULATED_(N, a, b, c)                                                      \
    tdm_add_wrap(N, c,                                                                             \
                 (tdm_quad_byte(1, a, 0) * tdm_quad_byte(N, b, 0) +                                \
                  tdm_quad_byte(1, a, 1) * tdm_quad_byte(N, b, 1)) +                               \
                     (tdm_quad_byte(1, a, 2) * tdm_quad_byte(N, b, 2) +                            \
                      tdm_quad_byte(1, a, 3) * tdm_quad_byte(N, b, 3)))
#define TDM_OPENCL_DOT4_1_(a, b, c) TDM_OPENCL_DOT4_EMULATED_(1, a, b, c)
#define TDM_OPENCL_DOT4_4_(a, b, c) TDM_OPENCL_DOT4_EMULATED_(4, a, b, c)
#endif
#define tdm_dot4(N, a, b, c) TDM_CAT4(TDM_OPENCL_DOT4_, N, _, )(a, b, c)

/* PoCL 3.1 splits vloadN and vstoreN into quarters. A vector type of lower alignment is one
 * instruction there. Elsewhere the built-ins are used: OpenCL C does not promise that a typedef may
 * lower an alignment. */
#if defined(__clang__) && (defined(__x86_64__) || defined(__aarch64__))
#define TDM_OPENCL_WIDE_(N, NAME, VECTOR, ELEMENT, SPACE)                                          \
    static inline VECTOR __attribute__((overloadable, always_inline))                              \
    tdm_opencl_load_##N(const SPACE ELEMENT *p) {                                                  \
        return *(const SPACE NAME *)p;                                                             \
    }                                                                                              \
    static inline void __attribute__((overloadable, always_inline))                                \
    tdm_opencl_store_##N(VECTOR x, SPACE ELEMENT *p) {                                             \
        *(SPACE NAME *)p = x;                                                                      \
    }
#define TDM_OPENCL_WIDE_TYPE_(N, ELEMENT, BYTES)                                                   \
    typedef ELEMENT##N tdm_any_##ELEMENT##N __attribute__((aligned(BYTES)));                       \
    TDM_OPENCL_WIDE_(N, tdm_any_##ELEMENT##N, ELEMENT##N, ELEMENT, __global)                       \
    TDM_OPENCL_WIDE_(N, tdm_any_##ELEMENT##N, ELEMENT##N, ELEMENT, __local)                        \
    TDM_OPENCL_WIDE_(N, tdm_any_##ELEMENT##N, ELEMENT##N, ELEMENT, __private)
#define TDM_OPENCL_WIDE_TYPES_(N)                                                                  \
    TDM_OPENCL_WIDE_TYPE_(N, float, 4)                                                             \
    TDM_OPENCL_WIDE_TYPE_(N, int, 4)                                                               \
    TDM_OPENCL_WIDE_TYPE_(N, ushort, 2)                                                            \
    TDM_OPENCL_WIDE_TYPE_(N, char, 1)                                                              \
    TDM_OPENCL_WIDE_TYPE_(N, uchar, 1)                                                             \
    TDM_OPENCL_WIDE_TYPE_(N, long, 8)
TDM_OPENCL_WIDE_TYPE_(2, uchar, 1)
TDM_OPENCL_WIDE_TYPES_(4)
TDM_OPENCL_WIDE_TYPES_(8)
TDM_OPENCL_WIDE_TYPES_(16)
#define tdm_prefetch(p) __builtin_prefetch((const void *)(size_t)(p))
#define tdm_prefetch_far(p) __builtin_prefetch((const void *)(size_t)(p), 0, 2)
#define TDM_CAN_STREAM 1
#define TDM_CAN_STREAM_NARROW 1
#define TDM_STREAMV(N, x, p, i) __builtin_nontemporal_store(x, (__global TDM_F32(N) *)((p) + (i)))
/* If Clang sees both the narrowing and the store, it uses one instruction for both, which is not
 * non-temporal. */
#if defined(__x86_64__)
#define TDM_OPENCL_KEPT_(TYPE)                                                                     \
    static inline TYPE __attribute__((overloadable, always_inline)) tdm_opencl_kept_16(TYPE v) {   \
        __asm__("" : "+x"(v));                                                                     \
        return v;                                                                                  \
    }
TDM_OPENCL_KEPT_(char16)
TDM_OPENCL_KEPT_(uchar16)
#else
#define tdm_opencl_kept_16(v) (v)
#endif
#define tdm_opencl_kept_4(v) (v)
#define tdm_opencl_kept_8(v) (v)
#define TDM_INT_STREAMV(N, DT, v, p, i)                                                            \
    TDM_CAT4(TDM_OPENCL_STREAM_, DT, _, )(N, TDM_CAT2(int, N), v, p, i)
#define TDM_OPENCL_STREAM_CODES_(N, TYPE, codes, p)                                                \
    __builtin_nontemporal_store(TDM_CAT2(tdm_opencl_kept_, N)(codes), (__global TYPE *)(p))
#define TDM_OPENCL_STREAM_s8_(N, INT, v, p, i)                                                     \
    TDM_OPENCL_STREAM_CODES_(N, TDM_CAT2(char, N),                                                 \
                             TDM_CAT2(convert_char, N)(clamp(v, (INT)(-128), (INT)(127))),         \
                             (p) + (i))
#define TDM_OPENCL_STREAM_u8_(N, INT, v, p, i)                                                     \
    TDM_OPENCL_STREAM_CODES_(N, TDM_CAT2(uchar, N),                                                \
                             TDM_CAT2(convert_uchar, N)(clamp(v, (INT)(0), (INT)(255))),           \
                             (p) + (i))
#define TDM_OPENCL_STREAM_s4_(N, INT, v, p, i)                                                     \
    TDM_CAT2(tdm_opencl_stream_s4x, N)(clamp(v, (INT)(-8), (INT)(7)), (p) + ((i) >> 1))
/* The quantized values are known to be in the range of their type. A form of the dialect may leave
 * these words out. */
#define TDM_CODES_STREAMV(N, DT, v, p, i) TDM_CAT4(TDM_OPENCL_STREAM_CODES_, DT, _, )(N, v, p, i)
#define TDM_OPENCL_STREAM_CODES_s8_(N, v, p, i) TDM_INT_STREAMV(N, s8, v, p, i)
#define TDM_OPENCL_STREAM_CODES_u8_(N, v, p, i) TDM_INT_STREAMV(N, u8, v, p, i)
#define TDM_OPENCL_STREAM_CODES_s4_(N, v, p, i)                                                    \
    TDM_CAT2(tdm_opencl_stream_s4x, N)(v, (p) + ((i) >> 1))
#define TDM_CODES_STOREV(N, DT, v, p, i) TDM_CAT4(TDM_OPENCL_STORE_CODES_, DT, _, )(N, v, p, i)
#define TDM_OPENCL_STORE_CODES_s8_(N, v, p, i) TDM_INT_STOREV(N, s8, v, p, i)
#define TDM_OPENCL_STORE_CODES_u8_(N, v, p, i) TDM_INT_STOREV(N, u8, v, p, i)
#define TDM_OPENCL_STORE_CODES_s4_(N, v, p, i) TDM_CAT4(TDM_OPENCL_STORE_CODES_s4x, N, _, )(v, p, i)
#define TDM_OPENCL_STORE_CODES_s4x1_(v, p, i) tdm_store_int_s4(v, p, i)
#define TDM_OPENCL_STORE_CODES_s4x4_(v, p, i) tdm_opencl_store_codes_s4x4(v, (p) + ((i) >> 1))
#define TDM_OPENCL_STORE_CODES_s4x8_(v, p, i) tdm_opencl_store_codes_s4x8(v, (p) + ((i) >> 1))
#define TDM_OPENCL_STORE_CODES_s4x16_(v, p, i) tdm_opencl_store_codes_s4x16(v, (p) + ((i) >> 1))
#if defined(__x86_64__)
#define tdm_stream_end() __builtin_ia32_sfence()
#else
#define tdm_stream_end() ((void)0)
#endif
#define TDM_OPENCL_STREAMED_(N, ELEMENT)                                                           \
    static inline void __attribute__((overloadable, always_inline))                                \
    tdm_opencl_stream_##N(ELEMENT##N x, __global ELEMENT *p) {                                     \
        __builtin_nontemporal_store(x, (__global ELEMENT##N *)p);                                  \
    }
#define TDM_OPENCL_STREAMED_TYPES_(N)                                                              \
    TDM_OPENCL_STREAMED_(N, int)                                                                   \
    TDM_OPENCL_STREAMED_(N, ushort)                                                                \
    TDM_OPENCL_STREAMED_(N, uchar)                                                                 \
    TDM_OPENCL_STREAMED_(N, long)
TDM_OPENCL_STREAMED_TYPES_(4)
TDM_OPENCL_STREAMED_TYPES_(8)
TDM_OPENCL_STREAMED_TYPES_(16)
#define TDM_STREAM_COPYV(N, to, i, from, j) TDM_CAT2(tdm_stream_copy_, N)(to, i, from, j)
#define tdm_stream_copy_4(to, i, from, j)                                                          \
    tdm_opencl_stream_4(tdm_opencl_load_4((from) + (j)), (to) + (i))
#define tdm_stream_copy_8(to, i, from, j)                                                          \
    tdm_opencl_stream_8(tdm_opencl_load_8((from) + (j)), (to) + (i))
#define tdm_stream_copy_16(to, i, from, j)                                                         \
    tdm_opencl_stream_16(tdm_opencl_load_16((from) + (j)), (to) + (i))
#else
#define TDM_STREAMV(N, x, p, i) TDM_STOREV(N, f32, x, p, i)
#define tdm_stream_end() ((void)0)
#define tdm_opencl_load_4(p) vload4(0, p)
#define tdm_opencl_load_8(p) vload8(0, p)
#define tdm_opencl_load_16(p) vload16(0, p)
#define tdm_opencl_store_4(x, p) vstore4(x, 0, p)
#define tdm_opencl_store_8(x, p) vstore8(x, 0, p)
#define tdm_opencl_store_16(x, p) vstore16(x, 0, p)
#define tdm_prefetch(p) ((void)(p))
#define tdm_prefetch_far(p) ((void)(p))
#endif

#define tdm_copy_4(to, i, from, j) vstore4(vload4(0, (from) + (j)), 0, (to) + (i))
#define tdm_copy_8(to, i, from, j) vstore8(vload8(0, (from) + (j)), 0, (to) + (i))
#define tdm_copy_16(to, i, from, j) vstore16(vload16(0, (from) + (j)), 0, (to) + (i))

#define TDM_LOADV_GLOBAL(N, DT, p, i) TDM_LOADV(N, DT, p, i)
#define TDM_STOREV_GLOBAL(N, DT, x, p, i) TDM_STOREV(N, DT, x, p, i)
#define TDM_INT_LOADV_GLOBAL(N, DT, p, i) TDM_INT_LOADV(N, DT, p, i)
#define TDM_INT_STOREV_GLOBAL(N, DT, v, p, i) TDM_INT_STOREV(N, DT, v, p, i)

#define tdm_async_copy_16(to, from, bytes_valid)                                                   \
    do {                                                                                           \
        if ((bytes_valid) >= 16)                                                                   \
            *(__local uint4 *)(to) = *(const __global uint4 *)(from);                              \
        else                                                                                       \
            for (int n_ = 0; n_ < 16; n_++)                                                        \
                ((__local uchar *)(to))[n_] =                                                      \
                    n_ < (bytes_valid) ? ((const __global uchar *)(from))[n_] : (uchar)0;          \
    } while (0)
#define tdm_async_copy_4(to, from, bytes_valid)                                                    \
    (*(__local uint *)(to) = (bytes_valid) > 0 ? *(const __global uint *)(from) : 0u)
#define tdm_async_commit() ((void)0)
#define tdm_async_wait(pending) ((void)0)

#define tdm_lane_4(x, l) ((x).s##l)

#define tdm_float(v) ((float)(v))
/* OpenCL only recommends that a saturating conversion turns NaN into 0; rusticl returns the
 * smallest integer. */
#define TDM_OPENCL_NUMBER_(x, type) select(x, (type)(0.0f), isnan(x))
#define tdm_int_rte(x) convert_int_sat_rte(TDM_OPENCL_NUMBER_(x, float))
#define tdm_int_rtz(x) convert_int_sat_rtz(TDM_OPENCL_NUMBER_(x, float))
#define tdm_float_bits(x) as_uint(x)
#define tdm_bits_float(u) as_float(u)
#define tdm_is_nan(x) isnan(x)

/* An integer below 2^24 is exact. Above that, an ulp of bf16 is at least 2^17, so it only matters
 * if the low 16 bits are zero. One set bit stands for them, and the result fits in 24 bits. f16 is
 * infinite at that size. */
#define TDM_OPENCL_FROM_S32_ODD_(N, INT, FLOAT)                                                    \
    TDM_DEVICE FLOAT f32x##N##_from_s32_odd(INT v) {                                               \
        const INT kept = (v & (INT)(~0xffff)) | ((((v & (INT)0xffff) + (INT)0xffff) >> 16) << 8);  \
        const FLOAT x = convert_##FLOAT(v);                                                        \
        return select(convert_##FLOAT(kept), x, fabs(x) < (FLOAT)16777216.0f);                     \
    }
TDM_OPENCL_FROM_S32_ODD_(1, int, float)
TDM_OPENCL_FROM_S32_ODD_(4, int4, float4)
TDM_OPENCL_FROM_S32_ODD_(8, int8, float8)
TDM_OPENCL_FROM_S32_ODD_(16, int16, float16)

/* x is already rounded. PoCL's saturating conversions work lane by lane; this takes four vector
 * instructions. */
#define TDM_OPENCL_SATURATED_(N)                                                                   \
    TDM_DEVICE int##N tdm_s32x##N##_saturated(float##N x) {                                        \
        const float##N number = TDM_OPENCL_NUMBER_(x, float##N);                                   \
        const float##N top = (float##N)(2147483648.0f);                                            \
        const float##N low = number < -top ? -top : number;                                        \
        const int##N v = convert_int##N(number >= top ? (float##N)(0.0f) : low);                   \
        return select(v, (int##N)(2147483647), number >= top);                                     \
    }
TDM_OPENCL_SATURATED_(4)
TDM_OPENCL_SATURATED_(8)
TDM_OPENCL_SATURATED_(16)

/* These words turn a NaN into 0. fmin and fmax cannot do that: they return their other operand,
 * which would be an end of the range. */
#define f32x1_number(x) TDM_OPENCL_NUMBER_(x, float)
#define f32x4_number(x) TDM_OPENCL_NUMBER_(x, float4)
#define f32x8_number(x) TDM_OPENCL_NUMBER_(x, float8)
#if defined(__x86_64__)
/* This is one comparison; isnan takes two integer steps on x86. */
TDM_DEVICE float16 f32x16_number(float16 x) {
    return x == x ? x : (float16)(0.0f);
}
#else
#define f32x16_number(x) TDM_OPENCL_NUMBER_(x, float16)
#endif
#define f32x16_if_number(x, y) select((float16)(0.0f), y, (x) == (x))

/* Pairs of s4. On CPU cores the two elements of a pair are the halves of a 64-bit lane, so that
 * packing and unpacking need no shuffles. */
TDM_DEVICE void tdm_opencl_store_s4(int v, __global uchar *p, long i) {
    const int shift = (i & 1) != 0 ? 4 : 0;
    const int code = clamp(v, -8, 7) & 15;
    p[i >> 1] = (uchar)((p[i >> 1] & (0xf0 >> shift)) | (code << shift));
}
#if defined(__clang__) && (defined(__x86_64__) || defined(__aarch64__))
#define TDM_OPENCL_S4_(N, HALF)                                                                    \
    TDM_DEVICE int##N tdm_opencl_load_s4x##N(const __global uchar *p) {                            \
        const ulong##HALF pairs = __builtin_convertvector(tdm_opencl_load_##HALF(p), ulong##HALF); \
        const ulong##HALF codes = (pairs | (pairs << 28)) & (ulong##HALF)(0x0000000f0000000fUL);   \
        return (as_int##N(codes) ^ (int##N)(8)) - (int##N)(8);                                     \
    }                                                                                              \
    TDM_DEVICE uchar##HALF tdm_opencl_pairs_s4x##N(int##N codes) {                                 \
        const ulong##HALF lanes = as_ulong##HALF(codes);                                           \
        return __builtin_convertvector(                                                            \
            (lanes & (ulong##HALF)(0x0f)) | ((lanes >> 28) & (ulong##HALF)(0xf0)), uchar##HALF);   \
    }                                                                                              \
    TDM_DEVICE void tdm_opencl_store_codes_s4x##N(int##N v, __global uchar *p) {                   \
        tdm_opencl_store_##HALF(tdm_opencl_pairs_s4x##N(v), p);                                    \
    }                                                                                              \
    TDM_DEVICE void tdm_opencl_store_s4x##N(int##N v, __global uchar *p) {                         \
        tdm_opencl_store_codes_s4x##N(clamp(v, (int##N)(-8), (int##N)(7)), p);                     \
    }
#else
#define TDM_OPENCL_S4_(N, HALF)                                                                    \
    TDM_DEVICE int##N tdm_opencl_load_s4x##N(const __global uchar *p) {                            \
        const uchar##HALF pairs = vload##HALF(0, p);                                               \
        uchar##N codes;                                                                            \
        codes.even = pairs & (uchar##HALF)(15);                                                    \
        codes.odd = pairs >> (uchar##HALF)(4);                                                     \
        return (convert_int##N(codes) ^ (int##N)(8)) - (int##N)(8);                                \
    }                                                                                              \
    TDM_DEVICE void tdm_opencl_store_s4x##N(int##N v, __global uchar *p) {                         \
        const uchar##N codes =                                                                     \
            convert_uchar##N(clamp(v, (int##N)(-8), (int##N)(7)) & (int##N)(15));                  \
        vstore##HALF(codes.even | (codes.odd << (uchar##HALF)(4)), 0, p);                          \
    }
#endif
TDM_OPENCL_S4_(4, 2)
TDM_OPENCL_S4_(8, 4)
TDM_OPENCL_S4_(16, 8)
#ifdef TDM_CODES_STREAMV
#define tdm_opencl_stream_s4x4(v, p) tdm_opencl_store_codes_s4x4(v, p)
#define tdm_opencl_stream_s4x8(v, p) tdm_opencl_store_codes_s4x8(v, p)
TDM_DEVICE void tdm_opencl_stream_s4x16(int16 v, __global uchar *p) {
    const ulong pairs = as_ulong(tdm_opencl_pairs_s4x16(v));
    __builtin_nontemporal_store(pairs, (__global ulong *)p);
}
#endif
#define s32x4_load_s4(p, i) tdm_opencl_load_s4x4((p) + ((i) >> 1))
#define s32x8_load_s4(p, i) tdm_opencl_load_s4x8((p) + ((i) >> 1))
#define s32x16_load_s4(p, i) tdm_opencl_load_s4x16((p) + ((i) >> 1))
#define s32x4_store_s4(v, p, i) tdm_opencl_store_s4x4(v, (p) + ((i) >> 1))
#define s32x8_store_s4(v, p, i) tdm_opencl_store_s4x8(v, (p) + ((i) >> 1))
#define s32x16_store_s4(v, p, i) tdm_opencl_store_s4x16(v, (p) + ((i) >> 1))

/* These convert TDM_S4_RUN elements between pairs of s4 and bytes. They stay vectors of bytes:
 * widening to s32 would take several times the instructions. `past` selects a non-temporal store,
 * whose address must be a multiple of its size. x and y point to the first elements. */
#if defined(__clang__) && (defined(__x86_64__) || defined(__aarch64__))
#define TDM_S4_RUN 64
typedef char tdm_char64 __attribute__((ext_vector_type(64)));
typedef uchar tdm_uchar64 __attribute__((ext_vector_type(64)));
typedef uchar tdm_uchar32 __attribute__((ext_vector_type(32)));
typedef ushort tdm_ushort32 __attribute__((ext_vector_type(32)));
typedef tdm_char64 tdm_any_char64 __attribute__((aligned(1)));
typedef tdm_uchar64 tdm_any_uchar64 __attribute__((aligned(1)));
typedef tdm_uchar32 tdm_any_uchar32 __attribute__((aligned(1)));
typedef short tdm_short32 __attribute__((ext_vector_type(32)));
typedef tdm_ushort32 tdm_any_ushort32 __attribute__((aligned(2)));
TDM_INLINE void tdm_opencl_s4_pack(tdm_uchar64 v, __global tdm_s4 *y, int past) {
    const tdm_ushort32 pairs = __builtin_astype(v, tdm_ushort32);
    const tdm_ushort32 low = (tdm_ushort32)((ushort)0x0f), high = (tdm_ushort32)((ushort)0xf0);
    const tdm_ushort32 shifted = pairs >> (tdm_ushort32)((ushort)4);
    tdm_uchar32 packed = __builtin_convertvector((pairs & low) | (shifted & high), tdm_uchar32);
#if defined(__AVX512BW__)
    __asm__("" : "+x"(packed)); /* see tdm_opencl_kept_16 */
#endif
    if (past)
        __builtin_nontemporal_store(packed, (__global tdm_uchar32 *)y);
    else
        *(__global tdm_any_uchar32 *)y = packed;
}
TDM_INLINE tdm_char64 tdm_opencl_s4_unpack(const __global tdm_s4 *x) {
    const tdm_uchar32 packed = *(const __global tdm_any_uchar32 *)x;
    const tdm_ushort32 pairs = __builtin_convertvector(packed, tdm_ushort32);
    const tdm_ushort32 low = (tdm_ushort32)((ushort)0x0f), high = (tdm_ushort32)((ushort)0xf0);
    const tdm_ushort32 codes = (pairs & low) | ((pairs & high) << (tdm_ushort32)((ushort)4));
    const tdm_char64 sign = (tdm_char64)((char)8);
    return (__builtin_astype(codes, tdm_char64) ^ sign) - sign;
}
TDM_INLINE void tdm_opencl_store_64(tdm_char64 v, __global void *y, int past) {
    if (past)
        __builtin_nontemporal_store(v, (__global tdm_char64 *)y);
    else
        *(__global tdm_any_char64 *)y = v;
}
TDM_INLINE void tdm_s4_from_s8(const __global tdm_s8 *x, __global tdm_s4 *y, int past) {
    const tdm_char64 v = *(const __global tdm_any_char64 *)x;
    const tdm_char64 least = (tdm_char64)((char)-8), most = (tdm_char64)((char)7);
    const tdm_char64 below = v < most ? v : most;
    tdm_opencl_s4_pack(__builtin_astype(below > least ? below : least, tdm_uchar64), y, past);
}
TDM_INLINE void tdm_s4_from_u8(const __global tdm_u8 *x, __global tdm_s4 *y, int past) {
    const tdm_uchar64 v = *(const __global tdm_any_uchar64 *)x;
    const tdm_uchar64 most = (tdm_uchar64)((uchar)7);
    tdm_opencl_s4_pack(v < most ? v : most, y, past);
}
TDM_INLINE void tdm_s4_to_s8(const __global tdm_s4 *x, __global tdm_s8 *y, int past) {
    tdm_opencl_store_64(tdm_opencl_s4_unpack(x), y, past);
}
TDM_INLINE void tdm_s4_to_u8(const __global tdm_s4 *x, __global tdm_u8 *y, int past) {
    const tdm_char64 v = tdm_opencl_s4_unpack(x), zero = (tdm_char64)((char)0);
    tdm_opencl_store_64(v > zero ? v : zero, y, past);
}

/* Stores four vectors of quantized values, known to be in range, as bytes. Narrowing them one by
 * one would take as many instructions for each as for all four. */
#define TDM_CODES_STORE_LINE(DT, codes, p, past) TDM_CAT2(tdm_opencl_line_, DT)(codes, p, past)
#if defined(__AVX512BW__)
#define TDM_OPENCL_LINE_(NAME, NARROW)                                                             \
    TDM_INLINE tdm_char64 NAME(const int16 v[4]) {                                                 \
        const tdm_short32 a = __builtin_ia32_packssdw512(v[0], v[1]);                              \
        const tdm_short32 b = __builtin_ia32_packssdw512(v[2], v[3]);                              \
        const int16 quads = __builtin_astype(NARROW(a, b), int16);                                 \
        return __builtin_astype(quads.s048c159d26ae37bf, tdm_char64);                              \
    }
TDM_OPENCL_LINE_(tdm_opencl_bytes_s8, __builtin_ia32_packsswb512)
TDM_OPENCL_LINE_(tdm_opencl_bytes_u8, __builtin_ia32_packuswb512)
#else
TDM_INLINE tdm_char64 tdm_opencl_bytes_s8(const int16 v[4]) {
    const char16 bytes[4] = {convert_char16(v[0]), convert_char16(v[1]), convert_char16(v[2]),
                             convert_char16(v[3])};
    return *(const __private tdm_any_char64 *)bytes;
}
#define tdm_opencl_bytes_u8(v) tdm_opencl_bytes_s8(v)
#endif
TDM_INLINE void tdm_opencl_line_s8(const int16 v[4], __global tdm_s8 *y, int past) {
    tdm_opencl_store_64(tdm_opencl_bytes_s8(v), y, past);
}
TDM_INLINE void tdm_opencl_line_u8(const int16 v[4], __global tdm_u8 *y, int past) {
    tdm_opencl_store_64(tdm_opencl_bytes_u8(v), y, past);
}
TDM_INLINE void tdm_opencl_line_s4(const int16 v[4], __global tdm_s4 *y, int past) {
    tdm_opencl_s4_pack(__builtin_astype(tdm_opencl_bytes_s8(v), tdm_uchar64), y, past);
}
#endif

#include "dialect_opencl_halves.h"

#define tdm_load_f32(p, i) ((p)[i])
#define tdm_load_f16(p, i) vload_half(i, p)
#define tdm_load_bf16(p, i) as_float((uint)(p)[i] << 16)
#define tdm_load_s32(p, i) ((float)(p)[i])
#define tdm_load_s8(p, i) ((float)(p)[i])
#define tdm_load_u8(p, i) ((float)(p)[i])
#define tdm_int_s32(p, i) ((p)[i])
#define tdm_int_s8(p, i) ((int)(p)[i])
#define tdm_int_u8(p, i) ((int)(p)[i])
#define tdm_int_s4(p, i) ((int)((uint)(p)[(i) >> 1] << (((i)&1) != 0 ? 24 : 28)) >> 28)
#define tdm_store_f32(x, p, i) ((p)[i] = (x))
#define tdm_store_f16(x, p, i) vstore_half_rte(x, i, p)
#define tdm_store_bf16(x, p, i) ((p)[i] = tdm_bf16_from_f32(x))
#define tdm_store_int_s32(v, p, i) ((p)[i] = (v))
#define tdm_store_int_s8(v, p, i) ((p)[i] = convert_char_sat(v))
#define tdm_store_int_u8(v, p, i) ((p)[i] = convert_uchar_sat(v))
#define tdm_store_int_s4(v, p, i) tdm_opencl_store_s4(v, p, i)

#define f32x4_splat(x) ((float4)(x))
#define f32x4_load_f32(p, i) tdm_opencl_load_4((p) + (i))
#define f32x4_load_f16(p, i) tdm_opencl_load_half_4((p) + (i))
#define f32x4_load_bf16(p, i) as_float4(convert_uint4(tdm_opencl_load_4((p) + (i))) << 16)
#define f32x4_load_s32(p, i) convert_float4(tdm_opencl_load_4((p) + (i)))
#define f32x4_load_s8(p, i) convert_float4(tdm_opencl_load_4((p) + (i)))
#define f32x4_load_u8(p, i) convert_float4(tdm_opencl_load_4((p) + (i)))
#define f32x4_loada_f32(p, i) (*(TDM_GLOBAL const float4 *)((p) + (i)))
#define f32x4_loada_f16(p, i) vloada_half4(0, (p) + (i))
#define f32x4_loada_bf16(p, i)                                                                     \
    as_float4(convert_uint4(*(TDM_GLOBAL const ushort4 *)((p) + (i))) << 16)
#define f32x4_of(a, b, c, d) ((float4)(a, b, c, d))
#define f32x4_store_f32(x, p, i) tdm_opencl_store_4(x, (p) + (i))
#define f32x4_store_f16(x, p, i) tdm_opencl_store_half_4(x, (p) + (i))
#define f32x4_store_bf16(x, p, i) tdm_opencl_store_4(tdm_bf16x4_from_f32(x), (p) + (i))
#define f32x4_from_s32(v) convert_float4(v)
#define f32x4_select_lt(a, b, x, y) select(y, x, (a) < (b))
#define f32x4_bits(x) as_int4(x)
#define s32x4_of(a, b, c, d) ((int4)(a, b, c, d))
#define s32x4_splat(v) ((int4)(v))
#define s32x4_load_s32(p, i) tdm_opencl_load_4((p) + (i))
#define s32x4_load_s8(p, i) convert_int4(tdm_opencl_load_4((p) + (i)))
#define s32x4_load_u8(p, i) convert_int4(tdm_opencl_load_4((p) + (i)))
#define s32x4_store_s32(v, p, i) tdm_opencl_store_4(v, (p) + (i))
#define s32x4_store_s8(v, p, i)                                                                    \
    tdm_opencl_store_4(convert_char4(clamp(v, (int4)(-128), (int4)(127))), (p) + (i))
#define s32x4_store_u8(v, p, i)                                                                    \
    tdm_opencl_store_4(convert_uchar4(clamp(v, (int4)(0), (int4)(255))), (p) + (i))
#define s32x4_from_f32_rte(x) tdm_s32x4_saturated(rint(x))
#define s32x4_from_f32_rtz(x) tdm_s32x4_saturated(trunc(x))
#define s32x4_float(v) as_float4(v)

#define f32x8_splat(x) ((float8)(x))
#define f32x8_evens(a, b) ((float8)((a).even, (b).even))
#define f32x8_odds(a, b) ((float8)((a).odd, (b).odd))
#define f32x8_load_f32(p, i) tdm_opencl_load_8((p) + (i))
#define f32x8_load_f16(p, i) tdm_opencl_load_half_8((p) + (i))
#define f32x8_load_bf16(p, i) as_float8(convert_uint8(tdm_opencl_load_8((p) + (i))) << 16)
#define f32x8_load_s32(p, i) convert_float8(tdm_opencl_load_8((p) + (i)))
#define f32x8_load_s8(p, i) convert_float8(tdm_opencl_load_8((p) + (i)))
#define f32x8_load_u8(p, i) convert_float8(tdm_opencl_load_8((p) + (i)))
#define f32x8_store_f32(x, p, i) tdm_opencl_store_8(x, (p) + (i))
#define f32x8_store_f16(x, p, i) tdm_opencl_store_half_8(x, (p) + (i))
#define f32x8_store_bf16(x, p, i) tdm_opencl_store_8(tdm_bf16x8_from_f32(x), (p) + (i))
#define f32x8_from_s32(v) convert_float8(v)
#define f32x8_select_lt(a, b, x, y) select(y, x, (a) < (b))
#define f32x8_bits(x) as_int8(x)
#define s32x8_splat(v) ((int8)(v))
#define s32x8_load_s32(p, i) tdm_opencl_load_8((p) + (i))
#define s32x8_load_s8(p, i) convert_int8(tdm_opencl_load_8((p) + (i)))
#define s32x8_load_u8(p, i) convert_int8(tdm_opencl_load_8((p) + (i)))
#define s32x8_store_s32(v, p, i) tdm_opencl_store_8(v, (p) + (i))
#define s32x8_store_s8(v, p, i)                                                                    \
    tdm_opencl_store_8(convert_char8(clamp(v, (int8)(-128), (int8)(127))), (p) + (i))
#define s32x8_store_u8(v, p, i)                                                                    \
    tdm_opencl_store_8(convert_uchar8(clamp(v, (int8)(0), (int8)(255))), (p) + (i))
#define s32x8_from_f32_rte(x) tdm_s32x8_saturated(rint(x))
#define s32x8_from_f32_rtz(x) tdm_s32x8_saturated(trunc(x))
#define s32x8_float(v) as_float8(v)

#define f32x16_splat(x) ((float16)(x))
#define f32x16_evens(a, b) ((float16)((a).even, (b).even))
#define f32x16_odds(a, b) ((float16)((a).odd, (b).odd))
#define f32x16_load_f32(p, i) tdm_opencl_load_16((p) + (i))
#define f32x16_load_f16(p, i) tdm_opencl_load_half_16((p) + (i))
#define f32x16_load_bf16(p, i) as_float16(convert_uint16(tdm_opencl_load_16((p) + (i))) << 16)
/* These convert the low 16 bits of each lane. */
#define f32x16_of_bits_f16(v) tdm_opencl_halves_16(convert_ushort16(v))
#define f32x16_of_bits_bf16(v) as_float16((v) << 16)
#define f32x16_load_s32(p, i) convert_float16(tdm_opencl_load_16((p) + (i)))
#define f32x16_load_s8(p, i) convert_float16(tdm_opencl_load_16((p) + (i)))
#define f32x16_load_u8(p, i) convert_float16(tdm_opencl_load_16((p) + (i)))
#define f32x16_store_f32(x, p, i) tdm_opencl_store_16(x, (p) + (i))
#define f32x16_store_f16(x, p, i) tdm_opencl_store_half_16(x, (p) + (i))
#define f32x16_store_bf16(x, p, i) tdm_opencl_store_16(tdm_bf16x16_from_f32(x), (p) + (i))
#define f32x16_from_s32(v) convert_float16(v)
#define f32x16_select_lt(a, b, x, y) select(y, x, (a) < (b))
#define f32x16_bits(x) as_int16(x)
#define s32x16_splat(v) ((int16)(v))
#define s32x16_load_s32(p, i) tdm_opencl_load_16((p) + (i))
#define s32x16_load_s8(p, i) convert_int16(tdm_opencl_load_16((p) + (i)))
#define s32x16_load_u8(p, i) convert_int16(tdm_opencl_load_16((p) + (i)))
#define s32x16_store_s32(v, p, i) tdm_opencl_store_16(v, (p) + (i))
#define s32x16_store_s8(v, p, i)                                                                   \
    tdm_opencl_store_16(convert_char16(clamp(v, (int16)(-128), (int16)(127))), (p) + (i))
#define s32x16_store_u8(v, p, i)                                                                   \
    tdm_opencl_store_16(convert_uchar16(clamp(v, (int16)(0), (int16)(255))), (p) + (i))
#define s32x16_from_f32_rte(x) tdm_s32x16_saturated(rint(x))
#define s32x16_from_f32_rtz(x) tdm_s32x16_saturated(trunc(x))
#define s32x16_float(v) as_float16(v)

TDM_DEVICE float f32x4_sum(float4 x) {
    return (x.s0 + x.s2) + (x.s1 + x.s3);
}
TDM_DEVICE float f32x4_hmax(float4 x) {
    return fmax(fmax(x.s0, x.s2), fmax(x.s1, x.s3));
}
TDM_DEVICE float f32x4_hmin(float4 x) {
    return fmin(fmin(x.s0, x.s2), fmin(x.s1, x.s3));
}
TDM_DEVICE float f32x8_sum(float8 x) {
    return f32x4_sum(x.lo + x.hi);
}
TDM_DEVICE float f32x8_hmax(float8 x) {
    return f32x4_hmax(fmax(x.lo, x.hi));
}
TDM_DEVICE float f32x8_hmin(float8 x) {
    return f32x4_hmin(fmin(x.lo, x.hi));
}
/* The rounds exchange elements between pairs of rows, pairs of pairs, and halves. Each assignment
 * is one shuffle of eight-element vectors of a CPU. */
#define TDM_OPENCL_TRANSPOSE_(NAME, VECTOR)                                                        \
    TDM_DEVICE void NAME##_transpose(VECTOR v[8]) {                                                \
        VECTOR pair[8], four[8];                                                                   \
        TDM_UNROLL for (int i = 0; i < 8; i += 2) {                                                \
            const VECTOR x = v[i], y = v[i + 1];                                                   \
            pair[i] = (VECTOR)(x.s0, y.s0, x.s1, y.s1, x.s4, y.s4, x.s5, y.s5);                    \
            pair[i + 1] = (VECTOR)(x.s2, y.s2, x.s3, y.s3, x.s6, y.s6, x.s7, y.s7);                \
        }                                                                                          \
        TDM_UNROLL for (int i = 0; i < 8; i += 4) TDM_UNROLL for (int h = 0; h < 2; h++) {         \
            const VECTOR x = pair[i + h], y = pair[i + 2 + h];                                     \
            four[i + 2 * h] = (VECTOR)(x.s01, y.s01, x.s45, y.s45);                                \
            four[i + 2 * h + 1] = (VECTOR)(x.s23, y.s23, x.s67, y.s67);                            \
        }                                                                                          \
        TDM_UNROLL for (int i = 0; i < 4; i++) {                                                   \
            v[i] = (VECTOR)(four[i].lo, four[i + 4].lo);                                           \
            v[i + 4] = (VECTOR)(four[i].hi, four[i + 4].hi);                                       \
        }                                                                                          \
    }
TDM_OPENCL_TRANSPOSE_(f32x8, float8)
TDM_OPENCL_TRANSPOSE_(s32x8, int8)
TDM_DEVICE float f32x16_sum(float16 x) {
    return f32x8_sum(x.lo + x.hi);
}
TDM_DEVICE float f32x16_hmax(float16 x) {
    return f32x8_hmax(fmax(x.lo, x.hi));
}
TDM_DEVICE float f32x16_hmin(float16 x) {
    return f32x8_hmin(fmin(x.lo, x.hi));
}

#endif
