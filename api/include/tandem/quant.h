/*
 * Quantized tensors: real = scale · (q − zero_point).
 *
 * A quantized tensor is a tensor of s8, u8 or s4 (or of s32: sums of products) that carries its parameters: a tensor of
 * scales and, if asymmetric, one of zero points. How many elements share a parameter is data, not a kind: `block` has, for
 * each dimension, the elements that share one (0: the whole dimension), and the parameters' tensors have the same rank, with
 * ceil(dimension / block) entries per dimension, one where block is 0:
 *
 *     TDM_PER_TENSOR            {0, 0}    parameters 1×1
 *     TDM_PER_COLUMN            {0, 1}    parameters 1×N: output channels of a K×N weight
 *     TDM_PER_ROW               {1, 0}    parameters M×1: rows of M×K activations
 *     TDM_PER_COLUMN_GROUP(32)  {32, 1}   parameters ceil(K/32)×N: groups of 32 along K of a K×N weight
 *     TDM_PER_ROW_GROUP(32)     {1, 32}   parameters M×ceil(K/32): groups of 32 along K of M×K
 *
 * The rules of every conversion, rounding included, are in docs/numerics.md and are the same bits on every device, but for f16
 * results of one driver, which that page names.
 * Operations that are not about quantization (tdm_tensor_copy, tdm_tensor_convert, …) see the stored integers.
 */
#ifndef TANDEM_QUANT_H
#define TANDEM_QUANT_H

#include <tandem/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The usual blocks of matrices as initialisers: `const int64_t block[] = TDM_PER_ROW;`. Since 0.2. */
#define TDM_PER_TENSOR                                                                             \
    { 0, 0 }
#define TDM_PER_COLUMN                                                                             \
    { 0, 1 }
#define TDM_PER_ROW                                                                                \
    { 1, 0 }
#define TDM_PER_COLUMN_GROUP(elements)                                                             \
    { elements, 1 }
#define TDM_PER_ROW_GROUP(elements)                                                                \
    { 1, elements }

/* The parameters of a quantized tensor. Start from TDM_QUANTIZATION_INIT. */
typedef struct tdm_quantization {
    size_t struct_size;          /* sizeof(tdm_quantization) */
    int64_t block[TDM_MAX_RANK]; /* elements per dimension that share a parameter, 0: all */
    const tdm_tensor *scale;     /* f32, f16 or bf16; required */
    const tdm_tensor *
        zero_point; /* s32, s8 or u8; NULL: all 0. It must lie in the range of the quantized type */
} tdm_quantization;

#ifdef __cplusplus
static inline tdm_quantization tdm_quantization_init(void) {
    tdm_quantization quantization = tdm_quantization();
    quantization.struct_size = sizeof quantization;
    return quantization;
}
#define TDM_QUANTIZATION_INIT tdm_quantization_init()
#else
#define TDM_QUANTIZATION_INIT                                                                      \
    { .struct_size = sizeof(tdm_quantization) }
#endif

/*
 * A new handle on the same elements that carries parameters; `tensor` may itself carry some, which the new handle does not. The
 * scales' and zero points' buffers are kept alive; their content may change later, and whoever runs after that sees it.
 * Views: tdm_tensor_transpose and tdm_tensor_slice carry the parameters along (a slice must begin on a block, end on one or at
 * the end of the dimension, and step by 1 where a block has more than one element, or it is TDM_UNSUPPORTED);
 * tdm_tensor_view, _reshape and _broadcast carry parameters of the whole tensor and refuse others
 * (TDM_UNSUPPORTED). Released with tdm_tensor_destroy. Statuses: TDM_BAD_ARGUMENT (NULL, another device, struct_size,
 * negative block), TDM_BAD_DTYPE, TDM_BAD_SHAPE (shape of scale or zero_point, named), TDM_OUT_OF_HOST_MEMORY. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_tensor_quantized(const tdm_tensor *tensor,
                                        const tdm_quantization *quantization,
                                        tdm_tensor **quantized);

/*
 * Allocate a contiguous quantized tensor with its parameters' tensors: elements of `dtype` (s8, u8, s4, s32), scales of `scale`
 * (f32, f16, bf16), zero points of `zero_point` (s32, s8, u8, or TDM_DTYPE_NONE for none). block has `rank` entries; NULL: one
 * parameter for the whole tensor. All content is undefined until tdm_tensor_quantize_minmax or copies into the parameters fill it; parameters
 * that come from elsewhere are more easily joined to codes by tdm_tensor_quantized. Statuses: as
 * tdm_tensor_create and tdm_tensor_quantized. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_tensor_create_quantized(tdm_device *device, tdm_dtype dtype, int rank,
                                               const int64_t *shape, const int64_t *block,
                                               tdm_dtype scale, tdm_dtype zero_point,
                                               tdm_tensor **tensor);

/*
 * The parameters that a tensor carries; scale is NULL when it carries none. The tensors are borrowed: they live as long as the
 * handle. A view of one (tdm_tensor_reshape, ...) is a handle to fill it with. quantization->struct_size must be set
 * (TDM_QUANTIZATION_INIT). Statuses: TDM_BAD_ARGUMENT. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_tensor_quantization(const tdm_tensor *tensor,
                                           tdm_quantization *quantization);

/* How the parameters of a quantized tensor are arranged, without memory, for plans. All zero: it carries none. */
typedef struct tdm_quant_layout {
    int64_t block[TDM_MAX_RANK];
    tdm_layout scale, zero_point;
} tdm_quant_layout;

/* The arrangement of the parameters that a tensor carries. Statuses: TDM_BAD_ARGUMENT. Thread-safe. Since 0.1. */
TDM_API tdm_status tdm_tensor_quant_layout(const tdm_tensor *tensor, tdm_quant_layout *layout);

/* The block formats of GGUF files, 32 elements of a row each (layouts of ggml's block_q8_0 and block_q4_0, little endian). */
typedef enum tdm_block_format {
    TDM_BLOCKS_Q8_0 = 0, /* 34 bytes: a scale of f16, 32 s8 */
    TDM_BLOCKS_Q4_0 =
        1 /* 18 bytes: a scale of f16, 32 codes of 4 bits, those of element j and j + 16 in byte j, 8 more than they mean */
} tdm_block_format;

/*
 * Copy a matrix of GGUF blocks, [rows][columns / 32] of them, into a quantized tensor, or back: every bit is kept, those of scales that are
 * infinite or NaN too. The tensor is [rows][columns], or [columns], of s8 for q8_0 and s4 for q4_0, with scales of f16, one for 32 elements of a row, and no zero
 * points, as tdm_tensor_create_quantized makes it of block {1, 32}; any strides that its dtype may have. As B of a product of
 * [rows = N][columns = K] weights it is used with transpose_b. host_bytes is the size of the host memory, which need not be aligned. Blocks until the data
 * has arrived; host memory beside it: 1.1 MiB at most. On failure the target is part old, part new. Statuses: TDM_BAD_ARGUMENT, TDM_BAD_SHAPE (rank; columns that are no multiple of
 * 32; host_bytes too small), TDM_BAD_DTYPE, TDM_UNSUPPORTED (other parameters; a target of s4 that ends inside a byte), TDM_BAD_STATE (recording), TDM_OUT_OF_HOST_MEMORY, the stream's failure.
 * Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_tensor_write_blocks(tdm_stream *stream, tdm_block_format format,
                                           const void *host, size_t host_bytes, tdm_tensor *target);
TDM_API tdm_status tdm_tensor_read_blocks(tdm_stream *stream, const tdm_tensor *source,
                                          tdm_block_format format, void *host, size_t host_bytes);

/*
 * target = quantize(source): q = saturate(rint(x / scale) + zero_point), ties to even, with the parameters that target carries
 * (ONNX's QuantizeLinear). NaN gives the zero point, infinities saturate; a scale of 0 gives the zero point everywhere. source: f32, f16, bf16,
 * same shape, any strides. Enqueues. Statuses: TDM_BAD_ARGUMENT (NULL, devices differ, overlap, target carries no parameters),
 * TDM_BAD_SHAPE, TDM_UNSUPPORTED (dtypes, named; blocks that part the two elements of a byte of s4), the stream's failure. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_tensor_quantize(tdm_stream *stream, const tdm_tensor *source,
                                       tdm_tensor *target);

/*
 * As tdm_tensor_quantize, after deriving the parameters from source, block by block, and writing them to the tensors that target carries:
 *   with zero points      asymmetric: the range is widened to hold 0; scale = (max − min)/(high − low), zero_point = rint(low − min/scale)
 *   without               symmetric: scale = max|x| / high, with codes of −high … high
 * where low and high are the ends of the type's range, high = 7 for s4. Not finite values do not take part in the range. A block of zeros, or of
 * no elements, gets the scale 0 and the zero point 0.
 * A scale of f16 or bf16 is rounded to nearest even, the largest finite number at most; zero point and codes follow from what is kept.
 * Every element of target's parameters is overwritten: they must not be shared (strides of 0) nor overlap source. Statuses: as tdm_tensor_quantize; TDM_UNSUPPORTED also for
 * u8 without zero points, for zero points of a dtype that cannot hold every code, and for blocks that are neither whole tensors, whole rows (the last dimension) nor
 * groups along one dimension; TDM_BAD_STATE for a whole tensor of several dimensions while the stream records: it needs memory. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_tensor_quantize_minmax(tdm_stream *stream, const tdm_tensor *source,
                                              tdm_tensor *target);

/*
 * target = scale · (source − zero_point) in f32, rounded once more where target is f16 or bf16. source carries parameters
 * (s8, u8, s4, or s32 with scales only). Same shape, any strides, no overlap. Enqueues. Statuses: as tdm_tensor_quantize. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_tensor_dequantize(tdm_stream *stream, const tdm_tensor *source,
                                         tdm_tensor *target);

/*
 * From one quantization to another, element by element: m = scale_source / scale_target (one rounding),
 * x = float(q − zero_source) · m, target = zero + rint(clamp(x, low − zero, high − zero)), ties to even. source: s32, s8, u8, s4
 * with parameters; target: s8, u8, s4 with parameters. A target scale of 0 gives the zero point. Same shape, any strides, no overlap. Enqueues. Statuses: as tdm_tensor_quantize.
 * Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_tensor_requantize(tdm_stream *stream, const tdm_tensor *source,
                                         tdm_tensor *target);

/*
 * target = dequantize(quantize(source)) without storing the codes, for training and for looking at errors; `like` carries the
 * parameters and gives type and blocks, its elements are not touched. mask, if not NULL, is u8 of the same shape: 1 where the straight-through
 * gradient passes (the code before saturation lies in the range), else 0. source and target: f32, f16, bf16; target may be source's
 * very view. Enqueues. Statuses: as tdm_tensor_quantize. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_tensor_fake_quantize(tdm_stream *stream, const tdm_tensor *source,
                                            const tdm_tensor *like, tdm_tensor *target,
                                            tdm_tensor *mask);

#ifdef __cplusplus
}
#endif

#endif
