/*
 * The worker of oneDNN on the CPU. f32 without prepacking uses dnnl_sgemm, its BLAS-like call, in a
 * loop over the batch. Integers whose sums are the output use dnnl_gemm_u8s8s32 or
 * dnnl_gemm_s8s8s32. Other types, and prepacked weights, use the matmul primitive, which chooses
 * the packed layout itself.
 */
#include <oneapi/dnnl/dnnl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/peers/host_gemm.h"

/* A matmul that is ready to run. All members are NULL for the BLAS-like calls. */
typedef struct matmul {
    dnnl_primitive_t primitive;
    dnnl_memory_t source;
    dnnl_memory_t weights;        /* in the case's layout */
    dnnl_memory_t packed_weights; /* in a layout that oneDNN chose; NULL if not prepacked */
    dnnl_memory_t target;
} matmul;

typedef struct onednn_state {
    host_gemm gemm; /* first member */
    dnnl_engine_t engine;
    dnnl_stream_t stream;
    const char *call; /* the BLAS-like one; NULL for matmul */
    matmul matmul;
} onednn_state;

static const char *status_text(dnnl_status_t status) {
    return status == dnnl_out_of_memory       ? "out of memory"
           : status == dnnl_invalid_arguments ? "invalid arguments"
           : status == dnnl_unimplemented     ? "not implemented for this case on this processor"
           : status == dnnl_runtime_error     ? "runtime error"
                                              : "not successful";
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
    static const struct {
        tdm_dtype dtype;
        dnnl_data_type_t type;
    } rows[] = {{TDM_F32, dnnl_f32}, {TDM_F16, dnnl_f16}, {TDM_BF16, dnnl_bf16},
                {TDM_S8, dnnl_s8},   {TDM_U8, dnnl_u8},   {TDM_S32, dnnl_s32}};
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        if (rows[i].dtype == dtype)
            return rows[i].type;
    return dnnl_data_type_undef;
}

/* Returns a failure to the caller, which always releases the objects that were created. */
#define TRY(expression)                                                                            \
    do {                                                                                           \
        const dnnl_status_t try_status = (expression);                                             \
        if (try_status != dnnl_success)                                                            \
            return try_status;                                                                     \
    } while (0)

/* Describes a matrix or a batch of matrices. */
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

/*
 * Sets the scale of each output column: the product of the scales of A and B. It is divided by the
 * scale of D if D is requantized.
 */
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

/* Creates the scales and zero points of quantized types; other types get none. */
static dnnl_status_t create_attributes(const gemm_case *item, dnnl_primitive_attr_t *attributes) {
    dnnl_status_t status = dnnl_primitive_attr_create(attributes);
    if (status == dnnl_success && gemm_types_quantized(item->types, OP_GEMM_B))
        status = set_scales(item, *attributes);
    for (int i = 0; i < 2 && status == dnnl_success; i++) {
        const int32_t zero_point = gemm_case_zero_point(item, i == 0 ? OP_GEMM_A : OP_GEMM_D);
        if (zero_point != 0)
            status = dnnl_primitive_attr_set_zero_points(
                *attributes, i == 0 ? DNNL_ARG_SRC : DNNL_ARG_DST, 1, 0, &zero_point);
    }
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

/* Reorders B into the layout that the primitive requires. */
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

static dnnl_status_t make_matmul(onednn_state *state, dnnl_primitive_desc_t *description) {
    const host_gemm *const gemm = &state->gemm;
    const gemm_case *const item = &gemm->item;
    dnnl_memory_desc_t source, weights, chosen, target;
    matmul *const made = &state->matmul;
    TRY(plain_layout(&source, item, OP_GEMM_A, item->transpose_a));
    TRY(plain_layout(&weights, item, OP_GEMM_B, item->transpose_b));
    TRY(plain_layout(&target, item, OP_GEMM_D, 0));
    TRY(dnnl_memory_desc_init_by_tag(&chosen, weights.ndims, weights.dims, weights.data_type,
                                     dnnl_format_tag_any));
    TRY(create_primitive(state, &source, item->prepacked ? &chosen : &weights, &target,
                         description));
    TRY(dnnl_memory_create(&made->source, &source, state->engine, gemm->a));
    TRY(dnnl_memory_create(&made->weights, &weights, state->engine, gemm->b));
    TRY(dnnl_memory_create(&made->target, &target, state->engine, gemm->d));
    return item->prepacked ? pack_weights(state, *description) : dnnl_success;
}

static dnnl_status_t prepare_matmul(onednn_state *state) {
    dnnl_primitive_desc_t description = NULL;
    const dnnl_status_t status = make_matmul(state, &description);
    dnnl_primitive_desc_destroy(description);
    return status;
}

/* Runs the BLAS-like call on one matrix of the batch. */
static dnnl_status_t multiply(const host_gemm *gemm, int64_t batch) {
    static const int32_t none = 0;
    const gemm_case *const item = &gemm->item;
    const char a_way = item->transpose_a ? 'T' : 'N', b_way = item->transpose_b ? 'T' : 'N';
    const int64_t m = item->m, n = item->n, k = item->k;
    const int64_t a_pitch = item->transpose_a ? m : k, b_pitch = item->transpose_b ? k : n;
    const void *const a = host_gemm_matrix(gemm, OP_GEMM_A, batch);
    const void *const b = host_gemm_matrix(gemm, OP_GEMM_B, batch);
    void *const d = host_gemm_matrix(gemm, OP_GEMM_D, batch);
    if (item->types == GEMM_F32)
        return dnnl_sgemm(a_way, b_way, m, n, k, 1.0f, a, a_pitch, b, b_pitch, 0.0f, d, n);
    if (item->types == GEMM_U8S8)
        return dnnl_gemm_u8s8s32(a_way, b_way, 'F', m, n, k, 1.0f, a, a_pitch, 0, b, b_pitch, 0,
                                 0.0f, d, n, &none);
    return dnnl_gemm_s8s8s32(a_way, b_way, 'F', m, n, k, 1.0f, a, a_pitch, 0, b, b_pitch, 0, 0.0f,
                             d, n, &none);
}

/*
 * Returns the name of the BLAS-like call for the case, or NULL if there is none. These functions
 * pack the operands in every call.
 */
static const char *choose_call(const gemm_case *item) {
    return item->prepacked            ? NULL
           : item->types == GEMM_F32  ? "sgemm"
           : item->types == GEMM_U8S8 ? "gemm_u8s8s32"
           : item->types == GEMM_S8   ? "gemm_s8s8s32"
                                      : NULL;
}

static worker_answer describe(void *state, const char *request, worker_text *reply) {
    onednn_state *const own = state;
    char variant[32];
    const worker_answer answer = host_gemm_describe(&own->gemm, request, reply);
    if (answer != WORKER_OK)
        return answer;
    const gemm_case *const item = &own->gemm.item;
    /* oneDNN has no GEMM of quantized weights with a float A, and none in 3xTF32. */
    if (gemm_types_op(item->types) == TDM_OP_GEMM_WEIGHTS || gemm_types_allow_3xtf32(item->types))
        return PEER_ANSWER(reply, WORKER_SKIP, "oneDNN has no GEMM in %s",
                           gemm_types_name(item->types));
    own->call = choose_call(item);
    if (own->call == NULL && gemm_case_copies(item) > 1)
        return PEER_ANSWER(reply, WORKER_SKIP,
                           "oneDNN's matmul is measured only with one B, without --rotate");
    const dnnl_status_t status = own->call == NULL ? prepare_matmul(own) : dnnl_success;
    if (status != dnnl_success)
        return PEER_ANSWER(reply, status == dnnl_unimplemented ? WORKER_SKIP : WORKER_FAIL,
                           "oneDNN matmul in %s: %s", gemm_types_name(item->types),
                           status_text(status));
    snprintf(variant, sizeof variant, "%s%s", own->call != NULL ? own->call : "matmul",
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

static worker_answer enqueue(void *state, worker_text *reply) {
    onednn_state *const own = state;
    dnnl_status_t status = own->call == NULL ? run_matmul(own) : dnnl_success;
    for (int64_t i = 0;
         own->call != NULL && status == dnnl_success && i < gemm_case_batch(&own->gemm.item); i++)
        status = multiply(&own->gemm, i);
    host_gemm_turn(&own->gemm);
    return status == dnnl_success
               ? WORKER_OK
               : PEER_ANSWER(reply, WORKER_FAIL, "oneDNN: %s", status_text(status));
}

static worker_answer wait_for_stream(void *state, worker_text *reply) {
    return dnnl_stream_wait(((const onednn_state *)state)->stream) == dnnl_success
               ? WORKER_OK
               : PEER_ANSWER(reply, WORKER_FAIL, "oneDNN: waiting failed");
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
        .output_bytes = host_gemm_output_bytes,
        .output = host_gemm_output,
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
