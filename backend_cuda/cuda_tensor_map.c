/*
 * Tensor maps for launches. The driver encodes them; a cache keeps them, because plans run with the
 * same tensors repeatedly.
 */
#include <string.h>

#include "backend_cuda/cuda_internal.h"

/* The cache is set-associative. In a full set, `next` selects the entry to replace, round-robin. */
#define WAYS 4
#define SETS 64

/* The inputs of a map. Keys are compared as bytes, so all padding is zeroed. */
typedef struct map_key {
    CUdeviceptr address;
    tdm_bk_tensor_map tensor_map;
} map_key;

typedef struct map_set {
    map_key keys[WAYS];
    CUtensorMap maps[WAYS];
    unsigned filled, next;
} map_set;

struct tdm_cuda_maps {
    map_set sets[SETS];
};

static map_key key_of(CUdeviceptr address, const tdm_bk_tensor_map *tensor_map) {
    map_key key;
    memset(&key, 0, sizeof key);
    key.address = address;
    key.tensor_map.dtype = tensor_map->dtype;
    memcpy(key.tensor_map.box, tensor_map->box, sizeof tensor_map->box);
    memcpy(key.tensor_map.sizes, tensor_map->sizes, sizeof tensor_map->sizes);
    memcpy(key.tensor_map.strides, tensor_map->strides, sizeof tensor_map->strides);
    return key;
}

static map_set *set_of(tdm_cuda_maps *maps, const map_key *key) {
    uint64_t hash = key->address >> 4;
    for (int d = 0; d < 3; d++)
        hash = (hash ^ key->tensor_map.sizes[d]) * 0x9e3779b97f4a7c15u + key->tensor_map.box[d];
    return &maps->sets[hash >> 32 & (SETS - 1)];
}

static CUresult encode(const tdm_cuda_api *api, const map_key *key, CUtensorMap *map) {
    _Alignas(64) CUtensorMap made;
    static const uint32_t steps[3] = {1, 1, 1};
    const CUtensorMapDataType type =
        key->tensor_map.dtype == TDM_F16    ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16
        : key->tensor_map.dtype == TDM_BF16 ? CU_TENSOR_MAP_DATA_TYPE_BFLOAT16
                                            : CU_TENSOR_MAP_DATA_TYPE_UINT8;
    const CUresult code =
        CUDA_CALL(api, cuTensorMapEncodeTiled, &made, type, 3, (void *)(uintptr_t)key->address,
                  key->tensor_map.sizes, key->tensor_map.strides, key->tensor_map.box, steps,
                  CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
                  CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (code == CUDA_SUCCESS)
        *map = made;
    return code;
}

static CUresult find_or_encode(const tdm_cuda_api *api, map_set *set, const map_key *key,
                               CUtensorMap *map) {
    for (unsigned i = 0; i < set->filled; i++)
        if (memcmp(&set->keys[i], key, sizeof *key) == 0) {
            *map = set->maps[i];
            return CUDA_SUCCESS;
        }
    const CUresult code = encode(api, key, map);
    if (code != CUDA_SUCCESS)
        return code;
    set->keys[set->next] = *key;
    set->maps[set->next] = *map;
    set->next = (set->next + 1) % WAYS;
    set->filled += set->filled < WAYS;
    return CUDA_SUCCESS;
}

tdm_status tdm_cuda_tensor_map(tdm_bk_device *device, const char *operation, CUdeviceptr address,
                               const tdm_bk_tensor_map *tensor_map, CUtensorMap *map) {
    const map_key key = key_of(address, tensor_map);
    CUresult code = CUDA_ERROR_NOT_SUPPORTED;
    if (!device->api->cuTensorMapEncodeTiled)
        return tdm_cuda_fail(code, operation, "cuTensorMapEncodeTiled");
    pthread_mutex_lock(&device->maps_lock);
    if (!device->maps)
        device->maps = tdm_host_calloc(1, sizeof *device->maps);
    code = device->maps ? find_or_encode(device->api, set_of(device->maps, &key), &key, map)
                        : encode(device->api, &key, map);
    pthread_mutex_unlock(&device->maps_lock);
    return code == CUDA_SUCCESS ? TDM_OK : tdm_cuda_fail(code, operation, "cuTensorMapEncodeTiled");
}
