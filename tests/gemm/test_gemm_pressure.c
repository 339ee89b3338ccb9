// The budget leaves no room for the workspace of tdm_gemm. The call then computes the same bits in
// tiles, or fails and changes nothing.
// ctest: device timeout=300
#include <stdlib.h>
#include <string.h>

#include "api/device/core.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/gemm/gemm_table.h"
#include "tests/support/test_case.h"
#include "tests/support/test_data.h"

/* The pool rounds block sizes up to a multiple of at most this. */
#define ROUNDING ((size_t)4096)
/* No device's local memory holds this many rows. */
#define MAX_ROWS 6000

typedef struct operands {
    const test_device *device;
    int64_t batch, m, n, k;
    tdm_tensor *a, *b, *c, *d;
    size_t d_bytes;
    unsigned char *before, *expected, *got;
} operands;

static tdm_tensor *filled(const test_device *device, tdm_dtype dtype, int64_t batch, int64_t rows,
                          int64_t columns, uint64_t seed) {
    const int64_t shape[3] = {batch, rows, columns};
    const size_t count = (size_t)(batch * rows * columns);
    tdm_tensor *tensor = NULL;
    void *const values = malloc(count * 4);
    test_data_fill(dtype, values, count, TEST_DATA_UNIT, seed);
    TEST_OK(tdm_tensor_create(device->device, dtype, 3, shape, &tensor));
    TEST_OK(tdm_tensor_write(device->stream, values, count * 4, NULL, tensor));
    free(values);
    return tensor;
}

/* B is stored as N×K and viewed as K×N; a B of s8 has a scale for each column. */
static tdm_tensor *turned(operands *o, tdm_dtype dtype) {
    static const int order[] = {0, 2, 1};
    tdm_tensor *const stored = filled(o->device, dtype, o->batch, o->n, o->k, 2);
    tdm_tensor *view = NULL, *carrying = NULL;
    TEST_OK(tdm_tensor_transpose(stored, order, &view));
    tdm_tensor_destroy(stored);
    if (dtype != TDM_S8)
        return view;
    tdm_quantization quantization = TDM_QUANTIZATION_INIT;
    tdm_tensor *const scale = filled(o->device, TDM_F32, 1, 1, o->n, 9);
    quantization.block[2] = 1;
    quantization.scale = scale;
    TEST_OK(tdm_tensor_quantized(view, &quantization, &carrying));
    tdm_tensor_destroy(scale);
    tdm_tensor_destroy(view);
    return carrying;
}

/* Returns an M×N tensor whose columns are contiguous. */
static tdm_tensor *column_major(const test_device *device, const operands *o, uint64_t seed) {
    static const int order[] = {0, 2, 1};
    tdm_tensor *const stored = filled(device, TDM_F32, o->batch, o->n, o->m, seed);
    tdm_tensor *view = NULL;
    TEST_OK(tdm_tensor_transpose(stored, order, &view));
    tdm_tensor_destroy(stored);
    return view;
}

static operands open_operands(const test_device *device, tdm_dtype b, const int64_t sizes[4],
                              bool across) {
    operands o = {.device = device, .batch = sizes[0], .m = sizes[1], .n = sizes[2], .k = sizes[3]};
    o.d_bytes = (size_t)(o.batch * o.m * o.n) * sizeof(float);
    o.a = filled(device, TDM_F32, o.batch, o.m, o.k, 1);
    o.b = turned(&o, b);
    o.c = across ? column_major(device, &o, 3) : filled(device, TDM_F32, o.batch, o.m, o.n, 3);
    o.d = across ? column_major(device, &o, 4) : filled(device, TDM_F32, o.batch, o.m, o.n, 4);
    o.before = malloc(o.d_bytes);
    o.expected = malloc(o.d_bytes);
    o.got = malloc(o.d_bytes);
    return o;
}

static void close_operands(operands *o) {
    tdm_tensor_destroy(o->a);
    tdm_tensor_destroy(o->b);
    tdm_tensor_destroy(o->c);
    tdm_tensor_destroy(o->d);
    free(o->before);
    free(o->expected);
    free(o->got);
}

static tdm_status multiply(const operands *o, tdm_tensor *d) {
    return tdm_gemm(o->device->stream, 1.5f, o->a, o->b, -0.5f, o->c, d, NULL);
}

static void read_d(const operands *o, unsigned char *bytes) {
    TEST_OK(tdm_tensor_read(o->device->stream, o->d, bytes, o->d_bytes, NULL));
}

/* Returns the bytes of workspace that the call uses if the budget allows it. */
static size_t workspace_of(const operands *o) {
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    tdm_gemm_plan *plan = NULL;
    size_t bytes = 0;
    TEST_OK(tdm_tensor_layout(o->a, &desc.a));
    TEST_OK(tdm_tensor_layout(o->b, &desc.b));
    TEST_OK(tdm_tensor_quant_layout(o->b, &desc.b_quant));
    TEST_OK(tdm_tensor_layout(o->c, &desc.c));
    TEST_OK(tdm_tensor_layout(o->d, &desc.d));
    desc.alpha = 1.5f;
    desc.beta = -0.5f;
    TEST_OK(tdm_gemm_plan_create(o->device->device, &desc, &plan));
    TEST_OK(tdm_gemm_plan_workspace_size(plan, &bytes));
    tdm_gemm_plan_destroy(plan);
    return bytes;
}

static uint64_t reserved_now(const test_device *device) {
    tdm_memory_stats stats = {.struct_size = sizeof stats};
    TEST_OK(tdm_stream_synchronize(device->stream));
    TEST_OK(tdm_device_trim(device->device));
    TEST_OK(tdm_device_memory_stats(device->device, &stats));
    return stats.reserved;
}

/*
 * The budget leaves room for only a part of the workspace. The bits must be the same; very small
 * parts may be refused.
 */
static void in_a_part(operands *o, size_t workspace, int part) {
    const test_device *const device = o->device;
    const size_t share = (workspace / (size_t)part + ROUNDING - 1) / ROUNDING * ROUNDING;
    const uint64_t budget = reserved_now(device) + share;
    tdm_memory_stats stats = {.struct_size = sizeof stats};
    TEST_OK(tdm_tensor_write(device->stream, o->before, o->d_bytes, NULL, o->d));
    TEST_OK(tdm_device_trim(device->device));
    TEST_OK(tdm_device_set_memory_budget(device->device, budget));
    const tdm_status status = multiply(o, o->d);
    TEST_OK(tdm_device_memory_stats(device->device, &stats));
    TEST_OK(tdm_device_set_memory_budget(device->device, 0));
    if (stats.reserved > budget)
        test_case_fail("%llu bytes are reserved, the budget is %llu",
                       (unsigned long long)stats.reserved, (unsigned long long)budget);
    read_d(o, o->got);
    if (status == TDM_OK)
        assert_memory_equal(o->got, o->expected, o->d_bytes);
    else if (status == TDM_OVER_BUDGET && part > 8)
        assert_memory_equal(o->got, o->before, o->d_bytes);
    else
        test_case_fail("a part of 1/%d: %s", part, tdm_last_detail());
}

/*
 * If `across`, C and D are column-major. Returns false if the call has no workspace; nothing is
 * tested then.
 */
static bool under_pressure(const test_device *device, tdm_dtype b, const int64_t sizes[4],
                           bool across) {
    operands o = open_operands(device, b, sizes, across);
    const size_t workspace = workspace_of(&o);
    if (workspace > 0) {
        read_d(&o, o.before);
        TEST_OK(multiply(&o, o.d));
        read_d(&o, o.expected);
        for (int part = 1; part <= 1024; part *= 2)
            in_a_part(&o, workspace, part);
        TEST_OK(tdm_tensor_write(device->stream, o.before, o.d_bytes, NULL, o.d));
        TEST_OK(multiply(&o, o.d)); // the budget is restored
        read_d(&o, o.got);
        assert_memory_equal(o.got, o.expected, o.d_bytes);
    }
    close_operands(&o);
    return workspace > 0;
}

static int takes_small(const test_device *device) {
    return test_is_small() || !(device->info.capabilities & TDM_CAP_CPU_CORES);
}

/*
 * CPU cores pack B into a workspace if the rows of A do not fit one work-item's local memory. The
 * rows are doubled until that happens. Other devices use small sizes, which may need no workspace.
 */
static void floats_under_pressure(const test_device *device, const int64_t small[4],
                                  const int64_t large[4], bool across) {
    int64_t sizes[4];
    memcpy(sizes, takes_small(device) ? small : large, sizeof sizes);
    int64_t *const rows = &sizes[across ? 2 : 1];
    while (!under_pressure(device, TDM_F32, sizes, across) && !takes_small(device)) {
        if (*rows > MAX_ROWS)
            test_case_fail("%lld by %lld by %lld have no workspace", (long long)sizes[1],
                           (long long)sizes[2], (long long)sizes[3]);
        *rows *= 2;
    }
}

DEVICE_TEST(packed_floats) {
    floats_under_pressure(device, (const int64_t[]){1, 20, 30, 40},
                          (const int64_t[]){1, 600, 700, 600}, false);
}

DEVICE_TEST(batches) {
    floats_under_pressure(device, (const int64_t[]){2, 20, 30, 40},
                          (const int64_t[]){3, 600, 700, 600}, false);
}

/* The library computes the transposed product here, in tiles too. */
DEVICE_TEST(column_major_results) {
    floats_under_pressure(device, (const int64_t[]){2, 40, 50, 40},
                          (const int64_t[]){2, 600, 700, 600}, true);
}

/*
 * The plan is forced to a float variant. On any device it reads weights that were dequantized into
 * the workspace.
 */
DEVICE_TEST(quantized_weights) {
    const tdm_gemm_desc floats = gemm_dense_desc(TDM_F32, TDM_F32, TDM_F32, 64, 64, 64);
    tdm_gemm_plan *plan;
    TEST_OK(tdm_gemm_plan_create(device->device, &floats, &plan));
    tdm_force_variant(tdm_gemm_plan_variant(plan));
    if (!under_pressure(device, TDM_S8,
                        takes_small(device) ? (const int64_t[]){1, 20, 520, 40}
                                            : (const int64_t[]){1, 300, 400, 500},
                        false))
        test_case_fail("unpacked weights have no workspace");
    tdm_force_variant(NULL);
    tdm_gemm_plan_destroy(plan);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
