/*
 * These are the internal types and functions of out-of-core GEMM.
 *
 * outofcore_schedule.c  makes the list of steps and simulates it with a virtual clock
 * outofcore_operand.c   lays out tiles in slots and copies them
 * outofcore_tile.c      makes the descriptions and arguments of tile GEMMs
 * outofcore_rates.c     measures copies and GEMMs
 * outofcore_planner.c   chooses tile extents and buffer counts
 * outofcore_plan.c      owns the plan
 * outofcore_run.c       enqueues it
 * outofcore_inputs.c    checks the operands of a run
 */
#ifndef TANDEM_API_OUTOFCORE_OUTOFCORE_INTERNAL_H
#define TANDEM_API_OUTOFCORE_OUTOFCORE_INTERNAL_H

#include "api/device/memory/staging_ring.h"
#include "api/gemm/gemm_internal.h"
#include "api/outofcore/outofcore_schedule.h"

#include <tandem/outofcore.h>

/* ---- operands -------------------------------------------------------------------------------- */

typedef enum tdm_ooc_name {
    TDM_OOC_A,
    TDM_OOC_B,
    TDM_OOC_C,
    TDM_OOC_RESIDUAL,
    TDM_OOC_D,
    TDM_OOC_MATRICES
} tdm_ooc_name;

/* This is a matrix operand after op(). Its rows and columns are those of one batch entry. */
typedef struct tdm_ooc_operand {
    const char *name;
    bool present, on_device;
    bool transposed; /* the first dimension of the stored matrix is op()'s columns */
    tdm_layout whole;
    tdm_quant_layout quant;
    int64_t rows, columns;
    int64_t row, column; /* element strides, 0 along a dimension of size 1 */
    /* Layout of a tile in a slot: element strides, and the bytes of the largest tile. */
    int64_t slot_row, slot_column;
    uint64_t slot_bytes;
    int slots; /* 0: none, the operand is read or written in place */
    tdm_buffer *buffers[TDM_OOC_MAX_SLOTS];
} tdm_ooc_operand;

/* These small operands are copied as a whole, once per run. */
typedef enum tdm_ooc_constant_name {
    TDM_OOC_BIAS,
    TDM_OOC_A_SCALE,
    TDM_OOC_A_ZERO,
    TDM_OOC_B_SCALE,
    TDM_OOC_B_ZERO,
    TDM_OOC_D_SCALE,
    TDM_OOC_D_ZERO,
    TDM_OOC_CONSTANTS
} tdm_ooc_constant_name;

typedef struct tdm_ooc_constant {
    const char *name;
    tdm_layout layout; /* dtype NONE: absent */
    bool on_device;
    size_t bytes; /* from the first element to the last */
    tdm_buffer *buffer;
} tdm_ooc_constant;

typedef struct tdm_ooc_problem {
    tdm_gemm_desc desc; /* variant is NULL */
    tdm_op op;
    int64_t m, n, k, entries;
    int batch_rank;
    int64_t batch_shape[TDM_GEMM_BATCH_RANK];
    tdm_ooc_operand operands[TDM_OOC_MATRICES];
    tdm_ooc_constant constants[TDM_OOC_CONSTANTS];
    /* All tiles use this variant, so that sums have the same order as in the in-core GEMM. It is ""
     * if any variant may be used. */
    char variant[96];
    /* Tiles use this variant if A or B on the device begins at an address that `variant` cannot
     * read. "": not needed. */
    char unaligned[96];
    bool forced; /* the caller named the kernel */
    double operations;
} tdm_ooc_problem;

/* Derives the problem from a checked description. `whole` is the in-core plan for it. */
tdm_status tdm_ooc_problem_from(const tdm_outofcore_desc *desc, const tdm_gemm_plan *whole,
                                tdm_ooc_problem *problem);

/* Returns the element offset of a batch entry within an operand or parameter. */
int64_t tdm_ooc_matrix_offset(const tdm_ooc_problem *problem, const tdm_layout *layout,
                              int64_t entry);

/* Lays out slots for tiles of D of at most this many rows and columns, with `depth` steps of K. */
void tdm_ooc_arrange(tdm_ooc_problem *problem, int64_t tile_rows, int64_t tile_columns,
                     int64_t depth);

/* This is a region of an operand after op(): its offset and extent. */
typedef struct tdm_ooc_area {
    int64_t matrix; /* offset of the matrix in elements */
    int64_t row, column, rows, columns;
} tdm_ooc_area;

/* Returns the region of an operand that a step needs for its tile of D. */
tdm_ooc_area tdm_ooc_area_of(const tdm_ooc_problem *problem, tdm_ooc_name name,
                             const tdm_ooc_step *step);
/* Returns the number of bytes that a copy of the region moves. */
uint64_t tdm_ooc_area_bytes(const tdm_ooc_operand *operand, const tdm_ooc_area *area);

/* Enqueue the copy of a region between host memory and a slot. It goes through pinned memory if
 * `ring` is not NULL. */
tdm_status tdm_ooc_load(tdm_stream *stream, const tdm_ooc_operand *operand, int slot,
                        const tdm_ooc_area *area, const void *memory, tdm_staging_ring *ring);
tdm_status tdm_ooc_store(tdm_stream *stream, const tdm_ooc_operand *operand, int slot,
                         const tdm_ooc_area *area, void *memory, tdm_staging_ring *ring);

/* ---- tile GEMMs ------------------------------------------------------------------------------ */

/* Describes the GEMM of a tile of D with `depth` steps of K. If `in_slots` is set, operands on the
 * device are in slots too. */
tdm_status tdm_ooc_tile_desc(const tdm_ooc_problem *problem, int64_t rows, int64_t columns,
                             int64_t depth, bool in_slots, tdm_gemm_desc *desc);

/*
 * If K is split, a tile has one GEMM per step of K. The first one adds C and the bias. The last one
 * adds the residual and applies the activation. Intermediate sums are in the plan's partial tile,
 * as f32, or as s32 if D is an integer.
 */
typedef enum tdm_ooc_part {
    TDM_OOC_WHOLE,
    TDM_OOC_FIRST = TDM_OOC_WHOLE,
    TDM_OOC_MIDDLE,
    TDM_OOC_LAST,
    TDM_OOC_PARTS
} tdm_ooc_part;

/* Describes one of several GEMMs along K. */
tdm_status tdm_ooc_part_desc(const tdm_ooc_problem *problem, int64_t rows, int64_t columns,
                             int64_t depth, tdm_ooc_part part, tdm_gemm_desc *desc);
/* True if D is an integer. Its sums are exact however K is split. */
bool tdm_ooc_gives_integers(const tdm_ooc_problem *problem);
/* An element of the partial tile has this many bytes. */
#define TDM_OOC_PARTIAL_BYTES 4
/* Steps of K are multiples of this, which keeps cache lines and quantization groups whole. 0: K
 * cannot be split. */
int64_t tdm_ooc_k_unit(const tdm_ooc_problem *problem);

/* These are the buffers and element offsets of the operands of one GEMM, by name. A buffer is NULL
 * if the operand is absent. */
typedef struct tdm_ooc_places {
    tdm_buffer *matrix[TDM_OOC_MATRICES];
    int64_t matrix_offset[TDM_OOC_MATRICES];
    tdm_buffer *constant[TDM_OOC_CONSTANTS];
    int64_t constant_offset[TDM_OOC_CONSTANTS];
    tdm_buffer *workspace;
} tdm_ooc_places;

/* Enqueues the GEMM of a plan whose description came from tdm_ooc_tile_desc. */
tdm_status tdm_ooc_multiply(const tdm_gemm_plan *plan, tdm_stream *stream,
                            const tdm_ooc_places *places);

/* Returns the element offset within a constant for a step's tile and its range of K. */
int64_t tdm_ooc_constant_offset(const tdm_ooc_problem *problem, tdm_ooc_constant_name name,
                                const tdm_ooc_step *step);

/* ---- rates ----------------------------------------------------------------------------------- */

/* Fills in the rates that are 0. It measures those that the device does not know yet, with at most
 * `budget` bytes of device memory at a time. If that fails, it assumes default rates. */
void tdm_ooc_rates_complete(tdm_device *device, const tdm_ooc_problem *problem, uint64_t budget,
                            tdm_outofcore_rates *rates);
/* Returns the bytes per second from the host to the device. The first call measures them, within
 * the same limit. */
double tdm_ooc_in_rate(tdm_device *device, uint64_t budget);
/* Returns the share of the full speed that a GEMM of this many rows and columns reaches. */
double tdm_ooc_efficiency(int64_t rows, int64_t columns);

/* ---- the planner ----------------------------------------------------------------------------- */

typedef struct tdm_ooc_choice {
    int64_t tile_rows, tile_columns;
    int64_t depth; /* of K in one GEMM; 0: all */
    bool columns_outside;
    int a_slots, b_slots, d_slots;
} tdm_ooc_choice;

/* These are limits and fixed values for the planner. */
typedef struct tdm_ooc_bounds {
    uint64_t budget;
    uint64_t reserved;               /* bytes of constants */
    double workspace_per_column;     /* bytes per column of a tile */
    int64_t tile_rows, tile_columns; /* 0: free */
    int buffers;                     /* 0: free */
    bool cuts_k;
} tdm_ooc_bounds;

/* True if tiles of these extents use the kernel family of the whole GEMM. Few rows or columns would
 * select another family, whose sums differ. */
bool tdm_ooc_keeps_family(const tdm_ooc_problem *problem, int64_t rows, int64_t columns);

/*
 * Makes the choice with the least predicted time. K is split into two or more steps if
 * bounds->cuts_k is true. Returns false if nothing fits. *least is then the bytes that the smallest
 * choice needs, or 0 if no tile of the given extents keeps the whole GEMM's kernels. The call
 * changes the layout of the problem's slots.
 */
bool tdm_ooc_choose(tdm_ooc_problem *problem, const tdm_ooc_bounds *bounds,
                    const tdm_outofcore_rates *rates, tdm_ooc_choice *choice, uint64_t *least);

/* ---- the plan -------------------------------------------------------------------------------- */

/* These events are recorded around the steps of a run. */
typedef struct tdm_ooc_record {
    tdm_event **starts, **ends; /* indexed by step */
    tdm_event *first, *last;
    bool complete;
} tdm_ooc_record;

struct tdm_outofcore_plan {
    tdm_device *device; /* reference-counted */
    pthread_mutex_t lock;
    tdm_ooc_problem problem;
    tdm_ooc_choice choice;
    tdm_ooc_schedule schedule;
    /* The first two indices are 1 if the rows or columns are those of the last, smaller tile. */
    tdm_gemm_plan *products[2][2][TDM_OOC_PARTS];
    tdm_buffer *partial; /* intermediate sums of a tile if K is split */
    tdm_buffer *workspace;
    tdm_stream *streams[TDM_OOC_ENGINES];
    /* These copy pageable memory from and to a discrete device. NULL: not opened yet. */
    tdm_staging_ring *ring_in, *ring_out;
    tdm_event *previous; /* the end of the last run */
    tdm_outofcore_info info;
    bool measures;
    tdm_ooc_record record;
};

/* Builds plans for the up to four shapes of the chosen tile. *workspace is the largest that
 * one of them needs. */
tdm_status tdm_ooc_build_products(tdm_outofcore_plan *plan, uint64_t *workspace);
void tdm_ooc_drop_products(tdm_outofcore_plan *plan);
tdm_status tdm_ooc_schedule_plan(tdm_outofcore_plan *plan);

/*
 * Multiplies tile by tile on one stream. All operands must be on the device. The plan's tile GEMMs
 * and workspace must exist; the schedule is made here. Nothing is allocated on the device.
 */
tdm_status tdm_ooc_run_in_place(tdm_outofcore_plan *plan, tdm_stream *stream,
                                const tdm_outofcore_args *args);

/* Returns the predicted seconds of a step. `user` is a tdm_outofcore_plan. */
double tdm_ooc_expected(const void *user, const tdm_ooc_step *step);
void tdm_ooc_record_release(tdm_outofcore_plan *plan);

/* ---- operands of a run ----------------------------------------------------------------------- */

/* These are the operands of a run, by name. */
typedef struct tdm_ooc_inputs {
    const tdm_outofcore_source *matrix[TDM_OOC_MATRICES];
    const tdm_outofcore_source *bias;
    void *d_memory;
    size_t d_bytes;
    /* True for memory that is copied faster through pinned memory. */
    bool pageable[TDM_OOC_MATRICES];
} tdm_ooc_inputs;

tdm_ooc_inputs tdm_ooc_inputs_of(const tdm_outofcore_args *args);
/* Checks that the operands are those that the plan was made for, and that D does not
 * overlap an input. */
tdm_status tdm_ooc_check_run(const tdm_outofcore_plan *plan, tdm_stream *stream,
                             const tdm_ooc_inputs *in);
/* These return the host memory of a matrix, and that of a constant. */
const void *tdm_ooc_memory_of(const tdm_ooc_inputs *in, int name);
const void *tdm_ooc_constant_memory(const tdm_ooc_inputs *in, int constant, size_t *bytes);
/* Returns a constant that belongs to a tensor on the device. */
const tdm_tensor *tdm_ooc_constant_tensor(const tdm_ooc_inputs *in, int constant);

#endif
