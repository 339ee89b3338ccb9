/* Common parts of the reductions: the value type, the neutral element, one step, and a sum that
 * stays accurate over any count.
 *
 * The kernel source defines N lanes, and TDM_INTEGER for s32 (sums wrap and are exact modulo 2^32).
 *
 * A sum is computed in blocks of TDM_BLOCK plain additions. The two-sum algorithm adds the block
 * sums to the total and also gives the exact rounding error. The errors are summed separately and
 * added at the end. Therefore |error| ≤ (TDM_BLOCK + levels of the lanes' tree + 2)·u·Σ|x|, for any
 * count. */
#ifndef TDM_REDUCE_STEPS_H
#define TDM_REDUCE_STEPS_H

#include "kernels/dialect/op_codes.h"

#define TDM_BLOCK 16

#ifdef TDM_INTEGER
#define V TDM_S32(N)
typedef int tdm_value;
#define VALUE_SPLAT(x) TDM_INT_SPLAT(N, x)
#define VALUE_LOADV(p, i) TDM_INT_LOADV(N, s32, p, i)
#define VALUE_STOREV(v, p, i) TDM_INT_STOREV(N, s32, v, p, i)
#define VALUE_LOAD(p, i) tdm_int_s32(p, i)
TDM_DEVICE void tdm_store_value(tdm_value x, TDM_GLOBAL void *y, int type, long i) {
    tdm_store_int_s32(x, (TDM_GLOBAL tdm_s32 *)y, i);
}
#define VALUE_MATCHES(x, best) ((x) == (best))
#define VALUE_EXCEEDS(x, best) ((x) > (best))
#define VALUE_STORE_LANES(v, lanes) TDM_INT_STOREV(N, s32, v, lanes, 0)
TDM_DEVICE tdm_value tdm_neutral(int op) {
    return op == TDM_CODE_REDUCE_MAX   ? (-2147483647 - 1)
           : op == TDM_CODE_REDUCE_MIN ? 2147483647
                                       : 0;
}
TDM_DEVICE V tdm_step(V a, V b, int op) {
    return op == TDM_CODE_REDUCE_MAX   ? tdm_int_max(a, b)
           : op == TDM_CODE_REDUCE_MIN ? tdm_int_min(a, b)
                                       : tdm_add_wrap(N, a, b);
}
TDM_DEVICE tdm_value tdm_step_one(tdm_value a, tdm_value b, int op) {
    return op == TDM_CODE_REDUCE_MAX   ? tdm_int_max(a, b)
           : op == TDM_CODE_REDUCE_MIN ? tdm_int_min(a, b)
                                       : tdm_add_wrap(1, a, b);
}
#else
#define V TDM_F32(N)
typedef float tdm_value;
#define VALUE_SPLAT(x) TDM_SPLAT(N, x)
#define VALUE_LOADV(p, i) TDM_LOADV(N, DT, p, i)
#define VALUE_STOREV(v, p, i) TDM_STOREV(N, DT, v, p, i)
#define VALUE_LOAD(p, i) TDM_LOAD(DT, p, i)
/* The type of y is a launch-time code, because partial results are always f32. */
TDM_DEVICE void tdm_store_value(tdm_value x, TDM_GLOBAL void *y, int type, long i) {
    if (type == TDM_CODE_F16)
        tdm_store_f16(x, (TDM_GLOBAL tdm_f16 *)y, i);
    else if (type == TDM_CODE_BF16)
        tdm_store_bf16(x, (TDM_GLOBAL tdm_bf16 *)y, i);
    else
        tdm_store_f32(x, (TDM_GLOBAL tdm_f32 *)y, i);
}
#define VALUE_MATCHES(x, best) ((x) == (best) || (tdm_is_nan(x) && tdm_is_nan(best)))
#define VALUE_EXCEEDS(x, best) ((x) > (best) || (tdm_is_nan(x) && !tdm_is_nan(best)))
#define VALUE_STORE_LANES(v, lanes) TDM_STOREV(N, f32, v, lanes, 0)
TDM_DEVICE tdm_value tdm_neutral(int op) {
    return op == TDM_CODE_REDUCE_MAX ? -INFINITY : op == TDM_CODE_REDUCE_MIN ? INFINITY : 0.0f;
}
TDM_DEVICE V tdm_step(V a, V b, int op) {
    return op == TDM_CODE_REDUCE_MAX   ? tdm_max_nan(a, b)
           : op == TDM_CODE_REDUCE_MIN ? tdm_min_nan(a, b)
                                       : a + b;
}
TDM_DEVICE tdm_value tdm_step_one(tdm_value a, tdm_value b, int op) {
    return op == TDM_CODE_REDUCE_MAX   ? tdm_max_nan(a, b)
           : op == TDM_CODE_REDUCE_MIN ? tdm_min_nan(a, b)
                                       : a + b;
}
#endif

/* Reduces all lanes of v to one value. The sum goes by halves. Maxima and minima go one by one,
 * because the dialect's horizontal words drop NaNs. */
TDM_DEVICE tdm_value tdm_across(V v, int op) {
#ifndef TDM_INTEGER
    if (op == TDM_CODE_REDUCE_SUM || op == TDM_CODE_REDUCE_MEAN)
        return TDM_CAT4(f32x, N, _, sum)(v);
#endif
    tdm_value lanes[N];
    VALUE_STORE_LANES(v, lanes);
    tdm_value result = lanes[0];
    TDM_UNROLL for (int lane = 1; lane < N; lane++) result = tdm_step_one(result, lanes[lane], op);
    return result;
}

/* Reduces TDM_BLOCK vectors; the elements of x are `step` apart. It is unrolled, so that a block is
 * one loop iteration. */
TDM_DEVICE V tdm_block_of(TDM_GLOBAL const TDM_TYPE(DT) * x, long at, long step, int op) {
    V block = VALUE_LOADV(x, at);
    TDM_UNROLL for (int n = 1; n < TDM_BLOCK; n++) block =
        tdm_step(block, VALUE_LOADV(x, at + n * N * step), op);
    return block;
}

/* Running state: `lost` holds the sum's rounding errors. */
typedef struct {
    V total, lost;
} tdm_running;

TDM_DEVICE tdm_running tdm_running_start(int op) {
    tdm_running r;
    r.total = VALUE_SPLAT(tdm_neutral(op));
    r.lost = VALUE_SPLAT(0);
    return r;
}

TDM_DEVICE tdm_running tdm_running_add(tdm_running r, V block, int op) {
    const V total = tdm_step(r.total, block, op);
#ifndef TDM_INTEGER
    if (op != TDM_CODE_REDUCE_MAX && op != TDM_CODE_REDUCE_MIN) {
        const V back = total - r.total;
        r.lost = r.lost + ((r.total - (total - back)) + (block - back));
    }
#endif
    r.total = total;
    return r;
}

/* Returns the total plus the rounding errors. For an infinite or NaN total the errors are
 * meaningless and left out. */
TDM_DEVICE V tdm_running_end(tdm_running r) {
#ifdef TDM_INTEGER
    return r.total;
#else
    return r.total +
           TDM_SELECT_LT(N, tdm_abs(r.total), VALUE_SPLAT(INFINITY), r.lost, VALUE_SPLAT(0.0f));
#endif
}

#endif
