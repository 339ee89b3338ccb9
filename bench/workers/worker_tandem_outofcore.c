/*
 * Tandem's own worker for the outofcore suite: a GEMM on operands in host memory, within a budget
 * of device memory.
 */
#include <stdlib.h>
#include <string.h>

#include "api/base/base.h"
#include "bench/cases/gemm_case.h"
#include "bench/workers/worker_tandem.h"

typedef struct outofcore_state {
    worker_device device; /* first, for worker_tandem.h */
    gemm_case item;
    void *a, *b, *d;
    tdm_outofcore_plan *plan;
} outofcore_state;

static int read_case(void *state, const char *request) {
    return gemm_case_read(request, &((outofcore_state *)state)->item);
}

static void release(void *state) {
    outofcore_state *const own = state;
    tdm_outofcore_plan_destroy(own->plan);
    free(own->a);
    free(own->b);
    free(own->d);
}

/* Creates an operand in host memory. */
static tdm_status create(const gemm_case *item, op_gemm_operand operand, tdm_layout *layout,
                         void **memory) {
    const op_gemm_case operation = gemm_case_operation(item);
    int64_t shape[TDM_MAX_RANK];
    const int rank = op_gemm_shape(&operation, operand, shape);
    *memory = gemm_case_create(item, operand);
    return *memory == NULL ? TDM_OUT_OF_HOST_MEMORY
                           : tdm_layout_contiguous(operation.dtype[operand], rank, shape, layout);
}

static tdm_status prepare(void *state, const char *request, worker_text *reply) {
    outofcore_state *const own = state;
    tdm_outofcore_desc desc = TDM_OUTOFCORE_DESC_INIT;
    tdm_outofcore_info info = {.struct_size = sizeof info};
    (void)request;
    TDM_TRY(create(&own->item, OP_GEMM_A, &desc.gemm.a, &own->a));
    TDM_TRY(create(&own->item, OP_GEMM_B, &desc.gemm.b, &own->b));
    TDM_TRY(create(&own->item, OP_GEMM_D, &desc.gemm.d, &own->d));
    desc.budget_bytes = (uint64_t)own->item.budget;
    desc.measure = 1;
    TDM_TRY(tdm_outofcore_plan_create(own->device.device, &desc, &own->plan));
    TDM_TRY(tdm_outofcore_plan_describe(own->plan, &info));
    worker_field_add(reply, "variant", info.variant);
    return TDM_OK;
}

static tdm_status enqueue(void *state) {
    outofcore_state *const own = state;
    tdm_outofcore_args args = TDM_OUTOFCORE_ARGS_INIT;
    args.a.memory = own->a;
    args.a.bytes = gemm_case_bytes(&own->item, OP_GEMM_A);
    args.b.memory = own->b;
    args.b.bytes = gemm_case_bytes(&own->item, OP_GEMM_B);
    args.d_memory = own->d;
    args.d_bytes = gemm_case_bytes(&own->item, OP_GEMM_D);
    return tdm_outofcore_plan_run(own->plan, own->device.stream, &args);
}

static size_t output_bytes(const void *state) {
    const outofcore_state *const own = state;
    return sizeof(outofcore_output) + gemm_case_bytes(&own->item, OP_GEMM_D);
}

/*
 * Stores the output. The checked run was the first, which includes page faults, so the times come
 * from one more run.
 */
static tdm_status output(void *state, void *bytes) {
    const outofcore_state *const own = state;
    outofcore_output head = {.info.struct_size = sizeof head.info};
    TDM_TRY(tdm_stream_synchronize(own->device.stream));
    memcpy((char *)bytes + sizeof head, own->d, gemm_case_bytes(&own->item, OP_GEMM_D));
    TDM_TRY(tdm_outofcore_plan_describe(own->plan, &head.info));
    TDM_TRY(enqueue(state));
    TDM_TRY(tdm_outofcore_plan_measured(own->plan, &head.measured, NULL));
    memcpy(bytes, &head, sizeof head);
    return TDM_OK;
}

const tandem_worker worker_outofcore = {"tandem",     sizeof(outofcore_state),
                                        read_case,    prepare,
                                        enqueue,      NULL,
                                        output_bytes, output,
                                        release,      NULL};
