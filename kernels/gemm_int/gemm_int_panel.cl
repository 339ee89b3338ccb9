/* Integer panel GEMM for any CPU. Strips and panels are widened to s32. VW is the number of columns
 * of a vector, e.g. 4; gemm_int_panel.h lists the other parameters. */
#define TDM_EPILOGUE_VECTOR 4
#define tdm_strip tdm_s32
#define UNIT 4
#include "kernels/dialect/dialect.h"
#include "gemm_int_panel.h"

#define NV (NR / VW)
#define VECTOR TDM_S32(VW)
#define TDM_A_SHIFT(type) 0
#define TDM_STRIP_VALUE(x, type) (x)
#define TDM_TILE_ROWS(rows) MR
#define TDM_TILES_TOGETHER 0
#define tdm_strip_element(a, type, at) tdm_int_any(a, type, at)

TDM_DEVICE int tdm_strip_run(TDM_GLOBAL const tdm_u8 *a, int type, long at, int depth,
                             TDM_LOCAL tdm_strip *to) {
    int p = 0;
    for (; p + 4 <= depth; p += 4)
        if (type == TDM_CODE_S8)
            s32x4_store_s32(s32x4_load_s8((TDM_GLOBAL const tdm_s8 *)a, at + p), to, p);
        else
            s32x4_store_s32(s32x4_load_u8(a, at + p), to, p);
    return p;
}

TDM_DEVICE void tdm_strip_quads(s32x8 quads, int type, TDM_LOCAL tdm_strip *to) {
    int quad[8];
    s32x8_store_s32(quads, quad, 0);
    for (int q = 0; q < 8; q++)
        TDM_UNROLL for (int k = 0; k < 4; k++) {
            const int byte = tdm_quad_byte(1, quad[q], k);
            to[4 * q + k] = type == TDM_CODE_S8 ? byte : byte & 0xff;
        }
}

/* Widens a panel: one row of NR columns per step of K. */
#define WIDEN(narrow)                                                                              \
    for (int q = 0; q < job->quads; q++)                                                           \
        for (int j = 0; j < NR; j += VW) {                                                         \
            const VECTOR quad = TDM_INT_LOADV(VW, s32, narrow, q * NR + j);                        \
            TDM_INT_STOREV(VW, s32, tdm_quad_byte(VW, quad, 0), panel, q * 4 * NR + j);            \
            TDM_INT_STOREV(VW, s32, tdm_quad_byte(VW, quad, 1), panel, (q * 4 + 1) * NR + j);      \
            TDM_INT_STOREV(VW, s32, tdm_quad_byte(VW, quad, 2), panel, (q * 4 + 2) * NR + j);      \
            TDM_INT_STOREV(VW, s32, tdm_quad_byte(VW, quad, 3), panel, (q * 4 + 3) * NR + j);      \
        }

TDM_DEVICE void tdm_panel_widen(const tdm_tile_job *job) {
    TDM_LOCAL int *const panel = (TDM_LOCAL int *)job->panel;
    if (job->b_packed)
        WIDEN(job->packed)
    else
        WIDEN((TDM_LOCAL const int *)(job->panel + QUADS_AT))
}

TDM_DEVICE void tdm_tile_multiply(const tdm_tile_job *job, int *tile) {
    TDM_LOCAL const tdm_strip *const strip = job->strip;
    TDM_LOCAL const int *const panel = (TDM_LOCAL const int *)job->panel;
    VECTOR sum[MR][NV];
    TDM_UNROLL for (int i = 0; i < MR; i++) TDM_UNROLL for (int v = 0; v < NV; v++) sum[i][v] =
        job->first ? TDM_INT_SPLAT(VW, 0) : TDM_INT_LOADV(VW, s32, job->kept, i * NR + v * VW);
    for (int p = 0; p < 4 * job->quads; p++) {
        /* Load B and A, and multiply-accumulate. */
        VECTOR b[NV];
        TDM_UNROLL for (int v = 0; v < NV; v++) b[v] =
            TDM_INT_LOADV(VW, s32, panel, p * NR + v * VW);
        TDM_UNROLL for (int i = 0; i < MR; i++) {
            const VECTOR a = TDM_INT_SPLAT(VW, strip[i * STRIDE + p]);
            TDM_UNROLL for (int v = 0; v < NV; v++) sum[i][v] =
                tdm_add_wrap(VW, sum[i][v], a * b[v]);
        }
    }
    /* Store. */
    TDM_UNROLL for (int i = 0; i < MR; i++) TDM_UNROLL for (int v = 0; v < NV; v++) {
        const int x = v * VW;
        const VECTOR added = job->add ? TDM_INT_LOADV(VW, s32, job->add, x) : TDM_INT_SPLAT(VW, 0);
        const VECTOR total = tdm_add_wrap(VW, sum[i][v], added);
        if (job->straight)
            TDM_INT_STOREV(VW, s32, total, job->d, i * job->d_row + x);
        else if (job->last)
            TDM_INT_STOREV(VW, s32, total, tile, i * NR + x);
        else
            TDM_INT_STOREV(VW, s32, total, job->kept, i * NR + x);
    }
}

#include "gemm_int_panel_kernel.h"
