/* Tiled attention for GPUs. A work-group of 64 work-items computes ROWS = 8 · RQ rows of a KV head
 * over its part of the keys, BLOCK = 8 · KQ keys at a time. Work-item (x, y) of 8 × 8 has the
 * scores of rows y·RQ … and of keys x, x + 8, …, and the results of the same rows in columns x,
 * x + 8, ….
 * attention_lanes.cl has the formulas.
 *
 * Local memory holds the queries, a block of k or v, the weights, and the largest scores that each
 * work-item finds. Rows have one float more than elements, which avoids bank conflicts.
 *
 * Defines: D columns of a row at most, a multiple of 8; RQ, KQ. The grid is (tiles of rows · parts,
 * KV heads, batch). */
#include "kernels/dialect/dialect.h"
#include "attention_steps.h"

#define ROWS (8 * RQ)
#define BLOCK (8 * KQ)
#define DQ (D / 8)
#define PITCH (D + 1)
TDM_DEFINE_EXP2(1)

#define EACH_ROW TDM_UNROLL for (int r = 0; r < RQ; r++)
#define EACH_KEY TDM_UNROLL for (int c = 0; c < KQ; c++)
#define EACH_COLUMN TDM_UNROLL for (int c = 0; c < DQ; c++)

/* Copies `count` rows of k or v to local memory, with zeros up to BLOCK rows and D columns. The
 * work-items of a row of eight copy neighbouring columns. */
#define COPY_BLOCK(side, count)                                                                    \
    TDM_NO_UNROLL for (int j = y_item; j < BLOCK; j += 8) {                                        \
        tdm_attention_place place = {0, 0};                                                        \
        if (j < (count))                                                                           \
            tdm_attention_find(&place, &side, key + j);                                            \
        EACH_COLUMN {                                                                              \
            const int d = x_item + 8 * c;                                                          \
            float element = 0.0f;                                                                  \
            if (j < (count) && d < side.width)                                                     \
                element = tdm_attention_element(&side, &place, d);                                 \
            block[j * PITCH + d] = element;                                                        \
        }                                                                                          \
    }

TDM_KERNEL_GROUP(TDM_ENTRY, 64, 1, 1)(TDM_ATTENTION_ARGUMENTS) {
    TDM_LOCAL_ARRAY(float, queries, ROWS *PITCH);
    TDM_LOCAL_ARRAY(float, block, BLOCK *PITCH);
    TDM_LOCAL_ARRAY(float, weights, ROWS *(BLOCK + 1));
    TDM_LOCAL_ARRAY(float, found, ROWS * 9);
    const int x_item = tdm_item_x() % 8, y_item = tdm_item_x() / 8;
    const long rows = arg.queries * arg.group, tiles = tdm_quotient(rows + ROWS - 1, ROWS);
    /* The last tiles see the most keys and begin first. */
    const long tile = tiles - 1 - tdm_quotient(tdm_group_x(), arg.splits);
    const int part = (int)(tdm_group_x() - (tiles - 1 - tile) * arg.splits);
    const long head = tdm_group_y(), batch = tdm_group_z();
    const long keys = tdm_attention_keys(lengths, lengths_offset, batch, &more, &arg);
    const long part_first = part * arg.split_keys;
    const long part_end = part_first + arg.split_keys < keys ? part_first + arg.split_keys : keys;
    long first = part_end, end = part_first; /* of keys that some row of the group sees */
    TDM_NO_UNROLL for (int r = 0; r < ROWS; r++) {
        const long row = tile * ROWS + r;
        if (row < rows) {
            const long query = row - tdm_quotient(row, arg.queries) * arg.queries;
            tdm_attention_range range;
            tdm_attention_visible(&range, &arg, keys, query);
            first = range.first < first ? range.first : first;
            end = range.end > end ? range.end : end;
        }
    }
    first = first < part_first ? part_first : first;
    end = end > part_end ? part_end : end;

    float results[RQ][DQ], largest[RQ], sum[RQ];
    long row_first[RQ], row_end[RQ], mask_at[RQ];
    EACH_ROW {
        const long row = tile * ROWS + y_item * RQ + r;
        largest[r] = TDM_LOWEST_SCORE, sum[r] = 0.0f;
        EACH_COLUMN results[r][c] = 0.0f;
        row_first[r] = row_end[r] = mask_at[r] = 0;
        long from = 0;
        if (row < rows) {
            const long query = row - tdm_quotient(row, arg.queries) * arg.queries;
            tdm_attention_range range;
            tdm_attention_visible(&range, &arg, keys, query);
            row_first[r] = range.first, row_end[r] = range.end;
            from = q_offset + tdm_attention_row(&at.q, batch, head, row, &arg);
            mask_at[r] = mask_offset + tdm_attention_row(&more.mask, batch, head, row, &arg);
        }
        EACH_COLUMN {
            const int d = x_item + 8 * c;
            float element = 0.0f;
            if (row < rows && d < arg.width)
                element = arg.scale * tdm_load_any(q, arg.q_type, from + d * at.q.column);
            queries[(y_item * RQ + r) * PITCH + d] = element;
        }
    }
    TDM_ATTENTION_SIDE(k_side, k, arg.width, batch, head);
    TDM_ATTENTION_SIDE(v_side, v, arg.v_width, batch, head);

    TDM_NO_UNROLL for (long key = first; key < end; key += BLOCK) {
        const int count = end - key < BLOCK ? (int)(end - key) : BLOCK;
        COPY_BLOCK(k_side, count)
        tdm_barrier();
        float scores[RQ][KQ];
        EACH_ROW EACH_KEY scores[r][c] = 0.0f;
        TDM_NO_UNROLL for (int d = 0; d < D; d += 4) TDM_UNROLL for (int e = 0; e < 4; e++) {
            float of_query[RQ], of_key[KQ];
            EACH_ROW of_query[r] = queries[(y_item * RQ + r) * PITCH + d + e];
            EACH_KEY of_key[c] = block[(x_item + 8 * c) * PITCH + d + e];
            EACH_ROW EACH_KEY scores[r][c] = tdm_mad(of_query[r], of_key[c], scores[r][c]);
        }
        EACH_ROW {
            float most = TDM_LOWEST_SCORE;
            EACH_KEY {
                const long at_key = key + x_item + 8 * c;
                float score = tdm_attention_score(scores[r][c], &arg);
                const int seen =
                    at_key >= row_first[r] && at_key < row_end[r] && at_key < key + count;
                if (arg.mask_type && seen)
                    score += TDM_LOG2_E * tdm_load_any(mask, arg.mask_type,
                                                       mask_at[r] + at_key * more.mask.column);
                scores[r][c] = seen ? score : -INFINITY;
                most = most < scores[r][c] ? scores[r][c] : most;
            }
            found[(y_item * RQ + r) * 9 + x_item] = most;
        }
        tdm_barrier();
        float factor[RQ];
        EACH_ROW {
            float most = largest[r];
            TDM_UNROLL for (int x = 0; x < 8; x++) {
                const float other = found[(y_item * RQ + r) * 9 + x];
                most = most < other ? other : most;
            }
            factor[r] = tdm_exp2_1(largest[r] - most);
            largest[r] = most;
            sum[r] = sum[r] * factor[r];
            EACH_KEY {
                const float weight = tdm_exp2_1(scores[r][c] - most);
                sum[r] += weight;
                weights[(y_item * RQ + r) * (BLOCK + 1) + x_item + 8 * c] = weight;
            }
            EACH_COLUMN results[r][c] = results[r][c] * factor[r];
        }
        COPY_BLOCK(v_side, count)
        tdm_barrier();
        TDM_NO_UNROLL for (int j = 0; j < BLOCK; j += 4) TDM_UNROLL for (int e = 0; e < 4; e++) {
            float weight[RQ];
            EACH_ROW weight[r] = weights[(y_item * RQ + r) * (BLOCK + 1) + j + e];
            EACH_COLUMN {
                const float value = block[(j + e) * PITCH + x_item + 8 * c];
                EACH_ROW results[r][c] = tdm_mad(weight[r], value, results[r][c]);
            }
        }
        tdm_barrier();
    }

    /* Each work-item has the sum of its keys' weights. */
    EACH_ROW found[(y_item * RQ + r) * 9 + x_item] = sum[r];
    tdm_barrier();
    EACH_ROW {
        const long row = tile * ROWS + y_item * RQ + r;
        float total = 0.0f;
        TDM_UNROLL for (int x = 0; x < 8; x++) total += found[(y_item * RQ + r) * 9 + x];
        if (row < rows && arg.splits > 1) {
            TDM_GLOBAL float *const to =
                parts + parts_offset +
                (((batch * tdm_groups_y() + head) * rows + row) * arg.splits + part) *
                    (arg.v_width + 2);
            if (x_item == 0)
                to[0] = largest[r], to[1] = total;
            EACH_COLUMN if (x_item + 8 * c < arg.v_width) to[2 + x_item + 8 * c] = results[r][c];
        } else if (row < rows) {
            const long to = y_offset + tdm_attention_row(&at.y, batch, head, row, &arg);
            const float divisor = total == 0.0f ? 1.0f : total;
            EACH_COLUMN if (x_item + 8 * c < arg.v_width) tdm_store_any(
                results[r][c] / divisor, y, arg.q_type, to + (x_item + 8 * c) * at.y.column);
        }
    }
}
