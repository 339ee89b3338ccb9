/* GEMM of f16 or bf16 on Hopper's tensor cores: a group computes 128×TN tiles of D one after the other, f32 in registers.
 *
 * gemm_wgmma_tile.h draws a tile, and says how it comes. Either order of A and of B is a bit of the instruction, so the loop over K
 * stands four times in the text, the epilogue once. */
#define TDM_EPILOGUE_VECTOR 4
#define ELEMENT_BYTES 2
#include "dialect.h"
#include "gemm_args.h"
#include "gemm_wgmma_tile.h"

#define MULTIPLY TDM_CAT2(tdm_multiply_, AT)

template <int TA, int TB>
TDM_DEVICE void multiply_tile(float (&d)[TN / 2], const tile_memory &m, slot_turn &turn,
                              int rows_at, long k, int lane) {
    multiply_slots(
        m, turn, rows_at, k, lane,
        [&](ulong a, ulong b, int adds) {
            TDM_UNROLL for (int p = 0; p < 4; p++)
                MULTIPLY<TA, TB>(d, a + (TA ? 128 : 2) * p, b + (TB ? 128 : 2) * p, adds || p > 0);
        },
        [](const unsigned char *) {});
}

TDM_KERNEL_GROUPS(TDM_ENTRY, ITEMS, 1, 1, 1)
(TDM_TENSOR_MAP(a), TDM_TENSOR_MAP(b), TDM_GLOBAL const void *c, long c_offset,
 TDM_GLOBAL const void *bias, long bias_offset, TDM_GLOBAL const void *residual, long r_offset,
 TDM_GLOBAL void *d, long d_offset, tdm_gemm_shape_arg s, tdm_gemm_epilogue_arg e,
 TDM_LOCAL_ARGUMENT(unsigned char, local)) {
    const int item = tdm_item_x(), lane = item % 32, warp = item / 32 - 4;
    const tile_memory m = memory_of(local);
    begin_slots(m, a, b, item);
    if (warp < 0) {
        tdm_registers_fewer(24);
        if (item == 0)
            bring_tiles(m, a, b, s);
    } else {
        tdm_registers_more(240);
        const tdm_epilogue_io io = tdm_epilogue_begin(c, c_offset, bias, bias_offset, residual,
                                                      r_offset, d, d_offset, e, tdm_group_z());
        uint *const strip = m.strips + warp * STRIP_WORDS;
        const int rows_at = warp / 4 * PIECE;
        slot_turn turn = {0, 0};
        TDM_NO_UNROLL for (int tile = (int)tdm_group_x(); tile < tiles_of(s);
                           tile += (int)tdm_groups_x()) {
            const tile_place at = place_of(tile, s);
            float sums[TN / 2];
            if (s.turned == 0)
                multiply_tile<0, 0>(sums, m, turn, rows_at, s.k, lane);
            else if (s.turned == 1)
                multiply_tile<1, 0>(sums, m, turn, rows_at, s.k, lane);
            else if (s.turned == 2)
                multiply_tile<0, 1>(sums, m, turn, rows_at, s.k, lane);
            else
                multiply_tile<1, 1>(sums, m, turn, rows_at, s.k, lane);
            each_strip(sums, strip, lane, [&](int column) {
                tdm_fragment_rows(strip, STRIP_ROWS, STRIP_COLUMNS, lane, io, e,
                                  at.row + warp * STRIP_ROWS, at.column + column, s.m, s.n);
            });
        }
    }
}
