/* A tensor is a layout and an offset on a reference-counted buffer. */
#include "api/base/handles.h"
#include "api/tensor/tensor_internal.h"

static const tdm_dtype_traits *traits_of(const tdm_layout *layout) {
    return tdm_dtype_info(layout->dtype);
}

tdm_status tdm_layout_check_units(const tdm_layout *layout, int64_t offset, const char *what) {
    const int per_unit = traits_of(layout)->elements_per_unit;
    if (per_unit == 1)
        return TDM_OK;
    if (offset % per_unit != 0)
        return tdm_fail(TDM_UNSUPPORTED, "%s: offset %lld splits a storage unit of %d %s elements",
                        what, (long long)offset, per_unit, traits_of(layout)->name);
    for (int i = 0; i < layout->rank; i++)
        if (layout->shape[i] > 1 && layout->strides[i] != 1 && layout->strides[i] % per_unit != 0)
            return tdm_fail(TDM_UNSUPPORTED,
                            "%s: stride %d is %lld, which splits a storage unit of %d %s elements",
                            what, i, (long long)layout->strides[i], per_unit,
                            traits_of(layout)->name);
    return TDM_OK;
}

/* Checks that the layout, starting at `offset`, stays inside the buffer. */
static tdm_status check_inside(const tdm_buffer *buffer, const tdm_layout *layout, int64_t offset) {
    const int64_t extent = tdm_layout_extent(layout);
    int64_t end;
    size_t bytes;
    if (offset < 0 || tdm_add_overflows(offset, extent, &end))
        return tdm_fail(TDM_BAD_SHAPE, "tensor: offset is %lld", (long long)offset);
    TDM_TRY(tdm_dtype_bytes(layout->dtype, end, &bytes));
    if (extent > 0 && bytes > buffer->bytes)
        return tdm_fail(
            TDM_BAD_SHAPE,
            "tensor: %lld elements of %s from offset %lld reach byte %zu of a buffer of %zu",
            (long long)extent, traits_of(layout)->name, (long long)offset, bytes, buffer->bytes);
    return TDM_OK;
}

static void note(const tdm_tensor *tensor) {
    const tdm_buffer *const buffer = tensor->buffer;
    tdm_handle_note(TDM_HANDLE_TENSOR, tensor, buffer->device->context, buffer->bytes,
                    buffer->block->generation, buffer->block->tag);
}

static tdm_status create_on(tdm_buffer *buffer, int64_t offset, const tdm_layout *layout,
                            tdm_tensor **tensor) {
    if (!tensor)
        return tdm_fail(TDM_BAD_ARGUMENT, "tensor: tensor is NULL");
    *tensor = NULL;
    if (!buffer || !layout)
        return tdm_fail(TDM_BAD_ARGUMENT, "tensor: %s is NULL", buffer ? "layout" : "buffer");
    TDM_TRY(tdm_handle_check(TDM_HANDLE_BUFFER, buffer, "tensor", "buffer"));
    TDM_TRY(tdm_layout_check(layout, "tensor"));
    TDM_TRY(check_inside(buffer, layout, offset));
    TDM_TRY(tdm_layout_check_units(layout, offset, "tensor"));
    tdm_tensor *const created = tdm_host_calloc(1, sizeof *created);
    if (!created)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "tensor: no host memory");
    created->buffer = tdm_buffer_retain(buffer);
    created->layout = *layout;
    created->offset = offset;
    if (buffer->device->context->debug_pool)
        note(created);
    *tensor = created;
    return TDM_OK;
}

tdm_status tdm_tensor_on_buffer(tdm_buffer *buffer, int64_t offset, const tdm_layout *layout,
                                tdm_tensor **tensor) {
    const void *const outer = TDM_SITE_ENTER();
    const tdm_status status = create_on(buffer, offset, layout, tensor);
    tdm_site_leave(outer);
    return status;
}

tdm_status tdm_tensor_create(tdm_device *device, tdm_dtype dtype, int rank, const int64_t *shape,
                             tdm_tensor **tensor) {
    if (!tensor)
        return tdm_fail(TDM_BAD_ARGUMENT, "tensor_create: tensor is NULL");
    *tensor = NULL;
    if (!device)
        return tdm_fail(TDM_BAD_ARGUMENT, "tensor_create: device is NULL");
    tdm_layout layout;
    size_t bytes;
    tdm_buffer *buffer;
    tdm_status status = tdm_layout_contiguous(dtype, rank, shape, &layout);
    if (status == TDM_OK)
        status = tdm_dtype_bytes(dtype, tdm_layout_elements(&layout), &bytes);
    const void *const outer = TDM_SITE_ENTER();
    if (status == TDM_OK)
        status = tdm_buffer_create_for(device, tdm_recent_stream(device), bytes, &buffer);
    if (status == TDM_OK) {
        status = create_on(buffer, 0, &layout, tensor);
        tdm_buffer_destroy(buffer);
    }
    tdm_site_leave(outer);
    return status == TDM_OK ? TDM_OK : tdm_fail_prefix(status, "tensor_create");
}

void tdm_tensor_destroy(tdm_tensor *tensor) {
    if (!tensor ||
        (tdm_handles_on() && !tdm_handle_give_back(TDM_HANDLE_TENSOR, tensor, "tensor_destroy")))
        return;
    tdm_tensor_destroy(tensor->scale);
    tdm_tensor_destroy(tensor->zero_point);
    tdm_buffer *const buffer = tensor->buffer;
    if (!buffer->device->context->debug_pool || !tdm_handle_forget(tensor))
        tdm_host_free(tensor);
    tdm_buffer_release(buffer);
}

static bool is_alive(const tdm_tensor *tensor, const char *function) {
    return tdm_handle_alive(TDM_HANDLE_TENSOR, tensor, function);
}

tdm_dtype tdm_tensor_dtype(const tdm_tensor *tensor) {
    return is_alive(tensor, "tensor_dtype") ? tensor->layout.dtype : TDM_DTYPE_NONE;
}

int tdm_tensor_rank(const tdm_tensor *tensor) {
    return is_alive(tensor, "tensor_rank") ? tensor->layout.rank : 0;
}

static bool has_dimension(const tdm_tensor *tensor, int dimension) {
    return is_alive(tensor, "tensor_dim") && dimension >= 0 && dimension < tensor->layout.rank;
}

int64_t tdm_tensor_dim(const tdm_tensor *tensor, int dimension) {
    return has_dimension(tensor, dimension) ? tensor->layout.shape[dimension] : 0;
}

int64_t tdm_tensor_stride(const tdm_tensor *tensor, int dimension) {
    return has_dimension(tensor, dimension) ? tensor->layout.strides[dimension] : 0;
}

int64_t tdm_tensor_offset(const tdm_tensor *tensor) {
    return is_alive(tensor, "tensor_offset") ? tensor->offset : 0;
}

int64_t tdm_tensor_elements(const tdm_tensor *tensor) {
    return is_alive(tensor, "tensor_elements") ? tdm_layout_elements(&tensor->layout) : 0;
}

int tdm_tensor_is_contiguous(const tdm_tensor *tensor) {
    return is_alive(tensor, "tensor_is_contiguous") && tdm_layout_is_contiguous(&tensor->layout);
}

tdm_device *tdm_tensor_device(const tdm_tensor *tensor) {
    return is_alive(tensor, "tensor_device") ? tensor->buffer->device : NULL;
}

tdm_buffer *tdm_tensor_buffer(const tdm_tensor *tensor) {
    return is_alive(tensor, "tensor_buffer") ? tensor->buffer : NULL;
}

tdm_status tdm_tensor_layout(const tdm_tensor *tensor, tdm_layout *layout) {
    if (!tensor || !layout)
        return tdm_fail(TDM_BAD_ARGUMENT, "tensor_layout: %s is NULL",
                        tensor ? "layout" : "tensor");
    TDM_TRY(tdm_handle_check(TDM_HANDLE_TENSOR, tensor, "tensor_layout", "tensor"));
    *layout = tensor->layout;
    return TDM_OK;
}

tdm_arg tdm_arg_tensor(const tdm_tensor *tensor) {
    const tdm_dtype_traits *const traits = tdm_dtype_info(tensor->layout.dtype);
    const int64_t units = tensor->offset / traits->elements_per_unit;
    return tdm_arg_block(tensor->buffer->block, units * traits->unit_bytes, traits->unit_bytes);
}
