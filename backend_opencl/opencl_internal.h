/* The backend's objects, and the functions that its files share. */
#ifndef TANDEM_BACKEND_OPENCL_OPENCL_INTERNAL_H
#define TANDEM_BACKEND_OPENCL_OPENCL_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "backend_opencl/cache/program_cache.h"
#include "backend_opencl/opencl_api.h"

/*
 * The OpenCL C version of every program that does not need another one. Every program is also built
 * with -w, because some compilers print the number of warnings to standard error.
 */
#define TDM_OPENCL_STANDARD "-cl-std=CL1.2"

/* ---- listing --------------------------------------------------------------------------------- */

/* Facts about a driver that it does not report itself: one row per family, see opencl_family.c. */
typedef struct tdm_opencl_family {
    const char *needle;         /* substring of the platform's name, vendor or version */
    const char *name;           /* driver_family of tdm_device_info */
    const char *no_device_hint; /* what to do if its platform has no devices, or NULL */
    bool host_cores;            /* its CPU devices compile for the cores of this host */
    bool short_loops;           /* its CPU devices silently end loops after 65535 iterations */
    bool one_lane_per_item; /* its CPU devices run one work-item per vector lane, as a GPU does */
    bool memory_checker;    /* slabs would hide errors from it */
    /* Runs commands inside clFlush, one thread at a time: a user event would block the caller. */
    bool runs_in_calls;
    /*
     * From this version on (70 is 7.0) its compiler gives all functions of a program one target. A
     * single function then cannot request further instructions. 0 means never.
     */
    int one_target_since;
    bool late_markers;   /* commands are not reported complete until the queue is idle or waits */
    bool keeps_programs; /* caches programs itself, or its binaries cannot be trusted */
} tdm_opencl_family;

/* Returns the matching row, or one with an empty name if none matches. */
const tdm_opencl_family *tdm_opencl_family_find(const char *platform_name, const char *vendor,
                                                const char *version);
/*
 * Returns the version behind the driver's name: "OpenCL 3.0 PoCL 7.1 Linux" and "pocl" → 71.
 * Returns 0 if there is none.
 */
int tdm_opencl_family_version(const char *platform_version, const char *name);
/* Converts "ARM Platform (tm)" to "arm-platform-tm". */
void tdm_opencl_slug(const char *text, char *slug, size_t slug_bytes);

#define OPENCL_TEXT 256

typedef struct tdm_opencl_record {
    cl_platform_id platform;
    cl_device_id id;
    const tdm_opencl_family *family;
    char platform_name[OPENCL_TEXT];
    char platform_version[OPENCL_TEXT];
    char *extensions; /* space-separated */
    /* Queried once, so that the probe's queue and all later queues are alike. */
    cl_command_queue_properties queue_properties;
    /* The build option of kernels with the Khronos dot product. NULL: not available. */
    const char *dot_standard;
    tdm_device_info info;
} tdm_opencl_record;

struct tdm_bk_instance {
    tdm_opencl_api api;
    tdm_opencl_record *records;
    int record_count;
    tdm_notes notes;
    char *cache_path; /* NULL: no program cache */
};

/*
 * Strings from the driver, cut to the buffer's size, without blanks at both ends. A string is empty
 * if the query fails; the returned code gives the reason.
 */
cl_int tdm_opencl_platform_text(const tdm_opencl_api *api, cl_platform_id platform,
                                cl_platform_info what, char *text, size_t bytes);
cl_int tdm_opencl_device_text(const tdm_opencl_api *api, cl_device_id device, cl_device_info what,
                              char *text, size_t bytes);
/* Numbers from the driver. A number is zero if the query fails. */
cl_uint tdm_opencl_device_uint(const tdm_opencl_api *api, cl_device_id device, cl_device_info what);
cl_ulong tdm_opencl_device_ulong(const tdm_opencl_api *api, cl_device_id device,
                                 cl_device_info what);
size_t tdm_opencl_device_size(const tdm_opencl_api *api, cl_device_id device, cl_device_info what);
/* Calls clGetDeviceInfo. The functions above are built on it. */
cl_int tdm_opencl_query_device(const tdm_opencl_api *api, cl_device_id device, cl_device_info what,
                               size_t bytes, void *answer, size_t *size);
/*
 * tdm_opencl_query_refusal returns the first failure code of this thread's device queries since
 * tdm_opencl_queries_begin, or CL_SUCCESS.
 */
void tdm_opencl_queries_begin(void);
cl_int tdm_opencl_query_refusal(void);
/* Returns all extensions, space-separated, or NULL without memory. Release: tdm_host_free. */
char *tdm_opencl_device_extensions(const tdm_opencl_api *api, cl_device_id device);
/* True if `name` is one of the space-separated tokens. */
bool tdm_opencl_has_token(const char *tokens, const char *name);
/* Converts "OpenCL 1.2 ..." to 12. Returns 0 for any other string. */
int tdm_opencl_version_number(const char *version_text);

/*
 * Fills record->info from the driver, including the capabilities. Returns TDM_UNSUPPORTED, with the
 * reason in the detail, for a device that the backend cannot use.
 */
tdm_status tdm_opencl_describe(const tdm_opencl_api *api, tdm_opencl_record *record);

/*
 * Finds the bits of tdm_capability by running a few commands on the device. A device on which that
 * fails is refused.
 */
tdm_status tdm_opencl_probe(const tdm_opencl_api *api, tdm_opencl_record *record,
                            uint32_t *capabilities);

/* Creates a context of the record's device. Driver messages about it go to the log. */
tdm_status tdm_opencl_context_create(const tdm_opencl_api *api, const tdm_opencl_record *record,
                                     const char *what, cl_context *context);
/* Creates an in-order queue, with profiling if the device offers it. */
tdm_status tdm_opencl_queue_create(const tdm_opencl_api *api, const tdm_opencl_record *record,
                                   cl_context context, const char *what, cl_command_queue *queue);
/* Releases the commands that wait for a user event. Returns false if the driver refuses twice. */
bool tdm_opencl_user_event_set(const tdm_opencl_api *api, cl_event user);

tdm_status tdm_opencl_open(tdm_bk_instance **instance);
void tdm_opencl_close(tdm_bk_instance *instance);
int tdm_opencl_device_count(const tdm_bk_instance *instance);
const char *tdm_opencl_note(const tdm_bk_instance *instance, int index);
tdm_status tdm_opencl_device_info(const tdm_bk_instance *instance, int index,
                                  tdm_device_info *info);

/* ---- open devices ---------------------------------------------------------------------------- */

struct tdm_bk_device {
    const tdm_bk_instance *instance;
    const tdm_opencl_api *api;
    const tdm_opencl_record *record;
    cl_context context;
    /* Used for memory: residency and mapping. The lock serialises its users. */
    cl_command_queue service_queue;
    pthread_mutex_t service_lock;
    tdm_program_cache *cache; /* NULL: none */
    /* Programs that the compiler rejected. They are not compiled again. */
    pthread_mutex_t refused_lock;
    struct tdm_opencl_refused *refused;
};

struct tdm_bk_memory {
    cl_mem object;
    void *mapped; /* host address of pinned memory, NULL until it is first requested */
};

struct tdm_bk_event {
    tdm_bk_device *device;
    cl_event event;
};

/* Enqueued work that is not known to be complete. */
typedef struct tdm_opencl_entry {
    cl_event event;
    const char *operation;
} tdm_opencl_entry;

typedef struct tdm_opencl_task tdm_opencl_task;

struct tdm_bk_stream {
    tdm_bk_device *device;
    cl_command_queue queue;
    /* A ring of the commands in flight, which gives a failure the name of its operation. */
    tdm_opencl_entry *entries;
    uint32_t first, count, capacity; /* the capacity is a power of two */
    uint32_t unflushed;              /* commands since the last flush */
    bool quiet;                      /* the backend has enqueued nothing since the last wait */
    atomic_bool handed_out;          /* the caller has the native queue: others may enqueue on it */
    /* The first failure that was found and not yet returned. */
    cl_int failure;
    const char *failed_operation;
    /* Host tasks, in order, and the thread that runs them. The first task starts the thread. */
    pthread_mutex_t task_lock;
    pthread_cond_t task_change;
    tdm_opencl_task *first_task, *last_task;
    pthread_t task_thread;
    bool has_task_thread;
    bool stop_tasks;
};

#define OPENCL_IDLE_KERNELS 8

struct tdm_bk_kernel {
    tdm_bk_device *device;
    cl_program program;
    char *entry;
    /*
     * Native kernel objects that no thread is using. Each launch needs its own, because
     * clSetKernelArg is not thread-safe on a shared one.
     */
    pthread_mutex_t lock;
    cl_kernel idle[OPENCL_IDLE_KERNELS];
    int idle_count;
};

tdm_status tdm_opencl_device_open(tdm_bk_instance *instance, int index, tdm_bk_device **device);
void tdm_opencl_device_close(tdm_bk_device *device);
void *tdm_opencl_native(tdm_bk_device *device, tdm_native_kind kind, void *object);

tdm_status tdm_opencl_memory_alloc(tdm_bk_device *device, tdm_memory_kind kind, size_t bytes,
                                   tdm_bk_memory **memory);
void tdm_opencl_memory_free(tdm_bk_device *device, tdm_bk_memory *memory);
tdm_status tdm_opencl_memory_wrap(tdm_bk_device *device, void *native, size_t bytes,
                                  tdm_bk_memory **memory);
tdm_status tdm_opencl_memory_free_bytes(tdm_bk_device *device, uint64_t *bytes);
tdm_status tdm_opencl_memory_host_address(tdm_bk_device *device, tdm_bk_memory *memory,
                                          void **address);

tdm_status tdm_opencl_stream_create(tdm_bk_device *device, tdm_bk_stream **stream);
void tdm_opencl_stream_destroy(tdm_bk_stream *stream);
tdm_status tdm_opencl_stream_flush(tdm_bk_stream *stream);
tdm_status tdm_opencl_stream_wait(tdm_bk_stream *stream, const char **failed_operation);
/*
 * These surround every enqueue. The first reserves an entry; if it fails, nothing has changed. The
 * second takes ownership of the command's event, with the name of its operation.
 */
tdm_status tdm_opencl_stream_reserve(tdm_bk_stream *stream, const char *operation);
void tdm_opencl_stream_push(tdm_bk_stream *stream, const char *operation, cl_event event);
/* Keeps the first failure for the next wait. Later ones often follow from an earlier one. */
static inline void tdm_opencl_stream_note(tdm_bk_stream *stream, cl_int code,
                                          const char *operation) {
    if (stream->failure == CL_SUCCESS) {
        stream->failure = code;
        stream->failed_operation = operation;
    }
}
/* Flushes the queue. A failure is noted for the next wait under the operation's name. */
static inline void tdm_opencl_stream_kick(tdm_bk_stream *stream, const char *operation) {
    stream->unflushed = 0;
    const cl_int code = OPENCL_CALL(stream->device->api, clFlush, stream->queue);
    if (code != CL_SUCCESS)
        tdm_opencl_stream_note(stream, code, operation);
}

tdm_status tdm_opencl_event_record(tdm_bk_stream *stream, bool timed, tdm_bk_event **event);
void tdm_opencl_event_destroy(tdm_bk_event *event);
tdm_status tdm_opencl_event_query(tdm_bk_event *event, bool *done);
tdm_status tdm_opencl_event_wait(tdm_bk_event *event);
tdm_status tdm_opencl_event_elapsed(tdm_bk_event *start, tdm_bk_event *end, double *nanoseconds);
tdm_status tdm_opencl_stream_wait_event(tdm_bk_stream *stream, tdm_bk_event *event);

tdm_status tdm_opencl_write(tdm_bk_stream *stream, const char *operation, tdm_bk_memory *target,
                            uint64_t offset, const void *host, size_t bytes);
tdm_status tdm_opencl_read(tdm_bk_stream *stream, const char *operation, tdm_bk_memory *source,
                           uint64_t offset, void *host, size_t bytes);
tdm_status tdm_opencl_write_rows(tdm_bk_stream *stream, const char *operation,
                                 tdm_bk_memory *target, const tdm_bk_rows *rows, const void *host);
tdm_status tdm_opencl_read_rows(tdm_bk_stream *stream, const char *operation, tdm_bk_memory *source,
                                const tdm_bk_rows *rows, void *host);
tdm_status tdm_opencl_copy(tdm_bk_stream *stream, const char *operation, tdm_bk_memory *target,
                           uint64_t target_offset, tdm_bk_memory *source, uint64_t source_offset,
                           size_t bytes);
tdm_status tdm_opencl_fill(tdm_bk_stream *stream, const char *operation, tdm_bk_memory *target,
                           uint64_t offset, size_t bytes, const void *pattern,
                           size_t pattern_bytes);
tdm_status tdm_opencl_host_task(tdm_bk_stream *stream, const char *operation,
                                void (*function)(void *user), void *user);
/*
 * Waits until the thread has finished every host task of the stream. Their functions have returned
 * once the queue is done; this call orders their writes before the caller's reads.
 */
void tdm_opencl_tasks_wait(tdm_bk_stream *stream);
/* Runs the stream's remaining host tasks and ends their thread. */
void tdm_opencl_tasks_end(tdm_bk_stream *stream);

/* Returns a built program for the source, from the cache or the compiler. */
tdm_status tdm_opencl_program_build(tdm_bk_device *device, const tdm_kernel_source *source,
                                    cl_program *program);
/* Frees the list of rejected programs when the device is closed. */
void tdm_opencl_refused_free(tdm_bk_device *device);
tdm_status tdm_opencl_kernel_build(tdm_bk_device *device, const tdm_kernel_source *source,
                                   tdm_bk_kernel **kernel);
void tdm_opencl_kernel_release(tdm_bk_kernel *kernel);
/* Takes a native kernel object, idle or new, for one thread. tdm_opencl_kernel_give returns it. */
tdm_status tdm_opencl_kernel_take(tdm_bk_kernel *kernel, const char *what, cl_kernel *taken);
void tdm_opencl_kernel_give(tdm_bk_kernel *kernel, cl_kernel given);
tdm_status tdm_opencl_kernel_limits(tdm_bk_kernel *kernel, tdm_kernel_limits *limits);
tdm_status tdm_opencl_launch(tdm_bk_stream *stream, const char *operation, tdm_bk_kernel *kernel,
                             const tdm_launch *launch);

#endif
