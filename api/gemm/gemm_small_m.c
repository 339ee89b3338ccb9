/*
 * The small-M family computes GEMV and GEMM with a small M or N. These functions decide when it is
 * used and which operand is smaller, and partition its launch.
 *
 * M or N is small, so every element of the larger operand is used only a few times. Memory
 * bandwidth is the limit. Packing would read and write the larger operand once more, which costs
 * more than it saves.
 */
#include <stdio.h>

#include "api/gemm/gemm_internal.h"

/* Up to this M or N, each element of the larger operand is used so few times that reading it in
 * place is best. */
#define SMALL 16
/* On CPU cores the panel family would have to pack the larger operand. Up to this M or N, packing
 * costs more than the faster kernel saves. */
#define SMALL_ON_CORES 32
/* If weights are packed in panels, the panel family is faster above this M. */
#define SMALL_PACKED 8

/* Each compute unit gets this many work-items. Several of them even out delays of single cores. */
#define ITEMS_PER_UNIT 8
/* Reading pieces of distant rows of B slows down if they are shorter than this many bytes. */
#define PIECE_BYTES 16384

/* These describe the tile of a work-group in gemm_small_m_group.cl: rows at a time, and columns. */
#define GROUP_ROWS 4
#define GROUP_COLUMNS_ALONG_K 4
#define GROUP_COLUMNS_ALONG_N 64
/* A work-group of gemm_int_small_m_group.cl processes this many rows or columns of the larger
 * operand. The first value is for an operand that is contiguous along K. */
#define GROUP_LINES_ALONG_K 32
#define GROUP_LINES_ACROSS 64
/* Below these numbers of multiply-adds, one work-item per element is as fast. The first is per row
 * or column of the larger operand, the second is in all. A work-group has a fixed overhead. */
#define MIN_OF_A_LINE 1024
#define MIN_OF_ALL 1048576.0

bool tdm_gemm_small_m_on_cores(const tdm_variant *row) {
    return row->parameters[TDM_GEMM_P_ITEMS] == 1;
}

bool tdm_gemm_small_m_swaps(const tdm_gemm_problem *problem) {
    return problem->op != TDM_OP_GEMM_INT && !problem->packed_b && problem->n <= SMALL_ON_CORES &&
           problem->n < problem->m;
}

static void transpose(tdm_gemm_matrix *matrix) {
    const int64_t row = matrix->row;
    matrix->row = matrix->col;
    matrix->col = row;
}

static void exchange(int64_t *a, int64_t *b) {
    const int64_t kept = *a;
    *a = *b;
    *b = kept;
}

void tdm_gemm_swap(tdm_gemm_problem *problem) {
    const tdm_gemm_matrix a = problem->a;
    problem->a = problem->b;
    problem->b = a;
    transpose(&problem->a);
    transpose(&problem->b);
    transpose(&problem->c);
    transpose(&problem->d);
    transpose(&problem->residual);
    exchange(&problem->m, &problem->n);
    exchange(&problem->bias_row, &problem->bias_col);
    problem->swapped = !problem->swapped;
}

static int64_t limit_of(const tdm_gemm_problem *p, const tdm_device *device) {
    if (!(device->info.capabilities & TDM_CAP_CPU_CORES))
        return SMALL;
    return p->packed_b ? SMALL_PACKED : SMALL_ON_CORES;
}

const char *tdm_gemm_small_m_refuse(const tdm_gemm_problem *problem, const tdm_device *device,
                                    char reason[TDM_REASON_TEXT]) {
    tdm_gemm_problem p = *problem;
    if (tdm_gemm_small_m_swaps(&p))
        tdm_gemm_swap(&p);
    const int64_t small = limit_of(&p, device);
    if (p.m > small) {
        snprintf(reason, TDM_REASON_TEXT, "M is %lld and N is %lld, %s at most %lld",
                 (long long)(problem->swapped ? problem->n : problem->m),
                 (long long)(problem->swapped ? problem->m : problem->n),
                 p.packed_b ? "with packed weights M must be" : "one of them must be",
                 (long long)small);
        return reason;
    }
    if (p.b.row != 1 && p.b.col != 1 && p.k > 1 && p.n > 1) {
        snprintf(reason, TDM_REASON_TEXT, "%s is contiguous along neither dimension",
                 p.swapped ? "A" : "B");
        return reason;
    }
    return NULL;
}

/* True if the larger operand of a portable integer variant is A, because N is the smaller side.
 * Otherwise it is B. */
static bool large_is_a(const tdm_gemm_problem *p) {
    return p->n < p->m;
}

bool tdm_gemm_small_m_groups_integers(const tdm_variant *row) {
    return row->op == TDM_OP_GEMM_INT && row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_SMALL_M &&
           !(row->requires & TDM_CAP_CUDA);
}

void tdm_gemm_small_m_tiles(const tdm_gemm_problem *p, const tdm_variant *row, int64_t *small_tiles,
                            int64_t *large_tiles) {
    const bool rows_are_large = large_is_a(p);
    const int64_t line = rows_are_large ? p->a.row : p->b.col,
                  depth = rows_are_large ? p->a.col : p->b.row;
    const int64_t lines = line == 1 && depth != 1 ? GROUP_LINES_ACROSS : GROUP_LINES_ALONG_K;
    *small_tiles = tdm_ceil_div(rows_are_large ? p->n : p->m, row->parameters[TDM_GEMM_P_ROWS]);
    *large_tiles = tdm_ceil_div(rows_are_large ? p->m : p->n, lines);
}

/* Returns why an integer variant for any device does not suit the problem, or NULL. Either side may
 * be the smaller one, and the larger operand may be contiguous in either direction. */
static const char *refuse_grouped_integers(const tdm_gemm_problem *p, int64_t most, char *reason) {
    const bool rows_are_large = large_is_a(p);
    const tdm_gemm_matrix *const large = rows_are_large ? &p->a : &p->b;
    const int64_t small = rows_are_large ? p->n : p->m;
    const double of_a_line = (double)small * (double)p->k;
    if (small > most) {
        snprintf(reason, TDM_REASON_TEXT,
                 "M is %lld and N is %lld, one of them must be at most %lld", (long long)p->m,
                 (long long)p->n, (long long)most);
        return reason;
    }
    if (large->row != 1 && large->col != 1 && p->k > 1) {
        snprintf(reason, TDM_REASON_TEXT, "%s is contiguous along neither dimension",
                 rows_are_large ? "A" : "B");
        return reason;
    }
    if (of_a_line >= MIN_OF_A_LINE &&
        of_a_line * (double)(rows_are_large ? p->m : p->n) >= MIN_OF_ALL)
        return NULL;
    snprintf(reason, TDM_REASON_TEXT, "%lld x %lld x %lld is too small for the variant's groups",
             (long long)p->m, (long long)p->n, (long long)p->k);
    return reason;
}

const char *tdm_gemm_small_m_refuse_integers(const tdm_gemm_problem *p, const tdm_variant *row,
                                             char reason[TDM_REASON_TEXT]) {
    const int64_t most = row->parameters[TDM_GEMM_P_ROWS];
    if (tdm_gemm_small_m_groups_integers(row))
        return refuse_grouped_integers(p, most, reason);
    if (p->m > most) {
        snprintf(reason, TDM_REASON_TEXT, "M is %lld, must be at most %lld", (long long)p->m,
                 (long long)most);
        return reason;
    }
    if (p->b.row != 1 && p->k > 1)
        return "B is not contiguous along K; packing makes it so";
    return NULL;
}

const char *tdm_gemm_small_m_refuse_loops(const tdm_gemm_problem *problem, const tdm_variant *row,
                                          const tdm_device *device, char reason[TDM_REASON_TEXT]) {
    const double passes =
        (double)(tdm_gemm_small_m_swaps(problem) ? problem->n : problem->m) / GROUP_ROWS + 1.0;
    const double depth =
        (double)(problem->k < TDM_SHORT_LOOP_ELEMENTS ? problem->k : TDM_SHORT_LOOP_ELEMENTS);
    // A work-item processes 16 steps of K per iteration. The device is known to run
    // TDM_SHORT_LOOP_ELEMENTS / 2 iterations. Integer kernels pass over K once.
    if (tdm_gemm_small_m_on_cores(row) || tdm_gemm_small_m_groups_integers(row) ||
        passes * depth / 8.0 <= TDM_SHORT_LOOP_ELEMENTS ||
        (device->info.capabilities & TDM_CAP_UNLIMITED_LOOPS))
        return NULL;
    snprintf(reason, TDM_REASON_TEXT, "%.0f passes over K exceed the device's loop limit", passes);
    return reason;
}

/* Returns the number of work-items along N of the kernel for CPU cores. */
static int64_t items_on_cores(const tdm_gemm_plan *plan) {
    const tdm_gemm_problem *const p = &plan->problem;
    const int64_t units = plan->device->info.compute_units,
                  panels =
                      tdm_ceil_div(p->n, plan->kernel->variant->parameters[TDM_GEMM_P_COLUMNS]);
    int64_t items = ITEMS_PER_UNIT * units;
    if (!p->packed_b && p->b.row != 1) {
        // Use whole rounds of work-items, with pieces that are long enough if the matrix allows it.
        const int64_t pieces =
            p->n / (PIECE_BYTES / tdm_dtype_info(p->b.dtype)->unit_bytes) / units * units;
        if (pieces < items)
            items = pieces > units ? pieces : units;
    }
    return items < panels ? items : panels;
}

int64_t tdm_gemm_small_m_groups(const tdm_gemm_problem *problem) {
    const bool along_n = problem->b.col == 1 && problem->b.row != 1;
    return tdm_ceil_div(problem->n, along_n ? GROUP_COLUMNS_ALONG_N : GROUP_COLUMNS_ALONG_K);
}

void tdm_gemm_small_m_divide(const tdm_gemm_plan *plan, tdm_gemm_partition *partition) {
    const tdm_gemm_problem *const p = &plan->problem;
    const int64_t wanted = plan->values[TDM_TUNE_COL_ITEMS],
                  panels =
                      tdm_ceil_div(p->n, plan->kernel->variant->parameters[TDM_GEMM_P_COLUMNS]);
    *partition = (tdm_gemm_partition){.row_items = 1};
    if (tdm_gemm_small_m_on_cores(plan->kernel->variant)) {
        partition->column_items = wanted == 0 ? items_on_cores(plan) : wanted;
        if (partition->column_items > panels)
            partition->column_items = panels;
        return;
    }
    partition->column_items = p->op == TDM_OP_GEMM_WEIGHTS ? panels : tdm_gemm_small_m_groups(p);
}

/* The panel family always reads B in panels. The small-M family does so for packed weights on CPU
 * cores. */
bool tdm_gemm_reads_panels(const tdm_gemm_problem *problem, const tdm_variant *row) {
    if (row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_SMALL_M)
        return problem->packed_b && tdm_gemm_small_m_on_cores(row);
    return row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_PANEL;
}
