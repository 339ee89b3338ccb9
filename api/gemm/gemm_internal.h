/*
 * The internal types and functions of GEMM: the checked problem, the parameters of kernel variants,
 * and the plan.
 *
 * gemm_problem.c       checks the layouts of a description and derives a problem
 * gemm_batch.c         computes counts, strides and offsets of batch entries
 * gemm_quant.c         reads and checks quantization parameters
 * gemm_quant_tensor.c  decides for which A a tensor-core variant suits quantized weights
 * gemm_select.c        chooses the kernel variant
 * gemm_int_check.c     checks the results of integer kernels
 * gemm_plan.c          creates and destroys the plan
 * gemm_stages.c        converts quantized weights that no kernel reads as they are stored
 * gemm_partition.c     finds the best work partition by the costs of the next two files
 * gemm_panel.c         models the costs of the panel family
 * gemm_int_panel.c     models the costs of the integer panel family
 * gemm_small_m.c       decides when the small-M family is used, and partitions its launches
 * gemm_cut.c           decides where K may be split
 * gemm_split.c         splits a long K
 * gemm_waves.c         predicts the time of tiled kernels on GPUs
 * gemm_tensor_maps.c   describes A, B and D as tensor maps
 * gemm_run.c           enqueues a plan
 * gemm_packed.c        packs weights
 * gemm_call.c          implements tdm_gemm, with its cache of plans
 */
#ifndef TANDEM_API_GEMM_GEMM_INTERNAL_H
#define TANDEM_API_GEMM_GEMM_INTERNAL_H

#include "api/tensor/tensor_internal.h"
#include "kernels/gemm/gemm_args.h"

/* ---- the problem ----------------------------------------------------------------------------- */

#define TDM_GEMM_BATCH_RANK (TDM_MAX_RANK - 2)

/* This is one operand after op(). A is M×K, B is K×N, and all others are M×N. The dtype of an
 * absent operand is TDM_DTYPE_NONE. */
typedef struct tdm_gemm_matrix {
    tdm_dtype dtype;
    int64_t row, col;                   /* element strides */
    int64_t batch[TDM_GEMM_BATCH_RANK]; /* element strides, 0: shared */
} tdm_gemm_matrix;

/*
 * A problem is a checked GEMM. Its batch dimensions are those of D, without dimensions of size 1.
 * Neighbouring dimensions are merged if the strides of all operands allow it. The largest dimension
 * is the last one and becomes z of a launch. Every combination of the other dimensions is an outer
 * entry. Outer entries are launched one after the other.
 */
typedef struct tdm_gemm_problem {
    /* The operation whose kernel variants compute the problem. It is GEMM_INT if A and B are
     * integers, GEMM_WEIGHTS if only B is quantized, and GEMM otherwise. */
    tdm_op op;
    int64_t m, n, k;
    tdm_gemm_matrix a, b, c, d, residual;
    /* Strides of the quantization parameters along the operand's own rows, columns and batch. A
     * stride is 0 where one parameter serves the whole dimension. */
    tdm_gemm_matrix a_scale, a_zero, b_scale, b_zero, d_scale, d_zero;
    /* GEMM_WEIGHTS: the number of rows of B that share a scale and a zero point. The row strides of
     * b_scale and b_zero then lead from group to group. */
    int64_t group;
    bool quantize_a; /* GEMM_WEIGHTS: rows of A are quantized before they are multiplied */
    tdm_dtype bias;
    int64_t bias_row, bias_col; /* element strides along D's rows and columns; one is 0 */
    float alpha, beta;
    tdm_activation activation;
    bool gated; /* the residual is a factor behind the activation */
    int batch_rank;
    int64_t batch_shape[TDM_GEMM_BATCH_RANK];
    int batch_axis[TDM_GEMM_BATCH_RANK]; /* D's dimension, or the last one that was merged */
    bool forced;                         /* a named variant, which preferences do not refuse */
    bool allows_3xtf32;                  /* A and B are f32 and may be split into tf32 parts */
    bool packed_b;                       /* B comes as packed weights; b describes their layout */
    bool anywhere;                       /* A and B may begin at any element: no tensor maps */
    bool swapped;                        /* this problem is D^T = B^T·A^T */
} tdm_gemm_problem;

/* Checks a description (everything but struct_size and the variant's name) and
 * derives its problem. */
tdm_status tdm_gemm_problem_from(const tdm_gemm_desc *desc, tdm_gemm_problem *problem);

/*
 * Reads the quantization parameters of A, B and D into a problem whose operands are already set.
 * Fails if no kernel supports the combination.
 */
tdm_status tdm_gemm_take_quantization(const tdm_gemm_desc *desc, tdm_gemm_problem *problem);
/* Checks that the tensor's quantization parameters have the planned layouts. */
tdm_status tdm_gemm_check_quantization(const char *name, const tdm_tensor *tensor,
                                       const tdm_quant_layout *planned);
/* Computes contiguous layouts for the parameters, as packed weights store them. */
tdm_status tdm_quant_layout_dense(const tdm_quant_layout *layout, tdm_quant_layout *dense);
bool tdm_quant_layout_equal(const tdm_quant_layout *a, const tdm_quant_layout *b);

/* Return the number of batch entries along z, and the number of outer entries. Both are 0 if D is
 * empty. */
int64_t tdm_gemm_z_count(const tdm_gemm_problem *problem);
int64_t tdm_gemm_outer_count(const tdm_gemm_problem *problem);
/* Returns the offset of a matrix for outer entry `outer`, in elements. */
int64_t tdm_gemm_outer_offset(const tdm_gemm_problem *problem, const tdm_gemm_matrix *matrix,
                              int64_t outer);
/* Returns the stride of a matrix along z, in elements. */
int64_t tdm_gemm_z_stride(const tdm_gemm_problem *problem, const tdm_gemm_matrix *matrix);

/* ---- kernel variants ------------------------------------------------------------------------- */

/* These are indices into tdm_variant.parameters of the GEMM operations. The indices for packing
 * follow below. gemm_variants.cmake describes the parameters too. */
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
    /* tensor cores: work-groups for which a compute unit has enough registers */
    TDM_GEMM_P_GROUPS = TDM_GEMM_P_GROUP_X,
    /* wgmma: work-groups in a cluster, which together compute P_ROWS rows */
    TDM_GEMM_P_CLUSTER = TDM_GEMM_P_GROUP_X,
    TDM_GEMM_P_CHUNK = TDM_GEMM_P_GROUP_X /* small-M weights: steps of K read at once, 0: any */
};
/* This is P_A_TYPE of GEMM_WEIGHTS variants that take an A of any type and quantize its rows. */
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

/* True if the variant accepts this launch-time parameter. */
bool tdm_gemm_takes(const tdm_variant *row, tdm_tune_parameter parameter);

/*
 * Selects the variant for the plan's problem and builds its kernel. Candidates are tried in this
 * order:
 * - the forced variant ("variant" or "variant:name=value,...")
 * - the variant that the device's tuning data prefers
 * - the first usable variant of the table
 *
 * Sets the plan's kernel, values, tuning and refusals. A variant is also refused if it needs larger
 * work-groups than its built kernel allows.
 */
tdm_status tdm_gemm_select(tdm_gemm_plan *plan, const char *forced);

/*
 * Computes a small GEMM of known result with an integer kernel, once per device and kernel. Returns
 * TDM_BUILD_FAILED if the result is wrong. Other failures do not mean that the kernel is wrong.
 */
tdm_status tdm_gemm_int_check(tdm_device *device, tdm_kernel *kernel);

/* Finds the tuning entry for the plan's problem, or returns NULL. *choice gets the entry's variant.
 * It also gets the entry's parameters if the entry's shape is near enough. */
const tdm_tuning_row *tdm_gemm_tuned(const tdm_gemm_plan *plan, tdm_choice *choice);
/* Records in the plan, and logs, that it follows the tuning entry. */
void tdm_gemm_note_tuning(tdm_gemm_plan *plan, const tdm_tuning_row *row, const tdm_choice *choice);

/* Finds the variant that "variant" or "variant:name=value,..." names. Returns NULL
 * if there is none. */
const tdm_variant *tdm_gemm_named_variant(const char *text);

/* Selects the kernel that packs panels of `width` columns, from one storage type to another. */
tdm_status tdm_gemm_select_pack(tdm_device *device, int width, tdm_dtype source, tdm_dtype panels,
                                tdm_kernel **kernel);

/* Selects the kernel that packs integer panels and computes the sums of their columns. */
tdm_status tdm_gemm_select_int_pack(tdm_device *device, int width, tdm_kernel **kernel);

/* ---- the plan -------------------------------------------------------------------------------- */

#define TDM_PACKED_LAYOUT_TEXT 32
#define TDM_GEMM_REFUSALS_TEXT 4096
#define TDM_GEMM_TUNING_TEXT (TDM_CHOICE_TEXT + TDM_TUNING_SOURCE_TEXT + 64)

/*
 * This describes how B is packed. If kernel is NULL, the plan's kernel reads B in place. Packed
 * weights of such a plan are a copy in the layout of the problem's B, and width is 1. Sizes are
 * those of one launch.
 */
typedef struct tdm_gemm_packing {
    tdm_kernel *kernel;
    tdm_gemm_matrix source; /* packed weights: B before it is packed */
    int width;
    int unit_bytes;     /* bytes of a storage unit in the packed form */
    int64_t lines;      /* columns of B */
    int64_t z_elements; /* elements of one packed batch entry */
    int64_t z_stride;   /* elements from one packed batch entry to the next along z */
    int64_t z_count;    /* packed batch entries along z; 1 if B is shared along z */
    int64_t sums_at;    /* integer panels: bytes from an entry's start to its column sums */
    uint64_t bytes;
} tdm_gemm_packing;

/* Padding in floats between the rows of a micro-panel of A, after the block of K. gemm_panel.cl
 * uses the same value. */
#define TDM_GEMM_STRIP_PAD 16
/* A kernel may use all of a local memory up to this size. A larger local memory is part of a core's
 * cache, so kernels leave some of it free. */
#define TDM_GEMM_SMALL_LOCAL 65536

/* This describes how a launch of the panel or small-M family is partitioned into work-items. */
typedef struct tdm_gemm_partition {
    int64_t row_items, column_items;
    int packs_inside; /* every work-item packs its part of B itself */
    /* Integer panel family: not 0 if work-items read A without copying it. gemm_int_args.h defines
     * the values. */
    int a_stays;
    bool as_given; /* true if the plan's values were used, false if they did not fit */
    uint32_t local_bytes;
} tdm_gemm_partition;

/* A byte has this many s4 elements. Columns of weights that are packed along K begin at a whole
 * byte. */
#define TDM_LINE_STEP 2

/* Returns why a GEMM_WEIGHTS family, other than the reference, does not take the problem, or
 * NULL. */
const char *tdm_gemm_weights_refuse(const tdm_gemm_problem *problem, const tdm_device *device,
                                    int32_t family, char reason[TDM_REASON_TEXT]);
/* Returns why K is too large for the step counters of kernels with several work-items per
 * work-group, or NULL. All kernels for devices without CPU cores are of this kind. */
const char *tdm_gemm_weights_refuse_steps(const tdm_gemm_problem *problem,
                                          char reason[TDM_REASON_TEXT]);
/* Returns why a tensor-core variant does not suit the rows or the layout of A, or NULL. The
 * predicted time is not considered. */
const char *tdm_gemm_weights_misfit(const tdm_gemm_problem *problem, const tdm_variant *row,
                                    char reason[TDM_REASON_TEXT]);
/* True if the problem can use a variant whose time can be predicted (tdm_gemm_has_wave_model). Most
 * of these are tensor-core variants. */
bool tdm_gemm_suits_modelled(const tdm_gemm_problem *problem, const tdm_device *device);
/* True if integer kernels can compute the GEMM_WEIGHTS problem. Its rows of A are quantized, and B
 * is s8 with one scale per column. K must be so short that sums do not overflow with any zero
 * points. */
bool tdm_gemm_becomes_integer(const tdm_gemm_problem *problem);
/* True if the GEMM_WEIGHTS variant cannot read B's quantized values as they are stored, but could
 * read them packed along K. */
bool tdm_gemm_needs_lines(const tdm_gemm_plan *plan, const tdm_variant *row);
/* Plans the conversion stages of a GEMM_WEIGHTS plan, which then has no kernel of its own. `forced`
 * names the variant of the inner plan, or is NULL. */
tdm_status tdm_gemm_plan_stages(tdm_gemm_plan *plan, const char *forced);
/* Plans the stages if tuning data prefers them to multiplying in place, and if the preferred
 * variant accepts the operands. *staged is true if stages were planned. */
tdm_status tdm_gemm_plan_tuned_stages(tdm_gemm_plan *plan, bool *staged);
/* Enqueues the stages and the inner plan. The operands must have been checked, and alpha must not
 * be 0. */
tdm_status tdm_gemm_run_stages(const tdm_gemm_plan *plan, tdm_stream *stream,
                               const tdm_gemm_args *args);
/* Runs a plan like tdm_gemm_plan_run, but does not check the operands again. */
tdm_status tdm_gemm_run_checked(const tdm_gemm_plan *plan, tdm_stream *stream,
                                const tdm_gemm_args *args);

/* This describes how K is split into parts, which are multiplied like batch entries and then added.
 * If `parts` is 0, K is not split. In that case `whole` and `reduce` are set only if alpha is 0. */
typedef struct tdm_gemm_split {
    int64_t parts, depth;   /* number of parts of equal depth, and steps of K in each */
    int64_t rest;           /* steps of K in one additional part, 0: none */
    int64_t slots;          /* number of parts, with the additional one */
    int64_t asked;          /* requested number of parts */
    tdm_gemm_problem whole; /* the original problem; the plan's problem is that of the parts */
    tdm_kernel *reduce;     /* kernel that adds the parts */
    uint64_t bytes;         /* bytes of all parts (f32 or s32) in the workspace */
    uint64_t workspace_offset;
} tdm_gemm_split;

/*
 * These stages convert the operands of quantized weights that no kernel multiplies in place. The
 * inner plan multiplies the converted operands. They are in the workspace, behind the part that the
 * inner plan uses. If `inner` is NULL, there is no conversion. A kernel is NULL if the inner plan
 * reads its operand without that conversion.
 */
typedef struct tdm_gemm_stages {
    tdm_gemm_plan *inner;
    tdm_kernel *unpack_b;   /* converts B to f32, K×N */
    tdm_kernel *quantize_a; /* quantizes A to s8 with row scales, or to f32 and dequantizes */
    bool lines_b;           /* B's quantized values are copied to packed columns along K */
    bool widens_a;          /* A is converted to f32 */
    uint64_t a_at, a_scale_at, b_at; /* offsets in the workspace, in bytes */
} tdm_gemm_stages;

struct tdm_gemm_plan {
    atomic_int references;
    tdm_device *device; /* the plan holds a reference if counts_device is true */
    bool counts_device;
    tdm_gemm_desc desc; /* variant is NULL here */
    tdm_gemm_problem problem;
    tdm_kernel *kernel;
    int32_t values[TDM_TUNE_PARAMETERS]; /* given launch-time parameters, 0: default */
    tdm_gemm_packing pack_b;
    tdm_gemm_split split;
    tdm_gemm_stages stages;
    /* The plan that runs if A or B begins at an address that tensor maps do not allow, or NULL. */
    tdm_gemm_plan *unaligned;
    bool streams_d;               /* D exceeds the cache, so stores are non-temporal */
    tdm_gemm_partition partition; /* panel and small-M family */
    uint64_t workspace_bytes;
    char packed_layout[TDM_PACKED_LAYOUT_TEXT];
    char refusals[TDM_GEMM_REFUSALS_TEXT];
    char tuning[TDM_GEMM_TUNING_TEXT];
    tdm_gemm_plan *next; /* next plan in the device's cache */
};

/* Creates a plan like tdm_gemm_plan_create. The plan holds a reference to the device only if
 * counts_device is true. Plans in the device's own cache hold none. */
tdm_status tdm_gemm_plan_build(tdm_device *device, const tdm_gemm_desc *desc, bool counts_device,
                               tdm_gemm_plan **plan);

/*
 * These partition the plan's launch; its problem and kernel must be set. Values of the plan are
 * limited to the number of tiles. Values from tuning data that need too much local memory are
 * dropped.
 */
tdm_status tdm_gemm_panel_divide(const tdm_gemm_plan *plan, tdm_gemm_partition *partition);
void tdm_gemm_small_m_divide(const tdm_gemm_plan *plan, tdm_gemm_partition *partition);
/* True if rows with a stride of `bytes` map to the same few sets of a cache. */
bool tdm_gemm_rows_alike(int64_t bytes);
/* The first function partitions a launch of the integer panel family. The second one returns why a
 * variant of the family is not the best one for the problem, or NULL. */
tdm_status tdm_gemm_int_panel_divide(const tdm_gemm_plan *plan, tdm_gemm_partition *partition);
const char *tdm_gemm_int_panel_refuse(const tdm_gemm_problem *p, const tdm_variant *row,
                                      char *reason);

/* Input of the search for a work partition. `context` is passed to the functions. */
typedef struct tdm_gemm_partition_space {
    int64_t strips, panels; /* numbers of micro-panels of A and panels of B */
    bool packs;             /* B is not packed in panels yet */
    bool packs_inside;      /* B must be packed by the work-items */
    uint64_t most_local_bytes;
    uint64_t (*local_bytes)(const void *context, const tdm_gemm_partition *partition);
    /* Returns the cycles until the last core is done. */
    double (*cost)(const void *context, const tdm_gemm_partition *partition, bool packs);
    const void *context;
} tdm_gemm_partition_space;

tdm_status tdm_gemm_find_partition(const tdm_gemm_plan *plan, const tdm_gemm_partition_space *space,
                                   tdm_gemm_partition *partition);

/* Splits K if that saves time, or if the plan's values require it. The plan's problem is then that
 * of the parts. The kernel must be known. */
tdm_status tdm_gemm_split_k(tdm_gemm_plan *plan);
/* Splits K for tensor-core variants with quantized weights. One launch computes all parts. */
tdm_status tdm_gemm_split_weights(tdm_gemm_plan *plan);
/*
 * Plans the case alpha = 0, in which a run computes only the epilogue. The kernel that adds parts
 * of K computes it, with zero parts. A and B are not read, and there is no workspace.
 */
tdm_status tdm_gemm_plan_epilogue(tdm_gemm_plan *plan);
/* Returns why the device cannot compute such a long K, or NULL. A device with limited loop trip
 * counts computes a long K only if K can be split. */
const char *tdm_gemm_refuse_long_k(const tdm_gemm_problem *problem, const tdm_variant *row,
                                   const tdm_device *device, char reason[TDM_REASON_TEXT]);
/* Returns the problem that the plan was made for, before K was split. */
const tdm_gemm_problem *tdm_gemm_whole(const tdm_gemm_plan *plan);
/* This launch adds the parts of one batch entry. `part` is the number of elements in a part. */
typedef struct tdm_gemm_reduce_launch {
    uint32_t groups, group;
    int64_t part;
} tdm_gemm_reduce_launch;
void tdm_gemm_reduce_shape(const tdm_gemm_plan *plan, tdm_gemm_reduce_launch *launch);

/* A split aims for at least this many steps of K in a part. With fewer steps, adding the parts
 * costs as much as the split saves. */
#define TDM_GEMM_PART_DEPTH 2048
/* The depth of parts is a multiple of this, which keeps vectors and cache lines whole. */
#define TDM_GEMM_PART_STEP 16
#define TDM_GEMM_MAX_PARTS 256

/* True if K is long enough, and A and B are large enough, for a split of K. */
bool tdm_gemm_is_long(const tdm_gemm_problem *problem);
/* Returns the smallest number of parts for which the device's loop trip counts suffice. */
int64_t tdm_gemm_least_parts(const tdm_gemm_problem *problem, const tdm_device *device);

/* This is the result of splitting K into a requested number of parts. Each part has `depth` steps,
 * and a shorter rest may follow. */
typedef struct tdm_gemm_cut {
    int64_t parts, depth, rest;
    int64_t slots; /* number of parts, with the rest */
} tdm_gemm_cut;
tdm_gemm_cut tdm_gemm_cut_k(const tdm_gemm_problem *problem, int64_t asked);
/* True if K is long enough to be split and a launch with square tiles has fewer tiles than the
 * device has compute units. `tile` is the number of rows and columns of a tile. */
bool tdm_gemm_wants_parts(const tdm_gemm_problem *problem, const tdm_device *device, int64_t tile);
/* Returns why the problem's K cannot be split for a variant, or NULL. */
const char *tdm_gemm_split_refuse(const tdm_gemm_problem *problem, const tdm_variant *row);

/*
 * This is what the model of docs/decisions/occupancy-and-waves.md predicts for a variant. The
 * prediction needs only the device's description. It covers GPU variants that compute D in tiles:
 * tensor-core variants, and f32 tiles for CUDA.
 */
typedef struct tdm_gemm_waves {
    int64_t asked;     /* requested parts of K, 1: K is not split */
    int64_t parts;     /* parts of equal depth that result */
    int64_t tiles;     /* tiles of the launch, with all parts and batch entries */
    int64_t resident;  /* work-groups that a compute unit holds at once */
    int64_t waves;     /* times that all compute units are filled */
    bool memory_bound; /* memory traffic takes longer than the compute units' work */
    double ns;         /* whole GEMM, including launches and the addition of parts */
} tdm_gemm_waves;
bool tdm_gemm_has_wave_model(const tdm_variant *row);
void tdm_gemm_waves_of(const tdm_gemm_problem *problem, const tdm_variant *row,
                       const tdm_device_info *info, int64_t parts, tdm_gemm_waves *waves);
/* Returns the time, with launches, to read the operands once and write D. No variant is faster. */
double tdm_gemm_stream_ns(const tdm_gemm_problem *problem, const tdm_device_info *info);
/* Predicts like tdm_gemm_waves_of, for the number of parts of K that takes the least time. K is
 * split only if that saves more than a tenth of the time. */
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
/* Returns why tensor maps cannot describe the problem's operands, or NULL. The addresses of the
 * operands are not considered, because they are known only at a run. */
const char *tdm_gemm_tensor_maps_refuse(const tdm_gemm_problem *problem,
                                        char reason[TDM_REASON_TEXT]);
/* Returns a bit for A if it is contiguous along M instead of K, and one for B if it is contiguous
 * along N. */
int tdm_gemm_tensor_maps_turned(const tdm_gemm_shape_arg *shape);
/* Describes A and B for the tensor maps of the wgmma family. The tiles are those of `row`, and
 * there are `count` batch entries. */
void tdm_gemm_tensor_maps(const tdm_gemm_shape_arg *shape, const tdm_variant *row, int64_t count,
                          tdm_bk_tensor_map *a, tdm_bk_tensor_map *b);
/* Describes D for a tensor map of the wgmma family. Returns false if no tensor map can describe D.
 * The address of D is not checked. */
bool tdm_gemm_tensor_map_of_d(const tdm_gemm_shape_arg *shape,
                              const tdm_gemm_epilogue_arg *epilogue, int64_t count,
                              tdm_bk_tensor_map *d);
/* Returns how many clusters of a wgmma variant the device holds at once. */
uint32_t tdm_gemm_wgmma_clusters(const tdm_device *device, tdm_kernel *kernel);
/* Returns the number of work-groups along x in a wgmma launch. A work-group or cluster may compute
 * several tiles in turn. */
int64_t tdm_gemm_wgmma_groups(const tdm_gemm_plan *plan, int64_t tiles, int64_t batch);

/* True if the small-M family computes D^T = B^T·A^T because N is the smaller side. */
bool tdm_gemm_small_m_swaps(const tdm_gemm_problem *problem);
/* Turns the problem into D^T = B^T·A^T. */
void tdm_gemm_swap(tdm_gemm_problem *problem);
/* Returns why the small-M family does not suit the problem, or NULL. */
const char *tdm_gemm_small_m_refuse(const tdm_gemm_problem *problem, const tdm_device *device,
                                    char reason[TDM_REASON_TEXT]);
/* Returns why a small-M integer variant does not suit the problem, or NULL. The variant for CUDA
 * reads B along K and does not swap operands. */
const char *tdm_gemm_small_m_refuse_integers(const tdm_gemm_problem *problem,
                                             const tdm_variant *row, char reason[TDM_REASON_TEXT]);
/* Returns why a small-M variant with several work-items per work-group cannot compute this M and K,
 * or NULL. Only devices with limited loop trip counts have this restriction. */
const char *tdm_gemm_small_m_refuse_loops(const tdm_gemm_problem *problem, const tdm_variant *row,
                                          const tdm_device *device, char reason[TDM_REASON_TEXT]);
/* True if the variant is a small-M integer kernel that does not need CUDA. */
bool tdm_gemm_small_m_groups_integers(const tdm_variant *row);
/* Returns the number of tiles in a launch of such a variant, along the smaller and along the larger
 * side. */
void tdm_gemm_small_m_tiles(const tdm_gemm_problem *problem, const tdm_variant *row,
                            int64_t *small_tiles, int64_t *large_tiles);
/* Returns the number of work-groups in a launch of small-M variants that are not for CPU cores. */
int64_t tdm_gemm_small_m_groups(const tdm_gemm_problem *problem);
/* True if the small-M variant has one work-item per work-group, for CPU cores. Such variants read
 * packed weights as panels. */
bool tdm_gemm_small_m_on_cores(const tdm_variant *row);

/*
 * Packed weights contain the packed form of B for every batch entry that is not shared. The entries
 * are in the order of B's own dimensions, not in the order of the plan. Plans with another batch of
 * A can therefore read them too.
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
/* Computes the device bytes of the packed form of B for the plan. */
tdm_status tdm_gemm_packed_bytes(const tdm_gemm_plan *plan, int64_t *bytes);
/* Returns the number of packed entries from one matrix B to the next along the plan's batch
 * dimension i. */
int64_t tdm_packed_step(const tdm_gemm_problem *problem, int i);

/*
 * Runs the plan of tdm_gemm if there is no memory for its workspace; `status` is that failure. The
 * run computes the same bits in tiles that share a smaller workspace. Returns `status` if even that
 * does not fit.
 */
tdm_status tdm_gemm_run_in_tiles(const tdm_gemm_plan *plan, tdm_stream *stream,
                                 const tdm_gemm_args *args, tdm_status status);

/* This is the largest z of one launch, because some devices allow no more. */
#define TDM_GEMM_MAX_Z 65535

/* This describes one outer entry of B that is to be packed. `depth` is along K, and lines are along
 * N. */
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
