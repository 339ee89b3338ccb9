/*
 * The objects behind contexts, devices, streams, events, buffers and kernels, and the functions
 * that enqueue work. Nothing here is public.
 *
 * Lock order: context, device, pool, stream. Leaf locks are taken last: the pool's use lists, then
 * the device's stream list. Under the latter a stream's lock is only tried. Opening and closing a
 * device are the only blocking driver calls under the context's lock.
 */
#ifndef TANDEM_API_DEVICE_CORE_H
#define TANDEM_API_DEVICE_CORE_H

#include <pthread.h>
#include <stdatomic.h>

#include "api/base/base.h"
#include "api/pool/observation.h"
#include "api/pool/pool.h"
#include "api/tuning/tuning.h"
#include "kernels/kernel_index.h"

#include <tandem/gemm.h>
#include <tandem/ops.h>
#include <tandem/quant.h>
#include <tandem/tensor.h>

/* ---- objects --------------------------------------------------------------------------------- */

#define TDM_MAX_BACKENDS 8

typedef struct tdm_loaded_backend {
    const tdm_backend *api;
    tdm_bk_instance *instance;
} tdm_loaded_backend;

typedef struct tdm_device_slot {
    int backend; /* index into the context's backends */
    int index;   /* index within the backend's instance */
    tdm_device_info info;
    tdm_device *open; /* weak reference: the device while it is open */
} tdm_device_slot;

struct tdm_context {
    atomic_int references;
    pthread_mutex_t lock;
    tdm_loaded_backend backends[TDM_MAX_BACKENDS];
    int backend_count;
    tdm_device_slot *devices;
    int device_count;
    tdm_notes notes;
    uint64_t pool_budget;
    uint64_t staging_budget;
    bool direct_pool;
    bool debug_pool;    /* see guard.h, handles.h */
    bool debug_aborts;  /* a report of the guard ends the process */
    char *memory_trace; /* path for traces of its devices' pools, or NULL */
};

/* A memory callback of a device, see memory_pressure.c. */
typedef struct tdm_memory_callback_entry tdm_memory_callback_entry;

/* Pinned host memory of a device, see staging.h. */
typedef struct tdm_staging_pool tdm_staging_pool;

typedef enum tdm_kernel_verdict {
    TDM_KERNEL_NOT_CHECKED,
    TDM_KERNEL_RIGHT,
    TDM_KERNEL_WRONG
} tdm_kernel_verdict;

/* A built kernel. It lives as long as its device. */
typedef struct tdm_kernel {
    tdm_bk_kernel *native;
    tdm_kernel_limits limits;
    const tdm_variant *variant;
    atomic_uint resident; /* resident groups per compute unit, plus one; 0: not queried yet */
    atomic_uint clusters; /* resident clusters on the device, plus one; 0: not queried yet */
    atomic_int verdict;   /* tdm_kernel_verdict: result of the check in gemm_int_check.c */
} tdm_kernel;

struct tdm_device {
    int references;                      /* protected by the context's lock */
    void (*destroy)(tdm_device *device); /* releases its members and frees it */
    tdm_context *context;
    tdm_device_slot *slot;
    const tdm_backend *api;
    tdm_bk_device *native;
    tdm_device_info info;
    tdm_pool *pool;
    tdm_observation *observation; /* observes `pool` */
    tdm_memory_account account;   /* shared by all pools of its device memory */
    pthread_mutex_t pools_lock;
    struct tdm_memory_pool *pools; /* private pools, see memory_pool.c */
    atomic_int closed_pools;       /* closed private pools that wait for their last block */
    pthread_mutex_t callbacks_lock;
    pthread_cond_t callbacks_change;
    tdm_memory_callback_entry *callbacks;
    struct tdm_guard *guard;     /* debug mode; or NULL */
    tdm_bk_stream *guard_stream; /* the guard's own stream, or NULL */
    tdm_staging_pool *staging;
    bool stages_copies; /* blocking copies of pageable memory go through pinned memory */
    tdm_memory_trace *memory_trace; /* trace requested by the environment, or NULL */
    pthread_mutex_t kernels_lock;
    _Atomic(tdm_kernel *) *kernels; /* by row of tdm_variants */
    tdm_tuning_table *tuning;       /* NULL: no preferences */
    pthread_mutex_t streams_lock;   /* leaf lock */
    tdm_stream *streams;            /* list of all live streams */
    uint32_t next_stream_id;
    pthread_mutex_t plans_lock;
    void *outofcore; /* measured rates, see outofcore_rates.c; plain host memory */
    /* plan cache of tdm_gemm, see gemm_call.c; its plans hold no reference to the device */
    void *plans;
    void (*plans_destroy)(void *plans);
};

/* A fence: a native event for "this stream has completed `sequence`". It is reference-counted. */
typedef struct tdm_fence {
    atomic_int references;
    tdm_device *device; /* borrowed: the stream holds a reference */
    tdm_bk_event *native;
    uint64_t sequence;
} tdm_fence;

struct tdm_stream {
    atomic_int references;
    tdm_device *device; /* holds a reference */
    tdm_bk_stream *native;
    uint32_t id; /* never 0, never reused within a device */
    pthread_mutex_t lock;
    uint64_t sequence;          /* last enqueued command */
    _Atomic uint64_t completed; /* last command known to be complete */
    tdm_fence *fence;           /* latest fence, or NULL */
    tdm_status failure;         /* sticky */
    char failure_detail[512];
    tdm_graph *recording;
    tdm_stream *next; /* next in the device's list */
};

struct tdm_event {
    atomic_int references;
    tdm_stream *stream; /* holds a reference */
    tdm_fence *fence;
    atomic_llong host_ns; /* host time at which it was first seen complete; 0: not yet */
};

struct tdm_buffer {
    atomic_int references;
    tdm_device *device;           /* holds a reference */
    struct tdm_memory_pool *pool; /* holds a reference; NULL: the device's own pool */
    tdm_block *block;
    size_t bytes;
};

/*
 * Like tdm_buffer_create, for a first use on the stream with that id. Blocks with unfinished work
 * on that stream can be taken at once.
 *
 * tdm_recent_stream returns the stream of the device that the calling thread enqueued on last (0:
 * none). It is the best guess if the caller does not name a stream.
 */
tdm_status tdm_buffer_create_for(tdm_device *device, uint32_t stream, size_t bytes,
                                 tdm_buffer **buffer);
uint32_t tdm_recent_stream(const tdm_device *device);

/* Waits for the stream, even while it records. Calls that gave host memory to the driver use it. */
tdm_status tdm_stream_wait_always(tdm_stream *stream);

/* Waits for the stream after the failure of a call that gave host memory to the driver. Nothing may
 * touch that memory after the call returns. Returns `status` and keeps its detail. */
tdm_status tdm_fail_after_wait(tdm_stream *stream, tdm_status status);

/* Internal references to a buffer. tdm_buffer_destroy drops the caller's own reference. */
tdm_buffer *tdm_buffer_retain(tdm_buffer *buffer);
void tdm_buffer_release(tdm_buffer *buffer);
/* Adds a buffer that a caller receives to the handle list of debug mode. */
void tdm_buffer_note(const tdm_buffer *buffer);
/* Creates a buffer on native memory owned by the caller. Messages start with `function`. */
tdm_status tdm_buffer_wrap(const char *function, tdm_device *device, void *native, size_t bytes,
                           tdm_buffer **buffer);

/*
 * Fails with "<operation>: <what> is on ..., <other> on ..." unless both devices are the same. The
 * message gives more than selectors, because two cards may be alike, and two contexts open one
 * device as two.
 */
tdm_status tdm_check_device(const char *operation, const char *what, const tdm_device *device,
                            const char *other, const tdm_device *expected);

/* ---- kernels --------------------------------------------------------------------------------- */

/* Returns NULL if the row supports the problem, otherwise the reason (static, or written into
 * `reason`). */
#define TDM_REASON_TEXT 160
typedef const char *(*tdm_supports)(const void *problem, const tdm_variant *variant,
                                    const tdm_device *device, char reason[TDM_REASON_TEXT]);

/*
 * Selects the first row of `op`, in order, whose requirements the device meets and that `supports`
 * accepts.
 *
 * `forced`, or else the thread's forced name (tdm_force_variant), restricts the search to that row.
 * A thread's forced name counts only if it names a row of this op.
 *
 * Refusals are logged under "dispatch" and appended to `refusals` ("name: reason" lines) if that is
 * not NULL. The status is TDM_UNSUPPORTED if no row is left; the detail lists the reasons.
 */
tdm_status tdm_select_variant(const tdm_device *device, tdm_op op, const char *operation,
                              const char *forced, tdm_supports supports, const void *problem,
                              char *refusals, size_t refusals_bytes, const tdm_variant **variant);

/*
 * Selects a row as tdm_select_variant does, first with *apply_preferences true. If no row is left,
 * it is set to false for a second search, because a forced variant may run where it would not be
 * chosen. apply_preferences points to a member of `problem` that `supports` reads.
 */
tdm_status tdm_select_preferred(const tdm_device *device, tdm_op op, const char *operation,
                                tdm_supports supports, const void *problem, bool *apply_preferences,
                                const tdm_variant **variant);

/*
 * Returns the reason why a row does not support the problem, or NULL. A refusal is logged and
 * appended as for tdm_select_variant. `text` is storage for the reason.
 */
const char *tdm_refuse_variant(const tdm_device *device, const tdm_variant *variant,
                               const char *operation, tdm_supports supports, const void *problem,
                               char *refusals, size_t refusals_bytes, char text[TDM_REASON_TEXT]);

/* Test hook: this thread's selections for the op of the named row take that row or fail. NULL ends
 * it. The name must stay valid. */
void tdm_force_variant(const char *name);
/* Returns the forced name for an op, or NULL. */
const char *tdm_forced_variant(tdm_op op);

/*
 * Number of elements per work-item that every kernel source can process within 65535 loop
 * iterations. A device without TDM_CAP_UNLIMITED_LOOPS ends longer loops early. More elements per
 * work-item are refused there, because the results would be wrong without any error.
 */
#define TDM_SHORT_LOOP_ELEMENTS 131072
const char *tdm_refuse_long_loop(const tdm_device *device, int64_t elements,
                                 char reason[TDM_REASON_TEXT]);

/* Returns the built kernel of a row, owned by the device. The first use builds it and blocks. */
tdm_status tdm_device_kernel(tdm_device *device, const tdm_variant *variant, tdm_kernel **kernel);

/*
 * Number of groups of `group_items` work-items of this kernel that a compute unit holds at once; 0
 * if the backend does not report it. A kernel is queried for one size only. The first answer is
 * kept, so that all plans agree.
 */
uint32_t tdm_kernel_resident_groups(const tdm_device *device, tdm_kernel *kernel,
                                    uint32_t group_items);

/*
 * Number of clusters of `cluster` such groups, with `local_bytes` of local memory, that the device
 * holds at once. It is 0 if there are none or the driver failed; a failure is queried again.
 *
 * If the backend does not report it, the number is compute units / `cluster`. The first answer is
 * kept here too.
 */
uint32_t tdm_kernel_resident_clusters(const tdm_device *device, tdm_kernel *kernel,
                                      uint32_t cluster, uint32_t group_items, uint32_t local_bytes);

/* Like tdm_device_kernel, for an operation on a stream. It refuses to build a kernel while the
 * stream records. */
tdm_status tdm_stream_kernel(tdm_stream *stream, const char *operation, const tdm_variant *variant,
                             tdm_kernel **kernel);

/* True if the stream is recording. Operations that would allocate, wait or touch host memory then
 * fail with tdm_refuse_recording. */
bool tdm_stream_is_recording(tdm_stream *stream);
tdm_status tdm_refuse_recording(tdm_stream *stream, const char *operation);

/*
 * All work reaches a device through the functions below. They fail after a sticky failure, and
 * record instead of run while the stream records. Otherwise they insert waits for the dependencies
 * of reused blocks, call the backend and record the uses of the blocks. `operation` is a static
 * string.
 */

/* Arguments for tdm_enqueue_launch. */
static inline tdm_arg tdm_arg_s32(int32_t value) {
    return (tdm_arg){.kind = TDM_ARG_S32, .value.s32 = value};
}
static inline tdm_arg tdm_arg_s64(int64_t value) {
    return (tdm_arg){.kind = TDM_ARG_S64, .value.s64 = value};
}
static inline tdm_arg tdm_arg_f32(float value) {
    return (tdm_arg){.kind = TDM_ARG_F32, .value.f32 = value};
}
static inline tdm_arg tdm_arg_blob(const void *blob, uint32_t bytes) {
    return (tdm_arg){.kind = TDM_ARG_BLOB, .bytes = bytes, .value.blob = blob};
}
tdm_arg tdm_arg_block(tdm_block *block, int64_t byte_offset, int unit_bytes);

tdm_status tdm_enqueue_launch(tdm_stream *stream, const char *operation, tdm_kernel *kernel,
                              const tdm_launch *launch);
tdm_status tdm_enqueue_write(tdm_stream *stream, const char *operation, tdm_block *target,
                             uint64_t offset, const void *host, size_t bytes);
tdm_status tdm_enqueue_read(tdm_stream *stream, const char *operation, tdm_block *source,
                            uint64_t offset, void *host, size_t bytes);
/* Variants of the two above; `host_block` is the block that contains the host memory. */
tdm_status tdm_enqueue_write_from(tdm_stream *stream, const char *operation, tdm_block *target,
                                  uint64_t offset, const void *host, size_t bytes,
                                  tdm_block *host_block);
tdm_status tdm_enqueue_read_into(tdm_stream *stream, const char *operation, tdm_block *source,
                                 uint64_t offset, void *host, size_t bytes, tdm_block *host_block);
/* Enqueue copies of rows of equal length at equal distances. The offset is into the block. */
tdm_status tdm_enqueue_write_rows(tdm_stream *stream, const char *operation, tdm_block *target,
                                  const tdm_bk_rows *rows, const void *host);
tdm_status tdm_enqueue_read_rows(tdm_stream *stream, const char *operation, tdm_block *source,
                                 const tdm_bk_rows *rows, void *host);
tdm_status tdm_enqueue_copy(tdm_stream *stream, const char *operation, tdm_block *target,
                            uint64_t target_offset, tdm_block *source, uint64_t source_offset,
                            size_t bytes);
tdm_status tdm_enqueue_fill(tdm_stream *stream, const char *operation, tdm_block *target,
                            uint64_t offset, size_t bytes, const void *pattern,
                            size_t pattern_bytes);
tdm_status tdm_enqueue_host_task(tdm_stream *stream, const char *operation,
                                 void (*function)(void *user), void *user);

#endif
