#include "bench/cases/gemm_case.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/random_fill.h"
#include "quant/number_formats.h"
#include "quant/quant_reference.h"

enum {
    CORNERS = 4,
    SAMPLED_ENTRIES = 256 + CORNERS,
    SQUARE = 32
};

/*
 * Nearer than this to a tie, rounding the product to f32 before or after adding the zero point decides about the integer: both
 * neighbours pass. Ties are the tests' business.
 */
static const double near_tie = 1e-4;

/*
 * A row's Freivalds residual is a sum of n independent errors with random signs, so it grows with
 * sqrt(n); six times that is exceeded by chance less than once in 10^8 rows.
 */
static const double freivalds_factor = 6;

/* An exact sum, and that of the products' magnitudes. */
typedef struct answer {
    double value;
    double size;
} answer;

typedef struct sampled_entry {
    size_t batch, row, column;
    answer exact;
} sampled_entry;

/*
 * The problem in double: rounding the inputs to their dtype is part of the problem, not an error.
 */
struct gemm_answers {
    int ready;
    sampled_entry *entries;
    size_t entry_count;
    answer *rows;    /* of every matrix of the batch, one after the other */
    double *weights; /* n of them */
};

/* Operands, as stored, and room for one row of them, while the answers are computed. */
typedef struct problem {
    const gemm_case *item;
    const void *a;
    const void *b;
    const void *bias;     /* NULL: none, as the next one */
    const void *residual; /* as D */
    float *a_scales;      /* of every row of A, where the call quantizes them */
    double *row;          /* the longest dimension */
    answer *products;     /* B·r of one matrix, k of them */
} problem;

#define LOAD_ROW(type)                                                                             \
    for (size_t i = 0; i < count; i++)                                                             \
        row[i] = (double)((const type *)stored)[first + i];

/* A run of stored numbers. */
static void load_stored(tdm_dtype dtype, const void *stored, size_t first, size_t count,
                        double *row) {
    switch (dtype) {
    case TDM_F32:
        LOAD_ROW(float)
        return;
    case TDM_S8:
        LOAD_ROW(int8_t)
        return;
    case TDM_U8:
        LOAD_ROW(uint8_t)
        return;
    case TDM_S4:
        for (size_t i = 0; i < count; i++)
            row[i] = tdm_quant_get(dtype, stored, (int64_t)(first + i));
        return;
    default:
        for (size_t i = 0; i < count; i++)
            row[i] = tdm_number_get(dtype, stored, first + i);
    }
}

/* The scale of place `place` of B. */
static double scale_of_b(const gemm_case *item, size_t place) {
    const size_t n = (size_t)item->n;
    const size_t k = (size_t)item->k;
    const size_t group = (size_t)gemm_types_group(item->types);
    const size_t column = item->transpose_b ? place / k % n : place % n;
    const size_t step = item->transpose_b ? place % k : place / n % k;
    return (double)gemm_case_scale(item, OP_GEMM_B, group == 0 ? 0 : (int64_t)(step / group),
                                   (int64_t)column);
}

/* The row of D that place `place` of A goes into, of all matrices. */
static size_t row_of(const gemm_case *item, size_t place) {
    const size_t m = (size_t)item->m;
    const size_t k = (size_t)item->k;
    return place / (m * k) * m + (item->transpose_a ? place % m : place / k % m);
}

/* What a number becomes where rows of A are quantized in the call: docs/numerics.md. */
static double quantize(double x, float scale) {
    const float code = scale > 0 ? rintf((float)x / scale) : 0;
    return (double)scale * (double)fminf(fmaxf(code, -127), 127);
}

static void load_a(const problem *p, size_t first, size_t count, double *row) {
    const gemm_case *const item = p->item;
    const double zero_point = gemm_case_zero_point(item, OP_GEMM_A);
    load_stored(gemm_types_dtype(item->types, OP_GEMM_A), p->a, first, count, row);
    if (gemm_types_dynamic(item->types)) {
        for (size_t i = 0; i < count; i++)
            row[i] = quantize(row[i], p->a_scales[row_of(item, first + i)]);
    } else if (gemm_types_quantized(item->types, OP_GEMM_A)) {
        const double scale = gemm_types_requantized(item->types)
                                 ? 1
                                 : (double)gemm_case_scale(item, OP_GEMM_A, 0, 0);
        for (size_t i = 0; i < count; i++)
            row[i] = scale * (row[i] - zero_point);
    }
}

static void load_b(const problem *p, size_t first, size_t count, double *row) {
    load_stored(gemm_types_dtype(p->item->types, OP_GEMM_B), p->b, first, count, row);
    if (!gemm_types_quantized(p->item->types, OP_GEMM_B) || gemm_types_requantized(p->item->types))
        return;
    for (size_t i = 0; i < count; i++)
        row[i] *= scale_of_b(p->item, first + i);
}

/* A run of A or B as it is stored, as the real numbers that it stands for; where D is requantized without their scales. */
static void load_row(const problem *p, op_gemm_operand operand, size_t first, size_t count,
                     double *row) {
    if (operand == OP_GEMM_A)
        load_a(p, first, count, row);
    else
        load_b(p, first, count, row);
}

/* The scales of A's rows: the greatest magnitude becomes 127. */
static void find_scales(const problem *p) {
    const gemm_case *const item = p->item;
    const size_t rows = (size_t)(gemm_case_batch(item) * item->m);
    for (size_t row = 0; row < rows; row++)
        p->a_scales[row] = 0;
    for (size_t place = 0; place < gemm_case_elements(item, OP_GEMM_A); place++) {
        float *const most = &p->a_scales[row_of(item, place)];
        double value;
        load_stored(gemm_types_dtype(item->types, OP_GEMM_A), p->a, place, 1, &value);
        *most = fmaxf(*most, fabsf((float)value));
    }
    for (size_t row = 0; row < rows; row++)
        p->a_scales[row] /= 127;
}

static double load_one(const problem *p, op_gemm_operand operand, size_t place) {
    double value;
    load_row(p, operand, place, 1, &value);
    return value;
}

/* B·r for weights r, and |B|·1, along the rows of B as it is stored. */
static void multiply_b(const problem *p, const double *weights, size_t batch) {
    const size_t n = (size_t)p->item->n;
    const size_t k = (size_t)p->item->k;
    const size_t lines = p->item->transpose_b ? n : k;
    const size_t length = p->item->transpose_b ? k : n;
    memset(p->products, 0, k * sizeof *p->products);
    for (size_t line = 0; line < lines; line++) {
        load_row(p, OP_GEMM_B, (batch * lines + line) * length, length, p->row);
        for (size_t i = 0; i < length; i++) {
            answer *const product = &p->products[p->item->transpose_b ? i : line];
            product->value += p->row[i] * weights[p->item->transpose_b ? line : i];
            product->size += fabs(p->row[i]);
        }
    }
}

/* A·(B·r), and |A|·(|B|·1), along the rows of A as it is stored. */
static void multiply_a(const problem *p, size_t batch, answer *rows) {
    const size_t m = (size_t)p->item->m;
    const size_t k = (size_t)p->item->k;
    const size_t lines = p->item->transpose_a ? k : m;
    const size_t length = p->item->transpose_a ? m : k;
    memset(rows, 0, m * sizeof *rows);
    for (size_t line = 0; line < lines; line++) {
        load_row(p, OP_GEMM_A, (batch * lines + line) * length, length, p->row);
        for (size_t i = 0; i < length; i++) {
            const answer *const product = &p->products[p->item->transpose_a ? line : i];
            answer *const row = &rows[p->item->transpose_a ? i : line];
            row->value += p->row[i] * product->value;
            row->size += fabs(p->row[i]) * product->size;
        }
    }
}

static void compute_entry(const problem *p, sampled_entry *entry) {
    const gemm_case *const item = p->item;
    const size_t m = (size_t)item->m;
    const size_t n = (size_t)item->n;
    const size_t k = (size_t)item->k;
    const size_t a_first = entry->batch * m * k + (item->transpose_a ? entry->row : entry->row * k);
    const size_t b_first =
        entry->batch * k * n + (item->transpose_b ? entry->column * k : entry->column);
    entry->exact = (answer){0, 0};
    for (size_t i = 0; i < k; i++) {
        const size_t a_at = a_first + (item->transpose_a ? i * m : i);
        const size_t b_at = b_first + (item->transpose_b ? i : i * n);
        const double product = load_one(p, OP_GEMM_A, a_at) * load_one(p, OP_GEMM_B, b_at);
        entry->exact.value += product;
        entry->exact.size += fabs(product);
    }
}

/* Squares of D, of all matrices. */
static size_t count_squares(const gemm_case *item) {
    const size_t down = ((size_t)item->m + SQUARE - 1) / SQUARE;
    const size_t across = ((size_t)item->n + SQUARE - 1) / SQUARE;
    return (size_t)gemm_case_batch(item) * down * across;
}

/* Somewhere in a square; those at the edges are smaller. */
static void choose_in_square(const gemm_case *item, uint64_t square, sampled_entry *entry) {
    const uint64_t m = (uint64_t)item->m, n = (uint64_t)item->n;
    const uint64_t down = (m + SQUARE - 1) / SQUARE, across = (n + SQUARE - 1) / SQUARE;
    const uint64_t row = square / across % down * SQUARE, column = square % across * SQUARE;
    const uint64_t bits = random_bits(item->seed + 4000, square);
    entry->batch = square / (down * across);
    entry->row = row + bits % (m - row < SQUARE ? m - row : SQUARE);
    entry->column = column + (bits >> 32) % (n - column < SQUARE ? n - column : SQUARE);
}

static void choose_entry(const gemm_case *item, uint64_t number, sampled_entry *entry) {
    const uint64_t m = (uint64_t)item->m;
    const uint64_t n = (uint64_t)item->n;
    const uint64_t seed = item->seed + 1000;
    if (number >= SAMPLED_ENTRIES) {
        choose_in_square(item, number - SAMPLED_ENTRIES, entry);
        return;
    }
    if (number < CORNERS) {
        entry->batch = number < CORNERS / 2 ? 0 : (size_t)gemm_case_batch(item) - 1;
        entry->row = number % 2 == 0 ? 0 : m - 1;
        entry->column = number == 0 || number == CORNERS - 1 ? 0 : n - 1;
        return;
    }
    entry->batch = random_bits(seed, 3 * number) % (uint64_t)gemm_case_batch(item);
    entry->row = random_bits(seed, 3 * number + 1) % m;
    entry->column = random_bits(seed, 3 * number + 2) % n;
}

/*
 * Signs keep the errors of floats apart from those of a wrong entry. Where sums are exact, the more weights there are the
 * fewer wrong rows go unseen; with these, sums stay below 2^53 whatever the case.
 */
static double weight_of(const gemm_case *item, size_t column) {
    const uint64_t bits = random_bits(item->seed + 2000, column);
    if (gemm_types_exact(item->types))
        return 2 * (double)(bits % 256) - 255;
    return (bits & 1) != 0 ? 1 : -1;
}

/* D is no linear function of the sums. */
static int is_bent(const gemm_case *item) {
    return gemm_types_requantized(item->types) || item->epilogue.bias || item->epilogue.residual ||
           item->epilogue.activation != TDM_ACT_NONE;
}

static void add_term(const gemm_case *item, op_gemm_operand operand, const void *stored,
                     size_t place, answer *sum) {
    if (stored == NULL)
        return;
    const double term = tdm_number_get(gemm_case_dtype(item, operand), stored, place);
    sum->value += term;
    sum->size += fabs(term);
}

/* What the store makes of a sum before it is rounded. */
static void add_epilogue(const problem *p, sampled_entry *entry) {
    const gemm_case *const item = p->item;
    const size_t row = entry->batch * (size_t)item->m + entry->row;
    add_term(item, OP_GEMM_BIAS, p->bias, entry->column, &entry->exact);
    add_term(item, OP_GEMM_RESIDUAL, p->residual, row * (size_t)item->n + entry->column,
             &entry->exact);
    if (!gemm_types_requantized(item->types))
        entry->exact.value = op_gemm_activate(entry->exact.value, item->epilogue.activation);
}

/* What an exact sum becomes, and by how much it may be missed. */
static void requantize(const gemm_case *item, sampled_entry *entry) {
    const tdm_quant_parameters parameters = {
        tdm_quant_multiplier(gemm_case_scale(item, OP_GEMM_A, 0, 0),
                             gemm_case_scale(item, OP_GEMM_B, 0, (int64_t)entry->column),
                             gemm_case_scale(item, OP_GEMM_D, 0, 0)),
        gemm_case_zero_point(item, OP_GEMM_D)};
    const double product = entry->exact.value * (double)parameters.scale;
    const int is_signed = gemm_types_dtype(item->types, OP_GEMM_D) == TDM_S8;
    tdm_quant_range range = is_signed ? (tdm_quant_range){-128, 127} : (tdm_quant_range){0, 255};
    if (item->epilogue.activation == TDM_ACT_RELU)
        range.low = parameters.zero_point;
    entry->exact.size = fabs(fabs(product - floor(product)) - 0.5) < near_tie;
    entry->exact.value =
        (double)tdm_quant_requantize((int32_t)entry->exact.value, parameters, range);
}

static void multiply_by_weights(const problem *p, gemm_answers *answers) {
    const gemm_case *const item = p->item;
    for (size_t j = 0; j < (size_t)item->n; j++)
        answers->weights[j] = weight_of(item, j);
    for (size_t batch = 0; batch < (size_t)gemm_case_batch(item); batch++) {
        multiply_b(p, answers->weights, batch);
        multiply_a(p, batch, answers->rows + batch * (size_t)item->m);
    }
}

static void compute_answers(const problem *p, gemm_answers *answers) {
    const gemm_case *const item = p->item;
    if (gemm_types_dynamic(item->types))
        find_scales(p);
    if (!is_bent(item))
        multiply_by_weights(p, answers);
    for (size_t i = 0; i < answers->entry_count; i++) {
        choose_entry(item, i, &answers->entries[i]);
        compute_entry(p, &answers->entries[i]);
        add_epilogue(p, &answers->entries[i]);
        if (gemm_types_requantized(item->types))
            requantize(item, &answers->entries[i]);
    }
    answers->ready = 1;
}

/* -1 when memory is short. */
static int prepare_answers(const gemm_case *item, gemm_answers *answers) {
    const int64_t longest = item->m > item->n ? item->m : item->n;
    const size_t row = (size_t)(longest > item->k ? longest : item->k);
    void *const a = gemm_case_create(item, OP_GEMM_A);
    void *const b = gemm_case_create(item, OP_GEMM_B);
    void *const bias = item->epilogue.bias ? gemm_case_create(item, OP_GEMM_BIAS) : NULL;
    void *const residual =
        item->epilogue.residual ? gemm_case_create(item, OP_GEMM_RESIDUAL) : NULL;
    const problem p = {
        .item = item,
        .a = a,
        .b = b,
        .bias = bias,
        .residual = residual,
        .a_scales = malloc((size_t)(gemm_case_batch(item) * item->m) * sizeof *p.a_scales),
        .row = malloc(row * sizeof *p.row),
        .products = malloc((size_t)item->k * sizeof *p.products),
    };
    answers->entry_count = SAMPLED_ENTRIES + (is_bent(item) ? count_squares(item) : 0);
    answers->entries = malloc(answers->entry_count * sizeof *answers->entries);
    answers->rows = malloc((size_t)(gemm_case_batch(item) * item->m) * sizeof *answers->rows);
    answers->weights = calloc((size_t)item->n, sizeof *answers->weights);
    if (a != NULL && b != NULL && (bias != NULL || !item->epilogue.bias) &&
        (residual != NULL || !item->epilogue.residual) && p.a_scales != NULL && p.row != NULL &&
        p.products != NULL && answers->entries != NULL && answers->rows != NULL &&
        answers->weights != NULL)
        compute_answers(&p, answers);
    free(a);
    free(b);
    free(bias);
    free(residual);
    free(p.a_scales);
    free(p.row);
    free(p.products);
    return answers->ready ? 0 : -1;
}

static void drop_answers(gemm_answers *answers) {
    free(answers->entries);
    free(answers->rows);
    free(answers->weights);
    memset(answers, 0, sizeof *answers);
}

/* Whether the operands, and so the answers, are the same. */
static int same_data(const gemm_case *left, const gemm_case *right) {
    return left->types == right->types && left->m == right->m && left->n == right->n &&
           left->k == right->k && gemm_case_batch(left) == gemm_case_batch(right) &&
           left->transpose_a == right->transpose_a && left->transpose_b == right->transpose_b &&
           left->epilogue.bias == right->epilogue.bias &&
           left->epilogue.residual == right->epilogue.residual &&
           left->epilogue.activation == right->epilogue.activation && left->seed == right->seed;
}

int gemm_oracle_set(gemm_oracle *oracle, const gemm_case *item) {
    if (oracle->answers == NULL)
        oracle->answers = calloc(1, sizeof *oracle->answers);
    else if (!same_data(&oracle->item, item))
        drop_answers(oracle->answers);
    oracle->item = *item;
    return oracle->answers == NULL ? -1 : 0;
}

void gemm_oracle_release(gemm_oracle *oracle) {
    if (oracle->answers != NULL)
        drop_answers(oracle->answers);
    free(oracle->answers);
    oracle->answers = NULL;
}

/* Of one entry. */
static double bound_of(const gemm_case *item, double value, double size) {
    const op_gemm_case operation = gemm_case_operation(item);
    if (gemm_types_requantized(item->types))
        return size;
    return gemm_types_exact(item->types) ? 0 : op_gemm_bound(&operation, value, size);
}

static double output_value(const gemm_case *item, const void *output, size_t place) {
    return tdm_number_get(gemm_types_dtype(item->types, OP_GEMM_D), output, place);
}

static void check_entry(const gemm_oracle *oracle, const sampled_entry *entry, const void *output,
                        gemm_verdict *verdict) {
    const gemm_case *const item = &oracle->item;
    const size_t row = entry->batch * (size_t)item->m + entry->row;
    const double got = output_value(item, output, row * (size_t)item->n + entry->column);
    const double error = fabs(got - entry->exact.value);
    const double bound = bound_of(item, entry->exact.value, entry->exact.size);
    const double relative = error / (entry->exact.size > 0 ? entry->exact.size : 1);
    /* Written so that a NaN fails. */
    if (!(relative <= verdict->max_error) && !isnan(verdict->max_error))
        verdict->max_error = relative;
    if (error <= bound || !verdict->right)
        return;
    verdict->right = 0;
    snprintf(verdict->reason, sizeof verdict->reason,
             "D[%zu][%zu] is %.10g, should be %.10g within %.2g", row, entry->column, got,
             entry->exact.value, bound);
}

static void check_row(const gemm_oracle *oracle, size_t row, const void *output,
                      gemm_verdict *verdict) {
    const gemm_case *const item = &oracle->item;
    const answer *const expected = &oracle->answers->rows[row];
    const size_t n = (size_t)item->n;
    double got = 0;
    double got_size = 0;
    for (size_t j = 0; j < n; j++) {
        const double entry = output_value(item, output, row * n + j);
        got += entry * oracle->answers->weights[j];
        got_size += fabs(entry);
    }
    const double entry_bound = bound_of(item, got_size, expected->size);
    const double bound = freivalds_factor * entry_bound / sqrt((double)n);
    /* An infinite entry would widen the bound to infinity too. */
    if ((isfinite(got) && fabs(got - expected->value) <= bound) || !verdict->right)
        return;
    verdict->right = 0;
    snprintf(verdict->reason, sizeof verdict->reason,
             "row %zu of D times a random vector is %.9g, should be %.9g within %.2g", row, got,
             expected->value, bound);
}

int gemm_oracle_verify(const gemm_oracle *oracle, const void *output, size_t bytes,
                       gemm_verdict *verdict) {
    const gemm_case *const item = &oracle->item;
    *verdict = (gemm_verdict){.right = 1};
    if (bytes != gemm_case_bytes(item, OP_GEMM_D)) {
        verdict->right = 0;
        verdict->max_error = NAN;
        snprintf(verdict->reason, sizeof verdict->reason, "the output has %zu bytes, not %zu",
                 bytes, gemm_case_bytes(item, OP_GEMM_D));
        return 0;
    }
    if (!oracle->answers->ready && prepare_answers(item, oracle->answers) != 0)
        return -1;
    for (size_t i = 0; i < oracle->answers->entry_count; i++)
        check_entry(oracle, &oracle->answers->entries[i], output, verdict);
    for (size_t row = 0; !is_bent(item) && row < (size_t)(gemm_case_batch(item) * item->m); row++)
        check_row(oracle, row, output, verdict);
    return 0;
}

int gemm_oracle_check(const void *user, const void *output, size_t bytes, double *max_error,
                      worker_text *reason) {
    gemm_verdict verdict;
    if (gemm_oracle_verify(user, output, bytes, &verdict) != 0) {
        worker_text_set(reason, "out of host memory");
        return -1;
    }
    *max_error = verdict.max_error;
    worker_text_set(reason, "%s", verdict.reason);
    return verdict.right ? 0 : -1;
}
