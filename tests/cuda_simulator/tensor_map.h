/* This header defines the simulated driver's layout of the 128 bytes of a CUtensorMap. Copies by
 * tensor maps read it. */
#ifndef TANDEM_TESTS_CUDA_SIMULATOR_TENSOR_MAP_H
#define TANDEM_TESTS_CUDA_SIMULATOR_TENSOR_MAP_H

#include <cstdint>

enum {
    SIM_TENSOR_RANK = 5,
    SIM_TENSOR_MAGIC = 0x70616d74
};

struct sim_tensor_map {
    uint32_t magic;
    uint8_t rank, element_bytes;
    uint8_t swizzle_bits; /* number of address bits that are changed: 0, 1, 2 or 3 */
    uint8_t nan_fill;     /* 1: elements outside of the tensor are NaN instead of 0 */
    uint64_t address;
    uint32_t size[SIM_TENSOR_RANK];       /* size minus one */
    uint64_t stride[SIM_TENSOR_RANK - 1]; /* in bytes, for all dimensions except the innermost */
    uint16_t box[SIM_TENSOR_RANK];
    uint8_t step[SIM_TENSOR_RANK]; /* distance between elements that are copied */
};
static_assert(sizeof(sim_tensor_map) <= 128, "a CUtensorMap has 128 bytes");

/* Returns the swizzled address in shared memory. Bits 4 to 6 are XORed with bits 7 to 9; `bits` is
 * the number of bits that are XORed. */
static inline uint32_t sim_swizzled(uint32_t address, int bits) {
    return address ^ ((address >> 7 & ((1u << bits) - 1u)) << 4);
}

#endif
