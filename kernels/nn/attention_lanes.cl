/* Attention for CPU cores with many queries. One work-item computes LANES queries of a KV head,
 * which are the lanes of QV vectors, so that the softmax needs no sums across lanes:
 *
 *     for each block of TDM_BLOCK_KEYS keys
 *       S[key][lane] = Σ over d  K[key][d] · Q[d][lane]      tiles of KT keys
 *       m = max(m, S), P = 2^(S - m), l = l · 2^(old m - m) + Σ P
 *       O[d][lane] = O · 2^(old m - m) + Σ over keys  V[key][d] · P[key][lane]
 *     y = O / l
 *
 * (Milakov and Gimelshein 2018; Dao et al. 2022.) Blocks that no lane sees are skipped. Local
 * memory is ordinary cached memory on these devices. It holds, in this order, a block of k or v,
 * the scores, O, and the queries; their columns are padded to a multiple of KT.
 *
 * Defines: VW floats of a vector, QV vectors, KT rows of a tile. The grid is (tiles of rows ·
 * parts, KV heads, batch). */
#include "kernels/dialect/dialect.h"
#include "attention_block.h"

#define LANES (VW * QV)
#define V TDM_F32(VW)
#define K(constant) TDM_SPLAT(VW, constant)
#define EACH_VECTOR TDM_UNROLL for (int n = 0; n < QV; n++)
#define EACH_SUM TDM_UNROLL for (int r = 0; r < KT; r++) EACH_VECTOR
TDM_DEFINE_EXP2(VW)
#define EXP2 TDM_CAT2(tdm_exp2_, VW)
#define MAXIMUM(a, b) TDM_SELECT_LT(VW, a, b, b, a)

/* Adds the products of one step to the sums of a tile: those of LEFT(r) with the lanes of `right`.
 */
#define STEP(LEFT)                                                                                 \
    {                                                                                              \
        V lanes[QV];                                                                               \
        EACH_VECTOR lanes[n] = TDM_LOADV(VW, f32, right, n * VW);                                  \
        TDM_UNROLL for (int r = 0; r < KT; r++) {                                                  \
            const V one = K(LEFT(r));                                                              \
            EACH_VECTOR sums[r][n] = TDM_ATTENTION_MAD(one, lanes[n], sums[r][n]);                 \
        }                                                                                          \
        right += LANES;                                                                            \
    }

/* Computes the scores of `count` keys; keys are computed KT at a time. */
TDM_BODY void tdm_scores(TDM_LOCAL const float *keys, int count, TDM_LOCAL const float *queries,
                         int width, TDM_LOCAL float *scores) {
    for (int j = 0; j < count; j += KT) {
        TDM_LOCAL const float *left = keys + j * TDM_PITCH, *right = queries;
        V sums[KT][QV];
        EACH_SUM sums[r][n] = K(0.0f);
#define OF_KEY(r) left[(r)*TDM_PITCH]
        for (int d = 0; d < width; d++, left++)
            STEP(OF_KEY)
#undef OF_KEY
        EACH_SUM TDM_STOREV(VW, f32, sums[r][n], scores, (j + r) * LANES + n * VW);
    }
}

/* Multiplies the results by `factors` and adds the products of `count` values with their weights.
 */
TDM_BODY void tdm_results(TDM_LOCAL const float *values, int count, TDM_LOCAL const float *weights,
                          const float *factors, int width, TDM_LOCAL float *results) {
    for (int d = 0; d < width; d += KT) {
        TDM_LOCAL const float *left = values + d, *right = weights;
        V sums[KT][QV];
        EACH_SUM sums[r][n] = TDM_LOADV(VW, f32, results, (d + r) * LANES + n * VW) *
                              TDM_LOADV(VW, f32, factors, n * VW);
#define OF_COLUMN(r) left[r]
        for (int j = 0; j < count; j++, left += TDM_PITCH)
            STEP(OF_COLUMN)
#undef OF_COLUMN
        EACH_SUM TDM_STOREV(VW, f32, sums[r][n], results, (d + r) * LANES + n * VW);
    }
}

/* The lanes have their largest scores so far, and the sums of weights relative to them. They see
 * the keys first … end-1. */
typedef struct {
    float largest[LANES], sum[LANES], factor[LANES];
    long first[LANES], end[LANES], mask_at[LANES];
} tdm_lanes;

/* Makes the scores of keys that a lane does not see -infinity. */
TDM_BODY void tdm_hide(const tdm_lanes *state, long key, int count, TDM_LOCAL float *scores) {
    float first[LANES], end[LANES];
    for (int lane = 0; lane < LANES; lane++) {
        const long a = state->first[lane] - key, b = state->end[lane] - key;
        first[lane] = a < 0 ? 0.0f : a > count ? (float)count : (float)a;
        end[lane] = b < 0 ? 0.0f : b > count ? (float)count : (float)b;
    }
    const V hidden = K(-INFINITY);
    EACH_VECTOR {
        const V low = TDM_LOADV(VW, f32, first, n * VW), high = TDM_LOADV(VW, f32, end, n * VW);
        for (int j = 0; j < count; j++) {
            const V index = K((float)j);
            const V score = TDM_LOADV(VW, f32, scores, j * LANES + n * VW);
            const V seen = TDM_SELECT_LT(VW, index, high, score, hidden);
            TDM_STOREV(VW, f32, TDM_SELECT_LT(VW, index, low, hidden, seen), scores,
                       j * LANES + n * VW);
        }
    }
}

/* Applies the cap and adds the mask. */
TDM_BODY void tdm_change_scores(const tdm_lanes *state, TDM_GLOBAL const void *mask,
                                const tdm_attention_options_arg *more, const tdm_attention_arg *arg,
                                long key, int count, TDM_LOCAL float *scores) {
    if (arg->cap > 0.0f)
        for (int i = 0; i < count * LANES; i++)
            scores[i] = tdm_attention_score(scores[i], arg);
    if (arg->mask_type)
        for (int lane = 0; lane < LANES; lane++) {
            const long at = state->mask_at[lane] + key * more->mask.column;
            if (state->end[lane] > key)
                for (int j = 0; j < count; j++)
                    scores[j * LANES + lane] +=
                        TDM_LOG2_E * tdm_load_any(mask, arg->mask_type, at + j * more->mask.column);
        }
}

/* Replaces the scores by weights relative to the new largest score. */
TDM_BODY void tdm_weights(tdm_lanes *state, int count, TDM_LOCAL float *scores) {
    EACH_VECTOR {
        const V old = TDM_LOADV(VW, f32, state->largest, n * VW);
        V largest = old;
        for (int j = 0; j < count; j++)
            largest = MAXIMUM(largest, TDM_LOADV(VW, f32, scores, j * LANES + n * VW));
        const V factor = EXP2(old - largest);
        V sum = TDM_LOADV(VW, f32, state->sum, n * VW) * factor;
        for (int j = 0; j < count; j++) {
            const V weight = EXP2(TDM_LOADV(VW, f32, scores, j * LANES + n * VW) - largest);
            sum = sum + weight;
            TDM_STOREV(VW, f32, weight, scores, j * LANES + n * VW);
        }
        TDM_STOREV(VW, f32, largest, state->largest, n * VW);
        TDM_STOREV(VW, f32, sum, state->sum, n * VW);
        TDM_STOREV(VW, f32, factor, state->factor, n * VW);
    }
}

TDM_KERNEL(TDM_ENTRY)(TDM_ATTENTION_ARGUMENTS, TDM_LOCAL_ARGUMENT(float, memory)) {
    TDM_ITEM_BEGIN;
    const long rows = arg.queries * arg.group, tiles = (rows + LANES - 1) / LANES;
    /* The last tiles see the most keys and begin first. */
    const long tile = tiles - 1 - tdm_group_x() / arg.splits;
    const int part = (int)(tdm_group_x() % arg.splits);
    const long head = tdm_group_y(), batch = tdm_group_z();
    const int padded = (arg.v_width + KT - 1) / KT * KT;
    TDM_LOCAL float *const block = memory, *const scores = block + TDM_BLOCK_KEYS * TDM_PITCH;
    TDM_LOCAL float *const results = scores + TDM_BLOCK_KEYS * LANES;
    TDM_LOCAL float *const queries = results + padded * LANES;
    const long keys = tdm_attention_keys(lengths, lengths_offset, batch, &more, &arg);
    const long part_first = part * arg.split_keys;
    const long part_end = part_first + arg.split_keys < keys ? part_first + arg.split_keys : keys;
    const int used = rows - tile * LANES < LANES ? (int)(rows - tile * LANES) : LANES;
    tdm_lanes state;
    long first = part_end, end = part_first;         /* of keys that some lane sees */
    long all_first = part_first, all_end = part_end; /* of keys that every lane sees */
    for (int lane = 0; lane < LANES; lane++) {
        state.largest[lane] = TDM_LOWEST_SCORE;
        state.sum[lane] = state.factor[lane] = 0.0f;
        state.first[lane] = state.end[lane] = state.mask_at[lane] = 0;
        if (lane >= used) {
            for (int d = 0; d < arg.width; d++)
                queries[d * LANES + lane] = 0.0f;
            continue;
        }
        const long row = tile * LANES + lane;
        tdm_attention_range range;
        tdm_attention_visible(&range, &arg, keys, row % arg.queries);
        state.first[lane] = range.first, state.end[lane] = range.end;
        first = range.first < first ? range.first : first;
        end = range.end > end ? range.end : end;
        all_first = range.first > all_first ? range.first : all_first;
        all_end = range.end < all_end ? range.end : all_end;
        if (arg.mask_type)
            state.mask_at[lane] =
                mask_offset + tdm_attention_row(&more.mask, batch, head, row, &arg);
        const long from = q_offset + tdm_attention_row(&at.q, batch, head, row, &arg);
        for (int d = 0; d < arg.width; d++)
            queries[d * LANES + lane] =
                arg.scale * tdm_load_any(q, arg.q_type, from + d * at.q.column);
    }
    for (int i = 0; i < padded * LANES; i += VW)
        TDM_STOREV(VW, f32, K(0.0f), results, i);
    first = first < part_first ? part_first : first;
    end = end > part_end ? part_end : end;
    TDM_ATTENTION_SIDE(k_side, k, arg.width, batch, head);
    TDM_ATTENTION_SIDE(v_side, v, arg.v_width, batch, head);
    for (long key = first; key < end; key += TDM_BLOCK_KEYS) {
        const int count = end - key < TDM_BLOCK_KEYS ? (int)(end - key) : TDM_BLOCK_KEYS;
        tdm_copy_keys(&k_side, key, count, 0, block);
        tdm_scores(block, count, queries, arg.width, scores);
        if (arg.cap > 0.0f || arg.mask_type)
            tdm_change_scores(&state, mask, &more, &arg, key, count, scores);
        if (key < all_first || key + count > all_end)
            tdm_hide(&state, key, count, scores);
        tdm_weights(&state, count, scores);
        tdm_copy_keys(&v_side, key, count, 0, block);
        tdm_results(block, count, scores, state.factor, padded, results);
    }
    for (int lane = 0; lane < used; lane++) {
        const long row = tile * LANES + lane;
        if (arg.splits > 1) {
            TDM_GLOBAL float *const to =
                parts + parts_offset +
                (((batch * tdm_groups_y() + head) * rows + row) * arg.splits + part) *
                    (arg.v_width + 2);
            to[0] = state.largest[lane], to[1] = state.sum[lane];
            for (int d = 0; d < arg.v_width; d++)
                to[2 + d] = results[d * LANES + lane];
            continue;
        }
        const float factor = state.sum[lane] == 0.0f ? 0.0f : 1.0f / state.sum[lane];
        const long to = y_offset + tdm_attention_row(&at.y, batch, head, row, &arg);
        for (int d = 0; d < arg.v_width; d++)
            tdm_store_any(results[d * LANES + lane] * factor, y, arg.q_type, to + d * at.y.column);
    }
}
