/* Attention for CPU cores with few queries of a KV head: decoding, where the time is that of
 * reading k and v. One work-item computes all rows of a KV head over its part of the keys, so k and
 * v are read once for all of them. The lanes of a vector are columns of a row, or keys in the
 * softmax. attention_lanes.cl has the formulas.
 *
 * Local memory holds, in this order: a block of k or v; then for each row its scores, its query and
 * its results, the last two with columns padded to a multiple of 64.
 *
 * Defines: VW floats of a vector. The grid is (parts, KV heads, batch). */
#include "kernels/dialect/dialect.h"
#include "attention_block.h"

#define V TDM_F32(VW)
#define K(constant) TDM_SPLAT(VW, constant)
TDM_DEFINE_EXP2(VW)
TDM_DEFINE_EXP2(1)
#define EXP2 TDM_CAT2(tdm_exp2_, VW)
#define MAXIMUM(a, b) TDM_SELECT_LT(VW, a, b, b, a)
#define ACROSS(name) TDM_CAT4(f32x, VW, _, name)

/* Four keys, or four vectors of a result row, are computed at a time. */
#define FOUR TDM_UNROLL for (int n = 0; n < 4; n++)

/* Computes the scores of one row with `count` keys; `width` is a multiple of VW. */
TDM_BODY void tdm_row_scores(TDM_LOCAL const float *keys, int count, TDM_LOCAL const float *query,
                             int width, TDM_LOCAL float *scores) {
    for (int j = 0; j < count; j += 4) {
        V sums[4];
        FOUR sums[n] = K(0.0f);
        for (int d = 0; d < width; d += VW) {
            const V q = TDM_LOADV(VW, f32, query, d);
            FOUR sums[n] =
                TDM_ATTENTION_MAD(q, TDM_LOADV(VW, f32, keys, (j + n) * TDM_PITCH + d), sums[n]);
        }
        FOUR scores[j + n] = ACROSS(sum)(sums[n]);
    }
}

/* Replaces the scores of a row by weights. Returns 2^(old maximum - new maximum), and updates the
 * maximum and the sum of weights. `scores` has room up to the next multiple of VW. */
TDM_BODY float tdm_row_weights(TDM_LOCAL float *scores, int count, float *largest, float *sum) {
    for (int j = count; j % VW != 0; j++)
        scores[j] = -INFINITY;
    V most = K(*largest), total = K(0.0f);
    for (int j = 0; j < count; j += VW)
        most = MAXIMUM(most, TDM_LOADV(VW, f32, scores, j));
    const float new_largest = ACROSS(hmax)(most);
    for (int j = 0; j < count; j += VW) {
        const V weight = EXP2(TDM_LOADV(VW, f32, scores, j) - K(new_largest));
        total = total + weight;
        TDM_STOREV(VW, f32, weight, scores, j);
    }
    const float factor = tdm_exp2_1(*largest - new_largest);
    *largest = new_largest;
    *sum = *sum * factor + ACROSS(sum)(total);
    return factor;
}

/* Multiplies a row of results by `factor` and adds the weighted values of `count` keys. */
TDM_BODY void tdm_row_results(TDM_LOCAL const float *values, int count,
                              TDM_LOCAL const float *weights, float factor, int width,
                              TDM_LOCAL float *results) {
    for (int d = 0; d < width; d += 4 * VW) {
        V sums[4];
        FOUR sums[n] = K(factor) * TDM_LOADV(VW, f32, results, d + n * VW);
        for (int j = 0; j < count; j++) {
            const V weight = K(weights[j]);
            FOUR sums[n] = TDM_ATTENTION_MAD(
                weight, TDM_LOADV(VW, f32, values, j * TDM_PITCH + d + n * VW), sums[n]);
        }
        FOUR TDM_STOREV(VW, f32, sums[n], results, d + n * VW);
    }
}

/* A row sees the keys first … end-1. `largest` and `sum` are its softmax so far. */
typedef struct {
    float largest, sum, factor;
    long first, end, mask_at;
} tdm_row_state;

/* Applies cap and mask to the scores of a row, and makes those of invisible keys -infinity. */
TDM_BODY void tdm_row_change(const tdm_row_state *state, TDM_GLOBAL const void *mask,
                             const tdm_attention_options_arg *more, const tdm_attention_arg *arg,
                             long key, int count, TDM_LOCAL float *scores) {
    for (int j = 0; j < count; j++) {
        float score = tdm_attention_score(scores[j], arg);
        if (arg->mask_type)
            score += TDM_LOG2_E * tdm_load_any(mask, arg->mask_type,
                                               state->mask_at + (key + j) * more->mask.column);
        scores[j] = key + j < state->first || key + j >= state->end ? -INFINITY : score;
    }
}

TDM_KERNEL(TDM_ENTRY)(TDM_ATTENTION_ARGUMENTS, TDM_LOCAL_ARGUMENT(float, memory)) {
    TDM_ITEM_BEGIN;
    const int rows = (int)(arg.queries * arg.group), part = (int)tdm_group_x();
    const long head = tdm_group_y(), batch = tdm_group_z();
    const int width = (arg.width + 63) / 64 * 64, v_width = (arg.v_width + 63) / 64 * 64;
    TDM_LOCAL float *const block = memory, *const all_scores = block + TDM_BLOCK_KEYS * TDM_PITCH;
    TDM_LOCAL float *const queries = all_scores + TDM_BLOCK_KEYS * rows;
    TDM_LOCAL float *const results = queries + rows * width;
    const long keys = tdm_attention_keys(lengths, lengths_offset, batch, &more, &arg);
    const long part_first = part * arg.split_keys;
    const long part_end = part_first + arg.split_keys < keys ? part_first + arg.split_keys : keys;
    tdm_row_state state[TDM_DECODE_ROWS];
    long first = part_end, end = part_first;         /* of keys that some row sees */
    long all_first = part_first, all_end = part_end; /* of keys that every row sees */
    for (int row = 0; row < rows; row++) {
        tdm_attention_range range;
        tdm_attention_visible(&range, &arg, keys, row % arg.queries);
        tdm_row_state *const s = &state[row];
        s->largest = TDM_LOWEST_SCORE, s->sum = s->factor = 0.0f;
        s->first = range.first, s->end = range.end;
        first = range.first < first ? range.first : first;
        end = range.end > end ? range.end : end;
        all_first = range.first > all_first ? range.first : all_first;
        all_end = range.end < all_end ? range.end : all_end;
        s->mask_at =
            arg.mask_type ? mask_offset + tdm_attention_row(&more.mask, batch, head, row, &arg) : 0;
        const long from = q_offset + tdm_attention_row(&at.q, batch, head, row, &arg);
        for (int d = 0; d < width; d++)
            queries[row * width + d] =
                d < arg.width ? arg.scale * tdm_load_any(q, arg.q_type, from + d * at.q.column)
                              : 0.0f;
        for (int d = 0; d < v_width; d++)
            results[row * v_width + d] = 0.0f;
    }
    first = first < part_first ? part_first : first;
    end = end > part_end ? part_end : end;
    TDM_ATTENTION_SIDE(k_side, k, arg.width, batch, head);
    TDM_ATTENTION_SIDE(v_side, v, arg.v_width, batch, head);
    for (long key = first; key < end; key += TDM_BLOCK_KEYS) {
        const int count = end - key < TDM_BLOCK_KEYS ? (int)(end - key) : TDM_BLOCK_KEYS;
        const int all_seen = key >= all_first && key + count <= all_end;
        tdm_copy_keys(&k_side, key, count, width, block);
        for (int row = 0; row < rows; row++) {
            TDM_LOCAL float *const scores = all_scores + row * TDM_BLOCK_KEYS;
            tdm_row_scores(block, count, queries + row * width, width, scores);
            if (!all_seen || arg.cap > 0.0f || arg.mask_type)
                tdm_row_change(&state[row], mask, &more, &arg, key, count, scores);
            state[row].factor =
                tdm_row_weights(scores, count, &state[row].largest, &state[row].sum);
        }
        tdm_copy_keys(&v_side, key, count, 0, block);
        for (int row = 0; row < rows; row++)
            tdm_row_results(block, count, all_scores + row * TDM_BLOCK_KEYS, state[row].factor,
                            v_width, results + row * v_width);
    }
    for (int row = 0; row < rows; row++) {
        TDM_LOCAL const float *const result = results + row * v_width;
        if (arg.splits > 1) {
            TDM_GLOBAL float *const to =
                parts + parts_offset +
                (((batch * tdm_groups_y() + head) * rows + row) * arg.splits + part) *
                    (arg.v_width + 2);
            to[0] = state[row].largest, to[1] = state[row].sum;
            for (int d = 0; d < arg.v_width; d++)
                to[2 + d] = result[d];
            continue;
        }
        const float factor = state[row].sum == 0.0f ? 0.0f : 1.0f / state[row].sum;
        const long to = y_offset + tdm_attention_row(&at.y, batch, head, row, &arg);
        for (int d = 0; d < arg.v_width; d++)
            tdm_store_any(result[d] * factor, y, arg.q_type, to + d * at.y.column);
    }
}
