/* GEMM for GPU-like devices: a group computes a TM×TN tile of D, an item RM×RN of it in registers.
 *
 *                 TN                  The group copies a TM×TK tile of A and a TK×TN tile of B to local
 *             ┌────────┐ TK           memory, converted to f32, zeros outside the matrices; then each
 *             │ b_tile │              item multiplies its rows and columns:
 *        TK   └────────┘                rows     item_y·RM + i                 i < RM
 *      ┌────┐ ┌────────┐                columns  c·4·GX + item_x·4 + 0…3       c < RN / 4
 *   TM │ a  │ │   D    │              so neighbours read neighbouring vectors of four. a_tile is stored
 *      └────┘ └────────┘              by columns (p, i), b_tile by rows (p, j), rows padded by four.
 *
 * A and B of any strides: the copy walks along whichever dimension is contiguous. AT and BT are their
 * storage types. The step over TK is written out, so that K may be long where all loops of
 * an item have 65535 passes. Grid (row tiles · column tiles, 1, batch). */
#define TDM_EPILOGUE_VECTOR 4
#include "dialect.h"
#include "gemm_args.h"
#include "gemm_epilogue.h"

#define GX (TN / RN)
#define GY (TM / RM)
#define ITEMS (GX * GY)
#define A_PITCH (TM + 4)
#define B_PITCH (TN + 4)

/* Column P of a_tile times row P of b_tile. */
#define MULTIPLY(P)                                                                                \
    {                                                                                              \
        f32x4 b_vec[RN / 4];                                                                       \
        TDM_UNROLL for (int v = 0; v < RN / 4; v++)                                                \
            b_vec[v] = f32x4_load_f32(b_tile, (P)*B_PITCH + v * 4 * GX + x * 4);                   \
        TDM_UNROLL for (int i = 0; i < RM; i++) {                                                  \
            const f32x4 a_vec = f32x4_splat(a_tile[(P)*A_PITCH + y * RM + i]);                     \
            TDM_UNROLL for (int v = 0; v < RN / 4; v++)                                            \
                acc[i][v] = tdm_mad(a_vec, b_vec[v], acc[i][v]);                                   \
        }                                                                                          \
    }

TDM_KERNEL_GROUP(TDM_ENTRY, GX, GY, 1)
(TDM_GLOBAL const TDM_TYPE(AT) *TDM_RESTRICT a, long a_offset,
 TDM_GLOBAL const TDM_TYPE(BT) *TDM_RESTRICT b, long b_offset, TDM_GLOBAL const void *c,
 long c_offset, TDM_GLOBAL const void *bias, long bias_offset, TDM_GLOBAL const void *residual,
 long r_offset, TDM_GLOBAL void *d, long d_offset, tdm_gemm_shape_arg s, tdm_gemm_epilogue_arg e) {
    TDM_LOCAL_ARRAY(float, a_tile, TK * A_PITCH);
    TDM_LOCAL_ARRAY(float, b_tile, TK * B_PITCH);
    const int x = tdm_item_x(), y = tdm_item_y(), item = y * GX + x;
    const long z = tdm_group_z();
    const long i0 = tdm_group_x() % s.row_tiles * TM, j0 = tdm_group_x() / s.row_tiles * TN;
    const long a0 = a_offset + z * s.a_batch, b0 = b_offset + z * s.b_batch;

    f32x4 acc[RM][RN / 4];
    TDM_UNROLL for (int i = 0; i < RM; i++)
        TDM_UNROLL for (int v = 0; v < RN / 4; v++) acc[i][v] = f32x4_splat(0.0f);

    for (long p0 = 0; p0 < s.k; p0 += TK) {
        TDM_UNROLL for (int step = 0; step < TM * TK / ITEMS; step++) {
            const int t = step * ITEMS + item;
            const int i = s.a_col == 1 ? t / TK : t % TM;
            const int p = s.a_col == 1 ? t % TK : t / TM;
            a_tile[p * A_PITCH + i] =
                i0 + i < s.m && p0 + p < s.k
                    ? TDM_LOAD(AT, a, a0 + (i0 + i) * s.a_row + (p0 + p) * s.a_col)
                    : 0.0f;
        }
        TDM_UNROLL for (int step = 0; step < TK * TN / ITEMS; step++) {
            const int t = step * ITEMS + item;
            const int j = s.b_row == 1 ? t / TK : t % TN;
            const int p = s.b_row == 1 ? t % TK : t / TN;
            b_tile[p * B_PITCH + j] =
                j0 + j < s.n && p0 + p < s.k
                    ? TDM_LOAD(BT, b, b0 + (p0 + p) * s.b_row + (j0 + j) * s.b_col)
                    : 0.0f;
        }
        tdm_barrier();
        TDM_REPEAT(TK, MULTIPLY)
        tdm_barrier();
    }

    /* The epilogue is a rolled loop over a copy: unrolled over registers it would be most of the code. */
    float tile[RM * RN];
    TDM_UNROLL for (int i = 0; i < RM; i++)
        TDM_UNROLL for (int v = 0; v < RN / 4; v++)
            f32x4_store_f32(acc[i][v], tile, i * RN + v * 4);
    const tdm_epilogue_io io = tdm_epilogue_begin(c, c_offset, bias, bias_offset, residual,
                                                  r_offset, d, d_offset, e, z);
    const int dense = tdm_epilogue_is_dense(e);
    for (int t = 0; t < RM * (RN / 4); t++) {
        const long i = i0 + y * RM + t / (RN / 4);
        const long j = j0 + t % (RN / 4) * 4 * GX + x * 4;
        const int count = (int)(s.n - j < 4 ? s.n - j : 4);
        if (i < s.m)
            tdm_epilogue_row(tile + t * 4, io, e, i, j, count, dense);
    }
}
