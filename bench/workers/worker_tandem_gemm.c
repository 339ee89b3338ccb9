/*
 * Tandem's own worker for the gemm suite: a plan, its operands on the device, the plan's run timed.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench/cases/gemm_case.h"
#include "bench/workers/worker_tandem.h"
#include "quant/number_formats.h"

typedef struct gemm_state {
    worker_device device; /* first, for worker_tandem.h */
    gemm_case item;
    tdm_tensor *a;
    tdm_tensor *b[GEMM_CASE_MAX_COPIES];
    tdm_tensor *d;
    tdm_tensor *bias; /* NULL: none, as the next one */
    tdm_tensor *residual;
    tdm_gemm_plan *plan;
    tdm_packed *packed[GEMM_CASE_MAX_COPIES];
    int copies;
    int turn; /* the copy that the next call takes */
    tdm_buffer *workspace;
} gemm_state;

static void release(void *state) {
    gemm_state *const own = state;
    tdm_buffer_destroy(own->workspace);
    for (int i = 0; i < own->copies; i++) {
        tdm_packed_destroy(own->packed[i]);
        tdm_tensor_destroy(own->b[i]);
    }
    tdm_gemm_plan_destroy(own->plan);
    tdm_tensor_destroy(own->a);
    tdm_tensor_destroy(own->d);
    tdm_tensor_destroy(own->bias);
    tdm_tensor_destroy(own->residual);
    *own = (gemm_state){.device = own->device};
}

/* A tensor on the device with this content, dense. */
static tdm_status create_filled(const gemm_state *own, tdm_dtype dtype, int rank,
                                const int64_t *shape, const void *data, size_t bytes,
                                tdm_tensor **tensor) {
    tdm_status status = tdm_tensor_create(own->device.device, dtype, rank, shape, tensor);
    if (status == TDM_OK)
        status = tdm_tensor_write(own->device.stream, data, bytes, NULL, *tensor);
    return status;
}

static tdm_status create_stored(const gemm_state *own, op_gemm_operand operand,
                                tdm_tensor **tensor) {
    const op_gemm_case operation = gemm_case_operation(&own->item);
    int64_t shape[TDM_MAX_RANK];
    const int rank = op_gemm_shape(&operation, operand, shape);
    void *const data = gemm_case_create(&own->item, operand);
    if (data == NULL)
        return TDM_OUT_OF_HOST_MEMORY;
    const tdm_status status = create_filled(own, operation.dtype[operand], rank, shape, data,
                                            gemm_case_bytes(&own->item, operand), tensor);
    free(data);
    return status;
}

/* Where an operand's parameters stand: the dimensions of its columns and of its steps along K. */
typedef struct parameter_places {
    int rank;
    int columns, steps;
} parameter_places;

static parameter_places places_of(const gemm_state *own, op_gemm_operand operand) {
    const op_gemm_case operation = gemm_case_operation(&own->item);
    int64_t shape[TDM_MAX_RANK];
    const int rank = op_gemm_shape(&operation, operand, shape);
    const int flipped = own->item.transpose_b != 0; /* of B: A's parameters are one alone */
    return (parameter_places){
        .rank = rank, .columns = rank - 1 - flipped, .steps = rank - 2 + flipped};
}

/* One scale of A, or B's scale for each group and column. */
static tdm_status create_scale(const gemm_state *own, op_gemm_operand operand,
                               parameter_places places, tdm_tensor **scale) {
    const gemm_case *const item = &own->item;
    const tdm_dtype dtype = operand == OP_GEMM_B ? gemm_types_scale(item->types) : TDM_F32;
    const int64_t groups = operand == OP_GEMM_B ? gemm_case_groups(item) : 1;
    const int64_t columns = operand == OP_GEMM_B ? item->n : 1;
    const size_t bytes = (size_t)(groups * columns) * (size_t)tdm_dtype_info(dtype)->unit_bytes;
    int64_t shape[TDM_MAX_RANK];
    void *const values = malloc(bytes);
    if (values == NULL)
        return TDM_OUT_OF_HOST_MEMORY;
    for (int i = 0; i < places.rank; i++)
        shape[i] = i == places.columns ? columns : i == places.steps ? groups : 1;
    for (int64_t i = 0; i < groups * columns; i++) {
        const int64_t column = places.columns > places.steps ? i % columns : i / groups;
        const int64_t group = places.columns > places.steps ? i / columns : i % groups;
        tdm_number_set(dtype, values, (size_t)i,
                       (double)gemm_case_scale(item, operand, group, column));
    }
    const tdm_status status = create_filled(own, dtype, places.rank, shape, values, bytes, scale);
    free(values);
    return status;
}

static tdm_status create_zero_point(const gemm_state *own, op_gemm_operand operand, int rank,
                                    tdm_tensor **zero_point) {
    int64_t shape[TDM_MAX_RANK];
    const int32_t value = gemm_case_zero_point(&own->item, operand);
    for (int i = 0; i < rank; i++)
        shape[i] = 1;
    return create_filled(own, TDM_S32, rank, shape, &value, sizeof value, zero_point);
}

/* In place of a stored tensor, the same with the parameters of its case. */
static tdm_status add_parameters(const gemm_state *own, op_gemm_operand operand,
                                 tdm_tensor **tensor) {
    const parameter_places places = places_of(own, operand);
    tdm_quantization parameters = TDM_QUANTIZATION_INIT;
    tdm_tensor *scale = NULL;
    tdm_tensor *zero_point = NULL;
    tdm_tensor *quantized = NULL;
    tdm_status status = create_scale(own, operand, places, &scale);
    if (status == TDM_OK && gemm_case_zero_point(&own->item, operand) != 0)
        status = create_zero_point(own, operand, places.rank, &zero_point);
    if (operand == OP_GEMM_B) {
        parameters.block[places.columns] = 1;
        parameters.block[places.steps] = gemm_types_group(own->item.types);
    }
    parameters.scale = scale;
    parameters.zero_point = zero_point;
    if (status == TDM_OK)
        status = tdm_tensor_quantized(*tensor, &parameters, &quantized);
    tdm_tensor_destroy(scale);
    tdm_tensor_destroy(zero_point);
    if (status != TDM_OK)
        return status;
    tdm_tensor_destroy(*tensor);
    *tensor = quantized;
    return TDM_OK;
}

static tdm_status create_operand(const gemm_state *own, op_gemm_operand operand,
                                 tdm_tensor **tensor) {
    const tdm_status status = create_stored(own, operand, tensor);
    return status == TDM_OK && gemm_types_quantized(own->item.types, operand)
               ? add_parameters(own, operand, tensor)
               : status;
}

/* Copies of B have one content, which is made once: drawing it takes longer than any call. */
static tdm_status create_copies(gemm_state *own) {
    const op_gemm_case operation = gemm_case_operation(&own->item);
    int64_t shape[TDM_MAX_RANK];
    const int rank = op_gemm_shape(&operation, OP_GEMM_B, shape);
    void *const data = gemm_case_create(&own->item, OP_GEMM_B);
    tdm_status status = data == NULL ? TDM_OUT_OF_HOST_MEMORY : TDM_OK;
    own->copies = gemm_case_copies(&own->item);
    for (int i = 0; status == TDM_OK && i < own->copies; i++) {
        status = create_filled(own, operation.dtype[OP_GEMM_B], rank, shape, data,
                               gemm_case_bytes(&own->item, OP_GEMM_B), &own->b[i]);
        if (status == TDM_OK && gemm_types_quantized(own->item.types, OP_GEMM_B))
            status = add_parameters(own, OP_GEMM_B, &own->b[i]);
    }
    free(data);
    return status;
}

static tdm_status create_operands(gemm_state *own) {
    tdm_status status = create_operand(own, OP_GEMM_A, &own->a);
    if (status == TDM_OK)
        status = create_copies(own);
    if (status == TDM_OK)
        status = create_operand(own, OP_GEMM_D, &own->d);
    if (status == TDM_OK && own->item.epilogue.bias)
        status = create_stored(own, OP_GEMM_BIAS, &own->bias);
    if (status == TDM_OK && own->item.epilogue.residual)
        status = create_stored(own, OP_GEMM_RESIDUAL, &own->residual);
    return status;
}

static tdm_status describe_epilogue(const gemm_state *own, tdm_gemm_desc *desc) {
    desc->activation = own->item.epilogue.activation;
    tdm_status status = TDM_OK;
    if (own->bias != NULL)
        status = tdm_tensor_layout(own->bias, &desc->bias);
    if (status == TDM_OK && own->residual != NULL)
        status = tdm_tensor_layout(own->residual, &desc->residual);
    return status;
}

static tdm_status create_plan(gemm_state *own, const char *variant) {
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    desc.transpose_a = own->item.transpose_a;
    desc.transpose_b = own->item.transpose_b;
    desc.packed_b = own->item.prepacked;
    desc.quantize_a = gemm_types_dynamic(own->item.types);
    desc.allow_3xtf32 = gemm_types_allow_3xtf32(own->item.types);
    desc.variant = variant[0] == '\0' ? NULL : variant;
    tdm_status status = tdm_tensor_layout(own->a, &desc.a);
    if (status == TDM_OK)
        status = tdm_tensor_layout(own->b[0], &desc.b);
    if (status == TDM_OK)
        status = tdm_tensor_layout(own->d, &desc.d);
    if (status == TDM_OK)
        status = tdm_tensor_quant_layout(own->a, &desc.a_quant);
    if (status == TDM_OK)
        status = tdm_tensor_quant_layout(own->b[0], &desc.b_quant);
    if (status == TDM_OK)
        status = tdm_tensor_quant_layout(own->d, &desc.d_quant);
    if (status == TDM_OK)
        status = describe_epilogue(own, &desc);
    if (status == TDM_OK)
        status = tdm_gemm_plan_create(own->device.device, &desc, &own->plan);
    return status;
}

static tdm_status prepare_run(gemm_state *own) {
    size_t bytes = 0;
    tdm_status status = tdm_gemm_plan_workspace_size(own->plan, &bytes);
    if (status == TDM_OK && bytes > 0)
        status = tdm_buffer_create(own->device.device, bytes, &own->workspace);
    for (int i = 0; status == TDM_OK && own->item.prepacked && i < own->copies; i++)
        status = tdm_gemm_pack_b(own->plan, own->device.stream, own->b[i], &own->packed[i]);
    if (status == TDM_OK)
        status = tdm_stream_synchronize(own->device.stream);
    return status;
}

static worker_answer describe(void *state, const char *request, worker_text *reply) {
    gemm_state *const own = state;
    char variant[192];
    if (gemm_case_read(request, &own->item) != 0) {
        worker_text_set(reply, "the case cannot be read");
        return WORKER_FAIL;
    }
    const worker_answer answer = worker_device_open(&own->device, request, reply);
    if (answer != WORKER_OK)
        return answer;
    worker_field(request, "variant", variant, sizeof variant);
    tdm_status status = create_operands(own);
    if (status != TDM_OK)
        return worker_library_answer("operands", status, reply);
    status = create_plan(own, variant);
    if (status != TDM_OK)
        return worker_library_answer("plan", status, reply);
    status = prepare_run(own);
    if (status != TDM_OK)
        return worker_library_answer("packing", status, reply);
    /* What the plan took, and the parameters that it was forced to. */
    char taken[sizeof variant + 64];
    snprintf(taken, sizeof taken, "%s%s", tdm_gemm_plan_variant(own->plan),
             variant + strcspn(variant, ":"));
    worker_field_add(reply, "variant", taken);
    return WORKER_OK;
}

static worker_answer enqueue(void *state, worker_text *reply) {
    gemm_state *const own = state;
    tdm_gemm_args arguments = TDM_GEMM_ARGS_INIT;
    arguments.a = own->a;
    arguments.b = own->item.prepacked ? NULL : own->b[own->turn];
    arguments.packed_b = own->packed[own->turn];
    arguments.d = own->d;
    arguments.bias = own->bias;
    arguments.residual = own->residual;
    arguments.workspace = own->workspace;
    own->turn = (own->turn + 1) % own->copies;
    const tdm_status status = tdm_gemm_plan_run(own->plan, own->device.stream, &arguments);
    return worker_library_answer("run", status, reply);
}

static size_t output_bytes(void *state) {
    const gemm_state *const own = state;
    return own->d == NULL ? 0 : gemm_case_bytes(&own->item, OP_GEMM_D);
}

static worker_answer output(void *state, void *bytes, worker_text *reply) {
    const gemm_state *const own = state;
    const tdm_status status =
        tdm_tensor_read(own->device.stream, own->d, bytes, output_bytes(state), NULL);
    return worker_library_answer("read", status, reply);
}

int worker_tandem_gemm(void) {
    static const worker_implementation tandem = WORKER_TANDEM_IMPLEMENTATION;
    gemm_state state = {.a = NULL};
    return worker_device_serve(&tandem, &state);
}
