/* tdm_gemm computes a GEMM in a single call. Its plans are cached per device, and its workspace
 * comes from the pool. */
#include <string.h>

#include "api/gemm/gemm_internal.h"

/* A device caches this many plans and drops the least recently used one. Lookup is linear, so the
 * list is short. */
#define CACHED_PLANS 64

/* Checks an operand that may be absent. A wrong operand is thus reported before a plan is made. */
static tdm_status check_optional(const tdm_stream *stream, const char *name,
                                 const tdm_tensor *tensor) {
    return tensor ? tdm_check_tensor("gemm", name, stream, tensor) : TDM_OK;
}

static tdm_status check_epilogue(const tdm_stream *stream, const tdm_gemm_epilogue *epilogue) {
    if (!epilogue)
        return TDM_OK;
    TDM_TRY(check_optional(stream, "bias", epilogue->bias));
    return check_optional(stream, "residual", epilogue->residual);
}

static tdm_status describe(float alpha, const tdm_tensor *a, const tdm_tensor *b, float beta,
                           const tdm_tensor *c, const tdm_tensor *d,
                           const tdm_gemm_epilogue *epilogue, tdm_gemm_desc *desc) {
    *desc = (tdm_gemm_desc)TDM_GEMM_DESC_INIT;
    desc->a = a->layout;
    desc->b = b->layout;
    desc->d = d->layout;
    if (c)
        desc->c = c->layout;
    desc->alpha = alpha;
    desc->beta = beta;
    if (a->scale)
        TDM_TRY(tdm_tensor_quant_layout(a, &desc->a_quant));
    if (b->scale)
        TDM_TRY(tdm_tensor_quant_layout(b, &desc->b_quant));
    if (d->scale)
        TDM_TRY(tdm_tensor_quant_layout(d, &desc->d_quant));
    if (!epilogue)
        return TDM_OK;
    if (epilogue->bias)
        desc->bias = epilogue->bias->layout;
    if (epilogue->residual)
        desc->residual = epilogue->residual->layout;
    desc->activation = epilogue->activation;
    desc->quantize_a = epilogue->quantize_a;
    desc->gated = epilogue->gated;
    return TDM_OK;
}

/* True if two scalars have the same bits: -0 and 0 differ, NaN equals itself. */
static bool same_scalar(float a, float b) {
    // NOLINTNEXTLINE(bugprone-suspicious-memory-comparison,cert-*): compares bits on purpose
    return memcmp(&a, &b, sizeof a) == 0;
}

static bool same_description(const tdm_gemm_desc *a, const tdm_gemm_desc *b) {
    return tdm_layout_equal(&a->a, &b->a) && tdm_layout_equal(&a->b, &b->b) &&
           tdm_layout_equal(&a->c, &b->c) && tdm_layout_equal(&a->d, &b->d) &&
           tdm_layout_equal(&a->bias, &b->bias) && tdm_layout_equal(&a->residual, &b->residual) &&
           same_scalar(a->alpha, b->alpha) && same_scalar(a->beta, b->beta) &&
           a->activation == b->activation && (a->quantize_a != 0) == (b->quantize_a != 0) &&
           (a->gated != 0) == (b->gated != 0) && tdm_quant_layout_equal(&a->a_quant, &b->a_quant) &&
           tdm_quant_layout_equal(&a->b_quant, &b->b_quant) &&
           tdm_quant_layout_equal(&a->d_quant, &b->d_quant);
}

static void destroy_plans(void *plans) {
    for (tdm_gemm_plan *plan = plans; plan;) {
        tdm_gemm_plan *const next = plan->next;
        tdm_gemm_plan_destroy(plan);
        plan = next;
    }
}

/* Removes and returns the plan of a description, or returns NULL. The cache must be locked. */
static tdm_gemm_plan *unlink_plan(tdm_device *device, const tdm_gemm_desc *desc) {
    tdm_gemm_plan *previous = NULL;
    for (tdm_gemm_plan *plan = device->plans; plan; previous = plan, plan = plan->next) {
        if (!same_description(&plan->desc, desc))
            continue;
        if (previous)
            previous->next = plan->next;
        else
            device->plans = plan->next;
        return plan;
    }
    return NULL;
}

/* Puts the plan first and drops the last one if the list is full. The cache must be locked. */
static void link_plan(tdm_device *device, tdm_gemm_plan *plan) {
    plan->next = device->plans;
    device->plans = plan;
    device->plans_destroy = destroy_plans;
    for (int count = 1; plan->next; count++, plan = plan->next) {
        if (count < CACHED_PLANS)
            continue;
        destroy_plans(plan->next);
        plan->next = NULL;
        return;
    }
}

/* Returns the plan of a description, from the cache or new. The caller releases its reference with
 * tdm_gemm_plan_destroy. */
static tdm_status cached_plan(tdm_device *device, const tdm_gemm_desc *desc, tdm_gemm_plan **plan) {
    tdm_status status = TDM_OK;
    pthread_mutex_lock(&device->plans_lock);
    *plan = unlink_plan(device, desc);
    if (!*plan)
        status = tdm_gemm_plan_build(device, desc, false, plan);
    if (status == TDM_OK) {
        link_plan(device, *plan);
        atomic_fetch_add(&(*plan)->references, 1);
    }
    pthread_mutex_unlock(&device->plans_lock);
    return status;
}

static tdm_status run_once(tdm_stream *stream, const tdm_gemm_plan *plan, tdm_gemm_args *args) {
    tdm_buffer *workspace = NULL;
    tdm_status status = TDM_OK;
    if (plan->workspace_bytes != 0)
        status = tdm_buffer_create_for(stream->device, stream->id, (size_t)plan->workspace_bytes,
                                       &workspace);
    if (status != TDM_OK)
        return tdm_gemm_run_in_tiles(plan, stream, args, status);
    args->workspace = workspace;
    status = tdm_gemm_plan_run(plan, stream, args);
    tdm_buffer_destroy(workspace);
    return status;
}

tdm_status tdm_gemm(tdm_stream *stream, float alpha, const tdm_tensor *a, const tdm_tensor *b,
                    float beta, const tdm_tensor *c, tdm_tensor *d,
                    const tdm_gemm_epilogue *epilogue) {
    TDM_TRY(tdm_check_tensor("gemm", "A", stream, a));
    TDM_TRY(tdm_check_tensor("gemm", "B", stream, b));
    TDM_TRY(tdm_check_tensor("gemm", "D", stream, d));
    TDM_TRY(check_optional(stream, "C", c));
    tdm_gemm_epilogue room;
    if (epilogue) {
        epilogue = tdm_struct_read("gemm", "epilogue", epilogue, sizeof room, &room);
        if (!epilogue)
            return TDM_BAD_ARGUMENT;
    }
    TDM_TRY(check_epilogue(stream, epilogue));
    if (tdm_stream_is_recording(stream))
        return tdm_fail(TDM_BAD_STATE,
                        "gemm: the stream is recording: use a plan, whose run can be recorded");
    tdm_gemm_desc desc;
    tdm_gemm_plan *plan;
    TDM_TRY(describe(alpha, a, b, beta, c, d, epilogue, &desc));
    TDM_TRY(cached_plan(stream->device, &desc, &plan));
    tdm_gemm_args args = {.struct_size = sizeof args, .a = a, .b = b, .c = c, .d = d};
    if (epilogue) {
        args.bias = epilogue->bias;
        args.residual = epilogue->residual;
    }
    const tdm_status status = run_once(stream, plan, &args);
    tdm_gemm_plan_destroy(plan);
    return status;
}
