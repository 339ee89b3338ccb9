/* These functions check the quantization of a GEMM problem and set the strides of its
 * parameters. */
#include <stdio.h>

#include "api/gemm/gemm_internal.h"
#include "quant/float_chunks.h"

/* These are the largest absolute values of a product a·b. They limit K: sums must fit 32 bits. */
#define MAX_PRODUCT_S8 (128 * 128)
#define MAX_PRODUCT_A (255 * 128)
#define MAX_PRODUCT_AB (255 * 255)

static bool is_carried(const tdm_quant_layout *quant) {
    return quant->scale.dtype != TDM_DTYPE_NONE;
}

/* ---- layouts of parameters ------------------------------------------------------------------- */

bool tdm_quant_layout_equal(const tdm_quant_layout *a, const tdm_quant_layout *b) {
    if (!tdm_layout_equal(&a->scale, &b->scale) ||
        !tdm_layout_equal(&a->zero_point, &b->zero_point))
        return false;
    // If a dimension has a single parameter, its block size has no effect.
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
    if (!tensor->scale && !is_carried(planned))
        return TDM_OK;
    TDM_TRY(tdm_tensor_quant_layout(tensor, &own));
    if (tdm_quant_layout_equal(&own, planned))
        return TDM_OK;
    const bool has = own.scale.dtype != TDM_DTYPE_NONE,
               needs = planned->scale.dtype != TDM_DTYPE_NONE;
    return tdm_fail(TDM_BAD_ARGUMENT, "gemm: %s has %s but the plan was made for %s", name,
                    !has    ? "no quantization parameters"
                    : needs ? "quantization parameters of another layout"
                            : "quantization parameters",
                    !needs ? "none"
                    : has  ? "the layout in its description"
                           : "some");
}

/* ---- one operand ----------------------------------------------------------------------------- */

/* This is an operand and the orientation of its dimensions in the GEMM. */
typedef struct quantized {
    const char *name;
    const tdm_layout *layout;
    const tdm_quant_layout *quant;
    bool transposed;
    int rank;      /* of D */
    int64_t group; /* rows that share a parameter, 0: not grouped */
} quantized;

static int row_dimension(const quantized *q) {
    return q->layout->rank - (q->transposed ? 1 : 2);
}

static int column_dimension(const quantized *q) {
    return q->layout->rank - (q->transposed ? 2 : 1);
}

/* Returns a parameter's stride along a dimension. `parameter` was checked: it has one entry, or
 * one per element or group. */
static int64_t stride_along(const tdm_layout *parameter, int dimension) {
    return parameter->shape[dimension] > 1 ? parameter->strides[dimension] : 0;
}

static tdm_status check_groups(const quantized *q, const char *what, int64_t own, int64_t entries) {
    if (entries == tdm_ceil_div(own, q->group))
        return TDM_OK;
    return tdm_fail(
        TDM_BAD_SHAPE,
        "gemm: %s of %s has %lld entries along K, but %lld elements in groups of %lld need %lld",
        what, q->name, (long long)entries, (long long)own, (long long)q->group,
        (long long)tdm_ceil_div(own, q->group));
}

/* Checks the number of entries along a dimension. Zero entries are right only for an empty
 * dimension. */
static tdm_status check_entries(const quantized *q, const char *what, const tdm_layout *parameter,
                                int dimension, bool may_vary) {
    const int64_t own = q->layout->shape[dimension], entries = parameter->shape[dimension];
    if (q->group != 0 && dimension == row_dimension(q))
        return check_groups(q, what, own, entries);
    if (entries == 1 || (may_vary && entries == own))
        return TDM_OK;
    return tdm_fail(TDM_UNSUPPORTED,
                    "gemm: %s of %s has %lld entries along dimension %d of %lld elements; %s", what,
                    q->name, (long long)entries, dimension, (long long)own,
                    may_vary ? "supported are 1 or one per element"
                             : "only 1 is supported along this dimension");
}

static tdm_status check_rank(const quantized *q, const char *what, const tdm_layout *parameter) {
    if (parameter->dtype == TDM_DTYPE_NONE)
        return TDM_OK;
    TDM_TRY(tdm_layout_check(parameter, "gemm: a quantization parameter"));
    if (parameter->rank == q->layout->rank)
        return TDM_OK;
    return tdm_fail(TDM_BAD_SHAPE, "gemm: %s of %s has %d dimensions but %s has %d", what, q->name,
                    parameter->rank, q->name, q->layout->rank);
}

/* Sets the strides of one parameter, as a matrix of the operand's shape. `rows`, `columns` and
 * `batch` are true if it may vary along them. */
static tdm_status take_parameter(const quantized *q, const char *what, const tdm_layout *parameter,
                                 bool rows, bool columns, bool batch, tdm_gemm_matrix *matrix) {
    const int row = row_dimension(q), column = column_dimension(q);
    *matrix = (tdm_gemm_matrix){.dtype = parameter->dtype};
    if (parameter->dtype == TDM_DTYPE_NONE)
        return TDM_OK;
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

/* Checks types and ranks, which must be right even if there is nothing to scale. */
static tdm_status check_parameters(const quantized *q) {
    const tdm_dtype zero_type = q->quant->zero_point.dtype;
    const tdm_dtype scale_type = q->quant->scale.dtype;
    if (is_carried(q->quant) && !tdm_quant_is_float(scale_type))
        return tdm_fail(TDM_UNSUPPORTED,
                        "gemm: the scale of %s is %s; f32, f16 and bf16 are supported", q->name,
                        tdm_dtype_name(scale_type));
    if (zero_type != TDM_DTYPE_NONE && zero_type != TDM_S32 && zero_type != TDM_S8 &&
        zero_type != TDM_U8)
        return tdm_fail(TDM_UNSUPPORTED,
                        "gemm: the zero point of %s is %s; s32, s8 and u8 are supported", q->name,
                        tdm_dtype_name(zero_type));
    TDM_TRY(check_rank(q, "the scale", &q->quant->scale));
    return check_rank(q, "the zero point", &q->quant->zero_point);
}

static tdm_status take_parameters(const quantized *q, bool rows, bool columns, bool batch,
                                  tdm_gemm_matrix *scale, tdm_gemm_matrix *zero) {
    TDM_TRY(check_parameters(q));
    TDM_TRY(take_parameter(q, "the scale", &q->quant->scale, rows, columns, batch, scale));
    return take_parameter(q, "the zero point", &q->quant->zero_point, rows, columns, batch, zero);
}

/* ---- the problem ----------------------------------------------------------------------------- */

static tdm_status check_k(const tdm_gemm_problem *p) {
    const int64_t product = p->b_zero.dtype != TDM_DTYPE_NONE ? MAX_PRODUCT_AB
                            : p->a_zero.dtype != TDM_DTYPE_NONE || p->a.dtype == TDM_U8
                                ? MAX_PRODUCT_A
                                : MAX_PRODUCT_S8;
    const int64_t limit = INT32_MAX / product;
    if (p->k <= limit)
        return TDM_OK;
    return tdm_fail(TDM_UNSUPPORTED,
                    "gemm: K is %lld; sums of %s by %s%s are exact in 32 bits up to K = %lld: "
                    "split K and add the partial results",
                    (long long)p->k, tdm_dtype_name(p->a.dtype), tdm_dtype_name(p->b.dtype),
                    p->a_zero.dtype != TDM_DTYPE_NONE || p->b_zero.dtype != TDM_DTYPE_NONE
                        ? " with zero points"
                        : "",
                    (long long)limit);
}

/* Checks an integer D, which is the exact sum, requantized or not. Float epilogue operations are
 * not supported. */
static tdm_status check_integer_d(const tdm_gemm_desc *desc, const tdm_gemm_problem *p) {
    const char *const d = tdm_dtype_name(p->d.dtype);
    if (p->d.dtype != TDM_S32 && p->d.dtype != TDM_S8 && p->d.dtype != TDM_U8)
        return tdm_fail(
            TDM_UNSUPPORTED,
            "gemm: D is %s but A and B are integers; D must be s32, s8, u8, f32, f16 or bf16", d);
    if (p->alpha != 1.0f)
        return tdm_fail(TDM_UNSUPPORTED, "gemm: alpha is %g but D is %s, alpha must be 1",
                        (double)p->alpha, d);
    if (p->residual.dtype != TDM_DTYPE_NONE)
        return tdm_fail(TDM_UNSUPPORTED,
                        "gemm: residual is given but D is %s, which does not support it", d);
    if (p->c.dtype != TDM_DTYPE_NONE && (p->c.dtype != TDM_S32 || p->beta != 1.0f))
        return tdm_fail(TDM_UNSUPPORTED,
                        "gemm: beta is %g and C is %s but D is %s; C must be s32 and beta 1",
                        (double)p->beta, tdm_dtype_name(p->c.dtype), d);
    if (p->bias != TDM_DTYPE_NONE && p->bias != TDM_S32)
        return tdm_fail(TDM_UNSUPPORTED, "gemm: bias is %s but D is %s, bias must be s32",
                        tdm_dtype_name(p->bias), d);
    if (p->d.dtype == TDM_S32) {
        if (p->activation != TDM_ACT_NONE)
            return tdm_fail(TDM_UNSUPPORTED,
                            "gemm: activation is given but D is s32, which does not support it");
        if (is_carried(&desc->d_quant))
            return tdm_fail(
                TDM_UNSUPPORTED,
                "gemm: D is s32 and has a scale, but D receives the integer sums unscaled");
        return TDM_OK;
    }
    if (p->activation != TDM_ACT_NONE && p->activation != TDM_ACT_RELU)
        return tdm_fail(TDM_UNSUPPORTED, "gemm: D is %s; activation must be relu or none", d);
    if (!is_carried(&desc->d_quant))
        return tdm_fail(TDM_BAD_ARGUMENT, "gemm: D is %s but has no quantization parameters", d);
    return TDM_OK;
}

static tdm_status refuse_carried(const char *name, const tdm_layout *layout,
                                 const tdm_quant_layout *quant) {
    if (!is_carried(quant))
        return TDM_OK;
    return tdm_fail(TDM_BAD_ARGUMENT, "gemm: %s is %s, which cannot have quantization parameters",
                    name, tdm_dtype_name(layout->dtype));
}

static tdm_status take_float(const tdm_gemm_desc *desc, const tdm_gemm_problem *p) {
    TDM_TRY(refuse_carried("A", &desc->a, &desc->a_quant));
    TDM_TRY(refuse_carried("B", &desc->b, &desc->b_quant));
    TDM_TRY(refuse_carried("D", &desc->d, &desc->d_quant));
    if (!tdm_is_kernel_float(p->d.dtype))
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
    const quantized a = {"A", &desc->a, &desc->a_quant, desc->transpose_a != 0, rank, 0};
    const quantized b = {"B", &desc->b, &b_quant, desc->transpose_b != 0, rank, 0};
    const quantized d = {"D", &desc->d, &desc->d_quant, false, rank, 0};
    TDM_TRY(take_parameters(&a, true, false, true, &p->a_scale, &p->a_zero));
    TDM_TRY(take_parameters(&b, false, true, true, &p->b_scale, &p->b_zero));
    TDM_TRY(check_k(p));
    if (tdm_is_kernel_float(p->d.dtype))
        return refuse_carried("D", &desc->d, &desc->d_quant);
    TDM_TRY(check_integer_d(desc, p));
    return take_parameters(&d, false, true, false, &p->d_scale, &p->d_zero);
}

/* Reads the problem if A has a float type and B is s8 or s4 with scales. */
static tdm_status take_weights(const tdm_gemm_desc *desc, tdm_gemm_problem *p) {
    tdm_quant_layout b_quant = desc->b_quant;
    if (!tdm_is_kernel_float(p->d.dtype) || p->bias == TDM_S32)
        return tdm_fail(TDM_UNSUPPORTED, "gemm: %s is %s but A is %s",
                        tdm_is_kernel_float(p->d.dtype) ? "bias" : "D",
                        tdm_dtype_name(tdm_is_kernel_float(p->d.dtype) ? p->bias : p->d.dtype),
                        tdm_dtype_name(p->a.dtype));
    TDM_TRY(refuse_carried("A", &desc->a, &desc->a_quant));
    TDM_TRY(refuse_carried("D", &desc->d, &desc->d_quant));
    if (!is_carried(&desc->b_quant))
        return tdm_fail(TDM_BAD_ARGUMENT,
                        "gemm: B is %s and A is %s: B must have quantization parameters",
                        tdm_dtype_name(p->b.dtype), tdm_dtype_name(p->a.dtype));
    if (desc->packed_b)
        TDM_TRY(tdm_quant_layout_dense(&desc->b_quant, &b_quant));
    quantized b = {"B", &desc->b, &b_quant, desc->transpose_b != 0, desc->d.rank, 0};
    const int64_t block = desc->b_quant.block[row_dimension(&b)];
    if (block < 0)
        return tdm_fail(TDM_BAD_ARGUMENT,
                        "gemm: the block size of B's quantization parameters is %lld",
                        (long long)block);
    b.group = block == 0 || block > p->k ? p->k : block;
    if (b.group == 0) // K is 0
        b.group = 1;
    p->group = b.group;
    // If K is 0, no parameter is read, so the numbers of entries do not matter.
    if (p->k == 0)
        return check_parameters(&b);
    return take_parameters(&b, true, true, true, &p->b_scale, &p->b_zero);
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
    problem->quantize_a = desc->quantize_a != 0;
    if (problem->quantize_a &&
        (!tdm_is_kernel_float(problem->a.dtype) || tdm_is_kernel_float(problem->b.dtype)))
        return tdm_fail(
            TDM_BAD_ARGUMENT,
            "gemm: quantize_a is %d, but A is %s and B is %s: it needs a float A and a quantized B",
            desc->quantize_a, tdm_dtype_name(problem->a.dtype), tdm_dtype_name(problem->b.dtype));
    if (tdm_is_kernel_float(problem->a.dtype) && tdm_is_kernel_float(problem->b.dtype)) {
        problem->op = TDM_OP_GEMM;
        return take_float(desc, problem);
    }
    if ((problem->a.dtype == TDM_S8 || problem->a.dtype == TDM_U8) && problem->b.dtype == TDM_S8) {
        problem->op = TDM_OP_GEMM_INT;
        return take_integers(desc, problem);
    }
    if (tdm_is_kernel_float(problem->a.dtype) &&
        (problem->b.dtype == TDM_S8 || problem->b.dtype == TDM_S4)) {
        problem->op = TDM_OP_GEMM_WEIGHTS;
        return take_weights(desc, problem);
    }
    return tdm_fail(TDM_UNSUPPORTED,
                    "gemm: A is %s and B is %s; supported are A and B of f32, f16 or bf16, A of s8 "
                    "or u8 with B of s8, and a float A with B of s8 or s4",
                    tdm_dtype_name(problem->a.dtype), tdm_dtype_name(problem->b.dtype));
}

/* The small-M kernels take up to this many rows of A. More rows use tiles or panels. */
#define SMALL 16
/* This lower limit applies if other kernels can multiply the quantized values of both operands as
 * integers. */
#define SMALL_CODES 8
#define GROUP_STEP 16
/* Groups in panels of quantized values must be a multiple of this many steps of K. */
#define PANEL_GROUP 32
/* The smallest tile in local memory has this many rows and columns. */
#define MIN_TILE 32
/* In a tensor-core tile, this many steps of K share one scale. */
#define TENSOR_STEP 32
/* This is the largest K for kernels with several work-items per work-group. They compute K times
 * the bytes of GROUP_STEP steps (at most GROUP_STEP) in 32 bits. */
#define MAX_STEPS (INT32_MAX / GROUP_STEP)

static const char rows_are_quantized[] = "rows of A are quantized";

bool tdm_gemm_becomes_integer(const tdm_gemm_problem *p) {
    return p->quantize_a && p->b.dtype == TDM_S8 && p->group >= p->k && p->k <= INT16_MAX &&
           p->k > 0;
}

/* Returns a stride between columns or batch entries of B that is not a whole number of storage
 * units. Returns 0 if every column along K begins with a unit. */
static int64_t splitting_stride(const tdm_gemm_problem *p) {
    const int per_unit = tdm_dtype_info(p->b.dtype)->elements_per_unit;
    if (p->b.col % per_unit != 0)
        return p->b.col;
    for (int i = 0; i < p->batch_rank; i++)
        if (p->b.batch[i] % per_unit != 0)
            return p->b.batch[i];
    return 0;
}

/* Checks B's layout for kernels that read B along K. */
static const char *refuse_place(const tdm_gemm_problem *problem, char reason[TDM_REASON_TEXT]) {
    if (!problem->packed_b && problem->b.row != 1 && problem->k > 1)
        return "B is not contiguous along K";
    // A stride of 1 along N or the batch is possible, for example if K is 1.
    const int64_t splitting = problem->packed_b ? 0 : splitting_stride(problem);
    if (splitting == 0)
        return NULL;
    snprintf(reason, TDM_REASON_TEXT,
             "columns or batch entries of B are %lld elements apart, which splits a storage unit",
             (long long)splitting);
    return reason;
}

/* Returns why panels on CPU cores do not suit the problem, or NULL. If rows of A are quantized, the
 * kernels multiply with VNNI. */
static const char *refuse_panels(const tdm_gemm_problem *problem, const tdm_device *device,
                                 char reason[TDM_REASON_TEXT]) {
    const uint32_t needed = TDM_CAP_HOST_VNNI | TDM_CAP_CORRECT_DIVIDE;
    if (!problem->quantize_a)
        return NULL;
    if ((device->info.capabilities & needed) != needed)
        return rows_are_quantized;
    if (!problem->forced && tdm_gemm_becomes_integer(problem))
        return "integer kernels multiply the quantized values";
    if (problem->group < problem->k && problem->group % PANEL_GROUP != 0) {
        snprintf(reason, TDM_REASON_TEXT, "the group size %lld is not a multiple of %d",
                 (long long)problem->group, PANEL_GROUP);
        return reason;
    }
    return refuse_place(problem, reason);
}

static const char *refuse_lines(const tdm_gemm_problem *problem, const tdm_device *device,
                                char reason[TDM_REASON_TEXT]) {
    const bool by_codes = tdm_gemm_becomes_integer(problem) ||
                          (problem->quantize_a && !refuse_panels(problem, device, reason));
    const int small = !problem->forced && by_codes ? SMALL_CODES : SMALL;
    if (problem->m > small) {
        snprintf(reason, TDM_REASON_TEXT, "M is %lld, the small-M kernels take at most %d",
                 (long long)problem->m, small);
        return reason;
    }
    const char *const refusal = refuse_place(problem, reason);
    if (refusal)
        return refusal;
    const int64_t step = (int64_t)GROUP_STEP * tdm_dtype_info(problem->b.dtype)->elements_per_unit;
    if (problem->group < problem->k && problem->group % step != 0) {
        snprintf(reason, TDM_REASON_TEXT, "the group size %lld is not a multiple of %lld",
                 (long long)problem->group, (long long)step);
        return reason;
    }
    return NULL;
}

const char *tdm_gemm_weights_refuse_steps(const tdm_gemm_problem *problem,
                                          char reason[TDM_REASON_TEXT]) {
    if (problem->k <= MAX_STEPS)
        return NULL;
    snprintf(reason, TDM_REASON_TEXT,
             "K is %lld, kernels that read quantized weights take at most %d",
             (long long)problem->k, MAX_STEPS);
    return reason;
}

/* Checks tensor-core tiles, whose blocks of K have one scale each. */
static const char *refuse_tensor(const tdm_gemm_problem *problem, char reason[TDM_REASON_TEXT]) {
    if (problem->quantize_a)
        return rows_are_quantized;
    if (problem->group < problem->k && problem->group % TENSOR_STEP != 0) {
        snprintf(reason, TDM_REASON_TEXT, "the group size %lld is not a multiple of %d",
                 (long long)problem->group, TENSOR_STEP);
        return reason;
    }
    const char *const refusal = tdm_gemm_weights_refuse_steps(problem, reason);
    return refusal ? refusal : refuse_place(problem, reason);
}

/* Returns why tiles are possible but not preferred, or NULL. */
static const char *avoid_tiles(const tdm_gemm_problem *problem, const tdm_device *device,
                               char reason[TDM_REASON_TEXT]) {
    if (device->info.capabilities & TDM_CAP_CPU_CORES)
        return "the variant is not for CPU cores";
    if (device->info.capabilities & TDM_CAP_ASYNC_COPY)
        return "float kernels overlap tile copies with arithmetic here";
    if (tdm_gemm_wants_parts(problem, device, MIN_TILE))
        return "K is long and D has few tiles: float kernels can split K";
    tdm_gemm_problem in_lines = *problem;
    in_lines.packed_b = true;
    if (refuse_lines(&in_lines, device, reason))
        return NULL;
    snprintf(reason, TDM_REASON_TEXT,
             "M is %lld, up to %d the small-M kernels on K-major weights are faster",
             (long long)problem->m, SMALL);
    return reason;
}

/* Checks tiles in local memory, into which weights are dequantized. Each work-item loops over all
 * of K. */
static const char *refuse_tiles(const tdm_gemm_problem *problem, const tdm_device *device,
                                char reason[TDM_REASON_TEXT]) {
    if (problem->quantize_a)
        return rows_are_quantized;
    const char *refusal = tdm_gemm_weights_refuse_steps(problem, reason);
    if (!refusal)
        refusal = tdm_refuse_long_loop(device, problem->k, reason);
    return refusal || problem->forced ? refusal : avoid_tiles(problem, device, reason);
}

const char *tdm_gemm_weights_refuse(const tdm_gemm_problem *problem, const tdm_device *device,
                                    int32_t family, char reason[TDM_REASON_TEXT]) {
    const bool cores = (device->info.capabilities & TDM_CAP_CPU_CORES) != 0;
    if (problem->k == 0)
        return "K is 0";
    if (family == TDM_GEMM_TENSOR)
        return refuse_tensor(problem, reason);
    if (family == TDM_GEMM_TILED)
        return refuse_tiles(problem, device, reason);
    if (family == TDM_GEMM_PANEL)
        return cores ? refuse_panels(problem, device, reason) : "the variant is for CPU cores only";
    if (!cores && problem->quantize_a)
        return rows_are_quantized;
    const char *const refusal = cores ? NULL : tdm_gemm_weights_refuse_steps(problem, reason);
    return refusal ? refusal : refuse_lines(problem, device, reason);
}
