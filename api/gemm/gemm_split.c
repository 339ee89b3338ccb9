/*
 * These functions split K. If a launch has too few tiles for the device and K is long, parts of K
 * are multiplied like batch entries. Their f32 sums go to the workspace. One more launch adds the
 * parts in order and computes the epilogue. Integer parts are s32 sums, with zero points already
 * subtracted. Their total modulo 2^32 is the sum over all of K.
 *
 * One launch computes the parts of `depth` steps each. Another one computes the rest of K, which is
 * shorter than a part. Apart from the kernel that adds the parts, only tensor-core kernels for
 * quantized weights know about the split. They compute all parts in one launch.
 */
#include <stdio.h>

#include "api/gemm/gemm_internal.h"

/*
 * A split aims for this many tiles per compute unit. CPU cores start at different times, because
 * they have to be woken up. GPUs hide latency with many work-groups. For tiled and small-M kernels
 * on GPUs, the number of resident work-groups is used instead, if the backend reports it.
 */
#define TILES_PER_CORE 4
#define TILES_PER_UNIT 8
/* K is split among CPU cores if there are fewer than FEW_TILES tiles per core, and K is at least
 * THIN times the longer of M and N. */
#define FEW_TILES 8.0
#define THIN 64.0
/* A work-item of the kernel that adds the parts processes this many elements. */
#define PIECE 4
#define GROUP 64

/* Returns the number of work-groups that a launch has per batch entry. */
static double tiles_of(const tdm_gemm_plan *plan) {
    const tdm_gemm_problem *const p = &plan->problem;
    const tdm_variant *const row = plan->kernel->variant;
    const double columns = (double)tdm_ceil_div(p->n, row->parameters[TDM_GEMM_P_COLUMNS]);
    int64_t small_tiles, large_tiles;
    if (tdm_gemm_small_m_groups_integers(row)) {
        tdm_gemm_small_m_tiles(p, row, &small_tiles, &large_tiles);
        return (double)small_tiles * (double)large_tiles;
    }
    switch (row->parameters[TDM_GEMM_P_FAMILY]) {
    case TDM_GEMM_REFERENCE:
        return (double)p->m * (double)p->n / 64.0;
    case TDM_GEMM_SMALL_M:
        return p->op == TDM_OP_GEMM_INT || tdm_gemm_small_m_on_cores(row)
                   ? columns
                   : (double)tdm_gemm_small_m_groups(p);
    default:
        return columns * (double)tdm_ceil_div(p->m, row->parameters[TDM_GEMM_P_ROWS]);
    }
}

/*
 * True if copying A and B to local memory takes most of the time. Each CPU core copies what it
 * reads. If K is split among the cores, each element is copied once. If M or N is split, elements
 * are copied several times.
 */
static bool copies_dominate(const tdm_gemm_plan *plan, double tiles) {
    const tdm_gemm_problem *const p = &plan->problem;
    const double longer = (double)(p->m > p->n ? p->m : p->n);
    return plan->kernel->variant->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_PANEL &&
           tiles < FEW_TILES * (double)plan->device->info.compute_units &&
           (double)p->k >= THIN * longer;
}

/* Returns the number of work-groups that a compute unit holds at once, or 0 if it is unknown. */
static uint32_t groups_held(const tdm_gemm_plan *plan) {
    const int32_t *const row = plan->kernel->variant->parameters;
    const bool on_cores = plan->device->info.capabilities & TDM_CAP_CPU_CORES;
    if (on_cores ||
        (row[TDM_GEMM_P_FAMILY] != TDM_GEMM_TILED && row[TDM_GEMM_P_FAMILY] != TDM_GEMM_SMALL_M))
        return 0;
    return tdm_kernel_resident_groups(plan->device, plan->kernel, (uint32_t)row[TDM_GEMM_P_ITEMS]);
}

/* Returns the number of tiles that keeps the device busy. */
static double tiles_wanted(const tdm_gemm_plan *plan) {
    const uint32_t held = groups_held(plan);
    const bool on_cores = plan->device->info.capabilities & TDM_CAP_CPU_CORES;
    const uint32_t usual = on_cores ? TILES_PER_CORE : TILES_PER_UNIT;
    return (double)plan->device->info.compute_units * (held != 0 ? held : usual);
}

/* Returns the number of parts that pays off, or 1 if K should not be split. */
static int64_t parts_that_pay(const tdm_gemm_plan *plan) {
    const tdm_gemm_problem *const p = &plan->problem;
    if (tdm_gemm_has_wave_model(plan->kernel->variant)) {
        tdm_gemm_waves waves;
        tdm_gemm_waves_best(p, plan->kernel->variant, &plan->device->info, &waves);
        return waves.asked;
    }
    const double units = plan->device->info.compute_units,
                 tiles =
                     tiles_of(plan) * (double)tdm_gemm_z_count(p) * (double)tdm_gemm_outer_count(p);
    if (!tdm_gemm_is_long(p))
        return 1;
    if (tiles >= units)
        return copies_dominate(plan, tiles) ? (int64_t)units : 1;
    int64_t parts = p->k / TDM_GEMM_PART_DEPTH;
    if (parts > TDM_GEMM_MAX_PARTS)
        parts = TDM_GEMM_MAX_PARTS;
    const double enough = tiles_wanted(plan) / (tiles > 1.0 ? tiles : 1.0) + 1.0;
    return (double)parts < enough ? parts : (int64_t)enough;
}

/* Counts the sums in one part (`entry`) and in all parts (`sums`). Returns false on overflow. */
static bool count_sums(const tdm_gemm_problem *p, const tdm_gemm_split *split, int64_t *entry,
                       int64_t *sums) {
    int64_t bytes;
    return !tdm_mul_overflows(p->m, p->n, entry) && *entry <= INT32_MAX &&
           !tdm_mul_overflows(*entry, split->slots, sums) &&
           !tdm_mul_overflows(*sums, tdm_gemm_z_count(p) * tdm_gemm_outer_count(p), sums) &&
           !tdm_mul_overflows(*sums, (int64_t)sizeof(float), &bytes);
}

static tdm_dtype dtype_of_parts(const tdm_gemm_problem *p) {
    return p->op == TDM_OP_GEMM_INT ? TDM_S32 : TDM_F32;
}

/* Makes the partial sums the output D. The last batch dimension is the part, with `entry` sums
 * each. */
static void place_parts(tdm_gemm_problem *p, const tdm_gemm_split *split, int64_t entry) {
    int64_t stride = entry * split->slots;
    p->d = (tdm_gemm_matrix){.dtype = dtype_of_parts(p), .row = p->n, .col = 1};
    p->d.batch[p->batch_rank - 1] = entry;
    for (int i = p->batch_rank - 2; i >= 0; i--) {
        p->d.batch[i] = stride;
        stride *= p->batch_shape[i];
    }
}

/* Removes the epilogue, which the kernel that adds the parts computes. */
static void leave_epilogue(tdm_gemm_problem *p) {
    const tdm_gemm_matrix none = {.dtype = TDM_DTYPE_NONE};
    p->c = p->residual = none;
    if (p->op == TDM_OP_GEMM_INT) // the parts subtract zero points
        p->a_scale = p->b_scale = p->d_scale = p->d_zero = none;
    p->bias = TDM_DTYPE_NONE;
    p->bias_row = p->bias_col = 0;
    p->alpha = 1.0f;
    p->beta = 0.0f;
    p->activation = TDM_ACT_NONE;
    p->gated = false;
}

/* Adds a batch dimension to the problem, whose entries are the parts of equal depth. */
static void take_parts(tdm_gemm_problem *p, const tdm_gemm_split *split, int64_t entry) {
    const int z = p->batch_rank++;
    p->batch_shape[z] = split->parts;
    p->batch_axis[z] = TDM_GEMM_BATCH_RANK;
    p->a.batch[z] = split->depth * p->a.col;
    p->b.batch[z] = split->depth * p->b.row;
    p->k = split->depth;
    leave_epilogue(p);
    place_parts(p, split, entry);
}

/* Returns the requested number of parts, or the number that pays off. It is at most K, and at least
 * tdm_gemm_least_parts. */
static int64_t choose_parts(const tdm_gemm_plan *plan) {
    const tdm_gemm_problem *const p = &plan->problem;
    const int64_t given = plan->values[TDM_TUNE_SPLIT_K],
                  least = tdm_gemm_least_parts(p, plan->device);
    const int64_t parts = given != 0 ? given : parts_that_pay(plan);
    if (parts < least)
        return least;
    return parts < p->k ? parts : p->k;
}

static void log_split(const tdm_gemm_plan *plan, const tdm_gemm_split *split, bool given) {
    char reason[96] = "";
    if (!given) {
        const bool modelled = tdm_gemm_has_wave_model(plan->kernel->variant);
        const uint32_t held = modelled ? 0 : groups_held(plan);
        const int used = snprintf(reason, sizeof reason, ": %stoo few tiles for the compute units",
                                  modelled ? "model: " : "");
        if (held != 0)
            snprintf(reason + used, sizeof reason - (size_t)used,
                     ", each of which runs %u groups at once", held);
    }
    tdm_log(TDM_LOG_DEBUG, "dispatch",
            "gemm: K of %lld split into %lld parts of %lld and a remainder of %lld%s",
            (long long)plan->problem.k, (long long)split->parts, (long long)split->depth,
            (long long)split->rest, reason);
}

static void take_cut(tdm_gemm_split *split, const tdm_gemm_cut *cut) {
    split->parts = cut->parts;
    split->depth = cut->depth;
    split->rest = cut->rest;
    split->slots = cut->slots;
}

static const char *supports_reduce(const void *context, const tdm_variant *variant,
                                   const tdm_device *device, char reason[TDM_REASON_TEXT]) {
    const tdm_dtype parts = *(const tdm_dtype *)context;
    (void)device;
    if (variant->parameters[0] == (int32_t)parts)
        return NULL;
    snprintf(reason, TDM_REASON_TEXT, "the partial sums are %s", tdm_dtype_name(parts));
    return reason;
}

static tdm_status select_reduce(tdm_device *device, tdm_dtype parts, tdm_kernel **kernel) {
    const tdm_variant *variant;
    TDM_TRY(tdm_select_variant(device, TDM_OP_GEMM_REDUCE, "gemm: adding the partial sums of K",
                               NULL, supports_reduce, &parts, NULL, 0, &variant));
    return tdm_device_kernel(device, variant, kernel);
}

tdm_status tdm_gemm_split_k(tdm_gemm_plan *plan) {
    tdm_gemm_problem *const p = &plan->problem;
    tdm_gemm_split split = {.whole = *p};
    const int64_t given = plan->values[TDM_TUNE_SPLIT_K];
    const char *const refusal = tdm_gemm_split_refuse(p, plan->kernel->variant);
    int64_t entry, sums;
    if (given > 1 && refusal && p->forced)
        return tdm_fail(TDM_UNSUPPORTED, "gemm: split_k is %lld: %s", (long long)given, refusal);
    if (refusal || tdm_gemm_z_count(p) == 0 || p->alpha == 0.0f)
        return TDM_OK;
    split.asked = choose_parts(plan);
    if (split.asked < 2)
        return TDM_OK;
    const tdm_gemm_cut cut = tdm_gemm_cut_k(p, split.asked);
    take_cut(&split, &cut);
    // Tensor maps treat parts as batch entries. Their distance must be a multiple of 16 bytes.
    if (split.depth % TDM_GEMM_PART_STEP != 0 &&
        plan->kernel->variant->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_WGMMA)
        return TDM_OK;
    if (!count_sums(p, &split, &entry, &sums)) {
        char reason[TDM_REASON_TEXT];
        if (tdm_gemm_least_parts(p, plan->device) == 1)
            return TDM_OK;
        return tdm_fail(TDM_UNSUPPORTED, "gemm: %s",
                        tdm_refuse_long_loop(plan->device, p->k, reason));
    }
    TDM_TRY(select_reduce(plan->device, dtype_of_parts(p), &split.reduce));
    split.bytes = (uint64_t)sums * sizeof(float);
    log_split(plan, &split, given != 0);
    plan->split = split;
    take_parts(p, &split, entry);
    return TDM_OK;
}

/* Makes the partial sums the output D. All parts of a batch entry are adjacent; kernels compute
 * the offset of their part. */
static void place_sums(tdm_gemm_problem *p, const tdm_gemm_split *split, int64_t entry) {
    int64_t stride = entry * split->slots;
    p->d = (tdm_gemm_matrix){.dtype = TDM_F32, .row = p->n, .col = 1};
    for (int i = p->batch_rank - 1; i >= 0; i--) {
        p->d.batch[i] = stride;
        stride *= p->batch_shape[i];
    }
}

tdm_status tdm_gemm_split_weights(tdm_gemm_plan *plan) {
    tdm_gemm_problem *const p = &plan->problem;
    tdm_gemm_split split = {.whole = *p};
    int64_t entry, sums;
    if (tdm_gemm_z_count(p) == 0 || p->alpha == 0.0f)
        return TDM_OK;
    split.asked = choose_parts(plan);
    if (split.asked < 2)
        return TDM_OK;
    const tdm_gemm_cut cut = tdm_gemm_cut_k(p, split.asked);
    take_cut(&split, &cut);
    if (split.parts < 2 || !count_sums(p, &split, &entry, &sums))
        return TDM_OK;
    TDM_TRY(select_reduce(plan->device, dtype_of_parts(p), &split.reduce));
    split.bytes = (uint64_t)sums * sizeof(float);
    log_split(plan, &split, plan->values[TDM_TUNE_SPLIT_K] != 0);
    plan->split = split;
    leave_epilogue(p);
    place_sums(p, &split, entry);
    return TDM_OK;
}

tdm_status tdm_gemm_plan_epilogue(tdm_gemm_plan *plan) {
    const tdm_gemm_problem *const p = &plan->problem;
    tdm_gemm_split *const split = &plan->split;
    int64_t items;
    if (tdm_mul_overflows(p->m, tdm_ceil_div(p->n, PIECE), &items) || items > INT32_MAX)
        return tdm_fail(TDM_UNSUPPORTED, "gemm: alpha is 0 and D of %lld by %lld is too large",
                        (long long)p->m, (long long)p->n);
    *split = (tdm_gemm_split){.whole = *p};
    split->whole.op = TDM_OP_GEMM; // D and all that the epilogue reads are floats
    split->whole.alpha = 0.0f;     // not -0, whose sign would reach D
    plan->workspace_bytes = 0;
    return select_reduce(plan->device, TDM_F32, &split->reduce);
}

void tdm_gemm_reduce_shape(const tdm_gemm_plan *plan, tdm_gemm_reduce_launch *launch) {
    const tdm_gemm_split *const split = &plan->split;
    const tdm_gemm_problem *const whole = &split->whole;
    const uint32_t limit = split->reduce->limits.max_group_items;
    const int64_t items = whole->m * tdm_ceil_div(whole->n, PIECE);
    launch->group = limit < GROUP ? limit : GROUP;
    launch->groups = (uint32_t)tdm_ceil_div(items, launch->group);
    launch->part = whole->m * whole->n;
}
