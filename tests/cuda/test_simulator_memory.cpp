// Memory of the simulated driver: how much there is, when it is freed, and what may not be.
#include "tests/cuda/simulator_rig.h"

static std::atomic<bool> spinning, released;
static void spin(int *data) {
    spinning = true;
    while (!released.load()) {
        std::this_thread::yield();
    }
    (void)data;
}
TANDEM_SIM_REGISTER(spin, "spin", 0, 0, 0, 0);

static const char stand_in[] = "TDM-STAND-IN\nspin\n";

static void memory_runs_out(void **) {
    const rig r(stand_in);
    size_t free_before = 0, free_after = 0, total = 0;
    OK(cuMemGetInfo_v2(&free_before, &total));
    assert_int_equal(free_before, total - 1024);
    CUdeviceptr a = 0, b = 0;
    assert_int_equal(cuMemAlloc_v2(&a, free_before + 1), CUDA_ERROR_OUT_OF_MEMORY);
    assert_int_equal(cuMemAlloc_v2(&a, 0), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemAlloc_v2(&a, free_before - 10));
    assert_int_equal(cuMemAlloc_v2(&b, 11), CUDA_ERROR_OUT_OF_MEMORY);
    OK(cuMemFree_v2(a));
    OK(cuMemGetInfo_v2(&free_after, &total));
    assert_int_equal(free_after, free_before);
}

static void pinned_memory_is_known(void **) {
    const rig r(stand_in);
    void *host = nullptr;
    CUdeviceptr same = 0, base = 0;
    unsigned type = 0;
    size_t bytes = 0;
    OK(cuMemHostAlloc(&host, 100, CU_MEMHOSTALLOC_PORTABLE));
    OK(cuMemHostGetDevicePointer_v2(&same, host, 0));
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, same));
    assert_int_equal(type, CU_MEMORYTYPE_HOST);
    OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, r.data + 8));
    assert_int_equal(type, CU_MEMORYTYPE_DEVICE);
    OK(cuMemGetAddressRange_v2(&base, &bytes, r.data + 8));
    assert_int_equal(base, r.data);
    assert_int_equal(bytes, 1024);
    assert_int_equal(cuMemFree_v2(same), CUDA_ERROR_INVALID_VALUE);
    OK(cuMemFreeHost(host));
    assert_int_equal(cuMemFreeHost(host), CUDA_ERROR_INVALID_VALUE);
}

/* Of streams that were destroyed too; what is freed need not be what they use. */
static void freeing_waits_for_all_work(void **) {
    const rig r(stand_in);
    for (const bool pinned : {false, true}) {
        gate g;
        CUstream other = nullptr;
        CUdeviceptr fresh = 0;
        void *host = nullptr;
        OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
        OK(cuMemAlloc_v2(&fresh, 16));
        OK(cuMemHostAlloc(&host, 16, CU_MEMHOSTALLOC_PORTABLE));
        OK(cuLaunchHostFunc(other, gate::wait, &g));
        OK(cuStreamDestroy_v2(other));
        std::thread opener = g.open_soon();
        OK(pinned ? cuMemFreeHost(host) : cuMemFree_v2(fresh));
        assert_true(g.open);
        opener.join();
        OK(pinned ? cuMemFree_v2(fresh) : cuMemFreeHost(host));
    }
}

static void pinned_memory_in_use_may_not_be_freed(void **) {
    const rig r(stand_in);
    gate g;
    void *host = nullptr;
    OK(cuMemHostAlloc(&host, 16, CU_MEMHOSTALLOC_PORTABLE));
    OK(cuLaunchHostFunc(r.stream, gate::wait, &g));
    OK(cuMemcpyDtoHAsync_v2(host, r.data, 16, r.stream));
    std::thread opener = g.open_soon();
    assert_int_equal(cuMemFreeHost(host), CUDA_ERROR_ILLEGAL_ADDRESS);
    opener.join();
}

static void memory_of_a_running_kernel_may_not_be_freed(void **) {
    const rig r(stand_in);
    CUdeviceptr fresh = 0;
    spinning = released = false;
    OK(cuMemAlloc_v2(&fresh, 16));
    OK(r.launch("spin", 1, 1, 0, fresh));
    while (!spinning) {
        std::this_thread::yield();
    }
    std::thread releaser([] {
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
        released = true;
    });
    assert_int_equal(cuMemFree_v2(fresh), CUDA_ERROR_ILLEGAL_ADDRESS);
    releaser.join();
}

int main() {
    set_device_of_tests();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_runs_out),
        cmocka_unit_test(pinned_memory_is_known),
        cmocka_unit_test(freeing_waits_for_all_work),
        cmocka_unit_test(pinned_memory_in_use_may_not_be_freed),
        cmocka_unit_test(memory_of_a_running_kernel_may_not_be_freed),
    };
    return cmocka_run_group_tests(tests, nullptr, nullptr);
}
