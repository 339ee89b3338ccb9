/* The dialect as plain C++ for the CUDA simulator: keywords, and the words for one float or int.
 * Part of dialect_cxx.h.
 *
 * simulator_kernel.h (tests/cuda_simulator, on the include path) identifies the running thread and
 * implements barriers, shared memory, copies and warps. The compiler gets -ffp-contract=off. */
#ifndef TDM_DIALECT_HOST_H
#define TDM_DIALECT_HOST_H

#include <string.h>

#include "simulator_hopper.h"
#include "simulator_kernel.h"

/* By default a kernel source is compiled with the features of all architectures, and each variant
 * is registered with its own architecture. Features that devices before compute capability 8.0 lack
 * have another form for these devices. A source for these devices alone is compiled with 750. */
#ifndef TDM_CUDA_ARCHITECTURE
#define TDM_CUDA_ARCHITECTURE 9999
#define TDM_CUDA_WGMMA 1
#endif
#if TDM_CUDA_ARCHITECTURE < 800
#define TDM_HOST_BEFORE 80
#else
#define TDM_HOST_BEFORE 0 /* any */
#endif
#define TDM_HOST_KERNEL_(name, x, y, z)                                                            \
    enum {                                                                                         \
        TDM_CAT2(name, _x) = x,                                                                    \
        TDM_CAT2(name, _y) = y,                                                                    \
        TDM_CAT2(name, _z) = z                                                                     \
    };                                                                                             \
    static void name
#define TDM_KERNEL(name) TDM_HOST_KERNEL_(name, 0, 0, 0)
#define TDM_KERNEL_GROUP(name, x, y, z) TDM_HOST_KERNEL_(name, x, y, z)
#define TDM_KERNEL_GROUPS(name, x, y, z, groups) TDM_HOST_KERNEL_(name, x, y, z)
#define TDM_KERNEL_ROW(space, name, architecture)                                                  \
    namespace space {                                                                              \
    TANDEM_SIM_REGISTER_BEFORE(name, #name, name##_x, name##_y, name##_z, architecture,            \
                               TDM_HOST_BEFORE);                                                   \
    }
#define TDM_DEVICE static inline
#define TDM_INLINE static inline
#define TDM_LOCAL_ARRAY(type, name, count)                                                         \
    static const char name##_site = 0;                                                             \
    type *const name = static_cast<type *>(tandem_sim_shared(&name##_site, sizeof(type) * (count)))
#define TDM_LOCAL_ARGUMENT(type, name) tdm_host_local<type> name
#define TDM_UNROLL
#define TDM_UNROLL_PASSES
#define TDM_NO_UNROLL
#define TDM_FAST_FMA 1
#define TDM_FEW_PASSES

typedef unsigned short ushort;

/* The value that the launch passes for the argument is ignored. */
template <class T> struct tdm_host_local {
    int unused;
    operator T *() const {
        return static_cast<T *>(tandem_sim_dynamic_shared());
    }
};

#define TDM_HOST_GROUP_(d) (tandem_sim_self->block->group[d])
#define TDM_HOST_GROUPS_(d) (tandem_sim_self->block->groups[d])
#define TDM_HOST_SIZE_(d) (tandem_sim_self->block->size[d])
#define TDM_HOST_ITEM_(d) (tandem_sim_self->item[d])
#define tdm_group_x() TDM_HOST_GROUP_(0)
#define tdm_group_y() TDM_HOST_GROUP_(1)
#define tdm_group_z() TDM_HOST_GROUP_(2)
#define tdm_groups_x() TDM_HOST_GROUPS_(0)
#define tdm_groups_y() TDM_HOST_GROUPS_(1)
#define tdm_groups_z() TDM_HOST_GROUPS_(2)
#define tdm_item_x() TDM_HOST_ITEM_(0)
#define tdm_item_y() TDM_HOST_ITEM_(1)
#define tdm_item_z() TDM_HOST_ITEM_(2)
#define tdm_group_size_x() TDM_HOST_SIZE_(0)
#define tdm_group_size_y() TDM_HOST_SIZE_(1)
#define tdm_group_size_z() TDM_HOST_SIZE_(2)
#define tdm_global_x() (TDM_HOST_GROUP_(0) * TDM_HOST_SIZE_(0) + TDM_HOST_ITEM_(0))
#define tdm_global_y() (TDM_HOST_GROUP_(1) * TDM_HOST_SIZE_(1) + TDM_HOST_ITEM_(1))
#define tdm_global_z() (TDM_HOST_GROUP_(2) * TDM_HOST_SIZE_(2) + TDM_HOST_ITEM_(2))
#define tdm_global_size_x() (TDM_HOST_GROUPS_(0) * TDM_HOST_SIZE_(0))
#define tdm_global_size_y() (TDM_HOST_GROUPS_(1) * TDM_HOST_SIZE_(1))
#define tdm_global_size_z() (TDM_HOST_GROUPS_(2) * TDM_HOST_SIZE_(2))

#define tdm_barrier() tandem_sim_barrier(__LINE__)
#define tdm_prefetch(p) ((void)(p))
#define tdm_prefetch_far(p) ((void)(p))

TDM_DEVICE float tdm_fma(float a, float b, float c) {
    return fmaf(a, b, c);
}
TDM_DEVICE float tdm_mad(float a, float b, float c) {
    return fmaf(a, b, c);
}
TDM_DEVICE bool tdm_is_nan(float x) {
    return x != x;
}
TDM_DEVICE float tdm_min(float a, float b) {
    return tdm_is_nan(a) || b < a ? b : a;
}
TDM_DEVICE float tdm_max(float a, float b) {
    return tdm_is_nan(a) || b > a ? b : a;
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
    return sqrtf(x);
}
TDM_DEVICE float tdm_rsqrt(float x) {
    return 1.0f / sqrtf(x);
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
TDM_DEVICE uint tdm_float_bits(float x) {
    uint bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
TDM_DEVICE float tdm_bits_float(uint u) {
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}
TDM_DEVICE float tdm_float(int v) {
    return static_cast<float>(v);
}
TDM_DEVICE int tdm_host_saturated(float x) {
    if (tdm_is_nan(x))
        return 0;
    if (x >= 2147483648.0f)
        return 2147483647;
    return x < -2147483648.0f ? -2147483647 - 1 : static_cast<int>(x);
}
TDM_DEVICE int tdm_int_rte(float x) {
    return tdm_host_saturated(rintf(x));
}
TDM_DEVICE int tdm_int_rtz(float x) {
    return tdm_host_saturated(x);
}

/* A multiplication adjusts the exponent. It is exact and also handles denormals. */
TDM_DEVICE float tdm_cxx_f16_widen(ushort bits) {
    const uint sign = (uint)(bits & 0x8000u) << 16, rest = (uint)(bits & 0x7fffu) << 13;
    if (rest < 0x7c00u << 13)
        return tdm_bits_float(sign | tdm_float_bits(tdm_bits_float(rest) * 0x1p112f));
    const uint quiet = rest > 0x7c00u << 13 ? 0x400000u : 0u;
    return tdm_bits_float(sign | 0x7f800000u | (rest & 0x7fffffu) | quiet);
}

/* Below f16's normal numbers, adding 0.5 rounds to a multiple of the smallest denormal. Above them,
 * half an ulp is added, minus one if the kept part is even. */
TDM_DEVICE ushort tdm_cxx_f16_narrow(float x) {
    const uint bits = tdm_float_bits(x), sign = (bits >> 16) & 0x8000u, rest = bits & 0x7fffffffu;
    if (rest > 0x7f800000u)
        return (ushort)(sign | 0x7e00u | ((rest >> 13) & 0x3ffu));
    if (rest >= 0x477ff000u)
        return (ushort)(sign | 0x7c00u);
    if (rest < 0x38800000u)
        return (ushort)(sign | (tdm_float_bits(tdm_bits_float(rest) + 0.5f) - 0x3f000000u));
    return (ushort)(sign | ((rest - 0x38000000u + 0xfffu + ((rest >> 13) & 1u)) >> 13));
}
TDM_DEVICE int tdm_cxx_dot4(int a, int b, int c) {
    uint sum = (uint)c;
    for (int k = 0; k < 32; k += 8)
        sum += (uint)((signed char)((uint)a >> k) * (signed char)((uint)b >> k));
    return (int)sum;
}
TDM_DEVICE void tdm_cxx_stream(float x, float *p) {
    *p = x;
}
TDM_DEVICE void tdm_cxx_stream_4(float a, float b, float c, float d, float *p) {
    tandem_sim_aligned(p, 4 * sizeof *p);
    p[0] = a, p[1] = b, p[2] = c, p[3] = d;
}
template <class W> TDM_DEVICE W tdm_cxx_load_word(const void *p) {
    tandem_sim_aligned(p, sizeof(W));
    W word;
    memcpy(&word, p, sizeof word);
    return word;
}
template <class W> TDM_DEVICE void tdm_cxx_store_word(void *p, W word) {
    tandem_sim_aligned(p, sizeof(W));
    memcpy(p, &word, sizeof word);
}
template <class T> TDM_DEVICE void tdm_cxx_store_pair(void *p, T x0, T x1) {
    const T both[2] = {x0, x1};
    tandem_sim_aligned(p, sizeof both);
    memcpy(p, both, sizeof both);
}

#if TDM_CUDA_ARCHITECTURE >= 800
#define tdm_async_copy_16(to, from, bytes_valid) tandem_sim_async_copy(to, from, bytes_valid)
#define tdm_async_copy_4(to, from, bytes_valid) tandem_sim_async_copy_4(to, from, bytes_valid)
#define tdm_async_commit() tandem_sim_async_commit()
#define tdm_async_wait(pending) tandem_sim_async_wait(pending)
#else
/* Before 8.0: plain copies, and matrix words built from the _half words (dialect_tensor.h), as in
 * dialect_cuda.h. */
TDM_DEVICE void tdm_async_copy_16(void *to, const void *from, int bytes_valid) {
    tandem_sim_aligned(to, 16);
    if (bytes_valid == 16)
        tandem_sim_aligned(from, 16);
    memset(to, 0, 16);
    memcpy(to, from, (size_t)bytes_valid);
}
#define tdm_async_commit() ((void)0)
#define tdm_async_wait(pending) ((void)0)
#define tandem_sim_matrices_f16(d, a, b0, b1) tdm_matrices_f16_of_halves(d, a, b0, b1)
#define tandem_sim_matrices_int(d, a, b0, b1, is_signed)                                           \
    ((is_signed) ? tdm_matrices_s8_of_halves(d, a, b0, b1)                                         \
                 : tdm_matrices_u8_of_halves(d, a, b0, b1))
#endif

#define TDM_HOST_ALL_LANES_ 0xffffffffu
#define tdm_warp_lane() (tandem_sim_self->lane)
#define tdm_warp_shuffle(x, lane) tandem_sim_shuffle(TDM_HOST_ALL_LANES_, x, lane)
#define tdm_warp_shuffle_xor(x, lanes) tandem_sim_shuffle_xor(TDM_HOST_ALL_LANES_, x, lanes)
#define tdm_warp_shuffle_down(x, lanes) tandem_sim_shuffle_down(TDM_HOST_ALL_LANES_, x, lanes)
#define tdm_warp_ballot(vote) tandem_sim_ballot(TDM_HOST_ALL_LANES_, vote)
#define tdm_warp_barrier() tandem_sim_warp_barrier(TDM_HOST_ALL_LANES_)

#endif
