/* This file implements device memory and pinned memory. Both are host memory of exact sizes. A map
 * finds an allocation by its address. */
#include <cstdlib>

#include "tests/cuda_simulator/driver_state.h"
#include "tests/cuda_simulator/scheduler_state.h"

#if defined(__SANITIZE_ADDRESS__)
#define SIM_FENCE_BYTES 0 /* AddressSanitizer has its own */
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SIM_FENCE_BYTES 0
#endif
#endif
#ifndef SIM_FENCE_BYTES
#define SIM_FENCE_BYTES 256
#endif

namespace {

constexpr size_t alignment = 256;
/* Larger allocations are not filled, because that would take host memory for nothing. */
constexpr size_t most_filled = static_cast<size_t>(4) << 20;

struct memory_map {
    std::mutex lock;
    std::map<CUdeviceptr, sim_allocation> allocations; /* by their first address */
    std::map<int, size_t> used;                        /* bytes of each device */
};

memory_map &memory() {
    static memory_map *const map = new memory_map;
    return *map;
}

void *pointer(CUdeviceptr address) {
    return reinterpret_cast<void *>(static_cast<uintptr_t>(address));
}

CUdeviceptr address_of(const void *pointer) {
    return static_cast<CUdeviceptr>(reinterpret_cast<uintptr_t>(pointer));
}

CUresult allocate(size_t bytes, bool host, CUdeviceptr *address) {
    CUcontext context = nullptr;
    CUresult state = sim_context(&context);
    state = state == CUDA_SUCCESS ? sim_forbidden_in_capture() : state;
    if (state != CUDA_SUCCESS)
        return state;
    if (bytes == 0)
        return CUDA_ERROR_INVALID_VALUE;
    memory_map &map = memory();
    const std::lock_guard<std::mutex> held(map.lock);
    size_t &used = map.used[context->device];
    const size_t limit = sim_machine_get().memory;
    if (!host && (bytes > limit || used > limit - bytes))
        return CUDA_ERROR_OUT_OF_MEMORY;
    void *fresh = nullptr;
    if (bytes > SIZE_MAX - SIM_FENCE_BYTES ||
        posix_memalign(&fresh, alignment, bytes + SIM_FENCE_BYTES) != 0)
        return CUDA_ERROR_OUT_OF_MEMORY;
    used += host ? 0 : bytes;
    sim_fill_with_nan(fresh, bytes < most_filled ? bytes : most_filled);
    sim_fill_with_nan(static_cast<char *>(fresh) + bytes, SIM_FENCE_BYTES);
    *address = address_of(fresh);
    map.allocations[*address] = sim_allocation{bytes, host, context};
    return CUDA_SUCCESS;
}

bool fence_stands(CUdeviceptr base, size_t bytes) {
    unsigned char wanted[SIM_FENCE_BYTES + 1] = {0};
    sim_fill_with_nan(wanted, SIM_FENCE_BYTES);
    return memcmp(static_cast<char *>(pointer(base)) + bytes, wanted, SIM_FENCE_BYTES) == 0;
}

/* Removes an allocation from the map. Its address is then invalid. */
bool take(CUdeviceptr address, bool host, sim_allocation *taken) {
    memory_map &map = memory();
    const std::lock_guard<std::mutex> held(map.lock);
    const auto at = map.allocations.find(address);
    if (at == map.allocations.end() || at->second.host != host)
        return false;
    *taken = at->second;
    map.allocations.erase(at);
    return true;
}

/* Frees an allocation that is no longer in the map and that no work uses any more. */
void give_back(CUdeviceptr address, const sim_allocation &taken) {
    if (!fence_stands(address, taken.bytes)) {
        sim_log("something wrote behind the end of an allocation of %zu bytes", taken.bytes);
        taken.context->error = CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    memory_map &map = memory();
    const std::lock_guard<std::mutex> held(map.lock);
    map.used[taken.context->device] -= taken.host ? 0 : taken.bytes;
    free(pointer(address));
}

/*
 * The caller waits until all work of the context is done, as with a real driver. A caller that
 * itself blocks the work never returns. No document promises this wait, so no work may rely on it.
 * Work that still uses the memory fails here. */
CUresult release(CUdeviceptr address, bool host) {
    CUcontext context = nullptr;
    CUresult state = sim_context(&context);
    state = state == CUDA_SUCCESS ? sim_forbidden_in_capture() : state;
    if (state != CUDA_SUCCESS)
        return state;
    sim_allocation taken;
    if (!take(address, host, &taken))
        return CUDA_ERROR_INVALID_VALUE;
    sim_streams_drain_all(context);
    give_back(address, taken);
    return context->error.load();
}

} // namespace

bool sim_memory_find(CUdeviceptr address, size_t bytes, sim_allocation *found, CUdeviceptr *base) {
    memory_map &map = memory();
    const std::lock_guard<std::mutex> held(map.lock);
    auto at = map.allocations.upper_bound(address);
    if (at == map.allocations.begin())
        return false;
    --at;
    const size_t offset = static_cast<size_t>(address - at->first);
    if (offset >= at->second.bytes || bytes > at->second.bytes - offset)
        return false;
    if (found != nullptr)
        *found = at->second;
    if (base != nullptr)
        *base = at->first;
    return true;
}

bool sim_memory_unharmed(CUdeviceptr address) {
    sim_allocation found;
    CUdeviceptr base = 0;
    return !sim_memory_find(address, 0, &found, &base) || fence_stands(base, found.bytes);
}

void sim_memory_release_all(CUcontext context) {
    memory_map &map = memory();
    const std::lock_guard<std::mutex> held(map.lock);
    for (auto at = map.allocations.begin(); at != map.allocations.end();) {
        if (at->second.context == context) {
            free(pointer(at->first));
            at = map.allocations.erase(at);
        } else {
            ++at;
        }
    }
    map.used[context->device] = 0;
}

CUresult cuMemGetInfo_v2(size_t *free_bytes, size_t *total_bytes) {
    CUcontext context = nullptr;
    const CUresult state = sim_context(&context);
    if (state != CUDA_SUCCESS)
        return state;
    memory_map &map = memory();
    const std::lock_guard<std::mutex> held(map.lock);
    *total_bytes = sim_machine_get().memory;
    *free_bytes = *total_bytes - map.used[context->device];
    return CUDA_SUCCESS;
}

CUresult cuMemAlloc_v2(CUdeviceptr *address, size_t bytes) {
    return allocate(bytes, false, address);
}

CUresult cuMemFree_v2(CUdeviceptr address) {
    return address == 0 ? static_cast<CUresult>(CUDA_SUCCESS) : release(address, false);
}

CUresult cuMemHostAlloc(void **host, size_t bytes, unsigned int flags) {
    if ((flags & ~(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP | 4u)) != 0)
        return CUDA_ERROR_INVALID_VALUE;
    CUdeviceptr address = 0;
    const CUresult state = allocate(bytes, true, &address);
    if (state == CUDA_SUCCESS)
        *host = pointer(address);
    return state;
}

CUresult cuMemFreeHost(void *host) {
    return host == nullptr ? static_cast<CUresult>(CUDA_SUCCESS) : release(address_of(host), true);
}

CUresult cuMemHostGetDevicePointer_v2(CUdeviceptr *address, void *host, unsigned int flags) {
    CUcontext context = nullptr;
    const CUresult state = sim_context(&context);
    sim_allocation found;
    if (state != CUDA_SUCCESS)
        return state;
    if (flags != 0 || !sim_memory_find(address_of(host), 1, &found, nullptr) || !found.host)
        return CUDA_ERROR_INVALID_VALUE;
    *address = address_of(host);
    return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr *base, size_t *bytes, CUdeviceptr address) {
    CUcontext context = nullptr;
    const CUresult state = sim_context(&context);
    if (state != CUDA_SUCCESS)
        return state;
    sim_allocation found;
    CUdeviceptr first = 0;
    if (!sim_memory_find(address, 1, &found, &first))
        return CUDA_ERROR_NOT_FOUND;
    if (base != nullptr)
        *base = first;
    if (bytes != nullptr)
        *bytes = found.bytes;
    return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void *value, CUpointer_attribute attribute, CUdeviceptr address) {
    CUcontext context = nullptr;
    const CUresult state = sim_context(&context);
    if (state != CUDA_SUCCESS)
        return state;
    sim_allocation found;
    if (!sim_memory_find(address, 1, &found, nullptr))
        return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *static_cast<unsigned *>(value) = found.host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
        return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *static_cast<int *>(value) = found.context->device;
        return CUDA_SUCCESS;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* ---- for tests: the number of live objects of a kind, or of all kinds for other values ---- */

SIM_EXPORT long tandem_simulator_live(int kind);
SIM_EXPORT long tandem_simulator_live(int kind) {
    long device = 0, pinned = 0;
    {
        memory_map &map = memory();
        const std::lock_guard<std::mutex> held(map.lock);
        for (const auto &row : map.allocations)
            (row.second.host ? pinned : device)++;
    }
    sim_objects &sim = sim_get();
    const long counts[] = {device,
                           pinned,
                           static_cast<long>(sim.streams.all().size()),
                           static_cast<long>(sim.events.all().size()),
                           static_cast<long>(sim.modules.all().size()),
                           static_cast<long>(sim.graphs.all().size()),
                           static_cast<long>(sim.executables.all().size())};
    const int kinds = static_cast<int>(sizeof counts / sizeof counts[0]);
    long sum = 0;
    for (int i = 0; i < kinds; i++)
        sum += i == kind || kind >= kinds ? counts[i] : 0;
    return sum;
}
