/* These functions implement calibration observers for tensors. Pieces of a tensor are copied to the
 * host, where quant/ observes them. */
#include <tandem/calibrate.h>

#include "api/base/handles.h"
#include "api/quantize/quantize_loop.h"
#include "api/tensor/tensor_internal.h"
#include "quant/observer.h"

/* A piece has at most this many elements. The host needs longer to observe them than a copy needs
 * to start. */
#define PIECE_ELEMENTS 65536

struct tdm_observer {
    tdm_quant_observer *seen; /* own host memory */
    tdm_quant_observer_options options;
    int axis;
};

#define SAME_KIND(kind)                                                                            \
    _Static_assert((int)TDM_OBSERVER_##kind == (int)TDM_QUANT_OBSERVE_##kind, "one value each")
SAME_KIND(MINMAX);
SAME_KIND(MOVING_AVERAGE);
SAME_KIND(PERCENTILE);
SAME_KIND(MSE);
SAME_KIND(KL);

/* ---- life cycle ------------------------------------------------------------------------------ */

static tdm_status make_options(const tdm_observer_desc *desc, tdm_quant_observer_options *options) {
    if (desc->axis < -1 || desc->axis >= TDM_MAX_RANK)
        return tdm_fail(TDM_BAD_ARGUMENT, "observer_create: axis is %d, must be -1 to %d",
                        desc->axis, TDM_MAX_RANK - 1);
    if (desc->axis == -1 && desc->channels != 1)
        return tdm_fail(TDM_BAD_ARGUMENT,
                        "observer_create: channels is %lld, must be 1 where axis is -1",
                        (long long)desc->channels);
    if (desc->channels < 1)
        return tdm_fail(TDM_BAD_ARGUMENT, "observer_create: channels is %lld, must be at least 1",
                        (long long)desc->channels);
    *options = (tdm_quant_observer_options){.kind = (tdm_quant_observer_kind)desc->kind,
                                            .channels = desc->channels,
                                            .inner = 1,
                                            .percent = desc->percent,
                                            .momentum = desc->momentum};
    return TDM_OK;
}

/* Creates an empty observer with the options, or a copy of `from`. */
static tdm_status make_seen(const char *operation, const tdm_quant_observer_options *options,
                            const tdm_quant_observer *from, tdm_quant_observer **made) {
    tdm_quant_reason reason;
    const size_t bytes = tdm_quant_observer_bytes(options);
    void *const memory = bytes > 0 ? tdm_host_alloc(bytes) : NULL;
    if (bytes > 0 && !memory)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "%s: no host memory for %zu bytes", operation,
                        bytes);
    const tdm_status status = from ? tdm_quant_observer_copy(from, memory, bytes, made, &reason)
                                   : tdm_quant_observer_init(options, memory, bytes, made, &reason);
    if (status == TDM_OK)
        return TDM_OK;
    tdm_host_free(memory);
    return tdm_fail(status, "%s: %s", operation, reason.text);
}

tdm_status tdm_observer_create(const tdm_observer_desc *desc, tdm_observer **observer) {
    static const char operation[] = "observer_create";
    if (observer)
        *observer = NULL;
    if (!desc || !observer)
        return tdm_fail(TDM_BAD_ARGUMENT, "%s: %s is NULL", operation, desc ? "observer" : "desc");
    tdm_observer_desc room;
    desc = tdm_struct_read(operation, "desc", desc, sizeof room, &room);
    if (!desc)
        return TDM_BAD_ARGUMENT;
    tdm_quant_observer_options options;
    tdm_quant_observer *seen;
    TDM_TRY(make_options(desc, &options));
    TDM_TRY(make_seen(operation, &options, NULL, &seen));
    tdm_observer *const made = tdm_host_alloc(sizeof *made);
    if (!made) {
        tdm_host_free(seen);
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "%s: no host memory", operation);
    }
    *made = (tdm_observer){.seen = seen, .options = options, .axis = desc->axis};
    *observer = made;
    return TDM_OK;
}

void tdm_observer_destroy(tdm_observer *observer) {
    if (!observer)
        return;
    tdm_host_free(observer->seen);
    tdm_host_free(observer);
}

/* ---- observation ----------------------------------------------------------------------------- */

/* This is a tensor that is copied to the host in pieces. A piece has one index of every dimension
 * before `cut`, and a range of indices of dimension `cut`. */
typedef struct passage {
    tdm_stream *stream;
    const tdm_tensor *tensor;
    tdm_quant_observer *seen;
    int64_t inner; /* elements after the axis */
    void *host;    /* a piece in host memory */
    size_t bytes;
    int cut;      /* dimension that is cut; -1: the whole tensor is one piece */
    int64_t size; /* indices of that dimension */
    int64_t row;  /* elements of one of them, at most PIECE_ELEMENTS */
} passage;

static void choose_cut(passage *p) {
    const tdm_layout *const layout = &p->tensor->layout;
    int64_t elements = 1;
    for (int d = layout->rank - 1; d >= 0; d--) {
        p->cut = d;
        p->size = layout->shape[d];
        p->row = elements;
        elements *= p->size;
        if (elements > PIECE_ELEMENTS)
            return;
    }
    p->cut = -1;
    p->size = 1;
    p->row = elements;
}

/* Observes indices start to start + count - 1 of dimension `cut`, for index `outer` of the
 * dimensions before it. */
static tdm_status observe_piece(const passage *p, int64_t outer, int64_t start, int64_t count) {
    const tdm_layout *const layout = &p->tensor->layout;
    tdm_tensor piece = *p->tensor;
    int64_t rest = outer;
    for (int d = p->cut - 1; d >= 0; d--) {
        piece.layout.shape[d] = 1;
        piece.offset += rest % layout->shape[d] * layout->strides[d];
        rest /= layout->shape[d];
    }
    if (p->cut >= 0) {
        piece.layout.shape[p->cut] = count;
        piece.offset += start * layout->strides[p->cut];
    }
    tdm_handles_own(1);
    const tdm_status status = tdm_tensor_read(p->stream, &piece, p->host, p->bytes, NULL);
    tdm_handles_own(-1);
    if (status == TDM_OK)
        tdm_quant_observe_part(p->seen, p->inner, (outer * p->size + start) * p->row, layout->dtype,
                               p->host, count * p->row);
    return status;
}

static tdm_status observe_pieces(const passage *p) {
    const int64_t outers = tdm_layout_elements(&p->tensor->layout) / (p->size * p->row);
    const int64_t step = PIECE_ELEMENTS / p->row;
    for (int64_t outer = 0; outer < outers; outer++)
        for (int64_t start = 0; start < p->size; start += step) {
            const int64_t left = p->size - start;
            TDM_TRY(observe_piece(p, outer, start, step < left ? step : left));
        }
    tdm_quant_observe_end(p->seen);
    return TDM_OK;
}

static tdm_status check_batch(const char *operation, const tdm_observer *observer,
                              tdm_stream *stream, const tdm_tensor *tensor) {
    if (!observer)
        return tdm_fail(TDM_BAD_ARGUMENT, "%s: observer is NULL", operation);
    TDM_TRY(tdm_check_tensor(operation, "tensor", stream, tensor));
    TDM_TRY(tdm_quant_check_real(operation, "tensor", tensor));
    TDM_TRY(tdm_refuse_recording(stream, operation));
    const tdm_layout *const layout = &tensor->layout;
    if (observer->axis >= layout->rank)
        return tdm_fail(TDM_BAD_SHAPE,
                        "%s: the rank of tensor is %d, but the observer's axis is %d", operation,
                        layout->rank, observer->axis);
    if (observer->axis >= 0 && layout->shape[observer->axis] != observer->options.channels)
        return tdm_fail(TDM_BAD_SHAPE,
                        "%s: dimension %d of tensor has %lld elements, but the observer %lld "
                        "channels",
                        operation, observer->axis, (long long)layout->shape[observer->axis],
                        (long long)observer->options.channels);
    return TDM_OK;
}

static int64_t inner_elements(const tdm_layout *layout, int axis) {
    int64_t inner = 1;
    for (int d = axis + 1; axis >= 0 && d < layout->rank; d++)
        inner *= layout->shape[d];
    return inner;
}

tdm_status tdm_observer_observe(tdm_observer *observer, tdm_stream *stream,
                                const tdm_tensor *tensor) {
    static const char operation[] = "observer_observe";
    TDM_TRY(check_batch(operation, observer, stream, tensor));
    const tdm_layout *const layout = &tensor->layout;
    const int64_t elements = tdm_layout_elements(layout);
    if (elements == 0)
        return TDM_OK;
    passage p = {
        .stream = stream, .tensor = tensor, .inner = inner_elements(layout, observer->axis)};
    choose_cut(&p);
    TDM_TRY(make_seen(operation, &observer->options, observer->seen, &p.seen));
    p.bytes = (size_t)(elements < PIECE_ELEMENTS ? elements : PIECE_ELEMENTS) *
              (size_t)tdm_dtype_info(layout->dtype)->unit_bytes;
    p.host = tdm_host_alloc(p.bytes);
    const tdm_status status =
        p.host ? observe_pieces(&p)
               : tdm_fail(TDM_OUT_OF_HOST_MEMORY, "%s: no host memory for %zu bytes", operation,
                          p.bytes);
    if (status == TDM_OK) {
        tdm_quant_observer *const before = observer->seen;
        observer->seen = p.seen;
        p.seen = before;
    }
    tdm_host_free(p.seen);
    tdm_host_free(p.host);
    return status;
}

/* ---- merging --------------------------------------------------------------------------------- */

tdm_status tdm_observer_merge(tdm_observer *observer, const tdm_observer *from) {
    static const char operation[] = "observer_merge";
    tdm_quant_reason reason;
    if (!observer || !from)
        return tdm_fail(TDM_BAD_ARGUMENT, "%s: %s is NULL", operation,
                        observer ? "from" : "observer");
    if (observer == from)
        return tdm_fail(TDM_BAD_ARGUMENT, "%s: from and observer are the same", operation);
    const tdm_status status = tdm_quant_observer_merge(observer->seen, from->seen, &reason);
    return status == TDM_OK ? TDM_OK : tdm_fail(status, "%s: %s", operation, reason.text);
}

/* ---- results --------------------------------------------------------------------------------- */

tdm_status tdm_observer_seen(const tdm_observer *observer, tdm_observer_counts *counts) {
    static const char operation[] = "observer_seen";
    if (!observer || !counts)
        return tdm_fail(TDM_BAD_ARGUMENT, "%s: %s is NULL", operation,
                        observer ? "counts" : "observer");
    TDM_TRY(tdm_struct_check_output(operation, "counts", counts, sizeof *counts));
    const tdm_quant_seen seen = tdm_quant_observer_seen(observer->seen);
    const tdm_observer_counts now = {
        .numbers = seen.numbers, .nans = seen.nans, .infinities = seen.infinities};
    tdm_struct_write(&now, sizeof now, counts);
    return TDM_OK;
}

static tdm_status code_range(const char *operation, tdm_dtype dtype, bool symmetric,
                             tdm_quant_range *range) {
    switch (dtype) {
    case TDM_S8:
        *range = (tdm_quant_range){symmetric ? -127 : -128, 127};
        return TDM_OK;
    case TDM_U8:
        *range = (tdm_quant_range){0, 255};
        return TDM_OK;
    case TDM_S4:
        *range = (tdm_quant_range){symmetric ? -7 : -8, 7};
        return TDM_OK;
    default:
        return tdm_fail(TDM_BAD_DTYPE, "%s: dtype is %s, must be one of s8, u8, s4", operation,
                        tdm_dtype_name(dtype));
    }
}

static tdm_status check_result(const char *operation, const tdm_observer *observer,
                               const void *first, const char *first_name, const void *second,
                               const char *second_name, int64_t channels) {
    if (!observer || !first || !second)
        return tdm_fail(TDM_BAD_ARGUMENT, "%s: %s is NULL", operation,
                        !observer ? "observer"
                        : first   ? second_name
                                  : first_name);
    if (channels != observer->options.channels)
        return tdm_fail(TDM_BAD_ARGUMENT, "%s: channels is %lld, but the observer has %lld",
                        operation, (long long)channels, (long long)observer->options.channels);
    return TDM_OK;
}

static tdm_quant_symmetry symmetry_of(int symmetric) {
    return symmetric ? TDM_QUANT_SYMMETRIC : TDM_QUANT_ASYMMETRIC;
}

tdm_status tdm_observer_bounds(const tdm_observer *observer, tdm_dtype dtype, int symmetric,
                               float *minimums, float *maximums, int64_t channels) {
    static const char operation[] = "observer_bounds";
    tdm_quant_range range;
    TDM_TRY(
        check_result(operation, observer, minimums, "minimums", maximums, "maximums", channels));
    TDM_TRY(code_range(operation, dtype, symmetric != 0, &range));
    for (int64_t c = 0; c < channels; c++) {
        const tdm_quant_bounds bounds =
            tdm_quant_observer_bounds(observer->seen, c, symmetry_of(symmetric), range);
        minimums[c] = bounds.minimum;
        maximums[c] = bounds.maximum;
    }
    return TDM_OK;
}

tdm_status tdm_observer_parameters(const tdm_observer *observer, tdm_dtype dtype, int symmetric,
                                   float *scales, int32_t *zero_points, int64_t channels) {
    static const char operation[] = "observer_parameters";
    tdm_quant_range range;
    TDM_TRY(
        check_result(operation, observer, scales, "scales", zero_points, "zero_points", channels));
    TDM_TRY(code_range(operation, dtype, symmetric != 0, &range));
    for (int64_t c = 0; c < channels; c++) {
        const tdm_quant_parameters p =
            tdm_quant_observer_parameters(observer->seen, c, symmetry_of(symmetric), range);
        scales[c] = p.scale;
        zero_points[c] = p.zero_point;
    }
    return TDM_OK;
}
