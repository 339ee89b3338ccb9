/*
 * This model predicts the time of a tiled GPU kernel from occupancy and waves, without a
 * measurement. docs/decisions/occupancy-and-waves.md explains its constants. Its input is
 * tdm_device_info and the row of `rates` for the architecture. None of these figures was measured
 * by Tandem.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/gemm/gemm_internal.h"

/* This is the throughput of a compute unit per cycle. */
typedef struct unit_rates {
    uint32_t architecture; /* this architecture and later ones */
    double halves, bytes;  /* multiply-adds on tensor cores: 16 and 8 bits */
    double floats;         /* multiply-adds of f32 without tensor cores */
    double mma_share;      /* share of `halves` and `bytes` that mma.sync reaches */
    double cache_bytes;    /* bytes read from the last-level cache */
} unit_rates;

static const unit_rates rates[] = {
    {0, 256, 512, 64, 0.85, 32},     {75, 512, 1024, 64, 0.85, 32},
    {80, 1024, 2048, 64, 0.85, 47},  {86, 512, 1024, 128, 0.85, 20},
    {87, 1024, 2048, 128, 0.85, 20}, {89, 512, 1024, 128, 0.85, 20},
    {90, 2048, 4096, 128, 0.63, 48}, {100, 4096, 8192, 128, 0.3, 48},
    {120, 512, 1024, 128, 0.85, 20},
};

/* These shares of the peak are reached by wgmma, by f32 without tensor cores, and with weights that
 * the kernel dequantizes. */
#define WGMMA_SHARE 0.8
#define SIMT_SHARE 0.72
#define WEIGHTS_SHARE 0.85
/* A 3xTF32 multiply-add takes as long as this many with 16 bits. It needs three tf32 ones, each at
 * half the rate. */
#define TF32_PRODUCTS 6.0
/* This many warps keep a unit's pipes busy. With wgmma, the warps of one work-group are enough. */
#define BUSY_WARPS 8.0
/* A unit reads LOCAL_BYTES from local memory, and stores STORED_BYTES of results, per cycle. */
#define LOCAL_BYTES 128.0
#define STORED_BYTES 32.0
/* These cycles pass until the first step of K has arrived, and until the last sums have left the
 * pipes. */
#define RAMP_CYCLES 1000.0
/* Dequantizing a weight takes this many cycles. Each row of warps in a tile dequantizes all weights
 * of the tile. */
#define CODE_CYCLES (1.0 / 128.0)
/* Tensor-core kernels copy COPIED_BYTES at a time. If they cannot, reading a single element takes
 * ELEMENT_CYCLES. */
#define COPIED_BYTES 16
#define ELEMENT_CYCLES 0.125
/* MEMORY_SHARE of the datasheet bandwidth is reached. If two times overlap, UNHIDDEN_SHARE of the
 * shorter one is not hidden. */
#define MEMORY_SHARE 0.9
#define UNHIDDEN_SHARE 0.1
#define LAUNCH_NS 2000.0
/* These are defaults if a driver does not report the value. */
#define DEFAULT_CLOCK_MHZ 1000.0
#define DEFAULT_MEMORY_BYTES 16.0 /* per unit and cycle */
/* A part of K has at least MIN_PART steps, and there are at most MAX_PARTS. A split must reduce the
 * predicted time to less than the share WORTHWHILE. */
#define MIN_PART 512
#define MAX_PARTS 64
#define WORTHWHILE 0.9
/* These are the tile of a warp in gemm_simt.cl, and the rows that a warpgroup multiplies. */
#define SIMT_WARP_ROWS 64
#define SIMT_WARP_COLUMNS 32
#define WARPGROUP_ROWS 64
#define WARP_ITEMS 32
#define MAX_TILES 1e15

/* These are the model's terms for a problem, a variant and a device. Cycles are those of a unit. */
typedef struct wave_terms {
    int32_t family;
    double area;         /* elements of a work-group's tile of D */
    double products;     /* multiply-adds per cycle */
    double cache, local; /* cycles to read a step of K */
    /* Cycles that nothing hides: single-element reads, dequantization, a share of wgmma's
     * copies. */
    double serial;
    double warps;            /* of a work-group */
    int64_t units, resident; /* for clusters of two, half of the units */
    double clock, memory;    /* cycles and bytes per nanosecond */
    double shared;           /* bytes per nanosecond from the last-level cache, all units */
} wave_terms;

/* Returns the number after -Dname= in a variant's defines, or `otherwise`. */
static int64_t define_of(const tdm_variant *row, const char *name, int64_t otherwise) {
    const size_t length = strlen(name);
    for (const char *at = strstr(row->defines, "-D"); at; at = strstr(at + 1, "-D"))
        if (strncmp(at + 2, name, length) == 0 && at[2 + length] == '=')
            return strtol(at + 3 + length, NULL, 10);
    return otherwise;
}

bool tdm_gemm_has_wave_model(const tdm_variant *row) {
    const int32_t family = row->parameters[TDM_GEMM_P_FAMILY];
    return family == TDM_GEMM_TENSOR || family == TDM_GEMM_WGMMA ||
           (family == TDM_GEMM_TILED && row->op == TDM_OP_GEMM && (row->requires & TDM_CAP_CUDA));
}

static const unit_rates *rates_of(uint32_t architecture) {
    const unit_rates *found = rates;
    for (size_t i = 0; i < sizeof rates / sizeof *rates; i++)
        if (rates[i].architecture <= architecture)
            found = &rates[i];
    return found;
}

static double element_bytes(tdm_dtype dtype) {
    const tdm_dtype_traits *const facts = tdm_dtype_info(dtype);
    return facts ? (double)facts->unit_bytes / facts->elements_per_unit : 0.0;
}

/* Returns multiply-adds per cycle. GeForce boards accumulate 16-bit products in f32 at half the
 * rate. */
static double products_of(const tdm_gemm_problem *p, const tdm_variant *row,
                          const tdm_device_info *info, const unit_rates *r) {
    const int32_t family = row->parameters[TDM_GEMM_P_FAMILY];
    const double share = family == TDM_GEMM_WGMMA ? WGMMA_SHARE : r->mma_share;
    const double halves = strstr(info->name, "GeForce") ? r->halves / 2.0 : r->halves;
    if (family == TDM_GEMM_TILED)
        return r->floats * SIMT_SHARE;
    if (p->op == TDM_OP_GEMM_INT)
        return r->bytes * share;
    if (p->op == TDM_OP_GEMM_WEIGHTS)
        return halves * share * WEIGHTS_SHARE;
    return p->a.dtype == TDM_F32 ? halves * share / TF32_PRODUCTS : halves * share;
}

/* Returns the number of work-groups that compute a variant's tile together. Each computes a part of
 * the rows and reads a part of the columns of B. */
static int64_t cluster_of(const tdm_variant *row) {
    return row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_WGMMA
               ? row->parameters[TDM_GEMM_P_CLUSTER]
               : 1;
}

/* Returns the bytes that a work-group's warps read from local memory for a step of K. */
static double local_bytes(const tdm_variant *row, double a, double b) {
    const double rows = row->parameters[TDM_GEMM_P_ROWS] / (double)cluster_of(row),
                 columns = row->parameters[TDM_GEMM_P_COLUMNS];
    const bool simt = row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_TILED;
    if (row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_WGMMA)
        return rows / WARPGROUP_ROWS * (WARPGROUP_ROWS * a + columns * b);
    const double high = (double)define_of(row, "WM", simt ? SIMT_WARP_ROWS : (int64_t)rows),
                 wide = (double)define_of(row, "WN", simt ? SIMT_WARP_COLUMNS : (int64_t)columns);
    return rows / high * (columns / wide) * (high * a + wide * b);
}

/* Cycles per nanosecond. */
static double clock_of(const tdm_device_info *info) {
    return (info->clock_mhz > 0 ? info->clock_mhz : DEFAULT_CLOCK_MHZ) / 1e3;
}

/* Returns bytes per nanosecond. The bus transfers its whole width twice per cycle of its clock. */
static double memory_of(const tdm_device_info *info) {
    const double reported = 2.0 * info->memory_clock_mhz / 1e3 * info->memory_bus_bits / 8.0;
    return MEMORY_SHARE * (reported > 0.0
                               ? reported
                               : DEFAULT_MEMORY_BYTES * info->compute_units * clock_of(info));
}

/* Returns the number of work-groups that fit a unit. Local memory, and the registers for which the
 * source is compiled, limit it. */
static int64_t resident_groups(const tdm_variant *row, const tdm_device_info *info) {
    const bool tensor = row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_TENSOR;
    const int64_t compiled =
        define_of(row, "GROUPS", tensor ? row->parameters[TDM_GEMM_P_GROUPS] : 1);
    const int64_t bytes = row->parameters[TDM_GEMM_P_LOCAL_BYTES];
    const int64_t fit = bytes > 0 ? (int64_t)info->local_bytes / bytes : compiled;
    const int64_t groups = fit < compiled ? fit : compiled;
    return groups > 0 ? groups : 1;
}

/* True if strides allow the contiguous dimension to be copied in blocks. */
static bool is_copied(const tdm_gemm_problem *p, const tdm_gemm_matrix *matrix) {
    const double bytes = element_bytes(matrix->dtype);
    const int64_t apart = matrix->row == 1 ? matrix->col : matrix->row;
    return (matrix->row == 1 || matrix->col == 1) &&
           fmod((double)apart * bytes, COPIED_BYTES) == 0.0 &&
           fmod((double)tdm_gemm_z_stride(p, matrix) * bytes, COPIED_BYTES) == 0.0;
}

static wave_terms terms_of(const tdm_gemm_problem *p, const tdm_variant *row,
                           const tdm_device_info *info) {
    const unit_rates *const r = rates_of(info->architecture);
    const int64_t cluster = cluster_of(row),
                  units = info->compute_units > 0 ? info->compute_units : 1;
    const double rows = row->parameters[TDM_GEMM_P_ROWS] / (double)cluster,
                 columns = row->parameters[TDM_GEMM_P_COLUMNS];
    const double a = element_bytes(p->a.dtype), b = element_bytes(p->b.dtype);
    wave_terms t = {.family = row->parameters[TDM_GEMM_P_FAMILY],
                    .area = rows * columns,
                    .products = products_of(p, row, info, r),
                    .cache = (rows * a + columns * b / (double)cluster) / r->cache_bytes,
                    .local = local_bytes(row, a, b) / LOCAL_BYTES,
                    .warps = (double)row->parameters[TDM_GEMM_P_ITEMS] / WARP_ITEMS,
                    .units = units > cluster ? units / cluster : 1,
                    .resident = resident_groups(row, info)};
    if (t.family == TDM_GEMM_WGMMA)
        t.serial = UNHIDDEN_SHARE * t.cache;
    if (t.family == TDM_GEMM_TENSOR)
        t.serial = ((is_copied(p, &p->a) ? 0.0 : rows) + (is_copied(p, &p->b) ? 0.0 : columns)) *
                   ELEMENT_CYCLES;
    if (p->op == TDM_OP_GEMM_WEIGHTS)
        t.serial += rows / (double)define_of(row, "WM", (int64_t)rows) * columns * CODE_CYCLES;
    t.clock = clock_of(info);
    t.memory = memory_of(info);
    t.shared = r->cache_bytes * (double)units * t.clock;
    return t;
}

static double larger(double x, double y) {
    return x > y ? x : y;
}

/* Returns the cycles of a unit that runs `groups` work-groups at once. Each has `k` steps and
 * stores `d_bytes` per element of its tile. */
static double wave_cycles(const wave_terms *t, int64_t groups, int64_t k, double d_bytes) {
    const double warps = (double)groups * t->warps;
    const double busy =
        t->family == TDM_GEMM_WGMMA || warps >= BUSY_WARPS ? 1.0 : warps / BUSY_WARPS;
    const double step =
        larger(t->area / (t->products * busy), larger(t->cache, t->local)) + t->serial;
    return RAMP_CYCLES + (double)groups * ((double)k * step + t->area * d_bytes / STORED_BYTES);
}

/* Returns the time of all full waves, and of one more for the remaining tiles, which units share
 * evenly. */
static double launch_ns(const wave_terms *t, int64_t tiles, int64_t k, double d_bytes) {
    const int64_t slots = t->units * t->resident, full = tiles / slots, left = tiles % slots;
    double cycles = (double)full * wave_cycles(t, t->resident, k, d_bytes);
    if (left > 0)
        cycles += wave_cycles(t, tdm_ceil_div(left, t->units), k, d_bytes);
    return cycles / t->clock;
}

/* Returns the number of batch entries of the launch for which the operand has its own matrix. */
static double entries_of(const tdm_gemm_problem *p, const tdm_gemm_matrix *matrix) {
    return tdm_gemm_z_stride(p, matrix) != 0 ? (double)tdm_gemm_z_count(p) : 1.0;
}

static double operand_bytes(const tdm_gemm_problem *p) {
    return (double)p->m * (double)p->k * element_bytes(p->a.dtype) * entries_of(p, &p->a) +
           (double)p->k * (double)p->n * element_bytes(p->b.dtype) * entries_of(p, &p->b);
}

/* Returns the number of tiles of all batch entries, at most MAX_TILES. */
static int64_t tiles_of(const tdm_gemm_problem *p, const tdm_variant *row) {
    const double tiles = (double)tdm_ceil_div(p->m, row->parameters[TDM_GEMM_P_ROWS]) *
                         (double)tdm_ceil_div(p->n, row->parameters[TDM_GEMM_P_COLUMNS]) *
                         (double)tdm_gemm_z_count(p);
    return tiles < MAX_TILES ? (int64_t)tiles : (int64_t)MAX_TILES;
}

/* Combines two times that overlap, except for a share of the shorter one. */
static double together(double x, double y) {
    return larger(x, y) + UNHIDDEN_SHARE * (x + y - larger(x, y));
}

double tdm_gemm_stream_ns(const tdm_gemm_problem *p, const tdm_device_info *info) {
    const double d = (double)p->m * (double)p->n * (double)tdm_gemm_z_count(p);
    const double bytes = operand_bytes(p) + d * element_bytes(p->d.dtype);
    return (double)tdm_gemm_outer_count(p) * (LAUNCH_NS + bytes / memory_of(info));
}

void tdm_gemm_waves_of(const tdm_gemm_problem *p, const tdm_variant *row,
                       const tdm_device_info *info, int64_t parts, tdm_gemm_waves *waves) {
    const wave_terms t = terms_of(p, row, info);
    const tdm_gemm_cut cut = tdm_gemm_cut_k(p, parts);
    const double d = (double)p->m * (double)p->n * (double)tdm_gemm_z_count(p);
    const int64_t tiles = tiles_of(p, row);
    const double sums = (double)cut.slots * d * sizeof(float);
    const double d_bytes = cut.parts > 1 ? (double)sizeof(float) : element_bytes(p->d.dtype);
    double launches = 1.0, join = 0.0;
    double units = launch_ns(&t, tiles * cut.parts, cut.depth, d_bytes);
    double memory = operand_bytes(p) + d * element_bytes(p->d.dtype);
    if (cut.rest > 0) {
        units += launch_ns(&t, tiles, cut.rest, d_bytes);
        launches += 1.0;
    }
    if (cut.parts > 1) {
        launches += 1.0;
        join = sums / (sums < (double)info->cache_bytes / 2.0 ? t.shared : t.memory);
    }
    memory /= t.memory;
    *waves = (tdm_gemm_waves){.asked = parts,
                              .parts = cut.parts,
                              .tiles = tiles * cut.parts,
                              .resident = t.resident,
                              .waves = tdm_ceil_div(tiles * cut.parts, t.units * t.resident),
                              .memory_bound = memory > units};
    waves->ns =
        (double)tdm_gemm_outer_count(p) * (launches * LAUNCH_NS + together(units, memory) + join);
}

void tdm_gemm_waves_best(const tdm_gemm_problem *p, const tdm_variant *row,
                         const tdm_device_info *info, tdm_gemm_waves *best) {
    tdm_gemm_waves other;
    tdm_gemm_waves_of(p, row, info, 1, best);
    if (tdm_gemm_split_refuse(p, row) ||
        best->tiles * cluster_of(row) >= (int64_t)info->compute_units * best->resident)
        return;
    for (int64_t parts = 2; parts <= p->k / MIN_PART && parts <= MAX_PARTS; parts++) {
        tdm_gemm_waves_of(p, row, info, parts, &other);
        if (other.ns < best->ns * (best->asked == 1 ? WORTHWHILE : 1.0))
            *best = other;
    }
}
