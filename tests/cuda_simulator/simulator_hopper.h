/*
 * This header declares the CUDA simulator's operations for compute capability 9.0a: mbarriers, bulk
 * copies of tensors (TMA), warpgroup matrix multiply (wgmma), cluster groups. It extends
 * simulator_kernel.h for the kernel sources that use them.
 *
 * Each operation happens at the worst time that the hardware allows, so that missing waits show. A
 * bulk copy fills its target with NaNs at once. It writes the data only when no thread can continue
 * without it. A multiplication reads shared memory at the wait that covers it. Its registers are
 * NaNs until then.
 *
 * The asynchronous proxy always sees writes of the generic proxy. A missing fence.proxy.async is
 * therefore detected in only two cases. One is a thread that issues bulk stores. The other is a
 * thread that has read, by tandem_sim_shared_read, data that a bulk copy overwrites. */
#ifndef TANDEM_TESTS_CUDA_SIMULATOR_SIMULATOR_HOPPER_H
#define TANDEM_TESTS_CUDA_SIMULATOR_SIMULATOR_HOPPER_H

#include <cstdint>

/* ---- shared memory ---- */

/*
 * Returns the address of `place` in the window of shared memory, which descriptors use. The window
 * holds only dynamic shared memory, and starts at 1024. Memory that a kernel declares has no such
 * address here. */
uint32_t tandem_sim_shared_address(const void *place);

/* ---- mbarriers ---- */

/* An mbarrier is eight bytes of shared memory. All operations take its address in the thread's own
 * block. */
void tandem_sim_mbarrier_init(uint64_t *barrier, uint32_t count);
/* This is fence.mbarrier_init. After it, bulk copies and other blocks may use the mbarriers of this
 * thread. */
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
 * first. Elements outside of the tensor are zeros. Bit r of `blocks` selects the block of rank r,
 * which receives the box at the same offset. If `blocks` is 0, only the own block receives it. */
void tandem_sim_tensor_load(void *to, const tandem_sim_tensor_map *map, const int *at, int rank,
                            uint64_t *barrier, uint32_t blocks);
/* Copies the box from shared memory. Parts outside of the tensor are not written. The copy reads
 * and writes at the wait that covers it. */
void tandem_sim_tensor_store(const tandem_sim_tensor_map *map, const int *at, int rank,
                             const void *from);
/* This is fence.proxy.async. A thread must call it before it issues a group of stores. It must also
 * call it before a bulk copy overwrites data that the thread has read. */
void tandem_sim_proxy_fence();
/* Records that the thread reads shared memory at this address, other than by a multiplication or a
 * bulk store. */
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

/* This is one wgmma.mma_async of m64nNkK, with K of 32 bytes. It computes D = A·B + D with both
 * operands from shared memory. */
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

/* This is setmaxnreg. All threads of a warpgroup call it. */
void tandem_sim_set_registers(int count);

#endif
