/*
 * Out-of-core GEMM inside the library.
 *
 * outofcore_schedule.c makes the list of steps and runs it against a virtual clock, outofcore_operand.c says how operands lie in
 * slots and copies their tiles, outofcore_tile.c makes the products' plans and arguments, outofcore_rates.c measures, outofcore_planner.c chooses tile and
 * buffers, outofcore_plan.c owns the plan, outofcore_run.c enqueues it.
 */
#ifndef TANDEM_API_OUTOFCORE_OUTOFCORE_INTERNAL_H
#define TANDEM_API_OUTOFCORE_OUTOFCORE_INTERNAL_H

#include "api/device/memory/staging_ring.h"
#include "api/gemm/gemm_internal.h"
#include "api/outofcore/outofcore_schedule.h"

#include <tandem/outofcore.h>

/* ---- operands ----------------------------------------------------------------------------------------- */

typedef enum tdm_ooc_name {
    TDM_OOC_A,
    TDM_OOC_B,
    TDM_OOC_C,
    TDM_OOC_RESIDUAL,
    TDM_OOC_D,
    TDM_OOC_MATRICES
} tdm_ooc_name;

/* A matrix operand: op() applied, one entry of the batch at a time. */
typedef struct tdm_ooc_operand {
    const char *name;
    bool present, on_device;
    bool transposed; /* stored with op()'s columns first */
    tdm_layout whole;
    tdm_quant_layout quant;
    int64_t rows, columns;
    int64_t row, column; /* element strides, 0 along a dimension of one element */
    /* A tile in a slot: element strides, and the bytes of the largest. */
    int64_t slot_row, slot_column;
    uint64_t slot_bytes;
    int slots; /* 0: none, it is read or written in place */
    tdm_buffer *buffers[TDM_OOC_MAX_SLOTS];
} tdm_ooc_operand;

/* Small operands that are copied whole, once for each run. */
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
    tdm_layout layout; /* dtype none: there is none */
    bool on_device;
    size_t bytes; /* from its first element to its last */
    tdm_buffer *buffer;
} tdm_ooc_constant;

typedef struct tdm_ooc_problem {
    tdm_gemm_desc desc; /* variant NULL */
    tdm_op op;
    int64_t m, n, k, entries;
    int batch_rank;
    int64_t batch_shape[TDM_GEMM_BATCH_RANK];
    tdm_ooc_operand operands[TDM_OOC_MATRICES];
    tdm_ooc_constant constants[TDM_OOC_CONSTANTS];
    char variant
        [96]; /* what tiles are forced to, so that sums have the order they have in core; "": nothing */
    char unaligned
        [96]; /* likewise, where A or B on the device begins where that does not take it; "": it does */
    bool forced; /* the caller named the kernel */
    double operations;
} tdm_ooc_problem;

/* From a checked description; `whole` is the plan for it. */
tdm_status tdm_ooc_problem_from(const tdm_outofcore_desc *desc, const tdm_gemm_plan *whole,
                                tdm_ooc_problem *problem);

/* Elements from an operand's (or parameter's) first one to those that an entry of the batch uses. */
int64_t tdm_ooc_matrix_offset(const tdm_ooc_problem *problem, const tdm_layout *layout,
                              int64_t entry);

/* Arrange slots for tiles of D of at most so many rows and columns, `depth` of K. */
void tdm_ooc_arrange(tdm_ooc_problem *problem, int64_t tile_rows, int64_t tile_columns,
                     int64_t depth);

/* A place in an operand and its extent, of op(). */
typedef struct tdm_ooc_area {
    int64_t matrix; /* offset of the matrix in elements */
    int64_t row, column, rows, columns;
} tdm_ooc_area;

/* What of an operand a step's tile of D needs. */
tdm_ooc_area tdm_ooc_area_of(const tdm_ooc_problem *problem, tdm_ooc_name name,
                             const tdm_ooc_step *step);
/* Bytes of an area, as they are copied. */
uint64_t tdm_ooc_area_bytes(const tdm_ooc_operand *operand, const tdm_ooc_area *area);

/* Enqueue the copy of an area between host memory and a slot, by way of pinned memory where there is a ring. */
tdm_status tdm_ooc_load(tdm_stream *stream, const tdm_ooc_operand *operand, int slot,
                        const tdm_ooc_area *area, const void *memory, tdm_staging_ring *ring);
tdm_status tdm_ooc_store(tdm_stream *stream, const tdm_ooc_operand *operand, int slot,
                         const tdm_ooc_area *area, void *memory, tdm_staging_ring *ring);

/* ---- products ----------------------------------------------------------------------------------------- */

/* The description of the product of a tile of D, with `depth` of K. `in_slots`: operands on the device lie in slots, too. */
tdm_status tdm_ooc_tile_desc(const tdm_ooc_problem *problem, int64_t rows, int64_t columns,
                             int64_t depth, bool in_slots, tdm_gemm_desc *desc);

/*
 * Where K is cut, a tile has a product for each step of K. The first takes C and the bias, the last the residual and the activation; what
 * they pass on lies in the plan's partial tile, in f32, or in s32 where D is of integers.
 */
typedef enum tdm_ooc_part {
    TDM_OOC_WHOLE,
    TDM_OOC_FIRST = TDM_OOC_WHOLE,
    TDM_OOC_MIDDLE,
    TDM_OOC_LAST,
    TDM_OOC_PARTS
} tdm_ooc_part;

/* The description of one of several products along K. */
tdm_status tdm_ooc_part_desc(const tdm_ooc_problem *problem, int64_t rows, int64_t columns,
                             int64_t depth, tdm_ooc_part part, tdm_gemm_desc *desc);
/* Sums of integers are exact however K is cut. */
bool tdm_ooc_gives_integers(const tdm_ooc_problem *problem);
/* Bytes of an element of the partial tile. */
#define TDM_OOC_PARTIAL_BYTES 4
/* Steps of K are multiples of this: whole lines of a cache, or whole groups of weights. 0: K cannot be cut. */
int64_t tdm_ooc_k_unit(const tdm_ooc_problem *problem);

/* Where the operands of one product are: buffers and element offsets, by name; NULL where there is none. */
typedef struct tdm_ooc_places {
    tdm_buffer *matrix[TDM_OOC_MATRICES];
    int64_t matrix_offset[TDM_OOC_MATRICES];
    tdm_buffer *constant[TDM_OOC_CONSTANTS];
    int64_t constant_offset[TDM_OOC_CONSTANTS];
    tdm_buffer *workspace;
} tdm_ooc_places;

/* Enqueue the product of a plan whose description tdm_ooc_tile_desc made. */
tdm_status tdm_ooc_multiply(const tdm_gemm_plan *plan, tdm_stream *stream,
                            const tdm_ooc_places *places);

/* Elements from a constant's first one to those of a step's tile and of what it takes of K. */
int64_t tdm_ooc_constant_offset(const tdm_ooc_problem *problem, tdm_ooc_constant_name name,
                                const tdm_ooc_step *step);

/* ---- rates -------------------------------------------------------------------------------------------- */

/* Fill in the rates that are 0. Measures what the device does not know yet, with at most `budget` bytes of its memory at a time;
 * assumes where that fails. */
void tdm_ooc_rates_complete(tdm_device *device, const tdm_ooc_problem *problem, uint64_t budget,
                            tdm_outofcore_rates *rates);
/* Bytes a second from the host to the device, measured on the first call, likewise. */
double tdm_ooc_in_rate(tdm_device *device, uint64_t budget);
/* Share of the full speed that a product of so many rows and columns reaches. */
double tdm_ooc_efficiency(int64_t rows, int64_t columns);

/* ---- the planner -------------------------------------------------------------------------------------- */

typedef struct tdm_ooc_choice {
    int64_t tile_rows, tile_columns;
    int64_t depth; /* of K in one product; 0: all */
    bool columns_outside;
    int a_slots, b_slots, d_slots;
} tdm_ooc_choice;

/* What the planner is given. */
typedef struct tdm_ooc_bounds {
    uint64_t budget;
    uint64_t reserved;               /* constants */
    double workspace_per_column;     /* bytes for each column of a tile */
    int64_t tile_rows, tile_columns; /* 0: free */
    int buffers;                     /* 0: free */
    bool cuts_k;
} tdm_ooc_bounds;

/* Tiles must look to the choice of kernels as the whole does: few rows or columns are another family's, with other sums. */
bool tdm_ooc_keeps_family(const tdm_ooc_problem *problem, int64_t rows, int64_t columns);

/*
 * The choice with the least expected time; K is cut in two or more where the bounds say so. False when nothing fits: *least is then
 * what the smallest needs, 0 where no tile of the given extent keeps the whole's kernels. The problem's slots are arranged for
 * something else afterwards.
 */
bool tdm_ooc_choose(tdm_ooc_problem *problem, const tdm_ooc_bounds *bounds,
                    const tdm_outofcore_rates *rates, tdm_ooc_choice *choice, uint64_t *least);

/* ---- the plan ----------------------------------------------------------------------------------------- */

/* Events around the steps of a run. */
typedef struct tdm_ooc_record {
    tdm_event **starts, **ends; /* by step */
    tdm_event *first, *last;
    bool complete;
} tdm_ooc_record;

struct tdm_outofcore_plan {
    tdm_device *device; /* counted */
    pthread_mutex_t lock;
    tdm_ooc_problem problem;
    tdm_ooc_choice choice;
    tdm_ooc_schedule schedule;
    tdm_gemm_plan *products
        [2][2][TDM_OOC_PARTS]; /* by whether rows and columns are those of the last, smaller tile */
    tdm_buffer *partial;       /* what products of a tile pass on, where K is cut */
    tdm_buffer *workspace;
    tdm_stream *streams[TDM_OOC_ENGINES];
    tdm_staging_ring *ring_in,
        *ring_out;       /* for pageable memory of a discrete device; NULL: none yet */
    tdm_event *previous; /* the end of the last run */
    tdm_outofcore_info info;
    bool measures;
    tdm_ooc_record record;
};

/* Plans for the up to four shapes of the chosen tile; *workspace is the largest that one needs. */
tdm_status tdm_ooc_build_products(tdm_outofcore_plan *plan, uint64_t *workspace);
void tdm_ooc_drop_products(tdm_outofcore_plan *plan);
tdm_status tdm_ooc_schedule_plan(tdm_outofcore_plan *plan);

/*
 * Multiply tile by tile on one stream, for a plan all of whose operands are on the device: its products and its workspace are
 * there already, the schedule is made here. Nothing is allocated on the device.
 */
tdm_status tdm_ooc_run_in_place(tdm_outofcore_plan *plan, tdm_stream *stream,
                                const tdm_outofcore_args *args);

/* Seconds that a step is expected to take; `user` is a tdm_outofcore_plan. */
double tdm_ooc_expected(const void *user, const tdm_ooc_step *step);
void tdm_ooc_record_release(tdm_outofcore_plan *plan);

/* ---- what a run is given ------------------------------------------------------------------------------- */

/* The operands of a run, by name. */
typedef struct tdm_ooc_inputs {
    const tdm_outofcore_source *matrix[TDM_OOC_MATRICES];
    const tdm_outofcore_source *bias;
    void *d_memory;
    size_t d_bytes;
    bool
        pageable[TDM_OOC_MATRICES]; /* memory that a device copies faster by way of pinned memory */
} tdm_ooc_inputs;

tdm_ooc_inputs tdm_ooc_inputs_of(const tdm_outofcore_args *args);
/* Whether the operands are what the plan was made for, and D lies apart from what is read. */
tdm_status tdm_ooc_check_run(const tdm_outofcore_plan *plan, tdm_stream *stream,
                             const tdm_ooc_inputs *in);
/* Host memory of a matrix, and of a constant. */
const void *tdm_ooc_memory_of(const tdm_ooc_inputs *in, int name);
const void *tdm_ooc_constant_memory(const tdm_ooc_inputs *in, int constant, size_t *bytes);
/* A constant that belongs to a tensor on the device. */
const tdm_tensor *tdm_ooc_constant_tensor(const tdm_ooc_inputs *in, int constant);

#endif
