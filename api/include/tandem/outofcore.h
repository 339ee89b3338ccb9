/*
 * GEMM for matrices that do not fit into the device's memory, or into a given part of it:
 *
 *     D = act(alpha * op(A) * op(B) + beta * C + bias + residual), or gated as in tandem/gemm.h
 *
 * It has all types and epilogues of tandem/gemm.h. Any operand may lie in host memory (plain,
 * pinned, or of a mapped file), and a budget bounds the device memory. D is cut into tiles. Panels
 * of A and B are copied to the device while others are multiplied, and finished tiles of D are
 * copied back. The copies to the device, the GEMMs and the copies back each have their own queue.
 *
 * If the budget holds a tile with all of K, an element has the bits that tdm_gemm gives it in
 * device memory (docs/numerics.md says when). With a smaller budget, K is cut into steps. A D of
 * integers has the same bits then too. Sums of floats are rounded to f32 between steps, in the
 * order of K. They are within the tolerance of docs/numerics.md. tdm_outofcore_info reports the
 * steps.
 */
#ifndef TANDEM_OUTOFCORE_H
#define TANDEM_OUTOFCORE_H

#include <tandem/gemm.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdm_outofcore_plan tdm_outofcore_plan;

/* Operands that are tensors on the device. All others are in host memory. */
typedef enum tdm_outofcore_operands {
    TDM_OUTOFCORE_A = 1,
    TDM_OUTOFCORE_B = 2,
    TDM_OUTOFCORE_C = 4,
    TDM_OUTOFCORE_D = 8,
    TDM_OUTOFCORE_BIAS = 16,
    TDM_OUTOFCORE_RESIDUAL = 32
} tdm_outofcore_operands;

/* Rates that the planner uses. A value of 0 is measured once per device. operations_per_s is
 * measured once per device and operand types. */
typedef struct tdm_outofcore_rates {
    double in_bytes_per_s;   /* host to device */
    double out_bytes_per_s;  /* device to host */
    double operations_per_s; /* of a large GEMM; a multiplication and an addition are two */
    double step_s;           /* fixed time of a copy or a GEMM */
    int overlap; /* copies and kernels run at the same time: 1 yes, -1 no, 0 to be measured */
} tdm_outofcore_rates;

/*
 * Description of a plan, with its bounds. Start from TDM_OUTOFCORE_DESC_INIT. gemm describes the
 * operands as for tdm_gemm_plan_create; packed_b is not supported. Layouts also apply to host
 * memory, with strides in elements from the first one.
 *
 * In host memory s4 is contiguous along one dimension, and each run along it begins at a byte. On
 * the device each batch entry begins at a byte.
 */
typedef struct tdm_outofcore_desc {
    size_t struct_size;    /* sizeof(tdm_outofcore_desc) */
    unsigned on_device;    /* bits of tdm_outofcore_operands */
    uint64_t budget_bytes; /* bound of device memory for panels, tiles and workspaces; required */
    int64_t tile_rows;     /* rows of a tile of D; 0: the planner's choice */
    int64_t tile_columns;  /* columns of a tile of D; 0: the planner's choice */
    int buffers;           /* buffers of each panel and tile, 1 to 3; 0: the planner's choice */
    tdm_outofcore_rates rates;
    int measure;        /* not 0: record times for tdm_outofcore_plan_measured */
    int whole_k;        /* not 0: never cut K; refuse a budget that is too small for that */
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
 * Choose tiles and buffers within the budget, allocate them and build the kernels. The caller
 * releases the plan with tdm_outofcore_plan_destroy; its device memory is held until then.
 * Blocking. The first plan of a device and type measures rates, which takes a fraction of a second.
 * This uses device memory within the budget and then frees it. If there is too little, default
 * rates are assumed.
 *
 * Statuses: as tdm_gemm_plan_create and tdm_buffer_create. TDM_OVER_BUDGET: not even the smallest
 * tile fits, with K cut as far as whole_k and quantize_a allow; the detail says how much is needed.
 * TDM_UNSUPPORTED: also for given tile sizes, if a tile or the smaller last tile would not give the
 * sums of the whole GEMM. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_outofcore_plan_create(tdm_device *device, const tdm_outofcore_desc *desc,
                                             tdm_outofcore_plan **plan);

/* Release a plan; NULL is accepted. Legal while its work is in flight: the call waits for it. Since
 * 0.1. */
TDM_API void tdm_outofcore_plan_destroy(tdm_outofcore_plan *plan);

/* Seconds of a run, by queue. overlap is the share of the hideable time that was hidden. It is 0 if
 * copies and kernels took turns, and 1 if the run took no longer than the busiest queue alone. */
typedef struct tdm_outofcore_times {
    double in_s, compute_s, out_s, total_s, overlap;
} tdm_outofcore_times;

/* Choices and predictions of the planner. */
typedef struct tdm_outofcore_info {
    size_t struct_size; /* sizeof(tdm_outofcore_info), set by the caller */
    int64_t tile_rows, tile_columns;
    int64_t tiles; /* tiles of all batch entries */
    /* d_buffers: buffers of tiles of D, of C and of the residual, each */
    int a_buffers, b_buffers, d_buffers;
    int columns_outside;          /* 0: a panel of A stays while B is traversed; 1: the reverse */
    uint64_t device_bytes;        /* allocated device memory, within the budget */
    uint64_t bytes_in, bytes_out; /* bytes that a run copies */
    double operations;            /* operations of a run */
    tdm_outofcore_rates rates;    /* rates that the planner used */
    tdm_outofcore_times predicted;
    char variant[64]; /* kernel variant */
    int64_t k_steps;  /* GEMMs of a tile along K; 1: K is whole */
    int64_t k_step;   /* extent of one of them along K */
    int same_bits;    /* 1: D has the bits of tdm_gemm; 0: K is cut, D is within the tolerance */
} tdm_outofcore_info;

/* Describe a plan. Statuses: TDM_BAD_ARGUMENT. Thread-safe. Since 0.1. */
TDM_API tdm_status tdm_outofcore_plan_describe(const tdm_outofcore_plan *plan,
                                               tdm_outofcore_info *info);

/* Location of an operand: a tensor if it is in on_device, else host memory of `bytes` bytes. In
 * host memory its quantization parameters, if any, are in host memory too. All zero: no operand. */
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
    tdm_outofcore_source d; /* only its parameters, if D is in host memory */
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
 * Enqueue the GEMM on `stream`, after earlier and before later work. Not blocking, except where the
 * driver's own queue blocks. It allocates no device memory. Host memory must stay valid, and inputs
 * unchanged, until the stream has reached this point. Runs of one plan execute one after the other,
 * on whatever streams.
 *
 * D may be the very same memory and layout as C or the residual. Any other overlap with an operand
 * is refused. A and B do not reach D if alpha is 0. C is not read if beta is 0.
 *
 * On failure the call waits for the work that it enqueued. Nothing accesses host memory afterwards,
 * and D is undefined if work had begun. Statuses: TDM_BAD_ARGUMENT, TDM_BAD_SHAPE, TDM_BAD_DTYPE,
 * TDM_BAD_STATE (recording), TDM_OUT_OF_HOST_MEMORY, the stream's failure. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_outofcore_plan_run(tdm_outofcore_plan *plan, tdm_stream *stream,
                                          const tdm_outofcore_args *args);

/*
 * Get the times of the last run of a plan made with `measure`; waits for the run. *from_device (may
 * be NULL) is 1 for the device's clock, 0 for the host's. Statuses: TDM_BAD_ARGUMENT, TDM_BAD_STATE
 * (not measured, or not run), the run's failure. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_outofcore_plan_measured(tdm_outofcore_plan *plan, tdm_outofcore_times *times,
                                               int *from_device);

#ifdef __cplusplus
}
#endif

#endif
