/*
 * Weights of s8 with one scale for each column, packed once, by rows of A that are quantized in the call: the bits of weights packed
 * in every call, which are exact here; which form they have; which plans refuse them.
 */
// ctest: device kernels=gemm cost=3
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/gemm/gemm_internal.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/test_array.h"

/* Rows of A whose greatest element is 127 are their own codes: sums are integers, scales powers of two, all floats exact. */
enum {
    LARGEST = 127,
    FEW = 8 /* rows that lines are multiplied with as they are */
};

typedef struct product {
    const test_device *device;
    int64_t m, n, k;
    int64_t batch;    /* 0: none */
    bool shares_b;    /* one B for the whole batch */
    bool transpose_b; /* B is N×K */
    tdm_dtype a_type;
    tdm_dtype zero_type; /* of B, or NONE */
} product;

typedef struct operands {
    product of;
    test_array a, codes, scale, zero, d;
    tdm_tensor *b;
} operands;

static int64_t entries_of_a(const product *p) {
    return p->batch > 0 ? p->batch : 1;
}

static int64_t entries_of_b(const product *p) {
    return p->shares_b ? 1 : entries_of_a(p);
}

static int shape_of(const product *p, int64_t entries, int64_t rows, int64_t columns,
                    int64_t shape[TDM_MAX_RANK]) {
    int rank = 0;
    if (p->batch > 0)
        shape[rank++] = entries;
    shape[rank++] = rows;
    shape[rank++] = columns;
    return rank;
}

static void fill_integers(test_array *array, test_random *random, int low, int high) {
    for (int64_t i = 0; i < test_array_count(array); i++)
        test_array_put(array, i, (double)test_random_int(random, low, high));
}

static void create_b(operands *o, test_random *random) {
    const product *const p = &o->of;
    int64_t shape[TDM_MAX_RANK];
    tdm_quantization q = TDM_QUANTIZATION_INIT;
    int rank = shape_of(p, entries_of_b(p), p->transpose_b ? p->n : p->k,
                        p->transpose_b ? p->k : p->n, shape);
    const int k_dimension = rank - (p->transpose_b ? 1 : 2);
    test_array_create(&o->codes, p->device, TDM_S8, rank, shape, TEST_DENSE);
    fill_integers(&o->codes, random, INT8_MIN, INT8_MAX);
    test_array_send(&o->codes);
    shape[k_dimension] = 1;
    for (int i = 0; i < rank; i++)
        q.block[i] = i == k_dimension ? 0 : 1;
    test_array_create(&o->scale, p->device, TDM_F32, rank, shape, TEST_DENSE);
    for (int64_t i = 0; i < test_array_count(&o->scale); i++)
        test_array_put(&o->scale, i, ldexp(1.0, (int)test_random_int(random, -6, 6)));
    test_array_send(&o->scale);
    q.scale = o->scale.tensor;
    if (p->zero_type != TDM_DTYPE_NONE) {
        test_array_create(&o->zero, p->device, p->zero_type, rank, shape, TEST_DENSE);
        fill_integers(&o->zero, random, INT8_MIN, INT8_MAX);
        test_array_send(&o->zero);
        q.zero_point = o->zero.tensor;
    }
    TEST_OK(tdm_tensor_quantized(o->codes.tensor, &q, &o->b));
}

static void create(operands *o, const product *p, uint64_t seed) {
    int64_t shape[TDM_MAX_RANK];
    test_random random = {seed};
    *o = (operands){.of = *p};
    create_b(o, &random);
    int rank = shape_of(p, entries_of_a(p), p->m, p->k, shape);
    test_array_create(&o->a, p->device, p->a_type, rank, shape, TEST_DENSE);
    fill_integers(&o->a, &random, -LARGEST, LARGEST);
    for (int64_t i = 0; i < entries_of_a(p) * p->m; i++)
        test_array_put(&o->a, i * p->k + i % p->k, i % 2 ? LARGEST : -LARGEST);
    test_array_send(&o->a);
    rank = shape_of(p, entries_of_a(p), p->m, p->n, shape);
    test_array_create(&o->d, p->device, TDM_F32, rank, shape, TEST_DENSE);
    test_array_send(&o->d);
}

static void destroy(operands *o) {
    tdm_tensor_destroy(o->b);
    test_array_destroy(&o->a);
    test_array_destroy(&o->codes);
    test_array_destroy(&o->scale);
    test_array_destroy(&o->zero);
    test_array_destroy(&o->d);
}

static tdm_gemm_plan *plan_of(const operands *o, bool packed) {
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    tdm_gemm_plan *plan;
    desc.a = o->a.layout;
    desc.b = o->codes.layout;
    TEST_OK(tdm_tensor_quant_layout(o->b, &desc.b_quant));
    desc.d = o->d.layout;
    desc.transpose_b = o->of.transpose_b;
    desc.quantize_a = 1;
    desc.packed_b = packed;
    TEST_OK(tdm_gemm_plan_create(o->of.device->device, &desc, &plan));
    return plan;
}

static tdm_status run(operands *o, const tdm_gemm_plan *plan, const tdm_packed *packed) {
    tdm_buffer *workspace = NULL;
    size_t bytes;
    TEST_OK(tdm_gemm_plan_workspace_size(plan, &bytes));
    if (bytes > 0)
        TEST_OK(tdm_buffer_create(o->of.device->device, bytes, &workspace));
    test_array_send(&o->d);
    const tdm_gemm_args args = {.struct_size = sizeof args,
                                .a = o->a.tensor,
                                .b = packed ? NULL : o->b,
                                .packed_b = packed,
                                .d = o->d.tensor,
                                .workspace = workspace};
    const tdm_status status = tdm_gemm_plan_run(plan, o->of.device->stream, &args);
    test_array_fetch(&o->d);
    tdm_buffer_destroy(workspace);
    return status;
}

static double expected_at(const operands *o, int64_t z, int64_t i, int64_t j) {
    const product *const p = &o->of;
    const int64_t entry = entries_of_b(p) > 1 ? z : 0, column = entry * p->n + j;
    const double zero = p->zero_type ? test_array_get(&o->zero, column) : 0;
    double sum = 0;
    for (int64_t at = 0; at < p->k; at++) {
        const int64_t code = p->transpose_b ? j * p->k + at : at * p->n + j;
        sum += test_array_get(&o->a, (z * p->m + i) * p->k + at) *
               (test_array_get(&o->codes, entry * p->k * p->n + code) - zero);
    }
    return sum * test_array_get(&o->scale, column);
}

static void expect_product(const operands *o, const char *what) {
    const product *const p = &o->of;
    for (int64_t at = 0; at < test_array_count(&o->d); at++) {
        const int64_t row = at / p->n, z = row / p->m;
        const double expected = expected_at(o, z, row % p->m, at % p->n);
        const double actual = test_array_fetched(&o->d, at);
        if (actual != expected)
            test_case_fail("%s: element %lld is %.9g, not %.9g", what, (long long)at, actual,
                           expected);
    }
}

/* What was packed needs its source no more, parameters included. */
static void spoil_b(operands *o) {
    tdm_stream *const stream = o->of.device->stream;
    TEST_OK(tdm_tensor_fill(stream, 99, o->codes.tensor));
    TEST_OK(tdm_tensor_fill(stream, NAN, o->scale.tensor));
    if (o->of.zero_type != TDM_DTYPE_NONE)
        TEST_OK(tdm_tensor_fill(stream, 99, o->zero.tensor));
}

static void check_both_ways(const product *p, uint64_t seed) {
    operands o;
    tdm_packed *packed;
    create(&o, p, seed);
    tdm_gemm_plan *const plain = plan_of(&o, false), *const ahead = plan_of(&o, true);
    TEST_OK(run(&o, plain, NULL));
    expect_product(&o, "packed in the call");
    TEST_OK(tdm_gemm_pack_b(ahead, p->device->stream, o.b, &packed));
    spoil_b(&o);
    for (int again = 0; again < 2; again++) {
        TEST_OK(run(&o, ahead, packed));
        expect_product(&o, "packed before");
    }
    if (p->m > FEW)
        assert_string_equal(tdm_gemm_plan_variant(plain), tdm_gemm_plan_variant(ahead));
    tdm_packed_destroy(packed);
    tdm_gemm_plan_destroy(plain);
    tdm_gemm_plan_destroy(ahead);
    destroy(&o);
}

DEVICE_TEST(weights_packed_before_have_the_exact_product) {
    static const product products[] = {
        {.m = 33, .n = 70, .k = 130, .a_type = TDM_F32},
        {.m = 9, .n = 21, .k = 35, .a_type = TDM_F16, .zero_type = TDM_S8},
        {.m = 17, .n = 64, .k = 64, .transpose_b = true, .a_type = TDM_BF16, .zero_type = TDM_S32},
        {.m = FEW, .n = 21, .k = 35, .a_type = TDM_F32, .zero_type = TDM_S8},
        {.m = 12, .n = 5, .k = 1, .a_type = TDM_F32, .zero_type = TDM_S32},
        {.m = 10, .n = 19, .k = 37, .batch = 3, .a_type = TDM_F32, .zero_type = TDM_S8},
        {.m = 10, .n = 19, .k = 37, .batch = 2, .shares_b = true, .a_type = TDM_F32},
        {.m = 11,
         .n = 30,
         .k = 520,
         .transpose_b = true,
         .batch = 2,
         .a_type = TDM_F16,
         .zero_type = TDM_S8}};
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        product p = products[i];
        p.device = device;
        check_both_ways(&p, 40 + i);
    }
}

/* Integer kernels of CPU cores have a form of their own, for many rows; what reads them serves any number of those. */
DEVICE_TEST(weights_packed_for_many_rows_serve_others_and_not_few) {
    static const int64_t many[] = {40, 9, 130};
    const bool cores = (device->info.capabilities & TDM_CAP_CPU_CORES) != 0;
    tdm_packed *packed = NULL;
    operands o;
    product p = {.device = device, .n = 48, .k = 96, .a_type = TDM_F32, .zero_type = TDM_S8};
    for (int i = 0; i < 3; i++) {
        p.m = many[i];
        create(&o, &p, 7);
        tdm_gemm_plan *const plan = plan_of(&o, true);
        if (!packed)
            TEST_OK(tdm_gemm_pack_b(plan, device->stream, o.b, &packed));
        TEST_OK(run(&o, plan, packed));
        expect_product(&o, "other rows");
        tdm_gemm_plan_destroy(plan);
        destroy(&o);
    }
    const bool in_lines = strncmp(tdm_packed_layout(packed), "lines-s8/", 9) == 0;
    assert_int_equal(in_lines, !cores);
    p.m = FEW;
    create(&o, &p, 7);
    tdm_gemm_plan *const few = plan_of(&o, true);
    if (cores) {
        TEST_REFUSED(run(&o, few, packed), TDM_BAD_ARGUMENT, "gemm: packed_b has layout ");
        test_array_expect_unchanged(&o.d);
    } else {
        TEST_OK(run(&o, few, packed));
        expect_product(&o, "few rows");
    }
    tdm_gemm_plan_destroy(few);
    tdm_packed_destroy(packed);
    destroy(&o);
}

/* Lines, which plans of few rows make, and forms of other parameters are refused where they do not fit. */
DEVICE_TEST(weights_of_another_form_are_refused) {
    const bool cores = (device->info.capabilities & TDM_CAP_CPU_CORES) != 0;
    operands few, many, bare;
    tdm_packed *lines, *without;
    product p = {.device = device, .m = 4, .n = 48, .k = 96, .a_type = TDM_F32};
    create(&bare, &p, 9);
    p.zero_type = TDM_S8;
    create(&few, &p, 9);
    p.m = 40;
    create(&many, &p, 9);
    tdm_gemm_plan *const packs_lines = plan_of(&few, true), *const plan = plan_of(&many, true),
                         *const has_none = plan_of(&bare, true);
    TEST_OK(tdm_gemm_pack_b(packs_lines, device->stream, few.b, &lines));
    TEST_OK(tdm_gemm_pack_b(has_none, device->stream, bare.b, &without));
    if (cores)
        TEST_REFUSED(run(&many, plan, lines), TDM_BAD_ARGUMENT,
                     "gemm: packed_b has layout lines-s8/1 but gemm_int");
    else
        TEST_OK(run(&many, plan, lines));
    TEST_REFUSED(run(&few, packs_lines, without), TDM_BAD_ARGUMENT,
                 "gemm: packed_b carries other quantization parameters than B of the plan");
    tdm_packed_destroy(lines);
    tdm_packed_destroy(without);
    tdm_gemm_plan_destroy(packs_lines);
    tdm_gemm_plan_destroy(plan);
    tdm_gemm_plan_destroy(has_none);
    destroy(&few);
    destroy(&many);
    destroy(&bare);
}

/* Rows that become floats first have a plan without a kernel of its own in front. */
DEVICE_TEST(weights_of_another_type_are_refused) {
    const product p = {.device = device, .m = 40, .n = 48, .k = 96, .a_type = TDM_F32};
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    tdm_gemm_plan *plan;
    tdm_packed *packed;
    operands o;
    create(&o, &p, 13);
    tdm_gemm_plan *const packer = plan_of(&o, true);
    TEST_OK(tdm_gemm_pack_b(packer, device->stream, o.b, &packed));
    desc.a = o.a.layout;
    TEST_OK(tdm_layout_contiguous(TDM_S4, 2, o.codes.layout.shape, &desc.b));
    TEST_OK(tdm_tensor_quant_layout(o.b, &desc.b_quant));
    desc.d = o.d.layout;
    desc.quantize_a = desc.packed_b = 1;
    TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
    TEST_REFUSED(run(&o, plan, packed), TDM_BAD_ARGUMENT, " reads lines-s4/1");
    tdm_packed_destroy(packed);
    tdm_gemm_plan_destroy(plan);
    tdm_gemm_plan_destroy(packer);
    destroy(&o);
}

/* The workspace has no room for what was packed before; what that takes is known beforehand. */
DEVICE_TEST(packed_weights_leave_the_workspace) {
    const product p = {.device = device, .m = 64, .n = 512, .k = 256, .a_type = TDM_F32};
    size_t inside, ahead;
    tdm_packed *packed;
    operands o;
    create(&o, &p, 11);
    tdm_gemm_plan *const plain = plan_of(&o, false), *const plan = plan_of(&o, true);
    TEST_OK(tdm_gemm_plan_workspace_size(plain, &inside));
    TEST_OK(tdm_gemm_plan_workspace_size(plan, &ahead));
    TEST_OK(tdm_gemm_pack_b(plan, device->stream, o.b, &packed));
    int64_t bytes;
    TEST_OK(tdm_gemm_packed_bytes(plan, &bytes));
    assert_int_equal(bytes + p.n * (int64_t)sizeof(float), tdm_packed_bytes(packed));
    assert_true(ahead <= inside);
    assert_true(ahead < (size_t)(p.m * (p.k + 4)) + 1024);
    assert_true(tdm_packed_bytes(packed) >= (size_t)(p.n * p.k) + (size_t)p.n * sizeof(float));
    tdm_packed_destroy(packed);
    tdm_gemm_plan_destroy(plain);
    tdm_gemm_plan_destroy(plan);
    destroy(&o);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weights_packed_before_have_the_exact_product),
        cmocka_unit_test(weights_packed_for_many_rows_serve_others_and_not_few),
        cmocka_unit_test(weights_of_another_form_are_refused),
        cmocka_unit_test(weights_of_another_type_are_refused),
        cmocka_unit_test(packed_weights_leave_the_workspace)};
    return cmocka_run_group_tests(tests, test_devices_setup, test_devices_teardown);
}
