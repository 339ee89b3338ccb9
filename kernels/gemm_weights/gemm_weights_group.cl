/* Small-M GEMM (M of 16 and less) with quantized weights for GPU-like devices. B is read once, in
 * place. The memory bandwidth of these reads limits the speed. B is stored as rows of Bᵀ: one row
 * per column of B, contiguous along K.
 *
 *   work-item x:  lane x % 8, phase x / 32, rows x / 8 % 4 and 4 + x / 8 % 4 of the work-group's 8
 *
 *                 phase 0                phase 1                …  3   phase 0, next pass
 *   row 0    [ lane 0 | 1 | … | 7 ][ lane 0 | 1 | … | 7 ][ … ][ … ]  [ lane 0 | …
 *   row 1    [ lane 0 | 1 | … | 7 ][ …
 *   …        a lane's piece is 16 quantized values: 16 bytes of s8, 8 of s4
 *
 * A work-item prefetches the pieces of AHEAD passes to registers and multiplies up to RM rows of A
 * by each: total += scale·Σ a·(code − zero). The totals of the work-items are joined in local
 * memory, in a fixed order. A is read with any strides: it is small and stays in the caches.
 *
 * Quantized values become floats without a conversion instruction, which is slow on some devices.
 * Flipping the top bit of a value makes it unsigned. It is inserted into the low bits of the float
 * 2^23, at its own bit position b: 0 or 8 (s8), or 4t (s4). The float is then 2^23 + 2^b times the
 * value. A multiplication and a subtraction, both exact, give the value.
 *
 * The grid is (column_tiles work-groups, 1, batch).
 *
 * Parameters:
 *   AT      storage type of A, e.g. f16
 *   IS_S4   1 if weights are s4, 0 if s8 */
#define TDM_EPILOGUE_VECTOR 4
#include "kernels/dialect/dialect.h"
#include "kernels/gemm/gemm_epilogue.h"
#include "gemm_weights_args.h"
#include "gemm_weights_steps.h"

#define LANES 8 /* work-items that share a row of Bᵀ in a phase */
#define LINES 4 /* rows of Bᵀ whose work-items are neighbours */
#define OWN 2   /* rows of Bᵀ per work-item */
#define PHASES 4 /* parts of a pass over K */
#define ITEMS (LANES * LINES * PHASES)
#define COLUMNS (LINES * OWN)
#define RM 4     /* most rows of A at a time */
#define PIECE 16 /* steps of K */
#define STEP (PIECE * LANES * PHASES)
/* Sums that join an element's LANES·PHASES totals. */
#define PARTS 4

#define MAGIC 0x4b000000 /* bits of 2^23 as a float */
#if IS_S4
#define BYTES 8 /* bytes of a piece */
#define AHEAD 4 /* prefetch distance in passes */
#define TOP_BITS 0x88888888
#define HALF 8.0f
#else
#define BYTES 16
#define AHEAD 2
#define TOP_BITS 0x80808080
#define HALF 128.0f
#endif

/* The rows of Bᵀ of a work-item. Offsets are those of this batch entry. */
typedef struct {
    TDM_GLOBAL const tdm_u8 *line[OWN];
    TDM_GLOBAL const void *scale, *zero;
    long column[OWN]; /* columns of B; past the matrix the last one, which is not stored */
    long scale_at, zero_at;
    tdm_gemm_weights_arg w;
    int bytes;   /* bytes of a row of Bᵀ */
    int aligned; /* rows of Bᵀ are aligned to pieces */
    int grouped; /* rows of Bᵀ have several groups */
    int shift;   /* a group has 2^shift steps; -1: not a power of two */
} lines_of_b;

typedef struct {
    TDM_GLOBAL const TDM_TYPE(AT) *a;
    long at, row, col; /* index of the first row; strides */
    int rows;
    int vectors; /* a vector of four is one aligned load */
} rows_of_a;

/* ---- A ---- */

/* Returns steps p … p + 3 of a row, with zeros past the end of K. */
TDM_DEVICE f32x4 four_of_a(const rows_of_a *r, int m, int p, int k) {
    const long at = r->at + (m < r->rows ? m : r->rows - 1) * r->row + p * r->col;
    float x[4];
    if (r->vectors && p + 4 <= k)
        return TDM_LOADV_ALIGNED(4, AT, r->a, at);
    TDM_UNROLL for (int u = 0; u < 4; u++)
        x[u] = p + u < k ? TDM_LOAD(AT, r->a, at + u * r->col) : 0.0f;
    return f32x4_of(x[0], x[1], x[2], x[3]);
}

/* ---- B ---- */

TDM_DEVICE int word_of(TDM_GLOBAL const tdm_u8 *from, int there) {
    int word = 0;
    TDM_UNROLL for (int u = 0; u < 4; u++)
        word |= u < there ? (int)from[u] << 8 * u : 0;
    return word;
}

/* Returns the piece at `from`, of which `there` bytes are within the row: four steps of K per
 * vector lane, top bits flipped. */
TDM_DEVICE s32x4 piece_of(TDM_GLOBAL const tdm_u8 *from, int there, int aligned) {
    int w[4];
#if IS_S4
    if (aligned && there >= BYTES) {
        const long both = *(TDM_GLOBAL const long *)from;
        w[0] = (int)both;
        w[2] = (int)(both >> 32);
    } else {
        w[0] = word_of(from, there);
        w[2] = word_of(from + 4, there - 4);
    }
    w[1] = w[0] >> 16;
    w[3] = w[2] >> 16;
#else
    if (aligned && there >= BYTES)
        return *(TDM_GLOBAL const s32x4 *)from ^ s32x4_splat((int)TOP_BITS);
    TDM_UNROLL for (int u = 0; u < 4; u++)
        w[u] = word_of(from + 4 * u, there - 4 * u);
#endif
    return s32x4_of(w[0], w[1], w[2], w[3]) ^ s32x4_splat((int)TOP_BITS);
}

/* A quantized value of a word, minus the zero point. SHIFT and MASK extract UP times its unsigned
 * form. */
#define VALUE(word, SHIFT, MASK, UP, zero)                                                         \
    tdm_mad(tdm_bits_float((uint)((((word) >> (SHIFT)) & (MASK)) | MAGIC)), 1.0f / (UP),           \
            -8388608.0f / (UP)-HALF - (zero))
#if IS_S4
#define VALUES(word, zero)                                                                         \
    f32x4_of(VALUE(word, 0, 0xf, 1.0f, zero), VALUE(word, 0, 0xf0, 16.0f, zero),                   \
             VALUE(word, 0, 0xf00, 256.0f, zero), VALUE(word, 0, 0xf000, 4096.0f, zero))
#else
#define VALUES(word, zero)                                                                         \
    f32x4_of(VALUE(word, 0, 0xff, 1.0f, zero), VALUE(word, 0, 0xff00, 256.0f, zero),               \
             VALUE(word, 16, 0xff, 1.0f, zero), VALUE(word, 16, 0xff00, 256.0f, zero))
#endif

TDM_DEVICE int group_of(const lines_of_b *l, int p) {
    return l->shift >= 0 ? p >> l->shift : p / (int)l->w.group;
}

TDM_DEVICE float scale_of(const lines_of_b *l, long j, int g) {
    return tdm_load_any(l->scale, l->w.scale_type,
                        l->scale_at + g * l->w.scale_row + j * l->w.scale_col);
}

TDM_DEVICE float zero_of(const lines_of_b *l, long j, int g) {
    if (l->w.zero_type == TDM_CODE_ABSENT)
        return 0.0f;
    return tdm_float(tdm_int_any(l->zero, l->w.zero_type,
                                 l->zero_at + g * l->w.zero_row + j * l->w.zero_col));
}

/* ---- multiplication ---- */

/* Load A and multiply-accumulate: word Q of the pieces at step p. */
#define ADD_WORD(MT, Q)                                                                            \
    {                                                                                              \
        f32x4 a_word[MT];                                                                          \
        TDM_UNROLL for (int m = 0; m < MT; m++) a_word[m] = four_of_a(r, m, p + 4 * Q, k);         \
        TDM_UNROLL for (int n = 0; n < OWN; n++) {                                                 \
            const int word = TDM_LANE(4, codes[0][n], Q);                                          \
            const f32x4 value = VALUES(word, zero[n]);                                             \
            TDM_UNROLL for (int m = 0; m < MT; m++) sum[m][n] =                                    \
                tdm_mad(a_word[m], value, sum[m][n]);                                              \
        }                                                                                          \
    }

/* Multiply-accumulate the pieces at step p into the totals. */
#define ADD_PIECE(MT)                                                                              \
    {                                                                                              \
        f32x4 sum[MT][OWN];                                                                        \
        TDM_UNROLL for (int m = 0; m < MT; m++) TDM_UNROLL for (int n = 0; n < OWN; n++)           \
            sum[m][n] = f32x4_splat(0.0f);                                                         \
        if (l->grouped) {                                                                          \
            const int g = group_of(l, p);                                                          \
            TDM_UNROLL for (int n = 0; n < OWN; n++) {                                             \
                scale[n] = scale_of(l, l->column[n], g);                                           \
                zero[n] = zero_of(l, l->column[n], g);                                             \
            }                                                                                      \
        }                                                                                          \
        ADD_WORD(MT, 0) ADD_WORD(MT, 1) ADD_WORD(MT, 2) ADD_WORD(MT, 3)                            \
        TDM_UNROLL for (int m = 0; m < MT; m++) TDM_UNROLL for (int n = 0; n < OWN; n++)           \
            total[m * OWN + n] = tdm_mad(scale[n], f32x4_sum(sum[m][n]), total[m * OWN + n]);      \
    }

/* Computes the work-item's total(m, n) of MT rows, from step `first` on. If a row of Bᵀ is one
 * group, its scale is applied later. The first iterations only load. */
#define MULTIPLY(MT)                                                                               \
    TDM_DEVICE void TDM_CAT2(multiply_, MT)(const lines_of_b *l, const rows_of_a *r, int first,    \
                                            int k, float *total) {                                 \
        float scale[OWN], zero[OWN];                                                               \
        s32x4 codes[AHEAD + 1][OWN];                                                               \
        TDM_UNROLL for (int t = 0; t < MT * OWN; t++) total[t] = 0.0f;                             \
        TDM_UNROLL for (int n = 0; n < OWN; n++) {                                                 \
            scale[n] = 1.0f;                                                                       \
            zero[n] = zero_of(l, l->column[n], 0);                                                 \
            TDM_UNROLL for (int u = 0; u <= AHEAD; u++) codes[u][n] = s32x4_splat(0);              \
        }                                                                                          \
        TDM_NO_UNROLL for (int p = first - AHEAD * STEP; p < k; p += STEP) {                       \
            const int from = (p + AHEAD * STEP) / PIECE * BYTES;                                   \
            /* Load the pieces of a later pass. */                                                 \
            TDM_UNROLL for (int n = 0; n < OWN; n++) {                                             \
                TDM_UNROLL for (int u = 0; u < AHEAD; u++) codes[u][n] = codes[u + 1][n];          \
                if (from < l->bytes)                                                               \
                    codes[AHEAD][n] = piece_of(l->line[n] + from, l->bytes - from, l->aligned);    \
            }                                                                                      \
            /* Multiply-accumulate. */                                                             \
            if (p >= first)                                                                        \
                ADD_PIECE(MT)                                                                      \
        }                                                                                          \
    }
MULTIPLY(1)
MULTIPLY(RM)

TDM_KERNEL_GROUPS(TDM_ENTRY, ITEMS, 1, 1, 3)(TDM_WEIGHTS_ARGUMENTS) {
    TDM_LOCAL_ARRAY(float, partial, LANES *PHASES *COLUMNS *RM);
    const int x = tdm_item_x(), k = (int)s.k;
    const int lane = x % LANES + x / (LANES * LINES) * LANES, own = x / LANES % LINES;
    const long z = tdm_group_z(), j0 = tdm_group_x() * COLUMNS;
    lines_of_b l;
    rows_of_a r;
    l.scale = scale;
    l.zero = zero;
    l.scale_at = scale_offset + z * w.scale_batch;
    l.zero_at = zero_offset + z * w.zero_batch;
    l.w = w;
    l.grouped = w.group < s.k;
    l.bytes = (k * BYTES + PIECE - 1) / PIECE;
    l.shift = (int)(tdm_float_bits(tdm_float((int)w.group)) >> 23) - 127;
    l.shift = w.group == 1L << l.shift ? l.shift : -1;
    l.aligned = 1;
    TDM_UNROLL for (int n = 0; n < OWN; n++) {
        const long j = j0 + own + n * LINES;
        l.column[n] = j < s.n ? j : s.n - 1;
        l.line[n] = (TDM_GLOBAL const tdm_u8 *)b +
                    (b_offset + z * s.b_batch + l.column[n] * s.b_col) * BYTES / PIECE;
        l.aligned = l.aligned && tdm_address(l.line[n]) % BYTES == 0;
    }
    const tdm_epilogue_io io =
        tdm_epilogue_begin(c, c_offset, bias, bias_offset, residual, r_offset, d, d_offset, e, z);

    r.a = (TDM_GLOBAL const TDM_TYPE(AT) *)a;
    r.row = s.a_row;
    r.col = s.a_col;
    for (long i0 = 0; i0 < s.m; i0 += RM) {
        const int rows = (int)(s.m - i0 < RM ? s.m - i0 : RM);
        const int pitch = COLUMNS * (rows == 1 ? 1 : RM);
        float total[RM * OWN];
        r.at = a_offset + z * s.a_batch + i0 * s.a_row;
        r.rows = rows;
        r.vectors =
            s.a_col == 1 && (s.a_row % 4 == 0 || rows == 1) &&
            (tdm_address(a) + (ulong)r.at * sizeof(TDM_TYPE(AT))) % (4 * sizeof(TDM_TYPE(AT))) == 0;
        if (rows == 1)
            multiply_1(&l, &r, lane * PIECE, k, total);
        else
            TDM_CAT2(multiply_, RM)(&l, &r, lane * PIECE, k, total);
        /* Join the totals of the work-items. */
        for (int m = 0; m < pitch / COLUMNS; m++)
            TDM_UNROLL for (int n = 0; n < OWN; n++)
                partial[lane * pitch + m * COLUMNS + own + n * LINES] = total[m * OWN + n];
        tdm_barrier();
        /* Work-item x adds a part of the totals of element x % pitch, and stores the sum to the
         * first of them. */
        const int first = x / pitch * (LANES * PHASES / PARTS) * pitch + x % pitch;
        if (x < PARTS * pitch) {
            float sum = 0.0f;
            TDM_UNROLL for (int t = 0; t < LANES * PHASES / PARTS; t++) sum +=
                partial[first + t * pitch];
            partial[first] = sum;
        }
        tdm_barrier();
        /* Store. */
        const long i = i0 + x / COLUMNS, j = j0 + x % COLUMNS;
        if (x < pitch && i < s.m && j < s.n) {
            float sum = 0.0f;
            TDM_UNROLL for (int t = 0; t < PARTS; t++) sum +=
                partial[t * (LANES * PHASES / PARTS) * pitch + x];
            if (!l.grouped)
                sum *= scale_of(&l, j, 0);
            if (!(tdm_abs(sum) < INFINITY)) {
                tdm_gemm_shape_arg in_lines = s;
                in_lines.b_row = 1;
                sum = tdm_weights_sum(a, a_offset + z * s.a_batch + i * s.a_row, b,
                                      b_offset + z * s.b_batch + j * s.b_col, scale,
                                      l.scale_at + j * w.scale_col, zero,
                                      l.zero_at + j * w.zero_col, in_lines, w, 1.0f, 0, s.k);
            }
            tdm_epilogue_element(sum, io, e, i, j);
        }
        tdm_barrier();
    }
}
