#include "tests/cuda_simulator/scheduler.h"

#include <cstdarg>
#include <cstdio>
#include <cstdlib>

#include "tests/cuda_simulator/scheduler_state.h"

__thread tandem_sim_thread *tandem_sim_self __attribute__((tls_model("initial-exec")));
__thread sim_worker_state *sim_worker_running __attribute__((tls_model("initial-exec")));

void sim_freed::operator()(void *memory) const {
    free(memory);
}

/* ---- shape of a launch ---- */

void sim_worker_state::shape_threads(sim_block &block, size_t first) {
    const int *const size = block.size;
    block.warps.clear();
    block.warps.resize(static_cast<size_t>((block.threads + SIM_WARP - 1) / SIM_WARP));
    for (int i = 0; i < block.threads; i++) {
        sim_thread &thread = threads_[first + static_cast<size_t>(i)];
        thread.item[0] = i % size[0];
        thread.item[1] = i / size[0] % size[1];
        thread.item[2] = i / size[0] / size[1];
        thread.lane = i % SIM_WARP;
        thread.warp = i / SIM_WARP;
        thread.block = &block;
        thread.home = &block;
    }
}

void sim_worker_state::shape() {
    const size_t blocks =
        static_cast<size_t>(launch.cluster[0] * launch.cluster[1] * launch.cluster[2]);
    const int threads = launch.block[0] * launch.block[1] * launch.block[2];
    const size_t total = blocks * static_cast<size_t>(threads);
    while (blocks_.size() < blocks)
        blocks_.push_back(std::make_unique<sim_block>());
    threads_.resize(total);
    ready_.assign(total, nullptr);
    for (size_t b = 0; b < blocks; b++) {
        sim_block &block = *blocks_[b];
        for (int d = 0; d < 3; d++) {
            block.size[d] = launch.block[d];
            block.groups[d] = launch.grid[d];
        }
        block.threads = threads;
        block.cluster_rank = static_cast<int>(b);
        block.cluster_size = static_cast<int>(blocks);
        block.shared.clear(); /* they belong to another kernel */
        if (block.dynamic.bytes != launch.dynamic_bytes)
            block.dynamic = sim_shared{&block, launch.dynamic_bytes, 0, nullptr};
        shape_threads(block, b * static_cast<size_t>(threads));
    }
    static_bytes = 0;
}

void sim_worker_state::begin_cluster(long number) {
    long cluster[3];
    for (int d = 0; d < 3; d++) {
        const long count = launch.grid[d] / launch.cluster[d];
        cluster[d] = number % count;
        number /= count;
    }
    const size_t blocks =
        static_cast<size_t>(launch.cluster[0] * launch.cluster[1] * launch.cluster[2]);
    for (size_t b = 0; b < blocks; b++) {
        long rank = static_cast<long>(b);
        for (int d = 0; d < 3; d++) {
            blocks_[b]->group[d] = cluster[d] * launch.cluster[d] + rank % launch.cluster[d];
            rank /= launch.cluster[d];
        }
        blocks_[b]->left = 0;
    }
    mbarriers.clear();
    runs_++;
    reversed_ = runs_ % 2 == 0;
    unstarted_ = left_ = 0;
    ready_first_ = ready_count_ = 0;
}

/* ---- threads and fibers ---- */

void sim_worker_state::switch_to(sim_fiber *to) {
    sim_fiber *const from = running_;
    switched_from_ = from;
    running_ = to;
    sim_fiber_switch(from, to);
}

void sim_worker_state::fiber_entry() {
    sim_fiber_begin(sim_worker_running->switched_from_);
    sim_worker_running->run_threads();
}

sim_fiber *sim_worker_state::fiber_for_new_thread() {
    if (idle_.empty()) {
        fibers_.push_back(std::make_unique<sim_fiber>());
        if (!sim_fiber_create(fibers_.back().get(), fiber_entry)) {
            fprintf(stderr, "tandem simulator: no memory for the stack of a thread\n");
            abort();
        }
        return fibers_.back().get();
    }
    sim_fiber *const fiber = idle_.back();
    idle_.pop_back();
    return fiber;
}

sim_thread *sim_worker_state::next_unstarted() {
    if (unstarted_ == threads_.size())
        return nullptr;
    const size_t at = reversed_ ? threads_.size() - 1 - unstarted_ : unstarted_;
    unstarted_++;
    sim_thread *const thread = &threads_[at];
    thread->fiber = running_;
    thread->waiting = SIM_RUNS;
    thread->exchange_count = 0;
    if (!thread->copies.empty() || !thread->committed.empty()) {
        thread->copies.clear();
        thread->committed.clear();
    }
    if (!thread->hopper.is_idle())
        thread->hopper = sim_thread_hopper();
    return thread;
}

void sim_worker_state::make_ready(sim_thread *thread) {
    thread->waiting = SIM_RUNS;
    size_t at = ready_first_ + ready_count_++;
    if (at >= ready_.size())
        at -= ready_.size();
    ready_[at] = thread;
}

/* Delivers bulk copies as late as possible, when no thread can continue. Returns false if that
 * makes no thread ready. */
bool sim_worker_state::deliver() {
    while (ready_count_ == 0 && !bulk_loads.empty()) {
        if (left_ == threads_.size()) {
            char text[128];
            snprintf(text, sizeof text, "the kernel ended with %zu bulk copies under way",
                     bulk_loads.size());
            fail(SIM_LAUNCH_FAILED, text);
        }
        sim_bulk_deliver();
    }
    return ready_count_ > 0;
}

sim_thread *sim_worker_state::next_ready() {
    if (ready_count_ == 0 && !deliver())
        return nullptr;
    sim_thread *const thread = ready_[ready_first_];
    ready_first_ = ready_first_ + 1 == ready_.size() ? 0 : ready_first_ + 1;
    ready_count_--;
    return thread;
}

/* Suspends the thread of the running fiber and continues another one. */
void sim_worker_state::wait() {
    sim_thread *const thread = sim_thread_running();
    if (unstarted_ < threads_.size())
        switch_to(fiber_for_new_thread());
    else if (sim_thread *const next = next_ready())
        switch_to(next->fiber);
    else
        fail_stuck();
    tandem_sim_self = thread;
}

/* Fails if a thread leaves while operations that read or write for it are pending. */
static void require_idle(const sim_thread_hopper &own) {
    if (!own.products.empty() || !own.stores.empty()) {
        tandem_sim_fail("the thread left with %zu products and %zu bulk stores under way",
                        own.products.size(), own.stores.size());
    }
}

/* Runs new threads one after another, then switches to fibers of waiting threads that are ready.
 * Each pass of the outer loop is another use of the fiber. */
void sim_worker_state::run_threads() {
    for (;;) {
        while (sim_thread *const thread = next_unstarted()) {
            tandem_sim_self = thread;
            launch.kernel->invoke(launch.values);
            require_idle(thread->hopper);
            thread->waiting = SIM_LEFT;
            thread->home->left++;
            left_++;
        }
        if (sim_thread *const next = next_ready()) {
            idle_.push_back(running_);
            switch_to(next->fiber);
        } else if (left_ == threads_.size()) {
            sim_mbarriers_require_seen();
            idle_.push_back(running_);
            switch_to(&own_);
        } else {
            fail_stuck();
        }
    }
}

void sim_worker_state::fail_stuck() {
    int counts[SIM_LEFT + 1] = {0};
    const sim_thread *waits = nullptr;
    for (const sim_thread &thread : threads_) {
        counts[thread.waiting]++;
        if (waits == nullptr && thread.waiting != SIM_RUNS && thread.waiting != SIM_LEFT)
            waits = &thread;
    }
    char where[128] = "";
    if (waits != nullptr && waits->waiting == SIM_AT_EXCHANGE) {
        snprintf(where, sizeof where, "; thread (%d, %d, %d) waits in %s", waits->item[0],
                 waits->item[1], waits->item[2],
                 waits->exchanges[waits->exchange_count - 1]->operation);
    } else if (waits != nullptr) {
        snprintf(where, sizeof where, "; thread (%d, %d, %d) waits at line %d", waits->item[0],
                 waits->item[1], waits->item[2], waits->site);
    }
    char text[512];
    snprintf(
        text, sizeof text,
        "deadlock: of %zu threads %d wait at a barrier of the block, %d at one of the cluster, "
        "%d for lanes of their warp, %d at an mbarrier, and %d have left the kernel%s",
        threads_.size(), counts[SIM_AT_BARRIER], counts[SIM_AT_CLUSTER_BARRIER],
        counts[SIM_AT_EXCHANGE], counts[SIM_AT_MBARRIER], counts[SIM_LEFT], where);
    fail(SIM_LAUNCH_FAILED, text);
}

/* ---- failures ---- */

void sim_worker_state::compose(const char *text) {
    const sim_thread *const thread = sim_thread_running();
    char head[512];
    snprintf(head, sizeof head,
             "kernel %s, block (%ld, %ld, %ld), thread (%d, %d, %d): ", launch.kernel->name,
             thread->block->group[0], thread->block->group[1], thread->block->group[2],
             thread->item[0], thread->item[1], thread->item[2]);
    message = head;
    message += text;
}

void sim_worker_state::fail(sim_outcome why, const char *text) {
    compose(text);
    outcome = why;
    switch_to(&own_);
    abort(); /* nobody continues a thread that failed */
}

/* Forgets threads that failed or would wait forever, together with their stacks. */
void sim_worker_state::abandon() {
    idle_.clear();
    for (const std::unique_ptr<sim_fiber> &fiber : fibers_) {
        sim_fiber_reset(fiber.get(), fiber_entry);
        idle_.push_back(fiber.get());
    }
    blocks_.clear();
    bulk_loads.clear();
    cluster_barrier = sim_barrier();
}

void tandem_sim_fail(const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    sim_worker_running->fail(SIM_LAUNCH_FAILED, text);
}

void tandem_sim_fail_address(const char *format, ...) {
    char text[1024];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    sim_worker_running->fail(SIM_ILLEGAL_ADDRESS, text);
}

void tandem_sim_fail_misaligned(const void *p, size_t bytes) {
    char text[128];
    snprintf(text, sizeof text, "an access of %zu bytes at %p, which is no multiple of them", bytes,
             p);
    sim_worker_running->fail(SIM_MISALIGNED_ADDRESS, text);
}

void sim_require_architecture(int least, const char *what) {
    const int here = sim_worker_running->launch.architecture;
    if (here != 0 && here < least)
        tandem_sim_fail("%s is of compute capability %d.%d", what, least / 10, least % 10);
}

/* ---- launches ---- */

sim_outcome sim_worker_state::run(const sim_launch &wanted) {
    launch = wanted;
    shape();
    outcome = SIM_DONE;
    sim_worker_running = this;
    const long clusters = launch.grid[0] / launch.cluster[0] *
                          (launch.grid[1] / launch.cluster[1]) *
                          (launch.grid[2] / launch.cluster[2]);
    running_ = &own_;
    for (long number = 0; number < clusters && outcome == SIM_DONE; number++) {
        begin_cluster(number);
        switch_to(fiber_for_new_thread());
        running_ = &own_;
    }
    if (outcome != SIM_DONE)
        abandon();
    sim_worker_running = nullptr;
    tandem_sim_self = nullptr;
    return outcome;
}

sim_worker_state::~sim_worker_state() {
    for (const std::unique_ptr<sim_fiber> &fiber : fibers_)
        sim_fiber_destroy(fiber.get());
}

sim_worker::sim_worker() : state_(std::make_unique<sim_worker_state>()) {}
sim_worker::~sim_worker() = default;

sim_outcome sim_worker::run(const sim_launch &launch) {
    return state_->run(launch);
}

const std::string &sim_worker::message() const {
    return state_->message;
}

size_t sim_worker::static_bytes() const {
    return state_->static_bytes;
}

/* ---- the kernels of this library ---- */

static tandem_sim_kernel *first_kernel;

void tandem_sim_register(tandem_sim_kernel *kernel) {
    kernel->next = first_kernel;
    first_kernel = kernel;
}

const tandem_sim_kernel *sim_kernel_first() {
    return first_kernel;
}

const tandem_sim_kernel *sim_kernel_find(const char *name, int architecture) {
    const tandem_sim_kernel *found = nullptr;
    for (const tandem_sim_kernel *kernel = first_kernel; kernel != nullptr; kernel = kernel->next) {
        const bool fits = kernel->architecture <= architecture &&
                          (kernel->before == 0 || architecture < kernel->before);
        if (fits && strcmp(kernel->name, name) == 0 && (found == nullptr || kernel->before != 0))
            found = kernel;
    }
    return found;
}
