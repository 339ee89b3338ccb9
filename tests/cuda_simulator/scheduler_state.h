/*
 * This header holds the scheduler's state of the running threads and blocks. scheduler.cpp and the
 * files *_words.cpp share it. */
#ifndef TANDEM_TESTS_CUDA_SIMULATOR_SCHEDULER_STATE_H
#define TANDEM_TESTS_CUDA_SIMULATOR_SCHEDULER_STATE_H

#include <memory>
#include <string>
#include <vector>

#include "tests/cuda_simulator/fiber.h"
#include "tests/cuda_simulator/scheduler.h"
#include "tests/cuda_simulator/simulator_hopper.h"

struct sim_exchange;
struct sim_block;

enum {
    SIM_EXCHANGES = 4,
    SIM_WARP = 32,
    SIM_BARRIERS = 16
};

enum sim_waiting {
    SIM_RUNS,
    SIM_AT_BARRIER,
    SIM_AT_CLUSTER_BARRIER,
    SIM_AT_EXCHANGE,
    SIM_AT_MBARRIER,
    SIM_LEFT
};

struct sim_copy {
    void *to;
    size_t size;
    unsigned char bytes[16];
};

/* A matrix multiplication that the thread has requested. */
struct sim_pending_product {
    tandem_sim_product product;
    void *d;
};

/* Pending multiplications write these registers of a thread. `values` holds the results so far. */
struct sim_held_registers {
    void *d;
    int count;
    uint32_t values[128];
};

struct sim_pending_store {
    tandem_sim_tensor_map map;
    int at[5];
    const void *from;
};

/* These are the pending operations of a thread that compute capability 9.0a introduced. */
struct sim_thread_hopper {
    std::vector<sim_pending_product> products;
    std::vector<size_t> product_groups; /* ends of groups in products */
    std::vector<sim_held_registers> held;
    bool fenced = false;
    bool stores_fenced = false;
    std::vector<sim_pending_store> stores;
    std::vector<size_t> store_groups;
    std::vector<const char *> unfenced_reads; /* since the last proxy fence */
    bool is_idle() const {
        return product_groups.empty() && products.empty() && store_groups.empty() &&
               stores.empty() && unfenced_reads.empty() && !fenced && !stores_fenced;
    }
};

struct sim_thread : tandem_sim_thread {
    sim_block *home;
    sim_fiber *fiber;
    sim_waiting waiting;
    int site; /* line of the barrier at which it waits */
    sim_exchange *exchanges[SIM_EXCHANGES];
    int exchange_count;
    std::vector<sim_copy> copies;  /* pending */
    std::vector<size_t> committed; /* ends of groups in copies */
    sim_thread_hopper hopper;
};

/* In an exchange, lanes of a warp wait for each other and share data. The object is reused when all
 * lanes have read. */
struct sim_exchange {
    const char *operation;
    uint32_t mask, arrived, unread;
    size_t bytes;
    unsigned char values[SIM_WARP][TANDEM_SIM_EXCHANGE_BYTES];
    sim_thread *waiting[SIM_WARP];
};

struct sim_barrier {
    int arrived, site, wanted;
    long passed; /* how often all threads have arrived */
    std::vector<sim_thread *> waiting;
};

struct sim_mbarrier {
    uint64_t *place;
    const sim_thread *maker;
    bool fenced; /* its init is ordered before bulk copies and other blocks */
    uint32_t count, missing, parity;
    int64_t bytes;
    std::vector<sim_thread *> waiting;
    long made; /* number of cluster barriers that were passed before its initialisation */
    /* Phases are numbered from 1 on. `seen` is the last phase for which threads of the block have
     * waited. `copied` is the last one with a bulk copy. `reached` is the last one with an arrival
     * from another block. `reached_after` counts the cluster barriers that were passed before that
     * arrival. */
    long phase, seen, copied, reached, reached_after;
};

/* This is a pending bulk copy to one or several blocks. */
struct sim_bulk_load {
    tandem_sim_tensor_map map;
    int at[5];
    std::vector<char *> targets;
    std::vector<size_t> barriers; /* one for each target */
};

struct sim_freed {
    void operator()(void *memory) const;
};

/* This memory has exactly its size, so that AddressSanitizer detects accesses beyond it. */
struct sim_shared {
    const void *site;
    size_t bytes;
    long run; /* number of the block for which it was last filled */
    std::unique_ptr<void, sim_freed> memory;
};

struct sim_block : tandem_sim_block {
    sim_barrier barriers[SIM_BARRIERS];
    std::vector<sim_shared> shared;
    sim_shared dynamic;
    int left; /* threads that have ended */
    std::vector<std::vector<std::unique_ptr<sim_exchange>>> warps;
};

class sim_worker_state {
  public:
    sim_launch launch;
    std::string message;
    sim_outcome outcome = SIM_DONE;
    size_t static_bytes = 0;

    sim_outcome run(const sim_launch &wanted);

    /* Suspends the running thread, which has recorded its reason; returns when it is ready
     * again. */
    void wait();
    void make_ready(sim_thread *thread);
    /* Abandons the stack of the running thread. No object on it may own resources. */
    [[noreturn]] void fail(sim_outcome outcome, const char *text);
    void arrive(sim_barrier &barrier, int wanted, int site, sim_waiting waiting, const char *what);
    void *shared(sim_shared &memory);
    void *declared(sim_block &block, const void *site, size_t bytes);
    sim_block &block_of_rank(int rank);
    sim_barrier cluster_barrier;
    std::vector<sim_mbarrier> mbarriers; /* of all blocks of the cluster */
    std::vector<sim_bulk_load> bulk_loads;
    std::vector<uint32_t> product_scratch; /* elements and sums of one multiplication */
    const std::vector<sim_thread> &threads() const {
        return threads_;
    }
    bool takes_newest() const {
        return reversed_;
    }
    ~sim_worker_state();

  private:
    std::vector<std::unique_ptr<sim_block>> blocks_; /* of one cluster */
    std::vector<sim_thread> threads_;                /* of all these blocks */
    std::vector<sim_thread *> ready_;                /* a ring buffer */
    size_t ready_first_ = 0, ready_count_ = 0;
    std::vector<std::unique_ptr<sim_fiber>> fibers_;
    std::vector<sim_fiber *> idle_;
    sim_fiber own_;
    sim_fiber *running_ = nullptr;
    sim_fiber *switched_from_ = nullptr;
    size_t unstarted_ = 0, left_ = 0;
    bool reversed_ = false;
    long runs_ = 0;

    void shape();
    void shape_threads(sim_block &block, size_t first);
    void place(long number);
    void begin_cluster(long number);
    void switch_to(sim_fiber *to);
    sim_fiber *fiber_for_new_thread();
    sim_thread *next_unstarted();
    sim_thread *next_ready();
    bool deliver();
    void go_on(bool leaving);
    static void fiber_entry();
    [[noreturn]] void run_threads();
    [[noreturn]] void fail_stuck();
    void compose(const char *text);
    void abandon();
};

extern __thread sim_worker_state *sim_worker_running __attribute__((tls_model("initial-exec")));

static inline sim_thread *sim_thread_running() {
    return static_cast<sim_thread *>(tandem_sim_self);
}

/* Advances a barrier to its next phase if no arrival and no bytes are missing. Threads that wait
 * for the phase become ready. */
void sim_mbarrier_settle(sim_mbarrier &barrier);
/* Call this when all threads have left. The launch fails if a block did not wait for a bulk copy to
 * it. It also fails if an arrival from another block may come after the block has left. */
void sim_mbarriers_require_seen();
/* Delivers the oldest bulk copy, or the newest one. */
void sim_bulk_deliver();

/* Returns the location of a shared address in a block's memory of the launch, or NULL. */
char *sim_shared_place(sim_block &block, uint32_t address);

/* Fails the launch unless the bytes are in shared memory of the block; `what` names the operation
 * that needs them. */
void sim_require_shared(const sim_block &block, const void *place, size_t bytes, const char *what);

/* Fails the launch on a device before that compute capability (times 10); `what` names the
 * operation that the device lacks. */
void sim_require_architecture(int least, const char *what);

/* Fills memory with numbers that are NaN as f32, f16 and bf16. */
void sim_fill_with_nan(void *memory, size_t bytes);

#endif
