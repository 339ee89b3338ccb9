/*
 * Calibration: observers see tensors batch by batch and propose the range to quantize.
 *
 *     tdm_observer_create(&desc, &observer)
 *     for each batch:
 *         tdm_observer_observe(observer, stream, activations)
 *     tdm_observer_parameters(observer, TDM_U8, 0, &scale, &zero_point, 1)
 *     tdm_observer_destroy(observer)
 *
 * An observer is a host object and belongs to no device. The batches may be on any device of any
 * context. An observer needs little memory per channel, or 16 KiB with a histogram. Results have
 * the same bits on every device (docs/numerics.md). Elements are copied to the host in pieces of at
 * most 65536, so that host memory is bounded.
 *
 * NaNs and infinities are counted, but have no other effect. Only one thread at a time may use an
 * observer. For several threads, give each its own observer, then merge them.
 */
#ifndef TANDEM_CALIBRATE_H
#define TANDEM_CALIBRATE_H

#include <tandem/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdm_observer tdm_observer;

typedef enum tdm_observer_kind {
    TDM_OBSERVER_MINMAX = 1,         /* smallest and largest number */
    TDM_OBSERVER_MOVING_AVERAGE = 2, /* moving average of the batches' minimum and maximum */
    /* minimum and maximum without the outermost tails; a histogram */
    TDM_OBSERVER_PERCENTILE = 3,
    TDM_OBSERVER_MSE = 4, /* range of least squared error; a histogram */
    TDM_OBSERVER_KL = 5   /* range of least information loss; a histogram */
} tdm_observer_kind;

/* Description of an observer. Start from TDM_OBSERVER_DESC_INIT: min-max of the whole tensor. */
typedef struct tdm_observer_desc {
    size_t struct_size; /* sizeof(tdm_observer_desc) */
    tdm_observer_kind kind;
    int axis;         /* dimension whose indices are channels; -1: one channel, the whole tensor */
    int64_t channels; /* size of that dimension, at least 1; 1 if axis is -1 */
    double percent;   /* percentile: share of the numbers to keep, in (0, 100]; 0: 99.99 */
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
 * Create an observer that has seen nothing. The caller releases it with tdm_observer_destroy,
 * before the host allocator is replaced (tdm_set_host_allocator). Statuses: TDM_BAD_ARGUMENT (NULL,
 * struct_size, a field out of its domain, named), TDM_OUT_OF_HOST_MEMORY. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_observer_create(const tdm_observer_desc *desc, tdm_observer **observer);

/* Release an observer; NULL is accepted. Since 0.1. */
TDM_API void tdm_observer_destroy(tdm_observer *observer);

/*
 * Observe one batch: a tensor of f32, f16 or bf16, any shape and strides. Dimension desc.axis must
 * have desc.channels elements. The other dimensions and the rank may differ from batch to batch. An
 * empty tensor changes nothing.
 *
 * The call reads the tensor after the work enqueued on the stream so far, and blocks until that is
 * done. Meanwhile it needs host memory for a copy of the observer. On failure the observer is
 * unchanged. Device memory (one piece) is allocated only for tensors that are not dense. Statuses:
 * TDM_BAD_ARGUMENT (NULL, another device than the stream's), TDM_UNSUPPORTED (dtype, named),
 * TDM_BAD_SHAPE (no such axis, or another number of channels), TDM_BAD_STATE (recording),
 * TDM_OUT_OF_HOST_MEMORY, memory, the stream's failure. Since 0.1.
 */
TDM_API tdm_status tdm_observer_observe(tdm_observer *observer, tdm_stream *stream,
                                        const tdm_tensor *tensor);

/*
 * Add everything that `from` has seen to `observer`. Both must have equal kind, channels, percent
 * and momentum. `from` is unchanged. Except for the moving average, the result has the bits of one
 * observer that saw all batches, up to the sign of a zero bound. A moving average becomes that of
 * the batches of `observer`, followed by those of `from`, up to rounding in double precision.
 * Statuses: TDM_BAD_ARGUMENT (nothing changes). Since 0.1.
 */
TDM_API tdm_status tdm_observer_merge(tdm_observer *observer, const tdm_observer *from);

/* Number of elements seen, over all channels. */
typedef struct tdm_observer_counts {
    size_t struct_size; /* sizeof(tdm_observer_counts), set by the caller */
    uint64_t numbers;   /* finite numbers */
    uint64_t nans;
    uint64_t infinities;
} tdm_observer_counts;

/* Get the counts. Statuses: TDM_BAD_ARGUMENT. Since 0.1. */
TDM_API tdm_status tdm_observer_seen(const tdm_observer *observer, tdm_observer_counts *counts);

/*
 * Get the proposed range of each channel for quantized values of `dtype` (s8, u8 or s4). The arrays
 * have `channels` elements, which must equal desc.channels. The range is {0, 0} if nothing finite
 * was seen. Kinds with a histogram run a search per channel.
 *
 * If symmetric is not 0, the zero point is fixed. The quantized values are then -127 to 127 (s8), 0
 * to 255 (u8) or -7 to 7 (s4). Otherwise all integers of the dtype are used. Statuses:
 * TDM_BAD_ARGUMENT (NULL, another length), TDM_BAD_DTYPE. Since 0.1.
 */
TDM_API tdm_status tdm_observer_bounds(const tdm_observer *observer, tdm_dtype dtype, int symmetric,
                                       float *minimums, float *maximums, int64_t channels);

/*
 * Get the scales and zero points of those ranges, as tdm_tensor_quantize_minmax derives them. They
 * are the content of the f32 and s32 tensors of tdm_quantization. If symmetric is not 0, every zero
 * point is 0, or 128 for u8. A range of zeros has the scale 0. Statuses: as tdm_observer_bounds.
 * Since 0.1.
 */
TDM_API tdm_status tdm_observer_parameters(const tdm_observer *observer, tdm_dtype dtype,
                                           int symmetric, float *scales, int32_t *zero_points,
                                           int64_t channels);

#ifdef __cplusplus
}
#endif

#endif
