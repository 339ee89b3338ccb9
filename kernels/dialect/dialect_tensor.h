/* The dialect's words for tensor cores, which multiply matrices held by a warp. Only sources *.cu
 * include this file.
 *
 * All 32 lanes take part. g is lane / 4, t is lane % 4. A register holds one 32-bit element, two
 * 16-bit elements or four 8-bit elements, the first in its low bits. A tile of A has 16 rows and 32
 * bytes of K. A tile of B has 32 bytes of K and 8 columns:
 *
 *   A (16×32 bytes)             K bytes 0–15   16–31         B (32 bytes × 8)       column g
 *                  row g            a[0]        a[2]           K bytes 0–15           b[0]
 *                  row g + 8        a[1]        a[3]                  16–31           b[1]
 *
 * A lane holds bytes 4·t … 4·t + 3 of each 16 bytes. D: d[0], d[1] are row g, columns 2·t, 2·t + 1;
 * d[2], d[3] are row g + 8.
 *
 * tdm_matrices_load(r, row)     loads four matrices of 8 rows of 16 bytes from shared memory,
 *                               aligned to 16. Lane l passes the address of row l % 8 of matrix l /
 *                               8. r[q] is the lane's part of matrix q: bytes 4·t … 4·t + 3 of row
 *                               g.
 * tdm_matrices_load_turned      loads transposed matrices of 16-bit elements: r[q] is element g of
 *                               rows 2·t and 2·t + 1
 * tdm_matrices_f16(d, a, b)     d += A·B in f32, elements f16; _bf16 likewise, from 8.0 on
 * tdm_matrices_tf32(d, a, b)    d += A·B in f32, elements f32 whose low 13 bits are ignored; from
 *                               8.0 on
 * tdm_matrices_s8(d, a, b)      d += A·B modulo 2^32, A and B are s8; _u8: A is u8
 *
 * tdm_bytes_of(a, b, which)     selects four of the bytes of a (0 to 3) and b (4 to 7): hexadecimal
 *                               digit n of `which` is the number of byte n
 * tdm_pair_add_f16(a, b)        two f16 sums in one register, each rounded once; _bf16 likewise,
 *                               from 8.0 on
 *
 * Before 8.0 an instruction takes half of K, and for 8-bit elements half of the rows. The _half
 * words are these instructions, and the other words are built from them. The hardware defines the
 * order and rounding of the f32 sums inside one instruction (docs/numerics.md). */
#ifndef TDM_DIALECT_TENSOR_H
#define TDM_DIALECT_TENSOR_H

#ifdef __CUDACC__

#define TDM_TENSOR_LOAD_(name, form)                                                               \
    TDM_DEVICE void name(uint(&r)[4], const void *row) {                                           \
        asm volatile("ldmatrix.sync.aligned.m8n8.x4" form ".shared.b16 {%0, %1, %2, %3}, [%4];"    \
                     : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])                              \
                     : "r"((uint)__cvta_generic_to_shared(row))                                    \
                     : "memory");                                                                  \
    }
TDM_TENSOR_LOAD_(tdm_matrices_load, "")
TDM_TENSOR_LOAD_(tdm_matrices_load_turned, ".trans")

/* 8 bytes of K for 16-bit elements: rows g and g + 8 of A, half of K. */
TDM_DEVICE void tdm_matrices_f16_half(float (&d)[4], uint a0, uint a1, uint b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(b));
}
/* Half of K and half of the rows. */
#define TDM_TENSOR_INT_HALF_(name, type)                                                           \
    TDM_DEVICE void name(int &d0, int &d1, uint a, uint b) {                                       \
        asm("mma.sync.aligned.m8n8k16.row.col.s32." type ".s8.s32 {%0, %1}, {%2}, {%3}, {%0, %1};" \
            : "+r"(d0), "+r"(d1)                                                                   \
            : "r"(a), "r"(b));                                                                     \
    }
TDM_TENSOR_INT_HALF_(tdm_matrices_s8_half, "s8")
TDM_TENSOR_INT_HALF_(tdm_matrices_u8_half, "u8")

TDM_DEVICE uint tdm_bytes_of(uint a, uint b, uint which) {
    return __byte_perm(a, b, which);
}
TDM_DEVICE uint tdm_pair_add_f16(uint a, uint b) {
    uint sum;
    asm("add.rn.f16x2 %0, %1, %2;" : "=r"(sum) : "r"(a), "r"(b));
    return sum;
}

#if __CUDA_ARCH__ >= 800
/* Compute capability 9.0 is the first with a bf16 addition; this multiplies by 1.0 instead. */
TDM_DEVICE uint tdm_pair_add_bf16(uint a, uint b) {
    uint sum;
    asm("fma.rn.bf16x2 %0, %1, %2, %3;" : "=r"(sum) : "r"(a), "r"(0x3f803f80u), "r"(b));
    return sum;
}
#define TDM_TENSOR_(name, shape, types, T, letter)                                                 \
    TDM_DEVICE void name(T(&d)[4], const uint(&a)[4], uint b0, uint b1) {                          \
        asm("mma.sync.aligned." shape ".row.col." types " {%0, %1, %2, %3}, {%4, %5, %6, %7}, "    \
            "{%8, %9}, {%0, %1, %2, %3};"                                                          \
            : letter(d[0]), letter(d[1]), letter(d[2]), letter(d[3])                               \
            : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));                       \
    }
TDM_TENSOR_(tdm_matrices_f16, "m16n8k16", "f32.f16.f16.f32", float, "+f")
TDM_TENSOR_(tdm_matrices_bf16, "m16n8k16", "f32.bf16.bf16.f32", float, "+f")
TDM_TENSOR_(tdm_matrices_tf32, "m16n8k8", "f32.tf32.tf32.f32", float, "+f")
TDM_TENSOR_(tdm_matrices_s8, "m16n8k32", "s32.s8.s8.s32", int, "+r")
TDM_TENSOR_(tdm_matrices_u8, "m16n8k32", "s32.u8.s8.s32", int, "+r")
#else
#define TDM_TENSOR_OF_HALVES
#endif

#else /* the simulator: tests/cuda_simulator/tensor_words.cpp */

TDM_DEVICE uint tdm_bytes_of(uint a, uint b, uint which) {
    const ulong both = (ulong)b << 32 | a;
    uint bytes = 0;
    for (int n = 0; n < 4; n++)
        bytes |= (uint)(both >> (which >> 4 * n & 7u) * 8 & 0xffu) << 8 * n;
    return bytes;
}
/* An f32 sum has more than twice the bits of the result, so that rounding twice equals rounding
 * once. */
TDM_DEVICE uint tdm_pair_add_f16(uint a, uint b) {
    const ushort low =
        tdm_cxx_f16_narrow(tdm_cxx_f16_widen((ushort)a) + tdm_cxx_f16_widen((ushort)b));
    const ushort high = tdm_cxx_f16_narrow(tdm_cxx_f16_widen((ushort)(a >> 16)) +
                                           tdm_cxx_f16_widen((ushort)(b >> 16)));
    return (uint)low | (uint)high << 16;
}
TDM_DEVICE uint tdm_pair_add_bf16(uint a, uint b) {
    const ushort low = tdm_cxx_bf16_narrow(tdm_bits_float(a << 16) + tdm_bits_float(b << 16));
    const ushort high =
        tdm_cxx_bf16_narrow(tdm_bits_float(a & 0xffff0000u) + tdm_bits_float(b & 0xffff0000u));
    return (uint)low | (uint)high << 16;
}
#define tdm_matrices_load(r, row) tandem_sim_matrices_load(r, row, false)
#define tdm_matrices_load_turned(r, row) tandem_sim_matrices_load(r, row, true)
#define tdm_matrices_f16(d, a, b0, b1) tandem_sim_matrices_f16(d, a, b0, b1)
#define tdm_matrices_bf16(d, a, b0, b1) tandem_sim_matrices_bf16(d, a, b0, b1)
#define tdm_matrices_tf32(d, a, b0, b1) tandem_sim_matrices_tf32(d, a, b0, b1)
#define tdm_matrices_s8(d, a, b0, b1) tandem_sim_matrices_int(d, a, b0, b1, true)
#define tdm_matrices_u8(d, a, b0, b1) tandem_sim_matrices_int(d, a, b0, b1, false)
#define tdm_matrices_f16_half(d, a0, a1, b) tandem_sim_matrices_f16_half(d, a0, a1, b)
#define tdm_matrices_s8_half(d0, d1, a, b) tandem_sim_matrices_int_half(d0, d1, a, b, true)
#define tdm_matrices_u8_half(d0, d1, a, b) tandem_sim_matrices_int_half(d0, d1, a, b, false)

#endif

/* These build the words from the _half words, before 8.0. */
TDM_DEVICE void tdm_matrices_f16_of_halves(float (&d)[4], const uint (&a)[4], uint b0, uint b1) {
    tdm_matrices_f16_half(d, a[0], a[1], b0);
    tdm_matrices_f16_half(d, a[2], a[3], b1);
}
#define TDM_TENSOR_INT_OF_HALVES_(name, half)                                                      \
    TDM_DEVICE void name(int(&d)[4], const uint(&a)[4], uint b0, uint b1) {                        \
        half(d[0], d[1], a[0], b0);                                                                \
        half(d[0], d[1], a[2], b1);                                                                \
        half(d[2], d[3], a[1], b0);                                                                \
        half(d[2], d[3], a[3], b1);                                                                \
    }
TDM_TENSOR_INT_OF_HALVES_(tdm_matrices_s8_of_halves, tdm_matrices_s8_half)
TDM_TENSOR_INT_OF_HALVES_(tdm_matrices_u8_of_halves, tdm_matrices_u8_half)
#ifdef TDM_TENSOR_OF_HALVES
#define tdm_matrices_f16(d, a, b0, b1) tdm_matrices_f16_of_halves(d, a, b0, b1)
#define tdm_matrices_s8(d, a, b0, b1) tdm_matrices_s8_of_halves(d, a, b0, b1)
#define tdm_matrices_u8(d, a, b0, b1) tdm_matrices_u8_of_halves(d, a, b0, b1)
#endif

#endif
