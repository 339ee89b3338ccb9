#include "tests/support/gemm/gemm_table.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "api/gemm/gemm_internal.h"

tdm_gemm_desc gemm_dense_desc(tdm_dtype a, tdm_dtype b, tdm_dtype d, int64_t m, int64_t n,
                              int64_t k) {
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    TEST_OK(tdm_layout_contiguous(a, 2, (const int64_t[]){m, k}, &desc.a));
    TEST_OK(tdm_layout_contiguous(b, 2, (const int64_t[]){k, n}, &desc.b));
    TEST_OK(tdm_layout_contiguous(d, 2, (const int64_t[]){m, n}, &desc.d));
    return desc;
}

tdm_gemm_desc gemm_small_desc(void) {
    return gemm_dense_desc(TDM_F32, TDM_F32, TDM_F32, 4, 5, 6);
}

/* Creates a plan and returns its workspace. */
static tdm_buffer *make_plan(const test_device *device, const tdm_gemm_desc *desc,
                             tdm_gemm_plan **plan) {
    size_t bytes;
    tdm_buffer *workspace;
    TEST_OK(tdm_gemm_plan_create(device->device, desc, plan));
    TEST_OK(tdm_gemm_plan_workspace_size(*plan, &bytes));
    TEST_OK(tdm_buffer_create(device->device, bytes + 1, &workspace));
    return workspace;
}

void gemm_table_lay(gemm_table *t, const test_device *device, const tdm_gemm_desc *desc) {
    *t = (gemm_table){.args = TDM_GEMM_ARGS_INIT};
    test_array_create_layout(&t->a, device, &desc->a, 0);
    test_array_create_layout(&t->b, device, &desc->b, 0);
    test_array_create_layout(&t->d, device, &desc->d, 0);
    test_array_fill(&t->a, TEST_DATA_SMALL_INTEGER, 1);
    test_array_fill(&t->b, TEST_DATA_SMALL_INTEGER, 2);
    test_array_send(&t->d);
    t->workspace = t->args.workspace = make_plan(device, desc, &t->plan);
    t->args.a = t->a.tensor;
    t->args.b = t->b.tensor;
    t->args.d = t->d.tensor;
}

void gemm_table_clear(gemm_table *t) {
    test_array_destroy(&t->a);
    test_array_destroy(&t->b);
    test_array_destroy(&t->d);
    tdm_gemm_plan_destroy(t->plan);
    tdm_buffer_destroy(t->workspace);
}

void gemm_table_expect_product(gemm_table *t) {
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

void gemm_poison(const test_device *device, tdm_buffer *buffer, size_t bytes) {
    unsigned char *const poison = malloc(bytes);
    assert_non_null(poison);
    memset(poison, 0xff, bytes);
    TEST_OK(tdm_buffer_write(device->stream, buffer, 0, poison, bytes));
    TEST_OK(tdm_stream_synchronize(device->stream));
    free(poison);
}

tdm_buffer *gemm_workspace(const test_device *device, const tdm_gemm_plan *plan) {
    size_t bytes;
    tdm_buffer *workspace;
    TEST_OK(tdm_gemm_plan_workspace_size(plan, &bytes));
    if (bytes == 0)
        return NULL;
    TEST_OK(tdm_buffer_create(device->device, bytes, &workspace));
    gemm_poison(device, workspace, bytes);
    return workspace;
}

/* ---- integers, with their quantization parameters ---- */

tdm_gemm_desc gemm_int_desc(tdm_dtype a, tdm_dtype d, int64_t m, int64_t n, int64_t k) {
    return gemm_dense_desc(a, TDM_S8, d, m, n, k);
}

void gemm_int_suit(const tdm_variant *row, tdm_gemm_desc *desc) {
    if (row->parameters[TDM_GEMM_P_FAMILY] != TDM_GEMM_WGMMA)
        return;
    const int64_t unit = 16, pitch = (desc->a.shape[1] + unit - 1) / unit * unit;
    desc->a.strides[0] = desc->b.strides[1] = pitch;
    desc->a.strides[1] = desc->b.strides[0] = 1;
}

void gemm_int_arrange(tdm_quant_layout *quant, const tdm_layout *matrix, int64_t row_block,
                      int64_t column_block, tdm_dtype zero) {
    const int64_t block[2] = {row_block, column_block};
    int64_t shape[2];
    *quant = (tdm_quant_layout){.block = {row_block, column_block}};
    for (int i = 0; i < 2; i++)
        shape[i] = block[i] == 0 ? 1 : (matrix->shape[i] + block[i] - 1) / block[i];
    TEST_OK(tdm_layout_contiguous(TDM_F32, 2, shape, &quant->scale));
    if (zero != TDM_DTYPE_NONE)
        TEST_OK(tdm_layout_contiguous(zero, 2, shape, &quant->zero_point));
}

void gemm_int_put(test_array *array, const double *values, int count) {
    for (int64_t i = 0; i < test_array_count(array); i++)
        test_array_put(array, i, values[i % count]);
    test_array_send(array);
}

static tdm_tensor *create_parameter(test_array *array, const test_device *device,
                                    const tdm_layout *layout, double value) {
    if (layout->dtype == TDM_DTYPE_NONE)
        return NULL;
    test_array_create_layout(array, device, layout, 0);
    gemm_int_put(array, &value, 1);
    return array->tensor;
}

void gemm_int_operand_create(gemm_int_operand *o, const test_device *device,
                             const tdm_layout *layout, const tdm_quant_layout *quant) {
    tdm_quantization q = TDM_QUANTIZATION_INIT;
    *o = (gemm_int_operand){0};
    test_array_create_layout(&o->data, device, layout, 0);
    test_array_send(&o->data);
    for (int i = 0; i < TDM_MAX_RANK; i++)
        q.block[i] = quant->block[i];
    q.scale = create_parameter(&o->scale, device, &quant->scale, 1);
    q.zero_point = create_parameter(&o->zero, device, &quant->zero_point, 0);
    if (q.scale)
        TEST_OK(tdm_tensor_quantized(o->data.tensor, &q, &o->tensor));
    else
        TEST_OK(tdm_tensor_on_buffer(o->data.buffer, o->data.offset, layout, &o->tensor));
}

void gemm_int_operand_destroy(gemm_int_operand *o) {
    tdm_tensor_destroy(o->tensor);
    test_array_destroy(&o->data);
    test_array_destroy(&o->scale);
    test_array_destroy(&o->zero);
}

void gemm_int_table_lay(gemm_int_table *t, const test_device *device, const tdm_gemm_desc *desc) {
    *t = (gemm_int_table){.device = device, .args = TDM_GEMM_ARGS_INIT};
    gemm_int_operand_create(&t->a, device, &desc->a, &desc->a_quant);
    gemm_int_operand_create(&t->b, device, &desc->b, &desc->b_quant);
    gemm_int_operand_create(&t->d, device, &desc->d, &desc->d_quant);
    gemm_int_put(&t->a.data, &(double){1}, 1);
    gemm_int_put(&t->b.data, &(double){1}, 1);
    t->args.bias = create_parameter(&t->bias, device, &desc->bias, 0);
    t->workspace = t->args.workspace = make_plan(device, desc, &t->plan);
    t->args.a = t->a.tensor;
    t->args.b = desc->packed_b ? NULL : t->b.tensor;
    t->args.d = t->d.tensor;
}

void gemm_int_table_clear(gemm_int_table *t) {
    gemm_int_operand_destroy(&t->a);
    gemm_int_operand_destroy(&t->b);
    gemm_int_operand_destroy(&t->d);
    test_array_destroy(&t->bias);
    tdm_packed_destroy(t->packed);
    tdm_gemm_plan_destroy(t->plan);
    tdm_buffer_destroy(t->workspace);
}

void gemm_int_table_run(gemm_int_table *t) {
    if (!t->args.b && !t->args.packed_b) {
        TEST_OK(tdm_gemm_pack_b(t->plan, t->device->stream, t->b.tensor, &t->packed));
        t->args.packed_b = t->packed;
    }
    test_array_send(&t->d.data);
    TEST_OK(tdm_gemm_plan_run(t->plan, t->device->stream, &t->args));
    test_array_fetch(&t->d.data);
}

void gemm_int_table_expect(const gemm_int_table *t, const double *expected) {
    const int64_t n = t->d.data.layout.shape[1];
    for (int64_t i = 0; i < test_array_count(&t->d.data); i++) {
        const double got = test_array_fetched(&t->d.data, i);
        if (got != expected[i] && !(isnan(got) && isnan(expected[i])))
            test_case_fail("D[%lld][%lld] is %.9g, must be %.9g", (long long)(i / n),
                           (long long)(i % n), got, expected[i]);
    }
}
