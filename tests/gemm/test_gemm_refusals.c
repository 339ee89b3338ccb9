/* Arguments that the GEMM calls refuse, and the messages. */
// ctest: device
#include <string.h>

#include "api/device/core.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/gemm/gemm_table.h"
#include "tests/support/test_case.h"

static void refuse_desc(const test_device *device, const tdm_gemm_desc *desc, tdm_status status,
                        const char *part) {
    tdm_gemm_plan *plan = (tdm_gemm_plan *)(uintptr_t)1;
    TEST_REFUSED(tdm_gemm_plan_create(device->device, desc, &plan), status, part);
    assert_null(plan);
}

DEVICE_TEST(descriptions_that_do_not_fit_are_refused) {
    tdm_gemm_desc desc = gemm_small_desc();
    desc.b.shape[0] = 7;
    refuse_desc(device, &desc, TDM_BAD_SHAPE, "gemm: K of A is 6 but K of B is 7");
    assert_null(strstr(tdm_last_detail(), "would fit"));
    desc = gemm_small_desc();
    desc.transpose_a = 1;
    refuse_desc(device, &desc, TDM_BAD_SHAPE,
                "gemm: K of A is 4 but K of B is 6; the transpose of A would fit (transpose_a");
    desc = gemm_small_desc();
    TEST_OK(tdm_layout_contiguous(TDM_F32, 2, (const int64_t[]){5, 6}, &desc.b));
    refuse_desc(device, &desc, TDM_BAD_SHAPE,
                "gemm: K of A is 6 but K of B is 5; the transpose of B would fit (transpose_b");
    // With the dimensions swapped, one of the two extents would fit, but not the other.
    static const struct {
        int64_t a[2], b[2];
    } neither[] = {{{4, 6}, {7, 6}}, {{4, 6}, {5, 9}}, {{6, 3}, {6, 5}}, {{9, 4}, {6, 5}}};
    for (size_t i = 0; i < sizeof neither / sizeof *neither; i++) {
        desc = gemm_small_desc();
        TEST_OK(tdm_layout_contiguous(TDM_F32, 2, neither[i].a, &desc.a));
        TEST_OK(tdm_layout_contiguous(TDM_F32, 2, neither[i].b, &desc.b));
        refuse_desc(device, &desc, TDM_BAD_SHAPE, "gemm: K of A is");
        assert_null(strstr(tdm_last_detail(), "would fit"));
    }
    desc = gemm_small_desc();
    desc.a.shape[0] = 3;
    refuse_desc(device, &desc, TDM_BAD_SHAPE, "gemm: M of A is 3 but M of D is 4");
    desc = gemm_small_desc();
    desc.d.shape[1] = 9;
    desc.d.strides[0] = 9;
    refuse_desc(device, &desc, TDM_BAD_SHAPE, "gemm: N of B is 5 but N of D is 9");
    desc = gemm_small_desc();
    desc.a.rank = 1;
    refuse_desc(device, &desc, TDM_BAD_SHAPE, "A has 1 dimensions");
    desc = gemm_small_desc();
    desc.a.shape[0] = -4;
    refuse_desc(device, &desc, TDM_BAD_SHAPE, "gemm: A");
    desc = gemm_small_desc();
    TEST_OK(tdm_layout_contiguous(TDM_F32, 3, (const int64_t[]){2, 4, 6}, &desc.a));
    refuse_desc(device, &desc, TDM_BAD_SHAPE, "A has 3 dimensions but D has 2");
    TEST_OK(tdm_layout_contiguous(TDM_F32, 3, (const int64_t[]){3, 4, 5}, &desc.d));
    refuse_desc(device, &desc, TDM_BAD_SHAPE, "batch dimension 0 of A is 2 but D has 3 there");
}

DEVICE_TEST(types_that_have_no_kernel_are_refused_by_name) {
    tdm_gemm_desc desc = gemm_small_desc();
    desc.b.dtype = TDM_S8;
    refuse_desc(device, &desc, TDM_BAD_ARGUMENT,
                "gemm: B is s8 and A is f32: B must have quantization parameters");
    desc.b.dtype = TDM_U8;
    refuse_desc(device, &desc, TDM_UNSUPPORTED,
                "gemm: A is f32 and B is u8; supported are A and B of f32, f16 or bf16");
    desc = gemm_small_desc();
    desc.d.dtype = TDM_F64;
    refuse_desc(device, &desc, TDM_UNSUPPORTED, "D is f64");
    desc = gemm_small_desc();
    desc.a.dtype = (tdm_dtype)99;
    refuse_desc(device, &desc, TDM_BAD_DTYPE, "A is 99");
}

DEVICE_TEST(epilogues_that_do_not_fit_are_refused) {
    tdm_gemm_desc desc = gemm_small_desc();
    desc.beta = 2.0f;
    refuse_desc(device, &desc, TDM_BAD_ARGUMENT, "gemm: beta is 2 but C is NULL");
    desc = gemm_small_desc();
    desc.activation = (tdm_activation)42;
    refuse_desc(device, &desc, TDM_BAD_ARGUMENT, "activation is 42");
    desc = gemm_small_desc();
    TEST_OK(tdm_layout_contiguous(TDM_F32, 1, (const int64_t[]){4}, &desc.bias));
    refuse_desc(device, &desc, TDM_BAD_SHAPE, "N of bias is 4 but N of D is 5");
    TEST_OK(tdm_layout_contiguous(TDM_F32, 2, (const int64_t[]){1, 5}, &desc.bias));
    refuse_desc(device, &desc, TDM_BAD_SHAPE, "bias has 2 dimensions");
    desc = gemm_small_desc();
    desc.c = desc.a;
    refuse_desc(device, &desc, TDM_BAD_SHAPE, "N of C is 6 but N of D is 5");
    desc = gemm_small_desc();
    desc.residual = desc.b;
    refuse_desc(device, &desc, TDM_BAD_SHAPE, "M of residual is 6 but M of D is 4");
    desc = gemm_small_desc();
    desc.gated = 1;
    refuse_desc(device, &desc, TDM_BAD_ARGUMENT, "gemm: gated is 1 but residual is NULL");
    desc = gemm_small_desc();
    desc.d.strides[0] = 0;
    refuse_desc(device, &desc, TDM_BAD_ARGUMENT, "elements of D overlap in memory");
    desc.d.strides[0] = 3;
    refuse_desc(device, &desc, TDM_BAD_ARGUMENT, "elements of D overlap in memory");
}

DEVICE_TEST(null_and_foreign_structs_are_refused) {
    tdm_gemm_desc desc = gemm_small_desc();
    tdm_gemm_plan *plan;
    size_t bytes = 7;
    TEST_REFUSED(tdm_gemm_plan_create(NULL, &desc, &plan), TDM_BAD_ARGUMENT, "device is NULL");
    TEST_REFUSED(tdm_gemm_plan_create(device->device, NULL, &plan), TDM_BAD_ARGUMENT,
                 "desc is NULL");
    TEST_REFUSED(tdm_gemm_plan_create(device->device, &desc, NULL), TDM_BAD_ARGUMENT,
                 "plan is NULL");
    desc.struct_size = 5;
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
    tdm_gemm_desc desc = gemm_small_desc();
    desc.a.shape[1] = desc.b.shape[0] = INT64_MAX / 2;
    refuse_desc(device, &desc, TDM_BAD_SHAPE, "gemm: A");
    // Strides of 0 make the matrices small, but not their packed forms.
    desc.a.shape[1] = desc.b.shape[0] = INT64_C(1) << 56;
    desc.a.shape[0] = desc.b.shape[1] = desc.d.shape[0] = desc.d.shape[1] = 1;
    desc.a.strides[0] = desc.a.strides[1] = desc.b.strides[0] = desc.b.strides[1] = 0;
    tdm_gemm_plan *plan = NULL;
    if (tdm_gemm_plan_create(device->device, &desc, &plan) == TDM_OK) {
        size_t bytes = 1;
        TEST_OK(tdm_gemm_plan_workspace_size(plan, &bytes));
        assert_true(bytes <= 65536); // parts of a split K, not packed operands
        tdm_gemm_plan_destroy(plan);
    } else {
        const bool short_loops = !(device->info.capabilities & TDM_CAP_UNLIMITED_LOOPS);
        if (!strstr(tdm_last_detail(), short_loops ? "65535 passes" : "packed B would exceed"))
            test_case_fail("the detail is: %s", tdm_last_detail());
    }
}

DEVICE_TEST(a_forced_variant_is_taken_or_refused_with_the_reason) {
    tdm_gemm_desc desc = gemm_small_desc();
    tdm_gemm_plan *plan;
    desc.variant = "gemm_any_reference";
    TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
    assert_string_equal(tdm_gemm_plan_variant(plan), "gemm_any_reference");
    assert_string_equal(tdm_gemm_plan_refusals(plan), "");
    tdm_gemm_plan_destroy(plan);
    desc.variant = "gemm_f16_tiled_32x32";
    refuse_desc(device, &desc, TDM_UNSUPPORTED, "gemm_f16_tiled_32x32: A is f32 and B is f32");
    desc.variant = "gemm_of_nobody";
    refuse_desc(device, &desc, TDM_UNSUPPORTED, "gemm_of_nobody: unknown variant");
    if (!(device->info.capabilities & TDM_CAP_CPU_CORES)) {
        desc.variant = "gemm_f32_panel_8x8";
        refuse_desc(device, &desc, TDM_UNSUPPORTED,
                    "gemm_f32_panel_8x8: the device lacks cpu-cores");
    }
}

DEVICE_TEST(operands_that_are_not_the_plans_are_refused) {
    const tdm_gemm_desc desc = gemm_small_desc();
    gemm_table t;
    gemm_table_lay(&t, device, &desc);
    tdm_gemm_args args = t.args;
    tdm_tensor *other = NULL, *narrow = NULL;
    TEST_OK(tdm_tensor_create(device->device, TDM_F16, 2, (const int64_t[]){4, 6}, &other));
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 2, (const int64_t[]){4, 5}, &narrow));
    TEST_REFUSED(tdm_gemm_plan_run(NULL, device->stream, &args), TDM_BAD_ARGUMENT, "plan is NULL");
    TEST_REFUSED(tdm_gemm_plan_run(t.plan, NULL, &args), TDM_BAD_ARGUMENT, "stream is NULL");
    TEST_REFUSED(tdm_gemm_plan_run(t.plan, device->stream, NULL), TDM_BAD_ARGUMENT, "args is NULL");
    const tdm_gemm_epilogue foreign = {.struct_size = 1};
    tdm_tensor *const a = t.a.tensor, *const b = t.b.tensor, *const d = t.d.tensor;
    TEST_REFUSED(tdm_gemm(device->stream, 1, a, b, 0, NULL, d, &foreign), TDM_BAD_ARGUMENT,
                 "struct_size of epilogue is 1");
    TEST_REFUSED(tdm_gemm(device->stream, 1, NULL, b, 0, NULL, d, NULL), TDM_BAD_ARGUMENT,
                 "A is NULL");
    TEST_REFUSED(tdm_gemm(device->stream, 1, a, b, 1, NULL, d, NULL), TDM_BAD_ARGUMENT,
                 "beta is 1 but C is NULL");
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
                 "C is given but the plan was made without it");
    args = t.args;
    args.bias = narrow;
    TEST_REFUSED(tdm_gemm_plan_run(t.plan, device->stream, &args), TDM_BAD_ARGUMENT,
                 "bias is given");
    args = t.args;
    args.d = (tdm_tensor *)(uintptr_t)(const void *)t.b.tensor;
    TEST_REFUSED(tdm_gemm_plan_run(t.plan, device->stream, &args), TDM_BAD_SHAPE, "D is [6, 5]");
    test_array_expect_unchanged(&t.d);
    TEST_OK(tdm_gemm_plan_run(t.plan, device->stream, &t.args));
    gemm_table_expect_product(&t);
    tdm_tensor_destroy(other);
    tdm_tensor_destroy(narrow);
    gemm_table_clear(&t);
}

DEVICE_TEST(a_view_with_other_strides_is_refused) {
    const tdm_gemm_desc desc = gemm_small_desc();
    gemm_table t;
    gemm_table_lay(&t, device, &desc);
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
    gemm_table_clear(&t);
}

DEVICE_TEST(a_workspace_that_does_not_do_is_refused) {
    tdm_gemm_desc desc = gemm_small_desc();
    gemm_table t;
    size_t bytes = 0;
    gemm_table_lay(&t, device, &desc);
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
        // The buffer is large enough, but it holds an operand.
        tdm_buffer *whole = NULL;
        tdm_tensor *inside = NULL;
        TEST_OK(tdm_buffer_create(device->device, bytes + 4096, &whole));
        TEST_OK(tdm_tensor_on_buffer(whole, 0, &desc.a, &inside));
        args.a = inside;
        args.workspace = whole;
        TEST_REFUSED(tdm_gemm_plan_run(t.plan, device->stream, &args), TDM_BAD_ARGUMENT,
                     "the workspace is also the buffer of an operand");
        tdm_tensor_destroy(inside);
        tdm_buffer_destroy(whole);
    }
    test_array_expect_unchanged(&t.d);
    gemm_table_clear(&t);
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
    const tdm_gemm_desc desc = gemm_small_desc();
    gemm_table t;
    gemm_table_lay(&t, device, &desc);
    TEST_REFUSED(tdm_gemm_plan_run(t.plan, other->stream, &t.args), TDM_BAD_ARGUMENT,
                 "the plan is on device");
    TEST_REFUSED(tdm_gemm(other->stream, 1, t.a.tensor, t.b.tensor, 0, NULL, t.d.tensor, NULL),
                 TDM_BAD_ARGUMENT, "A is on device");
    test_array_expect_unchanged(&t.d);
    gemm_table_clear(&t);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
