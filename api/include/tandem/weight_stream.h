/*
 * Weight streaming, for weights that do not fit into the device's memory all at once. The weights
 * are a list in host memory (of a mapped file, for instance). They are copied to the device ahead
 * of their use.
 *
 *     tdm_weight_stream_create(device, items, count, &options, &weight_stream)
 *     for each layer i, any number of times:
 *         // The stream waits for the copy; the host does not.
 *         tdm_weight_stream_acquire(weight_stream, i, stream, &weights);
 *         ... operations on stream that use weights ...
 *         // The slot is free when the stream reaches this point.
 *         tdm_weight_stream_release(weight_stream, i, stream);
 *
 * A part of the budget keeps some items permanently. The rest is a ring buffer for the other items.
 * After each acquire, the library prefetches the items that followed it the last time. The first
 * time, these are the next items of the list.
 */
#ifndef TANDEM_WEIGHT_STREAM_H
#define TANDEM_WEIGHT_STREAM_H

#include <tandem/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdm_weight_stream tdm_weight_stream;

/* One tensor in host memory, of any layout, starting at its first element. */
typedef struct tdm_weight_stream_item {
    tdm_layout layout;
    const void *memory;
    size_t bytes; /* size of the host memory, at least the layout's extent */
} tdm_weight_stream_item;

typedef struct tdm_weight_stream_options {
    size_t struct_size;    /* sizeof(tdm_weight_stream_options) */
    uint64_t budget_bytes; /* bound of device memory; required */
    int depth;             /* items to prefetch; 0: the planner's choice */
    double in_bytes_per_s; /* host to device; 0: measured */
    double use_s;          /* duration of the work with one item; 0: average time of a copy */
} tdm_weight_stream_options;

typedef struct tdm_weight_stream_stats {
    size_t struct_size; /* sizeof(tdm_weight_stream_stats), set by the caller */
    uint64_t acquires;
    uint64_t hits;   /* acquires whose copy was already enqueued */
    uint64_t misses; /* acquires that had to enqueue the copy */
    uint64_t bytes_moved;
    uint64_t evictions;       /* items evicted to make room */
    uint64_t device_bytes;    /* allocated device memory */
    int resident_items;       /* items that stay once they are on the device */
    int depth;                /* items that are prefetched */
    double predicted_cycle_s; /* one pass over the list, as the planner predicts */
} tdm_weight_stream_stats;

/*
 * Divide the budget between these two parts and allocate it. Nothing is copied yet. The host memory
 * must stay valid and unchanged until tdm_weight_stream_destroy, with which the caller releases the
 * object. Blocking; the first call on a device measures its link. Statuses: TDM_BAD_ARGUMENT,
 * TDM_BAD_DTYPE, TDM_BAD_SHAPE, TDM_UNSUPPORTED (strides that split a storage unit),
 * TDM_OVER_BUDGET (the largest item does not fit; the detail gives its size), memory. Thread-safe.
 * Since 0.1.
 */
TDM_API tdm_status tdm_weight_stream_create(tdm_device *device, const tdm_weight_stream_item *items,
                                            int count, const tdm_weight_stream_options *options,
                                            tdm_weight_stream **weight_stream);

/* Release everything; NULL is accepted. Waits for copies, not for the work that uses the tensors.
 * No item may be acquired afterwards. Since 0.1. */
TDM_API void tdm_weight_stream_destroy(tdm_weight_stream *weight_stream);

/*
 * Make an item available on the device to work that is enqueued on `stream` after this call. Each
 * acquired item must be released once per acquire. *tensor is borrowed and valid until then. Does
 * not block. Statuses: TDM_BAD_ARGUMENT, TDM_BAD_STATE (recording), TDM_OVER_BUDGET (acquired items
 * leave no room), TDM_OUT_OF_HOST_MEMORY, the stream's failure. On failure nothing is acquired.
 * Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_weight_stream_acquire(tdm_weight_stream *weight_stream, int index,
                                             tdm_stream *stream, const tdm_tensor **tensor);

/*
 * Release an item. Its slot may be reused when `stream` has completed the work enqueued so far.
 * Does not block. Statuses: TDM_BAD_ARGUMENT, TDM_BAD_STATE (not acquired, or recording),
 * TDM_OUT_OF_HOST_MEMORY, the stream's failure. On failure the item stays acquired. Thread-safe.
 * Since 0.1.
 */
TDM_API tdm_status tdm_weight_stream_release(tdm_weight_stream *weight_stream, int index,
                                             tdm_stream *stream);

/* Get the statistics. Statuses: TDM_BAD_ARGUMENT. Thread-safe. Since 0.1. */
TDM_API tdm_status tdm_weight_stream_statistics(tdm_weight_stream *weight_stream,
                                                tdm_weight_stream_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
