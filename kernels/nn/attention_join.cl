/* Joins the results of attention over parts of the keys. One work-item computes one element of a
 * row:
 *
 *     m = max of m[part]     y = Σ 2^(m[part] - m) · O[part] / Σ 2^(m[part] - m) · l[part]
 *
 * The parts of a row follow each other, each as m, l and the elements of O. */
#include "kernels/dialect/dialect.h"
#include "attention_steps.h"

TDM_DEFINE_EXP2(1)

TDM_KERNEL(TDM_ENTRY)
(TDM_GLOBAL const float *parts, long parts_offset, TDM_GLOBAL void *y, long y_offset,
 tdm_attention_strides y_strides, long queries, long heads, long rows, int splits, int width,
 int type) {
    TDM_ITEM_BEGIN;
    const long elements = rows * width;
    for (long i = tdm_global_x(); i < elements; i += tdm_global_size_x()) {
        const long row = tdm_quotient(i, width), d = i - row * width;
        TDM_GLOBAL const float *const first = parts + parts_offset + row * splits * (width + 2);
        float largest = TDM_LOWEST_SCORE, sum = 0.0f, result = 0.0f;
        for (int part = 0; part < splits; part++) {
            const float other = first[part * (width + 2)];
            largest = largest < other ? other : largest;
        }
        for (int part = 0; part < splits; part++) {
            TDM_GLOBAL const float *const from = first + part * (width + 2);
            const float factor = tdm_exp2_1(from[0] - largest);
            sum += factor * from[1];
            result += factor * from[2 + d];
        }
        /* Row (batch, head, query) is at (batch · heads + head) · queries + query. */
        const long head = tdm_quotient(row, queries), batch = tdm_quotient(head, heads);
        const long to = y_offset + batch * y_strides.batch +
                        (head - batch * heads) * y_strides.head +
                        (row - head * queries) * y_strides.row + d * y_strides.column;
        tdm_store_any(sum == 0.0f ? 0.0f : result / sum, y, type, to);
    }
}
