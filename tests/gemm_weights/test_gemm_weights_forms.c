/*
 * Quantized weights beside A of f16 and bf16 in every form that they come in: packed, N×K and K×N, with odd M, N and K, in groups
 * that no tile has a scale for. None of them ends at a reference kernel, and results keep the bound of docs/numerics.md.
 */
// ctest: device timeout=240 cost=15
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/gemm/gemm_internal.h"
#include "common/op_gemm.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/own_device.h"
#include "tests/support/test_array.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

typedef struct weights_kind {
    const char *name;
    tdm_dtype codes, scale, zero;
    int64_t group; /* 0: one scale for a column */
} weights_kind;

static const weights_kind kinds[] = {{"w8", TDM_S8, TDM_F32, TDM_DTYPE_NONE, 0},
                                     {"w4", TDM_S4, TDM_F32, TDM_DTYPE_NONE, 32},
                                     {"w4 with zeros", TDM_S4, TDM_F16, TDM_S8, 64},
                                     {"q8_0", TDM_S8, TDM_F16, TDM_DTYPE_NONE, 32},
                                     {"q4_0", TDM_S4, TDM_F16, TDM_DTYPE_NONE, 32},
                                     {"s8 by 48", TDM_S8, TDM_BF16, TDM_S32, 48},
                                     {"s4 by 20", TDM_S4, TDM_F32, TDM_DTYPE_NONE, 20},
                                     {"s8 by 6", TDM_S8, TDM_F32, TDM_S8, 6}};

typedef enum weights_form {
    FORM_PACKED,
    FORM_LINES,
    FORM_COLUMNS,
    FORMS
} weights_form;
static const char *const form_names[FORMS] = {"packed", "NxK", "KxN"};

static const tdm_dtype halves[] = {TDM_F16, TDM_BF16};
static const int64_t all_rows[] = {1, 3, 16, 17, 64};
static const int64_t depths_and_columns[][2] = {{97, 41}, {96, 41}, {97, 40}, {96, 40}};

typedef struct forms_case {
    const test_device *device;
    const weights_kind *kind;
    weights_form form;
    tdm_dtype a_type;
    int64_t m, n, k;
    int64_t batch;       /* 0: none */
    const char *variant; /* forced, or NULL */
    bool transpose_a, shares_a, shares_b;
    test_array a, codes, scale, zero, d;
    tdm_tensor *view_of_a, *b;
} forms_case;

static bool begin(const forms_case *c) {
    return test_case_begin(
        c->device, c->variant, "%s %s beside %s m%lld n%lld k%lld batch %lld%s%s%s", c->kind->name,
        form_names[c->form], tdm_dtype_name(c->a_type), (long long)c->m, (long long)c->n,
        (long long)c->k, (long long)c->batch, c->transpose_a ? " A transposed" : "",
        c->shares_a ? " A shared" : "", c->shares_b ? " B shared" : "");
}

/* ---- operands ----------------------------------------------------------------------------------------- */

static int64_t groups_of(const forms_case *c) {
    return c->kind->group == 0 ? 1 : tdm_ceil_div(c->k, c->kind->group);
}

/* B's own dimensions; without its steps of K, those of its parameters. */
static int shape_of_b(const forms_case *c, int64_t steps, int64_t shape[3]) {
    int rank = 0;
    if (c->batch > 0 && !c->shares_b)
        shape[rank++] = c->batch;
    shape[rank++] = c->form == FORM_COLUMNS ? steps : c->n;
    shape[rank++] = c->form == FORM_COLUMNS ? c->n : steps;
    return rank;
}

static void fill_codes(test_array *array, test_random *random, bool s4) {
    for (int64_t i = 0; i < test_array_count(array); i++)
        test_array_put(array, i, (double)test_random_int(random, s4 ? -8 : -128, s4 ? 7 : 127));
    test_array_send(array);
}

/* A matrix, or one for each entry of the batch that is the same by a stride of 0. */
static tdm_tensor *create_view(const forms_case *c, const test_array *array, bool shared) {
    tdm_layout layout = array->layout;
    tdm_tensor *view;
    for (int i = 2; shared && i > 0; i--) {
        layout.shape[i] = layout.shape[i - 1];
        layout.strides[i] = layout.strides[i - 1];
    }
    if (shared) {
        layout.rank = 3;
        layout.shape[0] = c->batch;
        layout.strides[0] = 0;
    }
    TEST_OK(tdm_tensor_on_buffer(array->buffer, array->offset, &layout, &view));
    return view;
}

static void quantize_b(forms_case *c) {
    tdm_quantization q = TDM_QUANTIZATION_INIT;
    const bool has_zero = c->kind->zero != TDM_DTYPE_NONE;
    tdm_tensor *const codes = create_view(c, &c->codes, c->shares_b);
    tdm_tensor *const scale = create_view(c, &c->scale, c->shares_b);
    tdm_tensor *const zero = has_zero ? create_view(c, &c->zero, c->shares_b) : NULL;
    q.scale = scale;
    q.zero_point = zero;
    const int rank = c->shares_b ? 3 : c->codes.layout.rank;
    for (int i = 0; i < rank; i++)
        q.block[i] = 1;
    q.block[rank - (c->form == FORM_COLUMNS ? 2 : 1)] = c->kind->group;
    TEST_OK(tdm_tensor_quantized(codes, &q, &c->b));
    tdm_tensor_destroy(zero);
    tdm_tensor_destroy(scale);
    tdm_tensor_destroy(codes);
}

static void create_b(forms_case *c) {
    int64_t shape[3];
    test_random random = {(uint64_t)(c->m + 3 * c->n + 7 * c->k)};
    const bool s4 = c->kind->codes == TDM_S4;
    int rank = shape_of_b(c, c->k, shape);
    test_array_create(&c->codes, c->device, c->kind->codes, rank, shape, TEST_DENSE);
    fill_codes(&c->codes, &random, s4);
    rank = shape_of_b(c, groups_of(c), shape);
    test_array_create(&c->scale, c->device, c->kind->scale, rank, shape, TEST_DENSE);
    for (int64_t i = 0; i < test_array_count(&c->scale); i++)
        test_array_put(&c->scale, i, test_random_uniform(&random, 0.001, 0.01));
    test_array_send(&c->scale);
    if (c->kind->zero != TDM_DTYPE_NONE) {
        test_array_create(&c->zero, c->device, c->kind->zero, rank, shape, TEST_DENSE);
        fill_codes(&c->zero, &random, s4);
    }
    quantize_b(c);
}

static void create(forms_case *c) {
    const int64_t z = c->batch > 0 ? c->batch : 1;
    const int64_t a[3] = {z, c->transpose_a ? c->k : c->m, c->transpose_a ? c->m : c->k};
    const int64_t d[3] = {z, c->m, c->n};
    const int own_a = c->batch > 0 && !c->shares_a ? 0 : 1, own_d = c->batch > 0 ? 0 : 1;
    test_array_create(&c->a, c->device, c->a_type, 3 - own_a, a + own_a, TEST_DENSE);
    test_array_fill(&c->a, TEST_DATA_UNIT, 11);
    c->view_of_a = create_view(c, &c->a, c->shares_a);
    create_b(c);
    test_array_create(&c->d, c->device, TDM_F32, 3 - own_d, d + own_d, TEST_DENSE);
    test_array_send(&c->d);
}

static void destroy(forms_case *c) {
    tdm_tensor_destroy(c->view_of_a);
    tdm_tensor_destroy(c->b);
    test_array_destroy(&c->a);
    test_array_destroy(&c->codes);
    test_array_destroy(&c->scale);
    test_array_destroy(&c->zero);
    test_array_destroy(&c->d);
}

static tdm_gemm_desc describe(const forms_case *c) {
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    TEST_OK(tdm_tensor_layout(c->view_of_a, &desc.a));
    TEST_OK(tdm_tensor_layout(c->b, &desc.b));
    TEST_OK(tdm_tensor_quant_layout(c->b, &desc.b_quant));
    desc.d = c->d.layout;
    desc.transpose_a = c->transpose_a;
    desc.transpose_b = c->form != FORM_COLUMNS;
    desc.packed_b = c->form == FORM_PACKED;
    desc.variant = c->variant;
    return desc;
}

/* ---- which row ---------------------------------------------------------------------------------------- */

static void refuse_reference(const tdm_gemm_plan *plan) {
    if (strstr(tdm_gemm_plan_variant(plan), "reference"))
        test_case_fail("%s is chosen: %s", tdm_gemm_plan_variant(plan),
                       tdm_gemm_plan_refusals(plan));
}

/* Groups of whole blocks of K are multiplied on tensor cores, however B is stored. */
static void require_tensor_cores(const forms_case *c, const tdm_gemm_plan *plan) {
    const uint32_t needed = TDM_CAP_TENSOR_CORES | TDM_CAP_ASYNC_COPY;
    const char *const variant = tdm_gemm_plan_variant(plan);
    if ((c->device->info.capabilities & needed) == needed && c->kind->group % 32 == 0 &&
        !strstr(variant, "__tensor"))
        test_case_fail("%s is chosen: %s", variant, tdm_gemm_plan_refusals(plan));
}

static void each_form(const test_device *device, void (*body)(forms_case *c)) {
    const int shapes = test_is_small() ? 1 : COUNT(depths_and_columns);
    for (int i = 0; i < COUNT(kinds) * FORMS * COUNT(halves) * COUNT(all_rows) * shapes; i++) {
        int rest = i;
        forms_case c = {.device = device, .kind = &kinds[rest % COUNT(kinds)]};
        c.form = (weights_form)((rest /= COUNT(kinds)) % FORMS);
        c.a_type = halves[(rest /= FORMS) % COUNT(halves)];
        c.m = all_rows[(rest /= COUNT(halves)) % COUNT(all_rows)];
        rest /= COUNT(all_rows);
        c.k = depths_and_columns[rest][0];
        c.n = depths_and_columns[rest][1];
        body(&c);
    }
}

static void plan_one(forms_case *c) {
    tdm_gemm_plan *plan;
    if (!begin(c))
        return;
    create(c);
    const tdm_gemm_desc desc = describe(c);
    TEST_OK(tdm_gemm_plan_create(c->device->device, &desc, &plan));
    refuse_reference(plan);
    require_tensor_cores(c, plan);
    tdm_gemm_plan_destroy(plan);
    test_case_end();
    destroy(c);
}

DEVICE_TEST(no_form_of_weights_ends_at_the_reference) {
    each_form(device, plan_one);
}

/* ---- results ------------------------------------------------------------------------------------------ */

static double weight_at(const forms_case *c, int64_t z, int64_t p, int64_t j) {
    const int64_t group = c->kind->group == 0 ? 0 : p / c->kind->group, groups = groups_of(c);
    const bool columns = c->form == FORM_COLUMNS;
    const int64_t entry = c->shares_b ? 0 : z;
    const int64_t code = entry * c->k * c->n + (columns ? p * c->n + j : j * c->k + p);
    const int64_t at = entry * groups * c->n + (columns ? group * c->n + j : j * groups + group);
    const double zero = c->kind->zero != TDM_DTYPE_NONE ? test_array_get(&c->zero, at) : 0.0;
    return test_array_get(&c->scale, at) * (test_array_get(&c->codes, code) - zero);
}

static void check_element(const forms_case *c, int64_t z, int64_t i, int64_t j) {
    op_gemm_case item = {.m = c->m, .n = c->n, .k = c->k};
    item.dtype[OP_GEMM_D] = TDM_F32;
    double sum = 0, size = 0;
    for (int64_t p = 0; p < c->k; p++) {
        const int64_t at =
            (c->shares_a ? 0 : z * c->m * c->k) + (c->transpose_a ? p * c->m + i : i * c->k + p);
        const double product = test_array_get(&c->a, at) * weight_at(c, z, p, j);
        sum += product;
        size += fabs(product);
    }
    const double actual = test_array_fetched(&c->d, (z * c->m + i) * c->n + j);
    const double bound = op_gemm_bound(&item, sum, size);
    if (!(fabs(actual - sum) <= bound))
        test_case_fail("D[%lld, %lld, %lld] is %.9g, not %.9g +- %.3g", (long long)z, (long long)i,
                       (long long)j, actual, sum, bound);
}

static void check(forms_case *c) {
    test_array_fetch(&c->d);
    for (int64_t z = 0; z < (c->batch > 0 ? c->batch : 1); z++)
        for (int64_t i = 0; i < c->m; i++)
            for (int64_t j = 0; j < c->n; j++)
                check_element(c, z, i, j);
}

/* Room that holds NaNs, whatever of it a run reads before it writes. */
static tdm_buffer *create_workspace(const test_device *device, const tdm_gemm_plan *plan) {
    size_t bytes;
    tdm_buffer *workspace;
    tdm_layout layout;
    tdm_tensor *words;
    TEST_OK(tdm_gemm_plan_workspace_size(plan, &bytes));
    if (bytes == 0)
        return NULL;
    const int64_t count = tdm_ceil_div((int64_t)bytes, (int64_t)sizeof(float));
    TEST_OK(tdm_buffer_create(device->device, (size_t)count * sizeof(float), &workspace));
    TEST_OK(tdm_layout_contiguous(TDM_F32, 1, &count, &layout));
    TEST_OK(tdm_tensor_on_buffer(workspace, 0, &layout, &words));
    TEST_OK(tdm_tensor_fill(device->stream, NAN, words));
    TEST_OK(tdm_stream_synchronize(device->stream));
    tdm_tensor_destroy(words);
    return workspace;
}

static void multiply(forms_case *c, bool recorded) {
    const tdm_gemm_desc desc = describe(c);
    tdm_stream *const stream = c->device->stream;
    tdm_gemm_plan *plan;
    tdm_graph *graph = NULL;
    tdm_packed *packed = NULL;
    TEST_OK(tdm_gemm_plan_create(c->device->device, &desc, &plan));
    refuse_reference(plan);
    if (desc.packed_b)
        TEST_OK(tdm_gemm_pack_b(plan, stream, c->b, &packed));
    tdm_buffer *const workspace = create_workspace(c->device, plan);
    const tdm_gemm_args args = {.struct_size = sizeof args,
                                .a = c->view_of_a,
                                .b = packed ? NULL : c->b,
                                .packed_b = packed,
                                .d = c->d.tensor,
                                .workspace = workspace};
    if (recorded)
        TEST_OK(tdm_stream_begin_recording(stream));
    TEST_OK(tdm_gemm_plan_run(plan, stream, &args));
    if (recorded) {
        TEST_OK(tdm_stream_end_recording(stream, &graph));
        TEST_OK(tdm_graph_launch(graph, stream));
    }
    check(c);
    tdm_graph_destroy(graph);
    tdm_buffer_destroy(workspace);
    tdm_packed_destroy(packed);
    tdm_gemm_plan_destroy(plan);
}

static void multiply_one(forms_case *c, bool recorded) {
    if (!begin(c))
        return;
    create(c);
    multiply(c, recorded);
    test_case_end();
    destroy(c);
}

/* Rows for few of A and for more; at small scale the two types of A take turns. */
static void multiply_due(forms_case *c) {
    const bool other =
        test_is_small() && (c->form + (c->kind - kinds)) % COUNT(halves) != (c->a_type == TDM_BF16);
    if ((c->m == 3 || c->m == 17) && c->k == depths_and_columns[0][0] &&
        c->n == depths_and_columns[0][1] && !other)
        multiply_one(c, false);
}

DEVICE_TEST(results_keep_the_bound_in_every_form) {
    each_form(device, multiply_due);
}

/* Of what is brought into another form first: A that is transposed, and batches that share an operand. */
DEVICE_TEST(entries_that_share_an_operand_have_their_own_results) {
    for (int kind = 0; kind < COUNT(kinds); kind++)
        for (int i = 0; i < 3; i++) {
            forms_case c = {.device = device,
                            .kind = &kinds[kind],
                            .form = FORM_COLUMNS,
                            .a_type = halves[(kind + i) % COUNT(halves)],
                            .m = i == 1 ? 3 : 18,
                            .n = 10,
                            .k = 70,
                            .batch = i == 2 ? 0 : 3,
                            .transpose_a = i == 2,
                            .shares_a = i == 1,
                            .shares_b = i == 0};
            multiply_one(&c, false);
        }
}

/* Parts of K lie in the workspace, too. */
DEVICE_TEST(parts_of_k_stand_beside_lines) {
    const int q4_0 = 4;
    forms_case c = {.device = device,
                    .kind = &kinds[q4_0],
                    .form = FORM_COLUMNS,
                    .a_type = TDM_F16,
                    .m = 64,
                    .n = 16,
                    .k = 2080};
    multiply_one(&c, false);
}

/* Codes are multiplied where they stand, whatever the number of rows, but where floats are copied beside arithmetic. */
DEVICE_TEST(many_rows_need_no_workspace) {
    static const tdm_dtype types[] = {TDM_F32, TDM_F16, TDM_BF16};
    const bool copies = (device->info.capabilities & TDM_CAP_ASYNC_COPY) != 0;
    for (int i = 0; i < COUNT(kinds) * FORMS * COUNT(types); i++) {
        forms_case c = {.device = device,
                        .kind = &kinds[i % COUNT(kinds)],
                        .form = (weights_form)(i / COUNT(kinds) % FORMS),
                        .a_type = types[i / COUNT(kinds) / FORMS],
                        .m = 70,
                        .n = 41,
                        .k = 97};
        size_t bytes = 1;
        tdm_gemm_plan *plan;
        if (!begin(&c))
            continue;
        create(&c);
        const tdm_gemm_desc desc = describe(&c);
        TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
        TEST_OK(tdm_gemm_plan_workspace_size(plan, &bytes));
        if (bytes != 0 && !copies)
            test_case_fail("%s takes %zu bytes: %s", tdm_gemm_plan_variant(plan), bytes,
                           tdm_gemm_plan_refusals(plan));
        tdm_gemm_plan_destroy(plan);
        destroy(&c);
        test_case_end();
    }
}

/* B(p, j) is code p + j: every other line begins within a byte. */
static void multiply_overlapping(const test_device *device, const char *variant) {
    enum {
        M = 20,
        N = 9,
        K = 41
    };
    const int64_t a_shape[] = {M, K}, d_shape[] = {M, N}, codes_shape[] = {N + K};
    const int64_t scale_shape[] = {1, N};
    test_array a, codes, scale, d;
    test_random random = {77};
    tdm_quantization q = TDM_QUANTIZATION_INIT;
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    tdm_gemm_args args = TDM_GEMM_ARGS_INIT;
    tdm_layout layout;
    tdm_tensor *view, *b;
    tdm_gemm_plan *plan;
    if (!test_case_begin(device, variant, "lines of s4 a code apart"))
        return;
    test_array_create(&a, device, TDM_F32, 2, a_shape, TEST_DENSE);
    test_array_create(&codes, device, TDM_S4, 1, codes_shape, TEST_DENSE);
    test_array_create(&scale, device, TDM_F32, 2, scale_shape, TEST_DENSE);
    test_array_create(&d, device, TDM_F32, 2, d_shape, TEST_DENSE);
    test_array_fill(&a, TEST_DATA_UNIT, 5);
    fill_codes(&codes, &random, true);
    for (int j = 0; j < N; j++)
        test_array_put(&scale, j, 0.25 * (j + 1));
    test_array_send(&a);
    test_array_send(&scale);
    test_array_send(&d);
    layout = codes.layout;
    layout.rank = 2;
    layout.shape[0] = K;
    layout.shape[1] = N;
    layout.strides[0] = layout.strides[1] = 1;
    TEST_OK(tdm_tensor_on_buffer(codes.buffer, codes.offset, &layout, &view));
    q.scale = scale.tensor;
    q.block[0] = 0;
    q.block[1] = 1;
    TEST_OK(tdm_tensor_quantized(view, &q, &b));
    desc.a = a.layout;
    TEST_OK(tdm_tensor_layout(b, &desc.b));
    TEST_OK(tdm_tensor_quant_layout(b, &desc.b_quant));
    desc.d = d.layout;
    desc.variant = variant;
    TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
    tdm_buffer *const workspace = create_workspace(device, plan);
    args.a = a.tensor;
    args.b = b;
    args.d = d.tensor;
    args.workspace = workspace;
    TEST_OK(tdm_gemm_plan_run(plan, device->stream, &args));
    test_array_fetch(&d);
    for (int i = 0; i < M; i++)
        for (int j = 0; j < N; j++) {
            double sum = 0;
            for (int p = 0; p < K; p++)
                sum += test_array_get(&a, i * K + p) * test_array_get(&scale, j) *
                       test_array_get(&codes, p + j);
            if (!(fabs(test_array_fetched(&d, i * N + j) - sum) <= 1e-4 * (1 + fabs(sum))))
                test_case_fail("D[%d, %d] is %.9g, not %.9g", i, j,
                               test_array_fetched(&d, i * N + j), sum);
        }
    tdm_buffer_destroy(workspace);
    tdm_gemm_plan_destroy(plan);
    tdm_tensor_destroy(b);
    tdm_tensor_destroy(view);
    test_array_destroy(&a);
    test_array_destroy(&codes);
    test_array_destroy(&scale);
    test_array_destroy(&d);
    test_case_end();
}

DEVICE_TEST(lines_may_begin_within_a_byte) {
    multiply_overlapping(device, NULL);
    for (int i = 0; i < tdm_variant_count; i++) {
        const tdm_variant *const row = &tdm_variants[i];
        if (row->op == TDM_OP_GEMM_WEIGHTS && test_can_run(device, row) &&
            row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_TILED &&
            row->parameters[TDM_GEMM_P_A_TYPE] == TDM_F32 &&
            row->parameters[TDM_GEMM_P_B_TYPE] == TDM_S4)
            multiply_overlapping(device, row->name);
    }
}

/* A row that is forced is given what it takes: lines along K, or both operands in f32. */
DEVICE_TEST(forced_rows_get_their_form) {
    static const char *const rows[] = {"gemm_f16s8_mma_64x64__tensor", "gemm_f32_tiled_32x32",
                                       "gemm_f32_simt_64x64__async", "gemm_f32_skinny_group"};
    for (int i = 0; i < COUNT(rows); i++) {
        const tdm_variant *const row = tdm_variant_find(rows[i]);
        assert_non_null(row);
        if (!test_can_run(device, row))
            continue;
        forms_case c = {.device = device,
                        .kind = &kinds[0],
                        .form = FORM_COLUMNS,
                        .a_type = TDM_F16,
                        .m = 18,
                        .n = 10,
                        .k = 72,
                        .batch = 2,
                        .shares_a = i % 2 == 0,
                        .variant = rows[i]};
        multiply_one(&c, false);
    }
}

/* A plan builds all that its runs launch: a stream that records builds nothing. */
DEVICE_TEST(the_first_run_can_be_recorded) {
    const int one_of_each[] = {0, 4, 5};
    for (int i = 0; i < COUNT(one_of_each); i++) {
        own_device own = own_device_open(device, 0);
        test_device fresh = *device;
        fresh.device = own.device;
        fresh.stream = own.stream;
        forms_case c = {.device = &fresh,
                        .kind = &kinds[one_of_each[i]],
                        .form = FORM_COLUMNS,
                        .a_type = TDM_F16,
                        .m = 17,
                        .n = 9,
                        .k = 64};
        create(&c);
        multiply(&c, true);
        destroy(&c);
        own_device_close(&own);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_form_of_weights_ends_at_the_reference),
        cmocka_unit_test(results_keep_the_bound_in_every_form),
        cmocka_unit_test(entries_that_share_an_operand_have_their_own_results),
        cmocka_unit_test(parts_of_k_stand_beside_lines),
        cmocka_unit_test(many_rows_need_no_workspace),
        cmocka_unit_test(lines_may_begin_within_a_byte),
        cmocka_unit_test(forced_rows_get_their_form),
        cmocka_unit_test(the_first_run_can_be_recorded)};
    return cmocka_run_group_tests(tests, test_devices_setup, test_devices_teardown);
}
