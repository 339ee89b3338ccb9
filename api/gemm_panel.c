/*
 * How a launch of the panel family is divided: items, where B is packed, how much local memory.
 *
 * What gemm_panel.cl does costs, in cycles of a core that multiplies and adds 16 floats a cycle (figures measured on PoCL, rounded;
 * only their relations matter): a vector step for every 16 of M·N·K; copying a strip of A once per column item and block;
 * packing B once per row item inside, or once in all by a launch of its own; waiting for the slowest core.
 */
#include <string.h>

#include "api/gemm_internal.h"

#define LANES 16.0
#define COPY_A 0.5           /* per element, contiguous along K */
#define COPY_A_ACROSS 1.2    /* the same, strided */
#define STREAM_B 0.15        /* per element of B in panels, each time that an item comes to it */
#define STREAM_B_CROWDED 0.4 /* the same, where the item leaves B no room in the cache */
#define PACK_INSIDE 0.4      /* per element of B, contiguous along N */
#define PACK_INSIDE_FAR 1.5  /* the same, rows more than FAR_BYTES apart: they share cache lines */
#define FAR_BYTES 2048
#define PACK_ACROSS 1.5 /* the same, strided */
#define PACK_LAUNCH 1.2 /* by its own launch: written and read back */
#define PACK_LAUNCH_ACROSS 2.0
#define LAUNCH 60000.0  /* a launch more, which the other cores have to come to */
#define ITEM 2000.0     /* an item: its first block of A is cold */
#define WAKE 30000.0    /* until the other cores have come */
#define UNEVEN 0.1      /* of an item that cores wait for another, which something else slowed */
#define TILE_STORE 60.0 /* accumulators to local memory and back, for one tile and block of K */

/* What the search looks at. */
typedef struct sizes {
    int64_t strips, panels, batch; /* of the problem */
    int64_t depth;
    double cores;
    double rows, columns; /* of a tile */
    double blocks;        /* of K */
    bool a_along_k, b_along_n, b_rows_far;
    uint64_t strip_bytes, panel_bytes, tile_bytes, local_bytes, roomy_bytes;
    double touched; /* of a strip */
} sizes;

static sizes sizes_of(const tdm_gemm_plan *plan) {
    const tdm_gemm_problem *const p = &plan->problem;
    const int32_t *const row = plan->kernel->variant->parameters;
    const int64_t mr = row[TDM_GEMM_P_ROWS], nr = row[TDM_GEMM_P_COLUMNS],
                  kc = row[TDM_GEMM_P_DEPTH];
    const int64_t blocks = p->k > kc ? tdm_ceil_div(p->k, kc) : 1;
    const uint64_t local = plan->device->info.local_bytes;
    return (sizes){.strips = tdm_ceil_div(p->m, mr),
                   .panels = tdm_ceil_div(p->n, nr),
                   .batch = tdm_gemm_z_count(p),
                   .depth = p->k,
                   .cores = plan->device->info.compute_units,
                   .rows = (double)mr,
                   .columns = (double)nr,
                   .blocks = (double)blocks,
                   .a_along_k = p->a.col == 1,
                   .b_along_n = p->b.col == 1,
                   .b_rows_far = p->b.row * tdm_dtype_info(p->b.dtype)->unit_bytes > FAR_BYTES,
                   .strip_bytes = (uint64_t)(mr * (kc + TDM_GEMM_STRIP_PAD)) * sizeof(float),
                   .panel_bytes = (uint64_t)(kc * nr) * sizeof(float),
                   .tile_bytes = p->k > kc ? (uint64_t)(mr * nr) * sizeof(float) : 0,
                   // Local memory is the core's own cache: some of it stays free for B.
                   .roomy_bytes = local / 16 * 7,
                   .touched = (double)tdm_ceil_div(p->k, blocks) / (double)kc,
                   .local_bytes = local > TDM_GEMM_SMALL_LOCAL ? local / 4 * 3 : local};
}

static uint64_t local_bytes(const sizes *s, const tdm_gemm_division *d) {
    const uint64_t strips = (uint64_t)tdm_ceil_div(s->strips, d->row_items),
                   panels = (uint64_t)tdm_ceil_div(s->panels, d->column_items);
    return strips * s->strip_bytes + (d->packs_inside ? s->panel_bytes : 0) +
           strips * panels * s->tile_bytes;
}

/* Does an item leave B too little of the core's cache? */
static bool crowds(const sizes *s, const tdm_gemm_division *d) {
    const uint64_t strips = (uint64_t)tdm_ceil_div(s->strips, d->row_items) * s->strip_bytes;
    const double idle = (double)strips * (1.0 - s->touched);
    return (double)local_bytes(s, d) - idle > (double)s->roomy_bytes;
}

/* Cycles until the last core is done. */
static double cost(const sizes *s, const tdm_gemm_division *d, bool packs) {
    const double depth = (double)s->depth, batch = (double)s->batch;
    const double strips = (double)s->strips / (double)d->row_items,
                 panels = (double)s->panels / (double)d->column_items;
    const double items = (double)d->row_items * (double)d->column_items * batch;
    const double a_elements = strips * s->rows * depth, b_elements = panels * s->columns * depth;
    const double tile = s->rows * s->columns * depth / LANES + (s->blocks - 1.0) * TILE_STORE;
    double item = ITEM + strips * panels * tile;
    item += a_elements * (s->a_along_k ? COPY_A : COPY_A_ACROSS);
    if (packs && d->packs_inside)
        item += b_elements * (!s->b_along_n   ? PACK_ACROSS
                              : s->b_rows_far ? PACK_INSIDE_FAR
                                              : PACK_INSIDE);
    else
        item += b_elements * (crowds(s, d) ? STREAM_B_CROWDED : STREAM_B);
    const double even = (items * item + WAKE * (s->cores - 1.0)) / s->cores;
    const double rounds = (double)tdm_ceil_div((int64_t)items, (int64_t)s->cores) * item;
    const double late = items <= s->cores ? rounds + WAKE : rounds;
    double total = (even > late ? even : late) + UNEVEN * item;
    if (packs && !d->packs_inside)
        total += LAUNCH + (double)s->panels * s->columns * depth * batch / s->cores *
                              (s->b_along_n ? PACK_LAUNCH : PACK_LAUNCH_ACROSS);
    return total;
}

/* 1 … 16, then by steps of about an eighth. */
static int64_t next_count(int64_t count) {
    return count < 16 ? count + 1 : count + count / 8;
}

static void consider(const sizes *s, const tdm_gemm_division *d, bool packs, double *least,
                     tdm_gemm_division *best) {
    if (local_bytes(s, d) > s->local_bytes)
        return;
    const double cycles = cost(s, d, packs);
    if (*least > 0.0 && cycles >= *least)
        return;
    *least = cycles;
    *best = *d;
}

/* The counts from `first` to `last` are looked at. */
typedef struct range {
    int64_t first, last;
} range;

/* A value that was given leaves one count, at most as many as there are tiles. */
static range counts(int32_t given, int64_t tiles) {
    if (given == 0)
        return (range){1, tiles};
    const int64_t count = given < tiles ? given : tiles;
    return (range){count, count};
}

/* The cheapest division that fits, with the values that were given; false when none does. */
static bool search(const sizes *s, bool packs, const int32_t given[TDM_TUNE_PARAMETERS],
                   tdm_gemm_division *best) {
    const range rows = counts(given[TDM_TUNE_ROW_ITEMS], s->strips),
                columns = counts(given[TDM_TUNE_COL_ITEMS], s->panels);
    const int pack = given[TDM_TUNE_PACK_B];
    double least = 0.0;
    for (int64_t r = rows.first; r <= rows.last; r = next_count(r))
        for (int64_t c = columns.first; c <= columns.last; c = next_count(c))
            for (int inside = packs && pack == TDM_TUNE_PACK_INSIDE;
                 inside <= (packs && pack != TDM_TUNE_PACK_FIRST); inside++) {
                const tdm_gemm_division d = {
                    .row_items = r, .column_items = c, .packs_inside = inside};
                consider(s, &d, packs, &least, best);
            }
    const tdm_gemm_division finest = {.row_items = rows.last,
                                      .column_items = columns.last,
                                      .packs_inside = packs && pack == TDM_TUNE_PACK_INSIDE};
    consider(s, &finest, packs, &least, best);
    return least > 0.0;
}

tdm_status tdm_gemm_panel_divide(const tdm_gemm_plan *plan, tdm_gemm_division *division) {
    const sizes s = sizes_of(plan);
    const bool packs = !plan->desc.packed_b && plan->problem.k > 0;
    *division = (tdm_gemm_division){.row_items = 1, .column_items = 1, .as_given = true};
    if (s.strips == 0 || s.panels == 0 || s.batch == 0)
        return TDM_OK;
    static const int32_t nothing_given[TDM_TUNE_PARAMETERS];
    const bool as_given = search(&s, packs, plan->values, division);
    bool fits = as_given;
    if (!fits && !plan->problem.forced)
        fits = search(&s, packs, nothing_given, division);
    if (!fits)
        return tdm_fail(
            TDM_UNSUPPORTED, "gemm: %s needs more local memory than the %llu bytes of %s",
            plan->kernel->variant->name, (unsigned long long)plan->device->info.local_bytes,
            plan->device->info.selector);
    division->as_given = as_given;
    division->local_bytes = (uint32_t)local_bytes(&s, division);
    tdm_log(TDM_LOG_DEBUG, "dispatch", "gemm: divided row_items=%lld,col_items=%lld,pack_b=%d",
            (long long)division->row_items, (long long)division->column_items,
            division->packs_inside ? TDM_TUNE_PACK_INSIDE : TDM_TUNE_PACK_FIRST);
    return TDM_OK;
}
