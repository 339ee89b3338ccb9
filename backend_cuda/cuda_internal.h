/* The backend's objects, and what its files call of each other. */
#ifndef TANDEM_BACKEND_CUDA_CUDA_INTERNAL_H
#define TANDEM_BACKEND_CUDA_CUDA_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "backend_cuda/cuda_calls.h"

/* ---- listing --------------------------------------------------------------------------------- */

typedef struct tdm_cuda_record {
    CUdevice id;
    int ordinal;
    uint64_t most_pitch; /* of rectangular copies */
    bool lacks_ptx;      /* the driver does not take that of the library's images */
    bool simulated;      /* the tests' driver: takes stand-ins of kernels */
    tdm_device_info info;
} tdm_cuda_record;

struct tdm_bk_instance {
    tdm_cuda_api api;
    tdm_cuda_record *records;
    int record_count;
    tdm_notes notes;
};

/*
 * Fill record->info from the driver. TDM_UNSUPPORTED with the reason in the detail for a device that the backend cannot use.
 */
tdm_status tdm_cuda_describe(const tdm_cuda_api *api, tdm_cuda_record *record);

/* The images of a library: architectures and version as tdm_prebuilt_architectures and tdm_prebuilt_version tell them. */
typedef struct tdm_cuda_images {
    const char *architectures;
    int version;
} tdm_cuda_images;

/*
 * Do any run, by a driver of that version, on a device of compute capability `device` (times ten) in code that was compiled for
 * `least` or newer? Where there are none only the device counts.
 */
bool tdm_cuda_images_reach(const tdm_cuda_images *images, int driver, int device, int least);
/* Is there machine code of that name, as "90a", which such a driver loads? So where there are none at all. */
bool tdm_cuda_images_hold(const tdm_cuda_images *images, int driver, const char *wanted);
/* TDM_UNSUPPORTED with the reason in the detail where none runs. */
tdm_status tdm_cuda_images_check(const tdm_cuda_images *images, int driver, int device);
/* Is their PTX newer than the driver, though their machine code is not? */
bool tdm_cuda_images_lack_ptx(const tdm_cuda_images *images, int driver);

tdm_status tdm_cuda_open(tdm_bk_instance **instance);
void tdm_cuda_close(tdm_bk_instance *instance);
int tdm_cuda_device_count(const tdm_bk_instance *instance);
const char *tdm_cuda_note(const tdm_bk_instance *instance, int index);
tdm_status tdm_cuda_device_info(const tdm_bk_instance *instance, int index, tdm_device_info *info);

/* ---- open devices ---------------------------------------------------------------------------- */

/* The kernels of one text, loaded at the first of them; stays until the device is closed. */
typedef struct tdm_cuda_module {
    struct tdm_cuda_module *next;
    const void *image;
    CUmodule module;
} tdm_cuda_module;

typedef struct tdm_cuda_maps tdm_cuda_maps;

struct tdm_bk_device {
    const tdm_cuda_api *api;
    const tdm_cuda_record *record;
    CUcontext context; /* the primary one, shared with whatever else of the process uses it */
    pthread_mutex_t modules_lock;
    tdm_cuda_module *modules;
    pthread_mutex_t maps_lock;
    tdm_cuda_maps *maps;          /* made at the first of them; as many as it holds and no more */
    atomic_int streams_with_work; /* since their last wait */
};

struct tdm_bk_memory {
    CUdeviceptr address;
    void *host; /* of pinned memory */
    bool foreign;
};

struct tdm_bk_event {
    tdm_bk_device *device;
    CUevent event;
};

/* Distinct operations whose names are kept from one wait to the next. */
#define CUDA_NAMES 8

typedef struct tdm_cuda_names {
    const char *list[CUDA_NAMES];
    int count;
    bool more;
} tdm_cuda_names;

/* The host tasks of a stream, see cuda_host_task.c. */
typedef struct tdm_cuda_tasks tdm_cuda_tasks;

struct tdm_bk_stream {
    tdm_bk_device *device;
    tdm_cuda_tasks *tasks; /* NULL before the first */
    CUstream stream;
    tdm_cuda_names names; /* enqueued since the last wait; the driver tells no more of a failure */
    bool has_work;        /* counted in the device's streams_with_work */
};

struct tdm_bk_graph {
    tdm_bk_device *device;
    CUgraphExec executable;
    tdm_cuda_names names; /* of what it does */
};

struct tdm_bk_kernel {
    tdm_bk_device *device;
    CUfunction function;
    char *entry;
    uint32_t static_bytes;     /* local memory that the text declares */
    atomic_uint dynamic_bytes; /* the most that launches may ask for as yet */
    pthread_mutex_t lock;      /* of raising it */
};

tdm_status tdm_cuda_device_open(tdm_bk_instance *instance, int index, tdm_bk_device **device);
void tdm_cuda_device_close(tdm_bk_device *device);
void *tdm_cuda_native(tdm_bk_device *device, tdm_native_kind kind, void *object);

/*
 * Around the driver calls of every slot: the device's context is the thread's current one between them, and whatever was
 * before is so again after. Where something must be given back, tdm_cuda_enter_always enters in spite of a fault; where the
 * driver itself refuses, nothing may be called of it and there is nothing to leave.
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
/* After every enqueue: the name of the operation, for a failure that the driver tells of later. */
void tdm_cuda_stream_note(tdm_bk_stream *stream, const char *operation);
/* The same for all that a graph does. */
void tdm_cuda_stream_note_all(tdm_bk_stream *stream, const tdm_cuda_names *names);
/* All of the stream is done, or was never to be: as after a wait that returned `code`. */
void tdm_cuda_stream_forget(tdm_bk_stream *stream, CUresult code);
/* Set the detail of a wait that failed, and return its status; `*failed_operation` is set where there is only one that it can be. */
tdm_status tdm_cuda_work_failure(const tdm_bk_stream *stream, CUresult code,
                                 const char **failed_operation);
/*
 * Set the detail of an enqueue that the driver refused, and return its status: a code that loses the device tells of work that
 * was enqueued before.
 */
tdm_status tdm_cuda_enqueue_fail(const tdm_bk_stream *stream, CUresult code, const char *operation,
                                 const char *call);
tdm_status tdm_cuda_host_task(tdm_bk_stream *stream, const char *operation,
                              void (*function)(void *user), void *user);
/* The device is lost: run here what the driver has not begun, and never will. NULL is accepted. */
void tdm_cuda_tasks_abandon(tdm_cuda_tasks *tasks);
/* The stream is gone; what the driver still has to run keeps what it needs. NULL is accepted. */
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

/* The module of a text's prebuilt kernels, loaded now or before; of the device. */
tdm_status tdm_cuda_module_get(tdm_bk_device *device, const tdm_kernel_source *source,
                               CUmodule *module);
/* Give the modules back, to the driver only where the device's context is current. */
void tdm_cuda_modules_unload(tdm_bk_device *device, bool entered);

tdm_status tdm_cuda_kernel_build(tdm_bk_device *device, const tdm_kernel_source *source,
                                 tdm_bk_kernel **kernel);
void tdm_cuda_kernel_release(tdm_bk_kernel *kernel);
tdm_status tdm_cuda_kernel_limits(tdm_bk_kernel *kernel, tdm_kernel_limits *limits);
tdm_status tdm_cuda_kernel_clusters(tdm_bk_kernel *kernel, uint32_t cluster, uint32_t group_items,
                                    uint32_t local_bytes, uint32_t *clusters);
tdm_status tdm_cuda_kernel_occupancy(tdm_bk_kernel *kernel, uint32_t group_items,
                                     uint32_t local_bytes, uint32_t *groups);
/* The map of a tensor at `address`, encoded now or before; in the device's context. */
tdm_status tdm_cuda_tensor_map(tdm_bk_device *device, const char *operation, CUdeviceptr address,
                               const tdm_bk_box *box, CUtensorMap *map);
tdm_status tdm_cuda_launch(tdm_bk_stream *stream, const char *operation, tdm_bk_kernel *kernel,
                           const tdm_launch *launch);

#endif
