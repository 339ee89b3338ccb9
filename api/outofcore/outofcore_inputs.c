/* These functions find the memory of the operands of an out-of-core run. They also check that the
 * operands match the plan. */
#include "api/outofcore/outofcore_internal.h"

/* ---- operands of a run ----------------------------------------------------------------------- */

tdm_ooc_inputs tdm_ooc_inputs_of(const tdm_outofcore_args *args) {
    return (tdm_ooc_inputs){.matrix = {[TDM_OOC_A] = &args->a,
                                       [TDM_OOC_B] = &args->b,
                                       [TDM_OOC_C] = &args->c,
                                       [TDM_OOC_RESIDUAL] = &args->residual,
                                       [TDM_OOC_D] = &args->d},
                            .bias = &args->bias,
                            .d_memory = args->d_memory,
                            .d_bytes = args->d_bytes};
}

const void *tdm_ooc_memory_of(const tdm_ooc_inputs *in, int name) {
    return name == TDM_OOC_D ? in->d_memory : in->matrix[name]->memory;
}

static const tdm_outofcore_source *owner_of(const tdm_ooc_inputs *in, int constant) {
    static const tdm_ooc_name owners[TDM_OOC_CONSTANTS] = {
        [TDM_OOC_A_SCALE] = TDM_OOC_A, [TDM_OOC_A_ZERO] = TDM_OOC_A,  [TDM_OOC_B_SCALE] = TDM_OOC_B,
        [TDM_OOC_B_ZERO] = TDM_OOC_B,  [TDM_OOC_D_SCALE] = TDM_OOC_D, [TDM_OOC_D_ZERO] = TDM_OOC_D};
    return constant == TDM_OOC_BIAS ? in->bias : in->matrix[owners[constant]];
}

static bool is_zero_point(int constant) {
    return constant == TDM_OOC_A_ZERO || constant == TDM_OOC_B_ZERO || constant == TDM_OOC_D_ZERO;
}

const void *tdm_ooc_constant_memory(const tdm_ooc_inputs *in, int constant, size_t *bytes) {
    const tdm_outofcore_source *const owner = owner_of(in, constant);
    if (constant == TDM_OOC_BIAS) {
        *bytes = owner->bytes;
        return owner->memory;
    }
    *bytes = is_zero_point(constant) ? owner->zero_point_bytes : owner->scale_bytes;
    return is_zero_point(constant) ? owner->zero_point : owner->scale;
}

const tdm_tensor *tdm_ooc_constant_tensor(const tdm_ooc_inputs *in, int constant) {
    const tdm_tensor *const tensor = owner_of(in, constant)->tensor;
    if (constant == TDM_OOC_BIAS)
        return tensor;
    return is_zero_point(constant) ? tensor->zero_point : tensor->scale;
}

/* ---- checks ---------------------------------------------------------------------------------- */

static tdm_status check_tensor(const tdm_stream *stream, const char *name, const tdm_tensor *tensor,
                               const tdm_layout *layout) {
    char shape[TDM_SHAPE_TEXT], planned[TDM_SHAPE_TEXT];
    TDM_TRY(tdm_check_tensor("outofcore", name, stream, tensor));
    if (tdm_layout_equal(&tensor->layout, layout))
        return TDM_OK;
    if (tensor->layout.dtype != layout->dtype)
        return tdm_fail(TDM_BAD_DTYPE, "outofcore: %s is %s but the plan was made for %s", name,
                        tdm_dtype_name(tensor->layout.dtype), tdm_dtype_name(layout->dtype));
    return tdm_fail(TDM_BAD_SHAPE, "outofcore: %s is %s but the plan was made for %s%s", name,
                    tdm_layout_text(&tensor->layout, shape), tdm_layout_text(layout, planned),
                    tdm_layout_same_shape(&tensor->layout, layout) ? " with other strides" : "");
}

static tdm_status check_memory(const char *name, const void *memory, size_t bytes, size_t needed) {
    if (needed > bytes)
        return tdm_fail(TDM_BAD_SHAPE, "outofcore: %s needs %zu bytes but has %zu", name, needed,
                        bytes);
    if (!memory && needed > 0)
        return tdm_fail(TDM_BAD_ARGUMENT, "outofcore: the pointer of %s is NULL", name);
    return TDM_OK;
}

static tdm_status check_matrix(const tdm_outofcore_plan *plan, const tdm_stream *stream,
                               const tdm_ooc_inputs *in, int name) {
    const tdm_ooc_operand *const o = &plan->problem.operands[name];
    const tdm_outofcore_source *const source = in->matrix[name];
    if (!o->present)
        return TDM_OK;
    if (o->on_device) {
        TDM_TRY(check_tensor(stream, o->name, source->tensor, &o->whole));
        return tdm_gemm_check_quantization(o->name, source->tensor, &o->quant);
    }
    if (source->tensor)
        return tdm_fail(TDM_BAD_ARGUMENT,
                        "outofcore: %s is a tensor but the plan was made for host memory", o->name);
    size_t needed;
    TDM_TRY(tdm_dtype_bytes(o->whole.dtype, tdm_layout_extent(&o->whole), &needed));
    return check_memory(o->name, tdm_ooc_memory_of(in, name),
                        name == TDM_OOC_D ? in->d_bytes : source->bytes, needed);
}

static tdm_status check_constant(const tdm_outofcore_plan *plan, const tdm_stream *stream,
                                 const tdm_ooc_inputs *in, int name) {
    const tdm_ooc_constant *const c = &plan->problem.constants[name];
    size_t bytes;
    if (c->layout.dtype == TDM_DTYPE_NONE)
        return TDM_OK;
    if (c->on_device) // check_matrix checked the scales and zero points
        return name == TDM_OOC_BIAS ? check_tensor(stream, c->name, in->bias->tensor, &c->layout)
                                    : TDM_OK;
    const void *const memory = tdm_ooc_constant_memory(in, name, &bytes);
    return check_memory(c->name, memory, bytes, c->bytes);
}

/* Checks that D in host memory does not overlap an input. `same` allows D to be the
 * very same matrix. */
static tdm_status check_no_overlap(const char *name, const void *d, size_t d_bytes,
                                   const void *input, size_t bytes, bool same) {
    const uintptr_t d_at = (uintptr_t)d, at = (uintptr_t)input;
    if (bytes == 0 || d_bytes == 0 || d_at >= at + bytes || at >= d_at + d_bytes ||
        (same && d_at == at))
        return TDM_OK;
    return tdm_fail(TDM_BAD_ARGUMENT, "outofcore: D overlaps %s in host memory", name);
}

static tdm_status check_overlap_on_host(const tdm_ooc_problem *p, const tdm_ooc_inputs *in) {
    const tdm_ooc_operand *const d = &p->operands[TDM_OOC_D];
    size_t d_bytes, bytes;
    TDM_TRY(tdm_dtype_bytes(d->whole.dtype, tdm_layout_extent(&d->whole), &d_bytes));
    for (int i = 0; i < TDM_OOC_D; i++) {
        const tdm_ooc_operand *const o = &p->operands[i];
        if (!o->present || o->on_device)
            continue;
        TDM_TRY(tdm_dtype_bytes(o->whole.dtype, tdm_layout_extent(&o->whole), &bytes));
        const bool same =
            (i == TDM_OOC_C || i == TDM_OOC_RESIDUAL) && tdm_layout_equal(&o->whole, &d->whole);
        TDM_TRY(check_no_overlap(o->name, in->d_memory, d_bytes, tdm_ooc_memory_of(in, i), bytes,
                                 same));
    }
    for (int i = 0; i < TDM_OOC_CONSTANTS; i++) {
        const tdm_ooc_constant *const c = &p->constants[i];
        if (c->layout.dtype != TDM_DTYPE_NONE && !c->on_device)
            TDM_TRY(check_no_overlap(c->name, in->d_memory, d_bytes,
                                     tdm_ooc_constant_memory(in, i, &bytes), c->bytes, false));
    }
    return TDM_OK;
}

static tdm_status check_overlap_on_device(const tdm_ooc_problem *p, const tdm_ooc_inputs *in) {
    const tdm_tensor *const d = in->matrix[TDM_OOC_D]->tensor;
    for (int i = 0; i < TDM_OOC_D; i++)
        if (p->operands[i].present && p->operands[i].on_device)
            TDM_TRY(tdm_check_overlap("outofcore", "D", d, p->operands[i].name,
                                      in->matrix[i]->tensor,
                                      i == TDM_OOC_C || i == TDM_OOC_RESIDUAL));
    for (int i = 0; i < TDM_OOC_CONSTANTS; i++)
        if (p->constants[i].layout.dtype != TDM_DTYPE_NONE && p->constants[i].on_device)
            TDM_TRY(tdm_check_overlap("outofcore", "D", d, p->constants[i].name,
                                      tdm_ooc_constant_tensor(in, i), false));
    return TDM_OK;
}

tdm_status tdm_ooc_check_run(const tdm_outofcore_plan *plan, tdm_stream *stream,
                             const tdm_ooc_inputs *in) {
    const tdm_ooc_problem *const p = &plan->problem;
    TDM_TRY(tdm_check_device("outofcore", "the plan", plan->device, "the stream", stream->device));
    TDM_TRY(tdm_refuse_recording(stream, "outofcore"));
    for (int i = 0; i < TDM_OOC_MATRICES; i++)
        TDM_TRY(check_matrix(plan, stream, in, i));
    for (int i = 0; i < TDM_OOC_CONSTANTS; i++)
        TDM_TRY(check_constant(plan, stream, in, i));
    return p->operands[TDM_OOC_D].on_device ? check_overlap_on_device(p, in)
                                            : check_overlap_on_host(p, in);
}
