/* Tiles of D computed by warpgroups; shared by gemm_wgmma.cu and gemm_int_wgmma.cu. This file
 * defines how operands arrive and which warpgroup multiplies them when.
 *
 *                    TN              Warpgroup 0 starts bulk copies of tiles of A and B (TK steps
 *              ┌───────────┐         of K) to one of STAGES slots. Warpgroups 1 and 2 multiply 64
 *              │  b_tile   │ TK      rows of the tile each. `full` of a slot ends a phase when all
 *              └───────────┘         bytes have arrived, `empty` when all eight warps have read
 *       ┌────┐ ┌───────────┐         them.
 *   128 │ a  │ │ group 1   │ 64
 *       │    │ │ group 2   │ 64      TK steps of K are rows of 128 bytes: 64 steps of 16-bit
 *       └────┘ └───────────┘         elements, or 128 of 8-bit ones. A slot holds A (16 KiB), then
 *         TK                         B (TN / 8 KiB), swizzled:
 *
 *   contiguous along K:      128 (A) or TN (B) rows of TK steps
 *   contiguous along M, N:   a row per step with 64 lines; the next 64 lines follow these rows
 *
 * A line is a row of A or a column of B. Bits 0 (A) and 1 (B) of s.turned select the order; the
 * tensor maps have boxes of the same order.
 *
 * Elements outside the matrices arrive as zeros. The tiles that are computed at the same time cover
 * squares of D, so that they share operands in the last-level cache. Sums leave through a staging
 * area in local memory (`strip`), 16×32 of a warp at a time, as gemm_fragment_epilogue.h describes.
 * Neighbouring work-items therefore store neighbouring elements of D's rows, whatever the types
 * are.
 *
 *   B of both, TN             CLUSTER 2: two work-groups, neighbours along x, take tiles one below
 *   ┌────────┬────────┐       the other. Each copies its own A and its half of B; one bulk copy
 *   │ rank 0 │ rank 1 │       brings that half to the slots of both. B is read once for two tiles.
 *   └────────┴────────┘       A slot is empty when the warps of both work-groups have read it, so
 *   ┌─────────────────┐       each warp signals both. `full` waits for the bytes from both. A
 *   │   D of rank 0   │ 128   work-group whose tile is past M takes part with zeros for A, and
 *   ├─────────────────┤       stores nothing. No work-group begins before the mbarriers of both
 *   │   D of rank 1   │ 128   exist, and none exits before the other has signalled all slots.
 *   └─────────────────┘
 *
 * Local memory, in this order: the slots, aligned to 1024 bytes │ the staging areas │ as many
 * boxes, if BOXES is defined │ `full` and `empty` of each slot │ what the including source adds.
 *
 * The grid is (work-groups, 1, batch). A source includes this after defining
 *   TN              columns of a work-group's tile, e.g. 256 (its rows, TM, are 128)
 *   STAGES          slots for tiles of A and B, e.g. 4
 *   CLUSTER         work-groups that share B: 1 or 2
 *   ELEMENT_BYTES   bytes of an element of A and B: 2 or 1
 *   BOXES           defined if D may be stored through a tensor map */
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
/* Number of consecutive row tiles (of clusters) before the next column of tiles starts. */
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

/* Initialises the mbarriers. All work-items call it, before anything else. */
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

/* Waits for the other work-group of the cluster. All work-items call it, last. */
TDM_DEVICE void end_slots() {
    if (CLUSTER > 1)
        tdm_cluster_barrier();
}

TDM_DEVICE int rank_in_cluster() {
    return (int)tdm_group_x() % CLUSTER;
}

/* The position in the ring of slots: the next slot, and the parity of its phase. */
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
    int row, column; /* position of its first element */
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

/* Tiles are numbered over clusters. A work-group computes each tiles_apart()th tile from
 * first_tile() on. */
TDM_DEVICE int tiles_of(const tdm_gemm_shape_arg &s) {
    return (int)(s.row_tiles * s.column_tiles);
}
TDM_DEVICE int first_tile() {
    return (int)tdm_group_x() / CLUSTER;
}
TDM_DEVICE int tiles_apart() {
    return (int)tdm_groups_x() / CLUSTER;
}

/* ---- the warpgroup that loads ---- */

template <int GROUPS>
TDM_DEVICE void load_box(unsigned char *to, const tdm_tensor_map &map, int x, int y, int z,
                         tdm_mbarrier *full) {
    if (GROUPS > 1)
        tdm_tensor_load_shared(to, map, x, y, z, full, (1u << GROUPS) - 1);
    else
        tdm_tensor_load(to, map, x, y, z, full);
}

/* Loads `lines` lines from `line` on, TK steps from `step` on, into the slots of GROUPS
 * work-groups. */
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

/* Load: one work-item starts the copies of all tiles. */
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

/* Signals that the warp has read a slot: one lane signals each work-group of the cluster. */
TDM_DEVICE void give_back(tdm_mbarrier *empty, int lane) {
    if (CLUSTER > 1 && lane < CLUSTER)
        tdm_mbarrier_arrive_at(empty, lane);
    else if (CLUSTER == 1 && lane == 0)
        tdm_mbarrier_arrive(empty);
}

/* Multiply-accumulate: traverses all of K for 64 rows. multiply(a, b, adds) is called with the
 * descriptors of each slot, and meanwhile(slot) while its multiplication runs. A slot is released
 * when the multiplication of the next one has started and its own has ended. */
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

/* Store: passes the warp's 16 rows through its staging area. finish(column) is called when columns
 * `column` … `column` + 31 are there. */
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
