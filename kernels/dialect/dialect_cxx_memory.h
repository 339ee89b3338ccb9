/* The dialect as C++17: loads and stores, quads and s4. Part of dialect_cxx.h. */
#ifndef TDM_DIALECT_CXX_MEMORY_H
#define TDM_DIALECT_CXX_MEMORY_H

#define tdm_address(p) ((ulong)(p))

/* ---- one element ---- */

TDM_DEVICE float tdm_load_f32(const tdm_f32 *p, long i) {
    return p[i];
}
TDM_DEVICE float tdm_load_f16(const tdm_f16 *p, long i) {
    return tdm_cxx_f16_widen(p[i]);
}
TDM_DEVICE float tdm_load_bf16(const tdm_bf16 *p, long i) {
    return tdm_cxx_bf16_widen(p[i]);
}
TDM_DEVICE int tdm_int_s32(const tdm_s32 *p, long i) {
    return p[i];
}
TDM_DEVICE int tdm_int_s8(const tdm_s8 *p, long i) {
    return p[i];
}
TDM_DEVICE int tdm_int_u8(const tdm_u8 *p, long i) {
    return p[i];
}
TDM_DEVICE int tdm_int_s4(const tdm_s4 *p, long i) {
    return (int)((uint)p[i >> 1] << ((i & 1) != 0 ? 24 : 28)) >> 28;
}
TDM_DEVICE float tdm_load_s32(const tdm_s32 *p, long i) {
    return tdm_float(p[i]);
}
TDM_DEVICE float tdm_load_s8(const tdm_s8 *p, long i) {
    return tdm_float(p[i]);
}
TDM_DEVICE float tdm_load_u8(const tdm_u8 *p, long i) {
    return tdm_float(p[i]);
}
TDM_DEVICE void tdm_store_f32(float x, tdm_f32 *p, long i) {
    p[i] = x;
}
TDM_DEVICE void tdm_store_f16(float x, tdm_f16 *p, long i) {
    p[i] = tdm_cxx_f16_narrow(x);
}
TDM_DEVICE void tdm_store_bf16(float x, tdm_bf16 *p, long i) {
    p[i] = tdm_cxx_bf16_narrow(x);
}
TDM_DEVICE int tdm_cxx_clamped(int v, int low, int high) {
    return tdm_int_min(tdm_int_max(v, low), high);
}
TDM_DEVICE void tdm_store_int_s32(int v, tdm_s32 *p, long i) {
    p[i] = v;
}
TDM_DEVICE void tdm_store_int_s8(int v, tdm_s8 *p, long i) {
    p[i] = (tdm_s8)tdm_cxx_clamped(v, -128, 127);
}
TDM_DEVICE void tdm_store_int_u8(int v, tdm_u8 *p, long i) {
    p[i] = (tdm_u8)tdm_cxx_clamped(v, 0, 255);
}
TDM_DEVICE int tdm_cxx_s4_code(int v) {
    return tdm_cxx_clamped(v, -8, 7) & 15;
}
TDM_DEVICE void tdm_store_int_s4(int v, tdm_s4 *p, long i) {
    const int shift = (i & 1) != 0 ? 4 : 0;
    p[i >> 1] = (tdm_s4)((p[i >> 1] & (0xf0 >> shift)) | (tdm_cxx_s4_code(v) << shift));
}

/* ---- vectors ---- */

#define TDM_CXX_LOADS_(V, DT, ONE)                                                                 \
    TDM_DEVICE V##x4 V##x4_load_##DT(const tdm_##DT *p, long i) {                                  \
        return {ONE(p, i), ONE(p, i + 1), ONE(p, i + 2), ONE(p, i + 3)};                           \
    }                                                                                              \
    TDM_DEVICE V##x8 V##x8_load_##DT(const tdm_##DT *p, long i) {                                  \
        return {V##x4_load_##DT(p, i), V##x4_load_##DT(p, i + 4)};                                 \
    }                                                                                              \
    TDM_DEVICE V##x16 V##x16_load_##DT(const tdm_##DT *p, long i) {                                \
        return {V##x8_load_##DT(p, i), V##x8_load_##DT(p, i + 8)};                                 \
    }
TDM_CXX_LOADS_(f32, f32, tdm_load_f32)
TDM_CXX_LOADS_(f32, f16, tdm_load_f16)
TDM_CXX_LOADS_(f32, bf16, tdm_load_bf16)
TDM_CXX_LOADS_(f32, s32, tdm_load_s32)
TDM_CXX_LOADS_(f32, s8, tdm_load_s8)
TDM_CXX_LOADS_(f32, u8, tdm_load_u8)
TDM_CXX_LOADS_(s32, s32, tdm_int_s32)
TDM_CXX_LOADS_(s32, s8, tdm_int_s8)
TDM_CXX_LOADS_(s32, u8, tdm_int_u8)
TDM_CXX_LOADS_(s32, s4, tdm_int_s4)

#define TDM_CXX_STORE_HALVES_(V, DT)                                                               \
    TDM_DEVICE void V##x8_store_##DT(V##x8 x, tdm_##DT *p, long i) {                               \
        V##x4_store_##DT(x.lo, p, i);                                                              \
        V##x4_store_##DT(x.hi, p, i + 4);                                                          \
    }                                                                                              \
    TDM_DEVICE void V##x16_store_##DT(V##x16 x, tdm_##DT *p, long i) {                             \
        V##x8_store_##DT(x.lo, p, i);                                                              \
        V##x8_store_##DT(x.hi, p, i + 8);                                                          \
    }
#define TDM_CXX_STORES_(V, DT, ONE)                                                                \
    TDM_DEVICE void V##x4_store_##DT(V##x4 x, tdm_##DT *p, long i) {                               \
        ONE(x.s0, p, i);                                                                           \
        ONE(x.s1, p, i + 1);                                                                       \
        ONE(x.s2, p, i + 2);                                                                       \
        ONE(x.s3, p, i + 3);                                                                       \
    }                                                                                              \
    TDM_CXX_STORE_HALVES_(V, DT)
TDM_CXX_STORES_(f32, f32, tdm_store_f32)
TDM_CXX_STORES_(f32, f16, tdm_store_f16)
TDM_CXX_STORES_(f32, bf16, tdm_store_bf16)
TDM_CXX_STORES_(s32, s32, tdm_store_int_s32)
TDM_CXX_STORES_(s32, s8, tdm_store_int_s8)
TDM_CXX_STORES_(s32, u8, tdm_store_int_u8)

TDM_DEVICE void s32x4_store_s4(s32x4 v, tdm_s4 *p, long i) {
    p[i >> 1] = (tdm_s4)(tdm_cxx_s4_code(v.s0) | (tdm_cxx_s4_code(v.s1) << 4));
    p[(i >> 1) + 1] = (tdm_s4)(tdm_cxx_s4_code(v.s2) | (tdm_cxx_s4_code(v.s3) << 4));
}
TDM_CXX_STORE_HALVES_(s32, s4)

/* ---- aligned vectors: one access for four elements, or for 16 bytes of elements ---- */

template <class T> struct alignas(4 * sizeof(T)) tdm_cxx_four { T s0, s1, s2, s3; };
struct alignas(8) tdm_cxx_words_2 {
    uint w0, w1;
};
struct alignas(16) tdm_cxx_words_4 {
    uint w0, w1, w2, w3;
};
#define TDM_CXX_IS_ALIGNED_(p, bytes) (tdm_address(p) % (bytes) == 0)

#define TDM_CXX_LOADS_ALIGNED_(V, DT, WIDEN)                                                       \
    TDM_DEVICE V##x4 V##x4_loada_##DT(const tdm_##DT *p, long i) {                                 \
        const tdm_cxx_four<tdm_##DT> x = tdm_cxx_load_word<tdm_cxx_four<tdm_##DT>>(p + i);         \
        return {WIDEN(x.s0), WIDEN(x.s1), WIDEN(x.s2), WIDEN(x.s3)};                               \
    }                                                                                              \
    TDM_DEVICE V##x4 V##x4_loadg_##DT(const tdm_##DT *p, long i) {                                 \
        return TDM_CXX_IS_ALIGNED_(p + i, 4 * sizeof *p) ? V##x4_loada_##DT(p, i)                  \
                                                         : V##x4_load_##DT(p, i);                  \
    }
#define TDM_CXX_AS_IT_IS_(x) (x)
TDM_CXX_LOADS_ALIGNED_(f32, f32, TDM_CXX_AS_IT_IS_)
TDM_CXX_LOADS_ALIGNED_(f32, f16, tdm_cxx_f16_widen)
TDM_CXX_LOADS_ALIGNED_(f32, bf16, tdm_cxx_bf16_widen)
TDM_CXX_LOADS_ALIGNED_(s32, s32, TDM_CXX_AS_IT_IS_)
TDM_CXX_LOADS_ALIGNED_(s32, s8, TDM_CXX_AS_IT_IS_)
TDM_CXX_LOADS_ALIGNED_(s32, u8, TDM_CXX_AS_IT_IS_)

#define TDM_CXX_LOADS_16_OF_HALVES_(V, DT)                                                         \
    TDM_DEVICE V##x16 V##x16_loadg_##DT(const tdm_##DT *p, long i) {                               \
        return {V##x8_loadg_##DT(p, i), V##x8_loadg_##DT(p, i + 8)};                               \
    }
/* Elements of four bytes: 16 bytes hold a vector of four. */
#define TDM_CXX_LOADS_OF_WORDS_(V, DT)                                                             \
    TDM_DEVICE V##x8 V##x8_loadg_##DT(const tdm_##DT *p, long i) {                                 \
        if (!TDM_CXX_IS_ALIGNED_(p + i, 16))                                                       \
            return V##x8_load_##DT(p, i);                                                          \
        return {V##x4_loada_##DT(p, i), V##x4_loada_##DT(p, i + 4)};                               \
    }                                                                                              \
    TDM_CXX_LOADS_16_OF_HALVES_(V, DT)
TDM_CXX_LOADS_OF_WORDS_(f32, f32)
TDM_CXX_LOADS_OF_WORDS_(s32, s32)

/* Elements of two bytes: 16 bytes hold a vector of eight. */
#define TDM_CXX_LOADS_OF_SHORTS_(DT, WIDEN)                                                        \
    TDM_DEVICE f32x4 tdm_cxx_f32x4_in_##DT(uint a, uint b) {                                       \
        return {WIDEN((ushort)a), WIDEN((ushort)(a >> 16)), WIDEN((ushort)b),                      \
                WIDEN((ushort)(b >> 16))};                                                         \
    }                                                                                              \
    TDM_DEVICE f32x8 f32x8_loadg_##DT(const tdm_##DT *p, long i) {                                 \
        if (!TDM_CXX_IS_ALIGNED_(p + i, 16))                                                       \
            return {f32x4_loadg_##DT(p, i), f32x4_loadg_##DT(p, i + 4)};                           \
        const tdm_cxx_words_4 x = tdm_cxx_load_word<tdm_cxx_words_4>(p + i);                       \
        return {tdm_cxx_f32x4_in_##DT(x.w0, x.w1), tdm_cxx_f32x4_in_##DT(x.w2, x.w3)};             \
    }                                                                                              \
    TDM_CXX_LOADS_16_OF_HALVES_(f32, DT)
TDM_CXX_LOADS_OF_SHORTS_(f16, tdm_cxx_f16_widen)
TDM_CXX_LOADS_OF_SHORTS_(bf16, tdm_cxx_bf16_widen)

/* Elements of one byte: 16 bytes hold a vector of sixteen. */
#define TDM_CXX_LOADS_OF_BYTES_(DT)                                                                \
    TDM_DEVICE s32x4 tdm_cxx_s32x4_in_##DT(uint a) {                                               \
        return {(tdm_##DT)a, (tdm_##DT)(a >> 8), (tdm_##DT)(a >> 16), (tdm_##DT)(a >> 24)};        \
    }                                                                                              \
    TDM_DEVICE s32x8 s32x8_loadg_##DT(const tdm_##DT *p, long i) {                                 \
        return {s32x4_loadg_##DT(p, i), s32x4_loadg_##DT(p, i + 4)};                               \
    }                                                                                              \
    TDM_DEVICE s32x16 s32x16_loadg_##DT(const tdm_##DT *p, long i) {                               \
        if (!TDM_CXX_IS_ALIGNED_(p + i, 16))                                                       \
            return {s32x8_loadg_##DT(p, i), s32x8_loadg_##DT(p, i + 8)};                           \
        const tdm_cxx_words_4 x = tdm_cxx_load_word<tdm_cxx_words_4>(p + i);                       \
        return {{tdm_cxx_s32x4_in_##DT(x.w0), tdm_cxx_s32x4_in_##DT(x.w1)},                        \
                {tdm_cxx_s32x4_in_##DT(x.w2), tdm_cxx_s32x4_in_##DT(x.w3)}};                       \
    }
TDM_CXX_LOADS_OF_BYTES_(s8)
TDM_CXX_LOADS_OF_BYTES_(u8)

/* Two elements per byte: 8 bytes hold a vector of sixteen. i is even. */
TDM_DEVICE s32x8 tdm_cxx_s32x8_in_s4(uint a) {
    return {
        {(int)(a << 28) >> 28, (int)(a << 24) >> 28, (int)(a << 20) >> 28, (int)(a << 16) >> 28},
        {(int)(a << 12) >> 28, (int)(a << 8) >> 28, (int)(a << 4) >> 28, (int)a >> 28}};
}
TDM_DEVICE s32x8 s32x8_loadg_s4(const tdm_s4 *p, long i) {
    return TDM_CXX_IS_ALIGNED_(p + (i >> 1), 4)
               ? tdm_cxx_s32x8_in_s4(tdm_cxx_load_word<uint>(p + (i >> 1)))
               : s32x8_load_s4(p, i);
}
TDM_DEVICE s32x16 s32x16_loadg_s4(const tdm_s4 *p, long i) {
    if (!TDM_CXX_IS_ALIGNED_(p + (i >> 1), 8))
        return {s32x8_loadg_s4(p, i), s32x8_loadg_s4(p, i + 8)};
    const tdm_cxx_words_2 x = tdm_cxx_load_word<tdm_cxx_words_2>(p + (i >> 1));
    return {tdm_cxx_s32x8_in_s4(x.w0), tdm_cxx_s32x8_in_s4(x.w1)};
}

TDM_DEVICE int tdm_cxx_quad(int v0, int v1, int v2, int v3) {
    return (int)(((uint)v0 & 0xffu) | (((uint)v1 & 0xffu) << 8) | (((uint)v2 & 0xffu) << 16) |
                 ((uint)v3 << 24));
}
template <class T> TDM_DEVICE void tdm_cxx_store_four(T *p, T a, T b, T c, T d) {
    tdm_cxx_store_word(p, tdm_cxx_four<T>{a, b, c, d});
}
/* Narrow elements are packed first: nvcc would store them in pieces. */
TDM_DEVICE tdm_cxx_words_2 tdm_cxx_packed(ushort a, ushort b, ushort c, ushort d) {
    return {(uint)a | (uint)b << 16, (uint)c | (uint)d << 16};
}
TDM_DEVICE uint tdm_cxx_packed_s4(s32x8 v) {
    return (uint)tdm_cxx_s4_code(v.lo.s0) | (uint)tdm_cxx_s4_code(v.lo.s1) << 4 |
           (uint)tdm_cxx_s4_code(v.lo.s2) << 8 | (uint)tdm_cxx_s4_code(v.lo.s3) << 12 |
           (uint)tdm_cxx_s4_code(v.hi.s0) << 16 | (uint)tdm_cxx_s4_code(v.hi.s1) << 20 |
           (uint)tdm_cxx_s4_code(v.hi.s2) << 24 | (uint)tdm_cxx_s4_code(v.hi.s3) << 28;
}
TDM_DEVICE void tdm_cxx_store_four(ushort *p, ushort a, ushort b, ushort c, ushort d) {
    tdm_cxx_store_word(p, tdm_cxx_packed(a, b, c, d));
}
TDM_DEVICE void tdm_cxx_store_four(tdm_s8 *p, tdm_s8 a, tdm_s8 b, tdm_s8 c, tdm_s8 d) {
    tdm_cxx_store_word(p, (uint)tdm_cxx_quad(a, b, c, d));
}
TDM_DEVICE void tdm_cxx_store_four(tdm_u8 *p, tdm_u8 a, tdm_u8 b, tdm_u8 c, tdm_u8 d) {
    tdm_cxx_store_word(p, (uint)tdm_cxx_quad(a, b, c, d));
}
#define TDM_CXX_STORES_ALIGNED_(V, DT, NARROW)                                                     \
    TDM_DEVICE void V##x4_storeg_##DT(V##x4 x, tdm_##DT *p, long i) {                              \
        const tdm_##DT a = NARROW(x.s0), b = NARROW(x.s1), c = NARROW(x.s2), d = NARROW(x.s3);     \
        if (TDM_CXX_IS_ALIGNED_(p + i, 4 * sizeof *p)) {                                           \
            tdm_cxx_store_four(p + i, a, b, c, d);                                                 \
        } else {                                                                                   \
            p[i] = a;                                                                              \
            p[i + 1] = b;                                                                          \
            p[i + 2] = c;                                                                          \
            p[i + 3] = d;                                                                          \
        }                                                                                          \
    }
#define TDM_CXX_S8_(v) ((tdm_s8)tdm_cxx_clamped(v, -128, 127))
#define TDM_CXX_U8_(v) ((tdm_u8)tdm_cxx_clamped(v, 0, 255))
TDM_CXX_STORES_ALIGNED_(f32, f32, TDM_CXX_AS_IT_IS_)
TDM_CXX_STORES_ALIGNED_(f32, f16, tdm_cxx_f16_narrow)
TDM_CXX_STORES_ALIGNED_(f32, bf16, tdm_cxx_bf16_narrow)
TDM_CXX_STORES_ALIGNED_(s32, s32, TDM_CXX_AS_IT_IS_)
TDM_CXX_STORES_ALIGNED_(s32, s8, TDM_CXX_S8_)
TDM_CXX_STORES_ALIGNED_(s32, u8, TDM_CXX_U8_)

#define TDM_CXX_STORES_OF_HALVES_(V, DT, N, HALF)                                                  \
    TDM_DEVICE void V##x##N##_storeg_##DT(V##x##N x, tdm_##DT *p, long i) {                        \
        V##x##HALF##_storeg_##DT(x.lo, p, i);                                                      \
        V##x##HALF##_storeg_##DT(x.hi, p, i + HALF);                                               \
    }
#define TDM_CXX_STORES_OF_WORDS_(V, DT)                                                            \
    TDM_DEVICE void V##x8_storeg_##DT(V##x8 x, tdm_##DT *p, long i) {                              \
        if (TDM_CXX_IS_ALIGNED_(p + i, 16)) {                                                      \
            tdm_cxx_store_four(p + i, x.lo.s0, x.lo.s1, x.lo.s2, x.lo.s3);                         \
            tdm_cxx_store_four(p + i + 4, x.hi.s0, x.hi.s1, x.hi.s2, x.hi.s3);                     \
        } else {                                                                                   \
            V##x8_store_##DT(x, p, i);                                                             \
        }                                                                                          \
    }                                                                                              \
    TDM_CXX_STORES_OF_HALVES_(V, DT, 16, 8)
TDM_CXX_STORES_OF_WORDS_(f32, f32)
TDM_CXX_STORES_OF_WORDS_(s32, s32)

#define TDM_CXX_STORES_OF_SHORTS_(DT, NARROW)                                                      \
    TDM_DEVICE void f32x8_storeg_##DT(f32x8 x, tdm_##DT *p, long i) {                              \
        if (!TDM_CXX_IS_ALIGNED_(p + i, 16)) {                                                     \
            f32x4_storeg_##DT(x.lo, p, i);                                                         \
            f32x4_storeg_##DT(x.hi, p, i + 4);                                                     \
            return;                                                                                \
        }                                                                                          \
        const tdm_cxx_words_2 a =                                                                  \
            tdm_cxx_packed(NARROW(x.lo.s0), NARROW(x.lo.s1), NARROW(x.lo.s2), NARROW(x.lo.s3));    \
        const tdm_cxx_words_2 b =                                                                  \
            tdm_cxx_packed(NARROW(x.hi.s0), NARROW(x.hi.s1), NARROW(x.hi.s2), NARROW(x.hi.s3));    \
        tdm_cxx_store_word(p + i, tdm_cxx_words_4{a.w0, a.w1, b.w0, b.w1});                        \
    }                                                                                              \
    TDM_CXX_STORES_OF_HALVES_(f32, DT, 16, 8)
TDM_CXX_STORES_OF_SHORTS_(f16, tdm_cxx_f16_narrow)
TDM_CXX_STORES_OF_SHORTS_(bf16, tdm_cxx_bf16_narrow)

#define TDM_CXX_STORES_OF_BYTES_(DT, NARROW)                                                       \
    TDM_CXX_STORES_OF_HALVES_(s32, DT, 8, 4)                                                       \
    TDM_DEVICE uint tdm_cxx_packed_##DT(s32x4 v) {                                                 \
        return (uint)tdm_cxx_quad(NARROW(v.s0), NARROW(v.s1), NARROW(v.s2), NARROW(v.s3));         \
    }                                                                                              \
    TDM_DEVICE void s32x16_storeg_##DT(s32x16 x, tdm_##DT *p, long i) {                            \
        if (TDM_CXX_IS_ALIGNED_(p + i, 16)) {                                                      \
            tdm_cxx_store_word(p + i, tdm_cxx_words_4{tdm_cxx_packed_##DT(x.lo.lo),                \
                                                      tdm_cxx_packed_##DT(x.lo.hi),                \
                                                      tdm_cxx_packed_##DT(x.hi.lo),                \
                                                      tdm_cxx_packed_##DT(x.hi.hi)});              \
        } else {                                                                                   \
            s32x8_storeg_##DT(x.lo, p, i);                                                         \
            s32x8_storeg_##DT(x.hi, p, i + 8);                                                     \
        }                                                                                          \
    }
TDM_CXX_STORES_OF_BYTES_(s8, TDM_CXX_S8_)
TDM_CXX_STORES_OF_BYTES_(u8, TDM_CXX_U8_)

TDM_DEVICE void s32x8_storeg_s4(s32x8 v, tdm_s4 *p, long i) {
    if (TDM_CXX_IS_ALIGNED_(p + (i >> 1), 4))
        tdm_cxx_store_word(p + (i >> 1), tdm_cxx_packed_s4(v));
    else
        s32x8_store_s4(v, p, i);
}
TDM_DEVICE void s32x16_storeg_s4(s32x16 v, tdm_s4 *p, long i) {
    if (TDM_CXX_IS_ALIGNED_(p + (i >> 1), 8)) {
        tdm_cxx_store_word(p + (i >> 1),
                           tdm_cxx_words_2{tdm_cxx_packed_s4(v.lo), tdm_cxx_packed_s4(v.hi)});
    } else {
        s32x8_storeg_s4(v.lo, p, i);
        s32x8_storeg_s4(v.hi, p, i + 8);
    }
}
/* Four s4 are only two bytes, so checking the alignment gains nothing. */
#define s32x4_loadg_s4(p, i) s32x4_load_s4(p, i)
#define s32x4_storeg_s4(v, p, i) s32x4_store_s4(v, p, i)

#define f32x1_loadg_f32(p, i) tdm_load_f32(p, i)
#define f32x1_loadg_f16(p, i) tdm_load_f16(p, i)
#define f32x1_loadg_bf16(p, i) tdm_load_bf16(p, i)
#define f32x1_storeg_f32(x, p, i) tdm_store_f32(x, p, i)
#define f32x1_storeg_f16(x, p, i) tdm_store_f16(x, p, i)
#define f32x1_storeg_bf16(x, p, i) tdm_store_bf16(x, p, i)
#define s32x1_loadg_s32(p, i) tdm_int_s32(p, i)
#define s32x1_loadg_s8(p, i) tdm_int_s8(p, i)
#define s32x1_loadg_u8(p, i) tdm_int_u8(p, i)
#define s32x1_loadg_s4(p, i) tdm_int_s4(p, i)
#define s32x1_storeg_s32(v, p, i) tdm_store_int_s32(v, p, i)
#define s32x1_storeg_s8(v, p, i) tdm_store_int_s8(v, p, i)
#define s32x1_storeg_u8(v, p, i) tdm_store_int_u8(v, p, i)
#define s32x1_storeg_s4(v, p, i) tdm_store_int_s4(v, p, i)
#define TDM_LOADV_GLOBAL(N, DT, p, i) TDM_CAT4(f32x, N, _loadg_, DT)(p, i)
#define TDM_STOREV_GLOBAL(N, DT, x, p, i) TDM_CAT4(f32x, N, _storeg_, DT)(x, p, i)
#define TDM_INT_LOADV_GLOBAL(N, DT, p, i) TDM_CAT4(s32x, N, _loadg_, DT)(p, i)
#define TDM_INT_STOREV_GLOBAL(N, DT, v, p, i) TDM_CAT4(s32x, N, _storeg_, DT)(v, p, i)

TDM_DEVICE void tdm_cxx_stream(f32x4 x, float *p) {
    tdm_cxx_stream_4(x.s0, x.s1, x.s2, x.s3, p);
}
template <int N> TDM_DEVICE void tdm_cxx_stream(tdm_vector<float, N> x, float *p) {
    tdm_cxx_stream(x.lo, p);
    tdm_cxx_stream(x.hi, p + N / 2);
}
#define TDM_CAN_STREAM 1
#define TDM_STREAMV(N, x, p, i) tdm_cxx_stream(x, (p) + (i))
#define tdm_stream_end() ((void)0)

/* Copies `bytes` bytes, in accesses of type W. */
template <int bytes, class W> TDM_DEVICE void tdm_cxx_copy_by(void *to, const void *from) {
    const int count = bytes / (int)sizeof(W);
    W held[count];
    TDM_UNROLL for (int n = 0; n < count; n++) held[n] =
        tdm_cxx_load_word<W>((const char *)from + n * sizeof(W));
    TDM_UNROLL for (int n = 0; n < count; n++)
        tdm_cxx_store_word((char *)to + n * sizeof(W), held[n]);
}
template <int N, class T> TDM_DEVICE void tdm_cxx_copy(T *to, const T *from) {
    const int bytes = N * (int)sizeof(T);
    const ulong place = tdm_address(to) | tdm_address(from);
    if (bytes % 16 == 0 && place % 16 == 0)
        tdm_cxx_copy_by<bytes, tdm_cxx_words_4>(to, from);
    else if (sizeof(T) < 4 && bytes % 4 == 0 && place % 4 == 0)
        tdm_cxx_copy_by<bytes, uint>(to, from);
    else
        tdm_cxx_copy_by<bytes, T>(to, from);
}
#define tdm_copy_4(to, i, from, j) tdm_cxx_copy<4>((to) + (i), (from) + (j))
#define tdm_copy_8(to, i, from, j) tdm_cxx_copy<8>((to) + (i), (from) + (j))
#define tdm_copy_16(to, i, from, j) tdm_cxx_copy<16>((to) + (i), (from) + (j))

/* ---- quads ---- */

#define TDM_DOT4_UNSIGNED 0

TDM_DEVICE s32x4 tdm_cxx_quad(s32x4 v0, s32x4 v1, s32x4 v2, s32x4 v3) {
    return {tdm_cxx_quad(v0.s0, v1.s0, v2.s0, v3.s0), tdm_cxx_quad(v0.s1, v1.s1, v2.s1, v3.s1),
            tdm_cxx_quad(v0.s2, v1.s2, v2.s2, v3.s2), tdm_cxx_quad(v0.s3, v1.s3, v2.s3, v3.s3)};
}
template <int N>
TDM_DEVICE tdm_vector<int, N> tdm_cxx_quad(tdm_vector<int, N> v0, tdm_vector<int, N> v1,
                                           tdm_vector<int, N> v2, tdm_vector<int, N> v3) {
    return {tdm_cxx_quad(v0.lo, v1.lo, v2.lo, v3.lo), tdm_cxx_quad(v0.hi, v1.hi, v2.hi, v3.hi)};
}
TDM_DEVICE int tdm_cxx_quad_byte(int q, int k) {
    return tdm_cxx_left(q, 24 - 8 * k) >> 24;
}
template <int N> TDM_DEVICE tdm_vector<int, N> tdm_cxx_quad_byte(tdm_vector<int, N> q, int k) {
    return (q << (24 - 8 * k)) >> 24;
}
#define tdm_quad(N, v0, v1, v2, v3) tdm_cxx_quad(v0, v1, v2, v3)
#define tdm_quad_byte(N, q, k) tdm_cxx_quad_byte(q, k)

TDM_DEVICE int tdm_load_quad(const tdm_s8 *p, long i) {
    return tdm_cxx_quad(p[i], p[i + 1], p[i + 2], p[i + 3]);
}
TDM_DEVICE s32x8 s32x8_load_quads(const void *bytes, long i) {
    const tdm_s8 *const p = (const tdm_s8 *)bytes + i;
    return {
        {tdm_load_quad(p, 0), tdm_load_quad(p, 4), tdm_load_quad(p, 8), tdm_load_quad(p, 12)},
        {tdm_load_quad(p, 16), tdm_load_quad(p, 20), tdm_load_quad(p, 24), tdm_load_quad(p, 28)}};
}
TDM_DEVICE s32x4 tdm_cxx_dot4(int a, s32x4 b, s32x4 c) {
    return {tdm_cxx_dot4(a, b.s0, c.s0), tdm_cxx_dot4(a, b.s1, c.s1), tdm_cxx_dot4(a, b.s2, c.s2),
            tdm_cxx_dot4(a, b.s3, c.s3)};
}
#define tdm_dot4(N, a, b, c) tdm_cxx_dot4(a, b, c)

#endif
