/*
 * GEMM inside the library: the checked problem, the variant rows' parameters, the plan.
 *
 * gemm_problem.c turns layouts into a problem, gemm_quant.c what they say of quantization, gemm_quant_tensor.c which rows for tensor cores take that, gemm_select.c finds the rows for it, gemm_plan.c owns the plan,
 * gemm_stages.c is for quantized weights that no kernel takes as they are, gemm_panel.c divides a launch of the panel family, gemm_int_panel.c of the integer one, both by gemm_division.c, gemm_skinny.c one of the skinny family, gemm_split.c splits a long K, gemm_waves.c predicts times of tiles, gemm_run.c enqueues it, gemm_packed.c makes packed weights, gemm_call.c is tdm_gemm with its plan cache.
 */
#ifndef TANDEM_API_GEMM_GEMM_INTERNAL_H
#define TANDEM_API_GEMM_GEMM_INTERNAL_H

#include "api/tensor/tensor_internal.h"
#include "kernels/gemm/gemm_args.h"

/* ---- the problem -------------------------------------------------------------------------------- */

#define TDM_GEMM_BATCH_RANK (TDM_MAX_RANK - 2)

/* One operand: op() applied, so a is M×K, b is K×N, the others M×N. TDM_DTYPE_NONE: not there. */
typedef struct tdm_gemm_matrix {
    tdm_dtype dtype;
    int64_t row, col;                   /* element strides */
    int64_t batch[TDM_GEMM_BATCH_RANK]; /* element strides, 0: shared */
} tdm_gemm_matrix;

/*
 * Batch dimensions are those of D without the ones of size 1, neighbours merged where every operand allows it. The last
 * one (the largest) is the launch's z; the others are launched one after the other.
 */
typedef struct tdm_gemm_problem {
    tdm_op
        op; /* whose rows take it: GEMM, GEMM_INT where A and B are integers, GEMM_WEIGHTS where B alone is */
    int64_t m, n, k;
    tdm_gemm_matrix a, b, c, d, residual;
    /* Quantization parameters: their strides along the operand's own rows, columns and batch, 0 where one serves all. */
    tdm_gemm_matrix a_scale, a_zero, b_scale, b_zero, d_scale, d_zero;
    int64_t
        group; /* of GEMM_WEIGHTS: rows of B that share a parameter; b_scale.row is then from group to group */
    bool quantize_a; /* of GEMM_WEIGHTS: rows of A are quantized first */
    tdm_dtype bias;
    int64_t bias_row, bias_col; /* element strides along D, one of them 0 */
    float alpha, beta;
    tdm_activation activation;
    int batch_rank;
    int64_t batch_shape[TDM_GEMM_BATCH_RANK];
    int batch_axis[TDM_GEMM_BATCH_RANK]; /* D's dimension that it is, the last one of merged ones */
    bool forced;                         /* a row was named: preferences do not refuse it */
    bool allows_3xtf32;                  /* A and B are f32, and may be split */
    bool packed_b;                       /* B comes as packed weights, which lie as b says */
    bool anywhere;                       /* A and B may begin at any element */
    bool swapped;                        /* it is D^T = B^T·A^T that stands here */
} tdm_gemm_problem;

/* Check a description (everything but struct_size and the variant's name) and derive its problem. */
tdm_status tdm_gemm_problem_from(const tdm_gemm_desc *desc, tdm_gemm_problem *problem);

/*
 * What quant.h's parameters of A, B and D are for a problem whose operands are known, and whether the whole is one that integer
 * kernels compute.
 */
tdm_status tdm_gemm_take_quantization(const tdm_gemm_desc *desc, tdm_gemm_problem *problem);
/* The tensor must carry parameters arranged as planned. */
tdm_status tdm_gemm_check_quantization(const char *name, const tdm_tensor *tensor,
                                       const tdm_quant_layout *planned);
/* Its parameters made contiguous, as packed weights keep them. */
tdm_status tdm_quant_layout_dense(const tdm_quant_layout *layout, tdm_quant_layout *dense);
bool tdm_quant_layout_equal(const tdm_quant_layout *a, const tdm_quant_layout *b);

/* Batch entries along z, and the number of launches the other dimensions make. Both 0 when D is empty. */
int64_t tdm_gemm_z_count(const tdm_gemm_problem *problem);
int64_t tdm_gemm_outer_count(const tdm_gemm_problem *problem);
/* Elements to add to a matrix's place for outer entry `outer`. */
int64_t tdm_gemm_outer_offset(const tdm_gemm_problem *problem, const tdm_gemm_matrix *matrix,
                              int64_t outer);
/* Stride of a matrix along z. */
int64_t tdm_gemm_z_stride(const tdm_gemm_problem *problem, const tdm_gemm_matrix *matrix);

/* ---- rows ----------------------------------------------------------------------------------------- */

/* Meaning of tdm_variant.parameters for the ops GEMM, GEMM_INT and their packing, as gemm_variants.cmake says. */
enum {
    TDM_GEMM_P_FAMILY = 0,
    TDM_GEMM_P_ROWS,
    TDM_GEMM_P_COLUMNS,
    TDM_GEMM_P_A_TYPE,
    TDM_GEMM_P_UNIT = TDM_GEMM_P_A_TYPE, /* integer panel family: bytes of an element of a strip */
    TDM_GEMM_P_B_TYPE,
    TDM_GEMM_P_ITEMS,
    TDM_GEMM_P_LOCAL_BYTES,
    TDM_GEMM_P_GROUP_X,
    TDM_GEMM_P_DEPTH = TDM_GEMM_P_GROUP_X,  /* panel family: rows of B in a block of K */
    TDM_GEMM_P_GROUPS = TDM_GEMM_P_GROUP_X, /* tensor cores: groups that a unit has registers for */
    TDM_GEMM_P_CLUSTER = TDM_GEMM_P_GROUP_X, /* wgmma: groups of a cluster, whose rows P_ROWS are */
    TDM_GEMM_P_CHUNK = TDM_GEMM_P_GROUP_X    /* lines of weights: steps of K read at once, 0: any */
};
/* In place of a type of A, of GEMM_WEIGHTS: any, whose rows must be quantized. */
#define TDM_GEMM_QUANTIZED_A (-1)
enum {
    TDM_GEMM_REFERENCE = 1,
    TDM_GEMM_TILED = 2,
    TDM_GEMM_PANEL = 3,
    TDM_GEMM_SKINNY = 4,
    TDM_GEMM_TENSOR = 5,
    TDM_GEMM_WGMMA = 6
};
enum {
    TDM_PACK_P_WIDTH = 0,
    TDM_PACK_P_SOURCE,
    TDM_PACK_P_PANELS
};

/* Is it contiguous along the other dimension than a dense matrix? */
bool tdm_gemm_is_transposed(const tdm_gemm_matrix *matrix);

/* Does the row multiply f32 as three products of tf32? Then only plans that allow it may take it. */
bool tdm_gemm_is_3xtf32(const tdm_variant *row);

/* Does the row read the problem's B in panels? */
bool tdm_gemm_reads_panels(const tdm_gemm_problem *problem, const tdm_variant *row);

/* Does the row's family take this launch-time parameter? */
bool tdm_gemm_takes(const tdm_variant *row, tdm_tune_parameter parameter);

/*
 * The row for the plan's problem, with its kernel built: the forced one ("variant" or "variant:name=value,..."), else the one
 * that the device's tuning data prefers, else the first of the table. Fills in kernel, values, tuning and refusals. Rows whose
 * built kernel turns out to allow smaller groups than they need are refused like any other.
 */
tdm_status tdm_gemm_select(tdm_gemm_plan *plan, const char *forced);

/*
 * Computes a known product with a kernel for integers, once for each device and kernel. TDM_BUILD_FAILED where it comes out wrong;
 * other failures say nothing of the kernel.
 */
tdm_status tdm_gemm_int_check(tdm_device *device, tdm_kernel *kernel);

/* What tuning data has for the plan's problem, the parameters with it where it is near enough; NULL where there is nothing. */
const tdm_tuning_row *tdm_gemm_tuned(const tdm_gemm_plan *plan, tdm_choice *choice);
/* Keep in the plan, and log, that it follows the row. */
void tdm_gemm_note_tuning(tdm_gemm_plan *plan, const tdm_tuning_row *row, const tdm_choice *choice);

/* The row that "variant" or "variant:name=value,..." names, or NULL. */
const tdm_variant *tdm_gemm_named_variant(const char *text);

/* The packing kernel for panels of `width` lines, from one storage type to another. */
tdm_status tdm_gemm_select_pack(tdm_device *device, int width, tdm_dtype source, tdm_dtype panels,
                                tdm_kernel **kernel);

/* The same for integer panels, with the sums of their columns. */
tdm_status tdm_gemm_select_int_pack(tdm_device *device, int width, tdm_kernel **kernel);

/* ---- the plan ------------------------------------------------------------------------------------- */

#define TDM_PACKED_LAYOUT_TEXT 32
#define TDM_GEMM_REFUSALS_TEXT 4096
#define TDM_GEMM_TUNING_TEXT (TDM_CHOICE_TEXT + TDM_TUNING_SOURCE_TEXT + 64)

/*
 * How B is packed. kernel NULL: it is read in place; packed weights of such a plan are a copy that lies as the problem's B says
 * (width 1). Sizes are those of one launch.
 */
typedef struct tdm_gemm_packing {
    tdm_kernel *kernel;
    tdm_gemm_matrix source; /* of packed weights: B as it was given */
    int width;
    int unit_bytes;     /* of the panels */
    int64_t lines;      /* columns of B */
    int64_t z_elements; /* of one batch entry's panels */
    int64_t z_stride;   /* elements from one batch entry's panels to the next along z */
    int64_t z_count;    /* 1 when shared along z */
    int64_t sums_at;    /* integer panels: bytes from an entry's start to the sums of its columns */
    uint64_t bytes;
} tdm_gemm_packing;

/* Floats between the rows of a strip beyond the block of K, as gemm_panel.cl has it. */
#define TDM_GEMM_STRIP_PAD 16
/* Local memory up to this size is all the kernel's own; a larger one is a share of a cache. */
#define TDM_GEMM_SMALL_LOCAL 65536

/* How a launch of the panel or the skinny family is divided into items. */
typedef struct tdm_gemm_division {
    int64_t row_items, column_items;
    int packs_inside; /* every item packs its part of B itself */
    int a_stays;      /* items of the integer panel family do not copy A: as in gemm_int_args.h */
    bool as_given;    /* with the plan's values; false where they did not fit */
    uint32_t local_bytes;
} tdm_gemm_division;

/* Elements of s4 in whole bytes: weights packed in lines along K begin at one. */
#define TDM_LINE_STEP 2

/* Why a family of GEMM_WEIGHTS that is fast does not take the problem, or NULL. */
const char *tdm_gemm_weights_refuse(const tdm_gemm_problem *problem, const tdm_device *device,
                                    int32_t family, char reason[TDM_REASON_TEXT]);
/* The same for a K that rows whose items work in groups cannot count; those are all of devices without cores. */
const char *tdm_gemm_weights_refuse_steps(const tdm_gemm_problem *problem,
                                          char reason[TDM_REASON_TEXT]);
/* Of rows for tensor cores: why those for fewer or more rows of A, or another family, are to be taken, whatever their time is; or NULL. */
const char *tdm_gemm_weights_misfit(const tdm_gemm_problem *problem, const tdm_variant *row,
                                    char reason[TDM_REASON_TEXT]);
/* Is there a row that the model of time knows, for tensor cores as a rule, that takes the problem? */
bool tdm_gemm_suits_modelled(const tdm_gemm_problem *problem, const tdm_device *device);
/* Rows of A are quantized and B is s8 with one scale for each column: the integer kernels take it, for a K that is short enough whatever the
 * zero points are. */
bool tdm_gemm_becomes_integer(const tdm_gemm_problem *problem);
/* Would a row of GEMM_WEIGHTS take B's codes in lines along K, which it does not as they are stored? */
bool tdm_gemm_needs_lines(const tdm_gemm_plan *plan, const tdm_variant *row);
/* Make the stages of a plan of GEMM_WEIGHTS, which then has no kernel of its own; `forced` is for the inner plan. */
tdm_status tdm_gemm_plan_stages(tdm_gemm_plan *plan, const char *forced);
/* The same where tuning data prefers it to multiplying in place, and can have it. */
tdm_status tdm_gemm_plan_tuned_stages(tdm_gemm_plan *plan, bool *staged);
/* Enqueue them, and the inner plan. Operands were checked, and alpha is not 0. */
tdm_status tdm_gemm_run_stages(const tdm_gemm_plan *plan, tdm_stream *stream,
                               const tdm_gemm_args *args);
/* As tdm_gemm_plan_run, for operands that were checked. */
tdm_status tdm_gemm_run_checked(const tdm_gemm_plan *plan, tdm_stream *stream,
                                const tdm_gemm_args *args);

/* K cut into parts that are multiplied like a batch, and joined afterwards. parts 0: it is not; `whole` and `reduce` are set then
 * where alpha is 0. */
typedef struct tdm_gemm_split {
    int64_t parts, depth;   /* whole parts and their steps of K */
    int64_t rest;           /* steps of one part more, 0: there is none */
    int64_t slots;          /* all parts */
    int64_t asked;          /* parts that were chosen before whole ones made up for the rest */
    tdm_gemm_problem whole; /* what was asked for; the plan's problem is that of the whole parts */
    tdm_kernel *reduce;     /* joins them */
    uint64_t bytes;         /* of all parts, in f32 or s32, in the workspace */
    uint64_t workspace_offset;
} tdm_gemm_split;

/*
 * Quantized weights where no kernel multiplies them in place: operands are brought into a form that another plan takes, in the
 * workspace behind that plan's own. inner NULL: not so. A kernel is NULL where its operand is given to the inner plan as it is.
 */
typedef struct tdm_gemm_stages {
    tdm_gemm_plan *inner;
    tdm_kernel *unpack_b;   /* B in f32, K×N */
    tdm_kernel *quantize_a; /* A in s8 with a scale for each row, or in f32 what those stand for */
    bool lines_b;           /* B's codes, copied to lines along K */
    bool widens_a;          /* A in f32, as it is stored otherwise */
    uint64_t a_at, a_scale_at, b_at; /* bytes into the workspace */
} tdm_gemm_stages;

struct tdm_gemm_plan {
    atomic_int references;
    tdm_device *device; /* counted, unless the plan belongs to the device's own cache */
    bool counts_device;
    tdm_gemm_desc desc; /* variant is NULL here */
    tdm_gemm_problem problem;
    tdm_kernel *kernel;
    int32_t values[TDM_TUNE_PARAMETERS]; /* launch-time parameters that were given, 0: none */
    tdm_gemm_packing pack_b;
    tdm_gemm_split split;
    tdm_gemm_stages stages;
    tdm_gemm_plan *
        unaligned; /* what runs where A or B begins where tensor maps cannot; NULL: this plan has none */
    bool streams_d;             /* D exceeds the cache */
    tdm_gemm_division division; /* of the panel and the skinny family */
    uint64_t workspace_bytes;
    char packed_layout[TDM_PACKED_LAYOUT_TEXT];
    char refusals[TDM_GEMM_REFUSALS_TEXT];
    char tuning[TDM_GEMM_TUNING_TEXT];
    tdm_gemm_plan *next; /* in the device's cache */
};

/* As tdm_gemm_plan_create; a plan for the device's own cache does not count the device. */
tdm_status tdm_gemm_plan_build(tdm_device *device, const tdm_gemm_desc *desc, bool counts_device,
                               tdm_gemm_plan **plan);

/*
 * Fill in how the plan's launch is divided; its problem and kernel are known. Values that were given hold as far as there are
 * tiles to divide; what a tuning row gave and does not fit into local memory is dropped.
 */
tdm_status tdm_gemm_panel_divide(const tdm_gemm_plan *plan, tdm_gemm_division *division);
void tdm_gemm_skinny_divide(const tdm_gemm_plan *plan, tdm_gemm_division *division);
/* Do rows `bytes` apart fall on the same few sets of a cache? */
bool tdm_gemm_rows_alike(int64_t bytes);
/* The same for the integer panel family; and why a row of it is not the best one for the problem, NULL when it may be. */
tdm_status tdm_gemm_int_panel_divide(const tdm_gemm_plan *plan, tdm_gemm_division *division);
const char *tdm_gemm_int_panel_refuse(const tdm_gemm_problem *p, const tdm_variant *row,
                                      char *reason);

/* What the search for a division looks at; `context` is for the functions. */
typedef struct tdm_gemm_division_space {
    int64_t strips, panels; /* of the problem */
    bool packs;             /* B is not in panels yet */
    bool packs_inside;      /* nothing but an item can bring it there */
    uint64_t most_local_bytes;
    uint64_t (*local_bytes)(const void *context, const tdm_gemm_division *division);
    /* Cycles until the last core is done. */
    double (*cost)(const void *context, const tdm_gemm_division *division, bool packs);
    const void *context;
} tdm_gemm_division_space;

tdm_status tdm_gemm_find_division(const tdm_gemm_plan *plan, const tdm_gemm_division_space *space,
                                  tdm_gemm_division *division);

/* Split K where that pays, or as the plan's values say: the problem becomes that of the parts. Its kernel is known. */
tdm_status tdm_gemm_split_k(tdm_gemm_plan *plan);
/* The same for rows that take quantized weights to tensor cores: one launch has all parts. */
tdm_status tdm_gemm_split_weights(tdm_gemm_plan *plan);
/*
 * alpha = 0: a run is the epilogue alone, by the kernel that joins parts of K, of which there are none. A and B are not read, and
 * there is no workspace.
 */
tdm_status tdm_gemm_plan_epilogue(tdm_gemm_plan *plan);
/* Why a K of that length cannot be, or NULL: devices whose loops are short have it split. */
const char *tdm_gemm_refuse_long_k(const tdm_gemm_problem *problem, const tdm_variant *row,
                                   const tdm_device *device, char reason[TDM_REASON_TEXT]);
/* The problem that the plan was made for. */
const tdm_gemm_problem *tdm_gemm_whole(const tdm_gemm_plan *plan);
/* How the parts of one batch entry are joined: the launch, and the elements of a part. */
typedef struct tdm_gemm_reduce_launch {
    uint32_t groups, group;
    int64_t part;
} tdm_gemm_reduce_launch;
void tdm_gemm_reduce_shape(const tdm_gemm_plan *plan, tdm_gemm_reduce_launch *launch);

/* A part of K has at least so many steps: below, joining the parts costs as much as it saves. */
#define TDM_GEMM_PART_DEPTH 2048
/* The depth of parts is a multiple of this, so that vectors and cache lines stay whole. */
#define TDM_GEMM_PART_STEP 16
#define TDM_GEMM_MOST_PARTS 256

/* True where K, and what it multiplies, is long enough to be cut into parts. */
bool tdm_gemm_is_long(const tdm_gemm_problem *problem);
/* The number of parts that the device's loops need at least. */
int64_t tdm_gemm_least_parts(const tdm_gemm_problem *problem, const tdm_device *device);

/* K as it is cut where so many parts are asked for: whole parts of `depth` steps, and a rest of less than one. */
typedef struct tdm_gemm_cut {
    int64_t parts, depth, rest;
    int64_t slots; /* all parts */
} tdm_gemm_cut;
tdm_gemm_cut tdm_gemm_cut_k(const tdm_gemm_problem *problem, int64_t asked);
/* Would square tiles be too few for the device, and K long enough to share it? */
bool tdm_gemm_wants_parts(const tdm_gemm_problem *problem, const tdm_device *device, int64_t tile);
/* Why the problem's K cannot be split for a row, or NULL. */
const char *tdm_gemm_split_refuse(const tdm_gemm_problem *problem, const tdm_variant *row);

/*
 * What the model of docs/decisions/occupancy-and-waves.md says of a row: nothing but a prediction from the device's description. It
 * is for rows whose groups compute one tile each of a GPU's launch: those for tensor cores, and the tiles of f32 for CUDA.
 */
typedef struct tdm_gemm_waves {
    int64_t asked;     /* parts that K is to be cut into, 1: it stays whole */
    int64_t parts;     /* whole ones that it has then */
    int64_t tiles;     /* of the launch, parts and batch entries included */
    int64_t resident;  /* groups that a unit holds at once */
    int64_t waves;     /* times that all units are filled */
    bool memory_bound; /* reading the operands and writing D takes longer than the units do */
    double ns;         /* of the whole product, launches and the joining of parts included */
} tdm_gemm_waves;
bool tdm_gemm_is_modelled(const tdm_variant *row);
void tdm_gemm_waves_of(const tdm_gemm_problem *problem, const tdm_variant *row,
                       const tdm_device_info *info, int64_t parts, tdm_gemm_waves *waves);
/* Reading the operands once and writing D, for rows that do no more: what any row takes at least. */
double tdm_gemm_stream_ns(const tdm_gemm_problem *problem, const tdm_device_info *info);
/* As tdm_gemm_waves_of, with as many parts of K as take the least time; whole where they do not save a tenth. */
void tdm_gemm_waves_best(const tdm_gemm_problem *problem, const tdm_variant *row,
                         const tdm_device_info *info, tdm_gemm_waves *best);
/* Where operands that tensor maps describe may begin: at multiples of so many bytes. */
#define TDM_GEMM_BOX_ALIGNMENT 16
/* Bits of tdm_gemm_shape_arg.turned. */
enum {
    TDM_GEMM_TURNED_A = 1,
    TDM_GEMM_TURNED_B = 2,
    TDM_GEMM_BOX_D = 4
};
/* Why tensor maps cannot describe the operands of a problem, or NULL. Where the operands begin is known at a run only. */
const char *tdm_gemm_boxes_refuse(const tdm_gemm_problem *problem, char reason[TDM_REASON_TEXT]);
/* Which of them are contiguous along M, N in place of K. */
int tdm_gemm_boxes_turned(const tdm_gemm_shape_arg *shape);
/* A and B as the wgmma family's copies see them: the tiles of `row`, `count` batch entries. */
void tdm_gemm_boxes(const tdm_gemm_shape_arg *shape, const tdm_variant *row, int64_t count,
                    tdm_bk_box *a, tdm_bk_box *b);
/* D as its stores see it; false where no map describes it. Where it begins is not looked at. */
bool tdm_gemm_box_of_d(const tdm_gemm_shape_arg *shape, const tdm_gemm_epilogue_arg *epilogue,
                       int64_t count, tdm_bk_box *d);
/* Clusters of a row of that family that the device holds at once, 0: none. */
uint32_t tdm_gemm_wgmma_clusters(const tdm_device *device, tdm_kernel *kernel);
/* Groups along x of a launch of that family; each, or each cluster, takes one tile after the other. */
int64_t tdm_gemm_wgmma_groups(const tdm_gemm_plan *plan, int64_t tiles, int64_t batch);

/* Would the skinny family compute D^T = B^T·A^T, since N is the small one? */
bool tdm_gemm_skinny_swaps(const tdm_gemm_problem *problem);
/* Make D^T = B^T·A^T of the problem. */
void tdm_gemm_swap(tdm_gemm_problem *problem);
/* Why the skinny family is not the one for the problem, or NULL. */
const char *tdm_gemm_skinny_refuse(const tdm_gemm_problem *problem, const tdm_device *device,
                                   char reason[TDM_REASON_TEXT]);
/* The same of a row for integers, which reads B in lines along K and swaps nothing. */
const char *tdm_gemm_skinny_refuse_integers(const tdm_gemm_problem *problem, const tdm_variant *row,
                                            char reason[TDM_REASON_TEXT]);
/* Why a row for groups cannot take so many rows of so long a K where loops are short, or NULL. */
const char *tdm_gemm_skinny_refuse_loops(const tdm_gemm_problem *problem, const tdm_variant *row,
                                         const tdm_device *device, char reason[TDM_REASON_TEXT]);
/* Is the row the form for integers of devices without CPU cores or CUDA? */
bool tdm_gemm_skinny_groups_integers(const tdm_variant *row);
/* What a launch of it is divided into: tiles of the small side and of the large one. */
void tdm_gemm_skinny_tiles(const tdm_gemm_problem *problem, const tdm_variant *row,
                           int64_t *small_tiles, int64_t *large_tiles);
/* Groups of a launch of the skinny rows that are not for CPU cores. */
int64_t tdm_gemm_skinny_groups(const tdm_gemm_problem *problem);
/* Do items of this skinny row run one to a group, on CPU cores? They read packed weights in panels. */
bool tdm_gemm_skinny_on_cores(const tdm_variant *row);

/*
 * Packed weights. The content is B's panels of every batch entry that is not shared, in the order of B's own dimensions,
 * whatever the plan's order is: plans with other batches of A read it too.
 */
struct tdm_packed {
    tdm_device *device; /* counted */
    tdm_buffer *buffer;
    int64_t n, k;
    int batch_rank;
    int64_t batch_shape[TDM_GEMM_BATCH_RANK]; /* of B's dimensions along which it is not shared */
    tdm_tensor *scale, *zero_point; /* dense copies of the parameters that B carried, or NULL */
    tdm_quant_layout quant;
    char layout[TDM_PACKED_LAYOUT_TEXT];
};

/* Packed weights must be what the plan's kernel reads. */
tdm_status tdm_packed_check(const tdm_gemm_plan *plan, const tdm_packed *packed);
/* Device bytes that the packed form of B takes for the plan. */
tdm_status tdm_gemm_packed_bytes(const tdm_gemm_plan *plan, int64_t *bytes);
/* Packed entries from one B to the next along the plan's batch dimension i. */
int64_t tdm_packed_step(const tdm_gemm_problem *problem, int i);

/*
 * What tdm_gemm does when there is no memory for the plan's workspace (`status` says so, with the detail): the same bits in tiles
 * that share a smaller one. The status comes back where not even that can be had.
 */
tdm_status tdm_gemm_run_in_tiles(const tdm_gemm_plan *plan, tdm_stream *stream,
                                 const tdm_gemm_args *args, tdm_status status);

/* Largest z of one launch: devices exist that allow no more. */
#define TDM_GEMM_MAX_Z 65535

/* Enqueue the packing of one outer entry of B: depth runs along K, lines along N. */
typedef struct tdm_gemm_pack_job {
    const tdm_gemm_packing *packing;
    const tdm_tensor *source;
    int64_t source_offset; /* elements from the tensor's start */
    int64_t depth, depth_stride, line_stride, z_stride;
    tdm_block *target;
    uint64_t target_offset; /* bytes */
} tdm_gemm_pack_job;

tdm_status tdm_gemm_enqueue_pack(tdm_stream *stream, const tdm_gemm_pack_job *job);

#endif
