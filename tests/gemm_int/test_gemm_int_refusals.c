/* Tests arguments that integer GEMM refuses, and the messages. */
// ctest: device
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "tests/support/devices/device_cases.h"
#include "tests/support/gemm/gemm_table.h"
#include "tests/support/test_case.h"

static void refuse_desc(const test_device *device, const tdm_gemm_desc *desc, tdm_status status,
                        const char *part) {
    tdm_gemm_plan *plan = (tdm_gemm_plan *)(uintptr_t)1;
    TEST_REFUSED(tdm_gemm_plan_create(device->device, desc, &plan), status, part);
    assert_null(plan);
}

static void accept_desc(const test_device *device, const tdm_gemm_desc *desc) {
    tdm_gemm_plan *plan;
    TEST_OK(tdm_gemm_plan_create(device->device, desc, &plan));
    tdm_gemm_plan_destroy(plan);
}

/*
 * Describes 4×6 u8 by 6×5 s8, with an s8 result. A and D have one scale and one zero point. B has a
 * scale and a zero point for each column.
 */
static tdm_gemm_desc quantized_desc(void) {
    tdm_gemm_desc desc = gemm_int_desc(TDM_U8, TDM_S8, 4, 5, 6);
    gemm_int_arrange(&desc.a_quant, &desc.a, 0, 0, TDM_S32);
    gemm_int_arrange(&desc.b_quant, &desc.b, 0, 1, TDM_S8);
    gemm_int_arrange(&desc.d_quant, &desc.d, 0, 0, TDM_S32);
    return desc;
}

/* ---- plans ----------------------------------------------------------------------------------- */

DEVICE_TEST(types_that_no_kernel_takes_are_refused) {
    tdm_gemm_desc desc = quantized_desc();
    desc.b.dtype = TDM_U8;
    refuse_desc(device, &desc, TDM_UNSUPPORTED, "gemm: A is u8 and B is u8; ");
    desc = quantized_desc();
    desc.a.dtype = TDM_S4;
    refuse_desc(device, &desc, TDM_UNSUPPORTED, "gemm: A is s4 and B is s8; ");
    desc = quantized_desc();
    desc.a.dtype = TDM_S32;
    refuse_desc(device, &desc, TDM_UNSUPPORTED, "gemm: A is s32 and B is s8; ");
    // A D of s4 has parameters like s8, and a description can claim that other types have them.
    static const tdm_dtype wrong[] = {TDM_S4, TDM_F64, TDM_S64, TDM_BOOL};
    for (int i = 0; i < 4; i++) {
        char text[64];
        desc = quantized_desc();
        TEST_OK(tdm_layout_contiguous(wrong[i], 2, (const int64_t[]){4, 5}, &desc.d));
        snprintf(text, sizeof text, "gemm: D is %s but A and B are integers",
                 tdm_dtype_name(wrong[i]));
        refuse_desc(device, &desc, TDM_UNSUPPORTED, text);
    }
}

#define ALONG(what, entries, dimension, elements, rest)                                            \
    "gemm: " what " has " #entries " entries along dimension " #dimension " of " #elements         \
    " elements; " rest
#define ONE "only 1 is supported along this dimension"
#define ONE_OR_EACH "supported are 1 or one per element"

DEVICE_TEST(parameters_that_do_not_fit_the_product_are_refused) {
    tdm_gemm_desc desc = quantized_desc();
    gemm_int_arrange(&desc.a_quant, &desc.a, 0, 1, TDM_S32);
    refuse_desc(device, &desc, TDM_UNSUPPORTED, ALONG("the scale of A", 6, 1, 6, ONE));
    desc = quantized_desc();
    gemm_int_arrange(&desc.a_quant, &desc.a, 2, 0, TDM_S32);
    refuse_desc(device, &desc, TDM_UNSUPPORTED, ALONG("the scale of A", 2, 0, 4, ONE_OR_EACH));
    desc = quantized_desc();
    gemm_int_arrange(&desc.b_quant, &desc.b, 3, 1, TDM_S8);
    refuse_desc(device, &desc, TDM_UNSUPPORTED, ALONG("the scale of B", 2, 0, 6, ONE));
    desc = quantized_desc();
    gemm_int_arrange(&desc.b_quant, &desc.b, 0, 2, TDM_S8);
    refuse_desc(device, &desc, TDM_UNSUPPORTED, ALONG("the scale of B", 3, 1, 5, ONE_OR_EACH));
    desc = quantized_desc();
    gemm_int_arrange(&desc.d_quant, &desc.d, 1, 0, TDM_S32);
    refuse_desc(device, &desc, TDM_UNSUPPORTED, ALONG("the scale of D", 4, 0, 4, ONE));
    // Transposed operands swap the dimensions; the rule stays the same.
    desc = quantized_desc();
    TEST_OK(tdm_layout_contiguous(TDM_U8, 2, (const int64_t[]){6, 4}, &desc.a));
    desc.transpose_a = 1;
    gemm_int_arrange(&desc.a_quant, &desc.a, 0, 1, TDM_S32);
    accept_desc(device, &desc);
    gemm_int_arrange(&desc.a_quant, &desc.a, 1, 0, TDM_S32);
    refuse_desc(device, &desc, TDM_UNSUPPORTED, ALONG("the scale of A", 6, 0, 6, ONE));
    // The layout of a zero point is checked too, although no tensor can have one that differs from
    // its scale's.
    desc = quantized_desc();
    tdm_quant_layout other;
    gemm_int_arrange(&other, &desc.a, 0, 1, TDM_S32);
    desc.a_quant.zero_point = other.zero_point;
    refuse_desc(device, &desc, TDM_UNSUPPORTED, ALONG("the zero point of A", 6, 1, 6, ONE));
    desc = quantized_desc();
    desc.b_quant.zero_point.rank = 1;
    refuse_desc(device, &desc, TDM_BAD_SHAPE,
                "gemm: the zero point of B has 1 dimensions but B has 2");
    desc = quantized_desc();
    desc.b_quant.scale.strides[1] = -1;
    refuse_desc(device, &desc, TDM_BAD_SHAPE, "gemm: a quantization parameter");
}

DEVICE_TEST(batches_vary_parameters_of_a_and_b_alone) {
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    TEST_OK(tdm_layout_contiguous(TDM_S8, 3, (const int64_t[]){3, 4, 6}, &desc.a));
    TEST_OK(tdm_layout_contiguous(TDM_S8, 3, (const int64_t[]){3, 6, 5}, &desc.b));
    TEST_OK(tdm_layout_contiguous(TDM_U8, 3, (const int64_t[]){3, 4, 5}, &desc.d));
    tdm_quant_layout *const quant[] = {&desc.a_quant, &desc.b_quant, &desc.d_quant};
    for (int i = 0; i < 3; i++) {
        quant[i]->block[0] = i < 2;
        TEST_OK(tdm_layout_contiguous(TDM_F32, 3, (const int64_t[]){i < 2 ? 3 : 1, 1, 1},
                                      &quant[i]->scale));
    }
    accept_desc(device, &desc);
    desc.d_quant.block[0] = 1;
    desc.d_quant.scale = desc.a_quant.scale;
    refuse_desc(device, &desc, TDM_UNSUPPORTED, ALONG("the scale of D", 3, 0, 3, ONE));
    desc.d_quant = (tdm_quant_layout){.scale = {.dtype = TDM_F32, .rank = 2, .shape = {1, 1}}};
    refuse_desc(device, &desc, TDM_BAD_SHAPE, "gemm: the scale of D has 2 dimensions but D has 3");
}

DEVICE_TEST(types_of_parameters_are_refused_by_name) {
    tdm_gemm_desc desc = quantized_desc();
    desc.a_quant.scale.dtype = TDM_F64;
    refuse_desc(device, &desc, TDM_UNSUPPORTED,
                "gemm: the scale of A is f64; f32, f16 and bf16 are supported");
    desc = quantized_desc();
    desc.b_quant.zero_point.dtype = TDM_F32;
    refuse_desc(device, &desc, TDM_UNSUPPORTED,
                "gemm: the zero point of B is f32; s32, s8 and u8 are supported");
    static const char *const names[] = {"A", "B", "D"};
    for (int i = 0; i < 3; i++) {
        char text[64];
        desc = quantized_desc();
        tdm_quant_layout *const quant[] = {&desc.a_quant, &desc.b_quant, &desc.d_quant};
        quant[i]->zero_point = (tdm_layout){.dtype = TDM_S32, .rank = 2, .shape = {1, 1}};
        quant[i]->scale = (tdm_layout){0};
        snprintf(text, sizeof text, "gemm: %s has a zero point but no scale", names[i]);
        refuse_desc(device, &desc, TDM_BAD_ARGUMENT, text);
    }
}

DEVICE_TEST(an_integer_d_takes_no_float_epilogue) {
    static const tdm_dtype types[] = {TDM_S32, TDM_S8, TDM_U8};
    for (int i = 0; i < 3; i++) {
        const tdm_dtype d = types[i];
        const char *const name = tdm_dtype_name(d);
        char text[96];
        tdm_gemm_desc good = gemm_int_desc(TDM_S8, d, 4, 5, 6), desc;
        if (d != TDM_S32)
            gemm_int_arrange(&good.d_quant, &good.d, 0, 1, TDM_S32);
        accept_desc(device, &good);
        const float alphas[] = {2.0f, -1.0f, 0.0f, NAN};
        for (int alpha = 0; alpha < 4; alpha++) {
            desc = good;
            desc.alpha = alphas[alpha];
            snprintf(text, sizeof text, "gemm: alpha is %g but D is %s, alpha must be 1",
                     (double)desc.alpha, name);
            refuse_desc(device, &desc, TDM_UNSUPPORTED, text);
        }
        desc = good;
        TEST_OK(tdm_layout_contiguous(TDM_F32, 2, (const int64_t[]){4, 5}, &desc.c));
        accept_desc(device, &desc); // beta is 0: C is never read
        desc.beta = 1;
        snprintf(text, sizeof text, "gemm: beta is 1 and C is f32 but D is %s; C must be s32",
                 name);
        refuse_desc(device, &desc, TDM_UNSUPPORTED, text);
        desc.c.dtype = TDM_S32;
        accept_desc(device, &desc);
        desc.beta = 2;
        snprintf(text, sizeof text, "gemm: beta is 2 and C is s32 but D is %s; C must be s32",
                 name);
        refuse_desc(device, &desc, TDM_UNSUPPORTED, text);
        desc = good;
        TEST_OK(tdm_layout_contiguous(TDM_F32, 2, (const int64_t[]){4, 5}, &desc.residual));
        snprintf(text, sizeof text,
                 "gemm: residual is given but D is %s, which does not support it", name);
        refuse_desc(device, &desc, TDM_UNSUPPORTED, text);
        desc = good;
        TEST_OK(tdm_layout_contiguous(TDM_F32, 1, (const int64_t[]){5}, &desc.bias));
        snprintf(text, sizeof text, "gemm: bias is f32 but D is %s, bias must be s32", name);
        refuse_desc(device, &desc, TDM_UNSUPPORTED, text);
        desc.bias.dtype = TDM_S8;
        refuse_desc(device, &desc, TDM_UNSUPPORTED, "gemm: bias is s8; f32, f16 and bf16");
        desc.bias.dtype = TDM_S32;
        accept_desc(device, &desc);
        desc = good;
        desc.activation = TDM_ACT_GELU;
        refuse_desc(device, &desc, TDM_UNSUPPORTED,
                    d == TDM_S32 ? "gemm: activation is given but D is s32"
                                 : "activation must be relu or none");
        desc.activation = TDM_ACT_RELU;
        if (d == TDM_S32)
            refuse_desc(device, &desc, TDM_UNSUPPORTED, "activation is given but D is s32");
        else
            accept_desc(device, &desc);
    }
}

DEVICE_TEST(d_carries_parameters_where_it_is_requantized_and_nowhere_else) {
    tdm_gemm_desc desc = quantized_desc();
    desc.d_quant = (tdm_quant_layout){0};
    refuse_desc(device, &desc, TDM_BAD_ARGUMENT,
                "gemm: D is s8 but has no quantization parameters");
    desc = gemm_int_desc(TDM_S8, TDM_S32, 4, 5, 6);
    gemm_int_arrange(&desc.d_quant, &desc.d, 0, 0, TDM_DTYPE_NONE);
    refuse_desc(device, &desc, TDM_UNSUPPORTED,
                "gemm: D is s32 and has a scale, but D receives the integer sums unscaled");
    desc.d.dtype = TDM_F16;
    refuse_desc(device, &desc, TDM_BAD_ARGUMENT,
                "gemm: D is f16, which cannot have quantization parameters");
    // Floats carry no quantization parameters.
    const char *const says[] = {"gemm: A is f32, which cannot have quantization parameters",
                                "gemm: B is f32, which cannot have quantization parameters",
                                "gemm: D is f32, which cannot have quantization parameters"};
    for (int i = 0; i < 3; i++) {
        desc = gemm_int_desc(TDM_F32, TDM_F32, 4, 5, 6);
        desc.b.dtype = TDM_F32;
        tdm_quant_layout *const quant[] = {&desc.a_quant, &desc.b_quant, &desc.d_quant};
        gemm_int_arrange(quant[i], &desc.d, 0, 0, TDM_DTYPE_NONE);
        refuse_desc(device, &desc, TDM_BAD_ARGUMENT, says[i]);
    }
    desc = gemm_int_desc(TDM_F32, TDM_S32, 4, 5, 6);
    desc.b.dtype = TDM_F32;
    refuse_desc(device, &desc, TDM_UNSUPPORTED, "gemm: D is s32 but A and B are f32 and f32");
    desc.d.dtype = TDM_F32;
    TEST_OK(tdm_layout_contiguous(TDM_S32, 1, (const int64_t[]){5}, &desc.bias));
    refuse_desc(device, &desc, TDM_UNSUPPORTED, "gemm: bias is s32 but A and B are f32 and f32");
}

DEVICE_TEST(a_k_whose_sums_could_overflow_is_refused) {
    static const struct {
        tdm_dtype a;
        bool a_zero, b_zero;
        int64_t longest;
        const char *says;
    } limits[] = {
        {TDM_S8, false, false, 131071, "sums of s8 by s8 are exact in 32 bits up to K = 131071"},
        {TDM_U8, false, false, 65793, "sums of u8 by s8 are exact in 32 bits up to K = 65793"},
        {TDM_S8, true, false, 65793,
         "sums of s8 by s8 with zero points are exact in 32 bits up to K = 65793"},
        {TDM_U8, true, false, 65793,
         "sums of u8 by s8 with zero points are exact in 32 bits up to K = 65793"},
        {TDM_S8, false, true, 33025,
         "sums of s8 by s8 with zero points are exact in 32 bits up to K = 33025"},
        {TDM_U8, true, true, 33025,
         "sums of u8 by s8 with zero points are exact in 32 bits up to K = 33025"},
    };
    static const tdm_dtype outputs[] = {TDM_S32, TDM_F32};
    for (size_t i = 0; i < sizeof limits / sizeof *limits; i++)
        for (int past = 0; past < 2; past++) {
            const int64_t k = limits[i].longest + past;
            tdm_gemm_desc desc = gemm_int_desc(limits[i].a, outputs[i % 2], 2, 3, k);
            char text[160];
            gemm_int_arrange(&desc.a_quant, &desc.a, 0, 0,
                             limits[i].a_zero ? TDM_S32 : TDM_DTYPE_NONE);
            gemm_int_arrange(&desc.b_quant, &desc.b, 0, 1,
                             limits[i].b_zero ? TDM_S8 : TDM_DTYPE_NONE);
            snprintf(text, sizeof text, "gemm: K is %lld; %s: split K and add the partial results",
                     (long long)k, limits[i].says);
            if (past)
                refuse_desc(device, &desc, TDM_UNSUPPORTED, text);
            else
                accept_desc(device, &desc);
        }
}

/* ---- runs ------------------------------------------------------------------------------------ */

/* Passes operand `which` with a different parameter layout, which must be refused. */
static void refuse_arrangement(gemm_int_table *t, int which, const tdm_quant_layout *quant,
                               const char *part) {
    static const char *const names[] = {"A", "B", "D"};
    const gemm_int_operand *const operands[] = {&t->a, &t->b, &t->d};
    const tdm_layout *const layout = &operands[which]->data.layout;
    gemm_int_operand other;
    tdm_gemm_args args = t->args;
    char text[128];
    gemm_int_operand_create(&other, t->device, layout, quant);
    const tdm_tensor *const given[] = {args.a, args.b, args.d};
    args.a = which == 0 ? other.tensor : given[0];
    args.b = which == 1 ? other.tensor : given[1];
    if (which == 2)
        args.d = other.tensor;
    snprintf(text, sizeof text, "gemm: %s has %s", names[which], part);
    TEST_REFUSED(tdm_gemm_plan_run(t->plan, t->device->stream, &args), TDM_BAD_ARGUMENT, text);
    test_array_expect_unchanged(&other.data);
    gemm_int_operand_destroy(&other);
}

DEVICE_TEST(parameters_arranged_otherwise_than_planned_are_refused) {
    const tdm_gemm_desc desc = quantized_desc();
    const tdm_quant_layout none = {0};
    const tdm_quant_layout *const planned[] = {&desc.a_quant, &desc.b_quant, &desc.d_quant};
    const tdm_layout *const layouts[] = {&desc.a, &desc.b, &desc.d};
    gemm_int_table t;
    tdm_quant_layout other;
    gemm_int_table_lay(&t, device, &desc);
    for (int i = 0; i < 3; i++) {
        refuse_arrangement(&t, i, &none,
                           "no quantization parameters but the plan was made for some");
        gemm_int_arrange(&other, layouts[i], i == 0, i == 0 ? 0 : i == 1 ? 2 : 1, TDM_S32);
        refuse_arrangement(&t, i, &other,
                           "quantization parameters of another layout but the plan was made for "
                           "the layout in its description");
        other = *planned[i];
        other.zero_point = (tdm_layout){0};
        refuse_arrangement(&t, i, &other, "quantization parameters of another layout");
        other = *planned[i];
        other.zero_point.dtype = TDM_U8;
        refuse_arrangement(&t, i, &other, "quantization parameters of another layout");
        other = *planned[i];
        other.scale.dtype = i == 1 ? TDM_BF16 : TDM_F16;
        refuse_arrangement(&t, i, &other, "quantization parameters of another layout");
    }
    other = desc.b_quant; // differs only in its strides
    other.scale.strides[1] = 2;
    refuse_arrangement(&t, 1, &other, "quantization parameters of another layout");
    test_array_expect_unchanged(&t.d.data);
    gemm_int_table_run(&t);
    gemm_int_table_clear(&t);
    const tdm_gemm_desc bare = gemm_int_desc(TDM_U8, TDM_S32, 4, 5, 6);
    gemm_int_table_lay(&t, device, &bare);
    refuse_arrangement(&t, 0, &desc.a_quant,
                       "quantization parameters but the plan was made for none");
    refuse_arrangement(&t, 1, &desc.b_quant,
                       "quantization parameters but the plan was made for none");
    gemm_int_arrange(&other, &bare.d, 0, 0, TDM_DTYPE_NONE);
    refuse_arrangement(&t, 2, &other, "quantization parameters but the plan was made for none");
    gemm_int_table_clear(&t);
}

/*
 * One parameter for a whole dimension has one layout, whatever block size the description states.
 */
DEVICE_TEST(blocks_of_a_whole_dimension_are_one_arrangement) {
    const tdm_gemm_desc desc = quantized_desc();
    tdm_quant_layout other;
    gemm_int_table t;
    gemm_int_operand a;
    gemm_int_table_lay(&t, device, &desc);
    gemm_int_arrange(&other, &desc.a, 4, 100, TDM_S32);
    gemm_int_operand_create(&a, device, &desc.a, &other);
    gemm_int_put(&a.data, &(double){3}, 1);
    t.args.a = a.tensor;
    gemm_int_table_run(&t);
    gemm_int_table_expect(&t, (const double[20]){18, 18, 18, 18, 18, 18, 18, 18, 18, 18,
                                                 18, 18, 18, 18, 18, 18, 18, 18, 18, 18});
    gemm_int_operand_destroy(&a);
    gemm_int_table_clear(&t);
}

DEVICE_TEST(packed_weights_with_other_parameters_are_refused) {
    tdm_gemm_desc desc = quantized_desc();
    desc.packed_b = 1;
    const char *const says =
        "gemm: the quantization parameters of packed_b differ from those of B in the plan";
    gemm_int_table t;
    gemm_int_table_lay(&t, device, &desc);
    gemm_int_table_run(&t);
    tdm_gemm_desc others[4];
    for (int i = 0; i < 4; i++)
        others[i] = desc;
    others[0].b_quant = (tdm_quant_layout){0};
    gemm_int_arrange(&others[1].b_quant, &desc.b, 0, 0, TDM_S8);
    gemm_int_arrange(&others[2].b_quant, &desc.b, 0, 1, TDM_DTYPE_NONE);
    gemm_int_arrange(&others[3].b_quant, &desc.b, 0, 1, TDM_S32);
    for (int i = 0; i < 4; i++) {
        tdm_gemm_plan *plan;
        tdm_packed *packed = (tdm_packed *)(uintptr_t)1;
        TEST_OK(tdm_gemm_plan_create(device->device, &others[i], &plan));
        test_array_send(&t.d.data);
        TEST_REFUSED(tdm_gemm_plan_run(plan, device->stream, &t.args), TDM_BAD_ARGUMENT, says);
        test_array_expect_unchanged(&t.d.data);
        TEST_REFUSED(tdm_gemm_pack_b(plan, device->stream, t.b.tensor, &packed), TDM_BAD_ARGUMENT,
                     "gemm: B has ");
        assert_null(packed);
        tdm_gemm_plan_destroy(plan);
    }
    // Strides of the parameters do not matter to packed weights, which keep dense copies.
    tdm_gemm_desc spread = desc;
    spread.b_quant.scale.strides[1] = 3;
    spread.b_quant.zero_point.strides[1] = 2;
    tdm_gemm_plan *plan;
    TEST_OK(tdm_gemm_plan_create(device->device, &spread, &plan));
    TEST_OK(tdm_gemm_plan_run(plan, device->stream, &t.args));
    tdm_gemm_plan_destroy(plan);
    gemm_int_table_clear(&t);
}

/* ---- overlapping memory ---------------------------------------------------------------------- */

/* Creates a rows×columns tensor at an offset of a given buffer. */
static tdm_tensor *place(tdm_buffer *buffer, int64_t offset, tdm_dtype dtype, int64_t rows,
                         int64_t columns) {
    tdm_layout layout;
    tdm_tensor *tensor;
    TEST_OK(tdm_layout_contiguous(dtype, 2, (const int64_t[]){rows, columns}, &layout));
    TEST_OK(tdm_tensor_on_buffer(buffer, offset, &layout, &tensor));
    return tensor;
}

/* Returns operand `o` again, with its scale or zero point on the given buffer. */
static tdm_tensor *with_parameter_on(const gemm_int_operand *o, bool zero, tdm_buffer *buffer,
                                     int64_t byte) {
    tdm_quantization q = TDM_QUANTIZATION_INIT;
    tdm_tensor *made;
    TEST_OK(tdm_tensor_quantization(o->tensor, &q));
    const tdm_tensor *const old = zero ? q.zero_point : q.scale;
    const tdm_dtype dtype = tdm_tensor_dtype(old);
    tdm_tensor *const moved = place(buffer, dtype == TDM_S8 ? byte : byte / 4, dtype,
                                    tdm_tensor_dim(old, 0), tdm_tensor_dim(old, 1));
    if (zero)
        q.zero_point = moved;
    else
        q.scale = moved;
    TEST_OK(tdm_tensor_quantized(o->tensor, &q, &made));
    tdm_tensor_destroy(moved);
    return made;
}

DEVICE_TEST(parameters_must_lie_apart_from_d_and_from_the_workspace) {
    static const char *const names[] = {"the scale of A", "the zero point of A",
                                        "the scale of B", "the zero point of B",
                                        "the scale of D", "the zero point of D"};
    tdm_gemm_desc desc = quantized_desc();
    gemm_int_table t;
    size_t bytes;
    // Only panel variants that pack B in a launch of its own have a workspace.
    const bool has_panels = device->info.capabilities & TDM_CAP_CPU_CORES;
    desc.variant = has_panels ? "gemm_int_panel_8x8:pack_b=1" : NULL;
    gemm_int_table_lay(&t, device, &desc);
    TEST_OK(tdm_gemm_plan_workspace_size(t.plan, &bytes));
    assert_true(bytes > 0 || !has_panels);
    for (int i = 0; i < 6; i++) {
        const gemm_int_operand *const operands[] = {&t.a, &t.b, &t.d};
        char text[64];
        tdm_gemm_args args = t.args;
        // D's own 20 bytes begin at byte 64 of its buffer; 24 bytes further on, nothing is shared.
        for (int64_t byte = 64; byte <= 88; byte += 24) {
            tdm_tensor *const moved =
                with_parameter_on(operands[i / 2], i % 2, t.d.data.buffer, byte);
            args.a = i / 2 == 0 ? moved : t.args.a;
            args.b = i / 2 == 1 ? moved : t.args.b;
            args.d = i / 2 == 2 ? moved : t.args.d;
            snprintf(text, sizeof text, "gemm: the output D overlaps %s", names[i]);
            if (byte == 64)
                TEST_REFUSED(tdm_gemm_plan_run(t.plan, device->stream, &args), TDM_BAD_ARGUMENT,
                             text);
            else
                TEST_OK(tdm_gemm_plan_run(t.plan, device->stream, &args));
            tdm_tensor_destroy(moved);
        }
        if (bytes == 0)
            continue;
        tdm_buffer *buffer;
        TEST_OK(tdm_buffer_create(device->device, bytes + 4096, &buffer));
        tdm_tensor *const moved = with_parameter_on(operands[i / 2], i % 2, buffer, 0);
        args = t.args;
        args.a = i / 2 == 0 ? moved : t.args.a;
        args.b = i / 2 == 1 ? moved : t.args.b;
        args.d = i / 2 == 2 ? moved : t.args.d;
        args.workspace = buffer;
        TEST_REFUSED(tdm_gemm_plan_run(t.plan, device->stream, &args), TDM_BAD_ARGUMENT,
                     "gemm: the workspace is also the buffer of an operand");
        tdm_tensor_destroy(moved);
        tdm_buffer_destroy(buffer);
    }
    gemm_int_table_clear(&t);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
