/* This function returns why a tensor-core variant for quantized weights does not suit A, or NULL.
 * docs/decisions/weights-on-tensor-cores.md explains the choice. */
#include <stdio.h>

#include "api/gemm/gemm_internal.h"

/* The variants for few rows have tiles with this many rows of A. */
#define DECODE_ROWS 16

const char *tdm_gemm_weights_misfit(const tdm_gemm_problem *problem, const tdm_variant *row,
                                    char reason[TDM_REASON_TEXT]) {
    const bool for_few = row->parameters[TDM_GEMM_P_ROWS] == DECODE_ROWS;
    if (for_few != (problem->m <= DECODE_ROWS)) {
        snprintf(reason, TDM_REASON_TEXT, "model: M is %lld, the tile is for %s than %d rows",
                 (long long)problem->m, for_few ? "no more" : "more", DECODE_ROWS);
        return reason;
    }
    return for_few && problem->a.col != 1 && problem->k > 1 ? "model: A is not contiguous along K"
                                                            : NULL;
}
