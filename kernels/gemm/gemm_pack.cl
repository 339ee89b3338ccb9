/* Packs A or B into micro-panels for the panel GEMM: WIDTH lines each, contiguous along K
 * (`depth`).
 *
 *   source (p, j): p·row + j·col         micro-panel q = j / WIDTH
 *
 *   micro-panel q:   p = 0   [ j0 j1 … jW-1 ]     packing B: lines are its columns, WIDTH is NR
 *                    p = 1   [ j0 j1 … jW-1 ]     packing A: lines are its rows,    WIDTH is MR
 *                    …
 *
 * Lines past the matrix are zeros, so that the GEMM's inner loop needs no bounds checks. One
 * work-item packs depth_per_item rows of one micro-panel. The grid is (parts of the depth,
 * micro-panels, batch).
 *
 * Parameters:
 *   WIDTH   lines of a micro-panel: NR or MR of the GEMM kernel, e.g. 64
 *   SRC     storage type of the source, e.g. f16
 *   DST     storage type of the packed copy: f32, or the 16-bit type of the source */
#include "kernels/dialect/dialect.h"
#include "gemm_args.h"

#define CHUNK 8
#define WHOLE_VECTORS (WIDTH % 8 == 0)

/* Copies rows of a whole micro-panel whose lines are contiguous in the source. */
TDM_DEVICE void pack_dense(TDM_GLOBAL const TDM_TYPE(SRC) * source, long at, long row, long rows,
                           TDM_GLOBAL TDM_TYPE(DST) * packed, long to) {
    for (long p = 0; p < rows; p++)
        TDM_UNROLL for (int j = 0; j < WIDTH; j += 8)
            TDM_STOREV(8, DST, TDM_LOADV(8, SRC, source, at + p * row + j), packed,
                       to + p * WIDTH + j);
}

/* Gathers CHUNK rows into a private tile. If the source is contiguous along the depth it reads
 * eight elements at a time: 16-bit storage is fast to read only in wide loads. */
TDM_DEVICE void gather_chunk(TDM_GLOBAL const TDM_TYPE(SRC) * source, long at, long row, long col,
                             int lines, float *tile) {
    for (int j = 0; j < lines; j++) {
        float line[CHUNK];
        if (row == 1)
            f32x8_store_f32(TDM_LOADV(8, SRC, source, at + j * col), line, 0);
        else
            TDM_UNROLL for (int p = 0; p < CHUNK; p++)
                line[p] = TDM_LOAD(SRC, source, at + j * col + p * row);
        TDM_UNROLL for (int p = 0; p < CHUNK; p++) tile[p * WIDTH + j] = line[p];
    }
}

/* Packs CHUNK rows of a whole micro-panel whose lines are contiguous along the depth, by
 * transposing eight lines at a time. */
TDM_DEVICE void pack_chunk(TDM_GLOBAL const TDM_TYPE(SRC) * source, long at, long col,
                           TDM_GLOBAL TDM_TYPE(DST) * packed, long to) {
    for (int j = 0; j + 8 <= WIDTH; j += 8) {
        f32x8 square[8];
        TDM_UNROLL for (int i = 0; i < 8; i++) square[i] =
            TDM_LOADV(8, SRC, source, at + (j + i) * col);
        f32x8_transpose(square);
        TDM_UNROLL for (int p = 0; p < CHUNK; p++)
            TDM_STOREV(8, DST, square[p], packed, to + p * WIDTH + j);
    }
}

TDM_KERNEL_GROUP(TDM_ENTRY, 1, 1, 1)
(TDM_GLOBAL const TDM_TYPE(SRC) * source, long source_offset, TDM_GLOBAL TDM_TYPE(DST) * packed,
 long packed_offset, tdm_pack_arg s) {
    TDM_ITEM_BEGIN;
    const long first = tdm_group_x() * s.depth_per_item;
    const long rows = s.depth - first < s.depth_per_item ? s.depth - first : s.depth_per_item;
    const long line = tdm_group_y() * WIDTH;
    const int lines = (int)(s.lines - line < WIDTH ? s.lines - line : WIDTH);
    const long at = source_offset + tdm_group_z() * s.batch + first * s.row + line * s.col;
    const long to = packed_offset + tdm_group_z() * s.packed_batch + line * s.depth + first * WIDTH;

    if (WHOLE_VECTORS && lines == WIDTH && s.col == 1) {
        pack_dense(source, at, s.row, rows, packed, to);
        return;
    }
    float tile[CHUNK * WIDTH];
    for (int i = 0; i < CHUNK * WIDTH; i++)
        tile[i] = 0.0f;
    long p = 0;
    if (WHOLE_VECTORS && lines == WIDTH && s.row == 1)
        for (; p + CHUNK <= rows; p += CHUNK)
            pack_chunk(source, at + p, s.col, packed, to + p * WIDTH);
    for (; p + CHUNK <= rows; p += CHUNK) {
        gather_chunk(source, at + p * s.row, s.row, s.col, lines, tile);
        TDM_UNROLL for (int i = 0; i < CHUNK * WIDTH; i += 8)
            TDM_STOREV(8, DST, f32x8_load_f32(tile, i), packed, to + p * WIDTH + i);
    }
    for (; p < rows; p++)
        for (int j = 0; j < WIDTH; j++)
            TDM_STORE(DST, j < lines ? TDM_LOAD(SRC, source, at + p * s.row + j * s.col) : 0.0f,
                      packed, to + p * WIDTH + j);
}
