/* Contexts and devices. A context loads the backends, which reach their drivers by dlopen, and
 * lists their devices. Everything else is created from a device. */
#ifndef TANDEM_DEVICE_H
#define TANDEM_DEVICE_H

#include <tandem/dtype.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tdm_context tdm_context;
typedef struct tdm_device tdm_device;

/* Capabilities. Generic code asks for these, never for a device name. Columns: name, bit, text,
 * meaning. */
#define TDM_CAPABILITY_LIST(X)                                                                     \
    X(TDM_CAP_CPU_CORES, 0, "cpu-cores",                                                           \
      "work-items run on CPU cores: wide vectors, no local memory")                                \
    X(TDM_CAP_LOCAL_MEMORY, 1, "local-memory",                                                     \
      "local memory is dedicated memory, not part of global memory")                               \
    X(TDM_CAP_UNIFIED_MEMORY, 2, "unified-memory", "host and device share one memory")             \
    X(TDM_CAP_PROFILING, 3, "profiling", "event time stamps were probed and are plausible")        \
    X(TDM_CAP_FP16_ARITHMETIC, 4, "fp16", "half-precision arithmetic in kernels")                  \
    X(TDM_CAP_FP64, 5, "fp64", "double precision in kernels")                                      \
    X(TDM_CAP_SUBGROUPS, 6, "subgroups", "sub-groups (warps) with shuffles and reductions")        \
    X(TDM_CAP_INT8_DOT, 7, "int8-dot", "accelerated 4x8-bit integer dot product")                  \
    X(TDM_CAP_CORRECT_DIVIDE, 8, "correct-divide", "correctly rounded f32 divide and square root") \
    X(TDM_CAP_HOST_TASK, 9, "host-task", "host functions run in stream order without blocking")    \
    X(TDM_CAP_UNLIMITED_LOOPS, 10, "unlimited-loops",                                              \
      "loops of a work-item may have any number of iterations")                                    \
    X(TDM_CAP_SLABS, 11, "slabs", "blocks share native allocations (off for memory checkers)")     \
    X(TDM_CAP_HOST_AVX2, 12, "avx2", "CPU cores with AVX2 and FMA")                                \
    X(TDM_CAP_HOST_AVX512, 13, "avx512", "CPU cores with AVX-512 F, BW, DQ and VL")                \
    X(TDM_CAP_HOST_VNNI, 14, "avx512-vnni", "CPU cores with AVX-512 VNNI")                         \
    X(TDM_CAP_INT8_DOT_KHR, 15, "int8-dot-khr", "int8-dot by cl_khr_integer_dot_product")          \
    X(TDM_CAP_INT8_DOT_ARM, 16, "int8-dot-arm",                                                    \
      "int8-dot by cl_arm_integer_dot_product_accumulate_int8")                                    \
    X(TDM_CAP_INT8_DOT_QCOM, 17, "int8-dot-qcom", "int8-dot by cl_qcom_dot_product8")              \
    X(TDM_CAP_CUDA, 18, "cuda", "runs the kernels that the build compiled for CUDA")               \
    X(TDM_CAP_ASYNC_COPY, 19, "async-copy",                                                        \
      "copies to local memory overlap with arithmetic (CUDA 8.0 and up)")                          \
    X(TDM_CAP_TENSOR_CORES, 20, "tensor-cores",                                                    \
      "warps multiply matrices of f16 and 8-bit integers (with async-copy also bf16)")             \
    X(TDM_CAP_WGMMA, 21, "wgmma",                                                                  \
      "groups of warps multiply matrices loaded by tensor maps (CUDA 9.0)")                        \
    X(TDM_CAP_HOST_AMX_INT8, 22, "amx-int8",                                                       \
      "CPU cores that multiply tiles of 8-bit integers (AMX), with the system's permission")       \
    X(TDM_CAP_HOST_BF16, 23, "avx512-bf16",                                                        \
      "CPU cores that multiply pairs of bf16 (AVX-512 BF16)")                                      \
    X(TDM_CAP_HOST_ASSEMBLY, 24, "host-assembly", "kernels may contain x86 assembly and intrinsics")

typedef enum tdm_capability {
#define TDM_CAPABILITY_ENUM(name, bit, text, meaning) name = 1 << (bit),
    TDM_CAPABILITY_LIST(TDM_CAPABILITY_ENUM)
#undef TDM_CAPABILITY_ENUM
} tdm_capability;

typedef enum tdm_device_type {
    TDM_DEVICE_CPU = 1,
    TDM_DEVICE_GPU = 2,
    TDM_DEVICE_ACCELERATOR = 3,
    TDM_DEVICE_OTHER = 4
} tdm_device_type;

/* Properties of a device. Zero or an empty text means that the driver does not report the value. */
typedef struct tdm_device_info {
    size_t struct_size;     /* sizeof(tdm_device_info), set by the caller */
    char backend[16];       /* "opencl", "cuda" */
    char driver_family[32]; /* "pocl", "rusticl", "nvidia", ...: lower case, no spaces */
    char name[128];         /* as the driver reports it */
    char vendor[128];
    char driver_version[128];
    char api_version[128];    /* e.g. "OpenCL 3.0 PoCL HSTR: ..." */
    char kernel_language[64]; /* e.g. "OpenCL C 1.2" */
    char selector[192];       /* "backend/driver-family/name"; see tdm_context_find_device */
    tdm_device_type type;
    uint32_t capabilities; /* bits of tdm_capability */
    uint32_t compute_units;
    uint32_t clock_mhz;
    uint32_t max_group_items; /* work-items per work-group; a kernel may allow fewer */
    uint32_t max_group[3];    /* per dimension */
    uint32_t alignment_bytes; /* alignment of a block's start */
    uint32_t address_bits;    /* 32 or 64 */
    uint32_t subgroup_size;   /* 0: no sub-groups */
    uint32_t timer_ns;        /* resolution of event times, in nanoseconds */
    uint64_t global_bytes;    /* device memory */
    uint64_t max_alloc_bytes; /* largest single native allocation */
    uint64_t local_bytes;     /* local (shared) memory per work-group */
    uint64_t cache_bytes;     /* last-level cache, if the driver reports it */
    uint64_t constant_bytes;
    uint32_t vendor_id;        /* PCI vendor number (0x10de, ...), if the driver reports it */
    uint32_t architecture;     /* CUDA: compute capability times ten (90 is 9.0) */
    uint32_t unit_items;       /* work-items that a compute unit holds at a time */
    uint32_t memory_clock_mhz; /* clock of the device memory */
    uint32_t memory_bus_bits;
    uint32_t error_correction; /* ECC of the device memory: 1 off, 2 on */
    char board_name[128];      /* product name, where `name` is the chip's; "": unknown */
    char pci_address[16];      /* "0000:3b:00.0"; "": unknown */
} tdm_device_info;

/* Options of a context. All zero but struct_size: the defaults. */
typedef struct tdm_context_options {
    size_t struct_size;         /* sizeof(tdm_context_options) */
    const char *backends;       /* comma-separated names to load; NULL: all that were built in */
    uint64_t pool_budget_bytes; /* bound on reserved memory per device; 0: the device's memory */
    /* bound on pinned host memory per device; 0: half of the host's memory */
    uint64_t staging_budget_bytes;
    /* Not 0: one native allocation per block, for memory checkers; also TANDEM_POOL=direct. */
    int direct_pool;
    /* Not 0: red zones, poison and checked handles (docs/memory.md); also TANDEM_POOL=debug. */
    int debug_pool;
} tdm_context_options;

/*
 * Load the backends and list their devices. options may be NULL. The caller releases the context
 * with tdm_context_destroy. A missing or broken backend, platform or device is not a failure: it is
 * skipped, and a tdm_context_note says why. A context with no device is valid. Blocking (drivers
 * initialise). Thread-safe. Statuses: TDM_BAD_ARGUMENT, TDM_OUT_OF_HOST_MEMORY, TDM_BAD_STATE (this
 * process is a fork of one that opened the drivers). Since 0.1.
 *
 * An OpenCL driver may crash, hang or end the process while it is loaded or lists its devices. It
 * may also write to standard output or close a standard descriptor. A helper process with a limit
 * of 10 seconds finds such a driver. The driver is then skipped and named in a note. The result is
 * cached for a day. TANDEM_DRIVER_PROBE=off in the environment opens drivers without the helper
 * process.
 *
 * Some environment variables that this call or its devices read (docs/architecture.md lists all):
 *   TANDEM_OPENCL_LIBRARY, TANDEM_CUDA_LIBRARY   other driver files; ignored in programs that run
 *                                                with raised privileges
 *   TANDEM_POOL=direct                           one native allocation per block
 *   TANDEM_POOL=debug                            debug mode
 *   TANDEM_POOL=debug,abort                      the same; a write outside a block or to freed
 *                                                memory is reported on standard error and ends the
 *                                                process by abort(), for tests
 *   TANDEM_CACHE_DIR                             folder of the program cache; "off" disables it
 * tdm_device_get reads TANDEM_TUNING_FILE, the file that `tandem tune` wrote; "off": no file.
 *
 * fork: a child process must not use or destroy objects of its parent. If the parent has listed
 * devices of a driver, the child cannot create a context with that driver: TDM_BAD_STATE. exit: no
 * library code runs at exit. The system reclaims objects that were not destroyed.
 */
TDM_API tdm_status tdm_context_create(const tdm_context_options *options, tdm_context **context);

/* Release the caller's reference; NULL is accepted. Devices, and objects created from them, keep
 * the context alive. Thread-safe. Since 0.1. */
TDM_API void tdm_context_destroy(tdm_context *context);

/* Returns the number of devices; 0 for NULL. The order of devices is constant for the life of the
 * context. Thread-safe. Since 0.1. */
TDM_API int tdm_context_device_count(const tdm_context *context);

/*
 * Returns the number of notes. There is one for each skipped backend, platform or device, and for
 * each unknown backend name, e.g. "cuda: no driver: libcuda.so.1: ..." or "opencl: platform Clover
 * has no devices". Thread-safe. Since 0.1.
 */
TDM_API int tdm_context_note_count(const tdm_context *context);

/* Returns note `index`, or NULL if there is none. Owned by the context. Thread-safe. Since 0.1. */
TDM_API const char *tdm_context_note(const tdm_context *context, int index);

/*
 * Get device `index` of the context. The first call opens it (native context and pools). The device
 * is shared: each successful call adds a reference, which the caller releases with
 * tdm_device_release. Blocking on first use. Statuses: TDM_BAD_ARGUMENT, TDM_NO_DEVICE (no such
 * index), TDM_OUT_OF_HOST_MEMORY, TDM_DEVICE_LOST, TDM_INTERNAL (the driver refused; the detail
 * says what). Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_device_get(tdm_context *context, int index, tdm_device **device);

/*
 * *index = the first device that `selector` matches. A selector is a decimal index, or a part of
 * the device's selector text, case-insensitive ("pocl", "opencl/rusticl"). Statuses:
 * TDM_BAD_ARGUMENT, TDM_NO_DEVICE (none matches; the detail lists the devices). Thread-safe. Since
 * 0.1.
 */
TDM_API tdm_status tdm_context_find_device(const tdm_context *context, const char *selector,
                                           int *index);

/* Release a reference; NULL is accepted. Thread-safe. Since 0.1. */
TDM_API void tdm_device_release(tdm_device *device);

/*
 * Describe device `index` without opening it. info->struct_size must be set. Statuses:
 * TDM_BAD_ARGUMENT, TDM_NO_DEVICE. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_context_device_info(const tdm_context *context, int index,
                                           tdm_device_info *info);

/* Describe an open device. Statuses: TDM_BAD_ARGUMENT. Thread-safe. Since 0.1. */
TDM_API tdm_status tdm_device_describe(const tdm_device *device, tdm_device_info *info);

/* Returns the text of a capability bit ("fp16"), or NULL for a bit without a name. Thread-safe.
 * Since 0.1. */
TDM_API const char *tdm_capability_name(uint32_t bit);

/* Wait until everything enqueued on every stream of the device is done. Statuses: TDM_BAD_ARGUMENT,
 * a stream's failure (see tdm_stream_synchronize). Thread-safe. Since 0.1. */
TDM_API tdm_status tdm_device_synchronize(tdm_device *device);

#ifdef __cplusplus
}
#endif

#endif
