/*
 * Memory under the user's control: private pools, what to do when memory is short, pinned host
 * memory for fast copies.
 */
#ifndef TANDEM_MEMORY_CONTROL_H
#define TANDEM_MEMORY_CONTROL_H

#include <tandem/gemm.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- private pools ------------------------------------------------------------------------------ */

/*
 * A pool of its own on a device's memory: what is allocated from it shares no native allocation with
 * anything else, has its own budget, statistics and trim. The device's budget bounds the sum of all
 * its pools.
 */
typedef struct tdm_memory_pool tdm_memory_pool;

/* All zero but struct_size means the defaults. */
typedef struct tdm_memory_pool_options {
    size_t struct_size; /* sizeof(tdm_memory_pool_options) */
    const char *name; /* what monitors call it, below TDM_MEMORY_TAG_BYTES bytes; NULL: "private" */
    uint64_t budget_bytes; /* bound of its reserved bytes, 0: only the device's */
} tdm_memory_pool_options;

/*
 * Create a pool; options may be NULL. The caller releases it with tdm_memory_pool_destroy. Statuses:
 * TDM_BAD_ARGUMENT, TDM_OUT_OF_HOST_MEMORY. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_memory_pool_create(tdm_device *device,
                                          const tdm_memory_pool_options *options,
                                          tdm_memory_pool **pool);

/*
 * Release the caller's reference; NULL is accepted. Buffers of the pool, graphs that use them and
 * threads that entered it keep it alive; its memory goes back to the driver when the last is gone.
 * Does not wait. Thread-safe. Since 0.1.
 */
TDM_API void tdm_memory_pool_destroy(tdm_memory_pool *pool);

/* As tdm_buffer_create, from this pool, whatever the thread has entered. Thread-safe. Since 0.1. */
TDM_API tdm_status tdm_buffer_create_in(tdm_memory_pool *pool, size_t bytes, tdm_buffer **buffer);

/*
 * From here to tdm_memory_pool_leave, what the calling thread allocates on the pool's device comes
 * from the pool: buffers, tensors, workspaces inside of operations. Nests, 32 deep; the innermost
 * pool of a device counts for it. Leave ends the latest enter of the thread. Statuses of enter: TDM_BAD_ARGUMENT,
 * TDM_BAD_STATE (too deep); of leave: TDM_BAD_STATE (none is entered). Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_memory_pool_enter(tdm_memory_pool *pool);
TDM_API tdm_status tdm_memory_pool_leave(void);

/*
 * As tdm_device_memory_stats, tdm_device_set_memory_budget (0: what it was created with) and
 * tdm_device_trim for this pool alone. Statuses: TDM_BAD_ARGUMENT. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_memory_pool_stats(const tdm_memory_pool *pool, tdm_memory_stats *stats);
TDM_API tdm_status tdm_memory_pool_set_budget(tdm_memory_pool *pool, uint64_t bytes);
TDM_API tdm_status tdm_memory_pool_trim(tdm_memory_pool *pool);

/* ---- what there is, and whether it would do ---------------------------------------------------------- */

/* The memory of a device, in bytes. */
typedef struct tdm_memory_info {
    size_t struct_size; /* sizeof(tdm_memory_info), set by the caller */
    uint64_t total_bytes;
    int free_known;          /* 0: the driver does not tell what is free, or cannot be right */
    uint64_t free_bytes;     /* that no process has taken, as the driver says; 0 where not known */
    uint64_t reserved_bytes; /* held by all pools of this device object: live, cached and unused */
    uint64_t in_use_bytes;   /* of these: live blocks */
} tdm_memory_info;

/*
 * Ask for it now. Of OpenCL drivers only those with cl_amd_device_attribute_query tell what is free.
 * Statuses: TDM_BAD_ARGUMENT. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_device_memory_info(tdm_device *device, tdm_memory_info *info);

/* What is to be allocated, in this order. Zero-initialise, then set struct_size and what is needed. */
typedef struct tdm_fit_request {
    size_t struct_size;        /* sizeof(tdm_fit_request) */
    tdm_memory_pool *pool;     /* NULL: what the calling thread would allocate from */
    const tdm_layout *layouts; /* tensors */
    int layout_count;
    const size_t *sizes; /* buffers, in bytes */
    int size_count;
    const tdm_gemm_plan *const
        *plans; /* of each: packed B where it takes one, then its workspace */
    int plan_count;
} tdm_fit_request;

typedef struct tdm_fit_report {
    size_t struct_size;       /* sizeof(tdm_fit_report), set by the caller */
    int fits;                 /* everything finds a place, all of it live at once */
    uint64_t needed_bytes;    /* of all, each rounded as the pool rounds it */
    uint64_t available_bytes; /* that could be live besides what is, were there no fragments */
    uint64_t cached_bytes;    /* of needed: in memory that the pool holds already */
    uint64_t grown_bytes;     /* that the pool would have to take from the driver */
    uint64_t missing_count;   /* requests that find no place; those after them are still tried */
    uint64_t largest_missing_bytes;
} tdm_fit_report;

/*
 * Would all of it fit? Nothing is allocated or changed. The answer is what the pool would do now,
 * fragments, pending frees and the trimming of the device's other pools included, but without asking
 * callbacks; other threads, and other processes where the driver does not tell what is free, may
 * change it. Takes time in proportion to the blocks of the pool. Statuses: TDM_BAD_ARGUMENT,
 * TDM_BAD_SHAPE, TDM_BAD_DTYPE, TDM_OUT_OF_HOST_MEMORY. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_device_would_fit(tdm_device *device, const tdm_fit_request *request,
                                        tdm_fit_report *report);

/* ---- when memory is short ----------------------------------------------------------------------- */

/*
 * Asked when an allocation of `needed_bytes` fails after pending frees were waited for and cached
 * memory of all pools of the device went back. Not 0: something was freed, the allocation is tried
 * again, and the callback asked again if that is still not enough (64 times at most). It runs on the
 * allocating thread without any lock of the library held: it may destroy tensors and buffers, and
 * allocate (it is not asked for these). It must not end the use of objects that the allocating call
 * was given.
 */
typedef int (*tdm_memory_callback)(void *user, uint64_t needed_bytes);

/*
 * Add a callback, to be asked after those before it; remove the first that was added with the same
 * function and user. After the removal returned, no other thread is inside the callback, unless it
 * was called from within a callback. Statuses: TDM_BAD_ARGUMENT, TDM_OUT_OF_HOST_MEMORY,
 * TDM_BAD_STATE (there is no such callback). Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_device_add_memory_callback(tdm_device *device, tdm_memory_callback function,
                                                  void *user);
TDM_API tdm_status tdm_device_remove_memory_callback(tdm_device *device,
                                                     tdm_memory_callback function, void *user);

/* ---- pinned host memory ------------------------------------------------------------------------ */

/* Host memory that the device copies from and to at full speed. */
typedef struct tdm_host_buffer tdm_host_buffer;

/*
 * Allocate `bytes` of pinned host memory; the content is undefined. Zero bytes is legal. It comes
 * from a pool of the device's with a bound of its own (tdm_context_options.staging_budget_bytes),
 * so that pinning, which is slow, is paid once. Statuses: TDM_BAD_ARGUMENT, TDM_OUT_OF_HOST_MEMORY,
 * TDM_OUT_OF_DEVICE_MEMORY (the driver pins no more), TDM_OVER_BUDGET. May block. Thread-safe.
 * Since 0.1.
 */
TDM_API tdm_status tdm_host_buffer_create(tdm_device *device, size_t bytes,
                                          tdm_host_buffer **buffer);

/*
 * Release it; NULL is accepted. As with any host memory that was lent to a copy: not before the
 * stream has passed. Thread-safe. Since 0.1.
 */
TDM_API void tdm_host_buffer_destroy(tdm_host_buffer *buffer);

/*
 * Its first byte, constant for its life and aligned to 16 bytes at least; NULL for
 * NULL. Give it to tdm_buffer_write, tdm_tensor_write_async and their kin. Thread-safe. Since 0.1.
 */
TDM_API void *tdm_host_buffer_address(const tdm_host_buffer *buffer);

/* Size in bytes as requested; 0 for NULL. Thread-safe. Since 0.1. */
TDM_API size_t tdm_host_buffer_size(const tdm_host_buffer *buffer);

/*
 * Statistics of the device's pinned memory, as tdm_device_memory_stats gives those of its own
 * memory. Statuses: TDM_BAD_ARGUMENT. Thread-safe. Since 0.1.
 */
TDM_API tdm_status tdm_device_host_memory_stats(const tdm_device *device, tdm_memory_stats *stats);

#ifdef __cplusplus
}
#endif

#endif
