#include <math.h>

#include "cli/quantize/quantize_pass_state.h"
#include "quant/quant_blocks.h"

enum {
    MOST_RUN = 1024 /* elements of a column that are looked at together */
};

static const tdm_quant_bounds nothing = {HUGE_VALF, -HUGE_VALF};

static tdm_quant_bounds joined(tdm_quant_bounds a, tdm_quant_bounds b) {
    return (tdm_quant_bounds){b.minimum < a.minimum ? b.minimum : a.minimum,
                              b.maximum > a.maximum ? b.maximum : a.maximum};
}

/* A share of columns that have a scale each, or a share of a row that has one. */
static void see_share(void *context, int index) {
    pass_state *const state = context;
    share *const part = &state->shares[index];
    const int by_column = state->spec.blocks[1] == 1;
    if (share_count(part) == 0 || quantize_pass_load(state, part) != 0)
        return;
    const float *x = state->before + part->at;
    tdm_quant_bounds *const bounds =
        by_column ? state->bounds + (part->of.column - state->bounds_first) : state->bounds + index;
    for (int64_t i = 0; i < part->of.rows; i++)
        for (int64_t j = 0; j < part->of.columns; j++, x++)
            bounds[by_column ? j : 0] =
                joined(bounds[by_column ? j : 0], (tdm_quant_bounds){*x, *x});
}

static int see_tile(pass_state *state, const tile *t, int64_t unit, file_error *error) {
    quantize_pass_cut(state, t, 1, unit);
    parallel_shares(see_share, state);
    quantize_pass_release(state, t);
    return quantize_pass_check(state, error);
}

/* Nothing seen is the range {0, 0}. */
static void keep_scale(pass_state *state, int64_t scale, tdm_quant_bounds seen) {
    if (seen.minimum > seen.maximum)
        seen = (tdm_quant_bounds){0.0f, 0.0f};
    const tdm_quant_parameters parameters =
        tdm_quant_derive_kept(state->symmetry, seen, state->spec.range, state->spec.scale_dtype);
    state->scales[scale] = parameters.scale;
    if (state->zero_points)
        state->zero_points[scale] = parameters.zero_point;
}

/* A row that has one scale, in pieces. */
static int range_row(pass_state *state, int64_t row, file_error *error) {
    tdm_quant_bounds seen = nothing;
    for (int i = 0; i < PARALLEL_SHARES; i++)
        state->bounds[i] = nothing;
    tile t = {.row = row, .rows = 1};
    for (; t.column < state->columns; t.column += t.columns) {
        t.columns = least(state->slab, state->columns - t.column);
        if (see_tile(state, &t, UNIT, error))
            return -1;
    }
    for (int i = 0; i < PARALLEL_SHARES; i++)
        seen = joined(seen, state->bounds[i]);
    keep_scale(state, row, seen);
    return 0;
}

/* Columns that have one scale each, as many as a slab holds, all rows of them. */
static int range_columns(pass_state *state, int64_t first, int64_t count, file_error *error) {
    const int is_plain = state->pass->tensor->storage == QUANTIZE_PLAIN;
    const int64_t high = least(MOST_RUN, state->slab / count);
    state->bounds_first = first;
    for (int64_t i = 0; i < count; i++)
        state->bounds[i] = nothing;
    for (tile t = {0, 0, first, count}; t.row < state->rows; t.row += t.rows) {
        t.rows = least(high, state->rows - t.row);
        if (see_tile(state, &t, is_plain ? 1 : TDM_QUANT_BLOCK_ELEMENTS, error))
            return -1;
    }
    for (int64_t i = 0; i < count; i++)
        keep_scale(state, first + i, state->bounds[i]);
    return 0;
}

static int64_t columns_at_once(const pass_state *state) {
    return least(state->slab, state->columns);
}

int64_t quantize_pass_bounds_count(const pass_state *state) {
    const int by_column = state->scales_before && state->spec.blocks[1] == 1;
    return by_column ? columns_at_once(state) : PARALLEL_SHARES;
}

int quantize_pass_derive_scales(pass_state *state, file_error *error) {
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
