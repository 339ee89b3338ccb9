#include "tests/support/gemm/gemm_table.h"

#include <stdlib.h>
#include <string.h>

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

void gemm_table_lay(gemm_table *t, const test_device *device, const tdm_gemm_desc *desc) {
    size_t bytes;
    *t = (gemm_table){.args = TDM_GEMM_ARGS_INIT};
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
