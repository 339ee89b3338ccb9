/* Tandem's own worker for the elementwise suite. */
#include <stdlib.h>
#include <string.h>

#include "api/base/base.h"
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

static int read_case(void *state, const char *request) {
    return elementwise_case_read(request, &((elementwise_state *)state)->item);
}

static void release(void *state) {
    elementwise_state *const own = state;
    for (int i = 0; i < TENSORS; i++)
        tdm_tensor_destroy(own->tensors[i]);
}

/* Creates input 0 or 1, or the output, filled with NaN. */
static tdm_status create(elementwise_state *own, int which) {
    const elementwise_case *const item = &own->item;
    const int is_output = which == OUTPUT, not_a_number = 0xFF; /* the value of every byte */
    const size_t bytes =
        is_output ? elementwise_case_output_bytes(item) : elementwise_case_input_bytes(item);
    void *const content = is_output ? malloc(bytes) : elementwise_case_input(item, which);
    if (content == NULL)
        return TDM_OUT_OF_HOST_MEMORY;
    if (is_output)
        memset(content, not_a_number, bytes);
    const tdm_status status =
        worker_tensor_create(&own->device, is_output ? item->to : item->dtype, 1, &item->count,
                             content, bytes, &own->tensors[which]);
    free(content);
    return status;
}

static tdm_status prepare(void *state, const char *request, worker_text *reply) {
    elementwise_state *const own = state;
    (void)request;
    (void)reply;
    for (int i = 0; i < elementwise_case_inputs(&own->item); i++)
        TDM_TRY(create(own, i));
    return create(own, OUTPUT);
}

static tdm_status enqueue(void *state) {
    const elementwise_state *const own = state;
    tdm_stream *const stream = own->device.stream;
    tdm_tensor *const y = own->tensors[OUTPUT];
    if (own->item.kind == ELEMENTWISE_UNARY)
        return tdm_unary_op(stream, (tdm_unary)own->item.op, own->tensors[0], y);
    if (own->item.kind == ELEMENTWISE_BINARY)
        return tdm_binary_op(stream, (tdm_binary)own->item.op, own->tensors[0], own->tensors[1], y);
    return tdm_tensor_convert(stream, own->tensors[0], y);
}

static size_t output_bytes(const void *state) {
    return elementwise_case_output_bytes(&((const elementwise_state *)state)->item);
}

static tdm_status output(void *state, void *bytes) {
    const elementwise_state *const own = state;
    return tdm_tensor_read(own->device.stream, own->tensors[OUTPUT], bytes, output_bytes(state),
                           NULL);
}

const tandem_worker worker_elementwise = {"tandem",     sizeof(elementwise_state),
                                          read_case,    prepare,
                                          enqueue,      NULL,
                                          output_bytes, output,
                                          release,      NULL};
