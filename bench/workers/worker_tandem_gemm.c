/*
 * Tandem's own worker for the gemm suite, and for in-core GEMMs of other suites. It creates a plan
 * and its operands on the device. A call runs the plan, or calls tdm_gemm for GEMM_BY_CALL.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/base/base.h"
#include "bench/cases/gemm_case.h"
#include "bench/workers/worker_tandem.h"
#include "quant/number_formats.h"

typedef struct gemm_state {
    worker_device device; /* first, for worker_tandem.h */
    gemm_case item;
    tdm_tensor *tensors[OP_GEMM_OPERANDS]; /* NULL: no such operand */
    tdm_tensor *b[GEMM_CASE_MAX_COPIES];   /* the copies of B; the first is also in `tensors` */
    tdm_packed *packed[GEMM_CASE_MAX_COPIES];
    tdm_gemm_plan *plan;
    int turn; /* the copy for the next call */
    tdm_buffer *workspace;
} gemm_state;

static int read_case(void *state, const char *request) {
    return gemm_case_read(request, &((gemm_state *)state)->item);
}

static void release(void *state) {
    gemm_state *const own = state;
    tdm_buffer_destroy(own->workspace);
    for (int i = 0; i < GEMM_CASE_MAX_COPIES; i++) {
        tdm_packed_destroy(own->packed[i]);
        tdm_tensor_destroy(own->b[i]);
    }
    tdm_gemm_plan_destroy(own->plan);
    for (int i = 0; i < OP_GEMM_OPERANDS; i++)
        if (i != OP_GEMM_B)
            tdm_tensor_destroy(own->tensors[i]);
}

/*
 * Replaces a stored tensor by a quantized one with the case's parameters: one scale, or for B one
 * per column and group.
 */
static tdm_status add_parameters(const gemm_state *own, op_gemm_operand operand, int rank,
                                 tdm_tensor **tensor) {
    const gemm_case *const item = &own->item;
    const int is_b = operand == OP_GEMM_B;
    const int columns_at = rank - 1 - (item->transpose_b != 0);
    const int groups_at = rank - 2 + (item->transpose_b != 0);
    const int64_t columns = is_b ? item->n : 1, groups = is_b ? gemm_case_groups(item) : 1;
    const tdm_dtype dtype = is_b ? gemm_types_scale(item->types) : TDM_F32;
    const size_t bytes = (size_t)(groups * columns) * (size_t)tdm_dtype_info(dtype)->unit_bytes;
    const int32_t zero = gemm_case_zero_point(item, operand);
    int64_t shape[TDM_MAX_RANK], ones[TDM_MAX_RANK];
    tdm_quantization parameters = TDM_QUANTIZATION_INIT;
    tdm_tensor *scale = NULL, *zero_point = NULL;
    void *const values = malloc(bytes);
    if (values == NULL)
        return TDM_OUT_OF_HOST_MEMORY;
    for (int i = 0; i < rank; i++) {
        ones[i] = 1;
        shape[i] = i == columns_at ? columns : i == groups_at ? groups : 1;
    }
    for (int64_t i = 0; i < groups * columns; i++) {
        const int64_t column = columns_at > groups_at ? i % columns : i / groups;
        const int64_t group = columns_at > groups_at ? i / columns : i % groups;
        tdm_number_set(dtype, values, (size_t)i,
                       (double)gemm_case_scale(item, operand, group, column));
    }
    if (is_b) {
        parameters.block[columns_at] = 1;
        parameters.block[groups_at] = gemm_types_group(item->types);
    }
    tdm_status status =
        worker_tensor_create(&own->device, dtype, rank, shape, values, bytes, &scale);
    free(values);
    if (status == TDM_OK && zero != 0)
        status = worker_tensor_create(&own->device, TDM_S32, rank, ones, &zero, sizeof zero,
                                      &zero_point);
    if (status == TDM_OK)
        return worker_tensor_quantize(&parameters, scale, zero_point, tensor);
    tdm_tensor_destroy(scale);
    tdm_tensor_destroy(zero_point);
    return status;
}

/*
 * Creates `count` tensors of an operand with the same content. The content is generated once,
 * because that takes longer than any call.
 */
static tdm_status create_operand(gemm_state *own, op_gemm_operand operand, int count,
                                 tdm_tensor **tensors) {
    const op_gemm_case operation = gemm_case_operation(&own->item);
    int64_t shape[TDM_MAX_RANK];
    if (operation.dtype[operand] == TDM_DTYPE_NONE)
        return TDM_OK;
    const int rank = op_gemm_shape(&operation, operand, shape);
    void *const data = gemm_case_create(&own->item, operand);
    tdm_status status = data == NULL ? TDM_OUT_OF_HOST_MEMORY : TDM_OK;
    for (int i = 0; status == TDM_OK && i < count; i++) {
        status = worker_tensor_create(&own->device, operation.dtype[operand], rank, shape, data,
                                      gemm_case_bytes(&own->item, operand), &tensors[i]);
        if (status == TDM_OK && gemm_types_quantized(own->item.types, operand))
            status = add_parameters(own, operand, rank, &tensors[i]);
    }
    free(data);
    return status;
}

static tdm_status create_operands(gemm_state *own) {
    for (int i = 0; i < OP_GEMM_OPERANDS; i++) {
        if (i == OP_GEMM_B)
            TDM_TRY(create_operand(own, OP_GEMM_B, gemm_case_copies(&own->item), own->b));
        else
            TDM_TRY(create_operand(own, (op_gemm_operand)i, 1, &own->tensors[i]));
    }
    own->tensors[OP_GEMM_B] = own->b[0];
    return TDM_OK;
}

static tdm_status create_plan(gemm_state *own, const char *variant) {
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    tdm_layout *const layouts[OP_GEMM_OPERANDS] = {[OP_GEMM_A] = &desc.a,
                                                   [OP_GEMM_B] = &desc.b,
                                                   [OP_GEMM_D] = &desc.d,
                                                   [OP_GEMM_BIAS] = &desc.bias,
                                                   [OP_GEMM_RESIDUAL] = &desc.residual};
    desc.transpose_a = own->item.transpose_a;
    desc.transpose_b = own->item.transpose_b;
    desc.packed_b = own->item.prepacked;
    desc.quantize_a = gemm_types_dynamic(own->item.types);
    desc.allow_3xtf32 = gemm_types_allow_3xtf32(own->item.types);
    desc.activation = own->item.epilogue.activation;
    desc.variant = variant[0] == '\0' ? NULL : variant;
    for (int i = 0; i < OP_GEMM_OPERANDS; i++)
        if (layouts[i] != NULL && own->tensors[i] != NULL)
            TDM_TRY(tdm_tensor_layout(own->tensors[i], layouts[i]));
    TDM_TRY(tdm_tensor_quant_layout(own->tensors[OP_GEMM_A], &desc.a_quant));
    TDM_TRY(tdm_tensor_quant_layout(own->tensors[OP_GEMM_B], &desc.b_quant));
    TDM_TRY(tdm_tensor_quant_layout(own->tensors[OP_GEMM_D], &desc.d_quant));
    return tdm_gemm_plan_create(own->device.device, &desc, &own->plan);
}

static tdm_status prepare(void *state, const char *request, worker_text *reply) {
    gemm_state *const own = state;
    char variant[192], taken[sizeof variant + 64];
    size_t bytes = 0;
    worker_field(request, "variant", variant, sizeof variant);
    TDM_TRY(create_operands(own));
    TDM_TRY(create_plan(own, variant));
    TDM_TRY(tdm_gemm_plan_workspace_size(own->plan, &bytes));
    if (bytes > 0)
        TDM_TRY(tdm_buffer_create(own->device.device, bytes, &own->workspace));
    for (int i = 0; own->item.prepacked && own->b[i] != NULL; i++)
        TDM_TRY(tdm_gemm_pack_b(own->plan, own->device.stream, own->b[i], &own->packed[i]));
    /* The variant that the plan chose, and the parameters that were forced. */
    snprintf(taken, sizeof taken, "%s%s", tdm_gemm_plan_variant(own->plan),
             variant + strcspn(variant, ":"));
    worker_field_add(reply, "variant", taken);
    return tdm_stream_synchronize(own->device.stream);
}

static tdm_status run_plan(gemm_state *own) {
    tdm_gemm_args arguments = TDM_GEMM_ARGS_INIT;
    arguments.a = own->tensors[OP_GEMM_A];
    arguments.b = own->item.prepacked ? NULL : own->b[own->turn];
    arguments.packed_b = own->packed[own->turn];
    arguments.d = own->tensors[OP_GEMM_D];
    arguments.bias = own->tensors[OP_GEMM_BIAS];
    arguments.residual = own->tensors[OP_GEMM_RESIDUAL];
    arguments.workspace = own->workspace;
    own->turn++;
    if (own->turn == GEMM_CASE_MAX_COPIES || own->b[own->turn] == NULL)
        own->turn = 0;
    return tdm_gemm_plan_run(own->plan, own->device.stream, &arguments);
}

static tdm_status enqueue(void *state) {
    gemm_state *const own = state;
    if (own->item.way == GEMM_BY_PLAN)
        return run_plan(own);
    return tdm_gemm(own->device.stream, 1, own->tensors[OP_GEMM_A], own->tensors[OP_GEMM_B], 0,
                    NULL, own->tensors[OP_GEMM_D], NULL);
}

static size_t output_bytes(const void *state) {
    return gemm_case_bytes(&((const gemm_state *)state)->item, OP_GEMM_D);
}

static tdm_status output(void *state, void *bytes) {
    const gemm_state *const own = state;
    return tdm_tensor_read(own->device.stream, own->tensors[OP_GEMM_D], bytes, output_bytes(state),
                           NULL);
}

const tandem_worker worker_gemm = {"tandem", sizeof(gemm_state), read_case, prepare, enqueue,
                                   NULL,     output_bytes,       output,    release, NULL};
