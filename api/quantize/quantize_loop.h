/*
 * These functions run elementwise work in which some operands are quantization parameters, with one
 * entry per block of elements. Dimensions are cut where blocks end. Each piece is then a loop of
 * api/tensor/strided_loop.h, in which a parameter has a stride of 0 along its block. Kernels
 * therefore need not know blocks.
 */
#ifndef TANDEM_API_QUANTIZE_QUANTIZE_LOOP_H
#define TANDEM_API_QUANTIZE_QUANTIZE_LOOP_H

#include "api/tensor/strided_loop.h"
#include "kernels/quantize/quant_args.h"

/* This is an operand. `block` is the number of elements of each dimension that share one of its
 * entries (0: all). If it is NULL, each element has its own entry. */
typedef struct tdm_quant_operand {
    const tdm_tensor *tensor;
    const int64_t *block;
} tdm_quant_operand;

typedef struct tdm_quant_call {
    tdm_stream *stream;
    const char *operation;
    tdm_op op;
    int storage;  /* p0 of the variants that may run it */
    int operands; /* [0] is the output, then the kernel's order */
    tdm_quant_operand operand[TDM_LOOP_OPERANDS];
    tdm_quant_arg arg;
} tdm_quant_call;

/* Enqueues the call, whose shapes must have been checked. It does nothing if there are no
 * elements. */
tdm_status tdm_quant_run(const tdm_quant_call *call);

/* Runs the call's kernel over the elements of a list only, with each operand starting at its
 * offset. */
tdm_status tdm_quant_run_list(const tdm_quant_call *call, const tdm_dim_list *list,
                              const int64_t offset[TDM_LOOP_OPERANDS]);

/*
 * These quantize dynamically with the columns of a matrix as groups. A group has all elements along
 * `axis`. The first function is true if reading row by row is faster, and the second one runs it.
 * The call has the operands of quantize: target, source, scales, zero points.
 */
bool tdm_quant_columns_pay(const tdm_quant_call *call, int axis);
tdm_status tdm_quant_run_columns(const tdm_quant_call *call, int axis);

/* ---- helpers that the quantization operations share ------------------------------------------ */

/* Gets the range of quantized values of s8, u8, s4 and s32. */
void tdm_quant_code_range(tdm_dtype dtype, int *low, int *high);

/* Gets the types and the range of the parameters that a tensor carries. */
tdm_quant_side tdm_quant_side_of(const tdm_tensor *tensor);

/* Appends the scales and zero points of a tensor as two operands. If there are no zero points, the
 * scales are appended twice. */
void tdm_quant_add_parameters(tdm_quant_call *call, const tdm_tensor *carrier);

/* Checks that the tensor carries parameters and that its dtype is in the list (ends with
 * TDM_DTYPE_NONE). */
tdm_status tdm_quant_check_carrier(const char *operation, const char *argument,
                                   const tdm_tensor *tensor, const tdm_dtype *dtypes);

/* Checks that the dtype is f32, f16 or bf16. */
tdm_status tdm_quant_check_real(const char *operation, const char *argument,
                                const tdm_tensor *tensor);

/* Fails with "<operation>: source has shape … but <name> …" if the shapes differ. */
tdm_status tdm_quant_check_shape(const char *operation, const tdm_tensor *source, const char *name,
                                 const tdm_tensor *other);

/* Checks that the output overlaps neither the source nor the carrier's parameters, which may be
 * NULL. */
tdm_status tdm_quant_check_overlap(const char *operation, const tdm_tensor *target,
                                   const tdm_tensor *source, const tdm_tensor *carrier,
                                   bool same_view_allowed);

/* Checks that blocks do not split the two elements of an s4 byte. */
tdm_status tdm_quant_check_packing(const char *operation, const tdm_tensor *target,
                                   const int64_t *block);

/* True if the output should use non-temporal stores: target and source together exceed the
 * caches. */
int tdm_quant_streams(const tdm_tensor *target, const tdm_tensor *source);

#endif
