#include <math.h>
#include <stdlib.h>

#include "bench/cases/case_fields.h"
#include "bench/cases/gemm_case.h"
#include "common/random_fill.h"
#include "quant/number_formats.h"
#include "quant/quant_reference.h"

/* The most products and the most entries of D that are computed to check a case. */
static const double most_products = 1 << 25, most_entries = 1 << 20;

/*
 * A product this close to a tie may be requantized to either neighbour. The result depends on
 * whether it is rounded to f32 before or after the zero point is added. Both neighbours then pass.
 * Separate tests check ties.
 */
static const double near_tie = 1e-4;

/*
 * An entry of D, at index `place` over all matrices: its exact value, and the sum of its terms'
 * magnitudes. For a requantized D, `size` is the allowed error.
 */
struct gemm_answer {
    size_t place;
    double value, size;
};

/*
 * The operands from which expected entries are computed in double. Rounding the inputs to their
 * dtype is part of the problem, not an error.
 */
typedef struct problem {
    const gemm_case *item;
    void *data[OP_GEMM_OPERANDS]; /* as stored; NULL: no such operand */
    float *a_scales;              /* one per row of A if the call quantizes them, else NULL */
} problem;

static double load(const problem *p, op_gemm_operand operand, size_t place) {
    const tdm_dtype dtype = gemm_case_dtype(p->item, operand);
    const void *const stored = p->data[operand];
    switch (dtype) {
    case TDM_F32:
        return (double)((const float *)stored)[place];
    case TDM_S8:
        return ((const int8_t *)stored)[place];
    case TDM_U8:
        return ((const uint8_t *)stored)[place];
    case TDM_S4:
        return tdm_quant_get(dtype, stored, (int64_t)place);
    default:
        return tdm_number_get(dtype, stored, place);
    }
}

/*
 * Returns the dequantized element (row, step) of A. If D is requantized, A's scale is left out here
 * and applied later.
 */
static double load_a(const problem *p, size_t batch, size_t row, size_t step) {
    const gemm_case *const item = p->item;
    const size_t m = (size_t)item->m, k = (size_t)item->k;
    const double x =
        load(p, OP_GEMM_A, batch * m * k + (item->transpose_a ? step * m + row : row * k + step));
    if (p->a_scales != NULL) { /* see docs/numerics.md */
        const float scale = p->a_scales[batch * m + row];
        const float code = scale > 0 ? rintf((float)x / scale) : 0;
        return (double)scale * (double)fminf(fmaxf(code, -127), 127);
    }
    if (!gemm_types_quantized(item->types, OP_GEMM_A))
        return x;
    const double scale =
        gemm_types_requantized(item->types) ? 1 : (double)gemm_case_scale(item, OP_GEMM_A, 0, 0);
    return scale * (x - gemm_case_zero_point(item, OP_GEMM_A));
}

static double load_b(const problem *p, size_t batch, size_t step, size_t column) {
    const gemm_case *const item = p->item;
    const size_t n = (size_t)item->n, k = (size_t)item->k;
    const int64_t group = gemm_types_group(item->types);
    const double x = load(
        p, OP_GEMM_B, batch * k * n + (item->transpose_b ? column * k + step : step * n + column));
    if (!gemm_types_quantized(item->types, OP_GEMM_B) || gemm_types_requantized(item->types))
        return x;
    return x * (double)gemm_case_scale(item, OP_GEMM_B, group == 0 ? 0 : (int64_t)step / group,
                                       (int64_t)column);
}

/* Computes the scales of A's rows: the greatest magnitude of a row becomes 127. */
static void find_scales(const problem *p, float *scales) {
    const size_t m = (size_t)p->item->m, k = (size_t)p->item->k;
    for (size_t row = 0; row < (size_t)gemm_case_batch(p->item) * m; row++) {
        float most = 0;
        for (size_t step = 0; step < k; step++)
            most = fmaxf(most, fabsf((float)load_a(p, row / m, row % m, step)));
        scales[row] = most / 127;
    }
}

static void add_term(double term, gemm_answer *sum) {
    sum->value += term;
    sum->size += fabs(term);
}

/* Requantizes an exact sum, and sets the allowed error. */
static void requantize(const gemm_case *item, int64_t column, gemm_answer *sum) {
    const tdm_quant_parameters parameters = {
        tdm_quant_multiplier(gemm_case_scale(item, OP_GEMM_A, 0, 0),
                             gemm_case_scale(item, OP_GEMM_B, 0, column),
                             gemm_case_scale(item, OP_GEMM_D, 0, 0)),
        gemm_case_zero_point(item, OP_GEMM_D)};
    const double product = sum->value * (double)parameters.scale;
    const int is_signed = gemm_types_dtype(item->types, OP_GEMM_D) == TDM_S8;
    tdm_quant_range range = is_signed ? (tdm_quant_range){-128, 127} : (tdm_quant_range){0, 255};
    if (item->epilogue.activation == TDM_ACT_RELU)
        range.low = parameters.zero_point;
    sum->size = fabs(fabs(product - floor(product)) - 0.5) < near_tie;
    sum->value = (double)tdm_quant_requantize((int32_t)sum->value, parameters, range);
}

static void compute(const problem *p, gemm_answer *entry) {
    const gemm_case *const item = p->item;
    const size_t n = (size_t)item->n, row = entry->place / n, column = entry->place % n;
    const size_t batch = row / (size_t)item->m;
    for (size_t step = 0; step < (size_t)item->k; step++)
        add_term(load_a(p, batch, row % (size_t)item->m, step) * load_b(p, batch, step, column),
                 entry);
    if (p->data[OP_GEMM_BIAS] != NULL)
        add_term(load(p, OP_GEMM_BIAS, column), entry);
    if (p->data[OP_GEMM_RESIDUAL] != NULL)
        add_term(load(p, OP_GEMM_RESIDUAL, entry->place), entry);
    if (gemm_types_requantized(item->types))
        requantize(item, (int64_t)column, entry);
    else
        entry->value = op_gemm_activate(entry->value, item->epilogue.activation);
}

/* ---- the choice of entries ---- */

/* D is cut into squares of side `side`. Squares at the edges are smaller. */
typedef struct squares {
    size_t side, down, across, count; /* count: over all matrices */
} squares;

static squares squares_of(const gemm_case *item) {
    squares s = {.side = 1};
    for (;; s.side *= 2) {
        s.down = ((size_t)item->m + s.side - 1) / s.side;
        s.across = ((size_t)item->n + s.side - 1) / s.side;
        s.count = (size_t)gemm_case_batch(item) * s.down * s.across;
        if (s.down * s.across == 1 ||
            ((double)s.count * (double)item->k <= most_products && (double)s.count <= most_entries))
            return s;
    }
}

/*
 * Returns the number of rows or columns of a square. `side` is its nominal side, and `left` is what
 * remains of the matrix from its start.
 */
static size_t length_of(size_t left, size_t side) {
    return left > 0 && left < side ? left : side;
}

/* Returns the index of a random entry in square `number`. */
static size_t place_in(const gemm_case *item, const squares *s, size_t number) {
    const size_t m = (size_t)item->m, n = (size_t)item->n;
    const size_t row = number / s->across % s->down * s->side,
                 column = number % s->across * s->side;
    const uint64_t bits = random_bits(item->seed + 4000, number);
    return (number / (s->down * s->across) * m + row + bits % length_of(m - row, s->side)) * n +
           column + (bits >> 32) % length_of(n - column, s->side);
}

/* ---- the oracle ---- */

/* True if the operands, and therefore the answers, are the same. */
static int same_data(const gemm_case *left, const gemm_case *right) {
    return left->types == right->types && left->m == right->m && left->n == right->n &&
           left->k == right->k && gemm_case_batch(left) == gemm_case_batch(right) &&
           left->transpose_a == right->transpose_a && left->transpose_b == right->transpose_b &&
           left->epilogue.bias == right->epilogue.bias &&
           left->epilogue.residual == right->epilogue.residual &&
           left->epilogue.activation == right->epilogue.activation && left->seed == right->seed;
}

/* Returns -1 if memory is short. */
static int create_data(problem *p) {
    const size_t rows = (size_t)(gemm_case_batch(p->item) * p->item->m);
    for (int i = 0; i < OP_GEMM_OPERANDS; i++) {
        if (i == OP_GEMM_D || gemm_case_dtype(p->item, (op_gemm_operand)i) == TDM_DTYPE_NONE)
            continue;
        p->data[i] = gemm_case_create(p->item, (op_gemm_operand)i);
        if (p->data[i] == NULL)
            return -1;
    }
    if (!gemm_types_dynamic(p->item->types))
        return 0;
    float *const scales = malloc(rows * sizeof *scales);
    if (scales == NULL)
        return -1;
    find_scales(p, scales);
    p->a_scales = scales;
    return 0;
}

int gemm_oracle_set(gemm_oracle *oracle, const gemm_case *item) {
    const squares s = squares_of(item);
    problem p = {.item = item};
    if (oracle->entries != NULL && same_data(&oracle->item, item))
        return 0;
    gemm_oracle_release(oracle);
    gemm_answer *const entries = calloc(s.count, sizeof *entries);
    const int failed = entries == NULL || create_data(&p) != 0;
    for (size_t i = 0; !failed && i < s.count; i++) {
        entries[i].place = place_in(item, &s, i);
        compute(&p, &entries[i]);
    }
    for (int i = 0; i < OP_GEMM_OPERANDS; i++)
        free(p.data[i]);
    free(p.a_scales);
    *oracle = (gemm_oracle){.item = *item, .entries = entries, .count = s.count};
    if (failed)
        gemm_oracle_release(oracle);
    return failed ? -1 : 0;
}

void gemm_oracle_release(gemm_oracle *oracle) {
    free(oracle->entries);
    *oracle = (gemm_oracle)GEMM_ORACLE_INIT;
}

int gemm_oracle_check(const void *user, const void *output, size_t bytes, double *max_error,
                      worker_text *reason) {
    const gemm_oracle *const oracle = user;
    const gemm_case *const item = &oracle->item;
    const op_gemm_case operation = gemm_case_operation(item);
    int result = 0;
    *max_error = NAN;
    if (bytes != gemm_case_bytes(item, OP_GEMM_D))
        return CASE_WRONG(reason, "the output has %zu bytes, not %zu", bytes,
                          gemm_case_bytes(item, OP_GEMM_D));
    *max_error = 0;
    for (size_t i = 0; i < oracle->count; i++) {
        const gemm_answer *const entry = &oracle->entries[i];
        const double got =
            tdm_number_get(gemm_types_dtype(item->types, OP_GEMM_D), output, entry->place);
        const double error = fabs(got - entry->value);
        const double relative = error / (entry->size > 0 ? entry->size : 1);
        const double bound = gemm_types_requantized(item->types) ? entry->size
                             : gemm_types_exact(item->types)
                                 ? 0
                                 : op_gemm_bound(&operation, entry->value, entry->size);
        /* Both conditions are written so that a NaN fails. */
        if (!(relative <= *max_error) && !isnan(*max_error))
            *max_error = relative;
        if (!(error <= bound) && result == 0)
            result = CASE_WRONG(reason, "D[%zu][%zu] is %.10g, should be %.10g within %.2g",
                                entry->place / (size_t)item->n, entry->place % (size_t)item->n, got,
                                entry->value, bound);
    }
    return result;
}
