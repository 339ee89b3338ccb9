/*
 * The CUDA simulator's operations for compute capability 9.0a: mbarriers, bulk copies of tensors
 * (TMA), warpgroup matrix multiply (wgmma), cluster groups. Part of the interface of
 * simulator_kernel.h, for the kernel sources that use them.
 *
 * Every operation happens as late as the hardware allows, and as early where that is worse. A bulk
 * copy fills its target with NaNs at once and writes the data only when no thread can continue
 * without it. A multiplication reads shared memory at the wait that covers it; its registers are
 * NaNs until then. The asynchronous proxy always sees writes of the generic proxy. A missing
 * fence.proxy.async is detected in two cases: for a thread that issues bulk stores, and for threads
 * that have read, by tandem_sim_shared_read, data that a bulk copy overwrites. */
#ifndef TANDEM_TESTS_CUDA_SIMULATOR_SIMULATOR_HOPPER_H
#define TANDEM_TESTS_CUDA_SIMULATOR_SIMULATOR_HOPPER_H

#include <cstdint>

/* ---- shared memory ---- */

/*
 * Returns the address of `place` in the window of shared memory, as descriptors use it. The window
 * holds only dynamic shared memory, from 1024 on; memory that a kernel declares has no such address
 * here. */
uint32_t tandem_sim_shared_address(const void *place);

/* ---- mbarriers ---- */

/* An mbarrier is eight bytes of shared memory; all operations take its address in the thread's own
 * block. */
void tandem_sim_mbarrier_init(uint64_t *barrier, uint32_t count);
/* fence.mbarrier_init: bulk copies and other blocks may then use the mbarriers of this thread. */
void tandem_sim_mbarrier_init_fence();
/* Makes one arrival, and makes the phase wait for `bytes` of bulk copies. */
void tandem_sim_mbarrier_arrive(uint64_t *barrier, uint32_t bytes);
/* Makes one arrival at the same barrier of block `rank` of the cluster. */
void tandem_sim_mbarrier_arrive_rank(uint64_t *barrier, int rank);
/* Waits until the phase of that parity is complete; the first phase has parity 0. */
void tandem_sim_mbarrier_wait(uint64_t *barrier, uint32_t parity, int site);

/* ---- bulk copies of tensors ---- */

struct alignas(64) tandem_sim_tensor_map {
    unsigned char opaque[128]; /* tensor_map.h */
};

/*
 * Copies the box at `at` to `to` and reports its bytes to `barrier`. Coordinates are innermost
 * first and may lie outside of the tensor, which gives zeros. Each block of `blocks` receives it
 * (bit r: rank r of the cluster, at the same offsets); 0: only the own block. */
void tandem_sim_tensor_load(void *to, const tandem_sim_tensor_map *map, const int *at, int rank,
                            uint64_t *barrier, uint32_t blocks);
/* Copies the box from shared memory; parts outside of the tensor are not written. The copy reads
 * and writes at the wait that covers it. */
void tandem_sim_tensor_store(const tandem_sim_tensor_map *map, const int *at, int rank,
                             const void *from);
/* fence.proxy.async. A thread must call it before it issues a group of stores, and before a bulk
 * copy overwrites data that the thread has read. */
void tandem_sim_proxy_fence();
/* Notes that the thread reads shared memory at this address by means other than a multiplication or
 * a bulk store. */
void tandem_sim_shared_read(const void *place);
void tandem_sim_tensor_store_commit();
/* Waits until at most `pending` of the latest groups of the thread's stores still read shared
 * memory. */
void tandem_sim_tensor_store_wait(int pending);

/* ---- warpgroup matrix multiply ---- */

enum tandem_sim_element {
    TANDEM_SIM_F16,
    TANDEM_SIM_BF16,
    TANDEM_SIM_S8,
    TANDEM_SIM_U8
};

/* One wgmma.mma_async of m64nNkK, with K of 32 bytes: D = A·B + D, both operands from shared
 * memory. */
struct tandem_sim_product {
    int n;
    tandem_sim_element a_element, b_element;
    bool a_transposed, b_transposed; /* contiguous along M or N instead of K */
    uint64_t a, b;                   /* descriptors */
    bool adds;                       /* false: D is not read */
};
/* `d` points to the thread's n / 2 registers. */
void tandem_sim_multiply(const tandem_sim_product &product, void *d);
void tandem_sim_multiply_fence();
void tandem_sim_multiply_commit();
void tandem_sim_multiply_wait(int pending);

/* setmaxnreg; all threads of a warpgroup call it. */
void tandem_sim_set_registers(int count);

#endif
