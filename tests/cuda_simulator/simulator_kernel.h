/*
 * This header is the CUDA simulator's interface for kernels that are compiled as C++ on the host.
 * The host form of the dialect (kernels/dialect/dialect_host.h) maps its operations to these
 * functions. scheduler.cpp and the files *_words.cpp implement them.
 *
 * The threads of a block are fibers of one operating-system thread, so code outside the functions
 * below needs no locks and no atomics. Speed is not simulated. Effects are as late as the hardware
 * allows, so that an operation that is missing in the source changes the result. Shared memory
 * begins as NaNs. An asynchronous copy is NaNs until the wait that covers it. Threads run in an
 * order that differs between blocks. */
#ifndef TANDEM_TESTS_CUDA_SIMULATOR_SIMULATOR_KERNEL_H
#define TANDEM_TESTS_CUDA_SIMULATOR_SIMULATOR_KERNEL_H

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

/* ---- indices ------------------------------------------------------------------------------- */

struct tandem_sim_block {
    int size[3];      /* threads of the block */
    int threads;      /* number of threads, of all three dimensions */
    long group[3];    /* index of the block in the grid */
    long groups[3];   /* blocks of the grid */
    int cluster_rank; /* rank of the block in its cluster */
    int cluster_size; /* blocks of the cluster, 1 without clusters */
};

struct tandem_sim_thread {
    int item[3];                   /* index of the thread in its block */
    int lane, warp;                /* of 32 lanes each, in the order x, y, z */
    const tandem_sim_block *block; /* its own */
};

/* This is the running thread. A call that waits may run another thread of the block in the same
 * operating-system thread. */
extern __thread tandem_sim_thread *tandem_sim_self __attribute__((tls_model("initial-exec")));

/* ---- blocks --------------------------------------------------------------------------------- */

/*
 * Waits until all threads of the block are here. The launch fails if a thread never arrives,
 * because it has left the kernel or waits elsewhere. `site` (__LINE__) distinguishes barriers of
 * the source. The launch also fails if threads are at different barriers. */
void tandem_sim_barrier(int site);

/* Waits until `threads` threads, a multiple of 32, are at barrier `index` of the block, 1 to 15. */
void tandem_sim_named_barrier(int index, int threads);

/*
 * Returns the block's memory for one declaration. `site` is the address of a static object of this
 * declaration. All threads of a block get the same address. The memory of a block begins as NaNs.
 */
void *tandem_sim_shared(const void *site, size_t bytes);

/* Returns the dynamic shared memory of the launch. All threads of a block share it. It is aligned
 * to 1024 bytes. */
void *tandem_sim_dynamic_shared();

/* Returns the location that corresponds to `local` in shared memory of another block of the
 * cluster. */
void *tandem_sim_cluster_shared(void *local, int rank);
void tandem_sim_cluster_barrier(int site);

/* ---- asynchronous copies -------------------------------------------------------------------- */

/*
 * cp.async: copies 16 bytes from global to shared memory, both aligned to 16 bytes. The first
 * `bytes_valid` come from `from` and the rest are zeros. The bytes are there for this thread after
 * the wait that covers them; other threads also need a barrier. */
void tandem_sim_async_copy(void *to, const void *from, int bytes_valid);
/* Copies 4 bytes in this way, aligned to 4. */
void tandem_sim_async_copy_4(void *to, const void *from, int bytes_valid);

/* The copies since the last commit become one group. After a wait at most `pending` of the latest
 * groups may be pending. */
void tandem_sim_async_commit();
void tandem_sim_async_wait(int pending);

/* ---- warps ---------------------------------------------------------------------------------- */

/*
 * Each lane in `mask` contributes `bytes` bytes (at most 64) and waits for the others. The result
 * is the array of 32 × 64 bytes of all lanes. It is readable until tandem_sim_warp_release.
 * `operation` names the call; the launch fails if lanes with different names meet. */
enum {
    TANDEM_SIM_EXCHANGE_BYTES = 64
};
const unsigned char (*tandem_sim_warp_exchange(const char *operation, uint32_t mask,
                                               const void *value,
                                               size_t bytes))[TANDEM_SIM_EXCHANGE_BYTES];
void tandem_sim_warp_release(uint32_t mask);

/* This object holds the values that the lanes of a warp contributed. They are valid as long as the
 * object lives. */
template <typename T> class tandem_sim_exchange {
  public:
    tandem_sim_exchange(const char *operation, uint32_t mask, const T &value)
        : mask_(mask), values_(tandem_sim_warp_exchange(operation, mask, &value, sizeof(T))) {
        static_assert(std::is_trivially_copyable<T>::value &&
                          sizeof(T) <= TANDEM_SIM_EXCHANGE_BYTES,
                      "lanes exchange plain data of at most 64 bytes");
    }
    ~tandem_sim_exchange() {
        tandem_sim_warp_release(mask_);
    }
    tandem_sim_exchange(const tandem_sim_exchange &) = delete;
    tandem_sim_exchange &operator=(const tandem_sim_exchange &) = delete;
    T operator[](int lane) const {
        T value;
        std::memcpy(&value, values_[lane & 31], sizeof(T));
        return value;
    }

  private:
    uint32_t mask_;
    const unsigned char (*values_)[TANDEM_SIM_EXCHANGE_BYTES];
};

static inline void tandem_sim_warp_barrier(uint32_t mask) {
    const char none = 0;
    tandem_sim_exchange<char> all("__syncwarp", mask, none);
}

/* These are CUDA's __shfl_*_sync. `width` is a power of two up to 32. The launch fails if a source
 * lane is outside of `mask`. */
int tandem_sim_source_lane(uint32_t mask, int wanted, int width, bool inside);
template <typename T>
T tandem_sim_shuffle(uint32_t mask, const T &value, int lane, int width = 32) {
    const tandem_sim_exchange<T> all("__shfl_sync", mask, value);
    const int base = tandem_sim_self->lane & ~(width - 1);
    return all[tandem_sim_source_lane(mask, base + (lane & (width - 1)), width, true)];
}
template <typename T>
T tandem_sim_shuffle_xor(uint32_t mask, const T &value, int lanes, int width = 32) {
    const tandem_sim_exchange<T> all("__shfl_xor_sync", mask, value);
    const int self = tandem_sim_self->lane, wanted = self ^ lanes;
    return all[tandem_sim_source_lane(mask, wanted, width, wanted < (self & ~(width - 1)) + width)];
}
template <typename T>
T tandem_sim_shuffle_up(uint32_t mask, const T &value, unsigned lanes, int width = 32) {
    const tandem_sim_exchange<T> all("__shfl_up_sync", mask, value);
    const int self = tandem_sim_self->lane, wanted = self - static_cast<int>(lanes);
    return all[tandem_sim_source_lane(mask, wanted, width, wanted >= (self & ~(width - 1)))];
}
template <typename T>
T tandem_sim_shuffle_down(uint32_t mask, const T &value, unsigned lanes, int width = 32) {
    const tandem_sim_exchange<T> all("__shfl_down_sync", mask, value);
    const int self = tandem_sim_self->lane, wanted = self + static_cast<int>(lanes);
    return all[tandem_sim_source_lane(mask, wanted, width, wanted < (self & ~(width - 1)) + width)];
}

/* Returns a mask in which bit l is set if `vote` of lane l was true. */
uint32_t tandem_sim_ballot(uint32_t mask, bool vote);

/* ---- tensor cores (tensor_intrinsics.cpp), as kernels/dialect/dialect_tensor.h defines them -- */

/* These are ldmatrix.x4 and its form .trans. Each lane gives the address of 16 bytes in the block's
 * shared memory. */
void tandem_sim_matrices_load(uint32_t (&r)[4], const void *row, bool turned);
/* These are mma.sync, which all lanes of the warp call. Each sum starts at d. k ascends, and every
 * step is a multiplication and an addition in f32. */
void tandem_sim_matrices_f16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
void tandem_sim_matrices_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
/* Elements are f32 whose low 13 bits count as 0. */
void tandem_sim_matrices_tf32(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
void tandem_sim_matrices_f16_half(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t b);
/* a_signed is true if A is of s8 and false if it is of u8. Sums wrap. */
void tandem_sim_matrices_int(int (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                             bool a_signed);
void tandem_sim_matrices_int_half(int &d0, int &d1, uint32_t a, uint32_t b, bool a_signed);

/* ---- errors --------------------------------------------------------------------------------- */

/* Ends the launch with CUDA_ERROR_LAUNCH_FAILED (or ILLEGAL_ADDRESS) and logs the reason. */
[[noreturn]] void tandem_sim_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
[[noreturn]] void tandem_sim_fail_address(const char *format, ...)
    __attribute__((format(printf, 1, 2)));
/* Ends the launch with CUDA_ERROR_MISALIGNED_ADDRESS. */
[[noreturn]] void tandem_sim_fail_misaligned(const void *p, size_t bytes);

/* Checks one access of `bytes` bytes at p: the hardware accepts only multiples of that size. */
static inline void tandem_sim_aligned(const void *p, size_t bytes) {
    if (reinterpret_cast<uintptr_t>(p) % bytes != 0)
        tandem_sim_fail_misaligned(p, bytes);
}

/* ---- registration --------------------------------------------------------------------------- */

struct tandem_sim_parameter {
    size_t bytes;
    bool is_pointer; /* must then be NULL or point into memory of the device */
};

struct tandem_sim_kernel {
    const char *name;
    void (*invoke)(void *const *parameters); /* calls the kernel for the running thread */
    const tandem_sim_parameter *parameters;
    int parameter_count;
    int group[3];     /* the size of its blocks, or 0: any */
    int architecture; /* the smallest compute capability times 10 */
    // The first compute capability that it does not support; 0: none. If two kernels fit a device,
    // the one with such a limit is used.
    int before;
    tandem_sim_kernel *next;
};

/* `kernel` must stay in memory. */
void tandem_sim_register(tandem_sim_kernel *kernel);

template <typename Function, Function kernel> struct tandem_sim_registered;
template <typename... Parameters, void (*kernel)(Parameters...)>
struct tandem_sim_registered<void (*)(Parameters...), kernel> {
    static constexpr int count = sizeof...(Parameters);
    static constexpr tandem_sim_parameter parameters[count + 1] = {
        {sizeof(Parameters), std::is_pointer<Parameters>::value}..., {0, false}};
    template <size_t... index>
    static void call(void *const *values, std::index_sequence<index...> /* of the parameters */) {
        (void)values;
        kernel(*static_cast<std::remove_cv_t<Parameters> *>(values[index])...);
    }
    static void invoke(void *const *values) {
        call(values, std::index_sequence_for<Parameters...>());
    }
};
struct tandem_sim_registration {
    tandem_sim_kernel kernel;
    template <typename Registered>
    tandem_sim_registration(const char *name, Registered /* type only */, int x, int y, int z,
                            int architecture, int before)
        : kernel{name,
                 &Registered::invoke,
                 Registered::parameters,
                 Registered::count,
                 {x, y, z},
                 architecture,
                 before,
                 nullptr} {
        tandem_sim_register(&kernel);
    }
};

/*
 * Place this after the definition of a kernel. It registers `function` under `name` (a string) for
 * blocks of x × y × z threads (0, 0, 0: any). The kernel is then found on compute capability
 * `architecture` ÷ 10 and later. The second form registers it only before `before` ÷ 10, unless
 * that is 0. */
#define TANDEM_SIM_REGISTER(function, name, x, y, z, architecture)                                 \
    TANDEM_SIM_REGISTER_BEFORE(function, name, x, y, z, architecture, 0)
#define TANDEM_SIM_REGISTER_BEFORE(function, name, x, y, z, architecture, before)                  \
    static tandem_sim_registration function##_registration(                                        \
        name, tandem_sim_registered<decltype(&function), &function>(), x, y, z, architecture,      \
        before)

#endif
