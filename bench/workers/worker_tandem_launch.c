/*
 * Tandem's own worker for the launch suite: calls so small that what is timed is the way to the device.
 */
#include <stdlib.h>

#include "bench/cases/launch_case.h"
#include "bench/workers/probe_run.h"
#include "bench/workers/worker_tandem.h"

typedef struct launch_state {
    worker_device device; /* first, for worker_tandem.h */
    launch_case item;
    probe_run probe;
    tdm_tensor *operands[OP_GEMM_OPERANDS];
    tdm_graph *list;
    tdm_gemm_plan *plan;
    tdm_buffer *workspace;
} launch_state;

static void release(void *state) {
    launch_state *const own = state;
    if (own->device.stream != NULL)
        tdm_stream_synchronize(own->device.stream);
    tdm_graph_destroy(own->list);
    probe_run_release(&own->probe);
    tdm_buffer_destroy(own->workspace);
    tdm_gemm_plan_destroy(own->plan);
    for (int i = 0; i < OP_GEMM_OPERANDS; i++)
        tdm_tensor_destroy(own->operands[i]);
    *own = (launch_state){.device = own->device};
}

static tdm_status create_operand(launch_state *own, op_gemm_operand operand) {
    const op_gemm_case operation = gemm_case_operation(&own->item.gemm);
    int64_t shape[TDM_MAX_RANK];
    const int rank = op_gemm_shape(&operation, operand, shape);
    void *const data = gemm_case_create(&own->item.gemm, operand);
    if (data == NULL)
        return TDM_OUT_OF_HOST_MEMORY;
    tdm_status status = tdm_tensor_create(own->device.device, operation.dtype[operand], rank, shape,
                                          &own->operands[operand]);
    if (status == TDM_OK)
        status =
            tdm_tensor_write(own->device.stream, data, gemm_case_bytes(&own->item.gemm, operand),
                             NULL, own->operands[operand]);
    free(data);
    return status;
}

static tdm_status create_plan(launch_state *own) {
    size_t bytes = 0;
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    TDM_TRY(tdm_tensor_layout(own->operands[OP_GEMM_A], &desc.a));
    TDM_TRY(tdm_tensor_layout(own->operands[OP_GEMM_B], &desc.b));
    TDM_TRY(tdm_tensor_layout(own->operands[OP_GEMM_D], &desc.d));
    TDM_TRY(tdm_gemm_plan_create(own->device.device, &desc, &own->plan));
    TDM_TRY(tdm_gemm_plan_workspace_size(own->plan, &bytes));
    return bytes == 0 ? TDM_OK : tdm_buffer_create(own->device.device, bytes, &own->workspace);
}

static tdm_status record_list(launch_state *own) {
    tdm_stream *const stream = own->device.stream;
    tdm_status status = tdm_stream_begin_recording(stream);
    if (status != TDM_OK)
        return status;
    for (int i = 0; i < LAUNCH_LIST_COMMANDS && status == TDM_OK; i++)
        status = probe_run_enqueue(&own->probe, &own->item.probe, stream);
    const tdm_status ended = tdm_stream_end_recording(stream, &own->list);
    return status == TDM_OK ? ended : status;
}

static tdm_status prepare(launch_state *own) {
    if (launch_way_is_kernel(own->item.way)) {
        TDM_TRY(probe_run_create(own->device.device, own->device.stream, &own->item.probe, NULL,
                                 &own->probe));
        return own->item.way == LAUNCH_LIST ? record_list(own) : TDM_OK;
    }
    TDM_TRY(create_operand(own, OP_GEMM_A));
    TDM_TRY(create_operand(own, OP_GEMM_B));
    TDM_TRY(create_operand(own, OP_GEMM_D));
    return create_plan(own);
}

static worker_answer describe(void *state, const char *request, worker_text *reply) {
    launch_state *const own = state;
    if (launch_case_read(request, &own->item) != 0) {
        worker_text_set(reply, "the case cannot be read");
        return WORKER_FAIL;
    }
    const worker_answer answer = worker_device_open(&own->device, request, reply);
    if (answer != WORKER_OK)
        return answer;
    const tdm_status status = prepare(own);
    if (status != TDM_OK)
        return worker_library_answer("launch", status, reply);
    worker_field_add(reply, "variant",
                     launch_way_is_kernel(own->item.way) ? own->probe.kernel->variant->name
                                                         : tdm_gemm_plan_variant(own->plan));
    return WORKER_OK;
}

static tdm_status run_plan(const launch_state *own) {
    tdm_gemm_args arguments = TDM_GEMM_ARGS_INIT;
    arguments.a = own->operands[OP_GEMM_A];
    arguments.b = own->operands[OP_GEMM_B];
    arguments.d = own->operands[OP_GEMM_D];
    arguments.workspace = own->workspace;
    return tdm_gemm_plan_run(own->plan, own->device.stream, &arguments);
}

static tdm_status run(const launch_state *own) {
    switch (own->item.way) {
    case LAUNCH_KERNEL:
        return probe_run_enqueue(&own->probe, &own->item.probe, own->device.stream);
    case LAUNCH_LIST:
        return tdm_graph_launch(own->list, own->device.stream);
    case LAUNCH_PLAN:
        return run_plan(own);
    case LAUNCH_CALL:
        return tdm_gemm(own->device.stream, 1, own->operands[OP_GEMM_A], own->operands[OP_GEMM_B],
                        0, NULL, own->operands[OP_GEMM_D], NULL);
    }
    return TDM_INTERNAL;
}

static worker_answer enqueue(void *state, worker_text *reply) {
    const tdm_status status = run(state);
    return status == TDM_OK ? WORKER_OK : worker_library_answer("run", status, reply);
}

static size_t output_bytes(void *state) {
    const launch_state *const own = state;
    return launch_way_is_kernel(own->item.way) ? probe_run_output_bytes(&own->probe)
                                               : gemm_case_bytes(&own->item.gemm, OP_GEMM_D);
}

static worker_answer output(void *state, void *bytes, worker_text *reply) {
    launch_state *const own = state;
    const tdm_status status =
        launch_way_is_kernel(own->item.way)
            ? probe_run_output(&own->probe, &own->item.probe, own->device.stream, bytes)
            : tdm_tensor_read(own->device.stream, own->operands[OP_GEMM_D], bytes,
                              output_bytes(state), NULL);
    return worker_library_answer("read", status, reply);
}

int worker_tandem_launch(void) {
    static const worker_implementation tandem = WORKER_TANDEM_IMPLEMENTATION;
    launch_state state = {.plan = NULL};
    return worker_device_serve(&tandem, &state);
}
