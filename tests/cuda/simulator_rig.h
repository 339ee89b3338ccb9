// This header provides a device of the simulated driver for one test, and a gate that blocks its
// stream.
#ifndef TANDEM_TESTS_CUDA_SIMULATOR_RIG_H
#define TANDEM_TESTS_CUDA_SIMULATOR_RIG_H

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <thread>
#include <vector>

#include "tests/cuda_simulator/driver_state.h"
#include "tests/support/test_case.h"

#define OK(call) assert_int_equal(call, CUDA_SUCCESS)

struct rig {
    CUcontext context = nullptr;
    CUmodule module = nullptr;
    CUstream stream = nullptr;
    CUdeviceptr data = 0; /* 256 ints, zeros */

    explicit rig(const char *stand_in) {
        OK(cuInit(0));
        OK(cuDevicePrimaryCtxRetain(&context, 0));
        OK(cuCtxPushCurrent_v2(context));
        OK(cuModuleLoadDataEx(&module, stand_in, 0, nullptr, nullptr));
        OK(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
        OK(cuMemAlloc_v2(&data, 1024));
        OK(cuMemsetD32Async(data, 0, 256, stream));
    }
    ~rig() {
        cuCtxPopCurrent_v2(nullptr);
        cuDevicePrimaryCtxRelease_v2(0);
    }
    rig(const rig &) = delete;
    rig &operator=(const rig &) = delete;

    CUfunction function(const char *name) const {
        CUfunction found = nullptr;
        OK(cuModuleGetFunction(&found, module, name));
        return found;
    }
    template <typename... Values>
    CUresult launch(const char *name, unsigned blocks, unsigned threads, unsigned dynamic_bytes,
                    Values... values) const {
        void *pointers[] = {static_cast<void *>(&values)..., nullptr};
        return cuLaunchKernel(function(name), blocks, 1, 1, threads, 1, 1, dynamic_bytes, stream,
                              pointers, nullptr);
    }
    std::vector<int> read() const {
        std::vector<int> host(256, -1);
        OK(cuMemcpyDtoHAsync_v2(host.data(), data, 1024, stream));
        OK(cuStreamSynchronize(stream));
        return host;
    }
};

struct gate {
    std::atomic<bool> open{false};
    static void wait(void *user) {
        while (!static_cast<gate *>(user)->open.load())
            std::this_thread::yield();
    }
    /* Opens the gate from another thread after 20 ms, while the caller waits for work behind the
     * gate. */
    std::thread open_soon() {
        return std::thread([this] {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            open = true;
        });
    }
};

/* Sets up one small device of compute capability 9.0. Call this before the first call of the
 * driver. */
static inline int set_device_of_tests(void **) {
    return setenv("TANDEM_SIMULATOR_ARCHITECTURE", "9.0", 1) != 0 ||
           setenv("TANDEM_SIMULATOR_MEMORY", "1048576", 1) != 0 ||
           unsetenv("TANDEM_SIMULATOR_DEVICES") != 0;
}

#endif
