/* Floats whose storage type is a launch argument: f32, f16 or bf16. All work-items see one type.
 * Examples are C, bias, residual and D of the GEMM epilogue, rows of A, and scales of quantized
 * tensors. */
#ifndef TDM_ANY_FLOAT_H
#define TDM_ANY_FLOAT_H

#include "op_codes.h"

TDM_DEVICE float tdm_load_any(TDM_GLOBAL const void *p, int type, long i) {
    if (type == TDM_CODE_F16)
        return tdm_load_f16((TDM_GLOBAL const tdm_f16 *)p, i);
    if (type == TDM_CODE_BF16)
        return tdm_load_bf16((TDM_GLOBAL const tdm_bf16 *)p, i);
    return tdm_load_f32((TDM_GLOBAL const tdm_f32 *)p, i);
}

TDM_DEVICE void tdm_store_any(float x, TDM_GLOBAL void *p, int type, long i) {
    if (type == TDM_CODE_F16)
        tdm_store_f16(x, (TDM_GLOBAL tdm_f16 *)p, i);
    else if (type == TDM_CODE_BF16)
        tdm_store_bf16(x, (TDM_GLOBAL tdm_bf16 *)p, i);
    else
        tdm_store_f32(x, (TDM_GLOBAL tdm_f32 *)p, i);
}

/* Loads N neighbouring elements, from element i on. */
#define TDM_LOADV_ANY(N, p, type, i)                                                               \
    ((type) == TDM_CODE_F16    ? TDM_LOADV(N, f16, (TDM_GLOBAL const tdm_f16 *)(p), i)             \
     : (type) == TDM_CODE_BF16 ? TDM_LOADV(N, bf16, (TDM_GLOBAL const tdm_bf16 *)(p), i)           \
                               : TDM_LOADV(N, f32, (TDM_GLOBAL const tdm_f32 *)(p), i))

#endif
