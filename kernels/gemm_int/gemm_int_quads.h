/* Packing of B into quads for the integer GEMM: gemm_int_pack.cl writes them to a buffer, and a
 * work-item of gemm_int_panel.h to local memory.
 *
 *   panel of NR columns:   quad 0   [ column 0: k0 k1 k2 k3 | column 1: k0 k1 k2 k3 | … | NR-1 ]
 *                          quad 1   [ column 0: k4 k5 k6 k7 | …
 *
 * Four steps of K of one column are one 32-bit word, the first step in its low byte: the operand of
 * a 4×8-bit dot product. Steps past K and columns past N are zeros.
 *
 * A source includes this after defining
 *   NR                columns of a panel, a multiple of 8, e.g. 64
 *   TDM_QUADS_SPACE   address space that is written to: TDM_GLOBAL or TDM_LOCAL */
#ifndef TDM_GEMM_INT_QUADS_H
#define TDM_GEMM_INT_QUADS_H

#if NR % 16 == 0
#define TDM_QUADS_W 16
#else
#define TDM_QUADS_W 8
#endif
#define TDM_QUADS_V TDM_S32(TDM_QUADS_W)
#define TDM_QUADS_COUNT (NR / TDM_QUADS_W)

/* Packs whole quads of a whole panel whose columns are neighbours. Returns the steps that are
 * done. */
TDM_DEVICE long tdm_quads_pack_across(TDM_GLOBAL const tdm_s8 *b, long at, long b_row, long depth,
                                      TDM_QUADS_SPACE int *to, int *sums, int wants_sums) {
    TDM_QUADS_V sum[TDM_QUADS_COUNT];
    TDM_UNROLL for (int v = 0; v < TDM_QUADS_COUNT; v++) sum[v] =
        TDM_INT_LOADV(TDM_QUADS_W, s32, sums, v * TDM_QUADS_W);
    long p = 0;
    TDM_NO_UNROLL for (; p + 4 <= depth; p += 4) {
        TDM_UNROLL for (int v = 0; v < TDM_QUADS_COUNT; v++) {
            const long x = at + p * b_row + v * TDM_QUADS_W;
            const TDM_QUADS_V k0 = TDM_INT_LOADV(TDM_QUADS_W, s8, b, x),
                              k1 = TDM_INT_LOADV(TDM_QUADS_W, s8, b, x + b_row),
                              k2 = TDM_INT_LOADV(TDM_QUADS_W, s8, b, x + 2 * b_row),
                              k3 = TDM_INT_LOADV(TDM_QUADS_W, s8, b, x + 3 * b_row);
            TDM_INT_STOREV(TDM_QUADS_W, s32, tdm_quad(TDM_QUADS_W, k0, k1, k2, k3), to,
                           p / 4 * NR + v * TDM_QUADS_W);
            if (wants_sums)
                sum[v] = tdm_add_wrap(TDM_QUADS_W, sum[v], (k0 + k1) + (k2 + k3));
        }
    }
    TDM_UNROLL for (int v = 0; v < TDM_QUADS_COUNT; v++)
        TDM_INT_STOREV(TDM_QUADS_W, s32, sum[v], sums, v * TDM_QUADS_W);
    return p;
}

/* Packs columns that are contiguous along K, ALONG steps at a time: squares of eight columns by
 * eight quads. `whole`: all NR columns exist. It prefetches lines AHEAD steps before they are read,
 * because each is in another page. */
#define ALONG 64
#define AHEAD 256
TDM_DEVICE long tdm_quads_pack_along(TDM_GLOBAL const tdm_s8 *b, long at, long b_col, int columns,
                                     int whole, long depth, TDM_QUADS_SPACE int *to) {
    long p = 0;
    for (; p + ALONG <= depth; p += ALONG)
        for (int j = 0; j < NR; j += 8) {
            TDM_UNROLL for (int i = 0; i < 8; i++)
                tdm_prefetch_far(b + at + p + AHEAD + (j + i) * b_col);
            for (int q = 0; q < ALONG / 4; q += 8) {
                s32x8 square[8];
                TDM_UNROLL for (int i = 0; i < 8; i++) square[i] =
                    whole || j + i < columns ? s32x8_load_quads(b, at + p + (j + i) * b_col + 4 * q)
                                             : s32x8_splat(0);
                s32x8_transpose(square);
                TDM_UNROLL for (int i = 0; i < 8; i++)
                    s32x8_store_s32(square[i], to, (p / 4 + q + i) * NR + j);
            }
        }
    return p;
}

/* Adds the columns of `quads` quads to their sums. Bytes are made unsigned by adding 128 to each.
 * They are then added in the two halves of a word, which can hold RUN quads. */
#define RUN 128
TDM_DEVICE void tdm_quads_sum(TDM_QUADS_SPACE const int *packed, long quads, int *sums) {
    const TDM_QUADS_V flip = TDM_INT_SPLAT(TDM_QUADS_W, (int)0x80808080),
                      even = TDM_INT_SPLAT(TDM_QUADS_W, 0x00ff00ff),
                      low = TDM_INT_SPLAT(TDM_QUADS_W, 0xffff);
    for (int v = 0; v < NR; v += TDM_QUADS_W) {
        TDM_QUADS_V sum = TDM_INT_LOADV(TDM_QUADS_W, s32, sums, v);
        for (long from = 0; from < quads; from += RUN) {
            const int count = (int)(quads - from < RUN ? quads - from : RUN);
            TDM_QUADS_V halves = TDM_INT_SPLAT(TDM_QUADS_W, 0);
            for (int q = 0; q < count; q++) {
                const TDM_QUADS_V bytes =
                    TDM_INT_LOADV(TDM_QUADS_W, s32, packed, (from + q) * NR + v) ^ flip;
                halves = tdm_add_wrap(TDM_QUADS_W, halves, bytes & even);
                halves = tdm_add_wrap(TDM_QUADS_W, halves, (bytes >> 8) & even);
            }
            const TDM_QUADS_V both = (halves & low) + ((halves >> 16) & low);
            sum =
                tdm_add_wrap(TDM_QUADS_W, sum, both - TDM_INT_SPLAT(TDM_QUADS_W, 4 * 128 * count));
        }
        TDM_INT_STOREV(TDM_QUADS_W, s32, sum, sums, v);
    }
}

/* Packs `columns` of NR columns of B from element `at` on, `depth` steps. Adds Σ_p of each column
 * to `sums` if wants_sums. */
TDM_DEVICE void tdm_quads_pack(TDM_GLOBAL const tdm_s8 *b, long at, long b_row, long b_col,
                               int columns, long depth, TDM_QUADS_SPACE int *to, int *sums,
                               int wants_sums) {
    long done = 0;
    if (b_col == 1 && columns == NR)
        done = wants_sums ? tdm_quads_pack_across(b, at, b_row, depth, to, sums, 1)
                          : tdm_quads_pack_across(b, at, b_row, depth, to, sums, 0);
    else if (b_row == 1) {
        done = columns == NR ? tdm_quads_pack_along(b, at, b_col, NR, 1, depth, to)
                             : tdm_quads_pack_along(b, at, b_col, columns, 0, depth, to);
        if (wants_sums)
            tdm_quads_sum(to, done / 4, sums);
    }
    for (int j = 0; j < NR; j++)
        for (long p = done; p < depth; p += 4) {
            const int steps = j >= columns ? 0 : depth - p < 4 ? (int)(depth - p) : 4;
            int quad = 0, sum = 0;
            for (int k = 0; k < steps; k++) {
                const int x = tdm_int_s8(b, at + (p + k) * b_row + j * b_col);
                quad |= (x & 0xff) << (8 * k);
                sum += x;
            }
            to[p / 4 * NR + j] = quad;
            sums[j] = tdm_add_wrap(1, sums[j], sum);
        }
}

#endif
