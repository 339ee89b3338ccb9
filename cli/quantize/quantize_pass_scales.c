#include <string.h>

#include "cli/quantize/quantize_pass_state.h"
#include "quant/quant_blocks.h"

enum {
    RANGING_BYTES = 8 << 20, /* of columns whose ranges are found at one time */
    MOST_RUN = 1024          /* elements of a column that are looked at together */
};

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
    if (share_count(part) == 0 || quantize_pass_load(state, part) != 0)
        return;
    if (state->spec.blocks[1] == 1)
        see_columns(state, part);
    else
        quantize_ranging_see(&state->rule, ranging_at(state, index), state->before + part->at,
                             share_count(part));
}

static int see_tile(pass_state *state, const tile *t, int64_t unit, file_error *error) {
    quantize_pass_cut(state, t, 1, unit);
    parallel_shares(see_share, state);
    quantize_pass_release(state, t);
    return quantize_pass_check(state, error);
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

size_t quantize_pass_ranging_total(pass_state *state) {
    state->ranging_bytes = quantize_ranging_bytes(&state->rule);
    const int columns = state->scales_before && state->spec.blocks[1] == 1;
    return (size_t)(columns ? columns_at_once(state) : PARALLEL_SHARES) * state->ranging_bytes;
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
