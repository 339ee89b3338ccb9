/* Integer panel GEMM for x86 cores with AMX, compiled by clang (PoCL). One instruction multiplies
 * 16 rows of A by 16 columns of B along 64 steps of K. A's bytes are signed or unsigned, B's are
 * signed. A panel of quads has the layout that the instruction expects of B: a row of a tile
 * register is a quad of 16 columns.
 *
 * There are eight tile registers: four hold the 16×16 sums of an MR×NR tile, two hold A and two
 * hold B. PoCL compiles for a CPU without AMX. As in gemm_int_panel_x86.cl, the loop is therefore a
 * function with its own target and plain pointers.
 *
 * gemm_int_panel.h lists the parameters; MR and NR are 32. */
#define TDM_EPILOGUE_VECTOR 16
#define tdm_strip tdm_u8
#define UNIT 1
#include "kernels/dialect/dialect.h"
#include "gemm_int_panel.h"
#include "kernels/dialect/tile_registers.h"

#if MR != 32 || NR != 32 || KC % 64 != 0
#error "four tile registers hold 32 by 32 sums, a tile register 64 steps"
#endif

#define TDM_A_SHIFT(type) 0
#define TDM_STRIP_VALUE(x, type) ((type) == TDM_CODE_S8 ? (int)(char)(x) : (int)(x))
#define TDM_TILE_ROWS(rows) ((rows) > 16 ? 32 : 16)
#define TDM_TILES_TOGETHER 1
#define tdm_strip_element(a, type, at) (a)[at]
#define LATE 32000000

TDM_DEVICE int tdm_strip_run(TDM_GLOBAL const tdm_u8 *a, int type, long at, int depth,
                             TDM_LOCAL tdm_strip *to) {
    typedef int16 bytes __attribute__((aligned(1)));
    int p = 0;
    for (; p + 64 <= depth; p += 64)
        *(TDM_LOCAL bytes *)(to + p) = *(TDM_GLOBAL const bytes *)(a + at + p);
    return p;
}

TDM_DEVICE void tdm_strip_quads(int8 quads, int type, TDM_LOCAL tdm_strip *to) {
    typedef int8 words __attribute__((aligned(1)));
    *(TDM_LOCAL words *)to = quads;
}

#define PLAIN(type, p) ((type *)(size_t)(p))
#define PREFETCH(p) __builtin_prefetch((const void *)(size_t)(p))
#define PREFETCH_FAR(p) __builtin_prefetch((const void *)(size_t)(p), 0, 2)

#define STEPS REGISTER_BYTES
#define QUADS (STEPS / 4)
#define PANEL_QUAD (4 * NR) /* bytes */

/* Arguments of the multiplication: `tiles` tiles, one below the other, of to(i, j) = Σ strip ·
 * panel + from(i, j) + add(j). `from` and `add` may be NULL. */
typedef struct {
    const uchar *strip;
    const char *panel;
    int *from;
    const int *add;
    int *to;
    const tdm_prefetch_lines *prefetch;
    long strip_row, to_row;
    int tiles, quads, streams;
} tile_run;

typedef int16 line;
typedef int16 line_anywhere __attribute__((aligned(4)));

/* Adds a row to each of `rows` rows of NR sums. */
#define ADD_TO_ROWS(x, rows, add)                                                                  \
    TDM_NO_UNROLL for (int i = 0; i < (rows); i++) {                                               \
        line_anywhere *const row = (line_anywhere *)((x) + i * NR);                                \
        row[0] = tdm_add_wrap(16, row[0], ((const line_anywhere *)(add))[0]);                      \
        row[1] = tdm_add_wrap(16, row[1], ((const line_anywhere *)(add))[1]);                      \
    }

#define LOAD_HALF(upper, x, row_bytes)                                                             \
    __builtin_ia32_tileloadd64((upper), (x), row_bytes);                                           \
    __builtin_ia32_tileloadd64((upper) + 1, (x) + REGISTER_ROWS, row_bytes)
#define STORE_HALF(upper, x, row_bytes)                                                            \
    __builtin_ia32_tilestored64((upper), (x), row_bytes);                                          \
    __builtin_ia32_tilestored64((upper) + 1, (x) + REGISTER_ROWS, row_bytes)

/* One step: loads STEPS of K and multiplies. Tile registers 0 and 1 are the sums of the upper 16
 * rows, 2 and 3 those of the lower ones. */
#define STEP_UPPER(DOT, strip, strip_row, panel)                                                   \
    __builtin_ia32_tileloadd64(6, panel, PANEL_QUAD);                                              \
    __builtin_ia32_tileloaddt164(4, strip, strip_row);                                             \
    DOT(0, 4, 6);                                                                                  \
    __builtin_ia32_tileloadd64(7, (panel) + 64, PANEL_QUAD);                                       \
    DOT(1, 4, 7)
#define STEP_BOTH(DOT, strip, strip_row, panel)                                                    \
    STEP_UPPER(DOT, strip, strip_row, panel);                                                      \
    __builtin_ia32_tileloaddt164(5, (strip) + REGISTER_ROWS * (strip_row), strip_row);             \
    DOT(2, 5, 6);                                                                                  \
    DOT(3, 5, 7)

/* Prefetches four lines of A, four of D in two rows, and eight of B. */
#define PREFETCH_STEP(prefetch)                                                                    \
    TDM_UNROLL for (int l = 0; l < 4; l++) {                                                       \
        PREFETCH((prefetch).a + l * (prefetch).a_line);                                            \
        PREFETCH((prefetch).d + l / 2 * (prefetch).d_row + l % 2 * (prefetch).d_line);             \
        PREFETCH_FAR((prefetch).b + 2 * l * (prefetch).b_line);                                    \
        PREFETCH_FAR((prefetch).b + (2 * l + 1) * (prefetch).b_line);                              \
    }                                                                                              \
    (prefetch).b += 8 * (prefetch).b_line;                                                         \
    (prefetch).d += 2 * (prefetch).d_row

/* B has zeros in the steps past the last quad, so A may have any values there. */
#define DEFINE_MULTIPLY(name, HEIGHT, STEP, DOT)                                                   \
    __attribute__((noinline, target("amx-tile,amx-int8,avx512f,avx512bw,avx512dq,avx512vl"))) void \
    name(const tile_run *run) {                                                                    \
        TAKE_REGISTERS                                                                             \
        const long strip_row = run->strip_row, to_row = run->to_row;                               \
        const uchar *strip_at = run->strip;                                                        \
        int *from = run->from, *to = run->to;                                                      \
        tdm_prefetch_lines next = *run->prefetch;                                                  \
        const int steps = run->quads / QUADS, rest = run->quads % QUADS;                           \
        const char *const last = run->panel + steps * QUADS * PANEL_QUAD;                          \
        line end[QUADS * 2];                                                                       \
        if (rest > 0)                                                                              \
            TDM_NO_UNROLL for (int q = 0; q < 2 * QUADS; q++) end[q] =                             \
                q < 2 * rest ? ((const line_anywhere *)last)[q] : (line)(0);                       \
        TDM_NO_UNROLL for (int tiles = run->tiles; tiles > 0; tiles--) {                           \
            const uchar *strip = strip_at;                                                         \
            const char *panel = run->panel;                                                        \
            tdm_prefetch_lines prefetch = next;                                                    \
            const int prefetches_a = prefetch.a_first < prefetch.a_rows;                           \
            prefetch.a += prefetches_a ? prefetch.a_first * prefetch.a_row : 0;                    \
            prefetch.a_line = prefetches_a ? prefetch.a_line : 0;                                  \
            prefetch.a_row = prefetches_a ? prefetch.a_row - (A_LINES - 4) * prefetch.a_line : 0;  \
            if (from && run->add)                                                                  \
                ADD_TO_ROWS(from, HEIGHT, run->add)                                                \
            const int *const begin = from ? from : run->add;                                       \
            const long begin_row = from ? NR * 4 : 0;                                              \
            if (begin) {                                                                           \
                LOAD_HALF(0, begin, begin_row);                                                    \
                if (HEIGHT > REGISTER_ROWS) {                                                      \
                    LOAD_HALF(2, begin + (from ? REGISTER_ROWS * NR : 0), begin_row);              \
                }                                                                                  \
            } else {                                                                               \
                __builtin_ia32_tilezero(0);                                                        \
                __builtin_ia32_tilezero(1);                                                        \
                __builtin_ia32_tilezero(2);                                                        \
                __builtin_ia32_tilezero(3);                                                        \
            }                                                                                      \
            TDM_NO_UNROLL for (int step = 1; step <= steps; step++) {                              \
                PREFETCH_STEP(prefetch);                                                           \
                prefetch.a += step * 4 % A_LINES == 0 ? prefetch.a_row : 4 * prefetch.a_line;      \
                /* Load and multiply-accumulate. */                                                \
                STEP(DOT, strip, strip_row, panel);                                                \
                strip += STEPS;                                                                    \
                panel += QUADS * PANEL_QUAD;                                                       \
            }                                                                                      \
            if (rest > 0) {                                                                        \
                STEP(DOT, strip, strip_row, (const char *)end);                                    \
            }                                                                                      \
            /* Store. */                                                                           \
            if (run->streams) {                                                                    \
                line sums[HEIGHT * 2];                                                             \
                STORE_HALF(0, (int *)sums, NR * 4);                                                \
                if (HEIGHT > REGISTER_ROWS) {                                                      \
                    STORE_HALF(2, (int *)sums + REGISTER_ROWS * NR, NR * 4);                       \
                }                                                                                  \
                TDM_NO_UNROLL for (int i = 0; i < HEIGHT; i++) {                                   \
                    __builtin_nontemporal_store(sums[2 * i], (line *)(to + i * to_row));           \
                    __builtin_nontemporal_store(sums[2 * i + 1], (line *)(to + i * to_row + 16));  \
                }                                                                                  \
            } else {                                                                               \
                STORE_HALF(0, to, to_row * 4);                                                     \
                if (HEIGHT > REGISTER_ROWS) {                                                      \
                    STORE_HALF(2, to + REGISTER_ROWS * to_row, to_row * 4);                        \
                }                                                                                  \
            }                                                                                      \
            from += from ? TILE : 0;                                                               \
            strip_at += MR * strip_row;                                                            \
            to += MR * to_row;                                                                     \
            next.a_first -= PREFETCH_ROWS;                                                         \
            next.b += next.b_part;                                                                 \
            next.d += MR * next.d_row;                                                             \
        }                                                                                          \
        __builtin_ia32_tilerelease();                                                              \
    }
DEFINE_MULTIPLY(multiply_unsigned, 32, STEP_BOTH, __builtin_ia32_tdpbusd)
DEFINE_MULTIPLY(multiply_signed, 32, STEP_BOTH, __builtin_ia32_tdpbssd)
DEFINE_MULTIPLY(multiply_few_unsigned, 16, STEP_UPPER, __builtin_ia32_tdpbusd)
DEFINE_MULTIPLY(multiply_few_signed, 16, STEP_UPPER, __builtin_ia32_tdpbssd)

TDM_DEVICE void tdm_tile_multiply(const tdm_tile_job *job, int *tile) {
    tile_run run;
    run.strip =
        job->in_place ? PLAIN(const uchar, job->in_place) : PLAIN(const uchar, job->strip);
    run.strip_row = job->in_place ? job->a_row : STRIDE;
    run.panel = job->b_packed ? PLAIN(const char, job->packed) : PLAIN(const char, job->panel);
    run.from = job->first ? 0 : PLAIN(int, job->kept);
    run.add = job->add;
    run.to = job->straight ? PLAIN(int, job->d) : job->last ? tile : PLAIN(int, job->kept);
    run.to_row = job->straight ? job->d_row : NR;
    run.prefetch = &job->prefetch;
    run.tiles = job->tiles;
    run.quads = job->quads;
    run.streams = job->straight && job->streams;
    const int few = job->rows <= REGISTER_ROWS;
    if (job->a_signed && few)
        multiply_few_signed(&run);
    else if (job->a_signed)
        multiply_signed(&run);
    else if (few)
        multiply_few_unsigned(&run);
    else
        multiply_unsigned(&run);
}

#include "gemm_int_panel_kernel.h"
