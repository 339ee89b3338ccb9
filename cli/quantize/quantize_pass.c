#include "cli/quantize/quantize_pass.h"

#include <stdlib.h>
#include <string.h>

#include "cli/quantize/quantize_pass_state.h"
#include "common/parallel_shares.h"
#include "formats/file_mapping.h"
#include "quant/number_formats.h"
#include "quant/quant_reference.h"

enum {
    MOST_BAND = 128 /* rows of a tile whose columns are cut */
};

/* ---- what is cut how ---- */

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
    state->columns = has_codes(state) ? tdm_quant_element_count(spec)
                                      : quantize_element_count(state->pass->tensor);
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

int quantize_pass_can_write(const quantize_pass *pass) {
    pass_state state = {.pass = pass};
    plan_matrix(&state);
    plan_tiles(&state);
    return !state.is_cut || state.rows == 1 || !rows_share_bytes(&state);
}

/* What is made when, and how it goes out. */
static void plan_order(pass_state *state) {
    const int64_t *const blocks = state->spec.blocks;
    const int is_tall = blocks[0] == 0 && state->band < state->rows;
    const int is_wide = blocks[1] == 0 && (blocks[0] == 0 || state->is_cut);
    state->scales_before = is_tall || is_wide;
    state->in_pieces = state->is_cut && state->band > 1;
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

/* Scales `first` … first + count − 1 of the matrix, which are those from `at` on, and their zero points in the type of the codes, s4
 * in bytes. */
static int put_parameters(const pass_state *state, int64_t first, int64_t at, int64_t count,
                          file_error *error) {
    const quantize_target *const target = &state->pass->target;
    const uint64_t place = (uint64_t)(state->first_scale + first);
    const size_t bytes = store_scales(state, state->scales + at, count);
    const size_t each = bytes / (size_t)count;
    if (target->put(target->user, target->scale, place * each, state->scales + at, bytes, error))
        return -1;
    if (!state->zero_points)
        return 0;
    unsigned char *const zero_points = (unsigned char *)(state->zero_points + at);
    for (int64_t i = 0; i < count; i++)
        zero_points[i] = (unsigned char)state->zero_points[at + i]; /* never ahead either */
    return target->put(target->user, target->zero_point, place, zero_points, (size_t)count, error);
}

/* Rows are whole bytes here: quantize_pass_can_write. */
static int put_pieces(const pass_state *state, const share *part, file_error *error) {
    const quantize_target *const target = &state->pass->target;
    const unsigned char *const codes = state->bytes + quantize_pass_bytes(state, part->at);
    const size_t bytes = quantize_pass_bytes(state, part->of.columns);
    for (int64_t i = 0; i < part->of.rows; i++) {
        const int64_t element = element_of(state, part, i * part->of.columns);
        if (bytes > 0 &&
            target->put(target->user, target->data, quantize_pass_bytes(state, element),
                        codes + (size_t)i * bytes, bytes, error))
            return -1;
    }
    return 0;
}

/* What the shares of a tile have made: scales, and codes that do not follow each other in the output. */
static int put_share(const pass_state *state, const share *part, file_error *error) {
    if (has_codes(state) && !state->scales_before) {
        const tdm_quant_spec spec = quantize_pass_spec(state, part);
        if (put_parameters(state, quantize_pass_first_scale(state, &part->of), part->at,
                           tdm_quant_scale_count(&spec), error))
            return -1;
    }
    return state->in_pieces ? put_pieces(state, part, error) : 0;
}

static int run_tile(pass_state *state, const tile *t, quantize_outcome *outcome,
                    file_error *error) {
    const quantize_target *const target = &state->pass->target;
    quantize_pass_cut(state, t, state->is_cut, state->is_cut ? UNIT : state->band);
    parallel_shares(quantize_pass_make_share, state);
    quantize_pass_release(state, t);
    if (quantize_pass_check(state, error))
        return -1;
    for (int i = 0; i < PARALLEL_SHARES; i++) {
        const share *const part = &state->shares[i];
        tdm_quant_error_merge(&outcome->errors, &part->outcome.errors);
        outcome->saturated += part->outcome.saturated;
        outcome->zeroed += part->outcome.zeroed;
        if (share_count(part) == 0)
            continue;
        if (put_share(state, part, error))
            return -1;
    }
    return state->in_pieces
               ? 0
               : target->put(
                     target->user, target->data,
                     quantize_pass_bytes(state, state->first + t->row * state->columns + t->column),
                     state->bytes, quantize_pass_bytes(state, t->rows * t->columns), error);
}

/* ---- the pass ---- */

static void *array(int64_t count, size_t size) {
    return calloc((size_t)count + 1, size);
}

static int allocate_codes(pass_state *state) {
    const int64_t scales = state->scales_before ? tdm_quant_scale_count(&state->spec) : state->slab;
    state->scales = array(scales, sizeof *state->scales);
    state->bounds = array(quantize_pass_bounds_count(state), sizeof *state->bounds);
    if (state->symmetry == TDM_QUANT_ASYMMETRIC)
        state->zero_points = array(scales, sizeof *state->zero_points);
    return state->scales && state->bounds &&
                   (state->zero_points || state->symmetry == TDM_QUANT_SYMMETRIC)
               ? 0
               : -1;
}

static int allocate(pass_state *state) {
    state->before = array(state->slab, sizeof *state->before);
    state->after = array(state->slab, sizeof *state->after);
    state->bytes = array(1, quantize_pass_bytes(state, state->slab));
    return state->before && state->after && state->bytes &&
                   (!has_codes(state) || allocate_codes(state) == 0)
               ? 0
               : -1;
}

static int run(pass_state *state, quantize_outcome *outcome, file_error *error) {
    if (allocate(state))
        return file_fail(error, "out of memory for a slab of tensor \"%s\"",
                         file_printable(state->pass->tensor->name).text);
    if (state->scales_before && quantize_pass_derive_scales(state, error))
        return -1;
    for (tile t = {.rows = 0}; next_tile(state, &t);)
        if (run_tile(state, &t, outcome, error))
            return -1;
    return state->scales_before
               ? put_parameters(state, 0, 0, tdm_quant_scale_count(&state->spec), error)
               : 0;
}

/* Each matrix of a stack has scales of its own. */
static int run_matrix(const quantize_pass *pass, int64_t index, quantize_outcome *outcome,
                      file_error *error) {
    pass_state state = {.pass = pass};
    plan_matrix(&state);
    plan_tiles(&state);
    if (has_codes(&state)) {
        state.first = index * tdm_quant_element_count(&pass->spec);
        state.first_scale = index * tdm_quant_scale_count(&pass->spec);
        plan_order(&state);
        state.symmetry = tdm_quant_scheme_info(pass->scheme->rules)->symmetry;
    }
    const int result = run(&state, outcome, error);
    free(state.before);
    free(state.after);
    free(state.bytes);
    free(state.scales);
    free(state.zero_points);
    free(state.bounds);
    return result;
}

int quantize_pass_run(const quantize_pass *pass, quantize_outcome *outcome, file_error *error) {
    memset(outcome, 0, sizeof *outcome);
    int result = run_matrix(pass, 0, outcome, error);
    for (int64_t i = 1; result == 0 && i < pass->matrices; i++)
        result = run_matrix(pass, i, outcome, error);
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
