/* These functions select the kernel variant for a GEMM problem. Requirements are checked first,
 * then preferences. Each refusal has a reason. */
#include <stdio.h>
#include <string.h>

#include "api/gemm/gemm_internal.h"

#define MAX_UNUSABLE 64

/* This is a variant that the device cannot run, although its requirements are met. allowed_items is
 * the work-group size that its built kernel allows. It is 0 if the kernel does not build or
 * computes wrong sums. */
typedef struct unusable_row {
    const tdm_variant *variant;
    uint32_t allowed_items;
    bool is_wrong;
} unusable_row;

/* This is the time model's choice for a problem. It is cached because every variant with a time
 * model needs it. */
typedef struct modelled_choice {
    bool known;
    const tdm_variant *row; /* NULL: the model covers no usable variant */
    double ns;
} modelled_choice;

/* This is the context of supports(). */
typedef struct selection {
    const tdm_gemm_problem *problem;
    modelled_choice *modelled; /* reset when a variant turns out to be unusable */
    unusable_row unusable[MAX_UNUSABLE];
    int unusable_count;
    bool measured; /* the variant was measured as the best: preferences do not refuse it */
} selection;

bool tdm_gemm_is_transposed(const tdm_gemm_matrix *matrix) {
    return matrix->col != 1 && matrix->row == 1;
}

bool tdm_gemm_is_3xtf32(const tdm_variant *row) {
    return row->op == TDM_OP_GEMM && row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_TENSOR &&
           row->parameters[TDM_GEMM_P_A_TYPE] == (int32_t)TDM_F32;
}

bool tdm_gemm_takes(const tdm_variant *row, tdm_tune_parameter parameter) {
    switch (parameter) {
    case TDM_TUNE_ROW_ITEMS:
        return row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_PANEL;
    case TDM_TUNE_PACK_B:
        return row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_PANEL &&
               row->op != TDM_OP_GEMM_WEIGHTS;
    case TDM_TUNE_COL_ITEMS:
        return row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_PANEL ||
               (row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_SMALL_M &&
                tdm_gemm_small_m_on_cores(row));
    case TDM_TUNE_SPLIT_K:
        return row->op != TDM_OP_GEMM_WEIGHTS ||
               row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_TENSOR;
    case TDM_TUNE_PARAMETERS:
        break;
    }
    return false;
}

static bool reads_lines(const tdm_variant *v) {
    return v->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_SMALL_M && tdm_gemm_small_m_on_cores(v);
}

/* True if a quantization group would end inside a chunk that also holds other groups. */
static bool parts_chunks(const tdm_gemm_problem *p, const tdm_variant *v) {
    const int32_t chunk = reads_lines(v) ? v->parameters[TDM_GEMM_P_CHUNK] : 0;
    return chunk != 0 && p->group < p->k && p->group % chunk != 0 && chunk % p->group != 0;
}

static const char *check_weights(const tdm_gemm_problem *p, const tdm_variant *v, char *reason) {
    const int32_t a = v->parameters[TDM_GEMM_P_A_TYPE], b = v->parameters[TDM_GEMM_P_B_TYPE];
    if (b != 0 && b != (int32_t)p->b.dtype)
        return "the variant is for another type of B";
    if (a == TDM_GEMM_QUANTIZED_A && !p->quantize_a)
        return "the variant is for quantized rows of A";
    if (parts_chunks(p, v))
        return "the group size neither divides the chunk along K nor is a multiple of it";
    if (a > 0 && a != (int32_t)p->a.dtype)
        return "the variant is for another type of A";
    if (p->quantize_a && (a > 0 || (a == 0 && v->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_PANEL)))
        return "rows of A are quantized";
    if (v->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_SMALL_M && !tdm_gemm_small_m_on_cores(v))
        return tdm_gemm_weights_refuse_steps(p, reason);
    return NULL;
}

static const char *check_types(const tdm_gemm_problem *p, const tdm_variant *v, char *reason) {
    if (v->op == TDM_OP_GEMM_INT) // every integer problem is s8 or u8 by s8
        return NULL;
    if (v->op == TDM_OP_GEMM_WEIGHTS)
        return check_weights(p, v, reason);
    if (tdm_gemm_is_3xtf32(v) && !p->allows_3xtf32)
        return "the variant multiplies f32 as three tf32 products, which the description does not "
               "allow";
    const bool swaps =
        v->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_SMALL_M && tdm_gemm_small_m_swaps(p);
    const int32_t a = v->parameters[swaps ? TDM_GEMM_P_B_TYPE : TDM_GEMM_P_A_TYPE],
                  b = v->parameters[swaps ? TDM_GEMM_P_A_TYPE : TDM_GEMM_P_B_TYPE];
    if ((a == 0 || a == (int32_t)p->a.dtype) && (b == 0 || b == (int32_t)p->b.dtype))
        return NULL;
    snprintf(reason, TDM_REASON_TEXT, "A is %s and B is %s", tdm_dtype_name(p->a.dtype),
             tdm_dtype_name(p->b.dtype));
    return reason;
}

static const char *check_device(const tdm_variant *v, const tdm_device *device, char *reason) {
    const uint32_t items = (uint32_t)v->parameters[TDM_GEMM_P_ITEMS];
    const uint64_t local = (uint64_t)v->parameters[TDM_GEMM_P_LOCAL_BYTES];
    if (items > device->info.max_group_items) {
        snprintf(reason, TDM_REASON_TEXT, "needs %u work-items per group, the device allows %u",
                 items, device->info.max_group_items);
        return reason;
    }
    if (local > device->info.local_bytes) {
        snprintf(reason, TDM_REASON_TEXT, "needs %llu bytes of local memory, the device has %llu",
                 (unsigned long long)local, (unsigned long long)device->info.local_bytes);
        return reason;
    }
    return NULL;
}

static const char *check_built(const selection *s, const tdm_variant *v, char *reason) {
    for (int i = 0; i < s->unusable_count; i++) {
        if (s->unusable[i].variant != v)
            continue;
        if (s->unusable[i].is_wrong)
            return "its kernel computes wrong results on this device";
        if (s->unusable[i].allowed_items == 0)
            return "its kernel does not build on this device";
        if (s->unusable[i].allowed_items >= (uint32_t)v->parameters[TDM_GEMM_P_ITEMS])
            return "the device cannot run one of its clusters";
        snprintf(reason, TDM_REASON_TEXT, "needs %d work-items per group, its kernel allows %u",
                 (int)v->parameters[TDM_GEMM_P_ITEMS], s->unusable[i].allowed_items);
        return reason;
    }
    return NULL;
}

/*
 * A tile in local memory pays off if the problem fills it and there are enough tiles to keep every
 * compute unit busy. The smallest tile of the table is used for everything else.
 */
static const char *check_tile_preference(const tdm_gemm_problem *p, const tdm_variant *v,
                                         const tdm_device *device, char *reason) {
    const int64_t rows = v->parameters[TDM_GEMM_P_ROWS],
                  columns = v->parameters[TDM_GEMM_P_COLUMNS];
    if (rows <= 32 && columns <= 32) {
        // No integer family covers all problems with a small M or N. If a side is far smaller than
        // a tile, one work-item per element wastes less.
        if (p->op != TDM_OP_GEMM_INT || (p->m > rows / 4 && p->n > columns / 4))
            return NULL;
        snprintf(reason, TDM_REASON_TEXT, "the matrix is smaller than a quarter of a tile");
        return reason;
    }
    if (p->m <= rows / 2 || p->n <= columns / 2) {
        snprintf(reason, TDM_REASON_TEXT, "the matrix is smaller than half a tile");
        return reason;
    }
    const double tiles = (double)tdm_ceil_div(p->m, rows) * (double)tdm_ceil_div(p->n, columns) *
                         (double)tdm_gemm_z_count(p);
    if (tiles < 2.0 * device->info.compute_units) {
        snprintf(reason, TDM_REASON_TEXT, "%.0f tiles are too few for %u compute units", tiles,
                 device->info.compute_units);
        return reason;
    }
    return NULL;
}

/* If a side is this short, most multiplications of a fragment have zeros as operands. */
#define MIN_TENSOR_SIDE 8

/* Returns why a variant with a time model cannot compute the problem, or NULL. The predicted time
 * is not considered. */
static const char *refuse_modelled(const tdm_gemm_problem *p, const tdm_variant *v, char *reason) {
    const int32_t family = v->parameters[TDM_GEMM_P_FAMILY];
    if (family == TDM_GEMM_WGMMA && p->anywhere)
        return "the offset of A or B may not be a multiple of 16 bytes";
    return family == TDM_GEMM_WGMMA ? tdm_gemm_tensor_maps_refuse(p, reason) : NULL;
}

static bool fills_a_cluster(const tdm_gemm_problem *p, const tdm_variant *v) {
    return v->parameters[TDM_GEMM_P_FAMILY] != TDM_GEMM_WGMMA ||
           v->parameters[TDM_GEMM_P_CLUSTER] == 1 || p->m > v->parameters[TDM_GEMM_P_ROWS] / 2;
}

/* Returns why a variant with a time model should not compute the problem unless it is forced, or
 * NULL. */
static const char *misses_a_tile(const tdm_gemm_problem *p, const tdm_variant *v, char *reason) {
    if (v->op == TDM_OP_GEMM_WEIGHTS)
        return tdm_gemm_weights_misfit(p, v, reason);
    if (v->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_TILED)
        return p->m <= v->parameters[TDM_GEMM_P_ROWS] / 2 ||
                       p->n <= v->parameters[TDM_GEMM_P_COLUMNS] / 2
                   ? "the matrix is smaller than half a tile"
                   : NULL;
    // No integer family covers all problems with a small M or N.
    return p->op == TDM_OP_GEMM && (p->m <= MIN_TENSOR_SIDE || p->n <= MIN_TENSOR_SIDE)
               ? "M or N is no larger than a tensor-core fragment"
           : !fills_a_cluster(p, v) ? "half of the groups of each cluster would have no tile"
                                    : NULL;
}

/* Finds the variant with the lowest predicted time, or the first of equal ones. */
static const modelled_choice *best_modelled(const selection *s, const tdm_device *device) {
    const tdm_gemm_problem *const p = s->problem;
    modelled_choice *const best = s->modelled;
    char ignored[TDM_REASON_TEXT];
    if (best->known)
        return best;
    *best = (modelled_choice){.known = true};
    for (const tdm_variant *row = tdm_variants; row < tdm_variants + tdm_variant_count; row++) {
        tdm_gemm_waves waves;
        if (row->op != p->op || !tdm_gemm_has_wave_model(row) ||
            (row->requires & ~device->info.capabilities) || check_types(p, row, ignored) ||
            check_device(row, device, ignored) || check_built(s, row, ignored) ||
            refuse_modelled(p, row, ignored) || misses_a_tile(p, row, ignored))
            continue;
        tdm_gemm_waves_best(p, row, &device->info, &waves);
        if (best->row && waves.ns >= best->ns)
            continue;
        best->row = row;
        best->ns = waves.ns;
    }
    return best;
}

static const char *check_modelled_preference(const selection *s, const tdm_variant *v,
                                             const tdm_device *device, char *reason) {
    tdm_gemm_waves own;
    const char *const refusal = misses_a_tile(s->problem, v, reason);
    const modelled_choice *const best = refusal ? NULL : best_modelled(s, device);
    if (!best || !best->row || best->row == v)
        return refusal;
    tdm_gemm_waves_best(s->problem, v, &device->info, &own);
    snprintf(reason, TDM_REASON_TEXT, "model: %s takes %.0f %% of this variant's time",
             best->row->name, 100.0 * best->ns / own.ns);
    return reason;
}

static bool is_reference(const tdm_variant *variant) {
    return variant->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_REFERENCE;
}

static const char *supports(const void *context, const tdm_variant *variant,
                            const tdm_device *device, char reason[TDM_REASON_TEXT]) {
    const selection *const s = context;
    const tdm_gemm_problem *const p = s->problem;
    const char *refusal = check_types(p, variant, reason);
    if (!refusal)
        refusal = check_device(variant, device, reason);
    if (!refusal)
        refusal = tdm_gemm_refuse_long_k(p, variant, device, reason);
    if (!refusal)
        refusal = check_built(s, variant, reason);
    if (refusal || (variant->op == TDM_OP_GEMM_WEIGHTS && is_reference(variant)))
        return refusal;
    if (variant->op == TDM_OP_GEMM_WEIGHTS) {
        const int32_t family = variant->parameters[TDM_GEMM_P_FAMILY];
        tdm_gemm_problem wanted_problem = *p;
        wanted_problem.forced = p->forced || s->measured;
        refusal = tdm_gemm_weights_refuse(&wanted_problem, device, family, reason);
        if (refusal || wanted_problem.forced)
            return refusal;
        return family == TDM_GEMM_TENSOR  ? check_modelled_preference(s, variant, device, reason)
               : family == TDM_GEMM_TILED ? check_tile_preference(p, variant, device, reason)
                                          : NULL;
    }
    if (variant->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_SMALL_M)
        refusal = tdm_gemm_small_m_refuse_loops(p, variant, device, reason);
    const bool modelled = tdm_gemm_has_wave_model(variant), preferred = p->forced || s->measured;
    const bool wanted = preferred || tdm_forced_variant(variant->op);
    if (!refusal && modelled)
        refusal = refuse_modelled(p, variant, reason);
    if (!refusal && modelled && !wanted)
        refusal = check_modelled_preference(s, variant, device, reason);
    if (!refusal && !modelled && !preferred &&
        variant->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_TILED)
        refusal = check_tile_preference(p, variant, device, reason);
    if (!refusal && !wanted && variant->op == TDM_OP_GEMM_INT)
        refusal = tdm_gemm_int_panel_refuse(p, variant, reason);
    if (!refusal && !preferred && variant->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_SMALL_M)
        refusal = p->op == TDM_OP_GEMM_INT ? tdm_gemm_small_m_refuse_integers(p, variant, reason)
                                           : tdm_gemm_small_m_refuse(p, device, reason);
    return refusal;
}

/* Builds the variant's kernel. A failed variant is recorded, so that the next search skips it. For
 * a forced one, failure is an error. */
static tdm_status build_row(tdm_device *device, const tdm_variant *variant, selection *s,
                            bool *usable, tdm_kernel **kernel) {
    tdm_status status = tdm_device_kernel(device, variant, kernel);
    const bool is_built = status == TDM_OK;
    if (is_built && variant->op == TDM_OP_GEMM_INT)
        status = tdm_gemm_int_check(device, *kernel);
    const uint32_t needed = (uint32_t)variant->parameters[TDM_GEMM_P_ITEMS];
    *usable = status == TDM_OK && (*kernel)->limits.max_group_items >= needed &&
              (variant->parameters[TDM_GEMM_P_FAMILY] != TDM_GEMM_WGMMA ||
               tdm_gemm_wgmma_clusters(device, *kernel) > 0);
    if (*usable)
        return TDM_OK;
    const bool forced = s->problem->forced || tdm_forced_variant(variant->op);
    if (status != TDM_OK && (status != TDM_BUILD_FAILED || forced))
        return status;
    if (s->unusable_count == MAX_UNUSABLE)
        return tdm_fail(TDM_UNSUPPORTED, "gemm: the device can run none of the %d kernels",
                        MAX_UNUSABLE);
    s->modelled->known = false;
    s->unusable[s->unusable_count++] =
        (unusable_row){.variant = variant,
                       .allowed_items = status == TDM_OK ? (*kernel)->limits.max_group_items : 0,
                       .is_wrong = is_built && status == TDM_BUILD_FAILED};
    return TDM_OK;
}

/* ---- forced variants and tuning data --------------------------------------------------------- */

static const char *untaken_parameter(const tdm_choice *choice) {
    for (int i = 0; i < TDM_TUNE_PARAMETERS; i++)
        if (choice->values[i] != 0 && !tdm_gemm_takes(choice->variant, (tdm_tune_parameter)i))
            return tdm_tune_parameter_text((tdm_tune_parameter)i);
    return NULL;
}

/* Reads the values of "variant:name=value,..."; `name` becomes the name of the variant. The
 * selection checks a name without values. */
static tdm_status read_forced(tdm_gemm_plan *plan, const char **name) {
    char reason[TDM_TUNING_REASON];
    tdm_choice choice;
    if (!*name || !strchr(*name, ':'))
        return TDM_OK;
    if (tdm_choice_read(*name, &choice, reason) != TDM_TUNING_OK)
        return tdm_fail(TDM_UNSUPPORTED, "gemm: variant %s: %s", *name, reason);
    const char *const untaken = untaken_parameter(&choice);
    if (untaken)
        return tdm_fail(TDM_UNSUPPORTED, "gemm: variant %s has no parameter %s",
                        choice.variant->name, untaken);
    memcpy(plan->values, choice.values, sizeof plan->values);
    *name = choice.variant->name;
    return TDM_OK;
}

const tdm_variant *tdm_gemm_named_variant(const char *text) {
    char reason[TDM_TUNING_REASON];
    tdm_choice choice;
    if (!strchr(text, ':'))
        return tdm_variant_find(text);
    return tdm_choice_read(text, &choice, reason) == TDM_TUNING_OK ? choice.variant : NULL;
}

static tdm_tuning_query query_of(const tdm_gemm_plan *plan) {
    const tdm_gemm_problem *const p = &plan->problem;
    const tdm_gemm_matrix *const b = p->packed_b ? &plan->pack_b.source : &p->b;
    return (tdm_tuning_query){
        .op = p->op,
        .quantize_a = p->quantize_a,
        .allows_3xtf32 = p->allows_3xtf32,
        .a = p->a.dtype,
        .b = p->b.dtype,
        .layout = tdm_tuning_layout(tdm_gemm_is_transposed(&p->a), tdm_gemm_is_transposed(b)),
        .shape = {p->m, p->n, p->k, tdm_gemm_z_count(p) * tdm_gemm_outer_count(p)}};
}

/*
 * True if packed weights forbid a tuned variant. They serve plans of any M, so their panels must
 * not depend on tuning for one M. Quantized weights have the same layout for every variant.
 */
static bool is_bound_by_packing(const tdm_gemm_plan *plan) {
    return plan->problem.packed_b && plan->problem.op != TDM_OP_GEMM_WEIGHTS &&
           (plan->device->info.capabilities & TDM_CAP_CPU_CORES);
}

const tdm_tuning_row *tdm_gemm_tuned(const tdm_gemm_plan *plan, tdm_choice *choice) {
    tdm_tuning_query query = query_of(plan);
    if (is_bound_by_packing(plan))
        return NULL;
    const tdm_tuning_row *row = tdm_tuning_find(plan->device->tuning, &query);
    if (!row && query.allows_3xtf32) {
        query.allows_3xtf32 = false;
        row = tdm_tuning_find(plan->device->tuning, &query);
    }
    if (!row)
        return NULL;
    *choice = (tdm_choice){.variant = row->choice.variant};
    if (tdm_tuning_is_near(row, &query) && !untaken_parameter(&row->choice))
        *choice = row->choice;
    return row;
}

void tdm_gemm_note_tuning(tdm_gemm_plan *plan, const tdm_tuning_row *row,
                          const tdm_choice *choice) {
    char choice_text[TDM_CHOICE_TEXT], source[TDM_TUNING_SOURCE_TEXT];
    snprintf(plan->tuning, sizeof plan->tuning, "%s: %s", tdm_choice_write(choice, choice_text),
             tdm_tuning_source_write(row, source));
    tdm_log(TDM_LOG_DEBUG, "dispatch", "gemm: tuning prefers %s", plan->tuning);
}

/* True if the small-M family suits the problem. Shipped tuning data covers shapes of all sizes, but
 * memory-bound shapes need the small-M family. */
static bool suits_small_m(tdm_gemm_plan *plan) {
    char reason[TDM_REASON_TEXT];
    if (!tdm_gemm_small_m_refuse(&plan->problem, plan->device, reason))
        return true;
    tdm_log(TDM_LOG_DEBUG, "dispatch", "gemm: small-M variants refused: %s", reason);
    const size_t used = strlen(plan->refusals);
    snprintf(plan->refusals + used, sizeof plan->refusals - used, "small-M variants: %s\n", reason);
    return false;
}

/* True if a variant for which is_one is true supports the problem. */
static bool suits_any(const tdm_gemm_problem *problem, const tdm_device *device,
                      bool (*is_one)(const tdm_variant *row)) {
    char reason[TDM_REASON_TEXT];
    modelled_choice modelled = {0};
    const selection s = {.problem = problem, .modelled = &modelled};
    for (const tdm_variant *row = tdm_variants; row < tdm_variants + tdm_variant_count; row++)
        if (row->op == problem->op && is_one(row) &&
            !(row->requires & ~device->info.capabilities) && !supports(&s, row, device, reason))
            return true;
    return false;
}

bool tdm_gemm_suits_modelled(const tdm_gemm_problem *problem, const tdm_device *device) {
    return suits_any(problem, device, tdm_gemm_has_wave_model);
}

/*
 * True if the tuning entry should be ignored. Shipped defaults that were not measured never name a
 * variant for a single vendor's devices, whose time the model predicts. Entries measured without
 * the permission to split f32 never name a variant that splits it.
 */
static bool gives_way(tdm_gemm_plan *plan, const tdm_tuning_row *row) {
    if (row->line == 0 && row->ns == 0)
        return suits_small_m(plan) || tdm_gemm_suits_modelled(&plan->problem, plan->device);
    return plan->problem.allows_3xtf32 && !row->allows_3xtf32 &&
           suits_any(&plan->problem, plan->device, tdm_gemm_is_3xtf32);
}

/* Tries the variant that tuning data prefers, if it takes the problem. */
static tdm_status try_tuned(tdm_gemm_plan *plan, selection *s, bool *usable) {
    char reason[TDM_REASON_TEXT];
    tdm_choice choice;
    const tdm_tuning_row *const row = tdm_gemm_tuned(plan, &choice);
    if (!row || choice.variant->op != plan->problem.op || gives_way(plan, row))
        return TDM_OK;
    s->measured = row->ns != 0;
    memcpy(plan->values, choice.values, sizeof plan->values);
    tdm_gemm_note_tuning(plan, row, &choice);
    if (!tdm_refuse_variant(plan->device, row->choice.variant, "gemm", supports, s, plan->refusals,
                            sizeof plan->refusals, reason))
        TDM_TRY(build_row(plan->device, row->choice.variant, s, usable, &plan->kernel));
    s->measured = false;
    if (*usable) {
        tdm_log(TDM_LOG_DEBUG, "dispatch", "gemm: %s chosen", row->choice.variant->name);
        return TDM_OK;
    }
    memset(plan->values, 0, sizeof plan->values);
    plan->tuning[0] = '\0';
    return TDM_OK;
}

/* ---- the selection --------------------------------------------------------------------------- */

tdm_status tdm_gemm_select(tdm_gemm_plan *plan, const char *forced) {
    modelled_choice modelled = {0};
    selection s = {.problem = &plan->problem, .modelled = &modelled};
    bool usable = false;
    TDM_TRY(read_forced(plan, &forced));
    if (!forced && !tdm_forced_variant(plan->problem.op))
        TDM_TRY(try_tuned(plan, &s, &usable));
    const size_t refused = strlen(plan->refusals);
    while (!usable) {
        const tdm_variant *variant;
        plan->refusals[refused] = '\0';
        TDM_TRY(tdm_select_variant(plan->device, plan->problem.op, "gemm", forced, supports, &s,
                                   plan->refusals, sizeof plan->refusals, &variant));
        TDM_TRY(build_row(plan->device, variant, &s, &usable, &plan->kernel));
    }
    return TDM_OK;
}

/* ---- packing kernels ------------------------------------------------------------------------- */

typedef struct pack_request {
    int width;
    tdm_dtype source, panels;
} pack_request;

static const char *supports_pack(const void *context, const tdm_variant *variant,
                                 const tdm_device *device, char reason[TDM_REASON_TEXT]) {
    const pack_request *const r = context;
    (void)device;
    const int32_t *const p = variant->parameters;
    if (p[TDM_PACK_P_WIDTH] == r->width && p[TDM_PACK_P_SOURCE] == (int32_t)r->source &&
        p[TDM_PACK_P_PANELS] == (int32_t)r->panels)
        return NULL;
    snprintf(reason, TDM_REASON_TEXT, "needs panels of %d columns of %s", r->width,
             tdm_dtype_name(r->source));
    return reason;
}

static tdm_status select_pack(tdm_device *device, tdm_op op, const pack_request *request,
                              tdm_kernel **kernel) {
    const tdm_variant *variant;
    TDM_TRY(tdm_select_variant(device, op, "gemm: packing", NULL, supports_pack, request, NULL, 0,
                               &variant));
    return tdm_device_kernel(device, variant, kernel);
}

tdm_status tdm_gemm_select_pack(tdm_device *device, int width, tdm_dtype source, tdm_dtype panels,
                                tdm_kernel **kernel) {
    const pack_request request = {.width = width, .source = source, .panels = panels};
    return select_pack(device, TDM_OP_GEMM_PACK, &request, kernel);
}

tdm_status tdm_gemm_select_int_pack(tdm_device *device, int width, tdm_kernel **kernel) {
    const pack_request request = {.width = width, .source = TDM_S8, .panels = TDM_S8};
    return select_pack(device, TDM_OP_GEMM_INT_PACK, &request, kernel);
}
