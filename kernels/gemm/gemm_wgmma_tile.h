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
 *   B of both, TN                       CLUSTER 2: two groups, neighbours along x, take tiles one below the other. Each asks for its
 *   ┌────────┬────────┐                 own A, and for its half of B, which one bulk copy brings to the slots of both: B is read once
 *   │ rank 0 │ rank 1 │ asks            for two tiles. So a slot is empty when the warps of both groups have read it, and each tells both;
 *   └────────┴────────┘                 `full` awaits the bytes of both. A group whose tile lies past M does the same with zeros for
 *   ┌─────────────────┐                 A, and stores nothing. None begins before the mbarriers of both are there, and none leaves
 *   │   D of rank 0   │ 128             before the other has told it of all slots.
 *   ├─────────────────┤
 *   │   D of rank 1   │ 128
 *   └─────────────────┘
 *
 * Local memory: the slots, from a multiple of 1024 on │ the strips │ as many boxes, where there are │ `full` and `empty` of each slot │ what the text adds.
 * A text includes this after defining TN, STAGES, CLUSTER (1 or 2) and ELEMENT_BYTES (2 or 1), and BOXES where it stores boxes.
 * Grid (groups, 1, batch). */
#ifndef TDM_GEMM_WGMMA_TILE_H
#define TDM_GEMM_WGMMA_TILE_H

#include "kernels/dialect/dialect_hopper.h"
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
/* Row tiles, of clusters, that follow each other before the next column of tiles. */
#define SQUARE (16 / CLUSTER)

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
            tdm_mbarrier_init(m.empty + slot, WARPS * CLUSTER);
        }
        tdm_mbarrier_init_fence();
        tdm_tensor_prefetch(a);
        tdm_tensor_prefetch(b);
    }
    if (CLUSTER > 1)
        tdm_cluster_barrier();
    else
        tdm_barrier();
}

/* By all items of a group, last of all. */
TDM_DEVICE void end_slots() {
    if (CLUSTER > 1)
        tdm_cluster_barrier();
}

TDM_DEVICE int rank_in_cluster() {
    return (int)tdm_group_x() % CLUSTER;
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
    place.row = ((first_row + tile % square % high) * CLUSTER + rank_in_cluster()) * TM;
    place.column = tile % square / high * TN;
    return place;
}

/* Tiles of clusters, of which a group takes each tiles_apart()th from first_tile() on. */
TDM_DEVICE int tiles_of(const tdm_gemm_shape_arg &s) {
    return (int)(s.row_tiles * s.column_tiles);
}
TDM_DEVICE int first_tile() {
    return (int)tdm_group_x() / CLUSTER;
}
TDM_DEVICE int tiles_apart() {
    return (int)tdm_groups_x() / CLUSTER;
}

/* ---- the warpgroup that asks ---- */

template <int GROUPS>
TDM_DEVICE void load_box(unsigned char *to, const tdm_tensor_map &map, int x, int y, int z,
                         tdm_mbarrier *full) {
    if (GROUPS > 1)
        tdm_tensor_load_shared(to, map, x, y, z, full, (1u << GROUPS) - 1);
    else
        tdm_tensor_load(to, map, x, y, z, full);
}

/* `lines` lines from `line` on, TK steps from `step` on, for GROUPS groups. */
template <int GROUPS>
TDM_DEVICE void load_operand(unsigned char *to, const tdm_tensor_map &map, int turned, int lines,
                             int line, int step, int z, tdm_mbarrier *full) {
    if (ELEMENT_BYTES == 2 && turned) {
        for (int piece = 0; piece < lines / 64; piece++)
            load_box<GROUPS>(to + piece * PIECE, map, line + 64 * piece, step, z, full);
    } else {
        load_box<GROUPS>(to, map, step, line, z, full);
    }
}

/* By one item, for all tiles. */
TDM_DEVICE void bring_tiles(const tile_memory &m, const tdm_tensor_map &a, const tdm_tensor_map &b,
                            const tdm_gemm_shape_arg &s) {
    const int z = (int)tdm_group_z(), a_z = s.a_batch != 0 ? z : 0, b_z = s.b_batch != 0 ? z : 0;
    slot_turn turn = {0, 1};
    const int part = TN / CLUSTER, first = rank_in_cluster() * part;
    TDM_NO_UNROLL for (int tile = first_tile(); tile < tiles_of(s); tile += tiles_apart()) {
        const tile_place at = place_of(tile, s);
        TDM_NO_UNROLL for (int step = 0; step < s.k; step += TK) {
            unsigned char *const slot = m.slots + turn.slot * SLOT_BYTES;
            tdm_mbarrier *const full = m.full + turn.slot;
            tdm_mbarrier_wait(m.empty + turn.slot, turn.parity);
            tdm_mbarrier_expect(full, SLOT_BYTES);
            load_operand<1>(slot, a, s.turned & 1, TM, at.row, step, a_z, full);
            load_operand<CLUSTER>(slot + A_BYTES + first * ROW_BYTES, b, s.turned & 2, part,
                                  at.column + first, step, b_z, full);
            advance(turn);
        }
    }
}

/* ---- the warpgroups that multiply ---- */

/* By a warp that has read the slot: one of its lanes tells each group of the cluster. */
TDM_DEVICE void give_back(tdm_mbarrier *empty, int lane) {
    if (CLUSTER > 1 && lane < CLUSTER)
        tdm_mbarrier_arrive_at(empty, lane);
    else if (CLUSTER == 1 && lane == 0)
        tdm_mbarrier_arrive(empty);
}

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
        if (step > 0)
            give_back(read, lane);
        read = m.empty + turn.slot;
        advance(turn);
    }
    tdm_multiply_wait(0);
    give_back(read, lane);
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
