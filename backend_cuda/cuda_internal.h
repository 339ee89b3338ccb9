/* The backend's objects, and the functions that its files share. */
#ifndef TANDEM_BACKEND_CUDA_CUDA_INTERNAL_H
#define TANDEM_BACKEND_CUDA_CUDA_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "backend_cuda/cuda_calls.h"

/* ---- listing --------------------------------------------------------------------------------- */

typedef struct tdm_cuda_record {
    CUdevice id;
    int ordinal;
    uint64_t most_pitch; /* limit of 2D copies */
    bool lacks_ptx;      /* the driver cannot load the PTX of the library's images */
    bool simulated;      /* the tests' simulated driver, which loads kernels by name */
    tdm_device_info info;
} tdm_cuda_record;

struct tdm_bk_instance {
    tdm_cuda_api api;
    tdm_cuda_record *records;
    int record_count;
    tdm_notes notes;
};

/*
 * Fills record->info from the driver. Returns TDM_UNSUPPORTED, with the reason in the detail, for a
 * device that the backend cannot use.
 */
tdm_status tdm_cuda_describe(const tdm_cuda_api *api, tdm_cuda_record *record);

/* The images of a library, as tdm_prebuilt_architectures and tdm_prebuilt_version report them. */
typedef struct tdm_cuda_images {
    const char *architectures;
    int version;
} tdm_cuda_images;

/*
 * True if a driver of version `driver` can run an image for `least` or newer on the device.
 * `device` is its compute capability times ten. Without images, only the device is compared with
 * `least`.
 */
bool tdm_cuda_images_reach(const tdm_cuda_images *images, int driver, int device, int least);
/*
 * True if the images have machine code named `wanted`, such as "90a", and the driver can load it.
 * True without images.
 */
bool tdm_cuda_images_hold(const tdm_cuda_images *images, int driver, const char *wanted);
/* Returns TDM_UNSUPPORTED, with the reason in the detail, if no image runs. */
tdm_status tdm_cuda_images_check(const tdm_cuda_images *images, int driver, int device);
/* True if the PTX is newer than the driver, but the machine code is not. */
bool tdm_cuda_images_lack_ptx(const tdm_cuda_images *images, int driver);

tdm_status tdm_cuda_open(tdm_bk_instance **instance);
void tdm_cuda_close(tdm_bk_instance *instance);
int tdm_cuda_device_count(const tdm_bk_instance *instance);
const char *tdm_cuda_note(const tdm_bk_instance *instance, int index);
tdm_status tdm_cuda_device_info(const tdm_bk_instance *instance, int index, tdm_device_info *info);

/* ---- open devices ---------------------------------------------------------------------------- */

/* The kernels of one kernel source, loaded at first use. They stay until the device is closed. */
typedef struct tdm_cuda_module {
    struct tdm_cuda_module *next;
    const void *image;
    CUmodule module;
} tdm_cuda_module;

typedef struct tdm_cuda_maps tdm_cuda_maps;

struct tdm_bk_device {
    const tdm_cuda_api *api;
    const tdm_cuda_record *record;
    CUcontext context; /* the primary context, shared with other users in the process */
    pthread_mutex_t modules_lock;
    tdm_cuda_module *modules;
    pthread_mutex_t maps_lock;
    tdm_cuda_maps *maps;          /* allocated at first use; a cache of fixed size */
    atomic_int streams_with_work; /* streams that have enqueued work since their last wait */
};

struct tdm_bk_memory {
    CUdeviceptr address;
    void *host; /* address of pinned memory */
    bool foreign;
};

struct tdm_bk_event {
    tdm_bk_device *device;
    CUevent event;
};

/* The number of distinct operation names that are kept from one wait to the next. */
#define CUDA_NAMES 8

typedef struct tdm_cuda_names {
    const char *list[CUDA_NAMES];
    int count;
    bool more;
} tdm_cuda_names;

/* The host tasks of a stream; see cuda_host_task.c. */
typedef struct tdm_cuda_tasks tdm_cuda_tasks;

struct tdm_bk_stream {
    tdm_bk_device *device;
    tdm_cuda_tasks *tasks; /* NULL before the first task */
    CUstream stream;
    tdm_cuda_names names; /* enqueued since the last wait; the driver does not name failed work */
    bool has_work;        /* counted in the device's streams_with_work */
};

struct tdm_bk_graph {
    tdm_bk_device *device;
    CUgraphExec executable;
    tdm_cuda_names names; /* the operations of the graph */
};

struct tdm_bk_kernel {
    tdm_bk_device *device;
    CUfunction function;
    char *entry;
    uint32_t static_bytes;     /* local memory that the kernel source declares */
    atomic_uint dynamic_bytes; /* the largest size that launches may use so far */
    pthread_mutex_t lock;      /* held while dynamic_bytes is raised */
};

tdm_status tdm_cuda_device_open(tdm_bk_instance *instance, int index, tdm_bk_device **device);
void tdm_cuda_device_close(tdm_bk_device *device);
void *tdm_cuda_native(tdm_bk_device *device, tdm_native_kind kind, void *object);

/*
 * These functions surround the driver calls of every function in the vtable. Between them the
 * device's context is current in the thread; afterwards the previous context is current again.
 * tdm_cuda_enter_always is for releases: it enters in spite of an injected fault. If the driver
 * itself refuses, no driver call may follow and there is nothing to leave.
 */
tdm_status tdm_cuda_enter(const tdm_bk_device *device, const char *what);
CUresult tdm_cuda_enter_always(const tdm_bk_device *device);
void tdm_cuda_leave(const tdm_bk_device *device);

tdm_status tdm_cuda_memory_alloc(tdm_bk_device *device, tdm_memory_kind kind, size_t bytes,
                                 tdm_bk_memory **memory);
void tdm_cuda_memory_free(tdm_bk_device *device, tdm_bk_memory *memory);
tdm_status tdm_cuda_memory_wrap(tdm_bk_device *device, void *native, size_t bytes,
                                tdm_bk_memory **memory);
tdm_status tdm_cuda_memory_free_bytes(tdm_bk_device *device, uint64_t *bytes);
tdm_status tdm_cuda_memory_host_address(tdm_bk_device *device, tdm_bk_memory *memory,
                                        void **address);

tdm_status tdm_cuda_stream_create(tdm_bk_device *device, tdm_bk_stream **stream);
void tdm_cuda_stream_destroy(tdm_bk_stream *stream);
tdm_status tdm_cuda_stream_flush(tdm_bk_stream *stream);
tdm_status tdm_cuda_stream_wait(tdm_bk_stream *stream, const char **failed_operation);
/* Notes the name of an enqueued operation, for a failure that the driver reports later. */
void tdm_cuda_stream_note(tdm_bk_stream *stream, const char *operation);
/* Notes every operation of a graph. */
void tdm_cuda_stream_note_all(tdm_bk_stream *stream, const tdm_cuda_names *names);
/* Clears the notes after a wait that returned `code`, or after a capture. */
void tdm_cuda_stream_forget(tdm_bk_stream *stream, CUresult code);
/*
 * Sets the detail of a failed wait and returns its status. `*failed_operation` is set if only one
 * operation can have failed.
 */
tdm_status tdm_cuda_work_failure(const tdm_bk_stream *stream, CUresult code,
                                 const char **failed_operation);
/*
 * Sets the detail of an enqueue that the driver refused, and returns its status. A code that means
 * a lost device reports work that was enqueued before.
 */
tdm_status tdm_cuda_enqueue_fail(const tdm_bk_stream *stream, CUresult code, const char *operation,
                                 const char *call);
tdm_status tdm_cuda_host_task(tdm_bk_stream *stream, const char *operation,
                              void (*function)(void *user), void *user);
/*
 * Runs the host tasks that the driver has not begun, because it never will: the device is lost.
 * NULL is accepted.
 */
void tdm_cuda_tasks_abandon(tdm_cuda_tasks *tasks);
/*
 * Releases the stream's reference. Tasks that the driver still has to run remain valid. NULL is
 * accepted.
 */
void tdm_cuda_tasks_close(tdm_cuda_tasks *tasks);

tdm_status tdm_cuda_event_record(tdm_bk_stream *stream, bool timed, tdm_bk_event **event);
void tdm_cuda_event_destroy(tdm_bk_event *event);
tdm_status tdm_cuda_event_query(tdm_bk_event *event, bool *done);
tdm_status tdm_cuda_event_wait(tdm_bk_event *event);
tdm_status tdm_cuda_event_elapsed(tdm_bk_event *start, tdm_bk_event *end, double *nanoseconds);
tdm_status tdm_cuda_stream_wait_event(tdm_bk_stream *stream, tdm_bk_event *event);

tdm_status tdm_cuda_write(tdm_bk_stream *stream, const char *operation, tdm_bk_memory *target,
                          uint64_t offset, const void *host, size_t bytes);
tdm_status tdm_cuda_read(tdm_bk_stream *stream, const char *operation, tdm_bk_memory *source,
                         uint64_t offset, void *host, size_t bytes);
tdm_status tdm_cuda_write_rows(tdm_bk_stream *stream, const char *operation, tdm_bk_memory *target,
                               const tdm_bk_rows *rows, const void *host);
tdm_status tdm_cuda_read_rows(tdm_bk_stream *stream, const char *operation, tdm_bk_memory *source,
                              const tdm_bk_rows *rows, void *host);
tdm_status tdm_cuda_copy(tdm_bk_stream *stream, const char *operation, tdm_bk_memory *target,
                         uint64_t target_offset, tdm_bk_memory *source, uint64_t source_offset,
                         size_t bytes);
tdm_status tdm_cuda_fill(tdm_bk_stream *stream, const char *operation, tdm_bk_memory *target,
                         uint64_t offset, size_t bytes, const void *pattern, size_t pattern_bytes);

tdm_status tdm_cuda_graph_create(tdm_bk_device *device,
                                 tdm_status (*enqueue)(tdm_bk_stream *stream, void *user),
                                 void *user, tdm_bk_graph **graph);
tdm_status tdm_cuda_graph_launch(tdm_bk_stream *stream, tdm_bk_graph *graph);
void tdm_cuda_graph_destroy(tdm_bk_graph *graph);

/* Returns the module of a source's prebuilt kernels, loaded at first use. The device owns it. */
tdm_status tdm_cuda_module_get(tdm_bk_device *device, const tdm_kernel_source *source,
                               CUmodule *module);
/* Frees the modules. The driver unloads them only if the device's context is current. */
void tdm_cuda_modules_unload(tdm_bk_device *device, bool entered);

tdm_status tdm_cuda_kernel_build(tdm_bk_device *device, const tdm_kernel_source *source,
                                 tdm_bk_kernel **kernel);
void tdm_cuda_kernel_release(tdm_bk_kernel *kernel);
tdm_status tdm_cuda_kernel_limits(tdm_bk_kernel *kernel, tdm_kernel_limits *limits);
tdm_status tdm_cuda_kernel_clusters(tdm_bk_kernel *kernel, uint32_t cluster, uint32_t group_items,
                                    uint32_t local_bytes, uint32_t *clusters);
tdm_status tdm_cuda_kernel_occupancy(tdm_bk_kernel *kernel, uint32_t group_items,
                                     uint32_t local_bytes, uint32_t *groups);
/*
 * Returns the tensor map for `address` from the cache, or encodes it. The device's context is
 * current.
 */
tdm_status tdm_cuda_tensor_map(tdm_bk_device *device, const char *operation, CUdeviceptr address,
                               const tdm_bk_tensor_map *tensor_map, CUtensorMap *map);
tdm_status tdm_cuda_launch(tdm_bk_stream *stream, const char *operation, tdm_bk_kernel *kernel,
                           const tdm_launch *launch);

#endif
