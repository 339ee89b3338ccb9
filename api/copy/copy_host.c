/*
 * These functions copy between host memory and tensors. A dense side is copied directly, or through
 * pinned memory (staging.h). A strided side is copied through a dense temporary, which is a tensor
 * on the device or a buffer on the host. A host task unpacks the buffer after a read, and frees it.
 */
#include <stdio.h>
#include <string.h>

#include "api/device/memory/staging.h"
#include "api/tensor/tensor_internal.h"

/* This is host memory with a layout of the tensor's shape. */
typedef struct host_side {
    const char *operation;
    tdm_layout layout;
    unsigned char *bytes;
    size_t size;
    bool dense;
    bool blocking; /* the call waits for the stream before it returns */
} host_side;

/* This is a dense buffer for a strided host side, which the host task frees. */
typedef struct staging {
    host_side host;
    unsigned char *dense;
    bool scatter; /* copies to the host: the task unpacks `dense` first */
} staging;

/* ---- checks ---------------------------------------------------------------------------------- */

static tdm_status check_host(const tdm_tensor *tensor, const int64_t *strides, host_side *host) {
    const tdm_layout *const layout = &tensor->layout;
    TDM_TRY(tdm_layout_contiguous(layout->dtype, layout->rank, layout->shape, &host->layout));
    if (strides)
        memcpy(host->layout.strides, strides, (size_t)layout->rank * sizeof strides[0]);
    const tdm_status status = tdm_layout_check(&host->layout, "host_strides");
    if (status != TDM_OK)
        return tdm_fail_prefix(status, "%s", host->operation);
    host->dense = tdm_layout_is_contiguous(&host->layout);
    if (!host->dense && tdm_dtype_info(layout->dtype)->elements_per_unit > 1)
        return tdm_fail(TDM_UNSUPPORTED, "%s: host_strides are not supported with %s",
                        host->operation, tdm_dtype_name(layout->dtype));
    size_t needed;
    TDM_TRY(tdm_dtype_bytes(layout->dtype, tdm_layout_extent(&host->layout), &needed));
    if (needed > host->size)
        return tdm_fail(TDM_BAD_SHAPE, "%s: the host side needs %zu bytes but host_bytes is %zu",
                        host->operation, needed, host->size);
    if (!host->bytes && needed > 0)
        return tdm_fail(TDM_BAD_ARGUMENT, "%s: host is NULL", host->operation);
    return TDM_OK;
}

/* ---- strided host memory --------------------------------------------------------------------- */

/* Copies elements between a strided layout and a dense one, in row-major order, one run of the last
 * dimension at a time. */
static void move_elements(const host_side *host, unsigned char *dense, bool scatter) {
    const tdm_layout *const layout = &host->layout;
    const size_t unit = (size_t)tdm_dtype_info(layout->dtype)->unit_bytes;
    const int last = layout->rank - 1;
    const int64_t runs = tdm_layout_elements(layout) / layout->shape[last];
    for (int64_t run = 0; run < runs; run++) {
        int64_t rest = run, place = 0;
        for (int d = last - 1; d >= 0; d--) {
            place += rest % layout->shape[d] * layout->strides[d];
            rest /= layout->shape[d];
        }
        for (int64_t i = 0; i < layout->shape[last]; i++, dense += unit) {
            unsigned char *const spread =
                host->bytes + (size_t)(place + i * layout->strides[last]) * unit;
            memcpy(scatter ? spread : dense, scatter ? dense : spread, unit);
        }
    }
}

static void finish_staging(void *user) {
    staging *const stage = user;
    if (stage->scatter)
        move_elements(&stage->host, stage->dense, true);
    tdm_host_free(stage->dense);
    tdm_host_free(stage);
}

static tdm_status make_staging(const host_side *host, size_t bytes, bool scatter, staging **made) {
    staging *const stage = tdm_host_calloc(1, sizeof *stage);
    unsigned char *const dense = tdm_host_alloc(bytes);
    if (!stage || !dense) {
        tdm_host_free(stage);
        tdm_host_free(dense);
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "%s: no host memory for %zu bytes", host->operation,
                        bytes);
    }
    *stage = (staging){.host = *host, .dense = dense, .scatter = scatter};
    *made = stage;
    return TDM_OK;
}

tdm_status tdm_fail_after_wait(tdm_stream *stream, tdm_status status) {
    char detail[512];
    snprintf(detail, sizeof detail, "%s", tdm_last_detail());
    tdm_stream_wait_always(stream);
    return tdm_fail(status, "%s", detail);
}

/* Enqueues the host task that frees the buffer. If `status` or this call is a failure, waits for
 * enqueued work that may use the buffer, then frees it. */
static tdm_status release_in_order(tdm_stream *stream, staging *stage, tdm_status status) {
    if (status == TDM_OK)
        status = tdm_enqueue_host_task(stream, stage->host.operation, finish_staging, stage);
    if (status == TDM_OK)
        return TDM_OK;
    tdm_fail_after_wait(stream, status);
    stage->scatter = false;
    finish_staging(stage);
    return status;
}

/* ---- dense host side ------------------------------------------------------------------------- */

static tdm_status write_bytes(tdm_stream *stream, const host_side *host, tdm_block *target,
                              uint64_t offset, size_t bytes) {
    if (host->blocking && tdm_copy_wants_staging(stream->device, host->bytes, bytes))
        return tdm_copy_staged_in(stream, host->operation, target, offset, host->bytes, bytes);
    return tdm_enqueue_write(stream, host->operation, target, offset, host->bytes, bytes);
}

static tdm_status read_bytes(tdm_stream *stream, const host_side *host, tdm_block *source,
                             uint64_t offset, size_t bytes) {
    if (host->blocking && tdm_copy_wants_staging(stream->device, host->bytes, bytes))
        return tdm_copy_staged_out(stream, host->operation, source, offset, host->bytes, bytes);
    return tdm_enqueue_read(stream, host->operation, source, offset, host->bytes, bytes);
}

/* ---- dense device side ----------------------------------------------------------------------- */

static uint64_t byte_offset(const tdm_tensor *tensor) {
    return (uint64_t)tensor->offset * (uint64_t)tdm_dtype_info(tensor->layout.dtype)->bits / 8;
}

static tdm_status write_dense(tdm_stream *stream, const host_side *host, const tdm_tensor *target,
                              size_t bytes) {
    if (host->dense)
        return write_bytes(stream, host, target->buffer->block, byte_offset(target), bytes);
    staging *stage;
    TDM_TRY(make_staging(host, bytes, false, &stage));
    move_elements(host, stage->dense, false);
    return release_in_order(stream, stage,
                            tdm_enqueue_write(stream, host->operation, target->buffer->block,
                                              byte_offset(target), stage->dense, bytes));
}

static tdm_status read_dense(tdm_stream *stream, const host_side *host, const tdm_tensor *source,
                             size_t bytes) {
    if (host->dense)
        return read_bytes(stream, host, source->buffer->block, byte_offset(source), bytes);
    staging *stage;
    TDM_TRY(make_staging(host, bytes, true, &stage));
    return release_in_order(stream, stage,
                            tdm_enqueue_read(stream, host->operation, source->buffer->block,
                                             byte_offset(source), stage->dense, bytes));
}

static tdm_status dense_like(tdm_stream *stream, const tdm_tensor *tensor, tdm_tensor **dense) {
    const tdm_layout *const layout = &tensor->layout;
    return tdm_tensor_create(stream->device, layout->dtype, layout->rank, layout->shape, dense);
}

/* ---- the calls ------------------------------------------------------------------------------- */

static tdm_status copy_in(tdm_stream *stream, const char *operation, bool blocking,
                          tdm_tensor *target, const void *memory, size_t host_bytes,
                          const int64_t *host_strides) {
    host_side host = {.operation = operation,
                      .bytes = (unsigned char *)(uintptr_t)memory,
                      .size = host_bytes,
                      .blocking = blocking};
    TDM_TRY(tdm_check_output(operation, "target", stream, target));
    TDM_TRY(tdm_check_last_unit(operation, "target", target));
    TDM_TRY(tdm_refuse_recording(stream, operation));
    TDM_TRY(check_host(target, host_strides, &host));
    size_t bytes;
    TDM_TRY(tdm_dtype_bytes(target->layout.dtype, tdm_layout_elements(&target->layout), &bytes));
    if (bytes == 0)
        return TDM_OK;
    if (tdm_layout_is_contiguous(&target->layout))
        return write_dense(stream, &host, target, bytes);
    tdm_tensor *dense;
    TDM_TRY(dense_like(stream, target, &dense));
    tdm_status status = write_dense(stream, &host, dense, bytes);
    if (status == TDM_OK) {
        status = tdm_tensor_copy(stream, dense, target);
        if (status != TDM_OK)
            tdm_fail_after_wait(stream, status);
    }
    tdm_tensor_destroy(dense);
    return status;
}

/* Checks that no two elements have the same host address, which would be a data race. */
static tdm_status check_host_output(const host_side *host) {
    if (tdm_layout_self_overlaps(&host->layout))
        return tdm_fail(TDM_BAD_ARGUMENT, "%s: elements overlap with these host_strides",
                        host->operation);
    return TDM_OK;
}

static tdm_status copy_out(tdm_stream *stream, const char *operation, bool blocking,
                           const tdm_tensor *source, void *memory, size_t host_bytes,
                           const int64_t *host_strides) {
    host_side host = {
        .operation = operation, .bytes = memory, .size = host_bytes, .blocking = blocking};
    TDM_TRY(tdm_check_tensor(operation, "source", stream, source));
    TDM_TRY(tdm_refuse_recording(stream, operation));
    TDM_TRY(check_host(source, host_strides, &host));
    TDM_TRY(check_host_output(&host));
    size_t bytes;
    TDM_TRY(tdm_dtype_bytes(source->layout.dtype, tdm_layout_elements(&source->layout), &bytes));
    if (bytes == 0)
        return TDM_OK;
    if (tdm_layout_is_contiguous(&source->layout))
        return read_dense(stream, &host, source, bytes);
    tdm_tensor *dense;
    TDM_TRY(dense_like(stream, source, &dense));
    tdm_status status = tdm_tensor_copy(stream, source, dense);
    if (status == TDM_OK)
        status = read_dense(stream, &host, dense, bytes);
    tdm_tensor_destroy(dense);
    return status;
}

tdm_status tdm_tensor_write_async(tdm_stream *stream, const void *host, size_t host_bytes,
                                  const int64_t *host_strides, tdm_tensor *target) {
    return copy_in(stream, "tensor_write_async", false, target, host, host_bytes, host_strides);
}

tdm_status tdm_tensor_read_async(tdm_stream *stream, const tdm_tensor *source, void *host,
                                 size_t host_bytes, const int64_t *host_strides) {
    return copy_out(stream, "tensor_read_async", false, source, host, host_bytes, host_strides);
}

tdm_status tdm_tensor_write(tdm_stream *stream, const void *host, size_t host_bytes,
                            const int64_t *host_strides, tdm_tensor *target) {
    TDM_TRY(copy_in(stream, "tensor_write", true, target, host, host_bytes, host_strides));
    return tdm_stream_wait_always(stream);
}

tdm_status tdm_tensor_read(tdm_stream *stream, const tdm_tensor *source, void *host,
                           size_t host_bytes, const int64_t *host_strides) {
    TDM_TRY(copy_out(stream, "tensor_read", true, source, host, host_bytes, host_strides));
    return tdm_stream_wait_always(stream);
}

tdm_status tdm_tensor_from_host(tdm_stream *stream, tdm_dtype dtype, int rank, const int64_t *shape,
                                const void *host, tdm_tensor **tensor) {
    if (!tensor)
        return tdm_fail(TDM_BAD_ARGUMENT, "tensor_from_host: tensor is NULL");
    *tensor = NULL;
    if (!stream)
        return tdm_fail(TDM_BAD_ARGUMENT, "tensor_from_host: stream is NULL");
    tdm_tensor *made = NULL;
    size_t bytes = 0;
    TDM_TRY(tdm_tensor_create(stream->device, dtype, rank, shape, &made));
    tdm_status status = tdm_dtype_bytes(dtype, tdm_layout_elements(&made->layout), &bytes);
    if (status == TDM_OK)
        status = tdm_tensor_write(stream, host, bytes, NULL, made);
    if (status != TDM_OK) {
        tdm_tensor_destroy(made);
        return status;
    }
    *tensor = made;
    return TDM_OK;
}
