/*
 * Runs the blocks of a launch one after another, and the threads of a block as fibers of the
 * calling thread.
 *
 * A fiber continues with the next thread of the block when its own has ended. A kernel in which
 * nothing waits is therefore a plain loop on one stack; only a waiting thread needs a stack of its
 * own. */
#ifndef TANDEM_TESTS_CUDA_SIMULATOR_SCHEDULER_H
#define TANDEM_TESTS_CUDA_SIMULATOR_SCHEDULER_H

#include <memory>
#include <string>

#include "tests/cuda_simulator/simulator_kernel.h"

struct sim_launch {
    const tandem_sim_kernel *kernel;
    void *const *values; /* values of the parameters, aligned for their types */
    int block[3];
    long grid[3];
    int cluster[3]; /* 1, 1, 1: none */
    size_t dynamic_bytes;
    size_t static_limit; /* bytes of shared memory that the kernel may declare */
    int architecture;    /* compute capability times 10; 0: supports every operation */
};

enum sim_outcome {
    SIM_DONE,
    SIM_LAUNCH_FAILED,
    SIM_ILLEGAL_ADDRESS,
    SIM_MISALIGNED_ADDRESS
};

class sim_worker_state;

/* A worker keeps the resources of an operating-system thread between launches: stacks and shared
 * memory. */
class sim_worker {
  public:
    sim_worker();
    ~sim_worker();
    sim_outcome run(const sim_launch &launch);
    /* Returns the message of the last failed run. */
    const std::string &message() const;
    /* Returns the bytes of shared memory that the kernel of the last run declared. */
    size_t static_bytes() const;

  private:
    std::unique_ptr<sim_worker_state> state_;
};

constexpr int sim_any_architecture = 9999;
/* Finds a kernel by its name for a compute capability times 10. Returns NULL if there is none. Call
 * this only after the library was loaded. */
const tandem_sim_kernel *sim_kernel_find(const char *name, int architecture = sim_any_architecture);
const tandem_sim_kernel *sim_kernel_first();

#endif
