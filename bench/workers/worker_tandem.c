#include "bench/workers/worker_tandem.h"

#include <string.h>

#include "common/command/cli_options.h"

worker_answer worker_library_answer(const char *what, tdm_status status, worker_text *reply) {
    if (status == TDM_OK)
        return WORKER_OK;
    const char *const detail = tdm_last_detail();
    worker_text_set(reply, "%s: %s%s%s", what, tdm_status_text(status),
                    detail[0] == '\0' ? "" : ": ", detail);
    return status == TDM_UNSUPPORTED ? WORKER_SKIP : WORKER_FAIL;
}

/* The parent's device under the same number: both list the devices, and a driver may have gone. */
static worker_answer check_device(const worker_device *own, const char *request,
                                  worker_text *reply) {
    char wanted[256];
    tdm_device_info info = {.struct_size = sizeof info};
    const tdm_status status = tdm_device_describe(own->device, &info);
    if (status != TDM_OK)
        return worker_library_answer("device", status, reply);
    if (!worker_field(request, "selector", wanted, sizeof wanted) ||
        strcmp(wanted, info.selector) == 0)
        return WORKER_OK;
    worker_text_set(reply, "the device is %s here, not %s", info.selector, wanted);
    return WORKER_FAIL;
}

worker_answer worker_device_open(worker_device *own, const char *request, worker_text *reply) {
    if (own->stream != NULL)
        return WORKER_OK;
    worker_device_close(own);
    const int index = (int)worker_field_integer(request, "index", 0);
    tdm_status status = tdm_context_create(NULL, &own->context);
    if (status == TDM_OK)
        status = tdm_device_get(own->context, index, &own->device);
    if (status == TDM_OK)
        status = tdm_stream_create(own->device, &own->stream);
    return status == TDM_OK ? check_device(own, request, reply)
                            : worker_library_answer("device", status, reply);
}

void worker_device_close(worker_device *own) {
    tdm_stream_destroy(own->stream);
    tdm_device_release(own->device);
    tdm_context_destroy(own->context);
    memset(own, 0, sizeof *own);
}

void worker_device_identify(void *state, worker_text *reply) {
    (void)state;
    worker_field_add(reply, "version", tdm_version_text());
}

worker_answer worker_device_wait(void *state, worker_text *reply) {
    const worker_device *const own = state;
    return worker_library_answer("wait", tdm_stream_synchronize(own->stream), reply);
}

int worker_device_serve(const worker_implementation *implementation, void *state) {
    const int code = worker_serve(implementation, state);
    worker_device_close(state);
    return code;
}
