/* Tandem's own worker for the probes. Its field "work" reports the work of a call. */
#include "bench/workers/probe_run.h"
#include "bench/workers/worker_tandem.h"

typedef struct probe_state {
    worker_device device; /* first, for worker_tandem.h */
    probe_case item;
    probe_run run;
    tdm_graph *list; /* a list of commands, or NULL */
} probe_state;

static int read_case(void *state, const char *request) {
    return probe_case_read(request, &((probe_state *)state)->item);
}

static void release(void *state) {
    probe_state *const own = state;
    tdm_graph_destroy(own->list);
    probe_run_release(&own->run);
}

static tdm_status prepare(void *state, const char *request, worker_text *reply) {
    probe_state *const own = state;
    tdm_stream *const stream = own->device.stream;
    tdm_status status = TDM_OK;
    (void)request;
    TDM_TRY(probe_run_create(own->device.device, stream, &own->item, NULL, &own->run));
    worker_field_add(reply, "variant", own->run.kernel->variant->name);
    worker_field_add_integer(reply, "work", probe_run_work(&own->run, &own->item));
    if (own->item.commands == 0)
        return TDM_OK;
    TDM_TRY(tdm_stream_begin_recording(stream));
    for (int i = 0; i < own->item.commands && status == TDM_OK; i++)
        status = probe_run_enqueue(&own->run, &own->item, stream);
    const tdm_status ended = tdm_stream_end_recording(stream, &own->list);
    return status == TDM_OK ? ended : status;
}

static tdm_status enqueue(void *state) {
    const probe_state *const own = state;
    return own->list != NULL ? tdm_graph_launch(own->list, own->device.stream)
                             : probe_run_enqueue(&own->run, &own->item, own->device.stream);
}

static size_t output_bytes(const void *state) {
    return probe_run_output_bytes(&((const probe_state *)state)->run);
}

static tdm_status output(void *state, void *bytes) {
    const probe_state *const own = state;
    return probe_run_output(&own->run, own->device.stream, bytes);
}

const tandem_worker worker_probe = {"tandem", sizeof(probe_state), read_case, prepare, enqueue,
                                    NULL,     output_bytes,        output,    release, NULL};
