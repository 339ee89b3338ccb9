/*
 * The contract between the backend-neutral core and a backend (OpenCL, CUDA).
 *
 * A backend is one folder and one `static const tdm_backend` with designated initialisers. It sees
 * this header and the public headers, nothing else of the core. The core owns tensors, the pool,
 * dispatch, recording, lifetimes and locking. A backend turns small, checked requests into driver
 * calls.
 *
 * Threads: unless a slot says otherwise, the core may call a slot from any thread, but never two
 * calls on one stream at once. Errors: a slot returns a status and calls tdm_fail for the detail,
 * with the native code's name. Out-pointers are written on success only. A slot marked optional may
 * be NULL.
 */
#ifndef TANDEM_API_BACKEND_H
#define TANDEM_API_BACKEND_H

#include <stdbool.h>

#include "kernels/prebuilt.h"

#include <tandem/device.h>

/* ---- services of the core for backends ------------------------------------------------------ */

/* Sets the thread's detail text. */
void tdm_set_detail(const char *format, ...) TDM_PRINTF(1, 2);

/*
 * Sets the thread's detail text and evaluates to `status`, for `return tdm_fail(...)`. It is a
 * macro so that compilers and analysers know which status is returned. They then see that
 * out-parameters are not read after a failure.
 */
#define tdm_fail(status, ...) (tdm_set_detail(__VA_ARGS__), (status))

/* Puts "prefix: " before the thread's detail text; returns `status`. */
tdm_status tdm_fail_prefix(tdm_status status, const char *format, ...) TDM_PRINTF(2, 3);

/* Sends one message to the log callback (topics: "driver", "cache", "pool", "dispatch",
 * "tuning"). */
void tdm_log(tdm_log_level level, const char *topic, const char *format, ...) TDM_PRINTF(3, 4);

/* True if a message of this level and topic has a receiver. It guards costly formatting. */
bool tdm_log_wanted(tdm_log_level level, const char *topic);

/* Host memory through the user's hooks. tdm_host_calloc checks count * bytes for overflow. All of
 * these functions return NULL if there is no memory. */
void *tdm_host_alloc(size_t bytes);
void *tdm_host_calloc(size_t count, size_t bytes);
void *tdm_host_realloc(void *pointer, size_t old_bytes, size_t bytes);
char *tdm_host_strdup(const char *text);
void tdm_host_free(void *pointer);

/* Returns an environment variable, or NULL. With `secure` it returns NULL in a program with raised
 * privileges. */
const char *tdm_environment(const char *name, bool secure);

/*
 * Returns the path of a user's file, in host memory. The variable `own` gives the path ("off":
 * none). Without it, the path is `rest` below the folder in the variable `xdg`, else below `folder`
 * in the home directory. Returns NULL if there is no path or no host memory. Programs with raised
 * privileges have no path.
 */
char *tdm_user_path(const char *own, const char *xdg, const char *folder, const char *rest);

/*
 * Fault injection for tests: a backend calls it before every driver call. `call` is the driver
 * function's name. Returns the native code to fail with, or 0 to make the call. It costs one
 * relaxed load if no fault is planted.
 */
int tdm_fault(const char *call);

/*
 * True if the planted failure is permanent, which models a lost device. A driver function that
 * waits is then still called before the failure is returned, so that no work is left. A failure
 * that occurs once replaces the call.
 */
bool tdm_fault_lasts(void);

/* A list of notes, which starts zero-initialised. A note is dropped if there is no memory for it.
 * tdm_notes_at returns NULL after the last note. Not thread-safe. */
typedef struct tdm_notes {
    char **texts;
    int count;
} tdm_notes;
void tdm_notes_add(tdm_notes *notes, const char *format, ...) TDM_PRINTF(2, 3);
const char *tdm_notes_at(const tdm_notes *notes, int index);
void tdm_notes_free(tdm_notes *notes);

/* ---- opaque objects of a backend ------------------------------------------------------------ */

typedef struct tdm_bk_instance tdm_bk_instance; /* a loaded driver and its device list */
typedef struct tdm_bk_device tdm_bk_device;     /* an open device: native context */
typedef struct tdm_bk_memory tdm_bk_memory;     /* one native allocation */
typedef struct tdm_bk_stream tdm_bk_stream;     /* an in-order native queue */
typedef struct tdm_bk_event tdm_bk_event;       /* a marker in a queue */
typedef struct tdm_bk_kernel tdm_bk_kernel;     /* a built program with one entry point */
typedef struct tdm_bk_graph tdm_bk_graph;       /* a list of commands that the driver holds */

/* ---- launches ------------------------------------------------------------------------------- */

typedef enum tdm_arg_kind {
    TDM_ARG_BUFFER = 1, /* expands to two kernel parameters: pointer, 64-bit offset in elements */
    TDM_ARG_S32,
    TDM_ARG_U32,
    TDM_ARG_S64,
    TDM_ARG_F32,
    /* by-value struct of at most TDM_BLOB_BYTES, aligned to 64 bytes (e.g. tdm_dims) */
    TDM_ARG_BLOB,
    TDM_ARG_LOCAL,     /* local (shared) memory of `bytes` bytes */
    TDM_ARG_TENSOR_MAP /* a tensor by its tensor map; only with TDM_CAP_WGMMA */
} tdm_arg_kind;

/*
 * A tensor of three dimensions for copies by tensor maps. The innermost dimension is first and
 * contiguous. One copy moves a box, whose extents are in `tensor_map`. A box has 128 bytes along
 * the innermost dimension and is swizzled over these bytes in local memory.
 */
typedef struct tdm_bk_tensor_map {
    tdm_dtype dtype;     /* f16, bf16, s8 or u8 */
    uint32_t box[3];     /* extents of a box in elements, 1 … 256 */
    uint64_t sizes[3];   /* elements, 1 … 2^32 */
    uint64_t strides[2]; /* bytes per row, bytes per matrix: multiples of 16 */
} tdm_bk_tensor_map;

#define TDM_BLOB_BYTES 128
#define TDM_MAX_ARGS 32

typedef struct tdm_arg {
    tdm_arg_kind kind;
    uint32_t bytes; /* BLOB, LOCAL */
    union {
        struct {
            tdm_bk_memory *memory; /* never NULL; an absent operand passes another one's memory */
            int64_t offset; /* in the kernel's elements, from the start of the native allocation */
            struct tdm_block *block; /* the core tracks its use; not for backends */
            /* TENSOR_MAP only; read during the call only. The offset in bytes and the allocation's
             * address are multiples of 16. */
            const tdm_bk_tensor_map *tensor_map;
        } buffer;
        int32_t s32;
        uint32_t u32;
        int64_t s64;
        float f32;
        const void *blob; /* read during the call only */
    } value;
} tdm_arg;

typedef struct tdm_launch {
    const tdm_arg *args; /* in the order of the kernel's parameters */
    int arg_count;
    uint32_t groups[3]; /* work-groups per dimension, each ≥ 1 */
    uint32_t group[3];  /* work-items per work-group, each ≥ 1 */
    /* Work-groups per cluster; all 0: no clusters. Only devices with TDM_CAP_WGMMA get other
     * values. */
    uint32_t cluster[3];
} tdm_launch;

/* Compiled code of one kernel source, with all its entries, made when the library was built. It is
 * for backends that do not compile at run time. The bytes live as long as the process. */
typedef struct tdm_prebuilt {
    const void *data;
    size_t bytes;
    bool stand_in; /* the build had no compiler: only entry names, no code */
} tdm_prebuilt;

/* A kernel to build. All strings are read during the call only. */
typedef struct tdm_kernel_source {
    const char *entry; /* entry name, unique in the library */
    const char *text;  /* complete kernel source with includes resolved */
    size_t text_bytes;
    const char *defines;          /* "-DMR=6 -DNR=16" */
    const tdm_prebuilt *prebuilt; /* compiled code of the kernel source; NULL: none */
} tdm_kernel_source;

/* Limits of the device for one built kernel. */
typedef struct tdm_kernel_limits {
    uint32_t max_group_items;
    uint32_t preferred_multiple;
    uint64_t local_bytes;
    uint64_t private_bytes;
} tdm_kernel_limits;

typedef enum tdm_memory_kind {
    TDM_MEMORY_DEVICE = 1, /* fastest for the device */
    /* host memory that the device copies at full speed; mapped by memory_host_address */
    TDM_MEMORY_PINNED = 2
} tdm_memory_kind;

/* Rows of equal length at equal distances, in device memory and in host memory. All in bytes. */
typedef struct tdm_bk_rows {
    uint64_t offset; /* start of the first row in device memory */
    size_t pitch;    /* distance of rows in device memory, ≥ bytes */
    size_t host_pitch;
    size_t bytes; /* bytes of each row, ≥ 1 */
    size_t rows;  /* ≥ 1 */
} tdm_bk_rows;

/* Native objects that the slot `native` returns, e.g. for tandem/opencl.h. */
typedef enum tdm_native_kind {
    TDM_NATIVE_PLATFORM = 1,
    TDM_NATIVE_DEVICE,
    TDM_NATIVE_CONTEXT,
    TDM_NATIVE_STREAM, /* object: tdm_bk_stream */
    TDM_NATIVE_MEMORY  /* object: tdm_bk_memory */
} tdm_native_kind;

/* ---- the vtable ----------------------------------------------------------------------------- */

typedef struct tdm_backend {
    const char *name; /* "opencl": first part of selectors, and of TANDEM_<NAME>_LIBRARY */

    /* Loads the driver and lists its devices. On failure the detail gives the reason, which the
     * context keeps as a note. Broken platforms and devices are skipped, each with a note. */
    tdm_status (*open)(tdm_bk_instance **instance);
    void (*close)(tdm_bk_instance *instance);
    int (*device_count)(const tdm_bk_instance *instance);
    /* Returns note `index` about a skipped platform or device, NULL after the last. Owned by the
     * instance. */
    const char *(*note)(const tdm_bk_instance *instance, int index);
    /* Fills every field except struct_size and selector. Probing happened in open. */
    tdm_status (*device_info)(const tdm_bk_instance *instance, int index, tdm_device_info *info);

    tdm_status (*device_open)(tdm_bk_instance *instance, int index, tdm_bk_device **device);
    void (*device_close)(tdm_bk_device *device);

    /*
     * Memory. `bytes` ≥ 1. Out of memory, and no other failure, is TDM_OUT_OF_DEVICE_MEMORY. On
     * discrete devices the memory is made resident here, so that this failure occurs now and not at
     * the first kernel. memory_free: all work on the memory is done.
     */
    tdm_status (*memory_alloc)(tdm_bk_device *device, tdm_memory_kind kind, size_t bytes,
                               tdm_bk_memory **memory);
    void (*memory_free)(tdm_bk_device *device, tdm_bk_memory *memory);
    /* Wraps a native handle (cl_mem, CUdeviceptr) as memory. The handle is retained, and released
     * by memory_free. Optional. */
    tdm_status (*memory_wrap)(tdm_bk_device *device, void *native, size_t bytes,
                              tdm_bk_memory **memory);
    /* Gets the device memory that no process has allocated, as the driver reports it now.
     * TDM_UNSUPPORTED if the driver does not report it, or the value cannot be right. Optional. */
    tdm_status (*memory_free_bytes)(tdm_bk_device *device, uint64_t *bytes);
    /* Gets the host address of pinned memory, which is constant until memory_free. */
    tdm_status (*memory_host_address)(tdm_bk_device *device, tdm_bk_memory *memory, void **address);

    /*
     * Streams. stream_wait blocks until all work is done. A failure of enqueued work is returned
     * once. *failed_operation is then the name given at enqueue of the first failed operation, or
     * NULL if it is unknown.
     */
    tdm_status (*stream_create)(tdm_bk_device *device, tdm_bk_stream **stream);
    void (*stream_destroy)(tdm_bk_stream *stream);
    tdm_status (*stream_flush)(tdm_bk_stream *stream);
    tdm_status (*stream_wait)(tdm_bk_stream *stream, const char **failed_operation);

    /*
     * Events. event_record also flushes. event_elapsed gives the time between two events by the
     * device's clock. It needs TDM_CAP_PROFILING. Both events were recorded with `timed` and are
     * done. event_query, event_wait, event_elapsed and event_destroy may run concurrently with
     * calls on the stream.
     */
    tdm_status (*event_record)(tdm_bk_stream *stream, bool timed, tdm_bk_event **event);
    void (*event_destroy)(tdm_bk_event *event);
    tdm_status (*event_query)(tdm_bk_event *event, bool *done);
    tdm_status (*event_wait)(tdm_bk_event *event);
    tdm_status (*event_elapsed)(tdm_bk_event *start, tdm_bk_event *end, double *nanoseconds);
    tdm_status (*stream_wait_event)(tdm_bk_stream *stream, tdm_bk_event *event);

    /*
     * Enqueued work. `operation` is a static string that names it. Offsets and sizes are in bytes,
     * sizes are ≥ 1, ranges were checked. copy: the ranges never overlap. fill: pattern_bytes is 1,
     * 2, 4 or 8 and divides offset and bytes.
     *
     * write and read: the host memory stays valid, and unchanged for a write, until the stream has
     * reached that point. If it is pinned memory of the device, they do not block and access it in
     * stream order only. Otherwise a write may take the bytes at once, and both may wait for
     * earlier work of the stream.
     */
    tdm_status (*write)(tdm_bk_stream *stream, const char *operation, tdm_bk_memory *target,
                        uint64_t offset, const void *host, size_t bytes);
    tdm_status (*read)(tdm_bk_stream *stream, const char *operation, tdm_bk_memory *source,
                       uint64_t offset, void *host, size_t bytes);
    /* Like write and read, for `rows` pieces of `bytes` bytes each, at the distances that the two
     * pitches give. */
    tdm_status (*write_rows)(tdm_bk_stream *stream, const char *operation, tdm_bk_memory *target,
                             const tdm_bk_rows *rows, const void *host);
    tdm_status (*read_rows)(tdm_bk_stream *stream, const char *operation, tdm_bk_memory *source,
                            const tdm_bk_rows *rows, void *host);
    tdm_status (*copy)(tdm_bk_stream *stream, const char *operation, tdm_bk_memory *target,
                       uint64_t target_offset, tdm_bk_memory *source, uint64_t source_offset,
                       size_t bytes);
    tdm_status (*fill)(tdm_bk_stream *stream, const char *operation, tdm_bk_memory *target,
                       uint64_t offset, size_t bytes, const void *pattern, size_t pattern_bytes);
    tdm_status (*launch)(tdm_bk_stream *stream, const char *operation, tdm_bk_kernel *kernel,
                         const tdm_launch *launch);
    /*
     * Runs `function(user)` in stream order on a thread of the driver or the backend. The function
     * calls nothing in the library that reaches the driver, and does not wait for the driver's
     * work. An accepted task runs exactly once, even if earlier work failed. If the device is lost,
     * it runs inside stream_wait or stream_destroy. Optional: only with TDM_CAP_HOST_TASK.
     */
    tdm_status (*host_task)(tdm_bk_stream *stream, const char *operation,
                            void (*function)(void *user), void *user);

    /*
     * Command lists, optional: all three slots or none. graph_create calls `enqueue(stream, user)`
     * once. This function calls launch, copy and fill on the stream it is given. The calls are
     * recorded, not run, and the failure of one is returned. TDM_UNSUPPORTED: the driver has no
     * command lists.
     *
     * graph_launch enqueues all commands in their order and with their arguments, so the results
     * have the same bits as separate launches. If it fails, nothing was enqueued. Only one
     * thread at a time launches a graph. graph_destroy is legal while the graph's work is in
     * flight.
     */
    tdm_status (*graph_create)(tdm_bk_device *device,
                               tdm_status (*enqueue)(tdm_bk_stream *stream, void *user), void *user,
                               tdm_bk_graph **graph);
    tdm_status (*graph_launch)(tdm_bk_stream *stream, tdm_bk_graph *graph);
    void (*graph_destroy)(tdm_bk_graph *graph);

    /*
     * Kernels. A built kernel may be launched from several threads at once on distinct streams, so
     * the backend keeps separate native kernel objects. The build log goes into the detail
     * (shortened) and to the log (whole).
     */
    tdm_status (*kernel_build)(tdm_bk_device *device, const tdm_kernel_source *source,
                               tdm_bk_kernel **kernel);
    void (*kernel_release)(tdm_bk_kernel *kernel);
    tdm_status (*kernel_limits)(tdm_bk_kernel *kernel, tdm_kernel_limits *limits);
    /*
     * *groups = number of work-groups that a compute unit holds at once; 0: none fits. A group has
     * group_items work-items, and local_bytes of local memory beyond what the kernel source
     * declares. Optional.
     */
    tdm_status (*kernel_occupancy)(tdm_bk_kernel *kernel, uint32_t group_items,
                                   uint32_t local_bytes, uint32_t *groups);

    /*
     * *clusters = number of clusters that the device holds at once; 0: none fits. A cluster has
     * `cluster` work-groups along x. TDM_UNSUPPORTED: the driver does not report it. Optional:
     * for backends that can launch clusters.
     */
    tdm_status (*kernel_clusters)(tdm_bk_kernel *kernel, uint32_t cluster, uint32_t group_items,
                                  uint32_t local_bytes, uint32_t *clusters);

    /* Returns the native handle of the device or of `object`; NULL if there is none. */
    void *(*native)(tdm_bk_device *device, tdm_native_kind kind, void *object);
} tdm_backend;

#endif
