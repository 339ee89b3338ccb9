// The schedule of an out-of-core GEMM runs against a virtual clock. Every tile is computed once, no
// slot is overwritten in use, and copies overlap with compute.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/outofcore/outofcore_schedule.h"
#include "tests/support/test_case.h"
#include "tests/support/test_data.h"

/* ---- grids ----------------------------------------------------------------------------------- */

/* Entries share A, B, both or neither, as the bits of `user` say. */
static void own_matrices(const void *user, int64_t entry, int64_t *a, int64_t *b) {
    const unsigned shared = *(const unsigned *)user;
    *a = shared & 1 ? 0 : entry * 1000;
    *b = shared & 2 ? 0 : entry * 1000;
}

static tdm_ooc_grid random_grid(test_random *random, unsigned *shared) {
    *shared = (unsigned)test_random_int(random, 0, 3);
    return (tdm_ooc_grid){.entries = test_random_int(random, 1, 3),
                          .m = test_random_int(random, 1, 40),
                          .n = test_random_int(random, 1, 40),
                          .tile_rows = test_random_int(random, 1, 20),
                          .k = test_random_int(random, 0, 50),
                          .depth = test_random_int(random, 0, 30),
                          .tile_columns = test_random_int(random, 1, 20),
                          .columns_outside = test_random_int(random, 0, 1),
                          .loads_constants = test_random_int(random, 0, 1),
                          .loads_a = test_random_int(random, 0, 4) > 0,
                          .loads_b = test_random_int(random, 0, 4) > 0,
                          .loads_c = test_random_int(random, 0, 1),
                          .loads_residual = test_random_int(random, 0, 1),
                          .stores_d = test_random_int(random, 0, 4) > 0,
                          .a_slots = (int)test_random_int(random, 1, TDM_OOC_MAX_SLOTS),
                          .b_slots = (int)test_random_int(random, 1, TDM_OOC_MAX_SLOTS),
                          .d_slots = (int)test_random_int(random, 1, TDM_OOC_MAX_SLOTS),
                          .matrices = own_matrices,
                          .user = shared};
}

/* ---- accesses to the slots ------------------------------------------------------------------- */

typedef struct interval {
    double start, end;
} interval;

/* This is the state of a slot: its contents, when they are ready, and when the last reader ends. */
typedef struct held {
    int64_t matrix, line;
    double ready, read_until;
} held;

typedef struct watch {
    held a[TDM_OOC_MAX_SLOTS], b[TDM_OOC_MAX_SLOTS], c[TDM_OOC_MAX_SLOTS],
        residual[TDM_OOC_MAX_SLOTS], d[TDM_OOC_MAX_SLOTS];
    double constants;
} watch;

static void write_slot(held *slot, int64_t matrix, int64_t line, interval when) {
    assert_true(when.start >= slot->read_until);
    *slot = (held){matrix, line, when.end, 0};
}

static void read_slot(held *slot, int64_t matrix, int64_t line, interval when) {
    assert_int_equal(slot->matrix, matrix);
    assert_int_equal(slot->line, line);
    assert_true(when.start >= slot->ready);
    if (when.end > slot->read_until)
        slot->read_until = when.end;
}

static int64_t tile_number(const tdm_ooc_step *step) {
    return (step->entry * 1000 + step->row) * 1000 + step->column;
}

/* Identifies a panel by its first row or column and its first step of K. */
static int64_t piece(const tdm_ooc_step *step, int64_t line) {
    return line * 1000 + step->k;
}

static void watch_product(const tdm_ooc_grid *grid, const tdm_ooc_step *step, watch *w,
                          interval when) {
    int64_t a, b;
    grid->matrices(grid->user, step->entry, &a, &b);
    if (grid->loads_constants)
        assert_true(when.start >= w->constants && w->constants > 0);
    if (grid->loads_a)
        read_slot(&w->a[step->a_slot], a, piece(step, step->row), when);
    if (grid->loads_b)
        read_slot(&w->b[step->b_slot], b, piece(step, step->column), when);
    if (grid->loads_c && step->first)
        read_slot(&w->c[step->d_slot], 0, tile_number(step), when);
    if (grid->loads_residual && step->last)
        read_slot(&w->residual[step->d_slot], 0, tile_number(step), when);
    if (grid->stores_d && step->last)
        write_slot(&w->d[step->d_slot], 0, tile_number(step), when);
}

static void watch_step(const tdm_ooc_grid *grid, const tdm_ooc_step *step, watch *w,
                       interval when) {
    int64_t a, b;
    grid->matrices(grid->user, step->entry, &a, &b);
    switch (step->kind) {
    case TDM_OOC_LOAD_CONSTANTS:
        w->constants = when.end;
        break;
    case TDM_OOC_LOAD_A:
        write_slot(&w->a[step->a_slot], a, piece(step, step->row), when);
        break;
    case TDM_OOC_LOAD_B:
        write_slot(&w->b[step->b_slot], b, piece(step, step->column), when);
        break;
    case TDM_OOC_LOAD_C:
        write_slot(&w->c[step->d_slot], 0, tile_number(step), when);
        break;
    case TDM_OOC_LOAD_RESIDUAL:
        write_slot(&w->residual[step->d_slot], 0, tile_number(step), when);
        break;
    case TDM_OOC_MULTIPLY:
        watch_product(grid, step, w, when);
        break;
    case TDM_OOC_STORE:
        read_slot(&w->d[step->d_slot], 0, tile_number(step), when);
        break;
    }
}

/* This holds the seconds of each step, by the step's index. */
typedef struct durations {
    const tdm_ooc_schedule *schedule;
    double *seconds;
} durations;

static double duration_of(const void *user, const tdm_ooc_step *step) {
    const durations *const d = user;
    return d->seconds[step - d->schedule->steps];
}

/* Simulates random durations of the steps, several times, so that races show. */
static void check_slots(const tdm_ooc_grid *grid, const tdm_ooc_schedule *schedule,
                        test_random *random) {
    const size_t count = (size_t)schedule->count;
    double *const seconds = malloc(count * sizeof *seconds), *const ends =
                                                                 malloc(count * sizeof *ends);
    for (int round = 0; round < 4; round++) {
        const durations d = {schedule, seconds};
        tdm_ooc_times times;
        watch w;
        memset(&w, 0, sizeof w);
        for (size_t i = 0; i < count; i++)
            seconds[i] = (double)test_random_int(random, 1, 64);
        tdm_ooc_simulate(schedule, duration_of, &d, true, ends, &times);
        for (int i = 0; i < schedule->count; i++)
            watch_step(grid, &schedule->steps[i], &w, (interval){ends[i] - seconds[i], ends[i]});
        const double sum = times.busy[0] + times.busy[1] + times.busy[2];
        assert_true(times.total <= sum);
        for (int e = 0; e < TDM_OOC_ENGINES; e++)
            assert_true(times.total >= times.busy[e]);
        tdm_ooc_simulate(schedule, duration_of, &d, false, NULL, &times);
        assert_true(times.total == sum && times.overlap == 0);
    }
    free(seconds);
    free(ends);
}

/* The GEMM steps of a tile follow each other through all of K, with no other tile's in between. */
static void check_k(const tdm_ooc_grid *grid, const tdm_ooc_schedule *schedule) {
    int64_t done = 0, tile = -1;
    for (int i = 0; i < schedule->count; i++) {
        const tdm_ooc_step *const step = &schedule->steps[i];
        if (step->kind != TDM_OOC_MULTIPLY)
            continue;
        assert_int_equal(step->first, step->k == 0);
        assert_int_equal(step->k, done);
        assert_true(step->first || tile_number(step) == tile);
        assert_true(grid->depth == 0 || step->depth <= grid->depth);
        tile = tile_number(step);
        done += step->depth;
        assert_int_equal(step->last, done == grid->k);
        if (step->last)
            done = 0;
    }
    assert_int_equal(done, 0);
}

/*
 * Each element of D belongs to exactly one last GEMM step and, if tiles are stored, to one store.
 */
static void check_cover(const tdm_ooc_grid *grid, const tdm_ooc_schedule *schedule) {
    const int64_t size = grid->entries * grid->m * grid->n;
    unsigned char *const products = calloc((size_t)size, 1), *const stores =
                                                                 calloc((size_t)size, 1);
    for (int i = 0; i < schedule->count; i++) {
        const tdm_ooc_step *const step = &schedule->steps[i];
        unsigned char *const marks = step->kind == TDM_OOC_MULTIPLY && step->last ? products
                                     : step->kind == TDM_OOC_STORE                ? stores
                                                                                  : NULL;
        assert_true(step->rows <= grid->tile_rows && step->columns <= grid->tile_columns);
        for (int64_t r = 0; marks && r < step->rows; r++)
            for (int64_t c = 0; c < step->columns; c++)
                marks[(step->entry * grid->m + step->row + r) * grid->n + step->column + c]++;
    }
    for (int64_t i = 0; i < size; i++) {
        assert_int_equal(products[i], 1);
        assert_int_equal(stores[i], grid->stores_d);
    }
    free(products);
    free(stores);
}

TEST(no_slot_is_overwritten) {
    test_random random = {20241122};
    for (int i = 0; i < 300; i++) {
        unsigned shared;
        const tdm_ooc_grid grid = random_grid(&random, &shared);
        tdm_ooc_schedule schedule;
        assert_int_equal(tdm_ooc_schedule_make(&grid, &schedule), TDM_OK);
        check_cover(&grid, &schedule);
        check_k(&grid, &schedule);
        check_slots(&grid, &schedule, &random);
        tdm_ooc_schedule_release(&schedule);
    }
}

/* ---- overlap of copies and compute ----------------------------------------------------------- */

/* `in` and `out` are elements per second of the link; `compute` is multiply-adds per second. */
typedef struct rates {
    double in, out, compute;
    int64_t k;
} rates;

static double rated(const void *user, const tdm_ooc_step *step) {
    const rates *const r = user;
    switch (step->kind) {
    case TDM_OOC_LOAD_A:
        return (double)(step->rows * r->k) / r->in;
    case TDM_OOC_LOAD_B:
        return (double)(step->columns * r->k) / r->in;
    case TDM_OOC_LOAD_C:
    case TDM_OOC_LOAD_RESIDUAL:
        return (double)(step->rows * step->columns) / r->in;
    case TDM_OOC_MULTIPLY:
        return (double)(step->rows * step->columns * r->k) / r->compute;
    case TDM_OOC_STORE:
        return (double)(step->rows * step->columns) / r->out;
    default:
        return 0;
    }
}

static tdm_ooc_times run_rated(tdm_ooc_grid grid, const rates *r) {
    static const unsigned shared = 0;
    tdm_ooc_schedule schedule;
    tdm_ooc_times times;
    grid.matrices = own_matrices;
    grid.user = &shared;
    assert_int_equal(tdm_ooc_schedule_make(&grid, &schedule), TDM_OK);
    tdm_ooc_simulate(&schedule, rated, r, true, NULL, &times);
    tdm_ooc_schedule_release(&schedule);
    return times;
}

/* The slowest engine is idle only while the first panels are loaded and the last tile is stored. */
static void assert_hidden(const tdm_ooc_grid *grid, const rates *r) {
    const tdm_ooc_times times = run_rated(*grid, r);
    const double fill =
                     (double)((grid->tile_rows + grid->tile_columns) * r->k) / r->in +
                     (grid->loads_c ? (double)(grid->tile_rows * grid->tile_columns) / r->in : 0),
                 drain = (double)(grid->tile_rows * grid->tile_columns) / r->out +
                         (double)(grid->tile_rows * grid->tile_columns * r->k) / r->compute;
    double slowest = times.busy[0];
    for (int e = 1; e < TDM_OOC_ENGINES; e++)
        slowest = times.busy[e] > slowest ? times.busy[e] : slowest;
    assert_true(times.total <= (slowest + fill + drain) * (1 + 1e-12));
    assert_true(times.overlap > 0.5);
}

TEST(copies_hide_behind_products) {
    tdm_ooc_grid grid = {.entries = 1,
                         .m = 4096,
                         .n = 4096,
                         .tile_rows = 512,
                         .tile_columns = 512,
                         .loads_a = true,
                         .loads_b = true,
                         .stores_d = true,
                         .a_slots = 2,
                         .b_slots = 2,
                         .d_slots = 2};
    for (int outside = 0; outside < 2; outside++)
        for (int c = 0; c < 2; c++)
            for (int ragged = 0; ragged < 2; ragged++) {
                grid.columns_outside = outside;
                grid.loads_c = c;
                grid.m = ragged ? 4000 : 4096;
                grid.n = ragged ? 3333 : 4096;
                // The tile edge of 512 is above the crossover, compute / link, in the first case
                // and below it in the second.
                assert_hidden(&grid, &(rates){1e9, 1e9, 2e11, 4096});
                assert_hidden(&grid, &(rates){1e9, 1e9, 2e12, 4096});
                assert_hidden(&grid, &(rates){1e9, 2e6, 2e11, 4096});
            }
}

/* With one buffer for each operand, only the store of a tile can overlap with the next loads. */
TEST(single_buffers_wait) {
    tdm_ooc_grid grid = {.entries = 1,
                         .m = 2048,
                         .n = 2048,
                         .tile_rows = 512,
                         .tile_columns = 512,
                         .loads_a = true,
                         .loads_b = true,
                         .stores_d = true,
                         .a_slots = 1,
                         .b_slots = 1,
                         .d_slots = 1};
    const rates r = {1e9, 1e9, 5e11, 2048};
    const tdm_ooc_times one = run_rated(grid, &r);
    grid.a_slots = grid.b_slots = grid.d_slots = 2;
    const tdm_ooc_times two = run_rated(grid, &r);
    assert_true(one.total > 1.2 * two.total);
    // A panel stays loaded where the traversal turns: A is loaded 4 times, B 4 times and then 3·3
    // times.
    assert_true(fabs(one.busy[TDM_OOC_IN] - (4 + 4 + 3 * 3) * 512 * 2048 / 1e9) < 1e-9);
    // With two slots, two panels stay loaded.
    assert_true(fabs(two.busy[TDM_OOC_IN] - (4 + 4 + 3 * 2) * 512 * 2048 / 1e9) < 1e-9);
}

TEST(overlap_is_a_share) {
    const double busy[TDM_OOC_ENGINES] = {1, 4, 1};
    assert_true(tdm_ooc_overlap(busy, 6) == 0);
    assert_true(tdm_ooc_overlap(busy, 7) == 0);
    assert_true(tdm_ooc_overlap(busy, 5) == 0.5);
    assert_true(tdm_ooc_overlap(busy, 4) == 1);
    assert_true(tdm_ooc_overlap((const double[]){0, 4, 0}, 4) == 0);
}

TEST(empty_and_too_many) {
    const unsigned shared = 0;
    tdm_ooc_grid grid = {.entries = 1,
                         .m = 0,
                         .n = 5,
                         .tile_rows = 1,
                         .tile_columns = 1,
                         .a_slots = 1,
                         .b_slots = 1,
                         .d_slots = 1,
                         .matrices = own_matrices,
                         .user = &shared};
    tdm_ooc_schedule schedule;
    assert_int_equal(tdm_ooc_schedule_make(&grid, &schedule), TDM_OK);
    assert_int_equal(schedule.count, 0);
    grid.m = 1 << 20;
    assert_int_equal(tdm_ooc_schedule_make(&grid, &schedule), TDM_UNSUPPORTED);
    grid.m = INT64_MAX;
    grid.n = INT64_MAX;
    assert_int_equal(tdm_ooc_schedule_make(&grid, &schedule), TDM_UNSUPPORTED);
}

TEST_MAIN(NULL, NULL)
