/* What quantization adds to a GEMM problem: integer operands, where their parameters stand, what such a problem may not have. */
#include <stdio.h>

#include "api/gemm_internal.h"

/* Steps of K whose sum cannot leave 32 bits, for the largest factors there can be. */
#define MOST_PRODUCT_S8 (128 * 128)
#define MOST_PRODUCT_A (255 * 128)
#define MOST_PRODUCT_AB (255 * 255)

/* ---- arrangements ------------------------------------------------------------------------------------- */

bool tdm_quant_layout_equal(const tdm_quant_layout *a, const tdm_quant_layout *b) {
    if (!tdm_layout_equal(&a->scale, &b->scale) ||
        !tdm_layout_equal(&a->zero_point, &b->zero_point))
        return false;
    // One parameter is one, whether its block is said to be the dimension or longer.
    for (int i = 0; i < a->scale.rank; i++)
        if (a->scale.shape[i] > 1 && a->block[i] != b->block[i])
            return false;
    return true;
}

tdm_status tdm_quant_layout_dense(const tdm_quant_layout *layout, tdm_quant_layout *dense) {
    *dense = *layout;
    if (layout->scale.dtype != TDM_DTYPE_NONE)
        TDM_TRY(tdm_layout_contiguous(layout->scale.dtype, layout->scale.rank, layout->scale.shape,
                                      &dense->scale));
    if (layout->zero_point.dtype != TDM_DTYPE_NONE)
        TDM_TRY(tdm_layout_contiguous(layout->zero_point.dtype, layout->zero_point.rank,
                                      layout->zero_point.shape, &dense->zero_point));
    return TDM_OK;
}

tdm_status tdm_gemm_check_quantization(const char *name, const tdm_tensor *tensor,
                                       const tdm_quant_layout *planned) {
    tdm_quant_layout own;
    TDM_TRY(tdm_tensor_quant_layout(tensor, &own));
    if (tdm_quant_layout_equal(&own, planned))
        return TDM_OK;
    const bool has = own.scale.dtype != TDM_DTYPE_NONE,
               needs = planned->scale.dtype != TDM_DTYPE_NONE;
    return tdm_fail(TDM_BAD_ARGUMENT, "gemm: %s carries %s but the plan was made for %s", name,
                    !has    ? "no quantization parameters"
                    : needs ? "parameters of another arrangement"
                            : "quantization parameters",
                    !needs ? "none"
                    : has  ? "its own"
                           : "some");
}

/* ---- one operand -------------------------------------------------------------------------------------- */

/* An operand: which of its dimensions are rows and columns of the product. */
typedef struct quantized {
    const char *name;
    const tdm_layout *layout;
    const tdm_quant_layout *quant;
    bool transposed;
    int rank; /* of D */
} quantized;

static bool is_carried(const tdm_quant_layout *quant) {
    return quant->scale.dtype != TDM_DTYPE_NONE;
}

static int row_dimension(const quantized *q) {
    return q->layout->rank - (q->transposed ? 1 : 2);
}

static int column_dimension(const quantized *q) {
    return q->layout->rank - (q->transposed ? 2 : 1);
}

/* Entries of a parameter along a dimension are one or all: `parameter` was checked to be arranged like that. */
static int64_t stride_along(const tdm_layout *parameter, int dimension) {
    return parameter->shape[dimension] > 1 ? parameter->strides[dimension] : 0;
}

/* None at all is as good as one for each only where there is no element of D either. */
static tdm_status check_entries(const quantized *q, const char *what, const tdm_layout *parameter,
                                int dimension, bool may_vary) {
    const int64_t own = q->layout->shape[dimension], entries = parameter->shape[dimension];
    if (entries == 1 || (may_vary && entries == own))
        return TDM_OK;
    return tdm_fail(
        TDM_UNSUPPORTED, "gemm: %s of %s has %lld entries along dimension %d of %lld elements; %s",
        what, q->name, (long long)entries, dimension, (long long)own,
        may_vary ? "one, or one for each, is supported" : "one is supported along this dimension");
}

/* Strides of one parameter, as a matrix of the operand's shape. `rows` and `columns`: whether it may vary along them. */
static tdm_status take_parameter(const quantized *q, const char *what, const tdm_layout *parameter,
                                 bool rows, bool columns, bool batch, tdm_gemm_matrix *matrix) {
    const int row = row_dimension(q), column = column_dimension(q);
    *matrix = (tdm_gemm_matrix){.dtype = parameter->dtype};
    if (parameter->dtype == TDM_DTYPE_NONE)
        return TDM_OK;
    TDM_TRY(tdm_layout_check(parameter, "gemm: a quantization parameter"));
    if (parameter->rank != q->layout->rank)
        return tdm_fail(TDM_BAD_SHAPE, "gemm: %s of %s has %d dimensions but %s has %d", what,
                        q->name, parameter->rank, q->name, q->layout->rank);
    TDM_TRY(check_entries(q, what, parameter, row, rows));
    TDM_TRY(check_entries(q, what, parameter, column, columns));
    matrix->row = stride_along(parameter, row);
    matrix->col = stride_along(parameter, column);
    for (int i = 0; i < q->layout->rank - 2; i++) {
        TDM_TRY(check_entries(q, what, parameter, i, batch));
        matrix->batch[i + q->rank - q->layout->rank] = stride_along(parameter, i);
    }
    return TDM_OK;
}

static tdm_status take_parameters(const quantized *q, bool rows, bool columns, bool batch,
                                  tdm_gemm_matrix *scale, tdm_gemm_matrix *zero) {
    const tdm_dtype zero_type = q->quant->zero_point.dtype;
    if (is_carried(q->quant) && q->quant->scale.dtype != TDM_F32)
        return tdm_fail(TDM_UNSUPPORTED, "gemm: the scale of %s is %s; f32 is supported here",
                        q->name, tdm_dtype_name(q->quant->scale.dtype));
    if (zero_type != TDM_DTYPE_NONE && zero_type != TDM_S32 && zero_type != TDM_S8 &&
        zero_type != TDM_U8)
        return tdm_fail(TDM_UNSUPPORTED,
                        "gemm: the zero point of %s is %s; s32, s8 and u8 are supported", q->name,
                        tdm_dtype_name(zero_type));
    TDM_TRY(take_parameter(q, "the scale", &q->quant->scale, rows, columns, batch, scale));
    return take_parameter(q, "the zero point", &q->quant->zero_point, rows, columns, batch, zero);
}

/* ---- the problem -------------------------------------------------------------------------------------- */

static tdm_status check_k(const tdm_gemm_problem *p) {
    const int64_t product = p->b_zero.dtype != TDM_DTYPE_NONE ? MOST_PRODUCT_AB
                            : p->a_zero.dtype != TDM_DTYPE_NONE || p->a.dtype == TDM_U8
                                ? MOST_PRODUCT_A
                                : MOST_PRODUCT_S8;
    const int64_t limit = INT32_MAX / product;
    if (p->k <= limit)
        return TDM_OK;
    return tdm_fail(
        TDM_UNSUPPORTED,
        "gemm: K is %lld; sums of %s by %s%s are exact in 32 bits up to K = %lld: cut K "
        "and add the parts",
        (long long)p->k, tdm_dtype_name(p->a.dtype), tdm_dtype_name(p->b.dtype),
        p->a_zero.dtype != TDM_DTYPE_NONE || p->b_zero.dtype != TDM_DTYPE_NONE ? " with zero points"
                                                                               : "",
        (long long)limit);
}

static bool is_float(tdm_dtype dtype) {
    return dtype == TDM_F32 || dtype == TDM_F16 || dtype == TDM_BF16;
}

/* D of integers is the exact sum, requantized or not: nothing of the float epilogue goes with it. */
static tdm_status check_integer_d(const tdm_gemm_desc *desc, const tdm_gemm_problem *p) {
    const char *const d = tdm_dtype_name(p->d.dtype);
    if (p->d.dtype != TDM_S32 && p->d.dtype != TDM_S8 && p->d.dtype != TDM_U8)
        return tdm_fail(TDM_UNSUPPORTED,
                        "gemm: D is %s but A and B are integers, which give s32, s8, u8, f32, f16 "
                        "or bf16",
                        d);
    if (p->alpha != 1.0f)
        return tdm_fail(TDM_UNSUPPORTED, "gemm: alpha is %g but D is %s, which takes 1",
                        (double)p->alpha, d);
    if (p->c.dtype != TDM_DTYPE_NONE || p->residual.dtype != TDM_DTYPE_NONE)
        return tdm_fail(TDM_UNSUPPORTED, "gemm: there is %s but D is %s, which takes none",
                        p->c.dtype != TDM_DTYPE_NONE ? "C" : "a residual", d);
    if (p->bias != TDM_DTYPE_NONE && p->bias != TDM_S32)
        return tdm_fail(TDM_UNSUPPORTED, "gemm: bias is %s but D is %s, which takes s32",
                        tdm_dtype_name(p->bias), d);
    if (p->d.dtype == TDM_S32) {
        if (p->activation != TDM_ACT_NONE)
            return tdm_fail(TDM_UNSUPPORTED, "gemm: there is an activation but D is s32");
        if (is_carried(&desc->d_quant))
            return tdm_fail(TDM_UNSUPPORTED,
                            "gemm: D is s32 and carries a scale: it is the sum itself");
        return TDM_OK;
    }
    if (p->activation != TDM_ACT_NONE && p->activation != TDM_ACT_RELU)
        return tdm_fail(TDM_UNSUPPORTED, "gemm: D is %s, which takes relu or no activation", d);
    if (!is_carried(&desc->d_quant))
        return tdm_fail(TDM_BAD_ARGUMENT, "gemm: D is %s but carries no quantization parameters",
                        d);
    return TDM_OK;
}

static tdm_status refuse_carried(const char *name, const tdm_layout *layout,
                                 const tdm_quant_layout *quant) {
    if (!is_carried(quant))
        return TDM_OK;
    return tdm_fail(TDM_BAD_ARGUMENT, "gemm: %s is %s and carries quantization parameters", name,
                    tdm_dtype_name(layout->dtype));
}

static tdm_status take_float(const tdm_gemm_desc *desc, const tdm_gemm_problem *p) {
    TDM_TRY(refuse_carried("A", &desc->a, &desc->a_quant));
    TDM_TRY(refuse_carried("B", &desc->b, &desc->b_quant));
    TDM_TRY(refuse_carried("D", &desc->d, &desc->d_quant));
    if (!is_float(p->d.dtype))
        return tdm_fail(TDM_UNSUPPORTED, "gemm: D is %s but A and B are %s and %s",
                        tdm_dtype_name(p->d.dtype), tdm_dtype_name(p->a.dtype),
                        tdm_dtype_name(p->b.dtype));
    if (p->bias == TDM_S32)
        return tdm_fail(TDM_UNSUPPORTED, "gemm: bias is s32 but A and B are %s and %s",
                        tdm_dtype_name(p->a.dtype), tdm_dtype_name(p->b.dtype));
    return TDM_OK;
}

static tdm_status take_integers(const tdm_gemm_desc *desc, tdm_gemm_problem *p) {
    tdm_quant_layout b_quant = desc->b_quant;
    const int rank = desc->d.rank;
    if (desc->packed_b)
        TDM_TRY(tdm_quant_layout_dense(&desc->b_quant, &b_quant));
    const quantized a = {"A", &desc->a, &desc->a_quant, desc->transpose_a != 0, rank};
    const quantized b = {"B", &desc->b, &b_quant, desc->transpose_b != 0, rank};
    const quantized d = {"D", &desc->d, &desc->d_quant, false, rank};
    TDM_TRY(take_parameters(&a, true, false, true, &p->a_scale, &p->a_zero));
    TDM_TRY(take_parameters(&b, false, true, true, &p->b_scale, &p->b_zero));
    TDM_TRY(check_k(p));
    if (is_float(p->d.dtype))
        return refuse_carried("D", &desc->d, &desc->d_quant);
    TDM_TRY(check_integer_d(desc, p));
    return take_parameters(&d, false, true, false, &p->d_scale, &p->d_zero);
}

static tdm_status check_scale_is_there(const char *name, const tdm_quant_layout *quant) {
    if (is_carried(quant) || quant->zero_point.dtype == TDM_DTYPE_NONE)
        return TDM_OK;
    return tdm_fail(TDM_BAD_ARGUMENT, "gemm: %s has a zero point but no scale", name);
}

tdm_status tdm_gemm_take_quantization(const tdm_gemm_desc *desc, tdm_gemm_problem *problem) {
    TDM_TRY(check_scale_is_there("A", &desc->a_quant));
    TDM_TRY(check_scale_is_there("B", &desc->b_quant));
    TDM_TRY(check_scale_is_there("D", &desc->d_quant));
    if (is_float(problem->a.dtype) && is_float(problem->b.dtype)) {
        problem->op = TDM_OP_GEMM;
        return take_float(desc, problem);
    }
    if ((problem->a.dtype == TDM_S8 || problem->a.dtype == TDM_U8) && problem->b.dtype == TDM_S8) {
        problem->op = TDM_OP_GEMM_INT;
        return take_integers(desc, problem);
    }
    return tdm_fail(
        TDM_UNSUPPORTED,
        "gemm: A is %s and B is %s; both of f32, f16 or bf16 are supported, and A of s8 or "
        "u8 by B of s8",
        tdm_dtype_name(problem->a.dtype), tdm_dtype_name(problem->b.dtype));
}
