/* GEMM of f16 or bf16 on Hopper's tensor cores: a group computes 128×TN tiles of D one after the other, f32 in registers.
 *
 *                     TN                 Warpgroup 0 asks for tiles of A and B (TK = 64 steps of K), which bulk copies bring to one
 *               ┌───────────┐ 64         of STAGES slots; warpgroups 1 and 2 multiply 64 rows of the tile each. `full` of a slot
 *               │  b_tile   │            ends a phase when the bytes are there, `empty` when all eight warps have read them.
 *          TK   └───────────┘
 *        ┌────┐ ┌───────────┐ 64         A slot:  A 128×64, 16 KiB │ B 64×TN, TN / 8 KiB; in rows of 128 bytes, swizzled:
 *    128 │ a  │ │ group 1   │              contiguous along K:     128 (TN) rows of 64 steps
 *        │    │ │ group 2   │              along M (N):            64 rows, of the steps, of 64 lines; the next 64 lines behind them
 *        └────┘ └───────────┘
 *                                        Which of them is bits 0 (A) and 1 (B) of s.turned, and the tensor maps' boxes are so too.
 *
 * What lies outside of the matrices arrives as zeros. Tiles that groups work on at a time cover squares of D, so that they share
 * what they read in the last cache. The epilogue goes through a strip of shared memory, 16×32 sums of a warp at a time, so that
 * neighbouring items have neighbouring elements of D's rows, whatever the types are.
 *
 * Local memory: the slots, from a multiple of 1024 on, the strips, full and empty. Grid (groups, 1, batch). */
#define TDM_EPILOGUE_VECTOR 4
#include "dialect.h"
#include "dialect_hopper.h"
#include "gemm_args.h"
#include "gemm_epilogue.h"

#define TM 128
#define TK 64
#define PIECE 8192 /* bytes of 64 rows of 128 */
#define A_BYTES (TM * TK * 2)
#define B_BYTES (TN * TK * 2)
#define SLOT_BYTES (A_BYTES + B_BYTES)
#define WARPS 8 /* that multiply */
#define STRIP 36 /* floats from row to row of a strip: four more than its columns keep what lanes write out of one bank */
#define STRIP_FLOATS (16 * STRIP)
#define ITEMS 384
/* Row tiles whose groups follow each other before the next column of tiles. */
#define SQUARE 16
#define MULTIPLY TDM_CAT2(tdm_multiply_, AT)

typedef struct {
    unsigned char *slots;
    float *strips;
    tdm_mbarrier *full, *empty;
} tile_memory;

TDM_DEVICE tile_memory memory_of(unsigned char *local) {
    tile_memory m;
    m.slots = local + (1024 - tdm_shared_address(local) % 1024) % 1024;
    m.strips = (float *)(m.slots + STAGES * SLOT_BYTES);
    m.full = (tdm_mbarrier *)(m.strips + WARPS * STRIP_FLOATS);
    m.empty = m.full + STAGES;
    return m;
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

TDM_DEVICE tile_place place_of(int tile, tdm_gemm_shape_arg s) {
    const int row_tiles = (int)s.row_tiles, square = SQUARE * (int)s.column_tiles;
    const int first_row = tile / square * SQUARE;
    const int high = tdm_int_min(row_tiles - first_row, SQUARE);
    tile_place place;
    place.row = (first_row + tile % square % high) * TM;
    place.column = tile % square / high * TN;
    return place;
}

/* `lines` lines from `line` on, 64 steps from `step` on. */
TDM_DEVICE void load_operand(unsigned char *to, const tdm_tensor_map &map, int turned, int lines,
                             int line, int step, int z, tdm_mbarrier *full) {
    if (turned) {
        for (int piece = 0; piece < lines / 64; piece++)
            tdm_tensor_load(to + piece * PIECE, map, line + 64 * piece, step, z, full);
    } else {
        tdm_tensor_load(to, map, step, line, z, full);
    }
}

TDM_DEVICE void bring_tiles(tile_memory m, const tdm_tensor_map &a, const tdm_tensor_map &b,
                            tdm_gemm_shape_arg s) {
    const int tiles = (int)(s.row_tiles * s.column_tiles), z = (int)tdm_group_z();
    const int a_z = s.a_batch != 0 ? z : 0, b_z = s.b_batch != 0 ? z : 0;
    slot_turn turn = {0, 1};
    TDM_NO_UNROLL for (int tile = (int)tdm_group_x(); tile < tiles; tile += (int)tdm_groups_x()) {
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

/* All of K for 64 rows. A slot is given back when the products of the next one are under way. */
template <int TA, int TB>
TDM_DEVICE void multiply_tile(float (&d)[TN / 2], tile_memory m, slot_turn &turn, int rows_at, long k,
                              int lane) {
    tdm_mbarrier *read = m.empty;
    TDM_NO_UNROLL for (long step = 0; step < k; step += TK) {
        const unsigned char *const slot = m.slots + turn.slot * SLOT_BYTES;
        const ulong a = tdm_multiply_descriptor(slot + rows_at, PIECE, 1024);
        const ulong b = tdm_multiply_descriptor(slot + A_BYTES, PIECE, 1024);
        tdm_mbarrier_wait(m.full + turn.slot, turn.parity);
        tdm_multiply_fence();
        TDM_UNROLL for (int p = 0; p < TK / 16; p++)
            MULTIPLY<TA, TB>(d, a + (TA ? 128 : 2) * p, b + (TB ? 128 : 2) * p, step > 0 || p > 0);
        tdm_multiply_commit();
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

/* The warp's 16 rows from row i0 on, 32 columns at a time. */
TDM_DEVICE void finish_tile(const float (&d)[TN / 2], float *strip, const tdm_epilogue_io &io,
                            const tdm_gemm_shape_arg &s, const tdm_gemm_epilogue_arg &e, long i0,
                            long j0, int lane) {
    const int dense = tdm_epilogue_is_dense(e);
    float *const own = strip + lane / 4 * STRIP + lane % 4 * 2;
    TDM_NO_UNROLL for (int chunk = 0; chunk < TN / 32; chunk++) {
        TDM_UNROLL for (int c = 0; c < TN / 32; c++) if (c == chunk) {
            TDM_UNROLL for (int r = 0; r < 16; r++)
                own[r / 4 * 8 + r % 2 + r / 2 % 2 * (8 * STRIP)] = d[c * 16 + r];
        }
        tdm_warp_barrier();
        TDM_NO_UNROLL for (int piece = lane; piece < 128; piece += 32) {
            const long i = i0 + piece / 8, j = j0 + chunk * 32 + piece % 8 * 4;
            const int count = i < s.m ? (int)(s.n - j < 4 ? s.n - j : 4) : 0;
            const float *const from = strip + piece / 8 * STRIP + piece % 8 * 4;
            if (dense && count == 4)
                tdm_epilogue_piece(*(const f32x4 *)from, io, e, i, j);
            else
                TDM_NO_UNROLL for (int x = 0; x < count; x++)
                    tdm_epilogue_element(from[x], io, e, i, j + x);
        }
        tdm_warp_barrier();
    }
}

TDM_KERNEL_GROUPS(TDM_ENTRY, ITEMS, 1, 1, 1)
(TDM_TENSOR_MAP(a), TDM_TENSOR_MAP(b), TDM_GLOBAL const void *c, long c_offset,
 TDM_GLOBAL const void *bias, long bias_offset, TDM_GLOBAL const void *residual, long r_offset,
 TDM_GLOBAL void *d, long d_offset, tdm_gemm_shape_arg s, tdm_gemm_epilogue_arg e,
 TDM_LOCAL_ARGUMENT(unsigned char, local)) {
    const int item = tdm_item_x(), lane = item % 32, warp = item / 32 - 4;
    const tile_memory m = memory_of(local);
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
    if (warp < 0) {
        tdm_registers_fewer(24);
        if (item == 0)
            bring_tiles(m, a, b, s);
    } else {
        tdm_registers_more(240);
        const tdm_epilogue_io io = tdm_epilogue_begin(c, c_offset, bias, bias_offset, residual,
                                                      r_offset, d, d_offset, e, tdm_group_z());
        const int tiles = (int)(s.row_tiles * s.column_tiles), rows_at = warp / 4 * PIECE;
        slot_turn turn = {0, 0};
        TDM_NO_UNROLL for (int tile = (int)tdm_group_x(); tile < tiles;
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
            finish_tile(sums, m.strips + warp * STRIP_FLOATS, io, s, e, at.row + warp * 16,
                        at.column, lane);
        }
    }
}
