// Tests long sums and long rows. Some devices limit the loop iterations of a work-item. A call must
// then give the right result, or be refused with the reason.
// ctest: device rusticl_in_ci
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include <tandem/nn.h>

#include "api/gemm/gemm_internal.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/gemm/gemm_table.h"
#include "tests/support/test_case.h"

static float *host_values(int64_t count, float value) {
    float *const values = malloc((size_t)count * sizeof *values);
    assert_non_null(values);
    for (int64_t i = 0; i < count; i++)
        values[i] = value;
    return values;
}

static tdm_tensor *send(const test_device *device, int rank, const int64_t *shape,
                        const float *values) {
    tdm_tensor *tensor;
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, rank, shape, &tensor));
    TEST_OK(tdm_tensor_write(device->stream, values,
                             (size_t)tdm_tensor_elements(tensor) * sizeof *values, NULL, tensor));
    return tensor;
}

/*
 * Returns true if the call was refused. The test fails if a device with unlimited loops refuses it,
 * or if the count is within the limit of short loops.
 */
static bool refused(const test_device *device, int64_t count, tdm_status status) {
    if (status == TDM_OK)
        return false;
    if ((device->info.capabilities & TDM_CAP_UNLIMITED_LOOPS) || count <= TDM_SHORT_LOOP_ELEMENTS)
        test_case_fail("%lld elements: %s: %s", (long long)count, tdm_status_text(status),
                       tdm_last_detail());
    TEST_REFUSED(status, TDM_UNSUPPORTED, "65535 passes");
    return true;
}

static void check_argmax(const test_device *device, int64_t count, const float *values) {
    tdm_tensor *const x = send(device, 1, &count, values), *y;
    int32_t index = -1;
    TEST_OK(tdm_tensor_create(device->device, TDM_S32, 0, NULL, &y));
    if (!refused(device, count, tdm_reduce(device->stream, TDM_REDUCE_ARGMAX, x, NULL, 0, y))) {
        TEST_OK(tdm_tensor_read(device->stream, y, &index, sizeof index, NULL));
        if (index != count - 1)
            test_case_fail("argmax of %lld is %d", (long long)count, index);
    }
    tdm_tensor_destroy(x);
    tdm_tensor_destroy(y);
}

static void check_sum(const test_device *device, int64_t count, const float *values) {
    tdm_tensor *const x = send(device, 1, &count, values), *y;
    float sum = NAN;
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 0, NULL, &y));
    if (!refused(device, count, tdm_reduce(device->stream, TDM_REDUCE_SUM, x, NULL, 0, y))) {
        TEST_OK(tdm_tensor_read(device->stream, y, &sum, sizeof sum, NULL));
        if (sum != (float)count + 1)
            test_case_fail("the sum of %lld is %g", (long long)count, (double)sum);
    }
    tdm_tensor_destroy(x);
    tdm_tensor_destroy(y);
}

/*
 * All values are 1 except the last, which is 2. Their softmax is therefore 1/(count - 1 + e), and e
 * times that for the last.
 */
static void check_softmax(const test_device *device, int64_t count, float *values) {
    tdm_tensor *const x = send(device, 1, &count, values);
    const double unit = 1.0 / ((double)count - 1 + exp(1.0));
    if (!refused(device, count, tdm_softmax(device->stream, x, 0, x))) {
        float *const seen = host_values(count, NAN);
        TEST_OK(tdm_tensor_read(device->stream, x, seen, (size_t)count * sizeof *seen, NULL));
        for (int64_t i = 0; i < count; i++) {
            const double expected = i == count - 1 ? unit * exp(1.0) : unit;
            if (!(fabs(seen[i] - expected) <= 1e-5 * expected))
                test_case_fail("softmax of %lld at %lld is %g, should be %g", (long long)count,
                               (long long)i, (double)seen[i], expected);
        }
        free(seen);
    }
    tdm_tensor_destroy(x);
}

/* The values are those of check_softmax. Their mean square is (count + 3) / count. */
static void check_norm(const test_device *device, int64_t count, const float *values) {
    tdm_tensor *const x = send(device, 1, &count, values);
    const double root = sqrt(((double)count + 3) / (double)count);
    if (!refused(device, count, tdm_norm(device->stream, TDM_NORM_RMS, x, 0, NULL, x))) {
        float *const seen = host_values(count, NAN);
        TEST_OK(tdm_tensor_read(device->stream, x, seen, (size_t)count * sizeof *seen, NULL));
        for (int64_t i = 0; i < count; i++) {
            const double expected = (double)values[i] / root;
            if (!(fabs(seen[i] - expected) <= 1e-5 * expected))
                test_case_fail("norm of %lld at %lld is %g, should be %g", (long long)count,
                               (long long)i, (double)seen[i], expected);
        }
        free(seen);
    }
    tdm_tensor_destroy(x);
}

static void check_gemm(const test_device *device, int64_t count, const float *values) {
    const int64_t row[] = {1, count}, column[] = {count, 1}, one[] = {1, 1};
    tdm_tensor *const a = send(device, 2, row, values), *const b = send(device, 2, column, values),
                      *d;
    float dot = NAN;
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 2, one, &d));
    // The call must succeed, because K is split on devices with limited loops.
    TEST_OK(tdm_gemm(device->stream, 1, a, b, 0, NULL, d, NULL));
    TEST_OK(tdm_tensor_read(device->stream, d, &dot, sizeof dot, NULL));
    if (dot != (float)count + 3)
        test_case_fail("the dot product of %lld is %g", (long long)count, (double)dot);
    tdm_tensor_destroy(a);
    tdm_tensor_destroy(b);
    tdm_tensor_destroy(d);
}

DEVICE_TEST(long_rows_are_right_or_refused) {
    // The counts are the limit of a work-item, one more, the limit of a softmax work-group, and a
    // far larger number. Sums of small integers are exact.
    const int64_t counts[] = {TDM_SHORT_LOOP_ELEMENTS, TDM_SHORT_LOOP_ELEMENTS + 1,
                              4 * TDM_SHORT_LOOP_ELEMENTS, 2000003};
    const int tried = test_is_small() ? 1 : 4;
    for (int i = 0; i < tried; i++) {
        const int64_t count = test_is_small() ? 5003 : counts[i];
        float *const values = host_values(count, 1);
        values[count - 1] = 2;
        check_argmax(device, count, values);
        check_sum(device, count, values);
        check_softmax(device, count, values);
        check_norm(device, count, values);
        check_gemm(device, count, values);
        free(values);
    }
}

static void run_forced(const test_device *device, const tdm_variant *row, const tdm_tensor *a,
                       const tdm_tensor *b, tdm_tensor *d) {
    char variant[TDM_CHOICE_TEXT];
    snprintf(variant, sizeof variant, "%s:split_k=1", row->name);
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    tdm_gemm_args args = TDM_GEMM_ARGS_INIT;
    tdm_gemm_plan *plan;
    desc.a = a->layout;
    desc.b = b->layout;
    desc.d = d->layout;
    desc.variant = variant;
    args.a = a;
    args.b = b;
    args.d = d;
    TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
    TEST_OK(tdm_gemm_plan_run(plan, device->stream, &args));
    tdm_gemm_plan_destroy(plan);
}

/* Checks a variant with a D of 1×3, a corner of one tile. One work-item sums over all of K. */
static void check_tiled(const test_device *device, const tdm_variant *row, int64_t k) {
    const int64_t a_shape[] = {1, k}, b_shape[] = {k, 3}, d_shape[] = {1, 3};
    float *const values = host_values(3 * k, 1), dots[3] = {NAN, NAN, NAN};
    values[k - 1] = 2;
    tdm_tensor *const a = send(device, 2, a_shape, values),
                      *const b = send(device, 2, b_shape, values), *d;
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 2, d_shape, &d));
    run_forced(device, row, a, b, d);
    TEST_OK(tdm_tensor_read(device->stream, d, dots, sizeof dots, NULL));
    for (int j = 0; j < 3; j++) {
        const float expected = (float)(k + 1 + ((k - 1) % 3 == j));
        if (dots[j] != expected)
            test_case_fail("%s: column %d of K %lld is %g, should be %g", row->name, j,
                           (long long)k, (double)dots[j], (double)expected);
    }
    tdm_tensor_destroy(a);
    tdm_tensor_destroy(b);
    tdm_tensor_destroy(d);
    free(values);
}

DEVICE_TEST(every_tiled_row_sums_as_long_as_loops_may_be) {
    const bool bounded = !(device->info.capabilities & TDM_CAP_UNLIMITED_LOOPS);
    for (int i = 0; i < tdm_variant_count; i++) {
        const tdm_variant *const row = &tdm_variants[i];
        if (row->op == TDM_OP_GEMM && test_can_run(device, row) &&
            row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_TILED &&
            row->parameters[TDM_GEMM_P_A_TYPE] == TDM_F32 &&
            row->parameters[TDM_GEMM_P_B_TYPE] == TDM_F32)
            check_tiled(device, row, bounded ? TDM_SHORT_LOOP_ELEMENTS : 67);
    }
}

static void run_weights(const test_device *device, const tdm_gemm_desc *desc, const tdm_tensor *a,
                        const tdm_tensor *b, tdm_tensor *d, float *sums) {
    tdm_gemm_args args = TDM_GEMM_ARGS_INIT;
    tdm_gemm_plan *plan;
    TEST_OK(tdm_gemm_plan_create(device->device, desc, &plan));
    tdm_buffer *const workspace = gemm_workspace(device, plan);
    args.a = a;
    args.b = b;
    args.d = d;
    args.workspace = workspace;
    TEST_OK(tdm_gemm_plan_run(plan, device->stream, &args));
    TEST_OK(tdm_tensor_read(device->stream, d, sums, (size_t)tdm_tensor_elements(d) * sizeof *sums,
                            NULL));
    tdm_buffer_destroy(workspace);
    tdm_gemm_plan_destroy(plan);
}

/*
 * Checks a GEMM with quantized weights. A forced tiled variant accepts K up to the loop limit. If
 * the library chooses the variant (row is NULL), K may have any length.
 */
static void check_weights(const test_device *device, const tdm_variant *row, int64_t m, int64_t k) {
    const int64_t a_shape[] = {m, k}, b_shape[] = {k, 3}, d_shape[] = {m, 3}, one[] = {1, 1};
    float *const values = host_values(m * k, 1), *const sums = host_values(m * 3, NAN);
    const float unit = 1;
    tdm_quantization q = TDM_QUANTIZATION_INIT;
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    tdm_gemm_plan *plan;
    values[m * k - 1] = 2;
    tdm_tensor *const a = send(device, 2, a_shape, values),
                      *const scale = send(device, 2, one, &unit), *codes, *b, *d;
    TEST_OK(tdm_tensor_create(device->device, TDM_F32, 2, d_shape, &d));
    TEST_OK(tdm_tensor_create(device->device, TDM_S8, 2, b_shape, &codes));
    TEST_OK(tdm_tensor_fill(device->stream, 1, codes));
    q.scale = scale;
    TEST_OK(tdm_tensor_quantized(codes, &q, &b));
    desc.a = a->layout;
    desc.d = d->layout;
    TEST_OK(tdm_tensor_layout(b, &desc.b));
    TEST_OK(tdm_tensor_quant_layout(b, &desc.b_quant));
    desc.variant = row ? row->name : NULL;
    const bool too_long = row && !(device->info.capabilities & TDM_CAP_UNLIMITED_LOOPS) &&
                          k > TDM_SHORT_LOOP_ELEMENTS;
    if (too_long) {
        TEST_REFUSED(tdm_gemm_plan_create(device->device, &desc, &plan), TDM_UNSUPPORTED,
                     "65535 passes");
    } else {
        run_weights(device, &desc, a, b, d, sums);
        for (int64_t i = 0; i < m * 3; i++)
            if (sums[i] != (float)(k + (i / 3 == m - 1)))
                test_case_fail("%s: sum %lld of K %lld is %g", row ? row->name : "chosen",
                               (long long)i, (long long)k, (double)sums[i]);
    }
    tdm_tensor_destroy(a);
    tdm_tensor_destroy(b);
    tdm_tensor_destroy(codes);
    tdm_tensor_destroy(scale);
    tdm_tensor_destroy(d);
    free(sums);
    free(values);
}

DEVICE_TEST(weights_are_summed_over_any_k) {
    const bool bounded = !(device->info.capabilities & TDM_CAP_UNLIMITED_LOOPS);
    for (int i = 0; i < tdm_variant_count; i++) {
        const tdm_variant *const row = &tdm_variants[i];
        if (row->op == TDM_OP_GEMM_WEIGHTS && test_can_run(device, row) &&
            row->parameters[TDM_GEMM_P_FAMILY] == TDM_GEMM_TILED &&
            row->parameters[TDM_GEMM_P_A_TYPE] == TDM_F32 &&
            row->parameters[TDM_GEMM_P_B_TYPE] == TDM_S8)
            for (int64_t more = 0; more < 2; more++)
                check_weights(device, row, 2, (bounded ? TDM_SHORT_LOOP_ELEMENTS : 67) + more);
    }
    check_weights(device, NULL, 17, bounded ? 600000 : 677);
}

/* Checks a GEMM before which one work-item quantizes each row of A. */
static void check_quantized_rows(const test_device *device, int64_t k, float value) {
    const int64_t row[] = {1, k}, column[] = {k, 1}, one[] = {1, 1};
    tdm_quantization q = TDM_QUANTIZATION_INIT;
    const tdm_gemm_epilogue epilogue = {.struct_size = sizeof epilogue, .quantize_a = 1};
    float *const values = host_values(k, value), dot = NAN;
    const float unit = 1;
    tdm_tensor *const a = send(device, 2, row, values), *const scale = send(device, 2, one, &unit),
                      *const d = send(device, 2, one, &unit), *codes, *b;
    TEST_OK(tdm_tensor_create(device->device, TDM_S8, 2, column, &codes));
    TEST_OK(tdm_tensor_fill(device->stream, 1, codes));
    q.scale = scale;
    TEST_OK(tdm_tensor_quantized(codes, &q, &b));
    const tdm_status status = tdm_gemm(device->stream, 1, a, b, 0, NULL, d, &epilogue);
    if (status != TDM_OK && !(device->info.capabilities & TDM_CAP_UNLIMITED_LOOPS) && k > 1 << 15) {
        TEST_REFUSED(status, TDM_UNSUPPORTED, "65535 passes");
    } else {
        TEST_OK(status);
        TEST_OK(tdm_tensor_read(device->stream, d, &dot, sizeof dot, NULL));
        const double expected = (double)value * (double)k;
        if (!(fabs((double)dot - expected) <= 1e-3 * expected))
            test_case_fail("the sum of %lld quantized elements is %g, should be %g", (long long)k,
                           (double)dot, expected);
    }
    tdm_tensor_destroy(a);
    tdm_tensor_destroy(b);
    tdm_tensor_destroy(codes);
    tdm_tensor_destroy(scale);
    tdm_tensor_destroy(d);
    free(values);
}

/*
 * Each call uses a different value. Elements that a call leaves unwritten then do not match the
 * results of the previous call.
 */
DEVICE_TEST(quantized_rows_are_right_or_refused) {
    static const int64_t counts[] = {1 << 15, 43691, 49152, 65535};
    for (int i = 0; i < 4; i++)
        check_quantized_rows(device, counts[i], (float)(1 << 2 * i));
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
