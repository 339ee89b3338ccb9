/*
 * Tandem's own worker for the memory suite: kernels on arrays, and copies. Its field "work" reports
 * the bytes that a kernel's call moves.
 */
#include <stdlib.h>
#include <string.h>

#include "bench/cases/memory_case.h"
#include "bench/workers/stream_run.h"
#include "bench/workers/worker_tandem.h"

typedef struct memory_state {
    worker_device device; /* first, for worker_tandem.h */
    memory_case item;
    stream_run stream; /* for kernels; copies use the rest */
    tdm_host_buffer *pinned_source, *pinned_target;
    void *pageable_source, *pageable_target;
    const void *host_source; /* pinned or pageable */
    void *host_target;
    tdm_buffer *source, *target; /* on the device */
} memory_state;

static int is_kernel(const memory_state *own) {
    return memory_operation_is_kernel(own->item.operation);
}

static int read_case(void *state, const char *request) {
    return memory_case_read(request, &((memory_state *)state)->item);
}

static void release(void *state) {
    memory_state *const own = state;
    tdm_buffer_destroy(own->source);
    tdm_buffer_destroy(own->target);
    tdm_host_buffer_destroy(own->pinned_source);
    tdm_host_buffer_destroy(own->pinned_target);
    free(own->pageable_source);
    free(own->pageable_target);
    stream_run_release(&own->stream);
}

/*
 * Creates the two host blocks. Pinned blocks copy the content of the pageable ones, which are then
 * unused.
 */
static tdm_status create_host(memory_state *own) {
    const size_t bytes = own->item.bytes;
    own->host_source = own->pageable_source = memory_case_source(&own->item);
    own->host_target = own->pageable_target = memory_case_target(&own->item);
    if (own->pageable_source == NULL || own->pageable_target == NULL)
        return TDM_OUT_OF_HOST_MEMORY;
    if (!own->item.pinned)
        return TDM_OK;
    TDM_TRY(tdm_host_buffer_create(own->device.device, bytes, &own->pinned_source));
    TDM_TRY(tdm_host_buffer_create(own->device.device, bytes, &own->pinned_target));
    memcpy(tdm_host_buffer_address(own->pinned_source), own->pageable_source, bytes);
    memcpy(tdm_host_buffer_address(own->pinned_target), own->pageable_target, bytes);
    own->host_source = tdm_host_buffer_address(own->pinned_source);
    own->host_target = tdm_host_buffer_address(own->pinned_target);
    return TDM_OK;
}

/* Creates a device buffer with this content, complete before anything is timed. */
static tdm_status create_buffer(const memory_state *own, const void *content, tdm_buffer **buffer) {
    TDM_TRY(tdm_buffer_create(own->device.device, own->item.bytes, buffer));
    TDM_TRY(tdm_buffer_write(own->device.stream, *buffer, 0, content, own->item.bytes));
    return tdm_stream_synchronize(own->device.stream);
}

static tdm_status prepare(void *state, const char *request, worker_text *reply) {
    memory_state *const own = state;
    (void)request;
    if (is_kernel(own)) {
        TDM_TRY(stream_run_create(own->device.device, own->device.stream, &own->item, NULL,
                                  &own->stream));
        worker_field_add(reply, "variant", own->stream.kernel->variant->name);
        worker_field_add_integer(reply, "work", stream_run_work(&own->stream, &own->item));
        return TDM_OK;
    }
    TDM_TRY(create_host(own));
    if (own->item.operation != MEMORY_UPLOAD)
        TDM_TRY(create_buffer(own, own->host_source, &own->source));
    if (own->item.operation != MEMORY_DOWNLOAD)
        TDM_TRY(create_buffer(own, own->host_target, &own->target));
    return TDM_OK;
}

static tdm_status enqueue(void *state) {
    const memory_state *const own = state;
    tdm_stream *const stream = own->device.stream;
    const size_t bytes = own->item.bytes;
    if (is_kernel(own))
        return stream_run_enqueue(&own->stream, &own->item, stream);
    if (own->item.operation == MEMORY_BUFFER)
        return tdm_buffer_copy(stream, own->target, 0, own->source, 0, bytes);
    return own->item.operation == MEMORY_UPLOAD
               ? tdm_buffer_write(stream, own->target, 0, own->host_source, bytes)
               : tdm_buffer_read(stream, own->source, 0, own->host_target, bytes);
}

static size_t output_bytes(const void *state) {
    const memory_state *const own = state;
    return is_kernel(own) ? stream_run_output_bytes(&own->stream, &own->item) : own->item.bytes;
}

static tdm_status output(void *state, void *bytes) {
    const memory_state *const own = state;
    if (is_kernel(own))
        return stream_run_output(&own->stream, &own->item, own->device.stream, bytes);
    if (own->target == NULL) {
        memcpy(bytes, own->host_target, own->item.bytes);
        return TDM_OK;
    }
    TDM_TRY(tdm_buffer_read(own->device.stream, own->target, 0, bytes, own->item.bytes));
    return tdm_stream_synchronize(own->device.stream);
}

const tandem_worker worker_memory = {"tandem", sizeof(memory_state), read_case, prepare, enqueue,
                                     NULL,     output_bytes,         output,    release, NULL};
