// This header runs one kernel on the simulated device. It is for tests of the operations of compute
// capability 9.0a.
#ifndef TANDEM_TESTS_CUDA_SIMULATOR_TRIAL_H
#define TANDEM_TESTS_CUDA_SIMULATOR_TRIAL_H

#include <vector>

#include "tests/cuda_simulator/driver_state.h"
#include "tests/cuda_simulator/scheduler.h"
#include "tests/cuda_simulator/simulator_hopper.h"
#include "tests/support/test_case.h"

static inline int item() {
    return tandem_sim_self->item[0];
}
static inline char *dynamic() {
    return static_cast<char *>(tandem_sim_dynamic_shared());
}

struct trial {
    const char *kernel;
    int threads = 128;
    int cluster = 1;
    size_t dynamic_bytes = 65536;
};

template <typename... Values>
static sim_outcome run(sim_worker &worker, const trial &t, const Values &...values) {
    void *const pointers[] = {const_cast<void *>(static_cast<const void *>(&values))..., nullptr};
    const sim_launch launch = {
        sim_kernel_find(t.kernel),
        pointers,
        {t.threads, 1, 1},
        {2 * t.cluster, 1, 1}, /* two clusters, whose threads run in opposite orders */
        {t.cluster, 1, 1},
        t.dynamic_bytes,
        48 * 1024,
        0};
    assert_non_null(launch.kernel);
    return worker.run(launch);
}

template <typename... Values>
static void fails(const trial &t, const char *part, const Values &...values) {
    sim_worker worker;
    assert_int_not_equal(run(worker, t, values...), SIM_DONE);
    if (worker.message().find(part) == std::string::npos)
        fail_msg("\"%s\" is not in: %s", part, worker.message().c_str());
}

static inline int enter_device(void **) {
    CUcontext context = nullptr;
    return cuInit(0) != CUDA_SUCCESS || cuDevicePrimaryCtxRetain(&context, 0) != CUDA_SUCCESS ||
           cuCtxPushCurrent_v2(context) != CUDA_SUCCESS;
}

static inline int leave_device(void **) {
    return cuCtxPopCurrent_v2(nullptr) != CUDA_SUCCESS ||
           cuDevicePrimaryCtxRelease_v2(0) != CUDA_SUCCESS;
}

#endif
