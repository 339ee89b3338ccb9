/* Integer panel GEMM for x86 cores, compiled by clang (PoCL). A define selects one of two forms:
 *
 *   VNNI    Strips are u8 (A, or A + 128 if A is signed). One instruction adds the four products of
 *           a quad to each of 16 columns' sums.
 *   PAIRS   Strips and panels are s16. One instruction computes two sums of two products for each
 *           of LANES / 2 columns, another one adds them. This is exact, whereas 8-bit pair products
 *           would saturate. The two sums of a column are joined at the end.
 *   LANES   32-bit lanes of a vector: 16 for AVX-512, 8 for AVX2
 *
 * gemm_int_panel.h lists the other parameters.
 *
 * PoCL 3.1 compiles for a CPU without VNNI, and its user may name another CPU than the actual one.
 * The loop over a tile is therefore a function with its own target. LLVM aborts if the attribute is
 * on the kernel itself, or if the function is inlined into it. The function gets plain pointers,
 * which reach all memory on these devices. */
#define TDM_EPILOGUE_VECTOR LANES
#ifdef VNNI
#define tdm_strip tdm_u8
#define UNIT 1
#else
#define tdm_strip short
#define UNIT 2
#endif
#include "kernels/dialect/dialect.h"
#include "gemm_int_panel.h"

#define INTS TDM_S32(LANES)
typedef INTS ints_anywhere __attribute__((aligned(4)));

/* The tile of the last strip has only four or two rows if these are enough. */
#define TDM_TILE_ROWS(rows) ((rows) > 4 ? MR : (rows) > 2 ? 4 : 2)

#define TDM_TILES_TOGETHER 1
#define TDM_STRIP_VALUE(x, type) ((int)(x))

#define OWN_TARGET(features) __attribute__((noinline, target(features)))

#ifdef VNNI
#define TARGET OWN_TARGET("avx512vnni,avx512f,avx512bw,avx512dq,avx512vl")
#define TDM_A_SHIFT(type) ((type) == TDM_CODE_S8 ? 128 : 0)
#define WIDTH LANES
#define FACTORS INTS
#define SPLAT_QUAD(a, p) a = (INTS)(*(const int *)(p))
/* Broadcasts a quad of s8, converted to u8 by adding 128. LLVM would do this in scalar registers,
 * and keep the words of many rows in them. */
#define SPLAT_FLIPPED(a, p)                                                                        \
    __asm__("vpxord %1%{1to16%}, %2, %0" : "=v"(a) : "m"(*(const int *)(p)), "v"(flip))
#define ADD_PRODUCTS(sum, a, b)                                                                    \
    TDM_UNROLL for (int v = 0; v < NV; v++)(sum)[v] =                                              \
        __builtin_ia32_vpdpbusd512((sum)[v], a, (b)[v])
#define COLUMNS(sum, v) (sum)[v]
/* Offset of row i of a strip: that of an odd row times 1, 2, 4 or 8, a factor that an address can
 * contain. The offsets of the odd rows are hidden from the compiler. PoCL's LLVM otherwise derives
 * each row from the one before, loads all of them ahead, and spills. */
#define ROW_AT(i)                                                                                  \
    ((i) % 8 == 0   ? odd_rows[(i) / 8] * 8                                                        \
     : (i) % 4 == 0 ? odd_rows[(i) / 4] * 4                                                        \
     : (i) % 2 == 0 ? odd_rows[(i) / 2] * 2                                                        \
                    : odd_rows[i])
#define DECLARE_ROWS(rows, strip_row)                                                              \
    long odd_rows[rows];                                                                           \
    TDM_UNROLL for (int i = 0; i < rows; i++) {                                                    \
        odd_rows[i] = i * (strip_row);                                                             \
        __asm__("" : "+r"(odd_rows[i]));                                                           \
    }
#else
#define ROW_AT(i) ((i)*STRIDE)
#define DECLARE_ROWS(rows, strip_row)
#define TDM_A_SHIFT(type) 0
#define WIDTH (LANES / 2)
typedef short factors __attribute__((ext_vector_type(LANES * 2)));
typedef char narrow_factors __attribute__((ext_vector_type(LANES * 2)));
typedef uchar unsigned_factors __attribute__((ext_vector_type(LANES * 2)));
#define FACTORS factors
#if LANES == 16
#define TARGET OWN_TARGET("avx512f,avx512bw,avx512dq,avx512vl")
typedef long8 quad_words;
/* Two products are followed by two additions: if they alternated, they would take a fifth longer on
 * Zen 4. */
#define ADD_TWO(sum0, sum1, a, b0, b1)                                                             \
    {                                                                                              \
        INTS x, y;                                                                                 \
        __asm__("vpmaddwd %4, %5, %2\n\tvpmaddwd %4, %6, %3\n\t"                                   \
                "vpaddd %2, %0, %0\n\tvpaddd %3, %1, %1"                                           \
                : "+v"(sum0), "+v"(sum1), "=&v"(x), "=&v"(y)                                       \
                : "v"(a), "v"(b0), "v"(b1));                                                       \
    }
#define EVERY_OTHER(x, y, k)                                                                       \
    __builtin_shufflevector(x, y, (k), 2 + (k), 4 + (k), 6 + (k), 8 + (k), 10 + (k), 12 + (k),     \
                            14 + (k), 16 + (k), 18 + (k), 20 + (k), 22 + (k), 24 + (k), 26 + (k),  \
                            28 + (k), 30 + (k))
#else
#define TARGET OWN_TARGET("avx2")
typedef long4 quad_words;
/* There is only one temporary. The sums, two factors and `a` take the other fifteen of sixteen
 * registers. */
#define ADD_TWO(sum0, sum1, a, b0, b1)                                                             \
    {                                                                                              \
        INTS x;                                                                                    \
        __asm__("vpmaddwd %3, %4, %2\n\tvpaddd %2, %0, %0\n\t"                                     \
                "vpmaddwd %3, %5, %2\n\tvpaddd %2, %1, %1"                                         \
                : "+x"(sum0), "+x"(sum1), "=&x"(x)                                                 \
                : "x"(a), "x"(b0), "x"(b1));                                                       \
    }
#define EVERY_OTHER(x, y, k)                                                                       \
    __builtin_shufflevector(x, y, (k), 2 + (k), 4 + (k), 6 + (k), 8 + (k), 10 + (k), 12 + (k),     \
                            14 + (k))
#endif
#define SPLAT_QUAD(a, p) a = __builtin_astype((quad_words)(*(const long *)(p)), factors)
#define ADD_PRODUCTS(sum, a, b)                                                                    \
    TDM_UNROLL for (int v = 0; v < NV; v += 2)                                                     \
        ADD_TWO((sum)[v], (sum)[v + 1], a, (b)[v], (b)[v + 1])
#define COLUMNS(sum, v)                                                                            \
    tdm_add_wrap(LANES, EVERY_OTHER((sum)[2 * (v)], (sum)[2 * (v) + 1], 0),                        \
                 EVERY_OTHER((sum)[2 * (v)], (sum)[2 * (v) + 1], 1))
#endif
typedef FACTORS factors_anywhere __attribute__((aligned(4)));
#define NV (NR / WIDTH)
#define PANEL_QUAD (4 * UNIT * NR) /* bytes */

TDM_DEVICE tdm_strip tdm_strip_element(TDM_GLOBAL const tdm_u8 *a, int type, long at) {
    return (tdm_strip)(tdm_int_any(a, type, at) + TDM_A_SHIFT(type));
}

#ifndef VNNI
/* Whole vectors are converted: half vectors would take twice the time, and the copies of A are 5 %
 * of 512 cubed. */
#define WIDEN_RUN(narrow)                                                                          \
    for (; p + LANES * 2 <= depth; p += LANES * 2) {                                               \
        typedef narrow run __attribute__((aligned(1)));                                            \
        *(TDM_LOCAL wide *)(to + p) =                                                              \
            __builtin_convertvector(*(TDM_GLOBAL const run *)(a + at + p), factors);               \
    }
#endif

TDM_DEVICE int tdm_strip_run(TDM_GLOBAL const tdm_u8 *a, int type, long at, int depth,
                             TDM_LOCAL tdm_strip *to) {
    int p = 0;
#ifdef VNNI
    typedef int16 bytes __attribute__((aligned(1)));
    const int16 flip = (int16)(type == TDM_CODE_S8 ? (int)0x80808080 : 0);
    for (; p + 64 <= depth; p += 64)
        *(TDM_LOCAL bytes *)(to + p) = *(TDM_GLOBAL const bytes *)(a + at + p) ^ flip;
#else
    typedef factors wide __attribute__((aligned(2)));
    if (type == TDM_CODE_S8)
        WIDEN_RUN(narrow_factors)
    else
        WIDEN_RUN(unsigned_factors)
#endif
    return p;
}

TDM_DEVICE void tdm_strip_quads(int8 quads, int type, TDM_LOCAL tdm_strip *to) {
#ifdef VNNI
    typedef int8 words __attribute__((aligned(1)));
    *(TDM_LOCAL words *)to = quads ^ (int8)(type == TDM_CODE_S8 ? (int)0x80808080 : 0);
#else
    typedef short16 run __attribute__((aligned(2)));
    const char16 low = as_char16(quads.lo), high = as_char16(quads.hi);
    *(TDM_LOCAL run *)to =
        type == TDM_CODE_S8 ? convert_short16(low) : convert_short16(as_uchar16(low));
    *(TDM_LOCAL run *)(to + 16) =
        type == TDM_CODE_S8 ? convert_short16(high) : convert_short16(as_uchar16(high));
#endif
}

#define PLAIN(type, p) ((type *)(size_t)(p))

#if UNIT > 1
TDM_DEVICE void tdm_panel_widen(const tdm_tile_job *job) {
    typedef narrow_factors narrow __attribute__((aligned(4)));
    const char *const from =
        job->b_packed ? PLAIN(const char, job->packed) : PLAIN(const char, job->panel) + QUADS_AT;
    short *const to = PLAIN(short, job->panel);
    for (int x = 0; x < job->quads * 4 * NR; x += LANES * 2)
        *(factors_anywhere *)(to + x) =
            __builtin_convertvector(*(const narrow *)(from + x), factors);
}
#endif

#define QUAD(Q, rows, SPLAT)                                                                       \
    {                                                                                              \
        /* Load B. */                                                                              \
        FACTORS b[NV];                                                                             \
        TDM_UNROLL for (int v = 0; v < NV; v++) b[v] =                                             \
            *(const factors_anywhere *)(panel + (Q)*PANEL_QUAD + v * (int)sizeof(FACTORS));        \
        TDM_UNROLL for (int i = 0; i < rows; i++) {                                                \
            /* Load A and multiply-accumulate. */                                                  \
            FACTORS a;                                                                             \
            SPLAT(a, strip + ROW_AT(i) + (Q)*4);                                                   \
            ADD_PRODUCTS(sum[i], a, b);                                                            \
        }                                                                                          \
    }

#define OUTS (NR / LANES)
#define EVERY_OUT(rows)                                                                            \
    TDM_UNROLL for (int i = 0; i < rows; i++) TDM_UNROLL for (int v = 0; v < OUTS; v++)
#define AT(p) (*(const ints_anywhere *)(p))

#define PREFETCH(p) __builtin_prefetch((const void *)(size_t)(p))
#define PREFETCH_FAR(p) __builtin_prefetch((const void *)(size_t)(p), 0, 2)

/* Arguments of the multiplication: `tiles` tiles, one below the other, of to(i, j) = Σ strip ·
 * panel + from(i, j) + add(j). `from` and `add` may be NULL. */
typedef struct {
    const tdm_strip *strip;
    const char *panel;
    const int *from, *add;
    int *to;
    const tdm_prefetch_lines *prefetch;
    long strip_row, to_row, to_next; /* to_next: from one tile to the next one */
    int tiles, quads, streams;
} tile_run;

/* One function multiplies all tiles of a panel. The work between two tiles must fit into the
 * latency of the first tile's last multiplications. */
#define DEFINE_MULTIPLY(name, rows, SPLAT)                                                         \
    TARGET void name(const tile_run *run) {                                                        \
        const long strip_row = run->strip_row, to_row = run->to_row;                               \
        const tdm_strip *strip_at = run->strip;                                                    \
        const int *from = run->from, *const add = run->add;                                        \
        int *to = run->to;                                                                         \
        tdm_prefetch_lines next = *run->prefetch;                                                  \
        const INTS flip = (INTS)((int)0x80808080);                                                 \
        (void)flip;                                                                                \
        DECLARE_ROWS(rows, strip_row)                                                              \
        TDM_NO_UNROLL for (int tiles = run->tiles; tiles > 0; tiles--) {                           \
            const tdm_strip *strip = strip_at;                                                     \
            const char *panel = run->panel;                                                        \
            int quads = run->quads;                                                                \
            tdm_prefetch_lines prefetch = next;                                                    \
            const int prefetches_a = prefetch.a_first < prefetch.a_rows;                           \
            prefetch.a += prefetches_a ? prefetch.a_first * prefetch.a_row : 0;                    \
            prefetch.a_line = prefetches_a ? prefetch.a_line : 0;                                  \
            INTS sum[rows][NV];                                                                    \
            TDM_UNROLL for (int i = 0; i < rows; i++) TDM_UNROLL for (int v = 0; v < NV; v++)      \
                sum[i][v] = (INTS)(0);                                                             \
            for (int lines = 4; quads >= 16; quads -= 16, lines += 4) {                            \
                /* Prefetch, then load and multiply-accumulate. */                                 \
                TDM_NO_UNROLL for (int l = 0; l < 4; l++) {                                        \
                    PREFETCH(prefetch.a + l * prefetch.a_line);                                    \
                    PREFETCH(prefetch.d + l * prefetch.d_line);                                    \
                    PREFETCH_FAR(prefetch.b);                                                      \
                    PREFETCH_FAR(prefetch.b + prefetch.b_line);                                    \
                    prefetch.b += 2 * prefetch.b_line;                                             \
                    QUAD(0, rows, SPLAT)                                                           \
                    QUAD(1, rows, SPLAT)                                                           \
                    QUAD(2, rows, SPLAT)                                                           \
                    QUAD(3, rows, SPLAT)                                                           \
                    strip += 4 * 4;                                                                \
                    panel += 4 * PANEL_QUAD;                                                       \
                }                                                                                  \
                prefetch.a += prefetches_a == 0 ? 0                                                \
                              : lines % A_LINES == 0                                               \
                                  ? prefetch.a_row - (A_LINES - 4) * prefetch.a_line               \
                                  : 4 * prefetch.a_line;                                           \
                prefetch.d += lines < 4 * rows ? prefetch.d_row : 0;                               \
            }                                                                                      \
            TDM_NO_UNROLL for (; quads > 0; quads--) {                                             \
                QUAD(0, rows, SPLAT)                                                               \
                strip += 4;                                                                        \
                panel += PANEL_QUAD;                                                               \
            }                                                                                      \
            INTS x[rows][OUTS];                                                                    \
            EVERY_OUT(rows) x[i][v] = COLUMNS(sum[i], v);                                          \
            if (from) {                                                                            \
                EVERY_OUT(rows)                                                                    \
                x[i][v] = tdm_add_wrap(LANES, x[i][v], AT(from + i * NR + v * LANES));             \
                from += TILE;                                                                      \
            }                                                                                      \
            if (add)                                                                               \
                EVERY_OUT(rows) x[i][v] = tdm_add_wrap(LANES, x[i][v], AT(add + v * LANES));       \
            /* Store. */                                                                           \
            if (run->streams) {                                                                    \
                EVERY_OUT(rows)                                                                    \
                __builtin_nontemporal_store(x[i][v], (INTS *)(to + i * to_row + v * LANES));       \
            } else {                                                                               \
                EVERY_OUT(rows)                                                                    \
                *(ints_anywhere *)(to + i * to_row + v * LANES) = x[i][v];                         \
            }                                                                                      \
            strip_at += rows * strip_row;                                                          \
            to += run->to_next;                                                                    \
            next.a_first -= PREFETCH_ROWS;                                                         \
            next.b += next.b_part;                                                                 \
            next.d += rows * next.d_row;                                                           \
        }                                                                                          \
    }
DEFINE_MULTIPLY(multiply, MR, SPLAT_QUAD)
DEFINE_MULTIPLY(multiply_2, 2, SPLAT_QUAD)
DEFINE_MULTIPLY(multiply_4, 4, SPLAT_QUAD)
#ifdef VNNI
DEFINE_MULTIPLY(multiply_flipped, MR, SPLAT_FLIPPED)
#else
#define multiply_flipped multiply /* nothing is read in place */
#endif

TDM_DEVICE void tdm_tile_multiply(const tdm_tile_job *job, int *tile) {
    const int panel_in_place = UNIT == 1 && job->b_packed;
    tile_run run;
    run.strip =
        job->in_place ? PLAIN(const tdm_strip, job->in_place) : PLAIN(const tdm_strip, job->strip);
    run.strip_row = job->in_place ? job->a_row : STRIDE;
    run.panel = panel_in_place ? PLAIN(const char, job->packed) : PLAIN(const char, job->panel);
    run.from = job->first ? 0 : PLAIN(const int, job->kept);
    run.add = job->add;
    run.to = job->straight ? PLAIN(int, job->d) : job->last ? tile : PLAIN(int, job->kept);
    run.to_row = job->straight ? job->d_row : NR;
    run.to_next = MR * run.to_row;
    run.prefetch = &job->prefetch;
    run.tiles = job->tiles;
    run.quads = job->quads;
    run.streams = job->straight && job->streams;
    if (job->in_place && job->a_signed)
        multiply_flipped(&run);
    else if (job->rows > 4)
        multiply(&run);
    else if (job->rows > 2)
        multiply_4(&run);
    else
        multiply_2(&run);
}

#include "gemm_int_panel_kernel.h"
