/*
 * Tandem's own worker for the memory suite: kernels on arrays, and the copies of tandem/memory.h. It says what a call moves in
 * the field "work", and of a kernel its setting.
 */
#include <stdio.h>
#include <string.h>

#include "bench/cases/memory_case.h"
#include "bench/workers/stream_run.h"
#include "bench/workers/transfer_run.h"
#include "bench/workers/worker_tandem.h"

typedef struct memory_state {
    worker_device device; /* first, for worker_tandem.h */
    memory_case item;
    memory_case prepared;  /* whose arrays `stream` has */
    stream_run stream;     /* a kernel */
    transfer_run transfer; /* a copy */
} memory_state;

static int is_kernel(const memory_state *own) {
    return memory_operation_is_kernel(own->item.operation);
}

/* Arrays stay: the next case may be another setting for the same ones. */
static void release(void *state) {
    memory_state *const own = state;
    if (own->device.stream != NULL)
        tdm_stream_synchronize(own->device.stream);
    transfer_run_release(&own->transfer);
}

static int same_arrays(const memory_case *a, const memory_case *b) {
    return memory_operation_is_stream(a->operation) && a->operation == b->operation &&
           a->bytes == b->bytes && a->seed == b->seed && a->stride == b->stride;
}

static tdm_status prepare_arrays(memory_state *own) {
    if (own->stream.c != NULL && same_arrays(&own->item, &own->prepared))
        return stream_run_set(own->device.device, &own->item, &own->item.setting, &own->stream);
    stream_run_release(&own->stream);
    own->prepared = own->item;
    const tdm_status status =
        stream_run_create(own->device.device, own->device.stream, &own->item, &own->stream);
    if (status != TDM_OK)
        stream_run_release(&own->stream);
    return status;
}

static tdm_status prepare_kernel(memory_state *own) {
    const int search = strcmp(own->item.setting.row, "best") == 0;
    tdm_stream *const stream = own->device.stream;
    if (search)
        own->item.setting = (memory_setting){.unroll = 0};
    TDM_TRY(prepare_arrays(own));
    return search ? stream_run_find(own->device.device, stream, &own->item, &own->item.setting,
                                    &own->stream)
                  : TDM_OK;
}

static void describe_kernel(const memory_state *own, worker_text *reply) {
    const stream_run *const run = &own->stream;
    const memory_setting *const setting = &own->item.setting;
    const char *const row = run->kernel->variant->name;
    const int unroll = setting->unroll > 0 ? setting->unroll : 1;
    worker_text variant = {.length = 0};
    worker_text_add(&variant, "%s", row);
    if (memory_operation_is_stream(own->item.operation))
        worker_text_add(&variant, ":unroll=%d,items=%lld%s", unroll,
                        (long long)stream_run_items(run), run->walk.ahead > 0 ? ",prefetch" : "");
    worker_field_add(reply, "variant", variant.text);
    worker_field_add_integer(reply, "work", stream_run_work(run, &own->item));
    worker_field_add(reply, "row", row);
    worker_field_add_integer(reply, "unroll", unroll);
    worker_field_add_integer(reply, "occupancy", setting->occupancy > 0 ? setting->occupancy : 2);
    worker_field_add_integer(reply, "ahead", run->walk.ahead);
    worker_field_add_integer(reply, "items", stream_run_items(run));
    worker_field_add_integer(reply, "width", stream_run_width(run));
}

static worker_answer describe(void *state, const char *request, worker_text *reply) {
    memory_state *const own = state;
    if (memory_case_read(request, &own->item) != 0) {
        worker_text_set(reply, "the case cannot be read");
        return WORKER_FAIL;
    }
    const worker_answer answer = worker_device_open(&own->device, request, reply);
    if (answer != WORKER_OK)
        return answer;
    const tdm_status status = is_kernel(own)
                                  ? prepare_kernel(own)
                                  : transfer_run_create(own->device.device, own->device.stream,
                                                        &own->item, &own->transfer);
    if (status != TDM_OK)
        return worker_library_answer("prepare", status, reply);
    if (is_kernel(own))
        describe_kernel(own, reply);
    return WORKER_OK;
}

static worker_answer enqueue(void *state, worker_text *reply) {
    const memory_state *const own = state;
    const tdm_status status =
        is_kernel(own) ? stream_run_enqueue(&own->stream, &own->item, own->device.stream)
                       : transfer_run_enqueue(&own->transfer, &own->item, own->device.stream);
    return status == TDM_OK ? WORKER_OK : worker_library_answer("run", status, reply);
}

static worker_answer wait_for_all(void *state, worker_text *reply) {
    const memory_state *const own = state;
    return worker_library_answer("wait", transfer_run_wait(&own->transfer, own->device.stream),
                                 reply);
}

static size_t output_bytes(void *state) {
    const memory_state *const own = state;
    return is_kernel(own) ? stream_run_output_bytes(&own->stream, &own->item)
                          : transfer_run_output_bytes(&own->item);
}

static worker_answer output(void *state, void *bytes, worker_text *reply) {
    const memory_state *const own = state;
    const tdm_status status =
        is_kernel(own) ? stream_run_output(&own->stream, &own->item, own->device.stream, bytes)
                       : transfer_run_output(&own->transfer, &own->item, own->device.stream, bytes);
    return worker_library_answer("read", status, reply);
}

int worker_tandem_memory(void) {
    static const worker_implementation tandem = {
        .name = "tandem",
        .identify = worker_device_identify,
        .describe = describe,
        .enqueue = enqueue,
        .wait = wait_for_all,
        .output_bytes = output_bytes,
        .output = output,
        .release = release,
    };
    memory_state state = {.item = {.operation = MEMORY_COPY}};
    const int code = worker_serve(&tandem, &state);
    stream_run_release(&state.stream);
    worker_device_close(&state.device);
    return code;
}
