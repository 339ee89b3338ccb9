/*
 * Multiplication of matrices that do not fit into the device's memory, or into what of it may be used:
 *
 *     D = act(alpha * op(A) * op(B) + beta * C + bias + residual)
 *
 * exactly as tandem/gemm.h has it, all types and epilogues, where any operand may lie in host memory (plain, pinned, or the address of
 * a mapped file) and a budget bounds the device memory that is used. D is cut into tiles; panels of A and B are copied to the device
 * while others are multiplied, and finished tiles of D are copied back, each in a queue of its own. As long as the budget holds a tile
 * with all of K, an element has the bits that tdm_gemm gives it in the device's memory (docs/numerics.md says when). Below that K is cut
 * into steps: D of integers is the same, sums of floats are rounded to f32 between steps, in the order of K, and are within the bound
 * of docs/numerics.md; tdm_outofcore_info says so.
 */
#ifndef TANDEM_OUTOFCORE_H
#define TANDEM_OUTOFCORE_H

#include <tandem/gemm.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdm_outofcore_plan tdm_outofcore_plan;

/* Operands that are tensors on the device; all others are in host memory. */
typedef enum tdm_outofcore_operands {
    TDM_OUTOFCORE_A = 1,
    TDM_OUTOFCORE_B = 2,
    TDM_OUTOFCORE_C = 4,
    TDM_OUTOFCORE_D = 8,
    TDM_OUTOFCORE_BIAS = 16,
    TDM_OUTOFCORE_RESIDUAL = 32
} tdm_outofcore_operands;

/* What the planner counts with. A value of 0 is measured, once per device and, for operations, per types of operands. */
typedef struct tdm_outofcore_rates {
    double in_bytes_per_s;   /* host to device */
    double out_bytes_per_s;  /* device to host */
    double operations_per_s; /* of large products; a multiplication and an addition are two */
    double step_s;           /* fixed time of a copy or a product */
    int overlap; /* copies and kernels run at the same time: 1 yes, -1 no, 0 to be measured */
} tdm_outofcore_rates;

/*
 * What a plan computes, and within which bounds. Start from TDM_OUTOFCORE_DESC_INIT. gemm describes the operands as for tdm_gemm_plan_create; layouts are
 * those of the host memory too, with strides in elements from the first one; s4 is contiguous along one dimension there, and each line
 * begins at a byte; on the device each entry of a batch does. packed_b is not supported.
 */
typedef struct tdm_outofcore_desc {
    size_t struct_size;    /* sizeof(tdm_outofcore_desc) */
    unsigned on_device;    /* bits of tdm_outofcore_operands */
    uint64_t budget_bytes; /* bound of device memory for panels, tiles and workspaces; required */
    int64_t tile_rows;     /* of D; 0: the planner's choice */
    int64_t tile_columns;  /* likewise */
    int buffers;           /* of each panel and tile, 1 to 3; 0: the planner's choice */
    tdm_outofcore_rates rates;
    int measure;        /* not 0: note times for tdm_outofcore_plan_measured */
    int whole_k;        /* not 0: never cut K; a budget that is too small for that is refused */
    tdm_gemm_desc gemm; /* always the last member, because it may grow */
} tdm_outofcore_desc;

#ifdef __cplusplus
static inline tdm_outofcore_desc tdm_outofcore_desc_init(void) {
    tdm_outofcore_desc desc = tdm_outofcore_desc();
    desc.struct_size = sizeof desc;
    desc.gemm = tdm_gemm_desc_init();
    return desc;
}
#define TDM_OUTOFCORE_DESC_INIT tdm_outofcore_desc_init()
#else
#define TDM_OUTOFCORE_DESC_INIT                                                                    \
    { .struct_size = sizeof(tdm_outofcore_desc), .gemm = TDM_GEMM_DESC_INIT }
#endif

/*
 * Choose tiles and buffers within the budget, allocate them and build the kernels. The caller releases the plan with
 * tdm_outofcore_plan_destroy. Its device memory is held until then. Blocking; the first plan of a device and type measures rates,
 * a fraction of a second, with device memory within the budget, which it gives back (where there is too little, it assumes rates).
 * Statuses: as tdm_gemm_plan_create and tdm_buffer_create, and TDM_OVER_BUDGET (not even the smallest tile fits, K cut as far as
 * whole_k and quantize_a let it be; the detail says how much does), TDM_UNSUPPORTED also for a given tile whose sums, or those of the
 * last one, would not be the whole's. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_outofcore_plan_create(tdm_device *device, const tdm_outofcore_desc *desc,
                                             tdm_outofcore_plan **plan);

/* Release a plan; NULL is accepted; legal while its work is in flight (the call waits for it). Since 0.1. */
TDM_API void tdm_outofcore_plan_destroy(tdm_outofcore_plan *plan);

/* Seconds of a run, by queue. overlap is the share of the hideable time that was hidden: 0 when copies and products took turns, 1
 * when the run took no longer than the busiest queue alone. */
typedef struct tdm_outofcore_times {
    double in_s, compute_s, out_s, total_s, overlap;
} tdm_outofcore_times;

/* What the planner chose, and what it expects. */
typedef struct tdm_outofcore_info {
    size_t struct_size; /* sizeof(tdm_outofcore_info), set by the caller */
    int64_t tile_rows, tile_columns;
    int64_t tiles;                       /* of all batch entries */
    int a_buffers, b_buffers, d_buffers; /* d_buffers: of tiles of D, C and the residual each */
    int columns_outside;          /* 0: a panel of A stays while B passes; 1: the other way round */
    uint64_t device_bytes;        /* allocated, within the budget */
    uint64_t bytes_in, bytes_out; /* that a run copies */
    double operations;            /* of the product */
    tdm_outofcore_rates rates;    /* that were counted with */
    tdm_outofcore_times predicted;
    char variant[64]; /* of the kernel */
    int64_t k_steps;  /* products of a tile along K; 1: K is whole */
    int64_t k_step;   /* what of K one of them takes */
    int same_bits;    /* 1: D has the bits it has in core; 0: K is cut, D is within the bound */
} tdm_outofcore_info;

/* Describe a plan. Statuses: TDM_BAD_ARGUMENT. Thread-safe. Since 0.1. */
TDM_API tdm_status tdm_outofcore_plan_describe(const tdm_outofcore_plan *plan,
                                               tdm_outofcore_info *info);

/*
 * Where an operand is: a tensor for those in on_device, else host memory of `bytes` bytes with its quantization parameters, if it carries
 * some, in host memory too. All zero: there is none.
 */
typedef struct tdm_outofcore_source {
    const tdm_tensor *tensor;
    const void *memory;
    size_t bytes;
    const void *scale;
    size_t scale_bytes;
    const void *zero_point;
    size_t zero_point_bytes;
} tdm_outofcore_source;

/* Operands of one run; start from TDM_OUTOFCORE_ARGS_INIT. */
typedef struct tdm_outofcore_args {
    size_t struct_size; /* sizeof(tdm_outofcore_args) */
    tdm_outofcore_source a, b, c, bias, residual;
    tdm_outofcore_source d; /* parameters only, where D is in host memory */
    void *d_memory;         /* D in host memory */
    size_t d_bytes;
} tdm_outofcore_args;

#ifdef __cplusplus
static inline tdm_outofcore_args tdm_outofcore_args_init(void) {
    tdm_outofcore_args args = tdm_outofcore_args();
    args.struct_size = sizeof args;
    return args;
}
#define TDM_OUTOFCORE_ARGS_INIT tdm_outofcore_args_init()
#else
#define TDM_OUTOFCORE_ARGS_INIT                                                                    \
    { .struct_size = sizeof(tdm_outofcore_args) }
#endif

/*
 * Enqueue the multiplication after what `stream` has so far; what is enqueued on it later comes after. Not blocking, up to what the driver's
 * own queue does; host memory must stay valid, inputs unchanged, until the stream has passed. Allocates no device memory. D may be the very same memory and
 * layout as C or the residual; any other overlap with an operand is refused. A and B do not reach D where alpha is 0, and
 * beta = 0 never reads C. Runs of one plan follow each other, whatever
 * their streams. On failure the call waits for what it enqueued: nothing touches host memory afterwards, and D is undefined where
 * work had begun. Statuses: TDM_BAD_ARGUMENT, TDM_BAD_SHAPE, TDM_BAD_DTYPE, TDM_BAD_STATE (recording), TDM_OUT_OF_HOST_MEMORY, the stream's failure.
 * Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_outofcore_plan_run(tdm_outofcore_plan *plan, tdm_stream *stream,
                                          const tdm_outofcore_args *args);

/*
 * Times of the last run of a plan made with `measure`; waits for it. *from_device (may be NULL): by the device's clock (1) or the host's
 * (0). Statuses: TDM_BAD_ARGUMENT, TDM_BAD_STATE (not measured, or not run), the run's failure. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_outofcore_plan_measured(tdm_outofcore_plan *plan, tdm_outofcore_times *times,
                                               int *from_device);

#ifdef __cplusplus
}
#endif

#endif
