/* The kernel of the integer panel family. gemm_int_panel.h describes it and lists what must be
 * defined. */
#ifndef TDM_GEMM_INT_PANEL_KERNEL_H
#define TDM_GEMM_INT_PANEL_KERNEL_H

/* Copies rows of a transposed A, which is contiguous along M: squares of eight rows by eight quads.
 * The strips of a work-item are contiguous, rows STRIDE apart. Returns the number of
 * rows whose whole squares are copied. */
#define SQUARE 32
TDM_DEVICE int copy_squares(TDM_GLOBAL const tdm_u8 *a, int type, long at, long a_col, int rows,
                            int depth, TDM_LOCAL tdm_strip *strips) {
    int i = 0;
    for (; i + 8 <= rows; i += 8)
        for (int p = 0; p + SQUARE <= depth; p += SQUARE) {
            s32x8 square[8];
            TDM_UNROLL for (int q = 0; q < 8; q++) {
                const long x = at + i + (p + 4 * q) * a_col;
                square[q] =
                    tdm_quad(8, s32x8_load_u8(a, x), s32x8_load_u8(a, x + a_col),
                             s32x8_load_u8(a, x + 2 * a_col), s32x8_load_u8(a, x + 3 * a_col));
            }
            s32x8_transpose(square);
            TDM_UNROLL for (int r = 0; r < 8; r++)
                tdm_strip_quads(square[r], type, strips + (i + r) * STRIDE + p);
        }
    return i;
}

/* Copies the `rows` rows of a strip from element `at` of A on, `depth` columns. The tile's rows
 * past them repeat the last one. In the first `squares` rows only the steps past the squares are
 * copied. */
TDM_DEVICE void copy_strip(TDM_GLOBAL const tdm_u8 *a, int type, long at, long a_row, long a_col,
                           int rows, int squares, int depth, TDM_LOCAL tdm_strip *strip) {
    for (int i = 0; i < TDM_TILE_ROWS(rows); i++) {
        const long row = at + (i < rows ? i : rows - 1) * a_row;
        TDM_LOCAL tdm_strip *const to = strip + i * STRIDE;
        int p = i < squares ? depth / SQUARE * SQUARE : 0;
        if (a_col == 1)
            p += tdm_strip_run(a, type, row + p, depth - p, to + p);
        for (; p < depth; p++)
            to[p] = tdm_strip_element(a, type, row + p * a_col);
        for (; p % 4 != 0; p++)
            to[p] = 0;
    }
}

TDM_DEVICE void add_row_sums(TDM_LOCAL const tdm_strip *strip, int type, int rows, int depth,
                             int first, TDM_LOCAL int *sums) {
    for (int i = 0; i < rows; i++) {
        int sum = first ? 0 : sums[i];
        for (int p = 0; p < depth; p++)
            sum = tdm_add_wrap(1, sum, TDM_STRIP_VALUE(strip[i * STRIDE + p], type));
        sums[i] = sum;
    }
}

/* Packs a block of a panel. If wants_sums, it adds to the column sums that are kept. */
TDM_DEVICE void copy_panel(TDM_GLOBAL const tdm_s8 *b, long at, tdm_gemm_shape_arg s, int columns,
                           int depth, int first, int wants_sums, TDM_LOCAL int *quads,
                           TDM_LOCAL int *kept) {
    int sums[NR];
    for (int j = 0; j < NR; j++)
        sums[j] = first ? 0 : kept[j];
    tdm_quads_pack(b, at, s.b_row, s.b_col, columns, depth, quads, sums, wants_sums);
    for (int j = 0; j < NR; j++)
        kept[j] = sums[j];
}

/* The rectangle that a work-item computes, and its parts of local memory. */
typedef struct {
    long first_strip, first_panel, i0;
    int strips, panels, rows;
    int copied; /* strips that there is room for */
    TDM_LOCAL tdm_strip *strip;
    TDM_LOCAL char *panel;
    TDM_LOCAL int *tiles, *row_sums, *column_sums;
} tdm_rectangle;

/* Returns the first strip of the r-th of `items` work-items along M. The first half of them has
 * `lead` strips more than its share. */
TDM_DEVICE long first_strip(long r, long items, long strips, long lead) {
    const long from_end = 2 * (2 * r < items ? r : items - r);
    return (r * strips + from_end * lead) / items;
}

/* With two threads, PoCL's first thread begins with half of the work-items, and has done LATE
 * multiply-adds when the other one starts. Its work-items therefore get LATE / 2 more. A source may
 * define its own LATE. Work-items that copy A have room for equal shares only. */
#ifndef LATE
#define LATE 4000000
#endif
TDM_DEVICE long lead_of(tdm_gemm_shape_arg s, int a_stays, long strips) {
    const long products = MR * s.n * s.k, most = (strips - s.row_tiles) / 4;
    const long lead = products > 0 ? LATE / 2 / products : 0;
    const int alone = s.column_tiles == 1 && tdm_groups_z() == 1;
    return a_stays != 2 || !alone ? 0 : lead < most ? lead : most;
}

TDM_DEVICE tdm_rectangle own_rectangle(tdm_gemm_shape_arg s, int a_stays, long item,
                                       TDM_LOCAL char *scratch) {
    const long row_item = item % s.row_tiles, column_item = item / s.row_tiles;
    const long strips = (s.m + MR - 1) / MR, panels = (s.n + NR - 1) / NR;
    tdm_rectangle r;
    const long lead = lead_of(s, a_stays, strips);
    r.first_strip = first_strip(row_item, s.row_tiles, strips, lead);
    r.first_panel = column_item * panels / s.column_tiles;
    r.strips = (int)(first_strip(row_item + 1, s.row_tiles, strips, lead) - r.first_strip);
    r.panels = (int)((column_item + 1) * panels / s.column_tiles - r.first_panel);
    r.i0 = r.first_strip * MR;
    r.rows = (int)(s.m - r.i0 < r.strips * MR ? s.m - r.i0 : r.strips * MR);
    r.strip = (TDM_LOCAL tdm_strip *)scratch;
    r.copied = a_stays ? 1 : r.strips;
    r.panel = scratch + r.copied * (MR * STRIP_ROW);
    r.tiles = (TDM_LOCAL int *)(r.panel + (UNIT == 1 && s.b_packed ? 0 : UNIT * KC * NR));
    r.row_sums = r.tiles + (s.k > KC ? r.strips * r.panels * TILE : 0);
    r.column_sums = r.row_sums + r.copied * MR;
    return r;
}

/* Finishes `rows` rows of a tile through the epilogue. */
TDM_DEVICE void finish_rows(const int *tile, TDM_LOCAL const int *row_sums, int rows, long i,
                            long j, int columns, const tdm_int_columns *ends, const tdm_int_io *io,
                            tdm_gemm_epilogue_arg e, tdm_gemm_quant_arg q, int shift) {
    const int needs_sums = tdm_int_needs_row_sums(q);
    for (int r = 0; r < rows; r++)
        tdm_int_row(tile + r * NR, needs_sums ? row_sums[r] : 0, ends, io, e, q, shift, i + r, j,
                    columns);
}

/* True if D is s32 and dense, and all terms besides the sums depend on columns only. */
TDM_DEVICE int goes_straight(tdm_gemm_epilogue_arg e, tdm_gemm_quant_arg q) {
    return e.d_type == TDM_CODE_S32 && e.d_col == 1 && e.c_type == TDM_CODE_ABSENT &&
           q.a_zero_row == 0 && !tdm_int_needs_row_sums(q) &&
           (e.bias_type == TDM_CODE_ABSENT || e.bias_row == 0);
}

/* Computes the row that goes_straight adds to the rows of a panel: the bias, and the correction for
 * the zero point of A. */
TDM_DEVICE void straight_base(int *base, const int *sums, int needs_sums, const tdm_int_io *io,
                              tdm_gemm_epilogue_arg e, tdm_gemm_quant_arg q, int shift, long j) {
    if (e.bias_type == TDM_CODE_S32)
        for (int x = 0; x < NR; x++)
            base[x] = tdm_int_s32((TDM_GLOBAL const tdm_s32 *)io->out.bias,
                                  io->out.bias_at + (j + x) * e.bias_col);
    else
        for (int x = 0; x < NR; x++)
            base[x] = 0;
    const int zero = needs_sums ? tdm_int_a_zero(io, q, 0, shift) : 0;
    if (needs_sums)
        for (int x = 0; x < NR; x++)
            base[x] = tdm_sub_wrap(1, base[x], tdm_mul_wrap(1, zero, sums[x]));
}

/* Sets the prefetch of A's next block, or of the first block of the next work-item. Only the last
 * tiles before that block prefetch it; earlier, the lines would be evicted again. `to_come` is the
 * number of tiles between this one and the block. */
TDM_DEVICE void prefetch_a(tdm_prefetch_lines *prefetch, TDM_GLOBAL const void *a,
                           tdm_gemm_shape_arg s, long next, long to_come, int rows) {
    const int prefetches = next >= 0 && s.a_col == 1;
    prefetch->a = (TDM_GLOBAL const char *)a + (prefetches ? next : 0);
    prefetch->a_line = prefetches ? LINE : 0;
    prefetch->a_row = prefetches ? s.a_row : 0;
    prefetch->a_first = to_come * PREFETCH_ROWS;
    prefetch->a_rows = prefetches ? rows : 0;
}

/* Sets the prefetch of packed B: each of `strips` tiles prefetches a part of the next panel. */
TDM_DEVICE void prefetch_b(tdm_tile_job *job, TDM_GLOBAL const int *next, int strips) {
    job->prefetch.b = (TDM_GLOBAL const char *)next;
    job->prefetch.b_line = job->b_packed ? (2 * 4 * NR + strips - 1) / strips : 0;
    job->prefetch.b_part = job->b_packed ? (long)job->quads * 4 * NR / strips : 0;
}

/* Stores rows of a tile whose sums are D itself. */
TDM_DEVICE void copy_rows(const int *tile, int rows, TDM_GLOBAL int *d, long d_row) {
    for (int r = 0; r < rows; r++)
        TDM_UNROLL for (int j = 0; j < NR; j += 8)
            s32x8_store_s32(s32x8_load_s32(tile, r * NR + j), d, r * d_row + j);
}

TDM_KERNEL_GROUP(TDM_ENTRY, 1, 1, 1)
(TDM_INT_ARGUMENTS, TDM_LOCAL_ARGUMENT(char, scratch)) {
    TDM_ITEM_BEGIN;
    const long item = tdm_group_x(), z = tdm_group_z();
    const tdm_rectangle r = own_rectangle(s, q.a_stays, item, scratch);
    const long a0 = a_offset + z * s.a_batch + r.i0 * s.a_row;
    TDM_GLOBAL const tdm_s8 *const b_entry =
        (TDM_GLOBAL const tdm_s8 *)b + b_offset + z * s.b_batch;
    TDM_GLOBAL const int *const b_sums = (TDM_GLOBAL const int *)(b_entry + q.sums_at);
    const int shift = TDM_A_SHIFT(s.a_type), straight = goes_straight(e, q);
    const int needs_row_sums = tdm_int_needs_row_sums(q),
              needs_column_sums = tdm_int_needs_column_sums(q, shift),
              adds = needs_column_sums || e.bias_type != TDM_CODE_ABSENT;
    /* Numbers of strips: `whole` have tiles without rows past the matrix, `full` have MR rows of
     * the matrix, `stay` are read in place. */
    const int last_rows = r.rows - (r.strips - 1) * MR,
              whole = r.strips - (TDM_TILE_ROWS(last_rows) > last_rows),
              full = r.strips - (last_rows < MR),
              stay = !q.a_stays   ? 0
                     : shift != 0 ? full
                                  : whole;
    TDM_INT_IO(io, z);
    tdm_tile_job job;
    job.b_packed = s.b_packed;
    job.panel = r.panel;
    job.packed = (TDM_GLOBAL const int *)b_entry;
    job.d_row = e.d_row;
    job.a_row = s.a_row;
    job.a_signed = s.a_type == TDM_CODE_S8;
    job.streams = e.streams_d && e.d_row % 16 == 0 &&
                  tdm_address((TDM_GLOBAL int *)d + io.out.d_at) % 64 == 0;

    const long blocks = (s.k + KC - 1) / KC, panel_words = (s.k + 3) / 4 * NR;
    const int block = blocks > 1 ? (int)((s.k + blocks * LINE - 1) / (blocks * LINE)) * LINE : KC;
    long p0 = 0;
    do { /* K may be 0 */
        const int depth = (int)(s.k - p0 < block ? s.k - p0 : block);
        job.quads = (depth + 3) / 4;
        job.first = p0 == 0;
        job.last = p0 + block >= s.k;
        const long next = !job.last                              ? a0 + (p0 + block) * s.a_col
                          : item % s.row_tiles + 1 < s.row_tiles ? a0 + r.rows * s.a_row
                                                                 : -1;
        /* Load a block of A. */
        const int squares = s.a_row == 1 && s.a_col != 1
                                ? copy_squares((TDM_GLOBAL const tdm_u8 *)a, s.a_type,
                                               a0 + p0 * s.a_col, s.a_col, r.rows, depth, r.strip)
                                : 0;
        for (int t = stay; t < r.strips; t++) {
            TDM_LOCAL tdm_strip *const strip = r.strip + (t - stay) * (MR * STRIDE);
            const int rows = r.rows - t * MR < MR ? r.rows - t * MR : MR;
            copy_strip((TDM_GLOBAL const tdm_u8 *)a, s.a_type, a0 + t * MR * s.a_row + p0 * s.a_col,
                       s.a_row, s.a_col, rows, squares - t * MR, depth, strip);
            if (needs_row_sums)
                add_row_sums(strip, s.a_type, rows, depth, job.first, r.row_sums + t * MR);
        }
        for (int x = 0; x < r.panels; x++) {
            const long j0 = (r.first_panel + x) * NR;
            const int columns = (int)(s.n - j0 < NR ? s.n - j0 : NR);
            if (s.b_packed)
                job.packed = (TDM_GLOBAL const int *)b_entry + (r.first_panel + x) * panel_words +
                             p0 / 4 * NR;
            else
                copy_panel(b_entry, p0 * s.b_row + j0 * s.b_col, s, columns, depth, job.first,
                           needs_column_sums, (TDM_LOCAL int *)(r.panel + QUADS_AT),
                           r.column_sums + x * NR);
#if UNIT > 1
            tdm_panel_widen(&job);
#endif
            tdm_int_columns ends;
            const int ready = job.last && straight && columns == NR;
            if (job.last && (adds || !ready)) {
                int sums[NR];
                if (needs_column_sums)
                    for (int j = 0; j < NR; j++)
                        sums[j] = s.b_packed ? b_sums[j0 + j] : r.column_sums[x * NR + j];
                if (ready)
                    straight_base(ends.base, sums, needs_column_sums, &io, e, q, shift, j0);
                else
                    tdm_int_columns_begin(&ends, &io, s, e, q, sums, shift, j0, columns);
            }
            prefetch_b(&job, job.packed + panel_words, r.strips);
            const int together = TDM_TILES_TOGETHER && (ready || !job.last) ? full : 0;
            for (int t = 0; t < r.strips;
                 t += job.tiles, job.prefetch.b += job.tiles * job.prefetch.b_part) {
                const long i = r.i0 + t * MR;
                const int rows = r.rows - t * MR < MR ? r.rows - t * MR : MR;
                int tile[TILE];
                job.tiles = t < together ? together - t : 1;
                job.rows = rows;
                job.strip = r.strip + (t < stay ? 0 : t - stay) * (MR * STRIDE);
                job.in_place =
                    t < stay ? (TDM_GLOBAL const tdm_u8 *)a + a0 + t * MR * s.a_row + p0 : 0;
                job.kept = r.tiles + (x * r.strips + t) * TILE;
                job.straight = ready && t < whole;
                job.d = (TDM_GLOBAL int *)d + io.out.d_at + i * e.d_row + j0;
                job.add = ready && adds ? ends.base : 0;
                prefetch_a(&job.prefetch, a, s, next, (long)(r.panels - x) * r.strips - t - 1,
                           r.rows);
                job.prefetch.d = (TDM_GLOBAL const char *)job.d;
                job.prefetch.d_line = job.straight && !job.streams ? LINE : 0;
                job.prefetch.d_row = job.prefetch.d_line ? e.d_row * 4 : 0;
                /* Multiply-accumulate, and store unless the epilogue follows. */
                tdm_tile_multiply(&job, tile);
                /* Store the remaining rows. */
                if (ready && t >= whole)
                    copy_rows(tile, rows, job.d, e.d_row);
                else if (job.last && !ready)
                    finish_rows(tile, r.row_sums + t * MR, rows, i, j0, columns, &ends, &io, e, q,
                                shift);
            }
        }
        p0 += block;
    } while (p0 < s.k);
    if (job.streams)
        tdm_stream_end();
}

#endif
