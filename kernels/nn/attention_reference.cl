/* This is the reference kernel of attention, for any sizes. One work-item computes one row of y. It
 * finds the largest score and the sum of weights first; then it computes every score again for each
 * eight columns of y. The grid is one-dimensional; row r of the batch is
 * ((batch · KV heads + head) · group · queries) + row. */
#include "kernels/dialect/dialect.h"
#include "attention_steps.h"

TDM_DEFINE_EXP2(1)
#define COLUMNS 8

TDM_KERNEL(TDM_ENTRY)(TDM_ATTENTION_ARGUMENTS, long kv_heads, long all_rows) {
    TDM_ITEM_BEGIN;
    const long rows = arg.queries * arg.group;
    for (long i = tdm_global_x(); i < all_rows; i += tdm_global_size_x()) {
        const long of_head = tdm_quotient(i, rows), row = i - of_head * rows;
        const long batch = tdm_quotient(of_head, kv_heads), head = of_head - batch * kv_heads;
        const long keys = tdm_attention_keys(lengths, lengths_offset, batch, &more, &arg);
        const long query = row - tdm_quotient(row, arg.queries) * arg.queries;
        tdm_attention_range range;
        tdm_attention_visible(&range, &arg, keys, query);
        TDM_ATTENTION_SIDE(k_side, k, arg.width, batch, head);
        TDM_ATTENTION_SIDE(v_side, v, arg.v_width, batch, head);
        const long from = q_offset + tdm_attention_row(&at.q, batch, head, row, &arg);
        const long to = y_offset + tdm_attention_row(&at.y, batch, head, row, &arg);
        const long mask_at = mask_offset + tdm_attention_row(&more.mask, batch, head, row, &arg);
        float largest = TDM_LOWEST_SCORE, sum = 0.0f;
        /* The first pass has no columns. */
        for (int column = -COLUMNS; column < arg.v_width; column += COLUMNS) {
            float results[COLUMNS];
            for (int c = 0; c < COLUMNS; c++)
                results[c] = 0.0f;
            for (long key = range.first; key < range.end; key++) {
                tdm_attention_place place;
                tdm_attention_find(&place, &k_side, key);
                float product = 0.0f;
                for (int d = 0; d < arg.width; d++)
                    product = tdm_mad(tdm_load_any(q, arg.q_type, from + d * at.q.column),
                                      tdm_attention_element(&k_side, &place, d), product);
                float score = tdm_attention_score(product * arg.scale, &arg);
                if (arg.mask_type)
                    score += TDM_LOG2_E *
                             tdm_load_any(mask, arg.mask_type, mask_at + key * more.mask.column);
                if (column < 0) {
                    const float larger = largest < score ? score : largest;
                    sum = sum * tdm_exp2_1(largest - larger) + tdm_exp2_1(score - larger);
                    largest = larger;
                    continue;
                }
                const float weight = tdm_exp2_1(score - largest);
                for (int c = 0; c < COLUMNS && column + c < arg.v_width; c++)
                    results[c] = tdm_mad(weight, tdm_attention_element(&v_side, &place, column + c),
                                         results[c]);
            }
            for (int c = 0; c < COLUMNS && column >= 0 && column + c < arg.v_width; c++)
                tdm_store_any(sum == 0.0f ? 0.0f : results[c] / sum, y, arg.q_type,
                              to + (column + c) * at.y.column);
        }
    }
}
