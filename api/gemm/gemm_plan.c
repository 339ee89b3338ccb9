/* These functions create GEMM plans. A plan holds everything that is decided once for a shape. */
#include <stdio.h>
#include <string.h>

#include "api/device/device_internal.h"
#include "api/gemm/gemm_internal.h"
#include "api/tensor/strided_loop.h"

#define WORKSPACE_ALIGNMENT 256
/* These are the versions of the packed layouts. Weights packed with another version are refused. */
#define PANEL_VERSION 1
#define PLAIN_VERSION 1
#define INT_PANEL_VERSION 1
#define LINES_VERSION 1
#define WHOLE_UNITS_VERSION 1
/* Tensor-core kernels copy this many bytes at a time. */
#define UNIT_BYTES 16
/* Integer panels have a multiple of this many steps of K, and entries begin on a cache line. */
#define INT_PANEL_STEP 4
#define INT_PANEL_ALIGNMENT 64

static uint64_t align_up(uint64_t bytes) {
    return (bytes + WORKSPACE_ALIGNMENT - 1) / WORKSPACE_ALIGNMENT * WORKSPACE_ALIGNMENT;
}

/* Computes the elements of one batch entry in panels, padded to whole panels. Integer panels are
 * padded along K and followed by their column sums. Returns false on overflow. */
static bool size_panels(const tdm_gemm_plan *plan, tdm_gemm_packing *b) {
    const int64_t lines = tdm_ceil_div(b->lines, b->width) * b->width;
    if (plan->problem.op == TDM_OP_GEMM)
        return !tdm_mul_overflows(lines, plan->problem.k, &b->z_elements);
    const int64_t depth = tdm_ceil_div(plan->problem.k, INT_PANEL_STEP) * INT_PANEL_STEP;
    if (tdm_mul_overflows(lines, depth, &b->sums_at) ||
        tdm_add_overflows(b->sums_at, lines * (int64_t)sizeof(int32_t) + INT_PANEL_ALIGNMENT,
                          &b->z_elements))
        return false;
    b->z_elements -= b->z_elements % INT_PANEL_ALIGNMENT;
    return true;
}

static tdm_status refuse_size(void) {
    return tdm_fail(TDM_BAD_SHAPE, "gemm: packed B would exceed 2^61 bytes");
}

/* Sets the strides between packed entries, which are contiguous. Empty entries
 * also get a stride. */
static tdm_status place_entries(tdm_gemm_problem *p, int64_t entry) {
    for (int i = 0; i < p->batch_rank; i++)
        if (p->b.batch[i] != 0 &&
            tdm_mul_overflows(tdm_packed_step(p, i), entry > 0 ? entry : 1, &p->b.batch[i]))
            return refuse_size();
    return TDM_OK;
}

/* Computes the sizes of the packed B of one launch, whose entries have z_elements. */
static tdm_status size_packed_b(tdm_gemm_plan *plan) {
    tdm_gemm_problem *const p = &plan->problem;
    tdm_gemm_packing *const b = &plan->pack_b;
    int64_t bytes;
    b->z_count = tdm_gemm_z_stride(p, &p->b) == 0 ? 1 : p->batch_shape[p->batch_rank - 1];
    if (tdm_mul_overflows(b->z_elements, b->z_count, &bytes) ||
        tdm_mul_overflows(bytes, b->unit_bytes, &bytes) || bytes > INT64_MAX / 4)
        return refuse_size();
    b->bytes = (uint64_t)bytes / (uint64_t)tdm_dtype_info(p->b.dtype)->elements_per_unit;
    b->z_stride = b->z_elements;
    if (!plan->desc.packed_b)
        return TDM_OK;
    TDM_TRY(place_entries(p, b->z_elements));
    if (b->z_count > 1)
        b->z_stride = tdm_gemm_z_stride(p, &p->b);
    return TDM_OK;
}

static tdm_status size_panels_of_b(tdm_gemm_plan *plan) {
    return size_panels(plan, &plan->pack_b) ? size_packed_b(plan) : refuse_size();
}

static void name_layout(tdm_gemm_plan *plan, const char *kind, tdm_dtype dtype, int version) {
    snprintf(plan->packed_layout, sizeof plan->packed_layout, "%s-%s/%d", kind,
             tdm_dtype_name(dtype), version);
}

/* This is the layout of packed weights that are not panels. It depends on the types and the device,
 * never on M, so that plans of any M can read them. */
typedef struct arrangement {
    const char *kind;
    int version;
    bool along_k;       /* columns along K; else rows along N */
    int64_t pitch_step; /* the pitch is a multiple of this many elements */
} arrangement;

static arrangement arrangement_of(const tdm_gemm_plan *plan) {
    const tdm_gemm_problem *const p = &plan->problem;
    const int64_t unit = UNIT_BYTES / tdm_dtype_info(p->b.dtype)->unit_bytes;
    if (p->op == TDM_OP_GEMM_WEIGHTS)
        return (arrangement){"lines", LINES_VERSION, true, TDM_LINE_STEP};
    if (!(plan->device->info.capabilities & TDM_CAP_TENSOR_CORES))
        return (arrangement){"plain", PLAIN_VERSION, false, 1};
    // Tensor-core kernels read 8-bit elements only along K, and 16-bit elements along K or N. The
    // f32 tiles copy whole units only along N.
    if (p->b.dtype == TDM_F32)
        return (arrangement){"rows16", WHOLE_UNITS_VERSION, false, unit};
    return (arrangement){"lines16", WHOLE_UNITS_VERSION, true, unit};
}

/* Describes the packed form of B. If B comes packed, it becomes the problem's B. Plans with a panel
 * variant replace it by panels later. */
static tdm_status arrange_packed_b(tdm_gemm_plan *plan) {
    tdm_gemm_problem *const p = &plan->problem;
    tdm_gemm_packing *const b = &plan->pack_b;
    const arrangement how = arrangement_of(plan);
    const int64_t lines = how.along_k ? p->n : p->k, length = how.along_k ? p->k : p->n,
                  pitch = tdm_ceil_div(length, how.pitch_step) * how.pitch_step;
    if (tdm_mul_overflows(lines, pitch, &b->z_elements))
        return refuse_size();
    name_layout(plan, how.kind, p->b.dtype, how.version);
    if (plan->desc.packed_b) {
        b->source = p->b;
        p->b.row = how.along_k ? 1 : pitch;
        p->b.col = how.along_k ? pitch : 1;
    }
    return size_packed_b(plan);
}

/* Initializes the packing of B, and the packed form of B if it is packed beforehand. */
static tdm_status begin_packing(tdm_gemm_plan *plan) {
    plan->pack_b.width = 1;
    plan->pack_b.unit_bytes = tdm_dtype_info(plan->problem.b.dtype)->unit_bytes;
    plan->pack_b.lines = plan->problem.n;
    // Quantized weights may need a copy with columns along K in every run.
    return plan->desc.packed_b || plan->problem.op == TDM_OP_GEMM_WEIGHTS ? arrange_packed_b(plan)
                                                                          : TDM_OK;
}

/* Corrects the plan's tuning text if given values did not fit. */
static void note_dropped_values(tdm_gemm_plan *plan) {
    const size_t used = strlen(plan->tuning);
    if (plan->partition.as_given || used == 0)
        return;
    snprintf(plan->tuning + used, sizeof plan->tuning - used,
             "; without the tuned parameters, which need too much local memory");
    tdm_log(TDM_LOG_DEBUG, "dispatch", "gemm: %s", plan->tuning);
}

static tdm_status plan_float_panels(tdm_gemm_plan *plan) {
    const int32_t *const row = plan->kernel->variant->parameters;
    const tdm_dtype panels = (tdm_dtype)row[TDM_GEMM_P_B_TYPE];
    tdm_gemm_packing *const b = &plan->pack_b;
    char kind[24];
    b->unit_bytes = tdm_dtype_info(panels)->unit_bytes;
    snprintf(kind, sizeof kind, "panel%d", b->width);
    name_layout(plan, kind, panels, PANEL_VERSION);
    if (row[TDM_GEMM_P_FAMILY] == TDM_GEMM_PANEL) {
        TDM_TRY(tdm_gemm_panel_divide(plan, &plan->partition));
        note_dropped_values(plan);
    }
    if (plan->problem.k == 0 || plan->partition.packs_inside) // nothing is read if K is 0
        return TDM_OK;
    TDM_TRY(
        tdm_gemm_select_pack(plan->device, b->width, plan->problem.b.dtype, panels, &b->kernel));
    return size_panels_of_b(plan);
}

static tdm_status plan_int_panels(tdm_gemm_plan *plan) {
    tdm_gemm_packing *const b = &plan->pack_b;
    char kind[24];
    snprintf(kind, sizeof kind, "quads%d", b->width);
    name_layout(plan, kind, TDM_S8, INT_PANEL_VERSION);
    TDM_TRY(tdm_gemm_int_panel_divide(plan, &plan->partition));
    note_dropped_values(plan);
    if (plan->partition.packs_inside)
        return TDM_OK;
    TDM_TRY(tdm_gemm_select_int_pack(plan->device, b->width, &b->kernel));
    return size_panels_of_b(plan);
}

static tdm_status plan_packing(tdm_gemm_plan *plan) {
    const tdm_variant *const row = plan->kernel->variant;
    const tdm_gemm_problem *const p = &plan->problem;
    if (row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_SMALL_M)
        tdm_gemm_small_m_divide(plan, &plan->partition);
    if (!tdm_gemm_reads_panels(p, row))
        return TDM_OK;
    plan->pack_b.lines = p->n;
    plan->pack_b.width = row->parameters[TDM_GEMM_P_COLUMNS];
    return p->op == TDM_OP_GEMM ? plan_float_panels(plan) : plan_int_panels(plan);
}

/* Checks that the number of tiles fits in 31 bits, because tiles are numbered along x. */
static tdm_status check_tiles(const tdm_gemm_plan *plan) {
    const tdm_gemm_problem *const p = &plan->problem;
    const int32_t *const row = plan->kernel->variant->parameters;
    int64_t tiles;
    if (tdm_mul_overflows(tdm_ceil_div(p->m, row[TDM_GEMM_P_ROWS]),
                          tdm_ceil_div(p->n, row[TDM_GEMM_P_COLUMNS]), &tiles) ||
        tiles > INT32_MAX)
        return tdm_fail(TDM_UNSUPPORTED,
                        "gemm: D of %lld by %lld elements has too many tiles for %s",
                        (long long)p->m, (long long)p->n, plan->kernel->variant->name);
    return TDM_OK;
}

static void plan_workspace(tdm_gemm_plan *plan) {
    if (plan->pack_b.kernel && !plan->desc.packed_b && tdm_gemm_z_count(&plan->problem) != 0)
        plan->workspace_bytes = align_up(plan->pack_b.bytes);
    plan->split.workspace_offset = plan->workspace_bytes;
    plan->workspace_bytes += align_up(plan->split.bytes);
}

/* Logs the problem in the format of docs/tuning.md. */
static void log_problem(const tdm_gemm_problem *p) {
    const int64_t batch = tdm_gemm_z_count(p) * tdm_gemm_outer_count(p);
    char more[64] = "";
    if (p->op == TDM_OP_GEMM_WEIGHTS)
        snprintf(more, sizeof more, " group=%lld qa=%d", (long long)p->group, p->quantize_a);
    if (p->allows_3xtf32)
        snprintf(more, sizeof more, " 3xtf32=1");
    tdm_log(TDM_LOG_DEBUG, "dispatch",
            "gemm: problem m=%lld n=%lld k=%lld batch=%lld a=%s b=%s d=%s ta=%d tb=%d%s",
            (long long)p->m, (long long)p->n, (long long)p->k, (long long)batch,
            tdm_dtype_name(p->a.dtype), tdm_dtype_name(p->b.dtype), tdm_dtype_name(p->d.dtype),
            tdm_gemm_is_transposed(&p->a), tdm_gemm_is_transposed(&p->b), more);
}

/* True if only the reference variant is left, because the expected kernel for quantized values does
 * not build. The problem also has more rows than the reference is meant for. */
static bool is_last_resort(const tdm_gemm_plan *plan) {
    char reason[TDM_REASON_TEXT];
    return plan->kernel->variant->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_REFERENCE &&
           plan->tuning[0] == '\0' &&
           (plan->problem.quantize_a ||
            !tdm_gemm_weights_refuse(&plan->problem, plan->device, TDM_GEMM_TILED, reason)) &&
           tdm_gemm_weights_refuse(&plan->problem, plan->device, TDM_GEMM_SMALL_M, reason);
}

/* True if measured tuning data prefers tiles that read the quantized values in place. */
static bool tiles_were_measured(const tdm_gemm_plan *plan) {
    char reason[TDM_REASON_TEXT];
    tdm_choice choice;
    tdm_gemm_problem wanted = plan->problem;
    const tdm_tuning_row *const row = tdm_gemm_tuned(plan, &choice);
    wanted.forced = true;
    return row && row->ns != 0 && choice.variant->op == plan->problem.op &&
           choice.variant->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_TILED &&
           !tdm_gemm_weights_refuse(&wanted, plan->device, TDM_GEMM_TILED, reason);
}

/* Plans quantized weights: variants for quantized weights multiply them in place, or stages convert
 * them for another plan. */
static tdm_status plan_weights(tdm_gemm_plan *plan, const char *forced) {
    char reason[TDM_REASON_TEXT];
    const tdm_gemm_problem *const p = &plan->problem;
    log_problem(p);
    TDM_TRY(begin_packing(plan));
    const tdm_variant *const wanted = forced ? tdm_gemm_named_variant(forced) : NULL;
    const char *refusal = NULL;
    if (wanted && wanted->op != TDM_OP_GEMM_WEIGHTS)
        refusal = "the forced variant is for other operand types";
    else if (wanted && tdm_gemm_needs_lines(plan, wanted))
        refusal = "the forced variant needs B packed K-major";
    else if (!wanted && !tdm_forced_variant(TDM_OP_GEMM_WEIGHTS) &&
             (tdm_forced_variant(TDM_OP_GEMM) ||
              (tdm_gemm_weights_refuse(p, plan->device, TDM_GEMM_PANEL, reason) &&
               tdm_gemm_weights_refuse(p, plan->device, TDM_GEMM_TILED, reason) &&
               !tiles_were_measured(plan) && !tdm_gemm_suits_modelled(p, plan->device))))
        refusal = tdm_gemm_weights_refuse(p, plan->device, TDM_GEMM_SMALL_M, reason);
    if (refusal) {
        tdm_log(TDM_LOG_DEBUG, "dispatch",
                "gemm: operands are converted before the multiplication: %s", refusal);
        return tdm_gemm_plan_stages(plan, forced);
    }
    bool staged = false;
    if (!forced && !tdm_forced_variant(TDM_OP_GEMM_WEIGHTS))
        TDM_TRY(tdm_gemm_plan_tuned_stages(plan, &staged));
    if (staged)
        return TDM_OK;
    TDM_TRY(tdm_gemm_select(plan, forced));
    if (!forced && !tdm_forced_variant(TDM_OP_GEMM_WEIGHTS) && is_last_resort(plan)) {
        plan->kernel = NULL;
        return tdm_gemm_plan_stages(plan, NULL);
    }
    TDM_TRY(check_tiles(plan));
    if (plan->kernel->variant->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_SMALL_M)
        tdm_gemm_small_m_divide(plan, &plan->partition);
    if (plan->kernel->variant->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_TENSOR) {
        TDM_TRY(tdm_gemm_split_weights(plan));
        plan_workspace(plan);
    }
    if (plan->kernel->variant->parameters[TDM_GEMM_P_FAMILY] != TDM_GEMM_PANEL)
        return TDM_OK;
    TDM_TRY(tdm_gemm_panel_divide(plan, &plan->partition));
    note_dropped_values(plan);
    return TDM_OK;
}

/* True if D should be written with non-temporal stores, which avoid reading its cache lines first.
 * If D fits the cache, they would evict it. */
static bool exceeds_cache(const tdm_device *device, const tdm_layout *d) {
    return tdm_exceeds_caches(device, (double)tdm_layout_elements(d) *
                                          tdm_dtype_info(d->dtype)->unit_bytes);
}

static tdm_status build_plan(tdm_device *device, const tdm_gemm_desc *desc, bool counts_device,
                             bool anywhere, tdm_gemm_plan **plan);

/* Adds a second plan to one with tensor maps, for operands at any address. The address is
 * known only at a run. */
static tdm_status plan_unaligned(tdm_gemm_plan *plan, const char *forced) {
    if (plan->kernel->variant->parameters[TDM_GEMM_P_FAMILY] != TDM_GEMM_WGMMA || forced ||
        tdm_forced_variant(plan->problem.op))
        return TDM_OK;
    TDM_TRY(build_plan(plan->device, &plan->desc, false, true, &plan->unaligned));
    if (plan->workspace_bytes < plan->unaligned->workspace_bytes)
        plan->workspace_bytes = plan->unaligned->workspace_bytes;
    return TDM_OK;
}

/* True if the operand is absent or column-major. */
static bool is_turned(const tdm_gemm_matrix *matrix) {
    return matrix->dtype == TDM_DTYPE_NONE || tdm_gemm_is_transposed(matrix);
}

/* If A and B are both row-major, both would be column-major in the transposed GEMM. That costs more
 * if K is at least this many times the shorter side. */
#define LONG_K_IN_SIDES 2

static bool turns_operands(const tdm_gemm_problem *p) {
    const int64_t side = p->m < p->n ? p->m : p->n;
    return p->a.col == 1 && p->b.col == 1 && p->k / LONG_K_IN_SIDES >= side;
}

/* True if a small-M variant is forced. Such a variant finds the smaller side itself. It may support
 * the M of the original GEMM, but not that of the transposed one. */
static bool asks_for_small_m(const char *forced) {
    const tdm_variant *const row = forced ? tdm_gemm_named_variant(forced) : NULL;
    return row && row->op == TDM_OP_GEMM && row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_SMALL_M;
}

/*
 * True if kernels should compute D^T = B^T A^T because C, the residual and D are column-major. It
 * is false for packed weights, which exist for B only. It is false for different types of A and B,
 * because not every pair has a variant. It is false for 3xTF32, because sums would differ.
 */
static bool turns_d(const tdm_gemm_plan *plan, const char *forced) {
    const tdm_gemm_problem *const p = &plan->problem;
    char reason[TDM_REASON_TEXT];
    return p->op == TDM_OP_GEMM && !p->packed_b && p->a.dtype == p->b.dtype && !p->allows_3xtf32 &&
           tdm_gemm_is_transposed(&p->d) && is_turned(&p->c) && is_turned(&p->residual) &&
           !turns_operands(p) && !asks_for_small_m(forced) &&
           tdm_gemm_small_m_refuse(p, plan->device, reason);
}

/* Resets the selection. */
static void clear_selection(tdm_gemm_plan *plan) {
    plan->kernel = NULL;
    memset(plan->values, 0, sizeof plan->values);
    plan->refusals[0] = plan->tuning[0] = '\0';
}

/*
 * Selects a variant for the transposed GEMM if that lets kernels store D by rows. Small-M variants
 * find the smaller side themselves, in the original GEMM.
 */
static tdm_status select_product(tdm_gemm_plan *plan, const char *forced) {
    tdm_gemm_problem *const p = &plan->problem;
    if (turns_d(plan, forced)) {
        tdm_gemm_swap(p);
        tdm_log(TDM_LOG_DEBUG, "dispatch", "gemm: D is column-major: computing D^T = B^T A^T");
        log_problem(p);
        TDM_TRY(tdm_gemm_select(plan, forced));
        if (plan->kernel->variant->parameters[TDM_GEMM_P_FAMILY] != TDM_GEMM_SMALL_M)
            return TDM_OK;
        clear_selection(plan);
        tdm_gemm_swap(p);
    }
    log_problem(p);
    return tdm_gemm_select(plan, forced);
}

static tdm_status plan_product(tdm_gemm_plan *plan, const char *forced) {
    TDM_TRY(begin_packing(plan));
    TDM_TRY(select_product(plan, forced));
    if (plan->kernel->variant->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_SMALL_M &&
        tdm_gemm_small_m_swaps(&plan->problem))
        tdm_gemm_swap(&plan->problem);
    TDM_TRY(check_tiles(plan));
    TDM_TRY(tdm_gemm_split_k(plan));
    TDM_TRY(plan_packing(plan));
    plan_workspace(plan);
    return plan_unaligned(plan, forced);
}

static tdm_status build_plan(tdm_device *device, const tdm_gemm_desc *desc, bool counts_device,
                             bool anywhere, tdm_gemm_plan **plan) {
    tdm_status status = TDM_OK;
    tdm_gemm_plan *const made = tdm_host_calloc(1, sizeof *made);
    if (!made)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "gemm: no host memory for a plan");
    made->references = 1;
    made->device = device;
    made->desc = *desc;
    made->desc.variant = NULL;
    TDM_TRY_GOTO(tdm_gemm_problem_from(desc, &made->problem));
    made->problem.forced = desc->variant != NULL;
    made->problem.anywhere = anywhere;
    TDM_TRY_GOTO(made->problem.op == TDM_OP_GEMM_WEIGHTS ? plan_weights(made, desc->variant)
                                                         : plan_product(made, desc->variant));
    if (desc->alpha == 0.0f)
        TDM_TRY_GOTO(tdm_gemm_plan_epilogue(made));
    made->streams_d = exceeds_cache(device, &desc->d);
    made->counts_device = counts_device;
    if (counts_device)
        tdm_device_retain(device);
    *plan = made;
    return TDM_OK;

cleanup:
    tdm_gemm_plan_destroy(made->stages.inner);
    tdm_gemm_plan_destroy(made->unaligned);
    tdm_host_free(made);
    return status;
}

tdm_status tdm_gemm_plan_build(tdm_device *device, const tdm_gemm_desc *desc, bool counts_device,
                               tdm_gemm_plan **plan) {
    return build_plan(device, desc, counts_device, false, plan);
}

tdm_status tdm_gemm_plan_create(tdm_device *device, const tdm_gemm_desc *desc,
                                tdm_gemm_plan **plan) {
    if (!plan)
        return tdm_fail(TDM_BAD_ARGUMENT, "gemm: plan is NULL");
    *plan = NULL;
    if (!device || !desc)
        return tdm_fail(TDM_BAD_ARGUMENT, "gemm: %s is NULL", device ? "desc" : "device");
    tdm_gemm_desc room;
    desc = tdm_struct_read("gemm", "desc", desc, sizeof room, &room);
    if (!desc)
        return TDM_BAD_ARGUMENT;
    return tdm_gemm_plan_build(device, desc, true, plan);
}

void tdm_gemm_plan_destroy(tdm_gemm_plan *plan) {
    if (!plan || atomic_fetch_sub(&plan->references, 1) != 1)
        return;
    tdm_device *const device = plan->counts_device ? plan->device : NULL;
    tdm_gemm_plan_destroy(plan->stages.inner);
    tdm_gemm_plan_destroy(plan->unaligned);
    tdm_host_free(plan);
    tdm_device_release(device);
}

tdm_status tdm_gemm_plan_workspace_size(const tdm_gemm_plan *plan, size_t *bytes) {
    if (!bytes)
        return tdm_fail(TDM_BAD_ARGUMENT, "gemm_plan_workspace_size: bytes is NULL");
    *bytes = 0;
    if (!plan)
        return tdm_fail(TDM_BAD_ARGUMENT, "gemm_plan_workspace_size: plan is NULL");
    *bytes = (size_t)plan->workspace_bytes;
    return TDM_OK;
}

/* Returns the plan whose kernel multiplies: the innermost one. */
static const tdm_gemm_plan *multiplying(const tdm_gemm_plan *plan) {
    while (plan && plan->stages.inner)
        plan = plan->stages.inner;
    return plan;
}

const char *tdm_gemm_plan_variant(const tdm_gemm_plan *plan) {
    return plan ? multiplying(plan)->kernel->variant->name : NULL;
}

const char *tdm_gemm_plan_refusals(const tdm_gemm_plan *plan) {
    return plan ? multiplying(plan)->refusals : NULL;
}

const char *tdm_gemm_plan_tuning(const tdm_gemm_plan *plan) {
    return plan ? multiplying(plan)->tuning : NULL;
}
