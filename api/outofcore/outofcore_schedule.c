/* Makes the schedule of an out-of-core GEMM: the steps of each tile and their dependencies. The
 * second part simulates the schedule with a virtual clock. */
#include "api/outofcore/outofcore_schedule.h"

#include <string.h>

#include "api/backend.h"

#define MAX_TILES 1000000
#define NOBODY (-1)

/* ---- making ---------------------------------------------------------------------------------- */

/* This describes the content of a slot and the steps that used it last. */
typedef struct slot {
    int64_t matrix, line, k; /* position of the loaded panel; matrix is -1 if there is none */
    int loaded_by;
    int read_by;   /* the last GEMM that reads it; for D, the last GEMM of a tile */
    int stored_by; /* for D, the last store from it */
    int64_t used;  /* uses are numbered; this is the last one */
} slot;

typedef struct maker {
    const tdm_ooc_grid *grid;
    tdm_ooc_schedule *schedule;
    slot a[TDM_OOC_MAX_SLOTS], b[TDM_OOC_MAX_SLOTS], d[TDM_OOC_MAX_SLOTS];
    int constants;
    int64_t tile, uses;
} maker;

static int64_t ceil_div(int64_t a, int64_t b) {
    return a / b + (a % b != 0);
}

static void depend(const maker *m, tdm_ooc_step *step, int on) {
    if (on == NOBODY)
        return;
    tdm_ooc_step *const other = &m->schedule->steps[on];
    // Steps of one engine run in order anyway.
    if (other->engine == step->engine)
        return;
    other->awaited = true;
    step->dependencies[step->dependency_count++] = on;
}

/* Appends a copy of step `tile` with another engine and kind, and returns its number. The array of
 * steps must have room. */
static int append(maker *m, const tdm_ooc_step *tile, tdm_ooc_engine engine, tdm_ooc_kind kind) {
    const int number = m->schedule->count++;
    m->schedule->steps[number] = *tile;
    m->schedule->steps[number].engine = engine;
    m->schedule->steps[number].kind = kind;
    return number;
}

/* Returns the index of the slot that already holds the panel, or of the least recently used
 * slot. */
static int choose_slot(const slot *slots, int count, int64_t matrix, int64_t line, int64_t k) {
    int oldest = 0;
    for (int i = 0; i < count; i++) {
        if (slots[i].matrix == matrix && slots[i].line == line && slots[i].k == k)
            return i;
        if (slots[i].used < slots[oldest].used)
            oldest = i;
    }
    return oldest;
}

/* Appends the load of a panel unless the slot already holds it. */
static void load_panel(maker *m, const tdm_ooc_step *tile, tdm_ooc_kind kind, slot *target,
                       int64_t matrix, int64_t line) {
    target->used = m->uses++;
    if (target->matrix == matrix && target->line == line && target->k == tile->k)
        return;
    const int step = append(m, tile, TDM_OOC_IN, kind);
    depend(m, &m->schedule->steps[step], target->read_by);
    target->matrix = matrix;
    target->line = line;
    target->k = tile->k;
    target->loaded_by = step;
}

/* Appends the load of C or the residual into the slot that belongs to the tile of D. Returns the
 * step's number. */
static int load_addend(maker *m, const tdm_ooc_step *tile, tdm_ooc_kind kind, const slot *d) {
    const int step = append(m, tile, TDM_OOC_IN, kind);
    depend(m, &m->schedule->steps[step], d->read_by);
    return step;
}

/* Appends one GEMM of a tile and the loads that it needs. The last GEMM of the tile is followed by
 * the store of D. */
static void add_product(maker *m, tdm_ooc_step tile, int64_t a_matrix, int64_t b_matrix) {
    const tdm_ooc_grid *const grid = m->grid;
    tile.a_slot = choose_slot(m->a, grid->a_slots, a_matrix, tile.row, tile.k);
    tile.b_slot = choose_slot(m->b, grid->b_slots, b_matrix, tile.column, tile.k);
    slot *const a = &m->a[tile.a_slot], *const b = &m->b[tile.b_slot],
                *const d = &m->d[tile.d_slot];
    int c_loaded = NOBODY, residual_loaded = NOBODY;
    if (grid->loads_a)
        load_panel(m, &tile, TDM_OOC_LOAD_A, a, a_matrix, tile.row);
    if (grid->loads_b)
        load_panel(m, &tile, TDM_OOC_LOAD_B, b, b_matrix, tile.column);
    if (grid->loads_c && tile.first)
        c_loaded = load_addend(m, &tile, TDM_OOC_LOAD_C, d);
    if (grid->loads_residual && tile.last)
        residual_loaded = load_addend(m, &tile, TDM_OOC_LOAD_RESIDUAL, d);
    const int product = append(m, &tile, TDM_OOC_COMPUTE, TDM_OOC_MULTIPLY);
    tdm_ooc_step *const step = &m->schedule->steps[product];
    depend(m, step, m->constants);
    depend(m, step, a->loaded_by);
    depend(m, step, b->loaded_by);
    depend(m, step, c_loaded);
    depend(m, step, residual_loaded);
    if (tile.last)
        depend(m, step, d->stored_by);
    a->read_by = b->read_by = product;
    if (!tile.last)
        return;
    d->read_by = product;
    if (grid->stores_d) {
        d->stored_by = append(m, &tile, TDM_OOC_OUT, TDM_OOC_STORE);
        depend(m, &m->schedule->steps[d->stored_by], product);
    }
}

static int64_t extent_at(int64_t index, int64_t tile, int64_t whole) {
    return whole - index * tile < tile ? whole - index * tile : tile;
}

/* Returns the number of GEMMs per tile. */
static int64_t k_steps(const tdm_ooc_grid *grid) {
    return grid->depth > 0 && grid->depth < grid->k ? ceil_div(grid->k, grid->depth) : 1;
}

static void add_tile(maker *m, tdm_ooc_step tile, int64_t a_matrix, int64_t b_matrix) {
    const tdm_ooc_grid *const grid = m->grid;
    const int64_t steps = k_steps(grid), depth = steps > 1 ? grid->depth : grid->k;
    tile.d_slot = (int)(m->tile % grid->d_slots);
    for (int64_t i = 0; i < steps; i++) {
        tile.k = i * depth;
        tile.depth = extent_at(i, depth, grid->k);
        tile.first = i == 0;
        tile.last = i == steps - 1;
        add_product(m, tile, a_matrix, b_matrix);
    }
    m->tile++;
}

/* Appends the tiles of one batch entry. A line is a row or a column of tiles; odd lines are
 * traversed backwards. */
static void add_entry(maker *m, int64_t entry) {
    const tdm_ooc_grid *const grid = m->grid;
    const int64_t rows = ceil_div(grid->m, grid->tile_rows),
                  columns = ceil_div(grid->n, grid->tile_columns),
                  lines = grid->columns_outside ? columns : rows,
                  length = grid->columns_outside ? rows : columns;
    int64_t a_matrix, b_matrix;
    grid->matrices(grid->user, entry, &a_matrix, &b_matrix);
    for (int64_t line = 0; line < lines; line++) {
        for (int64_t i = 0; i < length; i++) {
            const int64_t along = line % 2 == 0 ? i : length - 1 - i;
            const int64_t row = grid->columns_outside ? along : line,
                          column = grid->columns_outside ? line : along;
            const tdm_ooc_step tile = {.entry = entry,
                                       .row = row * grid->tile_rows,
                                       .column = column * grid->tile_columns,
                                       .rows = extent_at(row, grid->tile_rows, grid->m),
                                       .columns = extent_at(column, grid->tile_columns, grid->n)};
            add_tile(m, tile, a_matrix, b_matrix);
        }
    }
}

static void clear_slots(slot *slots) {
    for (int i = 0; i < TDM_OOC_MAX_SLOTS; i++)
        slots[i] = (slot){.matrix = -1,
                          .loaded_by = NOBODY,
                          .read_by = NOBODY,
                          .stored_by = NOBODY,
                          .used = i - TDM_OOC_MAX_SLOTS};
}

tdm_status tdm_ooc_schedule_make(const tdm_ooc_grid *grid, tdm_ooc_schedule *schedule) {
    maker m = {.grid = grid, .schedule = schedule, .constants = NOBODY};
    memset(schedule, 0, sizeof *schedule);
    const double tiles = (double)grid->entries *
                         (double)(grid->m > 0 ? ceil_div(grid->m, grid->tile_rows) : 0) *
                         (double)(grid->n > 0 ? ceil_div(grid->n, grid->tile_columns) : 0);
    const int64_t steps = k_steps(grid);
    if (tiles * (double)steps > MAX_TILES)
        return tdm_fail(
            TDM_UNSUPPORTED,
            "outofcore: %.0f tiles of %lld by %lld in %lld steps of K are too many, at most %d",
            tiles, (long long)grid->tile_rows, (long long)grid->tile_columns, (long long)steps,
            MAX_TILES);
    if (tiles == 0.0)
        return TDM_OK;
    // Each step of K adds up to three entries: the loads of A and B, and the GEMM. Each tile adds
    // up to three more: the loads of C and the residual, and the store. One loads the constants.
    schedule->capacity = 3 * (int)tiles * ((int)steps + 1) + 1;
    schedule->steps = tdm_host_calloc((size_t)schedule->capacity, sizeof *schedule->steps);
    if (!schedule->steps)
        return tdm_fail(TDM_OUT_OF_HOST_MEMORY, "outofcore: no host memory for %d steps",
                        schedule->capacity);
    clear_slots(m.a);
    clear_slots(m.b);
    clear_slots(m.d);
    const tdm_ooc_step nothing = {0};
    if (grid->loads_constants)
        m.constants = append(&m, &nothing, TDM_OOC_IN, TDM_OOC_LOAD_CONSTANTS);
    for (int64_t entry = 0; entry < grid->entries; entry++)
        add_entry(&m, entry);
    schedule->tiles = m.tile;
    return TDM_OK;
}

void tdm_ooc_schedule_release(tdm_ooc_schedule *schedule) {
    tdm_host_free(schedule->steps);
    memset(schedule, 0, sizeof *schedule);
}

/* ---- the virtual clock ----------------------------------------------------------------------- */

double tdm_ooc_overlap(const double busy[TDM_OOC_ENGINES], double total) {
    double sum = 0.0, slowest = 0.0;
    for (int i = 0; i < TDM_OOC_ENGINES; i++) {
        sum += busy[i];
        slowest = busy[i] > slowest ? busy[i] : slowest;
    }
    const double hidden = sum - total, hideable = sum - slowest;
    if (hideable <= 0.0 || hidden <= 0.0)
        return 0.0;
    return hidden < hideable ? hidden / hideable : 1.0;
}

void tdm_ooc_simulate(const tdm_ooc_schedule *schedule, tdm_ooc_duration duration, const void *user,
                      bool overlaps, double *ends, tdm_ooc_times *times) {
    double now[TDM_OOC_ENGINES] = {0};
    // If no array is given, a temporary one holds the end of each step.
    double *const own = ends ? NULL : tdm_host_calloc((size_t)schedule->count + 1, sizeof *own);
    double *const end = ends ? ends : own;
    memset(times, 0, sizeof *times);
    for (int i = 0; i < schedule->count; i++) {
        const tdm_ooc_step *const step = &schedule->steps[i];
        double *const clock = &now[overlaps ? step->engine : 0];
        for (int d = 0; d < step->dependency_count && end; d++)
            if (end[step->dependencies[d]] > *clock)
                *clock = end[step->dependencies[d]];
        const double seconds = duration(user, step);
        *clock += seconds;
        times->busy[step->engine] += seconds;
        if (end)
            end[i] = *clock;
        if (*clock > times->total)
            times->total = *clock;
    }
    times->overlap = tdm_ooc_overlap(times->busy, times->total);
    tdm_host_free(own);
}
