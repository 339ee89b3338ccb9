/*
 * The worker of oneDNN on the CPU. f32 with packing inside is dnnl_sgemm, its BLAS-like call, in a loop
 * over a batch; other dtypes, and weights packed beforehand, are the matmul primitive, where the packed
 * layout is the one it chooses itself.
 */
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/peers/host_gemm.h"

/* A matmul that is ready to run; all NULL for dnnl_sgemm. */
typedef struct matmul {
    dnnl_primitive_t primitive;
    dnnl_memory_t source;
    dnnl_memory_t weights;        /* as given */
    dnnl_memory_t packed_weights; /* in the layout of oneDNN's choice; NULL when not prepacked */
    dnnl_memory_t target;
} matmul;

typedef struct onednn_state {
    host_gemm gemm;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    matmul matmul;
} onednn_state;

static const char *status_text(dnnl_status_t status) {
    switch (status) {
    case dnnl_out_of_memory:
        return "out of memory";
    case dnnl_invalid_arguments:
        return "invalid arguments";
    case dnnl_unimplemented:
        return "not implemented for this case on this processor";
    case dnnl_runtime_error:
        return "runtime error";
    default:
        return "not successful";
    }
}

static void identify(void *state, worker_text *reply) {
    (void)state;
    char version[64];
    const dnnl_version_t *const library = dnnl_version();
    snprintf(version, sizeof version, "%d.%d.%d", library->major, library->minor, library->patch);
    worker_field_add(reply, "version", version);
    snprintf(version, sizeof version, "0x%x", (unsigned)dnnl_get_effective_cpu_isa());
    worker_field_add(reply, "isa", version);
}

static dnnl_data_type_t data_type(tdm_dtype dtype) {
    switch (dtype) {
    case TDM_F32:
        return dnnl_f32;
    case TDM_F16:
        return dnnl_f16;
    case TDM_BF16:
        return dnnl_bf16;
    default:
        return dnnl_data_type_undef;
    }
}

/* A matrix, or a batch of them. */
static dnnl_status_t plain_layout(dnnl_memory_desc_t *layout, const gemm_case *item, int64_t rows,
                                  int64_t columns, int transposed) {
    const dnnl_dims_t matrix = {rows, columns};
    const dnnl_dims_t matrices = {gemm_case_batch(item), rows, columns};
    const dnnl_data_type_t type = data_type(item->dtype);
    if (gemm_case_batch(item) > 1)
        return dnnl_memory_desc_init_by_tag(layout, 3, matrices, type,
                                            transposed ? dnnl_acb : dnnl_abc);
    return dnnl_memory_desc_init_by_tag(layout, 2, matrix, type, transposed ? dnnl_ba : dnnl_ab);
}

/* The same, in whatever layout oneDNN wants. */
static dnnl_status_t free_layout(dnnl_memory_desc_t *layout, const dnnl_memory_desc_t *plain) {
    return dnnl_memory_desc_init_by_tag(layout, plain->ndims, plain->dims, plain->data_type,
                                        dnnl_format_tag_any);
}

static dnnl_status_t create_primitive(onednn_state *state, const dnnl_memory_desc_t *source,
                                      const dnnl_memory_desc_t *weights,
                                      const dnnl_memory_desc_t *target,
                                      dnnl_primitive_desc_t *description) {
    dnnl_matmul_desc_t operation;
    dnnl_status_t status = dnnl_matmul_desc_init(&operation, source, weights, NULL, target);
    if (status == dnnl_success)
        status = dnnl_primitive_desc_create(description, &operation, NULL, state->engine, NULL);
    if (status == dnnl_success)
        status = dnnl_primitive_create(&state->matmul.primitive, *description);
    return status;
}

/* Bring B into the layout that the primitive wants. */
static dnnl_status_t pack_weights(onednn_state *state, const_dnnl_primitive_desc_t description) {
    const dnnl_memory_desc_t *const wanted =
        dnnl_primitive_desc_query_md(description, dnnl_query_weights_md, 0);
    dnnl_primitive_desc_t reorder_description = NULL;
    dnnl_primitive_t reorder = NULL;
    const dnnl_memory_desc_t *given = NULL;
    dnnl_memory_get_memory_desc(state->matmul.weights, &given);
    dnnl_status_t status = dnnl_memory_create(&state->matmul.packed_weights, wanted, state->engine,
                                              DNNL_MEMORY_ALLOCATE);
    if (status == dnnl_success)
        status = dnnl_reorder_primitive_desc_create(&reorder_description, given, state->engine,
                                                    wanted, state->engine, NULL);
    if (status == dnnl_success)
        status = dnnl_primitive_create(&reorder, reorder_description);
    const dnnl_exec_arg_t arguments[] = {{DNNL_ARG_FROM, state->matmul.weights},
                                         {DNNL_ARG_TO, state->matmul.packed_weights}};
    if (status == dnnl_success)
        status = dnnl_primitive_execute(reorder, state->stream, 2, arguments);
    if (status == dnnl_success)
        status = dnnl_stream_wait(state->stream);
    dnnl_primitive_destroy(reorder);
    dnnl_primitive_desc_destroy(reorder_description);
    return status;
}

static dnnl_status_t prepare_matmul(onednn_state *state) {
    const host_gemm *const gemm = &state->gemm;
    const gemm_case *const item = &gemm->item;
    dnnl_memory_desc_t source;
    dnnl_memory_desc_t weights;
    dnnl_memory_desc_t free_weights;
    dnnl_memory_desc_t target;
    dnnl_primitive_desc_t description = NULL;
    matmul *const made = &state->matmul;
    dnnl_status_t status = plain_layout(&source, item, item->m, item->k, item->transpose_a);
    if (status == dnnl_success)
        status = plain_layout(&weights, item, item->k, item->n, item->transpose_b);
    if (status == dnnl_success)
        status = plain_layout(&target, item, item->m, item->n, 0);
    if (status == dnnl_success)
        status = free_layout(&free_weights, &weights);
    if (status == dnnl_success)
        status = create_primitive(state, &source, item->prepacked ? &free_weights : &weights,
                                  &target, &description);
    if (status == dnnl_success)
        status = dnnl_memory_create(&made->source, &source, state->engine, gemm->a);
    if (status == dnnl_success)
        status = dnnl_memory_create(&made->weights, &weights, state->engine, gemm->b);
    if (status == dnnl_success)
        status = dnnl_memory_create(&made->target, &target, state->engine, gemm->d);
    if (status == dnnl_success && item->prepacked)
        status = pack_weights(state, description);
    dnnl_primitive_desc_destroy(description);
    return status;
}

static worker_answer describe(void *state, const char *request, worker_text *reply) {
    onednn_state *const own = state;
    const worker_answer answer = host_gemm_describe(&own->gemm, request, reply);
    if (answer != WORKER_OK)
        return answer;
    const gemm_case *const item = &own->gemm.item;
    if (item->dtype == TDM_F32 && !item->prepacked) {
        worker_field_add(reply, "variant", gemm_case_batch(item) > 1 ? "sgemm loop" : "sgemm");
        return WORKER_OK;
    }
    const dnnl_status_t status = prepare_matmul(own);
    if (status != dnnl_success) {
        worker_text_set(reply, "oneDNN matmul in %s: %s", tdm_dtype_name(item->dtype),
                        status_text(status));
        return status == dnnl_unimplemented ? WORKER_SKIP : WORKER_FAIL;
    }
    worker_field_add(reply, "variant", "matmul");
    return WORKER_OK;
}

static dnnl_status_t run_matmul(const onednn_state *state) {
    const matmul *const made = &state->matmul;
    const dnnl_exec_arg_t arguments[] = {
        {DNNL_ARG_SRC, made->source},
        {DNNL_ARG_WEIGHTS, made->packed_weights != NULL ? made->packed_weights : made->weights},
        {DNNL_ARG_DST, made->target},
    };
    return dnnl_primitive_execute(made->primitive, state->stream, 3, arguments);
}

static dnnl_status_t run_sgemm(const host_gemm *gemm) {
    const gemm_case *const item = &gemm->item;
    dnnl_status_t status = dnnl_success;
    for (int64_t batch = 0; status == dnnl_success && batch < gemm_case_batch(item); batch++)
        status = dnnl_sgemm(
            item->transpose_a ? 'T' : 'N', item->transpose_b ? 'T' : 'N', item->m, item->n, item->k,
            1.0f, host_gemm_matrix(gemm, OP_GEMM_A, batch), item->transpose_a ? item->m : item->k,
            host_gemm_matrix(gemm, OP_GEMM_B, batch), item->transpose_b ? item->k : item->n, 0.0f,
            host_gemm_matrix(gemm, OP_GEMM_D, batch), item->n);
    return status;
}

static worker_answer enqueue(void *state, worker_text *reply) {
    const onednn_state *const own = state;
    const dnnl_status_t status =
        own->matmul.primitive == NULL ? run_sgemm(&own->gemm) : run_matmul(own);
    if (status == dnnl_success)
        return WORKER_OK;
    worker_text_set(reply, "oneDNN: %s", status_text(status));
    return WORKER_FAIL;
}

static worker_answer wait_for_stream(void *state, worker_text *reply) {
    const onednn_state *const own = state;
    if (dnnl_stream_wait(own->stream) == dnnl_success)
        return WORKER_OK;
    worker_text_set(reply, "oneDNN: waiting failed");
    return WORKER_FAIL;
}

static size_t output_bytes(void *state) {
    return host_gemm_output_bytes(&((onednn_state *)state)->gemm);
}

static worker_answer output(void *state, void *bytes, worker_text *reply) {
    (void)reply;
    return host_gemm_output(&((onednn_state *)state)->gemm, bytes);
}

static void release(void *state) {
    onednn_state *const own = state;
    dnnl_primitive_destroy(own->matmul.primitive);
    dnnl_memory_destroy(own->matmul.source);
    dnnl_memory_destroy(own->matmul.weights);
    dnnl_memory_destroy(own->matmul.packed_weights);
    dnnl_memory_destroy(own->matmul.target);
    memset(&own->matmul, 0, sizeof own->matmul);
    host_gemm_release(&own->gemm);
}

int main(void) {
    static const worker_implementation onednn = {
        .name = "onednn",
        .identify = identify,
        .describe = describe,
        .enqueue = enqueue,
        .wait = wait_for_stream,
        .output_bytes = output_bytes,
        .output = output,
        .release = release,
    };
    onednn_state state = {.engine = NULL};
    if (dnnl_engine_create(&state.engine, dnnl_cpu, 0) != dnnl_success ||
        dnnl_stream_create(&state.stream, state.engine, dnnl_stream_default_flags) !=
            dnnl_success) {
        fputs("oneDNN has no CPU engine here\n", stderr);
        return 1;
    }
    const int code = worker_serve(&onednn, &state);
    dnnl_stream_destroy(state.stream);
    dnnl_engine_destroy(state.engine);
    return code;
}
