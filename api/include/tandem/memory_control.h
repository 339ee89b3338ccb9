/* This header gives control over memory. It has private pools, checks and callbacks for when memory
 * is short, and pinned host memory for fast copies. */
#ifndef TANDEM_MEMORY_CONTROL_H
#define TANDEM_MEMORY_CONTROL_H

#include <tandem/gemm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- private pools --------------------------------------------------------------------------- */

/*
 * A private pool on a device's memory. Its allocations share no native allocation with other pools.
 * It has its own budget, statistics and trim. The device's budget bounds the sum of all its pools.
 */
typedef struct tdm_memory_pool tdm_memory_pool;

/* Options of a pool. Members that are zero, except struct_size, have their defaults. */
typedef struct tdm_memory_pool_options {
    size_t struct_size;    /* sizeof(tdm_memory_pool_options) */
    const char *name;      /* name in monitors, below TDM_MEMORY_TAG_BYTES bytes; NULL: "private" */
    uint64_t budget_bytes; /* bound of its reserved bytes; 0: only the device's budget */
} tdm_memory_pool_options;

/* Create a pool; options may be NULL. The caller releases it with tdm_memory_pool_destroy.
 * Statuses: TDM_BAD_ARGUMENT, TDM_OUT_OF_HOST_MEMORY. Thread-safe. Since 0.1. */
TDM_API tdm_status tdm_memory_pool_create(tdm_device *device,
                                          const tdm_memory_pool_options *options,
                                          tdm_memory_pool **pool);

/*
 * Release the caller's reference; NULL is accepted. Buffers of the pool, graphs that use them, and
 * threads that entered the pool keep it alive. Its memory is returned to the driver when the last
 * of these is gone. Does not wait. Thread-safe. Since 0.1.
 */
TDM_API void tdm_memory_pool_destroy(tdm_memory_pool *pool);

/* Works like tdm_buffer_create, but allocates from this pool, whichever pool the thread has
 * entered. Thread-safe. Since 0.1. */
TDM_API tdm_status tdm_buffer_create_in(tdm_memory_pool *pool, size_t bytes, tdm_buffer **buffer);

/*
 * After enter, all allocations of the calling thread on the pool's device come from the pool, until
 * leave. These are buffers, tensors and workspaces of operations. Enters can be nested 32 deep, and
 * the innermost pool of a device applies. Leave ends the latest enter of the thread. Statuses of
 * enter: TDM_BAD_ARGUMENT, TDM_BAD_STATE (too deep). Statuses of leave: TDM_BAD_STATE (no pool is
 * entered). Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_memory_pool_enter(tdm_memory_pool *pool);
TDM_API tdm_status tdm_memory_pool_leave(void);

/* These work like tdm_device_memory_stats, tdm_device_set_memory_budget and tdm_device_trim, for
 * this pool alone. A budget of 0 restores the budget given at creation. Statuses: TDM_BAD_ARGUMENT.
 * Thread-safe. Since 0.1. */
TDM_API tdm_status tdm_memory_pool_stats(const tdm_memory_pool *pool, tdm_memory_stats *stats);
TDM_API tdm_status tdm_memory_pool_set_budget(tdm_memory_pool *pool, uint64_t bytes);
TDM_API tdm_status tdm_memory_pool_trim(tdm_memory_pool *pool);

/* ---- free memory, and whether a request would fit -------------------------------------------- */

/* The memory of a device, in bytes. */
typedef struct tdm_memory_info {
    size_t struct_size; /* sizeof(tdm_memory_info), set by the caller */
    uint64_t total_bytes;
    /* 1: free_bytes is known; 0: the driver does not report it, or reports an impossible value */
    int free_known;
    /* bytes that no process has allocated, as the driver reports; 0 if not known */
    uint64_t free_bytes;
    uint64_t reserved_bytes; /* held by all pools of this device object: live, cached, unused */
    uint64_t in_use_bytes;   /* live blocks, a part of reserved_bytes */
} tdm_memory_info;

/* Get the current values. Among OpenCL drivers, only those with cl_amd_device_attribute_query
 * report free memory. Statuses: TDM_BAD_ARGUMENT. Thread-safe. Since 0.1. */
TDM_API tdm_status tdm_device_memory_info(tdm_device *device, tdm_memory_info *info);

/* The allocations to check, in this order. Zero-initialise, then set struct_size and the members
 * that are needed. */
typedef struct tdm_fit_request {
    size_t struct_size;        /* sizeof(tdm_fit_request) */
    tdm_memory_pool *pool;     /* NULL: the pool from which the calling thread would allocate */
    const tdm_layout *layouts; /* tensors */
    int layout_count;
    const size_t *sizes; /* buffers, in bytes */
    int size_count;
    const tdm_gemm_plan *const *plans; /* packed B if the plan takes one, then its workspace */
    int plan_count;
} tdm_fit_request;

typedef struct tdm_fit_report {
    size_t struct_size;    /* sizeof(tdm_fit_report), set by the caller */
    int fits;              /* 1: all requests can be live at once */
    uint64_t needed_bytes; /* sum of all requests, each rounded as the pool rounds it */
    /* bytes that could be allocated now if there were no fragmentation */
    uint64_t available_bytes;
    uint64_t cached_bytes;  /* part of needed_bytes in memory that the pool holds already */
    uint64_t grown_bytes;   /* bytes that the pool would have to take from the driver */
    uint64_t missing_count; /* requests that do not fit; later requests are still tried */
    uint64_t largest_missing_bytes;
} tdm_fit_report;

/*
 * Check if all requests would fit. Nothing is allocated or changed. The answer is what the pool
 * would do now. It includes fragmentation, pending frees and the trimming of the device's other
 * pools, but no callbacks. Other threads may change the answer. Other processes may change it too,
 * if the driver does not report free memory. The time is proportional to the number of blocks in
 * the pool. Statuses: TDM_BAD_ARGUMENT, TDM_BAD_SHAPE, TDM_BAD_DTYPE,
 * TDM_OUT_OF_HOST_MEMORY. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_device_would_fit(tdm_device *device, const tdm_fit_request *request,
                                        tdm_fit_report *report);

/* ---- when memory is short -------------------------------------------------------------------- */

/*
 * The library calls it when an allocation of `needed_bytes` fails. Before that, the library waits
 * for pending frees and releases the cached memory of all pools of the device. The callback returns
 * a value other than 0 if it freed something. The allocation is then tried again. If memory is
 * still short, the callback is called again, 64 times at most.
 *
 * The callback runs on the allocating thread, which then holds no lock of the library. It may
 * destroy tensors and buffers. It may allocate; no callback is called for these allocations. It
 * must not destroy objects that were passed to the allocating call.
 */
typedef int (*tdm_memory_callback)(void *user, uint64_t needed_bytes);

/*
 * Add a callback, which is called after those added earlier. Remove takes away the first one that
 * was added with the same function and user. After remove returns, no other thread is inside the
 * callback, unless remove was called from within a callback. Statuses: TDM_BAD_ARGUMENT,
 * TDM_OUT_OF_HOST_MEMORY, TDM_BAD_STATE (there is no such callback). Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_device_add_memory_callback(tdm_device *device, tdm_memory_callback function,
                                                  void *user);
TDM_API tdm_status tdm_device_remove_memory_callback(tdm_device *device,
                                                     tdm_memory_callback function, void *user);

/* ---- pinned host memory ---------------------------------------------------------------------- */

/* Pinned host memory, which the device copies from and to at full speed. */
typedef struct tdm_host_buffer tdm_host_buffer;

/*
 * Allocate `bytes` of pinned host memory; the content is undefined. Zero bytes is legal. The caller
 * releases it with tdm_host_buffer_destroy. The memory comes from a pool of the device with its own
 * bound (tdm_context_options.staging_budget_bytes), because pinning is slow. May block. Statuses:
 * TDM_BAD_ARGUMENT, TDM_OUT_OF_HOST_MEMORY, TDM_OUT_OF_DEVICE_MEMORY (the driver pins no more),
 * TDM_OVER_BUDGET. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_host_buffer_create(tdm_device *device, size_t bytes,
                                          tdm_host_buffer **buffer);

/* Release the buffer; NULL is accepted. Copies that use it must have completed, as with any host
 * memory. Thread-safe. Since 0.1. */
TDM_API void tdm_host_buffer_destroy(tdm_host_buffer *buffer);

/*
 * Returns the address of the first byte; NULL for NULL. It is constant for the buffer's life and
 * aligned to at least 16 bytes. Pass it to tdm_buffer_write, tdm_tensor_write_async and similar
 * functions. Thread-safe. Since 0.1.
 */
TDM_API void *tdm_host_buffer_address(const tdm_host_buffer *buffer);

/* Returns the size in bytes as requested; 0 for NULL. Thread-safe. Since 0.1. */
TDM_API size_t tdm_host_buffer_size(const tdm_host_buffer *buffer);

/* Get statistics of the device's pinned memory, in the form of tdm_device_memory_stats. Statuses:
 * TDM_BAD_ARGUMENT. Thread-safe. Since 0.1. */
TDM_API tdm_status tdm_device_host_memory_stats(const tdm_device *device, tdm_memory_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
