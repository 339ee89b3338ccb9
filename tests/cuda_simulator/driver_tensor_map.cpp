/* This file encodes tensor maps. It checks what the driver's documentation requires, and writes the
 * layout that the simulated operations read. */
#include <cstring>

#include "tests/cuda_simulator/driver_state.h"
#include "tests/cuda_simulator/tensor_map.h"

namespace {

/* Returns 0 for a type that is not supported here. */
unsigned element_bytes_of(CUtensorMapDataType type) {
    switch (type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT8:
        return 1;
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16:
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16:
        return 2;
    case CU_TENSOR_MAP_DATA_TYPE_INT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
        return 4;
    default:
        return 0;
    }
}

/* Checks all sizes except that of the box, which depends on the swizzle. */
bool fits(const sim_tensor_map &map, const uint64_t *sizes, const uint64_t *strides,
          const uint32_t *box, const uint32_t *steps) {
    bool good = map.address % 16 == 0;
    for (unsigned d = 0; d < map.rank; d++) {
        good = good && sizes[d] >= 1 && sizes[d] <= 1ull << 32 && box[d] >= 1 && box[d] <= 256 &&
               steps[d] >= 1 && steps[d] <= 8;
        good = good && (d == 0 || (strides[d - 1] % 16 == 0 && strides[d - 1] < 1ull << 40));
    }
    /* "globalStrides[0] = globalDim[0] * elementSizeInBytes(tensorDataType) + padding[0]" */
    return good && (map.rank < 2 || strides[0] >= sizes[0] * map.element_bytes);
}

} // namespace

CUresult cuTensorMapEncodeTiled(CUtensorMap *to, CUtensorMapDataType type, unsigned int rank,
                                void *address, const uint64_t *sizes, const uint64_t *strides,
                                const uint32_t *box, const uint32_t *steps,
                                CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                                CUtensorMapL2promotion promotion, CUtensorMapFloatOOBfill fill) {
    /* The documentation lists the error for a missing context. */
    CUcontext context = nullptr;
    const CUresult state = sim_context(&context);
    if (state != CUDA_SUCCESS)
        return state;
    sim_tensor_map map = {};
    map.element_bytes = static_cast<uint8_t>(element_bytes_of(type));
    if (sim_machine_get().architecture() < 90)
        return CUDA_ERROR_NOT_SUPPORTED;
    if (to == nullptr || reinterpret_cast<uintptr_t>(to) % 64 != 0 || map.element_bytes == 0 ||
        rank < 1 || rank > SIM_TENSOR_RANK || interleave != CU_TENSOR_MAP_INTERLEAVE_NONE ||
        swizzle > CU_TENSOR_MAP_SWIZZLE_128B || promotion > CU_TENSOR_MAP_L2_PROMOTION_L2_256B)
        return CUDA_ERROR_INVALID_VALUE;
    map.magic = SIM_TENSOR_MAGIC;
    map.rank = static_cast<uint8_t>(rank);
    map.swizzle_bits = static_cast<uint8_t>(swizzle); /* the enumeration has these values */
    map.nan_fill = fill != CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE;
    map.address = reinterpret_cast<uintptr_t>(address);
    if (!fits(map, sizes, strides, box, steps))
        return CUDA_ERROR_INVALID_VALUE;
    const uint64_t row = static_cast<uint64_t>(box[0]) * map.element_bytes;
    if (row % 16 != 0 || (map.swizzle_bits != 0 && row > 16u << map.swizzle_bits))
        return CUDA_ERROR_INVALID_VALUE;
    for (unsigned d = 0; d < rank; d++) {
        map.size[d] = static_cast<uint32_t>(sizes[d] - 1);
        map.box[d] = static_cast<uint16_t>(box[d]);
        map.step[d] = static_cast<uint8_t>(d > 0 ? steps[d] : 1);
        if (d > 0)
            map.stride[d - 1] = strides[d - 1];
    }
    memset(to, 0, sizeof *to);
    memcpy(to, &map, sizeof map);
    return CUDA_SUCCESS;
}
