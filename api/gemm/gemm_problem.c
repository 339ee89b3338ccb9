/* These functions check the layouts of a description and derive the problem, with merged batch
 * dimensions. */
#include <string.h>

#include "api/gemm/gemm_internal.h"

/* This is an operand and the matrix to fill. The batch strides of the matrix are in the order of
 * D's batch dimensions. */
typedef struct operand {
    const char *name;
    const tdm_layout *layout;
    bool transposed;
    tdm_gemm_matrix *matrix;
} operand;

static bool is_absent(const tdm_layout *layout) {
    return layout->dtype == TDM_DTYPE_NONE && layout->rank == 0;
}

static tdm_status check_float(const char *name, tdm_dtype dtype) {
    if (dtype == TDM_F32 || dtype == TDM_F16 || dtype == TDM_BF16)
        return TDM_OK;
    return tdm_fail(TDM_UNSUPPORTED, "gemm: %s is %s; f32, f16 and bf16 are supported", name,
                    tdm_dtype_name(dtype));
}

static tdm_status check_dtype(const char *name, tdm_dtype dtype) {
    if (tdm_dtype_info(dtype))
        return TDM_OK;
    return tdm_fail(TDM_BAD_DTYPE, "gemm: the data type of %s is %d, which is unknown", name,
                    (int)dtype);
}

static tdm_status check_matrix(const char *name, const tdm_layout *layout) {
    char what[32] = "gemm: ";
    strncat(what, name, sizeof what - strlen(what) - 1);
    TDM_TRY(check_dtype(name, layout->dtype));
    TDM_TRY(tdm_layout_check(layout, what));
    if (layout->rank < 2)
        return tdm_fail(TDM_BAD_SHAPE, "gemm: %s has %d dimensions, a matrix has at least 2", name,
                        layout->rank);
    return TDM_OK;
}

/* Sets the strides of one operand along D's batch dimensions. */
static tdm_status match_batch(const operand *o, const tdm_layout *d) {
    const tdm_layout *const layout = o->layout;
    if (layout->rank > d->rank)
        return tdm_fail(TDM_BAD_SHAPE, "gemm: %s has %d dimensions but D has %d", o->name,
                        layout->rank, d->rank);
    for (int i = 0; i < d->rank - 2; i++) {
        const int own = i - (d->rank - layout->rank);
        if (own < 0)
            continue;
        if (layout->shape[own] != d->shape[i] && layout->shape[own] != 1)
            return tdm_fail(TDM_BAD_SHAPE,
                            "gemm: batch dimension %d of %s is %lld but D has %lld there", own,
                            o->name, (long long)layout->shape[own], (long long)d->shape[i]);
        o->matrix->batch[i] = layout->shape[own] == 1 ? 0 : layout->strides[own];
    }
    return TDM_OK;
}

static tdm_status take_operand(const operand *o, const tdm_layout *d, int64_t *rows,
                               int64_t *columns) {
    const tdm_layout *const layout = o->layout;
    TDM_TRY(check_matrix(o->name, layout));
    const int row = layout->rank - (o->transposed ? 1 : 2),
              col = layout->rank - (o->transposed ? 2 : 1);
    o->matrix->dtype = layout->dtype;
    // The stride of a dimension of size 1 is arbitrary: it must not enter any computation.
    o->matrix->row = layout->shape[row] > 1 ? layout->strides[row] : 0;
    o->matrix->col = layout->shape[col] > 1 ? layout->strides[col] : 0;
    *rows = layout->shape[row];
    *columns = layout->shape[col];
    return match_batch(o, d);
}

static tdm_status check_equal(const char *dimension, const char *one, int64_t a, const char *other,
                              int64_t b) {
    if (a == b)
        return TDM_OK;
    return tdm_fail(TDM_BAD_SHAPE, "gemm: %s of %s is %lld but %s of %s is %lld", dimension, one,
                    (long long)a, dimension, other, (long long)b);
}

/* Weights in the layout of other frameworks are the commonest mistake. The message therefore names
 * an operand that would fit transposed. */
static tdm_status check_k(const tdm_gemm_problem *p, int64_t a_rows, int64_t b_rows,
                          int64_t b_columns) {
    if (p->k == b_rows)
        return TDM_OK;
    const bool b_fits = p->k == b_columns && p->n == b_rows;
    const bool a_fits = p->m == p->k && a_rows == b_rows;
    return tdm_fail(TDM_BAD_SHAPE, "gemm: K of A is %lld but K of B is %lld%s", (long long)p->k,
                    (long long)b_rows,
                    b_fits   ? "; the transpose of B would fit (transpose_b, tdm_tensor_transpose)"
                    : a_fits ? "; the transpose of A would fit (transpose_a, tdm_tensor_transpose)"
                             : "");
}

static tdm_status take_product(const tdm_gemm_desc *desc, tdm_gemm_problem *p) {
    const operand d = {"D", &desc->d, false, &p->d};
    const operand a = {"A", &desc->a, desc->transpose_a != 0, &p->a};
    const operand b = {"B", &desc->b, desc->transpose_b != 0, &p->b};
    int64_t a_rows, b_rows, b_columns;
    TDM_TRY(take_operand(&d, &desc->d, &p->m, &p->n));
    TDM_TRY(take_operand(&a, &desc->d, &a_rows, &p->k));
    TDM_TRY(take_operand(&b, &desc->d, &b_rows, &b_columns));
    TDM_TRY(check_k(p, a_rows, b_rows, b_columns));
    TDM_TRY(check_equal("M", "A", a_rows, "D", p->m));
    TDM_TRY(check_equal("N", "B", b_columns, "D", p->n));
    if (tdm_layout_self_overlaps(&desc->d))
        return tdm_fail(
            TDM_BAD_ARGUMENT,
            "gemm: elements of D overlap in memory (a stride of 0 or overlapping rows)");
    return TDM_OK;
}

/* Reads C or the residual. It has the M and N of D, and batch entries may share it. */
static tdm_status take_addend(const char *name, const tdm_layout *layout, const tdm_layout *d,
                              tdm_gemm_matrix *matrix) {
    const operand o = {name, layout, false, matrix};
    int64_t rows, columns;
    TDM_TRY(take_operand(&o, d, &rows, &columns));
    TDM_TRY(check_dtype(name, layout->dtype));
    if (layout->dtype != TDM_S32 || d->dtype == TDM_F32 || d->dtype == TDM_F16 ||
        d->dtype == TDM_BF16)
        TDM_TRY(check_float(name, layout->dtype));
    TDM_TRY(check_equal("M", name, rows, "D", d->shape[d->rank - 2]));
    return check_equal("N", name, columns, "D", d->shape[d->rank - 1]);
}

static tdm_status take_epilogue(const tdm_gemm_desc *desc, tdm_gemm_problem *p) {
    const bool has_c = !is_absent(&desc->c);
    if (desc->beta != 0.0f && !has_c)
        return tdm_fail(TDM_BAD_ARGUMENT, "gemm: beta is %g but C is NULL", (double)desc->beta);
    if (has_c)
        TDM_TRY(take_addend("C", &desc->c, &desc->d, &p->c));
    if (desc->beta == 0.0f)
        p->c = (tdm_gemm_matrix){.dtype = TDM_DTYPE_NONE};
    if (!is_absent(&desc->residual))
        TDM_TRY(take_addend("residual", &desc->residual, &desc->d, &p->residual));
    else if (desc->gated)
        return tdm_fail(TDM_BAD_ARGUMENT, "gemm: gated is %d but residual is NULL", desc->gated);
    p->gated = desc->gated != 0;
    if (!is_absent(&desc->bias)) {
        TDM_TRY(check_dtype("bias", desc->bias.dtype));
        if (desc->bias.dtype != TDM_S32)
            TDM_TRY(check_float("bias", desc->bias.dtype));
        TDM_TRY(tdm_layout_check(&desc->bias, "gemm: bias"));
        if (desc->bias.rank != 1)
            return tdm_fail(TDM_BAD_SHAPE, "gemm: bias has %d dimensions, expected 1",
                            desc->bias.rank);
        TDM_TRY(check_equal("N", "bias", desc->bias.shape[0], "D", p->n));
        p->bias = desc->bias.dtype;
        p->bias_col = p->n > 1 ? desc->bias.strides[0] : 0;
    }
    if ((int)desc->activation < TDM_ACT_NONE || desc->activation > TDM_ACT_SILU)
        return tdm_fail(TDM_BAD_ARGUMENT, "gemm: activation is %d, which is unknown",
                        (int)desc->activation);
    return TDM_OK;
}

#define MATRICES(p)                                                                                \
    {                                                                                              \
        &(p)->a, &(p)->b, &(p)->c, &(p)->d, &(p)->residual, &(p)->a_scale, &(p)->a_zero,           \
            &(p)->b_scale, &(p)->b_zero                                                            \
    }
#define MATRIX_COUNT 9

/* Copies batch dimension `from` of every matrix to `into`. */
static void move_dimension(tdm_gemm_problem *p, int from, int into) {
    tdm_gemm_matrix *const matrices[MATRIX_COUNT] = MATRICES(p);
    p->batch_shape[into] = p->batch_shape[from];
    p->batch_axis[into] = p->batch_axis[from];
    for (int i = 0; i < MATRIX_COUNT; i++)
        matrices[i]->batch[into] = matrices[i]->batch[from];
}

/* True if the stride of dimension `outer` is the extent of dimension `inner` in every matrix. */
static bool can_merge(tdm_gemm_problem *p, int outer, int inner) {
    tdm_gemm_matrix *const matrices[MATRIX_COUNT] = MATRICES(p);
    for (int i = 0; i < MATRIX_COUNT; i++) {
        int64_t run;
        if (tdm_mul_overflows(matrices[i]->batch[inner], p->batch_shape[inner], &run) ||
            matrices[i]->batch[outer] != run)
            return false;
    }
    return true;
}

/* Clears strides that merging leaves behind. Splitting K later adds a dimension, along which all
 * operands but A, B and D must have stride 0. */
static void forget_dimensions(tdm_gemm_problem *p, int first) {
    tdm_gemm_matrix *const matrices[MATRIX_COUNT] = MATRICES(p);
    for (int i = 0; i < MATRIX_COUNT; i++)
        for (int d = first; d < TDM_GEMM_BATCH_RANK; d++)
            matrices[i]->batch[d] = 0;
}

static void merge_batch(tdm_gemm_problem *p) {
    int kept = 0;
    for (int i = 0; i < p->batch_rank; i++) {
        p->batch_axis[i] = i;
        if (p->batch_shape[i] == 1)
            continue;
        move_dimension(p, i, kept);
        if (kept > 0 && can_merge(p, kept - 1, kept)) {
            const int64_t merged = p->batch_shape[kept - 1] * p->batch_shape[kept];
            move_dimension(p, kept, kept - 1);
            p->batch_shape[kept - 1] = merged;
        } else {
            kept++;
        }
    }
    p->batch_rank = kept;
    forget_dimensions(p, kept);
}

/* Moves the largest dimension to the end. batch_axis keeps the original order
 * for packed weights. */
static void largest_last(tdm_gemm_problem *p) {
    tdm_gemm_matrix *const matrices[MATRIX_COUNT] = MATRICES(p);
    const int last = p->batch_rank - 1;
    int largest = last;
    for (int i = 0; i < last; i++)
        if (p->batch_shape[i] > p->batch_shape[largest])
            largest = i;
    if (largest == last)
        return;
    const int64_t extent = p->batch_shape[last];
    p->batch_shape[last] = p->batch_shape[largest];
    p->batch_shape[largest] = extent;
    const int axis = p->batch_axis[last];
    p->batch_axis[last] = p->batch_axis[largest];
    p->batch_axis[largest] = axis;
    for (int i = 0; i < MATRIX_COUNT; i++) {
        const int64_t stride = matrices[i]->batch[last];
        matrices[i]->batch[last] = matrices[i]->batch[largest];
        matrices[i]->batch[largest] = stride;
    }
}

tdm_status tdm_gemm_problem_from(const tdm_gemm_desc *desc, tdm_gemm_problem *problem) {
    memset(problem, 0, sizeof *problem);
    TDM_TRY(take_product(desc, problem));
    TDM_TRY(take_epilogue(desc, problem));
    problem->alpha = desc->alpha;
    problem->beta = desc->beta;
    problem->activation = desc->activation;
    problem->packed_b = desc->packed_b != 0;
    problem->allows_3xtf32 =
        desc->allow_3xtf32 != 0 && desc->a.dtype == TDM_F32 && desc->b.dtype == TDM_F32;
    TDM_TRY(tdm_gemm_take_quantization(desc, problem));
    problem->batch_rank = desc->d.rank - 2;
    memcpy(problem->batch_shape, desc->d.shape,
           (size_t)problem->batch_rank * sizeof *problem->batch_shape);
    merge_batch(problem);
    largest_last(problem);
    return TDM_OK;
}

const tdm_gemm_problem *tdm_gemm_whole(const tdm_gemm_plan *plan) {
    return plan->split.parts ? &plan->split.whole : &plan->problem;
}
