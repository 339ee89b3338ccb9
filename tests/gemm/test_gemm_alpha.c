/*
 * Operands that are multiplied by an alpha or beta of zero are not read: a NaN in them does not
 * reach D.
 */
// ctest: device
#include <math.h>

#include "api/device/core.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/gemm/gemm_table.h"
#include "tests/support/test_case.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

typedef struct alpha_case {
    tdm_dtype a, b, d;
    int64_t batch, m, n, k;
    int64_t group; /* rows of B that share parameters; 0: all */
    int packed_b, quantize_a, column_major_d;
} alpha_case;

/*
 * A K of 8192 is split on devices for which D has too few tiles. Integer operands have quantization
 * parameters.
 */
static const alpha_case cases[] = {{TDM_F32, TDM_F32, TDM_F32, 0, 37, 41, 19, 0, 0, 0, 0},
                                   {TDM_F16, TDM_F16, TDM_F16, 0, 32, 48, 64, 0, 0, 0, 0},
                                   {TDM_BF16, TDM_BF16, TDM_F32, 0, 5, 64, 32, 0, 0, 0, 0},
                                   {TDM_F32, TDM_F32, TDM_F32, 0, 1, 70, 33, 0, 0, 0, 0},
                                   {TDM_F32, TDM_F32, TDM_F32, 0, 9, 10, 0, 0, 0, 0, 0},
                                   {TDM_F32, TDM_F32, TDM_F32, 0, 16, 16, 8192, 0, 0, 0, 0},
                                   {TDM_F32, TDM_F32, TDM_F32, 3, 6, 7, 8, 0, 0, 0, 0},
                                   {TDM_F32, TDM_F32, TDM_F32, 0, 37, 43, 19, 0, 0, 0, 1},
                                   {TDM_F32, TDM_F32, TDM_F32, 0, 37, 41, 19, 0, 1, 0, 0},
                                   {TDM_S8, TDM_S8, TDM_F32, 0, 33, 36, 32, 0, 0, 0, 0},
                                   {TDM_U8, TDM_S8, TDM_F16, 0, 16, 16, 8192, 0, 1, 0, 0},
                                   {TDM_F16, TDM_S4, TDM_F16, 0, 3, 64, 64, 32, 0, 0, 0},
                                   {TDM_F32, TDM_S4, TDM_F32, 0, 40, 64, 64, 32, 1, 0, 0},
                                   {TDM_F32, TDM_S8, TDM_F32, 0, 20, 24, 64, 0, 0, 1, 0}};

static tdm_layout matrix(const alpha_case *c, tdm_dtype dtype, int64_t rows, int64_t columns) {
    const int64_t shape[3] = {c->batch, rows, columns};
    tdm_layout layout;
    TEST_OK(tdm_layout_contiguous(dtype, c->batch ? 3 : 2, c->batch ? shape : shape + 1, &layout));
    return layout;
}

static tdm_gemm_desc describe(const alpha_case *c) {
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    desc.a = matrix(c, c->a, c->m, c->k);
    desc.b = matrix(c, c->b, c->k, c->n);
    desc.d = matrix(c, c->d, c->m, c->n);
    if (c->column_major_d) {
        desc.d.strides[0] = 1;
        desc.d.strides[1] = c->m;
    }
    desc.c = desc.residual = desc.d;
    TEST_OK(tdm_layout_contiguous(TDM_F32, 1, &c->n, &desc.bias));
    if (c->a == TDM_S8 || c->a == TDM_U8)
        gemm_int_arrange(&desc.a_quant, &desc.a, 1, 0, TDM_S8);
    if (c->b == TDM_S8 || c->b == TDM_S4)
        gemm_int_arrange(&desc.b_quant, &desc.b, c->group, 1, TDM_DTYPE_NONE);
    desc.quantize_a = c->quantize_a;
    desc.packed_b = c->packed_b;
    desc.activation = TDM_ACT_RELU;
    return desc;
}

typedef struct operands {
    gemm_int_operand a, b;
    test_array c, bias, residual, d;
} operands;

/* Fills A, B and their scales with NaN where their types are floats. */
static void lay(operands *o, const test_device *device, const tdm_gemm_desc *desc) {
    const double nan = NAN;
    gemm_int_operand_create(&o->a, device, &desc->a, &desc->a_quant);
    gemm_int_operand_create(&o->b, device, &desc->b, &desc->b_quant);
    if (desc->a_quant.scale.rank)
        gemm_int_put(&o->a.scale, &nan, 1);
    if (desc->b_quant.scale.rank)
        gemm_int_put(&o->b.scale, &nan, 1);
    test_array_create_layout(&o->c, device, &desc->c, 0);
    test_array_create_layout(&o->bias, device, &desc->bias, 0);
    test_array_create_layout(&o->residual, device, &desc->residual, 0);
    test_array_create_layout(&o->d, device, &desc->d, 0);
    test_array_fill(&o->c, TEST_DATA_SMALL_INTEGER, 11);
    test_array_fill(&o->bias, TEST_DATA_SMALL_INTEGER, 12);
    test_array_fill(&o->residual, TEST_DATA_SMALL_INTEGER, 13);
}

static void clear(operands *o) {
    gemm_int_operand_destroy(&o->a);
    gemm_int_operand_destroy(&o->b);
    test_array_destroy(&o->c);
    test_array_destroy(&o->bias);
    test_array_destroy(&o->residual);
    test_array_destroy(&o->d);
}

static void expect_epilogue(operands *o, float beta, int gated) {
    const int64_t n = o->bias.layout.shape[0];
    test_array_fetch(&o->d);
    for (int64_t i = 0; i < test_array_count(&o->d); i++) {
        const double c = beta != 0 ? beta * test_array_get(&o->c, i) : 0;
        const double residual = test_array_get(&o->residual, i);
        const double x = c + test_array_get(&o->bias, i % n) + (gated ? 0 : residual);
        const double expected = (x > 0 ? x : 0) * (gated ? residual : 1);
        if (test_array_fetched(&o->d, i) != expected)
            test_case_fail("element %lld is %g, not %g", (long long)i, test_array_fetched(&o->d, i),
                           expected);
    }
}

/* Runs the plan; packed weights come from `packing`. */
static void run_plan(operands *o, const test_device *device, const tdm_gemm_plan *plan,
                     const tdm_gemm_plan *packing) {
    size_t bytes;
    tdm_packed *packed = NULL;
    tdm_gemm_args args = TDM_GEMM_ARGS_INIT;
    args.a = o->a.tensor;
    args.b = packing ? NULL : o->b.tensor;
    args.c = o->c.tensor;
    args.bias = o->bias.tensor;
    args.residual = o->residual.tensor;
    args.d = o->d.tensor;
    TEST_OK(tdm_gemm_plan_workspace_size(plan, &bytes));
    assert_int_equal(bytes, 0);
    if (packing)
        TEST_OK(tdm_gemm_pack_b(packing, device->stream, o->b.tensor, &packed));
    args.packed_b = packed;
    test_array_send(&o->d);
    TEST_OK(tdm_gemm_plan_run(plan, device->stream, &args));
    tdm_packed_destroy(packed);
}

static void run_call(operands *o, const test_device *device, const tdm_gemm_desc *desc) {
    const tdm_gemm_epilogue epilogue = {.struct_size = sizeof epilogue,
                                        .bias = o->bias.tensor,
                                        .residual = o->residual.tensor,
                                        .activation = desc->activation,
                                        .quantize_a = desc->quantize_a,
                                        .gated = desc->gated};
    test_array_send(&o->d);
    TEST_OK(tdm_gemm(device->stream, 0.0f, o->a.tensor, o->b.tensor, desc->beta, o->c.tensor,
                     o->d.tensor, &epilogue));
}

static void run_case(const test_device *device, const alpha_case *c, float beta, int gated) {
    operands o;
    tdm_gemm_plan *plan, *usual;
    tdm_gemm_desc desc = describe(c);
    lay(&o, device, &desc);
    if (beta == 0) { // C is not read either
        const double nan = NAN;
        gemm_int_put(&o.c, &nan, 1);
    }
    desc.beta = beta;
    desc.gated = gated;
    TEST_OK(tdm_gemm_plan_create(device->device, &desc, &usual));
    desc.alpha = 0.0f;
    TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
    run_plan(&o, device, plan, c->packed_b ? plan : NULL);
    expect_epilogue(&o, beta, gated);
    if (c->packed_b)
        run_plan(&o, device, plan, usual);
    else
        run_call(&o, device, &desc);
    expect_epilogue(&o, beta, gated);
    tdm_gemm_plan_destroy(plan);
    tdm_gemm_plan_destroy(usual);
    clear(&o);
}

TEST(alpha_of_zero) {
    static const float betas[] = {0.0f, 2.0f};
    for (int d = 0; d < test_device_count(); d++)
        for (int i = 0; i < COUNT(cases) * COUNT(betas) * 2; i++) {
            const alpha_case *const c = &cases[i / (COUNT(betas) * 2)];
            const float beta = betas[i / 2 % COUNT(betas)];
            if (!test_case_begin(test_device_at(d), NULL, "case %d, beta %g%s",
                                 i / (COUNT(betas) * 2), (double)beta, i % 2 ? ", gated" : ""))
                continue;
            run_case(test_device_at(d), c, beta, i % 2);
            test_case_end();
        }
}

/* An alpha of -0 is zero too. D must be 0, not -0, as it is for K = 0. */
DEVICE_TEST(without_an_epilogue_d_is_zero) {
    static const float alphas[] = {0.0f, -0.0f};
    const int64_t shape[2] = {5, 6}, square[2] = {5, 5};
    test_array a, b, d;
    test_array_create(&a, device, TDM_F32, 2, square, TEST_DENSE);
    test_array_create(&b, device, TDM_F32, 2, shape, TEST_TRANSPOSED);
    test_array_create(&d, device, TDM_BF16, 2, shape, TEST_SPREAD);
    test_array_send(&a);
    test_array_send(&b);
    for (int i = 0; i < COUNT(alphas); i++) {
        test_array_send(&d);
        TEST_OK(
            tdm_gemm(device->stream, alphas[i], a.tensor, b.tensor, 0.0f, NULL, d.tensor, NULL));
        test_array_fetch(&d);
        for (int64_t j = 0; j < 30; j++)
            assert_true(test_array_fetched(&d, j) == 0 && !signbit(test_array_fetched(&d, j)));
    }
    test_array_destroy(&a);
    test_array_destroy(&b);
    test_array_destroy(&d);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
