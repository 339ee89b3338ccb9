/*
 * Tensors, views, copies, fill, conversion.
 *
 * A tensor is a dtype, up to 8 dimensions, element strides, and an offset into a shared,
 * reference-counted buffer. Dimension 0 is the slowest in the default (row-major, contiguous)
 * layout. Strides are ≥ 0 and count elements. A stride of 0 repeats elements (broadcast). It is
 * legal for inputs and refused for outputs.
 *
 * Rank 0 is a scalar. A dimension of 0 makes an empty tensor. An operation whose result is empty
 * succeeds and does nothing. Views never copy. Tensors are immutable handles: any number of threads
 * may read one at the same time.
 */
#ifndef TANDEM_TENSOR_H
#define TANDEM_TENSOR_H

#include <tandem/memory.h>

#ifdef __cplusplus
extern "C" {
#endif

#define TDM_MAX_RANK 8

typedef struct tdm_tensor tdm_tensor;

/* Shape and strides of a tensor, without memory. All zero: no operand. */
typedef struct tdm_layout {
    tdm_dtype dtype;
    int rank;
    int64_t shape[TDM_MAX_RANK];
    int64_t strides[TDM_MAX_RANK]; /* in elements */
} tdm_layout;

/*
 * *layout = a contiguous row-major layout. shape may be NULL for rank 0. Statuses:
 * TDM_BAD_ARGUMENT, TDM_BAD_DTYPE, TDM_BAD_SHAPE (rank outside 0…8, negative dimension, size in
 * bytes beyond 2^63-1). Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_layout_contiguous(tdm_dtype dtype, int rank, const int64_t *shape,
                                         tdm_layout *layout);

/*
 * Allocate a contiguous tensor from the device's pool; its content is undefined. The caller
 * releases it with tdm_tensor_destroy. Statuses: as tdm_layout_contiguous and tdm_buffer_create,
 * and TDM_UNSUPPORTED (s4 with several rows of an odd number of elements). Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_tensor_create(tdm_device *device, tdm_dtype dtype, int rank,
                                     const int64_t *shape, tdm_tensor **tensor);

/*
 * Create a tensor of any layout on an existing buffer, starting `offset` elements into it. The
 * tensor keeps the buffer alive. The caller releases it with tdm_tensor_destroy. Statuses:
 * TDM_BAD_ARGUMENT, TDM_BAD_DTYPE, TDM_BAD_SHAPE (the layout exceeds the buffer), TDM_UNSUPPORTED
 * (sub-byte offset or strides that split a storage unit), TDM_OUT_OF_HOST_MEMORY. Thread-safe.
 * Since 0.1.
 */
TDM_API tdm_status tdm_tensor_on_buffer(tdm_buffer *buffer, int64_t offset,
                                        const tdm_layout *layout, tdm_tensor **tensor);

/* Release a tensor or view; NULL is accepted; legal while work on it is in flight. Thread-safe.
 * Since 0.1. */
TDM_API void tdm_tensor_destroy(tdm_tensor *tensor);

/* Properties of a tensor. A NULL tensor gives zero, TDM_DTYPE_NONE or NULL. A dimension outside the
 * rank gives 0. Thread-safe. Since 0.1. */
TDM_API tdm_dtype tdm_tensor_dtype(const tdm_tensor *tensor);
TDM_API int tdm_tensor_rank(const tdm_tensor *tensor);
TDM_API int64_t tdm_tensor_dim(const tdm_tensor *tensor, int dimension);
TDM_API int64_t tdm_tensor_stride(const tdm_tensor *tensor, int dimension);
TDM_API int64_t tdm_tensor_offset(const tdm_tensor *tensor); /* elements into the buffer */
TDM_API int64_t tdm_tensor_elements(const tdm_tensor *tensor);
TDM_API int tdm_tensor_is_contiguous(const tdm_tensor *tensor);
TDM_API tdm_device *tdm_tensor_device(const tdm_tensor *tensor); /* borrowed */
TDM_API tdm_buffer *tdm_tensor_buffer(const tdm_tensor *tensor); /* borrowed */

/* *layout = the layout of a tensor. Statuses: TDM_BAD_ARGUMENT. Thread-safe. Since 0.1. */
TDM_API tdm_status tdm_tensor_layout(const tdm_tensor *tensor, tdm_layout *layout);

/* Views are new handles on the same buffer, released like tensors. All are thread-safe. Since 0.1.
 * Statuses of each: TDM_BAD_ARGUMENT, TDM_BAD_SHAPE, TDM_UNSUPPORTED, TDM_OUT_OF_HOST_MEMORY. */

/* View with any shape and strides, starting `offset` elements after the tensor's own start. It must
 * stay inside the buffer. */
TDM_API tdm_status tdm_tensor_view(const tdm_tensor *tensor, int rank, const int64_t *shape,
                                   const int64_t *strides, int64_t offset, tdm_tensor **view);

/* View of elements start, start+step, … < stop of one dimension; 0 ≤ start ≤ stop ≤ dim and
 * step ≥ 1. */
TDM_API tdm_status tdm_tensor_slice(const tdm_tensor *tensor, int dimension, int64_t start,
                                    int64_t stop, int64_t step, tdm_tensor **view);

/* View with permuted dimensions: dimension i of the view is dimension order[i] of the tensor. NULL
 * reverses the dimensions. */
TDM_API tdm_status tdm_tensor_transpose(const tdm_tensor *tensor, const int *order,
                                        tdm_tensor **view);

/* View with another shape and the same number of elements in row-major order. TDM_UNSUPPORTED if
 * that needs a copy. */
TDM_API tdm_status tdm_tensor_reshape(const tdm_tensor *tensor, int rank, const int64_t *shape,
                                      tdm_tensor **view);

/* View that repeats dimensions of size 1 (and new leading ones) to `shape`, by strides of 0. */
TDM_API tdm_status tdm_tensor_broadcast(const tdm_tensor *tensor, int rank, const int64_t *shape,
                                        tdm_tensor **view);

/*
 * Copies between host memory and a tensor of any strides. The host side is dense row-major unless
 * host_strides gives element strides (one per dimension, ≥ 0). For a read, no two elements may
 * share an address in host memory. s4 is dense on the host side: two elements per byte, without
 * gaps between rows. host_bytes is the size of the host memory. A copy that would exceed it is
 * refused with TDM_BAD_SHAPE.
 *
 * The plain forms enqueue, wait, and return when the data has arrived. The _async forms only
 * enqueue: host memory must stay valid (and unchanged for a write) until the stream has reached
 * that point.
 *
 * Statuses: TDM_BAD_ARGUMENT, TDM_BAD_SHAPE, TDM_UNSUPPORTED (host_strides with s4), TDM_BAD_STATE
 * (recording), memory, the stream's failure. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_tensor_write(tdm_stream *stream, const void *host, size_t host_bytes,
                                    const int64_t *host_strides, tdm_tensor *target);
TDM_API tdm_status tdm_tensor_read(tdm_stream *stream, const tdm_tensor *source, void *host,
                                   size_t host_bytes, const int64_t *host_strides);
TDM_API tdm_status tdm_tensor_write_async(tdm_stream *stream, const void *host, size_t host_bytes,
                                          const int64_t *host_strides, tdm_tensor *target);
TDM_API tdm_status tdm_tensor_read_async(tdm_stream *stream, const tdm_tensor *source, void *host,
                                         size_t host_bytes, const int64_t *host_strides);

/*
 * Create a contiguous tensor on the stream's device and copy `host` (dense, row-major) into it:
 * tdm_tensor_create and tdm_tensor_write in one call. Blocking. The caller releases the tensor with
 * tdm_tensor_destroy. Statuses: as those two functions, and TDM_BAD_ARGUMENT. Thread-safe. Since
 * 0.2.
 */
TDM_API tdm_status tdm_tensor_from_host(tdm_stream *stream, tdm_dtype dtype, int rank,
                                        const int64_t *shape, const void *host,
                                        tdm_tensor **tensor);

/*
 * Copy between tensors of one device, one dtype and one shape; any strides. They must not overlap,
 * except that a copy to an equal view does nothing. Enqueues. Statuses: TDM_BAD_ARGUMENT (NULL;
 * devices differ: use tdm_tensor_copy_across; overlap), TDM_BAD_SHAPE, TDM_BAD_DTYPE (use
 * tdm_tensor_convert), TDM_UNSUPPORTED, the stream's failure. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_tensor_copy(tdm_stream *stream, const tdm_tensor *source,
                                   tdm_tensor *target);

/*
 * Copy between tensors of two devices, which may belong to two backends or two contexts; one dtype
 * and one shape, any strides. source_stream is a stream of the source's device, target_stream one
 * of the target's. The copy runs after the work enqueued on both streams so far. Later work on
 * target_stream runs after the copy.
 *
 * The data passes through pinned host memory in pieces, so that both devices work at once. A side
 * with strides is packed on its device, which needs a dense temporary there. The call blocks until
 * the source has been read. Earlier work of source_stream is then done, and its failures are
 * returned. The target's side is only enqueued.
 *
 * If both tensors are on one device, the call is a tdm_tensor_copy on target_stream. Events order
 * it as above, and it does not block. Statuses: TDM_BAD_ARGUMENT (NULL, a tensor that is not on its
 * stream's device, overlap), TDM_BAD_SHAPE, TDM_BAD_DTYPE, TDM_BAD_STATE (recording),
 * TDM_UNSUPPORTED, memory (of both devices and pinned), either stream's failure. Thread-safe. Since
 * 0.1.
 */
TDM_API tdm_status tdm_tensor_copy_across(tdm_stream *source_stream, const tdm_tensor *source,
                                          tdm_stream *target_stream, tdm_tensor *target);

/*
 * Set every element to `value`, converted from f64 with one rounding, by the rules of
 * tdm_tensor_convert. Dtypes: those of tdm_tensor_convert, and f64. Enqueues. Statuses:
 * TDM_BAD_ARGUMENT, TDM_UNSUPPORTED (dtype), the stream's failure. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_tensor_fill(tdm_stream *stream, double value, tdm_tensor *target);

/*
 * Convert among f32, f16, bf16, s32, s8, u8, s4, s64 and bool, but not between s4 and s64 or bool;
 * same shape, any strides, no overlap. Each element is rounded once.
 *   To a float: to nearest, ties to even. Beyond the largest finite value: infinity. NaN stays NaN.
 *   To an integer: to nearest, ties to even, then saturated to the type's range. NaN gives 0.
 *   To bool: x != 0, which is true for a NaN. From bool: 0 or 1.
 * Enqueues. Statuses: TDM_BAD_ARGUMENT, TDM_BAD_SHAPE, TDM_UNSUPPORTED (other dtypes, named in the
 * detail), the stream's failure. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_tensor_convert(tdm_stream *stream, const tdm_tensor *source,
                                      tdm_tensor *target);

#ifdef __cplusplus
}
#endif

#endif
