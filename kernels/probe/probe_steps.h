/* Definitions for the arithmetic probes. A chain is a vector x of N words of 4 bytes to which one
 * step is applied again and again. One of these defines selects the step:
 *
 *   FLOATS  x ← x·a + b in f32; FLOATS is tdm_fma or tdm_mad, whichever is fast on the device
 *   PAIRS   the same for two f16 or bf16 numbers in a word, each rounded once; PAIRS is the type;
 *           N is 1
 *   BYTES   x ← x + Σ xᵢ·aᵢ over the four bytes of x (signed) and of a, modulo 2^32; N is 1 or 4
 *   VNNI    the step of BYTES with the VNNI instruction of x86 cores; N is 16
 *   BF16    x ← x + b₀² + b₁² for the two bf16 numbers in b, with the bf16 instruction of x86
 *           cores; N is 16; x is f32, and its initial values are the low six bits of words
 *
 * Bytes of a are 0 … 127, so that signed and unsigned instructions agree. At the end the chains are
 * added in f32, or as words modulo 2^32, where the order does not matter. A kernel source includes
 * this after dialect.h. */
#ifndef TDM_PROBE_STEPS_H
#define TDM_PROBE_STEPS_H

#ifdef FLOATS
#define WORD tdm_f32
#define VECTOR TDM_F32(N)
#define ZERO TDM_SPLAT(N, 0.0f)
#define ADD(x, y) ((x) + (y))
#define TAKE(p, i) TDM_LOADV(N, f32, p, i)
#define GIVE(x, p, i) TDM_STOREV(N, f32, x, p, i)
#elif defined(BF16)
#define WORD tdm_s32
#define VECTOR TDM_F32(N)
#define ZERO TDM_SPLAT(N, 0.0f)
#define ADD(x, y) ((x) + (y))
#else
#define WORD tdm_s32
#define VECTOR TDM_S32(N)
#define ZERO TDM_INT_SPLAT(N, 0)
#define ADD(x, y) tdm_add_wrap(N, x, y)
#define TAKE(p, i) TDM_INT_LOADV(N, s32, p, i)
#define GIVE(x, p, i) TDM_INT_STOREV(N, s32, x, p, i)
#endif

/* The function with the loop takes CONSTANTS as parameters and CONSTANT_VALUES as arguments. HOLD
 * broadcasts them to vectors where STEP needs that. */
#if defined(FLOATS)
#define CONSTANTS float a, float b
#define CONSTANT_VALUES a, b
#define HOLD const VECTOR a_held = TDM_SPLAT(N, a), b_held = TDM_SPLAT(N, b);
#define STEP(x) FLOATS(x, a_held, b_held)
#elif defined(BF16)
#define CONSTANTS int a, int b
#define CONSTANT_VALUES a, b
#define HOLD const TDM_S32(N) b_held = (TDM_S32(N))(b);
#define STEP(x)                                                                                    \
    ({                                                                                             \
        VECTOR sum = (x);                                                                          \
        __asm__("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(b_held), "v"(b_held));                    \
        sum;                                                                                       \
    })
#elif defined(PAIRS)
#include "kernels/dialect/dialect_half.h"
#define CONSTANTS int a, int b
#define CONSTANT_VALUES a, b
#define HOLD
#define STEP(x) TDM_CAT2(tdm_pair_fma_, PAIRS)(x, a, b)
#else
#define CONSTANTS int a
#define CONSTANT_VALUES a
#define HOLD
#define STEP(x) tdm_dot4(N, a, x, x)
#endif

/* STEPS is put before the loop over steps. The loop is unrolled if N is 1. Otherwise a device that
 * issues one instruction at a time would spend its time on the loop counter. */
#if N == 1
#define STEPS TDM_UNROLL_PASSES
#else
#define STEPS TDM_NO_UNROLL
#endif

/* The loop over steps is a function with the instruction set in its target attribute. It takes
 * plain pointers, like the loop of gemm_int_panel_x86.cl. */
#if defined(VNNI) || defined(BF16)
#undef TAKE
#undef GIVE
typedef TDM_S32(N) words_anywhere __attribute__((aligned(4)));
typedef VECTOR vector_anywhere __attribute__((aligned(4)));
#define GIVE(x, p, i) (*(vector_anywhere *)((p) + (i)) = (x))
#if defined(VNNI)
#undef HOLD
#undef STEP
#define HOLD const VECTOR a_held = (VECTOR)(a);
#define STEP(x) __builtin_ia32_vpdpbusd512(x, a_held, x)
#define TAKE(p, i) (*(const words_anywhere *)((p) + (i)))
#define OWN_TARGET "avx512vnni,avx512f,avx512bw,avx512dq,avx512vl"
#else
#define TAKE(p, i) __builtin_convertvector(*(const words_anywhere *)((p) + (i)) & 63, VECTOR)
#define OWN_TARGET "avx512bf16,avx512f,avx512bw,avx512dq,avx512vl"
#endif
#define FUNCTION __attribute__((noinline, target(OWN_TARGET)))
#define FROM const WORD *
#define TO WORD *
#define POINTER(type, p) ((type)(size_t)(p))
#else
#define FUNCTION TDM_DEVICE
#define FROM TDM_GLOBAL const WORD *
#define TO TDM_GLOBAL WORD *
#define POINTER(type, p) (p)
#endif

#endif
