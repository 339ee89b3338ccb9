/*
 * Tests the tensor maps that a CUDA device caches. A cached map is not encoded again, and the
 * memory of the cache is bounded. A full set evicts its oldest map. No tensor gets the map of
 * another one. */
// ctest: device cuda timeout=120
#include <string.h>

#include "api/device/core.h"
#include "backend_cuda/cuda_internal.h"
#include "tests/support/devices/device_cases.h"
#include "tests/support/devices/own_device.h"
#include "tests/support/drivers/backend_rig.h"
#include "tests/support/drivers/counted_host.h"
#include "tests/support/test_case.h"

/* This is more than the 256 maps that the cache holds. */
#define MANY 700
/* This is the number of maps in a set. Maps that differ only in strides belong to the same set. */
#define WAYS 4

#define COUNT(array) ((int)(sizeof(array) / sizeof(array)[0]))

static const tdm_bk_tensor_map usual = {
    .dtype = TDM_F16, .box = {64, 128, 1}, .sizes = {256, 256, 4}, .strides = {512, 131072}};

/* The driver encodes the expected map. */
static void encode(const backend_rig *r, CUdeviceptr address, const tdm_bk_tensor_map *tensor_map,
                   CUtensorMap *map) {
    _Alignas(64) CUtensorMap made;
    static const uint32_t steps[3] = {1, 1, 1};
    const CUtensorMapDataType type = tensor_map->dtype == TDM_F16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
                                     : tensor_map->dtype == TDM_BF16
                                         ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                         : CU_TENSOR_MAP_DATA_TYPE_UINT8;
    assert_int_equal(r->native->api->cuTensorMapEncodeTiled(
                         &made, type, 3, (void *)(uintptr_t)address, tensor_map->sizes,
                         tensor_map->strides, tensor_map->box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                         CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
                         CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE),
                     CUDA_SUCCESS);
    *map = made;
}

/* Requests a map and checks that it is the tensor's own. Returns how many maps were encoded. */
static long ask(const backend_rig *r, CUdeviceptr address, const tdm_bk_tensor_map *tensor_map) {
    CUtensorMap expected, map;
    encode(r, address, tensor_map, &expected);
    memset(&map, 0xa5, sizeof map);
    tdm_fault_plant("cuTensorMapEncodeTiled", 1000000, 1, false);
    const tdm_status status = tdm_cuda_tensor_map(r->native, "test", address, tensor_map, &map);
    const long encoded = tdm_fault_clear();
    TEST_OK(status);
    assert_memory_equal(&map, &expected, sizeof map);
    return encoded;
}

/* Runs the body on a device of its own, with the context entered. */
static void with_rig(const test_device *device, void (*body)(backend_rig *r)) {
    if (!(device->info.capabilities & TDM_CAP_WGMMA))
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
}

#define MAPS_TEST(name)                                                                            \
    static void name##_with(backend_rig *r);                                                       \
    DEVICE_TEST(name) {                                                                            \
        with_rig(device, name##_with);                                                             \
    }                                                                                              \
    static void name##_with(backend_rig *r)

/* Returns an address of a tensor. No kernel runs here, so the address is never accessed. */
static CUdeviceptr place(int i) {
    return 0x7f0000000000u + (CUdeviceptr)i * 16;
}

/* Requests all maps in turn, twice. Each tensor gets its own map. The first request allocates all
 * memory of the cache. */
MAPS_TEST(many_maps_take_no_more_memory) {
    assert_int_equal(ask(r, place(0), &usual), 1);
    const long live = counted_host_live(), calls = counted_host_calls();
    for (int i = 1; i < 2 * MANY; i++) {
        tdm_bk_tensor_map tensor_map = usual;
        tensor_map.sizes[1] += (uint64_t)(i % MANY / 7);
        const long encoded = ask(r, place(i % MANY), &tensor_map);
        if (i < MANY)
            assert_int_equal(encoded, 1);
        assert_int_equal(ask(r, place(i % MANY), &tensor_map), 0);
    }
    assert_int_equal(counted_host_live(), live);
    assert_int_equal(counted_host_calls(), calls);
}

/* In a full set the oldest map is evicted. */
MAPS_TEST(the_oldest_of_a_set_gives_way) {
    tdm_bk_tensor_map tensor_maps[WAYS + 1];
    for (int i = 0; i <= WAYS; i++) {
        tensor_maps[i] = usual;
        tensor_maps[i].strides[1] += (uint64_t)i * 512;
        assert_int_equal(ask(r, place(0), &tensor_maps[i]), 1);
    }
    for (int i = 1; i <= WAYS; i++)
        assert_int_equal(ask(r, place(0), &tensor_maps[i]), 0);
    for (int round = 0; round < 3; round++) {
        assert_int_equal(ask(r, place(0), &tensor_maps[round]), 1);
        for (int i = 0; i <= WAYS; i++)
            if (i != (round + 1) % (WAYS + 1))
                assert_int_equal(ask(r, place(0), &tensor_maps[i]), 0);
    }
}

/* Each map differs from the usual one in one property. It is requested while the usual one is
 * cached. */
MAPS_TEST(each_tensor_has_its_own) {
    tdm_bk_tensor_map others[10];
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

/* A map whose encoding failed is not cached. */
MAPS_TEST(a_failure_is_not_kept) {
    CUtensorMap map;
    tdm_fault_plant("cuTensorMapEncodeTiled", 1, CUDA_ERROR_INVALID_VALUE, false);
    TEST_REFUSED(tdm_cuda_tensor_map(r->native, "test", place(0), &usual, &map), TDM_INTERNAL,
                 "cuTensorMapEncodeTiled");
    tdm_fault_clear();
    assert_int_equal(ask(r, place(0), &usual), 1);
    assert_int_equal(ask(r, place(0), &usual), 0);
}

int main(void) {
    if (!counted_host_install())
        return 1;
    return test_run_all(test_devices_setup, test_devices_teardown);
}
