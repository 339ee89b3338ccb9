/* A view is another layout on the same buffer. */
#include <string.h>

#include "api/base/handles.h"
#include "api/tensor/tensor_internal.h"

/* Creates the view, with a check against the buffer. Failures name the caller's operation. */
static tdm_status make_view(const char *operation, const tdm_tensor *tensor,
                            const tdm_layout *layout, int64_t offset, tdm_tensor **view) {
    int64_t start;
    if (tdm_add_overflows(tensor->offset, offset, &start))
        return tdm_fail(TDM_BAD_SHAPE, "%s: offset is %lld", operation, (long long)offset);
    const tdm_status status = tdm_tensor_on_buffer(tensor->buffer, start, layout, view);
    return status == TDM_OK ? TDM_OK : tdm_fail_prefix(status, "%s", operation);
}

static tdm_status check_pointers(const char *operation, const tdm_tensor *tensor,
                                 tdm_tensor **view) {
    if (!view)
        return tdm_fail(TDM_BAD_ARGUMENT, "%s: view is NULL", operation);
    *view = NULL;
    return tensor ? tdm_handle_check(TDM_HANDLE_TENSOR, tensor, operation, "tensor")
                  : tdm_fail(TDM_BAD_ARGUMENT, "%s: tensor is NULL", operation);
}

static tdm_status check_rank(const char *operation, int rank, const int64_t *shape) {
    if (rank < 0 || rank > TDM_MAX_RANK)
        return tdm_fail(TDM_BAD_SHAPE, "%s: rank is %d, must be 0 to %d", operation, rank,
                        TDM_MAX_RANK);
    if (rank > 0 && !shape)
        return tdm_fail(TDM_BAD_ARGUMENT, "%s: shape is NULL but rank is %d", operation, rank);
    return TDM_OK;
}

tdm_status tdm_tensor_view(const tdm_tensor *tensor, int rank, const int64_t *shape,
                           const int64_t *strides, int64_t offset, tdm_tensor **view) {
    TDM_TRY(check_pointers("tensor_view", tensor, view));
    TDM_TRY(check_rank("tensor_view", rank, shape));
    if (rank > 0 && !strides)
        return tdm_fail(TDM_BAD_ARGUMENT, "tensor_view: strides is NULL but rank is %d", rank);
    if (offset < 0)
        return tdm_fail(TDM_BAD_ARGUMENT, "tensor_view: offset is %lld", (long long)offset);
    tdm_layout layout = {.dtype = tensor->layout.dtype, .rank = rank};
    for (int i = 0; i < rank; i++) {
        layout.shape[i] = shape[i];
        layout.strides[i] = strides[i];
    }
    TDM_TRY(make_view("tensor_view", tensor, &layout, offset, view));
    return tdm_view_carry_whole("tensor_view", tensor, view);
}

tdm_status tdm_tensor_slice(const tdm_tensor *tensor, int dimension, int64_t start, int64_t stop,
                            int64_t step, tdm_tensor **view) {
    TDM_TRY(check_pointers("tensor_slice", tensor, view));
    if (dimension < 0 || dimension >= tensor->layout.rank)
        return tdm_fail(TDM_BAD_ARGUMENT, "tensor_slice: dimension is %d, rank is %d", dimension,
                        tensor->layout.rank);
    const int64_t size = tensor->layout.shape[dimension];
    if (start < 0 || stop < start || stop > size || step < 1)
        return tdm_fail(TDM_BAD_SHAPE,
                        "tensor_slice: start %lld, stop %lld, step %lld are out of range for "
                        "dimension %d of %lld",
                        (long long)start, (long long)stop, (long long)step, dimension,
                        (long long)size);
    tdm_layout layout = tensor->layout;
    const int64_t count = tdm_ceil_div(stop - start, step);
    layout.shape[dimension] = count;
    // The stride is not multiplied for one element or none, so that a huge step cannot overflow it.
    if (count > 1)
        layout.strides[dimension] *= step;
    const int64_t offset = count > 0 ? start * tensor->layout.strides[dimension] : 0;
    TDM_TRY(make_view("tensor_slice", tensor, &layout, offset, view));
    return tdm_view_carry_slice(tensor, &(tdm_view_slice){dimension, start, stop, step}, view);
}

tdm_status tdm_tensor_transpose(const tdm_tensor *tensor, const int *order, tdm_tensor **view) {
    TDM_TRY(check_pointers("tensor_transpose", tensor, view));
    const int rank = tensor->layout.rank;
    tdm_layout layout = {.dtype = tensor->layout.dtype, .rank = rank};
    unsigned seen = 0;
    for (int i = 0; i < rank; i++) {
        const int from = order ? order[i] : rank - 1 - i;
        if (from < 0 || from >= rank || (seen & 1u << from))
            return tdm_fail(TDM_BAD_ARGUMENT,
                            "tensor_transpose: order[%d] is %d, must be each of 0 to %d once", i,
                            from, rank - 1);
        seen |= 1u << from;
        layout.shape[i] = tensor->layout.shape[from];
        layout.strides[i] = tensor->layout.strides[from];
    }
    TDM_TRY(make_view("tensor_transpose", tensor, &layout, 0, view));
    return tdm_view_carry_transposed(tensor, order, view);
}

/* Gets shape and strides without dimensions of 1, with neighbours merged if one stride serves both.
 * Returns the rank. */
static int merge_dimensions(const tdm_layout *layout, int64_t shape[TDM_MAX_RANK],
                            int64_t strides[TDM_MAX_RANK]) {
    int rank = 0;
    for (int i = 0; i < layout->rank; i++) {
        if (layout->shape[i] == 1)
            continue;
        if (rank > 0 && strides[rank - 1] == layout->shape[i] * layout->strides[i]) {
            shape[rank - 1] *= layout->shape[i];
            strides[rank - 1] = layout->strides[i];
        } else {
            shape[rank] = layout->shape[i];
            strides[rank++] = layout->strides[i];
        }
    }
    return rank;
}

/* Splits the merged dimensions into the new ones, starting with the last. Returns false if a new
 * dimension would span two of them. */
static bool split_dimensions(const int64_t *shape, const int64_t *strides, int rank,
                             tdm_layout *layout) {
    int from = rank - 1;
    int64_t left = from >= 0 ? shape[from] : 1, stride = from >= 0 ? strides[from] : 1;
    for (int i = layout->rank - 1; i >= 0; i--) {
        const int64_t size = layout->shape[i];
        if (left == 1 && size > 1 && from > 0) {
            from--;
            left = shape[from];
            stride = strides[from];
        }
        if (left % size != 0)
            return false;
        layout->strides[i] = stride;
        left /= size;
        stride *= size;
    }
    return true;
}

tdm_status tdm_tensor_reshape(const tdm_tensor *tensor, int rank, const int64_t *shape,
                              tdm_tensor **view) {
    TDM_TRY(check_pointers("tensor_reshape", tensor, view));
    TDM_TRY(check_rank("tensor_reshape", rank, shape));
    tdm_layout layout;
    TDM_TRY(tdm_layout_contiguous(tensor->layout.dtype, rank, shape, &layout));
    char from[TDM_SHAPE_TEXT], to[TDM_SHAPE_TEXT];
    if (tdm_layout_elements(&layout) != tdm_layout_elements(&tensor->layout))
        return tdm_fail(TDM_BAD_SHAPE, "tensor_reshape: %s has %lld elements, %s has %lld",
                        tdm_layout_text(&tensor->layout, from),
                        (long long)tdm_layout_elements(&tensor->layout),
                        tdm_layout_text(&layout, to), (long long)tdm_layout_elements(&layout));
    int64_t merged_shape[TDM_MAX_RANK], merged_strides[TDM_MAX_RANK];
    const int merged = merge_dimensions(&tensor->layout, merged_shape, merged_strides);
    if (tdm_layout_elements(&layout) > 0 &&
        !split_dimensions(merged_shape, merged_strides, merged, &layout))
        return tdm_fail(
            TDM_UNSUPPORTED,
            "tensor_reshape: %s to %s is not possible with these strides without a copy",
            tdm_layout_text(&tensor->layout, from), tdm_layout_text(&layout, to));
    TDM_TRY(make_view("tensor_reshape", tensor, &layout, 0, view));
    return tdm_view_carry_whole("tensor_reshape", tensor, view);
}

tdm_status tdm_tensor_broadcast(const tdm_tensor *tensor, int rank, const int64_t *shape,
                                tdm_tensor **view) {
    TDM_TRY(check_pointers("tensor_broadcast", tensor, view));
    TDM_TRY(check_rank("tensor_broadcast", rank, shape));
    const tdm_layout *const old = &tensor->layout;
    tdm_layout layout = {.dtype = old->dtype, .rank = rank};
    if (rank < old->rank)
        return tdm_fail(TDM_BAD_SHAPE, "tensor_broadcast: rank is %d but the tensor's is %d", rank,
                        old->rank);
    const int leading = rank - old->rank;
    for (int i = 0; i < rank; i++) {
        const int64_t size = i < leading ? 1 : old->shape[i - leading];
        layout.shape[i] = shape[i];
        layout.strides[i] = size == 1 && shape[i] != 1 ? 0
                            : i < leading              ? 0
                                                       : old->strides[i - leading];
        if (size != 1 && size != shape[i])
            return tdm_fail(
                TDM_BAD_SHAPE,
                "tensor_broadcast: dimension %d is %lld and cannot be broadcast to %lld", i,
                (long long)size, (long long)shape[i]);
    }
    TDM_TRY(make_view("tensor_broadcast", tensor, &layout, 0, view));
    return tdm_view_carry_whole("tensor_broadcast", tensor, view);
}
