/* Shared by the sources that multiply quantized rows by weights of s8 or s4 with VNNI. The
 * instruction multiplies unsigned by signed bytes: OFFSET is added to weights to make them
 * unsigned. A source defines IS_S4 and includes this after dialect.h.
 *
 * PoCL 3.1 compiles for a CPU without VNNI. gemm_int_panel_x86.cl explains why functions have a
 * TARGET of their own. */
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
