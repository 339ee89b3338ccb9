/*
 * What the parts of a pass over one tensor share: quantize_pass.c cuts it into tiles and puts out what becomes of them,
 * quantize_pass_share.c makes it of each share of a tile, quantize_pass_scales.c finds scales that span more than a tile.
 */
#ifndef TANDEM_CLI_QUANTIZE_QUANTIZE_PASS_STATE_H
#define TANDEM_CLI_QUANTIZE_QUANTIZE_PASS_STATE_H

#include "cli/quantize/quantize_pass.h"
#include "common/parallel_shares.h"

enum {
    SLAB_ELEMENTS = 1 << 19,
    UNIT = 128 /* columns that are not cut: whole bytes, blocks and groups */
};

/* Rows of a matrix from a column on. */
typedef struct tile {
    int64_t row, rows;
    int64_t column, columns;
} tile;

/* A part of a tile that one thread works at. */
typedef struct share {
    tile of;
    int64_t at; /* its elements in the slab, rows one after another; its scales begin there, too */
    int64_t nonfinite; /* first element of the tensor that is not finite, or -1 */
    double found;      /* it */
    int64_t unscaled;  /* first element of a block without a scale, or -1 */
    quantize_outcome outcome;
} share;

/*
 * The state of one pass. The tensor, or each matrix of a stack, is a matrix, of one row where nothing hangs on rows. Tiles are as many whole rows as a
 * slab holds, or, where the rows that share scales are more than that, pieces of these rows. Scales that span more than a
 * tile are made in passes of their own before.
 */
typedef struct pass_state {
    const quantize_pass *pass;
    tdm_quant_spec spec;         /* of codes: that matrix */
    tdm_quant_symmetry symmetry; /* of codes */
    int64_t first;               /* element of the tensor that the matrix begins with */
    int64_t first_scale;         /* and the first of its scales */
    int64_t rows, columns;
    int64_t band;                    /* rows that stay together */
    int64_t tile_rows, tile_columns; /* of a tile, at most */
    int64_t slab;                    /* elements of a tile, at most */
    int is_cut;                      /* tiles are pieces of a band */
    int scales_before;               /* made before, of the whole tensor; else of a slab */
    int in_pieces;                   /* codes go out row by row */
    float *before;                   /* a slab */
    float *after;
    unsigned char *bytes;
    float *scales;
    int32_t *zero_points;     /* of asymmetric codes, else NULL */
    tdm_quant_bounds *bounds; /* each share's, or one for each column */
    int64_t bounds_first;     /* the column of the first */
    share shares[PARALLEL_SHARES];
} pass_state;

static inline int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

static inline int has_codes(const pass_state *state) {
    return state->pass->scheme->kind == QUANTIZE_CODES;
}

static inline int64_t share_count(const share *part) {
    return part->of.rows * part->of.columns;
}

/* Element of the tensor that is number i of a share. */
static inline int64_t element_of(const pass_state *state, const share *part, int64_t i) {
    const tile *const of = &part->of;
    return state->first + (of->row + i / of->columns) * state->columns + of->column +
           i % of->columns;
}

/* ---- shares: quantize_pass_share.c ---- */

/* Cut a tile into shares: rows in whole bands, or columns in whole units. */
void quantize_pass_cut(pass_state *state, const tile *t, int by_columns, int64_t unit);

/* Bytes that become of a number of elements. */
size_t quantize_pass_bytes(const pass_state *state, int64_t elements);

/* The spec of a share as a matrix of its own. */
tdm_quant_spec quantize_pass_spec(const pass_state *state, const share *part);

/* Position of a tile's first scale, in the tensor's. */
int64_t quantize_pass_first_scale(const pass_state *state, const tile *t);

/* Elements of a share into the slab; 0 when all of them are finite. */
int quantize_pass_load(pass_state *state, share *part);

/* Load one, make what it becomes, and measure that: what parallel_shares calls with the state. */
void quantize_pass_make_share(void *context, int index);

/* 0 when all shares were fit, or -1 with the reason. */
int quantize_pass_check(const pass_state *state, file_error *error);

/* Let go of the memory of a tile of the input, and of what lies between its rows. */
void quantize_pass_release(const pass_state *state, const tile *t);

/* ---- scales that span more than a tile: quantize_pass_scales.c ---- */

/* How many ranges are looked at together: one for each share, or for each column of a slab. */
int64_t quantize_pass_bounds_count(const pass_state *state);

/* Make all scales of the tensor, in passes over it. 0, or -1 with the reason. */
int quantize_pass_derive_scales(pass_state *state, file_error *error);

#endif
