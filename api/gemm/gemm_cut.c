/*
 * These functions decide where K may be split. They know which problems are long enough, which
 * kernel variants can be split, and the possible lengths of parts. gemm_split.c chooses the number
 * of parts and plans their launches.
 */
#include "api/gemm/gemm_internal.h"

/* If A and B together have at least this many elements, two additional launches pay off. */
#define MIN_ELEMENTS 1048576
/* A tile of the tensor-core kernels for quantized weights has this many steps of K. Some tiles have
 * half as many. */
#define WEIGHTS_DEPTH_STEP 256

bool tdm_gemm_is_long(const tdm_gemm_problem *p) {
    return p->k >= 2 * TDM_GEMM_PART_DEPTH &&
           (double)p->k * ((double)p->m + (double)p->n) >= MIN_ELEMENTS;
}

bool tdm_gemm_wants_parts(const tdm_gemm_problem *p, const tdm_device *device, int64_t tile) {
    const double tiles = (double)tdm_ceil_div(p->m, tile) * (double)tdm_ceil_div(p->n, tile) *
                         (double)tdm_gemm_z_count(p) * (double)tdm_gemm_outer_count(p);
    return tdm_gemm_is_long(p) && tiles < (double)device->info.compute_units;
}

const char *tdm_gemm_split_refuse(const tdm_gemm_problem *p, const tdm_variant *row) {
    if (p->op == TDM_OP_GEMM_WEIGHTS) // one launch computes all parts, and B is not in panels
        return NULL;
    if (p->packed_b && tdm_gemm_reads_panels(p, row))
        return "the weights are packed in panels, which cannot be split along K";
    if (p->batch_rank == TDM_GEMM_BATCH_RANK)
        return "there are too many batch dimensions to split K";
    return NULL;
}

int64_t tdm_gemm_least_parts(const tdm_gemm_problem *p, const tdm_device *device) {
    char reason[TDM_REASON_TEXT];
    return tdm_refuse_long_loop(device, p->k, reason) ? tdm_ceil_div(p->k, TDM_SHORT_LOOP_ELEMENTS)
                                                      : 1;
}

const char *tdm_gemm_refuse_long_k(const tdm_gemm_problem *problem, const tdm_variant *row,
                                   const tdm_device *device, char reason[TDM_REASON_TEXT]) {
    if (!tdm_gemm_split_refuse(problem, row) &&
        tdm_gemm_least_parts(problem, device) <= TDM_GEMM_MAX_PARTS)
        return NULL;
    return tdm_refuse_long_loop(device, problem->k, reason);
}

/* For quantized weights, parts are whole tiles of K. For other operands, the rest of K gets its own
 * launch. */
tdm_gemm_cut tdm_gemm_cut_k(const tdm_gemm_problem *p, int64_t asked) {
    tdm_gemm_cut cut = {.parts = 1, .depth = p->k, .slots = 1};
    if (asked < 2)
        return cut;
    if (p->op == TDM_OP_GEMM_WEIGHTS) {
        cut.depth =
            tdm_ceil_div(tdm_ceil_div(p->k, asked), WEIGHTS_DEPTH_STEP) * WEIGHTS_DEPTH_STEP;
        cut.parts = cut.slots = tdm_ceil_div(p->k, cut.depth);
        return cut;
    }
    cut.depth = p->k / asked;
    if (cut.depth > TDM_GEMM_PART_STEP)
        cut.depth = cut.depth / TDM_GEMM_PART_STEP * TDM_GEMM_PART_STEP;
    // The number of parts is computed again, because the depth was rounded down. Otherwise a rest
    // as long as a part would run alone, after all others.
    cut.parts = p->k / cut.depth;
    cut.rest = p->k % cut.depth;
    cut.slots = cut.parts + (cut.rest > 0);
    return cut;
}
