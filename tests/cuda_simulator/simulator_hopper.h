/*
 * What kernels for compute capability 9.0a ask of the CUDA simulator: mbarriers, bulk copies of tensors (TMA), matrix products of
 * warpgroups (wgmma), groups of a cluster. Part of simulator_kernel.h's interface, for the texts that use them.
 *
 * All of it is as late as the hardware may be, and as early where that harms: a bulk copy makes its target NaNs at once and fills
 * it when no thread can go on without; a product reads shared memory at the wait that covers it, and its registers are NaNs until
 * then. What the generic proxy wrote is always seen by the asynchronous one: a missing fence.proxy.async shows for the thread that
 * asks for stores, and for threads that have read by tandem_sim_shared_read what a bulk copy is to overwrite.
 */
#ifndef TANDEM_TESTS_CUDA_SIMULATOR_SIMULATOR_HOPPER_H
#define TANDEM_TESTS_CUDA_SIMULATOR_SIMULATOR_HOPPER_H

#include <cstdint>

/* ---- shared memory ---- */

/*
 * Where `place` is in the window of shared memory, as descriptors have it. Only what the launch asked for is there, from 1024 on;
 * what a kernel declares has no such address here.
 */
uint32_t tandem_sim_shared_address(const void *place);

/* ---- mbarriers ---- */

/* Eight bytes of shared memory, in all words a place in the thread's own block. */
void tandem_sim_mbarrier_init(uint64_t *barrier, uint32_t count);
/* fence.mbarrier_init: what this thread made may be used by bulk copies and by other blocks. */
void tandem_sim_mbarrier_init_fence();
/* One arrival, which also makes the phase wait for `bytes` of bulk copies. */
void tandem_sim_mbarrier_arrive(uint64_t *barrier, uint32_t bytes);
/* One arrival at the same barrier of block `rank` of the cluster. */
void tandem_sim_mbarrier_arrive_rank(uint64_t *barrier, int rank);
/* Until the phase of that parity, 0 for the first, is complete. */
void tandem_sim_mbarrier_wait(uint64_t *barrier, uint32_t parity, int site);

/* ---- bulk copies of tensors ---- */

struct alignas(64) tandem_sim_tensor_map {
    unsigned char opaque[128]; /* tensor_map.h */
};

/*
 * The box at `at` (innermost first, may be outside of the tensor: zeros) to `to`, and its bytes to `barrier`, in each block of
 * `blocks` (bit r: rank r of the cluster, at the same places), or in the own one where that is 0.
 */
void tandem_sim_tensor_load(void *to, const tandem_sim_tensor_map *map, const int *at, int rank,
                            uint64_t *barrier, uint32_t blocks);
/* The box from shared memory; what is outside of the tensor is not written. Read and written at the wait that covers it. */
void tandem_sim_tensor_store(const tandem_sim_tensor_map *map, const int *at, int rank,
                             const void *from);
/* fence.proxy.async: a group of stores begins with one by the thread that asks for them, and what a thread has read is not overwritten
 * by a bulk copy before its own. */
void tandem_sim_proxy_fence();
/* The thread reads shared memory at this place, other than by a product or a bulk store. */
void tandem_sim_shared_read(const void *place);
void tandem_sim_tensor_store_commit();
/* Until at most `pending` of the latest groups of the thread's stores still read shared memory. */
void tandem_sim_tensor_store_wait(int pending);

/* ---- products of warpgroups ---- */

enum tandem_sim_element {
    TANDEM_SIM_F16,
    TANDEM_SIM_BF16,
    TANDEM_SIM_S8,
    TANDEM_SIM_U8
};

/* One wgmma.mma_async of m64nNkK, K being 32 bytes: D = A·B + D, both from shared memory. */
struct tandem_sim_product {
    int n;
    tandem_sim_element a_element, b_element;
    bool a_transposed, b_transposed; /* contiguous along M, N in place of K */
    uint64_t a, b;                   /* descriptors */
    bool adds;                       /* false: D is not read */
};
/* `d`: the thread's n / 2 registers. */
void tandem_sim_multiply(const tandem_sim_product &product, void *d);
void tandem_sim_multiply_fence();
void tandem_sim_multiply_commit();
void tandem_sim_multiply_wait(int pending);

/* setmaxnreg, by all threads of a warpgroup. */
void tandem_sim_set_registers(int count);

#endif
