/* GEMM for GPU-like devices: a work-group computes a TM×TN tile of D, and a work-item RM×RN
 * elements of it in registers.
 *
 *                  TN                 The work-group copies a TM×TK tile of A and a TK×TN tile of B
 *              ┌────────┐ TK          to local memory, converted to f32. Each work-item then
 *              │ b_tile │             multiplies its rows and columns:
 *         TK   └────────┘               rows     y·RM + i                  i < RM
 *       ┌────┐ ┌────────┐               columns  v·4·GX + x·4 + 0…3        v < RN / 4
 *    TM │ a  │ │   D    │             Neighbours therefore read neighbouring vectors of four.
 *       └────┘ └────────┘
 *
 * Both tiles are stored by steps of K: (p, line). A line is a row of A or a column of B.
 *
 * Parameters:
 *   TM, TN    rows and columns of a work-group's tile, e.g. 64 and 64
 *   TK        steps of K in a tile, a divisor of TDM_SUM_BLOCK, e.g. 16
 *   RM, RN    rows and columns of a work-item's register tile (MR×NR in BLIS), e.g. 4 and 4
 *   VW        elements of a load from global memory: 4, or 1
 *   PAD       floats added to each step of a tile, a multiple of 4, e.g. 4. If K is contiguous,
 *             neighbours store to different steps; the padding puts these into different banks
 *   BUFFERS   pairs of tiles in local memory: 2 (double buffering), or 1
 *   AT, BT    storage types of A and B, e.g. f16
 *   BITS      bits of a quantized value, if B is quantized: 8 or 4; see gemm_tiled_codes.h
 *
 * While the work-group multiplies, its work-items prefetch their part of the next tiles from global
 * memory to registers: VW elements a load, along the contiguous dimension. With BUFFERS 2 the
 * registers are stored to a second pair of tiles, and one barrier per tile is enough. With BUFFERS
 * 1 they are stored to the same pair after another barrier.
 *
 * At most TDM_SUM_BLOCK terms are added in registers. The sums of the blocks before are in `tile`,
 * in private memory. Lines outside the matrices repeat the last one, and their results are not
 * stored. Steps outside are zeros. The steps of a tile are unrolled by macros, so that K may be
 * large on devices whose loops have at most 65535 iterations. The grid is (row tiles · column
 * tiles, 1, batch). */
#define TDM_EPILOGUE_VECTOR 4
#include "kernels/dialect/dialect.h"
#include "gemm_args.h"
#include "gemm_epilogue.h"

#define GX (TN / RN)
#define GY (TM / RM)
#define ITEMS (GX * GY)
/* Vectors of four floats in a step of a tile. */
#define A_STEP ((TM + PAD) / 4)
#define B_STEP ((TN + PAD) / 4)
/* Loads per work-item and tile. */
#define A_LOADS (TM * TK / VW / ITEMS)
#define B_LOADS (TN * TK / VW / ITEMS)
#if A_LOADS * VW * ITEMS != TM * TK || B_LOADS * VW * ITEMS != TN * TK || PAD % 4 != 0
#error "the tiles do not divide into vectors"
#endif
#if TDM_SUM_BLOCK % TK != 0
#error "blocks of a sum do not divide into tiles"
#endif

/* The ways to load: element by element with bounds checks, in vectors, in aligned vectors. */
#define BY_ELEMENT 0
#define BY_VECTOR 1
#define BY_ALIGNED 2

/* An operand, from the first line of the work-group's tile on. */
typedef struct {
    long at;          /* index of that line's element at step 0 */
    long line, depth; /* strides */
    int last;         /* index of the last line inside the matrix */
    int along_depth;  /* loads are contiguous along K */
    int way;          /* how to load a tile that has all its steps */
} tile_source;

TDM_DEVICE tile_source source_of(ulong address, int bytes, long at, long line, long depth,
                                 long lines, int tile_lines) {
    tile_source s;
    s.at = at;
    s.line = line;
    s.depth = depth;
    s.last = (int)(lines < tile_lines ? lines : tile_lines) - 1;
    s.along_depth = depth == 1;
    const long pitch = s.along_depth ? line : depth;
    const int aligned = (address + (ulong)at * bytes) % (VW * bytes) == 0 && pitch % VW == 0;
    const int contiguous = s.along_depth || (line == 1 && lines >= tile_lines);
    s.way = !contiguous ? BY_ELEMENT : aligned ? BY_ALIGNED : BY_VECTOR;
    return s;
}

/* First line and first step of load t of a tile. */
#define LOAD_LINE(LINES, s, t) ((s).along_depth ? (t) / (TK / VW) : (t) % ((LINES) / VW) * VW)
#define LOAD_STEP(LINES, s, t) ((s).along_depth ? (t) % (TK / VW) * VW : (t) / ((LINES) / VW))

#if VW == 4
#define FOR_LANES(EACH) EACH(0) EACH(1) EACH(2) EACH(3)
#define FROM_LANES(EACH) f32x4_of(EACH(0), EACH(1), EACH(2), EACH(3))
#define STORE_LINES(x, tile, scalars, i) (tile)[(i) / 4] = (x)
#else
#define FOR_LANES(EACH) EACH(0)
#define FROM_LANES(EACH) EACH(0)
#define STORE_LINES(x, tile, scalars, i) (scalars)[i] = (x)
#endif

#define PLACE(line_, step_)                                                                        \
    (s.at + (long)tdm_int_min(line_, s.last) * s.line + (p0 + (step_)) * s.depth)
#define ELEMENT_A(l) ELEMENT(AT, l)
#define ELEMENT_B(l) ELEMENT(BT, l)
#define ELEMENT(DT, l)                                                                             \
    (p0 + step + (s.along_depth ? l : 0) < k                                                       \
         ? TDM_LOAD(DT, from,                                                                      \
                    PLACE(line + (s.along_depth ? 0 : l), step + (s.along_depth ? l : 0)))         \
         : 0.0f)

/* Returns load t of the tile whose first step is p0. */
#define FETCH(NAME, DT, LINES, EACH)                                                               \
    TDM_DEVICE TDM_F32(VW)                                                                         \
        NAME(TDM_GLOBAL const TDM_TYPE(DT) * from, tile_source s, long p0, long k, int t) {        \
        const int line = LOAD_LINE(LINES, s, t), step = LOAD_STEP(LINES, s, t);                    \
        const int way = p0 + TK <= k ? s.way : BY_ELEMENT;                                         \
        TDM_F32(VW) x;                                                                             \
        if (way == BY_ALIGNED)                                                                     \
            x = TDM_LOADV_ALIGNED(VW, DT, from, PLACE(line, step));                                \
        else if (way == BY_VECTOR)                                                                 \
            x = TDM_LOADV(VW, DT, from, PLACE(line, step));                                        \
        else                                                                                       \
            x = FROM_LANES(EACH);                                                                  \
        return x;                                                                                  \
    }
FETCH(fetch_a, AT, TM, ELEMENT_A)
#ifdef BITS
#include "kernels/gemm_weights/gemm_tiled_codes.h"

#define TILED_ARGUMENTS TDM_WEIGHTS_ARGUMENTS
#define FIND_PARAMETERS                                                                            \
    const int group = (int)(w.group < k ? w.group : k);                                            \
    const tile_parameters parameters = {scale,                                                     \
                                        zero,                                                      \
                                        scale_offset + z * w.scale_batch + j0 * w.scale_col,       \
                                        zero_offset + z * w.zero_batch + j0 * w.zero_col,          \
                                        group,                                                     \
                                        w};                                                        \
    from_b.way = way_of_codes(from_b, group, k)
#define FETCH_B(p0, t)                                                                             \
    fetch_codes((TDM_GLOBAL const TDM_TYPE(BT) *)b, from_b, &parameters, p0, k, t)
#else
FETCH(fetch_b, BT, TN, ELEMENT_B)

#define TILED_ARGUMENTS                                                                            \
    TDM_GLOBAL const TDM_TYPE(AT) * TDM_RESTRICT a, long a_offset,                                 \
        TDM_GLOBAL const TDM_TYPE(BT) * TDM_RESTRICT b, long b_offset, TDM_GLOBAL const void *c,   \
        long c_offset, TDM_GLOBAL const void *bias, long bias_offset,                              \
        TDM_GLOBAL const void *residual, long r_offset, TDM_GLOBAL void *d, long d_offset,         \
        tdm_gemm_shape_arg s, tdm_gemm_epilogue_arg e
#define FIND_PARAMETERS (void)0
#define FETCH_B(p0, t) fetch_b(b, from_b, p0, k, t)
#endif

/* Stores the result of load t at its offset in a tile. */
#define STORE_LANE(l) to[((step + l) * stride) + line] = TDM_LANE(VW, x, l);
#define KEEP(LINES, s, t, value, tile, scalars, first, STEP)                                       \
    {                                                                                              \
        const TDM_F32(VW) x = (value);                                                             \
        const int line = LOAD_LINE(LINES, s, t), step = LOAD_STEP(LINES, s, t), stride = STEP * 4; \
        TDM_LOCAL float *const to = (scalars) + (first)*4;                                         \
        if ((s).along_depth) {                                                                     \
            FOR_LANES(STORE_LANE)                                                                  \
        } else {                                                                                   \
            STORE_LINES(x, (tile) + (first), to, step * stride + line);                            \
        }                                                                                          \
    }

/* Multiply-accumulate: row l of the four in a_vec times the work-item's columns. */
#define ROW(l)                                                                                     \
    {                                                                                              \
        const f32x4 a_all = f32x4_splat(TDM_LANE(4, a_vec, l));                                    \
        TDM_UNROLL for (int v = 0; v < RN / 4; v++) acc[i + l][v] =                                \
            tdm_mad(a_all, b_vec[v], acc[i + l][v]);                                               \
    }
/* Step P of both tiles: reads them from local memory and multiplies. */
#define MULTIPLY(P)                                                                                \
    {                                                                                              \
        f32x4 b_vec[RN / 4];                                                                       \
        TDM_UNROLL for (int v = 0; v < RN / 4; v++) b_vec[v] =                                     \
            b_tile[b_first + (P)*B_STEP + v * GX + x];                                             \
        TDM_UNROLL for (int i = 0; i < RM; i += 4) {                                               \
            const f32x4 a_vec = a_tile[a_first + (P)*A_STEP + (y * RM + i) / 4];                   \
            ROW(0) ROW(1) ROW(2) ROW(3)                                                            \
        }                                                                                          \
    }

/* Adds the sums in registers to those in private memory. The accesses are volatile: a compiler that
 * batches many of them would run out of registers. */
#define ADD_LANE(l) sums[at + (l)] += TDM_LANE(4, acc[i][v], l);
#define ADD_TO_TILE                                                                                \
    {                                                                                              \
        volatile float *const sums = tile;                                                         \
        TDM_UNROLL for (int i = 0; i < RM; i++) TDM_UNROLL for (int v = 0; v < RN / 4; v++) {      \
            const int at = i * RN + v * 4;                                                         \
            ADD_LANE(0) ADD_LANE(1) ADD_LANE(2) ADD_LANE(3)                                        \
            acc[i][v] = f32x4_splat(0.0f);                                                         \
        }                                                                                          \
    }

TDM_KERNEL_GROUP(TDM_ENTRY, GX, GY, 1)
(TILED_ARGUMENTS) {
    TDM_LOCAL_ARRAY(f32x4, a_tile, BUFFERS * TK * A_STEP);
    TDM_LOCAL_ARRAY(f32x4, b_tile, BUFFERS * TK * B_STEP);
    TDM_LOCAL float *const a_scalars = (TDM_LOCAL float *)a_tile;
    TDM_LOCAL float *const b_scalars = (TDM_LOCAL float *)b_tile;
    const int x = tdm_item_x(), y = tdm_item_y(), item = y * GX + x;
    const long z = tdm_group_z(), k = s.k;
    const long i0 = tdm_group_x() % s.row_tiles * TM, j0 = tdm_group_x() / s.row_tiles * TN;
    const tile_source from_a =
        source_of(tdm_address(a), sizeof(TDM_TYPE(AT)), a_offset + z * s.a_batch + i0 * s.a_row,
                  s.a_row, s.a_col, s.m - i0, TM);
    tile_source from_b =
        source_of(tdm_address(b), sizeof(TDM_TYPE(BT)), b_offset + z * s.b_batch + j0 * s.b_col,
                  s.b_col, s.b_row, s.n - j0, TN);

    FIND_PARAMETERS;

    f32x4 acc[RM][RN / 4];
    TDM_UNROLL for (int i = 0; i < RM; i++) TDM_UNROLL for (int v = 0; v < RN / 4; v++) acc[i][v] =
        f32x4_splat(0.0f);
    float tile[RM * RN];
    for (int t = 0; t < RM * RN; t += 4)
        f32x4_store_f32(f32x4_splat(0.0f), tile, t);

    /* The first iteration only loads, the last one only multiplies. */
    int a_first = 0, b_first = 0;
    for (long p0 = -TK; p0 < k; p0 += TK) {
        const int more = p0 + TK < k;
        TDM_F32(VW) a_next[A_LOADS], b_next[B_LOADS];
        /* Load the next tiles to registers. */
        if (more) {
            TDM_UNROLL for (int n = 0; n < A_LOADS; n++) a_next[n] =
                fetch_a((TDM_GLOBAL const TDM_TYPE(AT) *)a, from_a, p0 + TK, k, n * ITEMS + item);
            TDM_UNROLL for (int n = 0; n < B_LOADS; n++) b_next[n] =
                FETCH_B(p0 + TK, n * ITEMS + item);
        }
        /* Multiply-accumulate the current tiles. */
        if (p0 >= 0) {
            TDM_REPEAT(TK, MULTIPLY)
            if ((p0 + TK) % TDM_SUM_BLOCK == 0)
                ADD_TO_TILE
        }
#if BUFFERS == 1
        tdm_barrier();
#else
        a_first = TK * A_STEP - a_first;
        b_first = TK * B_STEP - b_first;
#endif
        /* Store the next tiles to local memory. */
        if (more) {
            TDM_UNROLL for (int n = 0; n < A_LOADS; n++)
                KEEP(TM, from_a, n * ITEMS + item, a_next[n], a_tile, a_scalars, a_first, A_STEP)
                    TDM_UNROLL for (int n = 0; n < B_LOADS; n++) KEEP(
                        TN, from_b, n * ITEMS + item, b_next[n], b_tile, b_scalars, b_first, B_STEP)
        }
        tdm_barrier();
    }

    /* Store. The epilogue is a rolled loop over a copy; unrolled over registers it would be most of
     * the code. */
    ADD_TO_TILE
    const tdm_epilogue_io io =
        tdm_epilogue_begin(c, c_offset, bias, bias_offset, residual, r_offset, d, d_offset, e, z);
    const int dense = tdm_epilogue_is_dense(e);
    for (int t = 0; t < RM * (RN / 4); t++) {
        const long i = i0 + y * RM + t / (RN / 4);
        const long j = j0 + t % (RN / 4) * 4 * GX + x * 4;
        const int count = (int)(s.n - j < 4 ? s.n - j : 4);
        if (i < s.m)
            tdm_epilogue_row(tile + t * 4, io, e, i, j, count, dense);
    }
}
