/* GEMM of few rows of s8 or u8 (TM at a time) by s8 that is contiguous along K, for CUDA devices. B
 * is read once, without packing. The memory bandwidth of these reads limits the speed. A work-group
 * computes TN columns, and each work-item has a part of K of all of them:
 *
 *     steps         0 … 15   16 … 31         2032 … 2047   2048 … 2063
 *                 ┌────────┬────────┬─────┬─────────────┬─────────────┬───
 *   TM rows of A  │ item 0 │ item 1 │  …  │  item 127   │   item 0    │ …    small: from caches
 *                 ├────────┼────────┼─────┼─────────────┼─────────────┼───
 *   TN lines of B │ item 0 │ item 1 │  …  │  item 127   │   item 0    │ …    piece: 16-byte load
 *                 └────────┴────────┴─────┴─────────────┴─────────────┴───
 *
 * A line is a row of A or a column of B. A work-item multiplies its piece of every row by its piece
 * of every column, four steps in one dot product. The dot product needs a signed A. The kernel
 * therefore flips the top bit of u8, which gives A − 128; the sums of B's columns correct for that
 * (gemm_int_epilogue.h). Pieces that are not aligned to 16 bytes, and the end of K, are read step
 * by step. This is correct for any strides, and fast if neighbours are contiguous along K.
 *
 * The lanes of a warp join their sums. In each step a lane passes on half of its sums and keeps the
 * other half. With 32 sums, lane l has sum l at the end. Warps join their sums in
 *
 *     local memory:  warp 0: TM·TN sums, TN of columns, TM of rows │ warp 1 …
 *
 * One work-item per row stores its TN elements of D. Sums are modulo 2^32, so their order is free.
 *
 * The lower bound of the time is bytes of B / bandwidth. The following is a model, not measured on
 * hardware:
 *   - A work-item has 16·TN bytes in flight, and the four work-groups of a multiprocessor 32 KiB.
 *     H100 needs 18 KiB and H200 25 KiB (at a latency of 700 ns).
 *   - A byte of B costs TM / 4 dot products, and a multiprocessor executes 64 per cycle. With TM 8
 *     it can use 32 bytes per cycle, and receives 15 to 21.
 *
 * The grid is (row tiles · column tiles, 1, batch). */
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
/* Number of a warp's sums, and offsets of the column and row sums among them. */
#define COLUMNS_AT (TM * TN)
#define ROWS_AT (COLUMNS_AT + TN)
#define SUMS (ROWS_AT + TM)

typedef tdm_cxx_words_4 piece;

/* An operand from the first line of the work-group on. */
struct line_source {
    const tdm_u8 *from;
    long line, depth; /* strides */
    int last;         /* the last line that exists; later ones repeat it and are not stored */
};

TDM_DEVICE line_source source_of(const void *from, long at, long line, long depth, int lines) {
    line_source s;
    s.from = (const tdm_u8 *)from + at;
    s.line = line;
    s.depth = depth;
    s.last = lines - 1;
    return s;
}

/* Returns true if one load can read each piece, with offsets of 32 bits. */
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

struct small_m_traversal {
    line_source a, b;
    long k;
    uint turn; /* mask that bytes of A are XORed with */
    bool wants_columns, wants_rows;
};

/* The sums of a work-item for ROWS rows. */
template <int ROWS> struct small_m_sums { int products[ROWS * TN], columns[TN]; };

/* Multiply-accumulates steps p … p + 15 by pieces. */
template <int ROWS>
TDM_DEVICE void add_piece(const small_m_traversal &traversal, uint p, small_m_sums<ROWS> &sums) {
    const piece ones = {ONES, ONES, ONES, ONES};
    piece y[TN];
    TDM_UNROLL for (int n = 0; n < TN; n++) y[n] = piece_of(traversal.b, n, p);
    if (traversal.wants_columns)
        TDM_UNROLL for (int n = 0; n < TN; n++) sums.columns[n] =
            piece_dot(y[n], ones, sums.columns[n]);
    TDM_UNROLL for (int m = 0; m < ROWS; m++) {
        const piece x = turned_by(piece_of(traversal.a, m, p), traversal.turn);
        TDM_UNROLL for (int n = 0; n < TN; n++) sums.products[m * TN + n] =
            piece_dot(x, y[n], sums.products[m * TN + n]);
    }
}

/* Multiply-accumulates steps p … end - 1 one by one. */
template <int ROWS>
TDM_DEVICE void add_steps(const small_m_traversal &traversal, long p, long end,
                          small_m_sums<ROWS> &sums) {
    TDM_NO_UNROLL for (; p < end; p++) {
        int y[TN];
        TDM_UNROLL for (int n = 0; n < TN; n++) {
            y[n] = (tdm_s8)byte_of(traversal.b, n, p);
            sums.columns[n] = tdm_cxx_add(sums.columns[n], y[n]);
        }
        TDM_UNROLL for (int m = 0; m < ROWS; m++) {
            const int x = (tdm_s8)(byte_of(traversal.a, m, p) ^ traversal.turn);
            TDM_UNROLL for (int n = 0; n < TN; n++) sums.products[m * TN + n] =
                tdm_cxx_add(sums.products[m * TN + n], x * y[n]);
        }
    }
}

/* Adds the work-item's part of ROWS rows of A to `sums`. It reads A again, because row sums are
 * rarely needed. */
template <int ROWS, bool WHOLE>
TDM_DEVICE void add_rows(const small_m_traversal &traversal, int (&sums)[ROWS]) {
    const piece ones = {ONES, ONES, ONES, ONES};
    TDM_NO_UNROLL for (long p = tdm_item_x() * PIECE; p < traversal.k; p += ITEMS * PIECE) {
        TDM_UNROLL for (int m = 0; m < ROWS; m++) {
            if (WHOLE && p + PIECE <= traversal.k)
                sums[m] = piece_dot(turned_by(piece_of(traversal.a, m, (uint)p), traversal.turn),
                                    ones, sums[m]);
            else
                TDM_NO_UNROLL for (long u = p; u < p + PIECE && u < traversal.k; u++) sums[m] =
                    tdm_cxx_add(sums[m], (tdm_s8)(byte_of(traversal.a, m, u) ^ traversal.turn));
        }
    }
}

/* Adds up each of COUNT sums over all lanes that differ in bits up to LANE. Returns the sum that
 * this lane keeps: number lane / (LANES / COUNT). */
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

/* Writes the warp's sums over all of K, for ROWS rows of A, to `to`. */
template <int ROWS, bool WHOLE>
TDM_DEVICE void multiply(const small_m_traversal &traversal, int *to) {
    const int lane = tdm_warp_lane();
    small_m_sums<ROWS> sums;
    TDM_UNROLL for (int x = 0; x < ROWS * TN; x++) sums.products[x] = 0;
    TDM_UNROLL for (int n = 0; n < TN; n++) sums.columns[n] = 0;
    /* Load and multiply-accumulate. */
    TDM_NO_UNROLL for (long p = tdm_item_x() * PIECE; p < traversal.k; p += ITEMS * PIECE) {
        if (WHOLE && p + PIECE <= traversal.k)
            add_piece(traversal, (uint)p, sums);
        else
            add_steps(traversal, p, p + PIECE < traversal.k ? p + PIECE : traversal.k, sums);
    }
    /* Join the sums of the lanes. */
    keep_joined(sums.products, to, lane);
    keep_joined(sums.columns, to + COLUMNS_AT, lane);
    if (traversal.wants_rows) {
        int rows[ROWS];
        TDM_UNROLL for (int m = 0; m < ROWS; m++) rows[m] = 0;
        add_rows<ROWS, WHOLE>(traversal, rows);
        keep_joined(rows, to + ROWS_AT, lane);
    }
}

/* Calls the instance for `rows` rows, at most TM. */
TDM_DEVICE void multiply_rows(const small_m_traversal &traversal, int rows, int *to) {
    if (!is_whole(traversal.a, traversal.k) || !is_whole(traversal.b, traversal.k))
        multiply<TM, false>(traversal, to);
    else if (rows == 1)
        multiply<1, true>(traversal, to);
    else if (rows == 2)
        multiply<2, true>(traversal, to);
    else if (rows <= 4)
        multiply<4, true>(traversal, to);
    else
        multiply<TM, true>(traversal, to);
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
    small_m_traversal traversal;
    traversal.a = source_of(a, a_offset + z * s.a_batch + i0 * s.a_row, s.a_row, s.a_col, rows);
    traversal.b = source_of(b, b_offset + z * s.b_batch + j0 * s.b_col, s.b_col, s.b_row, columns);
    traversal.k = s.k;
    traversal.turn = turned ? TURN : 0u;
    traversal.wants_columns = tdm_int_needs_column_sums(q, a_shift);
    traversal.wants_rows = tdm_int_needs_row_sums(q);
    /* Load and multiply-accumulate. */
    multiply_rows(traversal, rows, sums + item / LANES * SUMS);
    tdm_barrier();
    if (item >= rows)
        return;
    /* Join the sums of the warps, and store one row per work-item. */
    int raw[TN], column_sums[TN];
    TDM_UNROLL for (int n = 0; n < TN; n++) {
        raw[n] = sum_of_warps(sums, item * TN + n);
        column_sums[n] = sum_of_warps(sums, COLUMNS_AT + n);
    }
    const int row_sum = traversal.wants_rows ? sum_of_warps(sums, ROWS_AT + item) : 0;
    TDM_INT_IO(io, z);
    tdm_int_columns of_columns;
    tdm_int_columns_begin(&of_columns, &io, s, e, q, column_sums, a_shift, j0, columns);
    tdm_int_row(raw, row_sum, &of_columns, &io, e, q, a_shift, i0 + item, j0, columns);
}
