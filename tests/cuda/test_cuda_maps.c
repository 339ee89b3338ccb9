/*
 * The tensor maps that a CUDA device keeps: what is asked for again is not encoded again, however much is asked for they take no
 * more memory, which one gives way, and no map is given for another tensor. Then products at more places than there are maps.
 */
// ctest: device cuda timeout=120
#include <string.h>

#include "api/gemm/gemm_internal.h"
#include "backend_cuda/cuda_internal.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/own_device.h"
#include "tests/support/drivers/backend_rig.h"
#include "tests/support/drivers/counted_host.h"

/* More than the 256 that are kept. */
#define MANY 700
/* Maps of a set, which all that differ by strides alone share. */
#define WAYS 4

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

static bool has_maps(const test_device *device) {
    return (device->info.capabilities & TDM_CAP_WGMMA) != 0;
}

static const tdm_bk_box usual = {
    .dtype = TDM_F16, .box = {64, 128, 1}, .sizes = {256, 256, 4}, .strides = {512, 131072}};

/* What the driver makes of it. */
static void encode(const backend_rig *r, CUdeviceptr address, const tdm_bk_box *box,
                   CUtensorMap *map) {
    _Alignas(64) CUtensorMap made;
    static const uint32_t steps[3] = {1, 1, 1};
    const CUtensorMapDataType type = box->dtype == TDM_F16    ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                     : box->dtype == TDM_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                                              : CU_TENSOR_MAP_DATA_TYPE_UINT8;
    assert_int_equal(r->native->api->cuTensorMapEncodeTiled(
                         &made, type, 3, (void *)(uintptr_t)address, box->sizes, box->strides,
                         box->box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                         CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
                     CUDA_SUCCESS);
    *map = made;
}

/* Ask for a map, which must be the tensor's own; how many were encoded. */
static long ask(const backend_rig *r, CUdeviceptr address, const tdm_bk_box *box) {
    CUtensorMap expected, map;
    encode(r, address, box, &expected);
    memset(&map, 0xa5, sizeof map);
    tdm_fault_plant("cuTensorMapEncodeTiled", 1000000, 1, false);
    const tdm_status status = tdm_cuda_tensor_map(r->native, "test", address, box, &map);
    const long encoded = tdm_fault_clear();
    TEST_OK(status);
    assert_memory_equal(&map, &expected, sizeof map);
    return encoded;
}

static void with_rig(const test_device *device, const char *name, void (*body)(backend_rig *r)) {
    if (!has_maps(device) || !test_case_begin(device, NULL, "%s", name))
        return;
    own_device own = own_device_open(device, 0);
    test_device fresh = *device;
    fresh.device = own.device;
    fresh.stream = own.stream;
    backend_rig r = rig_open(&fresh);
    TEST_OK(tdm_cuda_enter(r.native, "test"));
    body(&r);
    tdm_cuda_leave(r.native);
    rig_close(&r);
    own_device_close(&own);
    test_case_end();
}

static void on_each(const char *name, void (*body)(backend_rig *r)) {
    for (int d = 0; d < test_device_count(); d++)
        with_rig(test_device_at(d), name, body);
}

/* Addresses are not looked at before a kernel reads. */
static CUdeviceptr place(int i) {
    return 0x7f0000000000u + (CUdeviceptr)i * 16;
}

/* One after the other, twice: each its own, and all that is kept was taken for the first. */
static void ask_for_many(backend_rig *r) {
    assert_int_equal(ask(r, place(0), &usual), 1);
    const long live = counted_host_live(), calls = counted_host_calls();
    for (int i = 1; i < 2 * MANY; i++) {
        tdm_bk_box box = usual;
        box.sizes[1] += (uint64_t)(i % MANY / 7);
        const long encoded = ask(r, place(i % MANY), &box);
        if (i < MANY)
            assert_int_equal(encoded, 1);
        assert_int_equal(ask(r, place(i % MANY), &box), 0);
    }
    assert_int_equal(counted_host_live(), live);
    assert_int_equal(counted_host_calls(), calls);
}

static void many_maps_take_no_more_memory(void **state) {
    (void)state;
    on_each("many maps take no more memory", ask_for_many);
}

/* Of a set the one that has been there the longest. */
static void ask_for_a_set(backend_rig *r) {
    tdm_bk_box boxes[WAYS + 1];
    for (int i = 0; i <= WAYS; i++) {
        boxes[i] = usual;
        boxes[i].strides[1] += (uint64_t)i * 512;
        assert_int_equal(ask(r, place(0), &boxes[i]), 1);
    }
    for (int i = 1; i <= WAYS; i++)
        assert_int_equal(ask(r, place(0), &boxes[i]), 0);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(ask(r, place(0), &boxes[round]), 1);
        for (int i = 0; i <= WAYS; i++)
            if (i != (round + 1) % (WAYS + 1))
                assert_int_equal(ask(r, place(0), &boxes[i]), 0);
    }
}

static void the_oldest_of_a_set_gives_way(void **state) {
    (void)state;
    on_each("the oldest of a set gives way", ask_for_a_set);
}

/* Each of them differs from the usual one in one thing, and comes when that is kept. */
static void ask_for_others(backend_rig *r) {
    tdm_bk_box others[10];
    int count = 0;
    for (int i = 0; i < COUNT(others); i++)
        others[i] = usual;
    others[count++].dtype = TDM_BF16;
    others[count++].box[0] = 32;
    others[count++].box[1] = 64;
    others[count++].box[2] = 2;
    for (int d = 0; d < 3; d++)
        others[count++].sizes[d] -= 1;
    others[count++].strides[0] += 16;
    others[count++].strides[1] += 16;
    for (int i = 0; i < count; i++) {
        ask(r, place(0), &usual);
        assert_int_equal(ask(r, place(0), &others[i]), 1);
    }
    ask(r, place(0), &usual);
    assert_int_equal(ask(r, place(1), &usual), 1);
}

static void each_tensor_has_its_own(void **state) {
    (void)state;
    on_each("each tensor has its own", ask_for_others);
}

/* A map that could not be encoded is not kept. */
static void ask_after_a_failure(backend_rig *r) {
    CUtensorMap map;
    tdm_fault_plant("cuTensorMapEncodeTiled", 1, CUDA_ERROR_INVALID_VALUE, false);
    TEST_REFUSED(tdm_cuda_tensor_map(r->native, "test", place(0), &usual, &map), TDM_INTERNAL,
                 "cuTensorMapEncodeTiled");
    tdm_fault_clear();
    assert_int_equal(ask(r, place(0), &usual), 1);
    assert_int_equal(ask(r, place(0), &usual), 0);
}

static void a_failure_is_not_kept(void **state) {
    (void)state;
    on_each("a failure is not kept", ask_after_a_failure);
}

/* ---- products ----------------------------------------------------------------------------------------- */

enum {
    PLACES = 100, /* of products, with three maps each */
    MOST_SIDE = 16
};

/* Square matrices of one product. */
typedef struct places {
    const test_device *device;
    tdm_gemm_plan *plan;
    int side;
    tdm_tensor *a[PLACES], *b[PLACES], *d[PLACES];
} places;

static double value_at(int number, int element, int operand) {
    return (double)((number * 31 + element * 7 + operand * 3) % 5 - 2);
}

static tdm_tensor *create_matrix(const places *p, int number, int operand) {
    const int64_t shape[2] = {p->side, p->side};
    float values[MOST_SIDE * MOST_SIDE];
    tdm_tensor *wide, *matrix;
    const size_t count = (size_t)p->side * (size_t)p->side;
    for (size_t i = 0; i < count; i++)
        values[i] = (float)value_at(number, (int)i, operand);
    TEST_OK(tdm_tensor_create(p->device->device, TDM_F16, 2, shape, &matrix));
    TEST_OK(tdm_tensor_create(p->device->device, TDM_F32, 2, shape, &wide));
    TEST_OK(tdm_tensor_write(p->device->stream, values, count * sizeof *values, NULL, wide));
    TEST_OK(tdm_tensor_convert(p->device->stream, wide, matrix));
    tdm_tensor_destroy(wide);
    return matrix;
}

static void check_product(const places *p, int number) {
    const int64_t shape[2] = {p->side, p->side};
    float values[MOST_SIDE * MOST_SIDE];
    tdm_tensor *wide;
    const size_t count = (size_t)p->side * (size_t)p->side;
    TEST_OK(tdm_tensor_create(p->device->device, TDM_F32, 2, shape, &wide));
    TEST_OK(tdm_tensor_convert(p->device->stream, p->d[number], wide));
    TEST_OK(tdm_tensor_read(p->device->stream, wide, values, count * sizeof *values, NULL));
    tdm_tensor_destroy(wide);
    for (int i = 0; i < (int)count; i++) {
        double sum = 0;
        for (int k = 0; k < p->side; k++)
            sum += value_at(number, i / p->side * p->side + k, 0) *
                   value_at(number, k * p->side + i % p->side, 1);
        if (values[i] != (float)sum)
            test_case_fail("product %d, element %d is %g, must be %g", number, i, (double)values[i],
                           sum);
    }
}

static void run_product(const places *p, int number) {
    tdm_gemm_args args = TDM_GEMM_ARGS_INIT;
    args.a = p->a[number];
    args.b = p->b[number];
    args.d = p->d[number];
    TEST_OK(tdm_tensor_fill(p->device->stream, -77, p->d[number]));
    TEST_OK(tdm_gemm_plan_run(p->plan, p->device->stream, &args));
    check_product(p, number);
}

static void plan_products(places *p, const tdm_variant *row) {
    tdm_gemm_desc desc = TDM_GEMM_DESC_INIT;
    const int64_t shape[2] = {p->side, p->side};
    TEST_OK(tdm_layout_contiguous(TDM_F16, 2, shape, &desc.a));
    desc.b = desc.d = desc.a;
    desc.variant = row->name;
    TEST_OK(tdm_gemm_plan_create(p->device->device, &desc, &p->plan));
}

/* All at places of their own, twice; `number` tells which values. */
static void run_everywhere(const test_device *device, const tdm_variant *row, int side) {
    places p = {.device = device, .side = side};
    plan_products(&p, row);
    for (int i = 0; i < PLACES; i++) {
        p.a[i] = create_matrix(&p, i, 0);
        p.b[i] = create_matrix(&p, i, 1);
        p.d[i] = create_matrix(&p, i, 2);
        run_product(&p, i);
    }
    for (int i = 0; i < PLACES; i++)
        run_product(&p, i);
    for (int i = 0; i < PLACES; i++) {
        tdm_tensor_destroy(p.a[i]);
        tdm_tensor_destroy(p.b[i]);
        tdm_tensor_destroy(p.d[i]);
    }
    tdm_gemm_plan_destroy(p.plan);
}

/* The second matrices are where the first ones were, and of another shape. */
static void products_at_more_places_than_maps(void **state) {
    const tdm_variant *const row = tdm_variant_find("gemm_f16_wgmma_128x128__sm90a");
    (void)state;
    assert_non_null(row);
    for (int d = 0; d < test_device_count(); d++) {
        const test_device *const device = test_device_at(d);
        if (!test_can_run(device, row) ||
            !test_case_begin(device, row->name, "products at more places than maps"))
            continue;
        run_everywhere(device, row, MOST_SIDE / 2);
        run_everywhere(device, row, MOST_SIDE);
        test_case_end();
    }
}

int main(void) {
    if (!counted_host_install())
        return 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(many_maps_take_no_more_memory),
                                       cmocka_unit_test(the_oldest_of_a_set_gives_way),
                                       cmocka_unit_test(each_tensor_has_its_own),
                                       cmocka_unit_test(a_failure_is_not_kept),
                                       cmocka_unit_test(products_at_more_places_than_maps)};
    return cmocka_run_group_tests(tests, test_devices_setup, test_devices_teardown);
}
