/* These functions create out-of-core plans. A plan holds everything that is chosen, allocated and
 * built once. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "api/device/device_internal.h"
#include "api/outofcore/outofcore_internal.h"

/* This many choices are tried until one fits together with its workspace. */
#define MAX_TRIES 16
/* If a workspace was too large, the next estimate grows by this factor. */
#define GROWTH 1.05

/* ---- checks ---------------------------------------------------------------------------------- */

static tdm_status check_rate(const char *name, double rate) {
    if (rate >= 0.0 && isfinite(rate))
        return TDM_OK;
    return tdm_fail(TDM_BAD_ARGUMENT,
                    "outofcore: %s of rates is %g, must be finite and not negative", name, rate);
}

static tdm_status check_rates(const tdm_outofcore_rates *rates) {
    TDM_TRY(check_rate("in_bytes_per_s", rates->in_bytes_per_s));
    TDM_TRY(check_rate("out_bytes_per_s", rates->out_bytes_per_s));
    TDM_TRY(check_rate("operations_per_s", rates->operations_per_s));
    TDM_TRY(check_rate("step_s", rates->step_s));
    if (rates->overlap < -1 || rates->overlap > 1)
        return tdm_fail(TDM_BAD_ARGUMENT, "outofcore: overlap of rates is %d, must be -1, 0 or 1",
                        rates->overlap);
    return TDM_OK;
}

/*
 * Copies a description of any version. The GEMM description is its last member, so a longer GEMM
 * description extends the whole. In that case tdm_struct_read has checked that the extension is
 * zero.
 */
static tdm_status take_desc(const tdm_outofcore_desc *given, tdm_outofcore_desc *desc) {
    const tdm_outofcore_desc *const read =
        tdm_struct_read("outofcore", "desc", given, sizeof *desc, desc);
    if (!read)
        return TDM_BAD_ARGUMENT;
    if (read != desc)
        *desc = *read;
    if (given->struct_size > sizeof *desc && desc->gemm.struct_size > sizeof desc->gemm)
        desc->gemm.struct_size = sizeof desc->gemm;
    tdm_gemm_desc room;
    const size_t size = desc->gemm.struct_size;
    if (size > sizeof room)
        return tdm_fail(TDM_BAD_ARGUMENT,
                        "outofcore: struct_size of desc.gemm is %zu, its size here is %zu", size,
                        sizeof room);
    const tdm_gemm_desc *const gemm =
        tdm_struct_read("outofcore", "desc.gemm", &desc->gemm, sizeof room, &room);
    if (!gemm)
        return TDM_BAD_ARGUMENT;
    if (gemm == &room)
        desc->gemm = room;
    return TDM_OK;
}

static tdm_status check_desc(const tdm_outofcore_desc *desc) {
    if (desc->gemm.packed_b)
        return tdm_fail(TDM_UNSUPPORTED,
                        "outofcore: gemm.packed_b is set, but packed weights are not supported");
    if (desc->budget_bytes == 0)
        return tdm_fail(TDM_BAD_ARGUMENT, "outofcore: budget_bytes is 0");
    if (desc->tile_rows < 0 || desc->tile_columns < 0)
        return tdm_fail(TDM_BAD_ARGUMENT,
                        "outofcore: the tile is %lld by %lld, must be 0 or positive",
                        (long long)desc->tile_rows, (long long)desc->tile_columns);
    if (desc->buffers < 0 || desc->buffers > TDM_OOC_MAX_SLOTS)
        return tdm_fail(TDM_BAD_ARGUMENT, "outofcore: buffers is %d, at most %d", desc->buffers,
                        TDM_OOC_MAX_SLOTS);
    return check_rates(&desc->rates);
}

/* ---- choosing -------------------------------------------------------------------------------- */

void tdm_ooc_drop_products(tdm_outofcore_plan *plan) {
    for (int i = 0; i < 4; i++)
        for (int part = 0; part < TDM_OOC_PARTS; part++) {
            tdm_gemm_plan **const product = &plan->products[i / 2][i % 2][part];
            tdm_gemm_plan_destroy(*product);
            *product = NULL;
        }
}

/* Gets the extent of all tiles but the last. Also gets that of the last tile if it is smaller, else
 * 0. */
static void extents_of(int64_t whole, int64_t tile, int64_t extents[2]) {
    extents[0] = tile;
    extents[1] = whole % tile;
}

/* Adds a plan for operands that begin at an address that the tile's kernel cannot read. An in-core
 * plan does the same. */
static tdm_status build_unaligned(const tdm_outofcore_plan *plan, tdm_gemm_desc *desc,
                                  tdm_gemm_plan *product) {
    if (!plan->problem.unaligned[0])
        return TDM_OK;
    desc->variant = plan->problem.unaligned;
    TDM_TRY(tdm_gemm_plan_build(plan->device, desc, false, &product->unaligned));
    if (product->workspace_bytes < product->unaligned->workspace_bytes)
        product->workspace_bytes = product->unaligned->workspace_bytes;
    return TDM_OK;
}

static tdm_status build_product(tdm_outofcore_plan *plan, tdm_gemm_desc *desc, bool whole,
                                tdm_gemm_plan **product, uint64_t *workspace) {
    TDM_TRY(tdm_gemm_plan_build(plan->device, desc, false, product));
    if (whole) // plans for steps of K make their own unaligned plans
        TDM_TRY(build_unaligned(plan, desc, *product));
    if ((*product)->workspace_bytes > *workspace)
        *workspace = (*product)->workspace_bytes;
    return TDM_OK;
}

/* Builds the GEMMs of one tile shape: one for all of K, or the first, middle and last ones. */
static tdm_status build_parts(tdm_outofcore_plan *plan, int64_t rows, int64_t columns,
                              tdm_gemm_plan *products[TDM_OOC_PARTS], uint64_t *workspace) {
    const tdm_ooc_problem *const p = &plan->problem;
    const int64_t depth = plan->choice.depth;
    tdm_gemm_desc desc;
    if (depth == 0) {
        TDM_TRY(tdm_ooc_tile_desc(p, rows, columns, p->k, false, &desc));
        return build_product(plan, &desc, true, &products[TDM_OOC_WHOLE], workspace);
    }
    const int64_t last = p->k - (tdm_ceil_div(p->k, depth) - 1) * depth;
    for (int part = 0; part < TDM_OOC_PARTS; part++) {
        TDM_TRY(tdm_ooc_part_desc(p, rows, columns, part == TDM_OOC_LAST ? last : depth,
                                  (tdm_ooc_part)part, &desc));
        TDM_TRY(build_product(plan, &desc, false, &products[part], workspace));
    }
    return TDM_OK;
}

tdm_status tdm_ooc_build_products(tdm_outofcore_plan *plan, uint64_t *workspace) {
    const tdm_ooc_choice *const c = &plan->choice;
    tdm_ooc_problem *const p = &plan->problem;
    int64_t rows[2], columns[2];
    *workspace = 0;
    tdm_ooc_drop_products(plan);
    tdm_ooc_arrange(p, c->tile_rows, c->tile_columns, c->depth > 0 ? c->depth : p->k);
    extents_of(p->m, c->tile_rows, rows);
    extents_of(p->n, c->tile_columns, columns);
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 2; j++)
            if (rows[i] > 0 && columns[j] > 0)
                TDM_TRY(build_parts(plan, rows[i], columns[j], plan->products[i][j], workspace));
    return TDM_OK;
}

static uint64_t slot_bytes(const tdm_outofcore_plan *plan) {
    uint64_t bytes = 0;
    for (int i = 0; i < TDM_OOC_MATRICES; i++)
        bytes += (uint64_t)plan->problem.operands[i].slots * plan->problem.operands[i].slot_bytes;
    return bytes;
}

static uint64_t partial_bytes(const tdm_ooc_choice *c) {
    return c->depth > 0 ? (uint64_t)(c->tile_rows * c->tile_columns) * TDM_OOC_PARTIAL_BYTES : 0;
}

static uint64_t constant_bytes(const tdm_ooc_problem *problem) {
    uint64_t bytes = 0;
    for (int i = 0; i < TDM_OOC_CONSTANTS; i++)
        if (!problem->constants[i].on_device)
            bytes += problem->constants[i].bytes;
    return bytes;
}

static void take_slots(tdm_outofcore_plan *plan) {
    const tdm_ooc_choice *const c = &plan->choice;
    const int slots[TDM_OOC_MATRICES] = {[TDM_OOC_A] = c->a_slots,
                                         [TDM_OOC_B] = c->b_slots,
                                         [TDM_OOC_C] = c->d_slots,
                                         [TDM_OOC_RESIDUAL] = c->d_slots,
                                         [TDM_OOC_D] = c->d_slots};
    for (int i = 0; i < TDM_OOC_MATRICES; i++) {
        tdm_ooc_operand *const o = &plan->problem.operands[i];
        o->slots = o->present && !o->on_device ? slots[i] : 0;
    }
}

static tdm_status refuse_tile(const tdm_ooc_problem *p, const tdm_ooc_bounds *bounds) {
    return tdm_fail(TDM_UNSUPPORTED,
                    "outofcore: tiles of %lld by %lld (0: any) of D of %lld by %lld, or the last "
                    "of them, would round sums differently from the whole GEMM",
                    (long long)bounds->tile_rows, (long long)bounds->tile_columns, (long long)p->m,
                    (long long)p->n);
}

static tdm_status over_budget(const tdm_ooc_problem *p, const tdm_ooc_bounds *bounds,
                              uint64_t least) {
    return tdm_fail(
        TDM_OVER_BUDGET,
        "outofcore: the smallest tile needs %llu bytes for %s K = %lld (%s); budget_bytes is %llu",
        (unsigned long long)least, bounds->cuts_k ? "one step of" : "all of", (long long)p->k,
        bounds->cuts_k ? "split as finely as possible" : "K is not split",
        (unsigned long long)bounds->budget);
}

/* Rounds a tile so that tiles of sub-byte elements begin at a byte. */
static int64_t whole_units(const tdm_ooc_problem *p, int64_t tile) {
    const int per = tdm_dtype_info(p->desc.b.dtype)->elements_per_unit;
    return tdm_ceil_div(tile, per) * per;
}

/*
 * Makes a choice that fits the budget together with its workspace, which is known only after plans
 * are built. If the workspace is too large, the next choice takes it into account. If nothing fits,
 * *least is the number of bytes needed.
 */
static tdm_status choose_within(tdm_outofcore_plan *plan, tdm_ooc_bounds bounds, uint64_t *least) {
    tdm_ooc_problem *const p = &plan->problem;
    const tdm_outofcore_rates *const rates = &plan->info.rates;
    uint64_t workspace = 0;
    for (int try = 0; try < MAX_TRIES; try++) {
        if (!tdm_ooc_choose(p, &bounds, rates, &plan->choice, least))
            return *least == 0 ? refuse_tile(p, &bounds) : over_budget(p, &bounds, *least);
        TDM_TRY(tdm_ooc_build_products(plan, &workspace));
        take_slots(plan);
        plan->info.device_bytes =
            bounds.reserved + workspace + slot_bytes(plan) + partial_bytes(&plan->choice);
        if (plan->info.device_bytes <= bounds.budget)
            return TDM_OK;
        const double per_column = (double)workspace / (double)plan->choice.tile_columns;
        bounds.workspace_per_column = per_column > bounds.workspace_per_column
                                          ? per_column
                                          : GROWTH * bounds.workspace_per_column;
    }
    *least = plan->info.device_bytes;
    return over_budget(p, &bounds, *least);
}

/* Splits K only if no tile with all of K fits. A split of a short K may need more memory, because
 * it uses more buffers and a partial tile. */
static tdm_status choose(tdm_outofcore_plan *plan, const tdm_outofcore_desc *desc) {
    const tdm_ooc_problem *const p = &plan->problem;
    tdm_ooc_bounds bounds = {.budget = desc->budget_bytes,
                             .reserved = constant_bytes(p),
                             .tile_rows = desc->tile_rows,
                             .tile_columns = whole_units(p, desc->tile_columns),
                             .buffers = desc->buffers};
    const int64_t unit = tdm_ooc_k_unit(p);
    uint64_t whole = 0, cut = 0;
    tdm_status status = choose_within(plan, bounds, &whole);
    if (status != TDM_OVER_BUDGET || desc->whole_k || unit == 0 || p->k <= unit)
        return status;
    bounds.cuts_k = true;
    status = choose_within(plan, bounds, &cut);
    bounds.cuts_k = false;
    return status == TDM_OVER_BUDGET && whole < cut ? over_budget(p, &bounds, whole) : status;
}

/* ---- allocating ------------------------------------------------------------------------------ */

static tdm_status allocate(tdm_outofcore_plan *plan) {
    const uint32_t in = plan->streams[TDM_OOC_IN]->id, compute = plan->streams[TDM_OOC_COMPUTE]->id;
    uint64_t workspace = 0;
    for (int i = 0; i < TDM_OOC_MATRICES; i++) {
        tdm_ooc_operand *const o = &plan->problem.operands[i];
        for (int slot = 0; slot < o->slots; slot++)
            TDM_TRY(tdm_buffer_create_for(plan->device, i == TDM_OOC_D ? compute : in,
                                          (size_t)o->slot_bytes, &o->buffers[slot]));
    }
    for (int i = 0; i < TDM_OOC_CONSTANTS; i++) {
        tdm_ooc_constant *const c = &plan->problem.constants[i];
        if (c->layout.dtype != TDM_DTYPE_NONE && !c->on_device)
            TDM_TRY(tdm_buffer_create_for(plan->device, in, c->bytes, &c->buffer));
    }
    for (int i = 0; i < 4 * TDM_OOC_PARTS; i++) {
        const tdm_gemm_plan *const product = plan->products[i / 2 % 2][i % 2][i / 4];
        if (product && product->workspace_bytes > workspace)
            workspace = product->workspace_bytes;
    }
    if (plan->choice.depth > 0)
        TDM_TRY(tdm_buffer_create_for(plan->device, compute, (size_t)partial_bytes(&plan->choice),
                                      &plan->partial));
    if (workspace == 0)
        return TDM_OK;
    return tdm_buffer_create_for(plan->device, compute, (size_t)workspace, &plan->workspace);
}

static void matrices_of(const void *user, int64_t entry, int64_t *a, int64_t *b) {
    const tdm_ooc_problem *const p = user;
    *a = tdm_ooc_matrix_offset(p, &p->operands[TDM_OOC_A].whole, entry);
    *b = tdm_ooc_matrix_offset(p, &p->operands[TDM_OOC_B].whole, entry);
}

tdm_status tdm_ooc_schedule_plan(tdm_outofcore_plan *plan) {
    const tdm_ooc_problem *const p = &plan->problem;
    const tdm_ooc_choice *const c = &plan->choice;
    const tdm_ooc_grid grid = {.entries = p->entries,
                               .m = p->m,
                               .n = p->n,
                               .tile_rows = c->tile_rows,
                               .tile_columns = c->tile_columns,
                               .k = p->k,
                               .depth = c->depth,
                               .columns_outside = c->columns_outside,
                               .loads_constants = constant_bytes(p) > 0,
                               .loads_a = p->operands[TDM_OOC_A].slots > 0,
                               .loads_b = p->operands[TDM_OOC_B].slots > 0,
                               .loads_c = p->operands[TDM_OOC_C].slots > 0,
                               .loads_residual = p->operands[TDM_OOC_RESIDUAL].slots > 0,
                               .stores_d = p->operands[TDM_OOC_D].slots > 0,
                               .a_slots = c->a_slots,
                               .b_slots = c->b_slots,
                               .d_slots = c->d_slots,
                               .matrices = matrices_of,
                               .user = p};
    return tdm_ooc_schedule_make(&grid, &plan->schedule);
}

/* ---- prediction ------------------------------------------------------------------------------ */

static uint64_t bytes_of(const tdm_outofcore_plan *plan, const tdm_ooc_step *step) {
    static const tdm_ooc_name operands[] = {[TDM_OOC_LOAD_A] = TDM_OOC_A,
                                            [TDM_OOC_LOAD_B] = TDM_OOC_B,
                                            [TDM_OOC_LOAD_C] = TDM_OOC_C,
                                            [TDM_OOC_LOAD_RESIDUAL] = TDM_OOC_RESIDUAL,
                                            [TDM_OOC_STORE] = TDM_OOC_D};
    if (step->kind == TDM_OOC_LOAD_CONSTANTS)
        return constant_bytes(&plan->problem);
    if (step->kind == TDM_OOC_MULTIPLY)
        return 0;
    const tdm_ooc_name name = operands[step->kind];
    const tdm_ooc_area area = tdm_ooc_area_of(&plan->problem, name, step);
    return tdm_ooc_area_bytes(&plan->problem.operands[name], &area);
}

double tdm_ooc_expected(const void *user, const tdm_ooc_step *step) {
    const tdm_outofcore_plan *const plan = user;
    const tdm_outofcore_rates *const rates = &plan->info.rates;
    const double bytes = (double)bytes_of(plan, step);
    switch (step->engine) {
    case TDM_OOC_IN:
        return rates->step_s + bytes / rates->in_bytes_per_s;
    case TDM_OOC_OUT:
        return rates->step_s + bytes / rates->out_bytes_per_s;
    default:
        return rates->step_s + 2.0 * (double)step->rows * (double)step->columns *
                                   (double)step->depth / rates->operations_per_s /
                                   tdm_ooc_efficiency(step->rows, step->columns);
    }
}

static void describe(tdm_outofcore_plan *plan) {
    tdm_outofcore_info *const info = &plan->info;
    const tdm_ooc_choice *const c = &plan->choice;
    tdm_ooc_times times;
    tdm_ooc_simulate(&plan->schedule, tdm_ooc_expected, plan, info->rates.overlap > 0, NULL,
                     &times);
    info->struct_size = sizeof *info;
    info->tile_rows = c->tile_rows;
    info->tile_columns = c->tile_columns;
    info->tiles = plan->schedule.tiles;
    info->k_steps = c->depth > 0 ? tdm_ceil_div(plan->problem.k, c->depth) : 1;
    info->k_step = c->depth > 0 ? c->depth : plan->problem.k;
    info->same_bits = c->depth == 0 || tdm_ooc_gives_integers(&plan->problem);
    info->a_buffers = plan->problem.operands[TDM_OOC_A].slots;
    info->b_buffers = plan->problem.operands[TDM_OOC_B].slots;
    info->d_buffers = c->d_slots;
    info->columns_outside = c->columns_outside;
    info->operations = plan->problem.operations;
    for (int i = 0; i < plan->schedule.count; i++) {
        const tdm_ooc_step *const step = &plan->schedule.steps[i];
        *(step->engine == TDM_OOC_OUT ? &info->bytes_out : &info->bytes_in) += bytes_of(plan, step);
    }
    info->predicted = (tdm_outofcore_times){times.busy[TDM_OOC_IN], times.busy[TDM_OOC_COMPUTE],
                                            times.busy[TDM_OOC_OUT], times.total, times.overlap};
    if (plan->products[0][0][TDM_OOC_WHOLE])
        snprintf(info->variant, sizeof info->variant, "%s",
                 tdm_gemm_plan_variant(plan->products[0][0][TDM_OOC_WHOLE]));
    tdm_log(TDM_LOG_DEBUG, "dispatch",
            "outofcore: %lld tiles of %lld by %lld, K in %lld steps of %lld%s, %d, %d and %d "
            "buffers, %s, %llu bytes, %.3g s expected",
            (long long)info->tiles, (long long)info->tile_rows, (long long)info->tile_columns,
            (long long)info->k_steps, (long long)info->k_step,
            info->same_bits ? "" : " (not bit-identical to in-core)", info->a_buffers,
            info->b_buffers, info->d_buffers, info->variant, (unsigned long long)info->device_bytes,
            info->predicted.total_s);
}

/* ---- lifetime -------------------------------------------------------------------------------- */

static tdm_status take_problem(tdm_outofcore_plan *plan, const tdm_outofcore_desc *desc) {
    tdm_gemm_plan *whole = NULL;
    TDM_TRY(tdm_gemm_plan_build(plan->device, &desc->gemm, false, &whole));
    const tdm_status status = tdm_ooc_problem_from(desc, whole, &plan->problem);
    tdm_gemm_plan_destroy(whole);
    return status;
}

static tdm_status build(tdm_outofcore_plan *plan, const tdm_outofcore_desc *desc) {
    TDM_TRY(take_problem(plan, desc));
    plan->measures = desc->measure != 0;
    plan->info.rates = desc->rates;
    tdm_ooc_rates_complete(plan->device, &plan->problem, desc->budget_bytes, &plan->info.rates);
    for (int i = 0; i < TDM_OOC_ENGINES; i++)
        TDM_TRY(tdm_stream_create(plan->device, &plan->streams[i]));
    if (plan->problem.m > 0 && plan->problem.n > 0 && plan->problem.entries > 0) {
        TDM_TRY(choose(plan, desc));
        TDM_TRY(tdm_ooc_schedule_plan(plan));
        TDM_TRY(allocate(plan));
    }
    describe(plan);
    return TDM_OK;
}

tdm_status tdm_outofcore_plan_create(tdm_device *device, const tdm_outofcore_desc *desc,
                                     tdm_outofcore_plan **plan) {
    if (!plan)
        return tdm_fail(TDM_BAD_ARGUMENT, "outofcore: plan is NULL");
    *plan = NULL;
    if (!device || !desc)
        return tdm_fail(TDM_BAD_ARGUMENT, "outofcore: %s is NULL", device ? "desc" : "device");
    tdm_outofcore_desc taken;
    TDM_TRY(take_desc(desc, &taken));
    desc = &taken;
    TDM_TRY(check_desc(desc));
    tdm_outofcore_plan *const made = tdm_host_calloc(1, sizeof *made);
    if (!made)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "outofcore: no host memory for a plan");
    tdm_device_retain(device);
    made->device = device;
    pthread_mutex_init(&made->lock, NULL);
    const tdm_status status = build(made, desc);
    if (status != TDM_OK) {
        tdm_outofcore_plan_destroy(made);
        return status;
    }
    *plan = made;
    return TDM_OK;
}

void tdm_ooc_record_release(tdm_outofcore_plan *plan) {
    tdm_ooc_record *const record = &plan->record;
    for (int i = 0; i < plan->schedule.count; i++) {
        if (record->starts)
            tdm_event_destroy(record->starts[i]);
        if (record->ends)
            tdm_event_destroy(record->ends[i]);
    }
    tdm_event_destroy(record->first);
    tdm_host_free((void *)record->starts);
    tdm_host_free((void *)record->ends);
    memset(record, 0, sizeof *record);
}

void tdm_outofcore_plan_destroy(tdm_outofcore_plan *plan) {
    if (!plan)
        return;
    for (int i = 0; i < TDM_OOC_ENGINES; i++)
        tdm_stream_destroy(plan->streams[i]);
    tdm_staging_ring_close(plan->ring_in);
    tdm_staging_ring_close(plan->ring_out);
    tdm_ooc_record_release(plan);
    tdm_event_destroy(plan->previous);
    for (int i = 0; i < TDM_OOC_MATRICES; i++)
        for (int slot = 0; slot < TDM_OOC_MAX_SLOTS; slot++)
            tdm_buffer_destroy(plan->problem.operands[i].buffers[slot]);
    for (int i = 0; i < TDM_OOC_CONSTANTS; i++)
        tdm_buffer_destroy(plan->problem.constants[i].buffer);
    tdm_buffer_destroy(plan->workspace);
    tdm_buffer_destroy(plan->partial);
    tdm_ooc_drop_products(plan);
    tdm_ooc_schedule_release(&plan->schedule);
    pthread_mutex_destroy(&plan->lock);
    tdm_device *const device = plan->device;
    tdm_host_free(plan);
    tdm_device_release(device);
}

tdm_status tdm_outofcore_plan_describe(const tdm_outofcore_plan *plan, tdm_outofcore_info *info) {
    if (!plan || !info)
        return tdm_fail(TDM_BAD_ARGUMENT, "outofcore_plan_describe: %s is NULL",
                        plan ? "info" : "plan");
    TDM_TRY(tdm_struct_check_output("outofcore_plan_describe", "info", info, sizeof *info));
    tdm_struct_write(&plan->info, sizeof plan->info, info);
    return TDM_OK;
}
