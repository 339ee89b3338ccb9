/*
 * Matrix multiplication (GEMM):
 *
 *     D = act(alpha * op(A) * op(B) + beta * C + bias + residual)
 *     D = act(alpha * op(A) * op(B) + beta * C + bias) * residual     with `gated`
 *
 * There are two levels: tdm_gemm for one call, and a plan that fixes shapes and chooses the kernel
 * once. A, B, C, D are stored in f32, f16 or bf16. Sums are accumulated in f32 and D is rounded
 * once. Matrices are the last two dimensions; leading dimensions (at most 6) are the batch.
 *
 * An operand that is multiplied by zero is not read. If alpha is 0, A, B and their quantization
 * parameters are skipped. If beta is 0, C is skipped. A NaN or an infinity there does not reach D.
 *
 * Integer matrices: A of u8 or s8 by B of s8, each with or without quantization parameters
 * (tandem/quant.h). Without them the scale is 1 and the zero point 0. Scales are f32, f16 or bf16.
 * A's parameters may vary along its rows and batch, B's along its columns and batch. The sum is
 * exact:
 *
 *     acc = Σ (A − zero_A)·(B − zero_B) + bias + C    bias: s32 or absent; C: added here only if
 *                                                     D is of integers, and then s32 or absent
 *     D of s32:       acc
 *     D of s8, u8:    zero_D + rint(clamp(float(acc)·m, low − zero_D, high − zero_D)),
 *                     m = scale_A·scale_B / scale_D; D carries its parameters, for the whole tensor
 *                     or for each column; activation none or relu
 *     D of a float:   act(alpha·scale_A·scale_B·float(acc) + beta·C + bias + residual);
 *                     a float bias is added here
 *
 * For D of integers alpha must be 1, residual must be absent, and beta must be 1 if C is present.
 * bias and C are added modulo 2^32. The results have the same bits on every device. K is limited so
 * that no sum of products can overflow:
 *
 *     131071   s8·s8 without zero points
 *      65793   with u8 or zero points of A
 *      33025   with zero points of B
 *
 * Quantized weights: A of f32, f16 or bf16 by B of s8 or s4 with parameters. They may vary along
 * B's columns, along its batch and, in groups, along K. Scales are f32, f16 or bf16. D is a float:
 *
 *     D = act(alpha · Σ A·(scale_B·(B − zero_B)) + beta·C + bias + residual)       sums in f32
 *
 * With quantize_a (dynamic quantization) each row of A is first quantized to s8 with scale_A =
 * max|row| / 127. The quantized values replace A. docs/numerics.md has the whole contract.
 */
#ifndef TANDEM_GEMM_H
#define TANDEM_GEMM_H

#include <tandem/quant.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdm_gemm_plan tdm_gemm_plan;
typedef struct tdm_packed tdm_packed;

/* Columns: name, value, text. The activation applies to the sum of all other terms. Formulas as in
 * tandem/ops.h. */
#define TDM_ACTIVATION_LIST(X)                                                                     \
    X(TDM_ACT_NONE, 0, "none")                                                                     \
    X(TDM_ACT_RELU, 1, "relu")                                                                     \
    X(TDM_ACT_GELU, 2, "gelu")                                                                     \
    X(TDM_ACT_GELU_TANH, 3, "gelu_tanh")                                                           \
    X(TDM_ACT_SILU, 4, "silu")

typedef enum tdm_activation {
#define TDM_ACTIVATION_ENUM(name, value, text) name = value,
    TDM_ACTIVATION_LIST(TDM_ACTIVATION_ENUM)
#undef TDM_ACTIVATION_ENUM
} tdm_activation;

/*
 * Description of a GEMM. Start from TDM_GEMM_DESC_INIT (alpha = 1, beta = 0, no epilogue). Layouts:
 *
 *     a            (batch…)×M×K, or K×M with transpose_a
 *     b            (batch…)×K×N, or N×K with transpose_b
 *     d            (batch…)×M×N
 *     c, residual  like d, or all zero when absent; c is needed when beta ≠ 0
 *     bias         N elements, or all zero
 *
 * A batch dimension of a, b, c, residual may be 1 or missing, or have stride 0. That operand is
 * then shared by all batch entries. Any element strides are accepted.
 */
typedef struct tdm_gemm_desc {
    size_t struct_size; /* sizeof(tdm_gemm_desc) */
    tdm_layout a, b, c, d;
    tdm_layout bias;     /* rank 1, one value per column of D */
    tdm_layout residual; /* added after C and bias, before the activation; see gated */
    /* parameters of integer operands (tdm_tensor_quant_layout), or all zero */
    tdm_quant_layout a_quant, b_quant, d_quant;
    int transpose_a, transpose_b;
    float alpha, beta;
    tdm_activation activation;
    int quantize_a; /* not 0, for a float A and a quantized B: quantize rows of A to s8 */
    int packed_b;   /* not 0: _run takes B as an object made by tdm_gemm_pack_b */
    /* Name of the kernel variant to use; NULL: the library chooses. Launch-time parameters may
     * follow: "variant:name=value,...". */
    const char *variant;
    /*
     * Not 0, for A and B of f32: tensor cores may compute each f32 product as three tf32 products.
     * The error tolerance is then wider than that of f32 (docs/numerics.md). 0: never; `variant`
     * cannot name such a kernel either.
     */
    int allow_3xtf32;
    /*
     * Not 0: the residual is not added but multiplies the activated sum. If A·B is the gate of a
     * gated linear unit and the residual its other product, D is SwiGLU with TDM_ACT_SILU and GeGLU
     * with TDM_ACT_GELU or TDM_ACT_GELU_TANH (Shazeer 2020). A residual must be there. Since 0.2.
     */
    int gated;
} tdm_gemm_desc;

#ifdef __cplusplus
static inline tdm_gemm_desc tdm_gemm_desc_init(void) {
    tdm_gemm_desc desc = tdm_gemm_desc();
    desc.struct_size = sizeof desc;
    desc.alpha = 1.0f;
    return desc;
}
#define TDM_GEMM_DESC_INIT tdm_gemm_desc_init()
#else
#define TDM_GEMM_DESC_INIT                                                                         \
    { .struct_size = sizeof(tdm_gemm_desc), .alpha = 1.0f }
#endif

/*
 * Check the description, choose the kernel and build it. The caller releases the plan with
 * tdm_gemm_plan_destroy. A plan is immutable: several threads may run it at once, on distinct
 * streams and workspaces. Blocking (may build). Statuses: TDM_BAD_ARGUMENT, TDM_BAD_SHAPE,
 * TDM_BAD_DTYPE, TDM_UNSUPPORTED (no variant takes the problem, or the forced one does not; the
 * detail gives the reason), TDM_BUILD_FAILED, TDM_OUT_OF_HOST_MEMORY. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_gemm_plan_create(tdm_device *device, const tdm_gemm_desc *desc,
                                        tdm_gemm_plan **plan);

/* Release a plan; NULL is accepted; legal while its work is in flight. Thread-safe. Since 0.1. */
TDM_API void tdm_gemm_plan_destroy(tdm_gemm_plan *plan);

/* *bytes = size of the workspace that _run needs; 0: none. Statuses: TDM_BAD_ARGUMENT. Thread-safe.
 * Since 0.1. */
TDM_API tdm_status tdm_gemm_plan_workspace_size(const tdm_gemm_plan *plan, size_t *bytes);

/*
 * Returns the name of the chosen variant ("gemm_f32_panel_6x16"); owned by the plan; NULL for NULL.
 * The plan may compute D^T = B^T A^T instead, because D is column-major or N is small. The
 * variant's tiles and parameters then refer to D^T. For a column-major D the log (debug, dispatch)
 * says so. Thread-safe. Since 0.1.
 */
TDM_API const char *tdm_gemm_plan_variant(const tdm_gemm_plan *plan);

/* Returns one line "variant: reason" for each candidate that was refused before the chosen one.
 * Owned by the plan; "" if there were none; NULL for NULL. Thread-safe. Since 0.1. */
TDM_API const char *tdm_gemm_plan_refusals(const tdm_gemm_plan *plan);

/*
 * Returns the tuning data that determined the choice, for example "variant:parameters: line 7 of
 * the user's file, 512x512x512x1, measured 1.24 ms" or "variant: shipped for cpu-avx512, ..., not
 * measured". Returns "" if there was none: no row fits, the preferred variant does not take the
 * problem, or a variant was forced. Owned by the plan; NULL for NULL. Thread-safe. Since 0.1.
 */
TDM_API const char *tdm_gemm_plan_tuning(const tdm_gemm_plan *plan);

/*
 * Pack B (layout as the plan's b) once, for any number of runs. The call allocates and enqueues on
 * the stream. The caller releases the object with tdm_packed_destroy. It serves every plan of the
 * same device that was made with packed_b, for any M, A and D, if both conditions hold:
 *   - The plan's kernel reads the same layout id and version (tdm_packed_layout). With quantize_a,
 *     s8 weights and one scale per column, CPU cores use one layout for up to 8 rows and another
 *     for more.
 *   - The plan's B has the same K, N and batch: equal extents in the same order, without those that
 *     are 1 or have stride 0. Dimensions are not joined: a plan whose B has a batch of [4] refuses
 *     weights packed from a batch of [2, 2]. Give the packing plan the shape of the running plans
 *     (tdm_tensor_reshape).
 * Otherwise _run refuses it (TDM_BAD_ARGUMENT, TDM_BAD_SHAPE) and says why. Statuses:
 * TDM_BAD_ARGUMENT, TDM_BAD_SHAPE, TDM_BAD_DTYPE, TDM_BAD_STATE (the plan was made without
 * packed_b, or recording), TDM_UNSUPPORTED (B is too large), memory, the stream's failure. All
 * thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_gemm_pack_b(const tdm_gemm_plan *plan, tdm_stream *stream,
                                   const tdm_tensor *b, tdm_packed **packed);
TDM_API void tdm_packed_destroy(tdm_packed *packed);             /* NULL is accepted */
TDM_API size_t tdm_packed_bytes(const tdm_packed *packed);       /* device bytes; 0 for NULL */
TDM_API const char *tdm_packed_layout(const tdm_packed *packed); /* "name/version"; NULL for NULL */

/* Operands of one run; start from TDM_GEMM_ARGS_INIT. Tensors must have the layouts that the plan
 * was made for. */
typedef struct tdm_gemm_args {
    size_t struct_size; /* sizeof(tdm_gemm_args) */
    const tdm_tensor *a;
    const tdm_tensor *b;        /* NULL with packed_b */
    const tdm_packed *packed_b; /* NULL without packed_b */
    const tdm_tensor *c;
    const tdm_tensor *bias;
    const tdm_tensor *residual;
    tdm_tensor *d;
    tdm_buffer *workspace; /* at least tdm_gemm_plan_workspace_size bytes; NULL when that is 0 */
} tdm_gemm_args;

#ifdef __cplusplus
static inline tdm_gemm_args tdm_gemm_args_init(void) {
    tdm_gemm_args args = tdm_gemm_args();
    args.struct_size = sizeof args;
    return args;
}
#define TDM_GEMM_ARGS_INIT tdm_gemm_args_init()
#else
#define TDM_GEMM_ARGS_INIT                                                                         \
    { .struct_size = sizeof(tdm_gemm_args) }
#endif

/*
 * Enqueue the GEMM. It never allocates device memory, builds or waits, and it can be recorded. D
 * may be the very same view as C or residual. Any other overlap of D with an operand is refused. A
 * and B are not read if alpha is 0, and C is not read if beta is 0. Another stream must not use the
 * workspace at the same time. Statuses: TDM_BAD_ARGUMENT, TDM_BAD_SHAPE, TDM_BAD_DTYPE,
 * TDM_BAD_STATE, the stream's failure. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_gemm_plan_run(const tdm_gemm_plan *plan, tdm_stream *stream,
                                     const tdm_gemm_args *args);

/* Optional parts of tdm_gemm. All zero but struct_size: none. */
typedef struct tdm_gemm_epilogue {
    size_t struct_size; /* sizeof(tdm_gemm_epilogue) */
    const tdm_tensor *bias;
    const tdm_tensor *residual;
    tdm_activation activation;
    int quantize_a; /* as in tdm_gemm_desc: quantize rows of a float A to s8 */
    int gated;      /* as in tdm_gemm_desc: the residual is a factor. Since 0.2 */
} tdm_gemm_epilogue;

/*
 * Compute one GEMM: D = act(alpha*A*B + beta*C + bias + residual), or with a gated epilogue
 * D = act(alpha*A*B + beta*C + bias) * residual. Transposes are views
 * (tdm_tensor_transpose). c may be NULL when beta is 0, and may be d. epilogue may be NULL.
 * Enqueues.
 *
 * Each device caches the 64 most recently used plans, one per set of layouts, factors and epilogue.
 * The workspace comes from the pool. The first call of a shape may build a kernel; calls of other
 * threads on the device then wait for it. Statuses: as the plan's functions, and memory. While
 * recording: TDM_BAD_STATE (use a plan). Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_gemm(tdm_stream *stream, float alpha, const tdm_tensor *a,
                            const tdm_tensor *b, float beta, const tdm_tensor *c, tdm_tensor *d,
                            const tdm_gemm_epilogue *epilogue);

#ifdef __cplusplus
}
#endif

#endif
