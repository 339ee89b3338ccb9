/* Tandem's own worker for the memory suite: pooled buffers and the copies of tandem/memory.h. */
#include <stdlib.h>
#include <string.h>

#include "bench/memory_case.h"
#include "bench/worker_tandem.h"

typedef struct memory_state {
    worker_device device; /* first, for worker_tandem.h */
    memory_case item;
    void *host_source; /* write */
    void *host_target; /* read */
    tdm_buffer *source;
    tdm_buffer *target;
} memory_state;

static void release(void *state) {
    memory_state *const own = state;
    if (own->device.stream != NULL)
        tdm_stream_synchronize(own->device.stream);
    tdm_buffer_destroy(own->source);
    tdm_buffer_destroy(own->target);
    free(own->host_source);
    free(own->host_target);
    *own = (memory_state){.device = own->device};
}

/* A device buffer with this content, there before anything is timed. */
static tdm_status create_buffer(const memory_state *own, const void *content, tdm_buffer **buffer) {
    tdm_status status = tdm_buffer_create(own->device.device, own->item.bytes, buffer);
    if (status == TDM_OK)
        status = tdm_buffer_write(own->device.stream, *buffer, 0, content, own->item.bytes);
    if (status == TDM_OK)
        status = tdm_stream_synchronize(own->device.stream);
    return status;
}

static worker_answer describe(void *state, const char *request, worker_text *reply) {
    memory_state *const own = state;
    tdm_status status = TDM_OK;
    if (memory_case_read(request, &own->item) != 0) {
        worker_text_set(reply, "the case cannot be read");
        return WORKER_FAIL;
    }
    const worker_answer answer = worker_device_open(&own->device, request, reply);
    if (answer != WORKER_OK)
        return answer;
    own->host_source = memory_case_source(&own->item);
    own->host_target = memory_case_target(&own->item);
    if (own->host_source == NULL || own->host_target == NULL) {
        worker_text_set(reply, "out of host memory");
        return WORKER_FAIL;
    }
    if (own->item.operation != MEMORY_WRITE)
        status = create_buffer(own, own->host_source, &own->source);
    if (status == TDM_OK && own->item.operation != MEMORY_READ)
        status = create_buffer(own, own->host_target, &own->target);
    return worker_library_answer("buffers", status, reply);
}

static tdm_status enqueue_operation(const memory_state *own) {
    const size_t bytes = own->item.bytes;
    tdm_stream *const stream = own->device.stream;
    switch (own->item.operation) {
    case MEMORY_COPY:
        return tdm_buffer_copy(stream, own->target, 0, own->source, 0, bytes);
    case MEMORY_WRITE:
        return tdm_buffer_write(stream, own->target, 0, own->host_source, bytes);
    case MEMORY_READ:
        return tdm_buffer_read(stream, own->source, 0, own->host_target, bytes);
    }
    return TDM_INTERNAL;
}

static worker_answer enqueue(void *state, worker_text *reply) {
    const tdm_status status = enqueue_operation(state);
    return worker_library_answer("run", status, reply);
}

static size_t output_bytes(void *state) {
    const memory_state *const own = state;
    return own->host_target == NULL ? 0 : own->item.bytes;
}

static worker_answer output(void *state, void *bytes, worker_text *reply) {
    const memory_state *const own = state;
    if (own->target == NULL) {
        memcpy(bytes, own->host_target, own->item.bytes);
        return WORKER_OK;
    }
    tdm_status status = tdm_buffer_read(own->device.stream, own->target, 0, bytes, own->item.bytes);
    if (status == TDM_OK)
        status = tdm_stream_synchronize(own->device.stream);
    return worker_library_answer("read", status, reply);
}

int worker_tandem_memory(void) {
    static const worker_implementation tandem = WORKER_TANDEM_IMPLEMENTATION;
    memory_state state = {.source = NULL};
    return worker_device_serve(&tandem, &state);
}
