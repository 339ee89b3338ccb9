/* Buffers: reference-counted pool blocks, and byte copies on them. */
#include "api/base/handles.h"
#include "api/device/core.h"
#include "api/device/device_internal.h"
#include "api/device/memory/memory_pool.h"

/* Creates a buffer in a private pool, or in the device's own pool if `pool` is NULL. */
static tdm_status create(tdm_device *device, tdm_memory_pool *pool, uint32_t stream, size_t bytes,
                         tdm_buffer **buffer) {
    tdm_buffer *const created = tdm_host_calloc(1, sizeof *created);
    if (!created)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "buffer_create: no host memory");
    const tdm_status status = tdm_device_alloc(device, pool, bytes, stream, &created->block);
    if (status != TDM_OK) {
        tdm_host_free(created);
        return status;
    }
    atomic_store(&created->references, 1);
    tdm_device_retain(device);
    tdm_memory_pool_retain(pool);
    created->device = device;
    created->pool = pool;
    created->bytes = bytes;
    tdm_buffer_note(created);
    *buffer = created;
    return TDM_OK;
}

tdm_status tdm_buffer_create(tdm_device *device, size_t bytes, tdm_buffer **buffer) {
    const void *const outer = TDM_SITE_ENTER();
    const tdm_status status =
        tdm_buffer_create_for(device, tdm_recent_stream(device), bytes, buffer);
    tdm_site_leave(outer);
    return status;
}

void tdm_buffer_note(const tdm_buffer *buffer) {
    if (buffer->device->context->debug_pool)
        tdm_handle_note(TDM_HANDLE_BUFFER, buffer, buffer->device->context, buffer->bytes,
                        buffer->block->generation, buffer->block->tag);
}

tdm_status tdm_buffer_wrap(const char *function, tdm_device *device, void *native, size_t bytes,
                           tdm_buffer **buffer) {
    tdm_buffer *const created = tdm_host_calloc(1, sizeof *created);
    if (!created)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "%s: no host memory", function);
    tdm_bk_memory *memory;
    tdm_status status = device->api->memory_wrap(device->native, native, bytes, &memory);
    if (status == TDM_OK) {
        status = tdm_pool_adopt(device->pool, memory, bytes, &created->block);
        if (status != TDM_OK)
            device->api->memory_free(device->native, memory);
    }
    if (status != TDM_OK) {
        tdm_host_free(created);
        return tdm_fail_prefix(status, "%s", function);
    }
    atomic_store(&created->references, 1);
    tdm_device_retain(device);
    created->device = device;
    created->bytes = bytes;
    tdm_buffer_note(created);
    *buffer = created;
    return TDM_OK;
}

tdm_status tdm_buffer_create_for(tdm_device *device, uint32_t stream, size_t bytes,
                                 tdm_buffer **buffer) {
    if (!buffer)
        return tdm_fail(TDM_BAD_ARGUMENT, "buffer_create: buffer is NULL");
    *buffer = NULL;
    if (!device)
        return tdm_fail(TDM_BAD_ARGUMENT, "buffer_create: device is NULL");
    return create(device, tdm_memory_pool_current(device), stream, bytes, buffer);
}

tdm_status tdm_buffer_create_in(tdm_memory_pool *pool, size_t bytes, tdm_buffer **buffer) {
    if (!buffer)
        return tdm_fail(TDM_BAD_ARGUMENT, "buffer_create_in: buffer is NULL");
    *buffer = NULL;
    if (!pool)
        return tdm_fail(TDM_BAD_ARGUMENT, "buffer_create_in: pool is NULL");
    tdm_device *const device = tdm_memory_pool_device(pool);
    const void *const outer = TDM_SITE_ENTER();
    const tdm_status status = create(device, pool, tdm_recent_stream(device), bytes, buffer);
    tdm_site_leave(outer);
    return status;
}

tdm_buffer *tdm_buffer_retain(tdm_buffer *buffer) {
    atomic_fetch_add(&buffer->references, 1);
    return buffer;
}

void tdm_buffer_release(tdm_buffer *buffer) {
    if (!buffer || atomic_fetch_sub(&buffer->references, 1) != 1)
        return;
    tdm_device *const device = buffer->device;
    tdm_block *const block = buffer->block;
    tdm_memory_pool *const pool = buffer->pool;
    // After tdm_handle_forget another thread may free the buffer's memory.
    if (!device->context->debug_pool || !tdm_handle_forget(buffer))
        tdm_host_free(buffer);
    tdm_block_release(block);
    tdm_memory_pool_release(pool);
    tdm_device_release(device);
}

void tdm_buffer_destroy(tdm_buffer *buffer) {
    if (buffer && tdm_handles_on() &&
        !tdm_handle_give_back(TDM_HANDLE_BUFFER, buffer, "buffer_destroy"))
        return;
    tdm_buffer_release(buffer);
}

size_t tdm_buffer_size(const tdm_buffer *buffer) {
    return tdm_handle_alive(TDM_HANDLE_BUFFER, buffer, "buffer_size") ? buffer->bytes : 0;
}

static tdm_status check_range(const char *operation, const char *name, const tdm_stream *stream,
                              const tdm_buffer *buffer, size_t offset, size_t bytes) {
    if (!stream || !buffer)
        return tdm_fail(TDM_BAD_ARGUMENT, "%s: %s is NULL", operation, stream ? name : "stream");
    TDM_TRY(tdm_handle_check(TDM_HANDLE_BUFFER, buffer, operation, name));
    TDM_TRY(tdm_check_device(operation, name, buffer->device, "the stream", stream->device));
    if (offset > buffer->bytes || bytes > buffer->bytes - offset)
        return tdm_fail(TDM_BAD_ARGUMENT,
                        "%s: %zu bytes at offset %zu reach beyond %s of %zu bytes", operation,
                        bytes, offset, name, buffer->bytes);
    return TDM_OK;
}

tdm_status tdm_buffer_write(tdm_stream *stream, tdm_buffer *buffer, size_t offset, const void *host,
                            size_t bytes) {
    TDM_TRY(check_range("buffer_write", "buffer", stream, buffer, offset, bytes));
    if (!host && bytes)
        return tdm_fail(TDM_BAD_ARGUMENT, "buffer_write: host is NULL");
    return tdm_enqueue_write(stream, "buffer_write", buffer->block, offset, host, bytes);
}

tdm_status tdm_buffer_read(tdm_stream *stream, const tdm_buffer *buffer, size_t offset, void *host,
                           size_t bytes) {
    TDM_TRY(check_range("buffer_read", "buffer", stream, buffer, offset, bytes));
    if (!host && bytes)
        return tdm_fail(TDM_BAD_ARGUMENT, "buffer_read: host is NULL");
    return tdm_enqueue_read(stream, "buffer_read", buffer->block, offset, host, bytes);
}

tdm_status tdm_buffer_copy(tdm_stream *stream, tdm_buffer *target, size_t target_offset,
                           const tdm_buffer *source, size_t source_offset, size_t bytes) {
    TDM_TRY(check_range("buffer_copy", "target", stream, target, target_offset, bytes));
    TDM_TRY(check_range("buffer_copy", "source", stream, source, source_offset, bytes));
    if (target == source && bytes && target_offset < source_offset + bytes &&
        source_offset < target_offset + bytes)
        return tdm_fail(TDM_BAD_ARGUMENT, "buffer_copy: %zu bytes at offsets %zu and %zu overlap",
                        bytes, target_offset, source_offset);
    return tdm_enqueue_copy(stream, "buffer_copy", target->block, target_offset, source->block,
                            source_offset, bytes);
}
