/* These functions describe A, B and D as tensor maps of three dimensions. For A and B these are the
 * rows of A or columns of B, K, and the batch. The first two are ordered by their strides. */
#include <stdio.h>

#include "api/gemm/gemm_internal.h"

/* Strides must be multiples of this many bytes. */
#define UNIT_BYTES 16
/* A box is the part that one copy moves. A row of it has this many bytes. */
#define BOX_ROW_BYTES 128
#define MAX_STRIDE ((int64_t)1 << 40)

/* This is one operand. `line` is the stride between rows of A or columns of B. */
typedef struct operand {
    int64_t line, depth, batch; /* element strides */
    int64_t lines, depths;
} operand;

static bool is_unit(int64_t stride, int bytes) {
    return stride >= 0 && stride < MAX_STRIDE / bytes && stride * bytes % UNIT_BYTES == 0;
}

/* True if `stride` can separate `rows` box rows of `length` elements. NVIDIA documents no map whose
 * rows overlap. */
static bool is_pitch(int64_t stride, int64_t rows, int64_t length, int bytes) {
    return rows == 1 || (is_unit(stride, bytes) && stride >= length);
}

/* The first function is true if the operand is contiguous along K and its other stride is valid or
 * not used. The second one is the same for the other dimension. */
static bool runs_along_depth(const operand *o, int bytes) {
    return (o->depth == 1 || o->depths == 1) && is_pitch(o->line, o->lines, o->depths, bytes);
}
static bool runs_along_lines(const operand *o, int bytes) {
    return (o->line == 1 || o->lines == 1) && is_pitch(o->depth, o->depths, o->lines, bytes);
}

/* Returns why a tensor map cannot describe the operand, or NULL. The instructions transpose
 * operands of 16 bits, but none of 8 bits. */
static const char *refuse_operand(const char *name, const tdm_gemm_problem *p, const operand *o,
                                  const tdm_gemm_matrix *matrix, char reason[TDM_REASON_TEXT]) {
    const int bytes = tdm_dtype_info(matrix->dtype)->unit_bytes;
    bool whole = runs_along_depth(o, bytes) || (bytes > 1 && runs_along_lines(o, bytes));
    for (int i = 0; i < p->batch_rank; i++)
        whole = whole && is_unit(matrix->batch[i], bytes);
    if (whole)
        return NULL;
    snprintf(reason, TDM_REASON_TEXT,
             "%s is not contiguous along %s with other strides that are multiples of %d bytes and "
             "rows that do not overlap",
             name, bytes > 1 ? "a dimension" : "K", UNIT_BYTES);
    return reason;
}

const char *tdm_gemm_tensor_maps_refuse(const tdm_gemm_problem *p, char reason[TDM_REASON_TEXT]) {
    const operand a = {.line = p->a.row, .depth = p->a.col, .lines = p->m, .depths = p->k};
    const operand b = {.line = p->b.col, .depth = p->b.row, .lines = p->n, .depths = p->k};
    if (p->k == 0 || tdm_gemm_z_count(p) == 0)
        return "there is nothing to multiply";
    if (p->m > INT32_MAX / 2 || p->n > INT32_MAX / 2 || p->k > INT32_MAX / 2)
        return "a dimension has 2^30 elements or more";
    const char *const refusal = refuse_operand(p->swapped ? "B" : "A", p, &a, &p->a, reason);
    return refusal ? refusal : refuse_operand(p->swapped ? "A" : "B", p, &b, &p->b, reason);
}

static operand a_of(const tdm_gemm_shape_arg *s) {
    return (operand){s->a_row, s->a_col, s->a_batch, s->m, s->k};
}
static operand b_of(const tdm_gemm_shape_arg *s) {
    return (operand){s->b_col, s->b_row, s->b_batch, s->n, s->k};
}

int tdm_gemm_tensor_maps_turned(const tdm_gemm_shape_arg *shape) {
    const operand a = a_of(shape), b = b_of(shape);
    const int bytes = tdm_dtype_info((tdm_dtype)shape->a_type)->unit_bytes;
    return (runs_along_depth(&a, bytes) ? 0 : TDM_GEMM_TURNED_A) |
           (runs_along_depth(&b, bytes) ? 0 : TDM_GEMM_TURNED_B);
}

/* Returns a stride in bytes. That of a dimension with one element is never used, but the driver
 * checks it. It therefore gets the stride of a dense layout. */
static uint64_t stride_bytes(int64_t stride, int64_t count, int64_t dense, int bytes) {
    const int64_t unused = tdm_ceil_div(dense * bytes, UNIT_BYTES) * UNIT_BYTES;
    return (uint64_t)(count > 1 ? stride * bytes : unused);
}

static tdm_bk_tensor_map tensor_map_of(const operand *o, bool turned, tdm_dtype dtype, int64_t tile,
                                       int64_t count) {
    const int bytes = tdm_dtype_info(dtype)->unit_bytes;
    const uint32_t row = (uint32_t)(BOX_ROW_BYTES / bytes);
    const int64_t entries = o->batch != 0 ? count : 1;
    const int64_t inner = turned ? o->lines : o->depths, outer = turned ? o->depths : o->lines;
    return (tdm_bk_tensor_map){
        .dtype = dtype,
        .box = {row, turned ? row : (uint32_t)tile, 1},
        .sizes = {(uint64_t)inner, (uint64_t)outer, (uint64_t)entries},
        .strides = {stride_bytes(turned ? o->depth : o->line, outer, inner, bytes),
                    stride_bytes(o->batch, entries, inner, bytes)}};
}

void tdm_gemm_tensor_maps(const tdm_gemm_shape_arg *shape, const tdm_variant *row, int64_t count,
                          tdm_bk_tensor_map *a, tdm_bk_tensor_map *b) {
    const operand of_a = a_of(shape), of_b = b_of(shape);
    const int64_t cluster = row->parameters[TDM_GEMM_P_CLUSTER]; // each work-group copies its part
    *a = tensor_map_of(&of_a, shape->turned & TDM_GEMM_TURNED_A, (tdm_dtype)shape->a_type,
                       row->parameters[TDM_GEMM_P_ROWS] / cluster, count);
    *b = tensor_map_of(&of_b, shape->turned & TDM_GEMM_TURNED_B, (tdm_dtype)shape->b_type,
                       row->parameters[TDM_GEMM_P_COLUMNS] / cluster, count);
}

/* One warp stores this many rows of D at a time. */
#define STORED_ROWS 16

bool tdm_gemm_tensor_map_of_d(const tdm_gemm_shape_arg *shape,
                              const tdm_gemm_epilogue_arg *epilogue, int64_t count,
                              tdm_bk_tensor_map *d) {
    const tdm_dtype dtype = (tdm_dtype)epilogue->d_type;
    const operand of_d = {.line = epilogue->d_row,
                          .depth = epilogue->d_col,
                          .batch = epilogue->d_batch,
                          .lines = shape->m,
                          .depths = shape->n};
    const int bytes = tdm_dtype_info(dtype)->unit_bytes;
    if ((dtype != TDM_F16 && dtype != TDM_BF16) || !runs_along_depth(&of_d, bytes) ||
        (count > 1 && !is_unit(of_d.batch, bytes)))
        return false;
    *d = tensor_map_of(&of_d, false, dtype, STORED_ROWS, count);
    return true;
}

uint32_t tdm_gemm_wgmma_clusters(const tdm_device *device, tdm_kernel *kernel) {
    const int32_t *const row = kernel->variant->parameters;
    if (row[TDM_GEMM_P_CLUSTER] == 1)
        return device->info.compute_units; // one work-group uses all local memory of a unit
    return tdm_kernel_resident_clusters(device, kernel, (uint32_t)row[TDM_GEMM_P_CLUSTER],
                                        (uint32_t)row[TDM_GEMM_P_ITEMS],
                                        (uint32_t)row[TDM_GEMM_P_LOCAL_BYTES]);
}

int64_t tdm_gemm_wgmma_groups(const tdm_gemm_plan *plan, int64_t tiles, int64_t batch) {
    const int64_t held = tdm_gemm_wgmma_clusters(plan->device, plan->kernel),
                  share = tdm_ceil_div(held > 0 ? held : 1, batch);
    return (tiles < share ? tiles : share) * plan->kernel->variant->parameters[TDM_GEMM_P_CLUSTER];
}
