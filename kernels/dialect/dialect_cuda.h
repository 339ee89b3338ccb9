/* The dialect as CUDA device code: keywords, and the words for one float or int. Part of
 * dialect_cxx.h.
 *
 * nvcc gets -fmad=false -ftz=false -prec-div=true -prec-sqrt=true: nothing is fused, denormals are
 * kept, division and square root are correctly rounded. Conversions from float to int saturate and
 * turn a NaN into 0 by themselves. */
#ifndef TDM_DIALECT_CUDA_H
#define TDM_DIALECT_CUDA_H

#define TDM_CUDA_ARCHITECTURE __CUDA_ARCH__
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
#define TDM_CUDA_WGMMA 1
#endif
#define TDM_KERNEL(name) extern "C" __global__ void name
#define TDM_KERNEL_GROUP(name, x, y, z)                                                            \
    extern "C" __global__ void __launch_bounds__((x) * (y) * (z)) name
#define TDM_KERNEL_GROUPS(name, x, y, z, groups)                                                   \
    extern "C" __global__ void __launch_bounds__((x) * (y) * (z), groups) name
#define TDM_KERNEL_ROW(space, name, architecture)
#define TDM_DEVICE static __device__ __forceinline__
#define TDM_INLINE static __device__ __forceinline__
#define TDM_LOCAL_ARRAY(type, name, count) __shared__ alignas(16) type name[count]
#define TDM_LOCAL_ARGUMENT(type, name) tdm_cuda_local<type> name
#define TDM_UNROLL _Pragma("unroll")
#define TDM_UNROLL_PASSES _Pragma("unroll 4")
#define TDM_NO_UNROLL _Pragma("unroll 1")
#define TDM_FAST_FMA 1
#define TDM_FEW_PASSES TDM_NO_UNROLL

typedef unsigned short ushort;

/* The launch gives the size of this memory. The value that it passes for the argument is
 * ignored. */
extern __shared__ uint4 tdm_cuda_dynamic[];
template <class T> struct tdm_cuda_local {
    int unused;
    __device__ __forceinline__ operator T *() const {
        return (T *)tdm_cuda_dynamic;
    }
};

#define tdm_group_x() ((long)blockIdx.x)
#define tdm_group_y() ((long)blockIdx.y)
#define tdm_group_z() ((long)blockIdx.z)
#define tdm_groups_x() ((long)gridDim.x)
#define tdm_groups_y() ((long)gridDim.y)
#define tdm_groups_z() ((long)gridDim.z)
#define tdm_item_x() ((int)threadIdx.x)
#define tdm_item_y() ((int)threadIdx.y)
#define tdm_item_z() ((int)threadIdx.z)
#define tdm_group_size_x() ((int)blockDim.x)
#define tdm_group_size_y() ((int)blockDim.y)
#define tdm_group_size_z() ((int)blockDim.z)
#define tdm_global_x() ((long)blockIdx.x * blockDim.x + threadIdx.x)
#define tdm_global_y() ((long)blockIdx.y * blockDim.y + threadIdx.y)
#define tdm_global_z() ((long)blockIdx.z * blockDim.z + threadIdx.z)
#define tdm_global_size_x() ((long)gridDim.x * blockDim.x)
#define tdm_global_size_y() ((long)gridDim.y * blockDim.y)
#define tdm_global_size_z() ((long)gridDim.z * blockDim.z)

#define tdm_barrier() __syncthreads()
/* A hardware prefetch may fault if the address is not mapped. */
#define tdm_prefetch(p) ((void)(p))
#define tdm_prefetch_far(p) ((void)(p))

TDM_DEVICE float tdm_fma(float a, float b, float c) {
    return __fmaf_rn(a, b, c);
}
TDM_DEVICE float tdm_mad(float a, float b, float c) {
    return __fmaf_rn(a, b, c);
}
TDM_DEVICE float tdm_min(float a, float b) {
    return fminf(a, b);
}
TDM_DEVICE float tdm_max(float a, float b) {
    return fmaxf(a, b);
}
TDM_DEVICE float tdm_abs(float x) {
    return fabsf(x);
}
TDM_DEVICE float tdm_exp(float x) {
    return expf(x);
}
TDM_DEVICE float tdm_log(float x) {
    return logf(x);
}
TDM_DEVICE float tdm_tanh(float x) {
    return tanhf(x);
}
TDM_DEVICE float tdm_erf(float x) {
    return erff(x);
}
TDM_DEVICE float tdm_erfc(float x) {
    return erfcf(x);
}
TDM_DEVICE float tdm_sqrt(float x) {
    return __fsqrt_rn(x);
}
TDM_DEVICE float tdm_rsqrt(float x) {
    return rsqrtf(x);
}
TDM_DEVICE float tdm_rint(float x) {
    return rintf(x);
}
TDM_DEVICE float tdm_floor(float x) {
    return floorf(x);
}
TDM_DEVICE float tdm_copysign(float x, float sign) {
    return copysignf(x, sign);
}
TDM_DEVICE bool tdm_is_nan(float x) {
    return x != x;
}
TDM_DEVICE uint tdm_float_bits(float x) {
    return __float_as_uint(x);
}
TDM_DEVICE float tdm_bits_float(uint u) {
    return __uint_as_float(u);
}
TDM_DEVICE float tdm_float(int v) {
    return __int2float_rn(v);
}
TDM_DEVICE int tdm_int_rte(float x) {
    return __float2int_rn(x);
}
TDM_DEVICE int tdm_int_rtz(float x) {
    return __float2int_rz(x);
}
TDM_DEVICE float tdm_cxx_f16_widen(ushort bits) {
    float x;
    asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
    return x;
}
TDM_DEVICE ushort tdm_cxx_f16_narrow(float x) {
    ushort bits;
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
    return bits;
}
TDM_DEVICE int tdm_cxx_dot4(int a, int b, int c) {
    return __dp4a(a, b, c);
}
TDM_DEVICE void tdm_cxx_stream(float x, float *p) {
    __stcs(p, x);
}
TDM_DEVICE void tdm_cxx_stream_4(float a, float b, float c, float d, float *p) {
    __stcs((float4 *)p, make_float4(a, b, c, d));
}
template <class W> TDM_DEVICE W tdm_cxx_load_word(const void *p) {
    return *(const W *)p;
}
template <class W> TDM_DEVICE void tdm_cxx_store_word(void *p, W word) {
    *(W *)p = word;
}
/* Stores two values to shared memory, aligned to 8 bytes. If they were packed into one word, the
 * compiler would keep floats as bits from their source on. ptxas would then wait for every wgmma
 * whose sums they are. */
TDM_DEVICE void tdm_cxx_store_pair(void *p, float x0, float x1) {
    asm volatile("st.shared.v2.f32 [%0], {%1, %2};"
                 :
                 : "r"((uint)__cvta_generic_to_shared(p)), "f"(x0), "f"(x1)
                 : "memory");
}
TDM_DEVICE void tdm_cxx_store_pair(void *p, int x0, int x1) {
    tdm_cxx_store_word(p, (ulong)(uint)x0 | (ulong)(uint)x1 << 32);
}

/* ---- asynchronous copies; plain copies before sm_80 ---- */

TDM_DEVICE void tdm_async_copy_16(void *to, const void *from, int bytes_valid) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;"
                 :
                 : "r"((uint)__cvta_generic_to_shared(to)), "l"(__cvta_generic_to_global(from)),
                   "r"(bytes_valid)
                 : "memory");
#else
    if (bytes_valid == 16)
        *(uint4 *)to = *(const uint4 *)from;
    else
        for (int n = 0; n < 16; n++)
            ((unsigned char *)to)[n] = n < bytes_valid ? ((const unsigned char *)from)[n] : 0;
#endif
}
TDM_DEVICE void tdm_async_copy_4(void *to, const void *from, int bytes_valid) {
#if __CUDA_ARCH__ >= 800
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;"
                 :
                 : "r"((uint)__cvta_generic_to_shared(to)), "l"(__cvta_generic_to_global(from)),
                   "r"(bytes_valid)
                 : "memory");
#else
    *(uint *)to = bytes_valid > 0 ? *(const uint *)from : 0u;
#endif
}
#if __CUDA_ARCH__ >= 800
#define tdm_async_commit() asm volatile("cp.async.commit_group;" : : : "memory")
#define tdm_async_wait(pending) asm volatile("cp.async.wait_group %0;" : : "n"(pending) : "memory")
#else
#define tdm_async_commit() ((void)0)
#define tdm_async_wait(pending) ((void)0)
#endif

/* ---- warps ---- */

#define TDM_CUDA_ALL_LANES 0xffffffffu
TDM_DEVICE int tdm_warp_lane() {
    int lane;
    asm("mov.u32 %0, %%laneid;" : "=r"(lane));
    return lane;
}
template <class T> TDM_DEVICE T tdm_warp_shuffle(T x, int lane) {
    return __shfl_sync(TDM_CUDA_ALL_LANES, x, lane);
}
template <class T> TDM_DEVICE T tdm_warp_shuffle_xor(T x, int lanes) {
    return __shfl_xor_sync(TDM_CUDA_ALL_LANES, x, lanes);
}
template <class T> TDM_DEVICE T tdm_warp_shuffle_down(T x, int lanes) {
    return __shfl_down_sync(TDM_CUDA_ALL_LANES, x, lanes);
}
TDM_DEVICE uint tdm_warp_ballot(int vote) {
    return __ballot_sync(TDM_CUDA_ALL_LANES, vote);
}
#define tdm_warp_barrier() __syncwarp()

#endif
