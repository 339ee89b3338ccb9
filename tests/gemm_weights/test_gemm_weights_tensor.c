/*
 * Rows that take quantized weights to tensor cores, beyond what every row is tried with: K of several tiles and their ends, so that
 * all stages of local memory are used and used again; every kind of scale and zero point; operands that are copied by 16 bytes and
 * by elements; K in parts; and which row is chosen. Data are small integers and scales powers of two: sums are exact in any order.
 */
// ctest: device cuda timeout=120 cost=10
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/gemm/gemm_internal.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/variant_cases.h"
#include "tests/support/test_array.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

typedef struct weights_trial {
    int64_t less_rows; /* than the tile has */
    int64_t k, group;
    tdm_dtype scale, zero;
    int packed, split, transpose_a, epilogue;
    int64_t batch;
    test_placement a, b, parameters;
    int64_t m, n; /* of the row's tile */
} weights_trial;

static const weights_trial trials[] = {
    /* One block, one tile and a block, many tiles; with an end inside a block. Groups of one block, two, four; one for all of K. */
    {.less_rows = 3, .k = 32, .scale = TDM_F32},
    {.k = 1184, .group = 32, .scale = TDM_F16, .zero = TDM_S8},
    {.less_rows = 8, .k = 1184, .group = 32, .scale = TDM_F32, .parameters = TEST_TRANSPOSED},
    {.less_rows = 9, .k = 2336, .scale = TDM_F16, .zero = TDM_S32},
    {.k = 2336, .group = 128, .scale = TDM_F32, .zero = TDM_S8, .parameters = TEST_TRANSPOSED},
    {.less_rows = 1, .k = 288, .group = 96, .scale = TDM_F16, .zero = TDM_S32},
    {.k = 1100, .group = 64, .scale = TDM_F32, .zero = TDM_S8},
    /* By elements: A, B, both. */
    {.less_rows = 5, .k = 320, .group = 64, .scale = TDM_F32, .zero = TDM_S8, .a = TEST_OFFSET},
    {.k = 320, .group = 32, .scale = TDM_F16, .zero = TDM_S8, .b = TEST_PADDED},
    {.less_rows = 8, .k = 320, .scale = TDM_F32, .zero = TDM_S32, .transpose_a = 1},
    {.k = 70, .scale = TDM_F32, .a = TEST_SPREAD, .b = TEST_OFFSET},
    /* Weights in their packed form; entries of a batch; the end of the epilogue. */
    {.k = 576, .group = 32, .scale = TDM_F16, .zero = TDM_S8, .packed = 1, .batch = 2},
    {.less_rows = 2, .k = 544, .scale = TDM_F32, .packed = 1, .epilogue = 1},
    /* q8_0 and q4_0: a scale of f16 for 32 steps, as the types of B are 8 or 4 bits; packed and as they are. */
    {.k = 1184, .group = 32, .scale = TDM_F16},
    {.less_rows = 1, .k = 352, .group = 32, .scale = TDM_F16, .packed = 1, .epilogue = 1},
    /* Parts of K: of whole tiles, with a shorter last one. */
    {.k = 1024, .group = 32, .scale = TDM_F32, .zero = TDM_S8, .split = 2, .epilogue = 1},
    {.less_rows = 8, .k = 1120, .group = 128, .scale = TDM_F16, .split = 5, .batch = 2}};

/* One trial on its way. */
typedef struct weights_case {
    const test_device *device;
    const tdm_variant *row;
    weights_trial t;
    test_array a, codes, scale, zero, bias, d;
    tdm_tensor *b;
} weights_case;

/* ---- operands ----------------------------------------------------------------------------------------- */

static int shape_of(const weights_case *c, int64_t first, int64_t second, int64_t shape[3]) {
    int rank = 0;
    if (c->t.batch > 0)
        shape[rank++] = c->t.batch;
    shape[rank++] = first;
    shape[rank++] = second;
    return rank;
}

static int64_t groups_of(const weights_trial *t) {
    return t->group == 0 ? 1 : tdm_ceil_div(t->k, t->group);
}

static void fill_integers(test_array *array, test_random *random, int64_t low, int64_t high) {
    for (int64_t i = 0; i < test_array_count(array); i++)
        test_array_put(array, i, (double)test_random_int(random, low, high));
    test_array_send(array);
}

/* N×K, with a scale from a quarter to two for each column and group. */
static void create_weights(weights_case *c, test_random *random) {
    int64_t shape[3];
    tdm_quantization q = TDM_QUANTIZATION_INIT;
    const bool s4 = c->row->parameters[TDM_GEMM_P_B_TYPE] == TDM_S4;
    const int low = s4 ? -8 : -128, high = s4 ? 7 : 127;
    int rank = shape_of(c, c->t.n, c->t.k, shape);
    test_array_create(&c->codes, c->device, s4 ? TDM_S4 : TDM_S8, rank, shape, c->t.b);
    fill_integers(&c->codes, random, low, high);
    rank = shape_of(c, c->t.n, groups_of(&c->t), shape);
    for (int i = 0; i < rank; i++)
        q.block[i] = i == rank - 1 ? c->t.group : 1;
    test_array_create(&c->scale, c->device, c->t.scale, rank, shape, c->t.parameters);
    for (int64_t i = 0; i < test_array_count(&c->scale); i++)
        test_array_put(&c->scale, i, (double)(1 << test_random_int(random, 0, 3)) / 4.0);
    test_array_send(&c->scale);
    q.scale = c->scale.tensor;
    if (c->t.zero != TDM_DTYPE_NONE) {
        test_array_create(&c->zero, c->device, c->t.zero, rank, shape, c->t.parameters);
        fill_integers(&c->zero, random, low, high);
        q.zero_point = c->zero.tensor;
    }
    TEST_OK(tdm_tensor_quantized(c->codes.tensor, &q, &c->b));
}

static void create(weights_case *c) {
    int64_t shape[3];
    test_random random = {(uint64_t)c->t.k + 7};
    const weights_trial *const t = &c->t;
    int rank = t->transpose_a ? shape_of(c, t->k, t->m, shape) : shape_of(c, t->m, t->k, shape);
    test_array_create(&c->a, c->device, (tdm_dtype)c->row->parameters[TDM_GEMM_P_A_TYPE], rank,
                      shape, t->a);
    fill_integers(&c->a, &random, -2, 2);
    create_weights(c, &random);
    rank = shape_of(c, t->m, t->n, shape);
    test_array_create(&c->d, c->device, TDM_F32, rank, shape, TEST_DENSE);
    test_array_send(&c->d);
    if (t->epilogue) {
        test_array_create(&c->bias, c->device, TDM_F16, 1, &t->n, TEST_SPREAD);
        fill_integers(&c->bias, &random, -200, 200);
    }
}

static void destroy(weights_case *c) {
    tdm_tensor_destroy(c->b);
    test_array_destroy(&c->a);
    test_array_destroy(&c->codes);
    test_array_destroy(&c->scale);
    test_array_destroy(&c->zero);
    test_array_destroy(&c->bias);
    test_array_destroy(&c->d);
}

/* ---- the product, and what it must be ------------------------------------------------------------------ */

static void multiply(weights_case *c) {
    char variant[96];
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    tdm_gemm_args args = TDM_GEMM_ARGS_INIT;
    tdm_gemm_plan *plan;
    tdm_packed *packed = NULL;
    tdm_buffer *workspace = NULL;
    size_t bytes;
    snprintf(variant, sizeof variant, "%s:split_k=%d", c->row->name, c->t.split ? c->t.split : 1);
    desc.a = c->a.layout;
    desc.b = c->codes.layout;
    TEST_OK(tdm_tensor_quant_layout(c->b, &desc.b_quant));
    desc.d = c->d.layout;
    desc.bias = c->bias.layout;
    desc.activation = c->t.epilogue ? TDM_ACT_RELU : TDM_ACT_NONE;
    desc.transpose_a = c->t.transpose_a;
    desc.transpose_b = 1;
    desc.packed_b = c->t.packed;
    desc.variant = variant;
    TEST_OK(tdm_gemm_plan_create(c->device->device, &desc, &plan));
    assert_string_equal(tdm_gemm_plan_variant(plan), c->row->name);
    TEST_OK(tdm_gemm_plan_workspace_size(plan, &bytes));
    assert_true((bytes > 0) == (c->t.split > 0));
    if (bytes > 0)
        TEST_OK(tdm_buffer_create(c->device->device, bytes, &workspace));
    args.a = c->a.tensor;
    args.b = c->t.packed ? NULL : c->b;
    args.bias = c->bias.tensor;
    args.d = c->d.tensor;
    args.workspace = workspace;
    if (c->t.packed)
        TEST_OK(tdm_gemm_pack_b(plan, c->device->stream, c->b, &packed));
    args.packed_b = packed;
    TEST_OK(tdm_gemm_plan_run(plan, c->device->stream, &args));
    test_array_fetch(&c->d);
    tdm_packed_destroy(packed);
    tdm_buffer_destroy(workspace);
    tdm_gemm_plan_destroy(plan);
}

static double weight_at(const weights_case *c, int64_t line, int64_t p) {
    const weights_trial *const t = &c->t;
    const int64_t parameter = line * groups_of(t) + (t->group == 0 ? 0 : p / t->group);
    const double zero = t->zero != TDM_DTYPE_NONE ? test_array_get(&c->zero, parameter) : 0.0;
    return test_array_get(&c->scale, parameter) *
           (test_array_get(&c->codes, line * t->k + p) - zero);
}

/* A as rows of K, whatever its layout is. */
static double *rows_of_a(const weights_case *c, int64_t z) {
    const weights_trial *const t = &c->t;
    double *const a = malloc((size_t)(t->m * t->k) * sizeof *a);
    for (int64_t i = 0; a && i < t->m * t->k; i++) {
        const int64_t at = t->transpose_a ? i % t->k * t->m + i / t->k : i;
        a[i] = test_array_get(&c->a, z * t->m * t->k + at);
    }
    return a;
}

static void check_column(const weights_case *c, const double *a, double *weights, int64_t z,
                         int64_t j) {
    const weights_trial *const t = &c->t;
    const double bias = t->epilogue ? test_array_get(&c->bias, j) : 0.0;
    for (int64_t p = 0; p < t->k; p++)
        weights[p] = weight_at(c, z * t->n + j, p);
    for (int64_t i = 0; i < t->m; i++) {
        double sum = bias;
        for (int64_t p = 0; p < t->k; p++)
            sum += a[i * t->k + p] * weights[p];
        if (t->epilogue && sum < 0)
            sum = 0;
        const double actual = test_array_fetched(&c->d, (z * t->m + i) * t->n + j);
        if (actual != sum)
            test_case_fail("D[%lld, %lld, %lld] is %.9g, must be %.9g", (long long)z, (long long)i,
                           (long long)j, actual, sum);
    }
}

static void check(const weights_case *c) {
    double *const weights = malloc((size_t)c->t.k * sizeof *weights);
    for (int64_t z = 0; z < (c->t.batch > 0 ? c->t.batch : 1); z++) {
        double *const a = rows_of_a(c, z);
        if (!a || !weights)
            test_case_fail("no host memory");
        for (int64_t j = 0; j < c->t.n; j++)
            check_column(c, a, weights, z, j);
        free(a);
    }
    free(weights);
}

static bool is_tensor_row(const tdm_variant *row) {
    return row->op == TDM_OP_GEMM_WEIGHTS && row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_TENSOR;
}

static bool has_room(const test_device *device, const tdm_variant *row) {
    return (uint64_t)row->parameters[TDM_GEMM_P_LOCAL_BYTES] <= device->info.local_bytes;
}

static void run_trial(const test_device *device, const tdm_variant *row, const weights_trial *t) {
    weights_case c = {.device = device, .row = row, .t = *t};
    c.t.m = row->parameters[TDM_GEMM_P_ROWS] - t->less_rows;
    c.t.n = row->parameters[TDM_GEMM_P_COLUMNS] + 8;
    if (!test_case_begin(device, row->name,
                         "m%lld n%lld k%lld group %lld scale %s zero %s a %s%s b %s%s batch %lld "
                         "split %d epilogue %d",
                         (long long)c.t.m, (long long)c.t.n, (long long)t->k, (long long)t->group,
                         tdm_dtype_name(t->scale), t->zero ? tdm_dtype_name(t->zero) : "none",
                         test_placement_name(t->a), t->transpose_a ? " transposed" : "",
                         test_placement_name(t->b), t->packed ? " packed" : "", (long long)t->batch,
                         t->split, t->epilogue))
        return;
    create(&c);
    multiply(&c);
    check(&c);
    test_case_end();
    destroy(&c);
}

static void exact_sums(void **state) {
    (void)state;
    for (int d = 0; d < test_device_count(); d++) {
        const test_device *const device = test_device_at(d);
        int rows = 0;
        for (int i = 0; i < tdm_variant_count; i++) {
            const tdm_variant *const row = &tdm_variants[i];
            if (!is_tensor_row(row) || !test_can_run(device, row) || !has_room(device, row))
                continue;
            rows++;
            for (int t = 0; t < COUNT(trials); t++)
                if (test_part_is_due(device, row, t))
                    run_trial(device, row, &trials[t]);
        }
        const uint32_t needed = TDM_CAP_TENSOR_CORES | TDM_CAP_ASYNC_COPY;
        if (rows == 0 && (device->info.capabilities & needed) == needed &&
            test_case_begin(device, NULL, "rows for quantized weights")) {
            test_case_fail("no row for quantized weights can be run");
            test_case_end();
        }
    }
}

/* ---- the choice ---------------------------------------------------------------------------------------- */

/* What docs/decisions/occupancy-and-waves.md says: a part of the row's name, or of the way it is reached. */
typedef struct choice_row {
    int64_t m, n, k;
    tdm_dtype a;
    int transpose_a;
    const char *part;
    bool splits; /* K */
} choice_row;

static void check_choice(const test_device *device, const choice_row *choice, tdm_dtype weights) {
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    tdm_gemm_plan *plan;
    size_t bytes;
    const int64_t m = choice->m, n = choice->n, k = choice->k;
    const int64_t a[2] = {choice->transpose_a ? k : m, choice->transpose_a ? m : k};
    TEST_OK(tdm_layout_contiguous(choice->a, 2, a, &desc.a));
    TEST_OK(tdm_layout_contiguous(weights, 2, (const int64_t[]){n, k}, &desc.b));
    TEST_OK(tdm_layout_contiguous(TDM_F16, 2, (const int64_t[]){n, k / 32}, &desc.b_quant.scale));
    TEST_OK(tdm_layout_contiguous(TDM_F16, 2, (const int64_t[]){m, n}, &desc.d));
    desc.b_quant.block[0] = 1;
    desc.b_quant.block[1] = 32;
    desc.transpose_a = choice->transpose_a;
    desc.transpose_b = 1;
    TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
    TEST_OK(tdm_gemm_plan_workspace_size(plan, &bytes));
    if (!strstr(tdm_gemm_plan_variant(plan), choice->part) || (bytes > 0) != choice->splits)
        test_case_fail("%lld by %lld of %s is given to %s with %zu bytes", (long long)m,
                       (long long)n, tdm_dtype_name(choice->a), tdm_gemm_plan_variant(plan), bytes);
    tdm_gemm_plan_destroy(plan);
}

/* The best tile that is left, not what serves when there is none. */
static void a_tile_without_room_leaves_the_next(void **state) {
    (void)state;
    static const struct {
        const char *best;
        choice_row left; /* of columns, so many for each unit */
    } tiles[] = {
        {"gemm_f16s8_mma_128x128__tensor", {1024, 128, 4096, TDM_F16, 0, "_mma_64x64", false}},
        {"gemm_f16s8_decode_16x64__tensor", {1, 128, 4096, TDM_F16, 0, "_decode_16x32", false}}};
    for (int d = 0; d < test_device_count(); d++)
        for (int i = 0; i < COUNT(tiles); i++) {
            const test_device *const device = test_device_at(d);
            const tdm_variant *const best = tdm_variant_find(tiles[i].best);
            choice_row left = tiles[i].left;
            tdm_kernel *kernel;
            if (!test_can_run(device, best) || !has_room(device, best) ||
                !test_case_begin(device, NULL, "no room for %s", best->name))
                continue;
            left.n *= device->info.compute_units;
            TEST_OK(tdm_device_kernel(device->device, best, &kernel));
            const uint32_t allowed = kernel->limits.max_group_items;
            kernel->limits.max_group_items = 1;
            check_choice(device, &left, TDM_S8);
            kernel->limits.max_group_items = allowed;
            test_case_end();
        }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(exact_sums),
                                       cmocka_unit_test(a_tile_without_room_leaves_the_next)};
    return cmocka_run_group_tests(tests, test_devices_setup, test_devices_teardown);
}
