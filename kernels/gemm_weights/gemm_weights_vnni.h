/* What the texts share that multiply quantized rows by weights of s8 or s4 with VNNI, unsigned by signed bytes: weights take OFFSET to be
 * unsigned. A text defines IS_S4 and includes this after dialect.h.
 *
 * PoCL 3.1 compiles for a CPU without VNNI: see gemm_int_panel_x86.cl for the functions with a TARGET of their own. */
#ifndef TDM_GEMM_WEIGHTS_VNNI_H
#define TDM_GEMM_WEIGHTS_VNNI_H

#define OFFSET (IS_S4 ? 8 : 128)
#define OFFSET_BITS (IS_S4 ? 3 : 7)
#define TARGET __attribute__((noinline, target("avx512vnni,avx512f,avx512bw,avx512dq,avx512vl")))

TDM_DEVICE int sum_of_lanes(int16 v) {
    const int8 eight = v.lo + v.hi;
    const int4 four = eight.lo + eight.hi;
    return four.x + four.y + four.z + four.w;
}

#endif
