/*
 * Quantized tensors: real = scale · (q − zero_point).
 *
 * A quantized tensor is a tensor of s8, u8, s4, or of s32 (sums of products), that carries
 * parameters: a tensor of scales and, if asymmetric, a tensor of zero points. `block` gives, for
 * each dimension, the number of elements that share a parameter (0: the whole dimension). The
 * parameters' tensors have the same rank, with ceil(dimension / block) entries per dimension, or
 * one entry where block is 0:
 *
 *     TDM_PER_TENSOR            {0, 0}    parameters 1×1
 *     TDM_PER_COLUMN            {0, 1}    parameters 1×N: output channels of a K×N weight
 *     TDM_PER_ROW               {1, 0}    parameters M×1: rows of M×K activations
 *     TDM_PER_COLUMN_GROUP(32)  {32, 1}   parameters ceil(K/32)×N: groups of 32 along K of K×N
 *     TDM_PER_ROW_GROUP(32)     {1, 32}   parameters M×ceil(K/32): groups of 32 along K of M×K
 *
 * docs/numerics.md has the rules of every conversion, including rounding. The results have the same
 * bits on every device, except f16 results of one driver, which that page names. tdm_tensor_copy,
 * tdm_tensor_convert and similar operations use the stored integers.
 */
#ifndef TANDEM_QUANT_H
#define TANDEM_QUANT_H

#include <tandem/tensor.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Common blocks of matrices, as initialisers: `const int64_t block[] = TDM_PER_ROW;`. Since 0.2. */
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

/* Parameters of a quantized tensor. Start from TDM_QUANTIZATION_INIT. */
typedef struct tdm_quantization {
    size_t struct_size;           /* sizeof(tdm_quantization) */
    int64_t block[TDM_MAX_RANK];  /* elements per dimension that share a parameter, 0: all */
    const tdm_tensor *scale;      /* f32, f16 or bf16; required */
    const tdm_tensor *zero_point; /* s32, s8 or u8, in the quantized type's range; NULL: all 0 */
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
 * Create a handle on the same elements that carries the given parameters. `tensor` may carry
 * parameters itself; the new handle does not inherit them. The caller releases it with
 * tdm_tensor_destroy. The handle keeps the buffers of the scales and zero points alive. Their
 * content may change later; operations that run after the change see it.
 *
 * Views carry parameters as follows:
 *   - tdm_tensor_transpose and tdm_tensor_slice carry any parameters. A slice must begin at a
 *     block, and end at the end of a block or of the dimension. Its step must be 1 along blocks of
 *     more than one element. Otherwise it is TDM_UNSUPPORTED.
 *   - tdm_tensor_view, _reshape and _broadcast carry parameters of the whole tensor. They refuse
 *     others (TDM_UNSUPPORTED).
 * Statuses: TDM_BAD_ARGUMENT (NULL, another device, struct_size, negative block), TDM_BAD_DTYPE,
 * TDM_BAD_SHAPE (shape of scale or zero_point, named), TDM_OUT_OF_HOST_MEMORY. Thread-safe. Since
 * 0.1.
 */
TDM_API tdm_status tdm_tensor_quantized(const tdm_tensor *tensor,
                                        const tdm_quantization *quantization,
                                        tdm_tensor **quantized);

/*
 * Allocate a contiguous quantized tensor with its parameters' tensors. Elements are of `dtype` (s8,
 * u8, s4, s32), scales of `scale` (f32, f16, bf16), zero points of `zero_point` (s32, s8, u8, or
 * TDM_DTYPE_NONE for none). block has `rank` entries; NULL: one parameter for the whole tensor. The
 * caller releases it with tdm_tensor_destroy. All content is undefined until it is written, e.g. by
 * tdm_tensor_quantize_minmax. To attach existing parameters to quantized values,
 * tdm_tensor_quantized is easier. Statuses: as tdm_tensor_create and tdm_tensor_quantized.
 * Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_tensor_create_quantized(tdm_device *device, tdm_dtype dtype, int rank,
                                               const int64_t *shape, const int64_t *block,
                                               tdm_dtype scale, tdm_dtype zero_point,
                                               tdm_tensor **tensor);

/*
 * *quantization = the parameters that a tensor carries; scale is NULL if it carries none. The
 * tensors are borrowed: they live as long as the handle. To write parameters, use a view of them
 * (tdm_tensor_reshape, ...). quantization->struct_size must be set (TDM_QUANTIZATION_INIT).
 * Statuses: TDM_BAD_ARGUMENT. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_tensor_quantization(const tdm_tensor *tensor,
                                           tdm_quantization *quantization);

/* Layout of the parameters of a quantized tensor, without memory, for plans. All zero: no
 * parameters. */
typedef struct tdm_quant_layout {
    int64_t block[TDM_MAX_RANK];
    tdm_layout scale, zero_point;
} tdm_quant_layout;

/* *layout = the layout of the parameters that a tensor carries. Statuses: TDM_BAD_ARGUMENT.
 * Thread-safe. Since 0.1. */
TDM_API tdm_status tdm_tensor_quant_layout(const tdm_tensor *tensor, tdm_quant_layout *layout);

/* Block formats of GGUF files. A block is 32 elements of a row (ggml's block_q8_0 and block_q4_0,
 * little endian). */
typedef enum tdm_block_format {
    TDM_BLOCKS_Q8_0 = 0, /* 34 bytes: an f16 scale, 32 s8 */
    /* 18 bytes: an f16 scale, 32 quantized values of 4 bits, each stored plus 8. Byte j holds
     * elements j and j + 16. */
    TDM_BLOCKS_Q4_0 = 1
} tdm_block_format;

/*
 * Copy a matrix of GGUF blocks, [rows][columns / 32], into a quantized tensor, or back. Every bit
 * is kept, including those of infinite and NaN scales.
 *
 * The tensor is [rows][columns], or [columns]; s8 for q8_0 and s4 for q4_0. It has f16 scales, one
 * for 32 elements of a row, and no zero points, as tdm_tensor_create_quantized makes it with block
 * {1, 32}. It may have any strides that its dtype allows. A GEMM uses [rows = N][columns = K]
 * weights as B with transpose_b.
 *
 * host_bytes is the size of the host memory, which need not be aligned. The calls block until the
 * data has arrived and need at most 1.1 MiB of additional host memory. On failure the target may be
 * partly written. Statuses: TDM_BAD_ARGUMENT, TDM_BAD_SHAPE (rank, columns not a multiple of 32,
 * host_bytes too small), TDM_BAD_DTYPE, TDM_UNSUPPORTED (other parameters; an s4 target that ends
 * inside a byte), TDM_BAD_STATE (recording), TDM_OUT_OF_HOST_MEMORY, the stream's failure.
 * Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_tensor_write_blocks(tdm_stream *stream, tdm_block_format format,
                                           const void *host, size_t host_bytes, tdm_tensor *target);
TDM_API tdm_status tdm_tensor_read_blocks(tdm_stream *stream, const tdm_tensor *source,
                                          tdm_block_format format, void *host, size_t host_bytes);

/*
 * target = quantize(source): q = saturate(rint(x / scale) + zero_point), ties to even, with the
 * parameters that target carries (ONNX's QuantizeLinear). NaN gives the zero point, infinities
 * saturate. A scale of 0 gives the zero point everywhere. source: f32, f16, bf16, same shape, any
 * strides. Enqueues. Statuses: TDM_BAD_ARGUMENT (NULL, devices differ, overlap, target carries no
 * parameters), TDM_BAD_SHAPE, TDM_UNSUPPORTED (dtypes, named; blocks that split the two elements of
 * an s4 byte), the stream's failure. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_tensor_quantize(tdm_stream *stream, const tdm_tensor *source,
                                       tdm_tensor *target);

/*
 * target = quantize(source), with parameters derived from source, block by block. The parameters
 * are written to the tensors that target carries:
 *   with zero points      asymmetric: the range is widened to hold 0;
 *                         scale = (max − min)/(high − low), zero_point = rint(low − min/scale)
 *   without               symmetric: scale = max|x| / high, quantized values in −high … high
 * low and high are the ends of the type's range; high = 7 for s4. Values that are not finite do not
 * take part in the range. A block of zeros, or without elements, gets scale 0 and zero point 0.
 *
 * An f16 or bf16 scale is rounded to nearest even, and limited to the largest finite number. The
 * zero point and the quantized values are computed from the stored scale. Every element of target's
 * parameters is overwritten, so they must not be shared (strides of 0) or overlap source.
 *
 * Statuses: as tdm_tensor_quantize. TDM_UNSUPPORTED also for u8 without zero points, and for zero
 * points of a dtype that cannot hold every quantized value. Blocks must be whole tensors, whole
 * rows (the last dimension) or groups along one dimension, else TDM_UNSUPPORTED. TDM_BAD_STATE if
 * the block is a whole tensor of several dimensions and the stream records, because that needs
 * memory. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_tensor_quantize_minmax(tdm_stream *stream, const tdm_tensor *source,
                                              tdm_tensor *target);

/*
 * target = scale · (source − zero_point) in f32, rounded once more if target is f16 or bf16. source
 * carries parameters. It is s8, u8, s4, or s32 without zero points. Same shape, any strides, no
 * overlap. Enqueues. Statuses: as tdm_tensor_quantize. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_tensor_dequantize(tdm_stream *stream, const tdm_tensor *source,
                                         tdm_tensor *target);

/*
 * Convert from one quantization to another, element by element: m = scale_source / scale_target
 * (one rounding), x = float(q − zero_source) · m, target = zero + rint(clamp(x, low − zero, high −
 * zero)), ties to even. A target scale of 0 gives the zero point. source: s32, s8, u8, s4 with
 * parameters; target: s8, u8, s4 with parameters. Same shape, any strides, no overlap. Enqueues.
 * Statuses: as tdm_tensor_quantize. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_tensor_requantize(tdm_stream *stream, const tdm_tensor *source,
                                         tdm_tensor *target);

/*
 * target = dequantize(quantize(source)) without storing the quantized values, for training and for
 * measuring errors. `like` carries the parameters and gives dtype and blocks; its elements are not
 * accessed. mask, if not NULL, is u8 of the same shape. It is 1 where the straight-through gradient
 * passes (the quantized value before saturation is in the range), else 0. source and target: f32,
 * f16, bf16. target may be the very same view as source. Enqueues. Statuses: as
 * tdm_tensor_quantize, and TDM_BAD_DTYPE (mask). Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_tensor_fake_quantize(tdm_stream *stream, const tdm_tensor *source,
                                            const tdm_tensor *like, tdm_tensor *target,
                                            tdm_tensor *mask);

#ifdef __cplusplus
}
#endif

#endif
