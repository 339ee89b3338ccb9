/*
 * The schedule of an out-of-core GEMM is a list of steps with dependencies. A virtual clock
 * simulates it.
 *
 * D is split into tiles that stay on the device while they are computed (output-stationary). A tile
 * needs a panel of A (its rows), a panel of B (its columns), and its parts of C and of the
 * residual. Each is loaded into one of several slots. The traversal of tiles is serpentine, so that
 * a panel stays in its slot where the direction turns:
 *
 *     rows outside      ┌──►──►──►─┐        columns outside     ┌─┐ ┌─┐
 *                       ┌─◄──◄──◄──┘                            ▼ ▲ ▼ ▲
 *                       └──►──►──►─                             └─┘ └─┘
 *
 * If K is split, a tile has one GEMM per step of K, in the order of K. Each needs a piece of both
 * panels. The first one also needs C, and the last one the residual.
 *
 * The schedule does not depend on a device. A step has an engine (loads, GEMMs or stores), a
 * position and a size. Steps of one engine run in the order of the list. A step also waits for its
 * dependencies.
 */
#ifndef TANDEM_API_OUTOFCORE_OUTOFCORE_SCHEDULE_H
#define TANDEM_API_OUTOFCORE_OUTOFCORE_SCHEDULE_H

#include <stdbool.h>
#include <stdint.h>

#include <tandem/status.h>

typedef enum tdm_ooc_engine {
    TDM_OOC_IN,
    TDM_OOC_COMPUTE,
    TDM_OOC_OUT,
    TDM_OOC_ENGINES
} tdm_ooc_engine;

typedef enum tdm_ooc_kind {
    TDM_OOC_LOAD_CONSTANTS, /* bias and quantization parameters, once per run */
    TDM_OOC_LOAD_A,
    TDM_OOC_LOAD_B,
    TDM_OOC_LOAD_C,
    TDM_OOC_LOAD_RESIDUAL,
    TDM_OOC_MULTIPLY,
    TDM_OOC_STORE
} tdm_ooc_kind;

#define TDM_OOC_MAX_SLOTS 3
/* A GEMM waits for the constants, four operands, and the store of the slot's previous tile. */
#define TDM_OOC_MAX_DEPENDENCIES 6

/* This describes the grid of tiles. */
typedef struct tdm_ooc_grid {
    int64_t entries, m, n;
    int64_t tile_rows, tile_columns;
    int64_t k, depth; /* K, and its part in one GEMM; depth 0: all */
    bool columns_outside;
    /* True for operands that are copied. Others are read or written in place. */
    bool loads_constants, loads_a, loads_b, loads_c, loads_residual, stores_d;
    int a_slots, b_slots, d_slots; /* d_slots: for D, C and the residual */
    /* Returns the numbers of the matrices of A and B that a batch entry uses. */
    void (*matrices)(const void *user, int64_t entry, int64_t *a, int64_t *b);
    const void *user;
} tdm_ooc_grid;

typedef struct tdm_ooc_step {
    tdm_ooc_engine engine;
    tdm_ooc_kind kind;
    int64_t entry, row, column; /* first row and column of the tile, in elements */
    int64_t rows, columns;      /* extent of the tile */
    int64_t k, depth;           /* first step of K, and number of steps */
    bool first, last;           /* first or last GEMM of the tile */
    int a_slot, b_slot, d_slot; /* slots that the step uses */
    int dependencies[TDM_OOC_MAX_DEPENDENCIES];
    int dependency_count;
    bool awaited; /* a step of another engine depends on it */
} tdm_ooc_step;

typedef struct tdm_ooc_schedule {
    tdm_ooc_step *steps;
    int count, capacity;
    int64_t tiles;
} tdm_ooc_schedule;

/* Returns TDM_OUT_OF_HOST_MEMORY, or TDM_UNSUPPORTED for too many tiles. */
tdm_status tdm_ooc_schedule_make(const tdm_ooc_grid *grid, tdm_ooc_schedule *schedule);
void tdm_ooc_schedule_release(tdm_ooc_schedule *schedule);

/* Returns the seconds that a step takes. */
typedef double (*tdm_ooc_duration)(const void *user, const tdm_ooc_step *step);

typedef struct tdm_ooc_times {
    double busy[TDM_OOC_ENGINES]; /* seconds, per engine */
    double total;                 /* from the first start to the last end */
    /* Share of the time of the faster engines that is hidden. 0: engines take turns, 1: all of it
     * is hidden behind the slowest engine. */
    double overlap;
} tdm_ooc_times;

/*
 * Runs the virtual clock. Without `overlaps` the engines take turns, like a device that does one
 * thing at a time. `ends` is NULL or has `count` entries, which receive the end of each step.
 */
void tdm_ooc_simulate(const tdm_ooc_schedule *schedule, tdm_ooc_duration duration, const void *user,
                      bool overlaps, double *ends, tdm_ooc_times *times);

/* Returns the overlap for given busy times and total time. */
double tdm_ooc_overlap(const double busy[TDM_OOC_ENGINES], double total);

#endif
