/*
 * What a kernel that is compiled as host code asks of the CUDA simulator: the form of the dialect for the host
 * (kernels/dialect/dialect_host.h) turns its words into these, and the scheduler (scheduler.h) stands behind them. C++ only.
 *
 * The threads of a block are fibers of one operating system's thread: what is not one of the functions below needs no
 * locks and no atomics. Nothing here is said of speed; everything that a missing word of the text would break is kept as
 * lazy as the hardware may be: shared memory begins as NaNs, an asynchronous copy arrives at the wait that covers it and
 * is NaNs until then, and threads run in an order that differs from block to block.
 */
#ifndef TANDEM_TESTS_CUDA_SIMULATOR_SIMULATOR_KERNEL_H
#define TANDEM_TESTS_CUDA_SIMULATOR_SIMULATOR_KERNEL_H

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>

/* ---- who am I ------------------------------------------------------------------------------- */

struct tandem_sim_block {
    int size[3];      /* threads of the block */
    int threads;      /* their product */
    long group[3];    /* of the block in the grid */
    long groups[3];   /* blocks of the grid */
    int cluster_rank; /* of the block in its cluster */
    int cluster_size; /* blocks of the cluster, 1 where there are none */
};

struct tandem_sim_thread {
    int item[3];                   /* of the thread in its block */
    int lane, warp;                /* of 32 lanes each, in the order x, y, z */
    const tandem_sim_block *block; /* its own */
};

/* The thread that runs now. Another one runs after each call that waits, in the same thread of the system. */
extern __thread tandem_sim_thread *tandem_sim_self __attribute__((tls_model("initial-exec")));

/* ---- blocks --------------------------------------------------------------------------------- */

/*
 * Wait until all threads of the block are here. One that never comes, since it has left the kernel or waits elsewhere, is an
 * error of the launch. `site` tells barriers of the text apart (__LINE__): threads at different ones are an error too.
 */
void tandem_sim_barrier(int site);

/* Wait until `threads` threads, a multiple of 32, are at barrier `index` of the block, 1 to 15. */
void tandem_sim_named_barrier(int index, int threads);

/*
 * The block's memory of one declaration: `site` is the address of something static that is the declaration's own. The
 * same address for all threads of a block; a block begins with NaNs in it.
 */
void *tandem_sim_shared(const void *site, size_t bytes);

/* The bytes that the launch asked for, one for all threads of a block; aligned to 1024 bytes. */
void *tandem_sim_dynamic_shared();

/* The same place as `local` in shared memory of another block of the cluster. */
void *tandem_sim_cluster_shared(void *local, int rank);
void tandem_sim_cluster_barrier(int site);

/* ---- asynchronous copies -------------------------------------------------------------------- */

/*
 * cp.async: 16 bytes from global to shared memory, both aligned to 16 bytes, of which the first `bytes_valid` come from
 * `from` and the rest are zeros. The bytes are there after the wait that covers them, for this thread; others need a
 * barrier too.
 */
void tandem_sim_async_copy(void *to, const void *from, int bytes_valid);
/* The same of 4 bytes, aligned to 4. */
void tandem_sim_async_copy_4(void *to, const void *from, int bytes_valid);

/* The copies since the last commit become one group; at most `pending` of the latest groups may be under way after a wait. */
void tandem_sim_async_commit();
void tandem_sim_async_wait(int pending);

/* ---- warps ---------------------------------------------------------------------------------- */

/*
 * All lanes in `mask` give `bytes` bytes (at most 64) and wait for each other; what comes back is the array of 32 × 64 bytes
 * of what each gave, to be read until tandem_sim_warp_release. `operation` tells apart what must not meet.
 */
enum {
    TANDEM_SIM_GIFT_BYTES = 64
};
const unsigned char (*tandem_sim_warp_exchange(const char *operation, uint32_t mask,
                                               const void *gift,
                                               size_t bytes))[TANDEM_SIM_GIFT_BYTES];
void tandem_sim_warp_release(uint32_t mask);

/* What the lanes of a warp gave, as long as this object lives. */
template <typename T> class tandem_sim_exchange {
  public:
    tandem_sim_exchange(const char *operation, uint32_t mask, const T &gift)
        : mask_(mask), gifts_(tandem_sim_warp_exchange(operation, mask, &gift, sizeof(T))) {
        static_assert(std::is_trivially_copyable<T>::value && sizeof(T) <= TANDEM_SIM_GIFT_BYTES,
                      "lanes exchange plain data of at most 64 bytes");
    }
    ~tandem_sim_exchange() {
        tandem_sim_warp_release(mask_);
    }
    tandem_sim_exchange(const tandem_sim_exchange &) = delete;
    tandem_sim_exchange &operator=(const tandem_sim_exchange &) = delete;
    T operator[](int lane) const {
        T gift;
        std::memcpy(&gift, gifts_[lane & 31], sizeof(T));
        return gift;
    }

  private:
    uint32_t mask_;
    const unsigned char (*gifts_)[TANDEM_SIM_GIFT_BYTES];
};

static inline void tandem_sim_warp_barrier(uint32_t mask) {
    const char none = 0;
    tandem_sim_exchange<char> all("__syncwarp", mask, none);
}

/* CUDA's __shfl_*_sync; `width` is a power of two up to 32. A source lane outside of `mask` is an error of the launch. */
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

/* Bit l: `vote` of lane l was true. */
uint32_t tandem_sim_ballot(uint32_t mask, bool vote);

/* ---- tensor cores (tensor_words.cpp): what kernels/dialect/dialect_tensor.h says of its words ---- */

/* ldmatrix.x4 and .trans: 16 bytes at `row`, of the block's shared memory, from each lane. */
void tandem_sim_matrices_load(uint32_t (&r)[4], const void *row, bool turned);
/* mma.sync, of all lanes of the warp: each sum goes on from d, k ascending, every step a multiplication and an addition in f32. */
void tandem_sim_matrices_f16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
void tandem_sim_matrices_bf16(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
/* Elements are f32 whose low 13 bits count as 0. */
void tandem_sim_matrices_tf32(float (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1);
void tandem_sim_matrices_f16_half(float (&d)[4], uint32_t a0, uint32_t a1, uint32_t b);
/* a_signed: A is of s8, else of u8. Sums wrap. */
void tandem_sim_matrices_int(int (&d)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1,
                             bool a_signed);
void tandem_sim_matrices_int_half(int &d0, int &d1, uint32_t a, uint32_t b, bool a_signed);

/* ---- errors --------------------------------------------------------------------------------- */

/* Ends the launch as CUDA_ERROR_LAUNCH_FAILED (or ILLEGAL_ADDRESS), and says why in the simulator's log. */
[[noreturn]] void tandem_sim_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
[[noreturn]] void tandem_sim_fail_address(const char *format, ...)
    __attribute__((format(printf, 1, 2)));
/* As CUDA_ERROR_MISALIGNED_ADDRESS. */
[[noreturn]] void tandem_sim_fail_misaligned(const void *p, size_t bytes);

/* One access of `bytes` bytes at p: the hardware takes it at multiples of them alone. */
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
    void (*invoke)(void *const *parameters); /* calls it for the thread that runs now */
    const tandem_sim_parameter *parameters;
    int parameter_count;
    int group[3];     /* the size of its blocks, or 0: any */
    int architecture; /* the smallest compute capability times 10 */
    int before; /* the first one that it is not for; 0: any. Of two that are for a device, the one with such a bound is meant */
    tandem_sim_kernel *next;
};

/* `kernel` stays in memory. */
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
 * After the definition of a kernel: `function` under `name` (a string) for blocks of x × y × z threads (0, 0, 0: any), on
 * compute capability `architecture` ÷ 10 and later; the second form only before `before` ÷ 10, where that is not 0.
 */
#define TANDEM_SIM_REGISTER(function, name, x, y, z, architecture)                                 \
    TANDEM_SIM_REGISTER_BEFORE(function, name, x, y, z, architecture, 0)
#define TANDEM_SIM_REGISTER_BEFORE(function, name, x, y, z, architecture, before)                  \
    static tandem_sim_registration function##_registration(                                        \
        name, tandem_sim_registered<decltype(&function), &function>(), x, y, z, architecture,      \
        before)

#endif
