/*
 * GEMM inside the library: the checked problem, the parameters of kernel variants, the plan.
 *
 * gemm_problem.c       checks the layouts of a description and derives a problem
 * gemm_quant.c         reads and checks quantization parameters
 * gemm_quant_tensor.c  tells for which M a tensor-core variant suits quantized weights
 * gemm_select.c        chooses the kernel variant
 * gemm_plan.c          owns the plan
 * gemm_stages.c        converts quantized weights that no kernel reads as they are stored
 * gemm_division.c      searches work partitions, with the cost models of the following two
 * gemm_panel.c         costs of the panel family
 * gemm_int_panel.c     costs of the integer panel family
 * gemm_small_m.c        partitions a launch of the skinny family
 * gemm_split.c         splits a long K
 * gemm_waves.c         predicts the time of tiled kernels on GPUs
 * gemm_run.c           enqueues a plan
 * gemm_packed.c        packs weights
 * gemm_call.c          is tdm_gemm with its cache of plans
 */
#ifndef TANDEM_API_GEMM_GEMM_INTERNAL_H
#define TANDEM_API_GEMM_GEMM_INTERNAL_H

#include "api/tensor/tensor_internal.h"
#include "kernels/gemm/gemm_args.h"

/* ---- the problem ----------------------------------------------------------------------------- */

#define TDM_GEMM_BATCH_RANK (TDM_MAX_RANK - 2)

/* One operand after op(): A is M×K, B is K×N, all others are M×N. TDM_DTYPE_NONE: absent. */
typedef struct tdm_gemm_matrix {
    tdm_dtype dtype;
    int64_t row, col;                   /* element strides */
    int64_t batch[TDM_GEMM_BATCH_RANK]; /* element strides, 0: shared */
} tdm_gemm_matrix;

/*
 * The batch dimensions are those of D. Dimensions of size 1 are dropped, and neighbours are merged
 * where every operand allows it. The last dimension (the largest) is the launch's z. The others are
 * launched one after the other.
 */
typedef struct tdm_gemm_problem {
    /* Operation whose variants compute it: GEMM, GEMM_INT if A and B are integers, GEMM_WEIGHTS if
     * only B is quantized. */
    tdm_op op;
    int64_t m, n, k;
    tdm_gemm_matrix a, b, c, d, residual;
    /* Strides of the quantization parameters along the operand's own rows, columns and batch. A
     * stride is 0 where one parameter serves the whole dimension. */
    tdm_gemm_matrix a_scale, a_zero, b_scale, b_zero, d_scale, d_zero;
    /* GEMM_WEIGHTS: rows of B that share a parameter. b_scale.row then steps
     * from group to group. */
    int64_t group;
    bool quantize_a; /* GEMM_WEIGHTS: rows of A are quantized first */
    tdm_dtype bias;
    int64_t bias_row, bias_col; /* element strides along D, one of them 0 */
    float alpha, beta;
    tdm_activation activation;
    int batch_rank;
    int64_t batch_shape[TDM_GEMM_BATCH_RANK];
    int batch_axis[TDM_GEMM_BATCH_RANK]; /* D's dimension; the last one of merged dimensions */
    bool forced;                         /* a variant was named: preferences do not refuse it */
    bool allows_3xtf32;                  /* A and B are f32 and may be split into tf32 parts */
    bool packed_b;                       /* B comes as packed weights; b describes their layout */
    bool anywhere;                       /* A and B may begin at any element */
    bool swapped;                        /* this problem is D^T = B^T·A^T */
} tdm_gemm_problem;

/* Checks a description (everything but struct_size and the variant's name) and
 * derives its problem. */
tdm_status tdm_gemm_problem_from(const tdm_gemm_desc *desc, tdm_gemm_problem *problem);

/*
 * Reads the quantization parameters of A, B and D for a problem whose operands are known. Fails if
 * no kernel supports the combination.
 */
tdm_status tdm_gemm_take_quantization(const tdm_gemm_desc *desc, tdm_gemm_problem *problem);
/* Checks that the tensor carries parameters arranged as planned. */
tdm_status tdm_gemm_check_quantization(const char *name, const tdm_tensor *tensor,
                                       const tdm_quant_layout *planned);
/* Makes the parameters' layouts contiguous, which is how packed weights store them. */
tdm_status tdm_quant_layout_dense(const tdm_quant_layout *layout, tdm_quant_layout *dense);
bool tdm_quant_layout_equal(const tdm_quant_layout *a, const tdm_quant_layout *b);

/* Batch entries along z, and the number of launches for the other dimensions. Both are
 * 0 if D is empty. */
int64_t tdm_gemm_z_count(const tdm_gemm_problem *problem);
int64_t tdm_gemm_outer_count(const tdm_gemm_problem *problem);
/* Elements to add to a matrix's offset for outer entry `outer`. */
int64_t tdm_gemm_outer_offset(const tdm_gemm_problem *problem, const tdm_gemm_matrix *matrix,
                              int64_t outer);
/* Stride of a matrix along z. */
int64_t tdm_gemm_z_stride(const tdm_gemm_problem *problem, const tdm_gemm_matrix *matrix);

/* ---- kernel variants ------------------------------------------------------------------------- */

/* Meaning of tdm_variant.parameters for GEMM, GEMM_INT and their packing;
 * gemm_variants.cmake says the same. */
enum {
    TDM_GEMM_P_FAMILY = 0,
    TDM_GEMM_P_ROWS,
    TDM_GEMM_P_COLUMNS,
    TDM_GEMM_P_A_TYPE,
    TDM_GEMM_P_UNIT = TDM_GEMM_P_A_TYPE, /* integer panels: bytes per element in a micro-panel */
    TDM_GEMM_P_B_TYPE,
    TDM_GEMM_P_ITEMS,
    TDM_GEMM_P_LOCAL_BYTES,
    TDM_GEMM_P_GROUP_X,
    TDM_GEMM_P_DEPTH = TDM_GEMM_P_GROUP_X, /* panel family: rows of B in a block of K */
    /* tensor cores: work-groups that the registers of a unit hold */
    TDM_GEMM_P_GROUPS = TDM_GEMM_P_GROUP_X,
    /* wgmma: work-groups per cluster; together they have P_ROWS */
    TDM_GEMM_P_CLUSTER = TDM_GEMM_P_GROUP_X,
    TDM_GEMM_P_CHUNK = TDM_GEMM_P_GROUP_X /* skinny weights: steps of K read at once, 0: any */
};
/* GEMM_WEIGHTS variants: stands for A's type if A may have any type and its rows are quantized. */
#define TDM_GEMM_QUANTIZED_A (-1)
enum {
    TDM_GEMM_REFERENCE = 1,
    TDM_GEMM_TILED = 2,
    TDM_GEMM_PANEL = 3,
    TDM_GEMM_SMALL_M = 4,
    TDM_GEMM_TENSOR = 5,
    TDM_GEMM_WGMMA = 6
};
enum {
    TDM_PACK_P_WIDTH = 0,
    TDM_PACK_P_SOURCE,
    TDM_PACK_P_PANELS
};

/* True if the matrix is column-major: its row stride is 1 and its column stride is not. */
bool tdm_gemm_is_transposed(const tdm_gemm_matrix *matrix);

/* True if the variant multiplies f32 as three tf32 multiplications. It is used only if the plan
 * allows that. */
bool tdm_gemm_is_3xtf32(const tdm_variant *row);

/* True if the variant reads the problem's B as packed panels. */
bool tdm_gemm_reads_panels(const tdm_gemm_problem *problem, const tdm_variant *row);

/* True if the variant's family takes this launch-time parameter. */
bool tdm_gemm_takes(const tdm_variant *row, tdm_tune_parameter parameter);

/*
 * Selects the variant for the plan's problem and builds its kernel. Candidates in order: the forced
 * variant ("variant" or "variant:name=value,..."), the one that the device's tuning data prefers,
 * the first usable one of the table.
 *
 * Fills in kernel, values, tuning and refusals. A variant is also refused if its built kernel
 * allows smaller work-groups than it needs.
 */
tdm_status tdm_gemm_select(tdm_gemm_plan *plan, const char *forced);

/*
 * Computes a small GEMM of known result with an integer kernel, once per device and kernel. Returns
 * TDM_BUILD_FAILED if the result is wrong. Other failures say nothing about the kernel.
 */
tdm_status tdm_gemm_int_check(tdm_device *device, tdm_kernel *kernel);

/* Finds the tuning entry for the plan's problem, and its parameters if the entry's shape is near
 * enough. Returns NULL if there is none. */
const tdm_tuning_row *tdm_gemm_tuned(const tdm_gemm_plan *plan, tdm_choice *choice);
/* Records in the plan, and logs, that it follows the tuning entry. */
void tdm_gemm_note_tuning(tdm_gemm_plan *plan, const tdm_tuning_row *row, const tdm_choice *choice);

/* Finds the variant that "variant" or "variant:name=value,..." names. Returns NULL
 * if there is none. */
const tdm_variant *tdm_gemm_named_variant(const char *text);

/* Selects the kernel that packs panels of `width` columns, from one storage type to another. */
tdm_status tdm_gemm_select_pack(tdm_device *device, int width, tdm_dtype source, tdm_dtype panels,
                                tdm_kernel **kernel);

/* Selects the kernel that packs integer panels and the sums of their columns. */
tdm_status tdm_gemm_select_int_pack(tdm_device *device, int width, tdm_kernel **kernel);

/* ---- the plan -------------------------------------------------------------------------------- */

#define TDM_PACKED_LAYOUT_TEXT 32
#define TDM_GEMM_REFUSALS_TEXT 4096
#define TDM_GEMM_TUNING_TEXT (TDM_CHOICE_TEXT + TDM_TUNING_SOURCE_TEXT + 64)

/*
 * How B is packed. If kernel is NULL, B is read in place. Packed weights of such a plan are a copy
 * of width 1, and the problem's B describes their layout. Sizes are those of one launch.
 */
typedef struct tdm_gemm_packing {
    tdm_kernel *kernel;
    tdm_gemm_matrix source; /* packed weights: B as it was given */
    int width;
    int unit_bytes;     /* per element of the panels */
    int64_t lines;      /* columns of B */
    int64_t z_elements; /* panels of one batch entry */
    int64_t z_stride;   /* elements from one batch entry's panels to the next along z */
    int64_t z_count;    /* 1 when shared along z */
    int64_t sums_at;    /* integer panels: bytes from an entry's start to its column sums */
    uint64_t bytes;
} tdm_gemm_packing;

/* Padding in floats between the rows of a micro-panel of A, after the block of K. gemm_panel.cl
 * uses the same value. */
#define TDM_GEMM_STRIP_PAD 16
/* Local memory up to this size belongs to the kernel alone. A larger one is part of a cache. */
#define TDM_GEMM_SMALL_LOCAL 65536

/* How a launch of the panel or skinny family is partitioned into work-items. */
typedef struct tdm_gemm_division {
    int64_t row_items, column_items;
    int packs_inside; /* every work-item packs its part of B itself */
    /* Integer panel family: work-items read A without copying it. gemm_int_args.h
     * defines the values. */
    int a_stays;
    bool as_given; /* true if the plan's values were used, false if they did not fit */
    uint32_t local_bytes;
} tdm_gemm_division;

/* Elements of s4 in a whole byte. Columns of weights packed along K begin at a byte. */
#define TDM_LINE_STEP 2

/* Returns why a fast family of GEMM_WEIGHTS does not take the problem, or NULL. */
const char *tdm_gemm_weights_refuse(const tdm_gemm_problem *problem, const tdm_device *device,
                                    int32_t family, char reason[TDM_REASON_TEXT]);
/* Returns why K exceeds the step counters of kernels whose work-items share a work-group, or NULL.
 * All kernels for devices without CPU cores are of this kind. */
const char *tdm_gemm_weights_refuse_steps(const tdm_gemm_problem *problem,
                                          char reason[TDM_REASON_TEXT]);
/* Returns why a tensor-core variant does not suit this number of rows of A, whatever its predicted
 * time, or NULL. */
const char *tdm_gemm_weights_misfit(const tdm_gemm_problem *problem, const tdm_variant *row,
                                    char reason[TDM_REASON_TEXT]);
/* True if a variant that the time model covers (mostly tensor-core variants) takes the problem. */
bool tdm_gemm_suits_modelled(const tdm_gemm_problem *problem, const tdm_device *device);
/* True if the integer kernels can compute the problem: rows of A are quantized, and B is s8 with
 * one scale per column. K must be short enough for any zero points. */
bool tdm_gemm_becomes_integer(const tdm_gemm_problem *problem);
/* True if the GEMM_WEIGHTS variant cannot read B's quantized values as they are stored, but could
 * read them packed along K. */
bool tdm_gemm_needs_lines(const tdm_gemm_plan *plan, const tdm_variant *row);
/* Plans the conversion stages of a GEMM_WEIGHTS plan, which then has no kernel of its own. `forced`
 * is for the inner plan. */
tdm_status tdm_gemm_plan_stages(tdm_gemm_plan *plan, const char *forced);
/* Plans the stages if tuning data prefers them to multiplying in place and the preferred variant
 * accepts the operands. */
tdm_status tdm_gemm_plan_tuned_stages(tdm_gemm_plan *plan, bool *staged);
/* Enqueues the stages and the inner plan. The operands must have been checked,
 * and alpha is not 0. */
tdm_status tdm_gemm_run_stages(const tdm_gemm_plan *plan, tdm_stream *stream,
                               const tdm_gemm_args *args);
/* Runs a plan like tdm_gemm_plan_run, for operands that were checked. */
tdm_status tdm_gemm_run_checked(const tdm_gemm_plan *plan, tdm_stream *stream,
                                const tdm_gemm_args *args);

/* K split into parts that are multiplied like a batch and added up afterwards. If parts is 0, K is
 * not split; `whole` and `reduce` are then set only if alpha is 0. */
typedef struct tdm_gemm_split {
    int64_t parts, depth;   /* parts of equal depth, and their steps of K */
    int64_t rest;           /* steps of K in one additional part, 0: none */
    int64_t slots;          /* all parts */
    int64_t asked;          /* parts requested before K was cut */
    tdm_gemm_problem whole; /* the original problem; the plan's problem is that of the parts */
    tdm_kernel *reduce;     /* kernel that adds the parts */
    uint64_t bytes;         /* of all parts in the workspace, in f32 or s32 */
    uint64_t workspace_offset;
} tdm_gemm_split;

/*
 * Conversion of quantized weights that no kernel multiplies in place. The operands are converted
 * into a form that another plan takes, in the workspace behind that plan's own. If inner is NULL
 * there is no conversion. A kernel is NULL if the inner plan reads its operand unchanged.
 */
typedef struct tdm_gemm_stages {
    tdm_gemm_plan *inner;
    tdm_kernel *unpack_b;   /* converts B to f32, K×N */
    tdm_kernel *quantize_a; /* quantizes A to s8 with a scale per row, or to dequantized f32 */
    bool lines_b;           /* B's quantized values are copied to packed columns along K */
    bool widens_a;          /* A is converted to f32 */
    uint64_t a_at, a_scale_at, b_at; /* bytes into the workspace */
} tdm_gemm_stages;

struct tdm_gemm_plan {
    atomic_int references;
    tdm_device *device; /* reference-counted, unless the plan is in the device's own cache */
    bool counts_device;
    tdm_gemm_desc desc; /* variant is NULL here */
    tdm_gemm_problem problem;
    tdm_kernel *kernel;
    int32_t values[TDM_TUNE_PARAMETERS]; /* launch-time parameters that were given, 0: default */
    tdm_gemm_packing pack_b;
    tdm_gemm_split split;
    tdm_gemm_stages stages;
    /* Plan that runs if A or B begins where tensor maps cannot. NULL: none. */
    tdm_gemm_plan *unaligned;
    bool streams_d;             /* D exceeds the cache: non-temporal stores */
    tdm_gemm_division division; /* panel and skinny family */
    uint64_t workspace_bytes;
    char packed_layout[TDM_PACKED_LAYOUT_TEXT];
    char refusals[TDM_GEMM_REFUSALS_TEXT];
    char tuning[TDM_GEMM_TUNING_TEXT];
    tdm_gemm_plan *next; /* next plan in the device's cache */
};

/* Creates a plan like tdm_gemm_plan_create. A plan for the device's own cache holds no
 * reference to the device. */
tdm_status tdm_gemm_plan_build(tdm_device *device, const tdm_gemm_desc *desc, bool counts_device,
                               tdm_gemm_plan **plan);

/*
 * Partitions the plan's launch; its problem and kernel are known. Given values are limited to the
 * number of tiles. Values from tuning data that do not fit into local memory are dropped.
 */
tdm_status tdm_gemm_panel_divide(const tdm_gemm_plan *plan, tdm_gemm_division *division);
void tdm_gemm_small_m_divide(const tdm_gemm_plan *plan, tdm_gemm_division *division);
/* True if rows `bytes` apart map to the same few sets of a cache. */
bool tdm_gemm_rows_alike(int64_t bytes);
/* Partitions a launch of the integer panel family. The second function returns why a variant of the
 * family is not the best one for the problem, or NULL. */
tdm_status tdm_gemm_int_panel_divide(const tdm_gemm_plan *plan, tdm_gemm_division *division);
const char *tdm_gemm_int_panel_refuse(const tdm_gemm_problem *p, const tdm_variant *row,
                                      char *reason);

/* Input of the search for a work partition. `context` is passed to the functions. */
typedef struct tdm_gemm_division_space {
    int64_t strips, panels; /* of the problem: micro-panels of A, panels of B */
    bool packs;             /* B is not packed in panels yet */
    bool packs_inside;      /* B must be packed by the work-items */
    uint64_t most_local_bytes;
    uint64_t (*local_bytes)(const void *context, const tdm_gemm_division *division);
    /* Cycles until the last core is done. */
    double (*cost)(const void *context, const tdm_gemm_division *division, bool packs);
    const void *context;
} tdm_gemm_division_space;

tdm_status tdm_gemm_find_division(const tdm_gemm_plan *plan, const tdm_gemm_division_space *space,
                                  tdm_gemm_division *division);

/* Splits K if that pays, or as the plan's values require. The problem becomes that of the parts.
 * The kernel must be known. */
tdm_status tdm_gemm_split_k(tdm_gemm_plan *plan);
/* Splits K for tensor-core variants with quantized weights. One launch computes all parts. */
tdm_status tdm_gemm_split_weights(tdm_gemm_plan *plan);
/*
 * Plans the case alpha = 0: a run is only the epilogue. The kernel that adds parts of K computes
 * it, with zero parts. A and B are not read, and there is no workspace.
 */
tdm_status tdm_gemm_plan_epilogue(tdm_gemm_plan *plan);
/* Returns why such a long K is impossible, or NULL. On devices with limited loop trip
 * counts K is split. */
const char *tdm_gemm_refuse_long_k(const tdm_gemm_problem *problem, const tdm_variant *row,
                                   const tdm_device *device, char reason[TDM_REASON_TEXT]);
/* The problem that the plan was made for, before K was split. */
const tdm_gemm_problem *tdm_gemm_whole(const tdm_gemm_plan *plan);
/* The launch that adds the parts of one batch entry. `part` counts the elements of a part. */
typedef struct tdm_gemm_reduce_launch {
    uint32_t groups, group;
    int64_t part;
} tdm_gemm_reduce_launch;
void tdm_gemm_reduce_shape(const tdm_gemm_plan *plan, tdm_gemm_reduce_launch *launch);

/* Least steps of K in a part. Below this, adding the parts costs as much as the split saves. */
#define TDM_GEMM_PART_DEPTH 2048
/* The depth of parts is a multiple of this, which keeps vectors and cache lines whole. */
#define TDM_GEMM_PART_STEP 16
#define TDM_GEMM_MOST_PARTS 256

/* True if K, and the matrices it multiplies, are large enough to be split into parts. */
bool tdm_gemm_is_long(const tdm_gemm_problem *problem);
/* The least number of parts for which the device's loop trip counts suffice. */
int64_t tdm_gemm_least_parts(const tdm_gemm_problem *problem, const tdm_device *device);

/* K split for a requested number of parts: parts of `depth` steps, and a rest of
 * less than one part. */
typedef struct tdm_gemm_cut {
    int64_t parts, depth, rest;
    int64_t slots; /* all parts */
} tdm_gemm_cut;
tdm_gemm_cut tdm_gemm_cut_k(const tdm_gemm_problem *problem, int64_t asked);
/* True if square tiles would be too few for the device and K is long enough to be split. */
bool tdm_gemm_wants_parts(const tdm_gemm_problem *problem, const tdm_device *device, int64_t tile);
/* Returns why the problem's K cannot be split for a variant, or NULL. */
const char *tdm_gemm_split_refuse(const tdm_gemm_problem *problem, const tdm_variant *row);

/*
 * Prediction of the model of docs/decisions/occupancy-and-waves.md for a variant. It is computed
 * from the device's description alone. It covers variants whose work-groups compute one tile each
 * on a GPU: tensor-core variants, and f32 tiles for CUDA.
 */
typedef struct tdm_gemm_waves {
    int64_t asked;     /* requested parts of K, 1: K is not split */
    int64_t parts;     /* parts of equal depth that result */
    int64_t tiles;     /* in the launch, including parts and batch entries */
    int64_t resident;  /* work-groups that a compute unit holds at once */
    int64_t waves;     /* times that all compute units are filled */
    bool memory_bound; /* memory traffic takes longer than the compute units do */
    double ns;         /* whole GEMM, including launches and the addition of parts */
} tdm_gemm_waves;
bool tdm_gemm_is_modelled(const tdm_variant *row);
void tdm_gemm_waves_of(const tdm_gemm_problem *problem, const tdm_variant *row,
                       const tdm_device_info *info, int64_t parts, tdm_gemm_waves *waves);
/* Time to read the operands once and write D. No variant is faster. */
double tdm_gemm_stream_ns(const tdm_gemm_problem *problem, const tdm_device_info *info);
/* Predicts like tdm_gemm_waves_of, for the number of parts of K that takes the least time. K stays
 * whole unless parts save at least a tenth. */
void tdm_gemm_waves_best(const tdm_gemm_problem *problem, const tdm_variant *row,
                         const tdm_device_info *info, tdm_gemm_waves *best);
/* Operands of tensor maps must begin at a multiple of this many bytes. */
#define TDM_GEMM_TENSOR_MAP_ALIGNMENT 16
/* Bits of tdm_gemm_shape_arg.turned. */
enum {
    TDM_GEMM_TURNED_A = 1,
    TDM_GEMM_TURNED_B = 2,
    TDM_GEMM_TENSOR_MAP_D = 4
};
/* Returns why tensor maps cannot describe the problem's operands, or NULL. Where the operands begin
 * is known only at a run. */
const char *tdm_gemm_tensor_maps_refuse(const tdm_gemm_problem *problem,
                                        char reason[TDM_REASON_TEXT]);
/* Bits that tell which of A and B are contiguous along M or N instead of K. */
int tdm_gemm_tensor_maps_turned(const tdm_gemm_shape_arg *shape);
/* Descriptors of A and B for the wgmma family: the tiles of `row` and `count` batch entries. */
void tdm_gemm_tensor_maps(const tdm_gemm_shape_arg *shape, const tdm_variant *row, int64_t count,
                          tdm_bk_tensor_map *a, tdm_bk_tensor_map *b);
/* Descriptor of D for the wgmma family. Returns false if no tensor map can describe D. The address
 * of D is not checked. */
bool tdm_gemm_tensor_map_of_d(const tdm_gemm_shape_arg *shape,
                              const tdm_gemm_epilogue_arg *epilogue, int64_t count,
                              tdm_bk_tensor_map *d);
/* Clusters of a wgmma variant that the device holds at once, 0: none. */
uint32_t tdm_gemm_wgmma_clusters(const tdm_device *device, tdm_kernel *kernel);
/* Work-groups along x in a wgmma launch. Each work-group or cluster computes
 * several tiles in turn. */
int64_t tdm_gemm_wgmma_groups(const tdm_gemm_plan *plan, int64_t tiles, int64_t batch);

/* True if the skinny family computes D^T = B^T·A^T because N is the smaller side. */
bool tdm_gemm_small_m_swaps(const tdm_gemm_problem *problem);
/* Turns the problem into D^T = B^T·A^T. */
void tdm_gemm_swap(tdm_gemm_problem *problem);
/* Returns why the skinny family does not suit the problem, or NULL. */
const char *tdm_gemm_small_m_refuse(const tdm_gemm_problem *problem, const tdm_device *device,
                                    char reason[TDM_REASON_TEXT]);
/* Returns why a skinny integer variant does not suit the problem, or NULL. It reads B along K and
 * does not swap operands. */
const char *tdm_gemm_small_m_refuse_integers(const tdm_gemm_problem *problem,
                                             const tdm_variant *row, char reason[TDM_REASON_TEXT]);
/* Returns why a work-group variant cannot take this M and K on devices with limited loop trip
 * counts, or NULL. */
const char *tdm_gemm_small_m_refuse_loops(const tdm_gemm_problem *problem, const tdm_variant *row,
                                          const tdm_device *device, char reason[TDM_REASON_TEXT]);
/* True if the variant is the integer kernel for devices without CPU cores or CUDA. */
bool tdm_gemm_small_m_groups_integers(const tdm_variant *row);
/* Tiles of such a launch: along the smaller side and along the larger one. */
void tdm_gemm_small_m_tiles(const tdm_gemm_problem *problem, const tdm_variant *row,
                            int64_t *small_tiles, int64_t *large_tiles);
/* Work-groups in a launch of the skinny variants that are not for CPU cores. */
int64_t tdm_gemm_small_m_groups(const tdm_gemm_problem *problem);
/* True if the skinny variant has one work-item per work-group, for CPU cores. Such variants read
 * packed weights as panels. */
bool tdm_gemm_small_m_on_cores(const tdm_variant *row);

/*
 * Packed weights: B's panels for every batch entry that is not shared. The order is that of B's own
 * dimensions, not that of the plan. Plans with other batches of A can therefore read them too.
 */
struct tdm_packed {
    tdm_device *device; /* reference-counted */
    tdm_buffer *buffer;
    int64_t n, k;
    int batch_rank;
    int64_t batch_shape[TDM_GEMM_BATCH_RANK]; /* B's dimensions along which it is not shared */
    tdm_tensor *scale, *zero_point;           /* dense copies of B's parameters, or NULL */
    tdm_quant_layout quant;
    char layout[TDM_PACKED_LAYOUT_TEXT];
};

/* Checks that packed weights have the layout that the plan's kernel reads. */
tdm_status tdm_packed_check(const tdm_gemm_plan *plan, const tdm_packed *packed);
/* Device bytes of the packed form of B for the plan. */
tdm_status tdm_gemm_packed_bytes(const tdm_gemm_plan *plan, int64_t *bytes);
/* Packed entries from one matrix B to the next along the plan's batch dimension i. */
int64_t tdm_packed_step(const tdm_gemm_problem *problem, int i);

/*
 * tdm_gemm's fallback if there is no memory for the plan's workspace; `status` is that failure. It
 * computes the same bits in tiles that share a smaller workspace. It returns `status` if even that
 * does not fit.
 */
tdm_status tdm_gemm_run_in_tiles(const tdm_gemm_plan *plan, tdm_stream *stream,
                                 const tdm_gemm_args *args, tdm_status status);

/* Largest z of one launch: some devices allow no more. */
#define TDM_GEMM_MAX_Z 65535

/* One outer entry of B to be packed: depth runs along K, lines along N. */
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
