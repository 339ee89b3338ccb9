/* GEMM of f32 for devices with asynchronous copies: a work-group computes a TM×TN tile of D, and a
 * work-item 8×8 elements of it in registers.
 *
 *                  TN              STAGES tiles of A (TM×TK) and of B (TK×TN) are on the way to
 *              ┌────────┐ TK       local memory; the copies need no registers. Both are stored by
 *              │ b_tile │          steps of K: (p, line). A line is a row of A or a column of B.
 *         TK   └────────┘
 *       ┌────┐ ┌───┬────┐          A warp of 32 work-items computes 64×32 of the tile, a work-item
 *    TM │ a  │ ├───┼────┤          four times 4×4 of that:
 *       └────┘ └───┴────┘            rows     64·(warp's row) + 32·h + 4·r + i     h < 2, r < 8
 *                                    columns  32·(warp's column) + 16·h + 4·c + i  c < 4, i < 4
 *
 * r is bits 1 to 3 of the work-item's number, c bits 0 and 4. Eight neighbours then read four
 * vectors of A and two of B, without bank conflicts.
 *
 * Parameters of the variant:
 *   TM, TN    rows and columns of a work-group's tile, multiples of 64 and 32, e.g. 128 and 128
 *   GROUPS    work-groups that share the registers of a compute unit, e.g. 2
 * Constants:
 *   TK               steps of K in a tile
 *   STAGES           tiles of each operand in local memory
 *   WARP_M, WARP_N   rows and columns of a warp's tile
 *   PAD              floats added to each step of a tile: elements that are contiguous along K are
 *                    then in different banks
 *
 * An operand that is contiguous along its lines and aligned is copied 16 bytes at a time. Any other
 * is copied 4 bytes at a time and transposed on the way. Elements outside the matrices arrive as
 * zeros.
 *
 * The vectors of step p + 1 are read while step p is multiplied, across the end of a tile as well.
 * The barrier is before the last step of a tile, for which all work-items have their vectors by
 * then. The copies of a tile start STAGES - 1 tiles ahead.
 *
 * At most TDM_SUM_BLOCK terms are added in registers. The sums of the blocks before are in `tile`,
 * in private memory. Consecutive work-groups cover squares of D, so that they share operands in the
 * last-level cache. The grid is (row tiles · column tiles, 1, batch). */
#define TDM_EPILOGUE_VECTOR 4
#include "kernels/dialect/dialect.h"
#include "gemm_args.h"
#include "gemm_epilogue.h"

#define TK 8
#define STAGES 4
#define STAGES_WAITED 2 /* STAGES - 2 */
#define WARP_M 64
#define WARP_N 32
#define ITEMS (TM / WARP_M * (TN / WARP_N) * 32)
#define PAD 4
/* Vectors of four floats in a step, and in a tile. */
#define A_STEP ((TM + PAD) / 4)
#define B_STEP ((TN + PAD) / 4)
#define A_TILE (TK * A_STEP)
#define B_TILE (TK * B_STEP)
/* Vectors of a tile that a work-item copies. */
#define A_COPIES (TM * TK / 4 / ITEMS)
#define B_COPIES (TN * TK / 4 / ITEMS)
#if A_COPIES * 4 * ITEMS != TM * TK || B_COPIES * 4 * ITEMS != TN * TK
#error "the tiles do not divide into vectors"
#endif
/* Number of consecutive row tiles before the next column of tiles starts. */
#define SQUARE 16

/* The part of an operand that a work-item copies. Copy n is of line `line` + n·line_step, at step
 * `step` + n·depth_step of the tile. */
typedef struct {
    TDM_GLOBAL const tdm_f32 *from; /* source of copy 0 of the next tile */
    long stride;                    /* elements to the next copy */
    long tile;                      /* elements to the next tile */
    int line, line_step, step, depth_step;
    int lines;   /* lines of the operand from the tile's first one on */
    int vectors; /* copy 16 bytes at a time */
} tile_source;

TDM_DEVICE tile_source source_of(TDM_GLOBAL const tdm_f32 *from, long at, long line, long depth,
                                 long lines, int tile_lines, int item) {
    tile_source s;
    const int along_depth = depth == 1 && line != 1;
    s.lines = (int)(lines < tile_lines ? lines : tile_lines);
    s.vectors = line == 1 && depth % 4 == 0 && (tdm_address(from) + (ulong)at * 4) % 16 == 0;
    if (s.vectors) {
        s.line = item % (tile_lines / 4) * 4;
        s.step = item / (tile_lines / 4);
        s.line_step = 0;
        s.depth_step = ITEMS / (tile_lines / 4);
    } else if (along_depth) {
        s.line = item / TK;
        s.step = item % TK;
        s.line_step = ITEMS / TK;
        s.depth_step = 0;
    } else {
        s.line = item % tile_lines;
        s.step = item / tile_lines;
        s.line_step = 0;
        s.depth_step = ITEMS / tile_lines;
    }
    s.stride = s.line_step * line + s.depth_step * depth;
    s.tile = TK * depth;
    s.from = from + at + s.line * line + s.step * depth;
    return s;
}

/* Starts the copies of the next tile, of which `left` steps are within K. */
#define COPY_TILE(s, COPIES, to, STEP)                                                             \
    {                                                                                              \
        if (s.vectors) {                                                                           \
            const int there = tdm_int_min(s.lines - s.line, 4) * 4;                                \
            TDM_UNROLL for (int n = 0; n < COPIES; n++) {                                          \
                const int step = s.step + n * s.depth_step;                                        \
                tdm_async_copy_16(&(to)[step * STEP + s.line / 4], s.from + n * s.stride,        \
                                  step < left ? tdm_int_max(there, 0) : 0);                        \
            }                                                                                      \
        } else {                                                                                   \
            TDM_UNROLL for (int n = 0; n < 4 * COPIES; n++) {                                      \
                const int step = s.step + n * s.depth_step, line = s.line + n * s.line_step;       \
                tdm_async_copy_4((TDM_LOCAL float *)(to) + step * (STEP * 4) + line,             \
                                 s.from + n * s.stride, step < left && line < s.lines ? 4 : 0);    \
            }                                                                                      \
        }                                                                                          \
        s.from += s.tile;                                                                          \
    }

/* Load: starts the copies of the tiles of slot `slot`. */
#define COPY_TILES(slot)                                                                           \
    {                                                                                              \
        const int left = (int)(k - next_p < TK ? k - next_p : TK);                                 \
        COPY_TILE(from_a, A_COPIES, a_tile + (slot)*A_TILE, A_STEP)                                \
        COPY_TILE(from_b, B_COPIES, b_tile + (slot)*B_TILE, B_STEP)                                \
        tdm_async_commit();                                                                        \
        next_p += TK;                                                                              \
    }

/* Reads the vectors of step P of the tiles in `slot` into set Q. */
#define READ(P, Q)                                                                                 \
    {                                                                                              \
        TDM_UNROLL for (int h = 0; h < 2; h++) {                                                   \
            a_vec[Q][h] = a_tile[slot * A_TILE + (P)*A_STEP + a_first + 8 * h];                    \
            b_vec[Q][h] = b_tile[slot * B_TILE + (P)*B_STEP + b_first + 4 * h];                    \
        }                                                                                          \
    }

/* Multiply-accumulate: element l of vector h of A times the work-item's columns. */
#define ROW(Q, h, l)                                                                               \
    TDM_UNROLL for (int v = 0; v < 2; v++) acc[4 * h + l][v] =                                     \
        tdm_mad(f32x4_splat(TDM_LANE(4, a_vec[Q][h], l)), b_vec[Q][v], acc[4 * h + l][v]);
#define MULTIPLY(Q)                                                                                \
    {                                                                                              \
        ROW(Q, 0, 0) ROW(Q, 0, 1) ROW(Q, 0, 2) ROW(Q, 0, 3)                                        \
        ROW(Q, 1, 0) ROW(Q, 1, 1) ROW(Q, 1, 2) ROW(Q, 1, 3)                                        \
    }
/* Steps P and P + 1 of a tile, except its last two. */
#define TWO_STEPS(P)                                                                               \
    READ((P) + 1, 1) MULTIPLY(0)                                                                   \
    READ((P) + 2, 0) MULTIPLY(1)

/* Adds the sums in registers to those in private memory. The accesses are volatile: a compiler that
 * batches many of them would run out of registers. */
#define ADD_LANE(l) sums[at + (l)] += TDM_LANE(4, acc[i][v], l);
#define ADD_TO_TILE                                                                                \
    {                                                                                              \
        volatile float *const sums = tile;                                                         \
        TDM_UNROLL for (int i = 0; i < 8; i++) TDM_UNROLL for (int v = 0; v < 2; v++) {            \
            const int at = i * 8 + v * 4;                                                          \
            ADD_LANE(0) ADD_LANE(1) ADD_LANE(2) ADD_LANE(3)                                        \
            acc[i][v] = f32x4_splat(0.0f);                                                         \
        }                                                                                          \
    }

TDM_KERNEL_GROUPS(TDM_ENTRY, ITEMS, 1, 1, GROUPS)
(TDM_GLOBAL const tdm_f32 *TDM_RESTRICT a, long a_offset, TDM_GLOBAL const tdm_f32 *TDM_RESTRICT b,
 long b_offset, TDM_GLOBAL const void *c, long c_offset, TDM_GLOBAL const void *bias,
 long bias_offset, TDM_GLOBAL const void *residual, long r_offset, TDM_GLOBAL void *d,
 long d_offset, tdm_gemm_shape_arg s, tdm_gemm_epilogue_arg e) {
    TDM_LOCAL_ARRAY(f32x4, a_tile, STAGES *A_TILE);
    TDM_LOCAL_ARRAY(f32x4, b_tile, STAGES *B_TILE);
    const int item = tdm_item_x(), warp = item / 32;
    const int r = item / 2 % 8, lane_c = item % 2 + item / 16 % 2 * 2;
    const long z = tdm_group_z(), k = s.k;

    const int group = (int)tdm_group_x(), row_tiles = (int)s.row_tiles;
    const int square = SQUARE * (int)s.column_tiles, first_row = group / square * SQUARE;
    const int high = tdm_int_min(row_tiles - first_row, SQUARE);
    const long i0 = (long)(first_row + group % square % high) * TM;
    const long j0 = (long)(group % square / high) * TN;
    tile_source from_a = source_of(a, a_offset + z * s.a_batch + i0 * s.a_row, s.a_row, s.a_col,
                                   s.m - i0, TM, item);
    tile_source from_b = source_of(b, b_offset + z * s.b_batch + j0 * s.b_col, s.b_col, s.b_row,
                                   s.n - j0, TN, item);
    const int row = warp % (TM / WARP_M) * WARP_M + 4 * r;
    const int column = warp / (TM / WARP_M) * WARP_N + 4 * lane_c;
    const int a_first = row / 4, b_first = column / 4;

    f32x4 acc[8][2], a_vec[2][2], b_vec[2][2];
    TDM_UNROLL for (int i = 0; i < 8; i++) TDM_UNROLL for (int v = 0; v < 2; v++) acc[i][v] =
        f32x4_splat(0.0f);

    float tile[64];
    TDM_NO_UNROLL for (int t = 0; t < 64; t += 4) f32x4_store_f32(f32x4_splat(0.0f), tile, t);

    long next_p = 0;
    /* Load the first STAGES - 1 tiles. */
    TDM_NO_UNROLL for (int t = 0; t < STAGES - 1; t++) COPY_TILES(t)
    tdm_async_wait(STAGES_WAITED);
    tdm_barrier();
    int slot = 0, next_slot = STAGES - 1;
    READ(0, 0)
    TDM_NO_UNROLL for (long p0 = 0; p0 < k; p0 += TK) {
        /* Load a later tile. */
        COPY_TILES(next_slot)
        next_slot = slot;
        /* Multiply-accumulate, while the vectors of the next step are read. */
        TWO_STEPS(0)
        TWO_STEPS(2)
        TWO_STEPS(4)
        READ(TK - 1, 1) MULTIPLY(0)
        slot = slot + 1 < STAGES ? slot + 1 : 0;
        tdm_async_wait(STAGES_WAITED);
        tdm_barrier();
        READ(0, 0) MULTIPLY(1)
        if ((p0 + TK) % TDM_SUM_BLOCK == 0)
            ADD_TO_TILE
    }
    ADD_TO_TILE

    /* Store. */
    const tdm_epilogue_io io =
        tdm_epilogue_begin(c, c_offset, bias, bias_offset, residual, r_offset, d, d_offset, e, z);
    if (tdm_epilogue_is_plain(e) && i0 + TM <= s.m && j0 + TN <= s.n) {
        TDM_UNROLL for (int i = 0; i < 8; i++) TDM_UNROLL for (int v = 0; v < 2; v++)
            TDM_STOREV(4, f32, f32x4_load_f32(tile, i * 8 + v * 4), (TDM_GLOBAL tdm_f32 *)io.d,
                       io.d_at + (i0 + row + i % 4 + i / 4 * 32) * e.d_row + j0 + column + 16 * v);
        return;
    }
    /* The epilogue is a rolled loop over a copy; unrolled over registers it would be most of the
     * code. */
    const int dense = tdm_epilogue_is_dense(e);
    TDM_NO_UNROLL for (int t = 0; t < 16; t++) {
        const long i = i0 + row + t / 2 % 4 + t / 8 * 32, j = j0 + column + t % 2 * 16;
        const int count = (int)(s.n - j < 4 ? s.n - j : 4);
        if (i < s.m)
            tdm_epilogue_row(tile + t * 4, io, e, i, j, count, dense);
    }
}
