/* Tandem's own worker for the elementwise suite. */
#include <stdlib.h>
#include <string.h>

#include "bench/cases/elementwise_case.h"
#include "bench/workers/worker_tandem.h"

enum {
    OUTPUT = 2,
    TENSORS
};

typedef struct elementwise_state {
    worker_device device; /* first, for worker_tandem.h */
    elementwise_case item;
    tdm_tensor *tensors[TENSORS]; /* inputs, the output */
} elementwise_state;

static void release(void *state) {
    elementwise_state *const own = state;
    if (own->device.stream != NULL)
        tdm_stream_synchronize(own->device.stream);
    for (int i = 0; i < TENSORS; i++)
        tdm_tensor_destroy(own->tensors[i]);
    *own = (elementwise_state){.device = own->device};
}

/* Input 0 or 1, or the output full of NaN. */
static tdm_status create(elementwise_state *own, int which) {
    const elementwise_case *const item = &own->item;
    const int not_a_number = 0xFF; /* byte by byte */
    const size_t bytes =
        which == OUTPUT ? elementwise_case_output_bytes(item) : elementwise_case_input_bytes(item);
    void *const content = which == OUTPUT ? malloc(bytes) : elementwise_case_input(item, which);
    if (content == NULL)
        return TDM_OUT_OF_HOST_MEMORY;
    if (which == OUTPUT)
        memset(content, not_a_number, bytes);
    tdm_status status =
        tdm_tensor_create(own->device.device, which == OUTPUT ? item->to : item->dtype, 1,
                          &item->count, &own->tensors[which]);
    if (status == TDM_OK)
        status = tdm_tensor_write(own->device.stream, content, bytes, NULL, own->tensors[which]);
    free(content);
    return status;
}

static worker_answer describe(void *state, const char *request, worker_text *reply) {
    elementwise_state *const own = state;
    if (elementwise_case_read(request, &own->item) != 0) {
        worker_text_set(reply, "the case cannot be read");
        return WORKER_FAIL;
    }
    const worker_answer answer = worker_device_open(&own->device, request, reply);
    if (answer != WORKER_OK)
        return answer;
    tdm_status status = create(own, OUTPUT);
    for (int i = 0; i < elementwise_case_inputs(&own->item) && status == TDM_OK; i++)
        status = create(own, i);
    return worker_library_answer("tensors", status, reply);
}

static worker_answer enqueue(void *state, worker_text *reply) {
    const elementwise_state *const own = state;
    tdm_stream *const stream = own->device.stream;
    tdm_tensor *const y = own->tensors[OUTPUT];
    tdm_status status = TDM_INTERNAL;
    switch (own->item.kind) {
    case ELEMENTWISE_UNARY:
        status = tdm_unary_op(stream, (tdm_unary)own->item.op, own->tensors[0], y);
        break;
    case ELEMENTWISE_BINARY:
        status =
            tdm_binary_op(stream, (tdm_binary)own->item.op, own->tensors[0], own->tensors[1], y);
        break;
    case ELEMENTWISE_CONVERT:
        status = tdm_tensor_convert(stream, own->tensors[0], y);
        break;
    }
    return worker_library_answer("run", status, reply);
}

static size_t output_bytes(void *state) {
    const elementwise_state *const own = state;
    return own->tensors[OUTPUT] != NULL ? elementwise_case_output_bytes(&own->item) : 0;
}

static worker_answer output(void *state, void *bytes, worker_text *reply) {
    const elementwise_state *const own = state;
    return worker_library_answer(
        "read",
        tdm_tensor_read(own->device.stream, own->tensors[OUTPUT], bytes, output_bytes(state), NULL),
        reply);
}

int worker_tandem_elementwise(void) {
    static const worker_implementation tandem = WORKER_TANDEM_IMPLEMENTATION;
    elementwise_state state = {.tensors = {NULL}};
    return worker_device_serve(&tandem, &state);
}
