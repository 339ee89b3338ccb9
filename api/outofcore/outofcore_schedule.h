/*
 * The schedule of an out-of-core GEMM: an explicit list of steps with dependencies, and a virtual clock that runs it.
 *
 * D is cut into tiles that stay on the device while they are computed (output-stationary). A tile needs a panel of A (its rows),
 * a panel of B (its columns) and its parts of C and of the residual; each is loaded into one of several slots. Tiles follow each
 * other in serpentines, so that a panel stays where the walk turns:
 *
 *     rows outside      ┌──►──►──►─┐        columns outside     ┌─┐ ┌─┐
 *                       ┌─◄──◄──◄──┘                            ▼ ▲ ▼ ▲
 *                       └──►──►──►─                             └─┘ └─┘
 *
 * Where K is cut, a tile has a product for each step of K, in the order of K: each needs a piece of both panels, the first one C
 * besides and the last one the residual.
 *
 * Nothing here knows of devices: steps have an engine (loads, products, stores), a place and a size. Steps of one engine run
 * in the order of the list; a step waits besides for those it names.
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
    TDM_OOC_LOAD_CONSTANTS, /* bias and quantization parameters, once */
    TDM_OOC_LOAD_A,
    TDM_OOC_LOAD_B,
    TDM_OOC_LOAD_C,
    TDM_OOC_LOAD_RESIDUAL,
    TDM_OOC_MULTIPLY,
    TDM_OOC_STORE
} tdm_ooc_kind;

#define TDM_OOC_MAX_SLOTS 3
/* A product waits for the constants, four operands and the store of its slot's former tile. */
#define TDM_OOC_MAX_DEPENDENCIES 6

/* What is to be cut, and how. Entries are those of the batch. */
typedef struct tdm_ooc_grid {
    int64_t entries, m, n;
    int64_t tile_rows, tile_columns;
    int64_t k, depth; /* K, and how much of it a product takes; depth 0: all */
    bool columns_outside;
    /* What is copied; an operand that is not is read or written where it is. */
    bool loads_constants, loads_a, loads_b, loads_c, loads_residual, stores_d;
    int a_slots, b_slots, d_slots; /* d_slots: of D, C and the residual alike */
    /* Number of the matrix of A and of B that an entry uses. */
    void (*matrices)(const void *user, int64_t entry, int64_t *a, int64_t *b);
    const void *user;
} tdm_ooc_grid;

typedef struct tdm_ooc_step {
    tdm_ooc_engine engine;
    tdm_ooc_kind kind;
    int64_t entry, row, column; /* of the tile, row and column in elements */
    int64_t rows, columns;      /* of the tile */
    int64_t k, depth;           /* first of K and how much of it */
    bool first, last;           /* of the tile's products */
    int a_slot, b_slot, d_slot; /* that it uses */
    int dependencies[TDM_OOC_MAX_DEPENDENCIES];
    int dependency_count;
    bool awaited; /* a step of another engine depends on it */
} tdm_ooc_step;

typedef struct tdm_ooc_schedule {
    tdm_ooc_step *steps;
    int count, capacity;
    int64_t tiles;
} tdm_ooc_schedule;

/* Statuses: TDM_OUT_OF_HOST_MEMORY, TDM_UNSUPPORTED (too many tiles). */
tdm_status tdm_ooc_schedule_make(const tdm_ooc_grid *grid, tdm_ooc_schedule *schedule);
void tdm_ooc_schedule_release(tdm_ooc_schedule *schedule);

/* Seconds that a step takes. */
typedef double (*tdm_ooc_duration)(const void *user, const tdm_ooc_step *step);

typedef struct tdm_ooc_times {
    double busy[TDM_OOC_ENGINES]; /* seconds of each engine */
    double total;                 /* from the first start to the last end */
    double
        overlap; /* share of what could be hidden that was: 0 one after another, 1 all behind the slowest engine */
} tdm_ooc_times;

/*
 * The virtual clock. Without `overlaps` the engines take turns, as on a device that does one thing at a time. `ends`, NULL or
 * of `count` entries, receives when each step ends.
 */
void tdm_ooc_simulate(const tdm_ooc_schedule *schedule, tdm_ooc_duration duration, const void *user,
                      bool overlaps, double *ends, tdm_ooc_times *times);

/* The overlap that busy times and a total amount to. */
double tdm_ooc_overlap(const double busy[TDM_OOC_ENGINES], double total);

#endif
