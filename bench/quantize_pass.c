#include "bench/quantize_pass.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "bench/file_mapping.h"
#include "bench/parallel_shares.h"
#include "bench/quantize_lost.h"
#include "bench/quantize_pieces.h"
#include "bench/quantize_ranging.h"
#include "quant/number_formats.h"
#include "quant/quant_blocks.h"
#include "quant/quant_reference.h"

enum {
    SLAB_ELEMENTS = 1 << 19,
    RANGING_BYTES = 8 << 20, /* of columns whose ranges are found at one time */
    MOST_BAND = 128,         /* rows of a tile whose columns are cut */
    MOST_RUN = 1024,         /* elements of a column that are looked at together */
    UNIT = 128               /* columns that are not cut: whole bytes, blocks and groups */
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
 * The state of one pass. The tensor is a matrix, of one row where nothing hangs on rows. Tiles are as many whole rows as a
 * slab holds, or, where the rows that share scales are more than that, pieces of these rows. Scales that span more than a
 * tile are made in passes of their own before.
 */
typedef struct pass_state {
    const quantize_pass *pass;
    tdm_quant_spec spec; /* of codes: that matrix */
    quantize_rule rule;  /* of codes */
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
    int32_t *zero_points;   /* of asymmetric codes, else NULL */
    unsigned char *ranging; /* each share's, or one for each column */
    size_t ranging_bytes;
    int64_t ranging_first; /* the column of the first */
    quantize_pieces *pieces;
    share shares[PARALLEL_SHARES];
} pass_state;

size_t quantize_code_bytes(tdm_dtype dtype, int64_t count) {
    return dtype == TDM_S4 ? ((size_t)count + 1) / 2 : (size_t)count;
}

static int64_t least(int64_t a, int64_t b) {
    return a < b ? a : b;
}

/* ---- what is cut how ---- */

static int has_codes(const pass_state *state) {
    return state->pass->scheme->kind == QUANTIZE_CODES;
}

static int rows_share_bytes(const pass_state *state) {
    return has_codes(state) && state->spec.dtype == TDM_S4 && state->columns % 2 != 0;
}

/* Rows that are worked at together: those that share scales, if they fit, and whole bytes. */
static int64_t band_of(const pass_state *state) {
    const int64_t block = state->spec.blocks[0];
    const int is_column = block == 0 && state->spec.blocks[1] != 0;
    if (block > 1)
        return least(block, state->rows);
    if (is_column && state->rows <= MOST_BAND && state->rows * state->columns > SLAB_ELEMENTS)
        return state->rows;
    return 1;
}

/* The tensor as a matrix: one row where nothing hangs on rows. */
static void plan_matrix(pass_state *state) {
    const tdm_quant_spec *const spec = &state->pass->spec;
    state->rows = 1;
    state->columns = quantize_element_count(state->pass->tensor);
    state->band = 1;
    if (!has_codes(state))
        return;
    if (spec->blocks[0] != 0 || spec->blocks[1] != 0) {
        state->rows = spec->shape[0];
        state->columns = spec->shape[1];
    }
    state->spec = *spec;
    state->spec.shape[0] = state->rows;
    state->spec.shape[1] = state->columns;
    state->band = band_of(state);
}

static void plan_tiles(pass_state *state) {
    /* Two rows of an odd number of s4 end with a byte. */
    const int64_t whole = state->band * (rows_share_bytes(state) && state->band % 2 != 0 ? 2 : 1);
    state->is_cut = !has_codes(state) || state->rows == 1 || whole * state->columns > SLAB_ELEMENTS;
    if (state->is_cut) {
        state->tile_rows = state->band;
        state->tile_columns = least(SLAB_ELEMENTS / state->band / UNIT * UNIT, state->columns);
    } else {
        state->band = whole;
        state->tile_rows = least(SLAB_ELEMENTS / (whole * state->columns) * whole, state->rows);
        state->tile_columns = state->columns;
    }
    state->slab = state->tile_rows * state->tile_columns;
}

/* What is made when, and how it goes out. */
static void plan_order(pass_state *state) {
    const int64_t *const blocks = state->spec.blocks;
    const int is_tall = blocks[0] == 0 && state->band < state->rows;
    const int is_wide = blocks[1] == 0 && (blocks[0] == 0 || state->is_cut);
    state->scales_before = is_tall || is_wide;
    state->in_pieces = state->is_cut && (state->band > 1 || rows_share_bytes(state));
}

/* The tile after one, the first after one of no rows; 0 when there is none. */
static int next_tile(const pass_state *state, tile *t) {
    t->column += t->rows > 0 ? t->columns : 0;
    if (t->column == state->columns) {
        t->column = 0;
        t->row += t->rows;
    }
    t->rows = least(state->tile_rows, state->rows - t->row);
    t->columns = least(state->tile_columns, state->columns - t->column);
    return t->rows > 0 && t->columns > 0;
}

/* Cut a tile into shares: rows in whole bands, or columns in whole units. */
static void cut(pass_state *state, const tile *t, int by_columns, int64_t unit) {
    const int64_t total = by_columns ? t->columns : t->rows;
    const int64_t units = (total + unit - 1) / unit;
    int64_t at = 0;
    for (int i = 0; i < PARALLEL_SHARES; i++) {
        const int64_t begin = least(units * i / PARALLEL_SHARES * unit, total);
        const int64_t end = least(units * (i + 1) / PARALLEL_SHARES * unit, total);
        tile of = *t;
        if (by_columns) {
            of.column += begin;
            of.columns = end - begin;
        } else {
            of.row += begin;
            of.rows = end - begin;
        }
        state->shares[i] = (share){.of = of, .at = at, .nonfinite = -1, .unscaled = -1};
        at += of.rows * of.columns;
    }
}

static int64_t share_count(const share *part) {
    return part->of.rows * part->of.columns;
}

/* Element of the tensor that is number i of a share. */
static int64_t element_of(const pass_state *state, const share *part, int64_t i) {
    const tile *const of = &part->of;
    return (of->row + i / of->columns) * state->columns + of->column + i % of->columns;
}

static size_t output_bytes(const pass_state *state, int64_t elements) {
    const quantize_scheme *const scheme = state->pass->scheme;
    const quantize_tensor shape = {.storage = scheme->storage, .dtype = SAFETENSORS_F32};
    if (scheme->kind == QUANTIZE_CODES)
        return quantize_code_bytes(state->pass->spec.dtype, elements);
    if (scheme->kind == QUANTIZE_BLOCKS)
        return quantize_storage_bytes(&shape, elements);
    return (size_t)elements * (scheme->dtype == TDM_F32 ? 4 : 2);
}

/* The spec of a share as a matrix of its own. */
static tdm_quant_spec spec_of(const pass_state *state, const share *part) {
    tdm_quant_spec spec = state->spec;
    spec.shape[0] = part->of.rows;
    spec.shape[1] = part->of.columns;
    return spec;
}

/* Position of a tile's first scale, in the tensor's. */
static int64_t first_scale(const pass_state *state, const tile *t) {
    const tdm_quant_spec *const spec = &state->spec;
    int64_t shape[TDM_QUANT_MAX_RANK];
    tdm_quant_scale_shape(spec, shape);
    const int64_t row = spec->blocks[0] == 0 ? 0 : t->row / spec->blocks[0];
    const int64_t column = spec->blocks[1] == 0 ? 0 : t->column / spec->blocks[1];
    return row * shape[1] + column;
}

/* ---- one share ---- */

/* Numbers of F64 are measured, and made other floats, as they are; codes and blocks are made of them in f32. */
static int is_wide(const pass_state *state) {
    const quantize_tensor *const tensor = state->pass->tensor;
    return tensor->storage == QUANTIZE_PLAIN && tensor->dtype == SAFETENSORS_F64;
}

/* Number i of a share of F64. */
static double wide_at(const pass_state *state, const share *part, int64_t i) {
    return tdm_number_get(TDM_F64, state->pass->tensor->data, (size_t)element_of(state, part, i));
}

/* As one that is not finite is what f32 has no room for, where it has to. */
static int64_t find_wide_nonfinite(const pass_state *state, const share *part) {
    const int in_f32 = state->pass->scheme->kind != QUANTIZE_FLOATS;
    for (int64_t i = 0; i < share_count(part); i++) {
        const double x = wide_at(state, part, i);
        if (!isfinite(x) || (in_f32 && isinf((float)x)))
            return i;
    }
    return -1;
}

static int64_t find_nonfinite(const float *values, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        if (!isfinite(values[i]))
            return i;
    return -1;
}

/* Elements of a share into the slab; 0 when all of them are finite. */
static int load(pass_state *state, share *part) {
    const tile *const of = &part->of;
    float *const before = state->before + part->at;
    const int64_t rows = of->columns == state->columns ? 1 : of->rows;
    const int64_t columns = share_count(part) / rows;
    for (int64_t i = 0; i < rows; i++)
        quantize_read_floats(state->pass->tensor, element_of(state, part, i * of->columns), columns,
                             before + i * columns);
    const int64_t found = is_wide(state) ? find_wide_nonfinite(state, part)
                                         : find_nonfinite(before, share_count(part));
    if (found < 0)
        return 0;
    part->nonfinite = element_of(state, part, found);
    part->found = is_wide(state) ? wide_at(state, part, found) : (double)before[found];
    return -1;
}

/* Rounded once, and limited to the largest number where that is beyond it. */
static void make_narrow(pass_state *state, share *part) {
    const tdm_dtype dtype = state->pass->scheme->dtype;
    const size_t bytes = dtype == TDM_F32 ? 4 : 2;
    const float most = dtype == TDM_F32   ? FLT_MAX
                       : dtype == TDM_F16 ? 65504.0f
                                          : tdm_f32_from_bf16(0x7f7f);
    for (int64_t i = 0; i < share_count(part); i++) {
        unsigned char *const to = state->bytes + (size_t)(part->at + i) * bytes;
        const double x = wide_at(state, part, i);
        tdm_number_set(dtype, to, 0, x);
        float y = (float)tdm_number_get(dtype, to, 0);
        if (isinf(y)) {
            y = copysignf(most, y);
            tdm_number_set(dtype, to, 0, (double)y);
            part->outcome.saturated++;
        }
        state->after[part->at + i] = y;
        part->outcome.zeroed += x != 0 && y == 0;
    }
}

static void make_floats(pass_state *state, share *part) {
    if (is_wide(state)) {
        make_narrow(state, part);
        return;
    }
    const tdm_dtype dtype = state->pass->scheme->dtype;
    const int64_t at = part->at, count = share_count(part);
    const float *const before = state->before + at;
    float *const after = state->after + at;
    if (dtype == TDM_F32) {
        memcpy(state->bytes + 4 * at, before, (size_t)count * sizeof *before);
        memcpy(after, before, (size_t)count * sizeof *before);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        const uint16_t bits = tdm_quant_narrow(dtype, before[i], true);
        after[i] = dtype == TDM_F16 ? tdm_f32_from_f16(bits) : tdm_f32_from_bf16(bits);
        part->outcome.saturated += tdm_quant_narrow(dtype, before[i], false) != bits;
        part->outcome.zeroed += before[i] != 0 && after[i] == 0;
        memcpy(state->bytes + 2 * (at + i), &bits, sizeof bits);
    }
}

static void make_blocks(pass_state *state, share *part) {
    const int64_t at = part->at, count = share_count(part);
    const size_t blocks = (size_t)count / TDM_QUANT_BLOCK_ELEMENTS;
    void *const encoded = state->bytes + output_bytes(state, at);
    const int q8_0 = state->pass->scheme->storage == QUANTIZE_Q8_0;
    const size_t done = q8_0 ? tdm_quant_q8_0_encode(state->before + at, blocks, encoded)
                             : tdm_quant_q4_0_encode(state->before + at, blocks, encoded);
    if (done < blocks) {
        part->unscaled = element_of(state, part, (int64_t)done * TDM_QUANT_BLOCK_ELEMENTS);
        return;
    }
    quantize_lost_in_blocks(state->before + at, encoded,
                            q8_0 ? TDM_QUANT_Q8_0_BYTES : TDM_QUANT_Q4_0_BYTES, blocks,
                            &part->outcome);
    if (q8_0)
        tdm_quant_q8_0_decode(encoded, blocks, state->after + at);
    else
        tdm_quant_q4_0_decode(encoded, blocks, state->after + at);
}

static void make_codes(pass_state *state, share *part) {
    const tdm_quant_spec spec = spec_of(state, part);
    const float *const before = state->before + part->at;
    void *const codes = state->bytes + output_bytes(state, part->at);
    const int64_t scale = state->scales_before ? first_scale(state, &part->of) : part->at;
    float *const scales = state->scales + scale;
    int32_t *const zero_points = state->zero_points ? state->zero_points + scale : NULL;
    const int index = (int)(part - state->shares);
    if (!state->scales_before && state->rule.kind == TDM_QUANT_OBSERVE_MINMAX)
        tdm_quant_dynamic_tensor(&spec, state->rule.symmetry, TDM_F32, before, scales, zero_points,
                                 NULL);
    else if (!state->scales_before)
        quantize_ranging_blocks(
            &state->rule, &spec, before,
            (quantize_ranging *)(state->ranging + (size_t)index * state->ranging_bytes), scales,
            zero_points);
    tdm_quant_quantize_tensor(&spec, TDM_F32, before, scales, zero_points, codes);
    tdm_quant_dequantize_tensor(&spec, codes, scales, zero_points, TDM_F32,
                                state->after + part->at);
    quantize_lost_in_codes(&spec, scales, before, state->after + part->at, &part->outcome);
}

static void measure(const pass_state *state, share *part) {
    enum {
        PIECE = 256
    };
    const float *const after = state->after + part->at;
    double source[PIECE];
    if (!is_wide(state)) {
        tdm_quant_error_add(&part->outcome.errors, state->before + part->at, after,
                            (size_t)share_count(part));
        return;
    }
    for (int64_t i = 0; i < share_count(part); i += PIECE) {
        const int64_t count = least(PIECE, share_count(part) - i);
        for (int64_t j = 0; j < count; j++)
            source[j] = wide_at(state, part, i + j);
        tdm_quant_error_add_f64(&part->outcome.errors, source, after + i, (size_t)count);
    }
}

static void make_share(void *context, int index) {
    pass_state *const state = context;
    share *const part = &state->shares[index];
    if (share_count(part) == 0 || load(state, part) != 0)
        return;
    switch (state->pass->scheme->kind) {
    case QUANTIZE_FLOATS:
        make_floats(state, part);
        break;
    case QUANTIZE_BLOCKS:
        make_blocks(state, part);
        break;
    default:
        make_codes(state, part);
    }
    if (part->unscaled < 0)
        measure(state, part);
}

static int check_shares(const pass_state *state, file_error *error) {
    const file_name name = file_printable(state->pass->tensor->name);
    const share *first = NULL;
    for (int i = 0; i < PARALLEL_SHARES; i++) {
        const share *const part = &state->shares[i];
        if (part->nonfinite >= 0 && (!first || part->nonfinite < first->nonfinite))
            first = part;
        if (part->unscaled >= 0)
            return file_fail(error,
                             "elements %lld to %lld of tensor \"%s\" are too large for the scale "
                             "of a %s block, which ends at 65504",
                             (long long)part->unscaled, (long long)part->unscaled + 31, name.text,
                             state->pass->scheme->name);
    }
    return first ? file_fail(error, "element %lld of tensor \"%s\" is %g: %s",
                             (long long)first->nonfinite, name.text, first->found,
                             isfinite(first->found) ? "beyond the largest number of f32, 3.4e38"
                                                    : "not finite")
                 : 0;
}

/* Let go of the memory of a tile of the input, and of what lies between its rows. */
static void release(const pass_state *state, const tile *t) {
    quantize_release(state->pass->tensor, t->row * state->columns + t->column,
                     (t->rows - 1) * state->columns + t->columns);
}

/* ---- scales before ---- */

static quantize_ranging *ranging_at(const pass_state *state, int64_t index) {
    return (quantize_ranging *)(state->ranging + (size_t)index * state->ranging_bytes);
}

/* One for each column; a column is collected, so that loops over numbers are not over pieces of one. */
static void see_columns(const pass_state *state, const share *part) {
    const tile *const of = &part->of;
    const float *const before = state->before + part->at;
    float column[MOST_RUN];
    for (int64_t j = 0; j < of->columns; j++) {
        for (int64_t i = 0; i < of->rows; i++)
            column[i] = before[i * of->columns + j];
        quantize_ranging_see(&state->rule, ranging_at(state, of->column + j - state->ranging_first),
                             column, of->rows);
    }
}

static void see_share(void *context, int index) {
    pass_state *const state = context;
    share *const part = &state->shares[index];
    if (share_count(part) == 0 || load(state, part) != 0)
        return;
    if (state->spec.blocks[1] == 1)
        see_columns(state, part);
    else
        quantize_ranging_see(&state->rule, ranging_at(state, index), state->before + part->at,
                             share_count(part));
}

static int see_tile(pass_state *state, const tile *t, int64_t unit, file_error *error) {
    cut(state, t, 1, unit);
    parallel_shares(see_share, state);
    release(state, t);
    return check_shares(state, error);
}

static void keep_scale(pass_state *state, int64_t scale, const quantize_ranging *ranging) {
    const tdm_quant_parameters parameters = quantize_ranging_end(&state->rule, ranging);
    state->scales[scale] = parameters.scale;
    if (state->zero_points)
        state->zero_points[scale] = parameters.zero_point;
}

/* A row that has one scale, in pieces; each share has a ranging of its own, and all are one in the end. */
static int range_row(pass_state *state, int64_t row, file_error *error) {
    for (int i = 0; i < PARALLEL_SHARES; i++)
        quantize_ranging_begin(&state->rule, ranging_at(state, i));
    for (int round = 0; round < quantize_ranging_rounds(&state->rule); round++) {
        for (int i = 0; round > 0 && i < PARALLEL_SHARES; i++) {
            memcpy(ranging_at(state, i), ranging_at(state, 0), state->ranging_bytes);
            quantize_ranging_next(&state->rule, ranging_at(state, i));
        }
        tile t = {.row = row, .rows = 1};
        for (; t.column < state->columns; t.column += t.columns) {
            t.columns = least(state->slab, state->columns - t.column);
            if (see_tile(state, &t, UNIT, error))
                return -1;
        }
        for (int i = 1; i < PARALLEL_SHARES; i++)
            quantize_ranging_merge(&state->rule, ranging_at(state, 0), ranging_at(state, i));
    }
    keep_scale(state, row, ranging_at(state, 0));
    return 0;
}

/* Columns that have one scale each, as many as there is room for, all rows of them. */
static int range_columns(pass_state *state, int64_t first, int64_t count, file_error *error) {
    const int is_plain = state->pass->tensor->storage == QUANTIZE_PLAIN;
    const int64_t high = least(MOST_RUN, state->slab / count > 0 ? state->slab / count : 1);
    state->ranging_first = first;
    for (int64_t i = 0; i < count; i++)
        quantize_ranging_begin(&state->rule, ranging_at(state, i));
    for (int round = 0; round < quantize_ranging_rounds(&state->rule); round++) {
        for (int64_t i = 0; round > 0 && i < count; i++)
            quantize_ranging_next(&state->rule, ranging_at(state, i));
        for (tile t = {0, 0, first, count}; t.row < state->rows; t.row += t.rows) {
            t.rows = least(high, state->rows - t.row);
            if (see_tile(state, &t, is_plain ? 1 : TDM_QUANT_BLOCK_ELEMENTS, error))
                return -1;
        }
    }
    for (int64_t i = 0; i < count; i++)
        keep_scale(state, first + i, ranging_at(state, i));
    return 0;
}

/* Columns that are ranged at one time: whole blocks. */
static int64_t columns_at_once(const pass_state *state) {
    const int64_t most = RANGING_BYTES / (int64_t)state->ranging_bytes / UNIT * UNIT;
    return least(least(most, SLAB_ELEMENTS), state->columns);
}

static int derive_scales(pass_state *state, file_error *error) {
    if (state->spec.blocks[1] != 1) {
        for (int64_t row = 0; row < state->rows; row++)
            if (range_row(state, row, error))
                return -1;
        return 0;
    }
    const int64_t most = columns_at_once(state);
    for (int64_t first = 0; first < state->columns; first += most)
        if (range_columns(state, first, least(most, state->columns - first), error))
            return -1;
    return 0;
}

/* ---- output ---- */

/* Scales in the type that they are kept in, in the place where they are: never ahead of what is read. Returns their bytes. */
static size_t store_scales(const pass_state *state, float *scales, int64_t count) {
    const tdm_dtype dtype = state->spec.scale_dtype;
    if (dtype != TDM_F16 && dtype != TDM_BF16)
        return (size_t)count * sizeof *scales;
    for (int64_t i = 0; i < count; i++) {
        const uint16_t bits = tdm_quant_narrow(dtype, scales[i], false);
        memcpy((unsigned char *)scales + 2 * i, &bits, sizeof bits);
    }
    return (size_t)count * sizeof(uint16_t);
}

/* Scales `first` … first + count − 1 of the tensor, which are those from `at` on, and their zero points in the type of the codes, s4
 * in bytes. */
static int put_parameters(const pass_state *state, int64_t first, int64_t at, int64_t count,
                          file_error *error) {
    const quantize_target *const target = &state->pass->target;
    const size_t bytes = store_scales(state, state->scales + at, count);
    const size_t each = bytes / (size_t)count;
    if (target->put(target->user, target->scale, (uint64_t)first * each, state->scales + at, bytes,
                    error))
        return -1;
    if (!state->zero_points)
        return 0;
    unsigned char *const zero_points = (unsigned char *)(state->zero_points + at);
    for (int64_t i = 0; i < count; i++)
        zero_points[i] = (unsigned char)state->zero_points[at + i]; /* never ahead either */
    return target->put(target->user, target->zero_point, (uint64_t)first, zero_points,
                       (size_t)count, error);
}

static int put_pieces(const pass_state *state, const share *part, file_error *error) {
    const tile *const of = &part->of;
    const unsigned char *const codes = state->bytes + output_bytes(state, part->at);
    for (int64_t i = 0; i < of->rows; i++)
        if (quantize_pieces_put(state->pieces, element_of(state, part, i * of->columns),
                                of->columns, codes, i * of->columns, error))
            return -1;
    return 0;
}

/* What the shares of a tile have made: scales, and codes that do not follow each other in the output. */
static int put_share(const pass_state *state, const share *part, file_error *error) {
    if (has_codes(state) && !state->scales_before) {
        const tdm_quant_spec spec = spec_of(state, part);
        if (put_parameters(state, first_scale(state, &part->of), part->at,
                           tdm_quant_scale_count(&spec), error))
            return -1;
    }
    return state->in_pieces ? put_pieces(state, part, error) : 0;
}

static void show_share(const pass_state *state, const share *part) {
    const quantize_witness *const witness = &state->pass->witness;
    const quantize_part seen = {.first = element_of(state, part, 0),
                                .rows = part->of.rows,
                                .columns = part->of.columns,
                                .stride = state->columns,
                                .before = state->before + part->at,
                                .after = state->after + part->at};
    if (witness->see)
        witness->see(witness->user, &seen);
}

static int run_tile(pass_state *state, const tile *t, quantize_outcome *outcome,
                    file_error *error) {
    const quantize_target *const target = &state->pass->target;
    cut(state, t, state->is_cut, state->is_cut ? UNIT : state->band);
    parallel_shares(make_share, state);
    release(state, t);
    if (check_shares(state, error))
        return -1;
    for (int i = 0; i < PARALLEL_SHARES; i++) {
        const share *const part = &state->shares[i];
        tdm_quant_error_merge(&outcome->errors, &part->outcome.errors);
        outcome->saturated += part->outcome.saturated;
        outcome->zeroed += part->outcome.zeroed;
        if (share_count(part) == 0)
            continue;
        show_share(state, part);
        if (put_share(state, part, error))
            return -1;
    }
    return state->in_pieces
               ? 0
               : target->put(target->user, target->data,
                             output_bytes(state, t->row * state->columns + t->column), state->bytes,
                             output_bytes(state, t->rows * t->columns), error);
}

/* ---- the pass ---- */

static void *array(int64_t count, size_t size) {
    return calloc((size_t)count + 1, size);
}

/* Bytes of what finds ranges: for each share, or for each column that is looked at. */
static size_t ranging_total(pass_state *state) {
    state->ranging_bytes = quantize_ranging_bytes(&state->rule);
    const int columns = state->scales_before && state->spec.blocks[1] == 1;
    return (size_t)(columns ? columns_at_once(state) : PARALLEL_SHARES) * state->ranging_bytes;
}

static int allocate_codes(pass_state *state) {
    const int64_t scales = state->scales_before ? tdm_quant_scale_count(&state->spec) : state->slab;
    state->scales = array(scales, sizeof *state->scales);
    state->ranging = array(1, ranging_total(state));
    if (state->rule.symmetry == TDM_QUANT_ASYMMETRIC)
        state->zero_points = array(scales, sizeof *state->zero_points);
    /* Of each row of a band the beginning and the end of what is done. */
    if (state->in_pieces)
        state->pieces = quantize_pieces_create(&state->pass->target, state->spec.dtype, state->slab,
                                               2 * MOST_BAND + 2);
    return state->scales && state->ranging &&
                   (state->zero_points || state->rule.symmetry == TDM_QUANT_SYMMETRIC) &&
                   (state->pieces || !state->in_pieces)
               ? 0
               : -1;
}

static int allocate(pass_state *state) {
    state->before = array(state->slab, sizeof *state->before);
    state->after = array(state->slab, sizeof *state->after);
    state->bytes = array(1, output_bytes(state, state->slab));
    return state->before && state->after && state->bytes &&
                   (!has_codes(state) || allocate_codes(state) == 0)
               ? 0
               : -1;
}

static int run(pass_state *state, quantize_outcome *outcome, file_error *error) {
    if (allocate(state))
        return file_fail(error, "out of memory for a slab of tensor \"%s\"",
                         file_printable(state->pass->tensor->name).text);
    if (state->scales_before && derive_scales(state, error))
        return -1;
    for (tile t = {.rows = 0}; next_tile(state, &t);)
        if (run_tile(state, &t, outcome, error))
            return -1;
    if (state->in_pieces && quantize_pieces_finish(state->pieces, error))
        return -1;
    return state->scales_before
               ? put_parameters(state, 0, 0, tdm_quant_scale_count(&state->spec), error)
               : 0;
}

int quantize_pass_run(const quantize_pass *pass, quantize_outcome *outcome, file_error *error) {
    pass_state state = {.pass = pass};
    memset(outcome, 0, sizeof *outcome);
    plan_matrix(&state);
    plan_tiles(&state);
    if (has_codes(&state)) {
        plan_order(&state);
        const tdm_quant_scheme *const rules = tdm_quant_scheme_info(pass->scheme->rules);
        state.rule = (quantize_rule){.kind = pass->observer,
                                     .percent = pass->percent,
                                     .symmetry = rules->symmetry,
                                     .range = pass->spec.range,
                                     .scale_dtype = pass->spec.scale_dtype};
    }
    const int result = run(&state, outcome, error);
    free(state.before);
    free(state.after);
    free(state.bytes);
    free(state.scales);
    free(state.zero_points);
    free(state.ranging);
    quantize_pieces_destroy(state.pieces);
    return result;
}

int quantize_copy(const quantize_tensor *tensor, const quantize_target *target, file_error *error) {
    enum {
        PIECE = 4 << 20
    };
    const unsigned char *const bytes = tensor->data;
    for (size_t done = 0; done < tensor->bytes;) {
        const size_t left = tensor->bytes - done;
        const size_t size = left < PIECE ? left : PIECE;
        if (target->put(target->user, target->data, done, bytes + done, size, error))
            return -1;
        file_release_pages(tensor->floor, bytes + done, size);
        done += size;
    }
    return 0;
}
