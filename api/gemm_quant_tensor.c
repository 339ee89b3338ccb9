/* Which row for tensor cores multiplies quantized weights: the model of docs/decisions/occupancy-and-waves.md. */
#include <stdio.h>

#include "api/gemm_internal.h"

/* Rows of A that the rows for few of them have in a tile. */
#define DECODE_ROWS 16

static bool is_for_few_rows(const tdm_variant *row) {
    return row->parameters[TDM_GEMM_P_ROWS] == DECODE_ROWS;
}

static bool is_same_kind(const tdm_variant *row, const tdm_variant *other) {
    return other->op == row->op && other->requires == row->requires &&
           other->parameters[TDM_GEMM_P_FAMILY] == row->parameters[TDM_GEMM_P_FAMILY] &&
           other->parameters[TDM_GEMM_P_A_TYPE] == row->parameters[TDM_GEMM_P_A_TYPE] &&
           other->parameters[TDM_GEMM_P_B_TYPE] == row->parameters[TDM_GEMM_P_B_TYPE] &&
           is_for_few_rows(other) == is_for_few_rows(row);
}

static double time_of(const tdm_gemm_problem *p, const tdm_variant *row, const tdm_device *device) {
    tdm_gemm_waves waves;
    tdm_gemm_waves_best(p, row, &device->info, &waves);
    return waves.ns;
}

const char *tdm_gemm_weights_prefer(const tdm_gemm_problem *problem, const tdm_variant *row,
                                    const tdm_device *device, char reason[TDM_REASON_TEXT]) {
    if (is_for_few_rows(row) != (problem->m <= DECODE_ROWS)) {
        snprintf(reason, TDM_REASON_TEXT, "model: M is %lld, a tile is for %s than %d rows",
                 (long long)problem->m, is_for_few_rows(row) ? "no more" : "more", DECODE_ROWS);
        return reason;
    }
    if (is_for_few_rows(row) && problem->a.col != 1 && problem->k > 1)
        return "model: A is not contiguous along K";
    const double own = time_of(problem, row, device);
    for (const tdm_variant *other = tdm_variants; other < tdm_variants + tdm_variant_count;
         other++) {
        if (other == row || !is_same_kind(row, other) ||
            (uint64_t)other->parameters[TDM_GEMM_P_LOCAL_BYTES] > device->info.local_bytes)
            continue;
        const double others = time_of(problem, other, device);
        if (others > own || (others == own && other > row))
            continue;
        snprintf(reason, TDM_REASON_TEXT, "model: %s takes %.0f %% of its time", other->name,
                 100.0 * others / own);
        return reason;
    }
    return NULL;
}
