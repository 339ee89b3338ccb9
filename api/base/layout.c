/* Checks and properties of shapes and strides. */
#include <stdio.h>
#include <string.h>

#include "api/base/base.h"

const char *tdm_layout_text(const tdm_layout *layout, char text[TDM_SHAPE_TEXT]) {
    size_t used = (size_t)snprintf(text, TDM_SHAPE_TEXT, "[");
    for (int i = 0; i < layout->rank && i < TDM_MAX_RANK && used < TDM_SHAPE_TEXT; i++)
        used += (size_t)snprintf(text + used, TDM_SHAPE_TEXT - used, "%s%lld", i ? ", " : "",
                                 (long long)layout->shape[i]);
    if (used < TDM_SHAPE_TEXT)
        snprintf(text + used, TDM_SHAPE_TEXT - used, "]");
    return text;
}

int64_t tdm_layout_elements(const tdm_layout *layout) {
    int64_t elements = 1;
    for (int i = 0; i < layout->rank; i++)
        elements *= layout->shape[i];
    return elements;
}

bool tdm_layout_is_contiguous(const tdm_layout *layout) {
    int64_t expected = 1;
    for (int i = layout->rank - 1; i >= 0; i--) {
        if (layout->shape[i] == 0)
            return true;
        if (layout->shape[i] != 1 && layout->strides[i] != expected)
            return false;
        expected *= layout->shape[i];
    }
    return true;
}

static tdm_status check_dimensions(const tdm_layout *layout, const char *what) {
    for (int i = 0; i < layout->rank; i++) {
        if (layout->shape[i] < 0)
            return tdm_fail(TDM_BAD_SHAPE, "%s: dimension %d is %lld", what, i,
                            (long long)layout->shape[i]);
        if (layout->strides[i] < 0)
            return tdm_fail(TDM_BAD_SHAPE, "%s: stride %d is %lld, must be at least 0", what, i,
                            (long long)layout->strides[i]);
    }
    return TDM_OK;
}

/* Neither the number of elements nor the extent may overflow. An empty dimension must not hide an
 * overflow of the other dimensions. */
static tdm_status check_sizes(const tdm_layout *layout, const char *what) {
    const tdm_dtype_traits *const traits = tdm_dtype_info(layout->dtype);
    int64_t elements = 1, last = 0, bits;
    for (int i = 0; i < layout->rank; i++) {
        const int64_t size = layout->shape[i] ? layout->shape[i] : 1;
        int64_t reach;
        if (tdm_mul_overflows(elements, size, &elements) ||
            tdm_mul_overflows(size - 1, layout->strides[i], &reach) ||
            tdm_add_overflows(last, reach, &last))
            return tdm_fail(TDM_BAD_SHAPE, "%s: the size overflows at dimension %d", what, i);
    }
    if (tdm_mul_overflows(elements, traits->bits, &bits) || last == INT64_MAX ||
        tdm_mul_overflows(last + 1, traits->bits, &bits))
        return tdm_fail(TDM_BAD_SHAPE, "%s: the size in bytes overflows", what);
    return TDM_OK;
}

tdm_status tdm_layout_check(const tdm_layout *layout, const char *what) {
    if (!tdm_dtype_info(layout->dtype))
        return tdm_fail(TDM_BAD_DTYPE, "%s: dtype %d is unknown", what, (int)layout->dtype);
    if (layout->rank < 0 || layout->rank > TDM_MAX_RANK)
        return tdm_fail(TDM_BAD_SHAPE, "%s: rank is %d, must be 0 to %d", what, layout->rank,
                        TDM_MAX_RANK);
    TDM_TRY(check_dimensions(layout, what));
    return check_sizes(layout, what);
}

int64_t tdm_layout_extent(const tdm_layout *layout) {
    int64_t last = 0;
    for (int i = 0; i < layout->rank; i++) {
        if (layout->shape[i] == 0)
            return 0;
        last += (layout->shape[i] - 1) * layout->strides[i];
    }
    return last + 1;
}

bool tdm_layout_same_shape(const tdm_layout *a, const tdm_layout *b) {
    return a->rank == b->rank &&
           memcmp(a->shape, b->shape, (size_t)a->rank * sizeof a->shape[0]) == 0;
}

bool tdm_layout_equal(const tdm_layout *a, const tdm_layout *b) {
    if (a->dtype != b->dtype || !tdm_layout_same_shape(a, b))
        return false;
    for (int i = 0; i < a->rank; i++)
        if (a->shape[i] > 1 && a->strides[i] != b->strides[i])
            return false;
    return true;
}

/* Sorts the dimensions of more than one element by increasing stride. Returns their number. */
static int sorted_dimensions(const tdm_layout *layout, int order[TDM_MAX_RANK]) {
    int count = 0;
    for (int i = 0; i < layout->rank; i++) {
        if (layout->shape[i] <= 1)
            continue;
        int at = count++;
        for (; at > 0 && layout->strides[order[at - 1]] > layout->strides[i]; at--)
            order[at] = order[at - 1];
        order[at] = i;
    }
    return count;
}

bool tdm_layout_self_overlaps(const tdm_layout *layout) {
    if (tdm_layout_extent(layout) == 0)
        return false;
    int order[TDM_MAX_RANK];
    const int count = sorted_dimensions(layout, order);
    // Each stride must exceed everything that the smaller ones reach. This test is sufficient, and
    // it is true of every layout that views of a contiguous tensor can make.
    int64_t reach = 0;
    for (int i = 0; i < count; i++) {
        if (layout->strides[order[i]] <= reach)
            return true;
        reach += (layout->shape[order[i]] - 1) * layout->strides[order[i]];
    }
    return false;
}

tdm_status tdm_layout_contiguous(tdm_dtype dtype, int rank, const int64_t *shape,
                                 tdm_layout *layout) {
    if (!layout)
        return tdm_fail(TDM_BAD_ARGUMENT, "layout: layout is NULL");
    *layout = (tdm_layout){0};
    if (!shape && rank > 0)
        return tdm_fail(TDM_BAD_ARGUMENT, "layout: shape is NULL but rank is %d", rank);
    if (rank < 0 || rank > TDM_MAX_RANK)
        return tdm_fail(TDM_BAD_SHAPE, "layout: rank is %d, must be 0 to %d", rank, TDM_MAX_RANK);
    tdm_layout made = {.dtype = dtype, .rank = rank};
    int64_t stride = 1;
    for (int i = rank - 1; i >= 0; i--) {
        made.shape[i] = shape[i];
        made.strides[i] = stride;
        if (tdm_mul_overflows(stride, shape[i] > 0 ? shape[i] : 1, &stride))
            return tdm_fail(TDM_BAD_SHAPE, "layout: the size overflows at dimension %d, %lld", i,
                            (long long)shape[i]);
    }
    TDM_TRY(tdm_layout_check(&made, "layout"));
    *layout = made;
    return TDM_OK;
}
