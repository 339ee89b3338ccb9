/* These functions find the ranges of blocks, and quantize with parameters derived from them. */
#include <math.h>
#include <string.h>

#include "quant/float_chunks.h"
#include "quant/quant_reference.h"

static tdm_quant_bounds widened(tdm_quant_bounds bounds, float x) {
    const bool finite = isfinite(x);
    return (tdm_quant_bounds){finite && x < bounds.minimum ? x : bounds.minimum,
                              finite && x > bounds.maximum ? x : bounds.maximum};
}

typedef struct ranges_work {
    tdm_dtype dtype;
    const void *x;
    tdm_quant_bounds *bounds;
} ranges_work;

static void ranges_run(void *user, int64_t first, int64_t count, int64_t scale, int64_t step) {
    const ranges_work *const work = user;
    float x[TDM_QUANT_CHUNK];
    for (int64_t done = 0; done < count; done += TDM_QUANT_CHUNK) {
        const int64_t chunk = tdm_quant_chunk(count - done);
        tdm_quant_bounds *const bounds = work->bounds + scale + done * step;
        tdm_quant_load(work->dtype, work->x, first + done, chunk, x);
        for (int64_t i = 0; i < chunk; i++) {
            bounds[i * step] = widened(bounds[i * step], x[i]);
        }
    }
}

void tdm_quant_ranges_tensor(const tdm_quant_spec *spec, tdm_dtype dtype, const void *x,
                             tdm_quant_bounds *bounds) {
    const int64_t scales = tdm_quant_scale_count(spec);
    ranges_work work = {dtype, x, bounds};
    for (int64_t i = 0; i < scales; i++) {
        bounds[i] = (tdm_quant_bounds){HUGE_VALF, -HUGE_VALF};
    }
    tdm_quant_for_each_run(spec, ranges_run, &work);
    for (int64_t i = 0; i < scales; i++) {
        if (bounds[i].minimum > bounds[i].maximum) {
            bounds[i] = (tdm_quant_bounds){0.0f, 0.0f};
        }
    }
}

/* While the data is read, the arrays of the parameters hold the bounds. If the scheme is symmetric,
 * `scales` holds the largest magnitude. Otherwise `scales` holds the smallest number, and
 * `zero_points` the bits of the largest. */
typedef struct dynamic_work {
    tdm_quant_symmetry symmetry;
    tdm_dtype dtype;
    const void *x;
    float *scales;
    int32_t *zero_points;
} dynamic_work;

static tdm_quant_bounds bounds_in_parameters(const dynamic_work *work, int64_t scale) {
    const float stored = work->scales[scale];
    tdm_quant_bounds bounds = {-stored, stored};
    if (work->symmetry == TDM_QUANT_ASYMMETRIC) {
        bounds.minimum = stored;
        memcpy(&bounds.maximum, &work->zero_points[scale], sizeof bounds.maximum);
    }
    return bounds;
}

static void keep_bounds(const dynamic_work *work, int64_t scale, tdm_quant_bounds bounds) {
    if (work->symmetry == TDM_QUANT_ASYMMETRIC) {
        work->scales[scale] = bounds.minimum;
        memcpy(&work->zero_points[scale], &bounds.maximum, sizeof bounds.maximum);
    } else {
        work->scales[scale] = -bounds.minimum > bounds.maximum ? -bounds.minimum : bounds.maximum;
    }
}

/* These widen the bounds by the elements of a chunk. In the first function they share a scale, and
 * in the second one each has its own. */
static void shared_chunk(const dynamic_work *work, const float *x, int64_t count, int64_t scale) {
    tdm_quant_bounds bounds = bounds_in_parameters(work, scale);
    for (int64_t i = 0; i < count; i++) {
        bounds = widened(bounds, x[i]);
    }
    keep_bounds(work, scale, bounds);
}

static void separate_chunk(const dynamic_work *work, const float *x, int64_t count, int64_t scale) {
    for (int64_t i = 0; i < count; i++) {
        keep_bounds(work, scale + i, widened(bounds_in_parameters(work, scale + i), x[i]));
    }
}

static void dynamic_run(void *user, int64_t first, int64_t count, int64_t scale, int64_t step) {
    const dynamic_work *const work = user;
    float x[TDM_QUANT_CHUNK];
    for (int64_t done = 0; done < count; done += TDM_QUANT_CHUNK) {
        const int64_t chunk = tdm_quant_chunk(count - done);
        tdm_quant_load(work->dtype, work->x, first + done, chunk, x);
        if (step == 0) {
            shared_chunk(work, x, chunk, scale);
        } else {
            separate_chunk(work, x, chunk, scale + done);
        }
    }
}

void tdm_quant_dynamic_tensor(const tdm_quant_spec *spec, tdm_quant_symmetry symmetry,
                              tdm_dtype dtype, const void *x, float *scales, int32_t *zero_points,
                              void *quants) {
    const int64_t count = tdm_quant_scale_count(spec);
    dynamic_work work = {symmetry, dtype, x, scales, zero_points};
    for (int64_t i = 0; i < count; i++) {
        keep_bounds(&work, i, (tdm_quant_bounds){0.0f, 0.0f});
    }
    tdm_quant_for_each_run(spec, dynamic_run, &work);
    for (int64_t i = 0; i < count; i++) {
        const tdm_quant_parameters parameters = tdm_quant_derive_kept(
            symmetry, bounds_in_parameters(&work, i), spec->range, spec->scale_dtype);
        scales[i] = parameters.scale;
        if (zero_points) {
            zero_points[i] = parameters.zero_point;
        }
    }
    if (quants) {
        tdm_quant_quantize_tensor(spec, dtype, x, scales, zero_points, quants);
    }
}
