#include "bench/workers/worker_tandem.h"

#include <stdlib.h>
#include <string.h>

#include "common/command/cli_options.h"

static worker_answer answer_of(const char *what, tdm_status status, worker_text *reply) {
    if (status == TDM_OK)
        return WORKER_OK;
    const char *const detail = tdm_last_detail();
    worker_text_set(reply, "%s: %s%s%s", what, tdm_status_text(status),
                    detail[0] == '\0' ? "" : ": ", detail);
    return status == TDM_UNSUPPORTED ? WORKER_SKIP : WORKER_FAIL;
}

static void close_device(worker_device *own) {
    tdm_stream_destroy(own->stream);
    tdm_device_release(own->device);
    tdm_context_destroy(own->context);
    *own = (worker_device){.worker = own->worker};
}

/*
 * Opens the parent's device by its number. The selector is compared, because a driver may have
 * disappeared between the two listings.
 */
static worker_answer open_device(worker_device *own, const char *request, worker_text *reply) {
    char wanted[256];
    tdm_device_info info = {.struct_size = sizeof info};
    if (own->stream != NULL)
        return WORKER_OK;
    close_device(own);
    tdm_status status = tdm_context_create(NULL, &own->context);
    if (status == TDM_OK)
        status = tdm_device_get(own->context, (int)worker_field_integer(request, "index", 0),
                                &own->device);
    if (status == TDM_OK)
        status = tdm_stream_create(own->device, &own->stream);
    if (status == TDM_OK)
        status = tdm_device_describe(own->device, &info);
    if (status != TDM_OK)
        return answer_of("device", status, reply);
    if (!worker_field(request, "selector", wanted, sizeof wanted) ||
        strcmp(wanted, info.selector) == 0)
        return WORKER_OK;
    worker_text_set(reply, "the device is %s here, not %s", info.selector, wanted);
    return WORKER_FAIL;
}

static void identify(void *state, worker_text *reply) {
    (void)state;
    worker_field_add(reply, "version", tdm_version_text());
}

static worker_answer describe(void *state, const char *request, worker_text *reply) {
    worker_device *const own = state;
    if (own->worker->read(state, request) != 0) {
        worker_text_set(reply, "the case cannot be read");
        return WORKER_FAIL;
    }
    const char *const refusal = own->worker->refusal == NULL ? NULL : own->worker->refusal();
    if (refusal != NULL) {
        worker_text_set(reply, "%s", refusal);
        return WORKER_SKIP;
    }
    const worker_answer answer = open_device(own, request, reply);
    return answer != WORKER_OK
               ? answer
               : answer_of("prepare", own->worker->prepare(state, request, reply), reply);
}

static worker_answer enqueue(void *state, worker_text *reply) {
    return answer_of("run", ((worker_device *)state)->worker->enqueue(state), reply);
}

static worker_answer wait_for_all(void *state, worker_text *reply) {
    const worker_device *const own = state;
    return answer_of("wait",
                     own->worker->wait != NULL ? own->worker->wait(state)
                                               : tdm_stream_synchronize(own->stream),
                     reply);
}

static size_t output_bytes(void *state) {
    return ((worker_device *)state)->worker->output_bytes(state);
}

static worker_answer output(void *state, void *bytes, worker_text *reply) {
    return answer_of("read", ((worker_device *)state)->worker->output(state, bytes), reply);
}

static void release(void *state) {
    worker_device *const own = state;
    if (own->stream != NULL)
        tdm_stream_synchronize(own->stream);
    own->worker->release(state);
    memset(own + 1, 0, own->worker->bytes - sizeof *own);
}

int tandem_worker_serve(const tandem_worker *worker) {
    const worker_implementation implementation = {
        .name = worker->name,
        .identify = identify,
        .describe = describe,
        .enqueue = enqueue,
        .wait = wait_for_all,
        .output_bytes = output_bytes,
        .output = output,
        .release = release,
    };
    worker_device *const own = calloc(1, worker->bytes);
    if (own == NULL)
        return CLI_EXIT_FAILED;
    own->worker = worker;
    const int code = worker_serve(&implementation, own);
    close_device(own);
    free(own);
    return code;
}

tdm_status worker_tensor_create(const worker_device *own, tdm_dtype dtype, int rank,
                                const int64_t *shape, const void *content, size_t bytes,
                                tdm_tensor **tensor) {
    void *const zeros = content == NULL ? calloc(1, bytes) : NULL;
    tdm_status status = content == NULL && zeros == NULL
                            ? TDM_OUT_OF_HOST_MEMORY
                            : tdm_tensor_create(own->device, dtype, rank, shape, tensor);
    if (status == TDM_OK)
        status =
            tdm_tensor_write(own->stream, content != NULL ? content : zeros, bytes, NULL, *tensor);
    free(zeros);
    return status;
}

tdm_status worker_tensor_quantize(tdm_quantization *parameters, tdm_tensor *scale,
                                  tdm_tensor *zero_point, tdm_tensor **tensor) {
    tdm_tensor *quantized = NULL;
    parameters->scale = scale;
    parameters->zero_point = zero_point;
    const tdm_status status = tdm_tensor_quantized(*tensor, parameters, &quantized);
    tdm_tensor_destroy(scale);
    tdm_tensor_destroy(zero_point);
    if (status != TDM_OK)
        return status;
    tdm_tensor_destroy(*tensor);
    *tensor = quantized;
    return TDM_OK;
}
