/* Which row for tensor cores multiplies quantized weights: the model of docs/decisions/weights-on-tensor-cores.md. */
#include <stdio.h>

#include "api/gemm_internal.h"

/* Rows of A that the rows for few of them have in a tile. */
#define DECODE_ROWS 16
/* A byte of A, which comes from the last cache, in bytes of weights, which come from memory. */
#define CACHED_BYTE 0.5

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

/* What a unit reads for a step of K, where groups share the device in turns. */
static double decode_cost(const tdm_gemm_problem *p, const tdm_variant *row,
                          const tdm_device *device) {
    const int64_t columns = row->parameters[TDM_GEMM_P_COLUMNS];
    const int64_t units = device->info.compute_units > 0 ? device->info.compute_units : 1;
    const double groups =
        (double)tdm_ceil_div(p->n, columns) * (double)tdm_gemm_z_count(p); // exact below 2^53
    const double turns =
        (double)tdm_ceil_div((int64_t)groups, units * row->parameters[TDM_GEMM_P_GROUPS]);
    const double code = (double)tdm_dtype_info(p->b.dtype)->unit_bytes /
                        tdm_dtype_info(p->b.dtype)->elements_per_unit;
    return turns * ((double)columns * code +
                    CACHED_BYTE * (double)p->m * tdm_dtype_info(p->a.dtype)->unit_bytes);
}

static double cost(const tdm_gemm_problem *p, const tdm_variant *row, const tdm_device *device) {
    return is_for_few_rows(row) ? decode_cost(p, row, device)
                                : tdm_gemm_tensor_cost(p, row, device);
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
    const double own = cost(problem, row, device);
    for (const tdm_variant *other = tdm_variants; other < tdm_variants + tdm_variant_count;
         other++) {
        if (other == row || !is_same_kind(row, other) ||
            (uint64_t)other->parameters[TDM_GEMM_P_LOCAL_BYTES] > device->info.local_bytes)
            continue;
        const double others = cost(problem, other, device);
        if (others > own || (others == own && other > row))
            continue;
        snprintf(reason, TDM_REASON_TEXT, "model: %s takes %.0f %% of its time", other->name,
                 100.0 * others / own);
        return reason;
    }
    return NULL;
}
