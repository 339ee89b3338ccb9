/* These are checks that operations share: devices, outputs and overlap. */
#include "api/base/handles.h"
#include "api/tensor/tensor_internal.h"

tdm_status tdm_check_tensor(const char *operation, const char *argument, const tdm_stream *stream,
                            const tdm_tensor *tensor) {
    if (!stream)
        return tdm_fail(TDM_BAD_ARGUMENT, "%s: stream is NULL", operation);
    if (!tensor)
        return tdm_fail(TDM_BAD_ARGUMENT, "%s: %s is NULL", operation, argument);
    TDM_TRY(tdm_handle_check(TDM_HANDLE_TENSOR, tensor, operation, argument));
    return tdm_check_device(operation, argument, tensor->buffer->device, "the stream",
                            stream->device);
}

tdm_status tdm_check_last_unit(const char *operation, const char *argument,
                               const tdm_tensor *tensor) {
    const tdm_dtype_traits *const traits = tdm_dtype_info(tensor->layout.dtype);
    const int64_t end = tensor->offset + tdm_layout_extent(&tensor->layout);
    const int64_t units = tdm_ceil_div(end, traits->elements_per_unit);
    if (end % traits->elements_per_unit == 0 ||
        (size_t)(units * traits->unit_bytes) >= tensor->buffer->bytes)
        return TDM_OK;
    return tdm_fail(TDM_UNSUPPORTED,
                    "%s: the output %s ends inside a storage unit of %d %s elements", operation,
                    argument, traits->elements_per_unit, traits->name);
}

tdm_status tdm_check_output(const char *operation, const char *argument, const tdm_stream *stream,
                            const tdm_tensor *tensor) {
    TDM_TRY(tdm_check_tensor(operation, argument, stream, tensor));
    if (tdm_layout_self_overlaps(&tensor->layout))
        return tdm_fail(TDM_BAD_ARGUMENT, "%s: elements of the output %s overlap in memory",
                        operation, argument);
    return TDM_OK;
}

bool tdm_same_view(const tdm_tensor *a, const tdm_tensor *b) {
    return a->buffer == b->buffer && a->offset == b->offset &&
           tdm_layout_equal(&a->layout, &b->layout);
}

/* Gets the first byte that the tensor occupies, and one past the last. */
static void byte_range(const tdm_tensor *tensor, int64_t *first, int64_t *end) {
    const int bits = tdm_dtype_info(tensor->layout.dtype)->bits;
    *first = tensor->offset * bits / 8;
    *end = ((tensor->offset + tdm_layout_extent(&tensor->layout)) * bits + 7) / 8;
}

/*
 * True if two views of one matrix, with the same dtype, use disjoint columns. Each view is a grid
 * with row stride R, starting column c and width w. The views are disjoint if their column ranges
 * modulo R are, e.g. the left and right half of a matrix.
 */
static bool columns_apart(const tdm_tensor *a, const tdm_tensor *b) {
    const tdm_tensor *const both[2] = {a, b};
    int64_t pitch = 0, column[2], width[2];
    for (int i = 0; i < 2; i++)
        for (int d = 0; d < both[i]->layout.rank; d++)
            if (both[i]->layout.shape[d] > 1 && both[i]->layout.strides[d] > pitch)
                pitch = both[i]->layout.strides[d];
    if (a->layout.dtype != b->layout.dtype || pitch <= 1)
        return false;
    for (int i = 0; i < 2; i++) {
        const tdm_layout *const layout = &both[i]->layout;
        column[i] = both[i]->offset % pitch;
        width[i] = 1;
        for (int d = 0; d < layout->rank; d++)
            if (layout->shape[d] > 1 && layout->strides[d] % pitch != 0)
                width[i] += (layout->shape[d] - 1) * layout->strides[d];
        if (column[i] + width[i] > pitch)
            return false;
    }
    return column[0] + width[0] <= column[1] || column[1] + width[1] <= column[0];
}

bool tdm_may_overlap(const tdm_tensor *a, const tdm_tensor *b) {
    if (a->buffer->block != b->buffer->block || tdm_layout_extent(&a->layout) == 0 ||
        tdm_layout_extent(&b->layout) == 0)
        return false;
    int64_t a_first, a_end, b_first, b_end;
    byte_range(a, &a_first, &a_end);
    byte_range(b, &b_first, &b_end);
    return a_first < b_end && b_first < a_end && !columns_apart(a, b);
}

tdm_status tdm_check_overlap(const char *operation, const char *output_name,
                             const tdm_tensor *output, const char *input_name,
                             const tdm_tensor *input, bool same_view_allowed) {
    if ((same_view_allowed && tdm_same_view(output, input)) || !tdm_may_overlap(output, input))
        return TDM_OK;
    return tdm_fail(TDM_BAD_ARGUMENT, "%s: the output %s overlaps %s", operation, output_name,
                    input_name);
}
