/*
 * Elementwise work in which some operands are quantization parameters: one entry for each block of elements.
 * Dimensions are cut where blocks end, so that each piece is a loop of api/tensor/strided_loop.h in which a parameter is
 * an operand with strides of 0 along its block. The kernels know nothing of blocks.
 */
#ifndef TANDEM_API_QUANTIZE_QUANTIZE_LOOP_H
#define TANDEM_API_QUANTIZE_QUANTIZE_LOOP_H

#include "api/tensor/strided_loop.h"
#include "kernels/quantize/quant_args.h"

/* An operand, and how many elements of each dimension share one of its entries (0: all); NULL: each has its own. */
typedef struct tdm_quant_operand {
    const tdm_tensor *tensor;
    const int64_t *block;
} tdm_quant_operand;

typedef struct tdm_quant_call {
    tdm_stream *stream;
    const char *operation;
    tdm_op op;
    int storage;  /* p0 of the rows that may run it */
    int operands; /* [0] is the output, then the kernel's order */
    tdm_quant_operand operand[TDM_LOOP_OPERANDS];
    tdm_quant_arg arg;
} tdm_quant_call;

/* Enqueue the call; nothing when it is empty. Shapes were checked. */
tdm_status tdm_quant_run(const tdm_quant_call *call);

/* The call's kernel over the elements of a list alone, each operand from its offset on. */
tdm_status tdm_quant_run_list(const tdm_quant_call *call, const tdm_dim_list *list,
                              const int64_t offset[TDM_LOOP_OPERANDS]);

/*
 * Dynamic quantization whose groups are the columns of a matrix, all of dimension `axis`: whether reading row by row pays,
 * and doing it. The call is that of quantize: target, source, scales, zero points.
 */
bool tdm_quant_columns_pay(const tdm_quant_call *call, int axis);
tdm_status tdm_quant_run_columns(const tdm_quant_call *call, int axis);

/* ---- what the operations of quantization share -------------------------------------------------- */

/* Range of the codes of s8, u8, s4 and s32. */
void tdm_quant_code_range(tdm_dtype dtype, int *low, int *high);

/* Types and range of the parameters that a tensor carries. */
tdm_quant_side tdm_quant_side_of(const tdm_tensor *tensor);

/* Append the scales and zero points of a tensor as two operands; where there are no zero points the scales again. */
void tdm_quant_add_parameters(tdm_quant_call *call, const tdm_tensor *carrier);

/* The tensor carries parameters and its dtype is one of the list (ends with TDM_DTYPE_NONE). */
tdm_status tdm_quant_check_carrier(const char *operation, const char *argument,
                                   const tdm_tensor *tensor, const tdm_dtype *dtypes);

/* The dtype is f32, f16 or bf16. */
tdm_status tdm_quant_check_real(const char *operation, const char *argument,
                                const tdm_tensor *tensor);

/* "<operation>: source has shape … but <name> …" unless both are equal. */
tdm_status tdm_quant_check_shape(const char *operation, const tdm_tensor *source, const char *name,
                                 const tdm_tensor *other);

/* The output overlaps neither an input nor the parameters of the two (which may be NULL or carry none). */
tdm_status tdm_quant_check_overlap(const char *operation, const tdm_tensor *target,
                                   const tdm_tensor *source, const tdm_tensor *carrier,
                                   bool same_view_allowed);

/* Blocks must not part the two elements of a byte of s4. */
tdm_status tdm_quant_check_packing(const char *operation, const tdm_tensor *target,
                                   const int64_t *block);

/* Stores of the output should go past the caches: both together do not fit into them. */
int tdm_quant_streams(const tdm_tensor *target, const tdm_tensor *source);

#endif
