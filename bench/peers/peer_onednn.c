/*
 * The worker of oneDNN on the CPU. f32 with packing inside is dnnl_sgemm, its BLAS-like call, in a loop
 * over a batch, and integers with their sums as output are dnnl_gemm_u8s8s32 or dnnl_gemm_s8s8s32; other types, and
 * weights packed beforehand, are the matmul primitive, where the packed layout is the one it chooses itself.
 */
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/peers/host_gemm.h"

/* A matmul that is ready to run; all NULL for the BLAS-like calls. */
typedef struct matmul {
    dnnl_primitive_t primitive;
    dnnl_memory_t source;
    dnnl_memory_t weights;        /* as given */
    dnnl_memory_t packed_weights; /* in the layout of oneDNN's choice; NULL when not prepacked */
    dnnl_memory_t target;
} matmul;

/* A BLAS-like call on one matrix of the batch. */
typedef dnnl_status_t (*plain_call)(const host_gemm *gemm, int64_t batch);

typedef struct onednn_state {
    host_gemm gemm;
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    plain_call call; /* NULL for matmul */
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
    case TDM_S8:
        return dnnl_s8;
    case TDM_U8:
        return dnnl_u8;
    case TDM_S32:
        return dnnl_s32;
    default:
        return dnnl_data_type_undef;
    }
}

/* A matrix, or a batch of them. */
static dnnl_status_t plain_layout(dnnl_memory_desc_t *layout, const gemm_case *item,
                                  op_gemm_operand operand, int transposed) {
    const int64_t rows = operand == OP_GEMM_B ? item->k : item->m;
    const int64_t columns = operand == OP_GEMM_A ? item->k : item->n;
    const dnnl_dims_t matrix = {rows, columns};
    const dnnl_dims_t matrices = {gemm_case_batch(item), rows, columns};
    const dnnl_data_type_t type = data_type(gemm_types_dtype(item->types, operand));
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

/* The scale of each column of the output, over that of a requantized D. */
static dnnl_status_t set_scales(const gemm_case *item, dnnl_primitive_attr_t attributes) {
    const int columns = gemm_case_batch(item) > 1 ? 2 : 1; /* the dimension */
    float *const scales = malloc((size_t)item->n * sizeof *scales);
    if (scales == NULL)
        return dnnl_out_of_memory;
    for (int64_t column = 0; column < item->n; column++)
        scales[column] =
            gemm_case_scale(item, OP_GEMM_A, 0, 0) * gemm_case_scale(item, OP_GEMM_B, 0, column);
    for (int64_t column = 0; gemm_types_requantized(item->types) && column < item->n; column++)
        scales[column] /= gemm_case_scale(item, OP_GEMM_D, 0, 0);
    const dnnl_status_t status =
        dnnl_primitive_attr_set_output_scales(attributes, item->n, 1 << columns, scales);
    free(scales);
    return status;
}

static dnnl_status_t set_zero_point(const gemm_case *item, op_gemm_operand operand, int argument,
                                    dnnl_primitive_attr_t attributes) {
    const int32_t zero_point = gemm_case_zero_point(item, operand);
    return zero_point == 0
               ? dnnl_success
               : dnnl_primitive_attr_set_zero_points(attributes, argument, 1, 0, &zero_point);
}

/* Scales and zero points of quantized types; nothing for others. */
static dnnl_status_t create_attributes(const gemm_case *item, dnnl_primitive_attr_t *attributes) {
    dnnl_status_t status = dnnl_primitive_attr_create(attributes);
    if (status == dnnl_success && gemm_types_quantized(item->types, OP_GEMM_B))
        status = set_scales(item, *attributes);
    if (status == dnnl_success)
        status = set_zero_point(item, OP_GEMM_A, DNNL_ARG_SRC, *attributes);
    if (status == dnnl_success)
        status = set_zero_point(item, OP_GEMM_D, DNNL_ARG_DST, *attributes);
    return status;
}

static dnnl_status_t create_primitive(onednn_state *state, const dnnl_memory_desc_t *source,
                                      const dnnl_memory_desc_t *weights,
                                      const dnnl_memory_desc_t *target,
                                      dnnl_primitive_desc_t *description) {
    dnnl_matmul_desc_t operation;
    dnnl_primitive_attr_t attributes = NULL;
    dnnl_status_t status = create_attributes(&state->gemm.item, &attributes);
    if (status == dnnl_success)
        status = dnnl_matmul_desc_init(&operation, source, weights, NULL, target);
    if (status == dnnl_success)
        status =
            dnnl_primitive_desc_create(description, &operation, attributes, state->engine, NULL);
    if (status == dnnl_success)
        status = dnnl_primitive_create(&state->matmul.primitive, *description);
    dnnl_primitive_attr_destroy(attributes);
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
    dnnl_status_t status = plain_layout(&source, item, OP_GEMM_A, item->transpose_a);
    if (status == dnnl_success)
        status = plain_layout(&weights, item, OP_GEMM_B, item->transpose_b);
    if (status == dnnl_success)
        status = plain_layout(&target, item, OP_GEMM_D, 0);
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

/* The leading dimensions. */
static dnnl_dim_t lead_of_a(const gemm_case *item) {
    return item->transpose_a ? item->m : item->k;
}

static dnnl_dim_t lead_of_b(const gemm_case *item) {
    return item->transpose_b ? item->k : item->n;
}

static dnnl_status_t multiply_f32(const host_gemm *gemm, int64_t batch) {
    const gemm_case *const item = &gemm->item;
    return dnnl_sgemm(item->transpose_a ? 'T' : 'N', item->transpose_b ? 'T' : 'N', item->m,
                      item->n, item->k, 1.0f, host_gemm_matrix(gemm, OP_GEMM_A, batch),
                      lead_of_a(item), host_gemm_matrix(gemm, OP_GEMM_B, batch), lead_of_b(item),
                      0.0f, host_gemm_matrix(gemm, OP_GEMM_D, batch), item->n);
}

static const int32_t no_offset = 0;

static dnnl_status_t multiply_u8s8(const host_gemm *gemm, int64_t batch) {
    const gemm_case *const item = &gemm->item;
    return dnnl_gemm_u8s8s32(item->transpose_a ? 'T' : 'N', item->transpose_b ? 'T' : 'N', 'F',
                             item->m, item->n, item->k, 1.0f,
                             host_gemm_matrix(gemm, OP_GEMM_A, batch), lead_of_a(item), 0,
                             host_gemm_matrix(gemm, OP_GEMM_B, batch), lead_of_b(item), 0, 0.0f,
                             host_gemm_matrix(gemm, OP_GEMM_D, batch), item->n, &no_offset);
}

static dnnl_status_t multiply_s8(const host_gemm *gemm, int64_t batch) {
    const gemm_case *const item = &gemm->item;
    return dnnl_gemm_s8s8s32(item->transpose_a ? 'T' : 'N', item->transpose_b ? 'T' : 'N', 'F',
                             item->m, item->n, item->k, 1.0f,
                             host_gemm_matrix(gemm, OP_GEMM_A, batch), lead_of_a(item), 0,
                             host_gemm_matrix(gemm, OP_GEMM_B, batch), lead_of_b(item), 0, 0.0f,
                             host_gemm_matrix(gemm, OP_GEMM_D, batch), item->n, &no_offset);
}

static const struct {
    gemm_types types;
    const char *name;
    plain_call call;
} plain_calls[] = {
    {GEMM_F32, "sgemm", multiply_f32},
    {GEMM_U8S8, "gemm_u8s8s32", multiply_u8s8},
    {GEMM_S8, "gemm_s8s8s32", multiply_s8},
};

/* The BLAS-like call for the case, where there is one: they pack in every call. */
static const char *choose_call(onednn_state *state) {
    const gemm_case *const item = &state->gemm.item;
    state->call = NULL;
    for (size_t i = 0; !item->prepacked && i < sizeof plain_calls / sizeof plain_calls[0]; i++) {
        if (plain_calls[i].types != item->types)
            continue;
        state->call = plain_calls[i].call;
        return plain_calls[i].name;
    }
    return "matmul";
}

/* Quantized weights beside floats, and f32 that may be split. */
static int is_missing(gemm_types types) {
    return gemm_types_op(types) == TDM_OP_GEMM_WEIGHTS || gemm_types_allow_3xtf32(types);
}

static worker_answer describe(void *state, const char *request, worker_text *reply) {
    onednn_state *const own = state;
    char variant[32];
    const worker_answer answer = host_gemm_describe(&own->gemm, request, reply);
    if (answer != WORKER_OK)
        return answer;
    const gemm_case *const item = &own->gemm.item;
    if (is_missing(item->types)) {
        worker_text_set(reply, "oneDNN has no product in %s", gemm_types_name(item->types));
        return WORKER_SKIP;
    }
    const char *const name = choose_call(own);
    if (own->call == NULL && gemm_case_copies(item) > 1) {
        worker_text_set(reply, "oneDNN's matmul is measured with one B");
        return WORKER_SKIP;
    }
    const dnnl_status_t status = own->call == NULL ? prepare_matmul(own) : dnnl_success;
    if (status != dnnl_success) {
        worker_text_set(reply, "oneDNN matmul in %s: %s", gemm_types_name(item->types),
                        status_text(status));
        return status == dnnl_unimplemented ? WORKER_SKIP : WORKER_FAIL;
    }
    snprintf(variant, sizeof variant, "%s%s", name,
             own->call != NULL && gemm_case_batch(item) > 1 ? " loop" : "");
    worker_field_add(reply, "variant", variant);
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

static dnnl_status_t run_calls(onednn_state *state) {
    dnnl_status_t status = dnnl_success;
    for (int64_t i = 0; status == dnnl_success && i < gemm_case_batch(&state->gemm.item); i++)
        status = state->call(&state->gemm, i);
    host_gemm_turn(&state->gemm);
    return status;
}

static worker_answer enqueue(void *state, worker_text *reply) {
    onednn_state *const own = state;
    const dnnl_status_t status = own->call != NULL ? run_calls(own) : run_matmul(own);
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
