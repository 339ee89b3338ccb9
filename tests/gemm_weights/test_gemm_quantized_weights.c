/*
 * Every variant of op GEMM_WEIGHTS is forced. Weights are also unpacked for the variants of op GEMM
 * and GEMM_INT. A seeded pairwise sample covers shapes, types, groups, parameters, placements and
 * batches. Results keep the bound of docs/numerics.md.
 */
// ctest: device rusticl_in_ci timeout=300 cost=20
#include <stdio.h>
#include <string.h>

#include "api/gemm/gemm_internal.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/variant_cases.h"
#include "tests/support/gemm/gemm_table.h"
#include "tests/support/gemm/weights_trial.h"
#include "tests/support/pairwise.h"
#include "tests/support/test_case.h"

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
}; /* all; the epilogue is none, or a bias with one of these */

static const int64_t rows[] = {1, 2, 3, 4, 7, 16, 0, 17, 33};
static const int64_t columns[] = {1, 2, 7, 8, 33, 70, 0};
static const int64_t depths[] = {0, 2, 16, 35, 64, 130, 416, 1100};
static const int64_t groups[] = {0, 16, 32, 64, 128, 256, 96, 24};
static const tdm_dtype dequantized[] = {TDM_F32, TDM_F16, TDM_BF16};
static const tdm_dtype weights[] = {TDM_S8, TDM_S4};
static const tdm_dtype scales[] = {TDM_F32, TDM_F16, TDM_BF16};
static const tdm_dtype zeros[] = {TDM_DTYPE_NONE, TDM_S32, TDM_S8};

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

static const int all_levels[FACTORS] = {[F_M] = COUNT(rows),
                                        [F_N] = COUNT(columns),
                                        [F_K] = COUNT(depths),
                                        [F_GROUP] = COUNT(groups),
                                        [F_A_TYPE] = COUNT(dequantized),
                                        [F_B_TYPE] = COUNT(weights),
                                        [F_D_TYPE] = COUNT(dequantized),
                                        [F_SCALE_TYPE] = COUNT(scales),
                                        [F_ZERO_TYPE] = COUNT(zeros),
                                        [F_QUANTIZE_A] = 2,
                                        [F_TRANSPOSE] = 4,
                                        [F_A_PLACE] = TEST_PLACEMENTS,
                                        [F_D_PLACE] = TEST_PLACEMENTS,
                                        [F_EPILOGUE] = 1 + TRIAL_ACTIVATIONS,
                                        [F_BATCH] = 3,
                                        [F_PACKED] = 2};

static weights_trial trial_of(const test_device *device, const char *variant,
                              const int level[FACTORS], uint64_t seed) {
    return (weights_trial){.device = device,
                           .variant = variant,
                           .m = rows[level[F_M]],
                           .n = columns[level[F_N]],
                           .k = depths[level[F_K]],
                           .group = groups[level[F_GROUP]],
                           .a_type = dequantized[level[F_A_TYPE]],
                           .b_type = weights[level[F_B_TYPE]],
                           .d_type = dequantized[level[F_D_TYPE]],
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
                           .parameters = seed % 2 ? TEST_DENSE : TEST_TRANSPOSED,
                           .seed = seed};
}

/* Rows of s4 must have whole bytes. */
static bool is_possible(const weights_trial *t) {
    return t->b_type != TDM_S4 || (t->transpose_b ? t->k : t->n) % 2 == 0;
}

static void run_trial(const test_device *device, const char *variant, const int level[FACTORS],
                      uint64_t seed) {
    const weights_trial t = trial_of(device, variant, level, seed);
    if (is_possible(&t))
        weights_trial_run(t);
}

enum {
    SMALL_CASES = 12,
    SMALL_CASES_OF_TILES = 4, /* each takes 1 s in a checker; variants share a kernel source */
    SMALL_K_OF_TILES = 5      /* index into `depths` */
};

/* Adjusts the levels to the variant: its types, and few rows of A if it is skinny. */
static void fit_levels(const tdm_variant *row, int first, int level[FACTORS]) {
    if (row && row->parameters[TDM_GEMM_P_B_TYPE] != 0)
        level[F_B_TYPE] = row->parameters[TDM_GEMM_P_B_TYPE] == TDM_S4;
    if (row && row->parameters[TDM_GEMM_P_A_TYPE] == TDM_GEMM_QUANTIZED_A)
        level[F_QUANTIZE_A] = 1;
    if (row && row->parameters[TDM_GEMM_P_A_TYPE] > 0) {
        level[F_QUANTIZE_A] = 0;
        level[F_A_TYPE] = row->parameters[TDM_GEMM_P_A_TYPE] - TDM_F32;
    }
    if (row && row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_SMALL_M)
        level[F_M] = first ? 4 : level[F_M] % 6; /* more rows than any variant takes at once */
    if (test_is_small() && row && row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_TILED &&
        level[F_K] > SMALL_K_OF_TILES)
        level[F_K] = SMALL_K_OF_TILES;
    const bool reads_lines = row && (row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_SMALL_M ||
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

TEST(every_variant) {
    test_each_variant(TDM_OP_GEMM_WEIGHTS, NULL, run_row);
    test_require_all_variants(TDM_OP_GEMM_WEIGHTS);
}

TEST(the_library_chooses) {
    for (int d = 0; d < test_device_count(); d++)
        run_row(test_device_at(d), NULL);
}

/*
 * With K = 1 all quantized values of B are adjacent. Two values of s4 share a byte, so rows of Bᵀ
 * may start inside a byte.
 */
static void run_one_step(const test_device *device, const char *variant, int given) {
    char text[256];
    const int level[FACTORS] = {[F_B_TYPE] = 1, [F_ZERO_TYPE] = 2};
    weights_trial t = trial_of(device, variant, level, 31 + (uint64_t)given);
    t.m = given & 1 ? 4 : 1;
    t.k = t.side_by_side = 1;
    t.quantize_a = given >> 1 & 1;
    t.transpose_b = given >> 2 & 1;
    t.packed = given >> 3 & 1;
    t.n = given >> 4 & 1 ? 1 : 16;
    t.batch = given >> 4 & 1 ? 16 : 0;
    if (!test_case_begin(device, variant, "one step, %s", weights_trial_text(&t, text)))
        return;
    weights_trial_create(&t);
    if (weights_trial_multiply(&t)) {
        weights_trial_check(&t);
        test_case_end();
    }
    weights_trial_destroy(&t);
}

TEST(one_step_of_k) {
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

/* ---- bits ------------------------------------------------------------------------------------ */

/* Dequantizes B first. Then it computes D with the float panel variant of the same tile. */
static void multiply_dequantized(const weights_trial *t, const tdm_variant *row,
                                 const test_array *d) {
    tdm_gemm_desc desc = weights_trial_describe(t);
    tdm_gemm_plan *plan;
    tdm_tensor *dense;
    char variant[64];
    const char *const tile = strstr(row->name, "_panel_");
    snprintf(variant, sizeof variant, "gemm_f32%s", tile ? tile : "");
    const tdm_layout *const codes = &t->codes.layout;
    TEST_OK(tdm_tensor_create(t->device->device, TDM_F32, codes->rank, codes->shape, &dense));
    TEST_OK(tdm_tensor_dequantize(t->device->stream, t->b, dense));
    TEST_OK(tdm_tensor_layout(dense, &desc.b));
    memset(&desc.b_quant, 0, sizeof desc.b_quant);
    desc.packed_b = 0;
    desc.variant = variant;
    TEST_OK(tdm_gemm_plan_create(t->device->device, &desc, &plan));
    tdm_buffer *const workspace = gemm_workspace(t->device, plan);
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
    weights_trial t = trial_of(device, row->name, level, seed);
    test_array expected;
    if (!is_possible(&t) ||
        !test_case_begin(device, row->name, "bits, %s", weights_trial_text(&t, text)))
        return;
    weights_trial_create(&t);
    test_array_create(&expected, device, t.d_type, t.d.layout.rank, t.d.layout.shape, TEST_DENSE);
    test_array_send(&expected);
    multiply_dequantized(&t, row, &expected);
    if (!weights_trial_multiply(&t))
        test_case_fail("%s does not take it", row->name);
    test_array_fetch(&expected);
    for (int64_t i = 0; i < test_array_count(&t.d); i++)
        if (test_array_fetched(&t.d, i) != test_array_fetched(&expected, i))
            test_case_fail("element %lld is %.9g, not %.9g", (long long)i,
                           test_array_fetched(&t.d, i), test_array_fetched(&expected, i));
    test_case_end();
    test_array_destroy(&expected);
    weights_trial_destroy(&t);
}

static bool dequantizes_panels(const tdm_variant *row) {
    return row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_PANEL &&
           row->parameters[TDM_GEMM_P_A_TYPE] != TDM_GEMM_QUANTIZED_A;
}

static void compare_row(const test_device *device, const tdm_variant *row) {
    const int is_s4 = row->parameters[TDM_GEMM_P_B_TYPE] == TDM_S4;
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
        compare_bits(device, row, level, 7);
    }
}

/* Dequantizing while a panel is packed gives the same bits as dequantizing B before the GEMM. */
TEST(panels_have_the_bits_of_dequantized_weights) {
    test_each_variant(TDM_OP_GEMM_WEIGHTS, dequantizes_panels, compare_row);
}

/* ---- refusals -------------------------------------------------------------------------------- */

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
           "the scale of B has 2 entries along K, but 64 elements in groups of 16 need 4");
    desc = small_desc();
    memset(&desc.b_quant, 0, sizeof desc.b_quant);
    refuse(device, &desc, TDM_BAD_ARGUMENT,
           "B is s8 and A is f32: B must have quantization parameters");
    desc = small_desc();
    desc.b_quant.block[0] = -1;
    refuse(device, &desc, TDM_BAD_ARGUMENT, "the block size of B's quantization parameters is -1");
    desc = small_desc();
    desc.d.dtype = TDM_S8;
    refuse(device, &desc, TDM_UNSUPPORTED, "D is s8 but A is f32");
    desc = small_desc();
    TEST_OK(tdm_layout_contiguous(TDM_S32, 1, (const int64_t[]){6}, &desc.bias));
    refuse(device, &desc, TDM_UNSUPPORTED, "bias is s32 but A is f32");
    desc = small_desc();
    desc.a_quant = desc.b_quant;
    refuse(device, &desc, TDM_BAD_ARGUMENT, "A is f32, which cannot have quantization parameters");
    desc = small_desc();
    desc.b.dtype = TDM_F32;
    memset(&desc.b_quant, 0, sizeof desc.b_quant);
    desc.quantize_a = 1;
    refuse(device, &desc, TDM_BAD_ARGUMENT, "quantize_a is 1, but A is f32 and B is f32");
    desc = small_desc();
    desc.variant = "gemm_any_nothing";
    refuse(device, &desc, TDM_UNSUPPORTED, "gemm_any_nothing");
}

/*
 * For such a B, variants that read quantized values in place get a copy. On CPU cores they refuse
 * instead.
 */
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
               "gemm_f32s4_group_8: columns or batch entries of B are 1 elements apart, which "
               "splits a storage unit");
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

/* Describes a GEMM with a very long K; plans need no memory for it. */
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
    const bool long_loops = (device->info.capabilities & TDM_CAP_UNLIMITED_LOOPS) != 0;
    tdm_gemm_plan *plan;
    tdm_gemm_desc desc = long_desc(most + 1);
    desc.variant = "gemm_f32s8_group_8";
    refuse(device, &desc, TDM_UNSUPPORTED,
           "gemm_f32s8_group_8: K is 134217728, kernels that read quantized weights take at most "
           "134217727");
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

/* Weights are packed once and used for one row of A and for many. */
DEVICE_TEST(weights_packed_once_serve_every_m) {
    static const int64_t sizes[] = {1, 4, 40};
    tdm_packed *packed = NULL;
    for (int i = 0; i < 3; i++) {
        const int level[FACTORS] = {[F_K] = 5, [F_N] = 5, [F_GROUP] = 2, [F_PACKED] = 1};
        weights_trial t = trial_of(device, NULL, level, 99);
        tdm_gemm_plan *plan;
        t.m = sizes[i];
        weights_trial_create(&t);
        const tdm_gemm_desc desc = weights_trial_describe(&t);
        TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
        if (!packed)
            TEST_OK(tdm_gemm_pack_b(plan, device->stream, t.b, &packed));
        assert_string_equal(tdm_packed_layout(packed), "lines-s8/1");
        TEST_OK(weights_trial_launch(&t, plan, packed));
        weights_trial_check(&t);
        tdm_gemm_plan_destroy(plan);
        weights_trial_destroy(&t);
    }
    tdm_packed_destroy(packed);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
