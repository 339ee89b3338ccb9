/* GEMM of f16 or bf16 by weights of s8 or s4 on tensor cores with sums in f32: a work-group
 * computes a TM×TN tile of D, and a warp WM×WN of it.
 *
 *              TN                STAGES tiles of A (TM lines) and B (TN lines), 64 steps of K each,
 *          ┌────────┐ 64         are on the way to local memory. gemm_weights_tile.h draws them.
 *     64   └────────┘            Scales and zero points of the tile's columns and blocks follow
 *   ┌────┐ ┌───┬────┐            B. A work-item reads some of them, and stores them one tile
 * TM│ A  │ ├───┼────┤            later:
 *   └────┘ └───┴────┘
 *     stage:  A, 2 blocks │ B, 2 blocks │ pairs (scale, zero point): TN of block 0, TN of block 1
 *
 * For each block of 32 steps and 8 columns, a lane converts its quantized values to floats once,
 * for all WM / 16 fragments of rows. If a column has one group, its sums continue over all of K and
 * are scaled at the end. If it has several, the sums of a block start at zero, and are scaled when
 * they are added to the total.
 *
 * K may be split into parts of w.depth steps (work-groups along y). Their f32 sums go to separate
 * memory, and gemm_reduce.cl joins them.
 *
 * Sums reach D through the local memory of the tiles (gemm_fragment_epilogue.h).
 * The grid is (row tiles · column tiles, parts, batch). */
#define TDM_EPILOGUE_VECTOR 4
#define TDM_BUILT_IN_DIVIDE
#define ELEMENT_BYTES 2
#define BLOCKS 2
#include "kernels/dialect/dialect.h"
#include "kernels/gemm/gemm_epilogue.h"
#include "gemm_weights_args.h"
#include "gemm_weights_steps.h"
#include "kernels/gemm/gemm_fragment_epilogue.h"
#include "kernels/gemm/gemm_mma_tile.h"
#include "gemm_weights_tile.h"

#define CODES_AT (TM * FLOAT_BYTES * BLOCKS)
#define PAIRS_AT (CODES_AT + TN * CODE_BYTES * BLOCKS)
#define WEIGHTS_STAGE (PAIRS_AT + TN * 8 * BLOCKS)
#define OWN_PAIRS (TN * BLOCKS / ITEMS)

struct weights_traversal {
    weights_source a, b;
    weights_parameters of_b;
    int first, past; /* steps of K */
    int warp_row, warp_column, lane;
};

typedef float weights_sums[A_FRAGMENTS][2 * B_PAIRS][4];

/* Multiply-accumulates block `block` of a tile. With several groups per column, `pairs` are those
 * of the block; with one group they are those of the first stage. */
template <bool GROUPED>
TDM_DEVICE void multiply_block(weights_sums &acc, const weights_traversal &traversal,
                               const tdm_u8 *tile, const weights_pair *pairs, int block) {
    const int g = traversal.lane / 4, t = traversal.lane % 4;
    uint first[A_FRAGMENTS][4], second[A_FRAGMENTS][4];
    TDM_UNROLL for (int i = 0; i < A_FRAGMENTS; i++) {
        uint upper[4], lower[4];
        const int row = traversal.warp_row + 16 * i + g;
        weights_floats(upper, tile + weights_place<TM, FLOAT_BYTES>(block, row, t));
        weights_floats(lower, tile + weights_place<TM, FLOAT_BYTES>(block, row + 8, t));
        TDM_UNROLL for (int h = 0; h < 2; h++) {
            first[i][2 * h] = upper[h], first[i][2 * h + 1] = lower[h];
            second[i][2 * h] = upper[h + 2], second[i][2 * h + 1] = lower[h + 2];
        }
    }
    TDM_UNROLL for (int j = 0; j < 2 * B_PAIRS; j++) {
        const int column = traversal.warp_column + 8 * j;
        uint value[4];
        tdm_warp_barrier(); /* loads of later columns would take registers */
        weights_values(value,
                       tile + CODES_AT + weights_place<TN, CODE_BYTES>(block, column + g, t),
                       pairs[column + g].minus);
        if (GROUPED) {
            const float left = pairs[column + 2 * t].scale, right = pairs[column + 2 * t + 1].scale;
            TDM_UNROLL for (int i = 0; i < A_FRAGMENTS; i++) {
                float sum[4] = {0.0f, 0.0f, 0.0f, 0.0f};
                TDM_CAT2(tdm_matrices_, MMA)(sum, first[i], value[0], value[1]);
                TDM_CAT2(tdm_matrices_, MMA)(sum, second[i], value[2], value[3]);
                TDM_UNROLL for (int x = 0; x < 4; x++) acc[i][j][x] =
                    tdm_mad(x % 2 ? right : left, sum[x], acc[i][j][x]);
            }
        } else {
            TDM_UNROLL for (int i = 0; i < A_FRAGMENTS; i++) {
                TDM_CAT2(tdm_matrices_, MMA)(acc[i][j], first[i], value[0], value[1]);
                TDM_CAT2(tdm_matrices_, MMA)(acc[i][j], second[i], value[2], value[3]);
            }
        }
    }
}

/* Multiply-accumulates the part of K. WHOLE: both operands are copied by pieces. GROUPED: columns
 * have several groups. */
template <bool WHOLE, bool GROUPED>
TDM_DEVICE void multiply_part(weights_sums &acc, weights_traversal &traversal,
                              tdm_gemm_weights_arg w, tdm_u8 *tiles) {
    const int item = tdm_item_x();
    weights_pair own[OWN_PAIRS] = {};
#define PAIRS(slot) ((weights_pair *)(tiles + (slot)*WEIGHTS_STAGE + PAIRS_AT))
#define PREFETCH(slot, at)                                                                         \
    {                                                                                              \
        tdm_u8 *const to = tiles + (slot)*WEIGHTS_STAGE;                                           \
        weights_prefetch<TM, FLOAT_BYTES, WHOLE>(traversal.a, to, traversal.past - (at));          \
        weights_prefetch<TN, CODE_BYTES, WHOLE>(traversal.b, to + CODES_AT,                        \
                                                traversal.past - (at));                            \
        tdm_async_commit();                                                                        \
    }
#define READ_PAIRS(at)                                                                             \
    TDM_UNROLL for (int n = 0; n < OWN_PAIRS; n++) {                                               \
        const int block = (at) / BLOCK_STEPS + (item + n * ITEMS) / TN;                            \
        if (block * BLOCK_STEPS < traversal.past)                                                  \
            own[n] = weights_pair_of(traversal.of_b, w, block);                                    \
    }
#define KEEP_PAIRS(slot)                                                                           \
    TDM_UNROLL for (int n = 0; n < OWN_PAIRS; n++)                                                 \
        weights_keep(PAIRS(slot) + item + n * ITEMS, own[n]);
    /* Load: start the copies of the first STAGES - 1 tiles. */
    TDM_NO_UNROLL for (int stage = 0; stage < STAGES - 1; stage++) {
        PREFETCH(stage, traversal.first + stage * STEPS)
        READ_PAIRS(traversal.first + stage * STEPS)
        if (stage < STAGES - 2)
            KEEP_PAIRS(stage)
    }
    tdm_async_wait(STAGES - 2);
    tdm_barrier();
    int slot = 0;
    TDM_NO_UNROLL for (int p = traversal.first; p < traversal.past; p += STEPS) {
        const int next_slot = slot > 0 ? slot - 1 : STAGES - 1;
        /* Load: start the copies of a later tile. */
        PREFETCH(next_slot, p + (STAGES - 1) * STEPS)
        if (GROUPED) {
            KEEP_PAIRS(next_slot > 0 ? next_slot - 1 : STAGES - 1)
            READ_PAIRS(p + (STAGES - 1) * STEPS)
        }
        /* Dequantize and multiply-accumulate. */
        TDM_NO_UNROLL for (int block = 0; block < BLOCKS; block++) if (p + block * BLOCK_STEPS <
                                                                       traversal.past)
            multiply_block<GROUPED>(acc, traversal, tiles + slot * WEIGHTS_STAGE,
                                    PAIRS(GROUPED ? slot : 0) + (GROUPED ? block * TN : 0), block);
        slot = slot + 1 < STAGES ? slot + 1 : 0;
        tdm_async_wait(STAGES - 2);
        tdm_barrier();
    }
    if (!GROUPED) {
        TDM_UNROLL for (int j = 0; j < 2 * B_PAIRS; j++) TDM_UNROLL for (int x = 0; x < 4; x++) {
            const float scale =
                PAIRS(0)[traversal.warp_column + 8 * j + traversal.lane % 4 * 2 + x % 2].scale;
            TDM_UNROLL for (int i = 0; i < A_FRAGMENTS; i++) acc[i][j][x] *= scale;
        }
    }
    /* The caller may overwrite the tiles after this. */
    tdm_async_wait(0);
    tdm_barrier();
#undef PAIRS
#undef PREFETCH
#undef READ_PAIRS
#undef KEEP_PAIRS
}

TDM_KERNEL_GROUPS(TDM_ENTRY, ITEMS, 1, 1, GROUPS)
(TDM_WEIGHTS_ARGUMENTS, TDM_LOCAL_ARGUMENT(tdm_u8, local)) {
    tdm_u8 *const tiles = local;
    const mma_position at = mma_here(s);
    const int item = tdm_item_x();
    const long part = tdm_group_y(), first = part * w.depth;
    weights_traversal traversal;
    traversal.a = weights_source_of<TM, FLOAT_BYTES>(
        (const tdm_u8 *)a +
            (a_offset + at.z * s.a_batch + at.i0 * s.a_row + first * s.a_col) * ELEMENT_BYTES,
        s.a_row * ELEMENT_BYTES, s.a_col * ELEMENT_BYTES, s.m - at.i0, item);
    traversal.b = weights_source_of<TN, CODE_BYTES>(
        (const tdm_u8 *)b +
            (b_offset + at.z * s.b_batch + at.j0 * s.b_col + first) * CODE_BYTES / BLOCK_STEPS,
        s.b_col * CODE_BYTES / BLOCK_STEPS, 1, s.n - at.j0, item);
    traversal.of_b =
        weights_parameters_of(scale, scale_offset, zero, zero_offset, s, w, at.z, at.j0);
    traversal.first = (int)first;
    traversal.past = (int)(first + w.depth < s.k ? first + w.depth : s.k);
    traversal.warp_row = at.row;
    traversal.warp_column = at.column;
    traversal.lane = at.lane;

    weights_sums acc;
    TDM_UNROLL for (int i = 0; i < A_FRAGMENTS; i++)
        TDM_UNROLL for (int j = 0; j < 2 * B_PAIRS; j++)
            TDM_UNROLL for (int x = 0; x < 4; x++) acc[i][j][x] = 0.0f;
    /* Load and multiply-accumulate. */
    const bool whole = traversal.a.whole && traversal.b.whole;
    if (w.group < s.k && whole)
        multiply_part<true, true>(acc, traversal, w, tiles);
    else if (w.group < s.k)
        multiply_part<false, true>(acc, traversal, w, tiles);
    else if (whole)
        multiply_part<true, false>(acc, traversal, w, tiles);
    else
        multiply_part<false, false>(acc, traversal, w, tiles);

    /* Store: through local memory and the epilogue to D. */
    uint *const scratch = mma_scratch(tiles, at.warp);
    mma_keep(acc, scratch, at.lane);
    if (IS_BF16) {
        TDM_NO_UNROLL for (int x = at.lane; x < WM * WN; x += 32) {
            const long i = at.i0 + at.row + x / WN, j = at.j0 + at.column + x % WN;
            float *const sum = (float *)scratch + tdm_fragment_place(WN, x / WN, x % WN);
            if (i < s.m && j < s.n)
                *sum = weights_finite(*sum, a, a_offset, b, b_offset, scale, scale_offset, zero,
                                      zero_offset, s, w, at.z, i, j, first);
        }
        tdm_warp_barrier();
    }
    tdm_epilogue_io io = tdm_epilogue_begin(c, c_offset, bias, bias_offset, residual, r_offset, d,
                                            d_offset, e, at.z);
    io.d_at += part * s.m * s.n;
    tdm_fragment_rows(scratch, WM, WN, at.lane, io, e, at.i0 + at.row, at.j0 + at.column, s.m, s.n);
}
