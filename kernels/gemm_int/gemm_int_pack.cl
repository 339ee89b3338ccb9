/* Packs B for the integer panel GEMM: micro-panels of NR columns in quads (gemm_int_quads.h), and
 * the sums of the columns.
 *
 *   a batch entry:   panel 0: ceil(K / 4) quads of NR words, panel 1, …
 *                    at byte sums_at: NR s32 sums per panel
 *
 * One work-item packs a whole panel, since it sums its columns. The grid is (1, panels, batch). NR
 * is the number of columns of a micro-panel, e.g. 64. */
#define TDM_QUADS_SPACE TDM_GLOBAL
#include "kernels/dialect/dialect.h"
#include "kernels/gemm/gemm_args.h"
#include "gemm_int_quads.h"

TDM_KERNEL_GROUP(TDM_ENTRY, 1, 1, 1)
(TDM_GLOBAL const tdm_s8 *TDM_RESTRICT source, long source_offset,
 TDM_GLOBAL tdm_u8 *TDM_RESTRICT packed, long packed_offset, tdm_pack_arg s) {
    TDM_ITEM_BEGIN;
    const long line = tdm_group_y() * NR, z = tdm_group_z();
    const int lines = (int)(s.lines - line < NR ? s.lines - line : NR);
    TDM_GLOBAL tdm_u8 *const entry = packed + packed_offset + z * s.packed_batch;
    TDM_GLOBAL int *const to_sums = (TDM_GLOBAL int *)(entry + s.sums_at) + line;
    int sums[NR];
    for (int j = 0; j < NR; j++)
        sums[j] = 0;
    tdm_quads_pack(source, source_offset + z * s.batch + line * s.col, s.row, s.col, lines, s.depth,
                   (TDM_GLOBAL int *)entry + (s.depth + 3) / 4 * line, sums, 1);
    for (int j = 0; j < NR; j++)
        to_sums[j] = sums[j];
}
