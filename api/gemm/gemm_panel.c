/*
 * This is the cost model of the panel family. For a work partition it predicts the cycles and the
 * bytes of local memory. A partition also says where B is packed.
 *
 * Costs are cycles of a core that does 16 f32 multiply-adds per cycle. They were measured on PoCL
 * and rounded; only their ratios matter. The model counts these costs of gemm_panel.cl:
 *
 * - a vector step for every 16 of M·N·K
 * - copying a micro-panel of A, once per column of work-items and block of K
 * - packing B, once per row of work-items in the kernel or once in a launch of its own
 * - waiting for the slowest core
 */
#include "api/gemm/gemm_internal.h"

#define LANES 16.0
#define COPY_A 0.5            /* per element of A, contiguous along K */
#define COPY_A_ACROSS 0.7     /* per element of A, strided */
#define COPY_PAIRS 0.7        /* per element of A, copied as pairs of bf16 */
#define COPY_PAIRS_ACROSS 0.8 /* per element of A, strided, copied as pairs */
#define STREAM_PAIRS 0.2      /* per element of packed B, each time that a work-item copies pairs */
#define PACK_PAIRS 0.22       /* per element of B that is not packed, contiguous along N */
#define PACK_PAIRS_ACROSS 0.3 /* per element of B that is not packed, contiguous along K */
#define PAIRS_CROWDED 0.24    /* STREAM_PAIRS if a work-item leaves B no room in the cache */
#define PAIR_LANES 32.0       /* bf16 multiply-adds per cycle, instead of LANES */
#define STREAM_B 0.15         /* per element of packed B, each time that a work-item reads it */
#define STREAM_B_CROWDED 0.4  /* STREAM_B if a work-item leaves B no room in the cache */
#define PACK_INSIDE 0.25      /* per element of B, contiguous along N */
#define PACK_INSIDE_ALIKE 1.5 /* contiguous along N, but all rows share few cache sets */
#define ALIKE_BYTES 4096      /* rows share cache sets if their stride is a multiple of this */
#define ALIKE_MARGIN 128      /* or nearly a multiple */
#define PACK_ACROSS 0.8       /* per element of B, not contiguous along N */
#define DEQUANTIZE 0.4        /* per element of quantized B, dequantized to f32 */
#define UNPACK 0.3            /* per element of quantized B, to bytes (A is quantized too) */
#define QUANTIZE_A 2.0        /* per element of A, including its row's scale */
#define CODE_LANES 100.0      /* multiply-adds of quantized values per cycle, instead of LANES */
#define MIN_GROUP 32          /* smallest group of gemm_weights_panel_vnni.cl */
#define PACK_LAUNCH 1.2       /* in a launch of its own: written and read back */
#define PACK_LAUNCH_ACROSS 1.4
#define LAUNCH 60000.0  /* one more launch, until the other cores take part */
#define ITEM 2000.0     /* per work-item: its first block of A is cold */
#define WAKE 30000.0    /* until the other cores have woken up */
#define UNEVEN 0.1      /* share of a work-item lost to waiting for a disturbed core */
#define TILE_STORE 60.0 /* stores and loads the sums of one tile, per block of K */

/* This is the input of the cost model. */
typedef struct sizes {
    int64_t strips, panels, batch; /* of the problem */
    int64_t depth;
    double cores;
    double lanes;
    double rows, columns; /* of a tile */
    double blocks;        /* of K */
    double copy_a, stream_b, stream_crowded;
    double pack_inside; /* per element of B */
    double pack_launch;
    uint64_t strip_bytes, panel_bytes, tile_bytes, local_bytes, roomy_bytes;
    double touched; /* share of a micro-panel that is used */
    bool pairs;     /* gemm_panel_pairs.h: a work-item copies B even if it is packed */
} sizes;

bool tdm_gemm_rows_alike(int64_t bytes) {
    return bytes > ALIKE_BYTES / 2 &&
           (bytes + ALIKE_MARGIN) % ALIKE_BYTES <= (int64_t)2 * ALIKE_MARGIN;
}

static double pack_inside(const tdm_gemm_problem *p) {
    if (p->op == TDM_OP_GEMM_WEIGHTS)
        return p->quantize_a ? UNPACK : DEQUANTIZE;
    return p->b.col != 1 ? PACK_ACROSS
           : tdm_gemm_rows_alike(p->b.row * tdm_dtype_info(p->b.dtype)->unit_bytes)
               ? PACK_INSIDE_ALIKE
               : PACK_INSIDE;
}

static sizes sizes_of(const tdm_gemm_plan *plan) {
    const tdm_gemm_problem *const p = &plan->problem;
    const int32_t *const row = plan->kernel->variant->parameters;
    const int64_t mr = row[TDM_GEMM_P_ROWS], nr = row[TDM_GEMM_P_COLUMNS],
                  kc = row[TDM_GEMM_P_DEPTH];
    const int64_t blocks = p->k > kc ? tdm_ceil_div(p->k, kc) : 1;
    const uint64_t local = plan->device->info.local_bytes;
    sizes s = {.strips = tdm_ceil_div(p->m, mr),
               .panels = tdm_ceil_div(p->n, nr),
               .batch = tdm_gemm_z_count(p),
               .depth = p->k,
               .cores = plan->device->info.compute_units,
               .rows = (double)mr,
               .columns = (double)nr,
               .blocks = (double)blocks,
               .lanes = LANES,
               .copy_a = p->a.col == 1 ? COPY_A : COPY_A_ACROSS,
               .pack_inside = pack_inside(p),
               .stream_b = STREAM_B,
               .stream_crowded = STREAM_B_CROWDED,
               .pack_launch = p->b.col == 1 ? PACK_LAUNCH : PACK_LAUNCH_ACROSS,
               .strip_bytes = (uint64_t)(mr * (kc + TDM_GEMM_STRIP_PAD)) * sizeof(float),
               .panel_bytes = (uint64_t)(kc * nr) * sizeof(float),
               .tile_bytes = p->k > kc ? (uint64_t)(mr * nr) * sizeof(float) : 0,
               // Local memory is part of the core's cache, so some of it must stay free for B.
               .roomy_bytes = local / 16 * 7,
               .touched = (double)tdm_ceil_div(p->k, blocks) / (double)kc,
               .local_bytes = local > TDM_GEMM_SMALL_LOCAL ? local / 4 * 3 : local};
    if (row[TDM_GEMM_P_A_TYPE] == TDM_GEMM_QUANTIZED_A) {
        const int64_t segments = kc / MIN_GROUP;
        s.lanes = CODE_LANES;
        s.copy_a = QUANTIZE_A;
        s.strip_bytes = (uint64_t)(mr * (kc + 64 + (segments + 1) * (int64_t)sizeof(int32_t)));
        s.panel_bytes = (uint64_t)((kc + segments * 8) * nr);
    }
    s.pairs = (plan->kernel->variant->requires & TDM_CAP_HOST_BF16) != 0;
    if (s.pairs) {
        s.lanes = PAIR_LANES;
        s.copy_a = p->a.col == 1 ? COPY_PAIRS : COPY_PAIRS_ACROSS;
        s.strip_bytes = (uint64_t)(mr * (kc / 2 + TDM_GEMM_STRIP_PAD)) * sizeof(float);
        s.pack_inside = p->b.col == 1 ? PACK_PAIRS : PACK_PAIRS_ACROSS;
        s.stream_b = STREAM_PAIRS;
        s.stream_crowded = PAIRS_CROWDED;
        s.panel_bytes /= 2;
    }
    return s;
}

static uint64_t local_bytes(const void *context, const tdm_gemm_partition *d) {
    const sizes *const s = context;
    const uint64_t strips = (uint64_t)tdm_ceil_div(s->strips, d->row_items),
                   panels = (uint64_t)tdm_ceil_div(s->panels, d->column_items);
    return strips * s->strip_bytes + (d->packs_inside || s->pairs ? s->panel_bytes : 0) +
           strips * panels * s->tile_bytes;
}

/* True if a work-item leaves B too little of the core's cache. */
static bool crowds(const sizes *s, const tdm_gemm_partition *d) {
    const uint64_t strips = (uint64_t)tdm_ceil_div(s->strips, d->row_items) * s->strip_bytes;
    const double idle = (double)strips * (1.0 - s->touched);
    return (double)local_bytes(s, d) - idle > (double)s->roomy_bytes;
}

/* Returns the cycles until the last core is done. */
static double cost(const void *context, const tdm_gemm_partition *d, bool packs) {
    const sizes *const s = context;
    const double depth = (double)s->depth, batch = (double)s->batch;
    const double strips = (double)s->strips / (double)d->row_items,
                 panels = (double)s->panels / (double)d->column_items;
    const double items = (double)d->row_items * (double)d->column_items * batch;
    const double a_elements = strips * s->rows * depth, b_elements = panels * s->columns * depth;
    const double tile = s->rows * s->columns * depth / s->lanes + (s->blocks - 1.0) * TILE_STORE;
    double item = ITEM + strips * panels * tile;
    item += a_elements * s->copy_a;
    if (packs && d->packs_inside)
        item += b_elements * s->pack_inside;
    else
        item += b_elements * (crowds(s, d) ? s->stream_crowded : s->stream_b);
    const double even = (items * item + WAKE * (s->cores - 1.0)) / s->cores;
    const double rounds = (double)tdm_ceil_div((int64_t)items, (int64_t)s->cores) * item;
    const double late = items <= s->cores ? rounds + WAKE : rounds;
    double total = (even > late ? even : late) + UNEVEN * item;
    if (packs && !d->packs_inside)
        total +=
            LAUNCH + (double)s->panels * s->columns * depth * batch / s->cores * s->pack_launch;
    return total;
}

tdm_status tdm_gemm_panel_divide(const tdm_gemm_plan *plan, tdm_gemm_partition *partition) {
    const sizes s = sizes_of(plan);
    // Quantized packed weights are stored as columns along K, not as panels.
    const bool codes = plan->problem.op == TDM_OP_GEMM_WEIGHTS;
    const tdm_gemm_partition_space space = {.strips = s.strips,
                                            .panels = s.panels,
                                            .packs = (codes || !plan->desc.packed_b) &&
                                                     plan->problem.k > 0,
                                            .packs_inside = codes,
                                            .most_local_bytes = s.local_bytes,
                                            .local_bytes = local_bytes,
                                            .cost = cost,
                                            .context = &s};
    return tdm_gemm_find_partition(plan, &space, partition);
}
