/*
 * The part of the CUDA driver's interface that the backend uses, in declarations of our own. The
 * host code needs no toolkit to build. Names, numbers and layouts are those of NVIDIA's cuda.h;
 * tests/cuda/cuda_declarations.c compares them where the toolkit is installed. The header is valid
 * C and C++, because the simulated driver of the tests implements it.
 */
#ifndef TANDEM_BACKEND_CUDA_CUDA_API_H
#define TANDEM_BACKEND_CUDA_CUDA_API_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The driver's enumerations. All are as wide as an int. */
typedef unsigned int CUresult;
typedef unsigned int CUdevice_attribute;
typedef unsigned int CUpointer_attribute;
typedef unsigned int CUmemorytype;
typedef unsigned int CUjit_option;
typedef unsigned int CUfunction_attribute;
typedef unsigned int CUlaunchAttributeID;
typedef unsigned int CUstreamCaptureMode;
typedef unsigned int CUtensorMapDataType;
typedef unsigned int CUtensorMapInterleave;
typedef unsigned int CUtensorMapSwizzle;
typedef unsigned int CUtensorMapL2promotion;
typedef unsigned int CUtensorMapFloatOOBfill;

enum {
#define CUDA_ERROR(name, value, status) name = value,
#include "backend_cuda/cuda_errors.def"
#undef CUDA_ERROR
#define CUDA_CONSTANT(name, value) name = value,
#include "backend_cuda/cuda_constants.def"
#undef CUDA_CONSTANT
};

typedef int CUdevice;
typedef unsigned long long CUdeviceptr;
typedef struct CUctx_st *CUcontext;
typedef struct CUmod_st *CUmodule;
typedef struct CUfunc_st *CUfunction;
typedef struct CUstream_st *CUstream;
typedef struct CUevent_st *CUevent;
typedef struct CUgraph_st *CUgraph;
typedef struct CUgraphExec_st *CUgraphExec;
typedef struct CUarray_st *CUarray;
typedef void (*CUhostFn)(void *user);

typedef struct CUDA_MEMCPY2D {
    size_t srcXInBytes;
    size_t srcY;
    CUmemorytype srcMemoryType;
    const void *srcHost;
    CUdeviceptr srcDevice;
    CUarray srcArray;
    size_t srcPitch;
    size_t dstXInBytes;
    size_t dstY;
    CUmemorytype dstMemoryType;
    void *dstHost;
    CUdeviceptr dstDevice;
    CUarray dstArray;
    size_t dstPitch;
    size_t WidthInBytes;
    size_t Height;
} CUDA_MEMCPY2D;

typedef union CUlaunchAttributeValue {
    char pad[64];
    struct {
        unsigned int x;
        unsigned int y;
        unsigned int z;
    } clusterDim;
    unsigned long long alignment; /* as in the driver's union, which holds pointers */
} CUlaunchAttributeValue;

typedef struct CUlaunchAttribute {
    CUlaunchAttributeID id;
    char pad[8 - sizeof(CUlaunchAttributeID)];
    CUlaunchAttributeValue value;
} CUlaunchAttribute;

/* An opaque descriptor that the driver fills. The driver requires an alignment of 64 bytes. */
typedef struct CUtensorMap {
    uint64_t opaque[16];
} CUtensorMap;

typedef struct CUlaunchConfig {
    unsigned int gridDimX;
    unsigned int gridDimY;
    unsigned int gridDimZ;
    unsigned int blockDimX;
    unsigned int blockDimY;
    unsigned int blockDimZ;
    unsigned int sharedMemBytes;
    CUstream hStream;
    CUlaunchAttribute *attrs;
    unsigned int numAttrs;
} CUlaunchConfig;

#ifdef __cplusplus
}
#endif

#endif
