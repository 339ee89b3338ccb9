/* These are the common parts of norm.cl and norm_group.cl. They describe one row of a
 * normalization, its elements h = x + residual, and a result element. */
#ifndef TDM_NORM_STEPS_H
#define TDM_NORM_STEPS_H

#include "kernels/dialect/any_float.h"
#include "norm_args.h"

/* The operands of one row. Pointers are to its first element, steps are between its elements. The
 * type of an absent scale or bias is 0. */
typedef struct {
    TDM_GLOBAL const TDM_TYPE(DT) * x, *residual;
    TDM_GLOBAL const void *scale, *bias;
    TDM_GLOBAL TDM_TYPE(DT) * sum, *y;
    long scale_offset, bias_offset;
    long x_step, residual_step, sum_step, y_step, scale_step, bias_step;
    int scale_type, bias_type, flags;
    long next; /* distance of the next row of the work-item in x, 0: none */
    long residual_next;
} tdm_norm_row;

/* The arguments of both kernels. An absent operand is a copy of x, which is not accessed. */
#define TDM_NORM_ARGUMENTS                                                                         \
    TDM_GLOBAL const TDM_TYPE(DT) * x, long x_offset, TDM_GLOBAL const TDM_TYPE(DT) * residual,    \
        long residual_offset, TDM_GLOBAL const void *scale, long scale_offset,                     \
        TDM_GLOBAL const void *bias, long bias_offset, TDM_GLOBAL TDM_TYPE(DT) * sum,              \
        long sum_offset, TDM_GLOBAL TDM_TYPE(DT) * y, long y_offset, tdm_dims outer,               \
        tdm_dims x_strides, tdm_dims residual_strides, tdm_dims sum_strides, tdm_dims y_strides,   \
        int rank, long rows, long count, long x_step, long residual_step, long sum_step,           \
        long y_step, long scale_step, long bias_step, int scale_type, int bias_type, int flags,    \
        float epsilon

/* Defines `r` as the row `row` of the kernel's arguments. */
#define TDM_NORM_ROW(r, row)                                                                       \
    tdm_norm_row r;                                                                                \
    tdm_dims r##_along;                                                                            \
    tdm_row_along(&r##_along, row, rank, &outer);                                                  \
    r.x = x + x_offset + tdm_offset_along(&r##_along, rank, &x_strides);                           \
    r.residual =                                                                                   \
        residual + residual_offset + tdm_offset_along(&r##_along, rank, &residual_strides);        \
    r.sum = sum + sum_offset + tdm_offset_along(&r##_along, rank, &sum_strides);                   \
    r.y = y + y_offset + tdm_offset_along(&r##_along, rank, &y_strides);                           \
    r.scale = scale, r.bias = bias, r.scale_offset = scale_offset, r.bias_offset = bias_offset;    \
    r.x_step = x_step, r.residual_step = residual_step, r.sum_step = sum_step, r.y_step = y_step;  \
    r.scale_step = scale_step, r.bias_step = bias_step;                                            \
    r.scale_type = scale_type, r.bias_type = bias_type, r.flags = flags

/* AT is the offset of element k of a row; the elements are contiguous if N > 1. */
#if N > 1
#define AT(k, step) (k)
#else
#define AT(k, step) ((k) * (step))
#endif

/* Functions below take some facts as arguments: norm.cl passes literal numbers, so that its loops
 * have no branches. `residual` is not 0 if there is one, `squared` is 1 for a sum of squares,
 * `usual` is 1 if the scale is f32 and there is no bias. `mean` is 0 for RMS normalization. */

/* These return h of element k, and of N elements from k on. */
TDM_INLINE float tdm_norm_one(const tdm_norm_row *r, long k, int residual) {
    const float x = TDM_LOAD(DT, r->x, k * r->x_step);
    return residual ? x + TDM_LOAD(DT, r->residual, k * r->residual_step) : x;
}
TDM_INLINE V tdm_norm_h(const tdm_norm_row *r, long k, int residual) {
    const V x = TDM_LOADV_GLOBAL(N, DT, r->x, AT(k, r->x_step));
    return residual ? x + TDM_LOADV_GLOBAL(N, DT, r->residual, AT(k, r->residual_step)) : x;
}

/* These return the summand of an element: its distance from the mean, squared if that is wanted. */
TDM_INLINE float tdm_norm_term_one(float h, float mean, int squared) {
    const float v = h - mean;
    return squared ? v * v : v;
}
TDM_INLINE V tdm_norm_term(V h, V mean, int squared) {
    const V v = h - mean;
    return squared ? v * v : v;
}

/* Returns 1 / sqrt(mean square + epsilon). */
TDM_DEVICE float tdm_norm_factor(float squares, long count, float epsilon) {
    return 1.0f / tdm_sqrt(squares / (float)count + epsilon);
}

/* These return y of element k, and of N elements from k on, by their h. */
TDM_INLINE float tdm_norm_y_one(const tdm_norm_row *r, long k, float h, float mean, float factor) {
    float v = (h - mean) * factor;
    if (r->scale_type)
        v = v * tdm_load_any(r->scale, r->scale_type, r->scale_offset + k * r->scale_step);
    if (r->bias_type)
        v = v + tdm_load_any(r->bias, r->bias_type, r->bias_offset + k * r->bias_step);
    return v;
}
TDM_INLINE V tdm_norm_y(const tdm_norm_row *r, long k, V h, V mean, V factor, int usual) {
    const V v = (h - mean) * factor;
    const long scale_at = r->scale_offset + AT(k, r->scale_step);
    const long bias_at = r->bias_offset + AT(k, r->bias_step);
    if (usual)
        return v * TDM_LOADV_GLOBAL(N, f32, (TDM_GLOBAL const tdm_f32 *)r->scale, scale_at);
    const V scaled = r->scale_type ? v * TDM_LOADV_ANY(N, r->scale, r->scale_type, scale_at) : v;
    return r->bias_type ? scaled + TDM_LOADV_ANY(N, r->bias, r->bias_type, bias_at) : scaled;
}

/* Stores element k of the results. */
TDM_INLINE void tdm_norm_store_one(const tdm_norm_row *r, long k, float mean, float factor,
                                   int residual) {
    const float h = tdm_norm_one(r, k, residual);
    const float v = tdm_norm_y_one(r, k, h, mean, factor);
    if (r->flags & TDM_NORM_HAS_SUM)
        TDM_STORE(DT, h, r->sum, k * r->sum_step);
    TDM_STORE(DT, v, r->y, k * r->y_step);
}

#endif
