/*
 * These functions choose tile extents, traversal order and buffer counts. All sensible combinations
 * are compared by their predicted time.
 *
 * Let an element have s bytes, the device F operations per second and the link BW bytes per second.
 * GEMMs hide the copies if the tile's edge is at least s·F/BW. If the device does one thing at a
 * time, no copy is hidden, and the number of panel copies matters. It is then best to keep a large
 * panel of one operand and to copy narrow panels of the other. Each has one buffer.
 */
#include "api/outofcore/outofcore_internal.h"

/* Tiles are multiples of this; smaller ones are powers of two. Thin problems have finer steps, so
 * that their last tile is not too small. */
#define TILE_STEP 64
#define THIN_STEP 16
#define MAX_CANDIDATES 96
#define MAX_DEPTHS 32
/* If the longer side is at most this, the small-M family would swap a tile's operands and change
 * the order of its sums. */
#define SMALL_M_EXTENT 32

static int64_t count_of(int64_t whole, int64_t tile) {
    return whole > 0 ? tdm_ceil_div(whole, tile) : 0;
}

/* Lists extents to try, in descending order: the whole, about equal parts in whole steps, then a
 * step divided by 2, 4 and so on. */
static int candidates(int64_t whole, int64_t given, int64_t step, int64_t extents[MAX_CANDIDATES]) {
    int count = 0;
    if (given > 0 || whole <= 1) {
        extents[0] = given > 0 && given < whole ? given : whole > 0 ? whole : 1;
        return 1;
    }
    extents[count++] = whole;
    for (int64_t parts = 2; count < MAX_CANDIDATES - 8; parts += 1 + parts / 12) {
        const int64_t extent = tdm_ceil_div(tdm_ceil_div(whole, parts), step) * step;
        if (extent < extents[count - 1])
            extents[count++] = extent;
        if (extent <= step)
            break;
    }
    for (int64_t extent = step / 2; extent >= 2; extent /= 2)
        if (extent < extents[count - 1])
            extents[count++] = extent;
    return count;
}

/* These are the bytes of one slot of A, of one slot of B, and of a tile of D, C and the residual
 * together. */
typedef struct slot_sizes {
    uint64_t a, b, tile;
} slot_sizes;

static slot_sizes sizes_of(tdm_ooc_problem *p, int64_t rows, int64_t columns, int64_t depth) {
    uint64_t bytes[TDM_OOC_MATRICES];
    tdm_ooc_arrange(p, rows, columns, depth > 0 ? depth : p->k);
    for (int i = 0; i < TDM_OOC_MATRICES; i++) {
        const tdm_ooc_operand *const o = &p->operands[i];
        bytes[i] = o->present && !o->on_device ? o->slot_bytes : 0;
    }
    return (slot_sizes){bytes[TDM_OOC_A], bytes[TDM_OOC_B],
                        bytes[TDM_OOC_C] + bytes[TDM_OOC_RESIDUAL] + bytes[TDM_OOC_D]};
}

/* ---- prediction ------------------------------------------------------------------------------ */

/* These bytes are copied for one whole batch entry. */
typedef struct volume {
    double a, b, in, out; /* in: C and the residual */
} volume;

static double copied(const tdm_ooc_operand *o) {
    if (!o->present || o->on_device)
        return 0.0;
    const double rows = o->row == 0 ? 1.0 : (double)o->rows,
                 columns = o->column == 0 ? 1.0 : (double)o->columns;
    return rows * columns * tdm_dtype_info(o->whole.dtype)->bits / 8.0;
}

static volume volume_of(const tdm_ooc_problem *p) {
    return (volume){copied(&p->operands[TDM_OOC_A]), copied(&p->operands[TDM_OOC_B]),
                    copied(&p->operands[TDM_OOC_C]) + copied(&p->operands[TDM_OOC_RESIDUAL]),
                    copied(&p->operands[TDM_OOC_D])};
}

/* Returns the bytes copied for the panels of the inner loop. They are copied once per line of
 * tiles, except those that stay in their slots where the traversal turns. */
static double passing(double bytes, int64_t lines, int64_t length, int slots) {
    if (length <= slots)
        return bytes;
    return bytes * (1.0 + (double)(lines - 1) * (double)(length - slots) / (double)length);
}

static double expected(const tdm_ooc_problem *p, const volume *v, const tdm_outofcore_rates *rates,
                       const tdm_ooc_choice *c) {
    const int64_t rows = count_of(p->m, c->tile_rows), columns = count_of(p->n, c->tile_columns);
    const double tiles = (double)rows * (double)columns, entries = (double)p->entries,
                 steps = c->depth > 0 ? (double)tdm_ceil_div(p->k, c->depth) : 1.0;
    double a = c->columns_outside ? passing(v->a, columns, rows, c->a_slots) : v->a,
           b = c->columns_outside ? v->b : passing(v->b, rows, columns, c->b_slots);
    if (c->depth > 0) { // pieces of a panel are copied for every tile
        a = v->a * (double)columns;
        b = v->b * (double)rows;
    }
    const double a_panel = v->a / (double)rows / steps, b_panel = v->b / (double)columns / steps;
    const double copies = (a_panel > 0.0 ? a / a_panel : 0.0) + (b_panel > 0.0 ? b / b_panel : 0.0);
    const double in = (a + b + v->in) / rates->in_bytes_per_s + copies * rates->step_s,
                 out =
                     v->out / rates->out_bytes_per_s + (v->out > 0.0 ? tiles * rates->step_s : 0.0),
                 compute = p->operations / entries / rates->operations_per_s /
                               tdm_ooc_efficiency(c->tile_rows, c->tile_columns) +
                           tiles * steps * rates->step_s;
    if (rates->overlap < 0)
        return entries * (in + out + compute);
    double busiest = in > compute ? in : compute;
    if (out > busiest)
        busiest = out;
    // Copies of an operand with a single buffer cannot be hidden.
    double stalls = (a_panel + b_panel) / rates->in_bytes_per_s + out / tiles;
    if (c->a_slots == 1 && a_panel > 0.0)
        stalls += (a / a_panel - 1.0) * a_panel / rates->in_bytes_per_s;
    if (c->b_slots == 1 && b_panel > 0.0)
        stalls += (b / b_panel - 1.0) * b_panel / rates->in_bytes_per_s;
    if (c->d_slots == 1)
        stalls += out + v->in / rates->in_bytes_per_s;
    return entries * (busiest + stalls);
}

/* ---- the search ------------------------------------------------------------------------------ */

typedef struct search {
    tdm_ooc_problem *problem;
    const tdm_ooc_bounds *bounds;
    const tdm_outofcore_rates *rates;
    volume volume;
    double best;
    uint64_t least;
    tdm_ooc_choice *choice;
} search;

static int64_t last_extent(int64_t whole, int64_t tile) {
    return whole - (count_of(whole, tile) - 1) * tile;
}

static bool is_small_m(const tdm_ooc_problem *p) {
    const tdm_variant *const variant = tdm_gemm_named_variant(p->variant);
    return variant && variant->op == TDM_OP_GEMM &&
           variant->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_SMALL_M;
}

bool tdm_ooc_keeps_family(const tdm_ooc_problem *p, int64_t rows, int64_t columns) {
    if (!p->variant[0] && rows != p->m && last_extent(p->m, rows) <= THIN_STEP)
        return false;
    if ((rows == p->m && columns == p->n) || !is_small_m(p))
        return true;
    const bool swapped = p->n <= SMALL_M_EXTENT && p->n < p->m;
    if (swapped)
        return columns == p->n && last_extent(p->m, rows) > SMALL_M_EXTENT;
    return rows == p->m && last_extent(p->n, columns) > SMALL_M_EXTENT;
}

static void consider(search *s, const slot_sizes *sizes, const tdm_ooc_choice *choice) {
    const int64_t partial = choice->depth > 0 ? choice->tile_rows * choice->tile_columns : 0;
    const uint64_t bytes =
        (uint64_t)partial * TDM_OOC_PARTIAL_BYTES + (uint64_t)choice->a_slots * sizes->a +
        (uint64_t)choice->b_slots * sizes->b + (uint64_t)choice->d_slots * sizes->tile +
        s->bounds->reserved +
        (uint64_t)(s->bounds->workspace_per_column * (double)choice->tile_columns);
    if (s->least == 0 || bytes < s->least)
        s->least = bytes;
    if (bytes > s->bounds->budget)
        return;
    const double seconds = expected(s->problem, &s->volume, s->rates, choice);
    if (s->best >= 0.0 && seconds >= s->best)
        return;
    s->best = seconds;
    *s->choice = *choice;
}

static void consider_buffers(search *s, int64_t rows, int64_t columns, int64_t depth) {
    const slot_sizes sizes = sizes_of(s->problem, rows, columns, depth);
    const int given = s->bounds->buffers;
    const bool many_rows = count_of(s->problem->m, rows) > 1 || s->problem->entries > 1,
               many_columns = count_of(s->problem->n, columns) > 1 || s->problem->entries > 1;
    const int first = given > 0 ? given : 1, last = given > 0               ? given
                                                    : s->rates->overlap < 0 ? 1
                                                                            : TDM_OOC_MAX_SLOTS;
    for (int a = first; a <= last; a++)
        for (int b = first; b <= last; b++)
            for (int d = first; d <= last; d++)
                for (int outside = 0; outside < 2; outside++) {
                    // A second buffer for data that never changes is useless.
                    const tdm_ooc_choice choice = {.tile_rows = rows,
                                                   .tile_columns = columns,
                                                   .depth = depth,
                                                   .columns_outside = outside,
                                                   .a_slots = many_rows || depth > 0 ? a : 1,
                                                   .b_slots = many_columns || depth > 0 ? b : 1,
                                                   .d_slots = many_rows || many_columns ? d : 1};
                    consider(s, &sizes, &choice);
                }
}

/* Lists depths of steps of K to try, in descending order: all of K, or about equal parts. */
static int depths_of(const tdm_ooc_problem *p, bool cuts_k, int64_t depths[MAX_DEPTHS]) {
    const int64_t unit = tdm_ooc_k_unit(p);
    int count = 0;
    depths[0] = 0;
    if (!cuts_k || unit == 0)
        return cuts_k ? 0 : 1;
    for (int64_t parts = 2; count < MAX_DEPTHS; parts *= 2) {
        const int64_t depth = tdm_ceil_div(tdm_ceil_div(p->k, parts), unit) * unit;
        if (depth < p->k)
            depths[count++] = depth;
        if (depth <= unit)
            break;
    }
    return count;
}

/* Tries all tiles for a depth. If K is split, the sums differ anyway, so any kernel family may be
 * used. */
static void consider_tiles(search *s, int64_t depth) {
    const tdm_ooc_problem *const p = s->problem;
    int64_t rows[MAX_CANDIDATES], columns[MAX_CANDIDATES];
    const bool thin = depth == 0 && (is_small_m(p) || !p->variant[0]);
    const int64_t step = thin ? THIN_STEP : TILE_STEP;
    const int row_count = candidates(p->m, s->bounds->tile_rows, step, rows),
              column_count = candidates(p->n, s->bounds->tile_columns, step, columns);
    for (int i = 0; i < row_count; i++)
        for (int j = 0; j < column_count; j++)
            if (depth > 0 || tdm_ooc_keeps_family(p, rows[i], columns[j]))
                consider_buffers(s, rows[i], columns[j], depth);
}

bool tdm_ooc_choose(tdm_ooc_problem *problem, const tdm_ooc_bounds *bounds,
                    const tdm_outofcore_rates *rates, tdm_ooc_choice *choice, uint64_t *least) {
    int64_t depths[MAX_DEPTHS];
    search s = {.problem = problem,
                .bounds = bounds,
                .rates = rates,
                .volume = volume_of(problem),
                .best = -1.0,
                .choice = choice};
    const int count = depths_of(problem, bounds->cuts_k, depths);
    for (int i = 0; i < count; i++)
        consider_tiles(&s, depths[i]);
    *least = s.least;
    return s.best >= 0.0;
}
