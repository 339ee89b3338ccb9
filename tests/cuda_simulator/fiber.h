/* A fiber is a stack. One operating-system thread switches between fibers without a system call. */
#ifndef TANDEM_TESTS_CUDA_SIMULATOR_FIBER_H
#define TANDEM_TESTS_CUDA_SIMULATOR_FIBER_H

#include <cstddef>

struct sim_fiber {
    void *stack_pointer = nullptr; /* while it does not run */
    char *stack = nullptr;         /* lowest address; NULL for the thread's own fiber */
    size_t bytes = 0;
    void *fake_stack = nullptr; /* of AddressSanitizer */
};

/* Creates a fiber that calls entry() at the first switch to it; entry() never returns. Returns
 * false if memory is lacking. */
bool sim_fiber_create(sim_fiber *fiber, void (*entry)());
/* Restores the state after sim_fiber_create and abandons the code that ran on the fiber. */
void sim_fiber_reset(sim_fiber *fiber, void (*entry)());
void sim_fiber_destroy(sim_fiber *fiber);

/* Continues in `to`; returns when another fiber switches back to `from`, which is the running
 * fiber. */
void sim_fiber_switch(sim_fiber *from, sim_fiber *to);

/* This must be the first call on a new fiber. `from` is the fiber that switched to it. */
void sim_fiber_begin(sim_fiber *from);

#endif
