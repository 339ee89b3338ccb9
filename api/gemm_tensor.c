/* How long a tile for tensor cores takes, as far as that can be told without a measurement: docs/decisions/tensor-tiles.md. */
#include "api/gemm_internal.h"

/* Lines of a tile, of both operands together and for each line of the other, whose reading takes as long as multiplying one. */
#define LINE_COST 21.0
/* Steps of K that the begin and the end of a tile are worth. */
#define RAMP_STEPS 128.0

double tdm_gemm_tensor_cost(const tdm_gemm_problem *problem, const tdm_variant *row,
                            const tdm_device *device) {
    const int64_t rows = row->parameters[TDM_GEMM_P_ROWS],
                  columns = row->parameters[TDM_GEMM_P_COLUMNS];
    const int64_t units = device->info.compute_units > 0 ? device->info.compute_units : 1;
    const double tiles = (double)tdm_ceil_div(problem->m, rows) *
                         (double)tdm_ceil_div(problem->n, columns) *
                         (double)tdm_gemm_z_count(problem);
    // The unit that has most of them; exact below 2^53 tiles.
    const double turns = (double)tdm_ceil_div((int64_t)tiles, units);
    const double tile = (double)rows * (double)columns + LINE_COST * (double)(rows + columns);
    return turns * tile * ((double)problem->k + RAMP_STEPS);
}
