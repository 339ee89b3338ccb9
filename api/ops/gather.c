/* These functions read or write the elements of a tensor that indices select along an axis. */
#include <stdio.h>

#include "api/quantize/quantize_loop.h"
#include "kernels/gather/gather_args.h"

/* These are the parameters of the gather variants. */
enum {
    P_STORAGE = 0,
    P_WIDTH
};
/* These are the operands of the loop; the kernel's order has the output last. The last three exist
 * for quantized tables. */
enum {
    OF_Y = 0,
    OF_X, /* what is read: the table of gather */
    OF_INDICES,
    OPERANDS_OF_BITS,
    OF_SCALE = OPERANDS_OF_BITS,
    OF_ZERO,
    OF_BLOCK, /* not strides: the number of elements of a dimension that share a parameter */
    OPERANDS_OF_QUANTIZED
};

/* `whole` is the tensor with the axis: the table of gather, y of scatter. `part` has the dimensions
 * of the indices in its place: y of gather, x of scatter. */
typedef struct gather_call {
    tdm_stream *stream;
    const char *operation, *whole_name, *part_name;
    tdm_op op;
    const tdm_tensor *whole, *indices, *part;
    int axis;
    int of_whole, of_part; /* their operands */
    bool dequantizes;
} gather_call;

typedef struct gather_problem {
    tdm_loop loop;
    int storage;
    bool apply_preferences;
} gather_problem;

/* ---- the loop over y ------------------------------------------------------------------------- */

/* Returns how many elements of a dimension of the table share a parameter, or 1 if all do. If all
 * do, the strides of the parameters are 0. */
static int64_t block_of(const tdm_tensor *table, int d) {
    const int64_t block = table->block[d];
    return block == 0 || block >= table->layout.shape[d] ? 1 : block;
}

/* Returns the stride of a parameter along a dimension of the table. */
static int64_t parameter_stride(const tdm_tensor *parameter, int d) {
    return parameter && parameter->layout.shape[d] > 1 ? parameter->layout.strides[d] : 0;
}

/* The dimensions of the part are those of the whole tensor before the axis, those of the indices,
 * and those of the whole tensor after the axis. */
static tdm_dim_list make_list(const gather_call *call) {
    const tdm_tensor *const whole = call->whole;
    const tdm_layout *const indices = &call->indices->layout;
    tdm_dim_list list = {.operands = call->dequantizes ? OPERANDS_OF_QUANTIZED : OPERANDS_OF_BITS};
    for (int d = 0; d < call->part->layout.rank; d++) {
        const int index = d - call->axis;
        int64_t strides[TDM_LOOP_OPERANDS] = {[OF_BLOCK] = 1};
        strides[call->of_part] = call->part->layout.strides[d];
        if (index >= 0 && index < indices->rank) {
            strides[OF_INDICES] = indices->strides[index];
        } else {
            const int own = index < 0 ? d : d - indices->rank + 1;
            strides[call->of_whole] = whole->layout.strides[own];
            if (call->dequantizes) {
                strides[OF_SCALE] = parameter_stride(whole->scale, own);
                strides[OF_ZERO] = parameter_stride(whole->zero_point, own);
                strides[OF_BLOCK] = block_of(whole, own);
            }
        }
        tdm_dim_list_add(&list, call->part->layout.shape[d], strides);
    }
    tdm_dim_list_sort(&list, call->of_part);
    return list;
}

static bool has_blocks(const int64_t *blocks, int rank) {
    bool some = false;
    for (int d = 0; d < rank; d++)
        some = some || blocks[d] > 1;
    return some;
}

static void make_problem(gather_problem *problem, const gather_call *call) {
    tdm_dim_list list = make_list(call);
    // Dimensions with blocks are not merged. Without blocks the divisor is 1 everywhere.
    if (!call->dequantizes) {
        tdm_dim_list_merge(&list);
    } else if (!has_blocks(list.strides[OF_BLOCK], list.rank)) {
        list.operands = OF_BLOCK;
        tdm_dim_list_merge(&list);
        list.operands = OPERANDS_OF_QUANTIZED;
        for (int d = 0; d < list.rank; d++)
            list.strides[OF_BLOCK][d] = 1;
    }
    tdm_loop *const loop = &problem->loop;
    tdm_loop_of_list(loop, &list);
    // A single element is a row with one index.
    if (loop->inner == 1)
        loop->step[OF_INDICES] = 0;
    if (call->dequantizes &&
        (loop->inner == 1 || (loop->step[OF_SCALE] == 0 && loop->step[OF_ZERO] == 0)))
        loop->step[OF_BLOCK] = loop->inner;
}

/* ---- choice of the kernel -------------------------------------------------------------------- */

static const char *gather_supports(const void *given, const tdm_variant *variant,
                                   const tdm_device *device, char reason[TDM_REASON_TEXT]) {
    (void)device;
    (void)reason;
    const gather_problem *const problem = given;
    const tdm_loop *const loop = &problem->loop;
    const int width = variant->parameters[P_WIDTH];
    if (variant->parameters[P_STORAGE] != problem->storage)
        return "the variant is for another storage type";
    if (width == 1)
        return NULL;
    if (loop->step[OF_INDICES] != 0)
        return "neighbouring elements of the output have different indices";
    if (loop->step[OF_Y] != 1)
        return "the output rows are not contiguous";
    if (loop->step[OF_X] != 1)
        return "the rows of the input are not contiguous";
    if (loop->operands == OPERANDS_OF_QUANTIZED && loop->step[OF_BLOCK] < loop->inner &&
        loop->step[OF_BLOCK] % width != 0)
        return "the elements of a vector have different parameters";
    return problem->apply_preferences && loop->inner < width
               ? "the rows are shorter than the variant's vector"
               : NULL;
}

static tdm_status select_kernel(const gather_call *call, gather_problem *problem,
                                tdm_kernel **kernel) {
    const tdm_device *const device = call->stream->device;
    const tdm_variant *variant;
    TDM_TRY(tdm_select_preferred(device, call->op, call->operation, gather_supports, problem,
                                 &problem->apply_preferences, &variant));
    return tdm_stream_kernel(call->stream, call->operation, variant, kernel);
}

/* ---- the launch ------------------------------------------------------------------------------ */

/* At most as many bytes of the whole tensor are accessed as the other one has. */
static tdm_gather_arg gather_arg(const gather_call *call) {
    const tdm_tensor *const both[] = {call->part, call->part};
    return (tdm_gather_arg){.count = call->whole->layout.shape[call->axis],
                            .stride = call->whole->layout.strides[call->axis],
                            .indices_64 = call->indices->layout.dtype == TDM_S64,
                            .streams = tdm_exceed_caches(both, 2)};
}

static tdm_status move_bits(const gather_call *call) {
    gather_problem problem = {.storage = tdm_dtype_info(call->part->layout.dtype)->unit_bytes};
    tdm_kernel *kernel;
    make_problem(&problem, call);
    TDM_TRY(select_kernel(call, &problem, &kernel));
    const tdm_gather_arg arg = gather_arg(call);
    const bool reads_whole = call->of_whole == OF_X;
    const tdm_arg buffers[] = {tdm_arg_tensor(reads_whole ? call->whole : call->part),
                               tdm_arg_tensor(call->indices),
                               tdm_arg_tensor(reads_whole ? call->part : call->whole)};
    const tdm_arg extra = tdm_arg_blob(&arg, sizeof arg);
    return tdm_loop_enqueue(call->stream, call->operation, kernel, &problem.loop, buffers,
                            OPERANDS_OF_BITS, &extra);
}

static tdm_status gather_quantized(const gather_call *call) {
    const tdm_tensor *const table = call->whole;
    const tdm_tensor *const zero = table->zero_point ? table->zero_point : table->scale;
    gather_problem problem = {.storage = (int)table->layout.dtype};
    tdm_kernel *kernel;
    make_problem(&problem, call);
    TDM_TRY(select_kernel(call, &problem, &kernel));
    const tdm_gather_quantized_arg arg = {
        .gather = gather_arg(call),
        .block = block_of(table, call->axis),
        .scale_stride = parameter_stride(table->scale, call->axis),
        .zero_stride = parameter_stride(table->zero_point, call->axis),
        .side = tdm_quant_side_of(table),
        .target_type = (int)call->part->layout.dtype,
        .has_blocks = has_blocks(problem.loop.strides[OF_BLOCK].v, problem.loop.rank)};
    const tdm_arg buffers[] = {tdm_arg_elements(table, 0), tdm_arg_tensor(call->indices),
                               tdm_arg_tensor(table->scale), tdm_arg_tensor(zero),
                               tdm_arg_tensor(call->part)};
    const tdm_arg extra = tdm_arg_blob(&arg, sizeof arg);
    return tdm_loop_enqueue(call->stream, call->operation, kernel, &problem.loop, buffers,
                            sizeof buffers / sizeof buffers[0], &extra);
}

/* ---- the call -------------------------------------------------------------------------------- */

static tdm_status check_shape(const gather_call *call) {
    const tdm_layout *const whole = &call->whole->layout, *const indices = &call->indices->layout;
    if (call->axis < 0 || call->axis >= whole->rank)
        return tdm_fail(TDM_BAD_ARGUMENT, "%s: axis %d is outside the rank of %s, %d",
                        call->operation, call->axis, call->whole_name, whole->rank);
    tdm_layout expected = {.rank = whole->rank - 1 + indices->rank};
    if (expected.rank > TDM_MAX_RANK)
        return tdm_fail(TDM_BAD_SHAPE, "%s: %s would have %d dimensions, at most %d",
                        call->operation, call->part_name, expected.rank, TDM_MAX_RANK);
    int rank = 0;
    for (int d = 0; d < call->axis; d++)
        expected.shape[rank++] = whole->shape[d];
    for (int d = 0; d < indices->rank; d++)
        expected.shape[rank++] = indices->shape[d];
    for (int d = call->axis + 1; d < whole->rank; d++)
        expected.shape[rank++] = whole->shape[d];
    if (tdm_layout_same_shape(&expected, &call->part->layout))
        return TDM_OK;
    char actual_text[TDM_SHAPE_TEXT], expected_text[TDM_SHAPE_TEXT];
    return tdm_fail(TDM_BAD_SHAPE, "%s: %s has shape %s, this %s and these indices need %s",
                    call->operation, call->part_name,
                    tdm_layout_text(&call->part->layout, actual_text), call->whole_name,
                    tdm_layout_text(&expected, expected_text));
}

static tdm_status check_dtypes(const gather_call *call) {
    const tdm_dtype whole = call->whole->layout.dtype, part = call->part->layout.dtype;
    const tdm_dtype indices = call->indices->layout.dtype;
    if (indices != TDM_S32 && indices != TDM_S64)
        return tdm_fail(TDM_UNSUPPORTED, "%s: indices are %s; s32 and s64 are supported",
                        call->operation, tdm_dtype_name(indices));
    if (call->dequantizes && whole == TDM_S32)
        return tdm_fail(TDM_UNSUPPORTED,
                        "gather: no kernel for a quantized table of s32, only for s8, u8 and s4");
    if (call->dequantizes)
        return TDM_OK;
    if (whole != part)
        return tdm_fail(TDM_BAD_DTYPE, "%s: %s is %s but %s is %s", call->operation,
                        call->whole_name, tdm_dtype_name(whole), call->part_name,
                        tdm_dtype_name(part));
    if (tdm_dtype_info(part)->elements_per_unit > 1)
        return tdm_fail(TDM_UNSUPPORTED, "%s: no kernel writes %s, whose elements share bytes",
                        call->operation, tdm_dtype_name(part));
    return TDM_OK;
}

static tdm_status check_parameters(const tdm_tensor *table, const tdm_tensor *y) {
    TDM_TRY(tdm_check_overlap("gather", "y", y, "the scales", table->scale, false));
    return table->zero_point
               ? tdm_check_overlap("gather", "y", y, "the zero points", table->zero_point, false)
               : TDM_OK;
}

tdm_status tdm_gather(tdm_stream *stream, const tdm_tensor *table, int axis,
                      const tdm_tensor *indices, tdm_tensor *y) {
    gather_call call = {.stream = stream,
                        .operation = "gather",
                        .whole_name = "table",
                        .part_name = "y",
                        .op = TDM_OP_GATHER,
                        .whole = table,
                        .indices = indices,
                        .part = y,
                        .axis = axis,
                        .of_whole = OF_X,
                        .of_part = OF_Y};
    TDM_TRY(tdm_check_tensor("gather", "table", stream, table));
    TDM_TRY(tdm_check_tensor("gather", "indices", stream, indices));
    TDM_TRY(tdm_check_output("gather", "y", stream, y));
    call.dequantizes = table->scale && tdm_is_kernel_float(y->layout.dtype);
    TDM_TRY(check_shape(&call));
    TDM_TRY(check_dtypes(&call));
    TDM_TRY(tdm_check_overlap("gather", "y", y, "table", table, false));
    TDM_TRY(tdm_check_overlap("gather", "y", y, "indices", indices, false));
    if (call.dequantizes) {
        TDM_TRY(check_parameters(table, y));
        call.op = TDM_OP_GATHER_QUANTIZED;
    }
    if (tdm_layout_elements(&y->layout) == 0)
        return TDM_OK;
    return call.dequantizes ? gather_quantized(&call) : move_bits(&call);
}

tdm_status tdm_scatter(tdm_stream *stream, const tdm_tensor *x, int axis, const tdm_tensor *indices,
                       tdm_tensor *y) {
    const gather_call call = {.stream = stream,
                              .operation = "scatter",
                              .whole_name = "y",
                              .part_name = "x",
                              .op = TDM_OP_SCATTER,
                              .whole = y,
                              .indices = indices,
                              .part = x,
                              .axis = axis,
                              .of_whole = OF_Y,
                              .of_part = OF_X};
    TDM_TRY(tdm_check_tensor("scatter", "x", stream, x));
    TDM_TRY(tdm_check_tensor("scatter", "indices", stream, indices));
    TDM_TRY(tdm_check_output("scatter", "y", stream, y));
    TDM_TRY(check_shape(&call));
    TDM_TRY(check_dtypes(&call));
    TDM_TRY(tdm_check_overlap("scatter", "y", y, "x", x, false));
    TDM_TRY(tdm_check_overlap("scatter", "y", y, "indices", indices, false));
    return tdm_layout_elements(&x->layout) == 0 ? TDM_OK : move_bits(&call);
}
