/* This function joins tensors along one dimension by copies into views of the output. */
#include <stdio.h>

#include "api/base/host_memory.h"
#include "api/tensor/tensor_internal.h"

/* Checks a part against y: its dtype, rank and shape, without the axis. */
static tdm_status check_part(const tdm_stream *stream, const tdm_tensor *part, int index, int axis,
                             const tdm_tensor *y) {
    char name[32];
    snprintf(name, sizeof name, "parts[%d]", index);
    TDM_TRY(tdm_check_tensor("concat", name, stream, part));
    if (part->layout.dtype != y->layout.dtype)
        return tdm_fail(TDM_BAD_DTYPE, "concat: %s is %s but y is %s", name,
                        tdm_dtype_name(part->layout.dtype), tdm_dtype_name(y->layout.dtype));
    bool same = part->layout.rank == y->layout.rank;
    for (int d = 0; same && d < y->layout.rank; d++)
        same = d == axis || part->layout.shape[d] == y->layout.shape[d];
    if (same)
        return TDM_OK;
    char from[TDM_SHAPE_TEXT], to[TDM_SHAPE_TEXT];
    return tdm_fail(TDM_BAD_SHAPE, "concat: %s has shape %s, y %s; they may differ on axis %d only",
                    name, tdm_layout_text(&part->layout, from), tdm_layout_text(&y->layout, to),
                    axis);
}

static tdm_status check_parts(const tdm_stream *stream, const tdm_tensor *const *parts, int count,
                              int axis, const tdm_tensor *y) {
    TDM_TRY(tdm_check_output("concat", "y", stream, y));
    if (!parts || count < 1)
        return tdm_fail(TDM_BAD_ARGUMENT, "concat: %s",
                        parts ? "count must be at least 1" : "parts is NULL");
    if (axis < 0 || axis >= y->layout.rank)
        return tdm_fail(TDM_BAD_ARGUMENT, "concat: axis %d is outside the rank of y, %d", axis,
                        y->layout.rank);
    const int64_t size = y->layout.shape[axis];
    int64_t sum = 0;
    for (int i = 0; i < count; i++) {
        TDM_TRY(check_part(stream, parts[i], i, axis, y));
        // No sum of sizes is above `size`, so it cannot overflow.
        if (parts[i]->layout.shape[axis] > size - sum)
            return tdm_fail(TDM_BAD_SHAPE,
                            "concat: the parts up to parts[%d] exceed y on axis %d, "
                            "of size %lld",
                            i, axis, (long long)size);
        sum += parts[i]->layout.shape[axis];
    }
    if (sum != size)
        return tdm_fail(TDM_BAD_SHAPE,
                        "concat: the parts have %lld elements on axis %d, y has %lld",
                        (long long)sum, axis, (long long)size);
    return TDM_OK;
}

/* Makes the view of y that each part is copied to. y is without quantization parameters here. A
 * part may be that very view, and otherwise must not overlap y: an earlier copy would change it. */
static tdm_status make_targets(const tdm_tensor *const *parts, int count, int axis,
                               const tdm_tensor *y, tdm_tensor **targets) {
    int64_t start = 0;
    for (int i = 0; i < count; i++) {
        const int64_t stop = start + parts[i]->layout.shape[axis];
        TDM_TRY(tdm_tensor_slice(y, axis, start, stop, 1, &targets[i]));
        if (!tdm_same_view(targets[i], parts[i])) {
            char name[32];
            snprintf(name, sizeof name, "parts[%d]", i);
            TDM_TRY(tdm_check_overlap("concat", "y", y, name, parts[i], false));
        }
        start = stop;
    }
    return TDM_OK;
}

tdm_status tdm_concat(tdm_stream *stream, const tdm_tensor *const *parts, int count, int axis,
                      tdm_tensor *y) {
    TDM_TRY(check_parts(stream, parts, count, axis, y));
    tdm_tensor **const targets = tdm_host_calloc((size_t)count, sizeof(tdm_tensor *));
    if (!targets)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "concat: no host memory for %d parts", count);
    // Stored integers are copied, so a slice may begin inside a block of quantization parameters.
    tdm_tensor *plain = NULL;
    tdm_status status = tdm_tensor_on_buffer(y->buffer, y->offset, &y->layout, &plain);
    if (status == TDM_OK)
        status = make_targets(parts, count, axis, plain, targets);
    for (int i = 0; status == TDM_OK && i < count; i++)
        status = tdm_tensor_copy(stream, parts[i], targets[i]);
    for (int i = 0; i < count; i++)
        tdm_tensor_destroy(targets[i]);
    tdm_tensor_destroy(plain);
    tdm_host_free((void *)targets);
    return status;
}
