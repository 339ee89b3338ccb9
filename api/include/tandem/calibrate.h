/*
 * Calibration: observers see tensors batch by batch and propose the range to quantize.
 *
 *     tdm_observer_create(&desc, &observer)
 *     for each batch:
 *         tdm_observer_observe(observer, stream, activations)
 *     tdm_observer_parameters(observer, TDM_U8, 0, &scale, &zero_point, 1)
 *     tdm_observer_destroy(observer)
 *
 * An observer is an object of the host and belongs to no device: the batches may be on any, of any context. Its memory per channel is
 * small, or 16 KiB where there is a histogram. Results are the same bits on every device (docs/numerics.md): elements are looked at
 * on the host, to which they are copied in pieces of at most 65536, so that host memory is bounded.
 *
 * NaN and infinities are counted and left out. One thread at a time per observer: give each thread its own, then merge.
 */
#ifndef TANDEM_CALIBRATE_H
#define TANDEM_CALIBRATE_H

#include <tandem/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdm_observer tdm_observer;

typedef enum tdm_observer_kind {
    TDM_OBSERVER_MINMAX = 1,         /* least and greatest number */
    TDM_OBSERVER_MOVING_AVERAGE = 2, /* average of the batches' extremes */
    TDM_OBSERVER_PERCENTILE = 3,     /* extremes without the outermost tails; a histogram */
    TDM_OBSERVER_MSE = 4,            /* range of least squared error; a histogram */
    TDM_OBSERVER_KL = 5              /* range of least information loss; a histogram */
} tdm_observer_kind;

/* What to observe. Start from TDM_OBSERVER_DESC_INIT: min-max of the whole tensor. */
typedef struct tdm_observer_desc {
    size_t struct_size; /* sizeof(tdm_observer_desc) */
    tdm_observer_kind kind;
    int axis;         /* dimension whose indices are channels, -1: the whole tensor is one */
    int64_t channels; /* the size of that dimension, at least 1; 1 without one */
    double percent;   /* percentile: in (0, 100], share of the numbers to keep; 0: 99.99 */
    double momentum;  /* moving average: weight of a new batch, in (0, 1]; 0: 0.01 */
} tdm_observer_desc;

#ifdef __cplusplus
static inline tdm_observer_desc tdm_observer_desc_init(void) {
    tdm_observer_desc desc = tdm_observer_desc();
    desc.struct_size = sizeof desc;
    desc.kind = TDM_OBSERVER_MINMAX;
    desc.axis = -1;
    desc.channels = 1;
    return desc;
}
#define TDM_OBSERVER_DESC_INIT tdm_observer_desc_init()
#else
#define TDM_OBSERVER_DESC_INIT                                                                     \
    {                                                                                              \
        .struct_size = sizeof(tdm_observer_desc), .kind = TDM_OBSERVER_MINMAX, .axis = -1,         \
        .channels = 1                                                                              \
    }
#endif

/*
 * An observer that has seen nothing. The caller releases it with tdm_observer_destroy, before the host allocator is replaced
 * (tdm_set_host_allocator). Statuses: TDM_BAD_ARGUMENT (NULL, struct_size, a field out of its domain, named),
 * TDM_OUT_OF_HOST_MEMORY. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_observer_create(const tdm_observer_desc *desc, tdm_observer **observer);

/* Release an observer; NULL is accepted. Since 0.1. */
TDM_API void tdm_observer_destroy(tdm_observer *observer);

/*
 * Look at one batch: a tensor of f32, f16 or bf16, any shape and strides, whose dimension desc.axis has desc.channels elements; the
 * other dimensions and the rank may differ from batch to batch. An empty tensor changes nothing. Comes after what was enqueued on
 * the stream and blocks until the tensor has been read. Meanwhile there is a second observer in host memory; on failure the observer is as it
 * was before. Device memory (a piece) is taken for tensors with gaps only. Statuses: TDM_BAD_ARGUMENT (NULL, another device than
 * the stream's), TDM_UNSUPPORTED (dtype, named), TDM_BAD_SHAPE (no such axis, or not so many channels), TDM_BAD_STATE (recording),
 * TDM_OUT_OF_HOST_MEMORY, memory, the stream's failure. Since 0.1.
 */
TDM_API tdm_status tdm_observer_observe(tdm_observer *observer, tdm_stream *stream,
                                        const tdm_tensor *tensor);

/*
 * Add what `from`, another observer of equal kind, channels, percent and momentum, has seen; it stays as it is. All kinds but the
 * moving average then give the bits of one observer that saw all batches, up to the sign of a bound of zero; a moving average is that
 * over the batches of `observer` followed by those of `from`, up to rounding in double precision. Statuses: TDM_BAD_ARGUMENT, and
 * nothing has changed. Since 0.1.
 */
TDM_API tdm_status tdm_observer_merge(tdm_observer *observer, const tdm_observer *from);

/* What was seen, over all channels. */
typedef struct tdm_observer_counts {
    size_t struct_size; /* sizeof(tdm_observer_counts), set by the caller */
    uint64_t numbers;   /* finite */
    uint64_t nans;
    uint64_t infinities;
} tdm_observer_counts;

/* Statuses: TDM_BAD_ARGUMENT. Since 0.1. */
TDM_API tdm_status tdm_observer_seen(const tdm_observer *observer, tdm_observer_counts *counts);

/*
 * The range that the observer proposes for each channel, for codes of `dtype` (s8, u8 or s4): arrays of desc.channels numbers, whose
 * length is given as `channels`. {0, 0} where nothing finite was seen. symmetric: not 0 for codes around a fixed zero point, which
 * have the integers -127 to 127 (s8), 0 to 255 (u8) or -7 to 7 (s4); else all of the dtype. Kinds with a histogram take a search per
 * channel. Statuses: TDM_BAD_ARGUMENT (NULL, another length), TDM_BAD_DTYPE. Since 0.1.
 */
TDM_API tdm_status tdm_observer_bounds(const tdm_observer *observer, tdm_dtype dtype, int symmetric,
                                       float *minimums, float *maximums, int64_t channels);

/*
 * Scales and zero points of those ranges, as tdm_tensor_quantize_minmax derives them: what the f32 and s32 tensors of tdm_quantization take.
 * symmetric: every zero point is 0, for u8 128. A range of zeros has the scale 0. Statuses: as tdm_observer_bounds. Since 0.1.
 */
TDM_API tdm_status tdm_observer_parameters(const tdm_observer *observer, tdm_dtype dtype,
                                           int symmetric, float *scales, int32_t *zero_points,
                                           int64_t channels);

#ifdef __cplusplus
}
#endif

#endif
