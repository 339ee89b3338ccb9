/* How a launch of the integer panel family is divided: items, and how much local memory. */
#include "api/gemm_internal.h"

/* Bytes between the rows of a strip beyond the block of K, as gemm_int_panel.cl has it. */
#define STRIP_PAD 64

/* One strip of rows for each item, and enough column items for every core to have some. */
tdm_status tdm_gemm_int_panel_divide(const tdm_gemm_plan *plan, tdm_gemm_division *division) {
    const tdm_gemm_problem *const p = &plan->problem;
    const int32_t *const row = plan->kernel->variant->parameters;
    const int64_t mr = row[TDM_GEMM_P_ROWS], nr = row[TDM_GEMM_P_COLUMNS],
                  kc = row[TDM_GEMM_P_DEPTH];
    const int64_t unit = row[TDM_GEMM_P_PANEL_KIND] == TDM_PANELS_OF_PAIRS ? 2 : 1;
    const int64_t strip = mr * (kc * unit + STRIP_PAD), tile = p->k > kc ? mr * nr * 4 : 0;
    const int64_t panels = tdm_ceil_div(p->n, nr);
    *division = (tdm_gemm_division){.row_items = tdm_ceil_div(p->m, mr), .as_given = true};
    for (division->column_items = 1; division->column_items < panels; division->column_items *= 2)
        if (strip + tdm_ceil_div(panels, division->column_items) * tile <=
            (int64_t)plan->device->info.local_bytes / 2)
            break;
    if (division->column_items > panels)
        division->column_items = panels;
    division->local_bytes = (uint32_t)(strip + tdm_ceil_div(panels, division->column_items) * tile);
    return TDM_OK;
}
