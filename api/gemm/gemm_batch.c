/* These functions compute counts, strides and offsets of the batch entries of a problem. */
#include "api/gemm/gemm_internal.h"

static bool is_empty(const tdm_gemm_problem *problem) {
    for (int i = 0; i < problem->batch_rank; i++)
        if (problem->batch_shape[i] == 0)
            return true;
    return problem->m == 0 || problem->n == 0;
}

int64_t tdm_gemm_z_count(const tdm_gemm_problem *problem) {
    if (is_empty(problem))
        return 0;
    return problem->batch_rank == 0 ? 1 : problem->batch_shape[problem->batch_rank - 1];
}

int64_t tdm_gemm_z_stride(const tdm_gemm_problem *problem, const tdm_gemm_matrix *matrix) {
    return problem->batch_rank == 0 ? 0 : matrix->batch[problem->batch_rank - 1];
}

int64_t tdm_gemm_outer_count(const tdm_gemm_problem *problem) {
    if (is_empty(problem))
        return 0;
    int64_t count = 1;
    for (int i = 0; i < problem->batch_rank - 1; i++)
        count *= problem->batch_shape[i];
    return count;
}

int64_t tdm_gemm_outer_offset(const tdm_gemm_problem *problem, const tdm_gemm_matrix *matrix,
                              int64_t outer) {
    int64_t offset = 0;
    for (int i = problem->batch_rank - 2; i >= 0; i--) {
        offset += outer % problem->batch_shape[i] * matrix->batch[i];
        outer /= problem->batch_shape[i];
    }
    return offset;
}

/*
 * Packed entries are numbered in D's order of dimensions, over the batch dimensions along which B
 * is not shared. The order of dimensions in a plan depends on A too, so it cannot be used.
 */
int64_t tdm_packed_step(const tdm_gemm_problem *problem, int i) {
    int64_t step = 1;
    for (int inner = 0; inner < problem->batch_rank; inner++)
        if (problem->b.batch[inner] != 0 && problem->batch_axis[inner] > problem->batch_axis[i])
            step *= problem->batch_shape[inner];
    return step;
}
