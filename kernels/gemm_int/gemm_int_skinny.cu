/* GEMM of few rows of s8 or u8 (TM at a time) by s8 that lies along K, for CUDA devices: limited by how fast B is read, once, as it lies.
 * A group computes TN columns, all of its items have a part of K of each:
 *
 *     steps    0 … 15   16 … 31         2032 … 2047   2048 … 2063
 *            ┌────────┬────────┬─────┬─────────────┬─────────────┬───
 *   TM rows  │ item 0 │ item 1 │  …  │  item 127   │   item 0    │ …      of A, from the caches: it is small
 *            ├────────┼────────┼─────┼─────────────┼─────────────┼───
 *   TN lines │ item 0 │ item 1 │  …  │  item 127   │   item 0    │ …      of B: a piece is one load of 16 bytes
 *            └────────┴────────┴─────┴─────────────┴─────────────┴───
 *
 * An item multiplies its piece of every row by its piece of every column, four steps by one dot product. That takes A signed: bytes of
 * u8 are read with their top bit turned round, A − 128, which the sums of B's columns undo (gemm_int_epilogue.h). What is not whole
 * pieces at multiples of 16 bytes, and the end of K, is read step by step: right for any strides, fast where neighbours lie along K.
 *
 * Lanes of a warp join their sums by halves, so that each has a few of all: with 32 sums, sum l is lane l's. Warps join theirs in
 *
 *     local memory:  warp 0: TM·TN sums, TN of columns, TM of rows │ warp 1 …
 *
 * and one item for each row takes its TN elements to D. Sums are modulo 2^32, whatever their order is.
 *
 * The floor is bytes of B / bandwidth. What speaks for coming near it (model: not measured on hardware): of TN lines an item has
 * 16·TN bytes on the way, the four groups of a multiprocessor 32 KiB, where H100 needs 18 and H200 25 (700 ns); a byte of B costs
 * TM / 4 dot products, of which a multiprocessor makes 64 a cycle: with TM 8 it takes up to 32 bytes, and gets 15 to 21.
 * Grid (row tiles · column tiles, 1, batch). */
#define TDM_EPILOGUE_VECTOR 4
#define TDM_INT_COLUMNS TN
#define TDM_BUILT_IN_DIVIDE
#include "kernels/dialect/dialect.h"
#include "gemm_int_args.h"
#include "gemm_int_epilogue.h"

#define ITEMS 128
#define LANES 32
#define WARPS (ITEMS / LANES)
#define GROUPS 4
#define PIECE 16
#define ONES 0x01010101
#define TURN 0x80808080u
/* A warp's sums, and where those of lines are. */
#define COLUMNS_AT (TM * TN)
#define ROWS_AT (COLUMNS_AT + TN)
#define SUMS (ROWS_AT + TM)

typedef tdm_cxx_words_4 piece;

/* An operand from the first of the group's lines on. */
struct line_source {
    const tdm_u8 *from;
    long line, depth; /* strides */
    int last;         /* the last line there is: others repeat it, and are not stored */
};

TDM_DEVICE line_source source_of(const void *from, long at, long line, long depth, int lines) {
    line_source s;
    s.from = (const tdm_u8 *)from + at;
    s.line = line;
    s.depth = depth;
    s.last = lines - 1;
    return s;
}

/* Whether its pieces are read by one load each, at places counted in 32 bits. */
TDM_DEVICE bool is_whole(const line_source &s, long k) {
    return s.depth == 1 && tdm_address(s.from) % PIECE == 0 &&
           (s.last == 0 || (s.line % PIECE == 0 && s.line >= 0 && s.line * TM + k < 0x7fffffffL));
}

TDM_DEVICE piece piece_of(const line_source &s, int line, uint p) {
    return tdm_cxx_load_word<piece>(s.from + ((uint)tdm_int_min(line, s.last) * (uint)s.line + p));
}
TDM_DEVICE tdm_u8 byte_of(const line_source &s, int line, long p) {
    return s.from[tdm_int_min(line, s.last) * s.line + p * s.depth];
}

TDM_DEVICE int piece_dot(const piece &x, const piece &y, int sum) {
    sum = tdm_dot4(1, (int)x.w0, (int)y.w0, sum);
    sum = tdm_dot4(1, (int)x.w1, (int)y.w1, sum);
    sum = tdm_dot4(1, (int)x.w2, (int)y.w2, sum);
    return tdm_dot4(1, (int)x.w3, (int)y.w3, sum);
}
TDM_DEVICE piece turned_by(const piece &x, uint turn) {
    return {x.w0 ^ turn, x.w1 ^ turn, x.w2 ^ turn, x.w3 ^ turn};
}

struct skinny_walk {
    line_source a, b;
    long k;
    uint turn; /* what bytes of A are combined with */
    bool wants_columns, wants_rows;
};

/* What an item has of some rows. */
template <int ROWS> struct skinny_sums { int products[ROWS * TN], columns[TN]; };

/* Steps p … p + 15, by pieces. */
template <int ROWS>
TDM_DEVICE void add_piece(const skinny_walk &walk, uint p, skinny_sums<ROWS> &sums) {
    const piece ones = {ONES, ONES, ONES, ONES};
    piece y[TN];
    TDM_UNROLL for (int n = 0; n < TN; n++) y[n] = piece_of(walk.b, n, p);
    if (walk.wants_columns)
        TDM_UNROLL for (int n = 0; n < TN; n++) sums.columns[n] =
            piece_dot(y[n], ones, sums.columns[n]);
    TDM_UNROLL for (int m = 0; m < ROWS; m++) {
        const piece x = turned_by(piece_of(walk.a, m, p), walk.turn);
        TDM_UNROLL for (int n = 0; n < TN; n++) sums.products[m * TN + n] =
            piece_dot(x, y[n], sums.products[m * TN + n]);
    }
}

/* Steps p … end - 1, one by one. */
template <int ROWS>
TDM_DEVICE void add_steps(const skinny_walk &walk, long p, long end, skinny_sums<ROWS> &sums) {
    TDM_NO_UNROLL for (; p < end; p++) {
        int y[TN];
        TDM_UNROLL for (int n = 0; n < TN; n++) {
            y[n] = (tdm_s8)byte_of(walk.b, n, p);
            sums.columns[n] = tdm_cxx_add(sums.columns[n], y[n]);
        }
        TDM_UNROLL for (int m = 0; m < ROWS; m++) {
            const int x = (tdm_s8)(byte_of(walk.a, m, p) ^ walk.turn);
            TDM_UNROLL for (int n = 0; n < TN; n++) sums.products[m * TN + n] =
                tdm_cxx_add(sums.products[m * TN + n], x * y[n]);
        }
    }
}

/* The item's part of the sums of ROWS rows of A, which is read for it once more: few ask for them. */
template <int ROWS, bool WHOLE>
TDM_DEVICE void add_rows(const skinny_walk &walk, int (&sums)[ROWS]) {
    const piece ones = {ONES, ONES, ONES, ONES};
    TDM_NO_UNROLL for (long p = tdm_item_x() * PIECE; p < walk.k; p += ITEMS * PIECE) {
        TDM_UNROLL for (int m = 0; m < ROWS; m++) {
            if (WHOLE && p + PIECE <= walk.k)
                sums[m] =
                    piece_dot(turned_by(piece_of(walk.a, m, (uint)p), walk.turn), ones, sums[m]);
            else
                TDM_NO_UNROLL for (long u = p; u < p + PIECE && u < walk.k; u++) sums[m] =
                    tdm_cxx_add(sums[m], (tdm_s8)(byte_of(walk.a, m, u) ^ walk.turn));
        }
    }
}

/* Joins COUNT sums of all lanes that differ in bits up to LANE: the lane's own one is returned, number lane / (LANES / COUNT). */
template <int COUNT, int LANE> TDM_DEVICE int joined(const int (&sums)[COUNT], int lane) {
    if constexpr (COUNT > 1) {
        const bool upper = (lane & LANE) != 0;
        int half[COUNT / 2];
        TDM_UNROLL for (int i = 0; i < COUNT / 2; i++) {
            const int kept = upper ? sums[i + COUNT / 2] : sums[i];
            const int given = upper ? sums[i] : sums[i + COUNT / 2];
            half[i] = tdm_cxx_add(kept, tdm_warp_shuffle_xor(given, LANE));
        }
        return joined<COUNT / 2, LANE / 2>(half, lane);
    } else if constexpr (LANE > 0) {
        const int both[1] = {tdm_cxx_add(sums[0], tdm_warp_shuffle_xor(sums[0], LANE))};
        return joined<1, LANE / 2>(both, lane);
    } else {
        return sums[0];
    }
}
template <int COUNT> TDM_DEVICE void keep_joined(const int (&sums)[COUNT], int *to, int lane) {
    const int own = joined<COUNT, LANES / 2>(sums, lane);
    if (lane % (LANES / COUNT) == 0)
        to[lane / (LANES / COUNT)] = own;
}

/* The warp's sums over all of K, for ROWS rows of A, at `to`. */
template <int ROWS, bool WHOLE> TDM_DEVICE void multiply(const skinny_walk &walk, int *to) {
    const int lane = tdm_warp_lane();
    skinny_sums<ROWS> sums;
    TDM_UNROLL for (int x = 0; x < ROWS * TN; x++) sums.products[x] = 0;
    TDM_UNROLL for (int n = 0; n < TN; n++) sums.columns[n] = 0;
    TDM_NO_UNROLL for (long p = tdm_item_x() * PIECE; p < walk.k; p += ITEMS * PIECE) {
        if (WHOLE && p + PIECE <= walk.k)
            add_piece(walk, (uint)p, sums);
        else
            add_steps(walk, p, p + PIECE < walk.k ? p + PIECE : walk.k, sums);
    }
    keep_joined(sums.products, to, lane);
    keep_joined(sums.columns, to + COLUMNS_AT, lane);
    if (walk.wants_rows) {
        int rows[ROWS];
        TDM_UNROLL for (int m = 0; m < ROWS; m++) rows[m] = 0;
        add_rows<ROWS, WHOLE>(walk, rows);
        keep_joined(rows, to + ROWS_AT, lane);
    }
}

/* `rows` of the TM there may be. */
TDM_DEVICE void multiply_rows(const skinny_walk &walk, int rows, int *to) {
    if (!is_whole(walk.a, walk.k) || !is_whole(walk.b, walk.k))
        multiply<TM, false>(walk, to);
    else if (rows == 1)
        multiply<1, true>(walk, to);
    else if (rows == 2)
        multiply<2, true>(walk, to);
    else if (rows <= 4)
        multiply<4, true>(walk, to);
    else
        multiply<TM, true>(walk, to);
}

TDM_DEVICE int sum_of_warps(const int *sums, int at) {
    int sum = 0;
    TDM_UNROLL for (int warp = 0; warp < WARPS; warp++) sum =
        tdm_cxx_add(sum, sums[warp * SUMS + at]);
    return sum;
}

TDM_KERNEL_GROUPS(TDM_ENTRY, ITEMS, 1, 1, GROUPS)(TDM_INT_ARGUMENTS) {
    TDM_LOCAL_ARRAY(int, sums, WARPS *SUMS);
    const int item = tdm_item_x();
    const long z = tdm_group_z();
    const long i0 = tdm_group_x() % s.row_tiles * TM, j0 = tdm_group_x() / s.row_tiles * TN;
    const int rows = (int)(s.m - i0 < TM ? s.m - i0 : TM);
    const int columns = (int)(s.n - j0 < TN ? s.n - j0 : TN);
    const bool turned = s.a_type == TDM_CODE_U8;
    const int a_shift = turned ? -128 : 0;
    skinny_walk walk;
    walk.a = source_of(a, a_offset + z * s.a_batch + i0 * s.a_row, s.a_row, s.a_col, rows);
    walk.b = source_of(b, b_offset + z * s.b_batch + j0 * s.b_col, s.b_col, s.b_row, columns);
    walk.k = s.k;
    walk.turn = turned ? TURN : 0u;
    walk.wants_columns = tdm_int_needs_column_sums(q, a_shift);
    walk.wants_rows = tdm_int_needs_row_sums(q);
    multiply_rows(walk, rows, sums + item / LANES * SUMS);
    tdm_barrier();
    if (item >= rows)
        return;
    int raw[TN], column_sums[TN];
    TDM_UNROLL for (int n = 0; n < TN; n++) {
        raw[n] = sum_of_warps(sums, item * TN + n);
        column_sums[n] = sum_of_warps(sums, COLUMNS_AT + n);
    }
    const int row_sum = walk.wants_rows ? sum_of_warps(sums, ROWS_AT + item) : 0;
    TDM_INT_IO(io, z);
    tdm_int_columns of_columns;
    tdm_int_columns_begin(&of_columns, &io, s, e, q, column_sums, a_shift, j0, columns);
    tdm_int_row(raw, row_sum, &of_columns, &io, e, q, a_shift, i0 + item, j0, columns);
}
