/*
 * Tests the effects of the compute capability: the variants that GEMMs get, the variants that are
 * refused, and the requests that the driver rejects. The simulator runs this test as 7.5, 8.0 and
 * 9.0. */
// ctest: device cuda timeout=60
#include <string.h>

#include "api/gemm/gemm_internal.h"
#include "backend_cuda/cuda_internal.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/drivers/backend_rig.h"
#include "tests/support/test_case.h"

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))
#define CLUSTERS_FROM 90

/* ---- rows ------------------------------------------------------------------------------------ */

/* This GEMM runs on devices that have `has` and lack `lacks`. B is N x K if it is transposed. */
typedef struct choice_row {
    uint32_t has, lacks;
    tdm_dtype a, b;
    int64_t m;
    int turned;
    const char *part; /* part of the name of the expected variant */
} choice_row;

static const choice_row choices[] = {
    {TDM_CAP_WGMMA, 0, TDM_F16, TDM_F16, 4096, 0, "gemm_f16_wgmma_"},
    {TDM_CAP_TENSOR_CORES, TDM_CAP_WGMMA, TDM_F16, TDM_F16, 4096, 0, "gemm_f16_mma_"},
    {TDM_CAP_WGMMA, 0, TDM_BF16, TDM_BF16, 4096, 0, "gemm_bf16_wgmma_"},
    {TDM_CAP_ASYNC_COPY, TDM_CAP_WGMMA, TDM_BF16, TDM_BF16, 4096, 0, "gemm_bf16_mma_"},
    {0, TDM_CAP_ASYNC_COPY, TDM_BF16, TDM_BF16, 4096, 0, "gemm_bf16_tiled_"},
    {TDM_CAP_ASYNC_COPY, 0, TDM_F32, TDM_F32, 4096, 0, "gemm_f32_simt_"},
    {0, TDM_CAP_ASYNC_COPY, TDM_F32, TDM_F32, 4096, 0, "gemm_f32_tiled_"},
    {TDM_CAP_WGMMA, 0, TDM_S8, TDM_S8, 4096, 1, "gemm_int_wgmma_"},
    {TDM_CAP_TENSOR_CORES, TDM_CAP_WGMMA, TDM_S8, TDM_S8, 4096, 1, "gemm_int_mma_"},
    {TDM_CAP_TENSOR_CORES, TDM_CAP_WGMMA, TDM_U8, TDM_S8, 4096, 0, "gemm_int_mma_"},
    {TDM_CAP_ASYNC_COPY, 0, TDM_F16, TDM_S8, 512, 1, "gemm_f16s8_mma_"},
    {TDM_CAP_ASYNC_COPY, 0, TDM_BF16, TDM_S4, 512, 1, "gemm_bf16s4_mma_"},
    {TDM_CAP_ASYNC_COPY, 0, TDM_BF16, TDM_S8, 4, 1, "gemm_bf16s8_decode_"},
    {TDM_CAP_ASYNC_COPY, 0, TDM_F16, TDM_S4, 4, 1, "gemm_f16s4_decode_"},
    {0, TDM_CAP_ASYNC_COPY, TDM_F16, TDM_S8, 4, 1, "s8_group_8"},
    {0, TDM_CAP_ASYNC_COPY, TDM_F16, TDM_S4, 4, 1, "s4_group_8"},
};

static tdm_status describe(const choice_row *c, tdm_gemm_desc *desc) {
    const int64_t side = 4096;
    const bool weights = c->a == TDM_F16 || c->a == TDM_BF16 ? c->b == TDM_S8 || c->b == TDM_S4 : 0;
    TDM_TRY(tdm_layout_contiguous(c->a, 2, (const int64_t[]){c->m, side}, &desc->a));
    TDM_TRY(tdm_layout_contiguous(c->b, 2, (const int64_t[]){side, side}, &desc->b));
    TDM_TRY(tdm_layout_contiguous(c->b == TDM_S8 && !weights ? TDM_S32 : TDM_F32, 2,
                                  (const int64_t[]){c->m, side}, &desc->d));
    desc->transpose_b = c->turned;
    if (!weights)
        return TDM_OK;
    desc->b_quant.block[0] = 1;
    desc->b_quant.block[1] = 32;
    return tdm_layout_contiguous(TDM_F16, 2, (const int64_t[]){side, side / 32},
                                 &desc->b_quant.scale);
}

static void check_choice(const test_device *device, const choice_row *c) {
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    tdm_gemm_plan *plan;
    if ((device->info.capabilities & c->has) != c->has || (device->info.capabilities & c->lacks))
        return;
    TEST_OK(describe(c, &desc));
    TEST_OK(tdm_gemm_plan_create(device->device, &desc, &plan));
    if (!strstr(tdm_gemm_plan_variant(plan), c->part))
        test_case_fail("%s by %s is given to %s, not to one of %s: %s", tdm_dtype_name(c->a),
                       tdm_dtype_name(c->b), tdm_gemm_plan_variant(plan), c->part,
                       tdm_gemm_plan_refusals(plan));
    tdm_gemm_plan_destroy(plan);
}

DEVICE_TEST(products_get_the_rows_of_their_device) {
    for (int i = 0; i < COUNT(choices); i++)
        check_choice(device, &choices[i]);
}

/* A variant that needs more than the device has is refused if it is requested by name. */
DEVICE_TEST(rows_of_later_devices_are_refused) {
    const choice_row products[] = {
        {0, 0, TDM_F16, TDM_F16, 4096, 0, "gemm_f16_"},
        {0, 0, TDM_BF16, TDM_BF16, 4096, 0, "gemm_bf16_"},
        {0, 0, TDM_F32, TDM_F32, 4096, 0, "gemm_f32_"},
        {0, 0, TDM_S8, TDM_S8, 4096, 1, "gemm_int_"},
        {0, 0, TDM_F16, TDM_S8, 4, 1, "gemm_f16s8_"},
        {0, 0, TDM_BF16, TDM_S4, 4, 1, "gemm_bf16s4_"},
    };
    for (int i = 0; i < tdm_variant_count; i++)
        for (int p = 0; p < COUNT(products); p++) {
            const tdm_variant *const row = &tdm_variants[i];
            tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
            tdm_gemm_plan *plan = NULL;
            if (!(row->requires & TDM_CAP_CUDA) || test_can_run(device, row) ||
                strncmp(row->name, products[p].part, strlen(products[p].part)) != 0)
                continue;
            TEST_OK(describe(&products[p], &desc));
            desc.variant = row->name;
            TEST_REFUSED(tdm_gemm_plan_create(device->device, &desc, &plan), TDM_UNSUPPORTED,
                         row->name);
            assert_null(plan);
        }
}

/* ---- the driver ------------------------------------------------------------------------------ */

DEVICE_TEST(capabilities_are_those_of_the_number) {
    const uint32_t number = device->info.architecture, has = device->info.capabilities;
    assert_true(has & TDM_CAP_TENSOR_CORES);
    assert_int_equal((has & TDM_CAP_ASYNC_COPY) != 0, number >= 80);
    if (number != 90)
        assert_false(has & TDM_CAP_WGMMA);
}

/* The driver refuses clusters on a device without them, and the stream continues. */
DEVICE_TEST(clusters_are_refused_before_they_are_there) {
    uint32_t clusters = 77;
    tdm_kernel *kernel;
    backend_rig r = rig_open(device);
    TEST_OK(tdm_device_kernel(device->device, tdm_variant_find("probe_launch_s32"), &kernel));
    const tdm_arg args[] = {rig_buffer_arg(r.memory, 0),
                            {.kind = TDM_ARG_S32, .value.s32 = 1},
                            {.kind = TDM_ARG_LOCAL, .bytes = 16}};
    tdm_launch launch = {.args = args,
                         .arg_count = 3,
                         .groups = {2, 1, 1},
                         .group = {1, 1, 1},
                         .cluster = {2, 1, 1}};
    const tdm_status status = r.api->launch(r.stream, "launch", kernel->native, &launch),
                     asked = r.api->kernel_clusters(kernel->native, 2, 32, 0, &clusters);
    if (device->info.architecture < CLUSTERS_FROM) {
        assert_int_not_equal(status, TDM_OK);
        assert_true(asked != TDM_OK || clusters == 0);
        memset(launch.cluster, 0, sizeof launch.cluster);
        TEST_OK(r.api->launch(r.stream, "launch", kernel->native, &launch));
    } else {
        assert_int_equal(status, TDM_OK);
        assert_int_equal(asked, TDM_OK);
        assert_true(clusters > 0);
    }
    TEST_OK(rig_wait(&r));
    rig_close(&r);
}

/* The driver also refuses a tensor map there. The detail contains the native name of the error. */
DEVICE_TEST(tensor_maps_are_refused_before_they_are_there) {
    backend_rig r = rig_open(device);
    CUtensorMap map;
    const tdm_bk_tensor_map tensor_map = {
        .dtype = TDM_F16, .box = {64, 16, 1}, .sizes = {64, 16, 1}, .strides = {128, 2048}};
    const CUdeviceptr address = r.memory->address;
    const tdm_status entered = tdm_cuda_enter(r.native, "map");
    assert_int_equal(entered, TDM_OK);
    const tdm_status status = tdm_cuda_tensor_map(r.native, "map", address, &tensor_map, &map);
    tdm_cuda_leave(r.native);
    if (device->info.architecture < CLUSTERS_FROM)
        TEST_REFUSED(status, TDM_UNSUPPORTED, "cuTensorMapEncodeTiled: CUDA_ERROR_NOT_SUPPORTED");
    else
        assert_int_equal(status, TDM_OK);
    rig_close(&r);
}

TEST_MAIN(test_devices_setup, test_devices_teardown)
