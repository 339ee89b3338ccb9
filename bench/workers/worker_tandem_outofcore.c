/* Tandem's own worker for the outofcore suite: a product within a budget, or in core with and without its copies. */
#include <stdlib.h>
#include <string.h>

#include "bench/cases/outofcore_case.h"
#include "bench/workers/worker_tandem.h"

typedef struct outofcore_state {
    worker_device device; /* first, for worker_tandem.h */
    outofcore_case item;
    void *host[OP_GEMM_OPERANDS];
    tdm_tensor *tensors[OP_GEMM_OPERANDS]; /* in core */
    tdm_outofcore_plan *plan;
} outofcore_state;

static const op_gemm_operand matrices[] = {OP_GEMM_A, OP_GEMM_B, OP_GEMM_D};

enum {
    MATRICES = 3
};

static void release(void *state) {
    outofcore_state *const own = state;
    if (own->device.stream != NULL)
        tdm_stream_synchronize(own->device.stream);
    tdm_outofcore_plan_destroy(own->plan);
    for (int i = 0; i < OP_GEMM_OPERANDS; i++) {
        tdm_tensor_destroy(own->tensors[i]);
        free(own->host[i]);
    }
    *own = (outofcore_state){.device = own->device};
}

static int shape_of(const outofcore_state *own, op_gemm_operand operand, tdm_dtype *dtype,
                    int64_t shape[TDM_MAX_RANK]) {
    const op_gemm_case operation = gemm_case_operation(&own->item.gemm);
    *dtype = operation.dtype[operand];
    return op_gemm_shape(&operation, operand, shape);
}

static tdm_status create_plan(outofcore_state *own) {
    tdm_outofcore_desc desc = TDM_OUTOFCORE_DESC_INIT;
    tdm_layout *const layouts[MATRICES] = {&desc.gemm.a, &desc.gemm.b, &desc.gemm.d};
    tdm_status status = TDM_OK;
    for (int i = 0; i < MATRICES && status == TDM_OK; i++) {
        int64_t shape[TDM_MAX_RANK];
        tdm_dtype dtype;
        const int rank = shape_of(own, matrices[i], &dtype, shape);
        status = tdm_layout_contiguous(dtype, rank, shape, layouts[i]);
    }
    desc.gemm.transpose_a = own->item.gemm.transpose_a;
    desc.gemm.transpose_b = own->item.gemm.transpose_b;
    desc.budget_bytes = outofcore_case_budget(&own->item);
    desc.measure = 1;
    if (status == TDM_OK)
        status = tdm_outofcore_plan_create(own->device.device, &desc, &own->plan);
    return status;
}

static tdm_status copy_in(const outofcore_state *own, op_gemm_operand operand) {
    return tdm_tensor_write_async(own->device.stream, own->host[operand],
                                  gemm_case_bytes(&own->item.gemm, operand), NULL,
                                  own->tensors[operand]);
}

static tdm_status create_tensors(outofcore_state *own) {
    tdm_status status = TDM_OK;
    for (int i = 0; i < MATRICES && status == TDM_OK; i++) {
        int64_t shape[TDM_MAX_RANK];
        tdm_dtype dtype;
        const int rank = shape_of(own, matrices[i], &dtype, shape);
        status =
            tdm_tensor_create(own->device.device, dtype, rank, shape, &own->tensors[matrices[i]]);
        if (status == TDM_OK)
            status = copy_in(own, matrices[i]);
    }
    if (status == TDM_OK)
        status = tdm_stream_synchronize(own->device.stream);
    return status;
}

static worker_answer describe(void *state, const char *request, worker_text *reply) {
    outofcore_state *const own = state;
    if (outofcore_case_read(request, &own->item) != 0) {
        worker_text_set(reply, "the case cannot be read");
        return WORKER_FAIL;
    }
    const worker_answer answer = worker_device_open(&own->device, request, reply);
    if (answer != WORKER_OK)
        return answer;
    for (int i = 0; i < MATRICES; i++)
        if ((own->host[matrices[i]] = gemm_case_create(&own->item.gemm, matrices[i])) == NULL) {
            worker_text_set(reply, "out of host memory");
            return WORKER_FAIL;
        }
    if (own->item.way != OUTOFCORE_TILED)
        return worker_library_answer("operands", create_tensors(own), reply);
    const tdm_status status = create_plan(own);
    if (status != TDM_OK)
        return worker_library_answer("plan", status, reply);
    tdm_outofcore_info info = {.struct_size = sizeof info};
    tdm_outofcore_plan_describe(own->plan, &info);
    worker_field_add(reply, "variant", info.variant);
    return WORKER_OK;
}

static tdm_status run_tiled(outofcore_state *own) {
    tdm_outofcore_args args = TDM_OUTOFCORE_ARGS_INIT;
    args.a.memory = own->host[OP_GEMM_A];
    args.a.bytes = gemm_case_bytes(&own->item.gemm, OP_GEMM_A);
    args.b.memory = own->host[OP_GEMM_B];
    args.b.bytes = gemm_case_bytes(&own->item.gemm, OP_GEMM_B);
    args.d_memory = own->host[OP_GEMM_D];
    args.d_bytes = gemm_case_bytes(&own->item.gemm, OP_GEMM_D);
    return tdm_outofcore_plan_run(own->plan, own->device.stream, &args);
}

/* op() as views for one call. */
static tdm_status multiply(const outofcore_state *own) {
    const int transposed[2] = {own->item.gemm.transpose_a, own->item.gemm.transpose_b};
    tdm_tensor *views[2] = {NULL, NULL};
    tdm_status status = TDM_OK;
    for (int i = 0; i < 2 && status == TDM_OK; i++) {
        const tdm_tensor *const tensor = own->tensors[matrices[i]];
        const int last = tdm_tensor_rank(tensor) - 1;
        int order[TDM_MAX_RANK];
        for (int d = 0; d <= last; d++)
            order[d] = transposed[i] && d >= last - 1 ? 2 * last - 1 - d : d;
        status = tdm_tensor_transpose(tensor, order, &views[i]);
    }
    if (status == TDM_OK)
        status = tdm_gemm(own->device.stream, 1, views[0], views[1], 0, NULL,
                          own->tensors[OP_GEMM_D], NULL);
    tdm_tensor_destroy(views[0]);
    tdm_tensor_destroy(views[1]);
    return status;
}

static tdm_status read_d(const outofcore_state *own) {
    return tdm_tensor_read_async(own->device.stream, own->tensors[OP_GEMM_D], own->host[OP_GEMM_D],
                                 gemm_case_bytes(&own->item.gemm, OP_GEMM_D), NULL);
}

static tdm_status run_copied(const outofcore_state *own) {
    tdm_status status = copy_in(own, OP_GEMM_A);
    if (status == TDM_OK)
        status = copy_in(own, OP_GEMM_B);
    if (status == TDM_OK)
        status = multiply(own);
    if (status == TDM_OK)
        status = read_d(own);
    return status;
}

static worker_answer enqueue(void *state, worker_text *reply) {
    outofcore_state *const own = state;
    const tdm_status status = own->item.way == OUTOFCORE_TILED  ? run_tiled(own)
                              : own->item.way == OUTOFCORE_CORE ? multiply(own)
                                                                : run_copied(own);
    return worker_library_answer("run", status, reply);
}

static size_t output_bytes(void *state) {
    const outofcore_state *const own = state;
    return own->host[OP_GEMM_D] == NULL
               ? 0
               : sizeof(outofcore_output) + gemm_case_bytes(&own->item.gemm, OP_GEMM_D);
}

static worker_answer output(void *state, void *bytes, worker_text *reply) {
    outofcore_state *const own = state;
    outofcore_output head;
    memset(&head, 0, sizeof head);
    tdm_status status = TDM_OK;
    if (own->item.way == OUTOFCORE_CORE)
        status = read_d(own);
    if (status == TDM_OK)
        status = tdm_stream_synchronize(own->device.stream);
    if (status != TDM_OK)
        return worker_library_answer("read", status, reply);
    memcpy((char *)bytes + sizeof head, own->host[OP_GEMM_D],
           gemm_case_bytes(&own->item.gemm, OP_GEMM_D));
    if (own->plan != NULL) { // the run that is checked was the first: pages were still to be found
        head.info.struct_size = sizeof head.info;
        tdm_outofcore_plan_describe(own->plan, &head.info);
        status = run_tiled(own);
        if (status == TDM_OK)
            status = tdm_outofcore_plan_measured(own->plan, &head.measured, NULL);
    }
    memcpy(bytes, &head, sizeof head);
    return worker_library_answer("measuring", status, reply);
}

int worker_tandem_outofcore(void) {
    static const worker_implementation tandem = WORKER_TANDEM_IMPLEMENTATION;
    outofcore_state state = {.plan = NULL};
    return worker_device_serve(&tandem, &state);
}
