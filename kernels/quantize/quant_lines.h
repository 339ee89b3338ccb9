/* Lines of what codes become, where quant_walk.h has REALS_LINES: halves of two vectors are rounded together and stored as one. */
#ifndef TDM_QUANT_LINES_H
#define TDM_QUANT_LINES_H

#include "quant_walk.h"

#ifdef REALS_LINES
/* Bytes of a line of the caches. */
#define LINE_BYTES 64

/* Whether reals from element i of y on may go to tdm_store_reals_line. */
TDM_INLINE int tdm_reals_begin_line(int type, TDM_GLOBAL const void *y, long i) {
    const int bytes = type == TDM_CODE_F32 || type == TDM_STREAMED + TDM_CODE_F32 ? 4 : 2;
    const long byte = (long)tdm_address((TDM_GLOBAL const tdm_u8 *)y) + i * bytes;
    return type < TDM_STREAMED || byte % LINE_BYTES == 0;
}

#define TDM_QUANT_STORE_LINES_(to)                                                                 \
    TDM_REALS_STORE_LINE(to, reals, (TDM_GLOBAL tdm_##to *)y + i, past);                           \
    TDM_REALS_STORE_LINE(to, reals + 2, (TDM_GLOBAL tdm_##to *)y + i + 2 * N, past)

/* Reals of CODES_LINE elements from element i of y on, which is at a whole vector: halves by lines of two vectors. */
TDM_INLINE void tdm_store_reals_line(int type, const F reals[CODES_LINE / N], TDM_GLOBAL void *y,
                                     long i) {
    const int past = type >= TDM_STREAMED, plain = past ? type - TDM_STREAMED : type;
    const int begins = tdm_reals_begin_line(type, y, i);
    if (begins && plain == TDM_CODE_F16) {
        TDM_QUANT_STORE_LINES_(f16);
    } else if (begins && plain == TDM_CODE_BF16) {
        TDM_QUANT_STORE_LINES_(bf16);
    } else {
        TDM_UNROLL for (int v = 0; v < CODES_LINE / N; v++)
            tdm_store_reals(type, reals[v], y, i + v * N, N);
    }
}
#endif

#endif
