#include "tests/support/gemm/weights_trial.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "api/gemm/gemm_internal.h"
#include "common/op_gemm.h"
#include "tests/support/devices/variant_cases.h"
#include "tests/support/gemm/gemm_table.h"

const char *weights_trial_text(const weights_trial *t, char text[256]) {
    static const char *const kinds[] = {"", " exact", " equal terms"};
    snprintf(text, 256,
             "%s·%s→%s m%lld n%lld k%lld group %lld %c%c scale %s zero %s%s a %s b %s d %s "
             "epilogue %d batch %lld%s%s%s%s seed %llu",
             tdm_dtype_name(t->a_type), tdm_dtype_name(t->b_type), tdm_dtype_name(t->d_type),
             (long long)t->m, (long long)t->n, (long long)t->k, (long long)t->group,
             t->transpose_a ? 't' : 'n', t->transpose_b ? 't' : 'n', tdm_dtype_name(t->scale_type),
             t->zero_type ? tdm_dtype_name(t->zero_type) : "none",
             t->quantize_a ? " quantize_a" : "", test_placement_name(t->a_place),
             test_placement_name(t->b_place), test_placement_name(t->d_place), t->epilogue,
             (long long)t->batch, t->shares_a ? " A shared" : "", t->shares_b ? " B shared" : "",
             t->packed ? " packed" : "", kinds[t->data], (unsigned long long)t->seed);
    return text;
}

/* ---- operands ---- */

static int shape_of(const weights_trial *t, int64_t entries, int64_t first, int64_t second,
                    int64_t shape[TDM_MAX_RANK]) {
    int rank = 0;
    if (t->batch > 0)
        shape[rank++] = entries;
    shape[rank++] = first;
    shape[rank++] = second;
    return rank;
}

static int64_t entries_of(const weights_trial *t, int shared) {
    return t->batch > 0 && !shared ? t->batch : 1;
}

static int64_t groups_of(const weights_trial *t) {
    return t->group == 0 ? 1 : tdm_ceil_div(t->k, t->group);
}

static void fill_integers(test_array *array, test_random *random, int low, int high) {
    for (int64_t i = 0; i < test_array_count(array); i++)
        test_array_put(array, i, (double)test_random_int(random, low, high));
}

static double scale_of(const weights_trial *t, test_random *random) {
    return t->data == WEIGHTS_EQUAL   ? 0.011
           : t->data == WEIGHTS_EXACT ? ldexp(1.0, (int)test_random_int(random, -2, 1))
                                      : test_random_uniform(random, 0.001, 0.01);
}

static void create_b(weights_trial *t, test_random *random) {
    int64_t shape[TDM_MAX_RANK];
    tdm_quantization q = TDM_QUANTIZATION_INIT;
    const int64_t entries = entries_of(t, t->shares_b);
    const int low = t->b_type == TDM_S4 ? -8 : -128, high = t->b_type == TDM_S4 ? 7 : 127;
    const int rank =
        shape_of(t, entries, t->transpose_b ? t->n : t->k, t->transpose_b ? t->k : t->n, shape);
    if (t->side_by_side) {
        tdm_layout codes;
        TEST_OK(tdm_layout_contiguous(t->b_type, rank, shape, &codes));
        if (t->k > 1)
            codes.strides[rank - 2] = 1;
        test_array_create_layout(&t->codes, t->device, &codes, 0);
    } else
        test_array_create(&t->codes, t->device, t->b_type, rank, shape, t->b_place);
    fill_integers(&t->codes, random, t->data == WEIGHTS_EQUAL ? high : low, high);
    test_array_send(&t->codes);
    const int k_dimension = rank - (t->transpose_b ? 1 : 2);
    for (int i = 0; i < rank; i++)
        q.block[i] = i == k_dimension ? t->group : 1;
    shape[k_dimension] = groups_of(t);
    test_array_create(&t->scale, t->device, t->scale_type, rank, shape, t->parameters);
    for (int64_t i = 0; i < test_array_count(&t->scale); i++)
        test_array_put(&t->scale, i, scale_of(t, random));
    test_array_send(&t->scale);
    q.scale = t->scale.tensor;
    if (t->zero_type != TDM_DTYPE_NONE) {
        test_array_create(&t->zero, t->device, t->zero_type, rank, shape, t->parameters);
        fill_integers(&t->zero, random, low, high);
        test_array_send(&t->zero);
        q.zero_point = t->zero.tensor;
    }
    TEST_OK(tdm_tensor_quantized(t->codes.tensor, &q, &t->b));
}

/*
 * Each row to be quantized contains its largest magnitude, 127, once. With exact data its quantized
 * values then equal its elements.
 */
static void fill_a(weights_trial *t, test_random *random) {
    const int most = t->quantize_a ? 127 : 2;
    test_array_fill(&t->a, TEST_DATA_UNIT, t->seed + 1);
    if (t->data == WEIGHTS_EXACT)
        fill_integers(&t->a, random, -most, most);
    for (int64_t i = 0; t->data == WEIGHTS_EQUAL && i < test_array_count(&t->a); i++)
        test_array_put(&t->a, i, 0.1);
    const bool own_codes = t->data == WEIGHTS_EXACT && t->quantize_a && !t->transpose_a;
    for (int64_t i = 0; own_codes && i < entries_of(t, t->shares_a) * t->m; i++)
        test_array_put(&t->a, i * t->k + i % t->k, i % 2 ? most : -most);
    test_array_send(&t->a);
}

void weights_trial_create(weights_trial *t) {
    int64_t shape[TDM_MAX_RANK];
    test_random random = {t->seed};
    create_b(t, &random);
    int rank = shape_of(t, entries_of(t, t->shares_a), t->transpose_a ? t->k : t->m,
                        t->transpose_a ? t->m : t->k, shape);
    test_array_create(&t->a, t->device, t->a_type, rank, shape, t->a_place);
    fill_a(t, &random);
    rank = shape_of(t, entries_of(t, 0), t->m, t->n, shape);
    test_array_create(&t->d, t->device, t->d_type, rank, shape, t->d_place);
    test_array_send(&t->d);
    if (t->epilogue > 0) {
        test_array_create(&t->bias, t->device, TDM_F32, 1, &t->n, TEST_SPREAD);
        test_array_fill(&t->bias,
                        t->data == WEIGHTS_EXACT ? TEST_DATA_SMALL_INTEGER : TEST_DATA_UNIT,
                        t->seed + 2);
    }
}

void weights_trial_destroy(weights_trial *t) {
    tdm_tensor_destroy(t->b);
    test_array_destroy(&t->a);
    test_array_destroy(&t->codes);
    test_array_destroy(&t->scale);
    test_array_destroy(&t->zero);
    test_array_destroy(&t->bias);
    test_array_destroy(&t->d);
}

/* ---- the run ---- */

static tdm_activation activation_of(const weights_trial *t) {
    return t->epilogue > 0 ? (tdm_activation)(t->epilogue - 1) : TDM_ACT_NONE;
}

tdm_gemm_desc weights_trial_describe(const weights_trial *t) {
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    desc.a = t->a.layout;
    desc.b = t->codes.layout;
    TEST_OK(tdm_tensor_quant_layout(t->b, &desc.b_quant));
    desc.d = t->d.layout;
    if (t->epilogue > 0)
        desc.bias = t->bias.layout;
    desc.activation = activation_of(t);
    desc.quantize_a = t->quantize_a;
    desc.transpose_a = t->transpose_a;
    desc.transpose_b = t->transpose_b;
    desc.packed_b = t->packed;
    desc.variant = t->variant;
    return desc;
}

tdm_status weights_trial_launch(weights_trial *t, const tdm_gemm_plan *plan,
                                const tdm_packed *packed) {
    tdm_buffer *const workspace = gemm_workspace(t->device, plan);
    const tdm_gemm_args args = {.struct_size = sizeof args,
                                .a = t->a.tensor,
                                .b = packed ? NULL : t->b,
                                .packed_b = packed,
                                .bias = t->bias.tensor,
                                .d = t->d.tensor,
                                .workspace = workspace};
    tdm_graph *graph = NULL;
    test_array_send(&t->d);
    if (t->recorded)
        TEST_OK(tdm_stream_begin_recording(t->device->stream));
    const tdm_status status = tdm_gemm_plan_run(plan, t->device->stream, &args);
    if (t->recorded) {
        TEST_OK(tdm_stream_end_recording(t->device->stream, &graph));
        TEST_OK(tdm_graph_launch(graph, t->device->stream));
    }
    if (status == TDM_OK)
        test_array_fetch(&t->d);
    tdm_graph_destroy(graph);
    tdm_buffer_destroy(workspace);
    return status;
}

bool weights_trial_multiply(weights_trial *t) {
    const tdm_gemm_desc desc = weights_trial_describe(t);
    tdm_gemm_plan *plan;
    tdm_packed *packed = NULL;
    const tdm_status made = tdm_gemm_plan_create(t->device->device, &desc, &plan);
    if (t->variant && made == TDM_UNSUPPORTED)
        return false;
    TEST_OK(made);
    if (t->packed) {
        TEST_OK(tdm_gemm_pack_b(plan, t->device->stream, t->b, &packed));
        TEST_OK(tdm_tensor_fill(t->device->stream, NAN, t->scale.tensor));
    }
    TEST_OK(weights_trial_launch(t, plan, packed));
    tdm_packed_destroy(packed);
    tdm_gemm_plan_destroy(plan);
    return true;
}

/* ---- the oracle ---- */

/* A row of A, or its dequantized values if the trial quantizes A. */
static void real_row(const weights_trial *t, int64_t z, int64_t i, double *x) {
    const int64_t first = (t->shares_a ? 0 : z) * t->m * t->k;
    float most = 0;
    for (int64_t p = 0; p < t->k; p++) {
        x[p] = test_array_get(&t->a, first + (t->transpose_a ? p * t->m + i : i * t->k + p));
        most = fmaxf(most, fabsf((float)x[p]));
    }
    const float scale = most / 127.0f;
    for (int64_t p = 0; t->quantize_a && p < t->k; p++)
        x[p] = scale == 0 ? 0 : (double)scale * (double)rintf((float)x[p] / scale);
}

static double weight_at(const weights_trial *t, int64_t z, int64_t p, int64_t j) {
    const int64_t entry = t->shares_b ? 0 : z, count = groups_of(t);
    const int64_t g = t->group == 0 ? 0 : p / t->group;
    const int64_t code = entry * t->k * t->n + (t->transpose_b ? j * t->k + p : p * t->n + j);
    const int64_t at = entry * count * t->n + (t->transpose_b ? j * count + g : g * t->n + j);
    const double zero = t->zero_type ? test_array_get(&t->zero, at) : 0;
    return test_array_get(&t->scale, at) * (test_array_get(&t->codes, code) - zero);
}

static void check_row(const weights_trial *t, int64_t z, int64_t i, const double *x,
                      const double *b) {
    op_gemm_case item = {.m = t->m, .n = t->n, .k = t->k, .activation = activation_of(t)};
    item.dtype[OP_GEMM_D] = t->d_type;
    for (int64_t j = 0; j < t->n; j++) {
        const double bias = t->epilogue > 0 ? test_array_get(&t->bias, j) : 0;
        double sum = bias, size = fabs(bias);
        for (int64_t p = 0; p < t->k; p++) {
            sum += x[p] * b[j * t->k + p];
            size += fabs(x[p] * b[j * t->k + p]);
        }
        const double expected = op_gemm_activate(sum, item.activation);
        const double actual = test_array_fetched(&t->d, (z * t->m + i) * t->n + j);
        const double bound = t->data == WEIGHTS_EXACT ? 0 : op_gemm_bound(&item, expected, size);
        if (!(fabs(actual - expected) <= bound))
            test_case_fail("D[%lld, %lld, %lld] is %.9g, not %.9g +- %.3g", (long long)z,
                           (long long)i, (long long)j, actual, expected, bound);
    }
}

void weights_trial_check(const weights_trial *t) {
    double *const b = malloc((size_t)(t->k * t->n + t->k + 1) * sizeof *b);
    if (!b)
        test_case_fail("no host memory");
    double *const x = b + t->k * t->n;
    for (int64_t z = 0; z < entries_of(t, 0); z++) {
        for (int64_t i = 0; i < t->k * t->n; i++)
            b[i] = weight_at(t, z, i % t->k, i / t->k);
        for (int64_t i = 0; i < t->m; i++) {
            real_row(t, z, i, x);
            check_row(t, z, i, x, b);
        }
    }
    free(b);
}

bool weights_trial_run(weights_trial t) {
    char text[256];
    if (!test_case_begin_forced(t.device, t.variant, weights_trial_text(&t, text)))
        return false;
    weights_trial_create(&t);
    const bool taken = weights_trial_multiply(&t);
    if (taken) {
        weights_trial_check(&t);
        test_case_end();
    }
    weights_trial_destroy(&t);
    return taken;
}

void weights_trial_suit(weights_trial *t, const tdm_variant *row) {
    const int32_t a = row->parameters[TDM_GEMM_P_A_TYPE], b = row->parameters[TDM_GEMM_P_B_TYPE];
    if (a > 0)
        t->a_type = (tdm_dtype)a;
    if (b > 0)
        t->b_type = (tdm_dtype)b;
    t->quantize_a = a == TDM_GEMM_QUANTIZED_A;
}
