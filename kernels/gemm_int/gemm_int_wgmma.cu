/* Integer GEMM on the tensor cores of Hopper: a work-group computes 128×TN tiles of D one after the
 * other, with sums in s32 modulo 2^32 in registers.
 *
 * gemm_wgmma_tile.h draws a tile and explains how it arrives. The instructions multiply 8-bit
 * elements along K only, so both operands are contiguous along it. The type of A, u8 or s8, is
 * known at run time only. The loop is instantiated for both, each with and without sums of lines. A
 * line is a row of A or a column of B.
 *
 * If corrections for zero points need these sums, the work-items that multiply also add up the
 * lines of each slot while their multiplications run. A warpgroup adds up its 64 rows of A and half
 * of the columns of B; a warp adds up its own 16 rows.
 *
 *     lane of a warp:   line lane % LINES of the warp's LINES lines
 *                       part lane / LINES of its 128 bytes
 *
 * Eight neighbouring lanes read 16 bytes of eight lines. The swizzle puts these at eight different
 * 16-byte offsets within 128 bytes, so there are no bank conflicts. After the tile's last step the
 * sums go to local memory; both warpgroups use those of B's columns. Tiles alternate between two
 * buffers for the column sums, so one barrier per tile is enough.
 *
 *     rest of local memory:  TN ints, columns of B │ TN ints for every other tile
 *                            │ 16 ints per warp, rows of A */
#define TDM_EPILOGUE_VECTOR 4
#define TDM_INT_COLUMNS 4
#define TDM_BUILT_IN_DIVIDE
#define ELEMENT_BYTES 1
#include "kernels/dialect/dialect.h"
#include "gemm_int_args.h"
#include "kernels/gemm/gemm_wgmma_tile.h"

#define ROW_LINES 16          /* lines of A per warp */
#define COLUMN_LINES (TN / 8) /* lines of B per warp */
#define ONES 0x01010101
#define TURN (-0x7f7f7f80) /* flips the top bits of four u8: as s8 they are 128 less */

/* A lane's sums: one part of a line of B and one of a line of A. */
typedef struct {
    int column, row;
} line_sums;

template <bool UNSIGNED> TDM_DEVICE int bytes_sum(int word, int sum) {
    return UNSIGNED ? tdm_dot4(1, word ^ TURN, ONES, sum + 512) : tdm_dot4(1, word, ONES, sum);
}

/* Returns `sum` plus the lane's part of a line. The LINES lines begin at `lines`; the number of the
 * first one is a multiple of eight. */
template <int LINES, bool UNSIGNED>
TDM_DEVICE int add_line(const unsigned char *lines, int lane, int sum) {
    const int line = lane % LINES, first = lane / LINES * (LINES / 4);
    TDM_UNROLL for (int n = 0; n < LINES / 4; n++) {
        const s32x4 chunk =
            tdm_tensor_read(lines + line * ROW_BYTES + ((first + n) ^ line % 8) * 16);
        sum = bytes_sum<UNSIGNED>(chunk.s0, sum);
        sum = bytes_sum<UNSIGNED>(chunk.s1, sum);
        sum = bytes_sum<UNSIGNED>(chunk.s2, sum);
        sum = bytes_sum<UNSIGNED>(chunk.s3, sum);
    }
    return sum;
}

/* Joins the parts that lanes have of LINES lines, and writes the sums to `to`. */
template <int LINES> TDM_DEVICE void keep_sum(int sum, int *to, int lane) {
    if (LINES == 16)
        sum = tdm_cxx_add(sum, tdm_warp_shuffle_xor(sum, 16));
    if (lane < LINES)
        to[lane] = sum;
}

template <bool UNSIGNED, bool ADDS_UP>
TDM_DEVICE line_sums multiply_tile(int (&d)[TN / 2], const tile_memory &m, slot_turn &turn,
                                   int warp, long k, int lane) {
    line_sums sums = {0, 0};
    multiply_slots(
        m, turn, warp / 4 * PIECE, k, lane,
        [&](ulong a, ulong b, int adds) {
            TDM_UNROLL for (int p = 0; p < 4; p++) {
                if (UNSIGNED)
                    tdm_multiply_u8(d, a + 2 * p, b + 2 * p, adds || p > 0);
                else
                    tdm_multiply_s8(d, a + 2 * p, b + 2 * p, adds || p > 0);
            }
        },
        [&](const unsigned char *slot) {
            if (ADDS_UP) {
                sums.row = add_line<ROW_LINES, UNSIGNED>(slot + warp * (ROW_LINES * ROW_BYTES),
                                                         lane, sums.row);
                sums.column = add_line<COLUMN_LINES, false>(
                    slot + A_BYTES + warp * (COLUMN_LINES * ROW_BYTES), lane, sums.column);
                // One lane releases the slot after this, for a copy that writes through another
                // proxy.
                tdm_proxy_fence();
                tdm_warp_barrier();
            }
        });
    return sums;
}

TDM_DEVICE void finish_tile(const int (&d)[TN / 2], uint *strip, const int *columns,
                            const int *rows, const tdm_int_io &io, const tdm_gemm_shape_arg &s,
                            const tdm_gemm_epilogue_arg &e, const tdm_gemm_quant_arg &q, long i0,
                            long j0, int lane) {
    each_strip(d, strip, lane, [&](int column) {
        tdm_fragment_int_rows(strip, columns + column, rows, STRIP_ROWS, STRIP_COLUMNS, lane, &io,
                              s, e, q, i0, j0 + column);
    });
}

TDM_KERNEL_GROUPS(TDM_ENTRY, ITEMS, 1, 1, 1)
(TDM_TENSOR_MAP(a), TDM_TENSOR_MAP(b), TDM_INT_OTHER_ARGUMENTS,
 TDM_LOCAL_ARGUMENT(unsigned char, local)) {
    const int item = tdm_item_x(), lane = item % 32, warp = item / 32 - 4;
    const tile_memory m = memory_of(local);
    begin_slots(m, a, b, item);
    if (warp < 0) {
        tdm_registers_fewer(24);
        /* Load: one work-item starts all bulk copies. */
        if (item == 0)
            bring_tiles(m, a, b, s);
    } else {
        tdm_registers_more(240);
        TDM_INT_IO(io, tdm_group_z());
        const bool is_unsigned = s.a_type == TDM_CODE_U8;
        const bool adds_up = tdm_int_needs_column_sums(q, 0) || tdm_int_needs_row_sums(q);
        int *columns = (int *)m.rest, *other = columns + TN;
        int *const rows = (int *)m.rest + 2 * TN + warp * ROW_LINES;
        slot_turn turn = {0, 0};
        TDM_NO_UNROLL for (int tile = first_tile(); tile < tiles_of(s); tile += tiles_apart()) {
            const tile_place at = place_of(tile, s);
            int sums[TN / 2];
            line_sums of_lines;
            /* Multiply-accumulate over K. */
            if (!is_unsigned && !adds_up)
                of_lines = multiply_tile<false, false>(sums, m, turn, warp, s.k, lane);
            else if (!adds_up)
                of_lines = multiply_tile<true, false>(sums, m, turn, warp, s.k, lane);
            else if (!is_unsigned)
                of_lines = multiply_tile<false, true>(sums, m, turn, warp, s.k, lane);
            else
                of_lines = multiply_tile<true, true>(sums, m, turn, warp, s.k, lane);
            if (adds_up) {
                keep_sum<ROW_LINES>(of_lines.row, rows, lane);
                keep_sum<COLUMN_LINES>(of_lines.column, columns + warp * COLUMN_LINES, lane);
                tdm_part_barrier(1, 32 * WARPS);
            }
            /* Store through the epilogue. */
            finish_tile(sums, m.strips + warp * STRIP_WORDS, columns, rows, io, s, e, q,
                        at.row + warp * STRIP_ROWS, at.column, lane);
            int *const last = columns;
            columns = other;
            other = last;
        }
    }
    end_slots();
}
