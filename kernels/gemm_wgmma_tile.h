/* Tiles of D by warpgroups, shared text of gemm_wgmma.cu and gemm_int_wgmma.cu: how operands come, who multiplies them when.
 *
 *                     TN                 Warpgroup 0 asks for tiles of A and B (TK steps of K), which bulk copies bring to one
 *               ┌───────────┐            of STAGES slots; warpgroups 1 and 2 multiply 64 rows of the tile each. `full` of a slot
 *               │  b_tile   │ TK         ends a phase when the bytes are there, `empty` when all eight warps have read them.
 *               └───────────┘
 *        ┌────┐ ┌───────────┐ 64         TK steps of K fill rows of 128 bytes: 64 of 16-bit elements, 128 of 8-bit ones.
 *    128 │ a  │ │ group 1   │ 64         A slot:  A, 16 KiB │ B, TN / 8 KiB; in those rows, swizzled:
 *        │    │ │ group 2   │            contiguous along K:     128 (TN) rows of TK steps
 *        └────┘ └───────────┘            along M (N):            64 rows, of the steps, of 64 lines; the next 64 lines behind them
 *          TK
 *                                        Which of them is bits 0 (A) and 1 (B) of s.turned, and the tensor maps' boxes are so too.
 *
 * What lies outside of the matrices arrives as zeros. Tiles that groups work on at a time cover squares of D, so that they share
 * what they read in the last cache. Sums leave through a strip of local memory, 16×32 of a warp at a time, as
 * gemm_fragment_epilogue.h says: neighbouring items have neighbouring elements of D's rows, whatever the types are.
 *
 * Local memory: the slots, from a multiple of 1024 on │ the strips │ as many boxes, where there are │ `full` and `empty` of each slot │ what the text adds.
 * A text includes this after defining TN, STAGES and ELEMENT_BYTES (2 or 1), and BOXES where it stores boxes. Grid (groups, 1, batch). */
#ifndef TDM_GEMM_WGMMA_TILE_H
#define TDM_GEMM_WGMMA_TILE_H

#include "dialect_hopper.h"
#include "gemm_args.h"
#include "gemm_fragment_epilogue.h"

#define TM 128
#define ROW_BYTES 128
#define TK (ROW_BYTES / ELEMENT_BYTES)
#define PIECE (64 * ROW_BYTES) /* bytes of 64 rows */
#define A_BYTES (TM * ROW_BYTES)
#define B_BYTES (TN * ROW_BYTES)
#define SLOT_BYTES (A_BYTES + B_BYTES)
#define WARPS 8 /* that multiply */
#define STRIP_ROWS 16
#define STRIP_COLUMNS 32
#define STRIP_WORDS (STRIP_ROWS * STRIP_COLUMNS)
#define BOX_BYTES (STRIP_ROWS * ROW_BYTES)
#define ITEMS 384
/* Row tiles whose groups follow each other before the next column of tiles. */
#define SQUARE 16

typedef struct {
    unsigned char *slots;
    uint *strips;
    unsigned char *boxes;
    tdm_mbarrier *full, *empty;
    void *rest;
} tile_memory;

TDM_DEVICE tile_memory memory_of(unsigned char *local) {
    tile_memory m;
    m.slots = local + (1024 - tdm_shared_address(local) % 1024) % 1024;
    m.strips = (uint *)(m.slots + STAGES * SLOT_BYTES);
    m.boxes = (unsigned char *)(m.strips + WARPS * STRIP_WORDS);
#ifdef BOXES
    m.full = (tdm_mbarrier *)(m.boxes + WARPS * BOX_BYTES);
#else
    m.full = (tdm_mbarrier *)m.boxes;
#endif
    m.empty = m.full + STAGES;
    m.rest = m.empty + STAGES;
    return m;
}

/* By all items of a group, first of all. */
TDM_DEVICE void begin_slots(const tile_memory &m, const tdm_tensor_map &a, const tdm_tensor_map &b,
                            int item) {
    if (item == 0) {
        for (int slot = 0; slot < STAGES; slot++) {
            tdm_mbarrier_init(m.full + slot, 1);
            tdm_mbarrier_init(m.empty + slot, WARPS);
        }
        tdm_mbarrier_init_fence();
        tdm_tensor_prefetch(a);
        tdm_tensor_prefetch(b);
    }
    tdm_barrier();
}

/* The slot that is next, and the parity of its phase. */
typedef struct {
    int slot;
    uint parity;
} slot_turn;

TDM_DEVICE void advance(slot_turn &turn) {
    if (++turn.slot == STAGES) {
        turn.slot = 0;
        turn.parity ^= 1u;
    }
}

typedef struct {
    int row, column; /* of its first element */
} tile_place;

TDM_DEVICE tile_place place_of(int tile, const tdm_gemm_shape_arg &s) {
    const int row_tiles = (int)s.row_tiles, square = SQUARE * (int)s.column_tiles;
    const int first_row = tile / square * SQUARE;
    const int high = tdm_int_min(row_tiles - first_row, SQUARE);
    tile_place place;
    place.row = (first_row + tile % square % high) * TM;
    place.column = tile % square / high * TN;
    return place;
}

TDM_DEVICE int tiles_of(const tdm_gemm_shape_arg &s) {
    return (int)(s.row_tiles * s.column_tiles);
}

/* ---- the warpgroup that asks ---- */

/* `lines` lines from `line` on, TK steps from `step` on. */
TDM_DEVICE void load_operand(unsigned char *to, const tdm_tensor_map &map, int turned, int lines,
                             int line, int step, int z, tdm_mbarrier *full) {
    if (ELEMENT_BYTES == 2 && turned) {
        for (int piece = 0; piece < lines / 64; piece++)
            tdm_tensor_load(to + piece * PIECE, map, line + 64 * piece, step, z, full);
    } else {
        tdm_tensor_load(to, map, step, line, z, full);
    }
}

/* By one item, for all tiles. */
TDM_DEVICE void bring_tiles(const tile_memory &m, const tdm_tensor_map &a, const tdm_tensor_map &b,
                            const tdm_gemm_shape_arg &s) {
    const int z = (int)tdm_group_z(), a_z = s.a_batch != 0 ? z : 0, b_z = s.b_batch != 0 ? z : 0;
    slot_turn turn = {0, 1};
    TDM_NO_UNROLL for (int tile = (int)tdm_group_x(); tile < tiles_of(s);
                       tile += (int)tdm_groups_x()) {
        const tile_place at = place_of(tile, s);
        TDM_NO_UNROLL for (int step = 0; step < s.k; step += TK) {
            unsigned char *const slot = m.slots + turn.slot * SLOT_BYTES;
            tdm_mbarrier *const full = m.full + turn.slot;
            tdm_mbarrier_wait(m.empty + turn.slot, turn.parity);
            tdm_mbarrier_expect(full, SLOT_BYTES);
            load_operand(slot, a, s.turned & 1, TM, at.row, step, a_z, full);
            load_operand(slot + A_BYTES, b, s.turned & 2, TN, at.column, step, b_z, full);
            advance(turn);
        }
    }
}

/* ---- the warpgroups that multiply ---- */

/* All of K for 64 rows: multiply(a, b, adds) is called with the descriptors of each slot, meanwhile(slot) while its products are
 * under way. A slot is given back when the products of the next one are. */
template <class Multiply, class Meanwhile>
TDM_DEVICE void multiply_slots(const tile_memory &m, slot_turn &turn, int rows_at, long k, int lane,
                               Multiply multiply, Meanwhile meanwhile) {
    tdm_mbarrier *read = m.empty;
    TDM_NO_UNROLL for (long step = 0; step < k; step += TK) {
        const unsigned char *const slot = m.slots + turn.slot * SLOT_BYTES;
        const ulong a = tdm_multiply_descriptor(slot + rows_at, PIECE, 1024);
        const ulong b = tdm_multiply_descriptor(slot + A_BYTES, PIECE, 1024);
        tdm_mbarrier_wait(m.full + turn.slot, turn.parity);
        tdm_multiply_fence();
        multiply(a, b, step > 0);
        tdm_multiply_commit();
        meanwhile(slot);
        tdm_multiply_wait(1);
        if (step > 0 && lane == 0)
            tdm_mbarrier_arrive(read);
        read = m.empty + turn.slot;
        advance(turn);
    }
    tdm_multiply_wait(0);
    if (lane == 0)
        tdm_mbarrier_arrive(read);
}

/* The warp's 16 rows by way of its strip: finish(column) is called when columns `column` … + 31 of them are there. */
template <class T, class Finish>
TDM_DEVICE void each_strip(const T (&d)[TN / 2], uint *strip, int lane, Finish finish) {
    TDM_NO_UNROLL for (int chunk = 0; chunk < TN / STRIP_COLUMNS; chunk++) {
        TDM_UNROLL for (int c = 0; c < TN / STRIP_COLUMNS; c++) if (c == chunk) {
            TDM_UNROLL for (int r = 0; r < 16; r += 2)
                tdm_fragment_keep(strip, STRIP_COLUMNS, lane / 4 + r / 2 % 2 * 8,
                                  r / 4 * 8 + lane % 4 * 2, d[c * 16 + r], d[c * 16 + r + 1]);
        }
        tdm_warp_barrier();
        finish(chunk * STRIP_COLUMNS);
        tdm_warp_barrier();
    }
}

#endif
