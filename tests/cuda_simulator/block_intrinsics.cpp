/* This file implements the resources that the threads of a block share: barriers, memory, and
 * copies into it. */
#include <cstdlib>

#include "tests/cuda_simulator/scheduler_state.h"

/* ---- barriers ---- */

void sim_worker_state::arrive(sim_barrier &barrier, int wanted, int site, sim_waiting waiting,
                              const char *what) {
    sim_thread *const thread = sim_thread_running();
    if (barrier.arrived == 0) {
        barrier.site = site;
        barrier.wanted = wanted;
    } else if (barrier.site != site || barrier.wanted != wanted) {
        tandem_sim_fail("%s in divergent control flow: this thread is at line %d (of %d threads), "
                        "others wait at line %d (of %d)",
                        what, site, wanted, barrier.site, barrier.wanted);
    }
    if (++barrier.arrived == wanted) {
        barrier.arrived = 0;
        barrier.passed++;
        for (sim_thread *const other : barrier.waiting)
            make_ready(other);
        barrier.waiting.clear();
        return;
    }
    thread->waiting = waiting;
    thread->site = site;
    barrier.waiting.push_back(thread);
    wait();
}

void tandem_sim_barrier(int site) {
    sim_block &block = *sim_thread_running()->home;
    sim_worker_running->arrive(block.barriers[0], block.threads, site, SIM_AT_BARRIER, "a barrier");
}

void tandem_sim_named_barrier(int index, int threads) {
    sim_block &block = *sim_thread_running()->home;
    if (index < 1 || index >= SIM_BARRIERS || threads < 1 || threads % SIM_WARP != 0 ||
        threads > block.threads) {
        tandem_sim_fail("barrier %d of %d threads, of a block of %d", index, threads,
                        block.threads);
    }
    sim_worker_running->arrive(block.barriers[index], threads, index, SIM_AT_BARRIER,
                               "a named barrier");
}

void tandem_sim_cluster_barrier(int site) {
    const sim_block &block = *sim_thread_running()->home;
    sim_worker_running->arrive(sim_worker_running->cluster_barrier,
                               block.threads * block.cluster_size, site, SIM_AT_CLUSTER_BARRIER,
                               "a barrier of the cluster");
}

/* ---- shared memory ---- */

void sim_fill_with_nan(void *memory, size_t bytes) {
    static const unsigned char pattern[4] = {0xe5, 0xff, 0xe5, 0xff};
    unsigned char *const to = static_cast<unsigned char *>(memory);
    size_t filled = bytes < sizeof pattern ? bytes : sizeof pattern;
    memcpy(to, pattern, filled);
    while (filled < bytes) {
        const size_t more = filled < bytes - filled ? filled : bytes - filled;
        memcpy(to + filled, to, more);
        filled += more;
    }
}

/* Returns the memory. It is filled with NaNs again if the block changed since the last call. */
void *sim_worker_state::shared(sim_shared &memory) {
    if (memory.memory == nullptr) {
        void *fresh = nullptr;
        if (posix_memalign(&fresh, 1024, memory.bytes > 0 ? memory.bytes : 1) != 0)
            fail(SIM_LAUNCH_FAILED, "no host memory for shared memory");
        memory.memory.reset(fresh);
        memory.run = -1;
    }
    if (memory.run != runs_) {
        memory.run = runs_;
        if (memory.bytes > 0)
            sim_fill_with_nan(memory.memory.get(), memory.bytes);
    }
    return memory.memory.get();
}

void *sim_worker_state::declared(sim_block &block, const void *site, size_t bytes) {
    size_t total = bytes;
    for (sim_shared &memory : block.shared) {
        if (memory.site == site)
            return shared(memory);
        total += memory.bytes;
    }
    if (total > launch.static_limit) {
        tandem_sim_fail("its declarations take %zu bytes of shared memory, and %zu are allowed",
                        total, launch.static_limit);
    }
    static_bytes = total > static_bytes ? total : static_bytes;
    block.shared.push_back(sim_shared{site, bytes, -1, nullptr});
    return shared(block.shared.back());
}

void *tandem_sim_shared(const void *site, size_t bytes) {
    return sim_worker_running->declared(*sim_thread_running()->home, site, bytes);
}

void *tandem_sim_dynamic_shared() {
    return sim_worker_running->shared(sim_thread_running()->home->dynamic);
}

static bool holds(const sim_shared &memory, const char *place) {
    const char *const start = static_cast<const char *>(memory.memory.get());
    return start != nullptr && place >= start && place < start + memory.bytes;
}

void *tandem_sim_cluster_shared(void *local, int rank) {
    sim_block &own = *sim_thread_running()->home;
    if (rank < 0 || rank >= own.cluster_size)
        tandem_sim_fail("block %d of a cluster of %d", rank, own.cluster_size);
    sim_block &other = sim_worker_running->block_of_rank(rank);
    if (other.left == other.threads) {
        tandem_sim_fail_address("block %d of the cluster has left, and its shared memory with it",
                                rank);
    }
    const char *const place = static_cast<const char *>(local);
    for (const sim_shared &memory : own.shared) {
        if (holds(memory, place)) {
            void *const there = sim_worker_running->declared(other, memory.site, memory.bytes);
            return static_cast<char *>(there) +
                   (place - static_cast<const char *>(memory.memory.get()));
        }
    }
    if (holds(own.dynamic, place)) {
        return static_cast<char *>(sim_worker_running->shared(other.dynamic)) +
               (place - static_cast<const char *>(own.dynamic.memory.get()));
    }
    tandem_sim_fail_address("%p is not in the block's shared memory", local);
}

void sim_require_shared(const sim_block &block, const void *place, size_t bytes, const char *what) {
    const char *const first = static_cast<const char *>(place);
    bool found = holds(block.dynamic, first) && holds(block.dynamic, first + bytes - 1);
    for (const sim_shared &memory : block.shared)
        found = found || (holds(memory, first) && holds(memory, first + bytes - 1));
    if (!found)
        tandem_sim_fail_address("%s %p, which is not in the block's shared memory", what, place);
}

sim_block &sim_worker_state::block_of_rank(int rank) {
    return *blocks_[static_cast<size_t>(rank)];
}

/* ---- asynchronous copies ---- */

static void copy_later(void *to, const void *from, int bytes_valid, int bytes) {
    sim_thread *const thread = sim_thread_running();
    const auto unit = static_cast<uintptr_t>(bytes);
    sim_require_architecture(80, "cp.async");
    if (bytes_valid < 0 || bytes_valid > bytes)
        tandem_sim_fail("an asynchronous copy of %d bytes out of %d", bytes_valid, bytes);
    if (reinterpret_cast<uintptr_t>(to) % unit != 0 ||
        (bytes_valid > 0 && reinterpret_cast<uintptr_t>(from) % unit != 0)) {
        tandem_sim_fail_address("an asynchronous copy from %p to %p: both are multiples of %d",
                                from, to, bytes);
    }
    sim_require_shared(*thread->home, to, static_cast<size_t>(bytes), "an asynchronous copy to");
    sim_copy copy = {to, static_cast<size_t>(bytes), {0}};
    if (bytes_valid > 0)
        memcpy(copy.bytes, from, static_cast<size_t>(bytes_valid));
    sim_fill_with_nan(to, copy.size);
    thread->copies.push_back(copy);
}

void tandem_sim_async_copy(void *to, const void *from, int bytes_valid) {
    copy_later(to, from, bytes_valid, 16);
}

void tandem_sim_async_copy_4(void *to, const void *from, int bytes_valid) {
    copy_later(to, from, bytes_valid, 4);
}

void tandem_sim_async_commit() {
    sim_thread *const thread = sim_thread_running();
    thread->committed.push_back(thread->copies.size());
}

void tandem_sim_async_wait(int pending) {
    sim_thread *const thread = sim_thread_running();
    const size_t groups = thread->committed.size(), kept = static_cast<size_t>(pending);
    if (pending < 0)
        tandem_sim_fail("a wait for %d groups of asynchronous copies", pending);
    if (groups <= kept)
        return;
    const size_t passed = groups - kept, arrived = thread->committed[passed - 1];
    for (size_t i = 0; i < arrived; i++)
        memcpy(thread->copies[i].to, thread->copies[i].bytes, thread->copies[i].size);
    thread->copies.erase(thread->copies.begin(),
                         thread->copies.begin() + static_cast<std::ptrdiff_t>(arrived));
    thread->committed.erase(thread->committed.begin(),
                            thread->committed.begin() + static_cast<std::ptrdiff_t>(passed));
    for (size_t &end : thread->committed)
        end -= arrived;
}
