/*
 * The contract between the backend-neutral core and a backend (OpenCL, CUDA).
 *
 * A backend is one folder and one `static const tdm_backend` with designated initialisers. It sees
 * this header and the public headers, nothing else of the core. The core owns tensors, the pool,
 * dispatch, recording, lifetimes and locking; a backend turns small, checked requests into driver
 * calls.
 *
 * Threads: unless a slot says otherwise, the core may call a slot from any thread, but never two
 * calls on the same stream at once. Errors: a slot returns a status and calls tdm_fail for the
 * detail, with the native code's name. Out-pointers are written on success only. A slot marked
 * optional may be NULL.
 */
#ifndef TANDEM_API_BACKEND_H
#define TANDEM_API_BACKEND_H

#include <stdbool.h>

#include "kernels/prebuilt.h"

#include <tandem/device.h>

/* ---- services of the core for backends ------------------------------------------------------ */

/* Set the thread's detail text. */
void tdm_set_detail(const char *format, ...) TDM_PRINTF(1, 2);

/*
 * Set the thread's detail text and give `status` back, for `return tdm_fail(...)`. A macro, so that compilers and analysers
 * know the status that comes back: out-parameters are not read after it.
 */
#define tdm_fail(status, ...) (tdm_set_detail(__VA_ARGS__), (status))

/* Put "prefix: " before the thread's detail text; returns `status`. */
tdm_status tdm_fail_prefix(tdm_status status, const char *format, ...) TDM_PRINTF(2, 3);

/* Send one message to the log callback (topics: "driver", "cache", "pool", "dispatch",
 * "tuning"). */
void tdm_log(tdm_log_level level, const char *topic, const char *format, ...) TDM_PRINTF(3, 4);

/* True when a message of this level and topic would reach anybody: guards costly formatting. */
bool tdm_log_wanted(tdm_log_level level, const char *topic);

/* Host memory through the user's hooks. tdm_host_calloc checks the product; both return NULL when
 * there is none. */
void *tdm_host_alloc(size_t bytes);
void *tdm_host_calloc(size_t count, size_t bytes);
void *tdm_host_realloc(void *pointer, size_t old_bytes, size_t bytes);
char *tdm_host_strdup(const char *text);
void tdm_host_free(void *pointer);

/* An environment variable, or NULL; NULL too for a program with raised privileges when `secure`. */
const char *tdm_environment(const char *name, bool secure);

/*
 * A path of the user's, in host memory: what the variable `own` says ("off": none), else `rest` below what the XDG variable says,
 * else below `folder` of the home. NULL: there is none, or no host memory. Programs that run with raised privileges have none.
 */
char *tdm_user_path(const char *own, const char *xdg, const char *folder, const char *rest);

/*
 * Fault injection for tests: a backend passes every driver call through it. Returns the native code
 * to fail with, or 0 to really call. `call` is the driver function's name. Costs one relaxed load
 * when no fault is planted.
 */
int tdm_fault(const char *call);

/*
 * Whether the planted failure is one for ever: that of a device that is lost. What a lost device had to do is over, so a call that
 * waits is really made, and fails when it returns; where a failure comes once, it comes instead of the wait.
 */
bool tdm_fault_lasts(void);

/*
 * Notes of a list that is zeroed at first. A note that finds no memory is lost, which harms nothing. tdm_notes_at: NULL after the
 * last. Not thread-safe.
 */
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
    TDM_ARG_BUFFER =
        1, /* expands to two kernel parameters: pointer, then 64-bit offset in elements */
    TDM_ARG_S32,
    TDM_ARG_U32,
    TDM_ARG_S64,
    TDM_ARG_F32,
    TDM_ARG_BLOB,  /* by-value struct, at most TDM_BLOB_BYTES, aligned 64 (e.g. tdm_dims, a tensor
                     map) */
    TDM_ARG_LOCAL, /* local (shared) memory of `bytes` bytes */
    TDM_ARG_TENSOR_MAP /* a tensor by its map; only with TDM_CAP_WGMMA */
} tdm_arg_kind;

/*
 * A tensor of three dimensions, innermost first and contiguous along it, as copies by tensor maps see it. Their boxes fill
 * box[0] · element size = 128 bytes along the innermost dimension, and are swizzled over these in local memory.
 */
typedef struct tdm_bk_box {
    tdm_dtype dtype;   /* f16, bf16, s8 or u8 */
    uint32_t box[3];   /* elements, 1 … 256 */
    uint64_t sizes[3]; /* elements, 1 … 2^32 */
    uint64_t strides
        [2]; /* bytes from one row to the next, from one matrix to the next: multiples of 16 */
} tdm_bk_box;

#define TDM_BLOB_BYTES 128
#define TDM_MAX_ARGS 32

typedef struct tdm_arg {
    tdm_arg_kind kind;
    uint32_t bytes; /* BLOB, LOCAL */
    union {
        struct {
            tdm_bk_memory
                *memory; /* never NULL; where there is no operand pass another operand's memory */
            int64_t offset; /* in the kernel's elements from the start of the native allocation */
            struct tdm_block *block; /* the core's, for lifetimes; not for backends */
            const tdm_bk_box *
                box; /* TENSOR_MAP, read during the call only; the offset, in bytes, and the allocation's address are multiples of 16 */
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
    uint32_t groups[3];  /* work-groups per dimension, each ≥ 1 */
    uint32_t group[3];   /* work-items per work-group, each ≥ 1 */
    uint32_t cluster[3]; /* work-groups per cluster; all 0: no clusters (only backends that announce
                            them take others) */
} tdm_launch;

/*
 * What the library's build compiled of one text, all its entries in one piece, for backends that do not compile at run time.
 * Its bytes live as long as the process.
 */
typedef struct tdm_prebuilt {
    const void *data;
    size_t bytes;
    bool stand_in; /* the names of its entries only: the build found no compiler for it */
} tdm_prebuilt;

/* A kernel to build. All strings are read during the call only. */
typedef struct tdm_kernel_source {
    const char *entry; /* entry name, unique in the library */
    const char *text;  /* complete text with includes resolved */
    size_t text_bytes;
    const char *defines;          /* "-DMR=6 -DNR=16" */
    const tdm_prebuilt *prebuilt; /* the text's, or NULL: there is none */
} tdm_kernel_source;

/* What the device allows for one built kernel. */
typedef struct tdm_kernel_limits {
    uint32_t max_group_items;
    uint32_t preferred_multiple;
    uint64_t local_bytes;
    uint64_t private_bytes;
} tdm_kernel_limits;

typedef enum tdm_memory_kind {
    TDM_MEMORY_DEVICE = 1, /* fastest for the device */
    TDM_MEMORY_PINNED =
        2 /* host memory the device copies from at full speed; map gives its address */
} tdm_memory_kind;

/* Pieces of equal length at equal distances, in device memory and in the host's; all in bytes. */
typedef struct tdm_bk_rows {
    uint64_t offset; /* of the first, in the device memory */
    size_t pitch;    /* from one to the next there, ≥ bytes */
    size_t host_pitch;
    size_t bytes; /* of each, ≥ 1 */
    size_t rows;  /* ≥ 1 */
} tdm_bk_rows;

/* What `native` hands out, e.g. for tandem/opencl.h. */
typedef enum tdm_native_kind {
    TDM_NATIVE_PLATFORM = 1,
    TDM_NATIVE_DEVICE,
    TDM_NATIVE_CONTEXT,
    TDM_NATIVE_STREAM, /* object: tdm_bk_stream */
    TDM_NATIVE_MEMORY  /* object: tdm_bk_memory */
} tdm_native_kind;

/* ---- the vtable ----------------------------------------------------------------------------- */

typedef struct tdm_backend {
    const char *name; /* "opencl": the first part of selectors, TANDEM_<NAME>_LIBRARY */

    /* Load the driver and list its devices. On failure the detail says why the backend is missing;
     * that is reported as a note. Broken platforms and devices are passed over with a note of their
     * own. */
    tdm_status (*open)(tdm_bk_instance **instance);
    void (*close)(tdm_bk_instance *instance);
    int (*device_count)(const tdm_bk_instance *instance);
    /* Note `index` about something passed over, NULL after the last. Owned by the instance. */
    const char *(*note)(const tdm_bk_instance *instance, int index);
    /* Fill every field (struct_size and selector excepted). Probing happened in open. */
    tdm_status (*device_info)(const tdm_bk_instance *instance, int index, tdm_device_info *info);

    tdm_status (*device_open)(tdm_bk_instance *instance, int index, tdm_bk_device **device);
    void (*device_close)(tdm_bk_device *device);

    /* Memory. `bytes` ≥ 1. Out of memory is TDM_OUT_OF_DEVICE_MEMORY and nothing else is; on
     * discrete devices the memory is made resident here, so that it comes now and not at the first
     * kernel. memory_free: all work on it has passed. */
    tdm_status (*memory_alloc)(tdm_bk_device *device, tdm_memory_kind kind, size_t bytes,
                               tdm_bk_memory **memory);
    void (*memory_free)(tdm_bk_device *device, tdm_bk_memory *memory);
    /* Take a native handle (cl_mem, CUdeviceptr) as memory; retained, released by memory_free.
     * Optional. */
    tdm_status (*memory_wrap)(tdm_bk_device *device, void *native, size_t bytes,
                              tdm_bk_memory **memory);
    /* Device memory that no process has taken, as the driver tells it now. TDM_UNSUPPORTED where it
     * does not, or cannot be right. Optional. */
    tdm_status (*memory_free_bytes)(tdm_bk_device *device, uint64_t *bytes);
    /* Host address of pinned memory, constant until memory_free. */
    tdm_status (*memory_host_address)(tdm_bk_device *device, tdm_bk_memory *memory, void **address);

    /* Streams. stream_wait blocks until all is done; a failure of enqueued work is returned once,
     * with *failed_operation = the name given at enqueue of the first failed operation (NULL when
     * unknown). */
    tdm_status (*stream_create)(tdm_bk_device *device, tdm_bk_stream **stream);
    void (*stream_destroy)(tdm_bk_stream *stream);
    tdm_status (*stream_flush)(tdm_bk_stream *stream);
    tdm_status (*stream_wait)(tdm_bk_stream *stream, const char **failed_operation);

    /* Events. event_record also flushes. event_query: *done. event_elapsed: from one to another by the device's clock; both
     * were recorded with `timed` and are done; only with TDM_CAP_PROFILING. event_query, event_wait, event_elapsed and
     * event_destroy may run beside calls on the stream. */
    tdm_status (*event_record)(tdm_bk_stream *stream, bool timed, tdm_bk_event **event);
    void (*event_destroy)(tdm_bk_event *event);
    tdm_status (*event_query)(tdm_bk_event *event, bool *done);
    tdm_status (*event_wait)(tdm_bk_event *event);
    tdm_status (*event_elapsed)(tdm_bk_event *start, tdm_bk_event *end, double *nanoseconds);
    tdm_status (*stream_wait_event)(tdm_bk_stream *stream, tdm_bk_event *event);

    /* Enqueued work; `operation` is a static string that names it. Offsets and sizes in bytes, size
     * ≥ 1, ranges checked. write and read: the host side stays valid, and that of a write unchanged, until the stream has
     * passed. Where it lies in pinned memory of the device they do not block, and touch it in stream order only; elsewhere
     * a write may take the bytes at once, and both may wait for earlier work of the stream. copy: never overlapping. fill:
     * pattern_bytes is 1, 2, 4 or 8 and divides offset and bytes. */
    tdm_status (*write)(tdm_bk_stream *stream, const char *operation, tdm_bk_memory *target,
                        uint64_t offset, const void *host, size_t bytes);
    tdm_status (*read)(tdm_bk_stream *stream, const char *operation, tdm_bk_memory *source,
                       uint64_t offset, void *host, size_t bytes);
    /* The same for `rows` pieces of `bytes` bytes each, as far apart as the pitches say on either side (≥ bytes). */
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
    /* Run `function(user)` in stream order on a thread of the driver; it calls nothing of the library that reaches the
     * driver, and waits for none of its work. A task that was accepted is run exactly once, also where work before it failed;
     * where the device is lost, inside stream_wait or stream_destroy. Optional: only with TDM_CAP_HOST_TASK. */
    tdm_status (*host_task)(tdm_bk_stream *stream, const char *operation,
                            void (*function)(void *user), void *user);

    /*
     * Command lists, optional: all three slots or none. graph_create calls `enqueue(stream, user)` once, which calls launch, copy
     * and fill on the stream it is given; they are noted and not done, and the failure of one is returned. graph_launch enqueues
     * all of them, in their order and with their arguments, so that the bits are those of the single commands; where it fails
     * nothing was enqueued. One thread at a time launches a graph. graph_destroy: legal while its work is in flight.
     * TDM_UNSUPPORTED from graph_create: the driver has none.
     */
    tdm_status (*graph_create)(tdm_bk_device *device,
                               tdm_status (*enqueue)(tdm_bk_stream *stream, void *user), void *user,
                               tdm_bk_graph **graph);
    tdm_status (*graph_launch)(tdm_bk_stream *stream, tdm_bk_graph *graph);
    void (*graph_destroy)(tdm_bk_graph *graph);

    /* Kernels. A built kernel may be launched from several threads at once on distinct streams: the
     * backend keeps native kernel objects apart. The build log goes into the detail (shortened) and
     * to the log (whole). */
    tdm_status (*kernel_build)(tdm_bk_device *device, const tdm_kernel_source *source,
                               tdm_bk_kernel **kernel);
    void (*kernel_release)(tdm_bk_kernel *kernel);
    tdm_status (*kernel_limits)(tdm_bk_kernel *kernel, tdm_kernel_limits *limits);
    /* Work-groups of so many work-items, with local memory beyond what the text declares, that a compute unit holds at once; 0: it
     * takes none. Optional. */
    tdm_status (*kernel_occupancy)(tdm_bk_kernel *kernel, uint32_t group_items,
                                   uint32_t local_bytes, uint32_t *groups);

    /* Clusters of `cluster` such groups along x that the device holds at once; 0: it takes none. TDM_UNSUPPORTED: the driver does
     * not tell. Optional: only with clusters. */
    tdm_status (*kernel_clusters)(tdm_bk_kernel *kernel, uint32_t cluster, uint32_t group_items,
                                  uint32_t local_bytes, uint32_t *clusters);

    /* Native handle of the device or of `object`; NULL when there is none. */
    void *(*native)(tdm_bk_device *device, tdm_native_kind kind, void *object);
} tdm_backend;

#endif
