/* Functions of the kernel dialect for tensor cores, which multiply matrices in the registers of a
 * warp. Only *.cu sources include this file.
 *
 * All 32 lanes of the warp must call the functions tdm_matrices_* together. In the following, g is
 * lane / 4, and t is lane % 4. A register holds one 32-bit element, two 16-bit elements or four
 * 8-bit elements. The first one is in the low bits. A tile of A has 16 rows and 32 bytes of K. A
 * tile of B has 32 bytes of K and 8 columns. A lane holds these parts of them:
 *
 *   A (16×32 bytes)             K bytes 0–15   16–31         B (32 bytes × 8)       column g
 *                  row g            a[0]        a[2]           K bytes 0–15           b[0]
 *                  row g + 8        a[1]        a[3]                  16–31           b[1]
 *
 * The part is bytes 4·t … 4·t + 3 of these 16 bytes. A tile of D has 16 rows and 8 columns. A lane
 * holds columns 2·t and 2·t + 1: row g in d[0] and d[1], and row g + 8 in d[2] and d[3].
 *
 * tdm_matrices_load(r, row)
 *     loads four matrices of 8 rows of 16 bytes from shared memory. Rows are aligned to 16 bytes.
 *     Lane l passes the address of row l % 8 of matrix l / 8. r[q] receives the lane's part of
 *     matrix q, which is bytes 4·t … 4·t + 3 of row g.
 * tdm_matrices_load_turned(r, row)
 *     loads the matrices transposed, for 16-bit elements. r[q] receives element g of rows 2·t and
 *     2·t + 1 of matrix q.
 * tdm_matrices_f16(d, a, b0, b1), tdm_matrices_bf16(d, a, b0, b1)
 *     compute d += A·B, with elements of 16 bits and sums in f32. bf16 needs compute capability
 *     8.0.
 * tdm_matrices_tf32(d, a, b0, b1)
 *     computes d += A·B in f32. The low 13 bits of the elements of A and B are ignored. It needs
 *     compute capability 8.0.
 * tdm_matrices_s8(d, a, b0, b1), tdm_matrices_u8(d, a, b0, b1)
 *     compute d += A·B modulo 2^32. B is s8. A is s8 or u8, as the name says.
 *
 * tdm_bytes_of(a, b, which)
 *     returns four of the eight bytes of a (0 to 3) and b (4 to 7). Hexadecimal digit n of `which`
 *     is the number of the byte that becomes byte n.
 * tdm_pair_add_f16(a, b), tdm_pair_add_bf16(a, b)
 *     add two pairs of elements, and round each sum once. bf16 needs compute capability 8.0.
 *
 * Before compute capability 8.0, one instruction multiplies only half of K. For 8-bit elements it
 * also computes only half of the rows. The functions *_half are these instructions, and the
 * functions *_of_halves combine them. The hardware defines the order and the rounding of the f32
 * sums inside one instruction (docs/numerics.md). */
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

/* Multiplies half of K: 16 bytes, which are 8 elements of 16 bits. a0 is row g of A, and a1 is row
 * g + 8. */
TDM_DEVICE void tdm_matrices_f16_half(float (&d)[4], uint a0, uint a1, uint b) {
    asm("mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5}, {%6}, "
        "{%0, %1, %2, %3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(a0), "r"(a1), "r"(b));
}
/* Multiplies half of K, for half of the rows of A. */
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
/* Compute capability 9.0 is the first with an addition of bf16. A fused a·1.0 + b gives the same
 * sum. */
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

#else /* the simulator: tests/cuda_simulator/tensor_intrinsics.cpp */

TDM_DEVICE uint tdm_bytes_of(uint a, uint b, uint which) {
    const ulong both = (ulong)b << 32 | a;
    uint bytes = 0;
    for (int n = 0; n < 4; n++)
        bytes |= (uint)(both >> (which >> 4 * n & 7u) * 8 & 0xffu) << 8 * n;
    return bytes;
}
/* The significand of the f32 sum has more than twice the bits of the result's. Rounding twice
 * therefore equals rounding once. */
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

/* These functions combine the *_half functions. Before compute capability 8.0 they replace the
 * missing instructions. */
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
