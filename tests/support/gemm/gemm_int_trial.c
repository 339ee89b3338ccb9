#include "tests/support/gemm/gemm_int_trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/op_gemm.h"
#include "quant/number_formats.h"
#include "tests/support/devices/variant_cases.h"
#include "tests/support/gemm/gemm_table.h"

/* A matrix operand with its quantization parameters. */
typedef struct operand {
    test_array data, scale, zero;
    bool has_scale, has_zero;
    tdm_tensor *tensor; /* has the quantization parameters */
    int64_t rows, columns;
    bool transposed;
    int64_t entries; /* of the batch; 1 if shared */
    bool along_rows; /* parameters vary along rows, else along columns */
    gemm_int_spread spread;
    bool batched; /* parameters also vary along the batch */
} operand;

typedef struct gemm_int_run {
    const gemm_int_trial *trial;
    const test_device *device;
    operand a, b, d;
    test_array bias, c;
    test_random random;
} gemm_int_run;

const char *gemm_int_trial_text(const gemm_int_trial *t, char text[512]) {
    static const char *const spreads[] = {"none", "one", "each"};
    static const char *const kinds[] = {"uniform", "extreme", "ties"};
    snprintf(
        text, 512,
        "%s·s8→%s m%lld n%lld k%lld %c%c a %s%s %s b %s%s %s d %s%s %s bias %s act %d alpha %g%s "
        "batch %lldx%lld%s %s%s%s seed %llu",
        tdm_dtype_name(t->a), tdm_dtype_name(t->d), (long long)t->m, (long long)t->n,
        (long long)t->k, t->transpose_a ? 't' : 'n', t->transpose_b ? 't' : 'n',
        spreads[t->a_quant], t->a_zero ? "+zero" : "", test_placement_name(t->a_place),
        spreads[t->b_quant], t->b_zero ? "+zero" : "", test_placement_name(t->b_place),
        spreads[t->d_quant], t->d_zero ? "+zero" : "", test_placement_name(t->d_place),
        t->bias == TDM_DTYPE_NONE ? "none" : tdm_dtype_name(t->bias), (int)t->activation,
        (double)t->alpha, t->has_c ? " C" : "", (long long)t->outer, (long long)t->batch,
        t->shares_b ? " B shared" : "", kinds[t->data], t->packed_b ? " packed" : "",
        t->scale == TDM_F16    ? " f16 scales"
        : t->scale == TDM_BF16 ? " bf16 scales"
                               : "",
        (unsigned long long)t->seed);
    return text;
}

/* ---- reading a trial from text ---- */

static test_placement placement_named(const char *name) {
    int place = 0;
    while (strcmp(test_placement_name((test_placement)place), name) != 0)
        assert_true(++place < TEST_PLACEMENTS);
    return (test_placement)place;
}

static void read_operand(const char *word, gemm_int_spread *spread, int *zero,
                         test_placement *place) {
    if (word[1] == '@') {
        *place = placement_named(word + 2);
        return;
    }
    *spread = strncmp(word + 2, "each", 4) == 0 ? GEMM_INT_EACH : GEMM_INT_ONE;
    *zero = strstr(word, "+zero") != NULL;
}

static void read_word(gemm_int_trial *t, const char *word) {
    const char *const colon = strchr(word, ':'), *const value = colon ? colon + 1 : "";
    const struct {
        const char *name;
        int *flag;
    } flags[] = {{"C", &t->has_c},
                 {"ta", &t->transpose_a},
                 {"tb", &t->transpose_b},
                 {"packed", &t->packed_b},
                 {"shared", &t->shares_b}};
    for (size_t i = 0; i < sizeof flags / sizeof *flags; i++)
        if (strcmp(word, flags[i].name) == 0) {
            *flags[i].flag = 1;
            return;
        }
    if (strncmp(word, "A:", 2) == 0 || strncmp(word, "A@", 2) == 0)
        read_operand(word, &t->a_quant, &t->a_zero, &t->a_place);
    else if (strncmp(word, "B:", 2) == 0 || strncmp(word, "B@", 2) == 0)
        read_operand(word, &t->b_quant, &t->b_zero, &t->b_place);
    else if (strncmp(word, "D:", 2) == 0 || strncmp(word, "D@", 2) == 0)
        read_operand(word, &t->d_quant, &t->d_zero, &t->d_place);
    else if (strncmp(word, "bias:", 5) == 0)
        t->bias = tdm_dtype_from_name(value);
    else if (strncmp(word, "scale:", 6) == 0)
        t->scale = tdm_dtype_from_name(value);
    else if (strncmp(word, "batch:", 6) == 0)
        t->batch = strtol(value, NULL, 10);
    else if (strncmp(word, "outer:", 6) == 0)
        t->outer = strtol(value, NULL, 10);
    else if (strncmp(word, "alpha:", 6) == 0)
        t->alpha = strtof(value, NULL);
    else if (strcmp(word, "relu") == 0)
        t->activation = TDM_ACT_RELU;
    else if (strcmp(word, "extreme") == 0 || strcmp(word, "ties") == 0)
        t->data = word[0] == 'e' ? GEMM_INT_EXTREME : GEMM_INT_TIES;
    else
        fail_msg("\"%s\" says nothing of a trial", word);
}

gemm_int_trial gemm_int_trial_read(const char *text) {
    gemm_int_trial t = {.alpha = 1};
    char a[8], d[8], word[32], *rest;
    int used = 0;
    t.m = strtoll(text, &rest, 10);
    t.n = strtoll(rest + 1, &rest, 10);
    t.k = strtoll(rest + 1, &rest, 10);
    assert_int_equal(sscanf(rest, " %7[^>]>%7s%n", a, d, &used), 2);
    t.a = tdm_dtype_from_name(a);
    t.d = tdm_dtype_from_name(d);
    for (rest += used; sscanf(rest, "%31s%n", word, &used) == 1; rest += used)
        read_word(&t, word);
    return t;
}

/* ---- operands ---- */

static int operand_shape(const gemm_int_trial *t, const operand *o, int64_t shape[TDM_MAX_RANK]) {
    int rank = 0;
    const bool has_outer = t->outer > 0 && o->entries > 1;
    if (t->outer > 0)
        shape[rank++] = has_outer ? t->outer : 1;
    if (t->batch > 0)
        shape[rank++] = has_outer ? t->batch : o->entries;
    shape[rank++] = o->transposed ? o->columns : o->rows;
    shape[rank++] = o->transposed ? o->rows : o->columns;
    return rank;
}

static void create_parameters(gemm_int_run *run, operand *o, bool has_zero) {
    const tdm_dtype dtype = o->data.layout.dtype;
    int64_t shape[TDM_MAX_RANK];
    const int rank = operand_shape(run->trial, o, shape);
    const int vary = rank - (o->along_rows != o->transposed ? 2 : 1);
    tdm_quantization q = TDM_QUANTIZATION_INIT;
    for (int i = 0; i < rank; i++) {
        const bool each = o->spread == GEMM_INT_EACH && (i == vary || (i < rank - 2 && o->batched));
        q.block[i] = each ? 1 : 0;
        if (!each)
            shape[i] = 1;
    }
    const test_placement place = run->trial->seed % 2 ? TEST_DENSE : TEST_SPREAD;
    const tdm_dtype zero = run->trial->seed % 3 ? TDM_S32 : dtype;
    o->has_scale = true;
    test_array_create(&o->scale, run->device, run->trial->scale ? run->trial->scale : TDM_F32, rank,
                      shape, place);
    q.scale = o->scale.tensor;
    if (has_zero) {
        o->has_zero = true;
        test_array_create(&o->zero, run->device, zero, rank, shape, place);
        q.zero_point = o->zero.tensor;
    }
    TEST_OK(tdm_tensor_quantized(o->data.tensor, &q, &o->tensor));
}

static void create_operand(gemm_int_run *run, operand *o, tdm_dtype dtype, test_placement place,
                           bool has_zero) {
    int64_t shape[TDM_MAX_RANK];
    const int rank = operand_shape(run->trial, o, shape);
    test_array_create(&o->data, run->device, dtype, rank, shape, place);
    if (o->spread != GEMM_INT_NONE)
        create_parameters(run, o, has_zero);
}

static tdm_tensor *tensor_of(const operand *o) {
    return o->tensor ? o->tensor : o->data.tensor;
}

static int64_t element_index(const operand *o, int64_t entry, int64_t row, int64_t column) {
    const int64_t first = o->transposed ? column : row, second = o->transposed ? row : column;
    const int64_t width = o->transposed ? o->rows : o->columns;
    return ((o->entries > 1 ? entry : 0) * o->rows * o->columns) + first * width + second;
}

static int64_t parameter_index(const operand *o, int64_t entry, int64_t row, int64_t column) {
    if (o->spread != GEMM_INT_EACH)
        return 0;
    const int64_t own = o->along_rows ? row : column, count = o->along_rows ? o->rows : o->columns;
    return (o->batched && o->entries > 1 ? entry : 0) * count + own;
}

static float scale_at(const operand *o, int64_t entry, int64_t row, int64_t column) {
    return o->has_scale ? (float)test_array_get(&o->scale, parameter_index(o, entry, row, column))
                        : 1.0f;
}

static int64_t zero_at(const operand *o, int64_t entry, int64_t row, int64_t column) {
    return o->has_zero ? (int64_t)test_array_get(&o->zero, parameter_index(o, entry, row, column))
                       : 0;
}

/* ---- data ---- */

static void fill_zero(gemm_int_run *run, operand *o, bool extreme) {
    int32_t low, high;
    tdm_number_int_range(o->data.layout.dtype, &low, &high);
    const bool at_top = run->trial->seed % 2 == 0;
    for (int64_t i = 0; o->has_zero && i < test_array_count(&o->zero); i++)
        test_array_put(&o->zero, i,
                       extreme ? (at_top ? high : low)
                               : (double)test_random_int(&run->random, low, high));
    if (o->has_zero)
        test_array_send(&o->zero);
}

/*
 * Fills with one end of the dtype's range, to make the largest sums. The parity of the seed selects
 * the end, except that u8 without zero points always gets the upper end. Zero points get the
 * opposite end.
 */
static void fill_extreme(gemm_int_run *run, operand *o) {
    int32_t low, high;
    tdm_number_int_range(o->data.layout.dtype, &low, &high);
    const bool top = run->trial->seed % 2 != 0 || (!o->has_zero && low == 0);
    for (int64_t i = 0; i < test_array_count(&o->data); i++)
        test_array_put(&o->data, i, top ? high : low);
    test_array_send(&o->data);
}

static void fill_scale(gemm_int_run *run, operand *o, double least, double most) {
    for (int64_t i = 0; o->has_scale && i < test_array_count(&o->scale); i++)
        test_array_put(&o->scale, i,
                       run->trial->data == GEMM_INT_TIES
                           ? ldexp(1.0, (int)test_random_int(&run->random, -2, 0))
                           : test_random_uniform(&run->random, least, most));
    if (o->has_scale)
        test_array_send(&o->scale);
}

static void fill_input(gemm_int_run *run, operand *o, uint64_t seed) {
    switch (run->trial->data) {
    case GEMM_INT_EXTREME:
        fill_extreme(run, o);
        break;
    case GEMM_INT_TIES:
        test_array_fill(&o->data, TEST_DATA_SMALL_INTEGER, seed);
        break;
    default:
        test_array_fill(&o->data, TEST_DATA_UNIT, seed);
    }
    fill_zero(run, o, run->trial->data == GEMM_INT_EXTREME);
    fill_scale(run, o, 0.001, 0.1);
}

/* Chooses scales of D with which most sums spread over its range and some saturate. */
static void fill_output(gemm_int_run *run) {
    const gemm_int_trial *const t = run->trial;
    const double real = 0.05 * (run->a.has_scale ? 1 : 20) * 0.05 * (run->b.has_scale ? 1 : 20);
    const double size = real * sqrt((double)t->k + 1) * 6000 / 60;
    fill_scale(run, &run->d, 0.3 * size, 1.5 * size);
    fill_zero(run, &run->d, t->data == GEMM_INT_EXTREME);
    test_array_send(&run->d.data);
}

static void create(gemm_int_run *run) {
    const gemm_int_trial *const t = run->trial;
    const int64_t entries = (t->batch > 0 ? t->batch : 1) * (t->outer > 0 ? t->outer : 1);
    const bool narrow = t->d == TDM_S8 || t->d == TDM_U8;
    run->a = (operand){.rows = t->m,
                       .columns = t->k,
                       .transposed = t->transpose_a,
                       .entries = entries,
                       .along_rows = true,
                       .spread = t->a_quant,
                       .batched = true};
    run->b = (operand){.rows = t->k,
                       .columns = t->n,
                       .transposed = t->transpose_b,
                       .entries = t->shares_b ? 1 : entries,
                       .spread = t->b_quant,
                       .batched = true};
    run->d = (operand){.rows = t->m,
                       .columns = t->n,
                       .entries = entries,
                       .spread = narrow ? t->d_quant : GEMM_INT_NONE};
    create_operand(run, &run->a, t->a, t->a_place, t->a_zero);
    create_operand(run, &run->b, TDM_S8, t->b_place, t->b_zero);
    create_operand(run, &run->d, t->d, t->d_place, t->d_zero);
    fill_input(run, &run->a, t->seed);
    fill_input(run, &run->b, t->seed + 1);
    fill_output(run);
    if (t->bias != TDM_DTYPE_NONE) {
        test_array_create(&run->bias, run->device, t->bias, 1, &t->n,
                          t->seed % 2 ? TEST_SPREAD : TEST_DENSE);
        for (int64_t j = 0; j < t->n; j++)
            test_array_put(&run->bias, j, (double)test_random_int(&run->random, -10000, 10000));
        test_array_send(&run->bias);
    }
    if (t->has_c) {
        int64_t shape[TDM_MAX_RANK];
        const int rank = operand_shape(t, &run->d, shape);
        const bool sums = tdm_dtype_info(t->d)->kind != TDM_CLASS_FLOAT;
        test_array_create(&run->c, run->device, sums ? TDM_S32 : TDM_F32, rank, shape, t->d_place);
        if (!sums) {
            test_array_fill(&run->c, TEST_DATA_UNIT, t->seed + 2);
            return;
        }
        for (int64_t i = 0; i < (int64_t)tdm_tensor_elements(run->c.tensor); i++)
            test_array_put(&run->c, i, (double)test_random_int(&run->random, -100000, 100000));
        test_array_send(&run->c);
    }
}

/* ---- the oracle ---- */

typedef struct exact_operands {
    int32_t *a, *b; /* made by lines_along_k */
} exact_operands;

/* Copies an operand in K-major order: all rows of A, or all columns of B, one after the other. */
static int32_t *lines_along_k(const operand *o) {
    const int64_t lines = o->along_rows ? o->rows : o->columns;
    const int64_t k = o->along_rows ? o->columns : o->rows;
    int32_t *const values = malloc((size_t)(o->entries * lines * k + 1) * sizeof *values);
    if (!values)
        test_case_fail("no memory");
    int32_t *next = values;
    for (int64_t z = 0; z < o->entries; z++)
        for (int64_t line = 0; line < lines; line++)
            for (int64_t p = 0; p < k; p++)
                *next++ =
                    (int32_t)test_array_get(&o->data, o->along_rows ? element_index(o, z, line, p)
                                                                    : element_index(o, z, p, line));
    return values;
}

static int64_t exact_sum(const gemm_int_run *run, const exact_operands *exact, int64_t z, int64_t i,
                         int64_t j) {
    const int64_t k = run->trial->k;
    const int32_t a_zero = (int32_t)zero_at(&run->a, z, i, 0);
    const int32_t b_zero = (int32_t)zero_at(&run->b, z, 0, j);
    const int64_t a_line = (run->a.entries > 1 ? z : 0) * run->a.rows + i;
    const int64_t b_line = (run->b.entries > 1 ? z : 0) * run->b.columns + j;
    const int32_t *const a = exact->a + a_line * k, *const b = exact->b + b_line * k;
    int64_t sum = 0;
    for (int64_t p = 0; p < k; p++)
        sum += (a[p] - a_zero) * (b[p] - b_zero);
    if (run->trial->bias == TDM_S32)
        sum += (int64_t)test_array_get(&run->bias, j);
    if (sum < INT32_MIN || sum > INT32_MAX)
        test_case_fail("the case is wrong: its sum is %lld", (long long)sum);
    return sum;
}

/* Computes the formula of docs/numerics.md. Each statement rounds once. */
static double requantized(const gemm_int_run *run, int64_t sum, int64_t z, int64_t i, int64_t j) {
    int32_t low, high;
    tdm_number_int_range(run->trial->d, &low, &high);
    const int32_t zero = (int32_t)zero_at(&run->d, z, i, j);
    volatile float factor = scale_at(&run->a, z, i, 0) * scale_at(&run->b, z, 0, j);
    factor = factor / scale_at(&run->d, z, i, j);
    const volatile float real = (float)sum * factor;
    float least = (float)(low - zero);
    if (run->trial->activation == TDM_ACT_RELU && least < 0)
        least = 0;
    const float most = (float)(high - zero);
    const float clamped = real < least ? least : real > most ? most : real;
    return (double)(zero + (int32_t)rintf(clamped));
}

static void check_float(const gemm_int_run *run, int64_t index, int64_t sum, int64_t z, int64_t i,
                        int64_t j) {
    const gemm_int_trial *const t = run->trial;
    const double product = (double)t->alpha * (double)scale_at(&run->a, z, i, 0) *
                           (double)scale_at(&run->b, z, 0, j) * (double)sum;
    const double bias = t->bias == TDM_F32 ? test_array_get(&run->bias, j) : 0;
    const double addend = t->has_c ? 0.75 * test_array_get(&run->c, index) : 0;
    const double expected = op_gemm_activate(product + bias + addend, t->activation);
    const double actual = test_array_fetched(&run->d.data, index);
    const double bound = op_gemm_roundoff(t->d) * fmax(fabs(expected), op_gemm_min_normal(t->d)) +
                         op_gemm_lipschitz(t->activation) * 6 * 0x1p-24 *
                             (fabs(product) + fabs(bias) + fabs(addend));
    const double most = t->d == TDM_F16 ? 65504.0 : 3.4e38;
    if (!(fabs(actual - expected) <= bound) && !(fabs(expected) > 0.999 * most && isinf(actual)))
        test_case_fail("D[%lld, %lld, %lld] is %.9g, not %.9g +- %.3g", (long long)z, (long long)i,
                       (long long)j, actual, expected, bound);
}

static void check(const gemm_int_run *run) {
    const gemm_int_trial *const t = run->trial;
    const exact_operands exact = {lines_along_k(&run->a), lines_along_k(&run->b)};
    for (int64_t z = 0; z < run->d.entries; z++)
        for (int64_t i = 0; i < t->m; i++)
            for (int64_t j = 0; j < t->n; j++) {
                const int64_t index = element_index(&run->d, z, i, j);
                const bool is_float = tdm_dtype_info(t->d)->kind == TDM_CLASS_FLOAT;
                int64_t sum = exact_sum(run, &exact, z, i, j);
                if (t->has_c && !is_float)
                    sum += (int64_t)test_array_get(&run->c, index);
                if (is_float) {
                    check_float(run, index, sum, z, i, j);
                    continue;
                }
                const double expected =
                    t->d == TDM_S32 ? (double)sum : requantized(run, sum, z, i, j);
                const double actual = test_array_fetched(&run->d.data, index);
                if (actual != expected)
                    test_case_fail("D[%lld, %lld, %lld] is %.0f, not %.0f (sum %lld)", (long long)z,
                                   (long long)i, (long long)j, actual, expected, (long long)sum);
            }
    free(exact.a);
    free(exact.b);
}

/* ---- the run ---- */

static void describe(const gemm_int_run *run, tdm_gemm_desc *desc) {
    const gemm_int_trial *const t = run->trial;
    *desc = (tdm_gemm_desc)TDM_GEMM_DESC_INIT;
    desc->a = run->a.data.layout;
    desc->b = run->b.data.layout;
    desc->d = run->d.data.layout;
    TEST_OK(tdm_tensor_quant_layout(tensor_of(&run->a), &desc->a_quant));
    TEST_OK(tdm_tensor_quant_layout(tensor_of(&run->b), &desc->b_quant));
    TEST_OK(tdm_tensor_quant_layout(tensor_of(&run->d), &desc->d_quant));
    if (t->bias != TDM_DTYPE_NONE)
        desc->bias = run->bias.layout;
    if (t->has_c) {
        desc->c = run->c.layout;
        desc->beta = tdm_dtype_info(t->d)->kind == TDM_CLASS_FLOAT ? 0.75f : 1.0f;
    }
    desc->alpha = t->alpha;
    desc->transpose_a = t->transpose_a;
    desc->transpose_b = t->transpose_b;
    desc->activation = t->activation;
    desc->packed_b = t->packed_b;
    desc->variant = t->variant;
}

/*
 * Packed weights must not depend on their source tensor. Therefore B is overwritten with poison
 * before the run.
 */
static void pack(gemm_int_run *run, const tdm_gemm_plan *plan, tdm_gemm_args *args,
                 tdm_packed **packed) {
    TEST_OK(tdm_gemm_pack_b(plan, run->device->stream, tensor_of(&run->b), packed));
    TEST_OK(tdm_tensor_fill(run->device->stream, 77, run->b.data.tensor));
    if (run->b.has_scale)
        TEST_OK(tdm_tensor_fill(run->device->stream, NAN, run->b.scale.tensor));
    if (run->b.has_zero)
        TEST_OK(tdm_tensor_fill(run->device->stream, 77, run->b.zero.tensor));
    args->b = NULL;
    args->packed_b = *packed;
}

static void multiply(gemm_int_run *run) {
    tdm_gemm_desc desc;
    tdm_gemm_plan *plan;
    tdm_packed *packed = NULL;
    describe(run, &desc);
    TEST_OK(tdm_gemm_plan_create(run->device->device, &desc, &plan));
    tdm_buffer *const workspace = gemm_workspace(run->device, plan);
    tdm_gemm_args args = TDM_GEMM_ARGS_INIT;
    args.a = tensor_of(&run->a);
    args.b = tensor_of(&run->b);
    args.c = run->trial->has_c ? run->c.tensor : NULL;
    args.bias = run->bias.tensor;
    args.d = tensor_of(&run->d);
    args.workspace = workspace;
    if (run->trial->packed_b)
        pack(run, plan, &args, &packed);
    TEST_OK(tdm_gemm_plan_run(plan, run->device->stream, &args));
    test_array_fetch(&run->d.data);
    tdm_packed_destroy(packed);
    tdm_buffer_destroy(workspace);
    tdm_gemm_plan_destroy(plan);
}

static void send_operand(operand *o) {
    test_array_send(&o->data);
    if (o->has_scale)
        test_array_send(&o->scale);
    if (o->has_zero)
        test_array_send(&o->zero);
}

/*
 * Runs the trial again with the other variant. Packing may have poisoned the operands, so they are
 * sent again.
 */
static void expect_same_bits(gemm_int_run *run) {
    gemm_int_trial other = *run->trial;
    unsigned char *const first = malloc(run->d.data.bytes);
    if (!first)
        test_case_fail("no memory");
    memcpy(first, run->d.data.fetched, run->d.data.bytes);
    other.variant = run->trial->same_bits_as;
    run->trial = &other;
    send_operand(&run->b);
    test_array_send(&run->d.data);
    multiply(run);
    if (memcmp(first, run->d.data.fetched, run->d.data.bytes) != 0)
        test_case_fail("%s gives other bits", other.variant);
    free(first);
}

static void destroy_operand(operand *o) {
    tdm_tensor_destroy(o->tensor);
    test_array_destroy(&o->data);
    test_array_destroy(&o->scale);
    test_array_destroy(&o->zero);
}

void gemm_int_trial_run(const test_device *device, const gemm_int_trial *trial) {
    gemm_int_run run = {.trial = trial, .device = device, .random = {trial->seed}};
    create(&run);
    multiply(&run);
    check(&run);
    if (trial->same_bits_as)
        expect_same_bits(&run);
    destroy_operand(&run.a);
    destroy_operand(&run.b);
    destroy_operand(&run.d);
    test_array_destroy(&run.bias);
    test_array_destroy(&run.c);
}

void gemm_int_trial_case(const test_device *device, gemm_int_trial trial) {
    char text[512];
    if (trial.alpha == 0)
        trial.alpha = 1;
    if (!test_case_begin_forced(device, trial.variant, gemm_int_trial_text(&trial, text)))
        return;
    gemm_int_trial_run(device, &trial);
    test_case_end();
}
