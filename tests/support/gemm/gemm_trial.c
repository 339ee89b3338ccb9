#include "tests/support/gemm/gemm_trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/devices/variant_cases.h"
#include "tests/support/gemm/gemm_table.h"

enum {
    SAMPLED_ENTRIES = 200
};

/*
 * The rounding errors of a row sum have random signs, so their sum grows with √n. A sum six times
 * as large occurs less than once in 10^8 rows.
 */
static const double freivalds_factor = 6;

static const char *dtype_or_dash(tdm_dtype dtype) {
    return dtype == TDM_DTYPE_NONE ? "-" : tdm_dtype_name(dtype);
}

const char *gemm_trial_text(const gemm_trial *trial, char text[512]) {
    const op_gemm_case *const item = &trial->item;
    int64_t shape[TDM_MAX_RANK];
    size_t used = (size_t)snprintf(
        text, 512,
        "%s*%s>%s m%lld n%lld k%lld %c%c alpha %g beta %g C %s%s bias %s residual %s%s%s act %d",
        dtype_or_dash(item->dtype[OP_GEMM_A]), dtype_or_dash(item->dtype[OP_GEMM_B]),
        dtype_or_dash(item->dtype[OP_GEMM_D]), (long long)item->m, (long long)item->n,
        (long long)item->k, item->transpose_a ? 't' : 'n', item->transpose_b ? 't' : 'n',
        (double)item->alpha, (double)item->beta, dtype_or_dash(item->dtype[OP_GEMM_C]),
        trial->c_source == GEMM_SAME ? "=D" : "", dtype_or_dash(item->dtype[OP_GEMM_BIAS]),
        dtype_or_dash(item->dtype[OP_GEMM_RESIDUAL]),
        trial->residual_source == GEMM_SAME ? "=D" : "", item->gated ? " gated" : "",
        (int)item->activation);
    for (int i = 0; i < OP_GEMM_OPERANDS; i++)
        if (item->dtype[i] != TDM_DTYPE_NONE)
            used += (size_t)snprintf(text + used, 512 - used, " %c:%s", "ABCDbR"[i],
                                     test_placement_name(trial->placement[i]));
    for (int i = 0; i < OP_GEMM_OPERANDS && item->batch_rank > 0; i++) {
        const int rank = op_gemm_shape(item, (op_gemm_operand)i, shape);
        char shape_text[128];
        if (item->dtype[i] != TDM_DTYPE_NONE && i != OP_GEMM_BIAS)
            used += (size_t)snprintf(text + used, 512 - used, " %c%s", "ABCDbR"[i],
                                     test_shape_text(rank, shape, shape_text));
    }
    snprintf(text + used, 512 - used, "%s%s%s%s", trial->equal_terms ? " equal terms" : "",
             trial->packed_b ? " packed" : "", item->exact ? " exact" : "",
             item->allow_3xtf32 ? " 3xtf32" : "");
    return text;
}

/* ---- arrays ---- */

typedef struct arena {
    const gemm_trial *trial;
    test_array arrays[OP_GEMM_OPERANDS];
    double *dense[OP_GEMM_OPERANDS]; /* logical values, op() applied, all matrices of the operand */
} arena;

static int is_same_as_d(const gemm_trial *trial, int operand) {
    return (operand == OP_GEMM_C && trial->c_source == GEMM_SAME) ||
           (operand == OP_GEMM_RESIDUAL && trial->residual_source == GEMM_SAME);
}

static double *allocate(int64_t count) {
    double *const values = malloc(((size_t)count + 1) * sizeof *values);
    if (!values)
        test_case_fail("no host memory for %lld numbers", (long long)count);
    return values;
}

/* Returns the logical values of an array. Stored matrices are transposed if op() transposes. */
static double *take_values(const arena *r, int operand) {
    const op_gemm_case *const item = &r->trial->item;
    const test_array *const array =
        &r->arrays[is_same_as_d(r->trial, operand) ? OP_GEMM_D : operand];
    const int64_t count = test_array_count(array);
    const int flipped =
        (operand == OP_GEMM_A && item->transpose_a) || (operand == OP_GEMM_B && item->transpose_b);
    const int64_t rows = operand == OP_GEMM_B ? item->k : item->m;
    const int64_t columns = operand == OP_GEMM_A ? item->k : item->n;
    double *const values = allocate(count);
    for (int64_t i = 0; i < count; i++) {
        const int64_t matrix = i / (rows * columns), row = i / columns % rows, column = i % columns;
        values[i] =
            test_array_get(array, flipped ? matrix * rows * columns + column * rows + row : i);
    }
    return values;
}

/* C stays poison if beta is 0, because it must not be read then: its NaNs would reach D. */
static void fill(arena *r, int operand) {
    const gemm_trial *const trial = r->trial;
    const op_gemm_case *const item = &trial->item;
    const int read = operand == OP_GEMM_D ? (trial->c_source == GEMM_SAME && item->beta != 0) ||
                                                trial->residual_source == GEMM_SAME
                                          : operand != OP_GEMM_C || item->beta != 0;
    const int constant = trial->equal_terms && (operand == OP_GEMM_A || operand == OP_GEMM_B);
    for (int64_t i = 0; constant && i < test_array_count(&r->arrays[operand]); i++)
        test_array_put(&r->arrays[operand], i, operand == OP_GEMM_A ? 0.1 : 1.1);
    if (read && !constant)
        test_array_fill(&r->arrays[operand], item->exact ? TEST_DATA_SMALL_INTEGER : TEST_DATA_UNIT,
                        item->seed + (uint64_t)operand * 7919);
    test_array_send(&r->arrays[operand]);
}

static void create(arena *r, const test_device *device, const gemm_trial *trial) {
    *r = (arena){.trial = trial};
    for (int i = 0; i < OP_GEMM_OPERANDS; i++) {
        if (trial->item.dtype[i] == TDM_DTYPE_NONE || is_same_as_d(trial, i))
            continue;
        int64_t shape[TDM_MAX_RANK];
        const int rank = op_gemm_shape(&trial->item, (op_gemm_operand)i, shape);
        test_array_create(&r->arrays[i], device, trial->item.dtype[i], rank, shape,
                          trial->placement[i]);
        fill(r, i);
    }
    for (int i = 0; i < OP_GEMM_OPERANDS; i++) {
        const int read = i != OP_GEMM_D && (i != OP_GEMM_C || trial->item.beta != 0);
        if (trial->item.dtype[i] != TDM_DTYPE_NONE && read)
            r->dense[i] = i == OP_GEMM_BIAS ? NULL : take_values(r, i);
    }
    if (trial->item.dtype[OP_GEMM_BIAS] != TDM_DTYPE_NONE) {
        r->dense[OP_GEMM_BIAS] = allocate(trial->item.n);
        for (int64_t j = 0; j < trial->item.n; j++)
            r->dense[OP_GEMM_BIAS][j] = test_array_get(&r->arrays[OP_GEMM_BIAS], j);
    }
}

static void destroy(arena *r) {
    for (int i = 0; i < OP_GEMM_OPERANDS; i++) {
        if (r->arrays[i].buffer)
            test_array_destroy(&r->arrays[i]);
        free(r->dense[i]);
    }
}

static const tdm_tensor *tensor_of(const arena *r, int operand) {
    if (r->trial->item.dtype[operand] == TDM_DTYPE_NONE)
        return NULL;
    return r->arrays[is_same_as_d(r->trial, operand) ? OP_GEMM_D : operand].tensor;
}

/* ---- the run ---- */

static tdm_layout layout_of(const arena *r, int operand) {
    tdm_layout layout = {0};
    const tdm_tensor *const tensor = tensor_of(r, operand);
    if (tensor)
        TEST_OK(tdm_tensor_layout(tensor, &layout));
    return layout;
}

static tdm_gemm_desc describe(const arena *r) {
    const op_gemm_case *const item = &r->trial->item;
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    desc.a = layout_of(r, OP_GEMM_A);
    desc.b = layout_of(r, OP_GEMM_B);
    desc.c = layout_of(r, OP_GEMM_C);
    desc.d = layout_of(r, OP_GEMM_D);
    desc.bias = layout_of(r, OP_GEMM_BIAS);
    desc.residual = layout_of(r, OP_GEMM_RESIDUAL);
    desc.transpose_a = item->transpose_a;
    desc.transpose_b = item->transpose_b;
    desc.alpha = item->alpha;
    desc.beta = item->beta;
    desc.activation = item->activation;
    desc.gated = item->gated;
    desc.packed_b = r->trial->packed_b;
    desc.allow_3xtf32 = item->allow_3xtf32;
    desc.variant = r->trial->variant;
    return desc;
}

static void run_on(const arena *r, const test_device *device) {
    const tdm_gemm_desc desc = describe(r);
    tdm_gemm_plan *plan = NULL;
    tdm_packed *packed = NULL;
    TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
    /* Parameters may follow the name. */
    const char *const taken = tdm_gemm_plan_variant(plan), *const forced = r->trial->variant;
    if (forced &&
        (strlen(taken) != strcspn(forced, ":") || strncmp(taken, forced, strlen(taken)) != 0))
        test_case_fail("the plan took %s", taken);
    tdm_buffer *const workspace = gemm_workspace(device, plan);
    if (desc.packed_b)
        TEST_OK(tdm_gemm_pack_b(plan, device->stream, tensor_of(r, OP_GEMM_B), &packed));
    tdm_gemm_args args = TDM_GEMM_ARGS_INIT;
    args.a = tensor_of(r, OP_GEMM_A);
    args.b = packed ? NULL : tensor_of(r, OP_GEMM_B);
    args.packed_b = packed;
    args.c = tensor_of(r, OP_GEMM_C);
    args.bias = tensor_of(r, OP_GEMM_BIAS);
    args.residual = tensor_of(r, OP_GEMM_RESIDUAL);
    args.d = r->arrays[OP_GEMM_D].tensor;
    args.workspace = workspace;
    TEST_OK(tdm_gemm_plan_run(plan, device->stream, &args));
    // All of these may be destroyed while the work is in flight.
    tdm_packed_destroy(packed);
    tdm_buffer_destroy(workspace);
    tdm_gemm_plan_destroy(plan);
}

/* ---- the oracle: plain C in double precision, one matrix ---- */

/* Dense row-major operands; c, bias and residual may be NULL. */
typedef struct oracle_gemm {
    int64_t m, n, k;
    const double *a; /* m×k */
    const double *b; /* k×n */
    const double *c; /* m×n; never read when beta is 0 */
    const double *bias;
    const double *residual;
    double alpha, beta;
    tdm_activation activation;
    int gated;
} oracle_gemm;

/*
 * Computes the entries [i, j] to [i, j + count) of A·B and of |A||B|. A call for a whole row
 * traverses B along its rows.
 */
static void oracle_gemm_sums(const oracle_gemm *problem, int64_t i, int64_t j, int64_t count,
                             double *restrict sums, double *restrict magnitudes) {
    for (int64_t c = 0; c < count; c++)
        sums[c] = magnitudes[c] = 0;
    for (int64_t p = 0; p < problem->k; p++) {
        const double a = problem->a[i * problem->k + p];
        const double *const b = problem->b + p * problem->n + j;
        for (int64_t c = 0; c < count; c++) {
            sums[c] += a * b[c];
            magnitudes[c] += fabs(a * b[c]);
        }
    }
}

/*
 * d = act(alpha·A·B + beta·C + bias + residual), or gated act(alpha·A·B + beta·C + bias)·residual,
 * at [i, j]. The error bound is relative to `size` as op_gemm_bound describes it.
 */
static void oracle_gemm_entry(const oracle_gemm *problem, int64_t i, int64_t j, double sum,
                              double magnitude, double *d, double *size) {
    const int64_t at = i * problem->n + j;
    double x = problem->alpha * sum;
    *size = fabs(problem->alpha) * magnitude;
    if (problem->beta != 0) {
        x += problem->beta * problem->c[at];
        *size += fabs(problem->beta * problem->c[at]);
    }
    if (problem->bias) {
        x += problem->bias[j];
        *size += fabs(problem->bias[j]);
    }
    if (problem->residual && !problem->gated) {
        x += problem->residual[at];
        *size += fabs(problem->residual[at]);
    }
    *d = op_gemm_activate(x, problem->activation);
    if (problem->gated) {
        *d *= problem->residual[at];
        *size *= fabs(problem->residual[at]);
    }
}

/* ---- the check ---- */

static oracle_gemm oracle_of(const arena *r, int64_t entry) {
    const op_gemm_case *const item = &r->trial->item;
    const double *matrix[OP_GEMM_OPERANDS] = {0};
    const int64_t sizes[OP_GEMM_OPERANDS] = {[OP_GEMM_A] = item->m * item->k,
                                             [OP_GEMM_B] = item->k * item->n,
                                             [OP_GEMM_C] = item->m * item->n,
                                             [OP_GEMM_RESIDUAL] = item->m * item->n};
    for (int i = 0; i < OP_GEMM_OPERANDS; i++)
        if (r->dense[i])
            matrix[i] =
                r->dense[i] + (i == OP_GEMM_BIAS
                                   ? 0
                                   : sizes[i] * op_gemm_entry_of(item, (op_gemm_operand)i, entry));
    return (oracle_gemm){.m = item->m,
                         .n = item->n,
                         .k = item->k,
                         .a = matrix[OP_GEMM_A],
                         .b = matrix[OP_GEMM_B],
                         .c = matrix[OP_GEMM_C],
                         .bias = matrix[OP_GEMM_BIAS],
                         .residual = matrix[OP_GEMM_RESIDUAL],
                         .alpha = (double)item->alpha,
                         .beta = (double)item->beta,
                         .activation = item->activation,
                         .gated = item->gated};
}

static void check_entry(const arena *r, const oracle_gemm *oracle, int64_t entry, int64_t i,
                        int64_t j, double sum, double magnitude) {
    const op_gemm_case *const item = &r->trial->item;
    double d, size;
    oracle_gemm_entry(oracle, i, j, sum, magnitude, &d, &size);
    const double got =
        test_array_fetched(&r->arrays[OP_GEMM_D], (entry * item->m + i) * item->n + j);
    if (item->exact && item->activation <= TDM_ACT_RELU) {
        // The sum is exact in f32 and rounded once to D's dtype.
        test_array rounded = r->arrays[OP_GEMM_D];
        test_array_put(&rounded, (entry * item->m + i) * item->n + j, d);
        if (got != test_array_get(&rounded, (entry * item->m + i) * item->n + j))
            test_case_fail("D[%lld][%lld][%lld] is %.9g, must be exactly %.9g", (long long)entry,
                           (long long)i, (long long)j, got, d);
        return;
    }
    const double bound = op_gemm_bound(item, d, size);
    if (!(fabs(got - d) <= bound))
        test_case_fail("D[%lld][%lld][%lld] is %.9g, should be %.9g within %.3g", (long long)entry,
                       (long long)i, (long long)j, got, d, bound);
}

/* Compares row i of D times a vector of signs with A·(B·signs), all in double. */
static void check_row(const arena *r, const oracle_gemm *o, int64_t entry, int64_t i,
                      const double *signs, const double *product, const double *magnitude) {
    const op_gemm_case *const item = &r->trial->item;
    double expected = 0, size = 0, got = 0, got_size = 0;
    for (int64_t p = 0; p < o->k; p++) {
        expected += o->alpha * o->a[i * o->k + p] * product[p];
        size += fabs(o->alpha * o->a[i * o->k + p]) * magnitude[p];
    }
    for (int64_t j = 0; j < o->n; j++) {
        const double value =
            test_array_fetched(&r->arrays[OP_GEMM_D], (entry * o->m + i) * o->n + j);
        got += value * signs[j];
        got_size += fabs(value);
    }
    const double bound = freivalds_factor / sqrt((double)o->n) *
                         (op_gemm_roundoff(item->dtype[OP_GEMM_D]) * got_size +
                          OP_GEMM_BOUND_FACTOR * sqrt((double)o->k) * 0x1p-24 * size);
    if (!(fabs(got - expected) <= bound))
        test_case_fail("row %lld of D times a vector of signs is %.9g, should be %.9g within %.3g",
                       (long long)i, got, expected, bound);
}

static void check_rows(const arena *r, const oracle_gemm *o, int64_t entry) {
    test_random random = {r->trial->item.seed + 1};
    double *const signs = allocate(o->n), *const product = allocate(o->k),
                  *const magnitude = allocate(o->k);
    for (int64_t j = 0; j < o->n; j++)
        signs[j] = test_random_bits(&random) & 1 ? 1 : -1;
    for (int64_t p = 0; p < o->k; p++) {
        product[p] = magnitude[p] = 0;
        for (int64_t j = 0; j < o->n; j++) {
            product[p] += o->b[p * o->n + j] * signs[j];
            magnitude[p] += fabs(o->b[p * o->n + j]);
        }
    }
    for (int64_t i = 0; i < o->m; i++)
        check_row(r, o, entry, i, signs, product, magnitude);
    free(signs);
    free(product);
    free(magnitude);
}

static void check(const arena *r, int64_t entry) {
    const op_gemm_case *const item = &r->trial->item;
    const oracle_gemm oracle = oracle_of(r, entry);
    test_random random = {item->seed + 2};
    if (!r->trial->large) {
        double *const sums = allocate(item->n), *const magnitudes = allocate(item->n);
        for (int64_t i = 0; i < item->m; i++) {
            oracle_gemm_sums(&oracle, i, 0, item->n, sums, magnitudes);
            for (int64_t j = 0; j < item->n; j++)
                check_entry(r, &oracle, entry, i, j, sums[j], magnitudes[j]);
        }
        free(sums);
        free(magnitudes);
        return;
    }
    check_rows(r, &oracle, entry);
    for (int s = 0; s < SAMPLED_ENTRIES; s++) {
        const int64_t i = s == 0 ? item->m - 1 : test_random_int(&random, 0, item->m - 1);
        const int64_t j = s == 0 ? item->n - 1 : test_random_int(&random, 0, item->n - 1);
        double sum, magnitude;
        oracle_gemm_sums(&oracle, i, j, 1, &sum, &magnitude);
        check_entry(r, &oracle, entry, i, j, sum, magnitude);
    }
}

void gemm_trial_run(const test_device *device, const gemm_trial *trial) {
    arena r;
    create(&r, device, trial);
    run_on(&r, device);
    test_array_fetch(&r.arrays[OP_GEMM_D]);
    for (int64_t entry = 0; entry < op_gemm_batch_count(&trial->item); entry++)
        check(&r, entry);
    destroy(&r);
}

void gemm_trial_case(const test_device *device, const gemm_trial *trial) {
    char text[512];
    if (!test_case_begin_forced(device, trial->variant, gemm_trial_text(trial, text)))
        return;
    gemm_trial_run(device, trial);
    test_case_end();
}
