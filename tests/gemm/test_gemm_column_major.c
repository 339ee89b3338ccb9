/*
 * D may be column-major, as in BLAS. The tests check when the library computes the transposed
 * product instead, and that the results are those of the requested product.
 */
// ctest: device cost=3
#include <stdio.h>
#include <string.h>

#include "api/gemm/gemm_internal.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/gemm/gemm_trial.h"
#include "tests/support/test_case.h"

/* ---- the choice ------------------------------------------------------------------------------ */

/*
 * Omitted fields mean a row-major layout or an absent operand. In `order`, 'c' marks a column-major
 * operand. `turns` is 1 if the library computes the transposed product.
 */
typedef struct choice_row {
    int64_t m, n, k;
    const char *order; /* of A, B and D */
    int turns;
    char c, residual;
    tdm_dtype b;
    int packed_b, allow_3xtf32;
} choice_row;

static const choice_row choices[] = {
    {.m = 40, .n = 50, .k = 60, .order = "ccc", .turns = 1},
    {.m = 40, .n = 50, .k = 60, .order = "ccr", .turns = 0},
    {.m = 40, .n = 50, .k = 60, .order = "rrr", .turns = 0},
    {.m = 50, .n = 40, .k = 60, .order = "rcc", .turns = 1},
    {.m = 40, .n = 50, .k = 60, .order = "crc", .turns = 1},
    {.m = 40, .n = 50, .k = 60, .order = "rrc", .turns = 1},
    /* If both operands would be transposed, K must be less than twice the shorter side. */
    {.m = 40, .n = 50, .k = 79, .order = "rrc", .turns = 1},
    {.m = 40, .n = 50, .k = 80, .order = "rrc", .turns = 0},
    {.m = 50, .n = 40, .k = 80, .order = "rrc", .turns = 0},
    {.m = 40, .n = 50, .k = 300, .order = "ccc", .turns = 1},
    {.m = 40, .n = 50, .k = 300, .order = "rcc", .turns = 1},
    /* With few rows or columns, skinny variants swap the operands themselves. */
    {.m = 1, .n = 50, .k = 60, .order = "ccc", .turns = 0},
    {.m = 16, .n = 50, .k = 60, .order = "ccc", .turns = 0},
    {.m = 50, .n = 16, .k = 60, .order = "ccc", .turns = 0},
    {.m = 50, .n = 1, .k = 60, .order = "ccc", .turns = 0},
    /* The epilogue reads further operands here. */
    {.m = 40, .n = 50, .k = 60, .order = "ccc", .turns = 1, .c = 'c'},
    {.m = 40, .n = 50, .k = 60, .order = "ccc", .turns = 0, .c = 'r'},
    {.m = 40, .n = 50, .k = 60, .order = "ccc", .turns = 1, .residual = 'c'},
    {.m = 40, .n = 50, .k = 60, .order = "ccc", .turns = 0, .residual = 'r'},
    {.m = 40, .n = 50, .k = 60, .order = "ccc", .turns = 1, .c = 'c', .residual = 'c'},
    /* These are computed as given. */
    {.m = 40, .n = 50, .k = 60, .order = "ccc", .turns = 0, .packed_b = 1},
    {.m = 40, .n = 50, .k = 60, .order = "ccc", .turns = 0, .b = TDM_F16},
    {.m = 40, .n = 50, .k = 60, .order = "ccc", .turns = 0, .allow_3xtf32 = 1},
};

static tdm_layout lay(tdm_dtype dtype, int64_t rows, int64_t columns, char order) {
    const int64_t shape[2] = {rows, columns};
    tdm_layout layout;
    TEST_OK(tdm_layout_contiguous(dtype, 2, shape, &layout));
    if (order == 'c') {
        layout.strides[0] = 1;
        layout.strides[1] = rows;
    }
    return layout;
}

static tdm_gemm_desc describe(const choice_row *row) {
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    desc.a = lay(TDM_F32, row->m, row->k, row->order[0]);
    desc.b = lay(row->b ? row->b : TDM_F32, row->k, row->n, row->order[1]);
    desc.d = lay(TDM_F32, row->m, row->n, row->order[2]);
    if (row->c) {
        desc.c = lay(TDM_F32, row->m, row->n, row->c);
        desc.beta = 1.0f;
    }
    if (row->residual)
        desc.residual = lay(TDM_F32, row->m, row->n, row->residual);
    desc.packed_b = row->packed_b;
    desc.allow_3xtf32 = row->allow_3xtf32;
    return desc;
}

/* True if the variant is skinny and its large operand is f32. */
static bool is_small_m_row(const tdm_variant *row) {
    return row->op == TDM_OP_GEMM && row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_SMALL_M &&
           row->parameters[TDM_GEMM_P_B_TYPE] == (int32_t)TDM_F32;
}

static bool is_small_m(const tdm_gemm_plan *plan) {
    return plan->kernel->variant->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_SMALL_M;
}

/* Skinny variants transpose every product whose N is the smaller side, whatever the layout of D. */
static void expect_turned(const tdm_gemm_plan *plan, const tdm_gemm_desc *desc, int turns) {
    const int64_t m = desc->d.shape[0], n = desc->d.shape[1];
    const bool expected = is_small_m(plan) ? n < m : turns;
    if (tdm_gemm_whole(plan)->swapped != expected)
        test_case_fail("%lld by %lld are %sturned for %s", (long long)m, (long long)n,
                       expected ? "not " : "", plan->kernel->variant->name);
}

DEVICE_TEST(what_is_turned) {
    for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
        const tdm_gemm_desc desc = describe(&choices[i]);
        tdm_gemm_plan *plan = NULL;
        TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
        expect_turned(plan, &desc, choices[i].turns);
        tdm_gemm_plan_destroy(plan);
    }
}

/* A forced skinny variant gets the product as given, not transposed. */
static void force_small_m_rows(const test_device *device, const choice_row *shape) {
    for (const tdm_variant *row = tdm_variants; row < tdm_variants + tdm_variant_count; row++) {
        tdm_gemm_desc desc = describe(shape);
        tdm_gemm_plan *plan = NULL;
        if (!is_small_m_row(row) || !test_can_run(device, row))
            continue;
        desc.variant = row->name;
        TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
        assert_string_equal(tdm_gemm_plan_variant(plan), row->name);
        assert_false(plan->problem.swapped);
        tdm_gemm_plan_destroy(plan);
    }
}

/*
 * The second shape has 1100 rows when transposed. They would need too many passes over K on devices
 * with a limited loop trip count.
 */
DEVICE_TEST(small_m_rows_that_are_forced_turn_nothing) {
    force_small_m_rows(device, &(choice_row){.m = 40, .n = 50, .k = 60, .order = "ccc"});
    force_small_m_rows(device, &(choice_row){.m = 40, .n = 1100, .k = 4096, .order = "ccc"});
}

static void expect_detail(tdm_status status, const char *detail) {
    if (status != TDM_UNSUPPORTED || !strstr(tdm_last_detail(), detail))
        test_case_fail("status %d: %s", (int)status, tdm_last_detail());
}

/*
 * A variant with tensor maps refuses A of 40×48 and B of 48×64. Their columns are `a_pitch` and
 * `b_pitch` apart, and A starts at `offset`.
 */
static void refuse_maps(const test_device *device, const char *variant, int64_t a_pitch,
                        int64_t b_pitch, int64_t offset, const char *detail) {
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    test_array a, b, d;
    tdm_gemm_plan *plan = NULL;
    desc.a = lay(TDM_F16, 40, 48, 'c');
    desc.b = lay(TDM_F16, 48, 64, 'c');
    desc.d = lay(TDM_F16, 40, 64, 'c');
    desc.a.strides[1] = a_pitch;
    desc.b.strides[1] = b_pitch;
    desc.variant = variant;
    tdm_status status = tdm_gemm_plan_create(device->device, &desc, &plan);
    if (status == TDM_OK) {
        test_array_create_layout(&a, device, &desc.a, offset);
        test_array_create_layout(&b, device, &desc.b, 0);
        test_array_create_layout(&d, device, &desc.d, 0);
        tdm_gemm_args args = TDM_GEMM_ARGS_INIT;
        args.a = a.tensor;
        args.b = b.tensor;
        args.d = d.tensor;
        status = tdm_gemm_plan_run(plan, device->stream, &args);
        test_array_destroy(&a);
        test_array_destroy(&b);
        test_array_destroy(&d);
    }
    expect_detail(status, detail);
    tdm_gemm_plan_destroy(plan);
}

DEVICE_TEST(tensor_maps_refuse_the_operand_that_was_given) {
    for (const tdm_variant *row = tdm_variants; row < tdm_variants + tdm_variant_count; row++) {
        if (row->op != TDM_OP_GEMM || row->parameters[TDM_GEMM_P_FAMILY] != TDM_GEMM_WGMMA ||
            row->parameters[TDM_GEMM_P_B_TYPE] != (int32_t)TDM_F16 || !test_can_run(device, row))
            continue;
        refuse_maps(device, row->name, 41, 48, 0, "A is not contiguous");
        refuse_maps(device, row->name, 40, 49, 0, "B is not contiguous");
        refuse_maps(device, row->name, 40, 48, 3, "A begins");
    }
}

/* ---- results --------------------------------------------------------------------------------- */

/* A case with all parts of an epilogue; '-': absent. */
typedef struct result_row {
    int64_t m, n, k;
    int transpose_a, transpose_b;
    char c;        /* '=': D itself */
    char residual; /* '=': D itself */
    int bias;
    tdm_activation activation;
} result_row;

static const result_row results[] = {
    {35, 67, 41, 1, 1, '-', '-', 0, TDM_ACT_NONE},
    {67, 35, 33, 0, 0, '=', '-', 0, TDM_ACT_RELU},
    {49, 34, 40, 0, 1, 'c', '=', 1, TDM_ACT_GELU_TANH},
    {34, 50, 67, 1, 0, '-', 'c', 1, TDM_ACT_NONE},
};

static gemm_trial trial_of(const result_row *r, tdm_dtype type, uint64_t seed) {
    gemm_trial trial = {.packed_b = 0};
    op_gemm_case *const item = &trial.item;
    *item = (op_gemm_case){.m = r->m,
                           .n = r->n,
                           .k = r->k,
                           .transpose_a = r->transpose_a,
                           .transpose_b = r->transpose_b,
                           .alpha = 1.5f,
                           .beta = r->c == '-' ? 0.0f : -0.5f,
                           .activation = r->activation,
                           .seed = seed};
    item->dtype[OP_GEMM_A] = item->dtype[OP_GEMM_B] = item->dtype[OP_GEMM_D] = type;
    trial.placement[OP_GEMM_C] = trial.placement[OP_GEMM_D] = trial.placement[OP_GEMM_RESIDUAL] =
        TEST_TRANSPOSED;
    if (r->c != '-')
        item->dtype[OP_GEMM_C] = type;
    if (r->residual != '-')
        item->dtype[OP_GEMM_RESIDUAL] = type;
    if (r->bias)
        item->dtype[OP_GEMM_BIAS] = TDM_F32;
    trial.c_source = r->c == '=' ? GEMM_SAME : GEMM_OWN;
    trial.residual_source = r->residual == '=' ? GEMM_SAME : GEMM_OWN;
    return trial;
}

/*
 * The operands are swapped before a kernel sees them, so the variant that the library chooses
 * stands for all.
 */
DEVICE_TEST(column_major_results) {
    static const tdm_dtype types[] = {TDM_F32, TDM_F16, TDM_BF16};
    for (size_t i = 0; i < 3 * sizeof results / sizeof *results; i++) {
        const gemm_trial trial = trial_of(&results[i / 3], types[i % 3], 500 + i);
        gemm_trial_run(device, &trial);
    }
}

/* Batches with gaps: C and D are the same column-major tensor, and all entries share B. */
typedef struct batch_case {
    test_array a, b, d;
} batch_case;

enum {
    BATCH = 2,
    ROWS = 41,
    COLUMNS = 37,
    DEPTH = 23,
    PITCH = ROWS + 3
};

static void open_batch(batch_case *t, const test_device *device) {
    const int64_t a[3] = {BATCH, ROWS, DEPTH}, b[3] = {1, DEPTH, COLUMNS},
                  d[3] = {BATCH, ROWS, COLUMNS};
    tdm_layout layout;
    TEST_OK(tdm_layout_contiguous(TDM_F32, 3, d, &layout));
    layout.strides[0] = (int64_t)PITCH * COLUMNS + 5;
    layout.strides[1] = 1;
    layout.strides[2] = PITCH;
    test_array_create(&t->a, device, TDM_F32, 3, a, TEST_DENSE);
    test_array_create(&t->b, device, TDM_F32, 3, b, TEST_DENSE);
    test_array_create_layout(&t->d, device, &layout, 7);
    test_array_fill(&t->a, TEST_DATA_SMALL_INTEGER, 1);
    test_array_fill(&t->b, TEST_DATA_SMALL_INTEGER, 2);
    test_array_fill(&t->d, TEST_DATA_SMALL_INTEGER, 3);
}

static double expected_of(const batch_case *t, int64_t index) {
    const int64_t row = index / COLUMNS, column = index % COLUMNS;
    double sum = 0;
    for (int64_t p = 0; p < DEPTH; p++)
        sum += test_array_get(&t->a, row * DEPTH + p) * test_array_get(&t->b, p * COLUMNS + column);
    return 2 * sum - test_array_get(&t->d, index);
}

DEVICE_TEST(batches_in_place) {
    batch_case t;
    open_batch(&t, device);
    TEST_OK(tdm_gemm(device->stream, 2.0f, t.a.tensor, t.b.tensor, -1.0f, t.d.tensor, t.d.tensor,
                     NULL));
    test_array_fetch(&t.d);
    for (int64_t i = 0; i < (int64_t)BATCH * ROWS * COLUMNS; i++)
        if (test_array_fetched(&t.d, i) != expected_of(&t, i))
            test_case_fail("element %lld is %g, must be %g", (long long)i,
                           test_array_fetched(&t.d, i), expected_of(&t, i));
    test_array_destroy(&t.a);
    test_array_destroy(&t.b);
    test_array_destroy(&t.d);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
