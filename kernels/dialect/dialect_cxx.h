/* This file defines the kernel dialect in C++17, for CUDA and for the host. dialect_cuda.h and
 * dialect_host.h define the keywords, and the functions on one float or int. This file builds the
 * functions on vectors from them. dialect.h describes each function; it calls them words.
 *
 * A vector of 4 has four members; a vector of 8 or 16 has two halves. Vectors have no array
 * members, so that the compiler can hold them in registers. They are plain data without
 * constructors, which shared memory requires. */
#ifndef TDM_DIALECT_CXX_H
#define TDM_DIALECT_CXX_H

#define TDM_DIALECT_CXX
#include "dialect.h"

#include <math.h>

typedef unsigned int uint;
typedef unsigned long ulong;

typedef float tdm_f32;
typedef unsigned short tdm_f16;
typedef unsigned short tdm_bf16;
typedef int tdm_s32;
typedef signed char tdm_s8;
typedef unsigned char tdm_u8;
typedef unsigned char tdm_s4; /* two elements */

#define TDM_ITEM_BEGIN ((void)0)
#define TDM_GLOBAL
#define TDM_LOCAL
#define TDM_RESTRICT __restrict__

#ifdef __CUDACC__
#include "dialect_cuda.h"
#else
#include "dialect_host.h"
#endif

template <class T, int N> struct tdm_vector { tdm_vector<T, N / 2> lo, hi; };
template <class T> struct alignas(16) tdm_vector<T, 4> { T s0, s1, s2, s3; };
typedef tdm_vector<float, 4> f32x4;
typedef tdm_vector<float, 8> f32x8;
typedef tdm_vector<float, 16> f32x16;
typedef tdm_vector<int, 4> s32x4;
typedef tdm_vector<int, 8> s32x8;
typedef tdm_vector<int, 16> s32x16;

/* ---- functions on vectors, from those on one float or int: results R, operands T ---- */

#define TDM_CXX_WORD_1_(name, R, T)                                                                \
    TDM_DEVICE tdm_vector<R, 4> name(tdm_vector<T, 4> a) {                                         \
        return {name(a.s0), name(a.s1), name(a.s2), name(a.s3)};                                   \
    }                                                                                              \
    template <int N> TDM_DEVICE tdm_vector<R, N> name(tdm_vector<T, N> a) {                        \
        return {name(a.lo), name(a.hi)};                                                           \
    }
#define TDM_CXX_WORD_2_(name, R, T)                                                                \
    TDM_DEVICE tdm_vector<R, 4> name(tdm_vector<T, 4> a, tdm_vector<T, 4> b) {                     \
        return {name(a.s0, b.s0), name(a.s1, b.s1), name(a.s2, b.s2), name(a.s3, b.s3)};           \
    }                                                                                              \
    template <int N> TDM_DEVICE tdm_vector<R, N> name(tdm_vector<T, N> a, tdm_vector<T, N> b) {    \
        return {name(a.lo, b.lo), name(a.hi, b.hi)};                                               \
    }
#define TDM_CXX_WORD_3_(name, T)                                                                   \
    TDM_DEVICE tdm_vector<T, 4> name(tdm_vector<T, 4> a, tdm_vector<T, 4> b, tdm_vector<T, 4> c) { \
        return {name(a.s0, b.s0, c.s0), name(a.s1, b.s1, c.s1), name(a.s2, b.s2, c.s2),            \
                name(a.s3, b.s3, c.s3)};                                                           \
    }                                                                                              \
    template <int N>                                                                               \
    TDM_DEVICE tdm_vector<T, N> name(tdm_vector<T, N> a, tdm_vector<T, N> b, tdm_vector<T, N> c) { \
        return {name(a.lo, b.lo, c.lo), name(a.hi, b.hi, c.hi)};                                   \
    }
#define TDM_CXX_OPERATOR_(op, T, ONE)                                                              \
    TDM_DEVICE tdm_vector<T, 4> operator op(tdm_vector<T, 4> a, tdm_vector<T, 4> b) {              \
        return {ONE(a.s0, b.s0), ONE(a.s1, b.s1), ONE(a.s2, b.s2), ONE(a.s3, b.s3)};               \
    }                                                                                              \
    template <int N>                                                                               \
    TDM_DEVICE tdm_vector<T, N> operator op(tdm_vector<T, N> a, tdm_vector<T, N> b) {              \
        return {a.lo op b.lo, a.hi op b.hi};                                                       \
    }
#define TDM_CXX_SHIFT_(op, ONE)                                                                    \
    TDM_DEVICE s32x4 operator op(s32x4 a, int by) {                                                \
        return {ONE(a.s0, by), ONE(a.s1, by), ONE(a.s2, by), ONE(a.s3, by)};                       \
    }                                                                                              \
    template <int N> TDM_DEVICE tdm_vector<int, N> operator op(tdm_vector<int, N> a, int by) {     \
        return {a.lo op by, a.hi op by};                                                           \
    }

/* Sums, differences, products and left shifts of integers wrap modulo 2^32. */
TDM_DEVICE int tdm_cxx_add(int v, int w) {
    return (int)((uint)v + (uint)w);
}
TDM_DEVICE int tdm_cxx_sub(int v, int w) {
    return (int)((uint)v - (uint)w);
}
TDM_DEVICE int tdm_cxx_mul(int v, int w) {
    return (int)((uint)v * (uint)w);
}
TDM_DEVICE int tdm_cxx_left(int v, int by) {
    return (int)((uint)v << by);
}
#define TDM_CXX_ADD_(a, b) ((a) + (b))
#define TDM_CXX_SUB_(a, b) ((a) - (b))
#define TDM_CXX_MUL_(a, b) ((a) * (b))
#define TDM_CXX_DIV_(a, b) ((a) / (b))
#define TDM_CXX_AND_(a, b) ((a) & (b))
#define TDM_CXX_OR_(a, b) ((a) | (b))
#define TDM_CXX_XOR_(a, b) ((a) ^ (b))
#define TDM_CXX_RIGHT_(a, b) ((a) >> (b))
TDM_CXX_OPERATOR_(+, float, TDM_CXX_ADD_)
TDM_CXX_OPERATOR_(-, float, TDM_CXX_SUB_)
TDM_CXX_OPERATOR_(*, float, TDM_CXX_MUL_)
TDM_CXX_OPERATOR_(/, float, TDM_CXX_DIV_)
TDM_CXX_OPERATOR_(+, int, tdm_cxx_add)
TDM_CXX_OPERATOR_(-, int, tdm_cxx_sub)
TDM_CXX_OPERATOR_(*, int, tdm_cxx_mul)
TDM_CXX_OPERATOR_(&, int, TDM_CXX_AND_)
TDM_CXX_OPERATOR_(|, int, TDM_CXX_OR_)
TDM_CXX_OPERATOR_(^, int, TDM_CXX_XOR_)
TDM_CXX_SHIFT_(<<, tdm_cxx_left)
TDM_CXX_SHIFT_(>>, TDM_CXX_RIGHT_)

TDM_DEVICE float tdm_cxx_negated(float x) {
    return -x;
}
TDM_CXX_WORD_1_(tdm_cxx_negated, float, float)
template <int N> TDM_DEVICE tdm_vector<float, N> operator-(tdm_vector<float, N> a) {
    return tdm_cxx_negated(a);
}

/* ---- math ---- */

/* The result is b if b is a NaN. If a is a NaN, the comparison is false and the result is a. */
TDM_DEVICE float tdm_min_nan(float a, float b) {
    return tdm_is_nan(b) || b < a ? b : a;
}
TDM_DEVICE float tdm_max_nan(float a, float b) {
    return tdm_is_nan(b) || b > a ? b : a;
}
TDM_DEVICE int tdm_int_min(int v, int w) {
    return v < w ? v : w;
}
TDM_DEVICE int tdm_int_max(int v, int w) {
    return v > w ? v : w;
}
#define TDM_CXX_FLOATS_1_(name) TDM_CXX_WORD_1_(name, float, float)
TDM_CXX_FLOATS_1_(tdm_abs)
TDM_CXX_FLOATS_1_(tdm_exp)
TDM_CXX_FLOATS_1_(tdm_log)
TDM_CXX_FLOATS_1_(tdm_tanh)
TDM_CXX_FLOATS_1_(tdm_erf)
TDM_CXX_FLOATS_1_(tdm_erfc)
TDM_CXX_FLOATS_1_(tdm_sqrt)
TDM_CXX_FLOATS_1_(tdm_rsqrt)
TDM_CXX_FLOATS_1_(tdm_rint)
TDM_CXX_FLOATS_1_(tdm_floor)
TDM_CXX_WORD_2_(tdm_min, float, float)
TDM_CXX_WORD_2_(tdm_max, float, float)
TDM_CXX_WORD_2_(tdm_min_nan, float, float)
TDM_CXX_WORD_2_(tdm_max_nan, float, float)
TDM_CXX_WORD_2_(tdm_copysign, float, float)
TDM_CXX_WORD_3_(tdm_fma, float)
TDM_CXX_WORD_3_(tdm_mad, float)
TDM_CXX_WORD_2_(tdm_int_min, int, int)
TDM_CXX_WORD_2_(tdm_int_max, int, int)
TDM_CXX_WORD_2_(tdm_cxx_add, int, int)
TDM_CXX_WORD_2_(tdm_cxx_sub, int, int)
TDM_CXX_WORD_2_(tdm_cxx_mul, int, int)
#define tdm_add_wrap(N, v, w) tdm_cxx_add(v, w)
#define tdm_sub_wrap(N, v, w) tdm_cxx_sub(v, w)
#define tdm_mul_wrap(N, v, w) tdm_cxx_mul(v, w)

/* ---- conversions ---- */

/* A bf16 is the upper half of an f32. A NaN keeps its upper bits, and its quiet bit is set. */
TDM_DEVICE ushort tdm_cxx_bf16_narrow(float x) {
    const uint bits = tdm_float_bits(x);
    const uint rounded = (bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16;
    return (ushort)((bits & 0x7fffffffu) > 0x7f800000u ? (bits >> 16) | 0x40u : rounded);
}
TDM_DEVICE float tdm_cxx_bf16_widen(ushort bits) {
    return tdm_bits_float((uint)bits << 16);
}

TDM_DEVICE float f32x1_number(float x) {
    return tdm_is_nan(x) ? 0.0f : x;
}
/* Returns v as a float whose narrowing to bf16 or f16 is correctly rounded. An integer below 2^24
 * is exact. Above that, a unit in the last place of bf16 is at least 2^17. The low 16 bits then
 * affect rounding only by being zero or not. One set bit therefore replaces them if they are not
 * zero, and the result fits in 24 bits. */
TDM_DEVICE float f32x1_from_s32_odd(int v) {
    const int kept = (v & ~0xffff) | ((((v & 0xffff) + 0xffff) >> 16) << 8);
    const float x = tdm_float(v);
    return tdm_abs(x) < 16777216.0f ? x : tdm_float(kept);
}
TDM_DEVICE int tdm_cxx_bits(float x) {
    return (int)tdm_float_bits(x);
}
TDM_DEVICE float tdm_cxx_float(int v) {
    return tdm_bits_float((uint)v);
}
TDM_CXX_WORD_1_(f32x1_number, float, float)
TDM_CXX_WORD_1_(f32x1_from_s32_odd, float, int)
TDM_CXX_WORD_1_(tdm_cxx_bits, int, float)
TDM_CXX_WORD_1_(tdm_cxx_float, float, int)
TDM_CXX_WORD_1_(tdm_float, float, int)
TDM_CXX_WORD_1_(tdm_int_rte, int, float)
TDM_CXX_WORD_1_(tdm_int_rtz, int, float)
#define f32x4_number(x) f32x1_number(x)
#define f32x8_number(x) f32x1_number(x)
#define f32x16_number(x) f32x1_number(x)
#define f32x4_from_s32_odd(v) f32x1_from_s32_odd(v)
#define f32x8_from_s32_odd(v) f32x1_from_s32_odd(v)
#define f32x16_from_s32_odd(v) f32x1_from_s32_odd(v)
#define f32x4_from_s32(v) tdm_float(v)
#define f32x8_from_s32(v) tdm_float(v)
#define f32x16_from_s32(v) tdm_float(v)
#define s32x4_from_f32_rte(x) tdm_int_rte(x)
#define s32x8_from_f32_rte(x) tdm_int_rte(x)
#define s32x16_from_f32_rte(x) tdm_int_rte(x)
#define s32x4_from_f32_rtz(x) tdm_int_rtz(x)
#define s32x8_from_f32_rtz(x) tdm_int_rtz(x)
#define s32x16_from_f32_rtz(x) tdm_int_rtz(x)
#define f32x4_bits(x) tdm_cxx_bits(x)
#define f32x8_bits(x) tdm_cxx_bits(x)
#define f32x16_bits(x) tdm_cxx_bits(x)
#define s32x4_float(v) tdm_cxx_float(v)
#define s32x8_float(v) tdm_cxx_float(v)
#define s32x16_float(v) tdm_cxx_float(v)

/* ---- vectors from elements, and across lanes ---- */

TDM_DEVICE f32x4 f32x4_of(float a, float b, float c, float d) {
    return {a, b, c, d};
}
TDM_DEVICE s32x4 s32x4_of(int a, int b, int c, int d) {
    return {a, b, c, d};
}
TDM_DEVICE f32x4 f32x4_splat(float x) {
    return {x, x, x, x};
}
TDM_DEVICE f32x8 f32x8_splat(float x) {
    return {f32x4_splat(x), f32x4_splat(x)};
}
TDM_DEVICE f32x16 f32x16_splat(float x) {
    return {f32x8_splat(x), f32x8_splat(x)};
}
TDM_DEVICE s32x4 s32x4_splat(int v) {
    return {v, v, v, v};
}
TDM_DEVICE s32x8 s32x8_splat(int v) {
    return {s32x4_splat(v), s32x4_splat(v)};
}
TDM_DEVICE s32x16 s32x16_splat(int v) {
    return {s32x8_splat(v), s32x8_splat(v)};
}
#define tdm_lane_4(x, l) ((x).s##l)

TDM_DEVICE f32x4 tdm_cxx_select_lt(f32x4 a, f32x4 b, f32x4 x, f32x4 y) {
    return {a.s0 < b.s0 ? x.s0 : y.s0, a.s1 < b.s1 ? x.s1 : y.s1, a.s2 < b.s2 ? x.s2 : y.s2,
            a.s3 < b.s3 ? x.s3 : y.s3};
}
template <int N>
TDM_DEVICE tdm_vector<float, N> tdm_cxx_select_lt(tdm_vector<float, N> a, tdm_vector<float, N> b,
                                                  tdm_vector<float, N> x, tdm_vector<float, N> y) {
    return {tdm_cxx_select_lt(a.lo, b.lo, x.lo, y.lo), tdm_cxx_select_lt(a.hi, b.hi, x.hi, y.hi)};
}
#define f32x4_select_lt(a, b, x, y) tdm_cxx_select_lt(a, b, x, y)
#define f32x8_select_lt(a, b, x, y) tdm_cxx_select_lt(a, b, x, y)
#define f32x16_select_lt(a, b, x, y) tdm_cxx_select_lt(a, b, x, y)

TDM_DEVICE float f32x4_sum(f32x4 x) {
    return (x.s0 + x.s2) + (x.s1 + x.s3);
}
TDM_DEVICE float f32x4_hmax(f32x4 x) {
    return tdm_max(tdm_max(x.s0, x.s2), tdm_max(x.s1, x.s3));
}
TDM_DEVICE float f32x4_hmin(f32x4 x) {
    return tdm_min(tdm_min(x.s0, x.s2), tdm_min(x.s1, x.s3));
}
TDM_DEVICE float f32x8_sum(f32x8 x) {
    return f32x4_sum(x.lo + x.hi);
}
TDM_DEVICE float f32x8_hmax(f32x8 x) {
    return f32x4_hmax(tdm_max(x.lo, x.hi));
}
TDM_DEVICE float f32x8_hmin(f32x8 x) {
    return f32x4_hmin(tdm_min(x.lo, x.hi));
}
TDM_DEVICE float f32x16_sum(f32x16 x) {
    return f32x8_sum(x.lo + x.hi);
}
TDM_DEVICE float f32x16_hmax(f32x16 x) {
    return f32x8_hmax(tdm_max(x.lo, x.hi));
}
TDM_DEVICE float f32x16_hmin(f32x16 x) {
    return f32x8_hmin(tdm_min(x.lo, x.hi));
}

TDM_DEVICE f32x8 f32x8_evens(f32x8 a, f32x8 b) {
    return {{a.lo.s0, a.lo.s2, a.hi.s0, a.hi.s2}, {b.lo.s0, b.lo.s2, b.hi.s0, b.hi.s2}};
}
TDM_DEVICE f32x8 f32x8_odds(f32x8 a, f32x8 b) {
    return {{a.lo.s1, a.lo.s3, a.hi.s1, a.hi.s3}, {b.lo.s1, b.lo.s3, b.hi.s1, b.hi.s3}};
}
TDM_DEVICE f32x16 f32x16_evens(f32x16 a, f32x16 b) {
    return {f32x8_evens(a.lo, a.hi), f32x8_evens(b.lo, b.hi)};
}
TDM_DEVICE f32x16 f32x16_odds(f32x16 a, f32x16 b) {
    return {f32x8_odds(a.lo, a.hi), f32x8_odds(b.lo, b.hi)};
}

/* Transposes the 4×4 matrix with rows a, b, c and d in place. */
template <class V> TDM_DEVICE void tdm_cxx_transpose_4(V &a, V &b, V &c, V &d) {
    const V w = a, x = b, y = c, z = d;
    a = {w.s0, x.s0, y.s0, z.s0};
    b = {w.s1, x.s1, y.s1, z.s1};
    c = {w.s2, x.s2, y.s2, z.s2};
    d = {w.s3, x.s3, y.s3, z.s3};
}
template <class V> TDM_DEVICE void tdm_cxx_transpose_8(V *v) {
    tdm_cxx_transpose_4(v[0].lo, v[1].lo, v[2].lo, v[3].lo);
    tdm_cxx_transpose_4(v[0].hi, v[1].hi, v[2].hi, v[3].hi);
    tdm_cxx_transpose_4(v[4].lo, v[5].lo, v[6].lo, v[7].lo);
    tdm_cxx_transpose_4(v[4].hi, v[5].hi, v[6].hi, v[7].hi);
    TDM_UNROLL for (int i = 0; i < 4; i++) {
        const auto swapped = v[i].hi;
        v[i].hi = v[i + 4].lo;
        v[i + 4].lo = swapped;
    }
}
#define f32x8_transpose(v) tdm_cxx_transpose_8(v)
#define s32x8_transpose(v) tdm_cxx_transpose_8(v)

#include "dialect_cxx_memory.h"

#endif
