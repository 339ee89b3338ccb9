/*
 * Fibers: stacks that one thread of the system switches between, without a system call.
 */
#ifndef TANDEM_TESTS_CUDA_SIMULATOR_FIBER_H
#define TANDEM_TESTS_CUDA_SIMULATOR_FIBER_H

#include <cstddef>

struct sim_fiber {
    void *stack_pointer = nullptr; /* while it does not run */
    char *stack = nullptr;         /* lowest address; the thread's own fiber has none of ours */
    size_t bytes = 0;
    void *fake_stack = nullptr; /* AddressSanitizer's */
};

/* A fiber that will call entry(), which never returns, when it is first switched to. False: no memory. */
bool sim_fiber_create(sim_fiber *fiber, void (*entry)());
/* As after sim_fiber_create: what ran on it is abandoned. */
void sim_fiber_reset(sim_fiber *fiber, void (*entry)());
void sim_fiber_destroy(sim_fiber *fiber);

/* Go on in `to`; returns when somebody switches back to `from`, which is the fiber that runs. */
void sim_fiber_switch(sim_fiber *from, sim_fiber *to);

/* Must be called first by what runs on a new fiber; `from` is the fiber that switched to it. */
void sim_fiber_begin(sim_fiber *from);

#endif
