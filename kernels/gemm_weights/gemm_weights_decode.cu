/* GEMM of few rows of f16 or bf16 (16 per tile) by weights of s8 or s4 on tensor cores. Weights are
 * read once, without repacking. The memory bandwidth of these reads limits the speed. A work-group
 * computes TN columns, and a warp 32 of them. Warps share the blocks of K, and join their sums in
 * local memory, in the order of the blocks.
 *
 *   TN 32, steps   0 … 31    32 … 63     …    224 … 255    256 … 287   …
 *                 ┌────────┬──────────┬─────┬───────────┬───────────┬─────
 *   32 lines of B │ warp 0 │  warp 1  │  …  │   warp 7  │   warp 0  │  …
 *                 └────────┴──────────┴─────┴───────────┴───────────┴─────
 *                                                     a tile: 8 blocks, one per warp
 *
 *   TN 64, steps   0 … 31     …    96 … 127    128 … 159  …
 *                 ┌────────┬─────┬───────────┬───────────┬───
 *   32 lines of B │ warp 0 │  …  │   warp 3  │   warp 0  │ …
 *   32 more       │ warp 4 │  …  │   warp 7  │   warp 4  │ …
 *                 └────────┴─────┴───────────┴───────────┴───
 *                                                     a tile: 4 blocks, two warps each
 *
 *   stage:  A, 16 lines │ B, TN lines │ pairs (scale, zero point): TN of block 0, TN of block 1, …
 *                                                                           BLOCKS blocks
 *
 * gemm_weights_tile.h draws the tiles. The instruction's 16 rows are weights, and its eight columns
 * are rows of A. Up to eight rows thus cost half as much as 16, and a lane's quantized values,
 * scales and sums belong to the same two columns, g and g + 8.
 *
 * The lower bound of the time is bytes of B / bandwidth. The following is a model, not measured on
 * hardware:
 *   - Bytes in flight: a device needs bandwidth · latency (700 ns). This is about 18 KiB per
 *     multiprocessor on H100, 25 KiB on H200, 12 KiB on A100 and 5 KiB on GPUs with GDDR. A
 *     work-group has STAGES − 1 tiles in flight: 24 KiB of s4 with TN 32 (7 stages), 28 KiB with TN
 *     64 (8), 32 KiB of s8 (5 and 5). Two work-groups fit a multiprocessor of H100.
 *   - Sectors: a tile has 128 bytes of each line of s4 and 256 of s8 (TN 64: half), in pieces of
 *     16. The 32 lanes of a copy read whole sectors of each line, and no line is read twice.
 *   - Instructions: for 16 columns and a block, which are 256 bytes of s4, a warp has 2 + 2 loads,
 *     22 conversions, 2 matrix multiplications and 4 multiply-adds. Reading A, and reordering it
 *     for s4, takes 5 more per block. This is about 0.13 per byte. A quarter of a multiprocessor of
 *     H100 receives 3.6 bytes and issues one instruction per cycle.
 *   - A comes from the last-level cache: 2·M / TN bytes for each byte of s8 and twice as many for
 *     s4. TN is therefore 64 if there are enough work-groups.
 *   - Wave quantization: all work-groups take equally long, so a last wave of few wastes time. If
 *     even TN 32 leaves half of the compute units idle, K is split into parts of w.depth steps
 *     (work-groups along y). gemm_reduce.cl joins their sums in order.
 *
 * The grid is (row tiles · column tiles, parts, batch). */
#define TDM_EPILOGUE_VECTOR 4
#define TDM_BUILT_IN_DIVIDE
#define WARP_COLUMNS 32
#define BLOCKS (8 * WARP_COLUMNS / TN)
#define ITEMS 256
#define TM 16
#include "kernels/dialect/dialect.h"
#include "kernels/dialect/dialect_tensor.h"
#include "kernels/gemm/gemm_epilogue.h"
#include "gemm_weights_args.h"
#include "gemm_weights_steps.h"
#include "gemm_weights_tile.h"

#define CODES_AT (TM * FLOAT_BYTES * BLOCKS)
#define PAIRS_AT (CODES_AT + TN * CODE_BYTES * BLOCKS)
#define STAGE_BYTES (PAIRS_AT + TN * 8 * BLOCKS)
#define OWN_PAIRS (TN * BLOCKS / ITEMS)
#define FRAGMENTS (WARP_COLUMNS / 16)
/* Floats from one row of sums to the next. It puts rows 2·t and columns g of a warp's stores in
 * different banks. */
#define SUMS_PITCH (TN + 4)

struct decode_traversal {
    weights_source a, b;
    weights_parameters of_b;
    int first, past; /* steps of K */
    int block, column, lane; /* the warp's position in a tile */
    bool grouped;
};

/* Multiply-accumulates the warp's block of a tile for 8·EIGHTS rows of A. Sums 0 and 1 are column
 * g, rows 2·t and 2·t + 1; sums 2 and 3 are column g + 8. */
template <int EIGHTS>
TDM_DEVICE void multiply_block(float (&sum)[FRAGMENTS][EIGHTS][4],
                               const decode_traversal &traversal, const tdm_u8 *tile,
                               const weights_pair *pairs) {
    const int g = traversal.lane / 4, t = traversal.lane % 4;
    uint floats[EIGHTS][4];
    TDM_UNROLL for (int h = 0; h < EIGHTS; h++) weights_floats(
        floats[h], tile + weights_place<TM, FLOAT_BYTES>(traversal.block, 8 * h + g, t));
    TDM_UNROLL for (int c = 0; c < FRAGMENTS; c++) {
        const int column = traversal.column + 16 * c + g;
        tdm_warp_barrier(); /* loads of later columns would take registers */
        const tdm_u8 *const codes =
            tile + CODES_AT + weights_place<TN, CODE_BYTES>(traversal.block, column, t);
        const weights_pair own = weights_kept(pairs + column),
                           other = weights_kept(pairs + column + 8);
        uint upper[4], lower[4];
        weights_values(upper, codes, own.minus);
        weights_values(lower, codes + 8 * CODE_BYTES, other.minus);
        const uint first[4] = {upper[0], lower[0], upper[1], lower[1]},
                   second[4] = {upper[2], lower[2], upper[3], lower[3]};
        TDM_UNROLL for (int h = 0; h < EIGHTS; h++) {
            float part[4] = {0.0f, 0.0f, 0.0f, 0.0f};
            TDM_CAT2(tdm_matrices_, MMA)(part, first, floats[h][0], floats[h][1]);
            TDM_CAT2(tdm_matrices_, MMA)(part, second, floats[h][2], floats[h][3]);
            TDM_UNROLL for (int x = 0; x < 4; x++) sum[c][h][x] =
                tdm_mad(x < 2 ? own.scale : other.scale, part[x], sum[c][h][x]);
        }
    }
}

/* Multiply-accumulates the part of K, and leaves the work-group's sums in local memory. WHOLE: both
 * operands are copied by pieces. */
template <bool WHOLE, int EIGHTS>
TDM_DEVICE void multiply_part(decode_traversal &traversal, tdm_gemm_weights_arg w, tdm_u8 *tiles) {
    const int item = tdm_item_x();
    weights_pair own[OWN_PAIRS] = {};
    float sum[FRAGMENTS][EIGHTS][4];
    TDM_UNROLL for (int c = 0; c < FRAGMENTS; c++)
        TDM_UNROLL for (int h = 0; h < EIGHTS; h++)
            TDM_UNROLL for (int x = 0; x < 4; x++) sum[c][h][x] = 0.0f;
#define PAIRS(slot) ((weights_pair *)(tiles + (slot)*STAGE_BYTES + PAIRS_AT))
#define PREFETCH(slot, at)                                                                         \
    {                                                                                              \
        tdm_u8 *const to = tiles + (slot)*STAGE_BYTES;                                             \
        weights_prefetch<TM, FLOAT_BYTES, WHOLE, 8 * EIGHTS>(traversal.a, to,                      \
                                                             traversal.past - (at));               \
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
        if (traversal.grouped) {
            KEEP_PAIRS(next_slot > 0 ? next_slot - 1 : STAGES - 1)
            READ_PAIRS(p + (STAGES - 1) * STEPS)
        }
        /* Dequantize and multiply-accumulate. */
        if (p + traversal.block * BLOCK_STEPS < traversal.past)
            multiply_block<EIGHTS>(sum, traversal, tiles + slot * STAGE_BYTES,
                                   traversal.grouped ? PAIRS(slot) + traversal.block * TN
                                                     : PAIRS(0));
        slot = slot + 1 < STAGES ? slot + 1 : 0;
        tdm_async_wait(STAGES - 2);
        tdm_barrier();
    }
    /* The sums overwrite the tiles. */
    tdm_async_wait(0);
    tdm_barrier();
    float *const to = (float *)tiles +
                      (traversal.block * TM + traversal.lane % 4 * 2) * SUMS_PITCH +
                      traversal.column + traversal.lane / 4;
    TDM_UNROLL for (int c = 0; c < FRAGMENTS; c++) TDM_UNROLL for (int h = 0; h < EIGHTS; h++)
        TDM_UNROLL for (int x = 0; x < 4; x++)
            to[(8 * h + x % 2) * SUMS_PITCH + 16 * c + x / 2 * 8] = sum[c][h][x];
    tdm_barrier();
#undef PAIRS
#undef PREFETCH
#undef READ_PAIRS
#undef KEEP_PAIRS
}

TDM_KERNEL_GROUPS(TDM_ENTRY, ITEMS, 1, 1, 2)
(TDM_WEIGHTS_ARGUMENTS, TDM_LOCAL_ARGUMENT(tdm_u8, local)) {
    tdm_u8 *const tiles = local;
    const int item = tdm_item_x();
    const long z = tdm_group_z(), part = tdm_group_y();
    const int start = (int)(part * w.depth);
    const long i0 = tdm_group_x() % s.row_tiles * TM, j0 = tdm_group_x() / s.row_tiles * TN;
    const int rows = (int)(s.m - i0 < TM ? s.m - i0 : TM);
    decode_traversal traversal;
    traversal.a = weights_source_of<TM, FLOAT_BYTES>(
        (const tdm_u8 *)a + (a_offset + z * s.a_batch + i0 * s.a_row + start * s.a_col) * 2,
        s.a_row * 2, s.a_col * 2, s.m - i0, item);
    traversal.b = weights_source_of<TN, CODE_BYTES>(
        (const tdm_u8 *)b +
            (b_offset + z * s.b_batch + j0 * s.b_col + start) * CODE_BYTES / BLOCK_STEPS,
        s.b_col * CODE_BYTES / BLOCK_STEPS, 1, s.n - j0, item);
    traversal.of_b = weights_parameters_of(scale, scale_offset, zero, zero_offset, s, w, z, j0);
    traversal.first = start;
    traversal.past = (int)(start + w.depth < s.k ? start + w.depth : s.k);
    traversal.block = item / 32 % BLOCKS;
    traversal.column = item / 32 / BLOCKS * WARP_COLUMNS;
    traversal.lane = item % 32;
    traversal.grouped = w.group < s.k;
    if (!traversal.a.whole || !traversal.b.whole)
        multiply_part<false, 2>(traversal, w, tiles);
    else if (rows <= 8)
        multiply_part<true, 1>(traversal, w, tiles);
    else
        multiply_part<true, 2>(traversal, w, tiles);

    /* Join the sums of the blocks, and store through the epilogue. */
    tdm_epilogue_io io = tdm_epilogue_begin(c, c_offset, bias, bias_offset, residual, r_offset, d,
                                            d_offset, e, z);
    io.d_at += part * s.m * s.n;
    TDM_NO_UNROLL for (int x = item; x < rows * TN; x += ITEMS) {
        const float *const from = (const float *)tiles + x / TN * SUMS_PITCH + x % TN;
        float total = from[0];
        TDM_UNROLL for (int block = 1; block < BLOCKS; block++) total +=
            from[block * (TM * SUMS_PITCH)];
        if (IS_BF16 && j0 + x % TN < s.n)
            total = weights_finite(total, a, a_offset, b, b_offset, scale, scale_offset, zero,
                                   zero_offset, s, w, z, i0 + x / TN, j0 + x % TN, start);
        if (j0 + x % TN < s.n)
            tdm_epilogue_element(total, io, e, i0 + x / TN, j0 + x % TN);
    }
}
