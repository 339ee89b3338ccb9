/* GEMM of f16 or bf16 on the tensor cores of Hopper: a work-group computes 128×TN tiles of D one
 * after the other, with f32 sums in registers.
 *
 * gemm_wgmma_tile.h draws a tile and explains how it arrives. The instruction has a bit for the
 * order of A and one for that of B. The loop over K is therefore instantiated four times.
 *
 * If D has 16 bits and a tensor map describes it (bit 2 of s.turned), bulk copies store it in
 * boxes: 16 rows of 64 columns, those of one warp. If D is just A·B, the sums are written directly
 * to boxes. The memory of the strip and that of the box then serve as two alternating buffers.
 * Otherwise the sums are first written to the strip, where the epilogue reads them. If D has no
 * such tensor map, the work-items store it.
 *
 *     a box:  row r at 128·r bytes, its columns 8·c … 8·c + 7 at 16·(c ^ r % 8) within the row */
#define TDM_EPILOGUE_VECTOR 4
#define ELEMENT_BYTES 2
#define BOXES
#include "kernels/dialect/dialect.h"
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

/* ---- D ---- */

#define BOX_COLUMNS 64

/* The part of D that a warp computes: it begins at (row, column) of batch entry z. */
typedef struct {
    int row, column, z, lane;
} warp_place;

TDM_DEVICE int place_in_box(int row, int column) {
    return row * BOX_COLUMNS + (column / 8 ^ row % 8) * 8 + column % 8;
}

/* Waits until stores still have to read at most PENDING boxes of the warp. */
template <int PENDING> TDM_DEVICE void await_boxes(int lane) {
    if (lane == 0)
        tdm_tensor_store_wait(PENDING);
    tdm_warp_barrier();
}
TDM_DEVICE void send_box(const tdm_tensor_map &map, const unsigned char *box, const warp_place &at,
                         int column) {
    tdm_proxy_fence();
    tdm_warp_barrier();
    if (at.lane == 0) {
        tdm_tensor_store(map, at.column + column, at.row, at.z, box);
        tdm_tensor_store_commit();
    }
}

TDM_DEVICE uint narrow_pair(float x0, float x1, int type) {
    return type == TDM_CODE_F16 ? tdm_pair_f16(x0, x1) : tdm_pair_bf16(x0, x1);
}

/* Stores D = A·B, without an epilogue. */
TDM_DEVICE void send_product(const float (&d)[TN / 2], const tdm_tensor_map &map, uint *strip,
                             unsigned char *box, int type, const warp_place &at) {
    TDM_NO_UNROLL for (int chunk = 0; chunk < TN / STRIP_COLUMNS; chunk++) {
        const int first = chunk % 2 * STRIP_COLUMNS;
        uint *const to = chunk / 2 % 2 ? (uint *)box : strip;
        if (first == 0)
            await_boxes<1>(at.lane);
        TDM_UNROLL for (int c = 0; c < TN / STRIP_COLUMNS; c++) if (c == chunk) {
            TDM_UNROLL for (int r = 0; r < 16; r += 2)
                to[place_in_box(at.lane / 4 + r / 2 % 2 * 8, first + r / 4 * 8 + at.lane % 4 * 2) /
                   2] = narrow_pair(d[c * 16 + r], d[c * 16 + r + 1], type);
        }
        if (first != 0)
            send_box(map, (unsigned char *)to, at, (chunk - 1) * STRIP_COLUMNS);
    }
    await_boxes<0>(at.lane);
}

/* Applies the epilogue to the strip and writes the results to the box, from column `first` on. */
TDM_DEVICE void narrow_strip(const uint *strip, unsigned char *box, int first,
                             const tdm_epilogue_io &io, const tdm_gemm_shape_arg &s,
                             const tdm_gemm_epilogue_arg &e, const warp_place &at, long j0) {
    const int column = at.lane % 8 * 4;
    const long j = j0 + column;
    const int count = (int)(s.n - j < 4 ? s.n - j : 4);
    const int whole = count == 4 && tdm_epilogue_is_dense(e);
    const int there = count > 0 ? (int)(s.m - at.row < STRIP_ROWS ? s.m - at.row : STRIP_ROWS) : 0;
    TDM_NO_UNROLL for (int r = at.lane / 8; r < there; r += 4) {
        const float *const x = (const float *)strip + tdm_fragment_place(STRIP_COLUMNS, r, column);
        const long to = place_in_box(r, first + column);
        if (whole)
            tdm_storev_any(tdm_epilogue_values(*(const f32x4 *)x, io, e, at.row + r, j), box,
                           e.d_type, to);
        else
            TDM_NO_UNROLL for (int l = 0; l < count; l++) tdm_store_any(
                tdm_epilogue_value(x[l], io, e, at.row + r, j + l), box, e.d_type, to + l);
    }
}

/* Stores the tile through the epilogue and boxes. */
TDM_DEVICE void send_tile(const float (&d)[TN / 2], const tdm_tensor_map &map, uint *strip,
                          unsigned char *box, const tdm_epilogue_io &io,
                          const tdm_gemm_shape_arg &s, const tdm_gemm_epilogue_arg &e,
                          const warp_place &at) {
    each_strip(d, strip, at.lane, [&](int column) {
        const int first = column % BOX_COLUMNS;
        if (first == 0)
            await_boxes<0>(at.lane);
        narrow_strip(strip, box, first, io, s, e, at, at.column + column);
        if (first != 0)
            send_box(map, box, at, column - first);
    });
    await_boxes<0>(at.lane);
}

/* Stores the tile in the way that the arguments allow. */
TDM_DEVICE void finish_tile(const float (&d)[TN / 2], const tdm_tensor_map &map, uint *strip,
                            unsigned char *box, const tdm_epilogue_io &io,
                            const tdm_gemm_shape_arg &s, const tdm_gemm_epilogue_arg &e,
                            const warp_place &at) {
    if (s.turned & 4) {
        if (e.alpha == 1.0f && e.c_type == TDM_CODE_ABSENT && e.bias_type == TDM_CODE_ABSENT &&
            e.r_type == TDM_CODE_ABSENT && e.activation == TDM_CODE_ACT_NONE)
            send_product(d, map, strip, box, e.d_type, at);
        else
            send_tile(d, map, strip, box, io, s, e, at);
    } else {
        each_strip(d, strip, at.lane, [&](int column) {
            tdm_fragment_rows(strip, STRIP_ROWS, STRIP_COLUMNS, at.lane, io, e, at.row,
                              at.column + column, s.m, s.n);
        });
    }
}

TDM_KERNEL_GROUPS(TDM_ENTRY, ITEMS, 1, 1, 1)
(TDM_TENSOR_MAP(a), TDM_TENSOR_MAP(b), TDM_TENSOR_MAP(d_map), TDM_GLOBAL const void *c,
 long c_offset, TDM_GLOBAL const void *bias, long bias_offset, TDM_GLOBAL const void *residual,
 long r_offset, TDM_GLOBAL void *d, long d_offset, tdm_gemm_shape_arg s, tdm_gemm_epilogue_arg e,
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
        const tdm_epilogue_io io = tdm_epilogue_begin(c, c_offset, bias, bias_offset, residual,
                                                      r_offset, d, d_offset, e, tdm_group_z());
        uint *const strip = m.strips + warp * STRIP_WORDS;
        const int rows_at = warp / 4 * PIECE;
        slot_turn turn = {0, 0};
        TDM_NO_UNROLL for (int tile = first_tile(); tile < tiles_of(s); tile += tiles_apart()) {
            const tile_place at = place_of(tile, s);
            float sums[TN / 2];
            const int orders = s.turned & 3;
            /* Multiply-accumulate over K. */
            if (orders == 0)
                multiply_tile<0, 0>(sums, m, turn, rows_at, s.k, lane);
            else if (orders == 1)
                multiply_tile<1, 0>(sums, m, turn, rows_at, s.k, lane);
            else if (orders == 2)
                multiply_tile<0, 1>(sums, m, turn, rows_at, s.k, lane);
            else
                multiply_tile<1, 1>(sums, m, turn, rows_at, s.k, lane);
            const warp_place own = {at.row + warp * STRIP_ROWS, at.column, (int)tdm_group_z(),
                                    lane};
            /* Store. */
            finish_tile(sums, d_map, strip, m.boxes + warp * BOX_BYTES, io, s, e, own);
        }
    }
    end_slots();
}
