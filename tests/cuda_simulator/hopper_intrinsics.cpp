/* This file implements mbarriers, bulk copies of tensors, and the other operations of compute
 * capability 9.0a. wgmma is in matrix_intrinsics.cpp. */
#include <algorithm>

#include "tests/cuda_simulator/scheduler_state.h"
#include "tests/cuda_simulator/tensor_map.h"

/* ---- shared memory ---- */

namespace {

enum {
    SHARED_FIRST = 1024, /* memory below it belongs to the system */
    MBARRIER_MAGIC =
        0x6d626172 /* in the high half of the mbarrier; its number is in the low half */
};

char *dynamic_of(sim_block &block) {
    return static_cast<char *>(sim_worker_running->shared(block.dynamic));
}

sim_block &own_block() {
    return *sim_thread_running()->home;
}

} // namespace

uint32_t tandem_sim_shared_address(const void *place) {
    sim_block &block = own_block();
    const char *const at = static_cast<const char *>(place), *const first = dynamic_of(block);
    if (at < first || at >= first + block.dynamic.bytes)
        tandem_sim_fail_address("%p is not in the shared memory that the launch asked for", place);
    return SHARED_FIRST + static_cast<uint32_t>(at - first);
}

char *sim_shared_place(sim_block &block, uint32_t address) {
    const bool inside = address >= SHARED_FIRST && address - SHARED_FIRST < block.dynamic.bytes;
    return inside ? dynamic_of(block) + (address - SHARED_FIRST) : nullptr;
}

/* ---- mbarriers ---- */

static size_t find_mbarrier(const uint64_t *place, const char *what) {
    const std::vector<sim_mbarrier> &all = sim_worker_running->mbarriers;
    uint64_t word = 0;
    memcpy(&word, place, sizeof word);
    const size_t number = static_cast<uint32_t>(word);
    if (word >> 32 != MBARRIER_MAGIC || number >= all.size() || all[number].place != place) {
        tandem_sim_fail("%s: there is no mbarrier at %p, or it was written over", what,
                        static_cast<const void *>(place));
    }
    return number;
}

static sim_mbarrier &mbarrier_of(const uint64_t *place, const char *what) {
    return sim_worker_running->mbarriers[find_mbarrier(place, what)];
}

void tandem_sim_mbarrier_init(uint64_t *barrier, uint32_t count) {
    std::vector<sim_mbarrier> &all = sim_worker_running->mbarriers;
    if (count < 1 || count >= 1u << 20 || reinterpret_cast<uintptr_t>(barrier) % 8 != 0)
        tandem_sim_fail("an mbarrier at %p for %u arrivals", static_cast<void *>(barrier), count);
    tandem_sim_shared_address(barrier);
    const uint64_t word = static_cast<uint64_t>(MBARRIER_MAGIC) << 32 | all.size();
    memcpy(barrier, &word, sizeof word);
    all.push_back(sim_mbarrier{barrier,
                               sim_thread_running(),
                               false,
                               count,
                               count,
                               0,
                               0,
                               {},
                               sim_worker_running->cluster_barrier.passed,
                               1,
                               0,
                               0,
                               0,
                               0});
}

void tandem_sim_mbarrier_init_fence() {
    for (sim_mbarrier &barrier : sim_worker_running->mbarriers)
        barrier.fenced = barrier.fenced || barrier.maker == sim_thread_running();
}

void sim_mbarrier_settle(sim_mbarrier &barrier) {
    if (barrier.missing > 0 || barrier.bytes != 0)
        return;
    barrier.parity ^= 1u;
    barrier.phase++;
    barrier.missing = barrier.count;
    for (sim_thread *const thread : barrier.waiting)
        sim_worker_running->make_ready(thread);
    barrier.waiting.clear();
}

static void arrive_at(sim_mbarrier &barrier, uint32_t bytes) {
    barrier.bytes += bytes;
    if (barrier.missing == 0 || barrier.bytes >= 1 << 20) {
        tandem_sim_fail("arrival at an mbarrier of %u whose phase misses %u, and %lld bytes",
                        barrier.count, barrier.missing, static_cast<long long>(barrier.bytes));
    }
    barrier.missing--;
    sim_mbarrier_settle(barrier);
}

void tandem_sim_mbarrier_arrive(uint64_t *barrier, uint32_t bytes) {
    arrive_at(mbarrier_of(barrier, "arrival"), bytes);
}

/* Returns the number of the corresponding mbarrier in a block of the cluster. The launch fails
 * unless its initialisation is visible to the calling block. */
static size_t remote_mbarrier(uint64_t *barrier, int rank, const char *what) {
    const size_t number =
        find_mbarrier(static_cast<uint64_t *>(tandem_sim_cluster_shared(barrier, rank)), what);
    if (!sim_worker_running->mbarriers[number].fenced) {
        tandem_sim_fail("%s at an mbarrier of block %d without a fence behind its initialisation",
                        what, rank);
    }
    if (rank != own_block().cluster_rank &&
        sim_worker_running->mbarriers[number].made == sim_worker_running->cluster_barrier.passed) {
        tandem_sim_fail("%s at an mbarrier of block %d without a barrier of the cluster behind its "
                        "initialisation",
                        what, rank);
    }
    return number;
}

void tandem_sim_mbarrier_arrive_rank(uint64_t *barrier, int rank) {
    sim_mbarrier &there =
        sim_worker_running->mbarriers[remote_mbarrier(barrier, rank, "a remote arrival")];
    if (rank != own_block().cluster_rank) {
        there.reached = there.phase;
        there.reached_after = sim_worker_running->cluster_barrier.passed;
    }
    arrive_at(there, 0);
}

void sim_mbarriers_require_seen() {
    const long passed = sim_worker_running->cluster_barrier.passed;
    for (const sim_mbarrier &barrier : sim_worker_running->mbarriers) {
        const int rank = barrier.maker->home->cluster_rank;
        if (barrier.copied > barrier.seen) {
            tandem_sim_fail("block %d of the cluster left without a wait for a bulk copy to it",
                            rank);
        }
        if (barrier.reached > barrier.seen && barrier.reached_after == passed) {
            tandem_sim_fail("block %d of the cluster may have left before another's arrival at its "
                            "mbarrier: there is no wait for it and no barrier of the cluster "
                            "behind it",
                            rank);
        }
    }
}

void tandem_sim_mbarrier_wait(uint64_t *barrier, uint32_t parity, int site) {
    const size_t number = find_mbarrier(barrier, "a wait");
    if (sim_worker_running->mbarriers[number].maker->home != &own_block())
        tandem_sim_fail("a wait at an mbarrier of another block");
    while (sim_worker_running->mbarriers[number].parity == (parity & 1u)) {
        sim_thread *const thread = sim_thread_running();
        thread->waiting = SIM_AT_MBARRIER;
        thread->site = site;
        sim_worker_running->mbarriers[number].waiting.push_back(thread);
        sim_worker_running->wait();
    }
    sim_mbarrier &own = sim_worker_running->mbarriers[number];
    own.seen = std::max(own.seen, own.phase - 1);
}

/* ---- boxes ---- */

static const sim_tensor_map &read_map(const tandem_sim_tensor_map *map) {
    const sim_tensor_map &read = *reinterpret_cast<const sim_tensor_map *>(map->opaque);
    if (read.magic != SIM_TENSOR_MAGIC || reinterpret_cast<uintptr_t>(map) % 64 != 0)
        tandem_sim_fail_address("%p holds no tensor map", static_cast<const void *>(map));
    return read;
}

static size_t taken(const sim_tensor_map &map, int d) {
    return (map.box[d] + map.step[d] - 1u) / map.step[d];
}

static size_t box_bytes(const sim_tensor_map &map) {
    size_t bytes = map.element_bytes;
    for (int d = 0; d < map.rank; d++)
        bytes *= taken(map, d);
    return bytes;
}

/*
 * Calls visit(offset in the box, element in global memory) for each element of the box at `at`. The
 * element is NULL where it lies outside of the tensor. */
template <typename Visit>
static void each_element(const sim_tensor_map &map, const int *at, Visit visit) {
    const size_t bytes = box_bytes(map);
    for (size_t offset = 0; offset < bytes; offset += map.element_bytes) {
        size_t index = offset / map.element_bytes;
        char *place = reinterpret_cast<char *>(map.address);
        bool inside = true;
        for (int d = 0; d < map.rank; d++) {
            const int64_t i =
                at[d] + static_cast<int64_t>(index % taken(map, d)) * (d > 0 ? map.step[d] : 1);
            index /= taken(map, d);
            inside = inside && i >= 0 && i <= static_cast<int64_t>(map.size[d]);
            place += i * static_cast<int64_t>(d > 0 ? map.stride[d - 1] : map.element_bytes);
        }
        visit(offset, inside ? place : nullptr);
    }
}

static uint32_t require_box(const sim_tensor_map &map, const void *shared, int rank) {
    const uint32_t address = tandem_sim_shared_address(shared);
    const size_t bytes = box_bytes(map);
    tandem_sim_shared_address(static_cast<const char *>(shared) + bytes - 1);
    if (rank != map.rank)
        tandem_sim_fail("a bulk copy of %d dimensions by a map of %d", rank, map.rank);
    if (address % 128 != 0 ||
        (map.swizzle_bits != 0 && address % (128u << map.swizzle_bits) != 0)) {
        tandem_sim_fail_address("a bulk copy at shared address %#x, which is not aligned for its "
                                "swizzle",
                                address);
    }
    return address;
}

/* ---- loads ---- */

static void require_fenced_reads(const char *target, size_t bytes) {
    for (const sim_thread &thread : sim_worker_running->threads()) {
        for (const char *const place : thread.hopper.unfenced_reads) {
            if (place >= target && place < target + bytes) {
                tandem_sim_fail("a bulk copy to shared memory that a thread has read without "
                                "fence.proxy.async behind it");
            }
        }
    }
}

void tandem_sim_shared_read(const void *place) {
    tandem_sim_shared_address(place);
    sim_thread_running()->hopper.unfenced_reads.push_back(static_cast<const char *>(place));
}

void tandem_sim_tensor_load(void *to, const tandem_sim_tensor_map *map, const int *at, int rank,
                            uint64_t *barrier, uint32_t blocks) {
    const sim_tensor_map &read = read_map(map);
    sim_block &own = own_block();
    require_box(read, to, rank);
    sim_worker_running->bulk_loads.push_back({*map, {0}, {}, {}});
    sim_bulk_load &load = sim_worker_running->bulk_loads.back();
    memcpy(load.at, at, static_cast<size_t>(rank) * sizeof *at);
    const uint32_t all = blocks != 0 ? blocks : 1u << own.cluster_rank;
    for (int r = 0; r < 32; r++) {
        if ((all >> r & 1u) != 0) {
            char *const target = static_cast<char *>(tandem_sim_cluster_shared(to, r));
            require_fenced_reads(target, box_bytes(read));
            sim_fill_with_nan(target, box_bytes(read));
            load.targets.push_back(target);
            load.barriers.push_back(remote_mbarrier(barrier, r, "a bulk copy"));
        }
    }
}

static void deliver_box(const sim_tensor_map &map, const int *at, char *target) {
    const uint32_t base =
        // Any base that is aligned to the pattern of the swizzle gives the same result.
        SHARED_FIRST;
    each_element(map, at, [&](size_t offset, const char *element) {
        const uint32_t address =
            sim_swizzled(base + static_cast<uint32_t>(offset), map.swizzle_bits);
        char *const place = target + (address - base);
        if (element != nullptr) {
            memcpy(place, element, map.element_bytes);
        } else if (map.nan_fill != 0) {
            memset(place, 0xff, map.element_bytes);
        } else {
            memset(place, 0, map.element_bytes);
        }
    });
}

void sim_bulk_deliver() {
    std::vector<sim_bulk_load> &all = sim_worker_running->bulk_loads;
    const size_t which = sim_worker_running->takes_newest() ? all.size() - 1 : 0;
    const sim_bulk_load load = all[which];
    all.erase(all.begin() + static_cast<std::ptrdiff_t>(which));
    const sim_tensor_map &map = read_map(&load.map);
    for (size_t i = 0; i < load.targets.size(); i++) {
        deliver_box(map, load.at, load.targets[i]);
        sim_mbarrier &barrier = sim_worker_running->mbarriers[load.barriers[i]];
        barrier.copied = barrier.phase;
        barrier.bytes -= static_cast<int64_t>(box_bytes(map));
        sim_mbarrier_settle(barrier);
    }
}

/* ---- stores ---- */

void tandem_sim_tensor_store(const tandem_sim_tensor_map *map, const int *at, int rank,
                             const void *from) {
    require_box(read_map(map), from, rank);
    if (!sim_thread_running()->hopper.stores_fenced)
        tandem_sim_fail("a bulk store without fence.proxy.async before the first of its group");
    sim_pending_store store = {*map, {0}, from};
    memcpy(store.at, at, static_cast<size_t>(rank) * sizeof *at);
    sim_thread_running()->hopper.stores.push_back(store);
}

void tandem_sim_proxy_fence() {
    sim_thread_running()->hopper.stores_fenced = true;
    sim_thread_running()->hopper.unfenced_reads.clear();
}

void tandem_sim_tensor_store_commit() {
    sim_thread_hopper &own = sim_thread_running()->hopper;
    own.stores_fenced = false;
    own.store_groups.push_back(own.stores.size());
}

static void finish_store(const sim_pending_store &store) {
    const sim_tensor_map &map = read_map(&store.map);
    const char *const from = static_cast<const char *>(store.from);
    each_element(map, store.at, [&](size_t offset, char *element) {
        const uint32_t address =
            sim_swizzled(SHARED_FIRST + static_cast<uint32_t>(offset), map.swizzle_bits);
        if (element != nullptr)
            memcpy(element, from + (address - SHARED_FIRST), map.element_bytes);
    });
}

void tandem_sim_tensor_store_wait(int pending) {
    sim_thread_hopper &own = sim_thread_running()->hopper;
    const size_t kept = static_cast<size_t>(pending);
    if (own.store_groups.size() <= kept)
        return;
    const size_t passed = own.store_groups.size() - kept, done = own.store_groups[passed - 1];
    for (size_t i = 0; i < done; i++)
        finish_store(own.stores[i]);
    own.stores.erase(own.stores.begin(), own.stores.begin() + static_cast<std::ptrdiff_t>(done));
    own.store_groups.erase(own.store_groups.begin(),
                           own.store_groups.begin() + static_cast<std::ptrdiff_t>(passed));
    for (size_t &end : own.store_groups)
        end -= done;
}

/* ---- registers ---- */

void tandem_sim_set_registers(int count) {
    if (count < 24 || count > 256 || count % 8 != 0)
        tandem_sim_fail("setmaxnreg to %d registers", count);
}
