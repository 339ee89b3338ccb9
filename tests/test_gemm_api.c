/* The contract of the GEMM calls: what they refuse and say, what they leave alone, plans, packed weights, recording. */
// ctest: device
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/core.h"
#include "tests/support/device_cases.h"
#include "tests/support/gemm_trial.h"

/* A of 4×6, B of 6×5, C and D of 4×5, f32, dense. */
static tdm_gemm_desc small_desc(void) {
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    TEST_OK(tdm_layout_contiguous(TDM_F32, 2, (const int64_t[]){4, 6}, &desc.a));
    TEST_OK(tdm_layout_contiguous(TDM_F32, 2, (const int64_t[]){6, 5}, &desc.b));
    TEST_OK(tdm_layout_contiguous(TDM_F32, 2, (const int64_t[]){4, 5}, &desc.d));
    return desc;
}

static void refuse_desc(const test_device *device, const tdm_gemm_desc *desc, tdm_status status,
                        const char *part) {
    tdm_gemm_plan *plan = (tdm_gemm_plan *)(uintptr_t)1;
    TEST_REFUSED(tdm_gemm_plan_create(device->device, desc, &plan), status, part);
    assert_null(plan);
}

DEVICE_TEST(descriptions_that_do_not_fit_are_refused) {
    tdm_gemm_desc desc = small_desc();
    desc.b.shape[0] = 7;
    refuse_desc(device, &desc, TDM_BAD_SHAPE, "gemm: K of A is 6 but K of B is 7");
    desc = small_desc();
    desc.transpose_a = 1;
    refuse_desc(device, &desc, TDM_BAD_SHAPE, "gemm: K of A is 4 but K of B is 6");
    desc = small_desc();
    desc.a.shape[0] = 3;
    refuse_desc(device, &desc, TDM_BAD_SHAPE, "gemm: M of A is 3 but M of D is 4");
    desc = small_desc();
    desc.d.shape[1] = 9;
    desc.d.strides[0] = 9;
    refuse_desc(device, &desc, TDM_BAD_SHAPE, "gemm: N of B is 5 but N of D is 9");
    desc = small_desc();
    desc.a.rank = 1;
    refuse_desc(device, &desc, TDM_BAD_SHAPE, "A has 1 dimensions");
    desc = small_desc();
    desc.a.shape[0] = -4;
    refuse_desc(device, &desc, TDM_BAD_SHAPE, "gemm: A");
    desc = small_desc();
    TEST_OK(tdm_layout_contiguous(TDM_F32, 3, (const int64_t[]){2, 4, 6}, &desc.a));
    refuse_desc(device, &desc, TDM_BAD_SHAPE, "A has 3 dimensions but D has 2");
    TEST_OK(tdm_layout_contiguous(TDM_F32, 3, (const int64_t[]){3, 4, 5}, &desc.d));
    refuse_desc(device, &desc, TDM_BAD_SHAPE, "batch dimension 0 of A is 2 but D has 3 there");
}

DEVICE_TEST(types_that_have_no_kernel_are_refused_by_name) {
    tdm_gemm_desc desc = small_desc();
    desc.b.dtype = TDM_S8;
    refuse_desc(device, &desc, TDM_UNSUPPORTED, "gemm: B is s8; f32, f16 and bf16 are supported");
    desc = small_desc();
    desc.d.dtype = TDM_F64;
    refuse_desc(device, &desc, TDM_UNSUPPORTED, "D is f64");
    desc = small_desc();
    desc.a.dtype = (tdm_dtype)99;
    refuse_desc(device, &desc, TDM_BAD_DTYPE, "A is 99");
}

DEVICE_TEST(epilogues_that_do_not_fit_are_refused) {
    tdm_gemm_desc desc = small_desc();
    desc.beta = 2.0f;
    refuse_desc(device, &desc, TDM_BAD_ARGUMENT, "gemm: beta is 2 but there is no C");
    desc = small_desc();
    desc.activation = (tdm_activation)42;
    refuse_desc(device, &desc, TDM_BAD_ARGUMENT, "activation is 42");
    desc = small_desc();
    TEST_OK(tdm_layout_contiguous(TDM_F32, 1, (const int64_t[]){4}, &desc.bias));
    refuse_desc(device, &desc, TDM_BAD_SHAPE, "N of bias is 4 but N of D is 5");
    TEST_OK(tdm_layout_contiguous(TDM_F32, 2, (const int64_t[]){1, 5}, &desc.bias));
    refuse_desc(device, &desc, TDM_BAD_SHAPE, "bias has 2 dimensions");
    desc = small_desc();
    desc.c = desc.a;
    refuse_desc(device, &desc, TDM_BAD_SHAPE, "N of C is 6 but N of D is 5");
    desc = small_desc();
    desc.residual = desc.b;
    refuse_desc(device, &desc, TDM_BAD_SHAPE, "M of residual is 6 but M of D is 4");
    desc = small_desc();
    desc.d.strides[0] = 0;
    refuse_desc(device, &desc, TDM_BAD_ARGUMENT, "elements of D share memory");
    desc.d.strides[0] = 3;
    refuse_desc(device, &desc, TDM_BAD_ARGUMENT, "elements of D share memory");
}

DEVICE_TEST(null_and_foreign_structs_are_refused) {
    tdm_gemm_desc desc = small_desc();
    tdm_gemm_plan *plan;
    size_t bytes = 7;
    TEST_REFUSED(tdm_gemm_plan_create(NULL, &desc, &plan), TDM_BAD_ARGUMENT, "device is NULL");
    TEST_REFUSED(tdm_gemm_plan_create(device->device, NULL, &plan), TDM_BAD_ARGUMENT,
                 "desc is NULL");
    TEST_REFUSED(tdm_gemm_plan_create(device->device, &desc, NULL), TDM_BAD_ARGUMENT,
                 "plan is NULL");
    desc.struct_size--;
    refuse_desc(device, &desc, TDM_BAD_ARGUMENT, "struct_size of desc");
    TEST_REFUSED(tdm_gemm_plan_workspace_size(NULL, &bytes), TDM_BAD_ARGUMENT, "plan is NULL");
    assert_int_equal(bytes, 0);
    assert_null(tdm_gemm_plan_variant(NULL));
    assert_null(tdm_gemm_plan_refusals(NULL));
    assert_null(tdm_packed_layout(NULL));
    assert_int_equal(tdm_packed_bytes(NULL), 0);
    tdm_gemm_plan_destroy(NULL);
    tdm_packed_destroy(NULL);
}

DEVICE_TEST(sizes_that_overflow_are_refused) {
    tdm_gemm_desc desc = small_desc();
    desc.a.shape[1] = desc.b.shape[0] = INT64_MAX / 2;
    refuse_desc(device, &desc, TDM_BAD_SHAPE, "gemm: A");
    // Shared elements make the matrices small, but not their packed forms.
    desc.a.shape[1] = desc.b.shape[0] = INT64_C(1) << 56;
    desc.a.shape[0] = desc.b.shape[1] = desc.d.shape[0] = desc.d.shape[1] = 1;
    desc.a.strides[0] = desc.a.strides[1] = desc.b.strides[0] = desc.b.strides[1] = 0;
    tdm_gemm_plan *plan = NULL;
    if (tdm_gemm_plan_create(device->device, &desc, &plan) == TDM_OK) {
        size_t bytes = 1;
        TEST_OK(tdm_gemm_plan_workspace_size(plan, &bytes));
        assert_int_equal(bytes, 0);
        tdm_gemm_plan_destroy(plan);
    } else {
        const bool short_loops = !(device->info.capabilities & TDM_CAP_LONG_LOOPS);
        if (!strstr(tdm_last_detail(), short_loops ? "65535 passes" : "packed form of"))
            test_case_fail("the detail is: %s", tdm_last_detail());
    }
}

/* ---- choice of the kernel ---------------------------------------------------------------------------- */

typedef struct heard {
    char text[8192];
} heard;

static void listen(void *user, tdm_log_level level, const char *topic, const char *message) {
    heard *const h = user;
    (void)level;
    const size_t used = strlen(h->text);
    if (strcmp(topic, "dispatch") == 0)
        snprintf(h->text + used, sizeof h->text - used, "%s\n", message);
}

DEVICE_TEST(a_forced_variant_is_taken_or_refused_with_the_reason) {
    tdm_gemm_desc desc = small_desc();
    tdm_gemm_plan *plan;
    desc.variant = "gemm_any_reference";
    TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
    assert_string_equal(tdm_gemm_plan_variant(plan), "gemm_any_reference");
    assert_string_equal(tdm_gemm_plan_refusals(plan), "");
    tdm_gemm_plan_destroy(plan);
    desc.variant = "gemm_f16_tiled_32x32";
    refuse_desc(device, &desc, TDM_UNSUPPORTED, "gemm_f16_tiled_32x32: A is f32 and B is f32");
    desc.variant = "gemm_of_nobody";
    refuse_desc(device, &desc, TDM_UNSUPPORTED, "gemm_of_nobody: no such variant");
    if (!(device->info.capabilities & TDM_CAP_CPU_CORES)) {
        desc.variant = "gemm_f32_panel_8x8";
        refuse_desc(device, &desc, TDM_UNSUPPORTED,
                    "gemm_f32_panel_8x8: the device lacks cpu-cores");
    }
}

DEVICE_TEST(the_log_and_the_plan_say_why_candidates_were_refused) {
    static heard h;
    tdm_gemm_desc desc = small_desc();
    tdm_gemm_plan *plan;
    h.text[0] = '\0';
    desc.a.dtype = TDM_F16; // no tile takes f16·f32
    tdm_set_log(listen, &h);
    const tdm_status status = tdm_gemm_plan_create(device->device, &desc, &plan);
    tdm_set_log(NULL, NULL);
    TEST_OK(status);
    char line[128];
    snprintf(line, sizeof line, "gemm: %s chosen\n", tdm_gemm_plan_variant(plan));
    assert_non_null(strstr(h.text, line));
    if (!(device->info.capabilities & TDM_CAP_HOST_AVX512)) {
        const char *const reason =
            device->info.capabilities & TDM_CAP_CPU_CORES
                ? "gemm_f32_panel_12x32__avx512: the device lacks avx512\n"
                : "gemm_f32_panel_12x32__avx512: the device lacks cpu-cores\n";
        assert_non_null(strstr(tdm_gemm_plan_refusals(plan), reason));
        assert_non_null(
            strstr(h.text, "gemm: gemm_f32_panel_12x32__avx512 refused: the device lacks"));
    }
    if (!(device->info.capabilities & TDM_CAP_CPU_CORES)) {
        assert_string_equal(tdm_gemm_plan_variant(plan), "gemm_any_reference");
        assert_non_null(
            strstr(tdm_gemm_plan_refusals(plan), "gemm_f32_tiled_32x32: A is f16 and B is f32\n"));
    }
    tdm_gemm_plan_destroy(plan);
}

/* ---- running ------------------------------------------------------------------------------------------- */

/* Operands of the small plan, D poisoned. */
typedef struct table {
    test_array a, b, d;
    tdm_gemm_plan *plan;
    tdm_buffer *workspace;
    tdm_gemm_args args;
} table;

static void lay_table(table *t, const test_device *device, const tdm_gemm_desc *desc) {
    size_t bytes;
    *t = (table){.args = TDM_GEMM_ARGS_INIT};
    test_array_create_layout(&t->a, device, &desc->a, 0);
    test_array_create_layout(&t->b, device, &desc->b, 0);
    test_array_create_layout(&t->d, device, &desc->d, 0);
    test_array_fill(&t->a, TEST_DATA_SMALL_INTEGER, 1);
    test_array_fill(&t->b, TEST_DATA_SMALL_INTEGER, 2);
    test_array_send(&t->d);
    TEST_OK(tdm_gemm_plan_create(device->device, desc, &t->plan));
    TEST_OK(tdm_gemm_plan_workspace_size(t->plan, &bytes));
    TEST_OK(tdm_buffer_create(device->device, bytes + 1, &t->workspace));
    t->args.a = t->a.tensor;
    t->args.b = t->b.tensor;
    t->args.d = t->d.tensor;
    t->args.workspace = t->workspace;
}

static void clear_table(table *t) {
    test_array_destroy(&t->a);
    test_array_destroy(&t->b);
    test_array_destroy(&t->d);
    tdm_gemm_plan_destroy(t->plan);
    tdm_buffer_destroy(t->workspace);
}

/* D must be A·B in every element; small integers, so exactly. */
static void expect_product(table *t) {
    const int64_t m = t->a.layout.shape[0], k = t->a.layout.shape[1], n = t->b.layout.shape[1];
    test_array_fetch(&t->d);
    for (int64_t i = 0; i < m; i++)
        for (int64_t j = 0; j < n; j++) {
            double sum = 0;
            for (int64_t p = 0; p < k; p++)
                sum += test_array_get(&t->a, i * k + p) * test_array_get(&t->b, p * n + j);
            if (test_array_fetched(&t->d, i * n + j) != sum)
                test_case_fail("D[%lld][%lld] is %g, must be %g", (long long)i, (long long)j,
                               test_array_fetched(&t->d, i * n + j), sum);
        }
}

DEVICE_TEST(operands_that_are_not_the_plans_are_refused) {
    const tdm_gemm_desc desc = small_desc();
    table t;
    lay_table(&t, device, &desc);
    tdm_gemm_args args = t.args;
    tdm_tensor *other = NULL, *narrow = NULL;
    TEST_OK(tdm_tensor_create(device->device, TDM_F16, 2, (const int64_t[]){4, 6}, &other));
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 2, (const int64_t[]){4, 5}, &narrow));
    TEST_REFUSED(tdm_gemm_plan_run(NULL, device->stream, &args), TDM_BAD_ARGUMENT, "plan is NULL");
    TEST_REFUSED(tdm_gemm_plan_run(t.plan, NULL, &args), TDM_BAD_ARGUMENT, "stream is NULL");
    TEST_REFUSED(tdm_gemm_plan_run(t.plan, device->stream, NULL), TDM_BAD_ARGUMENT, "args is NULL");
    args.struct_size = 3;
    TEST_REFUSED(tdm_gemm_plan_run(t.plan, device->stream, &args), TDM_BAD_ARGUMENT,
                 "struct_size of args is 3");
    args = t.args;
    args.a = NULL;
    TEST_REFUSED(tdm_gemm_plan_run(t.plan, device->stream, &args), TDM_BAD_ARGUMENT, "A is NULL");
    args.a = other;
    TEST_REFUSED(tdm_gemm_plan_run(t.plan, device->stream, &args), TDM_BAD_DTYPE,
                 "A is f16 but the plan was made for f32");
    args.a = narrow;
    TEST_REFUSED(tdm_gemm_plan_run(t.plan, device->stream, &args), TDM_BAD_SHAPE,
                 "A is [4, 5] but the plan was made for [4, 6]");
    args = t.args;
    args.c = narrow;
    TEST_REFUSED(tdm_gemm_plan_run(t.plan, device->stream, &args), TDM_BAD_ARGUMENT,
                 "C is given but the plan has none");
    args = t.args;
    args.bias = narrow;
    TEST_REFUSED(tdm_gemm_plan_run(t.plan, device->stream, &args), TDM_BAD_ARGUMENT,
                 "bias is given");
    args = t.args;
    args.d = (tdm_tensor *)(uintptr_t)(const void *)t.b.tensor;
    TEST_REFUSED(tdm_gemm_plan_run(t.plan, device->stream, &args), TDM_BAD_SHAPE, "D is [6, 5]");
    test_array_expect_unchanged(&t.d);
    TEST_OK(tdm_gemm_plan_run(t.plan, device->stream, &t.args));
    expect_product(&t);
    tdm_tensor_destroy(other);
    tdm_tensor_destroy(narrow);
    clear_table(&t);
}

DEVICE_TEST(a_view_with_other_strides_is_refused) {
    const tdm_gemm_desc desc = small_desc();
    table t;
    lay_table(&t, device, &desc);
    tdm_tensor *flipped = NULL, *wide = NULL;
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 2, (const int64_t[]){6, 4}, &wide));
    TEST_OK(tdm_tensor_transpose(wide, NULL, &flipped));
    tdm_gemm_args args = t.args;
    args.a = flipped;
    TEST_REFUSED(tdm_gemm_plan_run(t.plan, device->stream, &args), TDM_BAD_SHAPE,
                 "A is [4, 6] but the plan was made for [4, 6] with other strides");
    test_array_expect_unchanged(&t.d);
    tdm_tensor_destroy(flipped);
    tdm_tensor_destroy(wide);
    clear_table(&t);
}

DEVICE_TEST(a_workspace_that_does_not_do_is_refused) {
    tdm_gemm_desc desc = small_desc();
    table t;
    size_t bytes = 0;
    lay_table(&t, device, &desc);
    TEST_OK(tdm_gemm_plan_workspace_size(t.plan, &bytes));
    if (bytes > 0) {
        tdm_gemm_args args = t.args;
        tdm_buffer *small = NULL;
        TEST_OK(tdm_buffer_create(device->device, bytes - 1, &small));
        args.workspace = NULL;
        TEST_REFUSED(tdm_gemm_plan_run(t.plan, device->stream, &args), TDM_BAD_ARGUMENT,
                     "workspace is NULL");
        args.workspace = small;
        TEST_REFUSED(tdm_gemm_plan_run(t.plan, device->stream, &args), TDM_BAD_ARGUMENT,
                     "the plan needs");
        tdm_buffer_destroy(small);
        // A buffer that holds an operand, though it is large enough.
        tdm_buffer *whole = NULL;
        tdm_tensor *inside = NULL;
        TEST_OK(tdm_buffer_create(device->device, bytes + 4096, &whole));
        TEST_OK(tdm_tensor_on_buffer(whole, 0, &desc.a, &inside));
        args.a = inside;
        args.workspace = whole;
        TEST_REFUSED(tdm_gemm_plan_run(t.plan, device->stream, &args), TDM_BAD_ARGUMENT,
                     "the workspace is the buffer of an operand");
        tdm_tensor_destroy(inside);
        tdm_buffer_destroy(whole);
    }
    test_array_expect_unchanged(&t.d);
    clear_table(&t);
}

DEVICE_TEST(an_output_that_overlaps_an_operand_is_refused) {
    tdm_layout square;
    test_array shared;
    tdm_tensor *upper = NULL, *lower = NULL;
    TEST_OK(tdm_layout_contiguous(TDM_F32, 2, (const int64_t[]){6, 4}, &square));
    test_array_create_layout(&shared, device, &square, 0);
    test_array_fill(&shared, TEST_DATA_UNIT, 5);
    const int64_t four[2] = {4, 4}, strides[2] = {4, 1};
    TEST_OK(tdm_tensor_view(shared.tensor, 2, four, strides, 0, &upper));
    TEST_OK(tdm_tensor_view(shared.tensor, 2, four, strides, 8, &lower));
    tdm_tensor *apart = NULL;
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 2, four, &apart));
    tdm_gemm_epilogue epilogue = {.struct_size = sizeof epilogue};
    TEST_REFUSED(tdm_gemm(device->stream, 1, upper, apart, 0, NULL, lower, NULL), TDM_BAD_ARGUMENT,
                 "the output D overlaps A");
    TEST_REFUSED(tdm_gemm(device->stream, 1, apart, upper, 0, NULL, upper, NULL), TDM_BAD_ARGUMENT,
                 "the output D overlaps B");
    TEST_REFUSED(tdm_gemm(device->stream, 1, apart, apart, 1, upper, lower, NULL), TDM_BAD_ARGUMENT,
                 "the output D overlaps C");
    epilogue.residual = upper;
    TEST_REFUSED(tdm_gemm(device->stream, 1, apart, apart, 0, NULL, lower, &epilogue),
                 TDM_BAD_ARGUMENT, "the output D overlaps residual");
    tdm_tensor *row = NULL;
    TEST_OK(tdm_tensor_view(shared.tensor, 1, four, (const int64_t[]){1}, 12, &row));
    epilogue = (tdm_gemm_epilogue){.struct_size = sizeof epilogue, .bias = row};
    TEST_REFUSED(tdm_gemm(device->stream, 1, apart, apart, 0, NULL, lower, &epilogue),
                 TDM_BAD_ARGUMENT, "the output D overlaps bias");
    test_array_expect_unchanged(&shared);
    tdm_tensor_destroy(row);
    tdm_tensor_destroy(apart);
    tdm_tensor_destroy(upper);
    tdm_tensor_destroy(lower);
    test_array_destroy(&shared);
}

DEVICE_TEST(two_devices_do_not_mix) {
    const test_device *const other = test_device_at((device->index + 1) % test_device_count());
    if (other->device == device->device)
        return;
    const tdm_gemm_desc desc = small_desc();
    table t;
    lay_table(&t, device, &desc);
    TEST_REFUSED(tdm_gemm_plan_run(t.plan, other->stream, &t.args), TDM_BAD_ARGUMENT,
                 "the plan is for device");
    TEST_REFUSED(tdm_gemm(other->stream, 1, t.a.tensor, t.b.tensor, 0, NULL, t.d.tensor, NULL),
                 TDM_BAD_ARGUMENT, "A is on device");
    test_array_expect_unchanged(&t.d);
    clear_table(&t);
}

DEVICE_TEST(an_empty_output_is_left_alone) {
    const int64_t shapes[3][3] = {{0, 5, 6}, {4, 0, 6}, {0, 0, 0}};
    for (int s = 0; s < 3; s++) {
        tdm_tensor *a = NULL, *b = NULL, *d = NULL;
        const int64_t *const mnk = shapes[s];
        TEST_OK(
            tdm_tensor_create(device->device, TDM_F32, 2, (const int64_t[]){mnk[0], mnk[2]}, &a));
        TEST_OK(
            tdm_tensor_create(device->device, TDM_F32, 2, (const int64_t[]){mnk[2], mnk[1]}, &b));
        TEST_OK(
            tdm_tensor_create(device->device, TDM_F32, 2, (const int64_t[]){mnk[0], mnk[1]}, &d));
        TEST_OK(tdm_gemm(device->stream, 1, a, b, 0, NULL, d, NULL));
        tdm_tensor_destroy(a);
        tdm_tensor_destroy(b);
        tdm_tensor_destroy(d);
    }
    tdm_tensor *a = NULL, *b = NULL, *d = NULL;
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 3, (const int64_t[]){0, 2, 3}, &a));
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 2, (const int64_t[]){3, 4}, &b));
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 3, (const int64_t[]){0, 2, 4}, &d));
    TEST_OK(tdm_gemm(device->stream, 1, a, b, 0, NULL, d, NULL));
    TEST_OK(tdm_stream_synchronize(device->stream));
    tdm_tensor_destroy(a);
    tdm_tensor_destroy(b);
    tdm_tensor_destroy(d);
}

/* ---- packed weights ------------------------------------------------------------------------------------ */

DEVICE_TEST(packed_weights_serve_plans_of_any_m_with_the_same_bits) {
    tdm_gemm_desc desc = small_desc();
    tdm_packed *packed = NULL;
    const int64_t rows[] = {4, 1, 9};
    for (int i = 0; i < 3; i++) {
        desc.a.shape[0] = desc.d.shape[0] = rows[i];
        table t;
        tdm_gemm_plan *plan = NULL;
        lay_table(&t, device, &desc);
        TEST_OK(tdm_gemm_plan_run(t.plan, device->stream, &t.args));
        expect_product(&t);
        tdm_gemm_desc packed_desc = desc;
        packed_desc.packed_b = 1;
        TEST_OK(tdm_gemm_plan_create(device->device, &packed_desc, &plan));
        if (!packed)
            TEST_OK(tdm_gemm_pack_b(plan, device->stream, t.b.tensor, &packed));
        unsigned char *const first = malloc(t.d.bytes);
        memcpy(first, t.d.fetched, t.d.bytes);
        test_array_send(&t.d);
        tdm_gemm_args args = t.args;
        args.b = NULL;
        args.packed_b = packed;
        TEST_OK(tdm_gemm_plan_run(plan, device->stream, &args));
        test_array_fetch(&t.d);
        assert_memory_equal(first, t.d.fetched, t.d.bytes);
        free(first);
        tdm_gemm_plan_destroy(plan);
        clear_table(&t);
    }
    assert_true(tdm_packed_bytes(packed) >= 6 * 5 * sizeof(float));
    tdm_packed_destroy(packed);
}

/* Batch dimensions of A and D; those of B are always packed_batch. */
typedef struct batching {
    int rank;
    int64_t a[3], d[3];
} batching;

static const int64_t packed_batch[2] = {3, 2};

/* m×6 by 6×5, batched, B packed. */
static tdm_gemm_desc batched_desc(const batching *batch, int64_t m, const char *variant) {
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    int64_t a[5], d[5];
    for (int i = 0; i < batch->rank; i++) {
        a[i] = batch->a[i];
        d[i] = batch->d[i];
    }
    a[batch->rank] = d[batch->rank] = m;
    a[batch->rank + 1] = 6;
    d[batch->rank + 1] = 5;
    const int64_t b[4] = {packed_batch[0], packed_batch[1], 6, 5};
    TEST_OK(tdm_layout_contiguous(TDM_F32, batch->rank + 2, a, &desc.a));
    TEST_OK(tdm_layout_contiguous(TDM_F32, 4, b, &desc.b));
    TEST_OK(tdm_layout_contiguous(TDM_F32, batch->rank + 2, d, &desc.d));
    desc.packed_b = 1;
    desc.variant = variant;
    return desc;
}

static void expect_batched_product(table *t, const batching *batch) {
    const int64_t m = t->d.layout.shape[batch->rank], n = 5, k = 6;
    int64_t entries = 1;
    for (int i = 0; i < batch->rank; i++)
        entries *= batch->d[i];
    test_array_fetch(&t->d);
    for (int64_t e = 0; e < entries; e++) {
        int64_t a_entry = 0, step = 1, rest = e;
        for (int i = batch->rank - 1; i >= 0; i--) {
            a_entry += batch->a[i] == 1 ? 0 : rest % batch->d[i] * step;
            step *= batch->a[i];
            rest /= batch->d[i];
        }
        const int64_t b_entry = e % (packed_batch[0] * packed_batch[1]);
        for (int64_t i = 0; i < m * n; i++) {
            double sum = 0;
            for (int64_t p = 0; p < k; p++)
                sum += test_array_get(&t->a, (a_entry * m + i / n) * k + p) *
                       test_array_get(&t->b, (b_entry * k + p) * n + i % n);
            const double got = test_array_fetched(&t->d, e * m * n + i);
            if (got != sum)
                test_case_fail("D[%d], element %d is %g, must be %g", (int)e, (int)i, got, sum);
        }
    }
}

/* Pack B with the plan of one description, run that of another with it. */
static void share_packed(const test_device *device, const tdm_gemm_desc *packer,
                         const batching *batch, const char *variant) {
    const tdm_gemm_desc desc = batched_desc(batch, 3, variant);
    tdm_gemm_plan *plan = NULL;
    tdm_packed *packed = NULL;
    table t;
    lay_table(&t, device, &desc);
    TEST_OK(tdm_gemm_plan_create(device->device, packer, &plan));
    TEST_OK(tdm_gemm_pack_b(plan, device->stream, t.b.tensor, &packed));
    t.args.b = NULL;
    t.args.packed_b = packed;
    TEST_OK(tdm_gemm_plan_run(t.plan, device->stream, &t.args));
    expect_batched_product(&t, batch);
    tdm_packed_destroy(packed);
    tdm_gemm_plan_destroy(plan);
    clear_table(&t);
}

/* The launch's z is the first, the second, the third, or all dimensions merged. */
static const batching batchings[] = {
    {3, {4, 1, 2}, {4, 3, 2}}, {2, {1, 2}, {3, 2}}, {3, {1, 3, 1}, {1, 3, 2}}, {2, {3, 2}, {3, 2}}};
#define BATCHINGS (sizeof batchings / sizeof *batchings)

DEVICE_TEST(packed_weights_serve_plans_with_any_order_of_batches) {
    static const char *const variants[] = {NULL, "gemm_any_reference"};
    for (int v = 0; v < 2; v++)
        for (size_t from = 0; from < BATCHINGS; from++)
            for (size_t to = 0; to < BATCHINGS; to++) {
                const tdm_gemm_desc packer = batched_desc(&batchings[from], 3, variants[v]);
                share_packed(device, &packer, &batchings[to], variants[v]);
            }
}

/* D of the packing plan is empty, B is not. */
DEVICE_TEST(weights_are_packed_by_plans_without_rows) {
    static const batching none = {3, {0, 1, 1}, {0, 3, 2}};
    static const char *const variant = "gemm_any_reference";
    for (size_t to = 0; to < BATCHINGS; to++) {
        for (size_t from = 0; from < BATCHINGS; from++) {
            const tdm_gemm_desc packer = batched_desc(&batchings[from], 0, variant);
            share_packed(device, &packer, &batchings[to], variant);
        }
        const tdm_gemm_desc packer = batched_desc(&none, 3, variant);
        share_packed(device, &packer, &batchings[to], variant);
    }
}

DEVICE_TEST(packed_weights_of_another_kind_are_refused) {
    tdm_gemm_desc desc = small_desc();
    table t;
    lay_table(&t, device, &desc);
    tdm_packed *packed = NULL;
    TEST_REFUSED(tdm_gemm_pack_b(t.plan, device->stream, t.b.tensor, &packed), TDM_BAD_STATE,
                 "the plan was made without packed_b");
    TEST_REFUSED(tdm_gemm_pack_b(NULL, device->stream, t.b.tensor, &packed), TDM_BAD_ARGUMENT,
                 "plan is NULL");
    TEST_REFUSED(tdm_gemm_pack_b(t.plan, device->stream, t.b.tensor, NULL), TDM_BAD_ARGUMENT,
                 "packed is NULL");
    tdm_gemm_plan *plan = NULL, *wide = NULL, *plain = NULL;
    desc.packed_b = 1;
    TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
    TEST_REFUSED(tdm_gemm_pack_b(plan, device->stream, t.a.tensor, &packed), TDM_BAD_SHAPE,
                 "B has not the layout");
    assert_null(packed);
    TEST_OK(tdm_gemm_pack_b(plan, device->stream, t.b.tensor, &packed));
    tdm_gemm_args args = t.args;
    args.packed_b = packed;
    TEST_REFUSED(tdm_gemm_plan_run(t.plan, device->stream, &args), TDM_BAD_ARGUMENT,
                 "packed_b is given but the plan was made without");
    TEST_REFUSED(tdm_gemm_plan_run(plan, device->stream, &args), TDM_BAD_ARGUMENT,
                 "B is given but");
    args.b = NULL;
    args.packed_b = NULL;
    TEST_REFUSED(tdm_gemm_plan_run(plan, device->stream, &args), TDM_BAD_ARGUMENT,
                 "packed_b is NULL");
    args.packed_b = packed;
    desc.b.shape[1] = desc.d.shape[1] = 7;
    desc.b.strides[0] = desc.d.strides[0] = 7;
    tdm_tensor *d = NULL;
    TEST_OK(tdm_gemm_plan_create(device->device, &desc, &wide));
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 2, (const int64_t[]){4, 7}, &d));
    args.d = d;
    TEST_REFUSED(tdm_gemm_plan_run(wide, device->stream, &args), TDM_BAD_SHAPE,
                 "packed_b is 6 by 5 but B of the plan is 6 by 7");
    desc = small_desc();
    desc.packed_b = 1;
    desc.variant = "gemm_any_reference";
    args.d = t.d.tensor;
    TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plain));
    if (strncmp(tdm_packed_layout(packed), "plain", 5) != 0)
        TEST_REFUSED(tdm_gemm_plan_run(plain, device->stream, &args), TDM_BAD_ARGUMENT,
                     "but gemm_any_reference reads plain-f32/1");
    test_array_expect_unchanged(&t.d);
    tdm_tensor_destroy(d);
    tdm_packed_destroy(packed);
    tdm_gemm_plan_destroy(plan);
    tdm_gemm_plan_destroy(wide);
    tdm_gemm_plan_destroy(plain);
    clear_table(&t);
}

/* ---- recording, determinism, the one-shot call ---------------------------------------------------------- */

DEVICE_TEST(a_recorded_run_gives_the_same_bits) {
    const tdm_gemm_desc desc = small_desc();
    table t;
    tdm_graph *graph = NULL;
    tdm_packed *packed = NULL;
    lay_table(&t, device, &desc);
    test_array_fill(&t.a, TEST_DATA_UNIT, 3);
    test_array_fill(&t.b, TEST_DATA_UNIT, 4);
    TEST_OK(tdm_gemm_plan_run(t.plan, device->stream, &t.args));
    test_array_fetch(&t.d);
    unsigned char *const live = malloc(t.d.bytes);
    memcpy(live, t.d.fetched, t.d.bytes);
    test_array_send(&t.d);
    TEST_OK(tdm_stream_begin_recording(device->stream));
    const tdm_status recorded = tdm_gemm_plan_run(t.plan, device->stream, &t.args);
    const tdm_status shot =
        tdm_gemm(device->stream, 1, t.a.tensor, t.b.tensor, 0, NULL, t.d.tensor, NULL);
    const tdm_status packing = tdm_gemm_pack_b(t.plan, device->stream, t.b.tensor, &packed);
    TEST_OK(tdm_stream_end_recording(device->stream, &graph));
    TEST_OK(recorded);
    assert_int_equal(shot, TDM_BAD_STATE);
    assert_int_equal(packing, TDM_BAD_STATE);
    test_array_expect_unchanged(&t.d);
    for (int replay = 0; replay < 2; replay++) {
        test_array_send(&t.d);
        TEST_OK(tdm_graph_launch(graph, device->stream));
        test_array_fetch(&t.d);
        assert_memory_equal(live, t.d.fetched, t.d.bytes);
    }
    free(live);
    tdm_graph_destroy(graph);
    clear_table(&t);
}

DEVICE_TEST(one_shot_calls_take_views_and_outlive_the_plan_cache) {
    // More shapes than the cache keeps, twice, so that plans are dropped and made again.
    const int shapes = test_is_small() ? 3 : 70;
    for (int round = 0; round < 2; round++)
        for (int s = 1; s <= shapes; s++) {
            table t;
            tdm_gemm_desc desc = small_desc();
            desc.a.shape[0] = desc.d.shape[0] = s;
            lay_table(&t, device, &desc);
            TEST_OK(tdm_gemm(device->stream, 1, t.a.tensor, t.b.tensor, 0, NULL, t.d.tensor, NULL));
            expect_product(&t);
            clear_table(&t);
        }
}

DEVICE_TEST(one_shot_calls_apply_the_whole_epilogue) {
    const int64_t shape[2] = {3, 4}, square[2] = {4, 4};
    test_array a, b, c, bias, residual, d;
    tdm_tensor *flipped = NULL;
    test_array_create(&a, device, TDM_F32, 2, shape, TEST_PADDED);
    test_array_create(&b, device, TDM_F32, 2, square, TEST_OFFSET);
    test_array_create(&c, device, TDM_F32, 2, shape, TEST_DENSE);
    test_array_create(&bias, device, TDM_F32, 1, square, TEST_DENSE);
    test_array_create(&residual, device, TDM_F32, 2, shape, TEST_TRANSPOSED);
    test_array_create(&d, device, TDM_F32, 2, shape, TEST_DENSE);
    test_array *const inputs[] = {&a, &b, &c, &bias, &residual};
    for (int i = 0; i < 5; i++)
        test_array_fill(inputs[i], TEST_DATA_SMALL_INTEGER, 10 + (uint64_t)i);
    test_array_send(&d);
    TEST_OK(tdm_tensor_transpose(b.tensor, NULL, &flipped));
    const tdm_gemm_epilogue epilogue = {.struct_size = sizeof epilogue,
                                        .bias = bias.tensor,
                                        .residual = residual.tensor,
                                        .activation = TDM_ACT_RELU};
    TEST_OK(tdm_gemm(device->stream, 2, a.tensor, flipped, -1, c.tensor, d.tensor, &epilogue));
    test_array_fetch(&d);
    for (int64_t i = 0; i < 3; i++)
        for (int64_t j = 0; j < 4; j++) {
            double sum = 0;
            for (int64_t p = 0; p < 4; p++)
                sum += test_array_get(&a, i * 4 + p) * test_array_get(&b, j * 4 + p);
            sum = 2 * sum - test_array_get(&c, i * 4 + j) + test_array_get(&bias, j) +
                  test_array_get(&residual, i * 4 + j);
            const double got = test_array_fetched(&d, i * 4 + j);
            if (got != (sum > 0 ? sum : 0))
                test_case_fail("D[%d][%d] is %g, must be %g", (int)i, (int)j, got,
                               sum > 0 ? sum : 0);
        }
    const tdm_gemm_epilogue foreign = {.struct_size = 1};
    TEST_REFUSED(tdm_gemm(device->stream, 1, a.tensor, b.tensor, 0, NULL, d.tensor, &foreign),
                 TDM_BAD_ARGUMENT, "struct_size of epilogue is 1");
    TEST_REFUSED(tdm_gemm(device->stream, 1, NULL, b.tensor, 0, NULL, d.tensor, NULL),
                 TDM_BAD_ARGUMENT, "A is NULL");
    TEST_REFUSED(tdm_gemm(device->stream, 1, a.tensor, b.tensor, 1, NULL, d.tensor, NULL),
                 TDM_BAD_ARGUMENT, "beta is 1 but there is no C");
    tdm_tensor_destroy(flipped);
    test_array_destroy(&a);
    test_array_destroy(&b);
    test_array_destroy(&c);
    test_array_destroy(&bias);
    test_array_destroy(&residual);
    test_array_destroy(&d);
}

/* Calls that differ in nothing but a scalar must not share a plan. */
DEVICE_TEST(one_shot_calls_tell_scalars_and_activations_apart) {
    static const struct {
        float alpha, beta;
        tdm_activation activation;
        double expected; /* of a = 3, b = 2, c = 5 */
    } calls[] = {{1, 1, TDM_ACT_NONE, 11}, {1, -4, TDM_ACT_NONE, -14}, {-1, 1, TDM_ACT_NONE, -1},
                 {1, -4, TDM_ACT_RELU, 0}, {1, 0, TDM_ACT_NONE, 6},    {1, 1, TDM_ACT_NONE, 11}};
    const int64_t one[2] = {1, 1};
    test_array arrays[4];
    for (int i = 0; i < 4; i++) {
        test_array_create(&arrays[i], device, TDM_F32, 2, one, TEST_DENSE);
        test_array_put(&arrays[i], 0, (const double[]){3, 2, 5, NAN}[i]);
        test_array_send(&arrays[i]);
    }
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        const tdm_gemm_epilogue epilogue = {.struct_size = sizeof epilogue,
                                            .activation = calls[i].activation};
        TEST_OK(tdm_gemm(device->stream, calls[i].alpha, arrays[0].tensor, arrays[1].tensor,
                         calls[i].beta, arrays[2].tensor, arrays[3].tensor, &epilogue));
        test_array_fetch(&arrays[3]);
        if (test_array_fetched(&arrays[3], 0) != calls[i].expected)
            test_case_fail("call %d gives %g, must give %g", (int)i,
                           test_array_fetched(&arrays[3], 0), calls[i].expected);
    }
    for (int i = 0; i < 4; i++)
        test_array_destroy(&arrays[i]);
}

/* The same element for all of K: a stride of 0 inside the matrix, not only in the batch. */
DEVICE_TEST(inputs_may_repeat_elements) {
    test_array one, b, d;
    tdm_tensor *repeated = NULL;
    const int64_t shape[2] = {5, 9};
    test_array_create(&one, device, TDM_F32, 2, (const int64_t[]){5, 1}, TEST_DENSE);
    test_array_create(&b, device, TDM_F32, 2, (const int64_t[]){9, 3}, TEST_DENSE);
    test_array_create(&d, device, TDM_F32, 2, (const int64_t[]){5, 3}, TEST_DENSE);
    test_array_fill(&one, TEST_DATA_SMALL_INTEGER, 1);
    test_array_fill(&b, TEST_DATA_SMALL_INTEGER, 2);
    test_array_send(&d);
    TEST_OK(tdm_tensor_broadcast(one.tensor, 2, shape, &repeated));
    TEST_OK(tdm_gemm(device->stream, 1, repeated, b.tensor, 0, NULL, d.tensor, NULL));
    test_array_fetch(&d);
    for (int64_t i = 0; i < 5; i++)
        for (int64_t j = 0; j < 3; j++) {
            double sum = 0;
            for (int64_t p = 0; p < 9; p++)
                sum += test_array_get(&one, i) * test_array_get(&b, p * 3 + j);
            assert_true(test_array_fetched(&d, i * 3 + j) == sum);
        }
    tdm_tensor_destroy(repeated);
    test_array_destroy(&one);
    test_array_destroy(&b);
    test_array_destroy(&d);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(descriptions_that_do_not_fit_are_refused),
        cmocka_unit_test(types_that_have_no_kernel_are_refused_by_name),
        cmocka_unit_test(epilogues_that_do_not_fit_are_refused),
        cmocka_unit_test(null_and_foreign_structs_are_refused),
        cmocka_unit_test(sizes_that_overflow_are_refused),
        cmocka_unit_test(a_forced_variant_is_taken_or_refused_with_the_reason),
        cmocka_unit_test(the_log_and_the_plan_say_why_candidates_were_refused),
        cmocka_unit_test(operands_that_are_not_the_plans_are_refused),
        cmocka_unit_test(a_view_with_other_strides_is_refused),
        cmocka_unit_test(a_workspace_that_does_not_do_is_refused),
        cmocka_unit_test(an_output_that_overlaps_an_operand_is_refused),
        cmocka_unit_test(two_devices_do_not_mix),
        cmocka_unit_test(an_empty_output_is_left_alone),
        cmocka_unit_test(packed_weights_serve_plans_of_any_m_with_the_same_bits),
        cmocka_unit_test(packed_weights_serve_plans_with_any_order_of_batches),
        cmocka_unit_test(weights_are_packed_by_plans_without_rows),
        cmocka_unit_test(packed_weights_of_another_kind_are_refused),
        cmocka_unit_test(a_recorded_run_gives_the_same_bits),
        cmocka_unit_test(one_shot_calls_take_views_and_outlive_the_plan_cache),
        cmocka_unit_test(one_shot_calls_apply_the_whole_epilogue),
        cmocka_unit_test(one_shot_calls_tell_scalars_and_activations_apart),
        cmocka_unit_test(inputs_may_repeat_elements),
    };
    return cmocka_run_group_tests(tests, test_devices_setup, test_devices_teardown);
}
