/*
 * This table lists constants, sizes and offsets of the CUDA driver interface. The file is compiled
 * twice. By default it uses the backend's own declarations; with TANDEM_CUDA_TOOLKIT defined, it
 * uses the header of NVIDIA's toolkit. check_cuda_declarations compares the two tables. The second
 * compilation also checks the prototypes of the functions.
 */
#include <stddef.h>

#ifdef TANDEM_CUDA_TOOLKIT
#define __CUDA_API_VERSION_INTERNAL /* gives every version of a function its own name */
#include <cuda.h>

#define CUDA_FUNCTION(name, symbol, need, since, parameters)                                       \
    _Static_assert(__builtin_types_compatible_p(__typeof__(&symbol), CUresult(*) parameters),      \
                   #symbol);
#include "backend_cuda/cuda_functions.def"
#undef CUDA_FUNCTION
#define DECLARATIONS cuda_toolkit_declarations
#else
#include "backend_cuda/cuda_api.h"
#define DECLARATIONS cuda_own_declarations
#endif

#include "tests/cuda/cuda_declarations.h"

#define SIZE(type)                                                                                 \
    { "size of " #type, (long)sizeof(type) }
#define PLACE(type, field)                                                                         \
    {"place of " #type "." #field, (long)offsetof(type, field)}, {                                 \
        "size of " #type "." #field, (long)sizeof(((type *)0)->field)                              \
    }

const cuda_declaration DECLARATIONS[] = {
#define CUDA_CONSTANT(name, value) {#name, (long)(name)},
#include "backend_cuda/cuda_constants.def"
#undef CUDA_CONSTANT
#define CUDA_ERROR(name, value, status) {#name, (long)(name)},
#if defined TANDEM_CUDA_TOOLKIT && CUDA_VERSION < 13000
#define CUDA_NEWER_ERROR(name, value, status) {#name, value},
#endif
#include "backend_cuda/cuda_errors.def"
#undef CUDA_ERROR
    SIZE(CUresult),
    SIZE(CUdevice_attribute),
    SIZE(CUpointer_attribute),
    SIZE(CUmemorytype),
    SIZE(CUjit_option),
    SIZE(CUfunction_attribute),
    SIZE(CUlaunchAttributeID),
    SIZE(CUstreamCaptureMode),
    SIZE(CUdevice),
    SIZE(CUdeviceptr),
    SIZE(CUcontext),
    SIZE(CUmodule),
    SIZE(CUfunction),
    SIZE(CUstream),
    SIZE(CUevent),
    SIZE(CUgraph),
    SIZE(CUgraphExec),
    SIZE(CUhostFn),
    SIZE(CUDA_MEMCPY2D),
    PLACE(CUDA_MEMCPY2D, srcXInBytes),
    PLACE(CUDA_MEMCPY2D, srcY),
    PLACE(CUDA_MEMCPY2D, srcMemoryType),
    PLACE(CUDA_MEMCPY2D, srcHost),
    PLACE(CUDA_MEMCPY2D, srcDevice),
    PLACE(CUDA_MEMCPY2D, srcArray),
    PLACE(CUDA_MEMCPY2D, srcPitch),
    PLACE(CUDA_MEMCPY2D, dstXInBytes),
    PLACE(CUDA_MEMCPY2D, dstY),
    PLACE(CUDA_MEMCPY2D, dstMemoryType),
    PLACE(CUDA_MEMCPY2D, dstHost),
    PLACE(CUDA_MEMCPY2D, dstDevice),
    PLACE(CUDA_MEMCPY2D, dstArray),
    PLACE(CUDA_MEMCPY2D, dstPitch),
    PLACE(CUDA_MEMCPY2D, WidthInBytes),
    PLACE(CUDA_MEMCPY2D, Height),
    SIZE(CUlaunchAttributeValue),
    PLACE(CUlaunchAttributeValue, clusterDim),
    PLACE(CUlaunchAttributeValue, clusterDim.x),
    PLACE(CUlaunchAttributeValue, clusterDim.y),
    PLACE(CUlaunchAttributeValue, clusterDim.z),
    SIZE(CUlaunchAttribute),
    PLACE(CUlaunchAttribute, id),
    PLACE(CUlaunchAttribute, value),
    SIZE(CUtensorMap),
    SIZE(CUtensorMapDataType),
    SIZE(CUtensorMapSwizzle),
    SIZE(CUlaunchConfig),
    PLACE(CUlaunchConfig, gridDimX),
    PLACE(CUlaunchConfig, gridDimY),
    PLACE(CUlaunchConfig, gridDimZ),
    PLACE(CUlaunchConfig, blockDimX),
    PLACE(CUlaunchConfig, blockDimY),
    PLACE(CUlaunchConfig, blockDimZ),
    PLACE(CUlaunchConfig, sharedMemBytes),
    PLACE(CUlaunchConfig, hStream),
    PLACE(CUlaunchConfig, attrs),
    PLACE(CUlaunchConfig, numAttrs),
    {NULL, 0},
};
