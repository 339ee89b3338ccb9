/*
 * GEMM with quantized weights: every row of op GEMM_WEIGHTS forced, and the path that unpacks weights for the rows of op GEMM and
 * GEMM_INT, over a seeded pairwise sample of shapes, types, groups, parameters, placements and batches, within the bound of
 * docs/numerics.md.
 */
// ctest: device timeout=300 cost=20
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/gemm/gemm_internal.h"
#include "common/op_gemm.h"
#include "quant/number_formats.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/pairwise.h"
#include "tests/support/test_array.h"

enum {
    F_M,
    F_N,
    F_K,
    F_GROUP,
    F_A_TYPE,
    F_B_TYPE,
    F_D_TYPE,
    F_SCALE_TYPE,
    F_ZERO_TYPE,
    F_QUANTIZE_A,
    F_TRANSPOSE,
    F_A_PLACE,
    F_D_PLACE,
    F_EPILOGUE,
    F_BATCH,
    F_PACKED,
    FACTORS
};

enum {
    TRIAL_ACTIVATIONS = 5
}; /* all; the epilogue is none, or a bias and one of them */

static const int64_t rows[] = {1, 2, 3, 4, 7, 16, 0, 17, 33};
static const int64_t columns[] = {1, 2, 7, 8, 33, 70, 0};
static const int64_t depths[] = {0, 2, 16, 35, 64, 130, 416, 1100};
static const int64_t groups[] = {0, 16, 32, 64, 128, 256, 96, 24};
static const tdm_dtype reals[] = {TDM_F32, TDM_F16, TDM_BF16};
static const tdm_dtype weights[] = {TDM_S8, TDM_S4};
static const tdm_dtype scales[] = {TDM_F32, TDM_F16, TDM_BF16};
static const tdm_dtype zeros[] = {TDM_DTYPE_NONE, TDM_S32, TDM_S8};

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

static const int all_levels[FACTORS] = {[F_M] = COUNT(rows),
                                        [F_N] = COUNT(columns),
                                        [F_K] = COUNT(depths),
                                        [F_GROUP] = COUNT(groups),
                                        [F_A_TYPE] = COUNT(reals),
                                        [F_B_TYPE] = COUNT(weights),
                                        [F_D_TYPE] = COUNT(reals),
                                        [F_SCALE_TYPE] = COUNT(scales),
                                        [F_ZERO_TYPE] = COUNT(zeros),
                                        [F_QUANTIZE_A] = 2,
                                        [F_TRANSPOSE] = 4,
                                        [F_A_PLACE] = TEST_PLACEMENTS,
                                        [F_D_PLACE] = TEST_PLACEMENTS,
                                        [F_EPILOGUE] = 1 + TRIAL_ACTIVATIONS,
                                        [F_BATCH] = 3,
                                        [F_PACKED] = 2};

typedef struct trial {
    const test_device *device;
    const char *variant;
    int64_t m, n, k, group;
    tdm_dtype a_type, b_type, d_type, scale_type, zero_type;
    int quantize_a, transpose_a, transpose_b, packed, epilogue;
    int64_t batch;
    int shares_b, side_by_side; /* codes of s4 are, whatever a byte splits */
    test_placement a_place, d_place;
    uint64_t seed;
    test_array a, codes, scale, zero, bias, d;
    tdm_tensor *b;
} trial;

static trial trial_of(const test_device *device, const char *variant, const int level[FACTORS],
                      uint64_t seed) {
    return (trial){.device = device,
                   .variant = variant,
                   .m = rows[level[F_M]],
                   .n = columns[level[F_N]],
                   .k = depths[level[F_K]],
                   .group = groups[level[F_GROUP]],
                   .a_type = reals[level[F_A_TYPE]],
                   .b_type = weights[level[F_B_TYPE]],
                   .d_type = reals[level[F_D_TYPE]],
                   .scale_type = scales[level[F_SCALE_TYPE]],
                   .zero_type = zeros[level[F_ZERO_TYPE]],
                   .quantize_a = level[F_QUANTIZE_A],
                   .transpose_a = level[F_TRANSPOSE] & 1,
                   .transpose_b = level[F_TRANSPOSE] >> 1,
                   .a_place = (test_placement)level[F_A_PLACE],
                   .d_place = (test_placement)level[F_D_PLACE],
                   .epilogue = level[F_EPILOGUE],
                   .batch = level[F_BATCH] == 0 ? 0 : 2,
                   .shares_b = level[F_BATCH] == 2,
                   .packed = level[F_PACKED],
                   .seed = seed};
}

static const char *trial_text(const trial *t, char text[256]) {
    snprintf(
        text, 256,
        "%s·%s→%s m%lld n%lld k%lld group %lld %c%c scale %s zero %s%s a %s d %s epilogue %d batch "
        "%lld%s%s seed %llu",
        tdm_dtype_name(t->a_type), tdm_dtype_name(t->b_type), tdm_dtype_name(t->d_type),
        (long long)t->m, (long long)t->n, (long long)t->k, (long long)t->group,
        t->transpose_a ? 't' : 'n', t->transpose_b ? 't' : 'n', tdm_dtype_name(t->scale_type),
        t->zero_type ? tdm_dtype_name(t->zero_type) : "none", t->quantize_a ? " quantize_a" : "",
        test_placement_name(t->a_place), test_placement_name(t->d_place), t->epilogue,
        (long long)t->batch, t->shares_b ? " B shared" : "", t->packed ? " packed" : "",
        (unsigned long long)t->seed);
    return text;
}

/* ---- operands ----------------------------------------------------------------------------------------- */

static int shape_of(const trial *t, int64_t entries, int64_t first, int64_t second,
                    int64_t shape[TDM_MAX_RANK]) {
    int rank = 0;
    if (t->batch > 0)
        shape[rank++] = entries;
    shape[rank++] = first;
    shape[rank++] = second;
    return rank;
}

static int64_t b_entries(const trial *t) {
    return t->batch > 0 && !t->shares_b ? t->batch : 1;
}

static tdm_activation activation_of(const trial *t) {
    return t->epilogue > 0 ? (tdm_activation)(t->epilogue - 1) : TDM_ACT_NONE;
}

/* Lines of s4 have whole bytes. */
static bool is_possible(const trial *t) {
    return t->b_type != TDM_S4 || (t->transpose_b ? t->k : t->n) % 2 == 0;
}

static void create_b(trial *t) {
    int64_t shape[TDM_MAX_RANK];
    test_random random = {t->seed};
    tdm_quantization q = TDM_QUANTIZATION_INIT;
    const int rank = shape_of(t, b_entries(t), t->transpose_b ? t->n : t->k,
                              t->transpose_b ? t->k : t->n, shape);
    tdm_layout codes;
    test_layout_place(&codes, t->b_type, rank, shape, TEST_DENSE);
    if (t->side_by_side)
        TEST_OK(tdm_layout_contiguous(t->b_type, rank, shape, &codes));
    test_array_create_layout(&t->codes, t->device, &codes, 0);
    const int low = t->b_type == TDM_S4 ? -8 : -128, high = t->b_type == TDM_S4 ? 7 : 127;
    for (int64_t i = 0; i < test_array_count(&t->codes); i++)
        test_array_put(&t->codes, i, (double)test_random_int(&random, low, high));
    test_array_send(&t->codes);

    const int64_t count = t->group == 0 ? 1 : tdm_ceil_div(t->k, t->group);
    const int k_dimension = rank - (t->transpose_b ? 1 : 2);
    for (int i = 0; i < rank; i++)
        q.block[i] = i == k_dimension ? t->group : 1;
    shape[k_dimension] = count;
    const test_placement place = t->seed % 2 ? TEST_DENSE : TEST_TRANSPOSED;
    test_array_create(&t->scale, t->device, t->scale_type, rank, shape, place);
    for (int64_t i = 0; i < test_array_count(&t->scale); i++)
        test_array_put(&t->scale, i, test_random_uniform(&random, 0.001, 0.01));
    test_array_send(&t->scale);
    q.scale = t->scale.tensor;
    if (t->zero_type != TDM_DTYPE_NONE) {
        test_array_create(&t->zero, t->device, t->zero_type, rank, shape, place);
        for (int64_t i = 0; i < test_array_count(&t->zero); i++)
            test_array_put(&t->zero, i, (double)test_random_int(&random, low, high));
        test_array_send(&t->zero);
        q.zero_point = t->zero.tensor;
    }
    TEST_OK(tdm_tensor_quantized(t->codes.tensor, &q, &t->b));
}

static void create(trial *t) {
    int64_t shape[TDM_MAX_RANK];
    const int64_t entries = t->batch > 0 ? t->batch : 1;
    int rank =
        shape_of(t, entries, t->transpose_a ? t->k : t->m, t->transpose_a ? t->m : t->k, shape);
    test_array_create(&t->a, t->device, t->a_type, rank, shape, t->a_place);
    test_array_fill(&t->a, TEST_DATA_UNIT, t->seed + 1);
    create_b(t);
    rank = shape_of(t, entries, t->m, t->n, shape);
    test_array_create(&t->d, t->device, t->d_type, rank, shape, t->d_place);
    test_array_send(&t->d);
    if (t->epilogue > 0) {
        test_array_create(&t->bias, t->device, TDM_F32, 1, &t->n, TEST_SPREAD);
        test_array_fill(&t->bias, TEST_DATA_UNIT, t->seed + 2);
    }
}

/* ---- the oracle --------------------------------------------------------------------------------------- */

static double a_at(const trial *t, int64_t z, int64_t i, int64_t p) {
    const int64_t at = t->transpose_a ? p * t->m + i : i * t->k + p;
    return test_array_get(&t->a, z * t->m * t->k + at);
}

/* The scale that a row of A is quantized by. */
static float row_scale(const trial *t, int64_t z, int64_t i) {
    float most = 0;
    for (int64_t p = 0; p < t->k; p++)
        most = fmaxf(most, fabsf((float)a_at(t, z, i, p)));
    return most / 127.0f;
}

static double x_at(const trial *t, int64_t z, int64_t i, int64_t p, float scale) {
    const float x = (float)a_at(t, z, i, p);
    if (!t->quantize_a)
        return (double)x;
    return scale == 0 ? 0 : (double)scale * (double)rintf(x / scale);
}

static double b_at(const trial *t, int64_t z, int64_t p, int64_t j) {
    const int64_t entry = b_entries(t) > 1 ? z : 0;
    const int64_t count = t->group == 0 ? 1 : tdm_ceil_div(t->k, t->group);
    const int64_t g = t->group == 0 ? 0 : p / t->group;
    const int64_t code = entry * t->k * t->n + (t->transpose_b ? j * t->k + p : p * t->n + j);
    const int64_t parameter =
        entry * count * t->n + (t->transpose_b ? j * count + g : g * t->n + j);
    const double zero = t->zero_type ? test_array_get(&t->zero, parameter) : 0;
    return test_array_get(&t->scale, parameter) * (test_array_get(&t->codes, code) - zero);
}

static void check_row(const trial *t, int64_t z, int64_t i, const double *b, op_gemm_case *item) {
    const float scale = row_scale(t, z, i);
    for (int64_t j = 0; j < t->n; j++) {
        double sum = 0, size = 0;
        for (int64_t p = 0; p < t->k; p++) {
            const double product = x_at(t, z, i, p, scale) * b[p * t->n + j];
            sum += product;
            size += fabs(product);
        }
        const double bias = t->epilogue > 0 ? test_array_get(&t->bias, j) : 0;
        const double expected = op_gemm_activate(sum + bias, item->activation);
        const double actual = test_array_fetched(&t->d, (z * t->m + i) * t->n + j);
        const double bound = op_gemm_bound(item, expected, size + fabs(bias));
        if (!(fabs(actual - expected) <= bound))
            test_case_fail("D[%lld, %lld, %lld] is %.9g, not %.9g +- %.3g", (long long)z,
                           (long long)i, (long long)j, actual, expected, bound);
    }
}

static void check(const trial *t) {
    op_gemm_case item = {.m = t->m, .n = t->n, .k = t->k};
    item.dtype[OP_GEMM_D] = t->d_type;
    item.activation = activation_of(t);
    double *const b = malloc((size_t)(t->k * t->n + 1) * sizeof *b);
    if (!b)
        test_case_fail("no host memory");
    for (int64_t z = 0; z < (t->batch > 0 ? t->batch : 1); z++) {
        for (int64_t p = 0; p < t->k; p++)
            for (int64_t j = 0; j < t->n; j++)
                b[p * t->n + j] = b_at(t, z, p, j);
        for (int64_t i = 0; i < t->m; i++)
            check_row(t, z, i, b, &item);
    }
    free(b);
}

/* ---- the run ------------------------------------------------------------------------------------------ */

static void describe(const trial *t, tdm_gemm_desc *desc) {
    *desc = (tdm_gemm_desc)TDM_GEMM_DESC_INIT;
    desc->a = t->a.layout;
    desc->b = t->codes.layout;
    TEST_OK(tdm_tensor_quant_layout(t->b, &desc->b_quant));
    desc->d = t->d.layout;
    if (t->epilogue > 0)
        desc->bias = t->bias.layout;
    desc->activation = activation_of(t);
    desc->quantize_a = t->quantize_a;
    desc->transpose_a = t->transpose_a;
    desc->transpose_b = t->transpose_b;
    desc->packed_b = t->packed;
    desc->variant = t->variant;
}

/* True unless the forced row does not take the problem. */
static bool multiply(trial *t) {
    tdm_gemm_desc desc;
    tdm_gemm_plan *plan;
    tdm_packed *packed = NULL;
    tdm_buffer *workspace = NULL;
    size_t bytes;
    describe(t, &desc);
    const tdm_status made = tdm_gemm_plan_create(t->device->device, &desc, &plan);
    if (t->variant && made == TDM_UNSUPPORTED)
        return false;
    TEST_OK(made);
    TEST_OK(tdm_gemm_plan_workspace_size(plan, &bytes));
    if (bytes > 0)
        TEST_OK(tdm_buffer_create(t->device->device, bytes, &workspace));
    tdm_gemm_args args = TDM_GEMM_ARGS_INIT;
    args.a = t->a.tensor;
    args.b = t->b;
    args.bias = t->bias.tensor;
    args.d = t->d.tensor;
    args.workspace = workspace;
    if (t->packed) {
        TEST_OK(tdm_gemm_pack_b(plan, t->device->stream, t->b, &packed));
        TEST_OK(tdm_tensor_fill(t->device->stream, NAN, t->scale.tensor));
        args.b = NULL;
        args.packed_b = packed;
    }
    TEST_OK(tdm_gemm_plan_run(plan, t->device->stream, &args));
    test_array_fetch(&t->d);
    tdm_packed_destroy(packed);
    tdm_buffer_destroy(workspace);
    tdm_gemm_plan_destroy(plan);
    return true;
}

static void destroy(trial *t) {
    tdm_tensor_destroy(t->b);
    test_array_destroy(&t->a);
    test_array_destroy(&t->codes);
    test_array_destroy(&t->scale);
    test_array_destroy(&t->zero);
    test_array_destroy(&t->bias);
    test_array_destroy(&t->d);
}

static void run_trial(const test_device *device, const char *variant, const int level[FACTORS],
                      uint64_t seed) {
    char text[256];
    trial t = trial_of(device, variant, level, seed);
    if (!is_possible(&t) || !test_case_begin(device, variant, "%s", trial_text(&t, text)))
        return;
    create(&t);
    if (multiply(&t)) {
        check(&t);
        test_case_end();
    }
    destroy(&t);
}

enum {
    SMALL_CASES = 12,
    SMALL_CASES_OF_TILES = 4, /* a checker takes a second for each, and their rows share a text */
    SMALL_K_OF_TILES = 5      /* among the depths */
};

/* Rows that say which B they read get it, and as few rows of A as they take. */
static void fit_levels(const tdm_variant *row, int first, int level[FACTORS]) {
    if (row && row->parameters[TDM_GEMM_P_B_TYPE] != 0)
        level[F_B_TYPE] = row->parameters[TDM_GEMM_P_B_TYPE] == TDM_S4;
    if (row && row->parameters[TDM_GEMM_P_A_TYPE] == TDM_GEMM_QUANTIZED_A)
        level[F_QUANTIZE_A] = 1;
    if (row && row->parameters[TDM_GEMM_P_A_TYPE] > 0) {
        level[F_QUANTIZE_A] = 0;
        level[F_A_TYPE] = row->parameters[TDM_GEMM_P_A_TYPE] - TDM_F32;
    }
    if (row && row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_SKINNY)
        level[F_M] = first ? 4 : level[F_M] % 6; /* more rows than any takes at once */
    if (test_is_small() && row && row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_TILED &&
        level[F_K] > SMALL_K_OF_TILES)
        level[F_K] = SMALL_K_OF_TILES;
    const bool reads_lines = row && (row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_SKINNY ||
                                     row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_TENSOR);
    if (reads_lines && !level[F_PACKED])
        level[F_TRANSPOSE] |= 2;
}

static void run_row(const test_device *device, const tdm_variant *row) {
    int level[PAIRWISE_MAX_FACTORS];
    static pairwise sample;
    uint64_t seed = 20241121;
    const int most = row && row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_TILED
                         ? SMALL_CASES_OF_TILES
                         : SMALL_CASES;
    pairwise_start(&sample, FACTORS, all_levels, seed);
    for (int cases = 0; pairwise_next(&sample, level); cases++) {
        if (test_is_small() && cases == most)
            break;
        fit_levels(row, cases == 0, level);
        run_trial(device, row ? row->name : NULL, level, seed++);
    }
}

static void every_variant(void **state) {
    (void)state;
    for (int d = 0; d < test_device_count(); d++)
        for (int i = 0; i < tdm_variant_count; i++)
            if (tdm_variants[i].op == TDM_OP_GEMM_WEIGHTS &&
                test_can_run(test_device_at(d), &tdm_variants[i]))
                run_row(test_device_at(d), &tdm_variants[i]);
    test_require_all_variants(TDM_OP_GEMM_WEIGHTS);
}

static void the_library_chooses(void **state) {
    (void)state;
    for (int d = 0; d < test_device_count(); d++)
        run_row(test_device_at(d), NULL);
}

/* With one step of K all of a row's codes lie side by side, two of s4 to a byte; lines begin within bytes. */
static void run_one_step(const test_device *device, const char *variant, int given) {
    char text[256];
    const int level[FACTORS] = {[F_B_TYPE] = 1, [F_ZERO_TYPE] = 2};
    trial t = trial_of(device, variant, level, 31 + (uint64_t)given);
    t.m = given & 1 ? 4 : 1;
    t.k = t.side_by_side = 1;
    t.quantize_a = given >> 1 & 1;
    t.transpose_b = given >> 2 & 1;
    t.packed = given >> 3 & 1;
    t.n = given >> 4 & 1 ? 1 : 16;
    t.batch = given >> 4 & 1 ? 16 : 0;
    if (!test_case_begin(device, variant, "one step, %s", trial_text(&t, text)))
        return;
    create(&t);
    if (multiply(&t)) {
        check(&t);
        test_case_end();
    }
    destroy(&t);
}

static void one_step_of_k(void **state) {
    (void)state;
    for (int d = 0; d < test_device_count(); d++)
        for (int i = -1; i < tdm_variant_count; i++) {
            const tdm_variant *const row = i < 0 ? NULL : &tdm_variants[i];
            const int32_t type = row ? row->parameters[TDM_GEMM_P_B_TYPE] : 0;
            if (row && (row->op != TDM_OP_GEMM_WEIGHTS || (type != 0 && type != TDM_S4) ||
                        !test_can_run(test_device_at(d), row)))
                continue;
            for (int given = 0; given < 32; given++)
                run_one_step(test_device_at(d), row ? row->name : NULL, given);
        }
}

/* ---- bits ---------------------------------------------------------------------------------------------- */

/* D by the row of the panel family for floats that has the same tile, of B that was dequantized before. */
static void multiply_dequantized(const trial *t, const tdm_variant *row, const test_array *d) {
    tdm_gemm_desc desc;
    tdm_gemm_plan *plan;
    tdm_buffer *workspace = NULL;
    tdm_tensor *dense;
    size_t bytes;
    char variant[64];
    const char *const tile = strstr(row->name, "_panel_");
    snprintf(variant, sizeof variant, "gemm_f32%s", tile ? tile : "");
    const tdm_layout *const codes = &t->codes.layout;
    TEST_OK(tdm_tensor_create(t->device->device, TDM_F32, codes->rank, codes->shape, &dense));
    TEST_OK(tdm_tensor_dequantize(t->device->stream, t->b, dense));
    describe(t, &desc);
    TEST_OK(tdm_tensor_layout(dense, &desc.b));
    memset(&desc.b_quant, 0, sizeof desc.b_quant);
    desc.packed_b = 0;
    desc.variant = variant;
    TEST_OK(tdm_gemm_plan_create(t->device->device, &desc, &plan));
    TEST_OK(tdm_gemm_plan_workspace_size(plan, &bytes));
    if (bytes > 0)
        TEST_OK(tdm_buffer_create(t->device->device, bytes, &workspace));
    const tdm_gemm_args args = {.struct_size = sizeof args,
                                .a = t->a.tensor,
                                .b = dense,
                                .bias = t->bias.tensor,
                                .d = d->tensor,
                                .workspace = workspace};
    TEST_OK(tdm_gemm_plan_run(plan, t->device->stream, &args));
    tdm_gemm_plan_destroy(plan);
    tdm_buffer_destroy(workspace);
    tdm_tensor_destroy(dense);
}

static void compare_bits(const test_device *device, const tdm_variant *row,
                         const int level[FACTORS], uint64_t seed) {
    char text[256];
    trial t = trial_of(device, row->name, level, seed);
    test_array expected;
    if (!is_possible(&t) || !test_case_begin(device, row->name, "bits, %s", trial_text(&t, text)))
        return;
    create(&t);
    test_array_create(&expected, device, t.d_type, t.d.layout.rank, t.d.layout.shape, TEST_DENSE);
    test_array_send(&expected);
    multiply_dequantized(&t, row, &expected);
    if (!multiply(&t))
        test_case_fail("%s does not take it", row->name);
    test_array_fetch(&expected);
    for (int64_t i = 0; i < test_array_count(&t.d); i++)
        if (test_array_fetched(&t.d, i) != test_array_fetched(&expected, i))
            test_case_fail("element %lld is %.9g, not %.9g", (long long)i,
                           test_array_fetched(&t.d, i), test_array_fetched(&expected, i));
    test_case_end();
    test_array_destroy(&expected);
    destroy(&t);
}

/* Dequantizing on the way to a panel is dequantizing. */
static void panels_have_the_bits_of_dequantized_weights(void **state) {
    (void)state;
    int compared = 0, possible = 0;
    for (int d = 0; d < test_device_count(); d++)
        for (int i = 0; i < tdm_variant_count; i++) {
            const tdm_variant *const row = &tdm_variants[i];
            if (row->op != TDM_OP_GEMM_WEIGHTS ||
                row->parameters[TDM_GEMM_P_FAMILY] != TDM_GEMM_PANEL ||
                row->parameters[TDM_GEMM_P_A_TYPE] == TDM_GEMM_QUANTIZED_A)
                continue;
            if (!test_can_run(test_device_at(d), row))
                continue;
            const int is_s4 = row->parameters[TDM_GEMM_P_B_TYPE] == TDM_S4;
            possible++;
            for (int layout = 0; layout < 2; layout++) {
                const int level[FACTORS] = {[F_M] = test_is_small() ? 7 : 8,
                                            [F_N] = 5,
                                            [F_K] = (test_is_small() ? 6 : 7) - layout,
                                            [F_GROUP] = layout ? 0 : 2,
                                            [F_B_TYPE] = is_s4,
                                            [F_SCALE_TYPE] = layout + is_s4,
                                            [F_TRANSPOSE] = 2 * layout,
                                            [F_ZERO_TYPE] = 1 + layout,
                                            [F_EPILOGUE] = 1,
                                            [F_PACKED] = layout};
                compare_bits(test_device_at(d), row, level, 7);
                compared++;
            }
        }
    assert_int_equal(compared, 2 * possible);
}

/* ---- refusals ----------------------------------------------------------------------------------------- */

static tdm_gemm_desc small_desc(void) {
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    TEST_OK(tdm_layout_contiguous(TDM_F32, 2, (const int64_t[]){4, 64}, &desc.a));
    TEST_OK(tdm_layout_contiguous(TDM_S8, 2, (const int64_t[]){64, 6}, &desc.b));
    TEST_OK(tdm_layout_contiguous(TDM_F32, 2, (const int64_t[]){2, 6}, &desc.b_quant.scale));
    TEST_OK(tdm_layout_contiguous(TDM_F32, 2, (const int64_t[]){4, 6}, &desc.d));
    desc.b_quant.block[0] = 32;
    desc.b_quant.block[1] = 1;
    return desc;
}

static void refuse(const test_device *device, const tdm_gemm_desc *desc, tdm_status status,
                   const char *part) {
    tdm_gemm_plan *plan = (tdm_gemm_plan *)desc;
    TEST_REFUSED(tdm_gemm_plan_create(device->device, desc, &plan), status, part);
    assert_null(plan);
}

DEVICE_TEST(descriptions_that_do_not_fit_are_refused) {
    tdm_gemm_desc desc = small_desc();
    desc.b_quant.block[0] = 16;
    refuse(device, &desc, TDM_BAD_SHAPE,
           "the scale of B has 2 entries along K, 64 elements in groups of 16 need 4");
    desc = small_desc();
    memset(&desc.b_quant, 0, sizeof desc.b_quant);
    refuse(device, &desc, TDM_BAD_ARGUMENT,
           "B is s8 and A is f32: B must carry quantization parameters");
    desc = small_desc();
    desc.b_quant.block[0] = -1;
    refuse(device, &desc, TDM_BAD_ARGUMENT, "a block of B's parameters is -1");
    desc = small_desc();
    desc.d.dtype = TDM_S8;
    refuse(device, &desc, TDM_UNSUPPORTED, "D is s8 but A is f32");
    desc = small_desc();
    TEST_OK(tdm_layout_contiguous(TDM_S32, 1, (const int64_t[]){6}, &desc.bias));
    refuse(device, &desc, TDM_UNSUPPORTED, "bias is s32 but A is f32");
    desc = small_desc();
    desc.a_quant = desc.b_quant;
    refuse(device, &desc, TDM_BAD_ARGUMENT, "A is f32 and carries quantization parameters");
    desc = small_desc();
    desc.b.dtype = TDM_F32;
    memset(&desc.b_quant, 0, sizeof desc.b_quant);
    desc.quantize_a = 1;
    refuse(device, &desc, TDM_BAD_ARGUMENT, "quantize_a is 1, but A is f32 and B is f32");
    desc = small_desc();
    desc.variant = "gemm_any_nothing";
    refuse(device, &desc, TDM_UNSUPPORTED, "gemm_any_nothing");
}

/* Where rows read codes in place, but for those of CPU cores, they are copied first. */
DEVICE_TEST(lines_that_begin_within_bytes_are_not_read_in_place) {
    tdm_gemm_desc desc = small_desc();
    memset(&desc.b_quant.block, 0, sizeof desc.b_quant.block);
    TEST_OK(tdm_layout_contiguous(TDM_F32, 2, (const int64_t[]){4, 1}, &desc.a));
    TEST_OK(tdm_layout_contiguous(TDM_S4, 2, (const int64_t[]){1, 6}, &desc.b));
    TEST_OK(tdm_layout_contiguous(TDM_F32, 2, (const int64_t[]){1, 6}, &desc.b_quant.scale));
    desc.variant = "gemm_f32s4_group_8";
    tdm_gemm_plan *plan;
    size_t bytes;
    if (device->info.capabilities & TDM_CAP_CPU_CORES) {
        refuse(device, &desc, TDM_UNSUPPORTED,
               "gemm_f32s4_group_8: lines of B are 1 elements apart, which splits a storage unit");
    } else {
        TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
        TEST_OK(tdm_gemm_plan_workspace_size(plan, &bytes));
        assert_true(bytes > 0);
        tdm_gemm_plan_destroy(plan);
    }
    desc.b.strides[1] = 2;
    TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
    TEST_OK(tdm_gemm_plan_workspace_size(plan, &bytes));
    assert_int_equal(bytes, 0);
    tdm_gemm_plan_destroy(plan);
}

/* Plans need no memory for so many steps. */
static tdm_gemm_desc long_desc(int64_t k) {
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    TEST_OK(tdm_layout_contiguous(TDM_F32, 2, (const int64_t[]){1, k}, &desc.a));
    TEST_OK(tdm_layout_contiguous(TDM_S8, 2, (const int64_t[]){2, k}, &desc.b));
    TEST_OK(tdm_layout_contiguous(TDM_F32, 2, (const int64_t[]){2, 1}, &desc.b_quant.scale));
    TEST_OK(tdm_layout_contiguous(TDM_F32, 2, (const int64_t[]){1, 2}, &desc.d));
    desc.b_quant.block[0] = 1;
    desc.transpose_b = 1;
    return desc;
}

DEVICE_TEST(more_steps_of_k_than_rows_count_are_refused) {
    const int64_t most = INT32_MAX / 16;
    const bool long_loops = (device->info.capabilities & TDM_CAP_LONG_LOOPS) != 0;
    tdm_gemm_plan *plan;
    tdm_gemm_desc desc = long_desc(most + 1);
    desc.variant = "gemm_f32s8_group_8";
    refuse(device, &desc, TDM_UNSUPPORTED,
           "gemm_f32s8_group_8: K is 134217728, weights are read in place up to K = 134217727");
    if (!long_loops)
        return;
    desc.variant = NULL;
    TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
    assert_null(strstr(tdm_gemm_plan_variant(plan), "s8_group_8"));
    assert_null(strstr(tdm_gemm_plan_variant(plan), "reference"));
    tdm_gemm_plan_destroy(plan);
    desc = long_desc(most);
    desc.variant = "gemm_f32s8_group_8";
    TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
    tdm_gemm_plan_destroy(plan);
}

/* The same weights, packed once, for one row and for many. */
DEVICE_TEST(weights_packed_once_serve_every_m) {
    static const int64_t sizes[] = {1, 4, 40};
    tdm_packed *packed = NULL;
    for (int i = 0; i < 3; i++) {
        char layout[64] = "";
        const int level[FACTORS] = {[F_K] = 5, [F_N] = 5, [F_GROUP] = 2, [F_PACKED] = 1};
        trial t = trial_of(device, NULL, level, 99);
        tdm_gemm_desc desc;
        tdm_gemm_plan *plan;
        tdm_buffer *workspace = NULL;
        size_t bytes;
        t.m = sizes[i];
        create(&t);
        describe(&t, &desc);
        TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
        TEST_OK(tdm_gemm_plan_workspace_size(plan, &bytes));
        if (bytes > 0)
            TEST_OK(tdm_buffer_create(device->device, bytes, &workspace));
        if (!packed)
            TEST_OK(tdm_gemm_pack_b(plan, device->stream, t.b, &packed));
        snprintf(layout, sizeof layout, "%s", tdm_packed_layout(packed));
        assert_string_equal(layout, "lines-s8/1");
        const tdm_gemm_args args = {.struct_size = sizeof args,
                                    .a = t.a.tensor,
                                    .packed_b = packed,
                                    .d = t.d.tensor,
                                    .workspace = workspace};
        TEST_OK(tdm_gemm_plan_run(plan, device->stream, &args));
        test_array_fetch(&t.d);
        check(&t);
        tdm_buffer_destroy(workspace);
        tdm_gemm_plan_destroy(plan);
        destroy(&t);
    }
    tdm_packed_destroy(packed);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_variant),
        cmocka_unit_test(the_library_chooses),
        cmocka_unit_test(one_step_of_k),
        cmocka_unit_test(panels_have_the_bits_of_dequantized_weights),
        cmocka_unit_test(descriptions_that_do_not_fit_are_refused),
        cmocka_unit_test(lines_that_begin_within_bytes_are_not_read_in_place),
        cmocka_unit_test(more_steps_of_k_than_rows_count_are_refused),
        cmocka_unit_test(weights_packed_once_serve_every_m)};
    return cmocka_run_group_tests(tests, test_devices_setup, test_devices_teardown);
}
