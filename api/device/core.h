/*
 * The objects behind contexts, devices, streams, events and buffers, kernels, and the one way to enqueue. Nothing of this is public.
 *
 * Lock order: context, device, pool, stream; leaves (marks of the pool, the device's stream list)
 * are taken last and hold nothing. No driver call that can block runs under the context's lock but
 * opening a device.
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

/* ---- objects ------------------------------------------------------------------------------------
 */

#define TDM_MAX_BACKENDS 8

typedef struct tdm_loaded_backend {
    const tdm_backend *api;
    tdm_bk_instance *instance;
} tdm_loaded_backend;

typedef struct tdm_device_slot {
    int backend; /* index of the context's backends */
    int index;   /* of the backend's instance */
    tdm_device_info info;
    tdm_device *open; /* weak: the device while somebody holds it */
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
    char *memory_trace; /* where its devices' pools are to be traced, or NULL */
};

/* One of a device's callbacks, see memory_pressure.c. */
typedef struct tdm_memory_callback_entry tdm_memory_callback_entry;

/* Pinned host memory of a device, see staging.h. */
typedef struct tdm_staging_pool tdm_staging_pool;

typedef enum tdm_kernel_verdict {
    TDM_KERNEL_NOT_CHECKED,
    TDM_KERNEL_RIGHT,
    TDM_KERNEL_WRONG
} tdm_kernel_verdict;

/* A built kernel; lives as long as its device. */
typedef struct tdm_kernel {
    tdm_bk_kernel *native;
    tdm_kernel_limits limits;
    const tdm_variant *variant;
    atomic_uint
        resident; /* groups of the row's size that a unit holds, plus one; 0: not asked yet */
    atomic_uint clusters; /* of the row's size that the device holds, likewise */
    atomic_int verdict;   /* tdm_kernel_verdict: whether gemm_int_check.c found its sums right */
} tdm_kernel;

struct tdm_device {
    int references;                      /* under the context's lock */
    void (*destroy)(tdm_device *device); /* closes what it holds, and frees it */
    tdm_context *context;
    tdm_device_slot *slot;
    const tdm_backend *api;
    tdm_bk_device *native;
    tdm_device_info info;
    tdm_pool *pool;
    tdm_observation *observation; /* of the pool */
    tdm_memory_account account;   /* of all pools of its memory */
    pthread_mutex_t pools_lock;
    struct tdm_memory_pool *pools; /* private ones, see memory_pool.c */
    atomic_int closed_pools;       /* of these: wait for their last block */
    pthread_mutex_t callbacks_lock;
    pthread_cond_t callbacks_change;
    tdm_memory_callback_entry *callbacks;
    struct tdm_guard *guard;     /* debug mode; or NULL */
    tdm_bk_stream *guard_stream; /* the guard's own, or NULL */
    tdm_staging_pool *staging;
    bool stages_copies; /* blocking copies of pageable memory go by way of pinned memory */
    tdm_memory_trace *memory_trace; /* that the environment asked for, or NULL */
    pthread_mutex_t kernels_lock;
    _Atomic(tdm_kernel *) *kernels; /* by row of tdm_variants */
    tdm_tuning_table *tuning;       /* NULL: nothing is preferred */
    pthread_mutex_t streams_lock;   /* leaf */
    tdm_stream *streams;            /* all live ones */
    uint32_t next_stream_id;
    pthread_mutex_t plans_lock;
    void *outofcore; /* rates that were measured, see outofcore_rates.c; plain host memory */
    void *plans; /* tdm_gemm's plan cache, see gemm_call.c; its plans must not count the device */
    void (*plans_destroy)(void *plans);
};

/* A native event that stands for "this stream passed `sequence`"; counted. */
typedef struct tdm_mark {
    atomic_int references;
    tdm_device *device; /* borrowed: the stream holds it */
    tdm_bk_event *native;
    uint64_t sequence;
} tdm_mark;

struct tdm_stream {
    atomic_int references;
    tdm_device *device; /* counted */
    tdm_bk_stream *native;
    uint32_t id; /* never 0, never reused within a device */
    pthread_mutex_t lock;
    uint64_t sequence;          /* last command that was enqueued */
    _Atomic uint64_t completed; /* last command known to be done */
    tdm_mark *mark;             /* latest mark, or NULL */
    tdm_status failure;         /* sticky */
    char failure_detail[512];
    tdm_graph *recording;
    tdm_stream *next; /* in the device's list */
};

struct tdm_event {
    atomic_int references;
    tdm_stream *stream; /* counted */
    tdm_mark *mark;
    atomic_llong host_ns; /* host clock when it was seen to be done, 0: not yet */
};

struct tdm_buffer {
    atomic_int references;
    tdm_device *device;           /* counted */
    struct tdm_memory_pool *pool; /* counted; NULL: the device's own */
    tdm_block *block;
    size_t bytes;
};

/*
 * As tdm_buffer_create, for a first use on the stream of that id: blocks whose unfinished work is on it
 * are taken at once. tdm_recent_stream is the stream of the device that the calling thread enqueued on
 * last (0: none), the best guess where nobody says.
 */
tdm_status tdm_buffer_create_for(tdm_device *device, uint32_t stream, size_t bytes,
                                 tdm_buffer **buffer);
uint32_t tdm_recent_stream(const tdm_device *device);

/* Wait for the stream, whether it records or not: for calls that lent the driver host memory. */
tdm_status tdm_stream_wait_always(tdm_stream *stream);

/*
 * A call that lent host memory to the driver fails: nothing may touch the memory when it returns, so wait for the stream.
 * Keeps the status and its detail.
 */
tdm_status tdm_fail_after_wait(tdm_stream *stream, tdm_status status);

/* Count of a buffer, for what keeps one. tdm_buffer_destroy gives the caller's own reference back. */
tdm_buffer *tdm_buffer_retain(tdm_buffer *buffer);
void tdm_buffer_release(tdm_buffer *buffer);
/* A buffer that a caller gets is put on the list of debug mode. */
void tdm_buffer_note(const tdm_buffer *buffer);
/* A buffer on native memory of others, for `function`. */
tdm_status tdm_buffer_wrap(const char *function, tdm_device *device, void *native, size_t bytes,
                           tdm_buffer **buffer);

/*
 * "<operation>: <what> is on ..., <other> on ...", unless both devices are the same. A selector
 * alone would not tell them apart: two cards may be alike, and two contexts open one device as two.
 */
tdm_status tdm_check_device(const char *operation, const char *what, const tdm_device *device,
                            const char *other, const tdm_device *expected);

/* ---- kernels
 * -------------------------------------------------------------------------------------- */

/* Answers NULL when the row takes the problem, otherwise the reason (static, or written into
 * `reason`). */
#define TDM_REASON_TEXT 160
typedef const char *(*tdm_supports)(const void *problem, const tdm_variant *variant,
                                    const tdm_device *device, char reason[TDM_REASON_TEXT]);

/*
 * Walk the rows of `op` in order; the first whose requirements the device meets and that `supports`
 * takes. `forced`, or else the thread's forced name (tdm_force_variant) where it names a row of
 * this op, leaves only that row. Refusals are logged under "dispatch", and appended to `refusals`
 * ("name: reason" lines) when it is not NULL. TDM_UNSUPPORTED when none is left; the detail gives
 * the reasons.
 */
tdm_status tdm_select_variant(const tdm_device *device, tdm_op op, const char *operation,
                              const char *forced, tdm_supports supports, const void *problem,
                              char *refusals, size_t refusals_bytes, const tdm_variant **variant);

/*
 * Why one row does not take the problem, NULL when it does. A refusal is logged and appended as above; `text` is room for
 * the reason.
 */
const char *tdm_refuse_variant(const tdm_device *device, const tdm_variant *variant,
                               const char *operation, tdm_supports supports, const void *problem,
                               char *refusals, size_t refusals_bytes, char text[TDM_REASON_TEXT]);

/* For tests: this thread's selections for the op of the named row take that row or fail; NULL ends
 * it. The name must stay valid. */
void tdm_force_variant(const char *name);
/* The name that is forced so for an op, or NULL. */
const char *tdm_forced_variant(tdm_op op);

/*
 * Elements that every kernel text gets through in the 65535 loop passes that a device without
 * TDM_CAP_LONG_LOOPS allows a work-item. More of them for one item are refused there: the results
 * would be wrong without any error.
 */
#define TDM_SHORT_LOOP_ELEMENTS 131072
const char *tdm_refuse_long_loop(const tdm_device *device, int64_t elements,
                                 char reason[TDM_REASON_TEXT]);

/* The built kernel of a row; built on first use (blocking). Owned by the device. */
tdm_status tdm_device_kernel(tdm_device *device, const tdm_variant *variant, tdm_kernel **kernel);

/*
 * Groups of that many items that a compute unit holds of the kernel at once, 0 where the backend does not tell. A kernel is asked
 * for one size only; the first answer stays, so that all plans agree.
 */
uint32_t tdm_kernel_resident_groups(const tdm_device *device, tdm_kernel *kernel,
                                    uint32_t group_items);

/*
 * Clusters of `cluster` such groups with so much local memory that the device holds at once, 0: none, or the driver failed, which is
 * asked again. As many as its units could have where the backend does not tell. An answer stays, too.
 */
uint32_t tdm_kernel_resident_clusters(const tdm_device *device, tdm_kernel *kernel,
                                      uint32_t cluster, uint32_t group_items, uint32_t local_bytes);

/* As tdm_device_kernel for an operation on a stream: a kernel to be built while it records is refused. */
tdm_status tdm_stream_kernel(tdm_stream *stream, const char *operation, const tdm_variant *variant,
                             tdm_kernel **kernel);

/* True when the stream is recording: operations that would allocate, wait or touch host memory
 * refuse with this. */
bool tdm_stream_is_recording(tdm_stream *stream);
tdm_status tdm_refuse_recording(tdm_stream *stream, const char *operation);

/* ---- the one way to enqueue
 * -------------------------------------------------------------------------
 *
 * Everything that reaches a device goes through these: they refuse on a sticky failure, record
 * instead of run while the stream records, insert edges for reused blocks, call the backend and
 * note the blocks' uses. `operation` is a static string.
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
/* As the two above; `host_block` is the block that the host memory lies in. */
tdm_status tdm_enqueue_write_from(tdm_stream *stream, const char *operation, tdm_block *target,
                                  uint64_t offset, const void *host, size_t bytes,
                                  tdm_block *host_block);
tdm_status tdm_enqueue_read_into(tdm_stream *stream, const char *operation, tdm_block *source,
                                 uint64_t offset, void *host, size_t bytes, tdm_block *host_block);
/* Rows of equal length at equal distances; the offset is into the block. */
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
