/* Tandem's own worker for the probes. It says what a call amounts to in the field "work". */
#include "bench/workers/probe_run.h"
#include "bench/workers/worker_tandem.h"

typedef struct probe_state {
    worker_device device; /* first, for worker_tandem.h */
    probe_case item;
    probe_run run;
} probe_state;

static void release(void *state) {
    probe_state *const own = state;
    if (own->device.stream != NULL)
        tdm_stream_synchronize(own->device.stream);
    probe_run_release(&own->run);
}

static worker_answer describe(void *state, const char *request, worker_text *reply) {
    probe_state *const own = state;
    if (probe_case_read(request, &own->item) != 0) {
        worker_text_set(reply, "the case cannot be read");
        return WORKER_FAIL;
    }
    const worker_answer answer = worker_device_open(&own->device, request, reply);
    if (answer != WORKER_OK)
        return answer;
    const tdm_status status =
        probe_run_create(own->device.device, own->device.stream, &own->item, NULL, &own->run);
    if (status != TDM_OK)
        return worker_library_answer("probe", status, reply);
    worker_field_add(reply, "variant", own->run.kernel->variant->name);
    worker_field_add_integer(reply, "work", probe_run_work(&own->run, &own->item));
    return WORKER_OK;
}

static worker_answer enqueue(void *state, worker_text *reply) {
    const probe_state *const own = state;
    const tdm_status status = probe_run_enqueue(&own->run, &own->item, own->device.stream);
    return worker_library_answer("run", status, reply);
}

static size_t output_bytes(void *state) {
    const probe_state *const own = state;
    return probe_run_output_bytes(&own->run);
}

static worker_answer output(void *state, void *bytes, worker_text *reply) {
    const probe_state *const own = state;
    const tdm_status status = probe_run_output(&own->run, &own->item, own->device.stream, bytes);
    return worker_library_answer("read", status, reply);
}

int worker_probe(void) {
    static const worker_implementation tandem = WORKER_TANDEM_IMPLEMENTATION;
    probe_state state = {.run = {.kernel = NULL}};
    return worker_device_serve(&tandem, &state);
}
