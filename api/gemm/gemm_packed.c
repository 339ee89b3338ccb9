/* These functions pack weights once for any number of runs. */
#include <string.h>

#include "api/device/device_internal.h"
#include "api/gemm/gemm_internal.h"
#include "api/tensor/strided_loop.h"

/* One work-item packs this many elements. They are enough to hide the launch, and few enough to
 * keep all cores busy. */
#define PACK_ITEM_ELEMENTS 4096

/* Returns the problem with one row of A, and with one entry of every dimension along which B is
 * shared. */
static tdm_gemm_problem alone(const tdm_gemm_problem *problem) {
    tdm_gemm_problem b = *problem;
    b.m = 1;
    for (int i = 0; i < b.batch_rank; i++)
        if (b.b.batch[i] == 0)
            b.batch_shape[i] = 1;
    return b;
}

/* Collects the extents of B's dimensions along which it is not shared. */
static int own_batch(const tdm_layout *b, int64_t shape[TDM_GEMM_BATCH_RANK]) {
    int rank = 0;
    for (int i = 0; i < b->rank - 2; i++)
        if (b->shape[i] == 0 || (b->shape[i] != 1 && b->strides[i] != 0))
            shape[rank++] = b->shape[i];
    return rank;
}

/* False if a batch dimension of B is empty. There is then no memory to read, whatever
 * the strides are. */
static bool has_matrices(const tdm_layout *b) {
    for (int i = 0; i < b->rank - 2; i++)
        if (b->shape[i] == 0)
            return false;
    return true;
}

/* Returns the plan that reads the packed weights: the inner plan of the stages if it takes packed
 * weights, else the plan itself. */
static const tdm_gemm_plan *reader_of(const tdm_gemm_plan *plan) {
    const tdm_gemm_plan *const inner = plan->stages.inner;
    return inner && inner->desc.packed_b ? inner : plan;
}

tdm_status tdm_packed_check(const tdm_gemm_plan *plan, const tdm_packed *packed) {
    const tdm_gemm_problem *const p = tdm_gemm_whole(plan);
    const char *const layout = reader_of(plan)->packed_layout;
    TDM_TRY(tdm_check_device("gemm", "packed_b", packed->device, "the plan", plan->device));
    if (strcmp(packed->layout, layout) != 0)
        return tdm_fail(TDM_BAD_ARGUMENT, "gemm: packed_b has layout %s but %s reads %s",
                        packed->layout, tdm_gemm_plan_variant(plan), layout);
    if (packed->k != p->k || packed->n != p->n)
        return tdm_fail(
            TDM_BAD_SHAPE, "gemm: packed_b is %lld by %lld but B in the plan is %lld by %lld",
            (long long)packed->k, (long long)packed->n, (long long)p->k, (long long)p->n);
    tdm_quant_layout dense;
    TDM_TRY(tdm_quant_layout_dense(&plan->desc.b_quant, &dense));
    if (!tdm_quant_layout_equal(&packed->quant, &dense))
        return tdm_fail(
            TDM_BAD_ARGUMENT,
            "gemm: the quantization parameters of packed_b differ from those of B in the plan");
    tdm_layout own = {.rank = packed->batch_rank}, planned = {0};
    memcpy(own.shape, packed->batch_shape, sizeof packed->batch_shape);
    planned.rank = own_batch(&plan->desc.b, planned.shape);
    if (tdm_layout_same_shape(&own, &planned))
        return TDM_OK;
    char own_text[TDM_SHAPE_TEXT], planned_text[TDM_SHAPE_TEXT];
    return tdm_fail(TDM_BAD_SHAPE, "gemm: packed_b has batch shape %s but B in the plan has %s",
                    tdm_layout_text(&own, own_text), tdm_layout_text(&planned, planned_text));
}

/* Copies one outer entry of B, for kernels that read B in place. */
static tdm_status copy_plain(const tdm_gemm_plan *plan, tdm_stream *stream, const tdm_tensor *b,
                             int64_t offset, tdm_buffer *target, int64_t target_elements) {
    tdm_status status = TDM_OK;
    const tdm_gemm_problem *const p = tdm_gemm_whole(plan);
    const tdm_gemm_packing *const packing = &plan->pack_b;
    const bool along_k = p->b.row == 1; // else along N
    const int64_t shape[3] = {packing->z_count, along_k ? p->n : p->k, along_k ? p->k : p->n};
    tdm_layout packed, own;
    tdm_tensor *from = NULL, *to = NULL;
    TDM_TRY_GOTO(tdm_layout_contiguous(p->b.dtype, 3, shape, &packed));
    packed.strides[0] = packing->z_stride;
    packed.strides[1] = along_k ? p->b.col : p->b.row;
    own = packed;
    own.strides[0] = tdm_gemm_z_stride(p, &packing->source);
    own.strides[1] = along_k ? packing->source.col : packing->source.row;
    own.strides[2] = along_k ? packing->source.row : packing->source.col;
    // A view of B would carry its quantization parameters.
    TDM_TRY_GOTO(tdm_tensor_on_buffer(b->buffer, b->offset + offset, &own, &from));
    TDM_TRY_GOTO(tdm_tensor_on_buffer(target, target_elements, &packed, &to));
    TDM_TRY_GOTO(tdm_tensor_copy(stream, from, to));

cleanup:
    tdm_tensor_destroy(from);
    tdm_tensor_destroy(to);
    return status;
}

static tdm_status fill_packed(const tdm_gemm_plan *plan, tdm_stream *stream, const tdm_tensor *b,
                              tdm_packed *packed) {
    // D may be empty although B is not: other plans read the same weights.
    const tdm_gemm_problem of_b = alone(tdm_gemm_whole(plan)), *const p = &of_b;
    const tdm_gemm_packing *const packing = &plan->pack_b;
    const tdm_gemm_matrix *const source = &packing->source;
    // If K is 0, only the column sums of integers are packed.
    const bool has_content =
        has_matrices(&plan->desc.b) && (p->k > 0 || (packing->kernel && p->op == TDM_OP_GEMM_INT));
    const int64_t outer_count = has_content ? tdm_gemm_outer_count(p) : 0;
    for (int64_t outer = 0; outer < outer_count; outer++) {
        const int64_t offset = tdm_gemm_outer_offset(p, source, outer);
        const int64_t elements = tdm_gemm_outer_offset(p, &p->b, outer);
        const tdm_gemm_pack_job job = {.packing = packing,
                                       .source = b,
                                       .source_offset = offset,
                                       .depth = p->k,
                                       .depth_stride = source->row,
                                       .line_stride = source->col,
                                       .z_stride = tdm_gemm_z_stride(p, source),
                                       .target = packed->buffer->block,
                                       .target_offset = (uint64_t)(elements * packing->unit_bytes)};
        TDM_TRY(packing->kernel ? tdm_gemm_enqueue_pack(stream, &job)
                                : copy_plain(plan, stream, b, offset, packed->buffer, elements));
    }
    return TDM_OK;
}

/* Computes the device bytes of all packed entries. */
tdm_status tdm_gemm_packed_bytes(const tdm_gemm_plan *plan, int64_t *bytes) {
    const tdm_gemm_plan *const reader = reader_of(plan);
    const tdm_gemm_problem *const p = tdm_gemm_whole(reader);
    *bytes = (int64_t)reader->pack_b.bytes;
    for (int i = 0; i < p->batch_rank - 1; i++)
        if (p->b.batch[i] != 0 && tdm_mul_overflows(*bytes, p->batch_shape[i], bytes))
            return tdm_fail(TDM_BAD_SHAPE, "gemm_pack_b: packed B would exceed 2^63-1 bytes");
    return TDM_OK;
}

static tdm_status check_pack(const tdm_gemm_plan *plan, tdm_stream *stream, const tdm_tensor *b) {
    if (!plan)
        return tdm_fail(TDM_BAD_ARGUMENT, "gemm_pack_b: plan is NULL");
    TDM_TRY(tdm_check_tensor("gemm_pack_b", "B", stream, b));
    TDM_TRY(
        tdm_check_device("gemm_pack_b", "the plan", plan->device, "the stream", stream->device));
    if (!plan->desc.packed_b)
        return tdm_fail(TDM_BAD_STATE, "gemm_pack_b: the plan was made without packed_b");
    if (b->layout.dtype != plan->desc.b.dtype)
        return tdm_fail(TDM_BAD_DTYPE, "gemm_pack_b: B is %s but the plan was made for %s",
                        tdm_dtype_name(b->layout.dtype), tdm_dtype_name(plan->desc.b.dtype));
    if (!tdm_layout_equal(&b->layout, &plan->desc.b))
        return tdm_fail(TDM_BAD_SHAPE,
                        "gemm_pack_b: the layout of B differs from the one the plan was made for");
    TDM_TRY(tdm_gemm_check_quantization("B", b, &plan->desc.b_quant));
    return tdm_refuse_recording(stream, "gemm_pack_b");
}

/* Makes a dense copy of a quantization parameter, if there is one. */
static tdm_status copy_parameter(tdm_stream *stream, const tdm_tensor *parameter,
                                 tdm_tensor **copy) {
    if (!parameter)
        return TDM_OK;
    TDM_TRY(tdm_tensor_create(stream->device, parameter->layout.dtype, parameter->layout.rank,
                              parameter->layout.shape, copy));
    return tdm_tensor_copy(stream, parameter, *copy);
}

tdm_status tdm_gemm_pack_b(const tdm_gemm_plan *plan, tdm_stream *stream, const tdm_tensor *b,
                           tdm_packed **packed) {
    tdm_status status = TDM_OK;
    int64_t bytes;
    if (!packed)
        return tdm_fail(TDM_BAD_ARGUMENT, "gemm_pack_b: packed is NULL");
    *packed = NULL;
    TDM_TRY(check_pack(plan, stream, b));
    TDM_TRY(tdm_gemm_packed_bytes(plan, &bytes));
    const tdm_gemm_plan *const reader = reader_of(plan);
    tdm_packed *const made = tdm_host_calloc(1, sizeof *made);
    if (!made)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "gemm_pack_b: no host memory");
    TDM_TRY_GOTO(tdm_buffer_create(plan->device, (size_t)bytes, &made->buffer));
    TDM_TRY_GOTO(fill_packed(reader, stream, b, made));
    TDM_TRY_GOTO(copy_parameter(stream, b->scale, &made->scale));
    TDM_TRY_GOTO(copy_parameter(stream, b->zero_point, &made->zero_point));
    TDM_TRY_GOTO(tdm_quant_layout_dense(&plan->desc.b_quant, &made->quant));
    made->n = tdm_gemm_whole(plan)->n;
    made->k = tdm_gemm_whole(plan)->k;
    made->batch_rank = own_batch(&plan->desc.b, made->batch_shape);
    memcpy(made->layout, reader->packed_layout, sizeof made->layout);
    made->device = plan->device;
    tdm_device_retain(made->device);
    *packed = made;
    return TDM_OK;

cleanup:
    tdm_tensor_destroy(made->scale);
    tdm_tensor_destroy(made->zero_point);
    tdm_buffer_destroy(made->buffer);
    tdm_host_free(made);
    return status;
}

void tdm_packed_destroy(tdm_packed *packed) {
    if (!packed)
        return;
    tdm_device *const device = packed->device;
    tdm_tensor_destroy(packed->scale);
    tdm_tensor_destroy(packed->zero_point);
    tdm_buffer_destroy(packed->buffer);
    tdm_host_free(packed);
    tdm_device_release(device);
}

static size_t parameter_bytes(const tdm_tensor *parameter) {
    return parameter ? tdm_buffer_size(parameter->buffer) : 0;
}

size_t tdm_packed_bytes(const tdm_packed *packed) {
    return packed ? tdm_buffer_size(packed->buffer) + parameter_bytes(packed->scale) +
                        parameter_bytes(packed->zero_point)
                  : 0;
}

const char *tdm_packed_layout(const tdm_packed *packed) {
    return packed ? packed->layout : NULL;
}

tdm_status tdm_gemm_enqueue_pack(tdm_stream *stream, const tdm_gemm_pack_job *job) {
    const tdm_gemm_packing *const p = job->packing;
    // A work-item that sums columns packs a whole panel.
    const bool sums = p->kernel->variant->op == TDM_OP_GEMM_INT_PACK;
    const int64_t depth_per_item =
        sums ? job->depth : tdm_ceil_div(PACK_ITEM_ELEMENTS / p->width, 8) * 8;
    const int64_t pieces = sums ? 1 : tdm_ceil_div(job->depth, depth_per_item),
                  panels = tdm_ceil_div(p->lines, p->width);
    if (pieces > INT32_MAX || panels > INT32_MAX)
        return tdm_fail(TDM_UNSUPPORTED, "gemm: B of %lld by %lld elements is too large to pack",
                        (long long)job->depth, (long long)p->lines);
    const tdm_pack_arg shape = {.depth = job->depth,
                                .lines = p->lines,
                                .row = job->depth_stride,
                                .col = job->line_stride,
                                .batch = job->z_stride,
                                .packed_batch = p->z_stride,
                                .depth_per_item = depth_per_item,
                                .sums_at = p->sums_at};
    for (int64_t z = 0; z < p->z_count; z += TDM_GEMM_MAX_Z) {
        const int64_t count = p->z_count - z < TDM_GEMM_MAX_Z ? p->z_count - z : TDM_GEMM_MAX_Z;
        tdm_arg target = tdm_arg_block(job->target, (int64_t)job->target_offset, p->unit_bytes);
        target.value.buffer.offset += z * p->z_stride;
        const tdm_arg args[] = {
            tdm_arg_elements(job->source, job->source_offset + z * job->z_stride), target,
            tdm_arg_blob(&shape, sizeof shape)};
        const tdm_launch launch = {.args = args,
                                   .arg_count = 3,
                                   .groups = {(uint32_t)pieces, (uint32_t)panels, (uint32_t)count},
                                   .group = {1, 1, 1}};
        TDM_TRY(tdm_enqueue_launch(stream, "gemm: packing", p->kernel, &launch));
    }
    return TDM_OK;
}
