/* Stores of dequantized values by cache lines, if quant_traversal.h defines DEQUANTIZED_LINES:
 * two vectors are rounded to f16 or bf16 together and stored at once. */
#ifndef TDM_QUANT_LINES_H
#define TDM_QUANT_LINES_H

#include "quant_traversal.h"

#ifdef DEQUANTIZED_LINES
/* Bytes of a cache line. */
#define LINE_BYTES 64

/* Returns 1 if tdm_store_dequantized_line may store dequantized values from element i of y on. */
TDM_INLINE int tdm_dequantized_begin_line(int type, TDM_GLOBAL const void *y, long i) {
    const int bytes = type == TDM_CODE_F32 || type == TDM_STREAMED + TDM_CODE_F32 ? 4 : 2;
    const long byte = (long)tdm_address((TDM_GLOBAL const tdm_u8 *)y) + i * bytes;
    return type < TDM_STREAMED || byte % LINE_BYTES == 0;
}

#define TDM_QUANT_STORE_LINES_(to)                                                                 \
    TDM_DEQUANTIZED_STORE_LINE(to, dequantized, (TDM_GLOBAL tdm_##to *)y + i, past);               \
    TDM_DEQUANTIZED_STORE_LINE(to, dequantized + 2, (TDM_GLOBAL tdm_##to *)y + i + 2 * N, past)

/* Stores CODES_LINE dequantized values from element i of y on, where a whole vector may begin. f16
 * and bf16 are stored by lines of two vectors. */
TDM_INLINE void tdm_store_dequantized_line(int type, const F dequantized[CODES_LINE / N],
                                           TDM_GLOBAL void *y, long i) {
    const int past = type >= TDM_STREAMED, plain = past ? type - TDM_STREAMED : type;
    const int begins = tdm_dequantized_begin_line(type, y, i);
    if (begins && plain == TDM_CODE_F16) {
        TDM_QUANT_STORE_LINES_(f16);
    } else if (begins && plain == TDM_CODE_BF16) {
        TDM_QUANT_STORE_LINES_(bf16);
    } else {
        TDM_UNROLL for (int v = 0; v < CODES_LINE / N; v++)
            tdm_store_dequantized(type, dequantized[v], y, i + v * N, N);
    }
}
#endif

#endif
