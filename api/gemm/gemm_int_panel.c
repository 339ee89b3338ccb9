/*
 * This is the cost model of the integer panel family. For a work partition it predicts the cycles
 * and the bytes of local memory. A partition also says where B is packed.
 *
 * It works like the model for floats in gemm_panel.c, with the costs of the kernel in
 * gemm_int_panel.h. Costs are cycles of a core. They were measured on PoCL and rounded.
 */
#include <stdio.h>

#include "api/gemm/gemm_internal.h"

/* This is the padding in bytes between the rows of a micro-panel, after the block of K.
 * gemm_int_panel.h uses the same value. */
#define STRIP_PAD 64

#define COPY_A 0.1         /* per element of A, contiguous along K */
#define COPY_A_WIDER 0.15  /* contiguous along K, micro-panels have wider elements than A */
#define COPY_A_ACROSS 0.3  /* per element of A, strided */
#define STREAM_B 0.06      /* per element of packed B, each time that a work-item reads it */
#define STREAM_B_NEAR 0.01 /* per element of packed B, if all of B stays in a core's L2 cache */
#define NEAR_BYTES (512.0 * 1024.0)
#define READ_A 0.05  /* per element of A that a work-item reads without a copy */
#define STREAM_A 0.4 /* in addition, per panel, if a work-item's rows exceed SHARED_BYTES */
#define SHARED_BYTES (1.25 * 1024.0 * 1024.0)
#define STREAM_A_FAST 0.02 /* with tile registers, per panel, above CLOSE_BYTES */
#define CLOSE_BYTES (320.0 * 1024.0)
#define WIDEN_B 0.1    /* in addition, if panels have wider elements than B */
#define PACK_NEAR 0.13 /* per element of B, contiguous along N */
#define PACK_FAR 0.27  /* contiguous along N, rows over FAR_BYTES apart: many pages */
#define FAR_BYTES 768
#define PACK_ACROSS 0.2 /* per element of B, not contiguous along N */
#define PACK_LAUNCH 0.1 /* in addition, in a launch of its own: written and read back */
#define LAUNCH 80000.0  /* one more launch, until the other cores take part */
#define ITEM 1200.0     /* per work-item: its first block of A is cold */
#define WAKE 60000.0    /* until the other cores have woken up */
#define UNEVEN 0.05     /* share of a work-item lost to waiting for a disturbed core */
#define TILE_END 80.0   /* stores the sums of one tile for one block of K */

/* With fewer rows of A than FEW_ROWS, packing B in every run costs more time than tile registers
 * save. A panel of 32 columns uses only half of each cache line of B. If B's rows map to few cache
 * sets, the other half is evicted before the next panel reads it. The limit is then
 * FEW_ROWS_OF_HALVES. */
#define FEW_ROWS 9
#define FEW_ROWS_OF_HALVES 48

/* This is the input of the cost model. */
typedef struct sizes {
    int64_t strips, panels, unit;
    double depth, batch, cores;
    double rows, columns; /* of a tile */
    double blocks;        /* of K */
    double speed;         /* multiply-adds of a core per cycle */
    double pack, stream;  /* cycles per element of B */
    bool a_along_k, a_stays, has_registers;
    uint64_t strip_bytes, panel_bytes, sums_bytes, tile_bytes;
} sizes;

/* True if the variant multiplies in tile registers. */
static bool has_registers(const tdm_variant *row) {
    return (row->requires & TDM_CAP_HOST_AMX_INT8) != 0;
}

/* Returns multiply-adds per cycle. Without tile registers they depend on whether micro-panels hold
 * quads, pairs or single elements. */
static double speed_of(const tdm_variant *row) {
    const int32_t unit = row->parameters[TDM_GEMM_P_UNIT];
    if (has_registers(row))
        return 600.0;
    return unit == 1 ? 64.0 : unit == 2 ? 26.0 : 6.0;
}

/* True if a CPU with VNNI should convert s8 to u8 on every read of A. AMD cores have execution
 * pipes for that in addition to those of vpdpbusd. Intel cores would use the same pipes for it in
 * every fourth instruction. Work-items therefore copy A once on Intel cores. */
static bool flips_beside_products(void) {
#if defined(__x86_64__) || defined(__i386__)
    return __builtin_cpu_is("amd");
#else
    return false;
#endif
}

/* True if the kernel reads A without copying it. Rows must consist of bytes that the instruction
 * reads directly, contiguous along K. K and the depth of a part of K must be multiples of the
 * instruction's steps. The part must fit one block. Rows must not be so far apart that each is in a
 * page of its own. B must not have zero points, which need the sums of A's rows. */
static bool a_stays(const tdm_gemm_plan *plan) {
    const tdm_gemm_problem *const p = &plan->problem;
    const tdm_variant *const row = plan->kernel->variant;
    const int64_t steps = has_registers(row) ? 64 : 4;
    if (row->parameters[TDM_GEMM_P_UNIT] != 1 || tdm_gemm_whole(plan)->k % steps != 0)
        return false;
    return (p->a.dtype == TDM_U8 || has_registers(row) || flips_beside_products()) &&
           p->a.col == 1 && p->k % steps == 0 && p->k <= row->parameters[TDM_GEMM_P_DEPTH] &&
           p->a.row <= 2 * p->k && p->b_zero.dtype == TDM_DTYPE_NONE;
}

static sizes sizes_of(const tdm_gemm_plan *plan) {
    const tdm_gemm_problem *const p = &plan->problem;
    const int32_t *const row = plan->kernel->variant->parameters;
    const int64_t mr = row[TDM_GEMM_P_ROWS], nr = row[TDM_GEMM_P_COLUMNS],
                  kc = row[TDM_GEMM_P_DEPTH], unit = row[TDM_GEMM_P_UNIT];
    return (sizes){.strips = tdm_ceil_div(p->m, mr),
                   .panels = tdm_ceil_div(p->n, nr),
                   .unit = unit,
                   .depth = (double)p->k,
                   .batch = (double)tdm_gemm_z_count(p),
                   .cores = plan->device->info.compute_units,
                   .rows = (double)mr,
                   .columns = (double)nr,
                   .blocks = p->k > kc ? (double)tdm_ceil_div(p->k, kc) : 1.0,
                   .speed = speed_of(plan->kernel->variant),
                   .a_along_k = p->a.col == 1,
                   .a_stays = a_stays(plan),
                   .has_registers = has_registers(plan->kernel->variant),
                   .pack = p->b.col != 1          ? PACK_ACROSS
                           : p->b.row > FAR_BYTES ? PACK_FAR
                                                  : PACK_NEAR,
                   .stream = (double)p->n * (double)p->k <= NEAR_BYTES ? STREAM_B_NEAR : STREAM_B,
                   .strip_bytes =
                       (uint64_t)(mr * (kc * unit + STRIP_PAD + (int64_t)sizeof(int32_t))),
                   .panel_bytes = (uint64_t)(kc * nr * unit),
                   .sums_bytes = (uint64_t)nr * sizeof(int32_t),
                   .tile_bytes = p->k > kc ? (uint64_t)(mr * nr) * sizeof(int32_t) : 0};
}

static uint64_t local_bytes(const void *context, const tdm_gemm_partition *d) {
    const sizes *const s = context;
    const uint64_t strips = (uint64_t)tdm_ceil_div(s->strips, d->row_items),
                   panels = (uint64_t)tdm_ceil_div(s->panels, d->column_items);
    return (s->a_stays && d->packs_inside ? 1 : strips) * s->strip_bytes +
           (d->packs_inside || s->unit > 1 ? s->panel_bytes : 0) +
           (d->packs_inside ? panels * s->sums_bytes : 0) + strips * panels * s->tile_bytes;
}

/* Returns the tiles of the last work-items, divided by an equal share. It takes as many last
 * work-items as a core has on average. If micro-panels or panels cannot be divided evenly, later
 * work-items have more of them. */
static double unevenness(const sizes *s, const tdm_gemm_partition *d) {
    const int64_t rows = d->row_items, columns = d->column_items;
    const int64_t of_core = (int64_t)((double)(rows * columns) * s->batch / s->cores);
    const int64_t last = of_core > 1 ? of_core : 1;
    if (last >= rows * columns)
        return 1.0;
    const int64_t before = columns - last / rows; /* work-items along N; the last is partial */
    const int64_t panels = before * s->panels / columns;
    const int64_t strips = s->strips - (rows - last % rows) * s->strips / rows;
    const int64_t tiles =
        (s->panels - panels) * s->strips + strips * (panels - (before - 1) * s->panels / columns);
    return (double)(tiles * rows * columns) / (double)(last * s->strips * s->panels);
}

/* Returns the cycles until the last core is done. A core that wakes up takes an equal share of the
 * remaining work-items. With two cores, the second one starts its half WAKE later than the first.
 * When the first is done, both share what is left of the second half, in whole work-items. */
static double until_last(const sizes *s, double items, double item, double uneven) {
    const double rounds = (double)tdm_ceil_div((int64_t)items, (int64_t)s->cores) * item;
    const double missed = WAKE * (s->cores - 1.0) / s->cores;
    const double shared = (double)tdm_ceil_div((int64_t)missed, (int64_t)item) * item;
    const double even = items * item / s->cores * uneven + (shared < WAKE ? shared : WAKE);
    return even > rounds ? even : rounds;
}

/* Returns the cycles to read an element of A, for a work-item with `bytes` of A and `panels`
 * panels. Without a copy of A, a work-item can have more rows than local memory would hold. That
 * pays off only if work-items pack B. With packed B, a GEMM of M = N = K = 2048 takes 1 %
 * longer. */
static double reading_a(const sizes *s, bool packs_inside, double bytes, double panels) {
    const double far = s->has_registers && bytes > CLOSE_BYTES ? STREAM_A_FAST * panels : 0.0;
    if (!s->a_stays || !packs_inside)
        return far + (!s->a_along_k ? COPY_A_ACROSS : s->unit > 1 ? COPY_A_WIDER : COPY_A);
    return READ_A + far + (bytes > SHARED_BYTES ? STREAM_A * panels : 0.0);
}

static double cost(const void *context, const tdm_gemm_partition *d, bool packs) {
    const sizes *const s = context;
    const double strips = (double)s->strips / (double)d->row_items,
                 panels = (double)s->panels / (double)d->column_items;
    const double items = (double)d->row_items * (double)d->column_items * s->batch;
    const double tile = s->rows * s->columns * s->depth / s->speed + s->blocks * TILE_END;
    double item = ITEM + strips * panels * tile;
    const double elements = strips * s->rows * s->depth;
    item += elements * reading_a(s, d->packs_inside, elements, panels);
    item += panels * s->columns * s->depth *
            ((packs && d->packs_inside ? s->pack : s->stream) + (s->unit > 1 ? WIDEN_B : 0.0));
    double total = until_last(s, items, item, unevenness(s, d)) + UNEVEN * item;
    if (packs && !d->packs_inside)
        total += LAUNCH + (double)s->panels * s->columns * s->depth * s->batch / s->cores *
                              (PACK_LAUNCH + s->pack);
    return total;
}

const char *tdm_gemm_int_panel_refuse(const tdm_gemm_problem *p, const tdm_variant *row,
                                      char *reason) {
    const bool halves = p->b.col == 1 && tdm_gemm_rows_alike(p->b.row);
    if (!has_registers(row) || p->packed_b || p->m >= (halves ? FEW_ROWS_OF_HALVES : FEW_ROWS))
        return NULL;
    snprintf(reason, TDM_REASON_TEXT,
             "packing B in panels of %d columns costs more time than it saves for %lld rows of A",
             (int)row->parameters[TDM_GEMM_P_COLUMNS], (long long)p->m);
    return reason;
}

tdm_status tdm_gemm_int_panel_divide(const tdm_gemm_plan *plan, tdm_gemm_partition *partition) {
    const sizes s = sizes_of(plan);
    const uint64_t local = plan->device->info.local_bytes;
    const tdm_gemm_partition_space space = {
        .strips = s.strips,
        .panels = s.panels,
        .packs = !plan->desc.packed_b,
        .most_local_bytes = local > TDM_GEMM_SMALL_LOCAL ? local / 4 * 3 : local,
        .local_bytes = local_bytes,
        .cost = cost,
        .context = &s};
    TDM_TRY(tdm_gemm_find_partition(plan, &space, partition));
    partition->a_stays = !s.a_stays ? 0 : s.cores == 2.0 ? 2 : 1;
    return TDM_OK;
}
