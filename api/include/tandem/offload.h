/*
 * Weights that do not fit into the device's memory all at once: a list in host memory (a mapped file's, for instance), copied to the
 * device ahead of its use.
 *
 *     tdm_offload_create(device, items, count, &options, &offload)
 *     for each layer i, any number of times:
 *         tdm_offload_acquire(offload, i, stream, &weights);    the stream waits for the copy, the host does not
 *         ... operations on stream that use weights ...
 *         tdm_offload_release(offload, i, stream);              their place is free when the stream has come here
 *
 * A part of the budget keeps some items for good, the rest is a ring through which the others pass. After each acquire the items that
 * followed the last time (at first: the next of the list) are copied ahead.
 */
#ifndef TANDEM_OFFLOAD_H
#define TANDEM_OFFLOAD_H

#include <tandem/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdm_offload tdm_offload;

/* One tensor in host memory: any layout, from its first element on. */
typedef struct tdm_offload_item {
    tdm_layout layout;
    const void *memory;
    size_t bytes; /* of the host memory, at least what the layout reaches over */
} tdm_offload_item;

typedef struct tdm_offload_options {
    size_t struct_size;    /* sizeof(tdm_offload_options) */
    uint64_t budget_bytes; /* of device memory; required */
    int depth;             /* items copied ahead, 0: the planner's choice */
    double in_bytes_per_s; /* host to device, 0: measured */
    double use_s; /* that a stream works with one item, 0: as long as copies take on average */
} tdm_offload_options;

typedef struct tdm_offload_stats {
    size_t struct_size; /* sizeof(tdm_offload_stats), set by the caller */
    uint64_t acquires;
    uint64_t hits;   /* of them: the copy had been enqueued before */
    uint64_t misses; /* of them: it had not, and was now */
    uint64_t bytes_moved;
    uint64_t evictions;       /* items that made room */
    uint64_t device_bytes;    /* allocated */
    int resident_items;       /* that stay once they are there */
    int depth;                /* items copied ahead */
    double predicted_cycle_s; /* for one pass over the list, as the planner counts */
} tdm_offload_stats;

/*
 * Divide the budget and allocate it; nothing is copied yet. The host memory must stay valid and unchanged until tdm_offload_destroy. Blocking;
 * the first call on a device measures its link. Statuses: TDM_BAD_ARGUMENT, TDM_BAD_DTYPE, TDM_BAD_SHAPE, TDM_OVER_BUDGET (the
 * largest item does not fit, the detail says how much does), memory. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_offload_create(tdm_device *device, const tdm_offload_item *items, int count,
                                      const tdm_offload_options *options, tdm_offload **offload);

/* Release everything; NULL is accepted; waits for copies, not for the work that uses the tensors. No item may be acquired afterwards. Since 0.1. */
TDM_API void tdm_offload_destroy(tdm_offload *offload);

/*
 * Have an item on the device for what is enqueued on `stream` from here on, until it is released as often as it was acquired. *tensor is
 * borrowed and valid until then. Does not block. Statuses: TDM_BAD_ARGUMENT, TDM_BAD_STATE (recording), TDM_OVER_BUDGET (acquired
 * items leave no room), TDM_OUT_OF_HOST_MEMORY, the stream's failure; on failure nothing is acquired. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_offload_acquire(tdm_offload *offload, int index, tdm_stream *stream,
                                       const tdm_tensor **tensor);

/*
 * The item's place may be used for another one when `stream` has passed what it has so far. Does not block. Statuses: TDM_BAD_ARGUMENT,
 * TDM_BAD_STATE (not acquired; recording), TDM_OUT_OF_HOST_MEMORY, the stream's failure: the item then stays acquired. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_offload_release(tdm_offload *offload, int index, tdm_stream *stream);

/* Statuses: TDM_BAD_ARGUMENT. Thread-safe. Since 0.1. */
TDM_API tdm_status tdm_offload_statistics(tdm_offload *offload, tdm_offload_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
